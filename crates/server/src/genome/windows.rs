//! Cache of prepared windows: rows, read and sorted.
//!
//! Entries do not depend on the query, and nothing that blinds an answer is here.

use crate::cache::CacheUse;
use oboro_genome_server::{GenomeError, HaplotypePanel, Reference, Window};
use quick_cache::{Weighter, sync};
use std::ops::Range;
use std::sync::Arc;

/// Approximate bytes of an entry besides its rows.
const OVERHEAD: u64 = 200;

/// Version of a collection that a search started with.
#[derive(Clone)]
pub(crate) enum Collection {
    Panel(Arc<HaplotypePanel>),
    Reference(Arc<Reference>),
}

/// Rows of a collection.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum WindowRows {
    Sites(Range<usize>),
    /// All rows of this many bases.
    Bases(usize),
}

/// Caller, address of a collection (which the entry keeps alive) and rows. The caller is included to keep cache hits
/// from revealing where others searched.
type Key = (Arc<str>, usize, WindowRows);
type Entry = (Collection, Arc<Window>);

/// Prepared windows, within a number of bytes. A cache of 0 bytes stores nothing.
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

    /// Returns the number of rows of a window of `length` symbols.
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

    /// Returns the maximum memory that preparing a window of `length` symbols takes.
    pub(crate) fn preparation_bytes(&self, length: usize) -> u64 {
        match self {
            Self::Panel(panel) => panel.preparation_bytes(length),
            Self::Reference(reference) => reference.preparation_bytes(length),
        }
    }

    /// Reads a window and sorts its rows. Blocks.
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
    /// Creates a cache of at most `bytes` bytes.
    pub(crate) fn new(bytes: u64) -> Self {
        // Estimated number of entries.
        let entries = (bytes >> 20).max(16) as usize;
        Self((bytes > 0).then(|| sync::Cache::with_weighter(entries, bytes, Weight)))
    }

    /// Returns a window, preparing it unless it is cached. Concurrent searches for one window prepare it once. Blocks.
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

    /// Returns its size, hits and misses.
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

/// Origin of a window.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Origin {
    Prepared,
    Kept,
}

#[cfg(test)]
mod tests {
    use super::*;
    use oboro_genome_server::{Collections, Existing, SyntheticPanel, generate_panel};

    fn panel(directory: &tempfile::TempDir, seed: u64) -> Collection {
        let collections = Collections::open(directory.path());
        let parameters = SyntheticPanel {
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
        // Other callers learn nothing from that.
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
