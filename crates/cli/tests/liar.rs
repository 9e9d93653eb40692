//! A server that does not keep to the protocol is found out: an error, never a panic, a hang or a
//! wrong support that the protocol rules out.
//!
//! The liar stands between the real client and a real server and alters the answers.

mod common;

use common::plaintext::random_baskets;
use common::{Home, Server, says};
use oboro_protocol::v1;
use oboro_protocol::v1::count_reply::Reply;
use oboro_protocol::v1::mining_client::MiningClient;
use oboro_protocol::v1::mining_server::{Mining, MiningServer};
use tokio_stream::wrappers::TcpListenerStream;
use tonic::transport::Channel;
use tonic::{Code, Request, Response, Status, Streaming};

/// What the liar does to the answers that pass it.
#[derive(Clone, Copy)]
struct Lies {
    info: fn(v1::ServerInfoReply) -> Result<v1::ServerInfoReply, Status>,
    status: fn(&mut v1::UploadStatus),
    published: fn(&mut v1::Published),
    datasets: fn(&mut Vec<v1::DatasetInfo>),
    count: fn(&mut Vec<Result<v1::CountReply, Status>>),
    columns: fn(&mut Vec<Result<v1::FetchColumnsReply, Status>>),
}

const TRUTH: Lies = Lies {
    info: Ok,
    status: |_| {},
    published: |_| {},
    datasets: |_| {},
    count: |_| {},
    columns: |_| {},
};

struct Liar {
    server: MiningClient<Channel>,
    lies: Lies,
}

/// Passes a call on with everything that came with it.
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

    async fn delete_dataset(
        &self,
        request: Request<v1::DeleteDatasetRequest>,
    ) -> Result<Response<v1::DeleteDatasetReply>, Status> {
        Ok(Response::new(pass!(self, delete_dataset, request)))
    }

    type CountStream = tokio_stream::Iter<std::vec::IntoIter<Result<v1::CountReply, Status>>>;

    async fn count(
        &self,
        request: Request<v1::CountRequest>,
    ) -> Result<Response<Self::CountStream>, Status> {
        let mut replies = pass!(self, count, request);
        let mut all = Vec::new();
        while let Some(reply) = replies.message().await? {
            all.push(Ok(reply));
        }
        (self.lies.count)(&mut all);
        Ok(Response::new(tokio_stream::iter(all)))
    }

    type FetchColumnsStream =
        tokio_stream::Iter<std::vec::IntoIter<Result<v1::FetchColumnsReply, Status>>>;

    async fn fetch_columns(
        &self,
        request: Request<v1::FetchColumnsRequest>,
    ) -> Result<Response<Self::FetchColumnsStream>, Status> {
        let mut replies = pass!(self, fetch_columns, request);
        let mut all = Vec::new();
        while let Some(reply) = replies.message().await? {
            all.push(Ok(reply));
        }
        (self.lies.columns)(&mut all);
        Ok(Response::new(tokio_stream::iter(all)))
    }
}

