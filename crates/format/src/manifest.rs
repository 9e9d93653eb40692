//! Manifest: the public description of one version of a dataset.
//!
//! It contains the digest of every segment, so its root covers every byte of the dataset. The encoding is canonical
//! (one manifest, one encoding). Decoding is total: any bytes give a valid manifest or an error, without allocating
//! more than the input warrants.

use crate::codec::{Reader, Writer, unseal};
use crate::error::{Corruption, FormatError};
use crate::id::{DatasetId, Digest};
use crate::limits::{BLOCKS_PER_SEGMENT, MAX_COLUMNS, MAX_ROW_ID_BYTES};
use crate::segment::{Layout, sealed_columns, segment_bytes};
use oboro_ring::{Blocks, Parameters};
use std::collections::{BTreeMap, BTreeSet};

const MAGIC: &str = "OBOROMAN";
/// Format of a dataset to which segments were only ever appended.
const APPENDED: u32 = 3;
/// Format from the first rewriting on: segments have explicit numbers.
const REWRITTEN: u32 = 4;
const ROOT_CONTEXT: &str = "oboro v1 dataset root";
/// Bytes before the list of segments; below, of an entry and of the trailing digest.
const FIXED: usize = 96;
const ENTRY: usize = 84;
/// Bytes of a number: of an entry, of the next segment, of the earlier versions.
const NUMBER: usize = 4;
const DIGEST: usize = 32;

/// Maximum number of segments of a dataset.
pub const MAX_SEGMENTS: usize = 1 << 20;
/// Maximum number of earlier versions in a manifest.
const MAX_EARLIER: usize = 1 << 12;
/// Maximum number of bytes of an encoded manifest.
pub const MAX_MANIFEST_BYTES: usize =
    FIXED + 2 * NUMBER + (ENTRY + NUMBER) * MAX_SEGMENTS + DIGEST * (MAX_EARLIER + 1);

// Remedies for a version that does not follow another.
const OTHER: &str = "Append to the dataset that is there, or upload this one under another name.";
const NEWEST: &str = "Upload the newest version of the bundle.";
const PARTED: &str = "Make the change again, on a bundle of the published version.";

/// Entry of a segment in a manifest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SegmentEntry {
    /// Number of the segment, never reused within the dataset; its file is named after it.
    pub number: u32,
    /// BLAKE3 of the segment's header, which covers its parts.
    pub digest: Digest,
    /// BLAKE3 of the seeds of its blocks, unique to the segment. Its sealed cells are bound to this.
    pub seeds: Digest,
    /// Position of its first block in the dataset.
    pub first_block: u64,
    /// Number of its blocks, 1 to 64.
    pub blocks: u32,
    /// Length of its file in bytes.
    pub bytes: u64,
}

impl SegmentEntry {
    /// Returns the blocks of the segment.
    pub fn range(&self) -> Blocks {
        Blocks::from_start(self.first_block, self.blocks.into())
    }
}

/// Public description of one version of a dataset.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Manifest {
    /// Id of the dataset, constant across versions.
    pub dataset: DatasetId,
    /// Identifier of the owner's key, which does not reveal it.
    pub key_check: [u8; 16],
    /// Generation of column secrets.
    pub generation: [u8; 16],
    /// Ring of the ciphertexts.
    pub parameters: Parameters,
    /// Length of the longest itemset that the parameters support.
    pub max_len: u8,
    /// Number of columns.
    pub columns: u32,
    /// Bytes of each row id, sealed with the cells; 0 if the dataset has none.
    pub row_id_bytes: u32,
    /// Number of the version: 1 when first encrypted, incremented by every append and every rewriting.
    pub version: u64,
    /// Number above those of all segments that the dataset ever had.
    pub next_segment: u32,
    /// Roots of earlier versions, from the first rewriting on; only the newest are kept. This version may replace a
    /// published one with such a root.
    pub earlier_roots: Vec<Digest>,
    /// Segments, whose blocks are consecutive from 0.
    pub segments: Vec<SegmentEntry>,
}

