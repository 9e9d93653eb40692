//! Private genome search with the real command and a real server: every answer agrees with the plaintext, and no party
//! learns more than it may.

use crate::common::calls::{endpoint, request};
use crate::common::proxy::Proxy;
use crate::common::{Home, Server, flip, says, until};
use oboro_client::genome::{OwnQuery, Pattern};
use oboro_format::Digest;
use oboro_genome::wire::{Answer, EncryptedQuery};
use oboro_genome::{Plan, SearchSpec};
use oboro_protocol::v1::genome_client::GenomeClient;
use oboro_protocol::v1::search_reply::Reply;
use oboro_protocol::v1::search_request::Request as Asked;
use oboro_protocol::{nonce, v1};
use oboro_relay::Relay;
use oboro_ring::QuerySeed;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use tokio::runtime::Runtime;
use tokio::sync::mpsc;
use tokio_stream::wrappers::{ReceiverStream, TcpListenerStream};
use tonic::transport::Channel;
use tonic::{Code, Status, Streaming};

/// Pseudo-random numbers, the same every time.
struct Dice(u64);

impl Dice {
    fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % bound as u64) as usize
    }
}

/// Rows of letters, and a plaintext search of them.
struct Rows(Vec<Vec<u8>>);

impl Rows {
    fn cut(&self, row: usize, from: usize, length: usize) -> String {
        String::from_utf8(self.0[row][from..from + length].to_vec()).unwrap()
    }

    fn windows(&self, from: usize, length: usize) -> Vec<&[u8]> {
        self.0.iter().map(|row| &row[from..from + length]).collect()
    }

    /// The number of matching rows.
    fn count(&self, pattern: &str, from: usize, within: usize) -> u64 {
        let windows = self.windows(from, pattern.len());
        let matching = windows
            .iter()
            .filter(|row| differences(pattern, row).count() <= within);
        matching.count() as u64
    }

    fn longest(&self, pattern: &str, from: usize) -> u64 {
        let windows = self.windows(from, pattern.len());
        let first = |row: &&[u8]| differences(pattern, row).next().unwrap_or(pattern.len());
        windows.iter().map(first).max().unwrap() as u64
    }
}

/// The positions at which a row differs from a pattern.
fn differences(pattern: &str, row: &[u8]) -> impl Iterator<Item = usize> {
    let pairs = pattern.bytes().zip(row).enumerate();
    pairs.filter_map(|(at, (x, &y))| (x != b'?' && x != y).then_some(at))
}

/// Other letters at some positions, wildcards at others.
fn mutate(
    pattern: &str,
    letters: &[u8],
    mutations: usize,
    wildcards: usize,
    dice: &mut Dice,
) -> String {
    let mut bytes = pattern.as_bytes().to_vec();
    for _ in 0..mutations {
        let at = dice.below(bytes.len());
        bytes[at] = letters[dice.below(letters.len())];
    }
    for _ in 0..wildcards {
        let at = dice.below(bytes.len());
        bytes[at] = b'?';
    }
    String::from_utf8(bytes).unwrap()
}

const HAPLOTYPES: usize = 60;
const SITES: usize = 24;

/// Haplotypes that copy one of a few founders, with mutations; and sites at 100, 200 … of chromosome 7.
fn small_panel() -> Rows {
    let mut dice = Dice(7);
    let founders: Vec<Vec<u8>> = (0..12)
        .map(|_| (0..SITES).map(|_| b"01"[dice.below(2)]).collect())
        .collect();
    let rows = (0..HAPLOTYPES).map(|_| {
        let founder = String::from_utf8(founders[dice.below(12)].clone()).unwrap();
        mutate(&founder, b"01", dice.below(2), 0, &mut dice).into_bytes()
    });
    Rows(rows.collect())
}

fn write_vcf(home: &Home, name: &str, rows: &Rows) {
    let samples: Vec<String> = (0..rows.0.len() / 2).map(|n| format!("s{n}")).collect();
    let mut text = String::from("##fileformat=VCFv4.2\n##contig=<ID=7>\n");
    text += "##FORMAT=<ID=GT,Number=1,Type=String,Description=\"Genotype\">\n";
    text += "#CHROM\tPOS\tID\tREF\tALT\tQUAL\tFILTER\tINFO\tFORMAT\t";
    text += &(samples.join("\t") + "\n");
    for site in 0..rows.0[0].len() {
        let calls: Vec<String> = rows
            .0
            .chunks(2)
            .map(|pair| {
                format!(
                    "{}|{}",
                    char::from(pair[0][site]),
                    char::from(pair[1][site])
                )
            })
            .collect();
        let position = 100 * (site + 1);
        text += &format!(
            "7\t{position}\t.\tA\tC\t.\tPASS\t.\tGT\t{}\n",
            calls.join("\t")
        );
    }
    home.write(name, text);
}

/// An operator with the small panel, and a client.
struct Scene {
    operator: Home,
    client: Home,
    rows: Rows,
}

