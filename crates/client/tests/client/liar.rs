//! A server that lies learns nothing and changes nothing: whatever it answers, it sees the requests of an honest run,
//! or the run ends with an error that is noted, and nothing unverified is reported.
//!
//! Each test is a table of lies, told in every way to ask. `crates/cli/tests/cli/liar.rs` has one lie of each kind
//! through the command.

use crate::common::{connect_to, two};
use crate::ways::{
    BY_CELLS, ITEMS, LONGEST, NAME, ROW, Scene, Way, encrypted, go_on, length, rows, ways,
};
use oboro_client::{
    Answers, ClientError, KEPT_BYTES, Mining, MiningReport, Recovery, RecoveryCopy, VersionCheck,
    keep_record, upload,
};
use oboro_dataset::{Dataset, NewItems};
use oboro_faults::Image;
use oboro_format::{Digest, ErrorClass};
use oboro_input::MinSupport;
use oboro_mining::{AprioriError, AprioriOptions};
use oboro_protocol::v1::{self, count_reply::Reply};
use oboro_protocol::{RECOVERY_CHUNK_BYTES, RETRY_AFTER_KEY};
use oboro_relay::{Answer, Asked, status};
use oboro_ring::{Parameters, pack};
use oboro_rlwe::{MasterKey, Passphrase};
use prost::bytes::Bytes;
use rand::prelude::*;
use rand::rngs::ChaCha20Rng;
use std::collections::{BTreeSet, HashMap};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

/// Ranges of [`Scene::with_sample`] after the first one.
const TOTAL: u64 = 1;
const SAMPLE: u64 = 2;
/// Bytes of the sealed cells of a column in the first segment: one bit per slot, and the seal.
const PART: usize = 4096 / 8 + 40;

impl Scene {
    /// Asserts that a question ends as one whose answer was false: the server saw these requests, and sees none until
    /// the owner decides.
    #[track_caller]
    fn ends(&self, way: Way, what: &str, requests: &[Asked]) {
        let error = self.ask(way).expect_err(what);
        let is_false = matches!(error, ClientError::FalseAnswer { .. });
        assert!(is_false, "{way:?}, {what}: {error}");
        assert_eq!(error.class(), ErrorClass::FalseAnswer);
        assert_eq!(self.asked(), requests, "{way:?}, {what}");
        let error = self.ask(way).unwrap_err();
        let is_refused = matches!(error, ClientError::Distrusted { .. });
        assert!(is_refused, "{way:?}, {what}: {error}");
        assert_eq!(self.relay.asked(), [], "{way:?}, {what}");
        assert!(self.noted());
    }

    /// Asks, and returns the requests with the messages of their answers.
    fn heard(&self, way: Way) -> Vec<(Asked, Vec<Bytes>)> {
        let heard: Arc<Mutex<Vec<Vec<Bytes>>>> = Arc::default();
        let hearing = Arc::clone(&heard);
        self.relay.alter(move |call, _, answer| {
            if is_question(call) {
                answer.alter(|all| hearing.lock().unwrap().push(all.clone()));
            }
        });
        self.asked();
        self.ask(way).unwrap();
        self.noted();
        self.relay.pass();
        let asked = self.asked().into_iter();
        let heard = std::mem::take(&mut *heard.lock().unwrap());
        let asked = asked.filter(|(call, _)| is_question(call));
        asked.zip(heard).collect()
    }

    /// Answers the question with this number by these messages.
    fn replay(&self, number: usize, messages: Vec<Bytes>) {
        let questions = AtomicUsize::new(0);
        self.relay.alter(move |call, _, answer| {
            if is_question(call) && questions.fetch_add(1, Ordering::Relaxed) == number {
                answer.alter(|all| all.clone_from(&messages));
            }
        });
    }

    /// Mines all pairs in cells that are kept, or as this check has it.
    fn mine_kept(&self, check: VersionCheck) -> Result<MiningReport, ClientError> {
        let options = AprioriOptions::new(MinSupport::Fraction(0.1));
        let mined = Mining::new(&self.dataset, NAME, two())
            .by(Answers::Cells)
            .keeping(KEPT_BYTES)
            .checking(check)
            .run(options, || Ok(connect_to(self.relay.url())));
        mined.map_err(counter)
    }
}

fn counter(error: AprioriError<ClientError>) -> ClientError {
    match error {
        AprioriError::Counter(error) => error,
        other => panic!("{other}"),
    }
}

/// Returns true for calls that ask about data.
fn is_question(call: &str) -> bool {
    ["Count", "FetchColumns"].contains(&call)
}

/// Cells in an answer, altered as bytes; split into messages of another length.
fn alter_cells(answer: &mut Answer, alter: impl FnOnce(&mut Vec<u8>)) {
    answer.alter_as(|replies: &mut Vec<v1::FetchColumnsReply>| {
        let mut cells = replies.iter().flat_map(|it| it.data.to_vec()).collect();
        alter(&mut cells);
        let reply = |data: &[u8]| v1::FetchColumnsReply {
            data: data.to_vec().into(),
        };
        *replies = cells.chunks(1013).map(reply).collect();
    });
}

