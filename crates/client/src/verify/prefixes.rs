//! Server's sums and moments of all itemsets of a prefix of the owner's columns. They are released as supports once all
//! of them match the owner's tokens (docs/cryptography.md, "Fingerprints").
//!
//! For pairs, an answer has one residue per limb and range, and moments `M_{i,1}` of columns without fixed parts. For
//! longer itemsets it has all moments.

use super::Verified;
use super::arriving::{Arriving, Content, SumsQuery, column_moments};
use super::reading::Verdict;
use crate::error::ClientError;
use crate::kept_moments::KeptMoments;
use oboro_dataset::Dataset;
use oboro_protocol::max_itemsets;
use oboro_ring::moment::binomial;
use oboro_ring::{Blocks, Column, pack};
use oboro_rlwe::{ColumnMoments, PairReader, PairsError, PrefixQuery, prefix_bytes};
use std::collections::HashMap;
use std::num::NonZeroUsize;

/// All itemsets of one length of the first columns in the owner's order.
pub(crate) struct Prefix<'a> {
    dataset: &'a Dataset,
    columns: Columns,
    level: usize,
    limbs: usize,
    ranges: Vec<Blocks>,
    itemsets: usize,
    /// `true` if some pairs lack fixed parts.
    is_wide: bool,
    kept: KeptMoments,
    bytes: u64,
}

/// Columns of a prefix.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Columns {
    /// Columns in the owner's order.
    ordered: Vec<Column>,
    /// Columns ascending, each with its index in the owner's order.
    sorted: Vec<(Column, usize)>,
}

impl<'a> Prefix<'a> {
    /// Returns the smallest prefix that contains these columns, with at least as many columns as an itemset. `None` if
    /// none exists, or if itemsets of this length are not verified in this dataset. Cached moments of columns are not
    /// requested.
    pub(crate) fn of(
        dataset: &'a Dataset,
        columns: &[Column],
        level: usize,
        kept: &KeptMoments,
    ) -> Option<Self> {
        let (record, manifest) = (dataset.record(), dataset.manifest());
        let strata = record.strata(manifest).ok()?;
        let limbs = strata.bounds().limbs(level)?;
        let order = record.column_order().ok()?;
        let places: HashMap<Column, usize> = order.columns().iter().copied().zip(0..).collect();
        let place = |column| places.get(column).copied();
        let last = columns.iter().map(place).collect::<Option<Vec<usize>>>()?;
        let ordered = order.columns()[..=last.into_iter().max()?].to_vec();
        let is_wide = ordered.len() > order.paired().len();
        if is_wide && level > 2 {
            return None;
        }
        let mut sorted: Vec<(Column, usize)> = ordered.iter().copied().zip(0..).collect();
        sorted.sort_unstable();
        let count = ordered.len() as u64;
        let itemsets = binomial(count, level);
        let mut prefix = Self {
            dataset,
            level,
            limbs,
            ranges: strata.ranges().to_vec(),
            itemsets: usize::try_from(itemsets).unwrap_or(usize::MAX),
            is_wide,
            kept: kept.clone(),
            bytes: prefix_bytes(&manifest.parameters, &strata, count, level)?,
            columns: Columns { ordered, sorted },
        };
        if let Some(query) = prefix.columns_query(&prefix.absent(|it| kept.has(it))) {
            prefix.bytes = prefix.bytes.saturating_add(query.bytes());
        }
        (itemsets > 0).then_some(prefix)
    }

    /// Returns the length of the itemsets.
    pub(crate) fn level(&self) -> usize {
        self.level
    }

    /// Returns the number of itemsets.
    pub(crate) fn itemsets(&self) -> usize {
        self.itemsets
    }

    /// Returns the number of limbs to request.
    pub(crate) fn limbs(&self) -> usize {
        self.limbs
    }

    /// Returns the bytes of the whole answer, saturating.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Returns true if the parts that must go into one request fit into it.
    pub(crate) fn fits_requests(&self) -> bool {
        self.level == 2 || self.itemsets <= max_itemsets(self.level)
    }