impl Scene {
    fn new() -> Self {
        let (operator, client, rows) = (Home::new(), Home::new(), small_panel());
        write_vcf(&operator, "panel.vcf", &rows);
        operator.json("genome load --data data --panel small panel.vcf");
        Self {
            operator,
            client,
            rows,
        }
    }

    fn serve(&self, options: &str) -> Server {
        let server = self.operator.serve(options);
        self.client.talk_to(server.url());
        server
    }

    fn query(&self, site: usize, pattern: &str, options: &str) -> Value {
        let position = 100 * (site + 1);
        self.client.json(&format!(
            "genome query --panel small --position 7:{position} --alleles {pattern} {options}"
        ))
    }
}

/// A file that this machine may have; tests that need it are skipped otherwise.
fn shared(name: &str) -> Option<PathBuf> {
    let file = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../../shared/data")
        .join(name);
    let file = file.canonicalize().ok();
    if file.is_none() {
        println!("skipped: {name} is not here");
    }
    file
}

fn unpacked(file: &Path) -> String {
    let output = Command::new("gzip").arg("-dc").arg(file).output().unwrap();
    assert!(output.status.success());
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn answers_about_a_panel_are_those_of_the_plaintext() {
    let scene = Scene::new();
    let _server = scene.serve("--genome-counts");
    let mut dice = Dice(3);
    let mut cases: Vec<(usize, String)> = vec![
        (0, "?".repeat(SITES)),
        (SITES - 1, "0".to_owned()),
        (SITES - 1, "1".to_owned()),
        (0, "?".to_owned()),
        (5, "01010101".to_owned()),
    ];
    for _ in 0..5 {
        let from = dice.below(SITES - 4);
        let length = 4 + dice.below(SITES - from - 3);
        let own = scene.rows.cut(dice.below(HAPLOTYPES), from, length);
        cases.push((
            from,
            mutate(&own, b"01", dice.below(3), dice.below(3), &mut dice),
        ));
    }
    for (from, pattern) in cases {
        for within in 0..=2.min(pattern.len() - 1) {
            let found = scene.query(from, &pattern, &format!("--count --within {within}"));
            let count = scene.rows.count(&pattern, from, within);
            assert_eq!(found["count"], count, "{pattern} at {from} within {within}");
            assert_eq!(found["exists"], count > 0);
        }
        let longest = scene.query(from, &pattern, "--longest");
        assert_eq!(
            longest["longest"],
            scene.rows.longest(&pattern, from),
            "{pattern} at {from}"
        );
    }
}

#[test]
fn a_place_among_decoys_has_its_own_answer() {
    let scene = Scene::new();
    let server = scene.serve("--genome-counts");
    let own = scene.rows.cut(3, 4, 6);
    for _ in 0..4 {
        let found = scene.query(4, &own, "--decoys 5 --count");
        assert_eq!(found["count"], scene.rows.count(&own, 4, 0));
        assert_eq!(found["windows"], 6);
    }
    let options = "--panel small --position 7:500 --alleles 0101010101010101";
    let message = scene
        .client
        .refused(&format!("genome query {options} --decoys 20"));
    says(&message, &["only 8 places", "20 decoys", "ask for fewer"]);
    let message = scene.client.refused(&format!(
        "genome query {} --decoys 1",
        options.replace("500", "501")
    ));
    says(&message, &["no site 7:501", "choose another"]);
    // Only the debug log has positions, one of which is the real one.
    assert!(!server.log().contains("position"));
}

#[test]
fn sites_that_are_not_the_pinned_ones_are_refused_before_anything_of_the_query_is_sent() {
    let scene = Scene::new();
    scene.operator.set("OBORO_LOG", "debug");
    let load = "genome load --data data --panel small --replace";
    let loaded = scene.operator.json(&format!("{load} panel.vcf"));
    let digest = loaded["sites_digest"].as_str().unwrap();
    assert!(
        scene
            .operator
            .done(&format!("{load} panel.vcf"))
            .contains(digest)
    );
    let server = scene.serve("");
    let query = "genome query --panel small --position 7:500 --alleles 0101";
    let pinned = format!("--sites-digest {digest}");
    let says_digest = |options: &str| {
        let found = scene.client.json(&format!("{query} {options}"));
        found["question"]["sites_digest"] == digest
    };
    // Printed whenever the list was fetched, in text until it is pinned.
    assert!(says_digest("--decoys 3") && says_digest(&pinned));
    assert!(says_digest(&format!("--decoys 3 {pinned}")) && !says_digest(""));
    let text = scene.client.done(&format!("{query} --decoys 3"));
    says(&text, &[&pinned]);
    let text = scene.client.done(&format!("{query} --decoys 3 {pinned}"));
    assert!(!text.contains(digest), "{text}");

    // A list with a site that nobody would query.
    let mut lines = String::from_utf8(scene.operator.read("panel.vcf")).unwrap();
    let last = lines.lines().last().unwrap().replacen("2400", "2401", 1);
    lines += &(last + "\n");
    scene.operator.write("junk.vcf", lines);
    let junk = scene.operator.json(&format!("{load} junk.vcf"));
    let junk = junk["sites_digest"].as_str().unwrap();
    assert_ne!(junk, digest);
    let searches = || server.log().matches("searches").count();
    let before = searches();
    for options in ["", "--decoys 3"] {
        let message = scene.client.refused(&format!("{query} {options} {pinned}"));
        says(
            &message,
            &[digest, junk, "nothing of the query was sent", "pin the new"],
        );
    }
    assert_eq!(searches(), before);
    scene.client.json(&format!("{query} --sites-digest {junk}"));
    assert_eq!(searches(), before + 1);
    // A panel replaced after it was listed is refused by the server.
    let caller = Caller::to(&server);
    let listed = |digest: &str| caller.open_listed(Some(digest.parse::<Digest>().unwrap()));
    assert!(listed(junk).is_ok());
    let status = listed(digest).unwrap_err();
    assert_eq!(status.code(), Code::FailedPrecondition);
    says(status.message(), &["other sites", junk, "ask again"]);
    let misuse = scene.client.misused(&format!("{query} --sites-digest 12"));
    says(&misuse, &["64 hexadecimal digits"]);
}

#[test]
fn a_result_says_what_was_asked() {
    let scene = Scene::new();
    scene.operator.write("reference.fa", ">x\nACGTNAC\n");
    scene
        .operator
        .json("genome load --data data --reference pieces reference.fa");
    let _server = scene.serve("--genome-counts");
    let question = |mut result: Value| result["question"].take();
    assert_eq!(
        question(scene.query(4, "01?1", "--within 1 --count")),
        json!({
            "kind": "match", "within": 1, "count": true, "length": 4, "panel": "small",
            "position": "7:500", "symbols": "alleles", "decoys": 0, "sites_digest": null,
        })
    );
    let longest = question(scene.query(4, "01?1", "--longest --decoys 2"));
    assert_eq!(longest["kind"], "longest");
    assert_eq!(
        (&longest["within"], &longest["decoys"]),
        (&Value::Null, &json!(2))
    );
    let found = scene
        .client
        .json("genome find --reference pieces --pattern ACGT");
    assert_eq!(
        question(found),
        json!({
            "kind": "match", "within": 0, "count": false, "length": 4, "reference": "pieces",
        })
    );
}

#[test]
fn what_a_file_has_and_its_panel_has_not_is_told() {
    let scene = Scene::new();
    let text = String::from_utf8(scene.operator.read("panel.vcf")).unwrap();
    // The fifth site twice, and the first after all others.
    let mut lines: Vec<&str> = text.lines().collect();
    let sites = lines.len() - SITES;
    lines.insert(sites + 5, lines[sites + 4]);
    let first = lines.remove(sites);
    lines.push(first);
    scene.operator.write("again.vcf", lines.join("\n") + "\n");
    let load = "genome load --data data --replace --panel small";
    let everything = scene.operator.json(&format!("{load} panel.vcf"));
    assert_eq!(
        everything["left_out"],
        json!({ "outside_region": 0, "duplicates": 0 })
    );
    let part = format!("{load} again.vcf --region 7:100-600 --skip-duplicates");
    let message = scene.operator.refused(&part);
    says(
        &message,
        &["7:100 follows one at position 600", "bcftools sort"],
    );
    let part = part.replace("7:100-", "7:200-");
    let loaded = scene.operator.json(&part);
    assert_eq!(loaded["sites"], 5);
    assert_eq!(
        loaded["left_out"],
        json!({ "outside_region": SITES - 5, "duplicates": 1 })
    );
    says(
        &scene.operator.done(&part),
        &["lines left out: 19 outside the region, 1 repeating a position"],
    );
}

#[test]
fn every_haplotype_of_a_public_panel_is_found_with_its_own_alleles() {
    let Some(file) = shared("omni-chr20.vcf.gz") else {
        return;
    };
    let text = unpacked(&file);
    let mut positions = Vec::new();
    let mut columns: Vec<Vec<u8>> = Vec::new();
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        let fields: Vec<&str> = line.split('\t').collect();
        positions.push(fields[1].to_owned());
        let alleles = fields[9..]
            .iter()
            .flat_map(|call| [call.as_bytes()[0], call.as_bytes()[2]]);
        columns.push(alleles.collect());
    }
    let haplotypes = columns[0].len();
    let rows = (0..haplotypes).map(|row| columns.iter().map(|column| column[row]).collect());
    let rows = Rows(rows.collect());
    assert_eq!((haplotypes, positions.len()), (2752, 38));
    let (operator, client) = (Home::new(), Home::new());
    operator.json(&format!(
        "genome load --data data --panel omni {}",
        file.display()
    ));
    let server = operator.serve("--genome-counts");
    client.talk_to(server.url());
    let mut dice = Dice(11);
    for (from, length) in [(0, 38), (7, 20), (37, 1), (0, 10), (28, 10)] {
        for _ in 0..4 {
            let own = rows.cut(dice.below(haplotypes), from, length);
            let other = mutate(&own, b"01", 2, 1, &mut dice);
            for pattern in [own, other] {
                let found = client.json(&format!(
                    "genome query --panel omni --position 20:{} --alleles {pattern} --count",
                    positions[from]
                ));
                assert_eq!(
                    found["count"],
                    rows.count(&pattern, from, 0),
                    "{pattern} at {from}"
                );
            }
        }
    }
}

