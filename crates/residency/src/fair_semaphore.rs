//! Semaphore whose permits (call slots or bytes) are granted round-robin across clients.
//!
//! Clients that must wait take turns: each gets its next permit after at most one of every other client, however many
//! these request. Smaller requests may pass one that does not fit, for a limited time. A request that waits for what its
//! own client holds blocks no other.

use crate::round_robin::RoundRobin;
use parking_lot::{Mutex, MutexGuard};
use std::collections::BTreeMap;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};
use std::time::{Duration, Instant};
use thiserror::Error;

/// Time for which a request that does not fit may be passed by others.
const PATIENCE: Duration = Duration::from_secs(30);
/// Maximum number of waiting requests of one client.
const MOST_WAITING: usize = 256;

/// Limit on the permits of one client.
#[derive(Debug, Clone, Copy)]
pub enum ShareLimit {
    /// At most `per_client` for one client; the last `reserved` are for clients without a permit.
    Fixed {
        /// Total.
        all: u64,
        /// Maximum of one client.
        per_client: u64,
        /// Part for clients without a permit.
        reserved: u64,
    },
    /// For one client at most half of those that others leave, but always one request.
    HalfOfRest {
        /// Total.
        all: u64,
    },
    /// While others wait, for a client with permits at most half of all. Requests of clients that would hold at most
    /// `small` pass all others.
    HalfIfContended {
        /// Total.
        all: u64,
        /// Maximum of a client whose requests pass others.
        small: u64,
    },
}

impl ShareLimit {
    /// Returns a limit on the total only.
    pub fn total(all: u64) -> Self {
        Self::Fixed {
            all,
            per_client: all,
            reserved: 0,
        }
    }

    fn all(self) -> u64 {
        match self {
            Self::Fixed { all, .. }
            | Self::HalfOfRest { all }
            | Self::HalfIfContended { all, .. } => all,
        }
    }

    fn small(self) -> u64 {
        match self {
            Self::HalfIfContended { small, .. } => small,
            Self::Fixed { .. } | Self::HalfOfRest { .. } => 0,
        }
    }

    /// Returns true if a client that holds `held` may get `amount` more while `used` is in use.
    fn allows(self, held: u64, used: u64, amount: u64, others_wait: bool) -> bool {
        let free = self.all() - used;
        if amount > free {
            return false;
        }
        held == 0
            || match self {
                Self::Fixed {
                    per_client,
                    reserved,
                    ..
                } => held + amount <= per_client && amount + reserved <= free,
                Self::HalfOfRest { .. } => held + amount <= (free + held) / 2,
                Self::HalfIfContended { all, .. } => !others_wait || held + amount <= all / 2,
            }
    }
}

/// Semaphore shared by clients.
#[derive(Debug)]
pub struct FairSemaphore<C: Clone + Ord> {
    limit: ShareLimit,
    patience: Duration,
    state: Mutex<State<C>>,
}

#[derive(Debug)]
struct State<C: Clone + Ord> {
    used: u64,
    held: BTreeMap<C, u64>,
    waiting: RoundRobin<C, Waiter<C>>,
    next: u64,
}

/// Place of a request among all, by arrival.
#[derive(Debug, Clone, Copy)]
struct Ticket {
    number: u64,
    arrival: Instant,
}

#[derive(Debug)]
struct Waiter<C: Clone + Ord> {
    ticket: Ticket,
    amount: u64,
    grant: Arc<Mutex<Grant<C>>>,
}

/// Outcome of a request, passed to its future.
#[derive(Debug)]
enum Grant<C: Clone + Ord> {
    Pending(Option<Waker>),
    Granted(Permit<C>),
    Taken,
}

/// Permit of one client, returned when dropped.
#[derive(Debug)]
pub struct Permit<C: Clone + Ord> {
    semaphore: Arc<FairSemaphore<C>>,
    client: C,
    ticket: Ticket,
    amount: u64,
}

/// Reasons why a request is never granted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum AcquireError {
    /// Amount beyond the total.
    #[error("more was requested than the total")]
    TooMuch,
    /// Too many waiting requests of the client.
    #[error("too many requests of this client wait")]
    TooMany,
}

impl<C: Clone + Ord> FairSemaphore<C> {
    /// Creates a semaphore.
    pub fn new(limit: ShareLimit) -> Arc<Self> {
        Self::with_patience(limit, PATIENCE)
    }

