//! Backend whose jobs remote workers count: shards go to a [`Dispatch`], results are treated as if counted locally.
//!
//! Results of shards arrive in any order and are summed here. A worker returns exactly its assigned shards, each once;
//! of a shard assigned to several workers, the first result counts. Results are queued until the server's threads check
//! and sum them. Limits, fair sharing among clients and the cache of moments remain with the server.

use crate::packing::Packing;
use crate::partial::{Partial, Task};
use oboro_engine::{
    Backend, EngineError, Job, Moments, Plan, Reserve, RunningJob, Sink, Step, Wake,
};
use oboro_protocol::{moments_range, v1};
use oboro_residency::Snapshot;
use oboro_ring::{Modulus, vector};
use parking_lot::Mutex;
use prost::Message;
use prost::bytes::Bytes;
use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use tonic::Status;

/// Bytes of queued results above which workers should hold back further ones.
const RESULT_BYTES: usize = 4 << 20;

/// Distributes work to workers.
pub trait Dispatch: Send + Sync {
    /// Starts a job. Must not block the calling thread, which belongs to the server.
    fn start(&self, job: RemoteJob);
}

/// Backend that delegates to remote workers.
pub(crate) struct RemoteExecutor {
    dispatch: Arc<dyn Dispatch>,
}

impl RemoteExecutor {
    pub(crate) fn new(dispatch: Arc<dyn Dispatch>) -> Self {
        Self { dispatch }
    }
}

impl Backend<Snapshot> for RemoteExecutor {
    fn start(
        &self,
        job: Job<Snapshot>,
        reserve: &mut Reserve<'_>,
    ) -> Result<Box<dyn RunningJob>, EngineError> {
        // The encoded task repeats the itemsets of the index, so this size bounds both.
        let of_shards = job.shards.len() * size_of::<Option<Arc<str>>>();
        reserve(job.plan.index().bytes() + of_shards)?;
        let snapshot = &job.source;
        let parameters = &snapshot.manifest().parameters;
        let packing = Packing::new(parameters.degree(), job.plan.limbs());
        let moduli = &parameters.limb_moduli()[..job.plan.limbs()];
        let task = Task::new(
            snapshot.namespace(),
            snapshot.name(),
            &job.plan,
            &job.shards,
        );
        let results = Arc::new(Results::new(
            job.shards.len(),
            job.plan,
            packing,
            moduli,
            job.wake,
        ));
        self.dispatch.start(RemoteJob {
            manifest: snapshot.manifest().encode(),
            task: task.encode_to_vec(),
            results: Arc::clone(&results),
        });
        Ok(Box::new(RemoteRun(results)))
    }
}

/// Job to be counted over its shards, and receiver of the results. Dropping it before every shard was delivered fails
/// the query.
pub struct RemoteJob {
    manifest: Vec<u8>,
    task: Vec<u8>,
    results: Arc<Results>,
}

impl RemoteJob {
    /// Returns the version of the dataset, for [`Worker::count`](crate::Worker::count).
    pub fn manifest(&self) -> &[u8] {
        &self.manifest
    }

    /// Returns the task, for [`Worker::count`](crate::Worker::count).
    pub fn task(&self) -> &[u8] {
        &self.task
    }

    /// Returns the number of shards, all of which are to be counted; they are numbered from 0.
    pub fn shards(&self) -> u64 {
        self.results.shards as u64
    }

    /// Returns a lower bound of the bytes of each shard in a result, approximately.
    pub fn shard_bytes(&self) -> u64 {
        self.results.shard_bytes
    }

    /// Accepts the result of [`Worker::count`](crate::Worker::count) for a worker's assigned shards; `worker` is for
    /// errors. Ignores shards that another worker has delivered. A failure or an invalid result ends the query. A
    /// result is also invalid if it has other shards, or one that the same worker has already delivered.
    pub fn deliver(&self, worker: &str, given: Range<u64>, partial: Bytes) {
        self.results.deliver(worker, given, partial);
        (self.results.wake)();
    }

    /// Ends the query with an error: `message` is for the caller, `detail` for the log.
    pub fn fail(&self, message: &str, detail: &str) {
        tracing::error!(detail, "a remote count failed");
        self.results.fail(Status::unavailable(message));
        (self.results.wake)();
    }

