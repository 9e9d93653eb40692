//! Data that grow and shrink, against a model in plaintext: random sequences of appends, compactions, erasures,
//! rotations, interruptions, power cuts, restored copies (of the owner's directory, of the server's, of both) and
//! questions. Every support is right, or there is a refusal that says why; and no mask seed makes two ciphertexts.
#![cfg(target_os = "linux")]

use crate::common::two;
use oboro_client::{Answers, ClientError, Connection, Mining, forget_kept, upload};
use oboro_faults::{Image, scratch};
use oboro_format::{Digest, ErrorClass};
use oboro_mining::{
    AprioriError, AprioriOptions, Dataset, DatasetError, MinSupport, NewItems, Shuffled, Target,
    Transactions, eclat,
};
use oboro_rlwe::MasterKey;
use oboro_server::{GenomeOptions, Limits, Local, Options, Policy};
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::{RngExt, SeedableRng};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use tempfile::TempDir;

/// Sequences in `.ci/run`; `make test-growth` has a hundred times as many.
const SEQUENCES: u64 = 100;
/// Steps of each.
const STEPS: usize = 14;
/// Items of the first encryption; each later one is new in some append.
const ITEMS: usize = 4;
const NAME: &str = "patients";

type Progress<'a> = &'a (dyn Fn(u64, u64) -> ControlFlow<()> + Sync);

/// The transactions of one version, by their row ids.
type Rows = BTreeMap<String, BTreeSet<usize>>;

/// The owner's directory as it was at some time, and what was in it.
#[derive(Clone)]
struct Owned {
    image: Image,
    key: MasterKey,
    rows: Rows,
    items: usize,
}

/// The mask seeds that were ever used, each with its block's segment.
#[derive(Default)]
struct Seeds(HashMap<[u8; 32], (Digest, usize)>);

struct World {
    rng: StdRng,
    directory: TempDir,
    key: MasterKey,
    rows: Rows,
    /// Row ids are never used again, so that restored copies do not repeat them.
    next_id: usize,
    /// The items that the present version has columns for.
    items: usize,
    server: Option<Local>,
    earlier: Vec<Owned>,
    earlier_stores: Vec<Image>,
    seeds: Seeds,
    /// Questions that were answered.
    answered: u64,
}

impl Seeds {
    fn see(&mut self, dataset: &Dataset) {
        for index in 0..dataset.manifest().segments.len() as u32 {
            let segment = dataset.bundle().open_segment(index).unwrap();
            for (block, seed) in segment.description().seeds.iter().enumerate() {
                let here = (segment.digest(), block);
                let first = *self.0.entry(seed.0).or_insert(here);
                assert_eq!(first, here, "one mask seed for two ciphertexts");
            }
        }
    }
}

fn go_on(_: u64, _: u64) -> ControlFlow<()> {
    ControlFlow::Continue(())
}

/// The items of a transaction, by name: each is somewhere from the first encryption on.
fn names(row: &BTreeSet<usize>) -> Vec<String> {
    row.iter().map(|item| format!("item {item}")).collect()
}

fn transactions(rows: &Rows) -> Transactions {
    Transactions::from_named(rows.values().map(names)).unwrap()
}

fn shuffled(rows: &Rows) -> Shuffled {
    let ids = rows.keys().cloned().collect();
    let transactions = transactions(rows).with_row_ids(ids).unwrap();
    Shuffled::of(transactions.clone())
}

impl World {
    fn new(seed: u64) -> Self {
        let mut world = Self {
            rng: StdRng::seed_from_u64(seed),
            directory: scratch(),
            key: MasterKey::generate().unwrap(),
            rows: Rows::new(),
            next_id: 0,
            items: ITEMS,
            server: None,
            earlier: Vec::new(),
            earlier_stores: Vec::new(),
            seeds: Seeds::default(),
            answered: 0,
        };
        world.rows = world.new_rows(6);
        for item in 0..ITEMS {
            let id = format!("all {item}");
            world.rows.insert(id, BTreeSet::from([item]));
        }
        let target = world.bundle();
        let target = Target::New(&target);
        let rows = shuffled(&world.rows);
        let dataset = Dataset::create(rows, &world.key, target, 3, two(), &go_on).unwrap();
        world.seeds.see(&dataset);
        world.keep_copies();
        world
    }

    fn bundle(&self) -> PathBuf {
        self.directory.path().join("patients.oboro")
    }

    fn store(&self) -> PathBuf {
        self.directory.path().join("store")
    }

