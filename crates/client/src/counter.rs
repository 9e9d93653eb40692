//! Supports of itemsets in an uploaded dataset.
//!
//! A level's candidates go to the server in one question, or several if there are very many. The
//! moments that come back are combined with the secrets on several threads as they arrive and kept
//! nowhere. Where the moments of a level take more bytes than the columns of its items, the columns
//! are fetched instead and that level, and all later ones over them, are counted here. Either way
//! itemsets of check columns, if the dataset has any, are among the others, and no support leaves here
//! before those known beforehand are verified.

use crate::columns::Columns;
use crate::connection::{Connection, Distance};
use crate::error::ClientError;
use crate::workers::{Pieces, with_workers};
use oboro_mining::{CheckColumns, Dataset, Itemset, SupportCounter, transactions::compare_names};
use oboro_protocol::{max_itemsets, moments_range, v1};
use oboro_ring::moment::{Itemsets, MomentIndex, RequestError};
use oboro_rlwe::{Answer, Combiner, Partial, Phases, Precision, log2_column_phase_bound};
use rand::seq::SliceRandom;
use std::collections::BTreeSet;
use std::num::NonZeroUsize;
use std::time::{Duration, Instant};

const DURING: &str = "counting";

/// What the phases of one question may take.
const PHASE_BYTES: usize = 512 << 20;

/// How levels are to be answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Answers {
    /// In fewer bytes: by columns where those that are not here yet take fewer than the moments, or
    /// where itemsets are longer than the dataset was encrypted for, so that there are no moments.
    #[default]
    Auto,
    /// By moments, always.
    Moments,
    /// By columns, always: the server learns of no itemset.
    Columns,
}

/// How a level was answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answered {
    /// By moments that the server computed.
    Moments,
    /// In columns, fetched then or before.
    Columns,
}

impl Answered {
    /// As people and programs are told.
    pub fn name(self) -> &'static str {
        match self {
            Self::Moments => "moments",
            Self::Columns => "columns",
        }
    }

    /// Never in more bytes than moments take, whatever columns may save at later levels.
    pub(crate) fn in_fewer_bytes(moments_bytes: u64, columns_bytes: u64) -> Self {
        match columns_bytes < moments_bytes {
            true => Self::Columns,
            false => Self::Moments,
        }
    }
}

/// What the questions of one level cost together.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LevelTrace {
    /// The length of the itemsets.
    pub level: usize,
    /// How many were asked, those with check columns among them.
    pub itemsets: usize,
    /// In how many questions: the server may take but so many itemsets in one. None if it was not asked.
    pub questions: usize,
    /// How many of the supports were known beforehand and came back right.
    pub checks: usize,
    /// How they were answered.
    pub answered: Answered,
    /// What moments take, or would have taken, if that was weighed.
    pub moments_bytes: Option<u64>,
    /// What the columns that were not here yet take, or would have taken.
    pub columns_bytes: u64,
    /// The most limbs that were read for a question.
    pub limbs: usize,
    /// Moments received, over all groups of blocks.
    pub moments: u64,
    /// Of these, moments that the server had computed for an earlier question.
    pub known_moments: u64,
    /// Bytes of moments or columns received.
    pub received_bytes: u64,
    /// From question to supports.
    pub elapsed: Duration,
    /// Of that, what the server says it spent on moments.
    pub server: Duration,
    /// What combining, or decrypting and counting, took here, by the clock: the threads' mean over
    /// what arrived, most of it while more arrived, and then the supports. Where server and owner
    /// share processors, waiting for one is included.
    pub combining: Duration,
    /// `log2` of the largest phase, of supports or of the columns here, and of what it may be.
    pub log2_largest_phase: f64,
    /// The bound on the former.
    pub log2_phase_bound: f64,
}

