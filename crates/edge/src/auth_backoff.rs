//! Per-address backoff for failed token checks. Valid tokens are never delayed, which rules out lock-outs.

use crate::connections::network;
use parking_lot::Mutex;
use std::collections::HashMap;
use std::net::IpAddr;
use std::time::{Duration, Instant};

/// Number of refusals without delay, for a caller with the wrong file.
const AT_ONCE: u32 = 10;
/// Time per refusal beyond that.
const INTERVAL: Duration = Duration::from_secs(1);
/// Maximum delay.
const LONGEST: Duration = Duration::from_secs(10);
/// Maximum number of remembered addresses; above it those without a delay are dropped.
const ADDRESSES: usize = 1 << 16;

/// Time up to which each address has used its refusals.
#[derive(Debug, Default)]
pub(crate) struct AuthBackoff(Mutex<HashMap<IpAddr, Instant>>);

impl AuthBackoff {
    /// Returns the delay for refusing an invalid token from this address.
    pub(crate) fn delay(&self, address: IpAddr, now: Instant) -> Duration {
        let mut paced = self.0.lock();
        if paced.len() >= ADDRESSES {
            paced.retain(|_, until| *until > now);
        }
        if paced.len() >= ADDRESSES {
            return LONGEST;
        }
        let until = paced.entry(network(address)).or_insert(now);
        let owed = until.saturating_duration_since(now) + INTERVAL;
        let wait = owed.saturating_sub(AT_ONCE * INTERVAL).min(LONGEST);
        *until = now + owed.min(AT_ONCE * INTERVAL + LONGEST);
        wait
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_wait_longer_and_longer_and_others_do_not() {
        let backoff = AuthBackoff::default();
        let (now, zero) = (Instant::now(), Duration::ZERO);
        let [one, same, other] = ["2001:db8::1", "2001:db8::ffff:2", "2001:db8:0:1::1"]
            .map(|it| it.parse::<IpAddr>().unwrap());
        for _ in 0..AT_ONCE {
            assert_eq!(backoff.delay(one, now), zero);
        }
        assert_eq!(backoff.delay(same, now), INTERVAL);
        assert_eq!(backoff.delay(one, now), 2 * INTERVAL);
        for _ in 0..100 {
            backoff.delay(one, now);
        }
        assert_eq!(backoff.delay(one, now), LONGEST);
        assert_eq!(backoff.delay(other, now), zero);
        // After some time, refusals are immediate again.
        let later = now + LONGEST + (AT_ONCE + 1) * INTERVAL;
        assert_eq!(backoff.delay(one, later), zero);
        let mapped = "::ffff:192.0.2.1".parse().unwrap();
        assert_eq!(network(mapped), "192.0.2.1".parse::<IpAddr>().unwrap());
    }

    #[test]
    fn addresses_without_end_take_no_memory() {
        let backoff = AuthBackoff::default();
        let now = Instant::now();
        for number in 0..ADDRESSES as u32 {
            backoff.delay(IpAddr::V4(number.into()), now);
        }
        let next = IpAddr::V4((ADDRESSES as u32).into());
        assert_eq!(backoff.delay(next, now), LONGEST);
        assert_eq!(backoff.delay(next, now + 2 * INTERVAL), Duration::ZERO);
        assert_eq!(backoff.0.lock().len(), 1);
    }
}
