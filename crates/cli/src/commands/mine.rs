//! `oboro mine`: finds the frequent itemsets of an uploaded dataset.

use crate::arguments::{NameList, ReadArguments, ThreadArguments, UploadedArguments, names};
use crate::failure::{Failure, Outcome};
use crate::interrupt::{connect, watched};
use crate::output::{Output, Unit, bytes, seconds};
use crate::results::{
    RecordArguments, ReleaseArguments, ResultFile, say_release, source, version_line,
};
use bytesize::ByteSize;
use oboro_client::{
    Answers, ClientError, KEPT_BYTES, Level, LevelTrace, Mining, MiningReport, MiningResult, Route,
    VersionCheck,
};
use oboro_dataset::Dataset;
use oboro_format::ErrorClass;
use oboro_input::{HowRead, MinSupport, Name, Names, Transactions, read_next};
use oboro_mining::{AprioriError, AprioriOptions, FrequentItemsets, Kept, eclat, most_frequent};
use oboro_results::{ItemsetsDocument, RunRecord, Source};
use serde_json::{Value, json};
use std::cell::Cell;
use std::fmt::Write;
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// Maximum number of itemsets in text output; the file and JSON have all.
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
    after_help = "Examples:\n  oboro mine baskets.oboro --min-support 5% --out itemsets.json\n  oboro mine baskets.oboro --min-support 100 --max-len 2 --answers moments\n  oboro mine baskets.oboro --top 50 --closed\n  oboro mine baskets.oboro --min-support 5% --suppress-below 11 --out release.csv --record run.json"
)]
pub struct Arguments {
    #[command(flatten)]
    uploaded: UploadedArguments,
    /// Minimum support: a fraction (0.01, 1%) or a number of transactions (250). With --top, the lowest that may be
    /// chosen.
    #[arg(long, value_name = "SUPPORT", required_unless_present = "top")]
    min_support: Option<MinSupport>,
    /// Choose the minimum support that yields the K most frequent itemsets, and all as frequent as the last of them. It
    /// is lowered step by step: the server learns at most a tenth more columns than needed.
    #[arg(long, value_name = "K", conflicts_with = "suppress_below")]
    top: Option<NonZeroUsize>,
    /// Keep only closed itemsets, of which no superset has the same support. All others' supports follow from theirs.
    #[arg(long, conflicts_with = "maximal")]
    closed: bool,
    /// Keep only maximal itemsets, of which no superset is frequent.
    #[arg(long)]
    maximal: bool,
    /// List only itemsets that contain all of these items: names separated by commas, in double quotes if they contain
    /// a comma, or begin or end with a space. The server learns as much as without this option.
    #[arg(long, value_name = "ITEMS", value_parser = names, conflicts_with = "top")]
    containing: Vec<NameList>,
    /// Maximum length of itemsets [default: the length that the dataset was encrypted for].
    #[arg(long, value_name = "N")]
    max_len: Option<NonZeroUsize>,
    /// Stop once more than N itemsets are certain to be frequent, and report how many follow; 0 for no limit.
    #[arg(long, value_name = "N", default_value_t = AprioriOptions::DEFAULT_STOP_ABOVE)]
    stop_above: u64,
    /// Count every support of two items or more, even those that follow from others.
    #[arg(long)]
    no_deduction: bool,
    /// Verified answers to use: `moments`, computed by the server on ciphertext (up to --max-len 4); `cells`, sealed
    /// cells that are counted locally; `auto`, whichever needs fewer bytes.
    #[arg(
        long,
        value_name = "ROUTE",
        default_value = "auto",
        conflicts_with = "trust_server"
    )]
    answers: AnswersArgument,
    /// Use unverified answers of the server. Only for a server that you trust to follow the protocol: nothing is
    /// verified, and a lying server can read the data.
    #[arg(long)]
    trust_server: bool,
    /// Answer from the cells cached in DIR by earlier runs, without a server. The server may have a newer version; the
    /// result states that versions were not compared.
    #[arg(long, conflicts_with_all = ["trust_server", "answers"])]
    offline: bool,
    /// Cache up to SIZE of fetched sealed cells in DIR/cells for later runs; 0 disables the cache.
    #[arg(long, value_name = "SIZE", default_value_t = ByteSize(KEPT_BYTES))]
    keep_cells: ByteSize,
    /// Write the itemsets to this file, readable by you only: as JSON, for `oboro rules` and `oboro report`, or as a
    /// table if its name ends with .csv or .parquet.
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    #[command(flatten)]
    record: RecordArguments,
    #[command(flatten)]
    release: ReleaseArguments,
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
    let containing = arguments.containing(&dataset)?;
    let plaintext = arguments
        .verify
        .as_deref()
        .map(|path| {
            // Transactions are compared without their ids.
            let before = dataset.record().read.clone();
            let before = before.map(HowRead::without_row_ids);
            read_next(path, arguments.reading.options(), before.as_ref())
        })
        .transpose()?;
    let (plaintext, how) = plaintext.unzip();
    let out = arguments.out.as_deref();
    let verify_with = arguments.verify.as_deref();
    let recorder = arguments
        .record
        .prepare(&[out, verify_with], &arguments.release)?;
    let out = out.map(ResultFile::prepare).transpose()?;
    if let (Some(file), Some(plaintext)) = (&out, verify_with)
        && file.is(plaintext)
    {
        let plaintext = plaintext.display();
        return Err(Failure::input(format!(
            "{plaintext} has the transactions to compare with; write the itemsets to another file"
        )));
    }
    let server = arguments.uploaded.server()?;
    // Hide everything that depends on hidden counts: the progress and cost of counting.
    let is_release = arguments.release.are_given();
    let begun = Instant::now();
    let bar = output.bar("counting", Unit::Bytes);
    let check = Cell::new(if arguments.offline {
        VersionCheck::Offline
    } else {
        VersionCheck::Compare
    });
    let mine = |options: AprioriOptions| -> Result<MiningReport, Failure> {
        let mining = Mining::new(&dataset, &name, arguments.threads.count())
            .interrupted_by(watched())
            .by(arguments.answers.into())
            .trusting_server(arguments.trust_server)
            .keeping(arguments.keep_cells.as_u64())
            .checking(check.get())
            .with_progress(|level, done, total| {
                if is_release {
                    return;
                }
                bar.rename(if arguments.trust_server {
                    format!("counting itemsets of length {level}")
                } else {
                    "fetching verified data".to_owned()
                });
                bar.set(done, total);
            });
        let (more, column_bytes) = mining.reveals(options);
        let mining = mining.announcing(move || {
            if more > 0 && !is_release {
                // If this fails, writing the result fails, too.
                let _ = output.note(|| {
                    let columns = wanted(more, "more ");
                    format!(
                        "the server learns that {columns} wanted ({})\n",
                        bytes(more as u64 * column_bytes)
                    )
                });
            }
        });
        let mined = mining.run(options, || connect(&server));
        if mined.is_err() {
            bar.finish();
        }
        // Further runs of --top: the server learns only the columns that they add.
        if check.get() == VersionCheck::Compare {
            check.set(VersionCheck::Compared);
        }
        Ok(mined?)
    };
    let (runs, found) = arguments.search(&dataset, max_len, mine)?;
    bar.finish();
    let (mined, earlier) = runs.split_last().ok_or("nothing was mined")?;
    let all = document(mined, &found)?;
    let elapsed = begun.elapsed();
    let plaintext = plaintext
        .zip(how.as_ref())
        .map(|(transactions, how)| verify(&transactions, how, max_len, &all, is_release))
        .transpose()?;
    let (release, found) = arguments.release.applied(None, found)?;
    if release.is_some()
        && let Some(hidden) = containing
            .iter()
            .find(|it| containing_all(&found, &[(*it).clone()], &mined.names).is_empty())
    {
        let sentence = format!(
            "the result for release has no itemset with {}, and must not name it; leave it out of --containing",
            Name(hidden)
        );
        return Err(Failure::input(sentence));
    }
    say_release(release.as_ref(), output);
    // Details of reading reveal supports of items.
    let is_reported = |_: &HowRead| release.is_none();
    let how = how.filter(is_reported);
    let read = dataset.record().read.clone().filter(is_reported);
    let kept = arguments.kept();
    let found = containing_all(&found, &containing, &mined.names);
    let traces = || runs.iter().flat_map(|run| &run.traces);
    let mut routes: Vec<String> = Vec::new();
    for route in traces().filter(|it| it.questions > 0 || it.itemsets > 0) {
        let route = route.route.name().to_owned();
        if !routes.contains(&route) {
            routes.push(route);
        }
    }
    let offline = runs.iter().all(|run| run.fetched.offline);
    let source = source(&dataset, &name, mined.found.standing(), routes, offline);
    let source = if is_release {
        source.for_release()
    } else {
        source
    };
    let document = ItemsetsDocument {
        kept,
        containing,
        source: Some(Source {
            read,
            ..source.clone()
        }),
        release,
        ..document(mined, &kept.of(&found))?
    };
    let digest = out.map(|out| out.write_itemsets(&document)).transpose()?;
    if let Some(recorder) = recorder {
        let mut record = RunRecord::new("mine", arguments.asked(max_len), Some(source));
        record.answer = digest.is_none().then(|| json!(document.itemsets));
        record.outputs.extend(digest);
        recorder.write(record)?;
    }
    let received: u64 = traces().map(|trace| trace.received_bytes).sum();
    let earlier_columns: usize = earlier.iter().map(|run| run.fetched.new_columns).sum();
    let mut value = serde_json::to_value(&document)?;
    if let Some(top) = arguments.top {
        value["top"] = json!(top);
    }
    value["answers"] = json!(mined.found.standing());
    let levels = Level::all(&mined.reports, &mined.traces);
    if !is_release {
        value["seconds"] = json!(elapsed.as_secs_f64());
        value["columns"] = json!(mined.fetched.columns);
        value["new_columns"] = json!(mined.fetched.new_columns + earlier_columns);
        value["received_bytes"] = json!(received);
        value["levels"] = levels.iter().map(Level::to_json).collect();
    }
    if let Some(plaintext) = plaintext {
        value["matches_plaintext"] = json!(true);
        if !is_release {
            value["read"] = json!(how);
            value["plaintext_seconds"] = json!(plaintext.as_secs_f64());
        }
    }
    output.result(&value, || {
        let read = how.map_or_else(String::new, |how| {
            format!("\nthe plaintext was read as {how}\n")
        });
        let shown = TextOutput {
            mined,
            document: &document,
            elapsed,
            plaintext,
            questions: traces().map(|trace| trace.questions).sum(),
            top: arguments.top,
            version: version_line(&dataset, offline),
            offline,
        };
        let levels = if is_release {
            String::new()
        } else {
            table(&levels) + "\n"
        };
        levels + &shown.text() + &read
    })
}

