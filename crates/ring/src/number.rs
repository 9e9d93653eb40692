//! Numbers that must not be mistaken for each other, each counted from 0.

use std::fmt;
use std::ops::{Index, IndexMut, Range};

/// A column of a dataset, by number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Column(pub u32);

/// A limb: a prime factor of the ciphertext modulus.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Limb(pub usize);

/// Consecutive blocks of a dataset: a range to sum over, a shard, those of a segment. Empty if `start >= end`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Blocks {
    /// The first.
    pub start: u64,
    /// One past the last.
    pub end: u64,
}

/// A factor of a product of ciphertexts: the mask counts as one more column. It sorts before the columns, and is stored
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

    /// These items, of which there is one for each column, with their columns.
    pub fn enumerate<I: IntoIterator>(items: I) -> impl Iterator<Item = (Self, I::Item)> {
        (0..).map(Self).zip(items)
    }

    /// As an index into what is kept by column.
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

    /// These items, of which there is one for each limb, with their limbs.
    pub fn enumerate<I: IntoIterator>(items: I) -> impl Iterator<Item = (Self, I::Item)> {
        (0..).map(Self).zip(items)
    }
}

impl Blocks {
    /// `count` blocks from `start` on.
    pub fn from_start(start: u64, count: u64) -> Self {
        (start..start + count).into()
    }

    /// The number of blocks.
    pub fn len(self) -> u64 {
        self.end.saturating_sub(self.start)
    }

    /// Whether there are none.
    pub fn is_empty(self) -> bool {
        self.start >= self.end
    }

    /// Whether all of `others` are among them.
    pub fn contain(self, others: Self) -> bool {
        self.start <= others.start && others.end <= self.end
    }

    /// Those that are in `others` as well.
    #[must_use]
    pub fn intersection(self, others: Self) -> Self {
        (self.start.max(others.start)..self.end.min(others.end)).into()
    }

    /// The same in runs of `most` blocks, the last of which may be shorter.
    pub fn runs(self, most: u64) -> impl Iterator<Item = Self> {
        let starts = self.numbers().step_by(most as usize);
        starts.map(move |start| (start..self.end.min(start.saturating_add(most))).into())
    }

    /// Their numbers in the dataset.
    pub fn numbers(self) -> Range<u64> {
        self.start..self.end
    }

    /// Their indices among `all`, which contain them.
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

/// Lets slices and vectors that hold one element for each number be indexed by it.
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
