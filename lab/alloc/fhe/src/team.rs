//! Threads that share the tasks of a step dynamically, each node's tasks among its own threads: what one allocates
//! another may free, as under OpenMP's dynamic schedule.

use crate::places::CpuAssignment;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Barrier, RwLock};

/// Steps with a number of tasks for each node, in any order and on any thread of the node.
pub trait Work: Sync {
    type Step: Copy + Send + Sync;

    fn tasks(&self, step: Self::Step, node: usize) -> usize;
    fn perform(&self, step: Self::Step, node: usize, task: usize);
}

/// The CPU assignments of the threads, that of the leader first.
pub struct Team {
    seats: Vec<CpuAssignment>,
}

/// The shared state of a team. No step means that the threads should exit.
struct Agreement<'a, W: Work> {
    work: &'a W,
    barrier: Barrier,
    step: RwLock<Option<W::Step>>,
    /// For each node.
    next: Vec<AtomicUsize>,
}

impl Team {
    /// # Panics
    ///
    /// If there is no seat.
    pub fn new(seats: Vec<CpuAssignment>) -> Self {
        assert!(!seats.is_empty(), "someone must lead");
        Self { seats }
    }

    /// Calls `leader` with a function that runs a step on the team and returns when it is done.
    pub fn lead<W: Work, R>(self, work: &W, leader: impl FnOnce(&dyn Fn(W::Step)) -> R) -> R {
        let agreement = Agreement {
            work,
            barrier: Barrier::new(self.seats.len()),
            step: RwLock::new(None),
            next: self.seats.iter().map(|_| AtomicUsize::new(0)).collect(),
        };
        std::thread::scope(|scope| {
            for seat in &self.seats[1..] {
                let agreement = &agreement;
                scope.spawn(move || {
                    seat.take();
                    while agreement.take_part(seat.node) {}
                });
            }
            let node = self.seats[0].node;
            self.seats[0].take();
            let led = leader(&|step| {
                agreement.announce(Some(step));
                agreement.take_part(node);
            });
            agreement.announce(None);
            agreement.take_part(node);
            led
        })
    }
}

impl<W: Work> Agreement<'_, W> {
    fn announce(&self, step: Option<W::Step>) {
        *self.step.write().expect("no thread panicked") = step;
        for next in &self.next {
            next.store(0, Ordering::Relaxed);
        }
    }

    /// Runs tasks of the announced step for a node and waits for the others; false when the team is dismissed.
    fn take_part(&self, node: usize) -> bool {
        self.barrier.wait();
        let Some(step) = *self.step.read().expect("no thread panicked") else {
            return false;
        };
        loop {
            let task = self.next[node].fetch_add(1, Ordering::Relaxed);
            if task >= self.work.tasks(step, node) {
                break;
            }
            self.work.perform(step, node, task);
        }
        self.barrier.wait();
        true
    }
}
