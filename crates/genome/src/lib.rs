//! Private genome search: what both sides know of a query.
//!
//! The server has *rows* of symbols, all of one length: haplotypes at a window of sites, or the
//! windows of a reference. How many symbols of a query a row lacks is a linear form of the query
//! ([`SearchSpec::encode`], [`SearchSpec::form`]), so the server multiplies a matrix by an encrypted
//! vector. A [`Plan`] says how both lie in polynomials, in which ring, how much noise hides the
//! server's part, and how few bits the answer needs. It follows from public numbers alone, so both
//! sides make the same one. The argument for both sides' privacy: `docs/cryptography.md`, "Genome
//! search".
//!
//! Nothing in this crate is secret, and nothing in it samples or reads anything.

mod plan;
mod search_spec;
mod sites;
pub mod wire;

pub use plan::{Plan, PlanError, STATISTICAL_BITS};
pub use search_spec::{
    Kind, MAX_LENGTH, MAX_ROWS, MAX_SYMBOLS, MAX_WITHIN, SearchSpec, SearchSpecError,
};
pub use sites::{MAX_SITES, sites_digest};

/// A row's symbol that matches no symbol of a query, only a wildcard: a base that is not known.
pub const UNKNOWN: u8 = u8::MAX;
