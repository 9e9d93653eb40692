//! `oboro mine`

use crate::Outcome;
use crate::arguments::{
    KeyArguments, ReadArguments, ServerArguments, ThreadArguments, dataset_name,
};
use crate::output::{Failure, Output, OutputFile, Unit, bytes, seconds};
use clap::ValueEnum;
use oboro_client::{Answered, Answers, EncryptedCounter, Level, LevelTrace};
use oboro_mining::{
    AprioriOptions, Dataset, HowRead, ItemsetsDocument, MinSupport, Names, Transactions, apriori,
    eclat, read_next,
};
use serde_json::json;
use std::fmt::Write;
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// Itemsets that are printed for people; all are in the file and in JSON.
const SHOWN: usize = 20;

#[derive(clap::Args)]
pub struct Arguments {
    /// The dataset directory that was uploaded.
    #[arg(value_name = "DIR")]
    bundle: PathBuf,
    #[command(flatten)]
    key: KeyArguments,
    #[command(flatten)]
    server: ServerArguments,
    /// The name on the server [default: the directory's, without .oboro].
    #[arg(long)]
    name: Option<String>,
    /// What counts as frequent: a fraction (0.01, 1%) or a number of transactions (250).
    #[arg(long, value_name = "SUPPORT")]
    min_support: MinSupport,
    /// The longest itemsets to look for [default: what the dataset was encrypted for].
    #[arg(long, value_name = "N")]
    max_len: Option<NonZeroUsize>,
    /// Ask the server for every support, even for those that follow from others.
    #[arg(long)]
    no_deduction: bool,
    /// What the server answers with.
    #[arg(long, value_name = "WHAT", default_value = "auto")]
    answers: AnswersArgument,
    /// Say for each length why it was answered as it was.
    #[arg(long)]
    explain: bool,
    /// Write the itemsets to this file, for `oboro rules`.
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Compare with a plaintext miner on the transactions in this file, which is read as the
    /// dataset's own was unless --format says otherwise.
    #[arg(long, value_name = "INPUT")]
    verify: Option<PathBuf>,
    #[command(flatten)]
    reading: ReadArguments,
    #[command(flatten)]
    threads: ThreadArguments,
}

#[derive(Clone, Copy, ValueEnum)]
enum AnswersArgument {
    /// What takes fewer bytes.
    Auto,
    /// Moments that it computes from ciphertext.
    Moments,
    /// Columns of ciphertext, which are decrypted and counted in here: it learns of no itemset.
    Columns,
}

impl From<AnswersArgument> for Answers {
    fn from(argument: AnswersArgument) -> Self {
        match argument {
            AnswersArgument::Auto => Self::Auto,
            AnswersArgument::Moments => Self::Moments,
            AnswersArgument::Columns => Self::Columns,
        }
    }
}

pub fn run(arguments: &Arguments, output: Output) -> Outcome {
    arguments
        .reading
        .need("--verify", arguments.verify.is_some())?;
    let key = arguments.key.load()?;
    let dataset = Dataset::open(&arguments.bundle, &key)?;
    let max_len = arguments.max_len(&dataset)?;
    let name = dataset_name(arguments.name.as_ref(), &arguments.bundle)?;
    let plaintext = arguments
        .verify
        .as_deref()
        .map(|path| {
            let before = dataset.record().read.as_ref();
            read_next(path, arguments.reading.options(), before)
        })
        .transpose()?;
    let (plaintext, how) = plaintext.unzip();
    let out = arguments
        .out
        .as_deref()
        .map(OutputFile::prepare)
        .transpose()?;
    let connection = arguments.server.connect()?;
    let begun = Instant::now();
    let bar = output.bar("counting", Unit::Bytes);
    let mut counter =
        EncryptedCounter::new(&connection, &dataset, &name, arguments.threads.count())
            .with_answers(arguments.answers.into())
            .with_progress(|level, done, total| {
                bar.rename(format!("counting itemsets of length {level}"));
                bar.set(done, total);
            });
    let options = AprioriOptions::new(arguments.min_support)
        .with_max_len(Some(max_len))
        .with_deduction(!arguments.no_deduction);
    let mut reports = Vec::new();
    let mined = apriori(&mut counter, options, |report| reports.push(report));
    bar.finish();
    let document = mined?.to_document(counter.names())?;
    let elapsed = begun.elapsed();
    let plaintext = plaintext
        .zip(how.as_ref())
        .map(|(transactions, how)| verify(&transactions, how, arguments, max_len, &document))
        .transpose()?;
    if let Some(file) = out {
        file.write(document.to_json().as_bytes())?;
    }
    let mut value = serde_json::to_value(&document)?;
    value["seconds"] = json!(elapsed.as_secs_f64());
    let levels = Level::all(&reports, counter.traces());
    value["levels"] = levels.iter().map(Level::to_json).collect();
    if let Some(plaintext) = plaintext {
        value["verified"] = json!(true);
        value["read"] = json!(how);
        value["plaintext_seconds"] = json!(plaintext.as_secs_f64());
    }
    output.result(&value, || {
        let explained = match arguments.explain {
            true => levels.iter().map(explain).collect(),
            false => String::new(),
        };
        let read = how.map_or_else(String::new, |how| {
            format!("\nthe plaintext was read as {how}\n")
        });
        table(&levels) + &explained + &text(&document, elapsed, plaintext) + &read
    })
}

