//! Passphrases asked for at the terminal, which does not show the answers.

use crate::failure::Failure;
use crate::interrupt;
use oboro_rlwe::Passphrase;
use std::io::{self, ErrorKind, IsTerminal};

/// Asks for passphrases; returns `None` if standard input is no terminal. Ctrl-C ends the process with the terminal as it was.
///
/// # Errors
/// An answer that is no text; a terminal that cannot be read.
pub fn prompt(questions: &[&str]) -> Result<Option<Vec<Passphrase>>, Failure> {
    if !io::stdin().is_terminal() {
        return Ok(None);
    }
    let ask = || questions.iter().map(|it| answer(it)).collect();
    interrupt::ends_in_order(ask).map(Some).map_err(|error| {
        let sentence = format!(
            "cannot read the passphrase from the terminal: {error}; give it in a file instead"
        );
        Failure::input(sentence)
    })
}

fn answer(question: &str) -> io::Result<Passphrase> {
    let answer = Passphrase::from(rpassword::prompt_password(question)?);
    // In place of bytes that are not UTF-8, whatever they are.
    if answer.contains(char::REPLACEMENT_CHARACTER) {
        return Err(io::Error::new(ErrorKind::InvalidData, "it is not UTF-8"));
    }
    Ok(answer)
}

/// The passphrase that all answers are; none if they differ or are empty.
pub fn agreed(mut answers: Vec<Passphrase>) -> Option<Passphrase> {
    let last = answers.pop()?;
    let is_one = !last.is_empty() && answers.iter().all(|it| *it == last);
    is_one.then_some(last)
}
