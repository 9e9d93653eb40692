//! One genome search: from the encrypted query to a stream of answers.
//!
//! A search acquires its memory, receives the query, charges it to the budget, and evaluates it window by window. Long
//! work runs on blocking threads. The answers of a window are a job of the [pool](crate::pool) that all queries share,
//! one task each.

use super::memory::{Share, Taken};
use super::shared::{Search, SearchContext, no_randomness};
use super::windows::{self, Collection, Origin};
use crate::blocking::{blocking, failed};
use crate::outbox::Outbox;
use crate::pool::{self, Job, Workspace};
use crate::queries::Query;
use crate::replies::{self, Replies};
use crate::status;
use oboro_edge::{Client, PATIENCE};
use oboro_genome::Plan;
use oboro_genome::wire::EncryptedQuery;
use oboro_genome_server::{Evaluation, ExpandedQuery, GenomeError, Window};
use oboro_protocol::v1;
use oboro_protocol::v1::search_reply::Reply as Part;
use oboro_protocol::v1::search_request::Request as Asked;
use prost::bytes::Bytes;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;
use tonic::{Status, Streaming};
use tracing::Span;

type SearchOutbox = Outbox<v1::SearchReply>;

const ADVICE: &str = "ask for fewer mismatches, fewer decoys or a shorter query";

/// Starts a search; returns the stream of its replies.
pub(super) fn start(
    shared: Arc<SearchContext>,
    client: Client,
    search: Search,
    requests: Streaming<v1::SearchRequest>,
    query: Query,
) -> Replies<v1::SearchReply> {
    let (outbox, queue) = (Arc::new(Outbox::new()), Arc::clone(&shared.queue));
    let (limit, replies) = (shared.limits.query_time, Arc::clone(&outbox));
    let work = async move {
        let done = conduct(&shared, &client, search, requests, &replies).await?;
        // Ignored: the caller may have disconnected.
        let _ = replies.push(Part::Done(done));
        Ok(())
    };
    replies::spawn(Arc::clone(&outbox), limit, ADVICE, query, work);
    Replies::new(outbox, move || queue.wake())
}

impl SearchContext {
    /// Returns a window for a search that holds this memory. Blocks.
    fn window(
        &self,
        memory: &Taken,
        asker: &Arc<str>,
        collection: &Collection,
        rows: &windows::WindowRows,
    ) -> Result<(Arc<Window>, Origin), GenomeError> {
        self.memory.tidy(memory);
        match memory.share() {
            Share::Part => self.windows.get(asker, collection, rows),
            Share::All => Ok((collection.prepare(rows)?, Origin::Prepared)),
        }
    }
}

async fn conduct(
    shared: &Arc<SearchContext>,
    client: &Client,
    search: Search,
    requests: Streaming<v1::SearchRequest>,
    outbox: &Arc<SearchOutbox>,
) -> Result<v1::Searched, Status> {
    let memory = Arc::new(shared.memory.take(client, search.memory).await?);
    if memory.share() == Share::All {
        shared.windows.clear();
    }
    let opened = v1::Opened {
        nonce: search.nonce.0.to_vec().into(),
        rows: search.plan.spec().rows(),
        symbols: search.plan.spec().symbols().into(),
        plan: Some((&*search.plan).into()),
    };
    if outbox.push(Part::Opened(opened)).is_break() {
        return Err(failed());
    }
    let bytes = receive(requests, &search.plan).await?;
    let begun = Instant::now();
    let (home, plan, account) = (search.home, Arc::clone(&search.plan), search.account);
    let (nonce, held) = (search.nonce, Arc::clone(&memory));
    let shared_too = Arc::clone(shared);
    let query = blocking(move || {
        let _held = held;
        let query = ExpandedQuery::decode(plan, bytes, nonce)
            .map_err(|error| Status::invalid_argument(error.to_string()))?;
        if let Some(account) = account {
            let spent = account.spend(&home.budgets);
            spent.map_err(|error| {
                shared_too.writes.after(error.kind());
                status::of_genome(&error)
            })?;
        }
        Ok(Arc::new(query))
    })
    .await?;
    let mut known_windows = 0;
    for (number, rows) in (0..).zip(search.windows_rows) {
        let (shared_too, collection) = (Arc::clone(shared), search.collection.clone());
        let (query, multiplicity) = (Arc::clone(&query), search.multiplicity);
        let (held, asker) = (Arc::clone(&memory), Arc::clone(&search.asker));
        let (evaluation, origin) = blocking(move || {
            let window = shared_too.window(&held, &asker, &collection, &rows);
            let (window, origin) = window.map_err(|error| status::of_genome(&error))?;
            Evaluation::new(query, window, multiplicity)
                .map(|evaluation| (evaluation, origin))
                .map_err(no_randomness)
        })
        .await?;
        known_windows += u32::from(origin == Origin::Kept);
        let held = Arc::clone(&memory);
        let answering = WindowJob::new(number, evaluation, held, Arc::clone(outbox));
        pool::run(&shared.queue, client, Arc::new(answering)).await;
    }
    Ok(v1::Searched {
        microseconds: begun.elapsed().as_micros() as u64,
        known_windows,
    })
}

