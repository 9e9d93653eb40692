//! Supported rings; parameters below 128-bit security are rejected.
//!
//! Limb primes follow from the degree and their number: the largest primes below 2^28 that are 1 modulo 2N, in
//! descending order. If that many would exceed the standard's bound, the last two share the remaining bits: N = 2048
//! has two below 2^27, N = 4096 four with two below 2^26.5. Equal numbers therefore mean equal rings on both sides.

use crate::Ntt;
use crate::modulus::{MAX_BITS, Modulus, is_prime};
use thiserror::Error;

/// The smallest ring degree is `2^MIN_LOG_DEGREE` = 1024.
pub const MIN_LOG_DEGREE: u32 = 10;
/// The largest ring degree is `2^MAX_LOG_DEGREE` = 32768.
pub const MAX_LOG_DEGREE: u32 = 15;

/// Smallest size of a limb.
const LEAST_LIMB_BITS: f64 = 26.0;

/// Parameters that Oboro rejects.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[allow(missing_docs)]
pub enum ParameterError {
    #[error("ring degree 2^{0} is not supported; use 2^{MIN_LOG_DEGREE} to 2^{MAX_LOG_DEGREE}")]
    Degree(u32),
    #[error(
        "{limbs} limbs at ring degree {degree} make log2 Q = {bits:.1}, above {bound}, the bound of the \
         Homomorphic Encryption Standard for 128-bit security with ternary secrets; use a larger degree or fewer limbs"
    )]
    Insecure {
        degree: usize,
        limbs: usize,
        bits: Bits,
        bound: u32,
    },
    #[error("a ciphertext modulus needs at least one limb")]
    NoLimbs,
    #[error(
        "plaintext modulus {t} does not fit: it must be a prime that is 1 modulo {order}, and below a 43rd of the smallest limb"
    )]
    PlaintextModulus { t: u32, order: u32 },
}

/// Bits formatted with one decimal, for errors.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Bits(pub f64);
impl Eq for Bits {}
impl std::fmt::Display for Bits {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}

/// Largest `log2 Q` that is 128-bit secure against classical attacks for a uniform ternary secret of this degree:
/// Homomorphic Encryption Standard (2018), table 1.
pub const fn security_bound(log_degree: u32) -> Option<u32> {
    match log_degree {
        10 => Some(27),
        11 => Some(54),
        12 => Some(109),
        13 => Some(218),
        14 => Some(438),
        15 => Some(881),
        _ => None,
    }
}

/// Largest number of limbs of a degree; `None` for an unsupported degree.
pub fn most_limbs(log_degree: u32) -> Option<usize> {
    let bound = security_bound(log_degree)?;
    let wide = (bound / MAX_BITS) as usize;
    Some(wide + usize::from(last_limb_bits(bound, wide + 1) >= LEAST_LIMB_BITS))
}

/// Bits of each of the last two of `count` limbs, or of the only one, if all others have [`MAX_BITS`].
fn last_limb_bits(bound: u32, count: usize) -> f64 {
    let others = count.saturating_sub(2) as f64 * f64::from(MAX_BITS);
    (f64::from(bound) - others) / count.clamp(1, 2) as f64
}

/// Returns the first `count` limb primes of a degree, each 1 modulo 2N and above 2^25. They descend from 2^28. If
/// `count` would exceed the bound that way, the last two share the bits that the others leave.
pub fn limb_primes(log_degree: u32, count: usize) -> Vec<u32> {
    let order = 2u32 << log_degree;
    let below = |top: u32| {
        // 1 modulo the order.
        (1..=top.saturating_sub(2) / order)
            .rev()
            .map(move |k| k * order + 1)
            .filter(|&candidate| is_prime(candidate))
    };
    let bound = security_bound(log_degree).unwrap_or(0);
    let bits = last_limb_bits(bound, count).min(f64::from(MAX_BITS));
    let all_fit = count as u64 * u64::from(MAX_BITS) <= u64::from(bound);
    let wide = if all_fit || bits < LEAST_LIMB_BITS {
        count
    } else {
        count.saturating_sub(2)
    };
    let mut primes: Vec<u32> = below(1 << MAX_BITS).take(wide).collect();
    primes.extend(below(bits.exp2() as u32).take(count - wide));
    primes
}

/// Returns the plaintext moduli that allow batching (one 0/1 value per slot): all primes `t` with `t ≡ 1 mod 2N` and
/// `t < limit`, ascending.
pub fn plaintext_moduli(log_degree: u32, limit: u32) -> impl Iterator<Item = u32> {
    let order = 2u32 << log_degree;
    (1..)
        .map_while(move |k: u32| k.checked_mul(order)?.checked_add(1))
        .take_while(move |&t| t < limit)
        .filter(|&t| is_prime(t))
}

/// The ring of ciphertexts: degree `N` and limbs `q_1 > q_2 > …`, 128-bit secure.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Basis {
    log_degree: u32,
    limbs: Vec<Modulus>,
}

