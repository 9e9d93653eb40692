//! The reference: supports counted here, on bitmaps, by code that shares nothing with the product but the reader of
//! files.

use oboro_input::{ReadOptions, Transactions, read_path};
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Supports by itemset; the names of an itemset are sorted as strings.
pub type Supports = BTreeMap<Vec<String>, u64>;

/// Transactions as one bitmap per item.
pub struct Plaintext {
    transactions: usize,
    items: Vec<(String, Vec<u64>)>,
}

impl Plaintext {
    pub fn read(path: &Path) -> Self {
        Self::new(&read_path(path, &ReadOptions::default()).unwrap().0)
    }

    fn new(transactions: &Transactions) -> Self {
        let words = transactions.len().div_ceil(64);
        let mut items: Vec<(String, Vec<u64>)> = transactions
            .names()
            .iter()
            .map(|name| (name.clone(), vec![0; words]))
            .collect();
        for (row, basket) in transactions.iter().enumerate() {
            for &item in basket {
                items[item as usize].1[row / 64] |= 1 << (row % 64);
            }
        }
        items.sort();
        Self {
            transactions: transactions.len(),
            items,
        }
    }

    pub fn transactions(&self) -> usize {
        self.transactions
    }

    /// All itemsets of up to `max_len` items with at least `min_support` transactions.
    pub fn frequent(&self, min_support: u64, max_len: usize) -> Supports {
        let mut found = Supports::new();
        self.extend(&mut Vec::new(), None, 0, min_support, max_len, &mut found);
        found
    }

    /// Adds to `found` all extensions of `itemset`, whose transactions are `rows`, by items from `next` on.
    fn extend(
        &self,
        itemset: &mut Vec<String>,
        rows: Option<&[u64]>,
        next: usize,
        min_support: u64,
        max_len: usize,
        found: &mut Supports,
    ) {
        if itemset.len() == max_len {
            return;
        }
        for (place, (name, bitmap)) in self.items.iter().enumerate().skip(next) {
            let both: Vec<u64> = match rows {
                None => bitmap.clone(),
                Some(rows) => rows.iter().zip(bitmap).map(|(a, b)| a & b).collect(),
            };
            let support = both.iter().map(|word| u64::from(word.count_ones())).sum();
            if support >= min_support {
                itemset.push(name.clone());
                found.insert(itemset.clone(), support);
                self.extend(itemset, Some(&both), place + 1, min_support, max_len, found);
                itemset.pop();
            }
        }
    }
}

/// The supports in the output of `oboro mine --json`; none may occur twice.
pub fn supports(mined: &Value) -> Supports {
    let mut found = Supports::new();
    for itemset in mined["itemsets"].as_array().unwrap() {
        let mut items: Vec<String> = itemset["items"]
            .as_array()
            .unwrap()
            .iter()
            .map(|name| name.as_str().unwrap().to_owned())
            .collect();
        items.sort();
        let twice = found.insert(items, itemset["support"].as_u64().unwrap());
        assert_eq!(twice, None, "{itemset}");
    }
    found
}

/// Itemsets of each length from 1 to `max_len`.
pub fn by_length(supports: &Supports, max_len: usize) -> Vec<usize> {
    let mut counts = vec![0; max_len];
    for itemset in supports.keys() {
        counts[itemset.len() - 1] += 1;
    }
    counts
}

/// A file of known data, if this checkout has it; otherwise prints that it is missing.
pub fn known_data(file: &str) -> Option<PathBuf> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../../shared/data")
        .join(file);
    if path.exists() {
        return Some(path.canonicalize().unwrap());
    }
    println!("skipped: there is no {}", path.display());
    None
}

/// Pseudo-random transactions, the same each time: item `i` of `items` is in about `density` of 256 transactions.
pub fn random_baskets(transactions: u64, items: u32, density: u64) -> Vec<Vec<u32>> {
    let basket = |row: u64| {
        (0..items)
            .filter(|&item| mix(row << 32 | u64::from(item)) & 255 < density)
            .collect()
    };
    (0..transactions).map(basket).collect()
}

/// The output function of SplitMix64 (Steele, Lea, Flood 2014).
fn mix(seed: u64) -> u64 {
    let mut z = seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}
