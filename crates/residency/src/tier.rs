//! Memory tier: panels in memory, and loading them.
//!
//! Within a budget, panels of all datasets share arenas of that size: one, or an equal part of it on each node that
//! datasets are placed on. A panel whose home is full goes to another node; the ledger has one budget. Without a
//! budget, each segment has its own arenas, released to the OS with it. The [ledger](crate::ledger) decides which
//! panels are loaded. The [reader](crate::reader)'s threads read, check and unpack them, or expand them from their
//! seeds. Callers open a [`Stream`]; a callback fires as each unit becomes resident.

use crate::error::ResidencyError;
use crate::fair_semaphore::{FairSemaphore, ShareLimit};
use crate::headers::{HeaderCharge, Headers, PanelCell};
use crate::ledger::{
    Action, Key, Ledger, PanelKey, Plan, ReadCounters, Reads, Residency, StreamId, WorkUnit,
};
use crate::panel::Panel;
use crate::placement::{Homes, Placement, PlacementReport};
use crate::reader::{Expand, Read, Reader, Work};
use crate::source::StoredSegment;
use oboro_arena::{Arena, ArenaError, Backing};
use oboro_format::{
    DatasetId, FormatError, PartExtent, ReadError, SegmentDescription, full_panel_bytes,
};
use oboro_ring::{Column, Factor, Limb, mask};
use parking_lot::Mutex;
use std::collections::{BTreeSet, HashMap};
use std::fs::File;
use std::io;
use std::num::NonZero;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::channel;

/// Bytes of packed buffers: as many as a fast device needs.
const BUFFERS: usize = 32 << 20;
/// Bytes of packed buffers without a budget: memory is for panels, and the OS reads ahead.
const CACHED_BUFFERS: usize = 8 << 20;
/// Maximum number of buffers: this many requests in flight keep any device busy, so small panels need no more.
const MOST_BUFFERS: usize = 64;
/// Fraction of the budget reserved for fragmentation by panels of different sizes.
const GAPS: u64 = 16;

/// Event of a stream.
#[derive(Debug)]
pub enum Arrival {
    /// All panels of a unit are in memory, until it is released.
    Unit(usize),
    /// A panel could not be read; nothing more is read, and arrived units stay.
    Failed(ResidencyError),
}

/// Callback for the events of a stream. It runs on any thread and must not block.
pub type Listener = Arc<dyn Fn(Arrival) + Send + Sync>;

/// Panels in memory, and their users.
pub struct Tier {
    /// Arenas that all segments share, by node, or one; `None` without a budget, where each segment has its own.
    arenas: Option<Arc<[Arena]>>,
    state: Mutex<State>,
    headers: Arc<Headers>,
    reader: Reader,
    /// Bound on the threads that unpack or expand, whatever the source of the bytes.
    unpacking: Arc<FairSemaphore<Arc<str>>>,
    buffers: Mutex<Buffers>,
    placement: Placement,
}

/// Buffers of the reader.
#[derive(Default)]
struct Buffers {
    /// Size of each: enough for the largest panels of all datasets; 0 before the first dataset.
    bytes: usize,
    /// `false` if the last allocation failed.
    are_allocated: bool,
}

struct State {
    ledger: Ledger,
    segments: HashMap<u64, Arc<StreamedSegment>>,
    listeners: HashMap<StreamId, Listener>,
    registered: u64,
}

/// Open segment and its panels in memory.
struct StreamedSegment {
    number: u64,
    /// Owner, with whose requests those of others take turns.
    owner: Arc<str>,
    segment: StoredSegment,
    homes: Arc<Homes>,
    /// Arenas of its panels, by home.
    arenas: Arc<[Arena]>,
    /// Way of reading its file.
    file: FileToRead,
    /// Panels, limb-major, the mask after the last column.
    panels: Box<[PanelCell]>,
}

