//! From moments to supports.
//!
//! Moments come as fractions of `Q` (docs/cryptography.md, "Fractions"). For itemset `S` the sum
//! `Σ_{T⊆S} (Π_{i∈S∖T} s_i)·F_{T,|S|−|T|}` is, in its constant coefficient and modulo 1,
//! `w/t + Φ_0/(tQ)` with the support in `w`; so a phase is one 64-bit word, wrapping. A scalar
//! moment is added as it comes, every other by a dot product with a product of secrets. Moments
//! come in any order, on any thread, and are forgotten as soon as they are added.

use crate::key::DatasetKey;
use crate::noise::limbs_for_level;
use crate::precision::{Precision, relative_phase_bound};
use crate::secrets::{Digits, SecretProducts};
use oboro_ring::fraction::WHOLE;
use oboro_ring::moment::{Itemsets, MomentIndex};
use oboro_ring::vector::{PREFIXES, Sum};
use oboro_ring::{Fractions, Modulus, Parameters, pack, vector};
use std::ops::Range;
use thiserror::Error;
use zeroize::Zeroizing;

/// Products of secrets that meet whole moments at a time.
const SECRETS_AT_ONCE: usize = 16;

const TWICE: &str = "the same moment of a group twice";

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
        "the server's answer is incomplete: moment {moment} of group {group} is missing; ask again"
    )]
    Incomplete { group: usize, moment: usize },
    #[error(
        "the answer for itemset {itemset} is impossible: its phase or support is out of bounds; the data on the server was altered, or it was encrypted with another key"
    )]
    Impossible { itemset: usize },
}

/// A part of the moments of a query, as the server sends it.
#[derive(Debug, Clone)]
pub struct Partial<'a> {
    /// The group of blocks that was summed over.
    pub group: u64,
    /// Which moments, in canonical order; all with the same power of the mask.
    pub moments: Range<usize>,
    /// The moments as they travel, one after another, each [`Fractions::packed_len`] bytes.
    pub fractions: &'a [u8],
}

/// Supports, in the order of the itemsets asked for.
#[derive(Debug, Clone, PartialEq)]
pub struct Answer {
    /// The number of transactions that hold each itemset.
    pub supports: Vec<u64>,
    /// `log2` of the largest phase met, errors of rounding included, to compare with the bound.
    pub log2_largest_phase: f64,
    /// `log2` of what the phase of a full group may be, with these errors.
    pub log2_phase_bound: f64,
}

/// Combines the moments of one query with the secrets. Shared by threads, each with its [`Phases`].
pub struct Combiner {
    key: DatasetKey,
    itemsets: Itemsets,
    index: MomentIndex,
    precision: Precision,
    /// The bytes of a moment, for each power of the mask.
    moment_bytes: Vec<usize>,
    blocks: u64,
    uses: Uses,
    secrets: SecretProducts,
    /// Whether the power of the mask is multiplied by the first secret of an itemset before it meets
    /// the product of the others, which other moments meet, too: fewer multiplications where many
    /// itemsets begin with the same column.
    first_secret_early: bool,
}

/// The bytes of a moment for each power of the mask.
fn moment_bytes(precision: &Precision) -> Vec<usize> {
    (0..precision.bits.len())
        .map(|power| precision.moment_bytes(power))
        .collect()
}

/// For each moment with a power of the mask: the itemsets that it helps to answer.
struct Uses {
    starts: Vec<usize>,
    entries: Vec<Use>,
}

/// Moment `T` helps to answer itemset `S`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Use {
    /// The number of the moment whose columns are `S ∖ T`: their secrets are multiplied.
    secrets: u32,
    itemset: u32,
}

/// One thread's share of the phases, and its buffers.
pub struct Phases {
    /// For each group and itemset: a fraction of 1 in units of 2^-64.
    sums: Zeroizing<Vec<u64>>,
    /// A bit for each group and moment: whether it is in.
    covered: Vec<u64>,
    numbers: Vec<u64>,
    polynomials: Vec<Digits>,
    uses: Vec<(Use, u32)>,
}

