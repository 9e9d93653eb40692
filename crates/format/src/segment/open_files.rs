//! Cache of open segment files, bounded by the descriptors that the process can spare.
//!
//! A reader holds a file for the duration of one read. The least recently used files are closed first, and reopened by
//! the next reader. Descriptors thus remain for connections, however many segments are in use.

use super::read_error::ReadError;
use oboro_system::{descriptor_limit, is_out_of_descriptors};
use parking_lot::Mutex;
use std::collections::{BTreeMap, HashMap};
use std::fs::File;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, LazyLock};

/// Minimum number of files that stay open, whatever the limit of the process.
const LEAST: usize = 16;
/// Maximum number of files. Reopening costs microseconds; the kernel holds one or two KiB for each file.
const MOST: usize = 4096;
/// Descriptors of the process besides connections and segments.
const BESIDES: usize = 256;

/// Descriptors reserved for connections.
static CONNECTIONS: AtomicUsize = AtomicUsize::new(0);
static OF_PROCESS: LazyLock<Arc<OpenFiles>> = LazyLock::new(|| Arc::new(OpenFiles::new(None)));

/// Reserves descriptors of this process for connections. The largest reservation of several servers in one process
/// counts.
pub fn leave_descriptors(connections: usize) {
    CONNECTIONS.fetch_max(connections, Ordering::Relaxed);
}

/// Returns the number of files that may stay open if the process may have `limit` descriptors.
fn share(limit: usize, connections: usize) -> usize {
    limit
        .saturating_sub(connections)
        .saturating_sub(BESIDES)
        .max(limit / 8)
        .clamp(LEAST, MOST)
}

/// Mode in which a file is open.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Opening {
    /// Through the page cache.
    Cached,
    /// Direct I/O.
    Direct,
}

/// Key of an open file: the number of its segment here, and the mode.
pub(super) type Key = (u64, Opening);

/// Cache of files that stay open between reads.
pub(super) struct OpenFiles {
    /// Fixed capacity; `None` derives it from the limit of the process.
    capacity: Option<usize>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    files: HashMap<Key, Open>,
    /// Files that may be closed, by time of last use.
    by_use: BTreeMap<u64, Key>,
    clock: u64,
    /// Number of files that may not be closed.
    held: usize,
    numbers: u64,
}

struct Open {
    file: Arc<File>,
    /// Time of last use; `None` for a file that may not be closed.
    used: Option<u64>,
}

impl State {
    /// Marks a file as used and returns it.
    fn touch(&mut self, key: Key) -> Option<Arc<File>> {
        let open = self.files.get_mut(&key)?;
        if let Some(used) = &mut open.used {
            self.by_use.remove(used);
            self.clock += 1;
            *used = self.clock;
            self.by_use.insert(self.clock, key);
        }
        Some(Arc::clone(&open.file))
    }

    /// Adds an open file unless the key is present.
    fn add(&mut self, key: Key, file: Arc<File>) {
        self.clock += 1;
        let used = self.clock;
        self.files.entry(key).or_insert_with(|| {
            self.by_use.insert(used, key);
            let used = Some(used);
            Open { file, used }
        });
    }

    /// Removes the least recently used files beyond `most`, except those that may not be closed.
    fn shrink_to(&mut self, most: usize) -> Vec<Open> {
        let mut closed = Vec::new();
        while self.files.len() > most
            && let Some((_, key)) = self.by_use.pop_first()
        {
            closed.extend(self.files.remove(&key));
        }
        closed
    }
}

impl OpenFiles {
    pub(super) fn new(capacity: Option<usize>) -> Self {
        Self {
            capacity,
            state: Mutex::default(),
        }
    }

