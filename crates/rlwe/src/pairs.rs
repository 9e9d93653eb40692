//! Supports of pairs from one residue a limb and range, verified before they meet a secret (docs/cryptography.md,
//! "Verified sums").

use crate::fingerprint::{Elements, PairTokens, Points};
use crate::fixed::{FixedParts, MaskMoments};
use crate::key::DatasetKey;
use crate::noise::log2_phase_bound;
use crate::prefixes::{PrefixTokens, VerifiedLimbs};
use crate::totals::Strata;
use oboro_ring::{Modulus, Parameters, QuadraticField};
use std::fmt;
use std::ops::Range;
use thiserror::Error;
use zeroize::Zeroizing;

/// An answer that is not shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[allow(missing_docs)]
pub enum PairsError {
    #[error("the server sent other sums than those of the ciphertext that was encrypted")]
    NotVerified,
    #[error(
        "sums that were verified have no support; the owner's record is damaged or of other parameters"
    )]
    Impossible,
}

/// A block modulo one limb: `N` residues each, in evaluation form.
#[derive(Clone, Copy)]
pub struct BlockResidues<'a> {
    /// The mask.
    pub mask: &'a [u32],
    /// The ciphertext of each column, in the owner's order.
    pub columns: &'a [&'a [u32]],
}

/// What the owner adds up over blocks of a range, modulo one limb, while it has their ciphertext at hand.
pub struct RangeSums {
    limb: usize,
    columns: Vec<u32>,
    blocks: u64,
    points: Points,
    pairs: Option<(PairTokens, MaskMoments)>,
    weights: Elements,
    prefixes: PrefixTokens,
}

impl RangeSums {
    /// Those of these columns, in an order of the owner's, over no blocks.
    ///
    /// # Panics
    /// If a column is there twice, or there is no such limb.
    pub fn new(key: &DatasetKey, verified: VerifiedLimbs, limb: usize, columns: &[u32]) -> Self {
        let (parameters, count) = (key.ring().parameters(), columns.len());
        let pairs = || {
            let moments = MaskMoments::new(parameters, limb, count);
            (PairTokens::new(count), moments)
        };
        Self {
            limb,
            columns: columns.to_vec(),
            blocks: 0,
            points: Points::new(key, limb, columns),
            pairs: verified.has_pairs(limb).then(pairs),
            weights: key.slot_weights(limb),
            prefixes: PrefixTokens::new(verified.longer(limb), count),
        }
    }

    /// Adds blocks, several at a time where that is possible: it takes less time.
    ///
    /// # Panics
    /// If a block has other columns, or a slice other than `N` residues.
    pub fn add(&mut self, blocks: &[BlockResidues<'_>]) {
        if let Some((tokens, moments)) = &mut self.pairs {
            blocks
                .iter()
                .for_each(|block| tokens.add(&self.points, block.columns));
            moments.add(blocks);
        }
        self.prefixes.add(&self.points, &self.weights, blocks);
        self.blocks += blocks.len() as u64;
    }

    /// Adds the blocks that another thread has.
    ///
    /// # Panics
    /// If it has other columns, or is of another limb.
    pub fn merge(&mut self, other: &Self) {
        assert_eq!((self.limb, &self.columns), (other.limb, &other.columns));
        let field = self.points.field();
        if let (Some((tokens, moments)), Some(more)) = (&mut self.pairs, &other.pairs) {
            tokens.merge(field, &more.0);
            moments.merge(&more.1);
        }
        self.prefixes.merge(field, &other.prefixes);
        self.blocks += other.blocks;
    }

    /// What is kept of them.
    pub fn finish(self, key: &DatasetKey) -> RangeLimb {
        let fixed = |moments: &MaskMoments| FixedParts::new(key, self.limb, &self.columns, moments);
        RangeLimb {
            pairs: self
                .pairs
                .map(|(tokens, moments)| (tokens, fixed(&moments))),
            field: *self.points.field(),
            limb: self.limb,
            columns: self.columns,
            blocks: self.blocks,
            prefixes: self.prefixes,
        }
    }
}

/// What the owner keeps of a range modulo one limb: tokens, and fixed parts where pairs are read modulo it.
#[derive(Debug, Clone)]
pub struct RangeLimb {
    pub(crate) limb: usize,
    pub(crate) field: QuadraticField,
    pub(crate) columns: Vec<u32>,
    pub(crate) blocks: u64,
    pub(crate) pairs: Option<(PairTokens, FixedParts)>,
    pub(crate) prefixes: PrefixTokens,
}

impl RangeLimb {
    /// The columns, in the owner's order.
    pub fn columns(&self) -> &[u32] {
        &self.columns
    }

