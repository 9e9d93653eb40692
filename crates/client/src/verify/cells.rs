//! Sealed cells: opened as they arrive, released once all of them proved to be what the owner sealed.
//!
//! An answer is one sequence of bytes whose lengths follow from the owner's manifest. Each part opens only as the cells
//! of its column in its segment of the version that the manifest names (docs/cryptography.md, "Sealed cells"). A part
//! that does not open affects only the final verdict: the server observes equal behaviour whatever it sends.

use super::Verified;
use super::reading::Part as Brought;
use crate::workers::{WorkerInput, with_workers};
use oboro_dataset::{Dataset, unpack_row_ids};
use oboro_format::{CELL_SEAL_BYTES, Manifest, SegmentEntry};
use oboro_mining::Bitmap;
use oboro_ring::Column;
use oboro_rlwe::CellsId;
use parking_lot::Mutex;
use std::collections::{BTreeMap, HashSet};
use std::num::NonZeroUsize;
use std::sync::mpsc::SyncSender;
use zeroize::Zeroizing;

const _: () = assert!(oboro_rlwe::CELL_SEAL_BYTES == CELL_SEAL_BYTES);

/// Request for the cells of some columns, from a segment to the last one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct CellRequest {
    /// Ascending.
    pub(crate) columns: Vec<Column>,
    pub(crate) first_segment: u32,
    /// Number after that of the last segment.
    pub(crate) end_segment: u32,
}

impl CellRequest {
    /// Returns the bytes of all parts.
    pub(crate) fn bytes(&self, manifest: &Manifest) -> u64 {
        let segments = self.first_segment as usize..self.end_segment as usize;
        let one: u64 = manifest.segments[segments]
            .iter()
            .map(|entry| part_bytes(manifest, entry) as u64)
            .sum();
        one * self.columns.len() as u64
    }

    /// Returns the parts in the order of the answer: by segment, then by column.
    pub(crate) fn parts(&self, manifest: &Manifest) -> impl Iterator<Item = (Part, usize)> + Send {
        let segments = self.first_segment..self.end_segment;
        segments.flat_map(move |segment| {
            let bytes = part_bytes(manifest, &manifest.segments[segment as usize]);
            let part = move |&column| (Part { segment, column }, bytes);
            self.columns.iter().map(part)
        })
    }
}

/// Returns the bytes of the sealed cells of one column in a segment.
fn part_bytes(manifest: &Manifest, entry: &SegmentEntry) -> usize {
    entry.blocks as usize * manifest.parameters.degree() / 8 + CELL_SEAL_BYTES
}

/// Returns the bytes of the sealed cells of one column in all segments.
pub(crate) fn column_bytes(manifest: &Manifest) -> u64 {
    let bytes = |entry| part_bytes(manifest, entry) as u64;
    manifest.segments.iter().map(bytes).sum()
}

/// Cells of one column in one segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Part {
    pub(crate) segment: u32,
    pub(crate) column: Column,
}

/// Received part.
pub(crate) struct Piece {
    pub(crate) part: Part,
    pub(crate) sealed: Vec<u8>,
}

/// Reassembles the parts of one answer from the bytes received.
pub(crate) struct CellAssembler<'a> {
    parts: Box<dyn Iterator<Item = (Part, usize)> + Send + 'a>,
    next: Option<(Part, usize)>,
    /// Bytes of the next part received so far.
    sealed: Vec<u8>,
    pieces: &'a SyncSender<Piece>,
}

impl<'a> CellAssembler<'a> {
    pub(crate) fn new(
        manifest: &'a Manifest,
        wanted: &'a CellRequest,
        pieces: &'a SyncSender<Piece>,
    ) -> Self {
        let mut parts = wanted.parts(manifest);
        Self {
            next: parts.next(),
            parts: Box::new(parts),
            sealed: Vec::new(),
            pieces,
        }
    }

    /// Takes the next bytes.
    pub(crate) fn take(&mut self, mut data: &[u8]) -> Brought {
        let brought = if data.is_empty() {
            Brought::Idle
        } else {
            Brought::New
        };
        while !data.is_empty() {
            let Some((part, bytes)) = self.next else {
                return Brought::Excess;
            };
            let taken = data.len().min(bytes - self.sealed.len());
            self.sealed.extend_from_slice(&data[..taken]);
            data = &data[taken..];
            if self.sealed.len() == bytes {
                let sealed = std::mem::take(&mut self.sealed);
                // Workers accept every part: failures are reported at the end.
                let _ = self.pieces.send(Piece { part, sealed });
                self.next = self.parts.next();
            }
        }
        brought
    }

