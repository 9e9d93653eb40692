//! Replies to one caller, buffered between compute threads and the connection.
//!
//! Nothing blocks here: threads check for free space before they start a task, and the connection is woken when a reply
//! is available. A buffer therefore holds at most [`CAPACITY`] plus the output of tasks started before it was full.

use parking_lot::{Mutex, MutexGuard};
use prost::Message;
use std::collections::VecDeque;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Waker};
use tokio::sync::Notify;
use tonic::Status;

/// Bytes of replies above which no task of the query starts.
pub(crate) const CAPACITY: usize = 4 << 20;

/// Replies of one kind to one caller.
pub(crate) struct Outbox<R> {
    state: Mutex<State<R>>,
    bytes: AtomicUsize,
    closed: Notify,
}

struct State<R> {
    replies: VecDeque<R>,
    ending: ReplyEnd,
    reader: Option<Waker>,
}

/// End of the replies.
enum ReplyEnd {
    /// More may follow.
    Open,
    /// The regular end, or an error.
    Ended(Option<Status>),
    /// The caller has disconnected, or has everything.
    Closed,
}

impl<R: Message> Outbox<R> {
    pub(crate) fn new() -> Self {
        Self {
            state: Mutex::new(State {
                replies: VecDeque::new(),
                ending: ReplyEnd::Open,
                reader: None,
            }),
            bytes: AtomicUsize::new(0),
            closed: Notify::new(),
        }
    }

    pub(crate) fn has_capacity(&self) -> bool {
        self.bytes.load(Ordering::Acquire) < CAPACITY
    }

    /// Adds a reply; breaks if the caller would not receive it.
    pub(crate) fn push(&self, reply: impl Into<R>) -> ControlFlow<()> {
        let reply = reply.into();
        let mut state = self.state.lock();
        if !matches!(state.ending, ReplyEnd::Open) {
            return ControlFlow::Break(());
        }
        self.bytes.fetch_add(reply.encoded_len(), Ordering::AcqRel);
        state.replies.push_back(reply);
        wake(state);
        ControlFlow::Continue(())
    }

    /// Ends the replies.
    pub(crate) fn finish(&self) {
        let mut state = self.state.lock();
        if matches!(state.ending, ReplyEnd::Open) {
            state.ending = ReplyEnd::Ended(None);
            wake(state);
        }
    }

    /// Ends with an error that replaces the replies not taken yet.
    pub(crate) fn fail(&self, status: Status) {
        let mut state = self.state.lock();
        if !matches!(state.ending, ReplyEnd::Closed) {
            state.replies = VecDeque::new();
            state.ending = ReplyEnd::Ended(Some(status));
            wake(state);
        }
    }

    /// Closes the receiving side and drops the replies.
    pub(crate) fn close(&self) {
        let mut state = self.state.lock();
        state.replies = VecDeque::new();
        state.ending = ReplyEnd::Closed;
        self.closed.notify_one();
    }

    /// Polls for the next reply, `None` after the last. Also returns `true` if this freed space.
    pub(crate) fn poll_next(
        &self,
        context: &mut Context<'_>,
    ) -> (Poll<Option<Result<R, Status>>>, bool) {
        let mut state = self.state.lock();
        if let Some(reply) = state.replies.pop_front() {
            let bytes = reply.encoded_len();
            let before = self.bytes.fetch_sub(bytes, Ordering::AcqRel);
            let freed_space = before >= CAPACITY && before - bytes < CAPACITY;
            return (Poll::Ready(Some(Ok(reply))), freed_space);
        }
        let last = match &mut state.ending {
            ReplyEnd::Open => {
                state.reader = Some(context.waker().clone());
                return (Poll::Pending, false);
            }
            ReplyEnd::Ended(status) => status.take().map(Err),
            ReplyEnd::Closed => None,
        };
        state.ending = ReplyEnd::Closed;
        self.closed.notify_one();
        (Poll::Ready(last), false)
    }

    /// Completes once the caller has disconnected or has everything.
    pub(crate) async fn closed(&self) {
        self.closed.notified().await;
    }
}

fn wake<R>(mut state: MutexGuard<'_, State<R>>) {
    let reader = state.reader.take();
    drop(state);
    if let Some(reader) = reader {
        reader.wake();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use oboro_protocol::v1;
    use std::future::poll_fn;
    use tonic::Code;

    fn reply(bytes: usize) -> v1::count_reply::Reply {
        v1::count_reply::Reply::Moments(v1::Moments {
            residues: vec![0; bytes].into(),
            ..Default::default()
        })
    }

    type CountOutbox = Outbox<v1::CountReply>;

    impl CountOutbox {
        async fn take(&self) -> (Option<Result<v1::CountReply, Status>>, bool) {
            poll_fn(|context| match self.poll_next(context) {
                (Poll::Ready(reply), freed_space) => Poll::Ready((reply, freed_space)),
                (Poll::Pending, _) => Poll::Pending,
            })
            .await
        }
    }

    #[tokio::test]
    async fn replies_come_in_order_and_end() {
        let outbox = CountOutbox::new();
        let taken = async {
            for bytes in 1..=3 {
                let (taken, _) = outbox.take().await;
                let reply = Some(reply(bytes));
                assert_eq!(taken.unwrap().unwrap(), v1::CountReply { reply });
            }
            assert!(outbox.take().await.0.is_none());
            outbox.closed().await;
        };
        let given = async {
            for bytes in 1..=3 {
                assert!(outbox.push(reply(bytes)).is_continue());
                tokio::task::yield_now().await;
            }
            outbox.finish();
        };
        tokio::join!(taken, given);
    }

    #[tokio::test]
    async fn capacity_is_lost_and_regained() {
        let outbox = CountOutbox::new();
        for _ in 0..2 {
            assert!(outbox.has_capacity());
            assert!(outbox.push(reply(CAPACITY / 2)).is_continue());
        }
        assert!(!outbox.has_capacity());
        assert!(outbox.take().await.1 && outbox.has_capacity());
        assert!(!outbox.take().await.1 && outbox.has_capacity());
    }

    #[tokio::test]
    async fn a_failure_takes_the_place_of_what_waits() {
        let outbox = CountOutbox::new();
        assert!(outbox.push(reply(1)).is_continue());
        outbox.fail(Status::internal("broken"));
        outbox.finish();
        assert!(outbox.push(reply(1)).is_break());
        let status = outbox.take().await.0.unwrap().unwrap_err();
        assert_eq!(
            (status.code(), status.message()),
            (Code::Internal, "broken")
        );
        assert!(outbox.take().await.0.is_none());
    }

    #[tokio::test]
    async fn a_caller_that_is_gone_gets_nothing() {
        let outbox = CountOutbox::new();
        assert!(outbox.push(reply(1)).is_continue());
        outbox.close();
        outbox.closed().await;
        assert!(outbox.push(reply(1)).is_break());
    }
}
