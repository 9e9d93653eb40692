//! Graceful close of connections, without losing the last bytes.
//!
//! Closing a socket with unread bytes in it (a window update is enough) resets it, and the caller loses what it has not
//! received yet. After its last byte a connection therefore shuts down its sending side and waits until the caller has
//! closed the other.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::{Sleep, sleep};

/// Time after which the connection is closed even if the caller has not closed its side.
const IDLE_TIMEOUT: Duration = Duration::from_secs(5);

/// Connection that lingers when it is shut down.
pub(crate) struct LingeringConnection {
    stream: TcpStream,
    /// Set once all has been written.
    idle_timeout: Option<Pin<Box<Sleep>>>,
}

impl LingeringConnection {
    pub(crate) fn new(stream: TcpStream) -> Self {
        Self {
            stream,
            idle_timeout: None,
        }
    }
}

impl AsyncRead for LingeringConnection {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl AsyncWrite for LingeringConnection {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(context, bytes)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.idle_timeout.is_none() {
            ready!(Pin::new(&mut self.stream).poll_shutdown(context))?;
            self.idle_timeout = Some(Box::pin(sleep(IDLE_TIMEOUT)));
        }
        let Self {
            stream,
            idle_timeout,
        } = &mut *self;
        let idle_timeout = idle_timeout.as_mut().expect("set above");
        if idle_timeout.as_mut().poll(context).is_ready() {
            return Poll::Ready(Ok(()));
        }
        let mut scratch = [0; 4096];
        loop {
            let mut buffer = ReadBuf::new(&mut scratch);
            match ready!(Pin::new(&mut *stream).poll_read(context, &mut buffer)) {
                Ok(()) if !buffer.filled().is_empty() => {}
                // Closed or reset: no peer is left to wait for.
                _ => return Poll::Ready(Ok(())),
            }
        }
    }
}
