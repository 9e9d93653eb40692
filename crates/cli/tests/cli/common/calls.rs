//! Calls of the protocol without the owner's program: connections to a server, and what is sent over them.

use super::Server;
use oboro_protocol::v1::mining_client::MiningClient;
use oboro_protocol::{PROTOCOL, PROTOCOL_KEY, RETRY_AFTER_KEY, v1};
use oboro_ring::Blocks;
use tonic::transport::{Channel, Endpoint};
use tonic::{Code, Request, Status};

pub fn endpoint(server: &Server) -> Endpoint {
    Channel::from_shared(server.url().to_owned()).unwrap()
}

pub async fn connect(server: &Server) -> Channel {
    endpoint(server).connect().await.unwrap()
}

/// A connection over which the server can send almost nothing that is not read: 64 KiB of an answer wait there, and the
/// rest keeps its place.
pub async fn connect_narrowly(server: &Server) -> MiningClient<Channel> {
    let endpoint = endpoint(server).initial_stream_window_size(1);
    MiningClient::new(endpoint.connect().await.unwrap()).max_encoding_message_size(1 << 28)
}

/// A request of the current protocol.
pub fn request<T>(message: T) -> Request<T> {
    let mut request = Request::new(message);
    request.metadata_mut().insert(PROTOCOL_KEY, PROTOCOL.into());
    request
}

/// A request of the current protocol by the bearer of a token.
pub fn with_token<T>(message: T, token: &str) -> Request<T> {
    let mut request = request(message);
    let bearer = format!("Bearer {token}").parse().unwrap();
    request.metadata_mut().insert("authorization", bearer);
    request
}

/// A question for all moments of all itemsets of a length.
pub fn question(of: &v1::DatasetInfo, length: u32) -> v1::CountRequest {
    let mut itemsets = vec![Vec::new()];
    for _ in 0..length {
        let longer = |set: &Vec<u32>| {
            let (set, next) = (set.clone(), set.last().map_or(0, |last| last + 1));
            (next..of.columns).map(move |column| [&set[..], &[column]].concat())
        };
        itemsets = itemsets.iter().flat_map(longer).collect();
    }
    v1::CountRequest {
        name: of.name.clone(),
        root: of.root.clone(),
        limbs: of.limbs,
        length,
        columns: itemsets.concat(),
        ranges: vec![Blocks::from(0..of.blocks).into()],
        scalars: false,
    }
}

/// Whether a call was refused for now: because of what others, or the caller, have in progress.
pub fn is_for_now(status: &Status) -> bool {
    status.code() == Code::ResourceExhausted && status.metadata().contains_key(RETRY_AFTER_KEY)
}
