//! Moments `M_{i,1}` of columns that were verified before, kept in the bundle's directory for later runs.
//!
//! A file is the moments of one column as they travelled, of each range of one version of the dataset. They are public
//! numbers, and verified again whenever they are used: what is not right is forgotten, and asked for again.

use oboro_format::Manifest;
use oboro_format::files::{names, remove_if_there};
use std::fs::{self, DirBuilder};
use std::io::{self, Write};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

/// The directory of a bundle's moments.
#[derive(Debug, Clone)]
pub(crate) struct KeptMoments {
    directory: PathBuf,
    /// That of the version.
    version: PathBuf,
    /// The most bytes of all files; 0 to keep nothing and to use nothing.
    limit: u64,
}

impl KeptMoments {
    /// Those of the version of the bundle in this directory that `manifest` describes, of at most so many bytes.
    pub(crate) fn new(bundle: &Path, manifest: &Manifest, limit: u64) -> Self {
        let directory = bundle.join("moments");
        Self {
            version: directory.join(manifest.root().to_string()),
            directory,
            limit,
        }
    }

    fn path(&self, column: u32) -> PathBuf {
        self.version.join(column.to_string())
    }

    /// Whether those of a column are here.
    pub(crate) fn has(&self, column: u32) -> bool {
        self.limit > 0 && self.path(column).is_file()
    }

    /// Those of a column, if they are here and have so many bytes.
    pub(crate) fn read(&self, column: u32, bytes: u64) -> Option<Vec<u8>> {
        let length = fs::metadata(self.path(column)).ok()?.len();
        let fits = self.has(column) && length == bytes;
        fits.then(|| fs::read(self.path(column)).ok())?
    }

    /// Removes those of a column. Best effort: it is found out again.
    pub(crate) fn forget(&self, column: u32) {
        let _ = remove_if_there(&self.path(column));
    }

    /// Keeps those of columns as far as there is room, and none of other versions. Best effort: they are asked for again.
    pub(crate) fn keep(&self, columns: impl Iterator<Item = (u32, Vec<u8>)>) {
        let keep = || -> io::Result<()> {
            let mut columns = columns.peekable();
            // All files of a version are of one size.
            let Some((_, first)) = columns.peek() else {
                return Ok(());
            };
            let most = self.limit / first.len().max(1) as u64;
            if most == 0 {
                return Ok(());
            }
            let mut directory = DirBuilder::new();
            directory
                .recursive(true)
                .mode(0o700)
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
                    // What a killed run left.
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
