//! Metrics in the text format of Prometheus.
//!
//! Call durations are recorded as calls end; everything else is collected on request. No metric is labelled by dataset,
//! genome or address, and by namespace only if the operator wants that.

use super::exposition::Families;
use super::process;
use super::sources::Sources;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, prometheus_text};
use prometheus_client::registry::Registry;
use std::fmt;
use std::sync::Arc;

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
        registry.register_collector(Box::new(LazyCollector(Arc::clone(sources))));
        Self(registry)
    }

    /// Returns the current metrics. Reads files of the kernel, but none of the store.
    ///
    /// # Errors
    /// Errors of formatting into a string, which do not occur.
    pub(crate) fn text(&self) -> Result<String, fmt::Error> {
        let mut text = String::new();
        prometheus_text::encode(&mut text, &self.0)?;
        Ok(text)
    }
}

/// Collector of the metrics that are read on request.
struct LazyCollector(Arc<Sources>);

impl fmt::Debug for LazyCollector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Looked").finish_non_exhaustive()
    }
}

impl Collector for LazyCollector {
    fn encode(&self, encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let mut families = Families(encoder);
        process::tell(&mut families)?;
        self.0.tell(&mut families)
    }
}
