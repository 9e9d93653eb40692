//! Who may call: the protocol's number and, where the operator asks for one, a bearer token.

use crate::clients::{Client, Tokens};
use oboro_format::wording::TOKEN_FILE;
use oboro_protocol::{PROTOCOL, PROTOCOL_KEY};
use std::sync::Arc;
use tonic::metadata::MetadataMap;
use tonic::{Code, Request, Status, service::Interceptor};

/// This release, named in the error about another one.
const RELEASE: &str = env!("CARGO_PKG_VERSION");

/// Checks every call before any of it is read, and notes its client.
#[derive(Clone)]
pub(crate) struct Gate {
    tokens: Option<Arc<Tokens>>,
}

impl Gate {
    pub(crate) fn new(tokens: Option<Tokens>) -> Self {
        Self {
            tokens: tokens.map(Arc::new),
        }
    }

    fn identify(&self, request: &Request<()>) -> Result<Client, Status> {
        let connected = Client::Connected(request.remote_addr());
        let Some(tokens) = &self.tokens else {
            return Ok(connected);
        };
        let given = text(request, "authorization")
            .and_then(|value| value.strip_prefix("Bearer "))
            .unwrap_or_default();
        tokens.bearer(given, connected).ok_or_else(|| {
            Status::unauthenticated(format!(
                "this server wants a token and got none or a wrong one; give the right one with {TOKEN_FILE}"
            ))
        })
    }
}

impl Interceptor for Gate {
    fn call(&mut self, mut request: Request<()>) -> Result<Request<()>, Status> {
        let identified = self.identify(&request);
        let connected = Client::Connected(request.remote_addr());
        let caller = identified.as_ref().unwrap_or(&connected);
        tracing::Span::current().record("client", tracing::field::display(caller));
        let client = identified?;
        check_protocol(text(&request, PROTOCOL_KEY))?;
        request.extensions_mut().insert(client);
        Ok(request)
    }
}

fn text<'r>(request: &'r Request<()>, key: &str) -> Option<&'r str> {
    request.metadata().get(key)?.to_str().ok()
}

/// Refuses callers of another protocol. The refusal carries this server's number, for programs.
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

    fn call(tokens: Option<&str>, metadata: &[(&'static str, &str)]) -> Result<String, Status> {
        let mut request = Request::new(());
        for (key, value) in metadata {
            request.metadata_mut().insert(*key, value.parse().unwrap());
        }
        let tokens = tokens.map(|tokens| Tokens::parse(tokens).unwrap());
        let request = Gate::new(tokens).call(request)?;
        Ok(request.extensions().get::<Client>().unwrap().to_string())
    }

    fn spoken(protocol: u32) -> String {
        protocol.to_string()
    }

    #[test]
    fn the_right_token_and_protocol_pass() {
        let protocol = ("oboro-protocol", &*spoken(PROTOCOL));
        assert_eq!(call(None, &[protocol]).unwrap(), "unknown");
        let with = |token| [protocol, ("authorization", token)];
        let tokens = Some("abc\nward def\n");
        assert_eq!(call(tokens, &with("Bearer abc")).unwrap(), "unknown");
        assert_eq!(call(tokens, &with("Bearer def")).unwrap(), "ward");
    }

    #[test]
    fn wrong_tokens_are_refused() {
        let protocol = ("oboro-protocol", &*spoken(PROTOCOL));
        for wrong in [
            "abc",
            "Bearer ab",
            "Bearer abcd",
            "Bearer ABC",
            "bearer abc",
            "Bearer ",
        ] {
            let refused = call(Some("abc"), &[protocol, ("authorization", wrong)]);
            assert_eq!(
                refused.unwrap_err().code(),
                Code::Unauthenticated,
                "{wrong}"
            );
        }
        let refused = call(Some("abc"), &[protocol]);
        assert_eq!(refused.unwrap_err().code(), Code::Unauthenticated);
    }

    #[test]
    fn other_protocols_are_told_both_numbers_and_what_to_update() {
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
            let status = call(None, metadata).unwrap_err();
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
