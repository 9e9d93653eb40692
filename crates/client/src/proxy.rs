//! The proxy that the environment names, as curl and browsers take it: `HTTPS_PROXY`, `ALL_PROXY`, `NO_PROXY`.
//!
//! Only connections with TLS go through one, so a proxy sees the server's name and no more.

use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::client::legacy::connect::proxy::Tunnel;
use hyper_util::client::proxy::matcher::{Intercept, Matcher};
use tonic::transport::{Channel, Endpoint, Uri};

/// A proxy on the way to a server.
pub(crate) struct Proxy(Intercept);

impl Proxy {
    /// The one for this address, if there is one. A server on this machine is never reached through a proxy.
    pub(crate) fn towards(server: &Uri) -> Option<Self> {
        Matcher::from_env().intercept(server).map(Self)
    }

    /// Its address, without credentials.
    pub(crate) fn address(&self) -> String {
        self.0.uri().to_string()
    }

    /// Whether it is one that this program can speak to: of HTTP, without TLS or SOCKS.
    pub(crate) fn is_plain(&self) -> bool {
        self.0.uri().scheme_str() == Some("http")
    }

    /// Connects to the endpoint through it; TLS is with the server.
    pub(crate) async fn connect(
        &self,
        endpoint: &Endpoint,
    ) -> Result<Channel, tonic::transport::Error> {
        let mut to_proxy = HttpConnector::new();
        to_proxy.set_nodelay(true);
        let tunnel = Tunnel::new(self.0.uri().clone(), to_proxy);
        let tunnel = match self.0.basic_auth() {
            Some(credentials) => tunnel.with_auth(credentials.clone()),
            None => tunnel,
        };
        endpoint.connect_with_connector(tunnel).await
    }
}
