//! Queue in which clients take turns, regardless of how many requests each has.

use std::collections::{BTreeMap, VecDeque};

/// Requests by client, first in, first out within each.
#[derive(Debug)]
pub(crate) struct RoundRobin<C, T> {
    /// Queues by client, never empty.
    waiting: BTreeMap<C, VecDeque<T>>,
    /// Clients with a queue, in the order of their turns.
    turns: VecDeque<C>,
}

impl<C, T> Default for RoundRobin<C, T> {
    fn default() -> Self {
        Self {
            waiting: BTreeMap::new(),
            turns: VecDeque::new(),
        }
    }
}

impl<C: Clone + Ord, T> RoundRobin<C, T> {
    pub(crate) fn push(&mut self, client: &C, request: T) {
        if let Some(own) = self.waiting.get_mut(client) {
            return own.push_back(request);
        }
        self.waiting.insert(client.clone(), [request].into());
        self.turns.push_back(client.clone());
    }

    /// Removes the next request, of the client whose turn it is.
    pub(crate) fn pop(&mut self) -> Option<T> {
        self.pop_if(|_, _| true).map(|(_, request)| request)
    }

    /// Removes the first request that `may` be served. It is called with the first request of each client, in the order
    /// of their turns; others keep their turns.
    pub(crate) fn pop_if(&mut self, mut may: impl FnMut(&C, &T) -> bool) -> Option<(C, T)> {
        let first = |client: &C| &self.waiting[client][0];
        let at = self
            .turns
            .iter()
            .position(|client| may(client, first(client)))?;
        let client = self.turns.remove(at)?;
        let own = self.waiting.get_mut(&client)?;
        let request = own.pop_front()?;
        if own.is_empty() {
            self.waiting.remove(&client);
        } else {
            self.turns.push_back(client.clone());
        }
        Some((client, request))
    }

    /// Removes the requests of a client for which `is_meant` returns true; returns true if there were any.
    pub(crate) fn remove(&mut self, client: &C, is_meant: impl Fn(&T) -> bool) -> bool {
        let Some(own) = self.waiting.get_mut(client) else {
            return false;
        };
        let before = own.len();
        own.retain(|request| !is_meant(request));
        let is_removed = own.len() < before;
        if own.is_empty() {
            self.waiting.remove(client);
            self.turns.retain(|it| it != client);
        }
        is_removed
    }

    /// Iterates over the clients and their first requests.
    pub(crate) fn first(&self) -> impl Iterator<Item = (&C, &T)> {
        self.waiting.iter().map(|(client, own)| (client, &own[0]))
    }

    /// Returns the number of requests of a client.
    pub(crate) fn len_of(&self, client: &C) -> usize {
        self.waiting.get(client).map_or(0, VecDeque::len)
    }

    /// Returns the number of requests.
    pub(crate) fn len(&self) -> usize {
        self.waiting.values().map(VecDeque::len).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_of_each_client_comes_between_two_of_one() {
        let [a, b, c] = ["a", "b", "c"];
        let mut queue = RoundRobin::default();
        for number in 0..4 {
            queue.push(&a, number);
        }
        assert_eq!(queue.pop(), Some(0));
        queue.push(&b, 10);
        queue.push(&b, 11);
        queue.push(&c, 20);
        assert_eq!((queue.len_of(&a), queue.len()), (3, 6));
        // A request that is passed keeps its turn.
        assert_eq!(queue.pop_if(|_, it| *it >= 10), Some((b, 10)));
        let rest: Vec<_> = std::iter::from_fn(|| queue.pop()).collect();
        assert_eq!(rest, [1, 20, 11, 2, 3]);
        queue.push(&c, 21);
        assert!(queue.remove(&c, |it| *it == 21) && !queue.remove(&c, |_| true));
        assert_eq!(queue.pop(), None);
    }
}
