//! One count query: from the request to a stream of moments.
//!
//! A query is a job of the [pool](crate::pool) that all queries share. Its first task plans; the next ones send moments
//! from the [cache](crate::cache), a message's worth at a time. The others are steps of the [backend](Backend)'s run,
//! whose moments are [summed](crate::totals) over the requested ranges. It has a task only while its outbox has free
//! space for the result: a caller that reads slowly holds no thread. When the caller disconnects or a limit ends the
//! query, it leaves the pool, and its last task frees its memory.

use crate::blocking::{blocking, failed};
use crate::cache::{Kind, MomentCache, identity};
use crate::callers::Caller;
use crate::clients::Client;
use crate::limits::{Admission, Limits};
use crate::memory::{MemoryBudget, Place, Refusal, Reservation};
use crate::outbox::Outbox;
use crate::packing::Packing;
use crate::pool::{Job, Queue, Workspace};
use crate::queries::Query;
use crate::status;
use crate::totals::{Shards, Totals};
use oboro_engine::{Backend, EngineError, Job as CountJob, Moments, Plan, RunningJob, Step};
use oboro_format::Digest;
use oboro_format::wording::{ANSWERS, MAX_ITEMSETS, MAX_LEN, MIN_SUPPORT, QUERY_TIMEOUT};
use oboro_protocol::v1::count_reply::Reply as Part;
use oboro_protocol::{MOMENTS_CHUNK_BYTES, block_ranges, columns, digest, max_itemsets, v1};
use oboro_residency::Snapshot;
use oboro_ring::Blocks;
use oboro_ring::moment::{Itemsets, MomentIndex};
use oboro_store::{Access, Store};
use parking_lot::{Mutex, MutexGuard};
use prost::Message;
use prost::bytes::Bytes;
use std::collections::VecDeque;
use std::fmt::Display;
use std::ops::{ControlFlow, Range};
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, Weak};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};
use tokio_stream::Stream;
use tonic::Status;
use tracing::{Instrument, Span};

type CountOutbox = Outbox<v1::CountReply>;

/// Resources of the server that queries use.
pub(crate) struct Counting {
    pub(crate) store: Store,
    pub(crate) queue: Arc<Queue>,
    pub(crate) admission: Arc<Admission>,
    pub(crate) limits: Limits,
    pub(crate) cache: Arc<MomentCache>,
    /// Backend that counts.
    pub(crate) backend: Arc<dyn Backend<Snapshot>>,
    /// Memory budget for plans and sums of queries in flight.
    pub(crate) budget: Arc<MemoryBudget>,
}

impl Counting {
    /// Admits the query, submits it to the pool, and returns the stream of its replies.
    ///
    /// # Errors
    ///
    /// Too many queries, a malformed request or one beyond a limit.
    pub(crate) async fn start(
        &self,
        caller: Caller,
        request: v1::CountRequest,
    ) -> Result<Replies, Status> {
        let permit = self
            .admission
            .admit(&caller, ("Count", &request.name))
            .await?;
        let (access, limits) = (self.access_of(&caller), self.limits);
        // The slot is held until this ends, even if the caller disconnects.
        let begin = move || Ok((CountSpec::new(&access, &limits, request)?, permit));
        let (spec, permit) = blocking(begin).await?;
        spec.record(&Span::current());
        caller.subject.set_dataset(spec.snapshot.manifest().dataset);
        let query = Arc::new(CountQuery::new(
            caller.client,
            spec,
            Arc::clone(&self.cache),
            Arc::clone(&self.backend),
            Arc::downgrade(&self.queue),
            &self.budget,
        ));
        let removal = self.removal(&query);
        let watch = watch(
            Arc::clone(&query.outbox),
            move || removal.remove(),
            limits.query_time,
            format!(
                "ask for fewer or shorter itemsets (a higher {MIN_SUPPORT}, a smaller {MAX_LEN})"
            ),
            permit,
        );
        tokio::spawn(watch.in_current_span());
        self.queue.push(&query.client, query.clone());
        Ok(Replies {
            outbox: Arc::clone(&query.outbox),
            removal: self.removal(&query),
        })
    }