    fn new_rows(&mut self, most: usize) -> Rows {
        let count = self.rng.random_range(1..=most);
        let items = self.items;
        let row = |rng: &mut StdRng| (0..items).filter(|_| rng.random_bool(0.5)).collect();
        (0..count)
            .map(|_| {
                self.next_id += 1;
                (format!("row {}", self.next_id), row(&mut self.rng))
            })
            .collect()
    }

    fn dataset(&self) -> Dataset {
        let dataset = Dataset::open(&self.bundle(), &self.key).unwrap();
        assert_eq!(dataset.record().transactions, self.rows.len() as u64);
        dataset
    }

    fn connect(&mut self) -> Connection {
        let store = self.store();
        let server = self.server.get_or_insert_with(|| start(&store));
        let connector = server.connector();
        Connection::through("local", move || connector.connect()).unwrap()
    }

    fn keep_copies(&mut self) {
        if self.rng.random_bool(0.5) {
            self.earlier.push(Owned {
                image: Image::read(&self.bundle()),
                key: self.key.clone(),
                rows: self.rows.clone(),
                items: self.items,
            });
        }
        if self.rng.random_bool(0.3) && self.store().exists() {
            self.server = None;
            self.earlier_stores.push(Image::read(&self.store()));
        }
    }

    /// Makes a change, which at times is interrupted, or has the power cut: then the old version is there,
    /// with new columns at most.
    fn change(
        &mut self,
        change: impl Fn(&Dataset, Progress<'_>) -> Result<Dataset, DatasetError>,
    ) -> bool {
        let before = self.dataset();
        let fails_at = match self.rng.random_range(0..6) {
            0 => self.rng.random_range(0..20),
            _ => u64::MAX,
        };
        let (calls, is_cut) = (AtomicU64::new(0), self.rng.random_bool(0.5));
        let cut = parking_lot::Mutex::new(None);
        let progress = |_, _| {
            if calls.fetch_add(1, Ordering::Relaxed) < fails_at {
                return ControlFlow::Continue(());
            }
            cut.lock()
                .get_or_insert_with(|| Image::read(&self.bundle()));
            ControlFlow::Break(())
        };
        match change(&before, &progress) {
            Ok(after) => {
                forget_kept(after.bundle()).unwrap();
                self.seeds.see(&after);
                true
            }
            Err(error) if error.class() == ErrorClass::Interrupted => {
                if is_cut {
                    replace(&self.bundle(), &cut.into_inner().unwrap());
                }
                self.dataset().bundle().verify().unwrap();
                false
            }
            Err(error) => panic!("{error}"),
        }
    }

    fn step(&mut self) {
        match self.rng.random_range(0..12) {
            0..3 => {
                let rows = self.new_rows(3);
                if self.change(|it, progress| {
                    it.append(shuffled(&rows), NewItems::Refuse, two(), progress)
                }) {
                    self.rows.extend(rows);
                }
            }
            3 if self.items < ITEMS + 2 && self.rng.random() => {
                let mut rows = self.new_rows(2);
                for row in rows.values_mut() {
                    row.insert(self.items);
                }
                let append = |it: &Dataset, progress: Progress<'_>| {
                    it.append(shuffled(&rows), NewItems::Reencrypt, two(), progress)
                };
                if self.change(append) {
                    self.rows.extend(rows);
                    self.items += 1;
                } else {
                    // What was encrypted again may be there without what was to be appended.
                    self.items = self.dataset().record().names.len();
                }
            }
            3 => {
                let all = self.rng.random();
                let key = self.key.clone();
                let compacted = |it: &Dataset, progress: Progress<'_>| {
                    let plan = it.compaction(all)?;
                    let after = it.compact(all, two(), progress)?;
                    assert_eq!(plan.is_some(), after.is_some());
                    let Some((plan, after)) = plan.zip(after) else {
                        return Dataset::open(it.bundle().directory(), &key);
                    };
                    let fewer = plan.blocks - plan.blocks_after;
                    let blocks = after.manifest().block_count() + fewer;
                    assert_eq!(blocks, it.manifest().block_count());
                    Ok(after)
                };
                self.change(compacted);
            }
            4 | 5 => self.erase(),
            6 => {
                let key = MasterKey::generate().unwrap();
                if self.change(|it, progress| it.rotate(&key, two(), progress)) {
                    assert!(Dataset::open(&self.bundle(), &self.key).is_err());
                    self.key = key;
                }
            }
            7 => self.restore(),
            8 => self.upload(),
            _ => {
                self.upload();
                self.ask();
            }
        }
        self.keep_copies();
    }

    fn erase(&mut self) {
        let ids: Vec<String> = self.rows.keys().cloned().collect();
        let count = self.rng.random_range(1..3);
        let gone: BTreeSet<String> = ids.sample(&mut self.rng, count).cloned().collect();
        if gone.len() >= self.rows.len() {
            return;
        }
        let found = self.dataset().own_row_ids(two()).unwrap();
        assert!(
            found.iter().map(|it| &it.id).collect::<BTreeSet<_>>() == self.rows.keys().collect()
        );
        let found = found.into_iter().filter(|it| gone.contains(&it.id));
        let slots: BTreeSet<u64> = found.map(|it| it.slot).collect();
        if self.change(|it, progress| it.erase(&slots, two(), progress)) {
            self.rows.retain(|id, _| !gone.contains(id));
        }
    }

    fn restore(&mut self) {
        let which = self.rng.random_range(0..3);
        if which != 0
            && let Some(owned) = self.earlier.choose(&mut self.rng).cloned()
        {
            replace(&self.bundle(), &owned.image);
            (self.key, self.rows, self.items) = (owned.key, owned.rows, owned.items);
        }
        if which != 1
            && let Some(store) = self.earlier_stores.choose(&mut self.rng).cloned()
        {
            self.server = None;
            replace(&self.store(), &store);
        }
    }

    /// Uploads, which is refused where histories parted or the server has a newer version.
    fn upload(&mut self) {
        let dataset = self.dataset();
        let connection = self.connect();
        match upload(&connection, dataset.bundle(), NAME, &|_, _| {}) {
            Ok(uploaded) => assert_eq!(uploaded.version, dataset.manifest().version),
            Err(error) => {
                let message = error.to_string();
                let is_named = [
                    "each has transactions that the other lacks",
                    "each was changed without the other",
                    "it is not newer",
                    "cancel",
                ];
                assert!(is_named.iter().any(|it| message.contains(it)), "{message}");
            }
        }
    }

    /// Asks for all itemsets; what is answered is right.
    fn ask(&mut self) {
        let dataset = self.dataset();
        let connection = self.connect();
        let answers = match self.rng.random_range(0..3) {
            0 => Answers::Cells,
            1 => Answers::Moments,
            _ => Answers::Auto,
        };
        let options =
            AprioriOptions::new(MinSupport::Count(1)).with_max_len(std::num::NonZeroUsize::new(3));
        let mined = Mining::new(&dataset, NAME, two())
            .by(answers)
            .run(options, || Ok(connection));
        match mined {
            Ok(mined) => {
                assert_eq!(mined.found.standing(), "verified");
                let all = transactions(&self.rows);
                let expected = eclat(&all, options.min_support, options.max_len);
                assert_eq!(
                    mined.found.itemsets().to_document(&mined.names).unwrap(),
                    expected.to_document(all.names()).unwrap()
                );
                self.answered += 1;
            }
            Err(AprioriError::Counter(error @ ClientError::FalseAnswer { .. })) => {
                panic!("{error}")
            }
            Err(AprioriError::Counter(error)) => {
                let message = error.to_string();
                assert!(
                    message.contains("version") || message.contains("no dataset"),
                    "{message}"
                );
            }
            Err(error) => panic!("{error}"),
        }
    }
}