    /// Returns true once all expected bytes were received.
    pub(crate) fn is_complete(&self) -> bool {
        self.next.is_none()
    }
}

/// Opens the parts that `feed` supplies, on several threads. Returns the cells, or `None` if some differ from what the
/// owner sealed, and the result of `feed`.
pub(crate) fn open<R>(
    dataset: &Dataset,
    threads: NonZeroUsize,
    feed: impl FnOnce(SyncSender<Piece>) -> R,
) -> (Option<Verified<Cells>>, R) {
    let there = Mutex::default();
    let (fed, opened) = with_workers(threads, |pieces| open_pieces(dataset, &there, pieces), feed);
    let mut cells = Cells::default();
    let mut sound = true;
    for worker in opened {
        sound &= worker.sound;
        cells.parts.extend(worker.parts);
    }
    (sound.then_some(Verified(cells)), fed)
}

/// Parts that one thread opened.
struct OpenedCells {
    parts: Vec<(Part, Bits)>,
    sound: bool,
}

/// Opens parts on one thread until the channel closes, even after a failure.
fn open_pieces(
    dataset: &Dataset,
    there: &Mutex<HashSet<Part>>,
    pieces: &WorkerInput<Piece>,
) -> OpenedCells {
    let mut opened = OpenedCells {
        parts: Vec::new(),
        sound: true,
    };
    while let Some(Piece { part, sealed }) = pieces.next() {
        let entry = &dataset.manifest().segments[part.segment as usize];
        let which = CellsId {
            segment: entry.number,
            seeds: &entry.seeds.0,
            column: part.column,
        };
        match dataset.key().open_cells(which, &sealed) {
            // Parts received by an earlier attempt are not stored twice.
            Ok(bits) => {
                if there.lock().insert(part) {
                    opened.parts.push((part, bits));
                }
            }
            Err(_) => opened.sound = false,
        }
    }
    opened
}

/// Bits of a part, 64 slots per word, least significant first.
type Bits = Zeroizing<Vec<u64>>;

/// Opened cells of columns of a dataset.
#[derive(Default)]
pub(crate) struct Cells {
    parts: Vec<(Part, Bits)>,
}

impl Cells {
    /// Returns no cells, for results that rest on the owner's record alone.
    pub(crate) fn none() -> Verified<Self> {
        Verified(Self::default())
    }

    /// Returns the parts that it has.
    pub(crate) fn parts(&self) -> impl Iterator<Item = Part> {
        self.parts.iter().map(|&(part, _)| part)
    }

    /// Decodes row ids, each with its slot; `None` if one is not UTF-8, which the owner cannot have sealed.
    pub(crate) fn into_row_ids(self, dataset: &Dataset) -> Option<Vec<(u64, String)>> {
        let manifest = dataset.manifest();
        let degree = manifest.parameters.degree() as u64;
        let mut segments: BTreeMap<u32, BTreeMap<Column, Bits>> = BTreeMap::new();
        for (part, bits) in self.parts {
            let columns = segments.entry(part.segment).or_default();
            columns.insert(part.column, bits);
        }
        let mut rows = Vec::new();
        for (segment, columns) in segments {
            let first = manifest.segments[segment as usize].first_block * degree;
            let bits: Vec<Bits> = columns.into_values().collect();
            let ids = unpack_row_ids(&bits)?.into_iter();
            rows.extend(ids.map(|(slot, id)| (first + slot, id)));
        }
        Some(rows)
    }

    /// Builds a bitmap of all items of the dataset; `items` has the item of each column.
    pub(crate) fn into_bitmap(self, dataset: &Dataset, items: &[u32]) -> Bitmap {
        let manifest = dataset.manifest();
        let degree = manifest.parameters.degree();
        let words = manifest.block_count() as usize * degree / 64;
        let mut columns = BTreeMap::new();
        for (part, bits) in self.parts {
            let column = columns.entry(part.column).or_insert_with(|| vec![0; words]);
            let first = manifest.segments[part.segment as usize].first_block as usize * degree / 64;
            column[first..][..bits.len()].copy_from_slice(&bits);
        }
        let mut bitmap = Bitmap::empty(dataset.record().transactions, manifest.columns);
        for (column, bits) in columns {
            bitmap.insert(items[column], bits);
        }
        bitmap
    }
}

impl Verified<Cells> {
    /// Adds more cells.
    pub(crate) fn add(&mut self, more: Self) {
        self.0.parts.extend(more.0.parts);
    }
}
