//! Kept and evicted panels under given plans, and absence of starvation.

use super::*;
use oboro_ring::{Column, Factor, Limb};
use proptest::prelude::*;
use std::collections::HashSet;

const ALL: u64 = 1 << 40;

fn column(limb: usize, column: u32) -> PanelKey {
    PanelKey::new(Limb(limb), Column(column))
}

fn mask(limb: usize) -> PanelKey {
    PanelKey::new(Limb(limb), Factor::Mask)
}

/// Plans segments `from..to`, with panels of 10 bytes, and a unit for each segment and for each two adjacent ones.
fn plan(segments: Range<u64>, parts: &[PanelKey]) -> Plan {
    plan_in_runs(segments, vec![parts.to_vec()])
}

/// As [`plan`], with the units of each segment pass after pass.
fn plan_in_runs(segments: Range<u64>, passes: Vec<Vec<PanelKey>>) -> Plan {
    let count = (segments.end - segments.start) as usize;
    let mut units = Vec::new();
    for segment in 0..count {
        for pass in 0..passes.len() {
            for end in segment + 1..=count.min(segment + 2) {
                let segments = segment..end;
                units.push(WorkUnit { segments, pass });
            }
        }
    }
    Plan {
        segments: segments.map(|segment| (segment, 10)).collect(),
        passes,
        units,
    }
}

/// Ledger with the state that results from its actions, checked as they are taken.
struct Model {
    ledger: Ledger,
    there: HashSet<Key>,
    loading: Vec<Key>,
    /// Units that have arrived and are not released.
    arrived: Vec<(StreamId, usize)>,
    open: BTreeMap<StreamId, Plan>,
    /// Number of released units.
    done: BTreeMap<StreamId, usize>,
    /// Failed streams, some of which may be closed.
    failed: Vec<StreamId>,
    loads: usize,
}

impl Model {
    fn new(capacity: u64, ahead: u64) -> Self {
        Self {
            ledger: Ledger::new(capacity, ahead),
            there: HashSet::new(),
            loading: Vec::new(),
            arrived: Vec::new(),
            open: BTreeMap::new(),
            done: BTreeMap::new(),
            failed: Vec::new(),
            loads: 0,
        }
    }

    fn open(&mut self, plan: Plan) -> Option<StreamId> {
        let (id, _) = self.ledger.open(plan.clone())?;
        self.open.insert(id, plan);
        self.advance();
        Some(id)
    }

    fn advance(&mut self) {
        let actions = self.ledger.advance();
        self.note(actions);
        let held: u64 = self.ledger.entries.values().map(|entry| entry.bytes).sum();
        assert_eq!(held, self.ledger.used);
        assert!(held <= self.ledger.capacity, "the budget is kept");
        assert_eq!(
            self.ledger.entries.len(),
            self.there.len() + self.loading.len()
        );
    }

    fn note(&mut self, actions: Vec<Action>) {
        for action in actions {
            match action {
                Action::Evict(key) => {
                    assert!(self.there.remove(&key), "what is dropped was there");
                    for (id, unit) in &self.arrived {
                        let mut keys = self.open[id].keys(*unit);
                        assert!(keys.all(|held| held != key), "held panels stay");
                    }
                }
                Action::Load(key) => {
                    assert!(!self.there.contains(&key) && !self.loading.contains(&key));
                    self.loading.push(key);
                    self.loads += 1;
                }
                Action::Arrived(id, unit) => {
                    let mut keys = self.open[&id].keys(unit);
                    assert!(
                        keys.all(|key| self.there.contains(&key)),
                        "all of it is there"
                    );
                    self.arrived.push((id, unit));
                }
            }
        }
    }

    fn load(&mut self, which: usize) {
        let key = self.loading.remove(which);
        self.there.insert(key);
        let arrived = self.ledger.loaded(key, Some(7));
        self.note(arrived);
        self.advance();
    }

    /// Reads the next panel in the queue, if a stream still waits for it.
    fn turn(&mut self, which: usize) {
        if self.ledger.abandon(self.loading[which]) {
            self.loading.swap_remove(which);
            self.advance();
        } else {
            self.load(which)
        }
    }

