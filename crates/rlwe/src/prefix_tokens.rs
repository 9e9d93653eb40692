//! Tokens of itemsets of three and four (docs/cryptography.md, "Longer itemsets"): the sums over the ciphertext of blocks
//! that verify the moments which a server computes there.

use crate::block::BlockResidues;
use crate::fingerprint::{Elements, Points, add_each, elements, subtract_each};
use crate::totals::Bounds;
use oboro_ring::{Element, Limb, Modulus, QuadraticField, vector};
use std::fmt;
use zeroize::Zeroizing;

/// Length of the longest itemsets whose moments are verified.
pub const LONGEST_VERIFIED: usize = 4;

/// Number of limbs that verify answers, for itemsets of two to [`LONGEST_VERIFIED`]; 0 for lengths that are not
/// verified.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct VerifiedLimbs(pub(crate) [usize; LONGEST_VERIFIED - 1]);

impl VerifiedLimbs {
    /// Returns the numbers for all lengths within the bounds.
    pub fn of(bounds: &Bounds) -> Self {
        Self([2, 3, 4].map(|length| bounds.limbs(length).unwrap_or(0)))
    }

    /// Largest number of limbs that verify any length.
    pub fn limbs(self) -> usize {
        self.0.into_iter().max().unwrap_or(0)
    }

    /// Returns true if pairs are verified modulo a limb.
    pub(crate) fn has_pairs(self, limb: Limb) -> bool {
        limb.0 < self.0[0]
    }

    /// Lengths from three on that are verified modulo a limb.
    pub(crate) fn longer(self, limb: Limb) -> impl Iterator<Item = usize> {
        (3..=LONGEST_VERIFIED).filter(move |length| limb.0 < self.0[length - 2])
    }
}

/// Tokens of itemsets of three and more over some blocks modulo one limb. A party that knows one can forge answers.
#[derive(Clone)]
pub(crate) struct PrefixTokens {
    /// Tokens by length, ascending: that of no columns, and the increment of each column to the prefix that ends with
    /// it.
    tokens: Vec<(usize, Zeroizing<Vec<Element>>)>,
}

impl fmt::Debug for PrefixTokens {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PrefixTokens({} lengths, secret)", self.tokens.len())
    }
}

impl PrefixTokens {
    /// Makes tokens of `columns` columns for these lengths, over zero blocks.
    pub(crate) fn new(lengths: impl Iterator<Item = usize>, columns: usize) -> Self {
        let zero = || Zeroizing::new(vec![Element::default(); columns + 1]);
        Self {
            tokens: lengths.map(|length| (length, zero())).collect(),
        }
    }

    /// Decodes stored tokens. `None` if the number is wrong, or one is not canonical.
    pub(crate) fn kept(
        q: &Modulus,
        lengths: impl Iterator<Item = usize>,
        columns: usize,
        tokens: &[u32],
    ) -> Option<Self> {
        let mut each = tokens.chunks_exact(2 * (columns + 1));
        let tokens: Option<Vec<_>> = lengths
            .map(|length| Some((length, elements(q, columns + 1, each.next()?)?)))
            .collect();
        let is_all = each.next().is_none() && each.remainder().is_empty();
        Some(Self { tokens: tokens? }).filter(|_| is_all)
    }

    /// Returns whether there are tokens of itemsets of this length.
    pub(crate) fn has(&self, length: usize) -> bool {
        self.tokens.iter().any(|it| it.0 == length)
    }

    /// The tokens, in storage order.
    pub(crate) fn tokens(&self) -> impl Iterator<Item = u32> {
        let all = self.tokens.iter().flat_map(|(_, tokens)| tokens.iter());
        all.flat_map(|it| [it.a, it.b])
    }

