//! Datasets with more columns than have fixed parts for all their pairs (docs/cryptography.md, "Many columns").
//!
//! For each column the owner keeps `column(i) = Σ_w z_{s(w)} a(w) c_i(w)`, which verifies moments `M_{i,1}` that the
//! server sends. For each range it keeps `M_{∅,2}`. From these and its secrets it computes the fixed parts of the pairs
//! of a query. For a focus column `f` it keeps the fixed parts with all others and `Σ_{j≠f} x_j M_{fj}`. Columns pass
//! one at a time: only the blocks of one are in memory.

use crate::fingerprint::{Elements, PairTokens, Points, add_each, elements, subtract_each};
use crate::key::DatasetKey;
use crate::order::ColumnOrder;
use oboro_ring::vector::{self, Sum};
use oboro_ring::{Element, Limb, Modulus, QuadraticField};
use std::fmt;
use zeroize::Zeroizing;

/// Sums for many columns, over some blocks modulo one limb.
pub(crate) struct WideSums {
    columns: Zeroizing<Vec<Element>>,
    rows: Vec<RowSums>,
}

/// Sums for a focus column `f`.
struct RowSums {
    place: usize,
    /// `s_f` at each point.
    secret: Zeroizing<Vec<u32>>,
    token: Element,
    /// First term of the fixed part with each column `j`, `Σ_w s_f(w)·M_{j,1}(w)`; 0 for `f` itself.
    parts: Zeroizing<Vec<u32>>,
    /// `M_{f,1}`.
    moment: Vec<u32>,
}

impl WideSums {
    /// Makes sums over zero blocks.
    pub(crate) fn new(key: &DatasetKey, limb: Limb, order: &ColumnOrder) -> Self {
        let count = order.columns().len();
        let row = |&place: &usize| RowSums {
            place,
            secret: key
                .column_secret(order.columns()[place])
                .evaluate(key.ring(), limb),
            token: Element::default(),
            parts: Zeroizing::new(vec![0; count]),
            moment: vec![0; key.ring().degree()],
        };
        Self {
            columns: Zeroizing::new(vec![Element::default(); count]),
            rows: order.focus().iter().map(row).collect(),
        }
    }

    /// Adds to `M_{f,1}` of the focus columns: for each block its mask and their residues.
    fn add_focus(&mut self, q: &Modulus, masks: &[&[u32]], focus: &[Vec<&[u32]>]) {
        for (mask, focus) in masks.iter().zip(focus) {
            assert_eq!(focus.len(), self.rows.len(), "all focus columns");
            for (row, residues) in self.rows.iter_mut().zip(focus) {
                vector::multiply_add(q, mask, residues, &mut row.moment);
            }
        }
    }

    /// Adds the sums of other blocks of the same columns and limb.
    pub(crate) fn merge(&mut self, field: &QuadraticField, other: &Self) {
        add_each(field, &mut self.columns, &other.columns);
        for (row, more) in self.rows.iter_mut().zip(&other.rows) {
            row.token = field.add(row.token, more.token);
            vector::add_assign(field.modulus(), &more.parts, &mut row.parts);
            vector::add_assign(field.modulus(), &more.moment, &mut row.moment);
        }
    }

    /// Subtracts the sums of some of the blocks.
    pub(crate) fn subtract(&mut self, field: &QuadraticField, other: &Self) {
        let q = field.modulus();
        subtract_each(field, &mut self.columns, &other.columns);
        for (row, less) in self.rows.iter_mut().zip(&other.rows) {
            row.token = field.add(row.token, field.scale(less.token, q.value() - 1));
            vector::subtract_multiple(q, &mut row.parts, &less.parts, 1);
            vector::subtract_multiple(q, &mut row.moment, &less.moment, 1);
        }
    }

