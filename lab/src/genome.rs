//! `oboro-lab genome`

mod collection;
pub mod known;
mod plaintext;

use super::profile::Profile;
use super::server::{Server, oboro};
use super::workload::temporary_directory;
use super::{machine, median};
use crate::output::{Failure, NewFile, Output, bytes, seconds};
use crate::{Outcome, ThreadArguments};
use collection::{Source, load_panel, load_reference};
use known::{Asking, Change, Known, bytes_of};
use oboro_client::Connection;
use oboro_genome::Kind;
use oboro_genome_server::{Collections, SyntheticPanel};
use serde::Serialize;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// The shapes of the data in the published figures.
const PANEL: SyntheticPanel = SyntheticPanel {
    haplotypes: 2752,
    sites: 38,
    seed: 1,
};
const LAMBDA_BASES: usize = 48_502;
const ECOLI_BASES: usize = 4_938_920;
/// The bases of a pattern.
const PATTERN: usize = 32;
/// Pattern lengths for panels of many haplotypes.
const SCALING_LENGTHS: [usize; 4] = [10, 38, 100, 500];
const SCALING_HAPLOTYPES: [u32; 3] = [10_000, 100_000, 1_000_000];
/// For large collections.
const FEW_RUNS: u16 = 3;
/// Server options that all collections here need.
const SERVER_OPTIONS: [&str; 5] = [
    "--genome-counts",
    "--genome-cache",
    "2GiB",
    "--genome-reference-limit",
    "10MB",
];
const ASKINGS: [(&str, Asking); 4] = [
    ("exact", Asking::EXACT),
    (
        "count",
        Asking {
            kind: Kind::Match { within: 0 },
            count: true,
        },
    ),
    (
        "within 2",
        Asking {
            kind: Kind::Match { within: 2 },
            count: false,
        },
    ),
    (
        "longest",
        Asking {
            kind: Kind::Longest,
            count: false,
        },
    ),
];

/// Search panels and references on a server, with queries that it cannot read.
///
/// A panel is searched at all its sites (whether a haplotype matches, how many do, within 2 mismatches, and for the
/// longest prefix), then two references for patterns of 32 bases on both strands, then synthetic panels of increasing
/// numbers of haplotypes and sites. Each collection has a server process of its own over loopback. Queries alternate:
/// one cut from the collection, and the same with a third of its symbols changed. Every answer is compared with a
/// search of the plaintext.
///
/// Without files the collections are synthetic, in the shape of those of the published figures. Files are in the
/// system's temporary directory, which TMPDIR changes.
///
/// With --json every kind of search is one line and the summary the last; lab/FIELDS.md explains the fields.
#[derive(clap::Args)]
pub struct Arguments {
    /// The panel: VCF with phased genotypes [default: 2,752 synthetic haplotypes of 38 sites].
    #[arg(long, value_name = "FILE")]
    omni: Option<PathBuf>,
    /// The first reference, in FASTA [default: 48,502 random bases].
    #[arg(long, value_name = "FILE")]
    lambda: Option<PathBuf>,
    /// The second reference, in FASTA [default: 4,938,920 random bases].
    #[arg(long, value_name = "FILE")]
    ecoli: Option<PathBuf>,
    /// At most 100,000 haplotypes, and fewer runs: less than two minutes.
    #[arg(long)]
    quick: bool,
    /// Measured searches of each kind after the warm-up; large collections have 3 at most [default: 20, or 6 with
    /// --quick]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    runs: Option<u16>,
    /// Skip panels of more haplotypes than this.
    #[arg(long, value_name = "N")]
    max_haplotypes: Option<u32>,
    /// Write the panel to this directory for other programs: haplotypes.u8, its symbols, one byte each, row after row,
    /// and query.u8, the symbols searched for.
    #[arg(long, value_name = "DIR")]
    export: Option<PathBuf>,
    #[command(flatten)]
    threads: ThreadArguments,
}

impl Arguments {
    fn runs(&self) -> u16 {
        self.runs.unwrap_or(if self.quick { 6 } else { 20 })
    }

    fn haplotypes(&self) -> impl Iterator<Item = u32> {
        let quick = if self.quick { 100_000 } else { u32::MAX };
        let most = self.max_haplotypes.unwrap_or(quick);
        SCALING_HAPLOTYPES.into_iter().filter(move |&it| it <= most)
    }
}

