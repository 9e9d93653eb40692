//! Threads that share out the tasks of a step as they come free: what one allocates another may
//! free, as under OpenMP's dynamic schedule.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Barrier, RwLock};

/// Steps of a number of tasks each, in any order and on any thread.
pub trait Work: Sync {
    type Step: Copy + Send + Sync;

    fn tasks(step: Self::Step) -> usize;
    fn perform(&self, step: Self::Step, task: usize);
}

/// How many threads work, the leading one among them.
pub struct Team {
    threads: usize,
}

/// What the threads of a team agree on. No step means that they are dismissed.
struct Agreement<'a, W: Work> {
    work: &'a W,
    barrier: Barrier,
    step: RwLock<Option<W::Step>>,
    next: AtomicUsize,
}

impl Team {
    pub fn new(threads: usize) -> Self {
        Self { threads }
    }

    /// Calls `leader` with a function that has the team perform a step and returns when it is done.
    pub fn lead<W: Work, R>(self, work: &W, leader: impl FnOnce(&dyn Fn(W::Step)) -> R) -> R {
        let agreement = Agreement {
            work,
            barrier: Barrier::new(self.threads),
            step: RwLock::new(None),
            next: AtomicUsize::new(0),
        };
        std::thread::scope(|scope| {
            for _ in 1..self.threads {
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
}

impl<W: Work> Agreement<'_, W> {
    fn announce(&self, step: Option<W::Step>) {
        *self.step.write().expect("no thread panicked") = step;
        self.next.store(0, Ordering::Relaxed);
    }

    /// Does a share of the announced step and waits for the others; false once dismissed.
    fn take_part(&self) -> bool {
        self.barrier.wait();
        let Some(step) = *self.step.read().expect("no thread panicked") else {
            return false;
        };
        loop {
            let task = self.next.fetch_add(1, Ordering::Relaxed);
            if task >= W::tasks(step) {
                break;
            }
            self.work.perform(step, task);
        }
        self.barrier.wait();
        true
    }
}
