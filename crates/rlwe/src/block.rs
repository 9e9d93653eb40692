//! Residues of a block while its ciphertext is in memory.

/// Block modulo one limb: `N` residues each, in evaluation form.
#[derive(Clone, Copy)]
pub struct BlockResidues<'a> {
    /// Mask.
    pub mask: &'a [u32],
    /// Ciphertext of the columns that have fixed parts for all their pairs, in the owner's order.
    pub columns: &'a [&'a [u32]],
}
