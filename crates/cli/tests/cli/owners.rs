//! Several owners on one server: what belongs to one does not exist for another, unless it was granted. Every call of the
//! protocol is tried, as the protocol's own description lists them.

use crate::common::calls::{connect, with_token};
use crate::common::plaintext::random_baskets;
use crate::common::{Home, Server, says};
use oboro_format::{Role, Roles};
use oboro_protocol::{DESCRIPTORS, v1};
use prost::Message;
use prost::bytes::{Buf, BufMut, Bytes};
use prost_types::FileDescriptorSet;
use std::fmt::Debug;
use std::path::Path;
use std::process::Command;
use tokio::runtime::Runtime;
use tokio_stream::{StreamExt, iter};
use tonic::codec::{Codec, DecodeBuf, Decoder, EncodeBuf, Encoder};
use tonic::transport::Channel;
use tonic::{Code, Status};

/// The name of alice's dataset, and of her panel.
const NAME: &str = "rows";

/// The paths of all calls.
fn calls() -> Vec<String> {
    let set = FileDescriptorSet::decode(DESCRIPTORS).unwrap();
    let services = set.file.iter().flat_map(|file| {
        let package = file.package().to_owned();
        file.service.iter().map(move |it| (package.clone(), it))
    });
    services
        .flat_map(|(package, service)| {
            let path = format!("/{package}.{}/", service.name());
            service
                .method
                .iter()
                .map(move |it| format!("{path}{}", it.name()))
        })
        .collect()
}

/// The roles of which a call takes one; none: everybody may make it.
fn roles_of(call: &str) -> &'static [Role] {
    match call {
        "ServerInfo" => &[],
        "BeginUpload" | "SendSegment" | "Publish" | "CancelUpload" | "KeepRecovery" => {
            &[Role::Append]
        }
        "ListDatasets" | "Placement" | "Scrub" | "ListGenomes" | "ListSites" => &[Role::Read],
        "DescribeDataset" => &[Role::Read, Role::Count, Role::Fetch],
        "DeleteDataset" | "UndeleteDataset" => &[Role::Delete],
        "Count" | "SearchGenome" => &[Role::Count],
        "FetchColumns" | "FetchRecovery" => &[Role::Fetch],
        "GrantAccess" | "RevokeAccess" | "ListAccess" => &[Role::Administer],
        "ListQueries" | "EndQuery" => &[Role::Administer, Role::Operate],
        other => panic!("say which role {other} takes, and what a request of it is"),
    }
}

/// Alice's dataset.
struct Stored {
    dataset: Vec<u8>,
    root: Vec<u8>,
    manifest: Vec<u8>,
}

impl Stored {
    /// A request about a name; `None` if the call is about no name.
    fn request(&self, call: &str, name: &str) -> Option<Vec<u8>> {
        let (dataset, root) = (self.dataset.clone(), self.root.clone());
        let name = name.to_owned();
        Some(match call {
            "BeginUpload" => v1::BeginUploadRequest {
                name,
                manifest: self.manifest.clone().into(),
            }
            .encode_to_vec(),
            "SendSegment" => segment(dataset, name),
            "KeepRecovery" => v1::RecoveryChunk {
                start: Some(v1::RecoveryStart {
                    name,
                    bytes: 4096,
                    ..Default::default()
                }),
                data: Bytes::new(),
            }
            .encode_to_vec(),
            "FetchRecovery" => v1::FetchRecoveryRequest { name }.encode_to_vec(),
            "Publish" => v1::PublishRequest {
                dataset: dataset.into(),
                name,
                root: vec![0; 32].into(),
            }
            .encode_to_vec(),
            "CancelUpload" => v1::CancelUploadRequest { name }.encode_to_vec(),
            "DescribeDataset" => v1::DescribeDatasetRequest { name }.encode_to_vec(),
            "DeleteDataset" => v1::DeleteDatasetRequest {
                name,
                at_once: false,
            }
            .encode_to_vec(),
            "UndeleteDataset" => v1::UndeleteDatasetRequest {
                name,
                new_name: String::new(),
            }
            .encode_to_vec(),
            "Count" => v1::CountRequest {
                name,
                root: root.into(),
                limbs: 1,
                length: 1,
                columns: vec![0],
                ranges: vec![v1::BlockRange {
                    first_block: 0,
                    blocks: 1,
                }],
                scalars: true,
            }
            .encode_to_vec(),
            "FetchColumns" => v1::FetchColumnsRequest {
                name,
                root: root.into(),
                columns: vec![0],
                first_segment: 0,
            }
            .encode_to_vec(),
            "Placement" => v1::PlacementRequest { name }.encode_to_vec(),
            "Scrub" => v1::ScrubRequest { name, rate: 0 }.encode_to_vec(),
            "GrantAccess" | "RevokeAccess" => v1::Grant {
                grantee: "zoe".into(),
                name,
                roles: Role::Read as u32,
            }
            .encode_to_vec(),
            "ListSites" => v1::ListSitesRequest { name }.encode_to_vec(),
            "SearchGenome" => v1::SearchRequest {
                request: Some(v1::search_request::Request::Open(v1::OpenSearch {
                    name,
                    length: 1,
                    count: true,
                    r#where: Some(v1::open_search::Where::Panel(v1::PanelSearch::default())),
                    kind: Some(v1::open_search::Kind::Within(0)),
                })),
            }
            .encode_to_vec(),
            _ => return None,
        })
    }

