//! Association rules from frequent itemsets, measured as mlxtend measures them.
//!
//! A rule `A → C` comes from a frequent itemset split in two. Each metric is one
//! quotient of exact integers, so that a confidence of 4/5 passes a threshold of
//! 0.8 whatever the number of transactions; from mlxtend's floating-point
//! columns values differ in the last digits only.

use std::cmp::Ordering;
use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::frequent::{FrequentItemsets, ItemsetsError, MAX_TRANSACTIONS, name_items};
use crate::itemset::Itemset;
use crate::text::Names;

/// The metrics of a rule `A → C`, with `supp` as a fraction of all transactions
/// and `conf = supp(A∪C) / supp(A)`. Names and definitions are mlxtend's.
///
/// In JSON an infinite conviction is the string `"Infinity"`, which Rust, Python
/// and JavaScript read as a number; everything else is a number.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct RuleMetrics {
    /// supp(A).
    pub antecedent_support: f64,
    /// supp(C).
    pub consequent_support: f64,
    /// supp(A∪C).
    pub support: f64,
    /// conf(A → C), from 0 to 1.
    pub confidence: f64,
    /// conf(A → C) / supp(C); 1 where A and C are independent.
    pub lift: f64,
    /// The share of transactions without missing values. Always 1: the
    /// transactions here have none.
    pub representativity: f64,
    /// supp(A∪C) − supp(A)·supp(C), from −1/4 to 1/4; 0 if independent.
    pub leverage: f64,
    /// (1 − supp(C)) / (1 − conf(A → C)); infinite where the confidence is 1.
    #[serde(with = "infinity_as_text")]
    pub conviction: f64,
    /// leverage / max(supp(A∪C)·(1 − supp(A)), supp(A)·(supp(C) − supp(A∪C))),
    /// from −1 to 1, and 0 where that maximum is 0.
    pub zhangs_metric: f64,
    /// supp(A∪C) / (supp(A) + supp(C) − supp(A∪C)), from 0 to 1.
    pub jaccard: f64,
    /// (conf(A → C) − supp(C)) / (1 − supp(C)), and 0 where supp(C) is 1.
    pub certainty: f64,
    /// The mean of conf(A → C) and conf(C → A).
    pub kulczynski: f64,
}

impl RuleMetrics {
    /// The metrics from the numbers of transactions: `antecedent` and
    /// `consequent` contain `A` and `C`, `both` contain both, of `transactions`.
    ///
    /// The caller has checked 1 ≤ `both` ≤ `antecedent`, `consequent` ≤
    /// `transactions` ≤ 2^53.
    pub(crate) fn from_counts(
        antecedent: u64,
        consequent: u64,
        both: u64,
        transactions: u64,
    ) -> Self {
        let [a, c, ac, n] = [antecedent, consequent, both, transactions].map(i128::from);
        // Products of two counts stay below 2^106.
        let quotient = |numerator: i128, denominator: i128| numerator as f64 / denominator as f64;
        let or_zero = |numerator, denominator| match denominator {
            0 => 0.0,
            _ => quotient(numerator, denominator),
        };
        let excess = ac * n - a * c;
        RuleMetrics {
            antecedent_support: quotient(a, n),
            consequent_support: quotient(c, n),
            support: quotient(ac, n),
            confidence: quotient(ac, a),
            lift: quotient(ac * n, a * c),
            representativity: 1.0,
            leverage: quotient(excess, n * n),
            conviction: match a - ac {
                0 => f64::INFINITY,
                exceptions => quotient(a * (n - c), n * exceptions),
            },
            zhangs_metric: or_zero(excess, (ac * (n - a)).max(a * (c - ac))),
            jaccard: quotient(ac, a + c - ac),
            certainty: or_zero(excess, a * (n - c)),
            kulczynski: quotient(ac * (a + c), 2 * a * c),
        }
    }

    /// The value of `metric`.
    pub fn get(&self, metric: Metric) -> f64 {
        match metric {
            Metric::AntecedentSupport => self.antecedent_support,
            Metric::ConsequentSupport => self.consequent_support,
            Metric::Support => self.support,
            Metric::Confidence => self.confidence,
            Metric::Lift => self.lift,
            Metric::Representativity => self.representativity,
            Metric::Leverage => self.leverage,
            Metric::Conviction => self.conviction,
            Metric::ZhangsMetric => self.zhangs_metric,
            Metric::Jaccard => self.jaccard,
            Metric::Certainty => self.certainty,
            Metric::Kulczynski => self.kulczynski,
        }
    }
}

