//! The master key on disk: 120 bytes, readable by its owner only, optionally under a passphrase.
//!
//! `docs/formats.md` has the layout. A file is written under a temporary name, synced and hard-linked to its final
//! name. An existing key is therefore never replaced, and a crash leaves no partial file.

use crate::key::MasterKey;
use crate::passphrase::{COST, Cost, OTHER_COSTS, Passphrase, salt_and_nonce, wrapping_key};
use crate::private_file::{PrivateFileError, open_private};
use crate::seal::{NONCE_BYTES, TAG_BYTES, decrypt, encrypt};
use oboro_system::{owner_only, sync_directory};
use std::fs::{self, OpenOptions};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use thiserror::Error;
use zeroize::{Zeroize, Zeroizing};

const MAGIC: &[u8; 8] = b"OBOROKEY";
const VERSION: u32 = 1;
const PLAIN: u32 = 0;
const PASSPHRASE: u32 = 1;
const SALT: std::ops::Range<usize> = 32..48;
const NONCE: std::ops::Range<usize> = 48..48 + NONCE_BYTES;
const SECRET: std::ops::Range<usize> = 72..72 + 32 + TAG_BYTES;
const LENGTH: usize = SECRET.end;

/// Error: the key file could not be written or read.
#[derive(Debug, Error)]
#[allow(missing_docs)]
pub enum KeyFileError {
    #[error("a file named {} exists already; choose another name, or move it away if you are sure that nothing was encrypted with it", .0.display())]
    Exists(PathBuf),
    #[error("cannot write the key file {}: {source}; check the directory's permissions and free space, and that its file system has hard links", path.display())]
    Write { path: PathBuf, source: io::Error },
    #[error("cannot read the key file {}: {source}; check the path and that you own the file", path.display())]
    Read { path: PathBuf, source: io::Error },
    #[error(transparent)]
    NotPrivate(PrivateFileError),
    #[error("{} is not an Oboro key file; make one", .0.display())]
    Foreign(PathBuf),
    #[error("{path} is damaged: {what}; restore it from your backup", path = .0.display(), what = .1)]
    Damaged(PathBuf, &'static str),
    #[error("{path} was written by a newer Oboro (format {version}, this one reads {VERSION}); update Oboro", path = .0.display(), version = .1)]
    Newer(PathBuf, u32),
    #[error("{} is protected by a passphrase; give it", .0.display())]
    PassphraseNeeded(PathBuf),
    #[error("the passphrase does not open {}, or the file is damaged; try again or restore the file from your backup", .0.display())]
    WrongPassphrase(PathBuf),
    #[error("an empty passphrase protects nothing; give one, or none at all")]
    EmptyPassphrase,
    #[error("the operating system gave no randomness ({0}); nothing was written, try again")]
    Randomness(#[from] getrandom::Error),
}

impl MasterKey {
    /// Writes the key to a new file of mode 0600, under a passphrase if one is given.
    pub fn save(&self, path: &Path, passphrase: Option<&Passphrase>) -> Result<(), KeyFileError> {
        write_new(path, &self.to_file_bytes(passphrase)?[..])
    }

    /// Reads a key file; `passphrase` is called only if the file needs one.
    pub fn load(
        path: &Path,
        passphrase: impl FnOnce() -> Option<Passphrase>,
    ) -> Result<Self, KeyFileError> {
        let read = |source| KeyFileError::Read {
            path: path.to_owned(),
            source,
        };
        let file = open_private(path).map_err(|error| match error {
            PrivateFileError::Open(source) => read(source),
            error => KeyFileError::NotPrivate(error),
        })?;
        let mut bytes = Zeroizing::new(Vec::with_capacity(LENGTH + 1));
        file.take(LENGTH as u64 + 1)
            .read_to_end(&mut bytes)
            .map_err(read)?;
        Self::decode(path, &bytes, passphrase)
    }

    /// Reads a key from the bytes of a key file that were kept elsewhere; `from` names the place in errors.
    /// `passphrase` is called only if they need one.
    ///
    /// # Errors
    /// As for a file.
    pub fn from_file_bytes(
        from: &Path,
        bytes: &[u8],
        passphrase: impl FnOnce() -> Option<Passphrase>,
    ) -> Result<Self, KeyFileError> {
        Self::decode(from, bytes, passphrase)
    }

    /// Encodes a key file, under a passphrase if one is given, to be kept elsewhere than in a file.
    ///
    /// # Errors
    /// The passphrase is empty, or the system provides no randomness.
    pub fn to_file_bytes(
        &self,
        passphrase: Option<&Passphrase>,
    ) -> Result<Zeroizing<[u8; LENGTH]>, KeyFileError> {
        if passphrase.is_some_and(|text| text.is_empty()) {
            return Err(KeyFileError::EmptyPassphrase);
        }
        let mut randomness = Zeroizing::new([0; 32]);
        getrandom::fill(&mut *randomness)?;
        let (salt, nonce) = salt_and_nonce(&randomness, MAGIC, self.expose());
        Ok(self.encode(passphrase, salt, nonce))
    }

    fn encode(
        &self,
        passphrase: Option<&Passphrase>,
        salt: [u8; 16],
        nonce: [u8; NONCE_BYTES],
    ) -> Zeroizing<[u8; LENGTH]> {
        let mut bytes = Zeroizing::new([0; LENGTH]);
        bytes[..8].copy_from_slice(MAGIC);
        bytes[8..12].copy_from_slice(&VERSION.to_le_bytes());
        let Some(passphrase) = passphrase else {
            bytes[12..16].copy_from_slice(&PLAIN.to_le_bytes());
            bytes[SECRET][..32].copy_from_slice(self.expose());
            bytes[SECRET][32..].copy_from_slice(&self.check().0);
            return bytes;
        };
        bytes[12..16].copy_from_slice(&PASSPHRASE.to_le_bytes());
        bytes[16..20].copy_from_slice(&COST.memory_kib.to_le_bytes());
        bytes[20..24].copy_from_slice(&COST.passes.to_le_bytes());
        bytes[24..28].copy_from_slice(&COST.lanes.to_le_bytes());
        bytes[SALT].copy_from_slice(&salt);
        bytes[NONCE].copy_from_slice(&nonce);
        let wrapping = wrapping_key(passphrase, &salt);
        let sealed = encrypt(&wrapping, &nonce, &bytes[..SECRET.start], self.expose());
        bytes[SECRET].copy_from_slice(&sealed);
        bytes
    }

    fn decode(
        path: &Path,
        bytes: &[u8],
        passphrase: impl FnOnce() -> Option<Passphrase>,
    ) -> Result<Self, KeyFileError> {
        let path = || path.to_owned();
        if bytes.len() < 12 || &bytes[..8] != MAGIC {
            return Err(KeyFileError::Foreign(path()));
        }
        let word =
            |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"));
        if word(8) > VERSION {
            return Err(KeyFileError::Newer(path(), word(8)));
        }
        if bytes.len() != LENGTH || word(8) == 0 {
            return Err(KeyFileError::Damaged(
                path(),
                "it does not have 120 bytes of format 1",
            ));
        }
        match word(12) {
            PLAIN => {
                if bytes[16..SECRET.start].iter().any(|&b| b != 0) {
                    return Err(KeyFileError::Damaged(
                        path(),
                        "its unused fields are not zero",
                    ));
                }
                let mut secret = Zeroizing::new([0; 32]);
                secret.copy_from_slice(&bytes[SECRET][..32]);
                let key = Self::take(&mut secret);
                if bytes[SECRET][32..] != key.check().0 {
                    return Err(KeyFileError::Damaged(path(), "its check value is wrong"));
                }
                Ok(key)
            }
            PASSPHRASE => {
                let cost = Cost {
                    memory_kib: word(16),
                    passes: word(20),
                    lanes: word(24),
                };
                if cost != COST {
                    return Err(KeyFileError::Damaged(path(), OTHER_COSTS));
                }
                let passphrase =
                    passphrase().ok_or_else(|| KeyFileError::PassphraseNeeded(path()))?;
                let wrapping = wrapping_key(&passphrase, &bytes[SALT]);
                let opened = decrypt(
                    &wrapping,
                    &bytes[NONCE],
                    &bytes[..SECRET.start],
                    &bytes[SECRET],
                )
                .ok_or_else(|| KeyFileError::WrongPassphrase(path()))?;
                let mut secret = Zeroizing::new([0; 32]);
                secret.copy_from_slice(&opened);
                Ok(Self::take(&mut secret))
            }
            _ => Err(KeyFileError::Damaged(
                path(),
                "it names a protection that does not exist",
            )),
        }
    }
}

/// Writes `bytes` to `path` unless it exists: temporary name, sync, link, sync of the directory.
fn write_new(path: &Path, bytes: &[u8]) -> Result<(), KeyFileError> {
    let failed = |source: io::Error| KeyFileError::Write {
        path: path.to_owned(),
        source,
    };
    let name = path
        .file_name()
        .ok_or_else(|| failed(io::ErrorKind::InvalidFilename.into()))?;
    let directory = match path.parent() {
        Some(parent) if parent != Path::new("") => parent,
        _ => Path::new("."),
    };
    let mut suffix = [0; 8];
    getrandom::fill(&mut suffix)?;
    let mut temporary = std::ffi::OsString::from(".");
    temporary.push(name);
    temporary.push(format!(".{:016x}", u64::from_le_bytes(suffix)));
    let temporary = directory.join(temporary);
    let written = (|| {
        let mut options = OpenOptions::new();
        let mut file = owner_only(options.write(true).create_new(true)).open(&temporary)?;
        file.write_all(bytes)?;
        file.sync_all()?;
        // A link, unlike a rename, never replaces an existing file.
        fs::hard_link(&temporary, path)?;
        // Without this sync of the directory, success would not mean durability.
        sync_directory(directory).inspect_err(|_| drop(fs::remove_file(path)))
    })();
    // The temporary name is always removed; the key, if linked, keeps its own.
    let _ = fs::remove_file(&temporary);
    suffix.zeroize();
    written.map_err(|error| match error.kind() {
        io::ErrorKind::AlreadyExists => KeyFileError::Exists(path.to_owned()),
        _ => failed(error),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{PermissionsExt, chown};

    fn key() -> MasterKey {
        MasterKey::take(&mut [0x5a; 32])
    }

    fn passphrase(text: &str) -> Passphrase {
        Zeroizing::new(text.to_owned())
    }

    fn decode(bytes: &[u8], text: Option<&str>) -> Result<MasterKey, KeyFileError> {
        MasterKey::decode(Path::new("k"), bytes, || text.map(passphrase))
    }

    #[test]
    fn a_saved_key_is_private_and_comes_back() {
        let directory = tempfile::tempdir().unwrap();
        for secret in [None, Some(passphrase("moon"))] {
            let path = directory
                .path()
                .join(if secret.is_some() { "sealed" } else { "plain" });
            key().save(&path, secret.as_ref()).unwrap();
            assert_eq!(
                fs::metadata(&path).unwrap().permissions().mode() & 0o777,
                0o600
            );
            let back = MasterKey::load(&path, || secret.clone()).unwrap();
            assert_eq!(back.check(), key().check());
            assert!(matches!(
                key().save(&path, None),
                Err(KeyFileError::Exists(_))
            ));
            fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
            assert!(matches!(
                MasterKey::load(&path, || None),
                Err(KeyFileError::NotPrivate(
                    PrivateFileError::Permissions { .. }
                ))
            ));
        }
        let empty = key().save(&directory.path().join("empty"), Some(&passphrase("")));
        assert!(matches!(empty, Err(KeyFileError::EmptyPassphrase)));
        assert_eq!(
            fs::read_dir(directory.path()).unwrap().count(),
            2,
            "no temporary file is left"
        );
    }

    #[test]
    fn a_key_of_another_user_is_refused() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("key");
        key().save(&path, None).unwrap();
        if let Err(error) = chown(&path, Some(12_345), None) {
            return eprintln!("skipped: files can be given away by root only ({error})");
        }
        let refused = MasterKey::load(&path, || None).unwrap_err().to_string();
        let sentence = format!(
            "{0} belongs to another user (uid 12345, and this process runs as 0), who can read and replace it; make it yours (chown 0 {0}), or use a copy of your own",
            path.display()
        );
        assert_eq!(refused, sentence);
    }

    #[test]
    fn the_key_shows_only_in_an_unprotected_file() {
        let sealed = key().encode(Some(&passphrase("moon")), [1; 16], [2; 24]);
        assert!(!sealed.windows(4).any(|w| w == [0x5a; 4]));
    }

    #[test]
    fn golden_files() {
        let hex = |bytes: &[u8]| bytes.iter().map(|b| format!("{b:02x}")).collect::<String>();
        let plain = key().encode(None, [1; 16], [2; 24]);
        assert_eq!(
            hex(&*plain),
            include_str!("../tests/golden/plain-key.hex").trim()
        );
        let sealed = key().encode(Some(&passphrase("moon")), [1; 16], [2; 24]);
        assert_eq!(
            hex(&*sealed),
            include_str!("../tests/golden/sealed-key.hex").trim()
        );
    }

    #[test]
    fn wrong_foreign_newer_and_altered_files_have_errors_of_their_own() {
        let plain = key().encode(None, [0; 16], [0; 24]);
        let sealed = key().encode(Some(&passphrase("moon")), [1; 16], [2; 24]);
        assert!(matches!(
            decode(&sealed[..], None),
            Err(KeyFileError::PassphraseNeeded(_))
        ));
        assert!(matches!(
            decode(&sealed[..], Some("sun")),
            Err(KeyFileError::WrongPassphrase(_))
        ));
        assert!(matches!(decode(b"", None), Err(KeyFileError::Foreign(_))));
        assert!(matches!(
            decode(b"-----BEGIN PRIVATE KEY-----", None),
            Err(KeyFileError::Foreign(_))
        ));
        let mut newer = plain.clone();
        newer[8] = 2;
        assert!(matches!(
            decode(&newer[..], None),
            Err(KeyFileError::Newer(_, 2))
        ));
        for i in 0..LENGTH {
            let mut altered = plain.clone();
            altered[i] ^= 0x40;
            assert!(decode(&altered[..], None).is_err(), "byte {i}");
            assert!(decode(&plain[..i], None).is_err(), "length {i}");
        }
        let longer = [&plain[..], &[0]].concat();
        assert!(decode(&longer, None).is_err());
        // The costs come first: an altered file must not exhaust memory.
        let mut greedy = sealed.clone();
        greedy[16..20].copy_from_slice(&u32::MAX.to_le_bytes());
        assert!(matches!(
            decode(&greedy[..], Some("moon")),
            Err(KeyFileError::Damaged(..))
        ));
        for i in [30, 40, 60, 80, 119] {
            let mut altered = sealed.clone();
            altered[i] ^= 1;
            assert!(decode(&altered[..], Some("moon")).is_err(), "byte {i}");
        }
    }
}
