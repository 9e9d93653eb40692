//! Fingerprints: weighted sums of products of columns, which distinguish wrong sums from right ones
//! (docs/cryptography.md, "Fingerprints").
//!
//! For each limb the owner's key derives a secret point `x_i ∈ F_{q²}` for each column and a weight `z_s ∈ F_{q²}` for
//! each slot. When it has the ciphertext in memory, the owner computes
//! `token(m, 2) = Σ_w Σ_{i<j≤m} x_i x_j c_i(w) c_j(w)` over all points `w` of a range, for every prefix of its columns,
//! and `gram_row(i) = Σ_w c_i(w)·Σ_{j≠i} x_j c_j(w)`. Later the server answers with the sums
//! `M_ij = Σ_w c_i(w) c_j(w)`, and these, weighted with the points, must equal the token. Those of longer itemsets are
//! in [`crate::prefix_tokens`], those of focus columns in [`crate::focus`].

use crate::key::DatasetKey;
use oboro_ring::mask::{self, WeightSeed};
use oboro_ring::vector::{self, LEAVES, PREFIXES, Sum};
use oboro_ring::{Column, Element, Limb, Modulus, QuadraticField};
use std::collections::HashSet;
use std::fmt;
use zeroize::Zeroizing;

impl DatasetKey {
    /// Derives the secret point of a column modulo a limb:
    /// `PRF(dataset key, "fingerprint", generation, ring, limb, column)`, its first and second sixteen bytes modulo
    /// `q`. Within 2^-99 of uniform.
    fn point(&self, limb: Limb, column: Column) -> Element {
        let output = self.derive("fingerprint", &[&[limb.0 as u8], &column.0.to_le_bytes()]);
        let q = &self.ring().parameters().limb_moduli()[limb];
        let (halves, _) = output.as_chunks();
        Element {
            a: reduce(q, &halves[0]),
            b: reduce(q, &halves[1]),
        }
    }

    /// Derives the secret weights of all slots modulo a limb, uniform. Each half of the elements is expanded from
    /// `PRF(dataset key, "slot weights", generation, ring, half)`.
    pub(crate) fn slot_weights(&self, limb: Limb) -> Elements {
        let half = |half: u8| {
            let seed = WeightSeed(self.derive("slot weights", &[&[half]]));
            let mut weights = Zeroizing::new(vec![0; self.ring().degree()]);
            mask::expand(&seed, self.ring().parameters(), limb, &mut weights);
            weights
        };
        Elements {
            a: half(0),
            b: half(1),
        }
    }
}

/// Reduces a 16-byte number modulo `q`.
fn reduce(q: &Modulus, bytes: &[u8; 16]) -> u32 {
    let (low, high) = bytes.split_at(8);
    let word = |half: &[u8]| u64::from_le_bytes(half.try_into().expect("eight bytes"));
    let two_to_64 = q.mul(q.reduce(1 << 32), q.reduce(1 << 32));
    q.add(q.mul(q.reduce(word(high)), two_to_64), q.reduce(word(low)))
}

/// Secret points of some columns, in the owner's order, modulo one limb.
#[derive(Clone)]
pub(crate) struct Points {
    field: QuadraticField,
    points: Zeroizing<Vec<Element>>,
}

impl fmt::Debug for Points {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Points({} columns, secret)", self.points.len())
    }
}

impl Points {
    /// Derives the points of these columns, which must be distinct.
    ///
    /// # Panics
    /// If a column is repeated: its points would not be independent. If the ring lacks the limb.
    pub(crate) fn new(key: &DatasetKey, limb: Limb, columns: &[Column]) -> Self {
        let distinct: HashSet<&Column> = columns.iter().collect();
        assert_eq!(distinct.len(), columns.len(), "columns are different");
        let points: Vec<Element> = columns.iter().map(|&it| key.point(limb, it)).collect();
        Self {
            field: QuadraticField::new(key.ring().parameters().limb_moduli()[limb]),
            points: points.into(),
        }
    }

