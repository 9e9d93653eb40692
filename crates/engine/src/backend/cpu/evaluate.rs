//! Evaluates one tile over one range of blocks modulo one limb.
//!
//! The loop nest is chunks of slots, then blocks four at a time, then the tile's programs. A chunk of a dozen factors
//! of a block fits the first-level cache. Chunks of the blocks in progress and the tile's sums over a chunk fit the
//! second. Sums are 64-bit and reduced only when they might overflow; polynomial sums take the products of four blocks
//! in one pass. Once the buffers of the [`Workspace`] have grown, nothing is allocated.

use super::program::{LEAVES_OF_STEP, Operand, Program, Step};
use super::tiles::Tile;
use crate::backend::Batch;
use oboro_ring::vector::{AHEAD, LEAVES, PREFIXES, Sum};
use oboro_ring::{Modulus, vector};
use std::ops::Range;

/// Slots per chunk: 4 KiB of each factor.
const CHUNK: usize = 1024;
/// Blocks whose products a polynomial sum takes in one pass.
const BLOCKS: usize = 4;

/// Buffers of one evaluation, reused; each thread has a set.
#[derive(Default)]
pub struct Workspace {
    node: usize,
    degree: usize,
    limbs: usize,
    /// Panels of the tile's factors.
    batch: Batch,
    /// All residues of each factor of each block. Empty between evaluations, as are `chunks` and `ahead`.
    rows: Vec<&'static [u32]>,
    /// A chunk of each factor of up to four blocks.
    chunks: Vec<&'static [u32]>,
    /// A chunk of each factor of the blocks after these.
    ahead: Vec<&'static [u32]>,
    /// Products over a chunk, for each of up to four blocks.
    products: Vec<Vec<u32>>,
    /// Scalar sums, in the order of the program's tiles.
    scalars: Vec<Sum>,
    /// Polynomial sums over one chunk.
    polynomials: Vec<u64>,
    /// Moments, each limb after limb.
    residues: Vec<u32>,
}

/// A chunk of ones: the empty product.
static ONES: [u32; CHUNK] = [1; CHUNK];

impl Workspace {
    /// Returns a workspace for a thread that runs on `node`.
    pub fn on(node: usize) -> Self {
        Self {
            node,
            ..Self::default()
        }
    }

    /// The node of the workspace's thread.
    pub(crate) fn node(&self) -> usize {
        self.node
    }

    /// Resizes the buffers for the moments of a tile.
    pub(crate) fn begin(&mut self, tile: &Tile, limbs: usize, degree: usize) {
        (self.degree, self.limbs) = (degree, limbs);
        self.batch.clear();
        let polynomials = tile.moments.len() - tile.scalar_count;
        let residues = (tile.scalar_count + polynomials * degree) * limbs;
        // Every residue is overwritten; old values need not be cleared.
        self.residues.resize(residues, 0);
        let buffers = BLOCKS * tile.scalars.products.max(tile.polynomials.products);
        if self.products.len() < buffers {
            self.products.resize_with(buffers, || vec![0; CHUNK]);
        }
    }

    /// The panels to evaluate next.
    pub(crate) fn batch(&mut self) -> &mut Batch {
        &mut self.batch
    }

    /// Computes the moments of `tile` over all blocks of the batch, modulo one limb, and drops the panels.
    pub(crate) fn evaluate(&mut self, tile: &Tile, q: &Modulus, limb: usize) {
        let polynomials = tile.moments.len() - tile.scalar_count;
        let factors = tile.factors.len();
        self.scalars.clear();
        self.scalars.resize(tile.scalar_count, Sum::default());
        let degree = self.degree;
        let mut rows = recycle(std::mem::take(&mut self.rows));
        rows.extend(self.batch.rows(degree));
        let slots_from = |start: usize| start..degree.min(start + CHUNK);
        let of_some_blocks = |slots: Range<usize>, chunks: &mut Vec<_>, number: usize| {
            let rows = rows
                .chunks(BLOCKS * factors)
                .nth(number)
                .unwrap_or_default();
            chunks.clear();
            chunks.extend(rows.iter().map(|row| &row[slots.clone()]));
        };
        let batches = rows.len().div_ceil(BLOCKS * factors);
        let mut chunks = recycle(std::mem::take(&mut self.chunks));
        let mut ahead = recycle(std::mem::take(&mut self.ahead));
        of_some_blocks(slots_from(0), &mut chunks, 0);
        for start in (0..degree).step_by(CHUNK) {
            let slots = slots_from(start);
            let width = slots.len();
            self.polynomials.clear();
            self.polynomials.resize(polynomials * width, 0);
            let mut lazy = 0;
            for batch in 0..batches {
                // The first blocks, at the next slots, follow the last ones.
                match (batch + 1 < batches, slots.end < degree) {
                    (true, _) => of_some_blocks(slots.clone(), &mut ahead, batch + 1),
                    (false, true) => of_some_blocks(slots_from(slots.end), &mut ahead, 0),
                    (false, false) => ahead.clear(),
                }
                for (i, block) in chunks.chunks_exact(factors).enumerate() {
                    let next = ahead.chunks_exact(factors).nth(i).unwrap_or_default();
                    let (products, sums) = (&mut self.products, &mut self.scalars);
                    add_scalars(&tile.scalars, q, block, next, products, sums);
                }
                if lazy + BLOCKS >= vector::LAZY_SUMS {
                    vector::fold(q, &mut self.polynomials);
                    lazy = 1;
                }
                lazy += BLOCKS;
                let (products, sums) = (&mut self.products, &mut self.polynomials);
                add_polynomials(&tile.polynomials, q, &chunks, factors, products, sums);
                std::mem::swap(&mut chunks, &mut ahead);
            }
            for (i, sums) in self.polynomials.chunks_exact(width).enumerate() {
                let first = (tile.scalar_count + i * self.degree) * self.limbs + limb * self.degree;
                let residues = &mut self.residues[first + slots.start..first + slots.end];
                vector::reduce_into(q, sums, residues);
            }
        }
        self.rows = recycle(rows);
        self.chunks = recycle(chunks);
        self.ahead = recycle(ahead);
        for (i, sum) in tile.scalars.sums().zip(&self.scalars) {
            self.residues[i * self.limbs + limb] = sum.residue(q);
        }
        self.batch.clear();
    }

