//! Checks and backups of a whole data directory: the store, and genome collections with search counts, in the directory
//! itself and in each namespace.

use oboro_format::files::ensure_directories;
use oboro_format::{Damage, FormatError, Scrubbed};
use oboro_genome_server::{CollectionScrub, GenomeError, collection_bytes, copy_collections};
use oboro_store::{Access, BackupSize, Scrub, StoreError, backup_with, home_of, namespaces_in};
use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use thiserror::Error;

/// Returns the homes in `data`, relative to it: the directory itself and each namespace.
pub(crate) fn homes(data: &Path) -> Result<Vec<PathBuf>, StoreError> {
    let namespaces = namespaces_in(data)?.into_iter();
    Ok(namespaces.map(|it| home_of(Path::new(""), &it)).collect())
}

/// Errors of the store or of the collections.
#[derive(Debug, Error)]
#[allow(missing_docs)]
pub enum WholeError {
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(transparent)]
    Genome(#[from] GenomeError),
}

impl From<FormatError> for WholeError {
    fn from(error: FormatError) -> Self {
        Self::Store(error.into())
    }
}

/// Check in progress of a whole data directory.
pub struct WholeScrub {
    store: Scrub,
    collections: VecDeque<CollectionScrub>,
    /// Result of the collections checked before.
    before: Scrubbed,
    total_bytes: u64,
}

impl WholeScrub {
    /// Starts to check a data directory that no server has open, without changing it.
    ///
    /// # Errors
    /// Errors of [`Scrub::of_directory`]; collections that cannot be listed.
    pub fn of_directory(data: &Path) -> Result<Self, WholeError> {
        let homes = homes(data)?.into_iter().map(|home| data.join(home));
        Self::new(Scrub::of_directory(data)?, homes)
    }

    /// Starts to check one dataset of a server, or all the caller's data.
    pub(crate) fn of_server(access: &Access, name: Option<&str>) -> Result<Self, WholeError> {
        let own = name.is_none().then(|| access.home());
        Self::new(access.scrub(name)?, own)
    }

    fn new(store: Scrub, homes: impl IntoIterator<Item = PathBuf>) -> Result<Self, WholeError> {
        let collections: VecDeque<_> = homes
            .into_iter()
            .map(|home| CollectionScrub::of_directory(&home))
            .collect::<Result<_, _>>()?;
        Ok(Self {
            total_bytes: collections.iter().map(CollectionScrub::total_bytes).sum(),
            store,
            collections,
            before: Scrubbed::default(),
        })
    }

    /// Returns the bytes to read.
    pub fn total_bytes(&self) -> u64 {
        self.store.total_bytes() + self.total_bytes
    }

    /// Returns the result so far.
    pub fn scrubbed(&self) -> Scrubbed {
        let present = self.collections.front().map(CollectionScrub::scrubbed);
        [self.before, present.unwrap_or_default()]
            .into_iter()
            .fold(self.store.scrubbed(), sum)
    }

    /// Checks the next part. Returns the bytes read and the damage found, `None` after the last.
    ///
    /// # Errors
    /// Errors other than damage: files that may not be opened, too many open files.
    pub fn next_part(&mut self) -> Result<Option<(u64, Option<Damage>)>, WholeError> {
        if let Some(part) = self.store.next_part()? {
            return Ok(Some((part.read, part.damage)));
        }
        while let Some(collections) = self.collections.front_mut() {
            if let Some(part) = collections.next_part()? {
                return Ok(Some((part.read, part.damage)));
            }
            self.before = sum(self.before, collections.scrubbed());
            self.collections.pop_front();
        }
        Ok(None)
    }
}

fn sum(one: Scrubbed, other: Scrubbed) -> Scrubbed {
    Scrubbed {
        datasets: one.datasets + other.datasets,
        segments: one.segments + other.segments,
        collections: one.collections + other.collections,
        parts: one.parts + other.parts,
        bytes: one.bytes + other.bytes,
        damaged: one.damaged + other.damaged,
    }
}

