//! Rules for names of items and of transactions: cells without a name, names that a spreadsheet has damaged, and
//! Unicode forms.
//!
//! Doubts are about the first cell with a name. [`Missing::Item`] settles all of them, since it makes every cell a
//! name.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};

use unicode_normalization::{IsNormalized, UnicodeNormalization, is_nfc_quick};

use super::error::{Excerpt, ReadError, Remedy};
use super::values::{Missing, Unicode};
use crate::text::{REPLACEMENT, described, invisible_in, is_control, without_invisible};
use crate::transactions::{Transactions, TransactionsError};
use oboro_format::wording::{MISSING, UNICODE};

/// Words for no value, in lower case: those of pandas, databases and statistical software, and of people.
const WORDS: [&str; 28] = [
    "#n/a",
    "#n/a n/a",
    "#na",
    "#nv",
    "-1.#ind",
    "-1.#qnan",
    "-nan",
    "1.#ind",
    "1.#qnan",
    "\\n",
    "n.a",
    "n.a.",
    "n/a",
    "n/d",
    "na",
    "nan",
    "nat",
    "nil",
    "no data",
    "no value",
    "none",
    "not applicable",
    "not available",
    "not recorded",
    "null",
    "undefined",
    "missing",
    "k.a.",
];
/// Words for no value in brackets, as `(blank)` in a pivot table.
const IN_BRACKETS: [&str; 10] = [
    "blank",
    "empty",
    "en blanco",
    "leer",
    "not provided",
    "not set",
    "unknown",
    "unspecified",
    "vide",
    "vuoto",
];
/// The length of the longest word with its brackets.
const LONGEST_WORD: usize = 18;
/// Numbers that stand for a missing name.
const SENTINELS: [&str; 6] = ["-1", "-2", "-9", "-99", "-999", "-9999"];

/// Returns true if a cell has no value: it is blank, a word for it, only punctuation, or an error of a spreadsheet.
pub(super) fn is_missing(cell: &str) -> bool {
    let cell = cell.trim();
    // Decides most cells by their first character.
    match cell.bytes().next() {
        None => return true,
        Some(b'0'..=b'9') => return cell.starts_with("1.#") && is_word(cell),
        Some(it) if it.is_ascii_alphabetic() && !b"nmukeNMUKE".contains(&it) => return false,
        Some(_) => {}
    }
    cell.chars().all(is_punctuation)
        || is_spreadsheet_error(cell)
        || cell.len() <= LONGEST_WORD && is_word(cell)
}

fn is_word(cell: &str) -> bool {
    let among = |words: &[&str], cell: &str| words.iter().any(|it| it.eq_ignore_ascii_case(cell));
    let brackets = [('(', ')'), ('[', ']'), ('<', '>'), ('{', '}')];
    let inside = brackets
        .iter()
        .find_map(|&(open, close)| cell.strip_prefix(open)?.strip_suffix(close));
    match inside.map(str::trim) {
        Some(inside) => among(&WORDS, inside) || among(&IN_BRACKETS, inside),
        None => among(&WORDS, cell),
    }
}

/// Returns true for characters that name nothing by themselves, as `?`, `.`, `-` and the ditto mark.
fn is_punctuation(c: char) -> bool {
    c.is_ascii_punctuation() || c == ' ' || "–—―−‐‑…·•¿¡‘’“”„«»〃".contains(c)
}

/// Returns true for error values of a spreadsheet: `#REF!`, `#DIV/0!`, `#NAME?`, `#WERT!`, `#N/A`, `Err:502`.
fn is_spreadsheet_error(cell: &str) -> bool {
    let is_digits = |text: &str| !text.is_empty() && text.bytes().all(|it| it.is_ascii_digit());
    if let Some(code) = cell.strip_prefix("Err:") {
        return is_digits(code);
    }
    let Some(error) = cell.strip_prefix('#') else {
        return false;
    };
    let is_letter = |c: char| c.is_uppercase() || "/0_¡¿".contains(c);
    let letters = error.strip_suffix(['!', '?']);
    letters.is_some_and(|it| !it.is_empty() && it.chars().all(is_letter))
        // `#N/A` in other languages: `#N/B`, `#N/D`, `#I/T`.
        || matches!(error.as_bytes(), [a, b'/', b] if a.is_ascii_uppercase() && b.is_ascii_uppercase())
}

