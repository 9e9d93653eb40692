//! Tokens, certificates and their authorities are replaced, revoked and end while a server answers calls with them.

use crate::common::{Running, options, start};
use oboro_client::{Connection, Identity, Options};
use oboro_format::Roles;
use oboro_server::{Certificates, TokenFile, Tokens};
use rcgen::{
    BasicConstraints, CertificateParams, CertificateRevocationListParams, DistinguishedName,
    DnType, IsCa, Issuer, KeyIdMethod, KeyPair, RevokedCertParams, SerialNumber,
};
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Instant;
use tempfile::TempDir;
use time::{Duration, OffsetDateTime};

/// Authority that signs certificates.
struct Authority {
    issuer: Issuer<'static, KeyPair>,
    pem: String,
}

impl Authority {
    fn new(name: &str) -> Self {
        let mut authority = subject(name, 1);
        authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().unwrap();
        let pem = authority.self_signed(&key).unwrap().pem();
        let issuer = Issuer::new(authority, key);
        Self { issuer, pem }
    }

    /// Returns a list that revokes a certificate by its number.
    fn revoke(&self, serial: u64) -> String {
        let now = OffsetDateTime::now_utc();
        let revoked = RevokedCertParams {
            serial_number: serial.into(),
            revocation_time: now - Duration::HOUR,
            reason_code: None,
            invalidity_date: None,
        };
        let list = CertificateRevocationListParams {
            this_update: now - Duration::HOUR,
            next_update: now + Duration::DAY,
            crl_number: SerialNumber::from(1),
            issuing_distribution_point: None,
            revoked_certs: vec![revoked],
            key_identifier_method: KeyIdMethod::Sha256,
        };
        list.signed_by(&self.issuer).unwrap().pem().unwrap()
    }
}

/// Subject of a certificate for this machine, or of a client.
fn subject(name: &str, serial: u64) -> CertificateParams {
    let names = ["127.0.0.1", "localhost"].map(str::to_owned);
    let mut subject = CertificateParams::new(names).unwrap();
    subject.distinguished_name = DistinguishedName::new();
    subject.distinguished_name.push(DnType::CommonName, name);
    subject.serial_number = Some(serial.into());
    subject
}

/// Server with tokens and certificates, and the files of both sides.
struct Scene {
    server: Running,
    tokens: TokenFile,
    directory: TempDir,
}

impl Scene {
    /// The server has a certificate by `own` and trusts those of clients by `clients`.
    fn new(own: &Authority, clients: &Authority) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let path = |name: &str| directory.path().join(name);
        sign(&directory, own, "tls", 1);
        replace(&directory, "clients.pem", &clients.pem);
        let tokens = TokenFile::at(&path("tokens"));
        tokens.add("first", Roles::OWNER, None).unwrap();
        let clients = path("clients.pem");
        let tls = Certificates::open(&path("tls.crt"), &path("tls.key"), Some(&clients));
        let mut options = options(&path("data"), 0);
        options.tls = Some(Arc::new(tls.unwrap()));
        options.tokens = Some(Arc::new(Tokens::open(tokens.path()).unwrap()));
        Self {
            server: start(options),
            tokens,
            directory,
        }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn token(&self, name: &str) -> String {
        let (_, token) = self.tokens.add(name, Roles::OWNER, None).unwrap();
        token.to_string()
    }

    /// Options of a caller that trusts these authorities.
    fn options(&self, trusted: &[Authority]) -> Options {
        let pem: Vec<&str> = trusted.iter().map(|it| &*it.pem).collect();
        Options {
            url: self.server.url().to_owned(),
            certificates: Some(pem.concat().into_bytes()),
            ..Options::default()
        }
    }

    /// Options of the caller that a client certificate names.
    fn named(&self, trusted: &[Authority], name: &str) -> Options {
        let path = |end: &str| self.path(&format!("{name}.{end}"));
        Options {
            identity: Some(Identity::read(&path("crt"), &path("key")).unwrap()),
            ..self.options(trusted)
        }
    }
}

/// Writes `NAME.crt` and `NAME.key`.
fn sign(directory: &TempDir, authority: &Authority, name: &str, serial: u64) {
    let key = KeyPair::generate().unwrap();
    let certificate = subject(name, serial).signed_by(&key, &authority.issuer);
    replace(
        directory,
        &format!("{name}.crt"),
        &certificate.unwrap().pem(),
    );
    replace(directory, &format!("{name}.key"), &key.serialize_pem());
}

/// Replaces a file in one step, as the manual requires.
fn replace(directory: &TempDir, name: &str, text: &str) {
    let new = directory.path().join(format!("{name}.new"));
    fs::write(&new, text).unwrap();
    fs::set_permissions(&new, Permissions::from_mode(0o600)).unwrap();
    fs::rename(new, directory.path().join(name)).unwrap();
}

/// Returns true if a new connection is accepted.
fn is_accepted(options: &Options) -> bool {
    let listed = Connection::open(options).and_then(|it| it.datasets());
    listed.is_ok()
}

