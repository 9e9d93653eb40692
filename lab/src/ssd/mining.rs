//! Mining: all itemsets, length by length, as in Apriori when all of them are frequent.

use super::interrupt::Interrupt;
use super::session::{Amount, Asked, Workload};
use super::{Mode, Setting};
use crate::Outcome;
use crate::output::Failure;
use crate::server::Server;
use crate::workload::{self, NAME, Run, plaintext_supports};
use oboro_client::{Connection, upload};
use oboro_mining::{Bitmap, Dataset, Itemset, Transactions};
use std::num::NonZeroUsize;
use std::path::Path;

/// Residues have 28 bits on disk.
const RESIDUE_BITS: u64 = 28;

/// A dataset, and the itemsets to count.
pub struct Mining {
    pub dataset: Dataset,
    pub threads: NonZeroUsize,
    pub levels: Vec<Level>,
}

/// All itemsets of one length, with their supports from plaintext.
pub struct Level {
    itemsets: Vec<Itemset>,
    supports: Vec<u64>,
}

impl Level {
    /// All lengths up to the workload's.
    pub fn all(
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
