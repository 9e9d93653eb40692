//! Errors of collections of genomes, each with the remedy.
//!
//! Text from files is quoted, escaped and truncated. Lines and columns count from 1.

use crate::alphabet::MAX_ALLELE;
use crate::kind::Kind;
use crate::limits::{MAX_BASES, MAX_HAPLOTYPES};
use oboro_format::wording::SKIP_DUPLICATES;
use oboro_format::{Corruption, ErrorKind, FormatError};
use oboro_genome::MAX_SITES;
use std::path::PathBuf;
use thiserror::Error;

/// Error of this crate. The message is one or two plain sentences.
#[derive(Debug, Error)]
#[allow(missing_docs)]
pub enum GenomeError {
    /// Failure of the file system.
    #[error(transparent)]
    Files(FormatError),
    #[error(
        "disk full while writing {}: the collection was not loaded, those that are there are unaffected. Free some \
         space and load it again.",
        path.display()
    )]
    DiskFull { path: PathBuf },
    #[error(
        "a collection is being loaded into or removed from {} by another process. Try again when it has ended.",
        path.display()
    )]
    Busy { path: PathBuf },
    #[error("{subject} {corruption}. {}", remedy(corruption))]
    Damaged {
        subject: String,
        corruption: Corruption,
    },

    #[error(
        "{given:?} is not a name of a collection: use 1 to 100 of the characters A-Z a-z 0-9 . _ - and no dot in \
         front."
    )]
    Name { given: String },
    #[error("there is no {kind} named {name:?} here. List the collections to see those that are.")]
    NoCollection { kind: Kind, name: String },
    #[error("there is a {kind} named {name:?} already. Choose another name, {}.", exists_remedy(*replaceable))]
    Exists {
        kind: Kind,
        name: String,
        replaceable: bool,
    },

    #[error("the panel has no chromosome {given:?}. Name one of these: {known}.")]
    NoChromosome { given: String, known: String },
    #[error("the panel has more than one chromosome. Name one of these: {known}.")]
    ChromosomeNeeded { known: String },
    #[error("the panel is an alignment and has no chromosomes. Give the number of a column alone.")]
    NoChromosomes,
    #[error("the alignment has no column {position}. Give one of 1 to {columns}.")]
    NoColumn { position: u64, columns: usize },
    #[error(
        "the panel has no site at position {position}; the nearest is {nearest}. Give the position of a site."
    )]
    NoSite { position: u64, nearest: String },
    #[error(
        "the panel has {sites} sites, and the {wanted} from number {} on are not all among them. Ask for fewer, or \
         begin earlier.",
        first + 1
    )]
    NoWindow {
        first: usize,
        wanted: usize,
        sites: usize,
    },

    #[error(
        "only {there} sites of the chromosome are left from position {position} on, and the query has {wanted} \
         symbols. Begin earlier, or ask for fewer."
    )]
    TooFewSites {
        position: u64,
        wanted: usize,
        there: usize,
    },
    #[error(
        "the budget of searches is spent: {spent} of {budget} are used, and this would be {searches} more. Ask the \
         operator for a new one (oboro genome reset)."
    )]
    BudgetSpent {
        spent: u64,
        searches: u64,
        budget: u64,
    },
    #[error(
        "the counts of searches (genome/budgets) are damaged: the file {0}. Nothing is searched until the operator \
         resets them (oboro genome reset)."
    )]
    DamagedBudgets(Corruption),
    #[error(
        "the counts of searches (genome/budgets) were restored from a backup of {copied}, and searches since then are not \
         in them. Nothing is searched on a budget until the operator goes on from them (oboro genome budget) or resets \
         them (oboro genome reset)."
    )]
    RestoredBudgets { copied: String },

    /// Unusable file to be imported.
    #[error("{file}{}: {cause}", line.map(|line| format!(", line {line}")).unwrap_or_default())]
    Input {
        file: String,
        line: Option<u64>,
        cause: InputError,
    },
    #[error("{what} must be {range}, not {value}. Change it and generate again.")]
    OutOfRange {
        what: &'static str,
        range: String,
        value: u64,
    },
}

