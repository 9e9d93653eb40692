//! `oboro count`

use crate::Outcome;
use crate::arguments::{NameList, ThreadArguments, UploadedArguments, names};
use crate::commands::mine::wanted;
use crate::interrupt::{connect, watched};
use crate::output::{Output, Unit, bytes};
use bytesize::ByteSize;
use oboro_client::{KEPT_BYTES, Mining};
use oboro_mining::Names;
use serde_json::json;
use std::fmt::Write;

#[derive(clap::Args)]
#[command(
    after_help = "Examples:\n  oboro count baskets.oboro bread,butter\n  oboro count baskets.oboro bread,butter 'milk,\"cheese, hard\"'"
)]
pub struct Arguments {
    #[command(flatten)]
    uploaded: UploadedArguments,
    /// An itemset: names separated by commas, in double quotes if they have commas. The server learns the columns of all
    /// items but those cached by earlier runs.
    #[arg(value_name = "ITEMS", required = true, value_parser = names)]
    itemsets: Vec<NameList>,
    /// Cache up to SIZE of fetched sealed cells in DIR/cells, for later runs; 0 disables the cache.
    #[arg(long, value_name = "SIZE", default_value_t = ByteSize(KEPT_BYTES))]
    keep_cells: ByteSize,
    #[command(flatten)]
    threads: ThreadArguments,
}

pub fn run(arguments: &Arguments, output: Output) -> Outcome {
    let dataset = arguments.uploaded.dataset()?;
    let name = arguments.uploaded.name()?;
    let server = arguments.uploaded.server()?;
    let bar = output.bar("fetching what is verified", Unit::Bytes);
    let mining = Mining::new(&dataset, &name, arguments.threads.count())
        .interrupted_by(watched())
        .keeping(arguments.keep_cells.as_u64())
        .with_progress(|_, done, total| bar.set(done, total));
    let itemsets = without_repeats(&arguments.itemsets);
    let (columns, column_bytes) = mining.asks_for(&itemsets)?;
    if columns > 0 {
        output.note(|| {
            let all = bytes(columns as u64 * column_bytes);
            let columns = wanted(columns, "");
            format!("the server learns that {columns} wanted ({all})\n")
        })?;
    }
    let counted = mining.supports_of(&itemsets, || connect(&server));
    bar.finish();
    let (supports, fetched) = counted?;
    let transactions = dataset.record().transactions;
    let counted = itemsets.iter().zip(supports.get());
    let value = json!({
        "transactions": transactions,
        "answers": "verified",
        "columns": fetched.columns,
        "new_columns": fetched.new_columns,
        "received_bytes": fetched.bytes,
        "itemsets": counted.clone().map(|(items, support)| json!({
            "items": items,
            "support": support,
        })).collect::<Vec<_>>(),
    });
    output.result(&value, || {
        let mut text = String::new();
        for (items, support) in counted {
            let share = 100.0 * *support as f64 / transactions as f64;
            let items = Names(items);
            let _ = writeln!(text, "{support:>9}  {share:>6.2}%  {items}");
        }
        let _ = match fetched.columns {
            0 => writeln!(text, "of {transactions} transactions, by your record"),
            _ => {
                let received = bytes(fetched.bytes);
                writeln!(
                    text,
                    "of {transactions} transactions; {received} received, verified"
                )
            }
        };
        text
    })
}

/// Each item of an itemset once.
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
