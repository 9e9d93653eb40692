//! Sums moments over shards into moments over ranges.
//!
//! A query names ranges of blocks, and its answer has the moments over each: the sums over the range's shards, which
//! are counted one by one. Sums are sent as soon as they are complete: scalars together with the last shard, each
//! polynomial by itself.

use oboro_engine::{Moments, shards};
use oboro_ring::{Blocks, Modulus, vector};
use parking_lot::Mutex;
use std::ops::{ControlFlow, Range};

/// Ranges of a query, cut into shards.
#[derive(Debug, Clone)]
pub(crate) struct Shards {
    pub(crate) ranges: Vec<Blocks>,
    pub(crate) shards: Vec<Blocks>,
}

impl Shards {
    /// Cuts ranges into shards of at most `most` blocks.
    pub(crate) fn new(ranges: Vec<Blocks>, most: u64) -> Self {
        let shards = shards(&ranges, most);
        Self { ranges, shards }
    }

    /// Returns the bytes for sums of `residues` residues, in `polynomials` polynomials besides the scalars, over all
    /// ranges of more than one shard.
    pub(crate) fn sum_bytes(&self, residues: usize, polynomials: usize) -> u64 {
        let of_range = residues * size_of::<u32>() + polynomials * size_of::<Mutex<Sum>>();
        let added_up = self.owned().filter(|shards| shards.len() > 1).count();
        added_up as u64 * of_range as u64
    }

    /// Returns the shards of each range. They are ascending, and none crosses a range boundary.
    fn owned(&self) -> impl Iterator<Item = Range<usize>> {
        self.ranges.iter().map(|range| {
            let first = self.shards.partition_point(|it| it.start < range.start);
            let end = self.shards.partition_point(|it| it.end <= range.end);
            first..end.max(first)
        })
    }
}

/// Sums in progress.
pub(crate) struct Totals {
    moduli: Vec<Modulus>,
    ranges: Vec<Total>,
    /// Requested moments, ascending; scalars first.
    wanted: Vec<usize>,
    scalars: usize,
}

/// Sums of one range.
struct Total {
    shards: Range<usize>,
    scalars: Mutex<Sum>,
    /// Sums of the polynomials; empty for a single shard, whose moments are the range's.
    polynomials: Vec<Mutex<Sum>>,
}

/// Sum of moments.
#[derive(Default)]
struct Sum {
    /// Residues; empty until the first moment is added.
    residues: Vec<u32>,
    /// Number of moments added.
    added: usize,
}

impl Totals {
    /// Creates sums of the `wanted` moments modulo these limbs, of which the first `scalars` are scalars.
    pub(crate) fn new(
        shards: &Shards,
        moduli: &[Modulus],
        wanted: Vec<usize>,
        scalars: usize,
    ) -> Self {
        let total = |owned: Range<usize>| {
            let sums = match owned.len() {
                0 | 1 => 0,
                _ => wanted.len() - scalars,
            };
            Total {
                shards: owned,
                scalars: Mutex::default(),
                polynomials: (0..sums).map(|_| Mutex::default()).collect(),
            }
        };
        Self {
            moduli: moduli.to_vec(),
            ranges: shards.owned().map(total).collect(),
            wanted,
            scalars,
        }
    }