    /// Returns a caller's access to datasets.
    pub(crate) fn access_of(&self, caller: &Caller) -> Access {
        self.store.access_of(&caller.namespace, caller.roles)
    }

    fn removal(&self, query: &Arc<CountQuery>) -> Removal {
        Removal {
            queue: Arc::clone(&self.queue),
            query: Arc::downgrade(query),
        }
    }
}

/// Validated request.
struct CountSpec {
    /// Identity of the caller's namespace.
    asker: Digest,
    snapshot: Arc<Snapshot>,
    itemsets: Itemsets,
    limbs: usize,
    shards: Shards,
    /// `true` if only moments without a factor of the mask are wanted.
    scalars: bool,
}

impl CountSpec {
    fn new(access: &Access, limits: &Limits, request: v1::CountRequest) -> Result<Self, Status> {
        let root = digest(&request.root).map_err(|error| status::of_field(&error))?;
        let snapshot = access
            .snapshot_at(&request.name, root)
            .map_err(|error| status::of_store(&error))?;
        let length = request.length as usize;
        // Only the protocol's limit applies to scalars: they are cheap, and verified answers need them.
        let most = if request.scalars {
            max_itemsets(length)
        } else {
            limits.itemsets_of(length)
        };
        let asked = request.columns.len() / length.max(1);
        if asked > most {
            return Err(Status::invalid_argument(format!(
                "{asked} itemsets of length {length} were asked for, but this server takes at most {most} of that length in one query; mine with {}, or ask its operator about {MAX_ITEMSETS}",
                ANSWERS.to("cells")
            )));
        }
        let itemsets = Itemsets::new(
            length,
            columns(request.columns),
            snapshot.manifest().columns,
        )
        .map_err(|error| Status::invalid_argument(format!("the request is malformed: {error}")))?;
        let limbs = request.limbs as usize;
        if limbs == 0 || limbs > snapshot.manifest().parameters.limb_count() {
            return Err(Status::invalid_argument(format!(
                "{limbs} limbs were asked for, but the dataset has {}; ask for 1 to that many",
                snapshot.manifest().parameters.limb_count()
            )));
        }
        if itemsets.length() > usize::from(snapshot.manifest().max_len) {
            return Err(Status::invalid_argument(format!(
                "itemsets of length {length} were asked for, but the dataset was encrypted for at most {}; encrypt it again with a larger {MAX_LEN}",
                snapshot.manifest().max_len
            )));
        }
        let ranges = block_ranges(&request.ranges, snapshot.block_count())
            .map_err(|error| status::of_field(&error))?;
        let most = snapshot.manifest().parameters.shard_blocks();
        Ok(Self {
            asker: Digest::of(access.namespace().as_bytes()),
            snapshot,
            itemsets,
            limbs,
            shards: Shards::new(ranges, most),
            scalars: request.scalars,
        })
    }

    /// Returns the requested moments among those of the index.
    fn moments(&self, index: &MomentIndex) -> Range<usize> {
        if self.scalars {
            index.rank(0)
        } else {
            0..index.len()
        }
    }

    fn packing(&self) -> Packing {
        let degree = self.snapshot.manifest().parameters.degree();
        Packing::new(degree, self.limbs)
    }

    /// Logs the size of the request.
    fn record(&self, span: &Span) {
        let dataset = self.snapshot.manifest().dataset;
        span.record("dataset", tracing::field::display(dataset));
        span.record("level", self.itemsets.length());
        span.record("itemsets", self.itemsets.len());
        span.record("limbs", self.limbs);
    }
}

/// Query in the pool.
pub(crate) struct CountQuery {
    client: Client,
    cache: Arc<MomentCache>,
    backend: Arc<dyn Backend<Snapshot>>,
    /// Queue that schedules it.
    queue: Weak<Queue>,
    /// Request, until it is planned.
    unplanned: Mutex<Option<Unplanned>>,
    answer: OnceLock<Answer>,
    /// Memory of the answer. Declared, and so dropped, after it: releasing it wakes queries that wait for memory.
    memory: OnceLock<Reservation>,
    outbox: Arc<CountOutbox>,
    /// Start time of its first task.
    begun: OnceLock<Instant>,
    /// Span of the call, parent of its log lines.
    span: Span,
}

