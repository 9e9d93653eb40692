//! The directories of a store: its home and, on other devices, those that panels are striped over too.
//!
//! The home has the catalogue, which says how many directories there are and over how many of them each
//! segment is striped. Every one has a *mark*: the store that it belongs to and its place there. So a disk
//! that is not mounted, or in another's place, is noticed before anything is done, and so is a catalogue
//! that is not the home's. Directories may be added at the end and never go away.

use crate::codec::{Reader, Writer, unseal};
use crate::error::{DirectoryFault, Fault, StoreError};
use crate::files::{
    Durability, ensure_directories, exists, io_error, names, parent, replace, sync_directory,
};
use crate::id::DatasetId;
use std::collections::HashSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// The most directories of a store.
pub const MAX_DIRECTORIES: usize = 64;

/// The file of the catalogue in the home.
pub(crate) const CATALOGUE: &str = "catalogue.sqlite";
/// The directory of the datasets in each directory.
pub(crate) const SEGMENTS: &str = "segments";

const MAGIC: &str = "OBORODIR";
const VERSION: u32 = 1;
const MARK_BYTES: usize = 8 + 4 + 16 + 4 + 32;

/// Where a store is: one directory or several, the home first, in the order that they were added in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Directories {
    paths: Vec<PathBuf>,
}

impl<P: AsRef<Path> + ?Sized> From<&P> for Directories {
    /// A home and nothing else.
    fn from(home: &P) -> Self {
        Self {
            paths: vec![home.as_ref().into()],
        }
    }
}

/// What the catalogue of a striped store says of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Striped {
    /// Tells the store from every other one.
    pub(crate) store: [u8; 16],
    /// The number of its directories.
    pub(crate) directories: usize,
}

/// What a directory says of itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Mark {
    store: [u8; 16],
    place: usize,
}

impl Mark {
    fn encode(&self) -> Vec<u8> {
        let mut mark = Writer::with_preamble(MAGIC, VERSION);
        mark.put(&self.store).u32(self.place as u32);
        mark.seal()
    }

    fn decode(bytes: &[u8]) -> Result<Self, Fault> {
        Reader::new(bytes).preamble(MAGIC, VERSION)?;
        if bytes.len() != MARK_BYTES {
            return Err(Fault::Length {
                expected: MARK_BYTES as u64,
                found: bytes.len() as u64,
            });
        }
        let mut reader = Reader::new(unseal(bytes)?);
        reader.preamble(MAGIC, VERSION)?;
        let (store, place) = (reader.array()?, reader.u32()? as usize);
        match place {
            0..MAX_DIRECTORIES => Ok(Self { store, place }),
            _ => Err(Fault::Invalid(format!("it cannot have place {place}"))),
        }
    }

    /// That of a directory, if it has one.
    fn of(directory: &Path) -> Result<Option<Self>, StoreError> {
        let path = mark_path(directory);
        let bytes = match fs::read(&path) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(io_error("read", &path)(error)),
        };
        let mark = Self::decode(&bytes).map_err(|fault| StoreError::Damaged {
            subject: "the mark of a store's directory".into(),
            path: Some(path),
            fault,
        });
        mark.map(Some)
    }
}

fn mark_path(directory: &Path) -> PathBuf {
    directory.join("directory")
}

impl Directories {
    /// The store with its home at the first of these paths and its further directories at the others.
    ///
    /// # Errors
    /// None, more than [`MAX_DIRECTORIES`], or one twice.
    pub fn new(paths: Vec<PathBuf>) -> Result<Self, StoreError> {
        if !(1..=MAX_DIRECTORIES).contains(&paths.len()) {
            return Err(StoreError::DirectoryCount { given: paths.len() });
        }
        let mut seen = HashSet::new();
        for path in &paths {
            // One that is not there yet is told from others by how it is written.
            let real = fs::canonicalize(path).unwrap_or_else(|_| path.components().collect());
            if !seen.insert(real) {
                return Err(refused(path, DirectoryFault::Repeated));
            }
        }
        Ok(Self { paths })
    }

    /// Whether a segment's file is in a directory of a store of several, over which its panels may be
    /// striped.
    pub fn stripe(segment: &Path) -> bool {
        let directory = fs::canonicalize(segment);
        let directory = directory.iter().find_map(|path| path.ancestors().nth(3));
        directory.is_some_and(|path| matches!(Mark::of(path), Ok(Some(_))))
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.paths.len()
    }

