//! Mining of frequent itemsets of an uploaded dataset, with results as arrays.

use crate::call::{self, Interrupt};
use crate::encrypted::Encrypted;
use crate::errors::Failure;
use crate::keys::Keys;
use crate::server::Server;
use numpy::{IntoPyArray, PyArray1};
use oboro_client::{
    Answers, ClientError, Connection, KEPT_BYTES, Level, Mining, Pairs, VersionCheck, utc,
};
use oboro_dataset::DatasetError;
use oboro_input::MinSupport;
use oboro_mining::{AprioriOptions, FrequentItemsets};
use oboro_rlwe::KeyCheck;
use parking_lot::Mutex;
use pyo3::prelude::*;
use std::num::NonZeroUsize;

/// Number of itemsets of each length from 1; the items of all itemsets, concatenated, by number, shorter itemsets first
/// and then in order; their supports; the length limit of the search if it may have cut off longer frequent itemsets;
/// the trust level and the cost, in JSON.
type MinedArrays<'py> = (
    Vec<usize>,
    Bound<'py, PyArray1<u32>>,
    Bound<'py, PyArray1<u64>>,
    Option<usize>,
    String,
);

/// Finds itemsets in at least `min_support` transactions, of up to `max_len` items, in the dataset uploaded under
/// `name`. Fails beyond `stop_above` itemsets, unless that is 0. Uses verified `answers`, with up to `keep_cells` bytes
/// of sealed cells cached, or trusts the server. `progress` receives the bytes received.
#[pyfunction]
#[pyo3(signature = (server, encrypted, keys, name, *, min_support, max_len, stop_above = AprioriOptions::DEFAULT_STOP_ABOVE, answers = "auto", trust_server = false, offline = false, keep_cells = KEPT_BYTES, threads = None, progress = None, interrupt = None))]
// Options have names in Python.
#[allow(clippy::too_many_arguments)]
pub fn mine<'py>(
    py: Python<'py>,
    server: &Server,
    encrypted: &Encrypted,
    keys: &Keys,
    name: &str,
    min_support: u64,
    max_len: NonZeroUsize,
    stop_above: u64,
    answers: &str,
    trust_server: bool,
    offline: bool,
    keep_cells: u64,
    threads: Option<NonZeroUsize>,
    progress: Option<Bound<'py, PyAny>>,
    interrupt: Option<&Interrupt>,
) -> PyResult<MinedArrays<'py>> {
    let answers = self::answers(answers)?;
    let connection = connection(server, offline)?;
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
    let threads = crate::rows::threads(threads);
    let options = AprioriOptions::new(MinSupport::Count(min_support))
        .with_max_len(Some(max_len))
        .with_stop_above(stop_above);
    let (frequent, took) = call::run(py, progress, interrupt, |call| {
        let connection = connection.map(|it| it.interrupted_by(call.interrupt()));
        let received = ProgressTotals::default();
        let keep_cells = kept_bytes(encrypted, keep_cells);
        let mined = Mining::new(&dataset, name, threads)
            .in_owners_order()
            .by(answers)
            .trusting_server(trust_server)
            .on_local_server(connection.as_ref().is_some_and(Connection::is_local))
            .checking(check(offline))
            .keeping(keep_cells)
            .with_progress(|level, done, expected| {
                let (done, expected) = received.add(level, done, expected);
                // The connection observes the interrupt itself.
                let _ = call.advance(done, expected);
            })
            .interrupted_by(call.interrupt())
            .run(options, || connection.clone().ok_or(ClientError::NotKept))?;
        let levels = Level::all(&mined.reports, &mined.traces);
        let levels: serde_json::Value = levels.iter().map(Level::to_json).collect();
        let took = serde_json::json!({
            "answers": mined.found.standing(),
            "columns": mined.fetched.columns,
            "new_columns": mined.fetched.new_columns,
            "version": dataset.manifest().version,
            "uploaded": dataset.bundle().uploaded().map(utc),
            "offline": mined.fetched.offline,
            "levels": levels,
        });
        Ok::<_, Failure>((mined.found.itemsets().clone(), took.to_string()))
    })?;
    Ok(arrays(py, &frequent, took))
}

/// Returns the limit of the cell cache: 0 for a temporary dataset, with which the cache would be deleted.
fn kept_bytes(encrypted: &Encrypted, wanted: u64) -> u64 {
    if encrypted.is_temporary() { 0 } else { wanted }
}

/// Returns the connection, which an offline call does not need.
fn connection(server: &Server, offline: bool) -> Result<Option<Connection>, Failure> {
    if offline {
        Ok(None)
    } else {
        server.connection().map(Some)
    }
}

fn check(offline: bool) -> VersionCheck {
    if offline {
        VersionCheck::Offline
    } else {
        VersionCheck::Compare
    }
}

fn answers(name: &str) -> Result<Answers, Failure> {
    match name {
        "auto" => Ok(Answers::Auto),
        "moments" => Ok(Answers::Moments),
        "cells" => Ok(Answers::Cells),
        other => Err(Failure::input(format!(
            "answers are \"auto\", \"moments\" or \"cells\", not {other:?}"
        ))),
    }
}

