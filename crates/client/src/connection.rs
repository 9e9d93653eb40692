//! Connection to a server: address, TLS, token, protocol version, limits.

use crate::error::{ClientError, printable};
use crate::guard::GuardedChannel;
use crate::proxy::Proxy;
use crate::silence::{ActivityConnector, LastActivity, PING, Wait};
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioIo;
use oboro_protocol::v1::genome_client::GenomeClient;
use oboro_protocol::v1::mining_client::MiningClient;
use oboro_protocol::{MAX_MESSAGE_BYTES, PROTOCOL, PROTOCOL_KEY, v1};
use oboro_rlwe::{PrivateFileError, open_private};
use std::convert::Infallible;
use std::fs;
use std::io::{self, Read};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::runtime::Runtime;
use tokio_util::sync::CancellationToken;
use tonic::codegen::{BoxFuture, Service};
use tonic::metadata::{Ascii, MetadataValue};
use tonic::service::{Interceptor, interceptor::InterceptedService};
use tonic::transport::{self, Certificate, Channel, ClientTlsConfig, Endpoint, Uri};
use tonic::{Code, Request, Status};
use zeroize::Zeroizing;

const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// Maximum silence of a server during a call.
const SILENCE: Duration = Duration::from_secs(40);

/// Address of a server, and credentials.
#[derive(Clone, Default)]
pub struct Options {
    /// Server address: `http://` (loopback only) or `https://`, host and port.
    pub url: String,
    /// Bearer token, if the server requires one.
    pub token: Option<String>,
    /// CA certificates in PEM to trust instead of the system's.
    pub certificates: Option<Vec<u8>>,
    /// Client certificate that proves the caller's name over TLS, if it has one.
    pub identity: Option<Identity>,
    /// Callback for calls that wait for a busy or silent server.
    pub waits: Option<fn(Wait)>,
}

/// Certificate chain and its private key, both in PEM.
#[derive(Clone)]
pub struct Identity {
    certificate: Vec<u8>,
    key: Zeroizing<Vec<u8>>,
}

impl Identity {
    /// Reads certificate and key from files.
    ///
    /// # Errors
    /// A file that cannot be read, a key that others can read or replace.
    pub fn read(certificate: &Path, key: &Path) -> Result<Self, ClientError> {
        let unreadable = |path: &Path, problem: String| {
            ClientError::Identity(format!("{} cannot be read: {problem}", path.display()))
        };
        let mut file = open_private(key).map_err(|error| match error {
            PrivateFileError::Open(error) => unreadable(key, error.to_string()),
            error => error.into(),
        })?;
        let mut private = Zeroizing::new(Vec::new());
        file.read_to_end(&mut private)
            .map_err(|error| unreadable(key, error.to_string()))?;
        Ok(Self {
            certificate: fs::read(certificate)
                .map_err(|error| unreadable(certificate, error.to_string()))?,
            key: private,
        })
    }
}

/// Placement of a dataset's panels in the server's memory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Placement {
    /// Policy that assigns panels to NUMA nodes; `None` without placement.
    pub policy: Option<String>,
    /// Nodes that hold pages of the dataset, or should.
    pub nodes: Vec<NodePages>,
    /// Number of pages on a node other than the assigned one.
    pub misplaced_pages: u64,
    /// Number of resident panels, masks included.
    pub resident_panels: u64,
    /// Number of all panels, masks included.
    pub panels: u64,
}

/// Pages on one node, of the kernel's base page size (usually 4 KiB).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NodePages {
    /// Kernel's number of the node.
    pub node: u32,
    /// Number of pages on this node.
    pub pages: u64,
    /// Number of pages assigned to this node.
    pub intended_pages: u64,
}

impl From<v1::NodePages> for NodePages {
    fn from(pages: v1::NodePages) -> Self {
        Self {
            node: pages.node,
            pages: pages.pages,
            intended_pages: pages.intended_pages,
        }
    }
}

