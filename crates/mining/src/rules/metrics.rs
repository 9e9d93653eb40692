//! Metrics of association rules: one table, from which everything else derives.
//!
//! A row names a metric, defines it and computes it in two ways. From numbers of transactions it is one quotient of
//! exact integers: a confidence of 4/5 passes a threshold of 0.8 for any number of transactions. From supports in
//! floating point it is mlxtend's formula with the same order of operations, and results agree to the last bit. The
//! two differ in the last digits only. The options, help and columns of the command and of the Python package are
//! generated from the table: a new metric is a new row.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// Numbers of transactions of a rule `A → C`. Products of two stay below 2^106.
#[derive(Clone, Copy)]
struct Counts {
    antecedent: i128,
    consequent: i128,
    both: i128,
    all: i128,
}

impl Counts {
    /// supp(A∪C) − supp(A)·supp(C), times the square of the number of transactions.
    fn excess(&self) -> i128 {
        self.both * self.all - self.antecedent * self.consequent
    }
}

/// Supports of a rule `A → C` as fractions, and numbers of transactions in which an item was not recorded. These are
/// ignored for rules with that item, after Ragel and Cremilleux (Treatment of missing values for association rules,
/// PAKDD 1998).
struct Supports {
    both: f64,
    antecedent: f64,
    consequent: f64,
    unknown_both: f64,
    unknown_antecedent: f64,
    unknown_consequent: f64,
    /// The number of transactions with A in which an item of C was not recorded.
    only_consequent_unknown: f64,
    /// The number of transactions with C in which an item of A was not recorded.
    only_antecedent_unknown: f64,
    /// The number of transactions.
    transactions: f64,
}

/// Supports of many rules `A → C`, in columns of equal length with one entry per rule.
#[derive(Clone, Copy, Debug)]
pub struct SupportColumns<'a> {
    columns: [&'a [f64]; 8],
    transactions: f64,
}

impl<'a> SupportColumns<'a> {
    /// Takes the columns of rules over `transactions`, in this order: supp(A∪C), supp(A) and supp(C) as fractions;
    /// the numbers of transactions that lack a record of an item of A∪C, of A, and of C; the numbers of those with A
    /// that lack one of C, and with C that lack one of A. `None` if the lengths differ.
    pub fn new(columns: [&'a [f64]; 8], transactions: f64) -> Option<Self> {
        let rules = columns[0].len();
        let equal = columns.iter().all(|column| column.len() == rules);
        equal.then_some(SupportColumns {
            columns,
            transactions,
        })
    }

    /// Computes `formula` for each rule. If inlined, it reads only the columns that `formula` uses.
    #[inline]
    fn each(&self, formula: impl Fn(&Supports) -> f64) -> Vec<f64> {
        let rules = self.columns[0].len();
        let columns = self.columns.map(|column| &column[..rules]);
        let supports = |rule: usize| Supports {
            both: columns[0][rule],
            antecedent: columns[1][rule],
            consequent: columns[2][rule],
            unknown_both: columns[3][rule],
            unknown_antecedent: columns[4][rule],
            unknown_consequent: columns[5][rule],
            only_consequent_unknown: columns[6][rule],
            only_antecedent_unknown: columns[7][rule],
            transactions: self.transactions,
        };
        (0..rules).map(|rule| formula(&supports(rule))).collect()
    }
}

impl Supports {
    fn known_both(&self) -> f64 {
        self.both * (self.transactions - self.unknown_both)
    }

    /// Returns conf(A → C).
    fn confidence(&self) -> f64 {
        let known = self.antecedent * (self.transactions - self.unknown_antecedent);
        self.known_both() / (known - self.only_consequent_unknown)
    }

    /// Returns conf(C → A).
    fn reverse_confidence(&self) -> f64 {
        let known = self.consequent * (self.transactions - self.unknown_consequent);
        self.known_both() / (known - self.only_antecedent_unknown)
    }

    fn leverage(&self) -> f64 {
        self.both - self.antecedent * self.consequent
    }
}

/// Format of a metric as a column of a table of rules.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Column {
    /// The heading.
    pub title: &'static str,
    /// The width of heading and values in characters.
    pub width: usize,
    /// The number of digits after the point.
    pub decimals: usize,
}

const fn column(title: &'static str, width: usize, decimals: usize) -> Option<Column> {
    Some(Column {
        title,
        width,
        decimals,
    })
}

