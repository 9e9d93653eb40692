//! The edge of a server: everything between the network and its calls.
//!
//! Connections are accepted, limited and evicted; TLS, tokens and client certificates say who calls; rates are limited,
//! failed guesses delayed, slow readers cut off, and calls written to the audit log. Files of credentials are reloaded
//! when they change. What calls do is not known here.

mod audit;
mod auth;
mod auth_backoff;
mod callers;
mod certificate;
mod client_certificates;
mod clients;
mod connections;
mod credentials;
mod expiry;
mod linger;
mod middleware;
mod rate_limit;
mod readers;
mod refusal;
mod reload;
mod throttled_log;
mod tls;
mod tls_error;
mod token_file;
mod tokens;
mod trusted;

pub use audit::{Audit, AuditError, AuditOptions, CallOutcome, Subject};
pub use auth::Authentication;
pub use callers::{Caller, caller};
pub use clients::Client;
pub use connections::{AcceptedStream, ConnectionLimits, Connections, Transport, accepted};
pub use expiry::ExpiryWatch;
pub use middleware::{Answer, Middleware, Next, Observer, Wrapped, holding, observed};
pub use rate_limit::RateLimit;
pub use readers::{PACE, PATIENCE};
pub use refusal::{RETRY_SOON, busy, unavailable};
pub use throttled_log::ThrottledLog;
pub use tls::Certificates;
pub use tls_error::TlsError;
pub use token_file::{LineError, Token, TokenError, TokenFile, parse_date};
pub use tokens::Tokens;
pub use trusted::FileTrustError;
