//! Object storage: a store's objects below one prefix of a bucket, whole and in ranges.
//!
//! Requests run on their own threads: any thread may wait for one, and many are in flight at a time. A request that
//! still fails after some retries is an error with its cause, and is never taken for an answer.

mod cache;

pub(crate) use cache::{Cache, object_of, segment_of};

use crate::error::{ObjectStorageError, StoreError};
use object_store::aws::{AmazonS3, AmazonS3Builder};
use object_store::local::LocalFileSystem;
use object_store::path::Path as ObjectPath;
use object_store::{
    BackoffConfig, ObjectStore, ObjectStoreExt, PutMode, PutOptions, RetryConfig, UpdateVersion,
    WriteMultipart,
};
use oboro_arena::CpuAssignment;
use oboro_format::Digest;
use oboro_residency::ResidencyError;
use std::error::Error;
use std::fs::{self, File};
use std::io::Read;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::sync_channel;
use std::time::Duration;
use tokio::runtime::Runtime;
use tokio::sync::Semaphore;
use tokio::time::timeout;
use tokio_stream::StreamExt;

/// Maximum bytes of panels in flight.
const IN_FLIGHT: u64 = 32 << 20;
/// Bytes per permit of the semaphore.
const PERMIT: u64 = 4096;
/// Minimum bytes of a chunk in a multipart upload.
const CHUNK: u64 = 8 << 20;
/// Maximum number of chunks of one object: S3 accepts ten thousand.
const CHUNKS: u64 = 9000;
/// Number of chunks in memory, of the one object that is written at a time.
const CHUNKS_AT_A_TIME: usize = 4;
/// Timeout for the length of an object whose read has failed, after its retries.
const LENGTH_TIME: Duration = Duration::from_secs(5);
/// Maximum characters of a cause in messages: some servers send pages.
const MOST_SHOWN: usize = 300;

/// Returns the retry policy, which gives up after some seconds: the caller can retry, and should know.
fn retries() -> RetryConfig {
    RetryConfig {
        backoff: BackoffConfig {
            init_backoff: Duration::from_millis(100),
            max_backoff: Duration::from_secs(3),
            base: 2.0,
        },
        max_retries: 8,
        retry_timeout: Duration::from_secs(20),
    }
}

/// Upload of a file in progress.
enum Begun {
    Small(Vec<u8>),
    Large(WriteMultipart),
}

/// Reasons why an object could not be read or written.
#[derive(Debug, Clone)]
pub(crate) enum ObjectError {
    /// No such object.
    Missing,
    /// The object ends after this many bytes, before the end of the requested range.
    Short(u64),
    /// Unknown: the error of the network or the server.
    Unreachable(String),
}

impl ObjectError {
    fn of(error: &object_store::Error) -> Self {
        if let object_store::Error::NotFound { .. } = error {
            return Self::Missing;
        }
        // The outer errors only name the request.
        let mut cause: &dyn Error = error;
        while let Some(inner) = cause.source() {
            cause = inner;
        }
        let said = cause.to_string();
        Self::Unreachable(said.escape_debug().take(MOST_SHOWN).collect())
    }
}

/// Reasons why an object was not replaced.
pub(crate) enum PutError {
    /// Another server has changed it.
    Changed,
    /// Unknown outcome.
    Uncertain(ObjectError),
}

/// Object that one server at a time replaces, as last written by this one.
pub(crate) struct OwnedObject {
    name: &'static str,
    /// Version; `None` if the object never existed.
    version: Option<UpdateVersion>,
    /// Digests of writes with unknown outcome.
    unsure: Vec<Digest>,
}

impl OwnedObject {
    /// Creates the state of an object found in this version.
    pub(crate) fn new(name: &'static str, version: Option<UpdateVersion>) -> Self {
        let unsure = Vec::new();
        Self {
            name,
            version,
            unsure,
        }
    }

