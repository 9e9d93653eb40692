//! `oboro compact`, `oboro erase` and `oboro rotate`: changes of encrypted data.

use crate::arguments::{KeyArguments, KeyFrom, PassphraseArguments, ThreadArguments, read};
use crate::failure::{Failure, Outcome};
use crate::interrupt::{unless, watched};
use crate::output::{Bar, Output, OutputFile, Unit, bytes, seconds};
use oboro_client::{forget_kept, utc};
use oboro_dataset::{Compaction, Dataset, DatasetError, Erasure, Progress, RowSelection};
use oboro_format::FormatError;
use oboro_input::escaped;
use serde_json::{Value, json};
use std::path::PathBuf;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// The dataset to change.
#[derive(clap::Args)]
struct ChangedDataset {
    /// Dataset directory.
    #[arg(value_name = "DIR")]
    directory: PathBuf,
    #[command(flatten)]
    key: KeyArguments,
    /// Print the changes without making them.
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    threads: ThreadArguments,
}

impl ChangedDataset {
    fn dataset(&self) -> Result<Dataset, Failure> {
        Ok(Dataset::open(&self.directory, &self.key.load()?)?)
    }
}

/// Completed change.
struct ChangeReport {
    dataset: Dataset,
    /// Bytes of segments that the server does not have yet.
    new_bytes: u64,
    elapsed: Duration,
    /// Error of removing caches of earlier runs, if any.
    left: Option<FormatError>,
}

