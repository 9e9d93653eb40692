//! Server that stores ciphertext and counts on it.
//!
//! It never holds a key: this crate does not depend on the one that has them. A server is a
//! [`Store`](oboro_store::Store) behind gRPC; beyond loopback it requires TLS, and tokens or client certificates.
//! Clients share its threads fairly, within [`Limits`]. With a [`Dispatch`], [`Worker`]s on other machines count, and
//! the server plans, checks and forwards.

mod audit;
mod auth;
mod blocking;
mod cache;
mod call_limits;
mod callers;
mod calls;
mod certificate;
mod client_certificates;
mod clients;
mod columns;
mod connections;
mod counting;
mod credentials;
mod error;
mod expiry;
mod genome;
mod guesses;
mod health;
mod limits;
mod linger;
mod listen;
mod local;
mod log_level;
mod memory;
mod metering;
mod middleware;
mod monitor;
mod options;
mod outbox;
mod packing;
mod partial;
mod pool;
mod queries;
mod rarely;
mod rate_limit;
mod readers;
mod received;
mod recovery;
mod reload;
mod remote;
mod replies;
mod retention;
mod scrubbing;
mod service;
mod status;
mod tls;
mod tls_error;
mod token_file;
mod tokens;
mod totals;
mod trusted;
mod whole;
mod worker;
mod writes;

pub use audit::{AuditError, AuditOptions};
pub use error::ServeError;
pub use limits::{ConnectionLimits, Limits};
pub use listen::Server;
pub use local::{Connector, Local};
pub use log_level::{LogLevelError, log_directives};
pub use oboro_store::{Policy, Quota};
pub use options::{GenomeOptions, MonitorOptions, Options, Pin};
pub use remote::{Dispatch, RemoteJob};
pub use tls::Certificates;
pub use tls_error::TlsError;
pub use token_file::{LineError, Token, TokenError, TokenFile, parse_date};
pub use tokens::Tokens;
pub use trusted::Untrusted;
pub use whole::{WholeBackup, WholeError, WholeScrub, backup};
pub use worker::Worker;
