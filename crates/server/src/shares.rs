//! Fair sharing across clients, of call slots or bytes.
//!
//! Clients that must wait take turns: each gets its next share after at most one of every other client, however many
//! these request. Smaller requests may pass a large one that waits, for a limited time.

use crate::clients::Client;
use parking_lot::Mutex;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::oneshot;
use tokio::time::Instant;

/// Time for which a request that does not fit may be passed by others.
pub(crate) const PASSED: Duration = Duration::from_secs(30);
/// Maximum number of waiting requests of one client.
const MOST_WAITING: usize = 256;

/// Limit on the share of one client.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Rule {
    /// Call slots, at most `per_client` for one client; the last quarter is reserved for clients without a slot.
    Places { all: u64, per_client: u64 },
    /// Bytes, for one client at most half of those that others leave, but always one request.
    Bytes { all: u64 },
}

impl Rule {
    fn all(self) -> u64 {
        match self {
            Self::Places { all, .. } | Self::Bytes { all } => all,
        }
    }

    /// Returns true if a client that holds `held` may get `amount` more while `taken` is in use.
    fn allows(self, held: u64, taken: u64, amount: u64) -> bool {
        let free = self.all() - taken;
        amount <= free
            && (held == 0
                || match self {
                    Self::Places { all, per_client } => {
                        held + amount <= per_client && amount + all / 4 <= free
                    }
                    Self::Bytes { .. } => held + amount <= (free + held) / 2,
                })
    }
}

/// Resource shared by clients.
#[derive(Debug)]
pub(crate) struct Shares {
    rule: Rule,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    taken: u64,
    held: BTreeMap<Client, u64>,
    /// Queues by client, never empty.
    waiting: BTreeMap<Client, VecDeque<Waiter>>,
    /// Waiting clients, in the order of their turns.
    turns: VecDeque<Client>,
    next: u64,
}

#[derive(Debug)]
struct Waiter {
    number: u64,
    amount: u64,
    since: Instant,
    granted: oneshot::Sender<Share>,
}

/// Share of one client, returned when dropped.
#[derive(Debug)]
pub(crate) struct Share {
    shares: Arc<Shares>,
    client: Client,
    amount: u64,
}

/// Reasons why a request is never granted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Never {
    /// Amount beyond the total.
    TooMuch,
    /// Too many waiting requests of the client.
    TooMany,
}

impl Shares {
    pub(crate) fn new(rule: Rule) -> Arc<Self> {
        Arc::new(Self {
            rule,
            state: Mutex::default(),
        })
    }

    /// Returns the total.
    pub(crate) fn all(&self) -> u64 {
        self.rule.all()
    }

    /// Returns the amount in use.
    pub(crate) fn taken(&self) -> u64 {
        self.state.lock().taken
    }

    /// Returns the number of waiting requests.
    pub(crate) fn waiting(&self) -> usize {
        self.state.lock().waiting.values().map(VecDeque::len).sum()
    }

    /// Returns the amount that this client holds.
    pub(crate) fn held(&self, client: &Client) -> u64 {
        self.state.lock().of(client)
    }

    /// Waits for this client's turn and until this much is free.
    ///
    /// # Errors
    /// The request exceeds the total, or the client has too many waiting requests.
    pub(crate) async fn take(
        self: &Arc<Self>,
        client: &Client,
        amount: u64,
    ) -> Result<Share, Never> {
        if amount > self.all() {
            return Err(Never::TooMuch);
        }
        let (granted, receiver) = oneshot::channel();
        let _waiting = {
            let mut state = self.state.lock();
            let number = state.next;
            state.next += 1;
            let queue = state.waiting.entry(client.clone()).or_default();
            if queue.len() >= MOST_WAITING {
                return Err(Never::TooMany);
            }
            queue.push_back(Waiter {
                number,
                amount,
                since: Instant::now(),
                granted,
            });
            if queue.len() == 1 {
                state.turns.push_back(client.clone());
            }
            Waiting {
                shares: Arc::clone(self),
                client: client.clone(),
                number,
            }
        };
        self.serve();
        Ok(receiver.await.expect("who waits is served or leaves"))
    }

    /// Grants the request if it fits immediately and no client waits.
    pub(crate) fn try_take(self: &Arc<Self>, client: &Client, amount: u64) -> Option<Share> {
        let mut state = self.state.lock();
        let allowed = self
            .rule
            .allows(state.of(client), state.taken, amount.min(self.all() + 1));
        (allowed && state.turns.is_empty()).then(|| self.give(&mut state, client, amount))
    }

