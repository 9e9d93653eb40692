//! Server: its options, its socket and services, and the refusal to expose it unprotected.

use crate::cache::MomentCache;
use crate::call_limits::CallLimits;
use crate::calls::{CallTimes, Calls};
use crate::counting::Counting;
use crate::error::ServeError;
use crate::genome::Genomes;
use crate::health::{Watches, say_farewell, say_not_serving};
use crate::limits::{Admission, Limits};
use crate::memory::{PlanMemory, ServerMemory, of_server, plan_memory};
use crate::metering::Meter;
use crate::monitor::{Monitor, Readiness, Sources};
use crate::options::{GenomeOptions, MonitorOptions, Options, Pin};
use crate::pool::Pool;
use crate::remote::{Dispatch, RemoteExecutor};
use crate::retention::expire;
use crate::scrubbing::Scrubs;
use crate::service::Service;
use crate::whole::homes;
use crate::writes::{WRITES, Writes};
use oboro_arena::Topology;
use oboro_edge::{
    AcceptedStream, Audit, Authentication, Certificates, Connections, ExpiryWatch, Tokens, Wrapped,
    accepted,
};
use oboro_engine::{Backend, Cpu};
use oboro_format::leave_descriptors;
use oboro_genome_server::Budgets;
use oboro_protocol::MAX_MESSAGE_BYTES;
use oboro_protocol::v1::{genome_server::GenomeServer, mining_server::MiningServer};
use oboro_residency::{FairSemaphore, Placement, ResidencyError, ShareLimit, Snapshot};
use oboro_store::{Access, Location, Store, StoreError};
use parking_lot::Mutex;
use std::future::pending;
use std::io;
use std::net::SocketAddr;
use std::num::NonZero;
use std::sync::Arc;
use std::time::Duration;
use time::OffsetDateTime;
use tokio::net::TcpListener;
use tokio::sync::Notify;
use tokio_stream::Stream;
use tonic::server::NamedService;
use tonic::service::Routes;

/// Interval at which the files of tokens and certificates are checked without calls.
const REFRESH: Duration = Duration::from_secs(1);

/// Server that listens but does not answer yet.
pub struct Server {
    listener: TcpListener,
    address: SocketAddr,
    answering: Services,
    monitor: Option<Monitor>,
}

/// Services and state of a server, independent of its transport.
pub(crate) struct Services {
    connections: Arc<Connections>,
    tls: Option<Arc<Certificates>>,
    tokens: Option<Arc<Tokens>>,
    meter: Arc<Meter>,
    store: Store,
    data: Location,
    audit: Option<Arc<Audit>>,
    pool: Pool,
    genome: GenomeOptions,
    limits: Limits,
    cache: Arc<MomentCache>,
    budget: Arc<PlanMemory>,
    call_limits: Arc<CallLimits>,
    backend: Arc<dyn Backend<Snapshot>>,
    release_memory: fn(),
    drain_delay: Duration,
}

impl Server {
    /// Time for calls in progress to finish after the server has stopped listening.
    pub const GRACE: Duration = Duration::from_secs(10);

    /// Validates the options without opening the socket or the store. Nothing is written.
    ///
    /// # Errors
    /// Errors of [`bind`](Self::bind), except resources held by another process and damage of stored data.
    pub fn check(options: &Options) -> Result<(), ServeError> {
        check_protection(options)?;
        if let Some(audit) = &options.audit {
            audit
                .check(options.data.home())
                .map_err(ServeError::Audit)?;
        }
        options.data.check()?;
        of_server(options)?;
        Ok(())
    }

    /// Opens the socket and the store. The store is opened last, to leave none behind on failure.
    ///
    /// # Errors
    /// An address beyond loopback without TLS and tokens or client certificates, an unusable certificate, a port in
    /// use, too many threads, a store in use or unreadable, a memory budget that leaves nothing for ciphertext.
    pub async fn bind(options: Options) -> Result<Self, ServeError> {
        let address = options.listen;
        check_protection(&options)?;
        let listen = |source| ServeError::Listen { address, source };
        let listener = TcpListener::bind(address).await.map_err(listen)?;
        let monitor = match options.monitor {
            Some(monitor) => Some(bind_monitor(monitor, &options).await?),
            None => None,
        };
        Ok(Self {
            address: listener.local_addr().map_err(listen)?,
            listener,
            answering: Services::open(options)?,
            monitor,
        })
    }

    /// Delegates counting to remote workers: this server's threads then only plan queries and forward results.
    pub fn counted_by(mut self, dispatch: Arc<dyn Dispatch>) -> Self {
        self.answering.backend = Arc::new(RemoteExecutor::new(dispatch));
        self
    }

