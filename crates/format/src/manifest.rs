//! The manifest: the public description of one version of a dataset.
//!
//! It names every segment by digest, so its root names every byte of the dataset. The
//! encoding is canonical (one manifest, one encoding) and decoding is total: any bytes
//! give a valid manifest or an error, without allocating more than the bytes warrant.

use crate::codec::{Reader, Writer, unseal};
use crate::error::{Corruption, FormatError};
use crate::id::{DatasetId, Digest};
use crate::segment::{MAX_ROW_ID_BYTES, sealed_columns, segment_bytes};
use oboro_ring::{Blocks, Parameters};

const MAGIC: &str = "OBOROMAN";
const VERSION: u32 = 3;
const ROOT_CONTEXT: &str = "oboro v1 dataset root";
/// Bytes before the list of segments, bytes of an entry, bytes of the trailing digest.
const FIXED: usize = 96;
const ENTRY: usize = 84;
const DIGEST: usize = 32;

/// The most columns of a dataset.
pub const MAX_COLUMNS: u32 = 1 << 24;
/// The most segments of a dataset.
pub const MAX_SEGMENTS: usize = 1 << 20;
/// The most bytes that an encoded manifest takes.
pub const MAX_MANIFEST_BYTES: usize = FIXED + ENTRY * MAX_SEGMENTS + DIGEST;

/// How a manifest names a segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SegmentEntry {
    /// BLAKE3 of the segment's header, which covers its parts.
    pub digest: Digest,
    /// BLAKE3 of the seeds of its blocks, which no other segment has: what its sealed cells are bound to.
    pub seeds: Digest,
    /// The number of its first block in the dataset.
    pub first_block: u64,
    /// The number of its blocks, 1 to 64.
    pub blocks: u32,
    /// The length of its file.
    pub bytes: u64,
}

impl SegmentEntry {
    /// Its blocks.
    pub fn range(&self) -> Blocks {
        Blocks::from_start(self.first_block, self.blocks.into())
    }
}

/// The public description of one version of a dataset.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Manifest {
    /// The dataset, the same in all versions.
    pub dataset: DatasetId,
    /// Identifies the owner's key without revealing it.
    pub key_check: [u8; 16],
    /// The generation of column secrets.
    pub generation: [u8; 16],
    /// The ring of the ciphertexts.
    pub parameters: Parameters,
    /// The longest itemset that the parameters support.
    pub max_len: u8,
    /// The number of columns.
    pub columns: u32,
    /// The bytes of each row id, sealed with the cells; 0 if there are none.
    pub row_id_bytes: u32,
    /// 1 when first encrypted, one more with every append.
    pub version: u64,
    /// The segments, their blocks consecutive from 0.
    pub segments: Vec<SegmentEntry>,
}

