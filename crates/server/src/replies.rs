//! Replies of a query as a stream, and the task that produces them.

use crate::outbox::Outbox;
use crate::queries::Query;
use oboro_format::wording::QUERY_TIMEOUT;
use prost::Message;
use std::fmt::Display;
use std::future::pending;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio_stream::Stream;
use tonic::Status;
use tracing::Instrument;

/// Stream of replies. Dropping it ends the query.
pub(crate) struct Replies<R: Message> {
    outbox: Arc<Outbox<R>>,
    /// Called when the outbox has free space again.
    on_space: Box<dyn Fn() + Send>,
    /// Called when the stream is dropped.
    on_drop: Option<Box<dyn FnOnce() + Send>>,
}

impl<R: Message> Replies<R> {
    /// Creates the stream of what is pushed to `outbox`.
    pub(crate) fn new(outbox: Arc<Outbox<R>>, on_space: impl Fn() + Send + 'static) -> Self {
        Self {
            outbox,
            on_space: Box::new(on_space),
            on_drop: None,
        }
    }

    /// Sets a callback for when the stream is dropped.
    pub(crate) fn on_drop(mut self, callback: impl FnOnce() + Send + 'static) -> Self {
        self.on_drop = Some(Box::new(callback));
        self
    }
}

impl<R: Message> Stream for Replies<R> {
    type Item = Result<R, Status>;

    fn poll_next(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let (reply, freed_space) = self.outbox.poll_next(context);
        if freed_space {
            (self.on_space)();
        }
        reply
    }
}

impl<R: Message> Drop for Replies<R> {
    fn drop(&mut self) {
        self.outbox.close();
        if let Some(callback) = self.on_drop.take() {
            callback();
        }
    }
}

/// Spawns the work of a query, which pushes replies to `outbox` and fails with its error. The query's slot is held until
/// its caller has everything or disconnects. The work is cancelled then, and when a limit is reached or the query is
/// ended. `advice` says how to request less.
pub(crate) fn spawn<R: Message + 'static>(
    outbox: Arc<Outbox<R>>,
    limit: Duration,
    advice: impl Display + Send + 'static,
    query: Query,
    work: impl Future<Output = Result<(), Status>> + Send + 'static,
) {
    let task = async move {
        let work = async {
            match work.await {
                Ok(()) => outbox.finish(),
                Err(status) => outbox.fail(status),
            }
            pending().await
        };
        let verdict = tokio::select! {
            () = outbox.closed() => return,
            () = work => return,
            ended = query.ended() => ended,
            () = tokio::time::sleep(limit) => Status::deadline_exceeded(format!(
                "the query was ended because it took more than {} s, which is what this server gives one query; {advice}, or ask its operator to raise {QUERY_TIMEOUT}",
                limit.as_secs()
            )),
        };
        tracing::warn!(code = ?verdict.code(), "the query was ended");
        outbox.fail(verdict);
    };
    tokio::spawn(task.in_current_span());
}