fn other_strand(bases: &[u8]) -> Vec<u8> {
    let complement = |base: &u8| match base {
        b'A' => b'T',
        b'C' => b'G',
        b'G' => b'C',
        b'T' => b'A',
        other => *other,
    };
    bases.iter().rev().map(complement).collect()
}

#[test]
fn answers_about_a_public_reference_are_those_of_the_plaintext() {
    let Some(file) = shared("lambda_virus.fa.gz") else {
        return;
    };
    let text = unpacked(&file);
    let lines = text.lines().filter(|line| !line.starts_with('>'));
    let strand: Vec<u8> = lines.collect::<String>().into_bytes();
    let strands = [strand.clone(), other_strand(&strand)];
    let count = |pattern: &str, within: usize| {
        let rows = strands
            .iter()
            .flat_map(|strand| strand.windows(pattern.len()));
        rows.filter(|row| differences(pattern, row).count() <= within)
            .count() as u64
    };
    let (operator, client) = (Home::new(), Home::new());
    operator.json(&format!(
        "genome load --data data --reference lambda {}",
        file.display()
    ));
    let server = operator.serve("--genome-counts");
    client.talk_to(server.url());
    let mut dice = Dice(5);
    let cut = |strand: usize, at: usize, length: usize| {
        String::from_utf8(strands[strand][at..at + length].to_vec()).unwrap()
    };
    let random = cut(1, dice.below(40_000), 32);
    let cases = [
        (cut(0, 0, 32), 0),
        (cut(0, strand.len() - 32, 32), 0),
        (cut(1, 0, 20), 0),
        (mutate(&random, b"ACGT", 2, 3, &mut dice), 2),
        (mutate(&random, b"ACGT", 5, 0, &mut dice), 0),
        ("G".to_owned(), 0),
        ("?".repeat(12), 0),
    ];
    for (pattern, within) in cases {
        let found = client.json(&format!(
            "genome find --reference lambda --pattern {pattern} --within {within} --count"
        ));
        assert_eq!(
            found["count"],
            count(&pattern, within),
            "{pattern} within {within}"
        );
    }
}

