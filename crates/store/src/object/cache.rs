//! Sparse local copies of objects: each file holds the parts that were needed, at their offsets.
//!
//! The cache is expendable. A part is checked on each use. If the file lacks it or has a wrong copy, the part is
//! fetched from the object, passed on, and written to its offset. Only a wrong object counts as damage. When the cache
//! exceeds its limit, the least recently used files are emptied.

use super::{ObjectError, Objects};
use crate::error::StoreError;
use oboro_format::files::io_error;
use oboro_format::{
    Corruption, DatasetId, FormatError, Manifest, PartExtent, ReadError, Segment, SegmentHeader,
};
use oboro_residency::{ResidencyError, Source, StoredSegment, Then};
use parking_lot::Mutex;
use rustix::fs::{SeekFrom, seek};
use std::collections::{BTreeSet, HashMap};
use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::mpsc::sync_channel;
use std::sync::{Arc, Weak};

/// Prefix of a namespace's object names, dataset, and number of a segment.
type Key = (Arc<str>, DatasetId, u32);

/// Returns the name of a segment's object.
pub(crate) fn object_of(dataset: DatasetId, number: u32) -> String {
    format!("segments/{dataset}/{number:08}.seg")
}

/// Parses the name of a segment's object.
pub(crate) fn segment_of(object: &str) -> Option<(DatasetId, u32)> {
    let (dataset, file) = object.strip_prefix("segments/")?.split_once('/')?;
    let (dataset, number) = (
        dataset.parse().ok()?,
        file.strip_suffix(".seg")?.parse().ok()?,
    );
    (object_of(dataset, number) == object).then_some((dataset, number))
}

/// Files of all segments of a namespace, and the source of their bytes. All namespaces of a store share one limit.
pub(crate) struct Cache {
    objects: Objects,
    /// Prefix of the object names.
    prefix: Arc<str>,
    space: Arc<Space>,
}

/// Files of all segments of a store.
struct Space {
    limit: u64,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    files: HashMap<Key, CacheFile>,
    /// Bytes of all files.
    bytes: u64,
    clock: u64,
}

struct CacheFile {
    path: PathBuf,
    bytes: u64,
    used: u64,
    open: Weak<CachedSegment>,
}

impl State {
    fn touch(&mut self, key: &Key) {
        self.clock += 1;
        if let Some(file) = self.files.get_mut(key) {
            file.used = self.clock;
        }
    }

    fn set_bytes(&mut self, key: &Key, bytes: impl FnOnce(u64) -> u64) {
        if let Some(file) = self.files.get_mut(key) {
            let now = bytes(file.bytes);
            self.bytes = self.bytes - file.bytes + now;
            file.bytes = now;
        }
    }
}

impl Cache {
    /// Creates an empty cache of these objects with at most `limit` bytes.
    pub(crate) fn new(objects: Objects, limit: u64) -> Self {
        let state = Mutex::default();
        Self {
            objects,
            prefix: "".into(),
            space: Arc::new(Space { limit, state }),
        }
    }

    /// Returns the part of this cache for objects whose names begin with `prefix`.
    pub(crate) fn below(&self, prefix: &str) -> Self {
        Self {
            objects: self.objects.below(prefix),
            prefix: prefix.into(),
            space: Arc::clone(&self.space),
        }
    }

    fn key(&self, dataset: DatasetId, number: u32) -> Key {
        (Arc::clone(&self.prefix), dataset, number)
    }

    /// Returns the bytes of all files, and their limit.
    pub(crate) fn bytes(&self) -> (u64, u64) {
        (self.space.state.lock().bytes, self.space.limit)
    }

    /// Returns the source of the bytes.
    pub(crate) fn objects(&self) -> &Objects {
        &self.objects
    }

    /// Adds the file of a segment that is not open, with whatever parts it has.
    pub(crate) fn add(&self, dataset: DatasetId, number: u32, path: PathBuf) {
        let bytes = fs::metadata(&path).map_or(0, |found| found.blocks() * 512);
        self.insert(self.key(dataset, number), path, bytes, Weak::new());
        self.space.evict();
    }

    /// Forgets the removed files of a dataset's segments, all but those of these numbers.
    pub(crate) fn forget(&self, dataset: DatasetId, published: &BTreeSet<u32>) {
        let mut state = self.space.state.lock();
        let State { files, bytes, .. } = &mut *state;
        files.retain(|(prefix, of, number), file| {
            let is_meant = *of == dataset && *prefix == self.prefix;
            let stays = !is_meant || published.contains(number);
            *bytes -= if stays { 0 } else { file.bytes };
            stays
        });
    }