/// Row of the table.
struct Row {
    name: &'static str,
    meaning: &'static str,
    range: (f64, f64),
    mlxtend: Option<&'static str>,
    column: Option<Column>,
    from_supports: fn(&SupportColumns<'_>) -> Vec<f64>,
}

/// Generates the table, [`Metric`] and [`RuleMetrics`] from the rows. The comment before a row is its definition.
macro_rules! metrics {
    ($(
        $(#[doc = $meaning:literal])+
        $metric:ident = $name:ident {
            range: $range:expr,
            from_counts: $from_counts:expr,
            from_supports: $from_supports:expr,
            mlxtend: $mlxtend:expr,
            column: $column:expr,
        }
    )+) => {
        /// A metric of [`RuleMetrics`] by which rules are chosen and ordered.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
        #[serde(rename_all = "snake_case")]
        pub enum Metric {
            $( $(#[doc = $meaning])+ $metric, )+
        }

        /// The metrics of a rule `A → C`, with `supp` as a fraction of all transactions
        /// and `conf = supp(A∪C) / supp(A)`.
        ///
        /// In JSON an infinite value is the string `"Infinity"`, which Rust, Python
        /// and JavaScript read as a number; everything else is a number.
        #[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
        pub struct RuleMetrics {
            $(
                $(#[doc = $meaning])+
                #[serde(with = "infinity_as_text")]
                pub $name: f64,
            )+
        }

        const TABLE: [Row; Metric::ALL.len()] = [$( Row {
            name: stringify!($name),
            meaning: concat!($($meaning),+),
            range: $range,
            mlxtend: $mlxtend,
            column: $column,
            from_supports: |columns| columns.each($from_supports),
        } ),+];

        impl Metric {
            /// All metrics, in the order of columns.
            pub const ALL: [Metric; [$(stringify!($name)),+].len()] = [$( Metric::$metric ),+];
        }

        impl RuleMetrics {
            /// Computes the metrics from the numbers of transactions: `antecedent` and `consequent` contain `A` and
            /// `C`, `both` contain both, of `transactions`.
            ///
            /// The caller has checked 1 ≤ `both` ≤ `antecedent`, `consequent` ≤
            /// `transactions` ≤ 2^53.
            pub fn from_counts(
                antecedent: u64,
                consequent: u64,
                both: u64,
                transactions: u64,
            ) -> Self {
                let [antecedent, consequent, both, all] =
                    [antecedent, consequent, both, transactions].map(i128::from);
                let counts = Counts { antecedent, consequent, both, all };
                let from = |formula: fn(Counts) -> f64| formula(counts);
                RuleMetrics { $( $name: from($from_counts), )+ }
            }

            /// Returns the value of `metric`.
            pub fn get(&self, metric: Metric) -> f64 {
                match metric {
                    $( Metric::$metric => self.$name, )+
                }
            }
        }
    };
}

metrics! {
    /// supp(A)
    AntecedentSupport = antecedent_support {
        range: (0.0, 1.0),
        from_counts: |of| quotient(of.antecedent, of.all),
        from_supports: |of| of.antecedent,
        mlxtend: Some("antecedent support"),
        column: None,
    }
    /// supp(C)
    ConsequentSupport = consequent_support {
        range: (0.0, 1.0),
        from_counts: |of| quotient(of.consequent, of.all),
        from_supports: |of| of.consequent,
        mlxtend: Some("consequent support"),
        column: None,
    }
    /// supp(A∪C)
    Support = support {
        range: (0.0, 1.0),
        from_counts: |of| quotient(of.both, of.all),
        from_supports: |of| of.both,
        mlxtend: Some("support"),
        column: column("support", 7, 4),
    }
    /// conf(A → C) = supp(A∪C) / supp(A)
    Confidence = confidence {
        range: (0.0, 1.0),
        from_counts: |of| quotient(of.both, of.antecedent),
        from_supports: Supports::confidence,
        mlxtend: Some("confidence"),
        column: column("confidence", 10, 4),
    }
    /// conf(A → C) / supp(C); 1 where A and C are independent
    Lift = lift {
        range: (0.0, f64::INFINITY),
        from_counts: |of| quotient(of.both * of.all, of.antecedent * of.consequent),
        from_supports: |of| of.confidence() / of.consequent,
        mlxtend: Some("lift"),
        column: column("lift", 7, 3),
    }
    /// the share of transactions in which all items of A∪C were recorded; 1 where none are missing
    Representativity = representativity {
        range: (0.0, 1.0),
        from_counts: |_| 1.0,
        from_supports: |of| (of.transactions - of.unknown_both) / of.transactions,
        mlxtend: Some("representativity"),
        column: None,
    }
    /// supp(A∪C) − supp(A)·supp(C); 0 where A and C are independent
    Leverage = leverage {
        range: (-0.25, 0.25),
        from_counts: |of| quotient(of.excess(), of.all * of.all),
        from_supports: Supports::leverage,
        mlxtend: Some("leverage"),
        column: column("leverage", 8, 4),
    }
    /// (1 − supp(C)) / (1 − conf(A → C)); infinite where the confidence is 1
    Conviction = conviction {
        range: (0.0, f64::INFINITY),
        from_counts: |of| match of.antecedent - of.both {
            0 => f64::INFINITY,
            exceptions => quotient(of.antecedent * (of.all - of.consequent), of.all * exceptions),
        },
        from_supports: |of| match of.confidence() {
            confidence if confidence < 1.0 => (1.0 - of.consequent) / (1.0 - confidence),
            _ => f64::INFINITY,
        },
        mlxtend: Some("conviction"),
        column: column("conviction", 10, 3),
    }
    /// leverage / max(supp(A∪C)·(1 − supp(A)), supp(A)·(supp(C) − supp(A∪C))), and 0 where that
    /// maximum is 0
    ZhangsMetric = zhangs_metric {
        range: (-1.0, 1.0),
        from_counts: |of| quotient_or_zero(
            of.excess(),
            (of.both * (of.all - of.antecedent)).max(of.antecedent * (of.consequent - of.both)),
        ),
        from_supports: |of| match maximum(
            of.both * (1.0 - of.antecedent),
            of.antecedent * (of.consequent - of.both),
        ) {
            0.0 => 0.0,
            largest => of.leverage() / largest,
        },
        mlxtend: Some("zhangs_metric"),
        column: column("Zhang", 7, 3),
    }
    /// supp(A∪C) / (supp(A) + supp(C) − supp(A∪C))
    Jaccard = jaccard {
        range: (0.0, 1.0),
        from_counts: |of| quotient(of.both, of.antecedent + of.consequent - of.both),
        from_supports: |of| of.both / (of.antecedent + of.consequent - of.both),
        mlxtend: Some("jaccard"),
        column: None,
    }
    /// (conf(A → C) − supp(C)) / (1 − supp(C)), and 0 where supp(C) is 1
    Certainty = certainty {
        range: (f64::NEG_INFINITY, 1.0),
        from_counts: |of| quotient_or_zero(of.excess(), of.antecedent * (of.all - of.consequent)),
        from_supports: |of| match 1.0 - of.consequent {
            0.0 => 0.0,
            most => (of.confidence() - of.consequent) / most,
        },
        mlxtend: Some("certainty"),
        column: None,
    }
    /// the mean of conf(A → C) and conf(C → A)
    Kulczynski = kulczynski {
        range: (0.0, 1.0),
        from_counts: |of| quotient(
            of.both * (of.antecedent + of.consequent),
            2 * of.antecedent * of.consequent,
        ),
        from_supports: |of| (of.confidence() + of.reverse_confidence()) / 2.0,
        mlxtend: Some("kulczynski"),
        column: None,
    }
}

fn quotient(numerator: i128, denominator: i128) -> f64 {
    numerator as f64 / denominator as f64
}

fn quotient_or_zero(numerator: i128, denominator: i128) -> f64 {
    match denominator {
        0 => 0.0,
        _ => quotient(numerator, denominator),
    }
}

/// Returns the larger one, and NaN if either is.
fn maximum(a: f64, b: f64) -> f64 {
    if a >= b || a.is_nan() { a } else { b }
}

impl Metric {
    fn row(self) -> &'static Row {
        &TABLE[self as usize]
    }

    /// Returns the name, as in JSON.
    pub fn name(self) -> &'static str {
        self.row().name
    }

    /// Returns mlxtend's name for it; `None` if mlxtend lacks it.
    pub fn mlxtend(self) -> Option<&'static str> {
        self.row().mlxtend
    }

    /// Returns formula and range: `supp(A∪C); from 0 to 1`.
    pub fn meaning(self) -> String {
        let Row { meaning, range, .. } = self.row();
        let bounds = match *range {
            (least, f64::INFINITY) => format!("{least} or more"),
            (f64::NEG_INFINITY, most) => format!("{most} or less"),
            (least, most) => format!("from {least} to {most}"),
        };
        format!("{}; {}", meaning.trim(), bounds.replace('-', "−"))
    }

    /// Returns the least and the largest value.
    pub fn range(self) -> (f64, f64) {
        self.row().range
    }

    /// Returns its column in tables of rules, if it has one.
    pub fn column(self) -> Option<Column> {
        self.row().column
    }

    /// Computes the value for each rule as mlxtend does: NaN or infinite after division by 0.
    pub fn from_supports(self, supports: &SupportColumns<'_>) -> Vec<f64> {
        (self.row().from_supports)(supports)
    }
}

/// Serializes infinity, which JSON lacks, as the string `"Infinity"`.
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

impl fmt::Display for Metric {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Text that is not the name of a [`Metric`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{name:?} is not a metric; give one of {known}", name = .0, known = names())]
pub struct UnknownMetric(pub String);

/// Lists all names, for messages.
fn names() -> String {
    Metric::ALL.map(Metric::name).join(", ")
}

impl FromStr for Metric {
    type Err = UnknownMetric;

    /// Parses a name; spaces and hyphens are treated as underscores, and `zhang` means `zhangs_metric`.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let name = text.trim().to_ascii_lowercase().replace([' ', '-'], "_");
        let name = if name == "zhang" {
            "zhangs_metric"
        } else {
            &name
        };
        let named = Metric::ALL.into_iter().find(|metric| metric.name() == name);
        named.ok_or_else(|| UnknownMetric(text.to_owned()))
    }
}
