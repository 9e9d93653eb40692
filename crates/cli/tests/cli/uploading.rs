//! Interrupted uploads resume, versions appear atomically, and appends send only what is new.

use crate::common::plaintext::{Plaintext, random_baskets, supports};
use crate::common::proxy::{Direction, Proxy};
use crate::common::{Home, Server, until};
use serde_json::Value;
use std::fs;

/// An owner with an encrypted dataset, and an operator; `rows.dat` and `rows.oboro` are there.
struct Parties {
    owner: Home,
    operator: Home,
    /// Bytes to upload.
    total: u64,
}

impl Parties {
    fn new() -> Self {
        let (owner, operator) = (Home::with_key(), Home::new());
        owner.write_fimi("rows.dat", &random_baskets(9_000, 40, 60));
        let encrypted = owner.json("encrypt rows.dat --max-len 3");
        let total = encrypted["stored_bytes"].as_u64().unwrap();
        Self {
            owner,
            operator,
            total,
        }
    }

    /// Mining finds what is in the plaintext.
    fn assert_mines(&self, bundle: &str, input: &str) {
        let mined = self
            .owner
            .json(&format!("mine {bundle} --min-support 15% --verify {input}"));
        let truth = Plaintext::read(&self.owner.path(input));
        let threshold = mined["min_support"].as_u64().unwrap();
        assert_eq!(supports(&mined), truth.frequent(threshold, 3));
    }

    /// The names and versions that a server lists.
    fn listed(&self, server: &str) -> Vec<(String, u64)> {
        let listed = self.owner.json(&format!("datasets --server {server}"));
        let of = |d: &Value| {
            (
                d["name"].as_str().unwrap().to_owned(),
                d["version"].as_u64(),
            )
        };
        let datasets = listed.as_array().unwrap().iter().map(of);
        datasets
            .map(|(name, version)| (name, version.unwrap()))
            .collect()
    }

    /// Begins an upload, and kills the client after `bytes` bytes; the proxy still holds the
    /// connection to the server, which has written some of them.
    fn kill_upload_after(&self, server: &Server, bytes: u64) -> Proxy {
        let proxy = Proxy::to(server.address());
        proxy.stall_after(Direction::Up, bytes);
        let upload = format!("upload rows.oboro --server {}", proxy.url());
        let mut upload = self.owner.start(&upload);
        proxy.wait_until_stalled(1);
        until("the server has written something", || {
            (self.received() > 0).then_some(())
        });
        upload.kill();
        proxy
    }

    /// The bytes of the current upload on the server's disk.
    fn received(&self) -> u64 {
        let partial = self.operator.contents("data/segments").into_iter();
        partial
            .filter(|(path, _)| path.to_str().unwrap().ends_with(".seg.partial"))
            .map(|(_, content)| content.len() as u64)
            .sum()
    }
}

#[test]
fn a_client_outlives_a_server_killed_in_the_middle() {
    let parties = Parties::new();
    let (owner, operator) = (&parties.owner, &parties.operator);
    let server = operator.serve("");
    let proxy = Proxy::to(server.address());
    proxy.stall_after(Direction::Up, parties.total / 2);
    let upload = owner.start(&format!(
        "upload rows.oboro --json --server {}",
        proxy.url()
    ));
    proxy.wait_until_stalled(1);
    assert_eq!(parties.listed(server.url()), []);
    server.kill();
    let received = parties.received();
    assert!(received < parties.total, "{received}");

    let server = operator.serve("");
    assert_eq!(parties.listed(server.url()), []);
    proxy.redirect(server.address());
    proxy.release();
    proxy.cut();
    let uploaded = upload.json();
    assert_eq!(uploaded["version"], 1);
    assert_eq!(uploaded["total_bytes"], parties.total);
    assert_eq!(uploaded["sent_bytes"], parties.total);
    assert_eq!(parties.listed(server.url()), [("rows".to_owned(), 1)]);
    owner.talk_to(server.url());
    parties.assert_mines("rows.oboro", "rows.dat");
}