    fn fail(&mut self, which: usize) {
        let key = self.loading.remove(which);
        let (victim, again) = self.ledger.failed(key);
        self.note(again.into_iter().collect());
        self.advance();
        self.failed.extend(victim);
    }

    fn kept(&self) -> usize {
        let is_kept = |entry: &&Entry| matches!(entry.phase, Phase::Kept);
        self.ledger.entries.values().filter(is_kept).count()
    }

    fn close_failed(&mut self) {
        for id in std::mem::take(&mut self.failed) {
            self.close(id);
        }
    }

    fn release(&mut self, which: usize) {
        let (id, unit) = self.arrived.remove(which);
        *self.done.entry(id).or_default() += 1;
        self.ledger.release(id, unit);
        if self.done[&id] == self.open[&id].units.len() {
            self.close(id)
        } else {
            self.advance()
        }
    }

    fn close(&mut self, id: StreamId) {
        self.arrived.retain(|&(other, _)| other != id);
        self.open.remove(&id);
        self.ledger.close(id);
        self.advance();
    }

    /// Loads and releases, the earliest first, until nothing moves; returns the number of panels loaded since the last
    /// call.
    fn run(&mut self) -> usize {
        let all: Vec<StreamId> = self.open.keys().copied().collect();
        self.serve(&all);
        assert!(self.open.is_empty(), "everybody was served");
        std::mem::take(&mut self.loads)
    }

    /// As [`run`](Self::run), but only some streams release their units.
    fn serve(&mut self, some: &[StreamId]) {
        loop {
            if !self.loading.is_empty() {
                self.load(0);
            } else if let Some(which) = self.arrived.iter().position(|(id, _)| some.contains(id)) {
                self.release(which);
            } else {
                break;
            }
        }
    }
}

#[test]
fn what_fits_is_loaded_once() {
    let mut model = Model::new(240, 40);
    let plan = plan(
        0..4,
        &[
            mask(0),
            column(0, 0),
            column(0, 1),
            mask(1),
            column(1, 0),
            column(1, 1),
        ],
    );
    for loads in [24, 0, 0] {
        model.open(plan.clone()).unwrap();
        assert_eq!(model.run(), loads);
    }
}

#[test]
fn nothing_is_valued_before_something_has_to_go() {
    let mut model = Model::new(80, 1000);
    for _ in 0..2 {
        model.open(plan(0..4, &[column(0, 0), mask(0)])).unwrap();
        model.run();
        assert!(model.ledger.evictable.is_none());
    }
    // One panel more than the budget holds.
    model.open(plan(4..5, &[column(0, 0)])).unwrap();
    assert!(model.ledger.evictable.is_some());
    assert_eq!(model.run(), 1);
    // Priorities are different now.
    assert!(model.ledger.evictable.is_none());
    assert_eq!(model.kept(), 8);
}

#[test]
fn a_panel_is_read_once_in_a_run_however_many_units_share_it() {
    // Exactly two segments of three panels.
    let mut model = Model::new(60, 10);
    model
        .open(plan(0..9, &[mask(0), column(0, 0), column(0, 1)]))
        .unwrap();
    assert_eq!(model.run(), 27);
}

#[test]
fn a_part_of_what_does_not_fit_stays_for_the_next_question() {
    let mut model = Model::new(150, 20);
    let plan = plan(0..30, &[column(0, 0)]);
    let loads = |model: &mut Model| {
        model.open(plan.clone()).unwrap();
        model.run()
    };
    assert_eq!(loads(&mut model), 30);
    // Where the next query starts.
    let panel = column(0, 0);
    assert!((0..10).all(|segment| model.there.contains(&Key { segment, panel })));
    // With LRU, a cyclic scan of 30 panels with a budget of 15 would never hit.
    for _ in 0..5 {
        let loads = loads(&mut model);
        assert!((15..=19).contains(&loads), "{loads}");
    }
}

