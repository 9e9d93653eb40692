//! Metrics that are collected on request, family by family.

use super::exposition::{Families, label};
use super::sources::Sources;
use crate::cache::CacheUse;
use crate::metering::Used;
use oboro_edge::Client;
use oboro_protocol::PROTOCOL;
use oboro_residency::FairSemaphore;
use std::fmt;

impl Sources {
    pub(super) fn tell(&self, families: &mut Families<'_>) -> fmt::Result {
        let build = [
            ("version", env!("CARGO_PKG_VERSION").to_owned()),
            ("protocol", PROTOCOL.to_string()),
        ];
        let metric = (
            "oboro_build_info",
            "The release, and the protocol that it speaks",
        );
        families.gauges(metric, [(build, 1u64)])?;
        let metric = (
            "oboro_ready",
            "Whether a condition of readiness holds, by condition",
        );
        let conditions = self.readiness.conditions();
        let ready = conditions
            .iter()
            .map(|it| (label("condition", it.name), u64::from(it.problem.is_none())));
        families.gauges(metric, ready)?;
        self.tell_transport(families)?;
        self.tell_queues(families)?;
        self.tell_memory(families)?;
        self.tell_storage(families)?;
        self.tell_use(families)
    }

    /// Encodes connections and refused callers.
    fn tell_transport(&self, families: &mut Families<'_>) -> fmt::Result {
        let (open, accepted) = self.connections.count();
        families.gauge(("oboro_connections", "Open connections"), open)?;
        let metric = (
            "oboro_connections_accepted",
            "Connections that were taken up",
        );
        families.counter(metric, accepted)?;
        let metric = (
            "oboro_connection_incidents",
            "What happened to connections, by incident",
        );
        let incidents = self.connections.incidents();
        let incidents = incidents.map(|(what, times)| (label("incident", what), times));
        families.counters(metric, incidents)?;
        let metric = (
            "oboro_callers_refused",
            "Calls of callers that were not let in, by reason",
        );
        let refused = self.authentication.refused();
        let refused = refused.into_iter();
        families.counters(
            metric,
            refused.map(|(why, times)| (label("reason", why), times)),
        )?;
        let metric = ("oboro_health_watches", "Watches of the health service");
        families.gauge(metric, self.watches.count())?;
        if let Some(tls) = &self.tls {
            let metric = (
                "oboro_certificate_expiry_timestamp_seconds",
                "When the server's certificate expires, in seconds since 1970",
            );
            families.gauge(metric, tls.expiry().unix_timestamp())?;
        }
        Ok(())
    }

    /// Encodes slots and their queues.
    fn tell_queues(&self, families: &mut Families<'_>) -> fmt::Result {
        let [light, uploads, messages] = self.call_limits.shares();
        let places = [
            ("queries", self.admission.places()),
            ("uploads", uploads),
            ("other", light),
        ];
        let each = |of: fn(&FairSemaphore<Client>) -> u64| {
            places.map(|(what, shares)| (label("calls", what), of(shares)))
        };
        let metric = ("oboro_places_taken", "Calls that have a place, by kind");
        families.gauges(metric, each(FairSemaphore::used))?;
        let metric = ("oboro_places_limit", "Places, by kind of call");
        families.gauges(metric, each(FairSemaphore::total))?;
        let metric = (
            "oboro_places_waiting",
            "Calls that wait for a place, by kind",
        );
        families.gauges(metric, each(|it| it.waiting() as u64))?;
        let metric = (
            "oboro_messages_waiting",
            "Messages that wait for memory to be received into",
        );
        families.gauge(metric, messages.waiting())?;
        let metric = (
            "oboro_memory_waiting",
            "Queries that wait for memory, by what for",
        );
        let waiting = [
            (label("part", "plans"), self.budget.waiting()),
            (
                label("part", "panels"),
                self.store.state().residency.waiting,
            ),
            (
                label("part", "searches"),
                self.genomes.searching().waiting(),
            ),
        ];
        families.gauges(metric, waiting)?;
        let metric = ("oboro_compute_jobs", "Queries that threads compute for");
        families.gauge(metric, self.queue.jobs())?;
        let metric = ("oboro_compute_threads", "Threads that compute");
        families.gauge(metric, self.threads)
    }

