//! What requests of operators are answered from.

use super::metrics::Metrics;
use super::sources::Sources;
use axum::response::{IntoResponse, Response};
use oboro_edge::Authentication;
use parking_lot::Mutex;
use std::net::SocketAddr;
use std::sync::Arc;
use tonic::Status;
use tonic::codegen::http::{StatusCode, header};

/// Address of the peer of a connection.
#[derive(Clone, Copy)]
pub(super) struct Peer(pub(super) SocketAddr);

/// What requests are answered from.
pub(super) struct Snapshot {
    pub(super) metrics: Mutex<Metrics>,
    pub(super) sources: Arc<Sources>,
    pub(super) authentication: Arc<Authentication>,
    /// `true` if only this machine can connect.
    pub(super) is_near: bool,
}

/// Has browsers ask for a token.
pub(super) fn unauthorized(refusal: &Status) -> Response {
    let challenge =
        "Basic realm=\"Oboro: any name, and a token as the password\", charset=\"UTF-8\"";
    let headers = [(header::WWW_AUTHENTICATE, challenge)];
    let text = format!("{}\n", refusal.message());
    (StatusCode::UNAUTHORIZED, headers, text).into_response()
}
