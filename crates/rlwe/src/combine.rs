//! From moments to supports.
//!
//! The phase of itemset `S` is `Σ_{T⊆S} (Π_{i∈S∖T} s_i)·M_{T,|S|−|T|}`; only its constant
//! coefficient is needed, which is `N^{-1}` times the sum of the evaluation form: a scalar moment
//! as it comes, and for every other moment a dot product with a product of secrets. Moments come
//! in parts, in any order, on any thread, and are forgotten as soon as they are added.

use crate::key::DatasetKey;
use crate::noise::{limbs_for_level, log2_phase_bound};
use oboro_ring::moment::{Itemsets, MomentIndex};
use oboro_ring::{Modulus, Ring, vector};
use std::collections::HashMap;
use std::ops::Range;
use std::sync::{Arc, RwLock};
use thiserror::Error;
use zeroize::Zeroizing;

/// Products of secrets are kept for reuse up to this many bytes.
const CACHE_BYTES: usize = 512 << 20;

const TWICE: &str = "the same blocks of a moment twice";

/// Moments that do not fit the question, or an answer that cannot be true.
///
/// Not every wrong answer is [`Impossible`](CombineError::Impossible): the more blocks a group has and
/// the closer its bound is to `Q/2`, the more random phases pass for possible ones.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[allow(missing_docs)]
pub enum CombineError {
    #[error(
        "itemsets of length {level} are beyond this dataset's parameters, which carry {longest}; encrypt it again with a larger --max-len"
    )]
    LevelTooHigh { level: usize, longest: usize },
    #[error(
        "the server sent moments that were not asked for ({0}); it may run another version or be altered"
    )]
    Unexpected(&'static str),
    #[error(
        "the server's answer is incomplete: moment {moment} lacks block {block} modulo limb {limb}; ask again"
    )]
    Incomplete {
        limb: usize,
        moment: usize,
        block: u64,
    },
    #[error(
        "the answer for itemset {itemset} is impossible: its phase or support is out of bounds; the data on the server was altered, or it was encrypted with another key"
    )]
    Impossible { itemset: usize },
}

/// A part of the moments of a query, as the server sends it.
#[derive(Debug, Clone)]
pub struct Partial<'a> {
    /// The limb the residues belong to.
    pub limb: usize,
    /// The blocks summed over; within one group.
    pub blocks: Range<u64>,
    /// Which moments, in canonical order; all with the same power of the mask.
    pub moments: Range<usize>,
    /// Their residues: one each if the power is 0, else `N` each in evaluation form.
    pub residues: &'a [u32],
}

/// Supports, in the order of the itemsets asked for.
#[derive(Debug, Clone, PartialEq)]
pub struct Answer {
    /// The number of transactions that hold each itemset.
    pub supports: Vec<u64>,
    /// `log2` of the largest phase met, to compare with the bound.
    pub log2_largest_phase: f64,
    /// `log2` of what the phase of a full group may be.
    pub log2_phase_bound: f64,
}

/// Combines the moments of one query with the secrets. Shared by threads, each with its [`Phases`].
pub struct Combiner {
    key: DatasetKey,
    itemsets: Itemsets,
    index: MomentIndex,
    limbs: usize,
    blocks: u64,
    uses: Uses,
    secrets: RwLock<SecretProducts>,
}

/// For each moment with a power of the mask: the itemsets that it helps to answer.
struct Uses {
    starts: Vec<usize>,
    entries: Vec<Use>,
}

#[derive(Clone, Copy)]
struct Use {
    itemset: u32,
    /// The positions within the itemset whose secrets are multiplied: `S ∖ T`.
    secrets: u32,
}

/// A product of secrets in evaluation form modulo one limb.
type SecretProduct = Arc<Zeroizing<Vec<u32>>>;

#[derive(Default)]
struct SecretProducts {
    by_columns: HashMap<(usize, Box<[u32]>), SecretProduct>,
    bytes: usize,
}

