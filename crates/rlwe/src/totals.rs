//! Totals: supports over more transactions than the plaintext modulus can represent (docs/cryptography.md, "Totals").
//!
//! A sum over all blocks decrypts to the support modulo `t`. The first blocks, few enough that their supports stay
//! below `t`, are a random sample, since the transactions were shuffled: its exact support determines the missing
//! multiple of `t`.

use crate::key::SecretGeneration;
use crate::noise::{limbs_for, log2_phase_bound};
use oboro_ring::{Blocks, Parameters};

/// `−log2` of the probability that an honest answer is lifted wrongly, and of the probability that its phase exceeds
/// its bound, each over all supports together.
pub(crate) const FAILURE_BITS: f64 = 64.0;

/// The cost of conditioning on accepted draws, in bits (docs/cryptography.md, "Totals").
const ACCEPTANCE_BITS: f64 = 0.01;

/// The number of ranges that the bounds of a dataset allow for.
const MOST_RANGES: u64 = 1 << 10;

/// The blocks of a stratum, and the transactions in them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Extent {
    /// The number of blocks.
    pub blocks: u64,
    /// The number of transactions: at most the slots of the blocks.
    pub transactions: u64,
    /// The generation of its columns' secrets.
    pub secret_generation: SecretGeneration,
}

/// Bounds that follow from the public numbers of a dataset.
#[derive(Debug, Clone)]
pub struct Bounds {
    parameters: Parameters,
    max_len: usize,
    log2_supports: f64,
    /// For each length from 1 the number of limbs of its itemsets.
    limbs: Vec<usize>,
    /// The most blocks of a stratum.
    most_blocks: u64,
}

impl Bounds {
    /// The bounds of a dataset of `columns` columns and itemsets of up to `max_len`. `None` if the parameters do not
    /// even support the transactions of a sample.
    pub fn new(parameters: &Parameters, columns: u64, max_len: usize) -> Option<Self> {
        let mut bounds = Self {
            parameters: parameters.clone(),
            max_len,
            log2_supports: log2_itemsets(columns, max_len) + (MOST_RANGES as f64).log2(),
            limbs: Vec::new(),
            most_blocks: 0,
        };
        let least = parameters.sample_blocks();
        let degree = parameters.degree() as u64;
        let is_lifted = |blocks: u64| {
            let transactions = blocks.saturating_mul(degree);
            Stratum::new(parameters, transactions, bounds.log2_supports).is_some()
        };
        let hold = |blocks| is_lifted(blocks) && bounds.limbs_for(blocks).is_some();
        if !hold(least) {
            return None;
        }
        bounds.most_blocks = largest(least, hold);
        bounds.limbs = bounds.limbs_for(bounds.most_blocks)?;
        Some(bounds)
    }

    /// For each length the number of limbs over this many blocks.
    fn limbs_for(&self, blocks: u64) -> Option<Vec<usize>> {
        let limbs = |level| limbs_for(&self.parameters, level, blocks, self.log2_supports);
        (1..=self.max_len).map(limbs).collect()
    }

    /// The number of limbs of itemsets of this length; `None` beyond the longest.
    pub fn limbs(&self, level: usize) -> Option<usize> {
        self.limbs.get(level.checked_sub(1)?).copied()
    }

    /// The most blocks of a stratum.
    pub fn most_blocks(&self) -> u64 {
        self.most_blocks
    }

    /// The most transactions of a stratum without a sample.
    pub fn most_exact(&self) -> u64 {
        self.parameters.sample_blocks() * self.parameters.degree() as u64
    }

    /// `log2` of the bound on a phase of itemsets of this length over this many blocks.
    pub fn log2_phase(&self, level: usize, blocks: u64) -> f64 {
        log2_phase_bound(&self.parameters, level, blocks, self.log2_supports)
    }

    /// `log2` of the number of supports, times ranges, that may ever be requested.
    pub fn log2_supports(&self) -> f64 {
        self.log2_supports
    }

    /// The strata of `transactions` transactions that are shuffled together, under secrets of this generation: as few as
    /// possible, as even as blocks allow. `None` if the ranges would exceed the limit.
    pub fn strata_of(
        &self,
        transactions: u64,
        secret_generation: SecretGeneration,
    ) -> Option<Vec<Extent>> {
        let degree = self.parameters.degree() as u64;
        let blocks = transactions.div_ceil(degree);
        let count = blocks.div_ceil(self.most_blocks);
        if count > MOST_RANGES {
            return None;
        }
        let (mut blocks, mut transactions) = (blocks, transactions);
        let mut strata = Vec::with_capacity(count as usize);
        for left in (1..=count).rev() {
            let some = blocks.div_ceil(left);
            let held = transactions.min(some * degree);
            strata.push(Extent {
                blocks: some,
                transactions: held,
                secret_generation,
            });
            (blocks, transactions) = (blocks - some, transactions - held);
        }
        Some(strata)
    }
}