fn remedy(corruption: &Corruption) -> &'static str {
    match corruption {
        Corruption::Magic { .. } => {
            "It is no file of Oboro: move it away, and load the collection again."
        }
        Corruption::Older { .. } => "Load the collection again.",
        Corruption::Newer { .. } => {
            "Install that Oboro or a newer one, or load the collection again."
        }
        Corruption::Unreadable(_) => {
            "Check the disk, and load the collection again from its VCF or FASTA file."
        }
        _ => "Load the collection again from its VCF or FASTA file.",
    }
}

fn exists_remedy(replaceable: bool) -> &'static str {
    if replaceable {
        "or ask for it to be replaced"
    } else {
        "or remove that one first"
    }
}

impl GenomeError {
    /// Returns the coarse kind of an error, by which a caller decides its reaction.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Files(error) => error.kind(),
            Self::DiskFull { .. } => ErrorKind::DiskFull,
            Self::Busy { .. } => ErrorKind::Busy,
            Self::Damaged { .. } | Self::DamagedBudgets(_) => ErrorKind::DataLoss,
            Self::BudgetSpent { .. } | Self::RestoredBudgets { .. } => {
                ErrorKind::FailedPrecondition
            }
            Self::NoCollection { .. } => ErrorKind::NotFound,
            Self::Exists { .. } => ErrorKind::AlreadyExists,
            Self::Name { .. }
            | Self::NoChromosome { .. }
            | Self::ChromosomeNeeded { .. }
            | Self::NoChromosomes
            | Self::NoColumn { .. }
            | Self::NoSite { .. }
            | Self::NoWindow { .. }
            | Self::TooFewSites { .. }
            | Self::Input { .. }
            | Self::OutOfRange { .. } => ErrorKind::InvalidArgument,
        }
    }
}

impl From<FormatError> for GenomeError {
    fn from(error: FormatError) -> Self {
        match error {
            FormatError::DiskFull { path } => Self::DiskFull { path },
            FormatError::Locked { path, .. } => Self::Busy { path },
            other => Self::Files(other),
        }
    }
}

