//! What callers prove their names with, tokens with roles and client certificates, and how it is replaced, revoked and ends
//! while a server runs.

use crate::common::calls::endpoint;
use crate::common::{Home, Server, says, until};
use oboro_client::{Connection, Identity, Options};
use rcgen::{
    BasicConstraints, Certificate, CertificateParams, CertificateRevocationListParams,
    DistinguishedName, DnType, IsCa, Issuer, KeyIdMethod, KeyPair, RevokedCertParams, SerialNumber,
};
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use time::{Duration, OffsetDateTime};
use tokio::runtime::Runtime;
use tonic::transport::{self, ClientTlsConfig};
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_client::HealthClient;

/// An authority that signs certificates.
struct Authority {
    issuer: Issuer<'static, KeyPair>,
    pem: String,
}

impl Authority {
    fn new(name: &str) -> Self {
        Self::until(name, OffsetDateTime::now_utc() + Duration::days(1000))
    }

    fn until(name: &str, last: OffsetDateTime) -> Self {
        let mut authority = subject(Some(name), &[]);
        authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        authority.not_after = last;
        let key = KeyPair::generate().unwrap();
        let pem = authority.self_signed(&key).unwrap().pem();
        let issuer = Issuer::new(authority, key);
        Self { issuer, pem }
    }

    /// Writes `FILE.crt` and `FILE.key` for a subject.
    fn sign(&self, home: &Home, file: &str, subject: &CertificateParams) -> Certificate {
        let key = KeyPair::generate().unwrap();
        let certificate = subject.signed_by(&key, &self.issuer).unwrap();
        replace(home, &format!("{file}.crt"), &certificate.pem());
        replace(home, &format!("{file}.key"), &key.serialize_pem());
        certificate
    }

    /// The same for this machine.
    fn sign_server(&self, home: &Home) {
        self.sign(home, "tls", &subject(None, &["127.0.0.1", "localhost"]));
    }

    fn sign_client(&self, home: &Home, name: &str) -> Certificate {
        self.sign(home, name, &subject(Some(name), &[]))
    }

    /// A list that revokes certificates.
    fn revoke(&self, serials: &[u64]) -> String {
        let now = OffsetDateTime::now_utc();
        let revoked = serials.iter().map(|&serial| RevokedCertParams {
            serial_number: serial.into(),
            revocation_time: now - Duration::HOUR,
            reason_code: None,
            invalidity_date: None,
        });
        let list = CertificateRevocationListParams {
            this_update: now - Duration::HOUR,
            next_update: now + Duration::DAY,
            crl_number: SerialNumber::from(1),
            issuing_distribution_point: None,
            revoked_certs: revoked.collect(),
            key_identifier_method: KeyIdMethod::Sha256,
        };
        list.signed_by(&self.issuer).unwrap().pem().unwrap()
    }
}

/// The subject of a certificate: its common name, if it has one, and its alternative names.
fn subject(common_name: Option<&str>, names: &[&str]) -> CertificateParams {
    let names: Vec<String> = names.iter().map(|&it| it.to_owned()).collect();
    let mut subject = CertificateParams::new(names).unwrap();
    subject.distinguished_name = DistinguishedName::new();
    if let Some(name) = common_name {
        subject.distinguished_name.push(DnType::CommonName, name);
    }
    subject
}

/// Replaces a file at once, as operators are told to.
fn replace(home: &Home, name: &str, text: &str) {
    let new = home.path(&format!("{name}.new"));
    fs::write(&new, text).unwrap();
    fs::set_permissions(&new, Permissions::from_mode(0o600)).unwrap();
    fs::rename(new, home.path(name)).unwrap();
}

const TLS: &str = "--tls-cert tls.crt --tls-key tls.key";

/// The options of a caller with a certificate.
fn shows(name: &str) -> String {
    format!("--ca ca.pem --client-cert {name}.crt --client-key {name}.key")
}

/// Who operates a server and, in the same directory, who calls it; the authority of client certificates is in `clients.pem`.
fn scene() -> (Home, Authority) {
    let home = Home::new();
    let own = Authority::new("servers");
    own.sign_server(&home);
    home.write("ca.pem", &own.pem);
    let clients = Authority::new("clients");
    replace(&home, "clients.pem", &clients.pem);
    (home, clients)
}

