//! Recovery copies: files that an owner needs besides the ciphertext to continue with a dataset, sealed under a
//! passphrase and kept by a server.
//!
//! A server that keeps a copy learns the dataset, its version, and whether the copy is damaged, but nothing else. The
//! seal encloses a [`RecoveryContent`].

use crate::codec::{Reader, Writer, unseal};
use crate::error::{Corruption, FormatError};
use crate::id::{DatasetId, Digest};
use crate::limits::MAX_RECOVERY_BYTES;
use crate::manifest::Manifest;
use std::io::{self, Read};

const MAGIC: &str = "OBORORCV";
const VERSION: u32 = 1;
/// Bytes of magic, format version, dataset, version and root.
const HEAD: usize = 8 + 4 + 16 + 8 + 32;
const DIGEST: usize = 32;
/// Unit of the length of a copy, which hides the exact length of its content.
const UNIT: usize = 4096;

/// Dataset and version of a copy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RecoveryHead {
    /// Id of the dataset.
    pub dataset: DatasetId,
    /// Number of the version.
    pub version: u64,
    /// Root hash of the version's manifest.
    pub root: Digest,
}

impl RecoveryHead {
    /// Creates the head of a copy of this version.
    pub fn of(manifest: &Manifest) -> Self {
        Self {
            dataset: manifest.dataset,
            version: manifest.version,
            root: manifest.root(),
        }
    }

    /// Returns the leading bytes of a copy, to which its seal is bound.
    pub fn encode(&self) -> Vec<u8> {
        let mut head = Writer::with_preamble(MAGIC, VERSION);
        head.put(&self.dataset.0)
            .u64(self.version)
            .put(&self.root.0);
        head.into_bytes()
    }

    fn decode(bytes: &[u8]) -> Result<Self, Corruption> {
        let mut reader = Reader::new(bytes);
        reader.preamble(MAGIC, VERSION)?;
        Ok(Self {
            dataset: DatasetId(reader.array()?),
            version: reader.u64()?,
            root: Digest(reader.array()?),
        })
    }
}

/// Encodes a copy with `sealed` as its content.
pub fn encode_recovery(head: &RecoveryHead, sealed: &[u8]) -> Vec<u8> {
    let mut copy = Writer::default();
    copy.put(&head.encode()).put(sealed);
    copy.seal()
}

/// Splits a copy into its head and its sealed content.
///
/// # Errors
/// Damaged bytes, another format.
pub fn decode_recovery(copy: &[u8]) -> Result<(RecoveryHead, &[u8]), Corruption> {
    check_recovery_length(copy.len() as u64)?;
    let head = RecoveryHead::decode(copy)?;
    Ok((head, &unseal(copy)?[HEAD..]))
}

/// Checks the length of a copy.
///
/// # Errors
/// A length that no copy has.
pub fn check_recovery_length(bytes: u64) -> Result<(), Corruption> {
    if bytes == 0 || bytes > MAX_RECOVERY_BYTES || !bytes.is_multiple_of(UNIT as u64) {
        return Err(Corruption::Invalid(format!(
            "a recovery copy has a multiple of {UNIT} bytes, {MAX_RECOVERY_BYTES} at most, not {bytes}"
        )));
    }
    Ok(())
}

/// Reads a copy of `bytes` bytes, checks it, and returns its head.
///
/// # Errors
/// A file that cannot be read; the inner error is damage or another format.
pub fn check_recovery(
    mut file: impl Read,
    bytes: u64,
) -> io::Result<Result<RecoveryHead, Corruption>> {
    if let Err(corruption) = check_recovery_length(bytes) {
        return Ok(Err(corruption));
    }
    let mut head = [0; HEAD];
    file.read_exact(&mut head)?;
    let mut hasher = blake3::Hasher::new();
    hasher.update(&head);
    io::copy(
        &mut (&mut file).take(bytes - (HEAD + DIGEST) as u64),
        &mut hasher,
    )?;
    let mut digest = [0; DIGEST];
    file.read_exact(&mut digest)?;
    Ok(match RecoveryHead::decode(&head) {
        Ok(_) if hasher.finalize() != digest => Err(Corruption::Altered),
        decoded => decoded,
    })
}

/// Content of a copy, before sealing: the owner's files without ciphertext, unchanged.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecoveryContent {
    /// Name under which the dataset was uploaded; prevents the copy of another dataset from passing for this one.
    pub name: String,
    /// Head of the bundle: the manifest and the owner's record.
    pub head: Vec<u8>,
    /// Note about a false answer, if the bundle has one.
    pub note: Option<Vec<u8>>,
    /// Sealed records of ranges.
    pub ranges: Vec<Vec<u8>>,
}

