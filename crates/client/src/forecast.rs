//! Forecast of the cost of mining from sizes alone, without a dataset or a server.

use crate::levels::Route;
use crate::sums::MOST_BYTES;
use oboro_format::{BLOCKS_PER_SEGMENT, CELL_SEAL_BYTES};
use oboro_protocol::max_itemsets;
use oboro_ring::moment::binomial;
use oboro_ring::{Parameters, pack::moment_packed_len};
use oboro_rlwe::{Bounds, SecretGeneration, Strata, prefix_bytes};

/// Sizes of the mining run to forecast.
#[derive(Debug, Clone)]
pub struct Prospect {
    /// Ring of the dataset.
    pub parameters: Parameters,
    /// Number of transactions.
    pub transactions: u64,
    /// Number of items.
    pub columns: u32,
    /// Length of the longest itemsets that the dataset is encrypted for.
    pub max_len: usize,
    /// Number of items that are frequent in itemsets of two or more.
    pub frequent: u32,
    /// Number of columns, by support, whose itemsets are verified.
    pub pair_columns: usize,
    /// Maximum number of itemsets to count at a level.
    pub itemsets: u64,
}

/// Cost of one level.
#[derive(Debug, Clone, PartialEq)]
pub struct LevelForecast {
    /// Length of the itemsets.
    pub level: usize,
    /// Number of itemsets to count.
    pub itemsets: u64,
    /// Number of limbs of the moments to read.
    pub limbs: usize,
    /// `log2` of the bound on a phase over the largest range of blocks.
    pub log2_phase_bound: f64,
    /// `log2` of the product of the limbs.
    pub log2_q: f64,
    /// Number of moments over one range.
    pub moments: u64,
    /// Bytes of the unverified moments.
    pub moments_bytes: u64,
    /// Bytes of verified moments for all itemsets of frequent items, up to length four. `None` above the limit on bytes
    /// per level.
    pub verified_bytes: Option<u64>,
}

/// Cost of one route to the supports.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RouteForecast {
    /// Name of a [`Route`], or of a method without homomorphic encryption.
    pub route: &'static str,
    /// Range of itemset lengths.
    pub lengths: (usize, usize),
    /// Bytes received from the server.
    pub bytes: u64,
    /// Multiply-adds of residues at the server.
    pub server_multiply_adds: u64,
    /// Maximum number of 64-bit words that the owner computes on.
    pub owner_words: u64,
    /// `true` if answers are verified before anything depends on them.
    pub verified: bool,
    /// Data that the server learns in addition to sizes.
    pub learns: &'static str,
}

impl Prospect {
    /// Returns all routes to the supports of itemsets of frequent items, with the trivial ones for comparison.
    pub fn routes(&self) -> Vec<RouteForecast> {
        let levels = self.levels();
        let slots = self
            .blocks()
            .saturating_mul(self.parameters.degree() as u64);
        let ranges = self
            .strata()
            .map_or(0, |strata| strata.ranges().len() as u64);
        // An itemset of k items reads k columns, one bit per transaction.
        let words = |it: &LevelForecast| {
            let words = it.itemsets.saturating_mul(it.level as u64);
            words.saturating_mul(self.transactions.div_ceil(64))
        };
        let counting = levels
            .iter()
            .fold(0, |sum: u64, it| sum.saturating_add(words(it)));
        let lengths = (2, self.max_len);
        let mut routes = Vec::new();
        for level in &levels {
            let limbs = level.limbs as u64;
            let adds = |moments: u64| moments.saturating_mul(slots).saturating_mul(limbs);
            let uses = 1u64 << level.level.min(62);
            let owner = |itemsets: u64| {
                let words = itemsets.saturating_mul(uses).saturating_mul(limbs * ranges);
                words.saturating_mul(self.parameters.degree() as u64 / 2)
            };
            let all = binomial(self.frequent.into(), level.level);
            if let Some(bytes) = level.verified_bytes {
                let learns =
                    "which columns have the largest supports, down to those that are frequent";
                let (route, server_multiply_adds, owner_words) = match level.level {
                    2 => {
                        let words = all.saturating_mul(4 * limbs * ranges);
                        (Route::Scalars, adds(all), words)
                    }
                    // Its moments are those of all its subsets.
                    length => {
                        let subsets = (0..=length).map(|it| binomial(self.frequent.into(), it));
                        let moments = subsets.fold(0, u64::saturating_add);
                        (Route::Prefix, adds(moments), owner(all))
                    }
                };
                routes.push(RouteForecast {
                    route: route.name(),
                    lengths: (level.level, level.level),
                    bytes,
                    server_multiply_adds,
                    owner_words,
                    verified: true,
                    learns,
                });
            }
            routes.push(RouteForecast {
                route: Route::Trusted.name(),
                lengths: (level.level, level.level),
                bytes: level.moments_bytes,
                server_multiply_adds: adds(level.moments),
                owner_words: owner(level.itemsets),
                verified: false,
                learns: "every itemset that is asked for; everything if it lies",
            });
        }
        let cells = RouteForecast {
            route: Route::Cells.name(),
            lengths,
            bytes: self.cells_bytes(),
            server_multiply_adds: 0,
            owner_words: counting,
            verified: true,
            learns: "which columns are frequent",
        };
        let bits = u64::from(self.frequent).saturating_mul(self.transactions.div_ceil(8));
        routes.extend([
            cells.clone(),
            RouteForecast {
                route: "AES-encrypted bits, fetched and counted locally",
                bytes: bits,
                verified: false,
                ..cells.clone()
            },
            RouteForecast {
                route: "counted by the owner before encrypting",
                bytes: 0,
                learns: "nothing",
                ..cells
            },
        ]);
        routes
    }

