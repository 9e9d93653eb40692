//! The owner's side of mining: transactions in, frequent itemsets and association rules out.
//!
//! Everything here sees plaintext and item names, and runs at the owner, never on the server. Item numbers are dense
//! indices into a list of names; results are documents with names instead of numbers. All input (files, answers of a
//! support counter) is checked before use, and no input makes this crate panic.

pub mod apriori;
pub mod bitmap;
mod candidates;
mod certain;
pub mod condensed;
pub mod dataset;
pub mod deduction;
pub mod eclat;
mod encryption;
mod error;
pub mod frequent;
pub mod itemset;
pub mod itemsets_document;
mod prefix_tree;
mod progress;
pub mod quest;
mod ranges;
pub mod readers;
pub mod record;
pub mod release;
pub mod report;
mod rewrite;
pub mod rules;
pub mod run_record;
pub mod shuffled;
mod spill_vec;
pub mod tables;
pub mod text;
pub mod transactions;
pub mod writers;

#[cfg(test)]
mod testing;

/// Compiles and runs the README's example.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
pub struct Readme;

pub use apriori::{AprioriError, AprioriOptions, LevelReport, SupportCounter, apriori};
pub use bitmap::{Bitmap, PlaintextCounter};
pub use condensed::{Kept, most_frequent};
pub use dataset::{Dataset, DatasetPlan, NewItems, Target};
pub use deduction::{Bounds, Contradiction};
pub use eclat::eclat;
pub use error::{DatasetError, RecordError};
pub use frequent::FrequentItemsets;
pub use itemset::{FrequentItemset, Itemset};
pub use itemsets_document::{ItemsetsDocument, ItemsetsError, Source};
pub use progress::Progress;
pub use quest::QuestParameters;
pub use ranges::MOST_PAIRED;
pub use readers::{Format, HowRead, ReadError, ReadOptions, read, read_next, read_path};
pub use record::{Failure, OwnerRecord, Reliance, Trust};
pub use release::{Release, ReleaseError};
pub use rewrite::{Compaction, Erasure, FoundRow, RowSelection};
pub use rules::{
    Metric, NamedRule, Rule, RuleMetrics, RuleOptions, Rules, RulesError, association_rules,
};
pub use run_record::{Digested, FileDigest, RunRecord};
pub use shuffled::{Cells, Shuffled, Shuffling, unpack_row_ids};
pub use text::{Name, Names, escaped, escaped_lines, number_of};
pub use transactions::{MinSupport, Transactions, TransactionsBuilder};
