//! The tokens of which callers must present one: a file of their hashes, made by `oboro token`, and read again whenever it
//! has changed.
//!
//! A token has 256 random bits, so a plain hash of it helps nobody to find it, and looking hashes up in a table tells
//! nobody by the time it takes how much of one is right.

use crate::rarely::Rarely;
use oboro_format::files::{
    Durability, Identity, io_error, parent, replace_keeping, sync_directory,
};
use oboro_format::wording::{TOKEN_LIST, TOKEN_NEW};
use oboro_format::{Digest, FormatError, Roles};
use parking_lot::RwLock;
use std::collections::{HashMap, HashSet};
use std::fmt;
use std::fs::{self, File, OpenOptions};
use std::io::Read;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use thiserror::Error;
use time::macros::format_description;
use time::{Date, OffsetDateTime};
use tokio_util::sync::CancellationToken;
use zeroize::Zeroizing;

/// What every token begins with: programs that look for leaked secrets find it.
const PREFIX: &str = "oboro_";
const HASH: &str = "blake3:";
/// Digits of an id.
const ID_DIGITS: usize = 8;
const UNTIL: &str = "until=";
const MAX_NAME_CHARS: usize = 64;

/// A line of a token file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Token {
    /// Whose it is.
    pub name: String,
    /// Of its characters.
    hash: Digest,
    /// The last day on which it is valid, in UTC.
    pub until: Option<Date>,
}

/// A token file that cannot be used or changed. What may be a secret is not repeated.
#[derive(Debug, Error)]
#[allow(missing_docs)]
pub enum TokenError {
    #[error(transparent)]
    Format(#[from] FormatError),
    #[error(
        "the token file {} can be written by others than its owner, who could let themselves in; take that right away (chmod go-w)",
        path.display()
    )]
    Writable { path: PathBuf },
    #[error("the token file {} holds no token; make one with `{TOKEN_NEW}`", path.display())]
    Empty { path: PathBuf },
    #[error("the token file {} cannot be used: {source}", path.display())]
    Line { path: PathBuf, source: LineError },
    #[error(
        "this is no name for a token: use 1 to {MAX_NAME_CHARS} of A-Z a-z 0-9 . _ - and begin with a letter or digit"
    )]
    Name,
    #[error("{given:?} is no date; write one as 2027-03-31")]
    Date { given: String },
    #[error("{} is no plain file; give one that `{TOKEN_NEW}` made", path.display())]
    NoFile { path: PathBuf },
    #[error("the token file {} is empty, or is being written; `{TOKEN_NEW}` makes tokens", path.display())]
    Nothing { path: PathBuf },
    #[error("{date} has passed, and so the token would not be valid; give a later day")]
    Past { date: Date },
    #[error("{} has no token of this name or id; `{TOKEN_LIST}` shows those that it has", path.display())]
    Unknown { path: PathBuf },
    #[error("the operating system gave no randomness ({0}); try again")]
    Randomness(getrandom::Error),
}

/// A line that is no token.
#[derive(Debug, Error)]
#[error("line {line} {problem}")]
pub struct LineError {
    line: usize,
    problem: String,
}

impl Token {
    /// The tokens of a file's text, where empty lines and lines that start with `#` are ignored.
    ///
    /// # Errors
    /// A line that is no token, a token that stands on two.
    pub fn parse_all(text: &str) -> Result<Vec<Self>, LineError> {
        let (mut tokens, mut hashes) = (Vec::new(), HashSet::new());
        let lines = (1..).zip(text.lines().map(str::trim));
        for (line, content) in lines.filter(|(_, it)| !it.is_empty() && !it.starts_with('#')) {
            let token = Self::parse(content).map_err(|problem| LineError { line, problem })?;
            if !hashes.insert(token.hash) {
                let problem = "repeats the token of another line; make one for each".to_owned();
                return Err(LineError { line, problem });
            }
            tokens.push(token);
        }
        Ok(tokens)
    }

    /// Shows which one it is and says nothing of it: the first digits of its hash.
    pub fn id(&self) -> String {
        self.hash.to_string()[..ID_DIGITS].to_owned()
    }