#[test]
fn an_upload_begun_again_sends_only_the_rest() {
    let parties = Parties::new();
    let (owner, operator) = (&parties.owner, &parties.operator);
    let server = operator.serve("");
    let _proxy = parties.kill_upload_after(&server, parties.total / 2);
    server.kill();
    let received = parties.received();
    assert!((1..parties.total).contains(&received), "{received}");

    let server = operator.serve("");
    owner.talk_to(server.url());
    assert_eq!(parties.listed(server.url()), []);
    let uploaded = owner.json("upload rows.oboro");
    assert_eq!(uploaded["sent_bytes"], parties.total - received);
    parties.assert_mines("rows.oboro", "rows.dat");

    // And again: there is nothing to send.
    let uploaded = owner.json("upload rows.oboro");
    assert_eq!(uploaded["sent_bytes"], 0);
    assert_eq!(uploaded["version"], 1);
}

#[test]
fn what_a_power_cut_damaged_is_sent_again() {
    let parties = Parties::new();
    let (owner, operator) = (&parties.owner, &parties.operator);
    let server = operator.serve("");
    let _proxy = parties.kill_upload_after(&server, parties.total / 2);
    server.kill();
    // The length of the file reached the disk, its last bytes did not.
    let partial = operator.find("data/segments", "00000000.seg.partial");
    let mut bytes = std::fs::read(&partial).unwrap();
    let half = bytes.len() / 2;
    bytes[half..].fill(0);
    std::fs::write(&partial, bytes).unwrap();

    let server = operator.serve("");
    owner.talk_to(server.url());
    assert_eq!(owner.json("upload rows.oboro")["sent_bytes"], parties.total);
    parties.assert_mines("rows.oboro", "rows.dat");
}

#[test]
fn a_client_killed_in_the_middle_does_not_block_the_next() {
    let parties = Parties::new();
    let (owner, operator) = (&parties.owner, &parties.operator);
    let server = operator.serve("");
    let proxy = parties.kill_upload_after(&server, parties.total / 3);
    proxy.cut();
    // The server may not have noticed yet; the next upload waits until it has.
    owner.talk_to(server.url());
    let uploaded = owner.json("upload rows.oboro");
    assert!(uploaded["sent_bytes"].as_u64().unwrap() < parties.total);
    parties.assert_mines("rows.oboro", "rows.dat");
}

#[test]
fn two_uploads_of_one_dataset_do_not_mix() {
    let parties = Parties::new();
    let (owner, operator) = (&parties.owner, &parties.operator);
    let server = operator.serve("");
    let proxy = Proxy::to(server.address());
    proxy.stall_after(Direction::Up, parties.total / 2);
    let upload = owner.start(&format!(
        "upload rows.oboro --json --server {}",
        proxy.url()
    ));
    proxy.wait_until_stalled(1);
    owner.talk_to(server.url());
    // The server drops the connection that does not answer, and the other one continues.
    assert_eq!(owner.json("upload rows.oboro")["version"], 1);
    proxy.release();
    assert_eq!(upload.json()["version"], 1);
    parties.assert_mines("rows.oboro", "rows.dat");
}

#[test]
fn connections_that_break_again_and_again_are_taken_up() {
    let parties = Parties::new();
    let server = parties.operator.serve("");
    let proxy = Proxy::to(server.address());
    proxy.stall_after(Direction::Up, parties.total / 4);
    let upload = parties.owner.start(&format!(
        "upload rows.oboro --json --server {}",
        proxy.url()
    ));
    for _ in 0..3 {
        proxy.wait_until_stalled(1);
        proxy.cut();
    }
    proxy.release();
    assert_eq!(upload.json()["version"], 1);
    parties.owner.talk_to(server.url());
    parties.assert_mines("rows.oboro", "rows.dat");
}

