//! `oboro count`: supports of named itemsets, counted in sealed cells.

use crate::arguments::{NameList, ThreadArguments, UploadedArguments, names};
use crate::commands::mine::wanted;
use crate::failure::Outcome;
use crate::interrupt::{connect, watched};
use crate::output::{Output, Unit, bytes};
use crate::results::{
    RecordArguments, ReleaseArguments, refused, say_release, source, uploaded, version_line,
};
use bytesize::ByteSize;
use oboro_client::{KEPT_BYTES, Mining, VersionCheck};
use oboro_input::Names;
use oboro_results::release::{NamedSupports, subsets};
use oboro_results::{Release, RunRecord};
use serde_json::{Value, json};
use std::fmt::Write;

#[derive(clap::Args)]
#[command(
    after_help = "Examples:\n  oboro count baskets.oboro bread,butter\n  oboro count baskets.oboro bread,butter 'milk,\"cheese, hard\"'\n  oboro count baskets.oboro bread,butter --suppress-below 11 --record run.json"
)]
pub struct Arguments {
    #[command(flatten)]
    uploaded: UploadedArguments,
    /// Itemset to count: names separated by commas, in double quotes if they contain a comma or begin or end with a
    /// space. The server learns the columns of all items that earlier runs did not cache.
    #[arg(value_name = "ITEMS", required = true, value_parser = names)]
    itemsets: Vec<NameList>,
    /// Cache up to SIZE of fetched sealed cells in DIR/cells, for later runs; 0 disables the cache.
    #[arg(long, value_name = "SIZE", default_value_t = ByteSize(KEPT_BYTES))]
    keep_cells: ByteSize,
    /// Answer from the cells cached in DIR by earlier runs, without a server. The server may have a newer version; the
    /// result states that versions were not compared.
    #[arg(long)]
    offline: bool,
    #[command(flatten)]
    record: RecordArguments,
    #[command(flatten)]
    release: ReleaseArguments,
    #[command(flatten)]
    threads: ThreadArguments,
}

pub fn run(arguments: &Arguments, output: Output) -> Outcome {
    let dataset = arguments.uploaded.dataset()?;
    let name = arguments.uploaded.name()?;
    let server = arguments.uploaded.server()?;
    let recorder = arguments.record.prepare(&[], &arguments.release)?;
    let bar = output.bar("fetching verified data", Unit::Bytes);
    let mining = Mining::new(&dataset, &name, arguments.threads.count())
        .interrupted_by(watched())
        .keeping(arguments.keep_cells.as_u64())
        .checking(if arguments.offline {
            VersionCheck::Offline
        } else {
            VersionCheck::Compare
        })
        .with_progress(|_, done, total| {
            if !arguments.release.are_given() {
                bar.set(done, total);
            }
        });
    let itemsets = without_repeats(&arguments.itemsets);
    let (columns, column_bytes) = mining.asks_for(&itemsets)?;
    let mining = mining.announcing(move || {
        if columns > 0 {
            // If this fails, writing the result fails, too.
            let _ = output.note(|| {
                let all = bytes(columns as u64 * column_bytes);
                let columns = wanted(columns, "");
                format!("the server learns that {columns} wanted ({all})\n")
            });
        }
    });
    // Subsets' supports determine whether a small count follows.
    let family = match arguments.release.suppress_below {
        Some(_) => subsets(&itemsets),
        None => itemsets.clone(),
    };
    let counted = mining.supports_of(&family, || connect(&server));
    bar.finish();
    let (supports, fetched) = counted?;
    let counted = NamedSupports {
        transactions: dataset.record().transactions,
        itemsets: family.into_iter().zip(supports.into_inner()).collect(),
    };
    let suppress_below = arguments.release.suppress_below;
    let (release, transactions, supports) = counted
        .released(&itemsets, suppress_below, arguments.release.round_to)
        .map_err(refused)?;
    let release = arguments.release.are_given().then_some(release);
    say_release(release.as_ref(), output);
    let counted = itemsets.iter().zip(&supports);
    let answer: Vec<Value> = counted
        .clone()
        .map(|(items, support)| json!({ "items": items, "support": support }))
        .collect();
    if let Some(recorder) = recorder {
        let asked = json!({
            "itemsets": itemsets,
            "suppress_below": suppress_below,
            "round_to": arguments.release.round_to,
        });
        let routes = (fetched.columns > 0).then(|| "cells".to_owned());
        let routes = routes.into_iter().collect();
        let source = source(&dataset, &name, "verified", routes, fetched.offline);
        let source = match &release {
            Some(_) => source.for_release(),
            None => source,
        };
        let mut record = RunRecord::new("count", asked, Some(source));
        record.answer = Some(json!({ "transactions": transactions, "itemsets": answer }));
        recorder.write(record)?;
    }
    let mut value = json!({
        "transactions": transactions,
        "answers": "verified",
        "version": dataset.manifest().version,
        "uploaded": uploaded(&dataset),
        "offline": fetched.offline,
        "itemsets": answer,
    });
    match &release {
        Some(release) => value["release"] = json!(release),
        None => {
            value["columns"] = json!(fetched.columns);
            value["new_columns"] = json!(fetched.new_columns);
            value["received_bytes"] = json!(fetched.bytes);
        }
    }
    output.result(&value, || {
        let mut text = String::new();
        for (items, support) in counted {
            let items = Names(items);
            let _ = match support {
                Some(support) => {
                    let share = 100.0 * *support as f64 / transactions.max(1) as f64;
                    writeln!(text, "{support:>9}  {share:>6.2}%  {items}")
                }
                None => writeln!(text, "{:>9}  {:>7}  {items}", "suppressed", ""),
            };
        }
        for sentence in release.iter().flat_map(Release::sentences) {
            let _ = writeln!(text, "for release, {sentence}");
        }
        let _ = match fetched.columns {
            _ if release.is_some() => writeln!(text, "of {transactions} transactions, verified"),
            0 => writeln!(text, "of {transactions} transactions, by your record"),
            _ => {
                let received = bytes(fetched.bytes);
                writeln!(
                    text,
                    "of {transactions} transactions; {received} received, verified"
                )
            }
        };
        text + &version_line(&dataset, fetched.offline)
    })
}

/// Removes repeated items from each itemset.
fn without_repeats(itemsets: &[NameList]) -> Vec<NameList> {
    let once = |names: &NameList| {
        let mut once = NameList::new();
        for name in names {
            if !once.contains(name) {
                once.push(name.clone());
            }
        }
        once
    };
    itemsets.iter().map(once).collect()
}
