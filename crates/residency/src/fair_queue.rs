//! Fair queue: owners take turns, regardless of how many requests each has.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

/// Requests by owner, first in, first out within each.
pub(crate) struct FairQueue<T> {
    /// Queues by owner, never empty.
    waiting: BTreeMap<Arc<str>, VecDeque<T>>,
    /// Owners with a queue, in the order of their turns.
    owners: VecDeque<Arc<str>>,
}

impl<T> Default for FairQueue<T> {
    fn default() -> Self {
        Self {
            waiting: BTreeMap::new(),
            owners: VecDeque::new(),
        }
    }
}

impl<T> FairQueue<T> {
    pub(crate) fn push(&mut self, owner: &Arc<str>, request: T) {
        if let Some(own) = self.waiting.get_mut(owner) {
            return own.push_back(request);
        }
        self.waiting.insert(Arc::clone(owner), [request].into());
        self.owners.push_back(Arc::clone(owner));
    }

    /// Removes the next request, of the owner whose turn it is.
    pub(crate) fn pop(&mut self) -> Option<T> {
        let owner = self.owners.pop_front()?;
        let own = self.waiting.get_mut(&owner)?;
        let request = own.pop_front();
        if own.is_empty() {
            self.waiting.remove(&owner);
        } else {
            self.owners.push_back(owner);
        }
        request
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_of_each_owner_comes_between_two_of_one() {
        let [a, b, c] = ["a", "b", "c"].map(Arc::<str>::from);
        let mut queue = FairQueue::default();
        for number in 0..4 {
            queue.push(&a, number);
        }
        assert_eq!(queue.pop(), Some(0));
        queue.push(&b, 10);
        queue.push(&b, 11);
        queue.push(&c, 20);
        let rest: Vec<_> = std::iter::from_fn(|| queue.pop()).collect();
        assert_eq!(rest, [1, 10, 20, 2, 11, 3]);
        queue.push(&c, 21);
        assert_eq!((queue.pop(), queue.pop()), (Some(21), None));
    }
}
