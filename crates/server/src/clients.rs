//! Clients: identified by the name of their token, or else by their connection.

use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;
use thiserror::Error;

/// The client that a share of the server belongs to.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Client {
    /// Everyone with a token of this name, over however many connections.
    Named(Arc<str>),
    /// One connection, by its peer.
    Connected(Option<SocketAddr>),
}

impl Client {
    /// The account that its searches are charged to: all callers without a name share one.
    pub(crate) fn account(&self) -> &str {
        match self {
            Self::Named(name) => name,
            Self::Connected(_) => "",
        }
    }
}

impl fmt::Display for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Named(name) => f.write_str(name),
            Self::Connected(Some(address)) => address.fmt(f),
            Self::Connected(None) => f.write_str("unknown"),
        }
    }
}

/// The tokens of which callers must present one. They are never shown.
#[derive(Clone)]
pub struct Tokens(Vec<Token>);

#[derive(Clone)]
struct Token {
    name: Option<Arc<str>>,
    secret: String,
}

/// A token file that cannot be used. Its content is not repeated.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[allow(missing_docs)]
pub enum TokenError {
    #[error("it holds no token; write one on a line, or a name and a token")]
    Empty,
    #[error("line {line} has more than a name and a token; write NAME TOKEN, or TOKEN alone")]
    Malformed { line: usize },
    #[error("the name on line {line} has other characters than A-Z a-z 0-9 . _ -; choose another")]
    Name { line: usize },
    #[error("the token on line {line} is not printable ASCII; make a new one")]
    Secret { line: usize },
    #[error("the token on line {line} stands on line {first} too; make one for each")]
    Twice { line: usize, first: usize },
}

impl Tokens {
    /// Reads a token file: `TOKEN` or `NAME TOKEN` on each line, where empty lines and lines that
    /// start with `#` are ignored. A name may have several tokens.
    ///
    /// # Errors
    /// No token at all, or an invalid line.
    pub fn parse(text: &str) -> Result<Self, TokenError> {
        let mut tokens: Vec<(usize, Token)> = Vec::new();
        for (number, line) in text.lines().enumerate() {
            let number = number + 1;
            let words: Vec<&str> = line.split_whitespace().collect();
            let (name, secret) = match words[..] {
                [] => continue,
                [first, ..] if first.starts_with('#') => continue,
                [secret] => (None, secret),
                [name, secret] => (Some(name), secret),
                _ => return Err(TokenError::Malformed { line: number }),
            };
            let plain = |c: char| c.is_ascii_alphanumeric() || ".-_".contains(c);
            if name.is_some_and(|name| !name.chars().all(plain)) {
                return Err(TokenError::Name { line: number });
            }
            if !secret.chars().all(|c| c.is_ascii_graphic()) {
                return Err(TokenError::Secret { line: number });
            }
            if let Some((first, _)) = tokens.iter().find(|(_, other)| other.secret == secret) {
                return Err(TokenError::Twice {
                    line: number,
                    first: *first,
                });
            }
            let token = Token {
                name: name.map(Arc::from),
                secret: secret.to_owned(),
            };
            tokens.push((number, token));
        }
        if tokens.is_empty() {
            Err(TokenError::Empty)
        } else {
            Ok(Self(tokens.into_iter().map(|(_, token)| token).collect()))
        }
    }

    /// The client that presents `secret`, if it is valid: a name, or `connected` if the token has
    /// none. Takes the same time whichever token it is, and however much of it is right.
    pub(crate) fn bearer(&self, secret: &str, connected: Client) -> Option<Client> {
        use subtle::ConstantTimeEq;
        let mut found = None;
        for token in &self.0 {
            if token.secret.as_bytes().ct_eq(secret.as_bytes()).into() {
                found = Some(&token.name);
            }
        }
        found.map(|name| name.clone().map_or(connected, Client::Named))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bearer(tokens: &Tokens, secret: &str) -> Option<String> {
        let connected = Client::Connected(Some("127.0.0.1:7".parse().unwrap()));
        tokens
            .bearer(secret, connected)
            .map(|client| client.to_string())
    }

    #[test]
    fn one_bare_token_is_a_token_file() {
        let tokens = Tokens::parse("sesame\n").unwrap();
        assert_eq!(bearer(&tokens, "sesame").unwrap(), "127.0.0.1:7");
        for wrong in ["", "sesam", "sesame!", "SESAME"] {
            assert_eq!(bearer(&tokens, wrong), None, "{wrong}");
        }
    }

    #[test]
    fn tokens_have_names() {
        let text =
            "# the wards\n\nalice  a-token\r\n bob\tb-token\nalice other-token\nbare\n  # end\n";
        let tokens = Tokens::parse(text).unwrap();
        for (secret, name) in [
            ("a-token", "alice"),
            ("other-token", "alice"),
            ("b-token", "bob"),
            ("bare", "127.0.0.1:7"),
        ] {
            assert_eq!(bearer(&tokens, secret).unwrap(), name);
        }
        for wrong in ["alice", "#", "the", "wards", "alice  a-token"] {
            assert_eq!(bearer(&tokens, wrong), None, "{wrong}");
        }
    }

    #[test]
    fn what_is_no_token_file_is_refused_without_showing_it() {
        use TokenError::*;
        for (text, expected) in [
            ("", Empty),
            ("\n# nothing\n", Empty),
            ("a b c\n", Malformed { line: 1 }),
            ("a b\nal/ice secret\n", Name { line: 2 }),
            ("secr\u{e9}t", Secret { line: 1 }),
            ("a secret\u{7}", Secret { line: 1 }),
            ("a secret\n\nb secret", Twice { line: 3, first: 1 }),
        ] {
            let error = Tokens::parse(text).err().unwrap();
            assert_eq!(error, expected);
            assert!(!error.to_string().contains("secret"));
        }
    }
}