    /// Builds the queries. Until here, no allocation grows with the number of itemsets.
    ///
    /// # Errors
    /// None for a valid prefix.
    pub(crate) fn asked(&'a self) -> Result<Asked<'a>, ClientError> {
        let content = match self.level {
            2 => Content::Sums(self.columns.pairs()),
            level => {
                let (key, record) = (self.dataset.key(), self.dataset.record());
                let strata = record.strata(self.dataset.manifest());
                let strata = strata.map_err(oboro_dataset::DatasetError::from)?;
                let columns = &self.columns.ordered;
                let query = PrefixQuery::new(key, strata, columns, level)?;
                Content::Moments(Box::new(query))
            }
        };
        let mut asked = Asked {
            prefix: self,
            reader: None,
            kept: HashMap::new(),
            absent: Vec::new(),
            questions: vec![self.query(content)],
        };
        if self.level == 2 {
            let reader = self.dataset.pair_reader()?;
            if self.is_wide {
                asked.kept = self.kept_columns(&reader);
                asked.absent = self.absent(|it| asked.kept.contains_key(&it));
                asked.questions.extend(self.columns_query(&asked.absent));
            }
            asked.reader = Some(reader);
        }
        Ok(asked)
    }

    fn query(&self, content: Content) -> SumsQuery {
        SumsQuery::new(content, self.dataset.manifest(), self.limbs, &self.ranges)
    }

    /// Returns the columns whose moments must be requested, ascending, given those cached. A query is about pairs: it
    /// has no columns, or at least two.
    fn absent(&self, is_here: impl Fn(Column) -> bool) -> Vec<Column> {
        let sorted = || self.columns.sorted.iter().map(|it| it.0);
        let needed = sorted().filter(|_| self.is_wide);
        let mut absent: Vec<Column> = needed.filter(|&it| !is_here(it)).collect();
        if let [one] = absent[..] {
            absent.extend(sorted().find(|&it| it != one));
            absent.sort_unstable();
        }
        absent
    }

    /// Returns the query for the moments of these columns, ascending; `None` without columns.
    fn columns_query(&self, columns: &[Column]) -> Option<SumsQuery> {
        let mut pairs = columns.as_chunks().0.to_vec();
        if let [.., a, b] = *columns
            && columns.len() % 2 == 1
        {
            pairs.push([a, b]);
        }
        let content = Content::Columns(pairs, columns.len());
        (!columns.is_empty()).then(|| self.query(content))
    }

    /// Returns cached moments of columns that match the owner's tokens; removes others from the cache.
    fn kept_columns(&self, reader: &PairReader) -> HashMap<Column, ColumnMoments> {
        let read = |&(column, place): &(Column, usize)| {
            let moments = self
                .kept
                .read(column, self.moment_bytes())
                .and_then(|packed| self.unpacked(&packed));
            let moments = moments.filter(|it| reader.is_column(place, it));
            if moments.is_none() && self.kept.has(column) {
                self.kept.forget(column);
            }
            Some((column, moments?))
        };
        self.columns.sorted.iter().filter_map(read).collect()
    }

    /// Returns the bytes of a moment over all ranges.
    fn moment_bytes(&self) -> u64 {
        let degree = self.dataset.manifest().parameters.degree();
        (self.ranges.len() * pack::moment_packed_len(degree, self.limbs, 1)) as u64
    }

    fn unpacked(&self, packed: &[u8]) -> Option<ColumnMoments> {
        let degree = self.dataset.manifest().parameters.degree();
        column_moments(packed, self.ranges.len(), self.limbs, degree)
    }
}

/// Queries about a prefix.
pub(crate) struct Asked<'a> {
    prefix: &'a Prefix<'a>,
    /// Verifier of pairs; `None` for longer itemsets.
    reader: Option<PairReader>,
    kept: HashMap<Column, ColumnMoments>,
    /// Columns whose moments are requested, ascending.
    absent: Vec<Column>,
    questions: Vec<SumsQuery>,
}

