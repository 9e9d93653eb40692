//! Servers that lie as no correct program can: below the messages, at the end of streams, in endless lists. A relay
//! between the client and a real server alters answers in transit.

use crate::common::{Running, connect_to, serve, two};
use oboro_client::{Answers, ClientError, Connection, Mining, RecoveryCopy, upload};
use oboro_dataset::{Dataset, Shuffled, Target};
use oboro_input::{MinSupport, Transactions};
use oboro_mining::{AprioriError, AprioriOptions};
use oboro_protocol::v1::{self, count_reply::Reply};
use oboro_rlwe::MasterKey;
use prost::Message;
use prost::bytes::Bytes;
use std::convert::Infallible;
use std::io;
use std::iter;
use std::num::NonZeroUsize;
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};
use tokio_stream::wrappers::TcpListenerStream;
use tonic::body::Body;
use tonic::codegen::http::{HeaderMap, HeaderValue, Request, Response};
use tonic::codegen::{BoxFuture, Service};
use tonic::server::NamedService;
use tonic::transport::{Channel, Endpoint};

/// End of an answer.
#[derive(Clone)]
enum Ending {
    Trailers(HeaderMap),
    /// Stream that ends without trailers.
    None,
    /// Stream that is reset.
    Cut,
}

/// Answer in transit.
struct Answer {
    /// Encoded messages.
    messages: Box<dyn Iterator<Item = Bytes> + Send>,
    ending: Ending,
}

impl Answer {
    /// Replaces the messages by those that `alter` makes of them.
    fn alter(&mut self, alter: impl FnOnce(&mut Vec<Bytes>)) {
        let mut all: Vec<Bytes> =
            std::mem::replace(&mut self.messages, Box::new(iter::empty())).collect();
        alter(&mut all);
        self.messages = Box::new(all.into_iter());
    }

    /// Replaces the answer by this message and success.
    fn say(&mut self, message: &impl Message) {
        self.messages = Box::new(iter::once(message.encode_to_vec().into()));
        self.ending = status("0", &[]);
    }
}

/// Builds trailers with a status and further fields.
fn status(code: &'static str, fields: &[(&'static str, &'static str)]) -> Ending {
    let mut trailers = HeaderMap::new();
    for &(name, value) in [("grpc-status", code)].iter().chain(fields) {
        trailers.insert(name, HeaderValue::from_static(value));
    }
    Ending::Trailers(trailers)
}

/// Callback that alters an answer, given the name of its call and the encoded request.
type Alter = Arc<dyn Fn(&str, &[u8], &mut Answer) + Send + Sync>;

#[derive(Clone)]
struct Relay {
    server: Channel,
    alter: Alter,
}

impl NamedService for Relay {
    const NAME: &'static str = "oboro.v1.Mining";
}

impl Service<Request<Body>> for Relay {
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = BoxFuture<Self::Response, Infallible>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let Self { mut server, alter } = self.clone();
        Box::pin(async move {
            let (mut head, body) = request.into_parts();
            let (sent, _) = received(body).await;
            let first = sent.first().cloned().unwrap_or_default();
            let call = head.uri.path().rsplit('/').next().unwrap().to_owned();
            head.uri = format!("http://relayed{}", head.uri.path())
                .parse()
                .unwrap();
            std::future::poll_fn(|context| server.poll_ready(context))
                .await
                .unwrap();
            let request = Request::from_parts(head, Body::new(Framed::whole(sent)));
            let (mut head, body) = server.call(request).await.unwrap().into_parts();
            let (messages, trailers) = received(body).await;
            let status = head.headers.remove("grpc-status");
            let trailers = trailers.unwrap_or_else(|| {
                let status = status.map(|it| ("grpc-status".parse().unwrap(), it));
                HeaderMap::from_iter(status)
            });
            let mut answer = Answer {
                messages: Box::new(messages.into_iter()),
                ending: Ending::Trailers(trailers),
            };
            alter(&call, &first, &mut answer);
            Ok(Response::from_parts(head, Body::new(Framed(answer))))
        })
    }
}

