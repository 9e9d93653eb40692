//! `oboro-lab support`

use super::itemsets::trie_nodes;
use super::server::Server;
use super::workload::{NAME, Run, Shape, plaintext_supports, temporary_directory};
use super::{machine, median, timed};
use crate::Outcome;
use crate::output::{Failure, NewFile, Output, bytes, seconds};
use bytesize::ByteSize;
use oboro_client::{Route, upload};
use oboro_dataset::Dataset;
use oboro_mining::{Bitmap, Itemset};
use serde::Serialize;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Count all itemsets of one length in synthetic data, encrypted and in plaintext.
///
/// Quest transactions are generated in memory, encrypted into a bundle and uploaded to a server process of this command
/// over loopback. Then all itemsets of the given length are counted: once to warm up, which loads the panels into the
/// server's memory, and --runs more times, of which medians are reported. Every support is compared with plaintext. The
/// defaults are the shape of the papers.
///
/// Files are in the system's temporary directory, which TMPDIR changes: a little more than twice the encrypted data,
/// once for the owner and once for the server.
///
/// With --json every run is one line and the summary the last; lab/FIELDS.md explains the fields.
#[derive(clap::Args)]
pub struct Arguments {
    #[command(flatten)]
    shape: Shape<18, 1_943_424>,
    /// Measured runs after the warm-up.
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u16).range(1..))]
    runs: u16,
    /// Write the data to this directory for other programs: columns.u64, for each item its transactions as bits of
    /// little-endian 64-bit words, least significant first, and supports.u64, the decrypted supports of the itemsets in
    /// lexicographic order.
    #[arg(long, value_name = "DIR")]
    export: Option<PathBuf>,
    /// The server's memory limit, passed as its own --memory.
    #[arg(long, value_name = "SIZE")]
    memory: Option<ByteSize>,
}

pub fn run(arguments: &Arguments, output: Output) -> Outcome {
    let workload = arguments.shape.workload();
    let itemsets = workload.itemsets()?;
    let export = arguments.export.as_deref().map(Export::prepare);
    let export = export.transpose()?;
    let directory = temporary_directory()?;
    let (transactions, generating) = timed(|| workload.generate());
    let transactions = transactions?;
    let bundle = directory.path().join("bench.oboro");
    let (dataset, encrypting) = timed(|| workload.encrypt(&transactions, &bundle));
    let dataset = dataset?;
    let store = directory.path().join("store");
    let served = Served::measure(arguments, &dataset, &itemsets, &store, output)?;

    let bitmap = Bitmap::new(&transactions);
    let native: Vec<_> = (0..arguments.runs)
        .map(|_| timed(|| plaintext_supports(&bitmap, &itemsets, workload.threads)))
        .collect();
    let agrees = |run: &Run| native.iter().all(|(truth, _)| run.supports == *truth);
    let times = Times {
        generating,
        encrypting,
        counting_bits: median(native.iter().map(|&(_, took)| took)),
    };
    let summary = Summary {
        verified: served.runs.iter().all(agrees),
        ..Summary::new(arguments, &itemsets, &dataset, &served, times)?
    };
    if let Some(files) = export {
        files.write(&bitmap, &served.runs[0].supports)?;
    }
    output.result(&summary, || summary.text())?;
    if summary.verified {
        Ok(())
    } else {
        Err("supports differ from those of the plaintext; this is a defect of Oboro, please report it with the command".into())
    }
}