    /// Computes the data to keep, given `M_{∅,2}`: `u_fj = Σ_w (s_f·M_{j,1} + s_j·(M_{f,1} + s_f·M_{∅,2}))(w)`.
    pub(crate) fn finish(
        mut self,
        key: &DatasetKey,
        limb: Limb,
        order: &ColumnOrder,
        mask_squared: &[u32],
    ) -> Wide {
        let q = &key.ring().parameters().limb_moduli()[limb];
        for row in &mut self.rows {
            // From here on `moment` is M_{f,1} + s_f·M_{∅,2}.
            vector::multiply_add(q, &row.secret, mask_squared, &mut row.moment);
        }
        if !self.rows.is_empty() {
            for (place, &column) in order.columns().iter().enumerate() {
                let secret = key.column_secret(column).evaluate(key.ring(), limb);
                for row in self.rows.iter_mut().filter(|row| row.place != place) {
                    let other = vector::dot(q, &secret, &row.moment);
                    row.parts[place] = q.add(row.parts[place], other);
                }
            }
        }
        let row = |row: RowSums| Row {
            token: row.token,
            parts: row.parts,
        };
        Wide {
            columns: self.columns,
            rows: self.rows.into_iter().map(row).collect(),
            mask_squared: mask_squared.to_vec(),
        }
    }
}

/// Pass over all columns of some blocks, in the owner's order, which adds the contribution of each column to the sums.
pub struct Pass<'a> {
    points: &'a Points,
    tokens: &'a mut PairTokens,
    sums: &'a mut WideSums,
    blocks: Vec<PassBlock<'a>>,
}

struct PassBlock<'a> {
    /// `Σ_j x_j c_j(w)` over the columns so far.
    running: Elements,
    /// `z_{s(w)} a(w)`.
    weighted_mask: Elements,
    /// Residues and `s_f(w) a(w)` of each focus column `f`.
    focus: Vec<(&'a [u32], Zeroizing<Vec<u32>>)>,
}