impl Arguments {
    fn max_len(&self, dataset: &Dataset) -> Result<NonZeroUsize, Failure> {
        let possible = NonZeroUsize::new(dataset.manifest().max_len.into())
            .ok_or("the dataset allows no itemsets; encrypt it again")?;
        match self.max_len {
            // Itemsets cannot be longer than there are items, whatever was asked.
            Some(wanted) if wanted > possible && possible.get() < dataset.record().names.len() => Err(format!(
                "the dataset was encrypted for itemsets of up to {possible}, not {wanted}; choose --max-len {possible}, or encrypt it again with --max-len {wanted}"
            )
            .into()),
            Some(wanted) => Ok(wanted.min(possible)),
            None => Ok(possible),
        }
    }
}

/// Mines the plaintext by another algorithm; the time it took.
fn verify(
    transactions: &Transactions,
    how: &HowRead,
    arguments: &Arguments,
    max_len: NonZeroUsize,
    encrypted: &ItemsetsDocument,
) -> Result<Duration, Failure> {
    let begun = Instant::now();
    let plaintext = eclat(transactions, arguments.min_support, Some(max_len))
        .to_document(transactions.names())?;
    let elapsed = begun.elapsed();
    if plaintext != *encrypted {
        return Err(format!(
            "the encrypted result differs from the plaintext one: {} itemsets of {} transactions against {} of {}, read as {how}; give --verify the file that was encrypted, or after appends all of them in one",
            encrypted.itemsets.len(),
            encrypted.transactions,
            plaintext.itemsets.len(),
            plaintext.transactions,
        )
        .into());
    }
    Ok(elapsed)
}

/// Why it was answered as it was, in a line.
fn explain(level: &Level<'_>) -> String {
    let length = level.report.level;
    let Some(trace) = level.trace else {
        return format!("length {length}: nothing had to be asked\n");
    };
    let columns = match trace.columns_bytes {
        0 => "the columns were all here".to_owned(),
        more => format!("columns take {}", bytes(more)),
    };
    let moments = trace
        .moments_bytes
        .map(|it| format!("moments take {}", bytes(it)));
    let reasons = match (trace.answered, moments) {
        (Answered::Moments, Some(moments)) => format!("{moments}, {columns}"),
        (Answered::Columns, Some(moments)) => format!("{columns}, {moments}"),
        (_, None) => columns,
    };
    format!("length {length}: by {}: {reasons}\n", trace.answered.name())
}

fn row(level: &Level<'_>) -> String {
    let Level { report, trace } = level;
    let cost = |of: fn(&LevelTrace) -> String| trace.map_or_else(|| "-".to_owned(), of);
    format!(
        "{:>6}  {:>10}  {:>8}  {:>8}  {:>8}  {:>8}  {:>8}  {:>8}  {:>5}  {:>10}  {:>9}  {:>9}\n",
        report.level,
        report.candidates,
        report.asked,
        cost(|trace| trace.checks.to_string()),
        report.deduced,
        report.excluded,
        report.frequent,
        cost(|trace| trace.answered.name().to_owned()),
        cost(|trace| trace.limbs.to_string()),
        cost(|trace| bytes(trace.received_bytes)),
        cost(|trace| seconds(trace.server)),
        cost(|trace| seconds(trace.elapsed)),
    )
}

fn table(levels: &[Level<'_>]) -> String {
    let mut table = "length  candidates     asked    checks   deduced  excluded  frequent  answered  limbs    received     server      total\n".to_owned();
    table.extend(levels.iter().map(row));
    table
}

/// Says where the search ended, if longer itemsets may be frequent.
pub fn beyond(max_len: Option<usize>) -> String {
    max_len.map_or_else(String::new, |max_len| {
        format!("itemsets of more than {max_len} items were not looked for (--max-len)\n")
    })
}

fn text(document: &ItemsetsDocument, elapsed: Duration, plaintext: Option<Duration>) -> String {
    let mut text = String::new();
    let _ = writeln!(
        text,
        "\n{} frequent itemsets (support at least {} of {} transactions) in {}",
        document.itemsets.len(),
        document.min_support,
        document.transactions,
        seconds(elapsed)
    );
    text.push_str(&beyond(document.max_len));
    if let Some(plaintext) = plaintext {
        let _ = writeln!(
            text,
            "verified: a plaintext miner finds the same itemsets and supports (in {})",
            seconds(plaintext)
        );
    }
    let mut longest: Vec<_> = document.itemsets.iter().collect();
    longest.sort_by_key(|itemset| {
        (
            std::cmp::Reverse(itemset.items.len()),
            std::cmp::Reverse(itemset.support),
        )
    });
    if !longest.is_empty() {
        let _ = writeln!(
            text,
            "\nsupport  itemset (the longest first, {} of {})",
            longest.len().min(SHOWN),
            longest.len()
        );
    }
    for itemset in longest.iter().take(SHOWN) {
        let _ = writeln!(text, "{:>7}  {}", itemset.support, Names(&itemset.items));
    }
    text
}
