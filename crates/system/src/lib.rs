//! File operations that differ between operating systems: permissions, identity, positioned I/O, durability. Owners run
//! Linux, macOS or Windows; servers run Linux.
//!
//! Windows has no modes: its files are readable by the users of their directory, such as the owner of the profile it is
//! in.

mod identity;
#[cfg(unix)]
mod unix;
#[cfg(windows)]
mod windows;
#[cfg(not(target_os = "linux"))]
mod zeros;

pub use identity::{FileId, NotPrivate};
// Both modules export the same functions.
#[cfg(unix)]
pub use unix::*;
#[cfg(windows)]
pub use windows::*;