impl Arguments {
    /// Removes numbers that depend on suppressed counts from a failure of mining.
    fn without_counts(&self, failure: Failure) -> Failure {
        let error = failure.as_a::<AprioriError<ClientError>>();
        if !self.release.are_given() || !matches!(error, Some(AprioriError::TooManyItemsets { .. }))
        {
            return failure;
        }
        Failure::input(format!(
            "more than {} itemsets are certain to be frequent, and nothing is reported; how many depends on suppressed counts: raise --min-support, lower --max-len, or set --stop-above 0 to find all of them, which may take very long",
            self.stop_above
        ))
    }

    /// Mines once, or repeatedly for `--top`; returns the result of each run, and the itemsets.
    fn search(
        &self,
        dataset: &Dataset,
        max_len: NonZeroUsize,
        mine: impl Fn(AprioriOptions) -> Result<MiningReport, Failure>,
    ) -> Result<(Vec<MiningReport>, FrequentItemsets), Failure> {
        let record = dataset.record();
        let complete = MinSupport::Count(record.min_item_support);
        let options = AprioriOptions::new(self.min_support.unwrap_or(complete))
            .with_max_len(Some(max_len))
            .with_stop_above(self.stop_above)
            .with_deduction(!self.no_deduction);
        let mut runs = Vec::new();
        let mut mine = |min_support| {
            let mined = mine(AprioriOptions {
                min_support,
                ..options
            })
            .map_err(|failure| self.without_counts(failure))?;
            let found = mined.found.itemsets().clone();
            runs.push(mined);
            Ok::<_, Failure>(found)
        };
        let found = match self.top {
            None => mine(options.min_support)?,
            Some(top) => {
                let least: Result<u64, AprioriError<ClientError>> =
                    options.threshold(record.transactions, record.min_item_support);
                most_frequent(top, &record.supports, least?, Some(max_len), |threshold| {
                    mine(MinSupport::Count(threshold))
                })?
            }
        };
        Ok((runs, found))
    }

