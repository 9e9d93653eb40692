//! Clients: identified by a name, that of their token or certificate, or else by their connection.

use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;

/// Client, the unit of fair sharing.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Client {
    /// Every holder of this name, over any number of connections.
    Named(Arc<str>),
    /// One connection, by its peer.
    Connected(Option<SocketAddr>),
}

impl Client {
    /// Returns the account that its searches are charged to; all callers without a name share one.
    pub fn account(&self) -> &str {
        match self {
            Self::Named(name) => name,
            Self::Connected(_) => "",
        }
    }
}

impl fmt::Display for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Named(name) => f.write_str(name),
            Self::Connected(Some(address)) => address.fmt(f),
            Self::Connected(None) => f.write_str("unknown"),
        }
    }
}
