//! The master key: who may read it, how it is protected, and that neither it nor the item names
//! ever leak.

use crate::common::proxy::Proxy;
use crate::common::{Home, Server, each_case, files, flip, says};
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

/// Asserts that the files below `name` are for their owner alone; returns how many there are.
fn assert_private(home: &Home, name: &str) -> usize {
    let files = files(&home.path(name));
    for path in &files {
        assert_eq!(mode(path) & 0o077, 0, "{}", path.display());
    }
    files.len()
}

#[test]
fn what_is_written_is_for_its_owner_alone_whatever_the_umask() {
    let (owner, operator) = (Home::new(), Home::new());
    let run = |home: &Home, line: &str| {
        let script = format!("umask 0; exec \"$oboro\" {line} --json");
        home.start_shell(&script).json()
    };
    owner.write("rows.dat", "1 2 3\n");
    run(&owner, "keygen");
    run(&owner, "encrypt rows.dat");
    assert_eq!(mode(&owner.path("rows.oboro")), 0o700);
    assert!(assert_private(&owner, "oboro.key") + assert_private(&owner, "rows.oboro") > 2);
    // In a directory that others may enter.
    let serve =
        "umask 0; mkdir data; exec \"$oboro\" serve --data data --listen 127.0.0.1:0 --json";
    let server = Server::new(operator.start_shell(serve));
    owner.talk_to(server.url());
    owner.json("upload rows.oboro");
    run(&operator, "backup data copy");
    assert!(assert_private(&operator, "data") + assert_private(&operator, "copy") > 4);
    let operator = Home::new();
    let _server = operator.serve("");
    assert_eq!(mode(&operator.path("data")), 0o700);
}

#[test]
fn keys_and_passphrases_that_others_can_read_are_refused() {
    let owner = encrypted();
    owner.write("passphrase", "open sesame\n");
    let keygen = "keygen --key new.key --passphrase --passphrase-file passphrase";
    for mode in [0o640, 0o604, 0o620, 0o610, 0o601] {
        allow(&owner.path("oboro.key"), mode);
        allow(&owner.path("passphrase"), mode);
        owner.refuses(format!(
            "inspect oboro.key => can be read by others … mode {mode:o} … chmod 600 oboro.key
            {keygen} => can be read by others … chmod 600 passphrase"
        ));
    }
    for command in WITH_KEY {
        owner.refuses(format!("{command} => chmod 600 oboro.key"));
    }
    allow(&owner.path("oboro.key"), 0o400);
    owner.json("inspect oboro.key");
    allow(&owner.path("passphrase"), 0o600);
    if let Err(error) = chown(owner.path("passphrase"), Some(12_345), None) {
        return eprintln!("skipped: only root can give files away ({error})");
    }
    owner.refuses(format!(
        "{keygen} => passphrase belongs to another user (uid 12345 … (chown 0 passphrase)"
    ));
    chown(owner.path("passphrase"), Some(0), None).unwrap();
    owner.json(keygen);
}

#[test]
fn a_key_may_come_through_a_pipe_of_its_owner() {
    let owner = encrypted();
    for (mode, status) in [("600", Some(0)), ("666", Some(4))] {
        let ended = owner.start_shell(&format!(
            "mkfifo -m {mode} pipe{mode}; cat oboro.key >pipe{mode} & \"$oboro\" inspect rows.oboro --key pipe{mode}"
        ));
        let ended = ended.ended();
        assert_eq!(ended.code, status, "{ended:?}");
        let is_public = ended.stderr.contains("can be read by others");
        assert_eq!(is_public, mode == "666");
    }
}

#[test]
fn keys_that_are_not_there_or_not_the_right_ones() {
    let owner = encrypted();
    let operator = Home::new();
    let server = operator.serve("");
    owner.talk_to(server.url());
    owner.json("upload rows.oboro");
    owner.json("keygen --key other.key");
    allow(&owner.path("rows.dat"), 0o600);
    for command in WITH_KEY {
        let command = command.replace(" --key oboro.key", "");
        owner.refuses(format!(
            "{command} --key none.key => cannot read the key file none.key … check the path
            {command} --key rows.dat => rows.dat is not an Oboro key file … oboro keygen
            {command} --key rows.oboro => rows.oboro"
        ));
        if !command.contains("new.oboro") {
            owner.refuses(format!(
                "{command} --key other.key => is not the one that dataset … give the right key file"
            ));
        }
    }
    // Also through the environment.
    owner.set("OBORO_KEY", "other.key");
    owner.refuses("mine rows.oboro --min-support 1 => is not the one that dataset");
    owner.unset("OBORO_KEY");
    owner.json("mine rows.oboro --min-support 1 --verify rows.dat");
    // A key is never replaced.
    let before = owner.read("oboro.key");
    owner.refuses("keygen => oboro.key exists already … move it away");
    assert_eq!(owner.read("oboro.key"), before);
}

