//! Scheduling of work on threads.
//!
//! A [`Queue`] gives each free thread a time slice of the client with the least usage, charged by the time that slices
//! took (`fair`). Within a job, [`Units`] gives it the panels on its own memory node first. No other module schedules
//! work on threads.

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
    /// Signals that a job may be ready, or that the queue was closed.
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

    /// Removes a job; slices of it that run continue.
    pub fn remove(&self, client: &C, job: &Arc<J>) {
        self.state.lock().flows.remove(client, job);
    }

    /// Number of jobs.
    pub fn jobs(&self) -> usize {
        self.state.lock().flows.jobs()
    }

    /// Wakes a thread: a job may have become ready.
    pub fn wake(&self) {
        // One suffices: a thread that has found a slice wakes the next.
        self.signal.wake_one();
    }

    /// Closes the queue: no further slice is given.
    pub fn close(&self) {
        self.state.lock().closed = true;
        self.signal.wake_all();
    }

    /// Returns the next slice of a ready job; sleeps until one is ready. `None` once the queue is closed.
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

    /// Ends a slice that took `microseconds`; with `is_last`, its job too.
    pub fn settle(&self, slice: &Slice<C, J>, microseconds: u64, is_last: bool) {
        let mut state = self.state.lock();
        if is_last {
            state.flows.finish(slice);
        }
        state.flows.settle(slice, microseconds);
    }
}
