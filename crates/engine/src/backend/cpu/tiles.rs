//! A plan cut into tiles, as processors compute it.
//!
//! Leaves of the trie under one inner node (a *branch*) share the product of all factors but the last. A *tile* is a
//! batch of the wanted moments, few enough for its sums to stay in the cache. It is compiled to two
//! [programs](super::program), one for its scalars and one for its polynomials. If the factors of all tiles do not fit
//! into memory together, tiles are grouped into [passes](super::passes) whose factors do.

use super::passes;
use super::program::{Branch, Program, heap_bytes};
use crate::backend::{EngineError, Reserve};
use crate::plan::{Plan, path};
use oboro_ring::Factor;
use oboro_ring::moment::MomentIndex;
use oboro_ring::vector::PREFIXES;
use std::collections::BTreeSet;

/// Scalar moments in a tile without polynomials.
const SCALARS_PER_TILE: usize = 4096;
/// Polynomial moments in a tile without scalars: their sums over one chunk of slots take 256 KiB.
const POLYNOMIALS_PER_TILE: usize = 32;
/// Number of tasks of the last shard; small ones let threads finish at about the same time.
const LAST_TASKS: usize = 8;
/// Largest number of parts of one tile in that shard: each reads most of the columns again.
const PARTS: usize = 4;

/// Tiles of a plan.
#[derive(Debug, Clone)]
pub struct Tiles {
    limbs: usize,
    passes: Vec<Pass>,
}

/// Moments whose factors are in memory together.
#[derive(Debug, Clone)]
pub(crate) struct Pass {
    tiles: Vec<Tile>,
    /// Smaller tiles of these moments for the last shard, if `tiles` are too few for it.
    last_tiles: Option<Vec<Tile>>,
}

/// Batch of moments that are evaluated together.
#[derive(Debug, Clone)]
pub(crate) struct Tile {
    /// Numbers in canonical order, ascending: scalars come first.
    pub(crate) moments: Vec<usize>,
    /// Number of scalars among them.
    pub(crate) scalar_count: usize,
    /// Distinct factors; programs name them by position.
    pub(crate) factors: Vec<Factor>,
    /// Sums of the scalar moments.
    pub(crate) scalars: Program,
    /// Sums of the polynomial moments.
    pub(crate) polynomials: Program,
}

impl Tiles {
    /// Cuts a plan, with memory for `factors` factors [at a time](crate::Source::factors_at_a_time). If the longest
    /// itemset has more, so have the tiles.
    pub fn new(plan: &Plan, factors: usize) -> Self {
        Self::within(plan, factors, &mut |_| Ok(())).expect("nothing is refused")
    }

    /// As [`new`](Self::new), with memory from `reserve`.
    ///
    /// # Errors
    /// The error of `reserve`.
    pub fn within(
        plan: &Plan,
        factors: usize,
        reserve: &mut Reserve<'_>,
    ) -> Result<Self, EngineError> {
        let index = plan.index();
        let passes = passes::cut(index, plan.moments().to_vec(), factors);
        reserve(passes.len() * size_of::<Pass>())?;
        let mut tiles = Self {
            limbs: plan.limbs(),
            passes: Vec::with_capacity(passes.len()),
        };
        for pass in &passes {
            tiles.passes.push(Pass::new(index, pass, reserve)?);
        }
        Ok(tiles)
    }

    /// Number of bytes in memory.
    pub fn bytes(&self) -> usize {
        let all =
            |pass: &Pass| bytes_of(&pass.tiles) + pass.last_tiles.as_ref().map_or(0, bytes_of);
        heap_bytes(&self.passes) + self.passes.iter().map(all).sum::<usize>()
    }

    /// Number of limbs to compute with.
    pub(crate) fn limbs(&self) -> usize {
        self.limbs
    }

    /// The passes; at least one, if anything is to be computed.
    pub(crate) fn passes(&self) -> &[Pass] {
        &self.passes
    }
}

impl Pass {
    fn new(
        index: &MomentIndex,
        moments: &[usize],
        reserve: &mut Reserve<'_>,
    ) -> Result<Self, EngineError> {
        let mut tile_of = |moments: &[usize]| -> Result<Tile, EngineError> {
            let tile = Tile::new(index, moments.to_vec());
            reserve(size_of::<Tile>() + tile.bytes())?;
            Ok(tile)
        };
        let mut tiles = Vec::new();
        let (mut first, mut share) = (0, 0.0);
        for (number, &moment) in moments.iter().enumerate() {
            let most = match index.get(moment).0 {
                0 => SCALARS_PER_TILE,
                _ => POLYNOMIALS_PER_TILE,
            };
            if share + 1.0 / most as f64 > 1.0 {
                tiles.push(tile_of(&moments[first..number])?);
                (first, share) = (number, 0.0);
            }
            share += 1.0 / most as f64;
        }
        if first < moments.len() {
            tiles.push(tile_of(&moments[first..])?);
        }
        tiles.shrink_to_fit();
        let last_tiles = match (LAST_TASKS / tiles.len().max(1)).clamp(1, PARTS) {
            1 => None,
            parts => {
                let mut cut = Vec::with_capacity(tiles.len() * parts);
                for tile in &tiles {
                    for part in tile.moments.chunks(tile.moments.len().div_ceil(parts)) {
                        cut.push(tile_of(part)?);
                    }
                }
                cut.shrink_to_fit();
                Some(cut)
            }
        };
        Ok(Self { tiles, last_tiles })
    }

