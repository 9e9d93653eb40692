//! Compute threads, shared by all queries.
//!
//! A free thread takes the [next time slice](Queue), runs one task of its job and repeats. If no job is ready, threads
//! sleep until one may be. Each is pinned to its CPUs.

use crate::blocking::failed;
use crate::metering::Meter;
use oboro_arena::CpuAssignment;
use oboro_edge::Client;
use oboro_engine::queue;
use parking_lot::Mutex;
use std::ops::ControlFlow;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Instant;
use std::{io, mem};
use tokio::sync::Notify;
use tonic::Status;
use tracing::Span;

/// Jobs of all clients.
pub(crate) type Queue = queue::Queue<Client, dyn Job>;

/// Work for the threads, in tasks that several threads run concurrently.
pub(crate) trait Job: Send + Sync + 'static {
    /// Returns true if a step would find a task. Code that makes it true must [wake](Queue::wake) the queue.
    fn has_task(&self) -> bool;

    /// Runs a task; breaks after the last.
    fn step(&self, workspace: &mut Workspace) -> ControlFlow<()>;

    /// Called when a step has panicked; no other step follows.
    fn panicked(&self);
}

/// Node and buffers of a thread.
pub(crate) struct Workspace {
    pub(crate) node: usize,
    pub(crate) genome: oboro_genome_server::Workspace,
}

impl Workspace {
    fn on(node: usize) -> Self {
        Self {
            node,
            genome: oboro_genome_server::Workspace::default(),
        }
    }
}

/// Thread pool; dropping it finishes running tasks and drops the others.
pub(crate) struct Pool {
    queue: Arc<Queue>,
    threads: Vec<JoinHandle<()>>,
}

impl Pool {
    /// Starts a thread for each CPU assignment; `meter` records the compute time of clients.
    pub(crate) fn start(assignments: Vec<CpuAssignment>, meter: &Arc<Meter>) -> io::Result<Self> {
        // Dropping the pool ends the threads already started if one cannot be.
        let mut pool = Self {
            queue: Arc::default(),
            threads: Vec::new(),
        };
        for (number, assignment) in assignments.into_iter().enumerate() {
            let (queue, meter) = (Arc::clone(&pool.queue), Arc::clone(meter));
            let thread = thread::Builder::new().name(format!("count-{number}"));
            pool.threads
                .push(thread.spawn(move || work(&queue, &assignment, &meter))?);
        }
        Ok(pool)
    }

    /// Returns the number of threads.
    pub(crate) fn threads(&self) -> usize {
        self.threads.len()
    }

    pub(crate) fn queue(&self) -> Arc<Queue> {
        Arc::clone(&self.queue)
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        self.queue.close();
        for thread in mem::take(&mut self.threads) {
            thread.join().expect("panics of jobs are caught");
        }
    }
}

/// Runs a job to its end. If this future is dropped, the job leaves the pool.
pub(crate) async fn run<J: Job>(queue: &Arc<Queue>, client: &Client, job: Arc<J>) {
    let awaited = Arc::new(Awaited {
        job,
        ended: Notify::new(),
    });
    let _queued = Queued {
        queue,
        client,
        job: awaited.clone(),
    };
    queue.push(client, awaited.clone());
    awaited.ended.notified().await;
}

/// Runs one task, in the span of the current call.
///
/// # Errors
/// The task panicked.
pub(crate) async fn run_once<T: Send + 'static>(
    queue: &Arc<Queue>,
    client: &Client,
    task: impl FnOnce() -> T + Send + 'static,
) -> Result<T, Status> {
    let once = Arc::new(Once {
        task: Mutex::new(Some(task)),
        result: Mutex::new(None),
        span: Span::current(),
    });
    run(queue, client, Arc::clone(&once)).await;
    let result = once.result.lock().take();
    result.ok_or_else(failed)
}

/// Job that reports its end.
struct Awaited<J> {
    job: Arc<J>,
    ended: Notify,
}

impl<J: Job> Job for Awaited<J> {
    fn has_task(&self) -> bool {
        self.job.has_task()
    }

    fn step(&self, workspace: &mut Workspace) -> ControlFlow<()> {
        self.job
            .step(workspace)
            .map_break(|()| self.ended.notify_one())
    }

    fn panicked(&self) {
        self.job.panicked();
        self.ended.notify_one();
    }
}

/// Job of one task.
struct Once<F, T> {
    task: Mutex<Option<F>>,
    result: Mutex<Option<T>>,
    span: Span,
}

impl<T: Send + 'static, F: FnOnce() -> T + Send + 'static> Job for Once<F, T> {
    fn has_task(&self) -> bool {
        self.task.lock().is_some()
    }

    fn step(&self, _: &mut Workspace) -> ControlFlow<()> {
        let _entered = self.span.enter();
        let Some(task) = self.task.lock().take() else {
            return ControlFlow::Continue(());
        };
        *self.result.lock() = Some(task());
        ControlFlow::Break(())
    }

    fn panicked(&self) {
        let _entered = self.span.enter();
        tracing::error!("a task panicked; the query was ended");
    }
}

/// Removes a job from the pool when dropped.
struct Queued<'q> {
    queue: &'q Queue,
    client: &'q Client,
    job: Arc<dyn Job>,
}