    /// The moments of the tile that was evaluated modulo all limbs: each limb after limb.
    pub(crate) fn residues(&mut self) -> &mut [u32] {
        &mut self.residues
    }
}

/// Returns an empty vector in the allocation of another.
fn recycle<'b>(mut references: Vec<&[u32]>) -> Vec<&'b [u32]> {
    references.clear();
    // Collecting in place keeps the allocation.
    references
        .into_iter()
        .map(|_| unreachable!("it is empty"))
        .collect()
}

/// Adds a chunk of one block to the sums of the scalar moments. Prefetches a few of the next chunks at each step, which
/// overlaps memory latency with computation.
fn add_scalars(
    program: &Program,
    q: &Modulus,
    chunks: &[&[u32]],
    mut next: &[&[u32]],
    products: &mut [Vec<u32>],
    mut sums: &mut [Sum],
) {
    for step in &program.steps {
        let tiles = match step {
            &Step::Multiply { a, b, out } => {
                multiply(q, a, b, out, chunks, products);
                continue;
            }
            Step::Tile(tile) => tile.leaves.len().div_ceil(LEAVES),
            Step::Pairs(_) => 1,
        };
        let (ahead, later) = next.split_at(next.len().min(AHEAD * tiles));
        next = later;
        match step {
            Step::Multiply { .. } => {}
            Step::Tile(tile) => {
                let mut prefixes: [&[u32]; PREFIXES] = [&[]; PREFIXES];
                for (prefix, &operand) in prefixes.iter_mut().zip(&tile.prefixes) {
                    *prefix = value(operand, chunks, products);
                }
                let mut leaves: [&[u32]; LEAVES_OF_STEP] = [&[]; LEAVES_OF_STEP];
                for (leaf, &factor) in leaves.iter_mut().zip(&tile.leaves) {
                    *leaf = chunks[factor];
                }
                let (prefixes, leaves) = (
                    &prefixes[..tile.prefixes.len()],
                    &leaves[..tile.leaves.len()],
                );
                let (found, rest) = sums.split_at_mut(tile.sums.len());
                sums = rest;
                vector::dots(prefixes, leaves, found, ahead);
            }
            Step::Pairs(pairs) => {
                let (found, rest) = sums
                    .split_first_chunk_mut()
                    .expect("there is a sum for each pair");
                sums = rest;
                vector::pairs(pairs.factors.map(|factor| chunks[factor]), found, ahead);
            }
        }
    }
    next.iter().for_each(|chunk| vector::prefetch(chunk));
}

/// Adds a chunk of up to four blocks to the sums of the polynomial moments.
fn add_polynomials(
    program: &Program,
    q: &Modulus,
    chunks: &[&[u32]],
    factors: usize,
    products: &mut [Vec<u32>],
    sums: &mut [u64],
) {
    let width = chunks[0].len();
    let blocks = chunks.chunks_exact(factors);
    for step in &program.steps {
        match step {
            &Step::Multiply { a, b, out } => {
                for (chunks, products) in blocks.clone().zip(products.chunks_mut(program.products))
                {
                    multiply(q, a, b, out, chunks, products);
                }
            }
            Step::Pairs(_) => unreachable!("branches are compiled one by one"),
            Step::Tile(tile) => {
                for (&leaf, &number) in tile.leaves.iter().zip(&tile.sums) {
                    let mut pairs: [(&[u32], &[u32]); BLOCKS] = [(&[], &[]); BLOCKS];
                    for (block, (pair, chunks)) in pairs.iter_mut().zip(blocks.clone()).enumerate()
                    {
                        let products = &products[block * program.products..];
                        *pair = (value(tile.prefixes[0], chunks, products), chunks[leaf]);
                    }
                    let pairs = &pairs[..blocks.len()];
                    vector::accumulate_products(pairs, &mut sums[number * width..][..width]);
                }
            }
        }
    }
}

fn value<'a>(operand: Operand, chunks: &[&'a [u32]], products: &'a [Vec<u32>]) -> &'a [u32] {
    let width = chunks[0].len();
    match operand {
        Operand::One => &ONES[..width],
        Operand::Factor(factor) => chunks[factor],
        Operand::Product(product) => &products[product][..width],
    }
}

fn multiply(
    q: &Modulus,
    a: Operand,
    b: usize,
    out: usize,
    chunks: &[&[u32]],
    products: &mut [Vec<u32>],
) {
    let mut product = std::mem::take(&mut products[out]);
    let width = chunks[b].len();
    vector::multiply(
        q,
        value(a, chunks, products),
        chunks[b],
        &mut product[..width],
    );
    products[out] = product;
}
