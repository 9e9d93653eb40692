//! Server that stores ciphertext and counts on it.
//!
//! It never holds a key: this crate does not depend on the one that has them. A server is a
//! [`Store`](oboro_store::Store) behind gRPC; beyond loopback it requires TLS, and tokens or client certificates.
//! Clients share its threads fairly, within [`Limits`]. With a [`Dispatch`], [`Worker`]s on other machines count, and
//! the server plans, checks and forwards.

mod blocking;
mod cache;
mod call_limits;
mod calls;
mod columns;
mod counting;
mod error;
mod genome;
mod health;
mod limits;
mod listen;
mod local;
mod log_level;
mod memory;
mod metering;
mod monitor;
mod options;
mod outbox;
mod packing;
mod partial;
mod pool;
mod queries;
mod received;
mod recovery;
mod remote;
mod replies;
mod retention;
mod scrubbing;
mod service;
mod status;
mod totals;
mod whole;
mod worker;
mod writes;

pub use error::ServeError;
pub use limits::Limits;
pub use listen::Server;
pub use local::{Connector, Local};
pub use log_level::{LogLevelError, log_directives};
pub use oboro_edge::{
    AuditError, AuditOptions, Certificates, ConnectionLimits, FileTrustError, LineError, TlsError,
    Token, TokenError, TokenFile, Tokens, parse_date,
};
pub use oboro_store::{Policy, Quota};
pub use options::{GenomeOptions, MonitorOptions, Options, Pin};
pub use remote::{Dispatch, RemoteJob};
pub use whole::{WholeBackup, WholeError, WholeScrub, backup};
pub use worker::Worker;
