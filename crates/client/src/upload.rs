//! Upload of a bundle, segment by segment, with resumption after a broken attempt.
//!
//! The server reports its progress, so its power to repeat work is bounded. A segment is begun [`MOST_STARTS`] times at
//! most, and once from its beginning after `DATA_LOSS`. Totals count bytes that this client sent and verified.

use crate::connection::Connection;
use crate::error::ClientError;
use crate::retries::{self, fraction};
use oboro_format::{Bundle, Manifest, SegmentEntry};
use oboro_protocol::{SEGMENT_CHUNK_BYTES, dataset_id, digest, v1};
use parking_lot::Mutex;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::Path;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;

/// Consecutive attempts without progress before giving up on a server that does not answer.
const ATTEMPTS: u32 = 8;
/// As [`ATTEMPTS`], while the segment is locked: outlasts the time in which a server notices that the connection of an
/// earlier attempt is dead.
const ATTEMPTS_WHEN_BUSY: u32 = 9;
/// Delay after the first such attempt; it doubles up to the maximum.
const FIRST_WAIT: Duration = Duration::from_millis(100);
const LONGEST_WAIT: Duration = Duration::from_secs(5);
/// Maximum number of times that an upload begins one segment.
const MOST_STARTS: u32 = 64;
/// Number of chunks read ahead of the connection.
const CHANNEL: usize = 4;

/// Published version of a dataset.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UploadReport {
    /// Number of the version, that of the bundle.
    pub version: u64,
    /// Bytes of segments that this call sent, each counted once, without those already on the server.
    pub sent_bytes: u64,
    /// Bytes of all segments.
    pub total_bytes: u64,
}

/// Uploads a bundle under `name` and publishes it. It resumes after a broken connection, as does another call after a
/// failure.
///
/// `progress` receives the bytes stored on the server, and the total.
///
/// # Errors
/// A server that stays unreachable or refuses, a bundle that cannot be read.
pub fn upload(
    connection: &Connection,
    bundle: &Bundle,
    name: &str,
    progress: &(dyn Fn(u64, u64) + Sync),
) -> Result<UploadReport, ClientError> {
    let request = v1::BeginUploadRequest {
        name: name.to_owned(),
        manifest: bundle.manifest().encode().into(),
    };
    let mut attempts = Attempts::new(bundle.manifest());
    loop {
        match attempt(connection, bundle, &request, &mut attempts, progress) {
            Ok(None) => {}
            Ok(Some(published)) => {
                check_published(bundle.manifest(), &published)?;
                note_uploaded(bundle);
                return Ok(UploadReport {
                    version: bundle.manifest().version,
                    sent_bytes: attempts.sent_bytes(),
                    total_bytes: bundle.manifest().segment_bytes(),
                });
            }
            Err(error) => {
                let Some(wait) = attempts.next(&error) else {
                    return Err(error);
                };
                connection.rest(&error, wait)?;
            }
        }
    }
}

/// Records the current time as that of the upload, in the bundle's directory. Best effort: without it, results omit the
/// time.
pub fn note_uploaded(bundle: &Bundle) {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    let _ = bundle.note_uploaded(now.map_or(0, |now| now.as_secs()));
}

fn check_published(manifest: &Manifest, published: &v1::Published) -> Result<(), ClientError> {
    let (own, root) = (manifest.root(), digest(&published.root)?);
    if own != root {
        return Err(ClientError::WrongRoot {
            own,
            published: root,
        });
    }
    if published.version != manifest.version {
        let what = "the number of another version than was uploaded";
        return Err(ClientError::OutOfTurn(what));
    }
    Ok(())
}

/// Rejects a status that does not fit the manifest.
fn check_status(manifest: &Manifest, status: &v1::UploadStatus) -> Result<(), ClientError> {
    let is_of_segment = |(index, (there, own)): (u32, (&v1::SegmentProgress, &SegmentEntry))| {
        there.index == index
            && there.bytes_total == own.bytes
            && there.bytes_received <= own.bytes
            && (!there.complete || there.bytes_received == own.bytes)
    };
    let segments = (0..).zip(status.segments.iter().zip(&manifest.segments));
    let are_all = status.segments.len() == manifest.segments.len();
    if dataset_id(&status.dataset)? == manifest.dataset
        && (status.published || (are_all && segments.into_iter().all(is_of_segment)))
    {
        Ok(())
    } else {
        Err(ClientError::OutOfTurn(
            "a status that this upload cannot have",
        ))
    }
}

