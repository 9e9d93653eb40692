//! Servers with remote workers: the server, whose work Python dispatches, and the workers.

use crate::call::{Interrupt, run};
use crate::errors::Failure;
use crate::{rows, server};
use oboro_format::wording::{
    MAX_DATASET, MAX_ITEMSETS, MAX_MESSAGE, MAX_QUERIES, MAX_QUERIES_PER_CLIENT, MAX_SEARCH,
    MOMENT_CACHE, QUERY_TIMEOUT, Setting, TLS_CERT, TLS_KEY, Vocabulary,
};
use oboro_server::{
    Certificates, Dispatch, GenomeOptions, Limits, LogLevelError, Options, Policy, Server, Tokens,
    log_directives,
};
use oboro_store::Location;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use std::net::SocketAddr;
use std::num::NonZero;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// Parses the location of a store: a directory, or object storage and the directory of its cache.
fn location(data: String, cache: Option<PathBuf>) -> Result<Location, Failure> {
    match (data.contains("://"), cache) {
        (true, Some(cache)) => Ok(Location::Objects {
            url: data,
            cache,
            cache_bytes: u64::MAX,
        }),
        (false, None) => Ok(Location::Directory(data.into())),
        (true, None) => Err(Failure::input(
            "object storage needs a directory here for cached data; give one as cache",
        )),
        (false, Some(_)) => Err(Failure::input(
            "a cache is for object storage; give its URL, or leave cache out",
        )),
    }
}

fn threads(given: Option<usize>) -> Result<NonZero<usize>, Failure> {
    let nothing = || Failure::input("0 threads do nothing; give at least one");
    let given = given.map(|given| NonZero::new(given).ok_or_else(nothing));
    Ok(rows::threads(given.transpose()?))
}

/// Worker that counts shards for a server with the same storage.
#[pyclass(frozen, module = "oboro._oboro")]
pub struct Worker(oboro_server::Worker);

#[pymethods]
impl Worker {
    #[new]
    #[pyo3(signature = (data, *, cache = None, threads = None, memory = None))]
    fn new(
        py: Python<'_>,
        data: String,
        cache: Option<PathBuf>,
        threads: Option<usize>,
        memory: Option<u64>,
    ) -> Result<Self, Failure> {
        let (location, threads) = (location(data, cache)?, self::threads(threads)?);
        let worker = py.detach(|| oboro_server::Worker::open(location, threads, memory))?;
        Ok(Self(worker))
    }

    /// Returns the moments of `shards` shards from `first` on, or an error, for `Work.deliver`.
    fn count<'py>(
        &self,
        py: Python<'py>,
        manifest: &[u8],
        task: &[u8],
        first: u64,
        shards: u64,
    ) -> Bound<'py, PyBytes> {
        let shards = first..first.saturating_add(shards);
        let partial = py.detach(|| self.0.count(manifest, task, shards));
        PyBytes::new(py, &partial)
    }
}

/// Query whose shards a server wants counted.
#[pyclass(frozen, module = "oboro._oboro")]
pub struct Work(oboro_server::RemoteJob);

#[pymethods]
impl Work {
    /// Returns the manifest of the dataset version, for workers.
    #[getter]
    fn manifest<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, self.0.manifest())
    }

    /// Returns the task, for workers.
    #[getter]
    fn task<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, self.0.task())
    }

    /// Returns the number of shards to count.
    #[getter]
    fn shards(&self) -> u64 {
        self.0.shards()
    }

    /// Returns the bytes of a result per shard.
    #[getter]
    fn shard_bytes(&self) -> u64 {
        self.0.shard_bytes()
    }

    /// Accepts a worker's result. Ignores shards that another worker has delivered. A shard that this worker has
    /// already delivered ends the query.
    fn deliver(&self, py: Python<'_>, worker: &str, first: u64, shards: u64, partial: &[u8]) {
        let given = first..first.saturating_add(shards);
        py.detach(|| self.0.deliver(worker, given, partial.to_vec().into()));
    }

    /// Fails the query: `message` is for the owner, `detail` for the log.
    fn fail(&self, message: &str, detail: &str) {
        self.0.fail(message, detail);
    }

    /// Returns true if shards are missing and the caller still waits.
    #[getter]
    fn is_wanted(&self) -> bool {
        self.0.is_wanted()
    }

    /// Returns true if the queue has space for results.
    #[getter]
    fn has_capacity(&self) -> bool {
        self.0.has_capacity()
    }
}

/// Python function that is called with [`Work`] and must not block.
struct Function(Py<PyAny>);

impl Dispatch for Function {
    fn start(&self, work: oboro_server::RemoteJob) {
        Python::attach(|py| {
            // Dropping the work ends its query.
            if let Err(error) = self.0.call1(py, (Work(work),)) {
                error.print(py);
            }
        });
    }
}

/// Limits that differ from the defaults: keys of a dictionary.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub struct LimitArguments {
    max_message: Option<i128>,
    max_dataset: Option<i128>,
    max_itemsets: Option<i128>,
    max_queries: Option<i128>,
    max_queries_per_client: Option<i128>,
    query_timeout: Option<i128>,
    max_search: Option<i128>,
}

