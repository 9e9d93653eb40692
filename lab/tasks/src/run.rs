//! Runs a schedule: one thread per CPU assignment, which claims, executes, completes, and sleeps while nothing is
//! ready.

use crate::copies::{Copies, Shared};
use crate::graph::{Datum, Task};
use crate::schedule::{Claim, Schedule};
use oboro_arena::CpuAssignment;
use std::io;
use std::panic::resume_unwind;
use std::thread;
use std::time::{Duration, Instant};

/// How inputs on other nodes are read.
pub enum Remote<'c, C> {
    /// In place.
    InPlace,
    /// Before the first task of a node reads one, its worker copies it with this function. The workers of the node
    /// share the copy, and it is dropped when its last ready reader on the node is done. On a pinned thread, newly
    /// written memory is on the thread's node. Copies take as much memory as the remote inputs of the node's ready
    /// tasks.
    CopyAhead(&'c (dyn Fn(Datum) -> C + Sync)),
}

/// A task to execute.
#[derive(Debug)]
pub struct Assignment<'a, C> {
    /// The task.
    pub task: Task,
    /// The index of the part, from 0.
    pub part: u32,
    /// The node that it runs on.
    pub node: usize,
    /// Copies of remote inputs, ascending.
    copies: &'a [(Datum, Shared<C>)],
}

impl<C> Assignment<'_, C> {
    /// The node's copy of an input; `None` if it should be read in place.
    pub fn copy(&self, input: Datum) -> Option<&C> {
        let found = self
            .copies
            .binary_search_by_key(&input, |&(datum, _)| datum);
        self.copies[found.ok()?].1.get()
    }
}

/// Statistics of one worker.
#[derive(Debug)]
pub struct WorkerReport {
    /// The node of its CPU assignment.
    pub node: usize,
    /// Why it could not be pinned and ran on any core.
    pub unpinned: Option<io::Error>,
    /// Executed tasks, with each part counted.
    pub tasks: u64,
    /// Time spent copying or executing.
    pub busy: Duration,
    /// The part of `busy` spent copying, or waiting for another worker's copy.
    pub copying: Duration,
    /// Bytes copied.
    pub copied_bytes: u64,
}

/// Statistics of a run.
#[derive(Debug)]
pub struct Report {
    /// From the start of the first worker to the end of the last.
    pub wall: Duration,
    /// One per CPU assignment, in their order.
    pub workers: Vec<WorkerReport>,
}

impl Report {
    /// The time in which a worker did not work: thread start and exit, claims, waiting for ready tasks, and at the end
    /// for other workers.
    pub fn idle(&self, worker: usize) -> Duration {
        self.wall.saturating_sub(self.workers[worker].busy)
    }

    /// The idle time of all workers, relative to the total.
    pub fn idle_share(&self) -> f64 {
        let idle: Duration = (0..self.workers.len())
            .map(|worker| self.idle(worker))
            .sum();
        idle.as_secs_f64() / (self.wall.as_secs_f64() * self.workers.len() as f64)
    }
}

/// Executes the tasks of `schedule` on one thread per CPU assignment, until all are done or the schedule is stopped,
/// which the schedule gives. `worker` is called once on each thread after pinning, and returns the function that
/// executes that thread's tasks, with any memory it needs.
///
/// If an input never arrives, the run never ends: whoever fails to provide it must stop the schedule.
///
/// # Errors
/// The first error of a task, by the order of CPU assignments. An error or a panic stops the schedule; a panic is
/// propagated to the caller once the other threads have finished their tasks.
///
/// # Panics
/// If a CPU assignment's node is not in the schedule.
pub fn run<C, E, F>(
    schedule: &Schedule,
    cpu_assignments: &[CpuAssignment],
    remote: Remote<'_, C>,
    worker: impl Fn(&CpuAssignment) -> F + Sync,
) -> Result<Report, E>
where
    C: Send + Sync,
    E: Send,
    F: FnMut(Assignment<'_, C>) -> Result<(), E>,
{
    let copies = Copies::new(schedule);
    let work = |cpu_assignment: &CpuAssignment| {
        let _leaving = Leaving(schedule);
        let unpinned = cpu_assignment.apply().err();
        let execute = worker(cpu_assignment);
        Worker::new(schedule, &remote, &copies, cpu_assignment.node, unpinned).work(execute)
    };
    let begun = Instant::now();
    let workers = thread::scope(|scope| {
        let threads: Vec<_> = cpu_assignments
            .iter()
            .map(|cpu_assignment| scope.spawn(|| work(cpu_assignment)))
            .collect();
        let joined: Vec<_> = threads.into_iter().map(|thread| thread.join()).collect();
        joined
            .into_iter()
            .map(|worker| worker.unwrap_or_else(|panic| resume_unwind(panic)))
            .collect::<Result<Vec<_>, E>>()
    })?;
    Ok(Report {
        wall: begun.elapsed(),
        workers,
    })
}

/// Dropped when a worker exits because nothing is left to claim, or because it fails; after a failure the others must
/// neither continue nor sleep.
struct Leaving<'s>(&'s Schedule);

