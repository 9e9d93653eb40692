//! Association rules from frequent itemsets, with mlxtend's metrics.
//!
//! A rule `A → C` is a frequent itemset split in two. [`metrics`] has the table of metrics.

use std::cmp::Ordering;

use serde::{Deserialize, Serialize};

use crate::frequent::FrequentItemsets;
use crate::itemset::{FrequentItemset, Itemset, UnnamedItem, name_items};
use oboro_input::text::Names;

pub use metrics::{Metric, RuleMetrics, UnknownMetric};

pub mod metrics;

/// The largest number of transactions that rules and documents may have. JSON readers commonly keep numbers in 64-bit
/// floating point, which is exact up to 2^53.
pub const MAX_TRANSACTIONS: u64 = 1 << 53;

/// Selection of the rules to generate.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RuleOptions {
    /// The metric that selects rules.
    pub metric: Metric,
    /// The least value of the metric.
    pub min_threshold: f64,
    /// The largest number of rules. An itemset of `k` items gives 2^k − 2: a low threshold could yield more than
    /// anyone reads, so exceeding the limit is an error.
    pub max_rules: usize,
}

impl RuleOptions {
    /// The default limit of rules: 160 MB of them.
    pub const DEFAULT_MAX_RULES: usize = 10_000_000;

    /// Selects rules whose `metric` is at least `min_threshold`.
    pub fn new(metric: Metric, min_threshold: f64) -> Self {
        RuleOptions {
            metric,
            min_threshold,
            max_rules: Self::DEFAULT_MAX_RULES,
        }
    }
}

impl Default for RuleOptions {
    /// Selects rules with a confidence of at least 0.8, as in mlxtend.
    fn default() -> Self {
        RuleOptions::new(Metric::Confidence, 0.8)
    }
}

/// Association rule: transactions that contain the antecedent tend to contain the consequent.
#[derive(Clone, Debug, PartialEq)]
pub struct Rule {
    /// The items of the condition. Not empty.
    pub antecedent: Itemset,
    /// The items of the conclusion. Not empty, and disjoint from the antecedent.
    pub consequent: Itemset,
    /// The rule's metrics.
    pub metrics: RuleMetrics,
}

/// Error of generating rules.
#[derive(Debug, thiserror::Error)]
pub enum RulesError {
    /// Itemset without some of its subsets.
    #[error(
        "the itemsets are incomplete: {} is among them, but its subset {} is not; mine again and keep all itemsets, short ones too",
        Names(itemset),
        Names(subset)
    )]
    MissingSubset {
        /// The names of the itemset.
        itemset: Vec<String>,
        /// The names of the missing subset.
        subset: Vec<String>,
    },
    /// Supports that no transactions could give.
    #[error(
        "the itemset {} cannot have support {support} when its subset {} has {subset_support} of {transactions} transactions; mine again",
        Names(itemset),
        Names(subset)
    )]
    ImpossibleSupport {
        /// The names of the itemset.
        itemset: Vec<String>,
        /// The support.
        support: u64,
        /// The names of the subset.
        subset: Vec<String>,
        /// The subset's support.
        subset_support: u64,
        /// The number of transactions.
        transactions: u64,
    },
    /// More transactions than allow exact metrics.
    #[error(
        "there are {transactions} transactions, more than the 2^53 that rules are made for; mine fewer"
    )]
    TooManyTransactions {
        /// The number of transactions.
        transactions: u64,
    },
    /// A threshold that is not a number.
    #[error("the threshold of {metric} is not a number; give one such as 0.8")]
    Threshold {
        /// The metric.
        metric: Metric,
    },
    /// Too many rules.
    #[error(
        "there are more than {limit} rules; raise the threshold of {metric}, or mine with a higher minimum support"
    )]
    TooManyRules {
        /// The metric.
        metric: Metric,
        /// The largest number allowed.
        limit: usize,
    },
    /// Itemsets that do not match the names.
    #[error(transparent)]
    UnnamedItem(#[from] UnnamedItem),
}

