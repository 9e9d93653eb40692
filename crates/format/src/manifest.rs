//! The manifest: the public description of one version of a dataset.
//!
//! It names every segment by digest, so its root names every byte of the dataset. The
//! encoding is canonical (one manifest, one encoding) and decoding is total: any bytes
//! give a valid manifest or an error, without allocating more than the bytes warrant.

use crate::codec::{Reader, Writer, unseal};
use crate::error::{Corruption, FormatError};
use crate::id::{DatasetId, Digest};
use crate::limits::{BLOCKS_PER_SEGMENT, MAX_COLUMNS, MAX_ROW_ID_BYTES};
use crate::segment::{Layout, sealed_columns, segment_bytes};
use oboro_ring::{Blocks, Parameters};
use std::collections::{BTreeMap, BTreeSet};

const MAGIC: &str = "OBOROMAN";
/// As long as segments were only ever appended.
const APPENDED: u32 = 3;
/// From the first rewriting on: segments have numbers of their own.
const REWRITTEN: u32 = 4;
const ROOT_CONTEXT: &str = "oboro v1 dataset root";
/// Bytes before the list of segments, bytes of an entry, bytes of the trailing digest.
const FIXED: usize = 96;
const ENTRY: usize = 84;
/// What a number adds: of an entry, of the next segment, of the earlier versions.
const NUMBER: usize = 4;
const DIGEST: usize = 32;

/// The most segments of a dataset.
pub const MAX_SEGMENTS: usize = 1 << 20;
/// The most earlier versions that a manifest names.
const MAX_EARLIER: usize = 1 << 12;
/// The most bytes that an encoded manifest takes.
pub const MAX_MANIFEST_BYTES: usize =
    FIXED + 2 * NUMBER + (ENTRY + NUMBER) * MAX_SEGMENTS + DIGEST * (MAX_EARLIER + 1);

// What to do about a version that does not follow another.
const OTHER: &str = "Append to the dataset that is there, or upload this one under another name.";
const NEWEST: &str = "Upload the newest version of the bundle.";
const PARTED: &str = "Make the change again, on a bundle of the published version.";

/// How a manifest names a segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SegmentEntry {
    /// Its number, which no other segment of the dataset ever has: what its file is named by.
    pub number: u32,
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
    /// 1 when first encrypted, one more with every append and every rewriting.
    pub version: u64,
    /// Above the numbers of all segments that the dataset ever had.
    pub next_segment: u32,
    /// The roots of earlier versions, from the first rewriting on; the newest are kept. One that is published may be
    /// replaced by this version.
    pub earlier_roots: Vec<Digest>,
    /// The segments, their blocks consecutive from 0.
    pub segments: Vec<SegmentEntry>,
}

impl Manifest {
    /// The canonical bytes of a [valid](Self::validate) manifest.
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

    /// The version of its encoding: the first that can say it.
    fn format(&self) -> u32 {
        let numbers = self.segments.iter().map(|segment| segment.number);
        let appended = self.earlier_roots.is_empty()
            && numbers.eq(0..self.segments.len() as u32)
            && self.next_segment as usize == self.segments.len();
        if appended { APPENDED } else { REWRITTEN }
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

    /// The numbers of its segments.
    pub fn numbers(&self) -> BTreeSet<u32> {
        self.segments.iter().map(|it| it.number).collect()
    }

    /// The digest of each segment, by its number.
    pub fn digests(&self) -> BTreeMap<u32, Digest> {
        let segments = self.segments.iter();
        segments.map(|it| (it.number, it.digest)).collect()
    }

    /// The indices of the segments that another version does not have.
    pub fn segments_beyond(&self, other: &Self) -> Vec<u32> {
        let known = other.digests();
        let segments = (0..).zip(&self.segments);
        let is_new = |entry: &SegmentEntry| known.get(&entry.number) != Some(&entry.digest);
        segments.filter(|it| is_new(it.1)).map(|it| it.0).collect()
    }

    /// Whether an earlier version, or one that parted from this, has segments that this one lacks.
    pub fn replaces(&self, older: &Self) -> bool {
        older.version <= self.version && !older.segments_beyond(self).is_empty()
    }

    /// The version after this one, for more segments to be added.
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

    /// The version after this one, for segments to be replaced.
    #[must_use]
    pub fn rewritten(&self) -> Self {
        Self {
            version: self.version + 1,
            earlier_roots: self.earlier_and_this(),
            ..self.clone()
        }
    }

    /// The roots of the versions before this one and of this one, the newest last. Of versions that were only appended
    /// these are the ones that there may have been: in each, only the last segment may have fewer than 64 blocks.
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

    /// The roots of versions that this one may have been appended to, the longest first.
    fn may_have_been(&self) -> impl Iterator<Item = Digest> {
        // The most and the fewest versions that may end with each segment or before it.
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

    /// Checks that this may come after `older`: with something appended, or rewritten.
    ///
    /// # Errors
    /// Something else; the error says what differs.
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

    /// Checks that a rewriting kept what it does not replace. The key may be another one.
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

    /// Checks that this is `older` with something appended, once or more often: the
    /// same dataset, key, generation, parameters, columns and `max_len`, all the older
    /// segments, and at least one new segment for each new version.
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