    /// Calls `release` when much memory became free and is not needed soon, to release it to the kernel. An allocator
    /// that keeps free memory needs this.
    pub fn with_memory_release(mut self, release: fn()) -> Self {
        self.answering.release_memory = release;
        self
    }

    /// Keeps answering calls and new connections for this long after the health service reports `NOT_SERVING`, for load
    /// balancers to drain. Zero by default.
    pub fn with_drain_delay(mut self, delay: Duration) -> Self {
        self.answering.drain_delay = delay;
        self
    }

    /// Returns the time of the backup that search counts were restored from, if searches are refused until the operator
    /// accepts these counts. Blocks.
    pub fn restored_budgets(&self) -> Option<String> {
        let Services { data, genome, .. } = &self.answering;
        genome.budget?;
        let homes = homes(data.home()).unwrap_or_default();
        let budgets = homes.iter().map(|it| Budgets::open(&data.home().join(it)));
        // Damaged counts are reported when they are used.
        let restored = budgets.filter_map(|it| it.restored().ok()?).min()?;
        tracing::warn!(
            backup = restored,
            "the counts of searches were restored from a backup: nothing is searched on a budget until they are accepted (oboro genome budget) or reset"
        );
        Some(restored)
    }

    /// Returns the address of the socket.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Options of the monitoring listener.
    pub fn monitor(&self) -> Option<SocketAddr> {
        self.monitor.as_ref()?.address().ok()
    }

    /// Serves until `shutdown` completes and the drain delay is over; calls in flight then get some seconds to finish.
    /// The health service reports `SERVING`, without a token, until `shutdown` completes.
    pub async fn serve(self, shutdown: impl Future<Output = ()>) {
        let incoming = accepted(self.listener);
        self.answering.serve(incoming, self.monitor, shutdown).await;
    }
}

/// Opens the socket of the monitoring listener.
async fn bind_monitor(monitor: MonitorOptions, options: &Options) -> Result<Monitor, ServeError> {
    let address = monitor.listen;
    let bound = Monitor::bind(monitor, options.tls.clone()).await;
    bound.map_err(|source| ServeError::Monitor { address, source })
}

/// Refuses to listen beyond loopback without TLS and authentication.
fn check_protection(options: &Options) -> Result<(), ServeError> {
    let names_clients = |tls: &Arc<Certificates>| tls.name_clients() || options.tokens.is_some();
    let is_protected = options.tls.as_ref().is_some_and(names_clients);
    if !options.listen.ip().is_loopback() && !is_protected {
        return Err(ServeError::Unprotected(options.listen));
    }
    // The monitoring listener accepts only tokens.
    let is_protected = options.tls.is_some() && options.tokens.is_some();
    let monitor = options.monitor.map(|it| it.listen);
    if let Some(monitor) = monitor.filter(|it| *it == options.listen && it.port() != 0) {
        return Err(ServeError::SamePort(monitor));
    }
    match monitor.filter(|it| !it.ip().is_loopback() && !is_protected) {
        Some(monitor) => Err(ServeError::UnprotectedMonitor(monitor)),
        None => Ok(()),
    }
}

impl Services {
    /// Starts the compute threads and opens the store, last, to leave none behind on failure. Ignores the options about
    /// the socket.
    ///
    /// # Errors
    /// An unusable certificate, too many threads, a store in use or unreadable, a memory budget that leaves nothing for
    /// ciphertext.
    pub(crate) fn open(options: Options) -> Result<Self, ServeError> {
        let memory = of_server(&options)?;
        let topology = Topology::of_this_machine();
        let threads = options.threads;
        let open = |placement| open(&options, &memory, placement);
        let pin = options.pin;
        let pin = pin.unwrap_or_else(|| Pin::usual(&topology, threads));
        let meter = Arc::new(Meter::default());
        let pool = Pool::start(pin.assignments(&topology, threads), &meter)
            .map_err(|source| ServeError::Threads { threads, source })?;
        let store = placed(&topology, threads, open)?;
        store.set_policy(options.policy);
        let budget = plan_memory(memory.plans, options.limits.queries);
        leave_descriptors(options.limits.connections.all);
        let home = options.data.home();
        let audit = options.audit.map(|it| Audit::open(it, home)).transpose();
        let audit = audit.map_err(ServeError::Audit)?.map(Arc::new);
        Ok(Self {
            connections: Connections::new(options.limits.connections, options.tls.clone()),
            tls: options.tls,
            tokens: options.tokens,
            store,
            pool,
            data: options.data,
            genome: options.genome,
            limits: options.limits,
            meter: Arc::clone(&meter),
            cache: Arc::new(MomentCache::new(options.moment_cache)),
            backend: Arc::new(Cpu::new(topology.distances().clone())),
            release_memory: || {},
            drain_delay: Duration::ZERO,
            call_limits: CallLimits::new(options.limits, memory.messages, &meter, audit.as_ref()),
            audit,
            budget,
        })
    }

