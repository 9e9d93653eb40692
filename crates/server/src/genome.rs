//! Search in genomes: the calls of the service, and what may be asked.
//!
//! Neither a pattern nor what blinds an answer is ever logged or kept; names and positions are logged for
//! debugging only.

mod memory;
mod search;
mod windows;

use crate::blocking::blocking;
use crate::cache::CacheUse;
use crate::clients::{Caller, Client, caller};
use crate::limits::{Admission, Limits};
use crate::outbox::Outbox;
use crate::pool::Queue;
use crate::shares::Shares;
use crate::status;
use crate::writes::Writes;
pub(crate) use memory::FREE;
use memory::Memory;
use oboro_format::Role;
use oboro_format::wording::{
    ALLELES, COUNT, GENOME_CACHE, GENOME_COUNTS, GENOME_REFERENCE_LIMIT, MAX_MESSAGE, MAX_SEARCH,
    SEQUENCE,
};
use oboro_genome::wire::EncryptedQuery;
use oboro_genome::{Plan, SearchSpec};
use oboro_genome_server::{
    Alphabet, Budgets, Collections, GenomeError, HaplotypePanel, Info, Kind, Multiplicity, Shape,
    check_budget,
};
use oboro_protocol::v1::genome_server::Genome;
use oboro_protocol::v1::open_search::Where;
use oboro_protocol::{MAX_WINDOWS, SITES_PER_MESSAGE, kind, v1};
use oboro_ring::Nonce;
use oboro_store::{Store, StoreError};
use parking_lot::Mutex;
use search::Replies;
use std::collections::HashMap;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;
use tokio_stream::Stream;
use tonic::{Request, Response, Status, Streaming};
use windows::{Collection, WindowRows, Windows};

/// The operator's limits on genome searches.
#[derive(Debug, Clone)]
pub struct GenomeOptions {
    /// Whether callers may learn how many rows match, rather than whether there is one.
    pub counts: bool,
    /// Searches of each client in each collection; every window counts.
    pub budget: Option<u64>,
    /// The most bases of a reference that is searched.
    pub reference_limit: u64,
    /// Bytes of prepared windows kept for later searches. Searches in flight may take as much again; one that needs
    /// more gets both budgets for itself.
    pub cache: u64,
}

impl Default for GenomeOptions {
    fn default() -> Self {
        Self {
            counts: false,
            budget: None,
            reference_limit: 1_000_000,
            cache: 256 << 20,
        }
    }
}

/// What searches need of the server.
#[derive(Clone)]
pub(crate) struct Genomes {
    shared: Arc<Shared>,
}

struct Shared {
    store: Store,
    homes: Mutex<HashMap<PathBuf, Arc<Home>>>,
    /// Hears of counts that could not be written.
    writes: Arc<Writes>,
    options: GenomeOptions,
    limits: Limits,
    windows: Windows,
    memory: Memory,
    queue: Arc<Queue>,
    admission: Arc<Admission>,
}

/// The collections of a namespace, and what was searched in them.
struct Home {
    collections: Collections,
    budgets: Budgets,
}

/// A collection's name, where it is, and who asks.
struct Named {
    asker: Arc<str>,
    home: Arc<Home>,
    name: String,
}

impl Genomes {
    pub(crate) fn new(
        store: Store,
        writes: Arc<Writes>,
        options: GenomeOptions,
        limits: Limits,
        queue: Arc<Queue>,
        admission: Arc<Admission>,
        release_memory: fn(),
    ) -> Self {
        Self {
            shared: Arc::new(Shared {
                store,
                homes: Mutex::default(),
                writes,
                windows: Windows::new(options.cache),
                memory: Memory::new(options.cache, release_memory),
                options,
                limits,
                queue,
                admission,
            }),
        }
    }
}