impl Drop for Leaving<'_> {
    fn drop(&mut self) {
        self.0.stop();
    }
}

struct Worker<'r, C> {
    schedule: &'r Schedule,
    remote: &'r Remote<'r, C>,
    copies: &'r Copies<'r, C>,
    /// The copies of the last task's remote inputs: the next task often reads some of them.
    held: Vec<(Datum, Shared<C>)>,
    report: WorkerReport,
}

impl<'r, C> Worker<'r, C> {
    fn new(
        schedule: &'r Schedule,
        remote: &'r Remote<'r, C>,
        copies: &'r Copies<'r, C>,
        node: usize,
        unpinned: Option<io::Error>,
    ) -> Self {
        Self {
            schedule,
            remote,
            copies,
            held: Vec::new(),
            report: WorkerReport {
                node,
                unpinned,
                tasks: 0,
                busy: Duration::ZERO,
                copying: Duration::ZERO,
                copied_bytes: 0,
            },
        }
    }

    fn work<E>(
        mut self,
        mut execute: impl FnMut(Assignment<'_, C>) -> Result<(), E>,
    ) -> Result<WorkerReport, E> {
        let node = self.report.node;
        while let Some(claim) = self.claim() {
            let begun = Instant::now();
            if let Remote::CopyAhead(copy) = self.remote {
                self.copy_ahead(&claim, copy);
                self.report.copying += begun.elapsed();
            }
            execute(Assignment {
                task: claim.task,
                part: claim.part,
                node,
                copies: &self.held,
            })?;
            self.report.busy += begun.elapsed();
            self.report.tasks += 1;
            self.schedule.complete(claim.task, node);
        }
        Ok(self.report)
    }

    /// Releases all copies before the worker sleeps.
    fn claim(&mut self) -> Option<Claim> {
        let node = self.report.node;
        self.schedule.claim(node).or_else(|| {
            self.release(Vec::new());
            self.schedule.claim_or_wait(node)
        })
    }

    fn copy_ahead(&mut self, claim: &Claim, copy: impl Fn(Datum) -> C) {
        let node = self.report.node;
        let held = claim.remote.iter().map(|&datum| {
            let shared = self.copies.hold(node, datum);
            shared.get_or_init(|| {
                self.report.copied_bytes += self.schedule.graph().bytes(datum);
                copy(datum)
            });
            (datum, shared)
        });
        let held = held.collect();
        self.release(held);
        if claim.home != node {
            for &datum in self.schedule.graph().inputs(claim.task) {
                self.copies.drop_unwanted(claim.home, datum);
            }
        }
    }

    /// Releases the copies held, and holds the given ones from now on.
    fn release(&mut self, held: Vec<(Datum, Shared<C>)>) {
        for (datum, shared) in std::mem::replace(&mut self.held, held) {
            drop(shared);
            self.copies.release(self.report.node, datum);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Graph, Input, Order};
    use oboro_arena::{Distances, Topology};
    use std::convert::Infallible;
    use std::num::NonZero;
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::sync::{Barrier, Mutex, mpsc};

    const IN_PLACE: Remote<'static, ()> = Remote::InPlace;

    /// Cores of this machine, assigned to these nodes.
    fn cpu_assignments(nodes: &[usize]) -> Vec<CpuAssignment> {
        let threads = NonZero::new(nodes.len()).unwrap();
        let cpu_assignments = Topology::of_this_machine().workers(threads);
        let with_node = |(cpu_assignment, &node)| CpuAssignment {
            node,
            ..cpu_assignment
        };
        cpu_assignments
            .into_iter()
            .zip(nodes)
            .map(with_node)
            .collect()
    }

    fn on(home: usize) -> Input {
        Input {
            home: Some(home),
            bytes: 100,
            resident: true,
        }
    }

    fn schedule(graph: Graph, nodes: usize) -> Schedule {
        let distances = Distances::new(vec![vec![10; nodes]; nodes]).unwrap();
        Schedule::new(graph, distances, Order::MostReferenced)
    }

    /// Each task reads the previous one's output.
    fn chain(len: usize) -> Schedule {
        let mut graph = Graph::new();
        let mut made = graph.input(on(0));
        for _ in 0..len {
            made = graph.task_with_output(&[made], 1, 100).1;
        }
        schedule(graph, 1)
    }

    #[test]
    fn the_first_error_stops_the_run() {
        let schedule = chain(5);
        let executed = AtomicUsize::new(0);
        let error = run(&schedule, &cpu_assignments(&[0, 0]), IN_PLACE, |_| {
            |assignment: Assignment<'_, ()>| {
                executed.fetch_add(1, Ordering::Relaxed);
                match assignment.task.index() {
                    2 => Err("the third fails"),
                    _ => Ok(()),
                }
            }
        });
        assert_eq!(error.unwrap_err(), "the third fails");
        assert_eq!(executed.into_inner(), 3);
        assert!(!schedule.is_done() && schedule.is_exhausted());
    }

    #[test]
    fn a_panic_ends_the_run_and_goes_on_in_the_caller() {
        let schedule = chain(5);
        let panic = catch_unwind(AssertUnwindSafe(|| {
            run(&schedule, &cpu_assignments(&[0, 0, 0]), IN_PLACE, |_| {
                |assignment: Assignment<'_, ()>| {
                    assert_ne!(assignment.task.index(), 2, "the third panics");
                    Ok::<_, Infallible>(())
                }
            })
        }));
        let message = panic.unwrap_err().downcast::<String>().unwrap();
        assert!(message.contains("the third panics"), "{message}");
    }

