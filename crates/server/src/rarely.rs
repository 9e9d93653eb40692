//! Lines of the log that strangers cause: once in a while, with how often it has happened since.

use parking_lot::Mutex;
use std::time::{Duration, Instant};

/// The time between two lines.
const INTERVAL: Duration = Duration::from_secs(10);

/// What is told rarely, however often it happens.
#[derive(Debug, Default)]
pub(crate) struct Rarely(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    told: Option<Instant>,
    times: u64,
    in_all: u64,
}

impl Rarely {
    /// Has it told, with how often it has happened since it was told last, unless that was just now.
    pub(crate) fn tell(&self, tell: impl FnOnce(u64)) {
        let mut state = self.0.lock();
        state.times += 1;
        state.in_all += 1;
        if state.told.is_none_or(|told| told.elapsed() >= INTERVAL) {
            state.told = Some(Instant::now());
            tell(std::mem::take(&mut state.times));
        }
    }

    /// How often it has happened.
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
