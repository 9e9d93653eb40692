//! Supports of itemsets in a prefix tree: a node is an itemset, its children are the itemsets with one more, larger
//! item.
//!
//! Visiting a subset of an itemset takes one step in the tree and builds no itemset. Itemsets are added level by
//! level in ascending order: the children of a node are contiguous and ascending.

use crate::itemset::FrequentItemset;
use std::ops::Range;

/// Supports of the empty itemset and of every itemset added before.
#[derive(Debug)]
pub struct PrefixTree {
    /// The root (the empty itemset), then level after level.
    nodes: Vec<Node>,
}

#[derive(Debug)]
struct Node {
    /// The last item of the itemset; unused at the root.
    item: u32,
    support: u64,
    /// The indices of the children.
    children: Range<usize>,
}

const ROOT: usize = 0;

/// No node has the root as its child.
const NO_CHILDREN: Range<usize> = ROOT..ROOT;

impl PrefixTree {
    /// Creates a tree with the support of the empty itemset only: the number of `transactions`.
    pub fn new(transactions: u64) -> Self {
        let root = Node {
            item: 0,
            support: transactions,
            children: NO_CHILDREN,
        };
        PrefixTree { nodes: vec![root] }
    }

    /// Adds the next level: itemsets of one length, ascending, whose prefixes are
    /// all in the tree.
    pub fn add_level(&mut self, level: &[FrequentItemset]) {
        let mut before: (&[u32], usize) = (&[], ROOT);
        for FrequentItemset { itemset, support } in level {
            let (&item, prefix) = itemset.items().split_last().expect("the root is there");
            if prefix != before.0 {
                before = (
                    prefix,
                    self.find(prefix).expect("prefixes are added before"),
                );
            }
            let parent = before.1;
            let place = self.nodes.len();
            let children = &mut self.nodes[parent].children;
            if *children == NO_CHILDREN {
                *children = place..place;
            }
            debug_assert_eq!(children.end, place, "itemsets are ascending");
            children.end += 1;
            self.nodes.push(Node {
                item,
                support: *support,
                children: NO_CHILDREN,
            });
        }
    }

    /// Returns the support of the itemset of `items`, strictly ascending, if it is in the tree.
    pub fn support(&self, items: &[u32]) -> Option<u64> {
        self.find(items).map(|node| self.nodes[node].support)
    }

    /// Returns true if the itemset of `items`, strictly ascending, is in the tree.
    pub fn contains(&self, items: &[u32]) -> bool {
        self.find(items).is_some()
    }

    /// Writes the supports of the subsets of `items` that contain all but the last `m` of them to `supports`, of
    /// length `2^m`. A subset's index has a bit set for each of the `m` items that it contains, the highest for the
    /// first. Itemsets that are not in the tree, possibly `items` itself, have support 0.
    pub fn subset_supports(&self, items: &[u32], supports: &mut [i128]) {
        let (fixed, free) = items.split_at(items.len() - supports.len().ilog2() as usize);
        match self.find(fixed) {
            Some(node) => self.descend(node, free, supports),
            None => supports.fill(0),
        }
    }

    /// Writes the supports of the itemset of `node` with each subset of the `free` items.
    fn descend(&self, node: usize, free: &[u32], supports: &mut [i128]) {
        let Some((&item, rest)) = free.split_first() else {
            supports[0] = self.nodes[node].support.into();
            return;
        };
        let (without, with) = supports.split_at_mut(supports.len() / 2);
        self.descend(node, rest, without);
        match self.child(node, item) {
            Some(child) => self.descend(child, rest, with),
            None => with.fill(0),
        }
    }

    fn find(&self, items: &[u32]) -> Option<usize> {
        (items.iter()).try_fold(ROOT, |node, &item| self.child(node, item))
    }

    fn child(&self, node: usize, item: u32) -> Option<usize> {
        let children = self.nodes[node].children.clone();
        let place = self.nodes[children.clone()].binary_search_by_key(&item, |child| child.item);
        Some(children.start + place.ok()?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::itemset::Itemset;

    fn level(itemsets: &[(&[u32], u64)]) -> Vec<FrequentItemset> {
        let frequent = |&(items, support): &(&[u32], u64)| FrequentItemset {
            itemset: Itemset::new(items),
            support,
        };
        itemsets.iter().map(frequent).collect()
    }

    fn tree() -> PrefixTree {
        let mut tree = PrefixTree::new(90);
        tree.add_level(&level(&[(&[2], 20), (&[5], 50), (&[7], 70)]));
        tree.add_level(&level(&[(&[2, 5], 25), (&[2, 7], 27), (&[5, 7], 57)]));
        tree
    }

    #[test]
    fn what_was_added_is_found() {
        let tree = tree();
        for items in [&[][..], &[2], &[7], &[2, 7], &[5, 7]] {
            assert!(tree.contains(items), "{items:?}");
        }
        for items in [&[0][..], &[3], &[8], &[7, 8], &[2, 5, 7]] {
            assert!(!tree.contains(items), "{items:?}");
        }
    }

    #[test]
    fn subsets_have_the_bits_of_their_items() {
        let mut all = [-1; 8];
        tree().subset_supports(&[2, 5, 7], &mut all);
        assert_eq!(all, [90, 70, 50, 57, 20, 27, 25, 0]);
        let mut with_the_first = [-1; 4];
        tree().subset_supports(&[2, 5, 7], &mut with_the_first);
        assert_eq!(with_the_first, [20, 27, 25, 0]);
        let mut with_an_unknown = [-1; 4];
        tree().subset_supports(&[1, 5, 7], &mut with_an_unknown);
        assert_eq!(with_an_unknown, [0; 4]);
    }
}
