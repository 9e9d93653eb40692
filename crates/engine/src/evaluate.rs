//! One tile over one range of blocks modulo one limb.
//!
//! The loop nest, once: chunks of slots, then blocks, then the trie. A chunk of every factor of a
//! block fits the first-level cache, the tile's sums over a chunk the second; sums are 64-bit and
//! reduced only when they might overflow.

use crate::plan::{Branch, Shape, Tile};
use oboro_ring::{Modulus, vector};
use oboro_store::Panel;
use std::ops::Range;
use std::sync::Arc;

/// Slots worked on at a time: 4 KiB of each factor.
const CHUNK: usize = 1024;

/// The panels of a tile's factors within one segment.
pub(crate) struct Piece {
    /// Blocks counted from the segment's first.
    pub(crate) blocks: Range<usize>,
    /// One for each of the tile's factors.
    pub(crate) panels: Vec<Arc<Panel>>,
}

/// Buffers of one worker, kept between tasks.
#[derive(Default)]
pub struct Workspace {
    /// Products of the first two, three, … factors of the present branch over one chunk.
    products: Vec<Vec<u32>>,
    /// Sums of the polynomial moments over one chunk.
    sums: Vec<u64>,
}

/// The moments of `tile` over `pieces`: a residue for each scalar, `degree` for each polynomial.
pub(crate) fn evaluate(
    tile: &Tile,
    q: &Modulus,
    degree: usize,
    pieces: &[Piece],
    workspace: &mut Workspace,
) -> Vec<u32> {
    let depth = tile
        .branches
        .iter()
        .map(|b| b.prefix.len())
        .max()
        .unwrap_or(0);
    workspace.products.resize_with(depth, || vec![0; CHUNK]);
    let each = match tile.shape {
        Shape::Scalar => 1,
        Shape::Polynomial => degree,
    };
    let mut moments = vec![0; tile.leaves.len() * each];
    let mut slots = 0..CHUNK.min(degree);
    while !slots.is_empty() {
        match tile.shape {
            Shape::Scalar => scalars(
                tile,
                q,
                degree,
                &slots,
                pieces,
                &mut workspace.products,
                &mut moments,
            ),
            Shape::Polynomial => {
                polynomials(tile, q, degree, &slots, pieces, workspace, &mut moments)
            }
        }
        slots = slots.end..degree.min(slots.end + CHUNK);
    }
    moments
}

/// Adds the dot products over a chunk of slots of all blocks.
fn scalars(
    tile: &Tile,
    q: &Modulus,
    degree: usize,
    slots: &Range<usize>,
    pieces: &[Piece],
    products: &mut [Vec<u32>],
    moments: &mut [u32],
) {
    for_each_block(pieces, degree, slots, |factor| {
        walk(tile, q, products, factor, |prefix, leaf, last| {
            let sum = match prefix {
                Some(prefix) => vector::dot(q, prefix, last),
                None => vector::sum(q, last),
            };
            moments[leaf] = q.add(moments[leaf], sum);
        });
    });
}

/// Writes the sums over all blocks for a chunk of slots.
fn polynomials(
    tile: &Tile,
    q: &Modulus,
    degree: usize,
    slots: &Range<usize>,
    pieces: &[Piece],
    workspace: &mut Workspace,
    moments: &mut [u32],
) {
    let Workspace { products, sums } = workspace;
    let width = slots.len();
    sums.clear();
    sums.resize(tile.leaves.len() * width, 0);
    let mut lazy = 0;
    for_each_block(pieces, degree, slots, |factor| {
        if lazy == vector::LAZY_SUMS - 1 {
            vector::fold(q, sums);
            lazy = 0;
        }
        lazy += 1;
        walk(tile, q, products, factor, |prefix, leaf, last| {
            let sums = &mut sums[leaf * width..(leaf + 1) * width];
            match prefix {
                Some(prefix) => vector::multiply_accumulate(prefix, last, sums),
                None => vector::accumulate(last, sums),
            }
        });
    });
    for (leaf, sums) in sums.chunks_exact(width).enumerate() {
        vector::reduce_into(
            q,
            sums,
            &mut moments[leaf * degree + slots.start..leaf * degree + slots.end],
        );
    }
}

/// Calls `visit` for every block with a function from a factor's position to its chunk of slots.
fn for_each_block<'p>(
    pieces: &'p [Piece],
    degree: usize,
    slots: &Range<usize>,
    mut visit: impl FnMut(&dyn Fn(usize) -> &'p [u32]),
) {
    for piece in pieces {
        for block in piece.blocks.clone() {
            visit(&|factor| &piece.panels[factor].block(block, degree)[slots.clone()]);
        }
    }
}

/// Walks the trie over one chunk of one block: `leaf` gets the product of all factors but the
/// last (`None` if there is only one), the moment's position in the tile and the last factor.
fn walk<'p>(
    tile: &Tile,
    q: &Modulus,
    products: &mut [Vec<u32>],
    factor: &dyn Fn(usize) -> &'p [u32],
    mut leaf: impl FnMut(Option<&[u32]>, usize, &[u32]),
) {
    for branch in &tile.branches {
        multiply_out(branch, q, products, factor);
        let prefix = match branch.prefix.as_slice() {
            [] => None,
            [only] => Some(factor(*only)),
            longer => {
                let last = longer.len() - 1;
                Some(&products[last][..factor(longer[last]).len()])
            }
        };
        for position in branch.leaves.clone() {
            leaf(prefix, position, factor(tile.leaves[position]));
        }
    }
}

/// Makes `products[i]` the product of the branch's first `i + 1` factors, for `i ≥ 1`, keeping
/// those shared with the branch before.
fn multiply_out<'p>(
    branch: &Branch,
    q: &Modulus,
    products: &mut [Vec<u32>],
    factor: &dyn Fn(usize) -> &'p [u32],
) {
    for i in branch.shared.max(1)..branch.prefix.len() {
        let last = factor(branch.prefix[i]);
        let (before, after) = products.split_at_mut(i);
        let first = match i {
            1 => factor(branch.prefix[0]),
            _ => &before[i - 1][..last.len()],
        };
        vector::multiply(q, first, last, &mut after[0][..last.len()]);
    }
}