    fn give(self: &Arc<Self>, state: &mut State, client: &Client, amount: u64) -> Share {
        state.taken += amount;
        *state.held.entry(client.clone()).or_default() += amount;
        Share {
            shares: Arc::clone(self),
            client: client.clone(),
            amount,
        }
    }

    /// Grants free amounts to waiting clients.
    fn serve(self: &Arc<Self>) {
        let mut given = Vec::new();
        let mut state = self.state.lock();
        let mut passed = VecDeque::new();
        while let Some(client) = state.turns.pop_front() {
            let held = state.of(&client);
            let first = &state.waiting[&client][0];
            let (amount, since) = (first.amount, first.since);
            if self.rule.allows(held, state.taken, amount) {
                let share = self.give(&mut state, &client, amount);
                let queue = state.waiting.get_mut(&client).expect("it waits");
                let waiter = queue.pop_front().expect("it waits");
                if queue.is_empty() {
                    state.waiting.remove(&client);
                } else {
                    state.turns.push_back(client);
                }
                given.push((waiter.granted, share));
                continue;
            }
            passed.push_back(client);
            // A client that waits for its own share blocks no other.
            if held == 0 && since.elapsed() >= PASSED {
                break;
            }
        }
        passed.append(&mut state.turns);
        state.turns = passed;
        drop(state);
        // A cancelled request returns its share here.
        for (granted, share) in given {
            let _ = granted.send(share);
        }
    }
}

impl Share {
    /// Returns the amount in use by all clients, including this share.
    pub(crate) fn of_all(&self) -> u64 {
        self.shares.taken()
    }
}

impl State {
    fn of(&self, client: &Client) -> u64 {
        self.held.get(client).copied().unwrap_or(0)
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        let mut state = self.shares.state.lock();
        state.taken -= self.amount;
        if let Some(held) = state.held.get_mut(&self.client) {
            *held -= self.amount;
            if *held == 0 {
                state.held.remove(&self.client);
            }
        }
        drop(state);
        self.shares.serve();
    }
}

/// Position in the queue, given up when dropped.
struct Waiting {
    shares: Arc<Shares>,
    client: Client,
    number: u64,
}

