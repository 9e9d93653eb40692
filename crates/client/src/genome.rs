//! Genome search on a server that sees neither the query nor the answer.

use crate::Connection;
use crate::error::{ClientError, printable};
use oboro_format::Digest;
use oboro_genome::wire::Answer;
use oboro_genome::{Kind, MAX_SITES, Plan, sites_digest};
use oboro_protocol::v1::genome_info::Shape;
use oboro_protocol::v1::search_reply::Reply;
use oboro_protocol::v1::search_request::Request as Asked;
use oboro_protocol::{MAX_SITE_RUNS, MAX_WINDOWS, QUERY_CHUNK_BYTES, SITES_PER_MESSAGE, nonce, v1};
use prost::Message;
use prost::bytes::Bytes;
use rand::SeedableRng;
use rand::rngs::ChaCha20Rng;
use rand::seq::SliceRandom;
use std::collections::BTreeMap;
use std::fmt;
use std::pin::pin;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::Streaming;
use zeroize::Zeroizing;

pub(crate) mod query;
pub(crate) mod reading;

pub use query::{Pattern, PatternError};
pub use reading::{EncryptError, OwnQuery, ReadError, SearchResult};

const SEARCHING: &str = "searching";

/// Maximum number of bytes of a search's answers, all of which are held until the last has arrived. It is four times
/// the default limit of a server.
const MAX_ANSWER_BYTES: u64 = 4 << 30;

/// Genomes of a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GenomeListing {
    /// Panels and references, by name.
    pub genomes: Vec<GenomeInfo>,
    /// Sentence for each one that the server found damaged.
    pub damaged: Vec<String>,
}

/// Panel or reference.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GenomeInfo {
    /// Name of the collection.
    pub name: String,
    /// Size of the collection.
    pub shape: GenomeShape,
    /// Length of its file in bytes.
    pub stored_bytes: u64,
}

/// Size of a collection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GenomeShape {
    /// Aligned haplotypes.
    Panel {
        /// Rows.
        haplotypes: u32,
        /// Columns.
        sites: u32,
        /// Highest allele number; `None` if the symbols are bases.
        largest_allele: Option<u32>,
    },
    /// Sequences.
    Reference {
        /// Number of sequences.
        sequences: u32,
        /// Number of bases in all sequences.
        bases: u32,
    },
}

/// First site of a query in a panel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GenomicPosition {
    /// Chromosome; optional if the panel has only one, required for an alignment.
    pub chromosome: Option<String>,
    /// Position on the chromosome, or column of an alignment, counted from 1.
    pub position: u64,
}

impl fmt::Display for GenomicPosition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(chromosome) = &self.chromosome {
            write!(f, "{chromosome}:")?;
        }
        self.position.fmt(f)
    }
}

impl From<GenomicPosition> for v1::GenomicPosition {
    fn from(place: GenomicPosition) -> Self {
        Self {
            chromosome: place.chromosome,
            position: place.position,
        }
    }
}

/// Alphabet of a pattern.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Symbols {
    /// Allele numbers.
    Alleles,
    /// A, C, G, T.
    Bases,
}

/// Number of other positions to search, which hide the real one from the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Decoys(pub usize);

/// Target of a search.
#[derive(Debug, Clone)]
pub enum Where {
    /// All haplotypes of a panel at one position.
    Panel {
        /// Name of the panel.
        name: String,
        /// First site of the query.
        place: GenomicPosition,
        /// Number of additional positions.
        decoys: Decoys,
        /// Expected alphabet of the panel.
        symbols: Symbols,
        /// Expected digest of the panel's sites; `None` to trust the server for them.
        sites_digest: Option<Digest>,
    },
    /// All offsets of a reference, on both strands.
    Reference {
        /// Name of the reference.
        name: String,
    },
}

