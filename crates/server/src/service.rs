//! The calls of `proto/oboro.proto`, each a few lines over the store.
//!
//! The store blocks, so every call to it runs on a blocking thread.

use crate::blocking::blocking;
use crate::clients::caller;
use crate::columns::{self, Columns};
use crate::counting::{Counting, Replies};
use crate::scrubbing::{self, Scrubbing};
use crate::status;
use oboro_format::wording::{MAX_DATASET, MIN_ITEM_SUPPORT};
use oboro_format::{DatasetId, Manifest};
use oboro_protocol::{PROTOCOL, dataset_id, v1, v1::mining_server::Mining};
use oboro_store::{Access, SegmentReceiver, StoreError};
use tonic::{Request, Response, Status, Streaming};
use tracing::{Span, field};

pub(crate) struct Service {
    counting: Counting,
    scrubbing: Scrubbing,
    release_memory: fn(),
}

impl Service {
    pub(crate) fn new(counting: Counting, release_memory: fn()) -> Self {
        Self {
            counting,
            scrubbing: Scrubbing::new(),
            release_memory,
        }
    }

    /// Refuses datasets beyond the limit. An invalid manifest is for the store to refuse.
    fn check_size(&self, manifest: &Manifest) -> Result<(), Status> {
        let (bytes, most) = (manifest.segment_bytes(), self.counting.limits.dataset_bytes);
        if bytes <= most {
            return Ok(());
        }
        Err(Status::resource_exhausted(format!(
            "the dataset takes {bytes} bytes, but this server takes at most {most} for one; leave rare items out ({MIN_ITEM_SUPPORT}), or ask its operator to raise {MAX_DATASET}"
        )))
    }

    /// Runs `work` on the datasets, away from the threads that serve connections.
    async fn with_access<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Access) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, Status> {
        let access = self.counting.access.clone();
        storing(move || work(&access)).await
    }
}

/// Runs disk-bound work, likewise.
async fn storing<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, StoreError> + Send + 'static,
) -> Result<T, Status> {
    blocking(move || work().map_err(|error| status::of_store(&error))).await
}

#[tonic::async_trait]
impl Mining for Service {
    async fn server_info(
        &self,
        _: Request<v1::ServerInfoRequest>,
    ) -> Result<Response<v1::ServerInfoReply>, Status> {
        Ok(Response::new(v1::ServerInfoReply {
            protocol: PROTOCOL,
            version: env!("CARGO_PKG_VERSION").to_owned(),
            limits: Some(self.counting.limits.into()),
        }))
    }

    async fn begin_upload(
        &self,
        request: Request<v1::BeginUploadRequest>,
    ) -> Result<Response<v1::UploadStatus>, Status> {
        let v1::BeginUploadRequest { name, manifest } = request.into_inner();
        tracing::debug!(name, "uploads");
        if let Ok(manifest) = Manifest::decode(&manifest) {
            record(manifest.dataset);
            self.check_size(&manifest)?;
        }
        let status = self
            .with_access(move |access| access.begin_upload(&name, &manifest))
            .await?;
        let segments = status.segments.iter().map(|segment| v1::SegmentProgress {
            index: segment.index,
            bytes_total: segment.bytes_total,
            bytes_received: segment.bytes_received,
            complete: segment.complete,
        });
        Ok(Response::new(v1::UploadStatus {
            dataset: status.dataset.0.to_vec().into(),
            segments: segments.collect(),
            published: status.published,
        }))
    }

    async fn send_segment(
        &self,
        request: Request<Streaming<v1::SegmentChunk>>,
    ) -> Result<Response<v1::SegmentReceipt>, Status> {
        let mut chunks = request.into_inner();
        let mut receiver: Option<SegmentReceiver> = None;
        while let Some(chunk) = chunks.message().await? {
            let mut open = match (receiver.take(), chunk.start) {
                (None, Some(start)) => {
                    let dataset =
                        dataset_id(&start.dataset).map_err(|error| status::of_field(&error))?;
                    record(dataset);
                    self.with_access(move |access| {
                        access.receive_segment(dataset, start.index, start.offset)
                    })
                    .await?
                }
                (Some(open), None) => open,
                (None, None) => {
                    return Err(Status::invalid_argument(
                        "the first message of a segment must say which it is",
                    ));
                }
                (Some(_), Some(_)) => {
                    return Err(Status::invalid_argument(
                        "only the first message of a segment may say which it is",
                    ));
                }
            };
            receiver = Some(storing(move || open.write(&chunk.data).map(|()| open)).await?);
        }
        let receiver =
            receiver.ok_or_else(|| Status::invalid_argument("an empty stream is not a segment"))?;
        let bytes = receiver.received();
        storing(move || receiver.finish()).await?;
        Ok(Response::new(v1::SegmentReceipt { bytes }))
    }

