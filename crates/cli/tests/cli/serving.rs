//! The operator's view of a server: connections that break, processes that are killed,
//! authentication, and refused configurations.

use crate::common::plaintext::random_baskets;
use crate::common::proxy::{Direction, Proxy};
use crate::common::{Ended, Home, Process, Server, says, until};
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use serde_json::{Value, json};
use std::fs::{self, Permissions};
use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::process::Command;
use std::sync::{Arc, Mutex};
use std::thread;

/// More than buffers between server and client hold, less than the answer about triples.
const IN_THE_ANSWER: u64 = 8 << 20;
const SERVE: &str = "serve --data data --listen 127.0.0.1:0";
const TLS: &str = "--tls-cert tls.crt --tls-key tls.key";
const MINE: &str = "mine rows.oboro --min-support 10% --verify rows.dat --trust-server";

/// An owner whose dataset needs an answer of many mebibytes to mine, uploaded to a server.
fn uploaded() -> (Home, Home, Server) {
    let (owner, operator) = (Home::with_key(), Home::new());
    let server = operator.serve("");
    upload(&owner, &server, "");
    (owner, operator, server)
}

fn upload(owner: &Home, server: &Server, options: &str) {
    owner.talk_to(server.url());
    owner.write_fimi("rows.dat", &random_baskets(2_000, 50, 160));
    owner.json("encrypt rows.dat --max-len 3");
    owner.json(&format!("upload rows.oboro {options}"));
}

/// The message about a query that ended early: the cause, and that it may be retried.
fn assert_broken(ended: &Ended) {
    let advice = "run the same command again";
    says(
        &ended.refusal(),
        &["the connection to the server broke", advice],
    );
}

/// Starts a command and waits until the server has refused it a place.
fn refused_for_now(owner: &Home, server: &Server, line: &str) -> Process {
    let refusals = || server.log().matches("ResourceExhausted").count();
    let before = refusals();
    let refused = owner.start(line);
    until("it was refused", || (refusals() > before).then_some(()));
    refused
}

/// It has asked again until there was a place.
fn assert_has_waited(ended: &Ended) {
    assert_eq!(ended.code, Some(0), "{ended:?}");
    says(&ended.stderr, &["the server is busy; trying again in"]);
}

#[test]
fn a_silent_server_is_named_while_it_is_waited_for() {
    let (owner, _operator, server) = uploaded();
    let proxy = Proxy::to(server.address());
    proxy.stall_after(Direction::Down, IN_THE_ANSWER);
    let script = format!("$oboro {MINE} --server {} 2> said", proxy.url());
    let query = owner.start_shell(&script);
    proxy.wait_until_stalled(1);
    let said = || String::from_utf8(owner.read("said")).unwrap();
    until("it is said", || {
        said()
            .contains("the server has said nothing for")
            .then_some(())
    });
    proxy.release();
    assert_eq!(query.ended().code, Some(0), "{}", said());
}

#[test]
fn ctrl_c_ends_a_query_and_says_that_it_may_be_asked_again() {
    let (owner, _operator, server) = uploaded();
    let proxy = Proxy::to(server.address());
    proxy.stall_after(Direction::Down, IN_THE_ANSWER);
    let query = owner.start_interruptible(&format!("{MINE} --server {}", proxy.url()));
    proxy.wait_until_stalled(1);
    query.signal("INT");
    let ended = query.ended();
    assert_eq!(ended.code, Some(130), "{ended:?}");
    says(&ended.stderr, &["interrupted; nothing was lost"]);
}

