//! Computes supports from moments.
//!
//! For itemset `S` the points of `Σ_{T⊆S} (Π_{i∈S∖T} s_i)·M_{T,|S|−|T|}` in evaluation form are summed modulo every
//! limb. The sums are converted to a fraction of `Q`, `w/t + Φ_0/(tQ)` modulo 1 with the support in `w`
//! (docs/cryptography.md, "Fractions"). A phase is thus one wrapping 64-bit word. A scalar moment is added directly,
//! every other one by a dot product with a product of secrets. Moments may arrive in any order, on any thread, and are
//! discarded once added.

use crate::key::{DatasetKey, SecretGeneration};
use crate::secrets::SecretProducts;
use crate::totals::Strata;
use oboro_ring::fraction::FIXED_POINT_ERROR;
use oboro_ring::moment::{Itemsets, MomentIndex};
use oboro_ring::vector::{PREFIXES, Sum};
use oboro_ring::{Column, Fractions, Limb, Modulus, Parameters, pack, vector};
use std::ops::Range;
use thiserror::Error;
use zeroize::Zeroizing;

/// Number of products of secrets by which a block of moments is multiplied at a time.
const SECRETS_AT_ONCE: usize = 16;

const TWICE: &str = "the same moment of a range twice";
const NO_RESIDUE: &str = "a residue that is not below its modulus";

/// Error: the moments do not match the query, or the answer cannot be true.
///
/// Some wrong answers are not [`Impossible`](CombineError::Impossible): random phases fall within the bound more often
/// with more blocks, and with a bound closer to `Q/2`.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[allow(missing_docs)]
pub enum CombineError {
    #[error(
        "itemsets of length {level} are beyond this dataset's parameters, which carry {longest}; encrypt it again for longer itemsets"
    )]
    LevelTooHigh { level: usize, longest: usize },
    #[error(
        "the server sent moments that were not asked for ({0}); it may run another version or be altered"
    )]
    Unexpected(&'static str),
    #[error(
        "the server's answer is incomplete: moment {moment} of range {range} is missing; ask again"
    )]
    Incomplete { range: usize, moment: usize },
    #[error(
        "the answer for itemset {itemset} is impossible: its phase or support is out of bounds; the data on the server was altered, or it was encrypted with another key"
    )]
    Impossible { itemset: usize },
}

/// Part of the moments of a query, as received from the server.
#[derive(Debug, Clone)]
pub struct Partial<'a> {
    /// Index of the range that was summed over.
    pub range: u64,
    /// Moments in canonical order, all with one power of the mask.
    pub moments: Range<usize>,
    /// Residues in the wire encoding, moment after moment, each [`pack::moment_packed_len`] bytes.
    pub residues: &'a [u8],
}

/// Supports, in the order of the requested itemsets.
#[derive(Debug, Clone, PartialEq)]
pub struct Answer {
    /// Number of transactions that contain each itemset.
    pub supports: Vec<u64>,
    /// `log2` of the largest phase, to compare with the bound.
    pub log2_largest_phase: f64,
    /// `log2` of the bound on the phase of the largest range.
    pub log2_phase_bound: f64,
}

/// Combines the moments of one query with the secrets. Shared by threads, each with its [`Phases`].
pub struct Combiner {
    key: DatasetKey,
    itemsets: Itemsets,
    index: MomentIndex,
    strata: Strata,
    limbs: usize,
    uses: Uses,
    /// Products of secrets for each generation in use by the ranges.
    secrets: Vec<(SecretGeneration, SecretProducts)>,
    /// `true` to multiply the power of the mask by an itemset's first secret, then by the product of the others, which
    /// serves other moments too. Saves multiplications if many itemsets share their first column.
    first_secret_early: bool,
}

/// Prepares products of secrets for each generation in use by the ranges.
fn products(
    key: &DatasetKey,
    strata: &Strata,
    longest: usize,
) -> Vec<(SecretGeneration, SecretProducts)> {
    let mut generations = strata.secret_generations().to_vec();
    generations.sort_unstable();
    generations.dedup();
    let count = generations.len();
    let of = |generation| {
        let key = key.with_secret_generation(generation);
        (generation, SecretProducts::new(key, longest, count))
    };
    generations.into_iter().map(of).collect()
}

