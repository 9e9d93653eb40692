//! Common rule for reading answers about a dataset: cells, rows, sums and moments.
//!
//! An answer is read to its end whatever it contains, and retried with identical bytes according to the status of the
//! transport. Then everything that arrived is judged, and only afterwards the end of the last stream. A false answer
//! stays false, whatever followed it.

use crate::connection::{Client, Connection};
use crate::error::ClientError;
use oboro_dataset::Dataset;
use oboro_protocol::{MAX_IDLE_MESSAGES, v1};
use tonic::{Response, Status, Streaming};

/// Effect of one message of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Part {
    /// Part that was still missing.
    New,
    /// Message without effect. An answer has at most [`MAX_IDLE_MESSAGES`] of these.
    Idle,
    /// Part that no correct answer has.
    False,
    /// More bytes than the answer can have: reading ends here.
    Excess,
}

/// Assembler of an answer from messages.
pub(crate) trait Assembly {
    /// Message of the stream.
    type Message;

    /// Begins an attempt; earlier ones may have brought parts.
    fn begin(&mut self);

    /// Takes the next message.
    fn take(&mut self, message: Self::Message) -> Part;
}

/// Outcome of reading: its end, and a flag for impossible parts.
#[derive(Debug)]
#[must_use]
pub(crate) struct ReadOutcome {
    is_false: bool,
    pub(crate) ended: Result<(), ClientError>,
}

/// Verdict on the parts that arrived, independent of the end of their stream.
#[derive(Debug)]
pub(crate) enum Verdict<T> {
    /// Complete, and as the owner encrypted it.
    Right(T),
    /// Some part is false.
    False,
    /// Parts are missing; none of the others proved false.
    Incomplete,
}

impl Connection {
    /// Makes one call and reads its answer to the end.
    pub(crate) fn read<A: Assembly>(
        &self,
        during: &'static str,
        call: &impl AsyncFn(Client) -> Result<Response<Streaming<A::Message>>, Status>,
        answer: &mut A,
    ) -> ReadOutcome {
        let mut is_false = false;
        answer.begin();
        let ended = self.wait(async {
            let broken = |status| ClientError::from_status(&status, during);
            let mut stream = self.answer(call(self.client()).await, during)?;
            let mut idle = 0;
            while let Some(message) = stream.message().await.map_err(broken)? {
                match answer.take(message) {
                    Part::New => continue,
                    Part::Idle => {}
                    Part::False => is_false = true,
                    Part::Excess => idle = MAX_IDLE_MESSAGES,
                }
                idle += 1;
                if idle > MAX_IDLE_MESSAGES {
                    is_false = true;
                    break;
                }
            }
            Ok(())
        });
        let is_malformed = matches!(ended, Err(ClientError::OutOfTurn(_)));
        ReadOutcome {
            is_false: is_false || is_malformed,
            ended,
        }
    }

    /// Makes a call and reads its answer, with retries according to the status of the transport.
    pub(crate) fn read_again<A: Assembly>(
        &self,
        during: &'static str,
        call: &impl AsyncFn(Client) -> Result<Response<Streaming<A::Message>>, Status>,
        answer: &mut A,
    ) -> ReadOutcome {
        let mut all = ReadOutcome::nothing();
        let ended = self.again(|| {
            let reading = self.read(during, call, answer);
            all.is_false |= reading.is_false;
            reading.ended
        });
        ReadOutcome { ended, ..all }
    }
}

impl ReadOutcome {
    /// Creates the outcome of reading nothing.
    pub(crate) fn nothing() -> Self {
        Self {
            is_false: false,
            ended: Ok(()),
        }
    }

    /// Records that a part proved false as it arrived.
    pub(crate) fn note_false(&mut self) {
        self.is_false = true;
    }

    /// Adds the outcome of a later answer; returns true if another may be requested.
    pub(crate) fn then(&mut self, next: Self) -> bool {
        self.is_false |= next.is_false;
        self.ended = next.ended;
        self.ended.is_ok()
    }

    /// Applies the rule: calls `judge` after everything was read. Its verdict precedes the end of the stream.
    ///
    /// # Errors
    /// [`ClientError::FalseAnswer`] with the sentence `what`, which is recorded in the owner's record; that of the
    /// stream; that of `judge`.
    pub(crate) fn conclude<T>(
        self,
        dataset: &Dataset,
        what: &'static str,
        judge: impl FnOnce() -> Result<Verdict<T>, ClientError>,
    ) -> Result<T, ClientError> {
        if self.is_false {
            return Err(ClientError::false_answer(dataset, what));
        }
        if matches!(self.ended, Err(ClientError::Interrupted)) {
            return Err(ClientError::Interrupted);
        }
        match (judge()?, self.ended) {
            (Verdict::Right(found), Ok(())) => Ok(found),
            (Verdict::False, _) | (Verdict::Incomplete, Ok(())) => {
                Err(ClientError::false_answer(dataset, what))
            }
            (Verdict::Right(_) | Verdict::Incomplete, Err(error)) => Err(error),
        }
    }
}

/// Order of a count's replies: `Accepted`, parts, `Done`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct ReplyOrder {
    has_begun: bool,
    has_ended: bool,
}

impl ReplyOrder {
    /// Returns true once `Done` has arrived.
    pub(crate) fn has_ended(self) -> bool {
        self.has_ended
    }

    /// Returns true if this reply is valid here.
    pub(crate) fn takes(&mut self, reply: &v1::count_reply::Reply) -> bool {
        use v1::count_reply::Reply;
        let before = *self;
        self.has_begun = true;
        self.has_ended |= matches!(reply, Reply::Done(_));
        match reply {
            Reply::Accepted(_) => !before.has_begun,
            _ => !before.has_ended,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replies_come_in_order() {
        use v1::count_reply::Reply;
        let accepted = || Reply::Accepted(v1::Accepted::default());
        let part = || Reply::Moments(v1::Moments::default());
        let done = || Reply::Done(v1::Done::default());
        let are_right = |replies: &[Reply]| {
            let mut order = ReplyOrder::default();
            replies.iter().all(|it| order.takes(it))
        };
        assert!(are_right(&[accepted(), part(), part(), done()]));
        assert!(are_right(&[part(), done()]));
        assert!(!are_right(&[accepted(), accepted()]));
        assert!(!are_right(&[part(), accepted()]));
        assert!(!are_right(&[done(), part()]));
        assert!(!are_right(&[done(), done()]));
    }
}
