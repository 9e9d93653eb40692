//! Names what expires soon in the log, and ends the calls of what has expired.

use super::Expiring;
use crate::tls::Certificates;
use crate::tokens::Tokens;
use std::collections::BTreeSet;
use std::sync::Arc;
use time::{Date, OffsetDateTime};

/// Watches the credentials of callers and server: reloads files, ends the calls of expired credentials, and warns of
/// those that expire soon.
pub struct ExpiryWatch {
    tls: Option<Arc<Certificates>>,
    tokens: Option<Arc<Tokens>>,
    /// Warnings already logged on a day.
    warned: (Date, BTreeSet<Expiring>),
}

impl ExpiryWatch {
    /// Creates the watch of a server with these certificates and tokens.
    pub fn new(tls: Option<Arc<Certificates>>, tokens: Option<Arc<Tokens>>) -> Self {
        Self {
            tls,
            tokens,
            warned: (Date::MIN, BTreeSet::new()),
        }
    }

    /// Checks once.
    pub fn look(&mut self, now: OffsetDateTime) {
        for Expiring { what, at } in self.news(now) {
            let days = (at - now).whole_days();
            if at <= now {
                tracing::error!("{what} has expired, on {}; replace it", at.date());
            } else {
                tracing::warn!(days, "{what} expires on {}; replace it before", at.date());
            }
        }
    }

    /// Returns the credentials that expire soon and were not logged today.
    fn news(&mut self, now: OffsetDateTime) -> Vec<Expiring> {
        let mut endings = Vec::new();
        if let Some(tokens) = &self.tokens {
            tokens.refresh();
            tokens.end_expired(now);
            endings.extend(tokens.endings(now));
        }
        if let Some(tls) = &self.tls {
            tls.refresh();
            tls.end_expired(now);
            endings.extend(tls.endings(now));
        }
        if self.warned.0 != now.date() {
            self.warned = (now.date(), BTreeSet::new());
        }
        endings.retain(|it| self.warned.1.insert(it.clone()));
        endings
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::token_file::TokenFile;
    use oboro_format::Roles;
    use tempfile::TempDir;
    use time::Duration;

    #[test]
    fn what_ends_soon_is_named_once_a_day() {
        let directory = TempDir::new().unwrap();
        let file = TokenFile::at(&directory.path().join("tokens"));
        let now = OffsetDateTime::now_utc();
        let soon = now.date() + Duration::days(13);
        let (token, _) = file.add("ward", Roles::OWNER, Some(soon)).unwrap();
        file.add("lab", Roles::OWNER, Some(soon + Duration::days(10)))
            .unwrap();
        file.add("clinic", Roles::OWNER, None).unwrap();
        let tokens = Tokens::open(file.path()).unwrap();
        let mut watch = ExpiryWatch::new(None, Some(Arc::new(tokens)));
        let [ending] = &watch.news(now)[..] else {
            panic!("one of them ends soon");
        };
        assert_eq!(ending.what, format!("token {} of ward", token.id()));
        assert_eq!(watch.news(now), []);
        let (other, _) = file.add("other", Roles::OWNER, Some(soon)).unwrap();
        let [ending] = &watch.news(now)[..] else {
            panic!("a new one is named at once");
        };
        assert!(ending.what.contains(&other.id()));
        assert_eq!(watch.news(now + Duration::DAY).len(), 2);
        // An expired token is of no use to anyone and needs no warning.
        assert_eq!(watch.news(now + Duration::days(15)).len(), 1);
    }
}
