//! Scheduling.
//!
//! Two levels: a [`Queue`] gives each free thread a time slice of the client with the least usage, where slices are
//! charged the time that they took (`fair`). Within a job, [`Units`] gives it the panels on its own memory node first.
//! Nothing else in the product schedules work on threads.

mod fair;
mod signal;
mod units;

pub use fair::Slice;
pub use units::{Claim, Counters, Units};

pub(crate) use signal::Signal;

use fair::Flows;
use parking_lot::Mutex;
use std::sync::Arc;

/// Jobs of clients, from which threads take time slices.
pub struct Queue<C, J: ?Sized> {
    state: Mutex<State<C, J>>,
    /// A job may be ready, or the queue was closed.
    signal: Signal,
}

struct State<C, J: ?Sized> {
    flows: Flows<C, J>,
    closed: bool,
}

impl<C: Clone + PartialEq, J: ?Sized> Default for Queue<C, J> {
    fn default() -> Self {
        Self {
            state: Mutex::new(State {
                flows: Flows::new(),
                closed: false,
            }),
            signal: Signal::default(),
        }
    }
}

impl<C: Clone + PartialEq, J: ?Sized> Queue<C, J> {
    /// Adds a job of a client.
    pub fn push(&self, client: &C, job: Arc<J>) {
        self.state.lock().flows.push(client, job);
        self.wake();
    }

    /// Takes a job out; slices of it that run go on.
    pub fn remove(&self, client: &C, job: &Arc<J>) {
        self.state.lock().flows.remove(client, job);
    }

    /// The number of jobs.
    pub fn jobs(&self) -> usize {
        self.state.lock().flows.jobs()
    }

    /// Says that a job may have become ready.
    pub fn wake(&self) {
        // One suffices: a thread that has found a slice wakes the next.
        self.signal.wake_one();
    }

    /// No further slice is given.
    pub fn close(&self) {
        self.state.lock().closed = true;
        self.signal.wake_all();
    }

    /// The next slice, of a job that is ready; sleeps until there is one. `None` once the queue is closed.
    pub fn next(&self, is_ready: impl Fn(&J) -> bool) -> Option<Slice<C, J>> {
        loop {
            let seen = self.signal.now();
            let mut state = self.state.lock();
            if state.closed {
                return None;
            }
            if let Some(slice) = state.flows.next(&is_ready) {
                drop(state);
                self.wake();
                return Some(slice);
            }
            drop(state);
            self.signal.wait(seen);
        }
    }

    /// A slice has ended after this many microseconds; with `is_last`, so has its job.
    pub fn settle(&self, slice: &Slice<C, J>, microseconds: u64, is_last: bool) {
        let mut state = self.state.lock();
        if is_last {
            state.flows.finish(slice);
        }
        state.flows.settle(slice, microseconds);
    }
}
