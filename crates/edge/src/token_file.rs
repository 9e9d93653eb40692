//! Token file, which `oboro token` maintains: hash, name, roles and last day of each token.
//!
//! A token has 256 random bits, so a plain hash is safe against guessing.

use crate::trusted::{FileTrustError, check_owner, check_writers};
use oboro_format::files::{
    Durability, Identity, if_there, io_error, parent, replace_keeping, sync_directory,
};
use oboro_format::wording::{TOKEN_LIST, TOKEN_NEW};
use oboro_format::{Digest, FormatError, MAX_CALLER_CHARS, Roles, is_caller};
use std::collections::HashSet;
use std::fmt;
use std::fs::{self, File, OpenOptions};
use std::io::Read;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use thiserror::Error;
use time::macros::format_description;
use time::{Date, OffsetDateTime};
use zeroize::Zeroizing;

/// Prefix of every token, by which scanners for leaked secrets find it.
pub(crate) const PREFIX: &str = "oboro_";
const HASH: &str = "blake3:";
/// Number of digits of an id.
const ID_DIGITS: usize = 8;
const ROLES: &str = "roles=";
const UNTIL: &str = "until=";
/// Format of a line.
const LINE: &str = "NAME blake3:HASH [roles=ROLE,ROLE] [until=DATE]";

/// Line of a token file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Token {
    /// Name of its holder.
    pub name: String,
    /// Hash of the token's characters.
    pub(crate) hash: Digest,
    /// Roles that it grants.
    pub roles: Roles,
    /// Last day on which it is valid, in UTC.
    pub until: Option<Date>,
}

/// Errors of a token file that cannot be used or changed. Messages do not repeat possible secrets.
#[derive(Debug, Error)]
#[allow(missing_docs)]
pub enum TokenError {
    #[error(transparent)]
    Format(#[from] FormatError),
    #[error(transparent)]
    Untrusted(#[from] FileTrustError),
    #[error("a token without a role would be of no use; give it one")]
    NoRole,
    #[error("the token file {} holds no token; make one with `{TOKEN_NEW}`", path.display())]
    Empty { path: PathBuf },
    #[error("the token file {} cannot be used: {source}", path.display())]
    Line { path: PathBuf, source: LineError },
    #[error(
        "this is no name for a token: use 1 to {MAX_CALLER_CHARS} of A-Z a-z 0-9 . _ - and begin with a letter or digit"
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

/// Error of a malformed line.
#[derive(Debug, Error)]
#[error("line {line} {problem}")]
pub struct LineError {
    line: usize,
    problem: String,
}

impl Token {
    /// Parses the tokens of a file's text; empty lines and lines that start with `#` are ignored.
    ///
    /// # Errors
    /// A malformed line, a token that occurs twice.
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

    /// Returns a public identifier: the first digits of the hash.
    pub fn id(&self) -> String {
        self.hash.to_string()[..ID_DIGITS].to_owned()
    }

    /// Returns true if it is no longer valid.
    pub fn is_expired(&self) -> bool {
        self.is_expired_on(today())
    }

    pub(crate) fn is_expired_on(&self, today: Date) -> bool {
        self.until.is_some_and(|until| until < today)
    }

    fn parse(line: &str) -> Result<Self, String> {
        let mut words = line.split_whitespace().peekable();
        let name = words.next().unwrap_or_default();
        check_name(name).map_err(|_| "begins with an invalid name".to_owned())?;
        let hash = words.next().and_then(|it| it.strip_prefix(HASH));
        let hash = hash.and_then(|hex| hex.parse().ok()).ok_or_else(|| {
            format!("has no hash of a token ({HASH} and 64 hexadecimal digits); make tokens with `{TOKEN_NEW}`")
        })?;
        let mut option = |key: &str| {
            Some(
                words
                    .next_if(|it| it.starts_with(key))?
                    .split_at(key.len())
                    .1,
            )
        };
        let roles = option(ROLES).map(|list| {
            let roles = Roles::parse(list);
            roles.map_err(|_| format!("has no roles after {ROLES}, which are {}", Roles::ALL))
        });
        let until = option(UNTIL).map(|date| {
            let date = parse_date(date);
            date.map_err(|_| format!("has no date such as 2027-03-31 after {UNTIL}"))
        });
        let token = Self {
            name: name.to_owned(),
            hash,
            roles: roles.transpose()?.unwrap_or(Roles::OWNER),
            until: until.transpose()?,
        };
        match words.next() {
            None => Ok(token),
            Some(_) => Err(format!("is not {LINE}; make tokens with `{TOKEN_NEW}`")),
        }
    }
}

impl fmt::Display for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {HASH}{}", self.name, self.hash)?;
        if self.roles != Roles::OWNER {
            write!(f, " {ROLES}{}", self.roles)?;
        }
        self.until.map_or(Ok(()), |it| write!(f, " {UNTIL}{it}"))
    }
}

/// Parses a date in the form used in a token file, `2027-03-31`.
///
/// # Errors
/// Any other form.
pub fn parse_date(text: &str) -> Result<Date, TokenError> {
    Date::parse(text, format_description!("[year]-[month]-[day]"))
        .map_err(|_| TokenError::Date { given: text.into() })
}

pub(crate) fn today() -> Date {
    OffsetDateTime::now_utc().date()
}

/// Refuses an invalid caller name.
pub(crate) fn check_name(name: &str) -> Result<(), TokenError> {
    if is_caller(name) {
        return Ok(());
    }
    Err(TokenError::Name)
}

/// Token file, which only its owner may change.
#[derive(Debug, Clone)]
pub struct TokenFile {
    path: PathBuf,
}

impl TokenFile {
    /// Refers to the file at this path, which need not exist.
    pub fn at(path: &Path) -> Self {
        Self { path: path.into() }
    }

