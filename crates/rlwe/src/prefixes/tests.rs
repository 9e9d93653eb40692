//! Triples and quadruples from encryption to supports, and every kind of lie.

use super::*;
use crate::block::BlockResidues;
use crate::combine::tests::{Server, dataset, plain_support, pseudo_random_columns};
use crate::key::SecretGeneration;
use crate::key::tests::key;
use crate::range::RangeSums;
use crate::totals::{Bounds, Strata};
use oboro_ring::Blocks;
use oboro_ring::moment::MomentIndex;
use proptest::prelude::*;
use std::sync::LazyLock;

/// Parameters with N = 4096 and t = 40,961: samples of ten blocks.
fn parameters() -> Parameters {
    Parameters::new(12, 4, 40_961).unwrap()
}

const COLUMNS: u32 = 6;
/// Number of blocks; more than fit into t.
const BLOCKS: u64 = 12;
const TWO: NonZeroUsize = NonZeroUsize::new(2).unwrap();

/// Dataset of a few columns: the server's ciphertext and the owner's kept data.
struct Scene {
    key: DatasetKey,
    strata: Strata,
    /// Columns in the owner's order.
    order: Vec<Column>,
    reader: PrefixReader,
    columns: Vec<Vec<u64>>,
    /// Honest answer for each length and number of columns.
    answers: HashMap<(usize, usize), Vec<Vec<u8>>>,
}

/// Queries under test: length and number of columns.
const QUESTIONS: [(usize, usize); 5] = [(3, 3), (3, 5), (3, 6), (4, 4), (4, 6)];

fn scene(owner: u8) -> Scene {
    let key = key(owner, &parameters());
    let order = [3, 0, 5, 1, 4, 2].map(Column).to_vec();
    let kept = ColumnOrder::new(order.clone(), order.len(), &[]).unwrap();
    let bounds = Bounds::new(&parameters(), COLUMNS.into(), 4).unwrap();
    let extents = bounds
        .strata_of(BLOCKS * 4096, SecretGeneration::default())
        .unwrap();
    let strata = Strata::new(bounds, &extents).unwrap();
    assert_eq!(strata.ranges(), [0..BLOCKS, 0..10].map(Blocks::from));
    let mut columns = pseudo_random_columns(COLUMNS as usize, 64 * BLOCKS as usize);
    // Equal, and constant.
    columns[1] = columns[0].clone();
    columns[2].fill(u64::MAX);
    let server = dataset(&key, &columns);
    let verified = VerifiedLimbs::of(strata.bounds());
    let ranges = strata.ranges().iter().map(|range| {
        let sums = |limb| {
            let mut sums = RangeSums::new(&key, verified, limb, &kept);
            for block in range.start as usize..range.end as usize {
                let columns: Vec<&[u32]> = order
                    .iter()
                    .map(|&column| &server.blocks[block][column][limb][..])
                    .collect();
                // As with threads: separate shares, then merged.
                let mut share = RangeSums::new(&key, verified, limb, &kept);
                share.add(&[BlockResidues {
                    mask: &server.masks[block][limb],
                    columns: &columns,
                }]);
                sums.merge(&share);
            }
            sums.finish(&key)
        };
        Limb::first(verified.limbs()).map(sums).collect()
    });
    let reader = PrefixReader::new(&key, &strata, &kept, ranges.collect()).unwrap();
    let answer = |&(length, count): &(usize, usize)| {
        let question = PrefixQuery::new(&key, strata.clone(), &order[..count], length).unwrap();
        ((length, count), honest(&server, &question))
    };
    let answers = QUESTIONS.iter().map(answer).collect();
    Scene {
        key: key.clone(),
        answers,
        strata,
        order,
        reader,
        columns,
    }
}

fn honest(server: &Server<'_>, question: &PrefixQuery) -> Vec<Vec<u8>> {
    let index = MomentIndex::new(question.itemsets());
    (0..2)
        .map(|range| {
            let moments = 0..index.len();
            let packed = |moment| server.packed(&question.combiner, &index, range, moment);
            moments.flat_map(packed).collect()
        })
        .collect()
}

static SCENE: LazyLock<Scene> = LazyLock::new(|| scene(1));

impl Scene {
    fn question(&self, length: usize, columns: usize) -> PrefixQuery {
        let columns = &self.order[..columns];
        PrefixQuery::new(&self.key, self.strata.clone(), columns, length).unwrap()
    }

    fn is_right(&self, question: &PrefixQuery, answer: &[Vec<u8>]) -> bool {
        self.reader.verify(question, answer, TWO).is_ok()
    }
}

#[test]
fn every_prefix_of_either_length_is_verified_and_read() {
    for (length, columns) in QUESTIONS {
        let question = SCENE.question(length, columns);
        assert_eq!(question.limbs(), length);
        let answer = &SCENE.answers[&(length, columns)];
        let bytes = prefix_bytes(&parameters(), &SCENE.strata, columns as u64, length);
        assert_eq!(bytes, Some(2 * question.range_bytes() as u64));
        for threads in [NonZeroUsize::MIN, TWO] {
            let verified = SCENE.reader.verify(&question, answer, threads).unwrap();
            let found = verified.supports(threads).unwrap();
            let truth = question.itemsets().iter();
            let truth: Vec<u64> = truth.map(|it| plain_support(&SCENE.columns, it)).collect();
            assert_eq!(found.supports, truth, "{length} of {columns}");
            assert!(found.log2_largest_phase < found.log2_phase_bound);
        }
    }
}

