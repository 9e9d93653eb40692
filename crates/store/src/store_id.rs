//! The id of a store, and what a catalogue belongs to.

use crate::error::StoreError;
use oboro_format::files::io_error;
use std::path::Path;
use std::{fmt, io};

/// Id of a store, drawn when it is created. Backups share it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct StoreId(pub(crate) [u8; 16]);

impl fmt::Display for StoreId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// Store and namespace that a catalogue belongs to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct CatalogueIdentity {
    pub(crate) store: StoreId,
    pub(crate) namespace: String,
}

impl CatalogueIdentity {
    pub(crate) fn new(store: StoreId, namespace: &str) -> Self {
        let namespace = namespace.to_owned();
        Self { store, namespace }
    }
}

impl fmt::Display for CatalogueIdentity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { store, namespace } = self;
        write!(f, "namespace {namespace:?} of store {store}")
    }
}

impl StoreId {
    /// Draws a random id.
    ///
    /// # Errors
    /// No randomness.
    pub(crate) fn draw() -> Result<Self, StoreError> {
        let mut id = [0; 16];
        let drawn = getrandom::fill(&mut id).map_err(|error| io::Error::other(error.to_string()));
        drawn.map_err(io_error("draw the id of", Path::new("the store")))?;
        Ok(Self(id))
    }
}