    /// Returns its path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Reads its tokens.
    ///
    /// # Errors
    /// A missing file, one that others may write, a malformed line, a token that occurs twice.
    pub fn tokens(&self) -> Result<Vec<Token>, TokenError> {
        self.read(&mut self.open()?, false)
            .map(|(_, tokens)| tokens)
    }

    /// Reads its tokens, for a server to accept.
    ///
    /// # Errors
    /// As [`tokens`](Self::tokens), or a file owned by a user other than root and that of this process.
    pub(crate) fn trusted(&self) -> Result<Vec<Token>, TokenError> {
        let mut file = self.open()?;
        let metadata = file.metadata().map_err(io_error("look at", &self.path))?;
        check_owner(&self.path, &metadata)?;
        self.read(&mut file, false).map(|(_, tokens)| tokens)
    }

    fn open(&self) -> Result<File, TokenError> {
        let failed = |error| io_error("open the token file", &self.path)(error);
        // Opening a pipe would block.
        if !fs::metadata(&self.path).map_err(failed)?.is_file() {
            let path = self.path.clone();
            return Err(TokenError::NoFile { path });
        }
        Ok(File::open(&self.path).map_err(failed)?)
    }

    fn read(
        &self,
        file: &mut File,
        may_be_empty: bool,
    ) -> Result<(String, Vec<Token>), TokenError> {
        let path = || self.path.clone();
        let failed = |error| io_error("read the token file", &self.path)(error);
        check_writers(&self.path, &file.metadata().map_err(failed)?)?;
        let mut text = String::new();
        file.read_to_string(&mut text).map_err(failed)?;
        if text.is_empty() && !may_be_empty {
            // A program that copies a file into place truncates it first.
            return Err(TokenError::Nothing { path: path() });
        }
        let tokens = Token::parse_all(&text).map_err(|source| TokenError::Line {
            path: path(),
            source,
        })?;
        Ok((text, tokens))
    }

