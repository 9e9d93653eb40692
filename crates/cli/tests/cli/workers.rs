//! Queries that workers count instead of the server: owners get the same answers, and the same messages if something is
//! damaged or missing.

use crate::common::plaintext::random_baskets;
use crate::common::{Home, flip, says};
use oboro_server::{Dispatch, GenomeOptions, Limits, Options, Policy, RemoteJob, Server, Worker};
use oboro_store::Location;
use std::fs;
use std::num::NonZero;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use tokio::runtime::Runtime;

const MINE: &str = "mine rows.oboro --min-support 1% --verify rows.dat --trust-server";

/// Workers in this process, which count the last shards first; some shards are given to two of them.
struct Workers {
    worker: Arc<Worker>,
    counted: Arc<AtomicU64>,
}

impl Dispatch for Workers {
    fn start(&self, work: RemoteJob) {
        let (worker, counted) = (Arc::clone(&self.worker), Arc::clone(&self.counted));
        thread::spawn(move || {
            let middle = work.shards() / 2;
            let given = [middle..work.shards(), 0..middle, 0..1];
            for (name, shards) in ["a", "a", "b"].into_iter().zip(given) {
                if !shards.is_empty() && work.is_wanted() {
                    counted.fetch_add(shards.end - shards.start, Ordering::Relaxed);
                    let partial = worker.count(work.manifest(), work.task(), shards.clone());
                    work.deliver(name, shards, partial.into());
                }
            }
        });
    }
}

/// A server in this process with its data in a directory.
struct Serving {
    _runtime: Runtime,
    url: String,
    counted: Arc<AtomicU64>,
}

impl Serving {
    fn begin(data: &Path, memory: Option<u64>) -> Self {
        let threads = NonZero::new(2).unwrap();
        let location = Location::from(data);
        let options = Options {
            data: location.clone(),
            listen: "127.0.0.1:0".parse().unwrap(),
            tls: None,
            tokens: None,
            threads,
            limits: Limits::default(),
            policy: Policy::default(),
            moment_cache: 64 << 20,
            memory: None,
            genome: GenomeOptions::default(),
            pin: None,
            monitor: None,
            audit: None,
        };
        let runtime = Runtime::new().unwrap();
        let server = runtime.block_on(Server::bind(options)).unwrap();
        let counted = Arc::default();
        let workers = Workers {
            worker: Arc::new(Worker::open(location, threads, memory).unwrap()),
            counted: Arc::clone(&counted),
        };
        let url = format!("http://{}", server.address());
        let server = server.counted_by(Arc::new(workers));
        runtime.spawn(server.serve(std::future::pending()));
        Self {
            _runtime: runtime,
            url,
            counted,
        }
    }
}

fn owner_of(serving: &Serving) -> Home {
    let owner = Home::with_key();
    owner.talk_to(&serving.url);
    owner.write_fimi("rows.dat", &random_baskets(250_000, 8, 3));
    owner.json("encrypt rows.dat --max-len 3");
    owner.json("upload rows.oboro");
    owner
}

#[test]
fn answers_are_those_of_plaintext_and_known_moments_are_not_counted_again() {
    let operator = Home::new();
    let serving = Serving::begin(&operator.path("data"), None);
    let owner = owner_of(&serving);
    assert_eq!(owner.json(MINE)["matches_plaintext"], true);
    let counted = serving.counted.load(Ordering::Relaxed);
    assert!(counted >= 3, "{counted} shards");
    assert_eq!(owner.json(MINE)["matches_plaintext"], true);
    assert_eq!(serving.counted.load(Ordering::Relaxed), counted);
    // Requests more than is cached.
    let more = MINE.replace("1%", "1");
    assert_eq!(owner.json(&more)["matches_plaintext"], true);
    assert!(serving.counted.load(Ordering::Relaxed) > counted);
}

#[test]
fn workers_with_little_memory_stream() {
    let operator = Home::new();
    let serving = Serving::begin(&operator.path("data"), Some(128 << 20));
    assert_eq!(owner_of(&serving).json(MINE)["matches_plaintext"], true);
}

#[test]
fn damage_and_loss_have_the_usual_messages() {
    let operator = Home::new();
    let serving = Serving::begin(&operator.path("data"), None);
    let owner = owner_of(&serving);
    let segment = operator.find("data", "00000000.seg");
    for at in (1 << 20..fs::metadata(&segment).unwrap().len() as usize).step_by(1 << 16) {
        flip(&segment, at);
    }
    let refusal = owner.run(MINE).refusal();
    says(&refusal, &["segment 0 of dataset", "damaged"]);
    assert!(!refusal.contains(operator.path("data").to_str().unwrap()));
}