/// Validated request, with the memory below which planning is not attempted.
struct Unplanned {
    spec: CountSpec,
    /// Position in the wait for memory.
    place: Place,
    /// Bytes that it waits for.
    needed: u64,
}

/// Planned query.
struct Answer {
    kind: Kind,
    index: Arc<MomentIndex>,
    packing: Packing,
    ranges: Vec<Blocks>,
    /// Ranges with cached moments that no task has claimed for sending.
    known: Mutex<VecDeque<Known>>,
    /// Number of cached moments, over all ranges.
    known_moments: u64,
    /// Run that counts all other moments.
    counted: Option<Counted>,
    /// Unsent cached moments, plus one until the count is finished.
    left: AtomicU64,
    /// Number of moments sent, over all ranges.
    sent: AtomicU64,
}

/// Run for the moments that the cache lacks.
struct Counted {
    run: Box<dyn RunningJob>,
    totals: Totals,
}

/// Cached moments of one range.
struct Known {
    range: usize,
    moments: VecDeque<(usize, Bytes)>,
}

impl Known {
    /// Takes the first moments, about as many as fit a message.
    fn take_some(&mut self) -> Self {
        let mut bytes = 0;
        let fits = |(_, packed): &&(usize, Bytes)| {
            let fits = bytes < MOMENTS_CHUNK_BYTES;
            bytes += packed.len();
            fits
        };
        let some = self.moments.iter().take_while(fits).count();
        Self {
            range: self.range,
            moments: self.moments.drain(..some).collect(),
        }
    }
}

impl Answer {
    /// Plans the answer; `count` creates the backend's run for the unknown moments.
    fn new(
        spec: &CountSpec,
        cache: &MomentCache,
        memory: &mut Reservation,
        count: impl FnOnce(&Arc<MomentIndex>, Vec<usize>, &mut Reservation) -> Result<Counted, Status>,
    ) -> Result<Self, Status> {
        let root = spec.snapshot.root();
        let ranges = &spec.shards.ranges;
        let index = Arc::new(MomentIndex::new(&spec.itemsets));
        memory.take(index.bytes() as u64)?;
        let packing = spec.packing();
        let kind = Kind {
            asker: spec.asker,
            dataset: identity(spec.snapshot.namespace(), spec.snapshot.manifest().dataset),
            root,
            limbs: packing.limbs(),
        };
        let mut known: Vec<Known> = (0..ranges.len())
            .map(|range| Known {
                range,
                moments: VecDeque::new(),
            })
            .collect();
        let mut unknown = Vec::new();
        for moment in spec.moments(&index) {
            match cache.get(kind, &index, moment, ranges) {
                Some(packed) => {
                    for (known, packed) in known.iter_mut().zip(packed) {
                        known.moments.push_back((moment, packed));
                    }
                }
                None => unknown.push(moment),
            }
        }
        known.retain(|known| !known.moments.is_empty());
        let known_moments = known.iter().map(|known| known.moments.len() as u64).sum();
        let counted = (!unknown.is_empty())
            .then(|| count(&index, unknown, memory))
            .transpose()?;
        Ok(Self {
            kind,
            index,
            packing,
            ranges: ranges.clone(),
            known: Mutex::new(known.into()),
            known_moments,
            left: AtomicU64::new(known_moments + u64::from(counted.is_some())),
            counted,
            sent: AtomicU64::new(0),
        })
    }

    fn has_task(&self) -> bool {
        !self.known().is_empty() || self.counted.as_ref().is_some_and(|it| it.run.has_task())
    }

    /// Logs the reads so far, if not everything is in memory.
    fn record(&self, span: &Span) {
        if let Some(counted) = &self.counted
            && let Some(reads) = counted.run.reads()
        {
            span.record("read_bytes", reads.bytes);
            span.record("read_panels", reads.panels);
            span.record("found_panels", reads.found);
        }
    }

