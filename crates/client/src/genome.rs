//! Searching genomes on a server that sees neither the query nor the answer.

use crate::Connection;
use crate::error::{ClientError, printable};
use oboro_genome::wire::Answer;
use oboro_genome::{Kind, Plan};
use oboro_genome_query::{Found, OwnQuery, Pattern};
use oboro_protocol::v1::genome_info::Shape;
use oboro_protocol::v1::search_reply::Reply;
use oboro_protocol::v1::search_request::Request as Asked;
use oboro_protocol::{MAX_WINDOWS, QUERY_CHUNK_BYTES, nonce, v1};
use prost::bytes::Bytes;
use rand::seq::{IndexedRandom, SliceRandom};
use std::collections::{BTreeMap, HashSet};
use std::fmt;
use std::pin::pin;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::Streaming;

const SEARCHING: &str = "searching";

/// What a server has of genomes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GenomeListing {
    /// Panels and references, by name.
    pub genomes: Vec<GenomeInfo>,
    /// What the server says of those that it finds damaged, a sentence for each.
    pub damaged: Vec<String>,
}

/// A panel or a reference.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GenomeInfo {
    /// Its name.
    pub name: String,
    /// Its size.
    pub shape: GenomeShape,
    /// The length of its file.
    pub stored_bytes: u64,
}

/// How large a collection is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GenomeShape {
    /// Aligned haplotypes.
    Panel {
        /// Rows.
        haplotypes: u32,
        /// Columns.
        sites: u32,
        /// The largest number of an allele; `None` if the symbols are bases.
        largest_allele: Option<u32>,
    },
    /// Sequences.
    Reference {
        /// How many.
        sequences: u32,
        /// All of them together.
        bases: u32,
    },
}

/// Where a query begins in a panel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// May be left out where the panel has one only, and must be in an alignment.
    pub chromosome: Option<String>,
    /// The position on it, or the column of an alignment, from 1.
    pub position: u64,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(chromosome) = &self.chromosome {
            write!(f, "{chromosome}:")?;
        }
        self.position.fmt(f)
    }
}

impl From<Place> for v1::Place {
    fn from(place: Place) -> Self {
        Self {
            chromosome: place.chromosome,
            position: place.position,
        }
    }
}

/// What a pattern's symbols are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Symbols {
    /// Numbers of alleles.
    Alleles,
    /// A, C, G, T.
    Bases,
}

/// How many other places a query is compared at, so that the server does not learn which is meant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Decoys(pub usize);

/// What a pattern is compared with.
#[derive(Debug, Clone)]
pub enum Where {
    /// All haplotypes of a panel at one place.
    Panel {
        /// The panel's name.
        name: String,
        /// Where the query begins.
        place: Place,
        /// Places that are searched besides.
        decoys: Decoys,
        /// What the panel should have.
        symbols: Symbols,
    },
    /// All offsets of a reference, on both strands.
    Reference {
        /// The reference's name.
        name: String,
    },
}

/// A question. Its pattern never leaves this machine in the clear.
pub struct Question {
    /// What is searched for.
    pub pattern: Pattern,
    /// Where.
    pub r#where: Where,
    /// How.
    pub kind: Kind,
    /// Whether rows count as often as they are there, which a server may refuse.
    pub count: bool,
}

/// An answer and what it took.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Outcome {
    /// What was found.
    pub found: Found,
    /// Rows that the query was compared with, padding included.
    pub rows: u64,
    /// Windows that were searched, decoys among them.
    pub windows: usize,
    /// Bytes of the encrypted query.
    pub sent_bytes: u64,
    /// Bytes of answers, those of decoys among them.
    pub received_bytes: u64,
    /// From question to answer.
    pub elapsed: Duration,
    /// Of that, what the server says it spent.
    pub server: Duration,
    /// What planning, encrypting and reading took here.
    pub client: Duration,
}

impl Connection {
    /// The panels and references that there are.
    ///
    /// # Errors
    /// As every call; an older server has none.
    pub fn genomes(&self) -> Result<GenomeListing, ClientError> {
        let mut client = self.genome_client();
        let reply = self.wait(async {
            let asked = client.list_genomes(v1::ListGenomesRequest {}).await;
            self.answer(asked, "listing genomes")
        })?;
        let genomes = reply.genomes.into_iter().map(info);
        Ok(GenomeListing {
            genomes: genomes.collect::<Result<_, _>>()?,
            damaged: reply.damaged.iter().map(|words| printable(words)).collect(),
        })
    }

