//! Uploads a bundle segment by segment, resuming where an earlier attempt broke off.

use crate::connection::Connection;
use crate::error::ClientError;
use crate::retries::{self, fraction};
use oboro_format::Bundle;
use oboro_protocol::{SEGMENT_CHUNK_BYTES, digest, v1};
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
/// The same while the segment is locked: outlasts the time in which a server notices that the connection of an earlier
/// attempt is dead.
const ATTEMPTS_WHEN_BUSY: u32 = 9;
/// The delay after the first such attempt; it doubles up to the maximum.
const FIRST_WAIT: Duration = Duration::from_millis(100);
const LONGEST_WAIT: Duration = Duration::from_secs(5);
/// Chunks read ahead of the connection.
const CHANNEL: usize = 4;

/// A dataset version that the server has published.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Uploaded {
    /// Its number.
    pub version: u64,
    /// Bytes stored on the server by this call, without those stored before.
    pub sent_bytes: u64,
    /// The bytes of all segments.
    pub total_bytes: u64,
}

/// Uploads a bundle under a name and publishes it. Resumes after a broken connection; calling it again after a failure
/// resumes, too.
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
) -> Result<Uploaded, ClientError> {
    let request = v1::BeginUploadRequest {
        name: name.to_owned(),
        manifest: bundle.manifest().encode().into(),
    };
    let total_bytes = bundle.manifest().segment_bytes();
    let mut attempts = Attempts::default();
    loop {
        match attempt(connection, bundle, &request, &mut attempts, progress) {
            Ok(None) => {}
            Ok(Some(published)) => {
                let (own, root) = (bundle.manifest().root(), digest(&published.root)?);
                if own != root {
                    return Err(ClientError::WrongRoot {
                        own,
                        published: root,
                    });
                }
                note_uploaded(bundle);
                return Ok(Uploaded {
                    version: published.version,
                    sent_bytes: total_bytes.saturating_sub(attempts.there_at_first.unwrap_or(0)),
                    total_bytes,
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

/// Notes in the bundle's directory that its version was uploaded now. Best effort: without the note results do not say when.
pub fn note_uploaded(bundle: &Bundle) {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    let _ = bundle.note_uploaded(now.map_or(0, |now| now.as_secs()));
}

/// Retry state, driven by what the server reports to have; bytes in flight do not count.
#[derive(Default)]
struct Attempts {
    there_at_first: Option<u64>,
    there: u64,
    /// Failures since the last progress.
    failures: u32,
}

impl Attempts {
    /// The server has `there` bytes.
    fn resume_at(&mut self, there: u64) {
        if there > self.there {
            self.failures = 0;
        }
        let first = self.there_at_first.get_or_insert(there);
        *first = there.min(*first);
        self.there = there;
    }

    /// The delay before the next attempt, if the error is worth a retry.
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
}

/// Asks for the upload's status and sends the rest; `None` if the status must be asked again.
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
    let total = bundle.manifest().segment_bytes();
    let mut there = status.segments.iter().fold(0u64, |there, segment| {
        there.saturating_add(segment.bytes_received)
    });
    attempts.resume_at(there);
    progress(there.min(total), total);
    if !status.published {
        for segment in status.segments.iter().filter(|segment| !segment.complete) {
            let sent = Mutex::new(0);
            let advance = |bytes: u64| {
                let mut sent = sent.lock();
                *sent += bytes;
                progress(there.saturating_add(*sent).min(total), total);
            };
            let whose = (&status.dataset[..], &*request.name);
            match send_segment(connection, bundle, whose, segment, &advance) {
                // A power cut may have damaged the server's part, which it has now discarded.
                Err(ClientError::Damaged(_)) if segment.bytes_received > 0 => return Ok(None),
                sent => sent?,
            }
            let sent = sent.into_inner();
            there = there.saturating_add(sent);
        }
    }
    let dataset = status.dataset;
    let published = connection.call("publishing", async |mut client| {
        let name = request.name.clone();
        client.publish(v1::PublishRequest { dataset, name }).await
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
                // The channel closes if the connection broke, whose error is reported.
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