    /// Creates a token and appends its hash, creating the file if necessary. Returns the secret, which is stored
    /// nowhere.
    ///
    /// # Errors
    /// An invalid name, a file that cannot be used or written, no randomness.
    pub fn add(
        &self,
        name: &str,
        roles: Roles,
        until: Option<Date>,
    ) -> Result<(Token, Zeroizing<String>), TokenError> {
        check_name(name)?;
        if roles.is_empty() {
            return Err(TokenError::NoRole);
        }
        if let Some(past) = until.filter(|it| *it < today()) {
            return Err(TokenError::Past { date: past });
        }
        let mut random = Zeroizing::new([0; 32]);
        getrandom::fill(&mut *random).map_err(TokenError::Randomness)?;
        let secret = Zeroizing::new(format!("{PREFIX}{}", Digest(*random)));
        let token = Token {
            name: name.to_owned(),
            hash: Digest::of(secret.as_bytes()),
            roles,
            until,
        };
        self.change(true, |mut text| {
            if text.is_empty() {
                text = format!(
                    "# The tokens of callers, by their hashes: {LINE}. Made by `{TOKEN_NEW}`.\n"
                );
            } else if !text.ends_with('\n') {
                text.push('\n');
            }
            Ok(format!("{text}{token}\n"))
        })?;
        Ok((token, secret))
    }

    /// Removes and returns the tokens with this name or, if none has it, the one with this id.
    ///
    /// # Errors
    /// No such token, a file that cannot be used or written.
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

