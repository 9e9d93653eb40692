//! Access control: the operations that one caller may perform, and the only way to anything in a store.
//!
//! A caller works in its own namespace with the roles of its token, and in others as far as their owners granted it;
//! their datasets are called `OWNER/NAME`. Without a role on it, a thing does not exist for the caller: the answer is
//! found by the same steps as for a missing one.

use super::grants::{ANY, Grant};
use super::namespace::{Namespace, check_name};
use super::namespaces::Namespaces;
use super::receiver::SegmentReceiver;
use super::recovery::{Recovery, RecoveryReceiver};
use super::reports::{DeletedInfo, Listing, PublishedVersion, UploadInfo, UploadStatus, Usage};
use super::scrub::Scrub;
use crate::error::{StoreError, UploadError};
use oboro_format::{
    Bundle, DatasetId, DatasetInfo, Digest, MAX_NAME_CHARS, Role, Roles, is_caller,
};
use oboro_residency::Snapshot;
use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;

/// Handle to the operations that one caller may perform.
#[derive(Clone)]
pub struct Access {
    namespaces: Arc<Namespaces>,
    caller: Arc<str>,
    roles: Roles,
    /// Name of the only upload that this handle is for.
    upload: Option<Arc<str>>,
}

/// Resolved name of a dataset or collection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ResolvedName {
    /// Namespace.
    pub namespace: Arc<str>,
    /// Directory of the namespace.
    pub home: PathBuf,
    /// Name in the namespace.
    pub name: String,
    /// Roles of the caller on it.
    pub roles: Roles,
}

/// Part of a namespace that a caller may see.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VisibleNamespace {
    /// Namespace.
    pub namespace: Arc<str>,
    /// Directory of the namespace.
    pub home: PathBuf,
    /// Prefix of the namespace's names for this caller: empty for its own.
    pub prefix: String,
    /// Visible names; `None` for all.
    names: Option<BTreeSet<String>>,
}

impl VisibleNamespace {
    /// Returns true if this name is visible.
    pub fn has(&self, name: &str) -> bool {
        self.names.as_ref().is_none_or(|it| it.contains(name))
    }
}

impl Access {
    pub(super) fn new(namespaces: Arc<Namespaces>, caller: Arc<str>, roles: Roles) -> Self {
        Self {
            namespaces,
            caller,
            roles,
            upload: None,
        }
    }

    /// Returns the caller's namespace.
    pub fn namespace(&self) -> &Arc<str> {
        &self.caller
    }

    /// Returns the directory of the caller's namespace, which need not exist.
    pub fn home(&self) -> PathBuf {
        self.namespaces.home(&self.caller)
    }

    /// Resolves the name of a dataset or collection, if the caller has this role on it. Does not check that it exists.
    ///
    /// # Errors
    /// Not found, if the caller has no role on it; forbidden, if it has only others.
    pub fn resolve(&self, name: &str, role: Role) -> Result<ResolvedName, StoreError> {
        let (owner, local) = match name.split_once('/') {
            Some((owner, local)) if *owner != *self.caller => (owner, local),
            Some((_, local)) => (&*self.caller, local),
            None => (&*self.caller, name),
        };
        if !is_caller(owner) {
            return Err(StoreError::Name {
                given: name.chars().take(2 * MAX_NAME_CHARS).collect(),
            });
        }
        if local != ANY {
            check_name(local)?;
        }
        let roles = if *owner == *self.caller {
            self.roles
        } else {
            let granted = self.namespaces.grants().roles(owner, &self.caller, local);
            if granted.is_empty() {
                return Err(StoreError::NoDataset { name: name.into() });
            }
            granted & self.roles
        };
        if !roles.has(role) {
            return Err(StoreError::Forbidden { role });
        }
        Ok(ResolvedName {
            namespace: owner.into(),
            home: self.namespaces.home(owner),
            name: local.into(),
            roles,
        })
    }

    /// Returns the namespaces of which the caller may see something, its own first.
    ///
    /// # Errors
    /// The caller may see nothing, not even in its own namespace.
    pub fn visible(&self) -> Result<Vec<VisibleNamespace>, StoreError> {
        self.check(Role::Read)?;
        let mut all = vec![VisibleNamespace {
            namespace: Arc::clone(&self.caller),
            home: self.namespaces.home(&self.caller),
            prefix: String::new(),
            names: None,
        }];
        let grants = self.namespaces.grants();
        for (owner, names) in grants.of_caller(&self.caller) {
            let may_see = |name: &String| grants.roles(&owner, &self.caller, name).has(Role::Read);
            let names: BTreeSet<String> = names.into_iter().filter(may_see).collect();
            if !names.is_empty() {
                all.push(VisibleNamespace {
                    home: self.namespaces.home(&owner),
                    prefix: format!("{owner}/"),
                    names: (!names.contains(ANY)).then_some(names),
                    namespace: owner.into(),
                });
            }
        }
        Ok(all)
    }

