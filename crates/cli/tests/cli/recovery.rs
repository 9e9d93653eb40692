//! An owner who lost the directory of a dataset, and the record that the server keeps of it: what it gives back, and that
//! nothing else passes for it.

use crate::common::plaintext::random_baskets;
use crate::common::{Home, Server, flip, says};
use std::fs;
use std::path::PathBuf;

/// An owner whose dataset the server publishes and keeps the record of.
struct Scene {
    owner: Home,
    operator: Home,
    server: Server,
    root: String,
}

impl Scene {
    fn new() -> Self {
        let (owner, operator) = (Home::with_key(), Home::new());
        let server = operator.serve("");
        owner.talk_to(server.url());
        owner.set("OBORO_RECOVERY_PASSPHRASE", "open sesame");
        owner.write_fimi("rows.dat", &random_baskets(300, 6, 128));
        owner.write_fimi("more.dat", &random_baskets(100, 6, 129));
        owner.json("encrypt rows.dat --max-len 3");
        let uploaded = owner.json("upload rows.oboro --keep-record");
        let root = uploaded["root"].as_str().unwrap().to_owned();
        Self {
            owner,
            operator,
            server,
            root,
        }
    }

    /// The file in which the server keeps the record.
    fn kept(&self, dataset: &str) -> PathBuf {
        self.operator.path("data/recovery").join(dataset)
    }

    fn dataset(&self) -> String {
        let inspected = self.owner.json("inspect rows.oboro");
        inspected["dataset"].as_str().unwrap().to_owned()
    }
}

const RECOVER: &str = "recover rows --out again.oboro";

#[test]
fn a_lost_directory_is_recovered_and_mined_and_grows() {
    let Scene {
        owner,
        root,
        server: _server,
        operator: _operator,
    } = Scene::new();
    let mine = "mine rows.oboro --min-support 10% --keep-cells 0";
    let before = owner.json(mine);
    fs::rename(owner.path("rows.oboro"), owner.path("lost")).unwrap();
    let recovered = owner.json(&format!("{RECOVER} --root {root}"));
    assert_eq!(recovered["root"], root);
    assert_eq!(recovered["transactions"], 300);
    assert_eq!(recovered["ciphertext"], false);
    let again = "again.oboro --name rows";
    for answers in ["cells", "moments"] {
        let mine = format!("mine {again} --min-support 10% --keep-cells 0 --answers {answers}");
        let mined = owner.json(&format!("{mine} --verify rows.dat"));
        assert_eq!(mined["itemsets"], before["itemsets"], "{answers}");
    }
    owner.json(&format!("pairs {again} --with 1"));
    // It goes on as the lost one would have, and is kept again.
    owner.json("encrypt more.dat --append-to again.oboro");
    let uploaded = owner.json(&format!("upload {again}"));
    assert_eq!(uploaded["version"], 2);
    assert!(uploaded["record_bytes"].as_u64().unwrap() % 4096 == 0);
    owner.write(
        "all.dat",
        [owner.read("rows.dat"), owner.read("more.dat")].concat(),
    );
    owner.json(&format!("mine {again} --min-support 10% --verify all.dat"));
    let recovered = owner.json("recover rows --out third.oboro");
    assert_eq!(recovered["transactions"], 400);
    let mine = "mine third.oboro --name rows --min-support 10% --answers moments";
    owner.json(&format!("{mine} --verify all.dat"));
    // Commands that need ciphertext say that there is none; nothing is damaged.
    owner.json("keygen --key new.key");
    for command in [
        "compact third.oboro --all",
        "rotate third.oboro --new-key new.key",
        "inspect third.oboro --verify",
    ] {
        let ended = owner.run(command);
        assert_eq!(ended.code, Some(3), "{ended:?}");
        says(
            &ended.refusal(),
            &["without its ciphertext", "a copy of the directory"],
        );
    }
    // A segment that was written since, and is gone, is damage.
    owner.json("encrypt more.dat --append-to third.oboro");
    let segment = fs::read_dir(owner.path("third.oboro/segments"))
        .unwrap()
        .next()
        .unwrap();
    fs::remove_file(segment.unwrap().path()).unwrap();
    let refused = owner.run("upload third.oboro --name rows").refusal();
    says(&refused, &["is missing"]);
}

