//! Rate limit on the calls of each client: a burst, then one call per interval.

use crate::clients::Client;
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::time::Duration;
use tokio::time::Instant;

/// Burst, as the time in which its calls would become available.
const BURST: Duration = Duration::from_secs(5);
/// Number of clients remembered before those with a full burst are dropped.
const FEW: usize = 1024;

/// Rate limiter of calls.
#[derive(Debug)]
pub struct RateLimit {
    interval: Duration,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// Time when each client will have its full burst again.
    full_at: BTreeMap<Client, Instant>,
    forget_at: usize,
}

impl RateLimit {
    /// Creates a limit of so many calls per second for each client.
    pub fn new(per_second: u32) -> Self {
        Self {
            interval: Duration::from_secs(1) / per_second.max(1),
            state: Mutex::default(),
        }
    }

    /// Counts a call of this client.
    ///
    /// # Errors
    /// An exceeded rate limit, as the time until the next call is allowed.
    pub fn count(&self, client: &Client) -> Result<(), Duration> {
        let now = Instant::now();
        let mut state = self.state.lock();
        if state.full_at.len() >= state.forget_at.max(FEW) {
            state.full_at.retain(|_, full_at| *full_at > now);
            state.forget_at = 2 * state.full_at.len();
        }
        let full_at = state.full_at.entry(client.clone()).or_insert(now);
        let after = (*full_at).max(now) + self.interval;
        let wait = after.saturating_duration_since(now + BURST.max(self.interval));
        if wait.is_zero() {
            *full_at = after;
            Ok(())
        } else {
            Err(wait)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::time::advance;

    fn client(name: &str) -> Client {
        Client::Named(name.into())
    }

    /// Returns the number of consecutive calls that are allowed.
    fn burst(quotas: &RateLimit, client: &Client) -> usize {
        (0..).take_while(|_| quotas.count(client).is_ok()).count()
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_has_a_burst_and_then_its_rate() {
        let (quotas, a) = (RateLimit::new(10), client("a"));
        assert_eq!(burst(&quotas, &a), 50);
        assert_eq!(quotas.count(&a), Err(Duration::from_millis(100)));
        // Other clients are unaffected.
        assert_eq!(burst(&quotas, &client("b")), 50);
        advance(Duration::from_millis(1000)).await;
        assert_eq!(burst(&quotas, &a), 10);
        advance(Duration::from_secs(100)).await;
        assert_eq!(burst(&quotas, &a), 50);
    }

    #[tokio::test(start_paused = true)]
    async fn quiet_clients_are_forgotten() {
        let quotas = RateLimit::new(1);
        for number in 0..FEW {
            quotas.count(&client(&number.to_string())).unwrap();
        }
        advance(Duration::from_secs(1)).await;
        quotas.count(&client("new")).unwrap();
        assert_eq!(quotas.state.lock().full_at.len(), 1);
        // Clients without a full burst are remembered.
        let busy = client("busy");
        assert_eq!(burst(&quotas, &busy), 5);
        for number in 0..2 * FEW {
            let _ = quotas.count(&client(&number.to_string()));
        }
        assert!(quotas.count(&busy).is_err());
    }
}
