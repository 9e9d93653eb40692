//! What a server computes about all itemsets of a prefix of the owner's columns: given away as supports once all of it
//! was what the owner's tokens say (docs/cryptography.md, "Fingerprints").
//!
//! Of pairs that is one residue a limb and range, of longer itemsets all moments. What arrives is put in its place as it
//! comes. What fits no place changes nothing but the verdict at the end, so that the server sees the same whatever it
//! sent.

use super::Verified;
use crate::error::ClientError;
use oboro_mining::Dataset;
use oboro_protocol::{max_itemsets, moments_range, v1};
use oboro_ring::moment::binomial;
use oboro_ring::pack;
use oboro_rlwe::{LONGEST_VERIFIED, PairsError, PrefixQuestion, Sums, prefix_bytes};
use std::num::NonZeroUsize;
use std::ops::Range;

/// The most pairs of one request: their numbers fit any server's messages.
const MOST_PAIRS: usize = 1 << 16;

/// All itemsets of a length of the first columns in the owner's order.
pub(crate) struct Prefix<'a> {
    dataset: &'a Dataset,
    columns: Columns,
    level: usize,
    limbs: usize,
    ranges: Vec<Range<u64>>,
    itemsets: usize,
    bytes: u64,
}

/// Columns of a prefix.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Columns {
    /// In the owner's order.
    ordered: Vec<u32>,
    /// Ascending, each with its place in the owner's order.
    sorted: Vec<(u32, usize)>,
}

impl<'a> Prefix<'a> {
    /// The smallest prefix that has these columns, at least as many as an itemset has; `None` if there is none, or
    /// itemsets of this length are not verified in this dataset.
    pub(crate) fn of(dataset: &'a Dataset, columns: &[u32], level: usize) -> Option<Self> {
        let record = dataset.record();
        let strata = record.strata(dataset.manifest()).ok()?;
        let limbs = strata.bounds().limbs(level)?;
        let place = |column| record.prefix.iter().position(|it| it == column);
        let last = columns.iter().map(place).collect::<Option<Vec<usize>>>()?;
        let ordered = record.prefix[..=last.into_iter().max()?].to_vec();
        let mut sorted: Vec<(u32, usize)> = ordered.iter().copied().zip(0..).collect();
        sorted.sort_unstable();
        let count = ordered.len() as u64;
        let itemsets = binomial(count, level);
        let bytes = match level {
            2 => itemsets
                .saturating_mul(pack::moment_packed_len(0, limbs, 0) as u64)
                .saturating_mul(strata.ranges().len() as u64),
            3..=LONGEST_VERIFIED => {
                prefix_bytes(&dataset.manifest().parameters, &strata, count, level)?
            }
            _ => return None,
        };
        (itemsets > 0).then(|| Self {
            dataset,
            columns: Columns { ordered, sorted },
            level,
            limbs,
            ranges: strata.ranges().to_vec(),
            itemsets: usize::try_from(itemsets).unwrap_or(usize::MAX),
            bytes,
        })
    }

    /// The length of the itemsets.
    pub(crate) fn level(&self) -> usize {
        self.level
    }

    /// The number of itemsets.
    pub(crate) fn itemsets(&self) -> usize {
        self.itemsets
    }

    /// The limbs that must be asked for.
    pub(crate) fn limbs(&self) -> usize {
        self.limbs
    }

    /// The bytes of the whole answer, or the largest number.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Whether one request has room for what must be asked in one.
    pub(crate) fn has_room(&self) -> bool {
        self.level == 2 || self.itemsets <= max_itemsets(self.level)
    }

    /// Asks for all of it. Only now anything is made that grows with the number of itemsets.
    ///
    /// # Errors
    /// None for a prefix that there is.
    pub(crate) fn question(&self) -> Result<Question<'_>, ClientError> {
        let longer = match self.level {
            2 => None,
            level => {
                let (key, record) = (self.dataset.key(), self.dataset.record());
                let strata = record.strata(self.dataset.manifest());
                let strata = strata.map_err(oboro_mining::DatasetError::from)?;
                Some(PrefixQuestion::new(
                    key,
                    strata,
                    &self.columns.ordered,
                    level,
                )?)
            }
        };
        Ok(Question {
            prefix: self,
            longer,
        })
    }
}

/// What is asked about a prefix.
pub(crate) struct Question<'a> {
    prefix: &'a Prefix<'a>,
    /// All of it, if itemsets have more than two columns.
    longer: Option<PrefixQuestion>,
}

