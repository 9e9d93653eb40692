//! `oboro genome list`: panels and references of a server or a data directory.

use super::description::{json_of, sentence};
use crate::arguments::ServerArguments;
use crate::failure::{Failure, Outcome};
use crate::output::Output;
use oboro_client::genome::GenomeListing;
use serde_json::{Value, json};
use std::fmt::Write;
#[cfg(feature = "serve")]
use std::path::PathBuf;

#[derive(clap::Args)]
pub struct ListArguments {
    /// Data directory to list [default: ask the server].
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
