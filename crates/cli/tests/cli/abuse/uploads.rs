//! Tenants who send without end: huge manifests, huge and unfinished messages, uploads that they never go on with.

use super::{Scene, scaled};
use crate::common::calls::{connect, is_for_now, with_token};
use crate::common::http2::{Connection, prefix};
use crate::common::says;
use oboro_format::{Bundle, DatasetId, Manifest, SegmentEntry};
use oboro_protocol::v1;
use oboro_protocol::v1::mining_client::MiningClient;
use prost::Message;
use prost::bytes::Bytes;
use tokio::runtime::Runtime;
use tonic::transport::Channel;
use tonic::{Code, Status};

/// The bytes of an entry in a manifest.
const ENTRY: usize = 32 + 32 + 8 + 4 + 8;

/// The manifest of a dataset like the owner's with this number, of which all that was sent is this: its segments are as
/// many as make it so long.
fn manifest(scene: &Scene, number: u32, bytes: usize) -> Vec<u8> {
    let bundle = Bundle::open(&scene.owner.path("rows.oboro")).unwrap();
    let like = bundle.manifest();
    let [one] = like.segments[..] else {
        panic!("{like:?}")
    };
    let entry = |number: u32| SegmentEntry {
        number,
        first_block: u64::from(number) * u64::from(one.blocks),
        ..one
    };
    let segments: Vec<_> = (0..(bytes / ENTRY).max(1) as u32).map(entry).collect();
    let mut dataset = [7; 16];
    dataset[..4].copy_from_slice(&number.to_le_bytes());
    let made = Manifest {
        dataset: DatasetId(dataset),
        next_segment: segments.len() as u32,
        segments,
        ..like.clone()
    };
    made.encode()
}

fn begin(
    runtime: &Runtime,
    client: &mut MiningClient<Channel>,
    token: &str,
    number: u32,
    manifest: Vec<u8>,
) -> Result<v1::UploadStatus, Status> {
    let request = v1::BeginUploadRequest {
        name: format!("upload-{number}"),
        manifest: manifest.into(),
    };
    let begun = runtime.block_on(client.begin_upload(with_token(request, token)));
    begun.map(tonic::Response::into_inner)
}

fn root(manifest: &[u8]) -> Bytes {
    let manifest = oboro_format::Manifest::decode(manifest).unwrap();
    manifest.root().0.to_vec().into()
}

fn wide(runtime: &Runtime, scene: &Scene) -> MiningClient<Channel> {
    MiningClient::new(runtime.block_on(connect(&scene.server)))
        .max_encoding_message_size(1 << 28)
        .max_decoding_message_size(1 << 28)
}

#[test]
fn a_huge_manifest_is_published_again_and_again() {
    let bytes = scaled(55_000_000, 0);
    // A manifest counts twelve times, and messages have a sixteenth of what is left.
    let scene = Scene::with_memory(192 + 192 * (bytes as u64 >> 20), "");
    let (token, runtime) = (scene.tenant("publisher"), Runtime::new().unwrap());
    let mut client = wide(&runtime, &scene);
    let manifest = manifest(&scene, 1, bytes);
    let root = root(&manifest);
    let status = begin(&runtime, &mut client, &token, 1, manifest).unwrap();
    assert_eq!(status.segments.len(), bytes / ENTRY);
    runtime.block_on(async {
        let mut publishing = Vec::new();
        for _ in 0..100 {
            let (mut client, name) = (client.clone(), "upload-1".to_owned());
            let (dataset, root) = (status.dataset.clone(), root.clone());
            let publish = v1::PublishRequest {
                dataset,
                name,
                root,
            };
            let publish = with_token(publish, &token);
            publishing.push(tokio::spawn(async move { client.publish(publish).await }));
        }
        for published in publishing {
            let refused = published.await.unwrap().unwrap_err();
            assert!(
                refused.code() == Code::FailedPrecondition || is_for_now(&refused),
                "{refused}"
            );
        }
    });
    scene.holds(1, 101);
}

#[test]
fn many_huge_manifests_are_listed_at_once() {
    let scene = Scene::new("");
    let (token, runtime) = (scene.tenant("lister"), Runtime::new().unwrap());
    let mut client = wide(&runtime, &scene);
    // As many as a namespace may have.
    let (uploads, listings) = (scaled(40, 12), scaled(16, 4));
    for number in 0..uploads as u32 {
        let manifest = manifest(&scene, number, 1_600_000);
        begin(&runtime, &mut client, &token, number, manifest).unwrap();
    }
    scene.holds(1, uploads);
    runtime.block_on(async {
        let mut listing = Vec::new();
        for _ in 0..listings {
            let mut client = client.clone();
            let list = with_token(v1::ListDatasetsRequest { unpublished: true }, &token);
            listing.push(tokio::spawn(
                async move { client.list_datasets(list).await },
            ));
        }
        for listed in listing {
            match listed.await.unwrap() {
                Ok(listed) => assert_eq!(listed.into_inner().uploads.len(), uploads),
                Err(refused) => assert!(is_for_now(&refused), "{refused}"),
            }
        }
    });
    scene.holds(1, uploads + listings);
}

