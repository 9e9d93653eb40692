//! Memory budget of the server: the part left for ciphertext, and the part that queries in flight may take.

use crate::clients::Client;
use crate::error::ServeError;
use crate::genome::FREE;
use crate::options::Options;
use crate::outbox::CAPACITY;
use crate::whole::homes;
use oboro_format::wording::{ANSWERS, MAX_LEN, MEMORY, MIN_SUPPORT};
use oboro_genome_server::Collections;
use oboro_store::Location;
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::num::NonZero;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;
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

/// Time for which others may pass a query that waits for memory.
const PASSED: Duration = Duration::from_secs(30);

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

/// Memory budget of plans and sums, shared by all queries.
///
/// A query that does not fit waits. Small ones may always pass it, others for [`PASSED`]; after that, larger ones queue
/// behind it. While others wait, a client with queries in memory gets at most half of the budget.
pub(crate) struct MemoryBudget {
    bytes: u64,
    /// Maximum bytes of a small query, which may pass others.
    small: u64,
    ledger: Mutex<Ledger>,
    /// Held by the query that is reserving. Two at once could each fail because of the other, repeatedly.
    reserving: Mutex<()>,
    /// Called when [`could_reserve`](Place::could_reserve) may have become true.
    wake: Box<dyn Fn() + Send + Sync>,
}

/// Use of the budget.
#[derive(Debug, Clone, Copy)]
pub(crate) struct BudgetUse {
    pub(crate) limit: u64,
    pub(crate) bytes: u64,
    /// Number of waiting queries.
    pub(crate) waiting: usize,
}

#[derive(Default)]
struct Ledger {
    taken: u64,
    by_client: BTreeMap<Client, u64>,
    /// Waiting queries in order of arrival, with the start of the wait.
    waiting: BTreeMap<u64, (Client, Instant)>,
    next: u64,
}

impl Ledger {
    fn of(&self, client: &Client) -> u64 {
        self.by_client.get(client).copied().unwrap_or(0)
    }
}

/// Query that holds memory or waits for it.
pub(crate) struct Place {
    budget: Arc<MemoryBudget>,
    client: Client,
    number: u64,
}

/// Memory reserved by a query, returned to the budget when dropped.
pub(crate) struct Reservation {
    budget: Arc<MemoryBudget>,
    /// Client that holds it; `None` for a worker.
    client: Option<Client>,
    bytes: u64,
    /// Maximum that it may hold for now.
    most: u64,
    /// Total bytes that would have been needed, if the last request failed because of others.
    needed: Option<u64>,
}

/// Reasons why a query did not get its memory.
#[derive(Debug)]
pub(crate) enum Refusal {
    /// Others hold it or are ahead; the query needs at least this much.
    Busy { needed: u64 },
    /// The query never fits, or planning failed for another reason.
    Failed(Status),
}

impl MemoryBudget {
    /// Creates a budget of which `queries` small ones together take a quarter.
    pub(crate) fn new(bytes: u64, queries: usize, wake: impl Fn() + Send + Sync + 'static) -> Self {
        Self {
            bytes,
            small: bytes / 4 / (queries as u64).max(1),
            ledger: Mutex::default(),
            reserving: Mutex::new(()),
            wake: Box::new(wake),
        }
    }

    /// Returns the position of a client's new query, behind all others.
    pub(crate) fn place(self: &Arc<Self>, client: &Client) -> Place {
        let mut ledger = self.ledger.lock();
        ledger.next += 1;
        Place {
            budget: Arc::clone(self),
            client: client.clone(),
            number: ledger.next,
        }
    }

    /// Returns an empty reservation, for a worker's own use.
    pub(crate) fn reservation(self: &Arc<Self>) -> Reservation {
        Reservation {
            budget: Arc::clone(self),
            client: None,
            bytes: 0,
            most: self.bytes,
            needed: None,
        }
    }

    /// Returns the use of the budget.
    pub(crate) fn used(&self) -> BudgetUse {
        let ledger = self.ledger.lock();
        BudgetUse {
            limit: self.bytes,
            bytes: ledger.taken,
            waiting: ledger.waiting.len(),
        }
    }

    /// Returns the free bytes.
    #[cfg(test)]
    pub(crate) fn free(&self) -> u64 {
        self.bytes - self.ledger.lock().taken
    }
}

