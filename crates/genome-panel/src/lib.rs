//! The server's genomes: panels and references on disk, their import, and windows of them.
//!
//! A *panel* is a matrix of symbols, haplotypes by sites, stored site by site; a *reference* is the bases of
//! one or more sequences. Operators load them with [`import_panel`], [`import_reference`] or
//! [`generate_panel`] while a server reads them through [`Collections`]. A query starts from a [`Window`]: the
//! rows of a panel at a few neighbouring sites, and how often each different row occurs.
//!
//! Everything here is the operator's secret and nothing of it is a client's; what clients learn is decided
//! above. Bytes are specified in `docs/formats.md`.

mod alphabet;
mod collections;
mod error;
mod frame;
mod generate;
mod import;
mod packing;
mod panel;
mod reference;
mod sites;
#[cfg(test)]
mod testing;
mod window;

pub use alphabet::{Alphabet, MAX_ALLELE, UNKNOWN};
pub use collections::{Collections, Existing, Info, Kind, Listing, Shape};
pub use error::{GenomeError, InputFault, RegionError};
pub use generate::{Generated, generate_panel};
pub use import::{Duplicates, PanelOptions, Region, import_panel, import_reference};
pub use panel::{MAX_HAPLOTYPES, Panel};
pub use reference::{MAX_BASES, Reference, Sequence, reverse_complement};
pub use sites::{MAX_SITES, Site};
pub use window::Window;
