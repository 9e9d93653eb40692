//! Authentication: checks the protocol number and, if the operator requires one, a bearer token or client certificate.

use crate::audit::Subject;
use crate::auth_backoff::AuthBackoff;
use crate::callers::Caller;
use crate::clients::Client;
use crate::connections::Connection;
use crate::credentials::{Credential, Refusal};
use crate::middleware::{Answer, Middleware, Next};
use crate::readers;
use crate::throttled_log::ThrottledLog;
use crate::tls::Certificates;
use crate::tokens::Tokens;
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use http_body::{Frame, SizeHint};
use oboro_format::wording::{CLIENT_CERT, CLIENT_KEY, TOKEN_FILE};
use oboro_protocol::{PROTOCOL, PROTOCOL_KEY};
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};
use time::OffsetDateTime;
use tokio_util::sync::WaitForCancellationFutureOwned;
use tonic::body::Body;
use tonic::codegen::http::header::AUTHORIZATION;
use tonic::codegen::{Bytes, http};
use tonic::metadata::MetadataMap;
use tonic::{Code, Status};
use tracing::{Span, field};
use zeroize::Zeroizing;

/// This release, named in the error about another protocol.
const RELEASE: &str = env!("CARGO_PKG_VERSION");

/// Authentication shared by all services.
pub struct Authentication {
    tokens: Option<Arc<Tokens>>,
    /// `true` if clients may authenticate with certificates.
    certificates: bool,
    backoff: AuthBackoff,
    /// Throttled logs, one for each kind of refusal: a frequent kind must not hide another.
    refusals: [ThrottledLog; Refusal::KINDS],
}

impl Authentication {
    /// Creates the middleware for a server with these tokens and certificates.
    pub fn new(tokens: Option<Arc<Tokens>>, tls: Option<&Certificates>) -> Arc<Self> {
        Arc::new(Self {
            tokens,
            certificates: tls.is_some_and(Certificates::name_clients),
            backoff: AuthBackoff::default(),
            refusals: Default::default(),
        })
    }