impl Place {
    /// Runs `plan`, which reserves memory, unless another query is doing so. The memory is kept if `plan` succeeds.
    ///
    /// # Errors
    /// The error of `plan`. Nothing is reserved then; if others were the reason, the query waits from now on.
    pub(crate) fn reserve<T>(
        &self,
        plan: impl FnOnce(&mut Reservation) -> Result<T, Status>,
    ) -> Result<(T, Reservation), Refusal> {
        let budget = &self.budget;
        let Some(reserving) = budget.reserving.try_lock() else {
            return Err(Refusal::Busy { needed: 0 });
        };
        let mut reservation = budget.reservation();
        reservation.client = Some(self.client.clone());
        reservation.most = self.allowance(&budget.ledger.lock());
        let planned = plan(&mut reservation);
        let needed = reservation.needed;
        let reserved = match planned {
            Ok(planned) => {
                budget.ledger.lock().waiting.remove(&self.number);
                Ok((planned, reservation))
            }
            Err(status) => {
                drop(reservation);
                Err(needed.map_or(Refusal::Failed(status), |needed| {
                    let entry = (self.client.clone(), Instant::now());
                    let waiting = &mut budget.ledger.lock().waiting;
                    waiting.entry(self.number).or_insert(entry);
                    Refusal::Busy { needed }
                }))
            }
        };
        drop(reserving);
        (budget.wake)();
        reserved
    }

    /// Returns true if an attempt that needed `needed` bytes would now get further. Each attempt needs more than the
    /// one before, which bounds their number.
    pub(crate) fn could_reserve(&self, needed: u64) -> bool {
        let allowance = self.allowance(&self.budget.ledger.lock());
        !self.budget.reserving.is_locked() && needed <= allowance
    }

    /// Returns the maximum that this query may reserve now.
    fn allowance(&self, ledger: &Ledger) -> u64 {
        let (budget, own) = (&self.budget, ledger.of(&self.client));
        let mut most = budget.bytes - ledger.taken;
        let others_wait = ledger
            .waiting
            .values()
            .any(|(client, _)| *client != self.client);
        if own > 0 && others_wait {
            most = most.min((budget.bytes / 2).saturating_sub(own));
        }
        let was_passed = |(client, since): &(Client, Instant)| {
            // A query that waits for its own client's memory blocks no other.
            since.elapsed() >= PASSED && ledger.of(client) == 0
        };
        let mut before = ledger.waiting.range(..self.number).map(|(_, it)| it);
        if before.any(was_passed) {
            most = most.min(budget.small.saturating_sub(own));
        }
        most
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let left = self.budget.ledger.lock().waiting.remove(&self.number);
        if left.is_some() {
            (self.budget.wake)();
        }
    }
}

impl Reservation {
    /// Returns true if the last request would have been granted without the queries of others.
    pub(crate) fn is_busy(&self) -> bool {
        self.needed.is_some()
    }