    /// A request of a call that is about no name.
    fn nameless(call: &str) -> Vec<u8> {
        match call {
            "ListDatasets" => v1::ListDatasetsRequest { unpublished: true }.encode_to_vec(),
            "EndQuery" => v1::EndQueryRequest { number: 999 }.encode_to_vec(),
            _ => Vec::new(),
        }
    }
}

fn segment(dataset: Vec<u8>, name: String) -> Vec<u8> {
    let start = Some(v1::SegmentStart {
        dataset: dataset.into(),
        index: 0,
        offset: 0,
        name,
        root: vec![0; 32].into(),
    });
    let data = Bytes::new();
    v1::SegmentChunk { start, data }.encode_to_vec()
}

/// Messages as they are.
#[derive(Debug, Clone, Copy, Default)]
struct Raw;

impl Codec for Raw {
    type Encode = Vec<u8>;
    type Decode = Vec<u8>;
    type Encoder = Self;
    type Decoder = Self;

    fn encoder(&mut self) -> Self {
        Self
    }

    fn decoder(&mut self) -> Self {
        Self
    }
}

impl Encoder for Raw {
    type Item = Vec<u8>;
    type Error = Status;

    fn encode(&mut self, message: Vec<u8>, buffer: &mut EncodeBuf<'_>) -> Result<(), Status> {
        buffer.put_slice(&message);
        Ok(())
    }
}

impl Decoder for Raw {
    type Item = Vec<u8>;
    type Error = Status;

    fn decode(&mut self, buffer: &mut DecodeBuf<'_>) -> Result<Option<Vec<u8>>, Status> {
        let mut message = vec![0; buffer.remaining()];
        buffer.copy_to_slice(&mut message);
        Ok(Some(message))
    }
}

/// How a call ended: its replies, and its status.
#[derive(Debug, Clone, PartialEq)]
struct Answer {
    replies: Vec<Vec<u8>>,
    code: Code,
    message: String,
}

impl Answer {
    /// As if the question had been about `NAME`.
    fn about(mut self, name: &str) -> Self {
        self.message = self.message.replace(name, NAME);
        self
    }

    fn is_let_in(&self) -> bool {
        self.code != Code::PermissionDenied
    }
}

struct Scene {
    runtime: Runtime,
    channel: Channel,
    alice: Home,
    operator: Home,
    stored: Stored,
    server: Server,
}

impl Scene {
    /// A server on which alice has a dataset and a panel.
    fn new() -> Self {
        let (alice, operator) = (Home::with_key(), Home::new());
        alice.write("token", operator.token("alice"));
        let panel = format!("genome generate --panel {NAME} --data data/namespaces/alice");
        operator.json(&format!("{panel} --haplotypes 4 --sites 5"));
        let server = operator.serve("--tokens tokens --max-calls-per-second 100000");
        alice.talk_to(server.url());
        alice.write_fimi("rows.dat", &random_baskets(300, 6, 128));
        alice.json("encrypt rows.dat --max-len 2");
        alice.json("upload rows.oboro --token-file token");
        let runtime = Runtime::new().unwrap();
        let channel = runtime.block_on(connect(&server));
        let bundle = oboro_format::Bundle::open(&alice.path("rows.oboro")).unwrap();
        let manifest = bundle.manifest();
        let stored = Stored {
            dataset: manifest.dataset.0.to_vec(),
            root: manifest.root().0.to_vec(),
            manifest: manifest.encode(),
        };
        Self {
            runtime,
            channel,
            alice,
            operator,
            stored,
            server,
        }
    }

    /// A token of this name with these roles.
    fn token(&self, name: &str, roles: impl Into<Roles>) -> String {
        let made = format!("token new {name} --role {}", roles.into());
        let made = self.operator.json(&made);
        made["token"].as_str().unwrap().to_owned()
    }

