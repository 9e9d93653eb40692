//! Owner's key.

use crate::errors::Failure;
use oboro_rlwe::{MasterKey, Passphrase};
use pyo3::prelude::*;
use std::path::PathBuf;
use std::sync::Arc;

/// Master key. It can only be saved to a file: it is not pickled or printed.
#[pyclass(frozen, module = "oboro")]
pub struct Keys(Arc<MasterKey>);

impl Keys {
    /// Returns the key itself, for use on another thread.
    pub fn master(&self) -> Arc<MasterKey> {
        Arc::clone(&self.0)
    }
}

#[pymethods]
impl Keys {
    /// Generates a new key.
    #[staticmethod]
    fn generate() -> Result<Self, Failure> {
        Ok(Self(Arc::new(MasterKey::generate()?)))
    }

    /// Reads a key file, decrypting it with `passphrase` if necessary.
    #[staticmethod]
    #[pyo3(signature = (path, *, passphrase = None))]
    fn load(py: Python<'_>, path: PathBuf, passphrase: Option<String>) -> Result<Self, Failure> {
        let passphrase = passphrase.map(Passphrase::new);
        let key = py.detach(|| MasterKey::load(&path, || passphrase))?;
        Ok(Self(Arc::new(key)))
    }

    /// Writes the key to a new file that only its owner can read, encrypted under a passphrase if one is given.
    #[pyo3(signature = (path, *, passphrase = None))]
    fn save(
        &self,
        py: Python<'_>,
        path: PathBuf,
        passphrase: Option<String>,
    ) -> Result<(), Failure> {
        let passphrase = passphrase.map(Passphrase::new);
        Ok(py.detach(|| self.0.save(&path, passphrase.as_ref()))?)
    }

    /// Returns a fingerprint that identifies the key without revealing it.
    #[getter]
    fn check(&self) -> String {
        self.0.check().to_string()
    }

    fn __repr__(&self) -> String {
        format!("Keys({})", self.0.check())
    }
}