#[test]
fn what_no_question_uses_goes_first() {
    let mut model = Model::new(120, 100);
    model
        .open(plan(
            0..2,
            &[column(0, 0), column(0, 1), column(1, 0), column(1, 1)],
        ))
        .unwrap();
    model.run();
    // Column 1 is not frequent; another dataset needs the bytes of six panels.
    model
        .open(plan(0..2, &[column(0, 0), column(1, 0)]))
        .unwrap();
    model
        .open(plan(
            7..9,
            &[column(0, 5), column(0, 6), column(0, 7), column(0, 8)],
        ))
        .unwrap();
    let of_column = |model: &Model, wanted: PanelKey| {
        model.there.iter().filter(|key| key.panel == wanted).count()
    };
    assert_eq!(
        of_column(&model, column(0, 1)) + of_column(&model, column(1, 1)),
        0
    );
    assert_eq!(
        of_column(&model, column(0, 0)) + of_column(&model, column(1, 0)),
        4
    );
    model.run();
}

#[test]
fn masks_and_low_limbs_outlast_the_others() {
    let mut model = Model::new(80, 80);
    let parts = [mask(0), column(0, 0), mask(1), column(1, 0)];
    model.open(plan(0..2, &parts)).unwrap();
    model.run();
    let mut gone = Vec::new();
    for segment in [5, 6, 7] {
        model
            .open(plan(segment..segment + 1, &[column(0, 0), column(0, 1)]))
            .unwrap();
        model.run();
        let is_there =
            |panel: PanelKey| (0..2).all(|segment| model.there.contains(&Key { segment, panel }));
        gone.push(parts.map(|panel| !is_there(panel)));
    }
    assert_eq!(gone[0], [false, false, false, true]);
    assert!(gone.iter().all(|gone| !gone[0] && !gone[2]), "{gone:?}");
}

#[test]
fn streams_are_admitted_first_come_first_served() {
    let mut model = Model::new(100, 10);
    let first = model
        .open(plan(0..4, &[column(0, 0), column(0, 1), column(0, 2)]))
        .unwrap();
    let large = model
        .open(plan(10..12, &[column(0, 0), column(0, 1), column(0, 2)]))
        .unwrap();
    let small = model.open(plan(20..21, &[column(0, 0)])).unwrap();
    let admitted = |model: &Model| {
        [first, large, small].map(|id| {
            model
                .ledger
                .streams
                .get(&id)
                .map(|stream| stream.is_admitted)
        })
    };
    // The last one would fit, but may not overtake the previous one.
    assert_eq!(admitted(&model), [Some(true), Some(false), Some(false)]);
    model.close(first);
    assert_eq!(admitted(&model), [None, Some(true), Some(true)]);
    model.run();
}

#[test]
fn whoever_waits_is_let_in_before_others_go_far_ahead() {
    let mut model = Model::new(150, ALL);
    let first = model.open(plan(0..30, &[column(0, 0)])).unwrap();
    while !model.loading.is_empty() {
        model.load(0);
    }
    // The budget is exhausted.
    let parts = [column(0, 0), column(0, 1), column(0, 2)];
    let second = model.open(plan(40..42, &parts)).unwrap();
    while !model.ledger.streams[&second].is_admitted {
        model.release(0);
    }
    assert!(model.done[&first] < 20, "{:?}", model.done);
    model.run();
}

#[test]
fn a_plan_beyond_the_budget_is_refused() {
    let mut model = Model::new(39, ALL);
    assert!(
        model
            .open(plan(0..2, &[column(0, 0), column(0, 1)]))
            .is_none()
    );
    assert!(
        model
            .open(plan(0..1, &[column(0, 0), column(0, 1)]))
            .is_some()
    );
}

#[test]
fn a_failed_load_ends_one_stream_and_is_tried_for_the_next() {
    let mut model = Model::new(100, 50);
    let ids = [(); 2].map(|()| model.open(plan(0..1, &[column(0, 0)])).unwrap());
    let [key] = model.loading[..] else {
        panic!("one load serves both")
    };
    assert_eq!(
        model.ledger.failed(key),
        (Some(ids[0]), Some(Action::Load(key)))
    );
    assert_eq!(model.ledger.failed(key), (Some(ids[1]), None));
    assert!(model.ledger.entries.is_empty() && model.ledger.advance().is_empty());
    for id in ids {
        model.ledger.close(id);
    }
    assert!(model.ledger.streams.is_empty());
    assert_eq!(model.ledger.used, 0);
}

