//! Supports of itemsets of three and four from moments, verified before they are combined with secrets
//! (docs/cryptography.md, "Longer itemsets").
//!
//! A query is for all itemsets of length `k` of the first `m` columns in the owner's order. Its answer has for each
//! range the moments `M_{S,r}`, `|S| = k − r`. All of them, weighted with points and slots, must equal
//! `token(m, k) = Σ_w Σ_r p_r(w)·e_{k−r}(x_1 c_1(w), …, x_m c_m(w))`, where `p_0 = 1` and `p_r = z_{s(w)} a(w)^r`.

use crate::combine::{Answer, CombineError, Combiner, Partial, Phases};
use crate::fingerprint::{Elements, Points};
use crate::key::DatasetKey;
use crate::order::ColumnOrder;
use crate::prefix_tokens::{LONGEST_VERIFIED, PrefixTokens, VerifiedLimbs};
use crate::range::{RangeLimb, fit};
use crate::totals::Strata;
use oboro_ring::moment::{Itemsets, RequestError, binomial};
use oboro_ring::{Column, Element, Limb, Parameters, pack, threads, vector};
use std::collections::HashMap;
use std::fmt;
use std::num::NonZeroUsize;
use std::ops::Range;
use thiserror::Error;
use zeroize::Zeroizing;

/// Number of bytes of the answer about all itemsets of `length` of some columns: for pairs the sums alone. `None` for
/// lengths that are not verified.
pub fn prefix_bytes(
    parameters: &Parameters,
    strata: &Strata,
    columns: u64,
    length: usize,
) -> Option<u64> {
    let limbs = strata.bounds().limbs(length)?;
    let powers = match length {
        2 => 0..=0,
        3..=LONGEST_VERIFIED => 0..=length,
        _ => return None,
    };
    let of_power = |power: usize| {
        let each = pack::moment_packed_len(parameters.degree(), limbs, power) as u64;
        binomial(columns, length - power).saturating_mul(each)
    };
    let range = powers.fold(0u64, |sum, power| sum.saturating_add(of_power(power)));
    Some(range.saturating_mul(strata.ranges().len() as u64))
}

/// Query for all itemsets of a length of the first columns in the owner's order.
pub struct PrefixQuery {
    combiner: Combiner,
    /// Index of each column in the owner's order.
    places: HashMap<Column, usize>,
}

/// Error: the query is invalid.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[allow(missing_docs)]
pub enum PrefixError {
    #[error(transparent)]
    Itemsets(#[from] RequestError),
    #[error(transparent)]
    Length(#[from] CombineError),
}

impl PrefixQuery {
    /// Makes the query about these columns, in the owner's order.
    ///
    /// # Errors
    /// The length is outside the bounds, or has no itemsets.
    ///
    /// # Panics
    /// If a column is repeated.
    pub fn new(
        key: &DatasetKey,
        strata: Strata,
        columns: &[Column],
        length: usize,
    ) -> Result<Self, PrefixError> {
        let itemsets = Itemsets::all_of(columns, length)?;
        Ok(Self {
            combiner: Combiner::new(key.clone(), itemsets, strata)?,
            places: columns.iter().copied().zip(0..).collect(),
        })
    }

    /// The itemsets, ascending and in lexicographic order.
    pub fn itemsets(&self) -> &Itemsets {
        self.combiner.itemsets()
    }

    /// Number of limbs to request.
    pub fn limbs(&self) -> usize {
        self.combiner.limbs()
    }

    /// Number of moments in the answer, over each range.
    pub fn moments(&self) -> usize {
        self.combiner.moments()
    }

    /// Byte range of moments in the answer of a range, in the wire encoding; `None` if they do not exist.
    pub fn place(&self, moments: Range<usize>) -> Option<Range<usize>> {
        self.combiner.place(moments)
    }

    /// Number of bytes of the answer of a range.
    pub fn range_bytes(&self) -> usize {
        let all = self.place(0..self.moments());
        all.expect("all moments have a place").end
    }
}

/// Kept data of the ranges of a dataset, which verifies the moments that a server computes there.
pub struct PrefixReader {
    columns: Vec<Column>,
    limbs: Vec<(Points, Elements)>,
    /// Tokens for each range and limb.
    ranges: Vec<Vec<PrefixTokens>>,
}

impl fmt::Debug for PrefixReader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (columns, ranges) = (self.columns.len(), self.ranges.len());
        write!(
            f,
            "PrefixReader({columns} columns, {ranges} ranges, secret)"
        )
    }
}

