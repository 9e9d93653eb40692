//! Watched directories: operations on them are recorded, and fail on demand.
//!
//! `calls.rs` routes every call here. A lock is held during a call on a watched directory, so the record has the
//! kernel's order; other calls run without it.

use crate::cut::Record;
use crate::tree::{DirectoryEntry, Kind, Node, Operation, ROOT, Tree};
use crate::{calls, scratch};
use parking_lot::{Mutex, MutexGuard};
use std::collections::HashMap;
use std::os::fd::RawFd;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use tempfile::TempDir;

/// The block size of files in bytes.
const BLOCK: usize = 4096;

/// How operations fail, counted from the call of [`Disk::fail`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Failure {
    /// One operation fails once, with this error number.
    Once {
        /// The number, from 0.
        at: usize,
        /// The value of `errno`.
        errno: i32,
    },
    /// From this operation on the disk is full.
    Full {
        /// The number, from 0.
        at: usize,
    },
    /// From this operation on the disk is read-only (EROFS), as after an error of the device.
    ReadOnly {
        /// The number, from 0.
        at: usize,
    },
}

/// How reading a byte of a file fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wear {
    /// With this error number.
    Unreadable {
        /// The value of `errno`.
        errno: i32,
    },
    /// With a bit flipped, as by a device that does not detect it.
    Flipped,
}

/// A directory that is watched, with everything in it, until this is dropped.
pub struct Disk {
    directory: TempDir,
    number: usize,
}

impl Disk {
    /// An empty directory. From now on this thread, and those that it starts, cannot use io_uring, which the disk could
    /// not observe.
    pub fn new() -> Self {
        calls::link();
        calls::refuse_rings();
        let directory = scratch();
        let root = directory.path().canonicalize().unwrap();
        let mut disks = disks();
        disks.made += 1;
        let number = disks.made;
        let mut nodes = HashMap::new();
        nodes.insert(calls::identity_at(&root).unwrap(), ROOT);
        disks.watched.push(Watched {
            number,
            root,
            tree: Tree::new(),
            nodes,
            made: ROOT,
            record: Record::default(),
            failure: None,
            attempts: 0,
            capacity: None,
            worn: Vec::new(),
        });
        Self { directory, number }
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        self.directory.path()
    }

    /// Records that a call has returned: what it promised must hold from here on.
    pub fn acknowledge(&self) {
        self.with(|disk| disk.record.acknowledge());
    }

    /// What has happened so far.
    pub fn record(&self) -> Record {
        self.with(|disk| disk.record.clone())
    }

    /// Makes operations fail from now on, as `failure` says.
    pub fn fail(&self, failure: Failure) {
        self.with(|disk| {
            disk.failure = Some(failure);
            disk.attempts = 0;
        });
    }

    /// Makes every read of this byte of a file fail as `wear` says from now on.
    ///
    /// # Panics
    /// If the disk has no such file.
    pub fn wear_out(&self, file: &Path, at: usize, wear: Wear) {
        let identity = calls::identity_at(file).expect("the file is there");
        self.with(|disk| disk.worn.push((disk.nodes[&identity], at, wear)));
        WORN.store(true, Ordering::SeqCst);
    }

    /// Ends all failures.
    pub fn mend(&self) {
        self.with(|disk| {
            (disk.failure, disk.capacity) = (None, None);
            disk.worn.clear();
        });
    }

    /// The operations tried since [`fail`](Self::fail).
    pub fn attempts(&self) -> usize {
        self.with(|disk| disk.attempts)
    }

    fn with<T>(&self, work: impl FnOnce(&mut Watched) -> T) -> T {
        let mut disks = disks();
        let mut watched = disks.watched.iter_mut();
        work(watched.find(|disk| disk.number == self.number).unwrap())
    }
}

impl Default for Disk {
    fn default() -> Self {
        Self::new()
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        disks().watched.retain(|disk| disk.number != self.number);
    }
}

/// A file's identity to the kernel: device and inode.
pub(crate) type Identity = (u64, u64);

struct Watched {
    number: usize,
    root: PathBuf,
    /// The current content.
    tree: Tree,
    /// An inode may be reused: the newest node counts.
    nodes: HashMap<Identity, Node>,
    made: Node,
    record: Record,
    failure: Option<Failure>,
    attempts: usize,
    /// The capacity for all files together, in bytes.
    capacity: Option<usize>,
    /// Bytes that read differently from what was written.
    worn: Vec<(Node, usize, Wear)>,
}

struct Disks {
    watched: Vec<Watched>,
    made: usize,
}

/// Whether any disk ever had a worn byte: without one, reads skip the check.
static WORN: AtomicBool = AtomicBool::new(false);

