//! One query: from the request to a stream of moments.
//!
//! A query is a job of the [pool](crate::pool) that all queries share: its first task is to plan,
//! each further one a step of the count. It has a task to give only while there is room for what
//! the task will say, so a caller that reads slowly slows nobody down. When the caller goes away,
//! or a limit ends the query, it leaves the pool, and what it held is freed with its last task.

use crate::blocking::{blocking, failed};
use crate::clients::Client;
use crate::limits::{Admission, Limits, Place};
use crate::outbox::{Outbox, Reply};
use crate::pool::{Job, Queue};
use crate::status;
use oboro_engine::{Count, Moments, Plan, Step, Workspace};
use oboro_protocol::v1::count_reply::Reply as Part;
use oboro_protocol::{digest, moments_messages, v1};
use oboro_ring::moment::Itemsets;
use oboro_store::{Snapshot, Store};
use std::ops::ControlFlow;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, Weak};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};
use tokio_stream::Stream;
use tonic::Status;
use tracing::{Instrument, Span};

/// How long a caller may leave untaken what there is for it.
const PATIENCE: Duration = Duration::from_secs(60);

/// What queries need of the server.
pub(crate) struct Counting {
    pub(crate) store: Arc<Store>,
    pub(crate) queue: Arc<Queue<Query>>,
    pub(crate) admission: Arc<Admission>,
    pub(crate) limits: Limits,
}

impl Counting {
    /// Admits the query and gives it to the pool; its replies come from the stream.
    ///
    /// # Errors
    /// Too many queries, a request that is malformed or beyond a limit.
    pub(crate) async fn start(
        &self,
        client: Client,
        request: v1::CountRequest,
    ) -> Result<Replies, Status> {
        let place = self.admission.admit(&client)?;
        let (store, limits) = (Arc::clone(&self.store), self.limits);
        let question = blocking(move || Question::new(&store, &limits, request)).await?;
        question.record(&Span::current());
        let query = Arc::new(Query::new(client, question));
        let watch = watch(
            Arc::clone(&query.outbox),
            self.removal(&query),
            limits.query_time,
            place,
        );
        tokio::spawn(watch.in_current_span());
        self.queue.push(&query.client, Arc::clone(&query));
        Ok(Replies {
            outbox: Arc::clone(&query.outbox),
            removal: self.removal(&query),
        })
    }

    fn removal(&self, query: &Arc<Query>) -> Removal {
        Removal {
            queue: Arc::clone(&self.queue),
            query: Arc::downgrade(query),
        }
    }
}

/// A request that was found in order.
struct Question {
    snapshot: Arc<Snapshot>,
    itemsets: Itemsets,
    limbs: usize,
}

impl Question {
    fn new(store: &Store, limits: &Limits, request: v1::CountRequest) -> Result<Self, Status> {
        let root = digest(&request.root).map_err(|error| status::of_field(&error))?;
        let snapshot = store
            .snapshot_at(&request.name, root)
            .map_err(|error| status::of_store(&error))?;
        let length = request.length as usize;
        let most = limits.itemsets_of(length);
        let asked = request.columns.len() / length.max(1);
        if asked > most {
            return Err(Status::invalid_argument(format!(
                "{asked} itemsets of length {length} were asked for, but this server takes at most {most} of that length in one query; ask in several, or ask its operator about --max-itemsets"
            )));
        }
        let itemsets = Itemsets::new(length, request.columns, snapshot.manifest().columns)
            .map_err(|error| {
                Status::invalid_argument(format!("the request is malformed: {error}"))
            })?;
        let limbs = request.limbs as usize;
        if limbs == 0 || limbs > snapshot.manifest().parameters.limb_count() {
            return Err(Status::invalid_argument(format!(
                "{limbs} limbs were asked for, but the dataset has {}; ask for 1 to that many",
                snapshot.manifest().parameters.limb_count()
            )));
        }
        if itemsets.length() > usize::from(snapshot.manifest().max_len) {
            return Err(Status::invalid_argument(format!(
                "itemsets of length {length} were asked for, but the dataset was encrypted for at most {}; encrypt it again with a larger --max-len",
                snapshot.manifest().max_len
            )));
        }
        Ok(Self {
            snapshot,
            itemsets,
            limbs,
        })
    }

    /// Tells the log what is asked, by numbers.
    fn record(&self, span: &Span) {
        let dataset = self.snapshot.manifest().dataset;
        span.record("dataset", tracing::field::display(dataset));
        span.record("level", self.itemsets.length());
        span.record("itemsets", self.itemsets.len());
        span.record("limbs", self.limbs);
    }
}

/// A query in the pool.
pub(crate) struct Query {
    client: Client,
    /// Until it is planned.
    question: Mutex<Option<Question>>,
    count: OnceLock<Count<Snapshot>>,
    outbox: Arc<Outbox>,
    /// When its first task began.
    begun: OnceLock<Instant>,
    residues: AtomicU64,
    /// What is logged belongs to this call.
    span: Span,
}