/// One thread's share of the phases: residues of `N·Φ_0` for each limb, group and itemset.
#[derive(Clone)]
pub struct Phases {
    residues: Zeroizing<Vec<u32>>,
    /// A bit for each limb, moment and block: whether it is in.
    covered: Vec<u64>,
}

impl Combiner {
    /// Prepares for the moments of `itemsets` over a dataset of `blocks` blocks.
    pub fn new(key: DatasetKey, itemsets: Itemsets, blocks: u64) -> Result<Self, CombineError> {
        let level = itemsets.length();
        let ring = key.ring();
        let limbs = limbs_for_level(ring.parameters(), level).ok_or_else(|| {
            CombineError::LevelTooHigh {
                level,
                longest: (1..level)
                    .rev()
                    .find(|&k| limbs_for_level(ring.parameters(), k).is_some())
                    .unwrap_or(0),
            }
        })?;
        let index = MomentIndex::new(&itemsets);
        let uses = Uses::new(&itemsets, &index);
        Ok(Self {
            key,
            itemsets,
            index,
            limbs,
            blocks,
            uses,
            secrets: RwLock::default(),
        })
    }

    /// The limbs that must be asked for.
    pub fn limbs(&self) -> usize {
        self.limbs
    }

    /// The itemsets asked for.
    pub fn itemsets(&self) -> &Itemsets {
        &self.itemsets
    }

    /// The residues that a whole answer has, if each group comes in one part.
    pub fn answer_residues(&self) -> u64 {
        let scalars = self.index.rank(0).len() as u64;
        let polynomials = self.index.len() as u64 - scalars;
        (scalars + polynomials * self.key.ring().degree() as u64)
            * self.limbs as u64
            * self.groups() as u64
    }

    /// The residues of one moment: 1 for a scalar or a moment that does not exist, else `N`.
    pub fn residues_of(&self, moment: usize) -> usize {
        if moment < self.index.rank(0).end || moment >= self.index.len() {
            1
        } else {
            self.key.ring().degree()
        }
    }

    /// An empty share.
    pub fn phases(&self) -> Phases {
        Phases {
            residues: Zeroizing::new(vec![0; self.limbs * self.groups() * self.itemsets.len()]),
            covered: vec![0; (self.limbs * self.index.len() * self.blocks as usize).div_ceil(64)],
        }
    }

    /// Adds a part of the moments to one thread's share.
    pub fn absorb(&self, phases: &mut Phases, partial: &Partial<'_>) -> Result<(), CombineError> {
        let rank = self.check(partial)?;
        self.cover(&mut phases.covered, partial)?;
        let q = *self.key.ring().limbs()[partial.limb].modulus();
        let group = (partial.blocks.start / self.key.ring().parameters().group_blocks()) as usize;
        let row = (partial.limb * self.groups() + group) * self.itemsets.len();
        let row = &mut phases.residues[row..row + self.itemsets.len()];
        if rank == 0 {
            for (phase, &scalar) in row[partial.moments.clone()]
                .iter_mut()
                .zip(partial.residues)
            {
                *phase = q.add(*phase, scalar);
            }
        } else {
            for (moment, residues) in partial
                .moments
                .clone()
                .zip(partial.residues.chunks_exact(self.key.ring().degree()))
            {
                for entry in self.uses.of(moment) {
                    let secrets = self.product(partial.limb, &self.columns(*entry));
                    let phase = &mut row[entry.itemset as usize];
                    *phase = q.add(*phase, vector::dot(&q, &secrets, residues));
                }
            }
        }
        Ok(())
    }

