//! The previous release itself, both ways: its program against this one, over sockets and on each other's files.
//!
//! `OBORO_PREVIOUS` names its `oboro`; `make test-previous` builds the release that docs/compatibility.md names last. Without
//! one these tests are skipped.

use crate::common::plaintext::random_baskets;
use crate::common::{Home, Server};
use std::env;
use std::path::{Path, PathBuf};

/// The previous release's command; says so if there is none.
fn previous() -> Option<PathBuf> {
    let named = env::var_os("OBORO_PREVIOUS").filter(|it| !it.is_empty());
    let found = named.map(PathBuf::from);
    if found.is_none() {
        println!("skipped: OBORO_PREVIOUS names no program of the previous release");
    }
    found
}

/// What an owner does from the first day on, with whichever command it has.
fn works(owner: &Home, server: &Server) {
    owner.talk_to(server.url());
    owner.write_fimi("rows.dat", &random_baskets(5_000, 8, 160));
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

fn load_genomes(operator: &Home, data: &str) {
    operator.write("reference.fa", ">x\nACGTNAC\n>y\nGG\n");
    operator.json(&format!(
        "genome load --data {data} --reference pieces reference.fa"
    ));
}

/// A server of a command, with genomes.
fn serve(operator: &Home) -> Server {
    load_genomes(operator, "data");
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
fn a_store_of_the_previous_server_is_served() {
    let Some(previous) = previous() else { return };
    let this = Path::new(env!("CARGO_BIN_EXE_oboro"));
    for is_remote in [false, true] {
        let (owner, operator) = (Home::with_key(), Home::running(&previous));
        let (data, cache) = if is_remote {
            let url = format!("file://{}", operator.path("objects").display());
            (url, "--cache cache")
        } else {
            ("data".to_owned(), "")
        };
        let genomes = if is_remote { "cache" } else { "data" };
        let served = |work: &dyn Fn(&Server)| {
            let server = operator.serve_from(&data, cache);
            owner.talk_to(server.url());
            work(&server);
            server.terminate();
            assert_eq!(server.ended().code, Some(0));
        };
        load_genomes(&operator, genomes);
        served(&|server| works(&owner, server));
        operator.run_by(this);
        served(&|_| mines(&owner, "all.dat"));
    }
}

#[test]
fn a_dataset_of_the_previous_client_is_mined_and_appended_to() {
    let Some(previous) = previous() else { return };
    let (owner, operator) = (Home::running(&previous), Home::new());
    let server = serve(&operator);
    owner.done("keygen");
    works(&owner, &server);
    owner.run_by(Path::new(env!("CARGO_BIN_EXE_oboro")));
    mines(&owner, "all.dat");
    owner.json("encrypt more.dat --append-to rows.oboro");
    owner.json("upload rows.oboro");
    owner.write(
        "twice.dat",
        [owner.read("all.dat"), owner.read("more.dat")].concat(),
    );
    mines(&owner, "twice.dat");
}