    /// Returns the items that all listed itemsets must contain, without repeats.
    fn containing(&self, dataset: &Dataset) -> Result<Vec<String>, Failure> {
        let mut items = self.containing.concat();
        items.sort();
        items.dedup();
        let known = &dataset.record().names;
        match items.iter().find(|item| !known.contains(item)) {
            Some(item) => Err(ClientError::UnknownItem(item.clone()).into()),
            None => Ok(items),
        }
    }

    fn kept(&self) -> Kept {
        if self.closed {
            Kept::Closed
        } else if self.maximal {
            Kept::Maximal
        } else {
            Kept::All
        }
    }

    /// Returns the parameters of the run, for its record.
    fn asked(&self, max_len: NonZeroUsize) -> Value {
        json!({
            // A suppressed release states the lowest support shown; omit the requested minimum.
            "min_support": self.min_support.filter(|_| self.release.suppress_below.is_none()).map(|it| it.to_string()),
            "max_len": max_len,
            "top": self.top,
            "kept": self.kept(),
            "containing": self.containing.concat(),
            "deduction": !self.no_deduction,
            "answers": if self.trust_server { "trusted".to_owned() } else { format!("{:?}", self.answers).to_lowercase() },
            "suppress_below": self.release.suppress_below,
            "round_to": self.release.round_to,
        })
    }

