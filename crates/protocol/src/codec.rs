//! Codec of all calls: protobuf, with a bound on the bytes and fields of each kind of message.
//!
//! A decoded message takes far more memory than its bytes: two bytes make an empty entry of a list. The bounds are
//! therefore checked on the encoded message (docs/protocol.md, "Bounds of answers").

use crate::{MAX_MESSAGE_BYTES, SITES_PER_MESSAGE};
use prost::bytes::Buf;
use prost::encoding::{DecodeContext, decode_key, skip_field};
use prost::{Message, Name};
use std::marker::PhantomData;
use std::sync::Arc;
use thiserror::Error;
use tonic::codec::{Codec, DecodeBuf, Decoder};
use tonic::{Code, Status};
use tonic_prost::{ProstCodec, ProstEncoder};

/// Largest number of entries of a list in an answer: datasets, uploads, grants, queries, collections.
pub const MAX_LISTED: usize = 1 << 16;

/// Largest number of messages of a streamed answer without new content.
pub const MAX_IDLE_MESSAGES: usize = 1_000;

/// Largest number of damaged parts that a scrub reports.
pub const MAX_DAMAGE: usize = 1 << 20;

/// Largest number of runs of sites of one chromosome in a list of sites.
pub const MAX_SITE_RUNS: usize = 1 << 16;

/// Bounds on one encoded message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MessageBound {
    /// Largest number of bytes.
    pub bytes: usize,
    /// Largest number of fields at its top level; each entry of a list is one.
    pub fields: usize,
}

/// Bounds of messages that are no answers: the server limits requests itself.
const REQUEST: MessageBound = MessageBound {
    bytes: MAX_MESSAGE_BYTES,
    fields: usize::MAX,
};

/// Returns the bounds of an answer's messages, by the name of their type; `None` for types that are no answers.
pub fn answer_bound(message: &str) -> Option<MessageBound> {
    /// Fields of a message without lists.
    const FEW: usize = 16;
    let bound = |bytes, fields| Some(MessageBound { bytes, fields });
    match message {
        "CancelUploadReply"
        | "DeleteDatasetReply"
        | "DescribeDatasetReply"
        | "EndQueryReply"
        | "GrantReply"
        | "KeepRecoveryReply"
        | "Published"
        | "SegmentReceipt"
        | "ServerInfoReply"
        | "UndeleteDatasetReply" => bound(4 << 10, FEW),
        "ListDatasetsReply" | "ListGenomesReply" | "ListQueriesReply" | "ListAccessReply" => {
            bound(32 << 20, MAX_LISTED)
        }
        "PlacementReply" => bound(1 << 20, 1 << 14),
        // One entry per segment.
        "UploadStatus" => bound(48 << 20, oboro_format::MAX_SEGMENTS + FEW),
        "ScrubReply" => bound(64 << 10, FEW),
        // The positions are one packed field, each of at most ten bytes.
        "SitesReply" => bound(10 * SITES_PER_MESSAGE + (4 << 10), FEW),
        "RecoveryChunk" => bound(1 << 20, FEW),
        "CountReply" | "FetchColumnsReply" | "SearchReply" => bound(4 << 20, FEW),
        _ => None,
    }
}

/// Returns the bounds of the messages that answer a call, by its path.
pub fn bound_of_call(path: &str) -> Option<MessageBound> {
    let (_, answer) = crate::ANSWERS.iter().find(|(call, _)| *call == path)?;
    answer_bound(answer)
}

/// Error: the peer sent bytes that no correct program sends. As the source of a [`Status`], it distinguishes one made
/// here from one received.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("{0}")]
pub struct MalformedAnswer(pub &'static str);

impl From<MalformedAnswer> for Status {
    fn from(malformed: MalformedAnswer) -> Self {
        let mut status = Self::new(Code::Internal, malformed.0);
        status.set_source(Arc::new(malformed));
        status
    }
}

/// Codec of the generated clients and services.
#[derive(Debug)]
pub struct BoundedCodec<T, U>(PhantomData<(T, U)>);

impl<T, U> Default for BoundedCodec<T, U> {
    fn default() -> Self {
        Self(PhantomData)
    }
}

impl<T, U> Codec for BoundedCodec<T, U>
where
    T: Message + Send + 'static,
    U: Message + Name + Default + Send + 'static,
{
    type Encode = T;
    type Decode = U;
    type Encoder = ProstEncoder<T>;
    type Decoder = BoundedDecoder<U>;

    fn encoder(&mut self) -> Self::Encoder {
        ProstCodec::<T, U>::default().encoder()
    }

    fn decoder(&mut self) -> Self::Decoder {
        BoundedDecoder(PhantomData)
    }
}

/// Decoder of messages that are within their bounds.
#[derive(Debug)]
pub struct BoundedDecoder<U>(PhantomData<U>);

impl<U: Message + Name + Default> Decoder for BoundedDecoder<U> {
    type Item = U;
    type Error = Status;

    fn decode(&mut self, buffer: &mut DecodeBuf<'_>) -> Result<Option<U>, Status> {
        let MessageBound { bytes, fields } = answer_bound(U::NAME).unwrap_or(REQUEST);
        if buffer.remaining() > bytes {
            return Err(MalformedAnswer("a message longer than any of its kind").into());
        }
        if fields < buffer.remaining() && !has_at_most(buffer.chunk(), fields) {
            return Err(MalformedAnswer("a message with more entries than any of its kind").into());
        }
        match U::decode(buffer) {
            Ok(message) => Ok(Some(message)),
            Err(_) => Err(MalformedAnswer("a message that is not of the protocol").into()),
        }
    }
}

/// Returns true if an encoded message has at most `fields` fields at its top level. Leaves malformed ones to the
/// decoder.
fn has_at_most(mut message: &[u8], fields: usize) -> bool {
    for _ in 0..fields {
        let Ok((number, kind)) = decode_key(&mut message) else {
            return true;
        };
        if skip_field(kind, number, &mut message, DecodeContext::default()).is_err() {
            return true;
        }
    }
    message.is_empty()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::v1;
    use std::collections::BTreeSet;

    #[test]
    fn every_answer_has_a_bound() {
        let calls: BTreeSet<&str> = crate::ANSWERS.iter().map(|(call, _)| *call).collect();
        assert_eq!(calls.len(), crate::CALLS.len());
        for (call, answer) in crate::ANSWERS {
            assert!(bound_of_call(call).is_some(), "{call} has {answer}");
        }
        assert_eq!(answer_bound("ListDatasetsRequest"), None);
    }

    #[test]
    fn fields_are_counted_before_they_are_decoded() {
        let list = |entries| {
            let grants = vec![v1::Grant::default(); entries];
            v1::ListAccessReply { grants }.encode_to_vec()
        };
        assert_eq!(list(4).len(), 8);
        for (entries, are_few) in [
            (0, true),
            (2, true),
            (3, true),
            (4, false),
            (1 << 22, false),
        ] {
            assert_eq!(has_at_most(&list(entries), 3), are_few, "{entries}");
        }
        // Not protobuf: the decoder rejects it.
        assert!(has_at_most(&[0xff; 20], 3));
    }
}