/// Returns the messages and the trailers of a body.
async fn received(mut body: Body) -> (Vec<Bytes>, Option<HeaderMap>) {
    let (mut bytes, mut trailers) = (Vec::new(), None);
    let next = |body: &mut Body, context: &mut Context<'_>| {
        http_body::Body::poll_frame(std::pin::Pin::new(body), context)
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
        mut self: std::pin::Pin<&mut Self>,
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

/// Server with a dataset, and relays to it.
struct Scene {
    runtime: tokio::runtime::Runtime,
    server: Running,
    dataset: Dataset,
    _directory: tempfile::TempDir,
}

impl Scene {
    /// Creates the scene without an upload.
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        Self {
            runtime: tokio::runtime::Runtime::new().unwrap(),
            server: serve(&directory.path().join("store"), 0),
            dataset: encrypted(&directory.path().join("dataset")),
            _directory: directory,
        }
    }

    fn uploaded() -> Self {
        let scene = Self::new();
        let connection = connect_to(scene.server.url());
        upload(&connection, scene.dataset.bundle(), "dataset", &|_, _| {}).unwrap();
        scene
    }

    /// Connects through a relay that alters answers.
    fn relay(
        &self,
        alter: impl Fn(&str, &[u8], &mut Answer) + Send + Sync + 'static,
    ) -> Connection {
        let _context = self.runtime.enter();
        let server = Endpoint::from_shared(self.server.url().to_owned()).unwrap();
        let relay = Relay {
            server: server.connect_lazy(),
            alter: Arc::new(alter),
        };
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        listener.set_nonblocking(true).unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let streams = TcpListenerStream::new(tokio::net::TcpListener::from_std(listener).unwrap());
        let serving = tonic::transport::Server::builder()
            .add_service(relay)
            .serve_with_incoming(streams);
        self.runtime.spawn(serving);
        connect_to(&url)
    }

    /// Returns true if a false answer was noted, and resets trust.
    fn noted(&self) -> bool {
        let failure = self.dataset.trust().unwrap().failure;
        self.dataset.reset_trust().unwrap();
        failure.is_some()
    }
}

fn encrypted(path: &Path) -> Dataset {
    let basket = |i: usize| (0..6).filter(move |item| !(i + item).is_multiple_of(3));
    let names = |i: usize| basket(i).map(|item| item.to_string());
    let rows = Transactions::from_named((0..60).map(|i| Vec::from_iter(names(i)))).unwrap();
    let master = MasterKey::generate().unwrap();
    let go_on = |_, _| ControlFlow::Continue(());
    Dataset::create(
        Shuffled::of(rows),
        &master,
        Target::New(path),
        3,
        two(),
        &go_on,
    )
    .unwrap()
}

/// Route of supports.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    Cells,
    Pairs,
    Triples,
    Row,
    Trusted,
}

const WAYS: [Way; 5] = [Way::Cells, Way::Pairs, Way::Triples, Way::Row, Way::Trusted];

impl Way {
    fn ask(self, scene: &Scene, connection: &Connection) -> Result<(), ClientError> {
        let mining = Mining::new(&scene.dataset, "dataset", two());
        let connect = || Ok(connection.clone());
        let (answers, longest) = match self {
            Self::Row => return mining.pairs_with("1", connect).map(drop),
            Self::Cells => (Answers::Cells, 3),
            Self::Triples => (Answers::Moments, 3),
            Self::Pairs | Self::Trusted => (Answers::Moments, 2),
        };
        let options =
            AprioriOptions::new(MinSupport::Fraction(0.1)).with_max_len(NonZeroUsize::new(longest));
        let mining = mining.by(answers).trusting_server(self == Self::Trusted);
        match mining.run(options, connect) {
            Ok(_) => Ok(()),
            Err(AprioriError::Counter(error)) => Err(error),
            Err(other) => panic!("{other}"),
        }
    }

    /// Returns true if this is the answer to alter: of several, the last one.
    fn is_asked(self, call: &str, request: &[u8]) -> bool {
        let length = |it| v1::CountRequest::decode(it).map_or(0, |it: v1::CountRequest| it.length);
        match self {
            Self::Cells => call == "FetchColumns",
            Self::Triples => call == "Count" && length(request) == 3,
            _ => call == "Count",
        }
    }

    /// Connects through a relay that alters the answer of this route.
    fn relay(
        self,
        scene: &Scene,
        alter: impl Fn(&mut Answer) + Send + Sync + 'static,
    ) -> Connection {
        scene.relay(move |call, request, answer| {
            if self.is_asked(call, request) {
                alter(answer);
            }
        })
    }

    /// Flips a bit in each part of an answer.
    fn falsify(self, answer: &mut Answer) {
        self.alter_parts(answer, |bytes| bytes[0] ^= 1);
    }

