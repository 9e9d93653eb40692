//! Requests to a reader.

use oboro_format::ReadError;
use std::fs::File;
use std::io;
use std::sync::Arc;

/// A request to a thread of the reader.
pub(crate) enum Work {
    Read(Read),
    Expand(Expand),
}

/// A panel that is computed without reading anything.
pub(crate) struct Expand {
    /// As for [`Read`].
    pub(crate) is_wanted: Box<dyn Fn() -> bool + Send>,
    /// Computes it, on a thread of the reader, or is told that there is none.
    pub(crate) then: Box<dyn FnOnce(io::Result<()>) + Send>,
}

/// A request for a part of a file.
pub(crate) struct Read {
    /// Opens the file, on a thread of the reader when a buffer is free: requests that wait have no descriptor.
    pub(crate) open: Box<dyn FnOnce() -> Result<Arc<File>, ReadError> + Send>,
    /// A multiple of 4096, and so is `len`, if the file is opened for direct I/O.
    pub(crate) offset: u64,
    /// At most the size of a buffer.
    pub(crate) len: usize,
    /// Called on a thread of the reader when a buffer is free: what nobody wants any more is not read, and `then` is
    /// dropped.
    pub(crate) is_wanted: Box<dyn Fn() -> bool + Send>,
    /// Called on a thread of the reader with the complete bytes. They are lent: the buffer is reused when this returns.
    pub(crate) then: Then,
}

/// Takes the bytes, or the error.
pub(crate) type Then = Box<dyn FnOnce(Result<&[u8], ReadError>) + Send>;

/// A request whose file is open, as long as this exists.
pub(super) struct Begun {
    pub(super) file: Arc<File>,
    pub(super) offset: u64,
    pub(super) len: usize,
    pub(super) then: Then,
}
