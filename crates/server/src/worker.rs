//! Worker: counts assigned shards of a query for a server, on storage that both reach.

use crate::error::ServeError;
use crate::listen::placed;
use crate::memory::{PlanMemory, RESULTS_PARTS, Reservation, of_worker, split};
use crate::options::Pin;
use crate::packing::Packing;
use crate::partial::{Failure, Partial, Task};
use crate::status;
use oboro_arena::{CpuAssignment, Distances, Topology};
use oboro_edge::Client;
use oboro_engine::{Count, EngineError, Outcome, Plan, Source, Tiles};
use oboro_format::{Digest, Manifest};
use oboro_protocol::columns;
use oboro_residency::{FairSemaphore, ShareLimit, Snapshot};
use oboro_ring::Blocks;
use oboro_ring::moment::{Itemsets, MomentIndex};
use oboro_store::{Location, SharedStore, StoreError};
use parking_lot::Mutex;
use prost::Message;
use std::collections::VecDeque;
use std::num::NonZero;
use std::ops::{ControlFlow, Range};
use std::sync::Arc;
use tonic::Status;

/// Number of tasks whose plan is cached: several calls belong to one task.
const PLANNED: usize = 4;

/// Counts for servers with the same storage. Calls from several threads are served one after another.
pub struct Worker {
    store: SharedStore,
    assignments: Vec<CpuAssignment>,
    distances: Distances,
    /// Held while counting: each count uses all threads and most of the memory for results.
    counting: Mutex<()>,
    /// Memory of plans and results.
    budget: Arc<PlanMemory>,
    /// Cached plans, the most recently used last.
    planned: Mutex<VecDeque<Arc<PlannedQuery>>>,
}

/// Planned query on one version of a dataset.
struct PlannedQuery {
    question: Question,
    snapshot: Arc<Snapshot>,
    index: Arc<MomentIndex>,
    packing: Packing,
    shards: Vec<Blocks>,
    /// Bytes of the moments of each shard.
    shard_bytes: u64,
    tiles: Arc<Tiles>,
    _memory: Reservation,
}

/// Digests of manifest and task.
type Question = (Digest, Digest);

impl Worker {
    /// Opens a worker with `threads` threads on the storage of a server: the same directory, or the same objects with a
    /// cache of its own. With `memory` the process stays within that many bytes.
    ///
    /// # Errors
    /// Memory that leaves nothing for ciphertext, a cache in use, an invalid URL.
    pub fn open(
        location: Location,
        threads: NonZero<usize>,
        memory: Option<u64>,
    ) -> Result<Self, ServeError> {
        let left = memory.map(|memory| of_worker(memory, threads, &location));
        let (panels, results) = split(left.transpose()?, RESULTS_PARTS);
        let topology = Topology::of_this_machine();
        let open = |placement| SharedStore::open(location.clone(), placement, panels);
        Ok(Self {
            store: placed(&topology, threads, open)?,
            assignments: Pin::usual(&topology, threads).assignments(&topology, threads),
            distances: topology.distances().clone(),
            counting: Mutex::new(()),
            budget: FairSemaphore::new(ShareLimit::total(results)),
            planned: Mutex::default(),
        })
    }

    /// Returns the moments of some shards for a server's [`RemoteJob`](crate::RemoteJob), or an error, encoded for
    /// [`RemoteJob::deliver`](crate::RemoteJob::deliver).
    pub fn count(&self, manifest: &[u8], task: &[u8], shards: Range<u64>) -> Vec<u8> {
        self.moments(manifest, task, shards)
            .unwrap_or_else(|failure| Partial::of_failure(failure).encode_to_vec())
    }

