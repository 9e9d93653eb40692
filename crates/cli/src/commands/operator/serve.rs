//! `oboro serve`: settings, signals and shutdown of a server.

use super::location::location;
use crate::arguments::ThreadArguments;
use crate::failure::{Failure, Outcome};
use crate::output::Output;
use crate::settings::Settings;
use bytesize::ByteSize;
use clap::{ValueEnum, value_parser};
use oboro_server::{
    AuditOptions, Certificates, ConnectionLimits, GenomeOptions, Limits, LogLevelError,
    MonitorOptions, Options, Pin, Policy, Quota, Server, Tokens, log_directives,
};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use serde_json::json;
use std::fmt::Write;
use std::io::{self, IsTerminal};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::thread;
use std::time::Duration;
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

#[derive(clap::Args)]
#[command(
    after_help = "Every flag but --config and --check-config can also be set in the file, without the dashes before it \
    (max-queries = 32, genome-counts = true), or in the environment (OBORO_SERVE_MAX_QUERIES=32). The command line takes \
    precedence over the environment, and the environment over the file."
)]
pub struct Arguments {
    // settings.rs reads this before the other settings.
    /// Read settings from this file, in TOML; OBORO_SERVE_CONFIG names it as well.
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Check the settings, the files that they name and the location of the data, print each setting in force with its
    /// source, and exit. Writes nothing and opens no port.
    #[arg(long)]
    check_config: bool,
    /// Location of the datasets: a directory, or object storage as s3://BUCKET/PREFIX (settings in AWS_* variables) or
    /// file:///DIRECTORY.
    #[arg(long, value_name = "DIR|URL")]
    data: PathBuf,
    /// Directory for uploads in progress and for a cache of fetched data, with object storage.
    #[arg(long, value_name = "DIR")]
    cache: Option<PathBuf>,
    /// Size limit of that cache [default: none].
    #[arg(long, value_name = "SIZE", requires = "cache")]
    cache_size: Option<ByteSize>,
    /// Address to listen on. Beyond loopback, TLS and tokens or client certificates are required.
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:7171")]
    listen: SocketAddr,
    /// The server's certificate chain, in PEM.
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    tls_cert: Option<PathBuf>,
    /// The certificate's private key, in PEM.
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    tls_key: Option<PathBuf>,
    /// Admit clients with a certificate of one of the authorities in this PEM file, under its common name; without
    /// --tokens, no others. The file may hold revocation lists, and is read again when it changes.
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    client_ca: Option<PathBuf>,
    /// Require callers to present a token whose hash is in this file, made by `oboro token new`. The file is read again
    /// when it changes.
    #[arg(long, value_name = "FILE")]
    tokens: Option<PathBuf>,
    #[command(flatten)]
    threads: ThreadArguments,
    /// Size of the cache of moments; 0 for none.
    #[arg(long, value_name = "SIZE", default_value = "256MiB")]
    moment_cache: ByteSize,
    /// Memory limit of the process, the cache of moments included. Of larger datasets, it keeps the panels that save
    /// most reads and reads the rest from disk [default: everything used stays in memory].
    #[arg(long, value_name = "SIZE")]
    memory: Option<ByteSize>,
    /// Pin each compute thread to a core, or to a NUMA node [default: core with several nodes and a thread for each
    /// core, else node]. Several servers on one machine choose the same cores: restrict each to its own (taskset), or
    /// pin to nodes.
    #[arg(long, value_enum)]
    pin: Option<PinArgument>,
    #[command(flatten)]
    limits: LimitArguments,
    #[command(flatten)]
    keeping: KeepingArguments,
    #[command(flatten)]
    genome: GenomeArguments,
    #[command(flatten)]
    monitor: MonitorArguments,
    #[command(flatten)]
    audit: AuditArguments,
    /// Format of the log on standard error; OBORO_LOG sets the level (error, warn, info, debug).
    #[arg(long, value_enum, default_value_t = LogFormat::Text)]
    log_format: LogFormat,
    /// Seconds to answer calls and new connections after SIGTERM or SIGINT while the health service reports
    /// NOT_SERVING. A load balancer removes the server during this time.
    #[arg(long, value_name = "SECONDS", default_value_t = 0)]
    drain_delay: u32,
}

#[derive(Clone, Copy, ValueEnum)]
enum PinArgument {
    Core,
    Node,
}

impl From<PinArgument> for Pin {
    fn from(pin: PinArgument) -> Self {
        match pin {
            PinArgument::Core => Self::Core,
            PinArgument::Node => Self::Node,
        }
    }
}