impl Basis {
    /// Returns the basis of degree `2^log_degree` and its first `limbs` primes. Rejects one that is not 128-bit secure
    /// with all published limbs counted.
    pub fn new(log_degree: u32, limbs: usize) -> Result<Self, ParameterError> {
        let bound = security_bound(log_degree).ok_or(ParameterError::Degree(log_degree))?;
        if limbs == 0 {
            return Err(ParameterError::NoLimbs);
        }
        // More limbs than bits of the bound cannot be secure; capping the number keeps this cheap.
        let primes = limb_primes(log_degree, limbs.min(bound as usize));
        let bits: f64 = primes.iter().map(|&q| f64::from(q).log2()).sum();
        if primes.len() < limbs || bits > f64::from(bound) {
            return Err(ParameterError::Insecure {
                degree: 1 << log_degree,
                limbs,
                bits: Bits(bits),
                bound,
            });
        }
        Ok(Self {
            log_degree,
            limbs: primes
                .into_iter()
                .map(|q| Modulus::new(q).expect("limb primes are primes below 2^28"))
                .collect(),
        })
    }

    /// Returns the basis of this degree with the most limbs of equal size: 28 bits, or 27 if only those fit.
    ///
    /// # Errors
    /// The degree is not supported.
    pub fn largest(log_degree: u32) -> Result<Self, ParameterError> {
        let bound = security_bound(log_degree).ok_or(ParameterError::Degree(log_degree))?;
        let bits = if bound < 2 * MAX_BITS {
            MAX_BITS - 1
        } else {
            MAX_BITS
        };
        Self::new(log_degree, (bound / bits) as usize)
    }

    /// Returns the basis of the first `limbs` limbs.
    ///
    /// Panics if it has fewer, or if `limbs` is 0.
    pub fn first(&self, limbs: usize) -> Self {
        assert!(limbs > 0);
        Self {
            log_degree: self.log_degree,
            limbs: self.limbs[..limbs].to_vec(),
        }
    }

    /// `log2 N`.
    pub fn log_degree(&self) -> u32 {
        self.log_degree
    }

    /// The ring degree `N`.
    pub fn degree(&self) -> usize {
        1 << self.log_degree
    }

    /// The limbs `q_1 … q_L`.
    pub fn limbs(&self) -> &[Modulus] {
        &self.limbs
    }

    /// The transforms modulo `q_1 … q_L`.
    pub fn transforms(&self) -> Vec<Ntt> {
        let transform = |&modulus: &Modulus| {
            Ntt::new(modulus, self.degree()).expect("limb primes allow the transform")
        };
        self.limbs.iter().map(transform).collect()
    }

    /// `log2 (q_1 … q_limbs)`, rounded down slightly.
    pub fn log2_q(&self, limbs: usize) -> f64 {
        self.limbs[..limbs]
            .iter()
            .map(|q| f64::from(q.value()).log2())
            .sum::<f64>()
            - 1e-9
    }
}

impl AsRef<Basis> for Basis {
    fn as_ref(&self) -> &Basis {
        self
    }
}

/// A validated ring for data in slots: degree `N`, limbs `q_1 > q_2 > …` and plaintext modulus `t`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Parameters {
    basis: Basis,
    plaintext: Modulus,
}

impl AsRef<Basis> for Parameters {
    fn as_ref(&self) -> &Basis {
        &self.basis
    }
}

impl Parameters {
    /// Returns parameters of degree `2^log_degree`, its first `limbs` primes and plaintext modulus `t`. Rejects those
    /// that are not 128-bit secure with all published limbs counted.
    pub fn new(
        log_degree: u32,
        limbs: usize,
        plaintext_modulus: u32,
    ) -> Result<Self, ParameterError> {
        let basis = Basis::new(log_degree, limbs)?;
        let order = 2u32 << log_degree;
        let wrong = ParameterError::PlaintextModulus {
            t: plaintext_modulus,
            order,
        };
        // A phase factor m + t·e has coefficients up to 21.5·t, since errors are at most 21. Below q/2, a single limb
        // represents it. The bound also makes t different from all limbs, so gcd(t, Q) = 1.
        let smallest = u64::from(basis.limbs[limbs - 1].value());
        if plaintext_modulus % order != 1 || 43 * u64::from(plaintext_modulus) >= smallest {
            return Err(wrong);
        }
        Ok(Self {
            basis,
            plaintext: Modulus::new(plaintext_modulus).map_err(|_| wrong)?,
        })
    }

    /// `log2 N`.
    pub fn log_degree(&self) -> u32 {
        self.basis.log_degree
    }

    /// The ring degree `N`, also the number of transactions in a block.
    pub fn degree(&self) -> usize {
        self.basis.degree()
    }

    /// The number of limbs `L`.
    pub fn limb_count(&self) -> usize {
        self.basis.limbs.len()
    }

