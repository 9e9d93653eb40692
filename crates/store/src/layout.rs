//! The layout of a store: names of files, directories and objects.

use oboro_format::{DEFAULT_NAMESPACE, DatasetId};
use std::path::{Path, PathBuf};

/// File of the catalogue.
pub(crate) const CATALOGUE: &str = "catalogue.sqlite";
/// Directory of the datasets.
pub(crate) const SEGMENTS: &str = "segments";

/// Directory of the namespaces other than the default one, each with the layout of a store.
pub(crate) const NAMESPACES: &str = "namespaces";
/// The directory of recovery copies.
pub(crate) const RECOVERY: &str = "recovery";
/// The directory of notes of what owners rewrote.
pub(crate) const NOTES: &str = "rewritten";
/// The file, or object, of grants.
pub(crate) const GRANTS: &str = "grants";
/// The file, or object, of the store's identity.
pub(crate) const IDENTITY: &str = "identity";
/// The file of bytes set aside for changes that free space.
pub(crate) const RESERVE: &str = "reserve";
/// Directory of datasets that the catalogue does not know.
pub(crate) const UNKNOWN: &str = "unknown";

/// Returns the directory of a namespace in a store: for the default one, the store's own.
pub fn home_of(store: &Path, namespace: &str) -> PathBuf {
    match namespace {
        DEFAULT_NAMESPACE => store.into(),
        other => store.join(NAMESPACES).join(other),
    }
}

/// Returns the prefix of the names of a namespace's objects.
pub(crate) fn prefix_of(namespace: &str) -> String {
    match namespace {
        DEFAULT_NAMESPACE => String::new(),
        other => format!("{NAMESPACES}/{other}/"),
    }
}

/// Returns the file of a dataset's recovery copy in a namespace.
pub(crate) fn recovery_path(home: &Path, id: DatasetId) -> PathBuf {
    home.join(RECOVERY).join(id.to_string())
}

/// Returns the directory of a dataset in a namespace.
pub(crate) fn dataset_path(home: &Path, id: DatasetId) -> PathBuf {
    home.join(SEGMENTS).join(id.to_string())
}

/// Returns the file of a segment in a namespace.
pub(crate) fn segment_path(home: &Path, id: DatasetId, number: u32) -> PathBuf {
    dataset_path(home, id).join(segment_name(number))
}

/// Returns the name of a segment's file in its dataset's directory.
pub(crate) fn segment_name(number: u32) -> String {
    format!("{number:08}.seg")
}