    fn with_patience(limit: ShareLimit, patience: Duration) -> Arc<Self> {
        Arc::new(Self {
            limit,
            patience,
            state: Mutex::new(State {
                used: 0,
                held: BTreeMap::new(),
                waiting: RoundRobin::default(),
                next: 0,
            }),
        })
    }

    /// Returns the total.
    pub fn total(&self) -> u64 {
        self.limit.all()
    }

    /// Returns the amount in use.
    pub fn used(&self) -> u64 {
        self.state.lock().used
    }

    /// Returns the number of waiting requests.
    pub fn waiting(&self) -> usize {
        self.state.lock().waiting.len()
    }

    /// Returns the amount that a client holds.
    pub fn held(&self, client: &C) -> u64 {
        self.state.lock().held(client)
    }

    /// Returns a permit of nothing, which can [grow](Permit::try_grow).
    pub fn empty(self: &Arc<Self>, client: &C) -> Permit<C> {
        let ticket = self.state.lock().ticket();
        self.permit(client, ticket, 0)
    }

    /// Grants the request if it fits immediately and no client waits.
    pub fn try_acquire(self: &Arc<Self>, client: &C, amount: u64) -> Option<Permit<C>> {
        let mut state = self.state.lock();
        let is_free = state.waiting.len() == 0
            && self
                .limit
                .allows(state.held(client), state.used, amount, false);
        is_free.then(|| {
            let ticket = state.ticket();
            state.add(client, amount);
            self.permit(client, ticket, amount)
        })
    }

    /// Waits for the client's turn and until this much is free.
    ///
    /// # Errors
    /// The request exceeds the total, or the client has too many waiting requests.
    pub async fn acquire(
        self: &Arc<Self>,
        client: &C,
        amount: u64,
    ) -> Result<Permit<C>, AcquireError> {
        let ticket = self.state.lock().ticket();
        self.request(client, ticket, amount)?.await
    }

    /// As [`acquire`](Self::acquire), on a thread that may block.
    ///
    /// # Errors
    /// As for [`acquire`](Self::acquire).
    pub fn acquire_blocking(
        self: &Arc<Self>,
        client: &C,
        amount: u64,
    ) -> Result<Permit<C>, AcquireError> {
        let mut acquiring = pin!(self.acquire(client, amount));
        let waker = Arc::new(Unpark(thread::current())).into();
        let mut context = Context::from_waker(&waker);
        loop {
            match acquiring.as_mut().poll(&mut context) {
                Poll::Ready(acquired) => return acquired,
                Poll::Pending => thread::park(),
            }
        }
    }

    /// Adds a request to the queue.
    fn request(
        self: &Arc<Self>,
        client: &C,
        ticket: Ticket,
        amount: u64,
    ) -> Result<Waiting<C>, AcquireError> {
        if amount > self.total() {
            return Err(AcquireError::TooMuch);
        }
        let grant = Arc::new(Mutex::new(Grant::Pending(None)));
        let mut state = self.state.lock();
        if state.waiting.len_of(client) >= MOST_WAITING {
            return Err(AcquireError::TooMany);
        }
        let waiter = Waiter {
            ticket,
            amount,
            grant: Arc::clone(&grant),
        };
        state.waiting.push(client, waiter);
        self.serve(state);
        Ok(Waiting {
            semaphore: Arc::clone(self),
            client: client.clone(),
            number: ticket.number,
            grant,
        })
    }

    fn permit(self: &Arc<Self>, client: &C, ticket: Ticket, amount: u64) -> Permit<C> {
        Permit {
            semaphore: Arc::clone(self),
            client: client.clone(),
            ticket,
            amount,
        }
    }

    /// Grants what is free to waiting clients.
    fn serve(self: &Arc<Self>, mut state: MutexGuard<'_, State<C>>) {
        let mut granted = Vec::new();
        loop {
            let State {
                used,
                held,
                waiting,
                ..
            } = &mut *state;
            let others_wait = waiting.first().nth(1).is_some();
            let mut is_blocked = false;
            let next = waiting.pop_if(|client, waiter| {
                let held = held.get(client).copied().unwrap_or(0);
                let allowed = self.limit.allows(held, *used, waiter.amount, others_wait)
                    && (!is_blocked || held + waiter.amount <= self.limit.small());
                is_blocked |= !allowed && held == 0 && self.is_late(waiter.ticket);
                allowed
            });
            let Some((client, waiter)) = next else { break };
            state.add(&client, waiter.amount);
            let permit = self.permit(&client, waiter.ticket, waiter.amount);
            granted.push((waiter.grant, permit));
        }
        drop(state);
        for (grant, permit) in granted {
            // A cancelled request returns its permit when the grant is dropped.
            let before = std::mem::replace(&mut *grant.lock(), Grant::Granted(permit));
            if let Grant::Pending(Some(waker)) = before {
                waker.wake();
            }
        }
    }

