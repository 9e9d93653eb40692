//! Mining: all itemsets, length by length, as in Apriori when all of them are frequent. The data are made on the spot or
//! taken from a directory, where another run has made them.

use super::interrupt::Interrupt;
use super::session::{Amount, Asked, Workload};
use super::{Mode, Setting};
use crate::Outcome;
use crate::output::Failure;
use crate::server::Server;
use crate::workload::{self, NAME, Run, new_key, plaintext_supports};
use oboro_client::{Connection, upload};
use oboro_dataset::Dataset;
use oboro_input::Transactions;
use oboro_mining::{Bitmap, Itemset};
use oboro_rlwe::MasterKey;
use serde::{Deserialize, Serialize};
use std::fs;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};

/// Residues have 28 bits on disk.
const RESIDUE_BITS: u64 = 28;

/// A dataset, and the itemsets to count.
pub struct Mining {
    dataset: Dataset,
    threads: NonZeroUsize,
    levels: Vec<Level>,
}

/// All itemsets of one length, with their supports from plaintext.
struct Level {
    itemsets: Vec<Itemset>,
    supports: Vec<u64>,
}

/// What is in a directory of prepared data besides ciphertext; written last.
#[derive(PartialEq, Serialize, Deserialize)]
struct Prepared {
    items: u32,
    transactions: u64,
    seed: u64,
    /// By length.
    supports: Vec<Vec<u64>>,
}

fn bundle_in(directory: &Path) -> PathBuf {
    directory.join("bench.oboro")
}

fn key_in(directory: &Path) -> PathBuf {
    directory.join("key")
}

fn supports_in(directory: &Path) -> PathBuf {
    directory.join("supports.json")
}

impl Level {
    /// All lengths up to the workload's.
    fn all(
        workload: &workload::Workload,
        transactions: &Transactions,
    ) -> Result<Vec<Self>, Failure> {
        let bitmap = Bitmap::new(transactions);
        let level = |max_len| {
            let itemsets = workload.itemsets_of_length(max_len)?;
            let supports = plaintext_supports(&bitmap, &itemsets, workload.threads);
            Ok(Self { itemsets, supports })
        };
        (1..=workload.max_len).map(level).collect()
    }
}

impl Mining {
    /// Makes and encrypts transactions, with files in this directory.
    pub fn new(workload: &workload::Workload, directory: &Path) -> Result<Self, Failure> {
        Self::with_key(workload, &new_key()?, directory)
    }

    fn with_key(
        workload: &workload::Workload,
        key: &MasterKey,
        directory: &Path,
    ) -> Result<Self, Failure> {
        // Check the number of itemsets of that length before the work.
        workload.itemsets()?;
        let transactions = workload.generate()?;
        let levels = Level::all(workload, &transactions)?;
        Ok(Self {
            dataset: workload.encrypt_with(key, &transactions, &bundle_in(directory))?,
            threads: workload.threads,
            levels,
        })
    }

    /// Makes a directory of data for [`Self::prepared`], with a server's data directory `store` in it.
    pub fn prepare(
        workload: &workload::Workload,
        directory: &Path,
        store: &Path,
        interrupt: &Interrupt,
    ) -> Outcome {
        let failed = |error| {
            let directory = directory.display();
            format!("cannot prepare data in {directory}: {error}; give a new directory with space")
        };
        fs::create_dir(directory).map_err(failed)?;
        let key = new_key()?;
        key.save(&key_in(directory), None)?;
        let mining = Self::with_key(workload, &key, directory)?;
        mining.publish(store, interrupt)?;
        let prepared = Prepared {
            items: workload.items,
            transactions: workload.transactions,
            seed: workload.seed,
            supports: mining
                .levels
                .into_iter()
                .map(|level| level.supports)
                .collect(),
        };
        fs::write(supports_in(directory), serde_json::to_vec(&prepared)?).map_err(failed)?;
        Ok(())
    }

