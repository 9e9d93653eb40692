//! `oboro report`: writes a page about mined itemsets and their rules.

use crate::arguments::read;
use crate::failure::{Failure, Outcome};
use crate::output::{Output, OutputFile};
use oboro_mining::{Metric, RuleOptions};
use oboro_results::ItemsetsDocument;
use oboro_results::report::report;
use serde_json::json;
use std::path::PathBuf;

#[derive(clap::Args)]
#[command(
    after_help = "Examples:\n  oboro report itemsets.json --out report.html\n  oboro report itemsets.json --metric lift --min 1.2 --out report.html"
)]
pub struct Arguments {
    /// JSON file written by `oboro mine --out`.
    #[arg(value_name = "ITEMSETS")]
    itemsets: PathBuf,
    /// Metric that selects rules, as in `oboro rules`.
    #[arg(long, default_value_t = Metric::Confidence)]
    metric: Metric,
    /// Minimum value of the metric.
    #[arg(long, default_value_t = 0.5, allow_negative_numbers = true)]
    min: f64,
    /// Write the page to this file, readable by you only until you share it.
    #[arg(long, value_name = "FILE")]
    out: PathBuf,
}

pub fn run(arguments: &Arguments, output: Output) -> Outcome {
    let in_file = |error: &dyn std::fmt::Display| {
        let sentence = format!("{}: {error}", arguments.itemsets.display());
        Failure::input(sentence)
    };
    let json = read(&arguments.itemsets, "itemsets")?;
    let document = ItemsetsDocument::from_json(&json).map_err(|error| in_file(&error))?;
    let out = OutputFile::prepare(&arguments.out)?.private();
    if out.is(&arguments.itemsets) {
        return Err(in_file(
            &"it has the itemsets; write the report to another file",
        ));
    }
    let options = RuleOptions::new(arguments.metric, arguments.min);
    let page = report(&document, options).map_err(|error| in_file(&error))?;
    out.write(page.as_bytes())?;
    let value = json!({
        "out": arguments.out,
        "bytes": page.len(),
        "itemsets": document.itemsets.len(),
    });
    output.result(&value, || {
        format!(
            "a report on {} itemsets is in {}; it has their names and supports in plain text\n",
            document.itemsets.len(),
            arguments.out.display()
        )
    })
}
