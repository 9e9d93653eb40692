//! Connections: their number, and how long an idle one may stay open.
//!
//! A connection counts for its address until a caller is authenticated, then for the caller's name: callers behind one
//! address do not compete. If a new one exceeds a limit, a random unauthenticated connection is evicted. Without one,
//! the longest idle connection of the name with most connections is. If the server is full and none is idle, a busy one
//! of that name is. No name, and no number of silent connections, can lock others out.

use crate::client_certificates::PeerCertificate;
use crate::clients::Client;
use crate::linger::LingeringConnection;
use crate::middleware::holding;
use crate::readers::{TrackedAnswer, TrackedExecutor};
use crate::refusal::{RETRY_SOON, busy};
use crate::throttled_log::ThrottledLog;
use crate::tls::Certificates;
use hyper::body::Incoming;
use hyper::server::conn::http2;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use oboro_format::wording::{MAX_CONNECTIONS, MAX_CONNECTIONS_PER_ADDRESS};
use parking_lot::Mutex;
use std::cmp::Reverse;
use std::collections::HashMap;
use std::convert::Infallible;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::pin::pin;
use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpListener;
use tokio::time::{Instant, sleep, sleep_until, timeout};
use tokio_stream::{Stream, StreamExt};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tonic::Status;
use tonic::body::Body;
use tonic::codegen::{Service, http};
use tonic::service::Routes;

/// Time within which a peer must answer a ping.
const KEEPALIVE: Duration = Duration::from_secs(5);
/// Bytes in flight from one connection.
const WINDOW: u32 = 4 << 20;
/// Maximum bytes of a call's headers.
const HEADER_BYTES: u32 = 16 << 10;
/// Time for the last bytes of a connection that is to be closed.
const FAREWELL: Duration = Duration::from_secs(5);
/// Pause after the system failed to accept a connection.
const PAUSE: Duration = Duration::from_millis(100);

/// Limits on connections.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ConnectionLimits {
    /// Maximum number of connections.
    pub all: usize,
    /// Maximum number of unauthenticated connections from one address (for IPv6, from one /64 network), and of
    /// connections of one name.
    pub per_address: usize,
    /// Maximum number of concurrent calls on one connection.
    pub streams: u32,
    /// Time from acceptance to the first call.
    pub handshake: Duration,
    /// Time without a call in progress.
    pub idle: Duration,
}

impl Default for ConnectionLimits {
    fn default() -> Self {
        Self {
            all: 4096,
            per_address: 256,
            streams: 64,
            handshake: Duration::from_secs(10),
            idle: Duration::from_secs(300),
        }
    }
}

/// Bidirectional stream of bytes.
pub trait Transport: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Transport for T {}

/// Accepted stream with the address of its peer, `None` in this process.
pub struct AcceptedStream {
    /// Stream.
    pub stream: Box<dyn Transport>,
    /// Address of the peer.
    pub peer: Option<SocketAddr>,
}

/// Returns the connections that a socket accepts.
pub fn accepted(listener: TcpListener) -> impl Stream<Item = io::Result<AcceptedStream>> {
    tokio_stream::wrappers::TcpListenerStream::new(listener).map(|stream| {
        let stream = stream?;
        stream.set_nodelay(true)?;
        Ok(AcceptedStream {
            peer: stream.peer_addr().ok(),
            stream: Box::new(LingeringConnection::new(stream)),
        })
    })
}

/// Returns the network that one attacker is assumed to control: for IPv6 the /64 network, else the address.
pub(crate) fn network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => IpAddr::V6((address.to_bits() >> 64 << 64).into()),
        address => address,
    }
}

/// Connection, as its calls see it.
#[derive(Debug)]
pub(crate) struct Connection {
    number: u64,
    pub(crate) peer: Option<SocketAddr>,
    /// Certificate that the peer presented in the handshake.
    certificate: OnceLock<Arc<PeerCertificate>>,
    activity: Mutex<Activity>,
    /// Cancelled when it is evicted.
    evicted: CancellationToken,
    /// Table that contains it.
    table: Weak<Connections>,
}