    /// The distinct factors of all tiles, ascending.
    pub(crate) fn factors(&self) -> Vec<Factor> {
        let factors = self.tiles.iter().flat_map(|tile| &tile.factors);
        let distinct: BTreeSet<Factor> = factors.copied().collect();
        distinct.into_iter().collect()
    }

    pub(crate) fn tiles(&self) -> &[Tile] {
        &self.tiles
    }

    pub(crate) fn last_tiles(&self) -> &[Tile] {
        self.last_tiles.as_ref().unwrap_or(&self.tiles)
    }
}

fn bytes_of(tiles: &Vec<Tile>) -> usize {
    heap_bytes(tiles) + tiles.iter().map(Tile::bytes).sum::<usize>()
}

impl Tile {
    fn new(index: &MomentIndex, moments: Vec<usize>) -> Self {
        let path = |&moment: &usize| path(index, moment).collect();
        let paths: Vec<Vec<Factor>> = moments.iter().map(path).collect();
        let distinct: BTreeSet<Factor> = paths.iter().flatten().copied().collect();
        let factors: Vec<Factor> = distinct.into_iter().collect();
        let position = |f: &Factor| {
            factors
                .binary_search(f)
                .expect("all factors were collected")
        };
        let paths: Vec<Vec<usize>> = paths
            .iter()
            .map(|path| path.iter().map(position).collect())
            .collect();
        let scalar_count = moments.partition_point(|&moment| index.get(moment).0 == 0);
        let (scalars, polynomials) = paths.split_at(scalar_count);
        let program = Program::new(&Branch::all(scalars), PREFIXES);
        debug_assert_eq!(program.sums().count(), scalar_count);
        Self {
            scalars: program,
            polynomials: Program::new(&Branch::all(polynomials), 1),
            moments,
            scalar_count,
            factors,
        }
    }

    fn bytes(&self) -> usize {
        let programs = self.scalars.bytes() + self.polynomials.bytes();
        heap_bytes(&self.moments) + heap_bytes(&self.factors) + programs
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use oboro_ring::Column;
    use oboro_ring::moment::Itemsets;
    use std::sync::Arc;

    #[test]
    fn tiles_cover_what_is_wanted_once() {
        let pairs = Itemsets::all_of(&Vec::from_iter(Column::first(130)), 2).unwrap();
        let index = Arc::new(MomentIndex::new(&pairs));
        for step in [1, 3] {
            let wanted: Vec<usize> = (0..index.len()).step_by(step).collect();
            let plan = Plan::of_moments(&index, 2, wanted.iter().copied());
            let tiles = Tiles::new(&plan, usize::MAX);
            let [pass] = tiles.passes() else {
                panic!("{} passes", tiles.passes().len())
            };
            let tiles = pass.tiles().iter();
            let covered: Vec<usize> = tiles
                .flat_map(|tile| tile.moments.iter().copied())
                .collect();
            assert_eq!(covered, wanted);
            let last = pass.last_tiles().iter();
            let covered: Vec<usize> = last.flat_map(|tile| tile.moments.clone()).collect();
            assert_eq!(covered, wanted);
            assert!(pass.tiles().len() > 2);
            for tile in pass.tiles() {
                let polynomials = tile.moments.len() - tile.scalar_count;
                assert!(tile.scalar_count <= SCALARS_PER_TILE);
                assert!(polynomials <= POLYNOMIALS_PER_TILE);
            }
        }
    }

    #[test]
    fn a_small_question_is_one_tile() {
        let itemsets = Itemsets::new(2, [0, 1, 0, 2, 1, 2].map(Column).to_vec(), 3).unwrap();
        let tiles = Tiles::new(&Plan::new(&itemsets, 2), usize::MAX);
        let pass = &tiles.passes()[0];
        let [tile] = pass.tiles() else {
            panic!("{} tiles", pass.tiles().len())
        };
        assert_eq!((tile.moments.len(), tile.scalar_count), (7, 3));
        assert_eq!(tile.factors.len(), 4);
        let last = pass.last_tiles().iter();
        assert_eq!(
            Vec::from_iter(last.map(|tile| tile.moments.len())),
            [2, 2, 2, 1]
        );
    }
}
