//! Secrets from commands: `--passphrase-command` and `--key-command`.
//!
//! The command runs in a shell. Its output is bounded and never written to disk. Messages contain neither the output
//! nor the command, which may itself contain a secret.

use crate::failure::Failure;
use std::io::Read;
use std::process::{Command, ExitStatus, Stdio};
use zeroize::Zeroizing;

/// Maximum number of bytes of a command's output.
pub const MOST: usize = 4096;

/// Returns the standard output of `command`. `setting` is the source of the command, for errors.
///
/// # Errors
/// A command that cannot be started, fails, or prints nothing or too much.
pub fn output_of(command: &str, setting: &str) -> Result<Zeroizing<Vec<u8>>, Failure> {
    let failed = |problem: String| {
        Failure::from(format!(
            "the command of {setting} {problem}; run it in a shell to see its output"
        ))
    };
    let mut child = in_a_shell(command)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .map_err(|error| failed(format!("cannot be started: {error}")))?;
    // Allocate once: growing would leave copies in freed memory.
    let mut output = Zeroizing::new(Vec::with_capacity(MOST + 1));
    let pipe = child.stdout.take().expect("it is piped");
    let read = pipe.take(MOST as u64 + 1).read_to_end(&mut output);
    if output.len() > MOST {
        // It may print forever.
        let _ = child.kill();
        let _ = child.wait();
        return Err(failed(format!("printed more than {MOST} bytes")));
    }
    let ended = read.and_then(|_| child.wait());
    let status = ended.map_err(|error| failed(format!("cannot be read: {error}")))?;
    if !status.success() {
        return Err(failed(format!("failed ({})", how(status))));
    }
    if output.is_empty() {
        return Err(failed("printed nothing".to_owned()));
    }
    Ok(output)
}

fn how(status: ExitStatus) -> String {
    #[cfg(unix)]
    if let Some(signal) = std::os::unix::process::ExitStatusExt::signal(&status) {
        return format!("ended by signal {signal}");
    }
    format!("exit status {}", status.code().unwrap_or_default())
}

#[cfg(unix)]
fn in_a_shell(command: &str) -> Command {
    let mut shell = Command::new("sh");
    shell.args(["-c", command]);
    shell
}

/// Runs the command in `cmd`. With `/S`, `cmd` strips the outer quotes and takes the rest verbatim.
#[cfg(windows)]
fn in_a_shell(command: &str) -> Command {
    use std::os::windows::process::CommandExt;
    let mut shell = Command::new("cmd");
    shell.raw_arg(format!("/S /C \"{command}\""));
    shell
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(command: &str) -> String {
        output_of(command, "--key-command").unwrap_err().to_string()
    }

    #[test]
    fn what_a_command_prints_comes_whole_or_not_at_all() {
        assert_eq!(**output_of("printf 'a\\0b\\n'", "-").unwrap(), *b"a\0b\n");
        let most = output_of("head -c 4096 /dev/zero", "-").unwrap();
        assert_eq!(most.len(), MOST);
        for (command, problem) in [
            ("head -c 4097 /dev/zero", "printed more than 4096 bytes"),
            ("yes secret", "printed more than 4096 bytes"),
            ("true", "printed nothing"),
            ("echo secret; exit 3", "failed (exit status 3)"),
            ("echo secret; kill -9 $$", "failed (ended by signal 9)"),
        ] {
            let message = refused(command);
            assert!(message.contains(problem), "{message}");
            assert!(message.contains("--key-command"), "{message}");
            assert!(!message.contains("secret"), "{message}");
        }
    }

    #[test]
    fn a_command_has_nothing_to_read() {
        assert_eq!(**output_of("cat; echo end", "-").unwrap(), *b"end\n");
    }
}
