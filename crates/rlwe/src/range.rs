//! Ranges of blocks: the sums over their ciphertext that the owner computes when encrypting, and the data kept of them
//! (docs/cryptography.md, "Verified sums"). Kept are tokens and fixed parts.

use crate::block::BlockResidues;
use crate::fingerprint::{Elements, PairTokens, Points};
use crate::fixed::{FixedParts, MaskMoments};
use crate::focus::{FocusSums, Pass, Row};
use crate::key::DatasetKey;
use crate::order::ColumnOrder;
use crate::prefix_tokens::{PrefixTokens, VerifiedLimbs};
use crate::totals::Strata;
use oboro_ring::{Blocks, Limb, QuadraticField};

/// Sums over blocks of a range, modulo one limb, computed with their ciphertext in memory.
pub struct RangeSums {
    limb: Limb,
    order: ColumnOrder,
    /// Number of blocks added less those subtracted.
    blocks: i64,
    points: Points,
    pairs: Option<PairSums>,
    weights: Elements,
    prefixes: PrefixTokens,
}

/// Sums for pairs.
struct PairSums {
    tokens: PairTokens,
    moments: MaskMoments,
    rows: FocusSums,
}

impl RangeSums {
    /// Makes sums of these columns over zero blocks.
    ///
    /// # Panics
    /// If the ring lacks the limb.
    pub fn new(key: &DatasetKey, verified: VerifiedLimbs, limb: Limb, order: &ColumnOrder) -> Self {
        let (parameters, paired) = (key.ring().parameters(), order.paired().len());
        let rows = if order.is_wide() { 0 } else { paired };
        let pairs = || PairSums {
            tokens: PairTokens::new(paired, rows),
            moments: MaskMoments::new(parameters, limb, paired),
            rows: FocusSums::new(key, limb, order),
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

    /// Adds blocks, which is faster with several at a time. If there are focus columns, all columns must
    /// [pass](Self::pass) as well.
    ///
    /// # Panics
    /// If the columns of a block do not match, or a slice does not have `N` residues.
    pub fn add(&mut self, blocks: &[BlockResidues<'_>]) {
        if let Some(pairs) = &mut self.pairs {
            for block in blocks {
                pairs.tokens.add(&self.points, block.columns);
            }
            pairs.moments.add(blocks);
        }
        self.prefixes.add(&self.points, &self.weights, blocks);
        self.blocks += blocks.len() as i64;
    }

    /// Starts a pass over all columns of blocks that are [added](Self::add) as well. Takes for each block its mask and
    /// the residues of the focus columns. `None` without focus columns, or if pairs are not kept modulo this limb.
    ///
    /// # Panics
    /// If the focus columns of a block do not match, or a slice does not have `N` residues.
    pub fn pass<'a>(
        &'a mut self,
        masks: &[&'a [u32]],
        focus: &[Vec<&'a [u32]>],
    ) -> Option<Pass<'a>> {
        let rows = &mut self.pairs.as_mut()?.rows;
        (!rows.is_empty()).then(|| Pass::new(&self.points, rows, masks, focus))
    }

    /// Adds the sums of another thread.
    ///
    /// # Panics
    /// If the columns or the limb differ.
    pub fn merge(&mut self, other: &Self) {
        assert_eq!((self.limb, &self.order), (other.limb, &other.order));
        let field = self.points.field();
        if let (Some(pairs), Some(more)) = (&mut self.pairs, &other.pairs) {
            pairs.tokens.merge(field, &more.tokens);
            pairs.moments.merge(&more.moments);
            pairs.rows.merge(field, &more.rows);
        }
        self.prefixes.merge(field, &other.prefixes);
        self.blocks += other.blocks;
    }

    /// Subtracts sums over blocks whose kept data are [merged](RangeLimb::merge) elsewhere: all of it is linear in the
    /// sums.
    ///
    /// # Panics
    /// If the columns or the limb differ.
    pub fn subtract(&mut self, other: &Self) {
        assert_eq!((self.limb, &self.order), (other.limb, &other.order));
        let field = self.points.field();
        if let (Some(pairs), Some(less)) = (&mut self.pairs, &other.pairs) {
            pairs.tokens.subtract(field, &less.tokens);
            pairs.moments.subtract(&less.moments);
            pairs.rows.subtract(field, &less.rows);
        }
        self.prefixes.subtract(field, &other.prefixes);
        self.blocks -= other.blocks;
    }

    /// Computes the data to keep.
    pub fn finish(self, key: &DatasetKey) -> RangeLimb {
        let (limb, order) = (self.limb, &self.order);
        let kept = |sums: PairSums| {
            let square = sums.moments.square();
            KeptPairs {
                rows: sums.rows.finish(key, limb, order, square),
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

/// Kept data of a range modulo one limb: tokens, and fixed parts if pairs are read modulo it.
#[derive(Debug, Clone)]
pub struct RangeLimb {
    pub(crate) limb: Limb,
    pub(crate) field: QuadraticField,
    pub(crate) order: ColumnOrder,
    pub(crate) blocks: i64,
    pub(crate) pairs: Option<KeptPairs>,
    pub(crate) prefixes: PrefixTokens,
}

/// Kept data for pairs.
#[derive(Debug, Clone)]
pub(crate) struct KeptPairs {
    pub(crate) tokens: PairTokens,
    pub(crate) fixed: FixedParts,
    /// Row of each focus column.
    pub(crate) rows: Vec<Row>,
}

impl RangeLimb {
    /// The columns, in the owner's order.
    pub fn order(&self) -> &ColumnOrder {
        &self.order
    }

    /// Returns true if the data are of `blocks` blocks.
    pub fn has_blocks(&self, blocks: u64) -> bool {
        i64::try_from(blocks) == Ok(self.blocks)
    }

    /// Adds the kept data of other blocks.
    ///
    /// # Panics
    /// If the columns or the limb differ.
    pub fn merge(&mut self, other: &Self) {
        assert_eq!((self.limb, &self.order), (other.limb, &other.order));
        if let (Some(pairs), Some(more)) = (&mut self.pairs, &other.pairs) {
            pairs.tokens.merge(&self.field, &more.tokens);
            pairs.fixed.merge(&more.fixed);
            for (row, more) in pairs.rows.iter_mut().zip(&more.rows) {
                row.merge(&self.field, more);
            }
        }
        self.prefixes.merge(&self.field, &other.prefixes);
        self.blocks += other.blocks;
    }
}

impl VerifiedLimbs {
    /// Returns the numbers for a range with these parts.
    pub(crate) fn of_parts(limbs: &[RangeLimb]) -> Self {
        let longer = |length| {
            let has = |it: &&RangeLimb| it.prefixes.has(length);
            limbs.iter().filter(has).count()
        };
        let pairs = limbs.iter().filter(|it| it.pairs.is_some()).count();
        Self([pairs, longer(3), longer(4)])
    }
}

/// Returns true if ranges match strata: each of columns in this order and of `limbs` limbs.
pub(crate) fn fit(
    strata: &Strata,
    order: &ColumnOrder,
    limbs: usize,
    ranges: &[Vec<RangeLimb>],
) -> bool {
    let fits = |(kept, range): (&Vec<RangeLimb>, &Blocks)| {
        let fits = |(limb, it): (Limb, &RangeLimb)| {
            (it.limb, &it.order, it.blocks) == (limb, order, range.len() as i64)
        };
        kept.len() == limbs && Limb::enumerate(kept).all(fits)
    };
    let expected = strata.ranges();
    ranges.len() == expected.len() && ranges.iter().zip(expected).all(fits)
}
