//! Moments that were computed before, as they travel.
//!
//! A moment depends on nothing but the version of the dataset, the itemset, the power of the mask
//! and how it is to be sent, so mining again with another minimum support computes only what was
//! never asked. The cache holds a given number of bytes and gives up what pays least.

use oboro_ring::moment::MomentIndex;
use oboro_store::Digest;
use prost::bytes::Bytes;
use quick_cache::{Equivalent, Weighter, sync};
use std::hash::{Hash, Hasher};

/// What an entry takes besides its bytes and columns, roughly.
const OVERHEAD: usize = 160;

/// Packed moments by what they are. Empty and useless if it may hold nothing.
pub(crate) struct MomentCache(Option<sync::Cache<Key, Bytes, Weight>>);

/// How the moments of a question are computed and sent.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Kind<'a> {
    /// Names the version of the dataset.
    pub(crate) root: Digest,
    pub(crate) limbs: usize,
    /// The bits of a fraction for each power of the mask.
    pub(crate) fraction_bits: &'a [u32],
}

#[derive(Clone, PartialEq, Eq)]
struct Key {
    root: Digest,
    limbs: u32,
    bits: u32,
    power: u32,
    group: u64,
    columns: Box<[u32]>,
}

/// A key that owns nothing.
#[derive(Clone, Copy)]
struct Place<'a> {
    root: Digest,
    limbs: u32,
    bits: u32,
    power: u32,
    group: u64,
    columns: &'a [u32],
}

impl<'a> Place<'a> {
    fn new(kind: Kind<'_>, index: &'a MomentIndex, moment: usize, group: u64) -> Self {
        let (power, columns) = index.get(moment);
        Self {
            root: kind.root,
            limbs: kind.limbs as u32,
            bits: kind.fraction_bits[power],
            power: power as u32,
            group,
            columns,
        }
    }
}

impl Key {
    fn place(&self) -> Place<'_> {
        Place {
            root: self.root,
            limbs: self.limbs,
            bits: self.bits,
            power: self.power,
            group: self.group,
            columns: &self.columns,
        }
    }
}

impl Hash for Key {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.place().hash(state);
    }
}

impl Hash for Place<'_> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.root.0.hash(state);
        (self.limbs, self.bits, self.power, self.group).hash(state);
        self.columns.hash(state);
    }
}

impl Equivalent<Key> for Place<'_> {
    fn equivalent(&self, key: &Key) -> bool {
        self.root == key.root
            && (self.limbs, self.bits, self.power, self.group)
                == (key.limbs, key.bits, key.power, key.group)
            && *self.columns == *key.columns
    }
}

#[derive(Clone)]
struct Weight;

impl Weighter<Key, Bytes> for Weight {
    fn weight(&self, key: &Key, packed: &Bytes) -> u64 {
        (OVERHEAD + 4 * key.columns.len() + packed.len()) as u64
    }
}

impl MomentCache {
    /// A cache of at most so many bytes.
    pub(crate) fn new(bytes: u64) -> Self {
        // A guess at the number of entries: between scalars and polynomials.
        let entries = bytes / 1024;
        Self((bytes > 0).then(|| sync::Cache::with_weighter(entries as usize, bytes, Weight)))
    }

    /// A moment of every group, if all of them are here.
    pub(crate) fn get(
        &self,
        kind: Kind<'_>,
        index: &MomentIndex,
        moment: usize,
        groups: u64,
    ) -> Option<Vec<Bytes>> {
        let cache = self.0.as_ref()?;
        (0..groups)
            .map(|group| cache.get(&Place::new(kind, index, moment, group)))
            .collect()
    }

    /// Keeps a moment of one group.
    pub(crate) fn insert(
        &self,
        kind: Kind<'_>,
        index: &MomentIndex,
        moment: usize,
        group: u64,
        packed: &[u8],
    ) {
        let Some(cache) = &self.0 else { return };
        let place = Place::new(kind, index, moment, group);
        let key = Key {
            root: place.root,
            limbs: place.limbs,
            bits: place.bits,
            power: place.power,
            group,
            columns: place.columns.into(),
        };
        // A copy of its own: a part of a message would keep the whole of it.
        cache.insert(key, Bytes::copy_from_slice(packed));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use oboro_ring::moment::Itemsets;

    fn index(flat: Vec<u32>) -> MomentIndex {
        MomentIndex::new(&Itemsets::new(2, flat, 10).unwrap())
    }

    const KIND: Kind<'_> = Kind {
        root: Digest([3; 32]),
        limbs: 2,
        fraction_bits: &[24, 29, 35],
    };

    #[test]
    fn another_question_finds_the_same_moment_of_all_groups() {
        let cache = MomentCache::new(1 << 20);
        let (first, second) = (index(vec![1, 2, 1, 3]), index(vec![1, 3]));
        let moment = first.find(&[1, 3]).unwrap();
        cache.insert(KIND, &first, moment, 0, b"one");
        assert_eq!(cache.get(KIND, &second, 0, 2), None);
        cache.insert(KIND, &first, moment, 1, b"two");
        let found = cache.get(KIND, &second, second.find(&[1, 3]).unwrap(), 2);
        assert_eq!(found.unwrap(), ["one", "two"]);
    }

    #[test]
    fn whatever_differs_is_another_moment() {
        let cache = MomentCache::new(1 << 20);
        let index = index(vec![1, 2]);
        cache.insert(KIND, &index, 0, 0, b"known");
        assert!(cache.get(KIND, &index, 0, 1).is_some());
        for other in [
            Kind {
                root: Digest([4; 32]),
                ..KIND
            },
            Kind { limbs: 3, ..KIND },
            Kind {
                fraction_bits: &[32, 29, 35],
                ..KIND
            },
        ] {
            assert_eq!(cache.get(other, &index, 0, 1), None, "{other:?}");
        }
        for moment in 1..index.len() {
            assert_eq!(cache.get(KIND, &index, moment, 1), None);
        }
    }

    #[test]
    fn holds_no_more_than_it_may() {
        let cache = MomentCache::new(100_000);
        let index = index(vec![1, 2]);
        for group in 0..1000 {
            cache.insert(KIND, &index, 1, group, &[7; 4000]);
        }
        let held = (0..1000).filter(|&group| {
            let place = Place::new(KIND, &index, 1, group);
            cache.0.as_ref().unwrap().get(&place).is_some()
        });
        let held = held.count();
        assert!((1..=25).contains(&held), "{held}");
        let nothing = MomentCache::new(0);
        nothing.insert(KIND, &index, 0, 0, b"known");
        assert_eq!(nothing.get(KIND, &index, 0, 1), None);
    }
}
