//! Whose turn it is: start-time fair queueing over clients (Goyal, Vin and Cheng, 1996).
//!
//! Every client has a clock that runs with the microseconds of work done for it, and the next task
//! is taken from the client whose clock is furthest behind among those that have a task to give. A
//! client that comes, or comes back after it had none, starts at the clock of those being served:
//! waiting earns nothing and costs nothing. The jobs of one client take turns.

use crate::clients::Client;
use std::collections::VecDeque;
use std::sync::Arc;

/// The jobs of all clients.
pub(crate) struct FairQueue<J: ?Sized> {
    shares: Vec<Share<J>>,
    /// Where clients start: the furthest that the clock of a client was when its turn came.
    clock: u64,
}

struct Share<J: ?Sized> {
    client: Client,
    jobs: VecDeque<Arc<J>>,
    clock: u64,
    /// What its last task cost, and so the next is expected to.
    typical: u64,
    running: usize,
    /// Its next job that has a task to give, when last looked for.
    ready: Option<usize>,
}

/// A job whose next task is to be done.
pub(crate) struct Turn<J: ?Sized> {
    pub(crate) job: Arc<J>,
    client: Client,
    /// What its client was charged in advance.
    expected: u64,
}

impl<J: ?Sized> FairQueue<J> {
    pub(crate) fn new() -> Self {
        Self {
            shares: Vec::new(),
            clock: 0,
        }
    }

    pub(crate) fn push(&mut self, client: &Client, job: Arc<J>) {
        match self.share(client) {
            Some(share) => share.jobs.push_back(job),
            None => self.shares.push(Share {
                client: client.clone(),
                jobs: [job].into(),
                clock: self.clock,
                typical: 0,
                running: 0,
                ready: None,
            }),
        }
    }

    /// The next turn, if there is a job that has a task to give.
    pub(crate) fn next(&mut self, has_task: impl Fn(&J) -> bool) -> Option<Turn<J>> {
        for share in &mut self.shares {
            let ready = share.jobs.iter().position(|job| has_task(job));
            if share.ready.is_none() && ready.is_some() {
                share.clock = share.clock.max(self.clock);
            }
            share.ready = ready;
        }
        let share = self
            .shares
            .iter_mut()
            .filter(|share| share.ready.is_some())
            .min_by_key(|share| (share.clock, share.running))?;
        let job = share.jobs.remove(share.ready?)?;
        share.jobs.push_back(Arc::clone(&job));
        self.clock = self.clock.max(share.clock);
        // Charged now, so that threads that ask at the same time do not all serve one client.
        share.clock += share.typical;
        share.running += 1;
        Some(Turn {
            job,
            client: share.client.clone(),
            expected: share.typical,
        })
    }

    /// The turn was the last of its job.
    pub(crate) fn finish(&mut self, turn: &Turn<J>) {
        self.remove(&turn.client, &turn.job);
    }

    /// The turn is over; its task has cost this many microseconds.
    pub(crate) fn settle(&mut self, turn: &Turn<J>, microseconds: u64) {
        if let Some(share) = self.share(&turn.client) {
            share.clock = (share.clock + microseconds).saturating_sub(turn.expected);
            share.typical = microseconds;
            share.running -= 1;
        }
        self.forget_the_idle();
    }

    /// The job gives no more tasks.
    pub(crate) fn remove(&mut self, client: &Client, job: &Arc<J>) {
        if let Some(share) = self.share(client) {
            share.jobs.retain(|other| !Arc::ptr_eq(other, job));
        }
        self.forget_the_idle();
    }

    fn share(&mut self, client: &Client) -> Option<&mut Share<J>> {
        self.shares.iter_mut().find(|share| share.client == *client)
    }

