//! Which panels are in memory: who holds them, who may have the next, which go to make room.
//!
//! Nothing here reads, allocates panels or waits: the [tier](super) does as the ledger decides.
//!
//! A stream takes the panels of its groups in order and holds them until each group is released. Its
//! *least set*, the most that one group needs, is reserved for it from its admission, first come,
//! first served; so whoever is admitted always gets its next group, and nobody waits for another to
//! give up what it waits for itself. Beyond its least set a stream holds only what nobody else waits for.
//!
//! A panel that nobody holds is kept until its room is needed. Those go first that no question
//! under way uses, then those that its question has done with, the last of them first: the next
//! question begins where this one began, so a fixed part that stays is worth more than the panels that
//! happened to come last. Masks outlast columns (to expand one costs more than to read one, and every
//! question has use for it), low limbs outlast high ones (short itemsets read only these).

use std::cmp::Reverse;
use std::collections::hash_map;
use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// A panel of any segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Part {
    /// The limb.
    pub limb: usize,
    /// The column; `None` for the mask.
    pub column: Option<u32>,
}

/// A panel of one segment, which has a number of its own among all of the tier.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Key {
    pub(super) segment: u64,
    pub(super) part: Part,
}

/// What a stream needs, group after group.
#[derive(Debug, Clone)]
pub(super) struct Plan {
    /// The number of each segment and the bytes of a panel of it.
    pub(super) segments: Vec<(u64, u64)>,
    /// What is read of each segment: at least one, in the order of the file.
    pub(super) parts: Vec<Part>,
    /// The segments of each group. They ascend, so a panel that two groups share is never given up
    /// between them.
    pub(super) groups: Vec<Range<usize>>,
}

impl Plan {
    /// The bytes of the panels that a group needs, at most.
    pub(super) fn least_set(&self) -> u64 {
        let panels = self.parts.len() as u64;
        let of_group = |group: &Range<usize>| {
            let bytes = self.segments[group.clone()].iter().map(|(_, bytes)| bytes);
            panels * bytes.sum::<u64>()
        };
        self.groups.iter().map(of_group).max().unwrap_or(0)
    }

    fn keys(&self, group: usize) -> impl Iterator<Item = Key> {
        self.segments[self.groups[group].clone()]
            .iter()
            .flat_map(|&(segment, _)| self.parts.iter().map(move |&part| Key { segment, part }))
    }

    /// The first and the last group that needs each segment.
    fn uses(&self) -> HashMap<u64, (usize, usize)> {
        let mut uses = HashMap::new();
        for (number, group) in self.groups.iter().enumerate() {
            for &(segment, _) in &self.segments[group.clone()] {
                uses.entry(segment).or_insert((number, number)).1 = number;
            }
        }
        uses
    }
}

/// When the questions under way need a panel again, from the least to the most urgent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Need {
    /// None of them has any use for it.
    None,
    /// In this question no more.
    Past,
    /// After so many groups.
    In(Reverse<usize>),
}

/// What an unheld panel is worth: the least goes first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Worth {
    need: Need,
    is_mask: bool,
    limb: Reverse<usize>,
    /// Of those without use the one used last is worth most, of the others the one used first.
    age: i64,
}

/// What the ledger has decided.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Action {
    /// A panel is to be given up, before anything is loaded.
    Drop(Key),
    /// There is room for a panel; somebody waits for it.
    Load(Key),
    /// All panels of a group of a stream are in memory.
    Arrived(StreamId, usize),
}

/// One stream, by the order of their openings.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct StreamId(u64);

/// What a stream has taken so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Reads {
    /// Bytes of panels as they are on disk.
    pub bytes: u64,
    /// Panels read from disk.
    pub panels: u64,
    /// Panels that were in memory, or on their way there for somebody else. Masks count as well.
    pub found: u64,
    /// Masks expanded from their seeds.
    pub masks: u64,
}

/// [`Reads`] as they are counted.
#[derive(Debug, Default)]
pub(super) struct ReadCounters {
    bytes: AtomicU64,
    panels: AtomicU64,
    found: AtomicU64,
    masks: AtomicU64,
}

impl ReadCounters {
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
    /// Streams that hold it.
    holders: u32,
    used: i64,
    phase: Phase,
}

#[derive(Debug)]
enum Phase {
    /// For a stream, and for the groups that wait for it.
    Loading {
        by: StreamId,
        waiting: Vec<(StreamId, usize)>,
    },
    Held,
    Kept(Worth),
}