/// Limits on requests.
#[derive(clap::Args)]
struct LimitArguments {
    /// Maximum size of a message, 1MiB to 72MiB.
    #[arg(long, value_name = "SIZE", default_value = "72MiB", value_parser = message_size)]
    max_message: ByteSize,
    /// Maximum size of one dataset in the store.
    #[arg(long, value_name = "SIZE", default_value = "1TiB")]
    max_dataset: ByteSize,
    /// Maximum number of itemsets in one query; never more than 2^(20 - length).
    #[arg(long, value_name = "N", default_value_t = 524_288, value_parser = value_parser!(u32).range(1..))]
    max_itemsets: u32,
    /// Maximum number of queries in progress.
    #[arg(long, value_name = "N", default_value_t = 64, value_parser = value_parser!(u32).range(1..))]
    max_queries: u32,
    /// Maximum number of queries of one client in progress.
    #[arg(long, value_name = "N", default_value_t = 16, value_parser = value_parser!(u32).range(1..))]
    max_queries_per_client: u32,
    /// Seconds that a call may wait for a permit before it is refused with a retryable error; 0 refuses at once.
    #[arg(long, value_name = "SECONDS", default_value_t = 10)]
    queue_timeout: u32,
    /// Maximum number of calls per second from one client, with bursts of five times as many after quiet seconds.
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = value_parser!(u32).range(1..))]
    max_calls_per_second: u32,
    /// Seconds after which a query is cancelled, counted from its admission.
    #[arg(long, value_name = "SECONDS", default_value_t = 3600, value_parser = value_parser!(u32).range(1..))]
    query_timeout: u32,
    /// Maximum bytes of one genome search, query and answers together.
    #[arg(long, value_name = "SIZE", default_value = "1GiB")]
    max_search: ByteSize,
    #[command(flatten)]
    connections: ConnectionArguments,
}

/// Limits on connections.
#[derive(clap::Args)]
struct ConnectionArguments {
    /// Maximum number of connections. A further one closes an unauthenticated or idle one, or one of the name with the
    /// most.
    #[arg(long, value_name = "N", default_value_t = 4096, value_parser = value_parser!(u32).range(1..))]
    max_connections: u32,
    /// Maximum number of connections from one address (64 bits of it for IPv6) before authentication, and of one name.
    #[arg(long, value_name = "N", default_value_t = 256, value_parser = value_parser!(u32).range(1..))]
    max_connections_per_address: u32,
    /// Seconds from accepting a connection to its first call, the TLS handshake included.
    #[arg(long, value_name = "SECONDS", default_value_t = 10, value_parser = value_parser!(u32).range(1..))]
    handshake_timeout: u32,
    /// Seconds after which a connection without a call is closed.
    #[arg(long, value_name = "SECONDS", default_value_t = 300, value_parser = value_parser!(u32).range(1..))]
    idle_timeout: u32,
}

impl ConnectionArguments {
    fn limits(&self) -> ConnectionLimits {
        ConnectionLimits {
            all: self.max_connections as usize,
            per_address: self.max_connections_per_address as usize,
            handshake: Duration::from_secs(self.handshake_timeout.into()),
            idle: Duration::from_secs(self.idle_timeout.into()),
            ..ConnectionLimits::default()
        }
    }
}

/// Retention and quotas.
#[derive(clap::Args)]
struct KeepingArguments {
    /// Days for which deleted datasets can be undeleted; 0 deletes permanently at once.
    #[arg(long, value_name = "DAYS", default_value_t = 7)]
    keep_deleted: u32,
    /// Days without progress after which an unfinished upload is cancelled.
    #[arg(long, value_name = "DAYS", default_value_t = 7, value_parser = value_parser!(u32).range(1..))]
    keep_uploads: u32,
    /// Maximum bytes stored by one owner, deleted datasets included [default: no limit].
    #[arg(long, value_name = "SIZE")]
    owner_bytes: Option<ByteSize>,
    /// Maximum number of datasets stored by one owner [default: no limit].
    #[arg(long, value_name = "N")]
    owner_datasets: Option<u64>,
    /// Maximum number of unfinished uploads of one owner.
    #[arg(long, value_name = "N", default_value_t = 64, value_parser = value_parser!(u64).range(1..))]
    owner_uploads: u64,
}

impl KeepingArguments {
    fn policy(&self) -> Policy {
        let days = |days: u32| Duration::from_secs(u64::from(days) * 24 * 60 * 60);
        Policy {
            keep_deleted: days(self.keep_deleted),
            keep_uploads: days(self.keep_uploads),
            quota: Quota {
                bytes: self.owner_bytes.map(|it| it.as_u64()),
                datasets: self.owner_datasets,
                uploads: Some(self.owner_uploads),
            },
        }
    }
}

