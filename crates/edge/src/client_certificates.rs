//! Client certificates: the authorities that a server trusts to name its callers, and the certificates of connections.
//!
//! The file of authorities, which may contain revocation lists, is reloaded when it changes. Handshakes then use the
//! new authorities. Connections stay, but calls end whose certificate would no longer be accepted.

use crate::certificate::Certificate;
use crate::credentials::{Credential, End, Kind, Refusal};
use crate::expiry::{Expiring, OF_CALLERS};
use crate::reload::ReloadingValue;
use crate::tls_error::TlsError;
use crate::trusted::{check_owner, check_writers, read_plain};
use oboro_format::Roles;
use oboro_format::files::io_error;
use parking_lot::Mutex;
use rustls::client::danger::HandshakeSignatureValid;
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, CertificateRevocationListDer, UnixTime};
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{DigitallySignedStruct, DistinguishedName, RootCertStore, SignatureScheme};
use std::fs;
use std::path::Path;
use std::sync::{Arc, Weak};
use time::OffsetDateTime;

/// Verifier of client certificates, with the certificates of open connections.
#[derive(Debug)]
pub(crate) struct ClientCertificates {
    authorities: ReloadingValue<Authorities>,
    presented: Mutex<Vec<Weak<PeerCertificate>>>,
}

#[derive(Debug)]
struct Authorities {
    verifier: Arc<dyn ClientCertVerifier>,
    endings: Vec<Expiring>,
}

/// Certificate that the peer of a connection presented.
#[derive(Debug)]
pub(crate) struct PeerCertificate {
    /// Certificate chain from the peer to a trusted authority.
    chain: Vec<CertificateDer<'static>>,
    /// Credential, unless the certificate names no valid caller.
    credential: Option<Arc<Credential>>,
    serial: Arc<str>,
}

impl PeerCertificate {
    /// Returns its credential.
    ///
    /// # Errors
    /// A certificate without a valid caller name, expired or revoked.
    pub(crate) fn credential(&self, now: OffsetDateTime) -> Result<Arc<Credential>, Refusal> {
        let unnamed = || Refusal::Unnamed {
            id: Arc::clone(&self.serial),
        };
        self.credential.as_ref().ok_or_else(unnamed)?.valid(now)
    }

    fn is_accepted_by(&self, authorities: &Authorities) -> Result<(), rustls::Error> {
        let Some((own, between)) = self.chain.split_first() else {
            return Err(rustls::Error::NoCertificatesPresented);
        };
        let verifier = &authorities.verifier;
        verifier.verify_client_cert(own, between, UnixTime::now())?;
        Ok(())
    }
}

impl ClientCertificates {
    /// Trusts the authorities in a file, which is reloaded when it changes.
    ///
    /// # Errors
    /// An unreadable file, one that others may change, one without certificates or with an expired one.
    pub(crate) fn open(path: &Path) -> Result<Self, TlsError> {
        let paths = vec![path.to_owned()];
        let what = "the certificates of client authorities";
        let authorities = ReloadingValue::open(what, paths, |_| Authorities::read(path))?;
        Ok(Self {
            authorities,
            presented: Mutex::default(),
        })
    }

    pub(crate) fn refresh(&self) {
        let replaced = self
            .authorities
            .refresh(|paths, _| Authorities::read(&paths[0]));
        let Some(replaced) = replaced else {
            return;
        };
        for presented in self.presented() {
            let Some(credential) = &presented.credential else {
                continue;
            };
            if let Err(error) = presented.is_accepted_by(&replaced.now) {
                tracing::info!(client = &*credential.name, serial = &*presented.serial, %error, "a client certificate is trusted no more");
                credential.end.ended.cancel();
            }
        }
    }

    /// Ends the calls of expired certificates.
    pub(crate) fn end_expired(&self, now: OffsetDateTime) {
        for presented in self.presented() {
            presented
                .credential
                .iter()
                .for_each(|it| it.end_if_expired(now));
        }
    }

    /// Returns the authorities that expire soon or have expired.
    pub(crate) fn endings(&self, now: OffsetDateTime) -> Vec<Expiring> {
        let authorities = self.authorities.current();
        let soon = |it: &Expiring| it.clone().within(OF_CALLERS, now);
        authorities.endings.iter().filter_map(soon).collect()
    }