/// Returns true for a long number as a spreadsheet rounds it: `1.23E+11`.
fn is_rounded(cell: &str) -> bool {
    let Some((mantissa, exponent)) = cell.split_once(['E', 'e']) else {
        return false;
    };
    let digits = |text: &str| text.bytes().all(|it| it.is_ascii_digit());
    let exponent = exponent.strip_prefix('+').unwrap_or_default();
    let (whole, decimals) = mantissa.split_once(['.', ',']).unwrap_or((mantissa, ""));
    let whole = whole.strip_prefix('-').unwrap_or(whole);
    (2..=3).contains(&exponent.len())
        && digits(exponent)
        && whole.len() == 1
        && digits(whole)
        && digits(decimals)
}

/// Doubt about a name, with its remedies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Doubt {
    pub(super) what: String,
    pub(super) remedies: Vec<Remedy>,
}

impl Doubt {
    pub(super) fn new(what: String, remedies: impl Into<Vec<Remedy>>) -> Self {
        let remedies = remedies.into();
        Self { what, remedies }
    }
}

/// Rules for the names of items.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NameRules {
    /// The meaning of names such as `NA` and `?`.
    pub missing: Option<Missing>,
    /// The Unicode form; NFC by default.
    pub unicode: Option<Unicode>,
}

impl NameRules {
    fn form(self) -> Unicode {
        self.unicode.unwrap_or(Unicode::Nfc)
    }