    /// Replaces the object, unless another server did.
    ///
    /// # Errors
    /// Another server owns it; storage out of reach.
    pub(crate) fn write(&mut self, objects: &Objects, bytes: Vec<u8>) -> Result<(), StoreError> {
        let digest = Digest::of(&bytes);
        let mut written = objects.replace(self.name, bytes.clone(), self.version.clone());
        if let Err(PutError::Changed) = written
            && let Ok((found, version)) = objects.get(self.name)
            && self.unsure.contains(&Digest::of(&found))
        {
            written = objects.replace(self.name, bytes, Some(version));
        }
        match written {
            Ok(version) => {
                self.version = Some(version);
                self.unsure.clear();
                Ok(())
            }
            Err(PutError::Changed) => Err(objects.other_server()),
            Err(PutError::Uncertain(error)) => {
                self.unsure.push(digest);
                Err(objects.failed(self.name, &error))
            }
        }
    }

    /// Checks that no other server has replaced the object.
    ///
    /// # Errors
    /// Another server has; storage out of reach.
    pub(crate) fn check(&self, objects: &Objects) -> Result<(), StoreError> {
        let found = objects.version_of(self.name);
        let found = found.map_err(|error| objects.failed(self.name, &error))?;
        let tag = |version: &Option<UpdateVersion>| Some(version.as_ref()?.e_tag.clone());
        if tag(&found) == tag(&self.version) {
            return Ok(());
        }
        match objects.get(self.name) {
            Ok((bytes, _)) if self.unsure.contains(&Digest::of(&bytes)) => Ok(()),
            Ok(_) | Err(ObjectError::Missing) => Err(objects.other_server()),
            Err(error) => Err(objects.failed(self.name, &error)),
        }
    }
}

/// Objects below one prefix.
pub(crate) struct Objects {
    store: Arc<dyn ObjectStore>,
    /// Directory in place of a bucket, locked while an object is compared and replaced, which takes two steps there.
    directory: Option<Arc<Path>>,
    prefix: String,
    url: String,
    /// Further prefix of these objects' names: empty, or directories and a slash.
    below: String,
    in_flight: Arc<Semaphore>,
    traffic: Arc<Traffic>,
    /// Permit held by the one object that is being written from a file.
    turn: Arc<Semaphore>,
    runtime: Arc<Requests>,
}

/// Requests so far, of all prefixes together.
#[derive(Debug, Default)]
struct Traffic {
    requests: AtomicU64,
    failed: AtomicU64,
    fetched: AtomicU64,
}

/// Requests to object storage since the store was opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RequestCounts {
    /// Number of requests, not counting their internal retries.
    pub requests: u64,
    /// Number of requests that storage did not answer, or refused.
    pub failed: u64,
    /// Bytes received.
    pub fetched_bytes: u64,
}

impl Traffic {
    /// Counts a request with this outcome.
    fn count<T>(&self, ended: Result<T, ObjectError>) -> Result<T, ObjectError> {
        self.requests.fetch_add(1, Ordering::Relaxed);
        if let Err(ObjectError::Unreachable(_)) = ended {
            self.failed.fetch_add(1, Ordering::Relaxed);
        }
        ended
    }

    /// As [`count`](Self::count), for a request that fetches bytes.
    fn count_bytes(&self, ended: Result<Vec<u8>, ObjectError>) -> Result<Vec<u8>, ObjectError> {
        let bytes = ended.as_ref().map_or(0, |it| it.len() as u64);
        self.fetched.fetch_add(bytes, Ordering::Relaxed);
        self.count(ended)
    }
}

/// Threads of requests, until dropped.
struct Requests(Option<Runtime>);

/// Target of a URL.
pub(crate) enum Named<'a> {
    /// Bucket, and a prefix of names in it.
    Bucket {
        store: Box<AmazonS3>,
        prefix: &'a str,
    },
    /// Local directory.
    Directory(&'a Path),
}