impl Combiner {
    /// Prepares for the moments of `itemsets` over a dataset of `blocks` blocks.
    pub fn new(key: DatasetKey, itemsets: Itemsets, blocks: u64) -> Result<Self, CombineError> {
        let level = itemsets.length();
        let ring = key.ring();
        let precision =
            Precision::new(ring.parameters(), level).ok_or_else(|| CombineError::LevelTooHigh {
                level,
                longest: (1..level)
                    .rev()
                    .find(|&k| limbs_for_level(ring.parameters(), k).is_some())
                    .unwrap_or(0),
            })?;
        let index = MomentIndex::new(&itemsets);
        let groups = blocks.div_ceil(ring.parameters().group_blocks());
        let mut firsts: Vec<u32> = itemsets.iter().map(|columns| columns[0]).collect();
        firsts.dedup();
        // Either is one multiplication of polynomials; products of all secrets serve every group.
        let first_secret_early = level >= 2 && firsts.len() as u64 * groups < itemsets.len() as u64;
        let longest = if first_secret_early { level - 1 } else { level };
        Ok(Self {
            uses: Uses::new(&itemsets, &index),
            secrets: SecretProducts::new(key.clone(), longest),
            first_secret_early,
            key,
            itemsets,
            index,
            moment_bytes: moment_bytes(&precision),
            precision,
            blocks,
        })
    }

    /// Has moments travel whole ([`Precision::with_whole_moments`]).
    #[must_use]
    pub fn with_whole_moments(self) -> Self {
        let parameters = self.key.ring().parameters();
        let precision = self.precision.with_whole_moments(parameters);
        Self {
            moment_bytes: moment_bytes(&precision),
            precision,
            ..self
        }
    }

    /// The limbs that must be asked for.
    pub fn limbs(&self) -> usize {
        self.precision.limbs
    }

    /// The bits of the fractions that must be asked for, for each power of the mask (see
    /// [`Precision`]).
    pub fn fraction_bits(&self) -> &[u32] {
        &self.precision.bits
    }

    /// The itemsets asked for.
    pub fn itemsets(&self) -> &Itemsets {
        &self.itemsets
    }

    /// The bytes of moments that a whole answer has.
    pub fn answer_bytes(&self) -> u64 {
        let group = self
            .precision
            .group_bytes(|power| self.index.rank(power).len() as u64);
        group * self.groups() as u64
    }

    /// An empty share.
    pub fn phases(&self) -> Phases {
        Phases {
            sums: Zeroizing::new(vec![0; self.groups() * self.itemsets.len()]),
            covered: vec![0; (self.groups() * self.index.len()).div_ceil(64)],
            numbers: vec![0; self.key.ring().degree()],
            polynomials: Vec::new(),
            uses: Vec::new(),
        }
    }

    /// Adds a part of the moments to one thread's share.
    pub fn absorb(&self, phases: &mut Phases, partial: &Partial<'_>) -> Result<(), CombineError> {
        let power = self.check(partial)?;
        self.cover(&mut phases.covered, partial)?;
        match (power, self.precision.bits[power]) {
            (0, bits) => self.absorb_scalars(phases, partial, bits),
            (_, WHOLE) => self.absorb_whole(phases, partial, power)?,
            (_, bits) if power == self.itemsets.length() && self.first_secret_early => {
                self.absorb_power_of_mask(phases, partial, bits);
            }
            (_, bits) => self.absorb_fractions(phases, partial, power, bits),
        }
        Ok(())
    }

    fn absorb_scalars(&self, phases: &mut Phases, partial: &Partial<'_>, bits: u32) {
        let mut fraction = [0];
        let each = partial.fractions.chunks_exact(self.moment_bytes[0]);
        for (bytes, itemset) in each.zip(partial.moments.clone()) {
            pack::unpack_bits(bytes, bits, &mut fraction);
            let sum = &mut phases.sums[self.at(partial.group, itemset)];
            *sum = sum.wrapping_add(fraction[0] << (64 - bits));
        }
    }

