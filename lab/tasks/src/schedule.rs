//! Assigns tasks to threads.
//!
//! A task becomes ready when its last input is available, and is then queued on its home, the node with the most bytes
//! of its inputs. A node takes its own ready tasks first and, when it has none, those of the nearest other node. All
//! methods hold a lock for about a microsecond; tasks should be far longer.

use crate::graph::{Dag, Datum, Graph, Origin, Task};
use crate::queue::{Order, Queue};
use oboro_arena::Distances;
use std::sync::{Condvar, Mutex, MutexGuard};

/// A task, or a part of one, for one thread to run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Claim {
    /// The task.
    pub task: Task,
    /// The index of the part, from 0; they are claimed in order.
    pub part: u32,
    /// The node with the most bytes of its inputs.
    pub home: usize,
    /// The inputs on nodes other than the one that claimed, ascending.
    pub remote: Vec<Datum>,
}

/// Statistics of claims.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Counters {
    /// `read[a][b]`: bytes of inputs on node `b` that were read by tasks on node `a`. Inputs without a home are not
    /// counted.
    pub read: Vec<Vec<u64>>,
    /// Tasks that ran on their home, with each part counted.
    pub at_home: u64,
    /// Tasks that ran on another node.
    pub stolen: u64,
    /// Tasks that a node stole although it had a ready one itself: always 0, unless this crate has a bug.
    pub stolen_needlessly: u64,
}

/// The state of a graph's tasks. Any thread may claim and complete.
#[derive(Debug)]
pub struct Schedule {
    dag: Dag,
    distances: Distances,
    state: Mutex<State>,
    /// Signalled when tasks become ready, or when the last one is claimed.
    changed: Condvar,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// For this many inputs.
    Waiting { missing: u32 },
    /// This many of its parts are claimed, and this many of these done.
    Open { claimed: u32, done: u32 },
}

impl Phase {
    const OPEN: Self = Self::Open {
        claimed: 0,
        done: 0,
    };

    /// Whether one of `parts` parts can be claimed.
    fn is_ready(self, parts: u32) -> bool {
        matches!(self, Self::Open { claimed, .. } if claimed < parts)
    }

    /// Claims a part; returns its index.
    fn claim(&mut self) -> u32 {
        let Self::Open { claimed, .. } = self else {
            unreachable!("a task in a queue waits for nothing");
        };
        *claimed += 1;
        *claimed - 1
    }

    /// A claimed part is done; returns how many are.
    fn complete(&mut self) -> u32 {
        match self {
            Self::Open { claimed, done } if *done < *claimed => {
                *done += 1;
                *done
            }
            _ => panic!("only a claimed task can be done"),
        }
    }
}

#[derive(Debug, Clone, Copy)]
struct InputState {
    home: Option<usize>,
    is_there: bool,
}

#[derive(Debug)]
struct State {
    places: Vec<InputState>,
    phases: Vec<Phase>,
    /// One per node.
    queues: Vec<Queue>,
    /// For each datum and node: how many ready tasks with this home read it.
    wanted: Vec<u32>,
    /// For one task, the bytes of its inputs on each node.
    bytes_on: Vec<u64>,
    /// Tasks with all parts claimed.
    claimed: usize,
    /// Tasks with all parts done.
    done: usize,
    is_stopped: bool,
    /// Threads that sleep. Without any, signalling is skipped: it would be a system call.
    sleeping: usize,
    counters: Counters,
}

impl Schedule {
    /// The schedule of `graph` on as many nodes as there are distances.
    ///
    /// # Panics
    /// If an input's home is not one of the nodes.
    pub fn new(graph: Graph, distances: Distances, order: Order) -> Self {
        let nodes = distances.nodes();
        let places: Vec<InputState> = graph
            .data()
            .map(|datum| match graph.origin(datum) {
                Origin::Resident { home } => InputState {
                    home,
                    is_there: true,
                },
                Origin::Arriving { home } => InputState {
                    home,
                    is_there: false,
                },
                Origin::Made => InputState {
                    home: None,
                    is_there: false,
                },
            })
            .collect();
        assert!(
            places.iter().all(|place| place.home < Some(nodes)),
            "the home of an input is one of {nodes} nodes"
        );
        let mut state = State {
            phases: Vec::with_capacity(graph.task_count()),
            queues: (0..nodes).map(|_| Queue::new(order)).collect(),
            wanted: vec![0; nodes * places.len()],
            bytes_on: vec![0; nodes],
            places,
            claimed: 0,
            done: 0,
            is_stopped: false,
            sleeping: 0,
            counters: Counters {
                read: vec![vec![0; nodes]; nodes],
                ..Counters::default()
            },
        };
        let dag = Dag::new(graph);
        for task in dag.tasks() {
            let missing = |datum: &&Datum| !state.places[datum.index()].is_there;
            let missing = dag.inputs(task).iter().filter(missing).count() as u32;
            state.phases.push(Phase::Waiting { missing });
            if missing == 0 {
                state.make_ready(&dag, task);
            }
        }
        Self {
            dag,
            distances,
            state: Mutex::new(state),
            changed: Condvar::new(),
        }
    }

