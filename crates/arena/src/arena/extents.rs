//! Free extents of a region, coalesced with their neighbours.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

/// Disjoint extents, no two of them adjacent.
#[derive(Default)]
pub(super) struct Extents {
    /// End of each extent, by start.
    ends: BTreeMap<usize, usize>,
    /// Each extent as (size, start).
    sizes: BTreeSet<(usize, usize)>,
}

impl Extents {
    /// Takes `size` bytes and returns their start: an extent of exactly this size, or the front of the smallest that is
    /// large enough.
    pub(super) fn take(&mut self, size: usize) -> Option<usize> {
        let (found, start) = *self.sizes.range((size, 0)..).next()?;
        self.remove(&(start..start + found));
        if found > size {
            self.insert(start + size..start + found);
        }
        Some(start)
    }

    /// Adds an extent that overlaps no other. Returns the free extent that then contains it.
    pub(super) fn give(&mut self, part: Range<usize>) -> Range<usize> {
        let mut whole = part;
        let before = self.ends.range(..whole.start).next_back();
        if let Some((&start, _)) = before.filter(|&(_, &end)| end == whole.start) {
            self.remove(&(start..whole.start));
            whole.start = start;
        }
        if let Some(&end) = self.ends.get(&whole.end) {
            self.remove(&(whole.end..end));
            whole.end = end;
        }
        self.insert(whole.clone());
        whole
    }

    /// Removes an extent, which must be in here exactly.
    pub(super) fn remove(&mut self, part: &Range<usize>) {
        self.ends.remove(&part.start);
        self.sizes.remove(&(part.len(), part.start));
    }

    /// The total size.
    pub(super) fn bytes(&self) -> usize {
        self.sizes.iter().map(|(size, _)| size).sum()
    }

    fn insert(&mut self, part: Range<usize>) {
        self.sizes.insert((part.len(), part.start));
        self.ends.insert(part.start, part.end);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn an_exact_size_is_preferred_to_a_larger_one_and_that_to_a_still_larger_one() {
        let mut free = Extents::default();
        for part in [0..30, 40..50, 60..80] {
            free.give(part);
        }
        assert_eq!(free.take(10), Some(40));
        assert_eq!(free.take(10), Some(60));
        assert_eq!(free.take(10), Some(70));
        assert_eq!(free.take(31), None);
        assert_eq!(free.take(30), Some(0));
        assert_eq!(free.bytes(), 0);
    }

    proptest! {
        #[test]
        fn parts_never_overlap_and_join_to_the_whole(sizes in prop::collection::vec(1usize..40, 1..60)) {
            const WHOLE: Range<usize> = 0..400;
            let mut free = Extents::default();
            free.give(WHOLE);
            let mut taken: Vec<Range<usize>> = Vec::new();
            for (i, size) in sizes.into_iter().enumerate() {
                if let Some(start) = free.take(size) {
                    let part = start..start + size;
                    let apart = |other: &Range<usize>| part.end <= other.start || other.end <= part.start;
                    prop_assert!(part.end <= WHOLE.end && taken.iter().all(apart));
                    taken.push(part);
                }
                if i % 3 == 2 {
                    free.give(taken.swap_remove(size % taken.len()));
                }
                let in_use: usize = taken.iter().map(ExactSizeIterator::len).sum();
                prop_assert_eq!(free.bytes() + in_use, WHOLE.len());
            }
            let mut whole = 0..0;
            for part in taken {
                whole = free.give(part);
            }
            prop_assert!(whole == WHOLE || free.take(WHOLE.len()) == Some(0));
        }
    }
}
