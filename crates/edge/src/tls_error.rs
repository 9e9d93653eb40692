//! Errors of certificates and keys.

use crate::reload::LoadError;
use crate::trusted::FileTrustError;
use oboro_format::FormatError;
use oboro_format::wording::{CLIENT_CA, TLS_CERT, TLS_KEY};
use std::path::PathBuf;
use thiserror::Error;
use time::Date;

/// Errors of a certificate or key that cannot be used.
#[derive(Debug, Error)]
#[allow(missing_docs)]
pub enum TlsError {
    #[error(transparent)]
    Format(#[from] FormatError),
    #[error(transparent)]
    Untrusted(#[from] FileTrustError),
    #[error(
        "anyone on this machine can read the private key in {}; take that right away (chmod o-rwx)",
        path.display()
    )]
    Readable { path: PathBuf },
    #[error(
        "the TLS certificate in {} or the key in {} cannot be used: {reason}; give a PEM certificate chain with {TLS_CERT} and its PEM key with {TLS_KEY}",
        certificate.display(), key.display()
    )]
    Unusable {
        certificate: PathBuf,
        key: PathBuf,
        reason: String,
    },
    #[error(
        "the client authorities in {} cannot be used: {reason}; give a file of their PEM certificates with {CLIENT_CA}",
        path.display()
    )]
    ClientAuthorities { path: PathBuf, reason: String },
    #[error("the {what} in {} has expired, on {at}; put one there that is valid", path.display())]
    Expired {
        what: String,
        path: PathBuf,
        at: Date,
    },
}

impl LoadError for TlsError {
    fn is_transient(&self) -> bool {
        // An I/O error may be transient.
        matches!(self, Self::Format(_))
    }
}
