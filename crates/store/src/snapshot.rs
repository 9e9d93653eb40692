//! One version of a dataset, pinned for a query, its panels in memory once used.
//!
//! A snapshot holds its files open, so it survives appends and deletion. Panels and
//! masks are loaded on first use, once, however many threads ask, and stay resident
//! as long as any snapshot of a version that has their segment. Those of one segment lie
//! in arenas of its own, one for each node that it is placed on, which go back to the system
//! with it.
//!
//! Where the store has a budget of memory, panels are in its [tier](crate::tier) instead: whoever
//! counts [streams](Snapshot::stream) what it needs of them.

use crate::error::StoreError;
use crate::panel::Panel;
use crate::placement::{Homes, PlacementReport};
use crate::source::StoredSegment;
use crate::tier::{Listener, Part, Stream, Tier, TieredSegment, Unit};
use oboro_arena::{Arena, ArenaError, Backing};
use oboro_format::Digest;
use oboro_format::FormatError;
use oboro_format::Manifest;
use oboro_ring::{Ring, mask};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, TryLockError};

/// A panel that is loaded when first asked for. A failed load is tried again.
#[derive(Default)]
struct Cell {
    panel: OnceLock<Arc<Panel>>,
    loading: Mutex<()>,
}

impl Cell {
    fn get(
        &self,
        load: impl FnOnce() -> Result<Panel, StoreError>,
    ) -> Result<Arc<Panel>, StoreError> {
        if let Some(panel) = self.panel.get() {
            return Ok(panel.clone());
        }
        let _loading = self.loading.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(panel) = self.panel.get() {
            return Ok(panel.clone());
        }
        let panel = Arc::new(load()?);
        Ok(self.panel.get_or_init(|| panel).clone())
    }

    /// Loads it unless it is there or another thread is at it.
    fn load_unless_begun(
        &self,
        load: impl FnOnce() -> Result<Panel, StoreError>,
    ) -> Result<(), StoreError> {
        if self.panel.get().is_some() {
            return Ok(());
        }
        let loading = match self.loading.try_lock() {
            Ok(loading) => loading,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => return Ok(()),
        };
        if self.panel.get().is_none() {
            // Nobody else fills it while it is locked.
            let _ = self.panel.set(Arc::new(load()?));
        }
        drop(loading);
        Ok(())
    }
}

/// An open segment and what of it is in memory; versions of a dataset share these.
pub(crate) struct ResidentSegment {
    segment: StoredSegment,
    homes: Arc<Homes>,
    /// By home; none for a node that has no block of it.
    arenas: Box<[Option<Arena>]>,
    /// Limb-major, as in the file.
    panels: Box<[Cell]>,
    masks: Box<[Cell]>,
}

impl ResidentSegment {
    /// Reserves address space for all its panels and loads none.
    fn new(segment: StoredSegment, homes: Arc<Homes>) -> Result<Self, StoreError> {
        let description = segment.description();
        let limbs = description.parameters.limb_count();
        let degree = description.parameters.degree();
        let columns = description.columns as usize;
        let mut bytes = vec![0; homes.arena_count()];
        for stretch in homes.stretches(description) {
            let residues = stretch.blocks.len() * degree;
            bytes[stretch.arena()] += limbs * (columns + 1) * Panel::footprint(residues);
        }
        let reserve = |(arena, bytes)| match bytes {
            0 => Ok(None),
            _ => reserve_near(bytes, homes.backing(arena)).map(Some),
        };
        let arenas = bytes.into_iter().enumerate().map(reserve);
        let cells = |count| (0..count).map(|_| Cell::default()).collect();
        Ok(Self {
            arenas: arenas.collect::<Result<_, _>>()?,
            panels: cells(limbs * columns),
            masks: cells(limbs),
            segment,
            homes,
        })
    }

    /// Whether a panel is in memory. Panics if there is no such panel.
    fn has(&self, limb: usize, column: usize) -> bool {
        let columns = self.segment.description().columns as usize;
        self.panels[limb * columns + column].panel.get().is_some()
    }

    fn panel(&self, limb: usize, column: usize) -> Option<Result<Arc<Panel>, StoreError>> {
        let description = self.segment.description();
        let columns = description.columns as usize;
        if limb >= description.parameters.limb_count() || column >= columns {
            return None;
        }
        let cell = &self.panels[limb * columns + column];
        Some(cell.get(|| self.read(limb, column)))
    }

    fn read(&self, limb: usize, column: usize) -> Result<Panel, StoreError> {
        self.build(column, |pieces| {
            self.segment.read_panel(limb, column, pieces)
        })
    }

    fn mask(&self, limb: usize) -> Option<Result<Arc<Panel>, StoreError>> {
        Some(self.masks.get(limb)?.get(|| self.expand(limb)))
    }

