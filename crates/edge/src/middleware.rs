//! Middleware around the calls of a service, and observers of request and answer bodies: implements the traits of the
//! HTTP libraries once for all of it.

use http_body::{Frame, SizeHint};
use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use tonic::Status;
use tonic::body::Body;
use tonic::codegen::{BoxFuture, Bytes, Service, StdError, http};
use tonic::server::NamedService;

/// Future answer.
pub type Answer = BoxFuture<http::Response<Body>, Infallible>;

/// Service behind a middleware, ready for one request.
pub type Next = Box<dyn FnOnce(http::Request<Body>) -> Answer + Send>;

/// Middleware around each call of a service.
pub trait Middleware: Send + Sync + 'static {
    /// Answers a call, by the service or in its place.
    fn handle(self: &Arc<Self>, request: http::Request<Body>, next: Next) -> Answer;
}

/// Service behind a middleware.
pub struct Wrapped<M, S> {
    middleware: Arc<M>,
    service: S,
}

impl<M, S: Clone> Clone for Wrapped<M, S> {
    fn clone(&self) -> Self {
        Self {
            middleware: Arc::clone(&self.middleware),
            service: self.service.clone(),
        }
    }
}

impl<M: Middleware, S> Wrapped<M, S> {
    /// Puts a middleware before a service.
    pub fn new(middleware: &Arc<M>, service: S) -> Self {
        Self {
            middleware: Arc::clone(middleware),
            service,
        }
    }
}

impl<M, S: NamedService> NamedService for Wrapped<M, S> {
    const NAME: &'static str = S::NAME;
}

impl<M, S, B> Service<http::Request<Body>> for Wrapped<M, S>
where
    M: Middleware,
    S: Service<http::Request<Body>, Response = http::Response<B>, Error = Infallible>
        + Clone
        + Send
        + 'static,
    S::Future: Send + 'static,
    B: http_body::Body<Data = Bytes> + Send + 'static,
    B::Error: Into<StdError>,
{
    type Response = http::Response<Body>;
    type Error = Infallible;
    type Future = Answer;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        self.service.poll_ready(context)
    }

    fn call(&mut self, request: http::Request<Body>) -> Answer {
        // Leave the clone behind: the original is ready.
        let clone = self.service.clone();
        let mut service = std::mem::replace(&mut self.service, clone);
        let next = move |request| -> Answer {
            let answer = service.call(request);
            Box::pin(async move { Ok(answer.await?.map(Body::new)) })
        };
        self.middleware.handle(request, Box::new(next))
    }
}

/// Observer of the frames of a body, dropped with it.
pub trait Observer: Send + Unpin + 'static {
    /// Receives the next frame, or the error in its place, and may modify it.
    fn observe(&mut self, frame: &mut Result<Frame<Bytes>, Status>);
}

/// Observed body.
struct ObservedBody<O> {
    body: Body,
    observer: O,
}

/// Wraps a body to pass each frame to the observer.
pub fn observed(body: Body, observer: impl Observer) -> Body {
    Body::new(ObservedBody { body, observer })
}

/// Wraps a body to hold a guard until it is dropped.
pub fn holding<G: Send + Unpin + 'static>(body: Body, guard: G) -> Body {
    observed(body, Guard { _guard: guard })
}

struct Guard<G> {
    _guard: G,
}

impl<G: Send + Unpin + 'static> Observer for Guard<G> {
    fn observe(&mut self, _: &mut Result<Frame<Bytes>, Status>) {}
}

impl<O: Observer> http_body::Body for ObservedBody<O> {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        let mut frame = Pin::new(&mut self.body).poll_frame(context);
        if let Poll::Ready(Some(frame)) = &mut frame {
            self.observer.observe(frame);
        }
        frame
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