/// Questions of this many bytes, of which little is asked: each number in them takes a byte or two.
fn long_questions(bytes: usize) -> [v1::CountRequest; 2] {
    [
        v1::CountRequest {
            columns: vec![0; bytes],
            ..Default::default()
        },
        v1::CountRequest {
            ranges: vec![v1::BlockRange::default(); bytes / 2],
            ..Default::default()
        },
    ]
}

#[test]
fn messages_of_seventy_mebibytes_are_refused_or_fit() {
    let scene = Scene::new("");
    let (token, runtime) = (scene.tenant("long"), Runtime::new().unwrap());
    let mut client = wide(&runtime, &scene);
    let for_all = |refused: Status| {
        assert_eq!(refused.code(), Code::ResourceExhausted, "{refused}");
        says(refused.message(), &["for all messages", "--memory"]);
    };
    // What the server has for messages, nearly, and more than that.
    for (bytes, fits) in [(17 << 20, true), (70 << 20, false)] {
        let zeros = vec![0; bytes];
        for_all(begin(&runtime, &mut client, &token, 1, zeros.clone()).unwrap_err());
        let chunk = v1::SegmentChunk {
            data: zeros.into(),
            ..Default::default()
        };
        let sent = with_token(tokio_stream::once(chunk), &token);
        let refused = runtime.block_on(client.send_segment(sent)).unwrap_err();
        if fits {
            // It was taken, and says nothing of where it belongs.
            assert_eq!(refused.code(), Code::InvalidArgument, "{refused}");
        } else {
            for_all(refused);
        }
    }
    for question in long_questions(17 << 20) {
        let asked = client.count(with_token(question, &token));
        for_all(runtime.block_on(asked).unwrap_err());
    }
    // Those that fit, many at a time.
    runtime.block_on(async {
        let mut asking = Vec::new();
        for question in long_questions(2 << 20).iter().cycle().take(20) {
            let (mut client, question) = (client.clone(), with_token(question.clone(), &token));
            asking.push(tokio::spawn(async move { client.count(question).await }));
        }
        for asked in asking {
            let refused = asked.await.unwrap().unwrap_err();
            let is_read = refused.code() == Code::InvalidArgument;
            assert!(is_read || is_for_now(&refused), "{refused}");
        }
    });
    scene.holds(1, 30);
}

#[test]
fn unfinished_messages_do_not_block_others() {
    let scene = Scene::new("");
    let tokens = ["a", "b", "c"].map(|name| scene.tenant(name));
    let part = vec![0; 3 << 20];
    let unfinished: Vec<Connection> = tokens
        .iter()
        .cycle()
        .take(30)
        .map(|token| {
            let mut connection = Connection::to(&scene.server, 0);
            let stream = connection.call("/oboro.v1.Mining/SendSegment", token);
            connection.send(stream, &prefix(4 << 20));
            connection.send(stream, &part);
            connection
        })
        .collect();
    scene.holds(30, 30);
    // Another one's upload goes on as well.
    scene.owner.json("encrypt rows.dat --append-to rows.oboro");
    scene.owner.json("upload rows.oboro --token-file token");
    drop(unfinished);
    let rows = scene.owner.read("rows.dat");
    scene.owner.write("rows.dat", [&rows[..], &rows].concat());
    scene.holds(30, 30);
}

#[test]
fn uploads_that_stay_open_are_cheap() {
    let uploads = scaled(1_100, 100);
    let scene = Scene::new(&format!(
        "--owner-uploads {uploads} --max-calls-per-second 100000"
    ));
    let (token, runtime) = (scene.tenant("opener"), Runtime::new().unwrap());
    let mut client = wide(&runtime, &scene);
    let mut sending = Connection::to(&scene.server, 0);
    for number in 0..uploads as u32 {
        let manifest = manifest(&scene, number, ENTRY);
        let root = root(&manifest);
        let status = begin(&runtime, &mut client, &token, number, manifest).unwrap();
        if number % 20 == 0 {
            // The first bytes of a segment, and no more.
            let start = v1::SegmentStart {
                dataset: status.dataset,
                name: format!("upload-{number}"),
                root,
                ..Default::default()
            };
            let chunk = v1::SegmentChunk {
                start: Some(start),
                data: vec![0; 100].into(),
            };
            let stream = sending.call("/oboro.v1.Mining/SendSegment", &token);
            let chunk = chunk.encode_to_vec();
            sending.send(stream, &prefix(chunk.len()));
            sending.send(stream, &chunk);
        }
    }
    scene.holds(2, 2 * uploads);
    let one_more = manifest(&scene, uploads as u32, ENTRY);
    let refused = begin(&runtime, &mut client, &token, uploads as u32, one_more).unwrap_err();
    says(
        refused.message(),
        &["unfinished uploads", &uploads.to_string()],
    );
}
