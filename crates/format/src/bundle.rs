//! Owner's local directory: a head, the segment files that it names, and sealed files of ranges.
//!
//! The head is authoritative: a segment file that it does not name is a leftover of a crash, as is a range that the
//! owner record does not name; the next change removes both. A bundle appears, and a change takes effect, by one
//! rename. The caller seals the owner record in the head. A temporary bundle is never synced, and is removed when the
//! last value that refers to it is dropped.

use crate::codec::{Reader, Writer, unseal};
use crate::error::{Corruption, FormatError};
use crate::files::{
    Durability, Lock, create_private_directory, exists, io_error, lock, names, parent,
    read_if_there, remove_if_there, rename, replace, sweep, sync_directory,
};
use crate::id::Digest;
use crate::manifest::{MAX_MANIFEST_BYTES, Manifest};
use crate::recovery::RecoveryContent;
use crate::segment::{Segment, SegmentDescription, SegmentWriter};
use oboro_system::with_mode;
use std::collections::{BTreeSet, HashSet};
use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::process;
use std::sync::Arc;
use tempfile::TempDir;

const MAGIC: &str = "OBOROBND";
/// Format of the head. In version 1, of 0.1.0, secrets of datasets derived from the master key itself.
const VERSION: u32 = 2;
/// Bytes of the head besides the manifest and the owner record.
const FRAME: usize = 8 + 4 + 8 + 8 + 32;

/// Maximum number of bytes of a sealed owner record.
pub const MAX_SEALED_BYTES: usize = 1 << 28;

fn head_path(directory: &Path) -> PathBuf {
    directory.join("head")
}

fn note_path(directory: &Path) -> PathBuf {
    directory.join("failure")
}

/// Returns the path of the file that marks a bundle whose record is kept at the server.
fn kept_path(directory: &Path) -> PathBuf {
    directory.join("keep-record")
}

/// Returns the path of the file, present in a recovered bundle, with the number of the first segment written since.
fn recovered_path(directory: &Path) -> PathBuf {
    directory.join("recovered")
}

/// Returns the path of the file with the time of the last upload.
fn uploaded_path(directory: &Path) -> PathBuf {
    directory.join("uploaded")
}

fn lock_path(directory: &Path) -> PathBuf {
    directory.join("lock")
}

fn segments_path(directory: &Path) -> PathBuf {
    directory.join("segments")
}

fn segment_name(number: u32) -> String {
    format!("{number:08}.seg")
}

fn segment_path(directory: &Path, number: u32) -> PathBuf {
    segments_path(directory).join(segment_name(number))
}

fn ranges_path(directory: &Path) -> PathBuf {
    directory.join("ranges")
}

/// Returns the path of the owner's sealed record of a range of blocks, named by its digest.
fn range_path(directory: &Path, digest: Digest) -> PathBuf {
    ranges_path(directory).join(digest.to_string())
}

fn encode_head(manifest: &Manifest, sealed: &[u8]) -> Vec<u8> {
    let manifest = manifest.encode();
    let mut head = Writer::with_preamble(MAGIC, VERSION);
    head.u64(manifest.len() as u64)
        .u64(sealed.len() as u64)
        .put(&manifest)
        .put(sealed);
    head.seal()
}

fn decode_head(bytes: &[u8]) -> Result<(&[u8], &[u8]), Corruption> {
    Reader::new(bytes).preamble(MAGIC, VERSION)?;
    let mut reader = Reader::new(unseal(bytes)?);
    reader.preamble(MAGIC, VERSION)?;
    let (manifest, sealed) = (reader.u64()?, reader.u64()?);
    if sealed > MAX_SEALED_BYTES as u64
        || manifest > MAX_MANIFEST_BYTES as u64
        || manifest + sealed != reader.remaining() as u64
    {
        return Err(Corruption::Invalid(
            "the lengths in it contradict each other".into(),
        ));
    }
    Ok((
        reader.bytes(manifest as usize)?,
        reader.bytes(sealed as usize)?,
    ))
}

