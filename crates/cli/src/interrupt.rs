//! Ctrl-C: work that can be ended in order is, and says what is left and what to do next. A second one ends the process at
//! once, as the first does anywhere else.

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

/// As shells have it for a process that SIGINT ends.
const INTERRUPTED: i32 = 130;

const SIGINT: i32 = 2;

/// Whether there is work that looks at the token.
static IS_LOOKED_AT: AtomicBool = AtomicBool::new(false);

/// Cancelled by Ctrl-C, which from now on ends nothing else. For work that looks at it.
pub fn watched() -> CancellationToken {
    IS_LOOKED_AT.store(true, Ordering::SeqCst);
    watch()
}

/// Has a file that grows beyond a limit (`ulimit -f`) be an error of writing, and not the end of the process.
#[cfg(unix)]
pub fn outlive_file_limits() {
    let limit = SignalKind::from_raw(rustix::process::Signal::XFSZ.as_raw());
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_io()
        .build();
    if let Ok(runtime) = runtime {
        let _within = runtime.enter();
        // Its handler stays for as long as the process, and takes the place of the action that would end it.
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

/// Cancelled by Ctrl-C, which ends the process unless there is work that looks at the token.
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

/// Calls the function for each of these signals. Without the means to, signals do what they would have done.
fn on(signals: impl FnOnce() -> io::Result<Signals>, act: impl Fn() + Send + 'static) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_io()
        .build();
    if let Ok(runtime) = runtime {
        // Here, and not on that thread: from now on no signal is missed.
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

/// Whether a signal is not for this process, as Ctrl-C for one that a shell started in the background. Only Linux tells.
fn is_ignored(signal: i32) -> bool {
    // The signals that are ignored, a bit each from the first on.
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mut lines = status.lines();
    let ignored = lines.find_map(|line| line.strip_prefix("SigIgn:"));
    let ignored = ignored.and_then(|it| u64::from_str_radix(it.trim(), 16).ok());
    ignored.is_some_and(|ignored| ignored >> (signal - 1) & 1 == 1)
}

/// Whether work goes on.
pub fn unless(interrupt: &CancellationToken) -> ControlFlow<()> {
    if interrupt.is_cancelled() {
        ControlFlow::Break(())
    } else {
        ControlFlow::Continue(())
    }
}

/// Connects to a server; Ctrl-C ends calls to it.
///
/// # Errors
/// As [`Connection::open_unless`].
pub fn connect(server: &Options) -> Result<Connection, ClientError> {
    let interrupt = watched();
    let connection = Connection::open_unless(&interrupt, server)?;
    Ok(connection.interrupted_by(interrupt))
}
