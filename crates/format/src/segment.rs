//! Segment files: up to 64 blocks of all columns. First the panels, limb-major, then the sealed cells, a part for
//! each column; each part with its digest. Row ids are sealed like the cells of further columns, one for each bit.
//!
//! `docs/formats.md` has the bytes. A file under its final name is complete: it is
//! written under a temporary name, header last, synced and renamed. Every byte of it is covered: the
//! header by its own digest, parts by digests in the header, and all padding is zero.

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
/// Bits of a cell: whether a transaction has an item.
const CELL_BITS: u32 = 1;

/// What a segment holds, without the residues.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SegmentDescription {
    /// The dataset that the segment belongs to.
    pub dataset: DatasetId,
    /// Its number, which no other segment of the dataset ever has.
    pub number: u32,
    /// The position of its first block in the version that it was written for.
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
    /// Its blocks.
    pub fn range(&self) -> Blocks {
        Blocks::from_start(self.first_block, self.seeds.len() as u64)
    }

    /// BLAKE3 of the concatenated mask seeds. They are drawn afresh for every segment, so no two segments share it.
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

    /// The index of a panel in the segment: limb-major.
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

    /// The index of a column's sealed cells in the segment; columns of row ids follow those of items.
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

    /// The number of panels: of all limbs and columns.
    pub fn panels(&self) -> usize {
        self.parameters.limb_count() * self.columns as usize
    }

    /// The limb and the column of a part that is a panel.
    pub fn panel_of(&self, part: usize) -> Option<(Limb, Column)> {
        let columns = self.columns as usize;
        let (limb, column) = (Limb(part / columns), Column((part % columns) as u32));
        (limb.0 < self.parameters.limb_count()).then_some((limb, column))
    }

    /// What errors call a part of the segment.
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

    /// What errors call a part.
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
