//! Threads that share the tasks of a step dynamically: what one allocates another may free, as under OpenMP's dynamic
//! schedule.

use std::num::NonZero;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Barrier, RwLock};

/// Steps with a number of tasks, in any order and on any thread.
pub trait Work: Sync {
    type Step: Copy + Send + Sync;

    fn tasks(&self, step: Self::Step) -> usize;
    fn perform(&self, step: Self::Step, task: usize);
}

/// The shared state of a team. No step means that the threads should exit.
struct Agreement<'a, W: Work> {
    work: &'a W,
    barrier: Barrier,
    step: RwLock<Option<W::Step>>,
    next: AtomicUsize,
}

/// Calls `leader` with a function that runs a step on all threads and returns when it is done.
pub fn lead<W: Work, R>(
    threads: NonZero<usize>,
    work: &W,
    leader: impl FnOnce(&dyn Fn(W::Step)) -> R,
) -> R {
    let agreement = Agreement {
        work,
        barrier: Barrier::new(threads.get()),
        step: RwLock::new(None),
        next: AtomicUsize::new(0),
    };
    std::thread::scope(|scope| {
        for _ in 1..threads.get() {
            scope.spawn(|| while agreement.take_part() {});
        }
        let led = leader(&|step| {
            agreement.announce(Some(step));
            agreement.take_part();
        });
        agreement.announce(None);
        agreement.take_part();
        led
    })
}

impl<W: Work> Agreement<'_, W> {
    fn announce(&self, step: Option<W::Step>) {
        *self.step.write().expect("no thread panicked") = step;
        self.next.store(0, Ordering::Relaxed);
    }

    /// Runs tasks of the announced step and waits for the others; false when the team is dismissed.
    fn take_part(&self) -> bool {
        self.barrier.wait();
        let Some(step) = *self.step.read().expect("no thread panicked") else {
            return false;
        };
        loop {
            let task = self.next.fetch_add(1, Ordering::Relaxed);
            if task >= self.work.tasks(step) {
                break;
            }
            self.work.perform(step, task);
        }
        self.barrier.wait();
        true
    }
}