    /// Returns the number of refused calls by reason.
    pub fn refused(&self) -> [(&'static str, u64); Refusal::KINDS] {
        let times = self.refusals.each_ref().map(ThrottledLog::total);
        std::array::from_fn(|kind| (Refusal::NAMES[kind], times[kind]))
    }

    /// Returns the caller and its credential, if one is required: a token or, without a token, the certificate of its
    /// connection.
    fn identify<B>(
        &self,
        request: &http::Request<B>,
    ) -> Result<(Caller, Option<Arc<Credential>>), Refusal> {
        if self.tokens.is_none() && !self.certificates {
            return Ok((Caller::connected(peer(request)), None));
        }
        let now = OffsetDateTime::now_utc();
        let certificate = connection(request).and_then(|it| it.certificate());
        let given = request.headers().get(AUTHORIZATION);
        let secret = given.map(|it| it.to_str().ok()?.strip_prefix("Bearer "));
        let credential = match (self.tokens.as_ref().zip(secret), certificate) {
            (Some((tokens, secret)), _) => {
                tokens.credential(secret.ok_or(Refusal::Malformed)?, now)?
            }
            (None, Some(certificate)) => certificate.credential(now)?,
            (None, None) => return Err(Refusal::Missing),
        };
        let caller = Caller::named(&credential.name, credential.roles);
        Ok((caller, Some(credential)))
    }

    /// Authenticates the viewer of a page by a token, sent as a bearer token or, by browsers, as a password for any
    /// user name. Failed attempts are delayed as for calls.
    ///
    /// # Errors
    /// No valid token.
    pub async fn viewer(
        &self,
        headers: &http::HeaderMap,
        peer: SocketAddr,
    ) -> Result<Caller, Status> {
        let Some(tokens) = &self.tokens else {
            return if self.certificates {
                Err(Status::unauthenticated(
                    "this server has no tokens, and pages want one",
                ))
            } else {
                Ok(Caller::connected(Some(peer)))
            };
        };
        let given = headers.get(AUTHORIZATION);
        let secret = given.map(|it| secret_of(it.to_str().ok()?));
        let credential = match secret {
            None => Err(Refusal::Missing),
            Some(None) => Err(Refusal::Malformed),
            Some(Some(secret)) => tokens.credential(&secret, OffsetDateTime::now_utc()),
        };
        match credential {
            Ok(credential) => Ok(Caller::named(&credential.name, credential.roles)),
            // Browsers prompt for the password on this status.
            Err(Refusal::Missing) => Err(Status::unauthenticated("a token is required")),
            Err(refusal) => {
                let (status, wait) = self.refuse(&refusal, Some(peer));
                tokio::time::sleep(wait).await;
                Err(status)
            }
        }
    }

    /// Returns the refusal for the caller and its delay. Only the log has the reason.
    fn refuse(&self, refusal: &Refusal, peer: Option<SocketAddr>) -> (Status, Duration) {
        self.refusals[refusal.kind()].log(|times| {
            let (reason, id) = (refusal.reason(), refusal.id());
            tracing::info!(reason, id, times, "a call was refused");
        });
        let wait = |peer: SocketAddr| self.backoff.delay(peer.ip(), Instant::now());
        let token = self.tokens.is_some();
        let token = token.then(|| ("a token", TOKEN_FILE.to_string()));
        let certificate = self.certificates.then(|| {
            let options = format!("{CLIENT_CERT} and {CLIENT_KEY}");
            ("a client certificate", options)
        });
        let ways: Vec<_> = token.into_iter().chain(certificate).collect();
        let joined = |words: Vec<&str>| words.join(" or ");
        let wanted = format!(
            "this server wants {} and got none or one that is not valid, or not any more; give the right one with {}, or ask its operator for one",
            joined(ways.iter().map(|it| it.0).collect()),
            joined(ways.iter().map(|it| &*it.1).collect()),
        );
        (refusal.status(&wanted), peer.map(wait).unwrap_or_default())
    }
}

impl Middleware for Authentication {
    /// Checks every call before reading its body; the handler finds the [`Caller`] in the request.
    fn handle(self: &Arc<Self>, mut request: http::Request<Body>, next: Next) -> Answer {
        let peer = peer(&request);
        let identified = self.identify(&request);
        let connected = Client::Connected(peer);
        let client = identified.as_ref().map_or(&connected, |it| &it.0.client);
        Span::current().record("client", field::display(client));
        let (mut caller, credential) = match identified {
            Ok(identified) => identified,
            Err(refusal) => {
                let (refusal, wait) = self.refuse(&refusal, peer);
                return Box::pin(async move {
                    if !wait.is_zero() {
                        tokio::time::sleep(wait).await;
                    }
                    Ok(refusal.into_http())
                });
            }
        };
        if let Err(refusal) = check_protocol(text(&request, PROTOCOL_KEY)) {
            return Box::pin(async move { Ok(refusal.into_http()) });
        }
        if let Some(connection) = connection(&request) {
            let ended = credential.as_ref().map(|it| it.end.ended.clone());
            if let Err(refusal) = connection.admit(&caller.client, ended.unwrap_or_default()) {
                return Box::pin(async move { Ok(refusal.into_http()) });
            }
        }
        if let Some(subject) = request.extensions().get::<Subject>() {
            caller.subject = subject.clone();
            let proof = credential.as_ref();
            let proof = proof.map(|it| (it.kind.name(), it.id.to_string()));
            subject.set_caller(&caller.client, proof, peer);
        }
        request.extensions_mut().insert(caller);
        let Some(credential) = credential else {
            return next(request);
        };
        Span::current().record(credential.kind.name(), field::display(&credential.id));
        readers::end_with(&credential.end.ended);
        let request = request.map(|body| Body::new(ExpiringBody::new(body, &credential, Err)));
        let response = next(request);
        Box::pin(async move {
            let response = tokio::select! {
                response = response => response?,
                () = credential.end.ended.cancelled() => return Ok(credential.farewell().into_http()),
            };
            Ok(response.map(|body| {
                Body::new(ExpiringBody::new(Body::new(body), &credential, |status| {
                    Ok(last_words(&status))
                }))
            }))
        })
    }
}

/// Extracts the token from the value of an authorization header.
fn secret_of(value: &str) -> Option<Zeroizing<String>> {
    if let Some(secret) = value.strip_prefix("Bearer ") {
        return Some(secret.to_owned().into());
    }
    let pair = BASE64_STANDARD.decode(value.strip_prefix("Basic ")?).ok()?;
    let pair = Zeroizing::new(String::from_utf8(pair).ok()?);
    let (_, secret) = pair.split_once(':')?;
    Some(secret.to_owned().into())
}

/// Body of a request or answer, which ends with the caller's credential.
struct ExpiringBody {
    body: Body,
    credential: Arc<Credential>,
    ended: Pin<Box<WaitForCancellationFutureOwned>>,
    /// Final frame or error of the body.
    end: fn(Status) -> Result<Frame<Bytes>, Status>,
    has_ended: bool,
}

impl ExpiringBody {
    fn new(
        body: Body,
        credential: &Arc<Credential>,
        end: fn(Status) -> Result<Frame<Bytes>, Status>,
    ) -> Self {
        Self {
            body,
            credential: Arc::clone(credential),
            ended: Box::pin(credential.end.ended.clone().cancelled_owned()),
            end,
            has_ended: false,
        }
    }
}

/// Returns trailers with this status, as the end of an answer.
fn last_words(status: &Status) -> Frame<Bytes> {
    let mut trailers = http::HeaderMap::new();
    // Trailers accept plain text.
    let _ = status.add_header(&mut trailers);
    Frame::trailers(trailers)
}

impl http_body::Body for ExpiringBody {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        if self.has_ended {
            return Poll::Ready(None);
        }
        if self.ended.as_mut().poll(context).is_ready() {
            self.has_ended = true;
            // Drop the body to free what the answer holds.
            self.body = Body::empty();
            return Poll::Ready(Some((self.end)(self.credential.farewell())));
        }
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.has_ended || self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// Returns the connection of a call.
fn connection<B>(request: &http::Request<B>) -> Option<&Connection> {
    request
        .extensions()
        .get::<Arc<Connection>>()
        .map(|it| &**it)
}

/// Returns the address of the peer, unless it is in this process.
fn peer<B>(request: &http::Request<B>) -> Option<SocketAddr> {
    connection(request)?.peer
}

fn text<'r, B>(request: &'r http::Request<B>, key: &str) -> Option<&'r str> {
    request.headers().get(key)?.to_str().ok()
}

