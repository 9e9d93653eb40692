//! Residues in memory, placed for the kernels.
//!
//! A panel begins on a cache line that its column chooses, so that equal positions of many columns,
//! which kernels read together, do not compete for the same cache sets (`oboro_fcmalloc::Arena`).
//! Written once, then shared and only read.

use oboro_fcmalloc::{Arena, ArenaError};
use std::ops::Deref;

/// `blocks × N` residues of one (limb, column), or of one limb of the mask, of a segment:
/// evaluation form, block after block, 64-byte aligned, below 2^28.
pub struct Panel(oboro_fcmalloc::Panel);

impl Panel {
    /// The bytes of an arena that a panel of `len` residues takes.
    pub const fn footprint(len: usize) -> usize {
        oboro_fcmalloc::Panel::footprint(len)
    }

    /// A panel of `len` residues written by `fill`, placed as the `position`-th of those
    /// that are read together.
    pub fn build<E: From<ArenaError>>(
        arena: &Arena,
        len: usize,
        position: usize,
        fill: impl FnOnce(&mut [u32]) -> Result<(), E>,
    ) -> Result<Self, E> {
        let mut residues = arena.panel(len, position)?;
        fill(&mut residues)?;
        Ok(Self(residues))
    }

    /// The `n` residues of the `i`-th block of the segment. Panics beyond the last block.
    pub fn block(&self, i: usize, n: usize) -> &[u32] {
        &self[i * n..(i + 1) * n]
    }
}

impl Deref for Panel {
    type Target = [u32];

    fn deref(&self) -> &[u32] {
        &self.0
    }
}

impl std::fmt::Debug for Panel {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Panel({} residues)", self.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::StoreError;
    use oboro_fcmalloc::Backing;
    use std::collections::HashSet;

    fn arena(panels: usize, len: usize) -> Arena {
        Arena::reserve(panels * Panel::footprint(len), Backing::default()).unwrap()
    }

    #[test]
    fn panels_are_aligned_and_staggered() {
        let arena = arena(64, 2048);
        let panels: Vec<Panel> = (0..64)
            .map(|column| {
                Panel::build(&arena, 2048, column, |out| {
                    out.fill(column as u32);
                    Ok::<_, StoreError>(())
                })
                .unwrap()
            })
            .collect();
        for (column, panel) in panels.iter().enumerate() {
            assert_eq!(panel.len(), 2048);
            assert_eq!(panel.as_ptr().addr() % 64, 0);
            assert!(panel.iter().all(|&r| r == column as u32));
            assert_eq!(panel.block(1, 1024), &panel[1024..]);
        }
        let lines: HashSet<usize> = panels.iter().map(|p| p.as_ptr().addr() % 4096).collect();
        assert_eq!(lines.len(), 64);
    }

    #[test]
    fn a_failed_fill_makes_no_panel_and_takes_no_room() {
        let arena = arena(1, 16);
        let misuse = || StoreError::Misuse { what: "no".into() };
        let failed = Panel::build(&arena, 16, 0, |_| Err(misuse()));
        assert!(matches!(failed, Err(StoreError::Misuse { .. })));
        let _filled = Panel::build(&arena, 16, 0, |_| Ok::<_, StoreError>(())).unwrap();
        let full = Panel::build(&arena, 16, 0, |_| Ok::<_, StoreError>(()));
        assert!(matches!(full, Err(StoreError::Memory { .. })));
    }
}
