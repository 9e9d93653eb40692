//! Reading VCF and FASTA files into collections.
//!
//! The format is detected from the first bytes, and gzip and bgzip are unpacked. Files are streamed: memory holds a
//! line and a block of sites (for a reference, its bases).

mod fasta;
mod lines;
mod vcf;

use crate::collections::{Collections, Existing, Info, Kind};
use crate::error::{GenomeError, InputError, RegionError};
use lines::Lines;
use std::fmt;
use std::path::Path;
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

/// A panel that was loaded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Imported {
    /// What a listing says about it.
    pub info: Info,
    /// What was left out.
    pub left_out: LeftOut,
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

/// Loads a panel from a VCF file with phased genotypes, or from an alignment in FASTA.
///
/// # Errors
/// A file that cannot be used, with the line and the remedy; a name that is taken; a disk that fails. The
/// collections stay as they were.
pub fn import_panel(
    collections: &Collections,
    name: &str,
    file: &Path,
    options: &PanelOptions,
) -> Result<Imported, GenomeError> {
    let loading = collections.begin(Kind::Panel, name, options.existing)?;
    let mut lines = Lines::open(file)?;
    let left_out = match lines.format()? {
        Format::Vcf => vcf::read_panel(&mut lines, loading, options)?,
        Format::Fasta if options.region.is_some() => {
            return Err(lines.error(InputError::RegionOfAlignment));
        }
        Format::Fasta => {
            fasta::read_panel(&mut lines, loading)?;
            LeftOut::default()
        }
    };
    Ok(Imported {
        info: collections.info(Kind::Panel, name)?,
        left_out,
    })
}

/// Loads a reference from a FASTA file.
///
/// # Errors
/// Like those of [`import_panel`].
pub fn import_reference(
    collections: &Collections,
    name: &str,
    file: &Path,
    existing: Existing,
) -> Result<Info, GenomeError> {
    let loading = collections.begin(Kind::Reference, name, existing)?;
    let mut lines = Lines::open(file)?;
    match lines.format()? {
        Format::Vcf => return Err(lines.error(InputError::VcfReference)),
        Format::Fasta => fasta::read_reference(&mut lines)?.write(loading)?,
    }
    collections.info(Kind::Reference, name)
}

/// The format of a file of genomes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Format {
    Vcf,
    Fasta,
}

#[cfg(test)]
mod tests;
