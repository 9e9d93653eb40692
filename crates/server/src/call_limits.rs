//! Limits on the calls of a client: rate, concurrency, and memory for incoming messages, shared fairly across clients.
//! Queries wait for slots in `limits`; `scrubbing` refuses excess scrubs.

use crate::blocking;
use crate::calls::AdmittedFlag;
use crate::limits::Limits;
use crate::metering::Meter;
use crate::received::{Account, RequestBody, SMALL, longest};
use oboro_edge::{
    Answer, Audit, Caller, Client, Middleware, Next, RETRY_SOON, RateLimit, Subject, busy, holding,
};
use oboro_format::wording::MAX_CALLS_PER_SECOND;
use oboro_residency::{FairSemaphore, Permit, ShareLimit};
use std::sync::Arc;
use tokio::time::timeout;
use tonic::Status;
use tonic::body::Body;
use tonic::codegen::http;

/// Concurrent calls other than queries, uploads and scrubs. A slot is held until the answer was sent.
const LIGHT: ShareLimit = ShareLimit::Fixed {
    all: 64,
    per_client: 16,
    reserved: 16,
};
/// Concurrent segment uploads.
const UPLOADS: ShareLimit = ShareLimit::Fixed {
    all: 128,
    per_client: 32,
    reserved: 32,
};

/// Limits shared by the calls of all services.
pub(crate) struct CallLimits {
    limits: Limits,
    rate: RateLimit,
    light: Arc<FairSemaphore<Client>>,
    uploads: Arc<FairSemaphore<Client>>,
    messages: Arc<FairSemaphore<Client>>,
    meter: Arc<Meter>,
    audit: Option<Arc<Audit>>,
}

impl CallLimits {
    /// Creates limits with this much memory for incoming messages; `meter` counts calls and bytes. No call is admitted
    /// while `audit` cannot be written.
    pub(crate) fn new(
        limits: Limits,
        messages: u64,
        meter: &Arc<Meter>,
        audit: Option<&Arc<Audit>>,
    ) -> Arc<Self> {
        Arc::new(Self {
            limits,
            rate: RateLimit::new(limits.calls_per_second),
            light: FairSemaphore::new(LIGHT),
            uploads: FairSemaphore::new(UPLOADS),
            messages: FairSemaphore::new(ShareLimit::HalfOfRest { all: messages }),
            meter: Arc::clone(meter),
            audit: audit.cloned(),
        })
    }

    /// Returns the shared resources: slots of light calls, slots of uploads, bytes of messages.
    pub(crate) fn shares(&self) -> [&FairSemaphore<Client>; 3] {
        [&self.light, &self.uploads, &self.messages]
    }

    /// Counts a call of this client.
    ///
    /// # Errors
    /// An exceeded rate limit.
    pub(crate) fn count(&self, client: &Client) -> Result<(), Status> {
        self.rate.count(client).map_err(|wait| {
            busy(
                format!(
                    "this client makes too many calls: this server takes {} a second of one; try again in {} ms, or ask its operator to raise {MAX_CALLS_PER_SECOND}",
                    self.limits.calls_per_second,
                    wait.as_millis().max(1)
                ),
                wait,
            )
        })
    }

    /// Waits for the slot of a call, if its kind has slots here.
    async fn place(&self, client: &Client, call: &str) -> Result<Option<Permit<Client>>, Status> {
        let places = match call {
            "Count" | "FetchColumns" | "SearchGenome" | "Scrub" => return Ok(None),
            "SendSegment" | "KeepRecovery" => &self.uploads,
            _ => &self.light,
        };
        match timeout(self.limits.queue_time, places.acquire(client, 1)).await {
            Ok(Ok(place)) => Ok(Some(place)),
            _ => Err(busy(
                "the server works on as many calls as it takes at a time; try again when some have ended",
                RETRY_SOON,
            )),
        }
    }

    /// Returns the memory account of a call whose messages may be long.
    fn account(&self, client: &Client, call: &str) -> Option<Account> {
        let account = || Account::new(&self.messages, client, call, self.limits.queue_time);
        (longest(call, &self.limits) > SMALL).then(account)
    }
}

