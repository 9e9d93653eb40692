//! Owner's side of private genome search: patterns, encryption of a query, decryption of the answers.

mod query;
mod reading;

pub use query::{Pattern, PatternError};
pub use reading::{EncryptError, Found, OwnQuery, ReadError};
