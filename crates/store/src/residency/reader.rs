//! Reads ahead: many requests at a device at a time, and what arrives is worked on while it is hot.
//!
//! A few threads each have some of the buffers. A thread gives the kernel a request for each buffer that
//! is free, through a ring of its own, and lends the bytes of what has arrived to whoever asked, who
//! checks and unpacks them on that thread; meanwhile the device works on the other requests. Where the
//! kernel refuses rings (`io_uring`), each buffer has a thread that reads by itself.
//! No more threads work on bytes at a time than the store has for that, and each keeps to its CPUs.
//! When buffers are too small for what is to come, other threads take over with larger ones.

mod ring;

use oboro_arena::{Arena, ArenaBlock, ArenaError, Backing, CpuAssignment};
use parking_lot::{Condvar, Mutex};
use ring::Ring;
use std::collections::VecDeque;
use std::fs::File;
use std::io;
use std::num::NonZero;
use std::os::unix::fs::FileExt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::thread::{self, JoinHandle};

/// The most threads that have a ring: they unpack what no device can deliver faster.
const MOST_RING_THREADS: usize = 16;

/// What somebody wants of a thread of the reader.
pub(crate) enum Work {
    Read(Read),
    Expand(Expand),
}

/// A panel that is made without reading anything.
pub(crate) struct Expand {
    /// As for [`Read`].
    pub(crate) is_wanted: Box<dyn Fn() -> bool + Send>,
    /// Makes it, on a thread of the reader, or is told that there is none.
    pub(crate) then: Box<dyn FnOnce(io::Result<()>) + Send>,
}

/// A part of a file that somebody wants.
pub(crate) struct Read {
    pub(crate) file: Arc<File>,
    /// A multiple of 4096, and so is `len`, where the file is opened for direct I/O.
    pub(crate) offset: u64,
    /// At most the size of a buffer.
    pub(crate) len: usize,
    /// Asked on a thread of the reader when a buffer is free for it: what nobody wants any more is not
    /// read, and `then` is dropped.
    pub(crate) is_wanted: Box<dyn Fn() -> bool + Send>,
    /// Given the bytes, all of them, on a thread of the reader. They are lent: the buffer is for the next
    /// request when this returns.
    pub(crate) then: Then,
}

/// Takes what was read, or why it could not be.
pub(crate) type Then = Box<dyn FnOnce(io::Result<&[u8]>) + Send>;

/// How the kernel is asked.
#[derive(Debug, Clone, Copy)]
enum Way {
    /// Through `io_uring`; with buffers that the kernel knows beforehand, where the limit on locked
    /// memory allows.
    Ring,
    /// By `pread`, a thread for each buffer.
    Threads,
}

/// The threads and buffers that read from one device. Dropped, it ends what was begun and gives up the
/// rest, which is told so.
pub(crate) struct Reader {
    queue: Arc<Queue>,
    places: Arc<[CpuAssignment]>,
    /// Those that serve the queue; locked while others take over.
    threads: Mutex<Vec<JoinHandle<()>>>,
}

/// Requests that no buffer was free for yet.
#[derive(Default)]
struct Queue {
    state: Mutex<State>,
    /// There is a request, or the reader was dropped.
    news: Condvar,
}

#[derive(Default)]
struct State {
    waiting: VecDeque<Work>,
    /// Who serves: threads that began earlier end, what they have begun included.
    shift: Shift,
    is_closed: bool,
}

/// Counts how often threads took over.
type Shift = u64;

impl Reader {
    /// Reads nothing until it is [provided](Self::provide) with buffers. Threads are kept to these places in turn.
    pub(crate) fn idle(places: &Arc<[CpuAssignment]>) -> Self {
        Self {
            places: Arc::clone(places),
            queue: Arc::default(),
            threads: Mutex::default(),
        }
    }

    /// How many threads have a ring, where the kernel has rings.
    pub(crate) fn ring_threads(&self) -> usize {
        self.places.len().min(MOST_RING_THREADS)
    }

    /// Goes on with so many buffers, of so many bytes each, once the present ones have gone. Requests that
    /// wait are served by them, and must fit.
    ///
    /// # Errors
    /// No memory for the buffers, no threads. Then nothing is read until this succeeds, and who waits is
    /// told.
    pub(crate) fn provide(&self, buffers: NonZero<usize>, buffer_bytes: usize) -> io::Result<()> {
        self.provide_by(Way::Ring, buffers, buffer_bytes)
            .or_else(|_| self.provide_by(Way::Threads, buffers, buffer_bytes))
            .inspect_err(|_| self.give_up())
    }

    fn provide_by(&self, way: Way, buffers: NonZero<usize>, buffer_bytes: usize) -> io::Result<()> {
        let mut threads = self.threads.lock();
        let shift = self.queue.next_shift();
        end(&mut threads);
        let count = match way {
            Way::Ring => self.ring_threads().min(buffers.get()),
            Way::Threads => buffers.get(),
        };
        let words = buffer_bytes.div_ceil(size_of::<u32>());
        let bytes = buffers.get() * ArenaBlock::footprint(words);
        let arena = Arena::reserve(bytes, Backing::default()).map_err(no_memory)?;
        for number in 0..count {
            // The first position begins on a page, as direct I/O wants it.
            let own = (number..buffers.get()).step_by(count);
            let own: Vec<ArenaBlock> = own
                .map(|_| arena.block(words, 0))
                .collect::<Result<_, _>>()
                .map_err(no_memory)?;
            let queue = Arc::clone(&self.queue);
            let place = self.places[number % self.places.len()].clone();
            // Elsewhere it works as well, only from further away.
            let keep = move || {
                let _ = place.apply();
            };
            let thread = thread::Builder::new().name(format!("read-{number}"));
            let thread = match way {
                Way::Ring => {
                    let ring = Ring::new(own)?;
                    thread.spawn(move || {
                        keep();
                        queue.serve_by_ring(shift, ring);
                    })
                }
                Way::Threads => thread.spawn(move || {
                    keep();
                    queue.serve_by_pread(shift, own);
                }),
            };
            threads.push(thread?);
        }
        Ok(())
    }

