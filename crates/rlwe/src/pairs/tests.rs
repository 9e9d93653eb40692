//! Pairs from encryption to supports: structured columns, appended blocks, and every kind of lie.

use super::*;
use crate::block::BlockResidues;
use crate::encrypt::{Block, Encryptor};
use crate::key::tests::key;
use crate::key::{DatasetKey, SecretGeneration};
use crate::prefix_tokens::VerifiedLimbs;
use crate::range::RangeSums;
use crate::totals::Bounds;
use oboro_ring::{Column, mask, vector};
use proptest::prelude::*;

const LIMBS: usize = 2;

/// Strata of `transactions` transactions encrypted together.
fn strata(transactions: u64) -> Strata {
    let bounds = Bounds::new(&parameters(), COLUMNS as u64, 2).unwrap();
    let extents = bounds
        .strata_of(transactions, SecretGeneration::default())
        .unwrap();
    assert_eq!(extents.len(), 1);
    Strata::new(bounds, &extents).unwrap()
}

/// Parameters with N = 2048 and t = 12,289: samples of six blocks.
fn parameters() -> Parameters {
    Parameters::new(11, LIMBS, 12_289).unwrap()
}

/// Dataset of a few columns: the server's ciphertext and the owner's kept data.
struct Scene {
    reader: PairReader,
    /// Honest server's counts in each block: by limb, row and column.
    blocks: Vec<Gram>,
    /// Supports of all pairs.
    truth: Vec<Vec<u64>>,
}

type Gram = Vec<Vec<Vec<u32>>>;

/// Bit of a column. Shuffled data look random, but these do not; pairs of them add up coherently.
fn bit(column: usize, row: u64) -> bool {
    let degree = 2048;
    match column {
        // Two equal columns, and reversed ones within each block.
        0 | 1 => row.is_multiple_of(3),
        2 => (row - row % degree + degree - 1 - row % degree).is_multiple_of(3),
        3 => true,
        4 => false,
        5 => row.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 63 == 1,
        _ => row % degree < degree / 2,
    }
}

const COLUMNS: usize = 7;

impl Scene {
    /// Encrypts `transactions` rows without shuffling; all pairs have fixed parts.
    fn new(owner: u8, transactions: u64) -> Self {
        let columns = Column::first(COLUMNS as u32).collect();
        Self::in_order(
            owner,
            transactions,
            ColumnOrder::new(columns, COLUMNS, &[]).unwrap(),
        )
    }

    /// As [`new`](Self::new), but only pairs of the first three columns have fixed parts, and those of the second and
    /// the sixth.
    fn wide(owner: u8, transactions: u64) -> Self {
        let columns = Column::first(COLUMNS as u32).collect();
        Self::in_order(
            owner,
            transactions,
            ColumnOrder::new(columns, 3, &[1, 5].map(Column)).unwrap(),
        )
    }

    fn in_order(owner: u8, transactions: u64, order: ColumnOrder) -> Self {
        let parameters = parameters();
        let key = key(owner, &parameters);
        let strata = strata(transactions);
        let verified = VerifiedLimbs::of(strata.bounds());
        let new = || -> Vec<RangeSums> {
            Limb::first(LIMBS)
                .map(|limb| RangeSums::new(&key, verified, limb, &order))
                .collect()
        };
        let (mut total, mut sample) = (new(), new());
        let mut truth = vec![vec![0; COLUMNS]; COLUMNS];
        let mut grams = Vec::new();
        for block in 0..transactions.div_ceil(2048) {
            let bits: Vec<Vec<u64>> = (0..COLUMNS)
                .map(|column| bits(column, block, transactions))
                .collect();
            for (i, row) in truth.iter_mut().enumerate() {
                for (j, support) in row.iter_mut().enumerate() {
                    let both = bits[i]
                        .iter()
                        .zip(&bits[j])
                        .map(|(a, b)| (a & b).count_ones());
                    *support += u64::from(both.sum::<u32>());
                }
            }
            let mut gram = Vec::new();
            for (limb, (mask, columns)) in Limb::enumerate(encrypt(&key, block, &bits)) {
                let columns: Vec<&[u32]> = columns.iter().map(Vec::as_slice).collect();
                // As with threads: separate shares, then merged.
                let mut share = RangeSums::new(&key, verified, limb, &order);
                add(&mut share, &order, &mask, &columns);
                total[limb].merge(&share);
                if block < parameters.sample_blocks() {
                    add(&mut sample[limb], &order, &mask, &columns);
                }
                let q = &parameters.limb_moduli()[limb];
                let row = |a: &&[u32]| columns.iter().map(|b| vector::dot(q, a, b)).collect();
                gram.push(columns.iter().map(row).collect());
            }
            grams.push(gram);
        }
        let finish = |sums: Vec<RangeSums>| sums.into_iter().map(|it| it.finish(&key)).collect();
        let mut ranges = vec![finish(total)];
        if strata.ranges().len() > 1 {
            ranges.push(finish(sample));
        }
        Self {
            reader: PairReader::new(&key, strata, &order, ranges).unwrap(),
            blocks: grams,
            truth,
        }
    }