impl Manifest {
    /// The canonical bytes of a [valid](Self::validate) manifest.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Writer::with_preamble(MAGIC, VERSION);
        out.put(&self.dataset.0)
            .put(&self.key_check)
            .put(&self.generation)
            .u32(self.parameters.log_degree())
            .u32(self.parameters.limb_count() as u32)
            .u32(self.parameters.plaintext_modulus())
            .u32(self.columns)
            .u32(self.row_id_bytes)
            .u32(u32::from(self.max_len))
            .u64(self.version)
            .u32(self.segments.len() as u32);
        for segment in &self.segments {
            out.put(&segment.digest.0)
                .put(&segment.seeds.0)
                .u64(segment.first_block)
                .u32(segment.blocks)
                .u64(segment.bytes);
        }
        out.seal()
    }

    /// Reads what [`encode`](Self::encode) wrote; anything else is an error.
    pub fn decode(bytes: &[u8]) -> Result<Self, FormatError> {
        Self::parse(bytes)
            .and_then(|manifest| manifest.check().map(|()| manifest))
            .map_err(|corruption| FormatError::Damaged {
                subject: "the manifest".into(),
                path: None,
                corruption,
            })
    }

    fn parse(bytes: &[u8]) -> Result<Self, Corruption> {
        Reader::new(bytes).preamble(MAGIC, VERSION)?;
        let mut reader = Reader::new(unseal(bytes)?);
        reader.preamble(MAGIC, VERSION)?;
        let dataset = DatasetId(reader.array()?);
        let key_check = reader.array()?;
        let generation = reader.array()?;
        let (log_degree, limbs, plaintext_modulus) = (reader.u32()?, reader.u32()?, reader.u32()?);
        let (columns, row_id_bytes) = (reader.u32()?, reader.u32()?);
        let max_len = u8::try_from(reader.u32()?)
            .map_err(|_| Corruption::Invalid("max_len is above 255".into()))?;
        let version = reader.u64()?;
        let count = reader.u32()? as usize;
        if count > MAX_SEGMENTS || count * ENTRY != reader.remaining() {
            return Err(Corruption::Invalid(format!(
                "{count} segments do not fit its length"
            )));
        }
        let segments = (0..count)
            .map(|_| {
                Ok(SegmentEntry {
                    digest: Digest(reader.array()?),
                    seeds: Digest(reader.array()?),
                    first_block: reader.u64()?,
                    blocks: reader.u32()?,
                    bytes: reader.u64()?,
                })
            })
            .collect::<Result<_, Corruption>>()?;
        let parameters = Parameters::new(log_degree, limbs as usize, plaintext_modulus)
            .map_err(|error| Corruption::Foreign(error.to_string()))?;
        Ok(Self {
            dataset,
            key_check,
            generation,
            parameters,
            max_len,
            columns,
            row_id_bytes,
            version,
            segments,
        })
    }

    /// Checks for what [`decode`](Self::decode) would refuse: counts within the format's bounds, blocks consecutive
    /// from 0, lengths as columns and blocks make them.
    pub fn validate(&self) -> Result<(), FormatError> {
        self.check().map_err(|corruption| FormatError::Damaged {
            subject: "the manifest".into(),
            path: None,
            corruption,
        })
    }

    fn check(&self) -> Result<(), Corruption> {
        let invalid = |reason: String| Err(Corruption::Invalid(reason));
        if self.version == 0 || self.max_len == 0 {
            return invalid("its version and max_len begin at 1".into());
        }
        if usize::from(self.max_len) > oboro_ring::moment::MAX_LENGTH {
            return invalid(format!(
                "itemsets of length {} cannot be asked for",
                self.max_len
            ));
        }
        if !(1..=MAX_COLUMNS).contains(&self.columns) {
            return invalid(format!(
                "{} columns; it must have 1 to {MAX_COLUMNS}",
                self.columns
            ));
        }
        if self.row_id_bytes > MAX_ROW_ID_BYTES {
            return invalid(format!(
                "row ids of {} bytes; they have at most {MAX_ROW_ID_BYTES}",
                self.row_id_bytes
            ));
        }
        if !(1..=MAX_SEGMENTS).contains(&self.segments.len()) {
            return invalid(format!(
                "{} segments; it must have 1 to {MAX_SEGMENTS}",
                self.segments.len()
            ));
        }
        let mut next_block = 0;
        for (index, segment) in self.segments.iter().enumerate() {
            if segment.first_block != next_block {
                return invalid(format!(
                    "segment {index} does not begin at block {next_block}"
                ));
            }
            let bytes = segment_bytes(
                &self.parameters,
                self.columns,
                self.row_id_bytes,
                segment.blocks,
            );
            if bytes != Some(segment.bytes) {
                return invalid(format!(
                    "segment {index} cannot have {} blocks in {} bytes",
                    segment.blocks, segment.bytes
                ));
            }
            next_block += u64::from(segment.blocks);
        }
        Ok(())
    }

    /// The root hash: BLAKE3 of the encoding in key derivation mode, with the context
    /// `oboro v1 dataset root`. Two datasets with equal roots are equal in every byte.
    pub fn root(&self) -> Digest {
        Digest(blake3::derive_key(ROOT_CONTEXT, &self.encode()))
    }

    /// The number of blocks.
    pub fn block_count(&self) -> u64 {
        self.segments
            .iter()
            .map(|segment| u64::from(segment.blocks))
            .sum()
    }

    /// The columns that have sealed cells: those of items, then one for each bit of a row id.
    pub fn sealed_columns(&self) -> u32 {
        sealed_columns(self.columns, self.row_id_bytes)
    }

    /// The bytes of all segment files.
    pub fn segment_bytes(&self) -> u64 {
        self.segments.iter().map(|segment| segment.bytes).sum()
    }

    /// Checks that this is `older` with something appended, once or more often: the
    /// same dataset, key, generation, parameters, columns and `max_len`, all the older
    /// segments, and at least one new segment for each new version.
    pub fn extends(&self, older: &Manifest) -> Result<(), FormatError> {
        const OTHER: &str =
            "Append to the dataset that is there, or upload this one under another name.";
        let appends = self.version.saturating_sub(older.version);
        let (reason, remedy) = if self.dataset != older.dataset {
            ("it is another dataset", OTHER)
        } else if self.key_check != older.key_check {
            ("it was encrypted with another key", OTHER)
        } else if self.generation != older.generation {
            ("its secrets are of another generation", OTHER)
        } else if self.parameters != older.parameters || self.max_len != older.max_len {
            ("its parameters differ", OTHER)
        } else if self.columns != older.columns || self.row_id_bytes != older.row_id_bytes {
            ("its columns or the lengths of its row ids differ", OTHER)
        } else if !self.segments.starts_with(&older.segments)
            && !older.segments.starts_with(&self.segments)
        {
            (
                "each has transactions that the other lacks",
                "Append those that are missing to a bundle of the published version, or upload this one under \
                 another name.",
            )
        } else if appends == 0 {
            (
                "it is not newer",
                "Upload the newest version of the bundle.",
            )
        } else if self.segments.len() < older.segments.len() {
            ("older segments are missing", OTHER)
        } else if ((self.segments.len() - older.segments.len()) as u64) < appends {
            ("it has fewer new segments than new versions", OTHER)
        } else {
            return Ok(());
        };
        Err(FormatError::NotAnExtension {
            dataset: older.dataset,
            old: older.version,
            new: self.version,
            reason,
            remedy,
        })
    }
}

#[cfg(test)]
mod tests;
