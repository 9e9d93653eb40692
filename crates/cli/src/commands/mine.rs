//! `oboro mine`

use crate::Outcome;
use crate::arguments::{ReadArguments, ThreadArguments, UploadedArguments};
use crate::failure::Failure;
use crate::interrupt::{connect, watched};
use crate::output::{Form, Output, OutputFile, Unit, bytes, seconds};
use bytesize::ByteSize;
use oboro_client::{Answers, Found, KEPT_BYTES, Level, LevelTrace, Mined, Mining, Route};
use oboro_mining::tables::itemsets_csv;
use oboro_mining::{
    AprioriOptions, Dataset, HowRead, ItemsetsDocument, MinSupport, Names, Transactions, eclat,
    read_next,
};
use serde_json::json;
use std::fmt::Write;
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// The most itemsets in text output; the file and JSON have all.
const SHOWN: usize = 20;

/// [`Answers`] on the command line.
#[derive(Debug, Clone, Copy, clap::ValueEnum)]
enum AnswersArgument {
    Auto,
    Moments,
    Cells,
}

impl From<AnswersArgument> for Answers {
    fn from(argument: AnswersArgument) -> Self {
        match argument {
            AnswersArgument::Auto => Self::Auto,
            AnswersArgument::Moments => Self::Moments,
            AnswersArgument::Cells => Self::Cells,
        }
    }
}

#[derive(clap::Args)]
#[command(
    after_help = "Examples:\n  oboro mine baskets.oboro --min-support 5% --out itemsets.json\n  oboro mine baskets.oboro --min-support 100 --max-len 2 --answers moments"
)]
pub struct Arguments {
    #[command(flatten)]
    uploaded: UploadedArguments,
    /// The minimum support: a fraction (0.01, 1%) or a number of transactions (250).
    #[arg(long, value_name = "SUPPORT")]
    min_support: MinSupport,
    /// The longest itemsets to search for [default: what the dataset was encrypted for].
    #[arg(long, value_name = "N")]
    max_len: Option<NonZeroUsize>,
    /// Count every support of two items or more, even those that follow from others.
    #[arg(long)]
    no_deduction: bool,
    /// Which verified answers to use: `moments`, computed by the server on ciphertext (up to --max-len 4); `cells`,
    /// sealed cells that are counted locally; `auto`, whichever needs fewer bytes.
    #[arg(
        long,
        value_name = "ROUTE",
        default_value = "auto",
        conflicts_with = "trust_server"
    )]
    answers: AnswersArgument,
    /// Use unverified answers of the server. Only for a server that you trust to follow the protocol: nothing is
    /// verified, and one that lies can read the data.
    #[arg(long)]
    trust_server: bool,
    /// Cache up to SIZE of fetched sealed cells in DIR/cells, and up to SIZE of verified moments of columns in
    /// DIR/moments, for later runs; 0 disables both caches.
    #[arg(long, value_name = "SIZE", default_value_t = ByteSize(KEPT_BYTES))]
    keep_cells: ByteSize,
    /// Write the itemsets to this file, which only you may read: as JSON, for `oboro rules`, or as a table if its name ends
    /// with .csv.
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Compare with a plaintext miner on the transactions in this file, which is read as the dataset's own was unless
    /// --format says otherwise.
    #[arg(long, value_name = "INPUT")]
    verify: Option<PathBuf>,
    #[command(flatten)]
    reading: ReadArguments,
    #[command(flatten)]
    threads: ThreadArguments,
}

pub fn run(arguments: &Arguments, output: Output) -> Outcome {
    arguments
        .reading
        .need("--verify", arguments.verify.is_some())?;
    let dataset = arguments.uploaded.dataset()?;
    let max_len = arguments.max_len(&dataset)?;
    let name = arguments.uploaded.name()?;
    let plaintext = arguments
        .verify
        .as_deref()
        .map(|path| {
            // Transactions are compared, not their ids.
            let before = dataset.record().read.clone();
            let before = before.map(HowRead::without_row_ids);
            read_next(path, arguments.reading.options(), before.as_ref())
        })
        .transpose()?;
    let (plaintext, how) = plaintext.unzip();
    let out = arguments.out.as_deref();
    let out = out.map(OutputFile::prepare_result).transpose()?;
    let server = arguments.uploaded.server()?;
    let begun = Instant::now();
    let bar = output.bar("counting", Unit::Bytes);
    let mining = Mining::new(&dataset, &name, arguments.threads.count())
        .interrupted_by(watched())
        .by(arguments.answers.into())
        .trusting_server(arguments.trust_server)
        .keeping(arguments.keep_cells.as_u64())
        .with_progress(|level, done, total| {
            bar.rename(if arguments.trust_server {
                format!("counting itemsets of length {level}")
            } else {
                "fetching what is verified".to_owned()
            });
            bar.set(done, total);
        });
    let options = AprioriOptions::new(arguments.min_support)
        .with_max_len(Some(max_len))
        .with_deduction(!arguments.no_deduction);
    let (more, column_bytes) = mining.reveals(options);
    if more > 0 {
        output.note(|| {
            let columns = wanted(more, "more ");
            format!(
                "the server learns that {columns} wanted ({})\n",
                bytes(more as u64 * column_bytes)
            )
        })?;
    }
    let mined = mining.run(options, || connect(&server));
    bar.finish();
    let mined = mined?;
    let document = document(&mined)?;
    let elapsed = begun.elapsed();
    let plaintext = plaintext
        .zip(how.as_ref())
        .map(|(transactions, how)| verify(&transactions, how, arguments, max_len, &document))
        .transpose()?;
    match out {
        Some((file, Form::Json)) => file.write(document.to_json().as_bytes())?,
        Some((file, Form::Csv)) => file.write(&itemsets_csv(&document))?,
        None => {}
    }
    let mut value = serde_json::to_value(&document)?;
    value["seconds"] = json!(elapsed.as_secs_f64());
    value["answers"] = json!(mined.found.standing());
    value["columns"] = json!(mined.fetched.columns);
    value["new_columns"] = json!(mined.fetched.new_columns);
    value["received_bytes"] = json!(
        mined
            .traces
            .iter()
            .map(|trace| trace.received_bytes)
            .sum::<u64>()
    );
    let levels = Level::all(&mined.reports, &mined.traces);
    value["levels"] = levels.iter().map(Level::to_json).collect();
    if let Some(plaintext) = plaintext {
        value["matches_plaintext"] = json!(true);
        value["read"] = json!(how);
        value["plaintext_seconds"] = json!(plaintext.as_secs_f64());
    }
    output.result(&value, || {
        let read = how.map_or_else(String::new, |how| {
            format!("\nthe plaintext was read as {how}\n")
        });
        table(&levels) + &text(&mined, &document, elapsed, plaintext) + &read
    })
}

