//! Processes killed (SIGKILL) at random moments, repeatedly: a server during every kind of call, and an owner's
//! `encrypt`. Whatever was acknowledged is present afterwards, and the same command succeeds when run again.
//!
//! The moments are drawn from a fixed seed, but their effect depends on timing: only this test sleeps.

use crate::common::plaintext::random_baskets;
use crate::common::{Home, Server, says, until};
use serde_json::Value;
use std::thread;
use std::time::Duration;

/// Rounds of four kills of a server, and kills of an owner.
fn rounds() -> u64 {
    match std::env::var_os("OBORO_FAULTS") {
        Some(_) => 40,
        None => 5,
    }
}

/// Random delays up to a maximum.
struct Moments(u64);

impl Moments {
    fn wait(&mut self, most: Duration) {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        thread::sleep(most.mul_f64((self.0 >> 33) as f64 / f64::from(1u32 << 31)));
    }
}

/// A server that is killed and restarted on the same data.
struct Mortal<'a> {
    owner: &'a Home,
    operator: &'a Home,
    server: Option<Server>,
    moments: Moments,
}

impl<'a> Mortal<'a> {
    fn new(owner: &'a Home, operator: &'a Home, seed: u64) -> Self {
        let mut mortal = Self {
            owner,
            operator,
            server: None,
            moments: Moments(seed),
        };
        mortal.start();
        mortal
    }

    fn start(&mut self) {
        let server = self.operator.serve("");
        self.owner.talk_to(server.url());
        self.server = Some(server);
    }

    /// Kills the server some time after `line` has begun, and restarts it.
    fn killed_during(&mut self, line: &str) {
        let mut process = self.owner.start(line);
        self.moments.wait(Duration::from_millis(50));
        self.server.take().unwrap().kill();
        // It would retry for as long as a server takes to restart, and at the old address.
        process.kill();
        self.start();
    }

    /// The versions of all datasets that are published.
    fn versions(&self) -> Vec<u64> {
        let listed = self.owner.json("datasets");
        let version = |d: &Value| d["version"].as_u64().unwrap();
        listed.as_array().unwrap().iter().map(version).collect()
    }
}

/// An owner with `rows.dat` and the same `twice.dat`, and an operator.
fn homes() -> (Home, Home) {
    let (owner, operator) = (Home::with_key(), Home::new());
    owner.write_fimi("rows.dat", &random_baskets(3_000, 20, 96));
    owner.write("twice.dat", owner.read("rows.dat").repeat(2));
    (owner, operator)
}

#[test]
fn a_server_killed_at_any_moment_keeps_its_promises() {
    let (owner, operator) = homes();
    let mut mortal = Mortal::new(&owner, &operator, 1);
    for round in 0..rounds() {
        let bundle = format!("r{round}.oboro");
        owner.json(&format!("encrypt rows.dat --out {bundle} --max-len 2"));
        let upload = format!("upload {bundle} --name rows");
        let route = ["--trust-server", "--keep-cells 0"][round as usize % 2];
        let mine = format!("mine {bundle} --name rows --min-support 20% {route}");

        mortal.killed_during(&upload);
        assert!([vec![], vec![1]].contains(&mortal.versions()));
        assert_eq!(owner.json(&upload)["version"], 1);
        mortal.killed_during(&mine);
        assert_eq!(mortal.versions(), [1]);
        owner.json(&format!("{mine} --verify rows.dat"));

        owner.json(&format!("encrypt rows.dat --append-to {bundle}"));
        mortal.killed_during(&upload);
        assert!([vec![1], vec![2]].contains(&mortal.versions()));
        assert_eq!(owner.json(&upload)["version"], 2);
        owner.json(&format!("{mine} --verify twice.dat"));

        mortal.killed_during("delete rows --yes --now");
        match &mortal.versions()[..] {
            [] => drop(owner.refused(&upload)),
            versions => {
                assert_eq!(versions, [2]);
                owner.json(&format!("{mine} --verify twice.dat"));
                owner.json("delete rows --yes --now");
            }
        }
        assert_eq!(mortal.versions(), [0; 0]);
    }
    // Nothing of that is left, and nothing was quarantined.
    let left = operator.contents("data");
    assert!(
        !left
            .iter()
            .any(|(path, _)| path.to_str().unwrap().contains(".seg")),
        "{left:?}"
    );
}

