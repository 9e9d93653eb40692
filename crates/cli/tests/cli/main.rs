//! The integration tests of this crate, in one program: each links everything.

mod allocator;
mod architecture;
mod clients;
mod common;
mod compatibility;
mod cuts;
mod damage;
mod genome;
mod independent_decryption;
mod independent_verification;
mod json;
mod keys;
mod killing;
mod liar;
mod make;
mod memory;
mod mining;
mod objects;
mod placement;
mod plan;
mod refusals;
mod scrubbing;
mod serving;
mod terminal;
mod uploading;
mod workers;
