//! The ready tasks of one node, and which of them runs next.

use crate::graph::{Dag, Datum, Task};
use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap, VecDeque};

/// The order in which ready tasks run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Order {
    /// The input whose ready readers weigh most comes first (in equals: that with the longer critical
    /// path among its readers, then the lower number), and with it every ready task that reads it, the
    /// longest critical path first, then the lower number. Only then is the next input chosen.
    MostReferenced,
    /// As they became ready.
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
            Order::FirstInFirstOut => Self::FirstInFirstOut(VecDeque::new()),
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        match self {
            Self::MostReferenced(queue) => queue.referenced.is_empty(),
            Self::FirstInFirstOut(queue) => queue.is_empty(),
        }
    }

    /// Adds a task that has just become ready.
    pub(crate) fn push(&mut self, task: Task, dag: &Dag) {
        match self {
            Self::MostReferenced(queue) => queue.push(task, dag),
            Self::FirstInFirstOut(queue) => queue.push_back(task),
        }
    }

    /// Takes the next task. `is_ready` tells the tasks that were pushed and not popped from the others.
    pub(crate) fn pop(&mut self, dag: &Dag, is_ready: impl Fn(Task) -> bool) -> Option<Task> {
        match self {
            Self::MostReferenced(queue) => queue.pop(dag, is_ready),
            Self::FirstInFirstOut(queue) => queue.pop_front(),
        }
    }
}

/// The weight of an input's ready readers, and the longest critical path among them.
type Rank = (u64, u64);

/// A datum is the current one, or waits in `raised` to be ranked, or is ranked at least as high as it
/// deserves: claims lower what they do not touch, and that is seen when its turn comes. So a claim costs
/// little more than a look at each input.
#[derive(Debug, Default)]
pub(crate) struct MostReferenced {
    /// The inputs of ready tasks.
    referenced: HashMap<Datum, Referenced>,
    /// The input whose readers run now.
    current: Option<Datum>,
    /// Inputs that got readers since the last choice.
    raised: Vec<Datum>,
    ranking: BinaryHeap<(Rank, Reverse<Datum>)>,
}

#[derive(Debug, Default)]
struct Referenced {
    weight: u64,
    /// Critical path and number of the readers; among them some that other inputs brought to their turn.
    readers: BinaryHeap<(u64, Reverse<Task>)>,
    /// Its rank in the ranking; entries of another rank are out of date.
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
                // So that no claim has to allocate.
                self.ranking.reserve(self.raised.len());
            }
        }
    }

    fn pop(&mut self, dag: &Dag, is_ready: impl Fn(Task) -> bool) -> Option<Task> {
        let current = match self.current {
            Some(datum) => datum,
            None => self.choose(&is_ready)?,
        };
        self.current = Some(current);
        let (_, task) = self.referenced.get_mut(&current)?.first(is_ready);
        for datum in dag.inputs(task) {
            self.unreference(*datum, dag.weight(task));
        }
        Some(task)
    }

    fn unreference(&mut self, datum: Datum, weight: u32) {
        let Some(referenced) = self.referenced.get_mut(&datum) else {
            return;
        };
        referenced.weight -= u64::from(weight);
        if referenced.weight == 0 {
            self.referenced.remove(&datum);
            self.current = self.current.filter(|&current| current != datum);
        }
    }

    /// The most referenced input.
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
