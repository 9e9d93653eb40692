//! One query: from the request to a stream of moments.
//!
//! The engine runs on threads of its own and blocks when the stream is full; when the caller goes
//! away the stream closes and the engine stops at its next task.

use crate::status;
use oboro_engine::{Moments, Outcome, Plan, count};
use oboro_protocol::{digest, max_itemsets, moments_messages, v1};
use oboro_ring::moment::Itemsets;
use oboro_store::{Snapshot, Store};
use std::num::NonZero;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use tokio::runtime::Handle;
use tokio::sync::{Semaphore, mpsc};
use tonic::Status;

/// How long a caller may leave a full stream unread.
const PATIENCE: Duration = Duration::from_secs(60);
/// Messages between engine and connection: a few mebibytes.
const CHANNEL: usize = 4;

pub(crate) type Reply = Result<v1::CountReply, Status>;

/// What a query needs of the server.
#[derive(Clone)]
pub(crate) struct Counting {
    pub(crate) store: Arc<Store>,
    pub(crate) threads: NonZero<usize>,
    /// Queries that may compute at the same time.
    pub(crate) running: Arc<Semaphore>,
    /// Queries that may compute or wait to.
    pub(crate) admitted: Arc<Semaphore>,
}

/// A request that was found in order.
struct Question {
    snapshot: Arc<Snapshot>,
    itemsets: Itemsets,
    limbs: usize,
}

impl Counting {
    /// Starts the query; its replies come from the receiver. What is wrong with the request is
    /// said before it waits for its turn.
    pub(crate) fn start(self, request: v1::CountRequest) -> mpsc::Receiver<Reply> {
        let (sender, receiver) = mpsc::channel(CHANNEL);
        tokio::spawn(async move {
            if let Err(status) = self.run(request, &sender).await {
                // Nobody is left to tell if this fails.
                let _ = sender.send(Err(status)).await;
            }
        });
        receiver
    }

    async fn run(
        self,
        request: v1::CountRequest,
        sender: &mpsc::Sender<Reply>,
    ) -> Result<(), Status> {
        let admitted = Arc::clone(&self.admitted)
            .try_acquire_owned()
            .map_err(|_| {
                Status::resource_exhausted(
                    "too many queries are waiting for their turn; try again later",
                )
            })?;
        let this = self.clone();
        let question = blocking(move || this.question(request)).await?;
        let permit = tokio::select! {
            permit = Arc::clone(&self.running).acquire_owned() => permit,
            () = sender.closed() => return Ok(()),
        };
        let replies = Replies {
            sender: sender.clone(),
            runtime: Handle::current(),
        };
        blocking(move || {
            let _turn = (admitted, permit);
            answer(&question, self.threads, &replies)
        })
        .await
    }

    fn question(&self, request: v1::CountRequest) -> Result<Question, Status> {
        let root = digest(&request.root).map_err(|error| status::of_field(&error))?;
        let snapshot = self
            .store
            .snapshot_at(&request.name, root)
            .map_err(|error| status::of_store(&error))?;
        let length = request.length as usize;
        let most = max_itemsets(length);
        if request.columns.len() / length.max(1) > most {
            return Err(Status::invalid_argument(format!(
                "more than {most} itemsets of length {length} in one request; ask in several"
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
        Ok(Question {
            snapshot,
            itemsets,
            limbs,
        })
    }
}

/// The way to the caller, for threads that may block.
struct Replies {
    sender: mpsc::Sender<Reply>,
    runtime: Handle,
}

impl Replies {
    /// Whether the caller takes the reply. One that takes none for a minute is as good as gone:
    /// others wait for its turn to end.
    fn send(&self, reply: v1::count_reply::Reply) -> bool {
        let reply = Ok(v1::CountReply { reply: Some(reply) });
        self.runtime
            .block_on(self.sender.send_timeout(reply, PATIENCE))
            .is_ok()
    }
}

/// Runs what blocks or computes away from the threads that serve connections.
async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, Status> + Send + 'static,
) -> Result<T, Status> {
    tokio::task::spawn_blocking(work)
        .await
        .unwrap_or_else(|error| {
            tracing::error!(%error, "a query ended abnormally");
            Err(Status::internal(
                "the server failed while counting; its log tells more",
            ))
        })
}

/// Evaluates the query and sends what comes out of it.
fn answer(question: &Question, threads: NonZero<usize>, replies: &Replies) -> Result<(), Status> {
    let begun = Instant::now();
    let Question {
        snapshot,
        itemsets,
        limbs,
    } = question;
    let send = |reply| replies.send(reply);
    if !send(v1::count_reply::Reply::Accepted(v1::Accepted {
        blocks: snapshot.block_count(),
    })) {
        return Ok(());
    }
    let sent = AtomicU64::new(0);
    let sink = |moments: Moments| {
        let each = moments.residues.len() / moments.moments.len();
        sent.fetch_add(moments.residues.len() as u64, Ordering::Relaxed);
        let mut messages = moments_messages(
            moments.limb,
            moments.blocks,
            moments.moments,
            each,
            &moments.residues,
        );
        match messages.all(|message| send(v1::count_reply::Reply::Moments(message))) {
            true => ControlFlow::Continue(()),
            false => ControlFlow::Break(()),
        }
    };
    let outcome = count(&**snapshot, &Plan::new(itemsets, *limbs), threads, &sink)
        .map_err(|error| status::of_engine(&error))?;
    let microseconds = begun.elapsed().as_micros() as u64;
    tracing::info!(
        dataset = %snapshot.manifest().dataset,
        version = snapshot.manifest().version,
        length = itemsets.length(),
        itemsets = itemsets.len(),
        limbs,
        microseconds,
        complete = outcome == Outcome::Complete,
        "counted"
    );
    if outcome == Outcome::Complete {
        send(v1::count_reply::Reply::Done(v1::Done {
            residues: sent.into_inner(),
            microseconds,
        }));
    }
    Ok(())
}
