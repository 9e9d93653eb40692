//! TLS: the server's certificate, reloaded when its files change, and the verification of client certificates.

use crate::certificate::Certificate;
use crate::client_certificates::{ClientCertificates, PeerCertificate};
use crate::expiry::{Expiring, OF_SERVER};
use crate::reload::ReloadingValue;
use crate::tls_error::TlsError;
use crate::trusted::read_plain;
use oboro_format::files::io_error;
use rustls::ServerConfig;
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use std::fmt;
use std::fs::{self, File};
use std::io::Read;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use time::OffsetDateTime;
use tokio_rustls::TlsAcceptor;
use zeroize::Zeroizing;

/// Certificate chain and key, in two files, with the authorities of client certificates in a third.
pub struct Certificates {
    own: Arc<OwnCertificate>,
    clients: Option<Arc<ClientCertificates>>,
    config: Arc<ServerConfig>,
}

#[derive(Debug)]
struct OwnCertificate(ReloadingValue<Chain>);

#[derive(Debug)]
struct Chain {
    key: Arc<CertifiedKey>,
    ending: Expiring,
}

impl ResolvesServerCert for OwnCertificate {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(Arc::clone(&self.0.current().key))
    }
}

impl fmt::Debug for Certificates {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Certificates")
            .field("own", &self.own)
            .field("clients", &self.clients)
            .finish_non_exhaustive()
    }
}

impl Certificates {
    /// Reads a chain and its key in PEM, and the authorities of client certificates, if any.
    ///
    /// # Errors
    /// Files that are unreadable, malformed or do not belong together; an expired certificate; a key that others may
    /// read; authorities that others may change.
    pub fn open(
        certificate: &Path,
        key: &Path,
        client_authorities: Option<&Path>,
    ) -> Result<Self, TlsError> {
        let paths = vec![certificate.into(), key.into()];
        let own = ReloadingValue::open("the TLS certificate", paths, Chain::read)?;
        let own = Arc::new(OwnCertificate(own));
        let clients = client_authorities
            .map(ClientCertificates::open)
            .transpose()?;
        let clients = clients.map(Arc::new);
        let unusable = |error: rustls::Error| TlsError::Unusable {
            certificate: certificate.into(),
            key: key.into(),
            reason: error.to_string(),
        };
        let builder = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .map_err(unusable)?;
        let builder = match &clients {
            Some(clients) => builder.with_client_cert_verifier(Arc::clone(clients) as _),
            None => builder.with_no_client_auth(),
        };
        let mut config = builder.with_cert_resolver(Arc::clone(&own) as _);
        config.alpn_protocols = vec![b"h2".to_vec()];
        Ok(Self {
            own,
            clients,
            config: Arc::new(config),
        })
    }

    /// Returns true if clients may authenticate with certificates.
    pub fn name_clients(&self) -> bool {
        self.clients.is_some()
    }

    /// Reloads files that have changed; open connections are not affected. If the files cannot be used, logs that and
    /// keeps the previous certificates.
    pub fn refresh(&self) {
        self.own.0.refresh(|paths, _| Chain::read(paths));
        self.clients.iter().for_each(|it| it.refresh());
    }

    /// Ends the calls of expired client certificates.
    pub(crate) fn end_expired(&self, now: OffsetDateTime) {
        self.clients.iter().for_each(|it| it.end_expired(now));
    }

    /// Returns the certificates that expire soon or have expired.
    pub(crate) fn endings(&self, now: OffsetDateTime) -> Vec<Expiring> {
        let own = self.own.0.current().ending.clone();
        let clients = self.clients.iter().flat_map(|it| it.endings(now));
        own.within(OF_SERVER, now)
            .into_iter()
            .chain(clients)
            .collect()
    }

    /// Returns the expiry of the server's certificate.
    pub fn expiry(&self) -> OffsetDateTime {
        self.own.0.current().ending.at
    }

    /// Returns an acceptor of HTTP/1.1 connections, with the current certificate.
    pub fn http1_acceptor(&self) -> TlsAcceptor {
        let mut config = ServerConfig::clone(&self.config);
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Arc::new(config).into()
    }

    /// Returns an acceptor of connections, with the current certificate.
    pub(crate) fn acceptor(&self) -> TlsAcceptor {
        Arc::clone(&self.config).into()
    }

    /// Registers the certificate of a connection, if the peer presented one.
    ///
    /// # Errors
    /// A certificate that is not, or no longer, accepted.
    pub(crate) fn present(
        &self,
        chain: Option<&[CertificateDer<'_>]>,
    ) -> Result<Option<Arc<PeerCertificate>>, rustls::Error> {
        let shown = self.clients.as_ref().zip(chain);
        shown
            .map(|(clients, chain)| clients.present(chain))
            .transpose()
    }
}

impl Chain {
    fn read(paths: &[PathBuf]) -> Result<Self, TlsError> {
        let [certificate, key] = paths else {
            unreachable!("these are the two that were given");
        };
        let unusable = |reason: String| TlsError::Unusable {
            certificate: certificate.into(),
            key: key.into(),
            reason,
        };
        let special = |path: &Path| unusable(format!("{} is no plain file", path.display()));
        let chain = read_plain(certificate, "read the TLS certificate")?
            .ok_or_else(|| special(certificate))?;
        let chain: Vec<_> = CertificateDer::pem_slice_iter(&chain)
            .collect::<Result<_, _>>()
            .map_err(|error| unusable(error.to_string()))?;
        let own = chain
            .first()
            .ok_or_else(|| unusable("there is no certificate".to_owned()))?;
        let own = Certificate::read(own).map_err(|error| unusable(error.to_string()))?;
        let ending = Expiring {
            what: format!("TLS certificate {}", own.serial),
            at: own.expires,
        };
        if ending.at <= OffsetDateTime::now_utc() {
            return Err(TlsError::Expired {
                what: ending.what,
                path: certificate.into(),
                at: ending.at.date(),
            });
        }
        let private = read_private(key)?.ok_or_else(|| special(key))?;
        let private =
            PrivateKeyDer::from_pem_slice(&private).map_err(|error| unusable(error.to_string()))?;
        let key = CertifiedKey::from_der(chain, private, &ring::default_provider())
            .map_err(|error| unusable(error.to_string()))?;
        Ok(Self {
            key: Arc::new(key),
            ending,
        })
    }
}

fn read_private(path: &Path) -> Result<Option<Zeroizing<Vec<u8>>>, TlsError> {
    let failed = |error| io_error("read the TLS key", path)(error);
    if !fs::metadata(path).map_err(failed)?.is_file() {
        return Ok(None);
    }
    let mut file = File::open(path).map_err(failed)?;
    if file.metadata().map_err(failed)?.mode() & 0o007 != 0 {
        return Err(TlsError::Readable { path: path.into() });
    }
    let mut bytes = Zeroizing::new(Vec::new());
    file.read_to_end(&mut bytes).map_err(failed)?;
    Ok(Some(bytes))
}
