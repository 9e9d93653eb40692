//! Limits on what one caller, or all together, may request of the server.

use crate::queries::{Queries, Query};
use oboro_edge::{Caller, Client, ConnectionLimits, RETRY_SOON, busy};
use oboro_format::wording::{MAX_QUERIES, MAX_QUERIES_PER_CLIENT};
use oboro_protocol::{MAX_MESSAGE_BYTES, SEGMENT_CHUNK_BYTES, max_itemsets, v1};
use oboro_residency::{FairSemaphore, Permit, ShareLimit};
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::timeout;
use tonic::Status;

/// Limits of a server. A request beyond one is refused with a message that names it.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Maximum bytes of one message to the server.
    pub message_bytes: usize,
    /// Maximum bytes of one dataset in the store.
    pub dataset_bytes: u64,
    /// Maximum number of itemsets in one query; the protocol's limit for their length applies if it is lower.
    pub itemsets: usize,
    /// Maximum number of concurrent queries.
    pub queries: usize,
    /// Maximum number of concurrent queries of one client.
    pub queries_per_client: usize,
    /// Maximum time from the admission of a query to the last byte of its answer.
    pub query_time: Duration,
    /// Maximum time that a call waits in the queue before it is refused.
    pub queue_time: Duration,
    /// Sustained calls per second of one client, after a burst.
    pub calls_per_second: u32,
    /// Maximum bytes of one genome search: the query and the answers of all windows.
    pub search_bytes: u64,
    /// Limits on connections.
    pub connections: ConnectionLimits,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            message_bytes: MAX_MESSAGE_BYTES,
            dataset_bytes: 1 << 40,
            itemsets: max_itemsets(1),
            queries: 64,
            queries_per_client: 16,
            query_time: Duration::from_secs(3600),
            queue_time: Duration::from_secs(10),
            calls_per_second: 100,
            search_bytes: 1 << 30,
            connections: ConnectionLimits::default(),
        }
    }
}

impl Limits {
    /// Valid range of `message_bytes`: a chunk of a segment has to fit, and the protocol has no larger messages.
    pub const MESSAGE_BYTES: RangeInclusive<usize> = 2 * SEGMENT_CHUNK_BYTES..=MAX_MESSAGE_BYTES;

    /// Returns the maximum number of itemsets of a length in one query.
    pub(crate) fn itemsets_of(&self, length: usize) -> usize {
        self.itemsets.min(max_itemsets(length))
    }
}

impl From<Limits> for v1::Limits {
    fn from(limits: Limits) -> Self {
        Self {
            message_bytes: limits.message_bytes as u64,
            dataset_bytes: limits.dataset_bytes,
            itemsets: limits.itemsets as u64,
            queries: limits.queries as u64,
            queries_per_client: limits.queries_per_client as u64,
            query_seconds: limits.query_time.as_secs(),
            search_bytes: limits.search_bytes,
        }
    }
}

/// Admission control for queries: counts, fetches of columns, genome searches.
pub(crate) struct Admission {
    limits: Limits,
    places: Arc<FairSemaphore<Client>>,
    queries: Arc<Queries>,
}

impl Admission {
    pub(crate) fn new(limits: Limits) -> Self {
        Self {
            limits,
            places: FairSemaphore::new(ShareLimit::Fixed {
                all: limits.queries as u64,
                per_client: limits.queries_per_client as u64,
                reserved: limits.queries as u64 / 4,
            }),
            queries: Arc::default(),
        }
    }

    /// Returns the admitted queries.
    pub(crate) fn queries(&self) -> &Queries {
        &self.queries
    }

