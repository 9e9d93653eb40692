//! Rate-limits log lines that unauthenticated peers can trigger and counts the suppressed ones.

use parking_lot::Mutex;
use std::time::{Duration, Instant};

/// Minimum time between two lines.
const INTERVAL: Duration = Duration::from_secs(10);

/// Throttle of one kind of log line.
#[derive(Debug, Default)]
pub(crate) struct Rarely(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    told: Option<Instant>,
    times: u64,
    in_all: u64,
}

impl Rarely {
    /// Counts an event and logs it, with the number of events since the last line, unless that was just now.
    pub(crate) fn tell(&self, tell: impl FnOnce(u64)) {
        let mut state = self.0.lock();
        state.times += 1;
        state.in_all += 1;
        if state.told.is_none_or(|told| told.elapsed() >= INTERVAL) {
            state.told = Some(Instant::now());
            tell(std::mem::take(&mut state.times));
        }
    }

    /// Returns the number of events.
    pub(crate) fn in_all(&self) -> u64 {
        self.0.lock().in_all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_time_is_told_and_others_are_counted() {
        let rarely = Rarely::default();
        let mut told = Vec::new();
        for _ in 0..5 {
            rarely.tell(|times| told.push(times));
        }
        assert_eq!(told, [1]);
        rarely.0.lock().told = Instant::now().checked_sub(INTERVAL);
        rarely.tell(|times| told.push(times));
        assert_eq!(told, [1, 5]);
        assert_eq!(rarely.in_all(), 6);
    }
}
