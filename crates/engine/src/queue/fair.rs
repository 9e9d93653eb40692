//! Start-time fair queueing over clients (Goyal, Vin and Cheng, 1996).
//!
//! Every client is a flow, whose virtual time runs with the microseconds of work done for it. The next slice goes to
//! the flow with the least virtual time among those with a ready job. A client that arrives, or returns after being
//! idle, starts at the virtual time of those being served: idling earns no credit and costs none. The jobs of one
//! client are served round-robin.

use std::collections::VecDeque;
use std::sync::Arc;

/// Jobs of all clients.
pub(crate) struct Flows<C, J: ?Sized> {
    flows: Vec<Flow<C, J>>,
    /// Start of new flows: the largest virtual time of a flow when it was served.
    virtual_time: u64,
}

struct Flow<C, J: ?Sized> {
    client: C,
    jobs: VecDeque<Arc<J>>,
    virtual_time: u64,
    /// Cost of its last slice, the estimate for the next.
    estimate: u64,
    running: usize,
    /// Its next job that was ready when last checked.
    ready: Option<usize>,
}

/// Time slice: permission to run the next task of a job.
pub struct Slice<C, J: ?Sized> {
    /// Job.
    pub job: Arc<J>,
    /// Client whose job it is.
    pub client: C,
    /// Cost charged to the client in advance.
    charged: u64,
}

impl<C: Clone + PartialEq, J: ?Sized> Flows<C, J> {
    pub(crate) fn new() -> Self {
        Self {
            flows: Vec::new(),
            virtual_time: 0,
        }
    }

    pub(crate) fn push(&mut self, client: &C, job: Arc<J>) {
        match self.flow(client) {
            Some(flow) => flow.jobs.push_back(job),
            None => self.flows.push(Flow {
                client: client.clone(),
                jobs: [job].into(),
                virtual_time: self.virtual_time,
                estimate: 0,
                running: 0,
                ready: None,
            }),
        }
    }

    /// Number of jobs.
    pub(crate) fn jobs(&self) -> usize {
        self.flows.iter().map(|flow| flow.jobs.len()).sum()
    }

    /// Returns the next slice; `None` if no job is ready.
    pub(crate) fn next(&mut self, is_ready: impl Fn(&J) -> bool) -> Option<Slice<C, J>> {
        for flow in &mut self.flows {
            let ready = flow.jobs.iter().position(|job| is_ready(job));
            if flow.ready.is_none() && ready.is_some() {
                flow.virtual_time = flow.virtual_time.max(self.virtual_time);
            }
            flow.ready = ready;
        }
        let flow = self
            .flows
            .iter_mut()
            .filter(|flow| flow.ready.is_some())
            .min_by_key(|flow| (flow.virtual_time, flow.running))?;
        let job = flow.jobs.remove(flow.ready?)?;
        flow.jobs.push_back(Arc::clone(&job));
        self.virtual_time = self.virtual_time.max(flow.virtual_time);
        // Charged now, lest threads that ask at the same time all serve one client.
        flow.virtual_time += flow.estimate;
        flow.running += 1;
        Some(Slice {
            job,
            client: flow.client.clone(),
            charged: flow.estimate,
        })
    }

    /// Ends the job whose last slice this was.
    pub(crate) fn finish(&mut self, slice: &Slice<C, J>) {
        self.remove(&slice.client, &slice.job);
    }

    /// Ends a slice that cost `microseconds`.
    pub(crate) fn settle(&mut self, slice: &Slice<C, J>, microseconds: u64) {
        if let Some(flow) = self.flow(&slice.client) {
            flow.virtual_time = (flow.virtual_time + microseconds).saturating_sub(slice.charged);
            flow.estimate = microseconds;
            flow.running -= 1;
        }
        self.forget_the_idle();
    }

    /// Removes a job, which gets no more slices.
    pub(crate) fn remove(&mut self, client: &C, job: &Arc<J>) {
        if let Some(flow) = self.flow(client) {
            flow.jobs.retain(|other| !Arc::ptr_eq(other, job));
        }
        self.forget_the_idle();
    }

    fn flow(&mut self, client: &C) -> Option<&mut Flow<C, J>> {
        self.flows.iter_mut().find(|flow| flow.client == *client)
    }

    fn forget_the_idle(&mut self) {
        self.flows
            .retain(|flow| flow.running > 0 || !flow.jobs.is_empty());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;
    use std::collections::BTreeMap;

    /// Endless job whose tasks all cost the same.
    struct Endless {
        name: &'static str,
        cost: u64,
        ready: Cell<bool>,
    }

    struct Scene {
        flows: Flows<&'static str, Endless>,
        jobs: Vec<(&'static str, Arc<Endless>)>,
    }

    impl Scene {
        fn new() -> Self {
            Self {
                flows: Flows::new(),
                jobs: Vec::new(),
            }
        }

        fn push(&mut self, client: &'static str, name: &'static str, cost: u64) -> Arc<Endless> {
            let ready = Cell::new(true);
            #[allow(clippy::arc_with_non_send_sync, reason = "one thread stands for all")]
            let job = Arc::new(Endless { name, cost, ready });
            self.flows.push(&client, Arc::clone(&job));
            self.jobs.push((client, Arc::clone(&job)));
            job
        }

        /// Number of tasks done for each client by `workers` that begin and end their tasks together.
        fn work(&mut self, workers: usize, rounds: usize) -> BTreeMap<&'static str, usize> {
            let mut done = BTreeMap::new();
            for _ in 0..rounds {
                let slices: Vec<_> = (0..workers)
                    .map_while(|_| self.flows.next(|job| job.ready.get()))
                    .collect();
                for slice in &slices {
                    self.flows.settle(slice, slice.job.cost);
                    *done.entry(slice.client).or_default() += 1;
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
        assert_eq!(scene.work(8, 1), BTreeMap::from([("a", 4), ("b", 4)]));
    }

    #[test]
    fn the_jobs_of_a_client_are_served_round_robin() {
        let mut scene = Scene::new();
        let jobs = ["1", "2", "3"].map(|name| scene.push("one", name, 1000));
        jobs[1].ready.set(false);
        let mut names = |rounds: usize| -> Vec<&str> {
            (0..rounds)
                .map(|_| {
                    let slice = scene.flows.next(|job| job.ready.get()).unwrap();
                    scene.flows.settle(&slice, 1000);
                    slice.job.name
                })
                .collect()
        };
        assert_eq!(names(4), ["1", "3", "1", "3"]);
        jobs[1].ready.set(true);
        assert_eq!(names(6), ["2", "1", "3", "2", "1", "3"]);
    }

    #[test]
    fn what_is_removed_gets_no_slice_and_leaves_nothing() {
        let mut scene = Scene::new();
        scene.push("a", "", 1000);
        scene.push("b", "", 1000);
        let slice = scene.flows.next(|_| true).unwrap();
        for (client, job) in std::mem::take(&mut scene.jobs) {
            scene.flows.remove(&client, &job);
        }
        assert!(scene.flows.next(|_| true).is_none());
        scene.flows.settle(&slice, 1000);
        assert!(scene.flows.flows.is_empty());
    }
}