    /// Checks that the caller has this role in its own namespace.
    ///
    /// # Errors
    /// A missing role.
    pub fn check(&self, role: Role) -> Result<(), StoreError> {
        if self.roles.has(role) {
            Ok(())
        } else {
            Err(StoreError::Forbidden { role })
        }
    }

    /// Returns the namespace of a name, and the name in it.
    fn located(&self, name: &str, role: Role) -> Result<(Arc<Namespace>, String), StoreError> {
        let ResolvedName {
            namespace, name, ..
        } = self.resolve(name, role)?;
        Ok((self.namespaces.get(&namespace)?, name))
    }

    /// Returns the caller's own namespace.
    fn own(&self, role: Role) -> Result<Arc<Namespace>, StoreError> {
        self.check(role)?;
        self.namespaces.get(&self.caller)
    }

    /// Begins the upload of a dataset or of a newer version of it, or returns the progress of an upload of this
    /// manifest. Segments of the published version need no upload. A version that loses part of the published one
    /// requires the role to delete as well.
    ///
    /// # Errors
    /// A name that is invalid or taken, a manifest that is invalid or does not follow the published version, another
    /// upload of the dataset in progress, a deleted dataset, a quota, a disk or catalogue that fails.
    pub fn begin_upload(&self, name: &str, manifest: &[u8]) -> Result<UploadStatus, StoreError> {
        let ResolvedName {
            namespace,
            name: local,
            roles,
            ..
        } = self.resolve(name, Role::Append)?;
        let opened = self.namespaces.get(&namespace)?;
        let begun = opened.begin_upload(&local, manifest, roles);
        if namespace == self.caller {
            return begun;
        }
        begun.map_err(|error| match error {
            // The name that it is stored under is not for others to know.
            StoreError::Upload(
                UploadError::StoredAs { dataset, .. }
                | UploadError::Deleted { dataset, .. }
                | UploadError::OtherUpload { dataset, .. }
                | UploadError::Purged { dataset },
            ) => UploadError::IdUsed { dataset }.into(),
            StoreError::Upload(UploadError::NameTaken { .. }) => {
                UploadError::NameUsed { name: name.into() }.into()
            }
            other => other,
        })
    }

    /// Returns a handle restricted to sending and publishing the upload under this name, possibly in another namespace.
    ///
    /// # Errors
    /// As [`resolve`](Self::resolve).
    pub fn of_upload(&self, name: &str) -> Result<Self, StoreError> {
        let ResolvedName {
            namespace, name, ..
        } = self.resolve(name, Role::Append)?;
        Ok(Self {
            namespaces: Arc::clone(&self.namespaces),
            caller: namespace,
            roles: Role::Append.into(),
            upload: Some(name.into()),
        })
    }

    /// Returns the namespace of the upload with this id.
    fn uploading(&self, dataset: DatasetId) -> Result<Arc<Namespace>, StoreError> {
        let namespace = self.own(Role::Append)?;
        if let Some(name) = &self.upload {
            namespace.check_is_named(dataset, name)?;
        }
        Ok(namespace)
    }

    /// Resumes receiving a segment of the version with this root at `offset`, which must be the upload's current
    /// length.
    ///
    /// # Errors
    /// No such upload or segment, an upload of another version, another offset, a segment that another connection
    /// sends, a disk that fails.
    pub fn receive_segment(
        &self,
        dataset: DatasetId,
        root: Digest,
        index: u32,
        offset: u64,
    ) -> Result<SegmentReceiver, StoreError> {
        self.uploading(dataset)?
            .receive_segment(dataset, root, index, offset)
    }

    /// Publishes the completely received version with this root. Idempotent.
    ///
    /// # Errors
    /// No such upload, an upload of another version, missing segments, another server that writes to the objects, a
    /// disk that fails.
    pub fn publish(
        &self,
        dataset: DatasetId,
        root: Digest,
    ) -> Result<PublishedVersion, StoreError> {
        self.uploading(dataset)?.publish(dataset, root)
    }

    /// Publishes the content of a bundle, like an upload. Segments are linked if the store is a directory on the
    /// bundle's file system: then headers are checked here, panels before their first use, and they are as durable as
    /// the bundle. Otherwise they are copied, and checked completely.
    ///
    /// # Errors
    ///
    /// As for uploads: a name that is taken, a version that is not newer, damaged segments, a full disk. Completed
    /// segments stay, and the next import resumes there.
    pub fn import(&self, name: &str, bundle: &Bundle) -> Result<PublishedVersion, StoreError> {
        let ResolvedName {
            namespace,
            name,
            roles,
            ..
        } = self.resolve(name, Role::Append)?;
        self.namespaces
            .get(&namespace)?
            .import(&name, bundle, roles)
    }

