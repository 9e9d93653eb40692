//! The operator's view of a server: connections that break, processes that are killed,
//! authentication, and refused configurations.

use crate::common::plaintext::random_baskets;
use crate::common::proxy::{Direction, Proxy};
use crate::common::{Ended, Home, Process, Server, says, until};
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use serde_json::Value;
use std::fs::{self, Permissions};
use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::process::Command;
use std::sync::{Arc, Mutex};
use std::thread;

/// More than buffers between server and client hold, less than the answer about triples.
const IN_THE_ANSWER: u64 = 8 << 20;
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
    let message = ended.refusal();
    says(
        &message,
        &[
            "the connection to the server broke",
            "run the same command again",
        ],
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
fn a_silent_server_is_told_of_while_it_is_waited_for() {
    let (owner, _operator, server) = uploaded();
    let proxy = Proxy::to(server.address());
    proxy.stall_after(Direction::Down, IN_THE_ANSWER);
    let script = format!("$oboro {MINE} --server {} 2> said", proxy.url());
    let query = owner.start_shell(&script);
    proxy.wait_until_stalled(1);
    let said = || String::from_utf8(owner.read("said")).unwrap();
    until("it is told", || {
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
fn one_client_is_one_however_many_connections_it_has() {
    let (owner, operator) = (Home::with_key(), Home::new());
    for (file, name) in [("sesame", "ward"), ("barley", "lab"), ("oats", "ward")] {
        owner.write(file, operator.token(name));
    }
    let server = operator.serve("--tokens tokens --max-queries-per-client 1 --queue-timeout 0");
    upload(&owner, &server, "--token-file sesame");
    owner.json("encrypt rows.dat --max-len 3 --out lab.oboro");
    owner.json("upload lab.oboro --token-file barley");
    let proxy = Proxy::to(server.address());
    proxy.stall_after(Direction::Down, IN_THE_ANSWER);
    let stalled = owner.start(&format!(
        "{MINE} --token-file sesame --server {}",
        proxy.url()
    ));
    proxy.wait_until_stalled(1);
    let waiting = ["sesame", "oats"]
        .map(|token| refused_for_now(&owner, &server, &format!("{MINE} --token-file {token}")));
    let its = MINE.replace("rows.oboro", "lab.oboro");
    owner.json(&format!("{its} --token-file barley"));
    proxy.release();
    assert_eq!(stalled.ended().code, Some(0));
    for next in waiting {
        assert_has_waited(&next.ended());
    }
}

#[test]
fn a_query_that_takes_too_long_is_ended() {
    let (owner, operator) = (Home::with_key(), Home::new());
    let server = operator.serve("--query-timeout 1");
    upload(&owner, &server, "");
    let proxy = Proxy::to(server.address());
    proxy.stall_after(Direction::Down, IN_THE_ANSWER);
    let query = owner.start(&format!("{MINE} --server {}", proxy.url()));
    crate::common::until("the server has ended it", || {
        server.log().contains("the query was ended").then_some(())
    });
    proxy.release();
    let message = query.ended().refusal();
    says(
        &message,
        &[
            "the server refused",
            "more than 1 s",
            "a higher --min-support",
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
    let message = owner.refused(MINE);
    says(
        &message,
        &["cannot reach the server", "check that `oboro serve` runs"],
    );

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
    crate::common::until("the server has heard", || {
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
    // Opening a pipe that nobody writes to takes for ever, as reading a disk that is gone does.
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
    says(&ended.stderr, &["work still goes on"]);
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
    let refused = operator.refused("serve --data data --listen 127.0.0.1:0");
    says(&refused, &["OBORO_LOG", "\"foo\"", "info"]);
}

#[test]
fn a_store_and_a_port_belong_to_one_server() {
    let operator = Home::new();
    let server = operator.serve("");
    let message = operator.refused("serve --data data --listen 127.0.0.1:0");
    says(
        &message,
        &["data is in use by another process", "Stop it first"],
    );
    // It is the directory that is taken, not a file in it.
    std::fs::remove_file(operator.path("data/lock")).unwrap();
    for line in ["serve --data data --listen 127.0.0.1:0", "scrub data"] {
        let message = operator.refused(line);
        says(&message, &["data is in use by another process"]);
    }
    let message = operator.refused(&format!("serve --data other --listen {}", server.address()));
    says(
        &message,
        &["cannot listen on", "in use", "choose another port"],
    );
    // A killed server holds no locks.
    server.kill();
    operator.serve("");
}

#[test]
fn what_cannot_be_served_is_refused() {
    let operator = Home::new();
    operator.write("file", "not a directory");
    let message = operator.refused("serve --data file --listen 127.0.0.1:0");
    says(&message, &["file", "Check the path"]);
    operator.misused("serve --data data --listen localhost");
    operator.misused("serve --data data --listen 127.0.0.1:0 --threads 0");
    operator.misused("serve --listen 127.0.0.1:0");
    for limit in [
        "--max-message 1023KiB",
        "--max-message 73MiB",
        "--max-message much",
        "--max-dataset much",
        "--max-itemsets 0",
        "--max-queries 0",
        "--max-queries-per-client 0",
        "--query-timeout 0",
        "--queue-timeout -1",
        "--max-calls-per-second 0",
        "--log-format xml",
    ] {
        operator.misused(&format!("serve --data data --listen 127.0.0.1:0 {limit}"));
    }
    // An address that this machine does not have (RFC 5737).
    certificates(&operator, "tls");
    operator.token("ward");
    let message = operator.refused(
        "serve --data data --listen 192.0.2.1:0 --tls-cert tls.crt --tls-key tls.key --tokens tokens",
    );
    says(
        &message,
        &["cannot listen on 192.0.2.1:0", "choose another port"],
    );
}

#[test]
fn beyond_loopback_takes_tls_and_a_token() {
    let operator = Home::new();
    certificates(&operator, "tls");
    operator.token("ward");
    let tls = "--tls-cert tls.crt --tls-key tls.key";
    for address in ["0.0.0.0:0", "[::]:0"] {
        for options in ["", tls, "--tokens tokens"] {
            let message =
                operator.refused(&format!("serve --data data --listen {address} {options}"));
            says(
                &message,
                &[
                    "refusing to listen",
                    "--tls-cert, --tls-key and --tokens",
                    "127.0.0.1",
                ],
            );
        }
    }
    let owner = Home::with_key();
    // Names that no resolver knows (RFC 2606): the refusal comes before any lookup.
    for url in ["http://server.invalid:7171", "http://192.0.2.1:7171"] {
        let message = owner.refused(&format!("datasets --server {url}"));
        says(&message, &["refusing to send", "without TLS", "https://"]);
    }
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
    owner.write("longer", format!("{right}0\n"));
    let mine = "mine rows.oboro --min-support 1";
    let calls = [
        "datasets",
        "upload rows.oboro",
        mine,
        "delete rows --yes --now",
    ];
    for call in calls {
        for token in ["", "--token-file wrong", "--token-file longer"] {
            let message = owner.refused(&format!("{call} {token}"));
            says(
                &message,
                &["the server refused", "wants a token", "--token-file"],
            );
            assert!(!message.contains(&right[..16]));
        }
    }
    for call in &calls[..3] {
        owner.json(&format!("{call} --token-file right"));
    }
    owner.write("empty", format!("\n{right}\n"));
    owner.write("binary", [b'a', 0xff, b'\n']);
    owner.write("control", "a\u{7}b\n");
    owner.write("named", format!("ward {right}\n"));
    for (file, phrase) in [
        ("none", "cannot read the token file"),
        ("empty", "its first line is empty"),
        ("binary", "cannot read the token file"),
        ("control", "printable ASCII"),
        ("named", "stand alone"),
    ] {
        let message = owner.refused(&format!("datasets --token-file {file}"));
        says(&message, &[phrase, "token"]);
    }
    for (file, phrases) in [
        ("# nobody\n", ["holds no token", "oboro token new"]),
        ("alice \n", ["line 1", "oboro token new"]),
        ("alice two\n", ["line 1", "no hash"]),
    ] {
        operator.write("other", file);
        let message = operator.refused("serve --data x --listen 127.0.0.1:0 --tokens other");
        says(&message, &["token file other"]);
        says(&message, &phrases);
        assert!(!message.contains("two"), "{message}");
    }
    let message = operator.refused("serve --data x --listen 127.0.0.1:0 --tokens none");
    says(&message, &["open the token file none"]);
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
    operator.refused("token new ward --out second");
    owner.write("second", operator.read("second"));
    let mine = format!("{MINE} --token-file");
    owner.json(&format!("{mine} second"));
    let listed = operator.json("token list");
    let listed = listed.as_array().unwrap();
    assert_eq!(listed.len(), 2);
    let (first, second) = (&listed[0], &listed[1]);
    assert_eq!(
        (&first["name"], &first["until"]),
        (&"ward".into(), &Value::Null)
    );
    assert_eq!(
        (&second["id"], &second["until"]),
        (&made["id"], &"2999-12-31".into())
    );
    assert_eq!(second["expired"], false);

    // A call in progress ends with its token, and the other token's go on.
    let proxy = Proxy::to(server.address());
    proxy.stall_after(Direction::Down, IN_THE_ANSWER);
    let stalled = owner.start(&format!("{mine} first --server {}", proxy.url()));
    proxy.wait_until_stalled(1);
    let revoked = operator.json(&format!("token revoke {}", first["id"].as_str().unwrap()));
    assert_eq!(revoked[0]["name"], "ward");
    let message = owner.refused(&format!("{mine} first"));
    says(&message, &["wants a token", "not any more"]);
    proxy.release();
    says(
        &stalled.ended().refusal(),
        &["token of this call has been revoked"],
    );
    owner.json(&format!("{mine} second"));

    let text = operator.done("token list");
    says(&text, &["ward", "2999-12-31"]);
    for (line, phrase) in [
        ("token revoke carol", "no token of this name"),
        ("token new al/ice", "no name for a token"),
        ("token new ward --until tomorrow", "no date"),
        ("token new ward --until 2020-01-01", "has passed"),
        ("token new ward --out tokens", "is the file of hashes"),
        (
            "token new ward --tokens fresh --out ./fresh",
            "is the file of hashes",
        ),
        ("token list --tokens none", "open the token file none"),
    ] {
        says(&operator.refused(line), &[phrase]);
    }
    // Nobody has the token that could not be shown.
    let full = operator
        .start_shell("exec \"$oboro\" token new lab > /dev/full")
        .ended();
    assert_eq!(full.code, Some(10));
    assert!(!operator.done("token list").contains("lab"));
    // A signal to read the file again ends nobody's server.
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
fn certificates_are_replaced_while_a_server_runs() {
    let (owner, operator) = (Home::with_key(), Home::new());
    for name in ["tls", "next"] {
        certificates(&operator, name);
        let ca = format!("{name}-ca.pem");
        owner.write(&ca, operator.read(&ca));
    }
    owner.write("token", operator.token("ward"));
    let server = operator.serve("--tls-cert tls.crt --tls-key tls.key --tokens tokens");
    upload(&owner, &server, "--ca tls-ca.pem --token-file token");
    let proxy = Proxy::to(server.address());
    proxy.stall_after(Direction::Down, IN_THE_ANSWER);
    let through_proxy = proxy.url().replace("http:", "https:");
    let trusting = |name: &str| format!("--ca {name}-ca.pem --token-file token");
    let stalled = owner.start(&format!(
        "{MINE} {} --server {through_proxy}",
        trusting("tls")
    ));
    proxy.wait_until_stalled(1);

    operator.write("tls.crt", "nothing");
    server.signal("HUP");
    until("the log says so", || {
        server.log().contains("cannot be used").then_some(())
    });
    owner.json(&format!("datasets {}", trusting("tls")));
    for end in ["crt", "key"] {
        operator.write(&format!("tls.{end}"), operator.read(&format!("next.{end}")));
    }
    server.signal("HUP");
    until("the new certificate is shown", || {
        (owner.run(&format!("datasets {}", trusting("next"))).code == Some(0)).then_some(())
    });
    owner
        .run(&format!("datasets {}", trusting("tls")))
        .refusal();
    // Who was connected stays so.
    proxy.release();
    assert_eq!(stalled.ended().code, Some(0));
}

#[test]
fn keys_and_token_files_that_are_open_to_others_are_refused() {
    let operator = Home::new();
    certificates(&operator, "tls");
    operator.token("ward");
    let serve = "serve --data data --listen 127.0.0.1:0 --tls-cert tls.crt --tls-key tls.key --tokens tokens";
    for (file, mode, remedy) in [
        ("tls.key", 0o644, "chmod o-rwx"),
        ("tokens", 0o622, "chmod go-w"),
    ] {
        let path = operator.path(file);
        let before = fs::metadata(&path).unwrap().permissions();
        fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
        says(&operator.refused(serve), &[file, remedy]);
        fs::set_permissions(&path, before).unwrap();
    }
}

#[test]
fn tls_from_end_to_end() {
    let (owner, operator) = (Home::with_key(), Home::new());
    certificates(&operator, "tls");
    let token = operator.token("ward");
    let server = operator.serve("--tls-cert tls.crt --tls-key tls.key --tokens tokens");
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
    for untrusted in ["--ca other-ca.pem", ""] {
        let message = owner.refused(&format!("datasets {untrusted} --token-file token"));
        says(
            &message,
            &["cannot reach the server", "certificate", "--ca"],
        );
    }
    owner.write("garbage.pem", "-----BEGIN CERTIFICATE-----\nx\n");
    for (file, phrase) in [
        ("garbage.pem", "with --ca cannot be used"),
        ("token", "there are none"),
        ("none.pem", "cannot read the certificates in none.pem"),
    ] {
        let message = owner.refused(&format!("datasets --ca {file} --token-file token"));
        says(&message, &["certificates", phrase]);
    }

    // TLS at one end only.
    let plain = server.url().replace("https", "http");
    for call in ["datasets", "upload rows.oboro"] {
        let message = owner.refused(&format!("{call} --server {plain} --token-file token"));
        says(
            &message,
            &["does not answer as an Oboro server", "https://"],
        );
    }
    let plain_server = Home::new();
    let plain_server = plain_server.serve("");
    let encrypted = plain_server.url().replace("http", "https");
    let message = owner.refused(&format!("datasets --server {encrypted} {trust}"));
    says(&message, &["cannot reach the server", "http://"]);
}

#[test]
fn certificates_that_cannot_be_used_are_refused() {
    let operator = Home::new();
    certificates(&operator, "tls");
    certificates(&operator, "other");
    operator.write("garbage", "no certificate\n");
    fs::set_permissions(operator.path("garbage"), Permissions::from_mode(0o600)).unwrap();
    let serve = "serve --data data --listen 127.0.0.1:0";
    for options in [
        "--tls-cert garbage --tls-key tls.key",
        "--tls-cert tls.crt --tls-key garbage",
        "--tls-cert tls.crt --tls-key other.key",
    ] {
        let message = operator.refused(&format!("{serve} {options}"));
        says(
            &message,
            &[
                "TLS certificate",
                "cannot be used",
                "--tls-cert",
                "--tls-key",
            ],
        );
    }
    for options in [
        "--tls-cert none --tls-key tls.key",
        "--tls-cert tls.crt --tls-key none",
    ] {
        let message = operator.refused(&format!("{serve} {options}"));
        says(
            &message,
            &["could not read the TLS", "none", "Check the path"],
        );
    }
    operator.misused(&format!("{serve} --tls-cert tls.crt"));
    operator.misused(&format!("{serve} --tls-key tls.key"));
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
        let message = owner.refused("datasets");
        says(
            &message,
            &["is not a server address", "http://127.0.0.1:7171"],
        );
    }
    // A peer that closes every connection.
    let nobody = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let proxy = Proxy::to(nobody.local_addr().unwrap());
    drop(nobody);
    owner.talk_to(&proxy.url());
    let message = owner.refused("datasets");
    says(
        &message,
        &["does not answer as an Oboro server", "check the address"],
    );
    // No listener.
    let url = proxy.url();
    drop(proxy);
    let message = owner.refused(&format!("datasets --server {url}"));
    says(
        &message,
        &["cannot reach the server", "check that `oboro serve` runs"],
    );
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
    let server = operator.serve("--tls-cert tls.crt --tls-key tls.key --tokens tokens");
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
    says(&owner.refused(ask), &["cannot reach the server"]);
    owner.unset("NO_PROXY");
    owner.json(&format!("{ask} --server https://127.0.0.1:{port}"));
    assert_eq!(heads.lock().unwrap().len(), 0);

    // What cannot be used is refused, not ignored, and not shown.
    for other in [
        "https://me:secret@",
        "socks5://me:secret@",
        "htp://me:secret@",
        "http://me:pa@secret@",
        "http://me:pa#secret@",
    ] {
        owner.set("HTTPS_PROXY", &format!("{other}{proxy}"));
        let refused = owner.refused(ask);
        says(&refused, &["what HTTPS_PROXY says", "NO_PROXY"]);
        assert!(!refused.contains("secret"), "{refused}");
    }
    assert_eq!(heads.lock().unwrap().len(), 0);
    owner.set("HTTPS_PROXY", "http://me:secret@127.0.0.1:1");
    let refused = owner.refused(ask);
    says(
        &refused,
        &["cannot reach", "by way of the proxy 127.0.0.1:1 of"],
    );
    assert!(!refused.contains("secret"), "{refused}");
}
