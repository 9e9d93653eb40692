//! Where the header and the parts of a segment lie in its file.

use crate::limits::{BLOCKS_PER_SEGMENT, CELL_SEAL_BYTES, MAX_COLUMNS, MAX_ROW_ID_BYTES};
use oboro_ring::{MAX_LOG_DEGREE, MIN_LOG_DEGREE, Parameters, pack};

/// Headers and parts start at multiples of this.
pub(crate) const ALIGNMENT: u64 = 4096;
/// Header bytes before the limb primes.
pub(crate) const FIXED_HEADER: u64 = 72;
/// Bounds a header to half a gibibyte: parts of a segment.
const MAX_PARTS: u64 = 1 << 24;
/// More limbs than this are not secure at any degree that `oboro_ring` has.
const MAX_LIMBS: u32 = 64;

/// Where things lie in a segment file. Its parts are numbered: panels limb-major from 0 on, then the sealed cells
/// of each column, those of row ids last.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Layout {
    /// Bytes before the header's own digest.
    pub(crate) digested: u64,
    pub(crate) header: u64,
    pub(crate) panels: u64,
    /// The parts that are sealed cells.
    pub(crate) sealed: u64,
    /// Bytes of one panel, packed.
    pub(crate) packed: u64,
    /// Bytes of the sealed cells of one column.
    pub(crate) cells: u64,
}

impl Layout {
    /// `None` if a number is beyond what the format allows.
    pub(crate) fn new(
        log_degree: u32,
        limbs: u32,
        columns: u32,
        row_id_bytes: u32,
        blocks: u32,
    ) -> Option<Self> {
        let fits = (MIN_LOG_DEGREE..=MAX_LOG_DEGREE).contains(&log_degree)
            && (1..=MAX_LIMBS).contains(&limbs)
            && (1..=MAX_COLUMNS).contains(&columns)
            && row_id_bytes <= MAX_ROW_ID_BYTES
            && (1..=BLOCKS_PER_SEGMENT).contains(&blocks);
        if !fits {
            return None;
        }
        let panels = u64::from(limbs) * u64::from(columns);
        let sealed = u64::from(columns) + 8 * u64::from(row_id_bytes);
        let parts = panels + sealed;
        if parts > MAX_PARTS {
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

    pub(crate) fn parts(&self) -> usize {
        (self.panels + self.sealed) as usize
    }

    /// The bytes of a part without its padding.
    pub(crate) fn bytes(&self, part: usize) -> u64 {
        if (part as u64) < self.panels {
            self.packed
        } else {
            self.cells
        }
    }

    /// The bytes of a part with its padding.
    pub(crate) fn stride(&self, part: usize) -> u64 {
        self.bytes(part).next_multiple_of(ALIGNMENT)
    }

    /// Where a part begins; for the number of parts, where the file ends.
    pub(crate) fn offset(&self, part: usize) -> u64 {
        let panels = self.panels.min(part as u64);
        let cells = part as u64 - panels;
        self.header
            + panels * self.packed.next_multiple_of(ALIGNMENT)
            + cells * self.cells.next_multiple_of(ALIGNMENT)
    }

    pub(crate) fn total(&self) -> u64 {
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
pub fn full_panel_bytes(parameters: &Parameters) -> usize {
    let packed = pack::packed_len((BLOCKS_PER_SEGMENT as usize) << parameters.log_degree());
    packed.next_multiple_of(ALIGNMENT as usize)
}

/// The columns that have sealed cells: those of items, then one for each bit of a row id.
pub fn sealed_columns(columns: u32, row_id_bytes: u32) -> u32 {
    columns + 8 * row_id_bytes
}
