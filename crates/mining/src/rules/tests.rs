//! Rules compared with mlxtend's values, their identities on random data, and rejected itemsets.

use super::metrics::SupportColumns;
use super::*;
use crate::eclat::eclat;
use crate::itemset::FrequentItemset;
use crate::testing::{arbitrary_transactions, brute_force_support, found};
use oboro_input::transactions::{MinSupport, Transactions};
use proptest::prelude::*;

/// Results of mlxtend 0.25 for `groceries()` at a minimum support of 2/7 and a threshold of 0: antecedents,
/// consequents and the metrics in its column order.
#[rustfmt::skip]
const MLXTEND: [(&str, &str, [f64; 12]); 14] = [
    ("eggs", "bread", [0.42857142857142855, 0.5714285714285714, 0.2857142857142857, 0.6666666666666666, 1.1666666666666667, 1.0, 0.04081632653061226, 1.2857142857142856, 0.2500000000000001, 0.39999999999999997, 0.22222222222222218, 0.5833333333333333]),
    ("bread", "eggs", [0.5714285714285714, 0.42857142857142855, 0.2857142857142857, 0.5, 1.1666666666666667, 1.0, 0.04081632653061226, 1.1428571428571428, 0.3333333333333335, 0.39999999999999997, 0.12500000000000006, 0.5833333333333333]),
    ("bread", "milk", [0.5714285714285714, 0.7142857142857143, 0.42857142857142855, 0.75, 1.05, 1.0, 0.02040816326530609, 1.1428571428571428, 0.11111111111111092, 0.5000000000000001, 0.12499999999999994, 0.675]),
    ("milk", "bread", [0.7142857142857143, 0.5714285714285714, 0.42857142857142855, 0.6, 1.05, 1.0, 0.02040816326530609, 1.0714285714285714, 0.1666666666666664, 0.5000000000000001, 0.06666666666666668, 0.675]),
    ("eggs", "milk", [0.42857142857142855, 0.7142857142857143, 0.42857142857142855, 1.0, 1.4, 1.0, 0.1224489795918367, f64::INFINITY, 0.49999999999999994, 0.6000000000000001, 1.0, 0.8]),
    ("milk", "eggs", [0.7142857142857143, 0.42857142857142855, 0.42857142857142855, 0.6, 1.4000000000000001, 1.0, 0.1224489795918367, 1.4285714285714284, 0.9999999999999999, 0.6000000000000001, 0.30000000000000004, 0.8]),
    ("tea", "milk", [0.42857142857142855, 0.7142857142857143, 0.2857142857142857, 0.6666666666666666, 0.9333333333333332, 1.0, -0.020408163265306145, 0.857142857142857, -0.11111111111111123, 0.3333333333333333, -0.16666666666666685, 0.5333333333333333]),
    ("milk", "tea", [0.7142857142857143, 0.42857142857142855, 0.2857142857142857, 0.39999999999999997, 0.9333333333333333, 1.0, -0.020408163265306145, 0.9523809523809522, -0.2000000000000002, 0.3333333333333333, -0.05000000000000002, 0.5333333333333333]),
    ("bread eggs", "milk", [0.2857142857142857, 0.7142857142857143, 0.2857142857142857, 1.0, 1.4, 1.0, 0.08163265306122447, f64::INFINITY, 0.3999999999999999, 0.39999999999999997, 1.0, 0.7]),
    ("eggs milk", "bread", [0.42857142857142855, 0.5714285714285714, 0.2857142857142857, 0.6666666666666666, 1.1666666666666667, 1.0, 0.04081632653061226, 1.2857142857142856, 0.2500000000000001, 0.39999999999999997, 0.22222222222222218, 0.5833333333333333]),
    ("bread milk", "eggs", [0.42857142857142855, 0.42857142857142855, 0.2857142857142857, 0.6666666666666666, 1.5555555555555556, 1.0, 0.10204081632653061, 1.714285714285714, 0.6250000000000001, 0.5, 0.4166666666666667, 0.6666666666666666]),
    ("eggs", "bread milk", [0.42857142857142855, 0.42857142857142855, 0.2857142857142857, 0.6666666666666666, 1.5555555555555556, 1.0, 0.10204081632653061, 1.714285714285714, 0.6250000000000001, 0.5, 0.4166666666666667, 0.6666666666666666]),
    ("bread", "eggs milk", [0.5714285714285714, 0.42857142857142855, 0.2857142857142857, 0.5, 1.1666666666666667, 1.0, 0.04081632653061226, 1.1428571428571428, 0.3333333333333335, 0.39999999999999997, 0.12500000000000006, 0.5833333333333333]),
    ("milk", "bread eggs", [0.7142857142857143, 0.2857142857142857, 0.2857142857142857, 0.39999999999999997, 1.4, 1.0, 0.08163265306122447, 1.1904761904761902, 0.9999999999999998, 0.39999999999999997, 0.15999999999999998, 0.7]),
];