    /// Adds moments of a shard. Passes complete ones to `done`, with the index of their range in place of the shard.
    pub(crate) fn add(
        &self,
        mut moments: Moments<'_>,
        mut done: impl FnMut(Moments<'_>) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        let shard = moments.shard;
        let owners = self.ranges.iter().enumerate();
        for (owner, total) in owners.filter(|(_, total)| total.shards.contains(&shard)) {
            if total.shards.len() == 1 {
                done(Moments {
                    shard: owner,
                    moments: moments.moments,
                    scalars: moments.scalars,
                    limbs: moments.limbs,
                    residues: moments.residues,
                })?;
                continue;
            }
            self.add_scalars(owner, &moments, &mut done)?;
            let scalars = moments.scalars;
            for (moment, residues) in moments.each().skip(scalars) {
                self.add_polynomial(owner, moment, residues, &mut done)?;
            }
        }
        ControlFlow::Continue(())
    }

    fn add_scalars(
        &self,
        owner: usize,
        moments: &Moments<'_>,
        done: &mut impl FnMut(Moments<'_>) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        let some = &moments.moments[..moments.scalars];
        if some.is_empty() {
            return ControlFlow::Continue(());
        }
        let limbs = self.moduli.len();
        let total = &self.ranges[owner];
        let mut sum = total.scalars.lock();
        sum.residues.resize(self.scalars * limbs, 0);
        for (moment, residues) in some.iter().zip(moments.residues.chunks_exact(limbs)) {
            let at = self.index_of(*moment) * limbs;
            let sums = &mut sum.residues[at..at + limbs];
            for ((sum, &residue), q) in sums.iter_mut().zip(residues).zip(&self.moduli) {
                *sum = q.add(*sum, residue);
            }
        }
        sum.added += some.len();
        if sum.added < self.scalars * total.shards.len() {
            return ControlFlow::Continue(());
        }
        let mut sum = std::mem::take(&mut *sum);
        done(Moments {
            shard: owner,
            moments: &self.wanted[..self.scalars],
            scalars: self.scalars,
            limbs,
            residues: &mut sum.residues,
        })
    }

    fn add_polynomial(
        &self,
        owner: usize,
        moment: usize,
        residues: &[u32],
        done: &mut impl FnMut(Moments<'_>) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        let total = &self.ranges[owner];
        let index = self.index_of(moment);
        let mut sum = total.polynomials[index - self.scalars].lock();
        sum.residues.resize(residues.len(), 0);
        let degree = residues.len() / self.moduli.len();
        let limbs = residues.chunks_exact(degree).zip(&self.moduli);
        for ((residues, q), sum) in limbs.zip(sum.residues.chunks_exact_mut(degree)) {
            vector::add_assign(q, residues, sum);
        }
        sum.added += 1;
        if sum.added < total.shards.len() {
            return ControlFlow::Continue(());
        }
        let mut sum = std::mem::take(&mut *sum);
        done(Moments {
            shard: owner,
            moments: &self.wanted[index..=index],
            scalars: 0,
            limbs: self.moduli.len(),
            residues: &mut sum.residues,
        })
    }

    fn index_of(&self, moment: usize) -> usize {
        self.wanted
            .binary_search(&moment)
            .expect("only what is wanted is counted")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A total of three shards, the first of which is a sample, and a range of one more.
    #[test]
    fn sums_are_those_of_all_shards_in_whatever_order_they_come() {
        let shards = Shards::new([0..5, 0..2, 5..6].map(Blocks::from).to_vec(), 2);
        assert_eq!(shards.shards, [0..2, 2..4, 4..5, 5..6].map(Blocks::from));
        let q = [97, 193].map(|q| Modulus::new(q).unwrap());
        // Two scalars and a polynomial of four residues, of numbers 1, 4 and 7.
        assert!(shards.owned().eq([0..3, 0..1, 3..4]));
        assert_eq!(shards.sum_bytes(10, 1), 40 + size_of::<Mutex<Sum>>() as u64);
        let totals = Totals::new(&shards, &q, vec![1, 4, 7], 2);
        // Only the first range is summed.
        assert!(
            totals
                .ranges
                .iter()
                .map(|it| it.polynomials.len())
                .eq([1, 0, 0])
        );
        let mut found = Vec::new();
        let mut add = |shard: usize, moments: &[usize], scalars, residues: &mut [u32]| {
            let moments = Moments {
                shard,
                moments,
                scalars,
                limbs: 2,
                residues,
            };
            let added = totals.add(moments, |done| {
                let residues = done.residues.to_vec();
                found.push((done.shard, done.moments.to_vec(), residues));
                ControlFlow::Continue(())
            });
            assert!(added.is_continue());
        };
        add(
            2,
            &[1, 4, 7],
            2,
            &mut [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12],
        );
        add(1, &[4, 7], 1, &mut [96, 96, 1, 1, 1, 1, 192, 1, 1, 1]);
        add(3, &[1, 4], 2, &mut [9, 9, 9, 9]);
        add(0, &[1], 1, &mut [30, 40]);
        add(0, &[4, 7], 1, &mut [50, 60, 1, 1, 1, 1, 2, 2, 2, 2]);
        add(1, &[1], 1, &mut [96, 192]);
        let expected = [
            (2, vec![1, 4], vec![9, 9, 9, 9]),
            (1, vec![1], vec![30, 40]),
            (0, vec![7], vec![7, 8, 9, 10, 10, 13, 14, 15]),
            (1, vec![4, 7], vec![50, 60, 1, 1, 1, 1, 2, 2, 2, 2]),
            (0, vec![1, 4], vec![30, 41, 52, 160]),
        ];
        assert_eq!(found, expected);
    }
}
