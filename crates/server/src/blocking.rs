//! Work that blocks, away from the threads that serve connections.

use std::any::Any;
use std::sync::Arc;
use tonic::Status;
use tracing::Span;

tokio::task_local! {
    /// What the present call holds as long as it works: also when its caller has gone, since nothing ends what blocks.
    static HELD: Arc<dyn Any + Send + Sync>;
}

/// Has a call hold something as long as `call` or anything that it has begun on blocking threads goes on.
pub(crate) async fn holding<T>(
    held: Arc<dyn Any + Send + Sync>,
    call: impl Future<Output = T>,
) -> T {
    HELD.scope(held, call).await
}

/// Runs `work` on a blocking thread; what it logs belongs to the present call.
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

/// The error of a call in which something panicked.
pub(crate) fn failed() -> Status {
    Status::internal("the server failed while working on this call; its log tells more")
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
        // The caller goes, and the work goes on.
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
