//! Files where operating systems differ: permissions, identity, positioned I/O, durability. Owners have Linux, macOS or
//! Windows; servers have Linux.
//!
//! Windows has no modes: a file there is for those whom its directory is for, such as the user whose profile it is in.

mod identity;
#[cfg(unix)]
mod unix;
#[cfg(windows)]
mod windows;
#[cfg(not(target_os = "linux"))]
mod zeros;

pub use identity::{FileId, NotPrivate};
// Either has the same functions.
#[cfg(unix)]
pub use unix::*;
#[cfg(windows)]
pub use windows::*;
