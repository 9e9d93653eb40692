//! Totals: supports over more transactions than the plaintext modulus can represent (docs/cryptography.md, "Totals").
//!
//! A sum over all blocks decrypts to the support modulo `t`. The first blocks, few enough for supports below `t`, are a
//! random sample, since the transactions were shuffled. Its exact support determines the missing multiple of `t`.
//! Erased transactions widen the window that must contain the support: their choice may depend on their slots.

use crate::key::SecretGeneration;
use crate::noise::{FAILURE_BITS, limbs_for, log2_phase_bound};
use oboro_ring::{Blocks, Parameters};

/// Cost of conditioning on accepted draws, in bits (docs/cryptography.md, "Totals").
const ACCEPTANCE_BITS: f64 = 0.01;

/// Number of ranges for which the bounds of a dataset allow.
const MOST_RANGES: u64 = 1 << 10;

/// Blocks of a stratum, and the transactions in them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Extent {
    /// Number of blocks.
    pub blocks: u64,
    /// Number of transactions when they were shuffled: at most the slots of the blocks.
    pub transactions: u64,
    /// Number of transactions erased since.
    pub erased: u64,
    /// Number of erased transactions in the sample; 0 without a sample.
    pub erased_in_sample: u64,
    /// Generation of its columns' secrets.
    pub secret_generation: SecretGeneration,
}

/// Bounds that follow from the public numbers of a dataset.
#[derive(Debug, Clone)]
pub struct Bounds {
    parameters: Parameters,
    max_len: usize,
    log2_supports: f64,
    /// Number of limbs for itemsets of each length from 1.
    limbs: Vec<usize>,
    /// Largest number of blocks of a stratum.
    most_blocks: u64,
}

impl Bounds {
    /// Computes the bounds of a dataset of `columns` columns and itemsets of up to `max_len`. `None` if the parameters
    /// do not even support the transactions of a sample.
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
            let rows = ShuffledRows::complete(blocks.saturating_mul(degree));
            Stratum::new(parameters, rows, Products::OF_BITS, bounds.log2_supports).is_some()
        };
        let hold = |blocks| is_lifted(blocks) && bounds.limbs_for(blocks).is_some();
        if !hold(least) {
            return None;
        }
        bounds.most_blocks = largest(least, hold);
        bounds.limbs = bounds.limbs_for(bounds.most_blocks)?;
        Some(bounds)
    }

    /// Number of limbs for each length over `blocks` blocks.
    fn limbs_for(&self, blocks: u64) -> Option<Vec<usize>> {
        let limbs = |level| limbs_for(&self.parameters, level, blocks, self.log2_supports);
        (1..=self.max_len).map(limbs).collect()
    }

    /// Number of limbs of itemsets of this length; `None` beyond the longest.
    pub fn limbs(&self, level: usize) -> Option<usize> {
        self.limbs.get(level.checked_sub(1)?).copied()
    }

    /// Largest number of blocks of a stratum.
    pub fn most_blocks(&self) -> u64 {
        self.most_blocks
    }

    /// Largest number of transactions of a stratum without a sample.
    pub fn most_exact(&self) -> u64 {
        self.parameters.sample_blocks() * self.parameters.degree() as u64
    }

    /// `log2` of the bound on a phase of itemsets of this length over `blocks` blocks.
    pub fn log2_phase(&self, level: usize, blocks: u64) -> f64 {
        log2_phase_bound(&self.parameters, level, blocks, self.log2_supports)
    }

    /// `log2` of the number of supports, times ranges, that may ever be requested.
    pub fn log2_supports(&self) -> f64 {
        self.log2_supports
    }

    /// Returns true if the supports of a stratum can be read. Otherwise too many of its transactions were erased: it
    /// must be shuffled again.
    pub fn are_readable(&self, extent: &Extent) -> bool {
        self.stratum(extent).is_some()
    }

    fn stratum(&self, extent: &Extent) -> Option<Stratum> {
        let rows = ShuffledRows {
            count: extent.transactions,
            erased: extent.erased,
            erased_in_sample: extent.erased_in_sample,
        };
        Stratum::new(
            &self.parameters,
            rows,
            Products::OF_BITS,
            self.log2_supports,
        )
    }

    /// Divides `transactions` transactions that are shuffled together, under secrets of this generation, into strata:
    /// as few as possible, as even as blocks allow. `None` if the ranges would exceed the limit.
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
                erased: 0,
                erased_in_sample: 0,
                secret_generation,
            });
            (blocks, transactions) = (blocks - some, transactions - held);
        }
        Some(strata)
    }
}