fn groceries() -> Transactions {
    let baskets = [
        vec!["milk", "bread", "eggs"],
        vec!["milk", "bread"],
        vec!["milk", "eggs"],
        vec!["bread"],
        vec!["milk", "bread", "eggs", "tea"],
        vec!["tea"],
        vec!["milk", "tea"],
    ];
    Transactions::from_named(baskets).unwrap()
}

fn grocery_rules(options: RuleOptions) -> Vec<NamedRule> {
    let data = groceries();
    let itemsets = eclat(&data, MinSupport::Count(2), None);
    let rules = association_rules(&itemsets, data.names(), options).unwrap();
    rules.named().collect()
}

#[test]
fn metrics_are_those_of_mlxtend() {
    let rules = grocery_rules(RuleOptions::new(Metric::Support, 0.0));
    assert_eq!(rules.len(), MLXTEND.len());
    for (antecedents, consequents, expected) in MLXTEND {
        let sides = |rule: &&NamedRule| {
            rule.antecedents.join(" ") == antecedents && rule.consequents.join(" ") == consequents
        };
        let rule = rules.iter().find(sides).unwrap();
        for (metric, expected) in Metric::ALL.into_iter().zip(expected) {
            let value = rule.metrics.get(metric);
            let agrees = value == expected || (value - expected).abs() < 1e-14;
            assert!(
                agrees,
                "{antecedents} -> {consequents}: {metric} {value}, not {expected}"
            );
        }
    }
}

#[test]
fn rules_are_chosen_and_ordered_by_the_metric() {
    let rules = grocery_rules(RuleOptions::new(Metric::Confidence, 0.75));
    let sides: Vec<String> = rules
        .iter()
        .map(|rule| {
            format!(
                "{} -> {}",
                rule.antecedents.join(" "),
                rule.consequents.join(" ")
            )
        })
        .collect();
    assert_eq!(
        sides,
        ["eggs -> milk", "bread eggs -> milk", "bread -> milk"]
    );
    let best = grocery_rules(RuleOptions::new(Metric::Conviction, f64::INFINITY));
    assert_eq!(best.len(), 2);
}

#[test]
fn a_threshold_written_in_decimal_is_met_exactly() {
    for n in 5..500 {
        let metrics = RuleMetrics::from_counts(5, 5, 4, n);
        assert_eq!(metrics.confidence, 0.8);
    }
    assert_eq!(RuleMetrics::from_counts(3, 10, 3, 10).leverage, 0.0);
    assert_eq!(RuleMetrics::from_counts(7, 7, 7, 7).zhangs_metric, 0.0);
    assert_eq!(RuleMetrics::from_counts(7, 7, 7, 7).certainty, 0.0);
    let huge = 1u64 << 53;
    assert_eq!(
        RuleMetrics::from_counts(huge, huge, huge, huge).kulczynski,
        1.0
    );
}

