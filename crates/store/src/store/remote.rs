//! Store in object storage, with the directory as its cache.
//!
//! Everything published is below one prefix: `segments/DATASET/NUMBER.seg`, with the bytes of segment files, and
//! `catalogue.sqlite`, which names them. `rewritten/DATASET` are notes of owners' rewritings, `recovery/DATASET` their
//! recovery copies. The catalogue's object is written before the local one and before the call returns. Segments are
//! written before it and removed after it. Any server with an empty directory can therefore serve everything ever
//! reported as published.
//!
//! One server at a time writes. A starting server takes the catalogue over: it writes it with its own number, on
//! condition that it is unchanged since it was read. From then on the previous server can no longer write it, and so
//! cannot publish what the new one has deleted. Every other object is written on condition that it has not changed in
//! the meantime. Before a write or removal, the server checks that the catalogue is still its own. The file of
//! grants is taken over like a catalogue. A server removes a segment only together with its dataset or its upload:
//! objects that the catalogue does not name may be newer than the catalogue.

use super::backend::{Backend, StoredCopy, StoredNote};
use super::stored_manifest::stored_manifest;
use crate::cache_marker::mark;
use crate::catalogue::{Catalogue, Change, Table};
use crate::error::{CatalogueError, ObjectStorageError, StoreError};
use crate::layout::{CATALOGUE, NOTES, RECOVERY, SEGMENTS};
use crate::object::{Cache, ObjectError, Objects, OwnedObject, object_of, segment_of};
use crate::store_id::CatalogueIdentity;
use oboro_format::files::{ensure_directory, io_error, names, parent, remove_if_there};
use oboro_format::{DatasetId, Manifest, SegmentHeader};
use oboro_residency::StoredSegment;
use parking_lot::Mutex;
use std::collections::{BTreeSet, HashMap, HashSet};
use std::fs::File;
use std::io::Cursor;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Objects of a namespace.
pub(super) struct Remote {
    /// Directory of the cache.
    home: PathBuf,
    cache: Arc<Cache>,
    catalogue: Mutex<CatalogueObject>,
    /// Number of segment objects that the catalogue did not name when it was opened.
    unnamed: AtomicUsize,
    /// Lengths of the recovery copies.
    recoveries: Mutex<HashMap<DatasetId, u64>>,
}

/// Catalogue's object as last written by this server.
struct CatalogueObject {
    object: OwnedObject,
    server: i64,
}

impl Remote {
    /// Takes over the objects, with their cache in a directory locked by this process; returns the published catalogue,
    /// too.
    pub(super) fn open(
        cache: Cache,
        directory: &Path,
        of: &CatalogueIdentity,
    ) -> Result<(Self, Catalogue), StoreError> {
        let objects = cache.objects();
        mark(directory, &objects.root_url())?;
        let path = directory.join(CATALOGUE);
        let mut catalogue = match Catalogue::open(&path, of) {
            // The object is the authoritative copy.
            Err(StoreError::Catalogue(
                CatalogueError::Damaged { .. } | CatalogueError::Swapped { .. },
            )) => {
                remove_if_there(&directory.join("catalogue.sqlite-journal"))?;
                remove_if_there(&path)?;
                Catalogue::open(&path, of)?
            }
            opened => opened?,
        };
        let found = found(objects, &mut catalogue)?;
        let remote = Self {
            home: directory.into(),
            cache: Arc::new(cache),
            catalogue: Mutex::new(found),
            unnamed: AtomicUsize::new(0),
            recoveries: Mutex::default(),
        };
        remote.write(&catalogue, None)?;
        Ok((remote, catalogue))
    }

    fn objects(&self) -> &Objects {
        self.cache.objects()
    }

    /// Writes the catalogue's object as of after a change.
    fn write(&self, catalogue: &Catalogue, change: Option<Change<'_>>) -> Result<(), StoreError> {
        let mut object = self.catalogue.lock();
        let image = catalogue.image_after(change, object.server)?;
        object.object.write(self.objects(), image)
    }

    /// Checks that no other server has taken over the objects, before one is replaced or removed.
    ///
    /// # Errors
    /// Another server has; storage out of reach.
    fn check_is_ours(&self) -> Result<(), StoreError> {
        self.catalogue.lock().object.check(self.objects())
    }

    /// Adds the remaining files of a dataset to the cache.
    fn take_into_cache(&self, id: DatasetId, directory: &Path) -> Result<(), StoreError> {
        for name in names(directory)? {
            let number = name.strip_suffix(".seg").map(str::parse);
            if let Some(Ok(number)) = number {
                self.cache.add(id, number, directory.join(name));
            }
        }
        Ok(())
    }

    fn put_file(&self, name: &str, path: &Path) -> Result<(), StoreError> {
        let file = File::open(path).map_err(io_error("open", path))?;
        self.objects().put_file(name, file, || self.check_is_ours())
    }

