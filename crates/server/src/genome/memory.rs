//! Memory budget of searches in flight, as large as that of prepared windows. It is granted before any of a search is
//! received or read. Clients take turns; a search that does not fit may be passed for a limited time. One larger than
//! the budget gets that of kept windows too, exclusively.

use oboro_edge::{Client, RETRY_SOON, busy};
use oboro_genome::Plan;
use oboro_genome_server::{Evaluation, ExpandedQuery};
use oboro_residency::{FairSemaphore, Permit, ShareLimit};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use tonic::Status;

/// Bytes that searches may allocate before the allocator is asked to release free memory to the kernel: later searches
/// may not fit into the fragments.
pub(crate) const FREE: u64 = 16 << 20;

/// Memory budget of searches in flight.
pub(super) struct SearchMemory {
    bytes: Arc<FairSemaphore<Client>>,
    /// Bytes that searches have allocated since the allocator last released memory.
    allocated: AtomicU64,
    /// Releases free memory to the kernel.
    release_memory: fn(),
}

/// Memory granted to one search until dropped.
pub(super) struct Taken {
    bytes: u64,
    share: Share,
    _held: Permit<Client>,
}

/// Share of the genome memory that a search holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Share {
    /// Part of the budget of searches in flight.
    Part,
    /// All of it; nothing may be cached in the meantime.
    All,
}

/// Returns the memory of a search of this plan whose windows take `window` bytes to prepare.
pub(super) fn bytes_of(plan: &Plan, window: u64) -> u64 {
    ExpandedQuery::bytes_of(plan) + window + Evaluation::bytes_of(plan)
}

impl SearchMemory {
    /// Creates a budget of `bytes` for searches, with as much for kept windows.
    pub(super) fn new(bytes: u64, release_memory: fn()) -> Self {
        Self {
            bytes: FairSemaphore::new(ShareLimit::HalfOfRest { all: bytes.max(1) }),
            allocated: AtomicU64::new(0),
            release_memory,
        }
    }

    /// Returns the budget.
    pub(super) fn shares(&self) -> &FairSemaphore<Client> {
        &self.bytes
    }

    /// Waits for the memory of a search of this client.
    ///
    /// # Errors
    /// Too many of its searches wait.
    pub(super) async fn take(&self, client: &Client, bytes: u64) -> Result<Taken, Status> {
        let all = self.bytes.total();
        let (share, part) = if bytes <= all {
            (Share::Part, bytes)
        } else {
            (Share::All, all)
        };
        let held = self.bytes.acquire(client, part).await;
        Ok(Taken {
            bytes,
            share,
            _held: held.map_err(|never| {
                tracing::debug!(?never, "a search does not wait for memory");
                busy("too many searches of this client wait for memory; try again when some have ended", RETRY_SOON)
            })?,
        })
    }

    /// Occasionally has the allocator release free memory, before a window of a search is prepared.
    pub(super) fn tidy(&self, taken: &Taken) {
        let before = self.allocated.fetch_add(taken.bytes, Ordering::Relaxed);
        if before + taken.bytes > FREE {
            self.allocated.store(0, Ordering::Relaxed);
            (self.release_memory)();
        }
    }
}

impl Taken {
    pub(super) fn share(&self) -> Share {
        self.share
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::pin::{Pin, pin};
    use std::task::{Context, Poll, Waker};

    fn poll(future: &mut Pin<&mut impl Future<Output = Result<Taken, Status>>>) -> Option<Taken> {
        match future
            .as_mut()
            .poll(&mut Context::from_waker(Waker::noop()))
        {
            Poll::Ready(taken) => Some(taken.unwrap()),
            Poll::Pending => None,
        }
    }

    #[test]
    fn one_that_needs_more_than_there_is_runs_alone() {
        let memory = SearchMemory::new(10, || {});
        let [a, b] = ["a", "b"].map(|name| Client::Named(name.into()));
        let first = poll(&mut pin!(memory.take(&a, 1))).unwrap();
        let mut huge = pin!(memory.take(&b, u64::MAX));
        assert!(poll(&mut huge).is_none());
        drop(first);
        let huge = poll(&mut huge).unwrap();
        assert_eq!(huge.share(), Share::All);
        let mut next = pin!(memory.take(&a, 1));
        assert!(poll(&mut next).is_none());
        drop(huge);
        assert_eq!(poll(&mut next).unwrap().share(), Share::Part);
    }
}
