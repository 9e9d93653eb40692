//! The messages between owner and server, and what both must agree on about them.
//!
//! The messages are generated from `proto/oboro.proto`; `docs/protocol.md` tells the conversation.

mod fields;
mod genome;
mod moments;

pub use fields::{FieldError, dataset_id, digest};
pub use genome::{kind, nonce};
pub use moments::{block_ranges, moments_messages, moments_range};

/// Generated from `proto/oboro.proto`.
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

/// The protocol spoken here. Every change that an older peer would misunderstand raises it.
pub const PROTOCOL: u32 = 5;

/// The metadata key under which a caller tells its protocol.
pub const PROTOCOL_KEY: &str = "oboro-protocol";

/// Bytes of a segment in one message.
pub const SEGMENT_CHUNK_BYTES: usize = 512 << 10;

/// Bytes of moments in one message, at most or little more: at least one moment travels in each.
pub const MOMENTS_CHUNK_BYTES: usize = 1 << 20;

/// Bytes of columns in one message, at most.
pub const COLUMNS_CHUNK_BYTES: usize = 1 << 20;

/// Bytes of an encrypted query in one message, at most.
pub const QUERY_CHUNK_BYTES: usize = 512 << 10;

/// Sites in one message, at most.
pub const SITES_PER_MESSAGE: usize = 1 << 16;

/// The most windows of one search.
pub const MAX_WINDOWS: usize = 64;

/// The largest message either side takes: a request of millions of itemsets, a manifest of a
/// million segments.
pub const MAX_MESSAGE_BYTES: usize = 72 << 20;

/// The most ranges of blocks of one request.
pub const MAX_RANGES: usize = 1 << 12;

/// The most uses of moments (itemsets × their subsets, `2^length` each) of one request: bounds what
/// either side needs to plan it.
pub const MAX_USES: usize = 1 << 20;

/// The most itemsets of a length that one request may have.
pub const fn max_itemsets(length: usize) -> usize {
    match MAX_USES.checked_shr(length as u32) {
        Some(most) if most > 0 => most,
        _ => 1,
    }
}