#[test]
fn a_query_ends_when_its_client_goes_away() {
    let (owner, operator) = (Home::with_key(), Home::new());
    let server = operator.serve("--threads 1 --max-queries 3 --queue-timeout 0");
    upload(&owner, &server, "");
    let proxy = Proxy::to(server.address());
    proxy.stall_after(Direction::Down, IN_THE_ANSWER);
    let through_proxy = format!("{MINE} --server {}", proxy.url());
    for _ in 0..2 {
        let mut stalled = vec![owner.start(&through_proxy), owner.start(&through_proxy)];
        proxy.wait_until_stalled(2);
        // They do not occupy the only thread.
        owner.json(MINE);
        stalled.push(owner.start(&through_proxy));
        proxy.wait_until_stalled(3);
        // They occupy their slots, which are released when their connections close: the next one waits for that.
        let next = refused_for_now(&owner, &server, MINE);
        proxy.cut();
        for query in stalled {
            assert_broken(&query.ended());
        }
        assert_has_waited(&next.ended());
    }
    let mut killed = owner.start(&through_proxy);
    proxy.wait_until_stalled(1);
    killed.kill();
    proxy.cut();
    let stalled = owner.start(&through_proxy);
    proxy.wait_until_stalled(1);
    owner.json(MINE);
    proxy.release();
    assert_eq!(stalled.ended().code, Some(0));
}

#[test]
fn a_query_that_takes_too_long_is_ended() {
    let (owner, operator) = (Home::with_key(), Home::new());
    let server = operator.serve("--query-timeout 1");
    upload(&owner, &server, "");
    let proxy = Proxy::to(server.address());
    proxy.stall_after(Direction::Down, IN_THE_ANSWER);
    let query = owner.start(&format!("{MINE} --server {}", proxy.url()));
    until("the server has ended it", || {
        server.log().contains("the query was ended").then_some(())
    });
    proxy.release();
    let message = query.ended().refusal();
    let remedy = "a higher --min-support";
    says(
        &message,
        &[
            "the server refused",
            "more than 1 s",
            remedy,
            "--query-timeout",
        ],
    );
}

#[test]
fn a_server_killed_during_a_query() {
    let (owner, operator, server) = uploaded();
    let proxy = Proxy::to(server.address());
    proxy.stall_after(Direction::Down, IN_THE_ANSWER);
    let query = owner.start(&format!("{MINE} --out found.json --server {}", proxy.url()));
    proxy.wait_until_stalled(1);
    server.kill();
    proxy.release();
    assert_broken(&query.ended());
    assert!(!owner.path("found.json").exists());
    owner.refuses(format!(
        "{MINE} => cannot reach the server … check that `oboro serve` runs"
    ));
    let server = operator.serve("");
    owner.talk_to(server.url());
    owner.json(MINE);
}

#[test]
fn a_server_asked_to_end_answers_first() {
    let (owner, operator, server) = uploaded();
    let proxy = Proxy::to(server.address());
    proxy.stall_after(Direction::Down, IN_THE_ANSWER);
    // The third query is the last one.
    let query = owner.start(&format!("{MINE} --json --server {}", proxy.url()));
    proxy.wait_until_stalled(1);
    server.terminate();
    until("the server has heard", || {
        server.log().contains("shutting down").then_some(())
    });
    proxy.release();
    assert_eq!(query.json()["matches_plaintext"], true);
    let ended = server.ended();
    ended.without_panic();
    assert_eq!(ended.code, Some(0));
    assert_eq!(ended.stdout.lines().count(), 1);

    // An idle one ends as well, and nothing is lost.
    let server = operator.serve("");
    owner.talk_to(server.url());
    owner.json(MINE);
    server.terminate();
    assert_eq!(server.ended().code, Some(0));
    let server = operator.serve("");
    owner.talk_to(server.url());
    owner.json(MINE);
}

#[test]
fn a_read_that_hangs_does_not_outlive_the_time_to_stop() {
    let (owner, operator, server) = uploaded();
    server.kill();
    // Opening a pipe without a writer takes for ever, as reading a disk that is gone does.
    let segment = operator.find("data", "00000000.seg");
    fs::remove_file(&segment).unwrap();
    let made = Command::new("mkfifo").arg(&segment).status().unwrap();
    assert!(made.success());
    let server = operator.serve("");
    owner.talk_to(server.url());
    let query = owner.start(MINE);
    until("the segment is opened", || {
        let wchan = fs::read_dir(format!("/proc/{}/task", server.id())).unwrap();
        let waits = |it: io::Result<fs::DirEntry>| {
            fs::read_to_string(it.unwrap().path().join("wchan"))
                .is_ok_and(|it| it == "wait_for_partner")
        };
        wchan.into_iter().any(waits).then_some(())
    });
    server.terminate();
    let ended = server.ended();
    assert_eq!(ended.code, Some(1), "{ended:?}");
    says(&ended.stderr, &["work is still in progress"]);
    drop(query);
}