impl ChangeReport {
    /// Applies `change` to `before`, and removes the caches of earlier runs.
    fn by(
        before: &Dataset,
        bar: &Bar,
        change: impl FnOnce(Progress<'_>) -> Result<Dataset, DatasetError>,
    ) -> Result<Self, Failure> {
        let begun = Instant::now();
        // Before the change as well: a crash must not leave old caches behind.
        forget_kept(before.bundle())?;
        let interrupt = watched();
        let changed = change(&|done, total| {
            bar.set(done, total);
            unless(&interrupt)
        });
        bar.finish();
        let dataset = changed?;
        let manifest = dataset.manifest();
        let new = manifest.segments_beyond(before.manifest()).into_iter();
        Ok(Self {
            new_bytes: new.map(|it| manifest.segments[it as usize].bytes).sum(),
            left: forget_kept(dataset.bundle()).err(),
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
            "left": self.left.as_ref().map(FormatError::to_string),
        });
        for (name, value) in value.as_object().into_iter().flatten() {
            more[name] = value.clone();
        }
        more
    }

    fn text(&self) -> String {
        let directory = self.dataset.bundle().directory().display().to_string();
        let left = match &self.left {
            Some(error) => format!("  cannot remove the caches of earlier runs: {error}\n"),
            None => String::new(),
        };
        format!(
            "  version {} in {}, {} in all\n{left}now run `oboro upload {}`, which sends {}; until then the server keeps the previous version, and mining is refused\n",
            self.dataset.manifest().version,
            seconds(self.elapsed),
            bytes(self.dataset.manifest().segment_bytes()),
            escaped(&directory),
            bytes(self.new_bytes),
        )
    }
}

#[derive(clap::Args)]
pub struct CompactArguments {
    #[command(flatten)]
    changed: ChangedDataset,
    /// Compact all transactions, not only those of small appends, and sort columns by their present supports.
    #[arg(long)]
    all: bool,
}

pub fn compact(arguments: &CompactArguments, output: Output) -> Outcome {
    let CompactArguments { changed, all } = arguments;
    let before = changed.dataset()?;
    let Some(plan) = before.compaction(*all)? else {
        let value = json!({ "directory": changed.directory, "compaction": null });
        return output.result(&value, || {
            "nothing to compact: the transactions fill as few blocks as possible\n".to_owned()
        });
    };
    let value = json!({ "compaction": {
        "transactions": plan.transactions,
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
    let bar = output.bar("compacting", Unit::BlockColumns);
    let made = ChangeReport::by(&before, &bar, |progress| {
        let after = before.compact(*all, threads, progress)?;
        Ok(after.expect("there is something to gain"))
    })?;
    output.result(&made.value(value), || {
        format!("{}{}", text_of(&plan, "put"), made.text())
    })
}

fn text_of(plan: &Compaction, put: &str) -> String {
    format!(
        "{put} {} transactions from {} blocks into {}: {} instead of {}{}\n",
        plan.transactions,
        plan.blocks,
        plan.blocks_after,
        bytes(plan.bytes_after),
        bytes(plan.bytes),
        if plan.sorts {
            "; columns are sorted by support"
        } else {
            ""
        }
    )
}

#[derive(clap::Args)]
#[group(id = "rows", required = true, multiple = true)]
pub struct EraseArguments {
    #[command(flatten)]
    changed: ChangedDataset,
    /// Id of a row to erase; repeat the option for several.
    #[arg(long, value_name = "ID", group = "rows")]
    row_id: Vec<String>,
    /// File with the ids of rows to erase, one a line.
    #[arg(long, value_name = "FILE", group = "rows")]
    row_ids_file: Option<PathBuf>,
    /// Erase the rows whose ids begin with a date (2026-11-25) before this one.
    #[arg(long, value_name = "DATE", group = "rows")]
    before: Option<String>,
    /// Write a JSON record of the erasure to this file: the replaced and the new segments, and none of the data.
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
    let cost = before.erasure(&slots)?;
    let shuffled = || json!({ "transactions": cost.shuffled, "new_bytes": cost.shuffled_bytes });
    if slots.is_empty() || changed.dry_run {
        let moved = cost.new_bytes;
        let erased = if changed.dry_run { rows } else { 0 };
        let value = json!({
            "directory": changed.directory,
            "erased": erased,
            "new_bytes": moved,
            "shuffled": shuffled(),
        });
        return output.result(&value, || match rows {
            0 => "nothing to erase: no row id begins with an earlier date\n".to_owned(),
            _ => format!(
                "would erase {} and upload {}\n{}",
                of(rows),
                bytes(moved),
                text_of_shuffle(&cost)
            ),
        });
    }
    if cost.shuffled > 0 {
        output.note(|| {
            format!(
                "erasing {}: {} are to be uploaded\n{}",
                of(rows),
                bytes(cost.new_bytes),
                text_of_shuffle(&cost)
            )
        })?;
    }
    let bar = output.bar("erasing", Unit::BlockColumns);
    let made = ChangeReport::by(&before, &bar, |progress| {
        before.erase(&slots, threads, progress)
    })?;
    let document = erasure_record(&before, &made.dataset, rows);
    let value = made.value(json!({ "erased": rows, "shuffled": shuffled(), "record": document }));
    output.result(&value, || format!("erased {}\n{}", of(rows), made.text()))?;
    match record {
        Some(file) => file.private().write(format!("{document:#}\n").as_bytes()),
        None => Ok(()),
    }
}

/// Describes the part of an erasure that shuffles transactions again.
fn text_of_shuffle(cost: &Erasure) -> String {
    match cost.shuffled {
        0 => String::new(),
        shuffled => format!(
            "  {} of these bytes are {} that must be shuffled again, since too many of their stratum are erased\n",
            bytes(cost.shuffled_bytes),
            of(shuffled)
        ),
    }
}

/// Formats a number of transactions.
fn of(rows: u64) -> String {
    match rows {
        1 => "1 transaction".to_owned(),
        _ => format!("{rows} transactions"),
    }
}

/// Returns the record of an erasure: the replaced and new segments, without any of the data.
fn erasure_record(before: &Dataset, after: &Dataset, rows: u64) -> Value {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    let only = |of: &Dataset, not_of: &Dataset| -> Vec<Value> {
        let segment = |index: u32| {
            let entry = of.manifest().segments[index as usize];
            json!({ "number": entry.number, "digest": entry.digest.to_string() })
        };
        let segments = of.manifest().segments_beyond(not_of.manifest());
        segments.into_iter().map(segment).collect()
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
            let text = String::from_utf8(read(path, "row ids")?).map_err(|_| {
                let sentence = format!("{} is not UTF-8 text; give one id a line", path.display());
                Failure::input(sentence)
            })?;
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
    changed: ChangedDataset,
    /// Key file to encrypt the dataset with from now on (`oboro keygen`).
    #[arg(long, value_name = "FILE", required_unless_present = "new_key_command")]
    new_key: Option<PathBuf>,
    /// Run this shell command and take its output as the bytes of that key file.
    #[arg(long, value_name = "COMMAND", conflicts_with = "new_key")]
    new_key_command: Option<String>,
    /// Read the new key's passphrase from the first line of this file, which must be readable by you only [default: a
    /// prompt].
    #[arg(long, value_name = "FILE")]
    new_passphrase_file: Option<PathBuf>,
    /// Run this shell command and read the new key's passphrase from the first line of its output.
    #[arg(long, value_name = "COMMAND", conflicts_with = "new_passphrase_file")]
    new_passphrase_command: Option<String>,
}

pub fn rotate(arguments: &RotateArguments, output: Output) -> Outcome {
    let changed = &arguments.changed;
    let before = changed.dataset()?;
    let passphrase = PassphraseArguments {
        passphrase_file: arguments.new_passphrase_file.clone(),
        passphrase_command: arguments.new_passphrase_command.clone(),
    };
    let (file, command) = (
        arguments.new_key.as_deref(),
        arguments.new_key_command.as_deref(),
    );
    let key = KeyFrom::one_of(file, command, "--new-key-command");
    let key =
        passphrase.open(&key.ok_or_else(|| Failure::input("give the new key with --new-key"))?)?;
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
    let bar = output.bar("encrypting again", Unit::BlockColumns);
    let made = ChangeReport::by(&before, &bar, |progress| {
        before.rotate(&key, threads, progress)
    })?;
    let value = made.value(json!({ "key_check": key.check().to_string() }));
    output.result(&value, || {
        format!(
            "encrypted with the key {} from now on; after the upload the old key no longer opens the dataset\n{}",
            key.check(),
            made.text()
        )
    })
}
