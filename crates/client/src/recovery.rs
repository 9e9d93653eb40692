//! Recovery copies: the owner's record, sealed under a passphrase and kept at the server, for an owner who loses the
//! dataset's directory.
//!
//! A copy is opened with passphrase and key before anything depends on it, and no request follows. The server receives
//! one request, for a name, and learns that the directory was lost. It learns nothing from the outcome: the connection
//! is closed first.

use crate::connection::Connection;
use crate::error::ClientError;
use oboro_dataset::Dataset;
use oboro_format::{
    Bundle, Corruption, Digest, MAX_RECOVERY_BYTES, RecoveryContent, RecoveryHead, decode_recovery,
    encode_recovery,
};
use oboro_protocol::{RECOVERY_CHUNK_BYTES, dataset_id, digest, v1};
use oboro_rlwe::{
    MasterKey, PASSPHRASE_SEAL_BYTES, Passphrase, open_under_passphrase, seal_under_passphrase,
};
use prost::bytes::Bytes;
use std::path::Path;

const KEEPING: &str = "keeping the record";
const FETCHING: &str = "fetching the record";

/// Stores a recovery copy of a published dataset at the server, in place of an earlier one; returns its length in
/// bytes.
///
/// # Errors
/// A bundle that was changed since it was opened, more than a server keeps; or as every call.
pub fn keep_record(
    connection: &Connection,
    bundle: &Bundle,
    name: &str,
    passphrase: &Passphrase,
) -> Result<u64, ClientError> {
    let head = RecoveryHead::of(bundle.manifest());
    let content = bundle.recovery_content(own_name(name))?;
    let content = content.encode(PASSPHRASE_SEAL_BYTES)?;
    let sealed = seal_under_passphrase(passphrase, &head.encode(), &content)?;
    let copy = Bytes::from(encode_recovery(&head, &sealed));
    let kept = copy.len() as u64;
    let messages = messages(name, &copy);
    let reply = connection.again(|| {
        connection.call(KEEPING, async |mut client| {
            let messages = tokio_stream::iter(messages.clone());
            client.keep_recovery(messages).await
        })
    });
    reply?;
    Ok(kept)
}

/// Returns the name of a dataset within its owner's namespace.
fn own_name(name: &str) -> &str {
    name.split_once('/').map_or(name, |it| it.1)
}

fn messages(name: &str, copy: &Bytes) -> Vec<v1::RecoveryChunk> {
    let mut start = Some(v1::RecoveryStart {
        name: name.to_owned(),
        bytes: copy.len() as u64,
        ..Default::default()
    });
    let starts = (0..copy.len()).step_by(RECOVERY_CHUNK_BYTES);
    let message = |at: usize| v1::RecoveryChunk {
        start: start.take(),
        data: copy.slice(at..copy.len().min(at + RECOVERY_CHUNK_BYTES)),
    };
    starts.map(message).collect()
}

/// Copy from a server, not opened yet.
pub struct RecoveryCopy {
    /// Requested name.
    name: String,
    /// Version and root that the server claims to publish.
    published: RecoveryHead,
    copy: Vec<u8>,
}

impl RecoveryCopy {
    /// Fetches a dataset's copy, and closes the connection: the server cannot observe the opening or its duration. A
    /// clone of the connection stays open.
    ///
    /// # Errors
    /// A copy that is not there, or as every call.
    pub fn fetch(connection: Connection, name: &str) -> Result<Self, ClientError> {
        let fetched = connection.again(|| fetch(&connection, name));
        drop(connection);
        let (published, copy) = fetched?;
        Ok(Self {
            name: name.to_owned(),
            published,
            copy,
        })
    }
}

/// Secrets that open a copy, and the expected root.
pub struct Recovery<'a> {
    /// Passphrase under which it was sealed.
    pub passphrase: &'a Passphrase,
    /// Key of the dataset.
    pub master: &'a MasterKey,
    /// Root that was noted after the last upload, if any.
    pub root: Option<Digest>,
}