impl Genomes {
    /// The collections that a caller may see, and what it searched in them. Blocks.
    ///
    /// # Errors
    /// It may see none, or they cannot be listed.
    pub(crate) fn seen(&self, caller: &Caller) -> Result<Vec<SeenCollection>, Status> {
        let shared = &self.shared;
        let access = shared.store.access_of(&caller.namespace, caller.roles);
        let visible = access.visible().map_err(|error| status::of_store(&error))?;
        let mut seen = Vec::new();
        for visible in visible {
            let home = shared.home(visible.home.clone());
            let listing = home.collections.list();
            let listing = listing.map_err(|error| status::of_genome(&error))?;
            let collections = listing.collections.into_iter();
            for info in collections.filter(|it| visible.has(&it.name)) {
                let kind = match info.shape {
                    Shape::Panel { .. } => Kind::Panel,
                    Shape::Reference { .. } => Kind::Reference,
                };
                let account = caller.client.account();
                seen.push(SeenCollection {
                    searches: home.budgets.spent(account, kind, &info.name),
                    name: format!("{}{}", visible.prefix, info.name),
                    kind,
                    bytes: info.bytes,
                    budget: shared.options.budget,
                });
            }
        }
        Ok(seen)
    }

    /// How the cache of windows is used.
    pub(crate) fn windows(&self) -> CacheUse {
        self.shared.windows.used()
    }

    /// The memory of searches in progress.
    pub(crate) fn searching(&self) -> &Shares {
        self.shared.memory.shares()
    }
}

/// A collection as one caller sees it.
pub(crate) struct SeenCollection {
    pub(crate) name: String,
    pub(crate) kind: Kind,
    pub(crate) bytes: u64,
    /// Its searches that are counted.
    pub(crate) searches: Result<u64, GenomeError>,
    /// The most of them.
    pub(crate) budget: Option<u64>,
}

/// A validated search.
struct Search {
    asker: Arc<str>,
    home: Arc<Home>,
    plan: Arc<Plan>,
    collection: Collection,
    /// One for each window.
    windows_rows: Vec<WindowRows>,
    multiplicity: Multiplicity,
    nonce: Nonce,
    /// Bytes for the query, a window and its evaluation.
    memory: u64,
    account: Option<Account>,
}

/// The account that the search is counted on.
struct Account {
    client: String,
    kind: Kind,
    name: String,
    searches: u64,
    budget: u64,
}

impl Account {
    /// Refuses a search that exceeds the budget.
    fn check(&self, budgets: &Budgets) -> Result<(), GenomeError> {
        let spent = budgets.spent(&self.client, self.kind, &self.name)?;
        check_budget(spent, self.searches, self.budget)
    }

    fn spend(&self, budgets: &Budgets) -> Result<(), GenomeError> {
        let Self {
            client,
            kind,
            name,
            searches,
            budget,
        } = self;
        budgets.spend(client, *kind, name, *searches, *budget)
    }
}

impl Shared {
    /// The collections of a namespace, by its directory.
    fn home(&self, directory: PathBuf) -> Arc<Home> {
        let mut homes = self.homes.lock();
        let home = homes.entry(directory).or_insert_with_key(|directory| {
            Arc::new(Home {
                collections: Collections::open(directory),
                budgets: Budgets::open(directory),
            })
        });
        Arc::clone(home)
    }

    /// The collection that a caller means, if its roles allow what it wants.
    fn named(&self, caller: &Caller, name: &str, role: Role) -> Result<Named, Status> {
        caller.subject.set_name(name);
        let access = self.store.access_of(&caller.namespace, caller.roles);
        let resolved = access.resolve(name, role).map_err(|error| match error {
            // What others have is as absent as what nobody has.
            StoreError::NoDataset { name } => no_such(&name),
            other => status::of_store(&other),
        })?;
        Ok(Named {
            asker: Arc::clone(access.namespace()),
            home: self.home(resolved.home),
            name: resolved.name,
        })
    }

    /// The collections that a caller may see, by the names that they have for it. Blocks.
    fn list(&self, caller: &Caller) -> Result<v1::ListGenomesReply, Status> {
        let access = self.store.access_of(&caller.namespace, caller.roles);
        let visible = access.visible().map_err(|error| status::of_store(&error))?;
        let mut reply = v1::ListGenomesReply::default();
        for visible in visible {
            let listing = self.home(visible.home.clone()).collections.list();
            let listing = listing.map_err(|error| status::of_genome(&error))?;
            for error in &listing.damaged {
                tracing::error!(%error, "storage");
            }
            let collections = listing.collections.into_iter();
            let seen = collections.filter(|it| visible.has(&it.name));
            reply.genomes.extend(seen.map(|mut it| {
                it.name.insert_str(0, &visible.prefix);
                info(it)
            }));
            if visible.prefix.is_empty() {
                let damaged = listing.damaged.iter();
                reply.damaged.extend(damaged.map(status::told_of_genome));
            }
        }
        Ok(reply)
    }