    /// Adds what is kept of other blocks.
    ///
    /// # Panics
    /// If it has other columns, or is of another limb.
    pub fn merge(&mut self, other: &Self) {
        assert_eq!((self.limb, &self.columns), (other.limb, &other.columns));
        if let (Some((tokens, fixed)), Some(more)) = (&mut self.pairs, &other.pairs) {
            tokens.merge(&self.field, &more.0);
            fixed.merge(&more.1);
        }
        self.prefixes.merge(&self.field, &other.prefixes);
        self.blocks += other.blocks;
    }
}

/// Whether ranges are those of strata: each of these columns and so many limbs.
pub(crate) fn fit(
    strata: &Strata,
    columns: &[u32],
    limbs: usize,
    ranges: &[Vec<RangeLimb>],
) -> bool {
    let fits = |(kept, range): (&Vec<RangeLimb>, &Range<u64>)| {
        let blocks = range.end - range.start;
        let fits = |(place, it): (usize, &RangeLimb)| {
            (it.limb, &it.columns[..], it.blocks) == (place, columns, blocks)
        };
        kept.len() == limbs && kept.iter().enumerate().all(fits)
    };
    let expected = strata.ranges();
    ranges.len() == expected.len() && ranges.iter().zip(expected).all(fits)
}

/// The sums of one question over a range: for each limb `M_ij = Σ_w c_i(w) c_j(w)`.
pub type Sums = Vec<Vec<u32>>;

/// What the owner keeps of the ranges of a dataset, to read the pairs that a server counts there.
pub struct PairReader {
    strata: Strata,
    columns: usize,
    /// Modulo each limb.
    points: Vec<Points>,
    /// In the order of the strata's.
    ranges: Vec<RangeReader>,
}

/// Sums that were verified, all of them, and what they are of.
pub struct VerifiedPairs<'a> {
    reader: &'a PairReader,
    /// For each sum the places of its pair, the first before the second; `None` of a column with itself.
    pairs: Vec<Option<(usize, usize)>>,
    sums: &'a [Sums],
}

impl fmt::Debug for PairReader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (columns, ranges) = (self.columns, self.ranges.len());
        write!(f, "PairReader({columns} columns, {ranges} ranges, secret)")
    }
}

impl PairReader {
    /// Of a dataset, with what is kept of each of its ranges. `None` if there are other ranges than the strata's, or
    /// they have other columns, blocks or limbs.
    pub fn new(
        key: &DatasetKey,
        strata: Strata,
        columns: &[u32],
        ranges: Vec<Vec<RangeLimb>>,
    ) -> Option<Self> {
        let bounds = strata.bounds();
        let (limbs, verified) = (bounds.limbs(2)?, VerifiedLimbs::of(bounds));
        if !fit(&strata, columns, verified.limbs(), &ranges) {
            return None;
        }
        let parameters = key.ring().parameters();
        let reader = |(kept, range): (Vec<RangeLimb>, &Range<u64>)| {
            let blocks = range.end - range.start;
            let pairs = kept.into_iter().filter_map(|it| it.pairs).collect();
            RangeReader::new(parameters, bounds.log2_supports(), blocks, pairs)
        };
        let all = ranges.into_iter().zip(strata.ranges());
        let ranges: Option<Vec<RangeReader>> = all.map(reader).collect();
        Some(Self {
            columns: columns.len(),
            points: (0..limbs)
                .map(|limb| Points::new(key, limb, columns))
                .collect(),
            ranges: ranges?,
            strata,
        })
    }

