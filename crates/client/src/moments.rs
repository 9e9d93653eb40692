//! Supports from unverified moments: only for owners who trust the server.
//!
//! A level's candidates go to the server in one request, or several if they exceed its limits. Several threads combine
//! the moments with the secrets as they arrive; moments are not stored. A server that sends false moments can read what
//! it likes from the next requests (`SECURITY.md`), so a counter requires a [`TrustServer`].

use crate::connection::{Client, Connection};
use crate::error::ClientError;
use crate::items::NumberedItems;
use crate::levels::{LevelTrace, Progress, Route};
use crate::verify::reading::{Assembly, Part, ReplyOrder, Verdict};
use crate::workers::{WorkerInput, with_workers};
use oboro_dataset::{Dataset, DatasetError};
use oboro_mining::{Itemset, SupportCounter};
use oboro_protocol::v1::count_reply::Reply;
use oboro_protocol::{column_numbers, max_itemsets, moments_range, v1};
use oboro_ring::Column;
use oboro_ring::moment::Itemsets;
use oboro_rlwe::{Answer, CombineError, Combiner, Partial, Phases, Strata};
use std::num::NonZeroUsize;
use std::sync::mpsc::SyncSender;
use std::time::{Duration, Instant};

const DURING: &str = "counting";
const IMPOSSIBLE: &str = "the server sent moments that no data gives";

/// Memory limit for the phases of one request, in bytes.
const PHASE_BYTES: usize = 512 << 20;

/// Evidence that the owner decided to rely on unverified answers.
#[derive(Debug)]
pub(crate) struct TrustServer(());

impl TrustServer {
    /// Records the owner's decision, then returns the evidence.
    ///
    /// # Errors
    /// A record that cannot be written.
    pub(crate) fn decided(dataset: &Dataset) -> Result<Self, ClientError> {
        dataset.rely_on_server()?;
        Ok(Self(()))
    }

    /// Returns the evidence for a server in this process, which the owner runs; `None` for another.
    pub(crate) fn own(connection: &Connection) -> Option<Self> {
        connection.is_local().then_some(Self(()))
    }
}

/// Counts in an uploaded dataset by unverified moments.
pub(crate) struct MomentCounter<'a> {
    pub(crate) connection: &'a Connection,
    pub(crate) dataset: &'a Dataset,
    /// Name of the dataset on the server.
    pub(crate) name: &'a str,
    pub(crate) threads: NonZeroUsize,
    pub(crate) items: &'a NumberedItems,
    pub(crate) _trust: TrustServer,
    pub(crate) progress: &'a Progress<'a>,
    pub(crate) traces: Vec<LevelTrace>,
}

