//! `oboro genome query` and `oboro genome find`: searches, and the output of their results.

use crate::arguments::ServerArguments;
use crate::failure::{Failure, Outcome};
use crate::output::{Output, Unit, bytes, seconds};
use clap::value_parser;
pub use oboro_client::genome::{Decoys, GenomeSearch, GenomicPosition, Symbols, Where};
use oboro_client::genome::{Pattern, SearchResult};
use oboro_format::Digest;
use oboro_genome::Kind;
use serde_json::{Value, json};
use std::io::{self, BufRead};
#[cfg(feature = "serve")]
use std::path::PathBuf;
use zeroize::Zeroizing;

#[derive(clap::Args)]
pub struct QueryArguments {
    /// Name of the panel.
    #[arg(long, value_name = "NAME")]
    panel: String,
    /// First site of the query: a position, or a column of an alignment.
    #[arg(long, value_name = "[CHR:]POSITION", value_parser = place)]
    position: GenomicPosition,
    #[command(flatten)]
    symbols: SymbolArguments,
    /// Number of mismatches allowed, 0 to 2.
    #[arg(long, value_name = "D", default_value_t = 0, value_parser = value_parser!(u8).range(0..=2))]
    within: u8,
    /// Find the longest prefix of the query that occurs in a haplotype.
    #[arg(long, conflicts_with_all = ["within", "count"])]
    longest: bool,
    /// Count the matching haplotypes, if the server's operator allows that.
    #[arg(long)]
    count: bool,
    /// Number of decoys, up to 63: random other places that the server also searches. It does not learn which place is
    /// meant.
    #[arg(long, value_name = "K", default_value_t = 0, value_parser = value_parser!(u8).range(0..=63))]
    decoys: u8,
    /// Send the query only if the server's list of sites has this digest, as `oboro genome load` and queries with
    /// decoys print it. A forged list would reveal which place is meant.
    #[arg(long, value_name = "HEX")]
    sites_digest: Option<Digest>,
    #[command(flatten)]
    asking: AskingArguments,
}

#[derive(clap::Args)]
#[group(required = true, multiple = false)]
struct SymbolArguments {
    /// The query, for a panel of alleles: their numbers at consecutive sites, ? for any. With - they are
    /// the first line of standard input, which other users of this machine do not see.
    #[arg(long, value_name = "0110…")]
    alleles: Option<String>,
    /// The query, for a panel of bases: IUPAC letters (U is T, R is A or G), ? for any; - as above.
    #[arg(long, value_name = "ACGT…")]
    sequence: Option<String>,
}

#[derive(clap::Args)]
pub struct FindArguments {
    /// Name of the reference.
    #[arg(long, value_name = "NAME")]
    reference: String,
    /// The query: IUPAC letters (U is T, R is A or G), ? for any. With - they are the first line of standard input,
    /// which other users of this machine do not see.
    #[arg(long, value_name = "ACGT…")]
    pattern: String,
    /// Number of mismatches allowed, 0 to 2.
    #[arg(long, value_name = "D", default_value_t = 0, value_parser = value_parser!(u8).range(0..=2))]
    within: u8,
    /// Count the matching offsets, if the server's operator allows that.
    #[arg(long)]
    count: bool,
    #[command(flatten)]
    asking: AskingArguments,
}

#[derive(clap::Args)]
struct AskingArguments {
    /// Search the plaintext as well, in this data directory of a server, and fail if the answers differ.
    #[cfg(feature = "serve")]
    #[arg(long, value_name = "DIR")]
    verify: Option<PathBuf>,
    #[command(flatten)]
    server: ServerArguments,
}

impl AskingArguments {
    /// Compares `found` with a search of the plaintext, if requested; returns `Some(true)` after a comparison.
    ///
    /// # Errors
    /// Different results, or unreadable plaintext.
    #[cfg(feature = "serve")]
    fn verified(
        &self,
        search: &GenomeSearch,
        found: &SearchResult,
    ) -> Result<Option<bool>, Failure> {
        let Some(data) = &self.verify else {
            return Ok(None);
        };
        if super::plaintext::search(data, search)? != *found {
            return Err(
                "the answer differs from that of the plaintext; check that --verify names the data directory of this server"
                    .into(),
            );
        }
        Ok(Some(true))
    }

    #[cfg(not(feature = "serve"))]
    fn verified(
        &self,
        _search: &GenomeSearch,
        _found: &SearchResult,
    ) -> Result<Option<bool>, Failure> {
        Ok(None)
    }
}

/// Parses a position. A chromosome may contain colons.
pub fn place(given: &str) -> Result<GenomicPosition, String> {
    let (chromosome, position) = match given.rsplit_once(':') {
        Some((chromosome, position)) => (Some(chromosome.to_owned()), position),
        None => (None, given),
    };
    let position = position.replace(',', "").parse();
    let position = position.map_err(|_| "give a number, or CHROMOSOME:NUMBER".to_owned())?;
    Ok(GenomicPosition {
        chromosome,
        position,
    })
}