/// Alters a residue of an answer, given by its moment, limb and slot.
fn alter(question: &PrefixQuery, range: &mut [u8], at: (usize, Limb, usize), delta: u32) {
    let (moment, limb, slot) = at;
    let bytes = &mut range[question.place(moment..moment + 1).unwrap()];
    let mut residues = vec![0; pack::unpacked_len(bytes.len())];
    pack::unpack(bytes, &mut residues);
    let q = parameters().limb_moduli()[limb];
    let each = residues.len() / question.limbs();
    let at = if each < 4096 {
        limb.0
    } else {
        limb.0 * 4096 + slot
    };
    residues[at] = match delta {
        // Another representative of the residue, if it fits.
        u32::MAX => residues[at] + q.value(),
        delta => q.add(residues[at], q.reduce(delta.into())),
    };
    pack::pack(&residues, bytes);
}

#[test]
fn lies_are_refused() {
    for (length, columns) in [(3, 5), (4, 6)] {
        let question = SCENE.question(length, columns);
        let right = &SCENE.answers[&(length, columns)];
        let refused = |what: &str, lie: &dyn Fn(&mut Vec<Vec<u8>>)| {
            let mut answer = right.clone();
            lie(&mut answer);
            assert!(answer != *right, "{what}");
            assert!(!SCENE.is_right(&question, &answer), "{what}");
        };
        let moments = question.moments();
        let polynomial = question.itemsets().len();
        let q = |limb: Limb| parameters().limb_moduli()[limb];
        for limb in Limb::first(question.limbs()) {
            for moment in [0, polynomial - 1, polynomial, moments - 2, moments - 1] {
                for range in 0..2 {
                    refused("one residue", &|it| {
                        alter(&question, &mut it[range], (moment, limb, 77), 40_961)
                    });
                }
                refused("ranges that cancel", &|it| {
                    alter(&question, &mut it[0], (moment, limb, 5), 1);
                    alter(
                        &question,
                        &mut it[1],
                        (moment, limb, 5),
                        q(limb).value() - 1,
                    );
                });
            }
            refused("scalars that cancel", &|it| {
                alter(&question, &mut it[0], (0, limb, 0), 9);
                alter(&question, &mut it[0], (1, limb, 0), q(limb).value() - 9);
            });
            refused("slots that cancel", &|it| {
                alter(&question, &mut it[0], (polynomial, limb, 0), 9);
                alter(
                    &question,
                    &mut it[0],
                    (polynomial, limb, 1),
                    q(limb).value() - 9,
                );
            });
            refused("a scalar against a slot", &|it| {
                alter(&question, &mut it[0], (0, limb, 0), 9);
                alter(
                    &question,
                    &mut it[0],
                    (moments - 1, limb, 0),
                    q(limb).value() - 9,
                );
            });
            // Only residues of small limbs have a second representative in 28 bits.
            if limb >= Limb(2) {
                refused("another representative", &|it| {
                    alter(&question, &mut it[0], (polynomial, limb, 3), u32::MAX);
                });
            }
        }
        // Beyond the last limb: padding.
        if length == 3 {
            refused("padding", &|it| {
                let place = question.place(0..1).unwrap();
                *it[0][place].last_mut().unwrap() ^= 0x80;
            });
        }
        refused("ranges swapped", &|it| it.swap(0, 1));
        refused("a range for the other", &|it| it[0] = it[1].clone());
        refused("moments swapped", &|it| {
            let each = question.place(polynomial..polynomial + 1).unwrap().len();
            let start = question.place(polynomial..polynomial + 1).unwrap().start;
            let (a, b) = it[0][start..start + 2 * each].split_at_mut(each);
            a.swap_with_slice(b);
        });
        refused("slots shifted", &|it| {
            let place = question.place(moments - 1..moments).unwrap();
            it[0][place].rotate_left(7);
        });
        refused("all 0", &|it| it[1].fill(0));
        refused("a range more", &|it| it.push(it[0].clone()));
        refused("a range less", &|it| drop(it.pop()));
        refused("a byte more", &|it| it[1].push(0));
        refused("a byte less", &|it| {
            it[0].pop();
        });
        refused("nothing", &|it| it.clear());
    }
    let other = SCENE.question(3, 6);
    assert!(!SCENE.is_right(&other, &SCENE.answers[&(3, 5)]));
}

