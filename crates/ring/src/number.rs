//! Numbers that must not be mistaken for each other, each counted from 0.

use std::fmt;

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
