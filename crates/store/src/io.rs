//! Reading panels: requests wait in order for one of a fixed number of buffers, and what was read is
//! lent to the one who asked, on the thread that read it, while it is in the cache.

use std::collections::VecDeque;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};

/// Threads that read and complete: more than one device request at a time, few enough to leave the
/// processors to those who count.
const THREADS: usize = 4;

/// What to read, and who takes it.
pub(crate) struct Read {
    pub(crate) file: Arc<File>,
    pub(crate) offset: u64,
    pub(crate) len: usize,
    pub(crate) then: Then,
}

/// Takes what was read, or why it could not be.
pub(crate) type Then = Box<dyn FnOnce(io::Result<&[u8]>) + Send>;

/// Threads that read. Dropping it ends what was begun; the rest is told that it was interrupted.
pub(crate) struct Reader {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
}

struct Shared {
    queue: Mutex<Queue>,
    news: Condvar,
}

#[derive(Default)]
struct Queue {
    reads: VecDeque<Read>,
    closed: bool,
}

impl Reader {
    /// Starts with so many buffers of so many bytes each: no read may be longer.
    pub(crate) fn start(buffers: usize, buffer_bytes: usize) -> io::Result<Self> {
        let shared = Arc::new(Shared {
            queue: Mutex::default(),
            news: Condvar::new(),
        });
        let mut reader = Self {
            shared,
            threads: Vec::new(),
        };
        for number in 0..buffers.min(THREADS) {
            let shared = Arc::clone(&reader.shared);
            let thread = thread::Builder::new().name(format!("read-{number}"));
            let work = move || shared.work(&mut vec![0; buffer_bytes]);
            reader.threads.push(thread.spawn(work)?);
        }
        Ok(reader)
    }

    /// Asks for a read and does not wait for anything.
    pub(crate) fn submit(&self, read: Read) {
        self.shared.lock().reads.push_back(read);
        self.shared.news.notify_one();
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        let reads = {
            let mut queue = self.shared.lock();
            queue.closed = true;
            std::mem::take(&mut queue.reads)
        };
        self.shared.news.notify_all();
        for read in reads {
            (read.then)(Err(io::ErrorKind::Interrupted.into()));
        }
        for thread in self.threads.drain(..) {
            // A panic was its own; there is nobody left to be told.
            let _ = thread.join();
        }
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn work(&self, buffer: &mut [u8]) {
        while let Some(Read {
            file,
            offset,
            len,
            then,
        }) = self.next()
        {
            let bytes = &mut buffer[..len];
            then(file.read_exact_at(bytes, offset).map(|()| &*bytes));
        }
    }

    fn next(&self) -> Option<Read> {
        let mut queue = self.lock();
        while !queue.closed {
            if let Some(read) = queue.reads.pop_front() {
                return Some(read);
            }
            queue = self
                .news
                .wait(queue)
                .unwrap_or_else(PoisonError::into_inner);
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::sync::mpsc::channel;

    fn file(bytes: &[u8]) -> Arc<File> {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(bytes).unwrap();
        Arc::new(file)
    }

    #[test]
    fn every_request_is_answered_with_what_it_asked_for() {
        let bytes: Vec<u8> = (0..=255).collect();
        let (reader, file) = (Reader::start(2, 64).unwrap(), file(&bytes));
        let (said, heard) = channel();
        for offset in 0..200 {
            let said = said.clone();
            reader.submit(Read {
                file: Arc::clone(&file),
                offset,
                len: 64,
                then: Box::new(move |read| {
                    said.send((offset, read.ok().map(<[u8]>::to_vec))).unwrap()
                }),
            });
        }
        for _ in 0..200 {
            let (offset, read) = heard.recv().unwrap();
            let offset = offset as usize;
            // What the file does not have in full is an error.
            assert_eq!(read.as_deref(), bytes.get(offset..offset + 64));
        }
    }

    #[test]
    fn a_reader_that_is_dropped_answers_what_it_did_not_begin() {
        let (said, heard) = channel();
        let (begun, wait) = channel();
        let (release, released) = channel::<()>();
        let reader = Reader::start(1, 1).unwrap();
        let file = file(b"x");
        let read = |then| Read {
            file: Arc::clone(&file),
            offset: 0,
            len: 1,
            then,
        };
        reader.submit(read(Box::new(move |_| {
            begun.send(()).unwrap();
            released.recv().unwrap();
        })));
        reader.submit(read(Box::new(move |read| {
            said.send(read.err().map(|error| error.kind())).unwrap();
            release.send(()).unwrap();
        })));
        wait.recv().unwrap();
        drop(reader);
        assert_eq!(heard.recv(), Ok(Some(io::ErrorKind::Interrupted)));
    }
}
