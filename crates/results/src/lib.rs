//! Results as they leave the owner: documents with item names, tables, reports, control of releases, run records.
//!
//! Documents are untrusted input as well: a reader checks everything that later computations assume.

pub mod itemsets_document;
pub mod release;
pub mod report;
pub mod run_record;
pub mod tables;

/// Compiles and runs the README's example.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
pub struct Readme;

pub use itemsets_document::{ItemsetsDocument, ItemsetsError, Source};
pub use release::{Release, ReleaseError};
pub use run_record::{DigestWriter, FileDigest, RunRecord};
