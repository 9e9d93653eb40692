//! Ring of requests (`io_uring`) and the buffers that they fill.

#![allow(unsafe_code)]

use super::request::{Begun, Then};
use io_uring::{IoUring, Probe, opcode, types};
use oboro_arena::ArenaBlock;
use std::io;
use std::os::fd::AsRawFd;

/// Requests in flight of one thread, at most one per buffer.
pub(super) struct Ring {
    ring: IoUring,
    /// `true` if the buffers are registered with the kernel, by index.
    are_registered: bool,
    buffers: Vec<ArenaBlock>,
    /// Request that fills each buffer.
    begun: Vec<Option<InFlightRead>>,
    free: Vec<usize>,
}

struct InFlightRead {
    /// Request, whose file stays open until the bytes have arrived.
    request: Begun,
    /// Number of bytes that have arrived.
    done: usize,
}

impl Ring {
    /// Creates a ring with these buffers.
    ///
    /// # Errors
    ///
    /// A kernel without rings, or one that denies this process rings or one of their operations.
    pub(super) fn new(mut buffers: Vec<ArenaBlock>) -> io::Result<Self> {
        let mut ring = IoUring::new(buffers.len() as u32)?;
        try_out(&mut ring)?;
        let vectors: Vec<libc::iovec> = buffers
            .iter_mut()
            .map(|buffer| {
                let bytes = buffer.bytes_mut();
                libc::iovec {
                    iov_base: bytes.as_mut_ptr().cast(),
                    iov_len: bytes.len(),
                }
            })
            .collect();
        // SAFETY: the buffers live as long as the ring, in one place, and are written by the kernel only
        // between the beginning and the arrival of a request, when no other code accesses them.
        let registered = unsafe { ring.submitter().register_buffers(&vectors) };
        if registered.is_err() {
            let mut probe = Probe::new();
            ring.submitter().register_probe(&mut probe)?;
            if !probe.is_supported(opcode::Read::CODE) {
                return Err(io::ErrorKind::Unsupported.into());
            }
        }
        Ok(Self {
            ring,
            are_registered: registered.is_ok(),
            begun: buffers.iter().map(|_| None).collect(),
            free: (0..buffers.len()).collect(),
            buffers,
        })
    }

    /// Returns true if a buffer is free.
    pub(super) fn has_capacity(&self) -> bool {
        !self.free.is_empty()
    }

    /// Returns true if nothing is in flight.
    pub(super) fn is_idle(&self) -> bool {
        self.free.len() == self.buffers.len()
    }

    /// Starts a request, for which a buffer must be free.
    pub(super) fn begin(&mut self, request: Begun) {
        let fits = |buffer: &ArenaBlock| request.len <= buffer.bytes().len();
        assert!(self.buffers.iter().all(fits), "a request fits a buffer");
        let buffer = self.free.pop().expect("a buffer is free");
        self.begun[buffer] = Some(InFlightRead { request, done: 0 });
        self.ask(buffer);
    }

    /// Requests the missing rest of a buffer.
    fn ask(&mut self, buffer: usize) {
        let begun = self.begun[buffer].as_ref().expect("it was begun");
        let bytes = &mut self.buffers[buffer].bytes_mut()[begun.done..begun.request.len];
        let file = types::Fd(begun.request.file.as_raw_fd());
        let (to, len) = (bytes.as_mut_ptr(), bytes.len() as u32);
        let offset = begun.request.offset + begun.done as u64;
        let entry = if self.are_registered {
            opcode::ReadFixed::new(file, to, len, buffer as u16)
                .offset(offset)
                .build()
        } else {
            opcode::Read::new(file, to, len).offset(offset).build()
        };
        let entry = entry.user_data(buffer as u64);
        // SAFETY: the file is kept open in `begun` and the buffer belongs to the kernel until the request
        // has arrived: both are dropped only when the ring is idle, see `Drop`.
        let pushed = unsafe { self.ring.submission().push(&entry) };
        pushed.expect("the ring has an entry for each buffer");
    }

    /// Submits the started requests.
    pub(super) fn submit(&mut self) {
        // Entries that the kernel does not accept now go with the next submission.
        let _ = self.ring.submit();
    }

    /// Submits the started requests and waits for a completion; may return earlier.
    pub(super) fn wait(&mut self) {
        // A signal interrupts the wait. If the kernel lacks memory, completions must be taken first: the caller does so
        // and waits again.
        if self.ring.submit_and_wait(1).is_err() {
            std::thread::yield_now();
        }
    }

    /// Returns a completed request with its bytes, which are valid until the next call.
    pub(super) fn arrived(&mut self) -> Option<(Then, io::Result<&[u8]>)> {
        loop {
            let entry = self.ring.completion().next()?;
            let buffer = entry.user_data() as usize;
            let begun = self.begun[buffer].as_mut().expect("it was begun");
            let ended = match entry.result() {
                0 => Err(io::ErrorKind::UnexpectedEof.into()),
                more if more > 0 => {
                    begun.done += more as usize;
                    Ok(begun.done == begun.request.len)
                }
                error => match io::Error::from_raw_os_error(-error) {
                    again if is_passing(&again) => Ok(false),
                    error => Err(error),
                },
            };
            if let Ok(false) = ended {
                self.ask(buffer);
                continue;
            }
            let Begun { len, then, .. } = self.begun[buffer].take()?.request;
            self.free.push(buffer);
            let bytes = &self.buffers[buffer].bytes()[..len];
            return Some((then, ended.map(|_| bytes)));
        }
    }
}

/// Submits a no-op: some processes may create a ring but not use it.
fn try_out(ring: &mut IoUring) -> io::Result<()> {
    let nothing = opcode::Nop::new().build();
    // SAFETY: a no-op refers to no memory.
    let pushed = unsafe { ring.submission().push(&nothing) };
    pushed.expect("a ring has room for one");
    while let Err(error) = ring.submit_and_wait(1) {
        if error.kind() != io::ErrorKind::Interrupted {
            return Err(error);
        }
    }
    match ring.completion().next() {
        Some(_) => Ok(()),
        None => Err(io::ErrorKind::Unsupported.into()),
    }
}

fn is_passing(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::Interrupted | io::ErrorKind::WouldBlock
    )
}

impl Drop for Ring {
    fn drop(&mut self) {
        // The kernel must not write into buffers that were freed.
        while !self.is_idle() {
            self.wait();
            while self.arrived().is_some() {}
        }
    }
}