    /// Adds another thread's share.
    ///
    /// # Errors
    /// Both hold the same blocks of a moment.
    pub fn merge(&self, phases: &mut Phases, other: &Phases) -> Result<(), CombineError> {
        for (bits, more) in phases.covered.iter_mut().zip(&other.covered) {
            if *bits & more != 0 {
                return Err(CombineError::Unexpected(TWICE));
            }
            *bits |= more;
        }
        let row = self.groups() * self.itemsets.len();
        let shares = phases
            .residues
            .chunks_mut(row)
            .zip(other.residues.chunks(row));
        for ((sums, more), ntt) in shares.zip(self.key.ring().limbs()) {
            vector::add_assign(ntt.modulus(), more, sums);
        }
        Ok(())
    }

    /// Decrypts, once all parts are in.
    pub fn finish(&self, phases: &Phases) -> Result<Answer, CombineError> {
        self.is_complete(&phases.covered)?;
        let reconstruction = Reconstruction::new(self.key.ring(), self.limbs);
        let parameters = self.key.ring().parameters();
        let group_blocks = parameters.group_blocks();
        let mut answer = Answer {
            supports: vec![0; self.itemsets.len()],
            log2_largest_phase: 0.0,
            log2_phase_bound: log2_phase_bound(
                parameters,
                self.itemsets.length(),
                group_blocks.min(self.blocks),
            ),
        };
        for group in 0..self.groups() {
            let blocks = group_blocks.min(self.blocks - group as u64 * group_blocks);
            let bound = log2_phase_bound(parameters, self.itemsets.length(), blocks);
            let most = blocks * self.key.ring().degree() as u64;
            for (itemset, support) in answer.supports.iter_mut().enumerate() {
                let residue = |limb: usize| {
                    phases.residues[(limb * self.groups() + group) * self.itemsets.len() + itemset]
                };
                let (sum, log2_phase) = reconstruction.slot_sum(residue);
                if log2_phase > bound || u64::from(sum) > most {
                    return Err(CombineError::Impossible { itemset });
                }
                *support += u64::from(sum);
                answer.log2_largest_phase = answer.log2_largest_phase.max(log2_phase);
            }
        }
        Ok(answer)
    }

    /// Marks the blocks of a part, each of which may come once.
    fn cover(&self, covered: &mut [u64], partial: &Partial<'_>) -> Result<(), CombineError> {
        for moment in partial.moments.clone() {
            let row = (partial.limb * self.index.len() + moment) * self.blocks as usize;
            for at in row + partial.blocks.start as usize..row + partial.blocks.end as usize {
                let (word, bit) = (&mut covered[at / 64], 1 << (at % 64));
                if *word & bit != 0 {
                    return Err(CombineError::Unexpected(TWICE));
                }
                *word |= bit;
            }
        }
        Ok(())
    }

    /// That every block of every moment is in.
    fn is_complete(&self, covered: &[u64]) -> Result<(), CombineError> {
        let blocks = self.blocks as usize;
        let lacking = |&at: &usize| covered[at / 64] >> (at % 64) & 1 == 0;
        match (0..self.limbs * self.index.len() * blocks).find(lacking) {
            None => Ok(()),
            Some(at) => Err(CombineError::Incomplete {
                limb: at / blocks / self.index.len(),
                moment: at / blocks % self.index.len(),
                block: (at % blocks) as u64,
            }),
        }
    }

    fn groups(&self) -> usize {
        self.blocks
            .div_ceil(self.key.ring().parameters().group_blocks()) as usize
    }

    /// That a part fits the question; its power of the mask.
    fn check(&self, partial: &Partial<'_>) -> Result<usize, CombineError> {
        let unexpected = |what| Err(CombineError::Unexpected(what));
        let Partial {
            limb,
            ref blocks,
            ref moments,
            residues,
        } = *partial;
        if limb >= self.limbs {
            return unexpected("a limb that was not asked for");
        }
        if moments.is_empty() || moments.end > self.index.len() {
            return unexpected("moments beyond the last");
        }
        let rank = self.index.get(moments.start).0;
        if moments.end > self.index.rank(rank).end {
            return unexpected("moments of several powers of the mask together");
        }
        let group = self.key.ring().parameters().group_blocks();
        if blocks.is_empty()
            || blocks.end > self.blocks
            || blocks.start / group != (blocks.end - 1) / group
        {
            return unexpected("blocks outside one group");
        }
        let each = if rank == 0 {
            1
        } else {
            self.key.ring().degree()
        };
        if residues.len() != moments.len() * each {
            return unexpected("a wrong number of residues");
        }
        let q = self.key.ring().limbs()[limb].modulus().value();
        if residues.iter().fold(0, |largest, &r| largest.max(r)) >= q {
            return unexpected("a residue that is not below its modulus");
        }
        Ok(rank)
    }