/// Connection to one server, with automatic reconnection. Clones share it.
#[derive(Clone)]
pub struct Connection {
    line: Arc<Line>,
    /// Token that cancels calls in flight.
    interrupt: CancellationToken,
}

/// Location of the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Distance {
    /// Within this process: transfers are almost free.
    Memory,
    /// At the other end of a socket.
    Network,
}

/// State shared by the clones of a connection.
struct Line {
    url: String,
    distance: Distance,
    waits: Option<fn(Wait)>,
    /// Time of the last bytes received; `None` for a server in this process.
    heard: Option<LastActivity>,
    /// `true` once an Oboro server has answered on this connection.
    answered: AtomicBool,
    /// Limits of the server, fetched once.
    limits: OnceLock<v1::Limits>,
    client: Client,
    genomes: Genomes,
    runtime: Runtime,
}

/// Adds the protocol version and the token to every call.
#[derive(Clone)]
pub(crate) struct Credentials {
    token: Option<MetadataValue<Ascii>>,
}

impl Interceptor for Credentials {
    fn call(&mut self, mut request: Request<()>) -> Result<Request<()>, Status> {
        request.metadata_mut().insert(PROTOCOL_KEY, PROTOCOL.into());
        if let Some(token) = &self.token {
            request
                .metadata_mut()
                .insert("authorization", token.clone());
        }
        Ok(request)
    }
}

pub(crate) type Client = MiningClient<InterceptedService<GuardedChannel<Channel>, Credentials>>;
pub(crate) type Genomes = GenomeClient<InterceptedService<GuardedChannel<Channel>, Credentials>>;

impl Connection {
    /// Connects to a server.
    ///
    /// # Errors
    /// An invalid address, plain HTTP to a host other than loopback, no server listening.
    pub fn open(options: &Options) -> Result<Self, ClientError> {
        Self::open_unless(&CancellationToken::new(), options)
    }