    /// Replaces the text of a valid file under a lock, starting from an empty text if it is new and may be.
    fn change(
        &self,
        may_be_new: bool,
        change: impl FnOnce(String) -> Result<String, TokenError>,
    ) -> Result<(), TokenError> {
        // Follow a symbolic link, and change its target.
        let path = if_there(&self.path, "look at", self.path.canonicalize())?;
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

    /// Opens and locks the file, waiting for other processes; creates an empty one if it is missing and may be new.
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
            // Another process may have replaced it before the lock was acquired.
            if Identity::of(&self.path)? == Some(locked) {
                return Ok(file);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tokens::Tokens;
    use oboro_format::Role;
    use std::fs::Permissions;
    use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
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

    #[test]
    fn lines_say_what_a_token_allows() {
        let hash = format!("{HASH}{}", "0a".repeat(32));
        for (rest, roles, until) in [
            ("", Roles::OWNER, None),
            (
                " roles=read,count",
                Roles::parse("read,count").unwrap(),
                None,
            ),
            (" roles=operate", Role::Operate.into(), Some("2027-03-31")),
            (" until=2027-03-31", Roles::OWNER, Some("2027-03-31")),
        ] {
            let until_word = until.filter(|_| !rest.contains(UNTIL));
            let until_word = until_word.map_or(String::new(), |it| format!(" {UNTIL}{it}"));
            let line = format!("alice {hash}{rest}{until_word}");
            let tokens = Token::parse_all(&line).unwrap();
            let [token] = &tokens[..] else {
                panic!("one line is one token");
            };
            let until = until.map(|it| parse_date(it).unwrap());
            assert_eq!((token.roles, token.until), (roles, until), "{line}");
            assert_eq!(token.to_string(), line);
        }
        let setting = Setting::new();
        let roles = Roles::parse("read,count").unwrap();
        setting.file.add("alice", roles, None).unwrap();
        assert_eq!(setting.file.tokens().unwrap()[0].roles, roles);
        let refused = setting.file.add("alice", Roles::NONE, None);
        assert!(matches!(refused, Err(TokenError::NoRole)));
    }

    #[test]
    fn a_link_to_a_token_file_that_is_not_there_is_no_new_file() {
        let setting = Setting::new();
        let path = setting.file.path();
        std::os::unix::fs::symlink(setting.directory.path().join("unmounted"), path).unwrap();
        let error = setting.file.add("alice", Roles::OWNER, None).unwrap_err();
        assert!(error.to_string().contains("symbolic link"), "{error}");
        assert!(path.is_symlink());
        assert_eq!(fs::read_dir(setting.directory.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_file_of_another_user_is_trusted_by_no_server() {
        let setting = Setting::new();
        let path = setting.file.path();
        setting.file.add("alice", Roles::OWNER, None).unwrap();
        if let Err(error) = chown(path, Some(12_345), None) {
            return eprintln!("skipped: only root can give files away ({error})");
        }
        let error = Tokens::open(path).unwrap_err().to_string();
        assert!(error.contains("(chown 0 "), "{error}");
        // The administrator may still change it.
        setting.file.add("bob", Roles::OWNER, None).unwrap();
        assert_eq!(fs::metadata(path).unwrap().uid(), 12_345);
        chown(path, Some(0), None).unwrap();
        Tokens::open(path).unwrap();
    }

    #[test]
    fn what_is_no_token_file_is_refused_without_showing_it() {
        let setting = Setting::new();
        let hash = format!("{HASH}{}", "0a".repeat(32));
        for (text, phrase) in [
            ("", "is empty"),
            ("\n# nothing\n", "holds no token"),
            ("secret\n", "line 1"),
            ("alice \n", "no hash"),
            (&format!("# one\nalice {hash}\nbob secret\n"), "line 3"),
            (&format!("alice {}\n", &hash[..70]), "no hash"),
            (&format!("al/ice {hash}\n"), "invalid name"),
            (&format!(".alice {hash}\n"), "invalid name"),
            (&format!("{} {hash}\n", "a".repeat(65)), "invalid name"),
            (&format!("alice {hash} until=secret\n"), "no date"),
            (&format!("alice {hash} until=2027-3-31\n"), "no date"),
            (&format!("alice {hash} 2027-03-31\n"), "is not NAME"),
            (&format!("alice {hash} until=2027-03-31 secret\n"), "line 1"),
            (&format!("alice {hash} roles=\n"), "no roles"),
            (&format!("alice {hash} roles=read,secret\n"), "no roles"),
            (&format!("alice {hash} roles=read,\n"), "no roles"),
            (&format!("alice {hash} roles=read roles=count\n"), "line 1"),
            (
                &format!("alice {hash} until=2027-03-31 roles=read\n"),
                "line 1",
            ),
            (&format!("alice {hash}\nbob {hash}\n"), "line 2"),
        ] {
            let error = setting.refusal(text);
            assert!(error.contains(phrase), "{text:?}: {error}");
            // An invalid file is not changed either.
            if !text.is_empty() && phrase != "holds no token" {
                setting.file.add("carol", Roles::OWNER, None).unwrap_err();
                assert_eq!(fs::read_to_string(&setting.file.path).unwrap(), *text);
            }
        }
        fs::write(&setting.file.path, format!("alice {hash}\n")).unwrap();
        fs::set_permissions(&setting.file.path, Permissions::from_mode(0o620)).unwrap();
        let error = Tokens::open(&setting.file.path).unwrap_err().to_string();
        assert!(error.contains("chmod go-w"), "{error}");
        assert!(matches!(
            setting.file.add("a b", Roles::OWNER, None),
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
        file.add("alice", Roles::OWNER, None).unwrap();
        fs::set_permissions(&file.path, Permissions::from_mode(0o640)).unwrap();
        let link = setting.directory.path().join("link");
        std::os::unix::fs::symlink(&file.path, &link).unwrap();
        let by_link = TokenFile::at(&link);
        let (token, _) = by_link.add("bob", Roles::OWNER, None).unwrap();
        by_link.revoke("alice").unwrap();
        assert_eq!(file.tokens().unwrap(), [token]);
        assert!(link.is_symlink());
        assert_eq!(fs::metadata(&file.path).unwrap().mode() & 0o777, 0o640);
    }

    #[test]
    fn a_name_is_meant_before_an_id() {
        let setting = Setting::new();
        let file = &setting.file;
        let (first, _) = file.add("alice", Roles::OWNER, None).unwrap();
        let (second, _) = file.add(&first.id(), Roles::OWNER, None).unwrap();
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
                        file.add(name, Roles::OWNER, None).unwrap();
                        let (token, _) = file.add(name, Roles::OWNER, None).unwrap();
                        file.revoke(&token.id()).unwrap();
                    }
                });
            }
        });
        assert_eq!(file.tokens().unwrap().len(), 4 * 8);
    }
}
