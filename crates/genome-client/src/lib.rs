//! The owner's side of private genome search: patterns, the encryption of a query, and reading the answers.

mod query;
mod reading;

pub use query::{Pattern, PatternError};
pub use reading::{EncryptError, Found, OwnQuery, ReadError};