    /// Returns true if a waiting request may no longer be passed by others.
    fn is_late(&self, ticket: Ticket) -> bool {
        ticket.arrival.elapsed() >= self.patience
    }
}

impl<C: Clone + Ord> State<C> {
    fn held(&self, client: &C) -> u64 {
        self.held.get(client).copied().unwrap_or(0)
    }

    fn ticket(&mut self) -> Ticket {
        self.next += 1;
        Ticket {
            number: self.next,
            arrival: Instant::now(),
        }
    }

    fn add(&mut self, client: &C, amount: u64) {
        if amount > 0 {
            self.used += amount;
            *self.held.entry(client.clone()).or_default() += amount;
        }
    }

    fn subtract(&mut self, client: &C, amount: u64) {
        self.used -= amount;
        if let Some(held) = self.held.get_mut(client) {
            *held -= amount;
            if *held == 0 {
                self.held.remove(client);
            }
        }
    }
}

impl<C: Clone + Ord> Permit<C> {
    /// Returns its amount.
    pub fn amount(&self) -> u64 {
        self.amount
    }

    /// Returns its semaphore.
    pub fn semaphore(&self) -> &FairSemaphore<C> {
        &self.semaphore
    }

    /// Grows by this much if that fits immediately, as one request for the whole would; returns false if it does not.
    pub fn try_grow(&mut self, amount: u64) -> bool {
        if amount == 0 {
            return true;
        }
        let semaphore = &*self.semaphore;
        let Some(whole) = self.amount.checked_add(amount) else {
            return false;
        };
        let mut state = semaphore.state.lock();
        let held = state.held(&self.client) - self.amount;
        let others_wait = state.waiting.first().any(|(it, _)| *it != self.client);
        let is_blocked = || {
            state.waiting.first().any(|(client, waiter)| {
                waiter.ticket.number < self.ticket.number
                    && state.held(client) == 0
                    && semaphore.is_late(waiter.ticket)
            })
        };
        let limit = semaphore.limit;
        let allowed = limit.allows(held, state.used - self.amount, whole, others_wait)
            && (held.saturating_add(whole) <= limit.small() || !is_blocked());
        if allowed {
            state.add(&self.client, amount);
            self.amount = whole;
        }
        allowed
    }

    /// Returns the permit, and waits for one of another amount as a request that arrived with this one.
    ///
    /// # Errors
    /// As for [`FairSemaphore::acquire`].
    pub async fn exchange(self, amount: u64) -> Result<Self, AcquireError> {
        let (semaphore, client) = (Arc::clone(&self.semaphore), self.client.clone());
        let ticket = self.ticket;
        drop(self);
        semaphore.request(&client, ticket, amount)?.await
    }
}

impl<C: Clone + Ord> Drop for Permit<C> {
    fn drop(&mut self) {
        if self.amount > 0 {
            let mut state = self.semaphore.state.lock();
            state.subtract(&self.client, self.amount);
            self.semaphore.serve(state);
        }
    }
}

/// Request in the queue, which it leaves when dropped.
struct Waiting<C: Clone + Ord> {
    semaphore: Arc<FairSemaphore<C>>,
    client: C,
    number: u64,
    grant: Arc<Mutex<Grant<C>>>,
}

impl<C: Clone + Ord> Future for Waiting<C> {
    type Output = Result<Permit<C>, AcquireError>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let mut grant = self.grant.lock();
        match std::mem::replace(&mut *grant, Grant::Taken) {
            Grant::Granted(permit) => Poll::Ready(Ok(permit)),
            Grant::Pending(_) | Grant::Taken => {
                *grant = Grant::Pending(Some(context.waker().clone()));
                Poll::Pending
            }
        }
    }
}

impl<C: Clone + Ord> Drop for Waiting<C> {
    fn drop(&mut self) {
        let mut state = self.semaphore.state.lock();
        let is_meant = |waiter: &Waiter<C>| waiter.ticket.number == self.number;
        if state.waiting.remove(&self.client, is_meant) {
            self.semaphore.serve(state);
        }
    }
}

