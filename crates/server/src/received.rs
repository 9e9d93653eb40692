//! What is received of a call: messages no longer than calls of its kind need, and no slower than a poor connection.

use crate::limits::Limits;
use http_body::{Frame, SizeHint};
use oboro_format::wording::MAX_MESSAGE;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::time::{Instant, Sleep, sleep};
use tonic::Status;
use tonic::body::Body;
use tonic::codegen::Bytes;

/// Bytes before each message: whether it is compressed, and its length.
const PREFIX: usize = 5;
/// The longest message of a call that carries names and numbers.
pub(crate) const SMALL: usize = 64 << 10;
/// How long the server waits for the next bytes of a caller; and in all, besides the time that its bytes take at [`PACE`].
const PATIENCE: Duration = Duration::from_secs(60);
/// Bytes a second of the slowest caller.
const PACE: u64 = 16 << 10;

/// The longest message of this call.
pub(crate) fn longest(path: &str, limits: &Limits) -> usize {
    match path.rsplit('/').next() {
        // A manifest, bytes of a segment, itemsets, columns, an encrypted query.
        Some("BeginUpload" | "SendSegment" | "Count" | "FetchColumns" | "SearchGenome") => {
            limits.message_bytes
        }
        _ => SMALL,
    }
}

/// The body of a call as it is received.
pub(crate) struct Received {
    body: Body,
    longest: usize,
    /// Of the message that is received: what is there of its prefix, and how many bytes are to come.
    prefix: Vec<u8>,
    missing: usize,
    bytes: u64,
    waited: Duration,
    /// Since when the server waits for the caller, and until when it does.
    waiting: Option<(Instant, Pin<Box<Sleep>>)>,
}

impl Received {
    pub(crate) fn new(body: Body, longest: usize) -> Self {
        Self {
            body,
            longest,
            prefix: Vec::with_capacity(PREFIX),
            missing: 0,
            bytes: 0,
            waited: Duration::ZERO,
            waiting: None,
        }
    }

    /// Follows the lengths of messages.
    fn check(&mut self, mut data: &[u8]) -> Result<(), Status> {
        self.bytes += data.len() as u64;
        while !data.is_empty() {
            if self.missing > 0 {
                let part = self.missing.min(data.len());
                self.missing -= part;
                data = &data[part..];
                continue;
            }
            let part = (PREFIX - self.prefix.len()).min(data.len());
            self.prefix.extend_from_slice(&data[..part]);
            data = &data[part..];
            if let &[_, a, b, c, d] = &self.prefix[..] {
                self.missing = u32::from_be_bytes([a, b, c, d]) as usize;
                self.prefix.clear();
                if self.missing > self.longest {
                    return Err(too_long(self.missing, self.longest));
                }
            }
        }
        Ok(())
    }

    /// How much longer the server waits.
    fn patience(&self) -> Duration {
        let bytes = Duration::from_secs(self.bytes / PACE);
        (PATIENCE + bytes).saturating_sub(self.waited).min(PATIENCE)
    }
}

/// A message that is longer than those of its call may be.
fn too_long(bytes: usize, longest: usize) -> Status {
    let remedy = if longest == SMALL {
        "send less at once".to_owned()
    } else {
        format!("send less at once, or ask its operator to raise {MAX_MESSAGE}")
    };
    Status::resource_exhausted(format!(
        "this server takes messages of up to {longest} bytes for this call, not of {bytes}; {remedy}"
    ))
}

