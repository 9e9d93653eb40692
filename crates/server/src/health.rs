//! The standard health service, which anyone may call.

use crate::guarded::Guarded;
use crate::received::{Received, SMALL};
use std::convert::Infallible;
use std::sync::Arc;
use std::task::{Context, Poll};
use tokio::sync::Semaphore;
use tonic::Status;
use tonic::body::Body;
use tonic::codegen::{BoxFuture, Bytes, Service, StdError, http};
use tonic::server::NamedService;
use tonic_health::ServingStatus;
use tonic_health::server::HealthReporter;

/// Watches at a time: each lasts until its caller ends it.
const MOST_WATCHES: usize = 1024;

/// The health service, for a limited number of watches at a time.
#[derive(Clone)]
pub(crate) struct Health<S> {
    service: S,
    watches: Arc<Semaphore>,
}

impl<S> Health<S> {
    pub(crate) fn new(service: S) -> Self {
        Self {
            service,
            watches: Arc::new(Semaphore::new(MOST_WATCHES)),
        }
    }
}

impl<S: NamedService> NamedService for Health<S> {
    const NAME: &'static str = S::NAME;
}

impl<S, B> Service<http::Request<Body>> for Health<S>
where
    S: Service<http::Request<Body>, Response = http::Response<B>, Error = Infallible>,
    S::Future: Send + 'static,
    B: http_body::Body<Data = Bytes> + Send + 'static,
    B::Error: Into<StdError>,
{
    type Response = http::Response<Body>;
    type Error = Infallible;
    type Future = BoxFuture<Self::Response, Infallible>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        self.service.poll_ready(context)
    }

    fn call(&mut self, request: http::Request<Body>) -> Self::Future {
        let is_watch = request.uri().path().ends_with("/Watch");
        let permit = match is_watch.then(|| Arc::clone(&self.watches).try_acquire_owned()) {
            Some(Err(_)) => {
                let refusal = Status::resource_exhausted(format!(
                    "{MOST_WATCHES} callers watch this server's health, which is the most at a time; ask with Check, or try again later"
                ));
                return Box::pin(async move { Ok(refusal.into_http()) });
            }
            Some(Ok(permit)) => Some(permit),
            None => None,
        };
        let request = request.map(|body| Body::new(Received::new(body, SMALL, None)));
        let response = self.service.call(request);
        Box::pin(async move {
            let body = response.await?.map(Body::new);
            Ok(body.map(|body| Body::new(Guarded::new(body, permit))))
        })
    }
}

/// Tells watchers of these services that nothing is served any more and ends their calls, which the server would
/// otherwise wait for; whoever asks again is told the same.
pub(crate) async fn say_farewell(health: &mut HealthReporter, services: &[&str]) {
    for service in services {
        let stopped = ServingStatus::NotServing;
        health.set_service_status(service, stopped).await;
        health.clear_service_status(service).await;
        health.set_service_status(service, stopped).await;
    }
}