/// The largest number for which a property holds, which must hold for `least` and for all numbers up to that one.
fn largest(least: u64, holds: impl Fn(u64) -> bool) -> u64 {
    // One for which it holds, and one for which it does not.
    let (mut low, mut high) = (least, least << 24);
    while high - low > 1 {
        let middle = u64::midpoint(low, high);
        if holds(middle) {
            low = middle
        } else {
            high = middle
        }
    }
    low
}

/// `log2` of the number of itemsets of length one to `longest` of this many columns.
fn log2_itemsets(columns: u64, longest: usize) -> f64 {
    let mut of_length = 1.0;
    let mut all = 0.0;
    for taken in 0..longest as u64 {
        of_length *= columns.saturating_sub(taken) as f64 / (taken + 1) as f64;
        all += of_length;
    }
    all.max(1.0).log2()
}

/// The strata of a dataset, and the ranges of blocks that give its supports.
#[derive(Debug, Clone)]
pub struct Strata {
    bounds: Bounds,
    strata: Vec<Stratum>,
    ranges: Vec<Blocks>,
    /// For each range the generation of its secrets.
    secret_generations: Vec<SecretGeneration>,
}

impl Strata {
    /// The strata of consecutive extents. `None` if they violate a bound: there are too many, or one is too large or
    /// empty.
    pub fn new(bounds: Bounds, extents: &[Extent]) -> Option<Self> {
        let degree = bounds.parameters.degree() as u64;
        let (mut strata, mut ranges, mut first) = (Vec::new(), Vec::new(), 0u64);
        let mut secret_generations = Vec::new();
        for extent in extents {
            let fits = extent.transactions.div_ceil(degree) <= extent.blocks;
            if extent.transactions == 0 || extent.blocks > bounds.most_blocks || !fits {
                return None;
            }
            let stratum = Stratum::new(
                &bounds.parameters,
                extent.transactions,
                bounds.log2_supports,
            )?;
            let end = first.checked_add(extent.blocks)?;
            ranges.push(Blocks::from(first..end));
            let sample = stratum.sample_blocks();
            ranges.extend(sample.map(|blocks| Blocks::from_start(first, blocks)));
            secret_generations.resize(ranges.len(), extent.secret_generation);
            strata.push(stratum);
            first = end;
        }
        (ranges.len() as u64 <= MOST_RANGES).then_some(Self {
            bounds,
            strata,
            ranges,
            secret_generations,
        })
    }

    /// The bounds.
    pub fn bounds(&self) -> &Bounds {
        &self.bounds
    }

    /// The strata in order.
    pub fn strata(&self) -> &[Stratum] {
        &self.strata
    }

    /// For each stratum the blocks of its total, followed by those of its sample if it has one.
    pub fn ranges(&self) -> &[Blocks] {
        &self.ranges
    }

    /// For each range the generation of its columns' secrets.
    pub fn secret_generations(&self) -> &[SecretGeneration] {
        &self.secret_generations
    }

    /// The support of an itemset, given its support modulo `t` in each range; `None` if no support is consistent with
    /// them.
    pub(crate) fn support(&self, mut residues: impl Iterator<Item = u32>) -> Option<u64> {
        let mut support = 0;
        for stratum in &self.strata {
            let total = residues.next()?;
            let sample = match stratum.sample_blocks() {
                Some(_) => Some(residues.next()?),
                None => None,
            };
            support += stratum.lift(total, sample)?;
        }
        Some(support)
    }
}

/// Transactions that were shuffled together and are counted together.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Stratum {
    transactions: u64,
    plaintext_modulus: u64,
    /// The transactions of the sample; all of them if the total fits into `t`.
    sample: u64,
    sample_blocks: u64,
    /// The largest deviation of the total from its estimate by the sample.
    deviation: f64,
}

