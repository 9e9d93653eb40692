//! What to compute for one question.
//!
//! A moment `M_{T,r}` is a path of `k` factors: the mask `r` times, then the columns of `T` in order. Moments in
//! canonical order are the leaves of a trie in preorder. A plan names the moments that are wanted; how they are cut
//! into tiles is up to the [backend](crate::Backend).

use oboro_ring::Factor;
use oboro_ring::moment::{Itemsets, MomentIndex};
use std::ops::Range;
use std::sync::Arc;

/// What to compute for one question.
#[derive(Debug, Clone)]
pub struct Plan {
    index: Arc<MomentIndex>,
    limbs: usize,
    moments: Vec<usize>,
}

impl Plan {
    /// The plan that answers `itemsets` modulo the first `limbs` limbs.
    pub fn new(itemsets: &Itemsets, limbs: usize) -> Self {
        let index = Arc::new(MomentIndex::new(itemsets));
        Self::of_moments(&index, limbs, 0..index.len())
    }

    /// The plan that computes only some of the moments of `index`, given in ascending order.
    pub fn of_moments(
        index: &Arc<MomentIndex>,
        limbs: usize,
        moments: impl IntoIterator<Item = usize>,
    ) -> Self {
        Self {
            index: Arc::clone(index),
            limbs,
            moments: moments.into_iter().collect(),
        }
    }

    /// What the numbers of moments mean.
    pub fn index(&self) -> &Arc<MomentIndex> {
        &self.index
    }

    /// The limbs to compute with.
    pub fn limbs(&self) -> usize {
        self.limbs
    }

    /// The bytes that it takes in memory besides its index.
    pub fn bytes(&self) -> usize {
        self.moments.capacity() * size_of::<usize>()
    }

    /// The moments that are wanted, ascending.
    pub fn moments(&self) -> &[usize] {
        &self.moments
    }
}

/// The factors of a moment.
pub(crate) fn path(index: &MomentIndex, moment: usize) -> impl Iterator<Item = Factor> {
    let (r, columns) = index.get(moment);
    std::iter::repeat_n(Factor::Mask, r).chain(columns.iter().copied().map(Factor::Column))
}

/// Cuts ranges of blocks into shards: runs of at most `most` blocks that no range's edge crosses, ascending, each
/// block once. Sums over a range are those of its shards, added.
pub fn shards(ranges: &[Range<u64>], most: u64) -> Vec<Range<u64>> {
    let mut edges: Vec<u64> = ranges.iter().flat_map(|it| [it.start, it.end]).collect();
    edges.sort_unstable();
    edges.dedup();
    let is_covered = |run: &Range<u64>| {
        let mut ranges = ranges.iter();
        ranges.any(|range| range.start <= run.start && run.end <= range.end)
    };
    let runs = edges.windows(2).map(|it| it[0]..it[1]).filter(is_covered);
    let cut = |run: Range<u64>| {
        let starts = run.clone().step_by(most as usize);
        starts.map(move |start| start..run.end.min(start + most))
    };
    runs.flat_map(cut).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shards_cross_no_edge_and_have_every_block_once() {
        let total_and_sample = shards(&[0..70, 0..28, 70..71], 28);
        assert_eq!(total_and_sample, [0..28, 28..56, 56..70, 70..71]);
        assert_eq!(shards(&[5..9, 20..22], 3), [5..8, 8..9, 20..22]);
        assert_eq!(shards(&[0..4, 2..6], 10), [0..2, 2..4, 4..6]);
        assert!(shards(&[], 28).is_empty() && shards(&[3..3, 7..7], 28).is_empty());
    }
}
