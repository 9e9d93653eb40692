//! Memory budget of the server: the part left for ciphertext, and the part that queries in flight may take.

use crate::error::ServeError;
use crate::genome::FREE;
use crate::options::Options;
use crate::outbox::CAPACITY;
use crate::whole::homes;
use oboro_edge::Client;
use oboro_format::wording::{ANSWERS, MAX_LEN, MEMORY, MIN_SUPPORT};
use oboro_genome_server::Collections;
use oboro_residency::{FairSemaphore, Permit, ShareLimit};
use oboro_store::Location;
use std::num::NonZero;
use std::path::Path;
use std::sync::Arc;
use tonic::Status;

const MIB: u64 = 1 << 20;
/// Bytes of the program itself: code, catalogue, connections.
const PROGRAM: u64 = 24 * MIB;
/// Bytes of segment headers.
const HEADERS: u64 = 8 * MIB;
/// Bytes for plans of queries. Plans and sums may use what the other leaves free.
const PLANS: u64 = 16 * MIB;
/// Bytes of a compute thread: buffers, and replies being packed.
const THREAD: u64 = 4 * MIB;

/// Fraction of the remaining memory that sums of answers, incoming messages and segment headers each take from
/// ciphertext.
const PARTS: u64 = 16;
/// Fraction for a worker's results: all moments of a batch of shards at a time.
pub(crate) const RESULTS_PARTS: u64 = 2;
/// Bytes for plans and sums of all queries together, and as much for messages, if no memory budget is set.
const DEFAULT_BUDGET: u64 = 1 << 30;
/// Bytes of incoming messages.
const MESSAGES: u64 = 16 * MIB;

/// Splits the memory left by [`of_worker`] into panels, and plans with results, which get one part in `parts`.
pub(crate) fn split(left: Option<u64>, parts: u64) -> (Option<u64>, u64) {
    match left {
        Some(left) => (Some(left - left / parts), PLANS + left / parts),
        None => (None, DEFAULT_BUDGET),
    }
}

/// Memory of a server, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ServerMemory {
    /// Budget of panels; `None` keeps everything used in memory.
    pub(crate) panels: Option<u64>,
    /// Budget of plans and sums.
    pub(crate) plans: u64,
    /// Budget of incoming messages.
    pub(crate) messages: u64,
    /// Budget of segment headers; `None` is unlimited.
    pub(crate) headers: Option<u64>,
}

/// Divides the memory of a server.
///
/// # Errors
/// Nothing would be left for ciphertext.
pub(crate) fn of_server(options: &Options) -> Result<ServerMemory, ServeError> {
    let left = options.memory.map(|memory| for_ciphertext(memory, options));
    Ok(match left.transpose()? {
        Some(left) => {
            let part = left / PARTS;
            ServerMemory {
                panels: Some(left - 3 * part),
                plans: PLANS + part,
                messages: MESSAGES + part,
                headers: Some(HEADERS + part),
            }
        }
        None => ServerMemory {
            panels: None,
            plans: DEFAULT_BUDGET,
            messages: DEFAULT_BUDGET,
            headers: None,
        },
    })
}

/// Memory of the plans and sums of all queries.
pub(crate) type PlanMemory = FairSemaphore<Client>;

/// Creates the memory of the plans and sums of `queries` queries, of which a quarter suffices for all small ones: these
/// pass queries that wait.
pub(crate) fn plan_memory(bytes: u64, queries: usize) -> Arc<PlanMemory> {
    FairSemaphore::new(ShareLimit::HalfIfContended {
        all: bytes,
        small: bytes / 4 / (queries as u64).max(1),
    })
}

/// Memory that a query reserves piece by piece while it is planned.
pub(crate) struct Reservation {
    permit: Permit<Client>,
    bytes: u64,
    /// Total bytes that would have been needed, if the last request failed because of others.
    needed: Option<u64>,
}

impl Reservation {
    /// Creates an empty reservation, which takes what `permit` has before it grows.
    pub(crate) fn new(permit: Permit<Client>) -> Self {
        Self {
            permit,
            bytes: 0,
            needed: None,
        }
    }

    /// Returns true if the last request would have been granted without the queries of others.
    pub(crate) fn is_busy(&self) -> bool {
        self.needed.is_some()
    }

