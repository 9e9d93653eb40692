//! Server's sums and moments of all itemsets of a prefix of the owner's columns. They are released as supports once all
//! of them match the owner's tokens (docs/cryptography.md, "Fingerprints").
//!
//! For pairs, an answer has one residue per limb and range; for longer itemsets it has all moments.

use super::Verified;
use super::arriving::{AnswerAssembler, Content, SumsQuery};
use super::reading::Verdict;
use crate::error::ClientError;
use oboro_dataset::Dataset;
use oboro_protocol::max_itemsets;
use oboro_ring::moment::binomial;
use oboro_ring::{Blocks, Column};
use oboro_rlwe::{PairReader, PairsError, PrefixQuery, prefix_bytes};
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
    /// none has fixed parts for all pairs, or if itemsets of this length are not verified in this dataset.
    pub(crate) fn of(dataset: &'a Dataset, columns: &[Column], level: usize) -> Option<Self> {
        let (record, manifest) = (dataset.record(), dataset.manifest());
        let strata = record.strata(manifest).ok()?;
        let limbs = strata.bounds().limbs(level)?;
        let order = record.column_order().ok()?;
        let places: HashMap<Column, usize> = order.paired().iter().copied().zip(0..).collect();
        let place = |column| places.get(column).copied();
        let last = columns.iter().map(place).collect::<Option<Vec<usize>>>()?;
        let ordered = order.paired()[..=last.into_iter().max()?].to_vec();
        let mut sorted: Vec<(Column, usize)> = ordered.iter().copied().zip(0..).collect();
        sorted.sort_unstable();
        let count = ordered.len() as u64;
        let itemsets = binomial(count, level);
        let prefix = Self {
            dataset,
            level,
            limbs,
            ranges: strata.ranges().to_vec(),
            itemsets: usize::try_from(itemsets).unwrap_or(usize::MAX),
            bytes: prefix_bytes(&manifest.parameters, &strata, count, level)?,
            columns: Columns { ordered, sorted },
        };
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

    /// Builds the query. Until here, no allocation grows with the number of itemsets.
    ///
    /// # Errors
    /// None for a valid prefix.
    pub(crate) fn asked(&'a self) -> Result<PrefixQueries<'a>, ClientError> {
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
        let reader = match self.level {
            2 => Some(self.dataset.pair_reader()?),
            _ => None,
        };
        let (manifest, ranges) = (self.dataset.manifest(), &self.ranges);
        Ok(PrefixQueries {
            prefix: self,
            reader,
            query: SumsQuery::new(content, manifest, self.limbs, ranges),
        })
    }
}

/// Query about a prefix.
pub(crate) struct PrefixQueries<'a> {
    prefix: &'a Prefix<'a>,
    /// Verifier of pairs; `None` for longer itemsets.
    reader: Option<PairReader>,
    query: SumsQuery,
}

impl PrefixQueries<'_> {
    /// Returns the query to send.
    pub(crate) fn query(&self) -> &SumsQuery {
        &self.query
    }

    /// Returns the supports of all itemsets, if the whole answer arrived.
    ///
    /// # Errors
    /// A damaged sealed range.
    pub(crate) fn judge(
        &self,
        answer: &AnswerAssembler<'_>,
        threads: NonZeroUsize,
    ) -> Result<Verdict<Verified<Supports>>, ClientError> {
        let prefix = self.prefix;
        if !answer.is_complete() {
            let are_right = self.are_right_so_far(answer, threads)?;
            return Ok(if are_right {
                Verdict::Incomplete
            } else {
                Verdict::False
            });
        }
        let supports = match self.query.content() {
            Content::Moments(query) => {
                let reader = prefix.dataset.prefix_reader()?;
                let verified = reader.verify(query, answer.answer(), threads).ok();
                verified.map(|it| Ok(it.supports(threads)?.supports))
            }
            Content::Sums(_) => self.supports_of_pairs(answer),
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

    /// Verifies the whole ranges of an incomplete answer.
    ///
    /// # Errors
    /// A damaged sealed range.
    fn are_right_so_far(
        &self,
        answer: &AnswerAssembler<'_>,
        threads: NonZeroUsize,
    ) -> Result<bool, ClientError> {
        let mut ranges = answer.complete_ranges();
        if let Content::Moments(query) = self.query.content() {
            let reader = self.prefix.dataset.prefix_reader()?;
            return Ok(ranges.all(|(range, it)| reader.is_range(query, range, it, threads)));
        }
        let reader = self.reader.as_ref().expect("one of pairs");
        let columns = &self.prefix.columns;
        let order = columns.order_of_pairs();
        Ok(ranges.all(|(range, bytes)| {
            let sums = answer.sums_of(bytes, &order);
            sums.is_some_and(|sums| reader.is_prefix_of(range, columns.ordered.len(), &sums))
        }))
    }

    /// Returns the supports of pairs; `None` if the numbers do not match the ciphertext.
    fn supports_of_pairs(
        &self,
        answer: &AnswerAssembler<'_>,
    ) -> Option<Result<Vec<u64>, ClientError>> {
        let columns = &self.prefix.columns;
        let reader = self.reader.as_ref().expect("one of pairs");
        let order = columns.order_of_pairs();
        let sums = answer.sums(&order).unwrap_or_default();
        let verified = reader.verify_prefix(columns.ordered.len(), &sums);
        let in_order = |supports: Vec<u64>| order.iter().map(|&it| supports[it]).collect();
        match verified.and_then(|it| it.supports()) {
            Err(PairsError::NotVerified) => None,
            supports => Some(supports.map(in_order).map_err(ClientError::from)),
        }
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