#[test]
fn cells_that_were_not_sealed_end_the_run() {
    type Lie = (&'static str, fn(&mut Vec<u8>));
    let lies: &[Lie] = &[
        ("nothing", Vec::clear),
        ("the last byte missing", |cells| {
            cells.truncate(cells.len() - 1)
        }),
        ("a column missing", |cells| drop(cells.drain(..PART))),
        ("a byte more", |cells| cells.push(0)),
        ("all of it twice", |cells| cells.extend_from_within(..)),
        ("columns exchanged", |cells| cells.rotate_left(PART)),
        ("one column for another", |cells| {
            cells.copy_within(..PART, PART)
        }),
        ("the first bit altered", |cells| cells[0] ^= 1),
        ("a cell altered", |cells| cells[4 * PART + 100] ^= 1),
        ("the last bit altered", |cells| {
            *cells.last_mut().unwrap() ^= 0x80
        }),
        ("what makes no sense", |cells| cells.fill(0xa5)),
    ];
    let scene = Scene::uploaded();
    for way in BY_CELLS {
        let (result, requests) = scene.honest(way);
        assert_eq!(requests.len(), 1);
        assert_eq!(requests[0].0, "FetchColumns");
        for &(what, lie) in lies {
            scene.relay.alter(move |call, _, answer| {
                if call == "FetchColumns" {
                    alter_cells(answer, lie);
                }
            });
            scene.ends(way, what, &requests);
        }
        // Split differently they are the same.
        scene.relay.alter(|call, _, answer| {
            if call == "FetchColumns" {
                alter_cells(answer, |_| {});
                answer.alter(|all| all.insert(0, Bytes::new()));
            }
        });
        assert_eq!(scene.ask(way).unwrap(), result);
        scene.asked();
    }
}

/// Answer of a server that counted itemsets of some length.
struct Sums {
    length: usize,
    replies: Vec<v1::CountReply>,
}

/// Position of a residue: range, moment, limb and slot. A scalar has one slot, and slots are counted modulo their number.
type At = (u64, u64, usize, usize);

/// Residues of a message.
struct Residues {
    all: Vec<u32>,
    /// Number of residues of a moment.
    each: usize,
    /// Number of residues of a moment modulo one limb.
    of_limb: usize,
}

impl Sums {
    fn moments(&mut self) -> Vec<&mut v1::Moments> {
        let replies = self.replies.iter_mut();
        let moments = replies.filter_map(|it| match &mut it.reply {
            Some(Reply::Moments(moments)) => Some(moments),
            _ => None,
        });
        moments.collect()
    }

    /// Keeps only these messages of moments.
    fn keep(&mut self, keep: impl Fn(&v1::Moments) -> bool) {
        self.replies
            .retain(|it| !matches!(&it.reply, Some(Reply::Moments(it)) if !keep(it)));
    }

    /// Alters the residues of every message.
    fn alter_all(&mut self, alter: impl Fn(&mut Residues)) {
        let limbs = self.length;
        for message in self.moments() {
            alter_message(message, limbs, &alter);
        }
    }

    /// Alters one residue.
    fn alter(&mut self, (range, moment, limb, slot): At, alter: impl Fn(u32) -> u32) {
        let limbs = self.length;
        let has = |it: &&mut v1::Moments| {
            it.range == range && (it.first_moment..it.first_moment + it.moments).contains(&moment)
        };
        let message = self.moments().into_iter().find(has).unwrap();
        let before = (moment - message.first_moment) as usize;
        alter_message(message, limbs, |it| {
            let at = before * it.each + limb * it.of_limb + slot % it.of_limb;
            it.all[at] = alter(it.all[at]);
        });
    }

    /// Adds a number to one residue.
    fn add(&mut self, at: At, by: i64) {
        let q = Parameters::new(12, LONGEST as usize, 40_961)
            .unwrap()
            .limb_moduli()[at.2];
        let change = q.reduce(by.unsigned_abs());
        self.alter(at, |it| match by {
            0.. => q.add(it, change),
            _ => q.sub(it, change),
        });
    }

    /// Index of the first moment that is a polynomial, or of the second scalar.
    fn polynomial(&mut self) -> u64 {
        let is_polynomial =
            |it: &&mut v1::Moments| it.residues.len() > 4096 / 8 * it.moments as usize;
        let first = self.moments().into_iter().find(is_polynomial);
        first.map_or(1, |it| it.first_moment)
    }

    /// Index of the last moment.
    fn last(&mut self) -> u64 {
        let ends = self.moments().into_iter();
        ends.map(|it| it.first_moment + it.moments - 1)
            .max()
            .unwrap()
    }
}

/// Alters the residues of a message.
fn alter_message(message: &mut v1::Moments, limbs: usize, alter: impl Fn(&mut Residues)) {
    let mut all = vec![0; pack::unpacked_len(message.residues.len())];
    pack::unpack(&message.residues, &mut all);
    let each = all.len() / message.moments as usize;
    let mut residues = Residues {
        all,
        each,
        of_limb: each / limbs,
    };
    alter(&mut residues);
    let mut bytes = vec![0; pack::packed_len(residues.all.len())];
    pack::pack(&residues.all, &mut bytes);
    message.residues = bytes.into();
}

/// Alters the answers about itemsets of this length.
fn alter_sums(
    of_length: u32,
    alter: impl Fn(&mut Sums) + Send + Sync + 'static,
) -> impl Fn(&str, &[u8], &mut Answer) + Send + Sync + 'static {
    move |call, request, answer| {
        if call == "Count" && length(request) == of_length {
            answer.alter_as(|replies| {
                let mut sums = Sums {
                    length: of_length as usize,
                    replies: std::mem::take(replies),
                };
                alter(&mut sums);
                *replies = sums.replies;
            });
        }
    }
}

