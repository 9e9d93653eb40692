//! Servers whose datasets are in object storage: in a directory, and in S3 if a server for it is installed (make
//! test-s3).

use crate::common::plaintext::random_baskets;
use crate::common::s3::S3;
use crate::common::{Home, Server, flip, says, until};
use std::fs;
use std::path::PathBuf;
use std::thread;
use std::time::Duration;

/// Object storage of one kind, an owner, and the operator of servers.
struct Setting {
    owner: Home,
    operator: Home,
    s3: Option<S3>,
}

impl Setting {
    fn new(s3: Option<S3>) -> Self {
        let (owner, operator) = (Home::with_key(), Home::new());
        owner.write_fimi("rows.dat", &random_baskets(3_000, 20, 96));
        owner.write("twice.dat", owner.read("rows.dat").repeat(2));
        if let Some(s3) = &s3 {
            s3.known_to(&operator);
            // Not every connection attempt.
            operator.set("OBORO_LOG", "warn");
        }
        Self {
            owner,
            operator,
            s3,
        }
    }

    /// In a directory, and in S3 if available.
    fn all() -> impl Iterator<Item = Self> {
        let s3 = S3::start().map(Some);
        [None].into_iter().chain(s3).map(Self::new)
    }

    fn url(&self) -> String {
        match &self.s3 {
            Some(s3) => s3.url(),
            None => format!("file://{}", self.objects().display()),
        }
    }

    fn objects(&self) -> PathBuf {
        match &self.s3 {
            Some(s3) => s3.objects(),
            None => self.operator.path("objects"),
        }
    }

    /// Starts a server that the owner uses from now on.
    fn serve(&self, cache: &str, options: &str) -> Server {
        let server = self
            .operator
            .serve_from(&self.url(), &format!("--cache {cache} {options}"));
        self.owner.talk_to(server.url());
        server
    }

    fn encrypt_and_upload(&self) {
        self.owner.json("encrypt rows.dat --max-len 3");
        self.owner.json("upload rows.oboro");
    }

    /// The names of all objects, without those of the store as a whole and temporary files of interrupted writes in a directory.
    fn names(&self) -> Vec<String> {
        let mut open = vec![self.objects()];
        let mut names = Vec::new();
        while let Some(next) = open.pop() {
            for entry in fs::read_dir(next)
                .unwrap()
                .map(|entry| entry.unwrap().path())
            {
                if entry.is_dir() {
                    open.push(entry)
                } else {
                    let name = entry.strip_prefix(self.objects()).unwrap();
                    names.push(name.to_str().unwrap().to_owned());
                }
            }
        }
        names.retain(|name| !name.contains('#') && name != "grants" && name != "identity");
        names.sort();
        names
    }

    /// The object of the only dataset's first segment.
    fn segment(&self) -> PathBuf {
        let names = self.names();
        let name = names.iter().find(|name| name.ends_with("00000000.seg"));
        self.objects().join(name.unwrap())
    }
}

const MINE: &str = "mine rows.oboro --min-support 20% --trust-server --verify";

#[test]
fn what_was_uploaded_is_mined_whatever_the_server_has_here() {
    for setting in Setting::all() {
        let owner = &setting.owner;
        let server = setting.serve("cache", "");
        setting.encrypt_and_upload();
        owner.json(&format!("{MINE} rows.dat"));
        drop(server);
        // None, smaller than the data, and one left by another server.
        for (cache, options) in [
            ("empty", "--moment-cache 0"),
            ("small", "--moment-cache 0 --cache-size 1MiB"),
            (
                "streamed",
                "--moment-cache 0 --memory 700MiB --cache-size 1MiB",
            ),
            ("cache", "--moment-cache 0 --memory 700MiB"),
        ] {
            let _server = setting.serve(cache, options);
            owner.json(&format!("{MINE} rows.dat"));
            owner.json("trust reset rows.oboro");
            let columns = "mine rows.oboro --min-support 20% --keep-cells 0 --verify rows.dat";
            owner.json(columns);
        }
        let _server = setting.serve("empty", "");
        owner.json("encrypt rows.dat --append-to rows.oboro --no-absorb");
        assert_eq!(owner.json("upload rows.oboro")["version"], 2);
        owner.json(&format!("{MINE} twice.dat"));
        let server = setting.serve("new", "");
        owner.json(&format!("{MINE} twice.dat"));
        let scrubbed = owner.json(&format!("scrub --server {}", server.url()));
        assert_eq!(scrubbed["damaged_parts"], 0);
        owner.json("delete rows --yes --now");
        assert_eq!(setting.names(), ["catalogue.sqlite"]);
        drop(server);
        let _server = setting.serve("cache", "");
        assert_eq!(owner.json("datasets"), serde_json::json!([]));
    }
}

#[test]
fn segments_of_several_chunks_are_stored_and_fetched() {
    for setting in Setting::all() {
        let owner = &setting.owner;
        owner.write_fimi("rows.dat", &random_baskets(150_000, 20, 96));
        let server = setting.serve("cache", "");
        setting.encrypt_and_upload();
        drop(server);
        // Chunks have eight mebibytes.
        let bytes = fs::metadata(setting.segment()).unwrap().len();
        assert!(bytes > 16 << 20, "{bytes}");
        let _server = setting.serve("empty", "");
        owner.json(&format!("{MINE} rows.dat"));
    }
}

