//! Text for display that contains names from data, files or a peer: a name cannot contain terminal escapes, end a line
//! or imitate the text around it.

use std::borrow::Cow;
use std::fmt;

/// Control characters, line separators, and characters that change the direction of text.
fn is_unsafe(c: char) -> bool {
    let of_direction = matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    c.is_control() || matches!(c, '\u{2028}' | '\u{2029}') || of_direction
}

/// `text` on one line, with unsafe characters escaped as in Rust: `\n`, `\u{1b}`.
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

/// The same for text of several lines; line breaks are kept.
pub fn escaped_lines(text: &str) -> String {
    text.split('\n').map(escaped).collect::<Vec<_>>().join("\n")
}

/// An item's name. A name that could be mistaken for several names or for other text, or that is empty, is quoted, with
/// `\` before quotes and backslashes.
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

/// The names of an itemset, as in `{Käse, "Milch, 3,5%"}`.
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

/// The number of the item of this name.
pub fn number_of<'a>(names: impl IntoIterator<Item = &'a str>, name: &str) -> Option<u32> {
    let mut numbered = (0..).zip(names);
    numbered.find_map(|(number, it)| (it == name).then_some(number))
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
