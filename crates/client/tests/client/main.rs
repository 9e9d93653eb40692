//! The integration tests of this crate, in one program: each links everything.

mod common;
mod device;
mod local;
mod mining;
