//! Segment files: up to 64 blocks of all columns. First the panels, limb-major, then the sealed cells, a part for
//! each column; each part with its digest. Row ids are sealed like the cells of further columns, one for each bit.
//!
//! `docs/formats.md` has the bytes. A file under its final name is complete: it is
//! written elsewhere, header last, synced and renamed. Every byte of it is covered: the
//! header by its own digest, parts by digests in the header, and all padding is zero.

use crate::codec::{Reader, Writer, unseal};
use crate::error::{Fault, StoreError};
use crate::files::{Durability, io_error, parent, partial_path};
use crate::id::{DatasetId, Digest};
use crate::manifest::{MAX_COLUMNS, Manifest, SegmentEntry};
use crate::objects::{Cache, CachedSegment};
use file::{ReadError, SegmentFile};
use oboro_ring::{MAX_LOG_DEGREE, MIN_LOG_DEGREE, Parameters, Seed, pack, vector};
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

pub(crate) use file::PartPlace;
pub use file::forget_cached;

/// The most blocks a segment holds.
pub const BLOCKS_PER_SEGMENT: u32 = 64;

const MAGIC: &str = "OBOROSEG";
const VERSION: u32 = 3;
/// Headers and parts begin at multiples of this.
const ALIGNMENT: u64 = 4096;
/// Header bytes before the limb primes.
const FIXED_HEADER: u64 = 72;
/// Bits of a cell: whether a transaction has an item.
const CELL_BITS: u32 = 1;
/// What sealing adds to the cells of a column: a nonce of 24 bytes in front, a tag of 16 behind.
pub const CELL_SEAL_BYTES: usize = 24 + 16;
/// The most bytes of a row id.
pub const MAX_ROW_ID_BYTES: u32 = 255;
/// Bounds a header to half a gibibyte: parts of a segment.
const MAX_PARTS: u64 = 1 << 24;
/// More limbs than this are not secure at any degree that ring has.
const MAX_LIMBS: u32 = 64;

/// Bytes of a panel that are read, checked and unpacked at a time: 16 Ki residues.
const CHUNK_BYTES: usize = pack::packed_len(16 << 10);

/// The columns that have sealed cells: those of items, then one for each bit of a row id.
pub fn sealed_columns(columns: u32, row_id_bytes: u32) -> u32 {
    columns + 8 * row_id_bytes
}

/// Where things lie in a segment file. Its parts are numbered: panels limb-major from 0 on, then the sealed cells
/// of each column, those of row ids last.
#[derive(Debug, Clone, Copy)]
struct Layout {
    /// Bytes before the header's own digest.
    digested: u64,
    header: u64,
    panels: u64,
    /// The parts that are sealed cells.
    sealed: u64,
    /// Bytes of one panel, packed.
    packed: u64,
    /// Bytes of the sealed cells of one column.
    cells: u64,
}

impl Layout {
    /// `None` if a number is beyond what the format allows.
    fn new(
        log_degree: u32,
        limbs: u32,
        columns: u32,
        row_id_bytes: u32,
        blocks: u32,
    ) -> Option<Self> {
        let panels = u64::from(limbs) * u64::from(columns);
        let sealed = u64::from(columns) + 8 * u64::from(row_id_bytes);
        let parts = panels + sealed;
        let fits = (MIN_LOG_DEGREE..=MAX_LOG_DEGREE).contains(&log_degree)
            && (1..=MAX_LIMBS).contains(&limbs)
            && (1..=MAX_COLUMNS).contains(&columns)
            && row_id_bytes <= MAX_ROW_ID_BYTES
            && (1..=BLOCKS_PER_SEGMENT).contains(&blocks)
            && parts <= MAX_PARTS;
        if !fits {
            return None;
        }
        let digested = FIXED_HEADER + 4 * u64::from(limbs) + 32 * u64::from(blocks) + 32 * parts;
        let slots = (blocks as usize) << log_degree;
        Some(Self {
            digested,
            header: (digested + 32).next_multiple_of(ALIGNMENT),
            panels,
            sealed,
            packed: pack::packed_len(slots) as u64,
            cells: (slots / 8 + CELL_SEAL_BYTES) as u64,
        })
    }

    /// That of the `index`-th segment of a manifest.
    fn of(manifest: &Manifest, index: u32) -> Self {
        let parameters = &manifest.parameters;
        let layout = Self::new(
            parameters.log_degree(),
            parameters.limb_count() as u32,
            manifest.columns,
            manifest.row_id_bytes,
            manifest.segments[index as usize].blocks,
        );
        layout.expect("a manifest names segments that there can be")
    }

