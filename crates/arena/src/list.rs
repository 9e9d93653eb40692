//! Lists of numbers as the kernel writes them: `0-3,8,10-11`.

use std::collections::BTreeSet;
use std::ops::RangeInclusive;

/// An upper bound on the processors or nodes of any kernel.
const MOST: u32 = 1 << 16;

/// Parses the numbers in a list; `None` if it is malformed. An empty list is well-formed.
pub fn parse(text: &str) -> Option<BTreeSet<u32>> {
    let text = text.trim();
    if text.is_empty() {
        return Some(BTreeSet::new());
    }
    let ranges: Option<Vec<_>> = text.split(',').map(range).collect();
    Some(ranges?.into_iter().flatten().collect())
}

fn range(text: &str) -> Option<RangeInclusive<u32>> {
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    let (first, last) = (first.parse().ok()?, last.parse().ok()?);
    (first <= last && last < MOST).then_some(first..=last)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_hold_numbers_and_ranges() {
        let numbers = |text| parse(text).map(Vec::from_iter);
        assert_eq!(numbers("0-3,8,10-11\n"), Some(vec![0, 1, 2, 3, 8, 10, 11]));
        assert_eq!(numbers("7"), Some(vec![7]));
        assert_eq!(numbers("\n"), Some(vec![]));
        for malformed in ["a", "3-1", "1,,2", "1-", "-1", "0-4294967295", "1 2"] {
            assert_eq!(numbers(malformed), None, "{malformed}");
        }
    }
}
