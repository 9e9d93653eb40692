//! Residency policy: admission of streams, the panels each holds, and eviction.
//!
//! Nothing here reads, allocates panels or waits: the [tier](super) acts on the ledger's decisions.
//!
//! A stream takes the panels of its units in order and holds them until each unit is released. Its *least set*, the
//! most that one unit needs, is reserved on admission, first come, first served. An admitted stream therefore always
//! gets its next unit, and deadlock is impossible. Beyond their least sets, streams hold panels only while no other
//! stream waits, up to half of the unreserved memory. The next stream with a modest least set is thus admitted however
//! slow the others are.
//!
//! Panels that no stream holds stay until their memory is needed. Panels that no query in flight uses are evicted
//! first. Next come those that their query is done with, most recent first: the next query starts where this one did,
//! and keeping a fixed prefix is of more use than keeping the last panels. Masks outlast columns (expanding one costs
//! more than reading one, and every query uses it), low limbs outlast high ones (short itemsets read only these). Of
//! panels needed again, the one needed last is evicted first. A query of one pass evicts such panels only if it could
//! not continue otherwise, as it soon frees others. A query of several passes, which returns to most panels, evicts
//! them also to read ahead.

use foldhash::HashMap;
use oboro_ring::{Factor, Limb};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Panel of any segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PanelKey {
    /// Limb.
    pub limb: Limb,
    /// Column or mask.
    pub factor: Factor,
}

impl PanelKey {
    /// Returns the key of the panel of a column, or of the masks, modulo a limb.
    pub fn new(limb: Limb, factor: impl Into<Factor>) -> Self {
        let factor = factor.into();
        Self { limb, factor }
    }
}

/// Panel of one segment; segments are numbered by the tier.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Key {
    pub(super) segment: u64,
    pub(super) panel: PanelKey,
}

/// Unit of residency: the panels of one pass over adjacent segments, needed in memory together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WorkUnit {
    /// Segments, by their index in the snapshot.
    pub segments: Range<usize>,
    /// Index of the pass.
    pub pass: usize,
}

/// Panels that a stream needs, unit by unit.
#[derive(Debug, Clone)]
pub(super) struct Plan {
    /// Number of each segment, and the bytes of one of its panels.
    pub(super) segments: Vec<(u64, u64)>,
    /// Panels that each pass reads of a segment: at least one, in file order.
    pub(super) passes: Vec<Vec<PanelKey>>,
    pub(super) units: Vec<WorkUnit>,
}

impl Plan {
    /// Returns the maximum bytes of the panels that one unit needs.
    pub(super) fn least_set(&self) -> u64 {
        let of_unit = |unit: &WorkUnit| {
            let segments = &self.segments[unit.segments.clone()];
            let bytes: u64 = segments.iter().map(|(_, bytes)| bytes).sum();
            self.passes[unit.pass].len() as u64 * bytes
        };
        self.units.iter().map(of_unit).max().unwrap_or(0)
    }

    fn keys(&self, unit: usize) -> impl Iterator<Item = Key> {
        let WorkUnit { segments, pass } = &self.units[unit];
        let panels = &self.passes[*pass];
        self.segments[segments.clone()]
            .iter()
            .flat_map(|&(segment, _)| panels.iter().map(move |&panel| Key { segment, panel }))
    }

    fn panels(&self, unit: usize) -> usize {
        let WorkUnit { segments, pass } = &self.units[unit];
        segments.len() * self.passes[*pass].len()
    }
}

/// Index of the units that use each segment and the passes that use each panel, ascending.
#[derive(Debug)]
struct Uses {
    units_of_segment: HashMap<u64, Vec<usize>>,
    passes_of_panel: HashMap<PanelKey, Vec<usize>>,
}

impl Uses {
    fn of(plan: &Plan) -> Self {
        let mut units_of_segment: HashMap<u64, Vec<usize>> = HashMap::default();
        for (number, unit) in plan.units.iter().enumerate() {
            for &(segment, _) in &plan.segments[unit.segments.clone()] {
                units_of_segment.entry(segment).or_default().push(number);
            }
        }
        let mut passes_of_panel: HashMap<PanelKey, Vec<usize>> = HashMap::default();
        for (pass, panels) in plan.passes.iter().enumerate() {
            for &panel in panels {
                passes_of_panel.entry(panel).or_default().push(pass);
            }
        }
        Self {
            units_of_segment,
            passes_of_panel,
        }
    }
}