    /// The tasks and data that are scheduled.
    pub fn graph(&self) -> &Graph {
        &self.dag
    }

    /// The number of nodes.
    pub fn nodes(&self) -> usize {
        self.distances.nodes()
    }

    /// Takes the next task for a thread on `node`: one of the node's own, or else one of the nearest node
    /// that has any. `None` if no task is ready, or if the schedule was stopped.
    ///
    /// # Panics
    /// If there is no such node.
    pub fn claim(&self, node: usize) -> Option<Claim> {
        self.claim_from(&mut self.lock(), node)
    }

    /// As [`claim`](Self::claim), but sleeps while no task is ready. `None` if nothing is left to claim.
    ///
    /// # Panics
    /// As [`claim`](Self::claim).
    pub fn claim_or_wait(&self, node: usize) -> Option<Claim> {
        let mut state = self.lock();
        loop {
            if let Some(claim) = self.claim_from(&mut state, node) {
                return Some(claim);
            }
            if state.is_exhausted() {
                return None;
            }
            state.sleeping += 1;
            state = self.changed.wait(state).expect(UNPOISONED);
            state.sleeping -= 1;
        }
    }

    /// Marks a claimed task, or a part of it, as done; it ran on `node`, where its output is.
    ///
    /// # Panics
    /// If the task is not claimed, or is done already.
    pub fn complete(&self, task: Task, node: usize) {
        let mut state = self.lock();
        if !state.complete(task, self.dag.parts(task)) {
            return;
        }
        if let Some(output) = self.dag.output(task) {
            state.places[output.index()].home = Some(node);
            let ready = state.provide(&self.dag, output);
            self.wake(&state, ready);
        }
    }

    /// Marks an input as in memory. Repeated calls have no effect.
    ///
    /// # Panics
    /// If the datum is the output of a task.
    pub fn arrived(&self, input: Datum) {
        assert_ne!(
            self.dag.origin(input),
            Origin::Made,
            "an output is there when its task is complete"
        );
        let mut state = self.lock();
        if !state.places[input.index()].is_there {
            let ready = state.provide(&self.dag, input);
            self.wake(&state, ready);
        }
    }

    /// Whether a thread of any node could claim a task now.
    pub fn has_ready(&self) -> bool {
        let state = self.lock();
        !state.is_stopped && state.queues.iter().any(|queue| !queue.is_empty())
    }

    /// Whether nothing is left to claim, now or later: all tasks are claimed, or the schedule was stopped.
    pub fn is_exhausted(&self) -> bool {
        self.lock().is_exhausted()
    }

    /// Whether all tasks are complete.
    pub fn is_done(&self) -> bool {
        self.lock().done == self.dag.task_count()
    }

    /// Stops claims; tasks in progress may be completed.
    pub fn stop(&self) {
        self.lock().is_stopped = true;
        self.changed.notify_all();
    }

    /// Statistics of the claims so far.
    pub fn counters(&self) -> Counters {
        self.lock().counters.clone()
    }

    /// Whether a ready task whose home is `node` reads the datum.
    pub(crate) fn is_wanted(&self, datum: Datum, node: usize) -> bool {
        self.lock().wanted[datum.index() * self.nodes() + node] > 0
    }

    fn claim_from(&self, state: &mut State, node: usize) -> Option<Claim> {
        let nearest_first = self.distances.nearest_first(node);
        let claim = state.claim(&self.dag, node, nearest_first)?;
        if state.is_exhausted() && state.sleeping > 0 {
            self.changed.notify_all();
        }
        Some(claim)
    }

