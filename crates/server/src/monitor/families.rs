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
        let told = (
            "oboro_build_info",
            "The release, and the protocol that it speaks",
        );
        families.gauges(told, [(build, 1u64)])?;
        let told = (
            "oboro_ready",
            "Whether a condition of readiness holds, by condition",
        );
        let conditions = self.readiness.conditions();
        let ready = conditions
            .iter()
            .map(|it| (label("condition", it.name), u64::from(it.problem.is_none())));
        families.gauges(told, ready)?;
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
        let told = (
            "oboro_connections_accepted",
            "Connections that were taken up",
        );
        families.counter(told, accepted)?;
        let told = (
            "oboro_connection_incidents",
            "What happened to connections, by incident",
        );
        let incidents = self.connections.incidents();
        let incidents = incidents.map(|(what, times)| (label("incident", what), times));
        families.counters(told, incidents)?;
        let told = (
            "oboro_callers_refused",
            "Calls of callers that were not let in, by reason",
        );
        let refused = self.authentication.refused();
        let refused = refused.into_iter();
        families.counters(
            told,
            refused.map(|(why, times)| (label("reason", why), times)),
        )?;
        let told = ("oboro_health_watches", "Watches of the health service");
        families.gauge(told, self.watches.count())?;
        if let Some(tls) = &self.tls {
            let told = (
                "oboro_certificate_expiry_timestamp_seconds",
                "When the server's certificate expires, in seconds since 1970",
            );
            families.gauge(told, tls.expiry().unix_timestamp())?;
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
        let told = ("oboro_places_taken", "Calls that have a place, by kind");
        families.gauges(told, each(FairSemaphore::used))?;
        let told = ("oboro_places_limit", "Places, by kind of call");
        families.gauges(told, each(FairSemaphore::total))?;
        let told = (
            "oboro_places_waiting",
            "Calls that wait for a place, by kind",
        );
        families.gauges(told, each(|it| it.waiting() as u64))?;
        let told = (
            "oboro_messages_waiting",
            "Messages that wait for memory to be received into",
        );
        families.gauge(told, messages.waiting())?;
        let told = (
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
        families.gauges(told, waiting)?;
        let told = ("oboro_compute_jobs", "Queries that threads compute for");
        families.gauge(told, self.queue.jobs())?;
        let told = ("oboro_compute_threads", "Threads that compute");
        families.gauge(told, self.threads)
    }

    /// Encodes memory by part, and caches.
    fn tell_memory(&self, families: &mut Families<'_>) -> fmt::Result {
        let [_, _, messages] = self.call_limits.shares();
        let residency = self.store.state().residency;
        let (moments, windows) = (self.moments.used(), self.genomes.windows());
        let searching = self.genomes.searching();
        let part = |name, value: u64| (label("part", name), value);
        let told = ("oboro_memory_bytes", "Memory in use, by part");
        let used = [
            part("panels", residency.used),
            part("plans", self.budget.used()),
            part("messages", messages.used()),
            part("moments", moments.bytes),
            part("windows", windows.bytes),
            part("searches", searching.used()),
        ];
        families.gauges(told, used)?;
        let told = (
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
        families.gauges(told, limits)?;
        let caches = [("moments", moments), ("windows", windows)];
        let each =
            |of: fn(CacheUse) -> u64| caches.map(|(name, it)| (label("cache", name), of(it)));
        let told = (
            "oboro_cache_hits",
            "What was wanted and was cached, by cache",
        );
        families.counters(told, each(|it| it.hits))?;
        let told = (
            "oboro_cache_misses",
            "What was wanted and was not cached, by cache",
        );
        families.counters(told, each(|it| it.misses))
    }

    /// Encodes stored bytes and reads, by tier.
    fn tell_storage(&self, families: &mut Families<'_>) -> fmt::Result {
        let state = self.store.state();
        let reads = state.residency.reads;
        let told = (
            "oboro_panels",
            "Panels that queries needed, by where they were",
        );
        let from = |name, count: u64| (label("from", name), count);
        let panels = [
            from("memory", reads.found),
            from("storage", reads.panels),
            from("seeds", reads.masks),
        ];
        families.counters(told, panels)?;
        let told = (
            "oboro_read_bytes",
            "Bytes of panels that were read from storage",
        );
        families.counter(told, reads.bytes)?;
        let told = (
            "oboro_damage_found",
            "Damage in what is stored, by what found it",
        );
        let by = |name, times: u64| (label("by", name), times);
        let found = [
            by("call", self.times.damaged()),
            by("scrub", self.scrubs.damaged()),
        ];
        families.counters(told, found)?;
        if let Some(space) = self.space() {
            let told = (
                "oboro_disk_free_bytes",
                "Free space of the disk of the data directory",
            );
            families.gauge(told, space.free)?;
            let told = (
                "oboro_disk_bytes",
                "Space of the disk of the data directory",
            );
            families.gauge(told, space.all)?;
        }
        let Some(cache) = state.cache else {
            return Ok(());
        };
        let told = (
            "oboro_object_cache_bytes",
            "Bytes of the cache of object storage",
        );
        families.gauge(told, cache.bytes)?;
        let told = ("oboro_object_requests", "Requests to object storage");
        families.counter(told, cache.requested.requests)?;
        let told = (
            "oboro_object_failures",
            "Requests to object storage that failed",
        );
        families.counter(told, cache.requested.failed)?;
        let told = (
            "oboro_object_fetched_bytes",
            "Bytes fetched from object storage",
        );
        families.counter(told, cache.requested.fetched_bytes)
    }

    /// Encodes the use by callers.
    fn tell_use(&self, families: &mut Families<'_>) -> fmt::Result {
        let used = self.meter.used();
        let all = used.iter().fold(Used::default(), |sum, it| sum + it.1);
        let mut told = |name: [&str; 2], of: fn(&Used) -> f64| -> fmt::Result {
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
        told(["calls", "Calls that callers made"], |it| it.calls as f64)?;
        told(
            ["received_bytes", "Bytes of messages that were received"],
            |it| it.received_bytes as f64,
        )?;
        told(["sent_bytes", "Bytes of answers that were taken"], |it| {
            it.sent_bytes as f64
        })?;
        told(["compute_seconds", "Time that threads computed"], |it| {
            it.compute_microseconds as f64 / 1e6
        })?;
        let stored = self.stored.lock().clone();
        let told = ("oboro_stored_bytes", "Bytes that are stored");
        families.gauge(told, stored.iter().map(|it| it.1).sum::<u64>())?;
        if self.by_namespace {
            let told = (
                "oboro_namespace_stored_bytes",
                "Bytes that are stored, by namespace",
            );
            let each = stored
                .iter()
                .map(|(name, bytes)| (label("namespace", &**name), *bytes));
            families.gauges(told, each)?;
        }
        Ok(())
    }
}
