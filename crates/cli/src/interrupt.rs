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

/// Whether somebody is asked on the terminal.
static IS_ASKING: AtomicBool = AtomicBool::new(false);
/// Whether there is work that looks at the token.
static IS_LOOKED_AT: AtomicBool = AtomicBool::new(false);

/// Cancelled by Ctrl-C, which from now on ends nothing else. For work that looks at it.
pub fn watched() -> CancellationToken {
    IS_LOOKED_AT.store(true, Ordering::SeqCst);
    watch()
}

/// Asks somebody on the terminal. At Ctrl-C the process ends, but not before the terminal is as it was.
///
/// # Errors
/// Those of `question`.
pub fn asking<T>(question: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
    terminal::remember();
    IS_ASKING.store(true, Ordering::SeqCst);
    watch();
    let answer = question();
    if let Err(error) = &answer
        && error.kind() == io::ErrorKind::Interrupted
    {
        process::exit(INTERRUPTED);
    }
    IS_ASKING.store(false, Ordering::SeqCst);
    answer
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

fn watch() -> CancellationToken {
    static TOKEN: OnceLock<CancellationToken> = OnceLock::new();
    let watch = || {
        let token = CancellationToken::new();
        let cancelled = token.clone();
        if is_ignored() {
            return token;
        }
        // Without the means to watch, the process ends at once, as it would have.
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_io()
            .build();
        if let Ok(runtime) = runtime {
            // Here, and not on that thread: from now on no Ctrl-C is missed.
            let interrupts = {
                let _within = runtime.enter();
                interrupts()
            };
            if let Ok(mut interrupts) = interrupts {
                thread::spawn(move || {
                    runtime.block_on(async {
                        while interrupts.recv().await.is_some() {
                            if IS_ASKING.load(Ordering::SeqCst) && terminal::restore() {
                                process::exit(INTERRUPTED);
                            }
                            if cancelled.is_cancelled() || !IS_LOOKED_AT.load(Ordering::SeqCst) {
                                process::exit(INTERRUPTED);
                            }
                            cancelled.cancel();
                        }
                    });
                });
            }
        }
        token
    };
    TOKEN.get_or_init(watch).clone()
}

#[cfg(unix)]
fn interrupts() -> io::Result<tokio::signal::unix::Signal> {
    signal(SignalKind::interrupt())
}

#[cfg(windows)]
use tokio::signal::windows::ctrl_c as interrupts;

/// How the terminal was before something was asked there.
#[cfg(unix)]
mod terminal {
    use rustix::termios::{OptionalActions, Termios, tcgetattr, tcsetattr};
    use std::io;
    use std::sync::OnceLock;

    static BEFORE: OnceLock<Termios> = OnceLock::new();

    pub fn remember() {
        if let Ok(before) = tcgetattr(io::stdin()) {
            BEFORE.get_or_init(|| before);
        }
    }

    /// Restores what was remembered, as far as possible; false if nothing was.
    pub fn restore() -> bool {
        let Some(before) = BEFORE.get() else {
            return false;
        };
        let _ = tcsetattr(io::stdin(), OptionalActions::Now, before);
        true
    }
}

/// Not done: the console may be left without echo.
#[cfg(windows)]
mod terminal {
    pub fn remember() {}

    pub fn restore() -> bool {
        true
    }
}

/// Whether Ctrl-C is not for this process, as for one that a shell started in the background.
fn is_ignored() -> bool {
    // The signals that are ignored, of which SIGINT is the second.
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mut lines = status.lines();
    let ignored = lines.find_map(|line| line.strip_prefix("SigIgn:"));
    let ignored = ignored.and_then(|it| u64::from_str_radix(it.trim(), 16).ok());
    ignored.is_some_and(|ignored| ignored & 2 != 0)
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
