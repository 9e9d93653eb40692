//! Proxy from the environment: the first non-empty variable of `https_proxy`, `HTTPS_PROXY`, `all_proxy` and
//! `ALL_PROXY`, unless `no_proxy` or `NO_PROXY` names the server.
//!
//! Only connections with TLS use it: it sees the server's name, times and sizes. Its own credentials are sent to it in
//! clear text and appear in no message.

use crate::error::ClientError;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::client::legacy::connect::proxy::Tunnel;
use hyper_util::client::proxy::matcher::{Intercept, Matcher};
use std::env;
use tonic::transport::Uri;

const PROXIES: [&str; 4] = ["https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY"];
const EXCEPTIONS: [&str; 2] = ["no_proxy", "NO_PROXY"];

/// Proxy on the way to a server.
pub(crate) struct Proxy {
    intercept: Intercept,
    /// Host and port.
    address: String,
}

impl Proxy {
    /// Returns the proxy for this address, if one applies.
    ///
    /// # Errors
    /// A variable whose value is no usable proxy; it is never ignored.
    pub(crate) fn towards(server: &Uri) -> Result<Option<Self>, ClientError> {
        let given = |name: &&str| env::var_os(name).filter(|value| !value.is_empty());
        let Some(variable) = PROXIES.into_iter().find(|it| given(it).is_some()) else {
            return Ok(None);
        };
        let exceptions = EXCEPTIONS.iter().find_map(given).unwrap_or_default();
        let exceptions = exceptions.to_string_lossy();
        let value = given(&variable).and_then(|value| value.into_string().ok());
        let read = value.and_then(|value| {
            let address = address_in(&value)?;
            let matcher = Matcher::builder().https(value).no(exceptions.as_ref());
            Some((matcher.build(), address))
        });
        let (matcher, address) = read.ok_or(ClientError::Proxy(variable))?;
        let intercept = matcher.intercept(server);
        Ok(intercept.map(|intercept| Self { intercept, address }))
    }

    /// Returns the host and port of the proxy.
    pub(crate) fn address(&self) -> &str {
        &self.address
    }

    /// Returns a connector through the proxy; TLS ends at the server.
    pub(crate) fn tunnel(&self, network: HttpConnector) -> Tunnel<HttpConnector> {
        let tunnel = Tunnel::new(self.intercept.uri().clone(), network);
        match self.intercept.basic_auth() {
            Some(credentials) => tunnel.with_auth(credentials.clone()),
            None => tunnel,
        }
    }
}

/// Returns host and port of `http://[USER[:PASSWORD]@]HOST:PORT[/]`; `None` for anything else.
fn address_in(value: &str) -> Option<String> {
    let rest = value.strip_prefix("http://")?;
    let rest = rest.strip_suffix('/').unwrap_or(rest);
    // Characters that would end user or password early must be percent-encoded, like %40.
    let is_odd = |c: char| !c.is_ascii_graphic() || matches!(c, '/' | '?' | '#' | '\\');
    if rest.contains(is_odd) || rest.matches('@').count() > 1 {
        return None;
    }
    let (_, address) = rest.split_once('@').unwrap_or(("", rest));
    let (host, port) = address.rsplit_once(':')?;
    let is_port = port.parse::<u16>().is_ok_and(|port| port > 0);
    (!host.is_empty() && is_port).then(|| address.to_owned())
}

#[cfg(test)]
mod tests {
    use super::address_in;

    #[test]
    fn only_whole_addresses_name_a_proxy() {
        for value in [
            "http://proxy:3128",
            "http://proxy:3128/",
            "http://me@proxy:3128",
            "http://me:s%40cret@proxy:3128",
        ] {
            assert_eq!(address_in(value).as_deref(), Some("proxy:3128"), "{value}");
        }
        for value in [
            "proxy:3128",
            "htp://proxy:3128",
            "http:/proxy:3128",
            " http://proxy:3128",
            "https://proxy:3128",
            "socks5://proxy:3128",
            "http://proxy",
            "http://proxy:0",
            "http://proxy:99999",
            "http://:3128",
            "http://me:pa@s3cret@proxy:3128",
            "http://me:pa/s3cret@proxy:3128",
            "http://me:pa?s3cret@proxy:3128",
            "http://me:pa#s3cret@proxy:3128",
            "http://me:pa s3cret@proxy:3128",
        ] {
            assert_eq!(address_in(value), None, "{value}");
        }
    }
}