    /// Asks a question; `progress` is told how many answers have arrived, of how many.
    ///
    /// # Errors
    /// A pattern or a place that does not fit the collection, a refusal, a server that does not keep to the
    /// protocol, or as every call.
    pub fn search(
        &self,
        question: &Question,
        progress: impl Fn(u64, u64),
    ) -> Result<Outcome, ClientError> {
        let begun = Instant::now();
        let (open, own) = self.opening(question)?;
        let windows = windows(&open);
        self.wait(async {
            // One message waits while the next is made.
            let (sender, receiver) = mpsc::channel::<v1::SearchRequest>(1);
            let mut client = self.genome_client();
            let (asked, _) = tokio::join!(
                client.search_genome(ReceiverStream::new(receiver)),
                sender.send(Asked::Open(open).into()),
            );
            let mut replies = self.answer(asked, SEARCHING)?;
            let Some(Reply::Opened(opened)) = next(&mut replies).await? else {
                return Err(ClientError::OutOfTurn(
                    "something before it opened the search",
                ));
            };
            let planning = Instant::now();
            let query = encrypt(question, &opened)?;
            let encoded = Bytes::from(query.encrypted().encode(query.plan()));
            let mut client_time = planning.elapsed();
            let mut receiving = pin!(receive(&mut replies, query.plan(), windows, own, &progress));
            // A server that wants no more of the query says why.
            let received = tokio::select! {
                received = &mut receiving => received?,
                () = send(encoded.clone(), sender) => receiving.await?,
            };
            let reading = Instant::now();
            let found = query.read(&received.answers)?;
            client_time += reading.elapsed();
            Ok(Outcome {
                found,
                rows: opened.rows,
                windows,
                sent_bytes: encoded.len() as u64,
                received_bytes: received.bytes,
                elapsed: begun.elapsed(),
                server: received.server,
                client: client_time,
            })
        })
    }

    /// The first message of a search, and which of its windows is meant.
    fn opening(&self, question: &Question) -> Result<(v1::OpenSearch, usize), ClientError> {
        let (name, r#where, own) = match &question.r#where {
            Where::Panel {
                name,
                place,
                decoys,
                symbols,
            } => {
                let (places, own) = self.hide(name, place, *decoys, question.pattern.len())?;
                let panel = v1::PanelSearch {
                    windows: places.into_iter().map(v1::Place::from).collect(),
                    bases: *symbols == Symbols::Bases,
                };
                (name, v1::open_search::Where::Panel(panel), own)
            }
            Where::Reference { name } => {
                let reference = v1::ReferenceSearch {};
                (name, v1::open_search::Where::Reference(reference), 0)
            }
        };
        let open = v1::OpenSearch {
            name: name.clone(),
            r#where: Some(r#where),
            length: u32::try_from(question.pattern.len()).unwrap_or(u32::MAX),
            kind: Some(question.kind.into()),
            count: question.count,
        };
        Ok((open, own))
    }

    /// Puts a place among decoys, all different and in random order; and its number there.
    fn hide(
        &self,
        name: &str,
        place: &Place,
        Decoys(decoys): Decoys,
        length: usize,
    ) -> Result<(Vec<Place>, usize), ClientError> {
        if decoys == 0 {
            return Ok((vec![place.clone()], 0));
        }
        let (mut own, mut others): (Vec<_>, Vec<_>) = self
            .beginnings(name, length)?
            .into_iter()
            .partition(|there| is_same(there, place));
        let own = match (own.pop(), own.is_empty()) {
            (Some(only), true) => only,
            _ => return Err(ClientError::NoSite(printable(&place.to_string()))),
        };
        if decoys > others.len().min(MAX_WINDOWS - 1) {
            return Err(ClientError::Decoys {
                wanted: decoys,
                there: others.len().min(MAX_WINDOWS - 1),
            });
        }
        let mut random = oboro_sample::fresh_generator()?;
        let mut places: Vec<Place> = others.sample(&mut random, decoys).cloned().collect();
        others.clear();
        places.push(own.clone());
        places.shuffle(&mut random);
        let number = places.iter().position(|there| *there == own);
        Ok((places, number.unwrap_or_default()))
    }

    /// The sites of a panel at which a query of `length` symbols can begin.
    fn beginnings(&self, name: &str, length: usize) -> Result<Vec<Place>, ClientError> {
        const DURING: &str = "listing sites";
        let request = v1::ListSitesRequest {
            name: name.to_owned(),
        };
        let mut client = self.genome_client();
        let mut replies =
            self.wait(async { self.answer(client.list_sites(request).await, DURING) })?;
        let mut chromosomes: Vec<Vec<Place>> = Vec::new();
        loop {
            let broken = |status| ClientError::from_status(&status, DURING);
            let reply = self.wait(async { replies.message().await.map_err(broken) })?;
            let Some(v1::SitesReply { chromosome, gaps }) = reply else {
                break;
            };
            let mut position = 0u64;
            let sites: Vec<Place> = gaps
                .into_iter()
                .map(|gap| {
                    position = position.saturating_add(gap);
                    Place {
                        chromosome: chromosome.clone(),
                        position,
                    }
                })
                .collect();
            match chromosomes.last_mut() {
                Some(last) if last.first().is_some_and(|it| it.chromosome == chromosome) => {
                    last.extend(sites);
                }
                _ => chromosomes.push(sites),
            }
        }
        let beginnings = chromosomes.into_iter().flat_map(|mut sites| {
            sites.truncate((sites.len() + 1).saturating_sub(length));
            sites
        });
        Ok(beginnings.collect())
    }
}

