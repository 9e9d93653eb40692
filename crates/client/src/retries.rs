//! When a call is made again, with the same bytes.
//!
//! The status of the transport alone decides, never what had arrived of an answer, nor whether it was verified: a server that
//! lies sees a request that it has seen before, a fixed number of times at most.

use crate::connection::Connection;
use crate::error::ClientError;
use std::time::Duration;

/// How often a call is made over connections that break.
const ATTEMPTS: u32 = 3;
/// How often a call is made that the server refuses because it is busy.
const ATTEMPTS_WHEN_BUSY: u32 = 6;
/// The mean wait after the first attempt is half of this; it doubles.
const FIRST_WAIT: Duration = Duration::from_millis(400);
/// The longest wait, whatever the server asks for.
const LONGEST_WAIT: Duration = Duration::from_secs(30);

/// What a call does to the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Effect {
    /// Nothing, so that it does not matter whether a broken call was carried out.
    None,
    /// Something, so that it is made again only where it was refused.
    Some,
}

impl Connection {
    /// Makes a call that changes nothing, again if the server is busy or the connection breaks.
    ///
    /// # Errors
    /// That of the last attempt.
    pub(crate) fn again<T>(
        &self,
        ask: impl FnMut() -> Result<T, ClientError>,
    ) -> Result<T, ClientError> {
        self.repeat(Effect::None, ask)
    }

    /// Makes a call, again if the server is busy.
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

/// How often a call is made at most that fails like this.
fn attempts(error: &ClientError, effect: Effect) -> u32 {
    match error {
        ClientError::Overloaded { .. } => ATTEMPTS_WHEN_BUSY,
        ClientError::Broken { .. } | ClientError::NoAnswer { .. } if effect == Effect::None => {
            ATTEMPTS
        }
        _ => 1,
    }
}

/// The wait after an attempt with this number that failed like this: what the server asks for, and any part of a time that
/// doubles, so that callers who were refused together do not come back together.
pub(crate) fn wait(error: &ClientError, attempt: u32, fraction: f64) -> Duration {
    let after = match error {
        ClientError::Overloaded { after, .. } => *after,
        _ => Duration::ZERO,
    };
    let most = FIRST_WAIT * 2u32.pow((attempt - 1).min(16));
    (after + most.min(LONGEST_WAIT).mul_f64(fraction)).min(LONGEST_WAIT)
}

/// Any number from 0 to 1.
pub(crate) fn fraction() -> f64 {
    // Without randomness waits are in the middle.
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
        // A server does not make a caller wait for ever.
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
