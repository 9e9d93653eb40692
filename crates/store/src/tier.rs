//! The part of a store's ciphertext that is in memory, within a budget.
//!
//! Panels of all datasets lie in arenas of the budget's size: one, or an equal part of it on each node
//! that datasets are placed on. A panel whose home is full lies elsewhere; the ledger knows one budget.
//! The [ledger] decides which: what it lets in is read, checked and unpacked by the
//! [reader](crate::io)'s threads, masks are expanded by whoever finds out that there is room for them; for
//! who leaves, and may be in a hurry, by a thread for that. Who counts opens a [`Stream`] and is told as its
//! units arrive.

mod ledger;

pub use ledger::{Part, Reads, Unit};

use crate::error::ResidencyError;
use crate::error::StoreError;
use crate::panel::Panel;
use crate::placement::{Homes, Placement, PlacementReport};
use crate::reader::{Read, Reader};
use crate::source::StoredSegment;
use ledger::{Action, Key, Ledger, Plan, ReadCounters, StreamId};
use oboro_arena::{Arena, ArenaError};
use oboro_format::FormatError;
use oboro_format::{PartPlace, SegmentDescription, forget_cached, full_panel_bytes};
use oboro_ring::mask;
use std::collections::{HashMap, VecDeque};
use std::fs::File;
use std::io;
use std::num::NonZero;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{SendError, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;

/// Bytes of packed buffers, which are as many as a fast device needs.
const BUFFERS: usize = 32 << 20;
/// Of the budget this part is not for panels: they leave gaps when they differ in size.
const GAPS: u64 = 16;

/// What a stream tells whoever opened it.
#[derive(Debug)]
pub enum Arrival {
    /// All panels of a unit are in memory, until it is released.
    Unit(usize),
    /// A panel could not be read; nothing more is, and units that have arrived stay.
    Failed(StoreError),
}

/// Is told, on any thread, what has arrived. It must not wait.
pub type Listener = Arc<dyn Fn(Arrival) + Send + Sync>;

/// Panels in memory, and those who want some.
pub(crate) struct Tier {
    /// By node, or one.
    arenas: Box<[Arena]>,
    state: Mutex<State>,
    reader: Reader,
    buffers: Mutex<Buffers>,
    /// To the thread that expands masks for those who leave.
    left_behind: Sender<LeftBehind>,
}

/// Masks that there is room for since somebody has left.
type LeftBehind = (Arc<Tier>, VecDeque<Load>);

/// The readers' buffers.
#[derive(Default)]
struct Buffers {
    /// The bytes of each, as the largest panels of all datasets need them; 0 before the first dataset.
    bytes: usize,
    /// None: they could not be made.
    are_there: bool,
}

struct State {
    ledger: Ledger,
    segments: HashMap<u64, Arc<StreamedSegment>>,
    listeners: HashMap<StreamId, Listener>,
    registered: u64,
}

/// An open segment and its panels in memory.
struct StreamedSegment {
    number: u64,
    segment: StoredSegment,
    homes: Arc<Homes>,
    /// The segment's file past the system's cache; none where that is refused.
    direct: Option<Arc<File>>,
    /// Limb-major, the mask after the last column.
    panels: Box<[Mutex<Option<Arc<Panel>>>]>,
}

impl StreamedSegment {
    fn cell(&self, part: Part) -> Option<&Mutex<Option<Arc<Panel>>>> {
        let columns = self.segment.description().columns;
        let column = part.column.unwrap_or(columns);
        let is_there = part.column.is_none_or(|column| column < columns);
        let place = part.limb * (columns as usize + 1) + column as usize;
        self.panels.get(place).filter(|_| is_there)
    }

    fn file_to_read(&self) -> Arc<File> {
        Arc::clone(
            self.direct
                .as_ref()
                .unwrap_or_else(|| self.segment.local().file()),
        )
    }

    /// What was read on is in the tier now, and the system's cache is for what others need.
    fn forget_cached(&self, place: PartPlace) {
        if self.direct.is_none() {
            forget_cached(self.segment.local().file(), place.offset, place.len as u64);
        }
    }

    fn set(&self, part: Part, panel: Option<Arc<Panel>>) {
        let cell = self.cell(part).expect("streams ask for what there is");
        *lock(cell) = panel;
    }

    /// The place of a part among those that kernels read together: the mask is one more item.
    fn position(&self, part: Part) -> usize {
        part.column.unwrap_or(self.segment.description().columns) as usize
    }
}

/// A segment of a snapshot whose panels are in the tier as far as there is room.
pub(crate) struct TieredSegment {
    tier: Arc<Tier>,
    segment: Arc<StreamedSegment>,
}

impl TieredSegment {
    pub(crate) fn file(&self) -> &StoredSegment {
        &self.segment.segment
    }

    /// A panel that a stream holds, or that is kept; `None` if it is not in memory.
    pub(crate) fn panel(&self, part: Part) -> Option<Arc<Panel>> {
        lock(self.segment.cell(part)?).clone()
    }

    /// Adds what is in memory, and where.
    pub(crate) fn report(&self, report: &mut PlacementReport) -> Result<(), StoreError> {
        let StreamedSegment { panels, homes, .. } = &*self.segment;
        let description = self.file().description();
        report.panels += panels.len();
        for cell in panels {
            // Locked, so that no room is given away that it still takes.
            let cell = lock(cell);
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

    /// The bytes of panels that its tier has room for.
    pub(crate) fn room(&self) -> u64 {
        self.tier.capacity()
    }
}

impl Drop for TieredSegment {
    fn drop(&mut self) {
        let number = self.segment.number;
        let mut state = self.tier.lock();
        // Before the ledger gives their room to others.
        for cell in &self.segment.panels {
            *lock(cell) = None;
        }
        state.segments.remove(&number);
        state.ledger.forget_segment(number);
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What is told once the tier is not locked any more.
type News = Vec<(Listener, Arrival)>;

/// A panel that there is room for.
struct Load {
    key: Key,
    segment: Arc<StreamedSegment>,
}

impl Load {
    /// The number of a panel that is no mask among the parts of its segment.
    fn part(&self) -> usize {
        let Part { limb, column } = self.key.part;
        let column = column.expect("masks are not read") as usize;
        self.segment.segment.panel_number(limb, column)
    }
}

impl Tier {
    /// Bytes that the buffers take beside the budget.
    pub(crate) const BUFFERS: u64 = BUFFERS as u64;

    /// A tier of so many bytes on the nodes of a placement.
    pub(crate) fn new(budget: u64, placement: &Placement) -> Result<Self, StoreError> {
        let backings = placement.backings();
        let share = budget as usize / backings.len();
        let arenas = backings
            .into_iter()
            .map(|backing| Arena::reserve(share, backing));
        let state = State {
            ledger: Ledger::new(budget - budget / GAPS, Self::BUFFERS),
            segments: HashMap::new(),
            listeners: HashMap::new(),
            registered: 0,
        };
        let (left_behind, heard) = channel::<LeftBehind>();
        thread::Builder::new()
            .name("expand".into())
            .spawn(move || {
                for (tier, masks) in heard {
                    tier.expand_all(masks);
                }
            })
            .map_err(|source| ResidencyError::Reader { source })?;
        Ok(Self {
            arenas: arenas.collect::<Result<_, _>>()?,
            state: Mutex::new(state),
            reader: Reader::idle(),
            buffers: Mutex::default(),
            left_behind,
        })
    }

    /// The bytes of panels that may be in memory at a time.
    fn capacity(&self) -> u64 {
        self.lock().ledger.capacity()
    }

    /// Takes a segment in; none of its panels is read yet.
    pub(crate) fn register(
        self: &Arc<Self>,
        segment: StoredSegment,
        homes: Arc<Homes>,
    ) -> Result<TieredSegment, StoreError> {
        // Of a full segment, as most of a dataset are.
        self.ensure_buffers(full_panel_bytes(&segment.description().parameters))?;
        let description = segment.description();
        let cells = description.parameters.limb_count() * (description.columns as usize + 1);
        let mut state = self.lock();
        state.registered += 1;
        let segment = Arc::new(StreamedSegment {
            number: state.registered,
            panels: (0..cells).map(|_| Mutex::default()).collect(),
            direct: segment.local().past_the_cache(),
            homes,
            segment,
        });
        state.segments.insert(segment.number, Arc::clone(&segment));
        Ok(TieredSegment {
            tier: Arc::clone(self),
            segment,
        })
    }

    /// Makes the readers' buffers as large as this, unless they are larger. Where that is refused, those
    /// that were there are made again.
    fn ensure_buffers(&self, bytes: usize) -> Result<(), StoreError> {
        let mut buffers = lock(&self.buffers);
        if buffers.are_there && buffers.bytes >= bytes {
            return Ok(());
        }
        let needed = bytes.max(buffers.bytes);
        if let Err(source) = self.provide(needed) {
            buffers.are_there = buffers.bytes > 0 && self.provide(buffers.bytes).is_ok();
            return Err(ResidencyError::Reader { source }.into());
        }
        *buffers = Buffers {
            bytes: needed,
            are_there: true,
        };
        Ok(())
    }

    /// Gives the readers as many buffers of so many bytes as have room in what there is for them.
    fn provide(&self, bytes: usize) -> io::Result<()> {
        let count = BUFFERS / Panel::footprint(bytes.div_ceil(size_of::<u32>()));
        let count = NonZero::new(count).unwrap_or(NonZero::<usize>::MIN);
        self.reader.provide(count, bytes)
    }

    /// Begins to bring in one unit of a plan after another.
    fn open(
        self: &Arc<Self>,
        plan: Plan,
        segments: Vec<Arc<TieredSegment>>,
        listener: Listener,
    ) -> Result<Stream, StoreError> {
        let needed = plan.least_set();
        let (id, reads) = {
            let mut state = self.lock();
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

    /// Changes the ledger and does what follows from it.
    fn act(self: &Arc<Self>, change: impl FnOnce(&mut State, &mut News) -> Vec<Action>) {
        self.expand_all(self.settle(change));
    }

    /// Expands masks that there is room for, and those that there is room for then.
    fn expand_all(self: &Arc<Self>, mut masks: VecDeque<Load>) {
        while let Some(load) = masks.pop_front() {
            let panel = self.expand(&load);
            masks.extend(self.settle(|state, news| state.end(load, panel, None, news)));
        }
    }

    /// The same but for masks that there is room for: these are left to do.
    fn settle(
        self: &Arc<Self>,
        change: impl FnOnce(&mut State, &mut News) -> Vec<Action>,
    ) -> VecDeque<Load> {
        let mut news = News::new();
        let mut loads = Vec::new();
        {
            let mut state = self.lock();
            let mut actions = change(&mut state, &mut news);
            actions.extend(state.ledger.advance());
            for action in actions {
                match action {
                    Action::Drop(key) => state.segments[&key.segment].set(key.part, None),
                    Action::Load(key) => loads.push(Load {
                        key,
                        segment: Arc::clone(&state.segments[&key.segment]),
                    }),
                    Action::Arrived(id, unit) => {
                        news.push((state.listeners[&id].clone(), Arrival::Unit(unit)));
                    }
                }
            }
        }
        let (columns, masks): (Vec<Load>, _) = loads
            .into_iter()
            .partition(|load| load.key.part.column.is_some());
        for load in columns {
            self.read(load);
        }
        for (listener, arrival) in news {
            listener(arrival);
        }
        masks.into()
    }

    fn read(self: &Arc<Self>, load: Load) {
        match load.segment.segment.source().is_local(load.part()) {
            true => self.read_file(load),
            false => self.fetch(load),
        }
    }

    fn read_file(self: &Arc<Self>, load: Load) {
        let part = load.part();
        let place = load.segment.segment.header().part_place(part);
        let PartPlace { offset, len, .. } = place;
        let file = load.segment.file_to_read();
        let (tier, key) = (Arc::downgrade(self), load.key);
        let is_wanted = Box::new(move || tier.upgrade().is_some_and(|tier| tier.is_wanted(key)));
        let tier = Arc::downgrade(self);
        let then = Box::new(move |bytes: io::Result<&[u8]>| {
            // Without a tier nobody waits for it.
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
            tier.act(|state, news| state.end(load, panel, Some(len as u64), news));
        });
        self.reader.submit(Read {
            file,
            offset,
            len,
            is_wanted,
            then,
        });
    }

    /// Whether somebody waits for a panel that was to be read; if not, others get its room.
    fn is_wanted(self: &Arc<Self>, key: Key) -> bool {
        let is_abandoned = self.lock().ledger.abandon(key);
        if is_abandoned {
            self.act(|_, _| Vec::new());
        }
        !is_abandoned
    }

    /// Has a panel fetched that the file here does not have.
    fn fetch(self: &Arc<Self>, load: Load) {
        let segment = load.segment.segment.clone();
        let part = load.part();
        let len = segment.header().part_place(part).len;
        let tier = Arc::downgrade(self);
        let then = move |bytes: Result<&[u8], StoreError>| {
            let Some(tier) = tier.upgrade() else { return };
            let panel = bytes.and_then(|bytes| tier.unpack(&load, bytes));
            tier.act(|state, news| state.end(load, panel, Some(len as u64), news));
        };
        segment.source().fetch(part, Box::new(then));
    }

    fn unpack(&self, load: &Load, bytes: &[u8]) -> Result<Panel, StoreError> {
        self.build(load, |pieces| {
            Ok(load.segment.segment.unpack(load.part(), bytes, pieces)?)
        })
    }

    fn expand(&self, load: &Load) -> Result<Panel, StoreError> {
        let description = load.segment.segment.description();
        let degree = description.parameters.degree();
        self.build(load, |pieces| {
            let blocks = pieces
                .into_iter()
                .flat_map(|piece| piece.chunks_exact_mut(degree));
            for (seed, block) in description.seeds.iter().zip(blocks) {
                mask::expand(seed, &description.parameters, load.key.part.limb, block);
            }
            Ok(())
        })
    }

    fn build(
        &self,
        load: &Load,
        fill: impl FnOnce(Vec<&mut [u32]>) -> Result<(), StoreError>,
    ) -> Result<Panel, StoreError> {
        let description = load.segment.segment.description();
        let degree = description.parameters.degree();
        let position = load.segment.position(load.key.part);
        let homes = &load.segment.homes;
        let stretches: Vec<(usize, usize)> = homes
            .stretches(description)
            .map(|stretch| (stretch.arena(), stretch.blocks.len()))
            .collect();
        let bytes = Panel::footprint(description.seeds.len() * degree);
        let build = || {
            let panel = loop {
                match Panel::where_it_fits(&self.arenas, &stretches, degree, position) {
                    // Gaps that are smaller than a block are of no use.
                    Err(ArenaError::Full { .. }) if self.gave_up(bytes) => {}
                    panel => break panel?,
                }
            };
            panel.filled(fill)
        };
        // Whoever waits for it must hear of its end, whatever that is.
        catch_unwind(AssertUnwindSafe(build)).unwrap_or_else(|_| {
            let Part { limb, column } = load.key.part;
            let what = column.map_or("mask".to_owned(), |column| format!("column {column}"));
            let SegmentDescription { index, dataset, .. } = description;
            Err(FormatError::Misuse {
                what: format!(
                    "unpacking limb {limb} of {what} of segment {index} of dataset {dataset} ended abnormally"
                ),
            }.into())
        })
    }

    /// Gives up so many bytes of what is kept, or all of it; whether there was anything.
    fn gave_up(&self, bytes: usize) -> bool {
        let mut state = self.lock();
        let actions = state.ledger.give_up(bytes as u64);
        for action in &actions {
            if let Action::Drop(key) = action {
                state.segments[&key.segment].set(key.part, None);
            }
        }
        !actions.is_empty()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }
}

impl State {
    /// A load has ended.
    fn end(
        &mut self,
        load: Load,
        panel: Result<Panel, StoreError>,
        read: Option<u64>,
        news: &mut News,
    ) -> Vec<Action> {
        let Load { key, segment } = load;
        match panel {
            Ok(_) if !self.segments.contains_key(&key.segment) => {
                self.ledger.forget(key);
                Vec::new()
            }
            Ok(panel) => {
                segment.set(key.part, Some(Arc::new(panel)));
                self.ledger.loaded(key, read)
            }
            Err(error) => {
                let (victim, again) = self.ledger.failed(key);
                if let Some(listener) = victim.and_then(|id| self.listeners.get(&id)) {
                    news.push((listener.clone(), Arrival::Failed(error)));
                }
                again.into_iter().collect()
            }
        }
    }
}

/// Units on their way into memory. Dropping it gives back what it reserved and holds.
pub struct Stream {
    tier: Arc<Tier>,
    id: StreamId,
    reads: Arc<ReadCounters>,
    _segments: Vec<Arc<TieredSegment>>,
}

impl Stream {
    /// Begins to bring one unit after another into the tier that the segments are of, with what each run
    /// reads (parts ascending, at least one).
    pub(crate) fn begin(
        segments: Vec<Arc<TieredSegment>>,
        runs: Vec<Vec<Part>>,
        units: Vec<Unit>,
        listener: Listener,
    ) -> Result<Self, StoreError> {
        let tier = Arc::clone(&segments[0].tier);
        let bytes = |it: &Arc<TieredSegment>| {
            let gaps =
                it.segment.homes.most_stretches(it.file().description()) * Panel::footprint(0);
            let bytes = size_of::<u32>() * it.file().panel_len() + gaps;
            (it.segment.number, bytes as u64)
        };
        let plan = Plan {
            segments: segments.iter().map(bytes).collect(),
            runs,
            units,
        };
        tier.open(plan, segments, listener)
    }

    /// A unit is needed no more.
    pub fn release(&self, unit: usize) {
        self.tier.act(|state, _| {
            state.ledger.release(self.id, unit);
            Vec::new()
        });
    }

    /// What was read so far, and found.
    pub fn reads(&self) -> Reads {
        self.reads.get()
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        let masks = self.tier.settle(|state, _| {
            state.ledger.close(self.id);
            state.listeners.remove(&self.id);
            Vec::new()
        });
        if !masks.is_empty() {
            let tier = Arc::clone(&self.tier);
            // Without its thread somebody has to.
            if let Err(SendError((tier, masks))) = self.tier.left_behind.send((tier, masks)) {
                tier.expand_all(masks);
            }
        }
    }
}

impl std::fmt::Debug for Stream {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Stream({:?})", self.id)
    }
}

#[cfg(test)]
mod tests;