    fn parts(&self) -> usize {
        (self.panels + self.sealed) as usize
    }

    /// The bytes of a part without its padding.
    fn bytes(&self, part: usize) -> u64 {
        match (part as u64) < self.panels {
            true => self.packed,
            false => self.cells,
        }
    }

    /// The bytes of a part with its padding.
    fn stride(&self, part: usize) -> u64 {
        self.bytes(part).next_multiple_of(ALIGNMENT)
    }

    /// Where a part begins; for the number of parts, where the file ends.
    fn offset(&self, part: usize) -> u64 {
        let panels = self.panels.min(part as u64);
        let cells = part as u64 - panels;
        self.header
            + panels * self.packed.next_multiple_of(ALIGNMENT)
            + cells * self.cells.next_multiple_of(ALIGNMENT)
    }

    fn total(&self) -> u64 {
        self.offset(self.parts())
    }
}

/// The length of a segment file, or `None` if the format has no such segment.
pub fn segment_bytes(
    parameters: &Parameters,
    columns: u32,
    row_id_bytes: u32,
    blocks: u32,
) -> Option<u64> {
    let limbs = u32::try_from(parameters.limb_count()).ok()?;
    let layout = Layout::new(
        parameters.log_degree(),
        limbs,
        columns,
        row_id_bytes,
        blocks,
    );
    layout.map(|layout| layout.total())
}

/// The bytes, with padding, of a panel of a full segment.
pub(crate) fn full_panel_bytes(parameters: &Parameters) -> usize {
    let packed = pack::packed_len((BLOCKS_PER_SEGMENT as usize) << parameters.log_degree());
    packed.next_multiple_of(ALIGNMENT as usize)
}

/// What a segment is about to hold.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SegmentDescription {
    /// The dataset that the segment belongs to.
    pub dataset: DatasetId,
    /// Its place in the dataset's list of segments.
    pub index: u32,
    /// The number of its first block in the dataset.
    pub first_block: u64,
    /// The number of columns.
    pub columns: u32,
    /// The bytes of each row id; 0 where there are none.
    pub row_id_bytes: u32,
    /// The ring of the ciphertexts.
    pub parameters: Parameters,
    /// One mask seed per block: 1 to 64 of them.
    pub seeds: Vec<Seed>,
}

impl SegmentDescription {
    /// BLAKE3 of the mask seeds in a row. They are drawn anew whenever a segment is made, so no two segments share it.
    pub fn seeds_digest(&self) -> Digest {
        let mut hasher = blake3::Hasher::new();
        for seed in &self.seeds {
            hasher.update(&seed.0);
        }
        Digest(*hasher.finalize().as_bytes())
    }

    fn layout(&self) -> Result<Layout, StoreError> {
        let limbs = u32::try_from(self.parameters.limb_count()).unwrap_or(u32::MAX);
        let blocks = u32::try_from(self.seeds.len()).unwrap_or(u32::MAX);
        let layout = Layout::new(
            self.parameters.log_degree(),
            limbs,
            self.columns,
            self.row_id_bytes,
            blocks,
        );
        layout.ok_or_else(|| StoreError::Misuse {
            what: format!(
                "a segment cannot have {blocks} blocks of {} columns and {limbs} limbs with row ids of {} bytes",
                self.columns, self.row_id_bytes
            ),
        })
    }

    /// The place of a panel in the segment: limb-major.
    fn panel_number(&self, limb: usize, column: usize) -> Result<usize, StoreError> {
        let columns = self.columns as usize;
        if limb < self.parameters.limb_count() && column < columns {
            return Ok(limb * columns + column);
        }
        Err(StoreError::NoPanel {
            dataset: self.dataset,
            segment: self.index as usize,
            limb,
            column,
        })
    }

    /// The place of a column's sealed cells in the segment; those of row ids count on behind the columns.
    fn cells_number(&self, column: usize) -> Result<usize, StoreError> {
        if column < sealed_columns(self.columns, self.row_id_bytes) as usize {
            return Ok(self.panels() + column);
        }
        Err(StoreError::NoCells {
            dataset: self.dataset,
            segment: self.index as usize,
            column,
        })
    }

    /// The number of panels: of all limbs and columns.
    fn panels(&self) -> usize {
        self.parameters.limb_count() * self.columns as usize
    }

    /// The limb and the column of a part that is a panel.
    fn panel_of(&self, part: usize) -> Option<(u32, u32)> {
        let (row, column) = (part as u32 / self.columns, part as u32 % self.columns);
        ((row as usize) < self.parameters.limb_count()).then_some((row, column))
    }

