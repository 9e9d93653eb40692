//! What of a file becomes a panel.

use crate::collections::Existing;
use crate::error::RegionError;
use std::fmt;
use std::str::FromStr;

/// Part of a chromosome, both ends included.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Region {
    /// Chromosome, by its name in the file.
    pub chromosome: String,
    /// First position.
    pub from: u64,
    /// Last position.
    pub to: u64,
}

impl FromStr for Region {
    type Err = RegionError;

    /// Parses `CHROMOSOME:FROM-TO`. Positions may have commas; a chromosome may have colons.
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

/// Treatment of lines of a VCF file that repeat the position of the line before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Duplicates {
    /// Reject the file: a panel has one symbol of a haplotype at a position.
    Refuse,
    /// Use the first line only.
    Skip,
}

/// Numbers of sites that were left out of the panel, as requested.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SkippedSites {
    /// Lines of a VCF file outside the region.
    pub outside_region: u64,
    /// Lines of a VCF file that repeat the position of the line before.
    pub duplicates: u64,
}

/// Options of importing a panel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PanelOptions {
    /// Wanted part of a VCF file; `None` for all of it.
    pub region: Option<Region>,
    /// Treatment of repeated positions in VCF files.
    pub duplicates: Duplicates,
    /// Treatment of an existing panel of this name.
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
