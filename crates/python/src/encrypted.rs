//! An encrypted dataset at its owner.

use crate::errors::Failure;
use crate::keys::Keys;
use oboro_mining::Dataset;
use pyo3::prelude::*;
use std::path::PathBuf;
use std::sync::Arc;

/// An encrypted dataset. It holds the key that it was encrypted with: it is not pickled or printed.
#[pyclass(frozen, module = "oboro._oboro")]
pub struct Encrypted {
    dataset: Arc<Dataset>,
}

impl Encrypted {
    /// The dataset, for work on another thread.
    pub fn dataset(&self) -> Arc<Dataset> {
        Arc::clone(&self.dataset)
    }
}

#[pymethods]
impl Encrypted {
    /// Opens the directory that `oboro encrypt` wrote.
    #[staticmethod]
    fn open(py: Python<'_>, path: PathBuf, keys: &Keys) -> Result<Self, Failure> {
        let master = keys.master();
        let dataset = py.detach(|| Dataset::open(&path, &master))?;
        Ok(Self {
            dataset: Arc::new(dataset),
        })
    }

    /// The names of the items, in the order of their numbers.
    #[getter]
    fn columns(&self) -> Vec<String> {
        let mut names = self.dataset.record().names.clone();
        names.sort_by(|a, b| oboro_mining::transactions::compare_names(a, b));
        names
    }

    /// The number of transactions.
    #[getter]
    fn transactions(&self) -> u64 {
        self.dataset.record().transactions
    }

    /// The longest itemsets that can be counted.
    #[getter]
    fn max_len(&self) -> u8 {
        self.dataset.manifest().max_len
    }

    /// Where it is.
    #[getter]
    fn path(&self) -> PathBuf {
        self.dataset.bundle().directory().to_owned()
    }
}
