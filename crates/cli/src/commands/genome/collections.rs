//! Operator's commands for the panels and references in a server's data directory.

use super::description::{json_of, sentence};
use super::search::{GenomicPosition, place};
use crate::failure::{Failure, Outcome};
use crate::output::Output;
use clap::Subcommand;
use oboro_client::genome::{GenomeInfo, GenomeListing, GenomeShape};
use oboro_genome_server::{
    Alphabet, Budgets, Collections, Duplicates, Existing, GenomeError, ImportedPanel, Info, Kind,
    PanelOptions, Region, Shape, SkippedSites, SyntheticPanel, generate_panel, import_panel,
    import_reference,
};
use serde_json::json;
use std::fmt::Write;
use std::path::{Path, PathBuf};

#[derive(Subcommand)]
pub enum Command {
    /// Load a panel from phased VCF or aligned FASTA, or a reference from FASTA; a server may be running.
    Load(LoadArguments),
    /// Generate a synthetic panel and load it.
    Generate(GenerateArguments),
    /// Show a part of one haplotype of a panel in a data directory.
    Show(ShowArguments),
    /// Remove a panel or a reference from a data directory.
    Remove(RemoveArguments),
    /// Reset the search budgets of clients.
    Reset(ResetArguments),
    /// Show whether search counts were restored from a backup, and accept them.
    Budget(BudgetArguments),
}

pub fn run(command: &Command, output: Output) -> Outcome {
    match command {
        Command::Load(arguments) => load(arguments, output),
        Command::Generate(arguments) => generate(arguments, output),
        Command::Show(arguments) => show(arguments, output),
        Command::Remove(arguments) => remove(arguments, output),
        Command::Reset(arguments) => reset(arguments, output),
        Command::Budget(arguments) => budget(arguments, output),
    }
}

/// The data directory of a server, and one of its collections.
#[derive(clap::Args)]
pub struct CollectionArguments {
    /// Data directory of the server.
    #[arg(long, value_name = "DIR")]
    data: PathBuf,
    #[command(flatten)]
    name: NameArguments,
}

#[derive(clap::Args)]
#[group(required = true, multiple = false)]
struct NameArguments {
    /// Name of a panel.
    #[arg(long, value_name = "NAME")]
    panel: Option<String>,
    /// Name of a reference.
    #[arg(long, value_name = "NAME")]
    reference: Option<String>,
}

impl NameArguments {
    fn get(&self) -> (Kind, &str) {
        match (&self.panel, &self.reference) {
            (Some(name), _) => (Kind::Panel, name),
            (None, name) => (Kind::Reference, name.as_deref().unwrap_or_default()),
        }
    }
}

#[derive(clap::Args)]
pub struct LoadArguments {
    #[command(flatten)]
    collection: CollectionArguments,
    /// VCF with phased genotypes, or FASTA; plain, gzip or bgzip.
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Load only these sites of a VCF file.
    #[arg(long, value_name = "CHR:FROM-TO", conflicts_with = "reference")]
    region: Option<Region>,
    /// Keep the first line of each position that a VCF file repeats.
    #[arg(long, conflicts_with = "reference")]
    skip_duplicates: bool,
    /// Replace an existing collection of that name; searches in progress continue on the old one.
    #[arg(long)]
    replace: bool,
}

#[derive(clap::Args)]
pub struct GenerateArguments {
    /// Data directory of the server.
    #[arg(long, value_name = "DIR")]
    data: PathBuf,
    /// Name of the panel.
    #[arg(long, value_name = "NAME")]
    panel: String,
    /// Number of haplotypes (rows).
    #[arg(long, value_name = "N", default_value_t = 2000)]
    haplotypes: u32,
    /// Number of sites (columns).
    #[arg(long, value_name = "N", default_value_t = 1000)]
    sites: u32,
    /// Seed of the generator: the same seed gives the same panel.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Replace an existing panel of that name.
    #[arg(long)]
    replace: bool,
}