/// Limits on genome searches.
#[derive(clap::Args)]
struct GenomeArguments {
    /// Let callers count matching haplotypes or offsets, which reveals more than whether one matches.
    #[arg(long)]
    genome_counts: bool,
    /// Maximum number of searches of each client in each panel or reference, decoys included, until `oboro genome
    /// reset` [default: no limit].
    #[arg(long, value_name = "N")]
    genome_budget: Option<u64>,
    /// Maximum size of a reference to search, at one byte per base; the bytes of an answer grow with it.
    #[arg(long, value_name = "SIZE", default_value = "1MB")]
    genome_reference_limit: ByteSize,
    /// Size of the cache of prepared genomes. Searches in progress take as much again; one that needs more takes both
    /// alone.
    #[arg(long, value_name = "SIZE", default_value = "256MiB")]
    genome_cache: ByteSize,
}

impl GenomeArguments {
    fn options(&self) -> GenomeOptions {
        GenomeOptions {
            counts: self.genome_counts,
            budget: self.genome_budget,
            reference_limit: self.genome_reference_limit.as_u64(),
            cache: self.genome_cache.as_u64(),
        }
    }
}

impl Arguments {
    /// Returns the server's options, with certificates and tokens read from their files.
    fn options(&self) -> Result<Options, Failure> {
        let tls = match (&self.tls_cert, &self.tls_key) {
            (Some(certificate), Some(key)) => {
                let clients = self.client_ca.as_deref();
                Some(Arc::new(Certificates::open(certificate, key, clients)?))
            }
            _ => None,
        };
        let tokens = self.tokens.as_deref().map(Tokens::open).transpose()?;
        Ok(Options {
            data: location(&self.data, self.cache.as_deref(), self.cache_size)?,
            listen: self.listen,
            tls,
            tokens: tokens.map(Arc::new),
            threads: self.threads.count(),
            limits: self.limits.limits(),
            policy: self.keeping.policy(),
            moment_cache: self.moment_cache.as_u64(),
            memory: self.memory.map(|memory| memory.as_u64()),
            genome: self.genome.options(),
            pin: self.pin.map(Pin::from),
            monitor: self.monitor.options(),
            audit: self.audit.options(),
        })
    }
}

/// Metrics and probes for operators.
#[derive(clap::Args)]
struct MonitorArguments {
    /// Serve metrics (/metrics, for Prometheus), probes (/livez, /readyz) and a status page (/) by HTTP at this
    /// address, such as 127.0.0.1:7172. Beyond loopback, this requires TLS, and metrics require a token with the role
    /// operate.
    #[arg(long, value_name = "ADDRESS:PORT")]
    monitor: Option<SocketAddr>,
    /// Add metrics by namespace: usage and storage.
    #[arg(long, requires = "monitor")]
    monitor_namespaces: bool,
}

impl MonitorArguments {
    fn options(&self) -> Option<MonitorOptions> {
        self.monitor.map(|listen| MonitorOptions {
            listen,
            by_namespace: self.monitor_namespaces,
        })
    }
}

/// The audit log.
#[derive(clap::Args)]
struct AuditArguments {
    /// Write an audit log to this file, a line of JSON for each call: its caller, action and dataset. While the file
    /// cannot be written, no call is started.
    #[arg(long, value_name = "FILE")]
    audit_log: Option<PathBuf>,
    /// Maximum size of the audit log, which is then renamed to FILE.1 and on.
    #[arg(
        long,
        value_name = "SIZE",
        default_value = "64MiB",
        requires = "audit_log",
        value_parser = audit_size
    )]
    audit_log_size: ByteSize,
    /// Number of renamed audit logs to keep.
    #[arg(long, value_name = "N", default_value_t = 16, requires = "audit_log")]
    audit_log_keep: u32,
}

impl AuditArguments {
    fn options(&self) -> Option<AuditOptions> {
        self.audit_log.clone().map(|path| AuditOptions {
            path,
            bytes: self.audit_log_size.as_u64(),
            keep: self.audit_log_keep,
        })
    }
}

#[derive(Clone, Copy, ValueEnum)]
enum LogFormat {
    Text,
    Json,
}

impl LimitArguments {
    fn limits(&self) -> Limits {
        Limits {
            message_bytes: self.max_message.as_u64() as usize,
            dataset_bytes: self.max_dataset.as_u64(),
            itemsets: self.max_itemsets as usize,
            queries: self.max_queries as usize,
            queries_per_client: self.max_queries_per_client as usize,
            query_time: Duration::from_secs(self.query_timeout.into()),
            queue_time: Duration::from_secs(self.queue_timeout.into()),
            calls_per_second: self.max_calls_per_second,
            search_bytes: self.max_search.as_u64(),
            connections: self.connections.limits(),
        }
    }
}

fn audit_size(given: &str) -> Result<ByteSize, String> {
    let size: ByteSize = given.parse()?;
    if size >= ByteSize::kib(4) {
        Ok(size)
    } else {
        Err("give 4KiB or more".to_owned())
    }
}