    /// Checks a search before any of it is done. Blocks.
    fn open(&self, caller: &Caller, request: v1::OpenSearch) -> Result<Search, Status> {
        let Named { asker, home, name } = self.named(caller, &request.name, Role::Count)?;
        let request = v1::OpenSearch { name, ..request };
        let length = request.length as usize;
        let kind = kind(request.kind).map_err(|error| status::of_field(&error))?;
        let multiplicity = self.multiplicity(request.count, kind)?;
        let (collection, windows_rows) = self.find(&home.collections, &request)?;
        let rows = collection.rows(length);
        if rows == 0 && length > 0 {
            return Err(Status::invalid_argument(format!(
                "no sequence of the reference is as long as the query of {length} bases; ask for fewer"
            )));
        }
        let spec = SearchSpec::new(request.length, collection.symbols(), rows, kind);
        let plan = spec
            .map_err(|error| Status::invalid_argument(error.to_string()))
            .and_then(|spec| {
                Plan::new(spec).map_err(|error| Status::resource_exhausted(error.to_string()))
            })?;
        self.check_size(&collection, &plan, windows_rows.len() as u64)?;
        let account = self.account(
            &caller.client,
            &request.name,
            &collection,
            windows_rows.len() as u64,
        );
        if let Some(account) = &account {
            let checked = account.check(&home.budgets);
            checked.map_err(|error| status::of_genome(&error))?;
        }
        let mut nonce = [0; 32];
        getrandom::fill(&mut nonce).map_err(no_randomness)?;
        Ok(Search {
            asker,
            home,
            memory: self.memory(&collection, &plan)?,
            plan: Arc::new(plan),
            collection,
            windows_rows,
            multiplicity,
            nonce: Nonce(nonce),
            account,
        })
    }

    fn multiplicity(&self, count: bool, kind: oboro_genome::Kind) -> Result<Multiplicity, Status> {
        match (count, kind) {
            (false, _) => Ok(Multiplicity::Once),
            (true, oboro_genome::Kind::Longest) => Err(Status::invalid_argument(
                "the longest beginning cannot be counted; ask for one of the two",
            )),
            (true, _) if self.options.counts => Ok(Multiplicity::Each),
            (true, _) => Err(Status::failed_precondition(format!(
                "this server does not tell how many rows match, because counts say more of its genomes than existence does; ask without {COUNT}, or ask its operator about {GENOME_COUNTS}",
            ))),
        }
    }