    /// Wakes sleepers for new ready tasks, with each part counted.
    fn wake(&self, state: &State, ready: usize) {
        match ready.min(state.sleeping) {
            0 => {}
            1 => self.changed.notify_one(),
            _ => self.changed.notify_all(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect(UNPOISONED)
    }
}

const UNPOISONED: &str = "no thread panics with the lock";

impl State {
    fn is_exhausted(&self) -> bool {
        self.is_stopped || self.claimed == self.phases.len()
    }

    fn claim(&mut self, dag: &Dag, node: usize, nearest_first: &[usize]) -> Option<Claim> {
        if self.is_stopped {
            return None;
        }
        let phases = &mut self.phases;
        let (task, home) = nearest_first.iter().find_map(|&home| {
            let is_ready = |task: Task| phases[task.index()].is_ready(dag.parts(task));
            Some((self.queues[home].next(is_ready)?, home))
        })?;
        let part = phases[task.index()].claim();
        let is_last = part + 1 == dag.parts(task);
        if is_last {
            self.claimed += 1;
            self.queues[home].remove(task, dag);
        }
        if home == node {
            self.counters.at_home += 1;
        } else {
            self.counters.stolen += 1;
            self.counters.stolen_needlessly += u64::from(!self.queues[node].is_empty());
        }
        let mut remote = Vec::new();
        for &datum in dag.inputs(task) {
            if is_last {
                self.wanted[datum.index() * self.queues.len() + home] -= 1;
            }
            if let Some(from) = self.places[datum.index()].home {
                self.counters.read[node][from] += dag.bytes(datum);
                if from != node {
                    remote.push(datum);
                }
            }
        }
        Some(Claim {
            task,
            part,
            home,
            remote,
        })
    }

    /// A part of a task is done. Returns whether all of `parts` are.
    fn complete(&mut self, task: Task, parts: u32) -> bool {
        let is_done = self.phases[task.index()].complete() == parts;
        self.done += usize::from(is_done);
        is_done
    }

    /// A datum is available. Returns how many tasks became ready, with each part counted.
    fn provide(&mut self, dag: &Dag, datum: Datum) -> usize {
        self.places[datum.index()].is_there = true;
        let mut ready = 0;
        for &task in dag.readers(datum) {
            if let Phase::Waiting { missing } = &mut self.phases[task.index()] {
                *missing -= 1;
                if *missing == 0 {
                    self.make_ready(dag, task);
                    ready += dag.parts(task) as usize;
                }
            }
        }
        ready
    }

    fn make_ready(&mut self, dag: &Dag, task: Task) {
        let home = self.home(dag, task);
        self.phases[task.index()] = Phase::OPEN;
        for datum in dag.inputs(task) {
            self.wanted[datum.index() * self.queues.len() + home] += 1;
        }
        self.queues[home].push(task, dag);
    }

    /// The node with the most bytes of a task's inputs; ties go to that of the earliest input. If no input has a home,
    /// tasks with the same first input get the same one.
    fn home(&mut self, dag: &Dag, task: Task) -> usize {
        let inputs = dag.inputs(task);
        self.bytes_on.fill(0);
        for &datum in inputs {
            if let Some(home) = self.places[datum.index()].home {
                self.bytes_on[home] += dag.bytes(datum);
            }
        }
        let homes = inputs
            .iter()
            .filter_map(|datum| self.places[datum.index()].home);
        homes
            .rev()
            .max_by_key(|&home| self.bytes_on[home])
            .unwrap_or(inputs[0].index() % self.queues.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graph::Input;
    use std::thread;

    fn on(home: usize) -> Input {
        Input {
            home: Some(home),
            bytes: 100,
            resident: true,
        }
    }

    fn line(nodes: usize) -> Distances {
        let row = |a: usize| (0..nodes).map(|b| 10 + 10 * a.abs_diff(b) as u32).collect();
        Distances::new((0..nodes).map(row).collect()).unwrap()
    }

    fn schedule(graph: Graph) -> Schedule {
        Schedule::new(graph, Distances::one_node(), Order::MostReferenced)
    }

    /// Claims and completes on `node` until nothing is ready.
    fn drain(schedule: &Schedule, node: usize) -> Vec<Task> {
        std::iter::from_fn(|| schedule.claim(node))
            .inspect(|claim| schedule.complete(claim.task, node))
            .map(|claim| claim.task)
            .collect()
    }

    /// Figure 4-4: the candidates {1, 2}, {1, 3}, {4, 5} on two transactions, which are on the given nodes.
    fn figure_4_4(homes: [usize; 2]) -> (Graph, [[Task; 3]; 2]) {
        let mut graph = Graph::new();
        let tasks = homes.map(|home| {
            let items = [(); 5].map(|()| graph.input(on(home)));
            [[1, 2], [1, 3], [4, 5]].map(|[i, j]| {
                graph
                    .task_with_output(&[items[i - 1], items[j - 1]], 1, 100)
                    .0
            })
        });
        (graph, tasks)
    }

    #[test]
    fn figure_4_6_runs_in_its_four_steps() {
        for order in [Order::MostReferenced, Order::MostReferencedNearby] {
            let (graph, [first, second]) = figure_4_4([0, 0]);
            let expected = [&first[..2], &second[..2], &first[2..], &second[2..]].concat();
            let schedule = Schedule::new(graph, Distances::one_node(), order);
            assert_eq!(drain(&schedule, 0), expected);
        }
    }

    /// All pairs of three items, in two transactions.
    #[test]
    fn nearby_inputs_keep_a_transaction_together() {
        let mut graph = Graph::new();
        let [first, second] = [(); 2].map(|()| {
            let [a, b, c] = [(); 3].map(|()| graph.input(on(0)));
            [[a, b], [a, c], [b, c]].map(|pair| graph.task(&pair, 1))
        });
        let drain_by = |order| {
            let schedule = Schedule::new(graph.clone(), Distances::one_node(), order);
            drain(&schedule, 0)
        };
        let by_item = [&first[..2], &second[..2], &first[2..], &second[2..]].concat();
        assert_eq!(drain_by(Order::MostReferenced), by_item);
        assert_eq!(
            drain_by(Order::MostReferencedNearby),
            [first, second].concat()
        );
    }

    #[test]
    fn figure_4_6_runs_each_transaction_on_its_own_node() {
        let (graph, [first, second]) = figure_4_4([0, 1]);
        let schedule = Schedule::new(graph, line(2), Order::MostReferenced);
        for tasks in first.into_iter().zip(second) {
            for (node, task) in [(0, tasks.0), (1, tasks.1)] {
                let claim = schedule.claim(node).unwrap();
                assert_eq!((claim.task, claim.home, claim.remote), (task, node, vec![]));
            }
        }
        assert_eq!(schedule.counters().read, [[600, 0], [0, 600]]);
    }

    /// Figure 4-1: `(a)(b)` and `((x)(y))(z)`.
    #[test]
    fn figure_4_1_begins_with_its_critical_path() {
        let mut graph = Graph::new();
        let [a, b, x, y, z] = [(); 5].map(|()| graph.input(on(0)));
        let ab = graph.task(&[a, b], 1);
        let (xy, product) = graph.task_with_output(&[x, y], 1, 100);
        let xyz = graph.task(&[product, z], 1);
        assert_eq!(drain(&schedule(graph), 0), [xy, ab, xyz]);
    }

    #[test]
    fn all_readers_of_an_input_run_before_another_is_chosen() {
        let mut graph = Graph::new();
        let [a, b, c] = [(); 3].map(|()| graph.input(on(0)));
        let ab = graph.task(&[a, b], 1);
        let bc: Vec<_> = (0..3).map(|_| graph.task(&[b, c], 1)).collect();
        let ac = graph.task(&[a, c], 1);
        let only_a = graph.task(&[a], 1);
        // b and c have four readers each; b has the lower number. Then c has one reader left, against two of a.
        // against two of a.
        let expected = [&[ab], &bc[..], &[ac, only_a]].concat();
        assert_eq!(drain(&schedule(graph), 0), expected);
    }

    #[test]
    fn a_task_that_becomes_ready_joins_the_current_input() {
        let mut graph = Graph::new();
        let [a, b] = [(); 2].map(|()| graph.input(on(0)));
        let (first, made) = graph.task_with_output(&[a], 9, 100);
        let others = [(); 2].map(|()| graph.task(&[b], 1));
        let joins = graph.task(&[a, made], 1);
        let expected = [first, joins, others[0], others[1]];
        assert_eq!(drain(&schedule(graph), 0), expected);
    }

    #[test]
    fn the_parts_of_a_task_run_before_another_and_are_done_together() {
        for order in [Order::MostReferenced, Order::FirstInFirstOut] {
            let mut graph = Graph::new();
            let [a, late] = [true, false].map(|resident| graph.input(Input { resident, ..on(0) }));
            let parts = graph.task_in_parts(&[a], 1, 3);
            let other = graph.task(&[a], 1);
            let later = graph.task_in_parts(&[late], 1, 2);
            let schedule = Schedule::new(graph, line(2), order);
            // Any node may take a part of a task whose home is another one.
            let claims = [0, 1, 0, 1].map(|node| schedule.claim(node).unwrap());
            let claimed = claims.map(|claim| (claim.task, claim.part));
            assert_eq!(claimed, [(parts, 0), (parts, 1), (parts, 2), (other, 0)]);
            assert!(!schedule.has_ready() && !schedule.is_exhausted());
            let counters = schedule.counters();
            assert_eq!((counters.at_home, counters.stolen), (2, 2));
            assert_eq!(counters.read, [[200, 0], [200, 0]]);

            schedule.arrived(late);
            assert_eq!(schedule.claim(0).unwrap().part, 0);
            schedule.complete(later, 0);
            assert!(!schedule.is_exhausted());
            assert_eq!(schedule.claim(0).unwrap().part, 1);
            assert!(schedule.is_exhausted());
            for task in [parts, parts, other, later] {
                schedule.complete(task, 0);
                assert!(!schedule.is_done());
            }
            schedule.complete(parts, 0);
            assert!(schedule.is_done());
        }
    }

    #[test]
    #[should_panic(expected = "only a claimed task")]
    fn a_part_is_done_once() {
        let mut graph = Graph::new();
        let input = graph.input(on(0));
        let task = graph.task_in_parts(&[input], 1, 2);
        let schedule = schedule(graph);
        schedule.claim(0).unwrap();
        schedule.complete(task, 0);
        schedule.complete(task, 0);
    }

    #[test]
    fn weights_count_as_that_many_tasks() {
        let mut graph = Graph::new();
        let [a, b] = [(); 2].map(|()| graph.input(on(0)));
        let light = [graph.task(&[a], 1), graph.task(&[a], 1)];
        let heavy = graph.task(&[b], 3);
        assert_eq!(drain(&schedule(graph), 0), [heavy, light[0], light[1]]);
    }

    #[test]
    fn first_in_first_out_is_the_order_of_becoming_ready() {
        let mut graph = Graph::new();
        let [a, b] = [(); 2].map(|()| graph.input(on(0)));
        let (first, made) = graph.task_with_output(&[a], 1, 100);
        let last = graph.task(&[made], 9);
        let others: Vec<_> = (0..3).map(|_| graph.task(&[a, b], 1)).collect();
        let schedule = Schedule::new(graph, Distances::one_node(), Order::FirstInFirstOut);
        assert_eq!(
            drain(&schedule, 0),
            [&[first], &others[..], &[last]].concat()
        );
    }

    #[test]
    fn the_nearest_node_is_robbed_and_only_by_those_without_work() {
        let mut graph = Graph::new();
        let near = graph.input(on(1));
        let far = graph.input(on(2));
        let [of_far, of_near] = [far, near].map(|datum| graph.task(&[datum], 1));
        let own = graph.input(on(0));
        let of_own = graph.task(&[own], 1);
        let schedule = Schedule::new(graph, line(3), Order::MostReferenced);
        assert_eq!(drain(&schedule, 0), [of_own, of_near, of_far]);
        assert_eq!(
            schedule.counters(),
            Counters {
                read: vec![vec![100; 3], vec![0; 3], vec![0; 3]],
                at_home: 1,
                stolen: 2,
                stolen_needlessly: 0,
            }
        );
    }

    #[test]
    fn a_task_is_at_home_where_most_bytes_of_its_inputs_lie() {
        let mut graph = Graph::new();
        let small: Vec<_> = (0..2).map(|_| graph.input(on(0))).collect();
        let large = graph.input(Input {
            bytes: 201,
            ..on(1)
        });
        graph.task(&[small[0], small[1], large], 1);
        let schedule = Schedule::new(graph, line(2), Order::MostReferenced);
        let claim = schedule.claim(1).unwrap();
        assert_eq!((claim.home, claim.remote), (1, small));
    }

    #[test]
    fn an_output_lies_where_its_task_ran() {
        let mut graph = Graph::new();
        let a = graph.input(on(0));
        let (first, made) = graph.task_with_output(&[a], 1, 100);
        let second = graph.task(&[made], 1);
        let schedule = Schedule::new(graph, line(2), Order::MostReferenced);
        assert_eq!(drain(&schedule, 1), [first, second]);
        assert_eq!(schedule.counters().read, [[0, 0], [100, 100]]);
        assert_eq!(schedule.counters().at_home, 1);
    }

    #[test]
    fn data_without_a_home_are_dealt_to_the_nodes() {
        let mut graph = Graph::new();
        let nowhere = Input {
            home: None,
            ..on(0)
        };
        for _ in 0..4 {
            let datum = graph.input(nowhere);
            graph.task(&[datum], 1);
        }
        let schedule = Schedule::new(graph, line(2), Order::MostReferenced);
        let homes: Vec<_> = (0..4)
            .map(|i| schedule.claim(i % 2).unwrap().home)
            .collect();
        assert_eq!(homes, [0, 1, 0, 1]);
        assert_eq!(schedule.counters().read, [[0; 2]; 2]);
    }

    #[test]
    fn a_task_waits_for_all_its_late_inputs() {
        let mut graph = Graph::new();
        let late = Input {
            resident: false,
            ..on(0)
        };
        let [a, b] = [(); 2].map(|()| graph.input(late));
        let task = graph.task(&[a, b, a], 1);
        let schedule = schedule(graph);
        for input in [a, a] {
            schedule.arrived(input);
            assert!(!schedule.has_ready());
            assert_eq!(schedule.claim(0), None);
        }
        assert!(!schedule.is_exhausted());
        schedule.arrived(b);
        assert!(schedule.has_ready());
        assert_eq!(drain(&schedule, 0), [task]);
        assert!(schedule.is_done());
    }

    #[test]
    fn a_sleeper_wakes_for_a_late_input() {
        let mut graph = Graph::new();
        let late = graph.input(Input {
            resident: false,
            ..on(0)
        });
        let task = graph.task(&[late], 1);
        let schedule = schedule(graph);
        thread::scope(|scope| {
            let sleepers: Vec<_> = (0..2)
                .map(|_| scope.spawn(|| schedule.claim_or_wait(0).map(|claim| claim.task)))
                .collect();
            schedule.arrived(late);
            let mut claimed: Vec<_> = sleepers.into_iter().map(|s| s.join().unwrap()).collect();
            claimed.sort();
            assert_eq!(claimed, [None, Some(task)]);
        });
    }

    #[test]
    fn a_stopped_schedule_hands_out_nothing() {
        let (graph, _) = figure_4_4([0, 0]);
        let schedule = schedule(graph);
        let in_progress = schedule.claim(0).unwrap();
        schedule.stop();
        assert_eq!(schedule.claim(0), None);
        assert_eq!(schedule.claim_or_wait(0), None);
        schedule.complete(in_progress.task, 0);
        assert!(schedule.is_exhausted() && !schedule.has_ready() && !schedule.is_done());
    }

    #[test]
    fn a_graph_without_tasks_is_done() {
        let schedule = schedule(Graph::new());
        assert_eq!(schedule.claim_or_wait(0), None);
        assert!(schedule.is_done() && schedule.is_exhausted());
    }

    #[test]
    #[should_panic(expected = "only a claimed task")]
    fn a_task_is_done_once() {
        let (graph, _) = figure_4_4([0, 0]);
        let schedule = schedule(graph);
        let claim = schedule.claim(0).unwrap();
        schedule.complete(claim.task, 0);
        schedule.complete(claim.task, 0);
    }

    #[test]
    #[should_panic(expected = "one of 2 nodes")]
    fn an_input_cannot_lie_on_a_node_that_is_not_there() {
        let (graph, _) = figure_4_4([0, 2]);
        Schedule::new(graph, line(2), Order::MostReferenced);
    }
}
