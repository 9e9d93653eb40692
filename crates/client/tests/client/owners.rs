//! Several owners on one server: what belongs to one does not exist for another, unless it was granted. Every call of the
//! protocol is tried, as the protocol's own description lists them.

use crate::common::{Running, options, start};
use crate::local::encrypted;
use http_body_util::{BodyExt, Full};
use oboro_client::{Connection, Options, upload};
use oboro_format::{DatasetId, Role, Roles};
use oboro_genome_server::{Collections, Existing, SyntheticPanel, generate_panel};
use oboro_protocol::{DESCRIPTORS, PROTOCOL, PROTOCOL_KEY, v1};
use oboro_server::{TokenFile, Tokens};
use prost::Message;
use prost::bytes::Bytes;
use prost_types::FileDescriptorSet;
use std::sync::Arc;
use tempfile::TempDir;
use tokio::runtime::Runtime;
use tonic::body::Body;
use tonic::codegen::{Service, http};
use tonic::transport::Channel;
use tonic::{Code, Status};

/// Name of alice's dataset, and of her panel.
const NAME: &str = "rows";

/// Paths of all calls.
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

/// Roles of which a call needs one; none if every caller may make it.
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
    /// Returns a request about a name; `None` if the call is about no name.
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

    /// Returns a request of a call that is about no name.
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

/// Outcome of a call: its replies, and its status.
#[derive(Debug, PartialEq)]
struct Answer {
    replies: Vec<u8>,
    code: Code,
    message: String,
}

impl Answer {
    /// Replaces the name in question by a common one.
    fn about(mut self, name: &str) -> Self {
        self.message = self.message.replace(name, NAME);
        self
    }

    fn is_let_in(&self) -> bool {
        self.code != Code::PermissionDenied
    }

    fn has(&self, bytes: &[u8]) -> bool {
        self.replies.windows(bytes.len()).any(|it| it == bytes)
    }
}

/// Server on which alice has a dataset and a panel.
struct Scene {
    channel: Channel,
    runtime: Runtime,
    server: Running,
    tokens: TokenFile,
    alice: String,
    stored: Stored,
    _directory: TempDir,
}

impl Scene {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let path = |name: &str| directory.path().join(name);
        let collections = Collections::open(&path("data/namespaces/alice"));
        let few = SyntheticPanel {
            haplotypes: 4,
            sites: 5,
            seed: 1,
        };
        generate_panel(&collections, NAME, &few, Existing::Keep).unwrap();
        let tokens = TokenFile::at(&path("tokens"));
        let (_, alice) = tokens.add("alice", Roles::OWNER, None).unwrap();
        let mut options = options(&path("data"), 0);
        options.tokens = Some(Arc::new(Tokens::open(tokens.path()).unwrap()));
        options.limits.calls_per_second = 100_000;
        let server = start(options);
        let connection = Connection::open(&Options {
            url: server.url().to_owned(),
            token: Some(alice.to_string()),
            ..Options::default()
        });
        let dataset = encrypted(directory.path());
        upload(&connection.unwrap(), dataset.bundle(), NAME, &|_, _| {}).unwrap();
        let manifest = dataset.bundle().manifest();
        let stored = Stored {
            dataset: manifest.dataset.0.to_vec(),
            root: manifest.root().0.to_vec(),
            manifest: manifest.encode(),
        };
        let runtime = Runtime::new().unwrap();
        let endpoint = Channel::from_shared(server.url().to_owned()).unwrap();
        Self {
            channel: runtime.block_on(endpoint.connect()).unwrap(),
            runtime,
            server,
            tokens,
            alice: alice.to_string(),
            stored,
            _directory: directory,
        }
    }

    fn token(&self, name: &str, roles: impl Into<Roles>) -> String {
        let (_, token) = self.tokens.add(name, roles.into(), None).unwrap();
        token.to_string()
    }

    /// Makes a call with one message.
    fn ask(&self, path: &str, token: &str, message: &[u8]) -> Answer {
        let length = u32::try_from(message.len()).unwrap().to_be_bytes();
        let body = Bytes::from([&[0][..], &length, message].concat());
        let request = http::Request::post(format!("{}{path}", self.server.url()))
            .version(http::Version::HTTP_2)
            .header("content-type", "application/grpc")
            .header("te", "trailers")
            .header(PROTOCOL_KEY, PROTOCOL)
            .header("authorization", format!("Bearer {token}"))
            .body(Body::new(Full::new(body)))
            .unwrap();
        let mut channel = self.channel.clone();
        self.runtime.block_on(async {
            let ready = std::future::poll_fn(|context| channel.poll_ready(context));
            ready.await.unwrap();
            let (head, body) = channel.call(request).await.unwrap().into_parts();
            let body = body.collect().await.unwrap();
            let ended = body.trailers().and_then(Status::from_header_map);
            let ended = ended.or_else(|| Status::from_header_map(&head.headers));
            let ended = ended.unwrap();
            Answer {
                code: ended.code(),
                message: ended.message().to_owned(),
                replies: body.to_bytes().into(),
            }
        })
    }

    /// Makes a call of alice's that must succeed.
    fn done(&self, call: &str, message: &impl Message) -> Answer {
        let path = format!("/oboro.v1.Mining/{call}");
        let answer = self.ask(&path, &self.alice, &message.encode_to_vec());
        assert_eq!(answer.code, Code::Ok, "{call}: {answer:?}");
        answer
    }

    /// Brings alice's dataset back if it was deleted, and checks that it is as it was.
    fn restore(&self) {
        let undelete = self.stored.request("UndeleteDataset", NAME).unwrap();
        self.ask("/oboro.v1.Mining/UndeleteDataset", &self.alice, &undelete);
        let listed = self.done("ListDatasets", &v1::ListDatasetsRequest::default());
        assert!(listed.has(&self.stored.root));
    }
}