    /// Whether it is valid no more.
    pub fn is_expired(&self) -> bool {
        self.until.is_some_and(|until| until < today())
    }

    fn parse(line: &str) -> Result<Self, String> {
        let words: Vec<&str> = line.split_whitespace().collect();
        let (name, hash, until) = match words[..] {
            [name, hash] => (name, hash, None),
            [name, hash, until] => (name, hash, Some(until)),
            _ => {
                return Err(format!(
                    "is not NAME {HASH}HASH [{UNTIL}DATE]; make tokens with `{TOKEN_NEW}`"
                ));
            }
        };
        check_name(name).map_err(|_| "begins with an invalid name".to_owned())?;
        let hash = hash.strip_prefix(HASH).and_then(|hex| hex.parse().ok());
        let hash = hash.ok_or_else(|| {
            format!("has no hash of a token ({HASH} and 64 hexadecimal digits); make tokens with `{TOKEN_NEW}`")
        })?;
        let until = until.map(|until| {
            let date = until
                .strip_prefix(UNTIL)
                .and_then(|date| parse_date(date).ok());
            date.ok_or_else(|| {
                format!("ends in something else than {UNTIL} and a date such as 2027-03-31")
            })
        });
        Ok(Self {
            name: name.to_owned(),
            hash,
            until: until.transpose()?,
        })
    }
}

impl fmt::Display for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {HASH}{}", self.name, self.hash)?;
        match self.until {
            Some(until) => write!(f, " {UNTIL}{until}"),
            None => Ok(()),
        }
    }
}

/// Reads a date as it stands in a token file, `2027-03-31`.
///
/// # Errors
/// Anything else.
pub fn parse_date(text: &str) -> Result<Date, TokenError> {
    Date::parse(text, format_description!("[year]-[month]-[day]"))
        .map_err(|_| TokenError::Date { given: text.into() })
}

fn today() -> Date {
    OffsetDateTime::now_utc().date()
}

fn check_name(name: &str) -> Result<(), TokenError> {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || ".-_".contains(c);
    let begins_well = name.starts_with(|c: char| c.is_ascii_alphanumeric());
    if begins_well && name.len() <= MAX_NAME_CHARS && name.chars().all(is_plain) {
        return Ok(());
    }
    Err(TokenError::Name)
}

/// A token file, which only its owner may change.
#[derive(Debug, Clone)]
pub struct TokenFile {
    path: PathBuf,
}

impl TokenFile {
    /// The file at this path, which need not exist.
    pub fn at(path: &Path) -> Self {
        Self { path: path.into() }
    }

    /// Its path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Its tokens.
    ///
    /// # Errors
    /// No such file, one that others may write, a line that is no token, a token that stands on two.
    pub fn tokens(&self) -> Result<Vec<Token>, TokenError> {
        let failed = |error| io_error("open the token file", &self.path)(error);
        // Opening a pipe would wait for whoever writes to it.
        if !fs::metadata(&self.path).map_err(failed)?.is_file() {
            let path = self.path.clone();
            return Err(TokenError::NoFile { path });
        }
        let mut file = File::open(&self.path).map_err(failed)?;
        self.read(&mut file, false).map(|(_, tokens)| tokens)
    }

    fn read(
        &self,
        file: &mut File,
        may_be_empty: bool,
    ) -> Result<(String, Vec<Token>), TokenError> {
        let path = || self.path.clone();
        let failed = |error| io_error("read the token file", &self.path)(error);
        let mode = file.metadata().map_err(failed)?.mode();
        if mode & 0o022 != 0 {
            return Err(TokenError::Writable { path: path() });
        }
        let mut text = String::new();
        file.read_to_string(&mut text).map_err(failed)?;
        if text.is_empty() && !may_be_empty {
            // Whoever copies a file there empties it first.
            return Err(TokenError::Nothing { path: path() });
        }
        let tokens = Token::parse_all(&text).map_err(|source| TokenError::Line {
            path: path(),
            source,
        })?;
        Ok((text, tokens))
    }