    fn known(&self) -> MutexGuard<'_, VecDeque<Known>> {
        self.known.lock()
    }

    /// Takes the next cached moments to send, one task's worth.
    fn take_known(&self) -> Option<Known> {
        let mut known = self.known();
        let range = known.front_mut()?;
        let some = range.take_some();
        if range.moments.is_empty() {
            known.pop_front();
        }
        Some(some)
    }

    fn send_known(&self, outbox: &CountOutbox, known: &Known) -> ControlFlow<()> {
        let moments = known.moments.iter();
        let moments = moments.map(|(moment, packed)| (*moment, &packed[..]));
        Packing::put_together(&self.index, known.range as u64, moments, |message| {
            self.send(outbox, message)
        })
    }

    /// Subtracts the moments sent from those left; returns true if none are left.
    fn is_last(&self, sent: u64) -> bool {
        self.left.fetch_sub(sent, Ordering::AcqRel) == sent
    }

    /// Adds a shard's moments to their totals; sends and caches the complete ones.
    fn add(
        &self,
        totals: &Totals,
        outbox: &CountOutbox,
        cache: &MomentCache,
        moments: Moments<'_>,
    ) -> ControlFlow<()> {
        let kind = self.kind;
        totals.add(moments, |complete| {
            let range = self.ranges[complete.shard];
            self.packing.pack(
                &self.index,
                complete,
                |moment, packed| cache.insert(kind, &self.index, moment, range, packed),
                |message| self.send(outbox, message),
            )
        })
    }

    fn send(&self, outbox: &CountOutbox, message: v1::Moments) -> ControlFlow<()> {
        self.sent.fetch_add(message.moments, Ordering::Relaxed);
        outbox.push(Part::Moments(message))
    }
}

impl CountQuery {
    fn new(
        client: Client,
        spec: CountSpec,
        cache: Arc<MomentCache>,
        backend: Arc<dyn Backend<Snapshot>>,
        queue: Weak<Queue>,
        budget: &Arc<MemoryBudget>,
    ) -> Self {
        let unplanned = Unplanned {
            spec,
            place: budget.place(&client),
            needed: 0,
        };
        Self {
            client,
            cache,
            backend,
            queue,
            unplanned: Mutex::new(Some(unplanned)),
            answer: OnceLock::new(),
            memory: OnceLock::new(),
            outbox: Arc::new(Outbox::new()),
            begun: OnceLock::new(),
            span: Span::current(),
        }
    }

    /// Runs the first task, which all others wait for. If other queries hold the memory, it is retried when one of them
    /// ends.
    fn plan(&self) -> ControlFlow<()> {
        let Some(Unplanned { spec, place, .. }) = self.unplanned.lock().take() else {
            return ControlFlow::Continue(());
        };
        if self.begun.set(Instant::now()).is_ok() {
            let blocks = spec.snapshot.block_count();
            self.outbox.push(Part::Accepted(v1::Accepted { blocks }))?;
        }
        let count = |index: &Arc<MomentIndex>, unknown: Vec<usize>, memory: &mut Reservation| {
            let totals = self.totals(&spec, index, &unknown, memory)?;
            let run = self.start(&spec, index, unknown, memory)?;
            Ok(Counted { run, totals })
        };
        let plan = |memory: &mut Reservation| Answer::new(&spec, &self.cache, memory, count);
        match place.reserve(plan) {
            Ok((answer, memory)) => {
                let _ = self.memory.set(memory);
                let _ = self.answer.set(answer);
                ControlFlow::Continue(())
            }
            Err(Refusal::Busy { needed }) => {
                *self.unplanned.lock() = Some(Unplanned {
                    spec,
                    place,
                    needed,
                });
                ControlFlow::Continue(())
            }
            Err(Refusal::Failed(status)) => {
                self.outbox.fail(status);
                ControlFlow::Break(())
            }
        }
    }

    /// Returns true if planning may succeed now.
    fn may_plan(&self) -> bool {
        let unplanned = self.unplanned.lock();
        unplanned
            .as_ref()
            .is_some_and(|it| it.place.could_reserve(it.needed))
    }

