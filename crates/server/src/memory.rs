//! The server's memory budget: what of it is left for ciphertext, and what queries in flight may take.

use crate::genome::FREE;
use crate::listen::{Options, ServeError};
use crate::outbox::CAPACITY;
use oboro_format::wording::{ANSWERS, MAX_LEN, MEMORY, MIN_SUPPORT};
use oboro_genome_server::Collections;
use oboro_store::Location;
use parking_lot::Mutex;
use std::num::NonZero;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use tonic::Status;

const MIB: u64 = 1 << 20;
/// The program itself: code, catalogue, segment headers, connections.
const PROGRAM: u64 = 32 * MIB;
/// Plans of queries. They may also use what sums leave free, and the other way round.
const PLANS: u64 = 16 * MIB;
/// The buffers of a thread that computes, and the replies that it is packing.
const THREAD: u64 = 4 * MIB;

/// Sums of a server's answers get one part in this many of what is left for ciphertext.
pub(crate) const SUMS_PARTS: u64 = 8;
/// A worker's results likewise: all moments of a batch of shards at a time.
pub(crate) const RESULTS_PARTS: u64 = 2;
/// Bytes for plans and sums of all queries together if no memory budget is set.
const DEFAULT_BUDGET: u64 = 1 << 30;

/// Divides what [`for_ciphertext`] or [`of_worker`] leave: bytes for panels, and bytes for plans with sums or results,
/// which get one part in `parts`.
pub(crate) fn split(left: Option<u64>, parts: u64) -> (Option<u64>, u64) {
    match left {
        Some(left) => (Some(left - left / parts), PLANS + left / parts),
        None => (None, DEFAULT_BUDGET),
    }
}

/// The memory budget of plans and sums, shared by all queries.
pub(crate) struct MemoryBudget {
    bytes: u64,
    taken: AtomicU64,
    /// Held by the query that is reserving. Two at once could each fail for what the other has taken, again and again.
    reserving: Mutex<()>,
    /// Called when [`could_reserve`](Self::could_reserve) may have become true.
    wake: Box<dyn Fn() + Send + Sync>,
}

/// Memory taken by a query, returned to the budget when dropped.
pub(crate) struct Reservation {
    budget: Arc<MemoryBudget>,
    bytes: u64,
    /// If the last request failed for what others hold: what would have been needed in all.
    needed: Option<u64>,
}

/// Why a query did not get its memory.
#[derive(Debug)]
pub(crate) enum Refusal {
    /// Others hold it. It needs this much at least.
    Busy { needed: u64 },
    /// It can never have it, or failed otherwise.
    Failed(Status),
}

impl MemoryBudget {
    pub(crate) fn new(bytes: u64, wake: impl Fn() + Send + Sync + 'static) -> Self {
        Self {
            bytes,
            taken: AtomicU64::new(0),
            reserving: Mutex::new(()),
            wake: Box::new(wake),
        }
    }

    /// Runs `plan`, which takes memory, unless another query is doing so. What it has taken is kept if it succeeds.
    ///
    /// # Errors
    /// That of `plan`. Nothing is taken then.
    pub(crate) fn reserve<T>(
        self: &Arc<Self>,
        plan: impl FnOnce(&mut Reservation) -> Result<T, Status>,
    ) -> Result<(T, Reservation), Refusal> {
        let Some(reserving) = self.reserving.try_lock() else {
            return Err(Refusal::Busy { needed: 0 });
        };
        let mut reservation = self.reservation();
        let planned = plan(&mut reservation);
        let needed = reservation.needed;
        let reserved = match planned {
            Ok(planned) => Ok((planned, reservation)),
            Err(status) => {
                drop(reservation);
                Err(needed.map_or(Refusal::Failed(status), |needed| Refusal::Busy { needed }))
            }
        };
        drop(reserving);
        (self.wake)();
        reserved
    }

    /// Whether an attempt that needed `needed` bytes would now get further. Each attempt needs more than the one before,
    /// which bounds their number.
    pub(crate) fn could_reserve(&self, needed: u64) -> bool {
        let free = self.bytes - self.taken.load(Ordering::Acquire);
        !self.reserving.is_locked() && needed <= free
    }

    /// A reservation of nothing.
    pub(crate) fn reservation(self: &Arc<Self>) -> Reservation {
        Reservation {
            budget: Arc::clone(self),
            bytes: 0,
            needed: None,
        }
    }
}

