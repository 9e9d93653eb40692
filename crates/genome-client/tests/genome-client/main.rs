//! Integration tests of this crate, in one program to link once.

mod blinding;
mod search;