#[test]
fn an_upload_given_up_leaves_nothing() {
    let parties = Parties::new();
    let (owner, operator) = (&parties.owner, &parties.operator);
    let server = operator.serve("");
    let proxy = parties.kill_upload_after(&server, parties.total / 2);
    proxy.cut();
    owner.talk_to(server.url());
    owner.json("upload rows.oboro --cancel");
    assert_eq!(parties.received(), 0);
    assert_eq!(parties.listed(server.url()), []);
    owner.refuses("upload rows.oboro --cancel => no dataset named \"rows\"");

    let uploaded = owner.json("upload rows.oboro");
    assert_eq!(uploaded["sent_bytes"], parties.total);
    parties.assert_mines("rows.oboro", "rows.dat");
}

#[test]
fn an_append_sends_only_what_is_new() {
    let parties = Parties::new();
    let (owner, operator, total) = (&parties.owner, &parties.operator, parties.total);
    let server = operator.serve("");
    owner.talk_to(server.url());
    owner.json("upload rows.oboro");
    parties.assert_mines("rows.oboro", "rows.dat");
    owner.copy("rows.oboro", "old.oboro");

    owner.write_fimi("more.dat", &random_baskets(5_000, 40, 80));
    let appended = owner.json("encrypt more.dat --append-to rows.oboro");
    assert_eq!(appended["version"], 2);
    assert_eq!(appended["transactions"], 14_000);
    // The bundle is now newer than the server's version.
    let older = "version 1, uploaded … upload the directory's version first";
    owner.refuses(format!("mine rows.oboro --min-support 15% => {older}"));

    let uploaded = owner.json("upload rows.oboro");
    let all = appended["stored_bytes"].as_u64().unwrap();
    assert_eq!(uploaded["sent_bytes"], all - total);
    assert_eq!(uploaded["total_bytes"], all);
    assert_eq!(uploaded["version"], 2);
    let both = [owner.read("rows.dat"), owner.read("more.dat")].concat();
    owner.write("both.dat", both);
    parties.assert_mines("rows.oboro", "both.dat");

    // The old copy is outdated: it may neither query nor replace the new version.
    drop(server);
    let server = operator.serve("");
    owner.talk_to(server.url());
    let mine = "mine old.oboro --name rows --min-support 15% --keep-cells 0";
    let newer = "old.oboro has version 1 … the server has version 2 … --offline";
    owner.refuses(format!("{mine} => {newer}"));
    owner.refuses("upload old.oboro --name rows => cannot follow version 2");
    // Nor may a version with a different history.
    owner.json("encrypt rows.dat --append-to old.oboro");
    owner.refuses("upload old.oboro --name rows => cannot follow version 2");
    parties.assert_mines("rows.oboro", "both.dat");
}

#[test]
fn the_old_version_serves_until_the_new_one_is_complete() {
    let parties = Parties::new();
    let (owner, operator, total) = (&parties.owner, &parties.operator, parties.total);
    let server = operator.serve("");
    owner.talk_to(server.url());
    owner.json("upload rows.oboro");
    owner.copy("rows.oboro", "old.oboro");
    owner.json("encrypt rows.dat --append-to rows.oboro");

    let proxy = Proxy::to(server.address());
    proxy.stall_after(Direction::Up, total / 2);
    let mut upload = owner.start(&format!("upload rows.oboro --server {}", proxy.url()));
    proxy.wait_until_stalled(1);
    assert_eq!(parties.listed(server.url()), [("rows".to_owned(), 1)]);
    let mined = owner.json("mine old.oboro --name rows --min-support 15% --verify rows.dat");
    assert_eq!(mined["transactions"], 9_000);
    upload.kill();
    server.kill();

    let server = operator.serve("");
    owner.talk_to(server.url());
    assert_eq!(parties.listed(server.url()), [("rows".to_owned(), 1)]);
    owner.json("mine old.oboro --name rows --min-support 15% --verify rows.dat");
    owner.json("upload rows.oboro");
    assert_eq!(parties.listed(server.url()), [("rows".to_owned(), 2)]);
    let twice = owner.read("rows.dat").repeat(2);
    owner.write("twice.dat", twice);
    parties.assert_mines("rows.oboro", "twice.dat");
}