static DISKS: Mutex<Disks> = Mutex::new(Disks {
    watched: Vec::new(),
    made: 0,
});

fn disks() -> MutexGuard<'static, Disks> {
    DISKS.lock()
}

/// A path and the directory that it may be relative to.
#[derive(Clone, Copy)]
pub(crate) struct At<'a> {
    pub(crate) directory: RawFd,
    pub(crate) path: &'a Path,
}

/// The result of a system call: a non-negative number, or an error number.
pub(crate) type Answer<T> = Result<T, i32>;

impl Disks {
    fn by_path(&mut self, at: At<'_>) -> Option<(&mut Watched, DirectoryEntry)> {
        if !at.path.is_absolute() {
            let (disk, directory) = self.by_file(at.directory)?;
            let place = disk.tree.resolve(directory, at.path)?;
            return Some((disk, place));
        }
        self.watched.iter_mut().find_map(|disk| {
            let within = at.path.strip_prefix(&disk.root).ok()?;
            let place = disk.tree.resolve(ROOT, within)?;
            Some((disk, place))
        })
    }

    fn by_file(&mut self, file: RawFd) -> Option<(&mut Watched, Node)> {
        if self.watched.is_empty() {
            return None;
        }
        let identity = calls::identity(file)?;
        self.watched.iter_mut().find_map(|disk| {
            let node = *disk.nodes.get(&identity)?;
            // Outside, the inode of a file that was removed here may be reused.
            let here = calls::path(file)?.starts_with(&disk.root);
            here.then_some((disk, node))
        })
    }
}

/// Opens a file. `creates` and `truncates` are the flags of the call.
pub(crate) fn open(
    at: At<'_>,
    creates: bool,
    truncates: bool,
    call: impl FnOnce() -> Answer<RawFd>,
) -> Answer<RawFd> {
    let mut disks = disks();
    let found = disks.by_path(at).filter(|_| creates || truncates);
    let Some((disk, place)) = found else {
        drop(disks);
        return call();
    };
    match disk.tree.look_up(&place) {
        Some(node) if truncates && disk.tree.length(node) > 0 => {
            disk.attempt()?;
            let file = call()?;
            disk.apply(Operation::Truncate { node, length: 0 });
            Ok(file)
        }
        None if creates => {
            disk.attempt()?;
            let file = call()?;
            disk.make(place, Kind::File, calls::identity(file));
            Ok(file)
        }
        _ => call(),
    }
}

/// Makes a directory.
pub(crate) fn make_directory(at: At<'_>, call: impl FnOnce() -> Answer<()>) -> Answer<()> {
    let mut disks = disks();
    let Some((disk, place)) = disks.by_path(at) else {
        drop(disks);
        return call();
    };
    disk.attempt()?;
    call()?;
    disk.make(place, Kind::Directory, calls::identity_at(at.path));
    Ok(())
}

/// Links a file under another name.
pub(crate) fn link(from: At<'_>, to: At<'_>, call: impl FnOnce() -> Answer<()>) -> Answer<()> {
    let mut disks = disks();
    let source = disks.by_path(from).map(|(_, place)| place);
    let (Some(source), Some((disk, place))) = (source, disks.by_path(to)) else {
        drop(disks);
        return call();
    };
    disk.attempt()?;
    call()?;
    if let Some(node) = disk.tree.look_up(&source) {
        let kind = Kind::File;
        disk.apply(Operation::Enter { place, node, kind });
    }
    Ok(())
}

/// Renames, within one disk.
pub(crate) fn rename(from: At<'_>, to: At<'_>, call: impl FnOnce() -> Answer<()>) -> Answer<()> {
    let mut disks = disks();
    let source = disks.by_path(from).map(|(_, place)| place);
    let (Some(from), Some((disk, to))) = (source, disks.by_path(to)) else {
        drop(disks);
        return call();
    };
    disk.attempt()?;
    call()?;
    if let Some(node) = disk.tree.look_up(&from) {
        disk.apply(Operation::Rename { from, to, node });
    }
    Ok(())
}

/// Removes a file or a directory.
pub(crate) fn remove(at: At<'_>, call: impl FnOnce() -> Answer<()>) -> Answer<()> {
    let mut disks = disks();
    let Some((disk, place)) = disks.by_path(at) else {
        drop(disks);
        return call();
    };
    disk.attempt()?;
    call()?;
    if let Some(node) = disk.tree.look_up(&place) {
        disk.apply(Operation::Remove { place, node });
    }
    Ok(())
}

