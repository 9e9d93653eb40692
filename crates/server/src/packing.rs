//! Wire form of moments: residues in messages.

use oboro_engine::{Moments, Plan};
use oboro_protocol::{moments_messages, v1};
use oboro_ring::moment::MomentIndex;
use oboro_ring::pack::{moment_packed_len, pack, unpack, unpacked_len};
use std::ops::ControlFlow;

/// Packer of the moments of one query.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Packing {
    degree: usize,
    limbs: usize,
}

impl Packing {
    pub(crate) fn new(degree: usize, limbs: usize) -> Self {
        Self { degree, limbs }
    }

    pub(crate) fn limbs(self) -> usize {
        self.limbs
    }

    /// Returns the bytes of a packed moment with this power of the mask.
    pub(crate) fn packed_len(self, power: usize) -> usize {
        moment_packed_len(self.degree, self.limbs, power)
    }

    /// Returns the bytes of all packed moments of a plan over one shard.
    pub(crate) fn shard_bytes(self, plan: &Plan) -> u64 {
        let index = plan.index();
        let moments = plan.moments().iter().map(|&moment| index.get(moment).0);
        moments.map(|power| self.packed_len(power) as u64).sum()
    }

    /// Packs moments of one range or shard: `each` receives every moment, `send` the messages.
    pub(crate) fn pack(
        self,
        index: &MomentIndex,
        mut moments: Moments<'_>,
        mut each: impl FnMut(usize, &[u8]),
        mut send: impl FnMut(v1::Moments) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        let mut scalar = vec![0; self.limbs.next_multiple_of(2)];
        let mut run = Run::new(moments.shard as u64);
        for (moment, residues) in moments.each() {
            let power = index.get(moment).0;
            if !run.goes_on_with(moment, power) {
                run.end(&mut send)?;
                run.begin(moment, power);
            }
            let bytes = run.room_for(self.packed_len(power));
            match power {
                0 => {
                    scalar[..self.limbs].copy_from_slice(residues);
                    pack(&scalar, bytes);
                }
                _ => pack(residues, bytes),
            }
            each(moment, bytes);
        }
        run.end(&mut send)
    }

    /// Returns the residues of packed moments with one power of the mask, all of the right length.
    pub(crate) fn unpack(self, power: usize, packed: &[u8]) -> Vec<u32> {
        let mut residues = vec![0; unpacked_len(packed.len())];
        unpack(packed, &mut residues);
        let padded = self.limbs.next_multiple_of(2);
        if power == 0 && padded > self.limbs {
            residues
                .chunks_exact(padded)
                .flat_map(|it| &it[..self.limbs])
                .copied()
                .collect()
        } else {
            residues
        }
    }

    /// Joins packed moments of one range, ascending, into messages.
    pub(crate) fn put_together<'m>(
        index: &MomentIndex,
        range: u64,
        moments: impl Iterator<Item = (usize, &'m [u8])>,
        mut send: impl FnMut(v1::Moments) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        let mut run = Run::new(range);
        for (moment, packed) in moments {
            let power = index.get(moment).0;
            if !run.goes_on_with(moment, power) {
                run.end(&mut send)?;
                run.begin(moment, power);
            }
            run.room_for(packed.len()).copy_from_slice(packed);
        }
        run.end(&mut send)
    }
}

/// Consecutive moments with one power of the mask.
struct Run {
    range: u64,
    power: usize,
    first: usize,
    count: usize,
    packed: Vec<u8>,
}

impl Run {
    fn new(range: u64) -> Self {
        Self {
            range,
            power: 0,
            first: 0,
            count: 0,
            packed: Vec::new(),
        }
    }

    fn goes_on_with(&self, moment: usize, power: usize) -> bool {
        self.count > 0 && (self.first + self.count, self.power) == (moment, power)
    }

    fn begin(&mut self, first: usize, power: usize) {
        (self.first, self.power) = (first, power);
    }

    fn room_for(&mut self, bytes: usize) -> &mut [u8] {
        let start = self.packed.len();
        self.packed.resize(start + bytes, 0);
        self.count += 1;
        &mut self.packed[start..]
    }

    fn end(&mut self, send: &mut impl FnMut(v1::Moments) -> ControlFlow<()>) -> ControlFlow<()> {
        if self.count == 0 {
            return ControlFlow::Continue(());
        }
        let moments = self.first..self.first + std::mem::take(&mut self.count);
        let packed = std::mem::take(&mut self.packed);
        moments_messages(self.range, moments, packed).try_for_each(send)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use oboro_ring::Column;
    use oboro_ring::moment::Itemsets;

    #[test]
    fn runs_are_of_neighbours_with_one_power() {
        let degree = 1024;
        let packing = Packing::new(degree, 1);
        let index = MomentIndex::new(
            &Itemsets::new(2, [0, 1, 0, 2, 1, 2].map(Column).to_vec(), 3).unwrap(),
        );
        // All scalars but the second, all polynomials.
        let numbers = [0, 2, 3, 4, 5, 6];
        let mut residues: Vec<u32> = (0..2 + 4 * degree as u32).collect();
        let (mut single, mut messages) = (Vec::new(), Vec::new());
        let moments = Moments {
            shard: 7,
            moments: &numbers,
            scalars: 2,
            limbs: 1,
            residues: &mut residues,
        };
        let sent = packing.pack(
            &index,
            moments,
            |moment, packed| single.push((moment, packed.to_vec())),
            |message| {
                messages.push(message);
                ControlFlow::Continue(())
            },
        );
        assert!(sent.is_continue());
        let shape: Vec<_> = messages
            .iter()
            .map(|m| (m.range, m.first_moment, m.moments, m.residues.len()))
            .collect();
        let polynomial = degree * 28 / 8;
        let expected = [
            (7, 0, 1, 7),
            (7, 2, 1, 7),
            (7, 3, 3, 3 * polynomial),
            (7, 6, 1, polynomial),
        ];
        assert_eq!(shape, expected);
        let unpacked = |m: &v1::Moments| {
            let power = index.get(m.first_moment as usize).0;
            packing.unpack(power, &m.residues)
        };
        assert_eq!(
            messages.iter().flat_map(unpacked).collect::<Vec<_>>(),
            residues
        );
        let mut again = Vec::new();
        let singles = single.iter().map(|(moment, packed)| (*moment, &packed[..]));
        let sent = Packing::put_together(&index, 7, singles, |message| {
            again.push(message);
            ControlFlow::Continue(())
        });
        assert!(sent.is_continue());
        assert_eq!(again, messages);
    }

    #[test]
    fn nothing_is_packed_for_nobody() {
        let index = MomentIndex::new(&Itemsets::new(1, vec![Column(0)], 1).unwrap());
        let mut residues = vec![0; 1025];
        let moments = Moments {
            shard: 0,
            moments: &[0, 1],
            scalars: 1,
            limbs: 1,
            residues: &mut residues,
        };
        let mut packed = 0;
        let sent = Packing::new(1024, 1).pack(
            &index,
            moments,
            |_, _| packed += 1,
            |_| ControlFlow::Break(()),
        );
        assert!(sent.is_break());
        assert_eq!(packed, 1);
    }
}
