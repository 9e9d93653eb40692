//! Errors for callers: a code for programs, a sentence for people. Only the log has paths of the server's files.

use oboro_edge::{RETRY_SOON, busy};
use oboro_engine::EngineError;
use oboro_format::ErrorKind;
use oboro_genome_server::GenomeError;
use oboro_protocol::FieldError;
use oboro_residency::ResidencyError;
use oboro_store::StoreError;
use tonic::{Code, Status};

pub(crate) fn of_store(error: &StoreError) -> Status {
    if let StoreError::Residency(ResidencyError::HeadersInUse { .. }) = error {
        return busy(error.to_string(), RETRY_SOON);
    }
    of_kind(error.kind(), error, error.without_paths())
}

pub(crate) fn of_genome(error: &GenomeError) -> Status {
    of_kind(error.kind(), error, genome_message(error))
}

/// Returns the message for callers.
pub(crate) fn genome_message(error: &GenomeError) -> String {
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

fn of_kind(kind: ErrorKind, error: &dyn std::fmt::Display, message: String) -> Status {
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
    Status::new(code, message)
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