impl Manifest {
    /// Returns the canonical bytes of a [valid](Self::validate) manifest.
    pub fn encode(&self) -> Vec<u8> {
        let format = self.format();
        let mut out = Writer::with_preamble(MAGIC, format);
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
        if format == REWRITTEN {
            out.u32(self.next_segment)
                .u32(self.earlier_roots.len() as u32);
        }
        for segment in &self.segments {
            if format == REWRITTEN {
                out.u32(segment.number);
            }
            out.put(&segment.digest.0)
                .put(&segment.seeds.0)
                .u64(segment.first_block)
                .u32(segment.blocks)
                .u64(segment.bytes);
        }
        for root in &self.earlier_roots {
            out.put(&root.0);
        }
        out.seal()
    }

    /// Returns the layout of the file of the `index`-th segment.
    pub(crate) fn layout(&self, index: u32) -> Layout {
        let parameters = &self.parameters;
        let layout = Layout::new(
            parameters.log_degree(),
            parameters.limb_count() as u32,
            self.columns,
            self.row_id_bytes,
            self.segments[index as usize].blocks,
        );
        layout.expect("a manifest names segments that there can be")
    }

    /// Returns the version of the encoding: the first that can represent the manifest.
    fn format(&self) -> u32 {
        let numbers = self.segments.iter().map(|segment| segment.number);
        let appended = self.earlier_roots.is_empty()
            && numbers.eq(0..self.segments.len() as u32)
            && self.next_segment as usize == self.segments.len();
        if appended { APPENDED } else { REWRITTEN }
    }