/// Dataset on the owner's disk, ready to be uploaded or changed.
#[derive(Debug)]
pub struct Bundle {
    directory: PathBuf,
    manifest: Manifest,
    sealed: Vec<u8>,
    /// Directory of a temporary bundle, shared by all its versions.
    temporary: Option<Arc<OwnTempDir>>,
}

/// Temporary directory that only the process that created it removes, not a fork of it.
#[derive(Debug)]
struct OwnTempDir {
    directory: Option<TempDir>,
    process: u32,
}

impl OwnTempDir {
    fn new(directory: TempDir) -> Self {
        Self {
            directory: Some(directory),
            process: process::id(),
        }
    }
}

impl Drop for OwnTempDir {
    fn drop(&mut self) {
        if self.process != process::id() {
            let _ = self.directory.take().map(TempDir::keep);
        }
    }
}

impl Bundle {
    /// Starts a bundle that will appear as `directory` when it is committed.
    pub fn create(directory: &Path) -> Result<BundleWriter, FormatError> {
        refuse_existing(directory)?;
        let name = directory.file_name().ok_or_else(|| FormatError::Misuse {
            what: format!("{} names no directory", directory.display()),
        })?;
        let mut hidden = OsString::from(".");
        hidden.push(name);
        hidden.push(".partial");
        let staging = parent(directory).join(hidden);

        if staging.exists() {
            // Left by a crash, unless its lock is held.
            let _lock = lock(&lock_path(&staging), directory, "name for the bundle")?;
            fs::remove_dir_all(&staging).map_err(io_error("remove the leftover", &staging))?;
        }
        create_private_directory(&staging).map_err(io_error("create", &staging))?;
        let lock = lock(&lock_path(&staging), directory, "name for the bundle")?;
        let writer = BundleWriter {
            directory: staging.clone(),
            lock: Some(lock),
            target: Target::New {
                published: directory.into(),
            },
            temporary: None,
            written: Vec::new(),
            committed: false,
        };
        writer.create_segments()?;
        Ok(writer)
    }

    /// Starts a temporary bundle in a new directory below `within`. The directory is removed once the bundle and all
    /// its later versions have been dropped.
    pub fn create_temporary(within: &Path) -> Result<BundleWriter, FormatError> {
        let directory = with_mode(0o700, tempfile::Builder::new().prefix("oboro-"))
            .tempdir_in(within)
            .map_err(io_error("create a temporary directory in", within))?;
        let path = directory.path().to_path_buf();
        let lock = lock(&lock_path(&path), &path, "directory for temporary files")?;
        let writer = BundleWriter {
            directory: path,
            lock: Some(lock),
            target: Target::Temporary,
            temporary: Some(Arc::new(OwnTempDir::new(directory))),
            written: Vec::new(),
            committed: false,
        };
        writer.create_segments()?;
        Ok(writer)
    }

    /// Returns true if the directory contains a bundle, judging by the first bytes of its head.
    pub fn is_at(directory: &Path) -> bool {
        let mut start = Vec::new();
        let head = File::open(head_path(directory)).map(|head| head.take(MAGIC.len() as u64));
        let read = head.and_then(|mut head| head.read_to_end(&mut start));
        read.is_ok() && start == MAGIC.as_bytes()
    }

    /// Reads the head of a bundle. Segments are opened and checked on request.
    pub fn open(directory: &Path) -> Result<Self, FormatError> {
        let path = head_path(directory);
        let damaged = |corruption| FormatError::Damaged {
            subject: "the head of the bundle".into(),
            path: Some(path.clone()),
            corruption,
        };
        let length = match fs::metadata(&path) {
            Ok(metadata) => metadata.len(),
            // Report a mistyped path as such, not as a damaged bundle.
            Err(error) if error.kind() == io::ErrorKind::NotFound && directory.exists() => {
                return Err(damaged(Corruption::Missing));
            }
            Err(error) => return Err(io_error("read", &path)(error)),
        };
        let most = (FRAME + MAX_MANIFEST_BYTES + MAX_SEALED_BYTES) as u64;
        if length > most {
            return Err(damaged(Corruption::Length {
                expected: most,
                found: length,
            }));
        }
        let bytes = fs::read(&path).map_err(io_error("read", &path))?;
        let (manifest, sealed) = decode_head(&bytes).map_err(damaged)?;
        let manifest = Manifest::decode(manifest).map_err(|error| match error {
            FormatError::Damaged { corruption, .. } => damaged(corruption),
            other => other,
        })?;
        Ok(Self {
            directory: directory.into(),
            manifest,
            sealed: sealed.to_vec(),
            temporary: None,
        })
    }