    /// Each product of secrets is taken up once for all moments of the part that need it.
    fn absorb_fractions(
        &self,
        phases: &mut Phases,
        partial: &Partial<'_>,
        power: usize,
        bits: u32,
    ) {
        phases
            .polynomials
            .resize_with(partial.moments.len(), Digits::default);
        phases.uses.clear();
        for (i, bytes) in partial
            .fractions
            .chunks_exact(self.moment_bytes[power])
            .enumerate()
        {
            pack::unpack_bits(bytes, bits, &mut phases.numbers);
            phases.polynomials[i].set(&phases.numbers, bits);
            let uses = self.uses.of(partial.moments.start + i);
            phases
                .uses
                .extend(uses.iter().map(|&entry| (entry, i as u32)));
        }
        phases.uses.sort_unstable();
        for uses in phases
            .uses
            .chunk_by(|(a, _), (b, _)| a.secrets == b.secrets)
        {
            let (_, columns) = self.index.get(uses[0].0.secrets as usize);
            let secrets = self.secrets.reversed(columns);
            for &(entry, polynomial) in uses {
                let product =
                    secrets.constant_coefficient(&phases.polynomials[polynomial as usize]);
                let sum = &mut phases.sums[self.at(partial.group, entry.itemset as usize)];
                *sum = sum.wrapping_add(product << (64 - bits));
            }
        }
    }

    /// The one moment that every itemset needs, with the product of all its secrets, of which the first
    /// is multiplied in once for all itemsets that begin with the same column.
    fn absorb_power_of_mask(&self, phases: &mut Phases, partial: &Partial<'_>, bits: u32) {
        pack::unpack_bits(partial.fractions, bits, &mut phases.numbers);
        let mut power = Digits::default();
        power.set(&phases.numbers, bits);
        let power = self.secrets.factor(&power);
        let mut times = Zeroizing::new(Digits::default());
        let mut first = None;
        for (itemset, columns) in self.itemsets.iter().enumerate() {
            if first != Some(columns[0]) {
                first = Some(columns[0]);
                times = self.secrets.times(columns[0], &power, bits);
            }
            let product = self
                .secrets
                .reversed(&columns[1..])
                .constant_coefficient(&times);
            let sum = &mut phases.sums[self.at(partial.group, itemset)];
            *sum = sum.wrapping_add(product << (64 - bits));
        }
    }

    /// Moments as residues: their products with secrets are made modulo every limb, and the sums of
    /// their slots turned into fractions here. A few moments at a time meet their secrets.
    fn absorb_whole(
        &self,
        phases: &mut Phases,
        partial: &Partial<'_>,
        power: usize,
    ) -> Result<(), CombineError> {
        let ring = self.key.ring();
        let limbs = &ring.limbs()[..self.limbs()];
        let each = self.moment_bytes[power];
        let len = limbs.len() * ring.degree();
        let mut slot_sums = SlotSums::new(self, partial.group);
        let mut residues = vec![0; partial.moments.len().min(PREFIXES) * len];
        let mut moments = partial.moments.clone();
        for packed in partial.fractions.chunks(PREFIXES * each) {
            let polynomials = residues.chunks_exact_mut(len);
            for (i, (bytes, residues)) in packed.chunks_exact(each).zip(polynomials).enumerate() {
                pack::unpack(bytes, residues);
                let mut by_limb = limbs.iter().zip(residues.chunks_exact(ring.degree()));
                if by_limb.any(|(ntt, residues)| vector::largest(residues) >= ntt.modulus().value())
                {
                    return Err(CombineError::Unexpected(
                        "a residue that is not below its modulus",
                    ));
                }
                if power == self.itemsets.length() && self.first_secret_early {
                    slot_sums.add_power_of_mask(phases, residues);
                    continue;
                }
                let uses = moments
                    .next()
                    .map_or(&[][..], |moment| self.uses.of(moment));
                slot_sums.wanted.extend(uses.iter().map(|entry| Wanted {
                    secrets: self.index.get(entry.secrets as usize).1,
                    polynomial: i,
                    itemset: entry.itemset as usize,
                }));
            }
            slot_sums.add(phases, &residues[..packed.len() / each * len]);
        }
        Ok(())
    }

    /// Adds another thread's share.
    ///
    /// # Errors
    /// Both hold the same moment of a group.
    pub fn merge(&self, phases: &mut Phases, other: &Phases) -> Result<(), CombineError> {
        for (bits, more) in phases.covered.iter_mut().zip(&other.covered) {
            if *bits & more != 0 {
                return Err(CombineError::Unexpected(TWICE));
            }
            *bits |= more;
        }
        for (sum, more) in phases.sums.iter_mut().zip(other.sums.iter()) {
            *sum = sum.wrapping_add(*more);
        }
        Ok(())
    }