    fn insert(&self, key: Key, path: PathBuf, bytes: u64, open: Weak<CachedSegment>) {
        let mut state = self.space.state.lock();
        let file = CacheFile {
            path,
            bytes: 0,
            used: 0,
            open,
        };
        state.set_bytes(&key, |_| 0);
        state.files.insert(key.clone(), file);
        state.set_bytes(&key, |_| bytes);
        state.touch(&key);
    }

    /// Opens the segment that `manifest` names as its `index`-th, with its file at `path`, which is created if it is
    /// missing.
    ///
    /// # Errors
    ///
    /// An object that is missing, wrong or out of reach, if its header has to be fetched; a disk that fails.
    pub(crate) fn open(
        self: &Arc<Self>,
        path: &Path,
        manifest: &Manifest,
        index: u32,
    ) -> Result<StoredSegment, StoreError> {
        let object = self.open_object(path, manifest, index)?;
        Ok(StoredSegment::new(ObjectSource(object)))
    }

    fn open_object(
        self: &Arc<Self>,
        path: &Path,
        manifest: &Manifest,
        index: u32,
    ) -> Result<Arc<CachedSegment>, StoreError> {
        let key = self.key(manifest.dataset, manifest.segments[index as usize].number);
        let already = self
            .space
            .state
            .lock()
            .files
            .get(&key)
            .and_then(|it| it.open.upgrade());
        if let Some(open) = already {
            return Ok(open);
        }
        let open = Arc::new(CachedSegment::open(
            Arc::clone(self),
            path,
            manifest,
            index,
        )?);
        let bytes = open.bytes_here();
        self.insert(key, path.into(), bytes, Arc::downgrade(&open));
        self.space.evict();
        Ok(open)
    }
}

impl Space {
    /// Records that a part was written to a file.
    fn grew(&self, key: &Key, bytes: u64) {
        let mut state = self.state.lock();
        state.touch(key);
        state.set_bytes(key, |before| before + bytes);
        drop(state);
        self.evict();
    }

    /// Empties files until the rest is within the limit, least recently used first.
    fn evict(&self) {
        let mut state = self.state.lock();
        while state.bytes > self.limit {
            let files = state.files.iter().filter(|(_, file)| file.bytes > 0);
            let Some((key, file)) = files.min_by_key(|(_, file)| file.used) else {
                return;
            };
            let key = key.clone();
            match file.open.upgrade() {
                Some(open) => open.empty(),
                None => empty_file(&file.path),
            }
            state.set_bytes(&key, |_| 0);
        }
    }
}

/// Empties a file, best effort: on failure the cache only exceeds its limit.
fn empty_file(path: &Path) {
    let file = OpenOptions::new().write(true).open(path);
    let _ = file.and_then(|file| {
        let length = file.metadata()?.len();
        file.set_len(0)?;
        file.set_len(length)
    });
}

/// Segment in use, and the file that has some of its parts.
struct CachedSegment {
    cache: Arc<Cache>,
    key: Key,
    object: String,
    /// Bytes of the object.
    bytes: u64,
    /// Local file.
    local: Segment,
    parts: Mutex<Parts>,
}

struct Parts {
    /// Parts that the file has, as far as is known.
    here: Vec<bool>,
    /// Callbacks that wait for the parts in flight.
    awaited: HashMap<usize, Vec<Then>>,
}

impl CachedSegment {
    fn open(
        cache: Arc<Cache>,
        path: &Path,
        manifest: &Manifest,
        index: u32,
    ) -> Result<Self, StoreError> {
        let entry = &manifest.segments[index as usize];
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .open(path)
            .and_then(|file| file.set_len(entry.bytes).map(|()| file))
            .map_err(io_error("open", path))?;
        let object = object_of(manifest.dataset, entry.number);
        let mut bytes = vec![0; SegmentHeader::bytes_of(manifest, index) as usize];
        let read = file.read_exact_at(&mut bytes, 0);
        let header = match SegmentHeader::decode(&bytes, manifest, index) {
            Ok(header) if read.is_ok() => header,
            _ => {
                let subject = || {
                    format!(
                        "the header of segment {index} of dataset {}",
                        manifest.dataset
                    )
                };
                let fetched = cache.objects.get_range(&object, 0..bytes.len() as u64);
                let fetched = fetched.map_err(|error| {
                    damaged_or_away(&cache.objects, &object, entry.bytes, subject(), &error)
                })?;
                let header =
                    SegmentHeader::decode(&fetched, manifest, index).map_err(
                        |error| match error {
                            FormatError::Damaged { corruption, .. } => {
                                damaged(&cache.objects, &object, subject(), corruption)
                            }
                            other => other.into(),
                        },
                    )?;
                // Best effort: it can be fetched again.
                let _ = file.write_all_at(&fetched, 0);
                header
            }
        };
        let parts = Parts {
            here: parts_here(&file, &header),
            awaited: HashMap::new(),
        };
        Ok(Self {
            key: cache.key(manifest.dataset, entry.number),
            cache,
            object,
            bytes: entry.bytes,
            local: Segment::open_copy(path, header)?,
            parts: Mutex::new(parts),
        })
    }

