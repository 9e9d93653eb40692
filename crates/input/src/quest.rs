//! Synthetic market baskets after Agrawal and Srikant, "Fast Algorithms for Mining Association Rules" (VLDB 1994),
//! there under "generation of synthetic data"; known as IBM Quest data.
//!
//! Equal parameters give equal transactions on every machine. The generator is ChaCha20, and the random variables use
//! only additions, comparisons, divisions and square roots, whose results IEEE 754 defines exactly.

use rand::rngs::ChaCha20Rng;
use rand::{Rng, SeedableRng};

use crate::transactions::{Transactions, TransactionsError};

/// Parameters of the generator. Names in bars are the paper's.
///
/// The default has 30 items and 2,000 transactions.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct QuestParameters {
    /// The number of transactions, |D|.
    pub transactions: u64,
    /// The number of items, N, named `0` to `N - 1`.
    pub items: u32,
    /// The number of maximal potentially large itemsets ("patterns"), |L|.
    pub patterns: u32,
    /// The mean number of items in a transaction, |T|.
    pub transaction_length: f64,
    /// The mean number of items in a pattern, |I|.
    pub pattern_length: f64,
    /// The mean fraction of a pattern's items that come from the previous pattern.
    pub correlation: f64,
    /// The mean corruption level of patterns: the probability that items of a pattern are left out of a transaction.
    pub corruption_mean: f64,
    /// The variance of the patterns' corruption levels.
    pub corruption_variance: f64,
    /// The seed of the generator.
    pub seed: u64,
}

impl Default for QuestParameters {
    fn default() -> Self {
        QuestParameters {
            transactions: 2_000,
            items: 30,
            patterns: 50,
            transaction_length: 10.0,
            pattern_length: 4.0,
            correlation: 0.5,
            corruption_mean: 0.5,
            corruption_variance: 0.1,
            seed: 0,
        }
    }
}

/// Invalid parameters.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum QuestError {
    /// A parameter out of its range.
    #[error("{parameter} is {value}, but must be {range}; change it and generate again")]
    OutOfRange {
        /// The name of the parameter.
        parameter: &'static str,
        /// The value.
        value: f64,
        /// The allowed range.
        range: &'static str,
    },
    /// More items than can be numbered.
    #[error(transparent)]
    Items(#[from] TransactionsError),
}

impl QuestParameters {
    /// Generates the transactions. None is empty.
    ///
    /// # Errors
    /// A parameter out of its range.
    pub fn generate(&self) -> Result<Transactions, QuestError> {
        self.validate()?;
        let mut random = Random::new(self.seed);
        let patterns = Patterns::draw(self, &mut random);
        let names = (0..self.items).map(|item| item.to_string()).collect();
        let mut left_over = None;
        let baskets =
            (0..self.transactions).map(|_| self.basket(&patterns, &mut left_over, &mut random));
        Ok(Transactions::from_baskets(names, baskets)?)
    }

    fn validate(&self) -> Result<(), QuestError> {
        let check = |parameter, value: f64, low: f64, high: f64, range| {
            if (low..=high).contains(&value) {
                return Ok(());
            }
            Err(QuestError::OutOfRange {
                parameter,
                value,
                range,
            })
        };
        let transactions = self.transactions as f64;
        check(
            "the number of transactions",
            transactions,
            1.0,
            4294967296.0,
            "from 1 to 2^32",
        )?;
        let items = f64::from(self.items);
        check(
            "the number of items",
            items,
            1.0,
            16777216.0,
            "from 1 to 2^24",
        )?;
        let patterns = f64::from(self.patterns);
        check(
            "the number of patterns",
            patterns,
            1.0,
            1e6,
            "from 1 to 1000000",
        )?;
        let length = self.transaction_length;
        check(
            "the mean transaction length",
            length,
            1.0,
            1e3,
            "from 1 to 1000",
        )?;
        check(
            "the mean pattern length",
            self.pattern_length,
            1.0,
            1e3,
            "from 1 to 1000",
        )?;
        check("the correlation", self.correlation, 0.0, 1.0, "from 0 to 1")?;
        check(
            "the mean corruption",
            self.corruption_mean,
            0.0,
            1.0,
            "from 0 to 1",
        )?;
        let variance = self.corruption_variance;
        check(
            "the variance of the corruption",
            variance,
            0.0,
            1.0,
            "from 0 to 1",
        )
    }

    /// Generates one transaction. A pattern that no longer fits is added anyway in half the cases and otherwise
    /// becomes the `left_over` of the next transaction.
    fn basket(
        &self,
        patterns: &Patterns,
        left_over: &mut Option<Vec<u32>>,
        random: &mut Random,
    ) -> Vec<u32> {
        let size = random.length(self.transaction_length, self.items);
        let mut basket: Vec<u32> = Vec::with_capacity(size);
        // With few items, patterns overlap so much that a basket may stop growing.
        let mut fruitless = 0;
        while basket.len() < size && fruitless < FRUITLESS_PATTERNS {
            let pattern = match left_over.take() {
                Some(pattern) => pattern,
                None => patterns.corrupted(random),
            };
            let before = basket.len();
            let mut new = pattern.clone();
            new.retain(|item| !basket.contains(item));
            let fits = before + new.len() <= size;
            if !fits && before > 0 && random.fraction() < 0.5 {
                *left_over = Some(pattern);
                break;
            }
            basket.append(&mut new);
            fruitless = if basket.len() > before {
                0
            } else {
                fruitless + 1
            };
        }
        if basket.is_empty() {
            basket.push(random.below(self.items));
        }
        basket
    }
}