    /// Adds blocks. With `V_k = Σ_r p_r e_{k−1−r}` over the columns so far, a column adds `x c·V_k` to the token, and
    /// `x c·V_{k−1}` to `V_k`.
    pub(crate) fn add(
        &mut self,
        points: &Points,
        weights: &Elements,
        blocks: &[BlockResidues<'_>],
    ) {
        let Some(&(longest, _)) = self.tokens.last() else {
            return;
        };
        let field = points.field();
        let degree = weights.a.len();
        let zero = || Elements::zero(degree);
        // p_1 to p_k, the initial values of V_2 to V_{k+1}.
        let mut sums: Vec<Elements> = (0..longest).map(|_| zero()).collect();
        let (mut product, mut twisted) = (zero(), Zeroizing::new(vec![0; degree]));
        for block in blocks {
            for r in 0..longest {
                let (before, here) = sums.split_at_mut(r);
                let before = before.last().unwrap_or(weights);
                here[0].set_multiple(field, before, block.mask);
            }
            for (length, tokens) in &mut self.tokens {
                tokens[0] = field.add(tokens[0], sums[*length - 1].sum(field));
            }
            for (place, (column, &point)) in block.columns.iter().zip(points.each()).enumerate() {
                for (length, tokens) in &mut self.tokens {
                    let increment = field.mul(point, sums[*length - 2].dot(field, column));
                    tokens[place + 1] = field.add(tokens[place + 1], increment);
                }
                product.a.fill(0);
                product.b.fill(0);
                product.add_multiple(field, point, column);
                field.twist(&product.b, &mut twisted);
                for k in (1..longest - 1).rev() {
                    let (before, here) = sums.split_at_mut(k);
                    here[0].add_product(field, &product, &twisted, &before[k - 1]);
                }
                sums[0].add(field, &product);
            }
        }
    }

    /// Adds the tokens of other blocks of the same columns and limb.
    pub(crate) fn merge(&mut self, field: &QuadraticField, other: &Self) {
        for ((length, tokens), (other_length, others)) in self.tokens.iter_mut().zip(&other.tokens)
        {
            assert_eq!(length, other_length, "tokens of the same lengths are added");
            add_each(field, tokens, others);
        }
    }

    /// Subtracts the tokens of some of the blocks.
    pub(crate) fn subtract(&mut self, field: &QuadraticField, other: &Self) {
        for ((_, tokens), (_, others)) in self.tokens.iter_mut().zip(&other.tokens) {
            subtract_each(field, tokens, others);
        }
    }

    /// Returns the token of a prefix; `None` without tokens of the length.
    ///
    /// # Panics
    /// If there are fewer columns.
    pub(crate) fn of(
        &self,
        field: &QuadraticField,
        length: usize,
        columns: usize,
    ) -> Option<Zeroizing<Element>> {
        let (_, tokens) = self.tokens.iter().find(|it| it.0 == length)?;
        let add = |sum, &token: &Element| field.add(sum, token);
        Some(Zeroizing::new(
            tokens[..=columns].iter().fold(Element::default(), add),
        ))
    }
}

impl Elements {
    /// Sets these elements to others times a residue at each point.
    pub(crate) fn set_multiple(&mut self, field: &QuadraticField, other: &Self, factors: &[u32]) {
        let q = field.modulus();
        vector::multiply(q, &other.a, factors, &mut self.a);
        vector::multiply(q, &other.b, factors, &mut self.b);
    }

    /// Adds `x·y`, given `d` times the second half of `x`.
    fn add_product(&mut self, field: &QuadraticField, x: &Self, twisted: &[u32], y: &Self) {
        let q = field.modulus();
        vector::multiply_add(q, &x.a, &y.a, &mut self.a);
        vector::multiply_add(q, twisted, &y.b, &mut self.a);
        vector::multiply_add(q, &x.a, &y.b, &mut self.b);
        vector::multiply_add(q, &x.b, &y.a, &mut self.b);
    }

    /// Adds elements pointwise.
    fn add(&mut self, field: &QuadraticField, other: &Self) {
        vector::add_assign(field.modulus(), &other.a, &mut self.a);
        vector::add_assign(field.modulus(), &other.b, &mut self.b);
    }
}
