//! Moments as they travel: from residues to messages.

use oboro_engine::Moments;
use oboro_protocol::{moments_messages, v1};
use oboro_ring::moment::MomentIndex;
use oboro_ring::{Fractions, Ring};
use std::ops::ControlFlow;
use std::sync::Arc;

/// Packs the moments of one question.
pub(crate) struct Packing {
    ring: Arc<Ring>,
    limbs: usize,
    /// For each power of the mask.
    fraction_bits: Vec<u32>,
}

impl Packing {
    pub(crate) fn new(ring: Arc<Ring>, limbs: usize, fraction_bits: Vec<u32>) -> Self {
        Self {
            ring,
            limbs,
            fraction_bits,
        }
    }

    pub(crate) fn fraction_bits(&self) -> &[u32] {
        &self.fraction_bits
    }

    pub(crate) fn limbs(&self) -> usize {
        self.limbs
    }

    /// The bytes of a packed moment with this power of the mask.
    pub(crate) fn packed_len(&self, power: usize) -> usize {
        Fractions::new(&self.ring, self.limbs).packed_len(power, self.fraction_bits[power])
    }

    /// Packs moments of one group, which lose their residues: `each` gets every one of them,
    /// `send` the messages that carry them.
    pub(crate) fn pack(
        &self,
        index: &MomentIndex,
        mut moments: Moments<'_>,
        mut each: impl FnMut(usize, &[u8]),
        mut send: impl FnMut(v1::Moments) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        let fractions = Fractions::new(&self.ring, self.limbs);
        let mut scratch = vec![0; self.ring.degree()];
        let mut run = Run::new(moments.group);
        for (moment, residues) in moments.each() {
            let power = index.get(moment).0;
            if !run.goes_on_with(moment, power) {
                run.end(&mut send)?;
                run.begin(moment, power);
            }
            let bits = self.fraction_bits[power];
            let bytes = run.room_for(fractions.packed_len(power, bits));
            match power {
                0 => fractions.pack_scalar(residues, bits, bytes),
                _ => fractions.pack_polynomial(residues, bits, &mut scratch, bytes),
            }
            each(moment, bytes);
        }
        run.end(&mut send)
    }

    /// Puts packed moments of one group, ascending, into messages.
    pub(crate) fn put_together<'m>(
        index: &MomentIndex,
        group: u64,
        moments: impl Iterator<Item = (usize, &'m [u8])>,
        mut send: impl FnMut(v1::Moments) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        let mut run = Run::new(group);
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
    group: u64,
    power: usize,
    first: usize,
    count: usize,
    packed: Vec<u8>,
}

impl Run {
    fn new(group: u64) -> Self {
        Self {
            group,
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
        moments_messages(self.group, moments, packed).try_for_each(send)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use oboro_ring::Parameters;
    use oboro_ring::moment::Itemsets;

    #[test]
    fn runs_are_of_neighbours_with_one_power() {
        let ring = Ring::new(Parameters::new(10, 1, 12289).unwrap());
        let degree = ring.degree();
        let packing = Packing::new(Arc::new(ring), 1, vec![32, 20, 24]);
        let index = MomentIndex::new(&Itemsets::new(2, vec![0, 1, 0, 2, 1, 2], 3).unwrap());
        // All scalars but the second, all polynomials.
        let numbers = [0, 2, 3, 4, 5, 6];
        let mut residues: Vec<u32> = (0..2 + 4 * degree as u32).collect();
        let (mut single, mut messages) = (Vec::new(), Vec::new());
        let moments = Moments {
            group: 7,
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
            .map(|m| (m.group, m.first_moment, m.moments, m.fractions.len()))
            .collect();
        let polynomial = degree * 20 / 8;
        let expected = [
            (7, 0, 1, 4),
            (7, 2, 1, 4),
            (7, 3, 3, 3 * polynomial),
            (7, 6, 1, degree * 24 / 8),
        ];
        assert_eq!(shape, expected);
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
        let ring = Ring::new(Parameters::new(10, 1, 12289).unwrap());
        let packing = Packing::new(Arc::new(ring), 1, vec![32, 20]);
        let index = MomentIndex::new(&Itemsets::new(1, vec![0], 1).unwrap());
        let mut residues = vec![0; 1025];
        let moments = Moments {
            group: 0,
            moments: &[0, 1],
            scalars: 1,
            limbs: 1,
            residues: &mut residues,
        };
        let mut packed = 0;
        let sent = packing.pack(
            &index,
            moments,
            |_, _| packed += 1,
            |_| ControlFlow::Break(()),
        );
        assert!(sent.is_break());
        assert_eq!(packed, 1);
    }
}