    fn totals(
        &self,
        spec: &CountSpec,
        index: &MomentIndex,
        wanted: &[usize],
        memory: &mut Reservation,
    ) -> Result<Totals, Status> {
        let parameters = &spec.snapshot.manifest().parameters;
        let scalars = wanted.partition_point(|&moment| moment < index.rank(0).end);
        let polynomials = wanted.len() - scalars;
        let residues = (scalars + polynomials * parameters.degree()) * spec.limbs;
        let sums = spec.shards.sum_bytes(residues, polynomials);
        let bytes = sums + size_of_val(wanted) as u64;
        memory.take(bytes)?;
        let moduli = &parameters.limb_moduli()[..spec.limbs];
        let wanted = wanted.to_vec();
        Ok(Totals::new(&spec.shards, moduli, wanted, scalars))
    }

    /// Starts the backend's run for the unknown moments.
    fn start(
        &self,
        spec: &CountSpec,
        index: &Arc<MomentIndex>,
        unknown: Vec<usize>,
        memory: &mut Reservation,
    ) -> Result<Box<dyn RunningJob>, Status> {
        let mut reserve = |bytes: usize| {
            let taken = memory.take(bytes as u64);
            taken.map_err(|status| EngineError::Backend(Box::new(status)))
        };
        reserve(size_of_val(&unknown[..])).map_err(status::of_engine)?;
        let queue = Weak::clone(&self.queue);
        let job = CountJob {
            source: Arc::clone(&spec.snapshot),
            plan: Arc::new(Plan::of_moments(index, spec.limbs, unknown)),
            shards: spec.shards.shards.clone(),
            wake: Arc::new(move || {
                if let Some(queue) = queue.upgrade() {
                    queue.wake();
                }
            }),
        };
        self.backend
            .start(job, &mut reserve)
            .map_err(status::of_engine)
    }

    /// Runs a task after planning: sends cached moments, else takes a step of the count.
    fn advance(&self, answer: &Answer, node: usize) -> ControlFlow<()> {
        let sent = if let Some(known) = answer.take_known() {
            answer.send_known(&self.outbox, &known)?;
            known.moments.len() as u64
        } else {
            match self.step_of(answer, node) {
                Ok(Step::Finished) => 1,
                Ok(Step::Advanced | Step::Waiting | Step::Exhausted) => {
                    return ControlFlow::Continue(());
                }
                Err(status) => {
                    self.outbox.fail(status);
                    return ControlFlow::Break(());
                }
            }
        };
        if answer.is_last(sent) {
            self.finish(answer)
        } else {
            ControlFlow::Continue(())
        }
    }

    /// Takes a step of the count.
    fn step_of(&self, answer: &Answer, node: usize) -> Result<Step, Status> {
        let Some(Counted { run, totals, .. }) = &answer.counted else {
            return Ok(Step::Exhausted);
        };
        let mut add = |moments: Moments<'_>| answer.add(totals, &self.outbox, &self.cache, moments);
        run.step(node, &mut add).map_err(status::of_engine)
    }

    /// Ends the stream and leaves the pool.
    fn finish(&self, answer: &Answer) -> ControlFlow<()> {
        answer.record(&self.span);
        let begun = self.begun.get_or_init(Instant::now);
        let done = v1::Done {
            microseconds: begun.elapsed().as_micros() as u64,
            moments: answer.sent.load(Ordering::Relaxed),
            known: answer.known_moments,
        };
        if self.outbox.push(Part::Done(done)).is_continue() {
            self.outbox.finish();
        }
        ControlFlow::Break(())
    }
}

impl Job for CountQuery {
    fn has_task(&self) -> bool {
        self.outbox.has_capacity()
            && match self.answer.get() {
                Some(answer) => answer.has_task(),
                None => self.may_plan(),
            }
    }

    fn step(&self, workspace: &mut Workspace) -> ControlFlow<()> {
        let _entered = self.span.enter();
        match self.answer.get() {
            Some(answer) => self.advance(answer, workspace.node),
            None => self.plan(),
        }
    }

    fn panicked(&self) {
        let _entered = self.span.enter();
        tracing::error!("a task panicked; the query was ended");
        self.outbox.fail(failed());
    }
}

