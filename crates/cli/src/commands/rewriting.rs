//! `oboro compact`, `oboro erase` and `oboro rotate`: what changes data that are encrypted already.

use crate::Outcome;
use crate::arguments::{KeyArguments, PassphraseArguments, ThreadArguments, read};
use crate::output::{Bar, Failure, Output, OutputFile, Unit, bytes, seconds};
use oboro_client::{forget_kept, utc};
use oboro_mining::{Compaction, Dataset, RowSelection, escaped};
use serde_json::{Value, json};
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// The dataset to change.
#[derive(clap::Args)]
struct Changed {
    /// The dataset directory.
    #[arg(value_name = "DIR")]
    directory: PathBuf,
    #[command(flatten)]
    key: KeyArguments,
    /// Say what would change, and change nothing.
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    threads: ThreadArguments,
}

impl Changed {
    fn dataset(&self) -> Result<Dataset, Failure> {
        Ok(Dataset::open(&self.directory, &self.key.load()?)?)
    }
}

/// A change that was made.
struct Made {
    dataset: Dataset,
    /// The bytes of segments that the server does not have yet.
    new_bytes: u64,
    elapsed: Duration,
}

impl Made {
    /// Makes a change of `before`, and removes what was kept of it for later runs.
    fn by<E: Into<Failure>>(
        before: &Dataset,
        bar: Bar,
        change: impl FnOnce(&Bar) -> Result<Dataset, E>,
    ) -> Result<Self, Failure> {
        let begun = Instant::now();
        let changed = change(&bar);
        bar.finish();
        let dataset = changed.map_err(Into::into)?;
        forget_kept(dataset.bundle())?;
        let segments = dataset.manifest().segments.iter();
        let new = segments.filter(|it| !before.manifest().has(it));
        Ok(Self {
            new_bytes: new.map(|it| it.bytes).sum(),
            dataset,
            elapsed: begun.elapsed(),
        })
    }

    fn value(&self, mut more: Value) -> Value {
        let (manifest, record) = (self.dataset.manifest(), self.dataset.record());
        let value = json!({
            "directory": self.dataset.bundle().directory(),
            "dataset": manifest.dataset.to_string(),
            "version": manifest.version,
            "root": manifest.root().to_string(),
            "transactions": record.transactions,
            "blocks": manifest.block_count(),
            "stored_bytes": manifest.segment_bytes(),
            "new_bytes": self.new_bytes,
            "seconds": self.elapsed.as_secs_f64(),
        });
        for (name, value) in value.as_object().into_iter().flatten() {
            more[name] = value.clone();
        }
        more
    }

    fn text(&self) -> String {
        format!(
            "  version {} in {}: {} blocks, {}; {} to upload (`oboro upload {}`), and until then the server has what was there before\n",
            self.dataset.manifest().version,
            seconds(self.elapsed),
            self.dataset.manifest().block_count(),
            bytes(self.dataset.manifest().segment_bytes()),
            bytes(self.new_bytes),
            escaped(&self.dataset.bundle().directory().display().to_string()),
        )
    }
}

#[derive(clap::Args)]
pub struct CompactArguments {
    #[command(flatten)]
    changed: Changed,
    /// Take all transactions, not only those of small appends, and sort columns by their present supports.
    #[arg(long)]
    all: bool,
}

pub fn compact(arguments: &CompactArguments, output: Output) -> Outcome {
    let CompactArguments { changed, all } = arguments;
    let before = changed.dataset()?;
    let Some(plan) = before.compaction(*all)? else {
        let value = json!({ "directory": changed.directory, "compaction": null });
        return output.result(&value, || {
            "nothing to gain: its transactions fill as few blocks as they can\n".to_owned()
        });
    };
    let value = json!({ "compaction": {
        "strata": plan.strata,
        "strata_after": plan.strata_after,
        "blocks": plan.blocks,
        "blocks_after": plan.blocks_after,
        "bytes": plan.bytes,
        "bytes_after": plan.bytes_after,
        "sorts": plan.sorts,
    }});
    if changed.dry_run {
        let mut value = value;
        value["directory"] = json!(changed.directory);
        return output.result(&value, || text_of(&plan, "would put"));
    }
    let threads = changed.threads.count();
    let made = Made::by(
        &before,
        output.bar("compacting", Unit::BlockColumns),
        |bar| {
            let advance = |done, total| {
                bar.set(done, total);
                ControlFlow::Continue(())
            };
            let after = before.compact(*all, threads, &advance)?;
            Ok::<_, Failure>(after.expect("there is something to gain"))
        },
    )?;
    output.result(&made.value(value), || {
        format!("{}{}", text_of(&plan, "put"), made.text())
    })
}

fn text_of(plan: &Compaction, put: &str) -> String {
    format!(
        "{put} {} blocks in {} strata into {} in {}: {} instead of {}{}\n",
        plan.blocks,
        plan.strata,
        plan.blocks_after,
        plan.strata_after,
        bytes(plan.bytes_after),
        bytes(plan.bytes),
        if plan.sorts {
            "; columns sorted by support"
        } else {
            ""
        }
    )
}

