//! One count query: from the request to a stream of moments.
//!
//! The query waits for its slot, plans within its memory, counts on the [pool](crate::pool) that all queries share, and
//! reports. While it counts, tasks send moments from the [cache](crate::cache), a message's worth at a time; the others
//! are steps of the [backend](Backend)'s run, whose moments are [summed](crate::totals) over the requested ranges. It
//! has a task only while its outbox has free space for the result: a caller that reads slowly holds no thread.

use crate::blocking::{blocking, failed};
use crate::cache::{Kind, MomentCache, identity};
use crate::limits::{Admission, Limits};
use crate::memory::{PlanMemory, Reservation};
use crate::outbox::Outbox;
use crate::packing::Packing;
use crate::pool::{self, Job, Queue, Workspace};
use crate::replies::{self, Replies};
use crate::status;
use crate::totals::{Shards, Totals};
use oboro_edge::{Caller, Client, RETRY_SOON, busy};
use oboro_engine::{Backend, EngineError, Job as CountJob, Moments, Plan, RunningJob, Step};
use oboro_format::Digest;
use oboro_format::wording::{ANSWERS, MAX_ITEMSETS, MAX_LEN, MIN_SUPPORT};
use oboro_protocol::v1::count_reply::Reply as Part;
use oboro_protocol::{MOMENTS_CHUNK_BYTES, block_ranges, columns, digest, max_itemsets, v1};
use oboro_residency::{FairSemaphore, Snapshot};
use oboro_ring::Blocks;
use oboro_ring::moment::{Itemsets, MomentIndex};
use oboro_store::{Access, Store};
use parking_lot::{Mutex, MutexGuard};
use prost::bytes::Bytes;
use std::collections::VecDeque;
use std::ops::{ControlFlow, Range};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, Weak};
use std::time::Instant;
use tonic::Status;
use tracing::Span;

type CountOutbox = Outbox<v1::CountReply>;

/// Resources of the server that queries use.
#[derive(Clone)]
pub(crate) struct Counting {
    pub(crate) store: Store,
    pub(crate) queue: Arc<Queue>,
    pub(crate) admission: Arc<Admission>,
    pub(crate) limits: Limits,
    pub(crate) cache: Arc<MomentCache>,
    /// Backend that counts.
    pub(crate) backend: Arc<dyn Backend<Snapshot>>,
    /// Memory budget for plans and sums of queries in flight.
    pub(crate) budget: Arc<PlanMemory>,
    /// Turn to plan, of one query at a time: two could each fail because of what the other has reserved.
    pub(crate) planning: Arc<FairSemaphore<Client>>,
}

impl Counting {
    /// Admits the query, starts its work, and returns the stream of its replies.
    ///
    /// # Errors
    ///
    /// Too many queries, a malformed request or one beyond a limit.
    pub(crate) async fn start(
        &self,
        caller: Caller,
        request: v1::CountRequest,
    ) -> Result<Replies<v1::CountReply>, Status> {
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
        let outbox = Arc::new(CountOutbox::new());
        let counted = Arc::new(OnceLock::<Weak<Count>>::new());
        let work = {
            let (counting, counted) = (self.clone(), Arc::clone(&counted));
            let outbox = Arc::clone(&outbox);
            async move {
                let spec = Arc::new(spec);
                counting
                    .conduct(&caller.client, &spec, &outbox, &counted)
                    .await
            }
        };
        let advice = format!(
            "ask for fewer or shorter itemsets (a higher {MIN_SUPPORT}, a smaller {MAX_LEN})"
        );
        replies::spawn(Arc::clone(&outbox), limits.query_time, advice, permit, work);
        let queue = Arc::clone(&self.queue);
        // The call's line is logged next; a finished query has already logged its reads.
        let on_drop = move || {
            if let Some(count) = counted.get().and_then(Weak::upgrade) {
                count.record();
            }
        };
        Ok(Replies::new(outbox, move || queue.wake()).on_drop(on_drop))
    }

    /// Plans, counts and reports.
    async fn conduct(
        &self,
        client: &Client,
        spec: &Arc<CountSpec>,
        outbox: &Arc<CountOutbox>,
        counted: &OnceLock<Weak<Count>>,
    ) -> Result<(), Status> {
        let blocks = spec.snapshot.block_count();
        let accepted = Part::Accepted(v1::Accepted { blocks });
        if outbox.push(accepted).is_break() {
            return Ok(());
        }
        let (begun, answer, memory) = self.plan(client, spec).await?;
        let count = Arc::new(Count {
            answer,
            cache: Arc::clone(&self.cache),
            outbox: Arc::clone(outbox),
            span: Span::current(),
            _memory: memory,
        });
        let _ = counted.set(Arc::downgrade(&count));
        pool::run(&self.queue, client, Arc::clone(&count)).await;
        count.record();
        // Ignored: the caller may have disconnected, or has the error of a task.
        let _ = outbox.push(Part::Done(v1::Done {
            microseconds: begun.elapsed().as_micros() as u64,
            moments: count.answer.sent.load(Ordering::Relaxed),
            known: count.answer.known_moments,
        }));
        Ok(())
    }

