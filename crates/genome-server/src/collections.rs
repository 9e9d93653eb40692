//! The directory `genome` of a server: collections by name, who may change them, and which are open.
//!
//! A server only reads. Loading and removing are done by other processes, one at a time by a lock; a file
//! appears complete, by a rename, and an open one outlives its name.

use crate::error::GenomeError;
use crate::frame::Frame;
use crate::kind::{Kind, Shape};
use crate::loading::Loading;
use crate::panel::HaplotypePanel;
use crate::reference::Reference;
use oboro_format::ErrorKind;
use oboro_format::files::{
    Identity, Lock, ensure_directories, exists, io_error, lock, names, remove_if_there,
    sync_directory,
};
use oboro_format::{MAX_NAME_CHARS, is_name};
use parking_lot::Mutex;
use std::collections::HashMap;
use std::fs::{self};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The directory of the collections in the data directory of a server.
pub(crate) const DIRECTORY: &str = "genome";

/// What a listing says about one collection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Info {
    /// Its name.
    pub name: String,
    /// Its size.
    pub shape: Shape,
    /// The length of its file.
    pub bytes: u64,
}

/// All collections of a directory, by name.
#[derive(Debug)]
pub struct Listing {
    /// Those with sound headers.
    pub collections: Vec<Info>,
    /// What is wrong with each of the others.
    pub damaged: Vec<GenomeError>,
}

/// What happens to a collection of the same kind and name when one is loaded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Existing {
    /// It stays, and loading is refused.
    Keep,
    /// It is replaced once the new one is complete. Queries in flight keep using the old one.
    Replace,
}

/// The collections of a server's data directory. An open one is shared by all its users.
pub struct Collections {
    directory: PathBuf,
    panels: Opened<HaplotypePanel>,
    references: Opened<Reference>,
}

impl Collections {
    /// The collections below `data`, the data directory of a server. It need not exist yet.
    pub fn open(data: &Path) -> Self {
        Self {
            directory: data.join(DIRECTORY),
            panels: Opened::default(),
            references: Opened::default(),
        }
    }

    /// All collections, by name.
    ///
    /// # Errors
    /// A directory that cannot be read. Damaged files are a part of the listing.
    pub fn list(&self) -> Result<Listing, GenomeError> {
        let mut listing = Listing {
            collections: Vec::new(),
            damaged: Vec::new(),
        };
        for (kind, name) in self.files()? {
            match self.info(kind, &name) {
                Ok(info) => listing.collections.push(info),
                // Removed since.
                Err(GenomeError::NoCollection { .. }) => {}
                // Nothing is known of it then.
                Err(error) if error.kind() == ErrorKind::Unavailable => return Err(error),
                Err(error) => listing.damaged.push(error),
            }
        }
        Ok(listing)
    }

    /// All that have a file, damaged ones included, by kind and name.
    pub(crate) fn files(&self) -> Result<Vec<(Kind, String)>, GenomeError> {
        let mut files = names(&self.directory)?;
        files.sort_unstable();
        let parsed = files.iter().filter_map(|file| parse(file));
        Ok(parsed.map(|(kind, name)| (kind, name.to_owned())).collect())
    }

    /// What a listing says about one collection.
    ///
    /// # Errors
    /// There is none, or its header is damaged.
    pub fn info(&self, kind: Kind, name: &str) -> Result<Info, GenomeError> {
        let frame = Frame::open(&self.path(kind, name)?, kind, name)?;
        let shape = match kind {
            Kind::Panel => HaplotypePanel::shape(&frame),
            Kind::Reference => Reference::shape(&frame),
        };
        Ok(Info {
            name: name.to_owned(),
            shape: shape.map_err(|cause| frame.damaged("", cause))?,
            bytes: frame.bytes(),
        })
    }

    /// The present panel of this name.
    ///
    /// # Errors
    ///
    /// There is none, or it is damaged.
    pub fn panel(&self, name: &str) -> Result<Arc<HaplotypePanel>, GenomeError> {
        let path = self.path(Kind::Panel, name)?;
        self.panels.get(&path, name, HaplotypePanel::open)
    }