    /// Adds a request behind those that wait. Nobody waits here.
    pub(crate) fn submit(&self, work: Work) {
        self.queue.submit(work);
    }

    /// Ends the threads, and tells those whose requests none of them has begun.
    fn give_up(&self) {
        let mut threads = self.threads.lock();
        for work in self.queue.close() {
            work.refuse();
        }
        end(&mut threads);
    }
}
impl Drop for Reader {
    fn drop(&mut self) {
        self.give_up();
    }
}

/// Waits for threads that were told to end.
fn end(threads: &mut Vec<JoinHandle<()>>) {
    for thread in threads.drain(..) {
        // Whoever lets go last may be told so on one of them, which ends when it returns.
        if thread.thread().id() != thread::current().id() {
            thread.join().expect("panics of those who asked are caught");
        }
    }
}

impl Work {
    /// Whoever panics there is not to be told anything.
    fn is_wanted(&self) -> bool {
        let (Self::Read(Read { is_wanted, .. }) | Self::Expand(Expand { is_wanted, .. })) = self;
        catch_unwind(AssertUnwindSafe(is_wanted)).unwrap_or(false)
    }

    /// Tells who asked that nobody will do it.
    fn refuse(self) {
        let refused = io::ErrorKind::Interrupted.into();
        match self {
            Self::Read(read) => tell(read.then, Err(refused)),
            Self::Expand(expand) => expand.tell(Err(refused)),
        }
    }
}

impl Expand {
    /// A panic there is printed; others must not suffer for it.
    fn tell(self, turn: io::Result<()>) {
        let _ = catch_unwind(AssertUnwindSafe(|| (self.then)(turn)));
    }
}

impl Queue {
    fn submit(&self, work: Work) {
        let mut state = self.state.lock();
        if state.is_closed {
            drop(state);
            return work.refuse();
        }
        state.waiting.push_back(work);
        self.news.notify_one();
    }

    /// Ends the threads that serve, and lets those of the shift that is returned do so.
    fn next_shift(&self) -> Shift {
        let mut state = self.state.lock();
        state.shift += 1;
        state.is_closed = false;
        self.news.notify_all();
        state.shift
    }

    /// Ends the threads that serve and refuses further requests; those that nobody has begun.
    fn close(&self) -> VecDeque<Work> {
        let mut state = self.state.lock();
        state.shift += 1;
        state.is_closed = true;
        self.news.notify_all();
        std::mem::take(&mut state.waiting)
    }

    /// The next request for a thread of this shift that somebody wants; sleeps until there is one if
    /// `may_sleep`.
    fn next(&self, shift: Shift, may_sleep: bool) -> Next {
        loop {
            match self.pop(shift, may_sleep) {
                Next::Work(work) if !work.is_wanted() => {}
                next => return next,
            }
        }
    }

    fn pop(&self, shift: Shift, may_sleep: bool) -> Next {
        let mut state = self.state.lock();
        loop {
            if state.shift != shift {
                return Next::Ended;
            }
            if let Some(work) = state.waiting.pop_front() {
                return Next::Work(work);
            }
            if !may_sleep {
                return Next::Nothing;
            }
            self.news.wait(&mut state);
        }
    }

    fn serve_by_ring(&self, shift: Shift, mut ring: Ring) {
        let mut is_open = true;
        loop {
            while is_open && ring.has_room() {
                match self.next(shift, ring.is_idle()) {
                    Next::Work(Work::Read(read)) => ring.begin(read),
                    Next::Work(Work::Expand(expand)) => {
                        ring.submit();
                        expand.tell(Ok(()));
                        tell_arrived(&mut ring);
                    }
                    Next::Nothing => break,
                    Next::Ended => is_open = false,
                }
            }
            if ring.is_idle() {
                return;
            }
            ring.wait();
            tell_arrived(&mut ring);
        }
    }

    fn serve_by_pread(&self, shift: Shift, mut buffers: Vec<ArenaBlock>) {
        let Some(buffer) = buffers.first_mut() else {
            return;
        };
        while let Next::Work(work) = self.next(shift, true) {
            match work {
                Work::Read(read) => {
                    let bytes = &mut buffer.bytes_mut()[..read.len];
                    let arrived = read.file.read_exact_at(bytes, read.offset);
                    tell(read.then, arrived.map(|()| &*bytes));
                }
                Work::Expand(expand) => expand.tell(Ok(())),
            }
        }
    }
}

fn tell_arrived(ring: &mut Ring) {
    while let Some((then, arrived)) = ring.arrived() {
        tell(then, arrived);
    }
}

/// A panic there is printed; other requests must not suffer for it.
fn tell(then: Then, arrived: io::Result<&[u8]>) {
    let _ = catch_unwind(AssertUnwindSafe(|| then(arrived)));
}

enum Next {
    Work(Work),
    Nothing,
    Ended,
}

fn no_memory(error: ArenaError) -> io::Error {
    io::Error::new(io::ErrorKind::OutOfMemory, error)
}

#[cfg(test)]
mod tests;
