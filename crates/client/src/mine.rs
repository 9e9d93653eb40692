//! Mining of an uploaded dataset, by one of three sources: verified sums and moments that the server computes on
//! ciphertext; sealed cells, fetched and counted locally; or unverified moments, if the owner trusts the server.

use crate::cache::Cache;
use crate::connection::Connection;
use crate::counting::CellCounter;
use crate::error::ClientError;
use crate::fetch::{CellSource, FetchCost};
use crate::gate::{Gate, VersionCheck, check_decided};
use crate::items::NumberedItems;
use crate::levels::{LevelTrace, Progress};
use crate::moments::{MomentCounter, TrustServer};
use crate::sums::{self, MOST_BYTES, PrefixCounter, check_size, longest, pair_columns};
use crate::verify::Verified;
use crate::verify::cells::{Cells, column_bytes};
use crate::verify::prefixes::Prefix;
use crate::verify::rows::Row;
use oboro_dataset::Dataset;
use oboro_input::number_of;
use oboro_input::transactions::compare_names;
use oboro_mining::{
    AprioriError, AprioriOptions, FrequentItemsets, Itemset, LevelReport, SupportCounter, apriori,
};
use oboro_ring::Column;
use std::num::NonZeroUsize;
use std::time::{Duration, Instant};
use tokio_util::sync::CancellationToken;

/// Supports of one item together with each other item, sorted by the other's number.
pub type PairSupports = Vec<(u32, u64)>;

/// Pairs of one item with each other item, and their cost.
#[derive(Debug)]
pub struct Pairs {
    /// Supports, by the other item.
    pub together: Verified<PairSupports>,
    /// Cost of the pairs.
    pub trace: LevelTrace,
    /// `true` if no server was contacted, not even to compare versions.
    pub offline: bool,
}

/// Default limit of the cell cache, in bytes.
pub const KEPT_BYTES: u64 = 1 << 30;

/// Source of verified answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Answers {
    /// Source that needs fewer bytes.
    #[default]
    Auto,
    /// Sums of pairs and moments of longer itemsets, computed by the server on ciphertext.
    Moments,
    /// Sealed cells.
    Cells,
}

/// Frequent itemsets from unverified answers. A lying server could falsify them, and learn from the requests.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unverified(FrequentItemsets);

/// Frequent itemsets, by their level of trust.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MiningResult {
    /// Itemsets from verified answers.
    Verified(Verified<FrequentItemsets>),
    /// Itemsets from answers of a trusted server.
    Unverified(Unverified),
    /// Itemsets from a server in this process, which the owner runs.
    Local(FrequentItemsets),
}

impl MiningResult {
    /// Returns the itemsets.
    pub fn itemsets(&self) -> &FrequentItemsets {
        match self {
            Self::Verified(found) => found.get(),
            Self::Unverified(Unverified(found)) | Self::Local(found) => found,
        }
    }

    /// Returns the trust level as a word for output.
    pub fn standing(&self) -> &'static str {
        match self {
            Self::Verified(_) => "verified",
            Self::Unverified(_) => "unverified",
            Self::Local(_) => "local",
        }
    }
}

/// Result of mining and its cost.
#[derive(Debug)]
pub struct MiningReport {
    /// Frequent itemsets.
    pub found: MiningResult,
    /// Names of the items, in the order of their numbers.
    pub names: Vec<String>,
    /// Report of each level.
    pub reports: Vec<LevelReport>,
    /// Cost of each counted level.
    pub traces: Vec<LevelTrace>,
    /// Number of columns needed, and the cost of fetching them.
    pub fetched: FetchCost,
}

/// Callback that opens a connection.
type Connect<'a> = dyn Fn() -> Result<Connection, ClientError> + 'a;

/// Mining run on an uploaded dataset.
pub struct Mining<'a> {
    dataset: &'a Dataset,
    name: String,
    threads: NonZeroUsize,
    items: NumberedItems,
    answers: Answers,
    trust_server: bool,
    local: bool,
    check: VersionCheck,
    announce: Box<dyn Fn() + Sync + 'a>,
    cache: Cache,
    progress: Box<Progress<'a>>,
    interrupt: CancellationToken,
}