/// Complete set of verified moments, with their query.
pub struct VerifiedMoments<'a> {
    question: &'a PrefixQuery,
    answer: &'a [Vec<u8>],
}

/// Error: the moments failed verification.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("the server sent other numbers than those of the ciphertext that was encrypted")]
pub struct VerificationError;

/// Number of moments that a thread processes at a time.
const AT_ONCE: usize = 16;

impl PrefixReader {
    /// Makes the reader of a dataset, with the kept data of each of its ranges. `None` if the ranges, or their columns,
    /// blocks or limbs, are not those of the strata.
    pub fn new(
        key: &DatasetKey,
        strata: &Strata,
        order: &ColumnOrder,
        ranges: Vec<Vec<RangeLimb>>,
    ) -> Option<Self> {
        let limbs = VerifiedLimbs::of(strata.bounds()).limbs();
        let columns = order.paired();
        fit(strata, order, limbs, &ranges).then(|| {
            let tokens = |range: Vec<RangeLimb>| range.into_iter().map(|it| it.prefixes).collect();
            let limb = |limb| (Points::new(key, limb, columns), key.slot_weights(limb));
            Self {
                columns: columns.to_vec(),
                limbs: Limb::first(limbs).map(limb).collect(),
                ranges: ranges.into_iter().map(tokens).collect(),
            }
        })
    }