impl<'a> Named<'a> {
    /// Parses `s3://BUCKET/PREFIX` or `file:///DIRECTORY`, without accessing it.
    ///
    /// # Errors
    /// Another URL, invalid settings (`AWS_*`).
    pub(crate) fn by(url: &'a str) -> Result<Self, StoreError> {
        match url.trim_end_matches('/').split_once("://") {
            Some(("s3", rest)) => {
                let (bucket, prefix) = rest.split_once('/').unwrap_or((rest, ""));
                if bucket.is_empty() {
                    return Err(refused(url, "it names no bucket"));
                }
                ObjectPath::parse(prefix).map_err(|error| refused(url, error))?;
                // An already installed provider is fine.
                let _ = rustls::crypto::ring::default_provider().install_default();
                let builder = AmazonS3Builder::from_env().with_bucket_name(bucket);
                let store = builder.with_retry(retries()).build();
                let store = Box::new(store.map_err(|error| refused(url, error))?);
                Ok(Self::Bucket { store, prefix })
            }
            Some(("file", directory)) if directory.starts_with('/') => {
                Ok(Self::Directory(Path::new(directory)))
            }
            _ => Err(refused(url, "it is neither of s3: nor of file:")),
        }
    }
}

/// Opens the objects in a directory, which is created if it does not exist.
fn made(directory: &Path, url: &str) -> Result<LocalFileSystem, StoreError> {
    fs::create_dir_all(directory).map_err(|error| refused(url, error))?;
    let store = LocalFileSystem::new_with_prefix(directory);
    Ok(store.map_err(|error| refused(url, error))?.with_fsync(true))
}

fn refused(url: &str, reason: impl ToString) -> StoreError {
    ObjectStorageError::ObjectsUrl {
        url: url.trim_end_matches('/').into(),
        reason: reason.to_string(),
    }
    .into()
}

impl Objects {
    /// Bytes of requests in flight: received pieces, the buffers they are assembled into, and written chunks.
    pub(crate) const BUFFERS: u64 = 2 * IN_FLIGHT + CHUNKS_AT_A_TIME as u64 * CHUNK;