    /// Returns the number of blocks.
    pub fn blocks(&self) -> u64 {
        self.transactions.div_ceil(self.parameters.degree() as u64)
    }

    /// Returns the ranges of blocks over which moments are summed; `None` if no bounds hold for this number of
    /// transactions.
    pub fn strata(&self) -> Option<Strata> {
        let bounds = Bounds::new(&self.parameters, self.columns.into(), self.max_len)?;
        let extents = bounds.strata_of(self.transactions, SecretGeneration::default())?;
        Strata::new(bounds, &extents)
    }

    /// Returns the number of segments and the blocks of each, if all transactions are encrypted at once.
    pub fn segments(&self) -> [(u64, u32); 2] {
        let full = u64::from(BLOCKS_PER_SEGMENT);
        let rest = self.blocks() % full;
        [
            (self.blocks() / full, BLOCKS_PER_SEGMENT),
            (u64::from(rest > 0), rest.max(1) as u32),
        ]
    }

    /// Returns the bytes of the sealed cells of all frequent items. Fetched once, they serve every length from 2 on.
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

    /// Returns the forecast of each length from 2 to the longest. Assumes that every itemset of frequent items is a
    /// candidate, up to the limit, and that their subsets overlap as little as possible.
    pub fn levels(&self) -> Vec<LevelForecast> {
        let strata = self.strata();
        let level = |level| self.level(strata.as_ref()?, level);
        (2..=self.max_len).map_while(level).collect()
    }

    /// Returns the bytes of verified answers for all itemsets of a length; `None` if they are not requested.
    fn verified_bytes(&self, strata: &Strata, level: usize) -> Option<u64> {
        let frequent = self.frequent.into();
        let bytes = prefix_bytes(&self.parameters, strata, frequent, level)?;
        let fits_a_request = level == 2 || binomial(frequent, level) <= max_itemsets(level) as u64;
        let has_fixed_parts = self.frequent as usize <= self.pair_columns;
        let is_requested = bytes <= MOST_BYTES && fits_a_request && has_fixed_parts;
        is_requested.then_some(bytes)
    }