    /// Sums over these blocks, by limb, row and column.
    fn gram(&self, blocks: impl Iterator<Item = usize>) -> Gram {
        let mut sum = vec![vec![vec![0; COLUMNS]; COLUMNS]; LIMBS];
        for block in blocks {
            for (limb, rows) in self.blocks[block].iter().enumerate() {
                let q = parameters().limb_moduli()[limb];
                let sums = sum[limb].iter_mut().flatten();
                sums.zip(rows.iter().flatten())
                    .for_each(|(sum, &more)| *sum = q.add(*sum, more));
            }
        }
        sum
    }

    /// Computes the honest answer to a query for some sums of each limb.
    fn answer(&self, take: impl Fn(&[Vec<u32>]) -> Vec<u32>) -> Vec<Sums> {
        let of = |gram: Gram| gram.iter().map(|rows| take(rows)).collect();
        let ranges = self.reader.strata.ranges().iter();
        ranges
            .map(|range| of(self.gram(range.start as usize..range.end as usize)))
            .collect()
    }

    fn prefix(&self, columns: usize) -> Vec<Sums> {
        self.answer(|rows| sums_of(rows, columns))
    }

    fn row(&self, place: usize) -> Vec<Sums> {
        self.answer(|rows| [&rows[place][..place], &rows[place][place + 1..]].concat())
    }

    /// Reads an answer about a prefix, as the owner.
    fn read(&self, columns: usize, sums: &[Sums]) -> Result<Vec<u64>, PairsError> {
        self.reader.verify_prefix(columns, sums)?.supports()
    }
}

/// Adds a block modulo one limb.
fn add(sums: &mut RangeSums, order: &ColumnOrder, mask: &[u32], columns: &[&[u32]]) {
    let paired = &columns[..order.paired().len()];
    sums.add(&[BlockResidues {
        mask,
        columns: paired,
    }]);
    let focus = order.focus().iter().map(|&place| columns[place]).collect();
    if let Some(mut pass) = sums.pass(&[mask], &[focus]) {
        for (place, &column) in columns.iter().enumerate() {
            pass.add(place, &[column]);
        }
    }
}

/// Sums of the pairs of a prefix, in lexicographic order.
fn sums_of(rows: &[Vec<u32>], columns: usize) -> Vec<u32> {
    let pairs = (0..columns).flat_map(|i| (i + 1..columns).map(move |j| (i, j)));
    pairs.map(|(i, j)| rows[i][j]).collect()
}

/// Column of a block, 64 slots per word.
fn bits(column: usize, block: u64, transactions: u64) -> Vec<u64> {
    let word = |word: u64| {
        (0..64).fold(0, |bits, slot| {
            let row = block * 2048 + word * 64 + slot;
            bits | u64::from(row < transactions && bit(column, row)) << slot
        })
    };
    (0..2048 / 64).map(word).collect()
}