/// JSON has no infinity; here it is the string `"Infinity"`.
mod infinity_as_text {
    use serde::{Deserialize, Deserializer, Serializer, de::Error};

    pub(super) fn serialize<S: Serializer>(value: &f64, to: S) -> Result<S::Ok, S::Error> {
        if *value == f64::INFINITY {
            return to.serialize_str("Infinity");
        }
        to.serialize_f64(*value)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<f64, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum Value {
            Number(f64),
            Text(String),
        }
        match Value::deserialize(from)? {
            Value::Number(value) => Ok(value),
            Value::Text(text) if text == "Infinity" => Ok(f64::INFINITY),
            Value::Text(_) => Err(D::Error::custom("expected a number or \"Infinity\"")),
        }
    }
}

/// A metric of [`RuleMetrics`] by which rules are chosen and ordered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[allow(missing_docs, reason = "documented at the fields of RuleMetrics")]
pub enum Metric {
    AntecedentSupport,
    ConsequentSupport,
    Support,
    #[default]
    Confidence,
    Lift,
    Representativity,
    Leverage,
    Conviction,
    ZhangsMetric,
    Jaccard,
    Certainty,
    Kulczynski,
}

impl Metric {
    /// All metrics by name, as in JSON.
    pub const NAMES: [(&'static str, Metric); 12] = [
        ("antecedent_support", Metric::AntecedentSupport),
        ("consequent_support", Metric::ConsequentSupport),
        ("support", Metric::Support),
        ("confidence", Metric::Confidence),
        ("lift", Metric::Lift),
        ("representativity", Metric::Representativity),
        ("leverage", Metric::Leverage),
        ("conviction", Metric::Conviction),
        ("zhangs_metric", Metric::ZhangsMetric),
        ("jaccard", Metric::Jaccard),
        ("certainty", Metric::Certainty),
        ("kulczynski", Metric::Kulczynski),
    ];
}

impl fmt::Display for Metric {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let named = Metric::NAMES.iter().find(|(_, metric)| metric == self);
        f.write_str(named.map_or("", |(name, _)| name))
    }
}

/// A text that names no [`Metric`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{0:?} is not a metric; give confidence, lift, leverage, conviction, zhangs_metric, support, antecedent_support, consequent_support, representativity, jaccard, certainty or kulczynski"
)]
pub struct UnknownMetric(pub String);

impl FromStr for Metric {
    type Err = UnknownMetric;

    /// Reads a name; spaces and hyphens stand for underscores, `zhang` for
    /// `zhangs_metric`.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let name = text.trim().to_ascii_lowercase().replace([' ', '-'], "_");
        if name == "zhang" {
            return Ok(Metric::ZhangsMetric);
        }
        let named = Metric::NAMES.iter().find(|(known, _)| *known == name);
        named
            .map(|&(_, metric)| metric)
            .ok_or_else(|| UnknownMetric(text.to_owned()))
    }
}

/// Which rules to make.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RuleOptions {
    /// The metric that rules are chosen by.
    pub metric: Metric,
    /// The least value of the metric that is kept.
    pub min_threshold: f64,
    /// The largest number of rules. An itemset of `k` items gives 2^k − 2, so a
    /// low threshold can ask for more than memory holds; then a clear error is
    /// better.
    pub max_rules: usize,
}

impl RuleOptions {
    /// Rules unless told otherwise: about 2 GiB of them.
    pub const DEFAULT_MAX_RULES: usize = 10_000_000;

    /// Rules whose `metric` is at least `min_threshold`.
    pub fn new(metric: Metric, min_threshold: f64) -> Self {
        RuleOptions {
            metric,
            min_threshold,
            max_rules: Self::DEFAULT_MAX_RULES,
        }
    }
}

impl Default for RuleOptions {
    /// A confidence of at least 0.8, as in mlxtend.
    fn default() -> Self {
        RuleOptions::new(Metric::Confidence, 0.8)
    }
}

/// A rule: transactions that contain the antecedent tend to contain the consequent.
#[derive(Clone, Debug, PartialEq)]
pub struct Rule {
    /// The items given. Not empty.
    pub antecedent: Itemset,
    /// The items concluded. Not empty, and none of the antecedent's.
    pub consequent: Itemset,
    /// How good the rule is.
    pub metrics: RuleMetrics,
}

/// Why no rules could be made.
#[derive(Debug, thiserror::Error)]
pub enum RulesError {
    /// An itemset is there, but not all its subsets.
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
        /// Its support.
        support: u64,
        /// The names of the subset.
        subset: Vec<String>,
        /// The subset's support.
        subset_support: u64,
        /// The number of transactions.
        transactions: u64,
    },
    /// More transactions than the metrics can be computed for exactly.
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
    /// Itemsets that do not go with the names.
    #[error(transparent)]
    Itemsets(#[from] ItemsetsError),
}