/// Waker of a blocked thread.
struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU64, Ordering};

    type Semaphore = FairSemaphore<&'static str>;

    fn poll<T>(future: &mut Pin<&mut impl Future<Output = T>>) -> Option<T> {
        let mut context = Context::from_waker(Waker::noop());
        match future.as_mut().poll(&mut context) {
            Poll::Ready(value) => Some(value),
            Poll::Pending => None,
        }
    }

    fn now(
        semaphore: &Arc<Semaphore>,
        client: &'static str,
        amount: u64,
    ) -> Option<Permit<&'static str>> {
        poll(&mut pin!(semaphore.acquire(&client, amount))).map(Result::unwrap)
    }

    fn slots(all: u64, per_client: u64) -> Arc<Semaphore> {
        FairSemaphore::new(ShareLimit::Fixed {
            all,
            per_client,
            reserved: all / 4,
        })
    }

    #[test]
    fn the_reserved_part_is_for_clients_without_permits() {
        let semaphore = slots(16, 4);
        let mut held = Vec::new();
        for name in ["a", "b", "c"] {
            held.extend((0..4).map(|_| now(&semaphore, name, 1).unwrap()));
            assert!(now(&semaphore, name, 1).is_none());
        }
        // Four slots are left: four more clients get one each, and no second one.
        for name in ["d", "e", "f", "g"] {
            held.push(now(&semaphore, name, 1).unwrap());
            assert!(now(&semaphore, name, 1).is_none());
        }
        assert!(now(&semaphore, "h", 1).is_none());
        held.remove(0);
        assert!(now(&semaphore, "a", 1).is_none());
        assert!(now(&semaphore, "h", 1).is_some());
        drop(held);
        assert_eq!((semaphore.used(), semaphore.waiting()), (0, 0));
    }

    #[test]
    fn a_client_has_at_most_half_of_what_others_leave() {
        let semaphore = FairSemaphore::new(ShareLimit::HalfOfRest { all: 1000 });
        let mut held = vec![now(&semaphore, "a", 400).unwrap()];
        assert!(now(&semaphore, "a", 101).is_none());
        held.push(now(&semaphore, "a", 100).unwrap());
        held.push(now(&semaphore, "b", 250).unwrap());
        assert!(now(&semaphore, "b", 1).is_none());
        // One request is always granted if it fits.
        held.push(now(&semaphore, "c", 250).unwrap());
        assert!(now(&semaphore, "d", 1).is_none());
        held.remove(0);
        assert!(now(&semaphore, "d", 1).is_some());
        let never = poll(&mut pin!(semaphore.acquire(&"d", 1001)));
        assert_eq!(never.unwrap().unwrap_err(), AcquireError::TooMuch);
    }

    #[test]
    fn a_client_has_at_most_half_while_others_wait() {
        let (all, small) = (100, 5);
        let semaphore = FairSemaphore::new(ShareLimit::HalfIfContended { all, small });
        let first = now(&semaphore, "a", 40).unwrap();
        let second = now(&semaphore, "a", 30).unwrap();
        let mut other = pin!(semaphore.acquire(&"b", 50));
        assert!(poll(&mut other).is_none());
        assert!(now(&semaphore, "a", 20).is_none());
        drop(second);
        let other = poll(&mut other).unwrap();
        assert!(now(&semaphore, "a", 10).is_some());
        // Without permits it may have more than half, which keeps two of them from waiting for each other.
        drop((first, other));
        assert!(now(&semaphore, "b", 100).is_some());
    }

    #[test]
    fn clients_take_turns_whatever_each_of_them_requests() {
        let semaphore = slots(1, 100);
        let mut last = now(&semaphore, "x", 1);
        let order = ["a", "a", "a", "b", "b", "c"];
        let mut waiting: Vec<_> = order
            .iter()
            .map(|it| Box::pin(semaphore.acquire(it, 1)))
            .collect();
        let mut served = Vec::new();
        assert!(
            waiting
                .iter_mut()
                .all(|it| poll(&mut it.as_mut()).is_none())
        );
        while !waiting.is_empty() {
            drop(last.take());
            let (at, permit) = waiting
                .iter_mut()
                .enumerate()
                .find_map(|(at, it)| Some((at, poll(&mut it.as_mut())?)))
                .unwrap();
            let permit = permit.unwrap();
            served.push(permit.client);
            last = Some(permit);
            drop(waiting.remove(at));
        }
        assert_eq!(served.concat(), "abcaba");
    }

    /// Returns true if a small request passes a large one that waits.
    fn passes(patience: Duration, small: u64) -> bool {
        let all = 100;
        let limit = ShareLimit::HalfIfContended { all, small };
        let semaphore = FairSemaphore::with_patience(limit, patience);
        let first = now(&semaphore, "a", 50).unwrap();
        let mut large = pin!(semaphore.acquire(&"b", 80));
        assert!(poll(&mut large).is_none());
        // One that waits for its own client blocks no other.
        let mut own = pin!(semaphore.acquire(&"a", 60));
        assert!(poll(&mut own).is_none());
        let passed = now(&semaphore, "c", 10).is_some();
        let mut grown = semaphore.empty(&"c");
        assert_eq!(grown.try_grow(10), passed);
        drop((grown, first));
        assert!(poll(&mut large).is_some());
        passed
    }

    #[test]
    fn a_large_request_is_passed_for_a_while_only() {
        assert!(passes(PATIENCE, 0));
        assert!(!passes(Duration::ZERO, 9));
        assert!(passes(Duration::ZERO, 10));
    }

    #[test]
    fn a_permit_grows_as_one_request_for_the_whole_would() {
        let (all, small) = (100, 5);
        let semaphore = FairSemaphore::new(ShareLimit::HalfIfContended { all, small });
        let [mut a, mut b] = ["a", "b"].map(|it| semaphore.empty(&it));
        assert!(a.try_grow(40) && a.try_grow(20) && !a.try_grow(41));
        assert!(b.try_grow(30) && !b.try_grow(30));
        assert_eq!((a.amount(), semaphore.used()), (60, 90));
        // It waits until the whole is free; what it held is free meanwhile.
        let mut whole = pin!(b.exchange(60));
        assert!(poll(&mut whole).is_none());
        assert_eq!(semaphore.used(), 60);
        drop(a);
        let mut whole = poll(&mut whole).unwrap().unwrap();
        assert!(whole.try_grow(40) && !whole.try_grow(u64::MAX));
        drop(whole);
        assert_eq!(semaphore.held(&"b"), 0);
    }

    #[test]
    fn cancelled_requests_are_in_no_ones_way() {
        let semaphore = slots(1, 1);
        let held = now(&semaphore, "a", 1).unwrap();
        let mut left = Box::pin(semaphore.acquire(&"b", 1));
        assert!(poll(&mut left.as_mut()).is_none());
        let mut behind = pin!(semaphore.acquire(&"c", 1));
        assert!(poll(&mut behind).is_none());
        assert!(semaphore.try_acquire(&"d", 1).is_none());
        // Granted, and dropped before it was polled.
        drop(held);
        drop(left);
        assert_eq!(poll(&mut behind).unwrap().unwrap().client, "c");
        assert!(semaphore.try_acquire(&"d", 1).is_some());
        assert!(semaphore.state.lock().held.is_empty());
    }

    #[test]
    fn a_client_does_not_fill_the_queue() {
        let semaphore = slots(1, 1);
        let _held = now(&semaphore, "a", 1).unwrap();
        let acquire = |_| Box::pin(semaphore.acquire(&"b", 1));
        let mut waiting: Vec<_> = (0..MOST_WAITING).map(acquire).collect();
        waiting
            .iter_mut()
            .for_each(|it| assert!(poll(&mut it.as_mut()).is_none()));
        let more = poll(&mut pin!(semaphore.acquire(&"b", 1)));
        assert_eq!(more.unwrap().unwrap_err(), AcquireError::TooMany);
        assert!(poll(&mut pin!(semaphore.acquire(&"c", 1))).is_none());
    }

    #[test]
    fn no_more_threads_work_than_there_are_permits() {
        let (semaphore, at_work) = (Semaphore::new(ShareLimit::total(2)), AtomicU64::new(0));
        let work = || {
            for _ in 0..100 {
                let _permit = semaphore.acquire_blocking(&"a", 1).unwrap();
                let others = at_work.fetch_add(1, Ordering::SeqCst);
                assert!(others < 2);
                thread::yield_now();
                at_work.fetch_sub(1, Ordering::SeqCst);
            }
        };
        thread::scope(|scope| {
            for _ in 0..5 {
                scope.spawn(work);
            }
        });
    }
}
