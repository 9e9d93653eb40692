//! Incoming messages of a call: bounded in length, minimum speed, and total memory.
//!
//! A message begins with its length. Its content is not read until that much memory is granted; what has already
//! arrived stays in the connection's window, and the caller sends no more. The memory is held until the next message is
//! requested, that of the last one until the call is answered. A call therefore never holds one message while it waits
//! for the memory of another.

use crate::limits::Limits;
use http_body::{Frame, SizeHint};
use oboro_edge::{Client, PACE, PATIENCE, RETRY_SOON, busy};
use oboro_format::wording::{MAX_MESSAGE, MEMORY};
use oboro_residency::{AcquireError, FairSemaphore, Permit};
use parking_lot::Mutex;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::time::{Instant, Sleep, sleep, timeout};
use tonic::Status;
use tonic::body::Body;
use tonic::codegen::{BoxFuture, Bytes};

/// Bytes before each message: compression flag and length.
const PREFIX: usize = 5;
/// Maximum message length of a call that carries names and numbers.
pub(crate) const SMALL: usize = 64 << 10;
/// Memory of a manifest, its decoded form and the answer, in multiples of the message length.
const MANIFEST: u64 = 12;
/// Memory of column numbers and ranges, which may take one or two bytes each in the message.
const NUMBERS: u64 = 8;

/// Returns the maximum message length of this call.
pub(crate) fn longest(call: &str, limits: &Limits) -> usize {
    match call {
        // A manifest, bytes of a segment, itemsets, columns, an encrypted query or a part of it.
        "BeginUpload" | "SendSegment" | "Count" | "FetchColumns" | "SearchGenome" => {
            limits.message_bytes
        }
        _ => SMALL,
    }
}

/// Returns the memory of a message of this call, per byte of its length.
fn factor(call: &str) -> u64 {
    match call {
        "BeginUpload" => MANIFEST,
        "Count" | "FetchColumns" => NUMBERS,
        _ => 1,
    }
}

/// Memory of the messages of one call, one at a time.
#[derive(Clone)]
pub(crate) struct Account {
    messages: Arc<FairSemaphore<Client>>,
    client: Client,
    /// Memory per byte of a message.
    factor: u64,
    /// Maximum wait.
    most: Duration,
    held: Arc<Mutex<Option<Permit<Client>>>>,
}

impl Account {
    /// Creates the account of a client's call, on the memory of all `messages`.
    pub(crate) fn new(
        messages: &Arc<FairSemaphore<Client>>,
        client: &Client,
        call: &str,
        most: Duration,
    ) -> Self {
        Self {
            messages: Arc::clone(messages),
            client: client.clone(),
            factor: factor(call),
            most,
            held: Arc::default(),
        }
    }

    /// Waits for the memory of a message, which replaces the previous one.
    fn reserve(&self, bytes: usize) -> BoxFuture<(), Status> {
        drop(self.held.lock().take());
        let this = self.clone();
        let bytes = (bytes as u64).saturating_mul(self.factor);
        Box::pin(async move {
            match timeout(this.most, this.messages.acquire(&this.client, bytes)).await {
                Ok(Ok(share)) => {
                    *this.held.lock() = Some(share);
                    Ok(())
                }
                Ok(Err(AcquireError::TooMuch)) => Err(Status::resource_exhausted(format!(
                    "the message takes {bytes} bytes of memory, and this server has {} for all messages; send less at once, or ask its operator to give it more ({MEMORY})",
                    this.messages.total()
                ))),
                Ok(Err(AcquireError::TooMany)) | Err(_) => Err(busy(
                    "messages that the server is receiving take the memory that it has for them; try again when they have ended",
                    RETRY_SOON,
                )),
            }
        })
    }
}

/// Body of a call as it is received.
pub(crate) struct RequestBody {
    body: Body,
    /// Maximum lengths of the next message and of later ones.
    longest: usize,
    later: usize,
    /// Memory account, unless the messages are small.
    account: Option<Account>,
    reserving: Option<BoxFuture<(), Status>>,
    /// Bytes received but not passed on.
    rest: Bytes,
    /// Bytes of these that belong to a prefix whose message has its memory.
    settled: usize,
    /// Prefix bytes and missing bytes of the current message.
    prefix: Vec<u8>,
    missing: usize,
    bytes: u64,
    waited: Duration,
    /// Start and timeout of the wait for the caller.
    waiting: Option<(Instant, Pin<Box<Sleep>>)>,
}

impl RequestBody {
    /// Wraps a body with messages of up to `longest` bytes each.
    pub(crate) fn new(body: Body, longest: usize, account: Option<Account>) -> Self {
        Self {
            body,
            longest,
            later: longest,
            account,
            reserving: None,
            rest: Bytes::new(),
            settled: 0,
            prefix: Vec::with_capacity(PREFIX),
            missing: 0,
            bytes: 0,
            waited: Duration::ZERO,
            waiting: None,
        }
    }

