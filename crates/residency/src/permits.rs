//! Counting semaphore that bounds the working threads, out of more that wait for a device or the network.

use parking_lot::{Condvar, Mutex};

/// Counting semaphore.
pub(crate) struct Permits {
    free: Mutex<usize>,
    /// Signalled when a permit is released.
    released: Condvar,
}

/// Permit, released when dropped.
pub(crate) struct Permit<'t>(&'t Permits);

impl Permits {
    /// Creates a semaphore with this many permits.
    pub(crate) fn new(count: usize) -> Self {
        Self {
            free: Mutex::new(count),
            released: Condvar::new(),
        }
    }

    /// Waits for a permit.
    pub(crate) fn take(&self) -> Permit<'_> {
        let mut free = self.free.lock();
        self.released.wait_while(&mut free, |free| *free == 0);
        *free -= 1;
        Permit(self)
    }
}

impl Drop for Permit<'_> {
    fn drop(&mut self) {
        *self.0.free.lock() += 1;
        self.0.released.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::thread;

    #[test]
    fn no_more_threads_work_than_there_are_permits() {
        let (permits, at_work) = (Permits::new(2), AtomicUsize::new(0));
        let work = || {
            for _ in 0..100 {
                let _permit = permits.take();
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
