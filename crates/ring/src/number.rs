//! Newtypes for numbers that must not be mistaken for each other, each counted from 0.

use std::fmt;
use std::ops::{Index, IndexMut, Range};

/// A column of a dataset, by number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Column(pub u32);

/// A limb: a prime factor of the ciphertext modulus.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Limb(pub usize);

/// Consecutive blocks of a dataset. Empty if `start >= end`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Blocks {
    /// First block.
    pub start: u64,
    /// One past the last block.
    pub end: u64,
}

/// Factor of a product of ciphertexts. The mask counts as one more column: it sorts before the columns and is stored
/// behind them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Factor {
    /// The mask of the block.
    Mask,
    /// A column of the dataset.
    Column(Column),
}

impl Column {
    /// The first `count` columns.
    pub fn first(count: u32) -> impl DoubleEndedIterator<Item = Self> + ExactSizeIterator + Clone {
        (0..count).map(Self)
    }

    /// Numbers items, one per column, by column.
    pub fn enumerate<I: IntoIterator>(items: I) -> impl Iterator<Item = (Self, I::Item)> {
        (0..).map(Self).zip(items)
    }

    /// The column as an index of a slice with one element per column.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

impl Limb {
    /// The first `count` limbs.
    pub fn first(
        count: usize,
    ) -> impl DoubleEndedIterator<Item = Self> + ExactSizeIterator + Clone {
        (0..count).map(Self)
    }

    /// Numbers items, one per limb, by limb.
    pub fn enumerate<I: IntoIterator>(items: I) -> impl Iterator<Item = (Self, I::Item)> {
        (0..).map(Self).zip(items)
    }
}

impl Blocks {
    /// Returns `count` blocks from `start` on.
    pub fn from_start(start: u64, count: u64) -> Self {
        (start..start + count).into()
    }

    /// The number of blocks.
    pub fn len(self) -> u64 {
        self.end.saturating_sub(self.start)
    }

    /// Returns true if the range is empty.
    pub fn is_empty(self) -> bool {
        self.start >= self.end
    }

    /// Returns true if `others` lie within these blocks.
    pub fn contain(self, others: Self) -> bool {
        self.start <= others.start && others.end <= self.end
    }

    /// Returns the blocks common to both ranges.
    #[must_use]
    pub fn intersection(self, others: Self) -> Self {
        (self.start.max(others.start)..self.end.min(others.end)).into()
    }

    /// Splits the blocks into runs of `most`; the last may be shorter.
    pub fn runs(self, most: u64) -> impl Iterator<Item = Self> {
        let starts = self.numbers().step_by(most as usize);
        starts.map(move |start| (start..self.end.min(start.saturating_add(most))).into())
    }

    /// Block numbers in the dataset.
    pub fn numbers(self) -> Range<u64> {
        self.start..self.end
    }

    /// Indices of the blocks within `all`, which contains them.
    pub fn indices_in(self, all: Self) -> Range<usize> {
        (self.start - all.start) as usize..(self.end - all.start) as usize
    }
}

impl From<Range<u64>> for Blocks {
    fn from(Range { start, end }: Range<u64>) -> Self {
        Self { start, end }
    }
}

impl From<Column> for Factor {
    fn from(column: Column) -> Self {
        Self::Column(column)
    }
}

impl fmt::Display for Column {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Display for Limb {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Lets slices and vectors with one element per number be indexed by it.
macro_rules! index_by {
    ($($number:ident => $index:expr;)*) => {$(
        impl<T> Index<$number> for [T] {
            type Output = T;

            fn index(&self, number: $number) -> &T {
                &self[$index(number)]
            }
        }

        impl<T> IndexMut<$number> for [T] {
            fn index_mut(&mut self, number: $number) -> &mut T {
                &mut self[$index(number)]
            }
        }

        impl<T> Index<$number> for Vec<T> {
            type Output = T;

            fn index(&self, number: $number) -> &T {
                &self[$index(number)]
            }
        }

        impl<T> IndexMut<$number> for Vec<T> {
            fn index_mut(&mut self, number: $number) -> &mut T {
                &mut self[$index(number)]
            }
        }
    )*};
}

index_by! {
    Column => Column::index;
    Limb => |limb: Limb| limb.0;
}

#[cfg(test)]
mod tests {
    use super::*;

    fn blocks(start: u64, end: u64) -> Blocks {
        Blocks { start, end }
    }

    #[test]
    fn what_two_ranges_share_is_in_both() {
        let (a, b) = (blocks(2, 9), blocks(5, 12));
        assert_eq!(
            (a.intersection(b), b.intersection(a)),
            (blocks(5, 9), blocks(5, 9))
        );
        assert!(a.contain(blocks(5, 9)) && !a.contain(b));
        assert_eq!(blocks(5, 9).indices_in(a), 3..7);
        let apart = a.intersection(blocks(20, 30));
        assert!(apart.is_empty());
        assert_eq!(apart.len(), 0);
    }

    #[test]
    fn runs_have_every_block_once() {
        assert!(
            blocks(3, 10)
                .runs(3)
                .eq([blocks(3, 6), blocks(6, 9), blocks(9, 10)])
        );
        assert!(blocks(3, 4).runs(u64::MAX).eq([blocks(3, 4)]));
        assert_eq!(blocks(4, 4).runs(3).count(), 0);
    }
}
