//! Transactions, and the query for all their itemsets of one length: shared by several benches.

use super::itemsets::Combinations;
use crate::ThreadArguments;
use crate::output::Failure;
use oboro_client::{Connection, LevelTrace, Mining, Route};
use oboro_dataset::{Dataset, Shuffled, Target};
use oboro_input::{QuestParameters, Transactions};
use oboro_mining::{Bitmap, Itemset};
use oboro_ring::moment::MAX_LENGTH;
use oboro_rlwe::{LONGEST_VERIFIED, MasterKey};
use std::num::NonZeroUsize;
use std::ops::ControlFlow;
use std::path::Path;
use std::thread;
use std::time::Duration;
use tempfile::TempDir;

/// The most itemsets to count: plaintext counting verifies them within a minute or two.
const MOST_ITEMSETS: usize = 1_000_000;
/// The name of the dataset on a server.
pub const NAME: &str = "bench";

/// The size of the data, with defaults for items and transactions.
#[derive(clap::Args)]
pub struct Shape<const ITEMS: u32, const TRANSACTIONS: u64> {
    /// The number of items.
    // Not `default_value_t`: its text is created once for all shapes.
    #[arg(long, default_value = ITEMS.to_string(), value_parser = clap::value_parser!(u32).range(1..=100_000))]
    items: u32,
    /// The number of transactions.
    #[arg(long, default_value = TRANSACTIONS.to_string())]
    transactions: u64,
    /// The length, or the greatest length, of the itemsets to count.
    #[arg(long, value_name = "N", default_value_t = 2)]
    max_len: usize,
    /// The seed of the generator.
    #[arg(long, default_value_t = QuestParameters::default().seed)]
    seed: u64,
    #[command(flatten)]
    threads: ThreadArguments,
}

impl<const ITEMS: u32, const TRANSACTIONS: u64> Shape<ITEMS, TRANSACTIONS> {
    pub fn workload(&self) -> Workload {
        Workload {
            items: self.items,
            transactions: self.transactions,
            max_len: self.max_len,
            seed: self.seed,
            threads: self.threads.count(),
        }
    }
}

/// The data and itemsets, and the threads of each side.
pub struct Workload {
    pub items: u32,
    pub transactions: u64,
    /// The length of the itemsets.
    pub max_len: usize,
    pub seed: u64,
    pub threads: NonZeroUsize,
}

impl Workload {
    /// Quest transactions as dense as in the papers' setting: a third of the items per transaction, at most the papers'
    /// ten.
    pub fn generate(&self) -> Result<Transactions, Failure> {
        let papers = QuestParameters::default();
        let share = (f64::from(self.items) / f64::from(papers.items)).min(1.0);
        let quest = QuestParameters {
            transactions: self.transactions,
            items: self.items,
            transaction_length: (papers.transaction_length * share).max(1.0),
            pattern_length: (papers.pattern_length * share).max(1.0),
            seed: self.seed,
            ..papers
        };
        Ok(quest.generate()?)
    }

    /// All itemsets of the requested length, in lexicographic order.
    pub fn itemsets(&self) -> Result<Vec<Itemset>, Failure> {
        self.itemsets_of_length(self.max_len)
    }

    /// All itemsets of another length, in lexicographic order.
    pub fn itemsets_of_length(&self, length: usize) -> Result<Vec<Itemset>, Failure> {
        let longest = MAX_LENGTH.min(self.items as usize);
        if !(1..=longest).contains(&length) {
            return Err(format!(
                "--max-len {length} is not possible with {} items; choose 1 to {longest}",
                self.items
            )
            .into());
        }
        let itemsets: Vec<_> = Combinations::new(self.items, length)
            .take(MOST_ITEMSETS + 1)
            .collect();
        if itemsets.len() > MOST_ITEMSETS {
            return Err(format!(
                "there are more than {MOST_ITEMSETS} itemsets of length {length}; choose fewer --items or a smaller --max-len"
            )
            .into());
        }
        Ok(itemsets)
    }

