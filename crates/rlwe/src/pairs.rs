//! Supports of pairs from one residue per limb and range, verified before they are combined with secrets
//! (docs/cryptography.md, "Verified sums").

use crate::decoder::Decoder;
use crate::fingerprint::Points;
use crate::key::DatasetKey;
use crate::order::ColumnOrder;
use crate::prefix_tokens::VerifiedLimbs;
use crate::range::{KeptPairs, RangeLimb, fit};
use crate::totals::Strata;
use oboro_ring::{Blocks, Limb, Parameters};
use std::fmt;
use thiserror::Error;

/// Error: the answer is rejected.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[allow(missing_docs)]
pub enum PairsError {
    #[error("the server sent other numbers than those of the ciphertext that was encrypted")]
    NotVerified,
    #[error(
        "sums that were verified have no support; the owner's record is damaged or of other parameters"
    )]
    Impossible,
}

/// Sums of one query over a range: for each limb `M_ij = Σ_w c_i(w) c_j(w)`.
pub type Sums = Vec<Vec<u32>>;

/// Kept data of the ranges of a dataset, which verifies and decodes the pairs that a server counts there.
pub struct PairReader {
    strata: Strata,
    order: ColumnOrder,
    /// Points for each limb.
    points: Vec<Points>,
    /// Kept data, ordered as the strata's ranges.
    ranges: Vec<RangeReader>,
}

/// Complete set of verified sums, with their pairs.
pub struct VerifiedPairs<'a> {
    reader: &'a PairReader,
    /// Indices of the pair of each sum, in ascending order.
    pairs: Vec<(usize, usize)>,
    fixed: Fixed,
    sums: &'a [Sums],
}

/// Source of fixed parts.
enum Fixed {
    /// Kept for all pairs of the first columns.
    Pairs,
    /// Kept in the row of a focus column.
    Row { place: usize, focus: usize },
}

impl fmt::Debug for PairReader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (columns, ranges) = (self.order.columns().len(), self.ranges.len());
        write!(f, "PairReader({columns} columns, {ranges} ranges, secret)")
    }
}

impl PairReader {
    /// Makes the reader of a dataset, with the kept data of each of its ranges. `None` if the ranges, or their columns,
    /// blocks or limbs, are not those of the strata.
    pub fn new(
        key: &DatasetKey,
        strata: Strata,
        order: &ColumnOrder,
        ranges: Vec<Vec<RangeLimb>>,
    ) -> Option<Self> {
        let bounds = strata.bounds();
        let (limbs, verified) = (bounds.limbs(2)?, VerifiedLimbs::of(bounds));
        if !fit(&strata, order, verified.limbs(), &ranges) {
            return None;
        }
        let parameters = key.ring().parameters();
        let reader = |(kept, range): (Vec<RangeLimb>, &Blocks)| {
            let pairs: Vec<KeptPairs> = kept.into_iter().filter_map(|it| it.pairs).collect();
            if pairs.len() != limbs {
                return None;
            }
            RangeReader::new(parameters, bounds.log2_supports(), range.len(), pairs)
        };
        let all = ranges.into_iter().zip(strata.ranges());
        let ranges: Option<Vec<RangeReader>> = all.map(reader).collect();
        Some(Self {
            points: Limb::first(limbs)
                .map(|limb| Points::new(key, limb, order.columns()))
                .collect(),
            order: order.clone(),
            ranges: ranges?,
            strata,
        })
    }

