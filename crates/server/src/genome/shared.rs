//! What searches share, and the checks of a search before any of it is done.

use super::memory::{self, SearchMemory};
use super::windows::{Collection, WindowRows, Windows};
use crate::limits::{Admission, Limits};
use crate::options::GenomeOptions;
use crate::pool::Queue;
use crate::status;
use crate::writes::Writes;
use oboro_edge::{Caller, Client};
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
use oboro_protocol::v1::open_search::Where;
use oboro_protocol::{MAX_WINDOWS, kind, v1};
use oboro_ring::Nonce;
use oboro_store::{Store, StoreError};
use parking_lot::Mutex;
use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;
use tonic::Status;

/// What all searches share.
pub(super) struct SearchContext {
    pub(super) store: Store,
    pub(super) homes: Mutex<HashMap<PathBuf, Arc<Home>>>,
    /// Notified of counts that could not be written.
    pub(super) writes: Arc<Writes>,
    pub(super) options: GenomeOptions,
    pub(super) limits: Limits,
    pub(super) windows: Windows,
    pub(super) memory: SearchMemory,
    pub(super) queue: Arc<Queue>,
    pub(super) admission: Arc<Admission>,
}

/// Collections of a namespace, with the counts of searches in them.
pub(super) struct Home {
    pub(super) collections: Collections,
    pub(super) budgets: Budgets,
}

/// Resolved name of a collection, with its home and the caller.
pub(super) struct ResolvedCollection {
    pub(super) asker: Arc<str>,
    pub(super) home: Arc<Home>,
    pub(super) name: String,
}

/// A validated search.
pub(super) struct Search {
    pub(super) asker: Arc<str>,
    pub(super) home: Arc<Home>,
    pub(super) plan: Arc<Plan>,
    pub(super) collection: Collection,
    /// One for each window.
    pub(super) windows_rows: Vec<WindowRows>,
    pub(super) multiplicity: Multiplicity,
    pub(super) nonce: Nonce,
    /// Bytes for the query, a window and its evaluation.
    pub(super) memory: u64,
    pub(super) account: Option<Account>,
}

/// Account that the search is charged to.
pub(super) struct Account {
    pub(super) client: String,
    pub(super) kind: Kind,
    pub(super) name: String,
    pub(super) searches: u64,
    pub(super) budget: u64,
}

impl Account {
    /// Refuses a search that exceeds the budget.
    pub(super) fn check(&self, budgets: &Budgets) -> Result<(), GenomeError> {
        let spent = budgets.spent(&self.client, self.kind, &self.name)?;
        check_budget(spent, self.searches, self.budget)
    }

    pub(super) fn spend(&self, budgets: &Budgets) -> Result<(), GenomeError> {
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

impl SearchContext {
    /// Returns the collections of a namespace, by its directory.
    pub(super) fn home(&self, directory: PathBuf) -> Arc<Home> {
        let mut homes = self.homes.lock();
        let home = homes.entry(directory).or_insert_with_key(|directory| {
            Arc::new(Home {
                collections: Collections::open(directory),
                budgets: Budgets::open(directory),
            })
        });
        Arc::clone(home)
    }

    /// Resolves the name of a collection, if the caller has the required role.
    pub(super) fn named(
        &self,
        caller: &Caller,
        name: &str,
        role: Role,
    ) -> Result<ResolvedCollection, Status> {
        caller.subject.set_name(name);
        let access = self.store.access_of(&caller.namespace, caller.roles);
        let resolved = access.resolve(name, role).map_err(|error| match error {
            // A collection of another owner looks like a missing one.
            StoreError::NoDataset { name } => no_such(&name),
            other => status::of_store(&other),
        })?;
        Ok(ResolvedCollection {
            asker: Arc::clone(access.namespace()),
            home: self.home(resolved.home),
            name: resolved.name,
        })
    }

    /// Lists the collections that a caller may see, under the caller's names for them. Blocks.
    pub(super) fn list(&self, caller: &Caller) -> Result<v1::ListGenomesReply, Status> {
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
                reply.damaged.extend(damaged.map(status::genome_message));
            }
        }
        Ok(reply)
    }

    /// Validates a search. Blocks.
    pub(super) fn open(&self, caller: &Caller, request: v1::OpenSearch) -> Result<Search, Status> {
        let ResolvedCollection { asker, home, name } =
            self.named(caller, &request.name, Role::Count)?;
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

    pub(super) fn multiplicity(
        &self,
        count: bool,
        kind: oboro_genome::Kind,
    ) -> Result<Multiplicity, Status> {
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

    /// Returns the collection and the requested rows.
    pub(super) fn find(
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
    pub(super) fn check_reference(
        &self,
        info: &Info,
        request: &v1::OpenSearch,
    ) -> Result<(), Status> {
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

    pub(super) fn check_size(
        &self,
        collection: &Collection,
        plan: &Plan,
        windows: u64,
    ) -> Result<(), Status> {
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

    /// Returns the bytes that the search takes while in flight.
    pub(super) fn memory(&self, collection: &Collection, plan: &Plan) -> Result<u64, Status> {
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

    pub(super) fn account(
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

/// Returns the error for a missing collection.
fn no_such(name: &str) -> Status {
    Status::not_found(format!(
        "there is no collection named {name:?} here; list the collections to see those that are"
    ))
}

pub(super) fn no_randomness(error: getrandom::Error) -> Status {
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
