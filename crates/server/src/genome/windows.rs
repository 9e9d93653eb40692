//! A cache of prepared windows: their rows, read and sorted.
//!
//! Its content is the same for all queries; nothing that blinds an answer is here.

use crate::cache::CacheUse;
use oboro_genome_server::{GenomeError, HaplotypePanel, Reference, Window};
use quick_cache::{Weighter, sync};
use std::ops::Range;
use std::sync::Arc;

/// Approximate bytes of an entry besides its rows.
const OVERHEAD: u64 = 200;

/// The version of a collection that a search started with.
#[derive(Clone)]
pub(crate) enum Collection {
    Panel(Arc<HaplotypePanel>),
    Reference(Arc<Reference>),
}

/// Some rows of a collection.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum WindowRows {
    Sites(Range<usize>),
    /// All rows of this many bases.
    Bases(usize),
}

/// Who asks, so that nobody learns by what is cached where others searched; and a collection's address, which the entry
/// keeps alive.
type Key = (Arc<str>, usize, WindowRows);
type Entry = (Collection, Arc<Window>);

/// Prepared windows, within a number of bytes. With 0 bytes it is empty and does nothing.
pub(crate) struct Windows(Option<sync::Cache<Key, Entry, Weight>>);

#[derive(Clone)]
struct Weight;

impl Weighter<Key, Entry> for Weight {
    fn weight(&self, _: &Key, (_, window): &Entry) -> u64 {
        OVERHEAD + window.bytes() as u64
    }
}

impl Collection {
    fn address(&self) -> usize {
        match self {
            Self::Panel(panel) => Arc::as_ptr(panel).addr(),
            Self::Reference(reference) => Arc::as_ptr(reference).addr(),
        }
    }

    /// How many rows a window of `length` symbols has.
    pub(crate) fn rows(&self, length: usize) -> u64 {
        match self {
            Self::Panel(panel) => panel.haplotypes() as u64,
            Self::Reference(reference) => reference.rows(length) as u64,
        }
    }

    pub(crate) fn symbols(&self) -> u8 {
        match self {
            Self::Panel(panel) => panel.symbols(),
            Self::Reference(reference) => reference.symbols(),
        }
    }

    /// The most memory that preparing a window of `length` symbols takes.
    pub(crate) fn preparation_bytes(&self, length: usize) -> u64 {
        match self {
            Self::Panel(panel) => panel.preparation_bytes(length),
            Self::Reference(reference) => reference.preparation_bytes(length),
        }
    }

    /// A window, its rows sorted. Blocks.
    ///
    /// # Errors
    ///
    /// Damaged data.
    pub(crate) fn prepare(&self, rows: &WindowRows) -> Result<Arc<Window>, GenomeError> {
        let rows = match (self, rows) {
            (Self::Panel(panel), WindowRows::Sites(sites)) => panel.window(sites.clone())?,
            (Self::Reference(reference), WindowRows::Bases(length)) => reference.windows(*length),
            _ => unreachable!("a panel has sites, and a reference has bases"),
        };
        Ok(Arc::new(Window::new(rows)))
    }
}

impl Windows {
    /// Keeps at most `bytes` bytes.
    pub(crate) fn new(bytes: u64) -> Self {
        // An estimate of the number of entries.
        let entries = (bytes >> 20).max(16) as usize;
        Self((bytes > 0).then(|| sync::Cache::with_weighter(entries, bytes, Weight)))
    }

    /// A window, prepared now unless it is cached. Concurrent searches for the same one wait for the first. Blocks.
    ///
    /// # Errors
    ///
    /// Damaged data.
    pub(crate) fn get(
        &self,
        asker: &Arc<str>,
        collection: &Collection,
        rows: &WindowRows,
    ) -> Result<(Arc<Window>, Origin), GenomeError> {
        let mut origin = Origin::Kept;
        let mut prepare = || {
            origin = Origin::Prepared;
            Ok::<_, GenomeError>((collection.clone(), collection.prepare(rows)?))
        };
        let (_, window) = match &self.0 {
            Some(cache) => {
                let key = (Arc::clone(asker), collection.address(), rows.clone());
                cache.get_or_insert_with(&key, prepare)?
            }
            None => prepare()?,
        };
        Ok((window, origin))
    }

    /// How it is used.
    pub(crate) fn used(&self) -> CacheUse {
        CacheUse::of(self.0.as_ref())
    }

    /// Drops all cached windows.
    pub(crate) fn clear(&self) {
        if let Some(cache) = &self.0 {
            cache.clear();
        }
    }
}

/// Where a window came from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Origin {
    Prepared,
    Kept,
}

#[cfg(test)]
mod tests {
    use super::*;
    use oboro_genome_server::{Collections, Existing, Generated, generate_panel};

    fn panel(directory: &tempfile::TempDir, seed: u64) -> Collection {
        let collections = Collections::open(directory.path());
        let parameters = Generated {
            haplotypes: 500,
            sites: 100,
            seed,
        };
        generate_panel(&collections, "p", &parameters, Existing::Replace).unwrap();
        Collection::Panel(collections.panel("p").unwrap())
    }

    #[test]
    fn a_window_is_prepared_once() {
        let directory = tempfile::tempdir().unwrap();
        let windows = Windows::new(1 << 20);
        let (old, rows) = (panel(&directory, 1), WindowRows::Sites(3..40));
        let (one, other) = (Arc::from("one"), Arc::from("other"));
        let origin = |collection: &Collection, rows: &WindowRows| {
            let (window, origin) = windows.get(&one, collection, rows).unwrap();
            assert!(window.bytes() as u64 <= collection.preparation_bytes(37));
            origin
        };
        assert_eq!(origin(&old, &rows), Origin::Prepared);
        assert_eq!(origin(&old, &rows), Origin::Kept);
        assert_eq!(origin(&old, &WindowRows::Sites(4..40)), Origin::Prepared);
        let new = panel(&directory, 2);
        assert_eq!(origin(&new, &rows), Origin::Prepared);
        assert_eq!(origin(&old, &rows), Origin::Kept);
        // Others learn nothing of that.
        let (_, unknown) = windows.get(&other, &old, &rows).unwrap();
        assert_eq!(unknown, Origin::Prepared);
    }

    #[test]
    fn no_more_is_kept_than_may_be() {
        let directory = tempfile::tempdir().unwrap();
        let panel = panel(&directory, 1);
        let asker: Arc<str> = "asker".into();
        for bytes in [0, 20_000] {
            let windows = Windows::new(bytes);
            let wanted: Vec<_> = (0..60)
                .map(|first| WindowRows::Sites(first..first + 32))
                .collect();
            for rows in &wanted {
                windows.get(&asker, &panel, rows).unwrap();
            }
            let kept = wanted.iter().filter(|rows| {
                let cache = windows.0.as_ref();
                cache.is_some_and(|cache| {
                    let key = (Arc::clone(&asker), panel.address(), (*rows).clone());
                    cache.get(&key).is_some()
                })
            });
            assert!(kept.count() as u64 * 7000 <= bytes);
        }
    }
}
