//! Bounds on phases (docs/cryptography.md, "Noise of totals").
//!
//! Norms are not assumed: every block-column is measured when it is encrypted and rejected above the limits below.
//! Bounds therefore hold for any data, except with a probability over the owner's errors alone.

use oboro_ring::Parameters;
use oboro_ring::sample::ERROR_VARIANCE;
use rustfft::{Fft, FftPlanner, num_complex::Complex};
use std::f64::consts::{LN_2, PI};
use std::sync::Arc;
use zeroize::Zeroize;

/// Largest allowed `ρ = ‖φ‖₂ / (t·√N)`; 3.25 is typical.
pub const NORM_LIMIT: f64 = 4.0;

/// Largest allowed `κ = ‖φ̂‖_∞ / (t·√N)`; 9 to 14 is typical. A draw exceeds 24 with probability below 2^-40
/// (docs/cryptography.md, "How often does a draw fail?").
pub const PEAK_LIMIT: f64 = 24.0;

/// Largest allowed `κ_m = ‖m̂‖_∞ / (t·√N)`; 0.7 to 1.1 is typical. Used in the bound, and so measured, if a ring has
/// limbs for itemsets of four.
pub const PLAINTEXT_PEAK_LIMIT: f64 = 4.0;

/// `−log2` of the probability that an honest answer is lifted wrongly, and of the probability that its phase exceeds
/// its bound. Each is over all supports together.
pub(crate) const FAILURE_BITS: f64 = 64.0;

/// Allowance for rounding in floating-point measurements and logarithms.
const MARGIN: f64 = 1e-6;

/// Measured noise of a phase factor `φ = m + t·e`, in units of `t·√N`.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct BlockNoise {
    /// `ρ = ‖φ‖₂ / (t·√N)`.
    pub norm: f64,
    /// `κ = ‖φ̂‖_∞ / (t·√N)` over the canonical embedding.
    pub peak: f64,
    /// `κ_m = ‖m̂‖_∞ / (t·√N)`; 0 if not measured.
    pub plaintext_peak: f64,
}

/// Returns true if the bounds of a ring use the peaks of plaintexts. Measuring them tightens no bound with fewer limbs,
/// which carry no itemsets of four.
pub(crate) fn measures_plaintexts(parameters: &Parameters) -> bool {
    parameters.limb_count() >= 4
}

impl BlockNoise {
    /// Returns the larger of each number.
    #[must_use]
    pub fn max(self, other: Self) -> Self {
        Self {
            norm: self.norm.max(other.norm),
            peak: self.peak.max(other.peak),
            plaintext_peak: self.plaintext_peak.max(other.plaintext_peak),
        }
    }
}

/// Limits on a block-column on which the bound relies.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Limits {
    pub(crate) norm: f64,
    pub(crate) peak: f64,
    pub(crate) plaintext_peak: f64,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            norm: NORM_LIMIT,
            peak: PEAK_LIMIT,
            plaintext_peak: PLAINTEXT_PEAK_LIMIT,
        }
    }
}

impl Limits {
    pub(crate) fn hold_for(self, noise: BlockNoise) -> bool {
        noise.norm <= self.norm - MARGIN
            && noise.peak <= self.peak - MARGIN
            && noise.plaintext_peak <= self.plaintext_peak - MARGIN
    }
}

/// `log2` of a bound on `|Φ_0|` of itemsets of `level` distinct columns over `blocks` blocks. For `2^log2_supports`
/// itemsets and ranges together it fails with probability `2^-64`.
///
/// In `φ_1 ⋯ φ_k = m_1 ⋯ m_k + Σ_j (m_1 ⋯ m_{j−1})·t·e_j·(φ_{j+1} ⋯ φ_k)` the first term is bounded by Cauchy–Schwarz,
/// for any data. Every other one has a sub-Gaussian tail in the errors of one column.
///
/// # Panics
/// If `log2_supports` is negative or NaN, or the level is 0.
pub fn log2_phase_bound(
    parameters: &Parameters,
    level: usize,
    blocks: u64,
    log2_supports: f64,
) -> f64 {
    assert!(log2_supports >= 0.0 && log2_supports.is_finite() && level > 0);
    let t = f64::from(parameters.plaintext_modulus());
    let (blocks, degree) = (blocks.max(1) as f64, parameters.degree() as f64);
    // A two-sided tail for each column, and the cost of conditioning on accepted draws.
    let tails = (level.max(2) as f64).log2() + 2.0;
    let lambda = (tails + FAILURE_BITS + log2_supports) * LN_2;
    let tail = (2.0 * lambda * ERROR_VARIANCE * blocks).sqrt();
    if level == 1 {
        return t.log2() + (blocks / 2.0 + tail).log2() + MARGIN;
    }
    // In units of (t√N)^k, as powers of two.
    let unit = (t * degree.sqrt()).log2();
    // Plaintexts that are not measured are bounded by the peaks of phases, in a sum that ends with the second term.
    let plaintext_peak = if measures_plaintexts(parameters) {
        PLAINTEXT_PEAK_LIMIT
    } else {
        PEAK_LIMIT
    };
    let power = |base: f64, exponent: usize| base.powi(exponent as i32);
    let plaintexts = blocks / 4.0 * power(plaintext_peak, level - 2);
    let first = NORM_LIMIT * power(PEAK_LIMIT, level - 2);
    let others =
        (2..=level).map(|j| power(plaintext_peak, j - 2) * power(PEAK_LIMIT, level - j) / 2.0);
    let errors = tail / degree.sqrt() * (first + others.sum::<f64>());
    level as f64 * unit + (plaintexts + errors).log2() + MARGIN
}