    fn level(&self, strata: &Strata, level: usize) -> Option<LevelForecast> {
        let limbs = strata.bounds().limbs(level)?;
        let items = self.frequent;
        let itemsets = binomial(items.into(), level).min(self.itemsets);
        let moments = |power: usize| {
            let subsets = itemsets.saturating_mul(binomial(level as u64, power));
            binomial(items.into(), level - power).min(subsets)
        };
        let of_power = |power| {
            let each = moment_packed_len(self.parameters.degree(), limbs, power) as u64;
            moments(power).saturating_mul(each)
        };
        let ranges = strata.ranges().len() as u64;
        let range = (0..=level).fold(0u64, |bytes, power| bytes.saturating_add(of_power(power)));
        let blocks = strata.ranges().iter().map(|it| it.len()).max()?;
        Some(LevelForecast {
            level,
            itemsets,
            limbs,
            log2_phase_bound: strata.bounds().log2_phase(level, blocks),
            log2_q: self.parameters.log2_q(limbs),
            moments: (0..=level).fold(0, |sum: u64, power| sum.saturating_add(moments(power))),
            moments_bytes: ranges.saturating_mul(range),
            verified_bytes: self.verified_bytes(strata, level),
        })
    }
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
            max_len,
            frequent,
            pair_columns: 1_024,
            itemsets: u64::MAX,
        }
    }

    #[test]
    fn cells_are_fetched_once_and_moments_are_asked_at_each_length() {
        // Mushroom at 20 %, and the two million transactions of the papers.
        let small = prospect(8_124, 112, 39, 5);
        let levels = small.levels();
        let itemsets: Vec<u64> = levels.iter().map(|it| it.itemsets).collect();
        assert_eq!(itemsets, [741, 9_139, 82_251, 575_757]);
        assert!(levels[0].moments_bytes < 3_000_000 && levels[3].moments_bytes > 1_000_000_000);
        // One block of 8192 transactions or two of 4096: one bit each, plus a nonce and a tag.
        assert_eq!(small.cells_bytes(), 39 * (8192 / 8 + 40));
        let large = prospect(1_943_424, 18, 18, 2);
        let pairs = &large.levels()[0];
        assert_eq!((pairs.itemsets, pairs.verified_bytes), (153, Some(2_142)));
        let blocks = large
            .segments()
            .map(|(count, blocks)| count * u64::from(blocks));
        assert_eq!(blocks.iter().sum::<u64>(), large.blocks());
        let bits = large.blocks() * large.parameters.degree() as u64;
        let segments = large.blocks().div_ceil(64);
        assert_eq!(large.cells_bytes(), 18 * (bits / 8 + 40 * segments));
    }

    #[test]
    fn routes_tell_what_is_cheapest() {
        let large = prospect(1_943_424, 18, 18, 3);
        let routes = large.routes();
        let of = |name: &str, length: usize| {
            let mut routes = routes.iter();
            let found = routes
                .find(|it| it.route == name && it.lengths.0 <= length && length <= it.lengths.1);
            found.unwrap()
        };
        assert_eq!(of("scalars", 2).bytes, 153 * 14);
        assert!(of("scalars", 2).verified && !of("trusted", 2).verified);
        // Triples: 15 MB of moments, 4.4 MB of cells, which are little larger than the bits.
        assert!((14_000_000..15_000_000).contains(&of("trusted", 3).bytes));
        assert_eq!(of("prefix", 3).bytes, of("trusted", 3).bytes);
        assert!(of("prefix", 3).verified);
        let longer = prospect(1_943_424, 18, 18, 4).routes();
        let quadruples = longer
            .iter()
            .find(|it| it.route == "prefix" && it.lengths.0 == 4);
        assert!((110_000_000..115_000_000).contains(&quadruples.unwrap().bytes));
        assert!((4_300_000..4_500_000).contains(&of("cells", 3).bytes));
        let bits = of("AES-encrypted bits, fetched and counted locally", 3).bytes;
        assert_eq!(bits, 18 * 1_943_424 / 8);
        assert_eq!(of("counted by the owner before encrypting", 2).bytes, 0);
        // Above the limits: too many bytes, too many items.
        let wide = prospect(100_000, 1_000, 1_000, 3).levels();
        let verified: Vec<bool> = wide.iter().map(|it| it.verified_bytes.is_some()).collect();
        assert_eq!(verified, [true, false]);
        // Pairs of more items than have fixed parts are not verified.
        let mut wider = prospect(100_000, 1_500, 1_500, 2);
        assert_eq!(wider.levels()[0].verified_bytes, None);
        wider.pair_columns = 2_000;
        let pairs = 1_500 * 1_499 / 2 * 7;
        assert_eq!(wider.levels()[0].verified_bytes, Some(pairs));
    }

    #[test]
    fn numbers_beyond_any_do_not_overflow() {
        let few = Prospect {
            itemsets: 10,
            ..prospect(8_124, 112, 39, 5)
        };
        assert_eq!(few.levels()[3].itemsets, 10);
        let huge = prospect(1 << 30, 1 << 20, 1 << 20, 5);
        assert_eq!(huge.levels()[3].moments_bytes, u64::MAX);
    }
}
