//! Integration tests of this crate.

mod real_data;
