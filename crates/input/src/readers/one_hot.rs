//! Cells of tables with a column for each item: yes or no, or a count.

/// Notation of the cells of a one-hot table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Writing {
    /// 1 and 0, true and false.
    Plain,
    YesNo,
    /// `t` and `f`.
    TrueFalse,
    YN,
}

/// Returns true if a one-hot cell is set, with its notation; `None` for other cells.
pub(super) fn one_hot(cell: &str) -> Option<(bool, Writing)> {
    match count(cell) {
        Some(count @ (0 | 1)) => return Some((count == 1, Writing::Plain)),
        Some(_) => return None,
        None => {}
    }
    let words = [
        ("true", "false", Writing::Plain),
        ("yes", "no", Writing::YesNo),
        ("t", "f", Writing::TrueFalse),
        ("y", "n", Writing::YN),
    ];
    words.iter().find_map(|&(set, clear, writing)| {
        let set = cell.eq_ignore_ascii_case(set);
        (set || cell.eq_ignore_ascii_case(clear)).then_some((set, writing))
    })
}

/// Parses a non-negative integer, possibly followed by a point or comma and zeros.
pub(super) fn count(cell: &str) -> Option<u64> {
    let (whole, decimals) = cell.split_once(['.', ',']).unwrap_or((cell, "0"));
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|it| it.is_ascii_digit());
    // Three zeros after a comma may be a thousands group.
    let thousands = cell.contains(',') && decimals.len() > 2;
    if !digits(whole) || !digits(decimals) || decimals.bytes().any(|it| it != b'0') || thousands {
        return None;
    }
    Some(whole.parse().unwrap_or(u64::MAX))
}