impl<'a> Mining<'a> {
    /// Creates a run on the dataset uploaded under `name`, with `threads` threads. Items are numbered in the order of
    /// their names.
    pub fn new(dataset: &'a Dataset, name: &str, threads: NonZeroUsize) -> Self {
        let names = &dataset.record().names;
        let mut columns: Vec<Column> = Column::first(names.len() as u32).collect();
        columns.sort_by(|&a, &b| compare_names(&names[a], &names[b]));
        Self {
            dataset,
            name: name.to_owned(),
            threads,
            items: NumberedItems::new(dataset, columns),
            answers: Answers::Auto,
            trust_server: false,
            local: false,
            check: VersionCheck::Compare,
            announce: Box::new(|| {}),
            cache: Cache::new(dataset.bundle().directory(), 0),
            progress: Box::new(|_, _, _| {}),
            interrupt: CancellationToken::new(),
        }
    }

    /// Numbers items in the owner's order instead.
    #[must_use]
    pub fn in_owners_order(self) -> Self {
        let columns = self.dataset.record().order.clone();
        Self {
            items: NumberedItems::new(self.dataset, columns),
            ..self
        }
    }

    /// Sets the source of verified answers.
    #[must_use]
    pub fn by(self, answers: Answers) -> Self {
        Self { answers, ..self }
    }

    /// Uses unverified moments instead, trusting the server. The results say so, as does the owner's record from then
    /// on.
    #[must_use]
    pub fn trusting_server(self, trust_server: bool) -> Self {
        Self {
            trust_server,
            ..self
        }
    }

    /// Marks the server as running in this process on the owner's behalf; the results say so.
    #[must_use]
    pub fn on_local_server(self, local: bool) -> Self {
        Self { local, ..self }
    }

    /// Sets the check of the version that the server publishes.
    #[must_use]
    pub fn checking(self, check: VersionCheck) -> Self {
        Self { check, ..self }
    }

    /// Sets a callback for the time just before the first request of the run, once all checks have passed.
    #[must_use]
    pub fn announcing(self, announce: impl Fn() + Sync + 'a) -> Self {
        Self {
            announce: Box::new(announce),
            ..self
        }
    }

    /// Caches sealed cells in the bundle's directory for later runs, up to `bytes`.
    #[must_use]
    pub fn keeping(self, bytes: u64) -> Self {
        Self {
            cache: Cache::new(self.dataset.bundle().directory(), bytes),
            ..self
        }
    }

    /// Reports progress: the level, bytes received, bytes expected.
    #[must_use]
    pub fn with_progress(self, progress: impl Fn(usize, u64, u64) + Sync + 'a) -> Self {
        Self {
            progress: Box::new(progress),
            ..self
        }
    }

    /// Ends with [`ClientError::Interrupted`] once the token is cancelled.
    #[must_use]
    pub fn interrupted_by(self, interrupt: CancellationToken) -> Self {
        Self { interrupt, ..self }
    }

    /// Returns the number of columns that this run would reveal to the server: those frequent at `options` that were
    /// not requested when the cache was filled. Also returns the bytes of one column.
    pub fn reveals(&self, options: AprioriOptions) -> (usize, u64) {
        let by_cells = || matches!(self.asks_for_moments(options), Ok(false));
        let new = if self.trust_server
            || self.check(options).is_err()
            || !self.may_ask()
            || !by_cells()
        {
            0
        } else {
            let columns = self.frequent_columns(options);
            self.source(&|_, _| {}).more_columns(&columns)
        };
        (new, column_bytes(self.dataset.manifest()))
    }