fn until(condition: impl Fn() -> bool) {
    let deadline = Instant::now() + std::time::Duration::from_secs(120);
    while !condition() {
        assert!(Instant::now() < deadline, "waited too long");
        thread::sleep(std::time::Duration::from_millis(2));
    }
}

/// Client that makes one call after another until it is stopped, or one fails.
struct Calls {
    ended: Arc<AtomicU64>,
    stop: Arc<AtomicBool>,
    thread: JoinHandle<Option<String>>,
}

impl Calls {
    /// Calls over one connection, or over a new one each.
    fn start(options: Options, reconnects: bool) -> Self {
        let (ended, stop) = (Arc::<AtomicU64>::default(), Arc::<AtomicBool>::default());
        let (count, stopped) = (Arc::clone(&ended), Arc::clone(&stop));
        let thread = thread::spawn(move || {
            let mut connection = None;
            while !stopped.load(Ordering::SeqCst) {
                let called = match connection.take() {
                    Some(open) => Ok(open),
                    None => Connection::open(&options),
                };
                match called.and_then(|it| it.datasets().map(|_| it)) {
                    Ok(open) if !reconnects => connection = Some(open),
                    Ok(_) => {}
                    Err(error) => return Some(error.to_string()),
                }
                count.fetch_add(1, Ordering::SeqCst);
            }
            None
        });
        Self {
            ended,
            stop,
            thread,
        }
    }

    /// Calls of each kind.
    fn both(options: &Options) -> [Self; 2] {
        [false, true].map(|reconnects| Self::start(options.clone(), reconnects))
    }

    /// Waits until further calls have begun and ended.
    fn go_on(&self) {
        let before = self.ended.load(Ordering::SeqCst);
        until(|| {
            assert!(!self.thread.is_finished(), "a call failed");
            self.ended.load(Ordering::SeqCst) >= before + 3
        });
    }

    /// Waits until one fails; returns why.
    fn failed(self) -> String {
        self.thread.join().unwrap().unwrap()
    }

    /// Stops them; none has failed.
    fn stop(self) {
        self.stop.store(true, Ordering::SeqCst);
        assert_eq!(self.thread.join().unwrap(), None);
    }
}

#[test]
fn tokens_and_certificates_are_rotated_without_downtime() {
    let own = ["servers", "next servers"].map(Authority::new);
    let clients = ["clients", "next clients"].map(Authority::new);
    let scene = Scene::new(&own[0], &clients[0]);
    sign(&scene.directory, &clients[0], "mill", 7);
    sign(&scene.directory, &clients[1], "works", 8);
    let bearer = |name: &str| Options {
        token: Some(scene.token(name)),
        ..scene.options(&own)
    };
    let ward = bearer("ward");
    let mut staying = Vec::from(Calls::both(&ward));
    let revoked = Calls::both(&bearer("lab"));
    let distrusted = Calls::both(&scene.named(&own, "mill"));
    let go_on = |calls: &[Calls]| calls.iter().for_each(Calls::go_on);
    go_on(&staying);
    go_on(&revoked);
    go_on(&distrusted);

    // Tokens.
    staying.push(Calls::start(bearer("clinic"), true));
    go_on(&revoked);
    scene.tokens.revoke("lab").unwrap();
    for calls in revoked {
        let message = calls.failed();
        let is_known = ["not any more", "revoked"]
            .iter()
            .any(|it| message.contains(it));
        assert!(is_known, "{message}");
    }
    go_on(&staying);
    go_on(&distrusted);

    // The server's certificate.
    sign(&scene.directory, &own[1], "tls", 2);
    let next = Options {
        token: ward.token,
        ..scene.options(&own[1..])
    };
    until(|| is_accepted(&next));
    go_on(&staying);
    go_on(&distrusted);

    // The authority of client certificates: both for a time, then the next one alone.
    let both = [&*clients[0].pem, &clients[1].pem].concat();
    replace(&scene.directory, "clients.pem", &both);
    let works = scene.named(&own, "works");
    until(|| is_accepted(&works));
    staying.extend(Calls::both(&works));
    go_on(&staying);
    go_on(&distrusted);
    replace(&scene.directory, "clients.pem", &clients[1].pem);
    for calls in distrusted {
        calls.failed();
    }
    go_on(&staying);
    staying.into_iter().for_each(Calls::stop);
}

#[test]
fn lists_of_revoked_certificates_are_read_again() {
    let own = [Authority::new("servers")];
    let clients = Authority::new("clients");
    let scene = Scene::new(&own[0], &clients);
    sign(&scene.directory, &clients, "ward", 7);
    sign(&scene.directory, &clients, "lab", 8);
    let [ward, lab] = ["ward", "lab"].map(|name| scene.named(&own, name));
    let calls = [&ward, &lab].map(|it| Calls::start(it.clone(), false));
    calls.iter().for_each(Calls::go_on);
    let list = format!("{}{}", clients.pem, clients.revoke(7));
    replace(&scene.directory, "clients.pem", &list);
    let [revoked, staying] = calls;
    let message = revoked.failed();
    assert!(message.contains("certificate"), "{message}");
    assert!(!is_accepted(&ward) && is_accepted(&lab));
    staying.stop();
}