/// Use of the OS page cache for a segment's file.
enum FileToRead {
    /// Through the cache, which keeps what fits into memory: nothing is read twice.
    Cached,
    /// Past the cache, which is left to other data.
    Direct,
    /// Through the cache, which then drops the data: the file system supports nothing better.
    Forgotten,
}

impl FileToRead {
    fn past_the_cache(segment: &StoredSegment) -> Self {
        match segment.local().file().past_the_cache() {
            Ok(_) => Self::Direct,
            Err(_) => Self::Forgotten,
        }
    }
}

impl StreamedSegment {
    fn cell(&self, key: PanelKey) -> Option<&PanelCell> {
        let columns = self.segment.description().columns;
        if let Factor::Column(column) = key.factor
            && column.0 >= columns
        {
            return None;
        }
        let factors = columns as usize + 1;
        self.panels.get(key.limb.0 * factors + self.position(key))
    }

    fn panel(&self, key: PanelKey) -> Option<Arc<Panel>> {
        self.cell(key)?.read().clone()
    }

    fn has(&self, key: PanelKey) -> bool {
        self.cell(key).is_some_and(|cell| cell.read().is_some())
    }

    fn file_to_read(&self) -> Result<Arc<File>, ReadError> {
        let file = self.segment.local().file();
        match self.file {
            FileToRead::Direct => file.past_the_cache(),
            FileToRead::Cached | FileToRead::Forgotten => file.file(),
        }
    }

    /// Drops data that are now in the tier from the page cache, which is left to other data.
    fn forget_cached(&self, place: PartExtent) {
        if let FileToRead::Forgotten = self.file {
            self.segment.local().file().forget_cached(place);
        }
    }

    fn set(&self, key: PanelKey, panel: Option<Arc<Panel>>) {
        let cell = self.cell(key).expect("streams ask for what there is");
        set_cell(cell, panel);
    }

    /// Returns the position of a part among those that kernels read together, the mask included.
    fn position(&self, key: PanelKey) -> usize {
        match key.factor {
            Factor::Column(column) => column.index(),
            Factor::Mask => self.segment.description().columns as usize,
        }
    }
}

/// Segment of a snapshot, whose panels are in the tier as far as the budget allows.
pub(crate) struct OpenSegment {
    tier: Arc<Tier>,
    segment: Arc<StreamedSegment>,
    charge: HeaderCharge,
}

impl OpenSegment {
    pub(crate) fn file(&self) -> &StoredSegment {
        &self.segment.segment
    }

    /// Returns its bytes in memory besides panels.
    pub(crate) fn open_bytes(&self) -> u64 {
        self.charge.bytes()
    }

    /// Returns a panel that a stream holds, or that is cached; `None` if it is not in memory.
    pub(crate) fn panel(&self, key: PanelKey) -> Option<Arc<Panel>> {
        self.segment.panel(key)
    }

    /// Returns true if it has such a part, in memory or not.
    pub(crate) fn contains(&self, key: PanelKey) -> bool {
        self.segment.cell(key).is_some()
    }

    /// Returns true if these parts are in memory and stay there as long as the segment.
    pub(crate) fn keeps(&self, panels: &[PanelKey]) -> bool {
        self.tier.keeps_all() && panels.iter().all(|&panel| self.segment.has(panel))
    }

    /// Loads one panel and waits for it.
    pub(crate) fn load(self: &Arc<Self>, key: PanelKey) -> Result<Arc<Panel>, ResidencyError> {
        if let Some(panel) = self.panel(key) {
            return Ok(panel);
        }
        let (said, heard) = channel();
        // Once the panel has arrived, the receiver is dropped.
        let listener = Arc::new(move |arrival| drop(said.send(arrival)));
        let unit = WorkUnit {
            segments: 0..1,
            pass: 0,
        };
        let stream = Stream::begin(
            vec![Arc::clone(self)],
            vec![vec![key]],
            vec![unit],
            listener,
        )?;
        let arrival = heard
            .recv()
            .expect("streams end in an arrival or a failure");
        let panel = self.panel(key);
        drop(stream);
        match arrival {
            Arrival::Unit(_) => Ok(panel.expect("it has arrived, and its stream held it")),
            Arrival::Failed(error) => Err(error),
        }
    }