    /// Returns the name of an item in its Unicode form; `None` if it means that the item is absent.
    ///
    /// # Errors
    /// The name is in doubt. `place` is its position, for the message.
    pub fn item<'n>(
        self,
        name: &'n str,
        place: &str,
    ) -> Result<Option<Cow<'n, str>>, Box<ReadError>> {
        let checked = if name.trim().is_empty() {
            self.check_blank(name)
        } else {
            self.check_item(name)
        };
        match checked {
            Ok(true) => Ok(Some(normal(name, self.form()))),
            Ok(false) => Ok(None),
            Err(Doubt { what, remedies }) => Err(Box::new(ReadError::Doubtful {
                file: place.to_owned(),
                line: None,
                what,
                remedies,
            })),
        }
    }

    /// Checks an item's name, which is not empty; `false` if it means that the item is absent.
    pub(super) fn check_item(self, name: &str) -> Result<bool, Doubt> {
        self.check_characters(name)?;
        if self.missing == Some(Missing::Item) {
            return Ok(true);
        }
        let shown = Excerpt::new(name);
        let kept = Remedy::new(MISSING.to("item"), "if that is an item's name");
        if is_rounded(name.trim()) {
            let what = format!(
                "{shown} is a number that a spreadsheet rounded, so that several items may have become one; format its column as text there, and export it again"
            );
            return Err(Doubt::new(what, [kept]));
        }
        let is_blank = name.trim().is_empty();
        let is_sentinel = SENTINELS.contains(&name.trim());
        if is_blank || !is_sentinel && !is_missing(name) {
            return Ok(true);
        }
        self.check_blank(name)
    }

    /// Checks a name that may mean that the item is absent; `false` if it does.
    fn check_blank(self, name: &str) -> Result<bool, Doubt> {
        match self.missing {
            Some(Missing::Absent) => return Ok(false),
            Some(Missing::Item) => return Ok(true),
            None => {}
        }
        let error = if is_spreadsheet_error(name.trim()) {
            ", an error of a spreadsheet,"
        } else {
            ""
        };
        let shown = Excerpt::new(name);
        Err(Doubt::new(
            format!("{shown}{error} may be an item or say that none is there"),
            [
                Remedy::new(MISSING.to("absent"), "if no item is there"),
                Remedy::new(MISSING.to("item"), "if that is an item's name"),
            ],
        ))
    }

    /// Checks the identifier of a transaction.
    pub(super) fn check_id(self, id: &str) -> Result<(), Doubt> {
        self.check_characters(id)?;
        if self.missing == Some(Missing::Item) {
            return Ok(());
        }
        let id = id.trim();
        let shown = Excerpt::new(id);
        let kept = [Remedy::new(MISSING.to("item"), "if it is one nevertheless")];
        if is_rounded(id) {
            return Err(Doubt::new(
                format!(
                    "the transaction {shown} is a number that a spreadsheet rounded, so that several transactions may have become one; format its column as text there, and export it again"
                ),
                kept,
            ));
        }
        if is_missing(id) || SENTINELS.contains(&id) {
            let what = format!("{shown} does not seem to name a transaction; fill in the column");
            return Err(Doubt::new(what, kept));
        }
        Ok(())
    }

    fn check_characters(self, name: &str) -> Result<(), Doubt> {
        if name.bytes().all(|it| matches!(it, b' '..=b'~')) {
            return Ok(());
        }
        let shown = Excerpt::new(name);
        if let Some(c) = name.chars().find(|&c| is_control(c)) {
            return Err(Doubt::new(
                format!(
                    "{shown} has {} in it; take it out of the file",
                    described(c)
                ),
                [],
            ));
        }
        let Some(c) = invisible_in(name).filter(|_| self.form() != Unicode::AsIs) else {
            return Ok(());
        };
        if c == REPLACEMENT {
            return Err(Doubt::new(
                format!(
                    "{shown} has {} in it, which stands for text that was lost when the file was converted; convert the original again",
                    described(c)
                ),
                [Remedy::new(
                    UNICODE.to("as-is"),
                    "if it belongs to the name",
                )],
            ));
        }
        if self.form() == Unicode::Nfkc {
            return Ok(());
        }
        Err(Doubt::new(
            format!("{shown} has {} in it, which does not show", described(c)),
            [
                Remedy::new(UNICODE.to("nfkc"), "to have it removed"),
                Remedy::new(UNICODE.to("as-is"), "if it belongs to the name"),
            ],
        ))
    }
}

fn is_variation_selector(c: char) -> bool {
    matches!(c, '\u{fe00}'..='\u{fe0f}' | '\u{e0100}'..='\u{e01ef}')
}

/// Converts a name to a Unicode form.
pub(super) fn normal(name: &str, form: Unicode) -> Cow<'_, str> {
    if name.is_ascii() || form == Unicode::AsIs {
        return name.into();
    }
    if form == Unicode::Nfc {
        return if is_nfc_quick(name.chars()) == IsNormalized::Yes {
            name.into()
        } else {
            name.nfc().collect::<String>().into()
        };
    }
    let folded: String = name.nfkc().filter(|&c| !is_variation_selector(c)).collect();
    without_invisible(&folded).nfkc().collect::<String>().into()
}

/// Replaces spaces of other widths and non-breaking spaces by plain ones.
pub(super) fn plain_spaces(name: &str) -> Cow<'_, str> {
    let is_other = |c: char| c.is_whitespace() && !c.is_control() && c != ' ';
    if name.is_ascii() || !name.contains(is_other) {
        return name.into();
    }
    name.replace(is_other, " ").into()
}

/// Counts names that equal another in their compatibility form without invisible characters.
pub(super) fn alike(names: &[String], form: Unicode) -> usize {
    if form == Unicode::Nfkc || names.iter().all(|it| it.is_ascii()) {
        return 0;
    }
    let different: HashSet<Cow<'_, str>> =
        names.iter().map(|it| normal(it, Unicode::Nfkc)).collect();
    names.len() - different.len()
}