#[derive(clap::Args)]
pub struct ShowArguments {
    /// Data directory of the server.
    #[arg(long, value_name = "DIR")]
    data: PathBuf,
    /// Name of the panel.
    #[arg(long, value_name = "NAME")]
    panel: String,
    /// Number of the haplotype, from 0.
    #[arg(long, value_name = "N")]
    haplotype: usize,
    /// First site to show [default: the first of the panel].
    #[arg(long, value_name = "[CHR:]POSITION", value_parser = place)]
    position: Option<GenomicPosition>,
    /// Number of sites.
    #[arg(long, value_name = "N", default_value_t = 32)]
    length: usize,
}

#[derive(clap::Args)]
pub struct RemoveArguments {
    #[command(flatten)]
    collection: CollectionArguments,
}

#[derive(clap::Args)]
pub struct BudgetArguments {
    /// Data directory of the server, which may be running.
    #[arg(long, value_name = "DIR")]
    data: PathBuf,
    /// Accept counts that were restored from a backup, although they lack the searches since.
    #[arg(long)]
    accept_restored: bool,
}

#[derive(clap::Args)]
pub struct ResetArguments {
    /// Data directory of the server.
    #[arg(long, value_name = "DIR")]
    data: PathBuf,
    /// Reset only the client whose tokens have this name.
    #[arg(long, value_name = "NAME")]
    client: Option<String>,
}

fn existing(replace: bool) -> Existing {
    if replace {
        Existing::Replace
    } else {
        Existing::Keep
    }
}

fn load(arguments: &LoadArguments, output: Output) -> Outcome {
    let collections = Collections::open(&arguments.collection.data);
    let existing = existing(arguments.replace);
    let file = &arguments.file;
    match arguments.collection.name.get() {
        (Kind::Panel, name) => {
            let options = PanelOptions {
                region: arguments.region.clone(),
                duplicates: if arguments.skip_duplicates {
                    Duplicates::Skip
                } else {
                    Duplicates::Refuse
                },
                existing,
            };
            let ImportedPanel { info, left_out } =
                import_panel(&collections, name, file, &options)?;
            loaded_panel(&collections, info, left_out, output)
        }
        (Kind::Reference, name) => {
            let info = listed(import_reference(&collections, name, file, existing)?);
            output.result(&json_of(&info), || format!("loaded {}\n", sentence(&info)))
        }
    }
}

fn generate(arguments: &GenerateArguments, output: Output) -> Outcome {
    let collections = Collections::open(&arguments.data);
    let parameters = SyntheticPanel {
        haplotypes: arguments.haplotypes,
        sites: arguments.sites,
        seed: arguments.seed,
    };
    let existing = existing(arguments.replace);
    let info = generate_panel(&collections, &arguments.panel, &parameters, existing)?;
    loaded_panel(&collections, info, SkippedSites::default(), output)
}

/// Reports the loaded and skipped data, and the digest by which clients can identify the panel.
fn loaded_panel(
    collections: &Collections,
    info: Info,
    left_out: SkippedSites,
    output: Output,
) -> Outcome {
    let sites_digest = collections.panel(&info.name)?.sites_digest();
    let info = listed(info);
    let SkippedSites {
        outside_region,
        duplicates,
    } = left_out;
    let mut value = json_of(&info);
    value["left_out"] = json!({ "outside_region": outside_region, "duplicates": duplicates });
    value["sites_digest"] = json!(sites_digest.to_string());
    output.result(&value, || {
        let mut text = format!("loaded {}\n", sentence(&info));
        if left_out != SkippedSites::default() {
            let _ = writeln!(
                text,
                "lines left out: {outside_region} outside the region, {duplicates} repeating a position"
            );
        }
        let _ = writeln!(text, "digest of its sites, for clients to pin: {sites_digest}");
        text
    })
}

