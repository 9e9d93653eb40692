//! Monitoring: metrics, probes and a status page, on a separate listener.
//!
//! The listener answers HTTP/1.1, one request per connection, to few callers at a time: a flood slows down viewers, but
//! no call. On loopback, probes and metrics need no token. Beyond it TLS is required, and only `/livez` and `/readyz`
//! are public.

mod exposition;
mod families;
mod metrics;
mod page;
mod places;
mod process;
mod readiness;
mod seen;
mod sources;

use places::{Places, Slot};
pub(crate) use readiness::Readiness;
use seen::{Peer, Snapshot, unauthorized};
use sources::SAMPLE;
pub(crate) use sources::Sources;

use crate::options::MonitorOptions;
use axum::extract::{RawQuery, Request, State};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Extension, Router};
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use metrics::Metrics;
use oboro_edge::Certificates;
use oboro_format::Role;
use parking_lot::Mutex;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpListener;
use tokio::time::{interval, sleep, timeout};
use tonic::codegen::http::uri::Authority;
use tonic::codegen::http::{HeaderMap, HeaderValue, StatusCode, header};

/// Content security policy: pages load the style, and nothing else from anywhere.
const POLICY: &str = "default-src 'none'; style-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";
/// Maximum duration of a connection.
const LONGEST: Duration = Duration::from_secs(30);
/// Maximum time for sending the headers of a request.
const HEADERS: Duration = Duration::from_secs(5);
/// Pause after the system failed to accept a connection.
const PAUSE: Duration = Duration::from_millis(100);
/// Interval at which the storage of each namespace is measured.
const STORED: Duration = Duration::from_secs(60);

/// Socket of the monitoring listener.
pub(crate) struct Monitor {
    listener: TcpListener,
    tls: Option<Arc<Certificates>>,
    is_near: bool,
    pub(crate) by_namespace: bool,
}

impl Monitor {
    /// Opens the socket, with TLS beyond loopback.
    ///
    /// # Errors
    /// An address in use, or of another machine.
    pub(crate) async fn bind(
        options: MonitorOptions,
        tls: Option<Arc<Certificates>>,
    ) -> io::Result<Self> {
        process::started();
        let address = options.listen;
        let is_near = address.ip().is_loopback();
        Ok(Self {
            listener: TcpListener::bind(address).await?,
            tls: tls.filter(|_| !is_near),
            is_near,
            by_namespace: options.by_namespace,
        })
    }