/// Error in a file to be imported. Its text continues a sentence that names the file.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[allow(missing_docs)]
pub enum InputError {
    #[error("it cannot be read: {0}. Check that it exists and that you may read it.")]
    Unreadable(String),
    #[error("it is empty. Check that it is the right file.")]
    Empty,
    #[error("its gzip data ends too early. Fetch or write it again.")]
    Truncated,
    #[error(
        "it was compressed by bgzip and lacks the empty block at its end, so that it was probably cut off. Fetch it \
         again."
    )]
    NoEndBlock,
    #[error("its gzip data is damaged ({0}). Fetch or write it again.")]
    Corrupt(String),
    #[error("the line is longer than {0} MiB. Check that this is a text file of genomes.")]
    LongLine(usize),
    #[error("the header is longer than {0} MiB. Check that this is a VCF file.")]
    LongHeader(usize),
    #[error("it is BCF. Convert it with `bcftools view -O z`.")]
    Bcf,
    #[error(
        "it is neither VCF, which begins with \"##fileformat=VCF\", nor FASTA, which begins with \">\", but begins \
         with {0}. Give one of these, plain or compressed by gzip or bgzip."
    )]
    NotGenomes(String),
    #[error("a reference is read from FASTA, and this is VCF. Load it as a panel.")]
    VcfReference,

    #[error(
        "the VCF header cannot be read: {0}. Repair it, for instance with `bcftools reheader`."
    )]
    Header(String),
    #[error("the VCF file has no samples. Give one with phased genotypes.")]
    NoSamples,
    #[error(
        "this is no line of VCF: {0}. Check that the file is complete, or write it anew with `bcftools view`."
    )]
    Record(String),
    #[error(
        "the line has genotypes of {found} samples where the header names {expected}. Check that the file is complete."
    )]
    Samples { found: usize, expected: usize },
    #[error(
        "the site at {site} has no genotypes (no GT in FORMAT). Give a file with phased genotypes."
    )]
    NoGenotypes { site: String },
    #[error(
        "sample {sample} at {site} has the genotype {call}, which is not phased: an allele after / has no known \
         haplotype. Phase the genotypes first (SHAPEIT, Beagle, Eagle), or leave the sample out."
    )]
    Unphased {
        sample: String,
        site: String,
        call: String,
    },
    #[error(
        "sample {sample} at {site} has the genotype {call}, in which an allele is missing. Impute it, or leave out \
         such sites with `bcftools view -g ^miss`."
    )]
    Missing {
        sample: String,
        site: String,
        call: String,
    },
    #[error(
        "sample {sample} at {site} has {call} for a genotype. A phased genotype is like 0|1, of the alleles that the \
         line names."
    )]
    Genotype {
        sample: String,
        site: String,
        call: String,
    },
    #[error(
        "sample {sample} has {found} alleles at {site} and {expected} at the sites before. Load a region where all \
         samples keep their ploidy, as of chromosome X without the pseudoautosomal ends."
    )]
    Ploidy {
        sample: String,
        site: String,
        found: usize,
        expected: usize,
    },
    #[error(
        "the site at {site} has {found} alleles, and at most {} are possible. Leave such sites out with `bcftools view \
         -M {}`. Do not split them into several lines, of which only one can be loaded.",
        MAX_ALLELE + 1,
        MAX_ALLELE + 1
    )]
    Alleles { site: String, found: usize },
    #[error(
        "the site at {site} is there twice. Load only the first line of each position (`{SKIP_DUPLICATES}`): a haplotype \
         with an allele of another line then counts as one with the reference's. Or load a file with one line a \
         position. Programs that join lines may lose or exchange phases."
    )]
    Duplicate { site: String },
    #[error(
        "the site at {site} follows one at position {before}. Sort the file, for instance with `bcftools sort`."
    )]
    Unsorted { site: String, before: u64 },
    #[error(
        "chromosome {0} is continued after another. Sort the file, for instance with `bcftools sort`."
    )]
    Scattered(String),
    #[error(
        "{0} is no name of a chromosome or sequence: use 1 to 255 bytes without control characters."
    )]
    SequenceName(String),
    #[error("it has no site{0}. Check the region and the file.")]
    NoSites(String),
    #[error(
        "there are more than {MAX_SITES} sites. Load regions of the file as panels of their own."
    )]
    TooManySites,
    #[error(
        "there are more than {MAX_HAPLOTYPES} haplotypes. Split the samples over several panels."
    )]
    TooManyHaplotypes,

    #[error("there are letters before the first name. Begin every sequence with a line \">NAME\".")]
    NoName,
    #[error(
        "{letter} in column {column} is no base, no gap (- or .) and none of the IUPAC letters. Correct it."
    )]
    Letter { letter: String, column: usize },
    #[error(
        "sequence {0} has no bases. Check that the file is complete, or leave the sequence out."
    )]
    NoBases(String),
    #[error("sequence {0} is there twice. Rename or remove one.")]
    SequenceAgain(String),
    #[error(
        "there are more than {MAX_BASES} bases. Load parts of the file as references of their own."
    )]
    TooManyBases,
    #[error(
        "sequence {name} has {found} letters where the first has {expected}. In an alignment all have the same length; \
         align the sequences first, for instance with MAFFT."
    )]
    Unaligned {
        name: String,
        found: usize,
        expected: usize,
    },
    #[error("an alignment has columns and no chromosomes. Leave the region out.")]
    RegionOfAlignment,
}

/// Error: the text is no region.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error(
    "{given:?} is no region. Write CHROMOSOME:FROM-TO, as in 20:400000-900000, where FROM is not beyond TO."
)]
pub struct RegionError {
    /// The text, truncated if it is long.
    pub given: String,
}

/// Formats a piece of a file for a message: quoted, escaped, and truncated if it is long.
pub(crate) fn excerpt(text: impl AsRef<[u8]>) -> String {
    const SHOWN: usize = 40;
    let bytes = text.as_ref();
    // A character has at most four bytes; more need not be decoded.
    let head = String::from_utf8_lossy(&bytes[..bytes.len().min(4 * SHOWN + 4)]);
    match head.char_indices().nth(SHOWN) {
        Some((end, _)) => format!("{:?}…", &head[..end]),
        None => format!("{head:?}"),
    }
}
