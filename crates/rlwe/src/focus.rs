//! Rows of focus columns, for datasets where not all pairs have fixed parts (docs/cryptography.md, "Many columns").
//!
//! For a focus column `f` the owner keeps the fixed parts of its pairs with all others and `Σ_{j≠f} x_j M_{fj}`. Columns
//! pass one at a time, so only the blocks of one are in memory.

use crate::fingerprint::Points;
use crate::key::DatasetKey;
use crate::order::ColumnOrder;
use oboro_ring::vector::{self, Sum};
use oboro_ring::{Element, Limb, Modulus, QuadraticField};
use std::fmt;
use zeroize::Zeroizing;

/// Sums for the focus columns, over some blocks modulo one limb.
pub(crate) struct FocusSums(Vec<RowSums>);

/// Sums for a focus column `f`.
struct RowSums {
    place: usize,
    /// `s_f` at each point.
    secret: Zeroizing<Vec<u32>>,
    token: Element,
    /// For each column `j` `Σ_w s_f(w)·M_{j,1}(w)`, the first term of the fixed part; 0 for `f` itself.
    parts: Zeroizing<Vec<u32>>,
    /// `M_{f,1}`.
    moment: Vec<u32>,
}

impl FocusSums {
    /// Returns sums over zero blocks.
    pub(crate) fn new(key: &DatasetKey, limb: Limb, order: &ColumnOrder) -> Self {
        let row = |&place: &usize| RowSums {
            place,
            secret: key
                .column_secret(order.columns()[place])
                .evaluate(key.ring(), limb),
            token: Element::default(),
            parts: Zeroizing::new(vec![0; order.columns().len()]),
            moment: vec![0; key.ring().degree()],
        };
        Self(order.focus().iter().map(row).collect())
    }

    /// Returns true without focus columns.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Adds blocks to `M_{f,1}` of the focus columns, given the mask and their residues of each block.
    fn add_moments(&mut self, q: &Modulus, masks: &[&[u32]], focus: &[Vec<&[u32]>]) {
        for (mask, focus) in masks.iter().zip(focus) {
            assert_eq!(focus.len(), self.0.len(), "all focus columns");
            for (row, residues) in self.0.iter_mut().zip(focus) {
                vector::multiply_add(q, mask, residues, &mut row.moment);
            }
        }
    }

    /// Adds the sums of other blocks of the same columns and limb.
    pub(crate) fn merge(&mut self, field: &QuadraticField, other: &Self) {
        for (row, more) in self.0.iter_mut().zip(&other.0) {
            row.token = field.add(row.token, more.token);
            vector::add_assign(field.modulus(), &more.parts, &mut row.parts);
            vector::add_assign(field.modulus(), &more.moment, &mut row.moment);
        }
    }

    /// Subtracts the sums of some of the blocks.
    pub(crate) fn subtract(&mut self, field: &QuadraticField, other: &Self) {
        let q = field.modulus();
        for (row, less) in self.0.iter_mut().zip(&other.0) {
            row.token = field.add(row.token, field.scale(less.token, q.value() - 1));
            vector::subtract_multiple(q, &mut row.parts, &less.parts, 1);
            vector::subtract_multiple(q, &mut row.moment, &less.moment, 1);
        }
    }

    /// Computes the rows to keep, given `M_{∅,2}`: `u_fj = Σ_w (s_f·M_{j,1} + s_j·(M_{f,1} + s_f·M_{∅,2}))(w)`.
    pub(crate) fn finish(
        mut self,
        key: &DatasetKey,
        limb: Limb,
        order: &ColumnOrder,
        mask_squared: &[u32],
    ) -> Vec<Row> {
        let q = &key.ring().parameters().limb_moduli()[limb];
        for row in &mut self.0 {
            // From here on `moment` is M_{f,1} + s_f·M_{∅,2}.
            vector::multiply_add(q, &row.secret, mask_squared, &mut row.moment);
        }
        if !self.is_empty() {
            for (place, &column) in order.columns().iter().enumerate() {
                let secret = key.column_secret(column).evaluate(key.ring(), limb);
                for row in self.0.iter_mut().filter(|row| row.place != place) {
                    let other = vector::dot(q, &secret, &row.moment);
                    row.parts[place] = q.add(row.parts[place], other);
                }
            }
        }
        let row = |row: RowSums| Row {
            token: row.token,
            parts: row.parts,
        };
        self.0.into_iter().map(row).collect()
    }
}

