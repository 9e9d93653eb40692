//! Lists of panels and references.

use crate::Outcome;
use crate::arguments::ServerArguments;
use crate::failure::Failure;
use crate::output::{Output, bytes};
use oboro_client::{GenomeInfo, GenomeListing, GenomeShape};
use serde_json::{Value, json};
use std::fmt::Write;
#[cfg(feature = "serve")]
use std::path::PathBuf;

#[derive(clap::Args)]
pub struct ListArguments {
    /// A data directory; without it, a server is asked.
    #[cfg(feature = "serve")]
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
    #[command(flatten)]
    server: ServerArguments,
}

impl ListArguments {
    fn listing(&self) -> Result<GenomeListing, Failure> {
        #[cfg(feature = "serve")]
        if let Some(data) = &self.data {
            return Ok(super::collections::listing(data)?);
        }
        Ok(self.server.connect()?.genomes()?)
    }
}

pub fn list(arguments: &ListArguments, output: Output) -> Outcome {
    let GenomeListing { genomes, damaged } = arguments.listing()?;
    let unsound = damaged.iter().map(|problem| json!({ "damaged": problem }));
    let value: Vec<Value> = genomes.iter().map(json_of).chain(unsound).collect();
    output.result(&value, || {
        if value.is_empty() {
            return "no panels and no references\n".to_owned();
        }
        let mut text = String::new();
        for info in &genomes {
            let _ = writeln!(text, "{}", sentence(info));
        }
        for problem in &damaged {
            let _ = writeln!(text, "damaged: {problem}");
        }
        text
    })
}

pub fn json_of(info: &GenomeInfo) -> Value {
    let GenomeInfo {
        name,
        shape,
        stored_bytes,
    } = info;
    match shape {
        GenomeShape::Panel {
            haplotypes,
            sites,
            largest_allele,
        } => json!({
            "name": name,
            "kind": "panel",
            "haplotypes": haplotypes,
            "sites": sites,
            "symbols": if largest_allele.is_some() { "alleles" } else { "bases" },
            "largest_allele": largest_allele,
            "stored_bytes": stored_bytes,
        }),
        GenomeShape::Reference { sequences, bases } => json!({
            "name": name,
            "kind": "reference",
            "sequences": sequences,
            "bases": bases,
            "stored_bytes": stored_bytes,
        }),
    }
}

pub fn sentence(info: &GenomeInfo) -> String {
    let name = &info.name;
    let stored = bytes(info.stored_bytes);
    match info.shape {
        GenomeShape::Panel {
            haplotypes,
            sites,
            largest_allele,
        } => {
            let symbols = match largest_allele {
                Some(largest) => format!("alleles 0 to {largest}"),
                None => "bases".to_owned(),
            };
            format!("panel {name}: {haplotypes} haplotypes × {sites} sites, {symbols}, {stored}")
        }
        GenomeShape::Reference { sequences, bases } => {
            format!("reference {name}: {bases} bases in {sequences} sequences, {stored}")
        }
    }
}