/// Size of a backup.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct WholeBackup {
    /// Size of the store.
    pub store: BackupSize,
    /// Number of genome collections.
    pub collections: u64,
    /// Total bytes.
    pub bytes: u64,
}

/// Copies a data directory to `target`, which must not exist: published datasets, genome collections and search counts,
/// which are marked with the current time. Checks everything. `progress` receives the bytes copied and the total.
///
/// # Errors
/// Errors of [`oboro_store::backup`]; damaged collections or counts, for which no backup is left.
pub fn backup(
    data: &Path,
    target: &Path,
    progress: &dyn Fn(u64, u64),
) -> Result<WholeBackup, WholeError> {
    let homes = homes(data)?;
    let bytes = homes.iter().map(|home| collection_bytes(&data.join(home)));
    let beside: u64 = bytes.sum::<Result<_, _>>()?;
    let of_store = std::cell::Cell::new(0);
    let on_progress = |done, total| {
        of_store.set(total);
        progress(done, total + beside);
    };
    let (store, copied) = backup_with(data, target, &on_progress, |partial| {
        let mut copied = WholeBackup::default();
        for home in &homes {
            ensure_directories(&partial.join(home))?;
            let before = of_store.get() + copied.bytes;
            let on_progress = |done: u64| progress(before + done, of_store.get() + beside);
            let more = copy_collections(&data.join(home), &partial.join(home), &on_progress)?;
            copied.collections += more.collections;
            copied.bytes += more.bytes;
        }
        Ok::<_, WholeError>(copied)
    })?;
    Ok(WholeBackup {
        store,
        collections: copied.collections,
        bytes: store.bytes + copied.bytes,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use oboro_genome_server::{Budgets, Kind, SyntheticPanel};
    use std::fs;

    #[test]
    fn namespaces_are_checked_and_copied_like_the_directory_itself() {
        let directory = tempfile::tempdir().unwrap();
        let path = |name: &str| directory.path().join(name);
        drop(oboro_store::Store::open(&path("data")).unwrap());
        let homes = ["data", "data/namespaces/a", "data/namespaces/b"].map(path);
        for home in &homes {
            let budgets = Budgets::open(home);
            budgets.spend("c", Kind::Panel, "p", 1, 10).unwrap();
        }
        let of = SyntheticPanel {
            haplotypes: 4,
            sites: 5,
            seed: 1,
        };
        let collections = oboro_genome_server::Collections::open(&homes[2]);
        let keep = oboro_genome_server::Existing::Keep;
        oboro_genome_server::generate_panel(&collections, "p", &of, keep).unwrap();
        let copied = backup(&path("data"), &path("copy"), &|_, _| {}).unwrap();
        assert_eq!((copied.collections, copied.store.datasets), (1, 0));
        let scrub = |data: &Path| {
            let mut scrub = WholeScrub::of_directory(data).unwrap();
            let mut found = Vec::new();
            while let Some((_, damage)) = scrub.next_part().unwrap() {
                found.extend(damage);
            }
            assert_eq!(scrub.scrubbed().damaged, found.len() as u64);
            (scrub.scrubbed(), found)
        };
        let (scrubbed, found) = scrub(&path("copy"));
        assert_eq!(found, []);
        assert_eq!((scrubbed.collections, scrubbed.bytes), (1, copied.bytes));
        for namespace in ["", "namespaces/a", "namespaces/b"] {
            let budgets = Budgets::open(&path("copy").join(namespace));
            assert!(budgets.restored().unwrap().is_some());
        }
        let panel = homes[2].join("genome/p.panel");
        let mut bytes = fs::read(&panel).unwrap();
        bytes[4096] ^= 1;
        fs::write(&panel, bytes).unwrap();
        let (_, found) = scrub(&path("data"));
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].path.as_ref(), Some(&panel));
        let refusal = backup(&path("data"), &path("other"), &|_, _| {}).unwrap_err();
        assert!(refusal.to_string().contains("panel \"p\""), "{refusal}");
        assert!(!path("other").exists());
    }
}