    /// Finds the frequent itemsets. `connect` is called when the first request is due, and again for each length that
    /// the server counts. Connections are dropped before cells are counted or moments evaluated: the server cannot
    /// observe how long that takes.
    ///
    /// # Errors
    /// Errors of [`apriori`](fn@oboro_mining::apriori); a pending decision of the owner; another version at the server;
    /// as every call. A false answer ends the run and is recorded in the dataset's directory.
    pub fn run(
        self,
        options: AprioriOptions,
        connect: impl Fn() -> Result<Connection, ClientError>,
    ) -> Result<MiningReport, AprioriError<ClientError>> {
        self.check(options)?;
        if self.trust_server {
            let connection = self.gate(&connect).open().map_err(AprioriError::Counter)?;
            return self.by_moments(options, &connection);
        }
        if self
            .asks_for_moments(options)
            .map_err(AprioriError::Counter)?
        {
            self.by_prefixes(options, &connect)
        } else {
            self.by_cells(options, &connect)
        }
    }

    fn gate<'g>(&'g self, connect: &'g Connect<'g>) -> Gate<'g> {
        let consents = self.trust_server || self.local;
        let announce = &*self.announce;
        Gate::new(
            self.dataset,
            &self.name,
            consents,
            self.check,
            announce,
            connect,
        )
    }

    /// Returns true if requests are permitted, as far as is known here.
    fn may_ask(&self) -> bool {
        let consents = self.trust_server || self.local;
        self.check != VersionCheck::Offline && check_decided(self.dataset, consents).is_ok()
    }

    /// Returns true if the server should count on ciphertext; otherwise cells are used, or nothing is requested.
    fn asks_for_moments(&self, options: AprioriOptions) -> Result<bool, ClientError> {
        let (columns, longest) = (self.frequent_columns(options), longest(self.dataset));
        let items = self.dataset.record().names.len();
        let wanted = options.max_len.map_or(items, |it| it.get().min(items));
        let are_verified = wanted <= longest;
        let not_in_prefix = || ClientError::NotInPrefix(pair_columns(self.dataset));
        let prefix = |level| Prefix::of(self.dataset, &columns, level);
        match self.answers {
            Answers::Cells => Ok(false),
            _ if self.check == VersionCheck::Offline => Ok(false),
            _ if columns.is_empty() => Ok(false),
            Answers::Moments if !are_verified => Err(ClientError::LongMoments { longest, wanted }),
            Answers::Moments => {
                let pairs = prefix(2).ok_or_else(not_in_prefix)?;
                check_size(self.dataset, columns.len(), &pairs).map(|()| true)
            }
            Answers::Auto if !are_verified => Ok(false),
            Answers::Auto => {
                let cells = self.source(&|_, _| {}).absent_bytes(&columns);
                // Assumes that all itemsets of frequent items are candidates, none longer than the number of columns.
                let levels = 2..=wanted.min(columns.len());
                let bytes: Option<Vec<u64>> = levels.map(|it| Some(prefix(it)?.bytes())).collect();
                let bytes = bytes.map(|it| it.into_iter().fold(0, u64::saturating_add));
                Ok(bytes.is_some_and(|bytes| bytes < cells.min(MOST_BYTES)))
            }
        }
    }

    /// Rejects a support below that of the omitted items.
    fn check(&self, options: AprioriOptions) -> Result<(), AprioriError<ClientError>> {
        let record = self.dataset.record();
        options.threshold(record.transactions, record.min_item_support)?;
        Ok(())
    }

    /// Computes the supports of one or more itemsets of one length, from verified answers of the server on ciphertext.
    /// Also returns the cost.
    ///
    /// # Errors
    /// Itemsets that cannot be verified this way; as every call.
    pub fn count(
        self,
        connection: &Connection,
        itemsets: &[Itemset],
    ) -> Result<(Verified<Vec<u64>>, LevelTrace), ClientError> {
        let connect = || Ok(connection.clone());
        let gate = self.gate(&connect);
        let itemsets: Vec<Vec<Column>> = itemsets
            .iter()
            .map(|it| self.items.columns_of(it))
            .collect();
        let mut columns = itemsets.concat();
        columns.sort_unstable();
        columns.dedup();
        let level = itemsets.first().map_or(0, Vec::len);
        let (supports, trace) = self.prefixes(&gate).supports(&columns, level)?;
        let supports = supports.try_map(|supports| {
            let found: Option<Vec<u64>> = itemsets.iter().map(|it| supports.of(it)).collect();
            found.ok_or_else(|| ClientError::NotInPrefix(pair_columns(self.dataset)))
        });
        Ok((supports?, trace))
    }

    /// Computes the support of each pair of this item with another one, sorted by the other's number. Uses sealed cells
    /// if all are cached, otherwise verified answers of the server on ciphertext. Also returns the cost.
    ///
    /// # Errors
    /// An unknown item, or one whose pairs cannot be verified this way; a pending decision of the owner; another
    /// version at the server; as every call.
    pub fn pairs_with(
        self,
        name: &str,
        connect: impl Fn() -> Result<Connection, ClientError>,
    ) -> Result<Pairs, ClientError> {
        let item = self.number_of(name)?;
        if self.items.names.len() < 2 {
            return Err(ClientError::NoPairs);
        }
        let gate = self.gate(&connect);
        let all: Vec<Column> = Column::first(self.items.names.len() as u32).collect();
        let are_kept = self.source(&|_, _| {}).absent_columns(&all) == 0;
        if are_kept || self.check == VersionCheck::Offline {
            return self.pairs_in_cells(item, &all, &gate);
        }
        let column = self.items.columns_of(&Itemset::single(item))[0];
        if longest(self.dataset) < 2 {
            return Err(ClientError::NoPairs);
        }
        let row = Row::of(self.dataset, column);
        let row =
            row.ok_or_else(|| ClientError::NoRow(name.to_owned(), pair_columns(self.dataset)))?;
        let (supports, trace) = self.prefixes(&gate).row(&row)?;
        let items = self.items.by_column();
        let others = row.others().iter().map(|&column| items[column]);
        let by_item = |supports: Vec<u64>| -> Result<PairSupports, ClientError> {
            let mut pairs: PairSupports = others.zip(supports).collect();
            pairs.sort_unstable();
            Ok(pairs)
        };
        Ok(Pairs {
            together: supports.try_map(by_item)?,
            trace,
            offline: false,
        })
    }

    /// Counts the pairs of an item with all others in cached cells.
    fn pairs_in_cells(
        &self,
        item: u32,
        columns: &[Column],
        gate: &Gate<'_>,
    ) -> Result<Pairs, ClientError> {
        let begun = Instant::now();
        let (cells, fetched) = self.cells(columns, gate)?;
        let together = cells.try_map(|cells| {
            let bitmap = cells.into_bitmap(self.dataset, &self.items.by_column());
            let others = (0..self.items.names.len() as u32).filter(|&it| it != item);
            let pair = |other: u32| Itemset::new(vec![item.min(other), item.max(other)]);
            let pairs: Vec<Itemset> = others.clone().map(pair).collect();
            let supports = bitmap.supports(&pairs).expect("the columns are here");
            Ok::<_, ClientError>(others.zip(supports).collect::<PairSupports>())
        })?;
        let trace = LevelTrace {
            questions: fetched.requests,
            received_bytes: fetched.bytes,
            ..LevelTrace::in_cells(2, together.get().len(), begun.elapsed())
        };
        Ok(Pairs {
            together,
            trace,
            offline: fetched.offline,
        })
    }

    /// Returns the cells of columns, and fetches those that are not cached. A run without requests compares versions,
    /// too.
    fn cells(
        &self,
        columns: &[Column],
        gate: &Gate<'_>,
    ) -> Result<(Verified<Cells>, FetchCost), ClientError> {
        let progress = |received, expected| (self.progress)(2, received, expected);
        let (cells, mut fetched) = if columns.is_empty() {
            (Cells::none(), FetchCost::default())
        } else {
            self.source(&progress).columns(columns, || gate.open())?
        };
        if fetched.requests == 0 {
            fetched.offline = gate.pass_without_questions()?;
        }
        Ok((cells, fetched))
    }

    fn number_of(&self, name: &str) -> Result<u32, ClientError> {
        let names = self.items.names.iter().map(String::as_str);
        number_of(names, name).ok_or_else(|| ClientError::UnknownItem(name.to_owned()))
    }

    /// Resolves the names in itemsets; returns the itemsets, and the columns required to count them, ascending. Single
    /// items require none: their supports are in the owner's record.
    fn numbered(
        &self,
        itemsets: &[Vec<String>],
    ) -> Result<(Vec<Itemset>, Vec<Column>), ClientError> {
        let number = |name: &String| self.number_of(name);
        let numbered = |names: &Vec<String>| names.iter().map(number).collect();
        let itemsets: Vec<Itemset> = itemsets.iter().map(numbered).collect::<Result<_, _>>()?;
        let asked = itemsets.iter().filter(|itemset| itemset.len() > 1);
        let mut columns: Vec<Column> = asked.flat_map(|it| self.items.columns_of(it)).collect();
        columns.sort_unstable();
        columns.dedup();
        Ok((itemsets, columns))
    }

    /// Returns the number of columns that [`supports_of`](Self::supports_of) would request, and the bytes of one; 0
    /// columns if requests are not permitted.
    ///
    /// # Errors
    /// An unknown item.
    pub fn asks_for(&self, itemsets: &[Vec<String>]) -> Result<(usize, u64), ClientError> {
        let (_, columns) = self.numbered(itemsets)?;
        let absent = if self.may_ask() {
            self.source(&|_, _| {}).absent_columns(&columns)
        } else {
            0
        };
        Ok((absent, column_bytes(self.dataset.manifest())))
    }

    /// Computes the support of each itemset, of any length, from sealed cells. Also returns the cost of fetching them.
    /// The server learns which columns are requested.
    ///
    /// # Errors
    /// An unknown item; a pending decision of the owner; another version at the server; as every call.
    pub fn supports_of(
        self,
        itemsets: &[Vec<String>],
        connect: impl Fn() -> Result<Connection, ClientError>,
    ) -> Result<(Verified<Vec<u64>>, FetchCost), ClientError> {
        let (itemsets, columns) = self.numbered(itemsets)?;
        let (cells, fetched) = self.cells(&columns, &self.gate(&connect))?;
        let supports = cells.try_map(|cells| {
            let bitmap = cells.into_bitmap(self.dataset, &self.items.by_column());
            let support = |itemset: &Itemset| match itemset.items() {
                [] => self.dataset.record().transactions,
                [item] => self.items.supports[*item as usize],
                _ => {
                    let supports = bitmap.supports(std::slice::from_ref(itemset));
                    supports.expect("the columns are here")[0]
                }
            };
            Ok::<_, ClientError>(itemsets.iter().map(support).collect())
        });
        Ok((supports?, fetched))
    }

    fn prefixes<'s>(&'s self, gate: &'s Gate<'s>) -> sums::SumSource<'s> {
        sums::SumSource {
            dataset: self.dataset,
            name: &self.name,
            gate,
            threads: self.threads,
            progress: &*self.progress,
            interrupt: &self.interrupt,
        }
    }

    /// Computes the supports of one or more itemsets of one length from unverified answers. Also returns the cost. The
    /// owner's record notes the use of unverified answers.
    ///
    /// # Errors
    /// A length above the dataset's maximum; as every call.
    pub fn count_trusting_server(
        self,
        connection: &Connection,
        itemsets: &[Itemset],
    ) -> Result<(Vec<u64>, Vec<LevelTrace>), ClientError> {
        check_decided(self.dataset, true)?;
        let mut counter = self.moment_counter(connection)?;
        let supports = counter.count(itemsets.first().map_or(0, Itemset::len), itemsets)?;
        Ok((supports, counter.traces))
    }

    fn moment_counter<'c>(
        &'c self,
        connection: &'c Connection,
    ) -> Result<MomentCounter<'c>, ClientError> {
        let trust = match TrustServer::own(connection) {
            Some(own) => own,
            None => TrustServer::decided(self.dataset)?,
        };
        Ok(MomentCounter {
            connection,
            dataset: self.dataset,
            name: &self.name,
            threads: self.threads,
            items: &self.items,
            _trust: trust,
            progress: &*self.progress,
            traces: Vec::new(),
        })
    }

    fn by_moments(
        self,
        options: AprioriOptions,
        connection: &Connection,
    ) -> Result<MiningReport, AprioriError<ClientError>> {
        let counter = self.moment_counter(connection);
        let mut counter = counter.map_err(AprioriError::Counter)?;
        let mut reports = Vec::new();
        let found = apriori(&mut counter, options, |report| reports.push(report))?;
        let traces = counter.traces;
        Ok(MiningReport {
            found: if connection.is_local() {
                MiningResult::Local(found)
            } else {
                MiningResult::Unverified(Unverified(found))
            },
            names: self.items.names,
            reports,
            traces,
            fetched: FetchCost::default(),
        })
    }

    fn by_prefixes(
        self,
        options: AprioriOptions,
        connect: &Connect<'_>,
    ) -> Result<MiningReport, AprioriError<ClientError>> {
        let gate = self.gate(connect);
        let mut counter = PrefixCounter::new(self.prefixes(&gate), &self.items);
        let mut reports = Vec::new();
        // Whole prefixes are requested: deducing some supports from others saves nothing.
        let options = options.with_deduction(false);
        let found = apriori(&mut counter, options, |report| reports.push(report))?;
        let PrefixCounter {
            supports, traces, ..
        } = counter;
        let found = supports.try_map(|_| Ok::<_, AprioriError<ClientError>>(found))?;
        Ok(MiningReport {
            found: if self.local {
                MiningResult::Local(found.into_inner())
            } else {
                MiningResult::Verified(found)
            },
            names: self.items.names,
            reports,
            traces,
            fetched: FetchCost::default(),
        })
    }

    fn by_cells(
        self,
        options: AprioriOptions,
        connect: &Connect<'_>,
    ) -> Result<MiningReport, AprioriError<ClientError>> {
        let begun = Instant::now();
        let columns = self.frequent_columns(options);
        let (cells, fetched) = self
            .cells(&columns, &self.gate(connect))
            .map_err(AprioriError::Counter)?;
        let fetching = begun.elapsed();
        let (mut reports, mut traces) = (Vec::new(), Vec::new());
        let found = cells.try_map(|cells| {
            let mut counter = CellCounter {
                interrupt: &self.interrupt,
                dataset: self.dataset,
                items: &self.items,
                threads: self.threads,
                bitmap: cells.into_bitmap(self.dataset, &self.items.by_column()),
                traces: Vec::new(),
            };
            let found = apriori(&mut counter, options, |report| reports.push(report));
            traces = counter.traces;
            found
        })?;
        // The fetch is attributed to level 2, even if all pairs followed from the supports of items.
        if fetched.columns > 0 && traces.first().is_none_or(|trace| trace.level > 2) {
            traces.insert(0, LevelTrace::in_cells(2, 0, Duration::ZERO));
        }
        if let Some(pairs) = traces.first_mut() {
            pairs.questions = fetched.requests;
            pairs.received_bytes = fetched.bytes;
            pairs.elapsed += fetching;
        }
        Ok(MiningReport {
            found: if self.local {
                MiningResult::Local(found.into_inner())
            } else {
                MiningResult::Verified(found)
            },
            names: self.items.names,
            reports,
            traces,
            fetched,
        })
    }

    fn source<'s>(&'s self, progress: &'s (dyn Fn(u64, u64) + Sync)) -> CellSource<'s> {
        CellSource {
            dataset: self.dataset,
            name: &self.name,
            threads: self.threads,
            cache: &self.cache,
            progress,
        }
    }

    /// Returns the columns that can be part of frequent itemsets of two or more items, by the owner's record;
    /// ascending. Empty if no items qualify.
    fn frequent_columns(&self, options: AprioriOptions) -> Vec<Column> {
        let record = self.dataset.record();
        if options.max_len.is_some_and(|longest| longest.get() < 2) {
            return Vec::new();
        }
        let threshold = options.min_support.threshold(record.transactions);
        let is_frequent = |&(_, &support): &(Column, &u64)| support >= threshold;
        let columns = Column::enumerate(&record.supports).filter(is_frequent);
        let columns: Vec<Column> = columns.map(|(column, _)| column).collect();
        match columns[..] {
            [_] => Vec::new(),
            _ => columns,
        }
    }
}
