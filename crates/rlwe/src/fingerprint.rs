//! Fingerprints: sums of products of columns, weighted with secret points, by which wrong sums are told from right ones
//! (docs/cryptography.md, "Fingerprints").
//!
//! For each limb and column the owner's key gives a secret point `x_i ∈ F_{q²}`. While it has the ciphertext at hand,
//! the owner adds up `token(m, 2) = Σ_w Σ_{i<j≤m} x_i x_j c_i(w) c_j(w)` over all points `w` of a range, for every
//! prefix of its columns, and `gram_row(i) = Σ_w c_i(w)·Σ_j x_j c_j(w)`. Later the server answers with the sums
//! `M_ij = Σ_w c_i(w) c_j(w)`, and these, weighted with the points, must give the token.

use crate::key::DatasetKey;
use oboro_ring::vector::{self, PREFIXES, Sum};
use oboro_ring::{Element, Modulus, QuadraticField};
use std::collections::HashSet;
use std::fmt;
use zeroize::Zeroizing;

/// The tokens of the pairs of some columns, in an order of the owner's, over some blocks modulo one limb. Whoever knows
/// one can forge answers.
#[derive(Clone)]
pub(crate) struct PairTokens {
    field: QuadraticField,
    /// `x_i` of each column.
    points: Zeroizing<Vec<Element>>,
    /// What each column adds to the token of the prefix that ends with it.
    increments: Zeroizing<Vec<Element>>,
    rows: Zeroizing<Vec<Element>>,
}

impl fmt::Debug for PairTokens {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PairTokens({} columns, secret)", self.points.len())
    }
}

impl DatasetKey {
    /// The secret point of a column modulo a limb: `PRF(master, "fingerprint", dataset, generation, ring, limb,
    /// column)`, the first sixteen bytes modulo `q` and the others. Within 2^-99 of uniform.
    fn point(&self, limb: usize, column: u32) -> Element {
        let output = self.derive("fingerprint", &[&[limb as u8], &column.to_le_bytes()]);
        let q = &self.ring().parameters().limb_moduli()[limb];
        let (halves, _) = output.as_chunks();
        Element {
            a: reduce(q, &halves[0]),
            b: reduce(q, &halves[1]),
        }
    }
}

/// A number of sixteen bytes modulo `q`.
fn reduce(q: &Modulus, bytes: &[u8; 16]) -> u32 {
    let (low, high) = bytes.split_at(8);
    let word = |half: &[u8]| u64::from_le_bytes(half.try_into().expect("eight bytes"));
    let two_to_64 = q.mul(q.reduce(1 << 32), q.reduce(1 << 32));
    q.add(q.mul(q.reduce(word(high)), two_to_64), q.reduce(word(low)))
}

impl PairTokens {
    /// Those of these columns, which are different, over no blocks.
    ///
    /// # Panics
    /// If a column is there twice: its points would not be independent. If the ring has no such limb.
    pub(crate) fn new(key: &DatasetKey, limb: usize, columns: &[u32]) -> Self {
        let distinct: HashSet<u32> = columns.iter().copied().collect();
        assert_eq!(distinct.len(), columns.len(), "columns are different");
        let points: Vec<Element> = columns.iter().map(|&it| key.point(limb, it)).collect();
        let zero = || Zeroizing::new(vec![Element::default(); columns.len()]);
        Self {
            field: QuadraticField::new(key.ring().parameters().limb_moduli()[limb]),
            points: points.into(),
            increments: zero(),
            rows: zero(),
        }
    }

    /// Those of these columns that were kept: for each column what it adds to a prefix, then each row. `None` if there
    /// are not as many, or one has no residues.
    ///
    /// # Panics
    /// As [`new`](Self::new).
    pub(crate) fn kept(
        key: &DatasetKey,
        limb: usize,
        columns: &[u32],
        tokens: &[u32],
    ) -> Option<Self> {
        let mut kept = Self::new(key, limb, columns);
        let q = kept.field.modulus().value();
        if tokens.len() != 4 * columns.len() || vector::largest(tokens) >= q {
            return None;
        }
        let (pairs, _) = tokens.as_chunks::<2>();
        let element = |&[a, b]: &[u32; 2]| Element { a, b };
        let (increments, rows) = pairs.split_at(columns.len());
        kept.increments = Zeroizing::new(increments.iter().map(element).collect());
        kept.rows = Zeroizing::new(rows.iter().map(element).collect());
        Some(kept)
    }