#[test]
fn every_call_by_every_role_on_own_foreign_and_absent() {
    let scene = Scene::new();
    let calls = calls();
    assert!(calls.len() >= 20, "{calls:?}");
    let bob = scene.token("bob", Roles::OWNER);
    for role in [&Role::GRANTABLE[..], &[Role::Operate]].concat() {
        let (own, other) = (scene.token("alice", role), scene.token("bob", role));
        for path in &calls {
            let call = path.rsplit('/').next().unwrap();
            let takes = roles_of(call);
            let may = takes.is_empty() || takes.contains(&role);
            let ask = |token: &str, name: &str| {
                let request = scene.stored.request(call, name);
                let request = request.unwrap_or_else(|| Stored::nameless(call));
                scene.ask(path, token, &request)
            };
            let context = format!("{call} by {role}");
            let answer = ask(&own, NAME);
            assert_eq!(answer.is_let_in(), may, "{context}: {answer:?}");
            assert!(may || answer.replies.is_empty(), "{context}");
            // What was not granted is like what is absent: alice's, and in a namespace without an owner.
            let foreign = ask(&other, "alice/rows").about("alice/rows");
            for absent in ["alice/none", "nobody/rows"] {
                let answer = ask(&other, absent).about(absent);
                assert_eq!(answer, foreign, "{context}: {absent}");
            }
            let shows = ["alice", NAME].map(|it| foreign.has(it.as_bytes()));
            assert_eq!(shows, [false; 2], "{context}: {foreign:?}");
            if scene.stored.request(call, NAME).is_none() {
                continue;
            }
            let refusals = [Code::NotFound, Code::PermissionDenied];
            assert!(refusals.contains(&foreign.code), "{context}: {foreign:?}");
            if role == Role::Operate {
                continue;
            }
            let grant = |grantee: &str, role: Role| v1::Grant {
                grantee: grantee.to_owned(),
                name: NAME.to_owned(),
                roles: role as u32,
            };
            scene.done("GrantAccess", &grant("bob", role));
            let answer = ask(&bob, "alice/rows");
            assert_eq!(answer.is_let_in(), may, "granted {context}: {answer:?}");
            let elsewhere = ask(&bob, "alice/none");
            assert_eq!(elsewhere.code, Code::NotFound, "{context}: {elsewhere:?}");
            scene.done("RevokeAccess", &grant("bob", role));
            let answer = ask(&bob, "alice/rows");
            assert_eq!(answer.code, Code::NotFound, "revoked {context}: {answer:?}");
            scene.done("RevokeAccess", &grant("zoe", Role::Read));
        }
        scene.restore();
    }
}

#[test]
fn ids_of_others_do_not_exist() {
    let scene = Scene::new();
    let bob = scene.token("bob", Roles::OWNER);
    let asked = |dataset: &[u8]| {
        let publish = v1::PublishRequest {
            dataset: dataset.to_vec().into(),
            name: String::new(),
            root: vec![0; 32].into(),
        };
        let id = DatasetId(dataset.try_into().unwrap()).to_string();
        [
            ("Publish", publish.encode_to_vec()),
            ("SendSegment", segment(dataset.to_vec(), String::new())),
        ]
        .map(|(call, request)| {
            let answer = scene.ask(&format!("/oboro.v1.Mining/{call}"), &bob, &request);
            assert_eq!(answer.code, Code::NotFound, "{answer:?}");
            answer.about(&id)
        })
    };
    assert_eq!(asked(&scene.stored.dataset), asked(&[9; 16]));
}
