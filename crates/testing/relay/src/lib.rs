//! A relay of gRPC calls for tests: it records requests and alters answers in transit, also below the messages, at the
//! end of streams and in endless lists.
//!
//! Requests and answers are read to their end before they are passed on. Only genome searches, in which both sides talk
//! at once, pass as they are.

use prost::Message;
use prost::bytes::Bytes;
use std::convert::Infallible;
use std::io;
use std::iter;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use tokio::runtime::Runtime;
use tokio_stream::wrappers::TcpListenerStream;
use tonic::body::Body;
use tonic::codegen::http::{HeaderMap, HeaderName, HeaderValue, Request, Response};
use tonic::codegen::{BoxFuture, Service};
use tonic::server::NamedService;
use tonic::transport::{Channel, Endpoint, Server};

/// Request: the name of its call and its first message.
pub type Asked = (String, Bytes);
/// Callback that alters an answer, given the name of its call and the encoded request.
type Alter = Arc<dyn Fn(&str, &[u8], &mut Answer) + Send + Sync>;

/// End of an answer.
#[derive(Clone)]
pub enum Ending {
    /// Trailers, with a status among them.
    Trailers(HeaderMap),
    /// Stream that ends without trailers.
    None,
    /// Stream that is reset.
    Cut,
}

/// Builds trailers with a status and further fields.
pub fn status(code: &str, fields: &[(&'static str, &str)]) -> Ending {
    let mut trailers = HeaderMap::new();
    for &(name, value) in [("grpc-status", code)].iter().chain(fields) {
        trailers.insert(name, value.parse::<HeaderValue>().unwrap());
    }
    Ending::Trailers(trailers)
}

/// Answer in transit.
pub struct Answer {
    /// Encoded messages.
    pub messages: Box<dyn Iterator<Item = Bytes> + Send>,
    /// End of the stream.
    pub ending: Ending,
}

impl Answer {
    /// Replaces the messages by those that `alter` makes of them.
    pub fn alter(&mut self, alter: impl FnOnce(&mut Vec<Bytes>)) {
        let none: Box<dyn Iterator<Item = Bytes> + Send> = Box::new(iter::empty());
        let mut all: Vec<Bytes> = std::mem::replace(&mut self.messages, none).collect();
        alter(&mut all);
        self.messages = Box::new(all.into_iter());
    }

    /// Replaces the messages by those that `alter` makes of their decoded forms.
    pub fn alter_as<M: Message + Default>(&mut self, alter: impl FnOnce(&mut Vec<M>)) {
        self.alter(|messages| {
            let decoded = messages.iter().map(|it| M::decode(&it[..]).unwrap());
            let mut all: Vec<M> = decoded.collect();
            alter(&mut all);
            *messages = all.iter().map(|it| it.encode_to_vec().into()).collect();
        });
    }

    /// Replaces the answer by this message and success.
    pub fn say(&mut self, message: &impl Message) {
        self.messages = Box::new(iter::once(message.encode_to_vec().into()));
        self.ending = status("0", &[]);
    }

    /// Replaces the answer by a failure.
    pub fn fail(&mut self, code: &str, words: &str) {
        self.messages = Box::new(iter::empty());
        // Messages are percent-encoded.
        let words: String = words.bytes().map(|it| format!("%{it:02X}")).collect();
        self.ending = status(code, &[("grpc-message", &words)]);
    }
}

/// Relay between clients and one server; stopped when dropped.
pub struct Relay {
    url: String,
    alter: Arc<Mutex<Alter>>,
    asked: Arc<Mutex<Vec<Asked>>>,
    _runtime: Runtime,
}

impl Relay {
    /// Starts a relay to the server at `url`, which alters nothing yet.
    pub fn to(url: &str) -> Self {
        let runtime = Runtime::new().unwrap();
        let context = runtime.enter();
        let alter: Arc<Mutex<Alter>> = Arc::new(Mutex::new(Arc::new(|_, _, _| {})));
        let asked = Arc::default();
        let relayed = Relayed {
            server: Endpoint::from_shared(url.to_owned())
                .unwrap()
                .connect_lazy(),
            alter: Arc::clone(&alter),
            asked: Arc::clone(&asked),
        };
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        listener.set_nonblocking(true).unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let streams = TcpListenerStream::new(tokio::net::TcpListener::from_std(listener).unwrap());
        let serving = Server::builder()
            .add_service(OfMining(relayed.clone()))
            .add_service(OfGenomes(relayed))
            .serve_with_incoming(streams);
        runtime.spawn(serving);
        drop(context);
        Self {
            url,
            alter,
            asked,
            _runtime: runtime,
        }
    }

    /// Address of the relay.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Alters answers this way from now on.
    pub fn alter(&self, alter: impl Fn(&str, &[u8], &mut Answer) + Send + Sync + 'static) {
        *self.alter.lock().unwrap_or_else(PoisonError::into_inner) = Arc::new(alter);
    }

    /// Alters nothing from now on.
    pub fn pass(&self) {
        self.alter(|_, _, _| {});
    }

    /// Returns the requests since the last call, in order.
    pub fn asked(&self) -> Vec<Asked> {
        std::mem::take(&mut self.asked.lock().unwrap())
    }
}

#[derive(Clone)]
struct Relayed {
    server: Channel,
    alter: Arc<Mutex<Alter>>,
    asked: Arc<Mutex<Vec<Asked>>>,
}

impl Relayed {
    async fn relay(mut self, request: Request<Body>) -> Response<Body> {
        let (mut head, body) = request.into_parts();
        let call = head.uri.path().rsplit('/').next().unwrap().to_owned();
        head.uri = format!("http://relayed{}", head.uri.path())
            .parse()
            .unwrap();
        std::future::poll_fn(|context| self.server.poll_ready(context))
            .await
            .unwrap();
        if call == "SearchGenome" {
            self.asked.lock().unwrap().push((call, Bytes::new()));
            let request = Request::from_parts(head, body);
            return self.server.call(request).await.unwrap();
        }
        let (sent, _) = received(body).await;
        let first = sent.first().cloned().unwrap_or_default();
        self.asked
            .lock()
            .unwrap()
            .push((call.clone(), first.clone()));
        let request = Request::from_parts(head, Body::new(Framed::whole(sent)));
        let (mut head, body) = self.server.call(request).await.unwrap().into_parts();
        let (messages, trailers) = received(body).await;
        let status = head.headers.remove("grpc-status");
        let trailers = trailers.unwrap_or_else(|| {
            let status = status.map(|it| (HeaderName::from_static("grpc-status"), it));
            HeaderMap::from_iter(status)
        });
        let mut answer = Answer {
            messages: Box::new(messages.into_iter()),
            ending: Ending::Trailers(trailers),
        };
        let alter = Arc::clone(&self.alter.lock().unwrap_or_else(PoisonError::into_inner));
        alter(&call, &first, &mut answer);
        Response::from_parts(head, Body::new(Framed(answer)))
    }
}

/// Declares the relay of one service.
macro_rules! service {
    ($type:ident, $name:literal) => {
        #[derive(Clone)]
        struct $type(Relayed);

        impl NamedService for $type {
            const NAME: &'static str = $name;
        }

        impl Service<Request<Body>> for $type {
            type Response = Response<Body>;
            type Error = Infallible;
            type Future = BoxFuture<Self::Response, Infallible>;

            fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
                Poll::Ready(Ok(()))
            }

            fn call(&mut self, request: Request<Body>) -> Self::Future {
                let relayed = self.0.clone();
                Box::pin(async { Ok(relayed.relay(request).await) })
            }
        }
    };
}

service!(OfMining, "oboro.v1.Mining");
service!(OfGenomes, "oboro.v1.Genome");

/// Returns the messages and the trailers of a body.
async fn received(mut body: Body) -> (Vec<Bytes>, Option<HeaderMap>) {
    let (mut bytes, mut trailers) = (Vec::new(), None);
    let next = |body: &mut Body, context: &mut Context<'_>| {
        http_body::Body::poll_frame(Pin::new(body), context)
    };
    while let Some(frame) = std::future::poll_fn(|context| next(&mut body, context)).await {
        match frame.unwrap().into_data() {
            Ok(data) => bytes.extend_from_slice(&data),
            Err(other) => trailers = other.into_trailers().ok(),
        }
    }
    let (mut messages, mut rest) = (Vec::new(), Bytes::from(bytes));
    while !rest.is_empty() {
        let header = rest.split_to(5);
        let length = u32::from_be_bytes(header[1..].try_into().unwrap());
        messages.push(rest.split_to(length as usize));
    }
    (messages, trailers)
}

/// Body of an answer.
struct Framed(Answer);

impl Framed {
    /// Creates the body of a request.
    fn whole(messages: Vec<Bytes>) -> Self {
        Self(Answer {
            messages: Box::new(messages.into_iter()),
            ending: Ending::None,
        })
    }
}

impl http_body::Body for Framed {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<http_body::Frame<Bytes>, io::Error>>> {
        if let Some(message) = self.0.messages.next() {
            let length = u32::try_from(message.len()).unwrap().to_be_bytes();
            let framed = [&[0][..], &length, &message].concat();
            return Poll::Ready(Some(Ok(http_body::Frame::data(framed.into()))));
        }
        Poll::Ready(match std::mem::replace(&mut self.0.ending, Ending::None) {
            Ending::Trailers(trailers) => Some(Ok(http_body::Frame::trailers(trailers))),
            Ending::None => None,
            Ending::Cut => Some(Err(io::ErrorKind::ConnectionReset.into())),
        })
    }
}