#[derive(Debug)]
struct Stream {
    plan: Plan,
    uses: HashMap<u64, (usize, usize)>,
    reserved: u64,
    is_admitted: bool,
    /// The group being taken, and how many of its panels were.
    next: (usize, usize),
    held: HashMap<Key, Hold>,
    /// Groups that are being taken, or were and are not released: panels on their way.
    groups: BTreeMap<usize, u32>,
    /// Bytes of the panels held, of those among them that it loaded, and of those that are on their way.
    charge: u64,
    loaded: u64,
    loading: u64,
    reads: Arc<ReadCounters>,
}

#[derive(Debug, Clone, Copy)]
struct Hold {
    groups: u32,
    /// Loaded for this stream.
    is_loaded: bool,
}

impl Stream {
    fn next_key(&self) -> Option<(Key, u64)> {
        let (group, taken) = self.next;
        let segments = self.plan.groups.get(group)?.clone();
        let parts = self.plan.parts.len();
        let (segment, bytes) = self.plan.segments[segments.start + taken / parts];
        let part = self.plan.parts[taken % parts];
        Some((Key { segment, part }, bytes))
    }

    /// Goes past the panel that was taken; the group if it was the last and none is on its way.
    fn go_on(&mut self) -> Option<usize> {
        let (group, taken) = self.next;
        let panels = self.plan.groups[group].len() * self.plan.parts.len();
        self.next = match taken + 1 < panels {
            true => (group, taken + 1),
            false => (group + 1, 0),
        };
        (self.next.0 > group && self.groups[&group] == 0).then_some(group)
    }

    /// Has no group whose panels are all there: whoever counts has nothing to do.
    fn is_stalled(&self) -> bool {
        let is_there = |(&group, &missing): (&usize, &u32)| group < self.next.0 && missing == 0;
        !self.groups.iter().any(is_there)
    }

    /// When it needs a panel again; `None` if it never did.
    fn need(&self, key: Key) -> Option<Need> {
        let &(first, last) = self.uses.get(&key.segment)?;
        self.plan.parts.binary_search(&key.part).ok()?;
        Some(match last < self.next.0 {
            true => Need::Past,
            false => Need::In(Reverse(first.saturating_sub(self.next.0))),
        })
    }

    /// What of the budget is spoken for.
    fn committed(&self) -> u64 {
        self.reserved.max(self.charge)
    }
}

/// All panels in memory, all streams, and the budget.
#[derive(Debug)]
pub(super) struct Ledger {
    capacity: u64,
    /// Bytes that a stream may have on their way, and loaded beyond its least set.
    ahead: u64,
    /// Bytes of all entries.
    used: u64,
    entries: HashMap<Key, Entry>,
    kept: BTreeSet<(Worth, Key)>,
    streams: BTreeMap<StreamId, Stream>,
    /// Those that are not admitted yet.
    waiting: VecDeque<StreamId>,
    opened: u64,
    clock: i64,
}

impl Ledger {
    pub(super) fn new(capacity: u64, ahead: u64) -> Self {
        Self {
            capacity,
            ahead,
            used: 0,
            entries: HashMap::new(),
            kept: BTreeSet::new(),
            streams: BTreeMap::new(),
            waiting: VecDeque::new(),
            opened: 0,
            clock: 0,
        }
    }

    pub(super) fn capacity(&self) -> u64 {
        self.capacity
    }

    #[cfg(test)]
    pub(super) fn used(&self) -> u64 {
        self.used
    }

    #[cfg(test)]
    pub(super) fn streams(&self) -> usize {
        self.streams.len()
    }

    /// Opens a stream, which waits to be admitted, and says what counts its reads; `None` if its least
    /// set is beyond the budget.
    pub(super) fn open(&mut self, plan: Plan) -> Option<(StreamId, Arc<ReadCounters>)> {
        let reserved = plan.least_set();
        if reserved > self.capacity {
            return None;
        }
        let id = StreamId(self.opened);
        self.opened += 1;
        let stream = Stream {
            uses: plan.uses(),
            plan,
            reserved,
            is_admitted: false,
            next: (0, 0),
            held: HashMap::new(),
            groups: BTreeMap::new(),
            charge: 0,
            loaded: 0,
            loading: 0,
            reads: Arc::default(),
        };
        let reads = Arc::clone(&stream.reads);
        self.streams.insert(id, stream);
        self.waiting.push_back(id);
        self.appraise();
        Some((id, reads))
    }

