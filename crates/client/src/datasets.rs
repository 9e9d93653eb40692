//! Owner's state at a server: datasets, deleted datasets, unfinished uploads, grants, and queries in progress.

use crate::connection::Connection;
use crate::error::{ClientError, printable};
use oboro_format::{DatasetId, DatasetInfo, Roles};
use oboro_protocol::{dataset_id, v1};
use std::time::Duration;

/// Datasets of a server that a caller may see.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listing {
    /// Published datasets: the caller's own by name, then those of others, named `OWNER/NAME`.
    pub datasets: Vec<DatasetInfo>,
    /// Sentence for each dataset whose manifest the server found damaged.
    pub damaged: Vec<String>,
}

/// Caller's data at a server besides published datasets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnpublishedData {
    /// Deleted datasets that can be restored.
    pub deleted: Vec<DeletedDataset>,
    /// Unfinished uploads.
    pub uploads: Vec<UnfinishedUpload>,
    /// Total size of the caller's data in bytes.
    pub bytes: u64,
}

/// Deleted dataset that can be restored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeletedDataset {
    /// Former name.
    pub name: String,
    /// Id of the dataset.
    pub dataset: DatasetId,
    /// Bytes of its segment files.
    pub stored_bytes: u64,
    /// Time of deletion, in seconds since 1970.
    pub deleted: i64,
    /// Time of permanent removal, in seconds since 1970.
    pub until: i64,
}

/// Unfinished upload.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnfinishedUpload {
    /// Name that the dataset will have.
    pub name: String,
    /// Id of the dataset.
    pub dataset: DatasetId,
    /// Bytes of segments that the server has received.
    pub received_bytes: u64,
    /// Bytes of all segments.
    pub total_bytes: u64,
    /// Time at which it is cancelled unless it continues, in seconds since 1970.
    pub until: i64,
}

/// Roles of another caller on the caller's data.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Grant {
    /// Name of the other caller's token; `*` for all callers.
    pub grantee: String,
    /// Name of the dataset or collection; `*` for all.
    pub name: String,
    /// Granted roles.
    pub roles: Roles,
}

/// Query in progress.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Query {
    /// Identifier of the query until it ends.
    pub number: u64,
    /// Namespace of its caller.
    pub caller: String,
    /// Name of the call.
    pub call: String,
    /// Dataset or collection; `None` if it belongs to another owner.
    pub name: Option<String>,
    /// Time since admission.
    pub duration: Duration,
}

impl Connection {
    /// Lists the server's datasets.
    ///
    /// # Errors
    /// As every call: a broken connection, a refusal, a failing server.
    pub fn datasets(&self) -> Result<Listing, ClientError> {
        let reply = self.listed(false)?;
        let datasets = reply.datasets.into_iter().map(DatasetInfo::try_from);
        Ok(Listing {
            datasets: datasets.collect::<Result<_, _>>()?,
            damaged: reply.damaged.iter().map(|words| printable(words)).collect(),
        })
    }

    /// Lists the caller's deleted datasets and unfinished uploads.
    ///
    /// # Errors
    /// As every call.
    pub fn unpublished(&self) -> Result<UnpublishedData, ClientError> {
        let reply = self.listed(true)?;
        let deleted = reply.deleted.into_iter().map(|it| {
            Ok::<_, ClientError>(DeletedDataset {
                name: printable(&it.name),
                dataset: dataset_id(&it.dataset)?,
                stored_bytes: it.stored_bytes,
                deleted: it.deleted,
                until: it.until,
            })
        });
        let uploads = reply.uploads.into_iter().map(|it| {
            Ok::<_, ClientError>(UnfinishedUpload {
                name: printable(&it.name),
                dataset: dataset_id(&it.dataset)?,
                received_bytes: it.received_bytes,
                total_bytes: it.total_bytes,
                until: it.until,
            })
        });
        Ok(UnpublishedData {
            deleted: deleted.collect::<Result<_, _>>()?,
            uploads: uploads.collect::<Result<_, _>>()?,
            bytes: reply.usage.unwrap_or_default().bytes,
        })
    }

    fn listed(&self, unpublished: bool) -> Result<v1::ListDatasetsReply, ClientError> {
        self.again(|| {
            self.call("listing datasets", async |mut client| {
                client
                    .list_datasets(v1::ListDatasetsRequest { unpublished })
                    .await
            })
        })
    }

