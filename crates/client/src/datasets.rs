//! What a server holds of an owner: its datasets, those it deleted, its unfinished uploads, who else may use them, and its
//! queries in progress.

use crate::connection::Connection;
use crate::error::{ClientError, printable};
use oboro_format::{DatasetId, DatasetInfo, Roles};
use oboro_protocol::{dataset_id, v1};
use std::time::Duration;

/// The datasets of a server that a caller may see.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listing {
    /// The published datasets: the caller's own by name, then those of others, whose names are `OWNER/NAME`.
    pub datasets: Vec<DatasetInfo>,
    /// A sentence for each dataset whose manifest the server found damaged.
    pub damaged: Vec<String>,
}

/// What a server holds of its caller besides published datasets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unpublished {
    /// Datasets that were deleted and can be brought back.
    pub deleted: Vec<Deleted>,
    /// Uploads that were begun and not finished.
    pub uploads: Vec<Unfinished>,
    /// Bytes of everything that is held.
    pub bytes: u64,
}

/// A deleted dataset that can be brought back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Deleted {
    /// The name it had.
    pub name: String,
    /// Its id.
    pub dataset: DatasetId,
    /// The bytes of its segment files.
    pub stored_bytes: u64,
    /// When it was deleted: seconds since the beginning of 1970.
    pub deleted: i64,
    /// When it goes for ever, likewise.
    pub until: i64,
}

/// An upload that was begun and not finished.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unfinished {
    /// The name it is to have.
    pub name: String,
    /// Its id.
    pub dataset: DatasetId,
    /// Bytes of its segments that the server has.
    pub received_bytes: u64,
    /// Bytes of all its segments.
    pub total_bytes: u64,
    /// When it is cancelled if nobody goes on with it: seconds since the beginning of 1970.
    pub until: i64,
}

/// Roles that somebody has on something of the caller's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Grant {
    /// The name of their token; `*` for everybody's.
    pub grantee: String,
    /// Of a dataset or collection; `*` for all.
    pub name: String,
    /// The roles.
    pub roles: Roles,
}

/// A query in progress.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Query {
    /// Identifies it until it ends.
    pub number: u64,
    /// The namespace of who asks.
    pub caller: String,
    /// The call.
    pub call: String,
    /// What it is about; `None` if it is another's.
    pub name: Option<String>,
    /// Since it was admitted.
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
    pub fn unpublished(&self) -> Result<Unpublished, ClientError> {
        let reply = self.listed(true)?;
        let deleted = reply.deleted.into_iter().map(|it| {
            Ok::<_, ClientError>(Deleted {
                name: printable(&it.name),
                dataset: dataset_id(&it.dataset)?,
                stored_bytes: it.stored_bytes,
                deleted: it.deleted,
                until: it.until,
            })
        });
        let uploads = reply.uploads.into_iter().map(|it| {
            Ok::<_, ClientError>(Unfinished {
                name: printable(&it.name),
                dataset: dataset_id(&it.dataset)?,
                received_bytes: it.received_bytes,
                total_bytes: it.total_bytes,
                until: it.until,
            })
        });
        Ok(Unpublished {
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

    /// Deletes a dataset: so that it can be brought back for as long as the server keeps it, or for ever.
    ///
    /// # Errors
    /// No such dataset, or as every call.
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

    /// Brings a deleted dataset back, given by its name, or by its id where several had the same; under another name if
    /// one is given.
    ///
    /// # Errors
    /// No such dataset, several, a name that is taken, or as every call.
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

    /// Adds roles to those that somebody has on something of the caller's; returns what they are now.
    ///
    /// # Errors
    /// Names that cannot be ones, roles that cannot be granted, or as every call.
    pub fn grant(&self, grant: &Grant) -> Result<Roles, ClientError> {
        let request = v1::Grant::from(grant);
        let reply = self.when_free(|| {
            self.call("granting access", async |mut client| {
                client.grant_access(request.clone()).await
            })
        })?;
        Ok(roles(reply.roles))
    }

    /// Takes roles away again; returns what is left of them.
    ///
    /// # Errors
    /// Names that cannot be ones, or as every call.
    pub fn revoke(&self, grant: &Grant) -> Result<Roles, ClientError> {
        let request = v1::Grant::from(grant);
        let reply = self.when_free(|| {
            self.call("revoking access", async |mut client| {
                client.revoke_access(request.clone()).await
            })
        })?;
        Ok(roles(reply.roles))
    }

    /// The queries in progress that the caller may end.
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
    /// No such query, or as every call.
    pub fn end_query(&self, number: u64) -> Result<(), ClientError> {
        self.when_free(|| {
            self.call("ending a query", async |mut client| {
                client.end_query(v1::EndQueryRequest { number }).await
            })
        })?;
        Ok(())
    }

    /// What the caller granted to others.
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

/// The roles that are known here, of those that a newer server may name.
fn roles(bits: u32) -> Roles {
    Roles::from_bits(bits & Roles::ALL.bits()).unwrap_or_default()
}
