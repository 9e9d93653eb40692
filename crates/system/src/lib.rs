//! File operations that differ between operating systems: permissions, identity, positioned I/O, durability. Owners run
//! Linux, macOS or Windows; servers run Linux.
//!
//! Windows has no modes: its files are readable by the users of their directory, such as the owner of the profile it is
//! in.

#[cfg(unix)]
mod unix;
#[cfg(windows)]
mod windows;

// Both modules export the same functions.
#[cfg(unix)]
pub use unix::*;
#[cfg(windows)]
pub use windows::*;

/// Reason why other users may access a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NotPrivate {
    /// Mode that lets others read or write the file.
    Mode(u32),
    /// Owner other than this process's user.
    Owner {
        /// User who owns the file.
        owner: u32,
        /// User of this process.
        user: u32,
    },
}

/// Identity of a file, independent of its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileId {
    volume: u64,
    number: u64,
}

/// Extends a file to `bytes` bytes by writing zeros, which allocates the space; leaves a longer one unchanged.
#[cfg(not(target_os = "linux"))]
fn extend_with_zeros(file: &std::fs::File, bytes: u64) -> std::io::Result<()> {
    const ZEROS: &[u8] = &[0; 1 << 16];
    let mut length = file.metadata()?.len();
    while length < bytes {
        let now = (bytes - length).min(ZEROS.len() as u64);
        write_all_at(file, &ZEROS[..now as usize], length)?;
        length += now;
    }
    Ok(())
}
