//! Ctrl-C: work that can be ended in order is, and says what is left and what to do next. A second one ends the process at
//! once, as the first does anywhere else.

use oboro_client::{ClientError, Connection, Options};
use std::fs;
use std::ops::ControlFlow;
use std::process;
use std::sync::OnceLock;
use std::thread;
use tokio::signal;
use tokio_util::sync::CancellationToken;

/// As shells have it for a process that SIGINT ends.
const INTERRUPTED: i32 = 130;

/// Cancelled by Ctrl-C, which from now on ends nothing else. For work that looks at it, with no questions to people.
pub fn watched() -> CancellationToken {
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
            thread::spawn(move || {
                runtime.block_on(async {
                    if signal::ctrl_c().await.is_ok() {
                        cancelled.cancel();
                        if signal::ctrl_c().await.is_ok() {
                            process::exit(INTERRUPTED);
                        }
                    }
                });
            });
        }
        token
    };
    TOKEN.get_or_init(watch).clone()
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
