//! Linux and macOS implementations.

use crate::identity::{FileId, NotPrivate};
use rustix::io::Errno;
use rustix::process::{Resource, geteuid, getrlimit};
use std::fs::{DirBuilder, File, Metadata, OpenOptions, Permissions};
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::{
    DirBuilderExt, FileExt, FileTypeExt, MetadataExt, OpenOptionsExt, PermissionsExt, fchown,
};
use std::path::Path;

/// Restricts files created with these options to this user.
pub fn owner_only(options: &mut OpenOptions) -> &mut OpenOptions {
    options.mode(0o600)
}

/// Returns a builder of directories that only this user may access.
pub fn private_dir_builder() -> DirBuilder {
    let mut directories = DirBuilder::new();
    directories.mode(0o700);
    directories
}

/// Sets the mode of temporary files and directories.
pub fn with_mode<'a, 'b>(
    mode: u32,
    temporary: &'a mut tempfile::Builder<'b, 'b>,
) -> &'a mut tempfile::Builder<'b, 'b> {
    temporary.permissions(Permissions::from_mode(mode))
}

/// Restricts an open file to this user; does nothing on Windows.
///
/// # Errors
/// It belongs to another user.
pub fn make_private(file: &File) -> io::Result<()> {
    file.set_permissions(Permissions::from_mode(0o600))
}

/// Checks that a file belongs to this process's effective user and that no other user can read or write it. Devices,
/// such as a terminal, pass.
pub fn check_private(file: &Metadata) -> Result<(), NotPrivate> {
    if file.file_type().is_char_device() {
        return Ok(());
    }
    let user = geteuid().as_raw();
    if file.uid() != user {
        let owner = file.uid();
        return Err(NotPrivate::Owner { owner, user });
    }
    match file.mode() & 0o777 {
        mode if mode & 0o077 != 0 => Err(NotPrivate::Mode(mode)),
        _ => Ok(()),
    }
}

/// Returns true if a user other than this one and root may write a file: by its group or world mode, or as its owner.
/// Always false on Windows.
pub fn others_can_write(file: &Metadata) -> bool {
    file.mode() & 0o022 != 0 || ![0, geteuid().as_raw()].contains(&file.uid())
}

/// Copies owner, group and mode of another file; does nothing on Windows.
///
/// # Errors
/// This user may not give the file away.
pub fn copy_owner_and_mode(file: &File, before: &Metadata) -> io::Result<()> {
    let made = file.metadata()?;
    if (made.uid(), made.gid()) != (before.uid(), before.gid()) {
        fchown(file, Some(before.uid()), Some(before.gid()))?;
    }
    file.set_permissions(before.permissions())
}

/// Returns the identity of a file; `None` if the system does not report it.
pub fn file_id(file: &Metadata) -> Option<FileId> {
    Some(FileId {
        volume: file.dev(),
        number: file.ino(),
    })
}

/// Returns a stamp to compare for equality: the time of the inode's last change, in seconds and nanoseconds. On Windows
/// it is the time of the last write, in 100 ns, and 0.
pub fn changed_at(file: &Metadata) -> (i64, i64) {
    (file.ctime(), file.ctime_nsec())
}

/// Returns standard output without a buffer.
pub fn unbuffered_stdout() -> io::Result<File> {
    Ok(io::stdout().as_fd().try_clone_to_owned()?.into())
}

/// Returns true if the file is a pipe or a socket.
pub fn is_pipe(file: &File) -> io::Result<bool> {
    let kind = file.metadata()?.file_type();
    Ok(kind.is_fifo() || kind.is_socket())
}

/// Fills `out` with the bytes from `offset` on.
pub fn read_exact_at(file: &File, out: &mut [u8], offset: u64) -> io::Result<()> {
    file.read_exact_at(out, offset)
}

/// Writes `bytes` from `offset` on.
pub fn write_all_at(file: &File, bytes: &[u8], offset: u64) -> io::Result<()> {
    file.write_all_at(bytes, offset)
}

/// Makes renames, creations and removals in a directory durable. Does nothing on Windows, where the file system's
/// journal keeps their order.
///
/// # Errors
/// The directory does not exist, or its disk fails.
pub fn sync_directory(directory: &Path) -> io::Result<()> {
    File::open(directory)?.sync_all()
}

/// Opens a directory to lock it.
pub fn open_directory(directory: &Path) -> io::Result<Option<File>> {
    File::open(directory).map(Some)
}

/// Number of free bytes in the file system of a path; `None` if it does not report it.
pub fn free_bytes(path: &Path) -> Option<u64> {
    let about = rustix::fs::statvfs(path).ok()?;
    (about.f_blocks > 0).then(|| about.f_bavail.saturating_mul(about.f_frsize))
}

/// Returns true if this process, or the system, cannot open more files.
pub fn is_out_of_descriptors(error: &io::Error) -> bool {
    let exhausted = [Errno::MFILE, Errno::NFILE].map(|errno| Some(errno.raw_os_error()));
    exhausted.contains(&error.raw_os_error())
}

/// Returns true if a device failed.
pub fn is_device_error(error: &io::Error) -> bool {
    error.raw_os_error() == Some(Errno::IO.raw_os_error())
}

/// Number of files that this process may have open; `None` if unlimited.
pub fn descriptor_limit() -> Option<u64> {
    getrlimit(Resource::Nofile).current
}

/// Asks the system to drop bytes of a file from its cache. Systems may decline.
pub fn forget_cached(file: &File, start: u64, bytes: u64) {
    #[cfg(target_os = "linux")]
    {
        use rustix::fs::{Advice, fadvise};
        let _ = fadvise(file, start, std::num::NonZero::new(bytes), Advice::DontNeed);
    }
    #[cfg(not(target_os = "linux"))]
    let _ = (file, start, bytes);
}

/// Reopens a file for reads that bypass the system's cache.
///
/// # Errors
/// The system or the file system has no such reads.
#[cfg(target_os = "linux")]
pub fn open_direct(file: &File) -> io::Result<File> {
    use std::os::fd::AsRawFd;
    let flags = rustix::fs::OFlags::DIRECT.bits() as i32;
    let path = format!("/proc/self/fd/{}", file.as_raw_fd());
    File::options().read(true).custom_flags(flags).open(path)
}

/// Fails: only Linux has such reads here.
#[cfg(not(target_os = "linux"))]
pub fn open_direct(_file: &File) -> io::Result<File> {
    Err(io::ErrorKind::Unsupported.into())
}

/// Makes a file at least `bytes` bytes long and allocates the space.
///
/// # Errors
/// The file system is full.
#[cfg(target_os = "linux")]
pub fn preallocate(file: &File, bytes: u64) -> io::Result<()> {
    rustix::fs::fallocate(file, rustix::fs::FallocateFlags::empty(), 0, bytes)?;
    Ok(())
}

/// Makes a file at least `bytes` bytes long by writing zeros.
#[cfg(not(target_os = "linux"))]
pub fn preallocate(file: &File, bytes: u64) -> io::Result<()> {
    crate::zeros::extend_with_zeros(file, bytes, write_all_at)
}