    fn ask(&self, path: &str, token: &str, request: Vec<u8>) -> Answer {
        self.runtime.block_on(async {
            let request = with_token(iter([request]), token);
            let mut client = tonic::client::Grpc::new(self.channel.clone());
            client.ready().await.unwrap();
            let path = path.parse().unwrap();
            let mut replies = Vec::new();
            let ended = match client.streaming(request, path, Raw).await {
                Ok(answer) => {
                    let mut answer = answer.into_inner();
                    loop {
                        match answer.next().await {
                            Some(Ok(reply)) => replies.push(reply),
                            Some(Err(status)) => break status,
                            None => break Status::ok(""),
                        }
                    }
                }
                Err(status) => status,
            };
            Answer {
                replies,
                code: ended.code(),
                message: ended.message().to_owned(),
            }
        })
    }

    /// Alice's dataset is as it was; one that was deleted is brought back.
    fn restore(&self) {
        let _ = self
            .alice
            .run(&format!("undelete {NAME} --token-file token"));
        let all = self.alice.json("datasets --token-file token");
        assert_eq!(all.as_array().unwrap().len(), 1, "{all}");
        let root = oboro_format::Digest(self.stored.root.clone().try_into().unwrap());
        assert_eq!(all[0]["root"], root.to_string());
    }
}

fn call_of(path: &str) -> &str {
    path.rsplit('/').next().unwrap()
}

fn has<T: AsRef<[u8]> + Debug>(replies: &[T], text: &str) -> bool {
    let is_in = |reply: &T| {
        let mut windows = reply.as_ref().windows(text.len());
        windows.any(|it| it == text.as_bytes())
    };
    replies.iter().any(is_in)
}

#[test]
fn every_call_by_every_role_on_own_foreign_and_absent() {
    let scene = Scene::new();
    let calls = calls();
    assert!(calls.len() >= 20, "{calls:?}");
    let all = [&Role::GRANTABLE[..], &[Role::Operate]].concat();
    let bob = scene.token("bob", Roles::OWNER);
    for role in all {
        let (own, other) = (scene.token("alice", role), scene.token("bob", role));
        for path in &calls {
            let call = call_of(path);
            let takes = roles_of(call);
            let may = takes.is_empty() || takes.contains(&role);
            let ask = |token: &str, name: &str| {
                let request = scene.stored.request(call, name);
                let request = request.unwrap_or_else(|| Stored::nameless(call));
                scene.ask(path, token, request)
            };
            let context = format!("{call} by {role}");
            // One's own.
            let answer = ask(&own, NAME);
            assert_eq!(answer.is_let_in(), may, "{context}: {answer:?}");
            if !may {
                assert!(answer.replies.is_empty(), "{context}");
            }
            // What was not granted is like what is not there: of her, of nobody.
            let foreign = ask(&other, "alice/rows").about("alice/rows");
            for absent in ["alice/none", "nobody/rows"] {
                let answer = ask(&other, absent).about(absent);
                assert_eq!(answer, foreign, "{context}: {absent}");
            }
            assert!(!has(&foreign.replies, "alice"), "{context}: {foreign:?}");
            assert!(!has(&foreign.replies, NAME), "{context}: {foreign:?}");
            if scene.stored.request(call, NAME).is_none() {
                continue;
            }
            let refusals = [Code::NotFound, Code::PermissionDenied];
            assert!(refusals.contains(&foreign.code), "{context}: {foreign:?}");
            // What was granted.
            if role == Role::Operate {
                continue;
            }
            let about = format!("bob {role} {NAME} --token-file token");
            scene.alice.json(&format!("access grant {about}"));
            let answer = ask(&bob, "alice/rows");
            assert_eq!(answer.is_let_in(), may, "granted {context}: {answer:?}");
            let elsewhere = ask(&bob, "alice/none");
            assert_eq!(elsewhere.code, Code::NotFound, "{context}: {elsewhere:?}");
            scene.alice.json(&format!("access revoke {about}"));
            let answer = ask(&bob, "alice/rows");
            assert_eq!(answer.code, Code::NotFound, "revoked {context}: {answer:?}");
            let zoe = "access revoke zoe read rows --token-file token";
            scene.alice.json(zoe);
        }
        scene.restore();
    }
}

/// Copies a directory.
fn copy(from: &Path, to: &Path) {
    let copied = Command::new("cp").arg("-r").args([from, to]).status();
    assert!(copied.unwrap().success());
}