/// Refuses callers of another protocol. The refusal carries this server's protocol number for programs.
fn check_protocol(spoken: Option<&str>) -> Result<(), Status> {
    let (spoken, remedy) = match spoken.map(str::parse::<u32>) {
        Some(Ok(PROTOCOL)) => return Ok(()),
        Some(Ok(older)) if older < PROTOCOL => (
            older.to_string(),
            format!("update the caller's Oboro to {RELEASE}"),
        ),
        Some(Ok(newer)) => (
            newer.to_string(),
            format!("update the server's Oboro, or call with {RELEASE}"),
        ),
        _ => (
            "an unknown one".to_owned(),
            format!("use the oboro command or client library of release {RELEASE}"),
        ),
    };
    let mut metadata = MetadataMap::new();
    metadata.insert(PROTOCOL_KEY, PROTOCOL.into());
    Err(Status::with_metadata(
        Code::FailedPrecondition,
        format!(
            "this server (Oboro {RELEASE}) speaks protocol {PROTOCOL}, the caller {spoken}; {remedy}"
        ),
        metadata,
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::middleware::Wrapped;
    use crate::token_file::TokenFile;
    use oboro_format::Roles;
    use std::convert::Infallible;
    use std::future::{Ready, ready};
    use tempfile::TempDir;
    use tokio_stream::StreamExt;
    use tokio_stream::iter;
    use tonic::codegen::http::{HeaderMap, Request, Response};
    use tonic::codegen::{BoxFuture, Service};

    /// Answers with the name of its client, then with the request body.
    #[derive(Clone)]
    struct Echo;

    impl Service<Request<Body>> for Echo {
        type Response = Response<Body>;
        type Error = Infallible;
        type Future = Ready<Result<Response<Body>, Infallible>>;

        fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
            Poll::Ready(Ok(()))
        }

        fn call(&mut self, request: Request<Body>) -> Self::Future {
            let caller = request.extensions().get::<Caller>().unwrap();
            let client = caller.client.to_string();
            let mut response = Response::new(request.into_body());
            let client = client.parse().unwrap();
            response.headers_mut().insert("client", client);
            ready(Ok(response))
        }
    }

    struct Setting {
        _directory: TempDir,
        file: TokenFile,
    }

    impl Setting {
        fn new() -> Self {
            let directory = TempDir::new().unwrap();
            let file = TokenFile::at(&directory.path().join("tokens"));
            Self {
                _directory: directory,
                file,
            }
        }

        fn tokens(&self) -> Option<Arc<Tokens>> {
            Some(Arc::new(Tokens::open(self.file.path()).unwrap()))
        }
    }

    async fn answer(
        tokens: Option<Arc<Tokens>>,
        headers: &[(&'static str, &str)],
        body: Body,
    ) -> Result<Response<Body>, Status> {
        let mut request = Request::new(body);
        for (key, value) in headers {
            request.headers_mut().insert(*key, value.parse().unwrap());
        }
        let mut authenticated = Wrapped::new(&Authentication::new(tokens, None), Echo);
        let response = authenticated.call(request).await.unwrap();
        match Status::from_header_map(response.headers()) {
            Some(refusal) => Err(refusal),
            None => Ok(response),
        }
    }

    async fn call(
        tokens: Option<Arc<Tokens>>,
        headers: &[(&'static str, &str)],
    ) -> Result<String, Status> {
        let answer = answer(tokens, headers, Body::empty()).await?;
        let client = |headers: &HeaderMap| headers["client"].to_str().unwrap().to_owned();
        Ok(client(answer.headers()))
    }

    fn spoken(protocol: u32) -> String {
        protocol.to_string()
    }

    #[tokio::test]
    async fn the_right_token_and_protocol_pass_and_wrong_ones_do_not() {
        let protocol = ("oboro-protocol", &*spoken(PROTOCOL));
        assert_eq!(call(None, &[protocol]).await.unwrap(), "unknown");
        let setting = Setting::new();
        let (_, secret) = setting.file.add("ward", Roles::OWNER, None).unwrap();
        let right = format!("Bearer {}", *secret);
        let tokens = setting.tokens();
        let with =
            async |token: &str| call(tokens.clone(), &[protocol, ("authorization", token)]).await;
        assert_eq!(with(&right).await.unwrap(), "ward");
        let longer = format!("{right}0");
        let lower = right.replace("Bearer", "bearer");
        let wrong = [
            "Bearer",
            "Bearer ",
            "Bearer ward",
            &secret,
            &right[..70],
            &longer,
            &lower,
        ];
        for wrong in wrong {
            let code = with(wrong).await.unwrap_err().code();
            assert_eq!(code, Code::Unauthenticated, "{wrong}");
        }
        let refused = call(tokens.clone(), &[protocol]).await;
        assert_eq!(refused.unwrap_err().code(), Code::Unauthenticated);
    }

    #[tokio::test]
    async fn a_revoked_token_ends_calls_in_progress() {
        let setting = Setting::new();
        let (token, secret) = setting.file.add("ward", Roles::OWNER, None).unwrap();
        let tokens = setting.tokens();
        let authorization = format!("Bearer {}", *secret);
        let headers = [
            ("oboro-protocol", &*spoken(PROTOCOL)),
            ("authorization", &*authorization),
        ];
        let chunks = iter([1u8, 2].map(|it| Ok::<_, Status>(Bytes::from(vec![it]))));
        let body = Body::new(http_body_util::StreamBody::new(
            chunks.map(|it| it.map(Frame::data)),
        ));
        let mut answer = answer(tokens.clone(), &headers, body)
            .await
            .unwrap()
            .into_body();
        let mut next = async || {
            let frame = std::future::poll_fn(|context| {
                http_body::Body::poll_frame(Pin::new(&mut answer), context)
            });
            frame.await.unwrap()
        };
        assert_eq!(next().await.unwrap().into_data().unwrap()[..], [1]);
        setting.file.revoke(&token.id()).unwrap();
        tokens.unwrap().refresh();
        let trailers = next().await.unwrap().into_trailers().unwrap();
        let ended = Status::from_header_map(&trailers).unwrap();
        assert_eq!(ended.code(), Code::Unauthenticated);
        assert!(ended.message().contains("revoked"), "{ended}");
    }

    /// Never answers, or never ends its answer.
    #[derive(Clone)]
    struct Silent {
        answers: bool,
    }

    impl Service<Request<Body>> for Silent {
        type Response = Response<Body>;
        type Error = Infallible;
        type Future = BoxFuture<Response<Body>, Infallible>;

        fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
            Poll::Ready(Ok(()))
        }

        fn call(&mut self, _: Request<Body>) -> Self::Future {
            let answers = self.answers;
            Box::pin(async move {
                if !answers {
                    std::future::pending::<()>().await;
                }
                let frames = tokio_stream::pending::<Result<Frame<Bytes>, Status>>();
                let body = Body::new(http_body_util::StreamBody::new(frames));
                Ok(Response::new(body))
            })
        }
    }

    #[tokio::test]
    async fn a_revoked_token_ends_calls_in_which_nothing_happens() {
        for answers in [false, true] {
            let setting = Setting::new();
            let (token, secret) = setting.file.add("ward", Roles::OWNER, None).unwrap();
            let tokens = setting.tokens().unwrap();
            let authentication = Authentication::new(Some(Arc::clone(&tokens)), None);
            let mut request = Request::new(Body::empty());
            for (key, value) in [
                ("oboro-protocol", spoken(PROTOCOL)),
                ("authorization", format!("Bearer {}", *secret)),
            ] {
                request.headers_mut().insert(key, value.parse().unwrap());
            }
            let call = Wrapped::new(&authentication, Silent { answers }).call(request);
            let ending = tokio::spawn(async move {
                let mut response = call.await.unwrap();
                if let Some(status) = Status::from_header_map(response.headers()) {
                    return status;
                }
                let frame = std::future::poll_fn(|context| {
                    http_body::Body::poll_frame(Pin::new(response.body_mut()), context)
                });
                let trailers = frame.await.unwrap().unwrap().into_trailers().unwrap();
                Status::from_header_map(&trailers).unwrap()
            });
            tokio::task::yield_now().await;
            setting.file.revoke(&token.id()).unwrap();
            tokens.refresh();
            let ended = ending.await.unwrap();
            assert_eq!(ended.code(), Code::Unauthenticated, "{answers}");
        }
    }

    #[tokio::test]
    async fn refusals_of_other_protocols_name_both_versions_and_the_update() {
        let (older, newer) = (spoken(PROTOCOL - 1), spoken(PROTOCOL + 1));
        for (metadata, phrases) in [
            (
                &[("oboro-protocol", &*older)][..],
                [
                    &*format!("the caller {older};"),
                    "update the caller's Oboro",
                ],
            ),
            (
                &[("oboro-protocol", &newer)],
                [&format!("the caller {newer};"), "update the server's Oboro"],
            ),
            (
                &[("oboro-protocol", "x")],
                ["an unknown one", "client library"],
            ),
            (&[], ["an unknown one", "client library"]),
        ] {
            let status = call(None, metadata).await.unwrap_err();
            assert_eq!(status.code(), Code::FailedPrecondition);
            let own = format!("speaks protocol {PROTOCOL},");
            for phrase in [&*own, phrases[0], phrases[1]] {
                assert!(status.message().contains(phrase), "{status}");
            }
            assert_eq!(
                status.metadata().get(PROTOCOL_KEY).unwrap(),
                &*spoken(PROTOCOL)
            );
        }
    }
}
