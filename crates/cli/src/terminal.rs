//! Questions on the terminal, whose answers it does not show. Where Ctrl-C ends the process, the terminal is as it was.

use crate::failure::Failure;
use crate::interrupt;
use oboro_format::ErrorClass;
use oboro_rlwe::Passphrase;
use parking_lot::{Mutex, MutexGuard};
use std::io::{self, IsTerminal};

/// How the terminal was before a question; `None` while there is none. Whoever changes the terminal holds it.
static BEFORE: Mutex<Option<Before>> = Mutex::new(None);

/// Asks for a passphrase on the terminal, if there is one. Ctrl-C ends the process; Ctrl-D is an empty answer.
///
/// # Errors
/// An answer that is no text or too long for a terminal.
pub fn prompt(question: &str) -> Result<Option<Passphrase>, Failure> {
    if !io::stdin().is_terminal() {
        return Ok(None);
    }
    interrupt::watch();
    ask(question).map_err(|error| {
        let sentence = format!("cannot read the passphrase from the terminal: {error}");
        Failure::of(ErrorClass::Input, sentence)
    })
}

/// The right to change the terminal.
pub struct Held(MutexGuard<'static, Option<Before>>);

/// Keeps questions from changing the terminal.
pub fn hold() -> Held {
    Held(BEFORE.lock())
}

impl Held {
    pub fn is_asking(&self) -> bool {
        self.0.is_some()
    }

    /// Puts the terminal as it was before a question.
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
    use super::{BEFORE, Passphrase, hold};
    use rustix::termios::{
        LocalModes, OptionalActions, SpecialCodeIndex, Termios, tcgetattr, tcsetattr,
    };
    use std::fs::File;
    use std::io::{self, ErrorKind, Read, Write};
    use zeroize::Zeroizing;

    /// The bytes that a terminal gives of one line, its end among them; it drops what is beyond.
    const LINE: usize = 4096;
    /// In place of the key that does something: none does (`_POSIX_VDISABLE`).
    const NO_KEY: u8 = if cfg!(target_os = "linux") { 0 } else { 0xff };

    pub struct Before {
        terminal: File,
        modes: Termios,
    }

    impl Before {
        pub fn restore(&self) {
            // As far as possible.
            let _ = tcsetattr(&self.terminal, OptionalActions::Now, &self.modes);
        }
    }

    pub fn ask(question: &str) -> io::Result<Option<Passphrase>> {
        let Ok(mut terminal) = File::options().read(true).write(true).open("/dev/tty") else {
            return Ok(None);
        };
        silence(&terminal)?;
        let answer = terminal
            .write_all(question.as_bytes())
            .and_then(|()| line(&terminal));
        hold().restore();
        answer.map(Some)
    }

    /// Has the terminal show nothing but the end of the line.
    fn silence(terminal: &File) -> io::Result<()> {
        let mut before = BEFORE.lock();
        let modes = tcgetattr(terminal)?;
        let mut silent = modes.clone();
        silent.local_modes.remove(LocalModes::ECHO);
        let wanted = LocalModes::ECHONL | LocalModes::ICANON | LocalModes::ISIG;
        silent.local_modes.insert(wanted);
        // Ctrl-Z and Ctrl-\ would leave it like that to a shell.
        for key in [SpecialCodeIndex::VSUSP, SpecialCodeIndex::VQUIT] {
            silent.special_codes[key] = NO_KEY;
        }
        let terminal = terminal.try_clone()?;
        tcsetattr(&terminal, OptionalActions::Now, &silent)?;
        *before = Some(Before { terminal, modes });
        Ok(())
    }

    /// A line as a terminal gives it, at once.
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
            return refused("it is too long for a line; give it in a file");
        }
        match str::from_utf8(&bytes[..length]) {
            Ok(line) => Ok(line.strip_suffix('\n').unwrap_or(line).to_owned().into()),
            Err(_) => refused("it is not UTF-8; set the terminal to UTF-8 or give it in a file"),
        }
    }
}

#[cfg(windows)]
use windows::{Before, ask};

#[cfg(windows)]
mod windows {
    use super::{BEFORE, Passphrase};
    use crate::interrupt::INTERRUPTED;
    use std::{io, process};

    /// Not known: where Ctrl-C ends a question, the console may be left without echo.
    pub struct Before;

    impl Before {
        pub fn restore(&self) {}
    }

    pub fn ask(question: &str) -> io::Result<Option<Passphrase>> {
        *BEFORE.lock() = Some(Before);
        let answer = rpassword::prompt_password(question);
        BEFORE.lock().take();
        if answer
            .as_ref()
            .is_err_and(|it| it.kind() == io::ErrorKind::Interrupted)
        {
            process::exit(INTERRUPTED);
        }
        answer.map(|answer| Some(answer.into()))
    }
}
