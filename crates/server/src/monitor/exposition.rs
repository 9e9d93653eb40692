//! Families of metrics in the text format of Prometheus.

use prometheus_client::encoding::{
    DescriptorEncoder, EncodeCounterValue, EncodeGaugeValue, EncodeLabelSet, EncodeMetric,
};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use std::fmt;

/// Encoder of metric families.
pub(crate) struct Families<'a>(pub(super) DescriptorEncoder<'a>);

impl Families<'_> {
    /// Adds gauges, each with its labels.
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

    /// Adds counters since the server started, each with its labels. Appends `_total` to their name.
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

    /// Adds a single gauge.
    pub(crate) fn gauge(
        &mut self,
        metric: (&str, &str),
        value: impl EncodeGaugeValue + Clone,
    ) -> fmt::Result {
        self.gauges(metric, [(NONE, value)])
    }

    /// Adds a single counter since the server started.
    pub(crate) fn counter(
        &mut self,
        metric: (&str, &str),
        value: impl EncodeCounterValue + Clone,
    ) -> fmt::Result {
        self.counters(metric, [(NONE, value)])
    }
}

/// No labels.
const NONE: [(&str, &str); 0] = [];

/// Returns one label.
pub(crate) fn label<T>(name: &'static str, value: T) -> [(&'static str, T); 1] {
    [(name, value)]
}
