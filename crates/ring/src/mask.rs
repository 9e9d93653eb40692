//! Public masks from seeds.
//!
//! `a_b` is uniform in `R_Q`, shared by all columns of block `b` and never stored: only
//! its 32-byte seed is. Each limb is expanded on its own, by SHAKE128 (FIPS 202) with
//! the domain, the seed, the ring and the limb absorbed, and exact rejection.

use crate::Basis;
use shake::{ExtendableOutput, Shake128, Update, XofReader};

const DOMAIN: &[u8] = b"oboro v1 mask";
/// Bytes that one permutation of SHAKE128 yields.
const RATE: usize = 168;

/// The seed of one block's mask. Public; used for one block of one dataset, ever.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Seed(pub [u8; 32]);

impl std::fmt::Debug for Seed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Seed({:02x}{:02x}…)", self.0[0], self.0[1])
    }
}

/// Writes limb `limb` of the mask: `N` uniform residues modulo `q_limb` in evaluation form.
///
/// The stream is `SHAKE128("oboro v1 mask" ‖ seed ‖ log2 N (1 byte) ‖ limb (1 byte) ‖
/// q (4 bytes, little-endian))`; each 4 bytes, little-endian, lose their top bits down to
/// the bit length of `q` and are taken if below `q`: every residue has equal probability.
///
/// Panics if `out` does not hold `N` residues or the limb does not exist.
pub fn expand(seed: &Seed, basis: &impl AsRef<Basis>, limb: usize, out: &mut [u32]) {
    let basis = basis.as_ref();
    assert_eq!(out.len(), basis.degree());
    let modulus = basis.limbs()[limb];
    let (q, keep) = (modulus.value(), u32::MAX >> (u32::BITS - modulus.bits()));
    let mut xof = Shake128::default();
    xof.update(DOMAIN);
    xof.update(&seed.0);
    xof.update(&[basis.log_degree() as u8, limb as u8]);
    xof.update(&q.to_le_bytes());
    let mut stream = xof.finalize_xof();
    let mut buffer = [0; RATE];
    let mut filled = 0;
    while filled < out.len() {
        stream.read(&mut buffer);
        for word in buffer.chunks_exact(4) {
            let candidate = u32::from_le_bytes(word.try_into().expect("four bytes")) & keep;
            if candidate < q && filled < out.len() {
                out[filled] = candidate;
                filled += 1;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Parameters;

    fn mask(seed: u8, limbs: usize, limb: usize) -> Vec<u32> {
        let parameters = Parameters::new(12, limbs, 65537).unwrap();
        let mut out = vec![0; parameters.degree()];
        expand(&Seed([seed; 32]), &parameters, limb, &mut out);
        out
    }

    #[test]
    fn is_a_function_of_seed_and_limb_only() {
        assert_eq!(mask(1, 2, 0), mask(1, 3, 0));
        assert_ne!(mask(1, 2, 0), mask(2, 2, 0));
        assert_ne!(mask(1, 2, 0), mask(1, 2, 1));
    }

    #[test]
    fn golden_vector() {
        // Pins the stream: a change here would orphan every stored dataset. Computed with
        // Python's hashlib.shake_128 from the doc comment above.
        assert_eq!(mask(7, 1, 0)[..4], [51975579, 23114242, 22853867, 63562228]);
    }

    #[test]
    fn residues_are_uniform() {
        // Chi-square over 64 equal cells; 63 degrees of freedom, 150 is beyond 10^-8.
        let q = crate::limb_primes(12, 1)[0];
        let mut cells = [0f64; 64];
        let rounds = 64u8;
        for seed in 0..rounds {
            for r in mask(seed, 1, 0) {
                assert!(r < q);
                cells[(u64::from(r) * 64 / u64::from(q)) as usize] += 1.0;
            }
        }
        let expected = f64::from(rounds) * 64.0;
        let chi: f64 = cells
            .iter()
            .map(|c| (c - expected).powi(2) / expected)
            .sum();
        assert!(chi < 150.0, "chi-square {chi}");
    }
}
