//! Fields of a genome search, validated on arrival.

use crate::{FieldError, v1};
use oboro_genome::{Kind, Plan};
use oboro_ring::Nonce;

/// Parses a nonce.
///
/// # Errors
/// The length is not 32 bytes.
pub fn nonce(bytes: &[u8]) -> Result<Nonce, FieldError> {
    let problem = FieldError {
        field: "nonce",
        problem: "is not 32 bytes",
    };
    bytes.try_into().map(Nonce).map_err(|_| problem)
}

/// Parses the kind of comparison; the caller checks the limit on mismatches.
///
/// # Errors
/// The kind is missing, or its number of mismatches is out of range.
pub fn kind(kind: Option<v1::open_search::Kind>) -> Result<Kind, FieldError> {
    let bad = |problem| FieldError {
        field: "kind",
        problem,
    };
    match kind.ok_or_else(|| bad("is missing"))? {
        v1::open_search::Kind::Longest(_) => Ok(Kind::Longest),
        v1::open_search::Kind::Within(within) => {
            let within = within.try_into();
            let within = within.map_err(|_| bad("allows more mismatches than any query"))?;
            Ok(Kind::Match { within })
        }
    }
}

impl From<Kind> for v1::open_search::Kind {
    fn from(kind: Kind) -> Self {
        match kind {
            Kind::Match { within } => Self::Within(within.into()),
            Kind::Longest => Self::Longest(v1::Longest {}),
        }
    }
}

impl From<&Plan> for v1::PlanNumbers {
    fn from(plan: &Plan) -> Self {
        let ring = plan.ring();
        Self {
            log_degree: ring.basis().log_degree(),
            limbs: ring.basis().limbs().len() as u32,
            plaintext_modulus: ring.plaintext().value(),
            width: plan.width() as u32,
            tests: plan.tests(),
            answers: plan.answers(),
            flood_bits: plan.flood_bits(),
            mask_bits: plan.mask_bits(),
            value_bits: plan.value_bits(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_survive_the_way_and_malformed_ones_do_not() {
        for sent in [Kind::Longest, Kind::Match { within: 2 }] {
            assert_eq!(kind(Some(sent.into())), Ok(sent));
        }
        assert!(kind(None).is_err());
        assert!(kind(Some(v1::open_search::Kind::Within(256))).is_err());
    }

    #[test]
    fn a_nonce_has_32_bytes() {
        assert_eq!(nonce(&[7; 32]), Ok(Nonce([7; 32])));
        assert!(nonce(&[7; 31]).is_err());
        assert!(nonce(&[]).is_err());
    }
}
