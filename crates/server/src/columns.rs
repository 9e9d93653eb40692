//! Sends sealed cells as stored, for an owner who counts locally.
//!
//! The cells of one column of one segment are read and checked at a time, on a blocking thread, once the outbox has
//! free space. A caller thus holds at most one such thread, and none while it reads slowly. The call counts as a query,
//! with the limits of one.

use crate::blocking::blocking;
use crate::counting::Counting;
use crate::outbox::Outbox;
use crate::replies::{self, Replies};
use crate::status;
use oboro_edge::Caller;
use oboro_protocol::{COLUMNS_CHUNK_BYTES, columns, digest, v1};
use oboro_residency::Snapshot;
use oboro_ring::Column;
use oboro_ring::moment::Itemsets;
use oboro_store::Access;
use prost::bytes::Bytes;
use std::sync::Arc;
use tokio::sync::Notify;
use tonic::Status;
use tracing::Span;

type Parts = Outbox<v1::FetchColumnsReply>;

/// Admits the call and returns the stream of its columns.
///
/// # Errors
///
/// Too many queries, a malformed request.
pub(crate) async fn fetch(
    counting: &Counting,
    caller: &Caller,
    request: v1::FetchColumnsRequest,
) -> Result<Replies<v1::FetchColumnsReply>, Status> {
    let permit = counting
        .admission
        .admit(caller, ("FetchColumns", &request.name))
        .await?;
    let access = counting.access_of(caller);
    // The slot is held until this ends, even if the caller disconnects.
    let begin = move || Ok((ColumnsRequest::new(&access, request)?, permit));
    let (wanted, permit) = blocking(begin).await?;
    wanted.record(&Span::current());
    caller
        .subject
        .set_dataset(wanted.snapshot.manifest().dataset);
    let (outbox, space) = (Arc::new(Parts::new()), Arc::new(Notify::new()));
    let limit = counting.limits.query_time;
    let advice = "ask for fewer columns at once";
    let sending = send(wanted, Arc::clone(&outbox), Arc::clone(&space));
    replies::spawn(Arc::clone(&outbox), limit, advice, permit, sending);
    Ok(Replies::new(outbox, move || space.notify_one()))
}

/// Validated request.
struct ColumnsRequest {
    snapshot: Arc<Snapshot>,
    columns: Vec<Column>,
    first_segment: usize,
}

impl ColumnsRequest {
    fn new(access: &Access, request: v1::FetchColumnsRequest) -> Result<Self, Status> {
        let root = digest(&request.root).map_err(|error| status::of_field(&error))?;
        let snapshot = access
            .columns_at(&request.name, root)
            .map_err(|error| status::of_store(&error))?;
        let most = snapshot.manifest().sealed_columns();
        let columns = Itemsets::new(1, columns(request.columns), most)
            .map_err(|error| {
                Status::invalid_argument(format!("the request is malformed: {error}"))
            })?
            .as_flat()
            .to_vec();
        let (first_segment, segments) = (
            request.first_segment as usize,
            snapshot.manifest().segments.len(),
        );
        if first_segment >= segments {
            return Err(Status::invalid_argument(format!(
                "the request is malformed: it begins with segment {first_segment} of {segments}"
            )));
        }
        Ok(Self {
            snapshot,
            columns,
            first_segment,
        })
    }

    /// Logs the size of the request.
    fn record(&self, span: &Span) {
        let dataset = self.snapshot.manifest().dataset;
        span.record("dataset", tracing::field::display(dataset));
        span.record("columns", self.columns.len());
    }

    /// Returns the segment and column of each part, in sending order.
    fn parts(&self) -> impl Iterator<Item = (usize, Column)> {
        (self.first_segment..self.snapshot.manifest().segments.len()).flat_map(move |segment| {
            let columns = self.columns.iter().copied();
            self.snapshot.segment(segment).prefetch_cells(columns);
            self.columns.iter().map(move |&column| (segment, column))
        })
    }
}

/// Puts all parts into the outbox.
///
/// # Errors
/// Damage, storage out of reach.
async fn send(
    wanted: ColumnsRequest,
    outbox: Arc<Parts>,
    space: Arc<Notify>,
) -> Result<(), Status> {
    for (segment, column) in wanted.parts() {
        while !outbox.has_capacity() {
            space.notified().await;
        }
        let snapshot = Arc::clone(&wanted.snapshot);
        let read = move || {
            let cells = snapshot.segment(segment).read_cells(column);
            cells.map_err(|error| status::of_store(&error.into()))
        };
        let mut chunks = chunks(blocking(read).await?.into());
        if chunks.any(|data| outbox.push(v1::FetchColumnsReply { data }).is_break()) {
            break;
        }
    }
    Ok(())
}

fn chunks(bytes: Bytes) -> impl Iterator<Item = Bytes> {
    (0..bytes.len())
        .step_by(COLUMNS_CHUNK_BYTES)
        .map(move |start| bytes.slice(start..bytes.len().min(start + COLUMNS_CHUNK_BYTES)))
}
