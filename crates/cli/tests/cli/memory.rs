//! A server with less memory than its datasets take: the same answers, within its limit. An owner with less than the
//! transactions take: the same dataset.

use crate::common::cgroup::MemoryGroup;
use crate::common::plaintext::random_baskets;
use crate::common::proxy::{Direction, Proxy};
use crate::common::{Home, Server, says, until};
use serde_json::Value;
use std::fmt::Write as _;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;

const MIB: u64 = 1 << 20;
/// Blocks of a segment times slots of a block.
const SEGMENT: u64 = 64 * 4096;

/// What the server needs in addition to ciphertext, in MiB: the program, buffers, messages, one thread, one query.
const BESIDES: u64 = 104;

fn options(ciphertext_mib: u64) -> String {
    let memory = BESIDES + ciphertext_mib;
    format!("--memory {memory}MiB --moment-cache 0 --threads 1 --max-queries 1 --log-format json")
}

/// An owner with a dataset of `segments` full segments of `items` items on a new server.
fn uploaded(segments: u64, items: u32, options: &str) -> (Home, Home, Server) {
    let operator = Home::new();
    let server = operator.serve(options);
    (owner_of(&server, segments, items), operator, server)
}

/// An owner with a dataset of `segments` full segments of `items` items on this server.
fn owner_of(server: &Server, segments: u64, items: u32) -> Home {
    let owner = Home::with_key();
    owner.talk_to(server.url());
    owner.write_fimi("rows.dat", &random_baskets(segments * SEGMENT, items, 100));
    owner.json("encrypt rows.dat --max-len 2");
    owner.json("upload rows.oboro");
    owner
}

/// Mines pairs, compares them with the plaintext, and returns the server's log line about each query.
fn mine(owner: &Home, server: &Server, min_support: &str) -> Vec<Value> {
    let before = ended(server).len();
    owner.json(&format!(
        "mine rows.oboro --min-support {min_support} --verify rows.dat --trust-server"
    ));
    // The log line of a call may come after its answer.
    let levels = until("all queries are logged", || {
        let ended = ended(server);
        (ended.len() > before).then_some(ended)
    });
    levels[before..].to_vec()
}

/// The log lines of completed queries.
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

/// A server that must read from disk for every query takes at most `given` mebibytes, and a tenth.
fn streams_within(given: u64, owner: &Home, server: &Server) {
    let levels = mine(owner, server, "1%");
    assert!(levels.iter().all(|level| number(level, "read_panels") > 0));
    let peak = server.peak_bytes();
    println!("{given} MiB given, {} taken at most", peak / MIB);
    assert!(peak <= given * MIB * 11 / 10, "{peak} bytes of {given} MiB");
}

#[test]
fn a_server_stays_within_its_memory() {
    // Twice sixteen segments of eight panels of a mebibyte are 256 MiB; two such segments are 32.
    let given = BESIDES + 36;
    let (owner, _operator, server) = uploaded(16, 7, &options(36));
    streams_within(given, &owner, &server);
}

#[test]
fn a_server_of_object_storage_stays_within_its_memory() {
    // More is for chunks in transfer to and from the objects, which have eight segments of 14 panels of a mebibyte: two
    // chunks or more each. Nothing stays on disk here.
    let ciphertext = 36;
    let given = BESIDES + 96 + ciphertext;
    let operator = Home::new();
    let url = format!("file://{}", operator.path("objects").display());
    let server = operator.serve_from(
        &url,
        &format!("--cache cache --cache-size 0B {}", options(96 + ciphertext)),
    );
    let owner = owner_of(&server, 8, 7);
    let object = operator.find("objects/segments", "00000007.seg");
    assert!(object.metadata().unwrap().len() > 12 * MIB);
    streams_within(given, &owner, &server);
}

#[test]
fn a_container_with_no_more_memory_is_enough() {
    let given = BESIDES + 24;
    let Some(group) = MemoryGroup::of(given * MIB) else {
        return;
    };
    let operator = Home::new();
    let server = operator.serve_in(&group, &options(24));
    assert!(group.holds(server.id()));
    // Six segments of ten panels of a mebibyte; two such segments are 20.
    let owner = owner_of(&server, 6, 4);
    for _ in 0..2 {
        let levels = mine(&owner, &server, "1%");
        assert!(levels.iter().all(|level| number(level, "read_panels") > 0));
    }
    assert_eq!((server.swapped_bytes(), group.kills()), (0, 0));
    drop(server);
}

/// Flips the last bit of the last panel of a full segment of three columns. Sealed cells follow it on disk: one bit for
/// each of 64 × 4096 slots and a seal, padded to 36 KiB.
fn flip_last(path: &Path) {
    let file = File::options().read(true).write(true).open(path).unwrap();
    let last = file.metadata().unwrap().len() - 3 * (36 << 10) - 1;
    let mut byte = [0];
    file.read_exact_at(&mut byte, last).unwrap();
    file.write_all_at(&[byte[0] ^ 1], last).unwrap();
}