/// Number of limbs for itemsets of length `level` over ranges of up to `blocks` blocks: the fewest whose `Q/2` is above
/// the bound. `None` if the parameters have too few.
pub(crate) fn limbs_for(
    parameters: &Parameters,
    level: usize,
    blocks: u64,
    log2_supports: f64,
) -> Option<usize> {
    let needed = log2_phase_bound(parameters, level, blocks, log2_supports) + 1.0 + MARGIN;
    (1..=parameters.limb_count()).find(|&limbs| parameters.log2_q(limbs) > needed)
}

/// Number of independent accumulators.
const LANES: usize = 8;

/// Measures phase factors of one degree.
pub(crate) struct NoiseMeter {
    fft: Arc<dyn Fft<f64>>,
    twist: Vec<Complex<f64>>,
    values: Vec<Complex<f64>>,
    scratch: Vec<Complex<f64>>,
}

impl NoiseMeter {
    pub(crate) fn new(degree: usize) -> Self {
        let half = degree / 2;
        let fft = FftPlanner::new().plan_fft_forward(half);
        let scratch = vec![Complex::default(); fft.get_inplace_scratch_len()];
        let angle = |j: usize| Complex::from_polar(1.0, -PI * j as f64 / degree as f64);
        Self {
            fft,
            twist: (0..half).map(angle).collect(),
            values: vec![Complex::default(); half],
            scratch,
        }
    }

    /// Measures `φ`, in coefficient form in units of 1; `t` is the plaintext modulus.
    ///
    /// The canonical embedding maps real polynomials to values at the odd powers of `e^{iπ/N}`, half of them conjugates
    /// of the others. The powers `4k + 1` and their conjugates are all of them. With
    /// `z_j = (φ_j − i·φ_{j+N/2})·e^{−iπj/N}` they are the discrete Fourier transform of `z`.
    pub(crate) fn measure(&mut self, phase: &[i32], t: u32) -> BlockNoise {
        let half = self.values.len();
        let (low, high) = phase.split_at(half);
        for ((value, twist), (&x, &y)) in self
            .values
            .iter_mut()
            .zip(&self.twist)
            .zip(low.iter().zip(high))
        {
            *value = Complex::new(f64::from(x), -f64::from(y)) * twist;
        }
        self.fft
            .process_with_scratch(&mut self.values, &mut self.scratch);
        // Independent lanes avoid a serial dependency.
        let mut peaks = [0.0; LANES];
        for values in self.values.chunks(LANES) {
            for (peak, value) in peaks.iter_mut().zip(values) {
                *peak = f64::max(*peak, value.norm_sqr());
            }
        }
        let mut sums = [0.0; LANES];
        for phase in phase.chunks(LANES) {
            for (sum, &x) in sums.iter_mut().zip(phase) {
                *sum += f64::from(x) * f64::from(x);
            }
        }
        let peak = peaks.into_iter().fold(0.0, f64::max).sqrt();
        let norm = sums.iter().sum::<f64>().sqrt();
        let unit = f64::from(t) * (phase.len() as f64).sqrt();
        BlockNoise {
            norm: norm / unit,
            peak: peak / unit,
            plaintext_peak: 0.0,
        }
    }
}