/// Rules in order, each in 16 bytes; sides and metrics are computed when a rule is read.
#[derive(Debug)]
pub struct Rules<'a> {
    all: &'a FrequentItemsets,
    names: &'a [String],
    itemsets: Vec<&'a FrequentItemset>,
    splits: Vec<Split>,
}

/// Itemset split in two.
#[derive(Clone, Copy, Debug)]
struct Split {
    /// The metric that the rules are ordered by.
    value: f64,
    /// The index of the itemset.
    itemset: u32,
    /// The antecedent, one bit per item of the itemset.
    antecedent: u32,
}

impl Rules<'_> {
    /// Returns the number of rules.
    pub fn len(&self) -> usize {
        self.splits.len()
    }

    /// Returns true if no rule was selected.
    pub fn is_empty(&self) -> bool {
        self.splits.is_empty()
    }

    /// Iterates over the rules in order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = Rule> + '_ {
        self.splits.iter().map(|&split| self.rule(split))
    }

    /// Iterates over the rules in order, with item names.
    pub fn named(&self) -> impl ExactSizeIterator<Item = NamedRule> + '_ {
        self.iter().map(|rule| NamedRule {
            antecedents: self.names_of(&rule.antecedent),
            consequents: self.names_of(&rule.consequent),
            metrics: rule.metrics,
        })
    }

    /// Keeps the rules for which `take` returns true.
    pub fn retain(&mut self, take: impl Fn(&Rule) -> bool) {
        let mut splits = std::mem::take(&mut self.splits);
        splits.retain(|&split| take(&self.rule(split)));
        self.splits = splits;
    }

    /// Orders the rules by another metric, best first; equal ones stay in order.
    pub fn order_by(&mut self, metric: Metric) {
        let mut splits = std::mem::take(&mut self.splits);
        for split in &mut splits {
            split.value = self.rule(*split).metrics.get(metric);
        }
        splits.sort_by(|a, b| b.value.total_cmp(&a.value));
        self.splits = splits;
    }

    fn rule(&self, split: Split) -> Rule {
        let frequent = self.itemsets[split.itemset as usize];
        let (antecedent, consequent) = frequent.itemset.split(split.antecedent.into());
        let support_of = |itemset: &Itemset| {
            let support = self.all.support(itemset);
            support.expect("all subsets are there, as was checked")
        };
        let metrics = RuleMetrics::from_counts(
            support_of(&antecedent),
            support_of(&consequent),
            frequent.support,
            self.all.transactions(),
        );
        Rule {
            antecedent,
            consequent,
            metrics,
        }
    }

    fn names_of(&self, itemset: &Itemset) -> Vec<String> {
        let names = name_items(itemset, self.names);
        names.expect("all items have names, as was checked")
    }

    /// Compares rules, best first; see [`association_rules`].
    fn compare(&self, a: &Split, b: &Split) -> Ordering {
        let support = |split: &Split| self.itemsets[split.itemset as usize].support;
        let by_value = b.value.total_cmp(&a.value);
        by_value
            .then_with(|| support(b).cmp(&support(a)))
            .then_with(|| self.compare_sides(a, b))
    }

    fn compare_sides(&self, a: &Split, b: &Split) -> Ordering {
        let sides = |split: &Split| {
            let itemset = &self.itemsets[split.itemset as usize].itemset;
            itemset.split(split.antecedent.into())
        };
        let ((a, then_a), (b, then_b)) = (sides(a), sides(b));
        let shorter_first = |a: Itemset, b: Itemset| a.len().cmp(&b.len()).then(a.cmp(&b));
        shorter_first(a, b).then_with(|| shorter_first(then_a, then_b))
    }
}

