//! Limits how much one name may write to the audit log, to keep it from rotating out the lines of others.
//!
//! Each name has two budgets, each a quarter of the log's total bytes per [`PERIOD`]: one for changes, one for all
//! other calls. Calls beyond the second budget are summed up, one line per [`SUM`]. Changes are never summed up: beyond
//! the first budget they are refused, so each has its own line.

use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;
use tonic::Code;

/// Calls that change data, grants or the calls of others.
const CHANGES: [&str; 9] = [
    "BeginUpload",
    "CancelUpload",
    "DeleteDataset",
    "EndQuery",
    "GrantAccess",
    "KeepRecovery",
    "Publish",
    "RevokeAccess",
    "UndeleteDataset",
];
/// Time for which the lines of others stay, whatever one name does.
const PERIOD: Duration = Duration::from_secs(30 * 24 * 60 * 60);
/// Fraction of the log that one name may write in [`PERIOD`], for each kind of call.
const PERIOD_PART: u64 = 4;
/// Fraction that one name may write as a burst.
const BURST_PART: u64 = 32;
/// Time that one summary line covers.
const SUM: Duration = Duration::from_secs(600);
/// Maximum number of dataset names in a summary line.
const NAMES: usize = 8;

/// Recent use of the log, by name.
#[derive(Debug)]
pub(super) struct Quotas {
    /// Burst size in bytes.
    burst: f64,
    /// Refill rate in bytes per second.
    per_second: f64,
    by_caller: BTreeMap<Option<String>, Quota>,
}

#[derive(Debug, Default)]
struct Quota {
    changes: WriteQuota,
    others: WriteQuota,
    sum: Option<Sum>,
}

/// Bytes written, less those refilled since.
#[derive(Debug, Default)]
struct WriteQuota {
    bytes: f64,
    at: Option<Instant>,
}

/// Calls of one name that are summed up.
#[derive(Debug)]
struct Sum {
    begun: Instant,
    since: OffsetDateTime,
    calls: BTreeMap<&'static str, BTreeMap<String, u64>>,
    names: BTreeSet<String>,
}

/// Returns true if a call changes data, grants or other calls.
pub(super) fn is_change(call: &str) -> bool {
    CHANGES.contains(&call)
}

impl WriteQuota {
    fn bytes(&mut self, now: Instant, per_second: f64) -> f64 {
        let passed = self
            .at
            .map_or(Duration::ZERO, |at| now.saturating_duration_since(at));
        self.bytes = (self.bytes - passed.as_secs_f64() * per_second).max(0.0);
        self.at = Some(now);
        self.bytes
    }
}

impl Quotas {
    /// Creates the quotas of a log that keeps this many bytes.
    pub(super) fn new(kept: u64) -> Self {
        let part = |parts| (kept / parts) as f64;
        Self {
            burst: part(BURST_PART),
            per_second: part(PERIOD_PART) / PERIOD.as_secs_f64(),
            by_caller: BTreeMap::new(),
        }
    }

    /// Refuses a change by a name that has exceeded its budget.
    ///
    /// # Errors
    /// The time until the next change is allowed.
    pub(super) fn check(&mut self, caller: Option<&str>, now: Instant) -> Result<(), Duration> {
        let Some(quota) = self.by_caller.get_mut(&caller.map(str::to_owned)) else {
            return Ok(());
        };
        let over = quota.changes.bytes(now, self.per_second) - self.burst;
        if over < 0.0 {
            return Ok(());
        }
        Err(Duration::from_secs_f64((over + 1.0) / self.per_second))
    }

    /// Charges the line of a call. Returns `true` if it is to be written, `false` if the call was summed up.
    pub(super) fn count(
        &mut self,
        caller: Option<&str>,
        (call, outcome): (&'static str, Code),
        name: Option<&str>,
        bytes: usize,
        now: Instant,
    ) -> bool {
        let quota = self.by_caller.entry(caller.map(str::to_owned));
        let quota = quota.or_default();
        let written = if is_change(call) {
            &mut quota.changes
        } else {
            &mut quota.others
        };
        if is_change(call) || written.bytes(now, self.per_second) < self.burst {
            let before = written.bytes(now, self.per_second);
            written.bytes = before + bytes as f64;
            return true;
        }
        let sum = quota.sum.get_or_insert_with(|| Sum {
            begun: now,
            since: OffsetDateTime::now_utc(),
            calls: BTreeMap::new(),
            names: BTreeSet::new(),
        });
        let outcomes = sum.calls.entry(call).or_default();
        *outcomes.entry(format!("{outcome:?}")).or_default() += 1;
        if let Some(name) = name.filter(|_| sum.names.len() < NAMES) {
            sum.names.insert(name.to_owned());
        }
        false
    }

    /// Returns the summary lines that are due, or all of them at the end. Drops names whose budgets have refilled.
    pub(super) fn due(&mut self, now: Instant, is_end: bool) -> Vec<String> {
        let per_second = self.per_second;
        let mut lines = Vec::new();
        self.by_caller.retain(|caller, quota| {
            let is_due = |it: &mut Sum| is_end || now.saturating_duration_since(it.begun) >= SUM;
            if let Some(sum) = quota.sum.take_if(is_due) {
                lines.push(sum.line(caller.as_deref()));
            }
            let mut written = [&mut quota.changes, &mut quota.others];
            quota.sum.is_some() || written.iter_mut().any(|it| it.bytes(now, per_second) > 0.0)
        });
        lines
    }
}

#[derive(Serialize)]
struct Line<'a> {
    time: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    caller: Option<&'a str>,
    since: String,
    summed: &'a BTreeMap<&'static str, BTreeMap<String, u64>>,
    names: &'a BTreeSet<String>,
}