impl Stratum {
    /// The stratum of an encryption, of which up to `2^log2_supports` supports, times their ranges, may ever be
    /// requested. `None` if a sample cannot distinguish the multiples of `t`.
    ///
    /// # Panics
    /// If `log2_supports` is negative or NaN.
    pub fn new(parameters: &Parameters, transactions: u64, log2_supports: f64) -> Option<Self> {
        assert!(log2_supports >= 0.0 && log2_supports.is_finite());
        let t = u64::from(parameters.plaintext_modulus());
        let sample_blocks = parameters.sample_blocks();
        let sample = transactions.min(sample_blocks * parameters.degree() as u64);
        let deviation = if sample == transactions {
            0.0
        } else {
            // One support fails with probability 2·exp(−λ).
            let bits = 1.0 + FAILURE_BITS + ACCEPTANCE_BITS + log2_supports;
            let lambda = bits * std::f64::consts::LN_2;
            transactions as f64 * (lambda / (2.0 * sample as f64)).sqrt()
        };
        // No two totals that differ by a multiple of t are within the deviation of one number.
        (2.0 * deviation < t as f64).then_some(Self {
            transactions,
            plaintext_modulus: t,
            sample,
            sample_blocks,
            deviation,
        })
    }

    /// The number of its first blocks, whose supports are counted separately; `None` if the total fits into `t`.
    pub fn sample_blocks(&self) -> Option<u64> {
        (self.sample < self.transactions).then_some(self.sample_blocks)
    }

