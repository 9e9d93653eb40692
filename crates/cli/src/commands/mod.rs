//! Commands, one module each: arguments, work and output.

pub mod access;
pub mod count;
pub mod datasets;
pub mod encrypt;
pub mod generate;
pub mod genome;
pub mod inspect;
pub mod keygen;
pub mod mine;
#[cfg(feature = "serve")]
pub mod operator;
pub mod pairs;
pub mod plan;
pub mod queries;
pub mod recover;
pub mod report;
pub mod rewriting;
pub mod row_ids;
pub mod rules;
pub mod scrub;
pub mod shell;
pub mod trust;
pub mod upload;
