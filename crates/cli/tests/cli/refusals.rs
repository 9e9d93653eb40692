//! Bad input and bad arguments: one sentence with cause and remedy, and no files left behind.

use crate::common::plaintext::random_baskets;
use crate::common::{Home, says};

#[test]
fn lengths_and_supports_that_make_no_sense() {
    let (owner, operator) = (Home::with_key(), Home::new());
    let server = operator.serve("");
    owner.talk_to(server.url());
    owner.write_fimi("rows.dat", &random_baskets(200, 20, 128));
    owner.json("encrypt rows.dat --max-len 2");
    owner.json("upload rows.oboro");
    owner.refuses(
        "encrypt rows.dat --max-len 0 --out x => maximum itemset length … choose 1 to 16
        encrypt rows.dat --max-len 17 --out x => maximum itemset length … 17 … choose 1 to 16
        encrypt rows.dat --min-item-support 201 --out x => nothing to encrypt … 0 items … --min-item-support
        mine rows.oboro --min-support 1 --trust-server --max-len 3 => up to 2 … 3 … choose --max-len 2 … encrypt it again
        generate quest.dat --transactions 0 => transactions
        generate quest.dat --items 4294967295 => items
        generate quest.dat --patterns 0 => patterns
        generate quest.dat --transaction-length NaN => length
        generate quest.dat --pattern-length inf => length",
    );
    owner.misuses(
        "encrypt rows.dat --max-len -1
        encrypt rows.dat --max-len 18446744073709551616
        encrypt rows.dat --threads 0
        encrypt rows.dat --min-item-support=0 => --min-item-support
        mine rows.oboro => --min-support
        mine rows.oboro --min-support=101% => --min-support
        mine rows.oboro --min-support=often => --min-support
        mine rows.oboro --min-support 1 --max-len 0
        generate quest.dat --items -1
        generate quest.dat --transaction-length many",
    );
    // More than the number of transactions is valid: nothing is that frequent.
    let mined = owner.json("mine rows.oboro --min-support 201");
    assert_eq!(mined["itemsets"], serde_json::json!([]));
}

#[test]
fn places_that_cannot_be_written() {
    let owner = Home::with_key();
    owner.write("rows.dat", "1 2 3\n");
    owner.json("encrypt rows.dat");
    owner.refuses(
        "encrypt rows.dat => rows.oboro exists already
        encrypt rows.dat --out rows.dat => rows.dat exists already … Choose another name
        encrypt rows.dat --out nowhere/rows.oboro => nowhere … No such file … Check the path
        encrypt rows.dat --out rows.dat/rows.oboro => rows.dat … Check the path
        generate nowhere/quest.dat => nowhere/quest.dat
        generate rows.oboro => rows.oboro
        generate rows.dat/quest.dat => rows.dat/quest.dat
        keygen => oboro.key exists already … choose another name
        keygen --key nowhere/oboro.key => nowhere/oboro.key … check the directory",
    );
    owner.misuses("encrypt rows.dat --out a --append-to rows.oboro");
}

#[test]
fn bundles_and_servers_that_are_not_there() {
    let (owner, operator) = (Home::with_key(), Home::new());
    owner.write("rows.dat", "1 2 3\n");
    owner.json("encrypt rows.dat");
    std::fs::create_dir(owner.path("empty")).unwrap();
    let server = operator.serve("");
    owner.talk_to(server.url());
    for command in ["upload", "mine --min-support 1", "inspect"] {
        owner.refuses(format!(
            "{command} none.oboro => none.oboro … heck the path
            {command} empty => empty/head … is missing
            {command} rows.dat => rows.dat"
        ));
    }
    owner.refuses(
        "encrypt rows.dat --append-to none.oboro => none.oboro … heck the path
        inspect rows.dat => rows.dat … does not begin with … Check that the path is right",
    );
    let url = server.url().to_owned();
    server.kill();
    for command in [
        "upload rows.oboro",
        "mine rows.oboro --min-support 1",
        "datasets",
        "delete rows --yes",
    ] {
        owner.refuses(format!(
            "{command} => {url} … refused … check that `oboro serve` runs there"
        ));
    }
}