impl Sum {
    fn line(&self, caller: Option<&str>) -> String {
        let written = |time: OffsetDateTime| time.format(&Rfc3339).unwrap_or_default();
        let line = Line {
            time: written(OffsetDateTime::now_utc()),
            caller,
            since: written(self.since),
            summed: &self.calls,
            names: &self.names,
        };
        let line = serde_json::to_string(&line).expect("strings and numbers are JSON");
        line + "\n"
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use oboro_protocol::CALLS;
    use serde_json::Value;

    #[test]
    fn every_call_is_a_change_or_not() {
        let others = [
            "Count",
            "DescribeDataset",
            "FetchColumns",
            "FetchRecovery",
            "ListAccess",
            "ListDatasets",
            "ListGenomes",
            "ListQueries",
            "ListSites",
            "Placement",
            "Scrub",
            "SearchGenome",
            "SendSegment",
            "ServerInfo",
        ];
        let all: BTreeSet<&str> = CHANGES.into_iter().chain(others).collect();
        assert_eq!(all, CALLS.iter().copied().collect());
    }

    #[test]
    fn one_name_cannot_fill_the_log() {
        let kept = 1 << 20;
        let (mut quotas, begun) = (Quotas::new(kept), Instant::now());
        // A call each second for a month.
        let (mut written, mut sums) = (0, 0);
        for second in 0..PERIOD.as_secs() {
            let now = begun + Duration::from_secs(second);
            let call = ("Count", Code::Ok);
            if quotas.count(Some("greedy"), call, Some("rows"), 300, now) {
                written += 300;
            }
            let due = quotas.due(now, false);
            sums += due.len() as u64;
        }
        let most = kept / PERIOD_PART + kept / BURST_PART + 300;
        assert!(written <= most && written > kept / PERIOD_PART, "{written}");
        assert!(sums <= PERIOD.as_secs() / SUM.as_secs(), "{sums}");
        // Other names get their lines, and this one those of changes.
        let now = begun + PERIOD;
        let mut counts =
            |caller, call| quotas.count(Some(caller), (call, Code::Ok), None, 300, now);
        assert!(counts("other", "Count") && counts("greedy", "DeleteDataset"));
        assert!(!counts("greedy", "Count"));
    }

    #[test]
    fn calls_without_lines_are_added_up() {
        let (mut quotas, begun) = (Quotas::new(3200), Instant::now());
        let mut count =
            |call, outcome, name| quotas.count(Some("a"), (call, outcome), Some(name), 100, begun);
        assert!(count("Count", Code::Ok, "rows"));
        for _ in 0..3 {
            assert!(!count("Count", Code::Ok, "rows"));
        }
        assert!(!count("Scrub", Code::NotFound, "bob/rows"));
        assert!(quotas.due(begun + SUM / 2, false).is_empty());
        let lines = quotas.due(begun + SUM, false);
        let line: Value = serde_json::from_str(&lines[0]).unwrap();
        assert_eq!(line["caller"], "a");
        assert_eq!(line["summed"]["Count"]["Ok"], 3);
        assert_eq!(line["summed"]["Scrub"]["NotFound"], 1);
        assert_eq!(line["names"], serde_json::json!(["bob/rows", "rows"]));
        assert!(quotas.due(begun + 2 * SUM, true).is_empty());
        // Dropped once its budgets have refilled.
        quotas.due(begun + 2 * PERIOD, false);
        assert!(quotas.by_caller.is_empty());
    }

    #[test]
    fn changes_have_lines_or_are_refused() {
        let (mut quotas, begun) = (Quotas::new(32_000), Instant::now());
        let mut made = 0;
        while quotas.check(Some("a"), begun).is_ok() {
            assert!(quotas.count(Some("a"), ("GrantAccess", Code::Ok), None, 300, begun));
            made += 1;
        }
        assert_eq!(made, 4);
        let wait = quotas.check(Some("a"), begun).unwrap_err();
        quotas.check(Some("b"), begun).unwrap();
        assert!(quotas.check(Some("a"), begun + wait / 2).is_err());
        quotas.check(Some("a"), begun + wait).unwrap();
        // An admitted call is always written.
        assert!(quotas.count(Some("a"), ("Publish", Code::Ok), None, 300, begun));
    }
}
