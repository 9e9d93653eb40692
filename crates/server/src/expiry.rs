//! Ends that come: the log names certificates and tokens some days before they expire, at once and then every day.

mod watch;

use time::{Duration, OffsetDateTime};
pub(crate) use watch::Watch;

/// How long before its end a server's certificate is named.
pub(crate) const OF_SERVER: Duration = Duration::days(30);
/// The same of tokens and of the authorities of client certificates.
pub(crate) const OF_CALLERS: Duration = Duration::days(14);

/// Something that ends.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Ending {
    /// What it is, and which one.
    pub(crate) what: String,
    /// From when on it is valid no more.
    pub(crate) at: OffsetDateTime,
}

impl Ending {
    /// If it ends within `notice`, or has ended.
    pub(crate) fn within(self, notice: Duration, now: OffsetDateTime) -> Option<Self> {
        (self.at - now <= notice).then_some(self)
    }
}