impl LevelTrace {
    /// Adds what another question of the level cost, answered the same way.
    fn add(&mut self, other: &Self) {
        self.moments_bytes = self
            .moments_bytes
            .zip(other.moments_bytes)
            .map(|(these, more)| these + more);
        self.columns_bytes += other.columns_bytes;
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

/// Told while answers arrive: the level, bytes of them received, bytes expected.
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
    answers: Answers,
    fetched: Columns<'a>,
    traces: Vec<LevelTrace>,
    progress: Progress<'a>,
}

impl<'a> EncryptedCounter<'a> {
    /// Counts in the dataset that was uploaded under `name`, working on `threads` threads.
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
            answers: Answers::default(),
            fetched: Columns::new(dataset, threads),
            traces: Vec::new(),
            progress: Box::new(|_, _, _| {}),
        }
    }

    /// Numbers items in the owner's order, not in that of their names.
    #[must_use]
    pub fn in_owners_order(self) -> Self {
        let record = self.dataset.record();
        let columns = record.item_columns();
        Self {
            columns: record
                .order
                .iter()
                .map(|&place| columns[place as usize])
                .collect(),
            names: record.ordered_names().map(str::to_owned).collect(),
            ..self
        }
    }

    /// Has levels answered this way.
    #[must_use]
    pub fn with_answers(self, answers: Answers) -> Self {
        Self { answers, ..self }
    }

    /// Tells `progress` the level, the bytes received and the bytes expected.
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

    /// Asks one question.
    fn ask(&self, itemsets: Itemsets) -> Result<(Answer, LevelTrace), ClientError> {
        let begun = Instant::now();
        let level = itemsets.length();
        let asked = itemsets.len();
        let blocks = self.dataset.manifest().block_count();
        let mut combiner = Combiner::new(self.dataset.key().clone(), itemsets, blocks)?;
        // Of longer itemsets there are more products of secrets than transforms saved.
        if self.connection.distance() == Distance::Memory && level <= 2 {
            combiner = combiner.with_whole_moments();
        }
        let request = v1::CountRequest {
            name: self.name.clone(),
            root: self.dataset.manifest().root().0.to_vec().into(),
            limbs: combiner.limbs() as u32,
            length: level as u32,
            columns: combiner.itemsets().as_flat().to_vec(),
            fraction_bits: combiner.fraction_bits().to_vec(),
        };
        let expected = combiner.answer_bytes();
        let (received, phases) = with_workers(
            self.threads,
            |moments| combine(&combiner, moments),
            |sender| {
                self.connection.wait(async {
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
                    Ok(received)
                })
            },
        );
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
            answered: Answered::Moments,
            moments_bytes: Some(expected),
            columns_bytes: 0,
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

    /// How to answer a level, and what either way takes; `None` for moments where that is not weighed.
    fn weigh(&self, questions: &Questions, lacking: usize) -> Result<Weighed, ClientError> {
        let columns_bytes = self.fetched.bytes_of(lacking);
        let no_moments = questions.level > usize::from(self.dataset.manifest().max_len);
        let (answered, moments_bytes) = match self.answers {
            Answers::Moments => (Answered::Moments, None),
            Answers::Columns => (Answered::Columns, None),
            Answers::Auto if lacking == 0 || no_moments => (Answered::Columns, None),
            Answers::Auto => {
                let moments_bytes = self.moments_bytes(questions)?;
                let answered = Answered::in_fewer_bytes(moments_bytes, columns_bytes);
                (answered, Some(moments_bytes))
            }
        };
        Ok(Weighed {
            answered,
            moments_bytes,
            columns_bytes,
        })
    }

    /// What the moments of all questions take between machines, without asking them. Nothing if the parameters do not
    /// carry the level: the question says so.
    fn moments_bytes(&self, questions: &Questions) -> Result<u64, ClientError> {
        let manifest = self.dataset.manifest();
        let Some(precision) = Precision::new(&manifest.parameters, questions.level) else {
            return Ok(0);
        };
        let groups = manifest
            .block_count()
            .div_ceil(manifest.parameters.group_blocks());
        let mut bytes = 0;
        for request in &questions.requests {
            let index = MomentIndex::new(&questions.itemsets(request, manifest.columns)?);
            bytes += groups * precision.group_bytes(|power| index.rank(power).len() as u64);
        }
        Ok(bytes)
    }

    fn count_by_moments(
        &self,
        questions: &Questions,
    ) -> Result<(Vec<u64>, LevelTrace), ClientError> {
        let mut supports = vec![0; questions.candidates];
        let mut level: Option<LevelTrace> = None;
        for request in &questions.requests {
            let itemsets = questions.itemsets(request, self.dataset.manifest().columns)?;
            let (answer, mut trace) = self.ask(itemsets)?;
            trace.checks = self.take_in(request, &answer.supports, &mut supports)?;
            match &mut level {
                Some(level) => level.add(&trace),
                None => level = Some(trace),
            }
        }
        let level = level.ok_or(RequestError::Empty)?;
        Ok((supports, level))
    }

    /// Verifies what is known of an answer beforehand, then puts the supports of candidates in their
    /// places; the number of those verified.
    fn take_in(
        &self,
        request: &[Question],
        answer: &[u64],
        supports: &mut [u64],
    ) -> Result<usize, ClientError> {
        let answers = || request.iter().zip(answer.iter().copied());
        let known = answers().map(|(question, support)| (&question.columns[..], support));
        let checks = self.dataset.record().checks.verify(known)?;
        for (question, support) in answers() {
            if let Some(candidate) = question.candidate {
                supports[candidate] = support;
            }
        }
        Ok(checks)
    }

    /// Fetches the columns that are lacking, if any, and counts in those that are here. Check columns
    /// are fetched like the others: what is not would be noticed.
    fn count_in_columns(
        &mut self,
        questions: &Questions,
        lacking: &[u32],
    ) -> Result<(Vec<u64>, LevelTrace), ClientError> {
        let begun = Instant::now();
        let expected = self.fetched.bytes_of(lacking.len());
        let (mut received_bytes, mut working) = (0, Duration::ZERO);
        let parts = lacking.chunks(columns_per_question(&self.connection.limits()?));
        let fetches = parts.len();
        for part in parts {
            let before = received_bytes;
            let progress = |bytes| (self.progress)(questions.level, before + bytes, expected);
            let fetched = self
                .fetched
                .fetch(self.connection, &self.name, part, &progress)?;
            received_bytes += fetched.bytes;
            working += fetched.decrypting;
        }
        let counting = Instant::now();
        let mut supports = vec![0; questions.candidates];
        let (mut itemsets, mut checks) = (0, 0);
        for request in &questions.requests {
            let columns = request.iter().map(|it| Itemset::new(it.columns.clone()));
            let answer = self
                .fetched
                .count(self.connection, &Vec::from_iter(columns))?;
            checks += self.take_in(request, &answer, &mut supports)?;
            itemsets += request.len();
        }
        let trace = LevelTrace {
            level: questions.level,
            itemsets,
            questions: fetches,
            checks,
            answered: Answered::Columns,
            moments_bytes: None,
            columns_bytes: 0,
            limbs: 1,
            moments: 0,
            known_moments: 0,
            received_bytes,
            elapsed: begun.elapsed(),
            server: Duration::ZERO,
            combining: working + counting.elapsed(),
            log2_largest_phase: self.fetched.log2_largest_phase(),
            log2_phase_bound: log2_column_phase_bound(&self.dataset.manifest().parameters),
        };
        Ok((supports, trace))
    }

    /// The most itemsets whose phases the threads can hold, a word for each group of blocks.
    fn itemsets_in_memory(&self) -> usize {
        let manifest = self.dataset.manifest();
        let group = manifest.parameters.group_blocks();
        let groups = manifest.block_count().div_ceil(group).max(1) as usize;
        // Every thread has a share, and they are added up in one more.
        let shares = self.threads.get() + 1;
        (PHASE_BYTES / (size_of::<u64>() * groups * shares)).max(1)
    }

    /// The columns of a level's itemsets that are not here, ascending.
    fn lacking(&self, questions: &Questions) -> Vec<u32> {
        let all: BTreeSet<u32> = questions
            .requests
            .iter()
            .flatten()
            .flat_map(|question| question.columns.iter().copied())
            .filter(|&column| !self.fetched.has(column))
            .collect();
        all.into_iter().collect()
    }
}