    /// Adds the memory of its panels, by node, to a report.
    pub(crate) fn report(&self, report: &mut PlacementReport) -> Result<(), ResidencyError> {
        self.report_against(&self.segment.homes, report)
    }

    fn report_against(
        &self,
        homes: &Homes,
        report: &mut PlacementReport,
    ) -> Result<(), ResidencyError> {
        let panels = &self.segment.panels;
        let description = self.file().description();
        report.panels += panels.len();
        for cell in panels {
            // Locked to keep its memory from being handed out meanwhile.
            let cell = cell.read();
            let Some(panel) = &*cell else { continue };
            report.resident_panels += 1;
            for stretch in homes.stretches(description) {
                let degree = description.parameters.degree();
                let resident = panel.resident_by_node(stretch.blocks.clone(), degree)?;
                homes.add_to(report, stretch.arena(), &resident);
            }
        }
        Ok(())
    }

    /// Returns the maximum bytes of panels in memory.
    pub(crate) fn budget(&self) -> u64 {
        self.tier.capacity()
    }
}

impl Drop for OpenSegment {
    fn drop(&mut self) {
        let number = self.segment.number;
        let mut state = self.tier.state.lock();
        // Cleared before the ledger hands out the memory.
        for cell in &self.segment.panels {
            set_cell(cell, None);
        }
        state.segments.remove(&number);
        state.ledger.forget_segment(number);
    }
}

fn set_cell(cell: &PanelCell, panel: Option<Arc<Panel>>) {
    *cell.write() = panel;
}

/// Events to deliver once the tier is unlocked.
type Events = Vec<(Listener, Arrival)>;

/// Panel that the ledger admitted.
struct Load {
    key: Key,
    segment: Arc<StreamedSegment>,
}

impl Load {
    /// Returns the index of a column's panel among the parts of its segment.
    fn part(&self) -> usize {
        let PanelKey { limb, factor } = self.key.panel;
        let Factor::Column(column) = factor else {
            unreachable!("masks are not read");
        };
        self.segment.segment.panel_number(limb, column)
    }
}

impl Tier {
    /// Bytes of the buffers, in addition to the budget.
    pub const BUFFERS: u64 = BUFFERS as u64;

    /// Creates a tier of `budget` bytes on the nodes of a placement; `None` keeps everything used.
    ///
    /// # Errors
    /// No address space for the panels.
    pub fn new(budget: Option<u64>, placement: &Placement) -> Result<Self, ResidencyError> {
        let shared = budget.map(|budget| shared_arenas(budget, placement));
        let capacity = budget.map_or(u64::MAX, |budget| budget - budget / GAPS);
        let state = State {
            ledger: Ledger::new(capacity, Self::BUFFERS),
            segments: HashMap::new(),
            listeners: HashMap::new(),
            registered: 0,
        };
        Ok(Self {
            arenas: shared.transpose()?,
            state: Mutex::new(state),
            headers: Headers::new(),
            reader: Reader::idle(placement.threads()),
            unpacking: FairSemaphore::new(ShareLimit::total(placement.threads().len() as u64)),
            buffers: Mutex::default(),
            placement: placement.clone(),
        })
    }

    /// Returns the homes of a dataset's stripes.
    pub(crate) fn homes(&self, dataset: DatasetId) -> Homes {
        self.placement.homes(dataset)
    }

    /// Returns true if nothing is ever evicted.
    fn keeps_all(&self) -> bool {
        self.arenas.is_none()
    }

    /// Returns the maximum bytes of panels in memory.
    fn capacity(&self) -> u64 {
        self.state.lock().ledger.capacity()
    }

    /// Returns the state of panels in memory.
    pub fn residency(&self) -> Residency {
        self.state.lock().ledger.residency()
    }

    /// Returns the budget of open segments.
    pub fn headers(&self) -> &Arc<Headers> {
        &self.headers
    }

