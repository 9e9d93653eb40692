//! Searches of plaintext, for comparison.

use oboro_client::{GenomeSearch, Where};
use oboro_genome::Kind;
use oboro_genome_client::Found;
use oboro_genome_server::{Collections, GenomeError, Rows};
use std::collections::BTreeSet;
use std::path::Path;

/// What a search of the plaintext in a data directory finds.
///
/// # Errors
/// There is no such collection or place, or it cannot be read.
pub fn search(data: &Path, search: &GenomeSearch) -> Result<Found, GenomeError> {
    let collections = Collections::open(data);
    let symbols = search.pattern.symbols();
    let rows = match &search.r#where {
        Where::Panel { name, place, .. } => {
            let panel = collections.panel(name)?;
            let chromosome = place.chromosome.as_deref();
            panel.window(panel.sites_from(chromosome, place.position, symbols.len())?)?
        }
        Where::Reference { name } => collections.reference(name)?.windows(symbols.len()),
    };
    let rows = unpack(&rows);
    Ok(match search.kind {
        Kind::Match { within } => {
            let matches = |row: &&Vec<u8>| mismatches(symbols, row).count() <= within.into();
            let found = rows.iter().filter(matches);
            Found::Matches(if search.count {
                found.count() as u64
            } else {
                found.collect::<BTreeSet<_>>().len() as u64
            })
        }
        Kind::Longest => {
            let first = |row| mismatches(symbols, row).next().unwrap_or(symbols.len());
            Found::Longest(rows.iter().map(|row| first(row)).max().unwrap_or(0) as u32)
        }
    })
}

fn unpack(rows: &Rows) -> Vec<Vec<u8>> {
    let read = |number| {
        let mut symbols = vec![0; rows.length()];
        rows.read(number, &mut symbols);
        symbols
    };
    (0..rows.len()).map(read).collect()
}

/// The positions at which a row differs from a pattern.
fn mismatches(pattern: &[Option<u8>], row: &[u8]) -> impl Iterator<Item = usize> {
    let pairs = pattern.iter().zip(row).enumerate();
    pairs.filter_map(|(place, (symbol, other))| {
        symbol
            .is_some_and(|symbol| symbol != *other)
            .then_some(place)
    })
}
