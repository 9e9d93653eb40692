//! Watched directories: what happens to them is recorded, and fails when told.
//!
//! `calls.rs` brings every call here. The lock is held while a call on a watched directory runs, so
//! the record has the order of the kernel; a call on anything else runs without it.

use crate::cut::Record;
use crate::tree::{DirectoryEntry, Kind, Node, Operation, ROOT, Tree};
use crate::{calls, scratch};
use parking_lot::{Mutex, MutexGuard};
use std::collections::HashMap;
use std::os::fd::RawFd;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use tempfile::TempDir;

/// Files take their space in blocks of so many bytes.
const BLOCK: usize = 4096;

/// How operations fail, counted from the [`Disk::fail`] that asked for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Failure {
    /// The operation with this number fails once, with this error number.
    Once {
        /// The number, from 0.
        at: usize,
        /// What the caller finds in `errno`.
        errno: i32,
    },
    /// From the operation with this number on there is no more space.
    Full {
        /// The number, from 0.
        at: usize,
    },
}

/// How a place of a file is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wear {
    /// Not at all: with this error number.
    Unreadable {
        /// What the caller finds in `errno`.
        errno: i32,
    },
    /// With a bit flipped, as by a device that does not notice.
    Flipped,
}

/// A directory that is watched until this is dropped, with all that is in it.
pub struct Disk {
    directory: TempDir,
    number: usize,
}

impl Disk {
    /// An empty one. From now on this thread, and those that it starts, have no rings of requests (io_uring): the disk
    /// would not see what they do.
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
            room: None,
            worn: Vec::new(),
        });
        Self { directory, number }
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        self.directory.path()
    }

    /// Notes that a call has returned: what it promised must hold from here on.
    pub fn acknowledge(&self) {
        self.with(|disk| disk.record.acknowledge());
    }

    /// What has happened so far.
    pub fn record(&self) -> Record {
        self.with(|disk| disk.record.clone())
    }

    /// Lets operations fail from now on, as `failure` says.
    pub fn fail(&self, failure: Failure) {
        self.with(|disk| {
            disk.failure = Some(failure);
            disk.attempts = 0;
        });
    }

    /// Lets every reading of this byte of a file come out like this from now on.
    ///
    /// # Panics
    /// If there is no such file on the disk.
    pub fn wear_out(&self, file: &Path, at: usize, wear: Wear) {
        let identity = calls::identity_at(file).expect("the file is there");
        self.with(|disk| disk.worn.push((disk.nodes[&identity], at, wear)));
        WORN.store(true, Ordering::SeqCst);
    }

    /// Nothing fails any more.
    pub fn mend(&self) {
        self.with(|disk| {
            (disk.failure, disk.room) = (None, None);
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

/// A file as the kernel knows it: device and inode.
pub(crate) type Identity = (u64, u64);

struct Watched {
    number: usize,
    root: PathBuf,
    /// What is there now.
    tree: Tree,
    /// An inode may be used again: the newest node counts.
    nodes: HashMap<Identity, Node>,
    made: Node,
    record: Record,
    failure: Option<Failure>,
    attempts: usize,
    /// Bytes that all files may take together.
    room: Option<usize>,
    /// Bytes that are not read as they were written.
    worn: Vec<(Node, usize, Wear)>,
}

struct Disks {
    watched: Vec<Watched>,
    made: usize,
}

/// Whether any disk ever had a worn byte: readings of programs without one pass by.
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

/// What a system call gives: a number that is not negative, or an error number.
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
            // Elsewhere the inode of a file that was removed here may be used again.
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

/// Gives a file a further name.
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

/// What a reading brought.
pub(crate) struct Read {
    pub(crate) bytes: usize,
    /// Which of them has a bit flipped.
    pub(crate) flipped: Option<usize>,
}

/// Reads from `offset` on, which is asked for only if the file is watched.
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

/// Writes at most `data` at `offset`, which is asked for only if the file is watched; `call` is told how
/// many bytes to write.
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

/// Cuts a file off or extends it by zeros.
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

/// Promises that all changes of a file or directory will last.
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
            && self.room.is_none()
        {
            self.room = Some(self.used());
        }
        self.last_attempt()
    }

    fn last_attempt(&self) -> Answer<()> {
        match self.failure {
            Some(Failure::Once { at, errno }) if self.attempts == at + 1 => Err(errno),
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
        self.room
            .map_or(usize::MAX, |room| own + room.saturating_sub(self.used()))
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
