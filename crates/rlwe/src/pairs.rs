//! Supports of pairs from one residue a limb and range, verified before they meet a secret (docs/cryptography.md,
//! "Verified sums").

use crate::fingerprint::{Elements, PairTokens, Points};
use crate::fixed::{FixedParts, MaskMoments};
use crate::key::DatasetKey;
use crate::noise::log2_phase_bound;
use crate::order::ColumnOrder;
use crate::prefixes::{PrefixTokens, VerifiedLimbs, on_threads};
use crate::totals::Strata;
use crate::wide::{Pass, Wide, WideSums};
use oboro_ring::{Modulus, Parameters, QuadraticField};
use std::fmt;
use std::num::NonZeroUsize;
use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};
use thiserror::Error;
use zeroize::Zeroizing;

/// An answer that is not shown.
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

/// A block modulo one limb: `N` residues each, in evaluation form.
#[derive(Clone, Copy)]
pub struct BlockResidues<'a> {
    /// The mask.
    pub mask: &'a [u32],
    /// The ciphertext of the columns all of whose pairs have fixed parts, in the owner's order.
    pub columns: &'a [&'a [u32]],
}

/// What the owner adds up over blocks of a range, modulo one limb, while it has their ciphertext at hand.
pub struct RangeSums {
    limb: usize,
    order: ColumnOrder,
    blocks: u64,
    points: Points,
    pairs: Option<PairSums>,
    weights: Elements,
    prefixes: PrefixTokens,
}

/// What is added up for pairs.
struct PairSums {
    tokens: PairTokens,
    moments: MaskMoments,
    wide: Option<WideSums>,
}

impl RangeSums {
    /// Those of these columns, over no blocks.
    ///
    /// # Panics
    /// If there is no such limb.
    pub fn new(
        key: &DatasetKey,
        verified: VerifiedLimbs,
        limb: usize,
        order: &ColumnOrder,
    ) -> Self {
        let (parameters, paired) = (key.ring().parameters(), order.paired().len());
        let rows = if order.is_wide() { 0 } else { paired };
        let pairs = || PairSums {
            tokens: PairTokens::new(order.columns().len(), rows),
            moments: MaskMoments::new(parameters, limb, paired),
            wide: order.is_wide().then(|| WideSums::new(key, limb, order)),
        };
        Self {
            limb,
            blocks: 0,
            points: Points::new(key, limb, order.columns()),
            pairs: verified.has_pairs(limb).then(pairs),
            weights: key.slot_weights(limb),
            prefixes: PrefixTokens::new(verified.longer(limb), paired),
            order: order.clone(),
        }
    }

    /// Adds blocks, several at a time where that is possible: it takes less time. If there are columns without fixed
    /// parts, all columns [pass](Self::pass) as well.
    ///
    /// # Panics
    /// If a block has other columns, or a slice other than `N` residues.
    pub fn add(&mut self, blocks: &[BlockResidues<'_>]) {
        if let Some(pairs) = &mut self.pairs {
            if pairs.wide.is_none() {
                let tokens = &mut pairs.tokens;
                blocks
                    .iter()
                    .for_each(|block| tokens.add(&self.points, block.columns));
            }
            pairs.moments.add(blocks);
        }
        self.prefixes.add(&self.points, &self.weights, blocks);
        self.blocks += blocks.len() as u64;
    }

    /// A pass of all columns of blocks that are [added](Self::add) as well, given for each its mask and the residues of
    /// the focus columns; `None` where nothing is kept of pairs without fixed parts.
    ///
    /// # Panics
    /// If a block has other focus columns, or a slice other than `N` residues.
    pub fn pass<'a>(
        &'a mut self,
        masks: &[&'a [u32]],
        focus: &[Vec<&'a [u32]>],
    ) -> Option<Pass<'a>> {
        let PairSums { tokens, wide, .. } = self.pairs.as_mut()?;
        let sums = (tokens, wide.as_mut()?);
        Some(Pass::new(&self.points, &self.weights, sums, masks, focus))
    }

    /// Adds the blocks that another thread has.
    ///
    /// # Panics
    /// If it has other columns, or is of another limb.
    pub fn merge(&mut self, other: &Self) {
        assert_eq!((self.limb, &self.order), (other.limb, &other.order));
        let field = self.points.field();
        if let (Some(pairs), Some(more)) = (&mut self.pairs, &other.pairs) {
            pairs.tokens.merge(field, &more.tokens);
            pairs.moments.merge(&more.moments);
            if let (Some(wide), Some(more)) = (&mut pairs.wide, &more.wide) {
                wide.merge(field, more);
            }
        }
        self.prefixes.merge(field, &other.prefixes);
        self.blocks += other.blocks;
    }

    /// What is kept of them.
    pub fn finish(self, key: &DatasetKey) -> RangeLimb {
        let (limb, order) = (self.limb, &self.order);
        let kept = |sums: PairSums| {
            let square = sums.moments.square();
            KeptPairs {
                wide: sums.wide.map(|it| it.finish(key, limb, order, square)),
                fixed: FixedParts::new(key, limb, order.paired(), &sums.moments),
                tokens: sums.tokens,
            }
        };
        RangeLimb {
            pairs: self.pairs.map(kept),
            field: *self.points.field(),
            limb,
            blocks: self.blocks,
            prefixes: self.prefixes,
            order: self.order,
        }
    }
}

/// What the owner keeps of a range modulo one limb: tokens, and fixed parts where pairs are read modulo it.
#[derive(Debug, Clone)]
pub struct RangeLimb {
    pub(crate) limb: usize,
    pub(crate) field: QuadraticField,
    pub(crate) order: ColumnOrder,
    pub(crate) blocks: u64,
    pub(crate) pairs: Option<KeptPairs>,
    pub(crate) prefixes: PrefixTokens,
}

/// What is kept of pairs.
#[derive(Debug, Clone)]
pub(crate) struct KeptPairs {
    pub(crate) tokens: PairTokens,
    pub(crate) fixed: FixedParts,
    /// If there are pairs without fixed parts.
    pub(crate) wide: Option<Wide>,
}

impl RangeLimb {
    /// The columns, in the owner's order.
    pub fn order(&self) -> &ColumnOrder {
        &self.order
    }