/// Retry state, driven by the progress that the server reports; bytes in flight do not count.
struct Attempts {
    segments: Vec<SegmentAttempts>,
    /// Maximum number of bytes that the server reported so far.
    most: u64,
    /// Failures since `most` last grew.
    failures: u32,
}

/// Attempts to send one segment.
#[derive(Clone, Default)]
struct SegmentAttempts {
    /// Maximum number of bytes that the server lacked.
    absent: u64,
    /// Bytes sent, in all attempts together.
    sent: u64,
    starts: u32,
    /// `true` once it was sent again from its beginning because the server had lost bytes.
    was_lost: bool,
}

impl Attempts {
    fn new(manifest: &Manifest) -> Self {
        Self {
            segments: vec![SegmentAttempts::default(); manifest.segments.len()],
            most: 0,
            failures: 0,
        }
    }

    /// Resets the failure count if `there`, the bytes on the server, exceed all earlier reports.
    fn resume_at(&mut self, there: u64) {
        if there > self.most {
            self.failures = 0;
            self.most = there;
        }
    }

    /// Returns the delay before the next attempt; `None` if the error is not retried.
    fn next(&mut self, error: &ClientError) -> Option<Duration> {
        self.failures += 1;
        let most = match error {
            ClientError::Broken { .. } | ClientError::Overloaded { .. } => ATTEMPTS,
            ClientError::Busy => ATTEMPTS_WHEN_BUSY,
            _ => 0,
        };
        (self.failures < most).then(|| match error {
            ClientError::Overloaded { .. } => retries::wait(error, self.failures, fraction()),
            _ => (FIRST_WAIT * 2u32.pow(self.failures - 1)).min(LONGEST_WAIT),
        })
    }

    /// Counts another start of a segment.
    fn start(&mut self, segment: &v1::SegmentProgress) -> Result<(), ClientError> {
        let attempts = &mut self.segments[segment.index as usize];
        let absent = segment.bytes_total - segment.bytes_received;
        attempts.absent = attempts.absent.max(absent);
        attempts.starts += 1;
        if attempts.starts > MOST_STARTS {
            return Err(ClientError::EndlessUpload {
                segment: segment.index,
                times: MOST_STARTS,
            });
        }
        Ok(())
    }

    /// Returns the bytes that the server received from this call.
    fn sent_bytes(&self) -> u64 {
        self.segments.iter().map(|it| it.sent.min(it.absent)).sum()
    }
}

/// Requests the status of the upload and sends the rest; `None` if the status must be requested again.
fn attempt(
    connection: &Connection,
    bundle: &Bundle,
    request: &v1::BeginUploadRequest,
    attempts: &mut Attempts,
    progress: &(dyn Fn(u64, u64) + Sync),
) -> Result<Option<v1::Published>, ClientError> {
    let status = connection.call("asking how far the upload has come", async |mut client| {
        client.begin_upload(request.clone()).await
    })?;
    check_status(bundle.manifest(), &status)?;
    let total = bundle.manifest().segment_bytes();
    let received = status.segments.iter().map(|segment| segment.bytes_received);
    let mut there = if status.published {
        total
    } else {
        received.sum()
    };
    attempts.resume_at(there);
    progress(there, total);
    if !status.published {
        for segment in status.segments.iter().filter(|segment| !segment.complete) {
            attempts.start(segment)?;
            let sent = Mutex::new(0);
            let advance = |bytes: u64| {
                let mut sent = sent.lock();
                *sent += bytes;
                progress((there + *sent).min(total), total);
            };
            let whose = (&status.dataset[..], &*request.name);
            let ended = send_segment(connection, bundle, whose, segment, &advance);
            let sent = sent.into_inner();
            let own = &mut attempts.segments[segment.index as usize];
            own.sent += sent;
            match ended {
                // A power cut may have damaged the server's part, which it has now discarded.
                Err(ClientError::Damaged(_)) if segment.bytes_received > 0 && !own.was_lost => {
                    own.was_lost = true;
                    return Ok(None);
                }
                ended => ended?,
            }
            there += sent;
        }
    }
    let dataset = status.dataset;
    let published = connection.call("publishing", async |mut client| {
        let publish = v1::PublishRequest {
            dataset,
            name: request.name.clone(),
            root: bundle.manifest().root().0.to_vec().into(),
        };
        client.publish(publish).await
    })?;
    Ok(Some(published))
}