    /// From transactions in memory to a finished bundle on disk, with a new key.
    pub fn encrypt(&self, transactions: &Transactions, bundle: &Path) -> Result<Dataset, Failure> {
        self.encrypt_with(&new_key()?, transactions, bundle)
    }

    /// The same with this key.
    pub fn encrypt_with(
        &self,
        key: &MasterKey,
        transactions: &Transactions,
        bundle: &Path,
    ) -> Result<Dataset, Failure> {
        let dataset = Dataset::create(
            Shuffled::of(transactions.clone()),
            key,
            Target::New(bundle),
            self.max_len,
            self.threads,
            &|_, _| ControlFlow::Continue(()),
        );
        Ok(dataset?)
    }
}

/// A new owner's key.
pub fn new_key() -> Result<MasterKey, Failure> {
    let failed = |error| format!("the operating system gave no randomness ({error}); try again");
    Ok(MasterKey::generate().map_err(failed)?)
}

/// A directory for the files of a bench, deleted afterwards.
pub fn temporary_directory() -> Result<TempDir, Failure> {
    let made = tempfile::Builder::new().prefix("oboro-bench-").tempdir();
    made.map_err(|error| {
        format!("cannot make a temporary directory: {error}; set TMPDIR to one with free space")
            .into()
    })
}

/// The result and cost of one count of all itemsets; it takes several requests if there are very many.
pub struct Run {
    pub supports: Vec<u64>,
    questions: Vec<LevelTrace>,
}

impl Run {
    pub fn measure(
        connection: &Connection,
        dataset: &Dataset,
        itemsets: &[Itemset],
        threads: NonZeroUsize,
    ) -> Result<Self, Failure> {
        // Both kinds of answers about one dataset: that of a bench is no secret.
        let mining = Mining::new(dataset, NAME, threads).trusting_server(true);
        let (supports, questions) = match itemsets.first() {
            Some(itemset) if (2..=LONGEST_VERIFIED).contains(&itemset.len()) => {
                let (supports, trace) = mining.count(connection, itemsets)?;
                (supports.into_inner(), vec![trace])
            }
            _ => mining.count_trusting_server(connection, itemsets)?,
        };
        Ok(Self {
            supports,
            questions,
        })
    }

    pub fn elapsed(&self) -> Duration {
        self.questions.iter().map(|trace| trace.elapsed).sum()
    }

    pub fn server(&self) -> Duration {
        self.questions.iter().map(|trace| trace.server).sum()
    }

    pub fn combining(&self) -> Duration {
        self.questions.iter().map(|trace| trace.combining).sum()
    }

    pub fn received_bytes(&self) -> u64 {
        self.questions
            .iter()
            .map(|trace| trace.received_bytes)
            .sum()
    }

    /// How the supports were obtained.
    pub fn route(&self) -> Route {
        self.questions[0].route
    }

    pub fn limbs(&self) -> u64 {
        self.questions
            .iter()
            .map(|trace| trace.limbs as u64)
            .max()
            .unwrap_or(0)
    }
}

/// Supports by AND and popcount, itemsets divided among threads.
pub fn plaintext_supports(
    bitmap: &Bitmap,
    itemsets: &[Itemset],
    threads: NonZeroUsize,
) -> Vec<u64> {
    let share = itemsets.len().div_ceil(threads.get());
    let count = |itemset: &Itemset| bitmap.support(itemset).expect("every item has a column");
    thread::scope(|scope| {
        let workers: Vec<_> = itemsets
            .chunks(share)
            .map(|part| scope.spawn(move || part.iter().map(count).collect::<Vec<u64>>()))
            .collect();
        let part = |worker: thread::ScopedJoinHandle<'_, Vec<u64>>| {
            worker.join().expect("counting does not panic")
        };
        workers.into_iter().flat_map(part).collect()
    })
}
