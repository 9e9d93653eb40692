//! Ranges of blocks: what the owner adds up over their ciphertext while encrypting, and what it keeps of that, tokens
//! and fixed parts (docs/cryptography.md, "Verified sums").

use crate::fingerprint::{Elements, PairTokens, Points};
use crate::fixed::{FixedParts, MaskMoments};
use crate::key::DatasetKey;
use crate::order::ColumnOrder;
use crate::prefixes::{PrefixTokens, VerifiedLimbs};
use crate::totals::Strata;
use crate::wide::{Pass, Wide, WideSums};
use oboro_ring::QuadraticField;
use std::ops::Range;

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