impl Arguments {
    fn max_len(&self, dataset: &Dataset) -> Result<NonZeroUsize, Failure> {
        let possible = NonZeroUsize::new(dataset.manifest().max_len.into())
            .ok_or("the dataset allows no itemsets; encrypt it again")?;
        match self.max_len {
            // Cells count itemsets of any length; none is longer than the number of items.
            Some(wanted) if !self.trust_server => Ok(wanted),
            Some(wanted) if wanted > possible && possible.get() < dataset.record().names.len() => Err(format!(
                "the server can count itemsets of up to {possible}, for which the dataset was encrypted, not {wanted}; choose --max-len {possible}, leave --trust-server out, or encrypt it again with --max-len {wanted}"
            )
            .into()),
            Some(wanted) => Ok(wanted.min(possible)),
            None => Ok(possible),
        }
    }
}

/// The itemsets by name, and whether they come from unverified answers.
fn document(mined: &Mined) -> Result<ItemsetsDocument, Failure> {
    Ok(ItemsetsDocument {
        unverified: matches!(mined.found, Found::Unverified(_)),
        ..mined.found.itemsets().to_document(&mined.names)?
    })
}

/// A warning if answers were not verified.
pub fn unverified(unverified: bool) -> &'static str {
    if unverified {
        "UNVERIFIED: this is what the server answered (--trust-server); if it lied, it is wrong\n"
    } else {
        ""
    }
}

/// Mines the plaintext with another algorithm; returns the time it took.
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
    let plaintext = ItemsetsDocument {
        unverified: encrypted.unverified,
        ..plaintext
    };
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

fn row(level: &Level<'_>) -> String {
    let Level { report, trace } = level;
    let cost = |of: fn(&LevelTrace) -> String| trace.map_or_else(|| "-".to_owned(), of);
    format!(
        "{:>6}  {:>10}  {:>8}  {:>8}  {:>8}  {:>8}  {:>7}  {:>5}  {:>10}  {:>9}  {:>9}\n",
        report.level,
        report.candidates,
        report.asked,
        report.deduced,
        report.excluded,
        report.frequent,
        cost(|trace| trace.route.name().to_owned()),
        cost(|trace| trace.limbs.to_string()),
        cost(|trace| bytes(trace.received_bytes)),
        cost(|trace| match trace.route {
            Route::Scalars | Route::Prefix | Route::Trusted => seconds(trace.server),
            Route::Cells => "-".to_owned(),
        }),
        cost(|trace| seconds(trace.elapsed)),
    )
}

fn table(levels: &[Level<'_>]) -> String {
    let mut table = "length  candidates   counted   deduced  excluded  frequent    route  limbs    received     server      total\n".to_owned();
    table.extend(levels.iter().map(row));
    table
}

/// "one more column is" or "7 more columns are".
pub fn wanted(columns: usize, more: &str) -> String {
    match columns {
        1 => format!("one {more}column is"),
        _ => format!("{columns} {more}columns are"),
    }
}

/// The length limit of the search, if it may have cut off longer frequent itemsets.
pub fn beyond(max_len: Option<usize>) -> String {
    max_len.map_or_else(String::new, |max_len| {
        format!("itemsets of more than {max_len} items were not looked for (--max-len)\n")
    })
}

fn text(
    mined: &Mined,
    document: &ItemsetsDocument,
    elapsed: Duration,
    plaintext: Option<Duration>,
) -> String {
    let mut text = String::new();
    let _ = writeln!(
        text,
        "\n{} frequent itemsets (support at least {} of {} transactions) in {}",
        document.itemsets.len(),
        document.min_support,
        document.transactions,
        seconds(elapsed)
    );
    let questions: usize = mined.traces.iter().map(|trace| trace.questions).sum();
    text.push_str(match mined.found {
        Found::Verified(_) if questions == 0 => "the server was not asked\n",
        Found::Verified(_) => "every answer of the server was verified\n",
        Found::Unverified(_) => unverified(true),
        Found::Local(_) => "local: the server is this process\n",
    });
    text.push_str(&beyond(document.max_len));
    if let Some(plaintext) = plaintext {
        let _ = writeln!(
            text,
            "the same as in plaintext: another miner finds these itemsets and supports (in {})",
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