/// The final report. Seconds of runs are medians.
#[derive(Serialize)]
struct Summary {
    bench: &'static str,
    items: u32,
    transactions: u64,
    max_len: usize,
    itemsets: usize,
    seed: u64,
    runs: u16,
    threads: usize,
    cpu: String,
    degree: usize,
    /// Limbs that the query reads.
    limbs: u64,
    plaintext_modulus: u32,
    /// Whether all supports of all runs equal the plaintext's.
    verified: bool,
    generate_seconds: f64,
    /// From transactions in memory to the finished bundle on disk.
    encrypt_seconds: f64,
    upload_seconds: f64,
    /// The warm-up, which reads and checks the panels.
    first_query_seconds: f64,
    /// From query to supports.
    query_seconds: f64,
    /// The server's time as it reports it.
    server_seconds: f64,
    /// The owner's computation on the answer: see [`oboro_client::LevelTrace::combining`].
    client_decrypt_seconds: f64,
    /// From the signal to the end of the process.
    server_exit_seconds: f64,
    /// AND and popcount on packed bits, for the same itemsets on the same number of threads.
    native_bitmap_seconds: f64,
    /// Moments received in one run.
    response_bytes: u64,
    /// How they were verified: "scalars", or "trusted" if they were not.
    verified_by: &'static str,
    /// What the owner stores in addition to ciphertext: its record and sealed ranges.
    owner_bytes: u64,
    /// One bit per item and transaction.
    bit_matrix_bytes: u64,
    /// All files of the server.
    stored_bytes: u64,
    /// The limbs that the query reads, as 32-bit words in memory.
    expanded_bytes: u64,
    /// The peak resident set size of the server.
    peak_server_bytes: u64,
    /// One for each slot, limb and node of [`trie_nodes`]; for pairs by sums one for each slot, limb and pair.
    multiply_adds: u64,
    /// Multiply-adds over server_seconds.
    gmacs_per_second: f64,
}

/// Measurements outside the server.
struct Times {
    generating: Duration,
    encrypting: Duration,
    counting_bits: Duration,
}

impl Summary {
    /// Everything except the verdict.
    fn new(
        arguments: &Arguments,
        itemsets: &[Itemset],
        dataset: &Dataset,
        served: &Served,
        times: Times,
    ) -> Result<Self, Failure> {
        let workload = arguments.shape.workload();
        let (items, transactions) = (workload.items, workload.transactions);
        let manifest = dataset.manifest();
        let degree = manifest.parameters.degree();
        let (first, measured) = (&served.runs[0], &served.runs[1..]);
        let limbs = first.limbs();
        let slots = manifest.block_count() * degree as u64;
        let nodes = match first.route() {
            Route::Scalars => itemsets.len() as u64,
            _ => trie_nodes(itemsets, items)?,
        };
        let multiply_adds = nodes * slots * limbs;
        let of_runs = |time: fn(&Run) -> Duration| median(measured.iter().map(time)).as_secs_f64();
        let server_seconds = of_runs(Run::server);
        Ok(Self {
            bench: "support",
            items,
            transactions,
            max_len: workload.max_len,
            itemsets: itemsets.len(),
            seed: workload.seed,
            runs: arguments.runs,
            threads: workload.threads.get(),
            cpu: machine::processor(),
            degree,
            limbs,
            plaintext_modulus: manifest.parameters.plaintext_modulus(),
            verified: false,
            generate_seconds: times.generating.as_secs_f64(),
            encrypt_seconds: times.encrypting.as_secs_f64(),
            upload_seconds: served.uploading.as_secs_f64(),
            first_query_seconds: first.elapsed().as_secs_f64(),
            query_seconds: of_runs(Run::elapsed),
            server_seconds,
            client_decrypt_seconds: of_runs(Run::combining),
            server_exit_seconds: served.stopping.as_secs_f64(),
            native_bitmap_seconds: times.counting_bits.as_secs_f64(),
            response_bytes: first.received_bytes(),
            verified_by: first.route().name(),
            owner_bytes: owner_bytes(dataset)?,
            bit_matrix_bytes: (transactions * u64::from(items)).div_ceil(8),
            stored_bytes: served.stored_bytes,
            expanded_bytes: u64::from(items) * slots * limbs * 4,
            peak_server_bytes: served.peak_bytes,
            multiply_adds,
            gmacs_per_second: multiply_adds as f64 / server_seconds / 1e9,
        })
    }

    fn text(&self) -> String {
        let time = |s: f64| seconds(Duration::from_secs_f64(s));
        let verdict = if self.verified {
            "all supports equal the plaintext's"
        } else {
            "supports DIFFER from the plaintext's"
        };
        let ratio = |a: u64, b: u64| a as f64 / b as f64;
        format!(
            "\n{} itemsets of length {}, {} transactions × {} items, {} threads on {}\n\
             {verdict}\n\n\
             encryption      {:>10}   to a bundle on disk\n\
             upload          {:>10}\n\
             query           {:>10}   median of {}, the first took {}\n\
             \x20 server        {:>10}   {:.1} thousand million multiply-adds a second\n\
             \x20 owner         {:>10}\n\
             plaintext bits  {:>10}   AND and popcount\n\n\
             stored          {:>10}   {:.1} × the bits\n\
             server's memory {:>10}   {:.2} × the ciphertext of {} limbs, degree {}\n\
             response        {:>10}   by {}\n\
             owner's files   {:>10}\n",
            self.itemsets,
            self.max_len,
            self.transactions,
            self.items,
            self.threads,
            self.cpu,
            time(self.encrypt_seconds),
            time(self.upload_seconds),
            time(self.query_seconds),
            self.runs,
            time(self.first_query_seconds),
            time(self.server_seconds),
            self.gmacs_per_second,
            time(self.client_decrypt_seconds),
            time(self.native_bitmap_seconds),
            bytes(self.stored_bytes),
            ratio(self.stored_bytes, self.bit_matrix_bytes),
            bytes(self.peak_server_bytes),
            ratio(self.peak_server_bytes, self.expanded_bytes),
            self.limbs,
            self.degree,
            bytes(self.response_bytes),
            self.verified_by,
            bytes(self.owner_bytes),
        )
    }
}

