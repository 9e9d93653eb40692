//! Supports of itemsets in an uploaded dataset.
//!
//! A level's candidates go to the server in one question, or several if there are very many. The
//! moments that come back are combined with the secrets on several threads as they arrive and kept
//! nowhere. Each question holds itemsets of check columns, if the dataset has any, among the others,
//! and no support leaves here before those known beforehand are verified.

use crate::connection::Connection;
use crate::error::ClientError;
use oboro_mining::{Dataset, Itemset, SupportCounter, transactions::compare_names};
use oboro_protocol::{max_itemsets, moments_range, v1};
use oboro_ring::moment::Itemsets;
use oboro_rlwe::{Answer, Combiner, Partial, Phases};
use rand::seq::SliceRandom;
use std::num::NonZeroUsize;
use std::sync::mpsc::{Receiver, sync_channel};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

/// Messages waiting for a thread to combine them.
const WAITING: usize = 8;

const DURING: &str = "counting";

/// What the questions of one level cost together.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LevelTrace {
    /// The length of the itemsets.
    pub level: usize,
    /// How many were asked, those with check columns among them.
    pub itemsets: usize,
    /// In how many questions: the server may take but so many itemsets in one.
    pub questions: usize,
    /// How many of the supports were known beforehand and came back right.
    pub checks: usize,
    /// The most limbs that were read for a question.
    pub limbs: usize,
    /// Moments received, over all groups of blocks.
    pub moments: u64,
    /// Of these, moments that the server had computed for an earlier question.
    pub known_moments: u64,
    /// Bytes of moments received.
    pub received_bytes: u64,
    /// From question to supports.
    pub elapsed: Duration,
    /// Of that, what the server says it spent.
    pub server: Duration,
    /// What combining took here, by the clock: the threads' mean over the moments, most of it while
    /// others arrived, and then the supports. Where server and owner share processors, waiting for
    /// one is included.
    pub combining: Duration,
    /// `log2` of the largest phase, and of what it may be.
    pub log2_largest_phase: f64,
    /// The bound on the former.
    pub log2_phase_bound: f64,
}

impl LevelTrace {
    /// Adds what another question of the level cost.
    fn add(&mut self, other: &Self) {
        self.itemsets += other.itemsets;
        self.questions += other.questions;
        self.checks += other.checks;
        self.limbs = self.limbs.max(other.limbs);
        self.moments += other.moments;
        self.known_moments += other.known_moments;
        self.received_bytes += other.received_bytes;
        self.elapsed += other.elapsed;
        self.server += other.server;
        self.combining += other.combining;
        self.log2_largest_phase = self.log2_largest_phase.max(other.log2_largest_phase);
        self.log2_phase_bound = self.log2_phase_bound.max(other.log2_phase_bound);
    }
}

/// Told while moments arrive: the level, bytes of them received, bytes expected.
type Progress<'a> = Box<dyn Fn(usize, u64, u64) + Sync + 'a>;

/// An uploaded dataset that counts.
pub struct EncryptedCounter<'a> {
    connection: &'a Connection,
    dataset: &'a Dataset,
    name: String,
    threads: NonZeroUsize,
    /// The column of each item, items numbered in the order of their names.
    columns: Vec<u32>,
    names: Vec<String>,
    traces: Vec<LevelTrace>,
    progress: Progress<'a>,
}

impl<'a> EncryptedCounter<'a> {
    /// Counts in the dataset that was uploaded under `name`, combining on `threads` threads.
    pub fn new(
        connection: &'a Connection,
        dataset: &'a Dataset,
        name: &str,
        threads: NonZeroUsize,
    ) -> Self {
        let record = dataset.record();
        let mut items: Vec<(&String, u32)> =
            record.names.iter().zip(record.item_columns()).collect();
        items.sort_by(|(a, _), (b, _)| compare_names(a, b));
        Self {
            connection,
            dataset,
            name: name.to_owned(),
            threads,
            names: items.iter().map(|&(name, _)| name.clone()).collect(),
            columns: items.iter().map(|&(_, column)| column).collect(),
            traces: Vec::new(),
            progress: Box::new(|_, _, _| {}),
        }
    }