#[test]
fn only_passphrase_and_key_together_open_it() {
    let scene = Scene::new();
    let owner = &scene.owner;
    owner.json("keygen --key other.key");
    let refused = owner.refused(&format!("{RECOVER} --key other.key"));
    says(
        &refused,
        &["is not the one that dataset", "give the right key"],
    );
    owner.set("OBORO_RECOVERY_PASSPHRASE", "open barley");
    let refused = owner.refused(RECOVER);
    says(&refused, &["the passphrase does not open it", "try again"]);
    owner.unset("OBORO_RECOVERY_PASSPHRASE");
    for command in [RECOVER, "upload rows.oboro"] {
        let refused = owner.refused(command);
        says(&refused, &["not a terminal", "--recovery-passphrase-file"]);
    }
    owner.set("OBORO_RECOVERY_PASSPHRASE_COMMAND", "echo open sesame");
    says(
        &owner.refused("recover rows --out rows.oboro"),
        &["exists already"],
    );
    owner.done(RECOVER);
    let refused = owner.refused("recover none --out none.oboro");
    says(&refused, &["no dataset named"]);
}

#[test]
fn a_record_that_is_not_the_right_one_is_not_recovered() {
    let scene = Scene::new();
    let (owner, dataset) = (&scene.owner, scene.dataset());
    let kept = scene.kept(&dataset);
    let first = fs::read(&kept).unwrap();
    assert_eq!(first.len() % 4096, 0);
    // A bit anywhere: the server sees its digest. The client's liar.rs has bits under a digest that fits.
    for at in [0, 9, 20, 30, 50, 70, 90, 200, first.len() - 1] {
        flip(&kept, at);
        let refused = owner.refused(RECOVER);
        says(&refused, &["recovery copy of dataset"]);
        fs::write(&kept, &first).unwrap();
    }
    // Another dataset's in its place.
    owner.json("encrypt more.dat");
    owner.json("upload more.oboro --keep-record");
    let other = owner.json("inspect more.oboro")["dataset"].clone();
    fs::copy(scene.kept(other.as_str().unwrap()), &kept).unwrap();
    says(&owner.refused(RECOVER), &["is not the one"]);
    // An older one in its place.
    owner.json("encrypt more.dat --append-to rows.oboro");
    let uploaded = owner.json("upload rows.oboro");
    fs::write(&kept, &first).unwrap();
    says(
        &owner.refused(RECOVER),
        &["no record is kept here", "--keep-record"],
    );
    owner.json("upload rows.oboro");
    // The noted root.
    let refused = owner.refused(&format!("{RECOVER} --root {}", scene.root));
    says(&refused, &["you noted root", "went back to another state"]);
    owner.json(&format!(
        "{RECOVER} --root {}",
        uploaded["root"].as_str().unwrap()
    ));
}

#[test]
fn a_server_that_went_back_is_noticed_by_the_noted_root_alone() {
    let scene = Scene::new();
    let Scene {
        owner,
        operator,
        server,
        ..
    } = scene;
    let backup = operator.run("backup data monday");
    assert_eq!(backup.code, Some(0), "{backup:?}");
    owner.json("encrypt more.dat --append-to rows.oboro");
    let uploaded = owner.json("upload rows.oboro");
    let root = uploaded["root"].as_str().unwrap();
    server.terminate();
    server.ended();
    let server = operator.serve_from("monday", "");
    owner.talk_to(server.url());
    let refused = owner.refused(&format!("{RECOVER} --root {root}"));
    says(&refused, &["you noted root", root]);
    // Without it nothing shows that there was a later version: SECURITY.md says so.
    let recovered = owner.json(RECOVER);
    assert_eq!(recovered["version"], 1);
    assert_eq!(recovered["root_checked"], false);
    let mine = "mine again.oboro --name rows --min-support 10% --verify rows.dat";
    owner.json(mine);
}

