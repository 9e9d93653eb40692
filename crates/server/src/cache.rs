//! Cache of computed moments in wire form.
//!
//! A moment depends only on the version of the dataset, the blocks, the itemset, the power of the mask and the limbs.
//! Mining again with another minimum support therefore computes only moments that were never requested. The cache holds
//! a given number of bytes and evicts the entries of least value.

use oboro_format::{DatasetId, Digest};
use oboro_ring::moment::MomentIndex;
use oboro_ring::{Blocks, Column};
use parking_lot::RwLock;
use prost::bytes::Bytes;
use quick_cache::{Equivalent, Weighter, sync};
use std::collections::{HashMap, HashSet};
use std::hash::{Hash, Hasher};

/// Size of a cache, and its hits and misses.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct CacheUse {
    pub(crate) bytes: u64,
    pub(crate) hits: u64,
    pub(crate) misses: u64,
}

impl CacheUse {
    pub(crate) fn of<K, V, W>(cache: Option<&sync::Cache<K, V, W>>) -> Self
    where
        K: Eq + Hash,
        V: Clone,
        W: Weighter<K, V> + Clone,
    {
        let used = |cache: &sync::Cache<K, V, W>| Self {
            bytes: cache.weight(),
            hits: cache.hits(),
            misses: cache.misses(),
        };
        cache.map(used).unwrap_or_default()
    }
}

/// Approximate bytes of an entry besides its moment and columns.
const OVERHEAD: usize = 160;

/// Packed moments by key. A cache of size 0 stores nothing.
pub(crate) struct MomentCache {
    moments: Option<sync::Cache<Key, Bytes, Weight>>,
    /// Roots of replaced versions, on which calls in progress may still count.
    replaced: RwLock<HashMap<Digest, HashSet<Digest>>>,
}

/// Returns a digest that identifies a dataset across namespaces.
pub(crate) fn identity(namespace: &str, dataset: DatasetId) -> Digest {
    // A zero byte separates: names of namespaces contain none.
    Digest::of(&[namespace.as_bytes(), &[0], &dataset.0].concat())
}

/// Parameters that the moments of a query depend on, with the caller: separate entries keep callers from learning what
/// others asked.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Kind {
    /// Identity of the caller's namespace.
    pub(crate) asker: Digest,
    /// Dataset, by its [identity].
    pub(crate) dataset: Digest,
    /// Version of the dataset.
    pub(crate) root: Digest,
    pub(crate) limbs: usize,
}

#[derive(Clone, PartialEq, Eq)]
struct Key {
    asker: Digest,
    dataset: Digest,
    root: Digest,
    limbs: u32,
    power: u32,
    blocks: Blocks,
    columns: Box<[Column]>,
}

/// Borrowed form of [`Key`], for lookups.
#[derive(Clone, Copy)]
struct BorrowedKey<'a> {
    asker: Digest,
    dataset: Digest,
    root: Digest,
    limbs: u32,
    power: u32,
    blocks: Blocks,
    columns: &'a [Column],
}

impl<'a> BorrowedKey<'a> {
    fn new(kind: Kind, index: &'a MomentIndex, moment: usize, range: Blocks) -> Self {
        let (power, columns) = index.get(moment);
        Self {
            asker: kind.asker,
            dataset: kind.dataset,
            root: kind.root,
            limbs: kind.limbs as u32,
            power: power as u32,
            blocks: range,
            columns,
        }
    }
}

impl Key {
    fn key(&self) -> BorrowedKey<'_> {
        BorrowedKey {
            asker: self.asker,
            dataset: self.dataset,
            root: self.root,
            limbs: self.limbs,
            power: self.power,
            blocks: self.blocks,
            columns: &self.columns,
        }
    }
}

impl Hash for Key {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.key().hash(state);
    }
}

impl Hash for BorrowedKey<'_> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.root.0.hash(state);
        (self.limbs, self.power, self.blocks).hash(state);
        self.columns.hash(state);
    }
}