/// Itemsets that use each moment with a power of the mask.
struct Uses {
    starts: Vec<usize>,
    entries: Vec<Use>,
}

/// Use of moment `T` by itemset `S`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Use {
    /// Number of the moment whose columns are `S ∖ T`: their secrets are multiplied.
    secrets: u32,
    itemset: u32,
}

/// One thread's share of the phases, with its buffers.
pub struct Phases {
    /// Phase for each range and itemset: a fraction of 1 in units of 2^-64.
    sums: Zeroizing<Vec<u64>>,
    /// Bit for each range and moment, set once it was added.
    covered: Vec<u64>,
}

impl Combiner {
    /// Prepares to combine the moments of `itemsets` over the ranges of a dataset.
    ///
    /// # Errors
    /// The length is outside the dataset's bounds.
    pub fn new(key: DatasetKey, itemsets: Itemsets, strata: Strata) -> Result<Self, CombineError> {
        let level = itemsets.length();
        let limbs = |level| strata.bounds().limbs(level);
        let limbs = limbs(level).ok_or_else(|| CombineError::LevelTooHigh {
            level,
            longest: (1..level).rev().find(|&k| limbs(k).is_some()).unwrap_or(0),
        })?;
        let index = MomentIndex::new(&itemsets);
        let mut firsts: Vec<Column> = itemsets.iter().map(|columns| columns[0]).collect();
        firsts.dedup();
        // Either is one multiplication of polynomials; products of all secrets are shared by all ranges.
        let first_secret_early =
            level >= 2 && firsts.len() * strata.ranges().len() < itemsets.len();
        let longest = if first_secret_early { level - 1 } else { level };
        Ok(Self {
            uses: Uses::new(&itemsets, &index),
            secrets: products(&key, &strata, longest),
            first_secret_early,
            key,
            itemsets,
            index,
            strata,
            limbs,
        })
    }

    /// The products of secrets for a range.
    fn secrets(&self, range: u64) -> &SecretProducts {
        let generation = self.strata.secret_generations()[range as usize];
        let found = self.secrets.iter().find(|it| it.0 == generation);
        &found.expect("each generation of a range is there").1
    }

    /// Number of limbs to request.
    pub fn limbs(&self) -> usize {
        self.limbs
    }

    /// The requested itemsets.
    pub fn itemsets(&self) -> &Itemsets {
        &self.itemsets
    }

    /// Number of bytes of a moment in the wire encoding.
    fn moment_bytes(&self, power: usize) -> usize {
        pack::moment_packed_len(self.key.ring().degree(), self.limbs, power)
    }

    /// Number of bytes of moments in a whole answer.
    pub fn answer_bytes(&self) -> u64 {
        let range = self.place(0..self.index.len());
        range.map_or(0, |it| it.end as u64) * self.ranges() as u64
    }

    /// Number of moments of each range.
    pub(crate) fn moments(&self) -> usize {
        self.index.len()
    }

    /// The power of the mask and the columns of a moment.
    pub(crate) fn moment(&self, moment: usize) -> (usize, &[Column]) {
        self.index.get(moment)
    }

    /// Byte range of moments within all moments of a range in the wire encoding; `None` if they do not exist.
    pub(crate) fn place(&self, moments: Range<usize>) -> Option<Range<usize>> {
        let before = |moment: usize| -> usize {
            let of_power = |power| {
                let rank = self.index.rank(power);
                (rank.end.min(moment).max(rank.start) - rank.start) * self.moment_bytes(power)
            };
            (0..=self.itemsets.length()).map(of_power).sum()
        };
        let fits = moments.start <= moments.end && moments.end <= self.index.len();
        fits.then(|| before(moments.start)..before(moments.end))
    }

    /// Splits all moments of a range into runs of at most `most` with equal powers of the mask.
    pub(crate) fn runs(&self, most: usize) -> impl Iterator<Item = Range<usize>> {
        (0..=self.itemsets.length()).flat_map(move |power| {
            let rank = self.index.rank(power);
            let end = rank.end;
            rank.step_by(most)
                .map(move |start| start..(start + most).min(end))
        })
    }

