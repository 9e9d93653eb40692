//! Mining an uploaded dataset: by sums that the server computes on ciphertext and that are verified, by sealed cells
//! that are fetched and counted in here, or, for who trusts the server, by whatever moments it answers.

use crate::cache::Cache;
use crate::connection::Connection;
use crate::counting::CellCounter;
use crate::error::ClientError;
use crate::fetch::{CellSource, Fetched};
use crate::items::Numbered;
use crate::kept_moments::KeptMoments;
use crate::levels::LevelTrace;
use crate::moments::{MomentCounter, TrustServer};
use crate::sums::{self, MOST_BYTES, PrefixCounter, check_room, longest};
use crate::verify::cells::{Cells, column_bytes};
use crate::verify::prefixes::Prefix;
use crate::verify::rows::Row;
use crate::verify::{Verified, check_trust};
use oboro_mining::transactions::compare_names;
use oboro_mining::{
    AprioriError, AprioriOptions, Dataset, FrequentItemsets, Itemset, LevelReport, SupportCounter,
    apriori,
};
use std::num::NonZeroUsize;
use std::time::{Duration, Instant};
use tokio_util::sync::CancellationToken;

/// The support of one item together with each other one, by the number of the other, ascending.
pub type Together = Vec<(u32, u64)>;

/// Bytes of cells that are kept unless told otherwise.
pub const KEPT_BYTES: u64 = 1 << 30;

/// By which verified answers supports are found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Answers {
    /// Whatever takes fewer bytes.
    #[default]
    Auto,
    /// What the server computes on ciphertext: sums of pairs, moments of longer itemsets.
    Moments,
    /// Sealed cells.
    Cells,
}

/// Frequent itemsets that rest on answers nothing verified: if the server lied, they are wrong, and it learned from
/// the questions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unverified(FrequentItemsets);

/// Frequent itemsets, and what they rest on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Found {
    /// On answers that were verified.
    Verified(Verified<FrequentItemsets>),
    /// On trust in the server.
    Unverified(Unverified),
    /// On a server in this process, which is the owner itself.
    Local(FrequentItemsets),
}

impl Found {
    /// The itemsets.
    pub fn itemsets(&self) -> &FrequentItemsets {
        match self {
            Self::Verified(found) => found.get(),
            Self::Unverified(Unverified(found)) | Self::Local(found) => found,
        }
    }

    /// What they rest on, as people and programs are told.
    pub fn standing(&self) -> &'static str {
        match self {
            Self::Verified(_) => "verified",
            Self::Unverified(_) => "unverified",
            Self::Local(_) => "local",
        }
    }
}

/// What mining found, and what it took.
#[derive(Debug)]
pub struct Mined {
    /// The itemsets.
    pub found: Found,
    /// The names of the items, in the order of their numbers.
    pub names: Vec<String>,
    /// What there was to find out at each level.
    pub reports: Vec<LevelReport>,
    /// What each level took of which something was counted.
    pub traces: Vec<LevelTrace>,
    /// The columns that were needed, and what having them took.
    pub fetched: Fetched,
}

/// Told while answers arrive: the level, bytes of them received, bytes expected.
pub(crate) type Progress<'a> = dyn Fn(usize, u64, u64) + Sync + 'a;

/// An uploaded dataset that is to be mined.
pub struct Mining<'a> {
    dataset: &'a Dataset,
    name: String,
    threads: NonZeroUsize,
    items: Numbered,
    answers: Answers,
    trust_server: bool,
    local: bool,
    cache: Cache,
    kept: KeptMoments,
    progress: Box<Progress<'a>>,
    interrupt: CancellationToken,
}

impl<'a> Mining<'a> {
    /// The dataset that was uploaded under `name`, worked on by `threads` threads, items numbered in the order of
    /// their names.
    pub fn new(dataset: &'a Dataset, name: &str, threads: NonZeroUsize) -> Self {
        let names = &dataset.record().names;
        let mut columns: Vec<u32> = (0..names.len() as u32).collect();
        columns.sort_by(|&a, &b| compare_names(&names[a as usize], &names[b as usize]));
        Self {
            dataset,
            name: name.to_owned(),
            threads,
            items: Numbered::new(dataset, columns),
            answers: Answers::Auto,
            trust_server: false,
            local: false,
            cache: Cache::new(dataset.bundle().directory(), 0),
            kept: KeptMoments::new(dataset.bundle().directory(), dataset.manifest(), 0),
            progress: Box::new(|_, _, _| {}),
            interrupt: CancellationToken::new(),
        }
    }