#[test]
fn tokens_have_roles() {
    let operator = Home::new();
    operator.done("token new all --out all");
    operator.done("token new some --role read --role count,fetch --out some");
    operator.done("token new operator --role operate --until 2999-12-31 --out operator");
    let listed = operator.json("token list");
    let roles = |at: usize| {
        let roles = listed[at]["roles"].as_array().unwrap();
        let names: Vec<&str> = roles.iter().map(|it| it.as_str().unwrap()).collect();
        names.join(",")
    };
    assert_eq!(roles(0), "read,count,fetch,append,delete,administer");
    assert_eq!([roles(1), roles(2)], ["read,count,fetch", "operate"]);
    let text = String::from_utf8(operator.read("tokens")).unwrap();
    says(
        &text,
        &[
            "roles=read,count,fetch\n",
            "roles=operate until=2999-12-31\n",
        ],
    );
    says(
        &operator.done("token list"),
        &["roles", "read,count,fetch\n"],
    );
    for wrong in ["own", "read,", "READ"] {
        let message = operator.misused(&format!("token new other --role {wrong}"));
        says(&message, &["is no role", "administer"]);
    }
    let server = operator.serve("--tokens tokens");
    operator.talk_to(server.url());
    operator.json("datasets --token-file some");
    operator.write(
        "tokens",
        text.replace("roles=read,count,fetch", "roles=read,cout"),
    );
    operator.refused("token list");
    // The server goes on with what it read before.
    operator.json("datasets --token-file some");
}

/// Whether it says how it is to one who has no certificate.
fn answers_probes(home: &Home, server: &Server) -> bool {
    let authority = transport::Certificate::from_pem(home.read("ca.pem"));
    let tls = ClientTlsConfig::new().ca_certificate(authority);
    let channel = endpoint(server).tls_config(tls).unwrap();
    Runtime::new().unwrap().block_on(async {
        let mut probe = HealthClient::new(channel.connect().await.unwrap());
        let health = probe.check(HealthCheckRequest::default()).await;
        health.is_ok()
    })
}

#[test]
fn client_certificates_name_callers() {
    let (home, clients) = scene();
    clients.sign_client(&home, "ward");
    clients.sign(
        &home,
        "dns",
        &subject(None, &["10.0.0.1", "lab.example", "other.example"]),
    );
    clients.sign(&home, "spaced", &subject(Some("the ward"), &["ward"]));
    clients.sign(&home, "nobody", &subject(None, &[]));
    Authority::new("others").sign_client(&home, "stranger");
    let server = home.serve(&format!("{TLS} --client-ca clients.pem"));
    home.talk_to(server.url());
    for (name, client) in [("ward", "client=ward "), ("dns", "client=lab.example ")] {
        home.json(&format!("datasets {}", shows(name)));
        until("the log has the name", || {
            server.log().contains(client).then_some(())
        });
    }
    assert!(answers_probes(&home, &server));
    let message = home.refused("datasets --ca ca.pem");
    says(
        &message,
        &[
            "wants a client certificate",
            "--client-cert and --client-key",
        ],
    );
    for name in ["spaced", "nobody"] {
        let message = home.refused(&format!("datasets {}", shows(name)));
        says(&message, &["names nobody", "common name"]);
    }
    home.run(&format!("datasets {}", shows("stranger")))
        .refusal();
    until("the log says why", || {
        let log = server.log();
        let phrases = ["a TLS handshake failed", "UnknownIssuer", "peer=127.0.0.1"];
        phrases.iter().all(|it| log.contains(it)).then_some(())
    });
    says(
        &server.log(),
        &[
            "without a name for a caller",
            "neither token nor certificate",
        ],
    );

    // What cannot be used.
    fs::set_permissions(home.path("ward.key"), Permissions::from_mode(0o644)).unwrap();
    let message = home.refused(&format!("datasets {}", shows("ward")));
    says(&message, &["ward.key can be read by others", "chmod 600"]);
    fs::set_permissions(home.path("ward.key"), Permissions::from_mode(0o600)).unwrap();
    let message = home.refused("datasets --ca ca.pem --client-cert ward.crt --client-key dns.key");
    says(&message, &["--client-cert and --client-key cannot be used"]);
    let message = home.refused("datasets --ca ca.pem --client-cert none --client-key ward.key");
    says(&message, &["none cannot be read"]);
    home.misused("datasets --ca ca.pem --client-cert ward.crt");
    home.misused("serve --data x --listen 127.0.0.1:0 --client-ca clients.pem");
}

#[test]
fn a_token_that_is_presented_counts_before_a_certificate() {
    let (home, clients) = scene();
    clients.sign_client(&home, "ward");
    home.write("token", home.token("lab"));
    home.write("wrong", format!("oboro_{}", "0".repeat(64)));
    let server = home.serve(&format!("{TLS} --client-ca clients.pem --tokens tokens"));
    home.talk_to(server.url());
    let ward = shows("ward");
    home.json("datasets --ca ca.pem --token-file token");
    home.json(&format!("datasets {ward} --token-file token"));
    assert!(!server.log().contains("client=ward"));
    home.json(&format!("datasets {ward}"));
    until("it is the ward", || {
        server.log().contains("client=ward").then_some(())
    });
    for options in ["--ca ca.pem", &format!("{ward} --token-file wrong")] {
        let message = home.refused(&format!("datasets {options}"));
        says(
            &message,
            &[
                "wants a token or a client certificate",
                "--token-file or --client-cert",
            ],
        );
    }
    until("the log says why", || {
        server.log().contains("unknown token").then_some(())
    });
    assert!(!server.log().contains("oboro_0"));
}

