//! Display of names from data, files or a peer: they cannot contain terminal escapes, end a line or imitate the
//! surrounding text. Also finds invisible characters, which distinguish names that look alike.

use std::borrow::Cow;
use std::fmt;

use unicode_normalization::UnicodeNormalization;

/// Returns true for control characters, line separators, and characters that change the direction of text.
fn is_unsafe(c: char) -> bool {
    c.is_control() || matches!(c, '\u{2028}' | '\u{2029}') || is_of_direction(c)
}

/// Returns true if a character changes the direction of text.
fn is_of_direction(c: char) -> bool {
    matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// The character that replaces undecodable text.
pub(crate) const REPLACEMENT: char = '\u{fffd}';

/// Returns true for control characters other than line feed and tab, which names may have.
pub(crate) fn is_control(c: char) -> bool {
    c.is_control() && !"\n\t".contains(c)
}

/// Describes a character for messages: its number and kind.
pub(crate) fn described(c: char) -> String {
    let kind = match c {
        _ if is_control(c) => "a control character",
        _ if is_of_direction(c) => "a mark of the direction of text",
        '\u{ad}' => "a soft hyphen",
        '\u{200b}' | '\u{feff}' | '\u{2060}' => "a space of no width",
        '\u{200c}' | '\u{200d}' => "a joiner",
        REPLACEMENT => "the replacement character",
        _ => "an invisible character",
    };
    format!("U+{:04X}, {kind},", u32::from(c))
}

/// Finds the invisible characters of a text, control characters included, with their positions. Excludes line feeds
/// and tabs, and joiners between letters of scripts that have them or within an emoji.
fn invisible(text: &str) -> impl Iterator<Item = (usize, char)> {
    let has_flag = text.contains('🏴');
    let mut before = None;
    text.char_indices().filter(move |&(place, c)| {
        let before = before.replace(c);
        let after = || text[place + c.len_utf8()..].chars().next();
        match c {
            '\u{200c}' | '\u{200d}' => {
                !(before.is_some_and(is_joined) && after().is_some_and(is_joined))
            }
            '\u{e0020}'..='\u{e007f}' => !has_flag,
            _ => is_control(c) || is_ignorable(c),
        }
    })
}

/// Returns the first invisible character of a text.
pub(crate) fn invisible_in(text: &str) -> Option<char> {
    if text.bytes().all(|it| matches!(it, b' '..=b'~')) {
        return None;
    }
    invisible(text).next().map(|(_, c)| c)
}

/// Removes invisible characters, except for control characters and the replacement character.
pub(crate) fn without_invisible(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    let mut rest = 0;
    for (place, c) in invisible(text).filter(|&(_, c)| c != REPLACEMENT && !is_control(c)) {
        shown.push_str(&text[rest..place]);
        rest = place + c.len_utf8();
    }
    shown.push_str(&text[rest..]);
    shown
}

/// Returns true for scripts or symbols between which joiners occur: not for Latin, Greek, Cyrillic, Chinese, Japanese
/// or Korean text.
fn is_joined(c: char) -> bool {
    matches!(c, '\u{600}'..='\u{10ff}' | '\u{1200}'..='\u{1cff}' | '\u{2190}'..='\u{2bff}')
        || matches!(c, '\u{a800}'..='\u{abff}' | '\u{fb50}'..='\u{fdff}' | '\u{fe00}'..='\u{fe0f}')
        || matches!(c, '\u{fe70}'..='\u{fefc}' | '\u{10a00}'..='\u{11fff}' | '\u{1e900}'..='\u{1e95f}')
        || matches!(c, '\u{1f000}'..='\u{1faff}' | '\u{e007f}')
}

/// Returns true for invisible characters other than joiners, tags and control characters.
fn is_ignorable(c: char) -> bool {
    is_of_direction(c)
        || matches!(c, '\u{ad}' | '\u{34f}' | '\u{180e}' | '\u{200b}' | '\u{2060}'..='\u{206f}')
        || matches!(c, '\u{feff}' | '\u{fff9}'..='\u{fffb}' | REPLACEMENT | '\u{e0001}')
        // Letters without ink.
        || matches!(c, '\u{115f}' | '\u{1160}' | '\u{2800}' | '\u{3164}' | '\u{ffa0}')
}

/// Escapes `text` to one line, with unsafe characters as in Rust: `\n`, `\u{1b}`.
pub fn escaped(text: &str) -> Cow<'_, str> {
    if !text.contains(is_unsafe) {
        return text.into();
    }
    let mut shown = String::with_capacity(text.len() + 8);
    for c in text.chars() {
        if is_unsafe(c) {
            shown.extend(c.escape_default())
        } else {
            shown.push(c)
        }
    }
    shown.into()
}

/// As [`escaped`], for text of several lines; keeps line breaks.
pub fn escaped_lines(text: &str) -> String {
    text.split('\n').map(escaped).collect::<Vec<_>>().join("\n")
}

/// Item name for display. An empty name, and one that could be mistaken for several names or for other text, is
/// quoted, with `\` before quotes and backslashes.
#[derive(Clone, Copy, Debug)]
pub struct Name<'a>(pub &'a str);

