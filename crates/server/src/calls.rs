//! Log of calls: a span for each, and a line when it ends.
//!
//! The span has the numbers of the request as its handler learns them; the line has the outcome. The answer carries the
//! call's id, by which callers and operators can refer to it. Neither contains a token, a dataset's name or content.
//! Calls that are not admitted are throttled in the log, since anyone can make any number of them.

use http_body::Frame;
use oboro_edge::{
    Answer, Audit, CallOutcome, Middleware, Next, Observer, Subject, ThrottledLog, observed,
};
use oboro_protocol::{CALLS, REQUEST_KEY};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::Histogram;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};
use tonic::body::Body;
use tonic::codegen::http::HeaderValue;
use tonic::codegen::{Bytes, http};
use tonic::{Code, Status};
use tracing::{Instrument, Span, field};

/// Upper bounds of the duration buckets, in seconds: from a cached answer to the longest query.
const SECONDS: [f64; 14] = [
    0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0, 30.0, 300.0, 3600.0,
];

pub(crate) type CallLabels = [(&'static str, &'static str); 2];

/// Call durations, by call and outcome.
#[derive(Debug, Clone)]
pub(crate) struct CallTimes {
    times: Family<CallLabels, Histogram>,
    damaged: Counter,
}

impl Default for CallTimes {
    fn default() -> Self {
        Self {
            times: Family::new_with_constructor(|| Histogram::new(SECONDS)),
            damaged: Counter::default(),
        }
    }
}

impl CallTimes {
    /// Records the end of a call.
    pub(crate) fn ended(&self, call: &'static str, outcome: Code, time: Duration) {
        let labels = [("call", call), ("outcome", outcome_name(outcome))];
        self.times
            .get_or_create(&labels)
            .observe(time.as_secs_f64());
        if outcome == Code::DataLoss {
            self.damaged.inc();
        }
    }

    pub(crate) fn durations(&self) -> Family<CallLabels, Histogram> {
        self.times.clone()
    }

    /// Returns the number of calls that found damaged data.
    pub(crate) fn damaged(&self) -> u64 {
        self.damaged.get()
    }
}

/// Returns the name of a status in the gRPC specification.
fn outcome_name(code: Code) -> &'static str {
    match code {
        Code::Ok => "OK",
        Code::Cancelled => "CANCELLED",
        Code::Unknown => "UNKNOWN",
        Code::InvalidArgument => "INVALID_ARGUMENT",
        Code::DeadlineExceeded => "DEADLINE_EXCEEDED",
        Code::NotFound => "NOT_FOUND",
        Code::AlreadyExists => "ALREADY_EXISTS",
        Code::PermissionDenied => "PERMISSION_DENIED",
        Code::ResourceExhausted => "RESOURCE_EXHAUSTED",
        Code::FailedPrecondition => "FAILED_PRECONDITION",
        Code::Aborted => "ABORTED",
        Code::OutOfRange => "OUT_OF_RANGE",
        Code::Unimplemented => "UNIMPLEMENTED",
        Code::Internal => "INTERNAL",
        Code::Unavailable => "UNAVAILABLE",
        Code::DataLoss => "DATA_LOSS",
        Code::Unauthenticated => "UNAUTHENTICATED",
    }
}

/// State shared by the call logs of all services.
pub(crate) struct Calls {
    /// Key of this run of the server, from which call ids are derived.
    run: [u8; 32],
    number: AtomicU64,
    refused: ThrottledLog,
    times: CallTimes,
    audit: Option<Arc<Audit>>,
}

impl Calls {
    /// Creates the log, which reports durations to `times` and calls to `audit`.
    pub(crate) fn new(times: CallTimes, audit: Option<Arc<Audit>>) -> Arc<Self> {
        let mut run = [0; 32];
        // Without randomness ids are predictable, which breaks nothing.
        let _ = getrandom::fill(&mut run);
        Arc::new(Self {
            run,
            number: AtomicU64::new(0),
            refused: ThrottledLog::default(),
            times,
            audit,
        })
    }

