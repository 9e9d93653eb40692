//! Counts that others do: a query's shards are given to an [`Executor`], and what comes back is taken as if it had
//! been counted here.
//!
//! Results of different shards come in any order and are added up here, so one shard that is counted twice is taken
//! once.
//!
//! What has arrived waits here until there is room for answers in the caller's outbox; the server's own threads
//! then check it and add it up. Limits, shares among callers and the cache of
//! moments are the server's as ever.

use crate::outbox::{Outbox, ROOM};
use crate::packing::Packing;
use crate::partial::{Partial, Task};
use crate::pool::Queue;
use oboro_engine::{Moments, Step};
use oboro_protocol::{moments_range, v1};
use oboro_ring::moment::MomentIndex;
use oboro_store::Snapshot;
use prost::Message;
use prost::bytes::Bytes;
use std::collections::{BTreeMap, VecDeque};
use std::ops::ControlFlow;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use tonic::Status;

/// Who counts in the server's place.
pub trait Executor: Send + Sync {
    /// Begins to count. Called on a thread of the server that must not wait.
    fn start(&self, work: Work);
}

/// A question to be counted over its shards, and where the results go. Dropped before every
/// shard was delivered, it ends the query with an error.
pub struct Work {
    manifest: Vec<u8>,
    task: Vec<u8>,
    shard_bytes: u64,
    elsewhere: Arc<Elsewhere>,
    outbox: Arc<Outbox<v1::CountReply>>,
    queue: Weak<Queue>,
}

impl Work {
    pub(crate) fn new(
        snapshot: &Snapshot,
        task: &Task,
        elsewhere: &Arc<Elsewhere>,
        outbox: &Arc<Outbox<v1::CountReply>>,
        queue: &Weak<Queue>,
    ) -> Self {
        Self {
            manifest: snapshot.manifest().encode(),
            task: task.encode_to_vec(),
            shard_bytes: elsewhere.shard_bytes,
            elsewhere: Arc::clone(elsewhere),
            outbox: Arc::clone(outbox),
            queue: Weak::clone(queue),
        }
    }

    /// The version of the dataset, for [`Worker::count`](crate::Worker::count).
    pub fn manifest(&self) -> &[u8] {
        &self.manifest
    }

    /// What to compute, likewise.
    pub fn task(&self) -> &[u8] {
        &self.task
    }

    /// The number of shards, from 0, all of which are to be counted.
    pub fn shards(&self) -> u64 {
        self.elsewhere.shards as u64
    }

    /// The bytes that each of them has in a result, or little fewer.
    pub fn shard_bytes(&self) -> u64 {
        self.shard_bytes
    }

    /// Takes a result of [`Worker::count`](crate::Worker::count). Shards that were delivered before are left
    /// out; a failure, or a result that is none, ends the query.
    pub fn deliver(&self, partial: Bytes) {
        self.elsewhere.deliver(partial);
        self.wake();
    }

    /// Ends the query with an error that the caller is told; `detail` is for the log.
    pub fn fail(&self, told: &str, detail: &str) {
        tracing::error!(detail, "a count elsewhere failed");
        self.elsewhere.fail(Status::unavailable(told));
        self.wake();
    }

    /// Whether shards are missing and somebody waits for them. Otherwise what is under way may end.
    pub fn is_wanted(&self) -> bool {
        self.outbox.is_open() && self.elsewhere.is_incomplete()
    }

    /// Whether results have room here: while a caller reads slowly they are better left where they are.
    pub fn has_room(&self) -> bool {
        self.elsewhere.lock().bytes < ROOM
    }

    fn wake(&self) {
        if let Some(queue) = self.queue.upgrade() {
            queue.wake();
        }
    }
}

impl Drop for Work {
    fn drop(&mut self) {
        if self.is_wanted() {
            self.fail(
                "the server's workers gave the query up; ask again",
                "a query was dropped before all shards were delivered",
            );
        }
    }
}

/// The part of a query that is counted elsewhere.
pub(crate) struct Elsewhere {
    shards: usize,
    /// Ascending, of every shard.
    wanted: Vec<usize>,
    packing: Packing,
    shard_bytes: u64,
    state: Mutex<State>,
}