    /// Decrypts, once all parts are in.
    pub fn finish(&self, phases: &Phases) -> Result<Answer, CombineError> {
        self.is_complete(&phases.covered)?;
        let parameters = self.key.ring().parameters();
        let decoder = Decoder::new(parameters, self.limbs());
        let group_blocks = parameters.group_blocks();
        let mut largest: f64 = 0.0;
        let mut supports = vec![0; self.itemsets.len()];
        for group in 0..self.groups() {
            let blocks = group_blocks.min(self.blocks - group as u64 * group_blocks);
            let bound = self.relative_bound(blocks);
            let most = blocks * self.key.ring().degree() as u64;
            for (itemset, support) in supports.iter_mut().enumerate() {
                let sum = phases.sums[self.at(group as u64, itemset)];
                let (slots, phase) = decoder.slot_sum(sum);
                if phase > bound || u64::from(slots) > most {
                    return Err(CombineError::Impossible { itemset });
                }
                *support += u64::from(slots);
                largest = largest.max(phase);
            }
        }
        let log2 = |phase: f64| (phase.log2() + parameters.log2_q(self.limbs())).max(0.0);
        Ok(Answer {
            supports,
            log2_largest_phase: log2(largest),
            log2_phase_bound: log2(self.relative_bound(group_blocks.min(self.blocks))),
        })
    }

    /// What a phase over so many blocks may be at most, in parts of `Q`, errors of rounding included.
    fn relative_bound(&self, blocks: u64) -> f64 {
        let parameters = self.key.ring().parameters();
        relative_phase_bound(parameters, self.limbs(), self.itemsets.length(), blocks)
            + self.precision.error
    }

    /// Where the phase of an itemset over a group is kept.
    fn at(&self, group: u64, itemset: usize) -> usize {
        group as usize * self.itemsets.len() + itemset
    }

    /// Marks the moments of a part, each of which may come once.
    fn cover(&self, covered: &mut [u64], partial: &Partial<'_>) -> Result<(), CombineError> {
        let row = partial.group as usize * self.index.len();
        for moment in partial.moments.clone() {
            let at = row + moment;
            let (word, bit) = (&mut covered[at / 64], 1 << (at % 64));
            if *word & bit != 0 {
                return Err(CombineError::Unexpected(TWICE));
            }
            *word |= bit;
        }
        Ok(())
    }

    /// That every moment of every group is in.
    fn is_complete(&self, covered: &[u64]) -> Result<(), CombineError> {
        let moments = self.index.len();
        let lacking = |&at: &usize| covered[at / 64] >> (at % 64) & 1 == 0;
        match (0..self.groups() * moments).find(lacking) {
            None => Ok(()),
            Some(at) => Err(CombineError::Incomplete {
                group: at / moments,
                moment: at % moments,
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
            group,
            ref moments,
            fractions,
        } = *partial;
        if group >= self.groups() as u64 {
            return unexpected("a group that does not exist");
        }
        if moments.is_empty() || moments.end > self.index.len() {
            return unexpected("moments beyond the last");
        }
        let power = self.index.get(moments.start).0;
        if moments.end > self.index.rank(power).end {
            return unexpected("moments of several powers of the mask together");
        }
        if fractions.len() != moments.len() * self.moment_bytes[power] {
            return unexpected("moments of a wrong size");
        }
        Ok(power)
    }
}

/// Sums of the slots of polynomials times secrets, in evaluation form modulo every limb: what whole
/// moments add to phases.
struct SlotSums<'c> {
    combiner: &'c Combiner,
    fractions: Fractions<'c>,
    group: u64,
    /// What the polynomials that come next are for.
    wanted: Vec<Wanted<'c>>,
    /// For each of them the sum modulo each limb.
    slots: Zeroizing<Vec<u32>>,
}

/// The sum of the slots of a polynomial, by number, times some columns' secrets is a part of an itemset's
/// phase.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Wanted<'c> {
    secrets: &'c [u32],
    polynomial: usize,
    itemset: usize,
}