/// Encrypts a block: for each limb its mask and the ciphertext of each column.
fn encrypt(key: &DatasetKey, block: u64, bits: &[Vec<u64>]) -> Vec<(Vec<u32>, Vec<Vec<u32>>)> {
    let columns: Vec<&[u64]> = bits.iter().map(|it| &it[..]).collect();
    let block = Block::new(key, block, &columns).unwrap();
    let degree = key.ring().degree();
    let mut all: Vec<(Vec<u32>, Vec<Vec<u32>>)> = Limb::first(LIMBS)
        .map(|limb| {
            let mut values = vec![0; degree];
            mask::expand(&block.seed(), key.ring().parameters(), limb, &mut values);
            (values, vec![vec![0; degree]; bits.len()])
        })
        .collect();
    let mut encryptor = Encryptor::new(key);
    for column in Column::first(bits.len() as u32) {
        encryptor.begin_column(column);
        let mut limbs: Vec<&mut [u32]> = all.iter_mut().map(|it| &mut it.1[column][..]).collect();
        encryptor.encrypt(&block, &mut limbs).unwrap();
    }
    all
}

/// Transactions in 20 blocks, and in 8: more than fit into t.
const MANY: u64 = 20 * 2048 - 5;
const EIGHT_BLOCKS: u64 = 8 * 2048 - 5;

#[test]
fn supports_of_structured_columns_are_exact() {
    let scene = Scene::new(1, MANY);
    assert_eq!(
        scene.reader.strata.ranges(),
        [0..20, 0..6].map(Blocks::from)
    );
    // Rows are not shuffled here, but the sample happens to be representative.
    for columns in 0..=COLUMNS {
        let supports = scene.read(columns, &scene.prefix(columns)).unwrap();
        let pairs = (0..columns).flat_map(|i| (i + 1..columns).map(move |j| (i, j)));
        let truth: Vec<u64> = pairs.map(|(i, j)| scene.truth[i][j]).collect();
        assert_eq!(supports, truth, "{columns}");
    }
    for place in 0..COLUMNS {
        let sums = scene.row(place);
        let supports = scene.reader.verify_row(place, &sums).unwrap().supports();
        let others = (0..COLUMNS).filter(|&it| it != place);
        let truth: Vec<u64> = others.map(|other| scene.truth[place][other]).collect();
        assert_eq!(supports, Ok(truth), "{place}");
    }
}

/// Checks pairs of the first columns, and rows of focus columns.
#[test]
fn pairs_of_many_columns_are_exact() {
    for transactions in [MANY, 5_000] {
        let scene = Scene::wide(1, transactions);
        for columns in 0..=3 {
            let supports = scene.read(columns, &scene.prefix(columns)).unwrap();
            let truth = pairs_of(columns)
                .into_iter()
                .map(|(i, j)| scene.truth[i][j]);
            assert!(truth.eq(supports), "{columns}");
        }
        for place in [1, 5] {
            let sums = scene.row(place);
            let supports = scene.reader.verify_row(place, &sums).unwrap().supports();
            let others = (0..COLUMNS).filter(|&it| it != place);
            let truth: Vec<u64> = others.map(|other| scene.truth[place][other]).collect();
            assert_eq!(supports, Ok(truth), "{place}");
        }
    }
}

#[test]
fn lies_about_many_columns_are_refused() {
    let scene = Scene::wide(2, EIGHT_BLOCKS);
    let right = scene.row(5);
    let other = scene.row(1);
    assert!(scene.reader.verify_row(5, &right).is_ok());
    for (range, limb) in [(0, 0), (0, 1), (1, 0), (1, 1)] {
        let q = parameters().limb_moduli()[limb];
        let mut lie = right.clone();
        lie[range][limb][4] = q.add(lie[range][limb][4], 12_289);
        assert!(scene.reader.verify_row(5, &lie).is_err());
    }
    for lie in [other, Scene::wide(2, EIGHT_BLOCKS).row(5), scene.prefix(4)] {
        assert!(scene.reader.verify_row(5, &lie).is_err());
    }
}

#[test]
fn few_transactions_need_no_sample() {
    let scene = Scene::new(1, 5_000);
    assert_eq!(scene.reader.strata.ranges().len(), 1);
    let sums = scene.prefix(3);
    let truth = [scene.truth[0][1], scene.truth[0][2], scene.truth[1][2]];
    assert_eq!(scene.read(3, &sums), Ok(truth.to_vec()));
    let superfluous = [sums.clone(), sums].concat();
    assert_eq!(scene.read(3, &superfluous), Err(PairsError::NotVerified));
}

