//! Sends recovery copies to owners.
//!
//! One chunk at a time is read on a blocking thread, once the caller has taken the previous one: a slow reader holds
//! none.

use crate::blocking::blocking;
use oboro_protocol::{RECOVERY_CHUNK_BYTES, v1};
use oboro_store::Recovery;
use std::io::Read;
use tokio::sync::mpsc::{self, Sender};
use tokio_stream::wrappers::ReceiverStream;
use tonic::Status;
use tracing::Instrument;

/// Messages of a copy.
pub(crate) type Copy = ReceiverStream<Result<v1::RecoveryChunk, Status>>;

/// Returns the stream of a checked copy.
pub(crate) fn stream(copy: Recovery) -> Copy {
    let (sender, messages) = mpsc::channel(1);
    tokio::spawn(send(copy, sender).in_current_span());
    ReceiverStream::new(messages)
}

async fn send(mut copy: Recovery, sender: Sender<Result<v1::RecoveryChunk, Status>>) {
    let head = copy.head();
    let mut start = Some(v1::RecoveryStart {
        name: String::new(),
        bytes: copy.length(),
        dataset: head.dataset.0.to_vec().into(),
        version: head.version,
        root: head.root.0.to_vec().into(),
    });
    loop {
        let read = blocking(move || {
            let mut data = Vec::with_capacity(RECOVERY_CHUNK_BYTES);
            let read = (&mut copy).take(RECOVERY_CHUNK_BYTES as u64);
            match { read }.read_to_end(&mut data) {
                Ok(_) => Ok((copy, data)),
                Err(error) => {
                    tracing::error!(%error, "a recovery copy");
                    Err(Status::unavailable("the disk did not give it; try again"))
                }
            }
        });
        let (rest, data) = match read.await {
            Ok(read) => read,
            Err(status) => return drop(sender.send(Err(status)).await),
        };
        copy = rest;
        if data.is_empty() && start.is_none() {
            return;
        }
        let data = data.into();
        let start = start.take();
        if sender
            .send(Ok(v1::RecoveryChunk { start, data }))
            .await
            .is_err()
        {
            return;
        }
    }
}