    /// Waits for a query slot, released when dropped; clients take turns. The query is listed by its call and the name
    /// of what it is `about`.
    ///
    /// # Errors
    /// None became free in time.
    pub(crate) async fn admit(
        &self,
        caller: &Caller,
        about: (&'static str, &str),
    ) -> Result<Query, Status> {
        let place = self.place(&caller.client).await?;
        Ok(self.queries.begin(caller, about, place))
    }

    /// Returns the slots.
    pub(crate) fn places(&self) -> &FairSemaphore<Client> {
        &self.places
    }

    async fn place(&self, client: &Client) -> Result<Permit<Client>, Status> {
        let Limits {
            queries,
            queries_per_client,
            queue_time,
            ..
        } = self.limits;
        if let Ok(Ok(place)) = timeout(queue_time, self.places.acquire(client, 1)).await {
            return Ok(place);
        }
        let refusal = if self.places.held(client) >= queries_per_client as u64 {
            format!(
                "too many queries of this client are in progress: this server takes {queries_per_client} of one client at a time; try again when one has ended, or ask its operator to raise {MAX_QUERIES_PER_CLIENT}"
            )
        } else {
            format!(
                "too many queries are in progress: this server takes {queries} at a time, the last quarter of them of clients that have none; try again when one has ended, or ask its operator to raise {MAX_QUERIES}"
            )
        };
        Err(busy(refusal, RETRY_SOON))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use oboro_protocol::RETRY_AFTER_KEY;
    use tokio::time::{Instant, sleep};
    use tonic::Code;

    #[tokio::test(start_paused = true)]
    async fn places_are_limited_and_given_back() {
        let admission = Admission::new(Limits {
            queries: 3,
            queries_per_client: 2,
            ..Limits::default()
        });
        let [a, b] = ["a", "b"].map(|name| Client::Named(name.into()));
        let admit = async |client: &Client| admission.place(client).await.unwrap();
        let refusal = async |client: &Client| {
            let begun = Instant::now();
            let status = admission.place(client).await.unwrap_err();
            assert_eq!(begun.elapsed(), Limits::default().queue_time);
            assert_eq!(status.code(), Code::ResourceExhausted);
            assert!(status.metadata().contains_key(RETRY_AFTER_KEY));
            status.message().to_owned()
        };
        let mut places = vec![admit(&a).await, admit(&a).await];
        let own = refusal(&a).await;
        assert!(own.contains("takes 2 of one client"));
        assert!(own.contains("--max-queries-per-client"));
        places.push(admit(&b).await);
        let all = refusal(&b).await;
        assert!(all.contains("takes 3 at a time"));
        assert!(all.ends_with("--max-queries"));
        places.remove(0);
        places.push(admit(&b).await);
        assert!(refusal(&a).await.contains("takes 3 at a time"));
        // A waiting client gets a slot as soon as one is free.
        let freed = places.remove(0);
        let (waited, ()) = tokio::join!(admit(&a), async { drop(freed) });
        drop((waited, places));
        assert_eq!(admission.places.used(), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn many_clients_beside_a_few_greedy_ones_are_all_served() {
        let admission = Arc::new(Admission::new(Limits::default()));
        let client = |number: usize| Client::Named(format!("client {number}").as_str().into());
        let mut kept = Vec::new();
        for greedy in 0..4 {
            for _ in 0..16 {
                kept.extend(admission.place(&client(greedy)).await.ok());
            }
        }
        assert_eq!(kept.len(), 48 + 1);
        let mut served = Vec::new();
        for number in 4..260 {
            let (admission, client) = (Arc::clone(&admission), client(number));
            served.push(tokio::spawn(async move {
                let place = admission.place(&client).await;
                sleep(Duration::from_millis(500)).await;
                place.map(drop)
            }));
        }
        for query in served {
            query.await.unwrap().unwrap();
        }
    }

    #[test]
    fn the_protocol_limits_itemsets_further() {
        let limits = Limits {
            itemsets: 1000,
            ..Limits::default()
        };
        assert_eq!(limits.itemsets_of(2), 1000);
        assert_eq!(limits.itemsets_of(16), max_itemsets(16));
        assert_eq!(Limits::default().itemsets_of(1), max_itemsets(1));
    }
}
