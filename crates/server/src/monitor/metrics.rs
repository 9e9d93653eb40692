//! Metrics in the text format of Prometheus.
//!
//! How long calls take is counted as they end; everything else is looked up in what has it when somebody asks. No metric is
//! by dataset, genome or address; by namespace only where the operator wants that.

use super::process;
use super::sources::Sources;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{
    DescriptorEncoder, EncodeCounterValue, EncodeGaugeValue, EncodeLabelSet, EncodeMetric,
    prometheus_text,
};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::{ConstCounter, Counter};
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;
use tonic::Code;

/// The upper ends of the buckets of durations, in seconds: from a cached answer to the longest query.
const SECONDS: [f64; 14] = [
    0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0, 30.0, 300.0, 3600.0,
];

type CallLabels = [(&'static str, &'static str); 2];

/// How long calls took, by call and outcome.
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
    /// A call of this name has ended.
    pub(crate) fn ended(&self, call: &'static str, outcome: Code, time: Duration) {
        let labels = [("call", call), ("outcome", outcome_name(outcome))];
        self.times
            .get_or_create(&labels)
            .observe(time.as_secs_f64());
        if outcome == Code::DataLoss {
            self.damaged.inc();
        }
    }

    fn durations(&self) -> Family<CallLabels, Histogram> {
        self.times.clone()
    }

    /// How many calls found damage in what is stored.
    pub(super) fn damaged(&self) -> u64 {
        self.damaged.get()
    }
}

/// The name of a status as the gRPC specification writes it.
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

/// All metrics of a server.
pub(crate) struct Metrics(Registry);

impl Metrics {
    pub(crate) fn new(sources: &Arc<Sources>) -> Self {
        let mut registry = Registry::default();
        registry.register(
            "oboro_call_duration_seconds",
            "From the first byte of a call to the last of its answer",
            sources.times.durations(),
        );
        registry.register_collector(Box::new(Looked(Arc::clone(sources))));
        Self(registry)
    }

    /// The metrics as they are now. Reads files of the kernel, and nothing of the store's.
    ///
    /// # Errors
    /// None that a string has.
    pub(crate) fn text(&self) -> Result<String, fmt::Error> {
        let mut text = String::new();
        prometheus_text::encode(&mut text, &self.0)?;
        Ok(text)
    }
}

/// What is looked up when somebody asks.
struct Looked(Arc<Sources>);

impl fmt::Debug for Looked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Looked").finish_non_exhaustive()
    }
}

impl Collector for Looked {
    fn encode(&self, encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let mut families = Families(encoder);
        process::tell(&mut families)?;
        self.0.tell(&mut families)
    }
}

/// Families of metrics, written one after the other.
pub(crate) struct Families<'a>(DescriptorEncoder<'a>);

impl Families<'_> {
    /// Values that go up and down, each with its labels.
    pub(crate) fn gauges<L: EncodeLabelSet, V: EncodeGaugeValue + Clone>(
        &mut self,
        (name, help): (&str, &str),
        values: impl IntoIterator<Item = (L, V)>,
    ) -> fmt::Result {
        let mut encoder = self
            .0
            .encode_descriptor(name, help, None, MetricType::Gauge)?;
        for (labels, value) in values {
            let value = ConstGauge::new(value);
            value.encode(encoder.encode_family(&labels)?)?;
        }
        Ok(())
    }

    /// Counts since the server started, each with its labels. The end `_total` of their name is added.
    pub(crate) fn counters<L: EncodeLabelSet, V: EncodeCounterValue + Clone>(
        &mut self,
        (name, help): (&str, &str),
        values: impl IntoIterator<Item = (L, V)>,
    ) -> fmt::Result {
        let mut encoder = self
            .0
            .encode_descriptor(name, help, None, MetricType::Counter)?;
        for (labels, value) in values {
            let value = ConstCounter::new(value);
            value.encode(encoder.encode_family(&labels)?)?;
        }
        Ok(())
    }

    /// One value that goes up and down.
    pub(crate) fn gauge(
        &mut self,
        told: (&str, &str),
        value: impl EncodeGaugeValue + Clone,
    ) -> fmt::Result {
        self.gauges(told, [(NONE, value)])
    }

    /// One count since the server started.
    pub(crate) fn counter(
        &mut self,
        told: (&str, &str),
        value: impl EncodeCounterValue + Clone,
    ) -> fmt::Result {
        self.counters(told, [(NONE, value)])
    }
}

/// No labels.
const NONE: [(&str, &str); 0] = [];

/// One label.
pub(crate) fn label<T>(name: &'static str, value: T) -> [(&'static str, T); 1] {
    [(name, value)]
}