/// How a level is to be answered, and why.
struct Weighed {
    answered: Answered,
    moments_bytes: Option<u64>,
    columns_bytes: u64,
}

/// An itemset to ask for.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Question {
    /// Ascending.
    columns: Vec<u32>,
    /// The place of the candidate whose support this is; `None` if it is asked for the check only.
    candidate: Option<usize>,
}

/// What is asked at a level, as the server knows it: by columns.
struct Questions {
    level: usize,
    /// The number of candidates.
    candidates: usize,
    /// As they go to the server, if they do.
    requests: Vec<Vec<Question>>,
}

impl Questions {
    /// `columns` has the column of each item; `most` go into one request.
    fn new(
        level: usize,
        candidates: &[Itemset],
        columns: &[u32],
        checks: &CheckColumns,
        most: usize,
    ) -> Result<Self, getrandom::Error> {
        let columns_of = |candidate: &Itemset| {
            let items = candidate.items().iter();
            let mut columns: Vec<u32> = items.map(|&item| columns[item as usize]).collect();
            columns.sort_unstable();
            columns
        };
        let asked: Vec<Vec<u32>> = candidates.iter().map(columns_of).collect();
        let beside = checks.beside(&asked).into_iter().map(|columns| Question {
            columns,
            candidate: None,
        });
        let beside = beside.collect();
        let question = |(candidate, columns)| Question {
            columns,
            candidate: Some(candidate),
        };
        let asked = asked.into_iter().enumerate().map(question).collect();
        Ok(Self {
            level,
            candidates: candidates.len(),
            requests: requests(asked, beside, most)?,
        })
    }

