//! Candidates of the next level: itemsets whose parts are all frequent.

use crate::itemset::{FrequentItemset, Itemset};

/// Returns the itemsets one longer than `frequent` (all of one length, ascending) whose immediate subsets are all
/// frequent, ascending; `None` if more than `limit`.
///
/// Join: two frequent itemsets that differ in the last item only. Prune: the candidate's other subsets must be
/// frequent.
///
/// # Errors
/// Errors of `go_on`, which is called for each of `frequent`.
pub fn candidates_from<E>(
    frequent: &[FrequentItemset],
    is_frequent: impl Fn(&[u32]) -> bool,
    limit: usize,
    go_on: impl Fn() -> Result<(), E>,
) -> Result<Option<Vec<Itemset>>, E> {
    let mut candidates = Vec::new();
    let mut subset = Vec::new();
    let same_prefix = |a: &FrequentItemset, b: &FrequentItemset| {
        let prefix = a.itemset.len() - 1;
        a.itemset.items()[..prefix] == b.itemset.items()[..prefix]
    };
    for group in frequent.chunk_by(same_prefix) {
        for (place, first) in group.iter().enumerate() {
            go_on()?;
            for second in &group[place + 1..] {
                let items = first.itemset.items();
                let last = second.itemset.items()[items.len() - 1];
                // Without its last or last but one item the candidate is one of the joined itemsets.
                let mut others = 0..items.len() - 1;
                let are_frequent = others.all(|lacking| {
                    subset.clear();
                    subset.extend_from_slice(&items[..lacking]);
                    subset.extend_from_slice(&items[lacking + 1..]);
                    subset.push(last);
                    is_frequent(&subset)
                });
                if are_frequent {
                    if candidates.len() == limit {
                        return Ok(None);
                    }
                    candidates.push(first.itemset.extended_by(last));
                }
            }
        }
    }
    Ok(Some(candidates))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::convert::Infallible;

    #[test]
    fn candidates_whose_subsets_are_not_all_frequent_are_pruned() {
        let pairs = [[0, 1], [0, 2], [0, 3], [1, 2]].map(Itemset::new);
        let frequent = (pairs.clone()).map(|itemset| FrequentItemset {
            itemset,
            support: 1,
        });
        let go_on = || Ok::<_, Infallible>(());
        let candidates = candidates_from(
            &frequent,
            |set| pairs.iter().any(|it| it.items() == set),
            9,
            go_on,
        );
        let candidates = candidates.unwrap().unwrap();
        assert_eq!(candidates, [Itemset::new([0, 1, 2])]);
    }
}
