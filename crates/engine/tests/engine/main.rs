//! The integration tests of this crate, in one program: each links everything.

mod backends;
mod moments;
mod steady_state;
mod streaming;
