//! Directory `genome` of a server: collections by name, its lock, and the open ones.
//!
//! A server only reads. Other processes load and remove collections, one at a time by a lock. A file appears complete,
//! by a rename, and an open one outlives its name.

use crate::error::GenomeError;
use crate::frame::Frame;
use crate::kind::{Kind, Shape};
use crate::loading::PartialCollection;
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

/// Directory of the collections in a server's data directory.
pub(crate) const DIRECTORY: &str = "genome";

/// Entry of a listing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Info {
    /// Name.
    pub name: String,
    /// Size and contents.
    pub shape: Shape,
    /// Length of the file in bytes.
    pub bytes: u64,
}

/// All collections of a directory, by name.
#[derive(Debug)]
pub struct Listing {
    /// Collections with sound headers.
    pub collections: Vec<Info>,
    /// An error for each of the others.
    pub damaged: Vec<GenomeError>,
}

/// Treatment of an existing collection of this kind and name when one is loaded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Existing {
    /// The existing one stays, and loading fails.
    Keep,
    /// The complete new one replaces it. Queries in flight keep using the old one.
    Replace,
}

/// Collections of a server's data directory. All users of an open one share it.
pub struct Collections {
    directory: PathBuf,
    panels: OpenCollections<HaplotypePanel>,
    references: OpenCollections<Reference>,
}

impl Collections {
    /// Returns the collections below `data`, the data directory of a server. It need not exist yet.
    pub fn open(data: &Path) -> Self {
        Self {
            directory: data.join(DIRECTORY),
            panels: OpenCollections::default(),
            references: OpenCollections::default(),
        }
    }

    /// Lists all collections by name.
    ///
    /// # Errors
    /// The directory cannot be read. Damaged files are a part of the listing.
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
                // Its state is unknown then.
                Err(error) if error.kind() == ErrorKind::Unavailable => return Err(error),
                Err(error) => listing.damaged.push(error),
            }
        }
        Ok(listing)
    }

    /// Lists all that have a file, damaged ones included, by kind and name.
    pub(crate) fn files(&self) -> Result<Vec<(Kind, String)>, GenomeError> {
        let mut files = names(&self.directory)?;
        files.sort_unstable();
        let parsed = files.iter().filter_map(|file| parse(file));
        Ok(parsed.map(|(kind, name)| (kind, name.to_owned())).collect())
    }

    /// Returns the listing's entry of one collection.
    ///
    /// # Errors
    /// It does not exist, or its header is damaged.
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

    /// Returns the present panel of this name.
    ///
    /// # Errors
    ///
    /// It does not exist, or is damaged.
    pub fn panel(&self, name: &str) -> Result<Arc<HaplotypePanel>, GenomeError> {
        let path = self.path(Kind::Panel, name)?;
        self.panels.get(&path, name, HaplotypePanel::open)
    }

    /// Returns the present reference of this name.
    ///
    /// # Errors
    ///
    /// It does not exist, or is damaged.
    pub fn reference(&self, name: &str) -> Result<Arc<Reference>, GenomeError> {
        let path = self.path(Kind::Reference, name)?;
        self.references.get(&path, name, Reference::open)
    }

    /// Removes the collection of this name. Queries in flight can still read it.
    ///
    /// # Errors
    ///
    /// It does not exist, another process loads or removes one, or the disk fails.
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

    /// Takes the lock and starts a file; removes partial files of killed processes.
    pub(crate) fn begin(
        &self,
        kind: Kind,
        name: &str,
        existing: Existing,
    ) -> Result<PartialCollection, GenomeError> {
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
        Ok(PartialCollection::new(kind, path, lock))
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

/// Parses a file name into the kind and name of its collection.
fn parse(file: &str) -> Option<(Kind, &str)> {
    Kind::ALL.into_iter().find_map(|kind| {
        let name = file.strip_suffix(kind.extension())?;
        is_name(name).then_some((kind, name))
    })
}

/// Open collections of one kind, by name.
struct OpenCollections<T> {
    by_name: Mutex<HashMap<String, (Identity, Arc<T>)>>,
}

impl<T> Default for OpenCollections<T> {
    fn default() -> Self {
        Self {
            by_name: Mutex::default(),
        }
    }
}

impl<T> OpenCollections<T> {
    /// Returns the collection opened before if the file is unchanged, otherwise the result of `open`.
    fn get(
        &self,
        path: &Path,
        name: &str,
        open: impl FnOnce(&Path, &str) -> Result<T, GenomeError>,
    ) -> Result<Arc<T>, GenomeError> {
        let mut opened = self.by_name.lock();
        // Read before opening: a file replaced in between is opened again the next time.
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
