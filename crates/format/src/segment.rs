//! Segment files: up to 64 blocks of all columns. Panels come first, limb-major, then one part of sealed cells for each
//! column; each part has a digest. Row ids are sealed like cells, in one further column for each bit.
//!
//! `docs/formats.md` specifies the bytes. A file under its final name is complete: it is written under a temporary
//! name, header last, synced and renamed. Digests cover every byte: the header has its own, the header holds those of
//! the parts, and all padding is zero.

use crate::error::FormatError;
use crate::id::{DatasetId, Digest};
use oboro_ring::{Blocks, Column, Limb, Parameters, Seed};

mod file;
mod header;
mod layout;
mod open_files;
mod read_error;
mod reader;
#[cfg(test)]
mod tests;
mod writer;

pub use file::{PartExtent, SegmentFile, forget_cached};
pub use header::{SegmentHeader, unpack_into};
pub(crate) use layout::Layout;
pub use layout::{full_panel_bytes, sealed_columns, segment_bytes};
pub use open_files::leave_descriptors;
pub use read_error::ReadError;
pub use reader::{PanelReader, Segment};
pub use writer::SegmentWriter;

const MAGIC: &str = "OBOROSEG";
const VERSION: u32 = 3;
/// Number of bits of a cell, which is set if the transaction has the item.
const CELL_BITS: u32 = 1;

/// Description of a segment: its header without the digests of parts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SegmentDescription {
    /// Dataset of the segment.
    pub dataset: DatasetId,
    /// Number of the segment, never reused within the dataset.
    pub number: u32,
    /// Position of the first block in the version for which the segment was written.
    pub first_block: u64,
    /// Number of columns.
    pub columns: u32,
    /// Bytes of each row id; 0 if the dataset has none.
    pub row_id_bytes: u32,
    /// Ring of the ciphertexts.
    pub parameters: Parameters,
    /// Mask seeds, one for each of its 1 to 64 blocks.
    pub seeds: Vec<Seed>,
}

impl SegmentDescription {
    /// Returns the blocks of the segment.
    pub fn range(&self) -> Blocks {
        Blocks::from_start(self.first_block, self.seeds.len() as u64)
    }

    /// Returns BLAKE3 of the concatenated mask seeds. Seeds are drawn afresh for every segment, so it is unique to one.
    pub fn seeds_digest(&self) -> Digest {
        let mut hasher = blake3::Hasher::new();
        for seed in &self.seeds {
            hasher.update(&seed.0);
        }
        Digest(*hasher.finalize().as_bytes())
    }

    pub(crate) fn layout(&self) -> Result<Layout, FormatError> {
        let limbs = u32::try_from(self.parameters.limb_count()).unwrap_or(u32::MAX);
        let blocks = u32::try_from(self.seeds.len()).unwrap_or(u32::MAX);
        let layout = Layout::new(
            self.parameters.log_degree(),
            limbs,
            self.columns,
            self.row_id_bytes,
            blocks,
        );
        layout.ok_or_else(|| FormatError::Misuse {
            what: format!(
                "a segment cannot have {blocks} blocks of {} columns and {limbs} limbs with row ids of {} bytes",
                self.columns, self.row_id_bytes
            ),
        })
    }

    /// Returns the index of a panel in the segment: limb-major.
    pub fn panel_number(&self, limb: Limb, column: Column) -> Result<usize, FormatError> {
        if limb.0 < self.parameters.limb_count() && column.0 < self.columns {
            return Ok(limb.0 * self.columns as usize + column.index());
        }
        Err(FormatError::NoPanel {
            dataset: self.dataset,
            segment: self.number as usize,
            limb,
            column,
        })
    }

    /// Returns the index of a column's sealed cells in the segment; columns of row ids follow those of items.
    pub fn cells_number(&self, column: Column) -> Result<usize, FormatError> {
        if column.0 < sealed_columns(self.columns, self.row_id_bytes) {
            return Ok(self.panels() + column.index());
        }
        Err(FormatError::NoCells {
            dataset: self.dataset,
            segment: self.number as usize,
            column,
        })
    }

    /// Returns the number of panels: limbs × columns.
    pub fn panels(&self) -> usize {
        self.parameters.limb_count() * self.columns as usize
    }

    /// Returns the limb and column of a part, or `None` if the part is not a panel.
    pub fn panel_of(&self, part: usize) -> Option<(Limb, Column)> {
        let columns = self.columns as usize;
        let (limb, column) = (Limb(part / columns), Column((part % columns) as u32));
        (limb.0 < self.parameters.limb_count()).then_some((limb, column))
    }

    /// Returns the name of a part for error messages, with a trailing "of".
    pub fn part_name(&self, part: usize) -> String {
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

    /// Returns the full name of a part for error messages, with its segment and dataset.
    pub(crate) fn subject(&self, part: usize) -> String {
        let Self {
            number, dataset, ..
        } = self;
        format!(
            "{}segment {number} of dataset {dataset}",
            self.part_name(part)
        )
    }
}