    /// Opens the objects below a URL, `s3://BUCKET/PREFIX` or `file:///DIRECTORY`. At most `threads` threads check and
    /// unpack fetched bytes. No request is sent yet.
    ///
    /// # Errors
    /// Another URL, invalid settings (`AWS_*`), a directory that cannot be created.
    pub(crate) fn open(url: &str, threads: &Arc<[CpuAssignment]>) -> Result<Self, StoreError> {
        type Found<'a> = (Arc<dyn ObjectStore>, &'a str, Option<Arc<Path>>);
        let (store, prefix, directory): Found<'_> = match Named::by(url)? {
            Named::Bucket { store, prefix } => (Arc::new(*store), prefix, None),
            Named::Directory(directory) => {
                (Arc::new(made(directory, url)?), "", Some(directory.into()))
            }
        };
        let url = url.trim_end_matches('/');
        let opened = Self::of(store, prefix, url, threads);
        let opened = opened.map_err(|source| ResidencyError::Reader { source })?;
        Ok(Self {
            directory,
            ..opened
        })
    }

    /// Checks that storage honours conditional writes: without them two servers would undo each other's changes.
    ///
    /// # Errors
    /// Conditions that are ignored or turned off; storage out of reach.
    pub(crate) fn check_conditions(&self) -> Result<(), StoreError> {
        if self.directory.is_some() {
            return Ok(());
        }
        let name = format!("conditions-{:016x}", getrandom::u64().unwrap_or_default());
        let (store, path) = (Arc::clone(&self.store), self.path(&name));
        let tried = self.wait(async move {
            let tried = try_conditions(&*store, &path).await;
            // Best effort: a leftover is harmless.
            let _ = store.delete(&path).await;
            tried
        });
        match tried {
            Ok(None) => Ok(()),
            Ok(Some(ignored)) => Err(ObjectStorageError::NoConditions {
                url: self.url.clone(),
                ignored,
            }
            .into()),
            Err(error) => Err(self.failed(&name, &error)),
        }
    }

    fn of(
        store: Arc<dyn ObjectStore>,
        prefix: &str,
        url: &str,
        threads: &Arc<[CpuAssignment]>,
    ) -> std::io::Result<Self> {
        let (assignments, started) = (Arc::clone(threads), AtomicUsize::new(0));
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .max_blocking_threads(threads.len())
            .on_thread_start(move || {
                let number = started.fetch_add(1, Ordering::Relaxed);
                // Failure to pin is harmless; memory is only farther away.
                let _ = assignments[number % assignments.len()].apply();
            })
            .thread_name("objects")
            .enable_all()
            .build()?;
        Ok(Self {
            store,
            directory: None,
            prefix: prefix.into(),
            url: url.into(),
            below: String::new(),
            in_flight: Arc::new(Semaphore::new((IN_FLIGHT / PERMIT) as usize)),
            traffic: Arc::default(),
            turn: Arc::new(Semaphore::new(1)),
            runtime: Arc::new(Requests(Some(runtime))),
        })
    }

    /// Returns the objects whose names begin with `below`, directories and a slash, which is then left out.
    pub(crate) fn below(&self, below: &str) -> Self {
        Self {
            store: Arc::clone(&self.store),
            directory: self.directory.clone(),
            prefix: self.prefix.clone(),
            url: self.url.clone(),
            below: format!("{}{below}", self.below),
            in_flight: Arc::clone(&self.in_flight),
            traffic: Arc::clone(&self.traffic),
            turn: Arc::clone(&self.turn),
            runtime: Arc::clone(&self.runtime),
        }
    }

    /// Returns the URL of the prefix.
    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    /// Returns the URL of these objects, without a trailing slash.
    pub(crate) fn root_url(&self) -> String {
        format!("{}/{}", self.url, self.below)
            .trim_end_matches('/')
            .to_owned()
    }

    /// Returns the URL of an object.
    pub(crate) fn url_of(&self, name: &str) -> String {
        format!("{}/{}{name}", self.url, self.below)
    }

    /// Returns the error of an object that cannot be reached.
    pub(crate) fn unavailable(&self, name: &str, cause: &str) -> ObjectStorageError {
        ObjectStorageError::Unavailable {
            object: self.url_of(name),
            cause: cause.into(),
        }
    }

    /// Returns the error of an operation in which a missing object means a missing bucket.
    pub(crate) fn failed(&self, name: &str, error: &ObjectError) -> StoreError {
        let unavailable = match error {
            ObjectError::Missing => self.unavailable(name, "there is no such bucket or object"),
            ObjectError::Short(bytes) => {
                self.unavailable(name, &format!("it ends after {bytes} bytes"))
            }
            ObjectError::Unreachable(cause) => self.unavailable(name, cause),
        };
        unavailable.into()
    }

    /// Returns the error of an object that another server has written.
    pub(crate) fn other_server(&self) -> StoreError {
        ObjectStorageError::OtherServer {
            url: self.url().into(),
        }
        .into()
    }

    fn path(&self, name: &str) -> ObjectPath {
        let path = format!("{}/{}{name}", self.prefix, self.below);
        ObjectPath::parse(path).expect("the prefix was checked, and names are plain")
    }

    fn runtime(&self) -> &Runtime {
        let Requests(runtime) = &*self.runtime;
        runtime.as_ref().expect("there until it is dropped")
    }

    /// Runs `work` on the threads of requests and waits for it.
    fn wait<T: Send + 'static>(&self, work: impl Future<Output = T> + Send + 'static) -> T {
        let (sender, heard) = sync_channel(1);
        self.runtime().spawn(async move {
            let _ = sender.send(work.await);
        });
        heard.recv().expect("requests do not panic")
    }

    /// Returns a whole object and its version.
    pub(crate) fn get(&self, name: &str) -> Result<(Vec<u8>, UpdateVersion), ObjectError> {
        let (store, path) = (Arc::clone(&self.store), self.path(name));
        let got = self.wait(async move { get(&*store, &path).await });
        self.traffic
            .count(got.map_err(|error| ObjectError::of(&error)))
    }

    /// Returns a range of an object, complete.
    pub(crate) fn get_range(&self, name: &str, range: Range<u64>) -> Result<Vec<u8>, ObjectError> {
        let (store, path) = (Arc::clone(&self.store), self.path(name));
        let got = self.wait(async move { get_range(&*store, &path, range).await });
        self.traffic.count_bytes(got)
    }

    /// Fetches a range of an object and passes it to `then`, on a thread that may block. Does not block itself.
    pub(crate) fn fetch(
        &self,
        name: &str,
        range: Range<u64>,
        then: impl FnOnce(Result<Vec<u8>, ObjectError>) + Send + 'static,
    ) {
        let (store, path) = (Arc::clone(&self.store), self.path(name));
        let (in_flight, traffic) = (Arc::clone(&self.in_flight), Arc::clone(&self.traffic));
        let permits = (range.end - range.start).min(IN_FLIGHT).div_ceil(PERMIT) as u32;
        self.runtime().spawn(async move {
            let permit = in_flight.acquire_many_owned(permits).await;
            let bytes = traffic.count_bytes(get_range(&*store, &path, range).await);
            tokio::task::spawn_blocking(move || {
                then(bytes);
                drop(permit);
            });
        });
    }

    /// Writes a file as an object, replacing an existing one, unless `check` fails immediately before the write takes
    /// effect.
    ///
    /// # Errors
    /// The error of `check`; an object that another server wrote meanwhile; an unreadable file; storage out of reach.
    pub(crate) fn put_file(
        &self,
        name: &str,
        mut file: File,
        check: impl FnOnce() -> Result<(), StoreError>,
    ) -> Result<(), StoreError> {
        let failed = |error: ObjectError| self.failed(name, &error);
        let (store, path) = (Arc::clone(&self.store), self.path(name));
        let turn = Arc::clone(&self.turn);
        let was = self.version_of(name).map_err(failed)?;
        let begun = self.wait(async move {
            let turn = turn.acquire_owned().await;
            let unread = |error: std::io::Error| ObjectError::Unreachable(error.to_string());
            let length = file.metadata().map_err(unread)?.len();
            let failed = |error| ObjectError::of(&error);
            let chunk = CHUNK.max(length.div_ceil(CHUNKS));
            let mut next = move || -> Result<Vec<u8>, ObjectError> {
                let mut bytes = Vec::with_capacity(chunk.min(length) as usize + 1);
                let read = (&mut file).take(chunk).read_to_end(&mut bytes);
                read.map_err(unread).map(|_| bytes)
            };
            if length <= chunk {
                return Ok((Begun::Small(next()?), turn));
            }
            let upload = store.put_multipart(&path).await.map_err(failed)?;
            let mut upload = WriteMultipart::new_with_chunk_size(upload, chunk as usize);
            loop {
                let written = match next() {
                    Ok(bytes) if bytes.is_empty() => break,
                    Ok(bytes) => {
                        upload.put(bytes.into());
                        upload
                            .wait_for_capacity(CHUNKS_AT_A_TIME)
                            .await
                            .map_err(failed)
                    }
                    Err(error) => Err(error),
                };
                if let Err(error) = written {
                    // Best effort: the bucket's lifecycle rules remove chunks that stay.
                    let _ = upload.abort().await;
                    return Err(error);
                }
            }
            Ok((Begun::Large(upload), turn))
        });
        let (begun, _turn) = self.traffic.count(begun).map_err(failed)?;
        let checked = check();
        match (begun, checked) {
            (Begun::Small(bytes), Ok(())) => match self.replace(name, bytes, was) {
                Ok(_) => Ok(()),
                Err(PutError::Changed) => Err(self.other_server()),
                Err(PutError::Uncertain(error)) => Err(failed(error)),
            },
            (Begun::Large(upload), Ok(())) => {
                let put = self.wait(async move { upload.finish().await.map(drop) });
                let put = put.map_err(|error| ObjectError::of(&error));
                self.traffic.count(put).map_err(failed)
            }
            (Begun::Small(_), Err(error)) => Err(error),
            (Begun::Large(upload), Err(error)) => {
                let _ = self.wait(async move { upload.abort().await });
                Err(error)
            }
        }
    }

    /// Returns the version of an object; `None` without one.
    pub(crate) fn version_of(&self, name: &str) -> Result<Option<UpdateVersion>, ObjectError> {
        let (store, path) = (Arc::clone(&self.store), self.path(name));
        let found = self.wait(async move { store.head(&path).await });
        let found = found.map_err(|error| ObjectError::of(&error));
        match self.traffic.count(found) {
            Ok(meta) => Ok(Some(UpdateVersion {
                e_tag: meta.e_tag,
                version: meta.version,
            })),
            Err(ObjectError::Missing) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Requests an object that must exist, with a timeout of some seconds, to see whether storage answers.
    pub(crate) fn probe(&self, name: &str) -> Result<(), ObjectError> {
        let (store, path) = (Arc::clone(&self.store), self.path(name));
        let found = self.wait(async move { timeout(LENGTH_TIME, store.head(&path)).await });
        let answered = match found {
            Ok(found) => found.map_err(|error| ObjectError::of(&error)),
            Err(_) => Err(ObjectError::Unreachable(format!(
                "no answer within {} s",
                LENGTH_TIME.as_secs()
            ))),
        };
        self.traffic.count(answered).map(drop)
    }

    /// Returns the requests so far, for all prefixes.
    pub(crate) fn requested(&self) -> RequestCounts {
        let Traffic {
            requests,
            failed,
            fetched,
        } = &*self.traffic;
        RequestCounts {
            requests: requests.load(Ordering::Relaxed),
            failed: failed.load(Ordering::Relaxed),
            fetched_bytes: fetched.load(Ordering::Relaxed),
        }
    }

    /// Writes an object if it is still as it `was`, or absent; returns its new version.
    pub(crate) fn replace(
        &self,
        name: &str,
        bytes: Vec<u8>,
        was: Option<UpdateVersion>,
    ) -> Result<UpdateVersion, PutError> {
        let (store, path) = (Arc::clone(&self.store), self.path(name));
        let unlocked = |error: std::io::Error| {
            PutError::Uncertain(ObjectError::Unreachable(error.to_string()))
        };
        let lock = |directory: &Arc<Path>| {
            let opened = File::open(directory)?;
            opened.lock().map(|()| opened)
        };
        let locked = self.directory.as_ref().map(lock).transpose();
        let _lock = locked.map_err(unlocked)?;
        self.wait(async move { replace(&*store, &path, bytes, was).await })
    }

    /// Returns the names of all objects below `name`, with their lengths.
    pub(crate) fn list(&self, name: &str) -> Result<Vec<(String, u64)>, ObjectError> {
        let (store, path, prefix) = (Arc::clone(&self.store), self.path(name), self.path(""));
        let listed = self.wait(async move {
            let mut listed = store.list(Some(&path));
            let mut names = Vec::new();
            while let Some(meta) = listed.next().await {
                let meta = meta.map_err(|error| ObjectError::of(&error))?;
                if let Some(parts) = meta.location.prefix_match(&prefix) {
                    let parts: Vec<_> = parts.map(|part| part.as_ref().to_owned()).collect();
                    names.push((parts.join("/"), meta.size));
                }
            }
            Ok(names)
        });
        self.traffic.count(listed)
    }

    /// Removes objects; missing ones are ignored.
    pub(crate) fn delete(&self, names: Vec<String>) -> Result<(), ObjectError> {
        let paths: Vec<_> = names.iter().map(|name| Ok(self.path(name))).collect();
        let store = Arc::clone(&self.store);
        let deleted = self.wait(async move {
            let mut deleted = store.delete_stream(Box::pin(tokio_stream::iter(paths)));
            while let Some(one) = deleted.next().await {
                match one.map_err(|error| ObjectError::of(&error)) {
                    Ok(_) | Err(ObjectError::Missing) => {}
                    Err(error) => return Err(error),
                }
            }
            Ok(())
        });
        self.traffic.count(deleted)
    }
}

impl Drop for Requests {
    fn drop(&mut self) {
        // The last reference may be dropped on one of its threads, or on another runtime's, none of which may block.
        if let Some(runtime) = self.0.take() {
            runtime.shutdown_background();
        }
    }
}

async fn get(
    store: &dyn ObjectStore,
    path: &ObjectPath,
) -> object_store::Result<(Vec<u8>, UpdateVersion)> {
    let object = store.get(path).await?;
    let version = UpdateVersion {
        e_tag: object.meta.e_tag.clone(),
        version: object.meta.version.clone(),
    };
    Ok((object.bytes().await?.into(), version))
}

async fn get_range(
    store: &dyn ObjectStore,
    path: &ObjectPath,
    range: Range<u64>,
) -> Result<Vec<u8>, ObjectError> {
    match store.get_range(path, range.clone()).await {
        Ok(bytes) if bytes.len() as u64 == range.end - range.start => Ok(bytes.into()),
        Ok(bytes) => Err(ObjectError::Short(range.start + bytes.len() as u64)),
        Err(error) => Err(match ObjectError::of(&error) {
            ObjectError::Unreachable(cause) => match length(store, path).await {
                Some(bytes) if bytes < range.end => ObjectError::Short(bytes),
                _ => ObjectError::Unreachable(cause),
            },
            other => other,
        }),
    }
}

/// Returns the length of an object, if the server answers soon. Servers differ in their errors for a range beyond the
/// end.
async fn length(store: &dyn ObjectStore, path: &ObjectPath) -> Option<u64> {
    let found = timeout(LENGTH_TIME, store.head(path)).await;
    Some(found.ok()?.ok()?.size)
}

/// Tries writes whose conditions do not hold; returns the kind of condition that is ignored, if any.
async fn try_conditions(
    store: &dyn ObjectStore,
    path: &ObjectPath,
) -> Result<Option<&'static str>, ObjectError> {
    use object_store::Error::{AlreadyExists, NotImplemented, Precondition};
    let put = |mode: PutMode, bytes: &'static [u8]| {
        store.put_opts(path, bytes.into(), PutOptions::from(mode))
    };
    let first = match put(PutMode::Create, b"1").await {
        Ok(first) => UpdateVersion::from(first),
        Err(NotImplemented { .. }) => return Ok(Some("conditional writes are turned off")),
        Err(error) => return Err(ObjectError::of(&error)),
    };
    match put(PutMode::Create, b"2").await {
        Err(AlreadyExists { .. } | Precondition { .. }) => {}
        Ok(_) => return Ok(Some("it ignores If-None-Match")),
        Err(error) => return Err(ObjectError::of(&error)),
    }
    let replaced = put(PutMode::Update(first.clone()), b"3").await;
    replaced.map_err(|error| ObjectError::of(&error))?;
    match put(PutMode::Update(first), b"4").await {
        Err(AlreadyExists { .. } | Precondition { .. }) => Ok(None),
        Ok(_) => Ok(Some("it ignores If-Match")),
        Err(error) => Err(ObjectError::of(&error)),
    }
}

