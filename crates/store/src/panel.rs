//! Residues in memory, placed for the kernels.
//!
//! A panel begins on a cache line. Panels of different columns begin at different lines
//! of a 4 KiB page, so that equal positions of many columns, which kernels read together, do
//! not compete for the same cache sets. Written once, then shared and only read.

use std::ops::Deref;

const LINE_WORDS: usize = 16;
const LINES_PER_PAGE: usize = 64;
/// Odd, so that 64 neighbouring columns get 64 different lines; near 64/φ, so that few
/// neighbours are spread well too.
const STAGGER_LINES: usize = 39;

/// `blocks × N` residues of one (limb, column), or of one limb of the mask, of a segment:
/// evaluation form, block after block, 64-byte aligned, below 2^28.
pub struct Panel {
    storage: Vec<u32>,
    start: usize,
    len: usize,
}

impl Panel {
    /// A panel of `len` residues written by `fill`, placed as the `position`-th of those
    /// that are read together.
    pub fn build<E>(
        len: usize,
        position: usize,
        fill: impl FnOnce(&mut [u32]) -> Result<(), E>,
    ) -> Result<Self, E> {
        let line = position.wrapping_mul(STAGGER_LINES) % LINES_PER_PAGE;
        let mut storage = vec![0; len + LINE_WORDS * (line + LINES_PER_PAGE)];
        // Lines are counted from a page boundary where the allocation holds one within
        // reach, which is always: it is a page longer than it needs to be.
        let page = storage
            .as_ptr()
            .align_offset(LINE_WORDS * LINES_PER_PAGE * size_of::<u32>());
        let start = page + LINE_WORDS * line;
        fill(&mut storage[start..start + len])?;
        Ok(Self {
            storage,
            start,
            len,
        })
    }

    /// The `n` residues of the `i`-th block of the segment. Panics beyond the last block.
    pub fn block(&self, i: usize, n: usize) -> &[u32] {
        &self[i * n..(i + 1) * n]
    }
}

impl Deref for Panel {
    type Target = [u32];

    fn deref(&self) -> &[u32] {
        &self.storage[self.start..self.start + self.len]
    }
}

impl std::fmt::Debug for Panel {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Panel({} residues)", self.len)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;
    use std::convert::Infallible;

    #[test]
    fn panels_are_aligned_and_staggered() {
        let panels: Vec<Panel> = (0..64)
            .map(|column| {
                Panel::build(2048, column, |out| {
                    out.fill(column as u32);
                    Ok::<_, Infallible>(())
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
    fn a_failed_fill_makes_no_panel() {
        assert_eq!(Panel::build(16, 0, |_| Err("no")).unwrap_err(), "no");
    }
}
