//! What mining would take, from numbers alone: no dataset, no server.

use oboro_ring::Parameters;
use oboro_rlwe::{Precision, log2_phase_bound};
use oboro_store::{BLOCKS_PER_SEGMENT, CELL_SEAL_BYTES};

/// What is to be mined.
#[derive(Debug, Clone)]
pub struct Prospect {
    /// The ring of the dataset.
    pub parameters: Parameters,
    /// The number of transactions.
    pub transactions: u64,
    /// The number of items.
    pub columns: u32,
    /// The number of items that are frequent, in itemsets of two and more.
    pub frequent: u32,
    /// The most itemsets that are asked for at a level.
    pub itemsets: u64,
}

/// What a level would take.
#[derive(Debug, Clone, PartialEq)]
pub struct LevelForecast {
    /// The length of the itemsets.
    pub level: usize,
    /// How many are asked for.
    pub itemsets: u64,
    /// The limbs, and the bits of fractions.
    pub precision: Precision,
    /// `log2` of what a phase over a full group of blocks may be.
    pub log2_phase_bound: f64,
    /// `log2` of the product of the limbs.
    pub log2_q: f64,
    /// What moments take.
    pub moments_bytes: u64,
}

impl Prospect {
    /// The number of blocks.
    pub fn blocks(&self) -> u64 {
        self.transactions.div_ceil(self.parameters.degree() as u64)
    }

    /// The number of groups of blocks.
    pub fn groups(&self) -> u64 {
        self.blocks().div_ceil(self.parameters.group_blocks())
    }

    /// How many segments there are of how many blocks, if all transactions are encrypted at once.
    pub fn segments(&self) -> [(u64, u32); 2] {
        let full = u64::from(BLOCKS_PER_SEGMENT);
        let rest = self.blocks() % full;
        [
            (self.blocks() / full, BLOCKS_PER_SEGMENT),
            (u64::from(rest > 0), rest.max(1) as u32),
        ]
    }

    /// What the sealed cells of all frequent items take: fetched once, they answer every length from 2 on.
    pub fn cells_bytes(&self) -> u64 {
        let bytes = |(count, blocks): (u64, u32)| {
            let slots = u64::from(blocks) * self.parameters.degree() as u64;
            (slots / 8 + CELL_SEAL_BYTES as u64).saturating_mul(count)
        };
        let column = self
            .segments()
            .map(bytes)
            .iter()
            .fold(0, |a: u64, &b| a.saturating_add(b));
        column.saturating_mul(self.frequent.into())
    }

    /// Each length from 2 to `longest` that the parameters carry, if every itemset of frequent items is asked for,
    /// up to the most, and all their subsets differ where they can.
    pub fn levels(&self, longest: usize) -> Vec<LevelForecast> {
        (2..=longest).map_while(|level| self.level(level)).collect()
    }

    fn level(&self, level: usize) -> Option<LevelForecast> {
        let precision = Precision::new(&self.parameters, level)?;
        let items = self.frequent;
        let itemsets = binomial(items.into(), level).min(self.itemsets);
        let moments = |power: usize| {
            let subsets = itemsets.saturating_mul(binomial(level as u64, power));
            binomial(items.into(), level - power).min(subsets)
        };
        let moments_bytes = self.groups().saturating_mul(precision.group_bytes(moments));
        let group = self.parameters.group_blocks().min(self.blocks());
        Some(LevelForecast {
            level,
            itemsets,
            log2_phase_bound: log2_phase_bound(&self.parameters, level, group),
            log2_q: self.parameters.log2_q(precision.limbs),
            precision,
            moments_bytes,
        })
    }
}

/// `n` over `k`, or the largest number.
fn binomial(n: u64, k: usize) -> u64 {
    let k = k as u64;
    if k > n {
        return 0;
    }
    let next = |so_far: u128, i: u64| Some(so_far.checked_mul((n - i).into())? / u128::from(i + 1));
    let exact = (0..k).try_fold(1u128, next);
    exact.and_then(|it| it.try_into().ok()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use oboro_rlwe::plan;

    fn prospect(transactions: u64, columns: u32, frequent: u32, max_len: usize) -> Prospect {
        Prospect {
            parameters: plan(transactions, columns.into(), max_len).unwrap(),
            transactions,
            columns,
            frequent,
            itemsets: u64::MAX,
        }
    }

    #[test]
    fn cells_are_fetched_once_and_moments_are_asked_at_each_length() {
        // Mushroom at 20 %, and the two million transactions of the papers.
        let small = prospect(8_124, 112, 39, 5);
        let levels = small.levels(5);
        let itemsets: Vec<u64> = levels.iter().map(|it| it.itemsets).collect();
        assert_eq!(itemsets, [741, 9_139, 82_251, 575_757]);
        assert!(levels[0].moments_bytes < 2_000_000 && levels[3].moments_bytes > 1_000_000_000);
        // One block of 8192 transactions or two of 4096: a bit for each, a nonce and a tag.
        assert_eq!(small.cells_bytes(), 39 * (8192 / 8 + 40));
        let large = prospect(1_943_424, 18, 18, 2);
        assert_eq!(large.levels(2)[0].itemsets, 153);
        let blocks = large
            .segments()
            .map(|(count, blocks)| count * u64::from(blocks));
        assert_eq!(blocks.iter().sum::<u64>(), large.blocks());
        let bits = large.blocks() * large.parameters.degree() as u64;
        let segments = large.blocks().div_ceil(64);
        assert_eq!(large.cells_bytes(), 18 * (bits / 8 + 40 * segments));
    }

    #[test]
    fn numbers_beyond_any_do_not_overflow() {
        assert_eq!(binomial(39, 5), 575_757);
        assert_eq!((binomial(3, 4), binomial(3, 0), binomial(0, 0)), (0, 1, 1));
        assert_eq!(binomial(u64::MAX, 7), u64::MAX);
        let huge = prospect(u64::MAX / 2, 1 << 20, 1 << 20, 5);
        let few = Prospect {
            itemsets: 10,
            ..prospect(8_124, 112, 39, 5)
        };
        assert_eq!(few.levels(5)[3].itemsets, 10);
        assert_eq!(huge.level(5).map(|it| it.moments_bytes), Some(u64::MAX));
    }
}