    /// Returns true if shards are missing and still needed. Otherwise workers may stop.
    pub fn is_wanted(&self) -> bool {
        !self.results.cancelled.load(Ordering::Acquire) && self.results.is_incomplete()
    }

    /// Returns true if the queue has free space. Otherwise the caller reads slowly and workers should hold back
    /// results.
    pub fn has_capacity(&self) -> bool {
        self.results.state.lock().bytes < RESULT_BYTES
    }
}

impl Drop for RemoteJob {
    fn drop(&mut self) {
        if self.is_wanted() {
            self.fail(
                "the server's workers abandoned the query; ask again",
                "a query was dropped before all shards were delivered",
            );
        }
    }
}

/// Run that the server's threads advance.
struct RemoteRun(Arc<Results>);

impl RunningJob for RemoteRun {
    fn has_task(&self) -> bool {
        self.0.has_task()
    }

    fn step(&self, _: usize, sink: &mut Sink<'_>) -> Result<Step, EngineError> {
        let step = self.0.step(sink);
        step.map_err(|status| EngineError::Backend(Box::new(status)))
    }
}

impl Drop for RemoteRun {
    fn drop(&mut self) {
        self.0.cancelled.store(true, Ordering::Release);
    }
}

/// State of a job's results.
struct Results {
    shards: usize,
    plan: Arc<Plan>,
    packing: Packing,
    moduli: Box<[Modulus]>,
    shard_bytes: u64,
    wake: Wake,
    /// `true` once the results are no longer needed.
    cancelled: AtomicBool,
    state: Mutex<State>,
}

struct State {
    /// Worker that delivered each shard.
    delivered: Box<[Option<Arc<str>>]>,
    missing: usize,
    waiting: VecDeque<ShardMoments>,
    /// Bytes of the queue.
    bytes: usize,
    /// Number of shards not taken yet.
    left: usize,
    failure: Option<Status>,
    /// `true` once a step has failed or its caller has stopped; further steps do nothing.
    stopped: bool,
}

/// Moments of a shard, as delivered by a worker.
struct ShardMoments {
    worker: Arc<str>,
    messages: Vec<v1::Moments>,
}

impl Results {
    /// Creates the state for `shards` shards, with all moments of the plan.
    fn new(
        shards: usize,
        plan: Arc<Plan>,
        packing: Packing,
        moduli: &[Modulus],
        wake: Wake,
    ) -> Self {
        Self {
            shards,
            shard_bytes: packing.shard_bytes(&plan),
            plan,
            packing,
            moduli: moduli.into(),
            wake,
            cancelled: AtomicBool::new(false),
            state: Mutex::new(State {
                delivered: vec![None; shards].into(),
                missing: shards,
                waiting: VecDeque::new(),
                bytes: 0,
                left: shards,
                failure: None,
                stopped: false,
            }),
        }
    }

    fn is_incomplete(&self) -> bool {
        let state = self.state.lock();
        state.missing > 0 && state.failure.is_none() && !state.stopped
    }

    fn fail(&self, status: Status) {
        self.state.lock().failure.get_or_insert(status);
    }

    fn deliver(&self, worker: &str, given: Range<u64>, partial: Bytes) {
        if let Err(status) = self.accept(worker, given, partial) {
            self.fail(status);
        }
    }

    fn accept(&self, worker: &str, given: Range<u64>, partial: Bytes) -> Result<(), Status> {
        let malformed = |problem| malformed(worker, problem);
        let partial = Partial::decode(partial).map_err(|_| malformed("it cannot be decoded"))?;
        if let Some(failure) = partial.failure {
            return Err(failure.log(worker));
        }
        let mut by_shard: BTreeMap<u64, Vec<v1::Moments>> = BTreeMap::new();
        for message in partial.moments {
            by_shard.entry(message.range).or_default().push(message);
        }
        if !by_shard.keys().copied().eq(given) {
            return Err(malformed("it has other shards than the worker was given"));
        }
        let worker: Arc<str> = worker.into();
        let mut state = self.state.lock();
        for (shard, messages) in by_shard {
            let deliverer = state.delivered.get_mut(shard as usize);
            let deliverer =
                deliverer.ok_or_else(|| malformed("it has a shard that the question has not"))?;
            match deliverer {
                Some(deliverer) if *deliverer == worker => {
                    return Err(malformed(
                        "it has a shard that the worker has delivered before",
                    ));
                }
                Some(_) => {}
                None => {
                    *deliverer = Some(Arc::clone(&worker));
                    state.missing -= 1;
                    state.bytes += bytes(&messages);
                    let worker = Arc::clone(&worker);
                    state.waiting.push_back(ShardMoments { worker, messages });
                }
            }
        }
        Ok(())
    }