#[test]
fn alignments_and_references_with_unknown_bases_are_searched() {
    let scene = Scene::new();
    let rows = Rows(
        ["ACGTNACG", "ACG-TACG", "TTGTAACG"]
            .map(|row| row.replace('-', "N").into_bytes())
            .to_vec(),
    );
    scene
        .operator
        .write("alignment.fa", ">a\nACGTNACG\n>b\nACG-TACG\n>c\nTTGTAACG\n");
    scene
        .operator
        .json("genome load --data data --panel aligned alignment.fa");
    scene
        .operator
        .write("reference.fa", ">x\nACGTNAC\n>y\nGG\n");
    scene
        .operator
        .json("genome load --data data --reference pieces reference.fa");
    let _server = scene.serve("--genome-counts");
    for (from, pattern) in [
        (0, "ACG"),
        (3, "TA"),
        (3, "??ACG"),
        (3, "?A"),
        (4, "A"),
        (0, "ACG??ACG"),
    ] {
        let found = scene.client.json(&format!(
            "genome query --panel aligned --position {} --sequence {pattern} --count",
            from + 1
        ));
        assert_eq!(
            found["count"],
            rows.count(pattern, from, 0),
            "{pattern} at {from}"
        );
    }
    // No row spans two sequences; the other strand of x is GTNACGT.
    for (pattern, count) in [
        ("ACGT", 2),
        ("ACG", 2),
        ("AC", 3),
        ("GG", 1),
        ("CC", 1),
        ("CGG", 0),
        ("T?A", 2),
        ("tna", 2),
        // An ambiguous letter has its bases, and not an unknown one.
        ("ACGU", 2),
        ("RC", 3),
        ("KT", 3),
        ("YG", 2),
        ("TRA", 0),
        ("NN", 14),
    ] {
        let found = scene.client.json(&format!(
            "genome find --reference pieces --pattern {pattern} --count"
        ));
        assert_eq!(found["count"], count, "{pattern}");
    }
}