impl<'c> SlotSums<'c> {
    fn new(combiner: &'c Combiner, group: u64) -> Self {
        Self {
            combiner,
            fractions: Fractions::new(combiner.key.ring(), combiner.limbs()),
            group,
            wanted: Vec::new(),
            slots: Zeroizing::default(),
        }
    }

    /// As [`Combiner::absorb_power_of_mask`], with a few first secrets at a time.
    fn add_power_of_mask(&mut self, phases: &mut Phases, power: &[u32]) {
        let ring = self.combiner.key.ring();
        let mut times = Zeroizing::new(vec![0; PREFIXES * power.len()]);
        let all: Vec<(usize, &[u32])> = self.combiner.itemsets.iter().enumerate().collect();
        let alike: Vec<_> = all.chunk_by(|(_, a), (_, b)| a[0] == b[0]).collect();
        for some in alike.chunks(PREFIXES) {
            let products = times.chunks_exact_mut(power.len());
            for (i, (sets, product)) in some.iter().zip(products).enumerate() {
                let factors = power.chunks_exact(ring.degree());
                let by_limb = factors.zip(product.chunks_exact_mut(ring.degree()));
                for (limb, (factor, product)) in by_limb.enumerate() {
                    let secret = self.combiner.secrets.evaluation(limb, &sets[0].1[..1]);
                    let q = ring.limbs()[limb].modulus();
                    vector::multiply(q, &secret, factor, product);
                }
                self.wanted
                    .extend(sets.iter().map(|&(itemset, columns)| Wanted {
                        secrets: &columns[1..],
                        polynomial: i,
                        itemset,
                    }));
            }
            self.add(phases, &times[..some.len() * power.len()]);
        }
    }

