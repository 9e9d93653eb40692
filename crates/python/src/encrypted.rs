//! Encrypted datasets on the owner's side.

mod methods;

use crate::call::{self, Call, Interrupt};
use crate::errors::Failure;
use oboro_client::forget_kept;
use oboro_mining::{Dataset, DatasetError};
use parking_lot::Mutex;
use pyo3::prelude::*;
use std::sync::Arc;

/// An encrypted dataset with its key; therefore not pickled or printed.
#[pyclass(frozen, module = "oboro._oboro")]
pub struct Encrypted(Mutex<Arc<Dataset>>);

impl Encrypted {
    /// Makes a change, and removes what earlier runs kept of its versions; returns whether there is a new one.
    fn change(
        &self,
        py: Python<'_>,
        progress: Option<Bound<'_, PyAny>>,
        interrupt: Option<&Interrupt>,
        change: impl FnOnce(&Dataset, &Call) -> Result<Option<Dataset>, DatasetError> + Send,
    ) -> PyResult<bool> {
        let before = self.dataset();
        call::run(py, progress, interrupt, |call| -> Result<_, Failure> {
            let Some(after) = change(&before, call)? else {
                return Ok(false);
            };
            let after = Arc::new(after);
            // First, since it is so even if something stays of what was kept.
            *self.0.lock() = Arc::clone(&after);
            forget_kept(after.bundle())?;
            Ok(true)
        })
    }

    /// Whether its directory is deleted with it.
    pub fn is_temporary(&self) -> bool {
        self.dataset().bundle().is_temporary()
    }

    /// Its newest version, for use on another thread.
    pub fn dataset(&self) -> Arc<Dataset> {
        let newest = self.0.lock();
        Arc::clone(&newest)
    }
}

impl From<Dataset> for Encrypted {
    fn from(dataset: Dataset) -> Self {
        Self(Mutex::new(Arc::new(dataset)))
    }
}