    /// Returns true if a step would have an effect now.
    fn has_task(&self) -> bool {
        let state = self.state.lock();
        !state.stopped && (state.failure.is_some() || !state.waiting.is_empty())
    }

    /// Stops the run and drops queued results.
    fn stop(&self) {
        let mut state = self.state.lock();
        state.stopped = true;
        state.waiting.clear();
        state.bytes = 0;
    }

    /// Passes the moments of a delivered shard to `sink`.
    ///
    /// # Errors
    ///
    /// A worker that failed or returned an invalid result.
    fn step(&self, sink: &mut Sink<'_>) -> Result<Step, Status> {
        let ShardMoments { worker, messages } = {
            let mut state = self.state.lock();
            if state.stopped {
                return Ok(Step::Exhausted);
            }
            if let Some(failure) = state.failure.take() {
                drop(state);
                self.stop();
                return Err(failure);
            }
            let Some(delivered) = state.waiting.pop_front() else {
                return Ok(Step::Waiting);
            };
            state.bytes -= bytes(&delivered.messages);
            delivered
        };
        let messages = self.check(&worker, messages).inspect_err(|_| self.stop())?;
        for message in &messages {
            let first = message.first_moment as usize;
            let moments: Vec<usize> = (first..first + message.moments as usize).collect();
            let power = self.plan.index().get(first).0;
            let mut residues = self.packing.unpack(power, &message.residues);
            if !self.are_reduced(&residues, moments.len()) {
                self.stop();
                return Err(malformed(&worker, "its residues are beyond their moduli"));
            }
            let added = sink(Moments {
                shard: message.range as usize,
                scalars: if power == 0 { moments.len() } else { 0 },
                moments: &moments,
                limbs: self.packing.limbs(),
                residues: &mut residues,
            });
            if added.is_break() {
                self.stop();
                return Ok(Step::Exhausted);
            }
        }
        let mut state = self.state.lock();
        state.left -= 1;
        Ok(match state.left {
            0 => Step::Finished,
            _ => Step::Advanced,
        })
    }

    /// Returns true if the residues of this many moments, limb by limb, are below their moduli.
    fn are_reduced(&self, residues: &[u32], moments: usize) -> bool {
        let limbs = residues.chunks_exact(residues.len() / (moments * self.moduli.len()));
        let mut limbs = limbs.zip(self.moduli.iter().cycle());
        limbs.all(|(residues, q)| vector::largest(residues) < q.value())
    }

    /// Returns the messages of one shard, ascending, after checking that they have exactly the requested moments.
    fn check(
        &self,
        worker: &str,
        mut messages: Vec<v1::Moments>,
    ) -> Result<Vec<v1::Moments>, Status> {
        let malformed = |problem| malformed(worker, problem);
        let index = self.plan.index();
        messages.sort_by_key(|message| message.first_moment);
        let mut wanted = self.plan.moments().iter().copied();
        for message in &messages {
            let range =
                moments_range(message).map_err(|_| malformed("it numbers moments wrongly"))?;
            if range.is_empty() || !wanted.by_ref().take(range.len()).eq(range.clone()) {
                return Err(malformed("it has other moments than were wanted"));
            }
            let power = index.get(range.start).0;
            let is_one_power = range.clone().all(|moment| index.get(moment).0 == power);
            if !is_one_power
                || message.residues.len() != range.len() * self.packing.packed_len(power)
            {
                return Err(malformed("its moments are of another length"));
            }
        }
        match wanted.next() {
            None => Ok(messages),
            Some(_) => Err(malformed("moments are missing from it")),
        }
    }
}

fn bytes(messages: &[v1::Moments]) -> usize {
    messages.iter().map(|message| message.residues.len()).sum()
}