#[derive(clap::Args)]
#[group(id = "rows", required = true, multiple = true)]
pub struct EraseArguments {
    #[command(flatten)]
    changed: Changed,
    /// The id of a row to erase; repeat the option for several.
    #[arg(long, value_name = "ID", group = "rows")]
    row_id: Vec<String>,
    /// A file with the ids of rows to erase, one a line.
    #[arg(long, value_name = "FILE", group = "rows")]
    row_ids_file: Option<PathBuf>,
    /// Erase the rows whose ids begin with a date (2026-11-25) before this one.
    #[arg(long, value_name = "DATE", group = "rows")]
    before: Option<String>,
    /// Write a record of the erasure to this file, in JSON: what was replaced by what, and nothing of the data.
    #[arg(long, value_name = "FILE")]
    record: Option<PathBuf>,
}

pub fn erase(arguments: &EraseArguments, output: Output) -> Outcome {
    let changed = &arguments.changed;
    let before = changed.dataset()?;
    let threads = changed.threads.count();
    let record = arguments
        .record
        .as_deref()
        .map(OutputFile::prepare)
        .transpose()?;
    let slots = before.select_rows(&arguments.rows()?, threads)?;
    let rows = slots.len() as u64;
    let moved = before.erased_bytes(&slots);
    if changed.dry_run {
        let value = json!({ "directory": changed.directory, "erased": rows, "new_bytes": moved });
        return output.result(&value, || {
            format!(
                "would erase {rows} transactions and upload {}\n",
                bytes(moved)
            )
        });
    }
    let made = Made::by(&before, output.bar("erasing", Unit::BlockColumns), |bar| {
        before.erase(&slots, threads, &|done, total| {
            bar.set(done, total);
            ControlFlow::Continue(())
        })
    })?;
    if let Some(file) = record {
        let record = erasure_record(&before, &made.dataset, rows);
        file.private().write(format!("{record:#}\n").as_bytes())?;
    }
    output.result(&made.value(json!({ "erased": rows })), || {
        format!("erased {rows} transactions\n{}", made.text())
    })
}

/// What an erasure replaced by what, without anything of the data.
fn erasure_record(before: &Dataset, after: &Dataset, rows: u64) -> Value {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    let only = |of: &Dataset, not_of: &Dataset| -> Vec<Value> {
        let segments = of.manifest().segments.iter();
        let segments = segments.filter(|it| !not_of.manifest().has(it));
        let segment = |it: &oboro_format::SegmentEntry| json!({ "number": it.number, "digest": it.digest.to_string() });
        segments.map(segment).collect()
    };
    let version = |of: &Dataset| json!({ "version": of.manifest().version, "root": of.manifest().root().to_string() });
    json!({
        "dataset": before.manifest().dataset.to_string(),
        "time": utc(now.map_or(0, |it| it.as_secs())),
        "erased": rows,
        "before": version(before),
        "after": version(after),
        "removed_segments": only(before, after),
        "new_segments": only(after, before),
    })
}

impl EraseArguments {
    fn rows(&self) -> Result<RowSelection, Failure> {
        let mut ids = self.row_id.clone();
        if let Some(path) = &self.row_ids_file {
            let text = String::from_utf8(read(path, "row ids")?)
                .map_err(|_| format!("{} is not UTF-8 text; give one id a line", path.display()))?;
            ids.extend(text.lines().filter(|it| !it.is_empty()).map(str::to_owned));
        }
        let rows = RowSelection::of_ids(ids);
        match &self.before {
            Some(date) => Ok(rows.or_before(date)?),
            None => Ok(rows),
        }
    }
}

#[derive(clap::Args)]
pub struct RotateArguments {
    #[command(flatten)]
    changed: Changed,
    /// The key file that the dataset is to be encrypted with from now on (`oboro keygen`).
    #[arg(long, value_name = "FILE")]
    new_key: PathBuf,
    /// Read the new key's passphrase from the first line of this file, which only you may read. Without it, a prompt.
    #[arg(long, value_name = "FILE")]
    new_passphrase_file: Option<PathBuf>,
}

pub fn rotate(arguments: &RotateArguments, output: Output) -> Outcome {
    let changed = &arguments.changed;
    let before = changed.dataset()?;
    let passphrase = PassphraseArguments {
        passphrase_file: arguments.new_passphrase_file.clone(),
    };
    let key = passphrase.open(&arguments.new_key)?;
    let threads = changed.threads.count();
    let moved = before.manifest().segment_bytes();
    if changed.dry_run {
        let value = json!({ "directory": changed.directory, "new_bytes": moved });
        return output.result(&value, || {
            format!(
                "would encrypt everything again and upload {}\n",
                bytes(moved)
            )
        });
    }
    let made = Made::by(
        &before,
        output.bar("encrypting again", Unit::BlockColumns),
        |bar| {
            before.rotate(&key, threads, &|done, total| {
                bar.set(done, total);
                ControlFlow::Continue(())
            })
        },
    )?;
    let value = made.value(json!({ "key_check": key.check().to_string() }));
    output.result(&value, || {
        format!(
            "encrypted with the key {} from now on; the old key opens nothing of it\n{}",
            key.check(),
            made.text()
        )
    })
}