    /// Returns the bundle's directory.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// Returns true if the directory is removed with the bundle.
    pub fn is_temporary(&self) -> bool {
        self.temporary.is_some()
    }

    /// Returns the public description of the newest version.
    pub fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    /// Returns the sealed owner record.
    pub fn sealed(&self) -> &[u8] {
        &self.sealed
    }

    /// Returns the path of the file of a segment.
    ///
    /// # Panics
    /// If the manifest has no such segment.
    pub fn segment_path(&self, index: u32) -> PathBuf {
        let entry = &self.manifest.segments[index as usize];
        segment_path(&self.directory, entry.number)
    }

    /// Returns true if the file of a segment exists.
    ///
    /// # Errors
    /// A disk that fails.
    ///
    /// # Panics
    /// If the manifest has no such segment.
    pub fn has_segment(&self, index: u32) -> Result<bool, FormatError> {
        exists(&self.segment_path(index))
    }

    /// Opens a segment and checks its header against the manifest.
    ///
    /// # Errors
    /// A segment that the manifest does not name, that a recovered bundle never had, or whose file is missing or
    /// damaged.
    pub fn open_segment(&self, index: u32) -> Result<Segment, FormatError> {
        if index as usize >= self.manifest.segments.len() {
            return Err(FormatError::NoSegment {
                index,
                segments: self.manifest.segments.len(),
            });
        }
        if !self.has_segment(index)?
            && self.manifest.segments[index as usize].number < self.recovered()?
        {
            return Err(FormatError::Recovered {
                path: self.directory.clone(),
                index,
            });
        }
        Segment::open_named(&self.segment_path(index), &self.manifest, index)
    }

    /// Returns the number below which segments are absent because the bundle was recovered without them; 0 if it was
    /// not.
    fn recovered(&self) -> Result<u32, FormatError> {
        let path = recovered_path(&self.directory);
        let number = read_if_there(&path)?.unwrap_or_else(|| b"0".to_vec());
        let number = str::from_utf8(&number)
            .ok()
            .and_then(|it| it.trim_end().parse().ok());
        number.ok_or_else(|| FormatError::Damaged {
            subject: "the bundle's note of its recovery".into(),
            path: Some(path),
            corruption: Corruption::Invalid("it is no number".into()),
        })
    }

