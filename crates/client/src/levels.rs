//! Result and cost of each level of mining.

use oboro_mining::LevelReport;
use serde_json::{Value, json};
use std::time::Duration;

/// Source of supports.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Route {
    /// Verified sums from the server for all pairs of a prefix.
    Scalars,
    /// Verified moments from the server for all longer itemsets of a prefix.
    Prefix,
    /// Local counts in verified sealed cells.
    Cells,
    /// Unverified moments from the server.
    Trusted,
}

impl Route {
    /// Returns the name in output and messages.
    pub fn name(self) -> &'static str {
        match self {
            Self::Scalars => "scalars",
            Self::Prefix => "prefix",
            Self::Cells => "cells",
            Self::Trusted => "trusted",
        }
    }
}

/// Callback for arriving answers: the level, bytes received, bytes expected.
pub(crate) type Progress<'a> = dyn Fn(usize, u64, u64) + Sync + 'a;

/// Cost of one level.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LevelTrace {
    /// Length of the itemsets.
    pub level: usize,
    /// Number of itemsets counted.
    pub itemsets: usize,
    /// Source of their supports.
    pub route: Route,
    /// Number of requests, each with a limited number of itemsets; 0 if none was sent.
    pub questions: usize,
    /// Maximum number of limbs read in one request.
    pub limbs: usize,
    /// Number of moments received, over all ranges of blocks.
    pub moments: u64,
    /// Number of these moments that the server had cached.
    pub known_moments: u64,
    /// Bytes of moments or cells received.
    pub received_bytes: u64,
    /// Time from the request to the supports.
    pub elapsed: Duration,
    /// Server's time for moments, as it reports it; part of `elapsed`.
    pub server: Duration,
    /// Wall-clock time spent combining moments here, and computing the supports. It is the mean over the threads, and
    /// mostly overlaps with receiving. Includes waiting for a processor if server and owner share them.
    pub combining: Duration,
    /// `log2` of the largest phase; only for unverified moments.
    pub log2_largest_phase: Option<f64>,
    /// `log2` of the bound on that phase.
    pub log2_phase_bound: Option<f64>,
}

impl LevelTrace {
    /// Creates the trace of counting in cells.
    pub(crate) fn in_cells(level: usize, itemsets: usize, elapsed: Duration) -> Self {
        Self {
            itemsets,
            ..Self::of(level, Route::Cells, elapsed)
        }
    }

    /// Creates a trace with only the elapsed time.
    pub(crate) fn of(level: usize, route: Route, elapsed: Duration) -> Self {
        Self {
            level,
            itemsets: 0,
            route,
            questions: 0,
            limbs: 0,
            moments: 0,
            known_moments: 0,
            received_bytes: 0,
            elapsed,
            server: Duration::ZERO,
            combining: Duration::ZERO,
            log2_largest_phase: None,
            log2_phase_bound: None,
        }
    }

    /// Adds the cost of another request of this level and route.
    pub(crate) fn add(&mut self, other: &Self) {
        self.itemsets += other.itemsets;
        self.questions += other.questions;
        self.limbs = self.limbs.max(other.limbs);
        self.moments = self.moments.saturating_add(other.moments);
        self.known_moments = self.known_moments.saturating_add(other.known_moments);
        self.received_bytes += other.received_bytes;
        self.elapsed += other.elapsed;
        self.server += other.server;
        self.combining += other.combining;
        // `None` is less than any value.
        let larger = |a: Option<f64>, b: Option<f64>| match (a, b) {
            (Some(a), Some(b)) => Some(a.max(b)),
            (a, b) => a.or(b),
        };
        self.log2_largest_phase = larger(self.log2_largest_phase, other.log2_largest_phase);
        self.log2_phase_bound = larger(self.log2_phase_bound, other.log2_phase_bound);
    }
}

/// Result of a level, and its cost.
pub struct Level<'a> {
    /// Result of the level.
    pub report: &'a LevelReport,
    /// Cost; `None` if nothing was counted.
    pub trace: Option<&'a LevelTrace>,
}

impl<'a> Level<'a> {
    /// Pairs each report with its trace.
    pub fn all(reports: &'a [LevelReport], traces: &'a [LevelTrace]) -> Vec<Self> {
        reports
            .iter()
            .map(|report| Level {
                report,
                trace: traces.iter().find(|trace| trace.level == report.level),
            })
            .collect()
    }

    /// Returns the level as JSON.
    pub fn to_json(&self) -> Value {
        let Level { report, trace } = self;
        json!({
            "level": report.level,
            "candidates": report.candidates,
            "asked": report.asked,
            "deduced": report.deduced,
            "excluded": report.excluded,
            "frequent": report.frequent,
            "route": trace.map(|trace| trace.route.name()),
            "limbs": trace.map_or(0, |trace| trace.limbs),
            "questions": trace.map_or(0, |trace| trace.questions),
            "moments": trace.map_or(0, |trace| trace.moments),
            "known_moments": trace.map_or(0, |trace| trace.known_moments),
            "received_bytes": trace.map_or(0, |trace| trace.received_bytes),
            "seconds": trace.map_or(0.0, |trace| trace.elapsed.as_secs_f64()),
            "server_seconds": trace.map_or(0.0, |trace| trace.server.as_secs_f64()),
            "combining_seconds": trace.map_or(0.0, |trace| trace.combining.as_secs_f64()),
            "log2_largest_phase": trace.and_then(|trace| trace.log2_largest_phase),
            "log2_phase_bound": trace.and_then(|trace| trace.log2_phase_bound),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn questions_of_a_level_add_up() {
        let question = |itemsets, limbs, log2_largest_phase| LevelTrace {
            level: 12,
            itemsets,
            route: Route::Trusted,
            questions: 1,
            limbs,
            moments: 50,
            known_moments: 20,
            received_bytes: 700,
            elapsed: Duration::from_millis(30),
            server: Duration::from_millis(20),
            combining: Duration::from_millis(5),
            log2_largest_phase: Some(log2_largest_phase),
            log2_phase_bound: Some(90.0),
        };
        let mut trace = question(256, 4, 70.5);
        trace.add(&question(3, 4, 71.5));
        let level = LevelTrace {
            questions: 2,
            moments: 100,
            known_moments: 40,
            received_bytes: 1400,
            elapsed: Duration::from_millis(60),
            server: Duration::from_millis(40),
            combining: Duration::from_millis(10),
            ..question(259, 4, 71.5)
        };
        assert_eq!(trace, level);
    }
}
