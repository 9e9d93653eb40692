//! What a directory is: a store, an owner's dataset, or something else.

use crate::cache_marker::check_is_no_cache;
use crate::error::{CatalogueError, StoreError};
use crate::layout::{CATALOGUE, RECOVERY, RESERVE, SEGMENTS, UNKNOWN};
use oboro_format::FormatError;
use oboro_format::files::{exists, io_error, length_if_there};
use std::path::Path;
use std::{fs, io};

/// Returns the length of a file, `None` if it does not exist.
pub(super) fn length(path: &Path) -> Result<Option<u64>, StoreError> {
    Ok(length_if_there(path)?)
}

/// Returns true if the directory has a catalogue. Fails if it had one: sweeping would remove the data, and deleted
/// datasets could be uploaded again.
pub(super) fn has_catalogue(directory: &Path) -> Result<bool, StoreError> {
    match length(&directory.join(CATALOGUE))? {
        Some(1..) => Ok(true),
        _ if had_catalogue(directory)? => Err(CatalogueError::Missing {
            path: directory.into(),
        }
        .into()),
        _ => Ok(false),
    }
}

/// Returns true if a namespace was opened in the directory. Its catalogue is created before everything but notes, which
/// operators copy. The directory of an owner's dataset has segments as well.
fn had_catalogue(directory: &Path) -> Result<bool, StoreError> {
    let later = [SEGMENTS, RECOVERY, UNKNOWN, RESERVE];
    let mut later = later.into_iter().map(|name| exists(&directory.join(name)));
    Ok(!exists(&directory.join("head"))?
        && later.try_fold(false, |any, it| Ok::<_, FormatError>(any | it?))?)
}

/// Refuses an owner's dataset.
pub(super) fn check_is_no_other(directory: &Path) -> Result<(), StoreError> {
    if !has_catalogue(directory)? && directory.join("head").exists() {
        return Err(StoreError::IsBundle {
            path: directory.into(),
        });
    }
    Ok(())
}

/// Refuses a directory that is not a store's.
pub(super) fn check_is_store(directory: &Path) -> Result<(), StoreError> {
    check_is_no_cache(directory)?;
    check_is_no_other(directory)?;
    if has_catalogue(directory)? {
        Ok(())
    } else {
        Err(StoreError::NoStore {
            path: directory.into(),
        })
    }
}

pub(super) fn remove_dataset(directory: &Path) -> Result<(), StoreError> {
    match fs::remove_dir_all(directory) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(io_error("remove", directory)(error).into())
        }
        _ => Ok(()),
    }
}
