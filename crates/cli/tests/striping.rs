//! A server whose datasets are striped over several directories: the same answers, and no start without all
//! of them.

mod common;

use common::plaintext::random_baskets;
use common::{Home, Server, flip, says};
use std::fs;
use std::path::PathBuf;

const DATA: &str = "data,second,third";
const MINE: &str = "mine rows.oboro --min-support 10% --verify rows.dat --trust-server";

/// An owner with `rows` on a server of three directories, of an operator's.
fn published() -> (Home, Home, Server) {
    let (owner, operator) = (Home::with_key(), Home::new());
    let server = operator.serve_from(DATA, "");
    owner.talk_to(server.url());
    owner.write_fimi("rows.dat", &random_baskets(500, 8, 128));
    owner.json("encrypt rows.dat --max-len 3");
    owner.json("upload rows.oboro");
    (owner, operator, server)
}

/// The first segment in a directory.
fn segment(operator: &Home, directory: &str) -> PathBuf {
    operator.find(&format!("{directory}/segments"), "00000000.seg")
}

#[test]
fn what_is_striped_is_mined_appended_to_and_deleted() {
    let (owner, operator, server) = published();
    owner.json(MINE);
    server.kill();
    let small = "--memory 96MiB --moment-cache 0 --threads 1 --max-queries 1";
    // More than three directories' buffers leave.
    says(
        &operator.refused(&format!("serve --data {DATA} --listen 127.0.0.1:0 {small}")),
        &["--memory", "give more"],
    );
    let server = operator.serve_from(DATA, &small.replace("96MiB", "160MiB"));
    owner.talk_to(server.url());
    owner.json(MINE);
    owner.write_fimi("more.dat", &random_baskets(300, 8, 128));
    owner.json("encrypt more.dat --append-to rows.oboro");
    owner.json("upload rows.oboro");
    fs::write(
        owner.path("rows.dat"),
        [owner.read("rows.dat"), owner.read("more.dat")].concat(),
    )
    .unwrap();
    owner.json(MINE);
    server.kill();

    let server = operator.serve_from(
        "data,second,third,fourth",
        small.replace("96", "160").as_str(),
    );
    owner.talk_to(server.url());
    owner.json(MINE);
    owner.json("delete rows");
    for directory in ["data", "second", "third", "fourth"] {
        let segments = operator.contents(&format!("{directory}/segments"));
        assert!(segments.is_empty(), "{directory}: {segments:?}");
    }
}

#[test]
fn a_store_is_served_with_all_of_its_directories_or_not_at_all() {
    let (owner, operator, server) = published();
    server.kill();
    let refused = |data: &str, phrases: &[&str]| {
        let line = format!("serve --data {data} --listen 127.0.0.1:0");
        says(&operator.refused(&line), phrases);
    };
    refused("data", &["has 3 directories", "1 were given", "DIR,DIR"]);
    refused("data,second", &["has 3 directories"]);
    refused(
        "data,third,second",
        &["third", "number 3", "given as number 2", "order"],
    );
    refused("second,data,third", &["number 2", "given as number 1"]);
    refused("data,second,second", &["given twice"]);
    refused(
        "data,second,gone",
        &["gone", "number 3", "mounted", "backup"],
    );
    refused("gone,second,third", &["second", "belongs to another store"]);
    operator.misused("serve --data data,,third");
    says(&operator.refused("scrub data"), &["has 3 directories"]);
    says(
        &operator.refused("backup data,second copy"),
        &["has 3 directories"],
    );
    fs::rename(operator.path("third"), operator.path("away")).unwrap();
    refused(DATA, &["third", "mounted"]);
    // Wherever a disk is mounted, it is known again.
    let server = operator.serve_from("data,second,away", "");
    owner.talk_to(server.url());
    owner.json(MINE);
}

#[test]
fn damage_in_any_directory_is_named_and_mended_from_a_backup() {
    let (owner, operator, server) = published();
    // Notes the trust in the server, and asks nothing.
    owner.json(&format!("{MINE} --max-len 1"));
    operator.json(&format!("backup {DATA} copy"));
    let damaged = segment(&operator, "second");
    // The last panel of three limbs of eight columns is the 24th: in the third directory.
    flip(&damaged, fs::read(&damaged).unwrap().len() - 8 * 4096 - 1);
    owner.json(&format!("scrub --server {}", server.url()));
    let damaged = segment(&operator, "third");
    flip(&damaged, fs::read(&damaged).unwrap().len() - 8 * 4096 - 1);
    let says_so = &["panel (limb 2, column 7)"];
    let found = owner.run(&format!("scrub --server {}", server.url()));
    says(&found.stdout, says_so);
    says(&owner.refused(MINE), says_so);
    server.kill();
    let found = operator.run(&format!("scrub {DATA}"));
    assert_eq!(found.code, Some(1), "{found:?}");
    says(
        &found.stdout,
        &["third/segments/", "00000000.seg", "1 damaged"],
    );

    // What a backup has lies at the same place.
    fs::copy(segment(&operator, "copy"), &damaged).unwrap();
    operator.json(&format!("scrub {DATA}"));
    let server = operator.serve_from("copy", "");
    owner.talk_to(server.url());
    owner.json(MINE);
}

#[test]
fn a_part_of_a_striped_segment_is_not_called_damaged() {
    let (_owner, operator, server) = published();
    server.kill();
    let inspect = |directory: &str, option: &str| {
        let path = segment(&operator, directory);
        format!("inspect {} {option}", path.display())
    };
    assert_eq!(operator.json(&inspect("data", ""))["columns"], 8);
    for (directory, option) in [("data", "--verify"), ("second", ""), ("third", "--verify")] {
        let told = operator.refused(&inspect(directory, option));
        says(&told, &["several directories", "oboro scrub"]);
        assert!(!told.contains("damaged"), "{told}");
    }
}
