//! Genome search on servers, and loading of genomes into local servers.

use crate::call::{Interrupt, run};
use crate::errors::Failure;
use crate::server::Server;
use oboro_client::genome::{
    Decoys, GenomeSearch, GenomeShape, GenomicPosition, Outcome, Pattern, SearchResult, Symbols,
    Where,
};
use oboro_format::Digest;
use oboro_genome::Kind;
use oboro_genome_server::{
    Collections, Duplicates, Existing, ImportedPanel, PanelOptions, SkippedSites, import_panel,
    import_reference,
};
use pyo3::prelude::*;
use pyo3::types::PyDict;
use std::path::PathBuf;
use zeroize::Zeroizing;

/// Returns the panels and references of a server, one dictionary each, and its messages about damaged ones.
#[pyfunction]
#[pyo3(signature = (server, *, interrupt = None))]
pub fn genomes<'py>(
    py: Python<'py>,
    server: &Server,
    interrupt: Option<&Interrupt>,
) -> PyResult<(Vec<Bound<'py, PyDict>>, Vec<String>)> {
    let connection = server.connection()?;
    let listing = run(py, None, interrupt, |call| {
        let connection = connection.interrupted_by(call.interrupt());
        connection.genomes().map_err(Failure::from)
    })?;
    let described = listing.genomes.into_iter().map(|info| {
        let known = PyDict::new(py);
        known.set_item("name", info.name)?;
        known.set_item("stored_bytes", info.stored_bytes)?;
        match info.shape {
            GenomeShape::Panel {
                haplotypes,
                sites,
                largest_allele,
            } => {
                known.set_item("kind", "panel")?;
                known.set_item("haplotypes", haplotypes)?;
                known.set_item("sites", sites)?;
                known.set_item("largest_allele", largest_allele)?;
            }
            GenomeShape::Reference { sequences, bases } => {
                known.set_item("kind", "reference")?;
                known.set_item("sequences", sequences)?;
                known.set_item("bases", bases)?;
            }
        }
        Ok(known)
    });
    Ok((described.collect::<PyResult<_>>()?, listing.damaged))
}

/// Searches a panel at a position.
#[pyfunction]
#[pyo3(signature = (server, name, symbols, *, bases, position, chromosome, within, longest, count, decoys,
                    sites_digest, progress = None, interrupt = None))]
#[expect(
    clippy::too_many_arguments,
    reason = "named by the caller, who is in Python"
)]
pub fn query_panel<'py>(
    py: Python<'py>,
    server: &Server,
    name: String,
    symbols: String,
    bases: bool,
    position: u64,
    chromosome: Option<String>,
    within: u8,
    longest: bool,
    count: bool,
    decoys: usize,
    sites_digest: Option<String>,
    progress: Option<Bound<'py, PyAny>>,
    interrupt: Option<&Interrupt>,
) -> PyResult<Bound<'py, PyDict>> {
    let symbols = Zeroizing::new(symbols);
    let (pattern, symbols) = if bases {
        (Pattern::of_bases(&symbols), Symbols::Bases)
    } else {
        (Pattern::of_alleles(&symbols), Symbols::Alleles)
    };
    let search = GenomeSearch {
        pattern: pattern.map_err(Failure::input)?,
        r#where: Where::Panel {
            name,
            place: GenomicPosition {
                chromosome,
                position,
            },
            decoys: Decoys(decoys),
            symbols,
            sites_digest: sites_digest
                .map(|digest| digest.parse::<Digest>())
                .transpose()
                .map_err(Failure::input)?,
        },
        kind: if longest {
            Kind::Longest
        } else {
            Kind::Match { within }
        },
        count,
    };
    run_search(py, server, &search, progress, interrupt)
}

