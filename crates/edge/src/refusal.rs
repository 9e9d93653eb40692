//! Retryable refusals: a code and a sentence, with the time after which the caller may try again.

use oboro_protocol::RETRY_AFTER_KEY;
use std::time::Duration;
use tonic::metadata::MetadataMap;
use tonic::{Code, Status};

/// Retry delay for a caller that found all slots taken.
pub const RETRY_SOON: Duration = Duration::from_secs(1);

/// Returns a retryable refusal for lack of capacity, before any of the work was done.
pub fn busy(message: impl Into<String>, after: Duration) -> Status {
    for_now(Code::ResourceExhausted, message, after)
}

/// Returns a retryable refusal for a reason other than load.
pub fn unavailable(message: impl Into<String>, after: Duration) -> Status {
    for_now(Code::Unavailable, message, after)
}

fn for_now(code: Code, message: impl Into<String>, after: Duration) -> Status {
    let mut metadata = MetadataMap::new();
    let milliseconds = u64::try_from(after.as_millis()).unwrap_or(u64::MAX);
    metadata.insert(RETRY_AFTER_KEY, milliseconds.max(1).into());
    Status::with_metadata(code, message, metadata)
}
