//! Limit on the connections of operators, by eviction: silent connections cannot lock others out.

use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use tokio_util::sync::CancellationToken;

/// Maximum number of connections.
const MOST: usize = 64;

/// Open connections, in order of arrival.
#[derive(Default)]
pub(super) struct Places(Mutex<BTreeMap<u64, Arc<Slot>>>);

#[derive(Default)]
pub(super) struct Slot {
    /// `true` once a request has arrived.
    has_asked: AtomicBool,
    evicted: CancellationToken,
}

/// Connection that is open until this is dropped.
pub(super) struct Place {
    places: Arc<Places>,
    number: u64,
    pub(super) slot: Arc<Slot>,
}

impl Places {
    /// Adds a connection. Beyond the limit, evicts the oldest, preferably one without a request.
    pub(super) fn enter(self: &Arc<Self>) -> Place {
        let mut open = self.0.lock();
        if open.len() >= MOST {
            let is_silent = |it: &&u64| !open[it].has_asked.load(Ordering::Relaxed);
            let silent = open.keys().find(is_silent).copied();
            let oldest = silent.or_else(|| open.keys().next().copied());
            if let Some(slot) = oldest.and_then(|it| open.remove(&it)) {
                slot.evicted.cancel();
            }
        }
        let number = open.last_key_value().map_or(0, |(last, _)| last + 1);
        let slot = Arc::<Slot>::default();
        open.insert(number, Arc::clone(&slot));
        Place {
            places: Arc::clone(self),
            number,
            slot,
        }
    }
}

impl Slot {
    /// Records that a request has arrived.
    pub(super) fn asks(&self) {
        self.has_asked.store(true, Ordering::Relaxed);
    }

    /// Completes once the connection is evicted.
    pub(super) async fn evicted(&self) {
        self.evicted.cancelled().await;
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut open = self.places.0.lock();
        // Another connection may have reused the number.
        if open
            .get(&self.number)
            .is_some_and(|it| Arc::ptr_eq(it, &self.slot))
        {
            open.remove(&self.number);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_goes_first_of_those_that_say_nothing() {
        let places = Arc::<Places>::default();
        let mut open: Vec<Place> = (0..MOST).map(|_| places.enter()).collect();
        open[0].slot.asks();
        let is_evicted = |place: &Place| place.slot.evicted.is_cancelled();
        let newest = places.enter();
        assert!(is_evicted(&open[1]) && !is_evicted(&open[0]) && !is_evicted(&newest));
        open.iter().for_each(|it| it.slot.asks());
        newest.slot.asks();
        let one_more = places.enter();
        assert!(is_evicted(&open[0]) && !is_evicted(&one_more));
        open.clear();
        assert_eq!(places.0.lock().len(), 2);
    }
}
