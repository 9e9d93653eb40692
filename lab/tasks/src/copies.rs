//! Copies of remote data, per node.
//!
//! A node has one copy of a datum, made by the first of its workers that needs it; the others wait until it is
//! complete. It is dropped when no worker of the node holds it and none of the node's ready tasks reads it.

use crate::graph::Datum;
use crate::schedule::Schedule;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};

/// A copy, possibly still being made.
pub(crate) type Shared<C> = Arc<OnceLock<C>>;

pub(crate) struct Copies<'s, C> {
    schedule: &'s Schedule,
    nodes: Vec<Mutex<HashMap<Datum, Held<C>>>>,
}

struct Held<C> {
    copy: Shared<C>,
    holders: usize,
}

impl<'s, C> Copies<'s, C> {
    pub(crate) fn new(schedule: &'s Schedule) -> Self {
        Self {
            schedule,
            nodes: (0..schedule.nodes()).map(|_| Mutex::default()).collect(),
        }
    }

    /// Holds the node's copy; each hold needs a release.
    pub(crate) fn hold(&self, node: usize, datum: Datum) -> Shared<C> {
        let mut copies = self.lock(node);
        let held = copies.entry(datum).or_insert_with(|| Held {
            copy: Arc::default(),
            holders: 0,
        });
        held.holders += 1;
        Arc::clone(&held.copy)
    }

    /// Releases one hold.
    pub(crate) fn release(&self, node: usize, datum: Datum) {
        if let Some(held) = self.lock(node).get_mut(&datum) {
            held.holders -= 1;
        }
        self.drop_unwanted(node, datum);
    }

    /// Drops the node's copy if nobody holds it and no ready task of the node reads it.
    pub(crate) fn drop_unwanted(&self, node: usize, datum: Datum) {
        let mut copies = self.lock(node);
        let unheld = copies.get(&datum).is_some_and(|held| held.holders == 0);
        if unheld && !self.schedule.is_wanted(datum, node) {
            let dropped = copies.remove(&datum);
            drop(copies);
            drop(dropped);
        }
    }

    #[cfg(test)]
    pub(crate) fn has(&self, node: usize, datum: Datum) -> bool {
        self.lock(node).contains_key(&datum)
    }

    fn lock(&self, node: usize) -> MutexGuard<'_, HashMap<Datum, Held<C>>> {
        self.nodes[node]
            .lock()
            .expect("no thread panics with the lock")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Graph, Input, Order};
    use oboro_arena::Distances;

    /// A small datum on node 0 that three tasks of node 1 read.
    fn key_of_another_node() -> (Schedule, Datum) {
        let mut graph = Graph::new();
        let [key, rows] = [(0, 1), (1, 10)].map(|(home, bytes)| {
            graph.input(Input {
                home: Some(home),
                bytes,
                resident: true,
            })
        });
        for _ in 0..3 {
            graph.task(&[key, rows], 1);
        }
        let distances = Distances::new(vec![vec![10, 20], vec![20, 10]]).unwrap();
        (Schedule::new(graph, distances, Order::MostReferenced), key)
    }

    #[test]
    fn a_node_has_one_copy_until_its_last_reader_is_done() {
        let (schedule, key) = key_of_another_node();
        let copies = Copies::<u32>::new(&schedule);
        for last in [false, false, true] {
            assert_eq!(schedule.claim(1).unwrap().remote, [key]);
            let first = copies.hold(1, key);
            let second = copies.hold(1, key);
            assert!(Arc::ptr_eq(&first, &second));
            copies.release(1, key);
            assert!(copies.has(1, key));
            copies.release(1, key);
            assert_eq!(copies.has(1, key), !last);
        }
        assert!(!copies.has(0, key));
    }

    #[test]
    fn a_copy_goes_when_its_last_reader_is_stolen() {
        let (schedule, key) = key_of_another_node();
        let copies = Copies::<u32>::new(&schedule);
        schedule.claim(1).unwrap();
        copies.hold(1, key);
        copies.release(1, key);
        for has in [true, false] {
            assert_eq!(schedule.claim(0).unwrap().home, 1);
            copies.drop_unwanted(1, key);
            assert_eq!(copies.has(1, key), has);
        }
    }
}