    /// The field of the points.
    pub(crate) fn field(&self) -> &QuadraticField {
        &self.field
    }

    /// `x_i` of each column.
    pub(crate) fn each(&self) -> &[Element] {
        &self.points
    }

    /// Computes `Σ x_i·sums_i` over the columns from index `first` on.
    fn weighted(&self, first: usize, sums: &[u32]) -> Element {
        let terms = self.points[first..].iter().zip(sums);
        terms.fold(Element::default(), |total, (&point, &sum)| {
            let residue = self.field.modulus().reduce(sum.into());
            self.field.add(total, self.field.scale(point, residue))
        })
    }

    /// Returns true if `sums` are `M_ij` of the column at index `place` with each other column, given the token of its
    /// row. A wrong answer is accepted with probability at most `1/q²`, however it was chosen.
    ///
    /// # Panics
    /// If the column does not exist.
    pub(crate) fn verify_row(&self, token: Element, place: usize, sums: &[u32]) -> bool {
        if sums.len() + 1 != self.points.len() {
            return false;
        }
        let (before, behind) = sums.split_at(place);
        let behind = self.weighted(place + 1, behind);
        let found = Zeroizing::new(self.field.add(self.weighted(0, before), behind));
        self.are_residues(sums) && *found == token
    }

    /// Returns true for canonical residues: any other representative counts as a different answer.
    pub(crate) fn are_residues(&self, sums: &[u32]) -> bool {
        vector::largest(sums) < self.field.modulus().value()
    }
}

/// Tokens of the pairs of some columns over some blocks modulo one limb. A party that knows one can forge answers.
#[derive(Clone, Default)]
pub(crate) struct PairTokens {
    /// Contribution of each column to the token of the prefix that ends with it.
    increments: Zeroizing<Vec<Element>>,
    rows: Zeroizing<Vec<Element>>,
}

impl fmt::Debug for PairTokens {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PairTokens({} columns, secret)", self.increments.len())
    }
}

impl PairTokens {
    /// Makes tokens of `columns` columns over zero blocks, with `rows` rows: one per column, or none.
    pub(crate) fn new(columns: usize, rows: usize) -> Self {
        let zero = |count| Zeroizing::new(vec![Element::default(); count]);
        Self {
            increments: zero(columns),
            rows: zero(rows),
        }
    }

    /// Decodes stored tokens: the increment of each column, then each row. `None` if the number is wrong, or one is not
    /// canonical.
    pub(crate) fn kept(q: &Modulus, columns: usize, rows: usize, tokens: &[u32]) -> Option<Self> {
        let (increments, others) = tokens.split_at_checked(2 * columns)?;
        Some(Self {
            increments: elements(q, columns, increments)?,
            rows: elements(q, rows, others)?,
        })
    }

    /// All tokens, in storage order.
    pub(crate) fn tokens(&self) -> impl Iterator<Item = u32> {
        let all = self.increments.iter().chain(self.rows.iter());
        all.flat_map(|it| [it.a, it.b])
    }

    /// Adds a block, given the residues of each column.
    ///
    /// # Panics
    /// If the number of slices is not that of columns, or their lengths differ.
    pub(crate) fn add(&mut self, points: &Points, columns: &[&[u32]]) {
        assert_eq!(
            columns.len(),
            self.increments.len(),
            "each column has residues"
        );
        let field = points.field();
        let q = field.modulus();
        let mut sum = Elements::zero(columns.first().map_or(0, |it| it.len()));
        for (place, column) in columns.iter().enumerate() {
            let point = points.points[place];
            // The previous columns.
            let increment = field.mul(point, sum.dot(field, column));
            self.increments[place] = field.add(self.increments[place], increment);
            sum.add_multiple(field, point, column);
        }
        let rows = self.rows.chunks_mut(LEAVES).zip(columns.chunks(LEAVES));
        for ((rows, columns), points) in rows.zip(points.each().chunks(LEAVES)) {
            let mut sums = Zeroizing::new([Sum::default(); 2 * LEAVES]);
            let sums = &mut sums[..2 * columns.len()];
            vector::dots(&[&sum.a, &sum.b], columns, sums, &[]);
            let (a, b) = sums.split_at(columns.len());
            for (((row, column), point), (a, b)) in rows
                .iter_mut()
                .zip(columns)
                .zip(points)
                .zip(a.iter().zip(b))
            {
                let [a, b] = [a, b].map(|it| it.residue(q));
                // A column is not a pair with itself.
                let own = field.scale(*point, q.neg(vector::dot(q, column, column)));
                *row = field.add(*row, field.add(Element { a, b }, own));
            }
        }
    }

