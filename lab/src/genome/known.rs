//! Genome queries with known answers, from a search of the plaintext.

use super::plaintext;
use crate::output::Failure;
use oboro_client::Connection;
use oboro_client::genome::{
    Decoys, GenomeSearch, GenomicPosition, Outcome, Pattern, SearchResult, Symbols, Where,
};
use oboro_genome::Kind;
use oboro_genome_server::{Collections, HaplotypePanel, Rows};
use std::ops::Range;

/// The letters of bases, by symbol; any other symbol is unknown.
const BASES: &[u8] = b"ACGT";

/// A search and its answer.
pub struct Known {
    search: GenomeSearch,
    answer: SearchResult,
}

/// The kind of a search.
#[derive(Clone, Copy)]
pub struct Asking {
    pub kind: Kind,
    /// Whether identical rows count separately.
    pub count: bool,
}

impl Asking {
    /// Whether there is a row without mismatches.
    pub const EXACT: Self = Self {
        kind: Kind::Match { within: 0 },
        count: false,
    };
}

/// Changes to a pattern that occurs.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Change {
    Nothing,
    /// Every third symbol, so that it most likely occurs nowhere.
    EveryThird,
}

impl Known {
    /// The alleles of a row of the panel called `name`, in a window of sites.
    pub fn in_panel(
        collections: &Collections,
        name: &str,
        sites: Range<usize>,
        row: usize,
        change: Change,
        asking: Asking,
    ) -> Result<Self, Failure> {
        let panel = collections.panel(name)?;
        let site = panel.site_at(sites.start);
        let place = GenomicPosition {
            chromosome: site.chromosome.map(str::to_owned),
            position: site.position,
        };
        let symbols = haplotype(&panel, sites, row)?;
        let letters: String = changed(symbols, change, 2)
            .into_iter()
            .map(|symbol| char::from(b'0' + symbol))
            .collect();
        let search = GenomeSearch {
            pattern: Pattern::of_alleles(&letters)?,
            r#where: Where::Panel {
                name: name.to_owned(),
                place,
                decoys: Decoys(0),
                symbols: Symbols::Alleles,
                sites_digest: None,
            },
            kind: asking.kind,
            count: asking.count,
        };
        Self::of(collections, search)
    }

    /// The bases of the reference called `name` at an offset.
    pub fn in_reference(
        collections: &Collections,
        name: &str,
        bases: Range<usize>,
        change: Change,
        asking: Asking,
    ) -> Result<Self, Failure> {
        let reference = collections.reference(name)?;
        let symbols = reference.bases()[bases].to_vec();
        let letters: String = changed(symbols, change, BASES.len() as u8)
            .into_iter()
            .map(|symbol| {
                BASES
                    .get(usize::from(symbol))
                    .map_or('?', |&base| base.into())
            })
            .collect();
        let search = GenomeSearch {
            pattern: Pattern::of_bases(&letters)?,
            r#where: Where::Reference {
                name: name.to_owned(),
            },
            kind: asking.kind,
            count: asking.count,
        };
        Self::of(collections, search)
    }

    fn of(collections: &Collections, search: GenomeSearch) -> Result<Self, Failure> {
        let answer = plaintext::search(collections, &search)?;
        Ok(Self { search, answer })
    }

    /// The number of symbols.
    pub fn length(&self) -> usize {
        self.search.pattern.len()
    }

    /// Sends the query; returns the outcome, and whether the answer is right.
    pub fn ask(&self, connection: &Connection) -> Result<(Outcome, bool), Failure> {
        let outcome = connection.search(&self.search, |_, _| {})?;
        Ok((outcome, outcome.found == self.answer))
    }

    /// The symbols of the query, without wildcards.
    pub fn symbols(&self) -> impl Iterator<Item = u8> {
        self.search
            .pattern
            .symbols()
            .iter()
            .filter_map(|symbols| symbols.only())
    }
}

fn haplotype(panel: &HaplotypePanel, sites: Range<usize>, row: usize) -> Result<Vec<u8>, Failure> {
    let mut symbols = vec![0; sites.len()];
    panel.window(sites)?.read(row, &mut symbols);
    Ok(symbols)
}

/// Replaces every third symbol by the next one of an alphabet of `alphabet` symbols; symbols outside it are skipped.
fn changed(mut symbols: Vec<u8>, change: Change, alphabet: u8) -> Vec<u8> {
    if change == Change::EveryThird {
        let known = symbols.iter_mut().filter(|symbol| **symbol < alphabet);
        known
            .skip(2)
            .step_by(3)
            .for_each(|symbol| *symbol = (*symbol + 1) % alphabet);
    }
    symbols
}

/// All rows, one byte per symbol, row after row.
pub fn bytes_of(rows: &Rows) -> Vec<u8> {
    let mut bytes = vec![0; rows.len() * rows.length()];
    for (row, symbols) in bytes.chunks_exact_mut(rows.length()).enumerate() {
        rows.read(row, symbols);
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_third_known_symbol_changes() {
        let symbols = vec![0, 1, 2, 3, 4, 4, 1, 3];
        assert_eq!(changed(symbols.clone(), Change::Nothing, 4), symbols);
        assert_eq!(
            changed(symbols, Change::EveryThird, 4),
            [0, 1, 3, 3, 4, 4, 1, 0]
        );
    }
}