impl Drop for Queued<'_> {
    fn drop(&mut self) {
        self.queue.remove(self.client, &self.job);
    }
}

fn work(queue: &Queue, assignment: &CpuAssignment, meter: &Meter) {
    if let Err(error) = assignment.apply() {
        tracing::warn!(%error, ?assignment, "a thread that counts could not be kept to its CPUs");
    }
    let mut workspace = Workspace::on(assignment.node);
    while let Some(slice) = queue.next(|job| job.has_task()) {
        let begun = Instant::now();
        let stepped = catch_unwind(AssertUnwindSafe(|| slice.job.step(&mut workspace)));
        let step = stepped.unwrap_or_else(|_| {
            workspace = Workspace::on(assignment.node);
            slice.job.panicked();
            ControlFlow::Break(())
        });
        let time = begun.elapsed();
        meter.computed(&slice.client, time);
        let microseconds = time.as_micros().max(1) as u64;
        queue.settle(&slice, microseconds, step.is_break());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use oboro_arena::Topology;
    use std::num::NonZero;
    use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
    use std::sync::mpsc::{Receiver, Sender, channel};

    /// Job of this many tasks, each of which reports its completion.
    struct Ticking {
        tasks: AtomicUsize,
        panics: bool,
        said: Sender<&'static str>,
        full: AtomicBool,
    }

    fn meter() -> Arc<Meter> {
        Arc::new(Meter::default())
    }

    fn ticking(tasks: usize) -> (Ticking, Receiver<&'static str>) {
        let (said, heard) = channel();
        let job = Ticking {
            tasks: AtomicUsize::new(tasks),
            panics: false,
            said,
            full: AtomicBool::new(false),
        };
        (job, heard)
    }

    impl Job for Ticking {
        fn has_task(&self) -> bool {
            !self.full.load(Ordering::SeqCst) && self.tasks.load(Ordering::SeqCst) > 0
        }

        fn step(&self, _: &mut Workspace) -> ControlFlow<()> {
            assert!(!self.panics, "a task that fails");
            let left = |tasks: usize| tasks.checked_sub(1);
            let claimed = self
                .tasks
                .fetch_update(Ordering::SeqCst, Ordering::SeqCst, left);
            if claimed.is_ok() {
                self.said.send("a task").unwrap();
            }
            match claimed {
                Ok(1) => ControlFlow::Break(()),
                _ => ControlFlow::Continue(()),
            }
        }

        fn panicked(&self) {
            self.said.send("a panic").unwrap();
        }
    }

    fn assignments(count: usize) -> Vec<CpuAssignment> {
        let threads = NonZero::new(count).unwrap();
        Topology::of_this_machine().workers(threads)
    }

    fn someone() -> Client {
        Client::Named("someone".into())
    }

    #[test]
    fn a_finished_job_is_dropped() {
        let pool = Pool::start(assignments(3), &meter()).unwrap();
        let jobs: Vec<_> = (1..=5).map(ticking).collect();
        for (job, heard) in jobs {
            let tasks = job.tasks.load(Ordering::SeqCst);
            pool.queue().push(&someone(), Arc::new(job));
            // Ends when the pool has dropped the job and with it its sender.
            assert_eq!(heard.iter().count(), tasks);
        }
    }

    #[test]
    fn a_panic_ends_its_job_and_no_other() {
        let pool = Pool::start(assignments(1), &meter()).unwrap();
        let (mut bad, heard) = ticking(10);
        bad.panics = true;
        pool.queue().push(&someone(), Arc::new(bad));
        assert_eq!(heard.iter().collect::<Vec<_>>(), ["a panic"]);
        let (good, heard) = ticking(10);
        pool.queue().push(&someone(), Arc::new(good));
        assert_eq!(heard.iter().count(), 10);
    }

    #[test]
    fn a_job_without_room_holds_no_thread_and_goes_on_when_woken() {
        let pool = Pool::start(assignments(1), &meter()).unwrap();
        let (stuck, heard) = ticking(1);
        stuck.full.store(true, Ordering::SeqCst);
        let stuck = Arc::new(stuck);
        let job: Arc<dyn Job> = stuck.clone();
        pool.queue().push(&someone(), job);
        let (other, heard_other) = ticking(10);
        pool.queue().push(&someone(), Arc::new(other));
        assert_eq!(heard_other.iter().count(), 10);
        assert!(heard.try_recv().is_err());
        stuck.full.store(false, Ordering::SeqCst);
        pool.queue().wake();
        assert_eq!(heard.recv(), Ok("a task"));
    }

    #[test]
    fn a_job_that_is_removed_is_freed() {
        let pool = Pool::start(assignments(1), &meter()).unwrap();
        let (job, heard) = ticking(usize::MAX);
        let job: Arc<dyn Job> = Arc::new(job);
        pool.queue().push(&someone(), Arc::clone(&job));
        assert_eq!(heard.recv(), Ok("a task"));
        pool.queue().remove(&someone(), &job);
        drop(job);
        // Ends with the task in progress.
        let deadline = Instant::now() + std::time::Duration::from_secs(60);
        while heard
            .recv_timeout(deadline.saturating_duration_since(Instant::now()))
            .is_ok()
        {}
        assert!(Instant::now() < deadline, "the job is still there");
    }
}