/// Checks that an error in one range or limb is not compensated by correct values, or the opposite error, in another.
#[test]
fn ranges_and_limbs_are_verified_each_by_itself() {
    let scene = Scene::new(2, EIGHT_BLOCKS);
    let right = scene.prefix(3);
    assert!(scene.read(3, &right).is_ok());
    let refused = |lie: &dyn Fn(&mut Sums, &mut Sums)| {
        let mut sums = right.clone();
        let [total, sample] = &mut sums[..] else {
            panic!("a total and a sample")
        };
        lie(total, sample);
        assert_ne!(sums, right);
        assert_eq!(scene.read(3, &sums), Err(PairsError::NotVerified));
    };
    for limb in 0..LIMBS {
        let q = parameters().limb_moduli()[limb];
        refused(&|total, _| total[limb][1] = q.add(total[limb][1], 12_289));
        refused(&|_, sample| sample[limb][1] = q.add(sample[limb][1], 12_289));
        refused(&|total, sample| {
            total[limb][1] = q.add(total[limb][1], 12_289);
            sample[limb][1] = q.sub(sample[limb][1], 12_289);
        });
        // An equal support, in another representative.
        refused(&|total, _| total[limb][2] += q.value());
    }
    // Off by a multiple of t in every limb, which would leave the support unchanged.
    refused(&|total, _| {
        for (limb, sums) in total.iter_mut().enumerate() {
            let q = parameters().limb_moduli()[limb];
            sums[0] = q.add(sums[0], 12_289);
        }
    });
    refused(&|total, sample| std::mem::swap(total, sample));
    refused(&|total, sample| total.clone_from(sample));
    refused(&|total, _| total.swap(0, 1));
    refused(&|total, _| drop(total.pop()));
    refused(&|_, sample| sample.clear());
    refused(&|total, _| total.push(total[0].clone()));
    refused(&|total, _| total[1].truncate(2));
    refused(&|total, _| total[1].push(0));
    assert_eq!(scene.read(3, &right[..1]), Err(PairsError::NotVerified));
    // Answers to another query, of another dataset, of another encryption of this data.
    let [four, other, again] = [
        scene.prefix(4),
        Scene::new(3, EIGHT_BLOCKS).prefix(3),
        Scene::new(2, EIGHT_BLOCKS).prefix(3),
    ];
    for sums in [four, other, again] {
        assert_eq!(scene.read(3, &sums), Err(PairsError::NotVerified));
    }
    for (place, is_right) in [(1, true), (2, false)] {
        let row = scene.row(place);
        assert_eq!(scene.reader.verify_row(1, &row).is_ok(), is_right);
    }
}

/// Checks sums of the right ciphertext, but with blocks missing or counted twice.
#[test]
fn sums_over_other_blocks_are_refused() {
    let scene = Scene::new(6, EIGHT_BLOCKS);
    let right = scene.prefix(5);
    let total = |blocks: &[usize]| {
        let gram = scene.gram(blocks.iter().copied());
        let total = gram.iter().map(|rows| sums_of(rows, 5)).collect();
        vec![total, right[1].clone()]
    };
    assert_eq!(total(&[0, 1, 2, 3, 4, 5, 6, 7]), right);
    assert_eq!(total(&[7, 6, 5, 4, 3, 2, 1, 0]), right);
    for blocks in [
        // The last block missing, as before an append; replaced by another; one block twice.
        &[0, 1, 2, 3, 4, 5, 6][..],
        &[0, 1, 2, 3, 4, 5, 6, 6],
        &[0, 1, 2, 3, 4, 5, 6, 7, 7],
        &[],
    ] {
        assert_eq!(scene.read(5, &total(blocks)), Err(PairsError::NotVerified));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(8))]

    #[test]
    fn no_altered_sum_is_read(
        columns in 2usize..=COLUMNS,
        in_sample: bool,
        limb in 0..LIMBS,
        at: prop::sample::Index,
        delta in 1u32..134_000_000,
    ) {
        let scene = Scene::new(5, EIGHT_BLOCKS);
        let q = parameters().limb_moduli()[limb];
        let alter = |mut sums: Vec<Sums>| {
            let range = &mut sums[usize::from(in_sample)];
            let sum = at.index(range[limb].len());
            range[limb][sum] = q.add(range[limb][sum], q.reduce(delta.into()));
            sums
        };
        prop_assert!(scene.read(columns, &scene.prefix(columns)).is_ok());
        let sums = alter(scene.prefix(columns));
        prop_assert_eq!(scene.read(columns, &sums), Err(PairsError::NotVerified));
        let sums = alter(scene.row(columns - 1));
        prop_assert!(scene.reader.verify_row(columns - 1, &sums).is_err());
    }
}