    fn max_len(&self, dataset: &Dataset) -> Result<NonZeroUsize, Failure> {
        let possible = NonZeroUsize::new(dataset.manifest().max_len.into())
            .ok_or("the dataset allows no itemsets; encrypt it again")?;
        match self.max_len {
            // Cells count itemsets of any length, up to the number of items.
            Some(wanted) if !self.trust_server => Ok(wanted),
            Some(wanted) if wanted > possible && possible.get() < dataset.record().names.len() => {
                Err(Failure::of(
                    ErrorClass::Input,
                    format!(
                        "the server can count itemsets of up to {possible}, for which the dataset was encrypted, not {wanted}; choose --max-len {possible}, leave --trust-server out, or encrypt it again with --max-len {wanted}"
                    ),
                ))
            }
            Some(wanted) => Ok(wanted.min(possible)),
            None => Ok(possible),
        }
    }
}

/// Returns the itemsets that contain all of these items.
fn containing_all(
    found: &FrequentItemsets,
    items: &[String],
    names: &[String],
) -> FrequentItemsets {
    let number = |item: &String| names.iter().position(|name| name == item);
    // A rare item may have no number: then no itemset contains it.
    let numbers = items
        .iter()
        .map(|item| number(item).unwrap_or(names.len()) as u32);
    found.containing(&numbers.collect())
}

/// Returns the itemsets by name, marked if they come from unverified answers.
fn document(mined: &MiningReport, found: &FrequentItemsets) -> Result<ItemsetsDocument, Failure> {
    Ok(ItemsetsDocument {
        unverified: matches!(mined.found, MiningResult::Unverified(_)),
        ..ItemsetsDocument::new(found, &mined.names)?
    })
}

/// Returns a warning if answers were not verified.
pub fn unverified(unverified: bool) -> &'static str {
    if unverified {
        "UNVERIFIED: the server was trusted (--trust-server); if it lied, this is wrong\n"
    } else {
        ""
    }
}