impl MomentCounter<'_> {
    /// Sends one request.
    fn ask(&self, itemsets: Itemsets) -> Result<(Answer, LevelTrace), ClientError> {
        let begun = Instant::now();
        let level = itemsets.length();
        let asked = itemsets.len();
        let strata = self.strata()?;
        let ranges = strata.ranges().iter().copied().map(Into::into).collect();
        let combiner = Combiner::new(self.dataset.key().clone(), itemsets, strata)?;
        let request = v1::CountRequest {
            name: self.name.to_owned(),
            root: self.dataset.manifest().root().0.to_vec().into(),
            limbs: combiner.limbs() as u32,
            length: level as u32,
            columns: column_numbers(combiner.itemsets().as_flat()),
            ranges,
            scalars: false,
        };
        let expected = combiner.answer_bytes();
        let progress = |bytes| (self.progress)(level, bytes, expected);
        let ((reading, received), workers) = with_workers(
            self.threads,
            |moments| combine(&combiner, moments),
            |sender| {
                let mut received = AnswerReceiver {
                    sender,
                    expected,
                    progress: &progress,
                    order: ReplyOrder::default(),
                    bytes: 0,
                    moments: 0,
                    done: v1::Done::default(),
                };
                let call = async |mut client: Client| client.count(request.clone()).await;
                let mut reading = self.connection.read(DURING, &call, &mut received);
                if reading.ended.is_ok() && !received.order.has_ended() {
                    // Nothing else shows that the answer is complete.
                    reading.ended = Err(ClientError::Broken {
                        during: DURING,
                        cause: "the answer ended early".to_owned(),
                    });
                }
                let AnswerReceiver {
                    bytes,
                    moments,
                    done,
                    ..
                } = received;
                (reading, (bytes, moments, done))
            },
        );
        let (received_bytes, moments, done) = received;
        let mut busy = Duration::ZERO;
        let finishing = Instant::now();
        let answer = reading.conclude(self.dataset, IMPOSSIBLE, || {
            let mut all = combiner.phases();
            for worker in workers {
                let Ok((phases, spent)) = worker else {
                    return Ok(Verdict::False);
                };
                busy += spent;
                if combiner.merge(&mut all, &phases).is_err() {
                    return Ok(Verdict::False);
                }
            }
            Ok(match combiner.finish(&all) {
                Ok(answer) => Verdict::Right(answer),
                Err(CombineError::Incomplete { .. }) => Verdict::Incomplete,
                Err(_) => Verdict::False,
            })
        })?;
        self.connection.check_interrupt()?;
        let trace = LevelTrace {
            level,
            itemsets: asked,
            route: Route::Trusted,
            questions: 1,
            limbs: combiner.limbs(),
            moments,
            known_moments: done.known,
            received_bytes,
            elapsed: begun.elapsed(),
            server: Duration::from_micros(done.microseconds),
            combining: busy.div_f64(self.threads.get() as f64) + finishing.elapsed(),
            log2_largest_phase: Some(answer.log2_largest_phase),
            log2_phase_bound: Some(answer.log2_phase_bound),
        };
        Ok((answer, trace))
    }

    fn strata(&self) -> Result<Strata, ClientError> {
        let strata = self.dataset.record().strata(self.dataset.manifest());
        Ok(strata.map_err(DatasetError::from)?)
    }

    /// Returns the maximum number of itemsets whose phases fit into memory on all threads: one word per range of
    /// blocks.
    fn itemsets_in_memory(&self) -> Result<usize, ClientError> {
        let ranges = self.strata()?.ranges().len();
        // One accumulator per thread, and one for their sum.
        let shares = self.threads.get() + 1;
        Ok((PHASE_BYTES / (size_of::<u64>() * ranges * shares)).max(1))
    }
}

/// Candidate in a request.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct RequestedItemset {
    /// Ascending.
    columns: Vec<Column>,
    /// Index of the candidate.
    candidate: usize,
}

/// Returns the candidates of a level as columns, sorted by column and not by name: the server must not learn how names
/// sort. Neighbours share moments.
fn requested_itemsets(candidates: &[Itemset], items: &NumberedItems) -> Vec<RequestedItemset> {
    let requested = |(candidate, itemset)| RequestedItemset {
        columns: items.columns_of(itemset),
        candidate,
    };
    let mut requested_itemsets: Vec<_> = candidates.iter().enumerate().map(requested).collect();
    requested_itemsets.sort_unstable();
    requested_itemsets
}

/// Returns the maximum number of column numbers that fit into one message to the server.
fn columns_per_question(limits: &v1::Limits) -> usize {
    /// Maximum number of bytes of a column number; below, of the rest of a message.
    const COLUMN_BYTES: u64 = 5;
    const OTHER_BYTES: u64 = 1024;
    let columns = limits.message_bytes.saturating_sub(OTHER_BYTES) / COLUMN_BYTES;
    usize::try_from(columns).unwrap_or(usize::MAX).max(1)
}

/// Returns the maximum number of itemsets of one request: by the limits of protocol, operator and message size.
fn itemsets_per_question(limits: &v1::Limits, level: usize) -> usize {
    let allowed = usize::try_from(limits.itemsets).unwrap_or(usize::MAX);
    let most = allowed.min(columns_per_question(limits) / level).max(1);
    max_itemsets(level).min(most)
}