/// Account that a connection counts for.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Account {
    /// Name of the last admitted caller, over any number of addresses.
    Name(Arc<str>),
    /// Address, or network, of an unauthenticated peer; `None` in this process.
    Address(Option<IpAddr>),
}

#[derive(Debug)]
struct Activity {
    /// Number of calls in progress.
    calls: usize,
    /// Last admitted caller, and the token that is cancelled when its credential ends.
    admitted: Option<(Client, CancellationToken)>,
    /// Time when it was accepted, or when its last call ended.
    since: Instant,
    was_called: bool,
}

impl Connection {
    fn new(number: u64, peer: Option<SocketAddr>, table: Weak<Connections>) -> Arc<Self> {
        Arc::new(Self {
            number,
            peer,
            certificate: OnceLock::new(),
            activity: Mutex::new(Activity {
                calls: 0,
                admitted: None,
                since: Instant::now(),
                was_called: false,
            }),
            evicted: CancellationToken::new(),
            table,
        })
    }

    /// Registers an admitted caller. The connection counts for its name until `revoked` is cancelled. An idle
    /// connection of a name with too many is evicted for it.
    ///
    /// # Errors
    /// All connections allowed for the name are busy.
    pub(crate) fn admit(&self, client: &Client, revoked: CancellationToken) -> Result<(), Status> {
        let admitted = Some((client.clone(), revoked));
        let account = match client {
            Client::Named(name) => Account::Name(Arc::clone(name)),
            Client::Connected(_) => self.account(),
        };
        let table = self.table.upgrade().filter(|_| self.account() != account);
        // Locked until this one is counted.
        let mut open = table.as_ref().map(|it| it.open.lock());
        if let (Some(table), Some(open)) = (&table, &mut open)
            && !table.make_room(open, &account)
        {
            let most = table.limits.per_address;
            return Err(busy(
                format!(
                    "this name has {most} connections in use, which is the most ({MAX_CONNECTIONS_PER_ADDRESS}); try again when one is idle, or make several calls over one connection"
                ),
                RETRY_SOON,
            ));
        }
        self.activity.lock().admitted = admitted;
        Ok(())
    }

    /// Returns the account that it counts for.
    fn account(&self) -> Account {
        match &self.activity.lock().admitted {
            Some((Client::Named(name), revoked)) if !revoked.is_cancelled() => {
                Account::Name(Arc::clone(name))
            }
            _ => Account::Address(self.peer.map(|it| network(it.ip()))),
        }
    }

    /// Returns the certificate of the peer, if any.
    pub(crate) fn certificate(&self) -> Option<&PeerCertificate> {
        self.certificate.get().map(|it| &**it)
    }

    fn begin_call(self: &Arc<Self>) -> CallInProgress {
        let mut activity = self.activity.lock();
        activity.calls += 1;
        activity.was_called = true;
        CallInProgress(Arc::clone(self))
    }

    fn has_calls(&self) -> bool {
        self.activity.lock().calls > 0
    }

    /// Returns the time when it will have been idle for too long, if no call arrives.
    fn idle_at(&self, limits: &ConnectionLimits) -> Instant {
        let activity = self.activity.lock();
        let (from, most) = match (activity.calls, activity.was_called) {
            (0, false) => (activity.since, limits.handshake),
            (0, true) => (activity.since, limits.idle),
            _ => (Instant::now(), limits.idle),
        };
        from + most
    }

    /// Returns its rank for eviction, if its account has this many connections.
    fn rank(&self, counted: usize) -> Rank {
        let activity = self.activity.lock();
        let is_admitted = |it: &(Client, CancellationToken)| !it.1.is_cancelled();
        if !activity.admitted.as_ref().is_some_and(is_admitted) {
            Rank::Stranger
        } else if activity.calls == 0 {
            Rank::Idle(Reverse(counted), activity.since)
        } else {
            Rank::Busy(Reverse(counted), Reverse(self.number))
        }
    }
}

