//! One module per command: its arguments, its work, its output.

pub mod access;
pub mod backup;
pub mod count;
pub mod datasets;
pub mod encrypt;
pub mod generate;
pub mod genome;
pub mod inspect;
pub mod keygen;
pub mod mine;
pub mod pairs;
pub mod plan;
pub mod queries;
pub mod recover;
pub mod report;
pub mod rewriting;
pub mod row_ids;
pub mod rules;
pub mod scrub;
pub mod serve;
pub mod shell;
pub mod store;
pub mod token;
pub mod trust;
pub mod upload;
pub mod usage;