    /// The first.
    pub fn home(&self) -> &Path {
        &self.paths[0]
    }

    /// All of them, the home first.
    pub fn paths(&self) -> impl Iterator<Item = &Path> {
        self.paths.iter().map(PathBuf::as_path)
    }

    /// The directories of the datasets.
    pub(crate) fn of_datasets(&self) -> impl Iterator<Item = PathBuf> {
        self.paths.iter().map(|path| path.join(SEGMENTS))
    }

    /// The directories of one dataset.
    pub(crate) fn of_dataset(&self, id: DatasetId) -> impl Iterator<Item = PathBuf> {
        self.of_datasets()
            .map(move |path| path.join(id.to_string()))
    }

    /// The files of a segment that is striped over the first `directories`.
    pub(crate) fn of_segment(&self, id: DatasetId, index: u32, directories: usize) -> Vec<PathBuf> {
        let paths = self.of_dataset(id).take(directories);
        paths.map(|path| path.join(segment_name(index))).collect()
    }

    /// Checks that the first is not a further one of a store.
    pub(crate) fn check_home(&self) -> Result<(), StoreError> {
        match Mark::of(self.home())? {
            Some(Mark { place, .. }) if place > 0 => {
                let fault = DirectoryFault::Place { place, given: 0 };
                Err(refused(self.home(), fault))
            }
            _ => Ok(()),
        }
    }

    /// Checks that these are the directories that the catalogue of the home speaks of, `None` if there is
    /// no catalogue or it knows of one only, in the same order; those behind them are to be added, and
    /// must have nothing of a store.
    pub(crate) fn check(&self, striped: Option<Striped>) -> Result<(), StoreError> {
        let known = striped.map_or(1, |striped| striped.directories);
        if self.count() < known {
            return Err(self.miscounted(known));
        }
        for (place, path) in self.paths().enumerate() {
            let fault = match (Mark::of(path)?, striped) {
                (Some(mark), Some(striped)) if mark.store == striped.store => {
                    match mark.place == place {
                        true => continue,
                        false => DirectoryFault::Place {
                            place: mark.place,
                            given: place,
                        },
                    }
                }
                (Some(_), _) => DirectoryFault::Foreign,
                (None, _) if place == 0 => continue,
                (None, _) if place < known => DirectoryFault::Unmarked { given: place },
                (None, _) if is_a_store(path)? => DirectoryFault::Taken,
                (None, _) => continue,
            };
            return Err(refused(path, fault));
        }
        Ok(())
    }

    /// The same; none are to be added.
    pub(crate) fn check_all(&self, striped: Option<Striped>) -> Result<(), StoreError> {
        self.check(striped)?;
        match striped.map_or(1, |striped| striped.directories) {
            known if known < self.count() => Err(self.miscounted(known)),
            _ => Ok(()),
        }
    }

    fn miscounted(&self, known: usize) -> StoreError {
        StoreError::Directories {
            home: self.home().into(),
            known,
            given: self.count(),
        }
    }

    /// Makes the directories behind those that the store has ready to be its own, and its home too.
    pub(crate) fn mark_new(&self, striped: Striped) -> Result<(), StoreError> {
        let is_new = |&(place, _): &(usize, &Path)| place == 0 || place >= striped.directories;
        for (place, path) in self.paths().enumerate().filter(is_new) {
            ensure_directories(path)?;
            let mark = Mark {
                store: striped.store,
                place,
            };
            replace(&mark_path(path), &mark.encode(), Durability::Durable)?;
            sync_directory(path)?;
            sync_directory(parent(path))?;
        }
        Ok(())
    }
}

/// The file of a segment in its dataset's directory.
pub(crate) fn segment_name(index: u32) -> String {
    format!("{index:08}.seg")
}

/// Whether a directory has a catalogue or datasets.
fn is_a_store(directory: &Path) -> Result<bool, StoreError> {
    let holds_datasets = !names(&directory.join(SEGMENTS))?.is_empty();
    Ok(holds_datasets || exists(&directory.join(CATALOGUE))?)
}

fn refused(path: &Path, fault: DirectoryFault) -> StoreError {
    StoreError::Directory {
        path: path.into(),
        fault,
    }
}

#[cfg(test)]
mod tests;
