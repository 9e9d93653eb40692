//! Kinds of collections and their sizes.

use crate::alphabet::Alphabet;
use std::fmt;

/// Kind of a collection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Kind {
    /// Aligned haplotypes.
    Panel,
    /// Sequences.
    Reference,
}

impl Kind {
    pub(crate) const ALL: [Self; 2] = [Self::Panel, Self::Reference];

    pub(crate) fn magic(self) -> &'static str {
        match self {
            Self::Panel => "OBOROPAN",
            Self::Reference => "OBOROREF",
        }
    }

    pub(crate) fn extension(self) -> &'static str {
        match self {
            Self::Panel => ".panel",
            Self::Reference => ".reference",
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Panel => "panel",
            Self::Reference => "reference",
        })
    }
}

/// Size and contents of a collection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shape {
    /// Panel.
    Panel {
        /// Number of rows of its matrix.
        haplotypes: u32,
        /// Number of columns of its matrix.
        sites: u32,
        /// Meaning of its symbols.
        alphabet: Alphabet,
    },
    /// Reference.
    Reference {
        /// Number of its sequences.
        sequences: u32,
        /// Number of bases of all of them.
        bases: u32,
    },
}