    /// Encodes memory by part, and caches.
    fn tell_memory(&self, families: &mut Families<'_>) -> fmt::Result {
        let [_, _, messages] = self.call_limits.shares();
        let residency = self.store.state().residency;
        let (moments, windows) = (self.moments.used(), self.genomes.windows());
        let searching = self.genomes.searching();
        let part = |name, value: u64| (label("part", name), value);
        let metric = ("oboro_memory_bytes", "Memory in use, by part");
        let used = [
            part("panels", residency.used),
            part("plans", self.budget.used()),
            part("messages", messages.used()),
            part("moments", moments.bytes),
            part("windows", windows.bytes),
            part("searches", searching.used()),
        ];
        families.gauges(metric, used)?;
        let metric = (
            "oboro_memory_limit_bytes",
            "The most memory of a part; a part without a limit has none",
        );
        let mut limits = vec![
            part("plans", self.budget.total()),
            part("messages", messages.total()),
            part("searches", searching.total()),
        ];
        if residency.capacity < u64::MAX {
            limits.push(part("panels", residency.capacity));
        }
        families.gauges(metric, limits)?;
        let caches = [("moments", moments), ("windows", windows)];
        let each =
            |of: fn(CacheUse) -> u64| caches.map(|(name, it)| (label("cache", name), of(it)));
        let metric = (
            "oboro_cache_hits",
            "What was wanted and was cached, by cache",
        );
        families.counters(metric, each(|it| it.hits))?;
        let metric = (
            "oboro_cache_misses",
            "What was wanted and was not cached, by cache",
        );
        families.counters(metric, each(|it| it.misses))
    }

    /// Encodes stored bytes and reads, by tier.
    fn tell_storage(&self, families: &mut Families<'_>) -> fmt::Result {
        let state = self.store.state();
        let reads = state.residency.reads;
        let metric = (
            "oboro_panels",
            "Panels that queries needed, by where they were",
        );
        let from = |name, count: u64| (label("from", name), count);
        let panels = [
            from("memory", reads.found),
            from("storage", reads.panels),
            from("seeds", reads.masks),
        ];
        families.counters(metric, panels)?;
        let metric = (
            "oboro_read_bytes",
            "Bytes of panels that were read from storage",
        );
        families.counter(metric, reads.bytes)?;
        let metric = (
            "oboro_damage_found",
            "Damage in what is stored, by what found it",
        );
        let by = |name, times: u64| (label("by", name), times);
        let found = [
            by("call", self.times.damaged()),
            by("scrub", self.scrubs.damaged()),
        ];
        families.counters(metric, found)?;
        if let Some(space) = self.space() {
            let metric = (
                "oboro_disk_free_bytes",
                "Free space of the disk of the data directory",
            );
            families.gauge(metric, space.free)?;
            let metric = (
                "oboro_disk_bytes",
                "Space of the disk of the data directory",
            );
            families.gauge(metric, space.all)?;
        }
        let Some(cache) = state.cache else {
            return Ok(());
        };
        let metric = (
            "oboro_object_cache_bytes",
            "Bytes of the cache of object storage",
        );
        families.gauge(metric, cache.bytes)?;
        let metric = ("oboro_object_requests", "Requests to object storage");
        families.counter(metric, cache.requested.requests)?;
        let metric = (
            "oboro_object_failures",
            "Requests to object storage that failed",
        );
        families.counter(metric, cache.requested.failed)?;
        let metric = (
            "oboro_object_fetched_bytes",
            "Bytes fetched from object storage",
        );
        families.counter(metric, cache.requested.fetched_bytes)
    }

    /// Encodes the use by callers.
    fn tell_use(&self, families: &mut Families<'_>) -> fmt::Result {
        let used = self.meter.used();
        let all = used.iter().fold(Used::default(), |sum, it| sum + it.1);
        let mut metric = |name: [&str; 2], of: fn(&Used) -> f64| -> fmt::Result {
            let [name, help] = name;
            families.counter((&format!("oboro_{name}"), help), of(&all))?;
            if self.by_namespace {
                let each = used
                    .iter()
                    .map(|(name, it)| (label("namespace", &**name), of(it)));
                let help = format!("{help}, by namespace");
                families.counters((&format!("oboro_namespace_{name}"), &help), each)?;
            }
            Ok(())
        };
        metric(["calls", "Calls that callers made"], |it| it.calls as f64)?;
        metric(
            ["received_bytes", "Bytes of messages that were received"],
            |it| it.received_bytes as f64,
        )?;
        metric(["sent_bytes", "Bytes of answers that were taken"], |it| {
            it.sent_bytes as f64
        })?;
        metric(["compute_seconds", "Time that threads computed"], |it| {
            it.compute_microseconds as f64 / 1e6
        })?;
        let stored = self.stored.lock().clone();
        let metric = ("oboro_stored_bytes", "Bytes that are stored");
        families.gauge(metric, stored.iter().map(|it| it.1).sum::<u64>())?;
        if self.by_namespace {
            let metric = (
                "oboro_namespace_stored_bytes",
                "Bytes that are stored, by namespace",
            );
            let each = stored
                .iter()
                .map(|(name, bytes)| (label("namespace", &**name), *bytes));
            families.gauges(metric, each)?;
        }
        Ok(())
    }
}
