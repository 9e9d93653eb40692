//! The ready tasks of one node, and their order.

use crate::graph::{Dag, Datum, Task};
use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap, VecDeque};

/// The order in which ready tasks run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Order {
    /// The input with the largest total weight of ready readers comes first (ties: the longer critical path among its
    /// readers, then the lower number), and with it all ready tasks that read it, the longest critical path first, then
    /// the lower number. Only then is the next input chosen. This is the paper's rule; with many similar transactions
    /// it takes one item of each before the second of any.
    MostReferenced,
    /// As `MostReferenced`, but the next input is chosen among those that tasks of the last one read too, as long as
    /// one of them has ready readers, since they are still in the cache; otherwise among all.
    MostReferencedNearby,
    /// The order in which they became ready.
    FirstInFirstOut,
}

/// The ready tasks of one node.
#[derive(Debug)]
pub(crate) enum Queue {
    MostReferenced(MostReferenced),
    FirstInFirstOut(VecDeque<Task>),
}

impl Queue {
    pub(crate) fn new(order: Order) -> Self {
        match order {
            Order::MostReferenced => Self::MostReferenced(MostReferenced::default()),
            Order::MostReferencedNearby => Self::MostReferenced(MostReferenced {
                nearby: Some(Vec::new()),
                ..MostReferenced::default()
            }),
            Order::FirstInFirstOut => Self::FirstInFirstOut(VecDeque::new()),
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        match self {
            Self::MostReferenced(queue) => queue.referenced.is_empty(),
            Self::FirstInFirstOut(queue) => queue.is_empty(),
        }
    }

    /// Adds a task that has become ready.
    pub(crate) fn push(&mut self, task: Task, dag: &Dag) {
        match self {
            Self::MostReferenced(queue) => queue.push(task, dag),
            Self::FirstInFirstOut(queue) => queue.push_back(task),
        }
    }

    /// The next task, which stays the next until it is removed. `is_ready` distinguishes tasks that were pushed and not
    /// removed.
    pub(crate) fn next(&mut self, is_ready: impl Fn(Task) -> bool) -> Option<Task> {
        match self {
            Self::MostReferenced(queue) => queue.next(is_ready),
            Self::FirstInFirstOut(queue) => queue.front().copied(),
        }
    }

    /// Removes the next task, which is no longer ready.
    pub(crate) fn remove(&mut self, next: Task, dag: &Dag) {
        match self {
            Self::MostReferenced(queue) => queue.remove(next, dag),
            Self::FirstInFirstOut(queue) => drop(queue.pop_front()),
        }
    }
}

/// The total weight of an input's ready readers, and the longest critical path among them.
type Rank = (u64, u64);

/// An input other than the current one is either in `raised`, to be ranked, or is ranked at least as high as it should
/// be: a claim lowers the rank of the task's other inputs, which is corrected lazily when they are chosen. So a claim
/// visits each input only briefly.
#[derive(Debug, Default)]
pub(crate) struct MostReferenced {
    /// The inputs of ready tasks.
    referenced: HashMap<Datum, Referenced>,
    /// The input that was chosen last; its ready readers run next.
    current: Option<Datum>,
    /// The other inputs of its readers, if the next input is chosen among those.
    nearby: Option<Vec<Datum>>,
    /// Inputs that got readers since the last choice.
    raised: Vec<Datum>,
    ranking: BinaryHeap<(Rank, Reverse<Datum>)>,
}

#[derive(Debug, Default)]
struct Referenced {
    weight: u64,
    /// Critical path and number of the readers; may include some that already ran through other inputs.
    readers: BinaryHeap<(u64, Reverse<Task>)>,
    /// Its rank in the ranking; entries with another rank are stale.
    ranked: Option<Rank>,
}

impl Referenced {
    /// The next reader to run, at the top of `readers`.
    fn first(&mut self, is_ready: impl Fn(Task) -> bool) -> (u64, Task) {
        while let Some(&(path, Reverse(task))) = self.readers.peek() {
            if is_ready(task) {
                return (path, task);
            }
            self.readers.pop();
        }
        unreachable!("an input that weighs something has a ready reader")
    }

