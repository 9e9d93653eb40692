//! Linux and macOS.

use crate::{FileId, NotPrivate};
use rustix::io::Errno;
use rustix::process::{Resource, geteuid, getrlimit};
use std::fs::{DirBuilder, File, Metadata, OpenOptions, Permissions};
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::{
    DirBuilderExt, FileExt, FileTypeExt, MetadataExt, OpenOptionsExt, PermissionsExt, fchown,
};
use std::path::Path;

/// Has files made with these options be for this user only.
pub fn owner_only(options: &mut OpenOptions) -> &mut OpenOptions {
    options.mode(0o600)
}

/// Makes directories that are for this user only.
pub fn private_dir_builder() -> DirBuilder {
    let mut directories = DirBuilder::new();
    directories.mode(0o700);
    directories
}

/// Has temporary files and directories be made with a mode.
pub fn with_mode<'a, 'b>(
    mode: u32,
    temporary: &'a mut tempfile::Builder<'b, 'b>,
) -> &'a mut tempfile::Builder<'b, 'b> {
    temporary.permissions(Permissions::from_mode(mode))
}

/// Has an open file be for this user only; on Windows nothing.
///
/// # Errors
/// It belongs to another user.
pub fn make_private(file: &File) -> io::Result<()> {
    file.set_permissions(Permissions::from_mode(0o600))
}

/// Checks that a file belongs to this process's effective user and that nobody else can read or write it. Devices, such
/// as a terminal, pass.
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

/// Whether anyone but this user and root may write a file: its group or the world may, or a third user owns it. Never on
/// Windows.
pub fn others_can_write(file: &Metadata) -> bool {
    file.mode() & 0o022 != 0 || ![0, geteuid().as_raw()].contains(&file.uid())
}

/// Gives a file the owner, the group and the mode of another one; on Windows nothing.
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

/// Which file this is; `None` if the system does not say.
pub fn file_id(file: &Metadata) -> Option<FileId> {
    Some(FileId {
        volume: file.dev(),
        number: file.ino(),
    })
}

/// A stamp to compare for equality: the time of the last change of the inode, in seconds and nanoseconds; on Windows that of the last
/// write, in 100 ns, and 0.
pub fn changed_at(file: &Metadata) -> (i64, i64) {
    (file.ctime(), file.ctime_nsec())
}

/// Standard output without a buffer.
pub fn unbuffered_stdout() -> io::Result<File> {
    Ok(io::stdout().as_fd().try_clone_to_owned()?.into())
}

/// Whether this is a pipe or a socket.
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

/// Makes renames, creations and removals in a directory durable; on Windows nothing, where the file system's journal keeps their order.
///
/// # Errors
/// No such directory, a disk that fails.
pub fn sync_directory(directory: &Path) -> io::Result<()> {
    File::open(directory)?.sync_all()
}

/// Opens a directory, to lock it.
pub fn open_directory(directory: &Path) -> io::Result<Option<File>> {
    File::open(directory).map(Some)
}

/// The free bytes of the file system of a path; `None` if it does not say.
pub fn free_bytes(path: &Path) -> Option<u64> {
    let about = rustix::fs::statvfs(path).ok()?;
    (about.f_blocks > 0).then(|| about.f_bavail.saturating_mul(about.f_frsize))
}

/// Whether this process, or the system, has as many files open as it may.
pub fn is_out_of_descriptors(error: &io::Error) -> bool {
    let exhausted = [Errno::MFILE, Errno::NFILE].map(|errno| Some(errno.raw_os_error()));
    exhausted.contains(&error.raw_os_error())
}

/// Whether a device failed.
pub fn is_device_error(error: &io::Error) -> bool {
    error.raw_os_error() == Some(Errno::IO.raw_os_error())
}

/// How many files this process may have open; `None` if there is no limit.
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

/// Opens an open file once more, for reading past the system's cache.
///
/// # Errors
/// A system or a file system without such reads.
#[cfg(target_os = "linux")]
pub fn open_direct(file: &File) -> io::Result<File> {
    use std::os::fd::AsRawFd;
    let flags = rustix::fs::OFlags::DIRECT.bits() as i32;
    let path = format!("/proc/self/fd/{}", file.as_raw_fd());
    File::options().read(true).custom_flags(flags).open(path)
}

/// See that of Linux.
#[cfg(not(target_os = "linux"))]
pub fn open_direct(_file: &File) -> io::Result<File> {
    Err(io::ErrorKind::Unsupported.into())
}

/// Makes a file at least `bytes` bytes long, with space for all of them.
///
/// # Errors
/// There is no space.
#[cfg(target_os = "linux")]
pub fn preallocate(file: &File, bytes: u64) -> io::Result<()> {
    rustix::fs::fallocate(file, rustix::fs::FallocateFlags::empty(), 0, bytes)?;
    Ok(())
}

/// See that of Linux.
#[cfg(not(target_os = "linux"))]
pub fn preallocate(file: &File, bytes: u64) -> io::Result<()> {
    crate::extend_with_zeros(file, bytes)
}