#[test]
fn ids_of_others_do_not_exist() {
    let scene = Scene::new();
    let bob = scene.token("bob", Roles::OWNER);
    let unknown = vec![9; 16];
    let asked = |dataset: &[u8]| {
        let publish = v1::PublishRequest {
            dataset: dataset.to_vec().into(),
            name: String::new(),
            root: vec![0; 32].into(),
        };
        let id = oboro_format::DatasetId(dataset.try_into().unwrap()).to_string();
        [
            ("Publish", publish.encode_to_vec()),
            ("SendSegment", segment(dataset.to_vec(), String::new())),
        ]
        .map(|(call, request)| {
            let answer = scene.ask(&format!("/oboro.v1.Mining/{call}"), &bob, request);
            assert_eq!(answer.code, Code::NotFound, "{answer:?}");
            answer.about(&id)
        })
    };
    assert_eq!(asked(&scene.stored.dataset), asked(&unknown));
    // The same dataset may be uploaded by anybody who has it, under the same name, and is another one then.
    let other = Home::new();
    other.write("token", &bob);
    other.talk_to(scene.server.url());
    copy(&scene.alice.path("rows.oboro"), &other.path("rows.oboro"));
    other.json("upload rows.oboro --token-file token");
    other.json("delete rows --yes --now --token-file token");
    let mined = "mine rows.oboro --min-support 10% --verify rows.dat --token-file token";
    scene.alice.json(mined);
    scene.restore();
}

#[test]
fn an_owner_grants_and_another_mines() {
    let scene = Scene::new();
    let bob = Home::new();
    bob.write("token", scene.token("bob", Roles::OWNER));
    bob.talk_to(scene.server.url());
    // Bob has a copy of the owner's directory and key, as a second analyst would.
    copy(&scene.alice.path("rows.oboro"), &bob.path("rows.oboro"));
    std::fs::copy(scene.alice.path("oboro.key"), bob.path("oboro.key")).unwrap();
    // What was fetched once would need no server again.
    let mine =
        "mine rows.oboro --min-support 10% --keep-cells 0 --name alice/rows --token-file token";
    says(&bob.refused(mine), &["no dataset named"]);
    scene
        .alice
        .json("access grant bob read,count,fetch rows --token-file token");
    let granted = scene.alice.json("access list --token-file token");
    assert_eq!(granted[0]["caller"], "bob");
    for answers in ["cells", "moments --max-len 2"] {
        bob.json(&format!("{mine} --answers {answers}"));
    }
    let listed = bob.json("datasets --token-file token");
    assert_eq!(listed[0]["name"], "alice/rows");
    let refused = bob.refused("delete alice/rows --yes --token-file token");
    says(&refused, &["the role delete", "oboro access grant"]);
    scene
        .alice
        .json("access revoke bob read,count,fetch rows --token-file token");
    says(&bob.refused(mine), &["no dataset named"]);
}

#[test]
fn an_append_that_absorbs_others_takes_the_role_to_delete() {
    let scene = Scene::new();
    let bob = Home::new();
    bob.write("token", scene.token("bob", Roles::OWNER));
    bob.talk_to(scene.server.url());
    for directory in ["rows.oboro", "copy.oboro"] {
        copy(&scene.alice.path("rows.oboro"), &bob.path(directory));
    }
    for file in ["oboro.key", "rows.dat"] {
        std::fs::copy(scene.alice.path(file), bob.path(file)).unwrap();
    }
    scene
        .alice
        .json("access grant bob read,append rows --token-file token");
    bob.json("encrypt rows.dat --append-to rows.oboro");
    let refused = bob.refused("upload rows.oboro --name alice/rows --token-file token");
    says(&refused, &["the role delete", "no-absorb"]);
    bob.json("encrypt rows.dat --append-to copy.oboro --no-absorb");
    bob.json("upload copy.oboro --name alice/rows --token-file token");
}

#[test]
fn what_was_deleted_by_mistake_comes_back() {
    let scene = Scene::new();
    let owner = &scene.alice;
    says(&owner.refused("delete rows --token-file token"), &["--yes"]);
    owner.json("delete rows --yes --token-file token");
    let deleted = owner.json("datasets --deleted --token-file token");
    assert_eq!(deleted[0]["name"], NAME);
    owner.json("undelete rows --as again --token-file token");
    owner.json(
        "mine rows.oboro --min-support 10% --name again --verify rows.dat --token-file token",
    );
    owner.json("delete again --yes --now --token-file token");
    let deleted = owner.json("datasets --deleted --token-file token");
    assert_eq!(deleted.as_array().unwrap().len(), 0);
    says(
        &owner.refused("undelete again --token-file token"),
        &["no dataset named", "was deleted here"],
    );
    let refused = owner.refused("upload rows.oboro --token-file token");
    says(&refused, &["ids are never used again"]);
}