#[test]
fn user_signals_do_not_end_a_server() {
    let operator = Home::new();
    let server = operator.serve("");
    for name in ["USR1", "USR2"] {
        server.signal(name);
    }
    until("they are logged", || {
        (server.log().matches("ignored a signal").count() == 2).then_some(())
    });
}

#[test]
fn a_log_level_that_is_none_is_refused() {
    let operator = Home::new();
    operator.set("OBORO_LOG", "foo");
    operator.refuses(format!("{SERVE} => OBORO_LOG … \"foo\" … info"));
}

#[test]
fn a_store_and_a_port_belong_to_one_server() {
    let operator = Home::new();
    let server = operator.serve("");
    operator.refuses(format!(
        "{SERVE} => data is in use by another process … Stop it first"
    ));
    // It is the directory that is taken, not a file in it.
    fs::remove_file(operator.path("data/lock")).unwrap();
    let address = server.address();
    operator.refuses(format!(
        "{SERVE} => data is in use by another process
        scrub data => data is in use by another process
        serve --data other --listen {address} => cannot listen on … in use … choose another port"
    ));
    // A killed server holds no locks.
    server.kill();
    operator.serve("");
}

#[test]
fn what_cannot_be_served_is_refused() {
    let operator = Home::new();
    operator.write("file", "not a directory");
    operator.refuses("serve --data file --listen 127.0.0.1:0 => file … Check the path");
    for limit in [
        "--threads 0",
        "--max-message 1023KiB",
        "--max-message 73MiB",
        "--max-dataset much",
        "--max-itemsets 0",
        "--max-queries 0",
        "--max-queries-per-client 0",
        "--query-timeout 0",
        "--queue-timeout -1",
        "--max-calls-per-second 0",
        "--log-format xml",
    ] {
        operator.misused(&format!("{SERVE} {limit}"));
    }
    operator.misuses("serve --data data --listen localhost\nserve --listen 127.0.0.1:0");
}

#[test]
fn beyond_loopback_takes_tls_and_a_token() {
    let operator = Home::new();
    certificates(&operator, "tls");
    operator.token("ward");
    let serve = "serve --data data --listen";
    let refusal = "refusing to listen … --tls-cert, --tls-key and --tokens … 127.0.0.1";
    for address in ["0.0.0.0:0", "[::]:0"] {
        operator.refuses(format!(
            "{serve} {address} => {refusal}
            {serve} {address} {TLS} => {refusal}
            {serve} {address} --tokens tokens => {refusal}"
        ));
    }
    // An address that this machine does not have (RFC 5737).
    operator.refuses(format!(
        "{serve} 192.0.2.1:0 {TLS} --tokens tokens => cannot listen on 192.0.2.1:0 … choose another port"
    ));
    // A name that no resolver knows (RFC 2606): the refusal comes before any lookup.
    operator.refuses(
        "datasets --server http://server.invalid:7171 => refusing to send … without TLS … https://
        datasets --server http://192.0.2.1:7171 => refusing to send … without TLS … https://",
    );
}