    /// Returns the id of the next call, 16 hexadecimal digits. Two ids do not reveal the number of calls between them.
    fn next(&self) -> String {
        let number = self.number.fetch_add(1, Ordering::Relaxed);
        let id = blake3::keyed_hash(&self.run, &number.to_le_bytes());
        id.to_hex()[..16].to_owned()
    }
}

/// Flag of a request, set once its caller is admitted.
#[derive(Debug, Clone, Default)]
pub(crate) struct AdmittedFlag(Arc<AtomicBool>);

impl AdmittedFlag {
    /// Marks the call as admitted: it is logged however it ends.
    pub(crate) fn of<B>(request: &http::Request<B>) {
        if let Some(begun) = request.extensions().get::<Self>() {
            begun.0.store(true, Ordering::Relaxed);
        }
    }
}

impl Middleware for Calls {
    /// Logs the call.
    fn handle(self: &Arc<Self>, mut request: http::Request<Body>, next: Next) -> Answer {
        let (begun, subject) = (AdmittedFlag::default(), Subject::default());
        request.extensions_mut().insert(begun.clone());
        request.extensions_mut().insert(subject.clone());
        let (request_number, name) = (self.next(), name(request.uri().path()));
        let span = tracing::info_span!(
            "call",
            request = request_number,
            call = name,
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
        let number = HeaderValue::try_from(request_number).expect("it is ASCII");
        let mut call = Call {
            span: span.clone(),
            name,
            number,
            subject,
            calls: Arc::clone(self),
            begun,
            since: Instant::now(),
            bytes_sent: 0,
            // Default, unless it ends otherwise.
            outcome: Code::Cancelled,
        };
        let response = span.in_scope(|| next(request));
        Box::pin(async move {
            let mut response = response.instrument(span).await?;
            let number = call.number.clone();
            response.headers_mut().insert(REQUEST_KEY, number);
            if let Some(status) = Status::from_header_map(response.headers()) {
                call.outcome = status.code();
            }
            Ok(response.map(|body| observed(body, call)))
        })
    }
}

/// Returns the name of a call, or `unknown` for one that does not exist.
fn name(path: &str) -> &'static str {
    const OF_HEALTH: [&str; 3] = ["Check", "List", "Watch"];
    let given = path.rsplit('/').next().unwrap_or_default();
    let mut known = CALLS.iter().chain(&OF_HEALTH);
    known.find(|it| **it == given).unwrap_or(&"unknown")
}

/// Call in progress, logged when dropped.
struct Call {
    span: Span,
    name: &'static str,
    number: HeaderValue,
    subject: Subject,
    calls: Arc<Calls>,
    begun: AdmittedFlag,
    since: Instant,
    bytes_sent: u64,
    outcome: Code,
}

impl Drop for Call {
    fn drop(&mut self) {
        let time = self.since.elapsed();
        let microseconds = time.as_micros() as u64;
        let (outcome, bytes_sent) = (self.outcome, self.bytes_sent);
        self.calls.times.ended(self.name, outcome, time);
        let is_begun = self.begun.0.load(Ordering::Relaxed);
        if let Some(audit) = self.calls.audit.as_ref().filter(|_| is_begun) {
            let ended = CallOutcome {
                request: self.number.to_str().unwrap_or_default().to_owned(),
                call: self.name,
                outcome,
                time,
            };
            self.subject.end(audit, ended);
        }
        self.span.in_scope(|| {
            if is_begun {
                tracing::info!(?outcome, microseconds, bytes_sent, "ended");
            } else {
                self.calls.refused.log(|times| {
                    tracing::info!(?outcome, microseconds, bytes_sent, times, "ended");
                });
            }
        });
    }
}

/// Counts bytes sent, records the outcome, and adds the call's id to the last frame.
impl Observer for Call {
    fn observe(&mut self, frame: &mut Result<Frame<Bytes>, Status>) {
        match frame {
            Ok(frame) => {
                if let Some(data) = frame.data_ref() {
                    self.bytes_sent += data.len() as u64;
                } else if let Some(trailers) = frame.trailers_mut() {
                    if let Some(status) = Status::from_header_map(trailers) {
                        self.outcome = status.code();
                    }
                    trailers.insert(REQUEST_KEY, self.number.clone());
                }
            }
            Err(status) => self.outcome = status.code(),
        }
    }
}
