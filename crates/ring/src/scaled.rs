//! Plaintexts in the most significant bits of a ciphertext: `m` modulo `t` as the multiple `Q·m/t`.
//!
//! The encoding of Brakerski (CRYPTO 2012) and of Fan and Vercauteren (2012), here for small prime `t` and linear
//! computations only.

use crate::{Basis, Limb, Modulus, Ntt};

/// A ring whose plaintexts modulo a prime `t` are multiples of `Q/t`, with its transforms.
#[derive(Debug, Clone)]
pub struct ScaledRing {
    basis: Basis,
    limbs: Vec<Ntt>,
    t: Modulus,
    /// `Q mod t`.
    q_mod_t: u32,
    /// `t^{-1}` modulo each limb.
    inverses: Vec<u32>,
}

impl ScaledRing {
    /// Prepares the ring of `basis` with plaintexts modulo `t`, an odd prime below every limb.
    ///
    /// Panics on any other `t`.
    pub fn new(basis: Basis, t: u32) -> Self {
        let t = Modulus::new(t).expect("plaintexts are modulo a prime below 2^28");
        assert!(t.value() > 2 && basis.limbs().iter().all(|q| q.value() > t.value()));
        let q_mod_t = basis.limbs().iter().fold(t.reduce(1), |product, q| {
            t.mul(product, t.reduce(q.value().into()))
        });
        Self {
            limbs: basis.transforms(),
            inverses: basis.limbs().iter().map(|q| q.inverse(t.value())).collect(),
            basis,
            t,
            q_mod_t,
        }
    }

    /// Degree and limbs.
    pub fn basis(&self) -> &Basis {
        &self.basis
    }

    /// The transforms modulo `q_1 … q_L`.
    pub fn limbs(&self) -> &[Ntt] {
        &self.limbs
    }

    /// The plaintext modulus.
    pub fn plaintext(&self) -> &Modulus {
        &self.t
    }

    /// Returns `Q·m/t`, rounded to the nearest integer, modulo the limb: `(Q·m − [Q·m]_t)/t`, in which `Q` vanishes.
    /// `m` is below `t`.
    ///
    /// Panics if the limb does not exist.
    pub fn residue(&self, m: u32, limb: Limb) -> u32 {
        let q = &self.basis.limbs()[limb];
        let rest = self.t.centre(self.t.mul(self.q_mod_t, m));
        q.mul(q.reduce_signed(-i64::from(rest)), self.inverses[limb])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn residues_are_those_of_the_rounded_multiples() {
        for (limbs, t) in [(1, 3), (2, 5), (3, 41), (3, 503)] {
            let ring = ScaledRing::new(Basis::new(12, limbs).unwrap(), t);
            let q = ring.basis().limbs().iter().map(|q| u128::from(q.value()));
            let product: u128 = q.product();
            for m in 0..t {
                let doubled = 2 * product * u128::from(m);
                let rounded = (doubled + u128::from(t)) / (2 * u128::from(t));
                for (limb, q) in ring.basis().limbs().iter().enumerate() {
                    let expected = (rounded % u128::from(q.value())) as u32;
                    assert_eq!(
                        ring.residue(m, Limb(limb)),
                        expected,
                        "{m}/{t}, limb {limb}"
                    );
                }
            }
        }
    }
}
