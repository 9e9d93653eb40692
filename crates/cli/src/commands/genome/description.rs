//! Descriptions of panels and references, in words and in JSON.

use crate::output::bytes;
use oboro_client::genome::{GenomeInfo, GenomeShape};
use serde_json::{Value, json};

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
