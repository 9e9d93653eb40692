//! File operations that need care: durable writes, renames, locks, sweeps.
//!
//! A rename is durable only after its directory is synced; every function here that renames also
//! does that. Errors name the path; a full disk is reported as such.

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

/// Whether files in `directory` can be made, written and removed, durably: tries it with one named `.probe`.
///
/// # Errors
/// The disk does not take it, with the cause.
pub fn try_writing(directory: &Path) -> Result<(), FormatError> {
    let probe = directory.join(".probe");
    let write = || {
        let mut file = for_writing().open(&probe)?;
        file.write_all(b"writable")?;
        file.sync_all()
    };
    let written = write().map_err(io_error("write", &probe));
    // Also what a full disk took none of.
    written.and(remove_if_there(&probe))?;
    sync_directory(directory)
}

/// The free bytes of the file system where `path` is, or will be; `None` if it does not say.
pub fn free_bytes(path: &Path) -> Option<u64> {
    let there = path.ancestors().find(|it| it.exists());
    let there = there.unwrap_or(Path::new("."));
    oboro_system::free_bytes(there)
}

/// Opens a file for writing and empties it; one that is not there is made, for this user only.
fn for_writing() -> OpenOptions {
    let mut options = OpenOptions::new();
    owner_only(options.write(true).create(true).truncate(true));
    options
}

/// Whether written data survive a power cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Durability {
    /// They are synced before anything relies on them.
    Durable,
    /// They are removed with the process that wrote them, and are not synced.
    Temporary,
}

impl Durability {
    /// Syncs a file that must be durable.
    pub fn sync_file(self, file: &File) -> io::Result<()> {
        match self {
            Self::Durable => file.sync_all(),
            Self::Temporary => Ok(()),
        }
    }

    /// Syncs a directory whose entries must be durable.
    pub fn sync_directory(self, directory: &Path) -> Result<(), FormatError> {
        match self {
            Self::Durable => sync_directory(directory),
            Self::Temporary => Ok(()),
        }
    }
}

/// The name under which a file is written before it is complete.
pub fn partial_path(path: &Path) -> PathBuf {
    let mut name = OsString::from(path);
    name.push(".partial");
    name.into()
}

/// Makes renames, creations and removals in `directory` durable.
pub fn sync_directory(directory: &Path) -> Result<(), FormatError> {
    oboro_system::sync_directory(directory).map_err(io_error("sync the directory", directory))
}

/// Renames within one directory and makes that durable.
pub fn rename_durably(from: &Path, to: &Path) -> Result<(), FormatError> {
    rename(from, to)?;
    sync_directory(parent(to))
}

/// Renames within one directory.
pub fn rename(from: &Path, to: &Path) -> Result<(), FormatError> {
    fs::rename(from, to).map_err(io_error("rename to", to))
}

/// The directory that holds `path`.
pub fn parent(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    }
}

/// Replaces `path` by `bytes`, readable by its owner only: the old file or the new one,
/// whatever happens. Which one after a power cut is open until the directory is synced.
pub fn replace(path: &Path, bytes: &[u8], durability: Durability) -> Result<(), FormatError> {
    replace_after(path, bytes, durability, |_| Ok(()))
}

/// The same for a file that `before` describes: its owner, its group and its mode stay.
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

/// Creates a directory that only its owner may enter. It must not exist.
pub fn create_private_directory(path: &Path) -> io::Result<()> {
    private_dir_builder().create(path)
}

/// Creates such a directory unless it exists, and makes that durable.
pub fn ensure_directory(path: &Path) -> Result<(), FormatError> {
    private_dir_builder()
        .recursive(true)
        .create(path)
        .map_err(io_error("create", path))?;
    sync_directory(parent(path))
}

/// The same for a directory and all that is missing above it.
pub fn ensure_directories(path: &Path) -> Result<(), FormatError> {
    let missing = |directory: &&Path| !directory.as_os_str().is_empty() && !directory.is_dir();
    let missing: Vec<&Path> = path.ancestors().take_while(missing).collect();
    missing.into_iter().rev().try_for_each(ensure_directory)
}

/// A directory that no other process may have, until this is dropped. On Windows only its lock file is locked.
#[derive(Debug)]
pub struct Lock {
    _directory: Option<File>,
    _file: File,
}

/// Takes the directory that the lock file `path` is in, and that file. `holder` and `what` are for the error: which
/// directory or file is in use.
///
/// The lock of the directory itself counts: a file that is removed would let a second process in. The file is for file
/// systems of several machines, which tell each other of locks on files only, and for programs before this one.
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
        // Whoever had it may have removed it, and made another one of the name.
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

/// What a file has while it is the same one with the same bytes: another file, or a change, gives another one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Identity {
    file: Option<FileId>,
    changed: (i64, i64),
    length: u64,
}

impl Identity {
    /// `None` where no file has the name.
    ///
    /// # Errors
    /// A path that cannot be looked at.
    pub fn of(path: &Path) -> Result<Option<Self>, FormatError> {
        let found = if_there(path, "look at", fs::metadata(path))?;
        Ok(found.map(|metadata| Self::from(&metadata)))
    }

    /// Of an open file, whether it still has its name or not.
    ///
    /// # Errors
    /// A file that cannot be looked at.
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

/// Returns `None` where an operation found nothing at `path`.
///
/// # Errors
/// Any other failure. A link that leads nowhere, at `path` or above it, is one: what it leads to may be on a disk that is
/// not mounted, and is not absent.
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

/// Reads a file; `None` if there is none.
///
/// # Errors
/// A file that cannot be read, a link that leads nowhere.
pub fn read_if_there(path: &Path) -> Result<Option<Vec<u8>>, FormatError> {
    if_there(path, "read", fs::read(path))
}

/// Returns the length of a file; `None` if there is none.
///
/// # Errors
/// A path that cannot be looked at, a link that leads nowhere.
pub fn length_if_there(path: &Path) -> Result<Option<u64>, FormatError> {
    let found = if_there(path, "look at", fs::metadata(path))?;
    Ok(found.map(|metadata| metadata.len()))
}

/// Whether anything exists at `path`, be it a dangling link.
pub fn exists(path: &Path) -> Result<bool, FormatError> {
    let found = if_there(path, "look at", fs::symlink_metadata(path))?;
    Ok(found.is_some())
}

/// Removes a file; a missing one is fine.
pub fn remove_if_there(path: &Path) -> Result<(), FormatError> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(io_error("remove", path)(error))
        }
        _ => Ok(()),
    }
}

/// The names in a directory; none if it does not exist.
pub fn names(directory: &Path) -> Result<Vec<String>, FormatError> {
    let Some(entries) = if_there(directory, "list", fs::read_dir(directory))? else {
        return Ok(Vec::new());
    };
    let mut names = Vec::new();
    for entry in entries {
        let name = entry.map_err(io_error("list", directory))?.file_name();
        // Names that are not text are not ours.
        names.extend(name.into_string().ok());
    }
    Ok(names)
}

/// Removes the segment files in the directory of a dataset, except those of `published` segments and the complete and
/// partial ones of a `pending` upload, by number.
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
    fn what_passes_is_told_from_damage() {
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
