//! Manifests that a catalogue holds.

use crate::catalogue::Record;
use crate::error::StoreError;
use oboro_format::{Corruption, FormatError, Manifest};

/// Decodes a manifest in the catalogue.
pub(super) fn stored_manifest(record: &Record) -> Result<Manifest, StoreError> {
    let damaged = |corruption| -> StoreError {
        FormatError::Damaged {
            subject: format!(
                "the catalogue's manifest of dataset {} ({:?})",
                record.id, record.name
            ),
            path: None,
            corruption,
        }
        .into()
    };
    match Manifest::decode(&record.manifest) {
        Ok(manifest) if manifest.dataset == record.id => Ok(manifest),
        Ok(_) => Err(damaged(Corruption::Unexpected)),
        Err(FormatError::Damaged { corruption, .. }) => Err(damaged(corruption)),
        Err(other) => Err(other.into()),
    }
}
