//! The gate before the first question about a dataset: what the owner decided about trust, and whether the server publishes
//! the version that the owner's directory has.
//!
//! The version that a server claims may end a command before its first question and has no other effect.

use crate::connection::Connection;
use crate::error::{ClientError, NamedVersion};

use oboro_mining::Dataset;
use oboro_protocol::{dataset_id, digest, v1};
use std::cell::Cell;
use tonic::{Code, Response};

/// What a run does about the version that the server publishes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum VersionCheck {
    /// Compares it with the directory's before anything is asked or answered.
    #[default]
    Compare,
    /// An earlier run of the same command compared it.
    Compared,
    /// Never connects: kept cells alone answer.
    Offline,
}

/// Opens connections for one run.
pub(crate) struct Gate<'a> {
    dataset: &'a Dataset,
    /// The dataset's name on the server.
    name: &'a str,
    /// The owner trusts this server in this run, or runs it.
    consents: bool,
    check: Cell<VersionCheck>,
    /// Called before the first question, once nothing refuses it.
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

    /// Connects, to ask questions.
    ///
    /// # Errors
    /// A decision that the owner has not made, a run without a server, another version at the server; as every call.
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

    /// Lets a run answer that has asked nothing; returns whether it answers without knowing which version the server
    /// publishes: the caller wants no connection, or the owner has a decision to make.
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

/// Refuses questions about a dataset while its owner has a decision to make: after a false answer, and after unverified
/// answers unless the owner `consents` to use those of the server in this run, too.
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

/// The version that the owner's directory has.
fn own_version(dataset: &Dataset) -> NamedVersion {
    let manifest = dataset.manifest();
    NamedVersion {
        dataset: manifest.dataset,
        version: manifest.version,
        root: manifest.root(),
        uploaded: dataset.bundle().uploaded(),
    }
}

/// Refuses a server that publishes another version than the owner's directory has.
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