    /// Tells `progress` the level, the bytes of moments received and the bytes expected.
    #[must_use]
    pub fn with_progress(mut self, progress: impl Fn(usize, u64, u64) + Sync + 'a) -> Self {
        self.progress = Box::new(progress);
        self
    }

    /// The names of the items, in the order of their numbers.
    pub fn names(&self) -> &[String] {
        &self.names
    }

    /// What each level that was asked for has cost so far.
    pub fn traces(&self) -> &[LevelTrace] {
        &self.traces
    }

    /// Asks a part of a level's question and verifies what is known of the answer beforehand.
    fn ask_verified(&self, part: &[Question]) -> Result<(Answer, LevelTrace), ClientError> {
        let length = part[0].columns.len();
        let flat = part.iter().flat_map(|question| &question.columns);
        let (answer, mut trace) = self.ask(Itemsets::new(
            length,
            flat.copied().collect(),
            self.dataset.manifest().columns,
        )?)?;
        let answers = part.iter().zip(&answer.supports);
        let answers = answers.map(|(question, &support)| (&question.columns[..], support));
        trace.checks = self.dataset.record().checks.verify(answers)?;
        Ok((answer, trace))
    }

    /// Asks one question.
    fn ask(&self, itemsets: Itemsets) -> Result<(Answer, LevelTrace), ClientError> {
        let begun = Instant::now();
        let level = itemsets.length();
        let asked = itemsets.len();
        let blocks = self.dataset.manifest().block_count();
        let combiner = Combiner::new(self.dataset.key().clone(), itemsets, blocks)?;
        let request = v1::CountRequest {
            name: self.name.clone(),
            root: self.dataset.manifest().root().0.to_vec().into(),
            limbs: combiner.limbs() as u32,
            length: level as u32,
            columns: combiner.itemsets().as_flat().to_vec(),
            fraction_bits: combiner.fraction_bits().to_vec(),
        };
        let (sender, receiver) = sync_channel::<v1::Moments>(WAITING);
        let receiver = Arc::new(Mutex::new(receiver));
        let expected = combiner.answer_bytes();
        let (received, phases) = thread::scope(|scope| {
            let workers: Vec<_> = (0..self.threads.get())
                .map(|_| {
                    let (combiner, receiver) = (&combiner, Arc::clone(&receiver));
                    scope.spawn(move || combine(combiner, &receiver))
                })
                .collect();
            // Only workers hold it, so that sending fails, and does not wait, once all have ended.
            drop(receiver);
            let received = self.connection.runtime().block_on(async {
                let mut received = Received::default();
                let broken = |status| ClientError::from_status(&status, DURING);
                let asked = self.connection.client().count(request).await;
                let mut stream = self.connection.answer(asked, DURING)?;
                while let Some(reply) = stream.message().await.map_err(broken)? {
                    match reply.reply {
                        Some(v1::count_reply::Reply::Moments(moments)) => {
                            received.bytes += moments.fractions.len() as u64;
                            received.moments = received.moments.saturating_add(moments.moments);
                            (self.progress)(level, received.bytes, expected);
                            if sender.send(moments).is_err() {
                                // All workers have failed; their error says why.
                                break;
                            }
                        }
                        Some(v1::count_reply::Reply::Done(done)) => {
                            if done.moments != received.moments {
                                // Parts were lost on the way; what is there is worthless.
                                break;
                            }
                            received.known = done.known;
                            received.server = Some(Duration::from_micros(done.microseconds));
                        }
                        Some(v1::count_reply::Reply::Accepted(_)) | None => {}
                    }
                }
                Ok::<_, ClientError>(received)
            });
            drop(sender);
            let phases: Vec<_> = workers
                .into_iter()
                .map(|worker| worker.join().expect("combining does not panic"))
                .collect();
            (received, phases)
        });
        let mut all = combiner.phases();
        let mut busy = Duration::ZERO;
        for worker in phases {
            let (phases, spent) = worker?;
            busy += spent;
            combiner.merge(&mut all, &phases)?;
        }
        let received = received?;
        let server = received.server.ok_or(ClientError::Broken {
            during: DURING,
            cause: "the answer ended early".to_owned(),
        })?;
        let finishing = Instant::now();
        let answer = combiner.finish(&all)?;
        let trace = LevelTrace {
            level,
            itemsets: asked,
            questions: 1,
            checks: 0,
            limbs: combiner.limbs(),
            moments: received.moments,
            known_moments: received.known,
            received_bytes: received.bytes,
            elapsed: begun.elapsed(),
            server,
            combining: busy.div_f64(self.threads.get() as f64) + finishing.elapsed(),
            log2_largest_phase: answer.log2_largest_phase,
            log2_phase_bound: answer.log2_phase_bound,
        };
        Ok((answer, trace))
    }
}