    /// Adds what is kept of other blocks.
    ///
    /// # Panics
    /// If it has other columns, or is of another limb.
    pub fn merge(&mut self, other: &Self) {
        assert_eq!((self.limb, &self.order), (other.limb, &other.order));
        if let (Some(pairs), Some(more)) = (&mut self.pairs, &other.pairs) {
            pairs.tokens.merge(&self.field, &more.tokens);
            pairs.fixed.merge(&more.fixed);
            if let (Some(wide), Some(more)) = (&mut pairs.wide, &more.wide) {
                wide.merge(&self.field, more);
            }
        }
        self.prefixes.merge(&self.field, &other.prefixes);
        self.blocks += other.blocks;
    }
}

/// Whether ranges are those of strata: each of columns in this order and so many limbs.
pub(crate) fn fit(
    strata: &Strata,
    order: &ColumnOrder,
    limbs: usize,
    ranges: &[Vec<RangeLimb>],
) -> bool {
    let fits = |(kept, range): (&Vec<RangeLimb>, &Range<u64>)| {
        let blocks = range.end - range.start;
        let fits = |(place, it): (usize, &RangeLimb)| {
            (it.limb, &it.order, it.blocks) == (place, order, blocks)
        };
        kept.len() == limbs && kept.iter().enumerate().all(fits)
    };
    let expected = strata.ranges();
    ranges.len() == expected.len() && ranges.iter().zip(expected).all(fits)
}

/// The sums of one question over a range: for each limb `M_ij = Σ_w c_i(w) c_j(w)`.
pub type Sums = Vec<Vec<u32>>;

/// `M_{i,1} = Σ_b a_b c_{b,i}` of one column: for each range and limb `N` residues in evaluation form.
pub type ColumnMoments = Vec<Vec<Vec<u32>>>;

/// What the owner keeps of the ranges of a dataset, to read the pairs that a server counts there.
pub struct PairReader {
    key: DatasetKey,
    strata: Strata,
    order: ColumnOrder,
    /// Modulo each limb.
    points: Vec<Points>,
    /// The weights of slots, if there are pairs without fixed parts.
    weights: Vec<Elements>,
    /// In the order of the strata's.
    ranges: Vec<RangeReader>,
}

/// Sums that were verified, all of them, and what they are of.
pub struct VerifiedPairs<'a> {
    reader: &'a PairReader,
    /// For each sum the places of its pair, the first before the second.
    pairs: Vec<(usize, usize)>,
    fixed: Fixed,
    sums: &'a [Sums],
}

/// Where fixed parts come from.
enum Fixed {
    /// All pairs of the first columns are kept.
    Pairs,
    /// The row of this focus column is kept.
    Row { place: usize, focus: usize },
    /// They were made of verified moments, for each range and limb.
    Made(Vec<Vec<FixedParts>>),
}