    fn bytes_here(&self) -> u64 {
        let bytes = |(part, &here): (usize, &bool)| {
            if here {
                self.header().part_extent(part).len as u64
            } else {
                0
            }
        };
        self.parts.lock().here.iter().enumerate().map(bytes).sum()
    }

    fn header(&self) -> &SegmentHeader {
        self.local.header()
    }

    fn write(&self, bytes: &[u8], offset: u64) -> Result<(), ReadError> {
        Ok(self.local.file().writable()?.write_all_at(bytes, offset)?)
    }

    /// Returns true if the file has a part, as far as is known.
    fn has(&self, part: usize) -> bool {
        self.parts.lock().here[part]
    }

    /// Records that the file's copy of a part is wrong.
    fn has_wrongly(&self, part: usize) {
        let was_here = std::mem::replace(&mut self.parts.lock().here[part], false);
        if was_here {
            let bytes = self.header().part_extent(part).len as u64;
            let mut state = self.cache.space.state.lock();
            state.set_bytes(&self.key, |before| before.saturating_sub(bytes));
        }
    }

    /// Records the use of a part in the file.
    fn used(&self) {
        self.cache.space.state.lock().touch(&self.key);
    }

    /// Returns the checked bytes of a part with its padding, from the file or the object.
    ///
    /// # Errors
    ///
    /// An object that is damaged, missing or out of reach.
    fn read(self: &Arc<Self>, part: usize) -> Result<Vec<u8>, ResidencyError> {
        if self.has(part) {
            let PartExtent { offset, len } = self.header().part_extent(part);
            let mut bytes = vec![0; len];
            let read = self.local.file().read_exact_at(&mut bytes, offset);
            if read.is_ok() && self.header().is_part(part, &bytes) {
                self.used();
                return Ok(bytes);
            }
            self.has_wrongly(part);
        }
        let (sender, heard) = sync_channel(1);
        let then = move |bytes: Result<&[u8], ResidencyError>| {
            let _ = sender.send(bytes.map(<[u8]>::to_vec));
        };
        self.fetch(part, Box::new(then));
        heard.recv().expect("fetched bytes are reported")
    }

    /// Fetches a part from the object. Does not block; requests for a part in flight share one fetch.
    fn fetch(self: &Arc<Self>, part: usize, then: Then) {
        let mut parts = self.parts.lock();
        let awaited = parts.awaited.entry(part).or_default();
        awaited.push(then);
        if awaited.len() > 1 {
            return;
        }
        drop(parts);
        let PartExtent { offset, len } = self.header().part_extent(part);
        let segment = Arc::clone(self);
        let range = offset..offset + len as u64;
        let objects = &self.cache.objects;
        objects.fetch(&self.object, range, move |bytes| {
            segment.arrived(part, bytes)
        });
    }

    fn arrived(&self, part: usize, bytes: Result<Vec<u8>, ObjectError>) {
        let bytes = bytes.map(|bytes| self.header().is_part(part, &bytes).then_some(bytes));
        let PartExtent { offset, len } = self.header().part_extent(part);
        let (awaited, is_new) = {
            let mut parts = self.parts.lock();
            let is_kept = matches!(&bytes, Ok(Some(bytes)) if self.write(bytes, offset).is_ok());
            let is_new = is_kept && !std::mem::replace(&mut parts.here[part], true);
            (parts.awaited.remove(&part), is_new)
        };
        if is_new {
            self.cache.space.grew(&self.key, len as u64);
        }
        for then in awaited.into_iter().flatten() {
            let arrived = match &bytes {
                Ok(Some(bytes)) => Ok(&**bytes),
                Ok(None) => Err(self.damaged(part, Corruption::Altered)),
                Err(error) => Err(self.error(part, error)),
            };
            // The panic has been printed and must not affect others.
            let _ = catch_unwind(AssertUnwindSafe(|| then(arrived)));
        }
    }

    /// Checks that the object starts with this header.
    ///
    /// # Errors
    ///
    /// As [`read`](Self::read).
    fn check_header(&self, header: &[u8]) -> Result<(), ResidencyError> {
        let objects = &self.cache.objects;
        let (_, dataset, index) = self.key;
        let subject = || format!("the header of segment {index} of dataset {dataset}");
        match objects.get_range(&self.object, 0..header.len() as u64) {
            Ok(found) if found == header => Ok(()),
            Ok(_) => Err(damaged(
                objects,
                &self.object,
                subject(),
                Corruption::Altered,
            )),
            Err(error) => Err(damaged_or_away(
                objects,
                &self.object,
                self.bytes,
                subject(),
                &error,
            )),
        }
    }