#[test]
fn a_stream_that_has_failed_holds_what_has_arrived_and_takes_nothing_more() {
    let mut model = Model::new(60, 60);
    let plan = plan(0..3, &[column(0, 0), column(0, 1)]);
    let first = model.open(plan.clone()).unwrap();
    for _ in 0..2 {
        model.load(0);
    }
    assert_eq!(model.arrived, [(first, 0)]);
    let failed = model.loading.remove(0);
    assert_eq!(model.ledger.failed(failed), (Some(first), None));
    model.advance();
    while !model.loading.is_empty() {
        model.load(0);
    }
    assert!(model.arrived.contains(&(first, 0)), "it stays");
    // Others get all that it does not hold.
    model
        .open(self::plan(5..7, &[column(0, 0), column(0, 1)]))
        .unwrap();
    let held = |model: &Model| {
        (0..2).all(|c| {
            let panel = column(0, c);
            model.there.contains(&Key { segment: 0, panel })
        })
    };
    while !model.loading.is_empty() {
        model.load(0);
    }
    assert!(held(&model) && model.arrived.len() > 1);
    model.close(first);
    model.run();
}

#[test]
fn what_is_not_being_read_yet_for_a_stream_that_has_failed_is_not() {
    let mut model = Model::new(80, 80);
    let failed = model
        .open(plan(0..2, &[column(0, 0), column(0, 1)]))
        .unwrap();
    model.open(plan(1..2, &[column(0, 1)])).unwrap();
    assert_eq!(model.loading.len(), 4);
    model.fail(0);
    while !model.loading.is_empty() {
        model.turn(0);
    }
    let panel = column(0, 1);
    assert_eq!(model.there, HashSet::from([Key { segment: 1, panel }]));
    assert_eq!(model.ledger.used, 10);
    model.close(failed);
    model.run();
}

#[test]
fn rows_stay_while_strips_go_by() {
    // A row of four columns with one strip after another, then the next row.
    let row = |first: u32| first..first + 4;
    let pass = |row: Range<u32>, strip: u32| {
        row.chain([strip])
            .collect::<BTreeSet<_>>()
            .into_iter()
            .map(|c| column(0, c))
            .collect()
    };
    let passes: Vec<Vec<PanelKey>> = [0, 4, 8]
        .into_iter()
        .flat_map(|first| {
            (first + 4..16)
                .rev()
                .map(move |strip| pass(row(first), strip))
        })
        .collect();
    let mut model = Model::new(70, ALL);
    model.open(plan_in_runs(0..1, passes)).unwrap();
    // With two strips more than a row and a strip: the last strips begin the next row.
    let loads = model.run();
    assert!(loads <= 16 + (2 + 8) + (2 + 4), "{loads}");
}

#[test]
fn a_trickling_stream_does_not_starve_another() {
    let mut model = Model::new(400, 20);
    let everything = plan(0..40, &[column(0, 0)]);
    model.open(everything.clone()).unwrap();
    model.run();
    // Everything is in memory and available; then its caller reads nothing.
    let slow = model.open(everything).unwrap();
    assert!(model.arrived.len() > 20, "{:?}", model.arrived);
    let others: Vec<StreamId> = (0..2)
        .map(|i| {
            let parts: Vec<PanelKey> = (0..4).map(|c| column(0, c)).collect();
            model.open(plan(50 + 2 * i..52 + 2 * i, &parts)).unwrap()
        })
        .collect();
    model.serve(&others);
    assert_eq!(model.open.keys().copied().collect::<Vec<_>>(), [slow]);
    model.run();
}