/// Generates all rules from `itemsets` whose metric reaches the threshold; `names` are those of the items.
///
/// Order: by the metric, best first, then by support, highest first, then by antecedent and consequent. Sides compare
/// by length, shorter first, then lexicographically by item number.
///
/// # Errors
/// A missing subset, an impossible support, an item without a name, a threshold that is not a number, or
/// too many rules.
pub fn association_rules<'a>(
    itemsets: &'a FrequentItemsets,
    names: &'a [String],
    options: RuleOptions,
) -> Result<Rules<'a>, RulesError> {
    let metric = options.metric;
    if options.min_threshold.is_nan() {
        return Err(RulesError::Threshold { metric });
    }
    let transactions = itemsets.transactions();
    if transactions > MAX_TRANSACTIONS {
        return Err(RulesError::TooManyTransactions { transactions });
    }
    check_complete(itemsets, names)?;
    for frequent in itemsets.levels().iter().take(1).flatten() {
        name_items(&frequent.itemset, names)?;
    }
    let mut rules = Rules {
        all: itemsets,
        names,
        itemsets: itemsets.iter().collect(),
        splits: Vec::new(),
    };
    for (itemset, frequent) in (0u32..).zip(itemsets.iter()) {
        // An itemset with all its subsets in memory has far fewer than 32 items.
        let all = ((1u64 << frequent.itemset.len()) - 1) as u32;
        for antecedent in 1..all {
            let mut split = Split {
                value: 0.0,
                itemset,
                antecedent,
            };
            split.value = rules.rule(split).metrics.get(metric);
            if split.value < options.min_threshold {
                continue;
            }
            if rules.splits.len() == options.max_rules {
                let limit = options.max_rules;
                return Err(RulesError::TooManyRules { metric, limit });
            }
            rules.splits.push(split);
        }
    }
    let mut splits = std::mem::take(&mut rules.splits);
    splits.sort_by(|a, b| rules.compare(a, b));
    rules.splits = splits;
    Ok(rules)
}

/// Checks that every itemset's subsets are present with supports at least as high. By induction, checking those that
/// lack one item suffices.
fn check_complete(itemsets: &FrequentItemsets, names: &[String]) -> Result<(), RulesError> {
    let transactions = itemsets.transactions();
    for frequent in itemsets.iter() {
        let itemset = &frequent.itemset;
        for subset in itemset.immediate_subsets() {
            // Every transaction contains the empty itemset.
            let subset_support = if subset.is_empty() {
                Some(transactions)
            } else {
                itemsets.support(&subset)
            };
            let Some(subset_support) = subset_support else {
                return Err(RulesError::MissingSubset {
                    itemset: name_items(itemset, names)?,
                    subset: name_items(&subset, names)?,
                });
            };
            if frequent.support == 0 || frequent.support > subset_support {
                return Err(RulesError::ImpossibleSupport {
                    itemset: name_items(itemset, names)?,
                    support: frequent.support,
                    subset: name_items(&subset, names)?,
                    subset_support,
                    transactions,
                });
            }
        }
    }
    Ok(())
}

/// Rule as written to JSON, with the metrics beside the items:
///
/// ```json
/// {"antecedents": ["34"], "consequents": ["81"], "antecedent_support": 0.97,
///  "consequent_support": 1.0, "support": 0.97, "confidence": 1.0, "lift": 1.0,
///  "representativity": 1.0, "leverage": 0.0, "conviction": "Infinity",
///  "zhangs_metric": 0.0, "jaccard": 0.97, "certainty": 0.0, "kulczynski": 0.985}
/// ```
///
/// The items of a side are in [name order](oboro_input::transactions::compare_names).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct NamedRule {
    /// The names of the antecedent's items.
    pub antecedents: Vec<String>,
    /// The names of the consequent's items.
    pub consequents: Vec<String>,
    /// The rule's metrics.
    #[serde(flatten)]
    pub metrics: RuleMetrics,
}

#[cfg(test)]
mod tests;
