//! Searches of plaintext, for comparison.

use oboro_client::genome::{GenomeSearch, SearchResult, Where};
use oboro_genome::Kind;
use oboro_genome_server::{Collections, GenomeError};
use std::path::Path;

/// Searches the plaintext in a data directory.
///
/// # Errors
/// An unknown collection or place, or unreadable data.
pub fn search(data: &Path, search: &GenomeSearch) -> Result<SearchResult, GenomeError> {
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
    Ok(match search.kind {
        Kind::Match { within } if search.count => {
            SearchResult::Matches(rows.count_matches(symbols, within.into()) as u64)
        }
        Kind::Match { within } => {
            SearchResult::Matches(rows.count_distinct_matches(symbols, within.into()) as u64)
        }
        Kind::Longest => SearchResult::Longest(rows.longest_match(symbols) as u32),
    })
}