impl fmt::Display for Name<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if is_plain(self.0) {
            f.write_str(self.0)
        } else {
            let name = self.0.replace('\\', r"\\").replace('"', "\\\"");
            write!(f, "\"{}\"", escaped(&name))
        }
    }
}

/// Names of an itemset, as in `{Käse, "Milch, 3,5%"}`.
#[derive(Clone, Copy, Debug)]
pub struct Names<'a>(pub &'a [String]);

impl fmt::Display for Names<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("{")?;
        for (position, name) in self.0.iter().enumerate() {
            let separator = if position == 0 { "" } else { ", " };
            write!(f, "{separator}{}", Name(name))?;
        }
        f.write_str("}")
    }
}

/// Returns the number of the item of this name, or else of the only one whose name has an equal canonical composition
/// (NFC).
pub fn number_of<'a>(names: impl IntoIterator<Item = &'a str>, name: &str) -> Option<u32> {
    let mut composed = None;
    for (number, it) in (0..).zip(names) {
        if it == name {
            return Some(number);
        }
        if !name.is_ascii() && it.nfc().eq(name.nfc()) {
            composed = match composed {
                None => Some(Some(number)),
                Some(_) => Some(None),
            };
        }
    }
    composed.flatten()
}

fn is_plain(name: &str) -> bool {
    !name.is_empty()
        && name.trim() == name
        && !name.contains(|c| is_unsafe(c) || matches!(c, ',' | '"' | '{' | '}'))
        && !name.contains("=>")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_have_numbers() {
        let names = ["b", "a"];
        assert_eq!(number_of(names, "a"), Some(1));
        assert_eq!(number_of(names, "c"), None);
        assert_eq!(number_of(["Ka\u{308}se"], "Käse"), Some(0));
        assert_eq!(number_of(["Käse", "Ka\u{308}se"], "Ka\u{308}se"), Some(1));
    }

    #[test]
    fn joiners_show_only_where_they_join() {
        for name in [
            "می\u{200c}خواهم",
            "क\u{94d}\u{200d}ष",
            "👩\u{200d}⚕\u{fe0f}",
            "❤\u{fe0f}",
            "🏴\u{e0067}\u{e0062}\u{e0065}\u{e006e}\u{e0067}\u{e007f}",
            "a\tb\nc",
            "Käse",
            "👨🏽\u{200d}🦰",
            "葛\u{e0100}",
        ] {
            assert_eq!(invisible_in(name), None, "{name:?}");
        }
        for (name, c) in [
            ("so\u{ad}ft", '\u{ad}'),
            ("mi\u{200d}lk", '\u{200d}'),
            ("Auf\u{200c}lage", '\u{200c}'),
            ("\u{200d}a", '\u{200d}'),
            ("می\u{200c}", '\u{200c}'),
            ("a\u{202e}b", '\u{202e}'),
            ("a\u{200f}", '\u{200f}'),
            ("\u{feff}a", '\u{feff}'),
            ("caf\u{fffd}", '\u{fffd}'),
            ("a\u{e0061}", '\u{e0061}'),
            ("\u{3164}", '\u{3164}'),
            ("a\u{1f}", '\u{1f}'),
        ] {
            assert_eq!(invisible_in(name), Some(c), "{name:?}");
        }
    }

    #[test]
    fn nothing_steers_a_terminal() {
        assert_eq!(escaped("\x1b[31mred\r\n"), r"\u{1b}[31mred\r\n");
        assert_eq!(escaped("\x7f\u{9b}2J"), r"\u{7f}\u{9b}2J");
        assert_eq!(
            escaped("a\u{202e}b\u{2066}c\u{2029}\u{61c}\u{200e}\u{200f}"),
            r"a\u{202e}b\u{2066}c\u{2029}\u{61c}\u{200e}\u{200f}"
        );
        let harmless = "Käse 奶酪 \u{200d} גבינה";
        assert!(matches!(escaped(harmless), Cow::Borrowed(shown) if shown == harmless));
        assert_eq!(escaped_lines("a\nb\tc\n"), "a\nb\\tc\n");
    }

    #[test]
    fn itemsets_show_where_names_begin_and_end() {
        let shown = |names: &[&str]| {
            let names: Vec<_> = names.iter().map(|&name| name.to_owned()).collect();
            Names(&names).to_string()
        };
        assert_eq!(shown(&[]), "{}");
        assert_eq!(shown(&["Käse", "Milch, 3,5%"]), r#"{Käse, "Milch, 3,5%"}"#);
        assert_eq!(shown(&["rye bread", "1"]), "{rye bread, 1}");
        assert_eq!(shown(&["", " a", "b "]), r#"{"", " a", "b "}"#);
        assert_eq!(shown(&["{", "}", "a => b"]), r#"{"{", "}", "a => b"}"#);
        assert_eq!(shown(&[r#"12" pan"#]), r#"{"12\" pan"}"#);
        // A backslash is an escape only within quotes.
        assert_eq!(shown(&[r"C:\new", "C:\new"]), r#"{C:\new, "C:\new"}"#);
        assert_eq!(shown(&["\\,\x1b[31m"]), r#"{"\\,\u{1b}[31m"}"#);
    }
}