    /// Reads the owner's sealed record of a range of blocks by its digest, which the owner record contains.
    ///
    /// # Errors
    ///
    /// A file that is missing or was altered.
    pub fn read_range(&self, digest: Digest) -> Result<Vec<u8>, FormatError> {
        let path = range_path(&self.directory, digest);
        let damaged = |corruption| FormatError::Damaged {
            subject: "a sealed range of the bundle".into(),
            path: Some(path.clone()),
            corruption,
        };
        let bytes = match fs::read(&path) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                // Another process may have changed the dataset in the meantime.
                return Err(match self.present() {
                    Ok(present) if present.manifest != self.manifest => self.changed(),
                    _ => damaged(Corruption::Missing),
                });
            }
            Err(error) => return Err(io_error("read", &path)(error)),
        };
        if Digest::of(&bytes) == digest {
            Ok(bytes)
        } else {
            Err(damaged(Corruption::Altered))
        }
    }

    /// Checks every panel of every segment.
    pub fn verify(&self) -> Result<(), FormatError> {
        (0..self.manifest.segments.len() as u32)
            .try_for_each(|index| self.open_segment(index)?.verify())
    }

    /// Removes segments of other versions that a crash or a rewriting left behind. Does nothing while another process
    /// changes the bundle, since that process does so, too.
    ///
    /// # Errors
    /// A disk that fails.
    pub fn remove_leftovers(&self) -> Result<(), FormatError> {
        let here = names(&segments_path(&self.directory))?;
        let named = self.manifest.numbers().into_iter().map(segment_name);
        let named: HashSet<String> = named.collect();
        if here.iter().all(|it| named.contains(it)) {
            return Ok(());
        }
        match self.change() {
            Err(FormatError::Locked { .. } | FormatError::BundleChanged { .. }) => Ok(()),
            started => started.map(drop),
        }
    }

    /// Starts the next version, which takes effect when committed. Only one writer can exist at a time.
    pub fn change(&self) -> Result<BundleWriter, FormatError> {
        let lock = lock(&lock_path(&self.directory), &self.directory, "bundle")?;
        let present = Self::open(&self.directory)?;
        if present.manifest != self.manifest {
            return Err(self.changed());
        }
        sweep_segments(&self.directory, &present.manifest)?;
        Ok(BundleWriter {
            directory: self.directory.clone(),
            lock: Some(lock),
            target: Target::Next {
                older: Box::new(present.manifest),
                sealed: present.sealed,
            },
            temporary: self.temporary.clone(),
            written: Vec::new(),
            committed: false,
        })
    }
}

impl Bundle {
    /// Replaces the sealed owner record by the result of `reseal`, which receives the present record and its manifest,
    /// possibly of a later version. The data are unchanged.
    ///
    /// # Errors
    /// Errors of `reseal`; another dataset at this path, another writer, a disk that fails. The record is then
    /// unchanged.
    pub fn reseal<E: From<FormatError>>(
        &self,
        reseal: impl FnOnce(&Manifest, &[u8]) -> Result<Vec<u8>, E>,
    ) -> Result<(), E> {
        let _lock = lock(&lock_path(&self.directory), &self.directory, "bundle")?;
        let present = self.present()?;
        let sealed = reseal(&present.manifest, &present.sealed)?;
        check_sealed(&sealed)?;
        let durability = self.durability();
        let head = encode_head(&present.manifest, &sealed);
        replace(&head_path(&self.directory), &head, durability)?;
        durability.sync_directory(&self.directory)?;
        Ok(())
    }

    /// Stores a note beside the head. Works during an append by another writer, too.
    ///
    /// # Errors
    ///
    /// A disk that fails; the earlier note is then kept.
    pub fn write_note(&self, note: &[u8]) -> Result<(), FormatError> {
        replace(&note_path(&self.directory), note, self.durability())?;
        self.durability().sync_directory(&self.directory)
    }

    /// Reads the note that [`write_note`](Self::write_note) stored.
    ///
    /// # Errors
    ///
    /// A disk that fails.
    pub fn note(&self) -> Result<Option<Vec<u8>>, FormatError> {
        let path = note_path(&self.directory);
        read_if_there(&path)
    }

    /// Removes the note that [`write_note`](Self::write_note) stored.
    ///
    /// # Errors
    ///
    /// A disk that fails.
    pub fn remove_note(&self) -> Result<(), FormatError> {
        remove_if_there(&note_path(&self.directory))?;
        self.durability().sync_directory(&self.directory)
    }

    /// Returns true if each upload also stores the record at the server.
    ///
    /// # Errors
    ///
    /// A disk that fails.
    pub fn keeps_record(&self) -> Result<bool, FormatError> {
        exists(&kept_path(&self.directory))
    }

    /// Sets the value of [`keeps_record`](Self::keeps_record).
    ///
    /// # Errors
    ///
    /// A disk that fails.
    pub fn set_keeps_record(&self, keeps: bool) -> Result<(), FormatError> {
        let path = kept_path(&self.directory);
        if keeps {
            replace(&path, b"", self.durability())?;
        } else {
            remove_if_there(&path)?;
        }
        self.durability().sync_directory(&self.directory)
    }

