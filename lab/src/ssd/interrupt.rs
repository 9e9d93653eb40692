//! Handles Ctrl-C while swap is on: the measured server is killed, calls that wait for it fail, and everything is
//! undone on the way out, as after any failure.

use crate::output::Failure;
use parking_lot::{Mutex, MutexGuard};
use rustix::process::{Pid, Signal, kill_process};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use tokio::signal::unix::{SignalKind, signal};

/// Whether this process received a termination signal.
#[derive(Clone, Default)]
pub struct Interrupt(Arc<State>);

#[derive(Default)]
struct State {
    raised: AtomicBool,
    /// The process to kill first.
    child: Mutex<Option<Pid>>,
}

/// While it exists, an interrupt kills the child; it must be dropped before the child is waited for.
pub struct Guard<'i>(&'i Interrupt);

impl Interrupt {
    /// Installs handlers: from now on, termination signals only raise the interrupt.
    pub fn watch() -> Result<Self, Failure> {
        let interrupt = Self::default();
        let raised = interrupt.clone();
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        let (mut interrupts, mut terminations, mut hangups) = {
            let _entered = runtime.enter();
            (
                signal(SignalKind::interrupt())?,
                signal(SignalKind::terminate())?,
                signal(SignalKind::hangup())?,
            )
        };
        thread::spawn(move || {
            runtime.block_on(async {
                loop {
                    tokio::select! {
                        _ = interrupts.recv() => raised.raise(),
                        _ = terminations.recv() => raised.raise(),
                        _ = hangups.recv() => raised.raise(),
                    }
                }
            });
        });
        Ok(interrupt)
    }

    fn raise(&self) {
        self.0.raised.store(true, Ordering::SeqCst);
        self.end_child();
    }

    fn end_child(&self) {
        if let Some(child) = *self.lock() {
            // It may have exited already; it has not been waited for.
            let _ = kill_process(child, Signal::KILL);
        }
    }

    /// An error if it was raised.
    pub fn check(&self) -> Result<(), String> {
        if self.0.raised.load(Ordering::SeqCst) {
            Err("interrupted; run it again to measure".to_owned())
        } else {
            Ok(())
        }
    }

    /// Kills the child when it is raised, or if it already was.
    pub fn guard(&self, child: Pid) -> Guard<'_> {
        *self.lock() = Some(child);
        if self.check().is_err() {
            self.end_child();
        }
        Guard(self)
    }

    fn lock(&self) -> MutexGuard<'_, Option<Pid>> {
        self.0.child.lock()
    }
}

impl Drop for Guard<'_> {
    fn drop(&mut self) {
        *self.0.lock() = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Child, Command};

    fn sleeper() -> Child {
        Command::new("sleep").arg("600").spawn().unwrap()
    }

    #[test]
    fn guarded_children_end_before_and_after() {
        let interrupt = Interrupt::default();
        let (mut early, mut late, mut free) = (sleeper(), sleeper(), sleeper());
        drop(interrupt.guard(Pid::from_child(&free)));
        let guard = interrupt.guard(Pid::from_child(&early));
        assert!(interrupt.check().is_ok());
        interrupt.raise();
        drop(guard);
        assert!(interrupt.check().unwrap_err().contains("interrupted"));
        assert!(!early.wait().unwrap().success());
        let guard = interrupt.guard(Pid::from_child(&late));
        drop(guard);
        assert!(!late.wait().unwrap().success());
        assert!(free.try_wait().unwrap().is_none(), "it was guarded no more");
        free.kill().unwrap();
        free.wait().unwrap();
    }
}