#[test]
fn a_backup_taken_at_any_moment_can_be_restored() {
    let (owner, operator) = homes();
    let mut mortal = Mortal::new(&owner, &operator, 3);
    for round in 0..rounds() {
        for name in ["rows", "gone", "late"] {
            owner.json(&format!(
                "encrypt rows.dat --out {name}{round}.oboro --max-len 2"
            ));
        }
        let [rows, gone, late] = ["rows", "gone", "late"].map(|name| format!("{name}{round}"));
        owner.json(&format!("upload {rows}.oboro"));
        owner.json(&format!("upload {gone}.oboro"));
        owner.copy(&format!("{rows}.oboro"), &format!("{rows}-1.oboro"));
        owner.json(&format!("encrypt rows.dat --append-to {rows}.oboro"));

        // An append, an upload and a deletion are in progress during the backup.
        let busy = ["upload rows", "upload late", "delete gone --yes --now"].map(|call| {
            let end = if call.starts_with("upload") {
                ".oboro"
            } else {
                ""
            };
            owner.start(&format!("{call}{round}{end}"))
        });
        mortal.moments.wait(Duration::from_millis(30));
        operator.json(&format!("backup data copy{round}"));
        mortal.server.take().unwrap().kill();
        drop(busy);

        // The original is lost; a backup is restored by copying it back.
        std::fs::remove_dir_all(operator.path("data")).unwrap();
        operator.json(&format!("backup copy{round} data"));
        let scrubbed = operator.json("scrub data");
        assert_eq!(scrubbed["damaged_parts"], 0);
        mortal.start();
        let mine = |bundle: &str, name: &str, input: &str| {
            owner.json(&format!(
                "mine {bundle}.oboro --name {name} --min-support 20% --verify {input}"
            ))
        };
        let listed = owner.json("datasets");
        for dataset in listed.as_array().unwrap() {
            let name = dataset["name"].as_str().unwrap();
            match dataset["version"].as_u64().unwrap() {
                1 if name == rows => mine(&format!("{name}-1"), name, "rows.dat"),
                1 => mine(name, name, "rows.dat"),
                _ => mine(name, name, "twice.dat"),
            };
        }
        // Owners send what is missing again.
        assert_eq!(owner.json(&format!("upload {rows}.oboro"))["version"], 2);
        mine(&rows, &rows, "twice.dat");
        owner.json(&format!("upload {late}.oboro"));
        for name in [&rows, &late] {
            owner.json(&format!("delete {name} --yes --now"));
        }
        let _ = owner.run(&format!("delete {gone} --yes --now"));
    }
}

/// Whether something is begun and not done.
fn is_partly_there(owner: &Home) -> bool {
    let listing = owner.listing();
    let mut names = listing.iter().filter_map(|(path, ..)| path.file_name());
    names.any(|name| name.to_str().unwrap().contains("partial"))
}

#[test]
fn encryption_that_ctrl_c_ends_leaves_nothing() {
    let owner = Home::with_key();
    // Takes longer than a signal takes to arrive.
    owner.write_fimi("rows.dat", &random_baskets(500_000, 40, 96));
    let encryption = owner.start_interruptible("encrypt rows.dat --max-len 2 --threads 1");
    until("it has begun", || is_partly_there(&owner).then_some(()));
    encryption.signal("INT");
    let ended = encryption.ended();
    assert_eq!(ended.code, Some(130), "{ended:?}");
    says(&ended.stderr, &["nothing is left of it, run it again"]);
    assert!(!is_partly_there(&owner), "{:?}", owner.listing());
    assert!(!owner.path("rows.oboro").exists());
}

#[test]
fn an_owner_killed_at_any_moment_can_go_on() {
    let owner = Home::with_key();
    owner.write_fimi("rows.dat", &random_baskets(4_000, 20, 96));
    let mut moments = Moments(2);
    for _ in 0..2 * rounds() {
        let mut process = owner.start("encrypt rows.dat --max-len 2");
        moments.wait(Duration::from_millis(120));
        process.kill();
        if !owner.path("rows.oboro").exists() {
            owner.json("encrypt rows.dat --max-len 2");
        }
        for version in 1..3 {
            let inspected = owner.json("inspect rows.oboro --verify --key oboro.key");
            assert_eq!(inspected["version"], version);
            let mut process = owner.start("encrypt rows.dat --append-to rows.oboro");
            moments.wait(Duration::from_millis(120));
            process.kill();
            let inspected = owner.json("inspect rows.oboro --verify --key oboro.key");
            if inspected["version"] == version {
                owner.json("encrypt rows.dat --append-to rows.oboro");
            }
        }
        assert!(!is_partly_there(&owner), "{:?}", owner.listing());
        std::fs::remove_dir_all(owner.path("rows.oboro")).unwrap();
    }
}
