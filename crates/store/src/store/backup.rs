//! Backup: a copy of a store's published data, which is itself a store.
//!
//! A server may have the store open meanwhile. The catalogue is copied first: files are created before the rows
//! that name them, so everything the copy names exists, is complete, and no longer changes. Only a deletion or a
//! rewriting removes files; then the catalogue is copied again and no longer names them. Notes of rewritings are copied
//! last: if one is about a dataset copied before it was rewritten, the process is repeated. The backup gets its name
//! once all of it is on disk.

use super::directory::{check_is_store, has_catalogue, remove_dataset};
use super::stored_manifest::stored_manifest;
use super::{grants, namespaces, recovery, rewritten};
use crate::catalogue::{Catalogue, Table};
use crate::error::StoreError;
use crate::layout::{CATALOGUE, NAMESPACES, SEGMENTS, dataset_path, home_of, segment_path};
use crate::store_id::{CatalogueIdentity, StoreId};
use oboro_format::files::{
    Lock, ensure_directories, ensure_directory, exists, io_error, lock, names, parent,
    partial_path, remove_if_there, rename_durably, sweep, sync_directory,
};
use oboro_format::{Corruption, Digest, FormatError, Manifest, Segment};
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// Marker of a backup in progress, locked by the process that makes it. A directory without it is not a backup's.
const UNFINISHED: &str = "unfinished-backup";

/// Size of a backup.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct BackupSize {
    /// Number of datasets, as published when the catalogue was copied.
    pub datasets: u64,
    /// Number of segments of all datasets.
    pub segments: u64,
    /// Bytes of the segments.
    pub bytes: u64,
}

/// Copies the published data of the store in a directory to `target`, which must not exist; the copy is a store that a
/// server can open. Checks every panel before writing it. `progress` receives the bytes copied and the total.
///
/// # Errors
/// No store, a target that exists or is being written, other content where it is to be written, damaged datasets; then
/// no backup is left.
pub fn backup(
    directory: &Path,
    target: &Path,
    progress: &dyn Fn(u64, u64),
) -> Result<BackupSize, StoreError> {
    backup_with(directory, target, progress, |_| Ok(())).map(|(copied, ())| copied)
}

/// As [`backup`]; then `also` copies further parts of the backup, durably, into the given directory, before the backup
/// gets its name.
///
/// # Errors
/// Errors of [`backup`] and of `also`; then no backup is left.
pub fn backup_with<T, E: From<StoreError>>(
    directory: &Path,
    target: &Path,
    progress: &dyn Fn(u64, u64),
    also: impl FnOnce(&Path) -> Result<T, E>,
) -> Result<(BackupSize, T), E> {
    let (target, partial, _lock) = begin(directory, target)?;
    let copied = copy_store(directory, &partial, progress);
    let copied = copied.map_err(E::from).and_then(|copied| {
        let more = also(&partial)?;
        rename_durably(&partial, &target).map_err(StoreError::from)?;
        Ok((copied, more))
    });
    // Best effort: the next attempt removes the leftovers, and a store ignores the mark.
    let _ = match copied {
        Ok(_) => fs::remove_file(target.join(UNFINISHED)),
        Err(_) => fs::remove_dir_all(&partial),
    };
    copied
}

/// Returns the target without a trailing slash, and its temporary directory, locked and marked.
fn begin(directory: &Path, target: &Path) -> Result<(PathBuf, PathBuf, Lock), StoreError> {
    check_is_store(directory)?;
    let target: PathBuf = target.components().collect();
    if exists(&target)? {
        return Err(FormatError::Exists { path: target }.into());
    }
    let partial = partial_path(&target);
    if exists(&partial)? && !is_of_a_backup(&partial)? {
        return Err(FormatError::Exists { path: partial }.into());
    }
    ensure_directories(&partial)?;
    let lock = lock(&partial.join(UNFINISHED), &partial, "target")?;
    // Before anything else exists.
    sync_directory(&partial)?;
    Ok((target, partial, lock))
}

/// Copies all namespaces, after their grants: later grants are not copied.
fn copy_store(
    from: &Path,
    to: &Path,
    progress: &dyn Fn(u64, u64),
) -> Result<BackupSize, StoreError> {
    grants::copy_grants(from, to)?;
    let id = StoreId::of(from, None)?;
    id.keep(to, None)?;
    remove_dataset(&to.join(NAMESPACES))?;
    let mut all = BackupSize::default();
    for name in namespaces::namespaces_in(from)? {
        let from = home_of(from, &name);
        if !has_catalogue(&from)? {
            continue;
        }
        let to = home_of(to, &name);
        ensure_directories(&to)?;
        let before = all.bytes;
        let progress = |bytes, total| progress(before + bytes, before + total);
        let copied = BackupCopy {
            identity: CatalogueIdentity::new(id, &name),
            from: &from,
            to: &to,
            progress: &progress,
        }
        .run()?;
        all.datasets += copied.datasets;
        all.segments += copied.segments;
        all.bytes += copied.bytes;
        sync_directory(parent(&to))?;
    }
    sync_directory(to)?;
    Ok(all)
}

