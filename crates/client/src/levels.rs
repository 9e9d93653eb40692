//! What mining found and took, level by level.

use crate::moments::LevelTrace;
use oboro_mining::LevelReport;
use serde_json::{Value, json};

/// What there was to find out at a level, and what it cost if the server was asked at all.
pub struct Level<'a> {
    /// What was found.
    pub report: &'a LevelReport,
    /// What it cost; `None` if nothing was asked.
    pub trace: Option<&'a LevelTrace>,
}

impl<'a> Level<'a> {
    /// All levels, from those that were reported and those that cost something.
    pub fn all(reports: &'a [LevelReport], traces: &'a [LevelTrace]) -> Vec<Self> {
        reports
            .iter()
            .map(|report| Level {
                report,
                trace: traces.iter().find(|trace| trace.level == report.level),
            })
            .collect()
    }

    /// As programs are told.
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