pub fn query(arguments: &QueryArguments, output: Output) -> Outcome {
    let (pattern, symbols) = match (&arguments.symbols.alleles, &arguments.symbols.sequence) {
        (Some(alleles), _) => (Pattern::of_alleles(&letters(alleles)?)?, Symbols::Alleles),
        (None, bases) => {
            let bases = letters(bases.as_deref().unwrap_or_default())?;
            (Pattern::of_bases(&bases)?, Symbols::Bases)
        }
    };
    let search = GenomeSearch {
        pattern,
        r#where: Where::Panel {
            name: arguments.panel.clone(),
            place: arguments.position.clone(),
            decoys: Decoys(arguments.decoys.into()),
            symbols,
            sites_digest: arguments.sites_digest,
        },
        kind: if arguments.longest {
            Kind::Longest
        } else {
            Kind::Match {
                within: arguments.within,
            }
        },
        count: arguments.count,
    };
    ask(&search, &arguments.asking, output)
}

pub fn find(arguments: &FindArguments, output: Output) -> Outcome {
    let search = GenomeSearch {
        pattern: Pattern::of_bases(&letters(&arguments.pattern)?)?,
        r#where: Where::Reference {
            name: arguments.reference.clone(),
        },
        kind: Kind::Match {
            within: arguments.within,
        },
        count: arguments.count,
    };
    ask(&search, &arguments.asking, output)
}

/// Returns the letters of a query, as given or from the first line of standard input.
fn letters(given: &str) -> Result<Zeroizing<String>, Failure> {
    let mut letters = Zeroizing::new(given.to_owned());
    if given == "-" {
        letters.clear();
        let read = io::stdin().lock().read_line(&mut letters);
        read.map_err(|error| {
            let sentence = format!("cannot read the query from standard input: {error}");
            Failure::io(&error, sentence)
        })?;
        let length = letters.trim_end().len();
        letters.truncate(length);
    }
    Ok(letters)
}

fn ask(search: &GenomeSearch, asking: &AskingArguments, output: Output) -> Outcome {
    let connection = asking.server.connect()?;
    let bar = output.bar("searching", Unit::Answers);
    let outcome = connection.search(search, |done, of| bar.set(done, of));
    bar.finish();
    let outcome = outcome?;
    let verified = asking.verified(search, &outcome.found)?;
    let pinned = matches!(
        search.r#where,
        Where::Panel {
            sites_digest: Some(_),
            ..
        }
    );
    let length = search.pattern.len();
    let (exists, count, longest) = match outcome.found {
        SearchResult::Matches(rows) => (rows > 0, search.count.then_some(rows), None),
        SearchResult::Longest(longest) => (longest > 0, None, Some(longest)),
    };
    let value = json!({
        "question": search_of(search, outcome.sites_digest),
        "exists": exists,
        "count": count,
        "longest": longest,
        "length": length,
        "rows": outcome.rows,
        "windows": outcome.windows,
        "sent_bytes": outcome.sent_bytes,
        "received_bytes": outcome.received_bytes,
        "milliseconds": outcome.elapsed.as_secs_f64() * 1e3,
        "server_milliseconds": outcome.server.as_secs_f64() * 1e3,
        "client_milliseconds": outcome.client.as_secs_f64() * 1e3,
        "verified": verified,
    });
    output.result(&value, || {
        let answer = match outcome.found {
            SearchResult::Longest(longest) => {
                format!("the longest match has {longest} of {length} symbols")
            }
            SearchResult::Matches(rows) if search.count => {
                format!("{rows} of {} match", outcome.rows)
            }
            SearchResult::Matches(0) => "no match".to_owned(),
            SearchResult::Matches(_) => "match".to_owned(),
        };
        let verified = if verified.is_some() {
            ", as in plaintext"
        } else {
            ""
        };
        format!(
            "{answer}{verified}\n{} in all, {} at the server and {} here; sent {}, received {}\n",
            seconds(outcome.elapsed),
            seconds(outcome.server),
            seconds(outcome.client),
            bytes(outcome.sent_bytes),
            bytes(outcome.received_bytes),
        ) + &match (outcome.sites_digest, pinned) {
            (Some(digest), false) => {
                format!("the server's list of sites, to pin: --sites-digest {digest}\n")
            }
            _ => String::new(),
        }
    })
}

/// Returns the search without its pattern, for a saved result.
fn search_of(search: &GenomeSearch, sites_digest: Option<Digest>) -> Value {
    let (within, kind) = match search.kind {
        Kind::Match { within } => (Some(within), "match"),
        Kind::Longest => (None, "longest"),
    };
    let mut value = json!({
        "kind": kind,
        "within": within,
        "count": search.count,
        "length": search.pattern.len(),
    });
    match &search.r#where {
        Where::Panel {
            name,
            place,
            decoys: Decoys(decoys),
            symbols,
            ..
        } => {
            value["panel"] = json!(name);
            value["position"] = json!(place.to_string());
            value["symbols"] = json!(match symbols {
                Symbols::Alleles => "alleles",
                Symbols::Bases => "bases",
            });
            value["decoys"] = json!(decoys);
            value["sites_digest"] = json!(sites_digest.map(|digest| digest.to_string()));
        }
        Where::Reference { name } => value["reference"] = json!(name),
    }
    value
}
