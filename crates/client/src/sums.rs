//! Supports of all itemsets of a prefix, or of one column with each other, computed by the server on ciphertext and
//! verified before use.
//!
//! Requests depend on the owner's record and on verified supports only. All requests of a level are sent, and all
//! answers read to the end, before any of them is used.

use crate::connection::Client;
use crate::error::ClientError;
use crate::gate::Gate;
use crate::items::NumberedItems;
use crate::levels::{LevelTrace, Progress, Route};
use crate::verify::Verified;
use crate::verify::arriving::{AnswerAssembler, ReceivedSums, RequestedSums, SumsQuery};
use crate::verify::cells::column_bytes;
use crate::verify::prefixes::{Prefix, Supports};
use crate::verify::reading::ReadOutcome;
use crate::verify::rows::Row;
use oboro_dataset::Dataset;
use oboro_mining::{Itemset, SupportCounter};
use oboro_ring::Column;
use oboro_rlwe::LONGEST_VERIFIED;
use std::num::NonZeroUsize;
use std::time::Instant;
use tokio_util::sync::CancellationToken;

const DURING: &str = "counting";
/// Failure recorded for a false answer about sums or moments.
pub(crate) const OTHER_NUMBERS: &str =
    "the server sent other numbers than those of the ciphertext that was encrypted";
/// Maximum number of bytes requested at a level.
pub(crate) const MOST_BYTES: u64 = 200_000_000;

/// Returns the length of the longest itemsets of a dataset that can be verified this way; 1 if none can.
pub(crate) fn longest(dataset: &Dataset) -> usize {
    let strata = dataset.record().strata(dataset.manifest());
    let bounds = strata.as_ref().ok().map(|it| it.bounds());
    let has = |&length: &usize| bounds.is_some_and(|it| it.limbs(length).is_some());
    (2..=LONGEST_VERIFIED).rev().find(has).unwrap_or(1)
}

/// Returns the number of columns all of whose pairs have fixed parts.
pub(crate) fn pair_columns(dataset: &Dataset) -> usize {
    let order = dataset.record().column_order();
    order.map_or(0, |it| it.paired().len())
}

/// Rejects a request above [`MOST_BYTES`].
pub(crate) fn check_size(
    dataset: &Dataset,
    columns: usize,
    prefix: &Prefix<'_>,
) -> Result<(), ClientError> {
    if prefix.bytes() > MOST_BYTES || !prefix.fits_requests() {
        Err(ClientError::LargeSums {
            most: MOST_BYTES,
            length: prefix.level(),
            bytes: prefix.bytes(),
            cells: columns as u64 * column_bytes(dataset.manifest()),
        })
    } else {
        Ok(())
    }
}

/// Source of sums and moments: a dataset at a server.
#[derive(Clone, Copy)]
pub(crate) struct SumSource<'a> {
    pub(crate) dataset: &'a Dataset,
    /// Name of the dataset on the server.
    pub(crate) name: &'a str,
    /// Opens a connection for the requests of a level; it is closed before their answers are evaluated.
    pub(crate) gate: &'a Gate<'a>,
    pub(crate) threads: NonZeroUsize,
    pub(crate) progress: &'a Progress<'a>,
    pub(crate) interrupt: &'a CancellationToken,
}

impl<'a> SumSource<'a> {
    /// Fails if interrupted.
    fn go_on(&self) -> Result<(), ClientError> {
        if self.interrupt.is_cancelled() {
            Err(ClientError::Interrupted)
        } else {
            Ok(())
        }
    }

