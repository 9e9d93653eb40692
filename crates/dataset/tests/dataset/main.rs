//! Integration tests of this crate.

mod crashes;
