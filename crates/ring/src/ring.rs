//! A ring with its tables: parameters and one transform per modulus.

use crate::{Ntt, Parameters};

/// `R_Q` and `R_t` with all tables.
#[derive(Debug, Clone)]
pub struct Ring {
    parameters: Parameters,
    limbs: Vec<Ntt>,
    slots: Ntt,
}

impl Ring {
    /// Prepares the transforms of all limbs and of the plaintext modulus.
    pub fn new(parameters: Parameters) -> Self {
        let slots = Ntt::new(*parameters.plaintext(), parameters.degree());
        Self {
            limbs: parameters.as_ref().transforms(),
            slots: slots.expect("parameters admit only moduli with a transform"),
            parameters,
        }
    }

    /// The parameters.
    pub fn parameters(&self) -> &Parameters {
        &self.parameters
    }

    /// The ring degree `N`.
    pub fn degree(&self) -> usize {
        self.parameters.degree()
    }

    /// The transforms modulo `q_1 … q_L`.
    pub fn limbs(&self) -> &[Ntt] {
        &self.limbs
    }

    /// The transform modulo `t`: its evaluation form is the `N` slots of a plaintext.
    pub fn slots(&self) -> &Ntt {
        &self.slots
    }
}
