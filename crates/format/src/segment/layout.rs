//! Positions of the header and the parts in a segment's file.

use crate::limits::{BLOCKS_PER_SEGMENT, CELL_SEAL_BYTES, MAX_COLUMNS, MAX_ROW_ID_BYTES};
use oboro_ring::{MAX_LOG_DEGREE, MIN_LOG_DEGREE, Parameters, pack};

/// Alignment of headers and parts, in bytes.
pub(crate) const ALIGNMENT: u64 = 4096;
/// Bytes of the header before the limb primes.
pub(crate) const FIXED_HEADER: u64 = 72;
/// Maximum number of parts of a segment, which bounds a header to half a gibibyte.
const MAX_PARTS: u64 = 1 << 24;
/// Maximum number of limbs: more are not secure at any degree that `oboro_ring` supports.
const MAX_LIMBS: u32 = 64;

/// Layout of a segment's file. Parts are numbered: panels limb-major from 0 on, then the sealed cells of each column,
/// those of row ids last.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Layout {
    /// Bytes of the header before its own digest.
    pub(crate) digested: u64,
    pub(crate) header: u64,
    pub(crate) panels: u64,
    /// Number of parts that are sealed cells.
    pub(crate) sealed: u64,
    /// Bytes of one panel, packed.
    pub(crate) packed: u64,
    /// Bytes of the sealed cells of one column.
    pub(crate) cells: u64,
}

impl Layout {
    /// Computes the layout; `None` if a number exceeds the format's limits.
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

    /// Returns the bytes of a part without padding.
    pub(crate) fn bytes(&self, part: usize) -> u64 {
        if (part as u64) < self.panels {
            self.packed
        } else {
            self.cells
        }
    }

    /// Returns the bytes of a part with padding.
    pub(crate) fn stride(&self, part: usize) -> u64 {
        self.bytes(part).next_multiple_of(ALIGNMENT)
    }

    /// Returns the offset of a part; for the number of parts, the end of the file.
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

/// Returns the length of a segment file; `None` if the format does not allow such a segment.
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

/// Returns the bytes, with padding, of a panel of a full segment.
pub fn full_panel_bytes(parameters: &Parameters) -> usize {
    let packed = pack::packed_len((BLOCKS_PER_SEGMENT as usize) << parameters.log_degree());
    packed.next_multiple_of(ALIGNMENT as usize)
}

/// Returns the number of columns with sealed cells: one for each item and for each bit of a row id.
pub fn sealed_columns(columns: u32, row_id_bytes: u32) -> u32 {
    columns + 8 * row_id_bytes
}
