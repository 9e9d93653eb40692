//! `oboro rules`

use crate::Outcome;
use crate::arguments::{NameList, names, read};
use crate::commands::mine::{beyond, unverified};
use crate::failure::Failure;
use crate::output::{Form, Output, OutputFile};
use oboro_format::ErrorClass;
use oboro_mining::rules::metrics::Column;
use oboro_mining::tables::rules_csv;
use oboro_mining::{
    FrequentItemsets, Itemset, ItemsetsDocument, Metric, Name, NamedRule, Names, Rule, RuleOptions,
    association_rules,
};
use serde_json::json;
use std::fmt::Write;
use std::path::PathBuf;

#[derive(clap::Args)]
#[command(after_help = "Examples:\n  oboro rules itemsets.json --metric lift --min 1.5")]
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
    /// Only rules that conclude from these items, and maybe from more; names are separated by commas.
    #[arg(long, value_name = "ITEMS", value_parser = names)]
    antecedent: Option<NameList>,
    /// Only rules that conclude these items, and maybe more.
    #[arg(long, value_name = "ITEMS", value_parser = names)]
    consequent: Option<NameList>,
    /// Only rules with these items, on either side.
    #[arg(long, value_name = "ITEMS", value_parser = names)]
    items: Option<NameList>,
    /// The most rules in text output; JSON and files have all.
    #[arg(long, default_value_t = 20)]
    top: usize,
    /// Write the rules to this file, which only you may read: as JSON, or as a table if its name ends with .csv.
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
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
    let in_file = |error: &dyn std::fmt::Display| {
        let sentence = format!("{}: {error}", arguments.itemsets.display());
        Failure::of(ErrorClass::Input, sentence)
    };
    let document = ItemsetsDocument::from_json(&json).map_err(|error| in_file(&error))?;
    let is_unverified = document.unverified;
    let (names, itemsets) = document.into_itemsets().map_err(|error| in_file(&error))?;
    let filter = Filter::of(arguments, &names).map_err(|error| in_file(&error))?;
    let out = arguments
        .out
        .as_deref()
        .map(OutputFile::prepare_result)
        .transpose()?;
    if let Some((file, _)) = &out
        && file.is(&arguments.itemsets)
    {
        return Err(in_file(
            &"it has the itemsets; write the rules to another file",
        ));
    }
    let rules = association_rules(
        &itemsets,
        &names,
        RuleOptions::new(arguments.metric, arguments.min),
    )
    .map_err(|error| in_file(&error))?;
    let rules = rules
        .iter()
        .filter(|rule| filter.takes(rule))
        .map(|rule| rule.to_named(&names))
        .collect::<Result<Vec<_>, _>>()?;
    let value = json!({
        "transactions": itemsets.transactions(),
        "min_support": itemsets.min_support_count(),
        "max_len": itemsets.max_len(),
        "unverified": is_unverified,
        "metric": arguments.metric.to_string(),
        "min": arguments.min,
        "antecedent": arguments.antecedent,
        "consequent": arguments.consequent,
        "items": arguments.items,
        "rules": rules,
    });
    match out {
        Some((file, Form::Json)) => file.write(format!("{value:#}\n").as_bytes())?,
        Some((file, Form::Csv)) => file.write(&rules_csv(&rules, is_unverified))?,
        None => {}
    }
    output.result(&value, || {
        unverified(is_unverified).to_owned() + &text(&itemsets, &rules, arguments)
    })
}

/// The items that a rule must have on its sides, by number.
struct Filter {
    antecedent: Itemset,
    consequent: Itemset,
    items: Itemset,
}

impl Filter {
    fn of(arguments: &Arguments, names: &[String]) -> Result<Self, Failure> {
        let numbered = |wanted: &Option<NameList>| -> Result<Itemset, Failure> {
            let number = |name: &String| {
                let place = names.iter().zip(0u32..).find(|(it, _)| *it == name);
                place.map(|(_, number)| number).ok_or_else(|| {
                    let name = Name(name);
                    let sentence = format!(
                        "{name} is in no itemset of it; check its spelling, or mine at a lower minimum support"
                    );
                    Failure::of(ErrorClass::Input, sentence)
                })
            };
            wanted.iter().flatten().map(number).collect()
        };
        Ok(Self {
            antecedent: numbered(&arguments.antecedent)?,
            consequent: numbered(&arguments.consequent)?,
            items: numbered(&arguments.items)?,
        })
    }

    fn takes(&self, rule: &Rule) -> bool {
        let all = |wanted: &Itemset, is_there: &dyn Fn(u32) -> bool| {
            wanted.items().iter().all(|&item| is_there(item))
        };
        let (antecedent, consequent) = (&rule.antecedent, &rule.consequent);
        all(&self.antecedent, &|it| antecedent.contains(it))
            && all(&self.consequent, &|it| consequent.contains(it))
            && all(&self.items, &|it| {
                antecedent.contains(it) || consequent.contains(it)
            })
    }
}

/// ", antecedent {a}, items {b}", of what rules had to have.
fn filtered(arguments: &Arguments) -> String {
    let sides = [
        ("antecedent", &arguments.antecedent),
        ("consequent", &arguments.consequent),
        ("items", &arguments.items),
    ];
    let said = sides.into_iter().filter_map(|(what, names)| {
        let names = names.as_deref()?;
        Some(format!(", {what} {}", Names(names)))
    });
    said.collect()
}

fn text(itemsets: &FrequentItemsets, rules: &[NamedRule], arguments: &Arguments) -> String {
    let mut text = format!(
        "{} rules from {} itemsets (support at least {} of {} transactions), with {} of at least {}{}{}\n",
        rules.len(),
        itemsets.len(),
        itemsets.min_support_count(),
        itemsets.transactions(),
        arguments.metric,
        arguments.min,
        filtered(arguments),
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
