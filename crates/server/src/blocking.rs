//! Blocking work, off the threads that serve connections.

use std::any::Any;
use std::sync::Arc;
use tonic::Status;
use tracing::Span;

tokio::task_local! {
    /// Resources of the current call, held while it works. Blocking work holds them after its caller has disconnected,
    /// for it cannot be interrupted.
    static HELD: Arc<dyn Any + Send + Sync>;
}

/// Holds `held` until `call` and all blocking work that it started have ended.
pub(crate) async fn holding<T>(
    held: Arc<dyn Any + Send + Sync>,
    call: impl Future<Output = T>,
) -> T {
    HELD.scope(held, call).await
}

/// Runs `work` on a blocking thread, in the span of the current call.
pub(crate) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, Status> + Send + 'static,
) -> Result<T, Status> {
    let (span, held) = (Span::current(), HELD.try_with(Arc::clone).ok());
    let work = move || {
        let worked = span.in_scope(work);
        drop(held);
        worked
    };
    tokio::task::spawn_blocking(work)
        .await
        .unwrap_or_else(|error| {
            tracing::error!(%error, "a call ended abnormally");
            Err(failed())
        })
}

/// Returns the error of a call in which something panicked.
pub(crate) fn failed() -> Status {
    Status::internal("the server failed while working on this call; its log has details")
}

#[cfg(test)]
mod tests {
    use super::*;
    use tonic::Code;

    #[tokio::test]
    async fn what_a_call_holds_is_held_until_its_work_has_ended() {
        let (begun, has_begun) = tokio::sync::oneshot::channel();
        let (end, may_end) = std::sync::mpsc::channel::<()>();
        let held = Arc::new(());
        let weak = Arc::downgrade(&held);
        let call = holding(held, async move {
            blocking(move || {
                let _ = begun.send(());
                let _ = may_end.recv();
                Ok(())
            })
            .await
        });
        let call = tokio::spawn(call);
        has_begun.await.unwrap();
        // The caller disconnects, and the work continues.
        call.abort();
        assert!(call.await.unwrap_err().is_cancelled());
        assert!(weak.upgrade().is_some());
        drop(end);
        while weak.upgrade().is_some() {
            tokio::task::yield_now().await;
        }
    }

    #[tokio::test]
    async fn a_panic_is_an_answer() {
        assert_eq!(blocking(|| Ok(1)).await.unwrap(), 1);
        let status = blocking::<()>(|| panic!("a defect")).await.unwrap_err();
        assert_eq!(status.code(), Code::Internal);
        assert!(!status.message().contains("defect"));
    }
}