    /// A stream needs a group no more.
    pub(super) fn release(&mut self, id: StreamId, group: usize) {
        let Some(stream) = self.streams.get_mut(&id) else {
            return;
        };
        if stream.groups.remove(&group).is_none() {
            return;
        }
        let mut unheld = Vec::new();
        for key in stream.plan.keys(group) {
            if let hash_map::Entry::Occupied(mut hold) = stream.held.entry(key) {
                hold.get_mut().groups -= 1;
                if hold.get().groups == 0 {
                    let bytes = self.entries[&key].bytes;
                    stream.charge -= bytes;
                    if hold.remove().is_loaded {
                        stream.loaded -= bytes;
                    }
                    unheld.push(key);
                }
            }
        }
        for key in unheld {
            self.let_go(id, key);
        }
    }

    /// A stream wants nothing any more; what it reserved and holds is free.
    pub(super) fn close(&mut self, id: StreamId) {
        self.waiting.retain(|&waiting| waiting != id);
        if let Some(stream) = self.streams.remove(&id) {
            for &key in stream.held.keys() {
                self.let_go(id, key);
            }
            self.appraise();
        }
    }

    /// A panel that was to be loaded is in memory, read from so many bytes of the disk if any. Returns
    /// the groups that are complete with it.
    pub(super) fn loaded(&mut self, key: Key, read: Option<u64>) -> Vec<Action> {
        let Some((by, waiting)) = self.end_loading(key) else {
            return Vec::new();
        };
        if let Some(stream) = self.streams.get_mut(&by) {
            match read {
                Some(bytes) => {
                    stream.reads.bytes.fetch_add(bytes, Ordering::Relaxed);
                    stream.reads.panels.fetch_add(1, Ordering::Relaxed);
                }
                None => {
                    stream.reads.masks.fetch_add(1, Ordering::Relaxed);
                }
            }
        }
        let mut arrived = Vec::new();
        for (id, group) in waiting {
            if let Some(stream) = self.streams.get_mut(&id)
                && let Some(missing) = stream.groups.get_mut(&group)
            {
                *missing -= 1;
                if *missing == 0 && group < stream.next.0 {
                    arrived.push(Action::Arrived(id, group));
                }
            }
        }
        if self.entries[&key].holders == 0 {
            self.keep(key);
        }
        arrived
    }

