//! Numbers that must not be mistaken for each other, each counted from 0.

use std::fmt;
use std::ops::{Index, IndexMut};

/// A column of a dataset, in the owner's order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Column(pub u32);

/// A limb: a prime factor of the ciphertext modulus.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Limb(pub usize);

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