/// Finds the largest number up to which a property holds, which must hold for `least`.
fn largest(least: u64, holds: impl Fn(u64) -> bool) -> u64 {
    // The property holds for the first and not for the second.
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

/// `log2` of the number of itemsets of length one to `longest` of `columns` columns.
fn log2_itemsets(columns: u64, longest: usize) -> f64 {
    let mut of_length = 1.0;
    let mut all = 0.0;
    for taken in 0..longest as u64 {
        of_length *= columns.saturating_sub(taken) as f64 / (taken + 1) as f64;
        all += of_length;
    }
    all.max(1.0).log2()
}

/// Strata of a dataset, and the ranges of blocks that give its supports.
#[derive(Debug, Clone)]
pub struct Strata {
    bounds: Bounds,
    strata: Vec<Stratum>,
    ranges: Vec<Blocks>,
    /// Generation of the secrets of each range.
    secret_generations: Vec<SecretGeneration>,
}

impl Strata {
    /// Checks the strata of consecutive extents. `None` if they violate a bound: their number, the size of one, or the
    /// transactions that it has lost.
    pub fn new(bounds: Bounds, extents: &[Extent]) -> Option<Self> {
        let degree = bounds.parameters.degree() as u64;
        let (mut strata, mut ranges, mut first) = (Vec::new(), Vec::new(), 0u64);
        let mut secret_generations = Vec::new();
        for extent in extents {
            let fits = extent.transactions.div_ceil(degree) <= extent.blocks;
            if extent.transactions == 0 || extent.blocks > bounds.most_blocks || !fits {
                return None;
            }
            let stratum = bounds.stratum(extent)?;
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

    /// The blocks of each stratum's total, followed by those of its sample if it has one.
    pub fn ranges(&self) -> &[Blocks] {
        &self.ranges
    }

    /// The generation of the columns' secrets of each range.
    pub fn secret_generations(&self) -> &[SecretGeneration] {
        &self.secret_generations
    }

    /// Computes the support of an itemset, given its support modulo `t` in each range; `None` if no support is
    /// consistent with them.
    pub(crate) fn support(&self, mut residues: impl Iterator<Item = u32>) -> Option<u64> {
        let mut support = 0;
        for stratum in &self.strata {
            let total = residues.next()?;
            let sample = match stratum.sample_blocks() {
                Some(_) => Some(residues.next()?),
                None => None,
            };
            support += u64::try_from(stratum.lift(total, sample)?).ok()?;
        }
        Some(support)
    }
}

/// Range of one transaction's contribution to a sum: the hull of 0 and all products of its values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Products {
    least: i64,
    most: i64,
}

impl Products {
    /// The products of bits.
    pub const OF_BITS: Self = Self { least: 0, most: 1 };

    /// Returns the products from `least` to `most`. `None` unless they contain 0 and another number.
    pub fn new(least: i64, most: i64) -> Option<Self> {
        (least <= 0 && 0 <= most && least < most).then_some(Self { least, most })
    }

    /// Difference between the largest and the smallest product.
    fn width(self) -> u64 {
        self.most.abs_diff(self.least)
    }

    /// Bounds of the sum over `transactions` transactions.
    fn sums(self, transactions: u64) -> Window {
        let count = i128::from(transactions);
        Window {
            least: count * i128::from(self.least),
            most: count * i128::from(self.most),
        }
    }
}

/// Transactions that were shuffled together, and the number of those erased since.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ShuffledRows {
    /// Number when they were shuffled.
    pub count: u64,
    /// Number of erased ones.
    pub erased: u64,
    /// Number of erased ones in the sample; 0 without a sample.
    pub erased_in_sample: u64,
}

impl ShuffledRows {
    /// Describes transactions of which none was erased.
    pub fn complete(count: u64) -> Self {
        Self {
            count,
            erased: 0,
            erased_in_sample: 0,
        }
    }
}

/// Integers from `least` to `most`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Window {
    least: i128,
    most: i128,
}

