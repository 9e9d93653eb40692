//! The previous release itself, both ways: its program against this one, over sockets and on each other's files.
//!
//! `OBORO_PREVIOUS` names its `oboro`; `make test-previous` builds the release that docs/compatibility.md names last. Without it
//! these tests are skipped.

use crate::common::plaintext::random_baskets;
use crate::common::{Home, Server, says};
use std::env;
use std::path::PathBuf;

/// The previous release's command; says so if there is none.
fn previous() -> Option<PathBuf> {
    let found = env::var_os("OBORO_PREVIOUS").map(PathBuf::from);
    if found.is_none() {
        println!("skipped: OBORO_PREVIOUS names no program of the previous release");
    }
    found
}

/// What an owner does from the first day on, with whichever command it has.
fn works(owner: &Home, server: &Server) {
    owner.talk_to(server.url());
    owner.write_fimi("rows.dat", &random_baskets(600, 8, 160));
    owner.json("encrypt rows.dat --max-len 3");
    owner.json("upload rows.oboro");
    mines(owner, "rows.dat");
    owner.write_fimi("more.dat", &random_baskets(50, 8, 160));
    owner.json("encrypt more.dat --append-to rows.oboro");
    owner.json("upload rows.oboro");
    let all = [owner.read("rows.dat"), owner.read("more.dat")].concat();
    owner.write("all.dat", all);
    mines(owner, "all.dat");
    owner.json("genome find --reference pieces --pattern ACG");
    owner.json(&format!("scrub --server {}", server.url()));
    assert_eq!(owner.json("datasets").as_array().unwrap().len(), 1);
}

/// Every way to be answered, against a miner on plaintext.
fn mines(owner: &Home, plaintext: &str) {
    let mine = format!("mine rows.oboro --min-support 10% --verify {plaintext}");
    owner.json(&mine);
    for options in ["--answers moments", "--answers cells"] {
        owner.json(&format!("{mine} {options}"));
    }
}

/// A server of a command, with genomes.
fn serve(operator: &Home) -> Server {
    operator.write("reference.fa", ">x\nACGTNAC\n>y\nGG\n");
    operator.json("genome load --data data --reference pieces reference.fa");
    operator.serve("")
}

#[test]
fn this_client_works_with_the_previous_server() {
    let Some(previous) = previous() else { return };
    works(&Home::with_key(), &serve(&Home::running(&previous)));
}

#[test]
fn the_previous_client_works_with_this_server() {
    let Some(previous) = previous() else { return };
    let owner = Home::running(&previous);
    owner.done("keygen");
    works(&owner, &serve(&Home::new()));
}

#[test]
fn a_store_of_the_previous_server_is_upgraded_and_goes_back() {
    let Some(previous) = previous() else { return };
    let (owner, operator) = (Home::with_key(), Home::running(&previous));
    let server = serve(&operator);
    works(&owner, &server);
    server.terminate();
    assert_eq!(server.ended().code, Some(0));
    let upgraded = Home::new();
    upgraded.copy_tree(&operator, "data");
    let before = upgraded.contents("data");
    let refused = upgraded.refused("serve --data data --listen 127.0.0.1:0");
    says(&refused, &["oboro store upgrade"]);
    upgraded.json("store upgrade data --dry-run");
    upgraded.json("store upgrade data");
    let server = upgraded.serve("");
    owner.talk_to(server.url());
    mines(&owner, "all.dat");
    server.terminate();
    assert_eq!(server.ended().code, Some(0));
    upgraded.json("store upgrade data --undo");
    let is_catalogue = |it: &&(PathBuf, Vec<u8>)| it.0.ends_with("catalogue.sqlite");
    let after = upgraded.contents("data");
    assert_eq!(
        after.iter().find(is_catalogue),
        before.iter().find(is_catalogue)
    );
    let back = Home::running(&previous);
    back.copy_tree(&upgraded, "data");
    let server = back.serve("");
    owner.talk_to(server.url());
    mines(&owner, "all.dat");
}

#[test]
fn a_dataset_of_the_previous_client_goes_on_with_this_one() {
    let Some(previous) = previous() else { return };
    let (owner, operator) = (Home::running(&previous), Home::new());
    let server = serve(&operator);
    owner.done("keygen");
    works(&owner, &server);
    let now = Home::new();
    now.talk_to(server.url());
    for name in ["rows.oboro", "oboro.key", "all.dat", "more.dat"] {
        now.copy_tree(&owner, name);
    }
    mines(&now, "all.dat");
    now.json("encrypt more.dat --append-to rows.oboro");
    now.json("upload rows.oboro");
    now.write(
        "twice.dat",
        [now.read("all.dat"), now.read("more.dat")].concat(),
    );
    mines(&now, "twice.dat");
}