    /// Adds a segment of an owner, for which `charge` was reserved; none of its panels is read yet.
    pub(crate) fn register(
        self: &Arc<Self>,
        owner: &Arc<str>,
        segment: StoredSegment,
        homes: Arc<Homes>,
        charge: HeaderCharge,
    ) -> Result<OpenSegment, ResidencyError> {
        self.ensure_buffers(buffer_bytes(&segment))?;
        let description = segment.description();
        let cells = description.parameters.limb_count() * (description.columns as usize + 1);
        let (arenas, file) = match &self.arenas {
            Some(shared) => (Arc::clone(shared), FileToRead::past_the_cache(&segment)),
            None => (own_arenas(description, &homes)?, FileToRead::Cached),
        };
        let mut state = self.state.lock();
        state.registered += 1;
        let segment = Arc::new(StreamedSegment {
            number: state.registered,
            owner: Arc::clone(owner),
            panels: (0..cells).map(|_| PanelCell::default()).collect(),
            arenas,
            file,
            homes,
            segment,
        });
        state.segments.insert(segment.number, Arc::clone(&segment));
        Ok(OpenSegment {
            tier: Arc::clone(self),
            segment,
            charge,
        })
    }

    /// Keeps segments of a dataset's directory readable before all but `stay` are removed, as far as descriptors
    /// suffice.
    pub fn keep_readable(&self, directory: &Path, stay: &BTreeSet<u32>) {
        let goes = |segment: &&Arc<StreamedSegment>| {
            let segment = &segment.segment;
            segment.path().starts_with(directory) && !stay.contains(&segment.description().number)
        };
        let going: Vec<_> = {
            let state = self.state.lock();
            state.segments.values().filter(goes).cloned().collect()
        };
        for segment in going {
            segment.segment.local().file().outlive_its_name();
        }
    }

    /// Grows the reader's buffers to this size, if they are smaller. If that fails, restores the previous ones.
    fn ensure_buffers(&self, bytes: usize) -> Result<(), ResidencyError> {
        let mut buffers = self.buffers.lock();
        if buffers.are_allocated && buffers.bytes >= bytes {
            return Ok(());
        }
        let needed = bytes.max(buffers.bytes);
        if let Err(source) = self.provide(needed) {
            buffers.are_allocated = buffers.bytes > 0 && self.provide(buffers.bytes).is_ok();
            return Err(ResidencyError::Reader { source });
        }
        *buffers = Buffers {
            bytes: needed,
            are_allocated: true,
        };
        Ok(())
    }

    /// Provides the reader with as many buffers of `bytes` bytes as fit. Without a budget each thread has at least two,
    /// one being filled and one being unpacked.
    fn provide(&self, bytes: usize) -> io::Result<()> {
        let footprint = Panel::footprint(bytes.div_ceil(size_of::<u32>()));
        let count = if self.keeps_all() {
            (CACHED_BUFFERS / footprint).max(2 * self.reader.ring_threads())
        } else {
            BUFFERS / footprint
        }
        .min(MOST_BUFFERS);
        let count = NonZero::new(count).unwrap_or(NonZero::<usize>::MIN);
        self.reader.provide(count, bytes)
    }

    /// Starts to load one unit of a plan after another.
    fn begin(
        self: &Arc<Self>,
        plan: Plan,
        segments: Vec<Arc<OpenSegment>>,
        listener: Listener,
    ) -> Result<Stream, ResidencyError> {
        let needed = plan.least_set();
        // The buffers may have been refused since the segments were opened.
        let bytes = self.buffers.lock().bytes;
        self.ensure_buffers(bytes)?;
        let (id, reads) = {
            let mut state = self.state.lock();
            let capacity = state.ledger.capacity();
            let opened = state.ledger.open(plan);
            let (id, reads) = opened.ok_or(ResidencyError::Budget { needed, capacity })?;
            state.listeners.insert(id, listener);
            (id, reads)
        };
        self.act(|_, _| Vec::new());
        Ok(Stream {
            tier: Arc::clone(self),
            id,
            reads,
            _segments: segments,
        })
    }