    fn rank(&mut self, is_ready: impl Fn(Task) -> bool) -> Rank {
        (self.weight, self.first(is_ready).0)
    }
}

impl MostReferenced {
    fn push(&mut self, task: Task, dag: &Dag) {
        for &datum in dag.inputs(task) {
            let referenced = self.referenced.entry(datum).or_default();
            let is_new = referenced.weight == 0;
            referenced.weight += u64::from(dag.weight(task));
            referenced
                .readers
                .push((dag.critical_path(task), Reverse(task)));
            if is_new || referenced.ranked.take().is_some() {
                self.raised.push(datum);
                // Reserved here, so that claims do not allocate.
                self.ranking.reserve(self.raised.len());
            }
        }
    }

    fn next(&mut self, is_ready: impl Fn(Task) -> bool) -> Option<Task> {
        if self.referenced.is_empty() {
            return None;
        }
        let is_referenced = |datum: &Datum| self.referenced.contains_key(datum);
        let current = match self.current.filter(is_referenced) {
            Some(datum) => datum,
            None => self.next_input(&is_ready)?,
        };
        self.current = Some(current);
        Some(self.referenced.get_mut(&current)?.first(is_ready).1)
    }

    fn remove(&mut self, task: Task, dag: &Dag) {
        for datum in dag.inputs(task) {
            self.unreference(*datum, dag.weight(task));
        }
        if let Some(nearby) = &mut self.nearby {
            nearby.extend(dag.inputs(task));
        }
    }

    fn unreference(&mut self, datum: Datum, weight: u32) {
        let Some(referenced) = self.referenced.get_mut(&datum) else {
            return;
        };
        referenced.weight -= u64::from(weight);
        if referenced.weight == 0 {
            self.referenced.remove(&datum);
        }
    }

    fn next_input(&mut self, is_ready: impl Fn(Task) -> bool) -> Option<Datum> {
        let nearby = self.choose_nearby(&is_ready);
        let next = nearby.or_else(|| self.choose(&is_ready));
        if let Some(nearby) = &mut self.nearby {
            nearby.clear();
        }
        next
    }

    /// The most referenced nearby input.
    fn choose_nearby(&mut self, is_ready: impl Fn(Task) -> bool) -> Option<Datum> {
        let referenced = self.nearby.as_ref()?.iter().filter_map(|&datum| {
            let rank = self.referenced.get_mut(&datum)?.rank(&is_ready);
            Some((rank, Reverse(datum)))
        });
        let (_, Reverse(datum)) = referenced.max()?;
        self.referenced.get_mut(&datum)?.ranked = None;
        Some(datum)
    }