    /// Returns the smallest prefix for itemsets of length `level` that contains these columns.
    ///
    /// # Errors
    /// Itemsets that cannot be verified this way, or need too many bytes.
    fn prefix(&self, columns: &[Column], level: usize) -> Result<Prefix<'a>, ClientError> {
        let longest = longest(self.dataset);
        if level > longest {
            return Err(ClientError::LongMoments {
                longest,
                wanted: level,
            });
        }
        let prefix = Prefix::of(self.dataset, columns, level);
        let prefix = prefix.ok_or_else(|| ClientError::NotInPrefix(pair_columns(self.dataset)))?;
        check_size(self.dataset, columns.len(), &prefix)?;
        Ok(prefix)
    }

    /// Returns the supports of all itemsets of length `level` in the smallest prefix that contains these columns, and
    /// the cost.
    ///
    /// # Errors
    /// Itemsets that cannot be verified this way; as every call; [`ClientError::FalseAnswer`], which the owner's record
    /// notes, if an answer does not follow from the owner's ciphertext.
    pub(crate) fn supports(
        &self,
        columns: &[Column],
        level: usize,
    ) -> Result<(Verified<Supports>, LevelTrace), ClientError> {
        let begun = Instant::now();
        let prefix = self.prefix(columns, level)?;
        let asked = prefix.asked()?;
        let (answer, received, reading) = self.answer(level, asked.query())?;
        let combining = Instant::now();
        let supports = reading.conclude(self.dataset, OTHER_NUMBERS, || {
            asked.judge(&answer, self.threads)
        })?;
        self.go_on()?;
        let route = match level {
            2 => Route::Scalars,
            _ => Route::Prefix,
        };
        let trace = LevelTrace {
            itemsets: prefix.itemsets(),
            limbs: prefix.limbs(),
            combining: combining.elapsed(),
            ..received.trace(LevelTrace::of(level, route, begun.elapsed()))
        };
        Ok((supports, trace))
    }

    /// Returns the supports of the pairs of a column with each other one, ascending, and the cost.
    ///
    /// # Errors
    /// As [`supports`](Self::supports).
    pub(crate) fn row(
        &self,
        row: &Row<'_>,
    ) -> Result<(Verified<Vec<u64>>, LevelTrace), ClientError> {
        let begun = Instant::now();
        let query = row.query();
        let (answer, received, reading) = self.answer(2, query)?;
        let combining = Instant::now();
        let supports = reading.conclude(self.dataset, OTHER_NUMBERS, || row.judge(&answer))?;
        self.go_on()?;
        let trace = LevelTrace {
            itemsets: row.others().len(),
            limbs: row.limbs(),
            combining: combining.elapsed(),
            ..received.trace(LevelTrace::of(2, Route::Scalars, begun.elapsed()))
        };
        Ok((supports, trace))
    }

    /// Connects, sends all requests of a query, and reads their answers up to the first that ends badly. Then closes
    /// the connection.
    fn answer<'q>(
        &self,
        level: usize,
        query: &'q SumsQuery,
    ) -> Result<(AnswerAssembler<'q>, ReceivedSums, ReadOutcome), ClientError> {
        let connection = self.gate.open()?;
        let mut received = ReceivedSums::default();
        let mut reading = ReadOutcome::nothing();
        let mut answer = query.arriving();
        for (moments, request) in query.requests(self.name) {
            let before = received.bytes;
            let progress = |here| (self.progress)(level, before + here, query.bytes());
            let mut requested = RequestedSums::new(&mut answer, moments, &progress);
            let call = async |mut client: Client| client.count(request.clone()).await;
            let next = connection.read_again(DURING, &call, &mut requested);
            received.add(&requested.received());
            if !reading.then(next) {
                break;
            }
        }
        Ok((answer, received, reading))
    }
}

impl ReceivedSums {
    fn add(&mut self, other: &Self) {
        self.requests += other.requests;
        self.bytes += other.bytes;
        self.moments = self.moments.saturating_add(other.moments);
        self.known = self.known.saturating_add(other.known);
        self.server += other.server;
    }

    /// Copies the totals into a trace.
    fn trace(&self, trace: LevelTrace) -> LevelTrace {
        LevelTrace {
            questions: self.requests,
            moments: self.moments,
            known_moments: self.known,
            received_bytes: self.bytes,
            server: self.server,
            ..trace
        }
    }
}

/// Counts in an uploaded dataset by whole prefixes.
pub(crate) struct PrefixCounter<'a> {
    pub(crate) source: SumSource<'a>,
    pub(crate) items: &'a NumberedItems,
    /// Supports of each level requested so far.
    pub(crate) supports: Verified<Vec<Supports>>,
    pub(crate) traces: Vec<LevelTrace>,
}

impl<'a> PrefixCounter<'a> {
    /// Creates a counter that has not requested anything.
    pub(crate) fn new(source: SumSource<'a>, items: &'a NumberedItems) -> Self {
        Self {
            source,
            items,
            supports: Verified::none(),
            traces: Vec::new(),
        }
    }
}

impl SupportCounter for PrefixCounter<'_> {
    type Error = ClientError;

    fn transactions(&self) -> u64 {
        self.source.dataset.record().transactions
    }

    fn item_supports(&self) -> &[u64] {
        &self.items.supports
    }

    fn min_item_support(&self) -> u64 {
        self.source.dataset.record().min_item_support
    }

    fn go_on(&self) -> Result<(), ClientError> {
        self.source.go_on()
    }

    fn count(&mut self, level: usize, candidates: &[Itemset]) -> Result<Vec<u64>, ClientError> {
        let itemsets: Vec<Vec<Column>> = candidates
            .iter()
            .map(|it| self.items.columns_of(it))
            .collect();
        let mut columns = itemsets.concat();
        columns.sort_unstable();
        columns.dedup();
        let (supports, trace) = self.source.supports(&columns, level)?;
        self.traces.push(trace);
        self.supports.push(supports);
        let here = self.supports.get().last();
        let support = |itemset: &Vec<Column>| here.and_then(|it| it.of(itemset));
        let found: Option<Vec<u64>> = itemsets.iter().map(support).collect();
        Ok(found.expect("all itemsets of a prefix that has their columns are here"))
    }
}
