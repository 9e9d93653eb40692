//! Asynchronous reader: keeps many requests in flight at a device, and processes the bytes while they are in the CPU
//! cache.
//!
//! A few threads each own some of the buffers. A thread submits a request for each free buffer to its ring, and lends
//! arrived bytes to the requester's callback, which checks and unpacks them while the device works on. If the kernel
//! refuses rings (`io_uring`), each buffer has a thread that reads synchronously. The number of processing threads is
//! bounded, and each is pinned to its CPUs. When buffers become too small, new threads with larger ones replace the
//! old.

mod request;
mod ring;

use crate::round_robin::RoundRobin;
use oboro_arena::{Arena, ArenaBlock, ArenaError, Backing, CpuAssignment};
use oboro_format::ReadError;
use parking_lot::{Condvar, Mutex};
use request::{Begun, Then};
pub(crate) use request::{Expand, Read, Work};
use ring::Ring;
use std::io;
use std::num::NonZero;
use std::os::unix::fs::FileExt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::thread::{self, JoinHandle};

/// Maximum number of threads with a ring: they unpack more than any device delivers.
const MOST_RING_THREADS: usize = 16;

/// Interface to the kernel.
#[derive(Debug, Clone, Copy)]
enum ReadMethod {
    /// `io_uring`, with registered buffers if the limit on locked memory allows them.
    Ring,
    /// `pread`, with a thread for each buffer.
    Threads,
}

/// Threads and buffers that read from one device. Dropping it finishes the requests in flight and refuses the rest.
pub(crate) struct Reader {
    queue: Arc<Queue>,
    assignments: Arc<[CpuAssignment]>,
    /// Threads that serve the queue; locked while they are replaced.
    threads: Mutex<Vec<JoinHandle<()>>>,
}

/// Requests that wait for a free buffer.
#[derive(Default)]
struct Queue {
    state: Mutex<State>,
    /// Signalled when a request arrives or the reader is dropped.
    changed: Condvar,
}

#[derive(Default)]
struct State {
    waiting: RoundRobin<Arc<str>, Work>,
    /// Serving generation: threads of earlier ones end after their requests in flight.
    generation: Generation,
    is_closed: bool,
}

/// Number that is incremented when threads are replaced.
type Generation = u64;

impl Reader {
    /// Creates a reader that is idle until it is [provided](Self::provide) with buffers. Threads are pinned to these
    /// CPUs round-robin.
    pub(crate) fn idle(assignments: &Arc<[CpuAssignment]>) -> Self {
        Self {
            assignments: Arc::clone(assignments),
            queue: Arc::default(),
            threads: Mutex::default(),
        }
    }

    /// Returns the number of threads with a ring, if the kernel has rings.
    pub(crate) fn ring_threads(&self) -> usize {
        self.assignments.len().min(MOST_RING_THREADS)
    }

    /// Replaces the buffers by `buffers` ones of `buffer_bytes` bytes each. They serve waiting requests, which must
    /// fit.
    ///
    /// # Errors
    ///
    /// No memory for the buffers, no threads. Then waiting requests are refused, and nothing is read until this
    /// succeeds.
    pub(crate) fn provide(&self, buffers: NonZero<usize>, buffer_bytes: usize) -> io::Result<()> {
        self.provide_by(ReadMethod::Ring, buffers, buffer_bytes)
            .or_else(|_| self.provide_by(ReadMethod::Threads, buffers, buffer_bytes))
            .inspect_err(|_| self.refuse_all())
    }

    fn provide_by(
        &self,
        method: ReadMethod,
        buffers: NonZero<usize>,
        buffer_bytes: usize,
    ) -> io::Result<()> {
        let mut threads = self.threads.lock();
        let generation = self.queue.next_generation();
        end(&mut threads);
        let count = match method {
            ReadMethod::Ring => self.ring_threads().min(buffers.get()),
            ReadMethod::Threads => buffers.get(),
        };
        let words = buffer_bytes.div_ceil(size_of::<u32>());
        let bytes = buffers.get() * ArenaBlock::footprint(words);
        let arena = Arena::reserve(bytes, Backing::default()).map_err(no_memory)?;
        for number in 0..count {
            // The first position starts on a page, as direct I/O requires.
            let own = (number..buffers.get()).step_by(count);
            let own: Vec<ArenaBlock> = own
                .map(|_| arena.block(words, 0))
                .collect::<Result<_, _>>()
                .map_err(no_memory)?;
            let queue = Arc::clone(&self.queue);
            let assignment = self.assignments[number % self.assignments.len()].clone();
            // Failure to pin is harmless; memory is only farther away.
            let keep = move || {
                let _ = assignment.apply();
            };
            let thread = thread::Builder::new().name(format!("read-{number}"));
            let thread = match method {
                ReadMethod::Ring => {
                    let ring = Ring::new(own)?;
                    thread.spawn(move || {
                        keep();
                        queue.serve_by_ring(generation, ring);
                    })
                }
                ReadMethod::Threads => thread.spawn(move || {
                    keep();
                    queue.serve_by_pread(generation, own);
                }),
            };
            threads.push(thread?);
        }
        Ok(())
    }