impl Middleware for CallLimits {
    /// Acquires shared resources for the call. The [`Caller`] is in the request.
    fn handle(self: &Arc<Self>, request: http::Request<Body>, next: Next) -> Answer {
        let caller = request.extensions().get::<Caller>();
        let client = caller.map_or(Client::Connected(None), |it| it.client.clone());
        let shared = Arc::clone(self);
        let request = request.map(|body| shared.meter.request(&client, body));
        if let Err(refusal) = shared.count(&client) {
            return Box::pin(async move { Ok(refusal.into_http()) });
        }
        let path = request.uri().path().to_owned();
        let call = path.rsplit('/').next().unwrap_or_default();
        if let Some(Err(refusal)) = shared.audit.as_ref().map(|it| it.check(&client, call)) {
            return Box::pin(async move { Ok(refusal.into_http()) });
        }
        AdmittedFlag::of(&request);
        Box::pin(async move {
            let call = path.rsplit('/').next().unwrap_or_default();
            let place = match shared.place(&client, call).await {
                Ok(place) => place,
                Err(refusal) => return Ok(refusal.into_http()),
            };
            let account = shared.account(&client, call);
            let received = account.clone();
            let request = request
                .map(|body| Body::new(RequestBody::of_call(body, call, &shared.limits, received)));
            let place = Arc::new(place);
            let subject = request.extensions().get::<Subject>().cloned();
            let held = Arc::new((Arc::clone(&place), account.clone(), subject));
            let response = blocking::holding(held, next(request)).await?;
            // The request was consumed, unless the handler still receives; it then holds the account.
            drop(account);
            Ok(response.map(|body| {
                let body = shared.meter.answer(&client, body);
                holding(body, place)
            }))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use http_body::Frame;
    use oboro_edge::Wrapped;
    use oboro_format::Roles;
    use oboro_protocol::RETRY_AFTER_KEY;
    use std::convert::Infallible;
    use std::future::{Ready, ready};
    use std::task::{Context, Poll};
    use std::time::Duration;
    use tonic::Code;
    use tonic::codegen::{Bytes, Service};

    /// Answers with an endless body.
    #[derive(Clone)]
    struct Endless;

    impl Service<http::Request<Body>> for Endless {
        type Response = http::Response<Body>;
        type Error = Infallible;
        type Future = Ready<Result<http::Response<Body>, Infallible>>;

        fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
            Poll::Ready(Ok(()))
        }

        fn call(&mut self, _: http::Request<Body>) -> Self::Future {
            let frames = tokio_stream::pending::<Result<Frame<Bytes>, Status>>();
            let body = Body::new(http_body_util::StreamBody::new(frames));
            ready(Ok(http::Response::new(body)))
        }
    }

    async fn call(
        service: &mut Wrapped<CallLimits, Endless>,
        name: &str,
        call: &str,
    ) -> Result<http::Response<Body>, Status> {
        let mut request = http::Request::new(Body::empty());
        *request.uri_mut() = format!("/oboro.v1.Mining/{call}").parse().unwrap();
        let caller = Caller::named(&name.into(), Roles::OWNER);
        request.extensions_mut().insert(caller);
        let response = service.call(request).await.unwrap();
        match Status::from_header_map(response.headers()) {
            Some(refusal) => Err(refusal),
            None => Ok(response),
        }
    }

    fn service(limits: Limits) -> Wrapped<CallLimits, Endless> {
        let meter = Arc::new(Meter::default());
        Wrapped::new(&CallLimits::new(limits, 1000, &meter, None), Endless)
    }

    #[tokio::test(start_paused = true)]
    async fn unread_answers_of_one_client_keep_their_places_and_no_others() {
        let mut service = service(Limits {
            queue_time: Duration::from_secs(3),
            ..Limits::default()
        });
        let mut answers = Vec::new();
        for _ in 0..16 {
            answers.push(call(&mut service, "a", "ListDatasets").await.unwrap());
        }
        let refusal = call(&mut service, "a", "BeginUpload").await.unwrap_err();
        assert_eq!(refusal.code(), Code::ResourceExhausted);
        assert!(refusal.metadata().contains_key(RETRY_AFTER_KEY));
        // Its queries and uploads, and other clients, have separate slots.
        for its in ["Count", "SendSegment"] {
            call(&mut service, "a", its).await.unwrap();
        }
        for other in ["b", "c", "d"] {
            for _ in 0..16 {
                answers.extend(call(&mut service, other, "ListDatasets").await.ok());
            }
        }
        // The last quarter is reserved for clients without a slot, as the fourth was at first.
        assert_eq!(answers.len(), 48 + 1);
        for other in ["e", "f", "g"] {
            answers.push(call(&mut service, other, "Publish").await.unwrap());
        }
        answers.remove(0);
        call(&mut service, "a", "BeginUpload").await.unwrap_err();
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_that_calls_too_often_gets_a_time_to_retry() {
        let mut service = service(Limits {
            calls_per_second: 2,
            ..Limits::default()
        });
        for _ in 0..10 {
            call(&mut service, "a", "Placement").await.unwrap();
        }
        let refusal = call(&mut service, "a", "Placement").await.unwrap_err();
        assert_eq!(refusal.code(), Code::ResourceExhausted);
        assert_eq!(refusal.metadata().get(RETRY_AFTER_KEY).unwrap(), "500");
        assert!(refusal.message().contains("--max-calls-per-second"));
        call(&mut service, "b", "Placement").await.unwrap();
        tokio::time::advance(Duration::from_millis(500)).await;
        call(&mut service, "a", "Placement").await.unwrap();
    }
}