    /// Alters the bytes of each part of an answer.
    fn alter_parts(self, answer: &mut Answer, alter: fn(&mut Vec<u8>)) {
        let altered = |bytes: &Bytes| {
            let mut bytes = bytes.to_vec();
            alter(&mut bytes);
            Bytes::from(bytes)
        };
        answer.alter(|messages| {
            for message in messages {
                *message = if self == Self::Cells {
                    let mut reply = v1::FetchColumnsReply::decode(&message[..]).unwrap();
                    reply.data = altered(&reply.data);
                    reply.encode_to_vec().into()
                } else {
                    let mut reply = v1::CountReply::decode(&message[..]).unwrap();
                    if let Some(Reply::Moments(part)) = &mut reply.reply {
                        part.residues = altered(&part.residues);
                    }
                    reply.encode_to_vec().into()
                };
            }
        });
    }
}

/// Returns bad ends of a stream after everything has arrived.
fn bad_endings() -> Vec<(&'static str, Ending)> {
    vec![
        ("unavailable", status("14", &[])),
        ("internal", status("13", &[])),
        ("a status that is none", status("x", &[])),
        (
            "details that are no base64",
            status("13", &[("grpc-status-details-bin", "%%%")]),
        ),
        ("no trailers", Ending::None),
    ]
}

#[test]
fn a_false_answer_stays_false_however_its_stream_ends() {
    let scene = Scene::uploaded();
    for way in WAYS {
        for (what, ending) in bad_endings() {
            let connection = way.relay(&scene, move |answer| {
                way.falsify(answer);
                answer.ending = ending.clone();
            });
            let error = way.ask(&scene, &connection).unwrap_err();
            let is_false = matches!(error, ClientError::FalseAnswer { .. });
            assert!(is_false, "{way:?}, {what}: {error}");
            assert!(scene.noted(), "{way:?}, {what}");
        }
    }
}

#[test]
fn right_answers_that_end_badly_are_no_false_answers() {
    let scene = Scene::uploaded();
    for way in WAYS {
        let cut = ("a reset", Ending::Cut);
        for (what, ending) in bad_endings().into_iter().chain([cut]) {
            for part in [false, true] {
                let ending = ending.clone();
                let connection = way.relay(&scene, move |answer| {
                    answer
                        .alter(|messages| messages.truncate(if part { 1 } else { messages.len() }));
                    answer.ending = ending.clone();
                });
                let error = way.ask(&scene, &connection).unwrap_err();
                let is_of_stream = matches!(
                    error,
                    ClientError::Broken { .. }
                        | ClientError::NoAnswer { .. }
                        | ClientError::Failed(_)
                );
                assert!(is_of_stream, "{way:?}, {what}: {error}");
                assert!(!scene.noted(), "{way:?}, {what}");
            }
        }
        // Unread details are harmless.
        let details = status("0", &[("grpc-status-details-bin", "%%%")]);
        let connection = way.relay(&scene, move |answer| answer.ending = details.clone());
        way.ask(&scene, &connection).unwrap();
        scene.noted();
    }
}