    fn itemsets(&self, request: &[Question], columns: u32) -> Result<Itemsets, RequestError> {
        let flat = request.iter().flat_map(|question| &question.columns);
        Itemsets::new(self.level, flat.copied().collect(), columns)
    }
}

/// Divides the questions of a level into requests of at most `most` itemsets, each in the order of
/// columns, not of names: the server must not learn how names sort.
///
/// Without `checks` neighbours stay together, since they share moments. With them chance decides which
/// request each belongs to, as if they were candidates too: an order, a number in each request or a
/// repetition that candidates do not have would show which are checks.
fn requests(
    candidates: Vec<Question>,
    checks: Vec<Question>,
    most: usize,
) -> Result<Vec<Vec<Question>>, getrandom::Error> {
    let neighbours = checks.is_empty();
    let mut questions = [candidates, checks].concat();
    if neighbours {
        questions.sort_unstable();
    } else {
        questions.shuffle(&mut oboro_sample::fresh_generator()?);
    }
    let mut requests: Vec<_> = questions.chunks(most).map(<[_]>::to_vec).collect();
    for request in &mut requests {
        request.sort_unstable();
    }
    Ok(requests)
}

/// The most column numbers that one message to the server holds.
fn columns_per_question(limits: &v1::Limits) -> usize {
    /// What a column number takes at most, and everything else in the message.
    const COLUMN_BYTES: u64 = 5;
    const OTHER_BYTES: u64 = 1024;
    let columns = limits.message_bytes.saturating_sub(OTHER_BYTES) / COLUMN_BYTES;
    usize::try_from(columns).unwrap_or(usize::MAX).max(1)
}

