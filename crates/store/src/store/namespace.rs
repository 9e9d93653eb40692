//! One namespace of a store: its catalogue, its files and their state.

use super::backend::Backend;
use super::common::Common;
use super::directory::{has_catalogue, length, remove_dataset};
use super::local::Local;
use super::remote::Remote;
use crate::cache_marker::check_is_no_cache;
use crate::catalogue::{Catalogue, Change, Record, Table};
use crate::error::StoreError;
use crate::layout::{CATALOGUE, RESERVE, dataset_path, home_of, prefix_of, segment_path};
use crate::store_id::CatalogueIdentity;
use oboro_format::files::{ensure_directories, ensure_directory, exists, remove_if_there, sweep};
use oboro_format::{DatasetId, FormatError, MAX_NAME_CHARS, Manifest, is_name};
use oboro_residency::StoredSegment;
use parking_lot::{Mutex, MutexGuard};
use std::collections::{BTreeSet, HashMap, HashSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::SystemTime;

/// Reserved bytes, which let a full disk take the catalogue changes that free space.
const RESERVE_BYTES: usize = 256 << 10;

/// The datasets of one namespace.
pub(super) struct Namespace {
    pub(super) name: Arc<str>,
    pub(super) home: PathBuf,
    pub(super) common: Arc<Common>,
    /// Permanent storage.
    pub(super) backend: Box<dyn Backend>,
    /// Partial files whose bytes may be lost although they can still be read.
    pub(super) unsound: Mutex<HashSet<PathBuf>>,
    /// Datasets whose recovery copies are being received.
    pub(super) keeping: Mutex<HashSet<DatasetId>>,
    pub(super) state: Mutex<State>,
}

pub(super) struct State {
    pub(super) catalogue: Catalogue,
    /// Segments being received, by number, with a flag that is set when their upload is cancelled.
    pub(super) receiving: HashMap<(DatasetId, u32), Arc<AtomicBool>>,
    /// Time of an upload's last completed segment, in seconds since 1970.
    pub(super) touched: HashMap<DatasetId, i64>,
    /// Datasets restored from a copy that predates a rewriting.
    pub(super) outdated: HashSet<DatasetId>,
}

impl Namespace {
    /// Opens a namespace as it is.
    pub(super) fn open(common: &Arc<Common>, name: Arc<str>) -> Result<Self, StoreError> {
        let home = home_of(&common.home, &name);
        let identity = CatalogueIdentity::new(common.id, &name);
        ensure_directories(&home)?;
        match &common.objects {
            None => {
                check_is_no_cache(&home)?;
                has_catalogue(&home)?;
                let catalogue = Catalogue::open(&home.join(CATALOGUE), &identity)?;
                Ok(Self::local(common, name, catalogue))
            }
            Some(cache) => {
                let cache = cache.below(&prefix_of(&name));
                let (remote, catalogue) = Remote::open(cache, &home, &identity)?;
                Ok(Self::with(common, name, Box::new(remote), catalogue))
            }
        }
    }

    /// Opens a namespace in its directory.
    pub(super) fn local(common: &Arc<Common>, name: Arc<str>, catalogue: Catalogue) -> Self {
        let backend = Local::new(&home_of(&common.home, &name));
        Self::with(common, name, Box::new(backend), catalogue)
    }

    fn with(
        common: &Arc<Common>,
        name: Arc<str>,
        backend: Box<dyn Backend>,
        catalogue: Catalogue,
    ) -> Self {
        Self {
            home: home_of(&common.home, &name),
            name,
            common: Arc::clone(common),
            backend,
            unsound: Mutex::default(),
            keeping: Mutex::default(),
            state: Mutex::new(State {
                catalogue,
                receiving: HashMap::new(),
                touched: HashMap::new(),
                outdated: HashSet::new(),
            }),
        }
    }

    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        // A panic in another thread cannot leave the state half-changed: SQLite rolls back, and the maps change in
        // single steps.
        self.state.lock()
    }

    pub(super) fn catalogue(&self) -> PathBuf {
        self.home.join(CATALOGUE)
    }

    /// Returns the file of a segment, whose existence means that the segment is complete.
    pub(super) fn segment(&self, manifest: &Manifest, index: u32) -> PathBuf {
        let entry = &manifest.segments[index as usize];
        segment_path(&self.home, manifest.dataset, entry.number)
    }

    /// Opens the segment that `manifest` names as its `index`-th.
    pub(super) fn open_segment(
        &self,
        manifest: &Manifest,
        index: u32,
    ) -> Result<StoredSegment, StoreError> {
        let path = self.segment(manifest, index);
        self.backend.open_segment(&path, manifest, index)
    }

    /// Changes the published state: in permanent storage first.
    pub(super) fn make(
        &self,
        catalogue: &mut Catalogue,
        change: Change<'_>,
    ) -> Result<(), StoreError> {
        self.backend.put_catalogue(catalogue, change)?;
        catalogue.make(change)
    }

    pub(super) fn reserve(&self) -> PathBuf {
        self.home.join(RESERVE)
    }

    /// Returns the offset at which an upload can resume a partial file; 0 for a file longer than the segment.
    pub(super) fn usable_length(&self, partial: &Path, announced: u64) -> Result<u64, StoreError> {
        if self.unsound.lock().contains(partial) {
            return Ok(0);
        }
        let length = length(partial)?.unwrap_or(0);
        Ok(if length <= announced { length } else { 0 })
    }

    /// Removes a partial file that is not part of its segment.
    pub(super) fn remove_unsound(&self, partial: &Path) -> Result<(), StoreError> {
        remove_if_there(partial)?;
        self.unsound.lock().remove(partial);
        Ok(())
    }

    /// The directory of a dataset.
    pub(super) fn dataset(&self, id: DatasetId) -> PathBuf {
        dataset_path(&self.home, id)
    }

    /// Creates the directory of a dataset unless it exists.
    pub(super) fn ensure_dataset(&self, id: DatasetId) -> Result<(), StoreError> {
        Ok(ensure_directory(&self.dataset(id))?)
    }

    /// Removes the files of a dataset's segments except these, by number.
    pub(super) fn sweep(&self, id: DatasetId, published: &BTreeSet<u32>) -> Result<(), StoreError> {
        let directory = self.dataset(id);
        if exists(&directory)? {
            sweep(&directory, published, &BTreeSet::new())?;
        }
        Ok(())
    }

    /// Keeps segments in use readable before all but these, by number, are removed, as far as descriptors suffice.
    pub(super) fn keep_readable(&self, id: DatasetId, stay: &BTreeSet<u32>) {
        self.common.tier.keep_readable(&self.dataset(id), stay);
    }

    pub(super) fn remove_dataset(&self, id: DatasetId) -> Result<(), StoreError> {
        remove_dataset(&self.dataset(id))
    }

    /// Creates the reserve unless it exists, as far as space permits.
    pub(super) fn fill_reserve(&self) {
        let path = self.reserve();
        if !matches!(length(&path), Ok(Some(length)) if length == RESERVE_BYTES as u64) {
            // Incompressible data, for file systems that compress.
            let mut bytes = vec![0; RESERVE_BYTES];
            blake3::Hasher::new().finalize_xof().fill(&mut bytes);
            let _ = fs::write(path, bytes);
        }
    }

    /// Makes a change of the catalogue that leads to freed space, even on a full disk.
    pub(super) fn change_to_free(
        &self,
        catalogue: &mut Catalogue,
        change: impl Fn(&mut Catalogue) -> Result<(), StoreError>,
    ) -> Result<(), StoreError> {
        match change(catalogue) {
            Err(StoreError::Format(FormatError::DiskFull { .. })) => {
                remove_if_there(&self.reserve())?;
                change(catalogue)
            }
            changed => changed,
        }
    }
}

impl State {
    /// Returns the record of a published dataset.
    ///
    /// # Errors
    /// No such dataset, an invalid name, a catalogue that fails.
    pub(super) fn published(&self, name: &str) -> Result<Record, StoreError> {
        check_name(name)?;
        let record = self.catalogue.by_name(Table::Dataset, name)?;
        record.ok_or_else(|| StoreError::NoDataset { name: name.into() })
    }

    pub(super) fn stop_receiving(&self, dataset: DatasetId) {
        for ((id, _), cancelled) in &self.receiving {
            if *id == dataset {
                cancelled.store(true, Ordering::Release);
            }
        }
    }
}

pub(super) fn check_name(name: &str) -> Result<(), StoreError> {
    if is_name(name) {
        return Ok(());
    }
    let given = name.chars().take(2 * MAX_NAME_CHARS).collect();
    Err(StoreError::Name { given })
}

/// Seconds since the beginning of 1970.
pub(super) fn now() -> i64 {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    // A clock before 1970 is wrong: then nothing expires.
    now.map_or(0, |it| it.as_secs().cast_signed())
}