/// Returns the caller's next message; `None` after the last.
pub(super) async fn next(
    requests: &mut Streaming<v1::SearchRequest>,
) -> Result<Option<Asked>, Status> {
    match tokio::time::timeout(PATIENCE, requests.message()).await {
        Ok(message) => Ok(message?.and_then(|message| message.request)),
        Err(_) => Err(Status::cancelled(format!(
            "the search was ended because its caller sent nothing of the query for {} s",
            PATIENCE.as_secs()
        ))),
    }
}

/// Receives all bytes of the encrypted query.
async fn receive(
    mut requests: Streaming<v1::SearchRequest>,
    plan: &Plan,
) -> Result<Vec<u8>, Status> {
    let expected = EncryptedQuery::bytes(plan);
    let wrong = |problem: &str| {
        Status::invalid_argument(format!(
            "the encrypted query {problem} than the {expected} bytes that it should have; both sides must run the same version of Oboro"
        ))
    };
    let mut bytes = Vec::with_capacity(expected as usize);
    while let Some(asked) = next(&mut requests).await? {
        let Asked::Query(part) = asked else {
            return Err(Status::invalid_argument(
                "only the first message of a search may say what is searched",
            ));
        };
        if bytes.len() as u64 + part.len() as u64 > expected {
            return Err(wrong("has more"));
        }
        bytes.extend_from_slice(&part);
    }
    if bytes.len() as u64 == expected {
        Ok(bytes)
    } else {
        Err(wrong("ended with fewer"))
    }
}

/// Job that computes the answers of a window.
struct WindowJob {
    window: u32,
    evaluation: Evaluation,
    /// Held while a thread computes, even if the search is cancelled.
    _memory: Arc<Taken>,
    outbox: Arc<SearchOutbox>,
    /// Next unclaimed answer.
    next: AtomicU64,
    /// Number of answers not computed yet.
    left: AtomicU64,
    /// Span of the call, for log lines.
    span: Span,
}

impl WindowJob {
    fn new(
        window: u32,
        evaluation: Evaluation,
        memory: Arc<Taken>,
        outbox: Arc<SearchOutbox>,
    ) -> Self {
        Self {
            window,
            next: AtomicU64::new(0),
            left: AtomicU64::new(evaluation.answers()),
            evaluation,
            _memory: memory,
            outbox,
            span: Span::current(),
        }
    }
}

impl Job for WindowJob {
    fn has_task(&self) -> bool {
        self.outbox.has_capacity() && self.next.load(Ordering::Relaxed) < self.evaluation.answers()
    }

    fn step(&self, workspace: &mut Workspace) -> ControlFlow<()> {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        if number >= self.evaluation.answers() {
            return ControlFlow::Continue(());
        }
        let answer = self.evaluation.answer(number, &mut workspace.genome);
        self.outbox.push(Part::Answer(v1::SearchAnswer {
            window: self.window,
            number,
            answer: Bytes::from(answer.encode(self.evaluation.plan())),
        }))?;
        match self.left.fetch_sub(1, Ordering::AcqRel) {
            1 => ControlFlow::Break(()),
            _ => ControlFlow::Continue(()),
        }
    }

    fn panicked(&self) {
        let _entered = self.span.enter();
        tracing::error!("a task panicked; the search was ended");
        self.outbox.fail(failed());
    }
}
