//! Little-endian encoding and decoding.
//!
//! Reading is total: every length is checked against the remaining bytes before anything is sliced or allocated.
//! Callers validate the values.

use crate::error::Corruption;

/// Reads fields from the front of a slice.
pub struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    /// Creates a reader at the first of these bytes.
    pub fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    /// Returns the number of unread bytes.
    pub fn remaining(&self) -> usize {
        self.rest.len()
    }

    /// Reads the next `count` bytes.
    pub fn bytes(&mut self, count: usize) -> Result<&'a [u8], Corruption> {
        let (taken, rest) = self
            .rest
            .split_at_checked(count)
            .ok_or_else(|| Corruption::Invalid("it ends too early".into()))?;
        self.rest = rest;
        Ok(taken)
    }

    /// Reads the next `K` bytes.
    pub fn array<const K: usize>(&mut self) -> Result<[u8; K], Corruption> {
        Ok(self
            .bytes(K)?
            .try_into()
            .expect("exactly K bytes were taken"))
    }

    /// Reads the next four bytes as a number.
    pub fn u32(&mut self) -> Result<u32, Corruption> {
        self.array().map(u32::from_le_bytes)
    }

    /// Reads the next eight bytes as a number.
    pub fn u64(&mut self) -> Result<u64, Corruption> {
        self.array().map(u64::from_le_bytes)
    }

    /// Checks the magic and the format version that every Oboro file begins with.
    pub fn preamble(&mut self, magic: &'static str, known: u32) -> Result<(), Corruption> {
        if self
            .bytes(magic.len())
            .map_err(|_| Corruption::Magic { magic })?
            != magic.as_bytes()
        {
            return Err(Corruption::Magic { magic });
        }
        match self.u32()? {
            found if found > known => Err(Corruption::Newer { found, known }),
            0 => Err(Corruption::Invalid("format version 0 never existed".into())),
            found if found < known => Err(Corruption::Older { found, known }),
            _ => Ok(()),
        }
    }
}

/// Appends fields to a buffer.
#[derive(Default)]
pub struct Writer {
    bytes: Vec<u8>,
}

impl Writer {
    /// Creates a writer with the magic and the format version that every Oboro file begins with.
    pub fn with_preamble(magic: &str, version: u32) -> Self {
        let mut writer = Self::default();
        writer.put(magic.as_bytes()).u32(version);
        writer
    }

    /// Appends bytes.
    pub fn put(&mut self, bytes: &[u8]) -> &mut Self {
        self.bytes.extend_from_slice(bytes);
        self
    }

    /// Appends a number in four bytes.
    pub fn u32(&mut self, value: u32) -> &mut Self {
        self.put(&value.to_le_bytes())
    }

    /// Appends a number in eight bytes.
    pub fn u64(&mut self, value: u64) -> &mut Self {
        self.put(&value.to_le_bytes())
    }

    /// Returns the bytes written so far.
    pub fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }

    /// Appends the BLAKE3 digest of the bytes so far and returns them all.
    pub fn seal(mut self) -> Vec<u8> {
        let digest = blake3::hash(&self.bytes);
        self.put(digest.as_bytes());
        self.bytes
    }
}

/// Splits off a trailing digest (as [`Writer::seal`] wrote it) and checks it.
pub fn unseal(bytes: &[u8]) -> Result<&[u8], Corruption> {
    let (body, digest) = bytes.split_last_chunk::<32>().ok_or(Corruption::Altered)?;
    if blake3::hash(body) == *digest {
        Ok(body)
    } else {
        Err(Corruption::Altered)
    }
}