impl fmt::Debug for PairReader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (columns, ranges) = (self.order.columns().len(), self.ranges.len());
        write!(f, "PairReader({columns} columns, {ranges} ranges, secret)")
    }
}

impl PairReader {
    /// Of a dataset, with what is kept of each of its ranges. `None` if there are other ranges than the strata's, or
    /// they have other columns, blocks or limbs.
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
        let reader = |(kept, range): (Vec<RangeLimb>, &Range<u64>)| {
            let blocks = range.end - range.start;
            let pairs: Vec<KeptPairs> = kept.into_iter().filter_map(|it| it.pairs).collect();
            if pairs.len() != limbs {
                return None;
            }
            RangeReader::new(parameters, bounds.log2_supports(), blocks, pairs)
        };
        let all = ranges.into_iter().zip(strata.ranges());
        let ranges: Option<Vec<RangeReader>> = all.map(reader).collect();
        let weighted = if order.is_wide() { limbs } else { 0 };
        Some(Self {
            points: (0..limbs)
                .map(|limb| Points::new(key, limb, order.columns()))
                .collect(),
            weights: (0..weighted).map(|limb| key.slot_weights(limb)).collect(),
            order: order.clone(),
            ranges: ranges?,
            strata,
            key: key.clone(),
        })
    }

    /// Verifies the sums of all pairs of the first `columns` columns, in lexicographic order, of each range. All have
    /// fixed parts.
    ///
    /// # Errors
    /// Any other sums, in any limb of any range.
    ///
    /// # Panics
    /// If there are fewer columns with fixed parts.
    pub fn verify_prefix<'a>(
        &'a self,
        columns: usize,
        sums: &'a [Sums],
    ) -> Result<VerifiedPairs<'a>, PairsError> {
        assert!(
            columns <= self.order.paired().len(),
            "pairs with fixed parts"
        );
        match self.is_prefix(columns, sums) {
            true => Ok(self.verified(pairs_of(columns), Fixed::Pairs, sums)),
            false => Err(PairsError::NotVerified),
        }
    }

    /// Verifies the sums of the column at `place` with each other column, of each range.
    ///
    /// # Errors
    /// Any other sums, in any limb of any range.
    ///
    /// # Panics
    /// If there is no row of the column.
    pub fn verify_row<'a>(
        &'a self,
        place: usize,
        sums: &'a [Sums],
    ) -> Result<VerifiedPairs<'a>, PairsError> {
        let focus = self.order.focus().binary_search(&place);
        let is_right = |kept: &KeptPairs, points: &Points, sums: &[u32]| match &kept.wide {
            None => kept.tokens.verify_row(points, place, sums),
            Some(wide) => {
                let focus = focus.expect("a row that is kept");
                points.verify_row(wide.rows[focus].token, place, sums)
            }
        };
        if !self.all_are_right(sums, is_right) {
            return Err(PairsError::NotVerified);
        }
        let others = (0..self.order.columns().len()).filter(|&other| other != place);
        let pairs = others.map(|other| (place.min(other), place.max(other)));
        let fixed = focus.map_or(Fixed::Pairs, |focus| Fixed::Row { place, focus });
        Ok(self.verified(pairs.collect(), fixed, sums))
    }

    /// Whether these are the moments `M_{i,1}` of the column at `place`, in each range and limb. Others are taken for them
    /// with probability at most `1/q²`, however they were chosen.
    ///
    /// # Panics
    /// If there is no such column, or all pairs have fixed parts.
    pub fn is_column(&self, place: usize, moments: &[Vec<Vec<u32>>]) -> bool {
        let mut are_right = moments.len() == self.ranges.len();
        for (range, moments) in self.ranges.iter().zip(moments) {
            are_right &= moments.len() == range.limbs.len();
            let limbs = range.limbs.iter().zip(&self.points).zip(&self.weights);
            for (((kept, points), weights), residues) in limbs.zip(moments) {
                let wide = kept.wide.as_ref().expect("pairs without fixed parts");
                are_right &= residues.len() == weights.a.len()
                    && points.are_residues(residues)
                    && weights.dot(points.field(), residues) == wide.columns[place];
            }
        }
        are_right
    }

    /// Whether this is the moment `M_{∅,2}`, in each range and limb.
    ///
    /// # Panics
    /// If all pairs have fixed parts.
    pub fn is_mask_squared(&self, moment: &[Vec<Vec<u32>>]) -> bool {
        let wide = |it: &KeptPairs| it.wide.as_ref().map(|it| it.mask_squared.clone());
        let kept = self.ranges.iter().map(|it| it.limbs.iter().map(wide));
        let kept = kept.map(|limbs| {
            limbs
                .collect::<Option<Vec<_>>>()
                .expect("pairs without fixed parts")
        });
        kept.eq(moment.iter().cloned())
    }

    /// Verifies the sums of all pairs of the first `columns` columns, in lexicographic order, of each range, and the
    /// moments `M_{i,1}` of each of these columns; makes fixed parts of them.
    ///
    /// # Errors
    /// Any other sums or moments, in any limb of any range.
    ///
    /// # Panics
    /// If there are fewer columns, or all pairs have fixed parts.
    pub fn verify_wide_prefix<'a>(
        &'a self,
        columns: usize,
        sums: &'a [Sums],
        moments: &[ColumnMoments],
        threads: NonZeroUsize,
    ) -> Result<VerifiedPairs<'a>, PairsError> {
        let each = moments.iter().enumerate();
        let are_columns = each.map(|(place, it)| self.is_column(place, it));
        let are_columns = are_columns.fold(moments.len() == columns, |all, it| all & it);
        if !(self.is_prefix(columns, sums) & are_columns) {
            return Err(PairsError::NotVerified);
        }
        let limbs = self.points.len();
        let jobs: Vec<(usize, usize)> = (0..self.ranges.len())
            .flat_map(|range| (0..limbs).map(move |limb| (range, limb)))
            .collect();
        let next = AtomicUsize::new(0);
        let parameters = self.key.ring().parameters();
        let work = || {
            let mut made = Vec::new();
            while let Some(&(range, limb)) = jobs.get(next.fetch_add(1, Ordering::Relaxed)) {
                let wide = self.ranges[range].limbs[limb].wide.as_ref();
                let mask_squared = wide
                    .expect("pairs without fixed parts")
                    .mask_squared
                    .clone();
                let residues = moments.iter().map(|it| it[range][limb].clone());
                let moments = MaskMoments::of(parameters, limb, residues.collect(), mask_squared);
                let columns = &self.order.columns()[..columns];
                let key = self
                    .key
                    .with_secret_generation(self.strata.secret_generations()[range]);
                made.push((
                    (range, limb),
                    FixedParts::new(&key, limb, columns, &moments),
                ));
            }
            made
        };
        let mut made = on_threads(threads, jobs.len(), work).concat();
        made.sort_unstable_by_key(|it| it.0);
        let mut made = made.into_iter().map(|it| it.1);
        let range = |_| made.by_ref().take(limbs).collect();
        let fixed = Fixed::Made((0..self.ranges.len()).map(range).collect());
        Ok(self.verified(pairs_of(columns), fixed, sums))
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
        self.all_are_right(sums, |kept, points, sums| {
            kept.tokens.verify_prefix(points, columns, sums)
        })
    }

    /// All limbs of all ranges are verified, each by itself: the time that this takes depends on public lengths only.
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