/// Logs and returns the error for a result that no worker of this version returns.
fn malformed(worker: &str, problem: &str) -> Status {
    tracing::error!(worker, problem, "the result of a worker is malformed");
    Status::internal(format!(
        "worker {worker} of the server returned an invalid result: {problem}; the server's operator should check that all workers run the server's version"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use oboro_protocol::moments_messages;
    use oboro_ring::Column;
    use oboro_ring::moment::{Itemsets, MomentIndex};
    use std::ops::ControlFlow;
    use tonic::Code;

    /// Query of one pair over two shards; all but its first moment are requested.
    struct Setting {
        index: Arc<MomentIndex>,
        results: Arc<Results>,
    }

    /// Shard, moment and number of its residues.
    type ShardMoment = (usize, usize, usize);

    impl Setting {
        fn new() -> Self {
            let packing = Packing::new(16, 1);
            let itemsets = Itemsets::new(2, [0, 1, 0, 2].map(Column).to_vec(), 3).unwrap();
            let index = Arc::new(MomentIndex::new(&itemsets));
            let plan = Arc::new(Plan::of_moments(&index, 1, 1..index.len()));
            let wake = Arc::new(|| {});
            let modulus = Modulus::new(268_369_921).unwrap();
            Self {
                results: Arc::new(Results::new(2, plan, packing, &[modulus], wake)),
                index,
            }
        }

        /// Returns a worker's result for a shard, with unordered moments.
        fn shard(&self, shard: u64) -> Vec<v1::Moments> {
            let one = |moment: usize| {
                let packing = self.results.packing;
                let bytes = packing.packed_len(self.index.get(moment).0);
                moments_messages(shard, moment..moment + 1, vec![shard as u8; bytes])
            };
            (1..self.index.len()).rev().flat_map(one).collect()
        }

        /// Delivers from a worker with exactly these shards.
        fn deliver(&self, worker: &str, moments: Vec<v1::Moments>) {
            let shards = moments.iter().map(|it| it.range);
            let first = shards.clone().min().unwrap();
            let given = first..shards.max().unwrap() + 1;
            self.deliver_given(worker, given, moments);
        }

        fn deliver_given(&self, worker: &str, given: Range<u64>, moments: Vec<v1::Moments>) {
            let partial = Partial {
                moments,
                failure: None,
            };
            let partial = partial.encode_to_vec();
            self.results.deliver(worker, given, partial.into());
        }

        /// Takes a step.
        fn step(&self) -> (Result<Step, Status>, Vec<ShardMoment>) {
            let mut given = Vec::new();
            let step = self.results.step(&mut |moments| {
                let [moment] = moments.moments[..] else {
                    panic!("{moments:?}")
                };
                assert_eq!(moments.scalars, usize::from(moment < 2));
                given.push((moments.shard, moment, moments.residues.len()));
                ControlFlow::Continue(())
            });
            (step, given)
        }

        /// Checks that a result of worker "w" for these shards fails the query.
        fn refusal(&self, given: Range<u64>, moments: Vec<v1::Moments>) {
            self.deliver_given("w", given, moments);
            self.refuses("worker w ");
        }

        fn refuses(&self, worker: &str) {
            let (step, given) = self.step();
            assert!(given.is_empty());
            let status = step.unwrap_err();
            assert_eq!(status.code(), Code::Internal);
            assert!(status.message().contains(worker), "{status}");
        }
    }

    #[test]
    fn every_shard_is_taken_once_in_whatever_order_and_from_how_many_workers_it_comes() {
        let setting = Setting::new();
        assert!(!setting.results.has_task());
        setting.deliver("a", setting.shard(1));
        setting.deliver("b", [setting.shard(1), setting.shard(0)].concat());
        setting.deliver("c", setting.shard(0));
        let residues = |moment| if moment == 1 { 1 } else { 16 };
        let given = |shard| {
            let moments = 1..setting.index.len();
            moments.map(move |it| (shard, it, residues(it)))
        };
        for (shard, step) in [(1, Step::Advanced), (0, Step::Finished)] {
            let (stepped, found) = setting.step();
            assert_eq!((stepped.unwrap(), found), (step, given(shard).collect()));
        }
        assert!(!setting.results.has_task() && !setting.results.is_incomplete());
    }

    #[test]
    fn what_is_no_result_ends_the_query() {
        type Spoil = fn(&mut Vec<v1::Moments>);
        let spoils: [Spoil; 7] = [
            |shard| drop(shard.pop()),
            |shard| drop(shard.remove(0)),
            |shard| shard.push(shard[0].clone()),
            |shard| shard[0].residues = Bytes::from_static(b"short"),
            |shard| shard[0].first_moment += 1,
            |shard| shard[0].moments = u64::MAX,
            |shard| shard[0].range = 7,
        ];
        for spoil in spoils {
            let setting = Setting::new();
            let mut shard = setting.shard(1);
            spoil(&mut shard);
            setting.refusal(1..2, shard);
        }
        let setting = Setting::new();
        let partial = Bytes::from_static(b"no message");
        setting.results.deliver("w", 0..1, partial);
        setting.refuses("worker w ");
        // Values that are not residues.
        let setting = Setting::new();
        let mut shard = setting.shard(1);
        shard[0].residues = vec![0xff; shard[0].residues.len()].into();
        setting.deliver("w", shard);
        let status = setting.step().0.unwrap_err();
        assert_eq!(status.code(), Code::Internal);
        assert!(status.message().contains("worker w "), "{status}");
    }

    #[test]
    fn a_worker_delivers_the_shards_that_it_was_given_and_each_once() {
        let shards = |shards: &[u64]| {
            let setting = Setting::new();
            let shards = shards.iter().flat_map(|&shard| setting.shard(shard));
            let shards = shards.collect();
            (setting, shards)
        };
        // Too few, too many, other moments, one outside the query.
        let others: [(Range<u64>, &[u64]); 6] = [
            (0..2, &[0]),
            (0..2, &[]),
            (0..1, &[0, 1]),
            (0..1, &[1]),
            (2..3, &[2]),
            (0..u64::MAX, &[0, 1]),
        ];
        for (given, delivered) in others {
            let (setting, moments) = shards(delivered);
            setting.refusal(given, moments);
        }
        let (setting, moments) = shards(&[0]);
        setting.deliver("w", moments);
        assert!(setting.step().0.is_ok());
        setting.refusal(0..1, setting.shard(0));
    }

    #[test]
    fn a_job_that_is_dropped_ends_its_query() {
        let job = |results: &Arc<Results>| RemoteJob {
            manifest: Vec::new(),
            task: Vec::new(),
            results: Arc::clone(results),
        };
        let setting = Setting::new();
        drop(job(&setting.results));
        let status = setting.step().0.unwrap_err();
        assert_eq!(status.code(), Code::Unavailable);
        let setting = Setting::new();
        setting.deliver("w", [setting.shard(0), setting.shard(1)].concat());
        drop(job(&setting.results));
        assert!(setting.step().0.is_ok());
    }

    /// After a failure, a refused result or a stopped caller, results that had arrived are not passed on.
    #[test]
    fn no_moments_follow_the_end() {
        let is_over = |setting: &Setting| {
            setting.deliver("w", setting.shard(0));
            assert!(!setting.results.has_task() && !setting.results.is_incomplete());
            let (step, given) = setting.step();
            assert!(given.is_empty());
            assert_eq!(step.unwrap(), Step::Exhausted);
        };
        let failed = Setting::new();
        failed.deliver("v", failed.shard(1));
        failed.results.fail(Status::unavailable("gone"));
        assert!(failed.step().0.is_err());
        is_over(&failed);
        let refused = Setting::new();
        refused.deliver("v", refused.shard(1)[1..].to_vec());
        assert!(refused.step().0.is_err());
        is_over(&refused);
        let enough = Setting::new();
        enough.deliver("v", enough.shard(1));
        let step = enough.results.step(&mut |_| ControlFlow::Break(()));
        assert_eq!(step.unwrap(), Step::Exhausted);
        is_over(&enough);
    }

    #[test]
    fn a_run_that_is_dropped_cancels_its_job() {
        let setting = Setting::new();
        let job = RemoteJob {
            manifest: Vec::new(),
            task: Vec::new(),
            results: Arc::clone(&setting.results),
        };
        let run = RemoteRun(Arc::clone(&setting.results));
        assert!(job.is_wanted());
        drop(run);
        assert!(!job.is_wanted());
    }
}