impl Reservation {
    /// Whether the last request would have been granted if others held nothing.
    pub(crate) fn is_busy(&self) -> bool {
        self.needed.is_some()
    }

    /// Takes this many more bytes.
    ///
    /// # Errors
    /// More than the budget, or than is free now. What was taken before stays.
    pub(crate) fn take(&mut self, bytes: u64) -> Result<(), Status> {
        let budget = &*self.budget;
        let fits = |taken: u64| {
            let after = taken.saturating_add(bytes);
            (after <= budget.bytes).then_some(after)
        };
        let (acquire, relaxed) = (Ordering::Acquire, Ordering::Relaxed);
        match budget.taken.fetch_update(acquire, relaxed, fits) {
            Ok(_) => {
                self.bytes += bytes;
                Ok(())
            }
            Err(taken) => {
                let needed = self.bytes.saturating_add(bytes);
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
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        if self.bytes > 0 {
            self.budget.taken.fetch_sub(self.bytes, Ordering::Release);
            (self.budget.wake)();
        }
    }
}

/// The bytes for ciphertext and sums if the process is to hold no more than `memory`.
///
/// # Errors
/// Nothing would be left.
pub(crate) fn for_ciphertext(memory: u64, options: &Options) -> Result<u64, ServeError> {
    let threads = options.threads.get() as u64 * THREAD;
    let replies = options.limits.queries as u64 * CAPACITY as u64;
    let cache = options.moment_cache;
    let buffers = options.data.read_buffers();
    let genomes = genomes_bytes(options);
    let besides = [PROGRAM, PLANS, buffers, threads, replies, cache, genomes];
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

/// The same for a process that only counts.
///
/// # Errors
///
/// Nothing would be left.
pub(crate) fn of_worker(
    memory: u64,
    threads: NonZero<usize>,
    location: &Location,
) -> Result<u64, ServeError> {
    let besides = PROGRAM + PLANS + threads.get() as u64 * THREAD + location.read_buffers();
    match memory.saturating_sub(besides) {
        0 => Err(ServeError::WorkerMemory {
            memory: memory / MIB,
            besides: besides / MIB,
        }),
        left => Ok(left),
    }
}

/// The memory of genome searches: cached windows, as much again for searches in flight, and memory freed but not yet
/// released. 0 if there are no genomes.
fn genomes_bytes(options: &Options) -> u64 {
    let there = Collections::open(options.data.home()).list();
    if there.is_ok_and(|there| there.collections.is_empty()) {
        0
    } else {
        options.genome.cache.saturating_mul(2).saturating_add(FREE)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_taken_and_returned() {
        let woken = Arc::new(AtomicU64::new(0));
        let wake = {
            let woken = Arc::clone(&woken);
            move || {
                woken.fetch_add(1, Ordering::Relaxed);
            }
        };
        let budget = Arc::new(MemoryBudget::new(100, wake));
        let take = |bytes: &[u64]| {
            budget.reserve(|memory| bytes.iter().try_for_each(|&bytes| memory.take(bytes)))
        };
        let ((), first) = take(&[40, 20]).ok().unwrap();
        // It waits until it would get as far, and what it could take is free meanwhile.
        let Err(Refusal::Busy { needed }) = take(&[30, 30]) else {
            panic!("there are 40 bytes");
        };
        assert_eq!(needed, 60);
        let ((), second) = take(&[40]).ok().unwrap();
        assert!(!budget.could_reserve(needed));
        let before = woken.load(Ordering::Relaxed);
        drop(first);
        assert!(budget.could_reserve(needed) && woken.load(Ordering::Relaxed) == before + 1);
        let ((), third) = take(&[30, 30]).ok().unwrap();
        // One at a time.
        let both = budget.reserve(|_| {
            assert!(!budget.could_reserve(0));
            Ok(matches!(take(&[]), Err(Refusal::Busy { needed: 0 })))
        });
        assert!(both.ok().unwrap().0 && budget.could_reserve(0));
        let Err(Refusal::Failed(status)) = take(&[101]) else {
            panic!("101 bytes never fit");
        };
        let message = status.message();
        assert!(
            message.contains("101") && message.contains("--memory"),
            "{message}"
        );
        drop((second, third));
        take(&[100]).ok().unwrap();
    }
}
