//! Moments to compute for one question.
//!
//! A moment `M_{T,r}` is a path of `k` factors: the mask `r` times, then the columns of `T` in order. Moments in
//! canonical order are the leaves of a trie in preorder. A plan names the wanted moments; the [backend](crate::Backend)
//! cuts them into tiles.

use oboro_ring::moment::{Itemsets, MomentIndex};
use oboro_ring::{Blocks, Factor};
use std::sync::Arc;

/// Moments to compute for one question.
#[derive(Debug, Clone)]
pub struct Plan {
    index: Arc<MomentIndex>,
    limbs: usize,
    moments: Vec<usize>,
}

impl Plan {
    /// Plans the moments of `itemsets` modulo the first `limbs` limbs.
    pub fn new(itemsets: &Itemsets, limbs: usize) -> Self {
        let index = Arc::new(MomentIndex::new(itemsets));
        Self::of_moments(&index, limbs, 0..index.len())
    }

    /// Plans only some of the moments of `index`, given in ascending order.
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

    /// The meaning of the moments' numbers.
    pub fn index(&self) -> &Arc<MomentIndex> {
        &self.index
    }

    /// Number of limbs to compute with.
    pub fn limbs(&self) -> usize {
        self.limbs
    }

    /// Number of bytes in memory without the index.
    pub fn bytes(&self) -> usize {
        self.moments.capacity() * size_of::<usize>()
    }

    /// The wanted moments, ascending.
    pub fn moments(&self) -> &[usize] {
        &self.moments
    }
}

/// Factors of a moment.
pub(crate) fn path(index: &MomentIndex, moment: usize) -> impl Iterator<Item = Factor> {
    let (r, columns) = index.get(moment);
    std::iter::repeat_n(Factor::Mask, r).chain(columns.iter().copied().map(Factor::Column))
}

/// Cuts ranges of blocks into shards: runs of at most `most` blocks that no range's edge crosses, ascending, each block
/// once. Sums over a range are those of its shards, added.
pub fn shards(ranges: &[Blocks], most: u64) -> Vec<Blocks> {
    let mut edges: Vec<u64> = ranges.iter().flat_map(|it| [it.start, it.end]).collect();
    edges.sort_unstable();
    edges.dedup();
    let is_covered = |&run: &Blocks| ranges.iter().any(|range| range.contain(run));
    let runs = edges.windows(2).map(|it| Blocks::from(it[0]..it[1]));
    let runs = runs.filter(is_covered);
    runs.flat_map(|run| run.runs(most)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ops::Range;

    #[test]
    fn shards_cross_no_edge_and_have_every_block_once() {
        fn assert_cut(ranges: &[Range<u64>], most: u64, expected: &[Range<u64>]) {
            let [ranges, expected] =
                [ranges, expected].map(|it| it.iter().cloned().map(Blocks::from));
            assert!(
                shards(&Vec::from_iter(ranges), most)
                    .into_iter()
                    .eq(expected)
            );
        }
        // A total and its sample.
        assert_cut(
            &[0..70, 0..28, 70..71],
            28,
            &[0..28, 28..56, 56..70, 70..71],
        );
        assert_cut(&[5..9, 20..22], 3, &[5..8, 8..9, 20..22]);
        assert_cut(&[0..4, 2..6], 10, &[0..2, 2..4, 4..6]);
        assert_cut(&[], 28, &[]);
        assert_cut(&[3..3, 7..7], 28, &[]);
    }
}
