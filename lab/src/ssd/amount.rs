//! Amounts of memory on the command line: bytes, or a share of the memory needed.

use bytesize::ByteSize;
use std::str::FromStr;

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Amount {
    Bytes(u64),
    /// Of the memory that an in-memory server needs.
    Percent(f64),
}

impl Amount {
    pub fn bytes(self, needed_bytes: u64) -> u64 {
        match self {
            Self::Bytes(bytes) => bytes,
            Self::Percent(percent) => (needed_bytes as f64 * percent / 100.0) as u64,
        }
    }
}

impl FromStr for Amount {
    type Err = String;

    fn from_str(given: &str) -> Result<Self, String> {
        let Some(percent) = given.strip_suffix('%') else {
            return given
                .parse::<ByteSize>()
                .map(|size| Self::Bytes(size.as_u64()));
        };
        match percent.parse() {
            Ok(percent) if percent > 0.0 && percent <= 1e3 => Ok(Self::Percent(percent)),
            _ => Err("a share is above 0 % and at most 1000 %".to_owned()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_are_bytes_or_shares() {
        let bytes = |given: &str| given.parse().map(|amount: Amount| amount.bytes(4000));
        assert_eq!(bytes("2KB"), Ok(2000));
        assert_eq!(bytes("7KiB"), Ok(7168));
        assert_eq!(bytes("12.5%"), Ok(500));
        assert_eq!(bytes("125%"), Ok(5000));
        for wrong in ["0%", "-1%", "NaN%", "1e9%", "%", "much"] {
            assert!(bytes(wrong).is_err(), "{wrong}");
        }
    }
}
