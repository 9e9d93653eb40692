//! The calls of `proto/oboro.proto`, each a few lines over the store.
//!
//! The store blocks, so every call to it runs on a blocking thread.

use crate::counting::{Counting, Reply};
use crate::status;
use oboro_protocol::{dataset_id, v1, v1::mining_server::Mining};
use oboro_store::{SegmentReceiver, Store, StoreError};
use std::sync::Arc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Request, Response, Status, Streaming};

pub(crate) struct Service {
    pub(crate) counting: Counting,
}

impl Service {
    /// Runs `work` on the store, away from the threads that serve connections.
    async fn with_store<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Store) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, Status> {
        let store = Arc::clone(&self.counting.store);
        blocking(move || work(&store)).await
    }
}

async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, StoreError> + Send + 'static,
) -> Result<T, Status> {
    tokio::task::spawn_blocking(work)
        .await
        .map_err(|error| {
            Status::internal(format!(
                "the server failed while working on this call ({error}); its log tells more"
            ))
        })?
        .map_err(|error| status::of_store(&error))
}

#[tonic::async_trait]
impl Mining for Service {
    async fn begin_upload(
        &self,
        request: Request<v1::BeginUploadRequest>,
    ) -> Result<Response<v1::UploadStatus>, Status> {
        let v1::BeginUploadRequest { name, manifest } = request.into_inner();
        let status = self
            .with_store(move |store| store.begin_upload(&name, &manifest))
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
                    self.with_store(move |store| {
                        store.receive_segment(dataset, start.index, start.offset)
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
            receiver = Some(blocking(move || open.write(&chunk.data).map(|()| open)).await?);
        }
        let receiver =
            receiver.ok_or_else(|| Status::invalid_argument("an empty stream is not a segment"))?;
        let bytes = receiver.received();
        blocking(move || receiver.finish()).await?;
        Ok(Response::new(v1::SegmentReceipt { bytes }))
    }

    async fn publish(
        &self,
        request: Request<v1::PublishRequest>,
    ) -> Result<Response<v1::Published>, Status> {
        let dataset =
            dataset_id(&request.into_inner().dataset).map_err(|error| status::of_field(&error))?;
        let published = self.with_store(move |store| store.publish(dataset)).await?;
        tracing::info!(%dataset, version = published.version, root = %published.root, "published");
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
        self.with_store(move |store| store.cancel_upload(&name))
            .await?;
        Ok(Response::new(v1::CancelUploadReply {}))
    }

    async fn list_datasets(
        &self,
        _: Request<v1::ListDatasetsRequest>,
    ) -> Result<Response<v1::ListDatasetsReply>, Status> {
        let listing = self.with_store(Store::list).await?;
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
        let deleted = name.clone();
        self.with_store(move |store| store.delete(&name)).await?;
        tracing::info!(name = deleted, "deleted");
        Ok(Response::new(v1::DeleteDatasetReply {}))
    }

    type CountStream = ReceiverStream<Reply>;

    async fn count(
        &self,
        request: Request<v1::CountRequest>,
    ) -> Result<Response<Self::CountStream>, Status> {
        Ok(Response::new(ReceiverStream::new(
            self.counting.clone().start(request.into_inner()),
        )))
    }
}
