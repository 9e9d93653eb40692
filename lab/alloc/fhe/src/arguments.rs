//! The command line.

use crate::places::Policy;
use std::error::Error;
use std::num::NonZero;
use std::str::FromStr;

const USAGE: &str = "usage: fhe-support [--columns N] [--placement item|transaction|random] THREADS ROUNDS, \
     with 2 columns at least";

/// What to count, how often, and where.
pub struct Arguments {
    /// At least 2.
    pub columns: usize,
    pub placement: Option<Policy>,
    pub threads: NonZero<usize>,
    /// At least 1.
    pub rounds: usize,
}

impl Arguments {
    /// # Errors
    ///
    /// Arguments that do not match the usage.
    pub fn read(given: impl Iterator<Item = String>) -> Result<Self, Box<dyn Error>> {
        Self::parse(given).ok_or_else(|| USAGE.into())
    }

    fn parse(mut given: impl Iterator<Item = String>) -> Option<Self> {
        let (mut columns, mut placement, mut numbers) = (9, None, Vec::new());
        while let Some(word) = given.next() {
            match word.as_str() {
                "--columns" => columns = positive(&given.next()?)?.get(),
                "--placement" => placement = Some(Policy::from_str(&given.next()?).ok()?),
                number => numbers.push(positive(number)?),
            }
        }
        let &[threads, rounds] = numbers.as_slice() else {
            return None;
        };
        (columns >= 2).then_some(Self {
            columns,
            placement,
            threads,
            rounds: rounds.get(),
        })
    }
}

fn positive(text: &str) -> Option<NonZero<usize>> {
    text.parse().ok()
}
