//! Searching a panel at random sites, with patterns of several lengths.

use super::interrupt::Interrupt;
use super::session::{Amount, Asked, Workload};
use super::{Mode, Setting};
use crate::Outcome;
use crate::genome::known::{Asking, Change, Known};
use crate::output::Failure;
use oboro_client::Connection;
use oboro_genome_server::{Collections, Existing, SyntheticPanel, Window, generate_panel};
use rand::rngs::ChaCha20Rng;
use rand::{RngExt, SeedableRng};
use serde::Serialize;
use std::path::Path;
use std::time::Duration;

const NAME: &str = "bench";
/// The pattern lengths.
const LENGTHS: [usize; 3] = [16, 64, 256];
/// An upper bound on the query and the answers of a search, in addition to its window.
const SEARCH_BYTES: u64 = 16 << 20;
/// The fraction of its memory that a streaming server uses for cached windows: searches take as much again, and the
/// rest is for the page cache and allocator fragmentation.
const CACHE_PART: u64 = 6;

/// A panel, and how it is searched.
#[derive(Clone, Copy, Serialize)]
pub struct HaplotypePanel {
    pub haplotypes: u32,
    pub sites: u32,
    /// The number of patterns of each length.
    pub positions: u16,
    pub seed: u64,
}

/// A panel, and queries with their answers.
pub struct Genomes {
    panel: HaplotypePanel,
    /// By pattern length.
    questions: Vec<Vec<Known>>,
}

impl HaplotypePanel {
    fn generate(&self, data: &Path) -> Outcome {
        let shape = SyntheticPanel {
            haplotypes: self.haplotypes,
            sites: self.sites,
            seed: self.seed,
        };
        generate_panel(&Collections::open(data), NAME, &shape, Existing::Keep)?;
        Ok(())
    }

    /// Whether it has enough sites for the longest pattern.
    pub fn check(&self) -> Result<(), String> {
        let longest = LENGTHS.into_iter().max().unwrap_or(1);
        if self.sites as usize >= longest {
            Ok(())
        } else {
            Err(format!(
                "patterns of {longest} symbols need as many sites; give --sites at least {longest}"
            ))
        }
    }

    /// The memory of the prepared windows of all queries.
    fn window_bytes(&self) -> u64 {
        let window = |length| Window::bytes_of(self.haplotypes as usize, length, 1);
        u64::from(self.positions) * LENGTHS.map(window).iter().sum::<u64>()
    }

    /// The bytes of a pattern's sites, one bit each.
    fn packed_bytes(&self, length: usize) -> u64 {
        u64::from(self.haplotypes).div_ceil(8) * length as u64
    }
}

impl Genomes {
    /// Generates the panel in this new data directory, and computes the expected answers.
    pub fn new(panel: HaplotypePanel, data: &Path) -> Result<Self, Failure> {
        panel.generate(data)?;
        let collections = Collections::open(data);
        let mut random = ChaCha20Rng::seed_from_u64(panel.seed);
        let mut question = |length: usize| {
            let first = random.random_range(0..=panel.sites - length as u32) as usize;
            let row = random.random_range(0..panel.haplotypes) as usize;
            let change = if random.random() {
                Change::EveryThird
            } else {
                Change::Nothing
            };
            let sites = first..first + length;
            Known::in_panel(&collections, NAME, sites, row, change, Asking::EXACT)
        };
        let questions =
            LENGTHS.map(|length| (0..panel.positions).map(|_| question(length)).collect());
        Ok(Self {
            panel,
            questions: questions.into_iter().collect::<Result<_, _>>()?,
        })
    }

    /// The panel's parameters.
    pub fn panel(&self) -> HaplotypePanel {
        self.panel
    }
}

impl Workload for Genomes {
    fn publish(&self, store: &Path, _: &Interrupt) -> Outcome {
        self.panel.generate(store)
    }

    fn extension(&self) -> &'static str {
        "panel"
    }

    /// In memory and with swap all windows are cached; a streaming server caches what fits.
    fn server_options(&self, setting: &Setting) -> Vec<String> {
        let cache = match (setting.mode, setting.limit_bytes) {
            (Mode::Streaming, Some(limit)) => limit / CACHE_PART,
            // The cache splits its capacity into parts, which do not fill evenly.
            _ => 2 * self.panel.window_bytes() + SEARCH_BYTES,
        };
        vec!["--genome-cache".to_owned(), format!("{cache}B")]
    }

    fn questions(&self) -> usize {
        self.questions.len()
    }

    fn ask(&self, number: usize, connection: &Connection) -> Result<Asked, Failure> {
        let questions = &self.questions[number];
        let length = LENGTHS[number];
        let mut asked = Asked {
            length,
            amount: Amount::Searches(questions.len()),
            elapsed: Duration::ZERO,
            server: Duration::ZERO,
            packed_bytes: questions.len() as u64 * self.panel.packed_bytes(length),
            verified: true,
        };
        for question in questions {
            let (outcome, verified) = question.ask(connection)?;
            asked.elapsed += outcome.elapsed;
            asked.server += outcome.server;
            asked.verified &= verified;
        }
        Ok(asked)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_streaming_keeps_fewer_windows_than_there_are() {
        let panel = HaplotypePanel {
            haplotypes: 100,
            sites: 300,
            positions: 3,
            seed: 1,
        };
        let directory = tempfile::tempdir().unwrap();
        let genomes = Genomes::new(panel, directory.path()).unwrap();
        let options = |mode| {
            let setting = Setting {
                mode,
                limit_bytes: Some(6000),
                ..Setting::memory()
            };
            genomes.server_options(&setting).join(" ")
        };
        // 8, 8 and 32 bytes of symbols.
        let all = 2 * 3 * 100 * (8 + 8 + 32 + 3 * 6) + (16 << 20);
        assert_eq!(options(Mode::Memory), format!("--genome-cache {all}B"));
        assert_eq!(options(Mode::Swap), format!("--genome-cache {all}B"));
        assert_eq!(options(Mode::Streaming), "--genome-cache 1000B");
        assert!(panel.check().is_ok());
        let narrow = HaplotypePanel {
            sites: 255,
            ..panel
        };
        assert!(narrow.check().unwrap_err().contains("--sites"));
    }
}