    /// Verifies the sums of all pairs of the first `columns` columns, in lexicographic order, of each range. All have
    /// fixed parts.
    ///
    /// # Errors
    /// The sums are any others, in any limb of any range.
    ///
    /// # Panics
    /// If fewer columns have fixed parts.
    pub fn verify_prefix<'a>(
        &'a self,
        columns: usize,
        sums: &'a [Sums],
    ) -> Result<VerifiedPairs<'a>, PairsError> {
        assert!(
            columns <= self.order.paired().len(),
            "pairs with fixed parts"
        );
        if self.is_prefix(columns, sums) {
            Ok(self.verified(pairs_of(columns), Fixed::Pairs, sums))
        } else {
            Err(PairsError::NotVerified)
        }
    }

    /// Verifies the sums of the column at index `place` with each other column, of each range.
    ///
    /// # Errors
    /// The sums are any others, in any limb of any range.
    ///
    /// # Panics
    /// If the column has no row.
    pub fn verify_row<'a>(
        &'a self,
        place: usize,
        sums: &'a [Sums],
    ) -> Result<VerifiedPairs<'a>, PairsError> {
        let focus = self.order.focus().binary_search(&place);
        if !self.all_are_right(sums, self.is_row(place)) {
            return Err(PairsError::NotVerified);
        }
        let others = (0..self.order.columns().len()).filter(|&other| other != place);
        let pairs = others.map(|other| (place.min(other), place.max(other)));
        let fixed = focus.map_or(Fixed::Pairs, |focus| Fixed::Row { place, focus });
        Ok(self.verified(pairs.collect(), fixed, sums))
    }

    /// Verifies the sums of one range, as [`verify_prefix`](Self::verify_prefix) does. The time depends on public
    /// lengths only.
    pub fn is_prefix_of(&self, range: usize, columns: usize, sums: &Sums) -> bool {
        let reader = &self.ranges[range];
        reader.verify(&self.points, sums, Self::is_start(columns))
    }

    /// Verifies the sums of one range, as [`verify_row`](Self::verify_row) does.
    ///
    /// # Panics
    /// If the column has no row.
    pub fn is_row_of(&self, range: usize, place: usize, sums: &Sums) -> bool {
        self.ranges[range].verify(&self.points, sums, self.is_row(place))
    }

    fn is_start(columns: usize) -> impl Fn(&KeptPairs, &Points, &[u32]) -> bool {
        move |kept, points, sums| kept.tokens.verify_prefix(points, columns, sums)
    }

    fn is_row(&self, place: usize) -> impl Fn(&KeptPairs, &Points, &[u32]) -> bool {
        let focus = self.order.focus().binary_search(&place);
        move |kept, points, sums| match focus {
            Ok(focus) => points.verify_row(kept.rows[focus].token, place, sums),
            Err(_) => kept.tokens.verify_row(points, place, sums),
        }
    }

    fn verified<'a>(
        &'a self,
        pairs: Vec<(usize, usize)>,
        fixed: Fixed,
        sums: &'a [Sums],
    ) -> VerifiedPairs<'a> {
        VerifiedPairs {
            reader: self,
            pairs,
            fixed,
            sums,
        }
    }

    fn is_prefix(&self, columns: usize, sums: &[Sums]) -> bool {
        self.all_are_right(sums, Self::is_start(columns))
    }

    /// Verifies all limbs of all ranges, each separately: the time depends on public lengths only.
    fn all_are_right(
        &self,
        sums: &[Sums],
        is_right: impl Fn(&KeptPairs, &Points, &[u32]) -> bool,
    ) -> bool {
        let ranges = self.ranges.iter().zip(sums);
        let are_right = ranges.map(|(reader, sums)| reader.verify(&self.points, sums, &is_right));
        are_right.fold(sums.len() == self.ranges.len(), |all, it| all & it)
    }
}

/// Lists all pairs of indices below `places`, in lexicographic order.
fn pairs_of(places: usize) -> Vec<(usize, usize)> {
    let of = |i| (i + 1..places).map(move |j| (i, j));
    (0..places).flat_map(of).collect()
}

impl VerifiedPairs<'_> {
    /// Decrypts the supports, in the order of the sums.
    ///
    /// # Errors
    /// The sums do not belong to the dataset of the owner's record.
    pub fn supports(&self) -> Result<Vec<u64>, PairsError> {
        let PairReader { strata, ranges, .. } = self.reader;
        let support = |(at, &pair): (usize, &(usize, usize))| {
            let residue = |(range, (reader, sums)): (usize, (&RangeReader, _))| {
                let fixed = |limb| self.fixed_part(range, limb, pair);
                reader.residue(at, sums, fixed)
            };
            let all = ranges.iter().zip(self.sums).enumerate();
            let residues: Option<Vec<u32>> = all.map(residue).collect();
            strata.support(residues?.into_iter())
        };
        let pairs = self.pairs.iter().enumerate();
        pairs
            .map(|pair| support(pair).ok_or(PairsError::Impossible))
            .collect()
    }

    /// The fixed part of a pair of indices in a range, modulo a limb.
    fn fixed_part(&self, range: usize, limb: Limb, (i, j): (usize, usize)) -> u32 {
        let kept = &self.reader.ranges[range].limbs[limb];
        match self.fixed {
            Fixed::Row { place, focus } => {
                let other = if i == place { j } else { i };
                kept.rows[focus].parts[other]
            }
            Fixed::Pairs => kept.fixed.of(i, j),
        }
    }
}

/// Kept data of a range, for each limb.
struct RangeReader {
    limbs: Vec<KeptPairs>,
    decoder: Decoder,
}

impl RangeReader {
    fn new(
        parameters: &Parameters,
        log2_supports: f64,
        blocks: u64,
        limbs: Vec<KeptPairs>,
    ) -> Option<Self> {
        let decoder = Decoder::new(parameters, limbs.len(), blocks, log2_supports)?;
        Some(Self { limbs, decoder })
    }

    fn verify(
        &self,
        points: &[Points],
        sums: &Sums,
        is_right: impl Fn(&KeptPairs, &Points, &[u32]) -> bool,
    ) -> bool {
        let limbs = self.limbs.iter().zip(points).zip(sums);
        let are_right = limbs.map(|((kept, points), sums)| is_right(kept, points, sums));
        are_right.fold(sums.len() == self.limbs.len(), |all, it| all & it)
    }

    /// Computes the support modulo `t` of the pair whose sums are at index `at`, given its fixed part modulo each limb.
    /// `None` if the phase exceeds its bound.
    fn residue(&self, at: usize, sums: &Sums, fixed: impl Fn(Limb) -> u32) -> Option<u32> {
        let limbs = Limb::enumerate(sums);
        self.decoder
            .slot_sum(limbs.map(|(limb, sums)| (sums[at], fixed(limb))))
    }
}

#[cfg(test)]
mod tests;