impl Asked<'_> {
    /// Returns the queries to send, in order.
    pub(crate) fn questions(&self) -> &[SumsQuery] {
        &self.questions
    }

    /// Returns the bytes of all answers.
    pub(crate) fn bytes(&self) -> u64 {
        self.questions.iter().map(SumsQuery::bytes).sum()
    }

    /// Returns the supports of all itemsets, if the answers to all queries arrived.
    ///
    /// # Errors
    /// A damaged sealed range.
    pub(crate) fn judge(
        &self,
        answers: &[Arriving<'_>],
        threads: NonZeroUsize,
    ) -> Result<Verdict<Verified<Supports>>, ClientError> {
        let prefix = self.prefix;
        if !answers.iter().all(Arriving::is_complete) {
            let are_right = self.are_right_so_far(answers, threads)?;
            return Ok(if are_right {
                Verdict::Incomplete
            } else {
                Verdict::False
            });
        }
        let supports = match self.questions[0].content() {
            Content::Moments(query) => {
                let reader = prefix.dataset.prefix_reader()?;
                let verified = reader.verify(query, answers[0].answer(), threads).ok();
                verified.map(|it| Ok(it.supports(threads)?.supports))
            }
            _ => self.supports_of_pairs(answers, threads),
        };
        let Some(supports) = supports else {
            return Ok(Verdict::False);
        };
        Ok(Verdict::Right(Verified(Supports {
            columns: prefix.columns.sorted.iter().map(|it| it.0).collect(),
            level: prefix.level,
            supports: supports?,
        })))
    }

    /// Verifies whole ranges and moments of single columns in incomplete answers.
    ///
    /// # Errors
    /// A damaged sealed range.
    fn are_right_so_far(
        &self,
        answers: &[Arriving<'_>],
        threads: NonZeroUsize,
    ) -> Result<bool, ClientError> {
        let dataset = self.prefix.dataset;
        if let Content::Moments(query) = self.questions[0].content() {
            let reader = dataset.prefix_reader()?;
            let mut ranges = answers[0].complete_ranges();
            return Ok(ranges.all(|(range, it)| reader.is_range(query, range, it, threads)));
        }
        let reader = self.reader.as_ref().expect("one of pairs");
        let columns = &self.prefix.columns;
        let order = columns.order_of_pairs();
        let is_range = |(range, bytes): (usize, &[u8])| {
            let sums = answers[0].sums_of(bytes, &order);
            sums.is_some_and(|sums| reader.is_prefix_of(range, columns.ordered.len(), &sums))
        };
        let is_column = |(at, column): (usize, &Column)| {
            let packed = answers.get(1).and_then(|it| it.column(at));
            packed.is_none_or(|packed| {
                let place = columns.ordered.iter().position(|it| it == column);
                let moments = self.prefix.unpacked(&packed);
                place
                    .zip(moments)
                    .is_some_and(|(place, it)| reader.is_column(place, &it))
            })
        };
        Ok(answers[0].complete_ranges().all(is_range)
            && self.absent.iter().enumerate().all(is_column))
    }

    /// Returns the supports of pairs; `None` if the numbers do not match the ciphertext.
    fn supports_of_pairs(
        &self,
        answers: &[Arriving<'_>],
        threads: NonZeroUsize,
    ) -> Option<Result<Vec<u64>, ClientError>> {
        let columns = &self.prefix.columns;
        let reader = self.reader.as_ref().expect("one of pairs");
        let order = columns.order_of_pairs();
        let sums = answers[0].sums(&order).unwrap_or_default();
        let verified = if self.prefix.is_wide {
            let moments = self.moments(answers).unwrap_or_default();
            let count = columns.ordered.len();
            let sums = if self.repeats_are_right(reader, answers) {
                &sums[..]
            } else {
                &[]
            };
            let verified = reader.verify_wide_prefix(count, sums, &moments, threads);
            if verified.is_ok() {
                self.keep(answers);
            }
            verified
        } else {
            reader.verify_prefix(columns.ordered.len(), &sums)
        };
        let in_order = |supports: Vec<u64>| order.iter().map(|&it| supports[it]).collect();
        match verified.and_then(|it| it.supports()) {
            Err(PairsError::NotVerified) => None,
            supports => Some(supports.map(in_order).map_err(ClientError::from)),
        }
    }

    /// Returns the moments of each column in the owner's order, cached or received; `None` if one is missing.
    fn moments(&self, answers: &[Arriving<'_>]) -> Option<Vec<ColumnMoments>> {
        // Everything received is verified, including a column requested only to complete a pair.
        let moments = |column: &Column| match self.absent.binary_search(column) {
            Ok(place) => self.prefix.unpacked(&answers.get(1)?.column(place)?),
            Err(_) => self.kept.get(column).cloned(),
        };
        self.prefix.columns.ordered.iter().map(moments).collect()
    }

    /// Returns true if values that accompany moments match known ones: the sums of the first query, and the moment of
    /// the mask.
    fn repeats_are_right(&self, reader: &PairReader, answers: &[Arriving<'_>]) -> bool {
        let [sums, moments] = answers else {
            return true;
        };
        let mask = moments
            .mask_squared()
            .and_then(|it| self.prefix.unpacked(&it));
        moments.repeats_sums(sums) && mask.is_some_and(|it| reader.is_mask_squared(&it))
    }

    /// Caches the received and verified moments.
    fn keep(&self, answers: &[Arriving<'_>]) {
        let absent = self.absent.iter().enumerate();
        let packed = |(place, &column)| Some((column, answers.get(1)?.column(place)?));
        self.prefix.kept.keep(absent.filter_map(packed));
    }
}

impl Columns {
    /// Returns all pairs of columns, ascending and in lexicographic order.
    fn pairs(&self) -> Vec<[Column; 2]> {
        let sorted = &self.sorted;
        let of = |i: usize| (i + 1..sorted.len()).map(move |j| [sorted[i].0, sorted[j].0]);
        (0..sorted.len()).flat_map(of).collect()
    }

    /// Returns the index in the owner's order of each pair of columns, in ascending lexicographic order.
    fn order_of_pairs(&self) -> Vec<usize> {
        let n = self.ordered.len();
        let place = |a: usize, b: usize| {
            let (a, b) = (a.min(b), a.max(b));
            a * (2 * n - a - 1) / 2 + b - a - 1
        };
        let sorted = &self.sorted;
        let pairs = (0..n).flat_map(|i| (i + 1..n).map(move |j| place(sorted[i].1, sorted[j].1)));
        pairs.collect()
    }
}

/// Supports of all itemsets of one length of some columns.
pub(crate) struct Supports {
    /// Columns, ascending.
    columns: Vec<Column>,
    level: usize,
    /// Supports in lexicographic order of the itemsets.
    supports: Vec<u64>,
}

impl Supports {
    /// Returns the support of an itemset, its columns ascending; `None` for other itemsets.
    pub(crate) fn of(&self, itemset: &[Column]) -> Option<u64> {
        if itemset.len() != self.level {
            return None;
        }
        let mut rank = self.supports.len() - 1;
        for (i, column) in itemset.iter().enumerate() {
            let place = self.columns.binary_search(column).ok()?;
            // Skip itemsets that agree up to here and continue with a later column.
            let behind = (self.columns.len() - 1 - place) as u64;
            rank -= binomial(behind, self.level - i) as usize;
        }
        self.supports.get(rank).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use oboro_ring::moment::Itemsets;

    #[test]
    fn supports_are_found_by_their_columns() {
        let columns = [2, 3, 5, 7, 11, 13].map(Column).to_vec();
        for level in 1..=4 {
            let all = Itemsets::all_of(&columns, level).unwrap();
            let supports = Supports {
                columns: columns.clone(),
                level,
                supports: (100..).take(all.len()).collect(),
            };
            for (itemset, support) in all.iter().zip(100..) {
                assert_eq!(supports.of(itemset), Some(support), "{itemset:?}");
            }
            assert_eq!(supports.of(&[]), None);
            assert_eq!(supports.of(&columns[..level + 1]), None);
            let others: Vec<_> = (14..).map(Column).take(level).collect();
            assert_eq!(supports.of(&others), None);
        }
    }

    #[test]
    fn pairs_have_a_place_in_both_orders() {
        let [a, b, c] = [2, 7, 9].map(Column);
        let columns = Columns {
            ordered: vec![b, a, c],
            sorted: vec![(a, 1), (b, 0), (c, 2)],
        };
        // (2, 7), (2, 9), (7, 9) of (7, 2), (7, 9), (2, 9).
        assert_eq!(columns.order_of_pairs(), [0, 2, 1]);
    }
}
