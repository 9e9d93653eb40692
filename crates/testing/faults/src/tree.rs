//! The content of a disk: directories, files, and the operations that change them.

use std::collections::{BTreeMap, HashMap};
use std::ffi::{OsStr, OsString};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A file or directory, independent of its names. Never reused.
pub(crate) type Node = usize;

/// The directory that is watched.
pub(crate) const ROOT: Node = 0;

/// A name in a directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct DirectoryEntry {
    pub(crate) directory: Node,
    pub(crate) name: OsString,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    File,
    Directory,
}

/// A change, or a sync.
#[derive(Debug, Clone)]
pub(crate) enum Operation {
    /// A new file or directory, or another name of a file.
    Enter {
        place: DirectoryEntry,
        node: Node,
        kind: Kind,
    },
    Rename {
        from: DirectoryEntry,
        to: DirectoryEntry,
        node: Node,
    },
    Remove {
        place: DirectoryEntry,
        node: Node,
    },
    Write {
        node: Node,
        offset: usize,
        data: Arc<[u8]>,
    },
    Truncate {
        node: Node,
        length: usize,
    },
    Sync {
        node: Node,
    },
    /// The pending bytes will never reach the disk, even if later syncs succeed.
    SyncFailed {
        node: Node,
    },
}

#[derive(Debug, Clone)]
pub(crate) struct Tree {
    directories: HashMap<Node, BTreeMap<OsString, Node>>,
    files: HashMap<Node, Vec<u8>>,
}

impl Tree {
    /// An empty directory.
    pub(crate) fn new() -> Self {
        Self {
            directories: HashMap::from([(ROOT, BTreeMap::new())]),
            files: HashMap::new(),
        }
    }

    pub(crate) fn apply(&mut self, operation: &Operation) {
        match operation {
            Operation::Enter { place, node, kind } => {
                match kind {
                    Kind::File => drop(self.files.entry(*node).or_default()),
                    Kind::Directory => drop(self.directories.entry(*node).or_default()),
                }
                self.enter(place, *node);
            }
            Operation::Rename { from, to, node } => {
                self.remove(from, *node);
                self.enter(to, *node);
            }
            Operation::Remove { place, node } => self.remove(place, *node),
            Operation::Write { node, offset, data } => {
                self.grow(*node, offset + data.len());
                self.overwrite(*node, *offset, data);
            }
            Operation::Truncate { node, length } => self.file(*node).resize(*length, 0),
            Operation::Sync { .. } | Operation::SyncFailed { .. } => {}
        }
    }

    /// A directory or file may be known here before the operation that creates it took effect.
    fn enter(&mut self, place: &DirectoryEntry, node: Node) {
        if !self.directories.contains_key(&node) {
            self.file(node);
        }
        let entries = self.directories.entry(place.directory).or_default();
        entries.insert(place.name.clone(), node);
    }

    fn remove(&mut self, place: &DirectoryEntry, node: Node) {
        let entries = self.directories.entry(place.directory).or_default();
        if entries.get(&place.name) == Some(&node) {
            entries.remove(&place.name);
        }
    }

    fn file(&mut self, node: Node) -> &mut Vec<u8> {
        self.files.entry(node).or_default()
    }

    /// Extends a file to this length with zeros, unless it is longer.
    pub(crate) fn grow(&mut self, node: Node, length: usize) {
        let file = self.file(node);
        if file.len() < length {
            file.resize(length, 0);
        }
    }

    /// Writes the part of `data` within the file.
    pub(crate) fn overwrite(&mut self, node: Node, offset: usize, data: &[u8]) {
        let file = self.file(node);
        let end = file.len().min(offset + data.len());
        if offset < end {
            file[offset..end].copy_from_slice(&data[..end - offset]);
        }
    }

    pub(crate) fn look_up(&self, place: &DirectoryEntry) -> Option<Node> {
        self.directories
            .get(&place.directory)?
            .get(&place.name)
            .copied()
    }

    /// Resolves a relative path, starting from a directory.
    pub(crate) fn resolve(&self, from: Node, path: &Path) -> Option<DirectoryEntry> {
        let mut names = path.iter().filter(|name| *name != OsStr::new("."));
        let mut place = DirectoryEntry {
            directory: from,
            name: names.next()?.into(),
        };
        for name in names {
            place = DirectoryEntry {
                directory: self.look_up(&place)?,
                name: name.into(),
            };
        }
        Some(place)
    }

    pub(crate) fn length(&self, node: Node) -> usize {
        self.files.get(&node).map_or(0, Vec::len)
    }

    /// The lengths of all files that have a name.
    pub(crate) fn lengths(&self) -> impl Iterator<Item = usize> {
        self.directories
            .values()
            .flat_map(BTreeMap::values)
            .filter_map(|node| self.files.get(node).map(Vec::len))
    }

    /// Everything reachable from the root.
    pub(crate) fn image(&self) -> Image {
        let mut found = BTreeMap::new();
        let mut open = vec![(PathBuf::new(), ROOT)];
        while let Some((path, directory)) = open.pop() {
            for (name, node) in &self.directories[&directory] {
                let path = path.join(name);
                if self.directories.contains_key(node) {
                    found.insert(path.clone(), None);
                    open.push((path, *node));
                } else {
                    found.insert(path, Some(self.files[node].clone()));
                }
            }
        }
        Image(found)
    }
}

/// The files and directories below a directory, with every byte.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Image(BTreeMap<PathBuf, Option<Vec<u8>>>);

impl Image {
    /// Reads a real directory.
    pub fn read(directory: &Path) -> Self {
        let mut found = BTreeMap::new();
        let mut open = vec![PathBuf::new()];
        while let Some(within) = open.pop() {
            for entry in fs::read_dir(directory.join(&within)).unwrap() {
                let entry = entry.unwrap();
                let path = within.join(entry.file_name());
                if entry.file_type().unwrap().is_dir() {
                    found.insert(path.clone(), None);
                    open.push(path);
                } else {
                    found.insert(path, Some(fs::read(entry.path()).unwrap()));
                }
            }
        }
        Self(found)
    }

    /// Writes it into an empty directory.
    pub fn write(&self, directory: &Path) {
        // Parents come before their entries.
        for (path, content) in &self.0 {
            match content {
                None => fs::create_dir(directory.join(path)).unwrap(),
                Some(bytes) => fs::write(directory.join(path), bytes).unwrap(),
            }
        }
    }

    /// The paths in it, ascending.
    pub fn paths(&self) -> impl Iterator<Item = &Path> {
        self.0.keys().map(PathBuf::as_path)
    }
}