    /// The columns whose secrets a use multiplies.
    fn columns(&self, entry: Use) -> Vec<u32> {
        let k = self.itemsets.length();
        let set = &self.itemsets.as_flat()[entry.itemset as usize * k..][..k];
        set.iter()
            .enumerate()
            .filter(|(i, _)| entry.secrets >> i & 1 == 1)
            .map(|(_, &c)| c)
            .collect()
    }

    /// The product of some columns' secrets in evaluation form, from the cache or by one
    /// multiplication from that of all but the last. Products of a whole itemset meet only the
    /// power of the mask and are not kept.
    fn product(&self, limb: usize, columns: &[u32]) -> SecretProduct {
        let key = (limb, Box::from(columns));
        if let Some(found) = self
            .secrets
            .read()
            .expect("no thread panics with the lock")
            .by_columns
            .get(&key)
        {
            return Arc::clone(found);
        }
        let (&last, others) = columns
            .split_last()
            .expect("a power of the mask comes with a secret");
        let product = if others.is_empty() {
            self.key.column_secret(last).evaluate(self.key.ring(), limb)
        } else {
            let (a, b) = (self.product(limb, others), self.product(limb, &[last]));
            let mut product = Zeroizing::new(vec![0; self.key.ring().degree()]);
            vector::multiply(
                self.key.ring().limbs()[limb].modulus(),
                &a,
                &b,
                &mut product,
            );
            product
        };
        let product = Arc::new(product);
        if columns.len() == self.itemsets.length() && columns.len() > 1 {
            return product;
        }
        let mut secrets = self
            .secrets
            .write()
            .expect("no thread panics with the lock");
        let bytes = 4 * self.key.ring().degree();
        if secrets.bytes + bytes > CACHE_BYTES {
            *secrets = SecretProducts::default();
        }
        if secrets
            .by_columns
            .insert(key, Arc::clone(&product))
            .is_none()
        {
            secrets.bytes += bytes;
        }
        product
    }
}

impl Uses {
    fn new(itemsets: &Itemsets, index: &MomentIndex) -> Self {
        let k = itemsets.length();
        let all = (1u32 << k) - 1;
        let mut pairs: Vec<(u32, Use)> = Vec::with_capacity(itemsets.len() << k);
        let mut subset = Vec::with_capacity(k);
        for (itemset, set) in itemsets.iter().enumerate() {
            for secrets in 1..=all {
                subset.clear();
                subset.extend(
                    set.iter()
                        .enumerate()
                        .filter(|(i, _)| secrets >> i & 1 == 0)
                        .map(|(_, &c)| c),
                );
                let moment = index.find(&subset).expect("the index holds all subsets");
                pairs.push((
                    moment as u32,
                    Use {
                        itemset: itemset as u32,
                        secrets,
                    },
                ));
            }
        }
        // By secrets within a moment, so that neighbours share products.
        pairs.sort_unstable_by_key(|(moment, entry)| (*moment, entry.secrets, entry.itemset));
        let starts = (0..=index.len())
            .map(|m| pairs.partition_point(|p| (p.0 as usize) < m))
            .collect();
        Self {
            starts,
            entries: pairs.into_iter().map(|(_, entry)| entry).collect(),
        }
    }

    fn of(&self, moment: usize) -> &[Use] {
        &self.entries[self.starts[moment]..self.starts[moment + 1]]
    }
}

