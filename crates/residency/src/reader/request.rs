//! Requests to a reader.

use oboro_format::ReadError;
use std::fs::File;
use std::io;
use std::sync::Arc;

/// Request to a reader thread.
pub(crate) enum Work {
    Read(Read),
    Expand(Expand),
}

/// Panel that is computed without reading anything.
pub(crate) struct Expand {
    /// As for [`Read`].
    pub(crate) is_wanted: Box<dyn Fn() -> bool + Send>,
    /// Computes the panel on a reader thread, or receives the error if no thread runs.
    pub(crate) then: Box<dyn FnOnce(io::Result<()>) + Send>,
}

/// Request for a part of a file.
pub(crate) struct Read {
    /// Opens the file on a reader thread when a buffer is free: waiting requests have no descriptor.
    pub(crate) open: Box<dyn FnOnce() -> Result<Arc<File>, ReadError> + Send>,
    /// Offset: a multiple of 4096, as is `len`, if the file is opened for direct I/O.
    pub(crate) offset: u64,
    /// Length, at most the size of a buffer.
    pub(crate) len: usize,
    /// Called on a reader thread when a buffer is free; if it returns false, nothing is read and `then` is dropped.
    pub(crate) is_wanted: Box<dyn Fn() -> bool + Send>,
    /// Called on a reader thread with the complete bytes, which are lent: the buffer is reused when it returns.
    pub(crate) then: Then,
}

/// Callback that receives the bytes, or the error.
pub(crate) type Then = Box<dyn FnOnce(Result<&[u8], ReadError>) + Send>;

/// Request with an open file, which is closed when this is dropped.
pub(super) struct Begun {
    pub(super) file: Arc<File>,
    pub(super) offset: u64,
    pub(super) len: usize,
    pub(super) then: Then,
}