/// Renames the items of transactions and merges those whose names become equal. Returns the number merged into
/// another.
pub(super) fn renamed(
    transactions: Transactions,
    rename: impl Fn(&str) -> String,
) -> Result<(Transactions, usize), TransactionsError> {
    let names: Vec<String> = transactions.names().iter().map(|it| rename(it)).collect();
    let mut numbers: HashMap<&str, u32> = HashMap::new();
    let mut distinct = Vec::new();
    let renumbered: Vec<u32> = names
        .iter()
        .map(|name| {
            *numbers.entry(name).or_insert_with(|| {
                distinct.push(name.clone());
                distinct.len() as u32 - 1
            })
        })
        .collect();
    let merged = names.len() - distinct.len();
    let renamed = if merged == 0 {
        transactions.with_names(distinct)
    } else {
        transactions.merged(distinct, &renumbered)?
    };
    Ok((renamed, merged))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_without_a_value_are_known_in_all_spellings() {
        for missing in [
            "",
            " ",
            "NA",
            "na",
            "<NA>",
            "NULL",
            "null",
            "(null)",
            "[NULL]",
            "\\N",
            ".",
            "?",
            "-",
            "--",
            "—",
            "…",
            "(blank)",
            "(Leer)",
            "(not set)",
            "NaT",
            "N.A.",
            "n.a.",
            "None",
            "nil",
            "#N/A",
            "#REF!",
            "#DIV/0!",
            "#NAME?",
            "#WERT!",
            "#¡VALOR!",
            "#N/D",
            "####",
            "Err:502",
            "\"",
            "〃",
            "undefined",
            " NaN ",
        ] {
            assert!(is_missing(missing), "{missing:?}");
        }
        for name in [
            "Nan bread",
            "C++",
            "#hashtag",
            "#1!",
            "R2",
            "0",
            "-1x",
            "unknown",
            "blank",
            "*17",
            "é",
            "Err",
            "#ref!",
            "(unknown drug)",
            "naan",
            "Natto",
            "❤",
        ] {
            assert!(!is_missing(name), "{name:?}");
        }
    }

    #[test]
    fn numbers_that_a_spreadsheet_rounded_are_known() {
        for rounded in ["1.23E+11", "1,23E+11", "1E+12", "5.36365e+05", "-1.2E+100"] {
            assert!(is_rounded(rounded), "{rounded}");
        }
        for other in [
            "1E5",
            "12E+11",
            "1.23E11",
            "E+11",
            "1.2.3E+11",
            "1E+1",
            "1.5",
            "XE+11",
        ] {
            assert!(!is_rounded(other), "{other}");
        }
    }

    #[test]
    fn forms_make_one_name_of_what_looks_the_same() {
        let same = |a: &str, b: &str, form| normal(a, form) == normal(b, form);
        let composed = ("Käse", "Ka\u{308}se");
        assert!(same(composed.0, composed.1, Unicode::Nfc));
        assert!(!same(composed.0, composed.1, Unicode::AsIs));
        for (a, b) in [
            ("ﬁg", "fig"),
            ("ｍｉｌｋ", "milk"),
            ("so\u{ad}ft", "soft"),
            ("mi\u{200d}lk", "milk"),
            ("❤\u{fe0f}", "❤"),
            ("\u{200f}tea\u{200f}", "tea"),
            ("e\u{200b}\u{301}", "é"),
        ] {
            assert!(same(a, b, Unicode::Nfkc), "{a:?}");
            assert!(!same(a, b, Unicode::Nfc), "{a:?}");
        }
        assert_eq!(normal("می\u{200c}خواهم", Unicode::Nfkc), "می\u{200c}خواهم");
        assert_eq!(plain_spaces("green\u{a0}tea\u{3000}"), "green tea ");
    }
}