/// All rules from `itemsets` whose metric reaches the threshold; `names` are
/// those of the items, for messages.
///
/// Order: by the metric, best first, then by support, highest first, then by
/// antecedent and consequent, each shorter first and then lexicographically by
/// item number.
///
/// # Errors
/// A missing subset, an impossible support, a threshold that is not a number, or
/// too many rules.
pub fn association_rules(
    itemsets: &FrequentItemsets,
    names: &[String],
    options: RuleOptions,
) -> Result<Vec<Rule>, RulesError> {
    let metric = options.metric;
    if options.min_threshold.is_nan() {
        return Err(RulesError::Threshold { metric });
    }
    let transactions = itemsets.transactions();
    if transactions > MAX_TRANSACTIONS {
        return Err(RulesError::TooManyTransactions { transactions });
    }
    check_complete(itemsets, names)?;
    let support_of = |itemset: &Itemset| {
        let support = itemsets.support(itemset);
        support.expect("all subsets are there, as was checked")
    };
    let mut rules = Vec::new();
    for frequent in itemsets.iter() {
        // With all its subsets in memory an itemset has far fewer than 64 items.
        let all = (1u64 << frequent.itemset.len()) - 1;
        for mask in 1..all {
            let (antecedent, consequent) = frequent.itemset.split(mask);
            let metrics = RuleMetrics::from_counts(
                support_of(&antecedent),
                support_of(&consequent),
                frequent.support,
                transactions,
            );
            if metrics.get(metric) < options.min_threshold {
                continue;
            }
            if rules.len() == options.max_rules {
                let limit = options.max_rules;
                return Err(RulesError::TooManyRules { metric, limit });
            }
            rules.push(Rule {
                antecedent,
                consequent,
                metrics,
            });
        }
    }
    rules.sort_by(|a, b| compare_rules(a, b, metric));
    Ok(rules)
}

/// Checks that every itemset's subsets are there with supports at least as high.
/// Looking at those that lack one item is enough: they in turn were looked at.
fn check_complete(itemsets: &FrequentItemsets, names: &[String]) -> Result<(), RulesError> {
    let transactions = itemsets.transactions();
    for frequent in itemsets.iter() {
        let itemset = &frequent.itemset;
        for subset in itemset.immediate_subsets() {
            // In each transaction there is at least the empty itemset.
            let subset_support = match subset.is_empty() {
                true => Some(transactions),
                false => itemsets.support(&subset),
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

fn compare_rules(a: &Rule, b: &Rule, metric: Metric) -> Ordering {
    let best_first = |metric| b.metrics.get(metric).total_cmp(&a.metrics.get(metric));
    let sizes = |rule: &Rule| (rule.antecedent.len(), rule.consequent.len());
    best_first(metric)
        .then_with(|| best_first(Metric::Support))
        .then_with(|| sizes(a).0.cmp(&sizes(b).0))
        .then_with(|| a.antecedent.cmp(&b.antecedent))
        .then_with(|| sizes(a).1.cmp(&sizes(b).1))
        .then_with(|| a.consequent.cmp(&b.consequent))
}

impl Rule {
    /// The rule by item names.
    ///
    /// # Errors
    /// An item without a name.
    pub fn to_named(&self, names: &[String]) -> Result<NamedRule, ItemsetsError> {
        Ok(NamedRule {
            antecedents: name_items(&self.antecedent, names)?,
            consequents: name_items(&self.consequent, names)?,
            metrics: self.metrics,
        })
    }
}

/// A rule as written to JSON, with the metrics beside the items:
///
/// ```json
/// {"antecedents": ["34"], "consequents": ["81"], "antecedent_support": 0.97,
///  "consequent_support": 1.0, "support": 0.97, "confidence": 1.0, "lift": 1.0,
///  "representativity": 1.0, "leverage": 0.0, "conviction": "Infinity",
///  "zhangs_metric": 0.0, "jaccard": 0.97, "certainty": 0.0, "kulczynski": 0.985}
/// ```
///
/// The items of a side are in [name order](crate::transactions::compare_names).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct NamedRule {
    /// The names of the items given.
    pub antecedents: Vec<String>,
    /// The names of the items concluded.
    pub consequents: Vec<String>,
    /// How good the rule is.
    #[serde(flatten)]
    pub metrics: RuleMetrics,
}

#[cfg(test)]
mod tests;
