//! Counts that others do: a query's groups of blocks are given to an [`Executor`], and what comes back is
//! sent on as if it had been counted here.
//!
//! Nothing is added up on the way. A group's moments are the answer: the owner adds supports after
//! decryption, since the plaintext modulus bounds the counts of one group only. So results of different
//! groups are put side by side, in any order, and one group that is counted twice is sent once.
//!
//! What has arrived waits here until there is room for it in the caller's outbox; the server's own threads
//! then check it, keep it for later questions and send it. Limits, shares among callers and the cache of
//! moments are the server's as ever.

use crate::outbox::{Outbox, ROOM};
use crate::packing::Packing;
use crate::partial::{Partial, Task};
use crate::pool::Queue;
use oboro_engine::Step;
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

/// A question to be counted over all groups of a dataset, and where its results go. Dropped before every
/// group was delivered, it ends the query with an error.
pub struct Work {
    manifest: Vec<u8>,
    task: Vec<u8>,
    group_bytes: u64,
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
            group_bytes: elsewhere.group_bytes,
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

    /// The number of groups, from 0, all of which are to be counted.
    pub fn groups(&self) -> u64 {
        self.elsewhere.groups
    }

    /// The bytes that each of them has in a result, or little fewer.
    pub fn group_bytes(&self) -> u64 {
        self.group_bytes
    }

    /// Takes a result of [`Worker::count`](crate::Worker::count). Groups that were delivered before are left
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

    /// Whether groups are missing and somebody waits for them. Otherwise what is under way may end.
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
                "a query was dropped before all groups were delivered",
            );
        }
    }
}

/// The part of a query that is counted elsewhere.
pub(crate) struct Elsewhere {
    groups: u64,
    /// Ascending, of every group.
    wanted: Vec<usize>,
    group_bytes: u64,
    state: Mutex<State>,
}

struct State {
    /// Of each group whether it was delivered.
    delivered: Box<[bool]>,
    missing: u64,
    waiting: VecDeque<Vec<v1::Moments>>,
    /// Of what waits.
    bytes: usize,
    /// Groups that were not sent.
    left: u64,
    failure: Option<Status>,
}