/// All pairs of so many places, in lexicographic order.
fn pairs_of(places: usize) -> Vec<(usize, usize)> {
    let of = |i| (i + 1..places).map(move |j| (i, j));
    (0..places).flat_map(of).collect()
}

impl VerifiedPairs<'_> {
    /// The supports, in the order of the sums.
    ///
    /// # Errors
    /// Sums of another dataset than the owner's record is of.
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

    /// That of a pair of places in a range, modulo a limb.
    fn fixed_part(&self, range: usize, limb: usize, (i, j): (usize, usize)) -> u32 {
        let kept = &self.reader.ranges[range].limbs[limb];
        match (&self.fixed, &kept.wide) {
            (Fixed::Made(made), _) => made[range][limb].of(i, j),
            (Fixed::Row { place, focus }, Some(wide)) => {
                let other = if i == *place { j } else { i };
                wide.rows[*focus].parts[other]
            }
            _ => kept.fixed.of(i, j),
        }
    }
}

/// What is kept of a range, for each limb.
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

    /// The support modulo `t` of the pair whose sums are at `at`, given its fixed part modulo each limb; `None` if the
    /// phase is beyond its bound.
    fn residue(&self, at: usize, sums: &Sums, fixed: impl Fn(usize) -> u32) -> Option<u32> {
        let limbs = sums.iter().enumerate();
        self.decoder
            .slot_sum(limbs.map(|(limb, sums)| (sums[at], fixed(limb))))
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
