//! A server with less memory than its datasets take: the same answers, within what it was given.

mod common;

use common::plaintext::random_baskets;
use common::proxy::{Direction, Proxy};
use common::{Home, Server, says, until};
use serde_json::Value;

const MIB: u64 = 1 << 20;
/// Blocks of a segment times slots of a block.
const SEGMENT: u64 = 64 * 4096;

/// What the server is told and does not need for ciphertext: the program, buffers, one thread, one query.
const BESIDES: u64 = 88;

fn options(ciphertext_mib: u64) -> String {
    let memory = BESIDES + ciphertext_mib;
    format!("--memory {memory}MiB --moment-cache 0 --threads 1 --max-queries 1 --log-format json")
}

/// An owner with a dataset of some full segments of so many items on a server of its own.
fn uploaded(segments: u64, items: u32, options: &str) -> (Home, Home, Server) {
    let (owner, operator) = (Home::with_key(), Home::new());
    let server = operator.serve(options);
    owner.talk_to(server.url());
    owner.write_fimi("rows.dat", &random_baskets(segments * SEGMENT, items, 100));
    owner.json("encrypt rows.dat --max-len 2");
    owner.json("upload rows.oboro");
    (owner, operator, server)
}

/// Mines pairs, compares them with the plaintext, and gives what the server's log says of each query.
fn mine(owner: &Home, server: &Server, min_support: &str) -> Vec<Value> {
    let before = ended(server).len();
    owner.json(&format!(
        "mine rows.oboro --min-support {min_support} --verify rows.dat --answers moments"
    ));
    // The line about a call may come after its answer.
    let levels = until("all queries are logged", || {
        let ended = ended(server);
        (ended.len() >= before + 2).then_some(ended)
    });
    levels[before..].to_vec()
}

/// The lines about queries that have ended.
fn ended(server: &Server) -> Vec<Value> {
    let log = server.log();
    let lines = log
        .lines()
        .filter_map(|line| serde_json::from_str(line).ok());
    let is_of_a_query =
        |line: &Value| line["fields"]["message"] == "ended" && line["span"]["call"] == "Count";
    lines.filter(is_of_a_query).collect()
}

fn number(line: &Value, field: &str) -> u64 {
    let value = &line["span"][field];
    value
        .as_u64()
        .unwrap_or_else(|| panic!("{field} of {line}"))
}

#[test]
fn a_server_stays_within_its_memory() {
    // Twice sixteen segments of eight panels of a mebibyte are 256 MiB, two segments of them 32.
    let given = BESIDES + 36;
    let (owner, _operator, server) = uploaded(16, 7, &options(36));
    let levels = mine(&owner, &server, "1%");
    assert!(levels.iter().all(|level| number(level, "read_panels") > 0));
    let peak = server.peak_bytes();
    println!("{given} MiB given, {} taken at most", peak / MIB);
    assert!(peak <= given * MIB * 11 / 10, "{peak} bytes of {given} MiB");
}

#[test]
fn what_fits_is_read_once() {
    let (owner, _operator, server) = uploaded(1, 5, &options(16));
    let first = mine(&owner, &server, "1%");
    let again = mine(&owner, &server, "1%");
    println!("{first:?} {again:?}");
    assert!(first.iter().any(|level| number(level, "read_panels") > 0));
    for level in again {
        assert_eq!(
            (number(&level, "read_panels"), number(&level, "read_bytes")),
            (0, 0)
        );
        assert!(number(&level, "found_panels") > 0);
    }
}

#[test]
fn a_question_wider_than_the_memory_is_answered_in_runs() {
    let (owner, operator) = (Home::with_key(), Home::new());
    // 121 panels of 84 KiB modulo two limbs are 20 MiB.
    let server = operator.serve(&options(5));
    owner.talk_to(server.url());
    owner.write_fimi("rows.dat", &random_baskets(20_000, 120, 160));
    owner.json("encrypt rows.dat --max-len 2");
    owner.json("upload rows.oboro");
    let levels = mine(&owner, &server, "0.1%");
    let pairs = levels.last().expect("pairs were asked for");
    // Rows of three quarters of the room, and what comes after each.
    let panels = number(pairs, "read_panels");
    assert!((200..1000).contains(&panels), "{pairs}");
    assert!(server.peak_bytes() <= (BESIDES + 5) * MIB * 11 / 10);
}

#[test]
fn too_little_memory_is_refused_with_what_would_do() {
    let operator = Home::new();
    let message = operator.refused("serve --data store --memory 100MiB --listen 127.0.0.1:0");
    says(
        &message,
        &[
            "--memory 100MiB",
            "--moment-cache",
            "--max-queries",
            "give more",
        ],
    );
    let message = operator.misused("serve --data store --memory 4GiB --placement item");
    says(&message, &["--memory", "--placement"]);
    // Two columns modulo two limbs are 4 MiB.
    let (owner, _operator, _server) = uploaded(1, 5, &options(4));
    let message = owner
        .run("mine rows.oboro --min-support 1% --answers moments")
        .refusal();
    says(&message, &["ciphertext in memory at a time", "--memory"]);
}

#[test]
fn two_clients_share_what_is_too_little_for_both() {
    let options = options(24).replace("--max-queries 1", "--max-queries 2");
    let (owner, _operator, server) = uploaded(3, 3, &options);
    let mining = [(); 2].map(|()| {
        owner.start("mine rows.oboro --min-support 1% --verify rows.dat --answers moments --json")
    });
    let [first, second] = mining.map(|mining| mining.json());
    assert_eq!(first["frequent"], second["frequent"]);
    drop(server);
}

#[test]
fn a_client_that_goes_away_gives_its_memory_to_the_next() {
    let (owner, operator) = (Home::with_key(), Home::new());
    // 51 panels of 20 KiB modulo three limbs are 3.1 MB: triples have room once, not twice.
    let server = operator.serve(&options(12).replace("--max-queries 1", "--max-queries 3"));
    owner.talk_to(server.url());
    owner.write_fimi("rows.dat", &random_baskets(2_000, 50, 160));
    owner.json("encrypt rows.dat --max-len 3");
    owner.json("upload rows.oboro");
    let proxy = Proxy::to(server.address());
    // More than buffers between server and client hold, less than the answer about triples.
    proxy.stall_after(Direction::Down, 8 << 20);
    let mine = "mine rows.oboro --min-support 10% --verify rows.dat --answers moments --json";
    let stalled = owner.start(&format!("{mine} --server {}", proxy.url()));
    proxy.wait_until_stalled(1);
    let next = owner.start(mine);
    proxy.cut();
    next.json();
    assert_eq!(stalled.ended().code, Some(1));
}
