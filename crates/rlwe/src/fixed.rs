//! Fixed parts: the part of a pair's phase that does not depend on the query (docs/cryptography.md, "Verified sums").
//! With it kept, the answer is one residue per limb.
//!
//! In `Φ_ij = M_ij + s_i·M_{j,1} + s_j·M_{i,1} + s_i s_j·M_{∅,2}` only `M_ij` depends on both columns' ciphertext. With
//! the ciphertext in memory, the owner computes `M_{i,1} = Σ_b a_b c_{b,i}` and `M_{∅,2} = Σ_b a_b²`. From them and its
//! secrets it computes one number for each pair: the sum over all evaluation points of the last three terms.

use crate::block::BlockResidues;
use crate::key::DatasetKey;
use oboro_ring::vector::{self, LAZY_SUMS, PREFIXES, Sum};
use oboro_ring::{Column, Limb, Modulus, Parameters};
use std::fmt;
use zeroize::Zeroizing;

/// Public moments `M_{i,1}` of some columns and `M_{∅,2}`, over some blocks modulo one limb.
#[derive(Debug, Clone)]
pub(crate) struct MaskMoments {
    modulus: Modulus,
    /// Moment of each column: `N` residues in evaluation form.
    columns: Vec<Vec<u32>>,
    square: Vec<u32>,
}

impl MaskMoments {
    /// Makes the moments of `columns` columns over zero blocks.
    ///
    /// # Panics
    /// If the ring lacks the limb.
    pub(crate) fn new(parameters: &Parameters, limb: Limb, columns: usize) -> Self {
        let zero = vec![0; parameters.degree()];
        Self {
            modulus: parameters.limb_moduli()[limb],
            columns: vec![zero.clone(); columns],
            square: zero,
        }
    }

    /// `M_{∅,2}`.
    pub(crate) fn square(&self) -> &[u32] {
        &self.square
    }

    /// Adds blocks: for each one the mask and the ciphertext of each column, `N` residues.
    ///
    /// # Panics
    /// If the columns of a block do not match, or a slice has the wrong length.
    pub(crate) fn add(&mut self, blocks: &[BlockResidues<'_>]) {
        let masks: Vec<_> = blocks
            .iter()
            .map(|block| (block.mask, block.mask))
            .collect();
        add_products(&self.modulus, &masks, &mut self.square);
        for (place, sum) in self.columns.iter_mut().enumerate() {
            let products: Vec<_> = blocks
                .iter()
                .map(|block| (block.mask, block.columns[place]))
                .collect();
            add_products(&self.modulus, &products, sum);
        }
    }

    /// Adds the moments of other blocks.
    ///
    /// # Panics
    /// If the columns or the limb differ.
    pub(crate) fn merge(&mut self, other: &Self) {
        assert_eq!(
            (self.modulus.value(), self.columns.len()),
            (other.modulus.value(), other.columns.len()),
            "moments of the same columns are added"
        );
        vector::add_assign(&self.modulus, &other.square, &mut self.square);
        for (sum, more) in self.columns.iter_mut().zip(&other.columns) {
            vector::add_assign(&self.modulus, more, sum);
        }
    }

    /// Subtracts the moments of some of the blocks.
    pub(crate) fn subtract(&mut self, other: &Self) {
        vector::subtract_multiple(&self.modulus, &mut self.square, &other.square, 1);
        for (sum, less) in self.columns.iter_mut().zip(&other.columns) {
            vector::subtract_multiple(&self.modulus, sum, less, 1);
        }
    }
}

/// Computes `sum += Σ a∘b` over these pairs.
fn add_products(q: &Modulus, pairs: &[(&[u32], &[u32])], sum: &mut [u32]) {
    let mut products = vec![0; sum.len()];
    let mut reduced = vec![0; sum.len()];
    for pairs in pairs.chunks(LAZY_SUMS) {
        products.fill(0);
        vector::accumulate_products(pairs, &mut products);
        vector::reduce_into(q, &products, &mut reduced);
        vector::add_assign(q, &reduced, sum);
    }
}

/// Secret fixed parts of all pairs of some columns, in the owner's order, over some blocks modulo one limb.
#[derive(Clone)]
pub(crate) struct FixedParts {
    modulus: Modulus,
    columns: usize,
    /// Fixed parts of the pairs `i < j` in lexicographic order.
    parts: Zeroizing<Vec<u32>>,
}

impl fmt::Debug for FixedParts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "FixedParts({} columns, secret)", self.columns)
    }
}

