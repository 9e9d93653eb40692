//! Sleeping until a change.

use parking_lot::{Condvar, Mutex};

/// Eventcount: counts changes, which makes one between a check and the sleep after it visible.
#[derive(Default)]
pub(crate) struct Signal {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    changes: u64,
    /// Number of sleepers. Without any, waking would be a needless system call.
    sleeping: usize,
}

impl Signal {
    /// Number of changes so far, to be read before checking.
    pub(crate) fn now(&self) -> u64 {
        self.state.lock().changes
    }

    /// Sleeps unless a change happened since `seen`.
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