#[test]
#[should_panic(expected = "pairs with fixed parts")]
fn a_question_about_more_columns_is_the_owners_mistake() {
    let scene = Scene::new(1, 5_000);
    let _ = scene.read(COLUMNS + 1, &scene.prefix(COLUMNS));
}

/// Checks the phases of honest sums, relative to their bound: below it, and not negligible.
#[test]
fn phases_stay_within_their_bound() {
    let scene = Scene::new(7, MANY);
    for (reader, blocks) in scene.reader.ranges.iter().zip([20, 6]) {
        let gram = scene.gram(0..blocks);
        let mut largest = 0;
        for i in 0..COLUMNS {
            for j in i + 1..COLUMNS {
                let limbs = reader.limbs.iter().zip(&gram);
                let sums = limbs.map(|(kept, rows)| (rows[i][j], kept.fixed.of(i, j)));
                largest = largest.max(reader.decoder.phase(sums).abs());
            }
        }
        let share = largest as f64 / reader.decoder.bound() as f64;
        assert!((0.001..0.9).contains(&share), "{share}");
    }
}

#[test]
fn nothing_secret_is_printed() {
    let scene = Scene::new(1, 5_000);
    let printed = format!("{:?}", scene.reader);
    assert_eq!(printed, "PairReader(7 columns, 1 ranges, secret)");
    let key = key(1, &parameters());
    let order = ColumnOrder::new([1, 2, 3].map(Column).to_vec(), 2, &[Column(3)]).unwrap();
    let limb = RangeSums::new(&key, VerifiedLimbs([2, 0, 0]), Limb(0), &order).finish(&key);
    let printed = format!("{limb:?}");
    assert!(printed.contains("Row(3 columns, secret)"), "{printed}");
    assert!(
        printed.contains("PairTokens(2 columns, secret)"),
        "{printed}"
    );
    assert!(
        printed.contains("FixedParts(2 columns, secret)"),
        "{printed}"
    );
}

/// Number of honest queries: OBORO_QUESTIONS, or a hundredth of the number in `make nightly`.
fn questions() -> usize {
    let given = std::env::var("OBORO_QUESTIONS").ok();
    given.map_or(1_000, |given| given.parse().unwrap())
}

/// Sends random queries to an honest server, for freshly encrypted datasets: no false alarm, and the supports are
/// right.
#[test]
fn honest_questions_raise_no_alarm() {
    let mut asked = 0;
    while asked < questions() {
        let scene = Scene::new((asked % 251) as u8, EIGHT_BLOCKS);
        // Many queries each: rows, and prefixes of every length.
        for columns in 0..=COLUMNS {
            let supports = scene.read(columns, &scene.prefix(columns)).unwrap();
            let pairs = (0..columns).flat_map(|i| (i + 1..columns).map(move |j| (i, j)));
            assert!(pairs.map(|(i, j)| scene.truth[i][j]).eq(supports));
            asked += 1;
        }
        for place in 0..COLUMNS {
            let sums = scene.row(place);
            let supports = scene.reader.verify_row(place, &sums).unwrap().supports();
            let others = (0..COLUMNS).filter(|&it| it != place);
            assert!(
                others
                    .map(|it| scene.truth[place][it])
                    .eq(supports.unwrap())
            );
            asked += 1;
        }
    }
}
