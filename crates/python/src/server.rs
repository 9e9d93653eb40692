//! Server, remote or in this process.

use crate::call::{self, Call, Interrupt};
use crate::encrypted::Encrypted;
use crate::errors::Failure;
use crate::rows::threads;
use oboro_client::{Connection, Identity, note_uploaded, upload};
use oboro_format::Bundle;
use oboro_format::wording::{CLIENT_CERT, CLIENT_KEY};
use oboro_server::{GenomeOptions, Limits, Local, Options, Policy};
use oboro_store::Access;
use parking_lot::Mutex;
use pyo3::prelude::*;
use std::fs::{self, Permissions};
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::num::NonZeroUsize;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;
use std::{mem, process};
use tempfile::TempDir;

/// Name in messages of a server without an address.
const LOCAL: &str = "local";
/// Default moment cache of a local server, equal to that of `oboro serve`.
pub const MOMENT_CACHE: u64 = 256 << 20;

/// Connection to a server, in this process or remote.
#[pyclass(frozen, module = "oboro._oboro")]
pub struct Server {
    url: String,
    link: Mutex<Option<Link>>,
    /// Process that opened it: a fork lacks its threads.
    process: u32,
}

/// Open connection, dropped in this order.
struct Link {
    connection: Connection,
    local: Option<(Local, TempDir)>,
}

/// Published dataset: name, version, root hash, columns including check columns, blocks, bytes, longest itemsets.
type DatasetRow = (String, u64, String, u32, u64, u64, u8);

#[pymethods]
impl Server {
    /// Connects to the server at `url`, with a token or a client certificate, if any. `tls` is a file of CA
    /// certificates in PEM to trust instead of the system's.
    #[staticmethod]
    #[pyo3(signature = (url, *, token = None, tls = None, client_cert = None, client_key = None, interrupt = None))]
    fn connect(
        py: Python<'_>,
        url: String,
        token: Option<String>,
        tls: Option<PathBuf>,
        client_cert: Option<PathBuf>,
        client_key: Option<PathBuf>,
        interrupt: Option<&Interrupt>,
    ) -> PyResult<Self> {
        let connection = call::run(py, None, interrupt, |call| {
            let options = oboro_client::Options {
                url: url.clone(),
                token,
                certificates: tls.as_deref().map(certificates).transpose()?,
                identity: identity(client_cert.as_deref(), client_key.as_deref())?,
                waits: Some(call::waits),
            };
            Ok::<_, Failure>(Connection::open_unless(&call.interrupt(), &options)?)
        })?;
        Ok(Self::new(url, connection, None))
    }

    /// Starts a server in this process with the given number of threads and memory limits, in total and for cached
    /// moments.
    #[staticmethod]
    #[pyo3(signature = (*, threads = None, memory = None, moment_cache = None))]
    fn local(
        py: Python<'_>,
        threads: Option<NonZeroUsize>,
        memory: Option<u64>,
        moment_cache: Option<u64>,
    ) -> Result<Self, Failure> {
        py.detach(|| {
            let directory = private_directory().map_err(Failure::storage)?;
            let local = Local::start(Options {
                moment_cache: moment_cache.unwrap_or(MOMENT_CACHE),
                memory,
                ..options(directory.path(), threads)
            })?;
            let connector = local.connector();
            let connection = Connection::through(LOCAL, move || connector.connect())?;
            Ok(Self::new(
                LOCAL.to_owned(),
                connection,
                Some((local, directory)),
            ))
        })
    }

    /// Returns the address as given.
    #[getter]
    fn url(&self) -> &str {
        &self.url
    }

    /// Uploads a dataset under a name; returns the published version and the bytes sent.
    #[pyo3(signature = (encrypted, name, *, progress = None, interrupt = None))]
    fn upload(
        &self,
        py: Python<'_>,
        encrypted: &Encrypted,
        name: &str,
        progress: Option<Bound<'_, PyAny>>,
        interrupt: Option<&Interrupt>,
    ) -> PyResult<(u64, u64)> {
        let dataset = encrypted.dataset();
        let (connection, access) = self.connection_and_access()?;
        call::run(py, progress, interrupt, |call| match access {
            Some(access) => import(&access, name, dataset.bundle(), call),
            None => send(&connection, name, dataset.bundle(), call),
        })
    }

    /// Returns the published datasets, and a message about each damaged one.
    #[pyo3(signature = (*, interrupt = None))]
    fn datasets(
        &self,
        py: Python<'_>,
        interrupt: Option<&Interrupt>,
    ) -> PyResult<(Vec<DatasetRow>, Vec<String>)> {
        let connection = self.connection()?;
        let listing = call::run(py, None, interrupt, |call| {
            let connection = connection.interrupted_by(call.interrupt());
            Ok::<_, Failure>(connection.datasets()?)
        })?;
        let listed = listing.datasets.into_iter().map(|info| {
            let root = info.root.to_string();
            let (name, version, columns) = (info.name, info.version, info.columns);
            (
                name,
                version,
                root,
                columns,
                info.blocks,
                info.stored_bytes,
                info.max_len,
            )
        });
        Ok((listed.collect(), listing.damaged))
    }

    /// Deletes a dataset, permanently if `now` is true.
    #[pyo3(signature = (name, now, *, interrupt = None))]
    fn delete(
        &self,
        py: Python<'_>,
        name: &str,
        now: bool,
        interrupt: Option<&Interrupt>,
    ) -> PyResult<()> {
        let connection = self.connection()?;
        call::run(py, None, interrupt, |call| {
            let connection = connection.interrupted_by(call.interrupt());
            Ok::<_, Failure>(connection.delete(name, now)?)
        })
    }

