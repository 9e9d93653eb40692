//! Limits of collections.

/// Largest number of haplotypes of a panel.
pub const MAX_HAPLOTYPES: u32 = 1 << 24;
/// Largest number of bases of a reference, over all sequences.
pub const MAX_BASES: u32 = 1 << 26;