/// Residues of a focus column `f` in a block, and `s_f(w) a(w)`.
type FocusBlock<'a> = (&'a [u32], Zeroizing<Vec<u32>>);

/// Pass over all columns of some blocks, which adds the contribution of each column to the rows.
pub struct Pass<'a> {
    points: &'a Points,
    sums: &'a mut FocusSums,
    /// Focus columns of each block.
    blocks: Vec<Vec<FocusBlock<'a>>>,
}

impl<'a> Pass<'a> {
    /// Starts a pass over blocks with these masks, and for each block the residues of the focus columns.
    ///
    /// # Panics
    /// If the focus columns of a block do not match, or the length of a slice is not `N`.
    pub(crate) fn new(
        points: &'a Points,
        sums: &'a mut FocusSums,
        masks: &[&'a [u32]],
        focus: &[Vec<&'a [u32]>],
    ) -> Self {
        assert_eq!(masks.len(), focus.len(), "each block has focus columns");
        let q = points.field().modulus();
        sums.add_moments(q, masks, focus);
        let rows = &sums.0;
        let block = |(&mask, focus): (&&'a [u32], &Vec<&'a [u32]>)| {
            let focus = focus.iter().zip(rows).map(|(&residues, row)| {
                let mut product = Zeroizing::new(vec![0; mask.len()]);
                vector::multiply(q, &row.secret, mask, &mut product);
                (residues, product)
            });
            focus.collect()
        };
        let blocks = masks.iter().zip(focus).map(block).collect();
        Self {
            points,
            sums,
            blocks,
        }
    }

    /// Adds the column at index `place`, given its residues in each block. Each column must be added once.
    ///
    /// # Panics
    /// If the column does not exist, or some block lacks its slice of `N` residues.
    pub fn add(&mut self, place: usize, residues: &[&[u32]]) {
        assert_eq!(residues.len(), self.blocks.len(), "residues of each block");
        let (field, point) = (self.points.field(), self.points.each()[place]);
        let q = field.modulus();
        for (block, column) in self.blocks.iter().zip(residues) {
            let rows = self.sums.0.iter_mut().zip(block);
            for (row, (focus, product)) in rows.filter(|(row, _)| row.place != place) {
                let mut sums = Zeroizing::new([Sum::default(); 2]);
                vector::dots(&[focus, product], &[column], &mut *sums, &[]);
                row.token = field.add(row.token, field.scale(point, sums[0].residue(q)));
                row.parts[place] = q.add(row.parts[place], sums[1].residue(q));
            }
        }
    }
}

/// Data kept of a focus column with all others, over a range modulo one limb. It depends on the secrets.
#[derive(Clone)]
pub(crate) struct Row {
    /// `Σ_{j≠f} x_j M_{fj}`.
    pub(crate) token: Element,
    /// Fixed part of its pair with each column; 0 for itself.
    pub(crate) parts: Zeroizing<Vec<u32>>,
}

impl fmt::Debug for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Row({} columns, secret)", self.parts.len())
    }
}

impl Row {
    /// Returns the number of words of a row in a dataset of this many columns.
    pub(crate) fn words(columns: usize) -> usize {
        2 + columns
    }

    /// Decodes stored words, in the order of [`all`](Self::all). `None` if one is not canonical.
    pub(crate) fn kept(q: &Modulus, words: &[u32]) -> Option<Self> {
        let (&[a, b], parts) = words.split_first_chunk()?;
        (vector::largest(words) < q.value()).then(|| Self {
            token: Element { a, b },
            parts: Zeroizing::new(parts.to_vec()),
        })
    }

    /// Returns all words, in storage order.
    pub(crate) fn all(&self) -> impl Iterator<Item = u32> {
        let token = [self.token.a, self.token.b];
        token.into_iter().chain(self.parts.iter().copied())
    }

    /// Adds the kept data of other blocks of the same columns and limb.
    pub(crate) fn merge(&mut self, field: &QuadraticField, other: &Self) {
        self.token = field.add(self.token, other.token);
        vector::add_assign(field.modulus(), &other.parts, &mut self.parts);
    }
}