/// Returns the bytes of a message without the first ones.
fn cut(message: &mut v1::Moments, bytes: usize) {
    message.residues = message.residues.slice(bytes..);
}

/// Returns the number of bytes of one moment.
fn each(message: &v1::Moments) -> usize {
    message.residues.len() / message.moments as usize
}

fn fill(sums: &mut Sums, byte: u8) {
    for message in sums.moments() {
        message.residues = vec![byte; message.residues.len()].into();
    }
}

type Lie = (&'static str, fn(&mut Sums));

/// Lies that no data could have as an answer.
const IMPOSSIBLE: &[Lie] = &[
    ("nothing", |it| it.replies.clear()),
    ("no end", |it| drop(it.replies.pop())),
    ("an end only", |it| {
        drop(it.replies.drain(..it.replies.len() - 1))
    }),
    ("one part missing", |it| drop(it.replies.remove(1))),
    ("one part twice", |it| {
        it.replies.insert(1, it.replies[1].clone())
    }),
    ("all of it twice", |it| it.replies.extend_from_within(..)),
    ("no sample", |it| it.keep(|it| it.range != SAMPLE)),
    ("a range that is none", |it| {
        it.moments()[0].range = u64::MAX
    }),
    ("another range", |it| it.moments()[0].range += 1),
    ("moments that are none", |it| {
        it.moments()[0].first_moment = u64::MAX
    }),
    ("other moments", |it| it.moments()[0].first_moment += 1),
    ("moments beyond any", |it| {
        it.moments()[0].moments = u64::MAX
    }),
    ("half of all numbers", |it| {
        it.moments()[0].moments = 1 << 63
    }),
    ("no moments", |it| it.moments()[0].moments = 0),
    ("a moment too few", |it| {
        let message = it.moments().remove(0);
        let bytes = each(message);
        cut(message, bytes);
        message.moments -= 1;
    }),
    ("a moment too many", |it| {
        let message = it.moments().remove(0);
        message.residues = [&message.residues[..], &vec![0; each(message)]]
            .concat()
            .into();
    }),
    ("a byte too few", |it| cut(it.moments().remove(0), 1)),
    ("no bytes", |it| it.moments()[0].residues = Bytes::new()),
    ("residues of something else", |it| fill(it, 0xa5)),
    ("what makes no sense, often", |it| {
        fill(it, 0xff);
        (0..3).for_each(|_| it.replies.extend_from_within(..));
    }),
    ("a count that is not what came", |it| {
        if let Some(Reply::Done(done)) = &mut it.replies.last_mut().unwrap().reply {
            done.moments += 1;
        }
    }),
    ("more after the end", |it| {
        let more = v1::Moments {
            first_moment: it.last() + 1,
            moments: 1,
            range: 0,
            residues: vec![0; it.length * 4096 * 7 / 2].into(),
        };
        it.replies.push(Reply::Moments(more).into());
    }),
];

/// Lies that other data could have as an answer.
const FALSE: &[Lie] = &[
    ("one scalar", |it| it.add((0, 0, 0, 0), 1)),
    ("one slot of the total", |it| {
        let first = it.polynomial();
        it.add((TOTAL, first, it.length - 1, 77), 1);
    }),
    ("the last slot of the sample", |it| {
        let last = it.last();
        it.add((SAMPLE, last, 1, 4095), -40_961);
    }),
    ("by t in every limb", |it| {
        (0..it.length).for_each(|limb| it.add((TOTAL, 2, limb, 0), 40_961));
    }),
    ("slots that cancel", |it| {
        let first = it.polynomial();
        it.add((0, first, 0, 0), 9);
        it.add((0, first, 0, 1), -9);
    }),
    ("scalars that cancel", |it| {
        it.add((0, 0, 0, 0), 4096);
        it.add((0, 1, 0, 0), -4096);
    }),
    ("a scalar against a slot", |it| {
        let first = it.polynomial();
        it.add((0, 0, 0, 0), 9);
        it.add((0, first, 0, 0), -9);
    }),
    ("moments that cancel", |it| {
        let first = it.polynomial();
        it.add((0, first, 1, 5), 7);
        it.add((0, first + 1, 1, 5), -7);
    }),
    ("ranges that cancel", |it| {
        let first = it.polynomial();
        for limb in 0..it.length {
            it.add((0, first, limb, 5), 4096);
            it.add((TOTAL, first, limb, 5), -4096);
        }
    }),
    ("moments exchanged", |it| {
        it.alter_all(|it| it.all.rotate_left(it.each))
    }),
    ("limbs exchanged", |it| {
        it.alter_all(|it| {
            let by = it.of_limb;
            it.all
                .chunks_exact_mut(it.each)
                .for_each(|it| it.rotate_left(by));
        });
    }),
    ("slots shifted", |it| {
        it.alter_all(|it| it.all.rotate_left(1))
    }),
    ("ranges exchanged", |it| {
        for message in it.moments() {
            message.range = [0, SAMPLE, TOTAL][message.range as usize];
        }
    }),
    ("the sample for the total", |it| {
        let of = |range| move |it: &&mut v1::Moments| it.range == range;
        let sample = it
            .moments()
            .into_iter()
            .find(of(SAMPLE))
            .unwrap()
            .residues
            .clone();
        it.moments().into_iter().find(of(TOTAL)).unwrap().residues = sample;
    }),
    ("no polynomials", |it| {
        let first = it.polynomial();
        it.keep(|it| it.first_moment < first);
    }),
    ("another representative", |it| {
        // It fits only for the smallest limb.
        if it.length == LONGEST as usize {
            let q = Parameters::new(12, it.length, 40_961)
                .unwrap()
                .limb_moduli()[3];
            it.alter((0, 7, 3, 2), |it| it + q.value());
        }
    }),
    ("zeros", |it| fill(it, 0)),
    ("ones", |it| fill(it, 0xff)),
];

#[test]
fn sums_and_moments_that_are_not_those_of_the_ciphertext_end_the_run() {
    let scene = Scene::with_sample();
    let other_row = Way::Row("2");
    let heard: Vec<_> = [Way::Pairs, Way::Longer, ROW, other_row, Way::Trusted]
        .into_iter()
        .flat_map(|way| scene.heard(way))
        .collect();
    let mut used = BTreeSet::new();
    for (way, length) in [
        (Way::Pairs, 2),
        (ROW, 2),
        (Way::Longer, 3),
        (Way::Longer, 4),
        (Way::Trusted, 2),
    ] {
        let (result, requests) = scene.honest(way);
        // A trusting run asks for limits first.
        assert!(
            requests
                .iter()
                .all(|it| it.0 == "Count" || way == Way::Trusted)
        );
        let until = match way {
            Way::Longer => length as usize - 1,
            _ => requests.len(),
        };
        let believable = if way == Way::Trusted { &[] } else { FALSE };
        for &(what, lie) in IMPOSSIBLE.iter().chain(believable) {
            let is_altered = Arc::new(AtomicBool::new(false));
            let noting = Arc::clone(&is_altered);
            scene.relay.alter(alter_sums(length, move |sums| {
                let before = sums.replies.clone();
                lie(sums);
                noting.store(sums.replies != before, Ordering::Relaxed);
            }));
            let applies = match what {
                "slots that cancel" | "no polynomials" => way == Way::Longer,
                // Verified parts are right whatever follows them.
                "no end" | "a count that is not what came" => way == Way::Trusted,
                "another representative" => length == LONGEST,
                _ => true,
            };
            if applies {
                if way == Way::Trusted {
                    // Without its end, an answer may count as a broken connection instead.
                    assert!(scene.ask(way).is_err(), "{what}");
                    scene.noted();
                } else {
                    scene.ends(way, what, &requests[..until]);
                }
                assert!(is_altered.load(Ordering::Relaxed), "{way:?}, {what}");
                used.insert(what);
            }
        }
        let others = heard.iter().filter(|it| it.0 != requests[until - 1]);
        for (_, other) in others.filter(|_| way != Way::Trusted) {
            scene.replay(until - 1, other.clone());
            scene.ends(way, "another answer", &requests[..until]);
        }
        assert_eq!(scene.honest(way).0, result);
    }
    assert_eq!(used.len(), IMPOSSIBLE.len() + FALSE.len());
    // A server that repeatedly answers nothing has not lied.
    scene.relay.alter(alter_sums(2, |sums| {
        (0..100).for_each(|_| sums.replies.insert(1, v1::CountReply { reply: None }));
    }));
    scene.ask(Way::Trusted).unwrap();
}

/// Number of random answers: OBORO_TRIALS, or a hundredth of the number in `make nightly`.
fn trials() -> u64 {
    let given = std::env::var("OBORO_TRIALS").ok();
    given.map_or(100, |given| given.parse().unwrap())
}

/// For random answers, the server sees the requests of the honest run, some of them repeated if it reports a broken
/// connection, and the owner gets the honest result or an error.
fn check_random_answers(
    way: Way,
    alter: impl Fn(&mut ChaCha20Rng, &[u8], &mut Answer, &mut Vec<Bytes>) + Send + Sync + 'static,
) {
    let scene = Scene::with_sample();
    let (honest_result, honest) = scene.honest(way);
    let (alter, old) = (Arc::new(alter), Arc::<Mutex<Vec<Bytes>>>::default());
    for trial in 0..trials() {
        let (alter, old) = (Arc::clone(&alter), Arc::clone(&old));
        let rng = Mutex::new(ChaCha20Rng::seed_from_u64(trial));
        scene.relay.alter(move |call, request, answer| {
            if is_question(call) {
                let (rng, old) = (&mut *rng.lock().unwrap(), &mut *old.lock().unwrap());
                let mut truth = Vec::new();
                answer.alter(|all| truth.clone_from(all));
                alter(rng, request, answer, old);
                answer.alter(|all| old.clone_from(if rng.random() { &*all } else { &truth }));
            }
        });
        let ended = scene.ask(way);
        for (place, run) in scene.asked().chunk_by(|a, b| a == b).enumerate() {
            assert_eq!(Some(&run[0]), honest.get(place), "trial {trial}: {ended:?}");
            assert!(run.len() <= 3, "trial {trial}: {ended:?}");
        }
        let noted = scene.noted();
        match ended {
            Ok(result) => assert!(result == honest_result && !noted, "trial {trial}"),
            Err(error) => {
                let is_false = matches!(error, ClientError::FalseAnswer { .. });
                assert_eq!(is_false, noted, "trial {trial}: {error}");
            }
        }
    }
}

/// Ends an answer early with a random status.
fn random_status(rng: &mut ChaCha20Rng, answer: &mut Answer) {
    answer.alter(|all| all.truncate(rng.random_range(0..=all.len())));
    answer.ending = status(&rng.random_range(0..17u8).to_string(), &[]);
}

fn random_cells(rng: &mut ChaCha20Rng, answer: &mut Answer, old: &[Bytes]) {
    match rng.random_range(0..12) {
        7 if !old.is_empty() => return answer.alter(|all| *all = old.to_vec()),
        8 => return random_status(rng, answer),
        9 => return thread::sleep(Duration::from_millis(rng.random_range(0..60))),
        _ => {}
    }
    alter_cells(answer, |cells| {
        let truth = cells.clone();
        let part = |rng: &mut ChaCha20Rng| rng.random_range(0..truth.len() / PART) * PART;
        match rng.random_range(0..10) {
            0 => rng.fill_bytes(cells),
            1 => {
                let at = part(rng);
                rng.fill_bytes(&mut cells[at..at + PART]);
            }
            2 => {
                for _ in 0..rng.random_range(1..9) {
                    let bit = rng.random_range(0..8 * cells.len());
                    cells[bit / 8] ^= 1 << (bit % 8);
                }
            }
            3 => {
                let (from, to) = (part(rng), part(rng));
                cells.copy_within(from..from + PART, to);
            }
            4 => cells.truncate(rng.random_range(0..cells.len())),
            5 => cells.extend_from_slice(&truth[..rng.random_range(1..truth.len())]),
            6 => cells.rotate_left(rng.random_range(0..truth.len())),
            _ => {}
        }
    });
}

fn random_sums(rng: &mut ChaCha20Rng, request: &[u8], answer: &mut Answer, old: &[Bytes]) {
    let length = length(request) as usize;
    match rng.random_range(0..12) {
        0 if !old.is_empty() => return answer.alter(|all| *all = old.to_vec()),
        1 => return random_status(rng, answer),
        2 => return thread::sleep(Duration::from_millis(rng.random_range(0..60))),
        _ => {}
    }
    answer.alter_as(|replies| {
        let mut sums = Sums {
            length,
            replies: std::mem::take(replies),
        };
        let last = sums.last();
        let at = |rng: &mut ChaCha20Rng| -> At {
            let (range, moment) = (rng.random_range(0..3), rng.random_range(0..=last));
            let (limb, slot) = (rng.random_range(0..length), rng.random_range(0..4096));
            (range, moment, limb, slot)
        };
        match rng.random_range(0..10) {
            0 => {
                for message in sums.moments() {
                    let mut bytes = vec![0; message.residues.len()];
                    rng.fill_bytes(&mut bytes);
                    message.residues = bytes.into();
                }
            }
            1 => {
                for _ in 0..rng.random_range(1..5) {
                    let (at, by) = (at(rng), rng.random_range(1..1 << 26));
                    sums.add(at, if rng.random() { by } else { -by });
                }
            }
            2 => {
                // The same change with opposite signs in two residues of any kind.
                let (from, to, by) = (at(rng), at(rng), rng.random_range(1..1 << 26));
                sums.add(from, by);
                sums.add(to, -by);
            }
            3 => {
                // The same in all limbs of two moments of one range.
                let ((range, from, _, slot), (_, to, ..)) = (at(rng), at(rng));
                let by = rng.random_range(1..1 << 26);
                for limb in 0..length {
                    sums.add((range, from, limb, slot), -by);
                    sums.add((range, to, limb, slot), by);
                }
            }
            4 => {
                let order: u64 = rng.random();
                sums.alter_all(|it| it.all.shuffle(&mut ChaCha20Rng::seed_from_u64(order)));
            }
            5 => {
                let message = rng.random_range(0..sums.replies.len());
                drop(sums.replies.remove(message));
            }
            6 => {
                let message = rng.random_range(0..sums.replies.len());
                let to = rng.random_range(0..sums.replies.len());
                sums.replies.insert(to, sums.replies[message].clone());
            }
            _ => {}
        }
        *replies = sums.replies;
    });
}

#[test]
fn a_liar_about_cells_sees_the_honest_requests_or_a_failed_run() {
    check_random_answers(Way::Cells, |rng, _, answer, old| {
        random_cells(rng, answer, old)
    });
}

#[test]
fn a_liar_about_sums_sees_the_honest_requests_or_a_failed_run() {
    check_random_answers(Way::Pairs, |rng, request, answer, old| {
        random_sums(rng, request, answer, old);
    });
}

#[test]
fn a_liar_about_rows_sees_the_honest_requests_or_a_failed_run() {
    check_random_answers(ROW, |rng, request, answer, old| {
        random_sums(rng, request, answer, old);
    });
}

#[test]
fn a_liar_about_moments_sees_the_honest_requests_or_a_failed_run() {
    check_random_answers(Way::Longer, |rng, request, answer, old| {
        random_sums(rng, request, answer, old);
    });
}

/// Version, number of the answer, and its messages.
type Earlier = (&'static str, usize, Vec<Bytes>);

/// Answers that were right for an earlier version, or for another dataset: many have the length of the right one.
#[test]
fn answers_about_another_version_or_dataset_are_refused() {
    const WAYS: [Way; 5] = [Way::Cells, Way::RowIds, Way::Pairs, ROW, Way::Longer];
    let mut scene = Scene::new();
    let new_key = MasterKey::generate().unwrap();
    let mut earlier: HashMap<Way, Vec<Earlier>> = HashMap::new();
    let mut hear = |scene: &Scene, version: &'static str| {
        for way in WAYS {
            let heard = scene.heard(way).into_iter().enumerate();
            let heard = heard.map(|(number, (_, messages))| (version, number, messages));
            earlier.entry(way).or_default().extend(heard);
        }
        earlier.clone()
    };
    let other = encrypted(rows(0..60), &scene.key, &scene.path("other"));
    let first = std::mem::replace(&mut scene.dataset, other);
    scene.upload();
    hear(&scene, "another dataset's");
    scene.connect().delete(NAME, true).unwrap();
    scene.dataset = first;
    scene.upload();
    type Change<'a> = (&'static str, &'a dyn Fn(&Dataset) -> Dataset);
    let append = |it: &Dataset, from: usize, absorbs| {
        let rows = rows(from..from + 20).absorbing(Some(absorbs));
        it.append(rows, NewItems::Refuse, two(), &go_on).unwrap()
    };
    let erase = |it: &Dataset| {
        let slot = it.own_row_ids(two()).unwrap()[7].slot;
        it.erase(&BTreeSet::from([slot]), two(), &go_on).unwrap()
    };
    let changes: [Change<'_>; 6] = [
        ("appended", &|it| append(it, 60, false)),
        ("erased", &erase),
        ("erased again", &erase),
        ("absorbed", &|it| append(it, 80, true)),
        ("compacted", &|it| {
            it.compact(true, two(), &go_on).unwrap().unwrap()
        }),
        ("rotated", &|it| it.rotate(&new_key, two(), &go_on).unwrap()),
    ];
    let mut before = "the first";
    for (what, change) in changes {
        let all = hear(&scene, before);
        scene.change(|it| Ok::<_, ()>(change(it)));
        before = what;
        for way in WAYS {
            let (_, requests) = scene.honest(way);
            for (version, number, messages) in &all[&way] {
                scene.replay(*number, messages.clone());
                let what = format!("{version} when {what}");
                scene.ends(way, &what, &requests[..=*number]);
            }
        }
        match what {
            "appended" => splice_cells(&scene),
            "erased" => splice_sums(&scene, &all[&Way::Pairs].last().unwrap().2),
            _ => {}
        }
    }
    scene.honest(Way::Longer);
}

/// Replaces the message about one range by the earlier one.
fn splice_sums(scene: &Scene, earlier: &[Bytes]) {
    let requests = scene.honest(Way::Pairs).1;
    let own = scene.heard(Way::Pairs).remove(0).1;
    assert_eq!(own.len(), earlier.len());
    let changed = (1..own.len() - 1).filter(|&at| own[at] != earlier[at]);
    let changed: Vec<usize> = changed.collect();
    assert!(!changed.is_empty());
    for at in changed {
        let mut messages = own.clone();
        messages[at] = earlier[at].clone();
        scene.replay(0, messages);
        scene.ends(Way::Pairs, "a range that is held back", &requests);
    }
}

/// Splices the cells of a segment with those of an appended one.
fn splice_cells(scene: &Scene) {
    let (_, requests) = scene.honest(Way::Cells);
    type Splice = (&'static str, fn(&mut Vec<u8>));
    let splices: [Splice; 3] = [
        ("the first segment twice", |it| {
            it.copy_within(..ITEMS * PART, ITEMS * PART)
        }),
        ("segments exchanged", |it| it.rotate_left(ITEMS * PART)),
        ("another column in one segment", |it| {
            it[ITEMS * PART..].rotate_left(PART)
        }),
    ];
    for (what, splice) in splices {
        scene.relay.alter(move |call, _, answer| {
            if call == "FetchColumns" {
                alter_cells(answer, |cells| {
                    assert_eq!(cells.len(), 2 * ITEMS * PART);
                    splice(cells);
                });
            }
        });
        scene.ends(Way::Cells, what, &requests);
    }
}

/// Verification consumes nothing: a copy of the directory from before a lie, and two clients at once, detect lies as
/// well.
#[test]
fn tokens_serve_a_restored_copy_and_two_clients_at_once() {
    let scene = Scene::with_sample();
    let before = Image::read(scene.dataset.bundle().directory());
    let restored = |name: &str| {
        let path = scene.path(name);
        std::fs::create_dir(&path).unwrap();
        before.write(&path);
        Dataset::open(&path, &scene.key).unwrap()
    };
    let copy = restored("copy");
    let both = || {
        let connect = || connect_to(scene.relay.url());
        thread::scope(|scope| {
            let one = scope.spawn(|| Way::Pairs.ask(&scene.dataset, &connect()));
            let other = scope.spawn(|| Way::Pairs.ask(&copy, &connect()));
            [one, other].map(|it| it.join().unwrap())
        })
    };
    let is_false = |answer| matches!(answer, Err(ClientError::FalseAnswer { .. }));
    for by in 1..4 {
        // The same lie to both, and again to a copy restored after it was detected.
        let lie = move |sums: &mut Sums| sums.add((TOTAL, 3, 0, 0), by);
        scene.relay.alter(alter_sums(2, lie));
        assert!(both().into_iter().all(is_false));
        let again = restored(&format!("again-{by}"));
        assert!(is_false(
            Way::Pairs.ask(&again, &connect_to(scene.relay.url()))
        ));
        scene.noted();
        copy.reset_trust().unwrap();
    }
    scene.relay.pass();
    let [one, other] = both().map(Result::unwrap);
    assert_eq!(one, other);
}

#[test]
fn a_false_answer_is_remembered_until_the_owner_decides() {
    let mut scene = Scene::uploaded();
    scene.relay.alter(|call, _, answer| {
        if call == "FetchColumns" {
            alter_cells(answer, |cells| cells[PART] ^= 1);
        }
    });
    let error = scene.mine_kept(VersionCheck::Compare).unwrap_err();
    assert!(matches!(error, ClientError::FalseAnswer { .. }), "{error}");
    // Nothing is requested from then on, not even from an honest server, by any way, nor after an append.
    scene.relay.pass();
    scene.relay.asked();
    for is_appended in [false, true] {
        if is_appended {
            scene.change(|it| it.append(rows(60..80), NewItems::Refuse, two(), &go_on));
        }
        for way in ways() {
            let error = scene.ask(way).unwrap_err();
            assert!(matches!(error, ClientError::Distrusted { .. }), "{error}");
        }
        assert_eq!(scene.relay.asked(), []);
    }
    assert!(scene.noted());
    // False answers are not cached.
    let mined = scene.mine_kept(VersionCheck::Compare).unwrap();
    assert_eq!(mined.fetched.new_columns, ITEMS);
}

/// What is asked after unverified answers may be the server's choice, whichever way it is asked.
#[test]
fn after_unverified_answers_every_question_waits_for_a_decision() {
    let mut scene = Scene::uploaded();
    let known = scene.mine_kept(VersionCheck::Compare).unwrap();
    scene.ask(Way::Trusted).unwrap();
    let untrusting = || ways().filter(|&it| it != Way::Trusted);
    let refuse_all = |scene: &Scene| {
        scene.relay.asked();
        for way in untrusting() {
            let error = scene.ask(way).unwrap_err();
            assert!(matches!(error, ClientError::ReliedOn { .. }), "{error}");
            assert_eq!(error.class(), ErrorClass::Input);
        }
        assert_eq!(scene.relay.asked(), []);
    };
    refuse_all(&scene);
    // Kept cells alone are no question, not even about the version.
    let mined = scene.mine_kept(VersionCheck::Compare).unwrap();
    assert_eq!(mined.found, known.found);
    assert!(mined.fetched.offline);
    assert_eq!(scene.relay.asked(), []);
    // Trusting the server again is a decision of its own; rewriting is no question.
    scene.ask(Way::Trusted).unwrap();
    let slots = BTreeSet::from([7]);
    scene.change(|it| it.erase(&slots, two(), &go_on));
    refuse_all(&scene);
    let is_decided = || scene.dataset.trust().unwrap().relied_on.unwrap().decided;
    assert!(!is_decided());
    scene.dataset.reset_trust().unwrap();
    assert!(is_decided());
    for way in untrusting() {
        scene.ask(way).unwrap();
    }
}

/// The version that a server claims may end a run before its first question, and does nothing else.
#[test]
fn a_claimed_version_ends_a_run_before_its_first_question_or_changes_nothing() {
    type Lie = fn(&mut v1::DescribeDatasetReply);
    let lies: [Lie; 6] = [
        |reply| reply.version += 1,
        |reply| reply.version = 0,
        |reply| reply.root = vec![7; 32].into(),
        |reply| reply.root = vec![7; 31].into(),
        |reply| reply.dataset = vec![7; 16].into(),
        |reply| *reply = v1::DescribeDatasetReply::default(),
    ];
    // Any date is as good.
    let dates: [Lie; 2] = [
        |reply| reply.published = i64::MIN,
        |reply| reply.published = i64::MAX,
    ];
    let scene = Scene::uploaded();
    for way in ways() {
        scene.relay.pass();
        let honest = scene.ask(way).unwrap();
        scene.noted();
        let asked = scene.relay.asked();
        let of_version = |it: &&Asked| it.0 == "DescribeDataset";
        assert_eq!(asked.iter().filter(of_version).count(), 1, "{way:?}");
        for (number, lie) in lies.into_iter().chain(dates).enumerate() {
            scene.relay.alter(move |call, _, answer| {
                if call == "DescribeDataset" {
                    answer.alter_as(|all| lie(&mut all[0]));
                }
            });
            let ended = scene.ask(way);
            assert!(!scene.noted(), "{way:?}, lie {number}");
            let seen = scene.relay.asked();
            if number < lies.len() {
                assert!(ended.is_err(), "{way:?}, lie {number}");
                assert_eq!(seen, asked[..1], "{way:?}, lie {number}");
            } else {
                assert_eq!(ended.unwrap(), honest);
                assert_eq!(seen, asked);
            }
        }
    }
}

#[test]
fn no_answer_has_another_call_made_instead() {
    let scene = Scene::uploaded();
    for way in [Way::Cells, Way::Pairs] {
        let (result, honest) = scene.honest(way);
        for code in 1..17 {
            scene.relay.alter(move |call, _, answer| {
                if is_question(call) {
                    answer.fail(&code.to_string(), "out of luck");
                }
            });
            scene.ask(way).unwrap_err();
            // What may be a broken connection is retried with the same bytes, three attempts in total: 1, 2 and 14 are
            // cancelled, unknown and unavailable.
            let times = if [1, 2, 14].contains(&code) { 3 } else { 1 };
            assert_eq!(scene.asked(), vec![honest[0].clone(); times], "{code}");
            // Errors reported by a server are not false answers.
            assert!(!scene.noted(), "{code}");
        }
        // Nor do limits affect what is requested.
        scene.relay.alter(|call, _, answer| {
            if call == "ServerInfo" {
                answer.fail("13", "out of luck");
            }
        });
        assert_eq!(scene.ask(way).unwrap(), result);
        let mut asked = scene.asked();
        asked.retain(|(call, _)| is_question(call));
        assert_eq!(asked, honest);
    }
    // A server that says that it is busy sees the same bytes six times, however soon it wants to be asked again.
    let (_, honest) = scene.honest(Way::Cells);
    scene.relay.alter(|call, _, answer| {
        if is_question(call) {
            answer.messages = Box::new(std::iter::empty());
            answer.ending = status("8", &[(RETRY_AFTER_KEY, "1")]);
        }
    });
    let error = scene.ask(Way::Cells).unwrap_err();
    assert!(matches!(error, ClientError::Overloaded { .. }), "{error}");
    assert_eq!(scene.asked(), vec![honest[0].clone(); 6]);
}

/// Recovery copy in transit, with the version that the server claims to publish.
type Kept = (v1::RecoveryStart, Vec<u8>);

/// Returns a chunk of a copy with the digest of its new content.
fn redigested(copy: &[u8], at: usize) -> Vec<u8> {
    let mut copy = copy.to_vec();
    copy[at] ^= 1;
    let body = copy.len() - 32;
    let digest = Digest::of(&copy[..body]);
    copy[body..].copy_from_slice(&digest.0);
    copy
}

#[test]
fn a_record_that_was_not_kept_recovers_nothing_and_nothing_is_asked_after_it() {
    let mut scene = Scene::uploaded();
    let passphrase = Passphrase::new("open sesame".to_owned());
    let again = scene.path("again");
    let recover = |scene: &Scene, root| -> Result<Dataset, ClientError> {
        let recovery = Recovery {
            passphrase: &passphrase,
            master: &scene.key,
            root,
        };
        let copy = RecoveryCopy::fetch(connect_to(scene.relay.url()), NAME)?;
        recovery.recover(&copy, &again)
    };
    let keep = |scene: &Scene, dataset: &Dataset, name: &str| -> Kept {
        let kept: Arc<Mutex<Kept>> = Arc::default();
        let hearing = Arc::clone(&kept);
        keep_record(&scene.connect(), dataset.bundle(), name, &passphrase).unwrap();
        let connection = scene.relay(move |_, _, answer| {
            answer.alter_as(|all: &mut Vec<v1::RecoveryChunk>| {
                let copy = all.iter().flat_map(|it| it.data.to_vec()).collect();
                *hearing.lock().unwrap() = (all[0].start.clone().unwrap(), copy);
            });
        });
        RecoveryCopy::fetch(connection, name).unwrap();
        std::mem::take(&mut *kept.lock().unwrap())
    };
    let old = keep(&scene, &scene.dataset, NAME);
    let other = encrypted(rows(0..20), &scene.key, &scene.path("other"));
    upload(&scene.connect(), other.bundle(), "other", &|_, _| {}).unwrap();
    let other = keep(&scene, &other, "other");
    scene.change(|it| it.append(rows(60..80), NewItems::Refuse, two(), &go_on));
    let (start, copy) = keep(&scene, &scene.dataset, NAME);
    scene.asked();
    let body = copy.len() - 32;
    // Every field of the head and of the seal, and its ends; then the digest alone.
    let bits = [
        12,
        28,
        36,
        67,
        72,
        79,
        80,
        95,
        96,
        119,
        120,
        body - 17,
        body - 1,
    ];
    let altered = bits.map(|at| redigested(&copy, at));
    let mut digest = copy.clone();
    digest[body] ^= 1;
    let copies = altered.into_iter().chain([
        digest,
        copy[..body].to_vec(),
        [&copy[..], &[0; 4096]].concat(),
        Vec::new(),
        vec![0; (64 << 20) + 4096],
        old.1.clone(),
    ]);
    let mut lies: Vec<Kept> = copies.map(|copy| (start.clone(), copy)).collect();
    // What is said to be published and what was kept differ; or another dataset is in its place.
    let start_of_none = v1::RecoveryStart::default();
    lies.extend([(old.0.clone(), copy.clone()), (start_of_none, copy), other]);
    let tell = |scene: &Scene, (start, copy): Kept| {
        let chunks = copy
            .chunks(RECOVERY_CHUNK_BYTES)
            .map(|data| v1::RecoveryChunk {
                start: None,
                data: data.to_vec().into(),
            });
        let mut chunks: Vec<_> = chunks.collect();
        chunks.resize_with(chunks.len().max(1), Default::default);
        chunks[0].start = Some(start);
        scene.relay.alter(move |_, _, answer| {
            answer.alter_as(|all| all.clone_from(&chunks));
        });
    };
    for (number, lie) in lies.into_iter().enumerate() {
        tell(&scene, lie);
        assert!(recover(&scene, None).is_err(), "lie {number}");
        assert!(!again.exists(), "lie {number}");
        let asked = scene.asked();
        assert_eq!(asked.len(), 1, "lie {number}");
        assert_eq!(asked[0].0, "FetchRecovery", "lie {number}");
    }
    // Both old: noticed by an owner who noted the root.
    tell(&scene, old);
    let root = Digest(start.root.to_vec().try_into().unwrap());
    let error = recover(&scene, Some(root)).err().unwrap();
    assert!(matches!(error, ClientError::OtherRoot { .. }), "{error}");
    assert_eq!(recover(&scene, None).unwrap().manifest().version, 1);
}