    /// Restores a deleted dataset.
    #[pyo3(signature = (name, new_name, *, interrupt = None))]
    fn undelete(
        &self,
        py: Python<'_>,
        name: &str,
        new_name: Option<&str>,
        interrupt: Option<&Interrupt>,
    ) -> PyResult<()> {
        let connection = self.connection()?;
        call::run(py, None, interrupt, |call| {
            let connection = connection.interrupted_by(call.interrupt());
            connection.undelete(name, new_name)?;
            Ok::<_, Failure>(())
        })
    }

    /// Closes the connection once no call uses it. A local server stops immediately, and its data are deleted.
    fn close(&self, py: Python<'_>) {
        match self.check_process() {
            Ok(()) => py.detach(|| drop(self.link.lock().take())),
            Err(_) => self.forget(),
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if self.check_process().is_err() {
            self.forget();
        }
    }
}

impl Server {
    fn new(url: String, connection: Connection, local: Option<(Local, TempDir)>) -> Self {
        Self {
            url,
            link: Mutex::new(Some(Link { connection, local })),
            process: process::id(),
        }
    }

    /// Checks that this process opened the server.
    ///
    /// # Errors
    /// A fork of the process that opened the server.
    fn check_process(&self) -> Result<(), Failure> {
        if self.process == process::id() {
            Ok(())
        } else {
            Err(Failure::forked())
        }
    }

    /// Returns the connection, unless the server has been closed.
    pub fn connection(&self) -> Result<Connection, Failure> {
        self.check_process()?;
        match &*self.link.lock() {
            Some(link) => Ok(link.connection.clone()),
            None => Err(Failure::closed()),
        }
    }

    /// As [`connection`](Self::connection), with direct access to the datasets of a local server.
    fn connection_and_access(&self) -> Result<(Connection, Option<Access>), Failure> {
        self.check_process()?;
        match &*self.link.lock() {
            Some(Link { connection, local }) => {
                let access = local.as_ref().map(|(local, _)| local.access());
                Ok((connection.clone(), access))
            }
            None => Err(Failure::closed()),
        }
    }

    /// Leaks the connection in a fork. The lock may be held by a thread that exists only in the process that opened it.
    fn forget(&self) {
        if let Some(mut link) = self.link.try_lock() {
            mem::forget(link.take());
        }
    }

    /// Returns the data directory of a local server.
    pub fn data(&self) -> Result<PathBuf, Failure> {
        match &*self.link.lock() {
            Some(Link {
                local: Some((_, directory)),
                ..
            }) => Ok(directory.path().to_owned()),
            Some(_) => Err(Failure::input(
                "genomes are loaded where the server is: run `oboro genome load` there",
            )),
            None => Err(Failure::closed()),
        }
    }
}

/// Publishes a bundle in the store of a local server, without a transfer.
fn import(
    access: &Access,
    name: &str,
    bundle: &Bundle,
    call: &Call,
) -> Result<(u64, u64), Failure> {
    let published = access.import(name, bundle).map_err(Failure::refused)?;
    note_uploaded(bundle);
    let bytes = bundle.manifest().segment_bytes();
    // The work is done; a late cancellation changes nothing.
    let _ = call.advance(bytes, bytes);
    Ok((published.version, 0))
}

/// Publishes a bundle on the server; returns the version and the bytes sent.
fn send(
    connection: &Connection,
    name: &str,
    bundle: &Bundle,
    call: &Call,
) -> Result<(u64, u64), Failure> {
    let connection = connection.interrupted_by(call.interrupt());
    // The connection observes the interrupt itself.
    let progress = |done, total| {
        let _ = call.advance(done, total);
    };
    let uploaded = upload(&connection, bundle, name, &progress)?;
    Ok((uploaded.version, uploaded.sent_bytes))
}

/// Creates a directory private to this user; it contains names of datasets in the clear.
fn private_directory() -> io::Result<TempDir> {
    tempfile::Builder::new()
        .prefix("oboro-")
        .permissions(Permissions::from_mode(0o700))
        .tempdir()
}

fn certificates(path: &Path) -> Result<Vec<u8>, Failure> {
    fs::read(path).map_err(|error| {
        Failure::input(format!(
            "cannot read the certificates at {}: {error}; check the path",
            path.display()
        ))
    })
}

/// Reads a client certificate and its key, if given.
///
/// # Errors
/// One of them without the other, unusable files.
fn identity(certificate: Option<&Path>, key: Option<&Path>) -> Result<Option<Identity>, Failure> {
    match (certificate, key) {
        (Some(certificate), Some(key)) => Ok(Some(Identity::read(certificate, key)?)),
        (None, None) => Ok(None),
        _ => Err(Failure::input(format!(
            "{CLIENT_CERT} and {CLIENT_KEY} belong together; give both, or neither"
        ))),
    }
}

fn options(data: &Path, wanted: Option<NonZeroUsize>) -> Options {
    let limits = Limits::default();
    Options {
        data: data.into(),
        listen: SocketAddr::from((Ipv4Addr::LOCALHOST, 0)),
        tls: None,
        tokens: None,
        threads: threads(wanted),
        limits: Limits {
            queries_per_client: limits.queries,
            ..limits
        },
        // It belongs to this process, and ends with it.
        policy: Policy {
            keep_deleted: Duration::ZERO,
            ..Policy::default()
        },
        moment_cache: MOMENT_CACHE,
        memory: None,
        genome: GenomeOptions::default(),
        pin: None,
        monitor: None,
        audit: None,
    }
}
