//! Files where operating systems differ: permissions, identity, positioned I/O, durability. Owners have Linux, macOS or
//! Windows; servers have Linux.
//!
//! Windows has no modes: a file there is for those whom its directory is for, such as the user whose profile it is in.

#[cfg(unix)]
mod unix;
#[cfg(windows)]
mod windows;

// Either has the same functions.
#[cfg(unix)]
pub use unix::*;
#[cfg(windows)]
pub use windows::*;

/// Why a file is not for this process's user alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NotPrivate {
    /// Its mode lets others read or write it.
    Mode(u32),
    /// It belongs to another user.
    Owner {
        /// Whose it is.
        owner: u32,
        /// Whose this process is.
        user: u32,
    },
}

/// What a file has while it is the same one, under whatever name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileId {
    volume: u64,
    number: u64,
}

/// Extends a file to `bytes` bytes by writing zeros, so that space for them is taken; a longer one is unchanged.
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