    /// Cancels the upload under this name, discards its data, and returns the id of its dataset. A published version is
    /// not affected, and the upload may begin again.
    ///
    /// # Errors
    /// No such upload, a catalogue that fails.
    pub fn cancel_upload(&self, name: &str) -> Result<DatasetId, StoreError> {
        let (namespace, name) = self.located(name, Role::Append)?;
        namespace.cancel_upload(&name)
    }

    /// Lists the published datasets that the caller may see. Those with a damaged manifest, or that must not be served,
    /// do not hide the others.
    ///
    /// # Errors
    /// A catalogue that fails.
    pub fn list(&self) -> Result<Listing, StoreError> {
        let mut all = Listing::default();
        for visible in self.visible()? {
            let namespace = self.namespaces.get(&visible.namespace)?;
            let mut listing = namespace.list(|name| visible.has(name))?;
            for info in &mut listing.datasets {
                info.name.insert_str(0, &visible.prefix);
            }
            all.datasets.append(&mut listing.datasets);
            all.damaged.append(&mut listing.damaged);
        }
        Ok(all)
    }

    /// Describes a published dataset to a caller that may list it, count on it or fetch its columns. Also returns the
    /// time of its version's publication, in seconds since 1970.
    ///
    /// # Errors
    /// No such dataset, a damaged manifest, a catalogue that fails.
    pub fn describe(&self, name: &str) -> Result<(DatasetInfo, i64), StoreError> {
        let by_role = |role| self.located(name, role);
        let (namespace, local) = by_role(Role::Read)
            .or_else(|error| by_role(Role::Count).map_err(|_| error))
            .or_else(|error| by_role(Role::Fetch).map_err(|_| error))?;
        namespace.describe(&local)
    }

    /// Lists the caller's deleted but restorable datasets, by name.
    ///
    /// # Errors
    /// A catalogue that fails.
    pub fn deleted(&self) -> Result<Vec<DeletedInfo>, StoreError> {
        self.own(Role::Read)?.deleted()
    }

    /// Lists the caller's unfinished uploads, by name.
    ///
    /// # Errors
    /// A catalogue or disk that fails.
    pub fn uploads(&self) -> Result<Vec<UploadInfo>, StoreError> {
        self.own(Role::Read)?.uploads()
    }

    /// Returns the contents of the caller's namespace, in numbers.
    ///
    /// # Errors
    /// A catalogue that fails.
    pub fn usage(&self) -> Result<Usage, StoreError> {
        self.own(Role::Read)?.usage()
    }

    /// Pins the published version of a dataset. Opens all its segment files and checks their headers; panels are read
    /// on use.
    ///
    /// # Errors
    /// No such dataset, a missing or damaged segment, a catalogue that fails.
    pub fn snapshot(&self, name: &str) -> Result<Arc<Snapshot>, StoreError> {
        let (namespace, name) = self.located(name, Role::Read)?;
        namespace.snapshot(&name)
    }

    /// Pins the version of a dataset that has this root, to count on it. It is the published one, or one that was
    /// queried before an append replaced it, which lets a mining run finish.
    ///
    /// # Errors
    /// As [`snapshot`](Self::snapshot), or the dataset is at another version.
    pub fn snapshot_at(&self, name: &str, root: Digest) -> Result<Arc<Snapshot>, StoreError> {
        let (namespace, name) = self.located(name, Role::Count)?;
        namespace.snapshot_at(&name, root)
    }

    /// As [`snapshot_at`](Self::snapshot_at), for fetching columns.
    ///
    /// # Errors
    /// As for [`snapshot_at`](Self::snapshot_at).
    pub fn columns_at(&self, name: &str, root: Digest) -> Result<Arc<Snapshot>, StoreError> {
        let (namespace, name) = self.located(name, Role::Fetch)?;
        namespace.snapshot_at(&name, root)
    }

    /// Begins to receive a recovery copy of this many bytes for a published dataset.
    ///
    /// # Errors
    /// No such dataset, an invalid length, another copy in progress, a quota, a disk that fails.
    pub fn keep_recovery(&self, name: &str, bytes: u64) -> Result<RecoveryReceiver, StoreError> {
        let (namespace, name) = self.located(name, Role::Append)?;
        namespace.keep_recovery(&name, bytes)
    }

