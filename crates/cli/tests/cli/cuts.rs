//! Connections that are cut after a given number of bytes, from the first one to the last, in both directions: an
//! upload resumes or can be run again, a query ends with a plain error, and the server serves the next.

use crate::common::plaintext::random_baskets;
use crate::common::proxy::{Direction, Proxy};
use crate::common::{Ended, Home, Server, until};

/// What the owner may be told after a cut: an answer was missing or incomplete.
const EXCUSES: [&str; 2] = [
    "the connection to the server broke",
    "does not answer as an Oboro server",
];

struct Parties {
    owner: Home,
    _operator: Home,
    server: Server,
}

impl Parties {
    fn new() -> Self {
        let (owner, operator) = (Home::with_key(), Home::new());
        let server = operator.serve("");
        owner.talk_to(server.url());
        owner.write_fimi("rows.dat", &random_baskets(200, 10, 96));
        Self {
            owner,
            _operator: operator,
            server,
        }
    }

    /// Encrypts a dataset that the server does not have, in `rows.oboro`.
    fn encrypt_anew(&self) {
        if self.owner.path("rows.oboro").exists() {
            std::fs::remove_dir_all(self.owner.path("rows.oboro")).unwrap();
        }
        self.owner.json("encrypt rows.dat --max-len 2");
    }

    fn datasets(&self) -> usize {
        self.owner.json("datasets").as_array().unwrap().len()
    }

    /// Runs `line` over connections, the first of which is cut after `bytes`; returns whether that many were forwarded.
    fn cut_after(&self, direction: Direction, bytes: u64, line: &str) -> (bool, Ended) {
        let proxy = Proxy::to(self.server.address());
        proxy.stall_after(direction, bytes);
        let mut process = self
            .owner
            .start(&format!("{line} --server {}", proxy.url()));
        let stalled = until("the connection has stalled or is over", || {
            let stalled = proxy.has_stalled();
            (stalled || !process.is_running()).then_some(stalled)
        });
        proxy.cut();
        proxy.release();
        let ended = process.ended();
        ended.without_panic();
        (stalled, ended)
    }
}

/// Offsets: each of the first few, then ever sparser. `OBORO_FAULTS=all` tests many more.
fn offsets() -> impl Iterator<Item = u64> {
    let part = match std::env::var_os("OBORO_FAULTS") {
        Some(_) => 16,
        None => 2,
    };
    std::iter::successors(Some(1u64), move |bytes| Some(bytes + 1 + bytes / part))
}

/// Cuts `line` at every offset until it succeeds; `check` examines each end.
fn cut_everywhere(parties: &Parties, line: &str, mut check: impl FnMut(&Ended)) {
    for direction in [Direction::Up, Direction::Down] {
        let mut cuts = 0;
        for bytes in offsets() {
            let (cut, ended) = parties.cut_after(direction, bytes, line);
            if ended.code != Some(0) {
                let message = ended.refusal();
                let known = EXCUSES.iter().any(|excuse| message.contains(excuse));
                assert!(
                    known && message.contains("run the same command again"),
                    "{message}"
                );
            }
            check(&ended);
            if !cut {
                assert_eq!(ended.code, Some(0), "{ended:?}");
                break;
            }
            cuts += 1;
        }
        assert!(cuts > 8, "{cuts}");
    }
}

#[test]
fn uploads_go_on_after_any_cut() {
    let parties = Parties::new();
    parties.encrypt_anew();
    cut_everywhere(&parties, "upload rows.oboro", |_| {
        let uploaded = parties.owner.json("upload rows.oboro");
        assert_eq!(uploaded["version"], 1);
        parties
            .owner
            .json("mine rows.oboro --min-support 20% --verify rows.dat");
        parties.owner.json("delete rows --yes --now");
        parties.encrypt_anew();
    });
}

#[test]
fn questions_end_plainly_after_any_cut() {
    let parties = Parties::new();
    parties.encrypt_anew();
    parties.owner.json("upload rows.oboro");
    let found = parties.owner.path("found.json");
    for route in ["--trust-server", "--keep-cells 0"] {
        let mine =
            format!("mine rows.oboro --min-support 20% --verify rows.dat --out found.json {route}");
        cut_everywhere(&parties, &mine, |ended| {
            assert_eq!(found.exists(), ended.code == Some(0), "{ended:?}");
            parties.owner.json(&mine);
            std::fs::remove_file(&found).unwrap();
        });
        parties.owner.json("trust reset rows.oboro");
    }
}

#[test]
fn deletions_happen_or_do_not() {
    let parties = Parties::new();
    parties.encrypt_anew();
    parties.owner.json("upload rows.oboro");
    cut_everywhere(&parties, "delete rows --yes --now", |ended| {
        if ended.code == Some(0) {
            assert_eq!(parties.datasets(), 0);
        }
        if parties.datasets() == 0 {
            parties.encrypt_anew();
        }
        parties.owner.json("upload rows.oboro");
        parties
            .owner
            .json("mine rows.oboro --min-support 20% --verify rows.dat");
    });
}