#[test]
fn what_is_not_there_or_not_allowed_is_refused_with_the_reason() {
    let scene = Scene::new();
    scene
        .operator
        .write("long.fa", format!(">x\n{}\n", "ACGT".repeat(600)));
    scene
        .operator
        .json("genome load --data data --reference long long.fa");
    let _server = scene.serve("--genome-reference-limit 2000 --max-search 100KB");
    let refused: &[(&str, &[&str])] = &[
        (
            "query --panel none --position 100 --alleles 01",
            &["no panel named", "none"],
        ),
        (
            "find --reference small --pattern ACGT",
            &["no reference named", "small"],
        ),
        (
            "query --panel small --position 150 --alleles 01",
            &["no site at position 150", "100 and 200"],
        ),
        (
            "query --panel small --position 8:100 --alleles 01",
            &["no chromosome \"8\"", "7"],
        ),
        (
            "query --panel small --position 2300 --alleles 010",
            &["only 2 sites", "Begin earlier"],
        ),
        (
            "query --panel small --position 100 --sequence AC",
            &["has alleles", "--alleles"],
        ),
        (
            "query --panel small --position 100 --alleles 02",
            &["allele 2 at place 2", "0 to 1"],
        ),
        (
            "query --panel small --position 100 --alleles 0x",
            &["'x' at place 2"],
        ),
        (
            "query --panel small --position 100 --alleles 01 --within 2",
            &["every row matches"],
        ),
        (
            "query --panel small --position 100 --alleles 01 --count",
            &["--genome-counts"],
        ),
        (
            "query --panel small --position 100 --alleles 01010101 --decoys 15",
            &["bytes both ways", "--max-search"],
        ),
        (
            "find --reference long --pattern ACGTACGT",
            &["2400 bases", "bytes both ways", "--genome-reference-limit"],
        ),
        (
            "find --reference long --pattern ACGX",
            &["'X' at place 4", "U", "IUPAC"],
        ),
    ];
    for (command, phrases) in refused {
        says(&scene.client.refused(&format!("genome {command}")), phrases);
    }
    let long = "01".repeat(3000);
    let message = scene.client.refused(&format!(
        "genome query --panel small --position 100 --alleles {long}"
    ));
    says(&message, &["only 24 sites", "6000"]);
    // The operator's commands, while the server runs.
    assert_eq!(
        scene.client.json("genome list").as_array().unwrap().len(),
        2
    );
    says(
        &scene
            .operator
            .refused("genome load --data data --panel small panel.vcf"),
        &["already"],
    );
    scene
        .operator
        .json("genome remove --data data --panel small");
    says(
        &scene
            .client
            .refused("genome query --panel small --position 100 --alleles 01"),
        &["no panel"],
    );
}

#[test]
fn searches_keep_to_the_memory_that_they_have() {
    let scene = Scene::new();
    let query = "genome query --panel small --position 100 --alleles 01010101";
    let _server = scene.serve("--genome-cache 64KiB");
    says(
        &scene.client.refused(query),
        &[
            "bytes of memory",
            "has 131072 for genomes",
            "--genome-cache",
        ],
    );
    let other = Scene::new();
    let _server = other.serve("--genome-cache 4MiB --max-queries 9");
    // More at once than fit into memory: they wait for each other.
    let searches: Vec<_> = (0..6)
        .map(|_| other.client.start(&format!("{query} --json")))
        .collect();
    let distinct = other.rows.count("01010101", 0, 0) > 0;
    for search in searches {
        assert_eq!(search.json()["exists"], distinct);
    }
    let message = scene
        .operator
        .run("serve --data data --listen 127.0.0.1:0 --memory 620MiB")
        .refusal();
    says(
        &message,
        &["leaves nothing", "528 to genomes", "--genome-cache"],
    );
}

#[test]
fn a_server_that_knows_nothing_of_genomes_is_told_from_a_broken_one() {
    let runtime = Runtime::new().unwrap();
    let _context = runtime.enter();
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    let client = Home::new();
    client.talk_to(&format!("http://{}", listener.local_addr().unwrap()));
    let listener = tokio::net::TcpListener::from_std(listener).unwrap();
    let (_, health) = tonic_health::server::health_reporter();
    runtime.spawn(
        tonic::transport::Server::builder()
            .add_service(health)
            .serve_with_incoming(TcpListenerStream::new(listener)),
    );
    for command in ["list", "find --reference r --pattern ACGT"] {
        let message = client.refused(&format!("genome {command}"));
        says(&message, &["does not know this call", "older"]);
    }
}

/// Lets everybody with a token search in the operator's collections.
fn grant_all(scene: &Scene) {
    scene
        .client
        .write("default", scene.operator.token("default"));
    let grant = "access grant * read,count * --token-file default";
    scene.client.json(grant);
}

#[test]
fn budgets_are_counted_through_a_power_cut_until_they_are_reset() {
    let scene = Scene::new();
    for name in ["alice", "bob"] {
        scene.client.write(name, scene.operator.token(name));
    }
    let options = "--tokens tokens --genome-budget 5";
    let server = scene.serve(options);
    grant_all(&scene);
    let query = |whose: &str, options: &str| {
        format!(
            "genome query --panel default/small --position 100 --alleles 0101 --token-file {whose} {options}"
        )
    };
    scene.client.json(&query("alice", "--decoys 2"));
    scene.client.json(&query("alice", ""));
    server.kill();
    let server = scene.serve(options);
    says(
        &scene.client.refused(&query("alice", "--decoys 1")),
        &["4 of 5", "oboro genome reset"],
    );
    scene.client.json(&query("alice", ""));
    says(&scene.client.refused(&query("alice", "")), &["5 of 5"]);
    scene.client.json(&query("bob", "--decoys 4"));
    scene
        .operator
        .json("genome reset --data data --client alice");
    scene.client.json(&query("alice", ""));
    says(&scene.client.refused(&query("bob", "")), &["5 of 5"]);
    // Unreadable counters allow no searches.
    scene.operator.write("data/genome/budgets", "OBOROBUD");
    says(
        &scene.client.refused(&query("alice", "")),
        &["damaged", "oboro genome reset"],
    );
    scene.operator.json("genome reset --data data");
    scene.client.json(&query("bob", ""));
    drop(server);
}