#[test]
fn what_is_kept_lasts_as_long_as_the_version_it_is_of() {
    let scene = Scene::new();
    let (owner, kept) = (&scene.owner, scene.kept(&scene.dataset()));
    // A version that is uploaded without it takes it away.
    owner.json("encrypt more.dat --append-to rows.oboro");
    let uploaded = owner.json("upload rows.oboro --no-keep-record");
    assert_eq!(uploaded.get("record_bytes"), None);
    assert!(!kept.exists());
    says(&owner.refused(RECOVER), &["no record is kept here"]);
    // From the next time on it is kept without being asked for.
    let text = owner.done("upload rows.oboro --keep-record");
    let root = uploaded["root"].as_str().unwrap();
    says(
        &text,
        &["note for `oboro recover rows --root`: version 2", root],
    );
    owner.json("upload rows.oboro");
    // Deleted and brought back.
    owner.json("delete rows --yes");
    says(&owner.refused(RECOVER), &["no dataset named"]);
    owner.json("undelete rows");
    owner.json(RECOVER);
    // Under another name only for who knows which it is.
    owner.json("delete rows --yes");
    owner.json("undelete rows --as renamed");
    let refused = owner.refused("recover renamed --out renamed.oboro");
    says(&refused, &["was kept for \"rows\"", "renamed"]);
    owner.json(&format!(
        "recover renamed --out renamed.oboro --root {root}"
    ));
    owner.json("delete renamed --yes --now");
    assert!(!kept.exists());
}

#[test]
fn what_is_kept_counts_against_the_quota() {
    let (owner, operator) = (Home::with_key(), Home::new());
    owner.set("OBORO_RECOVERY_PASSPHRASE", "open sesame");
    owner.write_fimi("rows.dat", &random_baskets(300, 6, 128));
    owner.json("encrypt rows.dat");
    let bundle = oboro_format::Bundle::open(&owner.path("rows.oboro")).unwrap();
    let manifest = bundle.manifest();
    let bytes = manifest.segment_bytes() + manifest.encode().len() as u64;
    let server = operator.serve(&format!("--owner-bytes {}", bytes + 4095));
    owner.talk_to(server.url());
    let refused = owner.run("upload rows.oboro --keep-record").refusal();
    says(&refused, &["at most", "bytes of one owner"]);
    // It is published, and not remembered as kept.
    owner.json("upload rows.oboro");
    says(&owner.refused(RECOVER), &["no record is kept here"]);
}

#[test]
fn what_is_kept_is_for_who_may_fetch() {
    let (owner, operator, other) = (Home::with_key(), Home::new(), Home::new());
    owner.write("token", operator.token("alice"));
    other.write("token", operator.token("bob"));
    let server = operator.serve("--tokens tokens");
    for home in [&owner, &other] {
        home.talk_to(server.url());
        home.set("OBORO_RECOVERY_PASSPHRASE", "open sesame");
    }
    owner.write_fimi("rows.dat", &random_baskets(300, 6, 128));
    owner.json("encrypt rows.dat");
    owner.json("upload rows.oboro --keep-record --token-file token");
    fs::copy(owner.path("oboro.key"), other.path("oboro.key")).unwrap();
    let recover = "recover alice/rows --out rows.oboro --token-file token";
    says(&other.refused(recover), &["no dataset named"]);
    owner.json("access grant bob read rows --token-file token");
    says(&other.refused(recover), &["the role fetch"]);
    owner.json("access grant bob fetch rows --token-file token");
    other.json(recover);
    let mine = "mine rows.oboro --name alice/rows --min-support 10% --answers cells";
    other.json(&format!("{mine} --token-file token"));
    // To keep one takes the role to append.
    let keep = "upload rows.oboro --name alice/rows --keep-record --token-file token";
    says(&other.refused(keep), &["the role append"]);
}