    /// Plans on a thread of the pool; whenever other queries hold the memory, waits for it and plans again. Returns the
    /// time of the first attempt, the plan and its memory.
    async fn plan(
        &self,
        client: &Client,
        spec: &Arc<CountSpec>,
    ) -> Result<(Instant, Answer, Reservation), Status> {
        let mut memory = Reservation::new(self.budget.empty(client));
        let mut first = None;
        loop {
            let turn = self.planning.acquire(client, 1).await.map_err(|_| {
                busy(
                    "too many queries of this client wait to be planned; try again when some have ended",
                    RETRY_SOON,
                )
            })?;
            let (counting, spec) = (self.clone(), Arc::clone(spec));
            let attempt = move || {
                let _turn = turn;
                let begun = Instant::now();
                let planned = Answer::new(&counting, &spec, &mut memory);
                (begun, planned, memory)
            };
            let (begun, planned, reserved) = pool::run_once(&self.queue, client, attempt).await?;
            let first = *first.get_or_insert(begun);
            match planned {
                Ok(answer) => return Ok((first, answer, reserved)),
                Err(error) => memory = reserved.wait(error).await?,
            }
        }
    }

    /// Returns a caller's access to datasets.
    pub(crate) fn access_of(&self, caller: &Caller) -> Access {
        self.store.access_of(&caller.namespace, caller.roles)
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

/// Planned query, as a job of the pool.
struct Count {
    answer: Answer,
    cache: Arc<MomentCache>,
    outbox: Arc<CountOutbox>,
    /// Span of the call, parent of its log lines.
    span: Span,
    /// Memory of the answer. Declared, and so dropped, after it.
    _memory: Reservation,
}

/// Plan of an answer, and its progress.
struct Answer {
    kind: Kind,
    index: Arc<MomentIndex>,
    packing: Packing,
    ranges: Vec<Blocks>,
    /// Ranges with cached moments that no task has claimed for sending.
    known: Mutex<VecDeque<CachedMoments>>,
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

impl Counted {
    /// Starts the backend's run for these moments.
    fn start(
        counting: &Counting,
        spec: &CountSpec,
        index: &Arc<MomentIndex>,
        wanted: Vec<usize>,
        memory: &mut Reservation,
    ) -> Result<Self, Status> {
        let parameters = &spec.snapshot.manifest().parameters;
        let scalars = wanted.partition_point(|&moment| moment < index.rank(0).end);
        let polynomials = wanted.len() - scalars;
        let residues = (scalars + polynomials * parameters.degree()) * spec.limbs;
        let sums = spec.shards.sum_bytes(residues, polynomials);
        // Totals and plan have one list each.
        memory.take(sums + 2 * size_of_val(&wanted[..]) as u64)?;
        let moduli = &parameters.limb_moduli()[..spec.limbs];
        let totals = Totals::new(&spec.shards, moduli, wanted.clone(), scalars);
        let queue = Arc::downgrade(&counting.queue);
        let job = CountJob {
            source: Arc::clone(&spec.snapshot),
            plan: Arc::new(Plan::of_moments(index, spec.limbs, wanted)),
            shards: spec.shards.shards.clone(),
            wake: Arc::new(move || {
                if let Some(queue) = queue.upgrade() {
                    queue.wake();
                }
            }),
        };
        let mut reserve = |bytes: usize| {
            let taken = memory.take(bytes as u64);
            taken.map_err(|status| EngineError::Backend(Box::new(status)))
        };
        let run = counting.backend.start(job, &mut reserve);
        let run = run.map_err(status::of_engine)?;
        Ok(Self { run, totals })
    }
}

/// Cached moments of one range.
struct CachedMoments {
    range: usize,
    moments: VecDeque<(usize, Bytes)>,
}

impl CachedMoments {
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
    /// Plans the answer, and starts the backend's run for the moments that the cache lacks.
    fn new(
        counting: &Counting,
        spec: &CountSpec,
        memory: &mut Reservation,
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
        let mut known: Vec<CachedMoments> = (0..ranges.len())
            .map(|range| CachedMoments {
                range,
                moments: VecDeque::new(),
            })
            .collect();
        let mut unknown = Vec::new();
        for moment in spec.moments(&index) {
            match counting.cache.get(kind, &index, moment, ranges) {
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
            .then(|| Counted::start(counting, spec, &index, unknown, memory))
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

    fn known(&self) -> MutexGuard<'_, VecDeque<CachedMoments>> {
        self.known.lock()
    }

    /// Takes the next cached moments to send, one task's worth.
    fn take_known(&self) -> Option<CachedMoments> {
        let mut known = self.known();
        let range = known.front_mut()?;
        let some = range.take_some();
        if range.moments.is_empty() {
            known.pop_front();
        }
        Some(some)
    }

    fn send_known(&self, outbox: &CountOutbox, known: &CachedMoments) -> ControlFlow<()> {
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

impl Count {
    /// Logs the reads so far, if not everything is in memory.
    fn record(&self) {
        self.answer.record(&self.span);
    }

    /// Sends cached moments, else takes a step of the count; returns the number of moments sent, or 1 for the end of the
    /// count.
    fn advance(&self, node: usize) -> Result<ControlFlow<(), u64>, Status> {
        let answer = &self.answer;
        if let Some(known) = answer.take_known() {
            let sent = known.moments.len() as u64;
            let pushed = answer.send_known(&self.outbox, &known);
            return Ok(pushed.map_continue(|()| sent));
        }
        let Some(Counted { run, totals }) = &answer.counted else {
            return Ok(ControlFlow::Continue(0));
        };
        let mut add = |moments: Moments<'_>| answer.add(totals, &self.outbox, &self.cache, moments);
        let step = run.step(node, &mut add).map_err(status::of_engine)?;
        Ok(ControlFlow::Continue(u64::from(step == Step::Finished)))
    }
}

impl Job for Count {
    fn has_task(&self) -> bool {
        self.outbox.has_capacity() && self.answer.has_task()
    }

    fn step(&self, workspace: &mut Workspace) -> ControlFlow<()> {
        let _entered = self.span.enter();
        let sent = self.advance(workspace.node).unwrap_or_else(|status| {
            self.outbox.fail(status);
            ControlFlow::Break(())
        })?;
        if sent > 0 && self.answer.is_last(sent) {
            return ControlFlow::Break(());
        }
        ControlFlow::Continue(())
    }

    fn panicked(&self) {
        let _entered = self.span.enter();
        tracing::error!("a task panicked; the query was ended");
        self.outbox.fail(failed());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::plan_memory;
    use crate::pool::Pool;
    use oboro_arena::Topology;
    use oboro_engine::{Reserve, Sink};
    use oboro_format::testing::{bundle, two_limbs};
    use oboro_residency::ShareLimit;
    use std::num::NonZero;
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

    #[tokio::test]
    async fn a_query_waits_for_the_memory_of_its_plan() {
        let home = TempDir::new().unwrap();
        let store = stored(&home);
        let request = v1::CountRequest {
            name: "rows".into(),
            root: store
                .access()
                .snapshot("rows")
                .unwrap()
                .root()
                .0
                .to_vec()
                .into(),
            length: 1,
            columns: vec![0, 1],
            limbs: 2,
            ranges: vec![v1::BlockRange {
                first_block: 0,
                blocks: 2,
            }],
            scalars: false,
        };
        let limits = Limits::default();
        let spec = Arc::new(CountSpec::new(&store.access(), &limits, request).unwrap());
        let index = MomentIndex::new(&spec.itemsets);
        let plan = 1000;
        // A requested moment takes 8 bytes in the plan and 8 in the sums.
        let bytes = (index.bytes() + 16 * index.len() + plan) as u64;
        let threads = Topology::of_this_machine().workers(NonZero::<usize>::MIN);
        let meter = Arc::new(crate::metering::Meter::default());
        let pool = Pool::start(threads, &meter).unwrap();
        let counting = |bytes| Counting {
            store: store.clone(),
            queue: pool.queue(),
            admission: Arc::new(Admission::new(limits)),
            limits,
            cache: Arc::new(MomentCache::new(0)),
            backend: Arc::new(Planning(plan)),
            budget: plan_memory(bytes, 4),
            planning: FairSemaphore::new(ShareLimit::total(1)),
        };
        let client = Client::Connected(None);
        let enough = counting(bytes);
        let first = enough.plan(&client, &spec).await.unwrap();
        assert_eq!(enough.budget.used(), bytes);
        // The second waits, and is planned once the first is dropped.
        let mut second = Box::pin(enough.plan(&client, &spec));
        let waits = async {
            while enough.budget.waiting() == 0 {
                tokio::task::yield_now().await;
            }
        };
        tokio::select! {
            _ = &mut second => panic!("it does not wait"),
            () = waits => drop(first),
        }
        drop(second.await.unwrap());
        assert_eq!(enough.budget.used(), 0);
        // One that never fits is refused and reserves nothing.
        let less = counting(bytes - 1);
        let refusal = less.plan(&client, &spec).await.err().unwrap();
        assert!(refusal.message().contains("--memory"), "{refusal}");
        assert_eq!(less.budget.used(), 0);
    }

    #[test]
    fn a_task_takes_a_message_of_what_was_known() {
        let sizes = [300 << 10; 9];
        let of = |(moment, size): (usize, &usize)| (moment, Bytes::from(vec![0; *size]));
        let mut known = CachedMoments {
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