    /// Wraps the body of this call. A search's first message names what is searched and is short, for much may be
    /// derived from it.
    pub(crate) fn of_call(
        body: Body,
        call: &str,
        limits: &Limits,
        account: Option<Account>,
    ) -> Self {
        let later = longest(call, limits);
        let first = if call == "SearchGenome" { SMALL } else { later };
        Self {
            later,
            ..Self::new(body, first, account)
        }
    }

    /// Parses message lengths in the pending bytes; returns how many of them may be passed on now. Stops before a
    /// message that needs memory first, and at the end of a message.
    fn check(&mut self) -> Result<usize, Status> {
        let mut at = std::mem::take(&mut self.settled);
        while at < self.rest.len() {
            if self.missing > 0 {
                let part = self.missing.min(self.rest.len() - at);
                self.missing -= part;
                at += part;
                if self.missing == 0 && self.account.is_some() {
                    break;
                }
                continue;
            }
            let part = (PREFIX - self.prefix.len()).min(self.rest.len() - at);
            self.prefix.extend_from_slice(&self.rest[at..at + part]);
            if let &[_, a, b, c, d] = &self.prefix[..] {
                self.missing = u32::from_be_bytes([a, b, c, d]) as usize;
                self.prefix.clear();
                if self.missing > self.longest {
                    return Err(too_long(self.missing, self.longest));
                }
                self.longest = self.later;
                if let Some(account) = self.account.as_ref().filter(|_| self.missing > 0) {
                    self.reserving = Some(account.reserve(self.missing));
                    self.settled = part;
                    break;
                }
            }
            at += part;
        }
        Ok(at)
    }

    /// Returns the remaining timeout.
    fn patience(&self) -> Duration {
        let bytes = Duration::from_secs(self.bytes / PACE);
        (PATIENCE + bytes).saturating_sub(self.waited).min(PATIENCE)
    }