    /// Takes the data of such a directory, made for the same workload.
    pub fn prepared(workload: &workload::Workload, directory: &Path) -> Result<Self, Failure> {
        let refused = |because: String| {
            let directory = directory.display();
            format!("{directory} has no data of this shape ({because}); make them with --prepare")
        };
        let text = fs::read(supports_in(directory)).map_err(|error| refused(error.to_string()))?;
        let prepared: Prepared =
            serde_json::from_slice(&text).map_err(|error| refused(error.to_string()))?;
        let asked = (workload.items, workload.transactions, workload.seed);
        if (prepared.items, prepared.transactions, prepared.seed) != asked
            || prepared.supports.len() < workload.max_len
        {
            let because = format!(
                "it has {} transactions × {} items, itemsets up to length {}",
                prepared.transactions,
                prepared.items,
                prepared.supports.len()
            );
            return Err(refused(because).into());
        }
        let key = MasterKey::load(&key_in(directory), || None)?;
        let level = |(length, supports)| {
            let itemsets = workload.itemsets_of_length(length)?;
            Ok(Level { itemsets, supports })
        };
        let supports = prepared.supports.into_iter().take(workload.max_len);
        Ok(Self {
            dataset: Dataset::open(&bundle_in(directory), &key)?,
            threads: workload.threads,
            levels: (1..)
                .zip(supports)
                .map(level)
                .collect::<Result<_, Failure>>()?,
        })
    }

    /// The bytes of all columns.
    fn packed_bytes(&self, limbs: u64) -> u64 {
        let manifest = self.dataset.manifest();
        let slots = manifest.block_count() * manifest.parameters.degree() as u64;
        manifest.columns as u64 * slots * limbs * RESIDUE_BITS / 8
    }
}

impl Workload for Mining {
    fn publish(&self, store: &Path, interrupt: &Interrupt) -> Outcome {
        let server = Server::start(store, self.threads, None)?;
        let guard = interrupt.guard(server.id());
        let connection = server.connect()?;
        upload(&connection, self.dataset.bundle(), NAME, &|_, _| {})?;
        drop((connection, guard));
        server.stop()?;
        Ok(())
    }

    fn extension(&self) -> &'static str {
        "seg"
    }

    fn server_options(&self, setting: &Setting) -> Vec<String> {
        match (setting.mode, setting.limit_bytes) {
            (Mode::Streaming, Some(limit)) => vec!["--memory".to_owned(), format!("{limit}B")],
            _ => Vec::new(),
        }
    }

    fn questions(&self) -> usize {
        self.levels.len()
    }

    fn ask(&self, number: usize, connection: &Connection) -> Result<Asked, Failure> {
        let level = &self.levels[number];
        let run = Run::measure(connection, &self.dataset, &level.itemsets, self.threads)?;
        Ok(Asked {
            length: level.itemsets[0].len(),
            amount: Amount::Itemsets(level.itemsets.len()),
            elapsed: run.elapsed(),
            server: run.server(),
            packed_bytes: self.packed_bytes(run.limbs()),
            verified: run.supports == level.supports,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn data_of_another_shape_are_not_taken() {
        let workload = |items| workload::Workload {
            items,
            transactions: 10,
            max_len: 2,
            seed: 1,
            threads: NonZeroUsize::MIN,
        };
        let directory = tempfile::tempdir().unwrap();
        let refusal = |items| match Mining::prepared(&workload(items), directory.path()) {
            Ok(_) => panic!("there is no ciphertext"),
            Err(failure) => failure.to_string(),
        };
        assert!(refusal(3).contains("--prepare"), "{}", refusal(3));
        let prepared = Prepared {
            items: 4,
            transactions: 10,
            seed: 1,
            supports: vec![vec![1; 4], vec![1; 6]],
        };
        let text = serde_json::to_vec(&prepared).unwrap();
        fs::write(supports_in(directory.path()), text).unwrap();
        assert!(refusal(3).contains("4 items"), "{}", refusal(3));
        assert!(!refusal(4).contains("4 items"), "{}", refusal(4));
    }
}