/// Eviction order: unauthenticated connections, then idle, then busy ones. Accounts with most connections come first;
/// within them the longest idle or the latest busy one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Rank {
    Stranger,
    Idle(Reverse<usize>, Instant),
    Busy(Reverse<usize>, Reverse<u64>),
}

struct CallInProgress(Arc<Connection>);

impl Drop for CallInProgress {
    fn drop(&mut self) {
        let mut activity = self.0.activity.lock();
        activity.calls -= 1;
        activity.since = Instant::now();
    }
}

/// Returns true if the system is out of resources for any connection.
fn is_exhaustion(error: &io::Error) -> bool {
    use rustix::io::Errno;
    let errors = [Errno::MFILE, Errno::NFILE, Errno::NOBUFS, Errno::NOMEM];
    Errno::from_io_error(error).is_some_and(|it| errors.contains(&it))
}

/// Returns true if the peer, or the network, caused the error.
fn is_of_peer(error: &io::Error) -> bool {
    use io::ErrorKind::{
        ConnectionAborted, ConnectionReset, HostUnreachable, NetworkUnreachable, NotConnected,
    };
    matches!(
        error.kind(),
        ConnectionAborted | ConnectionReset | HostUnreachable | NetworkUnreachable | NotConnected
    )
}

/// Formats the peer for the log.
fn shown(peer: Option<SocketAddr>) -> tracing::field::DisplayValue<String> {
    let peer = peer.map_or_else(|| "this process".to_owned(), |it| it.to_string());
    tracing::field::display(peer)
}

/// Connections of a server.
pub struct Connections {
    limits: ConnectionLimits,
    tls: Option<Arc<Certificates>>,
    open: Mutex<Open>,
    incidents: Incidents,
}

/// Throttled logs and counters of connection events.
#[derive(Debug, Default)]
struct Incidents {
    refused: ThrottledLog,
    not_accepted: ThrottledLog,
    evicted: ThrottledLog,
    failed_handshake: ThrottledLog,
    late_handshake: ThrottledLog,
    exhausted: ThrottledLog,
    idle: ThrottledLog,
    unread_answer: Arc<ThrottledLog>,
}

#[derive(Default)]
struct Open {
    next: u64,
    by_number: HashMap<u64, Arc<Connection>>,
}

impl Connections {
    /// Creates the set of connections of a server.
    pub fn new(limits: ConnectionLimits, tls: Option<Arc<Certificates>>) -> Arc<Self> {
        Arc::new(Self {
            limits,
            tls,
            open: Mutex::default(),
            incidents: Incidents::default(),
        })
    }

    /// Returns the number of open connections and of all so far.
    pub fn count(&self) -> (usize, u64) {
        let open = self.open.lock();
        (open.by_number.len(), open.next)
    }