    /// Returns the cache of this process.
    pub(super) fn of_process() -> &'static Arc<Self> {
        &OF_PROCESS
    }

    /// Reads the present limit each time, since the command raises it when it starts to serve.
    fn capacity(&self) -> usize {
        self.capacity.unwrap_or_else(|| {
            let limit = descriptor_limit().map_or(usize::MAX, |limit| limit as usize);
            share(limit, CONNECTIONS.load(Ordering::Relaxed))
        })
    }

    /// Returns a new number for the file of a segment.
    pub(super) fn number(&self) -> u64 {
        let mut state = self.state.lock();
        state.numbers += 1;
        state.numbers
    }

    /// Returns a file, opened by `open` if necessary.
    pub(super) fn take(
        &self,
        key: Key,
        open: impl Fn() -> Result<File, ReadError>,
    ) -> Result<Arc<File>, ReadError> {
        if let Some(file) = self.state.lock().touch(key) {
            return Ok(file);
        }
        let file = Arc::new(self.open(open)?);
        self.add(key, Arc::clone(&file));
        Ok(file)
    }

    /// Returns a file if it is open.
    pub(super) fn find(&self, key: Key) -> Option<Arc<File>> {
        self.state.lock().touch(key)
    }

    /// Calls `open`, and closes other files if the process is out of descriptors.
    pub(super) fn open(
        &self,
        open: impl Fn() -> Result<File, ReadError>,
    ) -> Result<File, ReadError> {
        loop {
            let opened = open();
            match &opened {
                Err(ReadError::Refused(error)) if is_out_of_descriptors(error) => {
                    let mut state = self.state.lock();
                    let fewer = state.by_use.len() / 2 + state.held;
                    let closed = state.shrink_to(fewer);
                    drop(state);
                    if closed.is_empty() {
                        return opened;
                    }
                }
                _ => return opened,
            }
        }
    }

    /// Adds a file that was just opened.
    pub(super) fn add(&self, key: Key, file: Arc<File>) {
        let capacity = self.capacity();
        let mut state = self.state.lock();
        state.add(key, file);
        let closed = state.shrink_to(capacity);
        // Close files outside the lock.
        drop(state);
        drop(closed);
    }

    /// Keeps a file open until it is [forgotten](Self::forget), unless held files are half of the capacity already.
    pub(super) fn hold(&self, key: Key, open: impl Fn() -> Result<File, ReadError>) {
        let most = self.capacity() / 2;
        if self.state.lock().held >= most {
            return;
        }
        // A file that cannot be opened now cannot be read later either.
        let Ok(file) = self.take(key, open) else {
            return;
        };
        let mut state = self.state.lock();
        // Another thread may have closed it since.
        state.add(key, file);
        let used = state.files.get_mut(&key).and_then(|open| open.used.take());
        if let Some(used) = used {
            state.by_use.remove(&used);
            state.held += 1;
        }
    }

    /// Closes the files of a segment.
    pub(super) fn forget(&self, number: u64) {
        let mut state = self.state.lock();
        let closed = [Opening::Cached, Opening::Direct].map(|opening| {
            let open = state.files.remove(&(number, opening))?;
            match open.used {
                Some(used) => drop(state.by_use.remove(&used)),
                None => state.held -= 1,
            }
            Some(open)
        });
        drop(state);
        drop(closed);
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.state.lock().files.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::io::Errno;

    #[test]
    fn connections_come_first_and_a_part_is_always_left() {
        assert_eq!(share(1 << 20, 4096), MOST);
        assert_eq!(share(8192, 4096), 8192 - 4096 - BESIDES);
        assert_eq!(share(1024, 0), 1024 - BESIDES);
        assert_eq!(share(1024, 4096), 128);
        assert_eq!(share(64, 0), LEAST);
    }

    fn null() -> Result<File, ReadError> {
        File::open("/dev/null").map_err(ReadError::Refused)
    }

    /// Returns the numbers of the open files.
    fn there(files: &OpenFiles) -> Vec<u64> {
        let mut there: Vec<u64> = files.state.lock().files.keys().map(|key| key.0).collect();
        there.sort_unstable();
        there
    }

    #[test]
    fn the_least_recently_used_file_is_closed() {
        let files = OpenFiles::new(Some(3));
        for number in [1, 2, 3, 1, 4, 1, 5] {
            files.take((number, Opening::Cached), null).unwrap();
        }
        assert_eq!(there(&files), [1, 4, 5]);
        files.forget(4);
        files.forget(2);
        assert_eq!(there(&files), [1, 5]);
    }

    #[test]
    fn held_files_stay_and_are_half_at_most() {
        let files = OpenFiles::new(Some(4));
        for number in [1, 1, 2, 3] {
            files.hold((number, Opening::Cached), null);
        }
        for number in 4..9 {
            files.take((number, Opening::Cached), null).unwrap();
        }
        assert_eq!(there(&files), [1, 2, 7, 8]);
        files.forget(1);
        files.hold((9, Opening::Cached), null);
        files.hold((10, Opening::Cached), null);
        for number in 11..15 {
            files.take((number, Opening::Cached), null).unwrap();
        }
        assert_eq!(there(&files), [2, 9, 13, 14]);
    }

    #[test]
    fn where_descriptors_run_out_files_are_closed_for_the_new_one() {
        let files = OpenFiles::new(Some(8));
        for number in 0..8 {
            files.take((number, Opening::Cached), null).unwrap();
        }
        let exhausted = |most: usize| {
            let files = &files;
            move || {
                if files.len() > most {
                    return Err(ReadError::Refused(Errno::MFILE.into()));
                }
                null()
            }
        };
        assert!(files.take((8, Opening::Cached), exhausted(2)).is_ok());
        assert_eq!(there(&files), [6, 7, 8]);
        // Held files are not closed.
        files.hold((8, Opening::Cached), null);
        let refused = files.take((9, Opening::Cached), exhausted(0));
        assert!(matches!(refused, Err(ReadError::Refused(_))));
        assert_eq!(there(&files), [8]);
    }
}
