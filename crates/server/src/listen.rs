//! The listening socket, and the refusal to open it to the world unprotected.

use crate::auth::Gate;
use crate::counting::Counting;
use crate::service::Service;
use oboro_protocol::{MAX_MESSAGE_BYTES, v1::mining_server::MiningServer};
use oboro_store::{Store, StoreError};
use std::io;
use std::net::SocketAddr;
use std::num::NonZero;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use thiserror::Error;
use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use tonic::service::interceptor::InterceptedService;
use tonic::transport::server::TcpIncoming;
use tonic::transport::{Identity, ServerTlsConfig};

/// Queries that compute at the same time; others wait their turn.
const RUNNING_QUERIES: usize = 2;
/// A connection whose peer does not answer a ping for this long is given up.
const KEEPALIVE: Duration = Duration::from_secs(20);

/// How to serve.
#[derive(Clone)]
pub struct Options {
    /// Where datasets are stored.
    pub data: PathBuf,
    /// The address to listen on; port 0 takes any free one.
    pub listen: SocketAddr,
    /// Certificate chain and private key, in PEM.
    pub tls: Option<(Vec<u8>, Vec<u8>)>,
    /// The token that callers must bear.
    pub token: Option<Arc<str>>,
    /// Threads that compute.
    pub threads: NonZero<usize>,
}

/// A server that could not start or failed.
#[derive(Debug, Error)]
#[allow(missing_docs)]
pub enum ServeError {
    #[error(
        "refusing to listen on {0}, which is not loopback, without both TLS and a token: others on the network could read, alter and delete; add --tls-cert, --tls-key and --token-file, or listen on 127.0.0.1"
    )]
    Unprotected(SocketAddr),
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(
        "cannot listen on {address}: {source}; choose another port with --listen, or stop the program that has it"
    )]
    Listen {
        address: SocketAddr,
        source: io::Error,
    },
    #[error(
        "the TLS certificate or key cannot be used: {0}; give a PEM certificate chain with --tls-cert and its PEM key with --tls-key"
    )]
    Tls(tonic::transport::Error),
    #[error("the server failed: {0}")]
    Failed(tonic::transport::Error),
}

/// A server that listens, but does not answer yet.
pub struct Server {
    listener: TcpListener,
    address: SocketAddr,
    options: Options,
    store: Store,
}

impl Server {
    /// Opens the store and the socket.
    ///
    /// # Errors
    /// An address beyond loopback without TLS and token, a store in use or unreadable, a port in use.
    pub async fn bind(options: Options) -> Result<Self, ServeError> {
        let address = options.listen;
        if !address.ip().is_loopback() && (options.tls.is_none() || options.token.is_none()) {
            return Err(ServeError::Unprotected(address));
        }
        let store = Store::open(&options.data)?;
        let listen = |source| ServeError::Listen { address, source };
        let listener = TcpListener::bind(address).await.map_err(listen)?;
        let address = listener.local_addr().map_err(listen)?;
        Ok(Self {
            listener,
            address,
            options,
            store,
        })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Answers until `shutdown` completes; calls under way are finished first.
    ///
    /// # Errors
    /// A certificate that cannot be used, a failing socket.
    pub async fn serve(self, shutdown: impl Future<Output = ()>) -> Result<(), ServeError> {
        let Options {
            tls,
            token,
            threads,
            ..
        } = self.options;
        let counting = Counting {
            store: Arc::new(self.store),
            threads,
            running: Arc::new(Semaphore::new(RUNNING_QUERIES)),
        };
        let service = MiningServer::new(Service { counting })
            .max_decoding_message_size(MAX_MESSAGE_BYTES)
            .max_encoding_message_size(MAX_MESSAGE_BYTES);
        let mut server = tonic::transport::Server::builder()
            .http2_keepalive_interval(Some(KEEPALIVE))
            .http2_keepalive_timeout(Some(KEEPALIVE))
            // Uploads are bound by the round trip unless the windows are larger than a chunk.
            .initial_stream_window_size(4 << 20)
            .initial_connection_window_size(16 << 20);
        if let Some((certificate, key)) = tls {
            let identity = ServerTlsConfig::new().identity(Identity::from_pem(certificate, key));
            server = server.tls_config(identity).map_err(ServeError::Tls)?;
        }
        server
            .add_service(InterceptedService::new(service, Gate::new(token)))
            .serve_with_incoming_shutdown(
                TcpIncoming::from(self.listener).with_nodelay(Some(true)),
                shutdown,
            )
            .await
            .map_err(ServeError::Failed)
    }
}
