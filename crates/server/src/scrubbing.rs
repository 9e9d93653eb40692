//! A scrub of all that is stored for a caller, in the background.
//!
//! One part at a time is read and checked on a blocking thread, so it takes neither a permit of the
//! query limit nor a compute thread. It throttles itself to the caller's rate, which scrubs that run at once share, waits for
//! a caller that is slow, and ends when that one is gone.

use crate::blocking::blocking;
use crate::clients::Client;
use crate::shares::{Rule, Share, Shares};
use crate::status;
use crate::whole::{WholeError, WholeScrub};
use oboro_format::Scrubbed;
use oboro_protocol::v1::{self, scrub_reply::Reply};
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

/// The most replies that wait for the caller.
const WAITING: usize = 16;
/// Scrubs at a time, one of each client.
const PLACES: Rule = Rule::Places {
    all: 4,
    per_client: 1,
};
/// The least bytes per second: with less, a few callers' scrubs would keep all others from theirs.
const LEAST_RATE: u64 = 1 << 20;
/// The number of progress reports, approximately.
const TELLINGS: u64 = 256;

/// The events of a scrub, in order.
pub(crate) type Replies = ReceiverStream<Result<v1::ScrubReply, Status>>;

/// Lets a few callers at a time scrub.
pub(crate) struct Scrubbing {
    places: Arc<Shares>,
    scrubs: Arc<Scrubs>,
}

/// What scrubs have found since the server started.
#[derive(Debug, Default)]
pub(crate) struct Scrubs(Mutex<Found>);

#[derive(Debug, Default)]
struct Found {
    damaged: u64,
    last: BTreeMap<Arc<str>, LastScrub>,
}

/// The last scrub of a namespace that came to its end.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LastScrub {
    pub(crate) ended: OffsetDateTime,
    pub(crate) bytes: u64,
    /// Parts that are damaged.
    pub(crate) damaged: u64,
}

impl Scrubs {
    /// Damage that was found, as often as it was.
    pub(crate) fn damaged(&self) -> u64 {
        self.0.lock().damaged
    }

    /// The last scrub of each namespace.
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
    /// Has `scrubs` know what is found.
    pub(crate) fn new(scrubs: &Arc<Scrubs>) -> Self {
        Self {
            places: Shares::new(PLACES),
            scrubs: Arc::clone(scrubs),
        }
    }

    /// Starts a scrub of one dataset, or of all that the caller has; returns the stream of what is found.
    ///
    /// # Errors
    ///
    /// A rate that is too low, too many scrubs in progress, no such dataset, a catalogue that cannot be read.
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
        let place = self.places.try_take(client, 1).ok_or_else(|| {
            Status::resource_exhausted(if self.places.held(client) > 0 {
                "a scrub is in progress, and this server runs one at a time for each client; try again when it has ended".to_owned()
            } else {
                format!(
                    "{} scrubs are in progress, which is the most that this server runs at a time; try again when one has ended",
                    self.places.taken()
                )
            })
        })?;
        let name = (!request.name.is_empty()).then_some(request.name);
        // That of one dataset tells nothing of the others.
        let namespace = name.is_none().then(|| Arc::clone(access.namespace()));
        let found = (Arc::clone(&self.scrubs), namespace);
        // The place is held until that has ended, even if the caller goes.
        let (scrub, place) = blocking(move || {
            let scrub = WholeScrub::of_server(&access, name.as_deref());
            Ok((scrub.map_err(|error| of_whole(&error))?, place))
        })
        .await?;
        let pace = Shared {
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

/// The pace of a scrub that shares the disk with others.
struct Shared {
    pace: Pace,
    place: Share,
}

impl Shared {
    /// How long to sleep after a part of `bytes`: as if all scrubs that run had read as much.
    fn rest(&mut self, bytes: u64) -> Duration {
        self.pace.rest(bytes.saturating_mul(self.place.of_all()))
    }
}

type Sender = mpsc::Sender<Result<v1::ScrubReply, Status>>;

async fn end_with_caller(
    sender: Sender,
    scrub: WholeScrub,
    mut pace: Shared,
    found: (Arc<Scrubs>, Option<Arc<str>>),
) {
    let work = async {
        let end = run(&sender, scrub, &mut pace, &found).await?;
        // Whoever is told of the end may start the next one.
        drop(pace);
        send(&sender, end).await
    };
    tokio::select! {
        () = sender.closed() => {}
        _ = work => {}
    }
}

/// The caller is gone.
struct Gone;

async fn send(sender: &Sender, reply: Result<Reply, Status>) -> Result<(), Gone> {
    let sent = sender.send(reply.map(Into::into)).await;
    sent.map_err(|_| Gone)
}

/// Checks everything; returns the last reply.
async fn run(
    sender: &Sender,
    mut scrub: WholeScrub,
    pace: &mut Shared,
    (scrubs, namespace): &(Arc<Scrubs>, Option<Arc<str>>),
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
