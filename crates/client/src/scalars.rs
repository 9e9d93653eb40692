//! Supports of pairs by sums that the server computes on ciphertext, verified before anything is done with them.
//!
//! What is asked for follows from the owner's record. All requests are sent and read to the end before anything of
//! them is used.

use crate::connection::Connection;
use crate::error::ClientError;
use crate::fetch::again;
use crate::items::Numbered;
use crate::levels::{LevelTrace, Route};
use crate::mine::Progress;
use crate::verify::Verified;
use crate::verify::pairs::{Arriving, PairSupports, Prefix};
use oboro_mining::{Dataset, Itemset, SupportCounter};
use oboro_protocol::v1::{self, count_reply::Reply};
use std::time::{Duration, Instant};
use tokio_util::sync::CancellationToken;

const DURING: &str = "counting pairs";
/// The most pairs of one request: their numbers fit any server's messages.
const MOST_PAIRS: usize = 1 << 16;

/// Where sums of pairs come from.
pub(crate) struct Source<'a> {
    pub(crate) dataset: &'a Dataset,
    /// The name of the dataset at the server.
    pub(crate) name: &'a str,
    pub(crate) connection: &'a Connection,
    pub(crate) progress: &'a Progress<'a>,
}

impl Source<'_> {
    /// The supports of all pairs of a prefix, and what having them took.
    ///
    /// # Errors
    /// As every call; [`ClientError::FalseAnswer`] for other sums than those of the ciphertext that was encrypted,
    /// which is then in the owner's record.
    pub(crate) fn supports(
        &self,
        prefix: &Prefix,
    ) -> Result<(Verified<PairSupports>, LevelTrace), ClientError> {
        let begun = Instant::now();
        let mut arriving = prefix.arriving();
        let mut took = Took::default();
        let requests = prefix.requests(self.dataset, self.name, MOST_PAIRS);
        for (number, request) in requests.iter().enumerate() {
            let first = number * MOST_PAIRS;
            let pairs = first..first + request.columns.len() / 2;
            let asked = again(self.connection, || {
                arriving.forget(pairs.clone());
                self.ask(request, prefix, first, &took, &mut arriving)
            })?;
            took.add(&asked);
        }
        let combining = Instant::now();
        let supports = arriving.verify(self.dataset)?;
        let trace = LevelTrace {
            itemsets: prefix.pairs(),
            route: Route::Scalars,
            questions: requests.len(),
            limbs: prefix.limbs(),
            moments: took.moments,
            known_moments: took.known,
            received_bytes: took.bytes,
            server: took.server,
            combining: combining.elapsed(),
            ..LevelTrace::of(2, Route::Scalars, begun.elapsed())
        };
        Ok((supports, trace))
    }

    /// Sends one request and reads its answer to the end, or as far as there can be one.
    fn ask(
        &self,
        request: &v1::CountRequest,
        prefix: &Prefix,
        first: usize,
        before: &Took,
        arriving: &mut Arriving<'_>,
    ) -> Result<Took, ClientError> {
        let most = prefix.bytes_of(request.columns.len() / 2);
        self.connection.wait(async {
            let broken = |status| ClientError::from_status(&status, DURING);
            let asked = self.connection.client().count(request.clone()).await;
            let mut stream = self.connection.answer(asked, DURING)?;
            let mut took = Took::default();
            while let Some(reply) = stream.message().await.map_err(broken)? {
                match reply.reply {
                    Some(Reply::Moments(moments)) => {
                        took.bytes += moments.residues.len() as u64;
                        took.moments = took.moments.saturating_add(moments.moments);
                        (self.progress)(2, before.bytes + took.bytes, prefix.bytes());
                        if took.bytes > most {
                            arriving.has_more();
                            break;
                        }
                        arriving.take(first, &moments);
                    }
                    Some(Reply::Done(done)) => {
                        took.known = done.known;
                        took.server = Duration::from_micros(done.microseconds);
                    }
                    Some(Reply::Accepted(_)) | None => {}
                }
            }
            Ok(took)
        })
    }
}

/// What answers took.
#[derive(Debug, Clone, Copy, Default)]
struct Took {
    bytes: u64,
    moments: u64,
    known: u64,
    server: Duration,
}

impl Took {
    fn add(&mut self, other: &Self) {
        self.bytes += other.bytes;
        self.moments = self.moments.saturating_add(other.moments);
        self.known = self.known.saturating_add(other.known);
        self.server += other.server;
    }
}

/// Pairs whose supports are here.
pub(crate) struct PairCounter<'a> {
    pub(crate) dataset: &'a Dataset,
    pub(crate) items: &'a Numbered,
    pub(crate) supports: PairSupports,
    pub(crate) interrupt: &'a CancellationToken,
}

impl SupportCounter for PairCounter<'_> {
    type Error = ClientError;

    fn transactions(&self) -> u64 {
        self.dataset.record().transactions
    }

    fn item_supports(&self) -> &[u64] {
        &self.items.supports
    }

    fn min_item_support(&self) -> u64 {
        self.dataset.record().min_item_support
    }

    fn go_on(&self) -> Result<(), ClientError> {
        match self.interrupt.is_cancelled() {
            true => Err(ClientError::Interrupted),
            false => Ok(()),
        }
    }

    fn count(&mut self, _level: usize, candidates: &[Itemset]) -> Result<Vec<u64>, ClientError> {
        let support = |itemset: &Itemset| {
            let pair = self.items.columns_of(itemset).try_into().ok();
            pair.and_then(|pair: [u32; 2]| self.supports.get(&pair).copied())
        };
        let supports: Option<Vec<u64>> = candidates.iter().map(support).collect();
        Ok(supports.expect("all pairs of frequent items were asked for"))
    }
}
