//! Bounds how many threads work at a time, of more that wait for a device or for the network.

use parking_lot::{Condvar, Mutex};

/// Turns that threads take.
pub(crate) struct Turns {
    free: Mutex<usize>,
    /// One has become free.
    news: Condvar,
}

/// A turn, given back when dropped.
pub(crate) struct Turn<'t>(&'t Turns);

impl Turns {
    /// So many at a time.
    pub(crate) fn new(count: usize) -> Self {
        Self {
            free: Mutex::new(count),
            news: Condvar::new(),
        }
    }

    /// Waits for a turn.
    pub(crate) fn take(&self) -> Turn<'_> {
        let mut free = self.free.lock();
        self.news.wait_while(&mut free, |free| *free == 0);
        *free -= 1;
        Turn(self)
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        *self.0.free.lock() += 1;
        self.0.news.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::thread;

    #[test]
    fn no_more_threads_have_a_turn_than_there_are() {
        let (turns, at_work) = (Turns::new(2), AtomicUsize::new(0));
        let work = || {
            for _ in 0..100 {
                let _turn = turns.take();
                let others = at_work.fetch_add(1, Ordering::SeqCst);
                assert!(others < 2);
                thread::yield_now();
                at_work.fetch_sub(1, Ordering::SeqCst);
            }
        };
        thread::scope(|scope| {
            for _ in 0..5 {
                scope.spawn(work);
            }
        });
    }
}
