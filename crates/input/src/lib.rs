//! Transactions as people have them: readers of files and tables, taxonomies, bins, and a generator.
//!
//! Everything here sees plaintext, at the owner only. Every input is checked before use, and no input makes this crate
//! panic.

pub mod quest;
pub mod readers;
mod spill_vec;
pub mod text;
pub mod transactions;
pub mod writers;

pub use quest::QuestParameters;
pub use readers::{Format, HowRead, ReadError, ReadOptions, read, read_next, read_path};
pub use text::{Name, Names, escaped, escaped_lines, number_of};
pub use transactions::{MinSupport, Transactions, TransactionsBuilder};