    /// Makes a token, and writes its hash here; the file is created if there is none. What callers present is returned
    /// once, and kept nowhere.
    ///
    /// # Errors
    /// An invalid name, a file that cannot be used or written, no randomness.
    pub fn add(
        &self,
        name: &str,
        until: Option<Date>,
    ) -> Result<(Token, Zeroizing<String>), TokenError> {
        check_name(name)?;
        if let Some(past) = until.filter(|it| *it < today()) {
            return Err(TokenError::Past { date: past });
        }
        let mut random = Zeroizing::new([0; 32]);
        getrandom::fill(&mut *random).map_err(TokenError::Randomness)?;
        let secret = Zeroizing::new(format!("{PREFIX}{}", Digest(*random)));
        let token = Token {
            name: name.to_owned(),
            hash: Digest::of(secret.as_bytes()),
            until,
        };
        self.change(true, |mut text| {
            if text.is_empty() {
                text = format!(
                    "# The tokens of callers, by their hashes: NAME {HASH}HASH [{UNTIL}DATE]. Made by `{TOKEN_NEW}`.\n"
                );
            } else if !text.ends_with('\n') {
                text.push('\n');
            }
            Ok(format!("{text}{token}\n"))
        })?;
        Ok((token, secret))
    }

    /// Removes the tokens with this name, or, if there are none, the one with this id; which they were.
    ///
    /// # Errors
    /// None with it, a file that cannot be used or written.
    pub fn revoke(&self, which: &str) -> Result<Vec<Token>, TokenError> {
        let mut revoked = Vec::new();
        let is_name = self.tokens()?.iter().any(|it| it.name == which);
        self.change(false, |text| {
            let is_meant = |token: &Token| {
                if is_name {
                    token.name == which
                } else {
                    token.id() == which
                }
            };
            let stays = |line: &&str| match Token::parse(line) {
                Ok(token) if is_meant(&token) => {
                    revoked.push(token);
                    false
                }
                _ => true,
            };
            let kept: String = text.split_inclusive('\n').filter(stays).collect();
            if revoked.is_empty() {
                let path = self.path.clone();
                return Err(TokenError::Unknown { path });
            }
            Ok(kept)
        })?;
        Ok(revoked)
    }

    /// Replaces the text of a valid file, a new one if it may be; nobody else changes it meanwhile.
    fn change(
        &self,
        may_be_new: bool,
        change: impl FnOnce(String) -> Result<String, TokenError>,
    ) -> Result<(), TokenError> {
        // A link stays, and what it leads to is changed.
        let path = self.path.canonicalize();
        let resolved = Self::at(path.as_deref().unwrap_or(&self.path));
        let mut file = resolved.lock(may_be_new)?;
        let (text, _) = resolved.read(&mut file, may_be_new)?;
        let before = file.metadata().map_err(io_error("look at", &self.path))?;
        let text = change(text)?;
        replace_keeping(
            &resolved.path,
            text.as_bytes(),
            Durability::Durable,
            &before,
        )?;
        Ok(sync_directory(parent(&resolved.path))?)
    }

    /// Opens the file that has the name, once nobody else has it locked; if there is none, and it may be new, an empty one.
    fn lock(&self, may_be_new: bool) -> Result<File, TokenError> {
        loop {
            let mut options = OpenOptions::new();
            let opened = options
                .read(true)
                .append(true)
                .create(may_be_new)
                .mode(0o600)
                .open(&self.path);
            let file = opened.map_err(io_error("open the token file", &self.path))?;
            file.lock().map_err(io_error("lock", &self.path))?;
            let locked = Identity::of_file(&file).map_err(io_error("look at", &self.path))?;
            // Whoever had it may have replaced it.
            if Identity::of(&self.path)? == Some(locked) {
                return Ok(file);
            }
        }
    }
}

/// The tokens that a server accepts now.
#[derive(Debug)]
pub struct Tokens {
    file: TokenFile,
    current: RwLock<Current>,
    errors: Rarely,
}

