//! Valid names: of datasets and collections, and of callers, whose namespaces share theirs. No name can be mistaken for
//! a path, for `OWNER/NAME`, or for the `*` of grants.

/// Maximum number of characters of a dataset's or collection's name.
pub const MAX_NAME_CHARS: usize = 100;
/// Maximum number of characters of a caller's name.
pub const MAX_CALLER_CHARS: usize = 64;
/// Namespace of callers without a token.
pub const DEFAULT_NAMESPACE: &str = "default";

/// Returns true if `name` is valid for a dataset or collection.
pub fn is_name(name: &str) -> bool {
    (1..=MAX_NAME_CHARS).contains(&name.len())
        && name.chars().all(is_plain)
        && !name.starts_with('.')
}

/// Returns true if `name` is valid for a caller, in its token or certificate.
pub fn is_caller(name: &str) -> bool {
    name.len() <= MAX_CALLER_CHARS
        && name.starts_with(|c: char| c.is_ascii_alphanumeric())
        && name.chars().all(is_plain)
}

fn is_plain(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_plain() {
        let long = "x".repeat(MAX_NAME_CHARS);
        for name in ["a", "A.b_c-9", "-a", "_a", &long] {
            assert!(is_name(name), "{name}");
        }
        for name in ["", ".a", "..", "a/b", "*", "a b", "ä", &format!("{long}x")] {
            assert!(!is_name(name), "{name}");
        }
        for name in ["a", "9.b_c-9", &long[..MAX_CALLER_CHARS]] {
            assert!(is_caller(name), "{name}");
        }
        for name in [
            "",
            "-a",
            "_a",
            ".a",
            "a/b",
            "*",
            "a b",
            &long[..=MAX_CALLER_CHARS],
        ] {
            assert!(!is_caller(name), "{name}");
        }
    }
}
