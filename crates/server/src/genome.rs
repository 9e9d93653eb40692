//! Genome search: the calls of the service and their validation.
//!
//! Neither a pattern nor what blinds an answer is ever logged or stored; names and positions are logged only for
//! debugging.

mod memory;
mod search;
mod shared;
mod windows;

use crate::blocking::blocking;
use crate::cache::CacheUse;
use crate::limits::{Admission, Limits};
use crate::options::GenomeOptions;
use crate::pool::Queue;
use crate::replies::Replies;
use crate::status;
use crate::writes::Writes;
pub(crate) use memory::FREE;
use memory::SearchMemory;
use oboro_edge::{Caller, Client, caller};
use oboro_format::Role;
use oboro_genome_server::{GenomeError, HaplotypePanel, Kind, Shape};
use oboro_protocol::v1::genome_server::Genome;
use oboro_protocol::{SITES_PER_MESSAGE, v1};
use oboro_residency::FairSemaphore;
use oboro_store::Store;
use parking_lot::Mutex;
use shared::{ResolvedCollection, SearchContext};
use std::pin::Pin;
use std::sync::Arc;
use tokio_stream::Stream;
use tonic::{Request, Response, Status, Streaming};
use windows::Windows;

/// Resources of the server that searches use.
#[derive(Clone)]
pub(crate) struct Genomes {
    shared: Arc<SearchContext>,
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
            shared: Arc::new(SearchContext {
                store,
                homes: Mutex::default(),
                writes,
                windows: Windows::new(options.cache),
                memory: SearchMemory::new(options.cache, release_memory),
                options,
                limits,
                queue,
                admission,
            }),
        }
    }
}

impl Genomes {
    /// Returns the collections that a caller may see, with its searches in them. Blocks.
    ///
    /// # Errors
    /// The caller may see none, or they cannot be listed.
    pub(crate) fn seen(&self, caller: &Caller) -> Result<Vec<VisibleCollection>, Status> {
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
                seen.push(VisibleCollection {
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

    /// Returns the use of the cache of windows.
    pub(crate) fn windows(&self) -> CacheUse {
        self.shared.windows.used()
    }

    /// Returns the memory of searches in progress.
    pub(crate) fn searching(&self) -> &FairSemaphore<Client> {
        self.shared.memory.shares()
    }
}

/// Collection as one caller sees it.
pub(crate) struct VisibleCollection {
    pub(crate) name: String,
    pub(crate) kind: Kind,
    pub(crate) bytes: u64,
    /// Number of the caller's counted searches.
    pub(crate) searches: Result<u64, GenomeError>,
    /// Maximum of them.
    pub(crate) budget: Option<u64>,
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
            let ResolvedCollection { home, name, .. } = shared.named(&caller, &name, Role::Read)?;
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

    type SearchGenomeStream = Replies<v1::SearchReply>;

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
        // The slot is held until this ends, even if the caller disconnects.
        let begin = move || Ok((shared.open(&caller, open)?, permit));
        let (search, permit) = blocking(begin).await?;
        let shared = Arc::clone(&self.shared);
        let replies = search::start(shared, client, search, requests, permit);
        Ok(Response::new(replies))
    }
}

/// Returns the sites of a chromosome from site number `first` on, as many as a message holds.
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