    /// The most referenced of all inputs.
    fn choose(&mut self, is_ready: impl Fn(Task) -> bool) -> Option<Datum> {
        for datum in self.raised.drain(..) {
            if let Some(referenced) = self.referenced.get_mut(&datum) {
                let rank = referenced.rank(&is_ready);
                referenced.ranked = Some(rank);
                self.ranking.push((rank, Reverse(datum)));
            }
        }
        loop {
            let (rank, Reverse(datum)) = self.ranking.pop()?;
            let Some(referenced) = self.referenced.get_mut(&datum) else {
                continue;
            };
            if referenced.ranked != Some(rank) {
                continue;
            }
            let deserved = referenced.rank(&is_ready);
            if deserved == rank {
                referenced.ranked = None;
                return Some(datum);
            }
            referenced.ranked = Some(deserved);
            self.ranking.push((deserved, Reverse(datum)));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Graph, Input, Schedule};
    use oboro_arena::Distances;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    /// A direct implementation of the rule.
    #[derive(Default)]
    struct ByTheBook {
        ready: BTreeSet<Task>,
        current: Option<Datum>,
        nearby: BTreeSet<Datum>,
    }

    impl ByTheBook {
        fn pop(&mut self, dag: &Dag, order: Order) -> Option<Task> {
            let readers = |datum: Datum| {
                let ready = self.ready.iter().copied();
                ready.filter(move |&task| dag.inputs(task).contains(&datum))
            };
            let weight = |datum| -> u64 { readers(datum).map(|t| u64::from(dag.weight(t))).sum() };
            let first = |datum| readers(datum).max_by_key(|&t| (dag.critical_path(t), Reverse(t)));
            let path = |datum| first(datum).map(|task| dag.critical_path(task));
            let most_referenced = |data: &BTreeSet<Datum>| {
                let data = data.iter().copied().filter(|&datum| weight(datum) > 0);
                data.max_by_key(|&datum| (weight(datum), path(datum), Reverse(datum)))
            };
            let still = self.current.filter(|&datum| weight(datum) > 0);
            let next = match order {
                Order::MostReferencedNearby => most_referenced(&self.nearby),
                _ => None,
            };
            let all = dag.data().collect();
            let chosen = still.or(next).or(most_referenced(&all))?;
            let task = first(chosen)?;
            if still.is_none() {
                self.nearby.clear();
            }
            self.nearby.extend(dag.inputs(task));
            self.current = Some(chosen);
            self.ready.remove(&task);
            Some(task)
        }
    }

    /// For each task its inputs, as choices among the data so far, and its weight.
    fn graphs() -> impl Strategy<Value = Graph> {
        let task = (
            prop::collection::vec(any::<prop::sample::Index>(), 1..4),
            1u32..4,
        );
        (1usize..6, prop::collection::vec(task, 1..40)).prop_map(|(inputs, tasks)| {
            let mut graph = Graph::new();
            let mut data: Vec<Datum> = (0..inputs)
                .map(|_| {
                    graph.input(Input {
                        home: Some(0),
                        bytes: 1,
                        resident: true,
                    })
                })
                .collect();
            for (choices, weight) in tasks {
                let inputs: Vec<_> = choices.iter().map(|choice| *choice.get(&data)).collect();
                data.push(graph.task_with_output(&inputs, weight, 1).1);
            }
            graph
        })
    }

    proptest! {
        #[test]
        fn tasks_run_in_the_order_of_the_rule(
            order in prop::sample::select(vec![Order::MostReferenced, Order::MostReferencedNearby]),
            graph in graphs(),
            completions in prop::collection::vec(any::<prop::sample::Index>(), 0..100),
        ) {
            let dag = Dag::new(graph.clone());
            let schedule = Schedule::new(graph, Distances::one_node(), order);
            let mut model = ByTheBook::default();
            let mut done = BTreeSet::new();
            let mut claimed: Vec<Task> = Vec::new();
            let mut completions = completions.into_iter();
            let mut seen = BTreeSet::new();
            loop {
                let made = |datum: &Datum| {
                    dag.tasks()
                        .find(|&task| dag.output(task) == Some(*datum))
                        .is_none_or(|task| done.contains(&task))
                };
                for task in dag.tasks() {
                    if dag.inputs(task).iter().all(made) && seen.insert(task) {
                        model.ready.insert(task);
                    }
                }
                let expected = model.pop(&dag, order);
                prop_assert_eq!(schedule.claim(0).map(|claim| claim.task), expected);
                claimed.extend(expected);
                let completion = completions.next();
                if expected.is_none() && claimed.is_empty() {
                    break;
                }
                if expected.is_some() && completion.is_none_or(|c| c.index(2) == 0) {
                    continue;
                }
                let which = completion.map_or(0, |choice| choice.index(claimed.len()));
                let task = claimed.swap_remove(which);
                schedule.complete(task, 0);
                done.insert(task);
            }
            prop_assert!(schedule.is_done());
        }
    }
}