#[derive(Debug, Default)]
struct Current {
    /// The file that was read last, whether it could be used or not.
    seen: Option<Identity>,
    by_hash: HashMap<Digest, Accepted>,
}

#[derive(Debug, Clone)]
struct Accepted {
    name: Arc<str>,
    id: Arc<str>,
    until: Option<Date>,
    revoked: CancellationToken,
}

/// Who presented a valid token.
#[derive(Debug, Clone)]
pub(crate) struct Bearer {
    pub(crate) name: Arc<str>,
    pub(crate) roles: Roles,
    /// Of the token, for the log.
    pub(crate) id: Arc<str>,
    /// Cancelled when the token is revoked: then calls in progress end.
    pub(crate) revoked: CancellationToken,
}

impl Tokens {
    /// Accepts the tokens in a file, as it is at any time.
    ///
    /// # Errors
    /// As [`TokenFile::tokens`], or no token at all.
    pub fn open(path: &Path) -> Result<Self, TokenError> {
        let file = TokenFile::at(path);
        let current = Current {
            seen: Identity::of(path)?,
            by_hash: accepted(&file, &HashMap::new())?,
        };
        if current.by_hash.is_empty() {
            return Err(TokenError::Empty { path: path.into() });
        }
        Ok(Self {
            file,
            current: RwLock::new(current),
            errors: Rarely::default(),
        })
    }

    /// Reads the file again if it has changed. If it cannot be used, the log says so and the tokens stay as they were.
    pub fn refresh(&self) {
        let seen = Identity::of(&self.file.path).unwrap_or_default();
        if self.current.read().seen == seen {
            return;
        }
        let mut current = self.current.write();
        if current.seen == seen {
            return;
        }
        match accepted(&self.file, &current.by_hash) {
            Ok(by_hash) => {
                current.seen = seen;
                for (hash, token) in &current.by_hash {
                    if !by_hash.contains_key(hash) {
                        token.revoked.cancel();
                    }
                }
                tracing::info!(tokens = by_hash.len(), "read the token file again");
                current.by_hash = by_hash;
            }
            Err(error) => {
                // What cannot be read now may be readable with the next call.
                if matches!(error, TokenError::Line { .. } | TokenError::Writable { .. }) {
                    current.seen = seen;
                }
                drop(current);
                self.errors.tell(|times| {
                    tracing::error!(%error, times, "the token file was changed and cannot be used; the tokens of before stay valid");
                });
            }
        }
    }

    /// Who presents `secret`, if it is valid now.
    pub(crate) fn bearer(&self, secret: &str) -> Option<Bearer> {
        self.refresh();
        let current = self.current.read();
        let token = current.by_hash.get(&Digest::of(secret.as_bytes()))?;
        let is_valid = token.until.is_none_or(|until| today() <= until);
        is_valid.then(|| Bearer {
            name: Arc::clone(&token.name),
            roles: Roles::OWNER,
            id: Arc::clone(&token.id),
            revoked: token.revoked.clone(),
        })
    }
}