impl Question<'_> {
    /// The moments over each range.
    fn moments(&self) -> usize {
        let longer = self.longer.as_ref();
        longer.map_or(self.prefix.itemsets, PrefixQuestion::moments)
    }

    /// Where moments lie in the answer of a range; `None` if there are no such moments.
    fn place(&self, moments: Range<usize>) -> Option<Range<usize>> {
        match &self.longer {
            Some(question) => question.place(moments),
            None => {
                let each = pack::moment_packed_len(0, self.prefix.limbs, 0);
                let fits = moments.start <= moments.end && moments.end <= self.prefix.itemsets;
                fits.then(|| moments.start * each..moments.end * each)
            }
        }
    }

    /// The bytes of the answer about some moments.
    pub(crate) fn bytes_of(&self, moments: &Range<usize>) -> u64 {
        let place = self.place(moments.clone());
        place.map_or(0, |it| it.len() as u64) * self.prefix.ranges.len() as u64
    }

    /// What to ask for, and which moments answer it.
    pub(crate) fn requests(&self, name: &str) -> Vec<(Range<usize>, v1::CountRequest)> {
        let Prefix {
            dataset,
            ref columns,
            level,
            limbs,
            ref ranges,
            ..
        } = *self.prefix;
        let request = |columns: Vec<u32>, scalars| v1::CountRequest {
            name: name.to_owned(),
            root: dataset.manifest().root().0.to_vec().into(),
            limbs: limbs as u32,
            length: level as u32,
            columns,
            ranges: ranges.iter().cloned().map(Into::into).collect(),
            scalars,
        };
        if let Some(question) = &self.longer {
            let columns = question.itemsets().as_flat().to_vec();
            return vec![(0..question.moments(), request(columns, false))];
        }
        let sorted = &columns.sorted;
        let pairs = (0..sorted.len())
            .flat_map(|i| (i + 1..sorted.len()).flat_map(move |j| [sorted[i].0, sorted[j].0]));
        let pairs: Vec<u32> = pairs.collect();
        let chunks = pairs.chunks(2 * MOST_PAIRS).zip((0..).step_by(MOST_PAIRS));
        chunks
            .map(|(chunk, first)| {
                let moments = first..first + chunk.len() / 2;
                (moments, request(chunk.to_vec(), true))
            })
            .collect()
    }

    /// Where nothing has arrived.
    pub(crate) fn arriving(&self) -> Arriving<'_> {
        let whole = self.place(0..self.moments()).map_or(0, |it| it.end);
        let ranges = self.prefix.ranges.len();
        Arriving {
            question: self,
            ranges: vec![vec![0; whole]; ranges],
            come: vec![false; self.moments() * ranges],
            is_right: true,
        }
    }

    /// The sums of pairs as they are verified: for each range and limb, in the lexicographic order of places. `None` if
    /// padding is not 0.
    fn sums(&self, answer: &[Vec<u8>], order: &[usize]) -> Option<Vec<Sums>> {
        let limbs = self.prefix.limbs;
        let each = pack::moment_packed_len(0, limbs, 0);
        let mut residues = vec![0; pack::unpacked_len(each)];
        let mut of_range = |range: &Vec<u8>| {
            let mut sums = vec![vec![0; order.len()]; limbs];
            for (packed, &place) in range.chunks_exact(each).zip(order) {
                pack::unpack(packed, &mut residues);
                if residues[limbs..].iter().any(|&it| it != 0) {
                    return None;
                }
                for (sums, &residue) in sums.iter_mut().zip(&residues) {
                    sums[place] = residue;
                }
            }
            Some(sums)
        };
        answer.iter().map(&mut of_range).collect()
    }
}

impl Columns {
    /// For each pair of columns, ascending and in lexicographic order, its place in that of the owner's order.
    fn order_of_pairs(&self) -> Vec<usize> {
        let n = self.ordered.len();
        let place = |a: usize, b: usize| {
            let (a, b) = (a.min(b), a.max(b));
            a * (2 * n - a - 1) / 2 + b - a - 1
        };
        let sorted = &self.sorted;
        let pairs = (0..n).flat_map(|i| (i + 1..n).map(move |j| place(sorted[i].1, sorted[j].1)));
        pairs.collect()
    }
}

/// An answer as it comes.
pub(crate) struct Arriving<'a> {
    question: &'a Question<'a>,
    /// For each range the moments as they travel, one after another.
    ranges: Vec<Vec<u8>>,
    /// For each range and moment whether it has come.
    come: Vec<bool>,
    is_right: bool,
}

