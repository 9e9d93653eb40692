//! Servers that lie as no correct program can: below the messages, at the end of streams, in endless lists. A relay
//! between the client and a real server alters answers in transit.

use crate::ways::{BY_COUNTING, NAME, ROW, Scene, Way, ways};
use oboro_client::{ClientError, Connection, RecoveryCopy, upload};
use oboro_protocol::v1::{self, count_reply::Reply};
use oboro_relay::{Answer, Ending, status};
use prost::Message;
use prost::bytes::Bytes;
use std::iter;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

impl Way {
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
        if self.is_by_cells() {
            answer.alter_as(|replies: &mut Vec<v1::FetchColumnsReply>| {
                for reply in replies {
                    reply.data = altered(&reply.data);
                }
            });
        } else {
            answer.alter_as(|replies: &mut Vec<v1::CountReply>| {
                for reply in replies {
                    if let Some(Reply::Moments(part)) = &mut reply.reply {
                        part.residues = altered(&part.residues);
                    }
                }
            });
        }
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
    for way in ways() {
        for (what, ending) in bad_endings() {
            let connection = way.relay(&scene, move |answer| {
                way.falsify(answer);
                answer.ending = ending.clone();
            });
            let error = way.ask(&scene.dataset, &connection).unwrap_err();
            let is_false = matches!(error, ClientError::FalseAnswer { .. });
            assert!(is_false, "{way:?}, {what}: {error}");
            assert!(scene.noted(), "{way:?}, {what}");
        }
    }
}

