//! Growing and shrinking data, against a model in plaintext. Random sequences contain:
//!
//! * appends (which absorb earlier ones or not), compactions, erasures of rows and of whole appends, rotations,
//! * interruptions, power cuts, restored copies (of the owner's directory, of the server's, of both), recoveries
//!   without segments,
//! * trust and questions.
//!
//! Every record opens, and every support is right, or a refusal says why. No mask seed makes two ciphertexts. No
//! generation of secrets is used for rows other than its first ones.
#![cfg(target_os = "linux")]

use crate::common::two;
use oboro_client::{Answers, ClientError, Connection, Mining, forget_kept, upload};
use oboro_dataset::{Dataset, DatasetError, FoundRow, NewItems, Shuffled, Target};
use oboro_faults::{Image, scratch};
use oboro_format::{Digest, ErrorClass, FormatError, RecoveryHead};
use oboro_input::{MinSupport, Transactions};
use oboro_mining::{AprioriError, AprioriOptions, eclat};
use oboro_results::ItemsetsDocument;
use oboro_ring::Blocks;
use oboro_rlwe::{MasterKey, SecretGeneration};
use oboro_server::{GenomeOptions, Limits, Local, Options, Policy};
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::{RngExt, SeedableRng};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ops::ControlFlow;
use std::panic::AssertUnwindSafe;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use tempfile::TempDir;

/// Number of sequences in `.ci/run`; `make test-growth` has a hundred times as many.
const SEQUENCES: u64 = 100;
/// Number of sequences with a stratum that has a sample, for each hundred others.
const LARGE_SEQUENCES: u64 = 4;
/// Steps of each sequence.
const STEPS: usize = 14;
/// Items of the first encryption; each later one is new in some append.
const ITEMS: usize = 4;
const NAME: &str = "patients";

type Progress<'a> = &'a (dyn Fn(u64, u64) -> ControlFlow<()> + Sync);

/// Transactions of one version, by their row ids.
type Rows = BTreeMap<String, BTreeSet<usize>>;

/// Copy of the owner's directory at some time, and its content.
#[derive(Clone)]
struct Owned {
    image: Image,
    key: MasterKey,
    rows: Rows,
    items: usize,
    has_segments: bool,
}

/// All mask seeds used so far, each with its block's segment.
#[derive(Default)]
struct Seeds(HashMap<[u8; 32], (Digest, usize)>);

/// All generations of secrets used so far, each with the row ids of its first version.
#[derive(Default)]
struct Generations(HashMap<SecretGeneration, BTreeSet<String>>);

struct World {
    rng: StdRng,
    directory: TempDir,
    key: MasterKey,
    rows: Rows,
    /// Next row id. Ids are never reused: restored copies do not repeat them.
    next_id: usize,
    /// Number of items with columns in the present version.
    items: usize,
    server: Option<Local>,
    earlier: Vec<Owned>,
    earlier_stores: Vec<Image>,
    /// `true` if the directory has all segments; after a recovery it has only appended ones.
    has_segments: bool,
    /// Row ids of each append.
    appends: Vec<Vec<String>>,
    seeds: Seeds,
    generations: Generations,
    /// Number of answered questions.
    answered: u64,
}

impl Seeds {
    fn see(&mut self, dataset: &Dataset) {
        let segments = 0..dataset.manifest().segments.len() as u32;
        for index in segments.filter(|&it| dataset.bundle().has_segment(it).unwrap()) {
            let segment = dataset.bundle().open_segment(index).unwrap();
            for (block, seed) in segment.description().seeds.iter().enumerate() {
                let here = (segment.digest(), block);
                let first = *self.0.entry(seed.0).or_insert(here);
                assert_eq!(first, here, "one mask seed for two ciphertexts");
            }
        }
    }
}

impl Generations {
    fn see(&mut self, dataset: &Dataset) {
        let rows = dataset.own_row_ids(two()).unwrap();
        let degree = dataset.manifest().parameters.degree() as u64;
        let strata = dataset.record().strata(dataset.manifest()).unwrap();
        let mut here: HashMap<SecretGeneration, BTreeSet<String>> = HashMap::new();
        for (blocks, &generation) in strata.ranges().iter().zip(strata.secret_generations()) {
            let slots = blocks.start * degree..blocks.end * degree;
            let rows = rows.iter().filter(|it| slots.contains(&it.slot));
            here.entry(generation)
                .or_default()
                .extend(rows.map(|it| it.id.clone()));
        }
        for (generation, rows) in here {
            let first = self.0.entry(generation).or_insert_with(|| rows.clone());
            assert!(
                rows.is_subset(first),
                "one generation of secrets for other rows"
            );
        }
    }
}