impl RecoveryContent {
    /// Returns the bytes to seal. Padding makes a copy's length a multiple of 4 KiB if the seal adds `seal_bytes`.
    ///
    /// # Errors
    /// Content that exceeds the size limit of a copy.
    pub fn encode(&self, seal_bytes: usize) -> Result<Vec<u8>, FormatError> {
        let mut content = Writer::default();
        let note = self.note.as_deref().unwrap_or_default();
        for part in [self.name.as_bytes(), &self.head, note] {
            content.u64(part.len() as u64).put(part);
        }
        content.u64(self.ranges.len() as u64);
        for range in &self.ranges {
            content.u64(range.len() as u64).put(range);
        }
        let mut content = content.into_bytes();
        let besides = HEAD + seal_bytes + DIGEST;
        let copy = (content.len() + besides).next_multiple_of(UNIT);
        if copy as u64 > MAX_RECOVERY_BYTES {
            return Err(FormatError::LargeRecovery { bytes: copy as u64 });
        }
        content.resize(copy - besides, 0);
        Ok(content)
    }

    /// Decodes the content of a copy.
    ///
    /// # Errors
    /// Bytes that [`encode`](Self::encode) does not produce.
    pub fn decode(content: &[u8]) -> Result<Self, Corruption> {
        let mut reader = Reader::new(content);
        let part = |reader: &mut Reader<'_>| {
            let length = reader.u64()?;
            let length = usize::try_from(length).unwrap_or(usize::MAX);
            Ok::<_, Corruption>(reader.bytes(length)?.to_vec())
        };
        let name = String::from_utf8(part(&mut reader)?);
        let name = name.map_err(|_| Corruption::Invalid("its name is not text".into()))?;
        let (head, note) = (part(&mut reader)?, part(&mut reader)?);
        let count = reader.u64()?;
        // Each range has its length in 8 bytes before it.
        if count > reader.remaining() as u64 / 8 {
            return Err(Corruption::Invalid("it ends too early".into()));
        }
        let ranges: Result<_, Corruption> = (0..count).map(|_| part(&mut reader)).collect();
        let ranges = ranges?;
        if reader.bytes(reader.remaining())?.iter().any(|&it| it != 0) {
            return Err(Corruption::Invalid("its padding is not zero".into()));
        }
        Ok(Self {
            name,
            head,
            note: (!note.is_empty()).then_some(note),
            ranges,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SEAL: usize = 68;

    fn head() -> RecoveryHead {
        RecoveryHead {
            dataset: DatasetId([1; 16]),
            version: 3,
            root: Digest([2; 32]),
        }
    }

    fn content(bytes: usize) -> RecoveryContent {
        RecoveryContent {
            name: "rows".to_owned(),
            head: vec![7; bytes],
            note: Some(b"note".to_vec()),
            ranges: vec![vec![8; 3], vec![]],
        }
    }

    fn copy() -> Vec<u8> {
        let content = content(100).encode(SEAL).unwrap();
        encode_recovery(&head(), &[&[9; SEAL][..], &content].concat())
    }

    #[test]
    fn a_copy_is_what_it_was() {
        let copy = copy();
        assert_eq!(copy.len(), 4096);
        let (found, sealed) = decode_recovery(&copy).unwrap();
        assert_eq!(found, head());
        assert_eq!(sealed[..SEAL], [9; SEAL]);
        assert_eq!(
            RecoveryContent::decode(&sealed[SEAL..]).unwrap(),
            content(100)
        );
        assert_eq!(check_recovery(&copy[..], 4096).unwrap(), Ok(head()));
        let golden = include_bytes!("../tests/golden/recovery");
        assert_eq!(copy, golden);
    }

    #[test]
    fn lengths_say_little() {
        let bytes = |head| content(head).encode(SEAL).unwrap().len() + 100 + SEAL;
        assert_eq!(bytes(0), 4096);
        let most = (0..8192).rfind(|&it| bytes(it) == 4096).unwrap();
        assert_eq!(bytes(most + 1), 8192);
        let large = content(MAX_RECOVERY_BYTES as usize).encode(SEAL);
        assert!(matches!(large, Err(FormatError::LargeRecovery { .. })));
    }

    #[test]
    fn damage_is_found() {
        let whole = copy();
        for at in 0..whole.len() {
            let mut altered = whole.clone();
            altered[at] ^= 1;
            assert!(decode_recovery(&altered).is_err(), "{at}");
            assert!(check_recovery(&altered[..], 4096).unwrap().is_err(), "{at}");
        }
        for length in [0, 1, 4095] {
            assert!(decode_recovery(&whole[..length]).is_err());
        }
        assert!(check_recovery(&whole[..4000], 4096).is_err());
        assert!(check_recovery_length(4096 + MAX_RECOVERY_BYTES).is_err());
        let mut newer = whole;
        newer[8] = 2;
        let found = decode_recovery(&newer).unwrap_err();
        assert!(matches!(found, Corruption::Newer { found: 2, .. }));
    }

    #[test]
    fn content_that_is_not_one_is_refused() {
        let whole = content(10).encode(SEAL).unwrap();
        for end in 0..69 {
            assert!(RecoveryContent::decode(&whole[..end]).is_err(), "{end}");
        }
        let mut padded = whole.clone();
        *padded.last_mut().unwrap() = 1;
        assert!(RecoveryContent::decode(&padded).is_err());
        let mut many = whole;
        many[42..50].fill(0xff);
        assert!(RecoveryContent::decode(&many).is_err());
    }
}