    /// Lists the recovery copies, and removes those of purged datasets.
    fn sweep_recoveries(&self, catalogue: &Catalogue) -> Result<(), StoreError> {
        let objects = self.objects();
        let failed = |error: ObjectError| objects.failed(RECOVERY, &error);
        let mut deleted = Vec::new();
        for (name, bytes) in objects.list(RECOVERY).map_err(failed)? {
            let id = name
                .strip_prefix(RECOVERY)
                .and_then(|it| it.strip_prefix('/'));
            let Some(Ok(id)) = id.map(str::parse) else {
                continue;
            };
            if catalogue.is_purged(id)? {
                deleted.push(name);
            } else {
                self.recoveries.lock().insert(id, bytes);
            }
        }
        objects.delete(deleted).map_err(failed)
    }
}

impl Backend for Remote {
    fn keeps_files(&self) -> bool {
        false
    }

    fn open_segment(
        &self,
        path: &Path,
        manifest: &Manifest,
        index: u32,
    ) -> Result<StoredSegment, StoreError> {
        ensure_directory(parent(path))?;
        self.cache.open(path, manifest, index)
    }

    fn put_segment(&self, dataset: DatasetId, number: u32, file: &Path) -> Result<(), StoreError> {
        self.put_file(&object_of(dataset, number), file)
    }

    fn name_segment(&self, dataset: DatasetId, number: u32, path: &Path) {
        self.cache.add(dataset, number, path.into());
    }

    fn take_back_segment(&self, dataset: DatasetId, number: u32) {
        if self.check_is_ours().is_ok() {
            let _ = self.objects().delete(vec![object_of(dataset, number)]);
        }
    }

    /// The next server sweeps the rest.
    fn remove_segments(&self, dataset: DatasetId, published: &BTreeSet<u32>) {
        self.cache.forget(dataset, published);
        if self.check_is_ours().is_err() {
            return;
        }
        if let Ok(listed) = self.objects().list(&format!("{SEGMENTS}/{dataset}")) {
            let numbers = published.iter();
            let stay: HashSet<String> = numbers.map(|&number| object_of(dataset, number)).collect();
            let names = listed.into_iter().map(|(name, _)| name);
            let _ = self
                .objects()
                .delete(names.filter(|name| !stay.contains(name)).collect());
        }
    }

    /// Another server may have received an upload of this dataset in between.
    fn missing(&self, manifest: &Manifest, segments: &[u32]) -> Result<Option<u32>, StoreError> {
        let directory = format!("{SEGMENTS}/{}", manifest.dataset);
        let failed = |error: ObjectError| self.objects().failed(&directory, &error);
        let listed = self.objects().list(&directory).map_err(failed)?;
        let lengths: HashMap<String, u64> = listed.into_iter().collect();
        for &index in segments {
            let entry = &manifest.segments[index as usize];
            let name = object_of(manifest.dataset, entry.number);
            if lengths.get(&name) != Some(&entry.bytes) {
                return Ok(Some(index));
            }
            let bytes = SegmentHeader::bytes_of(manifest, index);
            let header = self.objects().get_range(&name, 0..bytes).map_err(failed)?;
            if SegmentHeader::decode(&header, manifest, index).is_err() {
                return Ok(Some(index));
            }
        }
        Ok(None)
    }

    fn place(&self, _: PathBuf, dataset: DatasetId, number: u32) -> PathBuf {
        self.objects().url_of(&object_of(dataset, number)).into()
    }

    fn put_catalogue(&self, catalogue: &Catalogue, change: Change<'_>) -> Result<(), StoreError> {
        self.write(catalogue, Some(change))
    }

    fn put_note(&self, dataset: DatasetId, file: &Path) -> Result<(), StoreError> {
        self.put_file(&format!("{NOTES}/{dataset}"), file)
    }

    fn notes(&self) -> Result<Option<Vec<StoredNote>>, StoreError> {
        let failed = |error: ObjectError| self.objects().failed(NOTES, &error);
        let listed = self.objects().list(NOTES).map_err(failed)?.into_iter();
        let named = listed.filter_map(|(name, _)| {
            let id = name.strip_prefix(NOTES)?.strip_prefix('/')?.parse().ok()?;
            Some((id, name))
        });
        let note = |(id, name): (DatasetId, String)| Ok((id, self.objects().get(&name)?.0));
        let notes: Result<Vec<_>, ObjectError> = named.map(note).collect();
        notes.map(Some).map_err(failed)
    }

    fn put_recovery(&self, dataset: DatasetId, file: &Path, bytes: u64) -> Result<(), StoreError> {
        // Before the write, whose outcome is unknown if it fails.
        self.recoveries.lock().insert(dataset, bytes);
        self.put_file(&format!("{RECOVERY}/{dataset}"), file)
    }