#[test]
fn itemsets_files_that_cannot_be_used() {
    let owner = Home::new();
    let whole = r#"{"transactions":4,"min_support":1,"max_len":null,"itemsets":[
        {"items":["a"],"support":3},{"items":["b"],"support":2},{"items":["a","b"],"support":2}]}"#;
    owner.write("found.json", whole);
    says(&owner.done("rules found.json --min 0"), &["{b} => {a}"]);
    owner.misuses("rules found.json --metric beauty\nrules found.json --min often");
    owner.write("low.json", whole.replacen(":3", ":1", 1));
    owner.write("cut.json", &whole[..40]);
    owner.write("binary.json", [0xff, 0xfe, 0, 1, 2]);
    owner.write("deep.json", "[".repeat(100_000));
    owner.refuses(
        "rules low.json => low.json
        rules cut.json => cut.json … as the mining command writes it
        rules binary.json => binary.json … as the mining command writes it
        rules deep.json => deep.json
        rules none.json => none.json … check the path",
    );
}

#[test]
fn results_that_cannot_be_saved() {
    let (owner, operator) = (Home::with_key(), Home::new());
    let server = operator.serve("");
    owner.talk_to(server.url());
    owner.write("rows.dat", "1 2 3\n1 2\n");
    owner.json("encrypt rows.dat");
    owner.json("upload rows.oboro");
    // A result that differs from plaintext is not saved either.
    owner.write("others.dat", "1 2 3\n1 3\n");
    let mine = "mine rows.oboro --min-support 1";
    owner.refuses(format!(
        "{mine} --out nowhere/found.json => cannot write … nowhere/found.json … directory
        {mine} --out rows.oboro => cannot write … rows.oboro … directory
        {mine} --verify others.dat --out found.json --keep-cells 0 => plaintext"
    ));
    // Standard output on a full device.
    if std::path::Path::new("/dev/full").exists() {
        let full = owner.start_shell(&format!("\"$oboro\" {mine} >/dev/full"));
        says(
            &full.ended().refusal(),
            &["standard output", "No space left"],
        );
    }
    // A reader that stops early is no failure.
    let piped = owner.start_shell(&format!(
        "{{ \"$oboro\" {mine} --json; echo $? >status; }} | :"
    ));
    assert_eq!(piped.ended().stderr, "");
}

#[test]
fn a_full_disk_loses_nothing() {
    let owner = Home::with_key();
    owner.write_fimi("rows.dat", &random_baskets(9_000, 40, 60));
    // A small file system; only some systems allow mounting one without privileges.
    let small = |command: &str| {
        let mount = "mkdir small && mount -t tmpfs -o size=3m tmpfs small";
        let script = format!("{mount} && {{ {command} || {{ ls -A small >left; exit 1; }}; }}");
        owner.start_shell(&format!(
            "unshare --user --map-root-user --mount sh -c '{script}'; status=$?; rmdir small; exit $status"
        ))
    };
    let possible = small("true").ended();
    if possible.code != Some(0) {
        println!("skipped: no file system of its own: {}", possible.stderr);
        return;
    }
    let encrypt = small("\"$oboro\" encrypt rows.dat --max-len 3 --out small/rows.oboro");
    says(
        &encrypt.ended().refusal(),
        &[
            "the ciphertext takes",
            "small/rows.oboro has 3145728 free",
            "--min-item-support",
        ],
    );
    assert_eq!(owner.read("left"), b"");
    let generate = small("\"$oboro\" generate small/quest.dat --transactions 200000");
    says(
        &generate.ended().refusal(),
        &["small/quest.dat", "free space"],
    );
    assert_eq!(owner.read("left"), b"");
}