pub fn run(arguments: &Arguments, output: Output) -> Outcome {
    let export = arguments.export.as_deref().map(Export::prepare);
    let export = export.transpose()?;
    let directory = temporary_directory()?;
    let bench = Bench {
        arguments,
        scratch: directory.path(),
        data: directory.path().join("data"),
        output,
    };
    // Errors in the input show before anything is measured.
    let lambda = bench.load("lambda", arguments.lambda.as_deref(), LAMBDA_BASES)?;
    let ecoli = bench.load("ecoli", arguments.ecoli.as_deref(), ECOLI_BASES)?;
    let runs = arguments.runs();
    let mut searches = bench.panel(export)?;
    searches.push(bench.reference(&lambda, runs)?);
    searches.push(bench.reference(&ecoli, runs.min(FEW_RUNS))?);
    for haplotypes in arguments.haplotypes() {
        searches.extend(bench.scaling(haplotypes)?);
    }
    let summary = Summary::new(arguments, searches)?;
    output.result(&summary, || summary.text())?;
    if summary.verified {
        Ok(())
    } else {
        Err("answers differ from those of the plaintext; this is a defect of Oboro, please report it with the command".into())
    }
}

/// Searches of one kind in one collection. Times are medians of all but the first search.
#[derive(Clone, Serialize)]
struct Searches {
    bench: &'static str,
    collection: String,
    source: Source,
    question: &'static str,
    /// The rows compared with the query, padding included.
    rows: u64,
    length: usize,
    runs: u16,
    verified: bool,
    /// The first search, in which the server reads and sorts the rows.
    first_call_ms: f64,
    first_server_ms: f64,
    /// From query to answer.
    call_ms: f64,
    /// The server's time as it reports it.
    server_ms: f64,
    /// Planning, encrypting and reading.
    client_ms: f64,
    sent_bytes: u64,
    received_bytes: u64,
    /// Query and answers.
    bytes: u64,
    /// The peak resident set size of the server.
    peak_server_bytes: u64,
}

/// Where the server spends its CPU time.
#[derive(Serialize)]
struct Profiled<'s> {
    bench: &'static str,
    collection: &'s str,
    arithmetic_share: f64,
    #[serde(flatten)]
    profile: Profile,
}

/// Whether a function transforms, multiplies or adds polynomials.
fn is_arithmetic(function: &str) -> bool {
    let draws_or_packs = ["oboro_ring::sample::", "oboro_ring::pack::"];
    (function.starts_with("oboro_ring::")
        || function.starts_with("oboro_genome_server::evaluate::"))
        && !draws_or_packs
            .iter()
            .any(|module| function.starts_with(module))
}

/// Why there is no profile.
#[derive(Serialize)]
struct Unprofiled {
    bench: &'static str,
    left_out: &'static str,
    because: String,
}

struct Bench<'b> {
    arguments: &'b Arguments,
    /// The temporary directory.
    scratch: &'b Path,
    /// The servers' data directory, in `scratch`.
    data: PathBuf,
    output: Output,
}

/// A pattern for a reference.
struct Pattern {
    name: &'static str,
    source: Source,
    questions: [Known; 2],
}

/// A collection on a server of its own.
struct Served<'b> {
    bench: &'b Bench<'b>,
    collection: String,
    source: Source,
    server: Server,
    connection: Connection,
}

