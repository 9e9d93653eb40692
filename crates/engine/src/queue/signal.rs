//! Sleeping until something may have changed.

use parking_lot::{Condvar, Mutex};

/// An eventcount: counts changes, so that none between a check and the sleep after it is missed.
#[derive(Default)]
pub(crate) struct Signal {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    changes: u64,
    /// The number of sleepers. Without any, nobody is woken: that would be a system call.
    sleeping: usize,
}

impl Signal {
    /// The number of changes so far, to be read before checking.
    pub(crate) fn now(&self) -> u64 {
        self.state.lock().changes
    }

    /// Sleeps unless there were changes since `seen`.
    pub(crate) fn wait(&self, seen: u64) {
        let mut state = self.state.lock();
        state.sleeping += 1;
        while state.changes == seen {
            self.changed.wait(&mut state);
        }
        state.sleeping -= 1;
    }

    /// Wakes one thread.
    pub(crate) fn wake_one(&self) {
        let mut state = self.state.lock();
        state.changes += 1;
        if state.sleeping > 0 {
            self.changed.notify_one();
        }
    }

    /// Wakes all threads.
    pub(crate) fn wake_all(&self) {
        let mut state = self.state.lock();
        state.changes += 1;
        if state.sleeping > 0 {
            self.changed.notify_all();
        }
    }
}
