//! Public mathematics of Oboro.
//!
//! The ring is `R_q = Z_q[X]/(X^N + 1)`. A polynomial is a slice of `N` residues, each a canonical `u32` below its
//! modulus `q < 2^28`. It is in *coefficient form* or in *evaluation form*: the values at the odd powers of a primitive
//! `2N`-th root of unity, bit-reversed ([`Ntt`]). A ciphertext modulus is a product of such primes, the *limbs*.
//!
//! The crate keeps no secrets. Samples of [`sample`] are as secret as their seed and belong to the caller.

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
pub mod fraction;
pub mod mask;
mod modulus;
pub mod moment;
mod ntt;
mod number;
pub mod pack;
mod parameters;
mod quadratic;
mod ring;
pub mod sample;
mod scaled;
pub mod threads;
pub mod vector;

pub use fraction::Fractions;
pub use mask::{Nonce, QuerySeed, Seed};
pub use modulus::{Modulus, ModulusError};
pub use ntt::{Ntt, NttError};
pub use number::{Blocks, Column, Factor, Limb};
pub use parameters::{
    Basis, MAX_LOG_DEGREE, MIN_LOG_DEGREE, ParameterError, Parameters, limb_primes, most_limbs,
    plaintext_moduli, security_bound,
};
pub use quadratic::{Element, QuadraticField};
pub use ring::Ring;
pub use scaled::ScaledRing;
