//! Questions on the terminal, whose answers it does not show. Where Ctrl-C, SIGTERM or SIGHUP ends the process, the terminal
//! is as it was.

use crate::failure::Failure;
use oboro_rlwe::Passphrase;
use parking_lot::{Mutex, MutexGuard};
use std::io::{self, IsTerminal};

/// How the terminal was before questions; `None` while there are none. Locked by whoever changes the terminal.
static BEFORE: Mutex<Option<Before>> = Mutex::new(None);

/// Asks for passphrases on the terminal, if there is one; shows nothing until all have their answers. Ctrl-C ends the
/// process, Ctrl-D an answer.
///
/// # Errors
/// An answer that is no text or too long for a terminal; a terminal that cannot be read.
pub fn prompt(questions: &[&str]) -> Result<Option<Vec<Passphrase>>, Failure> {
    if !io::stdin().is_terminal() {
        return Ok(None);
    }
    ask(questions).map_err(|error| {
        let sentence = format!(
            "cannot read the passphrase from the terminal: {error}; give it in a file instead"
        );
        Failure::input(sentence)
    })
}

/// The passphrase that all answers are; none if they differ or are empty.
pub fn agreed(mut answers: Vec<Passphrase>) -> Option<Passphrase> {
    let last = answers.pop()?;
    let is_one = !last.is_empty() && answers.iter().all(|it| *it == last);
    is_one.then_some(last)
}

/// While there is one, no question changes the terminal.
pub struct TerminalGuard(MutexGuard<'static, Option<Before>>);

pub fn lock() -> TerminalGuard {
    TerminalGuard(BEFORE.lock())
}

impl TerminalGuard {
    pub fn is_asking(&self) -> bool {
        self.0.is_some()
    }

    /// Puts the terminal as it was before questions.
    pub fn restore(&mut self) {
        if let Some(before) = self.0.take() {
            before.restore();
        }
    }
}

#[cfg(unix)]
use unix::{Before, ask};

#[cfg(unix)]
mod unix {
    use super::{Passphrase, lock};
    use crate::interrupt;
    use rustix::process::getpgrp;
    use rustix::termios::{
        InputModes, LocalModes, OptionalActions, QueueSelector, SpecialCodeIndex, Termios, tcflush,
        tcgetattr, tcgetpgrp, tcsetattr,
    };
    use std::fs::File;
    use std::io::{self, ErrorKind, Read, Write};
    use zeroize::Zeroizing;

    /// The bytes that Linux's terminals give of one line, its end among them; they drop what is beyond.
    const LINE: usize = 4096;
    /// In place of the key that does something: none does (`_POSIX_VDISABLE`).
    const NO_KEY: u8 = if cfg!(target_os = "linux") { 0 } else { 0xff };

    pub struct Before {
        terminal: File,
        modes: Termios,
    }

    impl Before {
        pub fn restore(&self) {
            // In the background the terminal is a shell's, which has its own modes.
            if tcgetpgrp(&self.terminal) == Ok(getpgrp()) {
                // As far as possible.
                let _ = change(&self.terminal, &self.modes);
            }
        }
    }

    pub fn ask(questions: &[&str]) -> io::Result<Option<Vec<Passphrase>>> {
        let Ok(mut terminal) = File::options().read(true).write(true).open("/dev/tty") else {
            return Ok(None);
        };
        // Stops the process while it is in the background. Signals end it there as they end others: only then are they watched.
        tcflush(&terminal, QueueSelector::IFlush)?;
        interrupt::watch();
        interrupt::restore_the_terminal_when_ended();
        silence(&terminal)?;
        let answers = questions.iter().map(|question| {
            terminal.write_all(question.as_bytes())?;
            line(&terminal)
        });
        let answers: io::Result<Vec<_>> = answers.collect();
        lock().restore();
        Ok(Some(answers?))
    }

    /// Sets modes and drops what was typed: it is no answer, and if it is a part of one, not for who reads next.
    fn change(terminal: &File, modes: &Termios) -> io::Result<()> {
        tcsetattr(terminal, OptionalActions::Now, modes)?;
        Ok(tcflush(terminal, QueueSelector::IFlush)?)
    }

    /// Has the terminal show nothing but the ends of lines.
    fn silence(terminal: &File) -> io::Result<()> {
        let mut guard = lock();
        let modes = tcgetattr(terminal)?;
        let mut silent = modes.clone();
        silent.local_modes.remove(LocalModes::ECHO);
        let wanted = LocalModes::ECHONL | LocalModes::ICANON | LocalModes::ISIG;
        silent.local_modes.insert(wanted);
        silent.input_modes.remove(InputModes::IGNCR);
        silent.input_modes.insert(InputModes::ICRNL);
        // Ctrl-Z and Ctrl-\ would leave it like that to a shell.
        for key in [SpecialCodeIndex::VSUSP, SpecialCodeIndex::VQUIT] {
            silent.special_codes[key] = NO_KEY;
        }
        let terminal = terminal.try_clone()?;
        change(&terminal, &silent)?;
        *guard.0 = Some(Before { terminal, modes });
        Ok(())
    }

    /// A line: a terminal gives it by one read, whether it ends with the line or with Ctrl-D.
    fn line(mut terminal: &File) -> io::Result<Passphrase> {
        let mut bytes = Zeroizing::new([0; LINE]);
        let length = loop {
            match terminal.read(&mut bytes[..]) {
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                read => break read?,
            }
        };
        let refused = |why: &str| Err(io::Error::new(ErrorKind::InvalidData, why));
        if length == LINE {
            return refused("it is too long for a line");
        }
        match str::from_utf8(&bytes[..length]) {
            Ok(line) => Ok(line.strip_suffix('\n').unwrap_or(line).to_owned().into()),
            Err(_) => refused("it is not UTF-8"),
        }
    }
}

#[cfg(windows)]
use windows::{Before, ask};

#[cfg(windows)]
mod windows {
    use super::{BEFORE, Passphrase};
    use crate::interrupt::{self, INTERRUPTED};
    use std::{io, process};

    /// Not known: where Ctrl-C ends a question, the console may be left without echo.
    pub struct Before;

    impl Before {
        pub fn restore(&self) {}
    }

    pub fn ask(questions: &[&str]) -> io::Result<Option<Vec<Passphrase>>> {
        interrupt::watch();
        *BEFORE.lock() = Some(Before);
        let ask = |it: &&str| rpassword::prompt_password(it).map(Passphrase::from);
        let answers: io::Result<Vec<_>> = questions.iter().map(ask).collect();
        BEFORE.lock().take();
        if answers
            .as_ref()
            .is_err_and(|it| it.kind() == io::ErrorKind::Interrupted)
        {
            process::exit(INTERRUPTED);
        }
        answers.map(Some)
    }
}
