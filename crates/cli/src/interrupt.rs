//! Ctrl-C: cancels work that can stop in an orderly way and report the remainder and the next step. A second one ends
//! the process immediately, as the first does during other work.

use oboro_client::{ClientError, Connection, Options};
use std::fs;
use std::io;
use std::ops::ControlFlow;
use std::process;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
#[cfg(unix)]
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

/// Exit status of shells for a process that SIGINT ends.
const INTERRUPTED: i32 = 130;

const SIGINT: i32 = 2;

/// `true` once some work checks the token.
static IS_LOOKED_AT: AtomicBool = AtomicBool::new(false);

/// Returns a token that Ctrl-C cancels, without any other effect from now on. For work that checks the token.
pub fn watched() -> CancellationToken {
    IS_LOOKED_AT.store(true, Ordering::SeqCst);
    watch()
}

/// Turns growth of a file beyond a limit (`ulimit -f`) into a write error instead of the end of the process.
#[cfg(unix)]
pub fn outlive_file_limits() {
    let limit = SignalKind::from_raw(rustix::process::Signal::XFSZ.as_raw());
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_io()
        .build();
    if let Ok(runtime) = runtime {
        let _within = runtime.enter();
        // The handler stays for the life of the process, and replaces the default action, which ends it.
        let _ = signal(limit);
    }
}

#[cfg(windows)]
pub fn outlive_file_limits() {}

/// Asks at the terminal. `rpassword` raises SIGINT at Ctrl-C before it restores the terminal, so the process ends only after that.
pub fn ends_in_order<T>(ask: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
    let token = watch();
    let before = IS_LOOKED_AT.swap(true, Ordering::SeqCst);
    let answer = ask();
    IS_LOOKED_AT.store(before, Ordering::SeqCst);
    let is_interrupted = |error: &io::Error| error.kind() == io::ErrorKind::Interrupted;
    if token.is_cancelled() || answer.as_ref().is_err_and(is_interrupted) {
        process::exit(INTERRUPTED);
    }
    answer
}

/// Returns a token that Ctrl-C cancels. Ctrl-C ends the process unless some work checks the token.
fn watch() -> CancellationToken {
    static TOKEN: OnceLock<CancellationToken> = OnceLock::new();
    let watch = || {
        let token = CancellationToken::new();
        let cancelled = token.clone();
        if is_ignored(SIGINT) {
            return token;
        }
        on(interrupts, move || {
            if cancelled.is_cancelled() || !IS_LOOKED_AT.load(Ordering::SeqCst) {
                process::exit(INTERRUPTED);
            }
            cancelled.cancel();
        });
        token
    };
    TOKEN.get_or_init(watch).clone()
}

/// Calls `act` for each of these signals. If that cannot be set up, signals keep their effect.
fn on(signals: impl FnOnce() -> io::Result<Signals>, act: impl Fn() + Send + 'static) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_io()
        .build();
    if let Ok(runtime) = runtime {
        // Register here, not on that thread: no signal is missed from now on.
        let signals = {
            let _within = runtime.enter();
            signals()
        };
        if let Ok(mut signals) = signals {
            thread::spawn(move || {
                runtime.block_on(async {
                    while signals.recv().await.is_some() {
                        act();
                    }
                });
            });
        }
    }
}

#[cfg(unix)]
use tokio::signal::unix::Signal as Signals;

#[cfg(unix)]
fn interrupts() -> io::Result<Signals> {
    signal(SignalKind::interrupt())
}

#[cfg(windows)]
use tokio::signal::windows::{CtrlC as Signals, ctrl_c as interrupts};

/// Returns true if this process ignores a signal, as Ctrl-C for one that a shell started in the background. Always
/// false except on Linux.
fn is_ignored(signal: i32) -> bool {
    // Mask of ignored signals, bit 0 for signal 1.
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mut lines = status.lines();
    let ignored = lines.find_map(|line| line.strip_prefix("SigIgn:"));
    let ignored = ignored.and_then(|it| u64::from_str_radix(it.trim(), 16).ok());
    ignored.is_some_and(|ignored| ignored >> (signal - 1) & 1 == 1)
}

/// Returns `Continue` until the token is cancelled.
pub fn unless(interrupt: &CancellationToken) -> ControlFlow<()> {
    if interrupt.is_cancelled() {
        ControlFlow::Break(())
    } else {
        ControlFlow::Continue(())
    }
}

/// Connects to a server; Ctrl-C cancels calls to it.
///
/// # Errors
/// As [`Connection::open_unless`].
pub fn connect(server: &Options) -> Result<Connection, ClientError> {
    let interrupt = watched();
    let connection = Connection::open_unless(&interrupt, server)?;
    Ok(connection.interrupted_by(interrupt))
}
