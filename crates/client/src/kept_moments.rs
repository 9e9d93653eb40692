//! Cache of moments `M_{i,1}` of columns from earlier runs, in the bundle's directory.
//!
//! A file holds the moments of one column over each range of one dataset version, in the wire encoding. They are
//! public, and verified again at every use: invalid ones are removed and fetched again.

use oboro_format::Manifest;
use oboro_format::files::{names, remove_if_there};
use oboro_ring::Column;
use oboro_system::private_dir_builder;
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// Name of the cache directory in that of a bundle.
pub(crate) const MOMENTS: &str = "moments";

/// Cache of moments of one bundle.
#[derive(Debug, Clone)]
pub(crate) struct KeptMoments {
    directory: PathBuf,
    /// Directory of this version.
    version: PathBuf,
    /// Limit for all files together, in bytes; 0 disables the cache.
    limit: u64,
}

impl KeptMoments {
    /// Creates the cache for the version that `manifest` describes, limited to `limit` bytes.
    pub(crate) fn new(bundle: &Path, manifest: &Manifest, limit: u64) -> Self {
        let directory = bundle.join(MOMENTS);
        Self {
            version: directory.join(manifest.root().to_string()),
            directory,
            limit,
        }
    }

    fn path(&self, column: Column) -> PathBuf {
        self.version.join(column.to_string())
    }

    /// Returns true if a column's moments are cached.
    pub(crate) fn has(&self, column: Column) -> bool {
        self.limit > 0 && self.path(column).is_file()
    }

    /// Returns a column's moments, if they are cached and have the expected length.
    pub(crate) fn read(&self, column: Column, bytes: u64) -> Option<Vec<u8>> {
        let length = fs::metadata(self.path(column)).ok()?.len();
        let fits = self.has(column) && length == bytes;
        fits.then(|| fs::read(self.path(column)).ok())?
    }

    /// Removes a column's moments. Best effort: if they stay, the next run detects them again.
    pub(crate) fn forget(&self, column: Column) {
        let _ = remove_if_there(&self.path(column));
    }

    /// Caches columns up to the limit, and removes other versions. Best effort: missing columns are fetched again.
    pub(crate) fn keep(&self, columns: impl Iterator<Item = (Column, Vec<u8>)>) {
        let keep = || -> io::Result<()> {
            let mut columns = columns.peekable();
            // All files of a version have the same size.
            let Some((_, first)) = columns.peek() else {
                return Ok(());
            };
            let most = self.limit / first.len().max(1) as u64;
            if most == 0 {
                return Ok(());
            }
            private_dir_builder()
                .recursive(true)
                .create(&self.version)?;
            for version in names(&self.directory).unwrap_or_default() {
                let version = self.directory.join(version);
                if version != self.version {
                    let _ = fs::remove_dir_all(version);
                }
            }
            let mut here = 0;
            for name in names(&self.version).unwrap_or_default() {
                match name.parse::<u32>() {
                    Ok(_) => here += 1,
                    // Left behind by a killed run.
                    Err(_) => drop(remove_if_there(&self.version.join(name))),
                }
            }
            for (column, packed) in columns.take(most.saturating_sub(here) as usize) {
                let mut file = tempfile::NamedTempFile::new_in(&self.version)?;
                file.write_all(&packed)?;
                file.persist(self.path(column))?;
            }
            Ok(())
        };
        let _ = keep();
    }
}