    /// Adds the tokens of other blocks of the same columns and limb.
    pub(crate) fn merge(&mut self, field: &QuadraticField, other: &Self) {
        add_each(field, &mut self.increments, &other.increments);
        add_each(field, &mut self.rows, &other.rows);
    }

    /// Subtracts the tokens of some of the blocks.
    pub(crate) fn subtract(&mut self, field: &QuadraticField, other: &Self) {
        subtract_each(field, &mut self.increments, &other.increments);
        subtract_each(field, &mut self.rows, &other.rows);
    }

    /// Returns true if `sums` are `M_ij` of all pairs of the first `columns` columns, `i < j` in lexicographic order. A
    /// wrong answer is accepted with probability at most `2/q²`, however it was chosen.
    ///
    /// # Panics
    /// If the tokens have fewer columns.
    pub(crate) fn verify_prefix(&self, points: &Points, columns: usize, sums: &[u32]) -> bool {
        let field = points.field();
        let increments = self.increments[..columns].iter();
        if sums.len() != columns * columns.saturating_sub(1) / 2 {
            return false;
        }
        let mut rest = sums;
        let mut found = Zeroizing::new(Element::default());
        for (place, &point) in points.points[..columns].iter().enumerate() {
            let (row, others) = rest.split_at(columns - place - 1);
            rest = others;
            let weighted = points.weighted(place + 1, row);
            *found = field.add(*found, field.mul(point, weighted));
        }
        let add = |sum, &increment: &Element| field.add(sum, increment);
        let token = Zeroizing::new(increments.fold(Element::default(), add));
        points.are_residues(sums) && *found == *token
    }

    /// Returns true if `sums` are `M_ij` of the column at index `place` with each other column.
    ///
    /// # Panics
    /// If the column has no row.
    pub(crate) fn verify_row(&self, points: &Points, place: usize, sums: &[u32]) -> bool {
        points.verify_row(self.rows[place], place, sums)
    }
}

/// Decodes `count` elements from their halves; `None` if the number is wrong, or one is not canonical.
pub(crate) fn elements(
    q: &Modulus,
    count: usize,
    halves: &[u32],
) -> Option<Zeroizing<Vec<Element>>> {
    let (pairs, _) = halves.as_chunks::<2>();
    let element = |&[a, b]: &[u32; 2]| Element { a, b };
    let fits = halves.len() == 2 * count && vector::largest(halves) < q.value();
    fits.then(|| Zeroizing::new(pairs.iter().map(element).collect()))
}

/// Subtracts elements componentwise.
///
/// # Panics
/// If the lengths differ.
pub(crate) fn subtract_each(field: &QuadraticField, sums: &mut [Element], others: &[Element]) {
    let minus = field.modulus().value() - 1;
    assert_eq!(
        sums.len(),
        others.len(),
        "tokens of the same columns are subtracted"
    );
    for (sum, &less) in sums.iter_mut().zip(others) {
        *sum = field.add(*sum, field.scale(less, minus));
    }
}

/// Adds elements componentwise.
///
/// # Panics
/// If the lengths differ.
pub(crate) fn add_each(field: &QuadraticField, sums: &mut [Element], others: &[Element]) {
    assert_eq!(
        sums.len(),
        others.len(),
        "tokens of the same columns are added"
    );
    for (sum, &more) in sums.iter_mut().zip(others) {
        *sum = field.add(*sum, more);
    }
}

