//! Families of metrics in the text format of Prometheus.

use prometheus_client::encoding::{
    DescriptorEncoder, EncodeCounterValue, EncodeGaugeValue, EncodeLabelSet, EncodeMetric,
};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use std::fmt;

/// Families of metrics, written one after the other.
pub(crate) struct Families<'a>(pub(super) DescriptorEncoder<'a>);

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