    /// All of them, to be kept.
    pub(crate) fn tokens(&self) -> impl Iterator<Item = u32> {
        let all = self.increments.iter().chain(self.rows.iter());
        all.flat_map(|it| [it.a, it.b])
    }

    /// Adds a block: the residues of each column.
    ///
    /// # Panics
    /// If there is not one slice a column, all of one length.
    pub(crate) fn add(&mut self, columns: &[&[u32]]) {
        assert_eq!(columns.len(), self.points.len(), "each column has residues");
        let mut sum = WeightedSum::new(self.field, columns.first().map_or(0, |it| it.len()));
        for (place, column) in columns.iter().enumerate() {
            let point = self.points[place];
            // The columns before this one.
            let increment = self.field.mul(point, sum.dot(column));
            self.increments[place] = self.field.add(self.increments[place], increment);
            sum.add(point, column);
        }
        for (row, column) in self.rows.iter_mut().zip(columns) {
            *row = self.field.add(*row, sum.dot(column));
        }
    }

    /// Adds the blocks that another has of the same columns and limb.
    ///
    /// # Panics
    /// If it has other columns, or is of another limb.
    pub(crate) fn merge(&mut self, other: &Self) {
        assert!(
            *self.points == *other.points,
            "tokens of the same columns are added"
        );
        let add = |sum: &mut Element, more: &Element| *sum = self.field.add(*sum, *more);
        let sums = self.increments.iter_mut().chain(self.rows.iter_mut());
        sums.zip(other.increments.iter().chain(other.rows.iter()))
            .for_each(|(sum, more)| add(sum, more));
    }

    /// Whether these are `M_ij` of all pairs of the first `columns` columns, `i < j` in lexicographic order. A wrong
    /// answer is taken for right with probability at most `2/q²`, however it was chosen.
    ///
    /// # Panics
    /// If there are fewer columns.
    pub(crate) fn verify_prefix(&self, columns: usize, sums: &[u32]) -> bool {
        let points = &self.points[..columns];
        if sums.len() != columns * columns.saturating_sub(1) / 2 {
            return false;
        }
        let mut rest = sums;
        let mut found = Zeroizing::new(Element::default());
        for (place, &point) in points.iter().enumerate() {
            let (row, others) = rest.split_at(columns - place - 1);
            rest = others;
            let weighted = self.weighted(row, &points[place + 1..]);
            *found = self.field.add(*found, self.field.mul(point, weighted));
        }
        let increments = self.increments[..columns].iter();
        let add = |sum, &increment: &Element| self.field.add(sum, increment);
        let token = Zeroizing::new(increments.fold(Element::default(), add));
        self.are_residues(sums) && *found == *token
    }

    /// Whether these are `M_ij` of the column at `place` with each column, itself included. A wrong answer is taken for
    /// right with probability at most `1/q²`, however it was chosen.
    ///
    /// # Panics
    /// If there is no such column.
    pub(crate) fn verify_row(&self, place: usize, sums: &[u32]) -> bool {
        let row = self.rows[place];
        sums.len() == self.points.len()
            && self.are_residues(sums)
            && row == self.weighted(sums, &self.points)
    }

    /// Another representative of a residue is another answer.
    fn are_residues(&self, sums: &[u32]) -> bool {
        vector::largest(sums) < self.field.modulus().value()
    }

    /// `Σ x_i·sums_i`.
    fn weighted(&self, sums: &[u32], points: &[Element]) -> Element {
        let terms = points.iter().zip(sums);
        terms.fold(Element::default(), |total, (&point, &sum)| {
            let residue = self.field.modulus().reduce(sum.into());
            self.field.add(total, self.field.scale(point, residue))
        })
    }
}

/// `Σ_i x_i c_i(w)` of some columns at some points `w`.
struct WeightedSum {
    field: QuadraticField,
    a: Zeroizing<Vec<u32>>,
    b: Zeroizing<Vec<u32>>,
}

const _: () = assert!(PREFIXES >= 2);

impl WeightedSum {
    /// Of no columns.
    fn new(field: QuadraticField, points: usize) -> Self {
        let zero = || Zeroizing::new(vec![0; points]);
        Self {
            field,
            a: zero(),
            b: zero(),
        }
    }

    /// Adds `x·c(w)` at each point.
    fn add(&mut self, x: Element, column: &[u32]) {
        let q = self.field.modulus();
        vector::subtract_multiple(q, &mut self.a, column, q.neg(x.a));
        vector::subtract_multiple(q, &mut self.b, column, q.neg(x.b));
    }

