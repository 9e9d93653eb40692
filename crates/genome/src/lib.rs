//! Private genome search: the definitions that both sides share.
//!
//! The server has *rows* of symbols, all of one length: haplotypes at a window of sites, or the windows of a reference.
//! The number of a query's symbols that a row lacks is a linear form of the query ([`SearchSpec::encode`],
//! [`SearchSpec::form`]), so the server multiplies a matrix by an encrypted vector. A [`Plan`] defines the layout of
//! both in polynomials, the ring, how much noise hides the server's data, and how few bits the answer needs. It follows
//! from public numbers alone, so both sides compute the same one. The privacy argument for both sides:
//! `docs/cryptography.md`, "Genome search".
//!
//! Nothing in this crate is secret; it does no sampling and no I/O.

mod plan;
mod search_spec;
mod sites;
mod symbol_set;
pub mod wire;

pub use plan::{Plan, PlanError, STATISTICAL_BITS};
pub use search_spec::{
    Kind, MAX_LENGTH, MAX_ROWS, MAX_SYMBOLS, MAX_WITHIN, SearchSpec, SearchSpecError,
};
pub use sites::{MAX_SITES, sites_digest};
pub use symbol_set::SymbolSet;

/// The symbol of a row that matches only a wildcard: an unknown base, or a gap.
pub const UNKNOWN: u8 = u8::MAX;