/// Returns the number of columns that the server would newly learn to be frequent at `min_support`, compared with the
/// cell cache; 0 if that is empty.
#[pyfunction]
#[pyo3(signature = (encrypted, *, min_support, max_len, answers, keep_cells))]
pub fn more_columns(
    py: Python<'_>,
    encrypted: &Encrypted,
    min_support: u64,
    max_len: NonZeroUsize,
    answers: &str,
    keep_cells: u64,
) -> Result<usize, Failure> {
    let answers = self::answers(answers)?;
    let dataset = encrypted.dataset();
    let options = AprioriOptions::new(MinSupport::Count(min_support)).with_max_len(Some(max_len));
    let mining = Mining::new(&dataset, "", NonZeroUsize::MIN);
    let mining = mining.by(answers).keeping(keep_cells);
    Ok(py.detach(|| mining.reveals(options).0))
}

/// Counts the transactions with both the item `name` and each other one. Returns the counts, by the other item's index
/// in the owner's order, and the cost, as JSON.
#[expect(clippy::too_many_arguments, reason = "they are Python's keywords")]
#[pyfunction]
#[pyo3(signature = (server, encrypted, name, item, *, offline = false, progress = None, interrupt = None))]
pub fn pairs_with(
    py: Python<'_>,
    server: &Server,
    encrypted: &Encrypted,
    name: &str,
    item: &str,
    offline: bool,
    progress: Option<Bound<'_, PyAny>>,
    interrupt: Option<&Interrupt>,
) -> PyResult<(Vec<(u32, u64)>, String)> {
    let connection = connection(server, offline)?;
    let dataset = encrypted.dataset();
    let threads = crate::rows::threads(None);
    let counted = call::run(py, progress, interrupt, |call| {
        let connection = connection.map(|it| it.interrupted_by(call.interrupt()));
        let mining = Mining::new(&dataset, name, threads)
            .in_owners_order()
            .on_local_server(connection.as_ref().is_some_and(Connection::is_local))
            .checking(check(offline))
            .keeping(kept_bytes(encrypted, KEPT_BYTES))
            .interrupted_by(call.interrupt())
            .with_progress(|_, done, expected| {
                // The connection observes the interrupt itself.
                let _ = call.advance(done, expected);
            });
        let connect = || connection.clone().ok_or(ClientError::NotKept);
        Ok::<_, Failure>(mining.pairs_with(item, connect)?)
    })?;
    let Pairs {
        together,
        trace,
        offline,
    } = counted;
    let took = serde_json::json!({
        "answers": "verified",
        "version": dataset.manifest().version,
        "uploaded": dataset.bundle().uploaded().map(utc),
        "offline": offline,
        "route": trace.route.name(),
        "received_bytes": trace.received_bytes,
        "seconds": trace.elapsed.as_secs_f64(),
        "server_seconds": trace.server.as_secs_f64(),
    });
    Ok((together.into_inner(), took.to_string()))
}

/// Returns the slot and the id of each row of the dataset uploaded under `name`; `progress` receives the bytes
/// received.
#[pyfunction]
#[pyo3(signature = (server, encrypted, name, *, progress = None, interrupt = None))]
pub fn row_ids(
    py: Python<'_>,
    server: &Server,
    encrypted: &Encrypted,
    name: &str,
    progress: Option<Bound<'_, PyAny>>,
    interrupt: Option<&Interrupt>,
) -> PyResult<Vec<(u64, String)>> {
    let connection = server.connection()?;
    let dataset = encrypted.dataset();
    let threads = crate::rows::threads(None);
    let rows = call::run(py, progress, interrupt, |call| {
        let connection = connection.interrupted_by(call.interrupt());
        let on_progress = |done, expected| {
            // The connection observes the interrupt itself.
            let _ = call.advance(done, expected);
        };
        let rows = oboro_client::row_ids(
            &dataset,
            name,
            threads,
            || Ok(connection.clone()),
            on_progress,
        )?;
        Ok::<_, Failure>(rows.into_inner())
    })?;
    Ok(rows.into_iter().map(|row| (row.slot, row.id)).collect())
}

fn arrays<'py>(py: Python<'py>, frequent: &FrequentItemsets, took: String) -> MinedArrays<'py> {
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
        took,
    )
}

/// Bytes received and expected, over all requests so far.
#[derive(Default)]
struct ProgressTotals(Mutex<Expected>);

#[derive(Default)]
struct Expected {
    /// Bytes of earlier requests.
    before: u64,
    /// Current request: level, bytes received, bytes expected.
    present: (usize, u64, u64),
}

impl ProgressTotals {
    fn add(&self, level: usize, done: u64, expected: u64) -> (u64, u64) {
        let mut questions = self.0.lock();
        let (last_level, last_done, last_expected) = questions.present;
        if (level, expected) != (last_level, last_expected) || done < last_done {
            questions.before += last_expected;
        }
        questions.present = (level, done, expected);
        (questions.before + done, questions.before + expected)
    }
}