#[test]
fn what_is_given_up_is_worth_least_and_held_by_nobody() {
    let mut model = Model::new(100, 50);
    model
        .open(plan(0..2, &[mask(0), column(0, 0), column(1, 0)]))
        .unwrap();
    model.run();
    let id = model.open(plan(0..1, &[mask(0), column(0, 0)])).unwrap();
    let evicted = model.ledger.evict(15);
    let [Action::Evict(first), Action::Evict(second)] = evicted[..] else {
        panic!("{evicted:?}")
    };
    assert_eq!([first.panel, second.panel], [column(1, 0); 2]);
    model.note(evicted);
    let rest = model.ledger.evict(ALL);
    assert_eq!(rest.len(), 2);
    model.note(rest);
    assert_eq!(model.ledger.evict(1), []);
    assert_eq!(model.ledger.used(), 20);
    model.close(id);
}

#[test]
fn what_was_ordered_for_a_stream_that_is_gone_is_kept() {
    let mut model = Model::new(100, 50);
    let id = model.open(plan(0..2, &[column(0, 0)])).unwrap();
    model.close(id);
    while !model.loading.is_empty() {
        model.load(0);
    }
    assert_eq!(model.kept(), 2);
    model.ledger.forget_segment(0);
    model.ledger.forget_segment(1);
    assert_eq!((model.ledger.used, model.kept()), (0, 0));
}

#[test]
fn what_is_not_being_read_yet_for_a_stream_that_is_gone_makes_room() {
    let mut model = Model::new(40, 50);
    let parts = [column(0, 0), column(0, 1)];
    let gone = model.open(plan(0..2, &parts)).unwrap();
    model.open(plan(1..3, &parts)).unwrap();
    assert_eq!(model.loading.len(), 4);
    model.close(gone);
    let before = model.loads;
    while !model.loading.is_empty() {
        model.turn(0);
    }
    // The panels of segment 1 have a new owner; those of segment 0 were evicted for segment 2.
    assert_eq!(model.loads - before, 2);
    let segments: HashSet<u64> = model.there.iter().map(|key| key.segment).collect();
    assert_eq!(segments, HashSet::from([1, 2]));
    model.run();
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    /// Any streams, in any order of events and departures: the remaining ones get all they need.
    #[test]
    fn every_stream_is_served_within_the_budget(
        plans in prop::collection::vec((0u64..4, 1u64..8, prop::collection::vec(
            prop::collection::btree_set((0usize..2, prop::option::of(0u32..4)), 1..6), 1..4)), 1..6),
        slack in 0u64..200,
        ahead in 0u64..80,
        choices in prop::collection::vec((0u8..20, any::<prop::sample::Index>()), 0..400),
    ) {
        let plans: Vec<Plan> = plans.into_iter().map(|(first, count, passes)| {
            let parts = |pass: BTreeSet<_>| pass.into_iter().map(|(limb, number)| match number {
                Some(number) => column(limb, number),
                None => mask(limb),
            }).collect();
            plan_in_runs(first..first + count, passes.into_iter().map(parts).collect())
        }).collect();
        let capacity = plans.iter().map(Plan::least_set).max().unwrap() + slack;
        let mut model = Model::new(capacity, ahead);
        let mut to_open = plans.into_iter();
        for (choice, which) in choices {
            match choice {
                0 => if let Some(plan) = to_open.next() { model.open(plan).unwrap(); },
                1 if !model.open.is_empty() => {
                    let ids: Vec<StreamId> = model.open.keys().copied().collect();
                    model.close(*which.get(&ids));
                }
                2 if !model.loading.is_empty() => model.fail(which.index(model.loading.len())),
                3..7 if !model.loading.is_empty() => model.load(which.index(model.loading.len())),
                7..12 if !model.loading.is_empty() => model.turn(which.index(model.loading.len())),
                _ if !model.arrived.is_empty() => model.release(which.index(model.arrived.len())),
                _ => {}
            }
        }
        for plan in to_open {
            model.open(plan).unwrap();
        }
        model.close_failed();
        model.run();
        prop_assert_eq!(model.ledger.streams.len(), 0);
        prop_assert_eq!(model.ledger.reserved() + model.ledger.beyond(), 0);
        prop_assert_eq!(model.kept(), model.there.len());
    }
}
