//! Field of `q²` elements over a prime `q`, in which sums of residues are fingerprinted (docs/cryptography.md,
//! "Fingerprints").
//!
//! `F_{q²} = F_q(√d)` with the smallest quadratic non-residue `d ≥ 2` modulo `q`.

use crate::{Modulus, vector};
use std::fmt;
use zeroize::DefaultIsZeroes;

/// `a + b·√d`, both residues canonical.
#[derive(Clone, Copy, Default)]
pub struct Element {
    /// The coefficient of 1.
    pub a: u32,
    /// The coefficient of `√d`.
    pub b: u32,
}

/// Omits the residues, which may be secret.
impl fmt::Debug for Element {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Element")
    }
}

/// Compares in constant time.
impl PartialEq for Element {
    fn eq(&self, other: &Self) -> bool {
        (self.a ^ other.a) | (self.b ^ other.b) == 0
    }
}

impl Eq for Element {}

/// Lets callers wipe secret elements.
impl DefaultIsZeroes for Element {}

/// Constant-time arithmetic in `F_{q²}`.
#[derive(Debug, Clone, Copy)]
pub struct QuadraticField {
    modulus: Modulus,
    /// The smallest quadratic non-residue, at least 2.
    d: u32,
}

impl QuadraticField {
    /// Prepares the field over the integers modulo `q`.
    pub fn new(modulus: Modulus) -> Self {
        let q = modulus.value();
        // Euler's criterion.
        let is_non_residue = |&d: &u32| modulus.pow(d, u64::from(q / 2)) == q - 1;
        let d = (2..q).find(is_non_residue);
        Self {
            modulus,
            d: d.expect("half of the residues modulo a prime above 3 are non-residues"),
        }
    }

    /// The prime field's modulus `q`.
    pub fn modulus(&self) -> &Modulus {
        &self.modulus
    }

    /// `x + y`.
    pub fn add(&self, x: Element, y: Element) -> Element {
        let q = &self.modulus;
        Element {
            a: q.add(x.a, y.a),
            b: q.add(x.b, y.b),
        }
    }

    /// `x·y`.
    pub fn mul(&self, x: Element, y: Element) -> Element {
        let q = &self.modulus;
        Element {
            a: q.add(q.mul(x.a, y.a), q.mul(self.d, q.mul(x.b, y.b))),
            b: q.add(q.mul(x.a, y.b), q.mul(x.b, y.a)),
        }
    }

    /// Writes `d·x` for residues `x`: in a product, that of the `√d` coefficients adds to the coefficient of 1 times
    /// `d`.
    pub fn twist(&self, x: &[u32], out: &mut [u32]) {
        out.fill(0);
        vector::subtract_multiple(&self.modulus, out, x, self.modulus.neg(self.d));
    }

    /// `x·r` for a residue `r`.
    pub fn scale(&self, x: Element, r: u32) -> Element {
        let q = &self.modulus;
        Element {
            a: q.mul(x.a, r),
            b: q.mul(x.b, r),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn fields() -> impl Strategy<Value = QuadraticField> {
        prop::sample::select(vec![5, 97, 12_289, 134_176_769, 268_369_921])
            .prop_map(|q| QuadraticField::new(Modulus::new(q).unwrap()))
    }

    fn elements(count: usize) -> impl Strategy<Value = (QuadraticField, Vec<Element>)> {
        fields().prop_flat_map(move |field| {
            let q = field.modulus().value();
            let element = (0..q, 0..q).prop_map(|(a, b)| Element { a, b });
            (Just(field), prop::collection::vec(element, count))
        })
    }

    #[test]
    fn the_field_is_made_by_the_smallest_non_residue() {
        for q in [5u64, 97, 12_289] {
            let squares: Vec<u64> = (1..q).map(|x| x * x % q).collect();
            let smallest = (2..q).find(|d| !squares.contains(d)).unwrap();
            let field = QuadraticField::new(Modulus::new(q as u32).unwrap());
            assert_eq!(u64::from(field.d), smallest);
        }
    }

    proptest! {
        #[test]
        fn it_is_a_ring((field, x) in elements(3)) {
            let [x, y, z] = x[..] else { unreachable!() };
            let (one, zero) = (Element { a: 1, b: 0 }, Element::default());
            prop_assert_eq!(field.mul(x, y), field.mul(y, x));
            prop_assert_eq!(field.mul(field.mul(x, y), z), field.mul(x, field.mul(y, z)));
            prop_assert_eq!(field.mul(field.add(x, y), z), field.add(field.mul(x, z), field.mul(y, z)));
            prop_assert_eq!((field.mul(x, one), field.add(x, zero)), (x, x));
            prop_assert_eq!(field.scale(x, y.a), field.mul(x, Element { a: y.a, b: 0 }));
            let mut twisted = [0; 2];
            field.twist(&[x.b, y.b], &mut twisted);
            let q = field.modulus();
            let by_root = |x: Element| field.mul(Element { a: 0, b: x.b }, Element { a: 0, b: 1 }).a;
            prop_assert_eq!(twisted, [by_root(x), by_root(y)]);
            prop_assert!(twisted.iter().all(|&it| it < q.value()));
        }

        /// Checks that only 0 has norm 0: all other elements have inverses, and a polynomial of degree k has at most k
        /// roots.
        #[test]
        fn the_norm_of_an_element_is_0_only_at_0((field, x) in elements(1)) {
            let (x, q) = (x[0], field.modulus());
            let conjugate = Element { a: x.a, b: q.neg(x.b) };
            let norm = field.mul(x, conjugate);
            prop_assert_eq!(norm.b, 0);
            prop_assert_eq!(norm.a == 0, x == Element::default());
        }
    }
}
