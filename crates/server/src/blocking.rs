//! Work that blocks, away from the threads that serve connections.

use tonic::Status;
use tracing::Span;

/// Runs `work` on a blocking thread; what it logs belongs to the present call.
pub(crate) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, Status> + Send + 'static,
) -> Result<T, Status> {
    let span = Span::current();
    tokio::task::spawn_blocking(move || span.in_scope(work))
        .await
        .unwrap_or_else(|error| {
            tracing::error!(%error, "a call ended abnormally");
            Err(failed())
        })
}

/// The error of a call in which something panicked.
pub(crate) fn failed() -> Status {
    Status::internal("the server failed while working on this call; its log tells more")
}

#[cfg(test)]
mod tests {
    use super::*;
    use tonic::Code;

    #[tokio::test]
    async fn a_panic_is_an_answer() {
        assert_eq!(blocking(|| Ok(1)).await.unwrap(), 1);
        let status = blocking::<()>(|| panic!("a defect")).await.unwrap_err();
        assert_eq!(status.code(), Code::Internal);
        assert!(!status.message().contains("defect"));
    }
}