/// Next use of a panel by the queries in flight, from the least to the most urgent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Need {
    /// Not used by any of them.
    None,
    /// Not used again by its query.
    Past,
    /// Used at this time.
    At(Reverse<u64>),
}

/// Eviction priority of an unheld panel; the lowest is evicted first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct EvictionPriority {
    need: Need,
    is_mask: bool,
    limb: Reverse<Limb>,
    /// Age: without a query that needs the panel, the most recently used is highest; else the one used longest ago,
    /// where the next query starts.
    age: i64,
}

/// Decision of the ledger.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Action {
    /// Evict a panel, before anything is loaded.
    Evict(Key),
    /// Load a panel that a stream waits for and that fits into the budget.
    Load(Key),
    /// Report that all panels of a stream's unit are in memory.
    Arrived(StreamId, usize),
}

/// Id of a stream, in the order of opening.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct StreamId(u64);

/// Counters of reads, of a stream or of all.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Reads {
    /// Bytes of panels, as stored on disk.
    pub bytes: u64,
    /// Number of panels read from disk.
    pub panels: u64,
    /// Number of panels found in memory or in flight for another stream, including masks.
    pub found: u64,
    /// Number of masks expanded from their seeds.
    pub masks: u64,
}

/// State of a store's panels in memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Residency {
    /// Maximum bytes of panels in memory; `u64::MAX` if nothing is evicted.
    pub capacity: u64,
    /// Bytes of panels in memory or being loaded.
    pub used: u64,
    /// Number of open streams.
    pub streams: usize,
    /// Number of streams that wait for memory.
    pub waiting: usize,
    /// Reads of all streams since the store was opened.
    pub reads: Reads,
}

/// Atomic form of [`Reads`].
#[derive(Debug, Default)]
pub(super) struct ReadCounters {
    bytes: AtomicU64,
    panels: AtomicU64,
    found: AtomicU64,
    masks: AtomicU64,
}

impl ReadCounters {
    /// Counts a loaded panel: read from disk if it has bytes there, else expanded.
    fn loaded(&self, read: Option<u64>) {
        match read {
            Some(bytes) => {
                self.bytes.fetch_add(bytes, Ordering::Relaxed);
                self.panels.fetch_add(1, Ordering::Relaxed);
            }
            None => {
                self.masks.fetch_add(1, Ordering::Relaxed);
            }
        }
    }

    fn found(&self) {
        self.found.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn get(&self) -> Reads {
        let [bytes, panels, found, masks] = [&self.bytes, &self.panels, &self.found, &self.masks]
            .map(|counter| counter.load(Ordering::Relaxed));
        Reads {
            bytes,
            panels,
            found,
            masks,
        }
    }
}

#[derive(Debug)]
struct Entry {
    bytes: u64,
    /// Number of streams that hold it.
    holders: u32,
    used: i64,
    phase: Phase,
}

#[derive(Debug)]
enum Phase {
    /// Being loaded for a stream, and for the units that wait for it.
    Loading {
        by: StreamId,
        waiting: Vec<(StreamId, usize)>,
    },
    Held,
    Kept,
}

/// Kept panels by priority, maintained only while something has to be evicted.
#[derive(Debug, Default)]
struct EvictionIndex {
    priorities: HashMap<Key, EvictionPriority>,
    ascending: BTreeSet<(EvictionPriority, Key)>,
}

impl EvictionIndex {
    fn insert(&mut self, key: Key, priority: EvictionPriority) {
        self.priorities.insert(key, priority);
        self.ascending.insert((priority, key));
    }

    fn remove(&mut self, key: Key) {
        if let Some(priority) = self.priorities.remove(&key) {
            self.ascending.remove(&(priority, key));
        }
    }

    fn least(&self) -> Option<(EvictionPriority, Key)> {
        self.ascending.first().copied()
    }
}

#[derive(Debug)]
struct Stream {
    plan: Plan,
    uses: Uses,
    /// Time of its first unit; each unit takes 1.
    begun: u64,
    reserved: u64,
    is_admitted: bool,
    /// `true` after a failed load: the stream takes nothing more, and arrived units stay until it is closed.
    is_failed: bool,
    /// Unit being taken, and the number of its panels taken.
    next: (usize, usize),
    held: HashMap<Key, PanelHold>,
    /// Units being taken or not yet released, with their panels in flight.
    units: BTreeMap<usize, u32>,
    /// Bytes of the panels it holds, of those among them that it loaded, and of those in flight.
    charge: u64,
    loaded: u64,
    loading: u64,
    reads: Arc<ReadCounters>,
}

#[derive(Debug, Clone, Copy)]
struct PanelHold {
    units: u32,
    /// `true` if it was loaded for this stream.
    is_loaded: bool,
}

impl Stream {
    fn next_key(&self) -> Option<(Key, u64)> {
        let (number, taken) = self.next;
        let unit = self.plan.units.get(number)?;
        let panels = &self.plan.passes[unit.pass];
        let (segment, bytes) = self.plan.segments[unit.segments.start + taken / panels.len()];
        let panel = panels[taken % panels.len()];
        Some((Key { segment, panel }, bytes))
    }

