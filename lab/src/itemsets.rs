//! All itemsets of one length, and the work for their moments.

use oboro_mining::Itemset;
use oboro_ring::Column;
use oboro_ring::moment::{Itemsets, MomentIndex, RequestError};

/// The sets of `length` numbers below `items`, in lexicographic order.
pub struct Combinations {
    items: u32,
    next: Option<Vec<u32>>,
}

impl Combinations {
    pub fn new(items: u32, length: usize) -> Self {
        let first = (0..length as u32).collect();
        Self {
            items,
            next: (length <= items as usize).then_some(first),
        }
    }
}

impl Iterator for Combinations {
    type Item = Itemset;

    fn next(&mut self) -> Option<Itemset> {
        let present = self.next.take()?;
        let length = present.len();
        let highest = |place: usize| self.items - (length - place) as u32;
        self.next = (0..length)
            .rfind(|&place| present[place] < highest(place))
            .map(|place| {
                let kept = present[..place].iter().copied();
                kept.chain(present[place] + 1..).take(length).collect()
            });
        Some(Itemset::new(present))
    }
}

/// The multiply-adds per slot and limb for all moments: one for each node of two or more factors in
/// their trie, where the mask is one more item; sums of single items count as one.
pub fn trie_nodes(itemsets: &[Itemset], items: u32) -> Result<u64, RequestError> {
    let level = itemsets[0].len();
    let flat = itemsets.iter().flat_map(|itemset| itemset.items());
    let flat = flat.copied().map(Column);
    let index = MomentIndex::new(&Itemsets::new(level, flat.collect(), items)?);
    let path = |moment: usize| {
        let (masks, columns) = index.get(moment);
        let columns = columns.iter().copied().map(Some);
        std::iter::repeat_n(None, masks).chain(columns)
    };
    let new_nodes = |moment: usize| {
        let shared = match moment.checked_sub(1) {
            Some(before) => path(before)
                .zip(path(moment))
                .take_while(|(a, b)| a == b)
                .count(),
            None => 0,
        };
        (level - shared).min(level.max(2) - 1) as u64
    };
    Ok((0..index.len()).map(new_nodes).sum())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    fn sets(items: u32, length: usize) -> Vec<Itemset> {
        Combinations::new(items, length).collect()
    }

    #[test]
    fn combinations_are_all_and_in_order() {
        assert_eq!(
            sets(4, 2),
            [[0, 1], [0, 2], [0, 3], [1, 2], [1, 3], [2, 3]].map(Itemset::new)
        );
        assert_eq!(sets(3, 3), [Itemset::new([0, 1, 2])]);
        let many = sets(18, 4);
        assert_eq!(many.len(), 3060);
        assert!(many.is_sorted());
    }

    #[test]
    fn pairs_take_a_multiply_add_a_moment() {
        assert_eq!(trie_nodes(&sets(18, 2), 18).unwrap(), 153 + 18 + 1);
        assert_eq!(trie_nodes(&sets(18, 1), 18).unwrap(), 18 + 1);
    }

    #[test]
    fn longer_itemsets_take_one_for_each_distinct_prefix_too() {
        // The mask is item 9 here: every multiset of three factors, and their prefixes of two.
        let mut nodes = BTreeSet::new();
        for set in sets(5, 3) {
            for chosen in 0..8u32 {
                let items = (0..3).filter(|place| chosen >> place & 1 == 1);
                let columns: Vec<u32> = items.map(|place| set.items()[place]).collect();
                let path = [vec![9; 3 - columns.len()], columns].concat();
                nodes.insert(path[..2].to_vec());
                nodes.insert(path);
            }
        }
        assert_eq!(trie_nodes(&sets(5, 3), 5).unwrap(), nodes.len() as u64);
    }
}
