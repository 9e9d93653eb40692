//! Limits on what one caller, or all together, may ask of the server.

use crate::clients::Client;
use crate::connections::ConnectionLimits;
use oboro_format::wording::{MAX_QUERIES, MAX_QUERIES_PER_CLIENT};
use oboro_protocol::{MAX_MESSAGE_BYTES, SEGMENT_CHUNK_BYTES, max_itemsets, v1};
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::Duration;
use tonic::Status;

/// Limits of a server. A request beyond one is refused with a sentence that names it.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Bytes of one message to the server.
    pub message_bytes: usize,
    /// Bytes that one dataset takes in the store.
    pub dataset_bytes: u64,
    /// Itemsets of one query; if the protocol allows fewer of their length, its limit applies.
    pub itemsets: usize,
    /// Queries in progress at a time.
    pub queries: usize,
    /// The most of these of one client.
    pub queries_per_client: usize,
    /// From the admission of a query to the last byte of its answer.
    pub query_time: Duration,
    /// Bytes of one search in genomes, query and answers of all windows together.
    pub search_bytes: u64,
    /// How callers may keep connections.
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
            search_bytes: 1 << 30,
            connections: ConnectionLimits::default(),
        }
    }
}

impl Limits {
    /// The range of the limit on messages: a chunk of a segment has to fit, and the protocol has no
    /// larger messages.
    pub const MESSAGE_BYTES: RangeInclusive<usize> = 2 * SEGMENT_CHUNK_BYTES..=MAX_MESSAGE_BYTES;

    /// The most itemsets of a length in one query.
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

/// Counts the queries in progress.
pub(crate) struct Admission {
    limits: Limits,
    in_flight: Mutex<BTreeMap<Client, usize>>,
}

/// Permission for one query to run, released when dropped.
pub(crate) struct AdmissionPermit {
    admission: Arc<Admission>,
    client: Client,
}

impl Admission {
    pub(crate) fn new(limits: Limits) -> Self {
        Self {
            limits,
            in_flight: Mutex::default(),
        }
    }

    pub(crate) fn admit(self: &Arc<Self>, client: &Client) -> Result<AdmissionPermit, Status> {
        let Limits {
            queries,
            queries_per_client,
            ..
        } = self.limits;
        let mut in_flight = self.in_flight.lock();
        if in_flight.values().sum::<usize>() >= queries {
            return Err(Status::resource_exhausted(format!(
                "too many queries are in progress: this server takes {queries} at a time; try again when one has ended, or ask its operator to raise {MAX_QUERIES}"
            )));
        }
        let own = in_flight.get(client).copied().unwrap_or(0);
        if own >= queries_per_client {
            return Err(Status::resource_exhausted(format!(
                "too many queries of this client are in progress: this server takes {queries_per_client} of one client at a time; try again when one has ended, or ask its operator to raise {MAX_QUERIES_PER_CLIENT}"
            )));
        }
        in_flight.insert(client.clone(), own + 1);
        Ok(AdmissionPermit {
            admission: Arc::clone(self),
            client: client.clone(),
        })
    }
}

impl Drop for AdmissionPermit {
    fn drop(&mut self) {
        let mut in_flight = self.admission.in_flight.lock();
        if let Some(own) = in_flight.get_mut(&self.client) {
            *own -= 1;
            if *own == 0 {
                in_flight.remove(&self.client);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tonic::Code;

    #[test]
    fn places_are_limited_and_given_back() {
        let admission = Arc::new(Admission::new(Limits {
            queries: 3,
            queries_per_client: 2,
            ..Limits::default()
        }));
        let [a, b] = ["a", "b"].map(|name| Client::Named(name.into()));
        let refusal = |client: &Client| {
            let status = admission.admit(client).err().unwrap();
            assert_eq!(status.code(), Code::ResourceExhausted);
            status.message().to_owned()
        };
        let mut permits = vec![admission.admit(&a).unwrap(), admission.admit(&a).unwrap()];
        assert!(refusal(&a).contains("takes 2 of one client"));
        assert!(refusal(&a).contains("--max-queries-per-client"));
        permits.push(admission.admit(&b).unwrap());
        assert!(refusal(&b).contains("takes 3 at a time"));
        assert!(refusal(&b).ends_with("--max-queries"));
        permits.remove(0);
        permits.push(admission.admit(&b).unwrap());
        assert!(refusal(&a).contains("takes 3 at a time"));
        permits.clear();
        assert!(admission.in_flight.lock().is_empty());
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