    /// Records the time of this version's upload, in seconds since 1970.
    ///
    /// # Errors
    ///
    /// A disk that fails.
    pub fn note_uploaded(&self, unix_seconds: u64) -> Result<(), FormatError> {
        let note = format!("{} {unix_seconds}\n", self.manifest.root());
        let path = uploaded_path(&self.directory);
        replace(&path, note.as_bytes(), self.durability())?;
        self.durability().sync_directory(&self.directory)
    }

    /// Returns the time of this version's upload from this directory, in seconds since 1970; `None` if none is known.
    pub fn uploaded(&self) -> Option<u64> {
        let mut note = String::new();
        let file = File::open(uploaded_path(&self.directory)).ok()?;
        file.take(128).read_to_string(&mut note).ok()?;
        let (root, seconds) = note.trim_end().split_once(' ')?;
        let is_this = root == self.manifest.root().to_string();
        seconds.parse().ok().filter(|_| is_this)
    }

    /// Collects the files of this version that are not ciphertext, for a recovery copy under this name.
    ///
    /// # Errors
    ///
    /// A newer version on the disk, files that are missing or damaged.
    pub fn recovery_content(&self, name: &str) -> Result<RecoveryContent, FormatError> {
        let present = self.present()?;
        let mut digests: Vec<Digest> = names(&ranges_path(&self.directory))?
            .iter()
            .filter_map(|name| name.parse().ok())
            .collect();
        digests.sort_unstable();
        let ranges: Result<_, _> = digests.into_iter().map(|it| self.read_range(it)).collect();
        let content = RecoveryContent {
            name: name.to_owned(),
            head: encode_head(&present.manifest, &present.sealed),
            note: self.note()?,
            ranges: ranges?,
        };
        // A changed manifest means that a range may be missing: ranges are removed only after the head was replaced.
        if self.present()?.manifest == self.manifest {
            Ok(content)
        } else {
            Err(self.changed())
        }
    }

    /// Recreates a bundle, without its segments, from a recovery copy. `accept` receives the manifest, the sealed owner
    /// record and the digests of the ranges, and may reject them.
    ///
    /// # Errors
    ///
    /// An existing directory, a damaged head, errors of `accept`, a disk that fails. Nothing is left in these cases.
    pub fn recover<E: From<FormatError>>(
        directory: &Path,
        content: &RecoveryContent,
        accept: impl FnOnce(&Manifest, &[u8], &[Digest]) -> Result<(), E>,
    ) -> Result<Self, E> {
        let damaged = |corruption| FormatError::Damaged {
            subject: "the head in the recovery copy".into(),
            path: None,
            corruption,
        };
        let (manifest, sealed) = decode_head(&content.head).map_err(damaged)?;
        let manifest = Manifest::decode(manifest)?;
        let mut writer = Self::create(directory)?;
        for range in &content.ranges {
            writer.write_range(range)?;
        }
        accept(&manifest, sealed, &writer.written)?;
        if let Some(note) = &content.note {
            replace(&note_path(&writer.directory), note, Durability::Durable)?;
        }
        replace(&kept_path(&writer.directory), b"", Durability::Durable)?;
        let next = format!("{}\n", manifest.next_segment);
        let recovered = recovered_path(&writer.directory);
        replace(&recovered, next.as_bytes(), Durability::Durable)?;
        Ok(writer.publish(&manifest, sealed)?)
    }

    fn durability(&self) -> Durability {
        match self.temporary {
            None => Durability::Durable,
            Some(_) => Durability::Temporary,
        }
    }

    /// Reads the present version on disk, with everything appended or noted since.
    ///
    /// # Errors
    ///
    /// Another dataset at this path, a disk that fails.
    pub fn present(&self) -> Result<Self, FormatError> {
        let present = Self::open(&self.directory)?;
        if present.manifest.dataset == self.manifest.dataset {
            Ok(present)
        } else {
            Err(self.changed())
        }
    }

    fn changed(&self) -> FormatError {
        FormatError::BundleChanged {
            path: self.directory.clone(),
        }
    }
}