    /// The sum over all points of this times `c(w)`.
    fn dot(&self, column: &[u32]) -> Element {
        let mut sums = Zeroizing::new([Sum::default(); 2]);
        vector::dots(&[&self.a, &self.b], &[column], &mut *sums, &[]);
        let q = self.field.modulus();
        Element {
            a: sums[0].residue(q),
            b: sums[1].residue(q),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::key::tests::key;
    use oboro_ring::Parameters;
    use proptest::prelude::*;

    const COLUMNS: [u32; 5] = [4, 0, 7, 2, 9];
    const POINTS: usize = 96;

    fn residues(seed: u64, q: u32) -> Vec<Vec<u32>> {
        let mut state = seed | 1;
        let mut next = || {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            ((state >> 33) % u64::from(q)) as u32
        };
        (0..COLUMNS.len())
            .map(|_| (0..POINTS).map(|_| next()).collect())
            .collect()
    }

    fn slices(columns: &[Vec<u32>]) -> Vec<&[u32]> {
        columns.iter().map(Vec::as_slice).collect()
    }

    /// Tokens over all points, and the sums of all pairs, the diagonal included, by place.
    fn scene(seed: u64) -> (PairTokens, Vec<Vec<u32>>, Modulus) {
        let key = key(1, &Parameters::new(11, 2, 12_289).unwrap());
        let q = key.ring().parameters().limb_moduli()[1];
        let columns = residues(seed, q.value());
        let mut tokens = PairTokens::new(&key, 1, &COLUMNS);
        tokens.add(&slices(&columns));
        let gram = columns.iter().map(|a| {
            let row = columns.iter().map(|b| vector::dot(&q, a, b));
            row.collect()
        });
        (tokens, gram.collect(), q)
    }

    fn pairs(gram: &[Vec<u32>], columns: usize) -> Vec<u32> {
        (0..columns)
            .flat_map(|i| (i + 1..columns).map(move |j| gram[i][j]))
            .collect()
    }

    #[test]
    fn right_answers_are_known_for_every_prefix_and_row() {
        let (tokens, gram, _) = scene(1);
        for columns in 0..=COLUMNS.len() {
            assert!(tokens.verify_prefix(columns, &pairs(&gram, columns)));
        }
        for (place, row) in gram.iter().enumerate() {
            assert!(tokens.verify_row(place, row));
        }
        assert!(!tokens.verify_row(4, &gram[4][..4]) && !tokens.verify_row(4, &[]));
        assert!(!tokens.verify_prefix(5, &[0; 9]) && !tokens.verify_prefix(1, &[0]));
    }

    #[test]
    fn points_may_come_in_parts_and_from_threads() {
        let (tokens, gram, q) = scene(2);
        let key = key(1, &Parameters::new(11, 2, 12_289).unwrap());
        let columns = residues(2, q.value());
        let mut parts = [0..32, 32..96].map(|points: std::ops::Range<usize>| {
            let mut part = PairTokens::new(&key, 1, &COLUMNS);
            let of: Vec<&[u32]> = columns.iter().map(|it| &it[points.clone()]).collect();
            part.add(&of);
            part
        });
        assert!(!parts[0].verify_prefix(5, &pairs(&gram, 5)));
        let [first, second] = &mut parts;
        first.merge(second);
        assert!(first.verify_prefix(5, &pairs(&gram, 5)));
        assert!(*first.increments == *tokens.increments && *first.rows == *tokens.rows);
    }

    #[test]
    fn points_are_of_their_key_limb_and_column() {
        let parameters = Parameters::new(11, 2, 12_289).unwrap();
        let all = [
            key(1, &parameters).point(0, 3),
            key(2, &parameters).point(0, 3),
            key(1, &parameters).point(1, 3),
            key(1, &parameters).point(0, 4),
        ];
        for (i, x) in all.iter().enumerate() {
            assert!(all[..i].iter().all(|y| y != x));
        }
    }

    /// docs/cryptography.md, "Derivation of secrets"; computed from it in Python.
    #[test]
    fn points_are_the_golden_ones() {
        let key = key(1, &Parameters::new(11, 2, 12_289).unwrap());
        let point = key.point(1, 3);
        assert_eq!((point.a, point.b), (92_624_674, 75_989_140));
    }

    #[test]
    #[should_panic(expected = "columns are different")]
    fn a_column_is_there_once() {
        let key = key(1, &Parameters::new(11, 2, 12_289).unwrap());
        PairTokens::new(&key, 0, &[3, 5, 3]);
    }

    /// What is accepted is the kernel of two equations, one for each half: lies that solve one are refused, and a lie
    /// that solves both is not told from the truth, which is why points are secret.
    #[test]
    fn answers_are_verified_in_both_halves_of_the_field() {
        let (tokens, gram, q) = scene(4);
        let x = &tokens.points;
        let lie = |sums: &[u32], delta: &[u32]| -> Vec<u32> {
            let lies = sums.iter().zip(delta);
            lies.map(|(&sum, &delta)| q.add(sum, delta)).collect()
        };
        let in_a = [x[1].a, q.neg(x[0].a), 0, 0, 0];
        let in_b = [x[1].b, q.neg(x[0].b), 0, 0, 0];
        for delta in [in_a, in_b] {
            assert!(!tokens.verify_row(2, &lie(&gram[2], &delta)));
        }
        // The cross product of both halves is orthogonal to both.
        let cross = |i: usize, j: usize| q.sub(q.mul(x[i].a, x[j].b), q.mul(x[i].b, x[j].a));
        let both = [cross(1, 2), cross(2, 0), cross(0, 1), 0, 0];
        assert!(both[0] != 0 && tokens.verify_row(2, &lie(&gram[2], &both)));
        // The same for a prefix of three, whose weights are the products of two points.
        let products = [(0, 1), (0, 2), (1, 2)].map(|(i, j)| tokens.field.mul(x[i], x[j]));
        let [y, z, _] = products;
        for delta in [[z.a, q.neg(y.a), 0], [z.b, q.neg(y.b), 0]] {
            assert!(!tokens.verify_prefix(3, &lie(&pairs(&gram, 3), &delta)));
        }
        let cross = |i: usize, j: usize| {
            let (x, y) = (products[i], products[j]);
            q.sub(q.mul(x.a, y.b), q.mul(x.b, y.a))
        };
        let both = [cross(1, 2), cross(2, 0), cross(0, 1)];
        assert!(tokens.verify_prefix(3, &lie(&pairs(&gram, 3), &both)));
    }

    #[test]
    fn what_is_reduced_is_a_number_of_128_bits() {
        let q = Modulus::new(134_176_769).unwrap();
        for number in [
            0,
            1,
            u128::from(u64::MAX),
            1 << 64,
            u128::MAX,
            0x0123_4567_89ab_cdef << 60,
        ] {
            let expected = (number % 134_176_769) as u32;
            assert_eq!(reduce(&q, &number.to_le_bytes()), expected);
        }
    }

    #[test]
    fn nothing_secret_is_printed() {
        let (tokens, ..) = scene(3);
        assert_eq!(format!("{tokens:?}"), "PairTokens(5 columns, secret)");
    }

    proptest! {
        /// Single values, values that cancel in the plain sum, swaps, another representative, answers to another
        /// question: whatever is not the right answer is no answer.
        #[test]
        fn other_answers_are_refused(
            seed: u64, columns in 2usize..=5, at in 0usize..10, to in 0usize..10, delta in 1u32..1 << 26, kind in 0u8..7,
        ) {
            let (tokens, gram, q) = scene(seed);
            let right = pairs(&gram, columns);
            let mut wrong = right.clone();
            let (at, to) = (at % right.len(), to % right.len());
            match kind {
                0 => wrong[at] = q.add(wrong[at], delta),
                1 => {
                    wrong[at] = q.add(wrong[at], delta);
                    wrong[to] = q.sub(wrong[to], delta);
                }
                2 => wrong.swap(at, to),
                3 => wrong[at] += q.value(),
                4 => wrong = pairs(&scene(seed ^ 2).1, columns),
                5 => wrong.rotate_left(at),
                _ => wrong.iter_mut().for_each(|it| *it = q.add(*it, delta)),
            }
            prop_assert_eq!(tokens.verify_prefix(columns, &wrong), wrong == right);

            let place = at % COLUMNS.len();
            let mut row = gram[place].clone();
            match kind {
                0 => row[columns - 1] = q.add(row[columns - 1], delta),
                1 => {
                    row[0] = q.add(row[0], delta);
                    row[columns - 1] = q.sub(row[columns - 1], delta);
                }
                2 => row.swap(0, columns - 1),
                3 => row[columns - 1] += q.value(),
                4 => row = gram[(place + 1) % COLUMNS.len()].clone(),
                _ => row.rotate_left(columns - 1),
            }
            prop_assert_eq!(tokens.verify_row(place, &row), row == gram[place]);
        }
    }
}