    fn recovery(&self, dataset: DatasetId) -> Result<Option<StoredCopy>, StoreError> {
        // No other server writes any.
        if !self.recoveries.lock().contains_key(&dataset) {
            return Ok(None);
        }
        let name = format!("{RECOVERY}/{dataset}");
        match self.objects().get(&name) {
            Ok((bytes, _)) => Ok(Some(StoredCopy {
                path: None,
                bytes: bytes.len() as u64,
                content: Box::new(Cursor::new(bytes)),
            })),
            Err(ObjectError::Missing) => Ok(None),
            Err(error) => Err(self.objects().failed(&name, &error)),
        }
    }

    fn remove_recovery(&self, dataset: DatasetId) -> Result<(), StoreError> {
        if !self.recoveries.lock().contains_key(&dataset) {
            return Ok(());
        }
        self.check_is_ours()?;
        let name = format!("{RECOVERY}/{dataset}");
        let deleted = self.objects().delete(vec![name.clone()]);
        deleted.map_err(|error| self.objects().failed(&name, &error))?;
        self.recoveries.lock().remove(&dataset);
        Ok(())
    }

    fn recovery_bytes(&self, without: Option<DatasetId>) -> Result<u64, StoreError> {
        let recoveries = self.recoveries.lock();
        let counted = recoveries.iter().filter(|it| Some(*it.0) != without);
        Ok(counted.map(|it| it.1).sum())
    }

    /// Removes the objects of deleted datasets and of rewritten segments, and counts those of segments that are in
    /// neither the local catalogue nor an upload. These stay: a catalogue restored from an old copy does not know newer
    /// segments.
    fn sweep(&self, catalogue: &Catalogue) -> Result<(), StoreError> {
        let mut known: HashMap<DatasetId, KnownSegments> = HashMap::new();
        for table in Table::ALL {
            for record in catalogue.all(table)? {
                let of_dataset = known.entry(record.id).or_default();
                match stored_manifest(&record) {
                    Ok(manifest) => {
                        of_dataset.named.append(&mut manifest.numbers());
                        if table != Table::Upload {
                            of_dataset.given_away = manifest.next_segment;
                        }
                    }
                    // Reported when its dataset is used.
                    Err(_) => of_dataset.is_damaged = true,
                }
            }
        }
        let objects = self.objects();
        let failed = |error: ObjectError| objects.failed(SEGMENTS, &error);
        let (mut deleted, mut unnamed) = (Vec::new(), 0);
        for (name, _) in objects.list(SEGMENTS).map_err(failed)? {
            let Some((dataset, number)) = segment_of(&name) else {
                continue;
            };
            let none = KnownSegments::default();
            let of_dataset = known.get(&dataset).unwrap_or(&none);
            if catalogue.is_purged(dataset)? {
                deleted.push(name);
            } else if of_dataset.is_damaged || of_dataset.named.contains(&number) {
                // It stays.
            } else if number < of_dataset.given_away {
                deleted.push(name);
            } else {
                unnamed += 1;
            }
        }
        objects.delete(deleted).map_err(failed)?;
        self.sweep_recoveries(catalogue)?;
        self.unnamed.store(unnamed, Ordering::Relaxed);
        let datasets = self.home.join(SEGMENTS);
        for name in names(&datasets)? {
            if let Ok(id) = name.parse() {
                self.take_into_cache(id, &datasets.join(name))?;
            }
        }
        Ok(())
    }

    fn unnamed(&self) -> usize {
        self.unnamed.load(Ordering::Relaxed)
    }
}

/// Segments of a dataset that a catalogue knows, by number.
#[derive(Default)]
struct KnownSegments {
    named: BTreeSet<u32>,
    /// Number below which any other segment was replaced.
    given_away: u32,
    is_damaged: bool,
}

/// Fetches the catalogue's object, which becomes the local catalogue.
fn found(objects: &Objects, catalogue: &mut Catalogue) -> Result<CatalogueObject, StoreError> {
    let failed = |error: ObjectError| objects.failed(CATALOGUE, &error);
    let (version, server) = match objects.get(CATALOGUE) {
        Ok((image, version)) => {
            let before = catalogue.adopt(&image, &objects.url_of(CATALOGUE))?;
            (Some(version), before + 1)
        }
        Err(ObjectError::Missing) => {
            let is_empty = objects.list(SEGMENTS).map_err(failed)?.is_empty()
                && catalogue.count(Table::Dataset)? + catalogue.count(Table::Deleted)? == 0;
            if !is_empty {
                return Err(ObjectStorageError::CatalogueObjectMissing {
                    url: objects.url().into(),
                }
                .into());
            }
            (None, 1)
        }
        Err(error) => return Err(failed(error)),
    };
    Ok(CatalogueObject {
        object: OwnedObject::new(CATALOGUE, version),
        server,
    })
}

#[cfg(test)]
mod tests;