    /// Returns an empty share of the phases.
    pub fn phases(&self) -> Phases {
        Phases {
            sums: Zeroizing::new(vec![0; self.ranges() * self.itemsets.len()]),
            covered: vec![0; (self.ranges() * self.index.len()).div_ceil(64)],
        }
    }

    /// Adds a part of the moments to one thread's share.
    ///
    /// # Errors
    /// The moments were not requested, were received before, or are not canonical residues.
    pub fn absorb(&self, phases: &mut Phases, partial: &Partial<'_>) -> Result<(), CombineError> {
        let power = self.check(partial)?;
        self.cover(&mut phases.covered, partial)?;
        match power {
            0 => self.absorb_scalars(phases, partial),
            _ => self.absorb_polynomials(phases, partial, power),
        }
    }

    fn absorb_scalars(
        &self,
        phases: &mut Phases,
        partial: &Partial<'_>,
    ) -> Result<(), CombineError> {
        let ring = self.key.ring();
        let fractions = Fractions::new(ring, self.limbs);
        let mut residues = vec![0; self.limbs.next_multiple_of(2)];
        let each = partial.residues.chunks_exact(self.moment_bytes(0));
        for (bytes, itemset) in each.zip(partial.moments.clone()) {
            pack::unpack(bytes, &mut residues);
            let (sums, padding) = residues.split_at(self.limbs);
            let mut by_limb = sums.iter().zip(ring.limbs());
            if by_limb.any(|(&sum, ntt)| sum >= ntt.modulus().value())
                || padding.iter().any(|&it| it != 0)
            {
                return Err(CombineError::Unexpected(NO_RESIDUE));
            }
            let sum = &mut phases.sums[self.at(partial.range, itemset)];
            *sum = sum.wrapping_add(fractions.of_slot_sum(sums, 64));
        }
        Ok(())
    }