    async fn publish(
        &self,
        request: Request<v1::PublishRequest>,
    ) -> Result<Response<v1::Published>, Status> {
        let dataset =
            dataset_id(&request.into_inner().dataset).map_err(|error| status::of_field(&error))?;
        record(dataset);
        let release_memory = self.release_memory;
        let published = self
            .with_access(move |access| {
                let published = access.publish(dataset)?;
                // The memory of the upload's chunks is of no use to the queries that follow.
                release_memory();
                Ok(published)
            })
            .await?;
        self.counting
            .cache
            .forget(published.dataset, &published.rewrote);
        tracing::info!(version = published.version, root = %published.root, "published");
        Ok(Response::new(v1::Published {
            version: published.version,
            root: published.root.0.to_vec().into(),
        }))
    }

    async fn cancel_upload(
        &self,
        request: Request<v1::CancelUploadRequest>,
    ) -> Result<Response<v1::CancelUploadReply>, Status> {
        let name = request.into_inner().name;
        tracing::debug!(name, "cancels");
        record(
            self.with_access(move |access| access.cancel_upload(&name))
                .await?,
        );
        Ok(Response::new(v1::CancelUploadReply {}))
    }

    async fn list_datasets(
        &self,
        _: Request<v1::ListDatasetsRequest>,
    ) -> Result<Response<v1::ListDatasetsReply>, Status> {
        let listing = self.with_access(Access::list).await?;
        for error in &listing.damaged {
            tracing::error!(%error, "storage");
        }
        Ok(Response::new(v1::ListDatasetsReply {
            datasets: listing.datasets.into_iter().map(Into::into).collect(),
            damaged: listing.damaged.iter().map(ToString::to_string).collect(),
        }))
    }

    async fn delete_dataset(
        &self,
        request: Request<v1::DeleteDatasetRequest>,
    ) -> Result<Response<v1::DeleteDatasetReply>, Status> {
        let name = request.into_inner().name;
        tracing::debug!(name, "deletes");
        record(self.with_access(move |access| access.delete(&name)).await?);
        Ok(Response::new(v1::DeleteDatasetReply {}))
    }

    async fn placement(
        &self,
        request: Request<v1::PlacementRequest>,
    ) -> Result<Response<v1::PlacementReply>, Status> {
        let name = request.into_inner().name;
        tracing::debug!(name, "asks for the placement");
        let report = self
            .with_access(move |access| access.snapshot(&name)?.placement())
            .await?;
        Ok(Response::new(v1::PlacementReply {
            policy: report.is_placed.then(|| "transaction".into()),
            resident_panels: report.resident_panels as u64,
            panels: report.panels as u64,
            misplaced_pages: report.misplaced,
            nodes: report
                .nodes
                .iter()
                .map(|(&node, pages)| v1::NodePages {
                    node,
                    pages: pages.resident,
                    intended_pages: pages.intended,
                })
                .collect(),
        }))
    }

    type CountStream = Replies;

    async fn count(
        &self,
        request: Request<v1::CountRequest>,
    ) -> Result<Response<Self::CountStream>, Status> {
        let client = caller(&request)?.client;
        let request = request.into_inner();
        tracing::debug!(name = request.name, "counts");
        let replies = self.counting.start(client, request).await?;
        Ok(Response::new(replies))
    }

    type FetchColumnsStream = Columns;

    async fn fetch_columns(
        &self,
        request: Request<v1::FetchColumnsRequest>,
    ) -> Result<Response<Self::FetchColumnsStream>, Status> {
        let client = caller(&request)?.client;
        let request = request.into_inner();
        tracing::debug!(name = request.name, "fetches columns");
        let columns = columns::fetch(&self.counting, &client, request).await?;
        Ok(Response::new(columns))
    }

    type ScrubStream = scrubbing::Replies;

    async fn scrub(
        &self,
        request: Request<v1::ScrubRequest>,
    ) -> Result<Response<Self::ScrubStream>, Status> {
        let client = caller(&request)?.client;
        let request = request.into_inner();
        tracing::debug!(name = request.name, "scrubs");
        let access = self.counting.access.clone();
        let replies = self.scrubbing.start(&client, access, request).await?;
        Ok(Response::new(replies))
    }
}

/// Logs the dataset that the call is about.
fn record(dataset: DatasetId) {
    Span::current().record("dataset", field::display(dataset));
}
