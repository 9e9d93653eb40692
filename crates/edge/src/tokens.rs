//! Tokens that a server accepts: those of a file, reloaded when it changes.
//!
//! Lookup is by hash, so its timing does not reveal how much of a token is right.

use crate::credentials::{Credential, End, Kind, Refusal};
use crate::expiry::{Expiring, OF_CALLERS};
use crate::reload::{LoadError, ReloadingValue};
use crate::token_file::{PREFIX, Token, TokenError, TokenFile};
use oboro_format::Digest;
use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;
use time::{Date, OffsetDateTime};

/// Maximum number of remembered revoked tokens, which the log names as the reason of a refusal.
const MOST_REVOKED: usize = 4096;

/// Tokens that a server currently accepts.
#[derive(Debug)]
pub struct Tokens {
    file: TokenFile,
    accepted: ReloadingValue<Accepted>,
}

#[derive(Debug, Default)]
struct Accepted {
    by_hash: HashMap<Digest, Arc<Credential>>,
    /// Ids of tokens revoked since the server started.
    revoked: HashMap<Digest, Arc<str>>,
}

impl LoadError for TokenError {
    fn is_transient(&self) -> bool {
        !matches!(self, Self::Line { .. } | Self::Untrusted(_))
    }
}

impl Tokens {
    /// Accepts the tokens in a file, which is reloaded when it changes.
    ///
    /// # Errors
    /// As [`TokenFile::tokens`], or a file owned by a user other than root and that of this process, or no token at
    /// all.
    pub fn open(path: &Path) -> Result<Self, TokenError> {
        let file = TokenFile::at(path);
        let accepted = ReloadingValue::open("the token file", vec![path.into()], |_| {
            let accepted = Accepted::default().replaced_by(file.trusted()?);
            if accepted.by_hash.is_empty() {
                return Err(TokenError::Empty { path: path.into() });
            }
            Ok(accepted)
        })?;
        Ok(Self { file, accepted })
    }

    /// Reloads the file if it has changed. If it cannot be used, logs that and keeps the previous tokens.
    pub fn refresh(&self) {
        let replaced = self
            .accepted
            .refresh(|_, before| Ok::<_, TokenError>(before.replaced_by(self.file.trusted()?)));
        let Some(replaced) = replaced else {
            return;
        };
        for (hash, credential) in &replaced.before.by_hash {
            let now = replaced.now.by_hash.get(hash);
            if !now.is_some_and(|now| keeps(now, credential)) {
                credential.end.ended.cancel();
            }
        }
    }

    /// Returns the credential of `secret`, if it is valid now.
    pub(crate) fn credential(
        &self,
        secret: &str,
        now: OffsetDateTime,
    ) -> Result<Arc<Credential>, Refusal> {
        self.refresh();
        let is_hex = |it: &str| it.len() == 64 && it.bytes().all(|it| it.is_ascii_hexdigit());
        if !secret.strip_prefix(PREFIX).is_some_and(is_hex) {
            return Err(Refusal::Malformed);
        }
        let accepted = self.accepted.current();
        let hash = Digest::of(secret.as_bytes());
        if let Some(credential) = accepted.by_hash.get(&hash) {
            return credential.valid(now);
        }
        Err(accepted.revoked.get(&hash).map_or(Refusal::Unknown, |id| {
            let (kind, id) = (Kind::Token, Arc::clone(id));
            Refusal::Revoked { kind, id }
        }))
    }

    /// Ends the calls of expired tokens.
    pub(crate) fn end_expired(&self, now: OffsetDateTime) {
        let accepted = self.accepted.current();
        for credential in accepted.by_hash.values() {
            credential.end_if_expired(now);
        }
    }

    /// Returns the tokens that expire soon.
    pub(crate) fn endings(&self, now: OffsetDateTime) -> Vec<Expiring> {
        let accepted = self.accepted.current();
        let ending = |it: &Arc<Credential>| {
            let at = it
                .expires
                .filter(|at| *at > now && *at - now <= OF_CALLERS)?;
            let what = format!("token {} of {}", it.id, it.name);
            Some(Expiring { what, at })
        };
        accepted.by_hash.values().filter_map(ending).collect()
    }
}