/// The result of a read.
pub(crate) struct Read {
    pub(crate) bytes: usize,
    /// The index of a byte with a flipped bit.
    pub(crate) flipped: Option<usize>,
}

/// Reads from `offset` on, which is evaluated only for watched files.
pub(crate) fn read(
    file: RawFd,
    offset: impl FnOnce() -> usize,
    call: impl FnOnce() -> Answer<usize>,
) -> Answer<Read> {
    let sound = |bytes| Read {
        bytes,
        flipped: None,
    };
    if !WORN.load(Ordering::SeqCst) {
        return call().map(sound);
    }
    let mut disks = disks();
    let Some((disk, node)) = disks.by_file(file) else {
        drop(disks);
        return call().map(sound);
    };
    let offset = offset();
    let bytes = call()?;
    let worn = disk.worn.iter().filter(|(of, ..)| *of == node);
    let within = |at: usize| at.checked_sub(offset).filter(|&at| at < bytes);
    let found = worn.filter_map(|&(_, at, wear)| Some((within(at)?, wear)));
    match found.min_by_key(|&(at, _)| at) {
        None => Ok(sound(bytes)),
        Some((_, Wear::Unreadable { errno })) => Err(errno),
        Some((at, Wear::Flipped)) => Ok(Read {
            bytes,
            flipped: Some(at),
        }),
    }
}

/// Writes at most `data` at `offset`, which is evaluated only for watched files; `call` receives the number of bytes to
/// write.
pub(crate) fn write(
    file: RawFd,
    data: &[u8],
    offset: impl FnOnce() -> usize,
    call: impl FnOnce(usize) -> Answer<usize>,
) -> Answer<usize> {
    let mut disks = disks();
    let Some((disk, node)) = disks.by_file(file) else {
        drop(disks);
        return call(data.len());
    };
    disk.attempt()?;
    let offset = offset();
    let possible = disk.longest(node).saturating_sub(offset);
    if possible == 0 && !data.is_empty() {
        return Err(libc::ENOSPC);
    }
    let written = call(data.len().min(possible))?;
    let data = data[..written].into();
    disk.apply(Operation::Write { node, offset, data });
    Ok(written)
}

/// Truncates a file, or extends it with zeros.
pub(crate) fn truncate(
    file: RawFd,
    length: usize,
    call: impl FnOnce() -> Answer<()>,
) -> Answer<()> {
    let mut disks = disks();
    let Some((disk, node)) = disks.by_file(file) else {
        drop(disks);
        return call();
    };
    disk.attempt()?;
    if length > disk.longest(node) {
        return Err(libc::ENOSPC);
    }
    call()?;
    disk.apply(Operation::Truncate { node, length });
    Ok(())
}

/// Makes all changes of a file or directory durable.
pub(crate) fn sync(file: RawFd) -> Answer<()> {
    let mut disks = disks();
    let Some((disk, node)) = disks.by_file(file) else {
        return Ok(());
    };
    match disk.attempt() {
        Ok(()) => disk.apply(Operation::Sync { node }),
        Err(_) => disk.apply(Operation::SyncFailed { node }),
    }
    disk.last_attempt()
}

impl Watched {
    /// Counts an operation, which fails if it is its turn.
    fn attempt(&mut self) -> Answer<()> {
        self.attempts += 1;
        if let Some(Failure::Full { at }) = self.failure
            && self.attempts > at
            && self.capacity.is_none()
        {
            self.capacity = Some(self.used());
        }
        self.last_attempt()
    }

    fn last_attempt(&self) -> Answer<()> {
        match self.failure {
            Some(Failure::Once { at, errno }) if self.attempts == at + 1 => Err(errno),
            Some(Failure::ReadOnly { at }) if self.attempts > at => Err(libc::EROFS),
            _ => Ok(()),
        }
    }

    fn used(&self) -> usize {
        let blocks = self.tree.lengths().map(|length| length.div_ceil(BLOCK));
        blocks.sum::<usize>() * BLOCK
    }

    /// The length to which a file can grow.
    fn longest(&self, node: Node) -> usize {
        let own = self.tree.length(node).next_multiple_of(BLOCK);
        self.capacity.map_or(usize::MAX, |capacity| {
            own + capacity.saturating_sub(self.used())
        })
    }

    fn make(&mut self, place: DirectoryEntry, kind: Kind, identity: Option<Identity>) {
        self.made += 1;
        let node = self.made;
        self.nodes
            .insert(identity.expect("what was just made exists"), node);
        self.apply(Operation::Enter { place, node, kind });
    }

    fn apply(&mut self, operation: Operation) {
        self.tree.apply(&operation);
        self.record.push(operation);
    }
}