impl Equivalent<Key> for BorrowedKey<'_> {
    fn equivalent(&self, key: &Key) -> bool {
        self.root == key.root
            && (self.asker, self.dataset) == (key.asker, key.dataset)
            && (self.limbs, self.power, self.blocks) == (key.limbs, key.power, key.blocks)
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
    /// Creates a cache of at most `bytes` bytes.
    pub(crate) fn new(bytes: u64) -> Self {
        // Estimated number of entries, between scalars and polynomials.
        let entries = bytes / 1024;
        Self {
            moments: (bytes > 0)
                .then(|| sync::Cache::with_weighter(entries as usize, bytes, Weight)),
            replaced: RwLock::default(),
        }
    }

    /// Returns its size, hits and misses.
    pub(crate) fn used(&self) -> CacheUse {
        CacheUse::of(self.moments.as_ref())
    }

    /// Removes all moments of these replaced versions of a dataset and bars new ones.
    pub(crate) fn forget(&self, dataset: Digest, roots: &[Digest]) {
        let Some(moments) = self.moments.as_ref().filter(|_| !roots.is_empty()) else {
            return;
        };
        let mut replaced = self.replaced.write();
        let roots = roots.iter().copied().collect::<HashSet<_>>();
        moments.retain(|key, _| key.dataset != dataset || !roots.contains(&key.root));
        replaced.insert(dataset, roots);
    }

    /// Returns a moment over every range, if all of them are cached.
    pub(crate) fn get(
        &self,
        kind: Kind,
        index: &MomentIndex,
        moment: usize,
        ranges: &[Blocks],
    ) -> Option<Vec<Bytes>> {
        let cache = self.moments.as_ref()?;
        ranges
            .iter()
            .map(|&range| cache.get(&BorrowedKey::new(kind, index, moment, range)))
            .collect()
    }

    /// Stores a moment over one range.
    pub(crate) fn insert(
        &self,
        kind: Kind,
        index: &MomentIndex,
        moment: usize,
        range: Blocks,
        packed: &[u8],
    ) {
        let Some(cache) = &self.moments else { return };
        // Held during the insertion: nothing may be added after `forget`.
        let replaced = self.replaced.read();
        let of_dataset = replaced.get(&kind.dataset);
        if of_dataset.is_some_and(|roots| roots.contains(&kind.root)) {
            return;
        }
        let key = BorrowedKey::new(kind, index, moment, range);
        let key = Key {
            asker: key.asker,
            dataset: key.dataset,
            root: key.root,
            limbs: key.limbs,
            power: key.power,
            blocks: key.blocks,
            columns: key.columns.into(),
        };
        // Copied: a slice would keep the whole message alive.
        cache.insert(key, Bytes::copy_from_slice(packed));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use oboro_ring::moment::Itemsets;

    fn index(flat: &[Column]) -> MomentIndex {
        MomentIndex::new(&Itemsets::new(2, flat.to_vec(), 10).unwrap())
    }

    const KIND: Kind = Kind {
        asker: Digest([7; 32]),
        dataset: Digest([1; 32]),
        root: Digest([3; 32]),
        limbs: 2,
    };

    #[test]
    fn another_question_finds_the_same_moment_of_all_ranges() {
        let cache = MomentCache::new(1 << 20);
        let pair = [1, 3].map(Column);
        let (first, second) = (index(&[1, 2, 1, 3].map(Column)), index(&pair));
        let moment = first.find(&pair).unwrap();
        let ranges = [0..9, 0..4].map(Blocks::from);
        cache.insert(KIND, &first, moment, ranges[0], b"one");
        assert_eq!(cache.get(KIND, &second, 0, &ranges), None);
        cache.insert(KIND, &first, moment, ranges[1], b"two");
        let found = cache.get(KIND, &second, second.find(&pair).unwrap(), &ranges);
        assert_eq!(found.unwrap(), ["one", "two"]);
    }

    #[test]
    fn whatever_differs_is_another_moment() {
        let cache = MomentCache::new(1 << 20);
        let index = index(&[1, 2].map(Column));
        let ranges = [Blocks::from(0..9)];
        cache.insert(KIND, &index, 0, ranges[0], b"known");
        assert!(cache.get(KIND, &index, 0, &ranges).is_some());
        for other in [
            Kind {
                root: Digest([4; 32]),
                ..KIND
            },
            Kind { limbs: 3, ..KIND },
            Kind {
                asker: Digest([8; 32]),
                ..KIND
            },
            Kind {
                dataset: Digest([2; 32]),
                ..KIND
            },
        ] {
            assert_eq!(cache.get(other, &index, 0, &ranges), None, "{other:?}");
        }
        for moment in 1..index.len() {
            assert_eq!(cache.get(KIND, &index, moment, &ranges), None);
        }
        for other in [0..8, 1..9].map(Blocks::from) {
            assert_eq!(cache.get(KIND, &index, 0, &[other]), None);
        }
    }

    #[test]
    fn nothing_of_a_replaced_version_is_kept() {
        let cache = MomentCache::new(1 << 20);
        let index = index(&[1, 2].map(Column));
        let ranges = [Blocks::from(0..9)];
        let other = Kind {
            root: Digest([4; 32]),
            ..KIND
        };
        for kind in [KIND, other] {
            cache.insert(kind, &index, 0, ranges[0], b"known");
        }
        // Roots of other datasets do not bar these.
        cache.forget(Digest([9; 32]), &[other.root]);
        cache.forget(KIND.dataset, &[KIND.root]);
        // A call that began before.
        cache.insert(KIND, &index, 0, ranges[0], b"known");
        assert_eq!(cache.get(KIND, &index, 0, &ranges), None);
        assert!(cache.get(other, &index, 0, &ranges).is_some());
    }

    #[test]
    fn holds_no_more_than_it_may() {
        let cache = MomentCache::new(100_000);
        let index = index(&[1, 2].map(Column));
        for block in 0..1000 {
            cache.insert(KIND, &index, 1, Blocks::from_start(block, 1), &[7; 4000]);
        }
        let held = (0..1000).filter(|&block| {
            let key = BorrowedKey::new(KIND, &index, 1, Blocks::from_start(block, 1));
            cache.moments.as_ref().unwrap().get(&key).is_some()
        });
        let held = held.count();
        assert!((1..=25).contains(&held), "{held}");
        let nothing = MomentCache::new(0);
        let block = Blocks::from_start(0, 1);
        nothing.insert(KIND, &index, 0, block, b"known");
        assert_eq!(nothing.get(KIND, &index, 0, &[block]), None);
    }
}
