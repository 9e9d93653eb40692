//! Residues in memory, placed for the kernels.
//!
//! Each piece of a panel begins on a cache line chosen by its column. Kernels read equal positions of many columns
//! together, which then do not compete for the same cache sets (`oboro_arena::Arena`). Panels are written once, then
//! shared and only read.

use oboro_arena::{Arena, ArenaError};
use std::collections::BTreeMap;
use std::ops::Range;

/// Panel: `blocks × N` residues of one (limb, column), or of one limb of the mask, of a segment: evaluation form, block
/// after block, below 2^28. They are contiguous or, where stripes of blocks have different homes, in several pieces,
/// each 64-byte aligned.
pub struct Panel {
    pieces: Vec<Piece>,
}

struct Piece {
    /// Number of the panel's residues before it.
    start: usize,
    residues: oboro_arena::ArenaBlock,
}

impl Panel {
    /// Returns the bytes of an arena that a panel of `len` residues in one piece takes.
    pub const fn footprint(len: usize) -> usize {
        oboro_arena::ArenaBlock::footprint(len)
    }

    /// Creates a panel of `len` residues in one piece, written by `fill` and placed as the `position`-th of those that
    /// are read together.
    pub fn build<E: From<ArenaError>>(
        arena: &Arena,
        len: usize,
        position: usize,
        fill: impl FnOnce(&mut [u32]) -> Result<(), E>,
    ) -> Result<Self, E> {
        Self::build_in_pieces([(arena, len)], position, |mut pieces| fill(pieces[0]))
    }

    /// As [`build`](Self::build), in pieces, each of the given number of residues in its own arena. The panel is
    /// dropped unless `fill`, which gets all pieces, succeeds.
    pub(crate) fn build_in_pieces<'a, E: From<ArenaError>>(
        pieces: impl IntoIterator<Item = (&'a Arena, usize)>,
        position: usize,
        fill: impl FnOnce(Vec<&mut [u32]>) -> Result<(), E>,
    ) -> Result<Self, E> {
        let pieces = pieces.into_iter();
        Self::of(pieces.map(|(arena, len)| arena.block(len, position)))?.filled(fill)
    }

    /// Allocates zeros wherever memory is free. Each stretch of blocks of `degree` residues is one piece in its node's
    /// arena, or else in another arena. Failing that, it is split into as few pieces as possible at any position,
    /// which together take no more than one piece.
    pub(crate) fn where_it_fits(
        arenas: &[Arena],
        stretches: &[(usize, usize)],
        degree: usize,
        position: usize,
    ) -> Result<Self, ArenaError> {
        let mut panel = Self { pieces: Vec::new() };
        for &(home, blocks) in stretches {
            let (before, from_home) = arenas.split_at(home);
            let arenas: Vec<&Arena> = from_home.iter().chain(before).collect();
            panel.add_where_it_fits(&arenas, blocks, degree, Some(position))?;
        }
        Ok(panel)
    }

    fn add_where_it_fits(
        &mut self,
        arenas: &[&Arena],
        blocks: usize,
        degree: usize,
        position: Option<usize>,
    ) -> Result<(), ArenaError> {
        let mut full = None;
        for arena in arenas {
            let len = blocks * degree;
            let piece = match position {
                Some(position) => arena.block(len, position),
                None => arena.unplaced_block(len),
            };
            match piece {
                Ok(residues) => {
                    self.add(residues);
                    return Ok(());
                }
                Err(error @ ArenaError::Full { .. }) => full = Some(error),
                Err(error) => return Err(error),
            }
        }
        let half = blocks.div_ceil(2);
        match full {
            Some(error) if half == blocks => Err(error),
            _ => [half, blocks - half]
                .into_iter()
                .try_for_each(|blocks| self.add_where_it_fits(arenas, blocks, degree, None)),
        }
    }

    fn add(&mut self, residues: oboro_arena::ArenaBlock) {
        let last = self.pieces.last();
        let start = last.map_or(0, |last| last.start + last.residues.len());
        self.pieces.push(Piece { start, residues });
    }

    fn of(
        pieces: impl Iterator<Item = Result<oboro_arena::ArenaBlock, ArenaError>>,
    ) -> Result<Self, ArenaError> {
        let mut panel = Self { pieces: Vec::new() };
        for residues in pieces {
            panel.add(residues?);
        }
        Ok(panel)
    }

    /// Fills all pieces by `fill`, and returns the panel if that succeeds.
    pub(crate) fn filled<E>(
        mut self,
        fill: impl FnOnce(Vec<&mut [u32]>) -> Result<(), E>,
    ) -> Result<Self, E> {
        fill(self.pieces.iter_mut().map(|p| &mut *p.residues).collect())?;
        Ok(self)
    }

    /// Returns the residues of these blocks, counted from the segment's first, of `degree` residues each. The blocks of
    /// one stripe are contiguous.
    ///
    /// # Panics
    /// Panics if they do not all lie in one piece.
    pub fn blocks(&self, blocks: Range<usize>, degree: usize) -> &[u32] {
        let start = blocks.start * degree;
        let later = self.pieces.partition_point(|piece| piece.start <= start);
        let piece = &self.pieces[later - 1];
        &piece.residues[start - piece.start..blocks.end * degree - piece.start]
    }

    /// Returns the bytes in physical memory on each NUMA node, in whole pages, of the pieces that begin within these
    /// blocks of `degree` residues.
    pub(crate) fn resident_by_node(
        &self,
        blocks: Range<usize>,
        degree: usize,
    ) -> Result<BTreeMap<u32, usize>, ArenaError> {
        let residues = blocks.start * degree..blocks.end * degree;
        let mut resident = BTreeMap::new();
        let within = |piece: &&Piece| residues.contains(&piece.start);
        for piece in self.pieces.iter().filter(within) {
            for (node, bytes) in piece.residues.resident_by_node()? {
                *resident.entry(node).or_default() += bytes;
            }
        }
        Ok(resident)
    }

