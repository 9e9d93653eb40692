//! Limits that more than one format uses.

/// Maximum number of columns of a dataset.
pub const MAX_COLUMNS: u32 = 1 << 24;
/// Maximum number of blocks of a segment.
pub const BLOCKS_PER_SEGMENT: u32 = 64;
/// Bytes that sealing adds to the cells of a column: a nonce of 24 bytes before, a tag of 16 after.
pub const CELL_SEAL_BYTES: usize = 24 + 16;
/// Maximum number of bytes of a row id.
pub const MAX_ROW_ID_BYTES: u32 = 255;
/// Maximum number of bytes of a recovery copy.
pub const MAX_RECOVERY_BYTES: u64 = 64 << 20;