#[test]
fn passphrases() {
    let owner = Home::new();
    owner.write("rows.dat", "1 2 3\n");
    for (file, text) in [
        ("passphrase", "open sesame\nnot this\n"),
        ("wrong", "open barley\n"),
        ("empty", "\n"),
    ] {
        owner.write(file, text);
        allow(&owner.path(file), 0o600);
    }
    let keygen = "keygen --passphrase";
    owner.refuses(format!(
        "{keygen} => without a terminal … --passphrase-file or OBORO_PASSPHRASE
        {keygen} --passphrase-file empty => passphrase … first line is empty
        {keygen} --passphrase-file none => cannot read the passphrase file none"
    ));
    let made = owner.json("keygen --passphrase --passphrase-file passphrase");
    assert_eq!(made["passphrase"], true);
    assert_eq!(mode(&owner.path("oboro.key")), 0o600);
    owner.refuses(
        "encrypt rows.dat => is protected by a passphrase … --passphrase-file, OBORO_PASSPHRASE
        encrypt rows.dat --passphrase-file wrong => the passphrase does not open oboro.key … try again",
    );
    owner.set("OBORO_PASSPHRASE", "open barley");
    let message = owner.refused("encrypt rows.dat");
    says(&message, &["the passphrase does not open oboro.key"]);
    assert!(!message.contains("barley"));
    // The file takes precedence over the environment; only its first line is used.
    owner.json("encrypt rows.dat --passphrase-file passphrase");
    owner.set("OBORO_PASSPHRASE", "open sesame");
    for line in ["inspect rows.oboro --key oboro.key", "inspect oboro.key"] {
        assert_eq!(owner.json(line)["key_check"], made["key_check"]);
    }
    // A passphrase in the environment protects new keys, too.
    let made = owner.json("keygen --key second.key");
    assert_eq!(made["passphrase"], true);
    owner.unset("OBORO_PASSPHRASE");
    owner.refuses("inspect second.key => second.key is protected by a passphrase");
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
    owner.refuses(
        "trust show rows.oboro --passphrase-command ./other => the passphrase does not open the output of the command of OBORO_KEY_COMMAND
        trust show rows.oboro --key none.key => cannot read the key file none.key",
    );
    owner.write("passphrase", "open sesame\n");
    allow(&owner.path("passphrase"), 0o600);
    owner.json("trust show rows.oboro --passphrase-file passphrase");
    owner.misuses(
        "trust show rows.oboro --key a --key-command b => cannot be used with … --key-command
        trust show rows.oboro --passphrase-file a --passphrase-command b => cannot be used with",
    );
    for name in ["OBORO_KEY", "OBORO_PASSPHRASE"] {
        owner.set(name, "open sesame");
        owner.refuses(format!(
            "trust show rows.oboro => {name} … {name}_COMMAND … both set"
        ));
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
    each_case(
        "false => OBORO_KEY_COMMAND … failed (exit status 1)
        true => OBORO_KEY_COMMAND … printed nothing
        echo whisper => is not an Oboro key file … oboro keygen
        head -c 119 oboro.key => is damaged
        none-such 2>&- => failed (exit status 127)",
        |command| {
            owner.set("OBORO_KEY_COMMAND", command);
            let message = owner.refused("trust show rows.oboro");
            assert!(!message.contains("whisper"), "{message}");
            message
        },
    );
    // What it says on standard error is for its user.
    owner.set("OBORO_KEY_COMMAND", "echo the vault is sealed >&2; false");
    let ended = owner.run("trust show rows.oboro");
    says(&ended.stderr, &["the vault is sealed\n", "error: "]);
    // A passphrase that is not needed is not asked for.
    owner.set("OBORO_KEY_COMMAND", "cat oboro.key");
    owner.set("OBORO_PASSPHRASE_COMMAND", "touch asked; echo open sesame");
    owner.json("trust show rows.oboro");
    assert!(!owner.path("asked").exists());
    owner.unset("OBORO_KEY_COMMAND");
    each_case(
        "exit 2 => failed (exit status 2)
        echo; echo whisper => no text on its first line
        printf '\\377whisper\\n' => no text on its first line",
        |command| {
            owner.set("OBORO_PASSPHRASE_COMMAND", command);
            let message = owner.refused("keygen --key new.key");
            says(&message, &["OBORO_PASSPHRASE_COMMAND"]);
            assert!(!message.contains("whisper"), "{message}");
            message
        },
    );
}

#[test]
fn a_new_key_goes_into_a_pipe_and_nowhere_else() {
    let owner = Home::new();
    let ended = owner
        .start_shell("\"$oboro\" keygen --key - | base64 >stored")
        .ended();
    assert_eq!((ended.code, &*ended.stdout), (Some(0), ""), "{ended:?}");
    says(&ended.stderr, &["wrote key ", "before you encrypt"]);
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
    let mut printed = Vec::new();
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
            printed.push((command.to_owned(), all.into_bytes()));
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
    let everywhere = beyond_owner.iter().chain(&bundle).chain(&printed);
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
fn the_log_names_calls_by_numbers() {
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
        let [columns] = of("FetchColumns")[..] else {
            panic!("{log}")
        };
        let pairs = of("Count")[0];
        for (line, field, expected) in [
            (pairs, "client", json!("ward")),
            (pairs, "dataset", dataset.clone()),
            (pairs, "level", json!(2)),
            (pairs, "itemsets", json!(3)),
            (columns, "columns", json!(3)),
            (columns, "client", json!("ward")),
        ] {
            assert_eq!(line["span"][field], expected, "{line}");
        }
        assert!(pairs["span"]["limbs"].as_u64() >= Some(2), "{pairs}");
        assert!(pairs["fields"]["bytes_sent"].as_u64() > Some(10_000));
        assert!(pairs["fields"]["microseconds"].as_u64() > Some(0));
        for call in [
            "Count",
            "FetchColumns",
            "BeginUpload",
            "SendSegment",
            "Publish",
            "DeleteDataset",
        ] {
            let line = of(call)[0];
            let ended = (&line["span"]["dataset"], &line["fields"]["outcome"]);
            assert_eq!(ended, (&dataset, &json!("Ok")), "{line}");
        }
        assert_eq!(
            of("ListDatasets")[0]["fields"]["outcome"],
            "Unauthenticated"
        );
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