    #[test]
    fn a_copy_that_panics_ends_the_run_for_those_who_wait_for_it() {
        let mut graph = Graph::new();
        let key = graph.input(on(0));
        for _ in 0..4 {
            graph.task(&[key], 1);
        }
        let schedule = schedule(graph, 2);
        let copy = |_| -> u32 { panic!("no memory for a copy") };
        let panic = catch_unwind(AssertUnwindSafe(|| {
            run(
                &schedule,
                &cpu_assignments(&[1, 1]),
                Remote::CopyAhead(&copy),
                |_| |_: Assignment<'_, u32>| Ok::<_, Infallible>(()),
            )
        }));
        assert!(panic.is_err());
    }

    #[test]
    fn a_stop_in_the_middle_starts_no_further_task() {
        let schedule = chain(5);
        let report = run(&schedule, &cpu_assignments(&[0]), IN_PLACE, |_| {
            |assignment: Assignment<'_, ()>| {
                if assignment.task.index() == 2 {
                    schedule.stop();
                }
                Ok::<_, Infallible>(())
            }
        });
        assert_eq!(report.unwrap().workers[0].tasks, 3);
        assert!(!schedule.is_done());
    }

    #[test]
    fn workers_sleep_until_inputs_arrive() {
        let mut graph = Graph::new();
        let late: Vec<_> = (0..20)
            .map(|i| {
                graph.input(Input {
                    resident: false,
                    ..on(i % 2)
                })
            })
            .collect();
        for pair in late.windows(2) {
            graph.task(pair, 1);
        }
        let schedule = schedule(graph, 2);
        thread::scope(|scope| {
            scope.spawn(|| late.iter().rev().for_each(|&datum| schedule.arrived(datum)));
            run(&schedule, &cpu_assignments(&[0, 1]), IN_PLACE, |_| {
                |_: Assignment<'_, ()>| Ok::<_, Infallible>(())
            })
            .unwrap();
        });
        assert!(schedule.is_done());
    }

    #[test]
    fn where_one_task_follows_another_all_workers_but_one_are_idle() {
        let schedule = chain(50);
        let inside = Mutex::new(Duration::ZERO);
        let report = run(&schedule, &cpu_assignments(&[0, 0, 0]), IN_PLACE, |_| {
            |_: Assignment<'_, ()>| {
                let begun = Instant::now();
                std::hint::black_box((0..1000).sum::<u64>());
                *inside.lock().unwrap() += begun.elapsed();
                Ok::<_, Infallible>(())
            }
        })
        .unwrap();
        let idle: Duration = (0..3).map(|worker| report.idle(worker)).sum();
        assert!(idle >= 2 * report.wall);
        assert!(idle <= 3 * report.wall - inside.into_inner().unwrap());
        assert!((2.0 / 3.0..1.0).contains(&report.idle_share()));
    }

    /// Reports by its drop that a worker of a node has exited.
    struct Left(usize, mpsc::Sender<usize>);

    impl Drop for Left {
        fn drop(&mut self) {
            self.1.send(self.0).expect("the test listens");
        }
    }

    #[test]
    fn a_worker_is_idle_while_another_ends_a_longer_task() {
        let mut graph = Graph::new();
        for home in 0..2 {
            let datum = graph.input(on(home));
            graph.task(&[datum], 1);
        }
        let schedule = schedule(graph, 2);
        let both_run = Barrier::new(2);
        let (sender, left) = mpsc::channel();
        let (sender, left) = (Mutex::new(sender), Mutex::new(left));
        let alone = Mutex::new((0, Duration::ZERO));
        let report = run(
            &schedule,
            &cpu_assignments(&[0, 1]),
            IN_PLACE,
            |cpu_assignment| {
                let leaving = Left(cpu_assignment.node, sender.lock().unwrap().clone());
                let (both_run, left, alone) = (&both_run, &left, &alone);
                move |assignment: Assignment<'_, ()>| {
                    let _until_the_worker_leaves = &leaving;
                    both_run.wait();
                    if assignment.task.index() == 0 {
                        let other = left.lock().unwrap().recv().unwrap();
                        let begun = Instant::now();
                        std::hint::black_box((0..1000).sum::<u64>());
                        *alone.lock().unwrap() = (other, begun.elapsed());
                    }
                    Ok::<_, Infallible>(())
                }
            },
        )
        .unwrap();
        let (other, alone) = alone.into_inner().unwrap();
        assert!(report.idle(other) >= alone);
        assert!(report.idle(1 - other) <= report.wall - alone);
    }

    #[test]
    fn workers_of_a_node_share_a_copy() {
        let mut graph = Graph::new();
        let key = graph.input(on(0));
        for _ in 0..2 {
            graph.task(&[key], 1);
        }
        let schedule = schedule(graph, 2);
        let both_run = Barrier::new(2);
        let made = AtomicUsize::new(0);
        let copy = |_| made.fetch_add(1, Ordering::Relaxed);
        let report = run(
            &schedule,
            &cpu_assignments(&[1, 1]),
            Remote::CopyAhead(&copy),
            |_| {
                |assignment: Assignment<'_, usize>| {
                    both_run.wait();
                    assert_eq!(assignment.copy(key), Some(&0));
                    Ok::<_, Infallible>(())
                }
            },
        )
        .unwrap();
        assert_eq!(
            report.workers.iter().map(|w| w.copied_bytes).sum::<u64>(),
            100
        );
    }

    #[test]
    fn a_thief_keeps_its_copy_for_the_next_task_that_it_steals() {
        let mut graph = Graph::new();
        let [item, other] = [(); 2].map(|()| graph.input(on(0)));
        for _ in 0..3 {
            graph.task(&[item], 1);
        }
        graph.task(&[other], 1);
        let schedule = schedule(graph, 2);
        let live = AtomicUsize::new(0);
        struct Live<'l>(&'l AtomicUsize);
        impl Drop for Live<'_> {
            fn drop(&mut self) {
                self.0.fetch_sub(1, Ordering::Relaxed);
            }
        }
        let copy = |_| {
            live.fetch_add(1, Ordering::Relaxed);
            Live(&live)
        };
        let report = run(
            &schedule,
            &cpu_assignments(&[1]),
            Remote::CopyAhead(&copy),
            |_| {
                |_: Assignment<'_, Live<'_>>| {
                    assert_eq!(live.load(Ordering::Relaxed), 1);
                    Ok::<_, Infallible>(())
                }
            },
        )
        .unwrap();
        assert_eq!(report.workers[0].copied_bytes, 200);
        assert_eq!(schedule.counters().stolen, 4);
        assert_eq!(live.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn a_thief_takes_the_last_reason_for_a_copy() {
        let mut graph = Graph::new();
        let [key, rows] = [0, 1].map(|home| {
            graph.input(Input {
                bytes: 1 + home as u64,
                ..on(home)
            })
        });
        for _ in 0..2 {
            graph.task(&[key, rows], 1);
        }
        let schedule = schedule(graph, 2);
        let copies = Copies::new(&schedule);
        let remote = Remote::CopyAhead(&|datum| datum);
        let [mut thief, mut owner] =
            [0, 1].map(|node| Worker::new(&schedule, &remote, &copies, node, None));
        let claim = owner.claim().unwrap();
        owner.copy_ahead(&claim, |datum| datum);
        owner.release(Vec::new());
        assert!(copies.has(1, key));
        let claim = thief.claim().unwrap();
        thief.copy_ahead(&claim, |datum| datum);
        assert!(copies.has(0, rows) && !copies.has(1, key));
    }

    #[test]
    fn a_worker_without_its_cpus_works_and_says_so() {
        let schedule = chain(3);
        let nowhere = CpuAssignment {
            node: 0,
            cpus: vec![u32::MAX],
        };
        let report = run(&schedule, &[nowhere], IN_PLACE, |_| {
            |_: Assignment<'_, ()>| Ok::<_, Infallible>(())
        })
        .unwrap();
        assert!(report.workers[0].unpinned.is_some());
        assert!(schedule.is_done());
    }
}
