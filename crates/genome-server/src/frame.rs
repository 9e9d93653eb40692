//! Frame of panel and reference files: a sealed header, blobs at multiples of 4096 bytes, and at the end an index. The
//! header has the digest of the index.
//!
//! A file is written under a partial name, header last, synced and renamed. Every read of a blob checks it, and the
//! zeros behind it, by the index's digest.

use crate::error::GenomeError;
use crate::kind::Kind;
use crate::loading::PartialCollection;
use oboro_format::codec::{Reader, Writer, unseal};
use oboro_format::files::{if_there, io_error};
use oboro_format::{Corruption, Digest};
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

const VERSION: u32 = 1;
/// Size of the header, and the multiple at which blobs start.
const ALIGNMENT: u64 = 4096;
/// Magic, version, three numbers, and offset, length and digest of the index.
const HEADER_BODY: usize = 72;

/// Number of bytes of a blob in a file.
pub(crate) fn padded(bytes: u64) -> u64 {
    bytes.next_multiple_of(ALIGNMENT)
}

/// Numbers of a header; each kind of collection gives them its own meaning.
pub(crate) type Numbers = [u32; 3];

/// File that is being written.
pub(crate) struct FrameWriter {
    loading: PartialCollection,
    file: File,
    end: u64,
}

impl FrameWriter {
    pub(crate) fn create(loading: PartialCollection) -> Result<Self, GenomeError> {
        let file = loading.create()?;
        Ok(Self {
            loading,
            file,
            end: ALIGNMENT,
        })
    }

    /// Appends a blob.
    pub(crate) fn put(&mut self, mut blob: Vec<u8>) -> Result<Digest, GenomeError> {
        blob.resize(padded(blob.len() as u64) as usize, 0);
        self.write(&blob, self.end)?;
        self.end += blob.len() as u64;
        Ok(Digest::of(&blob))
    }

    /// Writes index and header, and gives the file its name.
    pub(crate) fn finish(self, numbers: Numbers, index: &[u8]) -> Result<(), GenomeError> {
        self.write(index, self.end)?;
        let mut header = Writer::with_preamble(self.loading.kind().magic(), VERSION);
        for number in numbers {
            header.u32(number);
        }
        header
            .u64(self.end)
            .u64(index.len() as u64)
            .put(&Digest::of(index).0);
        let mut header = header.seal();
        header.resize(ALIGNMENT as usize, 0);
        self.write(&header, 0)?;
        self.loading.publish(&self.file)
    }

    fn write(&self, bytes: &[u8], offset: u64) -> Result<(), GenomeError> {
        let write = self.file.write_all_at(bytes, offset);
        Ok(write.map_err(io_error("write", self.loading.partial()))?)
    }
}

/// Open file with a checked header. It can still be read after its name is removed.
pub(crate) struct Frame {
    file: File,
    /// Subject of errors: "panel \"omni\"".
    subject: String,
    pub(crate) numbers: Numbers,
    length: u64,
    identity: Digest,
    index_offset: u64,
    index_digest: Digest,
}

impl Frame {
    /// Opens a file and checks its header and its length.
    pub(crate) fn open(path: &Path, kind: Kind, name: &str) -> Result<Self, GenomeError> {
        let file = if_there(path, "open", File::open(path))?;
        let file = file.ok_or_else(|| GenomeError::NoCollection {
            kind,
            name: name.to_owned(),
        })?;
        let subject = format!("{kind} {name:?}");
        let length = file.metadata().map_err(io_error("look at", path))?.len();
        let mut header = vec![0; length.min(ALIGNMENT) as usize];
        read(&file, &mut header, 0, &subject)?;
        let damaged = |corruption| GenomeError::Damaged {
            subject: subject.clone(),
            corruption,
        };
        let (numbers, index_offset, index_digest) =
            decode_header(&header, kind, length).map_err(damaged)?;
        Ok(Self {
            file,
            subject,
            numbers,
            length,
            identity: Digest::of(&header),
            index_offset,
            index_digest,
        })
    }

    /// Length of the file in bytes.
    pub(crate) fn bytes(&self) -> u64 {
        self.length
    }

    /// Number of bytes of the header and the index.
    pub(crate) fn bytes_besides_blobs(&self) -> u64 {
        ALIGNMENT + self.length - self.index_offset
    }

