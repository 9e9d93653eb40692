//! A copy of what a store has published, which is a store itself.
//!
//! It may be taken while a server has the store open. The catalogue is copied first: files come before
//! the rows that name them, so what the copy names is there, whole, and does not change any more. Only
//! a deletion takes files away; then the catalogue is copied anew and names them no longer. The backup
//! gets its name once all of it is on disk.

use super::*;
use crate::files::{ensure_directories, exists};
use std::collections::BTreeSet;

/// How much a backup holds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct BackedUp {
    /// Datasets, as they were published when the catalogue was copied.
    pub datasets: u64,
    /// Segments of all of them.
    pub segments: u64,
    /// Bytes of these.
    pub bytes: u64,
}

/// Copies what the store in `directories` has published to `target`, which must not exist: a store of one
/// directory that a server can open. Every panel is checked before it is written. `progress` is told the bytes copied,
/// and of how many.
///
/// # Errors
/// No store, or not all of its directories, a target that exists or is being written, damaged datasets: then there is no backup.
pub fn backup(
    directories: impl Into<Directories>,
    target: &Path,
    progress: &dyn Fn(u64, u64),
) -> Result<BackedUp, StoreError> {
    let directories = directories.into();
    check_is_store(&directories)?;
    // Without a slash at its end.
    let target: PathBuf = target.components().collect();
    if exists(&target)? {
        return Err(StoreError::Exists { path: target });
    }
    let partial = partial_path(&target);
    ensure_directories(&partial)?;
    let _lock = lock(&partial.join("lock"), &partial, "target")?;
    let copied = Copying {
        from: &directories,
        to: &partial,
        progress,
    }
    .run()
    .and_then(|copied| rename_durably(&partial, &target).map(|()| copied));
    if copied.is_err() {
        // Best effort: the next attempt clears what stays.
        let _ = fs::remove_dir_all(&partial);
    }
    copied
}

/// A published dataset, and how it is striped where it is copied from.
type Copied = (Manifest, Striping);

/// A published dataset whose file is not there: damage, or a deletion meanwhile.
type Gone = Option<(DatasetId, StoreError)>;

struct Copying<'a> {
    from: &'a Directories,
    to: &'a Path,
    progress: &'a dyn Fn(u64, u64),
}

impl Copying<'_> {
    fn run(&self) -> Result<BackedUp, StoreError> {
        // An attempt that was interrupted may have left anything.
        remove_dataset(&self.to.join(SEGMENTS))?;
        remove_if_there(&self.to.join(CATALOGUE))?;
        ensure_directory(&self.to.join(SEGMENTS))?;
        let mut gone: Gone = None;
        loop {
            let published = self.copy_catalogue()?;
            if let Some((id, error)) = gone
                && published.iter().any(|(manifest, _)| manifest.dataset == id)
            {
                return Err(error);
            }
            self.remove_all_but(&published)?;
            gone = self.copy_segments(&published)?;
            if gone.is_none() {
                sync_directory(self.to)?;
                return Ok(held_by(&published));
            }
        }
    }

    /// Copies the catalogue as it is at one moment, without uploads under way, as that of a store of one
    /// directory; what it has.
    fn copy_catalogue(&self) -> Result<Vec<Copied>, StoreError> {
        let copy = self.to.join(CATALOGUE);
        let mut copy = Catalogue::copy_published(&self.from.home().join(CATALOGUE), &copy)?;
        self.from.check_all(copy.striped()?)?;
        let records = copy.all(Table::Dataset)?;
        let copied = |record| -> Result<Copied, StoreError> {
            Ok((stored_manifest(record)?, copy.striping(record.id)?))
        };
        let copied = records.iter().map(copied).collect::<Result<_, _>>()?;
        copy.unstripe()?;
        Ok(copied)
    }

    /// Removes what an earlier catalogue still named.
    fn remove_all_but(&self, published: &[Copied]) -> Result<(), StoreError> {
        let segments = self.to.join(SEGMENTS);
        let named: BTreeSet<String> = published
            .iter()
            .map(|(manifest, _)| manifest.dataset.to_string())
            .collect();
        let copied = names(&segments)?.into_iter();
        copied
            .filter(|name| !named.contains(name))
            .try_for_each(|name| remove_dataset(&segments.join(name)))
    }

    /// Copies the segments that are not there yet, to the end or to the first that is gone.
    fn copy_segments(&self, published: &[Copied]) -> Result<Gone, StoreError> {
        let total = held_by(published).bytes;
        let mut done = 0;
        for (manifest, striping) in published {
            let dataset = self.to.join(SEGMENTS).join(manifest.dataset.to_string());
            ensure_directory(&dataset)?;
            for (index, entry) in (0..).zip(&manifest.segments) {
                let to = dataset.join(segment_name(index));
                if !exists(&to)? {
                    let directories = striping.directories(index);
                    let paths = self.from.of_segment(manifest.dataset, index, directories);
                    let from = match Segment::open_expected(paths, manifest, index) {
                        Err(error) if is_missing(&error) => {
                            return Ok(Some((manifest.dataset, error)));
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

fn is_missing(error: &StoreError) -> bool {
    matches!(
        error,
        StoreError::Damaged {
            fault: Fault::Missing,
            ..
        }
    )
}

fn held_by(published: &[Copied]) -> BackedUp {
    let sum = |count: fn(&Manifest) -> u64| published.iter().map(|(it, _)| count(it)).sum();
    BackedUp {
        datasets: published.len() as u64,
        segments: sum(|manifest| manifest.segments.len() as u64),
        bytes: sum(Manifest::segment_bytes),
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests;
