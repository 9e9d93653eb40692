//! Server's side of private genome search: collections, and their comparison with encrypted queries. The answer reveals
//! no more than the query asks.
//!
//! A *panel* is a matrix of symbols, haplotypes by sites, stored site by site; a *reference* is the bases of one or
//! more sequences. Operators load them with [`import_panel`], [`import_reference`] or [`generate_panel`] while a server
//! reads them through [`Collections`]. A query starts from [`Rows`] of either, which make a [`Window`], and its answers
//! come from an [`Evaluation`]. `docs/formats.md` specifies the files.
//!
//! The crate cannot decrypt: it does not depend on the one that has secrets.

mod alphabet;
mod budget;
mod checking;
mod collections;
mod error;
mod evaluate;
mod frame;
mod generate;
mod import;
mod kind;
mod limits;
mod loading;
mod packing;
mod panel;
mod plaintext;
mod reference;
mod rows;
mod sites;
#[cfg(test)]
mod testing;
mod transpose;

pub use alphabet::{Alphabet, MAX_ALLELE};
pub use budget::{Budgets, check as check_budget};
pub use checking::{
    CheckedPart, CollectionScrub, CopiedCollections, collection_bytes, copy_collections,
};
pub use collections::{Collections, Existing, Info, Listing};
pub use error::{GenomeError, InputError, RegionError};
pub use evaluate::{Evaluation, ExpandedQuery, Multiplicity, Workspace};
pub use generate::{SyntheticPanel, generate_panel};
pub use import::{
    Duplicates, ImportedPanel, PanelOptions, Region, SkippedSites, import_panel, import_reference,
};
pub use kind::{Kind, Shape};
pub use limits::{MAX_BASES, MAX_HAPLOTYPES};
pub use panel::HaplotypePanel;
pub use reference::{Reference, Sequence, reverse_complement};
pub use rows::{Rows, Window};
pub use sites::{MAX_SITES, Site};
