//! Arithmetic modulo one word-sized prime.
//!
//! A modulus is below 2^28: products stay below 2^56, and 256 of them fit into a 64-bit sum before a reduction. All
//! results are canonical (below `q`) and computed without branching on the residues.

use thiserror::Error;

/// Largest bit length of a residue; the packed format and the lazy sums depend on it.
pub const MAX_BITS: u32 = 28;

/// Number that cannot be used as a modulus.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum ModulusError {
    /// Number outside the range for which the arithmetic is proved.
    #[error("modulus {0} is outside 3..2^28; choose a prime below 2^28")]
    OutOfRange(u32),
    /// Number that is not prime.
    #[error("modulus {0} is not prime; choose a prime below 2^28")]
    Composite(u32),
}

/// An odd prime `q < 2^28` with the constants of Barrett's reduction
/// (Handbook of Applied Cryptography, algorithm 14.42, base 2).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Modulus {
    value: u32,
    bits: u32,
    /// `floor(2^(2·bits) / q)`, below `2^(bits+1)`.
    barrett: u32,
    /// `floor(2^64 / q)`, for sums of many products.
    barrett_wide: u64,
}

impl Modulus {
    /// Checks that `value` is an odd prime below 2^28 and prepares its constants.
    pub fn new(value: u32) -> Result<Self, ModulusError> {
        if !(3..1 << MAX_BITS).contains(&value) {
            return Err(ModulusError::OutOfRange(value));
        }
        if !is_prime(value) {
            return Err(ModulusError::Composite(value));
        }
        let bits = u32::BITS - value.leading_zeros();
        Ok(Self {
            value,
            bits,
            barrett: ((1u64 << (2 * bits)) / u64::from(value)) as u32,
            // q is odd and above 1, so it does not divide 2^64 and the floor is that of (2^64 - 1)/q.
            barrett_wide: u64::MAX / u64::from(value),
        })
    }

    /// The prime itself.
    #[inline]
    pub const fn value(&self) -> u32 {
        self.value
    }

    /// The number of bits of the prime.
    #[inline]
    pub const fn bits(&self) -> u32 {
        self.bits
    }

    /// `floor(2^(2·bits)/q)`, for kernels that reduce products below `2^(2·bits)` themselves.
    #[inline]
    pub(crate) const fn barrett(&self) -> u32 {
        self.barrett
    }

    /// `x mod q` for any `x`.
    #[inline]
    pub const fn reduce(&self, x: u64) -> u32 {
        let quotient = ((x as u128 * self.barrett_wide as u128) >> 64) as u64;
        // The quotient is at most one too small, so this is below 2q < 2^29.
        let r = x.wrapping_sub(quotient.wrapping_mul(self.value as u64)) as u32;
        min(r, r.wrapping_sub(self.value))
    }

    /// `x mod q`, the residue of a signed integer.
    #[inline]
    pub const fn reduce_signed(&self, x: i64) -> u32 {
        let magnitude = self.reduce(x.unsigned_abs());
        let negated = self.neg(magnitude);
        // All ones if x is negative: a branch-free selection.
        let mask = (x >> 63) as u32;
        (negated & mask) | (magnitude & !mask)
    }

    /// The representative of residue `x` in `(-q/2, q/2)`.
    #[inline]
    pub const fn centre(&self, x: u32) -> i32 {
        let above = ((self.value / 2).wrapping_sub(x) as i32) >> 31;
        x as i32 - (self.value as i32 & above)
    }

    /// `a + b mod q` of two residues.
    #[inline]
    pub const fn add(&self, a: u32, b: u32) -> u32 {
        let sum = a + b;
        min(sum, sum.wrapping_sub(self.value))
    }

    /// `a − b mod q` of two residues.
    #[inline]
    pub const fn sub(&self, a: u32, b: u32) -> u32 {
        let difference = a.wrapping_sub(b);
        min(difference, difference.wrapping_add(self.value))
    }

    /// `−a mod q` of a residue.
    #[inline]
    pub const fn neg(&self, a: u32) -> u32 {
        self.sub(0, a)
    }

    /// `a·b mod q` of two residues.
    #[inline]
    pub const fn mul(&self, a: u32, b: u32) -> u32 {
        let product = a as u64 * b as u64;
        let quotient = ((product >> (self.bits - 1)) * self.barrett as u64) >> (self.bits + 1);
        // HAC 14.42: the quotient is at most two too small.
        let r = (product - quotient * self.value as u64) as u32;
        let r = min(r, r.wrapping_sub(self.value));
        min(r, r.wrapping_sub(self.value))
    }

    /// `a^exponent mod q`; the exponent is public (the time depends on it).
    pub const fn pow(&self, a: u32, exponent: u64) -> u32 {
        let mut base = a;
        let mut exponent = exponent;
        let mut result = 1;
        while exponent > 0 {
            if exponent & 1 == 1 {
                result = self.mul(result, base);
            }
            base = self.mul(base, base);
            exponent >>= 1;
        }
        result
    }

