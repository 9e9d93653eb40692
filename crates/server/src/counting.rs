//! One query: from the request to a stream of moments.
//!
//! The engine runs on threads of its own and blocks when the stream is full; when the caller goes
//! away the stream closes and the engine stops at its next task.

use crate::status;
use oboro_engine::{Moments, Outcome, Plan, count};
use oboro_protocol::{check_fraction_bits, digest, max_itemsets, moments_messages, v1};
use oboro_ring::moment::{Itemsets, MomentIndex};
use oboro_ring::{Fractions, Ring};
use oboro_store::{Snapshot, Store};
use std::collections::HashMap;
use std::num::NonZero;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
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
    /// For each power of the mask.
    fraction_bits: Vec<u32>,
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
        check_fraction_bits(length, &request.fraction_bits)
            .map_err(|error| status::of_field(&error))?;
        Ok(Question {
            snapshot,
            itemsets,
            limbs,
            fraction_bits: request.fraction_bits,
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
        ..
    } = question;
    let send = |reply| replies.send(reply);
    if !send(v1::count_reply::Reply::Accepted(v1::Accepted {
        blocks: snapshot.block_count(),
    })) {
        return Ok(());
    }
    let sent = AtomicU64::new(0);
    let ring = Ring::new(snapshot.manifest().parameters.clone());
    let packer = Packer::new(question, &ring);
    let sink = |part: Moments| {
        let moments = part.moments.clone();
        let group = part.blocks.start / ring.parameters().group_blocks();
        let Some(packed) = packer.add(group, part) else {
            return ControlFlow::Continue(());
        };
        sent.fetch_add(moments.len() as u64, Ordering::Relaxed);
        let mut messages = moments_messages(group, moments, packed);
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
            moments: sent.into_inner(),
            microseconds,
        }));
    }
    Ok(())
}

/// Collects the limbs of moments and packs them once they are all there.
struct Packer<'a> {
    fraction_bits: &'a [u32],
    fractions: Fractions<'a>,
    index: MomentIndex,
    limbs: usize,
    degree: usize,
    /// By group and first moment: the residues modulo the limbs that came so far.
    waiting: Mutex<HashMap<(u64, usize), Limbs>>,
}

/// Residues of some moments, by limb.
type Limbs = Vec<(usize, Vec<u32>)>;

impl<'a> Packer<'a> {
    fn new(question: &'a Question, ring: &'a Ring) -> Self {
        Self {
            fraction_bits: &question.fraction_bits,
            fractions: Fractions::new(ring, question.limbs),
            index: MomentIndex::new(&question.itemsets),
            limbs: question.limbs,
            degree: ring.degree(),
            waiting: Mutex::default(),
        }
    }

    /// Takes moments of a group modulo one limb; returns them as they travel if it is the last.
    fn add(&self, group: u64, part: Moments) -> Option<Vec<u8>> {
        let key = (group, part.moments.start);
        let mut limbs = {
            let mut waiting = self.waiting.lock().expect("no thread panics with the lock");
            let limbs = waiting.entry(key).or_default();
            limbs.push((part.limb, part.residues));
            if limbs.len() < self.limbs {
                return None;
            }
            waiting.remove(&key).expect("it was just there")
        };
        limbs.sort_unstable_by_key(|(limb, _)| *limb);
        let power = self.index.get(part.moments.start).0;
        let bits = self.fraction_bits[power];
        let each = self.fractions.packed_len(power, bits);
        let mut packed = vec![0; part.moments.len() * each];
        let mut scratch = vec![0; self.degree];
        for (i, bytes) in packed.chunks_exact_mut(each).enumerate() {
            let size = if power == 0 { 1 } else { self.degree };
            let of_limb = |(_, all): &(usize, Vec<u32>)| all[i * size..(i + 1) * size].to_vec();
            let mut residues: Vec<u32> = limbs.iter().flat_map(of_limb).collect();
            match power {
                0 => self.fractions.pack_scalar(&residues, bits, bytes),
                _ => self
                    .fractions
                    .pack_polynomial(&mut residues, bits, &mut scratch, bytes),
            }
        }
        Some(packed)
    }
}