/// Removes a query from the pool.
struct Removal {
    queue: Arc<Queue>,
    query: Weak<CountQuery>,
}

impl Removal {
    fn remove(&self) {
        if let Some(query) = self.query.upgrade() {
            let client = query.client.clone();
            self.queue.remove(&client, &(query as Arc<dyn Job>));
        }
    }
}

/// Holds the query's slot until its caller has everything or disconnects. Calls `end` when a limit is reached or the
/// query is cancelled. `advice` says how to request less.
pub(crate) async fn watch<R: Message>(
    outbox: Arc<Outbox<R>>,
    end: impl FnOnce(),
    limit: Duration,
    advice: impl Display,
    query: Query,
) {
    let verdict = tokio::select! {
        () = outbox.closed() => return,
        ended = query.ended() => ended,
        () = tokio::time::sleep(limit) => Status::deadline_exceeded(format!(
            "the query was ended because it took more than {} s, which is what this server gives one query; {advice}, or ask its operator to raise {QUERY_TIMEOUT}",
            limit.as_secs()
        )),
    };
    tracing::warn!(code = ?verdict.code(), "the query was ended");
    outbox.fail(verdict);
    end();
}

/// Stream of replies. Dropping it ends the query.
pub(crate) struct Replies {
    outbox: Arc<CountOutbox>,
    removal: Removal,
}

impl Stream for Replies {
    type Item = Result<v1::CountReply, Status>;

    fn poll_next(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let (reply, freed_space) = self.outbox.poll_next(context);
        if freed_space {
            self.removal.queue.wake();
        }
        reply
    }
}