#[test]
fn right_answers_that_end_badly_are_no_false_answers() {
    let scene = Scene::uploaded();
    for way in ways() {
        let cut = ("a reset", Ending::Cut);
        for (what, ending) in bad_endings().into_iter().chain([cut]) {
            for part in [false, true] {
                let ending = ending.clone();
                let connection = way.relay(&scene, move |answer| {
                    answer
                        .alter(|messages| messages.truncate(if part { 1 } else { messages.len() }));
                    answer.ending = ending.clone();
                });
                let error = way.ask(&scene.dataset, &connection).unwrap_err();
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
        way.ask(&scene.dataset, &connection).unwrap();
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
    for way in ways() {
        for &(what, lie) in lies {
            let connection = way.relay(&scene, move |answer| {
                lie(way, answer);
                answer.ending = status("13", &[]);
            });
            let error = way.ask(&scene.dataset, &connection).unwrap_err();
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
    for way in BY_COUNTING {
        for &(what, change) in changes {
            let connection = way.relay(&scene, move |answer| {
                answer.alter_as(change);
                answer.ending = status("13", &[]);
            });
            let error = way.ask(&scene.dataset, &connection).unwrap_err();
            let is_false = matches!(error, ClientError::FalseAnswer { .. });
            assert!(is_false, "{way:?}, {what}: {error}");
            assert!(scene.noted(), "{way:?}, {what}");
        }
    }
}

#[test]
fn a_request_that_is_sent_again_is_answered_with_the_same_bytes() {
    let scene = Scene::uploaded();
    for way in [Way::Pairs, Way::Longer, ROW] {
        let asked = AtomicUsize::new(0);
        // False parts, cut off before anything can be verified, then the truth.
        let connection = way.relay(&scene, move |answer| {
            if asked.fetch_add(1, Ordering::Relaxed) == 0 {
                way.falsify(answer);
                answer.alter(|messages| messages.truncate(2));
                answer.ending = status("14", &[]);
            }
        });
        let error = way.ask(&scene.dataset, &connection).unwrap_err();
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
    let lies: [fn(&mut v1::DatasetInfo); 6] = [
        |dataset| dataset.name = "n".repeat(70_000),
        |dataset| dataset.log_degree = u32::MAX,
        |dataset| dataset.limbs = u32::MAX,
        |dataset| dataset.max_len = u32::MAX,
        |dataset| dataset.dataset = vec![0; 17].into(),
        |dataset| dataset.root = Bytes::new(),
    ];
    for lie in lies {
        let connection = scene.relay(move |_, _, answer| {
            answer.alter_as(|all: &mut Vec<v1::ListDatasetsReply>| lie(&mut all[0].datasets[0]));
        });
        let refused = connection.datasets().unwrap_err();
        assert!(matches!(refused, ClientError::Field(_)), "{refused}");
    }
}

#[test]
fn streams_that_never_end_are_left() {
    let scene = Scene::uploaded();
    let endless = |message: Vec<u8>| {
        let message = Bytes::from(message);
        scene.relay(move |_, _, answer| answer.messages = Box::new(iter::repeat(message.clone())))
    };
    let start = v1::RecoveryChunk {
        start: Some(v1::RecoveryStart {
            dataset: vec![1; 16].into(),
            root: vec![2; 32].into(),
            ..Default::default()
        }),
        ..Default::default()
    };
    let progress = v1::ScrubReply::from(v1::scrub_reply::Reply::Progress(v1::ScrubProgress {
        checked_bytes: 1,
        total_bytes: 2,
    }));
    for refused in [
        RecoveryCopy::fetch(endless(Vec::new()), NAME).err(),
        RecoveryCopy::fetch(endless(start.encode_to_vec()), NAME).err(),
        endless(progress.encode_to_vec())
            .scrub(None, None, |_| {})
            .err(),
    ] {
        let refused = refused.unwrap();
        assert!(matches!(refused, ClientError::OutOfTurn(_)), "{refused}");
    }
}

/// Uploads through a relay that alters answers. `alter` receives the number of earlier calls and the root of the
/// upload.
fn uploaded(
    alter: impl Fn(&str, usize, &[u8], &mut Answer) + Send + Sync + 'static,
) -> (Result<oboro_client::UploadReport, ClientError>, usize) {
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
    let ended = upload(&connection, scene.dataset.bundle(), NAME, &|_, _| {});
    (ended, sent.load(Ordering::Relaxed))
}

/// Alters the status of the upload that the server reports.
fn alter_status(answer: &mut Answer, alter: impl FnOnce(&mut v1::UploadStatus)) {
    answer.alter_as(|messages| alter(&mut messages[0]));
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
            answer.alter_as(|all: &mut Vec<v1::Published>| all[0].version = 99_999);
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

#[test]
fn uploads_that_cannot_be_publish_nothing() {
    type Lie = (&'static str, fn(&mut v1::UploadStatus));
    let lies: &[Lie] = &[
        ("segments that are none", |it| it.segments[0].index = 7),
        ("segments beyond any", |it| it.segments[0].index = u32::MAX),
        ("more than all bytes", |it| {
            it.segments[0].bytes_received = u64::MAX
        }),
        ("more than all bytes twice", |it| {
            it.segments[0].bytes_received = u64::MAX;
            it.segments.push(it.segments[0]);
        }),
        ("the last byte only", |it| {
            it.segments[0].bytes_received = it.segments[0].bytes_total - 1;
        }),
        ("everything is there", |it| it.segments[0].complete = true),
        ("it is published", |it| it.published = true),
        ("no segments", |it| it.segments.clear()),
        ("another dataset", |it| it.dataset = vec![1; 16].into()),
        ("no dataset", |it| it.dataset = Bytes::new()),
    ];
    let scene = Scene::new();
    let upload = |connection| upload(&connection, scene.dataset.bundle(), NAME, &|_, _| {});
    for &(what, lie) in lies {
        let connection = scene.relay(move |call, _, answer| {
            if call == "BeginUpload" {
                alter_status(answer, lie);
            }
        });
        assert!(upload(connection).is_err(), "{what}");
    }
    assert!(scene.connect().datasets().unwrap().datasets.is_empty());
    for (bytes, is_malformed) in [(31, true), (32, false)] {
        let connection = scene.relay(move |call, _, answer| {
            if call == "Publish" {
                answer.alter_as(|all: &mut Vec<v1::Published>| all[0].root = vec![1; bytes].into());
            }
        });
        match upload(connection).unwrap_err() {
            ClientError::Field(_) => assert!(is_malformed),
            ClientError::WrongRoot { .. } => assert!(!is_malformed),
            other => panic!("{other}"),
        }
    }
}
