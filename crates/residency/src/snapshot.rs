//! Version of a dataset, pinned for a query.
//!
//! A snapshot survives appends, and deletion as far as its files can be kept open. A query [streams](Snapshot::stream)
//! the panels and masks that it needs; the [tier](crate::Tier) decides which of them stay in memory. Without a
//! budget all do, as long as any snapshot of a version with their segment exists.

use crate::error::ResidencyError;
use crate::headers::{HeaderCharge, open_bytes};
use crate::ledger::{PanelKey, WorkUnit};
use crate::panel::Panel;
use crate::placement::{Homes, PlacementReport};
use crate::source::StoredSegment;
use crate::tier::{Listener, OpenSegment, Stream, Tier};
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

impl Tier {
    /// Returns the bytes of memory besides panels that [opening](Self::open) a version takes, given an older one that is
    /// open.
    pub fn open_bytes(manifest: &Manifest, older: Option<&Snapshot>) -> u64 {
        let here = older.map(Snapshot::open_segments).unwrap_or_default();
        (0..)
            .zip(&manifest.segments)
            .filter(|(_, entry)| !here.contains_key(&name_of(entry)))
            .map(|(index, _)| open_bytes(manifest, index))
            .sum()
    }

    /// Pins the version of an owner's dataset that `manifest` describes, for which `charge` was reserved. Segments of an
    /// older version are shared, since their panels may be in memory; others are opened. None of their panels is read
    /// yet.
    ///
    /// # Errors
    /// Errors of `open`, which gets the index of a segment; no memory or threads.
    pub fn open<E: From<ResidencyError>>(
        self: &Arc<Self>,
        owner: Arc<str>,
        name: String,
        manifest: Manifest,
        older: Option<&Snapshot>,
        mut charge: HeaderCharge,
        open: impl Fn(&Manifest, u32) -> Result<StoredSegment, E>,
    ) -> Result<Snapshot, E> {
        let homes = Arc::new(self.homes(manifest.dataset));
        let here = older.map(Snapshot::open_segments).unwrap_or_default();
        let mut segment = |(index, entry)| match here.get(&name_of(entry)) {
            Some(&shared) => Ok(Arc::clone(shared)),
            None => {
                let segment = open(&manifest, index)?;
                let charge = charge.split(open_bytes(&manifest, index));
                let opened = self.register(&owner, segment, Arc::clone(&homes), charge)?;
                Ok(Arc::new(opened))
            }
        };
        let segments = (0..).zip(&manifest.segments).map(&mut segment);
        let segments = segments.collect::<Result<Vec<_>, E>>()?;
        let bytes = |segment: &Arc<OpenSegment>| segment.open_bytes();
        Ok(Snapshot {
            namespace: owner,
            name,
            header_bytes: segments.iter().map(bytes).sum(),
            used: Mutex::new(Instant::now()),
            root: manifest.root(),
            manifest,
            segments,
            homes,
            ring: OnceLock::new(),
        })
    }
}

/// Number and digest of a segment, which name its content.
fn name_of(entry: &SegmentEntry) -> (u32, Digest) {
    (entry.number, entry.digest)
}

impl Snapshot {
    /// Returns the open segments by number and digest.
    fn open_segments(&self) -> HashMap<(u32, Digest), &Arc<OpenSegment>> {
        let entries = self.manifest.segments.iter().map(name_of);
        entries.zip(&self.segments).collect()
    }

    /// Returns the bytes of its segments in memory besides panels: mostly their headers.
    pub fn header_bytes(&self) -> u64 {
        self.header_bytes
    }

    /// Returns the time of its last use.
    pub fn used(&self) -> Instant {
        *self.used.lock()
    }

    /// Records a use.
    pub fn touch(&self) {
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
    ) -> Result<Stream, ResidencyError> {
        Stream::begin(self.segments.clone(), passes, units, listener)
    }

    /// Queries the kernel for the location of everything in memory.
    ///
    /// # Errors
    /// A kernel that does not report it.
    pub fn placement(&self) -> Result<PlacementReport, ResidencyError> {
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
    ) -> Result<Arc<Panel>, ResidencyError> {
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
