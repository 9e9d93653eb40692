//! Sweep of the leftovers of a crash or an older catalogue, which are removed or set aside when a namespace is opened.

use super::directory::remove_dataset;
use super::namespace::{Namespace, State};
use super::recovery;
use super::stored_manifest::stored_manifest;
use crate::catalogue::{Record, Table};
use crate::error::StoreError;
use crate::layout::{SEGMENTS, UNKNOWN, dataset_path};
use oboro_format::DatasetId;
use oboro_format::files::{ensure_directory, io_error, names, sweep, sync_directory};
use std::collections::BTreeSet;
use std::path::Path;
use std::{fs, iter};

/// Returns true if a dataset's directory has a complete segment.
fn holds_segments(directory: &Path) -> Result<bool, StoreError> {
    Ok(names(directory)?.iter().any(|name| name.ends_with(".seg")))
}

/// Returns true if a dataset's directory has more than the leftovers of a deletion or a cancelled upload, without a row
/// in the catalogue: one restored from an old copy does not know newer datasets.
pub(super) fn is_forgotten(
    state: &State,
    id: DatasetId,
    directory: &Path,
) -> Result<bool, StoreError> {
    let catalogue = &state.catalogue;
    let mut all = Table::ALL.into_iter();
    let is_absent = |table| Ok::<_, StoreError>(catalogue.by_id(table, id)?.is_none());
    Ok(all.try_fold(true, |absent, table| {
        Ok::<_, StoreError>(absent && is_absent(table)?)
    })? && !catalogue.is_purged(id)?
        && holds_segments(directory)?)
}

/// Moves the files of a dataset that the catalogue does not know to a directory from which nothing is ever removed.
fn set_aside(home: &Path, id: DatasetId) -> Result<(), StoreError> {
    let unknown = home.join(UNKNOWN);
    ensure_directory(&unknown)?;
    let from = dataset_path(home, id);
    // This dataset may have been forgotten before.
    let earlier = (1..).map(|number| unknown.join(format!("{id}.{number}")));
    let mut names = iter::once(unknown.join(id.to_string())).chain(earlier);
    let to = names
        .find(|name| !name.exists())
        .expect("numbers do not end");
    fs::rename(&from, &to).map_err(io_error("set aside", &from))?;
    sync_directory(&unknown)?;
    Ok(sync_directory(&home.join(SEGMENTS))?)
}

/// Removes all files that no row of the catalogue names, and the objects of deleted datasets.
pub(super) fn sweep_all(namespace: &mut Namespace) -> Result<(), StoreError> {
    let state = namespace.state.get_mut();
    let keeps_files = namespace.backend.keeps_files();
    sweep_files(state, &namespace.home, keeps_files)?;
    recovery::sweep_recoveries(&namespace.home, &state.catalogue)?;
    namespace.backend.sweep(&state.catalogue)
}

/// Removes all files that no row of the catalogue names.
fn sweep_files(state: &State, home: &Path, keeps_files: bool) -> Result<(), StoreError> {
    let datasets = home.join(SEGMENTS);
    for name in names(&datasets)? {
        let Ok(id) = name.parse::<DatasetId>() else {
            continue;
        };
        let directory = datasets.join(&name);
        let published = state.catalogue.by_id(Table::Dataset, id)?;
        // Deleted datasets are kept like published ones.
        let published = match published {
            None => state.catalogue.by_id(Table::Deleted, id)?,
            published => published,
        };
        let pending = state.catalogue.by_id(Table::Upload, id)?;
        if published.is_none() && pending.is_none() {
            // Datasets that only the catalogue forgot must not be lost.
            if keeps_files && is_forgotten(state, id, &directory)? {
                set_aside(home, id)?
            } else {
                remove_dataset(&directory)?
            }
            continue;
        }
        // With a damaged manifest nothing is removed: the dataset reports it when used.
        let numbers = |record: Option<Record>| {
            record.map_or(Ok(BTreeSet::new()), |record| {
                stored_manifest(&record).map(|manifest| manifest.numbers())
            })
        };
        if let (Ok(published), Ok(pending)) = (numbers(published), numbers(pending)) {
            sweep(&directory, &published, &(&pending - &published))?;
        }
    }
    Ok(())
}