    /// Deletes a dataset: permanently if `at_once`; otherwise it can be restored for as long as the server keeps it.
    ///
    /// # Errors
    /// An unknown dataset, or as every call.
    pub fn delete(&self, name: &str, at_once: bool) -> Result<(), ClientError> {
        let request = v1::DeleteDatasetRequest {
            name: name.to_owned(),
            at_once,
        };
        self.when_free(|| {
            self.call("deleting a dataset", async |mut client| {
                client.delete_dataset(request.clone()).await
            })
        })?;
        Ok(())
    }

    /// Restores a deleted dataset by its name, or by its id if several had that name; under `new_name` if given.
    ///
    /// # Errors
    /// An unknown or ambiguous dataset, a name that is taken, or as every call.
    pub fn undelete(&self, name: &str, new_name: Option<&str>) -> Result<DatasetId, ClientError> {
        let request = v1::UndeleteDatasetRequest {
            name: name.to_owned(),
            new_name: new_name.unwrap_or_default().to_owned(),
        };
        let reply = self.when_free(|| {
            self.call("bringing a dataset back", async |mut client| {
                client.undelete_dataset(request.clone()).await
            })
        })?;
        Ok(dataset_id(&reply.dataset)?)
    }

    /// Adds roles to another caller's on the caller's data; returns the resulting roles.
    ///
    /// # Errors
    /// Invalid names, roles that cannot be granted, or as every call.
    pub fn grant(&self, grant: &Grant) -> Result<Roles, ClientError> {
        let request = v1::Grant::from(grant);
        let reply = self.when_free(|| {
            self.call("granting access", async |mut client| {
                client.grant_access(request.clone()).await
            })
        })?;
        Ok(roles(reply.roles))
    }

    /// Revokes roles; returns the remaining ones.
    ///
    /// # Errors
    /// Invalid names, or as every call.
    pub fn revoke(&self, grant: &Grant) -> Result<Roles, ClientError> {
        let request = v1::Grant::from(grant);
        let reply = self.when_free(|| {
            self.call("revoking access", async |mut client| {
                client.revoke_access(request.clone()).await
            })
        })?;
        Ok(roles(reply.roles))
    }

    /// Lists the queries in progress that the caller may end.
    ///
    /// # Errors
    /// As every call.
    pub fn queries(&self) -> Result<Vec<Query>, ClientError> {
        let reply = self.again(|| {
            self.call("listing queries", async |mut client| {
                client.list_queries(v1::ListQueriesRequest {}).await
            })
        })?;
        let queries = reply.queries.into_iter().map(|it| Query {
            number: it.number,
            caller: printable(&it.caller),
            call: printable(&it.call),
            name: (!it.name.is_empty()).then(|| printable(&it.name)),
            duration: Duration::from_millis(it.milliseconds),
        });
        Ok(queries.collect())
    }

    /// Ends a query in progress.
    ///
    /// # Errors
    /// An unknown query, or as every call.
    pub fn end_query(&self, number: u64) -> Result<(), ClientError> {
        self.when_free(|| {
            self.call("ending a query", async |mut client| {
                client.end_query(v1::EndQueryRequest { number }).await
            })
        })?;
        Ok(())
    }

    /// Lists the caller's grants to others.
    ///
    /// # Errors
    /// As every call.
    pub fn grants(&self) -> Result<Vec<Grant>, ClientError> {
        let reply = self.again(|| {
            self.call("listing access", async |mut client| {
                client.list_access(v1::ListAccessRequest {}).await
            })
        })?;
        let grants = reply.grants.iter().map(|it| Grant {
            grantee: printable(&it.grantee),
            name: printable(&it.name),
            roles: roles(it.roles),
        });
        Ok(grants.collect())
    }
}

impl From<&Grant> for v1::Grant {
    fn from(grant: &Grant) -> Self {
        Self {
            grantee: grant.grantee.clone(),
            name: grant.name.clone(),
            roles: grant.roles.bits(),
        }
    }
}

/// Returns the roles known to this version, and ignores those of a newer server.
fn roles(bits: u32) -> Roles {
    Roles::from_bits(bits & Roles::ALL.bits()).unwrap_or_default()
}