    /// Changes the ledger and carries out the actions that follow.
    fn act(self: &Arc<Self>, change: impl FnOnce(&mut State, &mut Events) -> Vec<Action>) {
        let mut events = Events::new();
        let mut loads = Vec::new();
        {
            let mut state = self.state.lock();
            let mut actions = change(&mut state, &mut events);
            actions.extend(state.ledger.advance());
            for action in actions {
                match action {
                    Action::Evict(key) => state.segments[&key.segment].set(key.panel, None),
                    Action::Load(key) => loads.push(Load {
                        key,
                        segment: Arc::clone(&state.segments[&key.segment]),
                    }),
                    Action::Arrived(id, unit) => {
                        events.push((state.listeners[&id].clone(), Arrival::Unit(unit)));
                    }
                }
            }
        }
        // The device works while masks are expanded.
        let (columns, masks): (Vec<Load>, Vec<Load>) = loads
            .into_iter()
            .partition(|load| load.key.panel.factor != Factor::Mask);
        for load in columns {
            self.read(load);
        }
        for load in masks {
            self.queue_expansion(load);
        }
        for (listener, arrival) in events {
            listener(arrival);
        }
    }

    fn read(self: &Arc<Self>, load: Load) {
        if load.segment.segment.source().is_local(load.part()) {
            self.read_file(load)
        } else {
            self.fetch(load)
        }
    }

    fn read_file(self: &Arc<Self>, load: Load) {
        let part = load.part();
        let place = load.segment.segment.header().part_extent(part);
        let PartExtent { offset, len, .. } = place;
        let to_read = Arc::clone(&load.segment);
        let owner = Arc::clone(&load.segment.owner);
        let is_wanted = self.asks_for(load.key);
        let tier = Arc::downgrade(self);
        let then = Box::new(move |bytes: Result<&[u8], ReadError>| {
            // Without a tier the panel is not needed.
            let Some(tier) = tier.upgrade() else { return };
            let segment = &load.segment.segment;
            let panel = match bytes {
                Ok(bytes) => tier.unpack(&load, bytes),
                Err(error) => Err(segment.local().part_error(part, error).into()),
            };
            load.segment.forget_cached(place);
            let source = segment.source();
            match &panel {
                Err(error) if error.corruption().is_some() && source.discard(part) => {
                    return tier.fetch(load);
                }
                _ => source.used(),
            }
            tier.act(|state, events| state.end(load, panel, Some(len as u64), events));
        });
        let read = Work::Read(Read {
            open: Box::new(move || to_read.file_to_read()),
            offset,
            len,
            is_wanted,
            then,
        });
        self.reader.submit(&owner, read);
    }

    /// Expands a mask on a reader thread.
    fn queue_expansion(self: &Arc<Self>, load: Load) {
        let is_wanted = self.asks_for(load.key);
        let owner = Arc::clone(&load.segment.owner);
        let tier = Arc::downgrade(self);
        let then = Box::new(move |turn: io::Result<()>| {
            let Some(tier) = tier.upgrade() else { return };
            let panel = match turn {
                Ok(()) => tier.expand(&load),
                Err(source) => Err(ResidencyError::Reader { source }),
            };
            tier.act(|state, events| state.end(load, panel, None, events));
        });
        self.reader
            .submit(&owner, Work::Expand(Expand { is_wanted, then }));
    }

    fn asks_for(self: &Arc<Self>, key: Key) -> Box<dyn Fn() -> bool + Send> {
        let tier = Arc::downgrade(self);
        Box::new(move || tier.upgrade().is_some_and(|tier| tier.is_wanted(key)))
    }

    /// Returns true if a panel in the queue is still needed; otherwise frees its memory.
    fn is_wanted(self: &Arc<Self>, key: Key) -> bool {
        let is_abandoned = self.state.lock().ledger.abandon(key);
        if is_abandoned {
            self.act(|_, _| Vec::new());
        }
        !is_abandoned
    }

