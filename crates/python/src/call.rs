//! Calls that take long: Python's other threads go on meanwhile, Ctrl-C ends them, and a function of the
//! caller's hears how far they are.

use pyo3::exceptions::PyKeyboardInterrupt;
use pyo3::prelude::*;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread;
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// How often the caller's thread looks for signals and tells of progress.
const LOOK: Duration = Duration::from_millis(50);

/// Ends the calls that it was given to, from any thread.
#[pyclass(frozen, module = "oboro._oboro")]
#[derive(Clone, Default)]
pub struct Interrupt(CancellationToken);

#[pymethods]
impl Interrupt {
    #[new]
    fn new() -> Self {
        Self::default()
    }

    /// Ends them, and those that it will be given to.
    fn set(&self) {
        self.0.cancel();
    }
}

/// A call under way, for those who do its work.
#[derive(Default)]
pub struct Call {
    interrupt: Interrupt,
    done: AtomicU64,
    total: AtomicU64,
}

impl Call {
    /// Says that so much of the total is done; break off if nobody waits for the rest any more.
    pub fn advance(&self, done: u64, total: u64) -> ControlFlow<()> {
        self.done.fetch_max(done, Ordering::Relaxed);
        self.total.store(total, Ordering::Relaxed);
        if self.interrupt.0.is_cancelled() {
            ControlFlow::Break(())
        } else {
            ControlFlow::Continue(())
        }
    }

    /// Is cancelled when nobody waits any more.
    pub fn interrupt(&self) -> CancellationToken {
        self.interrupt.0.clone()
    }

    fn tell(&self, progress: &Bound<'_, PyAny>) -> PyResult<()> {
        let total = self.total.load(Ordering::Relaxed);
        let done = self.done.load(Ordering::Relaxed);
        progress.call1((done, total)).map(drop)
    }
}

/// Does `work` on a thread of its own while this one waits without Python's lock. `progress(done, total)`
/// is called now and then, and at the end; what it raises, and what a signal raises, ends the work, and so
/// does `interrupt`.
///
/// # Errors
/// What `work` returns, unless it was ended: then what ended it.
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
                // Nobody listens any more if the caller was interrupted.
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
                    // Signals from here on are Python's own business.
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

/// What came too late to end work that is done: Ctrl-C is raised once its result has been returned.
fn keep_for_later(py: Python<'_>, ended: PyErr) -> PyResult<()> {
    if ended.is_instance_of::<PyKeyboardInterrupt>(py) {
        py.import("_thread")?
            .call_method0("interrupt_main")
            .map(drop)
    } else {
        Err(ended)
    }
}