/// The number of consecutive patterns that add nothing after which a transaction is complete.
const FRUITLESS_PATTERNS: u32 = 32;

/// Maximal potentially large itemsets.
struct Patterns {
    items: Vec<Vec<u32>>,
    corruption: Vec<f64>,
    /// `cumulated[p]` is the sum of the weights of the patterns up to `p`.
    cumulated: Vec<f64>,
}

impl Patterns {
    fn draw(parameters: &QuestParameters, random: &mut Random) -> Self {
        let mut patterns = Patterns {
            items: Vec::new(),
            corruption: Vec::new(),
            cumulated: Vec::new(),
        };
        let mut total = 0.0;
        for _ in 0..parameters.patterns {
            let size = random.length(parameters.pattern_length, parameters.items);
            let mut pattern: Vec<u32> = Vec::with_capacity(size);
            if let Some(previous) = patterns.items.last() {
                let share = (parameters.correlation * random.exponential()).min(1.0);
                let common = ((share * size as f64 + 0.5) as usize).min(previous.len());
                pattern = random.choose(previous, common);
            }
            while pattern.len() < size {
                let item = random.below(parameters.items);
                if !pattern.contains(&item) {
                    pattern.push(item);
                }
            }
            let deviation = parameters.corruption_variance.sqrt() * random.normal();
            total += random.exponential();
            patterns.items.push(pattern);
            patterns
                .corruption
                .push((parameters.corruption_mean + deviation).clamp(0.0, 1.0));
            patterns.cumulated.push(total);
        }
        patterns
    }

    /// Draws a pattern by weight, without the items that corruption removes.
    fn corrupted(&self, random: &mut Random) -> Vec<u32> {
        let total = self.cumulated.last().copied().unwrap_or(0.0);
        let mark = random.fraction() * total;
        let chosen = self.cumulated.partition_point(|&sum| sum <= mark);
        let chosen = chosen.min(self.items.len() - 1);
        let mut pattern = self.items[chosen].clone();
        while !pattern.is_empty() && random.fraction() < self.corruption[chosen] {
            let place = random.below(pattern.len() as u32);
            pattern.swap_remove(place as usize);
        }
        pattern
    }
}

/// Random variables from a stream of 64-bit words, identical on every machine.
struct Random(ChaCha20Rng);

impl Random {
    fn new(seed: u64) -> Self {
        let mut key = [0; 32];
        key[..8].copy_from_slice(&seed.to_le_bytes());
        Random(ChaCha20Rng::from_seed(key))
    }

