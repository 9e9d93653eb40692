//! Search of the plaintext: the reference for encrypted answers.

use crate::output::Failure;
use oboro_client::genome::{GenomeSearch, SearchResult, Where};
use oboro_genome::Kind;
use oboro_genome_server::Collections;

/// The result of a search of the plaintext.
pub fn search(collections: &Collections, search: &GenomeSearch) -> Result<SearchResult, Failure> {
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