/// Search. Its pattern never leaves this machine in the clear.
pub struct GenomeSearch {
    /// Pattern to search for.
    pub pattern: Pattern,
    /// Target of the search.
    pub r#where: Where,
    /// Kind of comparison.
    pub kind: Kind,
    /// `true` to count identical rows separately, which a server may refuse.
    pub count: bool,
}

/// Result of a search and its cost.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Outcome {
    /// Matches.
    pub found: SearchResult,
    /// Number of rows compared with the query, padding included.
    pub rows: u64,
    /// Number of windows searched, decoys included.
    pub windows: usize,
    /// Digest of the panel's sites, if they were listed: for decoys, or to check the digest.
    pub sites_digest: Option<Digest>,
    /// Bytes of the encrypted query.
    pub sent_bytes: u64,
    /// Bytes of the answers, decoys included.
    pub received_bytes: u64,
    /// Time from the search to its result.
    pub elapsed: Duration,
    /// Server's time, as it reports it; part of `elapsed`.
    pub server: Duration,
    /// Time spent here on planning, encrypting and reading.
    pub client: Duration,
}

impl Connection {
    /// Lists the panels and references.
    ///
    /// # Errors
    /// As every call; older servers do not support it.
    pub fn genomes(&self) -> Result<GenomeListing, ClientError> {
        let reply = self.again(|| {
            self.wait(async {
                let mut client = self.genome_client();
                let asked = client.list_genomes(v1::ListGenomesRequest {}).await;
                self.answer(asked, "listing genomes")
            })
        })?;
        let genomes = reply.genomes.into_iter().map(info);
        Ok(GenomeListing {
            genomes: genomes.collect::<Result<_, _>>()?,
            damaged: reply.damaged.iter().map(|words| printable(words)).collect(),
        })
    }

    /// Runs a search; `progress` receives the number of answers so far and in total.
    ///
    /// # Errors
    /// A pattern or position that does not fit the collection, a refusal, a server that violates the protocol, or as
    /// every call.
    pub fn search(
        &self,
        search: &GenomeSearch,
        progress: impl Fn(u64, u64),
    ) -> Result<Outcome, ClientError> {
        let begun = Instant::now();
        let SearchStart {
            open,
            own,
            sites_digest,
        } = self.opening(search)?;
        let windows = windows(&open);
        let opening = open.encode_length_delimited_to_vec();
        // Retry only the opening: the query is encrypted for the nonce in the answer.
        let (sender, mut replies, opened) =
            self.when_free(|| self.wait(self.open_search(&open)))?;
        self.wait(async {
            let planning = Instant::now();
            let query = encrypt(search, &opening, &opened, windows)?;
            let encoded = Bytes::from(query.encrypted().encode(query.plan()));
            let mut client_time = planning.elapsed();
            let mut receiving = pin!(receive(&mut replies, query.plan(), windows, &progress));
            // If a server stops reading the query, its answer says why.
            let received = tokio::select! {
                received = &mut receiving => received?,
                () = send(encoded.clone(), sender) => receiving.await?,
            };
            let reading = Instant::now();
            let found = query.read(&received.answers, windows, own)?;
            client_time += reading.elapsed();
            Ok(Outcome {
                found,
                rows: opened.rows,
                windows,
                sites_digest,
                sent_bytes: encoded.len() as u64,
                received_bytes: received.bytes,
                elapsed: begun.elapsed(),
                server: received.server,
                client: client_time,
            })
        })
    }

    /// Opens a search; returns the sender of the query, the stream of answers, and the first answer.
    async fn open_search(
        &self,
        open: &v1::OpenSearch,
    ) -> Result<
        (
            mpsc::Sender<v1::SearchRequest>,
            Streaming<v1::SearchReply>,
            v1::Opened,
        ),
        ClientError,
    > {
        // One message is queued while the next one is encoded.
        let (sender, receiver) = mpsc::channel::<v1::SearchRequest>(1);
        let mut client = self.genome_client();
        let (asked, _) = tokio::join!(
            client.search_genome(ReceiverStream::new(receiver)),
            sender.send(Asked::Open(open.clone()).into()),
        );
        let mut replies = self.answer(asked, SEARCHING)?;
        match next(&mut replies).await? {
            Some(Reply::Opened(opened)) => Ok((sender, replies, opened)),
            _ => Err(ClientError::OutOfTurn(
                "something before it opened the search",
            )),
        }
    }