#[test]
fn rules_survive_json_with_infinite_conviction_as_text() {
    for rule in grocery_rules(RuleOptions::new(Metric::Support, 0.0)) {
        let json = serde_json::to_string(&rule).unwrap();
        let infinite = rule.metrics.conviction.is_infinite();
        assert_eq!(json.contains(r#""conviction":"Infinity""#), infinite);
        assert_eq!(serde_json::from_str::<NamedRule>(&json).unwrap(), rule);
    }
    let metrics = grocery_rules(RuleOptions::default())[0].metrics;
    let json = serde_json::to_string(&metrics).unwrap();
    let wrong = json.replace("Infinity", "many");
    assert!(serde_json::from_str::<RuleMetrics>(&wrong).is_err());
}

#[test]
fn metrics_are_called_by_name() {
    for metric in Metric::ALL {
        let name = metric.name();
        assert_eq!(name.parse(), Ok(metric));
        assert_eq!(metric.to_string(), name);
        assert_eq!(serde_json::to_string(&metric).unwrap(), format!("{name:?}"));
    }
    assert_eq!("Zhang".parse(), Ok(Metric::ZhangsMetric));
    assert_eq!("antecedent support".parse(), Ok(Metric::AntecedentSupport));
    for metric in Metric::ALL {
        if let Some(name) = metric.mlxtend() {
            assert_eq!(name.parse(), Ok(metric));
        }
    }
    let error = "beauty".parse::<Metric>().unwrap_err().to_string();
    assert!(error.starts_with("\"beauty\" is not a metric; give one of antecedent_support, "));
}

#[test]
fn the_meaning_of_a_metric_ends_with_its_range() {
    let meaning = |metric: Metric| metric.meaning();
    assert_eq!(meaning(Metric::Support), "supp(A∪C); from 0 to 1");
    let leverage =
        "supp(A∪C) − supp(A)·supp(C); 0 where A and C are independent; from −0.25 to 0.25";
    assert_eq!(meaning(Metric::Leverage), leverage);
    assert!(meaning(Metric::Conviction).ends_with("; 0 or more"));
    assert!(meaning(Metric::Certainty).ends_with("; 1 or less"));
}

#[test]
fn metrics_of_supports_are_undefined_where_they_divide_by_0() {
    let of = |metric: Metric, both: f64| {
        let supports = [both, 0.0, 1.0, 0.0, 0.0, 0.0, 0.0, 0.0];
        let columns = supports.each_ref().map(std::slice::from_ref);
        metric.from_supports(&SupportColumns::new(columns, 4.0).unwrap())[0]
    };
    assert!(of(Metric::Confidence, 0.0).is_nan());
    assert_eq!(of(Metric::Conviction, 0.0), f64::INFINITY);
    assert_eq!(of(Metric::ZhangsMetric, 0.0), 0.0);
    assert_eq!(of(Metric::Certainty, 0.0), 0.0);
    assert!(of(Metric::ZhangsMetric, f64::NAN).is_nan());
    assert!(SupportColumns::new([&[], &[], &[], &[], &[], &[], &[], &[0.0]], 4.0).is_none());
}

#[test]
fn a_missing_subset_is_named() {
    let names = ["milk", "tea"].map(str::to_owned);
    let itemsets = found(&[(&[1], 4), (&[0, 1], 3)]);
    let error = association_rules(&itemsets, &names, RuleOptions::default()).unwrap_err();
    let text = error.to_string();
    assert!(
        text.contains("{milk, tea} is among them, but its subset {milk} is not"),
        "{text}"
    );
}

#[test]
fn rules_take_little_memory_and_are_ordered_by_any_metric() {
    assert_eq!(size_of::<Split>(), 16);
    let data = groceries();
    let itemsets = eclat(&data, MinSupport::Count(2), None);
    let options = RuleOptions::new(Metric::Support, 0.0);
    let mut rules = association_rules(&itemsets, data.names(), options).unwrap();
    rules.order_by(Metric::Lift);
    assert_eq!(rules.len(), MLXTEND.len());
    assert!(
        rules
            .iter()
            .is_sorted_by(|a, b| a.metrics.lift >= b.metrics.lift)
    );
    rules.retain(|rule| rule.antecedent.len() == 2);
    assert!(rules.named().all(|rule| rule.antecedents.len() == 2));
    assert_eq!(rules.len(), 3);
}

#[test]
fn itemsets_limited_in_length_give_rules() {
    let data = groceries();
    let pairs = eclat(&data, MinSupport::Count(2), std::num::NonZeroUsize::new(2));
    let rules = association_rules(&pairs, data.names(), RuleOptions::new(Metric::Support, 0.0));
    assert_eq!(rules.unwrap().len(), 8);
}

#[test]
fn what_rules_cannot_be_made_from_is_refused() {
    let names = ["a".to_owned(), "b".to_owned()];
    let make = |transactions, supports: [u64; 3], options| {
        let sets = [vec![0], vec![1], vec![0, 1]].map(Itemset::new);
        let found = sets.into_iter().zip(supports);
        let found = found.map(|(itemset, support)| FrequentItemset { itemset, support });
        let itemsets = FrequentItemsets::collect(transactions, 1, usize::MAX, found);
        association_rules(&itemsets, &names, options).map(|rules| rules.len())
    };
    let all = RuleOptions::new(Metric::Support, 0.0);
    assert_eq!(make(9, [3, 3, 2], all).unwrap(), 2);
    for supports in [[3, 3, 4], [0, 3, 0], [3, 10, 2]] {
        let error = make(9, supports, all);
        assert!(
            matches!(error, Err(RulesError::ImpossibleSupport { .. })),
            "{supports:?}"
        );
    }
    let nan = RuleOptions::new(Metric::Lift, f64::NAN);
    assert!(matches!(
        make(9, [3, 3, 2], nan),
        Err(RulesError::Threshold { .. })
    ));
    let few = RuleOptions {
        max_rules: 1,
        ..all
    };
    assert!(matches!(
        make(9, [3, 3, 2], few),
        Err(RulesError::TooManyRules { limit: 1, .. })
    ));
    let error = make(u64::MAX, [3, 3, 2], all);
    assert!(matches!(error, Err(RulesError::TooManyTransactions { .. })));
}

proptest! {
    #[test]
    fn rules_are_complete_and_their_metrics_consistent(
        data in arbitrary_transactions(5, 30),
        threshold in 1u64..6,
    ) {
        let itemsets = eclat(&data, MinSupport::Count(threshold), None);
        let all = RuleOptions::new(Metric::Support, 0.0);
        let rules = association_rules(&itemsets, data.names(), all).unwrap();
        let expected: usize = itemsets.iter().map(|f| (1 << f.itemset.len()) - 2).sum();
        prop_assert_eq!(rules.len(), expected);
        let n = data.len() as f64;
        for rule in rules.iter() {
            let m = rule.metrics;
            let near = |a: f64, b: f64| (a - b).abs() < 1e-12;
            let both = rule.antecedent.items().iter().chain(rule.consequent.items()).copied();
            let both: Itemset = both.collect();
            prop_assert_eq!(both.len(), rule.antecedent.len() + rule.consequent.len());
            prop_assert!(near(m.support * n, brute_force_support(&data, &both) as f64));
            prop_assert!(near(m.antecedent_support * n, brute_force_support(&data, &rule.antecedent) as f64));
            prop_assert!(near(m.consequent_support * n, brute_force_support(&data, &rule.consequent) as f64));
            prop_assert!(near(m.confidence * m.antecedent_support, m.support));
            prop_assert!(near(m.lift * m.consequent_support, m.confidence));
            prop_assert!(near(m.leverage, m.support - m.antecedent_support * m.consequent_support));
            let supports = [m.support, m.antecedent_support, m.consequent_support, 0.0, 0.0, 0.0, 0.0, 0.0];
            let columns = supports.each_ref().map(std::slice::from_ref);
            let supports = SupportColumns::new(columns, n).unwrap();
            for metric in Metric::ALL {
                let (least, most) = metric.range();
                let value = m.get(metric);
                prop_assert!((least..=most).contains(&value), "{} is {}", metric, value);
                let in_floating_point = metric.from_supports(&supports)[0];
                prop_assert!(value == in_floating_point || near(value, in_floating_point)
                    // Two supports that are equal as fractions may differ by rounding.
                    || (value.is_infinite() && in_floating_point > 1e12));
            }
            if m.confidence < 1.0 {
                prop_assert!(near(m.conviction * (1.0 - m.confidence), 1.0 - m.consequent_support));
            } else {
                prop_assert_eq!(m.conviction, f64::INFINITY);
            }
            let mirror = rules.iter().find(|r| r.antecedent == rule.consequent && r.consequent == rule.antecedent);
            let mirror = mirror.unwrap().metrics;
            prop_assert_eq!((mirror.lift, mirror.leverage, mirror.jaccard), (m.lift, m.leverage, m.jaccard));
            prop_assert!(near(m.kulczynski, (m.confidence + mirror.confidence) / 2.0));
        }
        for metric in Metric::ALL {
            let some = association_rules(&itemsets, data.names(), RuleOptions::new(metric, 0.5)).unwrap();
            let count = rules.iter().filter(|rule| rule.metrics.get(metric) >= 0.5).count();
            prop_assert_eq!(some.len(), count);
            prop_assert!(some.iter().is_sorted_by(|a, b| a.metrics.get(metric) >= b.metrics.get(metric)));
        }
    }
}