impl Window {
    /// Returns the number in the window with this residue modulo `t`; the smallest of several.
    fn lift(self, residue: u32, t: u64) -> Option<i128> {
        let t = i128::from(t);
        let found = self.least + (i128::from(residue) - self.least).rem_euclid(t);
        (i128::from(residue) < t && found <= self.most).then_some(found)
    }

    fn intersection(self, other: Self) -> Self {
        Self {
            least: self.least.max(other.least),
            most: self.most.min(other.most),
        }
    }
}

/// Transactions that were shuffled together and are counted together.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Stratum {
    rows: ShuffledRows,
    products: Products,
    plaintext_modulus: u64,
    /// Number of transactions in the sample when they were shuffled; all of them if the total fits into `t`.
    sample: u64,
    sample_blocks: u64,
    /// Largest deviation of `sample` times the total from its estimate by the sample, had none been erased.
    deviation: i128,
}

impl Stratum {
    /// Makes the stratum of an encryption, of which up to `2^log2_supports` supports, times their ranges, may ever be
    /// requested. `None` if a sample cannot distinguish the multiples of `t`, or for more erased transactions than
    /// existed.
    ///
    /// # Panics
    /// If `log2_supports` is negative or NaN.
    pub fn new(
        parameters: &Parameters,
        rows: ShuffledRows,
        products: Products,
        log2_supports: f64,
    ) -> Option<Self> {
        assert!(log2_supports >= 0.0 && log2_supports.is_finite());
        let t = u64::from(parameters.plaintext_modulus());
        let degree = parameters.degree() as u64;
        let sample_blocks = (t - 1) / degree.saturating_mul(products.width());
        let is_exact = rows.count.saturating_mul(products.width()) < t;
        let sample = if is_exact {
            rows.count
        } else {
            sample_blocks * degree
        };
        let deviation = if is_exact {
            0
        } else if sample == 0 {
            return None;
        } else {
            // One support fails with probability 2·exp(−λ).
            let bits = 1.0 + FAILURE_BITS + ACCEPTANCE_BITS + log2_supports;
            let lambda = bits * std::f64::consts::LN_2;
            let scaled = rows.count as f64 * (lambda * sample as f64 / 2.0).sqrt();
            // One more than rounding can lose.
            i128::from(products.width()) * (scaled.ceil() as i128 + 1)
        };
        let stratum = Self {
            rows,
            products,
            plaintext_modulus: t,
            sample,
            sample_blocks,
            deviation,
        };
        stratum.is_readable().then_some(stratum)
    }

    /// Returns true if no two totals that differ by a multiple of `t` are in one window.
    fn is_readable(&self) -> bool {
        let ShuffledRows {
            count,
            erased,
            erased_in_sample,
        } = self.rows;
        let rest = count - self.sample;
        let are_there = if rest == 0 {
            erased <= count && erased_in_sample == 0
        } else {
            erased_in_sample <= self.sample
                && erased
                    .checked_sub(erased_in_sample)
                    .is_some_and(|it| it <= rest)
        };
        // Without a sample, the total is below t.
        are_there
            && (rest == 0 || {
                let Window { least, most } = self.scaled_window(0);
                most - least < i128::from(self.plaintext_modulus) * i128::from(self.sample)
            })
    }

    /// Number of its first blocks, whose supports are counted separately; `None` if the total fits into `t`.
    pub fn sample_blocks(&self) -> Option<u64> {
        (self.sample < self.rows.count).then_some(self.sample_blocks)
    }

    /// Number of transactions that are left outside the sample.
    fn left_outside(&self) -> u64 {
        self.rows.count - self.sample - self.erased_outside()
    }

    fn erased_outside(&self) -> u64 {
        self.rows.erased - self.rows.erased_in_sample
    }