    /// Reserves this many more bytes.
    ///
    /// # Errors
    /// More than there is, or than is free now. Earlier reservations stay.
    pub(crate) fn take(&mut self, bytes: u64) -> Result<(), Status> {
        let needed = self.bytes.saturating_add(bytes);
        if self
            .permit
            .try_grow(needed.saturating_sub(self.permit.amount()))
        {
            self.bytes = needed;
            return Ok(());
        }
        let memory = self.permit.semaphore();
        let (all, taken) = (memory.total(), memory.used());
        self.needed = Some(needed).filter(|&needed| needed <= all);
        Err(Status::resource_exhausted(match self.needed {
            Some(_) => format!(
                "what this query keeps in memory takes {bytes} bytes more, and {taken} of the {all} that this server has for plans and sums are taken; try again when they have ended"
            ),
            None => format!(
                "what this query keeps in memory takes {needed} bytes and this server has {all} for plans and sums; mine with {}, request fewer or shorter itemsets (a higher {MIN_SUPPORT}, a smaller {MAX_LEN}), or ask its operator to give it more memory ({MEMORY})",
                ANSWERS.to("cells"),
            ),
        }))
    }

    /// Returns what is reserved, and waits until all that the last request needed is free.
    ///
    /// # Errors
    /// The error of that request, if it never fits; too many waiting queries of the client.
    pub(crate) async fn wait(self, error: Status) -> Result<Self, Status> {
        let Some(needed) = self.needed else {
            return Err(error);
        };
        let permit = self.permit.exchange(needed).await;
        permit.map(Self::new).map_err(|_| error)
    }
}

/// Returns the bytes for ciphertext, sums and long messages if the process is limited to `memory`.
///
/// # Errors
/// Nothing would be left.
fn for_ciphertext(memory: u64, options: &Options) -> Result<u64, ServeError> {
    let threads = options.threads.get() as u64 * THREAD;
    let replies = options.limits.queries as u64 * CAPACITY as u64;
    let cache = options.moment_cache;
    let buffers = options.data.read_buffers();
    let genomes = genomes_bytes(options);
    let besides = [
        PROGRAM, HEADERS, PLANS, MESSAGES, buffers, threads, replies, cache, genomes,
    ];
    let besides = besides.into_iter().fold(0, u64::saturating_add);
    match memory.saturating_sub(besides) {
        0 => Err(ServeError::Memory {
            memory: memory / MIB,
            besides: besides / MIB,
            cache: cache / MIB,
            replies: replies / MIB,
            threads: threads / MIB,
            genomes: genomes / MIB,
        }),
        left => Ok(left),
    }
}

/// As [`for_ciphertext`], for a process that only counts.
///
/// # Errors
///
/// Nothing would be left.
pub(crate) fn of_worker(
    memory: u64,
    threads: NonZero<usize>,
    location: &Location,
) -> Result<u64, ServeError> {
    let besides =
        PROGRAM + HEADERS + PLANS + threads.get() as u64 * THREAD + location.read_buffers();
    match memory.saturating_sub(besides) {
        0 => Err(ServeError::WorkerMemory {
            memory: memory / MIB,
            besides: besides / MIB,
        }),
        left => Ok(left),
    }
}

/// Returns the memory of genome searches: cached windows, as much again for searches in flight, and memory freed but
/// not yet released. 0 without genomes.
fn genomes_bytes(options: &Options) -> u64 {
    let home = options.data.home();
    let is_empty = |of: &Path| {
        let there = Collections::open(&home.join(of)).list();
        there.is_ok_and(|there| there.collections.is_empty())
    };
    if homes(home).is_ok_and(|homes| homes.iter().all(|of| is_empty(of))) {
        0
    } else {
        options.genome.cache.saturating_mul(2).saturating_add(FREE)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Policy;

    fn options(memory: Option<u64>) -> Options {
        Options {
            data: std::path::Path::new("none").into(),
            listen: "127.0.0.1:0".parse().unwrap(),
            tls: None,
            tokens: None,
            threads: NonZero::<usize>::MIN,
            policy: Policy::default(),
            limits: crate::Limits::default(),
            moment_cache: 0,
            memory,
            genome: crate::GenomeOptions::default(),
            pin: None,
            monitor: None,
            audit: None,
        }
    }

    #[test]
    fn messages_count_inside_the_memory_of_the_process() {
        let all = 2048 * MIB;
        let memory = of_server(&options(Some(all))).unwrap();
        let panels = memory.panels.unwrap();
        assert!(memory.messages > MESSAGES && memory.messages == memory.plans);
        assert!(panels + memory.messages + memory.plans < all);
        let free = of_server(&options(None)).unwrap();
        assert_eq!((free.panels, free.messages), (None, 1 << 30));
    }
}
