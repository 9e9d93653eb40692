//! The memory budget of searches in flight: as large as that of prepared windows, and granted in FIFO order before any
//! of a search is received or read. A search that needs more gets all of it and the kept windows' budget too,
//! exclusively.

use oboro_genome::Plan;
use oboro_genome_server::{Evaluation, ExpandedQuery};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

const KIBIBYTE: u64 = 1 << 10;
/// After searches have allocated this many bytes, the allocator is asked to release free memory to the kernel: later
/// searches may not fit into the pieces that they leave.
pub(crate) const FREE: u64 = 16 << 20;

/// What searches in flight share.
pub(super) struct Memory {
    kibibytes: u32,
    free: Arc<Semaphore>,
    /// Bytes that searches have allocated since the allocator last released memory.
    allocated: AtomicU64,
    /// Releases free memory to the kernel.
    release_memory: fn(),
}

/// The memory granted to one search until dropped.
pub(super) struct Taken {
    bytes: u64,
    share: Share,
    _permit: OwnedSemaphorePermit,
}

/// What a search holds of the memory for genomes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Share {
    /// A part of the budget of searches in flight.
    Part,
    /// Everything: nothing may be cached in the meantime.
    All,
}

/// The memory of a search of this plan whose windows take `window` bytes to prepare.
pub(super) fn bytes_of(plan: &Plan, window: u64) -> u64 {
    ExpandedQuery::bytes_of(plan) + window + Evaluation::bytes_of(plan)
}

impl Memory {
    /// A budget of `bytes` for searches, and as much for kept windows.
    pub(super) fn new(bytes: u64, release_memory: fn()) -> Self {
        let kibibytes = u32::try_from(bytes / KIBIBYTE).unwrap_or(u32::MAX).max(1);
        Self {
            kibibytes,
            free: Arc::new(Semaphore::new(kibibytes as usize)),
            allocated: AtomicU64::new(0),
            release_memory,
        }
    }

    /// Waits for the memory of a search, behind those that wait already.
    pub(super) async fn take(&self, bytes: u64) -> Taken {
        let (share, kibibytes) = match u32::try_from(bytes.div_ceil(KIBIBYTE)) {
            Ok(kibibytes) if kibibytes <= self.kibibytes => (Share::Part, kibibytes),
            _ => (Share::All, self.kibibytes),
        };
        let permit = Arc::clone(&self.free).acquire_many_owned(kibibytes).await;
        Taken {
            bytes,
            share,
            _permit: permit.expect("the semaphore is never closed"),
        }
    }

    /// Has the allocator release free memory, now and then, before a window of a search is prepared.
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
    use std::pin::pin;
    use std::task::{Context, Poll, Waker};

    fn poll<T>(future: &mut std::pin::Pin<&mut impl Future<Output = T>>) -> Option<T> {
        match future
            .as_mut()
            .poll(&mut Context::from_waker(Waker::noop()))
        {
            Poll::Ready(value) => Some(value),
            Poll::Pending => None,
        }
    }

    #[test]
    fn searches_have_no_more_at_once_than_there_is_and_take_turns() {
        let memory = Memory::new(10 * KIBIBYTE, || {});
        let first = poll(&mut pin!(memory.take(6 * KIBIBYTE))).unwrap();
        assert_eq!(first.share(), Share::Part);
        let mut large = pin!(memory.take(5 * KIBIBYTE));
        assert!(poll(&mut large).is_none());
        // It would fit, but another was first.
        let mut small = pin!(memory.take(1));
        assert!(poll(&mut small).is_none());
        drop(first);
        let (large, small) = (poll(&mut large).unwrap(), poll(&mut small).unwrap());
        assert_eq!(memory.free.available_permits(), 4);
        drop((large, small));
        assert_eq!(memory.free.available_permits(), 10);
    }

    #[test]
    fn one_that_needs_more_than_there_is_runs_alone() {
        let memory = Memory::new(10 * KIBIBYTE, || {});
        let first = poll(&mut pin!(memory.take(1))).unwrap();
        let mut huge = pin!(memory.take(u64::MAX));
        assert!(poll(&mut huge).is_none());
        drop(first);
        let huge = poll(&mut huge).unwrap();
        assert_eq!(huge.share(), Share::All);
        let mut next = pin!(memory.take(1));
        assert!(poll(&mut next).is_none());
        drop(huge);
        assert_eq!(poll(&mut next).unwrap().share(), Share::Part);
    }
}
