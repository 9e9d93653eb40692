//! Messages between owner and server, and the limits that both must agree on.
//!
//! `proto/oboro.proto` generates the messages; `docs/protocol.md` describes the protocol.

mod codec;
mod fields;
mod genome;
mod moments;

pub use codec::{
    BoundedCodec, BoundedDecoder, MAX_DAMAGE, MAX_IDLE_MESSAGES, MAX_LISTED, MAX_SITE_RUNS,
    MalformedAnswer, MessageBound, answer_bound, bound_of_call,
};
pub use fields::{FieldError, column_numbers, columns, dataset_id, digest};
pub use genome::{kind, nonce};
pub use moments::{block_ranges, moments_messages, moments_range};

/// `proto/oboro.proto` as an encoded `FileDescriptorSet`, which lists the calls.
pub const DESCRIPTORS: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/oboro.descriptors"));

/// Names of all calls of all services.
pub const CALLS: &[&str] = include!(concat!(env!("OUT_DIR"), "/calls.rs"));

/// Path of each call and type of the messages that answer it.
pub const ANSWERS: &[(&str, &str)] = include!(concat!(env!("OUT_DIR"), "/answers.rs"));

/// Code generated from `proto/oboro.proto`.
#[allow(missing_docs, clippy::all, clippy::pedantic)]
pub mod v1 {
    tonic::include_proto!("oboro.v1");

    impl From<count_reply::Reply> for CountReply {
        fn from(reply: count_reply::Reply) -> Self {
            Self { reply: Some(reply) }
        }
    }

    impl From<search_reply::Reply> for SearchReply {
        fn from(reply: search_reply::Reply) -> Self {
            Self { reply: Some(reply) }
        }
    }

    impl From<search_request::Request> for SearchRequest {
        fn from(request: search_request::Request) -> Self {
            Self {
                request: Some(request),
            }
        }
    }

    impl From<scrub_reply::Reply> for ScrubReply {
        fn from(reply: scrub_reply::Reply) -> Self {
            Self { reply: Some(reply) }
        }
    }
}

/// Protocol version. Every change that an older peer would misunderstand increments it.
pub const PROTOCOL: u32 = 6;

/// Metadata key of a caller's protocol version.
pub const PROTOCOL_KEY: &str = "oboro-protocol";

/// Metadata key, in every answer, of the number that the server has given a call and uses in its log.
pub const REQUEST_KEY: &str = "oboro-request";

/// Metadata key of a refusal's retry delay in milliseconds: the call had no effect and may be repeated after it.
pub const RETRY_AFTER_KEY: &str = "retry-after-ms";

/// Number of bytes of a segment per message.
pub const SEGMENT_CHUNK_BYTES: usize = 512 << 10;

/// Number of bytes of a recovery copy per message; a message this small needs no reserved memory.
pub const RECOVERY_CHUNK_BYTES: usize = 48 << 10;

/// Approximate number of bytes of moments per message, which has at least one moment.
pub const MOMENTS_CHUNK_BYTES: usize = 1 << 20;

/// Largest number of bytes of columns per message.
pub const COLUMNS_CHUNK_BYTES: usize = 1 << 20;

/// Largest number of bytes of an encrypted query per message.
pub const QUERY_CHUNK_BYTES: usize = 512 << 10;

/// Largest number of sites per message.
pub const SITES_PER_MESSAGE: usize = 1 << 16;

/// Largest number of windows per search.
pub const MAX_WINDOWS: usize = 64;

/// Largest message that either side accepts: a request of millions of itemsets, a manifest of a million segments.
pub const MAX_MESSAGE_BYTES: usize = 72 << 20;

/// Largest number of ranges of blocks per request.
pub const MAX_RANGES: usize = 1 << 12;

/// Largest number of uses of moments (itemsets × their subsets, `2^length` each) per request; bounds the cost of
/// planning on either side.
pub const MAX_USES: usize = 1 << 20;

/// Largest number of itemsets of a length per request.
pub const fn max_itemsets(length: usize) -> usize {
    match MAX_USES.checked_shr(length as u32) {
        Some(most) if most > 0 => most,
        _ => 1,
    }
}
