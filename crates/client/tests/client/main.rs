//! Integration tests of this crate, in one program because each links everything.

mod common;
mod credentials;
mod device;
mod genome;
mod genome_blinding;
mod genome_query;
mod growth;
mod hostile;
mod liar;
mod local;
mod mining;
mod owners;
mod ways;
