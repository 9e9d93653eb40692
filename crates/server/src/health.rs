//! Standard health service, which needs no credential.

use crate::received::{RequestBody, SMALL};
use oboro_edge::{Answer, Middleware, Next, holding};
use std::sync::Arc;
use tokio::sync::Semaphore;
use tonic::Status;
use tonic::body::Body;
use tonic::codegen::http;
use tonic_health::ServingStatus;
use tonic_health::server::HealthReporter;

/// Maximum number of concurrent watches: each lasts until its caller ends it.
const MOST_WATCHES: usize = 1024;

/// Limit on concurrent watches.
#[derive(Clone)]
pub(crate) struct Watches(Arc<Semaphore>);

impl Default for Watches {
    fn default() -> Self {
        Self(Arc::new(Semaphore::new(MOST_WATCHES)))
    }
}

impl Watches {
    /// Returns the number of watches.
    pub(crate) fn count(&self) -> usize {
        MOST_WATCHES - self.0.available_permits()
    }
}

impl Middleware for Watches {
    fn handle(self: &Arc<Self>, request: http::Request<Body>, next: Next) -> Answer {
        let is_watch = request.uri().path().ends_with("/Watch");
        let permit = match is_watch.then(|| Arc::clone(&self.0).try_acquire_owned()) {
            Some(Err(_)) => {
                let refusal = Status::resource_exhausted(format!(
                    "{MOST_WATCHES} callers watch this server's health, which is the most at a time; ask with Check, or try again later"
                ));
                return Box::pin(async move { Ok(refusal.into_http()) });
            }
            Some(Ok(permit)) => Some(permit),
            None => None,
        };
        let answer = next(request.map(|body| Body::new(RequestBody::new(body, SMALL, None))));
        Box::pin(async move { Ok(answer.await?.map(|body| holding(body, permit))) })
    }
}

/// Reports these services as `NOT_SERVING`, to watchers and new callers, before the server stops.
pub(crate) async fn say_not_serving(health: &HealthReporter, services: &[&str]) {
    for service in services {
        let stopping = ServingStatus::NotServing;
        health.set_service_status(service, stopping).await;
    }
}

/// Reports these services as `NOT_SERVING` for good and ends the watches, for which the server would otherwise wait.
pub(crate) async fn say_farewell(health: &mut HealthReporter, services: &[&str]) {
    say_not_serving(health, services).await;
    for service in services {
        health.clear_service_status(service).await;
    }
    say_not_serving(health, services).await;
}