    /// Adds to phases what is wanted of up to [`PREFIXES`] polynomials, each limb after limb.
    fn add(&mut self, phases: &mut Phases, polynomials: &[u32]) {
        let ring = self.combiner.key.ring();
        let limbs = &ring.limbs()[..self.combiner.limbs()];
        self.wanted.sort_unstable();
        self.slots = Zeroizing::new(vec![0; self.wanted.len() * limbs.len()]);
        let alike: Vec<_> = self
            .wanted
            .chunk_by(|a, b| a.secrets == b.secrets)
            .collect();
        let mut slots = self.slots.chunks_exact_mut(limbs.len());
        for some in alike.chunks(SECRETS_AT_ONCE) {
            let mut of_some: Vec<_> = some
                .concat()
                .iter()
                .map(|it| it.polynomial)
                .zip(&mut slots)
                .collect();
            for (limb, ntt) in limbs.iter().enumerate() {
                let evaluation =
                    |it: &&[Wanted<'_>]| self.combiner.secrets.evaluation(limb, it[0].secrets);
                let secrets: Vec<_> = some.iter().map(evaluation).collect();
                let leaves: Vec<&[u32]> = secrets.iter().map(|it| &it[..]).collect();
                let limb_of_each = polynomials
                    .chunks_exact(ring.degree())
                    .skip(limb)
                    .step_by(limbs.len());
                let prefixes: Vec<&[u32]> = limb_of_each.collect();
                let mut sums = Zeroizing::new(vec![Sum::default(); prefixes.len() * leaves.len()]);
                vector::dots(&prefixes, &leaves, &mut sums, &[]);
                let leaf_of_each = some
                    .iter()
                    .enumerate()
                    .flat_map(|(l, it)| it.iter().map(move |_| l));
                for ((polynomial, slots), leaf) in of_some.iter_mut().zip(leaf_of_each) {
                    let sum = sums[*polynomial * leaves.len() + leaf];
                    slots[limb] = sum.residue(ntt.modulus());
                }
            }
        }
        for (wanted, slots) in self
            .wanted
            .drain(..)
            .zip(self.slots.chunks_exact(limbs.len()))
        {
            let sum = &mut phases.sums[self.combiner.at(self.group, wanted.itemset)];
            *sum = sum.wrapping_add(self.fractions.of_slot_sum(slots, 64));
        }
    }
}

impl Uses {
    fn new(itemsets: &Itemsets, index: &MomentIndex) -> Self {
        let k = itemsets.length();
        let all = (1usize << k) - 1;
        let mut pairs: Vec<(u32, Use)> = Vec::with_capacity(itemsets.len() << k);
        let mut moments = vec![0; all + 1];
        let mut subset = Vec::with_capacity(k);
        for (itemset, set) in itemsets.iter().enumerate() {
            for (members, moment) in moments.iter_mut().enumerate() {
                subset.clear();
                let chosen = set
                    .iter()
                    .enumerate()
                    .filter(|(i, _)| members >> i & 1 == 1);
                subset.extend(chosen.map(|(_, &column)| column));
                *moment = index.find(&subset).expect("the index holds all subsets") as u32;
            }
            pairs.extend((1..=all).map(|secrets| {
                let entry = Use {
                    secrets: moments[secrets],
                    itemset: itemset as u32,
                };
                (moments[all ^ secrets], entry)
            }));
        }
        pairs.sort_unstable();
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

/// From phases to sums of slots.
struct Decoder {
    plaintext: Modulus,
    /// `−N·Q mod t`.
    scale: u32,
}

impl Decoder {
    fn new(parameters: &Parameters, limbs: usize) -> Self {
        let t = *parameters.plaintext();
        let q = parameters.limb_moduli()[..limbs].iter();
        let product = q.fold(1, |product, q| t.mul(product, t.reduce(q.value().into())));
        let degree = t.reduce(parameters.degree() as u64);
        Self {
            plaintext: t,
            scale: t.neg(t.mul(product, degree)),
        }
    }

    /// From `w/t + Φ_0/(tQ)` modulo 1, in units of 2^-64, to the sum of the slots `−w·N·Q mod t`,
    /// and `|Φ_0|/Q`.
    fn slot_sum(&self, sum: u64) -> (u32, f64) {
        let scaled = u128::from(sum) * u128::from(self.plaintext.value());
        // The nearest integer, and how far it is.
        let w = ((scaled + (1 << 63)) >> 64) as u64;
        let distance = (scaled as u64).cast_signed().unsigned_abs();
        (
            self.plaintext.mul(self.plaintext.reduce(w), self.scale),
            distance as f64 / (1u128 << 64) as f64,
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::key::tests::key as key_in;
    use crate::{Block, Encryptor};
    use oboro_ring::{Ring, mask};
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
        /// The evaluation form of a moment modulo each of the first `limbs` limbs.
        fn moment(
            &self,
            r: usize,
            columns: &[u32],
            limbs: usize,
            blocks: Range<usize>,
        ) -> Vec<u32> {
            let mut residues = Vec::with_capacity(limbs * self.ring.degree());
            for (limb, ntt) in self.ring.limbs()[..limbs].iter().enumerate() {
                let q = ntt.modulus();
                let mut sum = vec![0; self.ring.degree()];
                for b in blocks.clone() {
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
                residues.extend(sum);
            }
            residues
        }

        /// A moment over a group of blocks as it travels.
        fn packed(
            &self,
            combiner: &Combiner,
            index: &MomentIndex,
            group: usize,
            moment: usize,
        ) -> Vec<u8> {
            let (r, columns) = index.get(moment);
            let bits = combiner.fraction_bits()[r];
            let each = self.ring.parameters().group_blocks() as usize;
            let blocks = group * each..self.blocks.len().min((group + 1) * each);
            let mut residues = self.moment(r, columns, combiner.limbs(), blocks);
            let fractions = Fractions::new(self.ring, combiner.limbs());
            let mut bytes = vec![0; fractions.packed_len(r, bits)];
            if r == 0 {
                let slots: Vec<u32> = residues
                    .chunks_exact(self.ring.degree())
                    .zip(self.ring.limbs())
                    .map(|(residues, ntt)| vector::sum(ntt.modulus(), residues))
                    .collect();
                fractions.pack_scalar(&slots, bits, &mut bytes);
            } else {
                let mut scratch = vec![0; self.ring.degree()];
                fractions.pack_polynomial(&mut residues, bits, &mut scratch, &mut bytes);
            }
            bytes
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
        let combiner =
            Combiner::new(key.clone(), itemsets.clone(), server.blocks.len() as u64).unwrap();
        combiner.finish(&phases(server, &combiner)).unwrap()
    }

    /// All moments of the server's, absorbed by two threads' shares, runs of three at a time, the
    /// last group first: order must not matter.
    fn phases(server: &Server<'_>, combiner: &Combiner) -> Phases {
        let index = MomentIndex::new(combiner.itemsets());
        let mut shares = [combiner.phases(), combiner.phases()];
        for group in (0..combiner.groups()).rev() {
            for r in 0..=index.level() {
                for start in index.rank(r).step_by(3) {
                    let moments = start..index.rank(r).end.min(start + 3);
                    let bytes: Vec<Vec<u8>> = moments
                        .clone()
                        .map(|moment| server.packed(combiner, &index, group, moment))
                        .collect();
                    let partial = Partial {
                        group: group as u64,
                        moments,
                        fractions: &bytes.concat(),
                    };
                    combiner.absorb(&mut shares[start % 2], &partial).unwrap();
                }
            }
        }
        let [mut all, other] = shares;
        combiner.merge(&mut all, &other).unwrap();
        all
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
            let whole = Combiner::new(key.clone(), itemsets.clone(), 2).unwrap();
            let whole = whole.with_whole_moments();
            assert!(whole.fraction_bits()[1..].iter().all(|&bits| bits == WHOLE));
            let found = whole.finish(&phases(&server, &whole)).unwrap();
            assert_eq!(found.supports, answer.supports);
            for (set, &support) in itemsets.iter().zip(&answer.supports) {
                assert_eq!(support, plain_support(&columns, set), "{set:?}");
            }
            assert!(answer.log2_largest_phase <= answer.log2_phase_bound);
            // A bound that is nowhere near what happens would be a wrong formula.
            assert!(
                answer.log2_largest_phase > answer.log2_phase_bound - 12.0,
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

    /// Level 7 has moments that travel whole; at six and seven columns there are few itemsets.
    #[test]
    fn long_itemsets_are_exact_too() {
        let key = key(13, 7, 65537);
        let columns = pseudo_random_columns(7, 128);
        let server = dataset(&key, &columns);
        for level in [6, 7] {
            let itemsets = all_itemsets(7, level);
            let combiner = Combiner::new(key.clone(), itemsets.clone(), 1).unwrap();
            assert_eq!(combiner.fraction_bits()[level], WHOLE);
            let answer = combiner.finish(&phases(&server, &combiner)).unwrap();
            for (set, &support) in itemsets.iter().zip(&answer.supports) {
                assert_eq!(support, plain_support(&columns, set), "{set:?}");
            }
        }
    }

    /// The error of rounding is what is left when exact moments are combined too: it must stay
    /// within the budget with much to spare, and not so much that bits are wasted.
    #[test]
    fn errors_of_rounding_stay_within_their_budget() {
        let key = key(13, 5, 114_689);
        let columns = pseudo_random_columns(9, 128);
        let server = dataset(&key, &columns);
        for level in [2, 3, 5] {
            let itemsets = all_itemsets(9, level);
            let rounded = Combiner::new(key.clone(), itemsets.clone(), 1).unwrap();
            let mut exact = Combiner::new(key.clone(), itemsets, 1).unwrap();
            exact.precision.bits[0] = 64;
            let exact = exact.with_whole_moments();
            let (with, without) = (phases(&server, &rounded), phases(&server, &exact));
            let t = f64::from(key.ring().parameters().plaintext_modulus());
            let errors: Vec<f64> = with
                .sums
                .iter()
                .zip(without.sums.iter())
                .map(|(x, y)| x.wrapping_sub(*y).cast_signed() as f64 / 2f64.powi(64) * t)
                .collect();
            let rms = (errors.iter().map(|e| e * e).sum::<f64>() / errors.len() as f64).sqrt();
            // The budget is 9.5 times the standard deviation of the model. Uniform errors have √3 times
            // less, and norms of secrets are below their margin.
            let budget = rounded.precision.error;
            assert!(rms < budget / 9.5, "level {level}: {rms}, {budget}");
            assert!(rms > budget / 9.5 / 12.0, "level {level}: {rms}, {budget}");
            assert!(
                errors.iter().all(|e| e.abs() < budget / 2.0),
                "level {level}"
            );
        }
    }

    #[test]
    fn a_wrong_key_shows_in_a_small_group() {
        let key = key(12, 2, 65537);
        let server = dataset(&key, &pseudo_random_columns(6, 64));
        // Random supports of 15 pairs: all within one block once in 16^15 times.
        let wrong = key_in(5, key.ring().parameters());
        let combiner = Combiner::new(wrong, all_itemsets(6, 2), 1).unwrap();
        assert!(matches!(
            combiner.finish(&phases(&server, &combiner)),
            Err(CombineError::Impossible { .. })
        ));
    }

    #[test]
    fn unfitting_moments_are_refused() {
        let right = Combiner::new(key(12, 2, 65537), all_itemsets(3, 2), 1).unwrap();
        let mut phases = right.phases();
        let scalar = right.fraction_bits()[0] as usize / 8;
        let polynomial = 4096 / 8 * right.fraction_bits()[1] as usize;
        let zeros = vec![0; 8 * polynomial];
        let refused = [
            (1, 0..1, scalar),
            (u64::MAX, 0..1, scalar),
            (0, 0..0, 0),
            (0, 0..8, 8 * scalar),
            (0, 0..usize::MAX, scalar),
            (0, 0..1, scalar + 1),
            (0, 0..1, scalar - 1),
            (0, 0..1, 0),
            (0, 2..4, 2 * scalar),
            (0, 3..4, scalar),
            (0, 3..5, 2 * polynomial - 1),
            (0, 6..7, polynomial),
        ];
        for (group, moments, bytes) in refused {
            let partial = Partial {
                group,
                moments,
                fractions: &zeros[..bytes],
            };
            assert!(
                matches!(
                    right.absorb(&mut phases, &partial),
                    Err(CombineError::Unexpected(_))
                ),
                "{group}, {:?}, {bytes} bytes",
                partial.moments
            );
        }
        assert_eq!(
            right.finish(&phases),
            Err(CombineError::Incomplete {
                group: 0,
                moment: 0
            })
        );
        let once = Partial {
            group: 0,
            moments: 3..5,
            fractions: &zeros[..2 * polynomial],
        };
        let mut other = right.phases();
        right.absorb(&mut phases, &once).unwrap();
        right.absorb(&mut other, &once).unwrap();
        let twice = Err(CombineError::Unexpected(TWICE));
        assert_eq!(right.absorb(&mut phases, &once), twice);
        assert_eq!(right.merge(&mut phases, &other), twice);
    }

    #[test]
    fn whole_moments_beyond_their_modulus_are_refused() {
        let key = key(13, 6, 65537);
        let combiner = Combiner::new(key, all_itemsets(6, 6), 1).unwrap();
        let last = MomentIndex::new(combiner.itemsets()).len() - 1;
        let bytes = vec![0xff; combiner.moment_bytes[6]];
        let partial = Partial {
            group: 0,
            moments: last..last + 1,
            fractions: &bytes,
        };
        assert!(matches!(
            combiner.absorb(&mut combiner.phases(), &partial),
            Err(CombineError::Unexpected(_))
        ));
    }

    proptest! {
        /// `t·v = Φ_0 + w·Q` for `v = t^{-1}·Φ_0 mod Q`, whatever the phase within its bound.
        #[test]
        fn decoding_inverts_the_fraction(phase in -(1i128 << 54)..1 << 54) {
            let parameters = Parameters::new(12, 2, 114_689).unwrap();
            let t = i128::from(parameters.plaintext_modulus());
            let q: i128 = parameters.limb_moduli().iter().map(|q| i128::from(q.value())).product();
            let w = (0..t).find(|w| (phase + w * q) % t == 0).unwrap();
            let v = (phase + w * q) / t;
            let fraction = ((v.rem_euclid(q) as u128) << 64) / q as u128;
            let (slots, relative) = Decoder::new(&parameters, 2).slot_sum(fraction as u64);
            prop_assert_eq!(i128::from(slots), (phase * 4096).rem_euclid(t));
            prop_assert!((relative - phase.unsigned_abs() as f64 / q as f64).abs() < 1e-12);
        }
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
