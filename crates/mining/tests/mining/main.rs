//! Integration tests of this crate, in one program: each program links everything.

mod crashes;
mod real_data;