    /// Returns the moments, encoded as a [`Partial`].
    fn moments(
        &self,
        manifest: &[u8],
        task: &[u8],
        shards: Range<u64>,
    ) -> Result<Vec<u8>, Failure> {
        let _counting = self.counting.lock();
        let planned = self.planned(manifest, task)?;
        let snapshot = Arc::clone(&planned.snapshot);
        let tiles = Arc::clone(&planned.tiles);
        let end = shards.end.min(planned.shards.len() as u64) as usize;
        let first = (shards.start as usize).min(end);
        let wanted = planned.shards[first..end].to_vec();
        let count = Count::of_tiles(snapshot, tiles, &self.distances, wanted);
        let count = count.map_err(of_engine)?;
        let mut memory = self.reservation();
        let moments = planned.shard_bytes.saturating_mul((end - first) as u64);
        // Plus the overhead of messages.
        let bytes = moments.saturating_add(moments / 64 + 4096);
        // The caller copies the result.
        let taken = self.take(&mut memory, bytes.saturating_mul(2));
        taken.map_err(failure)?;
        let counted = Mutex::new(Vec::with_capacity(bytes as usize));
        let outcome = count.run(&self.assignments, &|mut moments| {
            moments.shard += first;
            planned.packing.pack(
                &planned.index,
                moments,
                |_, _| {},
                |message| {
                    // Concatenated, they are the encoding of one message with all moments.
                    let partial = Partial::of_moments(message);
                    let encoded = partial.encode(&mut *counted.lock());
                    encoded.expect("a vector grows");
                    ControlFlow::Continue(())
                },
            )
        });
        match outcome.map_err(of_engine)? {
            Outcome::Complete => Ok(counted.into_inner()),
            Outcome::Stopped => Err(failure(Status::internal(
                "a count stopped without being asked to",
            ))),
        }
    }

    fn planned(&self, manifest: &[u8], task: &[u8]) -> Result<Arc<PlannedQuery>, Failure> {
        let question = (Digest::of(manifest), Digest::of(task));
        if let Some(kept) = self.kept(question) {
            return Ok(kept);
        }
        let planned = Arc::new(self.plan(question, manifest, task)?);
        let mut all = self.planned.lock();
        all.push_back(Arc::clone(&planned));
        if all.len() > PLANNED {
            all.pop_front();
        }
        Ok(planned)
    }

    /// Returns a cached plan, now the most recently used one.
    fn kept(&self, question: Question) -> Option<Arc<PlannedQuery>> {
        let mut all = self.planned.lock();
        let index = all.iter().position(|it| it.question == question)?;
        let kept = all.remove(index)?;
        all.push_back(Arc::clone(&kept));
        Some(kept)
    }

    fn reservation(&self) -> Reservation {
        Reservation::new(self.budget.empty(&Client::Connected(None)))
    }

    /// Reserves memory, dropping cached plans if necessary, the least recently used first.
    fn take(&self, memory: &mut Reservation, bytes: u64) -> Result<(), Status> {
        while let Err(status) = memory.take(bytes) {
            if !memory.is_busy() || self.planned.lock().pop_front().is_none() {
                return Err(status);
            }
        }
        Ok(())
    }

    fn plan(
        &self,
        question: Question,
        manifest: &[u8],
        task: &[u8],
    ) -> Result<PlannedQuery, Failure> {
        let manifest = Manifest::decode(manifest).map_err(|error| of_store(&error.into()))?;
        let malformed = || failure(Status::internal("a worker was given an invalid task"));
        let task = Task::decode(task).map_err(|_| malformed())?;
        let snapshot = self.store.snapshot(&task.namespace, &task.name, manifest);
        let snapshot = snapshot.map_err(|error| of_store(&error))?;
        let itemsets = Itemsets::new(
            task.length as usize,
            columns(task.columns.clone()),
            snapshot.manifest().columns,
        );
        let itemsets = itemsets.map_err(|_| malformed())?;
        let index = Arc::new(MomentIndex::new(&itemsets));
        let (limbs, shards) = (task.limbs as usize, task.shards());
        let blocks = snapshot.block_count();
        if shards.iter().any(|it| it.is_empty() || it.end > blocks) {
            return Err(malformed());
        }
        let plan = Plan::of_moments(&index, limbs, task.wanted(index.len()));
        let factors = snapshot.factors_at_a_time(limbs, &shards);
        let packing = Packing::new(snapshot.manifest().parameters.degree(), limbs);
        let mut memory = self.reservation();
        let taken = self.take(&mut memory, (index.bytes() + plan.bytes()) as u64);
        taken.map_err(failure)?;
        let tiles = Tiles::within(&plan, factors, &mut |bytes| {
            let taken = self.take(&mut memory, bytes as u64);
            taken.map_err(|status| EngineError::Backend(Box::new(status)))
        });
        let tiles = Arc::new(tiles.map_err(of_engine)?);
        Ok(PlannedQuery {
            question,
            shard_bytes: packing.shard_bytes(&plan),
            _memory: memory,
            packing,
            tiles,
            shards,
            snapshot,
            index,
        })
    }
}

fn failure(status: Status) -> Failure {
    Failure::new(&status, &status.message())
}

fn of_store(error: &StoreError) -> Failure {
    Failure::new(&status::of_store(error), error)
}

fn of_engine(error: EngineError) -> Failure {
    let shown = error.to_string();
    Failure::new(&status::of_engine(error), &shown)
}