fn go_on(_: u64, _: u64) -> ControlFlow<()> {
    ControlFlow::Continue(())
}

/// Returns the items of a transaction, by name: each is somewhere from the first encryption on.
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
            has_segments: true,
            appends: Vec::new(),
            seeds: Seeds::default(),
            generations: Generations::default(),
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
        world.generations.see(&dataset);
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
        dataset.pair_reader().unwrap();
        dataset.prefix_reader().unwrap();
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
                has_segments: self.has_segments,
            });
        }
        if self.rng.random_bool(0.3) && self.store().exists() {
            self.server = None;
            self.earlier_stores.push(Image::read(&self.store()));
        }
    }

    /// Makes a change, with occasional interruptions and power cuts, after which the old version remains, with new
    /// columns at most. A rewriting of a directory without segments is refused. Caches are removed where the commands
    /// do so.
    fn change(
        &mut self,
        forgets: bool,
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
                if forgets {
                    forget_kept(after.bundle()).unwrap();
                }
                self.seeds.see(&after);
                if self.has_segments {
                    self.generations.see(&after);
                }
                true
            }
            Err(error) if error.class() == ErrorClass::Interrupted => {
                if is_cut {
                    replace(&self.bundle(), &cut.into_inner().unwrap());
                }
                let dataset = self.dataset();
                if self.has_segments {
                    dataset.bundle().verify().unwrap();
                }
                false
            }
            Err(DatasetError::Format(FormatError::Recovered { .. })) if !self.has_segments => {
                self.dataset();
                false
            }
            Err(error) => panic!("{error}"),
        }
    }

    fn step(&mut self) {
        match self.rng.random_range(0..18) {
            0..3 => {
                let rows = self.new_rows(3);
                let absorbs = [None, Some(false), Some(true)][self.rng.random_range(0..3)];
                if self.change(false, |it, progress| {
                    let rows = shuffled(&rows).absorbing(absorbs);
                    it.append(rows, NewItems::Refuse, two(), progress)
                }) {
                    self.appends.push(rows.keys().cloned().collect());
                    self.rows.extend(rows);
                }
            }
            12 => self.erase_append(),
            13 => {
                let dataset = self.dataset();
                dataset.rely_on_server().unwrap();
                if self.rng.random() {
                    dataset.reset_trust().unwrap();
                }
            }
            14 => self.recover(),
            15 | 16 => self.erase_by_slot(),
            3 if self.items < ITEMS + 2 && self.rng.random() => {
                let mut rows = self.new_rows(2);
                for row in rows.values_mut() {
                    row.insert(self.items);
                }
                let append = |it: &Dataset, progress: Progress<'_>| {
                    it.append(shuffled(&rows), NewItems::Reencrypt, two(), progress)
                };
                if self.change(true, append) {
                    self.rows.extend(rows);
                    self.items += 1;
                } else {
                    // The re-encryption may have succeeded without the append.
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
                self.change(true, compacted);
            }
            4 | 5 => self.erase(),
            6 => {
                let key = MasterKey::generate().unwrap();
                if self.change(true, |it, progress| it.rotate(&key, two(), progress)) {
                    assert!(Dataset::open(&self.bundle(), &self.key).is_err());
                    self.key = key;
                }
            }
            7 => self.restore(),
            8 => self.upload(),
            17 => self.kill_upload(),
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
        self.erase_rows(&gone);
    }

    /// Erases rows by their slots: of a stratum, of its sample, of none of its sample, or of a segment. Either all of
    /// them or those with an item, limited by a number.
    fn erase_by_slot(&mut self) {
        if !self.has_segments {
            return;
        }
        let dataset = self.dataset();
        let strata = strata(&dataset);
        let (all, sample) = *strata.choose(&mut self.rng).unwrap();
        let segment = dataset.manifest().segments.choose(&mut self.rng).unwrap();
        let blocks = match (self.rng.random_range(0..4), sample) {
            (0, _) => all,
            (1, Some(sample)) => sample,
            (2, Some(sample)) => Blocks::from(sample.end..all.end),
            _ => segment.range(),
        };
        let item = self.rng.random_bool(0.5).then_some(0);
        let of_item = |it: &FoundRow| item.is_none_or(|item| self.rows[&it.id].contains(&item));
        let found = rows_in(&dataset, blocks);
        let most = found.len() >> self.rng.random_range(0..8);
        let chosen = found.into_iter().filter(of_item).take(most);
        let gone: BTreeSet<String> = chosen.map(|it| it.id).collect();
        self.erase_rows(&gone);
    }

    /// Appends `count` rows, nearly all of which have the first two items.
    fn grow(&mut self, count: usize) {
        let row = |rng: &mut StdRng| {
            let shares = [1.0, 0.97, 0.5, 0.1].into_iter().enumerate();
            let items = shares.filter(|&(_, share)| rng.random_bool(share));
            items.map(|(item, _)| item).collect()
        };
        let rows: Rows = (0..count)
            .map(|number| (format!("b{number:06}"), row(&mut self.rng)))
            .collect();
        let append = |it: &Dataset, progress: Progress<'_>| {
            it.append(shuffled(&rows), NewItems::Refuse, two(), progress)
        };
        while !self.change(false, append) {}
        self.rows.extend(rows);
    }

    /// Erases the remainder of an append.
    fn erase_append(&mut self) {
        let appends = std::mem::take(&mut self.appends);
        if let Some(append) = appends.choose(&mut self.rng) {
            let left = append.iter().filter(|it| self.rows.contains_key(*it));
            self.erase_rows(&left.cloned().collect());
        }
        self.appends = appends;
    }

    fn erase_rows(&mut self, gone: &BTreeSet<String>) {
        if gone.is_empty() || gone.len() >= self.rows.len() || !self.has_segments {
            return;
        }
        let found = self.dataset().own_row_ids(two()).unwrap();
        assert!(
            found.iter().map(|it| &it.id).collect::<BTreeSet<_>>() == self.rows.keys().collect()
        );
        let found = found.into_iter().filter(|it| gone.contains(&it.id));
        let slots: BTreeSet<u64> = found.map(|it| it.slot).collect();
        if self.change(true, |it, progress| it.erase(&slots, two(), progress)) {
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
            self.has_segments = owned.has_segments;
        }
        if which != 1
            && let Some(store) = self.earlier_stores.choose(&mut self.rng).cloned()
        {
            self.server = None;
            replace(&self.store(), &store);
        }
    }

    /// Loses the directory, and recreates it from a recovery copy: the head and the ranges, without segments.
    fn recover(&mut self) {
        let dataset = self.dataset();
        let content = dataset.bundle().recovery_content(NAME).unwrap();
        let head = RecoveryHead::of(dataset.manifest());
        std::fs::remove_dir_all(self.bundle()).unwrap();
        Dataset::recover(&self.bundle(), &content, &head, &self.key).unwrap();
        self.has_segments = false;
    }

    /// Begins an upload and ends before its first segment, or somewhere in it.
    fn kill_upload(&mut self) {
        let part: f64 = [0.0, self.rng.random()][self.rng.random_range(0..2)];
        let dataset = self.dataset();
        let connection = self.connect();
        let kill = |sent: u64, total: u64| {
            if sent as f64 >= part * total as f64 {
                std::panic::resume_unwind(Box::new("killed"));
            }
        };
        let killed = AssertUnwindSafe(|| upload(&connection, dataset.bundle(), NAME, &kill));
        let _ = std::panic::catch_unwind(killed);
    }

    /// Uploads, which is refused if histories diverged or the server has a newer version.
    fn upload(&mut self) {
        let dataset = self.dataset();
        let connection = self.connect();
        match upload(&connection, dataset.bundle(), NAME, &|_, _| {}) {
            Ok(uploaded) => assert_eq!(uploaded.version, dataset.manifest().version),
            Err(error) => {
                let message = error.to_string();
                if !self.has_segments
                    && matches!(error, ClientError::Format(FormatError::Recovered { .. }))
                {
                    // The server lacks segments that the directory lacks, too.
                    return;
                }
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

    fn ask(&mut self) {
        let answers = [Answers::Cells, Answers::Moments, Answers::Auto];
        let chosen = self.rng.random_range(0..3);
        self.ask_for(answers[chosen]);
    }

    /// Asks for all itemsets; any answer must be right.
    fn ask_for(&mut self, answers: Answers) {
        let dataset = self.dataset();
        let connection = self.connect();
        let options =
            AprioriOptions::new(MinSupport::Count(1)).with_max_len(std::num::NonZeroUsize::new(3));
        let mined = Mining::new(&dataset, NAME, two())
            .by(answers)
            .run(options, || Ok(connection.clone()));
        match mined {
            Ok(mined) => {
                assert_eq!(mined.found.standing(), "verified");
                let all = transactions(&self.rows);
                let expected = eclat(&all, options.min_support, options.max_len);
                assert_eq!(
                    ItemsetsDocument::new(mined.found.itemsets(), &mined.names).unwrap(),
                    ItemsetsDocument::new(&expected, all.names()).unwrap()
                );
                self.answered += 1;
            }
            Err(AprioriError::Counter(error @ ClientError::FalseAnswer { .. })) => {
                panic!("{error}")
            }
            Err(AprioriError::Counter(error)) => {
                let message = error.to_string();
                assert!(
                    message.contains("version")
                        || message.contains("no dataset")
                        || message.contains("trust"),
                    "{message}"
                );
            }
            Err(error) => panic!("{error}"),
        }
    }
}

/// Returns the blocks of each stratum, and of its sample if it has one.
fn strata(dataset: &Dataset) -> Vec<(Blocks, Option<Blocks>)> {
    let strata = dataset.record().strata(dataset.manifest()).unwrap();
    let mut ranges = strata.ranges().iter().copied();
    let blocks = strata.strata().iter().map(|it| {
        let all = ranges.next().unwrap();
        (all, it.sample_blocks().and_then(|_| ranges.next()))
    });
    blocks.collect()
}

/// Returns the rows in some blocks, by slot.
fn rows_in(dataset: &Dataset, blocks: Blocks) -> Vec<FoundRow> {
    let degree = dataset.manifest().parameters.degree() as u64;
    let slots = blocks.start * degree..blocks.end * degree;
    let mut rows = dataset.own_row_ids(two()).unwrap();
    rows.retain(|it| slots.contains(&it.slot));
    rows
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

/// Erases the sample of a large append by its slots. The first erasure takes a part of it. The second takes enough that
/// the window would be too wide, and that another number is the nearest with the right residue.
#[test]
fn whole_samples_are_erased_and_supports_stay_right() {
    let mut world = World::new(0);
    world.grow(90_000);
    for (count, is_shuffled) in [(10_000, false), (24_000, true)] {
        let dataset = world.dataset();
        let sample = strata(&dataset).into_iter().find_map(|it| it.1);
        let chosen = rows_in(&dataset, sample.unwrap());
        let chosen = &chosen[..count];
        let slots: BTreeSet<u64> = chosen.iter().map(|it| it.slot).collect();
        let cost = dataset.erasure(&slots).unwrap();
        assert_eq!(cost.shuffled > 0, is_shuffled, "{cost:?}");
        let after = dataset.erase(&slots, two(), &go_on).unwrap();
        let new = after.manifest().segments_beyond(dataset.manifest());
        let new = new
            .into_iter()
            .map(|it| after.manifest().segments[it as usize].bytes);
        assert_eq!(new.sum::<u64>(), cost.new_bytes);
        world.seeds.see(&after);
        world.generations.see(&after);
        for row in chosen {
            world.rows.remove(&row.id);
        }
        world.upload();
        for answers in [Answers::Moments, Answers::Cells] {
            world.ask_for(answers);
        }
    }
    assert_eq!(world.answered, 4);
}

#[test]
fn random_histories_agree_with_a_model_in_plaintext() {
    let sequences = std::env::var("OBORO_SEQUENCES").ok();
    let sequences = sequences.map_or(SEQUENCES, |it| it.parse().expect("it is a number"));
    let large = (sequences * LARGE_SEQUENCES).div_ceil(100);
    let history = |seed| {
        let mut world = World::new(seed);
        if seed < large {
            let count = world.rng.random_range(82_000..120_000);
            world.grow(count);
        }
        for _ in 0..STEPS {
            world.step();
        }
        world.answered
    };
    let next = AtomicU64::new(0);
    let run = || {
        let seeds = std::iter::repeat_with(|| next.fetch_add(1, Ordering::Relaxed));
        let answers = seeds.take_while(|&seed| seed < sequences).map(|seed| {
            std::panic::catch_unwind(|| history(seed)).unwrap_or_else(|panic| {
                println!("sequence {seed}");
                std::panic::resume_unwind(panic)
            })
        });
        answers.sum::<u64>()
    };
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let answered: u64 = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..threads).map(|_| scope.spawn(run)).collect();
        workers
            .into_iter()
            .map(|it| it.join().expect("every history agrees"))
            .sum()
    });
    // Fewer answers would prove little.
    assert!(answered > sequences, "{answered} questions were answered");
}