#[test]
fn budgets_from_a_backup_are_spent_only_after_the_operator_has_accepted_them() {
    let scene = Scene::new();
    scene.client.write("alice", scene.operator.token("alice"));
    let options = "--tokens tokens --genome-budget 5";
    let server = scene.serve(options);
    let query =
        "genome query --panel default/small --position 100 --alleles 0101 --token-file alice";
    says(&scene.client.refused(query), &["no collection named"]);
    grant_all(&scene);
    scene.client.json(query);
    let copied = scene.operator.json("backup data copy");
    assert_eq!(copied["collections"], 1);
    assert_eq!(
        scene.operator.json("scrub copy")["collections"],
        Value::from(1)
    );
    // Counted after the backup.
    (0..4).for_each(|_| drop(scene.client.json(query)));
    says(&scene.client.refused(query), &["5 of 5"]);
    let unmarked = scene
        .operator
        .json("genome budget --data data --accept-restored");
    assert_eq!(unmarked, json!({ "restored": null, "accepted": false }));
    server.kill();

    // The directory is lost, and the backup takes its place.
    std::fs::remove_dir_all(scene.operator.path("data")).unwrap();
    scene.operator.json("backup copy data");
    let server = scene.serve(options);
    until("the server has logged it", || {
        let log = server.log();
        (log.contains("restored from a backup") && log.contains("oboro genome budget"))
            .then_some(())
    });
    let message = scene.client.refused(query);
    says(
        &message,
        &["restored from a backup of", "oboro genome budget"],
    );
    let state = scene.operator.json("genome budget --data data");
    assert_eq!(state["accepted"], false);
    says(state["restored"].as_str().unwrap(), &["UTC"]);
    let state = scene
        .operator
        .json("genome budget --data data --accept-restored");
    assert_eq!(state["accepted"], true);
    scene.client.json(&format!("{query} --decoys 3"));
    says(&scene.client.refused(query), &["5 of 5"]);
    // It is a matter of the past for good.
    server.kill();
    let _server = scene.serve(options);
    let state = scene.operator.json("genome budget --data data");
    assert_eq!(state, json!({ "restored": null, "accepted": false }));
    says(&scene.client.refused(query), &["5 of 5"]);
}

#[test]
fn a_damaged_collection_is_named_by_scrubs_and_not_backed_up() {
    let scene = Scene::new();
    let server = scene.serve("");
    let scrub = format!("scrub --server {}", server.url());
    let sound = scene.operator.json(&scrub);
    assert_eq!(sound["collections"], 1);
    assert_eq!(sound["damaged"], json!([]));
    flip(&scene.operator.path("data/genome/small.panel"), 4096);
    let refused = scene.operator.refused("backup data copy");
    says(&refused, &["panel \"small\"", "does not match its digest"]);
    assert!(!scene.operator.path("copy").exists());
    let damage = |line: &str| {
        let ended = scene.operator.run(&format!("{line} --json"));
        assert_eq!(ended.code, Some(8), "{ended:?}");
        let found: Value = serde_json::from_str(&ended.stdout).unwrap();
        assert_eq!(found["damaged_parts"], 1);
        let damage = found["damaged"][0].clone();
        assert_eq!(damage["name"], "small");
        says(
            damage["problem"].as_str().unwrap(),
            &["panel \"small\"", "does not match its digest"],
        );
        damage
    };
    assert_eq!(damage(&scrub)["path"], Value::Null);
    until("the server has logged where", || {
        server.log().contains("small.panel").then_some(())
    });
    server.kill();
    let path = damage("scrub data")["path"].clone();
    says(path.as_str().unwrap(), &["data/genome/small.panel"]);
}

