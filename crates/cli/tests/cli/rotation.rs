//! What callers prove their names with, tokens with roles and client certificates, in the words of the command and of the
//! server's log. They are replaced and revoked while a server runs in `crates/client/tests/client/credentials.rs`.

use crate::common::calls::endpoint;
use crate::common::{Home, Server, says, until};
use oboro_client::{Connection, Identity, Options};
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, IsCa, Issuer, KeyPair,
};
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
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
    fn sign(&self, home: &Home, file: &str, subject: &CertificateParams) {
        let key = KeyPair::generate().unwrap();
        let certificate = subject.signed_by(&key, &self.issuer).unwrap();
        replace(home, &format!("{file}.crt"), &certificate.pem());
        replace(home, &format!("{file}.key"), &key.serialize_pem());
    }

    /// The same for this machine.
    fn sign_server(&self, home: &Home) {
        self.sign(home, "tls", &subject(None, &["127.0.0.1", "localhost"]));
    }

    fn sign_client(&self, home: &Home, name: &str) {
        self.sign(home, name, &subject(Some(name), &[]));
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

/// Replaces a file in one step, as the manual requires.
fn replace(home: &Home, name: &str, text: &str) {
    let new = home.path(&format!("{name}.new"));
    fs::write(&new, text).unwrap();
    fs::set_permissions(&new, Permissions::from_mode(0o600)).unwrap();
    fs::rename(new, home.path(name)).unwrap();
}

const SERVE: &str = "serve --data data --listen 127.0.0.1:0";
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
    operator.misuses(
        "token new other --role own => is no role … administer
        token new other --role read, => is no role
        token new other --role READ => is no role",
    );
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

/// Whether it answers health checks of callers without a certificate.
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
    clients.sign(&home, "unnamed", &subject(None, &[]));
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
    home.refuses(
        "datasets --ca ca.pem => wants a client certificate … --client-cert and --client-key",
    );
    for name in ["spaced", "unnamed"] {
        home.refuses(format!(
            "datasets {} => names nobody … common name",
            shows(name)
        ));
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

    // An open connection ends with the trust in its certificate.
    let path = |end: &str| home.path(&format!("ward.{end}"));
    let connection = Connection::open(&Options {
        url: server.url().to_owned(),
        certificates: Some(home.read("ca.pem")),
        identity: Some(Identity::read(&path("crt"), &path("key")).unwrap()),
        ..Options::default()
    });
    let connection = connection.unwrap();
    connection.datasets().unwrap();
    replace(&home, "clients.pem", &Authority::new("others").pem);
    until("the log says whose it is", || {
        let _ = connection.datasets();
        let log = server.log();
        let phrases = ["trusted no more", "client=\"ward\""];
        phrases.iter().all(|it| log.contains(it)).then_some(())
    });

    // What cannot be used.
    let call = "datasets --ca ca.pem --client-cert";
    home.refuses(format!(
        "{call} ward.crt --client-key dns.key => --client-cert and --client-key cannot be used
        {call} none --client-key ward.key => none cannot be read"
    ));
    home.misuses(format!("{call} ward.crt\n{SERVE} --client-ca clients.pem"));
    fs::set_permissions(home.path("ward.key"), Permissions::from_mode(0o644)).unwrap();
    home.refuses(format!(
        "{call} ward.crt --client-key ward.key => ward.key can be read by others … chmod 600"
    ));
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
        let refusal = "wants a token or a client certificate … --token-file or --client-cert";
        home.refuses(format!("datasets {options} => {refusal}"));
    }
    until("the log says why", || {
        server.log().contains("unknown token").then_some(())
    });
    assert!(!server.log().contains("oboro_0"));
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
    home.refuses(format!(
        "{SERVE} --tls-cert past.crt --tls-key past.key => TLS certificate … past.crt has expired … put one there
        {SERVE} {TLS} --client-ca past.pem => client authority … mill … past.pem has expired"
    ));
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
    let serve = format!("{SERVE} {TLS} --client-ca clients.pem");
    let pem = home.path("clients.pem");
    fs::set_permissions(&pem, Permissions::from_mode(0o620)).unwrap();
    home.refuses(format!("{serve} => clients.pem … chmod go-w"));
    for garbage in ["", "nothing\n", "-----BEGIN CERTIFICATE-----\nx\n"] {
        replace(&home, "clients.pem", garbage);
        home.refuses(format!(
            "{serve} => client authorities in clients.pem … cannot be used … --client-ca"
        ));
    }
    // Beyond loopback they do as tokens do, and an address that this machine does not have (RFC 5737) is refused for that.
    replace(&home, "clients.pem", &Authority::new("clients").pem);
    let serve = serve.replace("127.0.0.1", "192.0.2.1");
    home.refuses(format!("{serve} => cannot listen on 192.0.2.1:0"));
}