    /// Registers the certificate of a connection.
    ///
    /// # Errors
    /// A certificate that is not, or no longer, accepted.
    pub(crate) fn present(
        &self,
        chain: &[CertificateDer<'_>],
    ) -> Result<Arc<PeerCertificate>, rustls::Error> {
        let bytes = chain.first().map_or(&[][..], |it| it);
        let unreadable =
            |_| rustls::Error::InvalidCertificate(rustls::CertificateError::BadEncoding);
        let certificate = Certificate::read(bytes).map_err(unreadable)?;
        let serial: Arc<str> = certificate.serial.into();
        let credential = certificate.caller.map(|name| {
            Arc::new(Credential {
                kind: Kind::Certificate,
                name: name.into(),
                roles: Roles::OWNER,
                id: Arc::clone(&serial),
                expires: Some(certificate.expires),
                end: End::default(),
            })
        });
        let presented = Arc::new(PeerCertificate {
            chain: chain.iter().map(|it| it.clone().into_owned()).collect(),
            credential,
            serial,
        });
        self.presented.lock().push(Arc::downgrade(&presented));
        // The authorities may have been replaced since the handshake, or since the session that it resumed.
        presented.is_accepted_by(&self.authorities.current())?;
        Ok(presented)
    }

    /// Returns the certificates of open connections.
    fn presented(&self) -> Vec<Arc<PeerCertificate>> {
        let mut presented = self.presented.lock();
        presented.retain(|it| it.strong_count() > 0);
        presented.iter().filter_map(Weak::upgrade).collect()
    }
}

impl Authorities {
    fn read(path: &Path) -> Result<Self, TlsError> {
        let unusable = |reason: String| TlsError::ClientAuthorities {
            path: path.into(),
            reason,
        };
        let metadata = fs::metadata(path).map_err(io_error("read the client authorities", path))?;
        check_writers(path, &metadata)?;
        check_owner(path, &metadata)?;
        let pem = read_plain(path, "read the client authorities")?
            .ok_or_else(|| unusable("it is no plain file".to_owned()))?;
        let (mut roots, mut endings) = (RootCertStore::empty(), Vec::new());
        for der in CertificateDer::pem_slice_iter(&pem) {
            let der = der.map_err(|error| unusable(error.to_string()))?;
            let certificate =
                Certificate::read(&der).map_err(|error| unusable(error.to_string()))?;
            let what = format!("client authority {:?}", certificate.subject);
            let at = certificate.expires;
            if at <= OffsetDateTime::now_utc() {
                return Err(TlsError::Expired {
                    what,
                    path: path.into(),
                    at: at.date(),
                });
            }
            roots
                .add(der)
                .map_err(|error| unusable(error.to_string()))?;
            endings.push(Expiring { what, at });
        }
        if endings.is_empty() {
            return Err(unusable("there is no certificate".to_owned()));
        }
        let lists: Result<Vec<_>, _> = CertificateRevocationListDer::pem_slice_iter(&pem).collect();
        let lists = lists.map_err(|error| unusable(error.to_string()))?;
        let provider = Arc::new(ring::default_provider());
        // Clients without a certificate may have a token, and health checks need neither.
        let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider)
            .with_crls(lists)
            .allow_unknown_revocation_status()
            .allow_unauthenticated()
            .build()
            .map_err(|error| unusable(error.to_string()))?;
        Ok(Self { verifier, endings })
    }
}

impl ClientCertVerifier for ClientCertificates {
    fn client_auth_mandatory(&self) -> bool {
        false
    }

    /// Sends no hints: clients have one certificate.
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &[]
    }

    fn verify_client_cert(
        &self,
        own: &CertificateDer<'_>,
        between: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<ClientCertVerified, rustls::Error> {
        let verifier = &self.authorities.current().verifier;
        verifier.verify_client_cert(own, between, now)
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        own: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let verifier = &self.authorities.current().verifier;
        verifier.verify_tls12_signature(message, own, signature)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        own: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let verifier = &self.authorities.current().verifier;
        verifier.verify_tls13_signature(message, own, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.authorities
            .current()
            .verifier
            .supported_verify_schemes()
    }
}
