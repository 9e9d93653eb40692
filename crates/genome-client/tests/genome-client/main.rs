//! The integration tests of this crate, in one program: each links everything.

mod blinding;
mod search;