    /// The collection, and the requested rows.
    fn find(
        &self,
        collections: &Collections,
        request: &v1::OpenSearch,
    ) -> Result<(Collection, Vec<WindowRows>), Status> {
        let failed = |error: GenomeError| status::of_genome(&error);
        match &request.r#where {
            Some(Where::Panel(panel)) => {
                let of = collections.panel(&request.name).map_err(failed)?;
                check_alphabet(&of, panel.bases)?;
                check_sites(&of, panel.sites_digest.as_deref())?;
                check_windows(panel.windows.len())?;
                let sites = panel.windows.iter().map(|window| {
                    let length = request.length as usize;
                    of.sites_from(window.chromosome.as_deref(), window.position, length)
                });
                let windows_rows = sites
                    .map(|sites| sites.map(WindowRows::Sites).map_err(failed))
                    .collect::<Result<_, _>>()?;
                Ok((Collection::Panel(of), windows_rows))
            }
            Some(Where::Reference(_)) => {
                let info = collections.info(Kind::Reference, &request.name);
                self.check_reference(&info.map_err(failed)?, request)?;
                let of = collections.reference(&request.name).map_err(failed)?;
                let rows = WindowRows::Bases(request.length as usize);
                Ok((Collection::Reference(of), vec![rows]))
            }
            None => Err(Status::invalid_argument(
                "malformed message: the search names neither a panel nor a reference",
            )),
        }
    }

    /// Refuses references by their size before they are read.
    fn check_reference(&self, info: &Info, request: &v1::OpenSearch) -> Result<(), Status> {
        let most = self.options.reference_limit;
        let bases = match info.shape {
            Shape::Reference { bases, .. } => u64::from(bases),
            Shape::Panel { .. } => 0,
        };
        if bases <= most {
            return Ok(());
        }
        let bytes = kind(request.kind)
            .ok()
            .and_then(|kind| SearchSpec::new(request.length, 4, 2 * bases, kind).ok())
            .and_then(|spec| Plan::new(spec).ok())
            .map(|plan| format!("about {} bytes", plan.bytes()));
        let bytes = bytes.unwrap_or_else(|| "too many bytes".to_owned());
        Err(Status::failed_precondition(format!(
            "the reference has {bases} bases, and a search in it would send {bytes} both ways; this server searches references of up to {most} bases; search a smaller one, or ask its operator to raise {GENOME_REFERENCE_LIMIT}"
        )))
    }

    fn check_size(&self, collection: &Collection, plan: &Plan, windows: u64) -> Result<(), Status> {
        let query = EncryptedQuery::bytes(plan);
        let (most, message) = (self.limits.search_bytes, self.limits.message_bytes as u64);
        if query > message {
            return Err(Status::resource_exhausted(format!(
                "the encrypted query would take {query} bytes, but this server takes at most {message} for one; ask for a shorter one, or ask its operator to raise {MAX_MESSAGE}"
            )));
        }
        let answers = plan.answers().saturating_mul(plan.answer_bytes() as u64);
        let bytes = query.saturating_add(answers.saturating_mul(windows));
        if bytes > most {
            let rows = collection.rows(plan.spec().length() as usize);
            return Err(Status::resource_exhausted(format!(
                "a search of {windows} windows of {rows} rows would send {bytes} bytes both ways, but this server gives one at most {most}; ask for fewer mismatches, fewer decoys or a shorter query, or ask its operator to raise {MAX_SEARCH}"
            )));
        }
        Ok(())
    }

    /// Bytes that the search takes while in flight.
    fn memory(&self, collection: &Collection, plan: &Plan) -> Result<u64, Status> {
        let window = collection.preparation_bytes(plan.spec().length() as usize);
        let bytes = memory::bytes_of(plan, window);
        let most = self.options.cache.saturating_mul(2);
        if bytes <= most {
            Ok(bytes)
        } else {
            Err(Status::resource_exhausted(format!(
                "the search takes {bytes} bytes of memory, but this server has {most} for genomes; ask for a shorter query or fewer mismatches, or ask its operator to raise {GENOME_CACHE}"
            )))
        }
    }

    fn account(
        &self,
        client: &Client,
        name: &str,
        collection: &Collection,
        searches: u64,
    ) -> Option<Account> {
        Some(Account {
            client: client.account().to_owned(),
            kind: match collection {
                Collection::Panel(_) => Kind::Panel,
                Collection::Reference(_) => Kind::Reference,
            },
            name: name.to_owned(),
            searches,
            budget: self.options.budget?,
        })
    }
}

/// The refusal of a collection that is not there.
fn no_such(name: &str) -> Status {
    Status::not_found(format!(
        "there is no collection named {name:?} here; list the collections to see those that are"
    ))
}

fn no_randomness(error: getrandom::Error) -> Status {
    tracing::error!(%error, "the system gives no randomness");
    Status::internal("the server has no randomness to hide its genomes with; try again later")
}

fn check_alphabet(panel: &HaplotypePanel, bases: bool) -> Result<(), Status> {
    match (panel.alphabet(), bases) {
        (Alphabet::Bases, true) | (Alphabet::Alleles { .. }, false) => Ok(()),
        (Alphabet::Bases, false) => Err(Status::invalid_argument(format!(
            "the panel has bases, not alleles; ask with {SEQUENCE}"
        ))),
        (Alphabet::Alleles { .. }, true) => Err(Status::invalid_argument(format!(
            "the panel has alleles, not bases; ask with {ALLELES}"
        ))),
    }
}

/// Refuses a caller that expects a panel with other sites.
fn check_sites(panel: &HaplotypePanel, listed: Option<&[u8]>) -> Result<(), Status> {
    let digest = panel.sites_digest();
    match listed {
        Some(listed) if listed != digest.0 => Err(Status::failed_precondition(format!(
            "the panel has other sites than the caller listed, with digest {digest}: it was replaced meanwhile; ask again"
        ))),
        _ => Ok(()),
    }
}

