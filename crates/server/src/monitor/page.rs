//! Status page for operators without Grafana: shows what the viewer's own calls would show and, to operators, the
//! machine.
//!
//! The page is read-only, without scripts, and never cached by the browser.

use super::seen::{Peer, Snapshot, unauthorized};
use super::sources::{Sources, Use};
use crate::metering::Used;
use crate::status;
use askama::Template;
use axum::Extension;
use axum::extract::State;
use axum::response::{Html, IntoResponse, Response};
use bytesize::ByteSize;
use oboro_edge::{Caller, Client};
use oboro_format::{DatasetInfo, Role};
use oboro_store::{StoreError, Usage};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;
use time::OffsetDateTime;
use time::macros::format_description;
use tonic::codegen::http::{HeaderMap, StatusCode};

/// Style of the page.
pub(super) const STYLE: &str = include_str!("../../templates/style.css");

#[derive(Template)]
#[template(path = "status.html")]
struct Page {
    version: &'static str,
    viewer: String,
    time: String,
    conditions: Vec<super::readiness::Condition>,
    rates: Rates,
    machine: Option<Machine>,
    queries: Option<Vec<QueryRow>>,
    datasets: Result<Datasets, String>,
    genomes: Vec<GenomeRow>,
    scrubs: Vec<ScrubRow>,
}

struct Rates {
    calls: String,
    received: ByteSize,
    sent: ByteSize,
    threads: String,
}

/// Data that only operators see.
struct Machine {
    disk_free: ByteSize,
    disk: ByteSize,
    connections: usize,
    queries: u64,
    waiting: usize,
    panels: ByteSize,
    cache: Option<ByteSize>,
    namespaces: Vec<NamespaceRow>,
}

struct NamespaceRow {
    name: String,
    calls: u64,
    received: ByteSize,
    sent: ByteSize,
    computed: String,
    stored: ByteSize,
}

struct QueryRow {
    number: u64,
    caller: String,
    call: String,
    name: String,
    since: String,
}

struct Datasets {
    published: Vec<DatasetRow>,
    damaged: Vec<String>,
    deleted: u64,
    uploads: u64,
    bytes: ByteSize,
}

struct DatasetRow {
    name: String,
    version: u64,
    columns: u32,
    blocks: u64,
    stored: ByteSize,
}

struct GenomeRow {
    name: String,
    kind: String,
    stored: ByteSize,
    searches: String,
}

struct ScrubRow {
    namespace: String,
    ended: String,
    bytes: ByteSize,
    damaged: u64,
    is_bad: bool,
}

/// Serves `/`.
pub(super) async fn show(
    State(seen): State<Arc<Snapshot>>,
    Extension(Peer(peer)): Extension<Peer>,
    headers: HeaderMap,
) -> Response {
    let caller = match seen.authentication.viewer(&headers, peer).await {
        Ok(caller) => caller,
        Err(refusal) => return unauthorized(&refusal),
    };
    if let Err(refusal) = seen.sources.call_limits.count(&caller.client) {
        return (StatusCode::TOO_MANY_REQUESTS, refusal.message().to_owned()).into_response();
    }
    let page = tokio::task::spawn_blocking(move || page(&seen.sources, &caller).render()).await;
    match page {
        Ok(Ok(page)) => Html(page).into_response(),
        _ => {
            tracing::error!("the page for operators could not be made");
            StatusCode::INTERNAL_SERVER_ERROR.into_response()
        }
    }
}

/// Returns the page for this caller. Blocks.
fn page(sources: &Sources, caller: &Caller) -> Page {
    let is_operator = caller.roles.has(Role::Operate);
    let is_seen = |namespace: &str| is_operator || *namespace == *caller.namespace;
    Page {
        version: env!("CARGO_PKG_VERSION"),
        viewer: match &caller.client {
            Client::Named(name) if is_operator => format!("{name}, an operator"),
            Client::Named(name) => name.to_string(),
            Client::Connected(_) => "everyone on this machine".to_owned(),
        },
        time: moment(OffsetDateTime::now_utc()),
        conditions: sources.readiness.conditions().into(),
        rates: rates(&sources.recent(is_seen)),
        machine: is_operator.then(|| machine(sources)),
        queries: queries(sources, caller),
        datasets: datasets(sources, caller),
        genomes: genomes(sources, caller),
        scrubs: if is_operator || caller.roles.has(Role::Read) {
            scrubs(sources, is_seen)
        } else {
            Vec::new()
        },
    }
}

