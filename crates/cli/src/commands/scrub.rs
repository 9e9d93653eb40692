//! `oboro scrub`: checks a store or a server against its digests.

use crate::arguments::ServerArguments;
use crate::failure::{Failure, Outcome};
use crate::output::{Bar, Output, Unit, bytes};
use bytesize::ByteSize;
use oboro_client::Scrubbing;
use oboro_format::{Damage, ErrorClass, Scrubbed};
use oboro_input::escaped;
#[cfg(feature = "serve")]
use oboro_server::WholeScrub;
#[cfg(feature = "serve")]
use oboro_store::Pace;
use serde_json::{Value, json};
use std::fmt::Write;
use std::num::NonZero;
use std::path::PathBuf;
#[cfg(feature = "serve")]
use std::thread;

/// Default read rate on a server, in bytes a second.
const SERVER_RATE: NonZero<u64> = NonZero::new(64 << 20).unwrap();
/// Maximum number of damaged parts to print; a failed disk has one per panel.
const MOST_LISTED: usize = 1000;

#[derive(clap::Args)]
pub struct Arguments {
    /// Directory of a store that no server has open; with --server, name of a dataset there [default with --server:
    /// all].
    #[arg(value_name = "DIR|NAME", required_unless_present = "server")]
    what: Option<String>,
    /// Have this server check its store while it serves.
    #[arg(long, value_name = "URL")]
    server: Option<String>,
    /// Read the access token for the server from the first line of this file.
    #[arg(long, value_name = "FILE", requires = "server")]
    token_file: Option<PathBuf>,
    /// Trust servers with certificates from this PEM file.
    #[arg(long, value_name = "FILE", requires = "server")]
    ca: Option<PathBuf>,
    /// Client certificate chain, in PEM, that authenticates you to the server.
    #[arg(long, value_name = "FILE", requires_all = ["server", "client_key"])]
    client_cert: Option<PathBuf>,
    /// Private key of that certificate, in PEM, readable by you only.
    #[arg(long, value_name = "FILE", requires_all = ["server", "client_cert"])]
    client_key: Option<PathBuf>,
    /// Maximum bytes to read per second, at least 1MiB on a server [default: 64MiB on a server, else unlimited].
    #[arg(long, value_name = "SIZE", value_parser = rate)]
    rate: Option<NonZero<u64>>,
}

fn rate(given: &str) -> Result<NonZero<u64>, String> {
    let size: ByteSize = given.parse()?;
    NonZero::new(size.as_u64()).ok_or_else(|| "give a size above 0".to_owned())
}

pub fn run(arguments: &Arguments, output: Output) -> Outcome {
    let bar = output.bar("checking", Unit::Bytes);
    let mut damaged = Vec::new();
    let on_event = |event| note(&bar, &mut damaged, event);
    let what = arguments.what.as_deref();
    let scrubbed = match &arguments.server {
        Some(url) => scrub_server(arguments, url, what, on_event),
        None => scrub_directory(what.unwrap_or_default(), arguments.rate, on_event),
    };
    bar.finish();
    let scrubbed = scrubbed?;
    let value = json!({
        "datasets": scrubbed.datasets,
        "segments": scrubbed.segments,
        "collections": scrubbed.collections,
        "parts": scrubbed.parts,
        "bytes": scrubbed.bytes,
        "damaged_parts": scrubbed.damaged,
        "damaged": damaged.iter().map(json_of).collect::<Vec<_>>(),
    });
    output.result(&value, || text(&scrubbed, &damaged))?;
    let what = match scrubbed.damaged {
        0 => return Ok(()),
        1 => "one part is".to_owned(),
        parts => format!("{parts} parts are"),
    };
    let sentence = format!("{what} damaged, as listed on standard output");
    Err(Failure::of(ErrorClass::Damaged, sentence))
}

fn note(bar: &Bar, damaged: &mut Vec<Damage>, event: Scrubbing) {
    match event {
        Scrubbing::Progress(done, total) => bar.set(done, total),
        Scrubbing::Damage(damage) if damaged.len() < MOST_LISTED => damaged.push(damage),
        Scrubbing::Damage(_) => {}
    }
}

fn scrub_server(
    arguments: &Arguments,
    url: &str,
    name: Option<&str>,
    tell: impl FnMut(Scrubbing),
) -> Result<Scrubbed, Failure> {
    let server = ServerArguments {
        server: url.to_owned(),
        token_file: arguments.token_file.clone(),
        ca: arguments.ca.clone(),
        client_cert: arguments.client_cert.clone(),
        client_key: arguments.client_key.clone(),
    };
    let rate = arguments.rate.unwrap_or(SERVER_RATE);
    Ok(server.connect()?.scrub(name, Some(rate), tell)?)
}

#[cfg(feature = "serve")]
fn scrub_directory(
    directory: &str,
    rate: Option<NonZero<u64>>,
    mut tell: impl FnMut(Scrubbing),
) -> Result<Scrubbed, Failure> {
    let mut scrub = WholeScrub::of_directory(directory.as_ref())?;
    let mut pace = Pace::new(rate);
    while let Some((read, damage)) = scrub.next_part()? {
        if let Some(damage) = damage {
            tell(Scrubbing::Damage(damage));
        }
        tell(Scrubbing::Progress(
            scrub.scrubbed().bytes,
            scrub.total_bytes(),
        ));
        thread::sleep(pace.rest(read));
    }
    Ok(scrub.scrubbed())
}

#[cfg(not(feature = "serve"))]
fn scrub_directory(
    _directory: &str,
    _rate: Option<NonZero<u64>>,
    _tell: impl FnMut(Scrubbing),
) -> Result<Scrubbed, Failure> {
    Err(Failure::of(
        ErrorClass::Input,
        "this build has no server commands and cannot check a directory; give --server URL"
            .to_owned(),
    ))
}

fn json_of(damage: &Damage) -> Value {
    json!({
        "name": damage.name,
        "dataset": damage.dataset.map(|id| id.to_string()),
        "segment": damage.segment,
        "limb": damage.panel.map(|(limb, _)| limb.0),
        "column": damage.panel.map(|(_, column)| column.0),
        "path": damage.path.as_ref().map(|path| path.display().to_string()),
        "problem": damage.problem,
    })
}

fn text(scrubbed: &Scrubbed, damaged: &[Damage]) -> String {
    let mut text = String::new();
    for damage in damaged {
        let name = damage.name.as_deref().unwrap_or("the store");
        let mut line = format!("{name}: {}", damage.problem);
        if let Some(path) = &damage.path {
            let _ = write!(line, " ({})", path.display());
        }
        let _ = writeln!(text, "{}", escaped(&line));
    }
    let listed = damaged.len() as u64;
    if scrubbed.damaged > listed {
        let _ = writeln!(text, "and {} more", scrubbed.damaged - listed);
    }
    let _ = writeln!(
        text,
        "checked {} datasets, {} segments, {} collections of genomes, {} parts, {}: {} damaged",
        scrubbed.datasets,
        scrubbed.segments,
        scrubbed.collections,
        scrubbed.parts,
        bytes(scrubbed.bytes),
        scrubbed.damaged
    );
    text
}