    /// Advances past the panel just taken; returns the unit if this completed it and none of its panels is in flight.
    fn go_on(&mut self) -> Option<usize> {
        let (unit, taken) = self.next;
        self.next = if taken + 1 < self.plan.panels(unit) {
            (unit, taken + 1)
        } else {
            (unit + 1, 0)
        };
        (self.next.0 > unit && self.units[&unit] == 0).then_some(unit)
    }

    /// Returns true if no unit is complete, which leaves its query idle.
    fn is_stalled(&self) -> bool {
        let is_there = |(&unit, &missing): (&usize, &u32)| unit < self.next.0 && missing == 0;
        !self.units.iter().any(is_there)
    }

    /// Returns the time of the unit being taken.
    fn now(&self) -> u64 {
        self.begun + self.next.0 as u64
    }

    /// Returns the next use of a panel that it does not hold; `None` without one.
    fn need(&self, key: Key) -> Option<Need> {
        if self.is_failed {
            return None;
        }
        let passes = self.uses.passes_of_panel.get(&key.panel)?;
        let units = self.uses.units_of_segment.get(&key.segment)?;
        let later = &units[units.partition_point(|&unit| unit < self.next.0)..];
        let needs = |&&unit: &&usize| passes.binary_search(&self.plan.units[unit].pass).is_ok();
        Some(match later.iter().find(needs) {
            Some(&unit) => Need::At(Reverse(self.begun + unit as u64)),
            None => Need::Past,
        })
    }

    /// Removes a panel from those it holds.
    fn drop_hold(&mut self, key: Key, bytes: u64) {
        if let Some(hold) = self.held.remove(&key) {
            self.charge -= bytes;
            if hold.is_loaded {
                self.loaded -= bytes;
            }
        }
    }

    /// Returns the bytes it holds beyond its reservation.
    fn beyond(&self) -> u64 {
        self.charge.saturating_sub(self.reserved)
    }
}

/// State of all panels in memory, all streams, and the budget.
#[derive(Debug)]
pub(super) struct Ledger {
    capacity: u64,
    /// Maximum bytes that a stream may have in flight, and loaded beyond its least set.
    ahead: u64,
    /// Bytes of all entries.
    used: u64,
    entries: HashMap<Key, Entry>,
    /// Priorities of all kept panels; `None` until something has to be evicted under the current queries.
    evictable: Option<EvictionIndex>,
    streams: BTreeMap<StreamId, Stream>,
    /// Streams waiting for admission.
    waiting: VecDeque<StreamId>,
    opened: u64,
    clock: i64,
    /// Reads of all streams so far.
    reads: ReadCounters,
}

impl Ledger {
    pub(super) fn new(capacity: u64, ahead: u64) -> Self {
        Self {
            capacity,
            ahead,
            used: 0,
            entries: HashMap::default(),
            evictable: None,
            streams: BTreeMap::new(),
            waiting: VecDeque::new(),
            opened: 0,
            clock: 0,
            reads: ReadCounters::default(),
        }
    }

    pub(super) fn capacity(&self) -> u64 {
        self.capacity
    }

    /// Returns the current state, with the reads so far.
    pub(super) fn residency(&self) -> Residency {
        Residency {
            capacity: self.capacity,
            used: self.used,
            streams: self.streams.len(),
            waiting: self.waiting.len(),
            reads: self.reads.get(),
        }
    }

    #[cfg(test)]
    pub(super) fn used(&self) -> u64 {
        self.used
    }

    #[cfg(test)]
    pub(super) fn streams(&self) -> usize {
        self.streams.len()
    }