impl Accepted {
    /// Returns the successor of these tokens. The calls of a token continue if it stays and grants no less.
    fn replaced_by(&self, tokens: Vec<Token>) -> Self {
        let accept = |token: Token| {
            let mut credential = Credential {
                kind: Kind::Token,
                id: token.id().into(),
                name: token.name.into(),
                roles: token.roles,
                expires: token.until.and_then(end_of),
                end: End::default(),
            };
            let known = self.by_hash.get(&token.hash);
            let goes_on =
                |it: &&Arc<Credential>| keeps(&credential, it) && !it.end.ended.is_cancelled();
            if let Some(known) = known.filter(goes_on) {
                credential.end = known.end.clone();
            }
            (token.hash, Arc::new(credential))
        };
        let by_hash: HashMap<_, _> = tokens.into_iter().map(accept).collect();
        let mut revoked = self.revoked.clone();
        if revoked.len() > MOST_REVOKED {
            revoked.clear();
        }
        let before = self.by_hash.iter();
        revoked.extend(before.map(|(hash, it)| (*hash, Arc::clone(&it.id))));
        revoked.retain(|hash, _| !by_hash.contains_key(hash));
        Self { by_hash, revoked }
    }
}

/// Returns true if calls of the credential `before` may continue with `now`.
fn keeps(now: &Credential, before: &Credential) -> bool {
    now.name == before.name && now.roles & before.roles == before.roles
}