impl FixedParts {
    /// Computes `u_ij = Σ_w (s_i·M_{j,1} + s_j·M_{i,1} + s_i s_j·M_{∅,2})(w)` as `P_ij + P_ji`, with
    /// `P_ij = Σ_w (s_i·(M_{j,1} + ½ s_j·M_{∅,2}))(w)`. `P` is the product of a matrix of secrets with one of moments.
    ///
    /// # Panics
    /// If the limb or the number of columns of the moments differs.
    pub(crate) fn new(
        key: &DatasetKey,
        limb: Limb,
        columns: &[Column],
        moments: &MaskMoments,
    ) -> Self {
        let q = key.ring().parameters().limb_moduli()[limb];
        assert_eq!(
            (q.value(), columns.len()),
            (moments.modulus.value(), moments.columns.len()),
            "moments are of these columns and this limb"
        );
        let half = q.inverse(2);
        let evaluate = |&column: &Column| key.column_secret(column).evaluate(key.ring(), limb);
        let secrets: Vec<Zeroizing<Vec<u32>>> = columns.iter().map(evaluate).collect();
        let halves: Vec<u32> = moments.square.iter().map(|&it| q.mul(it, half)).collect();
        let shifted: Vec<Zeroizing<Vec<u32>>> = secrets
            .iter()
            .zip(&moments.columns)
            .map(|(secret, moment)| {
                let mut sum = Zeroizing::new(moment.clone());
                vector::multiply_add(&q, secret, &halves, &mut sum);
                sum
            })
            .collect();
        let shifted: Vec<&[u32]> = shifted.iter().map(|it| &it[..]).collect();
        let mut products = Zeroizing::new(Vec::with_capacity(columns.len() * columns.len()));
        for some in secrets.chunks(PREFIXES) {
            let some: Vec<&[u32]> = some.iter().map(|it| &it[..]).collect();
            let mut sums = Zeroizing::new(vec![Sum::default(); some.len() * shifted.len()]);
            vector::dots(&some, &shifted, &mut sums, &[]);
            products.extend(sums.iter().map(|sum| sum.residue(&q)));
        }
        let n = columns.len();
        // Allocated once: growing would leave copies in freed memory.
        let mut parts = Zeroizing::new(Vec::with_capacity(n * n.saturating_sub(1) / 2));
        for i in 0..n {
            parts.extend((i + 1..n).map(|j| q.add(products[i * n + j], products[j * n + i])));
        }
        Self {
            modulus: q,
            columns: n,
            parts,
        }
    }

    /// Decodes stored fixed parts of `columns` columns; `None` if the number is wrong, or one is not a residue.
    pub(crate) fn kept(
        modulus: Modulus,
        columns: usize,
        parts: Zeroizing<Vec<u32>>,
    ) -> Option<Self> {
        let pairs = columns * columns.saturating_sub(1) / 2;
        let fits = parts.len() == pairs && vector::largest(&parts) < modulus.value();
        fits.then_some(Self {
            modulus,
            columns,
            parts,
        })
    }

    /// The fixed parts, in storage order.
    pub(crate) fn parts(&self) -> &[u32] {
        &self.parts
    }

    /// Adds fixed parts over other blocks: they are linear in the moments.
    ///
    /// # Panics
    /// If the columns or the limb differ.
    pub(crate) fn merge(&mut self, other: &Self) {
        assert_eq!(self.modulus.value(), other.modulus.value());
        vector::add_assign(&self.modulus, &other.parts, &mut self.parts);
    }