/// The most itemsets of a length that the server takes in one question: as the protocol and its
/// operator allow, and as one message holds.
fn itemsets_per_question(limits: &v1::Limits, level: usize) -> usize {
    let allowed = usize::try_from(limits.itemsets).unwrap_or(usize::MAX);
    let most = allowed.min(columns_per_question(limits) / level).max(1);
    max_itemsets(level).min(most)
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
    messages: &Pieces<v1::Moments>,
) -> Result<(Phases, Duration), ClientError> {
    let mut phases = combiner.phases();
    let mut busy = Duration::ZERO;
    while let Some(message) = messages.next() {
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

impl SupportCounter for EncryptedCounter<'_> {
    type Error = ClientError;

    fn transactions(&self) -> u64 {
        self.dataset.record().transactions
    }

    fn items(&self) -> u32 {
        self.columns.len() as u32
    }

    fn min_item_support(&self) -> u64 {
        self.dataset.record().min_item_support
    }

    fn go_on(&self) -> Result<(), ClientError> {
        self.connection.check_interrupt()
    }

    fn count(&mut self, level: usize, candidates: &[Itemset]) -> Result<Vec<u64>, ClientError> {
        let most = itemsets_per_question(&self.connection.limits()?, level);
        let most = most.min(self.itemsets_in_memory());
        let checks = &self.dataset.record().checks;
        let questions = Questions::new(level, candidates, &self.columns, checks, most)?;
        let lacking = self.lacking(&questions);
        let weighed = self.weigh(&questions, lacking.len())?;
        let (supports, trace) = match weighed.answered {
            Answered::Moments => self.count_by_moments(&questions)?,
            Answered::Columns => match self.count_in_columns(&questions, &lacking) {
                // A server from before there was the call still has moments.
                Err(ClientError::NoSuchCall) if self.answers == Answers::Auto => {
                    self.answers = Answers::Moments;
                    self.count_by_moments(&questions)?
                }
                counted => counted?,
            },
        };
        let trace = LevelTrace {
            moments_bytes: trace.moments_bytes.or(weighed.moments_bytes),
            columns_bytes: weighed.columns_bytes,
            ..trace
        };
        match self.traces.last_mut() {
            Some(same) if (same.level, same.answered) == (level, trace.answered) => {
                same.add(&trace);
            }
            _ => self.traces.push(trace),
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
            answered: Answered::Moments,
            moments_bytes: Some(700),
            columns_bytes: 900,
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
            checks: 129,
            moments_bytes: Some(1400),
            columns_bytes: 1800,
            moments: 100,
            known_moments: 40,
            received_bytes: 1400,
            elapsed: Duration::from_millis(60),
            server: Duration::from_millis(40),
            combining: Duration::from_millis(10),
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
    fn requests_treat_checks_as_candidates() {
        for (candidates, checks, most) in [
            (1, 1, 1),
            (1, 16, 16),
            (30, 3, 5),
            (700, 90, 64),
            (700, 90, 790),
            (700, 90, 791),
            (1000, 7, 16),
        ] {
            let planted = questions(candidates..candidates + checks, false);
            let all = requests(questions(0..candidates, true), planted.clone(), most).unwrap();
            let (last, others) = all.split_last().unwrap();
            assert!(others.iter().all(|request| request.len() == most) && last.len() <= most);
            assert!(all.iter().all(|request| request.is_sorted()));
            let mut asked = all.concat();
            asked.sort_unstable();
            // Each once, above all: a server that sets the limit could have checks repeated.
            let mut expected = [questions(0..candidates, true), planted].concat();
            expected.sort_unstable();
            assert_eq!(asked, expected);
        }
    }

    #[test]
    fn chance_decides_where_checks_are_asked() {
        let checks = questions(500..1000, false);
        let all = requests(questions(0..500, true), checks, 500).unwrap();
        let in_first = all[0]
            .iter()
            .filter(|question| question.candidate.is_none());
        // Within ten standard deviations, which are 8.
        assert!(in_first.count().abs_diff(250) < 80);
    }

    #[test]
    fn without_checks_neighbours_share_a_request() {
        let all = requests(questions(0..10, true), Vec::new(), 4).unwrap();
        let lengths: Vec<usize> = all.iter().map(Vec::len).collect();
        assert_eq!(lengths, [4, 4, 2]);
        assert!(all.concat().is_sorted());
    }
}