/// An owner with a dataset, a server that has it, and a runtime for liars.
struct Scene {
    owner: Home,
    server: Server,
    _operator: Home,
    runtime: tokio::runtime::Runtime,
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
        }
    }

    /// The owner talks to a liar from now on.
    fn lie(&self, lies: Lies) {
        let _context = self.runtime.enter();
        let channel = Channel::from_shared(self.server.url().to_owned()).unwrap();
        let server = MiningClient::new(channel.connect_lazy()).max_decoding_message_size(1 << 28);
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        listener.set_nonblocking(true).unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let listener = tokio::net::TcpListener::from_std(listener).unwrap();
        self.runtime.spawn(
            tonic::transport::Server::builder()
                .add_service(
                    MiningServer::new(Liar { server, lies }).max_decoding_message_size(1 << 28),
                )
                .serve_with_incoming(TcpListenerStream::new(listener)),
        );
        self.owner.talk_to(&url);
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

/// Replaces the fractions of a message by as many bytes of this value.
fn fill(moments: &mut v1::Moments, byte: u8) {
    moments.fractions = vec![byte; moments.fractions.len()].into();
}

#[test]
fn answers_that_cannot_be_are_refused() {
    let scene = Scene::new();
    scene.lie(TRUTH);
    scene.owner.json("upload rows.oboro");
    let mine = "mine rows.oboro --min-support 1 --verify rows.dat --answers moments";
    scene.owner.json(mine);

    type Lie = (&'static str, fn(&mut Vec<Result<v1::CountReply, Status>>));
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
        ("a group that is none", |replies| {
            moments(replies)[0].group = u64::MAX
        }),
        ("another group", |replies| moments(replies)[0].group += 1),
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
        ("no fractions", |replies| {
            moments(replies)[0].fractions = Vec::new().into()
        }),
        ("a byte too few", |replies| {
            let part = &mut moments(replies)[0].fractions;
            *part = part.slice(1..);
        }),
        ("a moment too many", |replies| {
            let moments = moments(replies).remove(0);
            let each = moments.fractions.len() / moments.moments as usize;
            let part = &mut moments.fractions;
            *part = [&part[..], &vec![0; each]].concat().into();
        }),
        ("fractions of something else", |replies| {
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
        scene.lie(Lies {
            count: *count,
            ..TRUTH
        });
        for command in [
            "mine rows.oboro --min-support 1 --answers moments",
            "mine rows.oboro --min-support 1 --answers moments --threads 1",
        ] {
            let message = scene.owner.refused(command);
            println!("{what}: {message}");
        }
    }
    // Whoever says nothing at all, again and again, says nothing wrong.
    scene.lie(Lies {
        count: |replies| {
            for _ in 0..100 {
                replies.insert(1, Ok(v1::CountReply { reply: None }));
            }
        },
        ..TRUTH
    });
    scene.owner.json(mine);
}

/// The bytes of the reply at `at`.
fn data(replies: &mut [Result<v1::FetchColumnsReply, Status>], at: usize) -> Vec<u8> {
    replies[at].as_ref().unwrap().data.to_vec()
}

/// Flips one bit of the reply at `at`.
fn flip(replies: &mut [Result<v1::FetchColumnsReply, Status>], at: usize, byte: usize) {
    let mut data = data(replies, at);
    data[byte] ^= 1;
    replies[at] = Ok(v1::FetchColumnsReply { data: data.into() });
}

#[test]
fn columns_that_were_not_uploaded_are_refused() {
    let scene = Scene::new();
    scene.lie(TRUTH);
    scene.owner.json("upload rows.oboro");
    let mine = "mine rows.oboro --min-support 1 --verify rows.dat";
    let mined = scene.owner.json(mine);
    assert_eq!(mined["levels"][1]["answered"], "columns");

    const ALTERED: &str = "something else than was uploaded";
    const ENDED: &str = "the answer ended early";
    type Lie = (
        &'static str,
        &'static str,
        fn(&mut Vec<Result<v1::FetchColumnsReply, Status>>),
    );
    // A message with the header, then one for each of the six columns.
    let lies: &[Lie] = &[
        ("nothing", ENDED, |replies| replies.clear()),
        ("no end", ENDED, |replies| replies.truncate(6)),
        ("a column missing", ALTERED, |replies| {
            drop(replies.remove(3))
        }),
        ("the last byte missing", ENDED, |replies| {
            let mut data = data(replies, 6);
            data.pop();
            replies[6] = Ok(v1::FetchColumnsReply { data: data.into() });
        }),
        ("a column twice", "", |replies| {
            replies.push(replies[6].clone())
        }),
        ("columns exchanged", ALTERED, |replies| replies.swap(1, 2)),
        ("a seed altered", ALTERED, |replies| flip(replies, 0, 80)),
        ("the padding of the header altered", ALTERED, |replies| {
            flip(replies, 0, 4095)
        }),
        ("a bit of a column altered", ALTERED, |replies| {
            flip(replies, 4, 7000)
        }),
        ("the last bit altered", ALTERED, |replies| {
            flip(replies, 6, 14335)
        }),
        ("no header", ALTERED, |replies| drop(replies.remove(0))),
        ("much of what makes no sense", ALTERED, |replies| {
            let nonsense = v1::FetchColumnsReply {
                data: vec![0xa5; 1 << 20].into(),
            };
            *replies = vec![Ok(nonsense); 100];
        }),
        (
            "more than was asked for",
            "more than was asked for",
            |replies| {
                replies.push(Ok(v1::FetchColumnsReply {
                    data: vec![0].into(),
                }));
            },
        ),
        ("an error at the end", "out of luck", |replies| {
            replies.push(Err(Status::new(Code::Internal, "out of luck")));
        }),
    ];
    for (what, phrase, columns) in lies {
        scene.lie(Lies {
            columns: *columns,
            ..TRUTH
        });
        for options in ["", "--answers columns", "--answers columns --threads 1"] {
            let message = scene
                .owner
                .refused(&format!("mine rows.oboro --min-support 1 {options}"));
            says(&message, &[phrase]);
            println!("{what}: {message}");
        }
    }

    // In other pieces they are the same.
    scene.lie(Lies {
        columns: |replies| {
            let all: Vec<u8> = (0..7).flat_map(|at| data(replies, at)).collect();
            let pieces = all.chunks(1013).map(|piece| v1::FetchColumnsReply {
                data: piece.to_vec().into(),
            });
            *replies = std::iter::once(v1::FetchColumnsReply::default())
                .chain(pieces)
                .map(Ok)
                .collect();
        },
        ..TRUTH
    });
    scene.owner.json(mine);
}

#[test]
fn a_server_without_columns_has_moments() {
    let scene = Scene::new();
    scene.owner.json("upload rows.oboro");
    scene.lie(Lies {
        columns: |replies| *replies = vec![Err(Status::unimplemented(""))],
        ..TRUTH
    });
    let mined = scene
        .owner
        .json("mine rows.oboro --min-support 1 --verify rows.dat");
    for level in mined["levels"].as_array().unwrap() {
        assert_eq!(level["answered"], "moments", "{level}");
    }
    let message = scene
        .owner
        .refused("mine rows.oboro --min-support 1 --answers columns");
    says(&message, &["does not know this call", "an older one"]);
}

#[test]
fn limits_that_nobody_tells_or_that_make_no_sense() {
    let scene = Scene::new();
    scene.owner.json("upload rows.oboro");
    // A server that does not know the call, or has none, has the protocol's limits.
    for info in [
        |_| Err(Status::unimplemented("")),
        |_| Ok(v1::ServerInfoReply::default()),
    ] {
        scene.lie(Lies { info, ..TRUTH });
        let mined = scene.owner.json("mine rows.oboro --min-support 1");
        assert_eq!(mined["levels"].as_array().unwrap().len(), 3);
    }
    // One that takes nothing is asked for the least that can be asked.
    scene.lie(Lies {
        info: |mut reply| {
            reply.limits = Some(v1::Limits::default());
            Ok(reply)
        },
        ..TRUTH
    });
    let mined = scene
        .owner
        .json("mine rows.oboro --min-support 1 --max-len 1 --verify rows.dat --answers moments");
    // Six items, in six questions: each with its scalar and the power of the mask.
    assert_eq!(mined["levels"][0]["moments"], 12);
    scene
        .owner
        .json("mine rows.oboro --min-support 1 --verify rows.dat --answers columns");
    scene.lie(Lies {
        info: |_| Err(Status::internal("out of luck")),
        ..TRUTH
    });
    let message = scene.owner.refused("mine rows.oboro --min-support 1");
    says(&message, &["the server failed", "out of luck"]);
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
            ..TRUTH
        });
        let message = scene.owner.refused("upload rows.oboro");
        println!("{what}: {message}");
    }
    scene.owner.talk_to(scene.server.url());
    assert_eq!(scene.owner.json("datasets"), serde_json::json!([]));

    scene.lie(Lies {
        published: |published| published.root = vec![1; 32].into(),
        ..TRUTH
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
        ..TRUTH
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
        scene.lie(Lies { datasets, ..TRUTH });
        let message = scene.owner.refused("datasets");
        says(&message, &["malformed message"]);
    }
}
