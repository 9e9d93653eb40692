//! Credentials of callers (tokens and client certificates), and the reasons for refusing one.

use oboro_format::Roles;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use time::{Date, OffsetDateTime};
use tokio_util::sync::CancellationToken;
use tonic::Status;

/// Kind of credential.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Token,
    Certificate,
}

impl Kind {
    /// Returns its name, also that of the field with its id in the log.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Token => "token",
            Self::Certificate => "certificate",
        }
    }
}

/// Token or certificate that the server accepts, or has accepted.
#[derive(Debug)]
pub(crate) struct Credential {
    pub(crate) kind: Kind,
    /// Name of its caller.
    pub(crate) name: Arc<str>,
    pub(crate) roles: Roles,
    /// Id for the log, which reveals nothing of a secret.
    pub(crate) id: Arc<str>,
    /// First moment at which it is no longer valid, if it expires.
    pub(crate) expires: Option<OffsetDateTime>,
    pub(crate) end: End,
}

/// End of a credential, shared with its replacements.
#[derive(Debug, Clone, Default)]
pub(crate) struct End {
    /// Cancelled when it is no longer valid, which ends calls in progress.
    pub(crate) ended: CancellationToken,
    /// `true` if it expired rather than being revoked.
    by_time: Arc<AtomicBool>,
}

impl Credential {
    /// Returns its last day, if it has passed.
    pub(crate) fn expired(&self, now: OffsetDateTime) -> Option<Date> {
        let expires = self.expires.filter(|it| *it <= now)?;
        Some((expires - time::Duration::NANOSECOND).date())
    }

    /// Returns itself if it is valid.
    ///
    /// # Errors
    /// An expired or revoked credential.
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

    /// Returns the status of a call that ends with this credential.
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

/// Reasons for refusing a caller.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// No credential.
    Missing,
    /// Malformed token.
    Malformed,
    /// Unknown token.
    Unknown,
    /// Certificate without a valid caller name.
    Unnamed { id: Arc<str> },
    /// Credential that was valid until it was revoked.
    Revoked { kind: Kind, id: Arc<str> },
    /// Credential that was valid until the end of a day.
    Expired { kind: Kind, id: Arc<str>, on: Date },
}

impl Refusal {
    /// Number of kinds.
    pub(crate) const KINDS: usize = 6;

    /// Names of the kinds, by number.
    pub(crate) const NAMES: [&str; Self::KINDS] = [
        "missing",
        "malformed",
        "unknown",
        "without_name",
        "revoked",
        "expired",
    ];

    /// Returns the number of its kind.
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

    /// Returns the reason for the log.
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

    /// Returns the id of the credential for the log.
    pub(crate) fn id(&self) -> Option<&str> {
        match self {
            Self::Missing | Self::Malformed | Self::Unknown => None,
            Self::Unnamed { id } | Self::Revoked { id, .. } | Self::Expired { id, .. } => Some(id),
        }
    }

    /// Returns the status for the caller, where `wanted` describes a valid credential. Only callers that had one learn
    /// more.
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
