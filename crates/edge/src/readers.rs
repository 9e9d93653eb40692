//! Slow readers: ends the calls of callers that do not read their answers.
//!
//! Each call runs in its own task; the body of its answer records when the connection waits for the caller. If that
//! takes too long, the call ends and the stream is reset, which frees all that the answer holds. A caller whose
//! credential has ended gets a moment to read the status.

use crate::throttled_log::ThrottledLog;
use http_body::{Frame, SizeHint};
use hyper::rt::Executor;
use parking_lot::Mutex;
use std::pin::Pin;
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep, sleep_until};
use tokio_util::sync::CancellationToken;
use tonic::Status;
use tonic::body::Body;
use tonic::codegen::Bytes;

/// Timeout for the next bytes of a caller, in either direction; also the allowance in total, beyond the time that the
/// bytes take at [`PACE`].
pub const PATIENCE: Duration = Duration::from_secs(60);
/// Minimum speed of a caller, in bytes per second.
pub const PACE: u64 = 16 << 10;
/// Size of the pieces of an answer that the connection receives, which holds at most one unsent piece of each.
const PIECE: usize = 64 << 10;

/// Time to read the last status after the caller's credential has ended.
const FAREWELL: Duration = Duration::from_secs(1);

tokio::task_local! {
    /// Reader of the call that the current task runs.
    static READER: Arc<Reader>;
}

/// Executor that runs calls until they end or their callers time out.
#[derive(Clone)]
pub(crate) struct TrackedExecutor {
    stopped: Arc<ThrottledLog>,
}

impl TrackedExecutor {
    /// Creates an executor that logs timeouts to `stopped`.
    pub(crate) fn telling(stopped: &Arc<ThrottledLog>) -> Self {
        let stopped = Arc::clone(stopped);
        Self { stopped }
    }
}

impl<F: Future<Output: Send> + Send + 'static> Executor<F> for TrackedExecutor {
    fn execute(&self, call: F) {
        let reader = Arc::<Reader>::default();
        let attended = {
            let (reader, stopped) = (Arc::clone(&reader), Arc::clone(&self.stopped));
            async move {
                tokio::select! {
                    _ = call => {}
                    () = reader.is_revoked() => {}
                    () = reader.has_stopped() => {
                        stopped.log(|times| {
                            tracing::warn!(times, "a call was ended because its caller takes the answer too slowly, or has stopped");
                        });
                    }
                }
            }
        };
        tokio::spawn(READER.scope(reader, attended));
    }
}

/// Progress of the peer in reading an answer.
#[derive(Debug, Default)]
struct Reader {
    reading: Mutex<Reading>,
    /// Cancelled when the caller's credential ends; unset until the caller is known.
    credential: OnceLock<CancellationToken>,
    /// Notified when `credential` is set.
    known: Notify,
}

/// Ends the current task's call soon after `ended` is cancelled, even if its caller does not read the answer.
pub(crate) fn end_with(ended: &CancellationToken) {
    let _ = READER.try_with(|reader| {
        let _ = reader.credential.set(ended.clone());
        reader.known.notify_one();
    });
}

#[derive(Debug, Default)]
struct Reading {
    bytes: u64,
    waited: Duration,
    /// Time since when the connection holds data that the caller does not read.
    since: Option<Instant>,
}

impl Reader {
    /// Records that the caller has read what it was sent.
    fn took(&self) {
        let mut reading = self.reading.lock();
        if let Some(since) = reading.since.take() {
            reading.waited += since.elapsed();
        }
    }

    fn given(&self, bytes: usize) {
        let mut reading = self.reading.lock();
        reading.bytes += bytes as u64;
        reading.since = Some(Instant::now());
    }

    /// Completes a moment after the caller's credential has ended.
    async fn is_revoked(&self) {
        let ended = loop {
            match self.credential.get() {
                Some(ended) => break ended,
                None => self.known.notified().await,
            }
        };
        ended.cancelled().await;
        sleep(FAREWELL).await;
    }

    /// Completes once the caller has stalled for too long: a minute for a piece, or in total beyond the time that the
    /// bytes take over a slow connection.
    async fn has_stopped(&self) {
        loop {
            let until = self.reading.lock().until();
            if until <= Instant::now() {
                return;
            }
            sleep_until(until).await;
        }
    }
}

impl Reading {
    /// Returns the earliest time at which the caller may have timed out.
    fn until(&self) -> Instant {
        let Some(since) = self.since else {
            return Instant::now() + PATIENCE;
        };
        let bytes = Duration::from_secs(self.bytes / PACE);
        let piece = Duration::from_secs(PIECE as u64 / PACE);
        since
            + (PATIENCE + bytes)
                .saturating_sub(self.waited)
                .min(PATIENCE + piece)
    }
}

/// Answer in pieces, whose reader is tracked.
pub(crate) struct TrackedAnswer {
    body: Body,
    /// Bytes not given to the connection yet, in pieces of at most `piece` bytes.
    rest: Bytes,
    piece: usize,
    reader: Arc<Reader>,
}