    /// The support with residue `total` modulo `t`, given the exact support of the sample; `None` if no support is
    /// consistent with both. Without a sample it is `total` itself.
    ///
    /// # Panics
    /// If there is a sample and none is given, or vice versa.
    pub(crate) fn lift(&self, total: u32, sample: Option<u32>) -> Option<u64> {
        assert_eq!(sample.is_some(), self.sample_blocks().is_some());
        let (total, t) = (u64::from(total), self.plaintext_modulus);
        let Some(sample) = sample.map(u64::from) else {
            return (total <= self.transactions).then_some(total);
        };
        if total >= t || sample > self.sample {
            return None;
        }
        let expected = self.transactions as f64 * sample as f64 / self.sample as f64;
        let multiples = ((expected - total as f64) / t as f64).round().max(0.0) as u64;
        let support = total + multiples * t;
        let possible = sample..=sample + self.transactions - self.sample;
        let is_near = (support as f64 - expected).abs() <= self.deviation;
        (is_near && possible.contains(&support)).then_some(support)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// t = 114,689: samples of 28 blocks, 114,688 transactions.
    fn parameters() -> Parameters {
        Parameters::new(12, 2, 114_689).unwrap()
    }

    fn strata_of(bounds: &Bounds, transactions: u64) -> Vec<Extent> {
        let generation = SecretGeneration::default();
        bounds.strata_of(transactions, generation).unwrap()
    }

    fn extent(blocks: u64, transactions: u64) -> Extent {
        Extent {
            blocks,
            transactions,
            secret_generation: SecretGeneration::default(),
        }
    }

    #[test]
    fn bounds_of_pairs_hold_for_three_million_transactions() {
        let bounds = Bounds::new(&parameters(), 4096, 2).unwrap();
        // 3.3 million transactions.
        assert_eq!(bounds.most_blocks, 813);
        assert_eq!((bounds.limbs(1), bounds.limbs(2)), (Some(2), Some(2)));
        assert_eq!(bounds.limbs(3), None);
        // Triples need a third limb.
        assert!(Bounds::new(&parameters(), 18, 3).is_none());
    }

    #[test]
    fn itemsets_are_counted() {
        for (columns, longest, count) in [(18, 2, 171.0), (18, 3, 987.0), (3, 5, 7.0), (0, 4, 1.0)]
        {
            let found = log2_itemsets(columns, longest).exp2();
            assert!(
                (found - count).abs() < 1e-9 * count,
                "{columns}, {longest}: {found}"
            );
        }
    }

    #[test]
    fn transactions_get_as_few_strata_as_bounds_allow() {
        let bounds = Bounds::new(&parameters(), 18, 2).unwrap();
        assert_eq!(strata_of(&bounds, 100_000), [extent(25, 100_000)]);
        let large = strata_of(&bounds, 8_000_000);
        assert_eq!(large.len(), 3);
        let transactions = large.iter().map(|it| it.transactions);
        assert_eq!(transactions.sum::<u64>(), 8_000_000);
        let blocks: Vec<u64> = large.iter().map(|it| it.blocks).collect();
        assert_eq!(
            (blocks.iter().sum::<u64>(), blocks[0] - blocks[2]),
            (1954, 1)
        );
        let too_many = bounds.strata_of(u64::MAX, SecretGeneration::default());
        assert_eq!(too_many, None);
    }

    #[test]
    fn ranges_are_totals_and_samples_and_supports_add_up() {
        let bounds = Bounds::new(&parameters(), 18, 2).unwrap();
        let extents = [strata_of(&bounds, 1_943_424), strata_of(&bounds, 50)].concat();
        let strata = Strata::new(bounds.clone(), &extents).unwrap();
        assert_eq!(strata.ranges(), [0..475, 0..28, 475..476].map(Blocks::from));
        let support = |residues: [u32; 3]| strata.support(residues.into_iter());
        // A third of the first stratum, of which 38,000 are in the sample.
        assert_eq!(
            support([(647_808 % 114_689) as u32, 38_000, 7]),
            Some(647_815)
        );
        assert_eq!(support([(647_808 % 114_689) as u32, 38_000, 51]), None);
        for bad in [
            vec![extent(1, 4097)],
            vec![extent(1, 0)],
            vec![extent(1000, 1_000_000)],
            vec![extent(1, 1); 1025],
        ] {
            assert!(Strata::new(bounds.clone(), &bad).is_none());
        }
    }

    #[test]
    fn the_deviation_is_about_a_quarter_of_the_modulus() {
        let stratum = Stratum::new(&parameters(), 1_943_424, 17.3).unwrap();
        assert_eq!(stratum.sample_blocks(), Some(28));
        assert!(
            (27_000.0..35_000.0).contains(&stratum.deviation),
            "{stratum:?}"
        );
        // All supports of up to 4 of 4096 columns in 1024 ranges, 3.03 million transactions.
        assert!(Stratum::new(&parameters(), 3_030_000, 53.5).is_some());
        assert!(Stratum::new(&parameters(), 4_000_000, 53.5).is_none());
    }

    #[test]
    fn what_is_below_the_modulus_is_not_lifted() {
        let stratum = Stratum::new(&parameters(), 114_688, 50.0).unwrap();
        assert_eq!(stratum.sample_blocks(), None);
        assert_eq!(stratum.lift(114_688, None), Some(114_688));
        assert_eq!(
            Stratum::new(&parameters(), 100, 50.0)
                .unwrap()
                .lift(101, None),
            None
        );
    }

    #[test]
    fn what_the_sample_excludes_is_refused() {
        let stratum = Stratum::new(&parameters(), 1_943_424, 17.3).unwrap();
        // None in the sample: at most 30,000 or so in total.
        assert_eq!(stratum.lift(20_000, Some(0)), Some(20_000));
        assert_eq!(stratum.lift(60_000, Some(0)), None);
        // All of the sample: nearly all transactions.
        assert_eq!(
            stratum.lift((1_943_424u64 % 114_689) as u32, Some(114_688)),
            Some(1_943_424)
        );
        assert_eq!(
            stratum.lift((1_943_425u64 % 114_689) as u32, Some(114_688)),
            None
        );
        // Not a residue.
        assert_eq!(stratum.lift(114_689, Some(0)), None);
        assert_eq!(stratum.lift(0, Some(114_689)), None);
        // Fewer than in the sample.
        assert_eq!(stratum.lift(4, Some(5)), None);
    }

    proptest! {
        /// For any support, a sample within the deviation that the proof allows lifts it.
        #[test]
        fn supports_are_lifted_from_any_likely_sample(support in 0u64..=1_943_424, off in -1.0f64..=1.0) {
            let stratum = Stratum::new(&parameters(), 1_943_424, 17.3).unwrap();
            let share = 114_688.0 / 1_943_424.0;
            let sample = (support as f64 + off * (stratum.deviation - 20.0)) * share;
            let least = support.saturating_sub(1_943_424 - 114_688);
            let sample = (sample.round().max(0.0) as u64).clamp(least, support.min(114_688));
            let residue = (support % 114_689) as u32;
            prop_assert_eq!(stratum.lift(residue, Some(sample as u32)), Some(support));
        }

        /// No sample is consistent with two supports.
        #[test]
        fn no_two_supports_are_taken_for_each_other(residue in 0u32..114_689, sample in 0u32..=114_688) {
            let stratum = Stratum::new(&parameters(), 1_943_424, 17.3).unwrap();
            let expected = 1_943_424.0 * f64::from(sample) / 114_688.0;
            let near = (0..17).map(|it| u64::from(residue) + it * 114_689).filter(|&it| {
                (it as f64 - expected).abs() <= stratum.deviation
            });
            prop_assert!(near.clone().count() <= 1);
            if let Some(support) = stratum.lift(residue, Some(sample)) {
                prop_assert!(near.collect::<Vec<_>>() == [support]);
            }
        }
    }
}
