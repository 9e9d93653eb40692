//! Public masks, expanded from seeds.
//!
//! A mask is uniform in `R_Q` and never stored; its 32-byte seed is. Each limb is expanded separately by SHAKE128 (FIPS
//! 202), which absorbs domain, seed, ring and limb, with exact rejection. Each purpose has its own seed type and
//! domain: equal bytes give different masks, and one kind of seed cannot replace another.

use crate::{Basis, Limb};
use shake::{ExtendableOutput, Shake128, Update, XofReader};
use zeroize::Zeroizing;

/// Bytes per permutation of SHAKE128.
const RATE: usize = 168;

/// Seed from which masks are expanded.
pub trait MaskSeed {
    /// The domain separator, absorbed first. None is a prefix of another.
    const DOMAIN: &'static [u8];

    /// The seed itself.
    fn bytes(&self) -> &[u8; 32];
}

macro_rules! mask_seed {
    ($(#[$doc:meta])* $name:ident, $domain:literal) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, Hash)]
        pub struct $name(pub [u8; 32]);

        impl MaskSeed for $name {
            const DOMAIN: &'static [u8] = $domain;

            fn bytes(&self) -> &[u8; 32] {
                &self.0
            }
        }

        impl std::fmt::Debug for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                write!(f, "{}({:02x}{:02x}…)", stringify!($name), self.0[0], self.0[1])
            }
        }
    };
}

mask_seed!(
    /// The seed of one block's mask. Public; never reused for another block or dataset.
    Seed,
    b"oboro v1 mask"
);
mask_seed!(
    /// The seed of the mask of one ciphertext of a query. Public; never reused.
    QuerySeed,
    b"oboro v1 query mask"
);
mask_seed!(
    /// The seed of the mask of a query's public key. Public; drawn by the server for one query.
    Nonce,
    b"oboro v1 query key"
);

/// The seed of the weights of slots in fingerprints. Secret, unlike the seeds of masks.
pub struct WeightSeed(pub Zeroizing<[u8; 32]>);

impl MaskSeed for WeightSeed {
    const DOMAIN: &'static [u8] = b"oboro v1 slot weights";

    fn bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

/// Writes limb `limb` of the mask: `N` uniform residues modulo `q_limb` in evaluation form.
///
/// The stream is `SHAKE128(domain ‖ seed ‖ log2 N (1 byte) ‖ limb (1 byte) ‖ q (4 bytes, little-endian))`. Each 4
/// bytes, little-endian, are truncated to the bit length of `q` and accepted if below `q`: every residue has equal
/// probability.
///
/// Panics if `out` does not hold `N` residues or the limb does not exist.
pub fn expand<S: MaskSeed>(seed: &S, basis: &impl AsRef<Basis>, limb: Limb, out: &mut [u32]) {
    let basis = basis.as_ref();
    assert_eq!(out.len(), basis.degree());
    let modulus = basis.limbs()[limb];
    let (q, keep) = (modulus.value(), u32::MAX >> (u32::BITS - modulus.bits()));
    let mut xof = Shake128::default();
    xof.update(S::DOMAIN);
    xof.update(seed.bytes());
    xof.update(&[basis.log_degree() as u8, limb.0 as u8]);
    xof.update(&q.to_le_bytes());
    let mut stream = xof.finalize_xof();
    let mut buffer = Zeroizing::new([0; RATE]);
    let mut filled = 0;
    while filled < out.len() {
        stream.read(&mut *buffer);
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
        expanded(&Seed([seed; 32]), limbs, limb)
    }

    fn expanded(seed: &impl MaskSeed, limbs: usize, limb: usize) -> Vec<u32> {
        let parameters = Parameters::new(12, limbs, 65537).unwrap();
        let mut out = vec![0; parameters.degree()];
        expand(seed, &parameters, Limb(limb), &mut out);
        out
    }

    #[test]
    fn is_a_function_of_seed_and_limb_only() {
        assert_eq!(mask(1, 2, 0), mask(1, 3, 0));
        assert_ne!(mask(1, 2, 0), mask(2, 2, 0));
        assert_ne!(mask(1, 2, 0), mask(1, 2, 1));
    }

    #[test]
    fn golden_vectors() {
        // A change of the first stream would make every stored dataset unreadable. A change of the others would break
        // compatibility of client and server. Computed with Python's hashlib.shake_128 from the doc comment above.
        assert_eq!(mask(7, 1, 0)[..4], [51975579, 23114242, 22853867, 63562228]);
        let query = expanded(&QuerySeed([7; 32]), 1, 0);
        assert_eq!(query[..4], [122417795, 208887482, 124452908, 249900616]);
        let key = expanded(&Nonce([7; 32]), 1, 0);
        assert_eq!(key[..4], [233958968, 207195507, 60765003, 108694665]);
    }

    #[test]
    fn no_domain_makes_a_mask_of_another() {
        let of = [
            mask(7, 1, 0),
            expanded(&QuerySeed([7; 32]), 1, 0),
            expanded(&Nonce([7; 32]), 1, 0),
        ];
        for (i, x) in of.iter().enumerate() {
            for y in &of[..i] {
                assert!(x.iter().zip(y).all(|(x, y)| x != y));
            }
        }
        let domains = [Seed::DOMAIN, QuerySeed::DOMAIN, Nonce::DOMAIN];
        for (i, x) in domains.iter().enumerate() {
            for (j, y) in domains.iter().enumerate() {
                assert!(i == j || !x.starts_with(y));
            }
        }
    }

    #[test]
    fn residues_are_uniform() {
        // Chi-square over 64 equal cells; with 63 degrees of freedom, 150 is exceeded with probability 10^-8.
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
