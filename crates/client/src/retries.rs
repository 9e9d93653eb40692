//! Retry policy: repeats calls with identical bytes.
//!
//! It depends on the status of the transport alone, never on an answer or its verification. A lying server thus sees
//! requests repeated, a bounded number of times.

use crate::connection::Connection;
use crate::error::ClientError;
use std::time::Duration;

/// Maximum number of attempts over connections that break.
const ATTEMPTS: u32 = 3;
/// Maximum number of attempts while the server is busy.
const ATTEMPTS_WHEN_BUSY: u32 = 6;
/// Twice the mean delay after the first attempt; it doubles.
const FIRST_WAIT: Duration = Duration::from_millis(400);
/// Maximum delay, whatever the server requests.
const LONGEST_WAIT: Duration = Duration::from_secs(30);

/// Effect of a call on the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Effect {
    /// None: a broken call can be repeated even if it was carried out.
    None,
    /// Some: the call is repeated only after a refusal.
    Some,
}

impl Connection {
    /// Makes a call without effect on the server, with retries if it is busy or the connection breaks.
    ///
    /// # Errors
    /// That of the last attempt.
    pub(crate) fn again<T>(
        &self,
        ask: impl FnMut() -> Result<T, ClientError>,
    ) -> Result<T, ClientError> {
        self.repeat(Effect::None, ask)
    }

    /// Makes a call, with retries if the server is busy.
    ///
    /// # Errors
    /// That of the last attempt.
    pub(crate) fn when_free<T>(
        &self,
        ask: impl FnMut() -> Result<T, ClientError>,
    ) -> Result<T, ClientError> {
        self.repeat(Effect::Some, ask)
    }

    fn repeat<T>(
        &self,
        effect: Effect,
        mut ask: impl FnMut() -> Result<T, ClientError>,
    ) -> Result<T, ClientError> {
        let mut attempt = 1;
        loop {
            let error = match ask() {
                Err(error) => error,
                answered => return answered,
            };
            if attempt >= attempts(&error, effect) {
                return Err(error);
            }
            self.rest(&error, wait(&error, attempt, fraction()))?;
            attempt += 1;
        }
    }
}

/// Returns the maximum number of attempts of a call that fails with `error`.
fn attempts(error: &ClientError, effect: Effect) -> u32 {
    match error {
        ClientError::Overloaded { .. } => ATTEMPTS_WHEN_BUSY,
        ClientError::Broken { .. } | ClientError::NoAnswer { .. } if effect == Effect::None => {
            ATTEMPTS
        }
        _ => 1,
    }
}

/// Returns the delay after failed attempt number `attempt`: the time that the server requests, plus a random `fraction`
/// of an exponential backoff. The jitter spreads callers that were refused together.
pub(crate) fn wait(error: &ClientError, attempt: u32, fraction: f64) -> Duration {
    let after = match error {
        ClientError::Overloaded { after, .. } => *after,
        _ => Duration::ZERO,
    };
    let most = FIRST_WAIT * 2u32.pow((attempt - 1).min(16));
    (after + most.min(LONGEST_WAIT).mul_f64(fraction)).min(LONGEST_WAIT)
}

/// Returns a random number from 0 to 1.
pub(crate) fn fraction() -> f64 {
    // Without randomness, delays are average.
    getrandom::u32().map_or(0.5, |number| f64::from(number) / f64::from(u32::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn busy(after: Duration) -> ClientError {
        ClientError::Overloaded {
            message: "busy".to_owned(),
            after,
        }
    }

    #[test]
    fn waits_double_and_are_at_least_what_the_server_asks_for() {
        let second = Duration::from_secs(1);
        let waits = |fraction| [1, 2, 3].map(|it| wait(&busy(second), it, fraction));
        assert_eq!(waits(0.0), [second; 3]);
        assert_eq!(waits(1.0), [1400, 1800, 2600].map(Duration::from_millis));
        assert_eq!(wait(&busy(second), 5, 0.5).as_millis(), 1000 + 3200);
        // A server cannot delay a caller indefinitely.
        assert_eq!(wait(&busy(Duration::MAX / 2), 1, 1.0), LONGEST_WAIT);
        assert_eq!(wait(&ClientError::Busy, 60, 1.0), LONGEST_WAIT);
        assert!((0.0..=1.0).contains(&fraction()));
    }

    #[test]
    fn only_what_is_safe_is_made_again() {
        let broken = ClientError::Broken {
            during: "asking",
            cause: "cut".to_owned(),
        };
        let refused = ClientError::Refused("no".to_owned());
        for (error, reading, changing) in [
            (&busy(Duration::ZERO), 6, 6),
            (&broken, 3, 1),
            (&refused, 1, 1),
            (&ClientError::Busy, 1, 1),
        ] {
            assert_eq!(attempts(error, Effect::None), reading, "{error}");
            assert_eq!(attempts(error, Effect::Some), changing, "{error}");
        }
    }
}