    /// Reserves this many more bytes.
    ///
    /// # Errors
    /// More than the budget, or than is available now. Earlier reservations stay.
    pub(crate) fn take(&mut self, bytes: u64) -> Result<(), Status> {
        let budget = &*self.budget;
        let mut ledger = budget.ledger.lock();
        let needed = self.bytes.saturating_add(bytes);
        let taken = ledger.taken;
        if needed <= self.most && bytes <= budget.bytes - taken {
            ledger.taken += bytes;
            self.bytes = needed;
            if let Some(client) = &self.client {
                *ledger.by_client.entry(client.clone()).or_default() += bytes;
            }
            return Ok(());
        }
        self.needed = Some(needed).filter(|&needed| needed <= budget.bytes);
        Err(Status::resource_exhausted(match self.needed {
            Some(_) => format!(
                "what this query keeps in memory takes {bytes} bytes more, and {taken} of the {} that this server has for plans and sums are taken; try again when they have ended",
                budget.bytes
            ),
            None => format!(
                "what this query keeps in memory takes {needed} bytes and this server has {} for plans and sums; mine with {}, request fewer or shorter itemsets (a higher {MIN_SUPPORT}, a smaller {MAX_LEN}), or ask its operator to give it more memory ({MEMORY})",
                budget.bytes,
                ANSWERS.to("cells"),
            ),
        }))
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        if self.bytes == 0 {
            return;
        }
        let mut ledger = self.budget.ledger.lock();
        ledger.taken -= self.bytes;
        if let Some(client) = &self.client
            && let Some(own) = ledger.by_client.get_mut(client)
        {
            *own -= self.bytes;
            if *own == 0 {
                ledger.by_client.remove(client);
            }
        }
        drop(ledger);
        (self.budget.wake)();
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
    use std::sync::atomic::{AtomicU64, Ordering};

    fn client(name: &str) -> Client {
        Client::Named(name.into())
    }

    /// Creates a budget for four concurrent queries.
    fn budget(bytes: u64) -> Arc<MemoryBudget> {
        Arc::new(MemoryBudget::new(bytes, 4, || ()))
    }

    fn take(place: &Place, parts: &[u64]) -> Result<Reservation, Refusal> {
        let taken = place.reserve(|memory| parts.iter().try_for_each(|&it| memory.take(it)));
        taken.map(|((), reservation)| reservation)
    }

    /// Returns the bytes that a waiting query needs.
    fn waits(place: &Place, parts: &[u64]) -> u64 {
        match take(place, parts) {
            Err(Refusal::Busy { needed }) => needed,
            Err(Refusal::Failed(status)) => panic!("{status}"),
            Ok(_) => panic!("it does not wait"),
        }
    }

    #[test]
    fn memory_is_taken_and_returned() {
        let woken = Arc::new(AtomicU64::new(0));
        let wake = {
            let woken = Arc::clone(&woken);
            move || {
                woken.fetch_add(1, Ordering::Relaxed);
            }
        };
        let budget = Arc::new(MemoryBudget::new(100, 4, wake));
        let [a, b, c, d] = ["a", "b", "c", "d"].map(|name| budget.place(&client(name)));
        let first = take(&a, &[40, 20]).unwrap();
        // It waits until it would get as far; what it could take is free meanwhile.
        assert_eq!(waits(&b, &[30, 30]), 60);
        let second = take(&c, &[40]).unwrap();
        assert!(!b.could_reserve(60));
        let before = woken.load(Ordering::Relaxed);
        drop(first);
        assert!(b.could_reserve(60) && woken.load(Ordering::Relaxed) == before + 1);
        let third = take(&b, &[30, 30]).unwrap();
        // One at a time.
        let both = d.reserve(|_| {
            assert!(!a.could_reserve(0));
            Ok(waits(&a, &[]) == 0)
        });
        assert!(both.unwrap().0 && a.could_reserve(0));
        let Err(Refusal::Failed(status)) = take(&a, &[101]) else {
            panic!("101 bytes never fit");
        };
        let message = status.message();
        assert!(
            message.contains("101") && message.contains("--memory"),
            "{message}"
        );
        drop((second, third));
        take(&a, &[100]).unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn a_query_that_waits_is_passed_for_a_while_only() {
        let budget = budget(160);
        let [a, b, c, d] = ["a", "b", "c", "d"].map(|name| budget.place(&client(name)));
        let first = take(&a, &[60]).unwrap();
        assert_eq!(waits(&b, &[110]), 110);
        drop(take(&c, &[20]).unwrap());
        tokio::time::advance(PASSED).await;
        assert!(!c.could_reserve(20));
        assert_eq!(waits(&c, &[5, 15]), 20);
        // A sixteenth is small.
        let small = take(&d, &[10]).unwrap();
        drop(first);
        assert!(!c.could_reserve(20));
        let second = take(&b, &[110]).unwrap();
        drop(take(&c, &[20]).unwrap());
        drop((second, small));
        // A query that waits for its own client's memory blocks no other.
        let [own, more] = [(), ()].map(|()| budget.place(&client("f")));
        let later = budget.place(&client("g"));
        let own = take(&own, &[100]).unwrap();
        assert_eq!(waits(&more, &[100]), 100);
        tokio::time::advance(PASSED).await;
        assert!(later.could_reserve(60));
        drop(own);
        assert!(later.could_reserve(10) && !later.could_reserve(11));
        assert!(more.could_reserve(100));
        // Nor does one that was dropped.
        drop(more);
        assert!(later.could_reserve(160));
    }

    #[test]
    fn a_client_has_at_most_half_while_others_wait() {
        let budget = budget(100);
        let [a1, a2, a3] = [(), (), ()].map(|()| budget.place(&client("a")));
        let [b1, b2] = [(), ()].map(|()| budget.place(&client("b")));
        let first = take(&a1, &[40]).unwrap();
        let second = take(&a2, &[30]).unwrap();
        assert_eq!(waits(&b1, &[50]), 50);
        assert!(!a3.could_reserve(20));
        drop(second);
        let other = take(&b1, &[50]).unwrap();
        assert!(a3.could_reserve(10));
        // A client that holds nothing may have more than half, which keeps two of them from waiting for each other.
        drop((first, other));
        assert!(b2.could_reserve(100) && a3.could_reserve(100));
    }

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