impl Recovery<'_> {
    /// Recreates the directory of a dataset, without ciphertext.
    ///
    /// # Errors
    /// A copy that does not open, or is of another dataset; a version other than the published or noted one; an
    /// existing directory. Nothing is left behind.
    pub fn recover(&self, copy: &RecoveryCopy, directory: &Path) -> Result<Dataset, ClientError> {
        let RecoveryCopy {
            name,
            published,
            copy,
        } = copy;
        let (head, sealed) = decode_recovery(copy).map_err(ClientError::DamagedRecovery)?;
        let opened = open_under_passphrase(self.passphrase, &head.encode(), sealed)?;
        if head != *published {
            return Err(ClientError::OtherRecovery {
                published: published.version,
                published_root: published.root,
                kept: head.version,
                kept_root: head.root,
            });
        }
        let content = RecoveryContent::decode(&opened).map_err(ClientError::DamagedRecovery)?;
        match self.root {
            Some(noted) if noted != head.root => {
                return Err(ClientError::OtherRoot {
                    noted,
                    kept: head.root,
                    version: head.version,
                });
            }
            // Accept any name: the noted root identifies the dataset.
            Some(_) => {}
            None if content.name == own_name(name) => {}
            None => {
                return Err(ClientError::OtherName {
                    asked: name.clone(),
                    kept: content.name,
                });
            }
        }
        Ok(Dataset::recover(directory, &content, &head, self.master)?)
    }
}

/// Returns the version that the server claims to publish, and the copy.
fn fetch(connection: &Connection, name: &str) -> Result<(RecoveryHead, Vec<u8>), ClientError> {
    let request = v1::FetchRecoveryRequest {
        name: name.to_owned(),
    };
    connection.wait(async {
        let broken = |status| ClientError::from_status(&status, FETCHING);
        let asked = connection.client().fetch_recovery(request).await;
        let mut stream = connection.answer(asked, FETCHING)?;
        let (mut published, mut copy) = (None, Vec::new());
        while let Some(v1::RecoveryChunk { start, data }) =
            stream.message().await.map_err(broken)?
        {
            match start {
                Some(start) if published.is_none() => {
                    published = Some(RecoveryHead {
                        dataset: dataset_id(&start.dataset)?,
                        version: start.version,
                        root: digest(&start.root)?,
                    });
                }
                // All messages carry bytes; only the first identifies the dataset.
                None if published.is_some() && !data.is_empty() => {}
                _ => return Err(ClientError::OutOfTurn("a record that is cut as none is")),
            }
            copy.extend_from_slice(&data);
            if copy.len() as u64 > MAX_RECOVERY_BYTES {
                let long = Corruption::Length {
                    expected: MAX_RECOVERY_BYTES,
                    found: copy.len() as u64,
                };
                return Err(ClientError::DamagedRecovery(long));
            }
        }
        let published = published.ok_or(ClientError::OutOfTurn("a record of no version"))?;
        Ok((published, copy))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io;
    use std::sync::Mutex;
    use tokio::io::{AsyncReadExt, duplex};
    use tokio_util::sync::CancellationToken;

    #[test]
    fn the_connection_is_closed_before_a_copy_is_opened() {
        let (near, mut far) = duplex(1 << 16);
        let near = Mutex::new(Some(near));
        let connect = move || near.lock().unwrap().take().ok_or(io::ErrorKind::NotFound);
        let interrupt = CancellationToken::new();
        let connection = Connection::through("silence", move || Ok(connect()?))
            .unwrap()
            .interrupted_by(interrupt.clone());
        interrupt.cancel();
        let fetched = RecoveryCopy::fetch(connection, "dataset").err();
        assert!(
            matches!(fetched, Some(ClientError::Interrupted)),
            "{fetched:?}"
        );
        // Reading ends when the other end is closed.
        let runtime = tokio::runtime::Builder::new_current_thread()
            .build()
            .unwrap();
        let read = runtime.block_on(far.read_to_end(&mut Vec::new()));
        assert!(read.is_ok(), "{read:?}");
    }
}