    /// Opens a stream, which waits for admission, and returns its read counters; `None` if its least set exceeds the
    /// budget.
    pub(super) fn open(&mut self, plan: Plan) -> Option<(StreamId, Arc<ReadCounters>)> {
        let reserved = plan.least_set();
        if reserved > self.capacity {
            return None;
        }
        let id = StreamId(self.opened);
        self.opened += 1;
        let stream = Stream {
            uses: Uses::of(&plan),
            plan,
            begun: self.streams.values().map(Stream::now).max().unwrap_or(0),
            reserved,
            is_admitted: false,
            is_failed: false,
            next: (0, 0),
            held: HashMap::default(),
            units: BTreeMap::new(),
            charge: 0,
            loaded: 0,
            loading: 0,
            reads: Arc::default(),
        };
        let reads = Arc::clone(&stream.reads);
        self.streams.insert(id, stream);
        self.waiting.push_back(id);
        self.evictable = None;
        Some((id, reads))
    }

    /// Releases a unit of a stream.
    pub(super) fn release(&mut self, id: StreamId, unit: usize) {
        let Some(stream) = self.streams.get_mut(&id) else {
            return;
        };
        if stream.units.remove(&unit).is_none() {
            return;
        }
        let mut unheld = Vec::new();
        for key in stream.plan.keys(unit) {
            if let Some(hold) = stream.held.get_mut(&key) {
                hold.units -= 1;
                if hold.units == 0 {
                    unheld.push(key);
                }
            }
        }
        for &key in &unheld {
            stream.drop_hold(key, self.entries[&key].bytes);
        }
        for key in unheld {
            self.release_panel(id, key);
        }
    }

    /// Closes a stream and frees what it reserved and held.
    pub(super) fn close(&mut self, id: StreamId) {
        self.waiting.retain(|&waiting| waiting != id);
        if let Some(stream) = self.streams.remove(&id) {
            self.evictable = None;
            for &key in stream.held.keys() {
                self.release_panel(id, key);
            }
        }
    }

    /// Records that a requested panel is in memory; `read` is the bytes read from disk, if any. Returns the units
    /// completed by it.
    pub(super) fn loaded(&mut self, key: Key, read: Option<u64>) -> Vec<Action> {
        let Some((by, waiting)) = self.end_loading(key) else {
            return Vec::new();
        };
        if let Some(stream) = self.streams.get_mut(&by) {
            stream.reads.loaded(read);
        }
        self.reads.loaded(read);
        let mut arrived = Vec::new();
        for (id, unit) in waiting {
            if let Some(stream) = self.streams.get_mut(&id)
                && let Some(missing) = stream.units.get_mut(&unit)
            {
                *missing -= 1;
                if *missing == 0 && unit < stream.next.0 {
                    arrived.push(Action::Arrived(id, unit));
                }
            }
        }
        if self.entries[&key].holders == 0 {
            self.keep(key);
        }
        arrived
    }

    /// Records that a panel could not be loaded. Fails the stream that requested it; for others that wait, it is loaded
    /// again.
    pub(super) fn failed(&mut self, key: Key) -> (Option<StreamId>, Option<Action>) {
        let Some((by, waiting)) = self.end_loading(key) else {
            return (None, None);
        };
        let first = waiting.iter().map(|&(id, _)| id);
        let victim = first.min_by_key(|&id| (id != by, id));
        let others: Vec<_> = waiting
            .into_iter()
            .filter(|&(id, _)| Some(id) != victim)
            .collect();
        let next = others.first().map(|&(id, _)| id);
        let again = next.map(|by| {
            let entry = self.entries.get_mut(&key).expect("it was being loaded");
            if let Some(stream) = self.streams.get_mut(&by) {
                stream.loading += entry.bytes;
            }
            let waiting = others;
            entry.phase = Phase::Loading { by, waiting };
            Action::Load(key)
        });
        if let Some(victim) = victim {
            self.fail(victim, key);
        }
        if again.is_none() {
            self.forget(key);
        }
        (victim, again)
    }

    /// Forgets a requested panel if no stream waits for it any more; returns true in that case.
    pub(super) fn abandon(&mut self, key: Key) -> bool {
        let is_abandoned = self.entries[&key].holders == 0;
        if is_abandoned {
            self.end_loading(key);
            self.forget(key);
        }
        is_abandoned
    }

