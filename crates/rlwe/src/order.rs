//! The owner's order of columns, and which of them have fingerprints and fixed parts.

use oboro_ring::Column;
use std::fmt;
use std::ops::Range;
use thiserror::Error;

/// Columns in the owner's order. All pairs of the first `paired` have fixed parts. With more columns, so has each pair
/// with a focus column; other pairs cannot be verified.
#[derive(Clone, PartialEq, Eq)]
pub struct ColumnOrder {
    columns: Vec<Column>,
    paired: usize,
    /// Indices of the focus columns, ascending.
    focus: Vec<usize>,
}

/// Omits the order, which is that of supports.
impl fmt::Debug for ColumnOrder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (columns, paired, focus) = (self.columns.len(), self.paired, self.focus.len());
        write!(
            f,
            "ColumnOrder({columns} columns, {paired} paired, {focus} focus)"
        )
    }
}

/// Error: columns, pairs and focus columns do not form a valid order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error(
    "an order has each column once, pairs of its first ones, and focus columns only beside others"
)]
pub struct OrderError;

impl ColumnOrder {
    /// Checks the order of these columns; `focus` are some of them, in this order.
    ///
    /// # Errors
    /// A column is repeated, or `paired` exceeds the number of columns. A focus column is unknown, or not needed since
    /// all pairs have fixed parts.
    pub fn new(columns: Vec<Column>, paired: usize, focus: &[Column]) -> Result<Self, OrderError> {
        let mut sorted: Vec<(Column, usize)> = columns.iter().copied().zip(0..).collect();
        sorted.sort_unstable();
        let place = |&column: &Column| {
            let found = sorted.binary_search_by_key(&column, |it| it.0).ok()?;
            Some(sorted[found].1)
        };
        let places: Vec<usize> = focus
            .iter()
            .map(place)
            .collect::<Option<_>>()
            .ok_or(OrderError)?;
        // In column order, which is the storage order of their data.
        let is_valid = (1..=columns.len()).contains(&paired)
            && sorted.is_sorted_by(|a, b| a.0 < b.0)
            && places.is_sorted_by(|a, b| a < b)
            && (places.is_empty() || paired < columns.len());
        is_valid
            .then_some(Self {
                columns,
                paired,
                focus: places,
            })
            .ok_or(OrderError)
    }

    /// All columns.
    pub fn columns(&self) -> &[Column] {
        &self.columns
    }

    /// The columns all of whose pairs have fixed parts.
    pub fn paired(&self) -> &[Column] {
        &self.columns[..self.paired]
    }

    /// Indices of the columns whose pairs with all others have fixed parts; empty if all pairs do.
    pub fn focus(&self) -> &[usize] {
        &self.focus
    }

    /// Returns true if some pairs lack fixed parts.
    pub fn is_wide(&self) -> bool {
        self.paired < self.columns.len()
    }

    /// Returns true if the row of the column at an index can be requested: all pairs with it have fixed parts.
    pub fn has_row(&self, place: usize) -> bool {
        if self.is_wide() {
            self.focus.binary_search(&place).is_ok()
        } else {
            place < self.columns.len()
        }
    }

    /// Indices of the columns after those that have fixed parts for all their pairs.
    pub fn tail(&self) -> Range<usize> {
        self.paired..self.columns.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_order_has_each_column_once_and_focus_only_where_it_is_needed() {
        let order =
            ColumnOrder::new([4, 0, 7, 2].map(Column).to_vec(), 2, &[4, 7].map(Column)).unwrap();
        assert_eq!(order.paired(), [4, 0].map(Column));
        assert_eq!(order.focus(), [0, 2]);
        let rows: Vec<bool> = (0..5).map(|place| order.has_row(place)).collect();
        assert_eq!(rows, [true, false, true, false, false]);
        assert_eq!(
            format!("{order:?}"),
            "ColumnOrder(4 columns, 2 paired, 2 focus)"
        );
        let narrow = ColumnOrder::new([4, 0].map(Column).to_vec(), 2, &[]).unwrap();
        assert!(!narrow.is_wide() && narrow.has_row(1) && !narrow.has_row(2));
        for (columns, paired, focus) in [
            (vec![4, 0, 4], 2, &[][..]),
            (vec![4, 0], 3, &[]),
            (vec![4, 0], 0, &[]),
            (vec![4, 0], 2, &[4]),
            (vec![4, 0, 7], 2, &[5]),
            (vec![4, 0, 7], 2, &[7, 7]),
            (vec![4, 0, 7], 2, &[7, 4]),
            (vec![], 0, &[]),
        ] {
            let [columns, focus] =
                [&columns, focus].map(|it: &[u32]| it.iter().copied().map(Column).collect());
            let focus: Vec<Column> = focus;
            assert_eq!(ColumnOrder::new(columns, paired, &focus), Err(OrderError));
        }
    }
}
