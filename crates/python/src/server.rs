//! A server, reached over the network or running within this process.

use crate::call::{self, Call, Interrupt};
use crate::encrypted::Encrypted;
use crate::errors::Failure;
use crate::rows::threads;
use oboro_client::{Connection, upload};
use oboro_format::Bundle;
use oboro_server::{GenomeOptions, Limits, Local, Options};
use oboro_store::Access;
use parking_lot::Mutex;
use pyo3::prelude::*;
use std::fs::{self, Permissions};
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::num::NonZeroUsize;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::{mem, process};
use tempfile::TempDir;

/// What messages call a server that has no address.
const LOCAL: &str = "local";
/// What a local server keeps of moments, like one on the network that was told nothing.
pub const MOMENT_CACHE: u64 = 256 << 20;

/// A connection to a server, which is within this process or elsewhere.
#[pyclass(frozen, module = "oboro._oboro")]
pub struct Server {
    url: String,
    link: Mutex<Option<Link>>,
    /// The process that it works in: a fork of that has no threads to answer.
    process: u32,
}

/// What there is until the server is closed, dropped in this order.
struct Link {
    connection: Connection,
    local: Option<(Local, TempDir)>,
}

/// A published dataset: name, version, root hash, columns check columns included, blocks, bytes, longest
/// itemsets.
type Listed = (String, u64, String, u32, u64, u64, u8);

#[pymethods]
impl Server {
    /// Connects to the server at `url`, bearing a token if there is one; certificates in PEM at `tls` vouch for
    /// the server, instead of those that the system trusts.
    #[staticmethod]
    #[pyo3(signature = (url, *, token = None, tls = None, interrupt = None))]
    fn connect(
        py: Python<'_>,
        url: String,
        token: Option<String>,
        tls: Option<PathBuf>,
        interrupt: Option<&Interrupt>,
    ) -> PyResult<Self> {
        let connection = call::run(py, None, interrupt, |call| {
            let options = oboro_client::Options {
                url: url.clone(),
                token,
                certificates: tls.as_deref().map(certificates).transpose()?,
            };
            Ok::<_, Failure>(Connection::open_unless(&call.interrupt(), &options)?)
        })?;
        Ok(Self::new(url, connection, None))
    }

    /// Starts a server within this process, which counts on so many threads and holds so many bytes in memory,
    /// of them so many of moments for later questions.
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

    /// The address as it was given.
    #[getter]
    fn url(&self) -> &str {
        &self.url
    }

    /// Uploads a dataset under a name; the published version and the bytes sent.
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

    /// The published datasets, and a sentence about each that is damaged.
    #[pyo3(signature = (*, interrupt = None))]
    fn datasets(
        &self,
        py: Python<'_>,
        interrupt: Option<&Interrupt>,
    ) -> PyResult<(Vec<Listed>, Vec<String>)> {
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

    /// Deletes a dataset for good.
    #[pyo3(signature = (name, *, interrupt = None))]
    fn delete(&self, py: Python<'_>, name: &str, interrupt: Option<&Interrupt>) -> PyResult<()> {
        let connection = self.connection()?;
        call::run(py, None, interrupt, |call| {
            let connection = connection.interrupted_by(call.interrupt());
            Ok::<_, Failure>(connection.delete(name)?)
        })
    }

    /// Closes the connection once no call needs it. A local server stops at once, and its data go away.
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

    /// # Errors
    /// This is a fork of the process that the server was opened in.
    fn check_process(&self) -> Result<(), Failure> {
        if self.process == process::id() {
            Ok(())
        } else {
            Err(Failure::forked())
        }
    }

    /// The connection, unless the server has been closed.
    pub fn connection(&self) -> Result<Connection, Failure> {
        self.check_process()?;
        match &*self.link.lock() {
            Some(link) => Ok(link.connection.clone()),
            None => Err(Failure::closed()),
        }
    }

    /// The same, and the way to the datasets of a local server.
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

    /// Leaves everything to the process that opened it. The lock may be held by a thread that only that has.
    fn forget(&self) {
        if let Some(mut link) = self.link.try_lock() {
            mem::forget(link.take());
        }
    }

    /// Where a local server has its data.
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

/// Publishes a bundle in the store of a local server, where nothing has to be sent.
fn import(
    access: &Access,
    name: &str,
    bundle: &Bundle,
    call: &Call,
) -> Result<(u64, u64), Failure> {
    let published = access.import(name, bundle).map_err(Failure::refused)?;
    let bytes = bundle.manifest().segment_bytes();
    // It is done, whoever waits.
    let _ = call.advance(bytes, bytes);
    Ok((published.version, 0))
}

/// Publishes a bundle at the server; the version and the bytes that went there.
fn send(
    connection: &Connection,
    name: &str,
    bundle: &Bundle,
    call: &Call,
) -> Result<(u64, u64), Failure> {
    let connection = connection.interrupted_by(call.interrupt());
    // What is interrupted hears of it from the connection.
    let progress = |done, total| {
        let _ = call.advance(done, total);
    };
    let uploaded = upload(&connection, bundle, name, &progress)?;
    Ok((uploaded.version, uploaded.sent_bytes))
}

/// A directory that only this user can look into; names of datasets are there in the clear.
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
        moment_cache: MOMENT_CACHE,
        memory: None,
        genome: GenomeOptions::default(),
        pin: None,
    }
}
