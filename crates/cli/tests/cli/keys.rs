//! The master key: who may read it, how it is protected, and that neither it nor the item names
//! ever leak.

use crate::common::proxy::Proxy;
use crate::common::{Home, Server, flip, says};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::Path;

/// The position of the key in a key file (docs/formats.md, "Key file").
const SECRET: std::ops::Range<usize> = 72..104;

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o777
}

fn allow(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

/// An owner with `rows.oboro`, encrypted under `oboro.key`.
fn encrypted() -> Home {
    let owner = Home::with_key();
    owner.write("rows.dat", "1 2 3\n1 2\n2 3\n");
    owner.json("encrypt rows.dat");
    owner
}

/// Commands that need the key.
const WITH_KEY: [&str; 4] = [
    "encrypt rows.dat --out new.oboro",
    "encrypt rows.dat --append-to rows.oboro",
    "mine rows.oboro --min-support 1",
    "inspect rows.oboro --key oboro.key",
];

#[test]
fn only_the_owner_can_read_what_is_the_owners() {
    // Whatever the umask.
    let owner = Home::new();
    let ended = owner
        .start_shell("umask 0; \"$oboro\" keygen --json")
        .ended();
    assert_eq!(ended.code, Some(0), "{ended:?}");
    owner.write("rows.dat", "1 2 3\n");
    let ended = owner
        .start_shell("umask 0; \"$oboro\" encrypt rows.dat")
        .ended();
    assert_eq!(ended.code, Some(0), "{ended:?}");
    assert_eq!(mode(&owner.path("oboro.key")), 0o600);
    assert_eq!(mode(&owner.path("rows.oboro")), 0o700);
    assert_eq!(mode(&owner.path("rows.oboro/head")), 0o600);
    assert_eq!(mode(&owner.path("rows.oboro/segments/00000000.seg")), 0o600);
    let operator = Home::new();
    let _server = operator.serve("");
    assert_eq!(mode(&operator.path("data")), 0o700);
}

#[test]
fn only_the_operator_can_read_what_a_server_and_a_backup_hold() {
    let owner = encrypted();
    let operator = Home::new();
    // In a directory that others may enter, whatever the umask.
    let serve =
        "umask 0; mkdir data; exec \"$oboro\" serve --data data --listen 127.0.0.1:0 --json";
    let server = Server::new(operator.start_shell(serve));
    owner.talk_to(server.url());
    owner.json("upload rows.oboro");
    let backup = "umask 0; \"$oboro\" backup data copy --json";
    let ended = operator.start_shell(backup).ended();
    assert_eq!(ended.code, Some(0), "{ended:?}");
    let mut seen = 0;
    let mut open = vec![operator.path("data"), operator.path("copy")];
    while let Some(path) = open.pop() {
        if path.is_dir() {
            open.extend(fs::read_dir(path).unwrap().map(|it| it.unwrap().path()));
        } else {
            assert_eq!(mode(&path) & 0o077, 0, "{}", path.display());
            seen += 1;
        }
    }
    assert!(seen > 4, "{seen}");
}

#[test]
fn a_key_that_others_can_read_is_refused() {
    let owner = encrypted();
    for mode in [0o640, 0o604, 0o644, 0o620, 0o610, 0o601] {
        allow(&owner.path("oboro.key"), mode);
        for command in WITH_KEY.iter().chain(&["inspect oboro.key"]) {
            let message = owner.refused(command);
            says(&message, &["can be read by others", "chmod 600 oboro.key"]);
            says(&message, &[&format!("mode {mode:o}")]);
        }
    }
    for mode in [0o600, 0o400] {
        allow(&owner.path("oboro.key"), mode);
        owner.json("inspect oboro.key");
    }
}

#[test]
fn a_key_may_come_through_a_pipe_of_its_owners() {
    let owner = encrypted();
    for (mode, status) in [("600", Some(0)), ("666", Some(4))] {
        let script = format!(
            "mkfifo -m {mode} pipe{mode}; cat oboro.key >pipe{mode} & \"$oboro\" inspect rows.oboro --key pipe{mode}"
        );
        let ended = owner.start_shell(&script).ended();
        assert_eq!(ended.code, status, "{ended:?}");
        assert_eq!(
            ended.stderr.contains("can be read by others"),
            status == Some(4)
        );
    }
}

#[test]
fn a_passphrase_that_others_can_read_is_refused() {
    let owner = Home::new();
    owner.write("passphrase", "open sesame\n");
    let keygen = "keygen --passphrase --passphrase-file passphrase";
    for mode in [0o640, 0o604, 0o620] {
        allow(&owner.path("passphrase"), mode);
        let message = owner.refused(keygen);
        says(&message, &["can be read by others", "chmod 600 passphrase"]);
    }
    assert!(!owner.path("oboro.key").exists());
    allow(&owner.path("passphrase"), 0o600);
    owner.json(keygen);
}

#[test]
fn keys_and_passphrases_of_another_user_are_refused() {
    let owner = Home::new();
    owner.write("passphrase", "open sesame\n");
    allow(&owner.path("passphrase"), 0o600);
    owner.json("keygen --passphrase --passphrase-file passphrase");
    owner.write("rows.dat", "1 2 3\n");
    let encrypt = "encrypt rows.dat --passphrase-file passphrase";
    for file in ["oboro.key", "passphrase"] {
        if let Err(error) = chown(owner.path(file), Some(12_345), None) {
            return eprintln!("skipped: only root can give files away ({error})");
        }
        let sentence = format!(
            "{file} belongs to another user (uid 12345, and this process runs as 0), who can read and replace it; make it yours (chown 0 {file}), or use a copy of your own"
        );
        says(&owner.refused(encrypt), &[&sentence]);
        chown(owner.path(file), Some(0), None).unwrap();
    }
    owner.json(encrypt);
}

#[test]
fn keys_that_are_not_there_or_not_the_right_ones() {
    let owner = encrypted();
    let operator = Home::new();
    let server = operator.serve("");
    owner.talk_to(server.url());
    owner.json("upload rows.oboro");
    owner.json("keygen --key other.key");
    let with = |command: &str, key: &str| {
        if command.contains("--key") {
            command.replace("oboro.key", key)
        } else {
            format!("{command} --key {key}")
        }
    };
    for command in &WITH_KEY[1..] {
        let message = owner.refused(&with(command, "other.key"));
        says(
            &message,
            &["is not the one that dataset", "give the right key file"],
        );
    }
    for command in WITH_KEY {
        let message = owner.refused(&with(command, "none.key"));
        says(
            &message,
            &["cannot read the key file none.key", "check the path"],
        );
        allow(&owner.path("rows.dat"), 0o600);
        let message = owner.refused(&with(command, "rows.dat"));
        says(
            &message,
            &["rows.dat is not an Oboro key file", "oboro keygen"],
        );
        let message = owner.refused(&with(command, "rows.oboro"));
        says(&message, &["rows.oboro"]);
    }
    // Also through the environment.
    owner.set("OBORO_KEY", "other.key");
    let message = owner.refused("mine rows.oboro --min-support 1");
    says(&message, &["is not the one that dataset"]);
    owner.unset("OBORO_KEY");
    owner.json("mine rows.oboro --min-support 1 --verify rows.dat");

    // A key is never replaced.
    let before = owner.read("oboro.key");
    let message = owner.refused("keygen");
    says(&message, &["oboro.key exists already", "move it away"]);
    assert_eq!(owner.read("oboro.key"), before);
}

#[test]
fn key_files_that_were_damaged() {
    let owner = Home::with_key();
    let path = owner.path("oboro.key");
    let whole = owner.read("oboro.key");
    assert_eq!(whole.len(), 120);
    owner.write("rows.dat", "1 2 3\n");
    for length in [0, 8, 11] {
        owner.write("oboro.key", &whole[..length]);
        let message = owner.refused("encrypt rows.dat");
        says(&message, &["oboro.key is not an Oboro key file"]);
    }
    for length in [12, 71, 104, 119] {
        owner.write("oboro.key", &whole[..length]);
        let message = owner.refused("encrypt rows.dat");
        says(
            &message,
            &["oboro.key is damaged", "restore it from your backup"],
        );
    }
    owner.write("oboro.key", [&whole[..], b"x"].concat());
    let message = owner.refused("encrypt rows.dat");
    says(&message, &["oboro.key is damaged"]);
    owner.write("oboro.key", [&whole[..8], &[2], &whole[9..]].concat());
    let message = owner.refused("encrypt rows.dat");
    says(&message, &["newer Oboro", "format 2", "update Oboro"]);
    for at in 0..whole.len() {
        owner.write("oboro.key", &whole);
        flip(&path, at);
        let message = owner.refused("encrypt rows.dat");
        says(&message, &["oboro.key"]);
    }
    owner.write("oboro.key", &whole);
    owner.json("encrypt rows.dat");
}

#[test]
fn passphrases() {
    let owner = Home::new();
    owner.write("passphrase", "open sesame\nnot this\n");
    owner.write("wrong", "open barley\n");
    owner.write("empty", "\n");
    owner.write("rows.dat", "1 2 3\n");
    for file in ["passphrase", "wrong", "empty"] {
        allow(&owner.path(file), 0o600);
    }
    let encrypt = "encrypt rows.dat";

    // There is no terminal for a prompt.
    let message = owner.refused("keygen --passphrase");
    says(
        &message,
        &["no terminal", "--passphrase-file or OBORO_PASSPHRASE"],
    );
    let message = owner.refused("keygen --passphrase --passphrase-file empty");
    says(&message, &["passphrase", "first line is empty"]);
    let message = owner.refused("keygen --passphrase --passphrase-file none");
    says(&message, &["cannot read the passphrase file none"]);

    let made = owner.json("keygen --passphrase --passphrase-file passphrase");
    assert_eq!(made["passphrase"], true);
    assert_eq!(mode(&owner.path("oboro.key")), 0o600);
    let message = owner.refused(encrypt);
    says(
        &message,
        &[
            "is protected by a passphrase",
            "--passphrase-file, OBORO_PASSPHRASE",
        ],
    );
    let message = owner.refused(&format!("{encrypt} --passphrase-file wrong"));
    says(
        &message,
        &["the passphrase does not open oboro.key", "try again"],
    );
    owner.set("OBORO_PASSPHRASE", "open barley");
    let message = owner.refused(encrypt);
    says(&message, &["the passphrase does not open oboro.key"]);
    assert!(!message.contains("barley"));
    // The file takes precedence over the environment; only its first line is used.
    owner.json(&format!("{encrypt} --passphrase-file passphrase"));
    owner.set("OBORO_PASSPHRASE", "open sesame");
    let inspected = owner.json("inspect rows.oboro --key oboro.key");
    assert_eq!(inspected["key_check"], made["key_check"]);
    let inspected = owner.json("inspect oboro.key");
    assert_eq!(inspected["key_check"], made["key_check"]);

    // Nonce, salt and cost are authenticated like the key itself.
    let whole = owner.read("oboro.key");
    for at in [16, 20, 24, 28, 32, 47, 48, 71, 72, 103, 104, 119] {
        let mut damaged = whole.clone();
        damaged[at] ^= 0x80;
        owner.write("oboro.key", damaged);
        let message = owner.refused("inspect oboro.key");
        says(&message, &["oboro.key", "from your backup"]);
    }
    // Costs that would exhaust the machine are refused.
    let mut damaged = whole.clone();
    damaged[16..28].fill(0xff);
    owner.write("oboro.key", damaged);
    let message = owner.refused("inspect oboro.key");
    says(&message, &["oboro.key is damaged", "Argon2id costs"]);
    owner.write("oboro.key", &whole);

    // A passphrase in the environment protects new keys, too.
    let made = owner.json("keygen --key second.key");
    assert_eq!(made["passphrase"], true);
    owner.unset("OBORO_PASSPHRASE");
    let message = owner.refused("inspect second.key");
    says(&message, &["second.key is protected by a passphrase"]);
}

#[test]
fn a_key_and_its_passphrase_may_come_from_commands() {
    let owner = Home::new();
    owner.write("rows.dat", "1 2 3\n1 2\n2 3\n");
    owner.set(
        "OBORO_PASSPHRASE_COMMAND",
        "echo open sesame; echo not this",
    );
    owner.set("OBORO_KEY", "kept");
    let made = owner.json("keygen");
    assert_eq!(made["passphrase"], true);
    owner.unset("OBORO_KEY");
    owner.set("OBORO_KEY_COMMAND", "base64 -d stored");
    let ended = owner.start_shell("base64 <kept >stored; rm kept").ended();
    assert_eq!(ended.code, Some(0));
    owner.json("encrypt rows.dat");
    // Those of the command line go before the environment.
    owner.write("other", "#!/bin/sh\necho open barley\n");
    allow(&owner.path("other"), 0o700);
    let message = owner.refused("trust show rows.oboro --passphrase-command ./other");
    says(
        &message,
        &["the passphrase does not open what the command of OBORO_KEY_COMMAND prints"],
    );
    let message = owner.refused("trust show rows.oboro --key none.key");
    says(&message, &["cannot read the key file none.key"]);
    owner.write("passphrase", "open sesame\n");
    allow(&owner.path("passphrase"), 0o600);
    owner.json("trust show rows.oboro --passphrase-file passphrase");
    for (one, other) in [
        ("--key", "--key-command"),
        ("--passphrase-file", "--passphrase-command"),
    ] {
        let message = owner.misused(&format!("trust show rows.oboro {one} a {other} b"));
        says(&message, &[one, other, "cannot be used with"]);
    }
    for name in ["OBORO_KEY", "OBORO_PASSPHRASE"] {
        owner.set(name, "open sesame");
        let message = owner.refused("trust show rows.oboro");
        says(&message, &[name, &format!("{name}_COMMAND"), "both set"]);
        owner.unset(name);
    }
    // Of another key, and of the new one.
    owner.write("new", "#!/bin/sh\ncat new.key\n");
    allow(&owner.path("new"), 0o700);
    let new = owner.json("keygen --key new.key");
    let rotate = "rotate rows.oboro --new-key-command ./new";
    let rotated = owner.json(&format!("{rotate} --new-passphrase-file passphrase"));
    assert_eq!(rotated["key_check"], new["key_check"]);
    let inspect = "inspect rows.oboro --key-command ./new";
    assert_eq!(owner.json(inspect)["items"].as_array().unwrap().len(), 3);
}

#[test]
fn commands_that_give_no_key_or_passphrase() {
    let owner = encrypted();
    for (command, phrases) in [
        (
            "false",
            &["OBORO_KEY_COMMAND", "failed (exit status 1)"][..],
        ),
        ("echo whisper; exit 7", &["failed (exit status 7)"]),
        ("true", &["OBORO_KEY_COMMAND", "printed nothing"]),
        ("yes whisper", &["printed more than 4096 bytes"]),
        (
            "echo whisper",
            &["is not an Oboro key file", "oboro keygen"],
        ),
        ("head -c 119 oboro.key", &["is damaged"]),
        ("none-such 2>&-", &["failed (exit status 127)"]),
    ] {
        owner.set("OBORO_KEY_COMMAND", command);
        let message = owner.refused("trust show rows.oboro");
        says(&message, phrases);
        assert!(!message.contains("whisper"), "{message}");
    }
    // What it says on standard error is for its user.
    owner.set("OBORO_KEY_COMMAND", "echo the vault is sealed >&2; false");
    let ended = owner.run("trust show rows.oboro");
    says(&ended.stderr, &["the vault is sealed\n", "error: "]);
    // A passphrase that nobody needs is not asked for.
    owner.set("OBORO_KEY_COMMAND", "cat oboro.key");
    owner.set("OBORO_PASSPHRASE_COMMAND", "touch asked; echo open sesame");
    owner.json("trust show rows.oboro");
    assert!(!owner.path("asked").exists());
    owner.unset("OBORO_KEY_COMMAND");
    for (command, phrase) in [
        ("exit 2", "failed (exit status 2)"),
        ("echo; echo whisper", "no text on its first line"),
        ("printf '\\377whisper\\n'", "no text on its first line"),
    ] {
        owner.set("OBORO_PASSPHRASE_COMMAND", command);
        let message = owner.refused("keygen --key new.key");
        says(&message, &["OBORO_PASSPHRASE_COMMAND", phrase]);
        assert!(!message.contains("whisper"), "{message}");
    }
}

#[test]
fn a_new_key_goes_into_a_pipe_and_nowhere_else() {
    let owner = Home::new();
    let ended = owner
        .start_shell("\"$oboro\" keygen --key - | base64 >stored")
        .ended();
    assert_eq!((ended.code, &*ended.stdout), (Some(0), ""), "{ended:?}");
    says(
        &ended.stderr,
        &["wrote key ", "before you encrypt anything"],
    );
    owner.set("OBORO_KEY_COMMAND", "base64 -d stored");
    owner.write("rows.dat", "1 2 3\n");
    let check = ended.stderr.split(' ').nth(2).unwrap();
    owner.json("encrypt rows.dat");
    assert_eq!(owner.json("inspect rows.oboro")["key_check"], check);
    let ended = owner.start_shell("\"$oboro\" keygen --key - >key").ended();
    assert_eq!(ended.code, Some(3), "{ended:?}");
    says(&ended.stderr, &["is not a pipe", "--key"]);
    assert_eq!(owner.read("key"), b"");
    assert!(!owner.path("-").exists());
}

#[test]
fn no_secret_shows_anywhere_but_where_it_belongs() {
    const NAMES: [&str; 6] = [
        "zwetschgendatschi",
        "kaiserschmarrn",
        "marillenknoedel",
        "apfelstrudel",
        "sachertorte",
        "topfengolatsche",
    ];
    let (owner, operator) = (Home::with_key(), Home::new());
    let token = operator.token("ward");
    owner.write("token", format!("{token}\n"));
    operator.set("OBORO_LOG", "trace");
    owner.set("OBORO_LOG", "trace");
    let basket = |row: usize| {
        let chosen = (0..NAMES.len()).filter(|item| (row * 7 + 3) >> item & 1 == 1);
        chosen.map(|item| NAMES[item]).collect::<Vec<_>>().join(",") + "\n"
    };
    owner.write("rows.csv", (0..300).map(basket).collect::<String>());
    let key = owner.read("oboro.key")[SECRET].to_vec();

    let server = operator.serve("--tokens tokens");
    let proxy = Proxy::to(server.address());
    owner.talk_to(&proxy.url());
    let mut told = Vec::new();
    for (command, shows_names) in [
        ("keygen --key other.key", false),
        // How the file was read: the sparsest and the densest item.
        ("encrypt rows.csv --max-len 3", true),
        ("inspect oboro.key", false),
        ("inspect rows.oboro", false),
        ("upload rows.oboro --token-file token", false),
        ("datasets --token-file token", false),
        (
            "mine rows.oboro --min-support 1 --out found.json --verify rows.csv --token-file token",
            true,
        ),
        ("rules found.json --min 0", true),
        ("encrypt rows.csv --append-to rows.oboro", true),
        ("upload rows.oboro --token-file token", false),
        // Failures reveal no more.
        (
            "mine rows.oboro --min-support 1 --key other.key --token-file token",
            false,
        ),
        (
            "mine rows.oboro --min-support 1 --name other --token-file token",
            false,
        ),
        ("upload rows.oboro", false),
        ("delete rows --yes --now --token-file token", false),
    ] {
        for json in ["", "--json"] {
            if !json.is_empty() && (command.contains("keygen") || command.contains("encrypt")) {
                continue;
            }
            let ended = owner.run(&format!("{command} {json}"));
            ended.without_panic();
            let all = [ended.stdout, ended.stderr].concat();
            let here = NAMES.iter().any(|name| all.contains(name));
            assert_eq!(here, shows_names, "{command}: {all}");
            told.push((command.to_owned(), all.into_bytes()));
        }
    }
    server.terminate();
    let log = server.ended().stderr;
    assert!(
        log.contains("TRACE") && log.contains("FetchColumns") && log.contains("ward"),
        "{log}"
    );
    let traffic = proxy.recorded();
    assert!(traffic.len() > 100_000);

    let mut beyond_owner = vec![
        ("the log".to_owned(), log.into_bytes()),
        ("the traffic".to_owned(), traffic),
    ];
    let named = |contents: Vec<(std::path::PathBuf, Vec<u8>)>| {
        contents
            .into_iter()
            .map(|(path, content)| (path.display().to_string(), content))
    };
    beyond_owner.extend(named(operator.contents("data")));
    let bundle: Vec<_> = named(owner.contents("rows.oboro")).collect();
    for (place, content) in beyond_owner.iter().chain(&bundle) {
        for name in NAMES {
            assert!(!has(content, name.as_bytes()), "{name} in {place}");
        }
    }
    let everywhere = beyond_owner.iter().chain(&bundle).chain(&told);
    for (place, content) in everywhere {
        for form in spellings(&key) {
            assert!(!has(content, &form), "the key in {place}");
        }
        // The token is sent in the clear on loopback only, with or without HTTP/2 compression.
        if place != "the traffic" {
            assert!(!has(content, token.as_bytes()), "the token in {place}");
        }
    }
}

#[test]
fn the_log_tells_calls_by_numbers() {
    const NAME: &str = "confidential-name-of-a-study";
    for level in ["info", "debug"] {
        let (owner, operator) = (Home::with_key(), Home::new());
        let token = operator.token("ward");
        operator.set("OBORO_LOG", level);
        let server = operator.serve("--tokens tokens --log-format json");
        owner.talk_to(server.url());
        owner.write("token", &token);
        owner.write("rows.dat", "1 2 3\n1 2\n2 3\n");
        let dataset = owner.json("encrypt rows.dat --max-len 2")["dataset"].clone();
        for command in [
            "upload rows.oboro",
            "mine rows.oboro --min-support 1 --no-deduction --trust-server",
            "mine rows.oboro --min-support 1 --keep-cells 0 --answers cells",
        ] {
            owner.json(&format!("{command} --name {NAME} --token-file token"));
            owner.json("trust reset rows.oboro");
        }
        owner.refused("datasets");
        owner.json(&format!("delete {NAME} --yes --now --token-file token"));
        server.terminate();
        let log = server.ended().stderr;
        assert!(!log.contains(&token), "{log}");
        assert_eq!(log.contains(NAME), level == "debug", "{log}");

        let lines = log.lines().map(|line| serde_json::from_str(line).unwrap());
        let ended: Vec<Value> = lines
            .filter(|line: &Value| line["fields"]["message"] == "ended")
            .collect();
        let of = |call: &str| -> Vec<&Value> {
            let of_it = ended.iter().filter(|line| line["span"]["call"] == call);
            of_it.collect()
        };
        let pairs = of("Count")[0];
        for (field, expected) in [
            ("client", json!("ward")),
            ("dataset", dataset.clone()),
            ("level", json!(2)),
            ("itemsets", json!(3)),
        ] {
            assert_eq!(pairs["span"][field], expected, "{pairs}");
        }
        assert!(pairs["span"]["limbs"].as_u64() >= Some(2), "{pairs}");
        assert_eq!(pairs["fields"]["outcome"], "Ok");
        assert!(pairs["fields"]["bytes_sent"].as_u64() > Some(10_000));
        assert!(pairs["fields"]["microseconds"].as_u64() > Some(0));
        let [columns] = of("FetchColumns")[..] else {
            panic!("{log}")
        };
        assert_eq!(columns["span"]["columns"], 3);
        assert_eq!(columns["span"]["client"], "ward");
        for call in [
            "FetchColumns",
            "BeginUpload",
            "SendSegment",
            "Publish",
            "DeleteDataset",
        ] {
            let [line] = of(call)[..] else {
                panic!("{call}: {log}")
            };
            assert_eq!(line["span"]["dataset"], dataset, "{line}");
            assert_eq!(line["fields"]["outcome"], "Ok");
        }
        let [refused] = of("ListDatasets")[..] else {
            panic!("{log}")
        };
        assert_eq!(refused["fields"]["outcome"], "Unauthenticated");
        let numbers: BTreeSet<&str> = ended
            .iter()
            .map(|line| line["span"]["request"].as_str().unwrap())
            .collect();
        assert_eq!(numbers.len(), ended.len());
    }
}

/// The encodings in which a bug could leak a key; half of it would be enough.
fn spellings(key: &[u8]) -> Vec<Vec<u8>> {
    let hex = |bytes: &[u8]| bytes.iter().map(|b| format!("{b:02x}")).collect::<String>();
    let decimal = |bytes: &[u8]| {
        let numbers: Vec<String> = bytes.iter().map(u8::to_string).collect();
        numbers.join(", ")
    };
    key.chunks(16)
        .flat_map(|half| {
            [
                half.to_vec(),
                hex(half).into_bytes(),
                hex(half).to_uppercase().into_bytes(),
                decimal(half).into_bytes(),
            ]
        })
        .collect()
}

fn has(content: &[u8], what: &[u8]) -> bool {
    content.windows(what.len()).any(|window| window == what)
}

#[test]
fn the_search_for_secrets_finds_them() {
    let owner = Home::with_key();
    let file = owner.read("oboro.key");
    let key = file[SECRET].to_vec();
    for form in spellings(&key) {
        assert!(has(&[b"before", &form[..], b"after"].concat(), &form));
    }
    assert!(has(&file, &key));
    // This is the key: with a bit of it changed, the file is refused.
    flip(&owner.path("oboro.key"), SECRET.start);
    let message = owner.refused("inspect oboro.key");
    says(&message, &["damaged", "check value"]);
}
