//! The integration tests of this crate, in one program: each links everything.

mod crashes;
mod real_data;