/// Returns true if an earlier attempt created this directory; an empty one may be the start of one.
fn is_of_a_backup(directory: &Path) -> Result<bool, StoreError> {
    let is_empty = || Ok(fs::read_dir(directory)?.next().is_none());
    Ok(exists(&directory.join(UNFINISHED))? || is_empty().map_err(io_error("list", directory))?)
}

/// Root of a published version with a missing file, and the error: damage, or a concurrent deletion or rewriting.
type Gone = Option<(Digest, StoreError)>;

struct BackupCopy<'a> {
    identity: CatalogueIdentity,
    from: &'a Path,
    to: &'a Path,
    progress: &'a dyn Fn(u64, u64),
}

impl BackupCopy<'_> {
    fn run(&self) -> Result<BackupSize, StoreError> {
        // An interrupted attempt may have left anything.
        remove_dataset(&self.to.join(SEGMENTS))?;
        remove_if_there(&self.to.join(CATALOGUE))?;
        ensure_directory(&self.to.join(SEGMENTS))?;
        let mut gone: Gone = None;
        loop {
            let published = self.copy_catalogue()?;
            if let Some((root, error)) = gone
                && published.iter().any(|manifest| manifest.root() == root)
            {
                return Err(error);
            }
            self.remove_all_but(&published)?;
            gone = self.copy_segments(&published)?;
            if gone.is_some() {
                continue;
            }
            recovery::copy_recoveries(self.from, self.to, &published)?;
            rewritten::copy_notes(self.from, self.to)?;
            let mut replaced = published
                .iter()
                .map(|it| rewritten::is_replaced(self.to, it));
            if !replaced.try_fold(false, |any, it| Ok::<_, StoreError>(any | it?))? {
                sync_directory(self.to)?;
                return Ok(held_by(&published));
            }
        }
    }

    /// Copies a consistent snapshot of the catalogue, without uploads in progress; returns its content.
    fn copy_catalogue(&self) -> Result<Vec<Manifest>, StoreError> {
        let copy = self.to.join(CATALOGUE);
        let mut copy =
            Catalogue::copy_published(&self.from.join(CATALOGUE), &copy, &self.identity)?;
        let mut published = Vec::new();
        for record in copy.all(Table::Dataset)? {
            let manifest = stored_manifest(&record)?;
            if rewritten::is_replaced(self.from, &manifest)? {
                // Restored from an old copy, and not uploaded since.
                copy.withdraw(record.id)?;
            } else {
                published.push(manifest);
            }
        }
        Ok(published)
    }

    /// Removes the data that only an earlier catalogue named.
    fn remove_all_but(&self, published: &[Manifest]) -> Result<(), StoreError> {
        let segments = self.to.join(SEGMENTS);
        let named: BTreeSet<String> = published
            .iter()
            .map(|manifest| manifest.dataset.to_string())
            .collect();
        let copied = names(&segments)?.into_iter();
        copied
            .filter(|name| !named.contains(name))
            .try_for_each(|name| remove_dataset(&segments.join(name)))
    }

    /// Copies the segments that are not copied yet, up to the first that is missing.
    fn copy_segments(&self, published: &[Manifest]) -> Result<Gone, StoreError> {
        let total = held_by(published).bytes;
        let mut done = 0;
        for manifest in published {
            let dataset = dataset_path(self.to, manifest.dataset);
            ensure_directory(&dataset)?;
            sweep(&dataset, &manifest.numbers(), &BTreeSet::new())?;
            for (index, entry) in (0..).zip(&manifest.segments) {
                let to = segment_path(self.to, manifest.dataset, entry.number);
                if !exists(&to)? {
                    let path = segment_path(self.from, manifest.dataset, entry.number);
                    let from = match Segment::open_named(&path, manifest, index) {
                        Err(error) if is_missing(&error) => {
                            return Ok(Some((manifest.root(), error.into())));
                        }
                        opened => opened?,
                    };
                    from.copy_to(&to, |bytes| (self.progress)(done + bytes, total))?;
                }
                done += entry.bytes;
            }
            sync_directory(&dataset)?;
        }
        Ok(None)
    }
}

fn is_missing(error: &FormatError) -> bool {
    matches!(
        error,
        FormatError::Damaged {
            corruption: Corruption::Missing,
            ..
        }
    )
}

fn held_by(published: &[Manifest]) -> BackupSize {
    let sum = |count: fn(&Manifest) -> u64| published.iter().map(count).sum();
    BackupSize {
        datasets: published.len() as u64,
        segments: sum(|manifest| manifest.segments.len() as u64),
        bytes: sum(Manifest::segment_bytes),
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests;