    fn expand(&self, limb: usize) -> Result<Panel, StoreError> {
        let description = self.segment.description();
        let degree = description.parameters.degree();
        // Placed after the columns: kernels treat the mask as one more item.
        self.build(description.columns as usize, |pieces| {
            let blocks = pieces
                .into_iter()
                .flat_map(|piece| piece.chunks_exact_mut(degree));
            for (seed, block) in description.seeds.iter().zip(blocks) {
                mask::expand(seed, &description.parameters, limb, block);
            }
            Ok(())
        })
    }

    /// Loads what is not there yet and no other thread is at: one limb of a column, or of the masks. Panics
    /// if there is no such panel.
    fn load_unless_begun(&self, limb: usize, column: Option<u32>) -> Result<(), StoreError> {
        let columns = self.segment.description().columns as usize;
        match column.map(|column| column as usize) {
            None => self.masks[limb].load_unless_begun(|| self.expand(limb)),
            Some(column) => {
                self.panels[limb * columns + column].load_unless_begun(|| self.read(limb, column))
            }
        }
    }

    /// A panel of this column with its pieces where their homes are.
    fn build(
        &self,
        column: usize,
        fill: impl FnOnce(Vec<&mut [u32]>) -> Result<(), StoreError>,
    ) -> Result<Panel, StoreError> {
        let description = self.segment.description();
        let stretches = self.homes.stretches(description);
        let pieces = stretches.map(|stretch| {
            let arena = self.arenas[stretch.arena()].as_ref();
            (
                arena.expect("reserved for its stretches"),
                stretch.blocks.len() * description.parameters.degree(),
            )
        });
        Panel::build_in_pieces(pieces, column, fill)
    }

    fn report(&self, report: &mut PlacementReport) -> Result<(), StoreError> {
        for (place, arena) in self.arenas.iter().enumerate() {
            if let Some(arena) = arena {
                self.homes.add_to(report, place, &arena.resident_by_node()?);
            }
        }
        let cells = self.panels.iter().chain(&self.masks);
        report.panels += cells.clone().count();
        report.resident_panels += cells.filter(|cell| cell.panel.get().is_some()).count();
        Ok(())
    }
}

/// An arena on the nodes asked for or, where these have been forbidden since the store was opened, wherever
/// the kernel takes it: far memory is better than none.
fn reserve_near(bytes: usize, backing: Backing) -> Result<Arena, ArenaError> {
    match Arena::reserve(bytes, backing) {
        Err(ArenaError::Node { .. }) => Arena::reserve(bytes, Backing::default()),
        arena => arena,
    }
}

/// An open segment, by what decides which of its panels are in memory.
#[derive(Clone)]
pub(crate) enum OpenSegment {
    /// Those that were ever used.
    Resident(Arc<ResidentSegment>),
    /// The tier.
    Tiered(Arc<TieredSegment>),
}

impl OpenSegment {
    /// With its panels in the tier, if there is one.
    pub(crate) fn new(
        segment: StoredSegment,
        homes: &Arc<Homes>,
        tier: Option<&Arc<Tier>>,
    ) -> Result<Self, StoreError> {
        let homes = Arc::clone(homes);
        Ok(match tier {
            None => Self::Resident(Arc::new(ResidentSegment::new(segment, homes)?)),
            Some(tier) => Self::Tiered(Arc::new(tier.register(segment, homes)?)),
        })
    }

    fn file(&self) -> &StoredSegment {
        match self {
            Self::Resident(resident) => &resident.segment,
            Self::Tiered(tiered) => tiered.file(),
        }
    }
}

/// One version of a dataset, pinned: it stays as it is whatever happens to the store.
pub struct Snapshot {
    name: String,
    manifest: Manifest,
    root: Digest,
    segments: Vec<OpenSegment>,
    homes: Arc<Homes>,
    ring: OnceLock<Arc<Ring>>,
}

impl Snapshot {
    pub(crate) fn new(
        name: String,
        manifest: Manifest,
        segments: Vec<OpenSegment>,
        homes: Arc<Homes>,
    ) -> Self {
        let root = manifest.root();
        Self {
            name,
            manifest,
            root,
            segments,
            homes,
            ring: OnceLock::new(),
        }
    }

    pub(crate) fn segments(&self) -> &[OpenSegment] {
        &self.segments
    }

    /// The name under which it was asked for.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The description of this version.
    pub fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    /// The root hash of this version.
    pub fn root(&self) -> Digest {
        self.root
    }

    /// The ring of the ciphertexts, prepared when first asked for.
    pub fn ring(&self) -> Arc<Ring> {
        let prepare = || Arc::new(Ring::new(self.manifest.parameters.clone()));
        Arc::clone(self.ring.get_or_init(prepare))
    }

    /// The number of blocks.
    pub fn block_count(&self) -> u64 {
        self.manifest.block_count()
    }

