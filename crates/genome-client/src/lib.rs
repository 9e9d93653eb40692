//! The owner's side of private genome search: a query in the field's letters, its encryption for one
//! question, and what the answers say.

mod query;
mod reading;

pub use query::{Pattern, PatternError};
pub use reading::{EncryptError, Found, OwnQuery, ReadError};