    /// The limbs `q_1 … q_L`.
    pub fn limb_moduli(&self) -> &[Modulus] {
        &self.basis.limbs
    }

    /// The plaintext modulus `t` as a number.
    pub fn plaintext_modulus(&self) -> u32 {
        self.plaintext.value()
    }

    /// The plaintext modulus `t` with its arithmetic.
    pub fn plaintext(&self) -> &Modulus {
        &self.plaintext
    }

    /// `log2 (q_1 … q_limbs)`, rounded down slightly.
    pub fn log2_q(&self, limbs: usize) -> f64 {
        self.basis.log2_q(limbs)
    }

    /// The number of blocks whose supports stay below `t`.
    pub fn sample_blocks(&self) -> u64 {
        u64::from(self.plaintext.value() - 1) >> self.basis.log_degree
    }

    /// Largest number of blocks per task: those of a sample, up to 28 of degree 4096.
    pub fn shard_blocks(&self) -> u64 {
        const SLOTS: u64 = 28 << 12;
        self.sample_blocks().min(SLOTS >> self.basis.log_degree)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limbs_are_distinct_primes_that_allow_the_transform() {
        for log_degree in MIN_LOG_DEGREE..=MAX_LOG_DEGREE {
            for count in 1..=31 {
                let primes = limb_primes(log_degree, count);
                assert_eq!(primes.len(), count);
                for pair in primes.windows(2) {
                    assert!(pair[0] > pair[1]);
                }
                for q in primes {
                    assert!(is_prime(q) && q % (2 << log_degree) == 1);
                    assert!((1 << 25..1 << 28).contains(&q));
                }
            }
        }
    }

    #[test]
    fn the_standard_bound_is_the_limit() {
        // The most limbs of each degree: log2 Q ≤ 27/54/109/218/438/881.
        for (log_degree, most, equal) in [
            (10, 1, 1),
            (11, 2, 2),
            (12, 4, 3),
            (13, 7, 7),
            (14, 15, 15),
            (15, 31, 31),
        ] {
            let t = plaintext_moduli(log_degree, 1 << 20).next().unwrap();
            assert!(
                Parameters::new(log_degree, most, t).is_ok(),
                "2^{log_degree}"
            );
            assert!(matches!(
                Parameters::new(log_degree, most + 1, t),
                Err(ParameterError::Insecure { .. })
            ));
            assert_eq!(most_limbs(log_degree), Some(most));
            let largest = Basis::largest(log_degree).unwrap();
            assert_eq!(largest, Basis::new(log_degree, equal).unwrap());
        }
        assert_eq!((most_limbs(9), most_limbs(16)), (None, None));
        assert_eq!(Parameters::new(9, 1, 65537), Err(ParameterError::Degree(9)));
        assert_eq!(
            Parameters::new(16, 1, 65537),
            Err(ParameterError::Degree(16))
        );
        assert_eq!(Parameters::new(12, 0, 65537), Err(ParameterError::NoLimbs));
        assert!(matches!(
            Parameters::new(12, usize::MAX, 65537),
            Err(ParameterError::Insecure { .. })
        ));
    }

    /// Checks the figures of docs/cryptography.md: two limbs of 28 bits for pairs, and two more for quadruples.
    #[test]
    fn four_limbs_of_degree_4096_fill_the_bound() {
        let four = Basis::new(12, 4).unwrap();
        assert_eq!(four.first(2), Basis::new(12, 2).unwrap());
        let bits: Vec<f64> = (1..=4).map(|limbs| four.log2_q(limbs)).collect();
        for (found, expected) in bits.iter().zip([28.0, 56.0, 82.5, 109.0]) {
            assert!((expected - 0.02..expected).contains(found), "{bits:?}");
        }
    }

    #[test]
    fn plaintext_modulus_must_batch_and_be_coprime_to_q() {
        let shared = limb_primes(12, 1)[0];
        for t in [0, 1, 2, 65536, 40963, 8193, shared] {
            assert!(
                matches!(
                    Parameters::new(12, 2, t),
                    Err(ParameterError::PlaintextModulus { .. })
                ),
                "t = {t}"
            );
        }
        // The largest that fits into a limb together with its error.
        let limit = limb_primes(12, 2)[1] / 43;
        let (fits, too_large): (Vec<u32>, Vec<u32>) =
            plaintext_moduli(12, 2 * limit).partition(|&t| t < limit);
        assert!(Parameters::new(12, 2, *fits.last().unwrap()).is_ok());
        assert!(Parameters::new(12, 2, too_large[0]).is_err());
        assert!(
            plaintext_moduli(12, u32::MAX).count() > 1000,
            "no limit overflows"
        );
        let p = Parameters::new(12, 3, 114_689).unwrap();
        assert_eq!((p.sample_blocks(), p.shard_blocks()), (28, 28));
        assert_eq!(
            plaintext_moduli(13, 1 << 17).collect::<Vec<_>>(),
            [65537, 114_689]
        );
    }
}
