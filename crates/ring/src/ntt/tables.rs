//! Tables of a transform: the powers of its root of unity, in the order in which the loops read them.

use crate::Modulus;
use thiserror::Error;

/// Smallest degree: the vector code processes two registers of eight residues, twice.
const MIN_DEGREE: usize = 32;

/// Error: the ring has no transform.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error(
    "no transform of degree {degree} modulo {modulus}: the degree must be a power of two from {MIN_DEGREE} and the modulus 1 modulo twice the degree"
)]
pub struct NttError {
    degree: usize,
    modulus: u32,
}

/// Tables for one degree and one modulus: 16 bytes per coefficient.
#[derive(Debug, Clone)]
pub struct Ntt {
    pub(super) modulus: Modulus,
    pub(super) degree: usize,
    /// `ψ^rev(i)`, read in order by the forward transform.
    pub(super) roots: Twiddles,
    /// `ψ^−rev(i)`.
    pub(super) inverse_roots: Twiddles,
    pub(super) degree_inverse: u32,
    #[cfg(target_arch = "x86_64")]
    pub(super) narrow: NarrowTwiddles,
}

/// Factors with their Shoup constants.
#[derive(Debug, Clone)]
pub(super) struct Twiddles {
    pub(super) value: Vec<u32>,
    pub(super) shoup: Vec<u32>,
}

impl Ntt {
    /// Prepares the tables of `Z_q[X]/(X^degree + 1)`.
    pub fn new(modulus: Modulus, degree: usize) -> Result<Self, NttError> {
        let error = NttError {
            degree,
            modulus: modulus.value(),
        };
        if !degree.is_power_of_two() || !(MIN_DEGREE..=1 << 24).contains(&degree) {
            return Err(error);
        }
        let root = modulus.root_of_unity(2 * degree as u32).ok_or(error)?;
        let roots = Twiddles::new(&modulus, degree, root);
        let inverse_roots = Twiddles::new(&modulus, degree, modulus.inverse(root));
        Ok(Self {
            #[cfg(target_arch = "x86_64")]
            narrow: NarrowTwiddles::new(&roots, &inverse_roots),
            modulus,
            degree,
            roots,
            inverse_roots,
            degree_inverse: modulus.inverse(modulus.reduce(degree as u64)),
        })
    }

    /// The modulus `q`.
    pub fn modulus(&self) -> &Modulus {
        &self.modulus
    }

    /// The degree `N`.
    pub fn degree(&self) -> usize {
        self.degree
    }

    /// `N^{-1} mod q`; times the sum of the evaluation form it gives the constant coefficient.
    pub fn degree_inverse(&self) -> u32 {
        self.degree_inverse
    }
}

impl Twiddles {
    fn new(modulus: &Modulus, degree: usize, root: u32) -> Self {
        let shift = usize::BITS - degree.trailing_zeros();
        let mut value = vec![0; degree];
        let mut power = 1;
        for i in 0..degree {
            value[i.reverse_bits() >> shift] = power;
            power = modulus.mul(power, root);
        }
        let shoup = value.iter().map(|&w| modulus.shoup(w)).collect();
        Self { value, shoup }
    }
}

/// Factors of the three stages narrower than a register: eight per pair of registers, in the order that the shuffles
/// give the butterflies.
#[cfg(target_arch = "x86_64")]
#[derive(Debug, Clone)]
pub(super) struct NarrowTwiddles {
    pub(super) forward: [Twiddles; 3],
    pub(super) inverse: [Twiddles; 3],
}

/// Factor of each lane for strides 4, 2, 1, relative to the first butterfly block of the register pair.
#[cfg(target_arch = "x86_64")]
const LANE_FACTORS: [[usize; 8]; 3] = [
    [0, 0, 0, 0, 1, 1, 1, 1],
    [0, 0, 2, 2, 1, 1, 3, 3],
    [0, 1, 4, 5, 2, 3, 6, 7],
];

#[cfg(target_arch = "x86_64")]
impl NarrowTwiddles {
    fn new(roots: &Twiddles, inverse_roots: &Twiddles) -> Self {
        let degree = roots.value.len();
        let spread = |from: &Twiddles| {
            [0, 1, 2].map(|stage| {
                let blocks_a_pair = 2usize << stage;
                let first = degree >> (3 - stage);
                let pick = |table: &[u32]| -> Vec<u32> {
                    (0..degree / 16)
                        .flat_map(|pair| {
                            LANE_FACTORS[stage]
                                .map(|lane| table[first + pair * blocks_a_pair + lane])
                        })
                        .collect()
                };
                Twiddles {
                    value: pick(&from.value),
                    shoup: pick(&from.shoup),
                }
            })
        };
        Self {
            forward: spread(roots),
            inverse: spread(inverse_roots),
        }
    }
}
