//! Integration tests of this crate, in one program because each links everything.

mod common;
mod device;
mod genome;
mod growth;
mod hostile;
mod local;
mod mining;