/// The most itemsets of a length that the server takes in one question: as the protocol and its
/// operator allow, and as one message holds.
fn itemsets_per_question(limits: &v1::Limits, level: usize) -> usize {
    /// What a column number takes at most, and everything else in the message.
    const COLUMN_BYTES: u64 = 5;
    const OTHER_BYTES: u64 = 1024;
    let columns = limits.message_bytes.saturating_sub(OTHER_BYTES) / COLUMN_BYTES;
    let most = limits.itemsets.min(columns / level as u64).max(1);
    max_itemsets(level).min(usize::try_from(most).unwrap_or(usize::MAX))
}

#[derive(Default)]
struct Received {
    bytes: u64,
    moments: u64,
    known: u64,
    server: Option<Duration>,
}

/// One thread: combines messages until there are no more, and tells how long that took without
/// the waiting for them.
fn combine(
    combiner: &Combiner,
    receiver: &Mutex<Receiver<v1::Moments>>,
) -> Result<(Phases, Duration), ClientError> {
    let mut phases = combiner.phases();
    let mut busy = Duration::ZERO;
    let next = || {
        receiver
            .lock()
            .expect("no thread panics with the lock")
            .recv()
            .ok()
    };
    while let Some(message) = next() {
        let begun = Instant::now();
        let partial = Partial {
            group: message.group,
            moments: moments_range(&message)?,
            fractions: &message.fractions,
        };
        combiner.absorb(&mut phases, &partial)?;
        busy += begun.elapsed();
    }
    Ok((phases, busy))
}

/// An itemset to ask for.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Question {
    /// Ascending.
    columns: Vec<u32>,
    /// The place of the candidate whose support this is; `None` if it is asked for the check only.
    candidate: Option<usize>,
}

/// Divides the questions of a level into requests of at most `most` itemsets, at least 2, each in
/// the order of columns, not of names: the server must not learn how names sort.
///
/// Without `checks` neighbours stay together, since they share moments. With them, each request
/// gets its share of both, at least one check, and chance decides which: itemsets that broke the
/// order of their request would show that they are checks.
fn requests(
    mut candidates: Vec<Question>,
    mut checks: Vec<Question>,
    most: usize,
) -> Vec<Vec<Question>> {
    if checks.is_empty() {
        candidates.sort_unstable();
        return candidates.chunks(most).map(<[_]>::to_vec).collect();
    }
    // One less than `most`, since both shares are rounded up.
    let count = (candidates.len() + checks.len()).div_ceil(most.max(2) - 1);
    candidates.shuffle(&mut rand::rng());
    checks.shuffle(&mut rand::rng());
    let request = |i: usize| {
        let share = |of: usize| i * of / count..(i + 1) * of / count;
        let mut request = candidates[share(candidates.len())].to_vec();
        match &checks[share(checks.len())] {
            [] => request.push(checks[i % checks.len()].clone()),
            own => request.extend_from_slice(own),
        }
        request.sort_unstable();
        request
    };
    (0..count).map(request).collect()
}

