//! `oboro rules`: generates association rules from mined itemsets.

use crate::arguments::{NameList, names, read};
use crate::commands::mine::{beyond, unverified};
use crate::failure::{Failure, Outcome};
use crate::output::Output;
use crate::results::{RecordArguments, ReleaseArguments, ResultFile, say_release};
use oboro_input::{Name, Names, number_of};
use oboro_mining::rules::metrics::Column;
use oboro_mining::{
    FrequentItemsets, Itemset, Metric, Rule, RuleOptions, Rules, association_rules,
};
use oboro_results::{FileDigest, ItemsetsDocument, Release, RunRecord, Source};
use serde::{Serialize, Serializer};
use serde_json::json;
use std::fmt::Write;
use std::path::PathBuf;

#[derive(clap::Args)]
#[command(
    after_help = "Examples:\n  oboro rules itemsets.json --metric lift --min 1.5\n  oboro rules itemsets.json --consequent butter --suppress-below 11 --out rules.parquet"
)]
pub struct Arguments {
    /// File written by `oboro mine --out`.
    #[arg(value_name = "ITEMSETS")]
    itemsets: PathBuf,
    /// Metric that selects rules; --help explains all.
    #[arg(long, default_value_t = Metric::Confidence, long_help = metrics())]
    metric: Metric,
    /// Minimum value of the metric.
    #[arg(long, default_value_t = 0.8, allow_negative_numbers = true)]
    min: f64,
    /// Select rules whose antecedent contains these items; names are separated by commas.
    #[arg(long, value_name = "ITEMS", value_parser = names)]
    antecedent: Option<NameList>,
    /// Select rules whose consequent contains these items.
    #[arg(long, value_name = "ITEMS", value_parser = names)]
    consequent: Option<NameList>,
    /// Select rules that contain these items, on either side.
    #[arg(long, value_name = "ITEMS", value_parser = names)]
    items: Option<NameList>,
    /// Maximum number of rules in text output; JSON and files have all.
    #[arg(long, default_value_t = 20)]
    top: usize,
    /// Write the rules to this file, readable by you only: as JSON, or as a table if its name ends with .csv or
    /// .parquet.
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    #[command(flatten)]
    record: RecordArguments,
    #[command(flatten)]
    release: ReleaseArguments,
}

/// Returns the help of the metrics, one line each.
fn metrics() -> String {
    let mut help = String::from("Metric that selects rules A → C:");
    for metric in Metric::ALL {
        let _ = write!(help, "\n  {metric}: {}", metric.meaning());
    }
    help
}

pub fn run(arguments: &Arguments, output: Output) -> Outcome {
    let json = read(&arguments.itemsets, "itemsets")?;
    let in_file = |error: &dyn std::fmt::Display| {
        let sentence = format!("{}: {error}", arguments.itemsets.display());
        Failure::input(sentence)
    };
    let document = ItemsetsDocument::from_json(&json).map_err(|error| in_file(&error))?;
    let is_unverified = document.unverified;
    if !document.is_whole() {
        let (kept, containing) = (document.kept.word(), &document.containing);
        let containing = match containing[..] {
            [] => String::new(),
            _ => format!(" with {}", Names(containing)),
        };
        let sentence = format!(
            "it has only the {kept}itemsets{containing}, and rules need all; mine again without --closed, --maximal and --containing, and choose rules by --items"
        );
        return Err(in_file(&sentence));
    }
    let (before, source) = (document.release.clone(), document.source.clone());
    let (names, itemsets) = document.into_itemsets().map_err(|error| in_file(&error))?;
    let filter = Filter::of(arguments, &names).map_err(|error| in_file(&error))?;
    let out = arguments.out.as_deref();
    let others = [out, Some(&*arguments.itemsets)];
    let recorder = arguments.record.prepare(&others, &arguments.release)?;
    if recorder.is_some() && out.is_none() {
        return Err("a record of rules names their file; give --out, too, or omit --record".into());
    }
    let out = out.map(ResultFile::prepare).transpose()?;
    if let Some(file) = &out
        && file.is(&arguments.itemsets)
    {
        return Err(in_file(
            &"it has the itemsets; write the rules to another file",
        ));
    }
    let released = arguments.release.applied(before, itemsets);
    let (release, itemsets) = released.map_err(|error| in_file(&error))?;
    say_release(release.as_ref(), output);
    let mut rules = association_rules(
        &itemsets,
        &names,
        RuleOptions::new(arguments.metric, arguments.min),
    )
    .map_err(|error| in_file(&error))?;
    rules.retain(|rule| filter.takes(rule));
    let source = match release {
        Some(_) => source.map(Source::for_release),
        None => source,
    };
    let mut whole = Document {
        transactions: itemsets.transactions(),
        min_support: itemsets.min_support_count(),
        max_len: itemsets.max_len(),
        unverified: is_unverified,
        metric: arguments.metric,
        min: arguments.min,
        antecedent: arguments.antecedent.as_ref(),
        consequent: arguments.consequent.as_ref(),
        items: arguments.items.as_ref(),
        release: release.as_ref(),
        source: source.as_ref(),
        rules: None,
    };
    let about = serde_json::to_value(&whole)?;
    whole.rules = Some(RuleWriter(&rules));
    let digest = out.map(|out| out.write_rules(&rules, is_unverified, &whole, &about));
    let digest = digest.transpose()?;
    if let Some(recorder) = recorder {
        recorder.write(arguments.record_of(&json, source.clone(), digest))?;
    }
    output.result(&whole, || {
        let mut said = unverified(is_unverified).to_owned();
        for sentence in release.iter().flat_map(Release::sentences) {
            let _ = writeln!(said, "for release, {sentence}");
        }
        said + &text(&itemsets, &rules, arguments)
    })
}

