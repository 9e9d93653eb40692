//! The server's side of private genome search: what it holds, and how it is compared with an
//! encrypted query so that the answer says no more than was asked.
//!
//! Nothing here can decrypt: the crate does not depend on the one that has secrets.

mod evaluate;
mod rows;

pub use evaluate::{Evaluation, Multiplicity, Workspace};
pub use rows::{Rows, Window};