    /// Fails a stream because of one panel; it then waits for no other.
    fn fail(&mut self, id: StreamId, missing: Key) {
        let entry = self.entries.get_mut(&missing).expect("it was to be loaded");
        let stream = self.streams.get_mut(&id).expect("it waited");
        stream.is_failed = true;
        stream.reserved = 0;
        stream.drop_hold(missing, entry.bytes);
        entry.holders -= 1;
        let is_awaited = |key: &&Key| matches!(self.entries[key].phase, Phase::Loading { .. });
        let awaited: Vec<Key> = stream.held.keys().filter(is_awaited).copied().collect();
        for &key in &awaited {
            stream.drop_hold(key, self.entries[&key].bytes);
        }
        self.evictable = None;
        for key in awaited {
            self.release_panel(id, key);
        }
    }

    /// Evicts at least this many bytes of kept panels, or all, lowest priority first: the arenas are full, whatever the
    /// budget says.
    pub(super) fn evict(&mut self, bytes: u64) -> Vec<Action> {
        let mut actions = Vec::new();
        let enough = self.used.saturating_sub(bytes);
        while self.used > enough
            && let Some((_, key)) = self.evictable().least()
        {
            self.forget(key);
            actions.push(Action::Evict(key));
        }
        actions
    }

    /// Drops the panels of a closed segment. Those in flight are dropped when they arrive.
    pub(super) fn forget_segment(&mut self, segment: u64) {
        let gone = self.entries.iter().filter(|(key, entry)| {
            key.segment == segment && !matches!(entry.phase, Phase::Loading { .. })
        });
        for key in gone.map(|(&key, _)| key).collect::<Vec<_>>() {
            self.forget(key);
        }
    }

    /// Removes the entry of a panel that is no longer, or never was, in memory.
    pub(super) fn forget(&mut self, key: Key) {
        if let Some(entry) = self.entries.remove(&key) {
            self.used -= entry.bytes;
            self.devalue(key);
        }
    }

    /// Admits streams and takes panels as far as the budget allows; returns the actions that follow, in order.
    pub(super) fn advance(&mut self) -> Vec<Action> {
        let mut actions = Vec::new();
        self.admit();
        let ids: Vec<StreamId> = self.streams.keys().copied().collect();
        // One panel per stream in turn: none waits until another has its full share.
        let mut moving = true;
        while moving {
            moving = false;
            for &id in &ids {
                moving |= self.take_next(id, &mut actions);
            }
        }
        actions
    }

    fn admit(&mut self) {
        while let Some(id) = self.waiting.front() {
            let committed = self.reserved() + self.beyond();
            let stream = self.streams.get_mut(id).expect("it waits");
            if committed + stream.reserved > self.capacity {
                break;
            }
            stream.is_admitted = true;
            self.waiting.pop_front();
        }
    }

    fn admitted(&self) -> impl Iterator<Item = &Stream> {
        self.streams.values().filter(|stream| stream.is_admitted)
    }

    /// Returns the bytes reserved for streams.
    fn reserved(&self) -> u64 {
        self.admitted().map(|stream| stream.reserved).sum()
    }

    /// Returns the bytes that streams hold beyond their reservations.
    fn beyond(&self) -> u64 {
        self.admitted().map(Stream::beyond).sum()
    }

    /// Takes the next panel for a stream, if possible now.
    fn take_next(&mut self, id: StreamId, actions: &mut Vec<Action>) -> bool {
        let stream = &self.streams[&id];
        if !stream.is_admitted || stream.is_failed {
            return false;
        }
        let Some((key, bytes)) = stream.next_key() else {
            return false;
        };
        let is_new = !stream.held.contains_key(&key);
        if is_new && !self.may_hold(stream, bytes) {
            return false;
        }
        let is_load = is_new && !self.entries.contains_key(&key);
        if is_load && !(self.may_load(stream, bytes) && self.evict_for(id, bytes, actions)) {
            return false;
        }
        self.devalue(key);
        self.clock += 1;
        let used = self.clock;
        let entry = self.entries.entry(key).or_insert_with(|| {
            actions.push(Action::Load(key));
            self.used += bytes;
            let waiting = Vec::new();
            Entry {
                bytes,
                holders: 0,
                used,
                phase: Phase::Loading { by: id, waiting },
            }
        });
        entry.used = used;
        let stream = self.streams.get_mut(&id).expect("it takes");
        let unit = stream.next.0;
        let missing = stream.units.entry(unit).or_insert(0);
        match &mut entry.phase {
            Phase::Loading { waiting, .. } => {
                waiting.push((id, unit));
                *missing += 1;
            }
            phase => *phase = Phase::Held,
        }
        let hold = stream.held.entry(key).or_insert(PanelHold {
            units: 0,
            is_loaded: is_load,
        });
        hold.units += 1;
        if is_new {
            entry.holders += 1;
            stream.charge += bytes;
            if is_load {
                stream.loaded += bytes;
                stream.loading += bytes;
            } else {
                stream.reads.found();
                self.reads.found();
            }
        }
        if let Some(unit) = stream.go_on() {
            actions.push(Action::Arrived(id, unit));
        }
        true
    }