    /// Connects to a server, unless `interrupt` is cancelled first. `interrupt` does not cancel later calls.
    ///
    /// # Errors
    /// As [`open`](Self::open), or [`ClientError::Interrupted`].
    pub fn open_unless(
        interrupt: &CancellationToken,
        options: &Options,
    ) -> Result<Self, ClientError> {
        let url = options.url.clone();
        let address = |problem: String| ClientError::Address {
            url: url.clone(),
            problem,
        };
        let uri: Uri = url
            .parse()
            .map_err(|error: <Uri as std::str::FromStr>::Err| address(error.to_string()))?;
        let host = uri
            .host()
            .filter(|host| !host.is_empty())
            .ok_or_else(|| address("it names no host".to_owned()))?;
        let tls = match uri.scheme_str() {
            Some("https") => true,
            Some("http") if is_loopback(host) => false,
            Some("http") => return Err(ClientError::Unprotected(url)),
            _ => {
                return Err(address(
                    "it does not begin with http:// or https://".to_owned(),
                ));
            }
        };
        let proxy = if tls && !is_loopback(host) {
            Proxy::towards(&uri)?
        } else {
            None
        };
        let mut endpoint = with_windows(Endpoint::from(uri))
            .connect_timeout(CONNECT_TIMEOUT)
            .http2_keep_alive_interval(PING)
            .keep_alive_timeout(SILENCE);
        if tls {
            let certificates = options
                .certificates
                .as_deref()
                .map(certificates)
                .transpose()?;
            let config = match certificates {
                Some(certificates) => ClientTlsConfig::new().ca_certificate(certificates),
                None => ClientTlsConfig::new().with_native_roots(),
            };
            endpoint = endpoint
                .tls_config(config.clone())
                .map_err(|error| ClientError::Certificates(describe(&error)))?;
            if let Some(Identity { certificate, key }) = &options.identity {
                let identity = transport::Identity::from_pem(certificate, &**key);
                endpoint = endpoint
                    .tls_config(config.identity(identity))
                    .map_err(|error| ClientError::Identity(describe(&error)))?;
            }
        }
        let token = options.token.as_ref().map(|token| {
            if !token.chars().all(|c| c.is_ascii_graphic()) {
                return Err(ClientError::Token);
            }
            let mut value: MetadataValue<Ascii> = format!("Bearer {token}")
                .parse()
                .map_err(|_| ClientError::Token)?;
            value.set_sensitive(true);
            Ok::<_, ClientError>(value)
        });
        let credentials = Credentials {
            token: token.transpose()?,
        };
        let runtime = runtime()?;
        let heard = LastActivity::new();
        let mut network = HttpConnector::new();
        network.enforce_http(false);
        network.set_nodelay(true);
        let connect = async {
            let heard = heard.clone();
            match &proxy {
                Some(proxy) => {
                    let tunnel = ActivityConnector(proxy.tunnel(network), heard);
                    endpoint.connect_with_connector(tunnel).await
                }
                None => {
                    endpoint
                        .connect_with_connector(ActivityConnector(network, heard))
                        .await
                }
            }
        };
        let connected = runtime.block_on(async {
            tokio::select! {
                () = interrupt.cancelled() => Err(ClientError::Interrupted),
                connected = tokio::time::timeout(CONNECT_TIMEOUT, connect) => Ok(connected),
                never = tell_silence(Some(&heard), options.waits) => match never {},
            }
        })?;
        let by_way_of = |cause: String| match &proxy {
            Some(proxy) => {
                let address = proxy.address();
                format!("{cause}, by way of the proxy {address} of the environment")
            }
            None => cause,
        };
        let channel = connected
            .map_err(|_| "nothing answered in time".to_owned())
            .and_then(|connected| connected.map_err(|error| describe(&error)))
            .map_err(|cause| ClientError::Unreachable {
                url: url.clone(),
                cause: by_way_of(cause),
            })?;
        Ok(Self::over(
            channel,
            runtime,
            url,
            credentials,
            Distance::Network,
            options.waits,
            Some(heard),
        ))
    }

    /// Connects to a server in this process over streams from `connect`, which is called again after a stream breaks.
    /// `name` replaces the address in messages.
    ///
    /// # Errors
    /// No server at the other end.
    pub fn through<S, C>(name: &str, connect: C) -> Result<Self, ClientError>
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
        C: Fn() -> io::Result<S> + Send + 'static,
    {
        let runtime = runtime()?;
        // In memory, large frames delay nothing else, and each frame costs a wake-up of both ends.
        let endpoint = with_windows(Endpoint::from_static(NOWHERE)).max_frame_size(1 << 20);
        let channel = runtime
            .block_on(endpoint.connect_with_connector(Streams(connect)))
            .map_err(|error| ClientError::Unreachable {
                url: name.to_owned(),
                cause: describe(&error),
            })?;
        let credentials = Credentials { token: None };
        let name = name.to_owned();
        Ok(Self::over(
            channel,
            runtime,
            name,
            credentials,
            Distance::Memory,
            None,
            None,
        ))
    }

    fn over(
        channel: Channel,
        runtime: Runtime,
        url: String,
        credentials: Credentials,
        distance: Distance,
        waits: Option<fn(Wait)>,
        heard: Option<LastActivity>,
    ) -> Self {
        let channel = GuardedChannel(channel);
        let genomes = GenomeClient::with_interceptor(channel.clone(), credentials.clone())
            .max_decoding_message_size(MAX_MESSAGE_BYTES)
            .max_encoding_message_size(MAX_MESSAGE_BYTES);
        let client = MiningClient::with_interceptor(channel, credentials)
            .max_decoding_message_size(MAX_MESSAGE_BYTES)
            .max_encoding_message_size(MAX_MESSAGE_BYTES);
        Self {
            line: Arc::new(Line {
                url,
                distance,
                waits,
                heard,
                answered: AtomicBool::new(false),
                limits: OnceLock::new(),
                client,
                genomes,
                runtime,
            }),
            interrupt: CancellationToken::new(),
        }
    }

