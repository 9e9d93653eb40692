//! Eclat (Zaki, IEEE TKDE 2000): finds frequent itemsets depth first on bit columns.
//!
//! Tests compare [`apriori`](mod@crate::apriori) and encrypted counting with it, so only the bit columns are shared
//! with them. It extends an itemset by intersecting columns instead of generating candidates.

use std::num::NonZeroUsize;

use crate::bitmap::{Bitmap, count_ones, intersection};
use crate::frequent::FrequentItemsets;
use crate::itemset::{FrequentItemset, Itemset};
use oboro_input::transactions::{MinSupport, Transactions};

/// Finds all itemsets of at most `max_len` items (`None`: of any length) that
/// have at least `min_support` among `transactions`.
pub fn eclat(
    transactions: &Transactions,
    min_support: MinSupport,
    max_len: Option<NonZeroUsize>,
) -> FrequentItemsets {
    let total = transactions.len() as u64;
    let threshold = min_support.threshold(total);
    let mut frequent_items = Vec::new();
    for (item, support) in (0u32..).zip(transactions.item_supports()) {
        if support >= threshold {
            frequent_items.push((item, support));
        }
    }
    let bitmap = Bitmap::of_items(transactions, frequent_items.iter().map(|&(item, _)| item));
    let class: Vec<Member> = frequent_items
        .into_iter()
        .map(|(item, support)| Member {
            item,
            support,
            bits: bitmap.column(item).unwrap_or_default().to_vec(),
        })
        .collect();
    let mut search = Search {
        threshold,
        max_len: max_len.map_or(usize::MAX, NonZeroUsize::get),
        prefix: Vec::new(),
        found: Vec::new(),
    };
    search.descend(class);
    FrequentItemsets::collect(total, threshold, search.max_len, search.found)
}

/// Frequent extension of the current prefix by one item.
struct Member {
    item: u32,
    support: u64,
    /// The transactions that contain the prefix and the item.
    bits: Vec<u64>,
}

struct Search {
    threshold: u64,
    max_len: usize,
    prefix: Vec<u32>,
    found: Vec<FrequentItemset>,
}

impl Search {
    /// Reports each member of the prefix's class and searches below it. Members
    /// are ascending by item; each is extended by those after it.
    fn descend(&mut self, class: Vec<Member>) {
        for (place, member) in class.iter().enumerate() {
            self.prefix.push(member.item);
            self.found.push(FrequentItemset {
                itemset: Itemset::new(self.prefix.as_slice()),
                support: member.support,
            });
            if self.prefix.len() < self.max_len {
                let extensions = class[place + 1..]
                    .iter()
                    .filter_map(|other| self.extend(member, other))
                    .collect();
                self.descend(extensions);
            }
            self.prefix.pop();
        }
    }

    fn extend(&self, member: &Member, other: &Member) -> Option<Member> {
        let bits = intersection(&member.bits, &other.bits);
        let support = count_ones(&bits);
        (support >= self.threshold).then_some(Member {
            item: other.item,
            support,
            bits,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{arbitrary_transactions, brute_force};
    use proptest::prelude::*;

    #[test]
    fn a_support_of_no_transactions_is_never_frequent() {
        let names = vec!["a".to_owned(), "b".to_owned()];
        let data = Transactions::from_baskets(names, [vec![0], vec![]]).unwrap();
        let found = eclat(&data, MinSupport::Count(1), None);
        let listed: Vec<_> = found
            .iter()
            .map(|f| (f.itemset.items(), f.support))
            .collect();
        assert_eq!(listed, [(&[0][..], 1)]);
    }

    proptest! {
        #[test]
        fn eclat_agrees_with_brute_force(
            data in arbitrary_transactions(7, 70),
            threshold in 1u64..20,
            max_len in 1usize..9,
        ) {
            let limit = NonZeroUsize::new(max_len);
            let found = eclat(&data, MinSupport::Count(threshold), limit);
            let expected = brute_force(&data, threshold, max_len);
            prop_assert_eq!(found.iter().cloned().collect::<Vec<_>>(), expected);
        }
    }
}
