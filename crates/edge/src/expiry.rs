//! Expiry of certificates and tokens: some days before, the log warns at once and then every day.

mod watch;

use time::{Duration, OffsetDateTime};
pub use watch::ExpiryWatch;

/// Notice period for the server's certificate.
pub(crate) const OF_SERVER: Duration = Duration::days(30);
/// Notice period for tokens and the authorities of client certificates.
pub(crate) const OF_CALLERS: Duration = Duration::days(14);

/// Credential that expires.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Expiring {
    /// Kind and name.
    pub(crate) what: String,
    /// First moment at which it is no longer valid.
    pub(crate) at: OffsetDateTime,
}

impl Expiring {
    /// Returns it if it expires within `notice` or has expired.
    pub(crate) fn within(self, notice: Duration, now: OffsetDateTime) -> Option<Self> {
        (self.at - now <= notice).then_some(self)
    }
}
