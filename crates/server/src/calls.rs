//! The log of calls: a span for each, and a line when it has ended.
//!
//! The span has the numbers of the request, as the call's handler learns them; the line says how it
//! went. Neither has a token, a dataset's name or any of its content. Calls of which nothing was begun, because the caller was
//! not let in or makes too many, have a line once in a while only: callers may make any number of them.

use crate::rarely::Rarely;
use http_body::{Frame, SizeHint};
use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::Instant;
use tonic::body::Body;
use tonic::codegen::{BoxFuture, Bytes, Service, StdError, http};
use tonic::server::NamedService;
use tonic::{Code, Status};
use tracing::{Instrument, Span, field};

/// What the logs of services share.
#[derive(Debug, Default)]
pub(crate) struct Calls {
    number: AtomicU64,
    refused: Rarely,
}

/// Of a request: whether the caller was let in and may make the call now.
#[derive(Debug, Clone, Default)]
pub(crate) struct Begun(Arc<AtomicBool>);

impl Begun {
    /// Has the call logged whatever becomes of it.
    pub(crate) fn of<B>(request: &http::Request<B>) {
        if let Some(begun) = request.extensions().get::<Self>() {
            begun.0.store(true, Ordering::Relaxed);
        }
    }
}

/// A service whose calls are logged.
#[derive(Clone)]
pub(crate) struct Logged<S> {
    service: S,
    calls: Arc<Calls>,
}

impl<S> Logged<S> {
    /// Calls are numbered in `calls`, which services may share.
    pub(crate) fn new(service: S, calls: &Arc<Calls>) -> Self {
        Self {
            service,
            calls: Arc::clone(calls),
        }
    }
}

impl<S: NamedService> NamedService for Logged<S> {
    const NAME: &'static str = S::NAME;
}

impl<S, B> Service<http::Request<Body>> for Logged<S>
where
    S: Service<http::Request<Body>, Response = http::Response<B>, Error = Infallible>,
    S::Future: Send + 'static,
    B: http_body::Body<Data = Bytes> + Send + 'static,
    B::Error: Into<StdError>,
{
    type Response = http::Response<Body>;
    type Error = Infallible;
    type Future = BoxFuture<Self::Response, Infallible>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        self.service.poll_ready(context)
    }

    fn call(&mut self, mut request: http::Request<Body>) -> Self::Future {
        let begun = Begun::default();
        request.extensions_mut().insert(begun.clone());
        let path = request.uri().path();
        let span = tracing::info_span!(
            "call",
            request = self.calls.number.fetch_add(1, Ordering::Relaxed) + 1,
            call = name(path),
            client = field::Empty,
            token = field::Empty,
            certificate = field::Empty,
            query = field::Empty,
            dataset = field::Empty,
            level = field::Empty,
            itemsets = field::Empty,
            limbs = field::Empty,
            columns = field::Empty,
            read_bytes = field::Empty,
            read_panels = field::Empty,
            found_panels = field::Empty,
        );
        let mut call = Call::new(span.clone(), begun, Arc::clone(&self.calls));
        let response = span.in_scope(|| self.service.call(request));
        Box::pin(async move {
            let response = response.instrument(span).await?.map(Body::new);
            if let Some(status) = Status::from_header_map(response.headers()) {
                call.outcome = status.code();
            }
            Ok(response.map(|body| Body::new(LoggedBody { body, call })))
        })
    }
}

/// The name of a call, unless a caller made it up.
fn name(path: &str) -> &str {
    let name = path.rsplit('/').next().unwrap_or_default();
    let is_name = name.len() <= 32 && name.chars().all(|it| it.is_ascii_alphanumeric());
    if is_name { name } else { "unknown" }
}

/// A call in progress; logged when it ends, which is when it is dropped.
struct Call {
    span: Span,
    calls: Arc<Calls>,
    begun: Begun,
    since: Instant,
    bytes_sent: u64,
    outcome: Code,
}

impl Call {
    fn new(span: Span, begun: Begun, calls: Arc<Calls>) -> Self {
        Self {
            span,
            calls,
            begun,
            since: Instant::now(),
            bytes_sent: 0,
            // Unless it ends in another way.
            outcome: Code::Cancelled,
        }
    }
}

impl Drop for Call {
    fn drop(&mut self) {
        let microseconds = self.since.elapsed().as_micros() as u64;
        let (outcome, bytes_sent) = (self.outcome, self.bytes_sent);
        self.span.in_scope(|| {
            if self.begun.0.load(Ordering::Relaxed) {
                tracing::info!(?outcome, microseconds, bytes_sent, "ended");
            } else {
                self.calls.refused.tell(|times| {
                    tracing::info!(?outcome, microseconds, bytes_sent, times, "ended");
                });
            }
        });
    }
}

/// Counts what is sent, and observes how it ends.
struct LoggedBody {
    body: Body,
    call: Call,
}

impl http_body::Body for LoggedBody {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        let frame = Pin::new(&mut self.body).poll_frame(context);
        match &frame {
            Poll::Ready(Some(Ok(frame))) => {
                if let Some(data) = frame.data_ref() {
                    self.call.bytes_sent += data.len() as u64;
                } else if let Some(status) = frame.trailers_ref().and_then(Status::from_header_map)
                {
                    self.call.outcome = status.code();
                }
            }
            Poll::Ready(Some(Err(status))) => self.call.outcome = status.code(),
            Poll::Ready(None) | Poll::Pending => {}
        }
        frame
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
