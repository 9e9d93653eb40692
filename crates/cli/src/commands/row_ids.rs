//! `oboro row-ids`: lists the row ids of a dataset.

use crate::arguments::{ThreadArguments, UploadedArguments};
use crate::failure::Outcome;
use crate::interrupt::connect;
use crate::output::{Output, OutputFile, Unit};
use oboro_client::{StoredRow, row_ids};
use oboro_input::escaped;
use serde_json::json;
use std::collections::HashMap;
use std::fmt::Write;
use std::path::PathBuf;

/// Maximum number of rows in text output; the file and JSON have all.
const SHOWN: usize = 20;

#[derive(clap::Args)]
pub struct Arguments {
    #[command(flatten)]
    uploaded: UploadedArguments,
    /// Show the slot of each row, too. A choice of rows by their slots is not random.
    #[arg(long)]
    slots: bool,
    /// Write the ids, and with --slots the slots, to this file, as CSV readable by you only.
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    #[command(flatten)]
    threads: ThreadArguments,
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
    let bar = output.bar("fetching row ids", Unit::Bytes);
    let rows = row_ids(
        &dataset,
        &name,
        arguments.threads.count(),
        || connect(&server),
        |done, total| bar.set(done, total),
    );
    bar.finish();
    let rows = rows?.into_inner();
    if let Some(file) = out {
        let quoted = |id: &str| format!("\"{}\"", id.replace('"', "\"\""));
        let line = |row: &StoredRow| {
            if arguments.slots {
                format!("{},{}\n", quoted(&row.id), row.slot)
            } else {
                format!("{}\n", quoted(&row.id))
            }
        };
        let header = if arguments.slots { "id,slot\n" } else { "id\n" };
        let csv: String = [header.to_owned()]
            .into_iter()
            .chain(rows.iter().map(line))
            .collect();
        file.private().write(csv.as_bytes())?;
    }
    let repeated = repeated(&rows);
    let row = |row: &StoredRow| {
        if arguments.slots {
            json!({ "id": row.id, "slot": row.slot })
        } else {
            json!({ "id": row.id })
        }
    };
    let value = json!({
        "directory": arguments.uploaded.directory,
        "answers": "verified",
        "repeated": repeated,
        "rows": rows.iter().map(row).collect::<Vec<_>>(),
    });
    output.result(&value, || text(&rows, repeated, arguments))
}

/// Returns the number of rows whose id occurs more than once: appends do not know earlier ids.
fn repeated(rows: &[StoredRow]) -> usize {
    let mut counts: HashMap<&str, usize> = HashMap::new();
    for row in rows {
        *counts.entry(&row.id).or_default() += 1;
    }
    counts.into_values().filter(|&count| count > 1).sum()
}

fn text(rows: &[StoredRow], repeated: usize, arguments: &Arguments) -> String {
    let mut text = format!("{} rows\n", rows.len());
    if repeated > 0 {
        let _ = writeln!(
            text,
            "  {repeated} of them share an id with another row: was a file appended twice?"
        );
    }
    for row in rows.iter().take(SHOWN) {
        let id = escaped(&row.id);
        let _ = if arguments.slots {
            writeln!(text, "  slot {:>9}  {id}", row.slot)
        } else {
            writeln!(text, "  {id}")
        };
    }
    if rows.len() > SHOWN && arguments.out.is_none() {
        let more = rows.len() - SHOWN;
        let _ = writeln!(text, "  and {more} more: --out FILE or --json gives all");
    }
    text
}