    /// The same with items numbered in the owner's order.
    #[must_use]
    pub fn in_owners_order(self) -> Self {
        let columns = self.dataset.record().order.clone();
        Self {
            items: Numbered::new(self.dataset, columns),
            ..self
        }
    }

    /// The same by such answers.
    #[must_use]
    pub fn by(self, answers: Answers) -> Self {
        Self { answers, ..self }
    }

    /// The same, but by moments, and whatever the server answers is taken for true: the results say so, and so does
    /// the owner's record from then on.
    #[must_use]
    pub fn trusting_server(self, trust_server: bool) -> Self {
        Self {
            trust_server,
            ..self
        }
    }

    /// The same for a server in this process, which is the owner itself: the results say so.
    #[must_use]
    pub fn on_local_server(self, local: bool) -> Self {
        Self { local, ..self }
    }

    /// The same with sealed cells kept in the bundle's directory for later runs, up to so many bytes, and up to as many
    /// of moments of columns.
    #[must_use]
    pub fn keeping(self, bytes: u64) -> Self {
        let bundle = self.dataset.bundle();
        Self {
            cache: Cache::new(bundle.directory(), bytes),
            kept: KeptMoments::new(bundle.directory(), bundle.manifest(), bytes),
            ..self
        }
    }

    /// Tells `progress` the level, the bytes received and the bytes expected.
    #[must_use]
    pub fn with_progress(self, progress: impl Fn(usize, u64, u64) + Sync + 'a) -> Self {
        Self {
            progress: Box::new(progress),
            ..self
        }
    }

    /// The same, but counting ends with [`ClientError::Interrupted`] once the token is cancelled.
    #[must_use]
    pub fn interrupted_by(self, interrupt: CancellationToken) -> Self {
        Self { interrupt, ..self }
    }

    /// What the server learns beyond what it learned when the cells that are kept were fetched: so many more of the
    /// columns are frequent at `options`; and the bytes of one column.
    pub fn reveals(&self, options: AprioriOptions) -> (usize, u64) {
        let by_cells = || matches!(self.asks_for_moments(options), Ok(false));
        let new = if self.trust_server || self.check(options).is_err() || !by_cells() {
            0
        } else {
            let columns = self.frequent_columns(options);
            self.source(&|_, _| {}).more_columns(&columns)
        };
        (new, column_bytes(self.dataset.manifest()))
    }

    /// Finds the frequent itemsets. `connect` is called once something has to be asked, and what it gave is dropped
    /// before anything is counted in here: how long that takes is not the server's to see.
    ///
    /// # Errors
    /// Those of [`apriori`](fn@oboro_mining::apriori); an earlier run that found a false answer; as every call. A
    /// false answer ends the run and is noted in the dataset's directory then.
    pub fn run(
        self,
        options: AprioriOptions,
        connect: impl FnOnce() -> Result<Connection, ClientError>,
    ) -> Result<Mined, AprioriError<ClientError>> {
        self.check(options)?;
        if self.trust_server {
            let connection = connect().map_err(AprioriError::Counter)?;
            return self.by_moments(options, &connection);
        }
        if self
            .asks_for_moments(options)
            .map_err(AprioriError::Counter)?
        {
            self.by_prefixes(options, connect)
        } else {
            self.by_cells(options, connect)
        }
    }