    /// Verifies the sums of all pairs of the first `columns` columns, in lexicographic order, of each range.
    ///
    /// # Errors
    /// Any other sums, in any limb of any range.
    ///
    /// # Panics
    /// If there are fewer columns.
    pub fn verify_prefix<'a>(
        &'a self,
        columns: usize,
        sums: &'a [Sums],
    ) -> Result<VerifiedPairs<'a>, PairsError> {
        let pairs = (0..columns).flat_map(|i| (i + 1..columns).map(move |j| Some((i, j))));
        self.verify(sums, pairs, |tokens, points, sums| {
            tokens.verify_prefix(points, columns, sums)
        })
    }

    /// Verifies the sums of the column at `place` with each column, itself included, of each range.
    ///
    /// # Errors
    /// Any other sums, in any limb of any range.
    ///
    /// # Panics
    /// If there is no such column.
    pub fn verify_row<'a>(
        &'a self,
        place: usize,
        sums: &'a [Sums],
    ) -> Result<VerifiedPairs<'a>, PairsError> {
        let pair = |other: usize| {
            let pair = (place.min(other), place.max(other));
            (place != other).then_some(pair)
        };
        let pairs = (0..self.columns).map(pair);
        self.verify(sums, pairs, |tokens, points, sums| {
            tokens.verify_row(points, place, sums)
        })
    }

    /// All limbs of all ranges are verified, each by itself: the time that this takes depends on public lengths only.
    fn verify<'a>(
        &'a self,
        sums: &'a [Sums],
        pairs: impl Iterator<Item = Option<(usize, usize)>>,
        is_right: impl Fn(&PairTokens, &Points, &[u32]) -> bool,
    ) -> Result<VerifiedPairs<'a>, PairsError> {
        let ranges = self.ranges.iter().zip(sums);
        let are_right = ranges.map(|(reader, sums)| reader.verify(&self.points, sums, &is_right));
        match are_right.fold(sums.len() == self.ranges.len(), |all, it| all & it) {
            true => Ok(VerifiedPairs {
                reader: self,
                pairs: pairs.collect(),
                sums,
            }),
            false => Err(PairsError::NotVerified),
        }
    }
}

impl VerifiedPairs<'_> {
    /// The supports, in the order of the sums; of a row without the column's own.
    ///
    /// # Errors
    /// Sums of another dataset than the owner's record is of.
    pub fn supports(&self) -> Result<Vec<u64>, PairsError> {
        let PairReader { strata, ranges, .. } = self.reader;
        let support = |(at, (i, j)): (usize, (usize, usize))| {
            let residue = |(reader, sums): (&RangeReader, _)| reader.residue(i, j, at, sums);
            let residues: Option<Vec<u32>> = ranges.iter().zip(self.sums).map(residue).collect();
            strata.support(residues?.into_iter())
        };
        let pairs = self.pairs.iter().enumerate();
        pairs
            .filter_map(|(at, pair)| Some((at, (*pair)?)))
            .map(|pair| support(pair).ok_or(PairsError::Impossible))
            .collect()
    }
}

/// What is kept of a range, for each limb.
struct RangeReader {
    limbs: Vec<(PairTokens, FixedParts)>,
    decoder: Decoder,
}

impl RangeReader {
    fn new(
        parameters: &Parameters,
        log2_supports: f64,
        blocks: u64,
        limbs: Vec<(PairTokens, FixedParts)>,
    ) -> Option<Self> {
        let decoder = Decoder::new(parameters, limbs.len(), blocks, log2_supports)?;
        Some(Self { limbs, decoder })
    }