#[test]
fn a_name_belongs_to_one_dataset() {
    let parties = Parties::new();
    let owner = &parties.owner;
    let server = parties.operator.serve("");
    owner.talk_to(server.url());
    owner.json("upload rows.oboro");
    owner.json("encrypt rows.dat --out others.oboro --max-len 3");
    // Each bundle has its own id, so mining one under another's name is detected.
    owner.refuses(
        "upload others.oboro --name rows => \"rows\" is taken … Choose another name
        upload rows.oboro --name others => is stored here under the name \"rows\"
        upload others.oboro --name ../rows => is not a dataset name … A-Z
        mine others.oboro --name rows --min-support 15% => it is another dataset … the name under which this one was uploaded",
    );
    assert_eq!(parties.listed(server.url()), [("rows".to_owned(), 1)]);
    owner.json("upload others.oboro");
    parties.assert_mines("rows.oboro", "rows.dat");
    parties.assert_mines("others.oboro", "rows.dat");
}

#[test]
fn what_is_deleted_never_comes_back() {
    let parties = Parties::new();
    let owner = &parties.owner;
    let server = parties.operator.serve("");
    owner.talk_to(server.url());
    owner.json("upload rows.oboro");
    owner.json("delete rows --yes --now");
    assert_eq!(parties.listed(server.url()), []);
    owner.refuses(
        "mine rows.oboro --min-support 15% => no dataset named \"rows\"
        delete rows --yes --now => no dataset named \"rows\"
        upload rows.oboro => was deleted … Encrypt the data again",
    );
    let segments = parties.operator.contents("data");
    assert!(
        !segments
            .iter()
            .any(|(path, _)| path.ends_with("00000000.seg"))
    );
    // Also after a restart.
    server.kill();
    let server = parties.operator.serve("");
    owner.talk_to(server.url());
    owner.refuses("upload rows.oboro => was deleted");
}

#[test]
fn an_append_needs_the_same_items_and_the_same_key() {
    let parties = Parties::new();
    let owner = &parties.owner;
    owner.write("new.dat", "1 2 3\n4 99 100\n");
    owner.json("keygen --key other.key");
    owner.refuses(
        "encrypt new.dat --append-to rows.oboro => 2 items are not columns … --new-items re-encrypt
        encrypt rows.dat --append-to rows.oboro --key other.key => is not the one … give the right key file",
    );
    owner.misused("encrypt rows.dat --append-to rows.oboro --max-len 5");
    let server = parties.operator.serve("");
    owner.talk_to(server.url());
    owner.json("upload rows.oboro");
    parties.assert_mines("rows.oboro", "rows.dat");
}

#[test]
fn encryption_killed_in_the_middle_leaves_nothing_or_all() {
    let owner = Home::with_key();
    owner.write_fimi("rows.dat", &random_baskets(60_000, 60, 60));
    let mut encrypting = owner.start("encrypt rows.dat --max-len 4");
    until("encryption has begun", || {
        let begun = owner.path(".rows.oboro.partial").exists();
        (begun || owner.path("rows.oboro").exists()).then_some(())
    });
    encrypting.kill();
    if !owner.path("rows.oboro").exists() {
        owner.refuses("inspect rows.oboro => rows.oboro");
        owner.json("encrypt rows.dat --max-len 4");
    }
    owner.json("inspect rows.oboro --verify --key oboro.key");
    assert!(!owner.path(".rows.oboro.partial").exists());

    // A killed append leaves the old version, which can be appended to again.
    let mut appending = owner.start("encrypt rows.dat --append-to rows.oboro");
    until("the append has begun", || {
        let segments = fs::read_dir(owner.path("rows.oboro/segments")).unwrap();
        (segments.count() > 1).then_some(())
    });
    appending.kill();
    let version = owner.json("inspect rows.oboro --verify --key oboro.key")["version"].clone();
    let appended = owner.json("encrypt rows.dat --append-to rows.oboro");
    assert_eq!(appended["version"], version.as_u64().unwrap() + 1);
    owner.json("inspect rows.oboro --verify --key oboro.key");
}