    /// Whether the server is to count on ciphertext; else cells are the answers, or nothing is asked.
    fn asks_for_moments(&self, options: AprioriOptions) -> Result<bool, ClientError> {
        let (columns, longest) = (self.frequent_columns(options), longest(self.dataset));
        let items = self.dataset.record().names.len();
        let wanted = options.max_len.map_or(items, |it| it.get().min(items));
        let are_verified = wanted <= longest;
        let prefix = |level| Prefix::of(self.dataset, &columns, level, &self.kept);
        match self.answers {
            Answers::Cells => Ok(false),
            _ if columns.is_empty() => Ok(false),
            Answers::Moments if !are_verified => Err(ClientError::LongMoments { longest, wanted }),
            Answers::Moments => {
                let pairs = prefix(2).ok_or(ClientError::NotInPrefix)?;
                check_room(self.dataset, columns.len(), &pairs).map(|()| true)
            }
            Answers::Auto if !are_verified => Ok(false),
            Answers::Auto => {
                let cells = self.source(&|_, _| {}).absent_bytes(&columns);
                // If all itemsets of frequent items are candidates; of more columns than there are, there are none.
                let levels = 2..=wanted.min(columns.len());
                let bytes: Option<Vec<u64>> = levels.map(|it| Some(prefix(it)?.bytes())).collect();
                let bytes = bytes.map(|it| it.into_iter().fold(0, u64::saturating_add));
                Ok(bytes.is_some_and(|bytes| bytes < cells.min(MOST_BYTES)))
            }
        }
    }

    /// Refuses what must not be asked: below the support of items left out, or after a false answer.
    fn check(&self, options: AprioriOptions) -> Result<(), AprioriError<ClientError>> {
        let record = self.dataset.record();
        options.threshold(record.transactions, record.min_item_support)?;
        check_trust(self.dataset).map_err(AprioriError::Counter)
    }

    /// The supports of itemsets of one length, at least one, by what the server computes on ciphertext and that is
    /// verified, and what they took.
    ///
    /// # Errors
    /// Itemsets that are not verified in this way; as every call.
    pub fn count(
        self,
        connection: &Connection,
        itemsets: &[Itemset],
    ) -> Result<(Verified<Vec<u64>>, LevelTrace), ClientError> {
        check_trust(self.dataset)?;
        let itemsets: Vec<Vec<u32>> = itemsets
            .iter()
            .map(|it| self.items.columns_of(it))
            .collect();
        let mut columns = itemsets.concat();
        columns.sort_unstable();
        columns.dedup();
        let level = itemsets.first().map_or(0, Vec::len);
        let (supports, trace) = self.prefixes(connection).supports(&columns, level)?;
        let supports = supports.try_map(|supports| {
            let found: Option<Vec<u64>> = itemsets.iter().map(|it| supports.of(it)).collect();
            found.ok_or(ClientError::NotInPrefix)
        });
        Ok((supports?, trace))
    }

    /// The support of each pair of this item with another one, by the number of the other, as the server counts it and as
    /// is verified; and what that took.
    ///
    /// # Errors
    /// An item that there is not, or whose pairs are not counted so; an earlier run that found a false answer; as every
    /// call.
    pub fn pairs_with(
        self,
        name: &str,
        connect: impl FnOnce() -> Result<Connection, ClientError>,
    ) -> Result<(Verified<Together>, LevelTrace), ClientError> {
        check_trust(self.dataset)?;
        let item = self.items.names.iter().position(|it| it == name);
        let item = item.ok_or_else(|| ClientError::UnknownItem(name.to_owned()))?;
        let column = self.items.columns_of(&Itemset::single(item as u32))[0];
        if longest(self.dataset) < 2 || self.items.names.len() < 2 {
            return Err(ClientError::NoPairs);
        }
        let row = Row::of(self.dataset, column);
        let row = row.ok_or_else(|| ClientError::NoRow(name.to_owned()))?;
        let connection = connect()?;
        let (supports, trace) = self.prefixes(&connection).row(&row)?;
        let items = self.items.by_column();
        let others = row.others().iter().map(|&column| items[column as usize]);
        let by_item = |supports: Vec<u64>| -> Result<Together, ClientError> {
            let mut pairs: Together = others.zip(supports).collect();
            pairs.sort_unstable();
            Ok(pairs)
        };
        Ok((supports.try_map(by_item)?, trace))
    }