    /// Returns access to the datasets of callers without a token.
    pub(crate) fn access(&self) -> Access {
        self.store.access()
    }

    /// Serves calls from `incoming` until `shutdown` completes, as [`Server::serve`] does.
    pub(crate) async fn serve(
        self,
        incoming: impl Stream<Item = io::Result<AcceptedStream>>,
        monitor: Option<Monitor>,
        shutdown: impl Future<Output = ()>,
    ) {
        let message_bytes = self.limits.message_bytes;
        let admission = Arc::new(Admission::new(self.limits));
        let writes = Arc::new(Writes::new(self.data.home()));
        let genomes = Genomes::new(
            self.store.clone(),
            Arc::clone(&writes),
            self.genome,
            self.limits,
            self.pool.queue(),
            Arc::clone(&admission),
            self.release_memory,
        );
        let calls_of_genomes = GenomeServer::new(genomes.clone())
            .max_decoding_message_size(message_bytes)
            .max_encoding_message_size(MAX_MESSAGE_BYTES);
        let counting = Counting {
            store: self.store.clone(),
            queue: self.pool.queue(),
            admission: Arc::clone(&admission),
            limits: self.limits,
            cache: Arc::clone(&self.cache),
            backend: self.backend,
            budget: Arc::clone(&self.budget),
            planning: FairSemaphore::new(ShareLimit::total(1)),
        };
        let scrubs = Arc::<Scrubs>::default();
        let mining = MiningServer::new(Service::new(
            counting,
            Arc::clone(&writes),
            &scrubs,
            self.release_memory,
        ))
        .max_decoding_message_size(message_bytes)
        .max_encoding_message_size(MAX_MESSAGE_BYTES);
        let (times, watches) = (CallTimes::default(), Watches::default());
        let calls = Calls::new(times.clone(), self.audit.clone());
        let authentication = Authentication::new(self.tokens.clone(), self.tls.as_deref());
        let (mining, calls_of_genomes) = (
            Wrapped::new(&self.call_limits, mining),
            Wrapped::new(&self.call_limits, calls_of_genomes),
        );
        let (mining, calls_of_genomes) = (
            Wrapped::new(&authentication, mining),
            Wrapped::new(&authentication, calls_of_genomes),
        );
        let (mut health, health_service) = tonic_health::server::health_reporter();
        health.set_serving::<MiningServer<Service>>().await;
        health.set_serving::<GenomeServer<Genomes>>().await;
        let readiness = Arc::new(Readiness::new(
            self.data.home(),
            &writes,
            self.audit.clone(),
        ));
        let reporting = writes.report(health.clone());
        let stopping = Notify::new();
        let routes = Routes::new(Wrapped::new(&calls, mining))
            .add_service(Wrapped::new(&calls, calls_of_genomes))
            .add_service(Wrapped::new(&Arc::new(watches.clone()), health_service));
        let connections = Arc::clone(&self.connections);
        let serving = connections.serve(routes, incoming, async {
            shutdown.await;
            readiness.stop();
            let services = [
                MiningServer::<Service>::NAME,
                GenomeServer::<Genomes>::NAME,
                WRITES,
                "",
            ];
            if !self.drain_delay.is_zero() {
                say_not_serving(&health, &services).await;
                tokio::time::sleep(self.drain_delay).await;
                tracing::info!("the drain delay is over");
            }
            say_farewell(&mut health, &services).await;
            stopping.notify_one();
        });
        let monitoring = async {
            let Some(monitor) = monitor else {
                return pending().await;
            };
            let sources = Sources {
                home: self.data.home().into(),
                store: self.store.clone(),
                connections: Arc::clone(&self.connections),
                authentication: Arc::clone(&authentication),
                call_limits: Arc::clone(&self.call_limits),
                admission: Arc::clone(&admission),
                watches: watches.clone(),
                queue: self.pool.queue(),
                threads: self.pool.threads(),
                budget: Arc::clone(&self.budget),
                moments: Arc::clone(&self.cache),
                genomes: genomes.clone(),
                meter: Arc::clone(&self.meter),
                tls: self.tls.clone(),
                readiness: Arc::clone(&readiness),
                stored: Mutex::default(),
                samples: Mutex::default(),
                scrubs: Arc::clone(&scrubs),
                times: times.clone(),
                by_namespace: monitor.by_namespace,
            };
            tokio::join!(
                monitor.serve(Arc::new(sources)),
                readiness.watch(&self.store)
            );
        };
        let expiring = expire(self.store.clone(), self.data.home());
        // Calls of revoked tokens end even if no other call arrives.
        let mut watch = ExpiryWatch::new(self.tls.clone(), self.tokens.clone());
        let watching = async {
            let mut ticks = tokio::time::interval(REFRESH);
            loop {
                ticks.tick().await;
                watch.look(OffsetDateTime::now_utc());
            }
        };
        let patience = async {
            stopping.notified().await;
            tokio::time::sleep(Server::GRACE).await;
        };
        tokio::select! {
            () = serving => {}
            () = watching => unreachable!("it does not end"),
            () = expiring => unreachable!("it does not end"),
            () = reporting => unreachable!("it does not end"),
            () = monitoring => unreachable!("it does not end"),
            () = patience => {
                tracing::warn!("calls were still in progress; their callers will have to try again");
            }
        }
    }
}

