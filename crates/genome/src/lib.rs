//! Private genome search: definitions shared by client and server.
//!
//! The server has *rows* of symbols, all of one length: haplotypes at a window of sites, or the windows of a reference.
//! The number of a query's symbols that a row lacks is a linear form of the query ([`SearchSpec::encode`],
//! [`SearchSpec::form`]). The server thus multiplies a matrix by an encrypted vector. A [`Plan`] defines the layout of
//! both in polynomials, the ring, the noise that hides the server's data, and the bits of the answer. It follows from
//! public numbers alone: both sides compute equal plans. `docs/cryptography.md`, "Genome search", has the privacy
//! argument for both sides.
//!
//! The crate holds no secrets, does no sampling and no I/O.

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

/// Symbol of a row that matches only a wildcard: an unknown base, or a gap.
pub const UNKNOWN: u8 = u8::MAX;
