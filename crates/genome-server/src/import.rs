//! Import of VCF and FASTA files into collections.
//!
//! The format is detected from the first bytes, and gzip and bgzip are unpacked. Files are streamed: memory holds a
//! line and a block of sites (for a reference, its bases).

mod fasta;
mod lines;
mod options;
mod vcf;

pub use options::{Duplicates, PanelOptions, Region, SkippedSites};

use crate::collections::{Collections, Existing, Info};
use crate::error::{GenomeError, InputError};
use crate::kind::Kind;
use lines::{Format, Lines};
use std::path::Path;

/// Panel that was loaded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ImportedPanel {
    /// Entry of the panel in a listing.
    pub info: Info,
    /// Sites left out.
    pub left_out: SkippedSites,
}

/// Loads a panel from a VCF file with phased genotypes, or from an alignment in FASTA.
///
/// # Errors
/// The file cannot be used (the error has the line and the remedy), the name is taken, or the disk fails. The
/// collections stay as they were.
pub fn import_panel(
    collections: &Collections,
    name: &str,
    file: &Path,
    options: &PanelOptions,
) -> Result<ImportedPanel, GenomeError> {
    let loading = collections.begin(Kind::Panel, name, options.existing)?;
    let mut lines = Lines::open(file)?;
    let left_out = match lines.format()? {
        Format::Vcf => vcf::read_panel(&mut lines, loading, options)?,
        Format::Fasta if options.region.is_some() => {
            return Err(lines.error(InputError::RegionOfAlignment));
        }
        Format::Fasta => {
            fasta::read_panel(&mut lines, loading)?;
            SkippedSites::default()
        }
    };
    Ok(ImportedPanel {
        info: collections.info(Kind::Panel, name)?,
        left_out,
    })
}

/// Loads a reference from a FASTA file.
///
/// # Errors
/// As those of [`import_panel`].
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

#[cfg(test)]
mod tests;