fn check_windows(windows: usize) -> Result<(), Status> {
    if (1..=MAX_WINDOWS).contains(&windows) {
        Ok(())
    } else {
        Err(Status::invalid_argument(format!(
            "a search has 1 to {MAX_WINDOWS} windows, not {windows}; ask for fewer decoys"
        )))
    }
}

#[tonic::async_trait]
impl Genome for Genomes {
    async fn list_genomes(
        &self,
        request: Request<v1::ListGenomesRequest>,
    ) -> Result<Response<v1::ListGenomesReply>, Status> {
        let (caller, shared) = (caller(&request)?, Arc::clone(&self.shared));
        let reply = blocking(move || shared.list(&caller)).await?;
        Ok(Response::new(reply))
    }

    type ListSitesStream = Pin<Box<dyn Stream<Item = Result<v1::SitesReply, Status>> + Send>>;

    async fn list_sites(
        &self,
        request: Request<v1::ListSitesRequest>,
    ) -> Result<Response<Self::ListSitesStream>, Status> {
        let caller = caller(&request)?;
        let name = request.into_inner().name;
        tracing::debug!(name, "lists sites");
        let shared = Arc::clone(&self.shared);
        let panel = blocking(move || {
            let Named { home, name, .. } = shared.named(&caller, &name, Role::Read)?;
            let panel = home.collections.panel(&name);
            panel.map_err(|error| status::of_genome(&error))
        })
        .await?;
        let mut next = 0;
        let replies = std::iter::from_fn(move || {
            let reply = (next < panel.sites()).then(|| sites(&panel, next))?;
            next += reply.gaps.len();
            Some(Ok(reply))
        });
        Ok(Response::new(Box::pin(tokio_stream::iter(replies))))
    }

    type SearchGenomeStream = Replies;

    async fn search_genome(
        &self,
        request: Request<Streaming<v1::SearchRequest>>,
    ) -> Result<Response<Self::SearchGenomeStream>, Status> {
        let caller = caller(&request)?;
        let mut requests = request.into_inner();
        let Some(v1::search_request::Request::Open(open)) = search::next(&mut requests).await?
        else {
            return Err(Status::invalid_argument(
                "the first message of a search must say what is searched",
            ));
        };
        tracing::debug!(name = open.name, length = open.length, r#where = ?open.r#where, "searches");
        let permit = self
            .shared
            .admission
            .admit(&caller, ("SearchGenome", &open.name))
            .await?;
        let shared = Arc::clone(&self.shared);
        let client = caller.client.clone();
        // The place is held until that has ended, even if the caller goes.
        let begin = move || Ok((shared.open(&caller, open)?, permit));
        let (search, permit) = blocking(begin).await?;
        let outbox = Arc::new(Outbox::new());
        let shared = Arc::clone(&self.shared);
        let replies = search::start(shared, client, search, requests, outbox, permit);
        Ok(Response::new(replies))
    }
}

fn info(info: Info) -> v1::GenomeInfo {
    let shape = match info.shape {
        Shape::Panel {
            haplotypes,
            sites,
            alphabet,
        } => v1::genome_info::Shape::Panel(v1::PanelShape {
            haplotypes,
            sites,
            largest_allele: match alphabet {
                Alphabet::Alleles { largest } => largest.into(),
                Alphabet::Bases => 0,
            },
        }),
        Shape::Reference { sequences, bases } => {
            v1::genome_info::Shape::Reference(v1::ReferenceShape { sequences, bases })
        }
    };
    v1::GenomeInfo {
        name: info.name,
        shape: Some(shape),
        stored_bytes: info.bytes,
    }
}

/// The sites of a chromosome from site number `first` on, as many as a message holds.
fn sites(panel: &HaplotypePanel, first: usize) -> v1::SitesReply {
    let chromosome = panel.site_at(first).chromosome;
    let mut before = 0;
    let gaps = (first..panel.sites())
        .map(|number| panel.site_at(number))
        .take_while(|site| site.chromosome == chromosome)
        .take(SITES_PER_MESSAGE)
        .map(|site| site.position - std::mem::replace(&mut before, site.position));
    v1::SitesReply {
        gaps: gaps.collect(),
        chromosome: chromosome.map(str::to_owned),
    }
}