fn message_size(given: &str) -> Result<ByteSize, String> {
    let size: ByteSize = given.parse()?;
    if Limits::MESSAGE_BYTES.contains(&(size.as_u64() as usize)) {
        Ok(size)
    } else {
        Err("give a size from 1MiB to 72MiB".to_owned())
    }
}

/// Starts logging to standard error.
///
/// # Errors
/// A value of `OBORO_LOG` that is not a level.
fn log(format: LogFormat) -> Result<(), LogLevelError> {
    let log = tracing_subscriber::fmt()
        .with_env_filter(log_directives()?)
        .with_writer(std::io::stderr);
    match format {
        LogFormat::Text => log.with_ansi(std::io::stderr().is_terminal()).init(),
        LogFormat::Json => log.json().with_span_list(false).init(),
    }
    Ok(())
}

/// Raises the descriptor limit to the maximum: each connection needs one, and the rest keeps segment files open.
fn raise_file_limit() {
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit {
        current: limit.maximum,
        ..limit
    };
    if let Err(error) = setrlimit(Resource::Nofile, raised) {
        tracing::warn!(%error, "cannot raise the limit on open files");
    }
}

/// Serves, or prints the effective settings.
pub fn run(arguments: &Arguments, settings: &Settings, output: Output) -> Outcome {
    log(arguments.log_format)?;
    let options = arguments.options()?;
    if arguments.check_config {
        Server::check(&options)?;
        return output.result(&settings.json(), || settings.text());
    }
    let delay = Duration::from_secs(arguments.drain_delay.into());
    serve(options, delay, output)
}

/// Time for abandoned work to end, after the grace period of calls in progress.
const LAST_WORK: Duration = Duration::from_secs(10);

fn serve(options: Options, drain_delay: Duration, output: Output) -> Outcome {
    raise_file_limit();
    let (tls, tokens) = (options.tls.clone(), options.tokens.clone());
    let scheme = if tls.is_some() { "https" } else { "http" };
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()?;
    runtime.block_on(async {
        let server = Server::bind(options).await?;
        let server = server
            .with_memory_release(crate::allocator::release_memory)
            .with_drain_delay(drain_delay);
        let url = format!("{scheme}://{}", server.address());
        let mut value = json!({ "listening": url });
        let mut text = format!("listening on {url}");
        if let Some(copied) = server.restored_budgets() {
            let _ = write!(
                text,
                "; search counts were restored from a backup of {copied}, and searches on a budget are refused until \
                 `oboro genome budget --accept-restored`"
            );
            value["restored_budgets"] = copied.into();
        }
        if let Some(monitor) = server.monitor() {
            let url = format!("{}://{monitor}", if monitor.ip().is_loopback() { "http" } else { scheme });
            let _ = write!(text, "; metrics and probes on {url}");
            value["monitor"] = url.into();
        }
        // Signals may arrive as soon as the address is printed.
        let mut hangup = signal(SignalKind::hangup())?;
        let stop = stop_signals(drain_delay)?;
        ignore_user_signals()?;
        output.result(&value, || format!("{text}\n"))?;
        tokio::spawn(async move {
            while hangup.recv().await.is_some() {
                tokens.iter().for_each(|it| it.refresh());
                tls.iter().for_each(|it| it.refresh());
            }
        });
        server.serve(async move { stop.cancelled().await }).await;
        Ok(())
    })
}

/// Returns a token that the first SIGTERM or SIGINT cancels. A second one ends the process immediately, as does the end
/// of the grace period: a hanging disk read cannot be cancelled otherwise.
fn stop_signals(drain_delay: Duration) -> io::Result<CancellationToken> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut next = async move || {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
    };
    let stop = CancellationToken::new();
    let stopped = stop.clone();
    tokio::spawn(async move {
        next().await;
        tracing::info!("shutting down; a second signal exits at once");
        thread::spawn(move || {
            thread::sleep(drain_delay + Server::GRACE + LAST_WORK);
            tracing::error!(
                "work is still in progress, perhaps a hanging read; exiting without it"
            );
            end();
        });
        stopped.cancel();
        next().await;
        end();
    });
    Ok(stop)
}

/// Ends the process. Files on disk are complete or resumable: no cleanup is needed.
fn end() -> ! {
    std::process::exit(1)
}

/// Logs SIGUSR1 and SIGUSR2, whose default action ends a process.
fn ignore_user_signals() -> io::Result<()> {
    for kind in [SignalKind::user_defined1(), SignalKind::user_defined2()] {
        let mut received = signal(kind)?;
        tokio::spawn(async move {
            while received.recv().await.is_some() {
                tracing::info!(
                    "ignored a signal: files are read again on SIGHUP or when they change, and a new audit log is started after a rename"
                );
            }
        });
    }
    Ok(())
}
