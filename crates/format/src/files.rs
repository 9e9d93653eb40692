//! File operations that must be exact: durable writes, renames, locks, sweeps.
//!
//! A rename is durable only after its directory is synced; functions whose caller must sync say so. Errors name the
//! path, and report a full disk as such.

use crate::error::FormatError;
pub use oboro_system::is_out_of_descriptors;
use oboro_system::{
    FileId, changed_at, copy_owner_and_mode, file_id, open_directory, owner_only,
    private_dir_builder,
};
use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// Turns an I/O error into one that names the operation and the path.
pub fn io_error(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> FormatError {
    move |source| match source.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
            FormatError::DiskFull { path: path.into() }
        }
        io::ErrorKind::ReadOnlyFilesystem => FormatError::DiskReadOnly { path: path.into() },
        _ if is_out_of_descriptors(&source) => FormatError::TooManyFiles { path: path.into() },
        _ => FormatError::Io {
            action,
            path: path.into(),
            source,
        },
    }
}

/// Checks that files in `directory` can be created, written and removed durably, by doing it with one named `.probe`.
///
/// # Errors
/// A failed write, with its cause.
pub fn try_writing(directory: &Path) -> Result<(), FormatError> {
    let probe = directory.join(".probe");
    let write = || {
        let mut file = for_writing().open(&probe)?;
        file.write_all(b"writable")?;
        file.sync_all()
    };
    let written = write().map_err(io_error("write", &probe));
    // Remove an empty file, too: a full disk may take the name but none of the bytes.
    written.and(remove_if_there(&probe))?;
    sync_directory(directory)
}

/// Returns the free bytes of the file system of `path`, which need not exist; `None` if the system does not say.
pub fn free_bytes(path: &Path) -> Option<u64> {
    let there = path.ancestors().find(|it| it.exists());
    let there = there.unwrap_or(Path::new("."));
    oboro_system::free_bytes(there)
}

/// Returns options that open a file for writing and truncate it, or create it for this user only.
fn for_writing() -> OpenOptions {
    let mut options = OpenOptions::new();
    owner_only(options.write(true).create(true).truncate(true));
    options
}

/// Durability of written data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Durability {
    /// Synced before anything relies on the data.
    Durable,
    /// Removed with the process that wrote it, and never synced.
    Temporary,
}

impl Durability {
    /// Syncs a file if it must be durable.
    pub fn sync_file(self, file: &File) -> io::Result<()> {
        match self {
            Self::Durable => file.sync_all(),
            Self::Temporary => Ok(()),
        }
    }

    /// Syncs a directory if its entries must be durable.
    pub fn sync_directory(self, directory: &Path) -> Result<(), FormatError> {
        match self {
            Self::Durable => sync_directory(directory),
            Self::Temporary => Ok(()),
        }
    }
}

/// Returns the name of a file while it is incomplete.
pub fn partial_path(path: &Path) -> PathBuf {
    let mut name = OsString::from(path);
    name.push(".partial");
    name.into()
}

/// Makes renames, creations and removals in `directory` durable.
pub fn sync_directory(directory: &Path) -> Result<(), FormatError> {
    oboro_system::sync_directory(directory).map_err(io_error("sync the directory", directory))
}

/// Renames within one directory and syncs the directory.
pub fn rename_durably(from: &Path, to: &Path) -> Result<(), FormatError> {
    rename(from, to)?;
    sync_directory(parent(to))
}

/// Renames within one directory, without syncing it.
pub fn rename(from: &Path, to: &Path) -> Result<(), FormatError> {
    fs::rename(from, to).map_err(io_error("rename to", to))
}

/// Returns the directory of `path`.
pub fn parent(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    }
}

/// Replaces `path` atomically by `bytes`, readable by its owner only. After a power cut either file may be present
/// until the directory is synced.
pub fn replace(path: &Path, bytes: &[u8], durability: Durability) -> Result<(), FormatError> {
    replace_after(path, bytes, durability, |_| Ok(()))
}

/// As [`replace`], but keeps the owner, group and mode in `before`.
pub fn replace_keeping(
    path: &Path,
    bytes: &[u8],
    durability: Durability,
    before: &fs::Metadata,
) -> Result<(), FormatError> {
    replace_after(path, bytes, durability, |file| {
        copy_owner_and_mode(file, before)
    })
}

fn replace_after(
    path: &Path,
    bytes: &[u8],
    durability: Durability,
    prepare: impl FnOnce(&File) -> io::Result<()>,
) -> Result<(), FormatError> {
    let partial = partial_path(path);
    let write = || {
        let mut file = for_writing().open(&partial)?;
        file.write_all(bytes)?;
        prepare(&file)?;
        durability.sync_file(&file)
    };
    write().map_err(io_error("write", &partial))?;
    rename(&partial, path)
}

