//! Synthetic panels for demonstrations and measurements.
//!
//! Haplotypes are mosaics of a few hundred founders: each copies one founder for a stretch of sites, then another, with
//! a few alleles changed. Neighbouring sites are thus linked and rows repeat, as in real data. Equal parameters give
//! equal panels everywhere: the generator is ChaCha20, and only integers are computed.

use crate::collections::{Collections, Existing, Info};
use crate::error::GenomeError;
use crate::kind::Kind;
use crate::panel::PanelWriter;
use crate::sites::{Positions, Sites};
use crate::{Alphabet, MAX_HAPLOTYPES, MAX_SITES};
use rand::rngs::ChaCha20Rng;
use rand::{RngExt, SeedableRng};

const FOUNDERS: usize = 300;
/// Mean number of sites between a haplotype's switches to another founder.
const STRETCH: usize = 100;
/// Mean number of alleles per changed one.
const MUTATION: usize = 2000;
/// Largest distance between neighbouring sites.
const MAX_GAP: u64 = 2000;

/// Parameters of a synthetic panel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SyntheticPanel {
    /// Number of rows, 1 to [`MAX_HAPLOTYPES`].
    pub haplotypes: u32,
    /// Number of sites, 1 to [`MAX_SITES`], on chromosome 1, of two alleles each.
    pub sites: u32,
    /// Seed.
    pub seed: u64,
}

/// Generates a panel and loads it.
///
/// # Errors
/// A number is out of its range, the name is taken, or the disk fails.
pub fn generate_panel(
    collections: &Collections,
    name: &str,
    parameters: &SyntheticPanel,
    existing: Existing,
) -> Result<Info, GenomeError> {
    check(
        "the number of haplotypes",
        parameters.haplotypes,
        MAX_HAPLOTYPES,
    )?;
    check("the number of sites", parameters.sites, MAX_SITES)?;
    let loading = collections.begin(Kind::Panel, name, existing)?;
    let haplotypes = parameters.haplotypes as usize;
    let mut panel = PanelWriter::create(loading, haplotypes)?;
    let mut mosaics = Mosaics::new(haplotypes, parameters.seed);
    let mut positions = Positions::default();
    let mut position = 0;
    for _ in 0..parameters.sites {
        position += mosaics.random.random_range(1..=MAX_GAP);
        let added = positions.push("1", position);
        added.expect("positions grow");
        panel.push(mosaics.next_site())?;
    }
    let alphabet = Alphabet::Alleles { largest: 1 };
    panel.finish(alphabet, &Sites::Positions(positions))?;
    collections.info(Kind::Panel, name)
}

fn check(what: &'static str, value: u32, largest: u32) -> Result<(), GenomeError> {
    if (1..=largest).contains(&value) {
        Ok(())
    } else {
        Err(GenomeError::OutOfRange {
            what,
            range: format!("1 to {largest}"),
            value: value.into(),
        })
    }
}

/// State of the haplotypes along the chromosome.
struct Mosaics {
    random: ChaCha20Rng,
    /// Founder that each copies.
    founders: Vec<u16>,
    site: Vec<u8>,
}

impl Mosaics {
    fn new(haplotypes: usize, seed: u64) -> Self {
        let mut random = ChaCha20Rng::seed_from_u64(seed);
        Self {
            founders: (0..haplotypes).map(|_| founder(&mut random)).collect(),
            site: vec![0; haplotypes],
            random,
        }
    }

    /// Returns the alleles of all haplotypes at the next site.
    fn next_site(&mut self) -> &[u8] {
        let alleles = self.founders_alleles();
        for haplotype in self.chosen(STRETCH) {
            self.founders[haplotype] = founder(&mut self.random);
        }
        for (symbol, &founder) in self.site.iter_mut().zip(&self.founders) {
            *symbol = alleles[usize::from(founder)];
        }
        for haplotype in self.chosen(MUTATION) {
            self.site[haplotype] ^= 1;
        }
        &self.site
    }

    /// Draws the alleles of the founders at a site: most are rare, as at real sites.
    fn founders_alleles(&mut self) -> [u8; FOUNDERS] {
        let most = self.random.random_range(1..=FOUNDERS);
        let carriers = self.random.random_range(1..=most);
        let mut alleles = [0; FOUNDERS];
        for _ in 0..carriers {
            alleles[usize::from(founder(&mut self.random))] = 1;
        }
        alleles
    }

    /// Draws a random subset with one haplotype in `of` on average.
    fn chosen(&mut self, of: usize) -> Vec<usize> {
        let haplotypes = self.founders.len();
        let count = (haplotypes + self.random.random_range(0..of as u64) as usize) / of;
        (0..count)
            .map(|_| self.random.random_range(0..haplotypes as u64) as usize)
            .collect()
    }
}

fn founder(random: &mut ChaCha20Rng) -> u16 {
    random.random_range(0..FOUNDERS as u16)
}

#[cfg(test)]
mod tests;
