//! Kinds of collections and their sizes.

use crate::alphabet::Alphabet;
use std::fmt;

/// What a collection is.
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

/// How large a collection is, and of what.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shape {
    /// Of a panel.
    Panel {
        /// The rows of its matrix.
        haplotypes: u32,
        /// The columns of its matrix.
        sites: u32,
        /// What its symbols mean.
        alphabet: Alphabet,
    },
    /// Of a reference.
    Reference {
        /// How many sequences it has.
        sequences: u32,
        /// The bases of all of them.
        bases: u32,
    },
}
