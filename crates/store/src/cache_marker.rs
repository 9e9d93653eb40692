//! The file by which a directory is the cache of objects, and no store of its own.

use crate::error::{ObjectStorageError, StoreError};
use crate::layout::CATALOGUE;
use oboro_format::files::{Durability, exists, read_if_there, replace};
use std::path::Path;

/// File that names the objects of which a directory is the cache.
const MARKER: &str = "objects";

/// Returns the URL of the objects of which a directory is the cache.
fn marked(directory: &Path) -> Result<Option<String>, StoreError> {
    let url = read_if_there(&directory.join(MARKER))?;
    Ok(url.map(|it| String::from_utf8_lossy(&it).into_owned()))
}

/// Refuses a directory that is a cache.
pub(crate) fn check_is_no_cache(directory: &Path) -> Result<(), StoreError> {
    match marked(directory)? {
        None => Ok(()),
        Some(url) => Err(ObjectStorageError::IsCache {
            path: directory.into(),
            url,
        }
        .into()),
    }
}

/// Refuses a directory that is itself a store, or the cache of other objects than those at `url`.
pub(crate) fn check_is_cache(directory: &Path, url: &str) -> Result<(), StoreError> {
    match marked(directory)? {
        Some(marked) if marked == url => Ok(()),
        Some(url) => Err(ObjectStorageError::IsCache {
            path: directory.into(),
            url,
        }
        .into()),
        None if exists(&directory.join(CATALOGUE))? => Err(ObjectStorageError::IsNoCache {
            path: directory.into(),
            url: url.into(),
        }
        .into()),
        None => Ok(()),
    }
}

/// Makes a directory the cache of the objects at `url`, which it may already be.
pub(crate) fn mark(directory: &Path, url: &str) -> Result<(), StoreError> {
    check_is_cache(directory, url)?;
    if marked(directory)?.is_none() {
        let marker = directory.join(MARKER);
        replace(&marker, url.as_bytes(), Durability::Durable)?;
    }
    Ok(())
}
