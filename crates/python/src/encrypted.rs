//! Encrypted datasets of the owner.

mod methods;

use crate::call::{self, Call, Interrupt};
use crate::errors::Failure;
use oboro_client::forget_kept;
use oboro_dataset::{Dataset, DatasetError};
use parking_lot::Mutex;
use pyo3::prelude::*;
use std::sync::Arc;

/// Encrypted dataset with its key; therefore not pickled or printed.
#[pyclass(frozen, module = "oboro._oboro")]
pub struct Encrypted(Mutex<Arc<Dataset>>);

impl Encrypted {
    /// Makes a change, and removes the caches of earlier versions; returns true if the change made a new one.
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
            // First, since the change holds even if removing the caches fails.
            *self.0.lock() = Arc::clone(&after);
            forget_kept(after.bundle())?;
            Ok(true)
        })
    }

    /// Returns true if its directory is deleted with it.
    pub fn is_temporary(&self) -> bool {
        self.dataset().bundle().is_temporary()
    }

    /// Returns its newest version, for use on another thread.
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