#[test]
fn lists_of_revoked_certificates_are_read_again() {
    let (home, clients) = scene();
    for (name, serial) in [("ward", 7_u64), ("lab", 8)] {
        let mut subject = subject(Some(name), &[]);
        subject.serial_number = Some(serial.into());
        clients.sign(&home, name, &subject);
    }
    let server = home.serve(&format!("{TLS} --client-ca clients.pem"));
    home.talk_to(server.url());
    let (ward, lab) = (Calls::of(&server, &home, "ward", false), shows("lab"));
    ward.go_on();
    replace(
        &home,
        "clients.pem",
        &format!("{}{}", clients.pem, clients.revoke(&[7])),
    );
    says(&ward.failed(), &["certificate"]);
    says(&server.log(), &["trusted no more", "client=\"ward\""]);
    home.json(&format!("datasets {lab}"));
    home.run(&format!("datasets {}", shows("ward"))).refusal();
}

#[test]
fn what_has_expired_is_refused_and_what_will_is_named() {
    let (home, _) = scene();
    let now = OffsetDateTime::now_utc();
    let (past, soon) = (now - Duration::DAY, now + Duration::days(10));
    let own = Authority::new("servers");
    let mut tls = subject(None, &["127.0.0.1"]);
    tls.not_after = past;
    own.sign(&home, "past", &tls);
    tls.not_after = soon;
    own.sign(&home, "soon", &tls);
    for (file, last) in [("past.pem", past), ("soon.pem", soon)] {
        replace(&home, file, &Authority::until("mill", last).pem);
    }
    let serve = "serve --data data --listen 127.0.0.1:0";
    let message = home.refused(&format!("{serve} --tls-cert past.crt --tls-key past.key"));
    says(
        &message,
        &["TLS certificate", "past.crt has expired", "put one there"],
    );
    let message = home.refused(&format!("{serve} {TLS} --client-ca past.pem"));
    says(
        &message,
        &["client authority", "mill", "past.pem has expired"],
    );

    home.done(&format!(
        "token new ward --until {} --out token",
        soon.date()
    ));
    let server =
        home.serve("--tls-cert soon.crt --tls-key soon.key --client-ca soon.pem --tokens tokens");
    until("the log names them", || {
        let log = server.log();
        let named = ["TLS certificate", "client authority", "token"].map(|what| {
            let mut lines = log.lines().filter(|it| it.contains(what));
            lines.any(|it| it.contains("expires on") && it.contains("days="))
        });
        (named == [true; 3]).then_some(())
    });
    assert_eq!(server.log().matches("expires on").count(), 3);
    // One that has expired does not replace it.
    for end in ["crt", "key"] {
        let past = home.read(&format!("past.{end}"));
        replace(
            &home,
            &format!("soon.{end}"),
            &String::from_utf8(past).unwrap(),
        );
    }
    until("the log says so", || {
        server.log().contains("has expired").then_some(())
    });
    home.write("ca.pem", &own.pem);
    home.talk_to(server.url());
    home.json("datasets --ca ca.pem --token-file token");
}

#[test]
fn authorities_that_others_may_change_are_refused() {
    let (home, _) = scene();
    let serve = format!("serve --data x --listen 127.0.0.1:0 {TLS} --client-ca clients.pem");
    let pem = home.path("clients.pem");
    fs::set_permissions(&pem, Permissions::from_mode(0o620)).unwrap();
    says(&home.refused(&serve), &["clients.pem", "chmod go-w"]);
    fs::set_permissions(&pem, Permissions::from_mode(0o600)).unwrap();
    for garbage in ["", "nothing\n", "-----BEGIN CERTIFICATE-----\nx\n"] {
        replace(&home, "clients.pem", garbage);
        let message = home.refused(&serve);
        says(
            &message,
            &[
                "client authorities in clients.pem",
                "cannot be used",
                "--client-ca",
            ],
        );
    }
    // Beyond loopback they do as tokens do, and an address that this machine does not have (RFC 5737) is refused for that.
    let clients = Authority::new("clients");
    replace(&home, "clients.pem", &clients.pem);
    let message = home.refused(&serve.replace("127.0.0.1", "192.0.2.1"));
    says(&message, &["cannot listen on 192.0.2.1:0"]);
}

/// A client that makes one call after another until it is told to stop, or one fails.
struct Calls {
    ended: Arc<AtomicU64>,
    stop: Arc<AtomicBool>,
    thread: JoinHandle<Option<String>>,
}