    /// Builds the first message of a search. Sites are listed for decoys, or to check a digest.
    fn opening(&self, search: &GenomeSearch) -> Result<SearchStart, ClientError> {
        let (name, r#where, own, sites_digest) = match &search.r#where {
            Where::Panel {
                name,
                place,
                decoys,
                symbols,
                sites_digest: pinned,
            } => {
                let listed = match (decoys, pinned) {
                    (Decoys(0), None) => None,
                    _ => Some(self.sites(name)?),
                };
                let digest = listed.as_ref().map(|sites| sites.digest());
                if let (Some(pinned), Some(found)) = (*pinned, digest)
                    && pinned != found
                {
                    let panel = printable(name);
                    return Err(ClientError::OtherSites {
                        panel,
                        pinned,
                        found,
                    });
                }
                let (places, own) = match listed {
                    Some(sites) => {
                        let mut randomness = Zeroizing::new([0; 32]);
                        getrandom::fill(&mut *randomness)?;
                        hide(&sites, search.pattern.len(), place, *decoys, &randomness)?
                    }
                    None => (vec![place.clone()], 0),
                };
                let panel = v1::PanelSearch {
                    windows: places.into_iter().map(v1::GenomicPosition::from).collect(),
                    bases: *symbols == Symbols::Bases,
                    sites_digest: digest.map(|digest| digest.0.to_vec().into()),
                };
                let r#where = v1::open_search::Where::Panel(panel);
                (name, r#where, own, digest)
            }
            Where::Reference { name } => {
                let reference = v1::ReferenceSearch {};
                let r#where = v1::open_search::Where::Reference(reference);
                (name, r#where, 0, None)
            }
        };
        let open = v1::OpenSearch {
            name: name.clone(),
            r#where: Some(r#where),
            length: u32::try_from(search.pattern.len()).unwrap_or(u32::MAX),
            kind: Some(search.kind.into()),
            count: search.count,
        };
        Ok(SearchStart {
            open,
            own,
            sites_digest,
        })
    }

    /// Fetches all sites of a panel.
    fn sites(&self, name: &str) -> Result<Sites, ClientError> {
        const DURING: &str = "listing sites";
        let request = v1::ListSitesRequest {
            name: name.to_owned(),
        };
        let mut replies = self.again(|| {
            self.wait(async {
                let asked = self.genome_client().list_sites(request.clone()).await;
                self.answer(asked, DURING)
            })
        })?;
        let mut sites = Sites::default();
        loop {
            let broken = |status| ClientError::from_status(&status, DURING);
            let reply = self.wait(async { replies.message().await.map_err(broken) })?;
            let Some(reply) = reply else {
                return Ok(sites);
            };
            let is_taken = sites.take(reply);
            is_taken.ok_or(ClientError::OutOfTurn("a list of sites that no panel has"))?;
        }
    }
}

/// Start of a search.
struct SearchStart {
    /// First message of the search.
    open: v1::OpenSearch,
    /// Index of the real window.
    own: usize,
    /// Digest of the sites, if they were listed.
    sites_digest: Option<Digest>,
}

/// Sites of a panel: runs of one chromosome each.
#[derive(Default)]
struct Sites(Vec<SiteRun>);

/// Consecutive sites of one chromosome.
struct SiteRun {
    chromosome: Option<String>,
    positions: Vec<u64>,
}

impl Sites {
    /// Adds the sites of a message; `None` if no valid panel has them.
    fn take(&mut self, message: v1::SitesReply) -> Option<()> {
        /// Maximum length of a chromosome's name in bytes.
        const MAX_NAME: usize = 255;
        let v1::SitesReply { chromosome, gaps } = message;
        // Either would let the server split chromosomes at will under an unchanged digest. It could then choose the
        // possible starts of queries, and thus the decoys.
        let is_no_name = |name: &str| name.is_empty() || name.len() > MAX_NAME;
        if gaps.is_empty()
            || gaps.len() > SITES_PER_MESSAGE
            || chromosome.as_deref().is_some_and(is_no_name)
            || self.len() + gaps.len() > MAX_SITES as usize
        {
            return None;
        }
        let mut position = 0u64;
        let positions = gaps.into_iter().map(|gap| {
            position = position.saturating_add(gap);
            position
        });
        let runs = self.0.len();
        match self.0.last_mut() {
            Some(last) if last.chromosome == chromosome => last.positions.extend(positions),
            _ if runs == MAX_SITE_RUNS => return None,
            _ => self.0.push(SiteRun {
                chromosome,
                positions: positions.collect(),
            }),
        }
        Some(())
    }

    fn len(&self) -> usize {
        self.0.iter().map(|run| run.positions.len()).sum()
    }

    fn digest(&self) -> Digest {
        let sites = self.0.iter().flat_map(|run| {
            let chromosome = run.chromosome.as_deref();
            run.positions.iter().map(move |&it| (chromosome, it))
        });
        Digest(sites_digest(sites))
    }

    /// Returns the positions of each run at which a query of `length` symbols can begin.
    fn beginnings(&self, length: usize) -> impl Iterator<Item = (&SiteRun, &[u64])> {
        self.0.iter().map(move |run| {
            let most = (run.positions.len() + 1).saturating_sub(length);
            (run, &run.positions[..most.min(run.positions.len())])
        })
    }
}

/// Places a position among distinct decoys in random order; returns all, and its index. The draw depends on the
/// position. A generator may repeat its randomness, as after a rollback of a virtual machine. Then two positions still
/// do not share their decoys, which would reveal both.
fn hide(
    sites: &Sites,
    length: usize,
    place: &GenomicPosition,
    Decoys(decoys): Decoys,
    randomness: &[u8; 32],
) -> Result<(Vec<GenomicPosition>, usize), ClientError> {
    let (mut count, mut found) = (0, Vec::new());
    for (run, positions) in sites.beginnings(length) {
        if place.chromosome.is_none() || run.chromosome == place.chromosome {
            let each = positions.iter().enumerate();
            let same = each.filter(|(_, position)| **position == place.position);
            found.extend(same.map(|(at, _)| count + at));
        }
        count += positions.len();
    }
    let &[own] = &found[..] else {
        return Err(ClientError::NoSite(printable(&place.to_string())));
    };
    let there = (count - 1).min(MAX_WINDOWS - 1);
    if decoys > there {
        return Err(ClientError::Decoys {
            wanted: decoys,
            there,
        });
    }
    // Returns the position with this number among all possible starts.
    let beginning = |number: usize| {
        let mut before = 0;
        for (run, positions) in sites.beginnings(length) {
            if let Some(&position) = positions.get(number - before) {
                let chromosome = run.chromosome.clone();
                return Some(GenomicPosition {
                    chromosome,
                    position,
                });
            }
            before += positions.len();
        }
        None
    };
    let own_place = beginning(own).ok_or_else(|| ClientError::NoSite(place.to_string()))?;
    let purpose = Digest::of(own_place.to_string().as_bytes());
    let mut random = ChaCha20Rng::from_seed(*oboro_ring::sample::seed(randomness, &[&purpose.0]));
    // Numbers of the others: those above the real one are one higher.
    let others = rand::seq::index::sample(&mut random, count - 1, decoys);
    let mut numbers: Vec<usize> = others
        .iter()
        .map(|it| it + usize::from(it >= own))
        .collect();
    numbers.push(own);
    numbers.shuffle(&mut random);
    let number = numbers.iter().position(|&it| it == own);
    let places = numbers.into_iter().filter_map(beginning).collect();
    Ok((places, number.unwrap_or_default()))
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

/// Sends an encrypted query in chunks until done or the receiver closes.
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

/// Computes the server's plan, and encrypts under its nonce; `opening` is the first message of the search.
fn encrypt(
    search: &GenomeSearch,
    opening: &[u8],
    opened: &v1::Opened,
    windows: usize,
) -> Result<OwnQuery, ClientError> {
    let unknown = ClientError::OutOfTurn("a number of symbols that no collection has");
    let symbols = u8::try_from(opened.symbols).map_err(|_| unknown)?;
    let length = u32::try_from(search.pattern.len()).unwrap_or(u32::MAX);
    let asked = oboro_genome::SearchSpec::new(length, symbols, opened.rows, search.kind)?;
    search.pattern.check(symbols)?;
    let plan = Plan::new(asked)?;
    if opened.plan != Some((&plan).into()) {
        return Err(ClientError::OtherPlan);
    }
    let bytes = plan.answers().saturating_mul(plan.answer_bytes() as u64);
    let bytes = bytes.saturating_mul(windows as u64);
    if bytes > MAX_ANSWER_BYTES {
        return Err(ClientError::LargeSearch { bytes });
    }
    let nonce = nonce(&opened.nonce)?;
    let about = [opening, &opened.encode_length_delimited_to_vec()].concat();
    Ok(OwnQuery::encrypt(
        Arc::new(plan),
        &search.pattern,
        &nonce,
        &about,
    )?)
}

/// Answers of all windows.
struct WindowAnswers {
    /// Encoded answers: those of the first window in order, then those of the next.
    answers: Vec<Bytes>,
    bytes: u64,
    server: Duration,
}

/// Receives each answer exactly once. Allocates for received data, never for announced sizes.
///
/// The server observes the pace at which a client takes bytes. The function therefore stores the answers of all windows
/// undecoded, and does not know which window is the real one.
async fn receive(
    replies: &mut Streaming<v1::SearchReply>,
    plan: &Plan,
    windows: usize,
    progress: &impl Fn(u64, u64),
) -> Result<WindowAnswers, ClientError> {
    let each = plan.answers();
    let expected = each.saturating_mul(windows as u64);
    let mut answers = BTreeMap::new();
    let mut bytes = 0;
    let done = loop {
        match next(replies).await? {
            Some(Reply::Answer(answer)) => {
                let window = answer.window as usize;
                if window >= windows || answer.number >= each {
                    return Err(ClientError::OutOfTurn("an answer that was not asked for"));
                }
                Answer::check_length(&answer.answer, plan)?;
                bytes += answer.answer.len() as u64;
                if (answers.insert((window, answer.number), answer.answer)).is_some() {
                    return Err(ClientError::OutOfTurn("an answer twice"));
                }
                progress(answers.len() as u64, expected);
            }
            Some(Reply::Done(done)) => break done,
            Some(Reply::Opened(_)) => return Err(ClientError::OutOfTurn("two beginnings")),
            None => return Err(broken("the answer ended early")),
        }
    };
    if answers.len() as u64 != expected {
        return Err(broken("answers are missing"));
    }
    match next(replies).await? {
        None => Ok(WindowAnswers {
            answers: answers.into_values().collect(),
            bytes,
            server: Duration::from_micros(done.microseconds),
        }),
        Some(_) => Err(ClientError::OutOfTurn("more after the end")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    fn places() -> Vec<GenomicPosition> {
        let place = |position| GenomicPosition {
            chromosome: Some("7".to_owned()),
            position,
        };
        (1..=1000).map(place).collect()
    }

    /// Returns the decoys for a position, in order, and the position's index among them.
    fn decoys(position: u64, randomness: u8) -> (Vec<u64>, usize) {
        let place = GenomicPosition {
            chromosome: None,
            position,
        };
        let mut sites = Sites::default();
        let mut gaps = vec![1; 1000];
        gaps.extend(vec![1; 7]);
        let message = |gaps| v1::SitesReply {
            chromosome: Some("7".to_owned()),
            gaps,
        };
        sites.take(message(gaps)).unwrap();
        // A query of eight symbols cannot begin at the last seven sites.
        let hidden = hide(&sites, 8, &place, Decoys(20), &[randomness; 32]);
        let (places, number) = hidden.unwrap();
        assert_eq!(places[number].position, position);
        let others = places.into_iter().map(|place| place.position);
        let mut others: Vec<u64> = others.filter(|&other| other != position).collect();
        others.sort_unstable();
        others.dedup();
        assert_eq!(others.len(), 20);
        (others, number)
    }

    #[test]
    fn a_rolled_back_client_draws_other_decoys_for_another_place() {
        let first = decoys(500, 1);
        // An equal position gets equal decoys again, which reveal nothing more.
        assert_eq!(decoys(500, 1), first);
        for other in [decoys(501, 1), decoys(999, 1), decoys(500, 2)] {
            let common = other.0.iter().filter(|it| first.0.contains(it)).count();
            assert!(common < 6, "{common} decoys in common");
        }
    }

    #[test]
    fn lists_of_sites_are_bounded() {
        let message = |chromosome: &str, sites: usize| v1::SitesReply {
            chromosome: Some(chromosome.to_owned()),
            gaps: vec![1; sites],
        };
        let most = SITES_PER_MESSAGE;
        for (bad, why) in [
            (message("7", 0), "no sites"),
            (message("7", most + 1), "too many in a message"),
            (message("", 1), "no name"),
            (message(&"7".repeat(256), 1), "a long name"),
        ] {
            assert!(Sites::default().take(bad).is_none(), "{why}");
        }
        let mut sites = Sites::default();
        for _ in 0..MAX_SITES as usize / most {
            sites.take(message(&"7".repeat(255), most)).unwrap();
        }
        // The name is stored once, whatever its length.
        assert_eq!((sites.0.len(), sites.len()), (1, MAX_SITES as usize));
        assert!(sites.take(message("8", 1)).is_none());
        let mut runs = Sites::default();
        for run in 0..MAX_SITE_RUNS {
            runs.take(message(["1", "2"][run % 2], 1)).unwrap();
        }
        assert!(runs.take(message("3", 1)).is_none());
    }

    #[test]
    fn what_a_query_is_about_has_bytes_of_its_own() {
        let open = |change: fn(&mut v1::OpenSearch, &mut v1::PanelSearch)| {
            let mut open = v1::OpenSearch {
                name: "small".to_owned(),
                length: 8,
                kind: Some(Kind::Match { within: 0 }.into()),
                ..v1::OpenSearch::default()
            };
            let mut panel = v1::PanelSearch {
                windows: vec![places()[9].clone().into()],
                bases: false,
                sites_digest: None,
            };
            change(&mut open, &mut panel);
            open.r#where = Some(v1::open_search::Where::Panel(panel));
            open.encode_length_delimited_to_vec()
        };
        let all = [
            open(|_, _| {}),
            open(|open, _| open.name = "other".to_owned()),
            open(|open, _| open.length = 9),
            open(|open, _| open.kind = Some(Kind::Longest.into())),
            open(|open, _| open.count = true),
            open(|_, panel| panel.windows[0].position = 11),
            open(|_, panel| panel.windows[0].chromosome = Some("8".to_owned())),
            open(|_, panel| panel.windows.push(places()[1].clone().into())),
            open(|_, panel| panel.sites_digest = Some(vec![1; 32].into())),
            open(|_, panel| panel.sites_digest = Some(vec![2; 32].into())),
        ];
        assert_eq!(all.iter().collect::<HashSet<_>>().len(), all.len());
    }
}