impl http_body::Body for Received {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        match Pin::new(&mut self.body).poll_frame(context) {
            Poll::Ready(frame) => {
                if let Some((since, _)) = self.waiting.take() {
                    self.waited += since.elapsed();
                }
                let data = frame.as_ref().and_then(|it| it.as_ref().ok()?.data_ref());
                let checked = data.cloned().map_or(Ok(()), |data| self.check(&data));
                Poll::Ready(match checked {
                    Ok(()) => frame,
                    Err(refusal) => Some(Err(refusal)),
                })
            }
            Poll::Pending => {
                let patience = self.patience();
                let begun = || (Instant::now(), Box::pin(sleep(patience)));
                let (_, until) = self.waiting.get_or_insert_with(begun);
                if until.as_mut().poll(context).is_pending() {
                    return Poll::Pending;
                }
                let slow = Status::deadline_exceeded(
                    "the caller sends too slowly, or has stopped; call again over a faster connection",
                );
                Poll::Ready(Some(Err(slow)))
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use http_body_util::StreamBody;
    use std::future::poll_fn;
    use tokio::sync::mpsc;
    use tokio_stream::StreamExt;
    use tokio_stream::wrappers::UnboundedReceiverStream;
    use tonic::Code;

    fn message(bytes: usize) -> Vec<u8> {
        let mut message = vec![0];
        message.extend((bytes as u32).to_be_bytes());
        message.resize(PREFIX + bytes, 7);
        message
    }

    /// A body with a limit of 100 bytes, and what sends it.
    fn received() -> (mpsc::UnboundedSender<Vec<u8>>, Received) {
        let (sender, chunks) = mpsc::unbounded_channel::<Vec<u8>>();
        let frames = UnboundedReceiverStream::new(chunks);
        let frames = frames.map(|it| Ok::<_, Status>(Frame::data(Bytes::from(it))));
        (
            sender,
            Received::new(Body::new(StreamBody::new(frames)), 100),
        )
    }

    async fn next(body: &mut Received) -> Option<Result<Bytes, Status>> {
        let frame = poll_fn(|context| http_body::Body::poll_frame(Pin::new(&mut *body), context));
        frame
            .await
            .map(|it| it.map(|frame| frame.into_data().unwrap()))
    }

    #[tokio::test]
    async fn long_messages_are_refused_by_their_length_however_they_are_cut() {
        for cut in 1..12 {
            let (sender, mut body) = received();
            let sent = [message(100), message(0), message(3), message(101)].concat();
            let allowed = sent.len() - message(101).len();
            for piece in sent.chunks(cut) {
                sender.send(piece.to_vec()).unwrap();
            }
            let mut passed = 0;
            let refusal = loop {
                match next(&mut body).await.unwrap() {
                    Ok(data) => passed += data.len(),
                    Err(refusal) => break refusal,
                }
            };
            assert_eq!(refusal.code(), Code::ResourceExhausted);
            assert!(refusal.message().contains("not of 101;"), "{refusal}");
            assert!(
                passed + cut >= allowed && passed <= allowed + PREFIX,
                "{cut}: {passed}"
            );
        }
    }

    #[tokio::test(start_paused = true)]
    async fn who_stops_or_trickles_is_not_waited_for() {
        let (sender, mut body) = received();
        sender.send(message(10)[..8].to_vec()).unwrap();
        assert_eq!(next(&mut body).await.unwrap().unwrap().len(), 8);
        let begun = Instant::now();
        let refusal = next(&mut body).await.unwrap().unwrap_err();
        assert_eq!(refusal.code(), Code::DeadlineExceeded);
        assert_eq!(begun.elapsed().as_secs(), PATIENCE.as_secs());

        // Fast bytes buy no silence.
        let (sender, mut body) = received();
        body.longest = 64 << 20;
        sender.send(message(64 << 20)[..60 << 20].to_vec()).unwrap();
        next(&mut body).await.unwrap().unwrap();
        let begun = Instant::now();
        next(&mut body).await.unwrap().unwrap_err();
        assert_eq!(begun.elapsed().as_secs(), PATIENCE.as_secs());

        // A byte every second.
        let (sender, mut body) = received();
        let begun = Instant::now();
        let trickling = tokio::spawn(async move {
            for byte in [message(99), message(99)].concat() {
                sleep(Duration::from_secs(1)).await;
                let _ = sender.send(vec![byte]);
            }
        });
        let refusal = loop {
            if let Err(refusal) = next(&mut body).await.unwrap() {
                break refusal;
            }
        };
        assert_eq!(refusal.code(), Code::DeadlineExceeded);
        assert!(begun.elapsed().as_secs() <= PATIENCE.as_secs() + 1);
        trickling.abort();
    }

    #[tokio::test(start_paused = true)]
    async fn a_poor_connection_is_fast_enough() {
        let (sender, mut body) = received();
        body.longest = 1 << 20;
        tokio::spawn(async move {
            for piece in message(1 << 20).chunks(20 << 10) {
                sleep(Duration::from_secs(1)).await;
                sender.send(piece.to_vec()).unwrap();
            }
        });
        let mut bytes = 0;
        while let Some(data) = next(&mut body).await {
            bytes += data.unwrap().len();
        }
        assert_eq!(bytes, (1 << 20) + PREFIX);
    }

    #[test]
    fn only_calls_with_much_to_say_have_long_messages() {
        let limits = Limits::default();
        for (call, most) in [
            ("/oboro.v1.Mining/SendSegment", limits.message_bytes),
            ("/oboro.v1.Mining/Count", limits.message_bytes),
            ("/oboro.v1.Mining/ListDatasets", SMALL),
            ("/oboro.v1.Genome/ListSites", SMALL),
            ("/oboro.v1.Mining/Unknown", SMALL),
        ] {
            assert_eq!(longest(call, &limits), most, "{call}");
        }
    }
}