    /// Computes the bounds of `n_s·X`, given the sum over the sample. With `T` transactions of which `n_s` are the
    /// sample, they are `T·X_s ± n_s·D`, widened by the possible contribution of erased transactions
    /// (docs/cryptography.md, "Totals").
    fn scaled_window(&self, sample: i128) -> Window {
        let n_s = i128::from(self.sample);
        let count = i128::from(self.rows.count);
        let outside = self.products.sums(self.erased_outside());
        let inside = self.products.sums(self.rows.erased_in_sample);
        let expected = count * sample;
        Window {
            least: expected - self.deviation - n_s * outside.most + (count - n_s) * inside.least,
            most: expected + self.deviation - n_s * outside.least + (count - n_s) * inside.most,
        }
    }

    /// Computes the sum with residue `total` modulo `t`, given the residue of the sum over the sample. `None` if no sum
    /// is consistent with both. Without a sample it follows from `total` alone.
    ///
    /// # Panics
    /// If `sample` is given without a sample, or missing with one.
    pub(crate) fn lift(&self, total: u32, sample: Option<u32>) -> Option<i64> {
        assert_eq!(sample.is_some(), self.sample_blocks().is_some());
        let t = self.plaintext_modulus;
        let window = match sample {
            None => self.products.sums(self.rows.count - self.rows.erased),
            Some(sample) => {
                let left = self.sample - self.rows.erased_in_sample;
                let sample = self.products.sums(left).lift(sample, t)?;
                let n_s = i128::from(self.sample);
                let scaled = self.scaled_window(sample);
                let near = Window {
                    least: -(-scaled.least).div_euclid(n_s),
                    most: scaled.most.div_euclid(n_s),
                };
                let others = self.products.sums(self.left_outside());
                near.intersection(Window {
                    least: sample + others.least,
                    most: sample + others.most,
                })
            }
        };
        window.lift(total, t)?.try_into().ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Parameters with t = 114,689: samples of 28 blocks, 114,688 transactions.
    fn parameters() -> Parameters {
        Parameters::new(12, 2, 114_689).unwrap()
    }

    /// Makes a stratum of bits from which nothing was erased.
    fn complete(transactions: u64, log2_supports: f64) -> Option<Stratum> {
        let rows = ShuffledRows::complete(transactions);
        Stratum::new(&parameters(), rows, Products::OF_BITS, log2_supports)
    }

    /// Deviation of a total from its estimate by the sample.
    fn deviation(stratum: &Stratum) -> f64 {
        stratum.deviation as f64 / stratum.sample as f64
    }

    fn strata_of(bounds: &Bounds, transactions: u64) -> Vec<Extent> {
        let generation = SecretGeneration::default();
        bounds.strata_of(transactions, generation).unwrap()
    }

    fn extent(blocks: u64, transactions: u64) -> Extent {
        Extent {
            blocks,
            transactions,
            erased: 0,
            erased_in_sample: 0,
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
        let stratum = complete(1_943_424, 17.3).unwrap();
        assert_eq!(stratum.sample_blocks(), Some(28));
        assert!(
            (27_000.0..35_000.0).contains(&deviation(&stratum)),
            "{stratum:?}"
        );
        // All supports of up to 4 of 4096 columns in 1024 ranges, 3.03 million transactions.
        assert!(complete(3_030_000, 53.5).is_some());
        assert!(complete(4_000_000, 53.5).is_none());
    }

    #[test]
    fn what_is_below_the_modulus_is_not_lifted() {
        let stratum = complete(114_688, 50.0).unwrap();
        assert_eq!(stratum.sample_blocks(), None);
        assert_eq!(stratum.lift(114_688, None), Some(114_688));
        assert_eq!(complete(100, 50.0).unwrap().lift(101, None), None);
    }

    #[test]
    fn what_the_sample_excludes_is_refused() {
        let stratum = complete(1_943_424, 17.3).unwrap();
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

    /// Makes the stratum of 1,943,424 transactions, of which some were erased.
    fn erased(outside: u64, in_sample: u64) -> Option<Stratum> {
        let rows = ShuffledRows {
            count: 1_943_424,
            erased: outside + in_sample,
            erased_in_sample: in_sample,
        };
        Stratum::new(&parameters(), rows, Products::OF_BITS, 53.5)
    }

    /// Checks all itemsets of up to 4 of 4096 columns.
    #[test]
    fn some_transactions_are_erased_without_a_shuffle() {
        for (outside, in_sample, is_readable) in [
            (41_000, 0, true),
            (41_200, 0, false),
            (0, 2_570, true),
            (0, 2_590, false),
            (20_000, 1_200, true),
            (20_000, 2_000, false),
            // More than existed.
            (0, 114_689, false),
            (1_828_737, 0, false),
        ] {
            let found = erased(outside, in_sample);
            assert_eq!(found.is_some(), is_readable, "{outside}, {in_sample}");
        }
        let exact = |erased, erased_in_sample| {
            let rows = ShuffledRows {
                count: 1000,
                erased,
                erased_in_sample,
            };
            Stratum::new(&parameters(), rows, Products::OF_BITS, 53.5)
        };
        assert_eq!(exact(400, 0).unwrap().lift(600, None), Some(600));
        assert_eq!(exact(400, 0).unwrap().lift(601, None), None);
        assert!(exact(1001, 0).is_none() && exact(1, 1).is_none());
    }

    /// Checks an item of all transactions: the sample reveals exactly how many are left, whichever were erased.
    #[test]
    fn the_window_goes_as_far_as_erasures_can_move_a_total() {
        let (outside, in_sample) = (5_000, 1_500);
        let stratum = erased(outside, in_sample).unwrap();
        let left = 1_943_424 - outside - in_sample;
        let sample = Some((114_688 - in_sample) as u32);
        let residue = |it: u64| (it % 114_689) as u32;
        assert_eq!(stratum.lift(residue(left), sample), Some(left as i64));
        assert_eq!(stratum.lift(residue(left + 1), sample), None);
        // An item of erased transactions outside the sample, and of as few others as the sample allows.
        let most = deviation(&stratum) as u64 + 15 * in_sample;
        assert_eq!(stratum.lift(residue(most), Some(0)), Some(most as i64));
        let beyond = deviation(&stratum) as u64 + 16 * in_sample;
        assert_eq!(stratum.lift(residue(beyond), Some(0)), None);
        // More than are in the sample.
        assert_eq!(stratum.lift(0, Some(114_689 - in_sample as u32)), None);
    }

    #[test]
    fn products_are_around_zero() {
        for (least, most, are_possible) in [
            (0, 1, true),
            (-3, 5, true),
            (-1, 0, true),
            (0, 0, false),
            (1, 2, false),
            (-2, -1, false),
        ] {
            assert_eq!(Products::new(least, most).is_some(), are_possible);
        }
        // A block of products of this width fits into t, and no block of a larger one.
        let of = |count, products| {
            let rows = ShuffledRows::complete(count);
            Stratum::new(&parameters(), rows, products, 20.0)
        };
        let wide = Products::new(-10, 18).unwrap();
        assert_eq!(of(4097, wide).unwrap().sample_blocks(), Some(1));
        let exact = of(4095, wide).unwrap();
        assert_eq!(exact.lift(114_689 - 40_950, None), Some(-40_950));
        assert_eq!(exact.lift(114_689 - 40_951, None), None);
        let wider = Products::new(-10, 19).unwrap();
        assert!(of(4096, wider).is_none() && of(3954, wider).is_some());
    }

    /// Returns the number at a given share of the way from `least` to `most`.
    fn between((least, most): (i128, i128), share: f64) -> i128 {
        assert!(least <= most, "{least}, {most}");
        least + ((most - least) as f64 * share).round() as i128
    }

    /// Bounds of the numbers in both windows.
    fn both(one: Window, other: Window) -> (i128, i128) {
        let both = one.intersection(other);
        (both.least, both.most)
    }

    fn less(from: i128, window: Window) -> Window {
        Window {
            least: from - window.most,
            most: from - window.least,
        }
    }

    proptest! {
        /// Checks that any erasures within the window, with any contribution, leave the total of the rest.
        #[test]
        fn erasures_never_change_what_a_total_is_read_as(
            count in 114_689u64..1_900_000,
            (least, most) in prop_oneof![Just((0, 1)), (-2i64..=0, 1i64..=2)],
            shares in prop::array::uniform6(prop_oneof![Just(0.0), Just(1.0), 0.0..=1.0]),
        ) {
            let products = Products::new(least, most).unwrap();
            let [mut of_sample, mut outside, in_sample, deviates, from_sample, from_outside] = shares;
            // The most erasures that are still readable, found by halving.
            let (rows, stratum) = loop {
                let whole = Stratum::new(&parameters(), ShuffledRows::complete(count), products, 53.5);
                prop_assume!(whole.is_some());
                let n_s = whole.unwrap().sample;
                prop_assume!(n_s < count);
                let erased_in_sample = (of_sample * n_s as f64) as u64;
                let erased = erased_in_sample + (outside * (count - n_s) as f64) as u64;
                let rows = ShuffledRows { count, erased, erased_in_sample };
                if let Some(stratum) = Stratum::new(&parameters(), rows, products, 53.5) {
                    break (rows, stratum);
                }
                (of_sample, outside) = (0.75 * of_sample, 0.75 * outside);
            };
            let n_s = stratum.sample;
            let all_of_sample = {
                let all = products.sums(n_s);
                between((all.least, all.most), in_sample)
            };
            // A total before the erasure that the sample is near.
            let near = Window {
                least: -(stratum.deviation - i128::from(count) * all_of_sample).div_euclid(i128::from(n_s)),
                most: (stratum.deviation + i128::from(count) * all_of_sample).div_euclid(i128::from(n_s)),
            };
            let others = products.sums(count - n_s);
            let possible = Window {
                least: all_of_sample + others.least,
                most: all_of_sample + others.most,
            };
            let all = between(both(near, possible), deviates);
            // Erasures from the sample and from the others leave sums that are possible for the rest.
            let gone = rows.erased_in_sample;
            let rest = less(all_of_sample, products.sums(n_s - gone));
            let from_sample = between(both(products.sums(gone), rest), from_sample);
            let gone = rows.erased - rows.erased_in_sample;
            let rest = less(all - all_of_sample, products.sums(count - n_s - gone));
            let from_outside = between(both(products.sums(gone), rest), from_outside);
            let residue = |it: i128| it.rem_euclid(114_689) as u32;
            let (total, sample) = (all - from_sample - from_outside, all_of_sample - from_sample);
            prop_assert_eq!(stratum.lift(residue(total), Some(residue(sample))), Some(total as i64));
        }

        /// Checks that, for any support, a sample within the deviation that the proof allows lifts it.
        #[test]
        fn supports_are_lifted_from_any_likely_sample(support in 0u64..=1_943_424, off in -1.0f64..=1.0) {
            let stratum = complete(1_943_424, 17.3).unwrap();
            let share = 114_688.0 / 1_943_424.0;
            let sample = (support as f64 + off * (deviation(&stratum) - 20.0)) * share;
            let least = support.saturating_sub(1_943_424 - 114_688);
            let sample = (sample.round().max(0.0) as u64).clamp(least, support.min(114_688));
            let residue = (support % 114_689) as u32;
            prop_assert_eq!(stratum.lift(residue, Some(sample as u32)), Some(support as i64));
        }

        /// Checks that no sample is consistent with two supports.
        #[test]
        fn no_two_supports_are_taken_for_each_other(residue in 0u32..114_689, sample in 0u32..=114_688) {
            let stratum = complete(1_943_424, 17.3).unwrap();
            let expected = 1_943_424.0 * f64::from(sample) / 114_688.0;
            let near = (0..17).map(|it| i64::from(residue) + it * 114_689).filter(|&it| {
                (it as f64 - expected).abs() <= deviation(&stratum)
            });
            prop_assert!(near.clone().count() <= 1);
            if let Some(support) = stratum.lift(residue, Some(sample)) {
                prop_assert!(near.collect::<Vec<_>>() == [support]);
            }
        }
    }
}