/// Chinese remaindering of phases (Garner's mixed radix), and the way back to slot sums.
struct Reconstruction {
    limbs: Vec<Modulus>,
    plaintext: Modulus,
    degree: u32,
    /// `N^{-1} mod q_l`.
    degree_inverses: Vec<u32>,
    /// `inverses[i][j] = q_j^{-1} mod q_i` for `j < i`.
    inverses: Vec<Vec<u32>>,
}

impl Reconstruction {
    fn new(ring: &Ring, limbs: usize) -> Self {
        let moduli = &ring.parameters().limb_moduli()[..limbs];
        let inverse = |i: usize, j: usize| {
            let q: &Modulus = &moduli[i];
            q.inverse(q.reduce(moduli[j].value().into()))
        };
        Self {
            limbs: moduli.to_vec(),
            plaintext: *ring.slots().modulus(),
            degree: ring.degree() as u32,
            degree_inverses: ring.limbs()[..limbs]
                .iter()
                .map(|ntt| ntt.degree_inverse())
                .collect(),
            inverses: (0..limbs)
                .map(|i| (0..i).map(|j| inverse(i, j)).collect())
                .collect(),
        }
    }

    /// From the residues of `N·Φ_0` to the sum of the slots modulo `t`, and `log2 |Φ_0|`.
    fn slot_sum(&self, scaled: impl Fn(usize) -> u32) -> (u32, f64) {
        let mut residues: Vec<u32> = self
            .limbs
            .iter()
            .enumerate()
            .map(|(l, q)| q.mul(scaled(l), self.degree_inverses[l]))
            .collect();
        let mut digits = self.digits(&residues);
        // (Q − 1)/2 has the digits (q_l − 1)/2: above it stand the negative phases.
        let half = self.limbs.iter().map(|q| (q.value() - 1) / 2);
        let negative = digits.iter().rev().copied().gt(half.rev());
        if negative {
            for (r, q) in residues.iter_mut().zip(&self.limbs) {
                *r = q.neg(*r);
            }
            digits = self.digits(&residues);
        }
        let t = &self.plaintext;
        let (mut magnitude, mut value) = (0.0, 0);
        for (&digit, q) in digits.iter().zip(&self.limbs).rev() {
            magnitude = magnitude * f64::from(q.value()) + f64::from(digit);
            value = t.reduce(u64::from(value) * u64::from(q.value()) + u64::from(digit));
        }
        let constant = if negative { t.neg(value) } else { value };
        (
            t.mul(constant, t.reduce(self.degree.into())),
            f64::log2(magnitude.max(1.0)),
        )
    }

    /// Mixed-radix digits, least significant first: `x = d_0 + q_0·(d_1 + q_1·(d_2 + …))`.
    fn digits(&self, residues: &[u32]) -> Vec<u32> {
        let mut digits: Vec<u32> = Vec::with_capacity(residues.len());
        for (i, (&residue, q)) in residues.iter().zip(&self.limbs).enumerate() {
            let digit = digits
                .iter()
                .zip(&self.inverses[i])
                .fold(residue, |x, (&digit, &inverse)| {
                    q.mul(q.sub(x, q.reduce(digit.into())), inverse)
                });
            digits.push(digit);
        }
        digits
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::key::tests::key as key_in;
    use crate::{Block, Encryptor};
    use oboro_ring::{Parameters, mask};
    use proptest::prelude::*;

    /// A server in a few lines: every moment by its definition.
    struct Server<'a> {
        ring: &'a Ring,
        /// `[block][column][limb]`.
        blocks: Vec<Vec<Vec<Vec<u32>>>>,
        /// `[block][limb]`.
        masks: Vec<Vec<Vec<u32>>>,
    }

