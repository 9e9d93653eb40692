//! Limit on bytes per second, enforced by sleeping after each part.

use std::num::NonZero;
use std::time::{Duration, Instant};

/// Throttle for work in parts, to a number of bytes per second. Time lost otherwise, for example to a slow disk, is not
/// made up for later.
#[derive(Debug)]
pub struct Pace {
    rate: Option<NonZero<u64>>,
    /// Time at which the next part may begin.
    due: Instant,
}

impl Pace {
    /// Creates a throttle; without a rate it never sleeps.
    pub fn new(rate: Option<NonZero<u64>>) -> Self {
        Self {
            rate,
            due: Instant::now(),
        }
    }

    /// Returns the time to sleep after a part of `bytes` that has just ended.
    pub fn rest(&mut self, bytes: u64) -> Duration {
        self.rest_at(Instant::now(), bytes)
    }

    fn rest_at(&mut self, now: Instant, bytes: u64) -> Duration {
        let Some(rate) = self.rate else {
            return Duration::ZERO;
        };
        let share = Duration::from_secs_f64(bytes as f64 / rate.get() as f64);
        let rest = (self.due + share).saturating_duration_since(now);
        self.due = now + rest;
        rest
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MILLISECOND: Duration = Duration::from_millis(1);

    #[test]
    fn parts_take_the_time_that_the_rate_gives_them() {
        let mut pace = Pace::new(NonZero::new(1000));
        let begun = pace.due;
        // Reading takes part of the time.
        assert_eq!(
            pace.rest_at(begun + 30 * MILLISECOND, 100),
            70 * MILLISECOND
        );
        assert_eq!(
            pace.rest_at(begun + 150 * MILLISECOND, 100),
            50 * MILLISECOND
        );
        // Work slower than the rate needs no sleep and builds up no credit.
        assert_eq!(pace.rest_at(begun + 900 * MILLISECOND, 100), Duration::ZERO);
        assert_eq!(
            pace.rest_at(begun + 900 * MILLISECOND, 100),
            100 * MILLISECOND
        );
    }

    #[test]
    fn without_a_rate_there_is_no_rest() {
        let mut pace = Pace::new(None);
        assert_eq!(pace.rest_at(pace.due, u64::MAX), Duration::ZERO);
    }
}