/// The operator's log names the object.
fn names_the_object(server: &Server) {
    let is_named = || server.log().contains("00000000.seg").then_some(());
    until("the log names the object", is_named);
}

#[test]
fn damaged_and_missing_objects_are_named() {
    for setting in Setting::all() {
        let owner = &setting.owner;
        let server = setting.serve("cache", "");
        setting.encrypt_and_upload();
        drop(server);
        let object = setting.segment();
        let end = fs::metadata(&object).unwrap().len() as usize - 5000;
        flip(&object, end);
        let server = setting.serve("empty", "--moment-cache 0");
        let ended = owner.run(&format!("scrub --server {} --json", server.url()));
        assert_eq!(ended.code, Some(8), "{ended:?}");
        says(&ended.stdout, &["segment 0", "digest", "Restore it"]);
        flip(&object, end);
        owner.json(&format!("{MINE} rows.dat"));
        drop(server);
        // From the first panel on.
        let mut bytes = fs::read(&object).unwrap();
        let header = bytes.len() / 10;
        bytes[header..].fill(0xa5);
        fs::write(&object, bytes).unwrap();
        for (cache, end, word) in [("other", None, "digest"), ("short", Some(header), "length")] {
            if let Some(end) = end {
                let object = fs::File::options().write(true).open(&object).unwrap();
                object.set_len(end as u64).unwrap();
            }
            let server = setting.serve(cache, "--moment-cache 0");
            let said = owner.refused(&format!("{MINE} rows.dat"));
            says(&said, &["panel (limb", "segment 0", word]);
            names_the_object(&server);
        }
        fs::remove_file(&object).unwrap();
        let server = setting.serve("third", "");
        let said = owner.refused(&format!("{MINE} rows.dat"));
        says(&said, &["segment 0", "is missing"]);
        names_the_object(&server);
        // The first server's cache is intact, which is enough.
        drop(server);
        let _server = setting.serve("cache", "");
        owner.json(&format!("{MINE} rows.dat"));
    }
}

#[test]
fn of_two_servers_the_later_one_writes() {
    for setting in Setting::all() {
        let owner = &setting.owner;
        let first = setting.serve("cache", "");
        setting.encrypt_and_upload();
        let second = setting.serve("other", "");
        owner.talk_to(first.url());
        let said = owner.refused("delete rows --yes --now");
        says(&said, &["another server writes", "only one"]);
        owner.json(&format!("{MINE} rows.dat"));
        owner.talk_to(second.url());
        owner.json("delete rows --yes --now");
    }
}

#[test]
fn storage_out_of_reach_is_named_and_comes_back() {
    let Some(s3) = S3::start() else { return };
    let mut setting = Setting::new(Some(s3));
    let server = setting.serve("cache", "");
    setting.encrypt_and_upload();
    drop(server);
    let server = setting.serve("empty", "--moment-cache 0");
    setting.s3.as_mut().unwrap().stop();
    for line in [&format!("{MINE} rows.dat"), "delete rows --yes --now"] {
        let said = setting.owner.run(line).refusal();
        says(&said, &["cannot be reached", "operator"]);
        assert!(!said.contains("s3://"), "{said}");
    }
    until("the log names the objects", || {
        let log = server.log();
        let named = ["00000000.seg", "catalogue.sqlite"];
        named.iter().all(|name| log.contains(name)).then_some(())
    });
    let start = format!("serve --data {} --cache third", setting.url());
    says(
        &setting.operator.run(&start).refusal(),
        &["cannot be reached", "AWS_"],
    );
    setting.s3.as_mut().unwrap().resume();
    setting.owner.json(&format!("{MINE} rows.dat"));
    setting.owner.json("delete rows --yes --now");
    assert_eq!(setting.names(), ["catalogue.sqlite"]);
}

/// This test is about timing: it may sleep.
#[test]
fn a_server_killed_while_it_publishes_leaves_the_old_state_or_the_new_one() {
    for setting in Setting::all() {
        let owner = &setting.owner;
        let mut server = setting.serve("cache", "");
        for round in 0..8u64 {
            let cache = ["cache", "cache", "other", "empty"][round as usize % 4];
            let bundle = format!("r{round}.oboro");
            owner.json(&format!("encrypt rows.dat --out {bundle} --max-len 2"));
            let upload = format!("upload {bundle} --name rows");
            for line in [upload.as_str(), "delete rows --yes --now"] {
                let mut process = owner.start(line);
                thread::sleep(Duration::from_millis(20 + 37 * (round * 7 % 8)));
                server.kill();
                process.kill();
                let _ = fs::remove_dir_all(setting.operator.path("empty"));
                server = setting.serve(cache, "");
                let there = owner.json("datasets");
                if !there.as_array().unwrap().is_empty() {
                    let mine = format!("mine {bundle} --name rows --min-support 20%");
                    owner.json(&format!("{mine} --verify rows.dat"));
                } else if line == upload {
                    owner.json(&upload);
                }
            }
            let _ = owner.run("delete rows --yes --now");
            assert_eq!(setting.names(), ["catalogue.sqlite"], "round {round}");
        }
    }
}