    /// Fetches a panel that the local file lacks.
    fn fetch(self: &Arc<Self>, load: Load) {
        let segment = load.segment.segment.clone();
        let part = load.part();
        let len = segment.header().part_extent(part).len;
        let tier = Arc::downgrade(self);
        let then = move |bytes: Result<&[u8], ResidencyError>| {
            let Some(tier) = tier.upgrade() else { return };
            let panel = bytes.and_then(|bytes| tier.unpack(&load, bytes));
            tier.act(|state, events| state.end(load, panel, Some(len as u64), events));
        };
        segment.source().fetch(part, Box::new(then));
    }

    fn unpack(&self, load: &Load, bytes: &[u8]) -> Result<Panel, ResidencyError> {
        self.build(load, |pieces| {
            Ok(load.segment.segment.unpack(load.part(), bytes, pieces)?)
        })
    }

    fn expand(&self, load: &Load) -> Result<Panel, ResidencyError> {
        let description = load.segment.segment.description();
        let degree = description.parameters.degree();
        self.build(load, |pieces| {
            let blocks = pieces
                .into_iter()
                .flat_map(|piece| piece.chunks_exact_mut(degree));
            for (seed, block) in description.seeds.iter().zip(blocks) {
                mask::expand(seed, &description.parameters, load.key.panel.limb, block);
            }
            Ok(())
        })
    }

    fn build(
        &self,
        load: &Load,
        fill: impl FnOnce(Vec<&mut [u32]>) -> Result<(), ResidencyError>,
    ) -> Result<Panel, ResidencyError> {
        let description = load.segment.segment.description();
        let degree = description.parameters.degree();
        let position = load.segment.position(load.key.panel);
        let homes = &load.segment.homes;
        let stretches: Vec<(usize, usize)> = homes
            .stretches(description)
            .map(|stretch| (stretch.arena(), stretch.blocks.len()))
            .collect();
        let bytes = Panel::footprint(description.seeds.len() * degree);
        let build = || {
            let permit = self.unpacking.acquire_blocking(&load.segment.owner, 1);
            let _permit = permit.expect("few threads wait");
            let panel = loop {
                match Panel::where_it_fits(&load.segment.arenas, &stretches, degree, position) {
                    // Gaps smaller than a block are of no use.
                    Err(ArenaError::Full { .. }) if self.evict(bytes) => {}
                    panel => break panel?,
                }
            };
            panel.filled(fill)
        };
        // Callers must learn of its end, even after a panic.
        catch_unwind(AssertUnwindSafe(build)).unwrap_or_else(|_| {
            let PanelKey { limb, factor } = load.key.panel;
            let what = match factor {
                Factor::Mask => "mask".to_owned(),
                Factor::Column(column) => format!("column {column}"),
            };
            let SegmentDescription {
                number, dataset, ..
            } = description;
            Err(FormatError::Misuse {
                what: format!(
                    "unpacking limb {limb} of {what} of segment {number} of dataset {dataset} ended abnormally"
                ),
            }.into())
        })
    }

    /// Evicts `bytes` bytes of cached panels, or all of them; returns true if any were evicted.
    fn evict(&self, bytes: usize) -> bool {
        let mut state = self.state.lock();
        let actions = state.ledger.evict(bytes as u64);
        for action in &actions {
            if let Action::Evict(key) = action {
                state.segments[&key.segment].set(key.panel, None);
            }
        }
        !actions.is_empty()
    }
}

/// Returns the buffer size for the panels of a segment. Growth replaces all reader threads, so sizes are rounded up to
/// few values.
fn buffer_bytes(segment: &StoredSegment) -> usize {
    let full = full_panel_bytes(&segment.description().parameters);
    let panel = segment
        .header()
        .part_extent(segment.panel_number(Limb(0), Column(0)))
        .len;
    panel.next_power_of_two().min(full)
}

