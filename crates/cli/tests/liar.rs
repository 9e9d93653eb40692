//! A server that does not keep to the protocol is found out: an error, never a panic, a hang or a
//! wrong support that the protocol rules out.
//!
//! The liar stands between the real client and a real server and alters the answers.

mod common;

use common::plaintext::{Plaintext, random_baskets, supports};
use common::{Home, Server, says};
use oboro_protocol::v1;
use oboro_protocol::v1::count_reply::Reply;
use oboro_protocol::v1::mining_client::MiningClient;
use oboro_protocol::v1::mining_server::{Mining, MiningServer};
use oboro_ring::Parameters;
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
    added: Option<Addition>,
    old: Option<OldVersion>,
    columns: fn(&mut Vec<Result<v1::FetchColumnsReply, Status>>),
}

const TRUTH: Lies = Lies {
    info: Ok,
    status: |_| {},
    published: |_| {},
    datasets: |_| {},
    count: |_| {},
    added: None,
    old: None,
    columns: |_| {},
};

/// One more transaction for one of the itemsets of a length: a lie that no bound on noise shows.
#[derive(Clone, Copy)]
struct Addition {
    length: usize,
    /// Which of the itemsets, counted from 0.
    itemset: usize,
    log_degree: u32,
    limbs: usize,
    plaintext_modulus: u32,
}

impl Addition {
    /// With `d` the inverse of `N` modulo `t`, the support grows by one if the phase grows by `d`, hence
    /// its fraction by `−d·Q^{-1}/t` modulo 1 (docs/cryptography.md, "Fractions").
    fn tell(&self, question: &v1::CountRequest, replies: &mut [Result<v1::CountReply, Status>]) {
        if question.length as usize != self.length {
            return;
        }
        let asked = question.columns.len() / self.length;
        let ring = Parameters::new(self.log_degree, self.limbs, self.plaintext_modulus).unwrap();
        let t = ring.plaintext();
        let moduli = ring.limb_moduli()[..question.limbs as usize].iter();
        let denominator = moduli.fold(1u32 << self.log_degree, |product, q| {
            t.mul(t.reduce(product.into()), t.reduce(q.value().into()))
        });
        let numerator = t.neg(t.inverse(denominator));
        let bits = question.fraction_bits[0];
        let unit = 1u128 << bits;
        let term = unit * u128::from(numerator) / u128::from(t.value());
        let mut told = 0;
        for part in moments(replies) {
            let scalars = part.first_moment as usize..(part.first_moment + part.moments) as usize;
            if part.group == 0 && scalars.end <= asked && scalars.contains(&self.itemset) {
                let size = bits as usize / 8;
                let mut fractions = part.fractions.to_vec();
                let scalar = &mut fractions[(self.itemset - scalars.start) * size..][..size];
                let mut whole = [0; 16];
                whole[..size].copy_from_slice(scalar);
                let sum = (u128::from_le_bytes(whole) + term) % unit;
                scalar.copy_from_slice(&sum.to_le_bytes()[..size]);
                part.fractions = fractions.into();
                told += 1;
            }
        }
        assert_eq!(told, 1);
    }
}