#[test]
fn damage_to_what_streams_ends_its_questions_and_no_others() {
    let (owner, operator, server) = uploaded(6, 3, &options(20));
    let mine_rows = "mine rows.oboro --min-support 1% --verify rows.dat --trust-server";
    owner.json(mine_rows);
    owner.write_fimi("others.dat", &random_baskets(500, 3, 100));
    owner.json("encrypt others.dat --max-len 2");
    owner.json("upload others.oboro");
    let listed = owner.json("datasets");
    let of_rows = |dataset: &&Value| dataset["name"] == "rows";
    let rows = listed.as_array().unwrap().iter().find(of_rows).unwrap();
    let dataset = rows["dataset"].as_str().unwrap();
    // Some of these panels are resident and intact.
    let segments: Vec<_> = (0..6)
        .map(|index| operator.path(&format!("data/segments/{dataset}/{index:08}.seg")))
        .collect();
    segments.iter().for_each(|path| flip_last(path));
    for _ in 0..2 {
        let message = owner.refused(mine_rows);
        says(
            &message,
            &[
                "panel (limb 1, column 2) of segment ",
                dataset,
                "does not match its digest",
                "Restore it from a copy",
            ],
        );
        assert!(!message.contains("segments/"), "{message}");
        owner.json("mine others.oboro --min-support 1% --verify others.dat --trust-server");
    }
    until("the log names the file", || {
        let log = server.log();
        let names = |line: &str| line.contains("ERROR") && line.contains("segments/");
        log.lines().any(names).then_some(())
    });
    segments.iter().for_each(|path| flip_last(path));
    owner.json(mine_rows);
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
    // Reads for rows of three quarters of the budget, and for what follows each.
    let panels = number(pairs, "read_panels");
    assert!((200..1000).contains(&panels), "{pairs}");
    assert!(server.peak_bytes() <= (BESIDES + 5) * MIB * 11 / 10);
}

#[test]
fn searches_of_genomes_stay_within_their_memory() {
    let operator = Home::new();
    operator.json("genome generate --data data --panel p --haplotypes 100000 --sites 256");
    // A search takes 12 MB: more than half of the budget for genomes, so both run alone and nothing is cached.
    let cache = 8;
    let given = BESIDES + 4 + 2 * cache + 16 + 1;
    let server = operator.serve(&format!(
        "--memory {given}MiB --genome-cache {cache}MiB --moment-cache 0 --threads 1 --max-queries 2"
    ));
    let client = Home::new();
    client.talk_to(server.url());
    let before = server.peak_bytes();
    let query = |length| {
        let row = "genome show --data data --panel p --haplotype 77";
        let shown = operator.json(&format!("{row} --length {length}"));
        let [position, symbols] = ["position", "symbols"].map(|field| shown[field].as_str());
        let place = format!(
            "--position {} --alleles {}",
            position.unwrap(),
            symbols.unwrap()
        );
        client.start(&format!("genome query --panel p {place} --json"))
    };
    for length in [244, 248, 252] {
        for search in [length, length + 4].map(query) {
            assert_eq!(search.json()["exists"], true);
        }
    }
    // In addition: replies in flight to two callers, and the buffers of a thread.
    let (taken, most) = (server.peak_bytes() - before, 2 * cache + 16 + 2 * 4 + 4);
    println!("{} KiB taken of {most} MiB", taken >> 10);
    assert!(taken <= most * MIB, "{taken} bytes of {most} MiB");
}

#[test]
fn too_little_memory_is_refused_with_what_would_do() {
    let operator = Home::new();
    let remedies = "--memory 100MiB … --moment-cache … --max-queries … give more";
    operator.refuses(format!(
        "serve --data store --memory 100MiB --listen 127.0.0.1:0 => {remedies}"
    ));
    // Two columns modulo two limbs are 4 MiB.
    let (owner, _operator, _server) = uploaded(1, 5, &options(4));
    let mine = owner.run("mine rows.oboro --min-support 1% --trust-server");
    let cause = "ciphertext in memory at a time";
    says(&mine.refusal(), &[cause, "--memory"]);
}

#[test]
fn two_clients_share_what_is_too_little_for_both() {
    let options = options(24).replace("--max-queries 1", "--max-queries 2");
    let (owner, _operator, server) = uploaded(3, 3, &options);
    let mining = [(); 2].map(|()| {
        owner.start("mine rows.oboro --min-support 1% --verify rows.dat --trust-server --json")
    });
    let [first, second] = mining.map(|mining| mining.json());
    assert_eq!(first["frequent"], second["frequent"]);
    drop(server);
}