impl<'a> Pass<'a> {
    /// Starts a pass over blocks with these masks, and for each block the residues of the focus columns.
    ///
    /// # Panics
    /// If the focus columns of a block do not match, or the length of a slice is not `N`.
    pub(crate) fn new(
        points: &'a Points,
        weights: &Elements,
        (tokens, sums): (&'a mut PairTokens, &'a mut WideSums),
        masks: &[&'a [u32]],
        focus: &[Vec<&'a [u32]>],
    ) -> Self {
        assert_eq!(masks.len(), focus.len(), "each block has focus columns");
        let field = points.field();
        let q = field.modulus();
        sums.add_focus(q, masks, focus);
        let rows = &sums.rows;
        let block = |(&mask, focus): (&&'a [u32], &Vec<&'a [u32]>)| {
            let mut weighted_mask = Elements::zero(mask.len());
            weighted_mask.set_multiple(field, weights, mask);
            let focus = focus.iter().zip(rows).map(|(&residues, row)| {
                let mut product = Zeroizing::new(vec![0; mask.len()]);
                vector::multiply(q, &row.secret, mask, &mut product);
                (residues, product)
            });
            PassBlock {
                running: Elements::zero(mask.len()),
                weighted_mask,
                focus: focus.collect(),
            }
        };
        let blocks = masks.iter().zip(focus).map(block).collect();
        Self {
            points,
            tokens,
            sums,
            blocks,
        }
    }

    /// Adds the column at index `place`, given its residues in each block. Each column must be added once, in the
    /// owner's order.
    ///
    /// # Panics
    /// If the column does not exist, or a block lacks its slice of `N` residues.
    pub fn add(&mut self, place: usize, residues: &[&[u32]]) {
        assert_eq!(residues.len(), self.blocks.len(), "residues of each block");
        let (field, point) = (self.points.field(), self.points.each()[place]);
        let q = field.modulus();
        for (block, column) in self.blocks.iter_mut().zip(residues) {
            let (x, z) = (&block.running, &block.weighted_mask);
            let mut sums = Zeroizing::new([Sum::default(); 4]);
            vector::dots(&[&x.a, &x.b, &z.a, &z.b], &[column], &mut *sums, &[]);
            let element = |at: usize| Element {
                a: sums[at].residue(q),
                b: sums[at + 1].residue(q),
            };
            self.tokens
                .add_increment(field, place, field.mul(point, element(0)));
            let own = &mut self.sums.columns[place];
            *own = field.add(*own, element(2));
            block.running.add_multiple(field, point, column);
            let rows = self.sums.rows.iter_mut().zip(&block.focus);
            for (row, (focus, product)) in rows.filter(|(row, _)| row.place != place) {
                let mut sums = Zeroizing::new([Sum::default(); 2]);
                vector::dots(&[focus, product], &[column], &mut *sums, &[]);
                row.token = field.add(row.token, field.scale(point, sums[0].residue(q)));
                row.parts[place] = q.add(row.parts[place], sums[1].residue(q));
            }
        }
    }
}

/// Secret kept data of many columns, over a range modulo one limb.
#[derive(Clone)]
pub(crate) struct Wide {
    /// `column(i)` of each column.
    pub(crate) columns: Zeroizing<Vec<Element>>,
    /// Row of each focus column.
    pub(crate) rows: Vec<Row>,
    /// `M_{∅,2}`.
    pub(crate) mask_squared: Vec<u32>,
}

/// Focus column paired with all others.
#[derive(Clone)]
pub(crate) struct Row {
    /// `Σ_{j≠f} x_j M_{fj}`.
    pub(crate) token: Element,
    /// Fixed part of its pair with each column; 0 for itself.
    pub(crate) parts: Zeroizing<Vec<u32>>,
}

impl Row {
    /// Words in storage order.
    fn all(&self) -> impl Iterator<Item = u32> {
        let token = [self.token.a, self.token.b];
        token.into_iter().chain(self.parts.iter().copied())
    }
}

impl fmt::Debug for Wide {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (columns, rows) = (self.columns.len(), self.rows.len());
        write!(f, "Wide({columns} columns, {rows} rows, secret)")
    }
}

impl Wide {
    /// Number of words for these numbers of columns and focus columns in a ring of this degree; `None` on overflow.
    pub(crate) fn words(columns: usize, focus: usize, degree: usize) -> Option<usize> {
        let rows = focus.checked_mul(columns.checked_add(2)?)?;
        rows.checked_add(2 * columns)?.checked_add(degree)
    }

    /// Decodes stored words, in the order of [`all`](Self::all). `None` if the number is wrong, or one is not
    /// canonical.
    pub(crate) fn kept(q: &Modulus, columns: usize, focus: usize, words: &[u32]) -> Option<Self> {
        let (tokens, rest) = words.split_at_checked(2 * columns)?;
        let (rows, mask_squared) = rest.split_at_checked(focus * (2 + columns))?;
        if vector::largest(words) >= q.value() {
            return None;
        }
        let row = |row: &[u32]| Row {
            token: Element {
                a: row[0],
                b: row[1],
            },
            parts: Zeroizing::new(row[2..].to_vec()),
        };
        Some(Self {
            columns: elements(q, columns, tokens)?,
            rows: rows.chunks_exact(2 + columns).map(row).collect(),
            mask_squared: mask_squared.to_vec(),
        })
    }

    /// Words in storage order.
    pub(crate) fn all(&self) -> impl Iterator<Item = u32> {
        let columns = self.columns.iter().flat_map(|it| [it.a, it.b]);
        let rows = self.rows.iter().flat_map(Row::all);
        columns.chain(rows).chain(self.mask_squared.iter().copied())
    }

    /// Adds the kept data of other blocks of the same columns and limb.
    pub(crate) fn merge(&mut self, field: &QuadraticField, other: &Self) {
        add_each(field, &mut self.columns, &other.columns);
        for (row, more) in self.rows.iter_mut().zip(&other.rows) {
            row.token = field.add(row.token, more.token);
            vector::add_assign(field.modulus(), &more.parts, &mut row.parts);
        }
        vector::add_assign(field.modulus(), &other.mask_squared, &mut self.mask_squared);
    }
}