    /// Returns the address of the socket.
    pub(crate) fn address(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Serves requests; never returns.
    pub(crate) async fn serve(self, sources: Arc<Sources>) {
        let seen = Arc::new(Snapshot {
            metrics: Mutex::new(Metrics::new(&sources)),
            authentication: Arc::clone(&sources.authentication),
            sources: Arc::clone(&sources),
            is_near: self.is_near,
        });
        let router = Router::new()
            .route("/livez", get(|| async { "ok\n" }))
            .route("/readyz", get(readyz))
            .route("/metrics", get(metrics_page))
            .route("/", get(page::show))
            .route(
                "/style.css",
                get(|| async { ([(header::CONTENT_TYPE, "text/css")], page::STYLE) }),
            )
            .layer(from_fn_with_state(Arc::clone(&seen), check_host_and_harden))
            .with_state(seen);
        tokio::join!(
            self.accept(router),
            watch_stored(&sources),
            watch_use(&sources)
        );
    }

    async fn accept(self, router: Router) {
        let places = Arc::<Places>::default();
        let acceptor = self.tls.map(|tls| tls.http1_acceptor());
        loop {
            let Ok((stream, peer)) = self.listener.accept().await else {
                sleep(PAUSE).await;
                continue;
            };
            let place = places.enter();
            let router = router
                .clone()
                .layer(Extension(Peer(peer)))
                .layer(Extension(Arc::clone(&place.slot)));
            let acceptor = acceptor.clone();
            tokio::spawn(async move {
                let answered = async {
                    match acceptor {
                        None => answer(stream, router).await,
                        Some(acceptor) => {
                            if let Ok(stream) = acceptor.accept(stream).await {
                                answer(stream, router).await;
                            }
                        }
                    }
                };
                tokio::select! {
                    _ = timeout(LONGEST, answered) => {}
                    () = place.slot.evicted() => {}
                }
                drop(place);
            });
        }
    }
}

/// Answers the requests of one connection.
async fn answer(stream: impl AsyncRead + AsyncWrite + Unpin, router: Router) {
    let answered = http1::Builder::new()
        .timer(TokioTimer::new())
        // The time limit is that of one request.
        .keep_alive(false)
        .header_read_timeout(HEADERS)
        .serve_connection(TokioIo::new(stream), TowerToHyperService::new(router))
        .await;
    if let Err(error) = answered {
        tracing::debug!(%error, "a connection of an operator failed");
    }
}

/// Measures the storage in use periodically; never returns.
async fn watch_stored(sources: &Arc<Sources>) {
    let mut ticks = interval(STORED);
    loop {
        ticks.tick().await;
        let store = sources.store.clone();
        if let Ok(stored) = tokio::task::spawn_blocking(move || store.stored()).await {
            *sources.stored.lock() = stored;
        }
    }
}

/// Samples the resources in use periodically; never returns.
async fn watch_use(sources: &Sources) {
    let mut ticks = interval(Duration::from_secs(SAMPLE.into()));
    loop {
        ticks.tick().await;
        sources.sample();
    }
}

/// Rejects requests for other host names (DNS rebinding), and adds headers against loading and caching.
async fn check_host_and_harden(
    State(seen): State<Arc<Snapshot>>,
    request: Request,
    next: Next,
) -> Response {
    if let Some(slot) = request.extensions().get::<Arc<Slot>>() {
        slot.asks();
    }
    let host = request.headers().get(header::HOST);
    let host = host.and_then(|it| it.to_str().ok());
    // Without TLS, a domain name can be made to resolve to this machine.
    if seen.is_near && !host.is_some_and(is_of_this_machine) {
        let text = "use localhost or a loopback address\n";
        return (StatusCode::MISDIRECTED_REQUEST, text).into_response();
    }
    let mut answer = next.run(request).await;
    let headers = answer.headers_mut();
    for (name, value) in [
        (header::CONTENT_SECURITY_POLICY, POLICY),
        (header::CACHE_CONTROL, "no-store"),
        (header::REFERRER_POLICY, "no-referrer"),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    ] {
        headers.insert(name, HeaderValue::from_static(value));
    }
    answer
}

/// Returns true if a host, with or without a port, is loopback.
fn is_of_this_machine(host: &str) -> bool {
    let authority: Option<Authority> = host.parse().ok();
    authority.is_some_and(|it| {
        let name = it.host();
        let address = name.trim_matches(['[', ']']).parse::<IpAddr>();
        name.eq_ignore_ascii_case("localhost") || address.is_ok_and(|it| it.is_loopback())
    })
}

/// Serves `/readyz`: 200 if all conditions hold, else 503, with a line for each. `?exclude=NAME`, repeated or separated
/// by commas, skips conditions.
async fn readyz(State(seen): State<Arc<Snapshot>>, RawQuery(asked): RawQuery) -> Response {
    let asked = asked
        .unwrap_or_default()
        .replace("%2C", ",")
        .replace("%2c", ",");
    let excluded = asked
        .split('&')
        .filter_map(|it| it.strip_prefix("exclude="));
    let excluded: Vec<&str> = excluded.flat_map(|it| it.split(',')).collect();
    let conditions = seen.sources.readiness.conditions();
    let is_known = |name: &&str| conditions.iter().any(|it| it.name == *name);
    if let Some(unknown) = excluded.iter().find(|it| !is_known(it)) {
        let known = conditions.map(|it| it.name).join(", ");
        let text = format!("there is no condition {unknown:?}; conditions are {known}\n");
        return (StatusCode::BAD_REQUEST, text).into_response();
    }
    let asked = conditions.iter().filter(|it| !excluded.contains(&it.name));
    let (mut status, mut text) = (StatusCode::OK, String::new());
    for condition in asked {
        match &condition.problem {
            None => text += &format!("[+] {}\n", condition.name),
            Some(problem) => {
                status = StatusCode::SERVICE_UNAVAILABLE;
                text += &format!("[-] {}: {problem}\n", condition.name);
            }
        }
    }
    (status, text).into_response()
}

/// Serves `/metrics`.
async fn metrics_page(
    State(seen): State<Arc<Snapshot>>,
    Extension(Peer(peer)): Extension<Peer>,
    headers: HeaderMap,
) -> Response {
    if !seen.is_near {
        match seen.authentication.viewer(&headers, peer).await {
            Ok(caller) if caller.roles.has(Role::Operate) => {}
            Ok(_) => {
                let text = "metrics are for tokens with the role operate\n";
                return (StatusCode::FORBIDDEN, text).into_response();
            }
            Err(refusal) => return unauthorized(&refusal),
        }
    }
    let text = tokio::task::spawn_blocking(move || seen.metrics.lock().text()).await;
    let Ok(Ok(text)) = text else {
        tracing::error!("metrics could not be gathered");
        return StatusCode::INTERNAL_SERVER_ERROR.into_response();
    };
    let kind = "text/plain; version=0.0.4; charset=utf-8";
    ([(header::CONTENT_TYPE, kind)], text).into_response()
}