async fn replace(
    store: &dyn ObjectStore,
    path: &ObjectPath,
    bytes: Vec<u8>,
    was: Option<UpdateVersion>,
) -> Result<UpdateVersion, PutError> {
    use object_store::Error::{AlreadyExists, NotImplemented, Precondition};
    let put = |mode: PutMode| {
        let options = PutOptions::from(mode);
        store.put_opts(path, bytes.clone().into(), options)
    };
    let written = match was.clone() {
        None => put(PutMode::Create).await,
        Some(was) => put(PutMode::Update(was)).await,
    };
    match written {
        Ok(written) => Ok(written.into()),
        // On a conflict, the retry may have met what the first attempt wrote.
        Err(AlreadyExists { .. } | Precondition { .. }) => match get(store, path).await {
            Ok((found, version)) if found == bytes => Ok(version),
            Ok(_) => Err(PutError::Changed),
            Err(error) => Err(PutError::Uncertain(ObjectError::of(&error))),
        },
        // A directory, locked meanwhile.
        Err(NotImplemented { .. }) => {
            let found = store.head(path).await;
            if !was.is_some_and(|was| found.is_ok_and(|found| found.e_tag == was.e_tag)) {
                return Err(PutError::Changed);
            }
            let written = put(PutMode::Overwrite).await;
            written
                .map(UpdateVersion::from)
                .map_err(|error| PutError::Uncertain(ObjectError::of(&error)))
        }
        Err(error) => Err(PutError::Uncertain(ObjectError::of(&error))),
    }
}

#[cfg(test)]
mod tests;