    /// Multiplies a few moments at a time by their secrets.
    fn absorb_polynomials(
        &self,
        phases: &mut Phases,
        partial: &Partial<'_>,
        power: usize,
    ) -> Result<(), CombineError> {
        let ring = self.key.ring();
        let limbs = &ring.limbs()[..self.limbs()];
        let each = self.moment_bytes(power);
        let len = limbs.len() * ring.degree();
        let mut slot_sums = SlotSums::new(self, partial.range);
        let mut residues = vec![0; partial.moments.len().min(PREFIXES) * len];
        let mut moments = partial.moments.clone();
        for packed in partial.residues.chunks(PREFIXES * each) {
            let polynomials = residues.chunks_exact_mut(len);
            for (i, (bytes, residues)) in packed.chunks_exact(each).zip(polynomials).enumerate() {
                pack::unpack(bytes, residues);
                let mut by_limb = limbs.iter().zip(residues.chunks_exact(ring.degree()));
                if by_limb.any(|(ntt, residues)| vector::largest(residues) >= ntt.modulus().value())
                {
                    return Err(CombineError::Unexpected(NO_RESIDUE));
                }
                if power == self.itemsets.length() && self.first_secret_early {
                    slot_sums.add_power_of_mask(phases, residues);
                    continue;
                }
                let uses = moments
                    .next()
                    .map_or(&[][..], |moment| self.uses.of(moment));
                slot_sums.wanted.extend(uses.iter().map(|entry| PhaseTerm {
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
    /// Both contain one moment of a range.
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

    /// Decrypts, after all parts were added.
    ///
    /// # Errors
    /// Moments are missing, or no correct answer has these phases or supports.
    pub fn finish(&self, phases: &Phases) -> Result<Answer, CombineError> {
        self.is_complete(&phases.covered)?;
        let parameters = self.key.ring().parameters();
        let decoder = Decoder::new(parameters, self.limbs);
        let ranges = self.strata.ranges();
        let bounds: Vec<f64> = ranges
            .iter()
            .map(|it| self.relative_bound(it.len()))
            .collect();
        let mut largest: f64 = 0.0;
        let mut support = |itemset: usize| {
            let mut residues = Vec::with_capacity(bounds.len());
            for (range, &bound) in (0..).zip(&bounds) {
                let (slots, phase) = decoder.slot_sum(phases.sums[self.at(range, itemset)]);
                if phase > bound {
                    return None;
                }
                largest = largest.max(phase);
                residues.push(slots);
            }
            self.strata.support(residues.into_iter())
        };
        let supports: Result<Vec<u64>, CombineError> = (0..self.itemsets.len())
            .map(|itemset| support(itemset).ok_or(CombineError::Impossible { itemset }))
            .collect();
        let log2 = |phase: f64| (phase.log2() + parameters.log2_q(self.limbs)).max(0.0);
        Ok(Answer {
            supports: supports?,
            log2_largest_phase: log2(largest),
            log2_phase_bound: log2(bounds.into_iter().fold(0.0, f64::max)),
        })
    }

    /// Bound on a phase over `blocks` blocks as a fraction of `Q`, fixed-point errors included.
    fn relative_bound(&self, blocks: u64) -> f64 {
        let parameters = self.key.ring().parameters();
        let level = self.itemsets.length();
        let phase = self.strata.bounds().log2_phase(level, blocks) - parameters.log2_q(self.limbs);
        let uses = f64::from(level as u32).exp2();
        let each = f64::from(FIXED_POINT_ERROR + 1) / 64f64.exp2();
        phase.exp2() + f64::from(parameters.plaintext_modulus()) * uses * each
    }

    /// Index of an itemset's phase over a range.
    fn at(&self, range: u64, itemset: usize) -> usize {
        range as usize * self.itemsets.len() + itemset
    }

    /// Marks the moments of a part as received; each may arrive once.
    fn cover(&self, covered: &mut [u64], partial: &Partial<'_>) -> Result<(), CombineError> {
        let row = partial.range as usize * self.index.len();
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

    /// Checks that every moment of every range was received.
    fn is_complete(&self, covered: &[u64]) -> Result<(), CombineError> {
        let moments = self.index.len();
        let lacking = |&at: &usize| covered[at / 64] >> (at % 64) & 1 == 0;
        match (0..self.ranges() * moments).find(lacking) {
            None => Ok(()),
            Some(at) => Err(CombineError::Incomplete {
                range: at / moments,
                moment: at % moments,
            }),
        }
    }

    fn ranges(&self) -> usize {
        self.strata.ranges().len()
    }

    /// Checks a part against the query; returns its power of the mask.
    fn check(&self, partial: &Partial<'_>) -> Result<usize, CombineError> {
        let unexpected = |what| Err(CombineError::Unexpected(what));
        let Partial {
            range,
            ref moments,
            residues,
        } = *partial;
        if range >= self.ranges() as u64 {
            return unexpected("a range that does not exist");
        }
        if moments.is_empty() || moments.end > self.index.len() {
            return unexpected("moments beyond the last");
        }
        let power = self.index.get(moments.start).0;
        if moments.end > self.index.rank(power).end {
            return unexpected("moments of several powers of the mask together");
        }
        if residues.len() != moments.len() * self.moment_bytes(power) {
            return unexpected("moments of a wrong size");
        }
        Ok(power)
    }
}

/// Sums of the slots of polynomials times secrets, in evaluation form modulo every limb: the contribution of polynomial
/// moments to phases.
struct SlotSums<'c> {
    combiner: &'c Combiner,
    fractions: Fractions<'c>,
    range: u64,
    /// Uses of the next polynomials.
    wanted: Vec<PhaseTerm<'c>>,
    /// Sum for each of them modulo each limb.
    slots: Zeroizing<Vec<u32>>,
}

/// Term of an itemset's phase: the sum of the slots of a polynomial, given by number, times some columns' secrets.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct PhaseTerm<'c> {
    secrets: &'c [Column],
    polynomial: usize,
    itemset: usize,
}

impl<'c> SlotSums<'c> {
    fn new(combiner: &'c Combiner, range: u64) -> Self {
        Self {
            combiner,
            fractions: Fractions::new(combiner.key.ring(), combiner.limbs()),
            range,
            wanted: Vec::new(),
            slots: Zeroizing::default(),
        }
    }

    /// Adds the power of the mask, which every itemset needs multiplied by all its secrets. Multiplies it by a first
    /// secret once for all itemsets that begin with that column, a few first secrets at a time.
    fn add_power_of_mask(&mut self, phases: &mut Phases, power: &[u32]) {
        let ring = self.combiner.key.ring();
        let mut times = Zeroizing::new(vec![0; PREFIXES * power.len()]);
        let all: Vec<(usize, &[Column])> = self.combiner.itemsets.iter().enumerate().collect();
        let alike: Vec<_> = all.chunk_by(|(_, a), (_, b)| a[0] == b[0]).collect();
        for some in alike.chunks(PREFIXES) {
            let products = times.chunks_exact_mut(power.len());
            for (i, (sets, product)) in some.iter().zip(products).enumerate() {
                let factors = power.chunks_exact(ring.degree());
                let by_limb = factors.zip(product.chunks_exact_mut(ring.degree()));
                for (limb, (factor, product)) in Limb::enumerate(by_limb) {
                    let secret = self
                        .combiner
                        .secrets(self.range)
                        .evaluation(limb, &sets[0].1[..1]);
                    let q = ring.limbs()[limb].modulus();
                    vector::multiply(q, &secret, factor, product);
                }
                self.wanted
                    .extend(sets.iter().map(|&(itemset, columns)| PhaseTerm {
                        secrets: &columns[1..],
                        polynomial: i,
                        itemset,
                    }));
            }
            self.add(phases, &times[..some.len() * power.len()]);
        }
    }

    /// Adds the wanted sums of up to [`PREFIXES`] polynomials to phases, limb by limb.
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
            for (limb, ntt) in Limb::enumerate(limbs) {
                let evaluation = |it: &&[PhaseTerm<'_>]| {
                    self.combiner
                        .secrets(self.range)
                        .evaluation(limb, it[0].secrets)
                };
                let secrets: Vec<_> = some.iter().map(evaluation).collect();
                let leaves: Vec<&[u32]> = secrets.iter().map(|it| &it[..]).collect();
                let limb_of_each = polynomials
                    .chunks_exact(ring.degree())
                    .skip(limb.0)
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
            let sum = &mut phases.sums[self.combiner.at(self.range, wanted.itemset)];
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

/// Decoder of phases to sums of slots.
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

    /// Decodes `w/t + Φ_0/(tQ)` modulo 1, in units of 2^-64, to the sum of the slots `−w·N·Q mod t`, and `|Φ_0|/Q`.
    fn slot_sum(&self, sum: u64) -> (u32, f64) {
        let scaled = u128::from(sum) * u128::from(self.plaintext.value());
        // The nearest integer and the distance to it.
        let w = ((scaled + (1 << 63)) >> 64) as u64;
        let distance = (scaled as u64).cast_signed().unsigned_abs();
        (
            self.plaintext.mul(self.plaintext.reduce(w), self.scale),
            distance as f64 / (1u128 << 64) as f64,
        )
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::key::tests::key as key_in;
    use crate::{Block, Bounds, Encryptor};
    use oboro_ring::{Blocks, Ring, mask};
    use proptest::prelude::*;

    /// Minimal server: computes every moment by its definition.
    pub(crate) struct Server<'a> {
        ring: &'a Ring,
        /// `[block][column][limb]`.
        pub(crate) blocks: Vec<Vec<Vec<Vec<u32>>>>,
        /// `[block][limb]`.
        pub(crate) masks: Vec<Vec<Vec<u32>>>,
    }

    impl Server<'_> {
        /// Computes the evaluation form of a moment modulo each of the first `limbs` limbs.
        fn moment(
            &self,
            r: usize,
            columns: &[Column],
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
                        .map(|&c| &self.blocks[b][c][limb])
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

        /// Computes a moment over a range of blocks in the wire encoding.
        pub(crate) fn packed(
            &self,
            combiner: &Combiner,
            index: &MomentIndex,
            range: usize,
            moment: usize,
        ) -> Vec<u8> {
            let (r, columns) = index.get(moment);
            let blocks = &combiner.strata.ranges()[range];
            let blocks = blocks.start as usize..blocks.end as usize;
            let mut residues = self.moment(r, columns, combiner.limbs(), blocks);
            if r == 0 {
                let by_limb = residues.chunks_exact(self.ring.degree());
                residues = by_limb
                    .zip(self.ring.limbs())
                    .map(|(residues, ntt)| vector::sum(ntt.modulus(), residues))
                    .collect();
                residues.resize(residues.len().next_multiple_of(2), 0);
            }
            let mut bytes = vec![0; combiner.moment_bytes(r)];
            pack::pack(&residues, &mut bytes);
            bytes
        }
    }

    /// Strata of blocks that were encrypted together.
    pub(crate) fn strata(key: &DatasetKey, columns: u64, max_len: usize, blocks: u64) -> Strata {
        let bounds = Bounds::new(key.ring().parameters(), columns, max_len).unwrap();
        let transactions = blocks * key.ring().degree() as u64;
        let extents = bounds
            .strata_of(transactions, SecretGeneration::default())
            .unwrap();
        Strata::new(bounds, &extents).unwrap()
    }

    pub(crate) fn dataset<'a>(key: &'a DatasetKey, columns: &[Vec<u64>]) -> Server<'a> {
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
                Column::first(columns.len() as u32)
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
                Limb::first(ring.limbs().len())
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

    pub(crate) fn pseudo_random_columns(columns: usize, words: usize) -> Vec<Vec<u64>> {
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

    /// Generates columns with all the structure that a bound for random data would not cover.
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

    pub(crate) fn plain_support(columns: &[Vec<u64>], set: &[Column]) -> u64 {
        (0..columns[0].len())
            .map(|w| {
                set.iter()
                    .fold(u64::MAX, |and, &c| and & columns[c][w])
                    .count_ones() as u64
            })
            .sum()
    }

    /// All itemsets of a length over some columns.
    fn all_itemsets(columns: u32, length: usize) -> Itemsets {
        Itemsets::all_of(&Column::first(columns).collect::<Vec<_>>(), length).unwrap()
    }

    fn count(server: &Server<'_>, key: &DatasetKey, itemsets: &Itemsets) -> Answer {
        let columns = server.blocks[0].len();
        let strata = strata(
            key,
            columns as u64,
            itemsets.length(),
            server.blocks.len() as u64,
        );
        let combiner = Combiner::new(key.clone(), itemsets.clone(), strata).unwrap();
        combiner.finish(&phases(server, &combiner)).unwrap()
    }

    /// Absorbs all moments of the server by two threads' shares, in runs of three, the last range first: order must not
    /// matter.
    fn phases(server: &Server<'_>, combiner: &Combiner) -> Phases {
        let index = MomentIndex::new(combiner.itemsets());
        let mut shares = [combiner.phases(), combiner.phases()];
        for range in (0..combiner.ranges()).rev() {
            for r in 0..=index.level() {
                for start in index.rank(r).step_by(3) {
                    let moments = start..index.rank(r).end.min(start + 3);
                    let bytes: Vec<Vec<u8>> = moments
                        .clone()
                        .map(|moment| server.packed(combiner, &index, range, moment))
                        .collect();
                    let partial = Partial {
                        range: range as u64,
                        moments,
                        residues: &bytes.concat(),
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
        // Enough columns for the largest phase of each level not to be a small one.
        let columns = pseudo_random_columns(7, 2 * 128);
        let server = dataset(&key, &columns);
        for level in 1..=5 {
            let itemsets = all_itemsets(7, level);
            let answer = count(&server, &key, &itemsets);
            for (set, &support) in itemsets.iter().zip(&answer.supports) {
                assert_eq!(support, plain_support(&columns, set), "{set:?}");
            }
            assert!(answer.log2_largest_phase <= answer.log2_phase_bound);
            // A bound far from the measured values would indicate a wrong formula.
            assert!(
                answer.log2_largest_phase > answer.log2_phase_bound - 16.0,
                "{answer:?}"
            );
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(12))]

        /// Checks identical, reversed and constant columns, which add up coherently. Correctness must not depend on the
        /// shuffle, which would prevent that; it is omitted here.
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
    fn totals_are_lifted_by_their_sample() {
        // t = 40961 holds ten blocks of 4096; eleven blocks of ones are a total and a sample.
        let key = key(12, 2, 40961);
        let strata = strata(&key, 2, 2, 11);
        assert_eq!(strata.ranges(), [0..11, 0..10].map(Blocks::from));
        let columns = vec![vec![u64::MAX; 11 * 64]; 2];
        let server = dataset(&key, &columns);
        let answer = count(&server, &key, &all_itemsets(2, 2));
        assert_eq!(answer.supports, [11 * 4096]);
    }

    #[test]
    fn long_itemsets_are_exact_too() {
        let key = key(13, 7, 65537);
        let columns = pseudo_random_columns(7, 128);
        let server = dataset(&key, &columns);
        for level in [6, 7] {
            let itemsets = all_itemsets(7, level);
            let answer = count(&server, &key, &itemsets);
            for (set, &support) in itemsets.iter().zip(&answer.supports) {
                assert_eq!(support, plain_support(&columns, set), "{set:?}");
            }
        }
    }

    #[test]
    fn a_wrong_key_shows_in_a_small_range() {
        let key = key(12, 2, 65537);
        let server = dataset(&key, &pseudo_random_columns(6, 64));
        // Random supports of 15 pairs: all within one block with probability 16^-15.
        let wrong = key_in(5, key.ring().parameters());
        let strata = strata(&key, 6, 2, 1);
        let combiner = Combiner::new(wrong, all_itemsets(6, 2), strata).unwrap();
        assert!(matches!(
            combiner.finish(&phases(&server, &combiner)),
            Err(CombineError::Impossible { .. })
        ));
    }

    #[test]
    fn unfitting_moments_are_refused() {
        let key = key(12, 2, 65537);
        let strata = strata(&key, 3, 2, 1);
        let right = Combiner::new(key, all_itemsets(3, 2), strata).unwrap();
        let mut phases = right.phases();
        let (scalar, polynomial) = (7, 2 * 4096 * 28 / 8);
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
            (0, 6..7, polynomial - 7),
        ];
        for (range, moments, bytes) in refused {
            let partial = Partial {
                range,
                moments,
                residues: &zeros[..bytes],
            };
            assert!(
                matches!(
                    right.absorb(&mut phases, &partial),
                    Err(CombineError::Unexpected(_))
                ),
                "{range}, {:?}, {bytes} bytes",
                partial.moments
            );
        }
        assert_eq!(
            right.finish(&phases),
            Err(CombineError::Incomplete {
                range: 0,
                moment: 0
            })
        );
        let once = Partial {
            range: 0,
            moments: 3..5,
            residues: &zeros[..2 * polynomial],
        };
        let mut other = right.phases();
        right.absorb(&mut phases, &once).unwrap();
        right.absorb(&mut other, &once).unwrap();
        let twice = Err(CombineError::Unexpected(TWICE));
        assert_eq!(right.absorb(&mut phases, &once), twice);
        assert_eq!(right.merge(&mut phases, &other), twice);
    }

    #[test]
    fn residues_beyond_their_modulus_are_refused() {
        let key = key(12, 3, 65537);
        let strata = strata(&key, 3, 3, 1);
        let combiner = Combiner::new(key, all_itemsets(3, 3), strata).unwrap();
        let refused = |moment: usize, power, residue: [u8; 7], at: usize| {
            let mut bytes = vec![0; combiner.moment_bytes(power)];
            bytes[at..at + 7].copy_from_slice(&residue);
            let partial = Partial {
                range: 0,
                moments: moment..moment + 1,
                residues: &bytes,
            };
            let absorbed = combiner.absorb(&mut combiner.phases(), &partial);
            absorbed == Err(CombineError::Unexpected(NO_RESIDUE))
        };
        let last = MomentIndex::new(combiner.itemsets()).len() - 1;
        for (moment, power) in [(0, 0), (last, 3)] {
            assert!(refused(moment, power, [0xff; 7], 0));
            assert!(!refused(moment, power, [1, 0, 0, 0, 0, 0, 0], 7));
        }
        // The padding after the last limb.
        assert!(refused(0, 0, [0, 0, 0, 0x10, 0, 0, 0], 7));
    }

    proptest! {
        /// Checks `t·v = Φ_0 + w·Q` for `v = t^{-1}·Φ_0 mod Q`, for any phase within its bound.
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
        let strata = strata(&key, 3, 2, 1);
        let error = Combiner::new(key, all_itemsets(3, 3), strata)
            .err()
            .unwrap();
        assert_eq!(
            error,
            CombineError::LevelTooHigh {
                level: 3,
                longest: 2
            }
        );
    }
}