impl Arriving<'_> {
    /// Takes a part of the answer to a request for the moments from number `first` on.
    pub(crate) fn take(&mut self, first: usize, message: &v1::Moments) {
        self.is_right &= self.place(first, message).is_some();
    }

    /// Notes that more came than there can be.
    pub(crate) fn has_more(&mut self) {
        self.is_right = false;
    }

    /// Forgets what came of a request for these moments: it is sent again.
    pub(crate) fn forget(&mut self, moments: Range<usize>) {
        for come in self.come.chunks_exact_mut(self.question.moments()) {
            come[moments.clone()].fill(false);
        }
    }

    fn place(&mut self, first: usize, message: &v1::Moments) -> Option<()> {
        let numbers = moments_range(message).ok()?;
        let numbers = first.checked_add(numbers.start)?..first.checked_add(numbers.end)?;
        let place = self.question.place(numbers.clone())?;
        let range = usize::try_from(message.range).ok()?;
        let bytes = self.ranges.get_mut(range)?;
        if message.residues.len() != place.len() {
            return None;
        }
        let of_range = range * self.question.moments();
        let come = &mut self.come[of_range + numbers.start..of_range + numbers.end];
        let are_new = come.iter().all(|&come| !come);
        come.fill(true);
        bytes[place].copy_from_slice(&message.residues);
        are_new.then_some(())
    }

    /// The supports of all itemsets, once everything has been read.
    ///
    /// # Errors
    /// Anything but what follows from the ciphertext that the owner made, which is then in the owner's record; a
    /// sealed range that is damaged.
    pub(crate) fn verify(self, threads: NonZeroUsize) -> Result<Verified<Supports>, ClientError> {
        let Question { prefix, longer } = self.question;
        let is_whole = self.is_right && self.come.iter().all(|&come| come);
        let answer = match is_whole {
            true => &self.ranges[..],
            false => &[],
        };
        let supports = match longer {
            Some(question) => {
                let reader = prefix.dataset.prefix_reader()?;
                let verified = reader.verify(question, answer, threads).ok();
                verified.map(|it| Ok(it.supports(threads)?.supports))
            }
            None => {
                let reader = prefix.dataset.pair_reader()?;
                let order = prefix.columns.order_of_pairs();
                let sums = self.question.sums(answer, &order).unwrap_or_default();
                let verified = reader.verify_prefix(prefix.columns.ordered.len(), &sums);
                let in_order = |supports: Vec<u64>| order.iter().map(|&it| supports[it]).collect();
                match verified.and_then(|it| it.supports()) {
                    Err(PairsError::NotVerified) => None,
                    supports => Some(supports.map(in_order).map_err(ClientError::from)),
                }
            }
        };
        let false_answer = || {
            let what = "the server sent other sums than those of the ciphertext that was encrypted";
            ClientError::false_answer(prefix.dataset, what)
        };
        let supports: Vec<u64> = supports.ok_or_else(false_answer)??;
        Ok(Verified(Supports {
            columns: prefix.columns.sorted.iter().map(|it| it.0).collect(),
            level: prefix.level,
            supports,
        }))
    }
}

/// The supports of all itemsets of a length of some columns.
pub(crate) struct Supports {
    /// Ascending.
    columns: Vec<u32>,
    level: usize,
    /// In lexicographic order.
    supports: Vec<u64>,
}

impl Supports {
    /// That of an itemset, its columns ascending; `None` if it is none of these.
    pub(crate) fn of(&self, itemset: &[u32]) -> Option<u64> {
        if itemset.len() != self.level {
            return None;
        }
        let mut rank = self.supports.len() - 1;
        for (i, column) in itemset.iter().enumerate() {
            let place = self.columns.binary_search(column).ok()?;
            // Those that agree up to here and go on with a later column.
            let behind = (self.columns.len() - 1 - place) as u64;
            rank -= binomial(behind, self.level - i) as usize;
        }
        self.supports.get(rank).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use oboro_ring::moment::Itemsets;

    #[test]
    fn supports_are_found_by_their_columns() {
        let columns = vec![2, 3, 5, 7, 11, 13];
        for level in 1..=4 {
            let all = Itemsets::all_of(&columns, level).unwrap();
            let supports = Supports {
                columns: columns.clone(),
                level,
                supports: (100..).take(all.len()).collect(),
            };
            for (itemset, support) in all.iter().zip(100..) {
                assert_eq!(supports.of(itemset), Some(support), "{itemset:?}");
            }
            assert_eq!(supports.of(&[]), None);
            assert_eq!(supports.of(&columns[..level + 1]), None);
            let others: Vec<u32> = (14..).take(level).collect();
            assert_eq!(supports.of(&others), None);
        }
    }

    #[test]
    fn pairs_have_a_place_in_both_orders() {
        let columns = Columns {
            ordered: vec![7, 2, 9],
            sorted: vec![(2, 1), (7, 0), (9, 2)],
        };
        // (2, 7), (2, 9), (7, 9) of (7, 2), (7, 9), (2, 9).
        assert_eq!(columns.order_of_pairs(), [0, 2, 1]);
    }
}