    /// A panel could not be loaded. The stream that it was loaded for is closed; for others that
    /// wait for it, it is to be loaded anew.
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
            self.close(victim);
        }
        if again.is_none() {
            self.forget(key);
        }
        (victim, again)
    }

    /// Whether nobody waits any more for a panel that was to be loaded; then it is forgotten.
    pub(super) fn abandon(&mut self, key: Key) -> bool {
        let is_abandoned = self.entries[&key].holders == 0;
        if is_abandoned {
            self.end_loading(key);
            self.forget(key);
        }
        is_abandoned
    }

    /// The panels of a segment that is gone. Those on their way are forgotten as they come.
    pub(super) fn forget_segment(&mut self, segment: u64) {
        let gone = self.entries.iter().filter(|(key, entry)| {
            key.segment == segment && !matches!(entry.phase, Phase::Loading { .. })
        });
        for key in gone.map(|(&key, _)| key).collect::<Vec<_>>() {
            self.forget(key);
        }
    }

    /// A panel that is not in memory any more, or never was.
    pub(super) fn forget(&mut self, key: Key) {
        if let Some(entry) = self.entries.remove(&key) {
            self.used -= entry.bytes;
            if let Phase::Kept(worth) = entry.phase {
                self.kept.remove(&(worth, key));
            }
        }
    }

    /// Admits streams and takes panels as far as there is room: what is to be done about that, in order.
    pub(super) fn advance(&mut self) -> Vec<Action> {
        let mut actions = Vec::new();
        self.admit();
        let ids: Vec<StreamId> = self.streams.keys().copied().collect();
        // A panel each, so that none has to wait until another has all that it may.
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
            let committed = self.committed();
            let stream = self.streams.get_mut(id).expect("it waits");
            if committed + stream.reserved > self.capacity {
                break;
            }
            stream.is_admitted = true;
            self.waiting.pop_front();
        }
    }

    fn committed(&self) -> u64 {
        let admitted = self.streams.values().filter(|stream| stream.is_admitted);
        admitted.map(Stream::committed).sum()
    }

    /// Takes the next panel for a stream, if it may have it now.
    fn take_next(&mut self, id: StreamId, actions: &mut Vec<Action>) -> bool {
        let stream = &self.streams[&id];
        let Some((key, bytes)) = stream.next_key().filter(|_| stream.is_admitted) else {
            return false;
        };
        let is_new = !stream.held.contains_key(&key);
        if is_new && !self.may_hold(stream, bytes) {
            return false;
        }
        let is_load = !self.entries.contains_key(&key);
        if is_load && !(self.may_load(stream, bytes) && self.make_room(id, bytes, actions)) {
            return false;
        }
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
        let group = stream.next.0;
        let missing = stream.groups.entry(group).or_insert(0);
        match &mut entry.phase {
            Phase::Loading { waiting, .. } => {
                waiting.push((id, group));
                *missing += 1;
            }
            Phase::Held => {}
            Phase::Kept(worth) => {
                self.kept.remove(&(*worth, key));
                entry.phase = Phase::Held;
            }
        }
        let hold = stream.held.entry(key).or_insert(Hold {
            groups: 0,
            is_loaded: is_load,
        });
        hold.groups += 1;
        if is_new {
            entry.holders += 1;
            stream.charge += bytes;
            match is_load {
                true => {
                    stream.loaded += bytes;
                    stream.loading += bytes;
                }
                false => {
                    stream.reads.found.fetch_add(1, Ordering::Relaxed);
                }
            }
        }
        if let Some(group) = stream.go_on() {
            actions.push(Action::Arrived(id, group));
        }
        true
    }

    /// Whether a stream may hold a panel more: one of its least set, or one that nobody else waits for.
    fn may_hold(&self, stream: &Stream, bytes: u64) -> bool {
        let charge = stream.charge + bytes;
        charge <= stream.reserved
            || (self.waiting.is_empty()
                && self.committed() - stream.committed() + charge <= self.capacity)
    }

    fn may_load(&self, stream: &Stream, bytes: u64) -> bool {
        let is_ahead = stream.loaded + bytes > stream.reserved + self.ahead;
        let is_deep = stream.loading + bytes > self.ahead && stream.loading > 0;
        !is_ahead && !is_deep
    }

    /// Gives up what is worth least until there is room; what is needed later only for a stream that
    /// could not go on otherwise.
    fn make_room(&mut self, id: StreamId, bytes: u64, actions: &mut Vec<Action>) -> bool {
        while self.used + bytes > self.capacity {
            let Some(&(worth, key)) = self.kept.first() else {
                return false;
            };
            if matches!(worth.need, Need::In(_)) && !self.streams[&id].is_stalled() {
                return false;
            }
            self.forget(key);
            actions.push(Action::Drop(key));
        }
        true
    }

    /// For whom a panel was loaded and who waits for it; it counts as held. `None` if nobody loads it.
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

    /// A stream holds a panel no more.
    fn let_go(&mut self, id: StreamId, key: Key) {
        let entry = self.entries.get_mut(&key).expect("it was held");
        entry.holders -= 1;
        if let Phase::Loading { waiting, .. } = &mut entry.phase {
            waiting.retain(|&(waiting, _)| waiting != id);
        } else if entry.holders == 0 {
            self.keep(key);
        }
    }

    fn keep(&mut self, key: Key) {
        let worth = self.worth(key);
        let entry = self.entries.get_mut(&key).expect("it is in memory");
        entry.phase = Phase::Kept(worth);
        self.kept.insert((worth, key));
    }

    fn worth(&self, key: Key) -> Worth {
        let needs = self.streams.values().filter_map(|stream| stream.need(key));
        let need = needs.max().unwrap_or(Need::None);
        let used = self.entries[&key].used;
        Worth {
            need,
            is_mask: key.part.column.is_none(),
            limb: Reverse(key.part.limb),
            age: match need {
                Need::None => used,
                _ => -used,
            },
        }
    }

    /// Values all that is kept anew: other questions are under way than before.
    fn appraise(&mut self) {
        let kept = std::mem::take(&mut self.kept);
        for (_, key) in kept {
            self.keep(key);
        }
    }
}

#[cfg(test)]
mod tests;
