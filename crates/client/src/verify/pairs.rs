//! Sums of pairs, one residue a limb and range: given away as supports once all of them were what the owner's tokens
//! say (docs/cryptography.md, "Fingerprints").
//!
//! What arrives is put in its place as it comes. What fits no place changes nothing but the verdict at the end, so that
//! the server sees the same whatever it sent.

use super::Verified;
use crate::error::ClientError;
use oboro_mining::Dataset;
use oboro_protocol::{moments_range, v1};
use oboro_ring::pack;
use oboro_rlwe::{PairsError, Sums};
use std::collections::HashMap;
use std::ops::Range;

/// Pairs to be had: all of the first columns in the owner's order.
pub(crate) struct Prefix {
    columns: Vec<u32>,
    limbs: usize,
    ranges: Vec<Range<u64>>,
    /// All pairs, each ascending and in lexicographic order of columns, with their places in that of the prefix.
    pairs: Vec<([u32; 2], u32)>,
}

/// Supports of pairs by column numbers, the smaller first.
pub(crate) type PairSupports = HashMap<[u32; 2], u64>;

impl Prefix {
    /// The smallest prefix that has these columns; `None` if there is none, or pairs are not counted in this dataset.
    pub(crate) fn of(dataset: &Dataset, columns: &[u32]) -> Option<Self> {
        let record = dataset.record();
        let strata = record.strata(dataset.manifest()).ok()?;
        let limbs = strata.bounds().limbs(2)?;
        let place = |column| record.prefix.iter().position(|it| it == column);
        let last = columns.iter().map(place).collect::<Option<Vec<usize>>>()?;
        let columns = record.prefix[..=last.into_iter().max()?].to_vec();
        let places = 0..columns.len();
        let pairs = places
            .clone()
            .flat_map(|i| (i + 1..columns.len()).map(move |j| (i, j)));
        let ascending = |(i, j): (usize, usize)| {
            let (a, b) = (columns[i], columns[j]);
            [a.min(b), a.max(b)]
        };
        let mut pairs: Vec<([u32; 2], u32)> = pairs.map(ascending).zip(0..).collect();
        pairs.sort_unstable();
        Some(Self {
            limbs,
            ranges: strata.ranges().to_vec(),
            pairs,
            columns,
        })
    }

    /// The number of pairs.
    pub(crate) fn pairs(&self) -> usize {
        self.pairs.len()
    }

    /// The limbs that must be asked for.
    pub(crate) fn limbs(&self) -> usize {
        self.limbs
    }

    /// The bytes of the whole answer.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes_of(self.pairs.len())
    }

    /// The bytes of an answer about so many pairs.
    pub(crate) fn bytes_of(&self, pairs: usize) -> u64 {
        (pairs * self.ranges.len() * self.packed_len()) as u64
    }

    fn packed_len(&self) -> usize {
        pack::moment_packed_len(0, self.limbs, 0)
    }

    /// What to ask for, `most` pairs at a time.
    pub(crate) fn requests(
        &self,
        dataset: &Dataset,
        name: &str,
        most: usize,
    ) -> Vec<v1::CountRequest> {
        let request = |pairs: &[([u32; 2], u32)]| v1::CountRequest {
            name: name.to_owned(),
            root: dataset.manifest().root().0.to_vec().into(),
            limbs: self.limbs as u32,
            length: 2,
            columns: pairs.iter().flat_map(|(pair, _)| *pair).collect(),
            ranges: self.ranges.iter().cloned().map(Into::into).collect(),
            scalars: true,
        };
        self.pairs.chunks(most).map(request).collect()
    }

    /// Where nothing has arrived.
    pub(crate) fn arriving(&self) -> Arriving<'_> {
        let range = || vec![vec![0; self.pairs.len()]; self.limbs];
        Arriving {
            prefix: self,
            sums: self.ranges.iter().map(|_| range()).collect(),
            come: vec![false; self.pairs.len() * self.ranges.len()],
            is_right: true,
        }
    }
}

/// Sums as they come.
pub(crate) struct Arriving<'a> {
    prefix: &'a Prefix,
    /// For each range and limb in the order of the prefix's pairs.
    sums: Vec<Sums>,
    /// For each range and pair whether it has come.
    come: Vec<bool>,
    is_right: bool,
}

impl Arriving<'_> {
    /// Takes a part of the answer to a request for the pairs from number `first` on.
    pub(crate) fn take(&mut self, first: usize, message: &v1::Moments) {
        self.is_right &= self.place(first, message).is_some();
    }

    /// Notes that more came than there can be.
    pub(crate) fn has_more(&mut self) {
        self.is_right = false;
    }

    /// Forgets what came of a request for so many pairs: it is sent again.
    pub(crate) fn forget(&mut self, pairs: Range<usize>) {
        let all = self.prefix.pairs.len();
        for range in 0..self.prefix.ranges.len() {
            self.come[range * all + pairs.start..range * all + pairs.end].fill(false);
        }
    }

    fn place(&mut self, first: usize, message: &v1::Moments) -> Option<()> {
        let Prefix {
            pairs,
            limbs,
            ranges,
            ..
        } = self.prefix;
        let numbers = moments_range(message).ok()?;
        let range = usize::try_from(message.range)
            .ok()
            .filter(|&it| it < ranges.len())?;
        let each = self.prefix.packed_len();
        let fits = message.residues.len() == numbers.len().checked_mul(each)?;
        let numbers = first.checked_add(numbers.start)?..first.checked_add(numbers.end)?;
        if !fits || numbers.end > pairs.len() {
            return None;
        }
        let mut residues = vec![0; pack::unpacked_len(each)];
        for (number, packed) in numbers.zip(message.residues.chunks_exact(each)) {
            pack::unpack(packed, &mut residues);
            let come = &mut self.come[range * pairs.len() + number];
            let is_new = !std::mem::replace(come, true);
            let (residues, padding) = residues.split_at(*limbs);
            if !is_new || padding.iter().any(|&it| it != 0) {
                return None;
            }
            for (sums, &residue) in self.sums[range].iter_mut().zip(residues) {
                sums[pairs[number].1 as usize] = residue;
            }
        }
        Some(())
    }

    /// The supports of all pairs, once everything has been read.
    ///
    /// # Errors
    /// Sums that are not those of the ciphertext that the owner made, which is then in the owner's record; a sealed
    /// range that is damaged.
    pub(crate) fn verify(self, dataset: &Dataset) -> Result<Verified<PairSupports>, ClientError> {
        let reader = dataset.pair_reader()?;
        let verified = match self.is_right && self.come.iter().all(|&come| come) {
            true => reader.verify_prefix(self.prefix.columns.len(), &self.sums),
            false => Err(PairsError::NotVerified),
        };
        match verified {
            Ok(sums) => {
                let supports = sums.supports()?;
                let support = |&(pair, place): &([u32; 2], u32)| (pair, supports[place as usize]);
                Ok(Verified(self.prefix.pairs.iter().map(support).collect()))
            }
            Err(PairsError::NotVerified) => {
                let what =
                    "the server sent other sums than those of the ciphertext that was encrypted";
                Err(ClientError::false_answer(dataset, what))
            }
            Err(error) => Err(error.into()),
        }
    }
}