    /// Checks a part in the object, ignoring the file.
    ///
    /// # Errors
    ///
    /// As [`read`](Self::read).
    fn check_object(&self, part: usize) -> Result<(), ResidencyError> {
        let PartExtent { offset, len } = self.header().part_extent(part);
        let objects = &self.cache.objects;
        let bytes = objects.get_range(&self.object, offset..offset + len as u64);
        match bytes {
            Ok(bytes) if self.header().is_part(part, &bytes) => Ok(()),
            Ok(_) => Err(self.damaged(part, Corruption::Altered)),
            Err(error) => Err(self.error(part, &error)),
        }
    }

    /// Drops the file's copies of parts.
    fn empty(&self) {
        let mut parts = self.parts.lock();
        parts.here.fill(false);
        // Best effort, as for files that are not open. A concurrent reader detects that its bytes are wrong.
        let _ = self.local.file().writable().map(|file| {
            let length = file.metadata()?.len();
            file.set_len(self.header().part_extent(0).offset)?;
            file.set_len(length)
        });
    }

    fn error(&self, part: usize, error: &ObjectError) -> ResidencyError {
        if matches!(error, ObjectError::Missing) && self.local.file().may_go() {
            return self.local.part_error(part, ReadError::Removed).into();
        }
        let subject = self.header().subject(part);
        let objects = &self.cache.objects;
        damaged_or_away(objects, &self.object, self.bytes, subject, error)
    }

    fn damaged(&self, part: usize, corruption: Corruption) -> ResidencyError {
        let subject = self.header().subject(part);
        damaged(&self.cache.objects, &self.object, subject, corruption)
    }
}

/// Segment in object storage.
struct ObjectSource(Arc<CachedSegment>);

impl Source for ObjectSource {
    fn local(&self) -> &Segment {
        &self.0.local
    }

    fn read(&self, part: usize, visit: &mut dyn FnMut(&[u8])) -> Result<(), ResidencyError> {
        let bytes = self.0.read(part)?;
        visit(&bytes[..self.0.local.header().part_bytes(part)]);
        Ok(())
    }

    fn check(&self, part: usize) -> Result<(), ResidencyError> {
        self.0.check_object(part)
    }

    fn check_header(&self) -> Result<(), ResidencyError> {
        self.0.check_header(&self.0.local.header_bytes())
    }

    fn is_local(&self, part: usize) -> bool {
        self.0.has(part)
    }

    fn discard(&self, part: usize) -> bool {
        self.0.has_wrongly(part);
        true
    }

    fn fetch(&self, part: usize, then: Then) {
        self.0.fetch(part, then);
    }

    fn prefetch(&self, part: usize) {
        if !self.0.has(part) {
            self.0.fetch(part, Box::new(|_| ()));
        }
    }

    fn used(&self) {
        self.0.used();
    }
}

fn damaged(
    objects: &Objects,
    object: &str,
    subject: String,
    corruption: Corruption,
) -> ResidencyError {
    let path = Some(objects.url_of(object).into());
    FormatError::Damaged {
        subject,
        path,
        corruption,
    }
    .into()
}

/// Returns the error about a subject in an object that should have `expected` bytes.
fn damaged_or_away(
    objects: &Objects,
    object: &str,
    expected: u64,
    subject: String,
    error: &ObjectError,
) -> ResidencyError {
    match error {
        ObjectError::Missing => damaged(objects, object, subject, Corruption::Missing),
        &ObjectError::Short(found) => damaged(
            objects,
            object,
            subject,
            Corruption::Length { expected, found },
        ),
        ObjectError::Unreachable(cause) => {
            ResidencyError::Storage(objects.unavailable(object, cause).into())
        }
    }
}

/// Returns the parts that lie where a file has data.
fn parts_here(file: &File, header: &SegmentHeader) -> Vec<bool> {
    let stretches = stretches(file);
    let mut stretches = stretches.iter().peekable();
    let is_here = |part| {
        let PartExtent { offset: begin, len } = header.part_extent(part);
        while stretches.next_if(|data| data.end <= begin).is_some() {}
        let end = begin + len as u64;
        stretches
            .peek()
            .is_some_and(|data| data.start <= begin && end <= data.end)
    };
    (0..header.parts()).map(is_here).collect()
}

/// Returns the data ranges of a file: the whole file if the file system does not report holes, in which case checks
/// decide.
fn stretches(file: &File) -> Vec<std::ops::Range<u64>> {
    let length = file.metadata().map_or(0, |found| found.len());
    let mut stretches = Vec::new();
    let mut end = 0;
    while let Ok(begin) = seek(file, SeekFrom::Data(end)) {
        end = seek(file, SeekFrom::Hole(begin)).unwrap_or(length);
        stretches.push(begin..end);
    }
    stretches
}