    /// Returns all residues, piece by piece in order.
    pub fn pieces(&self) -> impl Iterator<Item = &[u32]> {
        self.pieces.iter().map(|piece| &*piece.residues)
    }
}

impl std::fmt::Debug for Panel {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let residues: usize = self.pieces().map(<[u32]>::len).sum();
        write!(f, "Panel({residues} residues)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::ResidencyError;
    use oboro_arena::Backing;
    use oboro_format::FormatError;
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
                    Ok::<_, ResidencyError>(())
                })
                .unwrap()
            })
            .collect();
        for (column, panel) in panels.iter().enumerate() {
            let residues = panel.blocks(0..2, 1024);
            assert_eq!(residues.as_ptr().addr() % 64, 0);
            assert_eq!(residues, [column as u32; 2048]);
            assert_eq!(panel.blocks(1..2, 1024), &residues[1024..]);
        }
        let lines: HashSet<usize> = panels
            .iter()
            .map(|panel| panel.blocks(0..1, 1024).as_ptr().addr() % 4096)
            .collect();
        assert_eq!(lines.len(), 64);
    }

    #[test]
    fn blocks_are_found_in_their_piece() {
        let arenas = [arena(2, 48), arena(1, 32)];
        let pieces = [(&arenas[0], 48), (&arenas[1], 32), (&arenas[0], 16)];
        let panel = Panel::build_in_pieces(pieces, 0, |pieces| {
            for (i, residue) in (0..).zip(pieces.into_iter().flatten()) {
                *residue = i;
            }
            Ok::<_, ResidencyError>(())
        });
        let panel = panel.unwrap();
        assert!(panel.pieces().flatten().copied().eq(0..96));
        for blocks in [0..3, 1..2, 2..3, 3..5, 4..5, 5..6] {
            let residues = (16 * blocks.start as u32..16 * blocks.end as u32).collect::<Vec<_>>();
            assert_eq!(panel.blocks(blocks, 16), residues);
        }
    }

    #[test]
    fn a_panel_takes_the_room_that_others_left() {
        // Full of panels of 16 blocks, every second one of which is freed.
        let arena = arena(8, 16 * 32);
        let small = || Panel::build(&arena, 16 * 32, 0, |_| Ok::<_, ResidencyError>(())).ok();
        let all: Vec<Panel> = std::iter::from_fn(small).collect();
        let kept: Vec<Panel> = all.into_iter().step_by(2).collect();
        let counting = |pieces: Vec<&mut [u32]>| {
            for (i, residue) in (0..).zip(pieces.into_iter().flatten()) {
                *residue = i;
            }
            Ok::<_, ResidencyError>(())
        };
        let arenas = std::slice::from_ref(&arena);
        let where_it_fits = |blocks| Panel::where_it_fits(arenas, &[(0, blocks)], 32, 0);
        let large = where_it_fits(64).unwrap().filled(counting).unwrap();
        assert!(large.pieces().count() > 1);
        assert!(large.pieces().flatten().copied().eq(0..64 * 32));
        assert_eq!(large.blocks(63..64, 32)[0], 63 * 32);
        drop((kept, large));
        assert_eq!(where_it_fits(64).unwrap().pieces().count(), 1);
        let beyond = where_it_fits(1 << 20);
        assert!(matches!(beyond, Err(ArenaError::Full { .. })));
    }

    #[test]
    fn stretches_lie_at_home_or_where_there_is_room() {
        let arenas = [(); 3].map(|()| arena(4, 16));
        let held = |arena: &Arena, panel: &Panel| {
            let within = |piece: &&Piece| arena.opened().contains(&piece.residues.as_ptr().cast());
            panel.pieces.iter().filter(within).count()
        };
        let build =
            |stretches: &[(usize, usize)]| Panel::where_it_fits(&arenas, stretches, 16, 0).unwrap();
        let panel = build(&[(2, 1), (0, 1), (2, 1)]);
        assert_eq!(
            arenas.each_ref().map(|arena| held(arena, &panel)),
            [1, 0, 2]
        );
        // The home of the first four has free memory for two more.
        let others = [(); 4].map(|()| build(&[(2, 1)]));
        let at_home: usize = others.iter().map(|other| held(&arenas[0], other)).sum();
        assert_eq!(at_home, 2);
        drop((panel, others));
        assert_eq!(held(&arenas[1], &build(&[(1, 4)])), 1);
    }

    #[test]
    #[should_panic]
    fn blocks_of_two_pieces_are_not_one_slice() {
        let arena = arena(2, 16);
        let panel = Panel::build_in_pieces([(&arena, 16), (&arena, 16)], 0, |_| {
            Ok::<_, ResidencyError>(())
        });
        panel.unwrap().blocks(0..2, 16);
    }

    #[test]
    fn a_failed_fill_makes_no_panel_and_takes_no_memory() {
        let arena = arena(1, 16);
        let misuse = || FormatError::Misuse { what: "no".into() }.into();
        let failed = Panel::build(&arena, 16, 0, |_| Err(misuse()));
        assert!(matches!(
            failed,
            Err(ResidencyError::Format(FormatError::Misuse { .. }))
        ));
        let _filled = Panel::build(&arena, 16, 0, |_| Ok::<_, ResidencyError>(())).unwrap();
        let full = Panel::build(&arena, 16, 0, |_| Ok::<_, ResidencyError>(()));
        assert!(matches!(full, Err(ResidencyError::Memory { .. })));
    }
}