    /// Verifies the moments of each range, concatenated in the wire encoding.
    ///
    /// # Errors
    /// The moments are any others.
    ///
    /// # Panics
    /// If the query is about columns other than the first, or a length without kept data.
    pub fn verify<'a>(
        &self,
        question: &'a PrefixQuery,
        answer: &'a [Vec<u8>],
        threads: NonZeroUsize,
    ) -> Result<VerifiedMoments<'a>, VerificationError> {
        let is_whole = answer.len() == self.ranges.len();
        // Always checks everything: the time depends on lengths only.
        let are_right = (0..self.ranges.len()).zip(answer);
        let are_right = are_right.map(|(range, it)| self.is_range(question, range, it, threads));
        if are_right.fold(is_whole, |all, it| all & it) {
            Ok(VerifiedMoments { question, answer })
        } else {
            Err(VerificationError)
        }
    }

    /// Verifies the moments of one range.
    ///
    /// # Panics
    /// As [`verify`](Self::verify), or if the range does not exist.
    pub fn is_range(
        &self,
        question: &PrefixQuery,
        range: usize,
        answer: &[u8],
        threads: NonZeroUsize,
    ) -> bool {
        let length = question.itemsets().length();
        let columns = question.places.len();
        let place = |column: &Column| question.places.get(column).copied();
        let are_first = self.columns[..columns].iter().map(place);
        assert!(
            are_first.eq((0..columns).map(Some)),
            "a prefix of the owner's order"
        );
        if answer.len() != question.range_bytes() {
            return false;
        }
        let found = self.weighted(question, answer, threads);
        let limbs = &self.limbs[..question.limbs()];
        let sums = found.sums.iter().zip(limbs).zip(&self.ranges[range]);
        let are_right = sums.map(|((sum, (points, _)), tokens)| {
            let token = tokens.of(points.field(), length, columns);
            *sum == *token.expect("there are tokens of every length that has limbs")
        });
        are_right.fold(found.are_residues, |all, it| all & it)
    }

    /// Computes `Σ_S x_S·M_{S,0} + Σ_{S,r} x_S·Σ_s z_s·M_{S,r}(s)` modulo each limb.
    fn weighted(
        &self,
        question: &PrefixQuery,
        answer: &[u8],
        threads: NonZeroUsize,
    ) -> WeightedSums {
        let state = || (WeightedSums::new(question.limbs()), Vec::new());
        let runs = (0..question.moments()).step_by(AT_ONCE);
        let all = threads::fold(threads, runs, state, |(sums, residues), first| {
            for moment in first..(first + AT_ONCE).min(question.moments()) {
                let place = question.place(moment..moment + 1);
                let bytes = &answer[place.expect("there is such a moment")];
                self.add_weighted(question, moment, bytes, residues, sums);
            }
        });
        all.into_iter().fold(
            WeightedSums::new(question.limbs()),
            |mut sums, (more, _)| {
                sums.are_residues &= more.are_residues;
                for ((sum, more), (points, _)) in
                    sums.sums.iter_mut().zip(more.sums.iter()).zip(&self.limbs)
                {
                    *sum = points.field().add(*sum, *more);
                }
                sums
            },
        )
    }

    fn add_weighted(
        &self,
        question: &PrefixQuery,
        moment: usize,
        bytes: &[u8],
        residues: &mut Vec<u32>,
        sums: &mut WeightedSums,
    ) {
        residues.resize(pack::unpacked_len(bytes.len()), 0);
        pack::unpack(bytes, residues);
        let (power, columns) = question.combiner.moment(moment);
        let each = match power {
            0 => 1,
            _ => self.limbs[0].1.a.len(),
        };
        let (by_limb, padding) = residues.split_at(question.limbs() * each);
        sums.are_residues &= padding.iter().all(|&it| it == 0);
        let limbs = by_limb
            .chunks_exact(each)
            .zip(&self.limbs)
            .zip(sums.sums.iter_mut());
        for ((residues, (points, weights)), sum) in limbs {
            let field = points.field();
            let point = |column: &Column| points.each()[question.places[column]];
            let one = Element { a: 1, b: 0 };
            let weight = columns.iter().map(point).fold(one, |x, y| field.mul(x, y));
            sums.are_residues &= vector::largest(residues) < field.modulus().value();
            let value = match power {
                0 => field.scale(weight, field.modulus().reduce(residues[0].into())),
                _ => field.mul(weight, weights.dot(field, residues)),
            };
            *sum = field.add(*sum, value);
        }
    }
}

/// Sums of moments weighted with points and slots.
struct WeightedSums {
    /// Sum for each limb.
    sums: Zeroizing<Vec<Element>>,
    /// `true` if all are canonical: any other representative counts as a different answer.
    are_residues: bool,
}

impl WeightedSums {
    fn new(limbs: usize) -> Self {
        Self {
            sums: Zeroizing::new(vec![Element::default(); limbs]),
            are_residues: true,
        }
    }
}

impl VerifiedMoments<'_> {
    /// Decrypts the supports, in the order of the itemsets.
    ///
    /// # Errors
    /// The moments do not belong to the dataset of the owner's record.
    pub fn supports(&self, threads: NonZeroUsize) -> Result<Answer, CombineError> {
        let combiner = &self.question.combiner;
        let runs: Vec<(u64, Range<usize>)> = (0..self.answer.len() as u64)
            .flat_map(|range| combiner.runs(AT_ONCE).map(move |run| (range, run)))
            .collect();
        let state = || Ok(combiner.phases());
        let absorb = |phases: &mut Result<Phases, CombineError>,
                      (range, moments): (u64, Range<usize>)| {
            let Ok(held) = phases else { return };
            let place = combiner.place(moments.clone());
            let partial = Partial {
                range,
                residues: &self.answer[range as usize][place.expect("there are such moments")],
                moments,
            };
            if let Err(error) = combiner.absorb(held, &partial) {
                *phases = Err(error);
            }
        };
        let mut all = combiner.phases();
        for phases in threads::fold(threads, runs, state, absorb) {
            combiner.merge(&mut all, &phases?)?;
        }
        combiner.finish(&all)
    }
}

#[cfg(test)]
mod tests;
