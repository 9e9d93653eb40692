//! Sending a bundle: segment by segment, from wherever an earlier attempt broke off.

use crate::connection::Connection;
use crate::error::ClientError;
use oboro_protocol::{SEGMENT_CHUNK_BYTES, digest, v1};
use oboro_store::Bundle;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;

/// Attempts in a row without a byte of progress before giving up.
const ATTEMPTS: u32 = 8;
/// The wait after the first such attempt; it doubles with each.
const FIRST_WAIT: Duration = Duration::from_millis(100);
/// Chunks read ahead of the connection.
const CHANNEL: usize = 4;

/// A dataset version that the server has published.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Uploaded {
    /// The version.
    pub version: u64,
    /// Bytes sent by this call; less than the dataset's if some were there already.
    pub sent_bytes: u64,
    /// The bytes of all segments.
    pub total_bytes: u64,
}

/// Uploads a bundle under a name and publishes it. Broken connections are taken up where they
/// broke off; calling again after a failure does the same.
///
/// `progress` hears the bytes that the server has, of how many.
///
/// # Errors
/// A server that stays away or refuses, a bundle that cannot be read.
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
    let mut sent_bytes = 0;
    let mut failures = Failures::default();
    loop {
        match attempt(connection, bundle, &request, &mut sent_bytes, progress) {
            Ok(published) => {
                let (own, root) = (bundle.manifest().root(), digest(&published.root)?);
                if own != root {
                    return Err(ClientError::WrongRoot {
                        own,
                        published: root,
                    });
                }
                return Ok(Uploaded {
                    version: published.version,
                    sent_bytes,
                    total_bytes,
                });
            }
            Err(error) => failures.wait_or_give_up(error, sent_bytes)?,
        }
    }
}

/// Failures since the last byte of progress.
#[derive(Default)]
struct Failures {
    count: u32,
    sent_bytes: u64,
}

impl Failures {
    /// Waits before the next attempt if one may help.
    fn wait_or_give_up(&mut self, error: ClientError, sent_bytes: u64) -> Result<(), ClientError> {
        if sent_bytes > self.sent_bytes {
            *self = Self {
                count: 0,
                sent_bytes,
            };
        }
        self.count += 1;
        let may_pass = matches!(error, ClientError::Broken { .. } | ClientError::Busy);
        if !may_pass || self.count >= ATTEMPTS {
            return Err(error);
        }
        thread::sleep(FIRST_WAIT * 2u32.pow(self.count - 1));
        Ok(())
    }
}

/// Asks how far the upload has come and sends the rest.
fn attempt(
    connection: &Connection,
    bundle: &Bundle,
    request: &v1::BeginUploadRequest,
    sent_bytes: &mut u64,
    progress: &(dyn Fn(u64, u64) + Sync),
) -> Result<v1::Published, ClientError> {
    let status = connection.call("asking how far the upload has come", async |mut client| {
        client.begin_upload(request.clone()).await
    })?;
    let total = bundle.manifest().segment_bytes();
    let mut there: u64 = status
        .segments
        .iter()
        .map(|segment| segment.bytes_received)
        .sum();
    progress(there, total);
    if !status.published {
        for segment in status.segments.iter().filter(|segment| !segment.complete) {
            let sent = Mutex::new(0);
            let advance = |bytes: u64| {
                let mut sent = sent.lock().expect("no thread panics with the lock");
                *sent += bytes;
                progress((there + *sent).min(total), total);
            };
            let outcome = send_segment(connection, bundle, &status.dataset, segment, &advance);
            let sent = sent.into_inner().expect("no thread panics with the lock");
            *sent_bytes += sent;
            outcome?;
            there += sent;
        }
    }
    let dataset = status.dataset;
    connection.call("publishing", async |mut client| {
        client.publish(v1::PublishRequest { dataset }).await
    })
}

/// Streams one segment's file from where the server has it.
fn send_segment(
    connection: &Connection,
    bundle: &Bundle,
    dataset: &[u8],
    segment: &v1::SegmentProgress,
    advance: &(dyn Fn(u64) + Sync),
) -> Result<(), ClientError> {
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
                // A closed channel is a connection that broke: its own error tells.
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

/// Fills the buffer unless the file ends.
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