    /// Draws a uniform number in [0, 1), a multiple of 2^-53.
    fn fraction(&mut self) -> f64 {
        (self.0.next_u64() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// Draws a uniform number below `bound`, with a bias below 2^-32. `bound` is not 0.
    fn below(&mut self, bound: u32) -> u32 {
        ((u128::from(self.0.next_u64()) * u128::from(bound)) >> 64) as u32
    }

    /// Draws `count` distinct members of `from`, in random order; all if fewer exist.
    fn choose(&mut self, from: &[u32], count: usize) -> Vec<u32> {
        let mut members = from.to_vec();
        let count = count.min(members.len());
        for place in 0..count {
            let other = place + self.below((members.len() - place) as u32) as usize;
            members.swap(place, other);
        }
        members.truncate(count);
        members
    }

    /// Draws from the exponential distribution with mean 1, by von Neumann's comparison method (1951). The length of
    /// a descending run of uniforms is even with probability exp(-x) given its first one, x.
    fn exponential(&mut self) -> f64 {
        let mut whole = 0.0;
        loop {
            let first = self.fraction();
            let mut previous = first;
            let mut run_is_even = false;
            loop {
                let next = self.fraction();
                run_is_even = !run_is_even;
                if next >= previous {
                    break;
                }
                previous = next;
            }
            if run_is_even {
                return whole + first;
            }
            whole += 1.0;
        }
    }

    /// Draws from the Poisson distribution: the number of arrivals of a process of rate 1 in time `mean`.
    fn poisson(&mut self, mean: f64) -> usize {
        let mut arrivals = 0;
        let mut time = self.exponential();
        while time < mean {
            arrivals += 1;
            time += self.exponential();
        }
        arrivals
    }

    /// Draws from the normal distribution with mean 0 and variance 1: a direction, and a squared length that is twice
    /// an exponential (Box and Muller 1958, polar form).
    fn normal(&mut self) -> f64 {
        loop {
            let (x, y) = (2.0 * self.fraction() - 1.0, 2.0 * self.fraction() - 1.0);
            let square = x * x + y * y;
            if square > 0.0 && square <= 1.0 {
                return x / square.sqrt() * (2.0 * self.exponential()).sqrt();
            }
        }
    }

    /// Draws a number of items: Poisson with this mean, at least 1 and at most `items`.
    fn length(&mut self, mean: f64, items: u32) -> usize {
        self.poisson(mean).clamp(1, items as usize)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::readers::{Format, ReadOptions, read};
    use crate::transactions::MinSupport;
    use crate::writers::write_fimi;
    use proptest::prelude::*;

    #[test]
    fn the_default_is_the_papers_setting() {
        let data = QuestParameters::default().generate().unwrap();
        assert_eq!((data.len(), data.item_count()), (2_000, 30));
        assert!(
            data.item_supports().iter().all(|&support| support > 0),
            "every item occurs"
        );
        let mean = data.item_supports().iter().sum::<u64>() as f64 / 2_000.0;
        assert!((8.0..=11.0).contains(&mean), "{mean}");
        assert!(data.iter().all(|basket| !basket.is_empty()));
    }

    #[test]
    fn the_outcome_never_changes() {
        let data = QuestParameters::default().generate().unwrap();
        let mut text = Vec::new();
        write_fimi(&data, &mut text).unwrap();
        let first: Vec<&str> = std::str::from_utf8(&text)
            .unwrap()
            .lines()
            .take(3)
            .collect();
        assert_eq!(first, GOLDEN_FIRST_LINES);
        assert_eq!(crc32(&text), GOLDEN_CRC32);
    }

    const GOLDEN_FIRST_LINES: [&str; 3] = ["1 2 3 12 18 26 27", "2 17", "3 5 10 15 16 17 22 23 29"];
    const GOLDEN_CRC32: u32 = 2_684_359_819;

    fn crc32(bytes: &[u8]) -> u32 {
        let mut crc = flate2::Crc::new();
        crc.update(bytes);
        crc.sum()
    }

    #[test]
    fn seeds_give_different_transactions() {
        let with_seed = |seed| QuestParameters {
            seed,
            ..Default::default()
        };
        assert_ne!(with_seed(1).generate(), with_seed(2).generate());
    }

    #[test]
    fn random_variables_have_their_moments() {
        const DRAWS: usize = 100_000;
        let mut random = Random::new(7);
        let mut moments = |draw: &mut dyn FnMut(&mut Random) -> f64| {
            let values: Vec<f64> = (0..DRAWS).map(|_| draw(&mut random)).collect();
            let mean = values.iter().sum::<f64>() / DRAWS as f64;
            let deviations = values.iter().map(|value| (value - mean).powi(2));
            (mean, deviations.sum::<f64>() / DRAWS as f64)
        };
        let near = |(mean, variance): (f64, f64), expected: (f64, f64)| {
            (mean - expected.0).abs() < 0.03 && (variance - expected.1).abs() < 0.1
        };
        assert!(near(moments(&mut Random::exponential), (1.0, 1.0)));
        assert!(near(moments(&mut Random::normal), (0.0, 1.0)));
        assert!(near(moments(&mut |r| r.poisson(4.0) as f64), (4.0, 4.0)));
        assert!(near(
            moments(&mut |r| f64::from(r.below(3))),
            (1.0, 2.0 / 3.0)
        ));
    }

    #[test]
    fn parameters_out_of_range_are_refused() {
        let default = QuestParameters::default();
        for wrong in [
            QuestParameters {
                transactions: 0,
                ..default
            },
            QuestParameters {
                items: 0,
                ..default
            },
            QuestParameters {
                patterns: 0,
                ..default
            },
            QuestParameters {
                transaction_length: f64::NAN,
                ..default
            },
            QuestParameters {
                pattern_length: 0.5,
                ..default
            },
            QuestParameters {
                correlation: -0.1,
                ..default
            },
            QuestParameters {
                corruption_mean: 1.1,
                ..default
            },
            QuestParameters {
                corruption_variance: f64::INFINITY,
                ..default
            },
        ] {
            let error = wrong.generate().unwrap_err();
            assert!(matches!(error, QuestError::OutOfRange { .. }), "{wrong:?}");
        }
    }

    proptest! {
        #[test]
        fn what_is_generated_reads_back(
            transactions in 1u64..60,
            items in 1u32..40,
            patterns in 1u32..10,
            lengths in (1.0f64..20.0, 1.0f64..20.0),
            levels in (0.0f64..=1.0, 0.0f64..=1.0, 0.0f64..=1.0),
            seed: u64,
        ) {
            let data = QuestParameters {
                transactions,
                items,
                patterns,
                transaction_length: lengths.0,
                pattern_length: lengths.1,
                correlation: levels.0,
                corruption_mean: levels.1,
                corruption_variance: levels.2,
                seed,
            }
            .generate()
            .unwrap();
            let mut text = Vec::new();
            write_fimi(&data, &mut text).unwrap();
            let read_back = read(&text[..], "generated", &ReadOptions::of(Format::Fimi)).unwrap().0;
            prop_assert_eq!(read_back, data.restrict(MinSupport::Count(1)));
        }
    }
}
