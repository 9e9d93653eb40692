//! Calls of `proto/oboro.proto`, each a few lines over the store.
//!
//! The store blocks, so every call to it runs on a blocking thread.

use crate::blocking::blocking;
use crate::cache::identity;
use crate::columns;
use crate::counting::Counting;
use crate::recovery;
use crate::replies::Replies;
use crate::scrubbing::{self, Scrubbing, Scrubs};
use crate::status;
use crate::writes::Writes;
use oboro_edge::{Caller, caller};
use oboro_format::wording::{MAX_DATASET, MIN_ITEM_SUPPORT};
use oboro_format::{DatasetId, Manifest, Role, Roles};
use oboro_protocol::{PROTOCOL, dataset_id, digest, v1, v1::mining_server::Mining};
use oboro_store::{
    Access, DeletedInfo, Grant, Listing, RecoveryReceiver, SegmentReceiver, StoreError, UploadInfo,
    Usage,
};
use serde_json::json;
use std::sync::Arc;
use tonic::{Code, Request, Response, Status, Streaming};
use tracing::{Span, field};

pub(crate) struct Service {
    counting: Counting,
    scrubbing: Scrubbing,
    writes: Arc<Writes>,
    release_memory: fn(),
}

impl Service {
    /// Creates the service; failed writes are reported to `writes`, damage to `scrubs`.
    pub(crate) fn new(
        counting: Counting,
        writes: Arc<Writes>,
        scrubs: &Arc<Scrubs>,
        release_memory: fn(),
    ) -> Self {
        Self {
            counting,
            scrubbing: Scrubbing::new(scrubs),
            writes,
            release_memory,
        }
    }

    /// Refuses datasets beyond the limit. The store refuses invalid manifests.
    fn check_size(&self, manifest: &Manifest) -> Result<(), Status> {
        let (bytes, most) = (manifest.segment_bytes(), self.counting.limits.dataset_bytes);
        if bytes <= most {
            return Ok(());
        }
        Err(Status::resource_exhausted(format!(
            "the dataset takes {bytes} bytes, but this server takes at most {most} for one; leave rare items out ({MIN_ITEM_SUPPORT}), or ask its operator to raise {MAX_DATASET}"
        )))
    }

    /// Runs `work` on the datasets, on a blocking thread.
    async fn with_access<T: Send + 'static>(
        &self,
        caller: &Caller,
        work: impl FnOnce(&Access) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, Status> {
        let (access, subject) = (self.counting.access_of(caller), caller.subject.clone());
        self.storing(move || {
            let worked = work(&access);
            let failed = worked
                .as_ref()
                .err()
                .map(|error| status::code_of(error.kind()));
            subject.set_work(failed.unwrap_or(Code::Ok));
            worked
        })
        .await
    }

    /// As [`with_access`](Self::with_access), for work that returns the dataset it was done on.
    async fn with_dataset(
        &self,
        caller: &Caller,
        work: impl FnOnce(&Access) -> Result<DatasetId, StoreError> + Send + 'static,
    ) -> Result<DatasetId, Status> {
        let subject = caller.subject.clone();
        let worked = self.with_access(caller, move |access| {
            let dataset = work(access)?;
            // Recorded here as well, for a caller that has disconnected.
            subject.set_dataset(dataset);
            Ok(dataset)
        });
        let dataset = worked.await?;
        record(caller, dataset);
        Ok(dataset)
    }

    async fn change_access(
        &self,
        request: Request<v1::Grant>,
        change: impl FnOnce(&Access, &Grant) -> Result<Roles, StoreError> + Send + 'static,
    ) -> Result<Response<v1::GrantReply>, Status> {
        let caller = caller(&request)?;
        let v1::Grant {
            grantee,
            name,
            roles,
        } = request.into_inner();
        caller.subject.set_name(&name);
        caller.subject.set_detail(json!({
            "grantee": grantee,
            "roles": Roles::from_bits(roles).map(|it| it.to_string()),
        }));
        let roles = Roles::from_bits(roles).filter(|it| !it.is_empty());
        let roles = roles.ok_or_else(|| {
            let known = Role::GRANTABLE.map(Role::name).join(", ");
            Status::invalid_argument(format!(
                "these are no roles that this server knows; name some of {known}"
            ))
        })?;
        let grant = Grant {
            grantee,
            name,
            roles,
        };
        let changed = self.with_access(&caller, move |access| change(access, &grant));
        let roles = changed.await?.bits();
        Ok(Response::new(v1::GrantReply { roles }))
    }

