//! Version of a dataset, pinned for a query.
//!
//! A snapshot survives appends, and deletion as far as its files can be kept open. A query [streams](Snapshot::stream)
//! the panels and masks that it needs; the [tier](crate::residency) decides which of them stay in memory. Without a
//! budget all do, as long as any snapshot of a version with their segment exists.

use crate::error::StoreError;
use crate::panel::Panel;
use crate::placement::{Homes, PlacementReport};
use crate::residency::{Listener, OpenSegment, PanelKey, Stream, WorkUnit};
use crate::source::StoredSegment;
use oboro_format::{Digest, FormatError, Manifest, SegmentEntry};
use oboro_ring::{Factor, Limb, Ring};
use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::{Arc, OnceLock};
use std::time::Instant;

/// Pinned version of a dataset, which no change of the store affects.
pub struct Snapshot {
    namespace: Arc<str>,
    name: String,
    manifest: Manifest,
    root: Digest,
    segments: Vec<Arc<OpenSegment>>,
    homes: Arc<Homes>,
    ring: OnceLock<Arc<Ring>>,
    /// Bytes of its segments in memory besides panels.
    header_bytes: u64,
    used: Mutex<Instant>,
}

/// Returns the open segments of the version that `manifest` describes. Segments of an older version are shared, since
/// their panels may be in memory; others are opened.
///
/// # Errors
/// Errors of `open`.
pub(crate) fn segments_of(
    manifest: &Manifest,
    older: Option<&Snapshot>,
    open: impl Fn(u32) -> Result<OpenSegment, StoreError>,
) -> Result<Vec<Arc<OpenSegment>>, StoreError> {
    let name = |entry: &SegmentEntry| (entry.number, entry.digest);
    let here = older.into_iter().flat_map(|older| {
        let entries = older.manifest.segments.iter();
        entries.map(name).zip(&older.segments)
    });
    let here: HashMap<_, _> = here.collect();
    let segment = |(index, entry)| match here.get(&name(entry)) {
        Some(&shared) => Ok(Arc::clone(shared)),
        None => open(index).map(Arc::new),
    };
    (0..).zip(&manifest.segments).map(segment).collect()
}

impl Snapshot {
    pub(crate) fn new(
        namespace: Arc<str>,
        name: String,
        manifest: Manifest,
        segments: Vec<Arc<OpenSegment>>,
        homes: Arc<Homes>,
    ) -> Self {
        let root = manifest.root();
        let bytes = |segment: &Arc<OpenSegment>| segment.open_bytes();
        Self {
            namespace,
            header_bytes: segments.iter().map(bytes).sum(),
            used: Mutex::new(Instant::now()),
            name,
            manifest,
            root,
            segments,
            homes,
            ring: OnceLock::new(),
        }
    }

    /// Returns the bytes of its segments in memory besides panels: mostly their headers.
    pub(crate) fn header_bytes(&self) -> u64 {
        self.header_bytes
    }

    /// Returns the time of its last use.
    pub(crate) fn used(&self) -> Instant {
        *self.used.lock()
    }

    pub(crate) fn touch(&self) {
        *self.used.lock() = Instant::now();
    }

    /// Returns the namespace of the dataset.
    pub fn namespace(&self) -> &Arc<str> {
        &self.namespace
    }

    /// Returns the name of the dataset in its namespace.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the description of this version.
    pub fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    /// Returns the root hash of this version.
    pub fn root(&self) -> Digest {
        self.root
    }

    /// Returns the ring of the ciphertexts, prepared on first use.
    pub fn ring(&self) -> Arc<Ring> {
        let prepare = || Arc::new(Ring::new(self.manifest.parameters.clone()));
        Arc::clone(self.ring.get_or_init(prepare))
    }

    /// Returns the number of blocks.
    pub fn block_count(&self) -> u64 {
        self.manifest.block_count()
    }

    /// Returns the node for all panels of a stripe of blocks, as an index into the nodes of the store's
    /// [`Placement`](crate::Placement); `None` where nothing is placed.
    pub fn home(&self, stripe: u64) -> Option<usize> {
        self.homes.home(stripe)
    }

    /// Returns the maximum bytes of panels in memory: those that a [stream](Self::stream) holds, and others as long as
    /// the budget allows. `u64::MAX` if nothing is ever evicted.
    pub fn budget(&self) -> u64 {
        self.segments
            .first()
            .map_or(u64::MAX, |segment| segment.budget())
    }

    /// Returns true if everything that these units need is in memory and stays there, which makes streaming
    /// unnecessary. Always false within a budget.
    ///
    /// # Panics
    ///
    /// Panics if a pass or segment does not exist.
    pub fn is_in_memory(&self, passes: &[Vec<PanelKey>], units: &[WorkUnit]) -> bool {
        units.iter().all(|unit| {
            let mut segments = self.segments[unit.segments.clone()].iter();
            segments.all(|segment| segment.keeps(&passes[unit.pass]))
        })
    }

    /// Starts to load one unit after another, with the parts that each pass reads (ascending, at least one); `listener`
    /// is called as units arrive.
    ///
    /// # Errors
    ///
    /// A budget that is too small for some unit.
    pub fn stream(
        &self,
        passes: Vec<Vec<PanelKey>>,
        units: Vec<WorkUnit>,
        listener: Listener,
    ) -> Result<Stream, StoreError> {
        Stream::begin(self.segments.clone(), passes, units, listener)
    }

    /// Queries the kernel for the location of everything in memory.
    ///
    /// # Errors
    /// A kernel that does not report it.
    pub fn placement(&self) -> Result<PlacementReport, StoreError> {
        let mut report = self.homes.report();
        for segment in &self.segments {
            segment.report(&mut report)?;
        }
        Ok(report)
    }

    /// Returns the residues of a column, or of the masks, modulo one limb in one segment: `blocks × N`, block after
    /// block, evaluation form. Blocks until they are in memory.
    ///
    /// # Errors
    /// No such panel, damage, storage out of reach.
    pub fn panel(
        &self,
        segment: usize,
        limb: Limb,
        factor: impl Into<Factor>,
    ) -> Result<Arc<Panel>, StoreError> {
        let panel = PanelKey::new(limb, factor);
        let open = self.segments.get(segment);
        if let Some(open) = open.filter(|it| it.contains(panel)) {
            return open.load(panel);
        }
        let dataset = self.manifest.dataset;
        Err(match panel.factor {
            Factor::Column(column) => FormatError::NoPanel {
                dataset,
                segment,
                limb,
                column,
            },
            Factor::Mask => FormatError::Misuse {
                what: format!(
                    "there is no mask of limb {limb} in segment {segment} of dataset {dataset}"
                ),
            },
        }
        .into())
    }

    /// Returns a segment's file, for reading panels without loading them into the tier. Panics without such a segment.
    pub fn segment(&self, segment: usize) -> &StoredSegment {
        self.segments[segment].file()
    }
}

impl std::fmt::Debug for Snapshot {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Snapshot")
            .field("name", &self.name)
            .field("dataset", &self.manifest.dataset)
            .field("version", &self.manifest.version)
            .finish_non_exhaustive()
    }
}