impl Drop for Waiting {
    fn drop(&mut self) {
        let mut state = self.shares.state.lock();
        let Some(queue) = state.waiting.get_mut(&self.client) else {
            return;
        };
        let before = queue.len();
        queue.retain(|it| it.number != self.number);
        if queue.len() == before {
            return;
        }
        if queue.is_empty() {
            state.waiting.remove(&self.client);
            state.turns.retain(|it| *it != self.client);
        }
        drop(state);
        self.shares.serve();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::pin::{Pin, pin};
    use std::task::{Context, Poll, Waker};

    fn client(name: &str) -> Client {
        Client::Named(name.into())
    }

    fn poll<T>(future: &mut Pin<&mut impl Future<Output = T>>) -> Option<T> {
        match future
            .as_mut()
            .poll(&mut Context::from_waker(Waker::noop()))
        {
            Poll::Ready(value) => Some(value),
            Poll::Pending => None,
        }
    }

    fn now(shares: &Arc<Shares>, name: &str, amount: u64) -> Option<Share> {
        poll(&mut pin!(shares.take(&client(name), amount))).map(Result::unwrap)
    }

    #[test]
    fn the_last_quarter_is_for_clients_that_have_nothing() {
        let shares = Shares::new(Rule::Places {
            all: 16,
            per_client: 4,
        });
        let mut held = Vec::new();
        for name in ["a", "b", "c"] {
            held.extend((0..4).map(|_| now(&shares, name, 1).unwrap()));
            assert!(now(&shares, name, 1).is_none());
        }
        // Four slots are left: four more clients get one each, and no second one.
        for name in ["d", "e", "f", "g"] {
            held.push(now(&shares, name, 1).unwrap());
            assert!(now(&shares, name, 1).is_none());
        }
        assert!(now(&shares, "h", 1).is_none());
        held.remove(0);
        assert!(now(&shares, "a", 1).is_none());
        assert!(now(&shares, "h", 1).is_some());
        drop(held);
        assert_eq!(shares.taken(), 0);
        assert!(shares.state.lock().waiting.is_empty() && shares.state.lock().turns.is_empty());
    }

    #[test]
    fn a_client_has_at_most_half_of_the_bytes_that_others_leave() {
        let shares = Shares::new(Rule::Bytes { all: 1000 });
        let mut held = vec![now(&shares, "a", 400).unwrap()];
        assert!(now(&shares, "a", 101).is_none());
        held.push(now(&shares, "a", 100).unwrap());
        held.push(now(&shares, "b", 250).unwrap());
        assert!(now(&shares, "b", 1).is_none());
        // One request is always granted if it fits.
        held.push(now(&shares, "c", 250).unwrap());
        assert!(now(&shares, "d", 1).is_none());
        held.remove(0);
        assert!(now(&shares, "d", 1).is_some());
        let never = poll(&mut pin!(shares.take(&client("d"), 1001)));
        assert_eq!(never.unwrap().unwrap_err(), Never::TooMuch);
    }

    #[test]
    fn clients_take_turns_whatever_each_of_them_asks_for() {
        let shares = Shares::new(Rule::Places {
            all: 1,
            per_client: 100,
        });
        let mut last = now(&shares, "x", 1);
        let (a, b, c) = (client("a"), client("b"), client("c"));
        let order = [&a, &a, &a, &b, &b, &c];
        let mut waiting: Vec<_> = order.map(|it| Box::pin(shares.take(it, 1))).into();
        let mut served = Vec::new();
        assert!(
            waiting
                .iter_mut()
                .all(|it| poll(&mut it.as_mut()).is_none())
        );
        while !waiting.is_empty() {
            drop(last.take());
            let (at, share) = waiting
                .iter_mut()
                .enumerate()
                .find_map(|(at, it)| Some((at, poll(&mut it.as_mut())?)))
                .unwrap();
            let share = share.unwrap();
            served.push(share.client.to_string());
            last = Some(share);
            drop(waiting.remove(at));
        }
        assert_eq!(served.concat(), "abcaba");
    }

    #[tokio::test(start_paused = true)]
    async fn a_large_part_is_passed_for_a_while_only() {
        let shares = Shares::new(Rule::Bytes { all: 100 });
        let first = now(&shares, "a", 50).unwrap();
        let (b, c) = (client("b"), client("c"));
        let mut large = pin!(shares.take(&b, 80));
        assert!(poll(&mut large).is_none());
        drop(now(&shares, "c", 10).unwrap());
        tokio::time::advance(PASSED).await;
        let mut small = pin!(shares.take(&c, 10));
        assert!(poll(&mut small).is_none());
        drop(first);
        let large = poll(&mut large).unwrap();
        assert!(poll(&mut small).is_some());
        drop(large);
        assert_eq!(shares.taken(), 0);
    }

    #[test]
    fn who_leaves_the_queue_is_in_nobodys_way() {
        let shares = Shares::new(Rule::Places {
            all: 1,
            per_client: 1,
        });
        let held = now(&shares, "a", 1).unwrap();
        let (b, c) = (client("b"), client("c"));
        let mut left = Box::pin(shares.take(&b, 1));
        assert!(poll(&mut left.as_mut()).is_none());
        let mut behind = pin!(shares.take(&c, 1));
        assert!(poll(&mut behind).is_none());
        assert!(shares.try_take(&client("d"), 1).is_none());
        // Granted, and dropped before it was polled.
        drop(held);
        drop(left);
        assert_eq!(poll(&mut behind).unwrap().unwrap().client, c);
        assert!(shares.try_take(&client("d"), 1).is_some());
        assert!(shares.state.lock().held.is_empty());
    }

    #[test]
    fn a_client_does_not_fill_the_queue() {
        let shares = Shares::new(Rule::Places {
            all: 1,
            per_client: 1,
        });
        let _held = now(&shares, "a", 1).unwrap();
        let (b, c) = (client("b"), client("c"));
        let mut waiting: Vec<_> = (0..MOST_WAITING)
            .map(|_| Box::pin(shares.take(&b, 1)))
            .collect();
        waiting
            .iter_mut()
            .for_each(|it| assert!(poll(&mut it.as_mut()).is_none()));
        let more = poll(&mut pin!(shares.take(&b, 1)));
        assert_eq!(more.unwrap().unwrap_err(), Never::TooMany);
        assert!(poll(&mut pin!(shares.take(&c, 1))).is_none());
    }
}