impl Bench<'_> {
    fn collections(&self) -> Collections {
        Collections::open(&self.data)
    }

    fn serve(&self, collection: &str, source: Source) -> Result<Served<'_>, Failure> {
        let options = SERVER_OPTIONS.map(str::to_owned);
        let program = Command::new(oboro()?);
        let threads = self.arguments.threads.count();
        let server = Server::start_by(program, &self.data, threads, &options)?;
        Ok(Served {
            bench: self,
            collection: collection.to_owned(),
            source,
            connection: server.connect()?,
            server,
        })
    }

    /// At all its sites, with all kinds of search.
    fn panel(&self, export: Option<Export>) -> Result<Vec<Searches>, Failure> {
        const NAME: &str = "panel";
        let collections = self.collections();
        let source = load_panel(&collections, NAME, self.arguments.omni.as_deref(), &PANEL)?;
        let panel = collections.panel(NAME)?;
        let sites = 0..panel.sites();
        let row = panel.haplotypes() / 2;
        let served = self.serve(NAME, source)?;
        let questions = |asking| {
            [Change::Nothing, Change::EveryThird]
                .map(|change| {
                    Known::in_panel(&collections, NAME, sites.clone(), row, change, asking)
                })
                .into_iter()
                .collect::<Result<Vec<_>, _>>()
        };
        let exact = questions(Asking::EXACT)?;
        if let Some(files) = export {
            files.write(
                &bytes_of(&panel.window(sites.clone())?),
                &exact[0].symbols().collect::<Vec<_>>(),
            )?;
        }
        let runs = self.arguments.runs();
        let searches =
            ASKINGS.map(|(name, asking)| served.measure(name, &questions(asking)?, runs));
        let searches = searches.into_iter().collect::<Result<_, _>>()?;
        served.profile(&exact[0])?;
        served.stop()?;
        Ok(searches)
    }

    /// Builds the queries for a pattern from the middle of a reference.
    fn load(
        &self,
        name: &'static str,
        file: Option<&Path>,
        bases: usize,
    ) -> Result<Pattern, Failure> {
        let collections = self.collections();
        let source = load_reference(&collections, name, file, bases, self.scratch)?;
        let there = collections.reference(name)?.bases().len();
        let spare = there.checked_sub(PATTERN).ok_or_else(|| {
            format!("{name} has {there} bases; give a file of at least {PATTERN}")
        })?;
        let pattern = spare / 2..spare / 2 + PATTERN;
        let known = |change| {
            Known::in_reference(&collections, name, pattern.clone(), change, Asking::EXACT)
        };
        Ok(Pattern {
            name,
            source,
            questions: [known(Change::Nothing)?, known(Change::EveryThird)?],
        })
    }

    /// For a pattern, on both strands.
    fn reference(&self, pattern: &Pattern, runs: u16) -> Result<Searches, Failure> {
        let served = self.serve(pattern.name, pattern.source)?;
        let searches = served.measure("exact", &pattern.questions, runs)?;
        served.stop()?;
        Ok(searches)
    }

    /// Synthetic haplotypes, by the number of sites.
    fn scaling(&self, haplotypes: u32) -> Result<Vec<Searches>, Failure> {
        let collections = self.collections();
        let longest = SCALING_LENGTHS.into_iter().max().unwrap_or(1);
        let shape = SyntheticPanel {
            haplotypes,
            sites: longest as u32,
            seed: haplotypes.into(),
        };
        let name = format!("scaling-{haplotypes}");
        let source = load_panel(&collections, &name, None, &shape)?;
        let searches = SCALING_LENGTHS.map(|length| {
            let known = |change| {
                let row = haplotypes as usize / 2;
                Known::in_panel(&collections, &name, 0..length, row, change, Asking::EXACT)
            };
            let questions = [known(Change::Nothing)?, known(Change::EveryThird)?];
            // The peak memory of this length alone.
            let served = self.serve(&name, source)?;
            let runs = self.arguments.runs().min(FEW_RUNS);
            let searches = served.measure("exact", &questions, runs)?;
            served.stop()?;
            Ok(searches)
        });
        searches.into_iter().collect()
    }
}

impl Served<'_> {
    /// Runs the queries in turn, once to warm up and `runs` more times.
    fn measure(
        &self,
        question: &'static str,
        questions: &[Known],
        runs: u16,
    ) -> Result<Searches, Failure> {
        let in_turn = questions.iter().cycle();
        let asked = in_turn
            .take(usize::from(runs) + 1)
            .map(|question| question.ask(&self.connection))
            .collect::<Result<Vec<_>, _>>()?;
        let (first, _) = asked[0];
        let milliseconds = |time: fn(&oboro_client::genome::Outcome) -> Duration| {
            let times = asked[1..].iter().map(|(outcome, _)| time(outcome));
            median(times).as_secs_f64() * 1e3
        };
        let searches = Searches {
            bench: "genome search",
            collection: self.collection.clone(),
            source: self.source,
            question,
            rows: first.rows,
            length: questions[0].length(),
            runs,
            verified: asked.iter().all(|&(_, verified)| verified),
            first_call_ms: first.elapsed.as_secs_f64() * 1e3,
            first_server_ms: first.server.as_secs_f64() * 1e3,
            call_ms: milliseconds(|outcome| outcome.elapsed),
            server_ms: milliseconds(|outcome| outcome.server),
            client_ms: milliseconds(|outcome| outcome.client),
            sent_bytes: first.sent_bytes,
            received_bytes: first.received_bytes,
            bytes: first.sent_bytes + first.received_bytes,
            peak_server_bytes: self.server.peak_bytes()?,
        };
        self.bench.output.result(&searches, || searches.text())?;
        Ok(searches)
    }

    /// Continues searching for the profiler.
    fn profile(&self, question: &Known) -> Outcome {
        let process = self.server.id().as_raw_nonzero().get() as u32;
        let asked = || question.ask(&self.connection).map(|_| ());
        let output = self.bench.output;
        match Profile::of(process, asked) {
            Ok(profile) => {
                let profiled = Profiled {
                    bench: "genome profile",
                    collection: &self.collection,
                    arithmetic_share: profile.share_of(is_arithmetic),
                    profile,
                };
                output.result(&profiled, || profiled.profile.text(&self.collection))
            }
            Err(because) => {
                let unprofiled = Unprofiled {
                    bench: "genome left out",
                    left_out: "profile",
                    because,
                };
                output.result(&unprofiled, || {
                    format!("left out: profile: {}\n", unprofiled.because)
                })
            }
        }
    }

    fn stop(self) -> Outcome {
        drop(self.connection);
        self.server.stop()?;
        Ok(())
    }
}

