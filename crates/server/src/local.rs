//! A server for the process that it is in: its calls come over streams in memory, from no socket.

use crate::connections::Accepted;
use crate::error::ServeError;
use crate::limits::{ConnectionLimits, Limits};
use crate::listen::Answering;
use crate::options::Options;
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

/// Nobody else waits for a connection.
const FOR_EVER: Duration = Duration::from_secs(365 * 24 * 60 * 60);
/// Bytes buffered in either direction of a stream.
const BUFFER: usize = 1 << 20;

/// A server on its own threads. When it is dropped, calls in flight are cancelled, its threads end, and its data are at
/// rest.
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
    /// Starts a server. Nobody else can call it: `listen`, `tls` and `tokens` are not looked at.
    ///
    /// # Errors
    /// Too many threads, a store in use or unreadable, a budget of memory that leaves nothing for ciphertext.
    pub fn start(options: Options) -> Result<Self, ServeError> {
        let runtime = Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .map_err(|source| ServeError::Threads {
                threads: NonZero::<usize>::MIN,
                source,
            })?;
        let answering = Answering::open(Options {
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
            Ok(Accepted {
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

    /// The connector to it.
    pub fn connector(&self) -> Connector {
        Connector(self.streams.clone())
    }

    /// Access to its datasets.
    pub fn access(&self) -> Access {
        self.access.clone()
    }
}

impl Connector {
    /// Opens a stream, on which the server speaks as on a socket.
    ///
    /// # Errors
    /// The server is gone.
    pub fn connect(&self) -> io::Result<DuplexStream> {
        let (near, far) = duplex(BUFFER);
        self.0.send(far).map_err(|_| {
            let gone = "the server within this process has been stopped";
            io::Error::new(io::ErrorKind::ConnectionRefused, gone)
        })?;
        Ok(near)
    }
}