/// Returns the end of a day in UTC; `None` for the last representable day.
fn end_of(day: Date) -> Option<OffsetDateTime> {
    Some(day.next_day()?.midnight().assume_utc())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::token_file::{parse_date, today};
    use oboro_format::Roles;
    use std::fs;
    use std::os::unix::fs::MetadataExt;
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
    }

    fn now() -> OffsetDateTime {
        OffsetDateTime::now_utc()
    }

    fn name(tokens: &Tokens, secret: &str) -> Option<String> {
        let credential = tokens.credential(secret, now()).ok()?;
        Some(credential.name.to_string())
    }

    #[test]
    fn what_is_made_is_accepted_and_only_its_hash_is_kept() {
        let Setting { file, directory } = Setting::new();
        let (alice, a) = file.add("alice", Roles::OWNER, None).unwrap();
        let (bob, b) = file.add("bob", Roles::OWNER, today().next_day()).unwrap();
        let (_, other) = file.add("alice", Roles::OWNER, Some(Date::MAX)).unwrap();
        assert_eq!(a.len(), PREFIX.len() + 64);
        let text = fs::read_to_string(file.path()).unwrap();
        for secret in [&a, &b, &other] {
            assert!(!text.contains(&secret[PREFIX.len()..]));
        }
        assert_eq!(file.tokens().unwrap()[..2], [alice.clone(), bob]);
        assert_eq!(fs::metadata(file.path()).unwrap().mode() & 0o777, 0o600);
        let tokens = Tokens::open(file.path()).unwrap();
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
        // Nothing else is left in the directory.
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 1);
    }

    #[test]
    fn changes_count_at_once() {
        let setting = Setting::new();
        let file = &setting.file;
        let (first, a) = file.add("alice", Roles::OWNER, None).unwrap();
        let tokens = Tokens::open(file.path()).unwrap();
        let bearer = tokens.credential(&a, now()).unwrap();
        let (_, b) = file.add("bob", Roles::OWNER, None).unwrap();
        assert_eq!(name(&tokens, &b).unwrap(), "bob");
        assert!(!bearer.end.ended.is_cancelled());
        assert_eq!(file.revoke(&first.id()).unwrap(), [first]);
        assert_eq!(name(&tokens, &a), None);
        assert!(bearer.end.ended.is_cancelled());
        let bearer = tokens.credential(&b, now()).unwrap();
        // An invalid file changes nothing.
        let text = fs::read(file.path()).unwrap();
        fs::write(file.path(), "bob secret\n").unwrap();
        assert_eq!(name(&tokens, &b).unwrap(), "bob");
        fs::write(file.path(), "").unwrap();
        assert_eq!(name(&tokens, &b).unwrap(), "bob");
        fs::remove_file(file.path()).unwrap();
        assert_eq!(name(&tokens, &b).unwrap(), "bob");
        fs::create_dir(file.path()).unwrap();
        assert_eq!(name(&tokens, &b).unwrap(), "bob");
        fs::remove_dir(file.path()).unwrap();
        fs::write(file.path(), text).unwrap();
        assert_eq!(name(&tokens, &b).unwrap(), "bob");
        assert!(!bearer.end.ended.is_cancelled());
        // The last one may be revoked, too.
        file.revoke("bob").unwrap();
        assert_eq!(name(&tokens, &b), None);
        assert!(bearer.end.ended.is_cancelled());
        assert!(matches!(
            file.revoke("bob"),
            Err(TokenError::Unknown { .. })
        ));
        assert!(matches!(
            Tokens::open(file.path()),
            Err(TokenError::Empty { .. })
        ));
    }

    #[test]
    fn expired_tokens_are_not_accepted_and_their_calls_end() {
        let setting = Setting::new();
        let file = &setting.file;
        let refused = file.add("alice", Roles::OWNER, today().previous_day());
        assert!(matches!(refused, Err(TokenError::Past { .. })));
        let last = parse_date("2099-03-31").unwrap();
        let (token, secret) = file.add("alice", Roles::OWNER, Some(last)).unwrap();
        let tokens = Tokens::open(file.path()).unwrap();
        let credential = tokens.credential(&secret, now()).unwrap();
        let after = last.next_day().unwrap().midnight().assume_utc();
        let within = after - time::Duration::SECOND;
        tokens.end_expired(within);
        assert!(tokens.credential(&secret, within).is_ok());
        assert!(!credential.end.ended.is_cancelled());
        tokens.end_expired(after);
        assert!(credential.end.ended.is_cancelled());
        assert!(credential.farewell().message().contains("has expired"));
        let refusal = tokens.credential(&secret, after).unwrap_err();
        let (kind, id) = (Kind::Token, token.id().into());
        assert_eq!(refusal, Refusal::Expired { kind, id, on: last });
        let status = refusal.status("wanted");
        assert!(status.message().contains("2099-03-31"), "{status}");
        // A later day makes it valid again.
        let text = fs::read_to_string(file.path()).unwrap();
        fs::write(file.path(), text.replace("2099-03-31", "2199-03-31")).unwrap();
        assert!(tokens.credential(&secret, after).is_ok());
    }

    #[test]
    fn calls_go_on_unless_their_token_allows_less_than_before() {
        let setting = Setting::new();
        let file = &setting.file;
        let roles = Roles::parse("read,count").unwrap();
        let (_, secret) = file.add("alice", roles, None).unwrap();
        let tokens = Tokens::open(file.path()).unwrap();
        let before = tokens.credential(&secret, now()).unwrap();
        assert_eq!(before.roles, roles);
        let text = fs::read_to_string(file.path()).unwrap();
        for (list, goes_on) in [("read,count,fetch", true), ("read,fetch", false)] {
            fs::write(
                file.path(),
                text.replace("=read,count", &format!("={list}")),
            )
            .unwrap();
            let after = tokens.credential(&secret, now()).unwrap();
            assert_eq!(after.roles, Roles::parse(list).unwrap());
            assert!(!after.end.ended.is_cancelled());
            assert_eq!(before.end.ended.is_cancelled(), !goes_on, "{list}");
        }
        let before = tokens.credential(&secret, now()).unwrap();
        let text = fs::read_to_string(file.path()).unwrap();
        fs::write(file.path(), text.replace("alice", "somebody")).unwrap();
        assert_eq!(name(&tokens, &secret).unwrap(), "somebody");
        assert!(before.end.ended.is_cancelled());
    }

    #[test]
    fn the_reason_of_a_refusal_is_known() {
        let setting = Setting::new();
        let file = &setting.file;
        let (token, secret) = file.add("alice", Roles::OWNER, None).unwrap();
        let tokens = Tokens::open(file.path()).unwrap();
        let refusal = |secret: &str| tokens.credential(secret, now()).unwrap_err();
        for malformed in ["", "alice", PREFIX, &secret[1..], &format!("{}0", *secret)] {
            assert_eq!(refusal(malformed), Refusal::Malformed, "{malformed}");
        }
        let other = format!("{PREFIX}{}", "0".repeat(64));
        assert_eq!(refusal(&other), Refusal::Unknown);
        file.revoke("alice").unwrap();
        let revoked = refusal(&secret);
        let (kind, id) = (Kind::Token, token.id().into());
        assert_eq!(revoked, Refusal::Revoked { kind, id });
        // The caller does not learn the reason.
        assert_eq!(revoked.status("wanted").message(), "wanted");
        assert_eq!(refusal(&other).status("wanted").message(), "wanted");
    }
}
