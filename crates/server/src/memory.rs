//! The server's memory budget, and what of it is left for ciphertext.

use crate::genome::FREE;
use crate::listen::{Options, ServeError};
use crate::outbox::CAPACITY;
use oboro_genome_server::Collections;
use oboro_store::Location;
use std::num::NonZero;

const MIB: u64 = 1 << 20;
/// The program itself: code, catalogue, segment headers, connections.
const PROGRAM: u64 = 32 * MIB;
/// Plans of queries. They may also use what sums leave free, and the other way round.
pub(crate) const PLANS: u64 = 16 * MIB;
/// The buffers of a thread that computes, and the replies that it is packing.
const THREAD: u64 = 4 * MIB;

/// The part of what is left for ciphertext that sums of answers may take.
pub(crate) const SUMS_SHARE: u64 = 8;

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
