//! Header of a segment: its description and the digest of each part.

use super::file::{PartExtent, SegmentFile};
use super::layout::{FIXED_HEADER, Layout};
use super::read_error::ReadError;
use super::{CELL_BITS, MAGIC, SegmentDescription, VERSION};
use crate::codec::{Reader, Writer, unseal};
use crate::error::{Corruption, FormatError};
use crate::id::{DatasetId, Digest};
use crate::manifest::{Manifest, SegmentEntry};
use oboro_ring::{Parameters, Seed, pack};
use std::sync::Arc;

/// Bytes of a panel that are read, checked and unpacked at a time: 16 Ki residues.
pub(crate) const CHUNK_BYTES: usize = pack::packed_len(16 << 10);

impl SegmentDescription {
    pub(crate) fn encode_header(&self, layout: &Layout, parts: &[Digest]) -> Vec<u8> {
        let mut header = Writer::with_preamble(MAGIC, VERSION);
        header
            .u32(layout.header as u32)
            .put(&self.dataset.0)
            .u32(self.number)
            .u32(self.seeds.len() as u32)
            .u64(self.first_block)
            .u32(self.columns)
            .u32(self.parameters.log_degree())
            .u32(self.parameters.limb_count() as u32)
            .u32(self.parameters.plaintext_modulus())
            .u32(CELL_BITS)
            .u32(self.row_id_bytes);
        for modulus in self.parameters.limb_moduli() {
            header.u32(modulus.value());
        }
        for seed in &self.seeds {
            header.put(&seed.0);
        }
        for digest in parts {
            header.put(&digest.0);
        }
        let mut bytes = header.seal();
        debug_assert_eq!(bytes.len() as u64, layout.digested + 32);
        bytes.resize(layout.header as usize, 0);
        bytes
    }
}

/// Checked header, with the digest that names its segment.
pub(crate) struct Header {
    pub(crate) description: SegmentDescription,
    pub(crate) layout: Layout,
    /// Digests of its parts.
    pub(crate) parts: Vec<Digest>,
    pub(crate) digest: Digest,
}

/// Fields of a header before those of variable length.
struct FixedHeader {
    layout: Layout,
    dataset: DatasetId,
    number: u32,
    blocks: u32,
    first_block: u64,
    columns: u32,
    log_degree: u32,
    limbs: u32,
    plaintext_modulus: u32,
    row_id_bytes: u32,
}

impl FixedHeader {
    fn decode(bytes: &[u8]) -> Result<Self, Corruption> {
        let mut reader = Reader::new(bytes);
        reader.preamble(MAGIC, VERSION)?;
        let header_length = u64::from(reader.u32()?);
        let dataset = DatasetId(reader.array()?);
        let number = reader.u32()?;
        let blocks = reader.u32()?;
        let first_block = reader.u64()?;
        let columns = reader.u32()?;
        let log_degree = reader.u32()?;
        let limbs = reader.u32()?;
        let plaintext_modulus = reader.u32()?;
        let cell_bits = reader.u32()?;
        if cell_bits != CELL_BITS {
            return Err(Corruption::Foreign(format!(
                "cells of {cell_bits} bits where this Oboro has {CELL_BITS}"
            )));
        }
        let row_id_bytes = reader.u32()?;
        let layout = Layout::new(log_degree, limbs, columns, row_id_bytes, blocks)
            .filter(|layout| layout.header == header_length)
            .ok_or_else(|| {
                Corruption::Invalid("the numbers in its header contradict each other".into())
            })?;
        Ok(Self {
            layout,
            dataset,
            number,
            blocks,
            first_block,
            columns,
            log_degree,
            limbs,
            plaintext_modulus,
            row_id_bytes,
        })
    }
}

impl Header {
    /// Reads and checks the header.
    pub(crate) fn read(file: &SegmentFile) -> Result<Self, ReadError> {
        let length = file.length();
        let mut fixed = [0; FIXED_HEADER as usize];
        let there = fixed.len().min(length as usize);
        file.read_exact_at(&mut fixed[..there], 0)?;
        Reader::new(&fixed[..there]).preamble(MAGIC, VERSION)?;
        if length < FIXED_HEADER {
            return Err(Corruption::Length {
                expected: FIXED_HEADER,
                found: length,
            }
            .into());
        }
        let layout = FixedHeader::decode(&fixed)?.layout;
        // Before allocating: a header must not claim more than the file has.
        if length != layout.total() {
            return Err(Corruption::Length {
                expected: layout.total(),
                found: length,
            }
            .into());
        }
        let mut bytes = vec![0; layout.header as usize];
        file.read_exact_at(&mut bytes, 0)?;
        Ok(Self::decode(&bytes)?)
    }

