//! Products of column secrets: computed on first use, cached, wiped when dropped.

use crate::key::DatasetKey;
use oboro_ring::{Column, Limb, Ring, vector};
use parking_lot::RwLock;
use std::collections::HashMap;
use std::sync::Arc;
use zeroize::Zeroizing;

/// Limit of the cache, in bytes.
const CACHE_BYTES: usize = 512 << 20;

/// Product of secrets in evaluation form modulo one limb.
type Evaluation = Arc<Zeroizing<Vec<u32>>>;

/// Products of one dataset's secrets. Shared by threads.
pub(crate) struct SecretProducts {
    key: DatasetKey,
    /// Largest number of secrets whose products are cached.
    longest: usize,
    /// Capacity of the cache, in bytes.
    limit: usize,
    kept: RwLock<Kept>,
}

#[derive(Default)]
struct Kept {
    evaluations: HashMap<(Limb, Box<[Column]>), Evaluation>,
    bytes: usize,
}

impl Kept {
    /// Ensures capacity for more bytes, clearing the cache if necessary.
    fn reserve(&mut self, bytes: usize, limit: usize) {
        if self.bytes + bytes > limit {
            *self = Self::default();
        }
        self.bytes += bytes;
    }
}

impl SecretProducts {
    /// Makes an empty cache for products of up to `longest` secrets. `generations` caches share the limit.
    pub(crate) fn new(key: DatasetKey, longest: usize, generations: usize) -> Self {
        Self {
            key,
            longest,
            limit: CACHE_BYTES / generations.max(1),
            kept: RwLock::default(),
        }
    }

    fn ring(&self) -> &Ring {
        self.key.ring()
    }

    fn is_kept(&self, columns: &[Column]) -> bool {
        columns.len() <= self.longest
    }

    /// Returns the product of some columns' secrets in evaluation form modulo a limb.
    pub(crate) fn evaluation(&self, limb: Limb, columns: &[Column]) -> Evaluation {
        let key = (limb, Box::from(columns));
        if let Some(found) = self.kept.read().evaluations.get(&key) {
            return Arc::clone(found);
        }
        let product = Arc::new(self.multiply(limb, columns));
        if self.is_kept(columns) {
            let mut kept = self.kept.write();
            kept.reserve(size_of_val(&product[..]), self.limit);
            kept.evaluations.insert(key, Arc::clone(&product));
        }
        product
    }

    /// Multiplies the product of all but the last column by the last secret.
    fn multiply(&self, limb: Limb, columns: &[Column]) -> Zeroizing<Vec<u32>> {
        let (&last, others) = columns
            .split_last()
            .expect("a power of the mask comes with a secret");
        if others.is_empty() {
            return self.key.column_secret(last).evaluate(self.ring(), limb);
        }
        let (a, b) = (
            self.evaluation(limb, others),
            self.evaluation(limb, &[last]),
        );
        let mut product = Zeroizing::new(vec![0; self.ring().degree()]);
        let q = self.ring().limbs()[limb].modulus();
        vector::multiply(q, &a, &b, &mut product);
        product
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::key::tests::key;
    use oboro_ring::Parameters;

    #[test]
    fn products_are_those_of_secrets() {
        let key = key(7, &Parameters::new(12, 3, 40961).unwrap());
        let secrets = SecretProducts::new(key.clone(), 2, 1);
        let columns = [1, 2, 5].map(Column);
        for limb in Limb::first(3) {
            let q = key.ring().limbs()[limb].modulus();
            let values = columns.map(|it| key.column_secret(it).evaluate(key.ring(), limb));
            let product = secrets.evaluation(limb, &columns);
            for at in [0, 1, 4095] {
                let expected = values.iter().fold(1, |all, it| q.mul(all, it[at]));
                assert_eq!(product[at], expected);
            }
        }
    }

    #[test]
    fn what_is_kept_is_what_was_made_and_the_largest_products_are_not() {
        let key = key(7, &Parameters::new(12, 3, 40961).unwrap());
        let secrets = SecretProducts::new(key, 1, 1);
        let first = secrets.evaluation(Limb(0), &[Column(4)]);
        assert!(Arc::ptr_eq(
            &first,
            &secrets.evaluation(Limb(0), &[Column(4)])
        ));
        let pair = secrets.evaluation(Limb(0), &[4, 5].map(Column));
        assert!(!Arc::ptr_eq(
            &pair,
            &secrets.evaluation(Limb(0), &[4, 5].map(Column))
        ));
        assert!(secrets.kept.read().bytes > 0);
    }
}