#[test]
fn parts_that_cannot_be_are_false_answers_before_anything_is_complete() {
    let scene = Scene::uploaded();
    type Lie = (&'static str, fn(Way, &mut Answer));
    let lies: &[Lie] = &[
        ("no protobuf", |_, it| {
            it.alter(|all| *all = vec![vec![0xff; 3].into()])
        }),
        ("a message beyond its bound", |_, it| {
            it.alter(|all| all.push(vec![0; 5 << 20].into()));
        }),
        ("more fields than a message has", |_, it| {
            // Field 15, a varint, repeatedly.
            it.alter(|all| all.push([0x78, 0].repeat(100).into()));
        }),
        ("all of it twice", |_, it| {
            it.alter(|all| all.extend_from_within(..))
        }),
        ("parts that are too long", |way, it| {
            way.alter_parts(it, |bytes| bytes.extend_from_slice(&[0; 7]));
        }),
        ("nothing, for ever", |_, it| {
            it.messages = Box::new(iter::repeat(Bytes::new()))
        }),
    ];
    for way in WAYS {
        for &(what, lie) in lies {
            let connection = way.relay(&scene, move |answer| {
                lie(way, answer);
                answer.ending = status("13", &[]);
            });
            let error = way.ask(&scene, &connection).unwrap_err();
            let is_false = matches!(error, ClientError::FalseAnswer { .. });
            assert!(is_false, "{way:?}, {what}: {error}");
            assert!(scene.noted(), "{way:?}, {what}");
        }
    }
    // For sums and moments also their order, and every part by itself.
    type Change = (&'static str, fn(&mut Vec<v1::CountReply>));
    let changes: &[Change] = &[
        ("parts after the end", |it| it.rotate_right(1)),
        ("two beginnings", |it| it.insert(0, it[0].clone())),
        ("an empty part", |it| {
            it[1] = Reply::Moments(v1::Moments::default()).into()
        }),
        ("one residue that is none, and no more", |it| {
            it.truncate(2);
            if let Some(Reply::Moments(part)) = &mut it[1].reply {
                part.residues = vec![0xff; part.residues.len()].into();
            }
        }),
    ];
    for way in &WAYS[1..] {
        for &(what, change) in changes {
            let connection = way.relay(&scene, move |answer| {
                answer.alter(|messages| {
                    let decoded = messages
                        .iter()
                        .map(|it| v1::CountReply::decode(&it[..]).unwrap());
                    let mut replies: Vec<v1::CountReply> = decoded.collect();
                    change(&mut replies);
                    *messages = replies.iter().map(|it| it.encode_to_vec().into()).collect();
                });
                answer.ending = status("13", &[]);
            });
            let error = way.ask(&scene, &connection).unwrap_err();
            let is_false = matches!(error, ClientError::FalseAnswer { .. });
            assert!(is_false, "{way:?}, {what}: {error}");
            assert!(scene.noted(), "{way:?}, {what}");
        }
    }
}

#[test]
fn a_request_that_is_sent_again_is_answered_with_the_same_bytes() {
    let scene = Scene::uploaded();
    for way in [Way::Pairs, Way::Triples, Way::Row] {
        let asked = AtomicUsize::new(0);
        // False parts, cut off before anything can be verified, then the truth.
        let connection = way.relay(&scene, move |answer| {
            if asked.fetch_add(1, Ordering::Relaxed) == 0 {
                way.falsify(answer);
                answer.alter(|messages| messages.truncate(2));
                answer.ending = status("14", &[]);
            }
        });
        let error = way.ask(&scene, &connection).unwrap_err();
        assert!(
            matches!(error, ClientError::FalseAnswer { .. }),
            "{way:?}: {error}"
        );
        assert!(scene.noted());
    }
}

#[test]
fn details_that_are_no_base64_end_no_call_in_a_panic() {
    let scene = Scene::uploaded();
    for code in ["0", "5", "13", "14"] {
        let connection = scene.relay(move |_, _, answer| {
            answer.ending = status(code, &[("grpc-status-details-bin", "not base64!")]);
        });
        let listed = connection.datasets();
        assert_eq!(listed.is_ok(), code == "0", "{listed:?}");
        let deleted = connection.delete("dataset-that-is-none", true);
        assert!(deleted.is_err(), "{code}");
    }
}

#[test]
fn lists_and_names_are_bounded_before_they_are_decoded() {
    let scene = Scene::uploaded();
    // Two bytes an entry: 8 MB, which would take gigabytes when decoded.
    let connection = scene.relay(|_, _, answer| {
        answer.alter(|all| *all = vec![[0x0a, 0].repeat(4 << 20).into()]);
    });
    for refused in [
        connection.datasets().err(),
        connection.unpublished().err(),
        connection.queries().err(),
        connection.grants().err(),
    ] {
        let refused = refused.unwrap();
        let is_malformed =
            matches!(refused, ClientError::OutOfTurn(it) if it.contains("more entries"));
        assert!(is_malformed, "{refused}");
    }
    let connection = scene.relay(|_, _, answer| {
        answer.alter(|all| {
            let mut listed = v1::ListDatasetsReply::decode(&all[0][..]).unwrap();
            listed.datasets[0].name = "n".repeat(70_000);
            all[0] = listed.encode_to_vec().into();
        });
    });
    let refused = connection.datasets().unwrap_err();
    assert!(matches!(refused, ClientError::Field(_)), "{refused}");
}

#[test]
fn streams_that_never_end_are_left() {
    let scene = Scene::uploaded();
    let empty = scene.relay(|_, _, answer| answer.messages = Box::new(iter::repeat(Bytes::new())));
    let start = v1::RecoveryChunk {
        start: Some(v1::RecoveryStart {
            dataset: vec![1; 16].into(),
            root: vec![2; 32].into(),
            ..Default::default()
        }),
        ..Default::default()
    };
    let starts: Bytes = start.encode_to_vec().into();
    let starting = scene.relay(move |_, _, answer| {
        answer.messages = Box::new(iter::repeat(starts.clone()));
    });
    let progress = v1::ScrubReply::from(v1::scrub_reply::Reply::Progress(v1::ScrubProgress {
        checked_bytes: 1,
        total_bytes: 2,
    }));
    let progress: Bytes = progress.encode_to_vec().into();
    let scrubbing = scene.relay(move |_, _, answer| {
        answer.messages = Box::new(iter::repeat(progress.clone()));
    });
    for refused in [
        RecoveryCopy::fetch(empty, "dataset").err(),
        RecoveryCopy::fetch(starting, "dataset").err(),
        scrubbing.scrub(None, None, |_| {}).err(),
    ] {
        let refused = refused.unwrap();
        assert!(matches!(refused, ClientError::OutOfTurn(_)), "{refused}");
    }
}

/// Uploads through a relay that alters answers. `alter` receives the number of earlier calls and the root of the
/// upload.
fn uploaded(
    alter: impl Fn(&str, usize, &[u8], &mut Answer) + Send + Sync + 'static,
) -> (Result<oboro_client::Uploaded, ClientError>, usize) {
    let scene = Scene::new();
    let sent = Arc::new(AtomicUsize::new(0));
    let begun = AtomicUsize::new(0);
    let counted = Arc::clone(&sent);
    let root = scene.dataset.manifest().root().0;
    let connection = scene.relay(move |call, _, answer| {
        let times = match call {
            "SendSegment" => counted.fetch_add(1, Ordering::Relaxed),
            _ => begun.fetch_add(1, Ordering::Relaxed),
        };
        alter(call, times, &root, answer);
    });
    let ended = upload(&connection, scene.dataset.bundle(), "dataset", &|_, _| {});
    (ended, sent.load(Ordering::Relaxed))
}

/// Alters the status of the upload that the server reports.
fn alter_status(answer: &mut Answer, alter: impl FnOnce(&mut v1::UploadStatus)) {
    answer.alter(|messages| {
        let mut status = v1::UploadStatus::decode(&messages[0][..]).unwrap();
        alter(&mut status);
        messages[0] = status.encode_to_vec().into();
    });
}

#[test]
fn uploads_report_what_was_sent_and_verified() {
    let (ended, sent) = uploaded(|_, _, _, _| {});
    let honest = ended.unwrap();
    assert_eq!((sent, honest.version), (1, 1));
    assert_eq!(honest.sent_bytes, honest.total_bytes);
    // A server that claims to have everything receives nothing, and nothing else is reported.
    let (ended, sent) = uploaded(|call, _, root, answer| match call {
        "BeginUpload" => alter_status(answer, |it| it.published = true),
        _ => answer.say(&v1::Published {
            version: 1,
            root: root.to_vec().into(),
        }),
    });
    let lied = ended.unwrap();
    assert_eq!((sent, lied.version, lied.sent_bytes), (0, 1, 0));
}

#[test]
fn uploads_end_whatever_the_server_asks_for() {
    // Another version than the uploaded one.
    let (ended, _) = uploaded(|call, _, _, answer| {
        if call == "Publish" {
            answer.alter(|messages| {
                let mut published = v1::Published::decode(&messages[0][..]).unwrap();
                published.version = 99_999;
                messages[0] = published.encode_to_vec().into();
            });
        }
    });
    assert!(matches!(ended, Err(ClientError::OutOfTurn(_))), "{ended:?}");
    // One segment, requested thousands of times.
    let (ended, sent) = uploaded(|call, _, _, answer| {
        if call == "BeginUpload" {
            alter_status(answer, |it| it.segments = vec![it.segments[0]; 5000]);
        }
    });
    assert!(matches!(ended, Err(ClientError::OutOfTurn(_))), "{ended:?}");
    assert_eq!(sent, 0);
    // A segment that is lost repeatedly.
    let (ended, sent) = uploaded(|call, _, _, answer| match call {
        "BeginUpload" => alter_status(answer, |it| it.segments[0].bytes_received = 100),
        _ => answer.ending = status("15", &[]),
    });
    assert!(matches!(ended, Err(ClientError::Damaged(_))), "{ended:?}");
    assert_eq!(sent, 2);
    // Always lost, and always with new progress.
    let (ended, sent) = uploaded(|call, times, _, answer| match call {
        "BeginUpload" => {
            alter_status(answer, |it| {
                it.segments[0].bytes_received = 1 + times as u64
            });
        }
        _ => answer.ending = status("15", &[]),
    });
    assert!(matches!(ended, Err(ClientError::Damaged(_))), "{ended:?}");
    assert_eq!(sent, 2);
}