impl LimitArguments {
    /// Returns the limits, checked against the bounds of `oboro serve`.
    fn limits(&self) -> Result<Limits, Failure> {
        let size = |setting, given, usual| number(setting, given, 0..=u64::MAX, usual);
        let count = |setting, given, usual: usize| {
            number(setting, given, 1..=u32::MAX.into(), usual as u64).map(|count| count as usize)
        };
        let usual = Limits::default();
        let (least, most) = Limits::MESSAGE_BYTES.into_inner();
        let message = number(
            MAX_MESSAGE,
            self.max_message,
            least as u64..=most as u64,
            usual.message_bytes as u64,
        )?;
        let seconds = number(
            QUERY_TIMEOUT,
            self.query_timeout,
            1..=u32::MAX.into(),
            usual.query_time.as_secs(),
        )?;
        Ok(Limits {
            message_bytes: message as usize,
            dataset_bytes: size(MAX_DATASET, self.max_dataset, usual.dataset_bytes)?,
            itemsets: count(MAX_ITEMSETS, self.max_itemsets, usual.itemsets)?,
            queries: count(MAX_QUERIES, self.max_queries, usual.queries)?,
            queries_per_client: count(
                MAX_QUERIES_PER_CLIENT,
                self.max_queries_per_client,
                usual.queries_per_client,
            )?,
            query_time: Duration::from_secs(seconds),
            queue_time: usual.queue_time,
            calls_per_second: usual.calls_per_second,
            search_bytes: size(MAX_SEARCH, self.max_search, usual.search_bytes)?,
            connections: usual.connections,
        })
    }
}

/// Returns a setting's number, or its default; checks that it is allowed.
fn number(
    setting: Setting,
    given: Option<i128>,
    allowed: RangeInclusive<u64>,
    usual: u64,
) -> Result<u64, Failure> {
    let Some(given) = given else {
        return Ok(usual);
    };
    let number = u64::try_from(given).ok();
    number
        .filter(|number| allowed.contains(number))
        .ok_or_else(|| {
            let (least, most) = allowed.into_inner();
            Failure::input(format!(
                "{setting} cannot be {given}; give a number from {least} to {most}"
            ))
        })
}

/// Reads the server's certificate and key from files, if it has them.
fn tls(cert: Option<&Path>, key: Option<&Path>) -> Result<Option<Arc<Certificates>>, Failure> {
    match (cert, key) {
        (Some(cert), Some(key)) => {
            let opened = Certificates::open(cert, key, None).map_err(Failure::input)?;
            Ok(Some(Arc::new(opened)))
        }
        (None, None) => Ok(None),
        _ => Err(Failure::input(format!(
            "a server with TLS needs a certificate and its key; give both {TLS_CERT} and {TLS_KEY}, or neither"
        ))),
    }
}

fn accepted(tokens: &Path) -> Result<Arc<Tokens>, Failure> {
    Tokens::open(tokens).map(Arc::new).map_err(Failure::input)
}

/// Names command-line options in this process's messages from now on. For `python -m oboro.ray`, which has its own
/// process.
#[pyfunction]
pub fn speak_as_command() {
    Vocabulary::Command.set();
}

/// Runs a server that counts by calling `start`, until the interrupt is set; calls `listening` with its URL.
#[pyfunction]
#[pyo3(signature = (
    data, start, listening, *, listen, limits, cache = None, tls_cert = None, tls_key = None, tokens = None,
    moment_cache = None, interrupt = None
))]
#[expect(clippy::too_many_arguments, reason = "they are Python's keywords")]
pub fn serve(
    py: Python<'_>,
    data: String,
    start: Py<PyAny>,
    listening: Py<PyAny>,
    listen: &str,
    limits: LimitArguments,
    cache: Option<PathBuf>,
    tls_cert: Option<PathBuf>,
    tls_key: Option<PathBuf>,
    tokens: Option<PathBuf>,
    moment_cache: Option<i128>,
    interrupt: Option<&Interrupt>,
) -> PyResult<()> {
    let tls = tls(tls_cert.as_deref(), tls_key.as_deref())?;
    let scheme = if tls.is_some() { "https" } else { "http" };
    let listen: SocketAddr = listen.parse().map_err(|_| {
        Failure::input(format!(
            "{listen:?} is no ADDRESS:PORT; give one such as 127.0.0.1:7171"
        ))
    })?;
    let options = Options {
        data: location(data, cache)?,
        listen,
        tls,
        tokens: tokens.as_deref().map(accepted).transpose()?,
        threads: rows::threads(None),
        limits: limits.limits()?,
        policy: Policy::default(),
        moment_cache: number(
            MOMENT_CACHE,
            moment_cache,
            0..=u64::MAX,
            server::MOMENT_CACHE,
        )?,
        memory: None,
        genome: GenomeOptions::default(),
        pin: None,
        monitor: None,
        audit: None,
    };
    log().map_err(|error| Failure::input(error.to_string()))?;
    run(py, None, interrupt, |call| {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .enable_all()
            .build()
            .map_err(|error| {
                Failure::input(format!(
                    "cannot start the server's threads: {error}; check the limits of this process"
                ))
            })?;
        let served: Result<(), Failure> = runtime.block_on(async {
            let server = Server::bind(options).await?;
            let url = format!("{scheme}://{}", server.address());
            Python::attach(|py| listening.call1(py, (url,))).map_err(Failure::raised)?;
            let server = server.counted_by(Arc::new(Function(start)));
            let interrupt = call.interrupt();
            server
                .serve(async move { interrupt.cancelled().await })
                .await;
            Ok(())
        });
        served
    })
}

/// Writes the log to standard error, as `oboro serve` does; OBORO_LOG sets the level.
///
/// # Errors
/// A value of `OBORO_LOG` that names no level.
fn log() -> Result<(), LogLevelError> {
    let filter = log_directives()?;
    // Keep an existing logger.
    let _ = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_ansi(false)
        .try_init();
    Ok(())
}
