//! A server that lies learns nothing and changes nothing: whatever it answers, it sees the requests of an honest run,
//! or the run ends with an error, and no unverified support is reported.
//!
//! The liar sits between the real client and a real server, records requests and alters answers.

use crate::common::calls::endpoint;
use crate::common::plaintext::random_baskets;
use crate::common::{Ended, Home, Server, says};
use oboro_protocol::RETRY_AFTER_KEY;
use oboro_protocol::v1;
use oboro_protocol::v1::count_reply::Reply;
use oboro_protocol::v1::mining_client::MiningClient;
use oboro_protocol::v1::mining_server::{Mining, MiningServer};
use oboro_ring::{Parameters, pack};
use prost::Message;
use rand::prelude::*;
use rand::rngs::ChaCha20Rng;
use serde_json::{Value, json};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio_stream::wrappers::TcpListenerStream;
use tonic::transport::Channel;
use tonic::{Code, Request, Response, Status, Streaming};

/// An answer of sealed cells, in messages.
type Cells = Vec<Result<v1::FetchColumnsReply, Status>>;
/// An answer of moments, in messages.
type Replies = Vec<Result<v1::CountReply, Status>>;
/// Alters an answer of moments.
type AboutMoments = Arc<dyn Fn(&mut Replies) + Send + Sync>;
/// Alters an answer of cells, given its request.
type AboutCells = Arc<dyn Fn(&v1::FetchColumnsRequest, &mut Cells) + Send + Sync>;

/// What a recovery is of, and its copy.
type Kept = (v1::RecoveryStart, Vec<u8>);
/// Alters these.
type AboutRecovery = Arc<dyn Fn(&mut Kept) + Send + Sync>;

/// The alterations of a liar.
#[derive(Clone)]
struct Lies {
    info: fn(v1::ServerInfoReply) -> Result<v1::ServerInfoReply, Status>,
    status: fn(&mut v1::UploadStatus),
    published: fn(&mut v1::Published),
    datasets: fn(&mut Vec<v1::DatasetInfo>),
    described: fn(&mut v1::DescribeDatasetReply),
    count: AboutMoments,
    columns: AboutCells,
    /// About recovery copies.
    recovery: AboutRecovery,
}

/// No lies.
fn truth() -> Lies {
    Lies {
        info: Ok,
        status: |_| {},
        published: |_| {},
        datasets: |_| {},
        described: |_| {},
        count: Arc::new(|_| {}),
        columns: Arc::new(|_, _| {}),
        recovery: Arc::new(|_| {}),
    }
}

/// Lies about cells only.
fn about_cells(lie: impl Fn(&v1::FetchColumnsRequest, &mut Cells) + Send + Sync + 'static) -> Lies {
    Lies {
        columns: Arc::new(lie),
        ..truth()
    }
}

/// Lies about moments only.
fn about_moments(lie: impl Fn(&mut Replies) + Send + Sync + 'static) -> Lies {
    Lies {
        count: Arc::new(lie),
        ..truth()
    }
}

