//! Sleeping until something may have changed.

use parking_lot::{Condvar, Mutex};

/// Counts changes, so that none between a look and the sleep after it is missed.
#[derive(Default)]
pub(crate) struct Signal {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    changes: u64,
    /// Without any, nobody is woken: that would be a system call.
    sleeping: usize,
}

impl Signal {
    /// The changes so far, to be asked before one looks.
    pub(crate) fn now(&self) -> u64 {
        self.state.lock().changes
    }

    /// Sleeps unless there were other changes than those `seen`.
    pub(crate) fn wait(&self, seen: u64) {
        let mut state = self.state.lock();
        state.sleeping += 1;
        while state.changes == seen {
            self.changed.wait(&mut state);
        }
        state.sleeping -= 1;
    }

    /// Something has changed for one thread.
    pub(crate) fn wake_one(&self) {
        let mut state = self.state.lock();
        state.changes += 1;
        if state.sleeping > 0 {
            self.changed.notify_one();
        }
    }

    /// Something has changed for all threads.
    pub(crate) fn wake_all(&self) {
        let mut state = self.state.lock();
        state.changes += 1;
        if state.sleeping > 0 {
            self.changed.notify_all();
        }
    }
}