    /// The present reference of this name.
    ///
    /// # Errors
    ///
    /// There is none, or it is damaged.
    pub fn reference(&self, name: &str) -> Result<Arc<Reference>, GenomeError> {
        let path = self.path(Kind::Reference, name)?;
        self.references.get(&path, name, Reference::open)
    }

    /// Removes the collection of this name. Queries in flight can still read it.
    ///
    /// # Errors
    ///
    /// There is none, another process loads or removes one, or the disk fails.
    pub fn remove(&self, kind: Kind, name: &str) -> Result<(), GenomeError> {
        let path = self.path(kind, name)?;
        let missing = || GenomeError::NoCollection {
            kind,
            name: name.to_owned(),
        };
        if !exists(&self.directory)? {
            return Err(missing());
        }
        let _lock = self.lock()?;
        fs::remove_file(&path).map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => missing(),
            _ => io_error("remove", &path)(error).into(),
        })?;
        Ok(sync_directory(&self.directory)?)
    }

    /// Takes the lock and starts a file; removes what killed processes left unfinished.
    pub(crate) fn begin(
        &self,
        kind: Kind,
        name: &str,
        existing: Existing,
    ) -> Result<Loading, GenomeError> {
        let path = self.path(kind, name)?;
        ensure_directories(&self.directory)?;
        let lock = self.lock()?;
        for file in names(&self.directory)? {
            if file.ends_with(".partial") {
                remove_if_there(&self.directory.join(file))?;
            }
        }
        for taken in Kind::ALL {
            let replaceable = taken == kind;
            if exists(&self.path(taken, name)?)? && !(replaceable && existing == Existing::Replace)
            {
                return Err(GenomeError::Exists {
                    kind: taken,
                    name: name.to_owned(),
                    replaceable,
                });
            }
        }
        Ok(Loading::new(kind, path, lock))
    }

    fn lock(&self) -> Result<Lock, GenomeError> {
        let what = "directory";
        Ok(lock(&self.directory.join("lock"), &self.directory, what)?)
    }

    pub(crate) fn path(&self, kind: Kind, name: &str) -> Result<PathBuf, GenomeError> {
        if !is_name(name) {
            return Err(GenomeError::Name {
                given: name.chars().take(2 * MAX_NAME_CHARS).collect(),
            });
        }
        Ok(self.directory.join(format!("{name}{}", kind.extension())))
    }
}

/// The collection that a file of this name holds.
fn parse(file: &str) -> Option<(Kind, &str)> {
    Kind::ALL.into_iter().find_map(|kind| {
        let name = file.strip_suffix(kind.extension())?;
        is_name(name).then_some((kind, name))
    })
}

/// The open collections of one kind, by name.
struct Opened<T> {
    by_name: Mutex<HashMap<String, (Identity, Arc<T>)>>,
}

impl<T> Default for Opened<T> {
    fn default() -> Self {
        Self {
            by_name: Mutex::default(),
        }
    }
}

impl<T> Opened<T> {
    /// The collection opened before if the file is still the same, otherwise the result of `open`.
    fn get(
        &self,
        path: &Path,
        name: &str,
        open: impl FnOnce(&Path, &str) -> Result<T, GenomeError>,
    ) -> Result<Arc<T>, GenomeError> {
        let mut opened = self.by_name.lock();
        // Before opening: a file replaced in between is opened again the next time.
        let identity = Identity::of(path)?;
        match (opened.get(name), identity) {
            (Some((known, collection)), Some(identity)) if *known == identity => {
                return Ok(collection.clone());
            }
            _ => opened.remove(name),
        };
        let collection = Arc::new(open(path, name)?);
        if let Some(identity) = identity {
            opened.insert(name.to_owned(), (identity, collection.clone()));
        }
        Ok(collection)
    }
}

#[cfg(test)]
mod tests;
