//! A scrub of all that is stored for a caller, in the background.
//!
//! One part at a time is read and checked on a blocking thread, so it takes neither a permit of the
//! query limit nor a compute thread. It throttles itself to the caller's rate, waits for a caller that is slow, and ends when that one is gone.

use crate::blocking::blocking;
use crate::counting::IDLE_TIMEOUT;
use crate::status;
use crate::whole::{WholeError, WholeScrub};
use oboro_protocol::v1::{self, scrub_reply::Reply};
use oboro_store::{Access, Pace};
use std::num::NonZero;
use std::sync::Arc;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};
use tokio_stream::wrappers::ReceiverStream;
use tonic::Status;
use tracing::Instrument;

/// The most replies that wait for the caller.
const WAITING: usize = 16;
/// The least bytes per second: with less, one caller's scrub would keep all others from theirs.
const LEAST_RATE: u64 = 1 << 20;
/// The number of progress reports, approximately.
const TELLINGS: u64 = 256;

/// The events of a scrub, in order.
pub(crate) type Replies = ReceiverStream<Result<v1::ScrubReply, Status>>;

/// Lets one caller at a time scrub.
pub(crate) struct Scrubbing {
    turn: Arc<Semaphore>,
}

impl Scrubbing {
    pub(crate) fn new() -> Self {
        Self {
            turn: Arc::new(Semaphore::new(1)),
        }
    }

    /// Starts a scrub of one dataset, or of all that the caller has; returns the stream of what is found.
    ///
    /// # Errors
    ///
    /// A rate that is too low, another scrub in progress, no such dataset, a catalogue that cannot be read.
    pub(crate) async fn start(
        &self,
        access: Access,
        request: v1::ScrubRequest,
    ) -> Result<Replies, Status> {
        if (1..LEAST_RATE).contains(&request.rate) {
            return Err(Status::invalid_argument(
                "a scrub at this rate would keep everybody else from theirs; give a rate of 1 MiB a second or more",
            ));
        }
        let turn = Arc::clone(&self.turn).try_acquire_owned().map_err(|_| {
            Status::resource_exhausted(
                "a scrub is in progress, and this server runs one at a time; try again when it has ended",
            )
        })?;
        let name = (!request.name.is_empty()).then_some(request.name);
        let scrub = blocking(move || {
            let scrub = WholeScrub::of_server(&access, name.as_deref());
            scrub.map_err(|error| of_whole(&error))
        })
        .await?;
        let pace = Pace::new(NonZero::new(request.rate));
        let (sender, replies) = mpsc::channel(WAITING);
        tokio::spawn(end_with_caller(sender, scrub, pace, turn).in_current_span());
        Ok(ReceiverStream::new(replies))
    }
}

fn of_whole(error: &WholeError) -> Status {
    match error {
        WholeError::Store(error) => status::of_store(error),
        WholeError::Genome(error) => status::of_genome(error),
    }
}

type Sender = mpsc::Sender<Result<v1::ScrubReply, Status>>;

async fn end_with_caller(
    sender: Sender,
    scrub: WholeScrub,
    pace: Pace,
    turn: OwnedSemaphorePermit,
) {
    let work = async {
        let end = run(&sender, scrub, pace).await?;
        // Whoever is told of the end may start the next one.
        drop(turn);
        send(&sender, end).await
    };
    tokio::select! {
        () = sender.closed() => {}
        _ = work => {}
    }
}

/// The caller is gone, or takes nothing.
struct Gone;

async fn send(sender: &Sender, reply: Result<Reply, Status>) -> Result<(), Gone> {
    let sent = sender
        .send_timeout(reply.map(Into::into), IDLE_TIMEOUT)
        .await;
    sent.map_err(|_| Gone)
}

/// Checks everything; returns the last reply.
async fn run(
    sender: &Sender,
    mut scrub: WholeScrub,
    mut pace: Pace,
) -> Result<Result<Reply, Status>, Gone> {
    let mut told = None;
    loop {
        let (checked_bytes, total_bytes) = (scrub.scrubbed().bytes, scrub.total_bytes());
        let share = checked_bytes / total_bytes.div_ceil(TELLINGS).max(1);
        if told.replace(share) != Some(share) {
            let progress = v1::ScrubProgress {
                checked_bytes,
                total_bytes,
            };
            send(sender, Ok(Reply::Progress(progress))).await?;
        }
        let next = blocking(move || {
            let part = scrub.next_part();
            part.map(|part| (scrub, part))
                .map_err(|error| of_whole(&error))
        });
        let (read, damage) = match next.await {
            Ok((same, Some(part))) => {
                scrub = same;
                part
            }
            Ok((scrub, None)) => {
                let scrubbed = scrub.scrubbed();
                tracing::info!(
                    parts = scrubbed.parts,
                    bytes = scrubbed.bytes,
                    damaged = scrubbed.damaged,
                    "scrubbed"
                );
                return Ok(Ok(Reply::Done(scrubbed.into())));
            }
            Err(status) => return Ok(Err(status)),
        };
        if let Some(damage) = damage {
            tracing::error!(problem = damage.problem, path = ?damage.path, "storage");
            send(sender, Ok(Reply::Damage(damage.into()))).await?;
        }
        tokio::time::sleep(pace.rest(read)).await;
    }
}