/// Creates a directory, which must not exist, that only its owner may enter.
pub fn create_private_directory(path: &Path) -> io::Result<()> {
    private_dir_builder().create(path)
}

/// Creates a private directory durably unless it exists.
pub fn ensure_directory(path: &Path) -> Result<(), FormatError> {
    private_dir_builder()
        .recursive(true)
        .create(path)
        .map_err(io_error("create", path))?;
    sync_directory(parent(path))
}

/// As [`ensure_directory`], including missing parents.
pub fn ensure_directories(path: &Path) -> Result<(), FormatError> {
    let missing = |directory: &&Path| !directory.as_os_str().is_empty() && !directory.is_dir();
    let missing: Vec<&Path> = path.ancestors().take_while(missing).collect();
    missing.into_iter().rev().try_for_each(ensure_directory)
}

/// Exclusive lock on a directory, released on drop. On Windows it locks only the lock file.
#[derive(Debug)]
pub struct Lock {
    _directory: Option<File>,
    _file: File,
}

/// Locks the lock file `path` and its directory. Errors name `holder`, and `what` describes it.
///
/// The lock on the directory is authoritative: if a lock file were removed, a second process could lock a new one. The
/// lock file serves older versions and file systems shared by several machines, which propagate locks on files only.
pub fn lock(path: &Path, holder: &Path, what: &str) -> Result<Lock, FormatError> {
    let taken = || FormatError::Locked {
        path: holder.into(),
        what: what.to_owned(),
    };
    let try_lock = |path: &Path, file: &File| match file.try_lock() {
        Ok(()) => Ok(()),
        Err(TryLockError::WouldBlock) => Err(taken()),
        Err(TryLockError::Error(source)) => Err(io_error("lock", path)(source)),
    };
    let within = parent(path);
    let directory = open_directory(within).map_err(io_error("open", within))?;
    if let Some(directory) = &directory {
        try_lock(within, directory)?;
        // The previous holder may have removed the directory and created another of the same name.
        let locked = directory.metadata().map(|it| file_id(&it));
        let named = fs::metadata(within).map(|it| file_id(&it));
        if !matches!((locked, named), (Ok(locked), Ok(named)) if locked == named) {
            return Err(taken());
        }
    }
    let file = for_writing()
        .truncate(false)
        .open(path)
        .map_err(io_error("open the lock file", path))?;
    try_lock(path, &file)?;
    Ok(Lock {
        _directory: directory,
        _file: file,
    })
}

/// Identity of a file and its content: it differs for another file, and after a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Identity {
    file: Option<FileId>,
    changed: (i64, i64),
    length: u64,
}

impl Identity {
    /// Returns the identity of the file at `path`, or `None` if the path does not exist.
    ///
    /// # Errors
    /// A path that cannot be inspected.
    pub fn of(path: &Path) -> Result<Option<Self>, FormatError> {
        let found = if_there(path, "look at", fs::metadata(path))?;
        Ok(found.map(|metadata| Self::from(&metadata)))
    }

    /// Returns the identity of an open file, which may have lost its name.
    ///
    /// # Errors
    /// A file that cannot be inspected.
    pub fn of_file(file: &File) -> io::Result<Self> {
        file.metadata().map(|metadata| Self::from(&metadata))
    }
}

impl From<&fs::Metadata> for Identity {
    fn from(metadata: &fs::Metadata) -> Self {
        Self {
            file: file_id(metadata),
            changed: changed_at(metadata),
            length: metadata.len(),
        }
    }
}

/// Returns `None` if an operation found nothing at `path`.
///
/// # Errors
/// Any other failure. A dangling link, at `path` or above it, is one: its target may be on an unmounted disk and does
/// not count as absent.
pub fn if_there<T>(
    path: &Path,
    action: &'static str,
    found: io::Result<T>,
) -> Result<Option<T>, FormatError> {
    match found {
        Ok(found) => Ok(Some(found)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let mut existing = path.ancestors();
            let link = existing.find_map(|it| Some((it, fs::symlink_metadata(it).ok()?)));
            match link {
                Some((link, metadata)) if metadata.is_symlink() && fs::metadata(link).is_err() => {
                    Err(FormatError::DanglingLink { path: link.into() })
                }
                _ => Ok(None),
            }
        }
        Err(error) => Err(io_error(action, path)(error)),
    }
}

/// Reads a file; `None` if it does not exist.
///
/// # Errors
/// A file that cannot be read, a dangling link.
pub fn read_if_there(path: &Path) -> Result<Option<Vec<u8>>, FormatError> {
    if_there(path, "read", fs::read(path))
}