    /// Appends a request to its owner's queue; owners take turns. Does not block.
    pub(crate) fn submit(&self, owner: &Arc<str>, work: Work) {
        self.queue.submit(owner, work);
    }

    /// Ends the threads, and refuses the requests not started.
    fn refuse_all(&self) {
        let mut threads = self.threads.lock();
        let mut waiting = self.queue.close();
        while let Some(work) = waiting.pop() {
            work.refuse();
        }
        end(&mut threads);
    }
}
impl Drop for Reader {
    fn drop(&mut self) {
        self.refuse_all();
    }
}

/// Joins threads that were signalled to end.
fn end(threads: &mut Vec<JoinHandle<()>>) {
    for thread in threads.drain(..) {
        // The last reference may be dropped on one of these threads, which ends when it returns.
        if thread.thread().id() != thread::current().id() {
            thread.join().expect("panics of those who asked are caught");
        }
    }
}

impl Work {
    /// Returns true if the request is still wanted; a panic counts as no.
    fn is_wanted(&self) -> bool {
        let (Self::Read(Read { is_wanted, .. }) | Self::Expand(Expand { is_wanted, .. })) = self;
        catch_unwind(AssertUnwindSafe(is_wanted)).unwrap_or(false)
    }

    /// Fails the request: no thread will serve it.
    fn refuse(self) {
        let refused: io::Error = io::ErrorKind::Interrupted.into();
        match self {
            Self::Read(read) => tell(read.then, Err(refused.into())),
            Self::Expand(expand) => expand.tell(Err(refused)),
        }
    }
}

impl Read {
    /// Opens the file, or reports the error to the caller.
    fn begin(self) -> Option<Begun> {
        let Self {
            open,
            offset,
            len,
            then,
            ..
        } = self;
        match open() {
            Ok(file) => Some(Begun {
                file,
                offset,
                len,
                then,
            }),
            Err(error) => {
                tell(then, Err(error));
                None
            }
        }
    }
}

impl Expand {
    /// Runs the callback. A panic in it is printed and must not affect others.
    fn tell(self, turn: io::Result<()>) {
        let _ = catch_unwind(AssertUnwindSafe(|| (self.then)(turn)));
    }
}

impl Queue {
    fn submit(&self, owner: &Arc<str>, work: Work) {
        let mut state = self.state.lock();
        if state.is_closed {
            drop(state);
            return work.refuse();
        }
        state.waiting.push(owner, work);
        self.changed.notify_one();
    }

    /// Ends the serving threads; returns the generation whose threads may start.
    fn next_generation(&self) -> Generation {
        let mut state = self.state.lock();
        state.generation += 1;
        state.is_closed = false;
        self.changed.notify_all();
        state.generation
    }

    /// Ends the serving threads and refuses further requests; returns those not started.
    fn close(&self) -> RoundRobin<Arc<str>, Work> {
        let mut state = self.state.lock();
        state.generation += 1;
        state.is_closed = true;
        self.changed.notify_all();
        std::mem::take(&mut state.waiting)
    }

    /// Returns the next request still wanted, for a thread of this generation; if `may_sleep`, waits for one.
    fn next(&self, generation: Generation, may_sleep: bool) -> Next {
        loop {
            match self.pop(generation, may_sleep) {
                Next::Work(work) if !work.is_wanted() => {}
                next => return next,
            }
        }
    }

    fn pop(&self, generation: Generation, may_sleep: bool) -> Next {
        let mut state = self.state.lock();
        loop {
            if state.generation != generation {
                return Next::Ended;
            }
            if let Some(work) = state.waiting.pop() {
                return Next::Work(work);
            }
            if !may_sleep {
                return Next::Nothing;
            }
            self.changed.wait(&mut state);
        }
    }

    fn serve_by_ring(&self, generation: Generation, mut ring: Ring) {
        let mut is_open = true;
        loop {
            while is_open && ring.has_capacity() {
                match self.next(generation, ring.is_idle()) {
                    Next::Work(Work::Read(read)) => {
                        if let Some(begun) = read.begin() {
                            ring.begin(begun);
                        }
                    }
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

    fn serve_by_pread(&self, generation: Generation, mut buffers: Vec<ArenaBlock>) {
        let Some(buffer) = buffers.first_mut() else {
            return;
        };
        while let Next::Work(work) = self.next(generation, true) {
            match work {
                Work::Read(read) => {
                    let Some(begun) = read.begin() else { continue };
                    let bytes = &mut buffer.bytes_mut()[..begun.len];
                    let arrived = begun.file.read_exact_at(bytes, begun.offset);
                    drop(begun.file);
                    tell(
                        begun.then,
                        arrived.map(|()| &*bytes).map_err(ReadError::from),
                    );
                }
                Work::Expand(expand) => expand.tell(Ok(())),
            }
        }
    }
}

fn tell_arrived(ring: &mut Ring) {
    while let Some((then, arrived)) = ring.arrived() {
        tell(then, arrived.map_err(ReadError::from));
    }
}

/// Runs the callback. A panic in it is printed and must not affect other requests.
fn tell(then: Then, arrived: Result<&[u8], ReadError>) {
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