/// The tokens of a file, by hash; those `known` are the same.
fn accepted(
    file: &TokenFile,
    known: &HashMap<Digest, Accepted>,
) -> Result<HashMap<Digest, Accepted>, TokenError> {
    let tokens = file.tokens()?.into_iter();
    let accept = |token: Token| {
        let accepted = Accepted {
            id: token.id().into(),
            name: token.name.into(),
            until: token.until,
            revoked: known
                .get(&token.hash)
                .map_or_else(CancellationToken::new, |it| it.revoked.clone()),
        };
        (token.hash, accepted)
    };
    Ok(tokens.map(accept).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::Permissions;
    use std::os::unix::fs::PermissionsExt;
    use tempfile::TempDir;

    struct Setting {
        directory: TempDir,
        file: TokenFile,
    }

    impl Setting {
        fn new() -> Self {
            let directory = TempDir::new().unwrap();
            let file = TokenFile::at(&directory.path().join("tokens"));
            Self { directory, file }
        }

        fn refusal(&self, text: &str) -> String {
            fs::write(&self.file.path, text).unwrap();
            let error = Tokens::open(&self.file.path).unwrap_err().to_string();
            assert!(
                error.contains(self.directory.path().to_str().unwrap()),
                "{error}"
            );
            assert!(!error.contains("secret"), "{error}");
            error
        }
    }

    fn name(tokens: &Tokens, secret: &str) -> Option<String> {
        tokens.bearer(secret).map(|it| it.name.to_string())
    }

    #[test]
    fn what_is_made_is_accepted_and_only_its_hash_is_kept() {
        let Setting { file, directory } = Setting::new();
        let (alice, a) = file.add("alice", None).unwrap();
        let (bob, b) = file.add("bob", today().next_day()).unwrap();
        let (_, other) = file.add("alice", Some(Date::MAX)).unwrap();
        assert_eq!(a.len(), PREFIX.len() + 64);
        let text = fs::read_to_string(&file.path).unwrap();
        for secret in [&a, &b, &other] {
            assert!(!text.contains(&secret[PREFIX.len()..]));
        }
        assert_eq!(file.tokens().unwrap()[..2], [alice.clone(), bob]);
        assert_eq!(fs::metadata(&file.path).unwrap().mode() & 0o777, 0o600);
        let tokens = Tokens::open(&file.path).unwrap();
        for (secret, whose) in [(&a, "alice"), (&b, "bob"), (&other, "alice")] {
            assert_eq!(name(&tokens, secret).unwrap(), whose);
        }
        for wrong in [
            "",
            "alice",
            PREFIX,
            &a[..69],
            &a.to_uppercase(),
            &format!("{}0", *a),
        ] {
            assert_eq!(name(&tokens, wrong), None, "{wrong}");
        }
        let hash = alice.hash.to_string();
        assert_eq!(name(&tokens, &hash), None);
        // Nothing else is left there.
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 1);
    }

    #[test]
    fn changes_count_at_once() {
        let setting = Setting::new();
        let file = &setting.file;
        let (first, a) = file.add("alice", None).unwrap();
        let tokens = Tokens::open(&file.path).unwrap();
        let bearer = tokens.bearer(&a).unwrap();
        let (_, b) = file.add("bob", None).unwrap();
        assert_eq!(name(&tokens, &b).unwrap(), "bob");
        assert!(!bearer.revoked.is_cancelled());
        assert_eq!(file.revoke(&first.id()).unwrap(), [first]);
        assert_eq!(name(&tokens, &a), None);
        assert!(bearer.revoked.is_cancelled());
        let bearer = tokens.bearer(&b).unwrap();
        // What cannot be used changes nothing.
        let text = fs::read(&file.path).unwrap();
        fs::write(&file.path, "bob secret\n").unwrap();
        assert_eq!(name(&tokens, &b).unwrap(), "bob");
        fs::write(&file.path, "").unwrap();
        assert_eq!(name(&tokens, &b).unwrap(), "bob");
        fs::remove_file(&file.path).unwrap();
        assert_eq!(name(&tokens, &b).unwrap(), "bob");
        fs::create_dir(&file.path).unwrap();
        assert_eq!(name(&tokens, &b).unwrap(), "bob");
        fs::remove_dir(&file.path).unwrap();
        fs::write(&file.path, text).unwrap();
        assert_eq!(name(&tokens, &b).unwrap(), "bob");
        assert!(!bearer.revoked.is_cancelled());
        // The last one may go, too.
        file.revoke("bob").unwrap();
        assert_eq!(name(&tokens, &b), None);
        assert!(bearer.revoked.is_cancelled());
        assert!(matches!(
            file.revoke("bob"),
            Err(TokenError::Unknown { .. })
        ));
        assert!(matches!(
            Tokens::open(&file.path),
            Err(TokenError::Empty { .. })
        ));
    }

    #[test]
    fn expired_tokens_are_not_accepted() {
        let setting = Setting::new();
        let file = &setting.file;
        let refused = file.add("alice", today().previous_day());
        assert!(matches!(refused, Err(TokenError::Past { .. })));
        let (token, secret) = file.add("alice", None).unwrap();
        let yesterday = today().previous_day().unwrap();
        fs::write(&file.path, format!("{token} {UNTIL}{yesterday}\n")).unwrap();
        assert!(file.tokens().unwrap()[0].is_expired());
        let tokens = Tokens::open(&file.path).unwrap();
        assert_eq!(name(&tokens, &secret), None);
    }

    #[test]
    fn what_is_no_token_file_is_refused_without_showing_it() {
        let setting = Setting::new();
        let hash = format!("{HASH}{}", "0a".repeat(32));
        for (text, phrase) in [
            ("", "is empty"),
            ("\n# nothing\n", "holds no token"),
            ("secret\n", "line 1"),
            ("alice \n", "line 1"),
            (&format!("# one\nalice {hash}\nbob secret\n"), "line 3"),
            (&format!("alice {}\n", &hash[..70]), "no hash"),
            (&format!("al/ice {hash}\n"), "invalid name"),
            (&format!(".alice {hash}\n"), "invalid name"),
            (&format!("{} {hash}\n", "a".repeat(65)), "invalid name"),
            (&format!("alice {hash} until=secret\n"), "line 1"),
            (&format!("alice {hash} until=2027-3-31\n"), "a date"),
            (&format!("alice {hash} 2027-03-31\n"), "a date"),
            (&format!("alice {hash} until=2027-03-31 secret\n"), "line 1"),
            (&format!("alice {hash}\nbob {hash}\n"), "line 2"),
        ] {
            let error = setting.refusal(text);
            assert!(error.contains(phrase), "{text:?}: {error}");
            // A file that cannot be used is not changed either.
            if !text.is_empty() && phrase != "holds no token" {
                setting.file.add("carol", None).unwrap_err();
                assert_eq!(fs::read_to_string(&setting.file.path).unwrap(), *text);
            }
        }
        fs::write(&setting.file.path, format!("alice {hash}\n")).unwrap();
        fs::set_permissions(&setting.file.path, Permissions::from_mode(0o620)).unwrap();
        let error = Tokens::open(&setting.file.path).unwrap_err().to_string();
        assert!(error.contains("chmod go-w"), "{error}");
        assert!(matches!(
            setting.file.add("a b", None),
            Err(TokenError::Name)
        ));
        assert!(matches!(
            parse_date("31.3.2027"),
            Err(TokenError::Date { .. })
        ));
    }

    #[test]
    fn a_changed_file_keeps_its_mode_and_its_links() {
        let setting = Setting::new();
        let file = &setting.file;
        file.add("alice", None).unwrap();
        fs::set_permissions(&file.path, Permissions::from_mode(0o640)).unwrap();
        let link = setting.directory.path().join("link");
        std::os::unix::fs::symlink(&file.path, &link).unwrap();
        let by_link = TokenFile::at(&link);
        let (token, _) = by_link.add("bob", None).unwrap();
        by_link.revoke("alice").unwrap();
        assert_eq!(file.tokens().unwrap(), [token]);
        assert!(link.is_symlink());
        assert_eq!(fs::metadata(&file.path).unwrap().mode() & 0o777, 0o640);
    }

    #[test]
    fn a_name_is_meant_before_an_id() {
        let setting = Setting::new();
        let file = &setting.file;
        let (first, _) = file.add("alice", None).unwrap();
        let (second, _) = file.add(&first.id(), None).unwrap();
        assert_eq!(file.revoke(&first.id()).unwrap(), [second]);
        assert_eq!(file.revoke(&first.id()).unwrap(), [first]);
    }

    #[test]
    fn many_may_change_the_file() {
        let setting = Setting::new();
        let file = &setting.file;
        std::thread::scope(|scope| {
            for name in ["a", "b", "c", "d"] {
                let file = &file;
                scope.spawn(move || {
                    for _ in 0..8 {
                        file.add(name, None).unwrap();
                        let (token, _) = file.add(name, None).unwrap();
                        file.revoke(&token.id()).unwrap();
                    }
                });
            }
        });
        assert_eq!(file.tokens().unwrap().len(), 4 * 8);
    }
}