#[test]
fn a_pattern_shows_nowhere_but_in_the_command() {
    let scene = Scene::new();
    scene.operator.set("OBORO_LOG", "trace");
    let server = scene.serve("--genome-counts --genome-budget 100");
    let proxy = Proxy::to(server.address());
    scene.client.talk_to(&proxy.url());
    let pattern = scene.rows.cut(9, 0, SITES);
    scene.query(0, &pattern, "--within 1");
    scene.query(0, &pattern, "--longest --decoys 0");
    scene.query(0, &pattern, "--count");
    let symbols: Vec<u8> = pattern.bytes().map(|letter| letter - b'0').collect();
    let contains = |hay: &[u8], needle: &[u8]| hay.windows(needle.len()).any(|it| it == needle);
    let mut seen = vec![("log".to_owned(), server.log().into_bytes())];
    seen.push(("traffic".to_owned(), proxy.recorded()));
    for (path, bytes) in scene.operator.contents("data") {
        seen.push((path.display().to_string(), bytes));
    }
    for (what, bytes) in &seen {
        for part in [&pattern.as_bytes()[..12], &symbols[..12]] {
            assert!(!contains(bytes, part), "{what} has the pattern");
        }
    }
    // Checks that the search above can find something: the name is in the clear.
    assert!(contains(&seen[1].1, b"small") && contains(&seen[0].1, b"small"));
}

#[test]
fn a_pattern_may_come_from_standard_input() {
    let scene = Scene::new();
    let _server = scene.serve("");
    let pattern = scene.rows.cut(9, 0, SITES);
    let asked = |given: &str| {
        let command = "$oboro genome query --panel small --position 7:100 --json --alleles -";
        let ended = scene
            .client
            .start_shell(&format!("printf '{given}' | {command}"));
        ended.ended()
    };
    let found: Value = serde_json::from_str(&asked(&format!("{pattern}\\n")).stdout).unwrap();
    assert_eq!(found["exists"], true, "{found}");
    says(&asked("").stderr, &["query is empty"]);
}

/// A client that speaks the protocol directly.
struct Caller {
    runtime: Runtime,
    client: GenomeClient<Channel>,
}

type Requests = mpsc::Sender<v1::SearchRequest>;

impl Caller {
    fn to(server: &Server) -> Self {
        let runtime = Runtime::new().unwrap();
        let _context = runtime.enter();
        let client = GenomeClient::new(endpoint(server).connect_lazy());
        drop(_context);
        Self { runtime, client }
    }

    /// Opens a search of 8 alleles in the small panel.
    fn open(&self) -> Result<(Requests, Streaming<v1::SearchReply>, v1::Opened), Status> {
        self.open_listed(None)
    }

    /// The same in a panel with this digest of its sites.
    fn open_listed(
        &self,
        sites: Option<Digest>,
    ) -> Result<(Requests, Streaming<v1::SearchReply>, v1::Opened), Status> {
        let (sender, receiver) = mpsc::channel(100);
        let panel = v1::PanelSearch {
            windows: vec![v1::GenomicPosition {
                chromosome: None,
                position: 100,
            }],
            bases: false,
            sites_digest: sites.map(|digest| digest.0.to_vec().into()),
        };
        let open = v1::OpenSearch {
            name: "small".to_owned(),
            r#where: Some(v1::open_search::Where::Panel(panel)),
            length: 8,
            kind: Some(v1::open_search::Kind::Within(0)),
            count: false,
        };
        sender.try_send(Asked::Open(open).into()).unwrap();
        let request = request(ReceiverStream::new(receiver));
        self.runtime.block_on(async {
            let mut replies = self
                .client
                .clone()
                .search_genome(request)
                .await?
                .into_inner();
            let reply = replies.message().await.unwrap().unwrap().reply;
            let Some(Reply::Opened(opened)) = reply else {
                panic!("{reply:?}");
            };
            Ok((sender, replies, opened))
        })
    }

    /// The outcome of a search whose query consists of these messages.
    fn send(&self, messages: impl Fn(&Plan, &v1::Opened) -> Vec<Asked>) -> Result<usize, Status> {
        let (sender, mut replies, opened) = self.open()?;
        for message in messages(&plan(&opened), &opened) {
            sender.try_send(message.into()).unwrap();
        }
        drop(sender);
        self.runtime.block_on(async {
            let mut count = 0;
            while replies.message().await?.is_some() {
                count += 1;
            }
            Ok(count)
        })
    }
}

fn plan(opened: &v1::Opened) -> Plan {
    let kind = oboro_genome::Kind::Match { within: 0 };
    let spec = SearchSpec::new(8, opened.symbols as u8, opened.rows, kind);
    Plan::new(spec.unwrap()).unwrap()
}

fn own_query(plan: &Plan, opened: &v1::Opened) -> OwnQuery {
    let pattern = Pattern::of_alleles("01010101").unwrap();
    let nonce = nonce(&opened.nonce).unwrap();
    OwnQuery::encrypt(Arc::new(plan.clone()), &pattern, &nonce, &[]).unwrap()
}

fn encrypted(plan: &Plan, opened: &v1::Opened) -> Vec<u8> {
    own_query(plan, opened).encrypted().encode(plan)
}