/// Returns the length of a file; `None` if it does not exist.
///
/// # Errors
/// A path that cannot be inspected, a dangling link.
pub fn length_if_there(path: &Path) -> Result<Option<u64>, FormatError> {
    let found = if_there(path, "look at", fs::metadata(path))?;
    Ok(found.map(|metadata| metadata.len()))
}

/// Returns true if `path` exists, even as a dangling link.
pub fn exists(path: &Path) -> Result<bool, FormatError> {
    let found = if_there(path, "look at", fs::symlink_metadata(path))?;
    Ok(found.is_some())
}

/// Removes a file if it exists.
pub fn remove_if_there(path: &Path) -> Result<(), FormatError> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(io_error("remove", path)(error))
        }
        _ => Ok(()),
    }
}

/// Returns the names in a directory; empty if it does not exist.
pub fn names(directory: &Path) -> Result<Vec<String>, FormatError> {
    let Some(entries) = if_there(directory, "list", fs::read_dir(directory))? else {
        return Ok(Vec::new());
    };
    let mut names = Vec::new();
    for entry in entries {
        let name = entry.map_err(io_error("list", directory))?.file_name();
        // Skip names that are not text: Oboro never creates them.
        names.extend(name.into_string().ok());
    }
    Ok(names)
}

/// Removes a dataset's segment files, except those of `published` segments and the complete and partial files of a
/// `pending` upload, by number.
pub fn sweep(
    directory: &Path,
    published: &BTreeSet<u32>,
    pending: &BTreeSet<u32>,
) -> Result<(), FormatError> {
    for name in names(directory)? {
        let Some((number, extension)) = name.split_once('.') else {
            continue;
        };
        let Ok(number) = number.parse::<u32>() else {
            continue;
        };
        let pending = pending.contains(&number);
        let keep = match extension {
            "seg" => pending || published.contains(&number),
            "seg.partial" => pending,
            _ => true,
        };
        if !keep {
            remove_if_there(&directory.join(&name))?;
        }
    }
    sync_directory(directory)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::ErrorKind;
    use rustix::io::Errno;

    #[test]
    fn a_directory_is_taken_once_whatever_is_removed_from_it() {
        let directory = tempfile::tempdir().unwrap();
        let home = directory.path().join("home");
        fs::create_dir(&home).unwrap();
        let take = || lock(&home.join("lock"), &home, "directory");
        let taken = take().unwrap();
        assert!(matches!(take(), Err(FormatError::Locked { .. })));
        fs::remove_file(home.join("lock")).unwrap();
        assert!(matches!(take(), Err(FormatError::Locked { .. })));
        drop(taken);
        drop(take().unwrap());
    }

    #[test]
    fn transient_errors_are_distinguished_from_damage() {
        let kind = |errno: Errno| {
            let error = io::Error::from_raw_os_error(errno.raw_os_error());
            let error = io_error("open", Path::new("/srv/store/3.seg"))(error);
            assert!(!error.without_paths().contains("/srv"), "{error}");
            error.kind()
        };
        for errno in [Errno::MFILE, Errno::NFILE, Errno::ROFS] {
            assert_eq!(kind(errno), ErrorKind::Unavailable, "{errno}");
        }
        assert_eq!(kind(Errno::NOSPC), ErrorKind::DiskFull);
        assert_eq!(kind(Errno::IO), ErrorKind::Internal);
    }

    #[cfg(unix)]
    #[test]
    fn a_link_that_leads_nowhere_is_no_absent_file() {
        let directory = tempfile::tempdir().unwrap();
        let path = |name: &str| directory.path().join(name);
        assert_eq!(read_if_there(&path("file")).unwrap(), None);
        assert_eq!(read_if_there(&path("no/file")).unwrap(), None);
        std::os::unix::fs::symlink(path("unmounted"), path("link")).unwrap();
        for below in ["link", "link/file"] {
            let link = path(below);
            for error in [
                read_if_there(&link).unwrap_err(),
                length_if_there(&link).unwrap_err(),
                names(&link).unwrap_err(),
                Identity::of(&link).unwrap_err(),
            ] {
                assert!(
                    error.to_string().contains("link is a symbolic link"),
                    "{error}"
                );
                assert_eq!(error.kind(), ErrorKind::Unavailable);
            }
        }
        fs::create_dir(path("unmounted")).unwrap();
        assert_eq!(read_if_there(&path("link/file")).unwrap(), None);
        assert_eq!(names(&path("link")).unwrap(), [""; 0]);
    }

    #[test]
    fn trying_to_write_leaves_nothing() {
        let directory = tempfile::tempdir().unwrap();
        try_writing(directory.path()).unwrap();
        assert_eq!(names(directory.path()).unwrap(), [""; 0]);
        assert!(try_writing(&directory.path().join("gone")).is_err());
    }
}
