//! Dataset ids and BLAKE3 digests, written as lowercase hex. Both are public. The owner draws ids, not this module.

use std::fmt;
use std::str::FromStr;
use thiserror::Error;

/// Error of text that is not a valid id or digest.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{text:?} is not a {what}: that is {digits} hexadecimal digits.")]
pub struct ParseError {
    text: String,
    what: &'static str,
    digits: usize,
}

macro_rules! hex_name {
    ($name:ident, $bytes:literal, $what:literal) => {
        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{}({self})", stringify!($name))
            }
        }

        impl FromStr for $name {
            type Err = ParseError;

            fn from_str(text: &str) -> Result<Self, ParseError> {
                decode(text).map(Self).ok_or_else(|| ParseError {
                    text: text.chars().take(80).collect(),
                    what: $what,
                    digits: 2 * $bytes,
                })
            }
        }
    };
}

/// Decodes exactly `2 * N` hexadecimal digits of either case.
fn decode<const N: usize>(text: &str) -> Option<[u8; N]> {
    let digit = |character: u8| char::from(character).to_digit(16);
    let mut bytes = [0; N];
    if text.len() != 2 * N {
        return None;
    }
    for (byte, pair) in bytes.iter_mut().zip(text.as_bytes().chunks_exact(2)) {
        *byte = (digit(pair[0])? << 4 | digit(pair[1])?) as u8;
    }
    Some(bytes)
}

/// Id of a dataset: random, globally unique, never reused.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct DatasetId(pub [u8; 16]);
hex_name!(DatasetId, 16, "dataset id");

/// BLAKE3 digest.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Digest(pub [u8; 32]);
hex_name!(Digest, 32, "digest");

impl Digest {
    /// Returns the plain BLAKE3 digest of `bytes`.
    pub fn of(bytes: &[u8]) -> Self {
        Self(*blake3::hash(bytes).as_bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hex_round_trips_and_bad_hex_is_refused() {
        let id = DatasetId([0xa5; 16]);
        assert_eq!(id.to_string(), "a5".repeat(16));
        assert_eq!(id.to_string().parse::<DatasetId>().unwrap(), id);
        assert_eq!("A5".repeat(16).parse::<DatasetId>().unwrap(), id);
        let digest = Digest::of(b"");
        assert_eq!(digest.to_string().parse::<Digest>().unwrap(), digest);
        for bad in [
            "",
            "a5",
            "zz",
            &"zz".repeat(16),
            &"+5".repeat(16),
            &"a5".repeat(17),
            &"é".repeat(16),
        ] {
            let error = bad.parse::<DatasetId>().unwrap_err().to_string();
            assert!(error.contains("32 hexadecimal digits"), "{error}");
        }
    }
}