impl Calls {
    /// Over one connection, or over a new one for each call.
    fn start(options: Options, reconnects: bool) -> Self {
        let (ended, stop) = (Arc::<AtomicU64>::default(), Arc::<AtomicBool>::default());
        let (count, stopped) = (Arc::clone(&ended), Arc::clone(&stop));
        let thread = thread::spawn(move || {
            let call = |connection: &mut Option<Connection>| {
                if reconnects || connection.is_none() {
                    *connection = Some(Connection::open(&options)?);
                }
                connection
                    .as_ref()
                    .map_or(Ok(()), |it| it.datasets().map(drop))
            };
            let mut connection = None;
            while !stopped.load(Ordering::SeqCst) {
                if let Err(error) = call(&mut connection) {
                    return Some(error.to_string());
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

    /// Of one with a certificate.
    fn of(server: &Server, home: &Home, name: &str, reconnects: bool) -> Self {
        let path = |end: &str| home.path(&format!("{name}.{end}"));
        let identity = Identity::read(&path("crt"), &path("key")).unwrap();
        let options = options(server, home, None, Some(identity));
        Self::start(options, reconnects)
    }

    /// Waits until calls have begun and ended.
    fn go_on(&self) {
        let before = self.ended.load(Ordering::SeqCst);
        until("it has called", || {
            assert!(!self.thread.is_finished(), "a call failed");
            (self.ended.load(Ordering::SeqCst) >= before + 3).then_some(())
        });
    }

    /// Why one failed, once one has.
    fn failed(self) -> String {
        self.thread.join().unwrap().unwrap()
    }

    /// Has it stop, and no call failed.
    fn stop(self) {
        self.stop.store(true, Ordering::SeqCst);
        assert_eq!(self.thread.join().unwrap(), None);
    }
}

fn options(
    server: &Server,
    home: &Home,
    token: Option<String>,
    identity: Option<Identity>,
) -> Options {
    Options {
        url: server.url().to_owned(),
        token,
        certificates: Some(home.read("ca.pem")),
        identity,
        waits: None,
    }
}

#[test]
fn tokens_and_certificates_are_rotated_without_downtime() {
    let home = Home::new();
    let servers = ["servers", "next servers"].map(Authority::new);
    let clients = ["clients", "next clients"].map(Authority::new);
    servers[0].sign_server(&home);
    home.write("ca.pem", servers.each_ref().map(|it| &*it.pem).concat());
    home.write("next.pem", &servers[1].pem);
    replace(&home, "clients.pem", &clients[0].pem);
    clients[0].sign_client(&home, "mill");
    clients[1].sign_client(&home, "works");
    let [ward, lab] = ["ward", "lab"].map(|it| home.token(it));
    let server = home.serve(&format!("{TLS} --client-ca clients.pem --tokens tokens"));
    home.talk_to(server.url());
    let bearer = |token: &str, reconnects: bool| {
        Calls::start(
            options(&server, &home, Some(token.to_owned()), None),
            reconnects,
        )
    };
    let mut staying = vec![bearer(&ward, false), bearer(&ward, true)];
    let revoked = [bearer(&lab, false), bearer(&lab, true)];
    let distrusted = [false, true].map(|it| Calls::of(&server, &home, "mill", it));
    let go_on = |calls: &[Calls]| calls.iter().for_each(Calls::go_on);
    go_on(&staying);
    go_on(&revoked);
    go_on(&distrusted);

    // Tokens.
    staying.push(bearer(&home.token("clinic"), true));
    go_on(&revoked);
    home.json("token revoke lab");
    for calls in revoked {
        let message = calls.failed();
        assert!(
            message.contains("not any more") || message.contains("revoked"),
            "{message}"
        );
    }
    go_on(&staying);
    go_on(&distrusted);

    // The server's certificate.
    servers[1].sign_server(&home);
    home.write("token", &ward);
    until("the next certificate is shown", || {
        let ended = home.run("datasets --ca next.pem --token-file token");
        (ended.code == Some(0)).then_some(())
    });
    go_on(&staying);
    go_on(&distrusted);

    // The authority of client certificates: both for a time, then the next one alone.
    replace(
        &home,
        "clients.pem",
        &clients.each_ref().map(|it| &*it.pem).concat(),
    );
    until("the next authority is trusted", || {
        (home.run(&format!("datasets {}", shows("works"))).code == Some(0)).then_some(())
    });
    staying.extend([false, true].map(|it| Calls::of(&server, &home, "works", it)));
    go_on(&staying);
    go_on(&distrusted);
    replace(&home, "clients.pem", &clients[1].pem);
    for calls in distrusted {
        calls.failed();
    }
    go_on(&staying);
    staying.into_iter().for_each(Calls::stop);
}