/// The bytes of a bundle's head and ranges.
fn owner_bytes(dataset: &Dataset) -> Result<u64, Failure> {
    let directory = dataset.bundle().directory();
    let bytes = machine::bytes_below(&directory.join("ranges"))
        .and_then(|ranges| Ok(ranges + std::fs::metadata(directory.join("head"))?.len()));
    Ok(bytes.map_err(|error| format!("cannot tell the size of the bundle: {error}; try again"))?)
}

/// A server's measurements from start to exit.
struct Served {
    uploading: Duration,
    /// That of the warm-up first.
    runs: Vec<Run>,
    stored_bytes: u64,
    peak_bytes: u64,
    stopping: Duration,
}

impl Served {
    /// Starts a server over `store`, uploads, queries all itemsets repeatedly, and stops it.
    fn measure(
        arguments: &Arguments,
        dataset: &Dataset,
        itemsets: &[Itemset],
        store: &Path,
        output: Output,
    ) -> Result<Self, Failure> {
        let threads = arguments.shape.workload().threads;
        let server = Server::start(store, threads, arguments.memory)?;
        let connection = server.connect()?;
        let (uploaded, uploading) =
            timed(|| upload(&connection, dataset.bundle(), NAME, &|_, _| {}));
        uploaded?;
        let runs = (0..=arguments.runs)
            .map(|number| {
                let run = Run::measure(&connection, dataset, itemsets, threads)?;
                output.result(&run_json(&run, number), || run_text(&run, number))?;
                Ok(run)
            })
            .collect::<Result<_, Failure>>()?;
        drop(connection);
        let stored_bytes = machine::bytes_below(store)
            .map_err(|error| format!("cannot tell the size of the store: {error}; try again"))?;
        Ok(Self {
            uploading,
            runs,
            stored_bytes,
            peak_bytes: server.peak_bytes()?,
            stopping: server.stop()?,
        })
    }
}

fn run_json(run: &Run, number: u16) -> Value {
    json!({
        "run": number,
        "query_seconds": run.elapsed().as_secs_f64(),
        "server_seconds": run.server().as_secs_f64(),
        "client_decrypt_seconds": run.combining().as_secs_f64(),
        "response_bytes": run.received_bytes(),
    })
}

fn run_text(run: &Run, number: u16) -> String {
    let name = match number {
        0 => "warm-up".to_owned(),
        number => format!("run {number}"),
    };
    format!(
        "{name:>8}  {:>9} in all, {:>9} of it at the server, {:>9} of combining, {} received\n",
        seconds(run.elapsed()),
        seconds(run.server()),
        seconds(run.combining()),
        bytes(run.received_bytes())
    )
}

/// The files that give other programs the data and the result.
struct Export {
    columns: NewFile,
    supports: NewFile,
}

impl Export {
    /// The directory must exist and have none of the files yet.
    fn prepare(directory: &Path) -> Result<Self, Failure> {
        Ok(Self {
            columns: NewFile::prepare(&directory.join("columns.u64"))?,
            supports: NewFile::prepare(&directory.join("supports.u64"))?,
        })
    }

    fn write(&self, bitmap: &Bitmap, supports: &[u64]) -> Outcome {
        let columns: Vec<u64> = (0..)
            .map_while(|item| bitmap.column(item))
            .flatten()
            .copied()
            .collect();
        self.columns.write(&little_endian(&columns))?;
        self.supports.write(&little_endian(supports))
    }
}

fn little_endian(words: &[u64]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}