    fn prefixes<'s>(&'s self, connection: &'s Connection) -> sums::SumSource<'s> {
        sums::SumSource {
            dataset: self.dataset,
            name: &self.name,
            connection,
            threads: self.threads,
            kept: &self.kept,
            progress: &*self.progress,
            interrupt: &self.interrupt,
        }
    }

    /// The supports of itemsets of one length, at least one, as the server answers, and what they took. Nothing of
    /// it is verified, and the owner's record says so from then on.
    ///
    /// # Errors
    /// A length that the dataset was not encrypted for; as every call.
    pub fn count_trusting_server(
        self,
        connection: &Connection,
        itemsets: &[Itemset],
    ) -> Result<(Vec<u64>, Vec<LevelTrace>), ClientError> {
        check_trust(self.dataset)?;
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
    ) -> Result<Mined, AprioriError<ClientError>> {
        let counter = self.moment_counter(connection);
        let mut counter = counter.map_err(AprioriError::Counter)?;
        let mut reports = Vec::new();
        let found = apriori(&mut counter, options, |report| reports.push(report))?;
        let traces = counter.traces;
        Ok(Mined {
            found: if connection.is_local() {
                Found::Local(found)
            } else {
                Found::Unverified(Unverified(found))
            },
            names: self.items.names,
            reports,
            traces,
            fetched: Fetched::default(),
        })
    }

    fn by_prefixes(
        self,
        options: AprioriOptions,
        connect: impl FnOnce() -> Result<Connection, ClientError>,
    ) -> Result<Mined, AprioriError<ClientError>> {
        let connection = connect().map_err(AprioriError::Counter)?;
        let mut counter = PrefixCounter::new(self.prefixes(&connection), &self.items);
        let mut reports = Vec::new();
        // All itemsets of a prefix are asked for, whatever follows from others.
        let options = options.with_deduction(false);
        let found = apriori(&mut counter, options, |report| reports.push(report))?;
        let PrefixCounter {
            supports, traces, ..
        } = counter;
        let found = supports.try_map(|_| Ok::<_, AprioriError<ClientError>>(found))?;
        Ok(Mined {
            found: if self.local {
                Found::Local(found.into_inner())
            } else {
                Found::Verified(found)
            },
            names: self.items.names,
            reports,
            traces,
            fetched: Fetched::default(),
        })
    }

    fn by_cells(
        self,
        options: AprioriOptions,
        connect: impl FnOnce() -> Result<Connection, ClientError>,
    ) -> Result<Mined, AprioriError<ClientError>> {
        let begun = Instant::now();
        let columns = self.frequent_columns(options);
        let progress = |received, expected| (self.progress)(2, received, expected);
        let (cells, fetched) = if columns.is_empty() {
            (Cells::none(), Fetched::default())
        } else {
            self.source(&progress)
                .columns(&columns, connect)
                .map_err(AprioriError::Counter)?
        };
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
        // What was fetched for pairs is theirs, even if all of them followed from the supports of items.
        if fetched.columns > 0 && traces.first().is_none_or(|trace| trace.level > 2) {
            traces.insert(0, LevelTrace::in_cells(2, 0, Duration::ZERO));
        }
        if let Some(pairs) = traces.first_mut() {
            pairs.questions = fetched.requests;
            pairs.received_bytes = fetched.bytes;
            pairs.elapsed += fetching;
        }
        Ok(Mined {
            found: if self.local {
                Found::Local(found.into_inner())
            } else {
                Found::Verified(found)
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

    /// The columns that frequent itemsets of two and more items can be in, as the owner's record says; ascending. None
    /// if there are no such itemsets.
    fn frequent_columns(&self, options: AprioriOptions) -> Vec<u32> {
        let record = self.dataset.record();
        if options.max_len.is_some_and(|longest| longest.get() < 2) {
            return Vec::new();
        }
        let threshold = options.min_support.threshold(record.transactions);
        let is_frequent = |&(_, &support): &(u32, &u64)| support >= threshold;
        let columns = (0..).zip(&record.supports).filter(is_frequent);
        let columns: Vec<u32> = columns.map(|(column, _)| column).collect();
        match columns[..] {
            [_] => Vec::new(),
            _ => columns,
        }
    }
}
