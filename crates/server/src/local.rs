//! In-process server: its calls arrive over streams in memory instead of a socket.

use crate::error::ServeError;
use crate::limits::Limits;
use crate::listen::Services;
use crate::options::Options;
use oboro_edge::{AcceptedStream, ConnectionLimits};
use oboro_store::Access;
use std::future::pending;
use std::io;
use std::num::NonZero;
use std::time::Duration;
use tokio::io::{DuplexStream, duplex};
use tokio::runtime::{Builder, Runtime};
use tokio::sync::mpsc;
use tokio_stream::StreamExt;
use tokio_stream::wrappers::UnboundedReceiverStream;

/// Timeout that is never reached: connections do not compete here.
const FOR_EVER: Duration = Duration::from_secs(365 * 24 * 60 * 60);
/// Bytes buffered in either direction of a stream.
const BUFFER: usize = 1 << 20;

/// Server on its own threads. Dropping it cancels calls in flight, ends its threads and syncs its data.
pub struct Local {
    streams: mpsc::UnboundedSender<DuplexStream>,
    access: Access,
    /// Dropping it stops the server.
    _runtime: Runtime,
}

/// Opens streams to a server in this process.
#[derive(Clone)]
pub struct Connector(mpsc::UnboundedSender<DuplexStream>);

impl Local {
    /// Starts a server that only this process can call: `listen`, `tls` and `tokens` are ignored.
    ///
    /// # Errors
    /// Too many threads, a store in use or unreadable, a memory budget that leaves nothing for ciphertext.
    pub fn start(options: Options) -> Result<Self, ServeError> {
        let runtime = Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .map_err(|source| ServeError::Threads {
                threads: NonZero::<usize>::MIN,
                source,
            })?;
        let answering = Services::open(Options {
            tls: None,
            tokens: None,
            limits: Limits {
                connections: ConnectionLimits {
                    handshake: FOR_EVER,
                    idle: FOR_EVER,
                    ..options.limits.connections
                },
                calls_per_second: u32::MAX,
                ..options.limits
            },
            ..options
        })?;
        let access = answering.access();
        let (streams, incoming) = mpsc::unbounded_channel();
        let incoming = UnboundedReceiverStream::new(incoming).map(|stream: DuplexStream| {
            Ok(AcceptedStream {
                stream: Box::new(stream),
                peer: None,
            })
        });
        runtime.spawn(answering.serve(incoming, None, pending()));
        Ok(Self {
            streams,
            access,
            _runtime: runtime,
        })
    }

    /// Returns a connector to it.
    pub fn connector(&self) -> Connector {
        Connector(self.streams.clone())
    }

    /// Returns access to its datasets.
    pub fn access(&self) -> Access {
        self.access.clone()
    }
}

impl Connector {
    /// Opens a stream, which the server treats as a socket.
    ///
    /// # Errors
    /// The server has stopped.
    pub fn connect(&self) -> io::Result<DuplexStream> {
        let (near, far) = duplex(BUFFER);
        self.0.send(far).map_err(|_| {
            let gone = "the server within this process has been stopped";
            io::Error::new(io::ErrorKind::ConnectionRefused, gone)
        })?;
        Ok(near)
    }
}