    /// Returns the connection with a token whose cancellation ends its calls with [`ClientError::Interrupted`].
    #[must_use]
    pub fn interrupted_by(&self, interrupt: CancellationToken) -> Self {
        Self {
            interrupt,
            ..self.clone()
        }
    }

    /// Returns the token that cancels its calls.
    pub fn interrupt(&self) -> CancellationToken {
        self.interrupt.clone()
    }

    /// Returns true if the server is in this process.
    pub fn is_local(&self) -> bool {
        self.distance() == Distance::Memory
    }

    /// Returns the location of the server.
    pub(crate) fn distance(&self) -> Distance {
        self.line.distance
    }

    /// Returns the server's address as given.
    pub fn url(&self) -> &str {
        &self.line.url
    }

    /// Returns the placement of a dataset's resident panels in the server's memory.
    ///
    /// # Errors
    /// An unknown dataset, or as every call.
    pub fn placement(&self, name: &str) -> Result<Placement, ClientError> {
        let name = name.to_owned();
        let reply = self.again(|| {
            let name = name.clone();
            self.call("asking for the placement", async |mut client| {
                client.placement(v1::PlacementRequest { name }).await
            })
        })?;
        Ok(Placement {
            policy: reply.policy.as_deref().map(printable),
            nodes: reply.nodes.into_iter().map(NodePages::from).collect(),
            misplaced_pages: reply.misplaced_pages,
            resident_panels: reply.resident_panels,
            panels: reply.panels,
        })
    }

    /// Returns the server's limits, or the protocol's if the server does not state any.
    pub(crate) fn limits(&self) -> Result<v1::Limits, ClientError> {
        if let Some(limits) = self.line.limits.get() {
            return Ok(*limits);
        }
        let asked = self.again(|| {
            self.call("asking for limits", async |mut client| {
                match client.server_info(v1::ServerInfoRequest {}).await {
                    Err(status) if status.code() == Code::Unimplemented => {
                        Ok(v1::ServerInfoReply::default().into())
                    }
                    answered => answered,
                }
            })
        })?;
        let limits = asked.limits.unwrap_or(v1::Limits {
            message_bytes: MAX_MESSAGE_BYTES as u64,
            itemsets: u64::MAX,
            ..Default::default()
        });
        Ok(*self.line.limits.get_or_init(|| limits))
    }

    /// Cancels an unpublished upload.
    ///
    /// # Errors
    /// An unknown upload, or as every call.
    pub fn cancel_upload(&self, name: &str) -> Result<(), ClientError> {
        let name = name.to_owned();
        self.when_free(|| {
            let name = name.clone();
            self.call("giving up an upload", async |mut client| {
                client.cancel_upload(v1::CancelUploadRequest { name }).await
            })
        })?;
        Ok(())
    }

    /// Makes one call and blocks until it ends.
    pub(crate) fn call<T>(
        &self,
        during: &'static str,
        call: impl AsyncFnOnce(Client) -> Result<tonic::Response<T>, Status>,
    ) -> Result<T, ClientError> {
        self.wait(async { self.answer(call(self.client()).await, during) })
    }

    /// Blocks on a future, which is dropped if the connection is interrupted.
    pub(crate) fn wait<T>(
        &self,
        in_flight: impl Future<Output = Result<T, ClientError>>,
    ) -> Result<T, ClientError> {
        self.line.runtime.block_on(async {
            tokio::select! {
                biased;
                () = self.interrupt.cancelled() => Err(ClientError::Interrupted),
                outcome = in_flight => outcome,
                never = tell_silence(self.line.heard.as_ref(), self.line.waits) => match never {},
            }
        })
    }