impl Query {
    fn new(client: Client, question: Question) -> Self {
        Self {
            client,
            question: Mutex::new(Some(question)),
            count: OnceLock::new(),
            outbox: Arc::new(Outbox::new()),
            begun: OnceLock::new(),
            residues: AtomicU64::new(0),
            span: Span::current(),
        }
    }

    /// The first task; the others have to wait for it.
    fn plan(&self) -> ControlFlow<()> {
        let question = self.lock().take();
        let Some(question) = question else {
            return ControlFlow::Continue(());
        };
        self.begun.get_or_init(Instant::now);
        let blocks = question.snapshot.block_count();
        self.outbox.push(Part::Accepted(v1::Accepted { blocks }))?;
        let plan = Plan::new(&question.itemsets, question.limbs);
        match Count::new(question.snapshot, plan) {
            Ok(count) => {
                self.count.get_or_init(|| count);
                ControlFlow::Continue(())
            }
            Err(error) => {
                self.outbox.fail(status::of_engine(&error));
                ControlFlow::Break(())
            }
        }
    }

    fn send(&self, moments: &Moments<'_>) -> ControlFlow<()> {
        let each = moments.residues.len() / moments.moments.len();
        self.residues
            .fetch_add(moments.residues.len() as u64, Ordering::Relaxed);
        moments_messages(
            moments.limb,
            moments.blocks.clone(),
            moments.moments.clone(),
            each,
            moments.residues,
        )
        .try_for_each(|message| self.outbox.push(Part::Moments(message)))
    }

    fn finish(&self) {
        let begun = self.begun.get_or_init(Instant::now);
        let done = v1::Done {
            residues: self.residues.load(Ordering::Relaxed),
            microseconds: begun.elapsed().as_micros() as u64,
        };
        if self.outbox.push(Part::Done(done)).is_continue() {
            self.outbox.finish();
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Option<Question>> {
        self.question
            .lock()
            .expect("no thread panics with the lock")
    }
}

impl Job for Query {
    fn has_task(&self) -> bool {
        self.outbox.has_room()
            && match self.count.get() {
                Some(count) => !count.is_exhausted(),
                None => self.lock().is_some(),
            }
    }

    fn step(&self, workspace: &mut Workspace) -> ControlFlow<()> {
        let _entered = self.span.enter();
        let Some(count) = self.count.get() else {
            return self.plan();
        };
        match count.step(workspace, |moments| self.send(&moments)) {
            Ok(Step::Advanced | Step::Exhausted) => ControlFlow::Continue(()),
            Ok(Step::Finished) => {
                self.finish();
                ControlFlow::Break(())
            }
            Err(error) => {
                self.outbox.fail(status::of_engine(&error));
                ControlFlow::Break(())
            }
        }
    }

    fn panicked(&self) {
        let _entered = self.span.enter();
        tracing::error!("a task panicked; the query was ended");
        self.outbox.fail(failed());
    }
}

/// Takes a query out of the pool.
struct Removal {
    queue: Arc<Queue<Query>>,
    query: Weak<Query>,
}

impl Removal {
    fn remove(&self) {
        if let Some(query) = self.query.upgrade() {
            self.queue.remove(&query.client, &query);
        }
    }
}

/// Holds the query's place until its caller has all or is gone, and ends it at its limits.
async fn watch(outbox: Arc<Outbox>, removal: Removal, limit: Duration, _place: Place) {
    let verdict = tokio::select! {
        () = outbox.closed() => return,
        () = tokio::time::sleep(limit) => Status::deadline_exceeded(format!(
            "the query was ended because it took more than {} s, which is what this server gives one query; ask for fewer or shorter itemsets (a higher --min-support, a smaller --max-len), or ask its operator to raise --query-timeout",
            limit.as_secs()
        )),
        () = outbox.neglected(PATIENCE) => Status::cancelled(format!(
            "the query was ended because its caller took nothing of the answer for {} s",
            PATIENCE.as_secs()
        )),
    };
    tracing::warn!(code = ?verdict.code(), "the query was ended");
    outbox.fail(verdict);
    removal.remove();
}

/// The replies as the connection takes them. Dropping it ends the query.
pub(crate) struct Replies {
    outbox: Arc<Outbox>,
    removal: Removal,
}

impl Stream for Replies {
    type Item = Reply;

    fn poll_next(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Reply>> {
        let (reply, made_room) = self.outbox.poll_next(context);
        if made_room {
            self.removal.queue.wake();
        }
        reply
    }
}

impl Drop for Replies {
    fn drop(&mut self) {
        self.outbox.close();
        self.removal.remove();
    }
}