fn rates(recent: &Use) -> Rates {
    let seconds = recent.time.as_secs_f64().max(1.0);
    let Used {
        calls,
        received_bytes,
        sent_bytes,
        compute_microseconds,
    } = recent.used;
    let a_second = |count: u64| ByteSize((count as f64 / seconds) as u64);
    Rates {
        calls: format!("{:.1}", calls as f64 / seconds),
        received: a_second(received_bytes),
        sent: a_second(sent_bytes),
        threads: format!("{:.2}", compute_microseconds as f64 / 1e6 / seconds),
    }
}

fn machine(sources: &Sources) -> Machine {
    let space = sources.space();
    let places = sources.admission.places();
    let state = sources.store.state();
    let stored = sources.stored.lock().clone();
    let used = sources.meter.used();
    let all = used.iter().map(|it| &it.0);
    let all: BTreeSet<&Arc<str>> = all.chain(stored.iter().map(|it| &it.0)).collect();
    let row = |name: &Arc<str>| {
        let of = used.iter().find(|it| it.0 == *name);
        let used = of.map(|it| it.1).unwrap_or_default();
        let stored = stored.iter().find(|it| it.0 == *name);
        NamespaceRow {
            name: name.to_string(),
            calls: used.calls,
            received: ByteSize(used.received_bytes),
            sent: ByteSize(used.sent_bytes),
            computed: duration(Duration::from_micros(used.compute_microseconds)),
            stored: ByteSize(stored.map_or(0, |it| it.1)),
        }
    };
    Machine {
        disk_free: ByteSize(space.as_ref().map_or(0, |it| it.free)),
        disk: ByteSize(space.as_ref().map_or(0, |it| it.all)),
        connections: sources.connections.count().0,
        queries: places.used(),
        waiting: places.waiting(),
        panels: ByteSize(state.residency.used),
        cache: state.cache.map(|it| ByteSize(it.bytes)),
        namespaces: all.into_iter().map(row).collect(),
    }
}

/// Returns the queries that the caller may end, if it may end any.
fn queries(sources: &Sources, caller: &Caller) -> Option<Vec<QueryRow>> {
    let queries = sources.admission.queries().list(caller).ok()?;
    let rows = queries.into_iter().map(|it| QueryRow {
        number: it.number,
        caller: it.caller,
        call: it.call,
        name: it.name,
        since: duration(Duration::from_millis(it.milliseconds)),
    });
    Some(rows.collect())
}

fn datasets(sources: &Sources, caller: &Caller) -> Result<Datasets, String> {
    let access = sources.store.access_of(&caller.namespace, caller.roles);
    let public = |error: StoreError| error.without_paths();
    let listing = access.list().map_err(public)?;
    let usage: Usage = access.usage().map_err(public)?;
    let row = |it: DatasetInfo| DatasetRow {
        name: it.name,
        version: it.version,
        columns: it.columns,
        blocks: it.blocks,
        stored: ByteSize(it.stored_bytes),
    };
    Ok(Datasets {
        published: listing.datasets.into_iter().map(row).collect(),
        damaged: listing.damaged.into_iter().map(public).collect(),
        deleted: usage.deleted,
        uploads: usage.uploads,
        bytes: ByteSize(usage.bytes),
    })
}

fn genomes(sources: &Sources, caller: &Caller) -> Vec<GenomeRow> {
    let Ok(seen) = sources.genomes.seen(caller) else {
        return Vec::new();
    };
    let row = |it: crate::genome::VisibleCollection| GenomeRow {
        name: it.name,
        kind: it.kind.to_string(),
        stored: ByteSize(it.bytes),
        searches: match (it.searches, it.budget) {
            (Err(error), _) => status::genome_message(&error),
            (Ok(searches), Some(budget)) => format!("{searches} of {budget}"),
            (Ok(_), None) => "not counted: there is no budget".to_owned(),
        },
    };
    seen.into_iter().map(row).collect()
}

fn scrubs(sources: &Sources, is_seen: impl Fn(&str) -> bool) -> Vec<ScrubRow> {
    let last = sources.scrubs.last();
    let seen = last.into_iter().filter(|(namespace, _)| is_seen(namespace));
    seen.map(|(namespace, it)| ScrubRow {
        namespace: namespace.to_string(),
        ended: moment(it.ended),
        bytes: ByteSize(it.bytes),
        damaged: it.damaged,
        is_bad: it.damaged > 0,
    })
    .collect()
}

fn moment(time: OffsetDateTime) -> String {
    let format = format_description!("[year]-[month]-[day] [hour]:[minute]:[second] UTC");
    time.format(format).unwrap_or_default()
}

/// Formats a duration, in seconds or, below a minute, hundredths.
fn duration(time: Duration) -> String {
    match time.as_secs() {
        0..60 => format!("{:.2} s", time.as_secs_f64()),
        seconds @ 60..3600 => format!("{} min {} s", seconds / 60, seconds % 60),
        seconds => format!("{} h {} min", seconds / 3600, seconds / 60 % 60),
    }
}