    /// Returns the recovery copy of the published version of a dataset.
    ///
    /// # Errors
    /// No such dataset, no copy, a damaged copy, a disk that fails.
    pub fn recovery(&self, name: &str) -> Result<Recovery, StoreError> {
        let (namespace, name) = self.located(name, Role::Fetch)?;
        namespace.recovery(&name)
    }

    /// Deletes a dataset, published or only being uploaded, and returns its id. A published one can be restored as long
    /// as the policy permits. Its name is free, its id is never accepted again. Existing snapshots stay
    /// usable.
    ///
    /// # Errors
    /// No such dataset, another server that writes to the objects, a catalogue that fails.
    pub fn delete(&self, name: &str) -> Result<DatasetId, StoreError> {
        let (namespace, name) = self.located(name, Role::Delete)?;
        namespace.delete(&name, false)
    }

    /// Purges a dataset that is published, deleted or only being uploaded, even on a full disk. Returns its id.
    ///
    /// # Errors
    /// As [`delete`](Self::delete).
    pub fn delete_now(&self, name: &str) -> Result<DatasetId, StoreError> {
        let (namespace, name) = self.located(name, Role::Delete)?;
        namespace.delete(&name, true)
    }

    /// Publishes a deleted dataset again, given by its name or, if several had it, by its id. Another name may be given
    /// only by the owner: others may have other roles on that. Returns its id.
    ///
    /// # Errors
    /// No such deleted dataset, several, a name that is taken, another server that writes to the objects, a catalogue
    /// that fails.
    pub fn undelete(&self, which: &str, name: Option<&str>) -> Result<DatasetId, StoreError> {
        let ResolvedName {
            namespace,
            name: which,
            ..
        } = self.resolve(which, Role::Delete)?;
        let name = name
            .map(|name| self.resolve(name, Role::Delete))
            .transpose()?;
        if name.as_ref().is_some_and(|it| it.namespace != self.caller)
            || name.is_some() && namespace != self.caller
        {
            return Err(StoreError::NotOwner);
        }
        self.namespaces
            .get(&namespace)?
            .undelete(&which, name.as_ref().map(|it| &*it.name))
    }

    /// Starts to check one dataset, or everything of the caller's own. The catalogue is checked immediately.
    ///
    /// # Errors
    /// No such dataset, a catalogue that cannot be read.
    pub fn scrub(&self, name: Option<&str>) -> Result<Scrub, StoreError> {
        match name {
            Some(name) => {
                let (namespace, name) = self.located(name, Role::Read)?;
                Scrub::begin(&namespace, Some(&name))
            }
            None => Scrub::begin(&self.own(Role::Read)?, None),
        }
    }

    /// Adds to the roles of a caller on something in the namespace; returns the resulting roles.
    ///
    /// # Errors
    /// An invalid name, roles that cannot be granted, too many grants, a disk that fails.
    pub fn grant(&self, grant: &Grant) -> Result<Roles, StoreError> {
        if grant.roles.has(Role::Operate) {
            return Err(StoreError::NotGrantable);
        }
        let owner = self.resolve(&grant.name, Role::Administer)?.namespace;
        if *owner == *grant.grantee {
            return Err(StoreError::GrantToOwner);
        }
        self.change_grant(grant, |roles| {
            roles.iter().chain(grant.roles.iter()).collect()
        })
    }

    /// Removes from the roles of a caller on something in the namespace; returns the remaining roles.
    ///
    /// # Errors
    /// An invalid name, a disk that fails.
    pub fn revoke(&self, grant: &Grant) -> Result<Roles, StoreError> {
        self.change_grant(grant, |roles| {
            roles.iter().filter(|&it| !grant.roles.has(it)).collect()
        })
    }

    /// Lists the grants in the caller's namespace.
    ///
    /// # Errors
    /// A missing role to administer.
    pub fn grants(&self) -> Result<Vec<Grant>, StoreError> {
        self.check(Role::Administer)?;
        Ok(self.namespaces.grants().of_owner(&self.caller))
    }

    /// Changes a grant. The name may be in another namespace, if the caller may administer it there.
    fn change_grant(
        &self,
        grant: &Grant,
        change: impl FnOnce(Roles) -> Roles,
    ) -> Result<Roles, StoreError> {
        let ResolvedName {
            namespace, name, ..
        } = self.resolve(&grant.name, Role::Administer)?;
        if grant.grantee != ANY && !is_caller(&grant.grantee) {
            return Err(StoreError::Caller);
        }
        let about = (&*grant.grantee, &*name);
        let grants = self.namespaces.grants();
        grants.change(self.namespaces.common(), &namespace, about, change)
    }
}

#[cfg(test)]
mod tests;
