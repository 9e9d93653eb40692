//! Bad input and bad arguments: one sentence with cause and remedy, and no files left behind.

use crate::common::plaintext::random_baskets;
use crate::common::{Home, says};

/// Input, and phrases of its refusal.
type Refusal<'a> = (&'a str, &'a [u8], &'a [&'a str]);

const INPUTS: &[Refusal] = &[
    (
        "none-of-it.dat",
        b"bread butter\n",
        &["cannot tell the format", "--separator space"],
    ),
    (
        "word.dat",
        b"1 2 3\n1 4\n4 five 6\n",
        &["line 3", "\"five\" is not an item number", "csv-basket"],
    ),
    (
        "point.dat",
        b"1 2\n3.5 4\n",
        &["line 2", "\"3.5\"", "whole numbers"],
    ),
    (
        "negative.dat",
        b"1 2\n3 4 7\n5 -6\n",
        &["line 3", "\"-6\" is a negative number", "number them anew"],
    ),
    (
        "large.dat",
        b"1 4294967296\n",
        &["line 1", "4294967295", "number the items anew"],
    ),
    (
        "huge.dat",
        b"1 99999999999999999999999999999999\n",
        &["line 1", "larger than", "number the items anew"],
    ),
    ("empty.dat", b"", &["has no transactions", "is not empty"]),
    ("blank.dat", b"\n\n  \n", &["has no transactions"]),
    (
        "binary.dat",
        b"\x7fELF\x02\x01\x01\0\xff\xfe\xfd",
        &["line 1"],
    ),
    ("zeros.dat", &[0; 4096], &["line 1", "zero byte"]),
    (
        "utf16.csv",
        b"a\0,\0b\0\n\0c\0,\0d\0\n\0",
        &["line 1", "zero byte", "iconv"],
    ),
    (
        "latin1.csv",
        b"transaction,item\n1,caf\xe9\n",
        &["line 2", "not UTF-8", "iconv"],
    ),
    (
        "header.csv",
        b"transaction,item\n",
        &["has no transactions"],
    ),
    (
        "row.csv",
        b"transaction,item\n1,a\n2\n",
        &["line 3", "1 cells", "header has 2"],
    ),
    (
        "unnamed.csv",
        b"transaction,item\n1,a\n,b\n",
        &["line 3", "names no transaction"],
    ),
    (
        "quote.csv",
        b"a,b\n\"c,d\n",
        &["line 2", "not closed", "close the quote"],
    ),
    (
        "onehot.csv",
        b"a,b\n1,0\n2,1\n",
        &["line 3", "column 1", "`--format csv-counts`"],
    ),
    (
        "pack.dat",
        b"PK\x03\x04\x14\0\0\0\x08\0",
        &["zip", "unpack it first"],
    ),
];

#[test]
fn input_that_is_no_transactions() {
    let owner = Home::with_key();
    for (name, content, phrases) in INPUTS {
        owner.write(name, content);
        let format = match *name {
            "onehot.csv" => "--format csv-onehot",
            _ => "",
        };
        let message = owner.refused(&format!("encrypt {name} {format}"));
        says(&message, &[&[*name], *phrases].concat());
    }
    let message = owner.refused("encrypt none.dat");
    says(
        &message,
        &["cannot read none.dat", "check that the file exists"],
    );
}

#[test]
fn input_in_another_format_than_was_said() {
    let owner = Home::with_key();
    owner.write("words.csv", "bread,butter\nbread\n");
    let message = owner.refused("encrypt words.csv --format fimi");
    says(&message, &["line 1", "is not an item number"]);
    let message = owner.refused("encrypt words.csv --format csv-long");
    says(&message, &["line 1", "transaction", "item"]);
    let message = owner.refused("encrypt words.csv --format csv-onehot");
    says(&message, &["words.csv", "line 2"]);
    let message = owner.misused("encrypt words.csv --format parquet");
    says(&message, &["parquet"]);
}

#[test]
fn a_file_that_is_not_like_the_first_of_its_dataset() {
    let owner = Home::with_key();
    owner.write("first.csv", "patient_id;a;b\n1;1;0\n2;1;1\n");
    let message = owner.refused("encrypt first.csv");
    says(
        &message,
        &["first.csv, line 1", "`--drop-columns patient_id`"],
    );
    let text = owner.done("encrypt first.csv --drop-columns patient_id");
    says(
        &text,
        &[
            "read first.csv as csv-onehot, separator semicolon, with a header",
            "1 not used: \"patient_id\"",
            "the ciphertext takes",
        ],
    );
    owner.write("next.csv", "patient_id;b;a\n3;1;0\n");
    let appended = owner.json("encrypt next.csv --append-to first.oboro");
    assert_eq!(appended["transactions"], 3);
    assert_eq!(appended["read"]["transactions"], 1);
    assert_eq!(appended["read"]["densest"]["item"], "b");
    owner.write("other.csv", "a,b\na\n");
    let message = owner.refused("encrypt other.csv --append-to first.oboro");
    says(
        &message,
        &[
            "other.csv",
            "first file was read as csv-onehot",
            "`--format`",
        ],
    );
    owner.json("encrypt other.csv --append-to first.oboro --format csv-basket --header no");
    for line in [
        "mine first.oboro --min-support 1 --format csv-onehot",
        "plan --transactions 10 --items 3 --drop-columns patient_id",
    ] {
        let message = owner.refused(line);
        says(&message, &["no file is given; give", "leave them out"]);
    }
}

#[test]
fn compressed_input_that_is_cut_off_or_damaged() {
    let Some(whole) = crate::common::plaintext::known_data("chess.dat.gz") else {
        return;
    };
    let owner = Home::with_key();
    let whole = std::fs::read(whole).unwrap();
    for length in [3, 11, whole.len() / 2, whole.len() - 1] {
        owner.write("cut.dat.gz", &whole[..length]);
        let message = owner.refused("encrypt cut.dat.gz");
        says(
            &message,
            &["cut.dat.gz", "cut off", "fetch or write it again"],
        );
    }
    for at in [whole.len() / 2, whole.len() - 6] {
        let mut damaged = whole.clone();
        damaged[at] ^= 0x10;
        owner.write("damaged.dat.gz", damaged);
        let message = owner.refused("encrypt damaged.dat.gz");
        says(&message, &["damaged.dat.gz", "fetch or write it again"]);
    }
}

#[test]
fn lengths_and_supports_that_make_no_sense() {
    let (owner, operator) = (Home::with_key(), Home::new());
    let server = operator.serve("");
    owner.talk_to(server.url());
    owner.write_fimi("rows.dat", &random_baskets(200, 20, 128));
    for max_len in ["0", "17", "1000", "18446744073709551615"] {
        let message = owner.refused(&format!("encrypt rows.dat --max-len {max_len}"));
        says(
            &message,
            &["maximum itemset length", max_len, "choose 1 to 16"],
        );
    }
    for max_len in ["-1", "two", "18446744073709551616", "2.5"] {
        owner.misused(&format!("encrypt rows.dat --max-len {max_len}"));
    }
    for support in ["0", "0%", "101%", "1.5", "-1", "NaN", "inf", "often", "0.0"] {
        let message = owner.misused(&format!("encrypt rows.dat --min-item-support={support}"));
        says(&message, &["--min-item-support"]);
        let message = owner.misused(&format!("mine rows.oboro --min-support={support}"));
        says(&message, &["--min-support"]);
    }
    let message = owner.refused("encrypt rows.dat --min-item-support 201");
    says(
        &message,
        &["nothing to encrypt", "0 items", "--min-item-support"],
    );
    owner.misused("encrypt rows.dat --threads 0");

    owner.json("encrypt rows.dat --max-len 2");
    owner.json("upload rows.oboro");
    for max_len in ["3", "17", "1000000"] {
        let message = owner.refused(&format!(
            "mine rows.oboro --min-support 1 --trust-server --max-len {max_len}"
        ));
        says(
            &message,
            &["up to 2", max_len, "choose --max-len 2", "encrypt it again"],
        );
    }
    owner.misused("mine rows.oboro --min-support 1 --max-len 0");
    owner.misused("mine rows.oboro");
    // More than the number of transactions is valid: nothing is that frequent.
    let mined = owner.json("mine rows.oboro --min-support 201");
    assert_eq!(mined["itemsets"].as_array().unwrap().len(), 0);

    for parameters in [
        "--transactions 0",
        "--items 0",
        "--patterns 0",
        "--transaction-length 0",
        "--transaction-length NaN",
        "--pattern-length inf",
        "--items 4294967295",
    ] {
        let message = owner.refused(&format!("generate quest.dat {parameters}"));
        let option = parameters.split([' ', '-']).find(|word| !word.is_empty());
        says(&message, &[option.unwrap()]);
    }
    for parameters in ["--items -1", "--items many", "--transaction-length many"] {
        owner.misused(&format!("generate quest.dat {parameters}"));
    }
}

#[test]
fn places_that_cannot_be_written() {
    let owner = Home::with_key();
    owner.write("rows.dat", "1 2 3\n");
    owner.json("encrypt rows.dat");
    for directory in ["rows.oboro", "rows.dat", "oboro.key"] {
        let message = owner.refused(&format!("encrypt rows.dat --out {directory}"));
        says(
            &message,
            &[directory, "exists already", "Choose another name"],
        );
    }
    let message = owner.refused("encrypt rows.dat");
    says(&message, &["rows.oboro exists already"]);
    let message = owner.refused("encrypt rows.dat --out nowhere/rows.oboro");
    says(&message, &["nowhere", "No such file", "Check the path"]);
    let message = owner.refused("encrypt rows.dat --out rows.dat/rows.oboro");
    says(&message, &["rows.dat", "Check the path"]);
    owner.misused("encrypt rows.dat --out a --append-to rows.oboro");
    for target in ["nowhere/quest.dat", "rows.oboro", "rows.dat/quest.dat", "/"] {
        let message = owner.refused(&format!("generate {target}"));
        says(&message, &[target]);
    }
    let message = owner.refused("keygen");
    says(
        &message,
        &["oboro.key exists already", "choose another name"],
    );
    let message = owner.refused("keygen --key nowhere/oboro.key");
    says(&message, &["nowhere/oboro.key", "check the directory"]);
}

#[test]
fn bundles_that_are_not_there() {
    let owner = Home::with_key();
    let operator = Home::new();
    let server = operator.serve("");
    owner.talk_to(server.url());
    owner.write("rows.dat", "1 2 3\n");
    for command in [
        "upload none.oboro",
        "upload none.oboro --name rows",
        "mine none.oboro --min-support 1",
        "encrypt rows.dat --append-to none.oboro",
        "inspect none.oboro",
    ] {
        let message = owner.refused(command);
        says(&message.to_lowercase(), &["none.oboro", "check the path"]);
    }
    // Directories and files of another kind.
    std::fs::create_dir(owner.path("empty")).unwrap();
    for command in [
        "upload empty",
        "mine empty --min-support 1",
        "inspect empty",
    ] {
        let message = owner.refused(command);
        says(&message, &["empty/head", "is missing"]);
    }
    for command in ["upload rows.dat", "mine rows.dat --min-support 1"] {
        let message = owner.refused(command);
        says(&message, &["rows.dat"]);
    }
    let message = owner.refused("inspect rows.dat");
    says(
        &message,
        &[
            "rows.dat",
            "does not begin with",
            "Check that the path is right",
        ],
    );
}

#[test]
fn servers_that_are_not_there() {
    let owner = Home::with_key();
    owner.write("rows.dat", "1 2 3\n");
    owner.json("encrypt rows.dat");
    // A port that was free a moment ago.
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", port.local_addr().unwrap());
    drop(port);
    owner.talk_to(&url);
    for command in [
        "upload rows.oboro",
        "upload rows.oboro --cancel",
        "mine rows.oboro --min-support 1",
        "datasets",
        "delete rows --yes --now",
    ] {
        let message = owner.refused(command);
        says(
            &message,
            &[&url, "refused", "check that `oboro serve` runs there"],
        );
    }
}

#[test]
fn itemsets_files_that_cannot_be_used() {
    let owner = Home::new();
    let whole = r#"{"transactions":4,"min_support":1,"max_len":null,"itemsets":[
        {"items":["a"],"support":3},{"items":["b"],"support":2},{"items":["a","b"],"support":2}]}"#;
    owner.write("found.json", whole);
    assert!(
        owner
            .done("rules found.json --min 0")
            .contains("{b} => {a}")
    );
    owner.misused("rules found.json --metric beauty");
    owner.misused("rules found.json --min often");
    for (from, to) in [
        (r#""transactions":4"#, r#""transactions":1"#),
        (r#""transactions":4"#, r#""transactions":-4"#),
        (r#""transactions":4,"#, ""),
        (r#""support":3"#, r#""support":1.5"#),
        (r#""support":3"#, r#""support":1"#),
        (r#""support":3"#, r#""support":18446744073709551616"#),
        (r#"["a","b"]"#, r#"["a","a"]"#),
        (r#"["a","b"]"#, r#"["a"]"#),
        (r#"["a","b"]"#, "[]"),
        (r#"["a","b"]"#, r#"["a","c"]"#),
        (r#"["a","b"]"#, "7"),
    ] {
        assert!(whole.contains(from));
        owner.write("damaged.json", whole.replacen(from, to, 1));
        let message = owner.refused("rules damaged.json");
        says(&message, &["damaged.json"]);
    }
    for length in [0, 1, 40, whole.len() - 1] {
        owner.write("cut.json", &whole[..length]);
        let message = owner.refused("rules cut.json");
        says(&message, &["cut.json", "as the mining command writes it"]);
    }
    owner.write("binary.json", [0xff, 0xfe, 0, 1, 2]);
    let message = owner.refused("rules binary.json");
    says(
        &message,
        &["binary.json", "as the mining command writes it"],
    );
    owner.write("deep.json", "[".repeat(100_000));
    owner.refused("rules deep.json");
    let message = owner.refused("rules none.json");
    says(&message, &["none.json", "check the path"]);
}

#[test]
fn results_that_cannot_be_saved() {
    let (owner, operator) = (Home::with_key(), Home::new());
    let server = operator.serve("");
    owner.talk_to(server.url());
    owner.write("rows.dat", "1 2 3\n1 2\n");
    owner.json("encrypt rows.dat");
    owner.json("upload rows.oboro");
    for target in ["nowhere/found.json", "rows.oboro"] {
        let message = owner.refused(&format!("mine rows.oboro --min-support 1 --out {target}"));
        says(&message, &["cannot write", target, "directory"]);
    }
    // A result that differs from plaintext is not saved.
    owner.write("others.dat", "1 2 3\n1 3\n");
    owner.refused(
        "mine rows.oboro --min-support 1 --verify others.dat --out found.json --keep-cells 0",
    );
    // Standard output on a full device.
    if std::path::Path::new("/dev/full").exists() {
        let ended = owner
            .start_shell("\"$oboro\" mine rows.oboro --min-support 1 >/dev/full")
            .ended();
        says(&ended.refusal(), &["standard output", "No space left"]);
    }
    // A reader that stops early is no failure.
    let ended = owner
        .start_shell("{ \"$oboro\" mine rows.oboro --min-support 1 --json; echo $? >status; } | :")
        .ended();
    ended.without_panic();
    assert_eq!(ended.stderr, "");
}

#[test]
fn a_full_disk_loses_nothing() {
    let owner = Home::with_key();
    owner.write_fimi("rows.dat", &random_baskets(9_000, 40, 60));
    // A small file system; only some systems allow mounting one without privileges.
    let small = |script: &str| {
        let mount = "mkdir small && mount -t tmpfs -o size=3m tmpfs small";
        format!(
            "unshare --user --map-root-user --mount sh -c '{mount} && {script}'; status=$?; rmdir small; exit $status"
        )
    };
    let possible = owner.start_shell(&small("true")).ended();
    if possible.code != Some(0) {
        println!("skipped: no file system of its own: {}", possible.stderr);
        return;
    }
    let ended = owner
        .start_shell(&small(
            "\"$oboro\" encrypt rows.dat --max-len 3 --out small/rows.oboro || { ls -A small >left; exit 1; }",
        ))
        .ended();
    says(
        &ended.refusal(),
        &[
            "the ciphertext takes",
            "small/rows.oboro has 3145728 free",
            "--min-item-support",
        ],
    );
    assert_eq!(owner.read("left"), b"");
    let ended = owner
        .start_shell(&small(
            "\"$oboro\" generate small/quest.dat --transactions 200000 || { ls -A small >left; exit 1; }",
        ))
        .ended();
    says(&ended.refusal(), &["small/quest.dat", "free space"]);
    assert_eq!(owner.read("left"), b"");

    // A server whose disk is full keeps what it has published.
    owner.json("encrypt rows.dat --max-len 3");
    owner.write("few.dat", "1 2 3\n1 2\n");
    owner.json("encrypt few.dat --max-len 2");
    let operator = owner;
    let script = small(
        r#"
        set -e
        mkfifo listening
        "$oboro" serve --data small/data --listen 127.0.0.1:0 >listening 2>log &
        read -r _ _ OBORO_SERVER <listening
        export OBORO_SERVER
        "$oboro" upload few.oboro >/dev/null
        if "$oboro" upload rows.oboro 2>refusal; then exit 3; fi
        "$oboro" datasets --json >listed
        "$oboro" mine few.oboro --min-support 1 --verify few.dat --keep-cells 0 >/dev/null
        "$oboro" scrub --server "$OBORO_SERVER" >/dev/null
        "$oboro" upload rows.oboro --cancel >/dev/null
        "$oboro" mine few.oboro --min-support 1 --verify few.dat --keep-cells 0 >mined
        kill $!
        wait $!
    "#,
    );
    let ended = operator.start_shell(&script).ended();
    assert_eq!(ended.code, Some(0), "{ended:?}");
    let refusal = String::from_utf8(operator.read("refusal")).unwrap();
    says(
        &refusal,
        &["error: ", "disk full", "resumes where it stopped"],
    );
    let listed: serde_json::Value = serde_json::from_slice(&operator.read("listed")).unwrap();
    assert_eq!(listed.as_array().unwrap().len(), 1);
    assert_eq!(listed[0]["name"], "few");
    let mined = String::from_utf8(operator.read("mined")).unwrap();
    says(
        &mined,
        &[
            "every answer of the server was verified",
            "the same as in plaintext",
        ],
    );
}