    /// The node that has the blocks of a group, all columns and limbs and the mask, counted in the order of the
    /// store's [`Placement`](crate::Placement); `None` where nothing is placed.
    pub fn home(&self, group: u64) -> Option<usize> {
        self.homes.home(group)
    }

    /// The bytes of panels that may be in memory at a time, the store having a budget: those are there
    /// that a [stream](Self::stream) holds. `None` where every panel is there when it is asked for.
    pub fn room(&self) -> Option<u64> {
        match self.segments.first()? {
            OpenSegment::Resident(_) => None,
            OpenSegment::Tiered(tiered) => Some(tiered.room()),
        }
    }

    /// Begins to bring one unit after another into memory, with the parts that each run reads
    /// (ascending, at least one); `listener` is told as units arrive.
    ///
    /// # Errors
    /// A budget in which some unit has no room.
    ///
    /// # Panics
    /// If every panel is there without.
    pub fn stream(
        &self,
        runs: Vec<Vec<Part>>,
        units: Vec<Unit>,
        listener: Listener,
    ) -> Result<Stream, StoreError> {
        let tiered = self.segments.iter().map(|segment| match segment {
            OpenSegment::Resident(_) => panic!("what is in memory is not streamed"),
            OpenSegment::Tiered(tiered) => Arc::clone(tiered),
        });
        Stream::begin(tiered.collect(), runs, units, listener)
    }

    /// Asks the kernel where everything that is in memory is.
    ///
    /// # Errors
    /// A kernel that does not say.
    pub fn placement(&self) -> Result<PlacementReport, StoreError> {
        let mut report = self.homes.report();
        for segment in &self.segments {
            match segment {
                OpenSegment::Resident(resident) => resident.report(&mut report)?,
                OpenSegment::Tiered(tiered) => tiered.report(&mut report)?,
            }
        }
        Ok(report)
    }

    /// The residues of one (limb, column) in one segment: `blocks × N` of them, block
    /// after block, evaluation form, checked against their digest when loaded: that is on first use, or,
    /// where the store has a budget, by a stream that holds it.
    pub fn panel(
        &self,
        segment: usize,
        limb: usize,
        column: usize,
    ) -> Result<Arc<Panel>, StoreError> {
        self.segments
            .get(segment)
            .and_then(|segment| match segment {
                OpenSegment::Resident(resident) => resident.panel(limb, column),
                OpenSegment::Tiered(tiered) => {
                    let column = Some(column as u32);
                    tiered.panel(Part { limb, column }).map(Ok)
                }
            })
            .unwrap_or(Err(FormatError::NoPanel {
                dataset: self.manifest.dataset,
                segment,
                limb,
                column,
            }
            .into()))
    }

    /// Begins to fetch those panels of a limb of a segment that neither memory nor the disk has, where they
    /// are in object storage.
    ///
    /// # Panics
    /// If there is no such panel.
    pub fn fetch_ahead(&self, segment: usize, limb: usize, columns: impl IntoIterator<Item = u32>) {
        if let OpenSegment::Resident(resident) = &self.segments[segment] {
            let is_absent = |column: &u32| !resident.has(limb, *column as usize);
            let absent = columns.into_iter().filter(is_absent);
            resident.segment.prefetch(limb, absent);
        }
    }

    /// Loads a panel of a column, or of the masks, that is to stay in memory, unless another thread is at it:
    /// threads that need the same panels share the work by loading ahead what they ask for next.
    ///
    /// # Errors
    /// As [`panel`](Self::panel) of what this thread loads.
    ///
    /// # Panics
    /// If there is no such panel.
    pub fn load_ahead(
        &self,
        segment: usize,
        limb: usize,
        column: Option<u32>,
    ) -> Result<(), StoreError> {
        match &self.segments[segment] {
            OpenSegment::Resident(resident) => resident.load_unless_begun(limb, column),
            OpenSegment::Tiered(_) => Ok(()),
        }
    }

    /// A segment's file, from which panels are read without staying in memory. Panics if there is no
    /// such segment.
    pub fn segment(&self, segment: usize) -> &StoredSegment {
        self.segments[segment].file()
    }

    /// One limb of the masks of a segment: `blocks × N` residues, block after block,
    /// evaluation form, expanded from the seeds when first asked for, or by a stream that holds it.
    pub fn mask(&self, segment: usize, limb: usize) -> Result<Arc<Panel>, StoreError> {
        self.segments
            .get(segment)
            .and_then(|segment| match segment {
                OpenSegment::Resident(resident) => resident.mask(limb),
                OpenSegment::Tiered(tiered) => tiered.panel(Part { limb, column: None }).map(Ok),
            })
            .unwrap_or_else(|| {
                Err(FormatError::Misuse {
                    what: format!(
                        "there is no mask of limb {limb} in segment {segment} of dataset {}",
                        self.manifest.dataset
                    ),
                }
                .into())
            })
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

#[cfg(test)]
mod tests;
