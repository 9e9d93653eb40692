//! What of a file becomes a panel.

use crate::collections::Existing;
use crate::error::RegionError;
use std::fmt;
use std::str::FromStr;

/// A part of a chromosome, both ends included.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Region {
    /// The chromosome as the file names it.
    pub chromosome: String,
    /// The first position.
    pub from: u64,
    /// The last position.
    pub to: u64,
}

impl FromStr for Region {
    type Err = RegionError;

    /// Reads `CHROMOSOME:FROM-TO`. Positions may have commas; a chromosome may have colons.
    fn from_str(text: &str) -> Result<Self, RegionError> {
        let parse = || {
            let (chromosome, positions) = text.rsplit_once(':')?;
            let (from, to) = positions.split_once('-')?;
            let number = |digits: &str| digits.replace(',', "").parse().ok();
            let region = Self {
                chromosome: chromosome.to_owned(),
                from: number(from)?,
                to: number(to)?,
            };
            (!chromosome.is_empty() && region.from <= region.to).then_some(region)
        };
        parse().ok_or_else(|| RegionError {
            given: text.chars().take(100).collect(),
        })
    }
}

impl fmt::Display for Region {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}-{}", self.chromosome, self.from, self.to)
    }
}

/// What is done with lines of a VCF file that repeat the position of the line before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Duplicates {
    /// The file is refused: a panel has one symbol of a haplotype at a position.
    Refuse,
    /// The first line counts.
    Skip,
}

/// Sites of a file that were left out of the panel, as requested.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct LeftOut {
    /// Lines of a VCF file that are not in the region.
    pub outside_region: u64,
    /// Lines of a VCF file that repeat the position of the line before.
    pub duplicates: u64,
}

/// What of a file becomes a panel, and how.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PanelOptions {
    /// The part of a VCF file that is wanted; `None` for all of it.
    pub region: Option<Region>,
    /// For VCF files.
    pub duplicates: Duplicates,
    /// What happens to a panel of the same name.
    pub existing: Existing,
}

impl Default for PanelOptions {
    fn default() -> Self {
        Self {
            region: None,
            duplicates: Duplicates::Refuse,
            existing: Existing::Keep,
        }
    }
}