impl Drop for NoiseMeter {
    fn drop(&mut self) {
        for value in self.values.iter_mut().chain(&mut self.scratch) {
            value.re.zeroize();
            value.im.zeroize();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_meter_finds_the_largest_value_at_odd_powers() {
        let degree = 32;
        let phase: Vec<i32> = (0..degree as i32)
            .map(|j| (j * j * 37 + j * 11) % 101 - 50)
            .collect();
        let mut largest: f64 = 0.0;
        for power in (1..2 * degree).step_by(2) {
            let value: Complex<f64> = phase
                .iter()
                .enumerate()
                .map(|(j, &x)| {
                    Complex::from_polar(f64::from(x), PI * (power * j) as f64 / degree as f64)
                })
                .sum();
            largest = largest.max(value.norm());
        }
        let noise = NoiseMeter::new(degree).measure(&phase, 1);
        let unit = (degree as f64).sqrt();
        assert!((noise.peak * unit - largest).abs() < 1e-9 * largest);
        let norm = phase.iter().map(|&x| f64::from(x * x)).sum::<f64>().sqrt();
        assert!((noise.norm * unit - norm).abs() < 1e-9 * norm);
    }

    #[test]
    fn a_monomial_is_flat_and_a_geometric_series_peaks() {
        let mut meter = NoiseMeter::new(64);
        let mut monomial = vec![0; 64];
        monomial[5] = 8;
        assert!((meter.measure(&monomial, 1).peak - 1.0).abs() < 1e-12);
        let noise = meter.measure(&[1; 64], 1);
        assert!(
            noise.peak > 4.0 * noise.norm,
            "a constant sequence is far from flat: {noise:?}"
        );
    }

    /// Checks the figures of docs/cryptography.md.
    #[test]
    fn two_limbs_carry_pairs_of_three_million_transactions() {
        let parameters = Parameters::new(12, 2, 114_689).unwrap();
        for (blocks, log2_supports, expected) in [
            (475, 17.3, 53.045),
            (475, 53.5, 53.130),
            (740, 53.5, 53.665),
            (28, 17.3, 49.939),
        ] {
            let bound = log2_phase_bound(&parameters, 2, blocks, log2_supports);
            assert!((bound - expected).abs() < 0.001, "{blocks}: {bound}");
        }
        assert!(parameters.log2_q(2) - 1.0 > 54.98);
    }

    #[test]
    fn limits_are_limits() {
        let limits = Limits::default();
        let hold = |norm, peak, plaintext_peak| {
            limits.hold_for(BlockNoise {
                norm,
                peak,
                plaintext_peak,
            })
        };
        assert!(hold(3.99, 23.99, 3.99));
        assert!(!hold(4.0, 10.0, 1.0) && !hold(3.3, 24.0, 1.0) && !hold(3.3, 10.0, 4.0));
        assert!(!hold(f64::NAN, 10.0, 1.0) && !hold(3.3, 10.0, f64::NAN));
    }

    /// Computes the product in `Z[X]/(X^N + 1)`, exactly.
    fn product(f: &[i128], g: &[i128]) -> Vec<i128> {
        let n = f.len();
        let mut out = vec![0; n];
        for (i, a) in f.iter().enumerate() {
            for (j, b) in g.iter().enumerate() {
                let sign = if i + j < n { 1 } else { -1 };
                out[(i + j) % n] += sign * a * b;
            }
        }
        out
    }

    proptest! {
        /// Checks `|(φ_1 … φ_k)_0| ≤ ‖φ_1‖₂‖φ_2‖₂·Π‖φ̂_i‖_∞` on inputs that add up coherently: equal factors,
        /// conjugates, constant sequences.
        #[test]
        fn the_inequality_of_the_bound_holds(
            base in prop::collection::vec(-50i32..=50, 32),
            kinds in prop::collection::vec(0u8..4, 2..6),
        ) {
            let conjugate = |f: &[i32]| {
                let mut g: Vec<i32> = f.iter().rev().map(|x| -x).collect();
                g.rotate_right(1);
                g[0] = f[0];
                g
            };
            let factors: Vec<Vec<i32>> = kinds.iter().map(|kind| match kind {
                0 => base.clone(),
                1 => conjugate(&base),
                2 => vec![1; 32],
                _ => base.iter().rev().copied().collect(),
            }).collect();
            let wide = |f: &Vec<i32>| f.iter().map(|&x| i128::from(x)).collect::<Vec<_>>();
            let all = factors.iter().map(wide).reduce(|f, g| product(&f, &g)).unwrap();
            let mut meter = NoiseMeter::new(32);
            let unit = 32f64.sqrt();
            let noise: Vec<BlockNoise> = factors.iter().map(|f| meter.measure(f, 1)).collect();
            let bound = noise.iter().enumerate().map(|(i, n)| unit * if i < 2 { n.norm } else { n.peak }).product::<f64>();
            prop_assert!(all[0].unsigned_abs() as f64 <= bound * (1.0 + 1e-9), "{} > {bound}", all[0]);
        }
    }

    #[test]
    fn the_bound_is_met_by_a_polynomial_and_its_conjugate() {
        let f: Vec<i128> = (0..32).map(|j| j * 7 % 23 - 11).collect();
        let mut g: Vec<i128> = f.iter().rev().map(|x| -x).collect();
        g.rotate_right(1);
        g[0] = f[0];
        assert_eq!(product(&f, &g)[0], f.iter().map(|x| x * x).sum());
    }

    /// Checks t near 2^17 and N = 4096 for k ≤ 4, else 8192: k limbs for k = 2…7, over three million transactions.
    #[test]
    fn a_length_takes_a_limb_an_item() {
        for (log_degree, blocks, levels) in [(12, 740, 2..=3), (12, 740, 2..=4), (13, 370, 2..=7)] {
            let most = *levels.end();
            let parameters = Parameters::new(log_degree, most, 114_689).unwrap();
            let limbs = |level| limbs_for(&parameters, level, blocks, 53.5);
            for level in levels {
                assert_eq!(limbs(level), Some(level));
            }
            assert_eq!(limbs(most + 1), None);
        }
    }
}
