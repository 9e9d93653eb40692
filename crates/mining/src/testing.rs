//! Shared test code: arbitrary transactions and a brute-force miner.

use proptest::prelude::*;

use crate::frequent::FrequentItemsets;
use crate::itemset::{FrequentItemset, Itemset};
use oboro_input::transactions::Transactions;

/// Generates up to `transactions` baskets over exactly `items` items, dense and sparse.
pub fn arbitrary_transactions(
    items: u32,
    transactions: usize,
) -> impl Strategy<Value = Transactions> {
    let names: Vec<String> = (0..items).map(|item| item.to_string()).collect();
    let basket = prop::collection::vec(0..items, 0..=items as usize);
    prop::collection::vec(basket, 0..=transactions)
        .prop_map(move |baskets| Transactions::from_baskets(names.clone(), baskets).unwrap())
}

/// Counts the transactions that contain `itemset`, by checking each.
pub fn brute_force_support(data: &Transactions, itemset: &Itemset) -> u64 {
    let contains = |basket: &[u32]| itemset.items().iter().all(|item| basket.contains(item));
    data.iter().filter(|basket| contains(basket)).count() as u64
}

/// Finds all frequent itemsets by trying every subset of the items, in result order.
pub fn brute_force(data: &Transactions, threshold: u64, max_len: usize) -> Vec<FrequentItemset> {
    let items = data.item_count();
    let mut found: Vec<FrequentItemset> = (1u32..1 << items)
        .filter(|mask| mask.count_ones() as usize <= max_len)
        .map(|mask| {
            (0..items as u32)
                .filter(|item| mask >> item & 1 == 1)
                .collect()
        })
        .map(|itemset: Itemset| FrequentItemset {
            support: brute_force_support(data, &itemset),
            itemset,
        })
        .filter(|found| found.support >= threshold)
        .collect();
    found.sort_by_key(|found| (found.itemset.len(), found.itemset.clone()));
    found
}

/// Itemsets with these supports, of ten transactions.
pub fn found(sets: &[(&[u32], u64)]) -> FrequentItemsets {
    let found = sets.iter().map(|&(items, support)| FrequentItemset {
        itemset: Itemset::new(items),
        support,
    });
    FrequentItemsets::collect(10, 2, usize::MAX, found)
}