    /// Returns true if a stream may hold one more panel: one of its least set or, while no stream waits, one within the
    /// limit on panels beyond least sets.
    fn may_hold(&self, stream: &Stream, bytes: u64) -> bool {
        if stream.charge + bytes <= stream.reserved {
            return true;
        }
        let free = self.capacity - self.reserved();
        let most = free.min(self.ahead.max(free / 2));
        let more = (stream.charge + bytes - stream.reserved) - stream.beyond();
        self.waiting.is_empty() && self.beyond() + more <= most
    }

    fn may_load(&self, stream: &Stream, bytes: u64) -> bool {
        let is_ahead = stream.loaded + bytes > stream.reserved + self.ahead;
        let is_deep = stream.loading + bytes > self.ahead && stream.loading > 0;
        !is_ahead && !is_deep
    }

    /// Evicts by priority until the panel fits. Panels needed later are evicted only for a stream that could not
    /// continue otherwise, or that has several passes and needs this one earlier.
    fn evict_for(&mut self, id: StreamId, bytes: u64, actions: &mut Vec<Action>) -> bool {
        let stream = &self.streams[&id];
        let has_passes = stream.plan.passes.len() > 1;
        let now = stream.now();
        while self.used + bytes > self.capacity {
            let Some((priority, key)) = self.evictable().least() else {
                return false;
            };
            if let Need::At(Reverse(time)) = priority.need
                && !(has_passes && time > now)
                && !self.streams[&id].is_stalled()
            {
                return false;
            }
            self.forget(key);
            actions.push(Action::Evict(key));
        }
        true
    }

    /// Marks a loading panel as held; returns the stream that requested it and those that wait. `None` if it is not
    /// being loaded.
    fn end_loading(&mut self, key: Key) -> Option<(StreamId, Vec<(StreamId, usize)>)> {
        let entry = self.entries.get_mut(&key)?;
        let Phase::Loading { by, waiting } = &mut entry.phase else {
            return None;
        };
        let ended = (*by, std::mem::take(waiting));
        entry.phase = Phase::Held;
        let bytes = entry.bytes;
        if let Some(stream) = self.streams.get_mut(&ended.0) {
            stream.loading -= bytes;
        }
        Some(ended)
    }

    /// Releases a stream's hold on a panel.
    fn release_panel(&mut self, id: StreamId, key: Key) {
        let entry = self.entries.get_mut(&key).expect("it was held");
        entry.holders -= 1;
        if let Phase::Loading { waiting, .. } = &mut entry.phase {
            waiting.retain(|&(waiting, _)| waiting != id);
        } else if entry.holders == 0 {
            self.keep(key);
        }
    }

    fn keep(&mut self, key: Key) {
        let entry = self.entries.get_mut(&key).expect("it is in memory");
        entry.phase = Phase::Kept;
        if let Some(mut evictable) = self.evictable.take() {
            evictable.insert(key, self.priority(key));
            self.evictable = Some(evictable);
        }
    }

    fn priority(&self, key: Key) -> EvictionPriority {
        let needs = self.streams.values().filter_map(|stream| stream.need(key));
        let need = needs.max().unwrap_or(Need::None);
        let used = self.entries[&key].used;
        EvictionPriority {
            need,
            is_mask: key.panel.factor == Factor::Mask,
            limb: Reverse(key.panel.limb),
            age: match need {
                Need::None => used,
                _ => -used,
            },
        }
    }

    /// Returns the kept panels by their priority for the queries in flight.
    fn evictable(&mut self) -> &EvictionIndex {
        let evictable = self.evictable.take().unwrap_or_else(|| {
            let entries = self.entries.iter();
            let kept = entries.filter(|(_, entry)| matches!(entry.phase, Phase::Kept));
            let mut evictable = EvictionIndex::default();
            for (&key, _) in kept {
                evictable.insert(key, self.priority(key));
            }
            evictable
        });
        self.evictable.insert(evictable)
    }

    /// Removes a panel from the evictable ones.
    fn devalue(&mut self, key: Key) {
        if let Some(evictable) = &mut self.evictable {
            evictable.remove(key);
        }
    }
}

#[cfg(test)]
mod tests;