    /// The fixed part of the pair at two indices, in ascending order.
    ///
    /// # Panics
    /// If the pair does not exist.
    pub(crate) fn of(&self, first: usize, second: usize) -> u32 {
        assert!(first < second && second < self.columns, "a pair");
        // The previous rows: `first` of them, each one shorter than the one before.
        let row = first * (2 * self.columns - first - 1) / 2;
        self.parts[row + second - first - 1]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::key::tests::key;

    const COLUMNS: [Column; 6] = [
        Column(3),
        Column(0),
        Column(11),
        Column(5),
        Column(4),
        Column(1),
    ];
    const LIMB: Limb = Limb(1);

    fn parameters() -> Parameters {
        Parameters::new(11, 2, 12_289).unwrap()
    }

    /// Makes `N` residues that depend on their index.
    fn residues(seed: usize) -> Vec<u32> {
        let q = parameters().limb_moduli()[LIMB].value();
        (0..2048u32)
            .map(|at| (at + 1).wrapping_mul(0x9e37_79b9 + 2 * seed as u32) % q)
            .collect()
    }

    /// Moments over these blocks.
    fn moments(blocks: std::ops::Range<usize>) -> MaskMoments {
        let mut moments = MaskMoments::new(&parameters(), LIMB, COLUMNS.len());
        let of = |block: usize| -> Vec<Vec<u32>> {
            let column = |place: usize| residues(1000 * (place + 1) + block);
            (0..COLUMNS.len()).map(column).collect()
        };
        let masks: Vec<Vec<u32>> = blocks.clone().map(residues).collect();
        let columns: Vec<Vec<Vec<u32>>> = blocks.map(of).collect();
        let columns: Vec<Vec<&[u32]>> = columns
            .iter()
            .map(|block| block.iter().map(Vec::as_slice).collect())
            .collect();
        let blocks = masks.iter().zip(&columns);
        let blocks: Vec<BlockResidues<'_>> = blocks
            .map(|(mask, columns)| BlockResidues { mask, columns })
            .collect();
        moments.add(&blocks);
        moments
    }

    #[test]
    fn moments_are_sums_of_products_and_add_up() {
        // More blocks than a sum accumulates between two reductions.
        let whole = moments(0..300);
        let mut parts = moments(0..7);
        parts.merge(&moments(7..300));
        assert_eq!(whole.square, parts.square);
        assert_eq!(whole.columns, parts.columns);
        let q = whole.modulus;
        for at in [0, 1, 2047] {
            let square = (0..300).fold(0, |sum, block| {
                let a = residues(block)[at];
                q.add(sum, q.mul(a, a))
            });
            assert_eq!(whole.square[at], square);
            let product = (0..300).fold(0, |sum, block| {
                q.add(sum, q.mul(residues(block)[at], residues(3000 + block)[at]))
            });
            assert_eq!(whole.columns[2][at], product);
        }
    }

    #[test]
    fn fixed_parts_are_what_they_are_by_definition() {
        let key = key(4, &parameters());
        let moments = moments(0..3);
        let parts = FixedParts::new(&key, LIMB, &COLUMNS, &moments);
        let q = moments.modulus;
        let secret = |place: usize| {
            let secret = key.column_secret(COLUMNS[place]);
            secret.evaluate(key.ring(), LIMB)
        };
        for i in 0..COLUMNS.len() {
            for j in i + 1..COLUMNS.len() {
                let (a, b) = (secret(i), secret(j));
                let value = |w: usize| {
                    let with_masks = q.add(
                        q.mul(a[w], moments.columns[j][w]),
                        q.mul(b[w], moments.columns[i][w]),
                    );
                    q.add(with_masks, q.mul(q.mul(a[w], b[w]), moments.square[w]))
                };
                let expected = (0..2048).fold(0, |sum, w| q.add(sum, value(w)));
                assert_eq!(parts.of(i, j), expected, "{i}, {j}");
            }
        }
    }

    #[test]
    fn nothing_secret_is_printed() {
        let parts = FixedParts::new(&key(4, &parameters()), LIMB, &COLUMNS, &moments(0..1));
        assert_eq!(format!("{parts:?}"), "FixedParts(6 columns, secret)");
    }
}
