//! `oboro rules`

use crate::Outcome;
use crate::arguments::read;
use crate::commands::mine::{beyond, unverified};
use crate::output::Output;
use oboro_mining::rules::metrics::Column;
use oboro_mining::{
    FrequentItemsets, ItemsetsDocument, Metric, NamedRule, Names, RuleOptions, association_rules,
};
use serde_json::json;
use std::fmt::Write;
use std::path::PathBuf;

#[derive(clap::Args)]
pub struct Arguments {
    /// The file written by `oboro mine --out`.
    #[arg(value_name = "ITEMSETS")]
    itemsets: PathBuf,
    /// The metric that selects rules; --help explains all.
    #[arg(long, default_value_t = Metric::Confidence, long_help = metrics())]
    metric: Metric,
    /// The least value of the metric.
    #[arg(long, default_value_t = 0.8, allow_negative_numbers = true)]
    min: f64,
    /// The most rules in text output; JSON has all.
    #[arg(long, default_value_t = 20)]
    top: usize,
}

/// The metrics for the help, one line each.
fn metrics() -> String {
    let mut help = String::from("The metric that rules A → C are chosen by:");
    for metric in Metric::ALL {
        let _ = write!(help, "\n  {metric}: {}", metric.meaning());
    }
    help
}

pub fn run(arguments: &Arguments, output: Output) -> Outcome {
    let json = read(&arguments.itemsets, "itemsets")?;
    let in_file =
        |error: &dyn std::fmt::Display| format!("{}: {error}", arguments.itemsets.display());
    let document = ItemsetsDocument::from_json(&json).map_err(|error| in_file(&error))?;
    let is_unverified = document.unverified;
    let (names, itemsets) = document.into_itemsets().map_err(|error| in_file(&error))?;
    let rules = association_rules(
        &itemsets,
        &names,
        RuleOptions::new(arguments.metric, arguments.min),
    )
    .map_err(|error| in_file(&error))?;
    let rules = rules
        .iter()
        .map(|rule| rule.to_named(&names))
        .collect::<Result<Vec<_>, _>>()?;
    let value = json!({
        "transactions": itemsets.transactions(),
        "min_support": itemsets.min_support_count(),
        "max_len": itemsets.max_len(),
        "unverified": is_unverified,
        "metric": arguments.metric.to_string(),
        "min": arguments.min,
        "rules": rules,
    });
    output.result(&value, || {
        unverified(is_unverified).to_owned() + &text(&itemsets, &rules, arguments)
    })
}

fn text(itemsets: &FrequentItemsets, rules: &[NamedRule], arguments: &Arguments) -> String {
    let mut text = format!(
        "{} rules from {} itemsets (support at least {} of {} transactions), with {} of at least {}{}\n",
        rules.len(),
        itemsets.len(),
        itemsets.min_support_count(),
        itemsets.transactions(),
        arguments.metric,
        arguments.min,
        if rules.len() > arguments.top {
            format!(", the best {}", arguments.top)
        } else {
            String::new()
        }
    );
    text.push_str(&beyond(itemsets.max_len()));
    let columns: Vec<(Metric, Column)> = Metric::ALL
        .into_iter()
        .filter_map(|metric| Some((metric, metric.column()?)))
        .collect();
    if !rules.is_empty() {
        for (_, Column { title, width, .. }) in &columns {
            let _ = write!(text, "{title:>width$}  ");
        }
        text.push_str("rule\n");
    }
    for rule in rules.iter().take(arguments.top) {
        for &(
            metric,
            Column {
                width, decimals, ..
            },
        ) in &columns
        {
            let _ = write!(text, "{:>width$.decimals$}  ", rule.metrics.get(metric));
        }
        let (antecedents, consequents) = (Names(&rule.antecedents), Names(&rule.consequents));
        let _ = writeln!(text, "{antecedents} => {consequents}");
    }
    text
}