#[test]
fn a_token_is_wanted_and_checked() {
    let (owner, operator) = (Home::with_key(), Home::new());
    let right = operator.token("ward");
    let server = operator.serve("--tokens tokens");
    owner.talk_to(server.url());
    owner.write_fimi("rows.dat", &random_baskets(100, 5, 128));
    owner.json("encrypt rows.dat");
    owner.write("right", format!("{right}\n"));
    owner.write("wrong", right.replace(&right[60..], &"0".repeat(10)));
    let calls = [
        "datasets",
        "upload rows.oboro",
        "mine rows.oboro --min-support 1",
        "delete rows --yes",
    ];
    for call in calls {
        for token in ["", "--token-file wrong"] {
            let message = owner.refused(&format!("{call} {token}"));
            says(
                &message,
                &["the server refused", "wants a token", "--token-file"],
            );
            assert!(!message.contains(&right[..16]));
        }
    }
    for call in calls {
        owner.json(&format!("{call} --token-file right"));
    }
    owner.write("empty", format!("\n{right}\n"));
    owner.write("binary", [b'a', 0xff, b'\n']);
    owner.write("control", "a\u{7}b\n");
    owner.write("named", format!("ward {right}\n"));
    owner.refuses(
        "datasets --token-file none => cannot read the token file
        datasets --token-file empty => token … its first line is empty
        datasets --token-file binary => cannot read the token file
        datasets --token-file control => token … printable ASCII
        datasets --token-file named => token … stand alone",
    );
    operator.write("other", "alice two\n");
    let message = operator.refused(&format!("{SERVE} --tokens other"));
    says(&message, &["token file other", "line 1", "no hash"]);
    assert!(!message.contains("two"), "{message}");
    operator.refuses(format!("{SERVE} --tokens none => open the token file none"));
}

#[test]
fn tokens_are_made_listed_and_revoked_while_a_server_runs() {
    let (owner, operator) = (Home::with_key(), Home::new());
    owner.write("first", operator.token("ward"));
    let server = operator.serve("--tokens tokens");
    upload(&owner, &server, "--token-file first");
    // One that is made now is accepted now.
    let made = operator.json("token new ward --until 2999-12-31 --out second");
    assert_eq!(
        (&made["token"], &made["out"]),
        (&Value::Null, &"second".into())
    );
    let mode = operator.path("second").metadata().unwrap().mode();
    assert_eq!(mode & 0o777, 0o600);
    owner.write("second", operator.read("second"));
    let mine = format!("{MINE} --token-file");
    owner.json(&format!("{mine} second"));
    let listed = operator.json("token list");
    let token = |until: Value| json!(["ward", until, false]);
    let of = |at: usize| json!(["name", "until", "expired"].map(|it| listed[at][it].clone()));
    assert_eq!(
        [of(0), of(1)],
        [token(Value::Null), token("2999-12-31".into())]
    );
    assert_eq!(listed[1]["id"], made["id"]);
    says(&operator.done("token list"), &["ward", "2999-12-31"]);
    let revoked = operator.json(&format!(
        "token revoke {}",
        listed[0]["id"].as_str().unwrap()
    ));
    assert_eq!(revoked[0]["name"], "ward");
    owner.refuses(format!("{mine} first => wants a token … not any more"));
    owner.json(&format!("{mine} second"));
    operator.refuses(
        "token revoke carol => no token of this name
        token new al/ice => no name for a token
        token new ward --until tomorrow => no date
        token new ward --until 2020-01-01 => has passed
        token new ward --out second => second
        token new ward --out tokens => is the file of hashes
        token new ward --tokens fresh --out ./fresh => is the file of hashes
        token list --tokens none => open the token file none",
    );
    // A token that could not be shown is not kept.
    let full = operator.start_shell("exec \"$oboro\" token new lab > /dev/full");
    assert_eq!(full.ended().code, Some(10));
    assert!(!operator.done("token list").contains("lab"));
    // A signal to read the file again ends no server.
    server.signal("HUP");
    operator.json("token revoke ward");
    owner.refused(&format!("{mine} second"));
    owner.write("third", operator.token("lab"));
    owner.json("datasets --token-file third");
}