/// Returns the error of a committed change that may not survive a power cut.
fn unconfirmed(directory: &Path, error: FormatError) -> FormatError {
    FormatError::Unconfirmed {
        path: directory.into(),
        cause: Box::new(error),
    }
}

/// Removes the files of segments that the manifest does not name.
fn sweep_segments(directory: &Path, manifest: &Manifest) -> Result<(), FormatError> {
    let (segments, pending) = (segments_path(directory), BTreeSet::new());
    sweep(&segments, &manifest.numbers(), &pending)
}

fn check_sealed(sealed: &[u8]) -> Result<(), FormatError> {
    if sealed.len() > MAX_SEALED_BYTES {
        Err(FormatError::BundleMismatch {
            reason: "the owner record is too long".into(),
        })
    } else {
        Ok(())
    }
}

/// Removes the files of all ranges but these.
fn keep_ranges(directory: &Path, ranges: &[Digest]) -> io::Result<()> {
    let kept: HashSet<OsString> = ranges.iter().map(|it| it.to_string().into()).collect();
    for entry in fs::read_dir(ranges_path(directory))? {
        let entry = entry?;
        if !kept.contains(&entry.file_name()) {
            fs::remove_file(entry.path())?;
        }
    }
    Ok(())
}

fn refuse_existing(directory: &Path) -> Result<(), FormatError> {
    match fs::symlink_metadata(directory) {
        Ok(_) => Err(FormatError::Exists {
            path: directory.into(),
        }),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(io_error("look at", directory)(error)),
    }
}

enum Target {
    New {
        published: PathBuf,
    },
    Temporary,
    Next {
        older: Box<Manifest>,
        /// Sealed owner record of the older version.
        sealed: Vec<u8>,
    },
}

/// Writer of a new bundle or of the next version. Dropped before [`commit`](Self::commit), it removes a new bundle and
/// leaves an existing one unchanged.
pub struct BundleWriter {
    directory: PathBuf,
    /// Lock on the directory; `None` once released. Windows cannot rename a directory with open files.
    lock: Option<Lock>,
    target: Target,
    temporary: Option<Arc<OwnTempDir>>,
    /// Digests of the ranges written so far.
    written: Vec<Digest>,
    committed: bool,
}

impl BundleWriter {
    fn create_segments(&self) -> Result<(), FormatError> {
        let segments = segments_path(&self.directory);
        create_private_directory(&segments).map_err(io_error("create", &segments))?;
        let ranges = ranges_path(&self.directory);
        create_private_directory(&ranges).map_err(io_error("create", &ranges))
    }

    fn durability(&self) -> Durability {
        match self.temporary {
            None => Durability::Durable,
            Some(_) => Durability::Temporary,
        }
    }

    /// Returns the smallest number that a new segment may have.
    pub fn next_segment(&self) -> u32 {
        match &self.target {
            Target::New { .. } | Target::Temporary => 0,
            Target::Next { older, .. } => older.next_segment,
        }
    }

    /// Returns the sealed owner record of the previous version; `None` for a new bundle.
    pub fn sealed_before(&self) -> Option<&[u8]> {
        match &self.target {
            Target::New { .. } | Target::Temporary => None,
            Target::Next { sealed, .. } => Some(sealed),
        }
    }

    /// Starts the segment with the number in `description`. Segments may be written concurrently.
    pub fn segment(&self, description: SegmentDescription) -> Result<SegmentWriter, FormatError> {
        let number = description.number;
        if number < self.next_segment() {
            return Err(FormatError::BundleMismatch {
                reason: format!("there was a segment {number} already"),
            });
        }
        let path = segment_path(&self.directory, number);
        SegmentWriter::create(&path, description, self.durability())
    }

    /// Opens a segment of the previous version, or one just written, as `manifest` names it.
    ///
    /// # Errors
    /// A file that is damaged, or is not the named one.
    pub fn open_segment(&self, manifest: &Manifest, index: u32) -> Result<Segment, FormatError> {
        let number = manifest.segments[index as usize].number;
        Segment::open_named(&segment_path(&self.directory, number), manifest, index)
    }