    /// What errors call a part of the segment.
    fn part_name(&self, part: usize) -> String {
        match self.panel_of(part) {
            Some((limb, column)) => format!("panel (limb {limb}, column {column}) of "),
            None => match part - self.panels() {
                column if column < self.columns as usize => {
                    format!("sealed cells (column {column}) of ")
                }
                column => format!(
                    "sealed row ids (bit {}) of ",
                    column - self.columns as usize
                ),
            },
        }
    }

    /// What errors call a part.
    fn subject(&self, part: usize) -> String {
        let Self { index, dataset, .. } = self;
        format!(
            "{}segment {index} of dataset {dataset}",
            self.part_name(part)
        )
    }

    fn encode_header(&self, layout: &Layout, parts: &[Digest]) -> Vec<u8> {
        let mut header = Writer::with_preamble(MAGIC, VERSION);
        header
            .u32(layout.header as u32)
            .put(&self.dataset.0)
            .u32(self.index)
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

/// A header that was read and checked, and the digest that names its segment.
struct Header {
    description: SegmentDescription,
    layout: Layout,
    /// The digests of its parts.
    parts: Vec<Digest>,
    digest: Digest,
}

/// The part of a header that has the same length in all segments.
struct FixedHeader {
    layout: Layout,
    dataset: DatasetId,
    index: u32,
    blocks: u32,
    first_block: u64,
    columns: u32,
    log_degree: u32,
    limbs: u32,
    plaintext_modulus: u32,
    row_id_bytes: u32,
}

impl FixedHeader {
    fn decode(bytes: &[u8]) -> Result<Self, Fault> {
        let mut reader = Reader::new(bytes);
        reader.preamble(MAGIC, VERSION)?;
        let header_length = u64::from(reader.u32()?);
        let dataset = DatasetId(reader.array()?);
        let index = reader.u32()?;
        let blocks = reader.u32()?;
        let first_block = reader.u64()?;
        let columns = reader.u32()?;
        let log_degree = reader.u32()?;
        let limbs = reader.u32()?;
        let plaintext_modulus = reader.u32()?;
        let cell_bits = reader.u32()?;
        if cell_bits != CELL_BITS {
            return Err(Fault::Foreign(format!(
                "cells of {cell_bits} bits where this Oboro has {CELL_BITS}"
            )));
        }
        let row_id_bytes = reader.u32()?;
        let layout = Layout::new(log_degree, limbs, columns, row_id_bytes, blocks)
            .filter(|layout| layout.header == header_length)
            .ok_or_else(|| {
                Fault::Invalid("the numbers in its header contradict each other".into())
            })?;
        Ok(Self {
            layout,
            dataset,
            index,
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
    fn read(file: &SegmentFile) -> Result<Self, ReadError> {
        let length = file.length();
        let mut fixed = [0; FIXED_HEADER as usize];
        let there = fixed.len().min(length as usize);
        file.read_exact_at(&mut fixed[..there], 0)?;
        Reader::new(&fixed[..there]).preamble(MAGIC, VERSION)?;
        if length < FIXED_HEADER {
            return Err(Fault::Length {
                expected: FIXED_HEADER,
                found: length,
            }
            .into());
        }
        let layout = FixedHeader::decode(&fixed)?.layout;
        // Before allocating: a header cannot claim more than the file has.
        if length != layout.total() {
            return Err(Fault::Length {
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
    fn decode(bytes: &[u8]) -> Result<Self, Fault> {
        let fixed = FixedHeader::decode(bytes)?;
        let layout = fixed.layout;
        if bytes.len() as u64 != layout.header {
            return Err(Fault::Length {
                expected: layout.header,
                found: bytes.len() as u64,
            });
        }
        let (sealed, padding) = bytes.split_at(layout.digested as usize + 32);
        let body = unseal(sealed)?;
        if !is_zero(padding) {
            return Err(Fault::Altered);
        }

        let limbs = fixed.limbs as usize;
        let parameters = Parameters::new(fixed.log_degree, limbs, fixed.plaintext_modulus)
            .map_err(|error| Fault::Foreign(error.to_string()))?;
        let mut reader = Reader::new(&body[FIXED_HEADER as usize..]);
        for modulus in parameters.limb_moduli() {
            let (found, expected) = (reader.u32()?, modulus.value());
            if found != expected {
                return Err(Fault::Foreign(format!(
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
            index: fixed.index,
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

    /// How a manifest names the segment.
    fn entry(&self) -> SegmentEntry {
        SegmentEntry {
            digest: self.digest,
            seeds: self.description.seeds_digest(),
            first_block: self.description.first_block,
            blocks: self.description.seeds.len() as u32,
            bytes: self.layout.total(),
        }
    }

    /// Whether the segment is the one that `manifest` names as its `index`-th.
    fn is_of(&self, manifest: &Manifest, index: u32) -> bool {
        let found = &self.description;
        self.entry() == manifest.segments[index as usize]
            && found.dataset == manifest.dataset
            && found.index == index
            && found.columns == manifest.columns
            && found.row_id_bytes == manifest.row_id_bytes
            && found.parameters == manifest.parameters
    }
}

/// The header of a segment without the segment: what a part of a segment that comes from elsewhere is
/// checked against.
#[derive(Clone)]
pub struct SegmentHeader {
    header: Arc<Header>,
}

impl SegmentHeader {
    /// The length of the header of the segment that `manifest` names as its `index`-th.
    pub(crate) fn bytes_of(manifest: &Manifest, index: u32) -> u64 {
        Layout::of(manifest, index).header
    }

    /// Checks that these are the bytes of the header of the segment that `manifest` names as its
    /// `index`-th.
    ///
    /// # Errors
    /// Any other bytes.
    ///
    /// # Panics
    /// If the manifest has no such segment.
    pub fn decode(bytes: &[u8], manifest: &Manifest, index: u32) -> Result<Self, StoreError> {
        Header::decode(bytes)
            .and_then(|header| match header.is_of(manifest, index) {
                true => Ok(Self {
                    header: Arc::new(header),
                }),
                false => Err(Fault::Unexpected),
            })
            .map_err(|fault| StoreError::Damaged {
                subject: format!(
                    "the header of segment {index} of dataset {}",
                    manifest.dataset
                ),
                path: None,
                fault,
            })
    }

    /// What it says.
    pub fn description(&self) -> &SegmentDescription {
        &self.header.description
    }

    /// The number of parts.
    pub(crate) fn parts(&self) -> usize {
        self.header.parts.len()
    }

    /// The first byte of a part in a file that has the whole segment, and its bytes with padding; that of the number
    /// of parts is the end of the file.
    pub(crate) fn part_place(&self, part: usize) -> (u64, usize) {
        let layout = self.header.layout;
        (layout.offset(part), layout.stride(part) as usize)
    }

    /// Whether these are the bytes of a part with its padding.
    pub(crate) fn is_part(&self, part: usize, bytes: &[u8]) -> bool {
        let layout = self.header.layout;
        if bytes.len() as u64 != layout.stride(part) {
            return false;
        }
        let (bytes, padding) = bytes.split_at(layout.bytes(part) as usize);
        Digest::of(bytes) == self.header.parts[part] && is_zero(padding)
    }

    /// What errors call a part.
    pub(crate) fn subject(&self, part: usize) -> String {
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

fn is_zero(bytes: &[u8]) -> bool {
    bytes.iter().all(|&byte| byte == 0)
}

/// A complete segment, open for reading. It can still be read after its name is gone. Reading takes
/// `&self` and works from any number of threads.
pub struct Segment {
    file: SegmentFile,
    header: Arc<Header>,
    /// Has what the file, a cache, does not.
    object: Option<Arc<CachedSegment>>,
}

impl Segment {
    /// Opens a segment and checks its header and its exact length, but no panel.
    pub fn open(path: &Path) -> Result<Self, StoreError> {
        Self::open_file(path).map_err(|error| error.about(path, || "the segment file".into()))
    }

    fn open_file(path: &Path) -> Result<Self, ReadError> {
        let file = SegmentFile::open(path)?;
        let header = Arc::new(Header::read(&file)?);
        Ok(Self {
            file,
            header,
            object: None,
        })
    }

    /// Opens the segment that `manifest` names as its `index`-th, and no other. Errors name it.
    ///
    /// # Panics
    /// If the manifest has no such segment.
    pub(crate) fn open_expected(
        path: &Path,
        manifest: &Manifest,
        index: u32,
    ) -> Result<Self, StoreError> {
        let opened =
            Self::open_file(path).and_then(|segment| match segment.header.is_of(manifest, index) {
                true => Ok(segment),
                false => Err(Fault::Unexpected.into()),
            });
        opened.map_err(|error| {
            error.about(path, || {
                format!("segment {index} of dataset {}", manifest.dataset)
            })
        })
    }

    /// Opens the segment that `manifest` names as its `index`-th, of which the file at `path` has what was
    /// needed so far.
    ///
    /// # Errors
    /// An object that is missing, damaged or out of reach; a disk that fails.
    ///
    /// # Panics
    /// If the manifest has no such segment.
    pub(crate) fn open_cached(
        cache: &Arc<Cache>,
        path: &Path,
        manifest: &Manifest,
        index: u32,
    ) -> Result<Self, StoreError> {
        let object = cache.open(path, manifest, index)?;
        let file = SegmentFile::open(path)
            .map_err(|error| error.about(path, || "the cache's file".into()))?;
        Ok(Self {
            file,
            header: Arc::clone(&object.header().header),
            object: Some(object),
        })
    }

    /// What the header says.
    pub fn description(&self) -> &SegmentDescription {
        &self.header.description
    }

    /// The segment's digest: BLAKE3 of its header, which holds the digests of its panels.
    pub fn digest(&self) -> Digest {
        self.header.digest
    }

    /// How a manifest names this segment.
    pub fn entry(&self) -> SegmentEntry {
        self.header.entry()
    }

    /// The bytes of the header, as they lie in the file.
    pub fn header_bytes(&self) -> Vec<u8> {
        let Header {
            description,
            layout,
            parts,
            ..
        } = &*self.header;
        description.encode_header(layout, parts)
    }

    /// The number of blocks, 1 to 64.
    pub fn blocks(&self) -> u32 {
        self.header.description.seeds.len() as u32
    }

    /// Residues in a panel: `blocks × N`.
    pub fn panel_len(&self) -> usize {
        self.header.description.seeds.len() * self.header.description.parameters.degree()
    }

    /// The path it was opened at.
    pub fn path(&self) -> &Path {
        self.file.path()
    }

    /// Reads one panel into `out` (`blocks × N` residues below 2^28, evaluation form); if its digest
    /// is not as it should be, that is an error and `out` means nothing. Panics if `out` has another
    /// length.
    pub fn read_panel(
        &self,
        limb: usize,
        column: usize,
        out: &mut [u32],
    ) -> Result<(), StoreError> {
        self.read_panel_in_pieces(limb, column, vec![out])
    }

    /// The same into slices of whole blocks that hold the panel one after another.
    pub(crate) fn read_panel_in_pieces(
        &self,
        limb: usize,
        column: usize,
        pieces: Vec<&mut [u32]>,
    ) -> Result<(), StoreError> {
        assert_eq!(
            pieces.iter().map(|piece| piece.len()).sum::<usize>(),
            self.panel_len(),
            "a panel holds blocks × N residues"
        );
        let panel = self.header.description.panel_number(limb, column)?;
        self.check_part(panel, unpack_into(pieces))
    }

    /// Begins to read a panel block after block.
    ///
    /// # Errors
    /// No such panel.
    pub fn panel_reader(&self, limb: usize, column: usize) -> Result<PanelReader<'_>, StoreError> {
        Ok(PanelReader {
            segment: self,
            part: self.header.description.panel_number(limb, column)?,
            offset: 0,
            hasher: blake3::Hasher::new(),
        })
    }

    /// Where the file is a cache: the object that has all of the segment.
    pub(crate) fn object(&self) -> Option<&Arc<CachedSegment>> {
        self.object.as_ref()
    }

    /// Checks the header that the object has, if there is an object.
    pub(crate) fn check_object(&self) -> Result<(), StoreError> {
        self.object
            .as_ref()
            .map_or(Ok(()), |it| it.check_header(&self.header_bytes()))
    }

    /// The place of a panel among those of the segment. Panics if there is no such panel.
    pub(crate) fn panel_number(&self, limb: usize, column: usize) -> usize {
        let panel = self.header.description.panel_number(limb, column);
        panel.expect("the segment has the panel")
    }

    /// Begins to fetch panels of a limb that will be read soon, where they have to be fetched.
    ///
    /// # Panics
    /// If there is no such panel.
    pub fn fetch_ahead(&self, limb: usize, columns: impl IntoIterator<Item = u32>) {
        if let Some(object) = &self.object {
            for column in columns {
                object.fetch_ahead(self.panel_number(limb, column as usize));
            }
        }
    }

    /// Begins to fetch sealed cells that will be read soon, where they have to be fetched.
    ///
    /// # Panics
    /// If there is no such column.
    pub fn fetch_cells_ahead(&self, columns: impl IntoIterator<Item = u32>) {
        if let Some(object) = &self.object {
            for column in columns {
                let cells = self.header.description.cells_number(column as usize);
                object.fetch_ahead(cells.expect("the segment has the column"));
            }
        }
    }

    /// Where a panel lies. Panics if there is no such panel.
    pub(crate) fn panel_place(&self, limb: usize, column: usize) -> PartPlace {
        self.place(self.panel_number(limb, column))
    }

    fn place(&self, part: usize) -> PartPlace {
        let layout = &self.header.layout;
        PartPlace {
            offset: layout.offset(part),
            len: layout.stride(part) as usize,
        }
    }

    /// The segment's file.
    pub(crate) fn file(&self) -> &Arc<File> {
        self.file.file()
    }

    /// The segment's file for reading past the system's cache, where that is possible.
    pub(crate) fn past_the_cache(&self) -> Option<Arc<File>> {
        self.file.past_the_cache()
    }

    /// Checks a panel that was read with its padding, and unpacks it into slices of whole blocks that
    /// hold it one after another; if it is damaged, they mean nothing.
    pub(crate) fn unpack_panel(
        &self,
        limb: usize,
        column: usize,
        bytes: &[u8],
        pieces: Vec<&mut [u32]>,
    ) -> Result<(), StoreError> {
        let mut unpack = unpack_into(pieces);
        let mut hasher = blake3::Hasher::new();
        let panel = self.header.description.panel_number(limb, column)?;
        let (packed, padding) = bytes.split_at(self.header.layout.packed as usize);
        for chunk in packed.chunks(CHUNK_BYTES) {
            hasher.update(chunk);
            unpack(chunk);
        }
        let digest = Digest(*hasher.finalize().as_bytes());
        match digest == self.header.parts[panel] && is_zero(padding) {
            true => Ok(()),
            false => Err(self.part_damaged(panel, Fault::Altered.into())),
        }
    }

    /// The error of a panel that could not be read.
    pub(crate) fn panel_error(&self, limb: usize, column: usize, error: io::Error) -> StoreError {
        self.part_damaged(self.panel_number(limb, column), error.into())
    }

    fn part_damaged(&self, part: usize, error: ReadError) -> StoreError {
        error.about(self.path(), || self.header.description.subject(part))
    }

    /// The number of parts: panels and sealed cells.
    pub(crate) fn parts(&self) -> usize {
        self.header.parts.len()
    }

    /// The limb and the column of a part that is a panel.
    pub(crate) fn panel_of(&self, part: usize) -> Option<(u32, u32)> {
        self.header.description.panel_of(part)
    }

    /// What errors call a part of the segment: "panel … of ".
    pub(crate) fn part_name(&self, part: usize) -> String {
        self.header.description.part_name(part)
    }

    /// The packed bytes of one panel, after checking their digest.
    pub fn read_packed_panel(&self, limb: usize, column: usize) -> Result<Vec<u8>, StoreError> {
        self.read_part(self.header.description.panel_number(limb, column)?)
    }

    /// The sealed cells of one column, after checking their digest.
    ///
    /// # Errors
    /// No such column, damage.
    pub fn read_cells(&self, column: usize) -> Result<Vec<u8>, StoreError> {
        self.read_part(self.header.description.cells_number(column)?)
    }

    fn read_part(&self, part: usize) -> Result<Vec<u8>, StoreError> {
        let mut all = Vec::with_capacity(self.header.layout.bytes(part) as usize);
        self.check_part(part, |bytes| all.extend_from_slice(bytes))?;
        Ok(all)
    }

    /// Checks every part against its digest.
    pub fn verify(&self) -> Result<(), StoreError> {
        (0..self.parts()).try_for_each(|part| self.check_part(part, |_| ()))
    }

    /// Writes a new file with the same bytes, each part after it was checked, and syncs it. `progress`
    /// is told the bytes written so far.
    pub(crate) fn copy_to(&self, path: &Path, progress: impl Fn(u64)) -> Result<(), StoreError> {
        let layout = self.header.layout;
        let mut file = File::create_new(path).map_err(io_error("create", path))?;
        let mut write = |bytes: &[u8]| file.write_all(bytes).map_err(io_error("write", path));
        write(&self.header_bytes())?;
        for part in 0..self.parts() {
            let mut bytes = self.read_part(part)?;
            bytes.resize(layout.stride(part) as usize, 0);
            write(&bytes)?;
            progress(layout.offset(part + 1));
        }
        file.sync_all().map_err(io_error("sync", path))
    }

    /// Checks one part and leaves nothing of it in the system's cache.
    pub(crate) fn verify_and_forget(&self, part: usize) -> Result<(), StoreError> {
        if let Some(object) = &self.object {
            return object.check_object(part);
        }
        let checked = self.check_part(part, |_| ());
        self.file.forget_cached(self.place(part));
        checked
    }

    /// The bytes of the header, padding included.
    pub(crate) fn header_len(&self) -> u64 {
        self.header.layout.header
    }

    /// The bytes of a part, padding included.
    pub(crate) fn part_len(&self, part: usize) -> u64 {
        self.header.layout.stride(part)
    }

    /// Reads a part chunk by chunk, each of [`CHUNK_BYTES`] except for the last, so that `visit` finds them in the
    /// cache; tells at the end whether the digest is right.
    fn check_part(&self, part: usize, mut visit: impl FnMut(&[u8])) -> Result<(), StoreError> {
        let layout = self.header.layout;
        let bytes = layout.bytes(part);
        if let Some(object) = &self.object {
            let found = object.read(part)?;
            found[..bytes as usize].chunks(CHUNK_BYTES).for_each(visit);
            return Ok(());
        }
        let damaged = |error| self.part_damaged(part, error);
        let place = self.place(part);
        let mut buffer = [0; CHUNK_BYTES];
        let mut hasher = blake3::Hasher::new();
        let mut offset = 0;
        // The part, then its padding.
        for end in [bytes, layout.stride(part)] {
            while offset < end {
                let chunk = &mut buffer[..(end - offset).min(CHUNK_BYTES as u64) as usize];
                self.file
                    .read_exact_at(chunk, place.offset + offset)
                    .map_err(|error| damaged(error.into()))?;
                if end == bytes {
                    hasher.update(chunk);
                    visit(chunk);
                } else if !is_zero(chunk) {
                    return Err(damaged(Fault::Altered.into()));
                }
                offset += chunk.len() as u64;
            }
        }
        if Digest(*hasher.finalize().as_bytes()) == self.header.parts[part] {
            Ok(())
        } else {
            Err(damaged(Fault::Altered.into()))
        }
    }
}

/// A panel that is read from a local file block after block. What was read counts once the last block was found to
/// belong to it.
pub struct PanelReader<'a> {
    segment: &'a Segment,
    part: usize,
    offset: u64,
    hasher: blake3::Hasher,
}

impl PanelReader<'_> {
    /// Reads the next residues, whole blocks of them.
    ///
    /// # Errors
    /// A file that cannot be read; with the last block, one that is not what it was.
    ///
    /// # Panics
    /// If the panel has no more so many.
    pub fn read(&mut self, residues: &mut [u32]) -> Result<(), StoreError> {
        let (segment, part) = (self.segment, self.part);
        let damaged = |error| segment.part_damaged(part, error);
        let place = segment.place(part);
        let mut buffer = vec![0; pack::packed_len(residues.len())];
        let end = self.offset + buffer.len() as u64;
        assert!(end <= segment.header.layout.bytes(part), "the panel ends");
        segment
            .file
            .read_exact_at(&mut buffer, place.offset + self.offset)
            .map_err(|error| damaged(error.into()))?;
        self.hasher.update(&buffer);
        self.offset = end;
        pack::unpack(&buffer, residues);
        let is_whole = end == segment.header.layout.bytes(part);
        match is_whole && Digest(*self.hasher.finalize().as_bytes()) != segment.header.parts[part] {
            true => Err(damaged(Fault::Altered.into())),
            false => Ok(()),
        }
    }
}

/// Unpacks a panel that comes in chunks of whole pairs of residues into slices that hold it.
fn unpack_into(pieces: Vec<&mut [u32]>) -> impl FnMut(&[u8]) {
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

impl std::fmt::Debug for Segment {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Segment")
            .field("path", &self.path())
            .field("digest", &self.digest())
            .finish_non_exhaustive()
    }
}

/// Writes one segment file: parts in any order and from any number of threads, then
/// [`finish`](Self::finish). Dropped before that, it leaves nothing behind.
pub struct SegmentWriter {
    file: File,
    path: PathBuf,
    partial: PathBuf,
    description: SegmentDescription,
    layout: Layout,
    parts: Mutex<Vec<PartState>>,
    durability: Durability,
    renamed: bool,
}

#[derive(Clone, Copy)]
enum PartState {
    Absent,
    /// Being written; it stays so if the write fails, and then the segment cannot finish.
    Begun,
    Written(Digest),
}

impl SegmentWriter {
    /// Begins the segment that will be at `path`. A complete file already there stays
    /// until this one is finished.
    pub fn create(
        path: &Path,
        description: SegmentDescription,
        durability: Durability,
    ) -> Result<Self, StoreError> {
        let layout = description.layout()?;
        let partial = partial_path(path);
        let file = OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(false)
            .open(&partial)
            .map_err(io_error("create", &partial))?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                return Err(StoreError::Locked {
                    path: partial,
                    what: "file to write",
                });
            }
            Err(TryLockError::Error(error)) => return Err(io_error("lock", &partial)(error)),
        }
        let writer = Self {
            file,
            path: path.into(),
            partial,
            description,
            layout,
            parts: Mutex::new(vec![PartState::Absent; layout.parts()]),
            durability,
            renamed: false,
        };
        // Nothing of an earlier attempt remains, and what is not written reads as zero.
        writer
            .file
            .set_len(0)
            .and_then(|()| writer.file.set_len(layout.total()))
            .map_err(io_error("create", &writer.partial))?;
        Ok(writer)
    }

    /// What was given to [`create`](Self::create).
    pub fn description(&self) -> &SegmentDescription {
        &self.description
    }

    /// Writes one panel: `blocks × N` canonical residues of limb `limb`, evaluation form,
    /// block after block. Each panel is written exactly once.
    pub fn write_panel(
        &self,
        limb: usize,
        column: usize,
        residues: &[u32],
    ) -> Result<(), StoreError> {
        let SegmentDescription {
            ref parameters,
            ref seeds,
            ..
        } = self.description;
        let panel = self.description.panel_number(limb, column)?;
        if residues.len() != seeds.len() * parameters.degree() {
            return Err(self.misuse(panel, "was given with the wrong number of residues"));
        }
        let modulus = parameters.limb_moduli()[limb].value();
        if vector::largest(residues) >= modulus {
            return Err(self.misuse(panel, "was given residues that are not below their modulus"));
        }
        let mut packed = vec![0; self.layout.packed as usize];
        pack::pack(residues, &mut packed);
        self.write_part(panel, &packed)
    }

    /// Writes the sealed cells of one column: a bit for each slot, and [`CELL_SEAL_BYTES`]. Those of each column are
    /// written exactly once.
    ///
    /// # Errors
    /// No such column, another length, written before, a disk that fails.
    pub fn write_cells(&self, column: usize, sealed: &[u8]) -> Result<(), StoreError> {
        let part = self.description.cells_number(column)?;
        if sealed.len() as u64 != self.layout.cells {
            return Err(self.misuse(part, "were given with the wrong number of bytes"));
        }
        self.write_part(part, sealed)
    }

    fn write_part(&self, part: usize, bytes: &[u8]) -> Result<(), StoreError> {
        match self.state(part, PartState::Begun) {
            PartState::Absent => {}
            before => {
                self.state(part, before);
                return Err(self.misuse(part, "was written twice"));
            }
        }
        self.file
            .write_all_at(bytes, self.layout.offset(part))
            .map_err(io_error("write", &self.partial))?;
        self.state(part, PartState::Written(Digest::of(bytes)));
        Ok(())
    }

    fn misuse(&self, part: usize, what: &str) -> StoreError {
        StoreError::Misuse {
            what: format!("{} {what}", self.description.subject(part)),
        }
    }

    /// Sets the state of a part and returns the one before.
    fn state(&self, part: usize, state: PartState) -> PartState {
        let mut parts = self.parts.lock().unwrap_or_else(PoisonError::into_inner);
        std::mem::replace(&mut parts[part], state)
    }

    /// Writes the header, makes the file durable if it is to be, and gives it its name.
    pub fn finish(mut self) -> Result<SegmentEntry, StoreError> {
        let states = std::mem::take(self.parts.get_mut().unwrap_or_else(PoisonError::into_inner));
        let digests = states
            .iter()
            .enumerate()
            .map(|(part, state)| match state {
                PartState::Written(digest) => Ok(*digest),
                _ => Err(self.misuse(part, "was not written")),
            })
            .collect::<Result<Vec<Digest>, _>>()?;
        let header = self.description.encode_header(&self.layout, &digests);
        self.file
            .write_all_at(&header, 0)
            .and_then(|()| self.durability.sync_file(&self.file))
            .map_err(io_error("write", &self.partial))?;
        fs::rename(&self.partial, &self.path).map_err(io_error("rename to", &self.path))?;
        self.renamed = true;
        self.durability.sync_directory(parent(&self.path))?;
        Ok(SegmentEntry {
            digest: Digest::of(&header),
            seeds: self.description.seeds_digest(),
            first_block: self.description.first_block,
            blocks: self.description.seeds.len() as u32,
            bytes: self.layout.total(),
        })
    }
}

impl Drop for SegmentWriter {
    fn drop(&mut self) {
        if !self.renamed {
            // Best effort: a file that stays is overwritten or swept by the next attempt.
            let _ = fs::remove_file(&self.partial);
        }
    }
}

mod file;
#[cfg(test)]
mod tests;