impl TrackedAnswer {
    /// Creates the answer of the current task's call; `is_near` if it stays in this process.
    pub(crate) fn new(body: Body, is_near: bool) -> Self {
        Self {
            body,
            rest: Bytes::new(),
            piece: if is_near { usize::MAX } else { PIECE },
            reader: READER.try_with(Arc::clone).unwrap_or_default(),
        }
    }
}

impl http_body::Body for TrackedAnswer {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        self.reader.took();
        if self.rest.is_empty() {
            match ready!(Pin::new(&mut self.body).poll_frame(context)) {
                Some(Ok(frame)) => match frame.into_data() {
                    Ok(data) => self.rest = data,
                    Err(other) => return Poll::Ready(Some(Ok(other))),
                },
                ended => return Poll::Ready(ended),
            }
        }
        let piece = self.rest.len().min(self.piece);
        let data = self.rest.split_to(piece);
        self.reader.given(data.len());
        Poll::Ready(Some(Ok(Frame::data(data))))
    }

    fn is_end_stream(&self) -> bool {
        self.rest.is_empty() && self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        let (rest, mut hint) = (self.rest.len() as u64, self.body.size_hint());
        if let Some(upper) = hint.upper() {
            hint.set_upper(upper + rest);
        }
        hint.set_lower(hint.lower() + rest);
        hint
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use http_body::Body as _;
    use http_body_util::StreamBody;
    use std::future::poll_fn;
    use tokio_stream::StreamExt;

    const SECOND: Duration = Duration::from_secs(1);

    fn body(chunks: Vec<usize>) -> Body {
        let chunks = tokio_stream::iter(chunks).map(|it| vec![0; it].into());
        Body::new(StreamBody::new(
            chunks.map(|it| Ok::<_, Status>(Frame::data(it))),
        ))
    }

    async fn next(body: &mut TrackedAnswer) -> Option<usize> {
        let frame = poll_fn(|context| Pin::new(&mut *body).poll_frame(context)).await?;
        Some(frame.unwrap().into_data().unwrap().len())
    }

    /// Runs a call as a connection does; returns its end time, and `true` if it ended by itself.
    async fn run<F: Future<Output = ()> + Send + 'static>(
        call: impl FnOnce() -> F + Send + 'static,
    ) -> (u64, bool) {
        let begun = Instant::now();
        let (sender, ended) = tokio::sync::oneshot::channel();
        TrackedExecutor::telling(&Arc::default()).execute(async move {
            call().await;
            let _ = sender.send(());
        });
        let by_itself = ended.await.is_ok();
        (begun.elapsed().as_secs(), by_itself)
    }

    #[tokio::test]
    async fn answers_come_in_pieces() {
        let mut answer = TrackedAnswer::new(body(vec![3, 2 * PIECE + 1]), false);
        let mut sizes = Vec::new();
        while let Some(size) = next(&mut answer).await {
            sizes.push(size);
        }
        assert_eq!(sizes, [3, PIECE, PIECE, 1]);
        let mut near = TrackedAnswer::new(body(vec![2 * PIECE]), true);
        assert_eq!(next(&mut near).await, Some(2 * PIECE));
    }

    #[tokio::test(start_paused = true)]
    async fn who_takes_nothing_is_not_waited_for() {
        let stuck = || async {
            let mut answer = TrackedAnswer::new(body(vec![10]), false);
            next(&mut answer).await;
            std::future::pending::<()>().await;
        };
        let (seconds, by_itself) = run(stuck).await;
        assert!(!by_itself && seconds >= PATIENCE.as_secs() && seconds <= 2 * PATIENCE.as_secs());
    }

    #[tokio::test(start_paused = true)]
    async fn revoked_callers_hold_nothing_even_if_they_take_nothing() {
        let revoked = CancellationToken::new();
        let token = revoked.clone();
        let stuck = || async move {
            let mut answer = TrackedAnswer::new(body(vec![10]), false);
            end_with(&token);
            next(&mut answer).await;
            std::future::pending::<()>().await;
        };
        revoked.cancel();
        assert_eq!(run(stuck).await, (FAREWELL.as_secs(), false));
    }

    #[tokio::test(start_paused = true)]
    async fn who_takes_a_little_now_and_then_is_not_waited_for_either() {
        let trickling = || async {
            let mut answer = TrackedAnswer::new(body(vec![1; 100]), false);
            while next(&mut answer).await.is_some() {
                sleep(30 * SECOND).await;
            }
        };
        let (seconds, by_itself) = run(trickling).await;
        let patience = PATIENCE.as_secs();
        assert!(
            !by_itself && (patience..=2 * patience).contains(&seconds),
            "{seconds}"
        );
    }

    #[tokio::test(start_paused = true)]
    async fn poor_connections_and_slow_answers_are_waited_for() {
        let poor = || async {
            let mut answer = TrackedAnswer::new(body(vec![100 * PIECE]), false);
            while next(&mut answer).await.is_some() {
                sleep(4 * SECOND).await;
            }
        };
        assert_eq!(run(poor).await, (400, true));
        let slow = || async {
            let chunks = body(vec![1; 10]);
            let mut answer = TrackedAnswer::new(chunks, false);
            // The server sends nothing for an hour, which does not count against the caller.
            sleep(3600 * SECOND).await;
            while next(&mut answer).await.is_some() {}
        };
        assert_eq!(run(slow).await, (3600, true));
    }
}
