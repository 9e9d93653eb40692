//! Units of one job: which are ready, and on which node.
//!
//! A unit is the part of a job that is in memory at a time: some panels, most of them on one node, its home. It has
//! parts, on which any number of threads work concurrently. A thread takes units of its own node first, in order. It
//! claims all parts of one before the next: they read a panel while it is cached. If its node has none, it steals from
//! the nearest node that has.

use crate::queue::Signal;
use oboro_arena::Distances;
use oboro_residency::{Arrival, ResidencyError};
use parking_lot::Mutex;
use std::collections::VecDeque;
use std::sync::OnceLock;

/// Part of a unit, claimed by one thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Claim {
    /// Unit.
    pub unit: usize,
    /// Part of the unit, from 0; parts are claimed in order.
    pub part: usize,
}

/// Counters of claims.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counters {
    /// Parts claimed by a thread on the node of their panels.
    pub at_home: u64,
    /// Parts claimed by another node.
    pub stolen: u64,
    /// Parts stolen by a node that had a ready unit itself: 0, unless this module is broken.
    pub stolen_needlessly: u64,
}

/// Callback for when a unit may have become ready.
type OnReady = Box<dyn Fn() + Send + Sync>;

/// Units of a job. Any thread may claim.
pub struct Units {
    distances: Distances,
    state: Mutex<State>,
    pub(crate) signal: Signal,
    on_ready: OnceLock<OnReady>,
}

struct State {
    /// Ready units with parts to claim, by home.
    ready: Vec<VecDeque<usize>>,
    units: Box<[UnitState]>,
    /// Number of units with parts to claim, ready or not.
    open: usize,
    is_stopped: bool,
    failure: Option<ResidencyError>,
    counters: Counters,
}

#[derive(Clone, Copy)]
struct UnitState {
    home: usize,
    parts: u32,
    claimed: u32,
    is_here: bool,
}

impl Units {
    /// Makes units by home and number of parts, at least one, on nodes with these distances. Units without a home are
    /// dealt to the nodes round-robin. They are ready at once if everything is `resident`, and otherwise when they
    /// [arrive](Self::take).
    ///
    /// # Panics
    ///
    /// If a home is not one of the nodes.
    pub fn new(
        distances: &Distances,
        units: impl IntoIterator<Item = (Option<usize>, usize)>,
        resident: bool,
    ) -> Self {
        let nodes = distances.nodes();
        let unit = |(number, (home, parts)): (usize, (Option<usize>, usize))| {
            let home = home.unwrap_or(number % nodes);
            assert!(home < nodes, "the home of a unit is one of {nodes} nodes");
            UnitState {
                home,
                parts: parts as u32,
                claimed: 0,
                is_here: resident,
            }
        };
        let units: Box<[UnitState]> = units.into_iter().enumerate().map(unit).collect();
        let mut ready = vec![VecDeque::new(); nodes];
        for (number, unit) in units.iter().enumerate().filter(|_| resident) {
            ready[unit.home].push_back(number);
        }
        Self {
            distances: distances.clone(),
            state: Mutex::new(State {
                ready,
                open: units.len(),
                units,
                is_stopped: false,
                failure: None,
                counters: Counters::default(),
            }),
            signal: Signal::default(),
            on_ready: OnceLock::new(),
        }
    }

    /// Claims the next part for a thread on `node`; `None` if no unit is ready, or if the units were stopped.
    ///
    /// # Panics
    /// If the node does not exist.
    pub fn claim(&self, node: usize) -> Option<Claim> {
        self.state
            .lock()
            .claim(node, self.distances.nearest_first(node))
    }

    /// Handles an event of the stream of panels.
    pub fn take(&self, arrival: Arrival) {
        let mut state = self.state.lock();
        match arrival {
            Arrival::Unit(unit) => state.arrived(unit),
            Arrival::Failed(error) => {
                state.failure = Some(error);
                state.is_stopped = true;
            }
        }
        drop(state);
        self.signal.wake_all();
        if let Some(on_ready) = self.on_ready.get() {
            on_ready();
        }
    }

    /// Registers `on_ready`, called whenever a unit may have become ready, and once now. Later calls keep the first
    /// callback.
    pub fn on_ready(&self, on_ready: impl Fn() + Send + Sync + 'static) {
        self.on_ready.get_or_init(|| Box::new(on_ready))();
    }

    /// Takes the error that keeps panels away, unless it was reported before.
    pub fn take_failure(&self) -> Option<ResidencyError> {
        self.state.lock().failure.take()
    }