    /// The inverse of a residue; 0 for 0.
    pub const fn inverse(&self, a: u32) -> u32 {
        self.pow(a, self.value as u64 - 2)
    }

    /// The constant `floor(w·2^32/q)` for fast multiplication by the residue `w` (Shoup; Harvey, "Faster arithmetic for
    /// number-theoretic transforms", 2014).
    ///
    /// Computed without a division, whose time could depend on a secret `w`.
    #[inline]
    pub const fn shoup(&self, w: u32) -> u32 {
        let dividend = (w as u64) << 32;
        let quotient = ((dividend as u128 * self.barrett_wide as u128) >> 64) as u64;
        // The quotient is at most one too small.
        let remainder = dividend - quotient * self.value as u64;
        (quotient + (remainder >= self.value as u64) as u64) as u32
    }

    /// `x·w mod q` in `[0, 2q)` for any `x`, given `w` and its [`shoup`](Self::shoup) constant.
    #[inline]
    pub const fn mul_shoup_lazy(&self, x: u32, w: u32, w_shoup: u32) -> u32 {
        let quotient = ((x as u64 * w_shoup as u64) >> 32) as u32;
        x.wrapping_mul(w)
            .wrapping_sub(quotient.wrapping_mul(self.value))
    }

    /// Root of unity on which the formats depend: the smallest `x ≥ 2` for which `x^((q−1)/order)` has exactly the
    /// given order, a power of two. `None` if the order does not divide `q − 1`.
    pub fn root_of_unity(&self, order: u32) -> Option<u32> {
        if !order.is_power_of_two() || order < 2 || !(self.value - 1).is_multiple_of(order) {
            return None;
        }
        (2..self.value)
            .map(|x| self.pow(x, u64::from((self.value - 1) / order)))
            .find(|&root| self.pow(root, u64::from(order / 2)) == self.value - 1)
    }
}

#[inline]
const fn min(a: u32, b: u32) -> u32 {
    if a < b { a } else { b }
}

/// Returns true if `n` is prime, by trial division: moduli are below 2^28, so at most 2^13 odd divisors.
pub(crate) fn is_prime(n: u32) -> bool {
    n == 2
        || (n > 2
            && n % 2 == 1
            && (3..)
                .step_by(2)
                .take_while(|d| d * d <= n)
                .all(|d| !n.is_multiple_of(d)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn moduli() -> impl Strategy<Value = Modulus> {
        prop::sample::select(vec![
            3,
            5,
            97,
            12289,
            65537,
            114_689,
            134_176_769,
            268_369_921,
        ])
        .prop_map(|q| Modulus::new(q).unwrap())
    }

    #[test]
    fn refuses_what_the_arithmetic_is_not_proved_for() {
        assert_eq!(Modulus::new(2), Err(ModulusError::OutOfRange(2)));
        assert_eq!(
            Modulus::new(1 << 28),
            Err(ModulusError::OutOfRange(1 << 28))
        );
        assert_eq!(Modulus::new(65535), Err(ModulusError::Composite(65535)));
    }

    #[test]
    fn root_of_unity_has_exact_order() {
        let q = Modulus::new(114_689).unwrap();
        let root = q.root_of_unity(1 << 14).unwrap();
        assert_eq!(q.pow(root, 1 << 13), q.value() - 1);
        assert_eq!(q.root_of_unity(1 << 15), None);
    }

    proptest! {
        #[test]
        fn arithmetic_agrees_with_integers(q in moduli(), x: u64, a: u32, b: u32, s in -(1i64 << 40)..1 << 40) {
            let v = u64::from(q.value());
            let (a, b) = (a % q.value(), b % q.value());
            prop_assert_eq!(u64::from(q.reduce(x)), x % v);
            prop_assert_eq!(i64::from(q.reduce_signed(s)), s.rem_euclid(v as i64));
            prop_assert_eq!(u64::from(q.mul(a, b)), u64::from(a) * u64::from(b) % v);
            prop_assert_eq!(u64::from(q.add(a, b)), (u64::from(a) + u64::from(b)) % v);
            prop_assert_eq!(q.add(q.sub(a, b), b), a);
            prop_assert_eq!(q.reduce_signed(i64::from(q.centre(a))), a);
            prop_assert!(q.centre(a).unsigned_abs() <= q.value() / 2);
            if a != 0 {
                prop_assert_eq!(q.mul(a, q.inverse(a)), 1);
            }
        }

        #[test]
        fn shoup_multiplication_is_lazy_but_right(q in moduli(), x: u32, w: u32) {
            let w = w % q.value();
            prop_assert_eq!(u64::from(q.shoup(w)), (u64::from(w) << 32) / u64::from(q.value()));
            let r = q.mul_shoup_lazy(x, w, q.shoup(w));
            prop_assert!(u64::from(r) < 2 * u64::from(q.value()));
            prop_assert_eq!(u64::from(r) % u64::from(q.value()), u64::from(x) * u64::from(w) % u64::from(q.value()));
        }
    }
}
