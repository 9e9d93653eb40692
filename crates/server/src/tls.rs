//! The server's certificate, read again whenever its file changes.

use crate::rarely::Rarely;
use oboro_format::FormatError;
use oboro_format::files::{Identity, io_error};
use oboro_format::wording::{TLS_CERT, TLS_KEY};
use parking_lot::RwLock;
use rustls::ServerConfig;
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use std::fmt;
use std::fs::{self, File};
use std::io::Read;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use thiserror::Error;
use tokio_rustls::TlsAcceptor;
use zeroize::Zeroizing;

/// A certificate or key that cannot be used.
#[derive(Debug, Error)]
#[allow(missing_docs)]
pub enum TlsError {
    #[error(transparent)]
    Format(#[from] FormatError),
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
}

/// A certificate chain and its key, in two files.
pub struct Certificates {
    certificate: PathBuf,
    key: PathBuf,
    current: RwLock<Current>,
    errors: Rarely,
}

struct Current {
    /// The files that were read last, whether they could be used or not.
    seen: [Option<Identity>; 2],
    config: Arc<ServerConfig>,
}

impl fmt::Debug for Certificates {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Certificates")
            .field("certificate", &self.certificate)
            .field("key", &self.key)
            .finish_non_exhaustive()
    }
}

impl Certificates {
    /// Reads a chain and its key, in PEM.
    ///
    /// # Errors
    /// Files that cannot be read, hold something else or do not belong together; a key that others may read.
    pub fn open(certificate: &Path, key: &Path) -> Result<Self, TlsError> {
        let seen = seen([certificate, key]);
        Ok(Self {
            certificate: certificate.into(),
            key: key.into(),
            current: RwLock::new(Current {
                seen,
                config: read(certificate, key)?,
            }),
            errors: Rarely::default(),
        })
    }

    /// Reads the files again if one has changed; connections that exist are not touched. If they cannot be used, the log
    /// says so and the certificate stays as it was.
    pub fn refresh(&self) {
        let seen = seen([&self.certificate, &self.key]);
        if self.current.read().seen == seen {
            return;
        }
        let mut current = self.current.write();
        match read(&self.certificate, &self.key) {
            Ok(config) => {
                current.seen = seen;
                tracing::info!("read the TLS certificate again");
                current.config = config;
            }
            Err(error) => {
                // What cannot be read now may be readable in a second.
                if !matches!(error, TlsError::Format(_)) {
                    current.seen = seen;
                }
                drop(current);
                self.errors.tell(|times| {
                    tracing::error!(%error, times, "the TLS certificate was changed and cannot be used; the one of before stays");
                });
            }
        }
    }

    /// Accepts connections with the present certificate.
    pub(crate) fn acceptor(&self) -> TlsAcceptor {
        Arc::clone(&self.current.read().config).into()
    }
}

fn seen(files: [&Path; 2]) -> [Option<Identity>; 2] {
    files.map(|path| Identity::of(path).unwrap_or_default())
}

fn read(certificate: &Path, key: &Path) -> Result<Arc<ServerConfig>, TlsError> {
    let unusable = |reason: String| TlsError::Unusable {
        certificate: certificate.into(),
        key: key.into(),
        reason,
    };
    for path in [certificate, key] {
        // Opening a pipe would wait for whoever writes to it.
        let metadata =
            fs::metadata(path).map_err(io_error("read the TLS certificate or key", path))?;
        if !metadata.is_file() {
            return Err(unusable(format!("{} is no plain file", path.display())));
        }
    }
    let chain = fs::read(certificate).map_err(io_error("read the TLS certificate", certificate))?;
    let chain: Vec<_> = CertificateDer::pem_slice_iter(&chain)
        .collect::<Result<_, _>>()
        .map_err(|error| unusable(error.to_string()))?;
    if chain.is_empty() {
        return Err(unusable("there is no certificate".to_owned()));
    }
    let private = read_private(key)?;
    let private =
        PrivateKeyDer::from_pem_slice(&private).map_err(|error| unusable(error.to_string()))?;
    let mut config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|error| unusable(error.to_string()))?
        .with_no_client_auth()
        .with_single_cert(chain, private)
        .map_err(|error| unusable(error.to_string()))?;
    config.alpn_protocols = vec![b"h2".to_vec()];
    Ok(Arc::new(config))
}

fn read_private(path: &Path) -> Result<Zeroizing<Vec<u8>>, TlsError> {
    let failed = |error| io_error("read the TLS key", path)(error);
    let mut file = File::open(path).map_err(failed)?;
    if file.metadata().map_err(failed)?.mode() & 0o007 != 0 {
        return Err(TlsError::Readable { path: path.into() });
    }
    let mut bytes = Zeroizing::new(Vec::new());
    file.read_to_end(&mut bytes).map_err(failed)?;
    Ok(bytes)
}