#[test]
fn answers_about_another_encryption_are_refused() {
    // Equal data under the key, with other masks.
    let again = scene(1);
    for question in QUESTIONS {
        let asked = SCENE.question(question.0, question.1);
        assert!(!SCENE.is_right(&asked, &again.answers[&question]));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn no_altered_answer_is_read(
        which in 0..QUESTIONS.len(),
        range in 0usize..2,
        limb: prop::sample::Index,
        moment: prop::sample::Index,
        slot in 0usize..4096,
        delta in 1u32..1 << 26,
    ) {
        let question = SCENE.question(QUESTIONS[which].0, QUESTIONS[which].1);
        let mut answer = SCENE.answers[&QUESTIONS[which]].clone();
        let at = (moment.index(question.moments()), Limb(limb.index(question.limbs())), slot);
        alter(&question, &mut answer[range], at, delta);
        prop_assert!(!SCENE.is_right(&question, &answer));
    }
}

/// Computes the definition: elementary symmetric polynomials of points times residues, and powers of the mask.
#[test]
fn tokens_are_what_they_are_by_definition() {
    const POINTS: usize = 4096;
    let key = key(3, &parameters());
    let verified = VerifiedLimbs([2, 3, 4]);
    for limb in [1, 2, 3].map(Limb) {
        let q = parameters().limb_moduli()[limb];
        let residues = |seed: u32| -> Vec<u32> {
            let values = (0..POINTS as u32)
                .map(|it| (it ^ 0x5bd1).wrapping_mul(seed.wrapping_mul(0x9e37_79b9) | 1));
            values.map(|it| it % q.value()).collect()
        };
        let (mask, columns) = (residues(1), [2, 3, 4, 5, 6].map(residues));
        let slices: Vec<&[u32]> = columns.iter().map(Vec::as_slice).collect();
        let order = [4, 1, 0, 3, 9].map(Column);
        let points = Points::new(&key, limb, &order);
        let (field, weights) = (points.field(), key.slot_weights(limb));
        let mut tokens = PrefixTokens::new(verified.longer(limb), order.len());
        tokens.add(
            &points,
            &weights,
            &[BlockResidues {
                mask: &mask,
                columns: &slices,
            }],
        );
        for length in verified.longer(limb) {
            for count in 0..=order.len() {
                let mut token = Element::default();
                for bits in 0..1u32 << count {
                    let taken = bits.count_ones() as usize;
                    if taken > length {
                        continue;
                    }
                    let places = || (0..count).filter(|place| bits >> place & 1 == 1);
                    let point = places().fold(Element { a: 1, b: 0 }, |x, place| {
                        field.mul(x, points.each()[place])
                    });
                    let mut sum = Element::default();
                    for w in 0..POINTS {
                        let product = places().fold(1, |x, place| q.mul(x, columns[place][w]));
                        let power = q.pow(mask[w], (length - taken) as u64);
                        let weight = match length - taken {
                            0 => Element { a: 1, b: 0 },
                            _ => Element {
                                a: weights.a[w],
                                b: weights.b[w],
                            },
                        };
                        sum = field.add(sum, field.scale(weight, q.mul(product, power)));
                    }
                    token = field.add(token, field.mul(point, sum));
                }
                let found = tokens.of(field, length, count).unwrap();
                assert!(*found == token, "{length} of {count}, limb {limb}");
            }
        }
        assert!(tokens.of(field, 2, 0).is_none());
    }
}

/// Checks docs/cryptography.md, "Derivation of secrets", against values computed from it in Python.
#[test]
fn weights_are_the_golden_ones() {
    let weights = key(1, &parameters()).slot_weights(Limb(3));
    let of = |slot: usize| (weights.a[slot], weights.b[slot]);
    let golden = ((57_153_610, 56_064_182), (34_924_430, 77_093_140));
    assert_eq!((of(0), of(4095)), golden);
}

#[test]
#[should_panic(expected = "a prefix of the owner's order")]
fn a_question_about_other_columns_is_the_owners_mistake() {
    let columns = [SCENE.order[0], SCENE.order[1], SCENE.order[3]];
    let question = PrefixQuery::new(&SCENE.key, SCENE.strata.clone(), &columns, 3).unwrap();
    SCENE.is_right(&question, &SCENE.answers[&(3, 3)]);
}

#[test]
fn questions_without_itemsets_or_beyond_the_bounds_are_refused() {
    let question = |columns: &[Column], length| {
        let asked = PrefixQuery::new(&SCENE.key, SCENE.strata.clone(), columns, length);
        asked.err().expect("no question")
    };
    assert_eq!(
        question(&[1, 2].map(Column), 3),
        PrefixError::Itemsets(RequestError::Empty)
    );
    assert!(matches!(
        question(&[0, 1, 2, 3, 4].map(Column), 5),
        PrefixError::Length(_)
    ));
    assert_eq!(prefix_bytes(&parameters(), &SCENE.strata, 6, 5), None);
    assert_eq!(
        prefix_bytes(&parameters(), &SCENE.strata, 1 << 40, 4),
        Some(u64::MAX)
    );
}

#[test]
fn nothing_secret_is_printed() {
    let printed = format!("{:?}", SCENE.reader);
    assert_eq!(printed, "PrefixReader(6 columns, 2 ranges, secret)");
    let tokens = PrefixTokens::new([3, 4].into_iter(), 2);
    assert_eq!(format!("{tokens:?}"), "PrefixTokens(2 lengths, secret)");
}
