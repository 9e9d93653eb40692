//! What Python calls of an encrypted dataset.

use super::Encrypted;
use crate::call::{self, Interrupt};
use crate::errors::Failure;
use crate::keys::Keys;
use crate::rows::{Rows, json, threads};
use oboro_client::forget_kept;
use oboro_dataset::{Dataset, DatasetError, NewItems, PAIR_COLUMNS, RowSelection, Target};
use oboro_input::MinSupport;
use pyo3::prelude::*;
use pyo3::types::PyList;
use std::env::temp_dir;
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::sync::Arc;

#[pymethods]
impl Encrypted {
    /// Encrypts rows into a new directory at `path`, or into a temporary one.
    #[staticmethod]
    #[pyo3(signature = (
        rows, keys, *, max_len, focus = Vec::new(), pair_columns = PAIR_COLUMNS, path = None,
        threads = None, progress = None, interrupt = None
    ))]
    #[allow(clippy::too_many_arguments)]
    fn create(
        py: Python<'_>,
        rows: &Rows,
        keys: &Keys,
        max_len: usize,
        focus: Vec<String>,
        pair_columns: usize,
        path: Option<PathBuf>,
        threads: Option<NonZeroUsize>,
        progress: Option<Bound<'_, PyAny>>,
        interrupt: Option<&Interrupt>,
    ) -> PyResult<Self> {
        let rows = rows.take()?.with_focus(focus);
        let (rows, master) = (rows.with_pair_columns(pair_columns), keys.master());
        let threads = self::threads(threads);
        let dataset = call::run(py, progress, interrupt, |call| -> Result<_, Failure> {
            let temporary = temp_dir();
            let target = match &path {
                Some(path) => Target::New(path),
                None => Target::Temporary(&temporary),
            };
            let advance = |done, total| call.advance(done, total);
            let dataset = Dataset::create(rows, &master, target, max_len, threads, &advance)?;
            Ok(dataset)
        })?;
        Ok(dataset.into())
    }

    /// Opens a directory made by `create`, with the key of its encryption.
    #[staticmethod]
    fn open(py: Python<'_>, path: PathBuf, keys: &Keys) -> Result<Self, Failure> {
        let master = keys.master();
        Ok(py.detach(|| Dataset::open(&path, &master))?.into())
    }

    /// Encrypts more transactions of the same items into the dataset.
    #[pyo3(signature = (rows, *, new_items = "refuse", below = None, absorb = None, threads = None, progress = None, interrupt = None))]
    #[allow(clippy::too_many_arguments)]
    fn append(
        &self,
        py: Python<'_>,
        rows: &Rows,
        new_items: &str,
        below: Option<u64>,
        absorb: Option<bool>,
        threads: Option<NonZeroUsize>,
        progress: Option<Bound<'_, PyAny>>,
        interrupt: Option<&Interrupt>,
    ) -> PyResult<()> {
        let (rows, before) = (rows.take()?.absorbing(absorb), self.dataset());
        if rows.is_empty() {
            return Ok(());
        }
        let threads = self::threads(threads);
        let new_items = match new_items {
            "drop" => NewItems::Drop {
                below: below.map(MinSupport::Count),
            },
            "re-encrypt" => NewItems::Reencrypt,
            _ => NewItems::Refuse,
        };
        call::run(py, progress, interrupt, |call| -> Result<_, Failure> {
            let advance = |done, total| call.advance(done, total);
            let reencrypts =
                new_items == NewItems::Reencrypt && before.count_new_items(rows.names()) > 0;
            if !reencrypts {
                let appended = before.append(rows, new_items, threads, &advance)?;
                *self.0.lock() = Arc::new(appended);
                return Ok(());
            }
            before.check_append(&rows, new_items)?;
            // Also before, to leave nothing after a crash.
            forget_kept(before.bundle())?;
            let mut after = Arc::new(before.with_new_items(&rows, threads, &advance)?);
            *self.0.lock() = Arc::clone(&after);
            let appended = after.append(rows, NewItems::Refuse, threads, &advance);
            let appended = appended.map_err(DatasetError::not_appended).map(|it| {
                after = Arc::new(it);
                *self.0.lock() = Arc::clone(&after);
            });
            let forgotten = forget_kept(after.bundle());
            appended?;
            forgotten?;
            Ok(())
        })
    }

    /// Moves transactions into as few blocks as possible; returns false if nothing was to be gained.
    #[pyo3(signature = (*, all = false, threads = None, progress = None, interrupt = None))]
    fn compact(
        &self,
        py: Python<'_>,
        all: bool,
        threads: Option<NonZeroUsize>,
        progress: Option<Bound<'_, PyAny>>,
        interrupt: Option<&Interrupt>,
    ) -> PyResult<bool> {
        let threads = self::threads(threads);
        self.change(py, progress, interrupt, |before, call| {
            before.compact(all, threads, &|done, total| call.advance(done, total))
        })
    }

    /// Returns the cost of `erase`: the erased transactions, the bytes of new segments, and of these the transactions
    /// that are shuffled again, and their bytes.
    #[pyo3(signature = (row_ids, *, before = None, threads = None))]
    fn erasure(
        &self,
        py: Python<'_>,
        row_ids: Vec<String>,
        before: Option<&str>,
        threads: Option<NonZeroUsize>,
    ) -> Result<(u64, u64, u64, u64), Failure> {
        let rows = RowSelection::of_ids(row_ids);
        let rows = match before {
            Some(date) => rows.or_before(date)?,
            None => rows,
        };
        let (dataset, threads) = (self.dataset(), self::threads(threads));
        let cost = py.detach(|| dataset.erasure(&dataset.select_rows(&rows, threads)?))?;
        Ok((
            cost.transactions,
            cost.new_bytes,
            cost.shuffled,
            cost.shuffled_bytes,
        ))
    }

    /// Erases the rows with these ids, and those whose ids begin with a date before this one; returns their number.
    #[pyo3(signature = (row_ids, *, before = None, threads = None, progress = None, interrupt = None))]
    fn erase(
        &self,
        py: Python<'_>,
        row_ids: Vec<String>,
        before: Option<&str>,
        threads: Option<NonZeroUsize>,
        progress: Option<Bound<'_, PyAny>>,
        interrupt: Option<&Interrupt>,
    ) -> PyResult<u64> {
        let rows = RowSelection::of_ids(row_ids);
        let rows = match before {
            Some(date) => rows.or_before(date).map_err(Failure::from)?,
            None => rows,
        };
        let threads = self::threads(threads);
        let transactions = self.transactions();
        self.change(py, progress, interrupt, |before, call| {
            let slots = before.select_rows(&rows, threads)?;
            let advance = |done, total| call.advance(done, total);
            before.erase(&slots, threads, &advance).map(Some)
        })?;
        Ok(transactions - self.transactions())
    }

    /// Encrypts everything again with other keys.
    #[pyo3(signature = (keys, *, threads = None, progress = None, interrupt = None))]
    fn rotate(
        &self,
        py: Python<'_>,
        keys: &Keys,
        threads: Option<NonZeroUsize>,
        progress: Option<Bound<'_, PyAny>>,
        interrupt: Option<&Interrupt>,
    ) -> PyResult<()> {
        let (threads, master) = (self::threads(threads), keys.master());
        self.change(py, progress, interrupt, |before, call| {
            let advance = |done, total| call.advance(done, total);
            before.rotate(&master, threads, &advance).map(Some)
        })?;
        Ok(())
    }

    /// Returns the items under the owner's names, in the owner's order.
    #[getter]
    fn columns<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        let dataset = self.dataset();
        let (record, names) = (dataset.record(), dataset.record().ordered_names());
        if record.numbers {
            let number = |name: &str| name.parse::<i64>().expect("checked with the record");
            PyList::new(py, names.map(number))
        } else {
            PyList::new(py, names)
        }
    }

    #[getter]
    fn transactions(&self) -> u64 {
        self.dataset().record().transactions
    }

    /// Returns how its first file was read, in JSON; `None` without a file.
    #[getter]
    fn how_read(&self) -> Option<String> {
        self.dataset().record().read.as_ref().map(json)
    }

    #[getter]
    fn max_len(&self) -> u8 {
        self.dataset().manifest().max_len
    }

    #[getter]
    fn min_item_support(&self) -> u64 {
        self.dataset().record().min_item_support
    }

    /// Returns the state of trust in the server, in JSON.
    fn trust(&self) -> Result<String, Failure> {
        let trust = self.dataset().trust()?;
        let failure = trust
            .failure
            .map(|it| serde_json::json!({ "unix_seconds": it.unix_seconds, "what": it.what }));
        let relied_on = trust.relied_on.map(|it| {
            serde_json::json!({
                "unix_seconds": it.unix_seconds,
                "version": it.version,
                "decided": it.decided,
            })
        });
        let trust = serde_json::json!({ "relied_on": relied_on, "failure": failure });
        Ok(trust.to_string())
    }

    /// Allows requests again after unverified answers or a false one.
    fn reset_trust(&self) -> Result<(), Failure> {
        Ok(self.dataset().reset_trust()?)
    }

    #[getter]
    fn stored_bytes(&self) -> u64 {
        self.dataset().manifest().segment_bytes()
    }

    #[getter]
    fn path(&self) -> PathBuf {
        self.dataset().bundle().directory().to_path_buf()
    }
}
