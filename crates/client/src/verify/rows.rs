//! Server's sums of the pairs of one column with each other column. They are released as supports once all of them
//! match the owner's token of that row (docs/cryptography.md, "Fingerprints").

use super::Verified;
use super::arriving::{AnswerAssembler, Content, SumsQuery};
use super::reading::Verdict;
use crate::error::ClientError;
use oboro_dataset::Dataset;
use oboro_ring::Column;
use oboro_rlwe::PairsError;

/// Column paired with all others.
pub(crate) struct Row<'a> {
    dataset: &'a Dataset,
    /// Index of the column in the owner's order.
    place: usize,
    /// Other columns, ascending.
    others: Vec<Column>,
    /// Index of each other column among them in the owner's order.
    order: Vec<usize>,
    query: SumsQuery,
}

impl<'a> Row<'a> {
    /// Creates the row of this column; `None` if pairs are not verified in this dataset, or some pairs of this column
    /// have no kept data.
    pub(crate) fn of(dataset: &'a Dataset, column: Column) -> Option<Self> {
        let (record, manifest) = (dataset.record(), dataset.manifest());
        let strata = record.strata(manifest).ok()?;
        let limbs = strata.bounds().limbs(2)?;
        let order = record.column_order().ok()?;
        let place = order.columns().iter().position(|&it| it == column)?;
        if !order.has_row(place) {
            return None;
        }
        let others = order.columns().iter().filter(|&&it| it != column);
        let mut others: Vec<(Column, usize)> = others.copied().zip(0..).collect();
        others.sort_unstable();
        let pair = |&(other, _): &(Column, usize)| [column.min(other), column.max(other)];
        let pairs = Content::Sums(others.iter().map(pair).collect());
        Some(Self {
            dataset,
            place,
            query: SumsQuery::new(pairs, manifest, limbs, strata.ranges()),
            order: others.iter().map(|it| it.1).collect(),
            others: others.into_iter().map(|it| it.0).collect(),
        })
    }

    /// Returns the other columns, ascending.
    pub(crate) fn others(&self) -> &[Column] {
        &self.others
    }

    /// Returns the number of limbs to request.
    pub(crate) fn limbs(&self) -> usize {
        self.query.limbs()
    }

    /// Returns the query to send.
    pub(crate) fn query(&self) -> &SumsQuery {
        &self.query
    }

    /// Returns the supports of the pairs with the other columns, in their order, if all of them arrived.
    ///
    /// # Errors
    /// A damaged sealed range.
    pub(crate) fn judge(
        &self,
        answer: &AnswerAssembler<'_>,
    ) -> Result<Verdict<Verified<Vec<u64>>>, ClientError> {
        let reader = self.dataset.pair_reader()?;
        if !answer.is_complete() {
            let is_right = |(range, bytes): (usize, &[u8])| {
                let sums = answer.sums_of(bytes, &self.order);
                sums.is_some_and(|sums| reader.is_row_of(range, self.place, &sums))
            };
            let are_right = answer.complete_ranges().all(is_right);
            return Ok(if are_right {
                Verdict::Incomplete
            } else {
                Verdict::False
            });
        }
        let sums = answer.sums(&self.order).unwrap_or_default();
        let verified = reader.verify_row(self.place, &sums);
        Ok(match verified.and_then(|it| it.supports()) {
            Err(PairsError::NotVerified) => Verdict::False,
            supports => {
                let supports = supports?;
                let in_order = self.order.iter().map(|&it| supports[it]);
                Verdict::Right(Verified(in_order.collect()))
            }
        })
    }
}