    fn verify(
        &self,
        points: &[Points],
        sums: &Sums,
        is_right: impl Fn(&PairTokens, &Points, &[u32]) -> bool,
    ) -> bool {
        let limbs = self.limbs.iter().zip(points).zip(sums);
        let are_right = limbs.map(|(((tokens, _), points), sums)| is_right(tokens, points, sums));
        are_right.fold(sums.len() == self.limbs.len(), |all, it| all & it)
    }

    /// The support of a pair of places modulo `t`, whose sums are at `at`; `None` if the phase is beyond its bound.
    fn residue(&self, i: usize, j: usize, at: usize, sums: &Sums) -> Option<u32> {
        let limbs = self.limbs.iter().zip(sums);
        self.decoder
            .slot_sum(limbs.map(|((_, fixed), sums)| (sums[at], fixed.of(i, j))))
    }
}

/// The most limbs that pairs are read modulo: a phase and its modulus fit 128 bits.
const MAX_LIMBS: usize = 4;

/// From sums over evaluation points to sums of slots.
struct Decoder {
    limbs: Vec<Limb>,
    /// The product of all limbs.
    product: i128,
    /// What a phase may be at most.
    bound: i128,
    plaintext: Modulus,
    degree: i64,
}

/// What a limb needs to put a phase together from its residues (Garner 1959).
struct Limb {
    modulus: Modulus,
    /// `N^{-1}` modulo the limb.
    degree_inverse: u32,
    /// The product of the limbs before it.
    before: i128,
    /// Its inverse modulo the limb.
    before_inverse: u32,
}

impl Decoder {
    fn new(parameters: &Parameters, limbs: usize, blocks: u64, log2_supports: f64) -> Option<Self> {
        let bound = log2_phase_bound(parameters, 2, blocks, log2_supports);
        if !(1..=MAX_LIMBS.min(parameters.limb_count())).contains(&limbs)
            || bound >= parameters.log2_q(limbs) - 1.0
        {
            return None;
        }
        let mut product = 1i128;
        let limb = |&modulus: &Modulus| {
            let q = i128::from(modulus.value());
            let before = product;
            product *= q;
            Limb {
                degree_inverse: modulus.inverse(modulus.reduce(parameters.degree() as u64)),
                before,
                before_inverse: modulus.inverse(modulus.reduce((before % q) as u64)),
                modulus,
            }
        };
        let limbs = parameters.limb_moduli()[..limbs].iter().map(limb).collect();
        Some(Self {
            limbs,
            product,
            bound: bound.exp2().ceil() as i128,
            plaintext: *parameters.plaintext(),
            degree: parameters.degree() as i64,
        })
    }

    /// The sum of the slots modulo `t`, given for each limb the sum of the evaluation points of the pair's product
    /// and its fixed part. `None` if the phase is beyond its bound.
    fn slot_sum(&self, sums: impl Iterator<Item = (u32, u32)>) -> Option<u32> {
        let phase = Zeroizing::new(self.phase(sums));
        (phase.abs() <= self.bound).then(|| {
            let phase = (*phase % i128::from(self.plaintext.value())) as i64;
            let t = &self.plaintext;
            t.mul(t.reduce_signed(phase), t.reduce_signed(self.degree))
        })
    }

    /// The constant coefficient of the phase: `N^{-1}` times the sum of the evaluation points, between `−Q/2` and
    /// `Q/2`.
    fn phase(&self, sums: impl Iterator<Item = (u32, u32)>) -> i128 {
        let mut phase = 0i128;
        for (limb, (sum, fixed)) in self.limbs.iter().zip(sums) {
            let q = &limb.modulus;
            let residue = q.mul(q.add(sum, fixed), limb.degree_inverse);
            let here = q.reduce((phase % i128::from(q.value())) as u64);
            let digit = q.mul(q.sub(residue, here), limb.before_inverse);
            phase += i128::from(digit) * limb.before;
        }
        phase - self.product * i128::from(phase > self.product / 2)
    }
}

#[cfg(test)]
mod tests;
