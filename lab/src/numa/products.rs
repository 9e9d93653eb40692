//! What the paper's caching of products and pruning of the database save, counted: how many products of ciphertexts
//! each level of Apriori takes for a block, with and without.
//!
//! A candidate of `k` items takes `k − 1` products. With the products of the level before it takes one, since all its
//! subsets were candidates there; with those of its own level only, one for each prefix that it is the first to have.

use super::paper;
use crate::itemsets::Combinations;
use crate::output::{Failure, Output};
use oboro_input::{MinSupport, ReadOptions, Transactions, read_path};
use oboro_mining::{AprioriOptions, Itemset, PlaintextCounter, SupportCounter, apriori};
use serde::Serialize;
use std::collections::BTreeSet;
use std::num::NonZeroUsize;
use std::path::Path;

/// Data sets that are counted if they are there, and the share of their transactions that makes an itemset frequent.
const FILES: [(&str, f64); 3] = [
    ("mushroom.dat.gz", 0.4),
    ("chess.dat.gz", 0.85),
    ("retail.dat.gz", 0.01),
];
/// The longest candidates: those of the papers' setting are all frequent.
const LONGEST: usize = 4;

/// One level of a run of Apriori. Products are those for one block.
#[derive(Clone, Serialize)]
pub struct Level {
    bench: &'static str,
    data: String,
    transactions: u64,
    /// Those of the whole data, and those in some candidate: the paper deletes the columns of the others.
    items: usize,
    items_in_candidates: usize,
    min_support: f64,
    length: usize,
    /// Joins of two frequent itemsets, before those with an infrequent subset are pruned.
    joined: usize,
    candidates: usize,
    products: u64,
    products_cached_within_level: u64,
    products_cached: u64,
}

/// The papers' setting, where everything is frequent, and the files that are in this directory.
pub fn measure(data: Option<&Path>, output: Output) -> Result<Vec<Level>, Failure> {
    let mut levels = all_frequent();
    for (file, min_support) in FILES {
        let path = data.map(|data| data.join(file));
        if let Some(path) = path.filter(|path| path.is_file()) {
            let (transactions, _) = read_path(&path, &ReadOptions::default())?;
            levels.extend(mined(file, &transactions, min_support)?);
        }
    }
    for level in &levels {
        output.result(level, || level.text())?;
    }
    Ok(levels)
}

/// Table 6-2 of the paper, and the longer itemsets that its caching is for.
fn all_frequent() -> Vec<Level> {
    let items = paper::ITEMS;
    let level = |length| {
        let candidates: Vec<Itemset> = Combinations::new(items, length).collect();
        Level {
            transactions: paper::TRANSACTIONS,
            items: items as usize,
            joined: candidates.len(),
            ..Level::of("papers", &candidates)
        }
    };
    (2..=LONGEST).map(level).collect()
}

fn mined(name: &str, transactions: &Transactions, min_support: f64) -> Result<Vec<Level>, Failure> {
    let mut counter = Recording {
        counter: PlaintextCounter::new(transactions),
        levels: Vec::new(),
    };
    let options = AprioriOptions::new(MinSupport::Fraction(min_support))
        .with_max_len(NonZeroUsize::new(LONGEST))
        .with_deduction(false);
    let found = apriori(&mut counter, options, |_| {})?;
    let level = |candidates: &Vec<Itemset>| {
        let level = Level::of(name, candidates);
        let before = &found.levels()[level.length - 2];
        let groups = before.chunk_by(|a, b| prefix(&a.itemset) == prefix(&b.itemset));
        Level {
            transactions: transactions.len() as u64,
            items: transactions.item_count(),
            min_support,
            joined: groups
                .map(|group| group.len() * (group.len() - 1) / 2)
                .sum(),
            ..level
        }
    };
    Ok(counter.levels.iter().map(level).collect())
}

/// All items but the last.
fn prefix(itemset: &Itemset) -> &[u32] {
    &itemset.items()[..itemset.len() - 1]
}

impl Level {
    /// Of candidates of one length, at least one.
    fn of(data: &str, candidates: &[Itemset]) -> Self {
        let length = candidates[0].len();
        let items: BTreeSet<u32> = candidates
            .iter()
            .flat_map(Itemset::items)
            .copied()
            .collect();
        let prefixes = |length: usize| {
            let prefixes: BTreeSet<&[u32]> =
                candidates.iter().map(|it| &it.items()[..length]).collect();
            prefixes.len() as u64
        };
        Self {
            bench: "numa products",
            data: data.to_owned(),
            transactions: 0,
            items: 0,
            items_in_candidates: items.len(),
            min_support: 0.0,
            length,
            joined: 0,
            candidates: candidates.len(),
            products: (candidates.len() * (length - 1)) as u64,
            products_cached_within_level: (2..=length).map(prefixes).sum(),
            products_cached: candidates.len() as u64,
        }
    }

    fn text(&self) -> String {
        format!(
            "products  {:<16}  length {}  {:>6} candidates of {} joins  {:>7} products a block, {} with a cache; {} of {} items\n",
            self.data,
            self.length,
            self.candidates,
            self.joined,
            self.products,
            self.products_cached,
            self.items_in_candidates,
            self.items,
        )
    }
}

/// Keeps the candidates that it counts.
struct Recording<'t> {
    counter: PlaintextCounter<'t>,
    levels: Vec<Vec<Itemset>>,
}

impl<'t> SupportCounter for Recording<'t> {
    type Error = <PlaintextCounter<'t> as SupportCounter>::Error;

    fn transactions(&self) -> u64 {
        self.counter.transactions()
    }

    fn item_supports(&self) -> &[u64] {
        self.counter.item_supports()
    }

    fn min_item_support(&self) -> u64 {
        self.counter.min_item_support()
    }

    fn count(&mut self, level: usize, candidates: &[Itemset]) -> Result<Vec<u64>, Self::Error> {
        self.levels.push(candidates.to_vec());
        self.counter.count(level, candidates)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cache_leaves_one_product_for_each_candidate() {
        let counts = |level: &Level| {
            (
                level.candidates,
                level.products,
                level.products_cached_within_level,
                level.products_cached,
            )
        };
        let levels = all_frequent();
        let found: Vec<_> = levels.iter().map(counts).collect();
        // Prefixes of two of 18 items: not those that end with the last item, or the last but one.
        assert_eq!(
            found,
            [
                (153, 153, 153, 153),
                (816, 1632, 136 + 816, 816),
                (3060, 9180, 120 + 680 + 3060, 3060)
            ]
        );
    }

    #[test]
    fn levels_are_those_of_apriori() {
        let baskets = [
            vec![0, 1, 2],
            vec![0, 1, 2],
            vec![0, 1],
            vec![0, 2],
            vec![3],
        ];
        let named = baskets.map(|basket| basket.iter().map(u32::to_string).collect::<Vec<_>>());
        let transactions = Transactions::from_named(named).unwrap();
        let levels = mined("these", &transactions, 0.6).unwrap();
        let counts = |level: &Level| {
            (
                level.length,
                level.items_in_candidates,
                level.joined,
                level.candidates,
            )
        };
        // 0 with 1 and 0 with 2 are in three of five, 1 with 2 in two: the triple is joined and pruned.
        assert_eq!(
            levels.iter().map(counts).collect::<Vec<_>>(),
            [(2, 3, 3, 3)]
        );
        assert_eq!(levels[0].items, 4);
    }
}