    /// Returns the number of events by kind.
    pub fn incidents(&self) -> [(&'static str, u64); 8] {
        let it = &self.incidents;
        [
            ("refused", it.refused.total()),
            ("not_accepted", it.not_accepted.total()),
            ("closed_for_another", it.evicted.total()),
            ("failed_handshake", it.failed_handshake.total()),
            ("late_handshake", it.late_handshake.total()),
            ("descriptors_exhausted", it.exhausted.total()),
            ("idle", it.idle.total()),
            ("answer_not_read", it.unread_answer.total()),
        ]
    }

    /// Serves incoming connections until `shutdown` completes, then finishes the calls in progress.
    pub async fn serve(
        self: Arc<Self>,
        routes: Routes,
        incoming: impl Stream<Item = io::Result<AcceptedStream>>,
        shutdown: impl Future<Output = ()>,
    ) {
        let (tasks, stopping) = (TaskTracker::new(), CancellationToken::new());
        {
            // Drop the listener first to refuse new connections immediately.
            let (mut incoming, mut shutdown) = (pin!(incoming), pin!(shutdown));
            loop {
                let accepted = tokio::select! {
                    () = &mut shutdown => break,
                    accepted = incoming.next() => accepted,
                };
                match accepted {
                    None => break,
                    Some(Ok(accepted)) => {
                        if let Some(connection) = self.admit(accepted.peer) {
                            let served = Arc::clone(&self).run(
                                connection,
                                accepted.stream,
                                routes.clone(),
                                stopping.clone(),
                            );
                            tasks.spawn(served);
                        }
                    }
                    Some(Err(error)) => self.recover(&error).await,
                }
            }
        }
        stopping.cancel();
        tasks.close();
        tasks.wait().await;
    }

    /// Recovers after the system failed to accept a connection.
    async fn recover(&self, error: &io::Error) {
        if !is_exhaustion(error) {
            self.incidents.not_accepted.log(|times| {
                tracing::warn!(%error, times, "a connection could not be accepted");
            });
            // An error of one peer need not delay others.
            if !is_of_peer(error) {
                sleep(PAUSE).await;
            }
            return;
        }
        self.incidents.exhausted.log(|times| {
            tracing::error!(
                %error,
                times,
                "descriptors or memory for connections are exhausted, and one that does nothing is closed; raise the limit on open files (ulimit -n), or lower {MAX_CONNECTIONS}"
            );
        });
        self.evict(&mut self.open.lock(), |_, rank| {
            !matches!(rank, Rank::Busy(..))
        });
        sleep(PAUSE).await;
    }

    /// Registers a connection, evicting another if there are too many; `None` if none can be evicted.
    fn admit(self: &Arc<Self>, peer: Option<SocketAddr>) -> Option<Arc<Connection>> {
        let account = Account::Address(peer.map(|peer| network(peer.ip())));
        let mut open = self.open.lock();
        let refused = |most: usize, limit: &dyn std::fmt::Display| {
            self.incidents.refused.log(|times| {
                tracing::warn!(
                    peer = shown(peer),
                    times,
                    "a connection was refused: {most} are in use, which is the most ({limit})"
                );
            });
        };
        // This process is a single peer.
        if peer.is_some() && !self.make_room(&mut open, &account) {
            refused(self.limits.per_address, &MAX_CONNECTIONS_PER_ADDRESS);
            return None;
        }
        // A name's only connection is safe while it is busy, as are those of callers without a name.
        let may_go = |it: &Connection, rank: &Rank| match rank {
            Rank::Busy(Reverse(counted), _) => {
                *counted > 1 && matches!(it.account(), Account::Name(_))
            }
            Rank::Stranger | Rank::Idle(..) => true,
        };
        if open.by_number.len() >= self.limits.all && !self.evict(&mut open, may_go) {
            refused(self.limits.all, &MAX_CONNECTIONS);
            return None;
        }
        open.next += 1;
        let connection = Connection::new(open.next, peer, Arc::downgrade(self));
        let number = connection.number;
        open.by_number.insert(number, Arc::clone(&connection));
        Some(connection)
    }

    /// Evicts a connection of an account at its limit; returns `false` if all of them are busy.
    fn make_room(&self, open: &mut Open, account: &Account) -> bool {
        let own = open
            .by_number
            .values()
            .filter(|it| it.account() == *account);
        own.count() < self.limits.per_address
            || self.evict(open, |it, rank| {
                !matches!(rank, Rank::Busy(..)) && it.account() == *account
            })
    }

    /// Evicts the connection of lowest rank among these; returns `false` if none qualifies.
    fn evict(&self, open: &mut Open, among: impl Fn(&Connection, &Rank) -> bool) -> bool {
        let mut counted: HashMap<Account, usize> = HashMap::new();
        for connection in open.by_number.values() {
            *counted.entry(connection.account()).or_default() += 1;
        }
        let ranked = open.by_number.values().map(|it| {
            let counted = counted.get(&it.account()).copied().unwrap_or(0);
            (it.rank(counted), it)
        });
        let ranked: Vec<(Rank, u64)> = ranked
            .filter(|(rank, it)| among(it, rank))
            .map(|(rank, it)| (rank, it.number))
            .collect();
        let Some(&(least, _)) = ranked.iter().min() else {
            return false;
        };
        // Random among equals: with a fixed order, a flood would evict every newcomer before its first call.
        let same: Vec<u64> = ranked
            .iter()
            .filter(|it| it.0 == least)
            .map(|it| it.1)
            .collect();
        let chosen = getrandom::u64().unwrap_or_default() % same.len() as u64;
        let number = same[chosen as usize];
        let evicted = open.by_number.remove(&number).expect("it was found");
        evicted.evicted.cancel();
        self.incidents.evicted.log(|times| {
            tracing::info!(
                peer = shown(evicted.peer),
                times,
                "a connection was closed for another one"
            );
        });
        true
    }

    /// Serves one connection to its end.
    async fn run(
        self: Arc<Self>,
        connection: Arc<Connection>,
        stream: Box<dyn Transport>,
        routes: Routes,
        stopping: CancellationToken,
    ) {
        let served = async {
            let Some(stream) = self.secure(stream, &connection).await else {
                return;
            };
            self.answer(&connection, stream, routes, stopping).await;
        };
        tokio::select! {
            () = served => {}
            () = connection.evicted.cancelled() => {}
        }
        self.open.lock().by_number.remove(&connection.number);
    }

    /// Performs the TLS handshake, if the server has TLS.
    async fn secure(
        &self,
        stream: Box<dyn Transport>,
        connection: &Connection,
    ) -> Option<Box<dyn Transport>> {
        let Some(tls) = &self.tls else {
            return Some(stream);
        };
        let peer = shown(connection.peer);
        let Ok(handshake) = timeout(self.limits.handshake, tls.acceptor().accept(stream)).await
        else {
            self.incidents.late_handshake.log(|times| {
                tracing::info!(peer, times, "a TLS handshake took too long");
            });
            return None;
        };
        let checked = handshake.and_then(|stream| {
            let shown = tls.present(stream.get_ref().1.peer_certificates());
            Ok((stream, shown.map_err(io::Error::other)?))
        });
        match checked {
            Ok((stream, shown)) => {
                if let Some(shown) = shown {
                    connection.certificate.get_or_init(|| shown);
                }
                Some(Box::new(stream))
            }
            Err(error) => {
                self.incidents.failed_handshake.log(|times| {
                    tracing::info!(peer, %error, times, "a TLS handshake failed");
                });
                None
            }
        }
    }

    /// Answers calls until the peer closes the connection, it is idle for too long, or the server stops.
    async fn answer(
        &self,
        connection: &Arc<Connection>,
        stream: Box<dyn Transport>,
        routes: Routes,
        stopping: CancellationToken,
    ) {
        let is_near = connection.peer.is_none();
        let service = service_fn(|request: http::Request<Incoming>| {
            let call = connection.begin_call();
            let mut request = request.map(Body::new);
            request.extensions_mut().insert(Arc::clone(connection));
            let response = routes.clone().call(request);
            async move {
                let response = response.await?;
                Ok::<_, Infallible>(response.map(|body| {
                    let answer = TrackedAnswer::new(Body::new(body), is_near);
                    holding(Body::new(answer), call)
                }))
            }
        });
        let mut http = http2::Builder::new(TrackedExecutor::telling(&self.incidents.unread_answer));
        http.timer(TokioTimer::new())
            .keep_alive_interval(KEEPALIVE)
            .keep_alive_timeout(KEEPALIVE)
            // Uploads are bound by the round-trip time unless windows exceed a chunk. A window's content is memory that
            // no message has reserved.
            .initial_stream_window_size(WINDOW)
            .initial_connection_window_size(WINDOW)
            .max_concurrent_streams(self.limits.streams)
            .max_header_list_size(HEADER_BYTES);
        let mut serving = pin!(http.serve_connection(TokioIo::new(stream), service));
        let idle = async {
            loop {
                let at = connection.idle_at(&self.limits);
                sleep_until(at).await;
                if connection.idle_at(&self.limits) <= at {
                    break;
                }
            }
        };
        let is_idle = tokio::select! {
            served = serving.as_mut() => {
                if let Err(error) = served {
                    tracing::debug!(peer = shown(connection.peer), %error, "a connection failed");
                }
                return;
            }
            () = idle => true,
            () = stopping.cancelled() => false,
        };
        serving.as_mut().graceful_shutdown();
        if !is_idle {
            let _ = serving.await;
            return;
        }
        self.incidents.idle.log(|times| {
            tracing::info!(
                peer = shown(connection.peer),
                times,
                "an idle connection was closed"
            );
        });
        // A call may have arrived concurrently.
        while timeout(FAREWELL, serving.as_mut()).await.is_err() && connection.has_calls() {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(all: usize, per_address: usize) -> Arc<Connections> {
        let limits = ConnectionLimits {
            all,
            per_address,
            ..ConnectionLimits::default()
        };
        Connections::new(limits, None)
    }

    fn from(address: &str) -> Option<SocketAddr> {
        Some(SocketAddr::new(address.parse().unwrap(), 1))
    }

    fn named(name: &str) -> Client {
        Client::Named(name.into())
    }

    fn let_in(connection: &Connection, name: &str) {
        let admitted = connection.admit(&named(name), CancellationToken::new());
        admitted.unwrap();
    }

    fn numbers(table: &Connections) -> Vec<u64> {
        let mut numbers: Vec<u64> = table.open.lock().by_number.keys().copied().collect();
        numbers.sort_unstable();
        numbers
    }

    #[tokio::test]
    async fn what_is_missed_the_least_goes_for_a_new_connection() {
        let table = table(3, 3);
        let [first, second, third] = [1, 2, 3].map(|_| table.admit(from("192.0.2.1")).unwrap());
        // A busy one with an admitted caller, an idle one, an unauthenticated one.
        let revoked = CancellationToken::new();
        first.admit(&named("a"), revoked.clone()).unwrap();
        let call = first.begin_call();
        let_in(&second, "b");
        let watch = third.begin_call();
        let fourth = table.admit(from("192.0.2.2")).unwrap();
        assert!(third.evicted.is_cancelled());
        assert_eq!(numbers(&table), [1, 2, 4]);
        let_in(&fourth, "d");
        let fourth_call = fourth.begin_call();
        let fifth = table.admit(from("192.0.2.3")).unwrap();
        assert!(second.evicted.is_cancelled());
        let_in(&fifth, "e");
        let fifth_call = fifth.begin_call();
        // All are busy.
        assert!(table.admit(from("192.0.2.4")).is_none());
        assert_eq!(numbers(&table), [1, 4, 5]);
        // With its token revoked, it counts as unauthenticated, even with calls in progress.
        revoked.cancel();
        assert!(table.admit(from("192.0.2.4")).is_some());
        assert!(first.evicted.is_cancelled());
        drop((call, watch, fourth_call, fifth_call));
    }

    #[tokio::test]
    async fn an_address_takes_no_more_than_its_share() {
        let table = table(10, 2);
        let other = table.admit(from("2001:db8:1::1")).unwrap();
        for last in 1..5 {
            table.admit(from(&format!("2001:db8::{last}"))).unwrap();
        }
        assert!(!other.evicted.is_cancelled());
        let numbers = numbers(&table);
        assert_eq!((numbers.len(), numbers[0], numbers[2]), (3, 1, 5));
        // This process, which has no address, is exempt from the limit.
        for _ in 0..3 {
            assert!(table.admit(None).is_some());
        }
    }

    #[tokio::test]
    async fn a_name_keeps_nobody_out_who_has_its_address() {
        let table = table(100, 3);
        let address = || table.admit(from("192.0.2.1"));
        let of = |name| {
            let connection = address().unwrap();
            let_in(&connection, name);
            connection
        };
        let greedy: Vec<_> = (0..3).map(|_| of("greedy")).collect();
        let calls: Vec<_> = greedy.iter().map(Connection::begin_call).collect();
        // All of them are busy, over one address or several.
        for other in ["192.0.2.1", "192.0.2.2"] {
            let more = table.admit(from(other)).unwrap();
            let refused = more.admit(&named("greedy"), CancellationToken::new());
            assert_eq!(refused.unwrap_err().code(), tonic::Code::ResourceExhausted);
        }
        let others = ["b", "c", "d", "e", "f"].map(of);
        assert!(
            others
                .iter()
                .chain(&greedy)
                .all(|it| !it.evicted.is_cancelled())
        );
        // An idle one is evicted for another one of its name.
        drop(calls);
        of("greedy");
        assert_eq!(
            greedy.iter().filter(|it| it.evicted.is_cancelled()).count(),
            1
        );
        assert!(others.iter().all(|it| !it.evicted.is_cancelled()));
        // Calls of the name over its open connections continue.
        let_in(
            greedy.iter().find(|it| !it.evicted.is_cancelled()).unwrap(),
            "greedy",
        );
    }

    #[tokio::test]
    async fn a_full_server_closes_connections_of_the_name_with_most() {
        let table = table(5, 4);
        let of = |name: &str| {
            let connection = table.admit(from("192.0.2.1")).unwrap();
            let_in(&connection, name);
            connection
        };
        let idle = of("idle");
        let greedy = [(); 4].map(|()| of("greedy"));
        // The longest idle one of this name, though others were idle before.
        let first = of("a");
        assert!(greedy[0].evicted.is_cancelled() && !idle.evicted.is_cancelled());
        let calls: Vec<_> = greedy[1..].iter().map(Connection::begin_call).collect();
        let (_first, _idle) = (first.begin_call(), idle.begin_call());
        // All are busy.
        let second = of("b");
        let _second = second.begin_call();
        assert!(greedy[3].evicted.is_cancelled());
        let third = of("c");
        let _third = third.begin_call();
        assert!(greedy[2].evicted.is_cancelled());
        // Each has one.
        assert!(table.admit(from("192.0.2.1")).is_none());
        assert!(
            [&idle, &first, &second, &third, &greedy[1]]
                .iter()
                .all(|it| !it.evicted.is_cancelled())
        );
        drop(calls);
    }

    #[tokio::test(start_paused = true)]
    async fn only_exhaustion_costs_another_connection() {
        let table = table(3, 3);
        let connection = table.admit(from("192.0.2.1")).unwrap();
        let begun = Instant::now();
        table
            .recover(&io::ErrorKind::ConnectionAborted.into())
            .await;
        assert_eq!(Instant::now(), begun);
        table.recover(&io::ErrorKind::InvalidData.into()).await;
        assert_eq!(Instant::now(), begun + PAUSE);
        assert!(!connection.evicted.is_cancelled());
        let exhausted = rustix::io::Errno::MFILE.raw_os_error();
        table
            .recover(&io::Error::from_raw_os_error(exhausted))
            .await;
        assert!(connection.evicted.is_cancelled());
    }

    #[tokio::test(start_paused = true)]
    async fn time_without_calls_is_limited() {
        let limits = ConnectionLimits::default();
        let connection = Connection::new(1, None, Weak::new());
        let begun = Instant::now();
        assert_eq!(connection.idle_at(&limits), begun + limits.handshake);
        let call = connection.begin_call();
        tokio::time::advance(Duration::from_secs(1000)).await;
        assert!(connection.idle_at(&limits) > Instant::now());
        drop(call);
        assert_eq!(connection.idle_at(&limits), Instant::now() + limits.idle);
    }
}
