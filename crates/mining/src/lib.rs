//! Frequent itemsets and association rules: Apriori over any support counter, Eclat, deduction, condensed results.
//!
//! No file, no key and no network: a counter answers with supports, and the driver checks them. Item numbers are dense
//! indices into a list of names. No input makes this crate panic.

pub mod apriori;
pub mod bitmap;
pub mod candidates;
mod certain;
pub mod condensed;
pub mod deduction;
pub mod eclat;
pub mod frequent;
pub mod itemset;
pub mod prefix_tree;
pub mod rules;
#[cfg(any(test, feature = "testing"))]
pub mod testing;

pub use apriori::{AprioriError, AprioriOptions, LevelReport, SupportCounter, apriori};
pub use bitmap::{Bitmap, PlaintextCounter};
pub use condensed::{Kept, most_frequent};
pub use deduction::{Bounds, Contradiction};
pub use eclat::eclat;
pub use frequent::FrequentItemsets;
pub use itemset::{FrequentItemset, Itemset};
pub use rules::{
    Metric, NamedRule, Rule, RuleMetrics, RuleOptions, Rules, RulesError, association_rules,
};