    /// Decodes the output of [`encode`](Self::encode); anything else is an error.
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
        let format = match Reader::new(bytes).preamble(MAGIC, APPENDED) {
            Ok(()) => APPENDED,
            Err(_) => Reader::new(bytes)
                .preamble(MAGIC, REWRITTEN)
                .map(|()| REWRITTEN)?,
        };
        let mut reader = Reader::new(unseal(bytes)?);
        reader.preamble(MAGIC, format)?;
        let dataset = DatasetId(reader.array()?);
        let key_check = reader.array()?;
        let generation = reader.array()?;
        let (log_degree, limbs, plaintext_modulus) = (reader.u32()?, reader.u32()?, reader.u32()?);
        let (columns, row_id_bytes) = (reader.u32()?, reader.u32()?);
        let max_len = u8::try_from(reader.u32()?)
            .map_err(|_| Corruption::Invalid("max_len is above 255".into()))?;
        let version = reader.u64()?;
        let count = reader.u32()? as usize;
        let has_numbers = format == REWRITTEN;
        let (next_segment, earlier, entry) = if has_numbers {
            (reader.u32()?, reader.u32()? as usize, ENTRY + NUMBER)
        } else {
            (count as u32, 0, ENTRY)
        };
        let fit = count <= MAX_SEGMENTS
            && earlier <= MAX_EARLIER
            && count * entry + earlier * DIGEST == reader.remaining();
        if !fit {
            return Err(Corruption::Invalid(format!(
                "{count} segments and {earlier} earlier versions do not fit its length"
            )));
        }
        let segments = (0..count)
            .map(|index| {
                Ok(SegmentEntry {
                    number: if has_numbers {
                        reader.u32()?
                    } else {
                        index as u32
                    },
                    digest: Digest(reader.array()?),
                    seeds: Digest(reader.array()?),
                    first_block: reader.u64()?,
                    blocks: reader.u32()?,
                    bytes: reader.u64()?,
                })
            })
            .collect::<Result<_, Corruption>>()?;
        let earlier_roots = (0..earlier)
            .map(|_| reader.array().map(Digest))
            .collect::<Result<_, Corruption>>()?;
        let parameters = Parameters::new(log_degree, limbs as usize, plaintext_modulus)
            .map_err(|error| Corruption::Foreign(error.to_string()))?;
        let manifest = Self {
            dataset,
            key_check,
            generation,
            parameters,
            max_len,
            columns,
            row_id_bytes,
            version,
            next_segment,
            earlier_roots,
            segments,
        };
        if manifest.format() == format {
            Ok(manifest)
        } else {
            Err(Corruption::Invalid(
                "its format is not the first that can say it".into(),
            ))
        }
    }

    /// Checks what [`decode`](Self::decode) checks: counts within the format's bounds, consecutive blocks from 0,
    /// lengths that match columns and blocks.
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
        let numbers = self.numbers();
        if numbers.len() < self.segments.len()
            || numbers
                .last()
                .is_some_and(|&last| last >= self.next_segment)
        {
            return invalid("two segments have one number, or one that is not used yet".into());
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

    /// Returns the root hash: BLAKE3 of the encoding in key derivation mode, with the context `oboro v1 dataset root`.
    /// Datasets with equal roots are equal in every byte.
    pub fn root(&self) -> Digest {
        Digest(blake3::derive_key(ROOT_CONTEXT, &self.encode()))
    }

    /// Returns the number of blocks.
    pub fn block_count(&self) -> u64 {
        self.segments
            .iter()
            .map(|segment| u64::from(segment.blocks))
            .sum()
    }

    /// Returns the number of columns with sealed cells: one for each item and for each bit of a row id.
    pub fn sealed_columns(&self) -> u32 {
        sealed_columns(self.columns, self.row_id_bytes)
    }

    /// Returns the total length of all segment files in bytes.
    pub fn segment_bytes(&self) -> u64 {
        self.segments.iter().map(|segment| segment.bytes).sum()
    }

    /// Returns the numbers of the segments.
    pub fn numbers(&self) -> BTreeSet<u32> {
        self.segments.iter().map(|it| it.number).collect()
    }

    /// Returns the digest of each segment, by number.
    pub fn digests(&self) -> BTreeMap<u32, Digest> {
        let segments = self.segments.iter();
        segments.map(|it| (it.number, it.digest)).collect()
    }

    /// Returns the indices of the segments that `other` lacks.
    pub fn segments_beyond(&self, other: &Self) -> Vec<u32> {
        let known = other.digests();
        let segments = (0..).zip(&self.segments);
        let is_new = |entry: &SegmentEntry| known.get(&entry.number) != Some(&entry.digest);
        segments.filter(|it| is_new(it.1)).map(|it| it.0).collect()
    }

    /// Returns true if `older`, an earlier or diverged version, has segments that this one lacks.
    pub fn replaces(&self, older: &Self) -> bool {
        older.version <= self.version && !older.segments_beyond(self).is_empty()
    }

    /// Returns the next version, to which segments can be added.
    #[must_use]
    pub fn appended(&self) -> Self {
        let earlier_roots = match self.format() {
            APPENDED => Vec::new(),
            _ => self.earlier_and_this(),
        };
        Self {
            version: self.version + 1,
            earlier_roots,
            ..self.clone()
        }
    }

    /// Returns the next version, in which segments can be replaced.
    #[must_use]
    pub fn rewritten(&self) -> Self {
        Self {
            version: self.version + 1,
            earlier_roots: self.earlier_and_this(),
            ..self.clone()
        }
    }

    /// Returns the roots of this version and of earlier ones, this one last. Appended versions do not store earlier
    /// roots. For them, the roots of all possible earlier versions are returned: only the last segment of each may have
    /// fewer than 64 blocks.
    fn earlier_and_this(&self) -> Vec<Digest> {
        let mut newest_first = vec![self.root()];
        if self.format() == APPENDED {
            newest_first.extend(self.may_have_been().take(MAX_EARLIER - 1));
        } else {
            newest_first.extend(self.earlier_roots.iter().rev().take(MAX_EARLIER - 1));
        }
        newest_first.reverse();
        newest_first
    }

    /// Returns the roots of the possible earlier versions to which this one was appended, the longest first.
    fn may_have_been(&self) -> impl Iterator<Item = Digest> {
        // Bounds on the number of versions that end with each segment or before it.
        let short = |entry: &SegmentEntry| u64::from(entry.blocks < BLOCKS_PER_SEGMENT);
        let mut fewest = self.segments.iter().map(short).sum::<u64>();
        (0..self.segments.len()).rev().flat_map(move |last| {
            let first = fewest
                .max(
                    self.version
                        .saturating_sub((self.segments.len() - 1 - last) as u64),
                )
                .max(1);
            fewest -= short(&self.segments[last]);
            let most = (last as u64 + 1).min(self.version - 1);
            (first..=most).rev().map(move |version| {
                let earlier = Self {
                    version,
                    next_segment: last as u32 + 1,
                    segments: self.segments[..=last].to_vec(),
                    ..self.clone()
                };
                earlier.root()
            })
        })
    }

    /// Checks that this version may follow `older`, by appending or rewriting.
    ///
    /// # Errors
    /// Any other difference, which the error names.
    pub fn follows(&self, older: &Manifest) -> Result<(), FormatError> {
        if self.earlier_roots.contains(&older.root()) {
            return self.rewrites(older);
        }
        let was_rewritten = [self, older].iter().any(|it| it.format() == REWRITTEN);
        self.extends(older).map_err(|error| {
            if self.dataset != older.dataset || !was_rewritten {
                error
            } else if older.earlier_roots.contains(&self.root()) {
                self.refusal(older, "it is not newer", NEWEST)
            } else {
                self.refusal(older, "each was changed without the other", PARTED)
            }
        })
    }

    /// Checks that a rewriting kept all segments that it does not replace. The key may differ.
    fn rewrites(&self, older: &Manifest) -> Result<(), FormatError> {
        let of_older = |it: &&SegmentEntry| it.number < older.next_segment;
        let known = older.digests();
        let is_known = |it: &SegmentEntry| known.get(&it.number) == Some(&it.digest);
        let has_other_columns =
            self.columns != older.columns || self.row_id_bytes != older.row_id_bytes;
        let (reason, remedy) = if self.dataset != older.dataset {
            ("it is another dataset", OTHER)
        } else if self.parameters != older.parameters || self.max_len != older.max_len {
            ("its parameters differ", OTHER)
        } else if has_other_columns && self.segments.iter().any(|it| of_older(&it)) {
            ("its columns or the lengths of its row ids differ", OTHER)
        } else if self.version <= older.version {
            ("it is not newer", NEWEST)
        } else if self.next_segment < older.next_segment
            || !self.segments.iter().filter(of_older).all(is_known)
        {
            ("each has transactions that the other lacks", PARTED)
        } else {
            return Ok(());
        };
        Err(self.refusal(older, reason, remedy))
    }

    /// Checks that this is `older` after one or more appends: equal dataset, key, generation, parameters, columns and
    /// `max_len`, all the older segments, and at least one new segment for each new version.
    pub fn extends(&self, older: &Manifest) -> Result<(), FormatError> {
        let appends = self.version.saturating_sub(older.version);
        let new = &self.segments[older.segments.len().min(self.segments.len())..];
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
        } else if !self.earlier_roots.starts_with(&older.earlier_roots) {
            ("each was changed without the other", PARTED)
        } else if !self.segments.starts_with(&older.segments)
            && !older.segments.starts_with(&self.segments)
        {
            ("each has transactions that the other lacks", PARTED)
        } else if appends == 0 {
            ("it is not newer", NEWEST)
        } else if self.segments.len() < older.segments.len() {
            ("older segments are missing", OTHER)
        } else if ((self.segments.len() - older.segments.len()) as u64) < appends {
            ("it has fewer new segments than new versions", OTHER)
        } else if self.next_segment < older.next_segment
            || !new.iter().all(|it| it.number >= older.next_segment)
        {
            ("its new segments have numbers of older ones", OTHER)
        } else {
            return Ok(());
        };
        Err(self.refusal(older, reason, remedy))
    }

    fn refusal(&self, older: &Manifest, reason: &'static str, remedy: &'static str) -> FormatError {
        FormatError::NotAnExtension {
            dataset: older.dataset,
            old: older.version,
            new: self.version,
            reason,
            remedy,
        }
    }
}

#[cfg(test)]
mod tests;