    /// Blocks for `wait`, and reports the wait if the server is busy.
    ///
    /// # Errors
    /// An interrupted connection.
    pub(crate) fn rest(&self, error: &ClientError, wait: Duration) -> Result<(), ClientError> {
        if let (ClientError::Overloaded { .. }, Some(tell)) = (error, self.line.waits) {
            tell(Wait::Busy(wait));
        }
        self.line.runtime.block_on(async {
            tokio::select! {
                () = self.interrupt.cancelled() => Err(ClientError::Interrupted),
                () = tokio::time::sleep(wait) => Ok(()),
            }
        })
    }

    /// Fails if the connection is interrupted: for work between calls.
    pub(crate) fn check_interrupt(&self) -> Result<(), ClientError> {
        if self.interrupt.is_cancelled() {
            Err(ClientError::Interrupted)
        } else {
            Ok(())
        }
    }

    /// Extracts the message from a response. Before the first success, the address may not be an Oboro server's.
    pub(crate) fn answer<T>(
        &self,
        outcome: Result<tonic::Response<T>, Status>,
        during: &'static str,
    ) -> Result<T, ClientError> {
        let outcome = outcome
            .map(tonic::Response::into_inner)
            .map_err(|status| ClientError::from_status(&status, during));
        match outcome {
            Err(ClientError::Broken { cause, .. })
                if !self.line.answered.load(Ordering::Relaxed) =>
            {
                Err(ClientError::NoAnswer {
                    url: self.line.url.clone(),
                    cause,
                })
            }
            answered => {
                self.line.answered.store(true, Ordering::Relaxed);
                answered
            }
        }
    }

    pub(crate) fn client(&self) -> Client {
        self.line.client.clone()
    }

    pub(crate) fn genome_client(&self) -> Genomes {
        self.line.genomes.clone()
    }
}

/// Reports silence of the server, if it can be observed and a callback is set.
async fn tell_silence(heard: Option<&LastActivity>, tell: Option<fn(Wait)>) -> Infallible {
    match (heard, tell) {
        (Some(heard), Some(tell)) => heard.tell_silence(tell).await,
        _ => std::future::pending().await,
    }
}

/// Placeholder authority for a server without an address.
const NOWHERE: &str = "http://within";

/// Connector that opens streams where tonic would connect to an address.
struct Streams<C>(C);

impl<S, C> Service<Uri> for Streams<C>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    C: Fn() -> io::Result<S>,
{
    type Response = TokioIo<S>;
    type Error = io::Error;
    type Future = BoxFuture<TokioIo<S>, io::Error>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: Uri) -> Self::Future {
        let stream = (self.0)().map(TokioIo::new);
        Box::pin(async { stream })
    }
}

fn runtime() -> Result<Runtime, ClientError> {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .map_err(ClientError::Runtime)
}

fn with_windows(endpoint: Endpoint) -> Endpoint {
    endpoint
        .initial_stream_window_size(4 << 20)
        .initial_connection_window_size(16 << 20)
}

/// Parses certificates in PEM; at least one is required.
fn certificates(pem: &[u8]) -> Result<Certificate, ClientError> {
    const BEGIN: &[u8] = b"-----BEGIN CERTIFICATE-----";
    if pem.windows(BEGIN.len()).any(|window| window == BEGIN) {
        Ok(Certificate::from_pem(pem))
    } else {
        Err(ClientError::Certificates("there are none".to_owned()))
    }
}

fn is_loopback(host: &str) -> bool {
    let bare = host.trim_start_matches('[').trim_end_matches(']');
    bare.eq_ignore_ascii_case("localhost")
        || bare
            .parse::<std::net::IpAddr>()
            .is_ok_and(|ip| ip.is_loopback())
}

/// Returns the innermost error, which is the informative one ("connection refused").
fn describe(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let more = cause.to_string();
        if !text.contains(&more) {
            text = format!("{text}: {more}");
        }
        source = cause.source();
    }
    text
}