/// Result: rules with their filters and source.
#[derive(Serialize)]
struct Document<'a> {
    transactions: u64,
    min_support: u64,
    max_len: Option<usize>,
    unverified: bool,
    metric: Metric,
    min: f64,
    antecedent: Option<&'a NameList>,
    consequent: Option<&'a NameList>,
    items: Option<&'a NameList>,
    #[serde(skip_serializing_if = "Option::is_none")]
    release: Option<&'a Release>,
    #[serde(skip_serializing_if = "Option::is_none")]
    source: Option<&'a Source>,
    #[serde(skip_serializing_if = "Option::is_none")]
    rules: Option<RuleWriter<'a>>,
}

/// Serializes rules one by one, without holding them in memory.
struct RuleWriter<'a>(&'a Rules<'a>);

impl Serialize for RuleWriter<'_> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_seq(self.0.named())
    }
}

impl Arguments {
    /// Returns the record of the run on a file with these bytes.
    fn record_of(
        &self,
        itemsets: &[u8],
        source: Option<Source>,
        written: Option<FileDigest>,
    ) -> RunRecord {
        let source = source.map(|it| Source { read: None, ..it });
        let asked = json!({
            "metric": self.metric.to_string(),
            "min": self.min.to_string(),
            "antecedent": self.antecedent,
            "consequent": self.consequent,
            "items": self.items,
            "suppress_below": self.release.suppress_below,
            "round_to": self.release.round_to,
        });
        let mut record = RunRecord::new("rules", asked, source);
        let name = self.itemsets.file_name().unwrap_or_default();
        // Omit the digest of a release's input: it would let others confirm guesses of hidden content.
        if !self.release.are_given() {
            let input = FileDigest::of(&name.to_string_lossy(), itemsets);
            record.inputs.push(input);
        }
        record.outputs.extend(written);
        record
    }
}

/// Items that a rule must have on its sides, by number.
struct Filter {
    antecedent: Itemset,
    consequent: Itemset,
    items: Itemset,
}

impl Filter {
    fn of(arguments: &Arguments, names: &[String]) -> Result<Self, Failure> {
        let numbered = |wanted: &Option<NameList>| -> Result<Itemset, Failure> {
            let number = |name: &String| {
                number_of(names.iter().map(String::as_str), name).ok_or_else(|| {
                    let name = Name(name);
                    let sentence = format!(
                        "{name} is in none of its itemsets; check its spelling, or mine at a lower minimum support"
                    );
                    Failure::input(sentence)
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

/// Formats the filters of rules: ", antecedent {a}, items {b}".
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

fn text(itemsets: &FrequentItemsets, rules: &Rules<'_>, arguments: &Arguments) -> String {
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
    for rule in rules.named().take(arguments.top) {
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