impl Drop for Replies {
    fn drop(&mut self) {
        self.outbox.close();
        self.removal.remove();
        // The call's line is logged next; a finished query has already logged its reads.
        if let Some(query) = self.removal.query.upgrade()
            && let Some(answer) = query.answer.get()
        {
            answer.record(&query.span);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pool::Pool;
    use oboro_arena::Topology;
    use oboro_engine::{Reserve, Sink};
    use oboro_format::testing::{bundle, two_limbs};
    use std::num::NonZero;
    use std::thread;
    use tempfile::TempDir;

    /// Backend whose plans take this many bytes, and which counts nothing.
    struct Planning(usize);

    impl Backend<Snapshot> for Planning {
        fn start(
            &self,
            _: CountJob<Snapshot>,
            reserve: &mut Reserve<'_>,
        ) -> Result<Box<dyn RunningJob>, EngineError> {
            reserve(self.0)?;
            Ok(Box::new(Self(self.0)))
        }
    }

    impl RunningJob for Planning {
        fn has_task(&self) -> bool {
            false
        }

        fn step(&self, _: usize, _: &mut Sink<'_>) -> Result<Step, EngineError> {
            Ok(Step::Waiting)
        }
    }

    /// Creates a store with a small dataset.
    fn stored(home: &TempDir) -> Store {
        let bundle = bundle(&home.path().join("rows"), &two_limbs(), &[2]);
        let store = Store::open(&home.path().join("store")).unwrap();
        let access = store.access();
        let (dataset, root) = (bundle.manifest().dataset, bundle.manifest().root());
        access
            .begin_upload("rows", &bundle.manifest().encode())
            .unwrap();
        let mut receiver = access.receive_segment(dataset, root, 0, 0).unwrap();
        let bytes = std::fs::read(bundle.segment_path(0)).unwrap();
        receiver.write(&bytes).unwrap();
        receiver.finish().unwrap();
        access.publish(dataset, root).unwrap();
        store
    }

    /// Returns a constructor of queries of two columns with empty runs, and the memory that one takes.
    fn planning(
        access: &Access,
    ) -> (
        impl Fn(&Arc<MemoryBudget>, Weak<Queue>) -> CountQuery,
        usize,
    ) {
        let plan = 1000;
        let root = access.snapshot("rows").unwrap().root();
        let request = v1::CountRequest {
            name: "rows".into(),
            root: root.0.to_vec().into(),
            length: 1,
            columns: vec![0, 1],
            limbs: 2,
            ranges: vec![v1::BlockRange {
                first_block: 0,
                blocks: 2,
            }],
            scalars: false,
        };
        let access = access.clone();
        let asked = move || CountSpec::new(&access, &Limits::default(), request.clone()).unwrap();
        let index = MomentIndex::new(&asked().itemsets);
        let query = move |budget: &Arc<MemoryBudget>, queue| {
            CountQuery::new(
                Client::Connected(None),
                asked(),
                Arc::new(MomentCache::new(0)),
                Arc::new(Planning(plan)),
                queue,
                budget,
            )
        };
        // A requested moment takes 8 bytes in the plan and 8 in the sums.
        (query, index.bytes() + 16 * index.len() + plan)
    }

    #[test]
    fn a_query_waits_for_the_memory_of_its_plan() {
        let home = TempDir::new().unwrap();
        let access = stored(&home).access();
        let (query, bytes) = planning(&access);
        let budget = |bytes: usize| Arc::new(MemoryBudget::new(bytes as u64, 4, || ()));
        let all = budget(bytes);
        let (first, second) = (query(&all, Weak::new()), query(&all, Weak::new()));
        assert!(first.plan().is_continue() && first.answer.get().is_some());
        assert_eq!(all.free(), 0);
        // The second waits, and is planned once the first is dropped.
        assert!(second.plan().is_continue() && second.answer.get().is_none());
        assert!(!second.has_task());
        drop(first);
        assert!(second.has_task());
        assert!(second.plan().is_continue() && second.answer.get().is_some());
        // One that never fits is refused and reserves nothing.
        let less = budget(bytes - 1);
        assert!(query(&less, Weak::new()).plan().is_break());
        assert_eq!(less.free(), bytes as u64 - 1);
    }

    #[test]
    fn a_query_that_waits_is_woken_when_another_has_gone() {
        let home = TempDir::new().unwrap();
        let access = stored(&home).access();
        let (query, bytes) = planning(&access);
        let threads = Topology::of_this_machine().workers(NonZero::<usize>::MIN);
        let meter = Arc::new(crate::metering::Meter::default());
        let pool = Pool::start(threads, &meter).unwrap();
        let queue = pool.queue();
        let woken = Arc::downgrade(&queue);
        let wake = move || woken.upgrade().into_iter().for_each(|queue| queue.wake());
        let budget = Arc::new(MemoryBudget::new(bytes as u64, 4, wake));
        let pushed = || {
            let query = Arc::new(query(&budget, Arc::downgrade(&queue)));
            queue.push(&query.client, query.clone());
            query
        };
        let until = |is: &dyn Fn() -> bool| {
            let begun = Instant::now();
            while !is() {
                assert!(
                    begun.elapsed() < Duration::from_secs(60),
                    "nobody was woken"
                );
                thread::sleep(Duration::from_millis(1));
            }
        };
        let first = pushed();
        until(&|| first.answer.get().is_some());
        let second = pushed();
        until(&|| {
            second
                .unplanned
                .lock()
                .as_ref()
                .is_some_and(|it| it.needed > 0)
        });
        let removal = Removal {
            queue: Arc::clone(&queue),
            query: Arc::downgrade(&first),
        };
        removal.remove();
        drop(first);
        until(&|| second.answer.get().is_some());
    }

    #[test]
    fn a_task_takes_a_message_of_what_was_known() {
        let sizes = [300 << 10; 9];
        let of = |(moment, size): (usize, &usize)| (moment, Bytes::from(vec![0; *size]));
        let mut known = Known {
            range: 3,
            moments: sizes.iter().enumerate().map(of).collect(),
        };
        let mut taken = Vec::new();
        while !known.moments.is_empty() {
            let some = known.take_some();
            assert_eq!(some.range, 3);
            taken.push(Vec::from_iter(
                some.moments.iter().map(|(moment, _)| *moment),
            ));
        }
        // The fourth starts below a mebibyte.
        assert_eq!(taken, [vec![0, 1, 2, 3], vec![4, 5, 6, 7], vec![8]]);
    }
}
