//! Errors of a server that starts.

use oboro_edge::AuditError;
use oboro_format::wording::{
    CLIENT_CA, GENOME_CACHE, LISTEN, MAX_QUERIES, MEMORY, MOMENT_CACHE, MONITOR, SERVER_TOKENS,
    THREADS, TLS_CERT, TLS_KEY, Value,
};
use oboro_store::StoreError;
use std::io;
use std::net::SocketAddr;
use std::num::NonZero;
use thiserror::Error;

/// Errors of a server that could not start or failed.
#[derive(Debug, Error)]
#[allow(missing_docs)]
pub enum ServeError {
    #[error(
        "refusing to listen on {0}, which is not loopback, without both TLS and tokens or client certificates: others on the network could read, alter and delete; add {TLS_CERT}, {TLS_KEY} and {SERVER_TOKENS} or {CLIENT_CA}, or listen on 127.0.0.1"
    )]
    Unprotected(SocketAddr),
    #[error(
        "refusing to show metrics on {0}, which is not loopback, without both TLS and tokens; add {TLS_CERT}, {TLS_KEY} and {SERVER_TOKENS}, or give an address of loopback with {MONITOR}"
    )]
    UnprotectedMonitor(SocketAddr),
    #[error(
        "cannot show metrics on {address}: {source}; choose another port with {MONITOR}, or stop the program that has it"
    )]
    Monitor {
        address: SocketAddr,
        source: io::Error,
    },
    #[error(
        "metrics cannot be shown on {0}, where calls are answered; choose another port with {MONITOR}"
    )]
    SamePort(SocketAddr),
    #[error(transparent)]
    Audit(AuditError),
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(
        "cannot listen on {address}: {source}; choose another port with {LISTEN}, or stop the program that has it"
    )]
    Listen {
        address: SocketAddr,
        source: io::Error,
    },
    #[error("cannot start {threads} threads: {source}; choose fewer with {THREADS}")]
    Threads {
        threads: NonZero<usize>,
        source: io::Error,
    },
    #[error(
        "{} leaves nothing for ciphertext: {besides} MiB go to other things ({cache} to the cache of moments, {replies} to replies on their way to as many queries as may run, {threads} to threads, {genomes} to genomes, the rest to buffers and the program); give more, or lower {MOMENT_CACHE}, {GENOME_CACHE}, {MAX_QUERIES} or {THREADS}",
        MEMORY.to(Value::Mebibytes(*memory))
    )]
    Memory {
        memory: u64,
        besides: u64,
        cache: u64,
        replies: u64,
        threads: u64,
        genomes: u64,
    },
    #[error(
        "{} leaves a worker nothing for ciphertext: {besides} MiB go to buffers, threads and the program; give more",
        MEMORY.to(Value::Mebibytes(*memory))
    )]
    WorkerMemory { memory: u64, besides: u64 },
}
