//! Long-running calls, which release Python's lock, end with Ctrl-C, and report progress to a callback.

use oboro_client::Wait;
use pyo3::exceptions::PyKeyboardInterrupt;
use pyo3::prelude::*;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread;
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// Interval at which the caller's thread checks for signals and reports progress.
const LOOK: Duration = Duration::from_millis(50);

/// Logs the waits of a call to Python's logging.
pub fn waits(wait: Wait) {
    // Failures are ignored: logging is the application's concern.
    let _ = Python::attach(|py| {
        let logger = py
            .import("logging")?
            .call_method1("getLogger", ("oboro",))?;
        logger.call_method1("warning", (wait.to_string(),))?;
        PyResult::Ok(())
    });
}

/// Cancels the calls that it was passed to, from any thread.
#[pyclass(frozen, module = "oboro._oboro")]
#[derive(Clone, Default)]
pub struct Interrupt(CancellationToken);

#[pymethods]
impl Interrupt {
    #[new]
    fn new() -> Self {
        Self::default()
    }

    /// Cancels its calls, including future ones.
    fn set(&self) {
        self.0.cancel();
    }
}

/// Call in progress, as seen by its worker thread.
#[derive(Default)]
pub struct Call {
    interrupt: Interrupt,
    done: AtomicU64,
    total: AtomicU64,
}

impl Call {
    /// Reports progress; breaks if the call was cancelled.
    pub fn advance(&self, done: u64, total: u64) -> ControlFlow<()> {
        self.done.fetch_max(done, Ordering::Relaxed);
        self.total.store(total, Ordering::Relaxed);
        if self.interrupt.0.is_cancelled() {
            ControlFlow::Break(())
        } else {
            ControlFlow::Continue(())
        }
    }

    /// Returns a token that is cancelled with the call.
    pub fn interrupt(&self) -> CancellationToken {
        self.interrupt.0.clone()
    }

    fn tell(&self, progress: &Bound<'_, PyAny>) -> PyResult<()> {
        let total = self.total.load(Ordering::Relaxed);
        let done = self.done.load(Ordering::Relaxed);
        progress.call1((done, total)).map(drop)
    }
}

/// Runs `work` on a separate thread while this one waits without Python's lock. Calls `progress(done, total)` regularly
/// and at the end. An exception that it raises, a signal, or `interrupt` cancels the work.
///
/// # Errors
/// The error of `work`, or the cause of its cancellation.
pub fn run<T: Send, E: Send + Into<PyErr>>(
    py: Python<'_>,
    progress: Option<Bound<'_, PyAny>>,
    interrupt: Option<&Interrupt>,
    work: impl FnOnce(&Call) -> Result<T, E> + Send,
) -> PyResult<T> {
    let progress = progress.map(Bound::unbind);
    let call = Call {
        interrupt: interrupt.cloned().unwrap_or_default(),
        ..Call::default()
    };
    let call = &call;
    py.detach(|| {
        let look = || {
            Python::attach(|py| {
                py.check_signals()?;
                match &progress {
                    Some(progress) => call.tell(progress.bind(py)),
                    None => Ok(()),
                }
            })
        };
        thread::scope(|scope| {
            let (ended, end) = channel();
            let worker = thread::Builder::new().spawn_scoped(scope, move || {
                let outcome = work(call);
                // The receiver is dropped if the caller was interrupted.
                let _ = ended.send(());
                outcome
            })?;
            let mut looked = Ok(());
            while looked.is_ok() && end.recv_timeout(LOOK) == Err(RecvTimeoutError::Timeout) {
                looked = look();
            }
            if looked.is_err() {
                call.interrupt.0.cancel();
            }
            let outcome = worker
                .join()
                .unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            match (outcome.map_err(Into::into), looked) {
                (Ok(outcome), Err(ended)) => Python::attach(|py| {
                    keep_for_later(py, ended)?;
                    Ok(outcome)
                }),
                (Ok(outcome), Ok(())) => {
                    // Python handles signals itself from here on.
                    Python::attach(|py| match &progress {
                        Some(progress) => call.tell(progress.bind(py)),
                        None => Ok(()),
                    })?;
                    Ok(outcome)
                }
                (Err(_), Err(ended)) => Err(ended),
                (Err(error), Ok(())) => Err(error),
            }
        })
    })
}

/// Handles a cancellation that arrived after the work was done: Ctrl-C is raised once the result has been returned.
fn keep_for_later(py: Python<'_>, ended: PyErr) -> PyResult<()> {
    if ended.is_instance_of::<PyKeyboardInterrupt>(py) {
        py.import("_thread")?
            .call_method0("interrupt_main")
            .map(drop)
    } else {
        Err(ended)
    }
}