    /// Runs work that writes to disk, on a blocking thread, and reports its failures.
    async fn storing<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, Status> {
        let writes = Arc::clone(&self.writes);
        blocking(move || {
            work().map_err(|error| {
                writes.after(error.kind());
                status::of_store(&error)
            })
        })
        .await
    }
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
        let caller = caller(&request)?;
        let v1::BeginUploadRequest { name, manifest } = request.into_inner();
        caller.subject.set_name(&name);
        if let Ok(manifest) = Manifest::decode(&manifest) {
            record(&caller, manifest.dataset);
            self.check_size(&manifest)?;
        }
        let status = self
            .with_access(&caller, move |access| access.begin_upload(&name, &manifest))
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
        let caller = caller(&request)?;
        let mut chunks = request.into_inner();
        let mut receiver: Option<SegmentReceiver> = None;
        while let Some(chunk) = chunks.message().await? {
            let mut open = match (receiver.take(), chunk.start) {
                (None, Some(start)) => {
                    let dataset =
                        dataset_id(&start.dataset).map_err(|error| status::of_field(&error))?;
                    let root = digest(&start.root).map_err(|error| status::of_field(&error))?;
                    record(&caller, dataset);
                    caller.subject.set_name(&start.name);
                    self.with_access(&caller, move |access| {
                        let access = of_upload(access, &start.name)?;
                        access.receive_segment(dataset, root, start.index, start.offset)
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
            receiver = Some(
                self.storing(move || open.write(&chunk.data).map(|()| open))
                    .await?,
            );
        }
        let receiver =
            receiver.ok_or_else(|| Status::invalid_argument("an empty stream is not a segment"))?;
        let bytes = receiver.received();
        self.storing(move || receiver.finish()).await?;
        Ok(Response::new(v1::SegmentReceipt { bytes }))
    }

    async fn publish(
        &self,
        request: Request<v1::PublishRequest>,
    ) -> Result<Response<v1::Published>, Status> {
        let caller = caller(&request)?;
        let v1::PublishRequest {
            dataset,
            name,
            root,
        } = request.into_inner();
        let dataset = dataset_id(&dataset).map_err(|error| status::of_field(&error))?;
        let root = digest(&root).map_err(|error| status::of_field(&error))?;
        record(&caller, dataset);
        caller.subject.set_name(&name);
        let release_memory = self.release_memory;
        let (published, identity) = self
            .with_access(&caller, move |access| {
                let access = of_upload(access, &name)?;
                let published = access.publish(dataset, root)?;
                // Queries that follow do not use the memory of the upload's chunks.
                release_memory();
                Ok((published, identity(access.namespace(), dataset)))
            })
            .await?;
        self.counting.cache.forget(identity, &published.rewrote);
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
        let caller = caller(&request)?;
        let name = request.into_inner().name;
        caller.subject.set_name(&name);
        let cancel = move |it: &Access| it.cancel_upload(&name);
        self.with_dataset(&caller, cancel).await?;
        Ok(Response::new(v1::CancelUploadReply {}))
    }

    async fn list_datasets(
        &self,
        request: Request<v1::ListDatasetsRequest>,
    ) -> Result<Response<v1::ListDatasetsReply>, Status> {
        let caller = caller(&request)?;
        let unpublished = request.into_inner().unpublished;
        let list = move |access: &Access| {
            let listing = access.list()?;
            let mut reply = v1::ListDatasetsReply {
                damaged: damage(&listing),
                datasets: listing.datasets.into_iter().map(Into::into).collect(),
                ..Default::default()
            };
            if unpublished {
                reply.deleted = access.deleted()?.iter().map(deleted).collect();
                reply.uploads = access.uploads()?.iter().map(upload).collect();
                reply.usage = Some(usage(access.usage()?));
            }
            Ok(reply)
        };
        Ok(Response::new(self.with_access(&caller, list).await?))
    }

    async fn describe_dataset(
        &self,
        request: Request<v1::DescribeDatasetRequest>,
    ) -> Result<Response<v1::DescribeDatasetReply>, Status> {
        let caller = caller(&request)?;
        let name = request.into_inner().name;
        caller.subject.set_name(&name);
        let describe = move |access: &Access| access.describe(&name);
        let (info, published) = self.with_access(&caller, describe).await?;
        record(&caller, info.dataset);
        Ok(Response::new(v1::DescribeDatasetReply {
            dataset: info.dataset.0.to_vec().into(),
            version: info.version,
            root: info.root.0.to_vec().into(),
            published,
        }))
    }

    async fn delete_dataset(
        &self,
        request: Request<v1::DeleteDatasetRequest>,
    ) -> Result<Response<v1::DeleteDatasetReply>, Status> {
        let caller = caller(&request)?;
        let v1::DeleteDatasetRequest { name, at_once } = request.into_inner();
        caller.subject.set_name(&name);
        caller.subject.set_detail(json!({ "now": at_once }));
        let delete = move |access: &Access| {
            if at_once {
                access.delete_now(&name)
            } else {
                access.delete(&name)
            }
        };
        self.with_dataset(&caller, delete).await?;
        Ok(Response::new(v1::DeleteDatasetReply {}))
    }

    async fn undelete_dataset(
        &self,
        request: Request<v1::UndeleteDatasetRequest>,
    ) -> Result<Response<v1::UndeleteDatasetReply>, Status> {
        let caller = caller(&request)?;
        let v1::UndeleteDatasetRequest { name, new_name } = request.into_inner();
        caller.subject.set_name(&name);
        let new_name = (!new_name.is_empty()).then_some(new_name);
        let dataset = self
            .with_dataset(&caller, move |it| it.undelete(&name, new_name.as_deref()))
            .await?;
        let dataset = dataset.0.to_vec().into();
        Ok(Response::new(v1::UndeleteDatasetReply { dataset }))
    }

    async fn placement(
        &self,
        request: Request<v1::PlacementRequest>,
    ) -> Result<Response<v1::PlacementReply>, Status> {
        let caller = caller(&request)?;
        let name = request.into_inner().name;
        caller.subject.set_name(&name);
        let report = self
            .with_access(&caller, move |access| {
                Ok(access.snapshot(&name)?.placement()?)
            })
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

    type CountStream = Replies<v1::CountReply>;

    async fn count(
        &self,
        request: Request<v1::CountRequest>,
    ) -> Result<Response<Self::CountStream>, Status> {
        let caller = caller(&request)?;
        let request = request.into_inner();
        caller.subject.set_name(&request.name);
        let replies = self.counting.start(caller, request).await?;
        Ok(Response::new(replies))
    }

    type FetchColumnsStream = Replies<v1::FetchColumnsReply>;

    async fn fetch_columns(
        &self,
        request: Request<v1::FetchColumnsRequest>,
    ) -> Result<Response<Self::FetchColumnsStream>, Status> {
        let caller = caller(&request)?;
        let request = request.into_inner();
        caller.subject.set_name(&request.name);
        let columns = columns::fetch(&self.counting, &caller, request).await?;
        Ok(Response::new(columns))
    }

    type ScrubStream = scrubbing::Replies;

    async fn scrub(
        &self,
        request: Request<v1::ScrubRequest>,
    ) -> Result<Response<Self::ScrubStream>, Status> {
        let caller = caller(&request)?;
        let access = self.counting.access_of(&caller);
        let request = request.into_inner();
        caller.subject.set_name(&request.name);
        let replies = self
            .scrubbing
            .start(&caller.client, access, request)
            .await?;
        Ok(Response::new(replies))
    }

    async fn keep_recovery(
        &self,
        request: Request<Streaming<v1::RecoveryChunk>>,
    ) -> Result<Response<v1::KeepRecoveryReply>, Status> {
        let caller = caller(&request)?;
        let mut chunks = request.into_inner();
        let mut receiver: Option<RecoveryReceiver> = None;
        while let Some(chunk) = chunks.message().await? {
            let mut open = match (receiver.take(), chunk.start) {
                (None, Some(start)) => {
                    caller.subject.set_name(&start.name);
                    let keep =
                        move |access: &Access| access.keep_recovery(&start.name, start.bytes);
                    let open = self.with_access(&caller, keep).await?;
                    record(&caller, open.dataset());
                    open
                }
                (Some(open), None) => open,
                _ => {
                    return Err(Status::invalid_argument(
                        "the first message of a recovery copy, and no other, must say what it is",
                    ));
                }
            };
            receiver = Some(
                self.storing(move || open.write(&chunk.data).map(|()| open))
                    .await?,
            );
        }
        let receiver = receiver
            .ok_or_else(|| Status::invalid_argument("an empty stream is no recovery copy"))?;
        self.storing(move || receiver.finish()).await?;
        Ok(Response::new(v1::KeepRecoveryReply {}))
    }

    type FetchRecoveryStream = recovery::Copy;

    async fn fetch_recovery(
        &self,
        request: Request<v1::FetchRecoveryRequest>,
    ) -> Result<Response<Self::FetchRecoveryStream>, Status> {
        let caller = caller(&request)?;
        let name = request.into_inner().name;
        caller.subject.set_name(&name);
        let copy = self
            .with_access(&caller, move |access| access.recovery(&name))
            .await?;
        record(&caller, copy.head().dataset);
        Ok(Response::new(recovery::stream(copy)))
    }

    async fn grant_access(
        &self,
        request: Request<v1::Grant>,
    ) -> Result<Response<v1::GrantReply>, Status> {
        self.change_access(request, |access, grant| access.grant(grant))
            .await
    }

    async fn revoke_access(
        &self,
        request: Request<v1::Grant>,
    ) -> Result<Response<v1::GrantReply>, Status> {
        self.change_access(request, |access, grant| access.revoke(grant))
            .await
    }

    async fn list_queries(
        &self,
        request: Request<v1::ListQueriesRequest>,
    ) -> Result<Response<v1::ListQueriesReply>, Status> {
        let queries = self.counting.admission.queries();
        let queries = queries.list(&caller(&request)?)?;
        Ok(Response::new(v1::ListQueriesReply { queries }))
    }

    async fn end_query(
        &self,
        request: Request<v1::EndQueryRequest>,
    ) -> Result<Response<v1::EndQueryReply>, Status> {
        let caller = caller(&request)?;
        let queries = self.counting.admission.queries();
        let number = request.into_inner().number;
        caller.subject.set_detail(json!({ "query": number }));
        queries.end(&caller, number)?;
        Ok(Response::new(v1::EndQueryReply {}))
    }

    async fn list_access(
        &self,
        request: Request<v1::ListAccessRequest>,
    ) -> Result<Response<v1::ListAccessReply>, Status> {
        let grants = self
            .with_access(&caller(&request)?, Access::grants)
            .await?
            .into_iter()
            .map(|it| v1::Grant {
                grantee: it.grantee,
                name: it.name,
                roles: it.roles.bits(),
            });
        Ok(Response::new(v1::ListAccessReply {
            grants: grants.collect(),
        }))
    }
}

/// Returns the access for an upload; a name is given if it may be in another namespace.
fn of_upload(access: &Access, name: &str) -> Result<Access, StoreError> {
    match name {
        "" => Ok(access.clone()),
        name => access.of_upload(name),
    }
}

/// Logs damaged datasets and returns the messages for the caller.
fn damage(listing: &Listing) -> Vec<String> {
    let damaged = listing.damaged.iter();
    damaged
        .inspect(|error| tracing::error!(%error, "storage"))
        .map(StoreError::without_paths)
        .collect()
}

fn deleted(info: &DeletedInfo) -> v1::DeletedInfo {
    v1::DeletedInfo {
        name: info.name.clone(),
        dataset: info.dataset.0.to_vec().into(),
        stored_bytes: info.stored_bytes,
        deleted: info.deleted,
        until: info.until,
    }
}

fn upload(info: &UploadInfo) -> v1::UploadInfo {
    v1::UploadInfo {
        name: info.name.clone(),
        dataset: info.dataset.0.to_vec().into(),
        received_bytes: info.received_bytes,
        total_bytes: info.total_bytes,
        until: info.until,
    }
}

fn usage(usage: Usage) -> v1::Usage {
    v1::Usage {
        datasets: usage.datasets,
        uploads: usage.uploads,
        deleted: usage.deleted,
        bytes: usage.bytes,
    }
}

/// Logs the dataset of the call.
fn record(caller: &Caller, dataset: DatasetId) {
    caller.subject.set_dataset(dataset);
    Span::current().record("dataset", field::display(dataset));
}