/// Counts in an older version of the dataset, which had fewer blocks in the same group.
#[derive(Clone, Copy)]
struct OldVersion {
    root: [u8; 32],
}

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

    async fn placement(
        &self,
        request: Request<v1::PlacementRequest>,
    ) -> Result<Response<v1::PlacementReply>, Status> {
        Ok(Response::new(pass!(self, placement, request)))
    }

    type CountStream = tokio_stream::Iter<std::vec::IntoIter<Result<v1::CountReply, Status>>>;

    async fn count(
        &self,
        mut request: Request<v1::CountRequest>,
    ) -> Result<Response<Self::CountStream>, Status> {
        if let Some(old) = self.lies.old {
            request.get_mut().root = old.root.to_vec().into();
        }
        let question = request.get_ref().clone();
        let mut replies = pass!(self, count, request);
        let mut all = Vec::new();
        while let Some(reply) = replies.message().await? {
            all.push(Ok(reply));
        }
        (self.lies.count)(&mut all);
        if let Some(added) = self.lies.added {
            added.tell(&question, &mut all);
        }
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

#[test]
fn a_servers_words_do_not_steer_the_terminal() {
    let scene = Scene::new();
    scene.lie(TRUTH);
    scene.owner.json("upload rows.oboro");
    scene.lie(Lies {
        datasets: |datasets| datasets[0].name.push_str("\u{202e}slwo"),
        count: |replies| {
            let words = "out of\nluck\u{1b}[31m\u{9b}2J\u{202e}";
            *replies = vec![Err(Status::new(Code::Internal, words))];
        },
        ..TRUTH
    });
    let mine = "mine rows.oboro --min-support 1 --answers moments";
    assert_eq!(
        scene.owner.refused(mine),
        r"the server failed: out of\nluck\u{1b}[31m\u{9b}2J\u{202e}"
    );
    says(&scene.owner.done("datasets"), &[r"rows\u{202e}slwo  "]);
    let listed = scene.owner.json("datasets");
    assert_eq!(listed[0]["name"], "rows\u{202e}slwo");
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
    assert_eq!(mined["levels"][0]["questions"], 6);
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

/// What check columns tell the owner of a lie.
const FOUND_OUT: [&str; 3] = [
    "check columns show that an answer about itemsets of length",
    "the server altered or lost data",
    "nothing is reported",
];

#[test]
fn a_small_lie_is_found_out_wherever_the_support_is_known_beforehand() {
    let scene = Scene::new();
    let owner = &scene.owner;
    owner.write_fimi("few.dat", &random_baskets(300, 4, 128));
    let encrypted = owner.json("encrypt few.dat --out checked.oboro --max-len 3 --check-columns 4");
    owner.json("upload checked.oboro");
    let truth = Plaintext::read(&owner.path("few.dat")).frequent(1, 3);
    let number = |name: &str| encrypted[name].as_u64().unwrap();
    // All columns are known, all pairs but those of the 4 items, and of the triples all but the 4 of
    // items.
    for (length, asked, known) in [(1, 8, 8), (2, 28, 22), (3, 10, 6)] {
        let mut found_out = 0;
        for itemset in 0..asked {
            let added = Some(Addition {
                length,
                itemset,
                log_degree: number("degree").ilog2(),
                limbs: number("limbs") as usize,
                plaintext_modulus: number("plaintext_modulus") as u32,
            });
            scene.lie(Lies { added, ..TRUTH });
            let mine =
                format!("mine checked.oboro --min-support 1 --max-len {length} --answers moments");
            let ended = owner.run(&format!("{mine} --json"));
            if ended.code == Some(1) {
                says(&ended.stderr, &FOUND_OUT);
                says(&ended.stderr, &[&format!("of length {length} is false")]);
                assert_eq!(ended.stdout, "");
                found_out += 1;
                continue;
            }
            let mined = serde_json::from_str(&ended.stdout).unwrap();
            let wrong: Vec<_> = supports(&mined)
                .into_iter()
                .filter(|(itemset, support)| truth[itemset] != *support)
                .collect();
            let (itemset, support) = &wrong[0];
            assert_eq!((wrong.len(), itemset.len()), (1, length));
            assert_eq!(*support, truth[itemset] + 1);
        }
        assert_eq!(found_out, known, "length {length}");
    }
}

#[test]
fn counting_in_an_old_version_is_found_out() {
    let scene = Scene::new();
    let owner = &scene.owner;
    owner.json("encrypt rows.dat --out checked.oboro --max-len 2 --check-columns 2");
    let outcome = |name: &str| {
        owner.talk_to(scene.server.url());
        let uploaded = owner.json(&format!("upload {name}"));
        let root = uploaded["root"].as_str().unwrap();
        let byte = |i: usize| u8::from_str_radix(&root[2 * i..2 * i + 2], 16).unwrap();
        let old = Some(OldVersion {
            root: std::array::from_fn(byte),
        });
        let mine = format!("mine {name} --min-support 1 --max-len 2");
        let before = supports(&owner.json(&mine));
        owner.json(&format!("encrypt rows.dat --append-to {name}"));
        owner.json(&format!("upload {name}"));
        let after = supports(&owner.json(&mine));
        assert!(
            after
                .iter()
                .all(|(itemset, support)| *support == 2 * before[itemset])
        );
        scene.lie(Lies { old, ..TRUTH });
        (owner.run(&format!("{mine} --json")), before)
    };
    let (without, before) = outcome("rows.oboro");
    assert_eq!(
        supports(&serde_json::from_str(&without.stdout).unwrap()),
        before
    );
    let (with, _) = outcome("checked.oboro");
    assert_eq!((with.code, with.stdout.as_str()), (Some(1), ""));
    says(&with.stderr, &FOUND_OUT);
    says(&with.stderr, &["of length 1 is false"]);
}