impl SupportCounter for EncryptedCounter<'_> {
    type Error = ClientError;

    fn transactions(&self) -> u64 {
        self.dataset.record().transactions
    }

    fn items(&self) -> u32 {
        self.columns.len() as u32
    }

    fn count(&mut self, level: usize, candidates: &[Itemset]) -> Result<Vec<u64>, ClientError> {
        let mut supports = vec![0; candidates.len()];
        let columns = |candidate: &Itemset| {
            let mut columns: Vec<u32> = candidate
                .items()
                .iter()
                .map(|&item| self.columns[item as usize])
                .collect();
            columns.sort_unstable();
            columns
        };
        let asked: Vec<Vec<u32>> = candidates.iter().map(columns).collect();
        let check = |columns| Question {
            columns,
            candidate: None,
        };
        let checks = self.dataset.record().checks.beside(&asked);
        let checks = checks.into_iter().map(check).collect();
        let question = |(candidate, columns)| Question {
            columns,
            candidate: Some(candidate),
        };
        let candidates = asked.into_iter().enumerate().map(question).collect();
        let most = itemsets_per_question(&self.connection.limits()?, level);
        for request in requests(candidates, checks, most) {
            let (answer, trace) = self.ask_verified(&request)?;
            for (question, support) in request.iter().zip(answer.supports) {
                if let Some(candidate) = question.candidate {
                    supports[candidate] = support;
                }
            }
            match self.traces.last_mut() {
                Some(same) if same.level == level => same.add(&trace),
                _ => self.traces.push(trace),
            }
        }
        Ok(supports)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use prost::Message;

    #[test]
    fn questions_of_a_level_add_up() {
        let question = |itemsets, limbs, log2_largest_phase| LevelTrace {
            level: 12,
            itemsets,
            questions: 1,
            checks: itemsets / 2,
            limbs,
            moments: 50,
            known_moments: 20,
            received_bytes: 700,
            elapsed: Duration::from_millis(30),
            server: Duration::from_millis(20),
            combining: Duration::from_millis(5),
            log2_largest_phase,
            log2_phase_bound: 90.0,
        };
        let mut trace = question(256, 4, 70.5);
        trace.add(&question(3, 4, 71.5));
        let level = LevelTrace {
            questions: 2,
            moments: 100,
            known_moments: 40,
            received_bytes: 1400,
            elapsed: Duration::from_millis(60),
            server: Duration::from_millis(40),
            combining: Duration::from_millis(10),
            checks: 129,
            ..question(259, 4, 71.5)
        };
        assert_eq!(trace, level);
    }

    #[test]
    fn questions_fit_what_the_server_takes() {
        let limits = |itemsets, message_bytes| v1::Limits {
            itemsets,
            message_bytes,
            ..Default::default()
        };
        assert_eq!(itemsets_per_question(&limits(7, 1 << 20), 3), 7);
        let all = limits(u64::MAX, u64::MAX);
        assert_eq!(itemsets_per_question(&all, 3), max_itemsets(3));
        assert_eq!(itemsets_per_question(&limits(0, 0), 3), 1);
        let most = itemsets_per_question(&limits(u64::MAX, 1 << 20), 3);
        let request = v1::CountRequest {
            name: "n".repeat(100),
            root: vec![1; 32].into(),
            limbs: u32::MAX,
            length: u32::MAX,
            columns: vec![u32::MAX; 3 * most],
            fraction_bits: vec![64; 4],
        };
        assert!(most > 10_000 && request.encoded_len() <= 1 << 20);
    }

    /// Pairs of columns below 100, from a number.
    fn questions(numbers: std::ops::Range<usize>, candidates: bool) -> Vec<Question> {
        let question = |number: usize| Question {
            columns: vec![(number / 100) as u32, 100 + (number % 100) as u32],
            candidate: candidates.then_some(number),
        };
        numbers.rev().map(question).collect()
    }

    #[test]
    fn every_request_has_its_share_of_checks() {
        for (candidates, checks, most) in [
            (1, 1, 2),
            (1, 16, 16),
            (30, 3, 5),
            (700, 90, 64),
            (700, 90, 790),
            (700, 90, 791),
            (1000, 7, 16),
        ] {
            let planted = questions(candidates..candidates + checks, false);
            let all = requests(questions(0..candidates, true), planted.clone(), most);
            let mut asked = Vec::new();
            for request in &all {
                assert!(request.len() <= most && request.is_sorted());
                assert!(request.windows(2).all(|pair| pair[0] != pair[1]));
                assert!(request.iter().any(|question| question.candidate.is_none()));
                asked.extend(request.iter().filter_map(|question| question.candidate));
            }
            asked.sort_unstable();
            assert_eq!(asked, Vec::from_iter(0..candidates));
            assert!(planted.iter().all(|check| all.concat().contains(check)));
        }
    }

    #[test]
    fn without_checks_neighbours_share_a_request() {
        let all = requests(questions(0..10, true), Vec::new(), 4);
        let lengths: Vec<usize> = all.iter().map(Vec::len).collect();
        assert_eq!(lengths, [4, 4, 2]);
        assert!(all.concat().is_sorted());
    }
}