/// Reserves the arenas that the panels of all segments share.
fn shared_arenas(budget: u64, placement: &Placement) -> Result<Arc<[Arena]>, ArenaError> {
    let backings = placement.backings();
    let share = budget as usize / backings.len();
    let arenas = backings.into_iter();
    arenas.map(|it| Arena::reserve(share, it)).collect()
}

/// Reserves address space for all panels of one segment.
fn own_arenas(description: &SegmentDescription, homes: &Homes) -> Result<Arc<[Arena]>, ArenaError> {
    let degree = description.parameters.degree();
    let panels = description.parameters.limb_count() * (description.columns as usize + 1);
    // An arena without blocks takes the minimum.
    let mut bytes = vec![1; homes.arena_count()];
    for stretch in homes.stretches(description) {
        bytes[stretch.arena()] += panels * Panel::footprint(stretch.blocks.len() * degree);
    }
    let arenas = bytes.into_iter().enumerate();
    arenas
        .map(|(home, bytes)| reserve_near(bytes, homes.backing(home)))
        .collect()
}

/// Reserves an arena on the requested node or, if that has been forbidden since the store was opened, anywhere: distant
/// memory is better than none.
fn reserve_near(bytes: usize, backing: Backing) -> Result<Arena, ArenaError> {
    match Arena::reserve(bytes, backing) {
        Err(ArenaError::Node { .. }) => Arena::reserve(bytes, Backing::default()),
        arena => arena,
    }
}

impl State {
    /// Records the end of a load.
    fn end(
        &mut self,
        load: Load,
        panel: Result<Panel, ResidencyError>,
        read: Option<u64>,
        events: &mut Events,
    ) -> Vec<Action> {
        let Load { key, segment } = load;
        match panel {
            Ok(_) if !self.segments.contains_key(&key.segment) => {
                self.ledger.forget(key);
                Vec::new()
            }
            Ok(panel) => {
                segment.set(key.panel, Some(Arc::new(panel)));
                self.ledger.loaded(key, read)
            }
            Err(error) => {
                let (victim, again) = self.ledger.failed(key);
                if let Some(listener) = victim.and_then(|id| self.listeners.get(&id)) {
                    events.push((listener.clone(), Arrival::Failed(error)));
                }
                again.into_iter().collect()
            }
        }
    }
}

/// Units being loaded. Dropping it releases its reservation and panels.
pub struct Stream {
    tier: Arc<Tier>,
    id: StreamId,
    reads: Arc<ReadCounters>,
    _segments: Vec<Arc<OpenSegment>>,
}

impl Stream {
    /// Starts to load one unit after another into the tier of these segments, with the parts that each pass reads
    /// (ascending, at least one).
    pub(crate) fn begin(
        segments: Vec<Arc<OpenSegment>>,
        passes: Vec<Vec<PanelKey>>,
        units: Vec<WorkUnit>,
        listener: Listener,
    ) -> Result<Self, ResidencyError> {
        let tier = Arc::clone(&segments[0].tier);
        let bytes = |it: &Arc<OpenSegment>| {
            let gaps =
                it.segment.homes.most_stretches(it.file().description()) * Panel::footprint(0);
            let bytes = size_of::<u32>() * it.file().panel_len() + gaps;
            (it.segment.number, bytes as u64)
        };
        let plan = Plan {
            segments: segments.iter().map(bytes).collect(),
            passes,
            units,
        };
        tier.begin(plan, segments, listener)
    }

    /// Releases a unit.
    pub fn release(&self, unit: usize) {
        self.tier.act(|state, _| {
            state.ledger.release(self.id, unit);
            Vec::new()
        });
    }

    /// Returns the reads so far, and the panels found in memory.
    pub fn reads(&self) -> Reads {
        self.reads.get()
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        self.tier.act(|state, _| {
            state.ledger.close(self.id);
            state.listeners.remove(&self.id);
            Vec::new()
        });
    }
}

impl std::fmt::Debug for Stream {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Stream({:?})", self.id)
    }
}

#[cfg(test)]
mod tests;
#[cfg(test)]
mod without_budget;