/// Writes the CA certificate `NAME-ca.pem`, and `NAME.crt` and `NAME.key` for this machine, signed
/// by it.
pub fn certificates(home: &Home, name: &str) {
    let mut authority = CertificateParams::new(Vec::new()).unwrap();
    authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let authority_key = KeyPair::generate().unwrap();
    let authority_certificate = authority.self_signed(&authority_key).unwrap();
    let issuer = Issuer::new(authority, authority_key);
    let key = KeyPair::generate().unwrap();
    let names = ["127.0.0.1", "localhost", "mine.test"].map(str::to_owned);
    let certificate = CertificateParams::new(names).unwrap();
    let certificate = certificate.signed_by(&key, &issuer).unwrap();
    home.write(&format!("{name}-ca.pem"), authority_certificate.pem());
    home.write(&format!("{name}.crt"), certificate.pem());
    home.write(&format!("{name}.key"), key.serialize_pem());
    let private = Permissions::from_mode(0o600);
    fs::set_permissions(home.path(&format!("{name}.key")), private).unwrap();
}

#[test]
fn tls_from_end_to_end() {
    let (owner, operator) = (Home::with_key(), Home::new());
    certificates(&operator, "tls");
    let token = operator.token("ward");
    let server = operator.serve(&format!("{TLS} --tokens tokens"));
    assert!(server.url().starts_with("https://127.0.0.1:"));
    owner.talk_to(server.url());
    owner.write("ca.pem", operator.read("tls-ca.pem"));
    owner.write("token", token);
    owner.write_fimi("rows.dat", &random_baskets(100, 5, 128));
    owner.json("encrypt rows.dat");
    let trust = "--ca ca.pem --token-file token";
    owner.json(&format!("upload rows.oboro {trust}"));
    owner.json(&format!(
        "mine rows.oboro --min-support 1 --verify rows.dat {trust}"
    ));
    let by_name = server.url().replace("127.0.0.1", "localhost");
    owner.json(&format!("datasets --server {by_name} {trust}"));

    // A server whose certificate the owner does not trust.
    certificates(&owner, "other");
    owner.write("garbage.pem", "-----BEGIN CERTIFICATE-----\nx\n");
    owner.refuses(
        "datasets --token-file token => cannot reach the server … certificate … --ca
        datasets --token-file token --ca other-ca.pem => cannot reach the server … certificate … --ca
        datasets --token-file token --ca garbage.pem => certificates … with --ca cannot be used
        datasets --token-file token --ca token => certificates … there are none
        datasets --token-file token --ca none.pem => cannot read the certificates in none.pem",
    );
    // TLS at one end only.
    let plain = server.url().replace("https", "http");
    let operator = Home::new();
    let plain_server = operator.serve("");
    let encrypted = plain_server.url().replace("http", "https");
    owner.refuses(format!(
        "datasets --server {plain} --token-file token => does not answer as an Oboro server … https://
        upload rows.oboro --server {plain} --token-file token => does not answer as an Oboro server
        datasets --server {encrypted} {trust} => cannot reach the server … http://"
    ));
}

#[test]
fn certificates_and_keys_that_cannot_be_used_are_refused() {
    let operator = Home::new();
    certificates(&operator, "tls");
    certificates(&operator, "other");
    operator.write("garbage", "no certificate\n");
    let allow = |file: &str, mode: u32| {
        fs::set_permissions(operator.path(file), Permissions::from_mode(mode)).unwrap();
    };
    allow("garbage", 0o600);
    let unusable = "TLS certificate … cannot be used … --tls-cert … --tls-key";
    let unread = "could not read the TLS … none … Check the path";
    operator.refuses(format!(
        "{SERVE} --tls-cert garbage --tls-key tls.key => {unusable}
        {SERVE} --tls-cert tls.crt --tls-key garbage => {unusable}
        {SERVE} --tls-cert tls.crt --tls-key other.key => {unusable}
        {SERVE} --tls-cert none --tls-key tls.key => {unread}
        {SERVE} --tls-cert tls.crt --tls-key none => {unread}"
    ));
    operator.misuses(format!(
        "{SERVE} --tls-cert tls.crt\n{SERVE} --tls-key tls.key"
    ));
    operator.token("ward");
    allow("tls.key", 0o644);
    operator.refuses(format!("{SERVE} {TLS} => tls.key … chmod o-rwx"));
    allow("tokens", 0o622);
    operator.refuses(format!("{SERVE} --tokens tokens => tokens … chmod go-w"));
}

