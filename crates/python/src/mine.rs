//! Frequent itemsets of an uploaded dataset, as arrays.

use crate::call::{self, Interrupt};
use crate::encrypted::Encrypted;
use crate::errors::Failure;
use crate::keys::Keys;
use crate::server::Server;
use numpy::{IntoPyArray, PyArray1};
use oboro_client::{Answers, EncryptedCounter, Level};
use oboro_mining::{AprioriOptions, DatasetError, FrequentItemsets, MinSupport, apriori};
use oboro_rlwe::KeyCheck;
use pyo3::prelude::*;
use std::num::NonZeroUsize;
use std::sync::Mutex;

/// The number of itemsets of each length from 1; the items of all of them in a row, by number, shorter
/// itemsets first and then in order; their supports; the length at which the search ended though longer
/// itemsets may be frequent; the levels, in JSON.
type Mined<'py> = (
    Vec<usize>,
    Bound<'py, PyArray1<u32>>,
    Bound<'py, PyArray1<u64>>,
    Option<usize>,
    String,
);

/// Finds the itemsets that at least `min_support` transactions have, of up to `max_len` items, in the dataset
/// that was uploaded under `name`. `answers` is "auto", "moments" or "columns"; `progress` hears bytes received.
#[pyfunction]
#[pyo3(signature = (server, encrypted, keys, name, *, min_support, max_len, answers = "auto", threads = None, progress = None, interrupt = None))]
// What a caller may say has names in Python.
#[allow(clippy::too_many_arguments)]
pub fn mine<'py>(
    py: Python<'py>,
    server: &Server,
    encrypted: &Encrypted,
    keys: &Keys,
    name: &str,
    min_support: u64,
    max_len: NonZeroUsize,
    answers: &str,
    threads: Option<NonZeroUsize>,
    progress: Option<Bound<'py, PyAny>>,
    interrupt: Option<&Interrupt>,
) -> PyResult<Mined<'py>> {
    let connection = server.connection()?;
    let dataset = encrypted.dataset();
    let (given, wanted) = (
        keys.master().check(),
        KeyCheck(dataset.manifest().key_check),
    );
    if given != wanted {
        let dataset = dataset.manifest().dataset;
        return Err(Failure::from(DatasetError::WrongKey {
            dataset,
            given,
            wanted,
        })
        .into());
    }
    let answers = parse(answers)?;
    let threads = crate::rows::threads(threads);
    let options = AprioriOptions::new(MinSupport::Count(min_support)).with_max_len(Some(max_len));
    let (frequent, levels) = call::run(py, progress, interrupt, |call| {
        let connection = connection.interrupted_by(call.interrupt());
        let received = Received::default();
        let mut counter = EncryptedCounter::new(&connection, &dataset, name, threads)
            .in_owners_order()
            .with_answers(answers)
            .with_progress(|level, done, expected| {
                let (done, expected) = received.add(level, done, expected);
                // What is interrupted hears of it from the connection.
                let _ = call.advance(done, expected);
            });
        let mut reports = Vec::new();
        let frequent = apriori(&mut counter, options, |report| reports.push(report))?;
        let levels = Level::all(&reports, counter.traces());
        let levels: serde_json::Value = levels.iter().map(Level::to_json).collect();
        Ok::<_, Failure>((frequent, levels.to_string()))
    })?;
    Ok(arrays(py, &frequent, levels))
}

fn parse(answers: &str) -> Result<Answers, Failure> {
    match answers {
        "auto" => Ok(Answers::Auto),
        "moments" => Ok(Answers::Moments),
        "columns" => Ok(Answers::Columns),
        other => Err(Failure::input(format!(
            "{other:?} is not what a server answers with; choose \"auto\", \"moments\" or \"columns\""
        ))),
    }
}

fn arrays<'py>(py: Python<'py>, frequent: &FrequentItemsets, levels: String) -> Mined<'py> {
    let lengths = frequent.levels().iter().map(Vec::len).collect();
    let items: Vec<u32> = frequent
        .iter()
        .flat_map(|it| it.itemset.items().iter().copied())
        .collect();
    let supports: Vec<u64> = frequent.iter().map(|it| it.support).collect();
    (
        lengths,
        items.into_pyarray(py),
        supports.into_pyarray(py),
        frequent.max_len(),
        levels,
    )
}

/// Bytes received over all questions, of those expected as far as questions were asked.
#[derive(Default)]
struct Received(Mutex<Questions>);

#[derive(Default)]
struct Questions {
    /// Of questions that were answered.
    before: u64,
    /// The present one: level, bytes received, bytes expected.
    present: (usize, u64, u64),
}

impl Received {
    fn add(&self, level: usize, done: u64, expected: u64) -> (u64, u64) {
        let mut questions = self.0.lock().expect("no thread panics with the lock");
        let (last_level, last_done, last_expected) = questions.present;
        if (level, expected) != (last_level, last_expected) || done < last_done {
            questions.before += last_expected;
        }
        questions.present = (level, done, expected);
        (questions.before + done, questions.before + expected)
    }
}
