//! Itemset: a strictly ascending list of item numbers.
//!
//! The constructors establish the order. Equality, hashing, prefixes and subset tests are those of the sorted list.

use oboro_input::transactions::compare_names;
use std::borrow::Borrow;
use std::fmt;

/// Set of items as their numbers, strictly ascending.
///
/// Itemsets compare lexicographically; results list shorter itemsets first (see [`crate::frequent`]). An itemset
/// hashes and compares as `[u32]`, and maps can be searched by a sorted slice.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Itemset(Vec<u32>);

/// Itemset and the number of transactions that contain it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct FrequentItemset {
    /// The items.
    pub itemset: Itemset,
    /// The number of transactions that contain all of them.
    pub support: u64,
}

impl Itemset {
    /// Creates the itemset of `items`, in any order; repeated items count once.
    pub fn new(items: impl Into<Vec<u32>>) -> Self {
        let mut items = items.into();
        items.sort_unstable();
        items.dedup();
        Itemset(items)
    }

    /// Creates the itemset of a single item.
    pub fn single(item: u32) -> Self {
        Itemset(vec![item])
    }

    /// Returns the items, strictly ascending.
    pub fn items(&self) -> &[u32] {
        &self.0
    }

    /// Returns the number of items.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Returns true if the itemset is empty.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns true if `item` is a member.
    pub fn contains(&self, item: u32) -> bool {
        self.0.binary_search(&item).is_ok()
    }

    /// Returns true if all of its items are in `other`.
    pub fn is_subset_of(&self, other: &Self) -> bool {
        self.0.iter().all(|&item| other.contains(item))
    }

    /// Returns this itemset without the item at `position` in ascending order.
    ///
    /// # Panics
    /// If `position` is not below [`len`](Self::len).
    pub fn without_position(&self, position: usize) -> Itemset {
        let mut items = Vec::with_capacity(self.0.len() - 1);
        items.extend_from_slice(&self.0[..position]);
        items.extend_from_slice(&self.0[position + 1..]);
        Itemset(items)
    }

    /// Returns the subsets that lack one item each, ordered by the missing item.
    pub fn immediate_subsets(&self) -> impl Iterator<Item = Itemset> + '_ {
        (0..self.len()).map(|position| self.without_position(position))
    }

    /// Returns this itemset with another item, which must be larger than all others.
    pub(crate) fn extended_by(&self, item: u32) -> Itemset {
        debug_assert!(self.0.last().is_none_or(|&last| last < item));
        let mut items = Vec::with_capacity(self.0.len() + 1);
        items.extend_from_slice(&self.0);
        items.push(item);
        Itemset(items)
    }

    /// Splits into the items at the set bits of `mask` and those at the clear ones.
    pub fn split(&self, mask: u64) -> (Itemset, Itemset) {
        let mut chosen = Vec::with_capacity(mask.count_ones() as usize);
        let mut others = Vec::with_capacity(self.len().saturating_sub(chosen.capacity()));
        for (position, &item) in self.0.iter().enumerate() {
            if mask >> position & 1 == 1 {
                chosen.push(item);
            } else {
                others.push(item);
            }
        }
        (Itemset(chosen), Itemset(others))
    }
}

/// Item number beyond the names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "item {item} has no name: there are {items} names; use the names of the dataset that was mined"
)]
pub struct UnnamedItem {
    /// The item number.
    pub item: u32,
    /// The number of names.
    pub items: usize,
}

/// Returns the names of `itemset`'s items, in name order.
///
/// # Errors
/// An item without a name.
pub fn name_items(itemset: &Itemset, names: &[String]) -> Result<Vec<String>, UnnamedItem> {
    let items = names.len();
    let name = |&item: &u32| {
        let name = names.get(item as usize).cloned();
        name.ok_or(UnnamedItem { item, items })
    };
    let mut named = (itemset.items().iter())
        .map(name)
        .collect::<Result<Vec<String>, _>>()?;
    named.sort_by(|a, b| compare_names(a, b));
    Ok(named)
}

impl From<Vec<u32>> for Itemset {
    fn from(items: Vec<u32>) -> Self {
        Itemset::new(items)
    }
}

impl FromIterator<u32> for Itemset {
    fn from_iter<I: IntoIterator<Item = u32>>(items: I) -> Self {
        Itemset::new(items.into_iter().collect::<Vec<_>>())
    }
}

impl AsRef<[u32]> for Itemset {
    fn as_ref(&self) -> &[u32] {
        &self.0
    }
}

impl Borrow<[u32]> for Itemset {
    fn borrow(&self) -> &[u32] {
        &self.0
    }
}

impl fmt::Display for Itemset {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("{")?;
        for (position, item) in self.0.iter().enumerate() {
            let separator = if position == 0 { "" } else { ", " };
            write!(f, "{separator}{item}")?;
        }
        f.write_str("}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashMap;

    #[test]
    fn items_are_sorted_and_counted_once() {
        assert_eq!(Itemset::new([5, 1, 5, 3]).items(), [1, 3, 5]);
        assert_eq!(Itemset::new([5, 1]).to_string(), "{1, 5}");
    }

    #[test]
    fn itemsets_are_found_by_a_sorted_slice() {
        let map = HashMap::from([(Itemset::new([2, 1]), 7)]);
        assert_eq!(map.get(&[1, 2][..]), Some(&7));
    }

    #[test]
    fn immediate_subsets_lack_one_item_each() {
        let subsets: Vec<_> = Itemset::new([1, 2, 3]).immediate_subsets().collect();
        assert_eq!(
            subsets,
            [
                Itemset::new([2, 3]),
                Itemset::new([1, 3]),
                Itemset::new([1, 2])
            ]
        );
        assert_eq!(Itemset::default().immediate_subsets().count(), 0);
    }
}