    /// Writes the owner's sealed record of a range of blocks, and returns the digest for the owner record.
    ///
    /// # Errors
    ///
    /// A disk that fails.
    pub fn write_range(&mut self, sealed: &[u8]) -> Result<Digest, FormatError> {
        let digest = Digest::of(sealed);
        self.written.push(digest);
        replace(
            &range_path(&self.directory, digest),
            sealed,
            self.durability(),
        )?;
        Ok(digest)
    }

    /// Publishes the written segments as `manifest`, with the sealed owner record that belongs to it: a new bundle gets
    /// its name, an existing one its new head. Removes all ranges but `ranges`.
    pub fn commit(
        mut self,
        manifest: &Manifest,
        sealed: &[u8],
        ranges: &[Digest],
    ) -> Result<Bundle, FormatError> {
        self.check(manifest, sealed)?;
        let bundle = self.publish(manifest, sealed)?;
        // Best effort: the next version removes what is left.
        let _ = keep_ranges(&bundle.directory, ranges);
        if let Target::Next { older, .. } = &self.target
            && manifest.extends(older).is_err()
        {
            // Rewritten segments must not stay readable.
            sweep_segments(&bundle.directory, manifest)
                .map_err(|error| unconfirmed(&bundle.directory, error))?;
        }
        Ok(bundle)
    }

    /// Writes the head, and gives a new bundle its name.
    fn publish(&mut self, manifest: &Manifest, sealed: &[u8]) -> Result<Bundle, FormatError> {
        let durability = self.durability();
        durability.sync_directory(&ranges_path(&self.directory))?;
        let head = encode_head(manifest, sealed);
        replace(&head_path(&self.directory), &head, durability)?;
        let (directory, changed) = match &self.target {
            Target::New { published } => {
                sync_directory(&self.directory)?;
                sync_directory(&segments_path(&self.directory))?;
                refuse_existing(published)?;
                if cfg!(windows) {
                    self.lock = None;
                }
                rename(&self.directory, published)?;
                (published.clone(), parent(published))
            }
            Target::Temporary | Target::Next { .. } => {
                (self.directory.clone(), self.directory.as_path())
            }
        };
        // Committed from here on, even if the sync fails.
        self.committed = true;
        durability
            .sync_directory(changed)
            .map_err(|error| unconfirmed(&directory, error))?;
        Ok(Bundle {
            directory,
            manifest: manifest.clone(),
            sealed: sealed.to_vec(),
            temporary: self.temporary.clone(),
        })
    }

    fn check(&self, manifest: &Manifest, sealed: &[u8]) -> Result<(), FormatError> {
        let mismatch = |reason: &str| {
            Err(FormatError::BundleMismatch {
                reason: reason.into(),
            })
        };
        manifest.validate()?;
        check_sealed(sealed)?;
        let next_version = match &self.target {
            Target::New { .. } | Target::Temporary => 1,
            Target::Next { older, .. } => {
                manifest.follows(older)?;
                older.version + 1
            }
        };
        if manifest.version != next_version {
            return mismatch("its version is not the next one");
        }
        (0..)
            .zip(&manifest.segments)
            .filter(|(_, entry)| entry.number >= self.next_segment())
            .try_for_each(|(index, _)| self.open_segment(manifest, index).map(drop))
    }
}

impl Drop for BundleWriter {
    fn drop(&mut self) {
        if self.committed {
            return;
        }
        // Best effort: the next attempt removes any leftovers.
        let _ = match &self.target {
            // Removed with `temporary`.
            Target::Temporary => Ok(()),
            Target::New { .. } => fs::remove_dir_all(&self.directory).map_err(drop),
            Target::Next { older, .. } => {
                for &digest in &self.written {
                    let _ = remove_if_there(&range_path(&self.directory, digest));
                }
                sweep_segments(&self.directory, older).map_err(drop)
            }
        };
    }
}

#[cfg(test)]
mod tests;