impl Elsewhere {
    /// So many groups of which the `wanted` moments are missing.
    pub(crate) fn new(
        groups: u64,
        wanted: Vec<usize>,
        index: &MomentIndex,
        packing: &Packing,
    ) -> Self {
        let packed = wanted.iter().map(|&it| packing.packed_len(index.get(it).0));
        Self {
            groups,
            group_bytes: packed.sum::<usize>() as u64,
            wanted,
            state: Mutex::new(State {
                delivered: vec![false; groups as usize].into(),
                missing: groups,
                waiting: VecDeque::new(),
                bytes: 0,
                left: groups,
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
        let mut by_group: BTreeMap<u64, Vec<v1::Moments>> = BTreeMap::new();
        for message in partial.moments {
            by_group.entry(message.group).or_default().push(message);
        }
        let mut state = self.lock();
        for (group, messages) in by_group {
            match state.delivered.get_mut(group as usize) {
                None => {
                    let failure = malformed("it has a group that the dataset has not");
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

    /// Sends a group that has arrived, moment after moment to `each` and in messages to `send`.
    ///
    /// # Errors
    /// A worker that failed, or whose result is none.
    pub(crate) fn step(
        &self,
        index: &MomentIndex,
        packing: &Packing,
        mut each: impl FnMut(u64, usize, &[u8]),
        send: impl FnMut(v1::Moments) -> ControlFlow<()>,
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
        let messages = self.check(messages, index, packing)?;
        for message in &messages {
            let power = index.get(message.first_moment as usize).0;
            let packed = message.fractions.chunks_exact(packing.packed_len(power));
            for (moment, packed) in (message.first_moment as usize..).zip(packed) {
                each(message.group, moment, packed);
            }
        }
        if messages.into_iter().try_for_each(send).is_break() {
            return Ok(Step::Exhausted);
        }
        let mut state = self.lock();
        state.left -= 1;
        Ok(match state.left {
            0 => Step::Finished,
            _ => Step::Advanced,
        })
    }

    /// The messages of one group, ascending, if they have the moments that are wanted, all of them and no
    /// other.
    fn check(
        &self,
        mut messages: Vec<v1::Moments>,
        index: &MomentIndex,
        packing: &Packing,
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
            if !is_one_power || message.fractions.len() != range.len() * packing.packed_len(power) {
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
    messages.iter().map(|message| message.fractions.len()).sum()
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
    use oboro_ring::{Parameters, Ring};
    use tonic::Code;

    /// A question of one pair over two groups; all but the first of its moments are wanted.
    struct Setting {
        index: MomentIndex,
        packing: Packing,
        elsewhere: Arc<Elsewhere>,
    }

    impl Setting {
        fn new() -> Self {
            let ring = Arc::new(Ring::new(Parameters::new(10, 1, 12289).unwrap()));
            let packing = Packing::new(ring, 1, vec![32, 8, 8]);
            let index = MomentIndex::new(&Itemsets::new(2, vec![0, 1], 2).unwrap());
            let wanted = (1..index.len()).collect();
            Self {
                elsewhere: Arc::new(Elsewhere::new(2, wanted, &index, &packing)),
                index,
                packing,
            }
        }

        /// What a worker says of a group, the moments in no order.
        fn group(&self, group: u64) -> Vec<v1::Moments> {
            let one = |moment: usize| {
                let bytes = self.packing.packed_len(self.index.get(moment).0);
                moments_messages(group, moment..moment + 1, vec![group as u8; bytes])
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

        /// Does a step; the groups and moments that it has sent.
        fn step(&self) -> (Result<Step, Status>, Vec<(u64, u64)>) {
            let mut sent = Vec::new();
            let mut kept = 0;
            let step = self.elsewhere.step(
                &self.index,
                &self.packing,
                |_, _, _| kept += 1,
                |message| {
                    sent.push((message.group, message.first_moment));
                    ControlFlow::Continue(())
                },
            );
            assert_eq!(kept, sent.len());
            (step, sent)
        }

        fn refusal(&self, moments: Vec<v1::Moments>) -> Code {
            self.deliver(moments);
            let (step, sent) = self.step();
            assert!(sent.is_empty());
            step.unwrap_err().code()
        }
    }

    #[test]
    fn every_group_is_sent_once_in_whatever_order_and_however_often_it_comes() {
        let setting = Setting::new();
        assert!(!setting.elsewhere.has_task());
        setting.deliver(setting.group(1));
        setting.deliver([setting.group(1), setting.group(0)].concat());
        setting.deliver(setting.group(0));
        let sent = |group| (1..setting.index.len() as u64).map(move |it| (group, it));
        for (group, step) in [(1, Step::Advanced), (0, Step::Finished)] {
            let (stepped, found) = setting.step();
            assert_eq!((stepped.unwrap(), found), (step, sent(group).collect()));
        }
        assert!(!setting.elsewhere.has_task() && !setting.elsewhere.is_incomplete());
    }

    #[test]
    fn what_is_no_result_ends_the_query() {
        type Spoil = fn(&mut Vec<v1::Moments>);
        let spoils: [Spoil; 7] = [
            |group| drop(group.pop()),
            |group| drop(group.remove(0)),
            |group| group.push(group[0].clone()),
            |group| group[0].fractions = Bytes::from_static(b"short"),
            |group| group[0].first_moment += 1,
            |group| group[0].moments = u64::MAX,
            |group| group[0].group = 7,
        ];
        for spoil in spoils {
            let setting = Setting::new();
            let mut group = setting.group(1);
            spoil(&mut group);
            assert_eq!(setting.refusal(group), Code::Internal);
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
            group_bytes: 0,
            elsewhere: Arc::clone(elsewhere),
            outbox: Arc::clone(&outbox),
            queue: Arc::downgrade(&pool.queue()),
        };
        drop(work(&setting.elsewhere));
        let status = setting.step().0.unwrap_err();
        assert_eq!(status.code(), Code::Unavailable);
        let setting = Setting::new();
        setting.deliver([setting.group(0), setting.group(1)].concat());
        drop(work(&setting.elsewhere));
        assert!(setting.step().0.is_ok());
        outbox.close();
        assert!(!work(&Setting::new().elsewhere).is_wanted());
    }
}