    impl Server<'_> {
        fn moment(
            &self,
            index: &MomentIndex,
            moment: usize,
            limb: usize,
            blocks: Range<u64>,
        ) -> Vec<u32> {
            let (r, columns) = index.get(moment);
            let q = self.ring.limbs()[limb].modulus();
            let mut sum = vec![0; self.ring.degree()];
            for b in blocks.start as usize..blocks.end as usize {
                let mut product = vec![1; self.ring.degree()];
                let factors = columns
                    .iter()
                    .map(|&c| &self.blocks[b][c as usize][limb])
                    .chain(std::iter::repeat_n(&self.masks[b][limb], r));
                for factor in factors {
                    let previous = product.clone();
                    vector::multiply(q, &previous, factor, &mut product);
                }
                vector::add_assign(q, &product, &mut sum);
            }
            if r == 0 {
                vec![vector::sum(q, &sum)]
            } else {
                sum
            }
        }
    }

    fn dataset<'a>(key: &'a DatasetKey, columns: &[Vec<u64>]) -> Server<'a> {
        let ring = key.ring();
        let words = ring.degree() / 64;
        let blocks = columns[0].len() / words;
        let mut server = Server {
            ring,
            blocks: Vec::new(),
            masks: Vec::new(),
        };
        for b in 0..blocks {
            let slices: Vec<&[u64]> = columns
                .iter()
                .map(|c| &c[b * words..(b + 1) * words])
                .collect();
            let block = Block::new(key, b as u64, &slices).unwrap();
            let mut encryptor = Encryptor::new(key);
            server.blocks.push(
                (0..columns.len() as u32)
                    .map(|column| {
                        encryptor.begin_column(column);
                        let mut limbs = vec![vec![0; ring.degree()]; ring.limbs().len()];
                        encryptor
                            .encrypt(
                                &block,
                                &mut limbs.iter_mut().map(Vec::as_mut_slice).collect::<Vec<_>>(),
                            )
                            .unwrap();
                        limbs
                    })
                    .collect(),
            );
            server.masks.push(
                (0..ring.limbs().len())
                    .map(|limb| {
                        let mut values = vec![0; ring.degree()];
                        mask::expand(&block.seed(), ring.parameters(), limb, &mut values);
                        values
                    })
                    .collect(),
            );
        }
        server
    }

    fn pseudo_random_columns(columns: usize, words: usize) -> Vec<Vec<u64>> {
        let mut state = 1u64;
        let mut next = move || {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            state ^ state >> 29
        };
        (0..columns)
            .map(|_| (0..words).map(|_| next() | next()).collect())
            .collect()
    }

    /// Columns with every structure that a bound on random data would miss.
    fn structured_columns(words_a_block: usize) -> impl Strategy<Value = Vec<Vec<u64>>> {
        #[derive(Debug, Clone)]
        enum Kind {
            Random(Vec<u64>),
            Same,
            ReversedInEachBlock,
            Complement,
            Ones,
            Zeros,
            Alternating,
        }
        let column = move |blocks: usize| {
            prop_oneof![
                2 => prop::collection::vec(any::<u64>(), words_a_block * blocks).prop_map(Kind::Random),
                1 => prop::collection::vec(any::<u64>().prop_map(|x| x & x >> 1 & x >> 2), words_a_block * blocks).prop_map(Kind::Random),
                1 => Just(Kind::Same),
                2 => Just(Kind::ReversedInEachBlock),
                1 => Just(Kind::Complement),
                1 => Just(Kind::Ones),
                1 => Just(Kind::Zeros),
                1 => Just(Kind::Alternating),
            ]
        };
        (1usize..=2)
            .prop_flat_map(move |blocks| (Just(blocks), prop::collection::vec(column(blocks), 5)))
            .prop_map(move |(blocks, kinds)| {
                let mut columns = vec![pseudo_random_columns(1, words_a_block * blocks).remove(0)];
                for kind in kinds {
                    let last = columns.last().expect("there is a first column");
                    columns.push(match kind {
                        Kind::Random(words) => words,
                        Kind::Same => last.clone(),
                        Kind::ReversedInEachBlock => last
                            .chunks(words_a_block)
                            .flat_map(|block| block.iter().rev().map(|w| w.reverse_bits()))
                            .collect(),
                        Kind::Complement => last.iter().map(|w| !w).collect(),
                        Kind::Ones => vec![u64::MAX; last.len()],
                        Kind::Zeros => vec![0; last.len()],
                        Kind::Alternating => vec![0x5555_5555_5555_5555; last.len()],
                    });
                }
                columns
            })
    }

    fn plain_support(columns: &[Vec<u64>], set: &[u32]) -> u64 {
        (0..columns[0].len())
            .map(|w| {
                set.iter()
                    .fold(u64::MAX, |and, &c| and & columns[c as usize][w])
                    .count_ones() as u64
            })
            .sum()
    }

    /// All itemsets of a length over some columns.
    fn all_itemsets(columns: u32, length: usize) -> Itemsets {
        let mut flat = Vec::new();
        for bits in 0..1u32 << columns {
            if bits.count_ones() as usize == length {
                flat.push(
                    (0..columns)
                        .filter(|c| bits >> c & 1 == 1)
                        .collect::<Vec<_>>(),
                );
            }
        }
        flat.sort();
        Itemsets::new(length, flat.concat(), columns).unwrap()
    }

    fn count(server: &Server<'_>, key: &DatasetKey, itemsets: &Itemsets) -> Answer {
        let blocks = server.blocks.len() as u64;
        let combiner = Combiner::new(key.clone(), itemsets.clone(), blocks).unwrap();
        let index = MomentIndex::new(itemsets);
        // Two threads' shares, parts of one block, the last first: order must not matter.
        let mut shares = [combiner.phases(), combiner.phases()];
        for block in (0..blocks).rev() {
            for moment in 0..index.len() {
                for limb in 0..combiner.limbs() {
                    let residues = server.moment(&index, moment, limb, block..block + 1);
                    let partial = Partial {
                        limb,
                        blocks: block..block + 1,
                        moments: moment..moment + 1,
                        residues: &residues,
                    };
                    combiner.absorb(&mut shares[moment % 2], &partial).unwrap();
                }
            }
        }
        let [mut all, other] = shares;
        combiner.merge(&mut all, &other).unwrap();
        combiner.finish(&all).unwrap()
    }

    fn key(log_degree: u32, limbs: usize, t: u32) -> DatasetKey {
        key_in(4, &Parameters::new(log_degree, limbs, t).unwrap())
    }

    #[test]
    fn supports_are_exact_at_every_level_and_noise_stays_below_its_bound() {
        let key = key(13, 5, 65537);
        let columns = pseudo_random_columns(5, 2 * 128);
        let server = dataset(&key, &columns);
        for level in 1..=5 {
            let itemsets = all_itemsets(5, level);
            let answer = count(&server, &key, &itemsets);
            for (set, &support) in itemsets.iter().zip(&answer.supports) {
                assert_eq!(support, plain_support(&columns, set), "{set:?}");
            }
            assert!(answer.log2_largest_phase <= answer.log2_phase_bound);
            // A bound that is nowhere near what happens would be a wrong formula.
            assert!(
                answer.log2_largest_phase > answer.log2_phase_bound - 12.0 - 8.0 * level as f64,
                "{answer:?}"
            );
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(12))]

        /// Identical, reversed and constant columns add up coherently; nothing may depend on that
        /// not happening, so they are encrypted here without the shuffle.
        #[test]
        fn supports_of_structured_columns_are_exact(columns in structured_columns(128)) {
            let key = key(13, 5, 65537);
            let server = dataset(&key, &columns);
            for level in 1..=5 {
                let itemsets = all_itemsets(6, level);
                let answer = count(&server, &key, &itemsets);
                for (set, &support) in itemsets.iter().zip(&answer.supports) {
                    prop_assert_eq!(support, plain_support(&columns, set), "{:?}", set);
                }
                prop_assert!(answer.log2_largest_phase <= answer.log2_phase_bound);
            }
        }
    }

    #[test]
    fn groups_are_added_after_decryption() {
        // t = 40961 holds ten blocks of 4096; eleven blocks of ones are two groups.
        let key = key(12, 2, 40961);
        assert_eq!(key.ring().parameters().group_blocks(), 10);
        let columns = vec![vec![u64::MAX; 11 * 64]; 2];
        let server = dataset(&key, &columns);
        let answer = count(&server, &key, &all_itemsets(2, 2));
        assert_eq!(answer.supports, [11 * 4096]);
    }

    #[test]
    fn unfitting_moments_are_refused_and_a_wrong_key_shows_in_a_small_group() {
        let key = key(12, 2, 65537);
        let columns = pseudo_random_columns(3, 64);
        let server = dataset(&key, &columns);
        let itemsets = all_itemsets(3, 2);
        let index = MomentIndex::new(&itemsets);
        let combiner = |key: &DatasetKey| Combiner::new(key.clone(), itemsets.clone(), 1).unwrap();
        let wrong = combiner(&key_in(5, key.ring().parameters()));
        let mut phases = wrong.phases();
        for limb in 0..2 {
            for moment in 0..index.len() {
                let residues = server.moment(&index, moment, limb, 0..1);
                wrong
                    .absorb(
                        &mut phases,
                        &Partial {
                            limb,
                            blocks: 0..1,
                            moments: moment..moment + 1,
                            residues: &residues,
                        },
                    )
                    .unwrap();
            }
        }
        assert!(matches!(
            wrong.finish(&phases),
            Err(CombineError::Impossible { .. })
        ));

        let right = combiner(&key);
        let mut phases = right.phases();
        let refused = [
            Partial {
                limb: 2,
                blocks: 0..1,
                moments: 0..1,
                residues: &[0],
            },
            Partial {
                limb: 0,
                blocks: 0..2,
                moments: 0..1,
                residues: &[0],
            },
            Partial {
                limb: 0,
                blocks: 0..0,
                moments: 0..1,
                residues: &[0],
            },
            Partial {
                limb: 0,
                blocks: 0..1,
                moments: 0..0,
                residues: &[],
            },
            Partial {
                limb: 0,
                blocks: 0..1,
                moments: 0..8,
                residues: &[0; 8],
            },
            Partial {
                limb: 0,
                blocks: 0..1,
                moments: 0..usize::MAX,
                residues: &[0],
            },
            Partial {
                limb: 0,
                blocks: 0..1,
                moments: 0..1,
                residues: &[0, 0],
            },
            Partial {
                limb: 0,
                blocks: 0..1,
                moments: 3..4,
                residues: &[0],
            },
            Partial {
                limb: 0,
                blocks: 0..1,
                moments: 0..1,
                residues: &[u32::MAX],
            },
        ];
        for partial in refused {
            assert!(
                matches!(
                    right.absorb(&mut phases, &partial),
                    Err(CombineError::Unexpected(_))
                ),
                "{partial:?}"
            );
        }
        assert!(matches!(
            right.finish(&phases),
            Err(CombineError::Incomplete { .. })
        ));
        let once = Partial {
            limb: 0,
            blocks: 0..1,
            moments: 0..1,
            residues: &[0],
        };
        let mut other = right.phases();
        right.absorb(&mut phases, &once).unwrap();
        right.absorb(&mut other, &once).unwrap();
        let twice = Err(CombineError::Unexpected(TWICE));
        assert_eq!(right.absorb(&mut phases, &once), twice);
        assert_eq!(right.merge(&mut phases, &other), twice);
    }

    #[test]
    fn levels_beyond_the_parameters_are_refused() {
        let key = key(12, 2, 65537);
        let error = Combiner::new(key, all_itemsets(3, 3), 1).err().unwrap();
        assert_eq!(
            error,
            CombineError::LevelTooHigh {
                level: 3,
                longest: 2
            }
        );
    }
}