/// Elements, one per evaluation point `w`.
pub(crate) struct Elements {
    pub(crate) a: Zeroizing<Vec<u32>>,
    pub(crate) b: Zeroizing<Vec<u32>>,
}

const _: () = assert!(PREFIXES >= 4);

impl Elements {
    /// Returns 0 at each point.
    pub(crate) fn zero(points: usize) -> Self {
        let zero = || Zeroizing::new(vec![0; points]);
        Self {
            a: zero(),
            b: zero(),
        }
    }

    /// Adds `x·c(w)` at each point.
    pub(crate) fn add_multiple(&mut self, field: &QuadraticField, x: Element, column: &[u32]) {
        let q = field.modulus();
        vector::subtract_multiple(q, &mut self.a, column, q.neg(x.a));
        vector::subtract_multiple(q, &mut self.b, column, q.neg(x.b));
    }

    /// Computes the sum over all points of these elements times `c(w)`.
    pub(crate) fn dot(&self, field: &QuadraticField, column: &[u32]) -> Element {
        let mut sums = Zeroizing::new([Sum::default(); 2]);
        vector::dots(&[&self.a, &self.b], &[column], &mut *sums, &[]);
        let q = field.modulus();
        Element {
            a: sums[0].residue(q),
            b: sums[1].residue(q),
        }
    }