/// Receives the answer to one request and passes it to the threads that combine it.
struct AnswerReceiver<'a> {
    sender: SyncSender<v1::Moments>,
    /// Bytes of the whole answer.
    expected: u64,
    progress: &'a dyn Fn(u64),
    order: ReplyOrder,
    bytes: u64,
    moments: u64,
    done: v1::Done,
}

impl Assembly for AnswerReceiver<'_> {
    type Message = v1::CountReply;

    fn begin(&mut self) {}

    fn take(&mut self, message: v1::CountReply) -> Part {
        let Some(reply) = message.reply else {
            return Part::Idle;
        };
        if !self.order.takes(&reply) {
            return Part::False;
        }
        match reply {
            Reply::Moments(part) => {
                self.bytes += part.residues.len() as u64;
                self.moments = self.moments.saturating_add(part.moments);
                (self.progress)(self.bytes);
                // Sending fails once all threads have found something impossible.
                if self.bytes > self.expected || self.sender.send(part).is_err() {
                    return Part::Excess;
                }
            }
            Reply::Done(done) if done.moments != self.moments => return Part::False,
            Reply::Done(done) => self.done = done,
            Reply::Accepted(_) => {}
        }
        Part::New
    }
}

/// Combines messages on one thread until the channel closes; returns the time spent, without waiting.
fn combine(
    combiner: &Combiner,
    messages: &WorkerInput<v1::Moments>,
) -> Result<(Phases, Duration), ClientError> {
    let mut phases = combiner.phases();
    let mut busy = Duration::ZERO;
    while let Some(message) = messages.next() {
        let begun = Instant::now();
        let partial = Partial {
            range: message.range,
            moments: moments_range(&message)?,
            residues: &message.residues,
        };
        combiner.absorb(&mut phases, &partial)?;
        busy += begun.elapsed();
    }
    Ok((phases, busy))
}

impl SupportCounter for MomentCounter<'_> {
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
        self.connection.check_interrupt()
    }

    fn count(&mut self, level: usize, candidates: &[Itemset]) -> Result<Vec<u64>, ClientError> {
        let most = itemsets_per_question(&self.connection.limits()?, level);
        let most = most.min(self.itemsets_in_memory()?);
        let mut supports = vec![0; candidates.len()];
        for request in requested_itemsets(candidates, self.items).chunks(most) {
            let flat = request.iter().flat_map(|requested| &requested.columns);
            let columns = self.dataset.manifest().columns;
            let itemsets = Itemsets::new(level, flat.copied().collect(), columns)?;
            let asked = || self.ask(itemsets.clone());
            let (answer, trace) = self.connection.when_free(asked)?;
            for (requested, support) in request.iter().zip(answer.supports) {
                supports[requested.candidate] = support;
            }
            match self.traces.last_mut() {
                Some(same) if same.level == level => same.add(&trace),
                _ => self.traces.push(trace),
            }
        }
        Ok(supports)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use oboro_ring::Blocks;
    use prost::Message;

    #[test]
    fn questions_fit_what_the_server_takes() {
        let limits = |itemsets, message_bytes| v1::Limits {
            itemsets,
            message_bytes,
            ..Default::default()
        };
        assert_eq!(itemsets_per_question(&limits(7, 1 << 20), 3), 7);
        let all = limits(u64::MAX, u64::MAX);
        assert_eq!(itemsets_per_question(&all, 3), max_itemsets(3));
        assert_eq!(itemsets_per_question(&limits(0, 0), 3), 1);
        let most = itemsets_per_question(&limits(u64::MAX, 1 << 20), 3);
        let request = v1::CountRequest {
            name: "n".repeat(100),
            root: vec![1; 32].into(),
            limbs: u32::MAX,
            length: u32::MAX,
            columns: vec![u32::MAX; 3 * most],
            ranges: vec![Blocks::from(0..u64::MAX).into(); 3],
            scalars: false,
        };
        assert!(most > 10_000 && request.encoded_len() <= 1 << 20);
    }
}