/// Mines the plaintext with another algorithm and compares; returns the time of mining.
fn verify(
    transactions: &Transactions,
    how: &HowRead,
    max_len: NonZeroUsize,
    encrypted: &ItemsetsDocument,
    is_release: bool,
) -> Result<Duration, Failure> {
    let begun = Instant::now();
    let min_support = MinSupport::Count(encrypted.min_support);
    let plaintext = ItemsetsDocument::new(
        &eclat(transactions, min_support, Some(max_len)),
        transactions.names(),
    )?;
    let elapsed = begun.elapsed();
    let plaintext = ItemsetsDocument {
        unverified: encrypted.unverified,
        ..plaintext
    };
    if plaintext != *encrypted {
        let counts = if is_release {
            String::new()
        } else {
            format!(
                ": {} itemsets of {} transactions against {} of {}, read as {how}",
                encrypted.itemsets.len(),
                encrypted.transactions,
                plaintext.itemsets.len(),
                plaintext.transactions,
            )
        };
        return Err(format!(
            "the encrypted result differs from the plaintext one{counts}; give --verify the file that was encrypted, or after appends all of them in one",
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

/// Formats a number of columns: "one more column is" or "7 more columns are".
pub fn wanted(columns: usize, more: &str) -> String {
    match columns {
        1 => format!("one {more}column is"),
        _ => format!("{columns} {more}columns are"),
    }
}

/// Describes the length limit of the search, if it may have cut off longer frequent itemsets.
pub fn beyond(max_len: Option<usize>) -> String {
    max_len.map_or_else(String::new, |max_len| {
        format!("itemsets of more than {max_len} items were not searched for (--max-len)\n")
    })
}

/// Content of the text output.
struct TextOutput<'a> {
    mined: &'a MiningReport,
    document: &'a ItemsetsDocument,
    elapsed: Duration,
    plaintext: Option<Duration>,
    questions: usize,
    top: Option<NonZeroUsize>,
    /// Line about the version of the result.
    version: String,
    offline: bool,
}

impl TextOutput<'_> {
    /// Formats " in 1.25 s"; empty for a release.
    fn took(&self, duration: Duration) -> String {
        match self.document.release {
            Some(_) => String::new(),
            None => format!(" in {}", seconds(duration)),
        }
    }

    fn text(&self) -> String {
        let document = self.document;
        let mut text = String::new();
        let _ = writeln!(
            text,
            "{} {}frequent itemsets{} (support at least {} of {} transactions){}",
            document.itemsets.len(),
            document.kept.word(),
            match document.containing[..] {
                [] => String::new(),
                _ => format!(" with {}", Names(&document.containing)),
            },
            document.min_support,
            document.transactions,
            self.took(self.elapsed)
        );
        if let Some(top) = self.top {
            let _ = writeln!(
                text,
                "the minimum support was chosen for the {top} most frequent itemsets (--top), and includes all that are as frequent as the last"
            );
        }
        text.push_str(match self.mined.found {
            MiningResult::Verified(_) if self.offline => "the server was not asked\n",
            MiningResult::Verified(_) if self.questions == 0 && document.release.is_none() => {
                "the server was asked for its version only\n"
            }
            MiningResult::Verified(_) => "every answer of the server was verified\n",
            MiningResult::Unverified(_) => unverified(true),
            MiningResult::Local(_) => "local: the server is this process\n",
        });
        text.push_str(&self.version);
        text.push_str(&beyond(document.max_len));
        if let Some(max_len) = document.max_len.filter(|_| !document.kept.is_all()) {
            let _ = writeln!(
                text,
                "those of {max_len} items are all listed: whether they are {}was not checked",
                document.kept.word()
            );
        }
        for sentence in document.release.iter().flat_map(|it| it.sentences()) {
            let _ = writeln!(text, "for release, {sentence}");
        }
        if let Some(plaintext) = self.plaintext {
            let _ = writeln!(
                text,
                "the same as in plaintext: another miner finds these itemsets and supports{}",
                self.took(plaintext)
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
}