/// Lists the collections of a data directory.
pub fn listing(data: &Path) -> Result<GenomeListing, GenomeError> {
    let listing = Collections::open(data).list()?;
    Ok(GenomeListing {
        genomes: listing.collections.into_iter().map(listed).collect(),
        damaged: listing.damaged.iter().map(ToString::to_string).collect(),
    })
}

/// Converts a collection to its form in a server's listing.
fn listed(info: Info) -> GenomeInfo {
    let shape = match info.shape {
        Shape::Panel {
            haplotypes,
            sites,
            alphabet,
        } => GenomeShape::Panel {
            haplotypes,
            sites,
            largest_allele: match alphabet {
                Alphabet::Alleles { largest } => Some(largest.into()),
                Alphabet::Bases => None,
            },
        },
        Shape::Reference { sequences, bases } => GenomeShape::Reference { sequences, bases },
    };
    GenomeInfo {
        name: info.name,
        shape,
        stored_bytes: info.bytes,
    }
}

fn show(arguments: &ShowArguments, output: Output) -> Outcome {
    let panel = Collections::open(&arguments.data).panel(&arguments.panel)?;
    if arguments.haplotype >= panel.haplotypes() {
        return Err(Failure::input(format!(
            "no haplotype {}; the panel has {}, from 0",
            arguments.haplotype,
            panel.haplotypes()
        )));
    }
    let first = panel.site_at(0);
    let (chromosome, position) = match &arguments.position {
        Some(place) => (place.chromosome.as_deref(), place.position),
        None => (first.chromosome, first.position),
    };
    let sites = panel.sites_from(chromosome, position, arguments.length)?;
    if sites.is_empty() {
        return Err(Failure::from(
            "0 sites show nothing; give --length at least 1",
        ));
    }
    let mut symbols = vec![0; sites.len()];
    panel.window(sites)?.read(arguments.haplotype, &mut symbols);
    let letter = |&symbol: &u8| match panel.alphabet() {
        Alphabet::Alleles { .. } => char::from(b'0' + symbol),
        Alphabet::Bases => char::from(b"ACGTN"[usize::from(symbol)]),
    };
    let letters: String = symbols.iter().map(letter).collect();
    let place = GenomicPosition {
        chromosome: chromosome.map(str::to_owned),
        position,
    };
    let value = json!({ "position": place.to_string(), "symbols": letters });
    output.result(&value, || format!("{place} {letters}\n"))
}

fn remove(arguments: &RemoveArguments, output: Output) -> Outcome {
    let (kind, name) = arguments.collection.name.get();
    Collections::open(&arguments.collection.data).remove(kind, name)?;
    let value = json!({ "name": name, "kind": kind.to_string(), "removed": true });
    output.result(&value, || format!("removed {kind} {name}\n"))
}

fn reset(arguments: &ResetArguments, output: Output) -> Outcome {
    let client = arguments.client.as_deref();
    Budgets::open(&arguments.data).reset(client)?;
    output.result(
        &json!({ "reset": client.unwrap_or("all") }),
        || match client {
            Some(client) => format!("{client} has a new budget\n"),
            None => "all clients have a new budget\n".to_owned(),
        },
    )
}

fn budget(arguments: &BudgetArguments, output: Output) -> Outcome {
    let budgets = Budgets::open(&arguments.data);
    let restored = if arguments.accept_restored {
        budgets.accept_restored()?
    } else {
        budgets.restored()?
    };
    let accepted = arguments.accept_restored && restored.is_some();
    let value = json!({ "restored": restored, "accepted": accepted });
    output.result(&value, || match &restored {
        None => "the search counts are this server's own\n".to_owned(),
        Some(copied) if accepted => format!(
            "search counts continue from the backup of {copied}; searches between it and the restore stay uncounted\n"
        ),
        Some(copied) => format!(
            "search counts were restored from a backup of {copied}, and searches on a budget are refused: accept the \
             counts with --accept-restored, or reset the budgets with `oboro genome reset`\n"
        ),
    })
}