    /// Checks the bytes of a whole header, padding included.
    fn decode(bytes: &[u8]) -> Result<Self, Corruption> {
        let fixed = FixedHeader::decode(bytes)?;
        let layout = fixed.layout;
        if bytes.len() as u64 != layout.header {
            return Err(Corruption::Length {
                expected: layout.header,
                found: bytes.len() as u64,
            });
        }
        let (sealed, padding) = bytes.split_at(layout.digested as usize + 32);
        let body = unseal(sealed)?;
        if !is_zero(padding) {
            return Err(Corruption::Altered);
        }

        let limbs = fixed.limbs as usize;
        let parameters = Parameters::new(fixed.log_degree, limbs, fixed.plaintext_modulus)
            .map_err(|error| Corruption::Foreign(error.to_string()))?;
        let mut reader = Reader::new(&body[FIXED_HEADER as usize..]);
        for modulus in parameters.limb_moduli() {
            let (found, expected) = (reader.u32()?, modulus.value());
            if found != expected {
                return Err(Corruption::Foreign(format!(
                    "limb prime {found} where this Oboro has {expected}"
                )));
            }
        }
        let seeds = (0..fixed.blocks)
            .map(|_| reader.array().map(Seed))
            .collect::<Result<_, _>>()?;
        let parts = (0..layout.parts())
            .map(|_| reader.array().map(Digest))
            .collect::<Result<_, _>>()?;
        let description = SegmentDescription {
            dataset: fixed.dataset,
            number: fixed.number,
            first_block: fixed.first_block,
            columns: fixed.columns,
            row_id_bytes: fixed.row_id_bytes,
            parameters,
            seeds,
        };
        Ok(Self {
            description,
            layout,
            parts,
            digest: Digest::of(bytes),
        })
    }

    /// Returns the segment's entry in a manifest.
    pub(crate) fn entry(&self) -> SegmentEntry {
        SegmentEntry {
            number: self.description.number,
            digest: self.digest,
            seeds: self.description.seeds_digest(),
            first_block: self.description.first_block,
            blocks: self.description.seeds.len() as u32,
            bytes: self.layout.total(),
        }
    }

    /// Returns true if this is the `index`-th segment of `manifest`.
    pub(crate) fn is_of(&self, manifest: &Manifest, index: u32) -> bool {
        let found = &self.description;
        let named = &manifest.segments[index as usize];
        // Earlier blocks may have been removed since it was written.
        let entry = SegmentEntry {
            first_block: named.first_block,
            ..self.entry()
        };
        entry == *named
            && found.dataset == manifest.dataset
            && found.columns == manifest.columns
            && found.row_id_bytes == manifest.row_id_bytes
            && found.parameters == manifest.parameters
    }
}

/// Header of a segment, against which parts from another source are checked.
#[derive(Clone)]
pub struct SegmentHeader {
    pub(crate) header: Arc<Header>,
}

impl SegmentHeader {
    /// Returns the length of the header of the `index`-th segment of `manifest`.
    pub fn bytes_of(manifest: &Manifest, index: u32) -> u64 {
        manifest.layout(index).header
    }

    /// Decodes the header of the `index`-th segment of `manifest`.
    ///
    /// # Errors
    /// Any other bytes.
    ///
    /// # Panics
    /// If the manifest has no such segment.
    pub fn decode(bytes: &[u8], manifest: &Manifest, index: u32) -> Result<Self, FormatError> {
        Header::decode(bytes)
            .and_then(|header| {
                if header.is_of(manifest, index) {
                    Ok(Self {
                        header: Arc::new(header),
                    })
                } else {
                    Err(Corruption::Unexpected)
                }
            })
            .map_err(|corruption| FormatError::Damaged {
                subject: format!(
                    "the header of segment {index} of dataset {}",
                    manifest.dataset
                ),
                path: None,
                corruption,
            })
    }

    /// Returns the description.
    pub fn description(&self) -> &SegmentDescription {
        &self.header.description
    }