#[test]
fn a_stranger_at_the_port_is_no_server() {
    let owner = Home::with_key();
    for url in [
        "127.0.0.1:7171",
        "ftp://127.0.0.1",
        "",
        "http://",
        "http://[",
    ] {
        owner.set("OBORO_SERVER", url);
        owner.refuses("datasets => is not a server address … http://127.0.0.1:7171");
    }
    // A peer that closes every connection.
    let closed = TcpListener::bind("127.0.0.1:0").unwrap();
    let proxy = Proxy::to(closed.local_addr().unwrap());
    drop(closed);
    owner.talk_to(&proxy.url());
    owner.refuses("datasets => does not answer as an Oboro server … check the address");
}

/// A proxy of HTTP that sends everybody to `server`; it returns its address, and the heads of the requests it got.
fn tunnelling_to(server: SocketAddr) -> (SocketAddr, Arc<Mutex<Vec<String>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let heads = Arc::<Mutex<Vec<String>>>::default();
    let seen = Arc::clone(&heads);
    thread::spawn(move || {
        for client in listener.incoming().flatten() {
            let mut head = Vec::new();
            let mut byte = [0];
            while !head.ends_with(b"\r\n\r\n") && (&client).read_exact(&mut byte).is_ok() {
                head.push(byte[0]);
            }
            seen.lock().unwrap().push(String::from_utf8(head).unwrap());
            (&client).write_all(b"HTTP/1.1 200 OK\r\n\r\n").unwrap();
            let server = TcpStream::connect(server).unwrap();
            for (mut from, mut to) in [
                (client.try_clone().unwrap(), server.try_clone().unwrap()),
                (server, client),
            ] {
                thread::spawn(move || {
                    // An end that is gone ends both directions.
                    let _ = io::copy(&mut from, &mut to);
                    let _ = to.shutdown(Shutdown::Both);
                });
            }
        }
    });
    (address, heads)
}

#[test]
fn a_proxy_of_the_environment_leads_to_servers_elsewhere() {
    let (owner, operator) = (Home::with_key(), Home::new());
    certificates(&operator, "tls");
    owner.copy_from(&operator, "tls-ca.pem");
    owner.write("token", operator.token("ward"));
    let server = operator.serve(&format!("{TLS} --tokens tokens"));
    let (proxy, heads) = tunnelling_to(server.address());
    // A name that only the proxy knows.
    let port = server.address().port();
    owner.set("OBORO_SERVER", &format!("https://mine.test:{port}"));
    let ask = "datasets --ca tls-ca.pem --token-file token";
    owner.set("HTTPS_PROXY", &format!("http://me:secret@{proxy}"));
    assert_eq!(owner.json(ask), serde_json::json!([]));
    let head = heads.lock().unwrap().pop().unwrap();
    says(
        &head,
        &[&format!("CONNECT mine.test:{port} "), "Basic bWU6c2VjcmV0"],
    );
    assert!(!head.contains("Bearer"), "{head}");

    // Exceptions, and servers on this machine, are not asked for there.
    owner.set("NO_PROXY", "mine.test");
    owner.refuses(format!("{ask} => cannot reach the server"));
    owner.unset("NO_PROXY");
    owner.json(&format!("{ask} --server https://127.0.0.1:{port}"));
    assert_eq!(heads.lock().unwrap().len(), 0);

    // What cannot be used is refused, not ignored, and not shown.
    for (url, phrases) in [
        (
            format!("socks5://me:secret@{proxy}"),
            ["what HTTPS_PROXY says", "NO_PROXY"],
        ),
        (
            format!("http://me:pa#secret@{proxy}"),
            ["what HTTPS_PROXY says", "NO_PROXY"],
        ),
        (
            "http://me:secret@127.0.0.1:1".to_owned(),
            ["cannot reach", "by way of the proxy 127.0.0.1:1 of"],
        ),
    ] {
        owner.set("HTTPS_PROXY", &url);
        let refused = owner.refused(ask);
        says(&refused, &phrases);
        assert!(!refused.contains("secret"), "{refused}");
    }
    assert_eq!(heads.lock().unwrap().len(), 0);
}
