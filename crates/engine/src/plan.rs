//! The trie of what was asked for, cut into tiles.
//!
//! A moment `M_{T,r}` is a path of `k` factors: the mask `r` times, then the columns of `T` in
//! order. Moments in canonical order are the leaves of a trie in preorder; leaves under one inner
//! node (a *branch*) share the product of all factors but the last, and neighbouring branches
//! share the beginning of it, so each inner node is multiplied out once. A *tile* is a run of
//! moments with the same power of the mask, few enough for its sums to stay in the cache.

use oboro_ring::moment::{Itemsets, MomentIndex};
use std::collections::BTreeSet;
use std::ops::Range;

/// Polynomial moments in a tile: their sums over one chunk of slots take half a megabyte.
const POLYNOMIALS_PER_TILE: usize = 64;
/// Scalar moments in a tile.
const SCALARS_PER_TILE: usize = 4096;

/// A factor of a product: the mask counts as one more item.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Factor {
    /// The mask of the block.
    Mask,
    /// A column of the dataset.
    Column(u32),
}

/// What to compute for one question.
#[derive(Debug, Clone)]
pub struct Plan {
    level: usize,
    limbs: usize,
    tiles: Vec<Tile>,
}

/// A run of moments that is evaluated together.
#[derive(Debug, Clone)]
pub(crate) struct Tile {
    /// In canonical order; all with the same power of the mask.
    pub(crate) moments: Range<usize>,
    /// Whether the moments are scalars (the mask does not occur) or polynomials.
    pub(crate) shape: Shape,
    /// The distinct factors; branches name them by position.
    pub(crate) factors: Vec<Factor>,
    pub(crate) branches: Vec<Branch>,
    /// The last factor of each moment.
    pub(crate) leaves: Vec<usize>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Shape {
    Scalar,
    Polynomial,
}

/// An inner node whose children are leaves.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Branch {
    /// All factors but the last.
    pub(crate) prefix: Vec<usize>,
    /// How many of them the preceding branch of the tile begins with too.
    pub(crate) shared: usize,
    /// Its leaves, counted within the tile.
    pub(crate) leaves: Range<usize>,
}

impl Plan {
    /// The plan that answers `itemsets` modulo the first `limbs` limbs.
    pub fn new(itemsets: &Itemsets, limbs: usize) -> Self {
        let index = MomentIndex::new(itemsets);
        let level = index.level();
        let tiles = (0..=level)
            .flat_map(|r| {
                let (shape, step) = match r {
                    0 => (Shape::Scalar, SCALARS_PER_TILE),
                    _ => (Shape::Polynomial, POLYNOMIALS_PER_TILE),
                };
                let rank = index.rank(r);
                rank.clone()
                    .step_by(step)
                    .map(move |start| (shape, start..rank.end.min(start + step)))
            })
            .map(|(shape, moments)| Tile::new(&index, shape, moments))
            .collect();
        Self {
            level,
            limbs,
            tiles,
        }
    }

    /// The length of the itemsets asked for.
    pub fn level(&self) -> usize {
        self.level
    }

    /// The limbs to compute with.
    pub fn limbs(&self) -> usize {
        self.limbs
    }

    pub(crate) fn tiles(&self) -> &[Tile] {
        &self.tiles
    }
}

impl Tile {
    fn new(index: &MomentIndex, shape: Shape, moments: Range<usize>) -> Self {
        let path = |moment: usize| -> Vec<Factor> {
            let (r, columns) = index.get(moment);
            std::iter::repeat_n(Factor::Mask, r)
                .chain(columns.iter().map(|&c| Factor::Column(c)))
                .collect()
        };
        let paths: Vec<Vec<Factor>> = moments.clone().map(path).collect();
        let distinct: BTreeSet<Factor> = paths.iter().flatten().copied().collect();
        let factors: Vec<Factor> = distinct.into_iter().collect();
        let position = |f: &Factor| {
            factors
                .binary_search(f)
                .expect("all factors were collected")
        };
        let mut branches: Vec<Branch> = Vec::new();
        let mut leaves = Vec::with_capacity(paths.len());
        for path in &paths {
            let (last, prefix) = path.split_last().expect("itemsets have at least one item");
            let prefix: Vec<usize> = prefix.iter().map(position).collect();
            leaves.push(position(last));
            match branches.last_mut().filter(|branch| branch.prefix == prefix) {
                Some(branch) => branch.leaves.end += 1,
                None => {
                    let before = branches.last().map_or(&[][..], |branch| &branch.prefix);
                    let shared = before
                        .iter()
                        .zip(&prefix)
                        .take_while(|(a, b)| a == b)
                        .count();
                    branches.push(Branch {
                        prefix,
                        shared,
                        leaves: leaves.len() - 1..leaves.len(),
                    });
                }
            }
        }
        Self {
            moments,
            shape,
            factors,
            branches,
            leaves,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn branches_share_prefixes() {
        let itemsets = Itemsets::new(3, vec![0, 1, 2, 0, 1, 3, 0, 2, 3, 1, 2, 3], 4).unwrap();
        let plan = Plan::new(&itemsets, 3);
        let scalar = &plan.tiles()[0];
        assert_eq!(
            scalar.factors,
            (0..4).map(Factor::Column).collect::<Vec<_>>()
        );
        let shape: Vec<_> = scalar
            .branches
            .iter()
            .map(|b| (b.prefix.as_slice(), b.shared, b.leaves.clone()))
            .collect();
        assert_eq!(
            shape,
            [
                (&[0, 1][..], 0, 0..2),
                (&[0, 2], 1, 2..3),
                (&[1, 2], 0, 3..4)
            ]
        );
        // r = 1: the mask, then each pair; r = 3: the mask three times, its own prefix.
        let pairs = &plan.tiles()[1];
        assert_eq!(
            (pairs.moments.clone(), pairs.factors[0]),
            (4..10, Factor::Mask)
        );
        assert!(pairs.branches.iter().skip(1).all(|b| b.shared == 1));
        let cube = plan.tiles().last().unwrap();
        assert_eq!(
            cube.branches,
            [Branch {
                prefix: vec![0, 0],
                shared: 0,
                leaves: 0..1
            }]
        );
    }

    #[test]
    fn tiles_cover_every_moment_once() {
        let flat: Vec<u32> = (0..130)
            .flat_map(|i| (i + 1..130).flat_map(move |j| [i, j]))
            .collect();
        let itemsets = Itemsets::new(2, flat, 130).unwrap();
        let plan = Plan::new(&itemsets, 2);
        let mut next = 0;
        for tile in plan.tiles() {
            assert_eq!(tile.moments.start, next);
            assert_eq!(tile.leaves.len(), tile.moments.len());
            assert_eq!(tile.branches.last().unwrap().leaves.end, tile.leaves.len());
            next = tile.moments.end;
        }
        assert_eq!(next, MomentIndex::new(&itemsets).len());
    }
}