    /// Reads and checks the header in a file, and the length of the file.
    pub(crate) fn read(file: &SegmentFile) -> Result<Self, ReadError> {
        Header::read(file).map(|header| Self {
            header: Arc::new(header),
        })
    }

    /// Returns the bytes of the header, as in a file.
    pub fn encode(&self) -> Vec<u8> {
        let Header {
            description,
            layout,
            parts,
            ..
        } = &*self.header;
        description.encode_header(layout, parts)
    }

    /// Returns BLAKE3 of the header's bytes, which names the segment.
    pub fn digest(&self) -> Digest {
        self.header.digest
    }

    /// Returns the segment's entry in a manifest.
    pub fn entry(&self) -> SegmentEntry {
        self.header.entry()
    }

    /// Returns true if this is the `index`-th segment of `manifest`.
    pub(crate) fn is_of(&self, manifest: &Manifest, index: u32) -> bool {
        self.header.is_of(manifest, index)
    }

    pub(crate) fn layout(&self) -> Layout {
        self.header.layout
    }

    /// Returns the length of the header in bytes, with padding.
    pub fn bytes(&self) -> u64 {
        self.header.layout.header
    }

    /// Returns the number of parts: panels and sealed cells.
    pub fn parts(&self) -> usize {
        self.header.parts.len()
    }

    /// Returns the extent of a part in a complete file. For the number of parts, its offset is the end of the file.
    pub fn part_extent(&self, part: usize) -> PartExtent {
        let layout = self.header.layout;
        PartExtent {
            offset: layout.offset(part),
            len: layout.stride(part) as usize,
        }
    }

    /// Returns the number of bytes of a part, without padding.
    pub fn part_bytes(&self, part: usize) -> usize {
        self.header.layout.bytes(part) as usize
    }

    pub(crate) fn digest_of(&self, part: usize) -> Digest {
        self.header.parts[part]
    }

    /// Returns true if `bytes` are those of a part, with its padding.
    pub fn is_part(&self, part: usize, bytes: &[u8]) -> bool {
        let layout = self.header.layout;
        if bytes.len() as u64 != layout.stride(part) {
            return false;
        }
        let (bytes, padding) = bytes.split_at(layout.bytes(part) as usize);
        Digest::of(bytes) == self.digest_of(part) && is_zero(padding)
    }

    /// Checks a panel that was read with its padding, and unpacks it into consecutive slices of whole blocks.
    ///
    /// # Errors
    /// Any other bytes. The content of the slices is then meaningless.
    pub fn unpack(
        &self,
        part: usize,
        bytes: &[u8],
        pieces: Vec<&mut [u32]>,
    ) -> Result<(), Corruption> {
        let mut unpack = unpack_into(pieces);
        let mut hasher = blake3::Hasher::new();
        let (packed, padding) = bytes.split_at(self.header.layout.packed as usize);
        for chunk in packed.chunks(CHUNK_BYTES) {
            hasher.update(chunk);
            unpack(chunk);
        }
        let digest = Digest(*hasher.finalize().as_bytes());
        if digest == self.digest_of(part) && is_zero(padding) {
            Ok(())
        } else {
            Err(Corruption::Altered)
        }
    }

    /// Returns the name of a part in errors.
    pub fn subject(&self, part: usize) -> String {
        self.header.description.subject(part)
    }
}

impl std::fmt::Debug for SegmentHeader {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SegmentHeader")
            .field("digest", &self.header.digest)
            .finish_non_exhaustive()
    }
}

pub(crate) fn is_zero(bytes: &[u8]) -> bool {
    bytes.iter().all(|&byte| byte == 0)
}

/// Returns a function that unpacks the chunks of a panel, each of whole pairs of residues, into consecutive slices.
pub fn unpack_into(pieces: Vec<&mut [u32]>) -> impl FnMut(&[u8]) {
    let mut pieces = pieces.into_iter();
    let mut piece: &mut [u32] = &mut [];
    move |mut packed| {
        while !packed.is_empty() {
            if piece.is_empty() {
                piece = pieces.next().expect("the pieces hold the panel");
            }
            let residues = piece.len().min(pack::unpacked_len(packed.len()));
            let (now, later) = std::mem::take(&mut piece).split_at_mut(residues);
            let (bytes, rest) = packed.split_at(pack::packed_len(residues));
            pack::unpack(bytes, now);
            (piece, packed) = (later, rest);
        }
    }
}