    /// Computes the sum over all points.
    pub(crate) fn sum(&self, field: &QuadraticField) -> Element {
        let q = field.modulus();
        Element {
            a: vector::sum(q, &self.a),
            b: vector::sum(q, &self.b),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::key::tests::key;
    use oboro_ring::Parameters;
    use proptest::prelude::*;

    const COLUMNS: [Column; 5] = [Column(4), Column(0), Column(7), Column(2), Column(9)];
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

    /// Sums of a column with each other one.
    fn row(gram: &[Vec<u32>], place: usize) -> Vec<u32> {
        [&gram[place][..place], &gram[place][place + 1..]].concat()
    }

    /// Makes tokens over all points, and the sums of all pairs, the diagonal included, by index.
    fn scene(seed: u64) -> (Kept, Vec<Vec<u32>>, Modulus) {
        let key = key(1, &Parameters::new(11, 2, 12_289).unwrap());
        let q = key.ring().parameters().limb_moduli()[1];
        let columns = residues(seed, q.value());
        let points = Points::new(&key, Limb(1), &COLUMNS);
        let mut tokens = PairTokens::new(COLUMNS.len(), COLUMNS.len());
        tokens.add(&points, &slices(&columns));
        let gram = columns.iter().map(|a| {
            let row = columns.iter().map(|b| vector::dot(&q, a, b));
            row.collect()
        });
        (Kept { points, tokens }, gram.collect(), q)
    }

    struct Kept {
        points: Points,
        tokens: PairTokens,
    }

    impl Kept {
        fn verify_prefix(&self, columns: usize, sums: &[u32]) -> bool {
            self.tokens.verify_prefix(&self.points, columns, sums)
        }

        fn verify_row(&self, place: usize, sums: &[u32]) -> bool {
            self.tokens.verify_row(&self.points, place, sums)
        }
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
        for place in 0..COLUMNS.len() {
            assert!(tokens.verify_row(place, &row(&gram, place)));
        }
        assert!(!tokens.verify_row(4, &gram[4][..3]) && !tokens.verify_row(4, &[]));
        assert!(!tokens.verify_prefix(5, &[0; 9]) && !tokens.verify_prefix(1, &[0]));
    }

    #[test]
    fn points_may_come_in_parts_and_from_threads() {
        let (Kept { points, tokens }, gram, q) = scene(2);
        let columns = residues(2, q.value());
        let mut parts = [0..32, 32..96].map(|some: std::ops::Range<usize>| {
            let mut part = PairTokens::new(COLUMNS.len(), COLUMNS.len());
            let of: Vec<&[u32]> = columns.iter().map(|it| &it[some.clone()]).collect();
            part.add(&points, &of);
            part
        });
        assert!(!parts[0].verify_prefix(&points, 5, &pairs(&gram, 5)));
        let [first, second] = &mut parts;
        first.merge(points.field(), second);
        assert!(first.verify_prefix(&points, 5, &pairs(&gram, 5)));
        assert!(*first.increments == *tokens.increments && *first.rows == *tokens.rows);
    }

    #[test]
    fn points_are_of_their_key_limb_and_column() {
        let parameters = Parameters::new(11, 2, 12_289).unwrap();
        let all = [
            (1, Limb(0), Column(3)),
            (2, Limb(0), Column(3)),
            (1, Limb(1), Column(3)),
            (1, Limb(0), Column(4)),
        ];
        let all = all.map(|(owner, limb, column)| key(owner, &parameters).point(limb, column));
        for (i, x) in all.iter().enumerate() {
            assert!(all[..i].iter().all(|y| y != x));
        }
    }

    /// Checks docs/cryptography.md, "Derivation of secrets", against values computed from it in Python.
    #[test]
    fn points_are_the_golden_ones() {
        let key = key(1, &Parameters::new(11, 2, 12_289).unwrap());
        let point = key.point(Limb(1), Column(3));
        assert_eq!((point.a, point.b), (83_406_246, 111_581_245));
    }

    #[test]
    #[should_panic(expected = "columns are different")]
    fn a_column_is_there_once() {
        let key = key(1, &Parameters::new(11, 2, 12_289).unwrap());
        Points::new(&key, Limb(0), &[3, 5, 3].map(Column));
    }

    /// The accepted answers are the kernel of two equations, one for each half. Lies that solve one are rejected; a lie
    /// that solves both cannot be detected, which is why points are secret.
    #[test]
    fn answers_are_verified_in_both_halves_of_the_field() {
        let (tokens, gram, q) = scene(4);
        let x = tokens.points.each();
        let lie = |sums: &[u32], delta: &[u32]| -> Vec<u32> {
            let lies = sums.iter().zip(delta);
            lies.map(|(&sum, &delta)| q.add(sum, delta)).collect()
        };
        let in_a = [x[1].a, q.neg(x[0].a), 0, 0];
        let in_b = [x[1].b, q.neg(x[0].b), 0, 0];
        for delta in [in_a, in_b] {
            assert!(!tokens.verify_row(4, &lie(&row(&gram, 4), &delta)));
        }
        // The cross product of both halves is orthogonal to both.
        let cross = |i: usize, j: usize| q.sub(q.mul(x[i].a, x[j].b), q.mul(x[i].b, x[j].a));
        let both = [cross(1, 2), cross(2, 0), cross(0, 1), 0];
        assert!(both[0] != 0 && tokens.verify_row(4, &lie(&row(&gram, 4), &both)));
        // Likewise for a prefix of three, whose weights are the products of two points.
        let products = [(0, 1), (0, 2), (1, 2)].map(|(i, j)| tokens.points.field().mul(x[i], x[j]));
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
        let (Kept { points, tokens }, ..) = scene(3);
        assert_eq!(format!("{tokens:?}"), "PairTokens(5 columns, secret)");
        assert_eq!(format!("{points:?}"), "Points(5 columns, secret)");
    }

    proptest! {
        /// Any answer but the right one is rejected: single values, values that cancel in the plain sum, swaps, another
        /// representative, answers to another query.
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
            let right = row(&gram, place);
            let mut lied = right.clone();
            let last = lied.len() - 1;
            match kind {
                0 => lied[last] = q.add(lied[last], delta),
                1 => {
                    lied[0] = q.add(lied[0], delta);
                    lied[last] = q.sub(lied[last], delta);
                }
                2 => lied.swap(0, last),
                3 => lied[last] += q.value(),
                4 => lied = row(&gram, (place + 1) % COLUMNS.len()),
                _ => lied.rotate_left(last),
            }
            prop_assert_eq!(tokens.verify_row(place, &lied), lied == right);
        }
    }
}
