//! `oboro pairs`: pairs of one item with each other item.

use crate::arguments::{ThreadArguments, UploadedArguments};
use crate::failure::Outcome;
use crate::interrupt::{connect, watched};
use crate::output::{Output, OutputFile, Unit, bytes, seconds};
use crate::results::{uploaded, version_line};
use oboro_client::{KEPT_BYTES, LevelTrace, Mining, Pairs, VersionCheck};
use oboro_dataset::OwnerRecord;
use oboro_input::{Name, escaped, number_of};
use oboro_results::tables::table;
use serde_json::json;
use std::cmp::Reverse;
use std::fmt::Write;
use std::path::{Path, PathBuf};

/// Maximum number of pairs in text output; the file and JSON have all.
const SHOWN: usize = 20;

#[derive(clap::Args)]
pub struct Arguments {
    #[command(flatten)]
    uploaded: UploadedArguments,
    /// Item to count with all others: its name, unquoted. With more items than --pair-columns, it must be one of `oboro encrypt
    /// --focus`. The server learns its column.
    #[arg(long, value_name = "ITEM", allow_hyphen_values = true)]
    with: String,
    /// Answer from the cells cached in DIR by earlier runs, without a server. The server may have a newer version; the
    /// result states that versions were not compared.
    #[arg(long)]
    offline: bool,
    /// Write all pairs to this file, as CSV readable by you only. An existing file is replaced.
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    #[command(flatten)]
    threads: ThreadArguments,
}

/// Requested item paired with another one.
struct Pair<'a> {
    item: &'a str,
    support: u64,
    together: u64,
}

pub fn run(arguments: &Arguments, output: Output) -> Outcome {
    let dataset = arguments.uploaded.dataset()?;
    let name = arguments.uploaded.name()?;
    let out = arguments
        .out
        .as_deref()
        .map(OutputFile::prepare)
        .transpose()?;
    let server = arguments.uploaded.server()?;
    let bar = output.bar("counting", Unit::Bytes);
    let mining = Mining::new(&dataset, &name, arguments.threads.count())
        .interrupted_by(watched())
        .in_owners_order()
        .keeping(KEPT_BYTES)
        .checking(if arguments.offline {
            VersionCheck::Offline
        } else {
            VersionCheck::Compare
        })
        .with_progress(|_, done, total| bar.set(done, total));
    let counted = mining.pairs_with(&arguments.with, || connect(&server));
    bar.finish();
    let Pairs {
        together,
        trace,
        offline,
    } = counted?;
    let counted = PairCounts::new(&arguments.with, dataset.record(), together.into_inner());
    if let Some(file) = out {
        file.private().write(&counted.csv())?;
    }
    let value = json!({
        "directory": arguments.uploaded.directory,
        "item": arguments.with,
        "support": counted.support,
        "transactions": counted.record.transactions,
        "min_item_support": counted.record.min_item_support,
        "answers": "verified",
        "version": dataset.manifest().version,
        "uploaded": uploaded(&dataset),
        "offline": offline,
        "route": trace.route.name(),
        "received_bytes": trace.received_bytes,
        "seconds": trace.elapsed.as_secs_f64(),
        "server_seconds": trace.server.as_secs_f64(),
        "pairs": counted.pairs.iter().map(|it| json!({
            "item": it.item,
            "support": it.support,
            "together": it.together,
        })).collect::<Vec<_>>(),
    });
    output.result(&value, || {
        counted.text(&trace, arguments.out.as_deref()) + &version_line(&dataset, offline)
    })
}

/// Pairs of the requested item with every other one, the most frequent first.
struct PairCounts<'a> {
    with: &'a str,
    support: u64,
    record: &'a OwnerRecord,
    pairs: Vec<Pair<'a>>,
}

impl<'a> PairCounts<'a> {
    fn new(with: &'a str, record: &'a OwnerRecord, together: Vec<(u32, u64)>) -> Self {
        let names: Vec<&str> = record.ordered_names().collect();
        let support = |item: u32| record.supports[record.order[item as usize]];
        let pair = |(item, together): (u32, u64)| Pair {
            item: names[item as usize],
            support: support(item),
            together,
        };
        let own = number_of(names.iter().copied(), with);
        let mut pairs: Vec<Pair<'_>> = together.into_iter().map(pair).collect();
        pairs.sort_by_key(|it| Reverse(it.together));
        Self {
            with,
            support: support(own.expect("it was counted")),
            record,
            pairs,
        }
    }

    fn csv(&self) -> Vec<u8> {
        let heading = [
            "with",
            "item",
            "with_support",
            "item_support",
            "together",
            "transactions",
        ];
        let numbers = |pair: &Pair<'_>| {
            [
                self.support,
                pair.support,
                pair.together,
                self.record.transactions,
            ]
            .map(|number| number.to_string())
        };
        let rows = self.pairs.iter().map(|pair| {
            let names = [self.with, pair.item].map(str::to_owned);
            names.into_iter().chain(numbers(pair)).collect()
        });
        table(&heading, rows)
    }

    fn text(&self, trace: &LevelTrace, out: Option<&Path>) -> String {
        let mut text = format!(
            "{} is in {} of {} transactions\n  pairs with {} other items: {} received in {}, verified ({})\n",
            Name(self.with),
            self.support,
            self.record.transactions,
            self.pairs.len(),
            bytes(trace.received_bytes),
            seconds(trace.elapsed),
            trace.route.name(),
        );
        if self.record.min_item_support > 1 {
            let _ = writeln!(
                text,
                "  items in fewer than {} transactions were left out of the dataset",
                self.record.min_item_support
            );
        }
        text += "\n  together   support  item\n";
        for pair in self.pairs.iter().take(SHOWN) {
            let item = Name(pair.item);
            let _ = writeln!(text, "{:>10}{:>10}  {item}", pair.together, pair.support);
        }
        let all = out.map(|out| format!("all are in {}", escaped(&out.display().to_string())));
        if self.pairs.len() > SHOWN {
            let more = self.pairs.len() - SHOWN;
            let all = all.unwrap_or_else(|| "--out FILE or --json gives all".to_owned());
            let _ = writeln!(text, "  and {more} more: {all}");
        } else if let Some(all) = all {
            let _ = writeln!(text, "  {all}");
        }
        text
    }
}