#[test]
fn a_client_that_goes_away_gives_its_memory_to_the_next() {
    let (owner, operator) = (Home::with_key(), Home::new());
    // 51 panels of 20 KiB modulo three limbs are 3.1 MB: one query for triples fits, not two.
    let server = operator.serve(&options(12).replace("--max-queries 1", "--max-queries 3"));
    owner.talk_to(server.url());
    owner.write_fimi("rows.dat", &random_baskets(2_000, 50, 160));
    owner.json("encrypt rows.dat --max-len 3");
    owner.json("upload rows.oboro");
    let mine = "mine rows.oboro --min-support 10% --verify rows.dat --trust-server --json";
    let stalled = || {
        let proxy = Proxy::to(server.address());
        // More than buffers between server and client hold, less than the answer about triples.
        proxy.stall_after(Direction::Down, 8 << 20);
        let stalled = owner.start(&format!("{mine} --server {}", proxy.url()));
        proxy.wait_until_stalled(1);
        (proxy, stalled)
    };
    let (proxy, cut_off) = stalled();
    let next = owner.start(mine);
    proxy.cut();
    next.json();
    assert_eq!(cut_off.ended().code, Some(5));

    let (_proxy, mut killed) = stalled();
    let next = owner.start(mine);
    killed.kill();
    next.json();
}

/// Mines what was encrypted as `rows.oboro`, and compares with its plaintext.
fn is_right(owner: &Home, plaintext: &str) {
    let operator = Home::new();
    let server = operator.serve("");
    owner.talk_to(server.url());
    owner.json("upload rows.oboro");
    let mined = owner.json(&format!(
        "mine rows.oboro --min-support 20% --verify {plaintext}"
    ));
    assert_eq!(mined["matches_plaintext"], true);
}

#[test]
fn what_takes_more_memory_than_given_is_encrypted_in_parts() {
    // Two segments and a part of a third: the bits of 12 items and places in the order take 1408 KiB in each, which is a
    // quarter of the memory.
    let rows = random_baskets(2 * SEGMENT + 1000, 12, 100);
    let owner = Home::with_key();
    owner.write_fimi("rows.dat", &rows);
    let encrypted = owner.json("encrypt rows.dat --max-len 2 --memory 5632KiB");
    let rows = rows.len() as u64;
    assert_eq!(encrypted["transactions"], rows);
    assert_eq!(encrypted["blocks"], rows.div_ceil(4096));
    is_right(&owner, "rows.dat");
    let appended = owner.json("encrypt --append-to rows.oboro rows.dat --memory 5632KiB");
    assert_eq!(appended["transactions"], 2 * rows);

    let encrypt = "encrypt rows.dat --max-len 2 --out other.oboro --memory";
    let least = "the memory is too little … give --memory 6MiB or more";
    owner.refuses(format!("{encrypt} 5631KiB => {least}"));
    let limited = "ulimit -f 100; exec \"$oboro\" encrypt rows.dat --max-len 2 --memory 5632KiB --out other.oboro";
    let ended = owner.start_shell(limited).ended();
    assert_eq!(ended.code, Some(10), "{ended:?}");
    says(
        &ended.stderr,
        &["more memory than was given", "File too large"],
    );
    owner.set("TMPDIR", "nowhere");
    let cause = "rows.dat, line … more memory than was given … the file for them in nowhere";
    owner.refuses(format!(
        "{encrypt} 5632KiB => {cause} … TMPDIR … No such file"
    ));
    assert!(!owner.path("other.oboro").exists());
}

#[test]
fn a_table_of_one_item_a_row_is_sorted_outside_memory() {
    let mut text = "visit_id,code\n".to_owned();
    // Rows of a visit are not side by side.
    for code in 0..9u32 {
        for visit in (0..60_000u32).filter(|it| it % (code + 1) == 0) {
            writeln!(text, "{visit},c{code}").unwrap();
        }
    }
    let owner = Home::with_key();
    owner.write("rows.csv", text);
    let read = "--transaction-column visit_id --item-column code";
    owner.json(&format!(
        "encrypt rows.csv {read} --max-len 2 --memory 2MiB"
    ));
    is_right(&owner, "rows.csv");
}

#[test]
fn an_owner_with_less_memory_than_data_encrypts_them() {
    let limit = 96;
    let Some(group) = MemoryGroup::of(limit * MIB) else {
        return;
    };
    // Items take 4 bytes each: 96 MiB; bits of one segment 768 KiB.
    let rows = random_baskets(8 * SEGMENT, 24, 128);
    let owner = Home::with_key();
    owner.write_fimi("rows.dat", &rows);
    drop(rows);
    let encrypt = |options: &str| {
        let script = format!(
            "{}; exec \"$oboro\" encrypt rows.dat --max-len 2 --threads 1 {options}",
            group.entering()
        );
        owner.start_shell(&script).ended()
    };
    // Swap would hide that it does not fit.
    if !has_swap() {
        // Ended by a signal.
        assert_eq!(encrypt("--out killed.oboro").code, None);
        assert_eq!(group.kills(), 1);
    }
    let before = group.kills();
    let ended = encrypt("--memory 16MiB");
    assert_eq!(group.kills(), before);
    says(&ended.stdout, &["encrypted 2097152 transactions"]);
    is_right(&owner, "rows.dat");
}

fn has_swap() -> bool {
    let swaps = std::fs::read_to_string("/proc/swaps").unwrap();
    swaps.lines().count() > 1
}
