//! What callers prove their names with: a token or a client certificate; and why one does not let them in.

use oboro_format::Roles;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use time::{Date, OffsetDateTime};
use tokio_util::sync::CancellationToken;
use tonic::Status;

/// A kind of credential.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Token,
    Certificate,
}

impl Kind {
    /// Its name, which is that of its id in the log.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Token => "token",
            Self::Certificate => "certificate",
        }
    }
}

/// A token or certificate that a server accepts, or has accepted.
#[derive(Debug)]
pub(crate) struct Credential {
    pub(crate) kind: Kind,
    /// Of its caller.
    pub(crate) name: Arc<str>,
    pub(crate) roles: Roles,
    /// For the log; it says nothing of a secret.
    pub(crate) id: Arc<str>,
    /// From when on it is valid no more.
    pub(crate) expires: Option<OffsetDateTime>,
    pub(crate) end: End,
}

/// The end of a credential, which also what replaces it may bring.
#[derive(Debug, Clone, Default)]
pub(crate) struct End {
    /// Cancelled when it is valid no more: then calls in progress end.
    pub(crate) ended: CancellationToken,
    /// Whether that was because its time was over.
    by_time: Arc<AtomicBool>,
}

impl Credential {
    /// Its last day, if it has passed.
    pub(crate) fn expired(&self, now: OffsetDateTime) -> Option<Date> {
        let expires = self.expires.filter(|it| *it <= now)?;
        Some((expires - time::Duration::NANOSECOND).date())
    }

    /// Itself.
    ///
    /// # Errors
    /// It is valid no more.
    pub(crate) fn valid(self: &Arc<Self>, now: OffsetDateTime) -> Result<Arc<Self>, Refusal> {
        let (kind, id) = (self.kind, Arc::clone(&self.id));
        if let Some(on) = self.expired(now) {
            return Err(Refusal::Expired { kind, id, on });
        }
        if self.end.ended.is_cancelled() {
            return Err(Refusal::Revoked { kind, id });
        }
        Ok(Arc::clone(self))
    }

    /// Ends its calls if it has expired.
    pub(crate) fn end_if_expired(&self, now: OffsetDateTime) {
        if self.expired(now).is_some() {
            self.end.by_time.store(true, Ordering::Release);
            self.end.ended.cancel();
        }
    }

    /// What a call is told that ends because this credential has.
    pub(crate) fn farewell(&self) -> Status {
        let kind = self.kind.name();
        let what = if self.end.by_time.load(Ordering::Acquire) {
            "expired"
        } else {
            "been revoked"
        };
        Status::unauthenticated(format!(
            "the {kind} of this call has {what}; ask the server's operator for another one"
        ))
    }
}

/// Why a caller is not let in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// It presented nothing.
    Missing,
    /// What it presented cannot be a token.
    Malformed,
    /// A token that nobody has.
    Unknown,
    /// A certificate without a name that callers can have.
    Unnamed { id: Arc<str> },
    /// What was valid and is no more.
    Revoked { kind: Kind, id: Arc<str> },
    /// What was valid until the end of a day.
    Expired { kind: Kind, id: Arc<str>, on: Date },
}

impl Refusal {
    /// How many kinds there are.
    pub(crate) const KINDS: usize = 6;

    /// Their names, by number.
    pub(crate) const NAMES: [&str; Self::KINDS] = [
        "missing",
        "malformed",
        "unknown",
        "without_name",
        "revoked",
        "expired",
    ];

    /// The number of its kind.
    pub(crate) fn kind(&self) -> usize {
        match self {
            Self::Missing => 0,
            Self::Malformed => 1,
            Self::Unknown => 2,
            Self::Unnamed { .. } => 3,
            Self::Revoked { .. } => 4,
            Self::Expired { .. } => 5,
        }
    }

    /// For the log.
    pub(crate) fn reason(&self) -> &'static str {
        match self {
            Self::Missing => "neither token nor certificate",
            Self::Malformed => "malformed token",
            Self::Unknown => "unknown token",
            Self::Unnamed { .. } => "certificate without a name for a caller",
            Self::Revoked {
                kind: Kind::Token, ..
            } => "revoked token",
            Self::Revoked { .. } => "certificate that is trusted no more",
            Self::Expired {
                kind: Kind::Token, ..
            } => "expired token",
            Self::Expired { .. } => "expired certificate",
        }
    }

    /// Of the credential, for the log.
    pub(crate) fn id(&self) -> Option<&str> {
        match self {
            Self::Missing | Self::Malformed | Self::Unknown => None,
            Self::Unnamed { id } | Self::Revoked { id, .. } | Self::Expired { id, .. } => Some(id),
        }
    }

    /// What the caller is told where `wanted` says what would let it in: only who had a right one learns more than that.
    pub(crate) fn status(&self, wanted: &str) -> Status {
        Status::unauthenticated(match self {
            Self::Expired { kind, on, .. } => format!(
                "the {} of this call expired: its last day was {on}; ask the server's operator for another one",
                kind.name()
            ),
            Self::Unnamed { .. } => format!(
                "the certificate of this call names nobody: its common name, or its first DNS name if it has none, must have 1 to {} of A-Z a-z 0-9 . _ - and begin with a letter or digit; ask the server's operator for another one",
                oboro_format::MAX_CALLER_CHARS
            ),
            _ => wanted.to_owned(),
        })
    }
}
