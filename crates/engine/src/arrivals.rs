//! Panels as they come into memory: the tasks that wait for them become ready, and whoever sleeps
//! meanwhile is told.

use oboro_store::{Arrival, StoreError};
use oboro_tasks::{Datum, Schedule};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

/// Called when there may be a task that was not ready before.
type News = Box<dyn Fn() + Send + Sync>;

/// The schedule of a count and what it learns from the stream of its panels.
pub(crate) struct Arrivals {
    pub(crate) schedule: Schedule,
    /// What the task of each unit reads.
    inputs: Vec<Datum>,
    failure: Mutex<Option<StoreError>>,
    news: OnceLock<News>,
}

impl Arrivals {
    pub(crate) fn new(schedule: Schedule, inputs: Vec<Datum>) -> Self {
        Self {
            schedule,
            inputs,
            failure: Mutex::default(),
            news: OnceLock::new(),
        }
    }

    /// Tells `news` from now on, and at once what it may have missed.
    pub(crate) fn tell(&self, news: News) {
        self.news.get_or_init(|| news)();
    }

    pub(crate) fn take(&self, arrival: Arrival) {
        match arrival {
            Arrival::Unit(unit) => self.schedule.arrived(self.inputs[unit]),
            Arrival::Failed(error) => {
                *self.failure() = Some(error);
                self.schedule.stop();
            }
        }
        if let Some(news) = self.news.get() {
            news();
        }
    }

    /// Why the stream failed, if it has and nobody was told.
    pub(crate) fn failure(&self) -> MutexGuard<'_, Option<StoreError>> {
        self.failure.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