#[test]
fn malformed_queries_are_refused_and_the_server_stays() {
    let scene = Scene::new();
    let server = scene.serve("");
    let caller = Caller::to(&server);
    let query = |bytes: Vec<u8>| Asked::Query(bytes.into());
    assert!(
        caller
            .send(|plan, opened| vec![query(encrypted(plan, opened))])
            .is_ok()
    );
    // In chunks of any size.
    let parts = caller.send(|plan, opened| {
        let bytes = encrypted(plan, opened);
        bytes
            .chunks(bytes.len().div_ceil(90))
            .map(|part| query(part.to_vec()))
            .collect()
    });
    assert!(parts.is_ok());
    type Messages = fn(&Plan, &v1::Opened) -> Vec<Asked>;
    let malformed: [(Messages, &str); 7] = [
        (
            // The nonce instead of the seed of the first ciphertext.
            |plan, opened| {
                let mut query = own_query(plan, opened).encrypted().clone();
                query.ciphertexts[0].seed = QuerySeed(nonce(&opened.nonce).unwrap().0);
                vec![Asked::Query(query.encode(plan).into())]
            },
            "uses a seed twice",
        ),
        (|_, _| Vec::new(), "fewer"),
        (
            |plan, opened| vec![Asked::Query(encrypted(plan, opened)[1..].to_vec().into())],
            "fewer",
        ),
        (
            |plan, opened| {
                vec![Asked::Query(
                    [&encrypted(plan, opened)[..], &[0]].concat().into(),
                )]
            },
            "has more",
        ),
        (
            |plan, _| {
                vec![Asked::Query(
                    vec![0xff; EncryptedQuery::bytes(plan) as usize].into(),
                )]
            },
            "not below its modulus",
        ),
        (
            |_, _| vec![Asked::Query(vec![7; 1 << 21].into())],
            "has more",
        ),
        (
            |_, _| vec![Asked::Open(v1::OpenSearch::default())],
            "only the first message",
        ),
    ];
    for (messages, phrase) in malformed {
        let status = caller.send(messages).unwrap_err();
        assert_eq!(status.code(), Code::InvalidArgument, "{status:?}");
        says(status.message(), &[phrase]);
    }
    scene.query(0, "0101", "");
    assert!(!server.log().contains("panicked"));
}

#[test]
fn a_caller_that_goes_away_leaves_its_place() {
    let scene = Scene::new();
    let server = scene.serve("--max-queries 1 --queue-timeout 0");
    let caller = Caller::to(&server);
    for _ in 0..3 {
        let opened = until("the place is free", || caller.open().ok());
        let message = scene
            .client
            .refused("genome query --panel small --position 100 --alleles 01");
        says(&message, &["too many queries", "--max-queries"]);
        drop(opened);
    }
}

/// Queries could begin only at the first site of each part of a list, and parts without sites do not change its digest.
#[test]
fn a_server_cannot_choose_decoys_under_a_pinned_digest() {
    let scene = Scene::new();
    let server = scene.serve("");
    let asked = scene.query(0, "0101", "--decoys 1")["question"].take();
    let pin = asked["sites_digest"].as_str().unwrap();
    let relay = Relay::to(server.url());
    scene.client.talk_to(relay.url());
    let place = "--panel small --position 7:200 --alleles 01010101 --decoys 16";
    let query = format!("genome query {place} --sites-digest {pin}");
    assert_eq!(scene.client.run(&query).code, Some(0));
    relay.alter(|call, _, answer| {
        if call == "ListSites" {
            answer.alter_as(|all: &mut Vec<v1::SitesReply>| {
                let chromosome = Some("8".to_owned());
                all.push(v1::SitesReply {
                    chromosome,
                    gaps: Vec::new(),
                });
            });
        }
    });
    let ended = scene.client.run(&query);
    assert_eq!(ended.code, Some(9), "{ended:?}");
    says(&ended.refusal(), &["a list of sites that no panel has"]);
}

/// The answers to a query reveal nothing to another key.
#[test]
fn an_answer_says_nothing_to_whom_it_is_not_for() {
    let scene = Scene::new();
    let server = scene.serve("");
    let caller = Caller::to(&server);
    let (sender, mut replies, opened) = caller.open().unwrap();
    let plan = Arc::new(plan(&opened));
    let nonce = nonce(&opened.nonce).unwrap();
    let wildcards = Pattern::of_alleles("????????").unwrap();
    let encrypt = || OwnQuery::encrypt(Arc::clone(&plan), &wildcards, &nonce, &[]).unwrap();
    let (own, other) = (encrypt(), encrypt());
    let bytes = own.encrypted().encode(&plan);
    sender.try_send(Asked::Query(bytes.into()).into()).unwrap();
    drop(sender);
    let mut answers = Vec::new();
    while let Some(reply) = caller.runtime.block_on(replies.message()).unwrap() {
        if let Some(Reply::Answer(answer)) = reply.reply {
            answers.push(Answer::decode(&answer.answer, &plan).unwrap());
        }
    }
    let zeros = |query: &OwnQuery| -> usize {
        let values = answers.iter().flat_map(|answer| query.values(answer));
        let tests = values.take(plan.tests() as usize);
        tests.filter(|&value| value == 0).count()
    };
    let distinct: BTreeSet<_> = scene.rows.windows(0, 8).into_iter().collect();
    assert_eq!(zeros(&own), distinct.len());
    assert!(zeros(&other) < distinct.len());
}