struct State {
    /// Of each shard whether it was delivered.
    delivered: Box<[bool]>,
    missing: usize,
    waiting: VecDeque<Vec<v1::Moments>>,
    /// Of what waits.
    bytes: usize,
    /// Shards that were not taken.
    left: usize,
    failure: Option<Status>,
}

impl Elsewhere {
    /// So many shards of which the `wanted` moments are missing.
    pub(crate) fn new(
        shards: usize,
        wanted: Vec<usize>,
        index: &MomentIndex,
        packing: Packing,
    ) -> Self {
        let packed = wanted.iter().map(|&it| packing.packed_len(index.get(it).0));
        Self {
            shards,
            shard_bytes: packed.sum::<usize>() as u64,
            wanted,
            packing,
            state: Mutex::new(State {
                delivered: vec![false; shards].into(),
                missing: shards,
                waiting: VecDeque::new(),
                bytes: 0,
                left: shards,
                failure: None,
            }),
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_incomplete(&self) -> bool {
        let state = self.lock();
        state.missing > 0 && state.failure.is_none()
    }

    fn fail(&self, status: Status) {
        self.lock().failure.get_or_insert(status);
    }

    fn deliver(&self, partial: Bytes) {
        let partial = match Partial::decode(partial) {
            Ok(partial) => partial,
            Err(_) => return self.fail(malformed("it cannot be decoded")),
        };
        if let Some(failure) = partial.failure {
            return self.fail(failure.log());
        }
        let mut by_shard: BTreeMap<u64, Vec<v1::Moments>> = BTreeMap::new();
        for message in partial.moments {
            by_shard.entry(message.range).or_default().push(message);
        }
        let mut state = self.lock();
        for (shard, messages) in by_shard {
            match state.delivered.get_mut(shard as usize) {
                None => {
                    let failure = malformed("it has a shard that the question has not");
                    state.failure.get_or_insert(failure);
                }
                Some(true) => {}
                Some(delivered) => {
                    *delivered = true;
                    state.missing -= 1;
                    state.bytes += bytes(&messages);
                    state.waiting.push_back(messages);
                }
            }
        }
    }

    /// Whether a step would do something now.
    pub(crate) fn has_task(&self) -> bool {
        let state = self.lock();
        state.failure.is_some() || !state.waiting.is_empty()
    }

    /// Gives the moments of a shard that has arrived to `add`.
    ///
    /// # Errors
    /// A worker that failed, or whose result is none.
    pub(crate) fn step(
        &self,
        index: &MomentIndex,
        mut add: impl FnMut(Moments<'_>) -> ControlFlow<()>,
    ) -> Result<Step, Status> {
        let messages = {
            let mut state = self.lock();
            if let Some(failure) = state.failure.take() {
                return Err(failure);
            }
            let Some(messages) = state.waiting.pop_front() else {
                return Ok(Step::Waiting);
            };
            state.bytes -= bytes(&messages);
            messages
        };
        let messages = self.check(messages, index)?;
        for message in &messages {
            let first = message.first_moment as usize;
            let moments: Vec<usize> = (first..first + message.moments as usize).collect();
            let power = index.get(first).0;
            let mut residues = self.packing.unpack(power, &message.residues);
            let added = add(Moments {
                shard: message.range as usize,
                scalars: if power == 0 { moments.len() } else { 0 },
                moments: &moments,
                limbs: self.packing.limbs(),
                residues: &mut residues,
            });
            if added.is_break() {
                return Ok(Step::Exhausted);
            }
        }
        let mut state = self.lock();
        state.left -= 1;
        Ok(match state.left {
            0 => Step::Finished,
            _ => Step::Advanced,
        })
    }

    /// The messages of one shard, ascending, if they have the moments that are wanted, all of them and no
    /// other.
    fn check(
        &self,
        mut messages: Vec<v1::Moments>,
        index: &MomentIndex,
    ) -> Result<Vec<v1::Moments>, Status> {
        messages.sort_by_key(|message| message.first_moment);
        let mut wanted = self.wanted.iter().copied();
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

/// A result that no worker of this version gives.
fn malformed(problem: &str) -> Status {
    tracing::error!(problem, "the result of a worker is malformed");
    Status::internal(
        "a worker of the server gave a result that is none; its operator should see that all workers have the server's version",
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pool::Pool;
    use oboro_protocol::moments_messages;
    use oboro_ring::moment::Itemsets;
    use tonic::Code;

    /// A question of one pair over two shards; all but the first of its moments are wanted.
    struct Setting {
        index: MomentIndex,
        elsewhere: Arc<Elsewhere>,
    }

    /// A shard, a moment and the number of its residues.
    type Given = (usize, usize, usize);

    impl Setting {
        fn new() -> Self {
            let packing = Packing::new(16, 1);
            let index = MomentIndex::new(&Itemsets::new(2, vec![0, 1, 0, 2], 3).unwrap());
            let wanted = (1..index.len()).collect();
            Self {
                elsewhere: Arc::new(Elsewhere::new(2, wanted, &index, packing)),
                index,
            }
        }

        /// What a worker says of a shard, the moments in no order.
        fn shard(&self, shard: u64) -> Vec<v1::Moments> {
            let one = |moment: usize| {
                let packing = self.elsewhere.packing;
                let bytes = packing.packed_len(self.index.get(moment).0);
                moments_messages(shard, moment..moment + 1, vec![shard as u8; bytes])
            };
            (1..self.index.len()).rev().flat_map(one).collect()
        }

        fn deliver(&self, moments: Vec<v1::Moments>) {
            let partial = Partial {
                moments,
                failure: None,
            };
            self.elsewhere.deliver(partial.encode_to_vec().into());
        }

        /// Does a step.
        fn step(&self) -> (Result<Step, Status>, Vec<Given>) {
            let mut given = Vec::new();
            let step = self.elsewhere.step(&self.index, |moments| {
                let [moment] = moments.moments[..] else {
                    panic!("{moments:?}")
                };
                assert_eq!(moments.scalars, usize::from(moment < 2));
                given.push((moments.shard, moment, moments.residues.len()));
                ControlFlow::Continue(())
            });
            (step, given)
        }

        fn refusal(&self, moments: Vec<v1::Moments>) -> Code {
            self.deliver(moments);
            let (step, given) = self.step();
            assert!(given.is_empty());
            step.unwrap_err().code()
        }
    }

    #[test]
    fn every_shard_is_taken_once_in_whatever_order_and_however_often_it_comes() {
        let setting = Setting::new();
        assert!(!setting.elsewhere.has_task());
        setting.deliver(setting.shard(1));
        setting.deliver([setting.shard(1), setting.shard(0)].concat());
        setting.deliver(setting.shard(0));
        let residues = |moment| if moment == 1 { 1 } else { 16 };
        let given = |shard| {
            let moments = 1..setting.index.len();
            moments.map(move |it| (shard, it, residues(it)))
        };
        for (shard, step) in [(1, Step::Advanced), (0, Step::Finished)] {
            let (stepped, found) = setting.step();
            assert_eq!((stepped.unwrap(), found), (step, given(shard).collect()));
        }
        assert!(!setting.elsewhere.has_task() && !setting.elsewhere.is_incomplete());
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
            assert_eq!(setting.refusal(shard), Code::Internal);
        }
        let setting = Setting::new();
        setting.elsewhere.deliver(Bytes::from_static(b"no message"));
        assert_eq!(setting.step().0.unwrap_err().code(), Code::Internal);
    }

    #[test]
    fn work_that_is_dropped_ends_its_query() {
        let setting = Setting::new();
        let pool = Pool::start(Vec::new()).unwrap();
        let outbox = Arc::new(Outbox::new());
        let work = |elsewhere: &Arc<Elsewhere>| Work {
            manifest: Vec::new(),
            task: Vec::new(),
            shard_bytes: 0,
            elsewhere: Arc::clone(elsewhere),
            outbox: Arc::clone(&outbox),
            queue: Arc::downgrade(&pool.queue()),
        };
        drop(work(&setting.elsewhere));
        let status = setting.step().0.unwrap_err();
        assert_eq!(status.code(), Code::Unavailable);
        let setting = Setting::new();
        setting.deliver([setting.shard(0), setting.shard(1)].concat());
        drop(work(&setting.elsewhere));
        assert!(setting.step().0.is_ok());
        outbox.close();
        assert!(!work(&Setting::new().elsewhere).is_wanted());
    }
}