impl Searches {
    fn text(&self) -> String {
        let time = |ms: f64| seconds(Duration::from_secs_f64(ms / 1e3));
        format!(
            "{:>15}  {:>8}  {:>7} rows × {:<3}  {:>9} server, {:>9} client, {:>9} in all; {:>10}; {} resident\n",
            self.collection,
            self.question,
            self.rows,
            self.length,
            time(self.server_ms),
            time(self.client_ms),
            time(self.call_ms),
            bytes(self.bytes),
            bytes(self.peak_server_bytes),
        )
    }
}

/// The final report: exact searches of the three collections, then all measurements.
#[derive(Serialize)]
struct Summary {
    bench: &'static str,
    quick: bool,
    threads: usize,
    cpu: String,
    /// Whether every answer equals the plaintext's.
    verified: bool,
    panel_source: Source,
    panel_server_ms: f64,
    panel_client_ms: f64,
    panel_call_ms: f64,
    panel_bytes: u64,
    lambda_source: Source,
    lambda_server_ms: f64,
    lambda_bytes: u64,
    ecoli_source: Source,
    ecoli_server_seconds: f64,
    ecoli_bytes: u64,
    searches: Vec<Searches>,
}

impl Summary {
    fn new(arguments: &Arguments, searches: Vec<Searches>) -> Result<Self, Failure> {
        let exact = |collection: &str| {
            let found = searches
                .iter()
                .find(|it| it.collection == collection && it.question == "exact");
            found
                .cloned()
                .ok_or_else(|| format!("{collection} was not measured"))
        };
        let (panel, lambda, ecoli) = (exact("panel")?, exact("lambda")?, exact("ecoli")?);
        Ok(Self {
            bench: "genome",
            quick: arguments.quick,
            threads: arguments.threads.count().get(),
            cpu: machine::processor(),
            verified: searches.iter().all(|it| it.verified),
            panel_source: panel.source,
            panel_server_ms: panel.server_ms,
            panel_client_ms: panel.client_ms,
            panel_call_ms: panel.call_ms,
            panel_bytes: panel.bytes,
            lambda_source: lambda.source,
            lambda_server_ms: lambda.server_ms,
            lambda_bytes: lambda.bytes,
            ecoli_source: ecoli.source,
            ecoli_server_seconds: ecoli.server_ms / 1e3,
            ecoli_bytes: ecoli.bytes,
            searches,
        })
    }

    fn text(&self) -> String {
        let verdict = if self.verified {
            "all answers equal the plaintext's"
        } else {
            "answers DIFFER from the plaintext's"
        };
        let threads = self.threads;
        format!("\n{verdict}; {threads} threads on {}\n", self.cpu)
    }
}

/// The files that give other programs the panel and the query.
struct Export {
    haplotypes: NewFile,
    query: NewFile,
}

impl Export {
    /// The directory must exist and have none of the files yet.
    fn prepare(directory: &Path) -> Result<Self, Failure> {
        Ok(Self {
            haplotypes: NewFile::prepare(&directory.join("haplotypes.u8"))?,
            query: NewFile::prepare(&directory.join("query.u8"))?,
        })
    }

    fn write(&self, haplotypes: &[u8], query: &[u8]) -> Outcome {
        self.haplotypes.write(haplotypes)?;
        self.query.write(query)
    }
}
