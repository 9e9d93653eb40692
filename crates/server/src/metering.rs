//! Counters of each owner's calls, bytes and computing time since the server started, for metrics and the page.

use http_body::Frame;
use oboro_edge::{Client, Observer, observed};
use oboro_format::DEFAULT_NAMESPACE;
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::ops::{Add, Sub};
use std::sync::Arc;
use std::time::Duration;
use tonic::Status;
use tonic::body::Body;
use tonic::codegen::Bytes;

/// Calls, bytes and computing time of one owner.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Used {
    /// Calls, refused ones included.
    pub(crate) calls: u64,
    /// Bytes of messages that it sent.
    pub(crate) received_bytes: u64,
    /// Bytes of the answers that it took.
    pub(crate) sent_bytes: u64,
    /// Time of threads that counted or searched for it.
    pub(crate) compute_microseconds: u64,
}

/// Counters by owner.
#[derive(Debug, Default)]
pub(crate) struct Meter(Mutex<BTreeMap<Arc<str>, Used>>);

impl Meter {
    /// Returns what each owner has used since the server started.
    pub(crate) fn used(&self) -> Vec<(Arc<str>, Used)> {
        let all = self.0.lock();
        all.iter()
            .map(|(owner, used)| (Arc::clone(owner), *used))
            .collect()
    }

    fn add(&self, client: &Client, change: impl FnOnce(&mut Used)) {
        let owner = match client {
            Client::Named(name) => name,
            Client::Connected(_) => DEFAULT_NAMESPACE,
        };
        let mut all = self.0.lock();
        match all.get_mut(owner) {
            Some(used) => change(used),
            None => change(all.entry(owner.into()).or_default()),
        }
    }

    pub(crate) fn computed(&self, client: &Client, time: Duration) {
        let microseconds = u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
        self.add(client, |used| used.compute_microseconds += microseconds);
    }

    /// Counts a call, and the bytes of its request as they are received.
    pub(crate) fn request(self: &Arc<Self>, client: &Client, body: Body) -> Body {
        self.add(client, |used| used.calls += 1);
        let count = |used: &mut Used, bytes| used.received_bytes += bytes;
        observed(body, self.metered(client, count))
    }

    /// Counts the bytes of an answer as they are taken.
    pub(crate) fn answer(self: &Arc<Self>, client: &Client, body: Body) -> Body {
        let count = |used: &mut Used, bytes| used.sent_bytes += bytes;
        observed(body, self.metered(client, count))
    }

    fn metered(self: &Arc<Self>, client: &Client, count: fn(&mut Used, u64)) -> Metered {
        Metered {
            meter: Arc::clone(self),
            client: client.clone(),
            count,
        }
    }
}

impl Used {
    fn with(self, other: Self, each: fn(u64, u64) -> u64) -> Self {
        Self {
            calls: each(self.calls, other.calls),
            received_bytes: each(self.received_bytes, other.received_bytes),
            sent_bytes: each(self.sent_bytes, other.sent_bytes),
            compute_microseconds: each(self.compute_microseconds, other.compute_microseconds),
        }
    }
}

impl Add for Used {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        self.with(other, u64::add)
    }
}

impl Sub for Used {
    type Output = Self;

    fn sub(self, other: Self) -> Self {
        self.with(other, u64::sub)
    }
}

/// Counts the bytes of a body.
struct Metered {
    meter: Arc<Meter>,
    client: Client,
    count: fn(&mut Used, u64),
}

impl Observer for Metered {
    fn observe(&mut self, frame: &mut Result<Frame<Bytes>, Status>) {
        if let Some(data) = frame.as_ref().ok().and_then(Frame::data_ref) {
            let count = self.count;
            self.meter
                .add(&self.client, |used| count(used, data.len() as u64));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use http_body_util::BodyExt;

    #[tokio::test]
    async fn calls_bytes_and_computing_are_counted_by_owner() {
        let meter = Arc::new(Meter::default());
        let [alice, bob] = ["alice", "bob"].map(|name| Client::Named(name.into()));
        for (client, bytes) in [(&alice, 10), (&alice, 5), (&bob, 7)] {
            let body = Body::new(http_body_util::Full::new(Bytes::from(vec![0; bytes])));
            let received = meter.request(client, body).collect().await.unwrap();
            let answer = Body::new(http_body_util::Full::new(received.to_bytes()));
            meter.answer(client, answer).collect().await.unwrap();
        }
        meter.computed(&alice, Duration::from_millis(3));
        meter.computed(&Client::Connected(None), Duration::from_micros(1));
        let all = BTreeMap::from_iter(meter.used());
        let owners: Vec<_> = all.keys().map(|it| &**it).collect();
        assert_eq!(owners, ["alice", "bob", "default"]);
        let used = Used {
            calls: 2,
            received_bytes: 15,
            sent_bytes: 15,
            compute_microseconds: 3_000,
        };
        assert_eq!(all["alice"], used);
    }
}