    /// Digest of the header, and so of everything in the file: it covers the index, which has the digests of blobs.
    pub(crate) fn identity(&self) -> Digest {
        self.identity
    }

    /// The file itself, whose position has no other use.
    pub(crate) fn file(&self) -> &File {
        &self.file
    }

    /// Reads the index, checks it and decodes it. `decode` also returns the end of the last blob.
    pub(crate) fn index<T>(
        &self,
        decode: impl FnOnce(&mut Reader<'_>) -> Result<(T, u64), Corruption>,
    ) -> Result<T, GenomeError> {
        let mut bytes = vec![0; (self.length - self.index_offset) as usize];
        self.read(&mut bytes, self.index_offset, "the index of ")?;
        let check = || {
            if Digest::of(&bytes) != self.index_digest {
                return Err(Corruption::Altered);
            }
            let mut reader = Reader::new(&bytes);
            let (decoded, end) = decode(&mut reader)?;
            if end == self.index_offset && reader.remaining() == 0 {
                Ok(decoded)
            } else {
                Err(Corruption::Invalid(
                    "its index and its length contradict each other".into(),
                ))
            }
        };
        check().map_err(|corruption| self.damaged("the index of ", corruption))
    }

    /// Reads and checks the blob of `bytes` bytes at `offset`. In errors, `part` precedes the name of the collection.
    pub(crate) fn blob(
        &self,
        offset: u64,
        bytes: u64,
        digest: &Digest,
        part: impl Fn() -> String,
    ) -> Result<Vec<u8>, GenomeError> {
        let mut blob = vec![0; padded(bytes) as usize];
        self.read(&mut blob, offset, &part())?;
        if Digest::of(&blob) != *digest {
            return Err(self.damaged(&part(), Corruption::Altered));
        }
        blob.truncate(bytes as usize);
        Ok(blob)
    }

    pub(crate) fn damaged(&self, part: &str, corruption: Corruption) -> GenomeError {
        GenomeError::Damaged {
            subject: format!("{part}{}", self.subject),
            corruption,
        }
    }

    fn read(&self, bytes: &mut [u8], offset: u64, part: &str) -> Result<(), GenomeError> {
        read(
            &self.file,
            bytes,
            offset,
            &format!("{part}{}", self.subject),
        )
    }
}

fn read(file: &File, bytes: &mut [u8], offset: u64, subject: &str) -> Result<(), GenomeError> {
    file.read_exact_at(bytes, offset).map_err(|error| {
        let corruption = match error.kind() {
            // Opening the file checked the length.
            io::ErrorKind::UnexpectedEof => {
                Corruption::Invalid("it was truncated while in use".into())
            }
            _ => Corruption::Unreadable(error.to_string()),
        };
        GenomeError::Damaged {
            subject: subject.to_owned(),
            corruption,
        }
    })
}

/// Returns the numbers in the header of a file of `length` bytes, and the offset and digest of the index.
fn decode_header(
    header: &[u8],
    kind: Kind,
    length: u64,
) -> Result<(Numbers, u64, Digest), Corruption> {
    let mut reader = Reader::new(header);
    reader.preamble(kind.magic(), VERSION)?;
    if header.len() as u64 != ALIGNMENT {
        return Err(Corruption::Length {
            expected: ALIGNMENT,
            found: length,
        });
    }
    let (sealed, zeros) = header.split_at(HEADER_BODY + 32);
    unseal(sealed)?;
    if zeros.iter().any(|&byte| byte != 0) {
        return Err(Corruption::Altered);
    }
    let numbers = [reader.u32()?, reader.u32()?, reader.u32()?];
    let (offset, bytes) = (reader.u64()?, reader.u64()?);
    let digest = Digest(reader.array()?);
    let expected = offset.saturating_add(bytes);
    if expected != length {
        return Err(Corruption::Length {
            expected,
            found: length,
        });
    }
    if offset >= ALIGNMENT && offset.is_multiple_of(ALIGNMENT) {
        Ok((numbers, offset, digest))
    } else {
        Err(Corruption::Invalid("its index lies where none can".into()))
    }
}

/// Offset of the first blob.
pub(crate) const FIRST_BLOB: u64 = ALIGNMENT;