    /// Returns true if a thread of any node could claim now, or a failure is pending.
    pub fn has_ready(&self) -> bool {
        let state = self.state.lock();
        let has_ready = state.ready.iter().any(|ready| !ready.is_empty());
        (has_ready && !state.is_stopped) || state.failure.is_some()
    }

    /// Returns true if nothing is left to claim, now or later.
    pub fn is_exhausted(&self) -> bool {
        let state = self.state.lock();
        state.is_stopped || state.open == 0
    }

    /// Stops the job: nothing further is claimed.
    pub fn stop(&self) {
        self.state.lock().is_stopped = true;
        self.signal.wake_all();
    }

    /// The counters so far.
    pub fn counters(&self) -> Counters {
        self.state.lock().counters
    }
}

impl State {
    fn claim(&mut self, node: usize, nearest_first: &[usize]) -> Option<Claim> {
        if self.is_stopped {
            return None;
        }
        let mut found = nearest_first.iter();
        let (home, unit) = found.find_map(|&home| Some((home, *self.ready[home].front()?)))?;
        if home == node {
            self.counters.at_home += 1;
        } else {
            self.counters.stolen += 1;
            self.counters.stolen_needlessly += u64::from(!self.ready[node].is_empty());
        }
        let UnitState { parts, claimed, .. } = &mut self.units[unit];
        let part = *claimed as usize;
        *claimed += 1;
        if claimed == parts {
            self.ready[home].pop_front();
            self.open -= 1;
        }
        Some(Claim { unit, part })
    }

    fn arrived(&mut self, number: usize) {
        let unit = &mut self.units[number];
        if !std::mem::replace(&mut unit.is_here, true) {
            self.ready[unit.home].push_back(number);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::thread;

    /// Three nodes in a line.
    fn line() -> Distances {
        let row = |a: usize| {
            (0..3)
                .map(|b: usize| 10 + 10 * a.abs_diff(b) as u32)
                .collect()
        };
        Distances::new((0..3).map(row).collect()).unwrap()
    }

    fn claims(units: &Units, node: usize) -> Vec<(usize, usize)> {
        let claims = std::iter::from_fn(|| units.claim(node));
        claims.map(|claim| (claim.unit, claim.part)).collect()
    }

    #[test]
    fn a_node_takes_its_own_units_first_then_those_of_the_nearest() {
        let homes = [2, 0, 1, 0].map(|home| (Some(home), 2));
        let units = Units::new(&line(), homes, true);
        let order = [1, 3, 2, 0]
            .into_iter()
            .flat_map(|unit| [(unit, 0), (unit, 1)]);
        assert_eq!(claims(&units, 0), Vec::from_iter(order));
        assert!(units.is_exhausted() && !units.has_ready());
        let counters = Counters {
            at_home: 4,
            stolen: 4,
            stolen_needlessly: 0,
        };
        assert_eq!(units.counters(), counters);
    }

    #[test]
    fn units_without_a_home_are_dealt_in_turn() {
        let units = Units::new(&line(), [(None, 1); 6], true);
        let first = [0, 1, 2].map(|node| units.claim(node).unwrap().unit);
        assert_eq!(first, [0, 1, 2]);
        assert_eq!(units.claim(1).unwrap().unit, 4);
    }

    #[test]
    fn units_are_ready_once_they_arrive() {
        let units = Units::new(&line(), [(Some(0), 1), (Some(0), 2)], false);
        assert_eq!(units.claim(0), None);
        assert!(!units.has_ready() && !units.is_exhausted());
        for _ in 0..2 {
            units.take(Arrival::Unit(1));
        }
        assert!(units.has_ready());
        assert_eq!(claims(&units, 0), [(1, 0), (1, 1)]);
        assert!(!units.is_exhausted());
        units.take(Arrival::Unit(1));
        assert_eq!(units.claim(0), None);
        units.take(Arrival::Unit(0));
        assert_eq!(claims(&units, 2), [(0, 0)]);
        assert!(units.is_exhausted());
    }

    #[test]
    fn after_a_stop_nothing_is_claimed() {
        let units = Units::new(&line(), [(Some(0), 1)], true);
        units.stop();
        assert!(units.claim(0).is_none() && units.is_exhausted() && !units.has_ready());
    }

    #[test]
    fn who_sleeps_is_woken_by_an_arrival() {
        let units = Units::new(&line(), [(Some(0), 1)], false);
        thread::scope(|scope| {
            let sleeper = scope.spawn(|| {
                loop {
                    let seen = units.signal.now();
                    match units.claim(0) {
                        Some(claim) => return claim,
                        None => units.signal.wait(seen),
                    }
                }
            });
            units.take(Arrival::Unit(0));
            assert_eq!(sleeper.join().unwrap(), Claim { unit: 0, part: 0 });
        });
    }
}