    fn forget_the_idle(&mut self) {
        self.shares
            .retain(|share| share.running > 0 || !share.jobs.is_empty());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;
    use std::collections::BTreeMap;

    /// A job with no end, whose tasks all cost the same.
    struct Endless {
        name: &'static str,
        cost: u64,
        ready: Cell<bool>,
    }

    struct Scene {
        queue: FairQueue<Endless>,
        jobs: Vec<(Client, Arc<Endless>)>,
    }

    impl Scene {
        fn new() -> Self {
            Self {
                queue: FairQueue::new(),
                jobs: Vec::new(),
            }
        }

        fn push(&mut self, client: &str, name: &'static str, cost: u64) -> Arc<Endless> {
            let client = Client::Named(client.into());
            let ready = Cell::new(true);
            #[allow(clippy::arc_with_non_send_sync, reason = "one thread stands for all")]
            let job = Arc::new(Endless { name, cost, ready });
            self.queue.push(&client, Arc::clone(&job));
            self.jobs.push((client, Arc::clone(&job)));
            job
        }

        /// Tasks done for each client by `workers` that begin and end their tasks together.
        fn work(&mut self, workers: usize, rounds: usize) -> BTreeMap<String, usize> {
            let mut done = BTreeMap::new();
            for _ in 0..rounds {
                let turns: Vec<_> = (0..workers)
                    .map_while(|_| self.queue.next(|job| job.ready.get()))
                    .collect();
                for turn in &turns {
                    self.queue.settle(turn, turn.job.cost);
                    *done.entry(turn.client.to_string()).or_default() += 1;
                }
            }
            done
        }
    }

    #[track_caller]
    fn assert_near(found: usize, expected: usize, tolerance: usize) {
        assert!(
            found.abs_diff(expected) <= tolerance,
            "{found} tasks instead of {expected}"
        );
    }

    #[test]
    fn many_queries_get_no_more_than_one() {
        for workers in [1, 2, 3, 8] {
            let mut scene = Scene::new();
            for _ in 0..50 {
                scene.push("many", "", 1000);
            }
            scene.push("one", "", 1000);
            let done = scene.work(workers, 400);
            assert_near(done["one"], 200 * workers, workers);
            assert_near(done["many"], 200 * workers, workers);
        }
    }

    #[test]
    fn shares_are_of_work_not_of_tasks() {
        for workers in [1, 4] {
            let mut scene = Scene::new();
            scene.push("long", "", 3000);
            scene.push("short", "", 1000);
            let done = scene.work(workers, 400);
            assert_near(done["long"], 100 * workers, 2 * workers);
            assert_near(done["short"], 300 * workers, 2 * workers);
        }
    }

    #[test]
    fn a_newcomer_is_neither_starved_nor_privileged() {
        let mut scene = Scene::new();
        scene.push("old", "", 1000);
        scene.work(2, 1000);
        scene.push("new", "", 1000);
        let done = scene.work(2, 50);
        assert_near(done["old"], 50, 2);
        assert_near(done["new"], 50, 2);
    }

    #[test]
    fn waiting_for_a_slow_reader_earns_nothing() {
        let mut scene = Scene::new();
        scene.push("quick", "", 1000);
        let slow = scene.push("slow", "", 1000);
        scene.work(2, 10);
        slow.ready.set(false);
        assert_eq!(scene.work(2, 1000).get("slow"), None);
        slow.ready.set(true);
        let done = scene.work(2, 50);
        assert_near(done["quick"], 50, 2);
        assert_near(done["slow"], 50, 2);
    }

    #[test]
    fn threads_that_ask_at_once_are_shared_too() {
        let mut scene = Scene::new();
        scene.push("a", "", 1000);
        scene.push("b", "", 1000);
        scene.work(8, 1);
        assert_eq!(
            scene.work(8, 1),
            BTreeMap::from([("a".to_owned(), 4), ("b".to_owned(), 4)])
        );
    }

    #[test]
    fn the_queries_of_a_client_take_turns() {
        let mut scene = Scene::new();
        let jobs = ["1", "2", "3"].map(|name| scene.push("one", name, 1000));
        jobs[1].ready.set(false);
        let mut names = |rounds: usize| -> Vec<&str> {
            (0..rounds)
                .map(|_| {
                    let turn = scene.queue.next(|job| job.ready.get()).unwrap();
                    scene.queue.settle(&turn, 1000);
                    turn.job.name
                })
                .collect()
        };
        assert_eq!(names(4), ["1", "3", "1", "3"]);
        jobs[1].ready.set(true);
        assert_eq!(names(6), ["2", "1", "3", "2", "1", "3"]);
    }

    #[test]
    fn what_is_removed_gets_no_turn_and_leaves_nothing() {
        let mut scene = Scene::new();
        scene.push("a", "", 1000);
        scene.push("b", "", 1000);
        let turn = scene.queue.next(|_| true).unwrap();
        for (client, job) in std::mem::take(&mut scene.jobs) {
            scene.queue.remove(&client, &job);
        }
        assert!(scene.queue.next(|_| true).is_none());
        scene.queue.settle(&turn, 1000);
        assert!(scene.queue.shares.is_empty());
    }
}