fn start(data: &Path) -> Local {
    Local::start(Options {
        data: data.into(),
        listen: "127.0.0.1:0".parse().unwrap(),
        tls: None,
        tokens: None,
        threads: two(),
        limits: Limits::default(),
        policy: Policy::default(),
        moment_cache: 1 << 20,
        memory: None,
        genome: GenomeOptions::default(),
        pin: None,
        monitor: None,
        audit: None,
    })
    .unwrap()
}

fn replace(directory: &Path, image: &Image) {
    std::fs::remove_dir_all(directory).ok();
    std::fs::create_dir_all(directory).unwrap();
    image.write(directory);
}

#[test]
fn random_histories_agree_with_a_model_in_plaintext() {
    let sequences = std::env::var("OBORO_SEQUENCES").ok();
    let sequences = sequences.map_or(SEQUENCES, |it| it.parse().expect("it is a number"));
    let mut answered = 0;
    for seed in 0..sequences {
        let outcome = std::panic::catch_unwind(|| {
            let mut world = World::new(seed);
            for _ in 0..STEPS {
                world.step();
            }
            world.answered
        });
        match outcome {
            Ok(here) => answered += here,
            Err(panic) => {
                println!("sequence {seed}");
                std::panic::resume_unwind(panic);
            }
        }
    }
    // Else it would show little.
    assert!(answered > sequences, "{answered} questions were answered");
}
