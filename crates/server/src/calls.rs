//! The log of calls: a span for each, and a line when it has ended.
//!
//! The span has the numbers of the request, as the call's handler learns them; the line says how it
//! went. Neither has a token, a dataset's name or any of its content. Calls of which nothing was begun, because the caller was
//! not let in or makes too many, have a line once in a while only: callers may make any number of them.

use crate::middleware::{Answer, Middleware, Next, Observer, observed};
use crate::rarely::Rarely;
use http_body::Frame;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Instant;
use tonic::body::Body;
use tonic::codegen::{Bytes, http};
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

impl Middleware for Arc<Calls> {
    /// Logs the call.
    fn handle(&self, mut request: http::Request<Body>, next: Next) -> Answer {
        let begun = Begun::default();
        request.extensions_mut().insert(begun.clone());
        let path = request.uri().path();
        let span = tracing::info_span!(
            "call",
            request = self.number.fetch_add(1, Ordering::Relaxed) + 1,
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
        let mut call = Call::new(span.clone(), begun, Arc::clone(self));
        let response = span.in_scope(|| next(request));
        Box::pin(async move {
            let response = response.instrument(span).await?;
            if let Some(status) = Status::from_header_map(response.headers()) {
                call.outcome = status.code();
            }
            Ok(response.map(|body| observed(body, call)))
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

/// Counts what is sent, and sees how it ends.
impl Observer for Call {
    fn observe(&mut self, frame: &Result<Frame<Bytes>, Status>) {
        match frame {
            Ok(frame) => {
                if let Some(data) = frame.data_ref() {
                    self.bytes_sent += data.len() as u64;
                } else if let Some(status) = frame.trailers_ref().and_then(Status::from_header_map)
                {
                    self.outcome = status.code();
                }
            }
            Err(status) => self.outcome = status.code(),
        }
    }
}
