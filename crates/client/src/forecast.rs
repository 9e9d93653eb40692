//! What mining would take, from numbers alone: no dataset, no server.

use crate::columns::{Headers, bytes_of};
use crate::counter::Answered;
use oboro_ring::Parameters;
use oboro_rlwe::{Precision, log2_phase_bound};
use oboro_store::BLOCKS_PER_SEGMENT;

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
    /// What the columns take that were not fetched at an earlier level.
    pub columns_bytes: u64,
    /// How the level would be answered.
    pub answered: Answered,
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

    /// Each level up to `longest` that the parameters carry, if every itemset of frequent items is
    /// asked for, up to the most, and all their subsets differ where they can.
    pub fn levels(&self, longest: usize) -> Vec<LevelForecast> {
        let mut headers = Headers::Sent;
        let mut levels: Vec<LevelForecast> = Vec::new();
        for level in 1..=longest {
            let Some(forecast) = self.level(level, headers, &levels) else {
                break;
            };
            if forecast.answered == Answered::Columns {
                headers = Headers::Known;
            }
            levels.push(forecast);
        }
        levels
    }

    fn level(
        &self,
        level: usize,
        headers: Headers,
        before: &[LevelForecast],
    ) -> Option<LevelForecast> {
        let precision = Precision::new(&self.parameters, level)?;
        let items = match level {
            1 => self.columns,
            _ => self.frequent,
        };
        let itemsets = binomial(items.into(), level).min(self.itemsets);
        let moments = |power: usize| {
            let subsets = itemsets.saturating_mul(binomial(level as u64, power));
            binomial(items.into(), level - power).min(subsets)
        };
        let moments_bytes = self.groups().saturating_mul(precision.group_bytes(moments));
        // Later levels have no other items than the second.
        let fetched = before.iter().any(|it| it.answered == Answered::Columns);
        let wanted = match fetched {
            true => 0,
            false => itemsets.saturating_mul(level as u64).min(items.into()),
        };
        let columns_bytes = match wanted {
            0 => 0,
            _ => bytes_of(
                &self.parameters,
                self.columns,
                self.segments(),
                headers,
                wanted,
            ),
        };
        let group = self.parameters.group_blocks().min(self.blocks());
        Some(LevelForecast {
            level,
            itemsets,
            log2_phase_bound: log2_phase_bound(&self.parameters, level, group),
            log2_q: self.parameters.log2_q(precision.limbs),
            precision,
            moments_bytes,
            columns_bytes,
            answered: Answered::in_fewer_bytes(moments_bytes, columns_bytes),
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

    fn answers(prospect: &Prospect, longest: usize) -> Vec<(u64, Answered)> {
        let levels = prospect.levels(longest);
        levels.iter().map(|it| (it.itemsets, it.answered)).collect()
    }

    #[test]
    fn few_blocks_are_counted_in_columns_and_many_are_not() {
        use Answered::{Columns, Moments};
        // Mushroom at 20 %, and the two million transactions of the papers.
        let small = prospect(8_124, 112, 39, 5);
        assert_eq!(
            answers(&small, 5),
            [
                (112, Moments),
                (741, Columns),
                (9_139, Columns),
                (82_251, Columns),
                (575_757, Columns)
            ]
        );
        let levels = small.levels(5);
        assert!(levels[2..].iter().all(|it| it.columns_bytes == 0));
        assert!(levels[1].moments_bytes < 2_000_000 && levels[4].moments_bytes > 1_000_000_000);
        let large = prospect(1_943_424, 18, 18, 2);
        assert_eq!(answers(&large, 2), [(18, Moments), (153, Moments)]);
        let blocks = large
            .segments()
            .map(|(count, blocks)| count * u64::from(blocks));
        assert_eq!(blocks.iter().sum::<u64>(), large.blocks());
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
        assert_eq!(few.levels(5)[4].itemsets, 10);
        assert_eq!(
            huge.level(5, Headers::Known, &[])
                .map(|it| it.moments_bytes),
            Some(u64::MAX)
        );
    }
}