/// Streams one segment's file from the offset that the server has.
fn send_segment(
    connection: &Connection,
    bundle: &Bundle,
    (dataset, name): (&[u8], &str),
    segment: &v1::SegmentProgress,
    advance: &(dyn Fn(u64) + Sync),
) -> Result<(), ClientError> {
    // Detect a damaged file here, rather than on the server after its last byte.
    bundle.open_segment(segment.index)?;
    let path: Arc<Path> = bundle.segment_path(segment.index).into();
    let read = |source| ClientError::Read {
        path: path.to_path_buf(),
        source,
    };
    let mut file = File::open(&path).map_err(read)?;
    file.seek(SeekFrom::Start(segment.bytes_received))
        .map_err(read)?;
    let start = v1::SegmentStart {
        dataset: dataset.to_vec().into(),
        index: segment.index,
        offset: segment.bytes_received,
        name: name.to_owned(),
        root: bundle.manifest().root().0.to_vec().into(),
    };
    let (sender, receiver) = mpsc::channel(CHANNEL);
    thread::scope(|scope| {
        let reader = scope.spawn(move || -> std::io::Result<()> {
            let mut start = Some(start);
            loop {
                let mut data = vec![0; SEGMENT_CHUNK_BYTES];
                let filled = read_full(&mut file, &mut data)?;
                data.truncate(filled);
                if filled == 0 && start.is_none() {
                    return Ok(());
                }
                // The channel closes when the connection breaks; that error is reported.
                if sender
                    .blocking_send(v1::SegmentChunk {
                        start: start.take(),
                        data: data.into(),
                    })
                    .is_err()
                {
                    return Ok(());
                }
                advance(filled as u64);
            }
        });
        let sent = connection.call("uploading", async |mut client| {
            client.send_segment(ReceiverStream::new(receiver)).await
        });
        reader
            .join()
            .expect("reading does not panic")
            .map_err(read)?;
        sent.map(drop)
    })
}

/// Fills the buffer unless the file ends first.
fn read_full(file: &mut File, buffer: &mut [u8]) -> std::io::Result<usize> {
    let mut filled = 0;
    while filled < buffer.len() {
        match file.read(&mut buffer[filled..])? {
            0 => break,
            more => filled += more,
        }
    }
    Ok(filled)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn attempts() -> Attempts {
        Attempts {
            segments: vec![SegmentAttempts::default(); 2],
            most: 0,
            failures: 0,
        }
    }

    fn broken() -> ClientError {
        ClientError::Broken {
            during: "uploading",
            cause: "cut".to_owned(),
        }
    }

    #[test]
    fn only_more_than_ever_before_is_progress() {
        let mut up_and_down = attempts();
        let ends = (0..).take_while(|round| {
            up_and_down.resume_at(1000 * (round % 2));
            up_and_down.next(&broken()).is_some()
        });
        assert_eq!(ends.count() as u32, ATTEMPTS);
        let mut forward = attempts();
        for there in 0..100 {
            forward.resume_at(there);
            assert!(forward.next(&broken()).is_some());
        }
    }

    #[test]
    fn each_segment_is_begun_a_bounded_number_of_times() {
        let mut attempts = attempts();
        let segment = |index, bytes_received| v1::SegmentProgress {
            index,
            bytes_total: 100,
            bytes_received,
            complete: false,
        };
        for start in 0..MOST_STARTS {
            attempts.start(&segment(0, u64::from(start))).unwrap();
        }
        let refused = attempts.start(&segment(0, 64)).unwrap_err();
        assert!(
            matches!(refused, ClientError::EndlessUpload { .. }),
            "{refused}"
        );
        attempts.start(&segment(1, 60)).unwrap();
        // Each byte counts once, however often it was sent; bytes already on the server do not count.
        attempts.segments[0].sent = 1000;
        attempts.segments[1].sent = 30;
        assert_eq!(attempts.sent_bytes(), 100 + 30);
    }
}
