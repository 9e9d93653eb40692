//! Rate-limits log lines that unauthenticated peers can trigger and counts the suppressed ones.

use parking_lot::Mutex;
use std::time::{Duration, Instant};

/// Minimum time between two lines.
const INTERVAL: Duration = Duration::from_secs(10);

/// Throttle of one kind of log line.
#[derive(Debug, Default)]
pub struct ThrottledLog(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    last: Option<Instant>,
    times: u64,
    total: u64,
}

impl ThrottledLog {
    /// Counts an event and logs it, with the number of events since the last line, unless that was just now.
    pub fn log(&self, log: impl FnOnce(u64)) {
        let mut state = self.0.lock();
        state.times += 1;
        state.total += 1;
        if state.last.is_none_or(|last| last.elapsed() >= INTERVAL) {
            state.last = Some(Instant::now());
            log(std::mem::take(&mut state.times));
        }
    }

    /// Returns the number of events.
    pub fn total(&self) -> u64 {
        self.0.lock().total
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_event_is_logged_and_others_are_counted() {
        let throttled = ThrottledLog::default();
        let mut logged = Vec::new();
        for _ in 0..5 {
            throttled.log(|times| logged.push(times));
        }
        assert_eq!(logged, [1]);
        throttled.0.lock().last = Instant::now().checked_sub(INTERVAL);
        throttled.log(|times| logged.push(times));
        assert_eq!(logged, [1, 5]);
        assert_eq!(throttled.total(), 6);
    }
}
