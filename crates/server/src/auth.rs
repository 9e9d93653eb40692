//! Who may call: the protocol's number and, where the operator asks for one, a bearer token.

use oboro_protocol::{PROTOCOL, PROTOCOL_KEY};
use std::sync::Arc;
use subtle::ConstantTimeEq;
use tonic::{Request, Status, service::Interceptor};

/// Checks every call before anything of it is read.
#[derive(Clone)]
pub(crate) struct Gate {
    token: Option<Arc<str>>,
}

impl Gate {
    pub(crate) fn new(token: Option<Arc<str>>) -> Self {
        Self { token }
    }
}

impl Interceptor for Gate {
    fn call(&mut self, request: Request<()>) -> Result<Request<()>, Status> {
        let text = |key: &str| {
            request
                .metadata()
                .get(key)
                .and_then(|value| value.to_str().ok())
        };
        if let Some(token) = &self.token {
            let given = text("authorization")
                .and_then(|value| value.strip_prefix("Bearer "))
                .unwrap_or_default();
            if !bool::from(given.as_bytes().ct_eq(token.as_bytes())) {
                return Err(Status::unauthenticated(
                    "this server wants a token and got none or a wrong one; give the right one with --token-file",
                ));
            }
        }
        match text(PROTOCOL_KEY).map(str::parse::<u32>) {
            Some(Ok(PROTOCOL)) => Ok(request),
            Some(Ok(other)) => Err(Status::failed_precondition(format!(
                "this server speaks protocol {PROTOCOL}, the caller speaks {other}; update the older of the two"
            ))),
            _ => Err(Status::failed_precondition(format!(
                "this server speaks protocol {PROTOCOL}, the caller did not say what it speaks; use the oboro command or client library"
            ))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tonic::Code;

    fn call(token: Option<&str>, metadata: &[(&'static str, &str)]) -> Result<(), Code> {
        let mut request = Request::new(());
        for (key, value) in metadata {
            request.metadata_mut().insert(*key, value.parse().unwrap());
        }
        Gate::new(token.map(Arc::from))
            .call(request)
            .map(drop)
            .map_err(|status| status.code())
    }

    #[test]
    fn the_right_token_and_protocol_pass() {
        assert_eq!(call(None, &[("oboro-protocol", "2")]), Ok(()));
        assert_eq!(
            call(
                Some("abc"),
                &[("oboro-protocol", "2"), ("authorization", "Bearer abc")]
            ),
            Ok(())
        );
    }

    #[test]
    fn all_else_is_refused() {
        for wrong in [
            "abc",
            "Bearer ab",
            "Bearer abcd",
            "Bearer ABC",
            "bearer abc",
            "Bearer ",
        ] {
            assert_eq!(
                call(
                    Some("abc"),
                    &[("oboro-protocol", "2"), ("authorization", wrong)]
                ),
                Err(Code::Unauthenticated),
                "{wrong}"
            );
        }
        assert_eq!(
            call(Some("abc"), &[("oboro-protocol", "2")]),
            Err(Code::Unauthenticated)
        );
        for protocol in [
            &[][..],
            &[("oboro-protocol", "0")],
            &[("oboro-protocol", "1")],
            &[("oboro-protocol", "3")],
            &[("oboro-protocol", "x")],
        ] {
            assert_eq!(call(None, protocol), Err(Code::FailedPrecondition));
        }
    }
}