/// Searches all of a reference, on both strands.
#[pyfunction]
#[pyo3(signature = (server, name, pattern, *, within, count, progress = None, interrupt = None))]
#[expect(
    clippy::too_many_arguments,
    reason = "named by the caller, who is in Python"
)]
pub fn find_in_reference<'py>(
    py: Python<'py>,
    server: &Server,
    name: String,
    pattern: String,
    within: u8,
    count: bool,
    progress: Option<Bound<'py, PyAny>>,
    interrupt: Option<&Interrupt>,
) -> PyResult<Bound<'py, PyDict>> {
    let pattern = Zeroizing::new(pattern);
    let search = GenomeSearch {
        pattern: Pattern::of_bases(&pattern).map_err(Failure::input)?,
        r#where: Where::Reference { name },
        kind: Kind::Match { within },
        count,
    };
    run_search(py, server, &search, progress, interrupt)
}

fn run_search<'py>(
    py: Python<'py>,
    server: &Server,
    search: &GenomeSearch,
    progress: Option<Bound<'py, PyAny>>,
    interrupt: Option<&Interrupt>,
) -> PyResult<Bound<'py, PyDict>> {
    let connection = server.connection()?;
    let outcome: Outcome = run(py, progress, interrupt, |call| {
        let connection = connection.interrupted_by(call.interrupt());
        let advance = |done, total| {
            // The connection observes the interrupt itself.
            let _ = call.advance(done, total);
        };
        connection.search(search, advance).map_err(Failure::from)
    })?;
    let (exists, count, longest) = match outcome.found {
        SearchResult::Matches(rows) => (rows > 0, search.count.then_some(rows), None),
        SearchResult::Longest(longest) => (longest > 0, None, Some(longest)),
    };
    let found = PyDict::new(py);
    found.set_item("exists", exists)?;
    found.set_item("count", count)?;
    found.set_item("longest", longest)?;
    found.set_item("length", search.pattern.len())?;
    found.set_item("rows", outcome.rows)?;
    found.set_item("windows", outcome.windows)?;
    let sites_digest = outcome.sites_digest.map(|digest| digest.to_string());
    found.set_item("sites_digest", sites_digest)?;
    found.set_item("sent_bytes", outcome.sent_bytes)?;
    found.set_item("received_bytes", outcome.received_bytes)?;
    found.set_item("seconds", outcome.elapsed.as_secs_f64())?;
    found.set_item("server_seconds", outcome.server.as_secs_f64())?;
    found.set_item("client_seconds", outcome.client.as_secs_f64())?;
    Ok(found)
}

/// Loads a panel from phased VCF or aligned FASTA into a local server. Returns the numbers of lines skipped as outside
/// the region, and as duplicates.
#[pyfunction]
#[pyo3(signature = (server, name, file, *, region, skip_duplicates, replace))]
pub fn load_panel(
    py: Python<'_>,
    server: &Server,
    name: String,
    file: PathBuf,
    region: Option<String>,
    skip_duplicates: bool,
    replace: bool,
) -> PyResult<(u64, u64)> {
    let options = PanelOptions {
        region: region
            .map(|region| region.parse())
            .transpose()
            .map_err(Failure::input)?,
        duplicates: if skip_duplicates {
            Duplicates::Skip
        } else {
            Duplicates::Refuse
        },
        existing: existing(replace),
    };
    let data = server.data()?;
    let ImportedPanel { left_out, .. } = run(py, None, None, |_| {
        import_panel(&Collections::open(&data), &name, &file, &options).map_err(Failure::from)
    })?;
    let SkippedSites {
        outside_region,
        duplicates,
    } = left_out;
    Ok((outside_region, duplicates))
}

/// Loads a reference from FASTA into a local server.
#[pyfunction]
#[pyo3(signature = (server, name, file, *, replace))]
pub fn load_reference(
    py: Python<'_>,
    server: &Server,
    name: String,
    file: PathBuf,
    replace: bool,
) -> PyResult<()> {
    let data = server.data()?;
    run(py, None, None, |_| {
        import_reference(&Collections::open(&data), &name, &file, existing(replace))
            .map(drop)
            .map_err(Failure::from)
    })
}

fn existing(replace: bool) -> Existing {
    if replace {
        Existing::Replace
    } else {
        Existing::Keep
    }
}
