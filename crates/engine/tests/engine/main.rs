//! Integration tests of this crate, in one program to link once.

mod backends;
mod moments;
mod steady_state;
mod streaming;