/// Runs `open` with ciphertext placed on the nodes of a machine. As many threads load it as count, pinned to the same
/// nodes.
pub(crate) fn placed<S>(
    topology: &Topology,
    threads: NonZero<usize>,
    open: impl Fn(Placement) -> Result<S, StoreError>,
) -> Result<S, StoreError> {
    let nodes = topology.nodes().iter().map(|node| node.number).collect();
    let threads = Pin::Node.assignments(topology, threads);
    placed_on(nodes, |placement| {
        open(placement.loaded_by(threads.clone()))
    })
}

/// Runs `open` with ciphertext placed on these nodes, or anywhere if the kernel or a container forbids that.
fn placed_on<S>(
    nodes: Vec<u32>,
    open: impl Fn(Placement) -> Result<S, StoreError>,
) -> Result<S, StoreError> {
    match open(Placement::on(nodes)) {
        Err(StoreError::Residency(ResidencyError::Placement { source })) => {
            tracing::warn!(%source, "datasets lie wherever the kernel puts them, which is slower");
            open(Placement::default())
        }
        opened => opened,
    }
}

fn open(
    options: &Options,
    memory: &ServerMemory,
    placement: Placement,
) -> Result<Store, StoreError> {
    let data = options.data.clone();
    let store = match memory.panels {
        Some(budget) => Store::open_within(data, budget, placement),
        None => Store::open_on(data, placement),
    }?;
    if let Some(headers) = memory.headers {
        store.limit_headers(headers);
    }
    if store.unnamed_objects() > 0 {
        tracing::warn!(
            objects = store.unnamed_objects(),
            "object storage has segments that the catalogue does not name; they stay: an older catalogue was restored, or they are of uploads to another cache"
        );
    }
    Ok(store)
}

#[cfg(test)]
mod tests {
    use super::*;
    use oboro_arena::Allowed;
    use oboro_store::Policy;
    use std::fs;
    use tempfile::TempDir;

    /// Creates a machine with `nodes` nodes of two cores each.
    fn machine(nodes: u32) -> Topology {
        let sys = TempDir::new().unwrap();
        for node in 0..nodes {
            let folder = sys.path().join(format!("devices/system/node/node{node}"));
            fs::create_dir_all(&folder).unwrap();
            let (first, last) = (2 * node, 2 * node + 1);
            fs::write(folder.join("cpulist"), format!("{first}-{last}\n")).unwrap();
            fs::write(folder.join("distance"), "10 ".repeat(nodes as usize)).unwrap();
        }
        Topology::read(sys.path(), &Allowed::cpus(0..2 * nodes)).unwrap()
    }

    #[test]
    fn threads_have_cores_where_they_take_all_of_several_nodes() {
        let usual = |nodes, threads| Pin::usual(&machine(nodes), NonZero::new(threads).unwrap());
        for (nodes, threads, pin) in [
            (1, 2, Pin::Node),
            (2, 3, Pin::Node),
            (2, 4, Pin::Core),
            (2, 9, Pin::Core),
        ] {
            assert_eq!(usual(nodes, threads), pin, "{threads} on {nodes}");
        }
    }

    fn options(directory: &TempDir) -> Options {
        Options {
            data: directory.path().into(),
            listen: "127.0.0.1:0".parse().unwrap(),
            tls: None,
            tokens: None,
            threads: NonZero::<usize>::MIN,
            policy: Policy::default(),
            limits: Limits::default(),
            moment_cache: 0,
            memory: None,
            genome: GenomeOptions::default(),
            pin: None,
            monitor: None,
            audit: None,
        }
    }

    #[test]
    fn where_memory_cannot_be_placed_it_lies_wherever_the_kernel_puts_it() {
        let directory = TempDir::new().unwrap();
        let options = options(&directory);
        for panels in [None, Some(64 << 20)] {
            let memory = ServerMemory {
                panels,
                ..of_server(&options).unwrap()
            };
            for nodes in [vec![0, 1000], vec![0, 0]] {
                placed_on(nodes, |placement| open(&options, &memory, placement)).unwrap();
            }
        }
    }
}