/// The requests in order: the name of the call and its bytes.
type Asked = Arc<Mutex<Vec<(&'static str, Vec<u8>)>>>;

/// The call for the version, the same before each first question.
const VERSION: &str = "describe_dataset";

struct Liar {
    server: MiningClient<Channel>,
    lies: Lies,
    asked: Asked,
}

impl Liar {
    fn write_down(&self, call: &'static str, request: &impl Message) {
        let asked = (call, request.encode_to_vec());
        self.asked.lock().unwrap().push(asked);
    }
}

/// Forwards a call with its metadata.
macro_rules! pass {
    ($self:ident, $call:ident, $request:ident) => {
        $self.server.clone().$call($request).await?.into_inner()
    };
}

#[tonic::async_trait]
impl Mining for Liar {
    async fn server_info(
        &self,
        request: Request<v1::ServerInfoRequest>,
    ) -> Result<Response<v1::ServerInfoReply>, Status> {
        self.write_down("server_info", request.get_ref());
        let reply = pass!(self, server_info, request);
        (self.lies.info)(reply).map(Response::new)
    }

    async fn begin_upload(
        &self,
        request: Request<v1::BeginUploadRequest>,
    ) -> Result<Response<v1::UploadStatus>, Status> {
        let mut reply = pass!(self, begin_upload, request);
        (self.lies.status)(&mut reply);
        Ok(Response::new(reply))
    }

    async fn send_segment(
        &self,
        request: Request<Streaming<v1::SegmentChunk>>,
    ) -> Result<Response<v1::SegmentReceipt>, Status> {
        let (metadata, _, mut chunks) = request.into_parts();
        let mut all = Vec::new();
        while let Some(chunk) = chunks.message().await? {
            all.push(chunk);
        }
        let mut request = Request::new(tokio_stream::iter(all));
        *request.metadata_mut() = metadata;
        Ok(Response::new(pass!(self, send_segment, request)))
    }

    async fn publish(
        &self,
        request: Request<v1::PublishRequest>,
    ) -> Result<Response<v1::Published>, Status> {
        let mut reply = pass!(self, publish, request);
        (self.lies.published)(&mut reply);
        Ok(Response::new(reply))
    }

    async fn cancel_upload(
        &self,
        request: Request<v1::CancelUploadRequest>,
    ) -> Result<Response<v1::CancelUploadReply>, Status> {
        Ok(Response::new(pass!(self, cancel_upload, request)))
    }

    async fn list_datasets(
        &self,
        request: Request<v1::ListDatasetsRequest>,
    ) -> Result<Response<v1::ListDatasetsReply>, Status> {
        let mut reply = pass!(self, list_datasets, request);
        (self.lies.datasets)(&mut reply.datasets);
        Ok(Response::new(reply))
    }

    async fn describe_dataset(
        &self,
        request: Request<v1::DescribeDatasetRequest>,
    ) -> Result<Response<v1::DescribeDatasetReply>, Status> {
        self.write_down(VERSION, request.get_ref());
        let mut reply = pass!(self, describe_dataset, request);
        (self.lies.described)(&mut reply);
        Ok(Response::new(reply))
    }

    async fn delete_dataset(
        &self,
        request: Request<v1::DeleteDatasetRequest>,
    ) -> Result<Response<v1::DeleteDatasetReply>, Status> {
        Ok(Response::new(pass!(self, delete_dataset, request)))
    }

    async fn undelete_dataset(
        &self,
        request: Request<v1::UndeleteDatasetRequest>,
    ) -> Result<Response<v1::UndeleteDatasetReply>, Status> {
        Ok(Response::new(pass!(self, undelete_dataset, request)))
    }

    async fn grant_access(
        &self,
        request: Request<v1::Grant>,
    ) -> Result<Response<v1::GrantReply>, Status> {
        Ok(Response::new(pass!(self, grant_access, request)))
    }

    async fn revoke_access(
        &self,
        request: Request<v1::Grant>,
    ) -> Result<Response<v1::GrantReply>, Status> {
        Ok(Response::new(pass!(self, revoke_access, request)))
    }

    async fn list_access(
        &self,
        request: Request<v1::ListAccessRequest>,
    ) -> Result<Response<v1::ListAccessReply>, Status> {
        Ok(Response::new(pass!(self, list_access, request)))
    }

    async fn list_queries(
        &self,
        request: Request<v1::ListQueriesRequest>,
    ) -> Result<Response<v1::ListQueriesReply>, Status> {
        Ok(Response::new(pass!(self, list_queries, request)))
    }

    async fn end_query(
        &self,
        request: Request<v1::EndQueryRequest>,
    ) -> Result<Response<v1::EndQueryReply>, Status> {
        Ok(Response::new(pass!(self, end_query, request)))
    }

    async fn placement(
        &self,
        request: Request<v1::PlacementRequest>,
    ) -> Result<Response<v1::PlacementReply>, Status> {
        Ok(Response::new(pass!(self, placement, request)))
    }

    type CountStream = tokio_stream::Iter<std::vec::IntoIter<Result<v1::CountReply, Status>>>;

    async fn count(
        &self,
        request: Request<v1::CountRequest>,
    ) -> Result<Response<Self::CountStream>, Status> {
        self.write_down("count", request.get_ref());
        let mut replies = pass!(self, count, request);
        let mut all = Vec::new();
        while let Some(reply) = replies.message().await? {
            all.push(Ok(reply));
        }
        // A lie may take some time.
        let lie = Arc::clone(&self.lies.count);
        let told = tokio::task::spawn_blocking(move || {
            lie(&mut all);
            all
        });
        Ok(Response::new(tokio_stream::iter(told.await.unwrap())))
    }

    type FetchColumnsStream =
        tokio_stream::Iter<std::vec::IntoIter<Result<v1::FetchColumnsReply, Status>>>;

    async fn fetch_columns(
        &self,
        request: Request<v1::FetchColumnsRequest>,
    ) -> Result<Response<Self::FetchColumnsStream>, Status> {
        self.write_down("fetch_columns", request.get_ref());
        let question = request.get_ref().clone();
        let mut replies = pass!(self, fetch_columns, request);
        let mut all = Vec::new();
        while let Some(reply) = replies.message().await? {
            all.push(Ok(reply));
        }
        // A lie may take some time.
        let lie = Arc::clone(&self.lies.columns);
        let told = tokio::task::spawn_blocking(move || {
            lie(&question, &mut all);
            all
        });
        let all = told.await.unwrap();
        Ok(Response::new(tokio_stream::iter(all)))
    }

    async fn keep_recovery(
        &self,
        request: Request<Streaming<v1::RecoveryChunk>>,
    ) -> Result<Response<v1::KeepRecoveryReply>, Status> {
        let (metadata, _, mut chunks) = request.into_parts();
        let mut all = Vec::new();
        while let Some(chunk) = chunks.message().await? {
            all.push(chunk);
        }
        let mut request = Request::new(tokio_stream::iter(all));
        *request.metadata_mut() = metadata;
        Ok(Response::new(pass!(self, keep_recovery, request)))
    }

    type FetchRecoveryStream =
        tokio_stream::Iter<std::vec::IntoIter<Result<v1::RecoveryChunk, Status>>>;

    async fn fetch_recovery(
        &self,
        request: Request<v1::FetchRecoveryRequest>,
    ) -> Result<Response<Self::FetchRecoveryStream>, Status> {
        self.write_down("fetch_recovery", request.get_ref());
        let mut replies = pass!(self, fetch_recovery, request);
        let mut told = (v1::RecoveryStart::default(), Vec::new());
        while let Some(v1::RecoveryChunk { start, data }) = replies.message().await? {
            if let Some(start) = start {
                told.0 = start;
            }
            told.1.extend_from_slice(&data);
        }
        (self.lies.recovery)(&mut told);
        let (start, data) = told;
        let told = v1::RecoveryChunk {
            start: Some(start),
            data: data.into(),
        };
        Ok(Response::new(tokio_stream::iter(vec![Ok(told)])))
    }

    type ScrubStream = Streaming<v1::ScrubReply>;

    async fn scrub(
        &self,
        request: Request<v1::ScrubRequest>,
    ) -> Result<Response<Self::ScrubStream>, Status> {
        Ok(Response::new(pass!(self, scrub, request)))
    }
}

/// An owner with a dataset, a server that has it, and a runtime for liars.
struct Scene {
    owner: Home,
    server: Server,
    _operator: Home,
    runtime: tokio::runtime::Runtime,
    asked: Asked,
    /// The running liar.
    lying: Mutex<Option<tokio::task::JoinHandle<()>>>,
}

impl Scene {
    fn new() -> Self {
        let (owner, operator) = (Home::with_key(), Home::new());
        let server = operator.serve("");
        owner.talk_to(server.url());
        owner.write_fimi("rows.dat", &random_baskets(300, 6, 128));
        owner.json("encrypt rows.dat --max-len 3");
        Self {
            owner,
            server,
            _operator: operator,
            runtime: tokio::runtime::Runtime::new().unwrap(),
            asked: Asked::default(),
            lying: Mutex::default(),
        }
    }

    /// Connects the owner to this liar from now on; the previous one is stopped.
    fn lie(&self, lies: Lies) {
        let _context = self.runtime.enter();
        let server = MiningClient::new(endpoint(&self.server).connect_lazy())
            .max_decoding_message_size(1 << 28);
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        listener.set_nonblocking(true).unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let listener = tokio::net::TcpListener::from_std(listener).unwrap();
        let liar = Liar {
            server,
            lies,
            asked: Arc::clone(&self.asked),
        };
        let serving = tonic::transport::Server::builder()
            .add_service(MiningServer::new(liar).max_decoding_message_size(1 << 28))
            .serve_with_incoming(TcpListenerStream::new(listener));
        let lying = self.runtime.spawn(async { serving.await.unwrap() });
        if let Some(before) = self.lying.lock().unwrap().replace(lying) {
            before.abort();
        }
        self.owner.talk_to(&url);
    }

    /// The requests since the last call, but for those for the version.
    fn asked(&self) -> Vec<(&'static str, Vec<u8>)> {
        let mut asked = self.everything_asked();
        asked.retain(|(call, _)| *call != VERSION);
        asked
    }

    fn everything_asked(&self) -> Vec<(&'static str, Vec<u8>)> {
        std::mem::take(&mut self.asked.lock().unwrap())
    }

    /// Runs a command that must be refused with one sentence; it may write the owner's record.
    fn ends(&self, line: &str) -> String {
        self.owner.run(line).refusal()
    }

    /// Lets the owner ask again if a false answer was found.
    fn forgive(&self) {
        self.owner.json("trust reset rows.oboro");
    }
}

/// The moments among the replies.
fn moments(replies: &mut [Result<v1::CountReply, Status>]) -> Vec<&mut v1::Moments> {
    replies
        .iter_mut()
        .filter_map(|reply| match reply {
            Ok(v1::CountReply {
                reply: Some(Reply::Moments(moments)),
            }) => Some(moments),
            _ => None,
        })
        .collect()
}

/// Replaces the residues of a message by bytes of this value.
fn fill(moments: &mut v1::Moments, byte: u8) {
    moments.residues = vec![byte; moments.residues.len()].into();
}

#[test]
fn answers_that_cannot_be_are_refused() {
    let scene = Scene::new();
    scene.lie(truth());
    scene.owner.json("upload rows.oboro");
    let mine = "mine rows.oboro --min-support 1 --verify rows.dat --trust-server";
    scene.owner.json(mine);

    type Lie = (&'static str, fn(&mut Replies));
    let lies: &[Lie] = &[
        ("nothing", |replies| replies.clear()),
        ("no end", |replies| replies.truncate(replies.len() - 1)),
        ("an end only", |replies| {
            replies.drain(..replies.len() - 1);
        }),
        ("one part missing", |replies| {
            replies.drain(1..2);
        }),
        ("one part twice", |replies| {
            replies.insert(1, replies[1].clone());
        }),
        ("a range that is none", |replies| {
            moments(replies)[0].range = u64::MAX
        }),
        ("another range", |replies| moments(replies)[0].range += 1),
        ("moments that are none", |replies| {
            moments(replies)[0].first_moment = u64::MAX
        }),
        ("moments beyond any", |replies| {
            moments(replies)[0].moments = u64::MAX
        }),
        ("half of all numbers", |replies| {
            moments(replies)[0].moments = 1 << 63
        }),
        ("no moments", |replies| moments(replies)[0].moments = 0),
        ("other moments", |replies| {
            moments(replies)[0].first_moment += 1
        }),
        ("no residues", |replies| {
            moments(replies)[0].residues = Vec::new().into()
        }),
        ("a byte too few", |replies| {
            let part = &mut moments(replies)[0].residues;
            *part = part.slice(1..);
        }),
        ("a moment too many", |replies| {
            let moments = moments(replies).remove(0);
            let each = moments.residues.len() / moments.moments as usize;
            let part = &mut moments.residues;
            *part = [&part[..], &vec![0; each]].concat().into();
        }),
        ("residues of something else", |replies| {
            for part in moments(replies) {
                fill(part, 0xa5);
            }
        }),
        ("a count that is not what came", |replies| {
            if let Some(Ok(v1::CountReply {
                reply: Some(Reply::Done(done)),
            })) = replies.last_mut()
            {
                done.moments += 1;
            }
        }),
        ("much of what makes no sense", |replies| {
            for _ in 0..10 {
                replies.extend_from_within(..);
            }
            for part in moments(replies) {
                fill(part, 0xff);
            }
        }),
        ("an error at the end", |replies| {
            replies.pop();
            replies.push(Err(Status::new(Code::Internal, "out of\nluck\u{1b}[31m")));
        }),
        ("an error without words", |replies| {
            *replies = vec![Err(Status::new(Code::Unknown, ""))];
        }),
    ];
    for (what, count) in lies {
        scene.lie(about_moments(*count));
        for command in [
            "mine rows.oboro --min-support 1 --trust-server",
            "mine rows.oboro --min-support 1 --trust-server --threads 1",
        ] {
            let message = scene.ends(command);
            println!("{what}: {message}");
            // Impossible answers are false answers.
            scene.forgive();
        }
    }
    // A server that repeatedly answers nothing has not lied.
    scene.lie(about_moments(|replies| {
        for _ in 0..100 {
            replies.insert(1, Ok(v1::CountReply { reply: None }));
        }
    }));
    scene.owner.json(mine);
}

#[test]
fn a_servers_words_do_not_steer_the_terminal() {
    let scene = Scene::new();
    scene.lie(truth());
    scene.owner.json("upload rows.oboro");
    scene.lie(Lies {
        datasets: |datasets| datasets[0].name.push_str("\u{202e}slwo"),
        count: Arc::new(|replies| {
            let words = "out of\nluck\u{1b}[31m\u{9b}2J\u{202e}";
            *replies = vec![Err(Status::new(Code::Internal, words))];
        }),
        ..truth()
    });
    let mine = "mine rows.oboro --min-support 1 --trust-server";
    assert_eq!(
        scene.ends(mine),
        r"the server failed: out of\nluck\u{1b}[31m\u{9b}2J\u{202e}"
    );
    says(&scene.owner.done("datasets"), &[r"rows\u{202e}slwo  "]);
    let listed = scene.owner.json("datasets");
    assert_eq!(listed[0]["name"], "rows\u{202e}slwo");
}

/// All bytes of an answer of cells.
fn bytes(replies: &Cells) -> Vec<u8> {
    let told = replies.iter().flat_map(|reply| reply.as_ref().ok());
    told.flat_map(|reply| reply.data.to_vec()).collect()
}

/// An answer with these bytes.
fn answer(bytes: &[u8]) -> Cells {
    let reply = |data: &[u8]| {
        Ok(v1::FetchColumnsReply {
            data: data.to_vec().into(),
        })
    };
    bytes.chunks(1013).map(reply).collect()
}

/// The bytes of the sealed cells of a column in the only block of `rows.dat`: one bit per slot, and the seal.
const PART: usize = 4096 / 8 + 40;
/// The items of `rows.dat`.
const ITEMS: usize = 6;

const MINE: &str = "mine rows.oboro --min-support 1 --keep-cells 0 --answers cells";
const COUNT: &str = "count rows.oboro 0,1 2,3,4,5 --keep-cells 0";
const ALTERED: &str = "the server sent other cells than were encrypted";

#[test]
fn cells_that_were_not_sealed_end_the_run() {
    let scene = Scene::new();
    scene.lie(truth());
    scene.owner.json("upload rows.oboro");
    scene.asked();
    let asking = [MINE, &format!("{MINE} --threads 1"), COUNT].map(|command| {
        let told = scene.owner.json(command);
        assert_eq!(told["answers"], "verified");
        assert_eq!(told["received_bytes"], ITEMS * PART);
        let asked = scene.asked();
        assert_eq!(asked.len(), 1);
        assert_eq!(asked[0].0, "fetch_columns");
        (command.to_owned(), asked)
    });

    type Lie = (&'static str, fn(&mut Vec<u8>));
    let lies: &[Lie] = &[
        ("nothing", Vec::clear),
        ("the last byte missing", |cells| {
            cells.pop();
        }),
        ("a column missing", |cells| drop(cells.drain(..PART))),
        ("a byte more", |cells| cells.push(0)),
        ("all of it twice", |cells| cells.extend_from_within(..)),
        ("columns exchanged", |cells| cells.rotate_left(PART)),
        ("one column for another", |cells| {
            cells.copy_within(..PART, PART)
        }),
        ("the first bit altered", |cells| cells[0] ^= 1),
        ("a cell altered", |cells| cells[4 * PART + 100] ^= 1),
        ("the last bit altered", |cells| {
            *cells.last_mut().unwrap() ^= 0x80
        }),
        ("what makes no sense", |cells| cells.fill(0xa5)),
    ];
    for &(what, lie) in lies {
        scene.lie(about_cells(move |_, replies| {
            let mut cells = bytes(replies);
            lie(&mut cells);
            *replies = answer(&cells);
        }));
        for (command, honest) in &asking {
            let ended = scene.owner.run(&format!("{command} --json"));
            println!("{what}: {}", ended.stderr);
            assert!(ended.has_failed() && ended.stdout.is_empty(), "{ended:?}");
            says(
                &ended.stderr,
                &[ALTERED, "nothing is reported", "says so from now on"],
            );
            assert_eq!(&scene.asked(), honest, "{what}");
            scene.forgive();
        }
    }
    // Split differently they are the same.
    scene.lie(about_cells(|_, replies| {
        let all = bytes(replies);
        *replies = vec![Ok(v1::FetchColumnsReply::default())];
        replies.extend(answer(&all));
    }));
    scene.owner.json(&format!("{MINE} --verify rows.dat"));
}

#[test]
fn a_false_answer_is_remembered_until_the_owner_decides() {
    let scene = Scene::new();
    scene.lie(truth());
    scene.owner.json("upload rows.oboro");
    let mine = "mine rows.oboro --min-support 1";
    let shown = scene.owner.json("trust show rows.oboro");
    assert_eq!(
        (&shown["relied_on"], &shown["failure"]),
        (&Value::Null, &Value::Null)
    );
    scene.lie(about_cells(|_, replies| *replies = answer(&[0; PART])));
    says(&scene.ends(mine), &[ALTERED]);
    scene.asked();
    // Nothing is requested from then on, not even from an honest server, nor by moments, nor after an append.
    scene.lie(truth());
    for command in [mine, &format!("{mine} --trust-server")] {
        let message = scene.ends(command);
        says(
            &message,
            &["nothing was asked", ALTERED, "oboro trust reset"],
        );
    }
    assert_eq!(scene.asked(), []);
    scene.owner.json("encrypt rows.dat --append-to rows.oboro");
    scene.owner.json("upload rows.oboro");
    scene.asked();
    says(&scene.ends(mine), &["nothing was asked"]);
    assert_eq!(scene.asked(), []);
    let shown = scene.owner.json("trust show rows.oboro");
    says(shown["failure"]["what"].as_str().unwrap(), &[ALTERED]);
    says(
        shown["failure"]["time"].as_str().unwrap(),
        &["20", ":", "UTC"],
    );
    let text = scene.owner.done("trust reset rows.oboro");
    says(&text, &["from now on the server is asked again"]);
    assert_eq!(
        scene.owner.json("trust show rows.oboro")["failure"],
        Value::Null
    );
    // A false answer stays false, even if the connection breaks later.
    for ending in [Status::unavailable(""), Status::internal("out of luck")] {
        scene.lie(about_cells(move |_, replies| {
            *replies = answer(&vec![0; ITEMS * PART]);
            replies.push(Err(ending.clone()));
        }));
        says(&scene.ends(mine), &[ALTERED]);
        scene.forgive();
    }
    scene.lie(truth());
    // False answers are not cached.
    let mined = scene.owner.json(mine);
    assert_eq!(mined["new_columns"], ITEMS);
}

#[test]
fn trust_in_the_server_is_noted_before_it_is_asked_and_said_of_results() {
    let scene = Scene::new();
    scene.lie(truth());
    scene.owner.json("upload rows.oboro");
    scene.lie(about_moments(|replies| {
        *replies = vec![Err(Status::internal("out of luck"))];
    }));
    scene.ends("mine rows.oboro --min-support 1 --trust-server");
    let relied_on = &scene.owner.json("trust show rows.oboro")["relied_on"];
    assert_eq!(
        (&relied_on["version"], &relied_on["decided"]),
        (&json!(1), &json!(false))
    );
    scene.lie(truth());
    let mine = "mine rows.oboro --min-support 1 --trust-server --out found.json";
    let mined = scene.owner.json(mine);
    assert_eq!(
        (&mined["answers"], &mined["unverified"]),
        (&json!("unverified"), &json!(true))
    );
    says(&scene.owner.done(mine), &["UNVERIFIED"]);
    assert_eq!(scene.owner.json("rules found.json")["unverified"], true);
    says(&scene.owner.done("rules found.json"), &["UNVERIFIED"]);
    // An append warns about it.
    says(
        &scene.owner.done("encrypt rows.dat --append-to rows.oboro"),
        &["trusted before", "secrets of its own"],
    );
    scene.owner.json("upload rows.oboro");
    // The dataset can be mined with verification again once the owner has decided.
    says(
        &scene.owner.done("trust reset rows.oboro"),
        &[
            "may have learned",
            "version 1",
            "from now on the server is asked again",
        ],
    );
    let verified = scene
        .owner
        .done("mine rows.oboro --min-support 1 --out found.json");
    says(&verified, &["every answer of the server was verified"]);
    assert_eq!(scene.owner.json("rules found.json")["unverified"], false);
}

/// What is asked after unverified answers may be the server's choice, whichever command asks.
#[test]
fn after_unverified_answers_every_question_waits_for_a_decision() {
    let scene = Scene::new();
    let owner = &scene.owner;
    scene.lie(truth());
    owner.write(
        "named.csv",
        "id,a,b,c\nr1,1,1,0\nr2,1,1,0\nr3,0,1,1\nr4,1,1,1\n",
    );
    owner.json("encrypt named.csv --format csv-onehot --row-ids id --max-len 2");
    owner.json("upload named.oboro");
    // The cells of a and b are kept.
    let kept = [
        "mine named.oboro --min-support 3 --containing a --answers cells",
        "count named.oboro a,b c",
        "mine named.oboro --min-support 1 --max-len 1",
    ];
    let known = kept.map(|question| owner.json(question)["itemsets"].clone());
    owner.json("mine named.oboro --min-support 1 --trust-server");
    scene.everything_asked();
    let mut sentences = Vec::new();
    for question in [
        "mine named.oboro --min-support 1 --keep-cells 0",
        "mine named.oboro --min-support 1 --answers moments",
        "count named.oboro a,c --keep-cells 0",
        "pairs named.oboro --with a",
        "row-ids named.oboro",
    ] {
        let ended = owner.run(question);
        // Nobody lied.
        assert_eq!(ended.code, Some(3), "{question}: {ended:?}");
        sentences.push(ended.refusal());
    }
    sentences.dedup();
    assert_eq!(sentences.len(), 1, "{sentences:#?}");
    says(
        &sentences[0],
        &[
            "nothing was asked",
            "--trust-server",
            "oboro trust reset",
            "may have learned",
        ],
    );
    // Kept cells alone are no question, not even about the version.
    for (question, known) in kept.iter().zip(&known) {
        let answered = owner.json(question);
        assert_eq!(&answered["itemsets"], known, "{question}");
        let source = if answered["source"].is_null() {
            &answered
        } else {
            &answered["source"]
        };
        assert_eq!(
            (&source["answers"], &source["offline"]),
            (&json!("verified"), &json!(true))
        );
    }
    assert_eq!(scene.everything_asked(), []);
    // Trusting the server again is a decision of its own; rewriting is no question.
    owner.json("mine named.oboro --min-support 2 --trust-server");
    owner.json("erase named.oboro --row-id r3");
    owner.json("upload named.oboro");
    scene.everything_asked();
    owner.run("pairs named.oboro --with a").refusal();
    assert_eq!(scene.everything_asked(), []);
    let shown = owner.json("trust reset named.oboro");
    assert_eq!(
        (&shown["reset"], &shown["relied_on"]["decided"]),
        (&json!(true), &json!(true))
    );
    assert_eq!(owner.json("trust reset named.oboro")["reset"], false);
    owner.json("pairs named.oboro --with a");
    assert!(!scene.asked().is_empty());
}

/// The version that a server claims may end a run before its first question, and does nothing else.
#[test]
fn a_claimed_version_ends_a_run_before_its_first_question_or_changes_nothing() {
    let scene = Scene::new();
    scene.lie(truth());
    scene.owner.json("upload rows.oboro");
    scene.everything_asked();
    let commands = [
        MINE,
        COUNT,
        "pairs rows.oboro --with 0",
        "mine rows.oboro --min-support 1 --answers moments --keep-cells 0",
        "mine rows.oboro --min-support 1 --trust-server",
    ];
    let honest = commands.map(|command| {
        let told = scene.owner.json(command);
        scene.forgive();
        let asked = scene.everything_asked();
        assert_eq!(asked[0].0, VERSION, "{command}");
        assert!(
            asked[1..].iter().all(|(call, _)| *call != VERSION),
            "{command}"
        );
        (told["itemsets"].clone(), told["pairs"].clone(), asked)
    });
    let lies: [fn(&mut v1::DescribeDatasetReply); 6] = [
        |reply| reply.version += 1,
        |reply| reply.version = 0,
        |reply| reply.root = vec![7; 32].into(),
        |reply| reply.root = vec![7; 31].into(),
        |reply| reply.dataset = vec![7; 16].into(),
        |reply| *reply = v1::DescribeDatasetReply::default(),
    ];
    for described in lies {
        scene.lie(Lies {
            described,
            ..truth()
        });
        for (command, (.., asked)) in commands.iter().zip(&honest) {
            let ended = scene.owner.run(command);
            assert!(ended.has_failed(), "{ended:?}");
            assert_eq!(scene.everything_asked(), asked[..1], "{command}");
        }
        let trust = scene.owner.json("trust show rows.oboro");
        assert_eq!(trust["failure"], Value::Null);
    }
    // Any date is as good.
    for described in [
        |reply: &mut v1::DescribeDatasetReply| reply.published = i64::MIN,
        |reply: &mut v1::DescribeDatasetReply| reply.published = i64::MAX,
    ] {
        scene.lie(Lies {
            described,
            ..truth()
        });
        for (command, (itemsets, pairs, asked)) in commands.iter().zip(&honest) {
            let told = scene.owner.json(command);
            scene.forgive();
            assert_eq!((&told["itemsets"], &told["pairs"]), (itemsets, pairs));
            assert_eq!(&scene.everything_asked(), asked, "{command}");
        }
    }
}

#[test]
fn no_answer_has_another_call_made_instead() {
    let scene = Scene::new();
    scene.lie(truth());
    scene.owner.json("upload rows.oboro");
    scene.owner.json(MINE);
    let honest: Vec<_> = scene
        .asked()
        .into_iter()
        .filter(|(call, _)| *call == "fetch_columns")
        .collect();
    for code in 1..17 {
        scene.lie(about_cells(move |_, replies| {
            *replies = vec![Err(Status::new(Code::from(code), "out of luck"))];
        }));
        let message = scene.ends(MINE);
        println!("{code}: {message}");
        // What may be a broken connection is retried with the same bytes, three attempts in total.
        let is_broken = [Code::Unavailable, Code::Cancelled, Code::Unknown].contains(&code.into());
        let times = if is_broken { 3 } else { 1 };
        assert_eq!(scene.asked(), vec![honest[0].clone(); times], "{code}");
        // Errors reported by a server are not false answers.
        assert_eq!(
            scene.owner.json("trust show rows.oboro")["failure"],
            Value::Null
        );
    }
    // A server that says that it is busy sees the same bytes six times, however soon it wants to be asked again.
    scene.lie(about_cells(|_, replies| {
        let mut status = Status::resource_exhausted("out of luck");
        status.metadata_mut().insert(RETRY_AFTER_KEY, 1.into());
        *replies = vec![Err(status)];
    }));
    says(&scene.ends(MINE), &["the server refused", "out of luck"]);
    assert_eq!(scene.asked(), vec![honest[0].clone(); 6]);
    // Nor do limits affect what is requested.
    scene.lie(Lies {
        info: |_| Err(Status::internal("out of luck")),
        count: Arc::new(|replies| replies.clear()),
        ..truth()
    });
    scene.owner.json(&format!("{MINE} --verify rows.dat"));
    assert_eq!(scene.asked(), honest);
}

#[test]
fn cells_of_another_version_segment_column_or_dataset_are_refused() {
    let scene = Scene::new();
    let owner = &scene.owner;
    scene.lie(truth());
    owner.json("upload rows.oboro");
    owner.json("encrypt rows.dat --out other.oboro --max-len 3");
    owner.json("upload other.oboro");
    let heard: Arc<Mutex<Vec<Vec<u8>>>> = Arc::default();
    let listening = Arc::clone(&heard);
    scene.lie(about_cells(move |_, replies| {
        listening.lock().unwrap().push(bytes(replies));
    }));
    owner.json(MINE);
    owner.json("mine other.oboro --min-support 1 --keep-cells 0");
    owner.json("encrypt rows.dat --append-to rows.oboro --no-absorb");
    owner.json("upload rows.oboro");
    owner.json(MINE);
    let heard = std::mem::take(&mut *heard.lock().unwrap());
    let [first, other, both] = &heard[..] else {
        panic!("{}", heard.len());
    };
    assert_eq!(both.len(), 2 * first.len());
    assert_eq!(&both[..first.len()], first);
    let later = &both[first.len()..];
    for (what, cells) in [
        ("the version before", first.clone()),
        ("the version before, twice", [&first[..], first].concat()),
        ("segments exchanged", [later, first].concat()),
        ("another dataset's", [&other[..], later].concat()),
        ("another column in one segment", {
            let mut cells = both.clone();
            cells[first.len()..].rotate_left(PART);
            cells
        }),
    ] {
        scene.lie(about_cells(move |_, replies| *replies = answer(&cells)));
        let message = scene.ends(MINE);
        println!("{what}: {message}");
        says(&message, &[ALTERED]);
        scene.forgive();
    }
    scene.lie(truth());
    owner.json(MINE);
}

#[test]
fn row_ids_that_were_not_sealed_end_the_run() {
    let scene = Scene::new();
    let owner = &scene.owner;
    scene.lie(truth());
    owner.write("named.csv", "id,tea,milk\nanna,1,0\nbo,1,1\n");
    owner.json("encrypt named.csv --row-ids id --format csv-onehot --out rows.oboro.named");
    owner.json("upload rows.oboro.named --name named");
    let read = "row-ids rows.oboro.named --name named";
    let rows = owner.json(read);
    assert_eq!(rows["rows"].as_array().unwrap().len(), 2);
    scene.asked();
    for place in [0, PART, 30 * PART + 100, 64 * PART - 1] {
        scene.lie(about_cells(move |_, replies| {
            let mut cells = bytes(replies);
            cells[place] ^= 1;
            *replies = answer(&cells);
        }));
        says(&scene.ends(read), &[ALTERED]);
        assert_eq!(scene.asked().len(), 1);
        // Nothing is requested from then on.
        says(&scene.ends(read), &["nothing was asked"]);
        says(
            &scene.ends("mine rows.oboro.named --name named --min-support 1"),
            &["nothing was asked"],
        );
        assert_eq!(scene.asked(), []);
        owner.json("trust reset rows.oboro.named");
    }
    scene.lie(truth());
    assert_eq!(owner.json(read), rows);
}

/// The lies that read plaintext when a client requested moments whatever it was told (SECURITY.md, "A server that
/// lies"): about moments, and about columns so that moments are requested. None of them has an effect any more.
#[test]
fn lies_about_moments_reach_nobody_who_did_not_ask_for_them() {
    let scene = Scene::new();
    scene.lie(truth());
    scene.owner.json("upload rows.oboro");
    let honest = scene.owner.json(MINE);
    let questions = scene.asked();
    let forged: [fn(&mut Replies); 3] = [
        |replies| moments(replies).into_iter().for_each(|part| fill(part, 0)),
        |replies| {
            moments(replies)
                .into_iter()
                .for_each(|part| fill(part, 0x80))
        },
        |replies| replies.clear(),
    ];
    for count in forged {
        scene.lie(about_moments(count));
        let mined = scene.owner.json(MINE);
        assert_eq!(mined["itemsets"], honest["itemsets"]);
        let asked = scene.asked();
        assert!(asked.iter().all(|(call, _)| *call == "fetch_columns"));
        assert_eq!(asked.last(), questions.last());
    }
    for status in [Code::Unimplemented, Code::ResourceExhausted] {
        scene.lie(about_cells(move |_, replies| {
            *replies = vec![Err(Status::new(status, ""))];
        }));
        scene.ends(MINE);
        assert!(
            scene
                .asked()
                .iter()
                .all(|(call, _)| *call == "fetch_columns")
        );
    }
}

const SUMS: &str = "mine sums.oboro --min-support 1 --max-len 2 --answers moments";
const ALTERED_SUMS: &str =
    "the server sent other numbers than those of the ciphertext that was encrypted";
/// The bytes of a pair's sum modulo two limbs.
const SUM: usize = 7;
/// The pairs of `sums.dat`.
const PAIRS: usize = 10;

/// The range index of what [`Scene::with_sums`] appends.
const TOTAL: u64 = 1;
const SAMPLE: u64 = 2;

impl Scene {
    /// With a dataset on the server to which more transactions were appended than fit into t: the first range is
    /// followed by a total and its sample.
    fn with_sums() -> Self {
        let scene = Self::new();
        let owner = &scene.owner;
        let (few, many) = (random_baskets(300, 5, 128), random_baskets(45_000, 5, 128));
        owner.write_fimi("few.dat", &few);
        owner.write_fimi("many.dat", &many);
        owner.write_fimi("sums.dat", &[few, many].concat());
        for name in ["sums", "other"] {
            owner.json(&format!("encrypt few.dat --max-len 2 --out {name}.oboro"));
            owner.json(&format!("encrypt many.dat --append-to {name}.oboro"));
        }
        scene.lie(truth());
        owner.json("upload sums.oboro");
        scene.asked();
        scene
    }
}

/// The residues of a message.
fn residues(moments: &v1::Moments) -> Vec<u32> {
    let mut residues = vec![0; pack::unpacked_len(moments.residues.len())];
    pack::unpack(&moments.residues, &mut residues);
    residues
}

/// Sets the residues of a message.
fn say(moments: &mut v1::Moments, residues: &[u32]) {
    let mut bytes = vec![0; pack::packed_len(residues.len())];
    pack::pack(residues, &mut bytes);
    moments.residues = bytes.into();
}

/// Changes the sum of a pair modulo a limb by `by`, up or down, in the answer for a range.
fn change(replies: &mut Replies, range: u64, limb: usize, pair: usize, by: u32, up: bool) {
    let parameters = Parameters::new(12, 2, 40_961).unwrap();
    let q = parameters.limb_moduli()[limb];
    let all = moments(replies);
    let message = all.into_iter().find(|it| it.range == range).unwrap();
    let mut residues = residues(message);
    let sum = &mut residues[2 * pair + limb];
    *sum = if up { q.add(*sum, by) } else { q.sub(*sum, by) };
    say(message, &residues);
}

#[test]
fn sums_that_are_not_those_of_the_ciphertext_end_the_run() {
    let scene = Scene::with_sums();
    let owner = &scene.owner;
    let mined = owner.json(&format!("{SUMS} --verify sums.dat"));
    assert_eq!(
        (&mined["answers"], &mined["levels"][1]["route"]),
        (&json!("verified"), &json!("scalars"))
    );
    assert_eq!(mined["received_bytes"], 3 * SUM * PAIRS);
    let honest = scene.asked();
    assert_eq!(honest.len(), 1);
    assert_eq!(honest[0].0, "count");

    type Lie = (&'static str, fn(&mut Replies));
    let lies: &[Lie] = &[
        ("nothing", |replies| replies.clear()),
        ("an end only", |replies| {
            drop(replies.drain(..replies.len() - 1))
        }),
        ("no sample", |replies| {
            replies.retain(|it| {
                !matches!(it, Ok(v1::CountReply { reply: Some(Reply::Moments(it)) }) if it.range == SAMPLE)
            });
        }),
        ("one value of the total", |replies| {
            change(replies, TOTAL, 0, 3, 1, true)
        }),
        ("one value of the sample", |replies| {
            change(replies, SAMPLE, 1, 9, 1, false)
        }),
        ("by t in every limb", |replies| {
            change(replies, TOTAL, 0, 2, 40_961, true);
            change(replies, TOTAL, 1, 2, 40_961, true);
        }),
        ("pairs that cancel", |replies| {
            change(replies, 0, 0, 0, 4096, true);
            change(replies, 0, 0, 1, 4096, false);
        }),
        ("ranges that cancel", |replies| {
            for limb in 0..2 {
                change(replies, 0, limb, 4, 4096, true);
                change(replies, TOTAL, limb, 4, 4096, false);
            }
        }),
        ("pairs exchanged", |replies| {
            for message in moments(replies) {
                let mut all = residues(message);
                all.rotate_left(2);
                say(message, &all);
            }
        }),
        ("limbs exchanged", |replies| {
            for message in moments(replies) {
                let mut all = residues(message);
                all.chunks_exact_mut(2).for_each(|it| it.swap(0, 1));
                say(message, &all);
            }
        }),
        ("ranges exchanged", |replies| {
            for message in moments(replies) {
                message.range = [0, SAMPLE, TOTAL][message.range as usize];
            }
        }),
        ("the sample for the total", |replies| {
            let all = moments(replies);
            let sample = all
                .iter()
                .find(|it| it.range == SAMPLE)
                .unwrap()
                .residues
                .clone();
            let total = all.into_iter().find(|it| it.range == TOTAL);
            total.unwrap().residues = sample;
        }),
        ("a range that is none", |replies| {
            moments(replies)[0].range = u64::MAX
        }),
        ("pairs that are none", |replies| {
            moments(replies)[0].first_moment = u64::MAX
        }),
        ("pairs beyond any", |replies| {
            moments(replies)[0].moments = u64::MAX
        }),
        ("pairs further on", |replies| {
            moments(replies)[0].first_moment += 1
        }),
        ("a pair too few", |replies| {
            let message = moments(replies).remove(0);
            message.moments -= 1;
            message.residues = message.residues.slice(SUM..);
        }),
        ("a byte too few", |replies| {
            let message = moments(replies).remove(0);
            message.residues = message.residues.slice(1..);
        }),
        ("all of it twice", |replies| replies.extend_from_within(..)),
        ("zeros", |replies| {
            moments(replies).into_iter().for_each(|it| fill(it, 0))
        }),
        ("no residues", |replies| {
            moments(replies).into_iter().for_each(|it| fill(it, 0xff))
        }),
        ("polynomials, too", |replies| {
            replies.push(Ok(v1::CountReply::from(Reply::Moments(v1::Moments {
                first_moment: PAIRS as u64,
                moments: 1,
                range: 0,
                residues: vec![0; 2 * 4096 * 28 / 8].into(),
            }))));
        }),
    ];
    for (what, count) in lies {
        scene.lie(about_moments(*count));
        let message = scene.ends(SUMS);
        println!("{what}: {message}");
        says(&message, &[ALTERED_SUMS]);
        // The server saw the requests of an honest run, and nothing is requested from then on.
        assert_eq!(scene.asked(), honest, "{what}");
        says(&scene.ends(SUMS), &["nothing was asked"]);
        assert_eq!(scene.asked(), []);
        scene.owner.json("trust reset sums.oboro");
    }
    scene.lie(truth());
    owner.json(&format!("{SUMS} --verify sums.dat"));
}

/// Verification consumes nothing: a copy of the directory from before a lie, and two clients at once, detect lies as
/// well.
#[test]
fn tokens_serve_a_restored_copy_and_two_clients_at_once() {
    let scene = Scene::with_sums();
    let owner = &scene.owner;
    owner.copy("sums.oboro", "copy.oboro");
    let of_copy = SUMS.replace("sums.oboro", "copy.oboro --name sums");
    let both =
        |options: &str| [SUMS, &of_copy].map(|line| owner.start(&format!("{line} {options}")));
    for by in 1..4 {
        // The same lie to both, and again to a copy restored after it was detected.
        scene.lie(about_moments(move |replies| {
            change(replies, TOTAL, 0, 3, by, true)
        }));
        for process in both("") {
            says(&process.ended().refusal(), &[ALTERED_SUMS]);
        }
        owner.copy("sums.oboro", "other.oboro");
        std::fs::remove_dir_all(owner.path("copy.oboro")).unwrap();
        owner.json("trust reset other.oboro");
        owner.copy("other.oboro", "copy.oboro");
        says(&owner.run(&of_copy).refusal(), &[ALTERED_SUMS]);
        for name in ["sums", "copy"] {
            owner.json(&format!("trust reset {name}.oboro"));
        }
    }
    scene.lie(truth());
    let [one, other] = both("--json").map(|process| process.json());
    assert_eq!(one["itemsets"], other["itemsets"]);
    owner.json(&format!("{SUMS} --verify sums.dat"));
}

/// The pairs of one item with each other one: a row is verified like a prefix.
const ROW: &str = "pairs sums.oboro --with 3";

#[test]
fn rows_that_are_not_those_of_the_ciphertext_end_the_run() {
    let scene = Scene::with_sums();
    let owner = &scene.owner;
    let honest_result = owner.json(ROW);
    let honest = scene.asked();
    assert_eq!(honest.len(), 1);
    let heard: Arc<Mutex<Replies>> = Arc::default();
    let listening = Arc::clone(&heard);
    scene.lie(about_moments(move |replies| {
        listening.lock().unwrap().clone_from(replies);
    }));
    owner.json("pairs sums.oboro --with 2");
    scene.asked();
    let other = std::mem::take(&mut *heard.lock().unwrap());
    type Lie = (&'static str, Box<dyn Fn(&mut Replies) + Send + Sync>);
    let mut lies: Vec<Lie> = vec![
        (
            "another item's row",
            Box::new(move |replies| replies.clone_from(&other)),
        ),
        ("nothing", Box::new(|replies| replies.clear())),
        (
            "items exchanged",
            Box::new(|replies| {
                for message in moments(replies) {
                    let mut all = residues(message);
                    all.rotate_left(2);
                    say(message, &all);
                }
            }),
        ),
        (
            "ranges that cancel",
            Box::new(|replies| {
                change(replies, 0, 0, 1, 4096, true);
                change(replies, TOTAL, 0, 1, 4096, false);
            }),
        ),
        (
            "items that cancel",
            Box::new(|replies| {
                change(replies, TOTAL, 1, 0, 4096, true);
                change(replies, TOTAL, 1, 3, 4096, false);
            }),
        ),
    ];
    for entry in 0..4 {
        let lie = move |replies: &mut Replies| change(replies, SAMPLE, 0, entry, 1, true);
        lies.push(("one entry", Box::new(lie)));
    }
    for (what, lie) in lies {
        scene.lie(about_moments(lie));
        says(&scene.ends(ROW), &[ALTERED_SUMS]);
        assert_eq!(scene.asked(), honest, "{what}");
        says(&scene.ends(ROW), &["nothing was asked"]);
        owner.json("trust reset sums.oboro");
    }
    scene.lie(truth());
    let again = owner.json(ROW);
    assert_eq!(again["pairs"], honest_result["pairs"]);
}

/// Random answers about a row, as about sums.
#[test]
fn a_liar_about_rows_sees_the_honest_request_or_a_failed_run() {
    let scene = Scene::with_sums();
    let owner = &scene.owner;
    let honest_result = owner.json(ROW);
    let honest = scene.asked();
    let old: Arc<Mutex<Replies>> = Arc::default();
    for trial in 0..trials() {
        let old = Arc::clone(&old);
        let chance = Mutex::new(ChaCha20Rng::seed_from_u64(trial));
        scene.lie(about_moments(move |replies| {
            let rng = &mut *chance.lock().unwrap();
            random_sums(rng, 4, replies, &mut old.lock().unwrap());
        }));
        let ended = owner.run(&format!("{ROW} --json"));
        check_requests(&scene.asked(), &honest, &ended, trial);
        check_end(&scene, "sums", &ended, &honest_result, trial);
    }
}

/// Answers that were right for an earlier version, or for another dataset.
#[test]
fn sums_of_another_version_or_dataset_are_refused() {
    let scene = Scene::with_sums();
    let owner = &scene.owner;
    owner.json("upload other.oboro");
    let heard: Arc<Mutex<Vec<Replies>>> = Arc::default();
    let listening = Arc::clone(&heard);
    scene.lie(about_moments(move |replies| {
        listening.lock().unwrap().push(replies.clone());
    }));
    owner.json(SUMS);
    owner.json("mine other.oboro --min-support 1 --max-len 2 --answers moments");
    owner.write_fimi("more.dat", &random_baskets(300, 5, 128));
    for _ in 0..2 {
        // The first is a stratum of its own, the second is counted with it.
        owner.json("encrypt more.dat --append-to sums.oboro");
        owner.json("upload sums.oboro");
        owner.json(SUMS);
    }
    let heard = std::mem::take(&mut *heard.lock().unwrap());
    let [first, other, once, twice] = &heard[..] else {
        panic!("{}", heard.len());
    };
    let mut dropped = twice.clone();
    let of_once = moments(&mut once.clone())
        .into_iter()
        .find(|it| it.range == 3)
        .unwrap()
        .residues
        .clone();
    let last = moments(&mut dropped)
        .into_iter()
        .find(|it| it.range == 3)
        .unwrap();
    last.residues = of_once;
    for (what, replies) in [
        ("the first version", first),
        ("another dataset's", other),
        ("the version before", once),
        ("an append that is held back", &dropped),
    ] {
        let replies = replies.clone();
        scene.lie(about_moments(move |answer| answer.clone_from(&replies)));
        let message = scene.ends(SUMS);
        println!("{what}: {message}");
        says(&message, &[ALTERED_SUMS]);
        owner.json("trust reset sums.oboro");
    }
    scene.lie(truth());
    let more = random_baskets(300, 5, 128);
    let all = [&more[..], &random_baskets(45_000, 5, 128), &more, &more].concat();
    owner.write_fimi("all.dat", &all);
    owner.json(&format!("{SUMS} --verify all.dat"));
}

/// Answers that were right before the owner rewrote what they are about: each has the length of the right one.
#[test]
fn answers_about_what_was_rewritten_are_refused() {
    let scene = Scene::new();
    let owner = &scene.owner;
    let rows = |range: std::ops::Range<u32>| -> String {
        let line = |id: u32| format!("{id},{},{},{}\n", id % 2, id % 3 % 2, 1);
        "id,a,b,c\n".to_owned() + &range.map(line).collect::<String>()
    };
    owner.write("table.csv", rows(0..40));
    owner.json("encrypt table.csv --row-ids id --out table.oboro");
    scene.lie(truth());
    owner.json("upload table.oboro");
    let mine = |how: &str| format!("mine table.oboro --min-support 1 --keep-cells 0 {how}");
    let ways = [
        mine("--answers cells"),
        mine("--max-len 2 --answers moments"),
        mine("--max-len 3 --answers moments"),
        "row-ids table.oboro".to_owned(),
    ];
    let heard: Arc<Mutex<(Vec<Cells>, Vec<Replies>)>> = Arc::default();
    let mut kept: Vec<(Vec<Cells>, Vec<Replies>)> = vec![Default::default(); ways.len()];
    owner.done("keygen --key new.key");
    for (change, key) in [
        ("erase table.oboro --row-id 7", "oboro.key"),
        ("erase table.oboro --row-id 8", "oboro.key"),
        ("compact table.oboro --all", "oboro.key"),
        ("rotate table.oboro --new-key new.key", "new.key"),
    ] {
        for (way, kept) in ways.iter().zip(&mut kept) {
            let [of_cells, of_moments] = [(); 2].map(|()| Arc::clone(&heard));
            scene.lie(Lies {
                columns: Arc::new(move |_, replies| {
                    of_cells.lock().unwrap().0.push(replies.clone())
                }),
                count: Arc::new(move |replies| of_moments.lock().unwrap().1.push(replies.clone())),
                ..truth()
            });
            owner.json(way);
            let (cells, moments) = std::mem::take(&mut *heard.lock().unwrap());
            kept.0.extend(cells);
            kept.1.extend(moments);
        }
        scene.lie(truth());
        owner.json(change);
        owner.json("upload table.oboro");
        owner.set("OBORO_KEY", key);
        for (way, (cells, moments)) in ways.iter().zip(&kept) {
            for at in 0..cells.len().max(moments.len()) {
                let (cells, moments) = (cells.get(at).cloned(), moments.get(at).cloned());
                scene.lie(Lies {
                    columns: Arc::new(move |_, replies| {
                        cells.iter().for_each(|it| replies.clone_from(it));
                    }),
                    count: Arc::new(move |replies| {
                        moments.iter().for_each(|it| replies.clone_from(it));
                    }),
                    ..truth()
                });
                let message = scene.ends(way);
                println!("{change}, {way}, answer {at}: {message}");
                let is_found = [ALTERED, ALTERED_SUMS]
                    .iter()
                    .any(|it| message.contains(it));
                assert!(is_found, "{message}");
                owner.json("trust reset table.oboro");
            }
        }
    }
    scene.lie(truth());
    owner.json(&ways[0]);
}

/// Random answers about sums, as about cells.
#[test]
fn a_liar_about_sums_sees_the_honest_request_or_a_failed_run() {
    let scene = Scene::with_sums();
    let owner = &scene.owner;
    let honest_result = owner.json(SUMS);
    let honest = scene.asked();
    let old: Arc<Mutex<Replies>> = Arc::default();
    for trial in 0..trials() {
        let old = Arc::clone(&old);
        let chance = Mutex::new(ChaCha20Rng::seed_from_u64(trial));
        scene.lie(about_moments(move |replies| {
            let rng = &mut *chance.lock().unwrap();
            random_sums(rng, PAIRS, replies, &mut old.lock().unwrap());
        }));
        let ended = owner.run(&format!("{SUMS} --json"));
        let asked = scene.asked();
        check_requests(&asked, &honest, &ended, trial);
        check_end(&scene, "sums", &ended, &honest_result, trial);
    }
}

/// Randomly alters an honest answer about `pairs` pairs.
fn random_sums(rng: &mut ChaCha20Rng, pairs: usize, replies: &mut Replies, old: &mut Replies) {
    let truth = replies.clone();
    match rng.random_range(0..10) {
        0 => {
            for message in moments(replies) {
                let mut bytes = vec![0; message.residues.len()];
                rng.fill_bytes(&mut bytes);
                message.residues = bytes.into();
            }
        }
        1 => {
            for _ in 0..rng.random_range(1..5) {
                let (range, limb) = (rng.random_range(0..3), rng.random_range(0..2));
                let (pair, by) = (rng.random_range(0..pairs), rng.random_range(1..1 << 27));
                change(replies, range, limb, pair, by, rng.random());
            }
        }
        2 => {
            // The same change in both limbs, with the opposite one for another pair.
            let (range, by) = (rng.random_range(0..3), rng.random_range(1..1 << 27));
            let (from, to) = (rng.random_range(0..pairs), rng.random_range(0..pairs));
            for limb in 0..2 {
                change(replies, range, limb, from, by, false);
                change(replies, range, limb, to, by, true);
            }
        }
        3 => {
            for message in moments(replies) {
                let mut all = residues(message);
                all.shuffle(rng);
                say(message, &all);
            }
        }
        4 => {
            let message = rng.random_range(0..replies.len());
            drop(replies.remove(message));
        }
        5 => {
            let message = rng.random_range(0..replies.len());
            replies.insert(rng.random_range(0..replies.len()), replies[message].clone());
        }
        6 if !old.is_empty() => replies.clone_from(old),
        7 => {
            let code = Code::from(rng.random_range(0..17));
            replies.truncate(rng.random_range(0..=replies.len()));
            replies.push(Err(Status::new(code, "out of luck")));
            return;
        }
        8 => std::thread::sleep(Duration::from_millis(rng.random_range(0..60))),
        _ => {}
    }
    // Occasionally the right one.
    *old = if rng.random() { replies.clone() } else { truth };
}

const LONGER: &str = "mine longer.oboro --min-support 1 --max-len 4 --answers moments";

/// The number of moments that [`LONGER`] requests at each length: of 5 items the pairs, then the moments of all triples
/// and of all quadruples.
const MOMENTS: [(usize, u64); 3] = [(2, 10), (3, 26), (4, 31)];

impl Scene {
    /// With a dataset on the server for itemsets of four: ranges as in [`Scene::with_sums`].
    fn with_moments() -> Self {
        let scene = Self::with_sums();
        let owner = &scene.owner;
        owner.json("encrypt few.dat --max-len 4 --out longer.oboro");
        owner.json("encrypt many.dat --append-to longer.oboro");
        owner.json("upload longer.oboro");
        scene.asked();
        scene
    }
}

/// The itemset length of an answer, by its number of moments.
fn length(replies: &mut Replies) -> usize {
    let ends = moments(replies)
        .into_iter()
        .map(|it| it.first_moment + it.moments);
    let count = ends.max().unwrap_or(0);
    let found = MOMENTS.iter().find(|it| it.1 == count);
    found.map_or(0, |it| it.0)
}

/// The position of a residue in an answer about itemsets of some length: range, moment, limb and slot.
type At = (u64, u64, usize, usize);

/// Changes a residue by `by`, up or down; with `None` to another representative, which fits only for small limbs.
fn alter(replies: &mut Replies, (range, moment, limb, slot): At, by: Option<u32>, up: bool) {
    let limbs = length(replies);
    let q = Parameters::new(12, 4, 40_961).unwrap().limb_moduli()[limb];
    let has = |it: &&mut v1::Moments| {
        it.range == range && (it.first_moment..it.first_moment + it.moments).contains(&moment)
    };
    let message = moments(replies).into_iter().find(has).unwrap();
    let mut all = residues(message);
    let each = all.len() / message.moments as usize;
    let of_limb = if each > 4 { each / limbs } else { 1 };
    let at = (moment - message.first_moment) as usize * each + limb * of_limb + slot % of_limb;
    all[at] = match (by, up) {
        (None, _) => all[at] + q.value(),
        (Some(by), true) => q.add(all[at], q.reduce(by.into())),
        (Some(by), false) => q.sub(all[at], q.reduce(by.into())),
    };
    say(message, &all);
}

/// Lies about triples and quadruples: their sums are 10 or 5 scalars, the other moments polynomials.
#[test]
fn moments_that_are_not_those_of_the_ciphertext_end_the_run() {
    let scene = Scene::with_moments();
    let owner = &scene.owner;
    let heard: Arc<Mutex<Vec<Replies>>> = Arc::default();
    let listening = Arc::clone(&heard);
    scene.lie(about_moments(move |replies| {
        listening.lock().unwrap().push(replies.clone());
    }));
    let mined = owner.json(&format!("{LONGER} --verify sums.dat"));
    assert_eq!(mined["answers"], "verified");
    let routes = mined["levels"]
        .as_array()
        .unwrap()
        .iter()
        .map(|it| it["route"].clone());
    let routes: Vec<Value> = routes.collect();
    assert_eq!(
        routes,
        [
            Value::Null,
            json!("scalars"),
            json!("prefix"),
            json!("prefix")
        ]
    );
    let honest = scene.asked();
    assert_eq!(honest.len(), 3);
    assert!(honest.iter().all(|it| it.0 == "count"));
    let mut heard = std::mem::take(&mut *heard.lock().unwrap());
    let lengths: Vec<usize> = heard.iter_mut().map(length).collect();
    assert_eq!(lengths, [2, 3, 4]);

    type Lie = (&'static str, fn(&mut Replies, u64));
    // The number of scalars of a length, which is the index of the first polynomial.
    let lies: &[Lie] = &[
        ("one single sum", |it, _| {
            alter(it, (0, 0, 0, 0), Some(1), true)
        }),
        ("one slot", |it, first| {
            alter(it, (TOTAL, first, 2, 77), Some(1), true)
        }),
        ("one slot of the last moment", |it, _| {
            let last = moments(it)
                .into_iter()
                .map(|it| it.first_moment + it.moments - 1)
                .max();
            alter(it, (SAMPLE, last.unwrap(), 1, 4095), Some(40_961), false);
        }),
        ("slots that cancel", |it, first| {
            alter(it, (0, first, 0, 0), Some(9), true);
            alter(it, (0, first, 0, 1), Some(9), false);
        }),
        ("single sums that cancel", |it, _| {
            alter(it, (0, 0, 2, 0), Some(9), true);
            alter(it, (0, 1, 2, 0), Some(9), false);
        }),
        ("a single sum against a slot", |it, first| {
            alter(it, (0, 0, 0, 0), Some(9), true);
            alter(it, (0, first, 0, 0), Some(9), false);
        }),
        ("ranges that cancel", |it, first| {
            alter(it, (0, first, 1, 5), Some(7), true);
            alter(it, (TOTAL, first, 1, 5), Some(7), false);
        }),
        ("moments that cancel", |it, first| {
            alter(it, (0, first, 1, 5), Some(7), true);
            alter(it, (0, first + 1, 1, 5), Some(7), false);
        }),
        ("ranges exchanged", |it, _| {
            for message in moments(it) {
                message.range = [0, SAMPLE, TOTAL][message.range as usize];
            }
        }),
        ("slots shifted", |it, first| {
            for message in moments(it)
                .into_iter()
                .filter(|it| it.first_moment >= first)
            {
                let mut all = residues(message);
                all.rotate_left(1);
                say(message, &all);
            }
        }),
        ("nothing", |it, _| it.clear()),
        ("no polynomials", |it, first| {
            it.retain(|it| !matches!(it, Ok(v1::CountReply { reply: Some(Reply::Moments(it)) }) if it.first_moment >= first));
        }),
        ("all of it twice", |it, _| it.extend_from_within(..)),
        ("zeros", |it, _| {
            moments(it).into_iter().for_each(|it| fill(it, 0))
        }),
        ("no residues", |it, _| {
            moments(it).into_iter().for_each(|it| fill(it, 0xff))
        }),
    ];
    let refused = |what: &str, at: usize| {
        let message = scene.ends(LONGER);
        println!("{what}, length {at}: {message}");
        says(&message, &[ALTERED_SUMS]);
        // The server saw the requests of an honest run up to there, and nothing is requested from then on.
        assert_eq!(scene.asked(), honest[..at - 1], "{what}");
        says(&scene.ends(LONGER), &["nothing was asked"]);
        assert_eq!(scene.asked(), []);
        owner.json("trust reset longer.oboro");
    };
    for (at, first) in [(3, 10), (4, 5)] {
        for &(what, lie) in lies {
            scene.lie(about_moments(move |replies| {
                if length(replies) == at {
                    lie(replies, first);
                }
            }));
            refused(what, at);
        }
        // The other length's answer, and that of the fourth limb with another representative.
        let other = heard[5 - at].clone();
        scene.lie(about_moments(move |replies| {
            if length(replies) == at {
                replies.clone_from(&other);
            }
        }));
        refused("another length", at);
    }
    scene.lie(about_moments(|replies| {
        if length(replies) == 4 {
            alter(replies, (0, 7, 3, 2), None, true);
        }
    }));
    refused("another representative", 4);
    scene.lie(truth());
    owner.json(&format!("{LONGER} --verify sums.dat"));
}

/// Random answers about any length.
#[test]
fn a_liar_about_moments_sees_honest_requests_or_a_failed_run() {
    let scene = Scene::with_moments();
    let owner = &scene.owner;
    let honest_result = owner.json(LONGER);
    let honest = scene.asked();
    let old: Arc<Mutex<Replies>> = Arc::default();
    for trial in 0..trials() {
        let old = Arc::clone(&old);
        let chance = Mutex::new(ChaCha20Rng::seed_from_u64(trial));
        scene.lie(about_moments(move |replies| {
            let rng = &mut *chance.lock().unwrap();
            random_moments(rng, replies, &mut old.lock().unwrap());
        }));
        let ended = owner.run(&format!("{LONGER} --json"));
        check_requests(&scene.asked(), &honest, &ended, trial);
        check_end(&scene, "longer", &ended, &honest_result, trial);
    }
}

/// Randomly alters an honest answer, one time in three.
fn random_moments(rng: &mut ChaCha20Rng, replies: &mut Replies, old: &mut Replies) {
    let truth = replies.clone();
    let length = length(replies);
    let Some(&(limbs, count)) = MOMENTS.iter().find(|it| it.0 == length) else {
        return;
    };
    let limb = |rng: &mut ChaCha20Rng| rng.random_range(0..limbs);
    let at = |rng: &mut ChaCha20Rng| -> At {
        let range = rng.random_range(0..3);
        (
            range,
            rng.random_range(0..count),
            limb(rng),
            rng.random_range(0..4096),
        )
    };
    match rng.random_range(0..18) {
        0 => {
            for message in moments(replies) {
                let mut bytes = vec![0; message.residues.len()];
                rng.fill_bytes(&mut bytes);
                message.residues = bytes.into();
            }
        }
        1 => {
            for _ in 0..rng.random_range(1..5) {
                let (at, by) = (at(rng), rng.random_range(1..1 << 26));
                alter(replies, at, Some(by), rng.random());
            }
        }
        2 => {
            // The same change with opposite signs in two residues of any kind.
            let (from, to, by) = (at(rng), at(rng), rng.random_range(1..1 << 26));
            alter(replies, from, Some(by), true);
            alter(replies, to, Some(by), false);
        }
        3 => {
            let mut all = moments(replies);
            let message = rng.random_range(0..all.len());
            let mut residues = residues(all[message]);
            residues.shuffle(rng);
            say(all[message], &residues);
        }
        4 => {
            let message = rng.random_range(0..replies.len());
            replies.insert(rng.random_range(0..replies.len()), replies[message].clone());
        }
        5 if !old.is_empty() => replies.clone_from(old),
        _ => {}
    }
    // Occasionally the right one.
    *old = if rng.random() { replies.clone() } else { truth };
}

/// Either the honest result, or an error, which says whether the answer was false.
fn check_end(scene: &Scene, name: &str, ended: &Ended, honest: &Value, trial: u64) {
    if ended.code == Some(0) {
        let mined: Value = serde_json::from_str(&ended.stdout).unwrap();
        for found in ["itemsets", "pairs"] {
            assert_eq!(mined[found], honest[found], "trial {trial}");
        }
        return;
    }
    assert!(ended.has_failed(), "trial {trial}: {ended:?}");
    if ended.stderr.contains(ALTERED_SUMS) {
        assert_eq!(ended.code, Some(9), "trial {trial}");
    }
    assert_eq!(ended.stdout, "", "trial {trial}");
    let shown = scene.owner.json(&format!("trust show {name}.oboro"));
    assert_eq!(
        shown["failure"].is_null(),
        !ended.stderr.contains(ALTERED_SUMS)
    );
    scene.owner.json(&format!("trust reset {name}.oboro"));
}

/// The number of random answers: OBORO_TRIALS, or a hundredth of the number in `make nightly`.
fn trials() -> u64 {
    let given = std::env::var("OBORO_TRIALS").ok();
    given.map_or(100, |given| given.parse().unwrap())
}

/// For random answers, the server sees the requests of the honest run, some of them repeated if it reports a broken
/// connection, and the owner gets the honest result or an error.
#[test]
fn a_liar_sees_the_honest_requests_or_a_failed_run() {
    let scene = Scene::new();
    let owner = &scene.owner;
    scene.lie(truth());
    owner.json("encrypt rows.dat --append-to rows.oboro");
    owner.json("upload rows.oboro");
    scene.asked();
    let honest_result = owner.json(MINE);
    let honest = scene.asked();
    let old: Arc<Mutex<Vec<u8>>> = Arc::default();
    for trial in 0..trials() {
        let old = Arc::clone(&old);
        let chance = Mutex::new(ChaCha20Rng::seed_from_u64(trial));
        scene.lie(about_cells(move |_, replies| {
            let rng = &mut *chance.lock().unwrap();
            *replies = random_answer(rng, replies, &mut old.lock().unwrap());
        }));
        let ended = owner.run(&format!("{MINE} --json"));
        let asked = scene.asked();
        check_requests(&asked, &honest, &ended, trial);
        if ended.code == Some(0) {
            let mined: serde_json::Value = serde_json::from_str(&ended.stdout).unwrap();
            assert_eq!(
                mined["itemsets"], honest_result["itemsets"],
                "trial {trial}"
            );
            let mut once = asked;
            once.dedup();
            assert_eq!(once, honest, "trial {trial}");
        } else {
            assert!(ended.has_failed(), "trial {trial}: {ended:?}");
            assert_eq!(ended.stdout, "", "trial {trial}");
            let shown = owner.json("trust show rows.oboro");
            assert_eq!(shown["failure"].is_null(), !ended.stderr.contains(ALTERED));
            scene.forgive();
        }
    }
}

/// Each request is the next one of the honest run, or a retry of the previous one; at most three attempts.
fn check_requests(
    asked: &[(&'static str, Vec<u8>)],
    honest: &[(&'static str, Vec<u8>)],
    ended: &Ended,
    trial: u64,
) {
    for (place, run) in asked.chunk_by(|a, b| a == b).enumerate() {
        assert_eq!(
            Some(&run[0]),
            honest.get(place),
            "trial {trial}: {}",
            ended.stderr
        );
        assert!(run.len() <= 3, "trial {trial}: {}", ended.stderr);
    }
}

/// Randomly alters an honest answer.
fn random_answer(rng: &mut ChaCha20Rng, honest: &Cells, old: &mut Vec<u8>) -> Cells {
    let truth = bytes(honest);
    let mut cells = truth.clone();
    let parts = cells.len() / PART;
    let part = |rng: &mut ChaCha20Rng| rng.random_range(0..parts) * PART;
    match rng.random_range(0..12) {
        0 => rng.fill_bytes(&mut cells),
        1 => {
            let at = part(rng);
            rng.fill_bytes(&mut cells[at..at + PART]);
        }
        2 => {
            for _ in 0..rng.random_range(1..9) {
                let bit = rng.random_range(0..8 * cells.len());
                cells[bit / 8] ^= 1 << (bit % 8);
            }
        }
        3 => {
            let (from, to) = (part(rng), part(rng));
            cells.copy_within(from..from + PART, to);
        }
        4 => cells.truncate(rng.random_range(0..cells.len())),
        5 => cells.extend_from_slice(&truth[..rng.random_range(1..truth.len())]),
        6 => cells.rotate_left(rng.random_range(0..truth.len())),
        // A replay of an earlier answer.
        7 if !old.is_empty() => cells.clone_from(old),
        8 => {
            let code = Code::from(rng.random_range(0..17));
            let mut replies = answer(&cells);
            replies.truncate(rng.random_range(0..=replies.len()));
            replies.push(Err(Status::new(code, "out of luck")));
            return replies;
        }
        9 => std::thread::sleep(Duration::from_millis(rng.random_range(0..60))),
        _ => {}
    }
    *old = cells.clone();
    answer(&cells)
}

#[test]
fn uploads_that_cannot_be_are_refused() {
    let scene = Scene::new();
    type Lie = (&'static str, fn(&mut v1::UploadStatus));
    let lies: &[Lie] = &[
        ("segments that are none", |status| {
            status.segments[0].index = 7
        }),
        ("segments beyond any", |status| {
            status.segments[0].index = u32::MAX
        }),
        ("more than all bytes", |status| {
            status.segments[0].bytes_received = u64::MAX
        }),
        ("more than all bytes twice", |status| {
            status.segments[0].bytes_received = u64::MAX;
            status.segments.push(status.segments[0]);
        }),
        ("the last byte only", |status| {
            status.segments[0].bytes_received = status.segments[0].bytes_total - 1;
        }),
        ("everything is there", |status| {
            status.segments[0].complete = true
        }),
        ("it is published", |status| status.published = true),
        ("no segments", |status| status.segments.clear()),
        ("another dataset", |status| {
            status.dataset = vec![1; 16].into()
        }),
        ("no dataset", |status| status.dataset = Vec::new().into()),
    ];
    for (what, status) in lies {
        scene.lie(Lies {
            status: *status,
            ..truth()
        });
        let message = scene.owner.refused("upload rows.oboro");
        println!("{what}: {message}");
    }
    scene.owner.talk_to(scene.server.url());
    assert_eq!(scene.owner.json("datasets"), serde_json::json!([]));

    scene.lie(Lies {
        published: |published| published.root = vec![1; 32].into(),
        ..truth()
    });
    let message = scene.owner.refused("upload rows.oboro");
    says(
        &message,
        &[
            "the server published root 0101",
            "delete the dataset and upload again",
        ],
    );
    scene.lie(Lies {
        published: |published| published.root = vec![1; 31].into(),
        ..truth()
    });
    let message = scene.owner.refused("upload rows.oboro");
    says(&message, &["malformed message", "another version of Oboro"]);
}

#[test]
fn listings_that_cannot_be_are_refused() {
    let scene = Scene::new();
    scene.owner.json("upload rows.oboro");
    let lies: [fn(&mut Vec<v1::DatasetInfo>); 5] = [
        |datasets| datasets[0].log_degree = u32::MAX,
        |datasets| datasets[0].limbs = u32::MAX,
        |datasets| datasets[0].max_len = u32::MAX,
        |datasets| datasets[0].dataset = vec![0; 17].into(),
        |datasets| datasets[0].root = Vec::new().into(),
    ];
    for datasets in lies {
        scene.lie(Lies {
            datasets,
            ..truth()
        });
        let message = scene.owner.refused("datasets");
        says(&message, &["malformed message"]);
    }
}

#[test]
fn a_record_that_was_not_kept_recovers_nothing_and_nothing_is_asked_after_it() {
    let scene = Scene::new();
    let owner = &scene.owner;
    owner.set("OBORO_RECOVERY_PASSPHRASE", "open sesame");
    let kept: Arc<Mutex<Vec<Kept>>> = Arc::default();
    let keep = Arc::clone(&kept);
    scene.lie(Lies {
        recovery: Arc::new(move |it| keep.lock().unwrap().push(it.clone())),
        ..truth()
    });
    let recover = "recover rows --out again.oboro";
    owner.write_fimi("more.dat", &random_baskets(100, 6, 129));
    for upload in ["rows", "other", "rows"] {
        if !owner.path("other.oboro").exists() {
            owner.json("encrypt more.dat --out other.oboro");
        }
        owner.json(&format!("upload {upload}.oboro --keep-record"));
        owner.json(&format!("recover {upload} --out {upload}.again"));
        std::fs::remove_dir_all(owner.path(&format!("{upload}.again"))).unwrap();
        if kept.lock().unwrap().len() == 2 {
            owner.json("encrypt more.dat --append-to rows.oboro");
        }
    }
    let [old, other, new] = &kept.lock().unwrap()[..] else {
        panic!("three were kept")
    };
    scene.asked();
    let tell = |told: &Kept| {
        let told = told.clone();
        scene.lie(Lies {
            recovery: Arc::new(move |it| *it = told.clone()),
            ..truth()
        });
    };
    let redigested = |mut copy: Vec<u8>, at: usize| {
        copy[at] ^= 1;
        let body = copy.len() - 32;
        let digest = oboro_format::Digest::of(&copy[..body]);
        copy[body..].copy_from_slice(&digest.0);
        copy
    };
    let (start, copy) = new;
    let body = copy.len() - 32;
    // Every field of the head and of the seal, and its ends; then the digest alone.
    let bits = [
        12,
        28,
        36,
        67,
        72,
        79,
        80,
        95,
        96,
        119,
        120,
        body - 17,
        body - 1,
    ];
    let mut lies: Vec<_> = bits
        .iter()
        .map(|&at| (start.clone(), redigested(copy.clone(), at)))
        .collect();
    let mut altered = copy.clone();
    altered[body] ^= 1;
    lies.extend([
        (start.clone(), altered),
        (start.clone(), copy[..body].to_vec()),
        (start.clone(), [&copy[..], &[0; 4096]].concat()),
        (start.clone(), Vec::new()),
        (start.clone(), vec![0; (64 << 20) + 4096]),
        // What is said to be published and what was kept differ; or another dataset is in its place.
        (start.clone(), old.1.clone()),
        (old.0.clone(), copy.clone()),
        (v1::RecoveryStart::default(), copy.clone()),
        other.clone(),
    ]);
    for (number, lie) in lies.iter().enumerate() {
        tell(lie);
        let ended = owner.run(recover);
        assert!(ended.has_failed(), "lie {number}: {ended:?}");
        assert!(!owner.path("again.oboro").exists(), "lie {number}");
        let asked = scene.asked();
        let honest = v1::FetchRecoveryRequest {
            name: "rows".to_owned(),
        };
        let honest = ("fetch_recovery", honest.encode_to_vec());
        assert_eq!(asked, [honest], "lie {number}");
    }
    // Both old: noticed by who noted the root.
    tell(old);
    let root = oboro_format::Digest(start.root.to_vec().try_into().unwrap());
    let refused = owner.refused(&format!("{recover} --root {root}"));
    says(&refused, &["you noted root", "went back"]);
    assert_eq!(owner.json(recover)["version"], 1);
}
