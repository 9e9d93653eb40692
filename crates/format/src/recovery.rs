//! Recovery copies: what an owner needs, besides the ciphertext, to go on with a dataset, sealed under a passphrase and kept
//! by a server.
//!
//! Whoever keeps a copy can tell which version of which dataset it is of, and whether it is damaged; nothing else. What the
//! seal holds is a [`RecoveryContent`].

use crate::codec::{Reader, Writer, unseal};
use crate::error::{Corruption, FormatError};
use crate::id::{DatasetId, Digest};
use crate::limits::MAX_RECOVERY_BYTES;
use crate::manifest::Manifest;
use std::io::{self, Read};

const MAGIC: &str = "OBORORCV";
const VERSION: u32 = 1;
/// Magic, format version, dataset, version, root.
const HEAD: usize = 8 + 4 + 16 + 8 + 32;
const DIGEST: usize = 32;
/// Lengths are multiples of this, so that they say little about the content.
const UNIT: usize = 4096;

/// The version of a dataset that a copy is of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RecoveryHead {
    /// The dataset.
    pub dataset: DatasetId,
    /// The number of the version.
    pub version: u64,
    /// The root hash of its manifest.
    pub root: Digest,
}

impl RecoveryHead {
    /// That of a copy of this version.
    pub fn of(manifest: &Manifest) -> Self {
        Self {
            dataset: manifest.dataset,
            version: manifest.version,
            root: manifest.root(),
        }
    }

    /// The bytes that a copy begins with, and that its seal is bound to.
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

/// A copy, of which `sealed` is the content.
pub fn encode_recovery(head: &RecoveryHead, sealed: &[u8]) -> Vec<u8> {
    let mut copy = Writer::default();
    copy.put(&head.encode()).put(sealed);
    copy.seal()
}

/// What a copy is of, and its sealed content.
///
/// # Errors
/// Damaged bytes, another format.
pub fn decode_recovery(copy: &[u8]) -> Result<(RecoveryHead, &[u8]), Corruption> {
    check_recovery_length(copy.len() as u64)?;
    let head = RecoveryHead::decode(copy)?;
    Ok((head, &unseal(copy)?[HEAD..]))
}

/// Refuses what cannot be the length of a copy.
///
/// # Errors
/// Such a length.
pub fn check_recovery_length(bytes: u64) -> Result<(), Corruption> {
    if bytes == 0 || bytes > MAX_RECOVERY_BYTES || !bytes.is_multiple_of(UNIT as u64) {
        return Err(Corruption::Invalid(format!(
            "a recovery copy has a multiple of {UNIT} bytes, {MAX_RECOVERY_BYTES} at most, not {bytes}"
        )));
    }
    Ok(())
}

/// Reads a copy of this many bytes and checks it; what it is of.
///
/// # Errors
/// A file that fails; in it, damaged bytes, another format.
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

/// What a copy holds, within its seal: the files of the owner's directory but those of ciphertext, as they are there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecoveryContent {
    /// The name under which the dataset was uploaded, so that the copy of another does not pass for it.
    pub name: String,
    /// The head: the manifest and the owner's record.
    pub head: Vec<u8>,
    /// The note about a false answer, if there is one.
    pub note: Option<Vec<u8>>,
    /// The sealed records of ranges.
    pub ranges: Vec<Vec<u8>>,
}

impl RecoveryContent {
    /// The bytes to seal, padded so that a copy has a length that is a multiple of 4 KiB if its seal adds `seal_bytes`.
    ///
    /// # Errors
    /// More than a copy may have.
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

    /// The content of a copy.
    ///
    /// # Errors
    /// Bytes that [`encode`](Self::encode) does not make.
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
        // Each has its length before it.
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
