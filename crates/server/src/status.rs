//! Errors for callers: a code for programs, a sentence for people. Only the log has paths of the server's files.

use oboro_engine::EngineError;
use oboro_format::ErrorKind;
use oboro_genome_server::GenomeError;
use oboro_protocol::{FieldError, RETRY_AFTER_KEY};
use oboro_residency::ResidencyError;
use oboro_store::StoreError;
use std::time::Duration;
use tonic::metadata::MetadataMap;
use tonic::{Code, Status};

/// Retry delay for a caller that found all slots taken.
pub(crate) const RETRY_SOON: Duration = Duration::from_secs(1);

/// Returns a retryable refusal for lack of capacity, before any of the work was done.
pub(crate) fn busy(told: impl Into<String>, after: Duration) -> Status {
    for_now(Code::ResourceExhausted, told, after)
}

/// Returns a retryable refusal for a reason other than load.
pub(crate) fn unavailable(told: impl Into<String>, after: Duration) -> Status {
    for_now(Code::Unavailable, told, after)
}

fn for_now(code: Code, told: impl Into<String>, after: Duration) -> Status {
    let mut metadata = MetadataMap::new();
    let milliseconds = u64::try_from(after.as_millis()).unwrap_or(u64::MAX);
    metadata.insert(RETRY_AFTER_KEY, milliseconds.max(1).into());
    Status::with_metadata(code, told, metadata)
}

pub(crate) fn of_store(error: &StoreError) -> Status {
    if let StoreError::Residency(ResidencyError::HeadersInUse { .. }) = error {
        return busy(error.to_string(), RETRY_SOON);
    }
    of_kind(error.kind(), error, error.without_paths())
}

pub(crate) fn of_genome(error: &GenomeError) -> Status {
    of_kind(error.kind(), error, told_of_genome(error))
}

/// Returns the message for callers.
pub(crate) fn told_of_genome(error: &GenomeError) -> String {
    match error {
        GenomeError::Files(error) => error.without_paths(),
        other => other.to_string(),
    }
}

/// Returns the status code for an error of this kind.
pub(crate) fn code_of(kind: ErrorKind) -> Code {
    match kind {
        ErrorKind::NotFound => Code::NotFound,
        ErrorKind::AlreadyExists => Code::AlreadyExists,
        ErrorKind::InvalidArgument => Code::InvalidArgument,
        ErrorKind::FailedPrecondition => Code::FailedPrecondition,
        ErrorKind::Busy => Code::Aborted,
        ErrorKind::DataLoss => Code::DataLoss,
        ErrorKind::DiskFull | ErrorKind::MemoryFull => Code::ResourceExhausted,
        ErrorKind::Unavailable => Code::Unavailable,
        ErrorKind::Forbidden => Code::PermissionDenied,
        ErrorKind::Quota => Code::ResourceExhausted,
        ErrorKind::Internal => Code::Internal,
    }
}

fn of_kind(kind: ErrorKind, error: &dyn std::fmt::Display, told: String) -> Status {
    let code = code_of(kind);
    // An exhausted quota is no failure of the server.
    if kind != ErrorKind::Quota
        && matches!(
            code,
            Code::DataLoss | Code::ResourceExhausted | Code::Unavailable | Code::Internal
        )
    {
        tracing::error!(%error, "storage");
    }
    Status::new(code, told)
}

pub(crate) fn of_engine(error: EngineError) -> Status {
    match error {
        EngineError::Residency(error) => of_store(&error.into()),
        EngineError::Limbs { .. } | EngineError::Empty => {
            Status::invalid_argument(error.to_string())
        }
        EngineError::Units { .. } => Status::resource_exhausted(error.to_string()),
        EngineError::Backend(error) => match error.downcast_ref::<Status>() {
            Some(status) => status.clone(),
            None => {
                tracing::error!(%error, "a backend failed");
                Status::internal(
                    "the server could not count; ask again, or ask its operator to look at its log",
                )
            }
        },
    }
}

pub(crate) fn of_field(error: &FieldError) -> Status {
    Status::invalid_argument(error.to_string())
}