/// Whether a site is at a place that may leave its chromosome out.
fn is_same(site: &Place, place: &Place) -> bool {
    site.position == place.position
        && (place.chromosome.is_none() || site.chromosome == place.chromosome)
}

fn info(info: v1::GenomeInfo) -> Result<GenomeInfo, ClientError> {
    let shape = match info.shape {
        Some(Shape::Panel(panel)) => GenomeShape::Panel {
            haplotypes: panel.haplotypes,
            sites: panel.sites,
            largest_allele: (panel.largest_allele > 0).then_some(panel.largest_allele),
        },
        Some(Shape::Reference(reference)) => GenomeShape::Reference {
            sequences: reference.sequences,
            bases: reference.bases,
        },
        None => return Err(ClientError::OutOfTurn("a collection of an unknown kind")),
    };
    Ok(GenomeInfo {
        name: printable(&info.name),
        shape,
        stored_bytes: info.stored_bytes,
    })
}

fn windows(open: &v1::OpenSearch) -> usize {
    match &open.r#where {
        Some(v1::open_search::Where::Panel(panel)) => panel.windows.len(),
        _ => 1,
    }
}

fn broken(cause: &str) -> ClientError {
    ClientError::Broken {
        during: SEARCHING,
        cause: cause.to_owned(),
    }
}

/// Sends an encrypted query, in parts, as far as it is taken.
async fn send(encoded: Bytes, sender: mpsc::Sender<v1::SearchRequest>) {
    for start in (0..encoded.len()).step_by(QUERY_CHUNK_BYTES) {
        let end = encoded.len().min(start + QUERY_CHUNK_BYTES);
        let part = Asked::Query(encoded.slice(start..end));
        if sender.send(part.into()).await.is_err() {
            return;
        }
    }
}

async fn next(replies: &mut Streaming<v1::SearchReply>) -> Result<Option<Reply>, ClientError> {
    let reply = replies.message().await;
    let reply = reply.map_err(|status| ClientError::from_status(&status, SEARCHING))?;
    Ok(reply.and_then(|reply| reply.reply))
}

/// Plans as the server did, and encrypts under its nonce.
fn encrypt(question: &Question, opened: &v1::Opened) -> Result<OwnQuery, ClientError> {
    let unknown = ClientError::OutOfTurn("a number of symbols that no collection has");
    let symbols = u8::try_from(opened.symbols).map_err(|_| unknown)?;
    let length = u32::try_from(question.pattern.len()).unwrap_or(u32::MAX);
    let asked = oboro_genome::Question::new(length, symbols, opened.rows, question.kind)?;
    question.pattern.check(symbols)?;
    let plan = Plan::new(asked)?;
    if opened.plan != Some((&plan).into()) {
        return Err(ClientError::OtherPlan);
    }
    let nonce = nonce(&opened.nonce)?;
    Ok(OwnQuery::encrypt(
        Arc::new(plan),
        &question.pattern,
        &nonce,
    )?)
}

/// The answers of one window.
struct Received {
    answers: Vec<Answer>,
    bytes: u64,
    server: Duration,
}

/// Takes all answers, each once, and keeps those of window number `own`. Takes memory for what arrives, not
/// for what the server says will.
async fn receive(
    replies: &mut Streaming<v1::SearchReply>,
    plan: &Plan,
    windows: usize,
    own: usize,
    progress: &impl Fn(u64, u64),
) -> Result<Received, ClientError> {
    let each = plan.answers();
    let expected = each.saturating_mul(windows as u64);
    let mut seen = HashSet::new();
    let mut answers = BTreeMap::new();
    let mut bytes = 0;
    let done = loop {
        match next(replies).await? {
            Some(Reply::Answer(answer)) => {
                let window = answer.window as usize;
                if window >= windows || answer.number >= each {
                    return Err(ClientError::OutOfTurn("an answer that was not asked for"));
                }
                if !seen.insert((window, answer.number)) {
                    return Err(ClientError::OutOfTurn("an answer twice"));
                }
                let decoded = Answer::decode(&answer.answer, plan)?;
                if window == own {
                    answers.insert(answer.number, decoded);
                }
                bytes += answer.answer.len() as u64;
                progress(seen.len() as u64, expected);
            }
            Some(Reply::Done(done)) => break done,
            Some(Reply::Opened(_)) => return Err(ClientError::OutOfTurn("two beginnings")),
            None => return Err(broken("the answer ended early")),
        }
    };
    if seen.len() as u64 != expected {
        return Err(broken("answers are missing"));
    }
    match next(replies).await? {
        None => Ok(Received {
            answers: answers.into_values().collect(),
            bytes,
            server: Duration::from_micros(done.microseconds),
        }),
        Some(_) => Err(ClientError::OutOfTurn("more after the end")),
    }
}