    /// Polls for the caller's next frame, or times out.
    fn poll_caller(
        &mut self,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        match http_body::Body::poll_frame(Pin::new(&mut self.body), context) {
            Poll::Ready(frame) => {
                if let Some((since, _)) = self.waiting.take() {
                    self.waited += since.elapsed();
                }
                Poll::Ready(frame)
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
}

/// Returns the error for a message longer than its call allows.
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

impl http_body::Body for RequestBody {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        loop {
            if let Some(reserving) = &mut self.reserving {
                let reserved = ready!(reserving.as_mut().poll(context));
                self.reserving = None;
                if let Err(refusal) = reserved {
                    return Poll::Ready(Some(Err(refusal)));
                }
            }
            if self.rest.is_empty() {
                match ready!(self.poll_caller(context)) {
                    Some(Ok(frame)) => match frame.into_data() {
                        Ok(data) => {
                            self.bytes += data.len() as u64;
                            self.rest = data;
                        }
                        Err(other) => return Poll::Ready(Some(Ok(other))),
                    },
                    ended => return Poll::Ready(ended),
                }
            }
            match self.check() {
                Ok(0) => {}
                Ok(some) => {
                    let data = self.rest.split_to(some);
                    return Poll::Ready(Some(Ok(Frame::data(data))));
                }
                Err(refusal) => return Poll::Ready(Some(Err(refusal))),
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        self.rest.is_empty() && self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use http_body_util::StreamBody;
    use oboro_protocol::RETRY_AFTER_KEY;
    use oboro_residency::ShareLimit;
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

    /// Returns a body with a limit of 100 bytes, and its sender.
    fn received() -> (mpsc::UnboundedSender<Vec<u8>>, RequestBody) {
        let (sender, chunks) = mpsc::unbounded_channel::<Vec<u8>>();
        let frames = UnboundedReceiverStream::new(chunks);
        let frames = frames.map(|it| Ok::<_, Status>(Frame::data(Bytes::from(it))));
        (
            sender,
            RequestBody::new(Body::new(StreamBody::new(frames)), 100, None),
        )
    }

    async fn next(body: &mut RequestBody) -> Option<Result<Bytes, Status>> {
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

        // Fast bytes do not extend the timeout for silence.
        let (sender, mut body) = received();
        body.longest = 64 << 20;
        sender.send(message(64 << 20)[..60 << 20].to_vec()).unwrap();
        next(&mut body).await.unwrap().unwrap();
        let begun = Instant::now();
        next(&mut body).await.unwrap().unwrap_err();
        assert_eq!(begun.elapsed().as_secs(), PATIENCE.as_secs());

        // One byte per second.
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

    fn client(name: &str) -> Client {
        Client::Named(name.into())
    }

    /// Returns the body of a client's call, and its sender.
    fn accounted(
        messages: &Arc<FairSemaphore<Client>>,
        name: &str,
        call: &str,
    ) -> (mpsc::UnboundedSender<Vec<u8>>, RequestBody, Account) {
        let (sender, mut body) = received();
        let account = Account::new(messages, &client(name), call, Duration::from_secs(10));
        body.account = Some(account.clone());
        (sender, body, account)
    }

    #[tokio::test]
    async fn a_message_has_its_memory_before_it_is_let_in_and_until_the_next() {
        for cut in [1, 4, 5, 6, 1000] {
            let messages = FairSemaphore::new(ShareLimit::HalfOfRest { all: 1000 });
            let (sender, mut body, account) = accounted(&messages, "a", "SendSegment");
            let sent = [message(30), message(0), message(70)].concat();
            for piece in sent.chunks(cut) {
                sender.send(piece.to_vec()).unwrap();
            }
            drop(sender);
            let mut passed = Vec::new();
            while let Some(data) = next(&mut body).await {
                passed.extend_from_slice(&data.unwrap());
                // A message's memory is held from its prefix until the next read.
                let held = match passed.len() {
                    0..5 => 0,
                    5..45 => 30,
                    _ => 70,
                };
                let between = (35..45).contains(&passed.len());
                let taken = messages.used();
                assert!(
                    taken == held || between && [0, 70].contains(&taken),
                    "{cut}: {taken} at {}",
                    passed.len()
                );
            }
            assert_eq!(passed, sent);
            // The last one until the call has been answered.
            drop(body);
            assert_eq!(messages.used(), 70);
            drop(account);
            assert_eq!(messages.used(), 0);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn callers_wait_for_memory_in_turns_and_who_stops_gives_it_back() {
        let messages = FairSemaphore::new(ShareLimit::HalfOfRest { all: 150 });
        // Announces a message and stalls in the middle of it.
        let (first, mut stopped, _) = accounted(&messages, "a", "SendSegment");
        first.send(message(100)[..50].to_vec()).unwrap();
        assert_eq!(next(&mut stopped).await.unwrap().unwrap().len(), 50);
        assert_eq!(messages.used(), 100);
        let (second, mut waiting, _) = accounted(&messages, "b", "SendSegment");
        second.send(message(100)).unwrap();
        let refusal = next(&mut waiting).await.unwrap().unwrap_err();
        assert_eq!(refusal.code(), Code::ResourceExhausted);
        assert!(refusal.metadata().contains_key(RETRY_AFTER_KEY));
        // A small message of another client passes meanwhile.
        let (third, mut small, _) = accounted(&messages, "c", "SendSegment");
        third.send(message(20)).unwrap();
        assert_eq!(next(&mut small).await.unwrap().unwrap().len(), 25);
        drop(small);
        // The deadline of the stalled one ends it.
        assert_eq!(
            next(&mut stopped).await.unwrap().unwrap_err().code(),
            Code::DeadlineExceeded
        );
        drop(stopped);
        assert_eq!(messages.used(), 0);
    }

    #[tokio::test]
    async fn a_manifest_counts_for_what_is_made_of_it() {
        let messages = FairSemaphore::new(ShareLimit::HalfOfRest { all: 450 });
        let (sender, mut body, account) = accounted(&messages, "a", "BeginUpload");
        sender.send(message(30)).unwrap();
        next(&mut body).await.unwrap().unwrap();
        assert_eq!(messages.used(), 30 * MANIFEST);
        drop((body, account));
        let (sender, mut body, _) = accounted(&messages, "a", "BeginUpload");
        sender.send(message(38)).unwrap();
        let refusal = next(&mut body).await.unwrap().unwrap_err();
        assert!(refusal.message().contains("takes 456 bytes"), "{refusal}");
        assert!(!refusal.metadata().contains_key(RETRY_AFTER_KEY));
    }

    #[tokio::test]
    async fn what_a_search_is_about_is_said_in_a_small_message() {
        let limits = Limits::default();
        let of_search = |parts: &[Vec<u8>]| {
            let body = http_body_util::Full::new(Bytes::from(parts.concat()));
            RequestBody::of_call(Body::new(body), "SearchGenome", &limits, None)
        };
        let chunk = message(2 * SMALL);
        let mut search = of_search(&[message(SMALL), chunk.clone(), chunk.clone()]);
        while let Some(part) = next(&mut search).await {
            part.unwrap();
        }
        let refusal = next(&mut of_search(&[chunk])).await.unwrap().unwrap_err();
        assert!(refusal.message().contains("up to 65536 bytes"), "{refusal}");
    }

    #[tokio::test]
    async fn numbers_count_for_what_is_made_of_them() {
        let messages = FairSemaphore::new(ShareLimit::HalfOfRest { all: 150 });
        let (sender, mut body, _) = accounted(&messages, "a", "Count");
        sender.send(message(18)).unwrap();
        next(&mut body).await.unwrap().unwrap();
        assert_eq!(messages.used(), 18 * NUMBERS);
    }

    #[test]
    fn only_calls_with_much_to_say_have_long_messages() {
        let limits = Limits::default();
        for (call, most) in [
            ("SendSegment", limits.message_bytes),
            ("Count", limits.message_bytes),
            ("SearchGenome", limits.message_bytes),
            ("ListDatasets", SMALL),
            ("ListSites", SMALL),
            ("Unknown", SMALL),
        ] {
            assert_eq!(longest(call, &limits), most, "{call}");
        }
    }
}
