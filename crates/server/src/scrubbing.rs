//! Background scrub of all data stored for a caller.
//!
//! One part at a time is read and checked on a blocking thread: a scrub takes neither a query slot nor a compute
//! thread. It throttles itself to the caller's rate, which concurrent scrubs share. Replies apply backpressure, and the
//! scrub ends when its caller disconnects.

use crate::blocking::blocking;
use crate::status;
use crate::whole::{WholeError, WholeScrub};
use oboro_edge::Client;
use oboro_format::Scrubbed;
use oboro_protocol::v1::{self, scrub_reply::Reply};
use oboro_residency::{FairSemaphore, Permit, ShareLimit};
use oboro_store::{Access, Pace};
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::num::NonZero;
use std::sync::Arc;
use std::time::Duration;
use time::OffsetDateTime;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::Status;
use tracing::Instrument;

/// Maximum number of queued replies.
const WAITING: usize = 16;
/// Concurrent scrubs, one per client.
const PLACES: ShareLimit = ShareLimit::Fixed {
    all: 4,
    per_client: 1,
    reserved: 0,
};
/// Minimum rate in bytes per second: slower scrubs of a few callers would hold all slots for too long.
const LEAST_RATE: u64 = 1 << 20;
/// Approximate number of progress reports.
const TELLINGS: u64 = 256;

/// Events of a scrub, in order.
pub(crate) type Replies = ReceiverStream<Result<v1::ScrubReply, Status>>;

/// Runs a limited number of scrubs.
pub(crate) struct Scrubbing {
    places: Arc<FairSemaphore<Client>>,
    scrubs: Arc<Scrubs>,
}

/// Results of scrubs since the server started.
#[derive(Debug, Default)]
pub(crate) struct Scrubs(Mutex<Found>);

#[derive(Debug, Default)]
struct Found {
    damaged: u64,
    last: BTreeMap<Arc<str>, LastScrub>,
}

/// Last completed scrub of a namespace.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LastScrub {
    pub(crate) ended: OffsetDateTime,
    pub(crate) bytes: u64,
    /// Number of damaged parts.
    pub(crate) damaged: u64,
}

impl Scrubs {
    /// Returns the number of times that damage was found.
    pub(crate) fn damaged(&self) -> u64 {
        self.0.lock().damaged
    }

    /// Returns the last scrub of each namespace.
    pub(crate) fn last(&self) -> BTreeMap<Arc<str>, LastScrub> {
        self.0.lock().last.clone()
    }

    fn ended(&self, namespace: &Arc<str>, scrubbed: &Scrubbed) {
        let last = LastScrub {
            ended: OffsetDateTime::now_utc(),
            bytes: scrubbed.bytes,
            damaged: scrubbed.damaged,
        };
        self.0.lock().last.insert(Arc::clone(namespace), last);
    }
}

impl Scrubbing {
    /// Creates the service, which records results in `scrubs`.
    pub(crate) fn new(scrubs: &Arc<Scrubs>) -> Self {
        Self {
            places: FairSemaphore::new(PLACES),
            scrubs: Arc::clone(scrubs),
        }
    }

    /// Starts a scrub of one dataset, or of all the caller's data; returns the stream of its events.
    ///
    /// # Errors
    ///
    /// A rate that is too low, too many scrubs in progress, a missing dataset, an unreadable catalogue.
    pub(crate) async fn start(
        &self,
        client: &Client,
        access: Access,
        request: v1::ScrubRequest,
    ) -> Result<Replies, Status> {
        if (1..LEAST_RATE).contains(&request.rate) {
            return Err(Status::invalid_argument(
                "a scrub at this rate would keep everybody else from theirs; give a rate of 1 MiB a second or more",
            ));
        }
        let place = self.places.try_acquire(client, 1).ok_or_else(|| {
            Status::resource_exhausted(if self.places.held(client) > 0 {
                "a scrub is in progress, and this server runs one at a time for each client; try again when it has ended".to_owned()
            } else {
                format!(
                    "{} scrubs are in progress, which is the most that this server runs at a time; try again when one has ended",
                    self.places.used()
                )
            })
        })?;
        let name = (!request.name.is_empty()).then_some(request.name);
        // A scrub of one dataset says nothing of the others.
        let namespace = name.is_none().then(|| Arc::clone(access.namespace()));
        let found = (Arc::clone(&self.scrubs), namespace);
        // The slot is held until this ends, even if the caller disconnects.
        let (scrub, place) = blocking(move || {
            let scrub = WholeScrub::of_server(&access, name.as_deref());
            Ok((scrub.map_err(|error| of_whole(&error))?, place))
        })
        .await?;
        let pace = SharedPace {
            pace: Pace::new(NonZero::new(request.rate)),
            place,
        };
        let (sender, replies) = mpsc::channel(WAITING);
        tokio::spawn(end_with_caller(sender, scrub, pace, found).in_current_span());
        Ok(ReceiverStream::new(replies))
    }
}

fn of_whole(error: &WholeError) -> Status {
    match error {
        WholeError::Store(error) => status::of_store(error),
        WholeError::Genome(error) => status::of_genome(error),
    }
}

/// Pace of a scrub that shares the disk with others.
struct SharedPace {
    pace: Pace,
    place: Permit<Client>,
}

impl SharedPace {
    /// Returns the pause after a part of `bytes`: as if every running scrub had read as much.
    fn rest(&mut self, bytes: u64) -> Duration {
        self.pace
            .rest(bytes.saturating_mul(self.place.semaphore().used()))
    }
}

type Sender = mpsc::Sender<Result<v1::ScrubReply, Status>>;

async fn end_with_caller(
    sender: Sender,
    scrub: WholeScrub,
    mut pace: SharedPace,
    found: (Arc<Scrubs>, Option<Arc<str>>),
) {
    let work = async {
        let end = run(&sender, scrub, &mut pace, &found).await?;
        // Release the slot before the end is sent: the caller may start the next scrub immediately.
        drop(pace);
        send(&sender, end).await
    };
    tokio::select! {
        () = sender.closed() => {}
        _ = work => {}
    }
}

/// Error of a caller that has disconnected.
struct Disconnected;

async fn send(sender: &Sender, reply: Result<Reply, Status>) -> Result<(), Disconnected> {
    let sent = sender.send(reply.map(Into::into)).await;
    sent.map_err(|_| Disconnected)
}

/// Checks everything; returns the last reply.
async fn run(
    sender: &Sender,
    mut scrub: WholeScrub,
    pace: &mut SharedPace,
    (scrubs, namespace): &(Arc<Scrubs>, Option<Arc<str>>),
) -> Result<Result<Reply, Status>, Disconnected> {
    let mut last = None;
    loop {
        let (checked_bytes, total_bytes) = (scrub.scrubbed().bytes, scrub.total_bytes());
        let share = checked_bytes / total_bytes.div_ceil(TELLINGS).max(1);
        if last.replace(share) != Some(share) {
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
                if let Some(namespace) = namespace {
                    scrubs.ended(namespace, &scrubbed);
                }
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
            scrubs.0.lock().damaged += 1;
            tracing::error!(problem = damage.problem, path = ?damage.path, "storage");
            send(sender, Ok(Reply::Damage(damage.into()))).await?;
        }
        tokio::time::sleep(pace.rest(read)).await;
    }
}
