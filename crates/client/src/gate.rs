//! Checks before the first request about a dataset: the owner's decision about trust, and the version that the server
//! publishes.
//!
//! The version that a server claims may end a command before its first request, and has no other effect.

use crate::connection::Connection;
use crate::error::{ClientError, NamedVersion};

use oboro_dataset::Dataset;
use oboro_protocol::{dataset_id, digest, v1};
use std::cell::Cell;
use tonic::{Code, Response};

/// Version check of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum VersionCheck {
    /// Compares the published version with the directory's before the run.
    #[default]
    Compare,
    /// An earlier run of this command compared it.
    Compared,
    /// No connection: only cached cells are used.
    Offline,
}

/// Opens connections for one run.
pub(crate) struct Gate<'a> {
    dataset: &'a Dataset,
    /// Name of the dataset on the server.
    name: &'a str,
    /// `true` if the owner trusts this server in this run, or runs it.
    consents: bool,
    check: Cell<VersionCheck>,
    /// Callback before the first request, once all checks have passed.
    announce: &'a (dyn Fn() + 'a),
    is_announced: Cell<bool>,
    connect: &'a (dyn Fn() -> Result<Connection, ClientError> + 'a),
}

impl<'a> Gate<'a> {
    pub(crate) fn new(
        dataset: &'a Dataset,
        name: &'a str,
        consents: bool,
        check: VersionCheck,
        announce: &'a (dyn Fn() + 'a),
        connect: &'a (dyn Fn() -> Result<Connection, ClientError> + 'a),
    ) -> Self {
        Self {
            dataset,
            name,
            consents,
            check: Cell::new(check),
            announce,
            is_announced: Cell::new(false),
            connect,
        }
    }

    /// Connects to send requests.
    ///
    /// # Errors
    /// A pending decision of the owner, an offline run, another version at the server; as every call.
    pub(crate) fn open(&self) -> Result<Connection, ClientError> {
        if self.check.get() == VersionCheck::Offline {
            return Err(ClientError::NotKept);
        }
        check_decided(self.dataset, self.consents)?;
        let connection = (self.connect)()?;
        self.compare_once(&connection)?;
        if !self.is_announced.replace(true) {
            (self.announce)();
        }
        Ok(connection)
    }

    fn compare_once(&self, connection: &Connection) -> Result<(), ClientError> {
        if self.check.get() == VersionCheck::Compare {
            compare(connection, self.dataset, self.name)?;
            self.check.set(VersionCheck::Compared);
        }
        Ok(())
    }

    /// Checks a run that needs no requests. Returns true if the comparison of versions is skipped, because the run is
    /// offline or the owner has a pending decision.
    ///
    /// # Errors
    /// Another version at the server; as every call.
    pub(crate) fn pass_without_questions(&self) -> Result<bool, ClientError> {
        if self.check.get() == VersionCheck::Offline
            || check_decided(self.dataset, self.consents).is_err()
        {
            return Ok(true);
        }
        if self.check.get() == VersionCheck::Compare {
            let compared = (self.connect)().and_then(|it| self.compare_once(&it));
            compared.map_err(|error| match error {
                ClientError::Unreachable { .. }
                | ClientError::NoAnswer { .. }
                | ClientError::Broken { .. } => ClientError::NotCompared(Box::new(error)),
                other => other,
            })?;
        }
        Ok(false)
    }
}

/// Rejects requests about a dataset while its owner has a pending decision: after a false answer, and after unverified
/// answers unless the owner `consents` to unverified answers in this run, too.
pub(crate) fn check_decided(dataset: &Dataset, consents: bool) -> Result<(), ClientError> {
    let trust = dataset.trust()?;
    let directory = || dataset.bundle().directory().into();
    if let Some(failure) = trust.failure {
        return Err(ClientError::Distrusted {
            directory: directory(),
            unix_seconds: failure.unix_seconds,
            what: failure.what,
        });
    }
    match trust.relied_on {
        Some(reliance) if !reliance.decided && !consents => Err(ClientError::ReliedOn {
            directory: directory(),
            unix_seconds: reliance.unix_seconds,
        }),
        _ => Ok(()),
    }
}

/// Returns the version in the owner's directory.
fn own_version(dataset: &Dataset) -> NamedVersion {
    let manifest = dataset.manifest();
    NamedVersion {
        dataset: manifest.dataset,
        version: manifest.version,
        root: manifest.root(),
        uploaded: dataset.bundle().uploaded(),
    }
}

/// Rejects a server that publishes another version than the owner's directory has.
fn compare(connection: &Connection, dataset: &Dataset, name: &str) -> Result<(), ClientError> {
    let request = v1::DescribeDatasetRequest {
        name: name.to_owned(),
    };
    let described = connection.again(|| {
        connection.call("asking for the version", async |mut client| {
            match client.describe_dataset(request.clone()).await {
                Err(status) if status.code() == Code::NotFound => Ok(Response::new(None)),
                answered => answered.map(|it| Response::new(Some(it.into_inner()))),
            }
        })
    })?;
    let own = own_version(dataset);
    let directory = || dataset.bundle().directory().into();
    let Some(described) = described else {
        return Err(ClientError::NotPublished {
            directory: directory(),
            name: name.to_owned(),
            own: Box::new(own),
        });
    };
    let published = NamedVersion {
        dataset: dataset_id(&described.dataset)?,
        version: described.version,
        root: digest(&described.root)?,
        uploaded: u64::try_from(described.published).ok(),
    };
    if (published.dataset, published.version, published.root)
        == (own.dataset, own.version, own.root)
    {
        Ok(())
    } else {
        Err(ClientError::OtherVersion {
            directory: directory(),
            own: Box::new(own),
            published: Box::new(published),
        })
    }
}
