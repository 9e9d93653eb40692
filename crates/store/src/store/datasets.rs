//! Operations on the datasets and uploads of one namespace. [`Access`] decides who may perform them.

use super::directory::length;
use super::namespace::{Namespace, State, check_name, now};
use super::receiver::SegmentReceiver;
use super::reports::{
    DeletedInfo, Listing, PublishedVersion, SegmentProgress, UploadInfo, UploadStatus, Usage,
};
use super::rewritten::is_newer;
use super::stored_manifest::stored_manifest;
use crate::catalogue::{Catalogue, Change, Entry, Record, Table};
use crate::error::{QuotaKind, StoreError, UploadError};
use oboro_format::files::{io_error, partial_path, remove_if_there, sweep, sync_directory};
use oboro_format::{DatasetId, DatasetInfo, Digest, FormatError, Manifest, Role, Roles};
use oboro_residency::Snapshot;
use std::collections::{BTreeMap, BTreeSet};
use std::fs::OpenOptions;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Maximum bytes of all manifests of a namespace: a server that reads them all when it starts takes a few times as much
/// memory.
const MANIFEST_BYTES: u64 = 64 << 20;

impl Namespace {
    /// Begins the upload of a dataset or of a newer version of it, or returns the progress of an upload of this
    /// manifest. Segments of the published version need no upload.
    ///
    /// # Errors
    /// A name that is invalid or taken, a manifest that is invalid or does not follow the published version, another
    /// upload of the dataset in progress, a deleted dataset, a quota, a disk or catalogue that fails.
    pub(super) fn begin_upload(
        &self,
        name: &str,
        manifest: &[u8],
        roles: Roles,
    ) -> Result<UploadStatus, StoreError> {
        check_name(name)?;
        let new = Manifest::decode(manifest).map_err(|error| match error {
            FormatError::Damaged { corruption, .. } => {
                StoreError::from(UploadError::ManifestRefused { corruption })
            }
            other => other.into(),
        })?;
        let announced = self.announce(name, manifest, &new, roles)?;
        // Files are examined without the lock.
        Ok(UploadStatus {
            segments: self.progress(&new, announced.older.as_ref(), announced.is_whole)?,
            dataset: new.dataset,
            published: announced.is_published,
        })
    }

    /// Records the upload of a version in the catalogue.
    fn announce(
        &self,
        name: &str,
        manifest: &[u8],
        new: &Manifest,
        roles: Roles,
    ) -> Result<AnnouncedUpload, StoreError> {
        let id = new.dataset;
        let mut state = self.state();
        let state = &mut *state;
        let catalogue = &mut state.catalogue;
        if catalogue.is_purged(id)? {
            return Err(UploadError::Purged { dataset: id }.into());
        }
        if let Some(Record { name, .. }) = catalogue.by_id(Table::Deleted, id)? {
            return Err(UploadError::Deleted { dataset: id, name }.into());
        }
        for table in [Table::Dataset, Table::Upload] {
            if let Some(other) = catalogue
                .by_name(table, name)?
                .filter(|other| other.id != id)
            {
                return Err(UploadError::NameTaken {
                    name: name.into(),
                    taken_by: other.id,
                }
                .into());
            }
            if let Some(same) = catalogue.by_id(table, id)?.filter(|same| same.name != name) {
                return Err(UploadError::StoredAs {
                    dataset: id,
                    name: same.name,
                }
                .into());
            }
        }
        // Even if this store is only an old copy.
        self.check_is_not_replaced(new)?;
        let published = catalogue.by_id(Table::Dataset, id)?;
        if published
            .as_ref()
            .is_some_and(|published| published.manifest == manifest)
        {
            return Ok(AnnouncedUpload {
                older: Some(new.clone()),
                is_whole: true,
                is_published: true,
            });
        }
        let older = published.as_ref().map(stored_manifest).transpose()?;
        if let Some(older) = &older {
            new.follows(older)?;
            if !roles.has(Role::Delete) {
                check_only_appends(new, older)?;
            }
        }
        let there = older.as_ref().map_or_else(BTreeSet::new, Manifest::numbers);
        let is_whole = !state.outdated.contains(&id);
        let pending = catalogue.by_id(Table::Upload, id)?;
        let is_new = (published.is_none() && pending.is_none(), pending.is_none());
        self.check_quota(catalogue, new, manifest.len() as u64, is_new)?;
        match pending {
            Some(pending) if pending.manifest != manifest => {
                // If a bundle changed since its upload started, arrived segments that it still has are kept.
                let begun = stored_manifest(&pending)?;
                if new.follows(&begun).is_err() {
                    return Err(UploadError::OtherUpload {
                        dataset: id,
                        name: pending.name,
                    }
                    .into());
                }
                self.ensure_dataset(id)?;
                catalogue.change_upload(id, manifest, now())?;
                // Segments that it no longer names are removed and not received any more.
                let named = new.numbers();
                for ((of, number), cancelled) in &state.receiving {
                    if *of == id && !named.contains(number) {
                        cancelled.store(true, Ordering::Release);
                    }
                }
                let directory = self.dataset(id);
                sweep(&directory, &there, &(&named - &there))?;
                self.backend.remove_segments(id, &(&there | &named));
            }
            Some(_) => catalogue.touch_upload(id, now())?,
            None => {
                self.ensure_dataset(id)?;
                // Leftovers of a cancelled upload must not pass for part of this one.
                self.sweep(id, &there)?;
                let upload = Record {
                    id,
                    name: name.into(),
                    manifest: manifest.into(),
                    at: now(),
                };
                catalogue.begin_upload(&upload)?;
            }
        }
        Ok(AnnouncedUpload {
            older,
            is_whole,
            is_published: false,
        })
    }

    /// Refuses an upload beyond the namespace's quota. `is_new` is true for a dataset, and for an upload, with a new
    /// id.
    fn check_quota(
        &self,
        catalogue: &Catalogue,
        new: &Manifest,
        manifest_bytes: u64,
        is_new: (bool, bool),
    ) -> Result<(), StoreError> {
        let quota = self.common.policy.read().quota;
        let exceeded = |quota, most| Err(StoreError::Quota { quota, most });
        if let Some(most) = quota.datasets
            && is_new.0
            && catalogue.datasets()? >= most
        {
            return exceeded(QuotaKind::Datasets, most);
        }
        if let Some(most) = quota.uploads
            && is_new.1
            && catalogue.count(Table::Upload)? >= most
        {
            return exceeded(QuotaKind::Uploads, most);
        }
        let manifests = catalogue.manifest_bytes_without(new.dataset)?;
        if manifests.saturating_add(manifest_bytes) > MANIFEST_BYTES {
            return exceeded(QuotaKind::ManifestBytes, MANIFEST_BYTES);
        }
        if let Some(most) = quota.bytes {
            let others = catalogue.bytes_without(new.dataset)?;
            let own = new.segment_bytes().saturating_add(manifest_bytes);
            let besides = self.note_bytes()? + self.backend.recovery_bytes(None)?;
            if others.saturating_add(own).saturating_add(besides) > most {
                return exceeded(QuotaKind::Bytes, most);
            }
        }
        Ok(())
    }

    /// Returns the progress of each segment; those of the `published` version are complete, if that is whole.
    fn progress(
        &self,
        manifest: &Manifest,
        published: Option<&Manifest>,
        is_whole: bool,
    ) -> Result<Vec<SegmentProgress>, StoreError> {
        let published = published.map_or_else(BTreeMap::new, Manifest::digests);
        let one = |(index, entry): (usize, &oboro_format::SegmentEntry)| {
            let path = self.segment(manifest, index as u32);
            let is_published = published.get(&entry.number) == Some(&entry.digest);
            let complete = (is_published && is_whole) || length(&path)?.is_some();
            let received = if complete {
                entry.bytes
            } else {
                self.usable_length(&partial_path(&path), entry.bytes)?
            };
            Ok(SegmentProgress {
                index: index as u32,
                bytes_total: entry.bytes,
                bytes_received: received,
                complete,
            })
        };
        manifest.segments.iter().enumerate().map(one).collect()
    }

    /// Resumes receiving a segment of the version with this root at `offset`, which must be the upload's current
    /// length.
    ///
    /// # Errors
    ///
    /// No such upload or segment, an upload of another version, another offset, a segment that another connection
    /// sends, a disk that fails.
    pub(super) fn receive_segment(
        self: &Arc<Self>,
        dataset: DatasetId,
        root: Digest,
        index: u32,
        offset: u64,
    ) -> Result<SegmentReceiver, StoreError> {
        let mut state = self.state();
        let pending = state
            .catalogue
            .by_id(Table::Upload, dataset)?
            .ok_or(UploadError::NoUpload { dataset })?;
        let manifest = stored_manifest(&pending)?;
        if manifest.root() != root {
            return Err(UploadError::OtherVersion { dataset, root }.into());
        }
        let no_such = |reason| {
            UploadError::NoSuchSegment {
                dataset,
                index,
                reason,
            }
            .into()
        };
        let entry = *manifest
            .segments
            .get(index as usize)
            .ok_or(no_such("the manifest does not name it"))?;
        let (number, announced) = (entry.number, entry.bytes);
        let path = self.segment(&manifest, index);
        if length(&path)?.is_some() {
            return Err(no_such("it is complete"));
        }
        if state.receiving.contains_key(&(dataset, number)) {
            return Err(UploadError::SegmentBusy { dataset, index }.into());
        }
        let partial = partial_path(&path);
        let received = self.usable_length(&partial, announced)?;
        if offset != received {
            return Err(UploadError::Offset {
                dataset,
                index,
                received,
                offset,
            }
            .into());
        }
        // A file that is too long is not part of it.
        if received == 0 && length(&partial)?.is_some_and(|length| length > 0) {
            self.remove_unsound(&partial)?;
        }
        let mut options = OpenOptions::new();
        let opened = options
            .write(true)
            .create(true)
            .truncate(false)
            .open(&partial);
        opened.map_err(io_error("create", &partial))?;
        let cancelled = Arc::new(AtomicBool::new(false));
        state.receiving.insert((dataset, number), cancelled.clone());
        Ok(SegmentReceiver {
            namespace: Arc::clone(self),
            manifest,
            index,
            announced,
            received,
            path,
            partial,
            cancelled,
        })
    }

    /// Refuses an upload or dataset of this id under another name, as if it did not exist.
    pub(super) fn check_is_named(&self, dataset: DatasetId, name: &str) -> Result<(), StoreError> {
        let state = self.state();
        for table in [Table::Upload, Table::Dataset] {
            if let Some(record) = state.catalogue.by_id(table, dataset)?
                && record.name == name
            {
                return Ok(());
            }
        }
        Err(UploadError::NoUpload { dataset }.into())
    }

    /// Publishes the completely received version with this root. Idempotent.
    ///
    /// # Errors
    /// No such upload, an upload of another version, missing segments, another server that writes to the objects, a
    /// disk that fails.
    pub(super) fn publish(
        &self,
        dataset: DatasetId,
        root: Digest,
    ) -> Result<PublishedVersion, StoreError> {
        let mut state = self.state();
        let record = state.catalogue.by_id(Table::Dataset, dataset)?;
        let published = record.as_ref().map(stored_manifest).transpose()?;
        let pending = state.catalogue.by_id(Table::Upload, dataset)?;
        if let (Some(record), Some(manifest)) = (&record, &published)
            && manifest.root() == root
        {
            if state.outdated.contains(&dataset) {
                self.check_is_served(manifest, &record.name)?;
            }
            if pending.is_some() {
                // Finishing would remove segments of the other version; publishing that finishes both.
                return Ok(PublishedVersion::of(manifest, Vec::new()));
            }
            // An earlier attempt may be unfinished.
            return self.finish(&mut state, manifest.clone(), None);
        }
        let Some(pending) = pending else {
            return Err(match record {
                Some(_) => UploadError::OtherVersion { dataset, root }.into(),
                None => UploadError::NoUpload { dataset }.into(),
            });
        };
        let manifest = stored_manifest(&pending)?;
        if manifest.root() != root {
            return Err(UploadError::OtherVersion { dataset, root }.into());
        }
        self.check_is_not_replaced(&manifest)?;
        let new: Vec<u32> = match &published {
            Some(published) if !state.outdated.contains(&dataset) => {
                manifest.segments_beyond(published)
            }
            _ => (0..manifest.segments.len() as u32).collect(),
        };
        for &index in &new {
            if length(&self.segment(&manifest, index))?.is_none() {
                return Err(UploadError::NotComplete { dataset, index }.into());
            }
            self.open_segment(&manifest, index)?;
        }
        if let Some(index) = self.backend.missing(&manifest, &new)? {
            // Then its file must not pass for it either.
            remove_if_there(&self.segment(&manifest, index))?;
            return Err(UploadError::NotComplete { dataset, index }.into());
        }
        // A segment may owe its name to a rename that could not be made durable.
        sync_directory(&self.dataset(dataset))?;
        let made = self.make(&mut state.catalogue, Change::Publish(dataset, now()));
        // Whether the change succeeded or not, the next query looks it up.
        self.snapshots().forget_name(&pending.name);
        made?;
        self.finish(&mut state, manifest, published.as_ref())
    }

    /// Forgets the data that a published version has rewritten, unless that was done: only calls in progress still use
    /// them. `before` is the previously published version, if it is known.
    fn finish(
        &self,
        state: &mut State,
        manifest: Manifest,
        before: Option<&Manifest>,
    ) -> Result<PublishedVersion, StoreError> {
        let dataset = manifest.dataset;
        self.remove_old_recovery(&manifest)?;
        let noted = self.noted(dataset)?;
        let mut rewrote = Vec::new();
        if is_newer(&manifest, noted.as_ref()) {
            // Otherwise a version in between may have left data, too.
            let only_appended =
                |before: &Manifest| noted.as_ref() == Some(before) && !manifest.replaces(before);
            if !before.is_some_and(only_appended) {
                self.snapshots().forget(dataset);
                let numbers = manifest.numbers();
                self.keep_readable(dataset, &numbers);
                self.sweep(dataset, &numbers)?;
                self.backend.remove_segments(dataset, &numbers);
                rewrote.clone_from(&manifest.earlier_roots);
            }
            // Last: a failure before repeats all of this.
            self.note(&manifest)?;
        }
        state.outdated.remove(&dataset);
        Ok(PublishedVersion::of(&manifest, rewrote))
    }

    /// Lists the published datasets. Those with a damaged manifest, or that must not be served, do not hide the others.
    ///
    /// # Errors
    /// A catalogue that fails.
    pub(super) fn list(&self, is_visible: impl Fn(&str) -> bool) -> Result<Listing, StoreError> {
        let mut entries = self.state().catalogue.entries(Table::Dataset)?;
        entries.retain(|it| is_visible(&it.name));
        let mut listing = Listing::default();
        for entry in entries {
            // One manifest at a time is in memory, and the lock is released in between.
            let state = self.state();
            let (record, is_outdated) = (
                state.catalogue.by_id(Table::Dataset, entry.id)?,
                state.outdated.contains(&entry.id),
            );
            drop(state);
            let Some(record) = record else { continue };
            match self.info(record, is_outdated) {
                Ok(info) => listing.datasets.push(info),
                Err(error) => listing.damaged.push(error),
            }
        }
        Ok(listing)
    }

    /// Describes a published dataset; also returns the time of its version's publication, in seconds since 1970.
    ///
    /// # Errors
    /// No such dataset, a damaged manifest, a catalogue that fails.
    pub(super) fn describe(&self, name: &str) -> Result<(DatasetInfo, i64), StoreError> {
        let state = self.state();
        let record = state.published(name)?;
        let is_outdated = state.outdated.contains(&record.id);
        drop(state);
        let published = record.at;
        Ok((self.info(record, is_outdated)?, published))
    }

    fn info(&self, record: Record, is_outdated: bool) -> Result<DatasetInfo, StoreError> {
        let manifest = stored_manifest(&record)?;
        check_name(&record.name)?;
        if is_outdated {
            self.check_is_served(&manifest, &record.name)?;
        }
        Ok(DatasetInfo {
            name: record.name,
            dataset: manifest.dataset,
            version: manifest.version,
            root: manifest.root(),
            columns: manifest.columns,
            blocks: manifest.block_count(),
            stored_bytes: manifest.segment_bytes(),
            parameters: manifest.parameters,
            key_check: manifest.key_check,
            max_len: manifest.max_len,
        })
    }

    /// Pins the published version of a dataset. Opens all its segment files and checks their headers; panels are read
    /// on use.
    ///
    /// # Errors
    /// No such dataset, a missing or damaged segment, a catalogue that fails.
    pub(super) fn snapshot(&self, name: &str) -> Result<Arc<Snapshot>, StoreError> {
        // An open version needs neither disk nor object storage, however long others wait for them.
        if let Some(current) = self.snapshots().current(name) {
            return Ok(current);
        }
        let state = self.state();
        let record = state.published(name)?;
        let manifest = stored_manifest(&record)?;
        if state.outdated.contains(&record.id) {
            self.check_is_served(&manifest, name)?;
        }
        let older = self.snapshots().newest(record.id);
        if let Some(same) = older.as_ref().filter(|older| *older.manifest() == manifest) {
            self.keep_open(same);
            return Ok(Arc::clone(same));
        }
        let charge = self.reserve_open(&manifest, older.as_deref())?;
        let snapshot = self.common.tier.open(
            Arc::clone(&self.name),
            record.name,
            manifest,
            older.as_deref(),
            charge,
            |manifest, index| self.open_segment(manifest, index),
        )?;
        let snapshot = Arc::new(snapshot);
        self.keep_open(&snapshot);
        Ok(snapshot)
    }

    /// Pins the version of a dataset that has this root. It is the published one, or one that was queried before an
    /// append replaced it, which lets a mining run finish.
    ///
    /// # Errors
    ///
    /// As [`snapshot`](Self::snapshot), or the dataset is at another version.
    pub(super) fn snapshot_at(
        &self,
        name: &str,
        root: Digest,
    ) -> Result<Arc<Snapshot>, StoreError> {
        let published = self.snapshot(name)?;
        if published.root() == root {
            return Ok(published);
        }
        let dataset = published.manifest().dataset;
        let wanted = self.snapshots().replaced(dataset, root);
        wanted.ok_or_else(|| StoreError::OtherVersion {
            name: name.into(),
            version: published.manifest().version,
            root: published.root(),
            wanted: root,
        })
    }

    /// Deletes a dataset that is published or only being uploaded, or with `at_once` one that was deleted; returns its
    /// id. A published one stays restorable as long as the store keeps deleted datasets, and takes space until then.
    /// With `at_once` it is purged, which works even on a full disk. Its name is free, its id is never accepted again.
    /// Existing snapshots stay usable. Those of a purged dataset do as far as descriptors suffice to keep its files
    /// open; otherwise reading panels that are not in memory fails with [`FormatError::Removed`].
    ///
    /// # Errors
    /// No such dataset, another server that writes to the objects, a catalogue that fails.
    pub(super) fn delete(&self, name: &str, at_once: bool) -> Result<DatasetId, StoreError> {
        check_name(name)?;
        let mut state = self.state();
        let Some(published) = state.catalogue.by_name(Table::Dataset, name)? else {
            let is_uploaded = state.catalogue.by_name(Table::Upload, name)?.is_some();
            if is_uploaded || !at_once {
                return self.cancel(&mut state, name);
            }
            let deleted = deleted(&state.catalogue, name).map_err(|error| match error {
                StoreError::NoDeleted { name } => StoreError::NoDataset { name },
                other => other,
            })?;
            self.purge(&mut state, deleted.id)?;
            return Ok(deleted.id);
        };
        let id = published.id;
        if at_once || self.common.policy.read().keep_deleted.is_zero() {
            self.purge(&mut state, id)?;
            return Ok(id);
        }
        let made = self.make(&mut state.catalogue, Change::Delete(id, now()));
        self.snapshots().forget(id);
        made?;
        state.stop_receiving(id);
        // Segments sent for a newer version are removed; the published ones stay, or all if they are not known.
        if let Ok(manifest) = stored_manifest(&published) {
            let kept = manifest.numbers();
            self.sweep(id, &kept)?;
            self.backend.remove_segments(id, &kept);
        }
        Ok(id)
    }

    /// Publishes a deleted dataset again, given by name or, if several had it, by id; optionally under another name.
    /// Returns its id.
    ///
    /// # Errors
    /// No such deleted dataset, several, a name that is taken, another server that writes to the objects, a catalogue
    /// that fails.
    pub(super) fn undelete(
        &self,
        which: &str,
        name: Option<&str>,
    ) -> Result<DatasetId, StoreError> {
        let mut state = self.state();
        let record = deleted(&state.catalogue, which)?;
        let name = name.unwrap_or(&record.name);
        check_name(name)?;
        for table in [Table::Dataset, Table::Upload] {
            if let Some(other) = state.catalogue.by_name(table, name)? {
                return Err(UploadError::NameTaken {
                    name: name.into(),
                    taken_by: other.id,
                }
                .into());
            }
        }
        self.make(
            &mut state.catalogue,
            Change::Undelete(record.id, name, now()),
        )?;
        Ok(record.id)
    }

    /// Purges a dataset.
    fn purge(&self, state: &mut State, id: DatasetId) -> Result<(), StoreError> {
        let purged =
            self.change_to_free(&mut state.catalogue, |it| self.make(it, Change::Purge(id)));
        self.snapshots().forget(id);
        purged?;
        state.stop_receiving(id);
        self.keep_readable(id, &BTreeSet::new());
        self.remove_recovery(id)?;
        self.remove_dataset(id)?;
        self.backend.remove_segments(id, &BTreeSet::new());
        self.fill_reserve();
        Ok(())
    }

    /// Purges deleted datasets after their retention time, and cancels stalled uploads; `now` is in seconds since 1970.
    /// Returns the numbers of both.
    ///
    /// # Errors
    /// Another server that writes to the objects, a catalogue that fails.
    pub(super) fn expire(&self, now: i64) -> Result<(usize, usize), StoreError> {
        let policy = *self.common.policy.read();
        let is_old = |at: i64, kept: Duration| {
            now.checked_sub(at)
                .is_some_and(|age| age >= 0 && age as u64 >= kept.as_secs())
        };
        let mut state = self.state();
        let mut deleted = state.catalogue.entries(Table::Deleted)?;
        deleted.retain(|it| is_old(it.at, policy.keep_deleted));
        for record in &deleted {
            self.purge(&mut state, record.id)?;
        }
        let mut uploads = state.catalogue.entries(Table::Upload)?;
        uploads.retain(|it| {
            let is_received = state.receiving.keys().any(|(id, _)| *id == it.id);
            let touched = it.at.max(*state.touched.get(&it.id).unwrap_or(&it.at));
            is_old(touched, policy.keep_uploads) && !is_received
        });
        for record in &uploads {
            self.cancel(&mut state, &record.name)?;
        }
        Ok((deleted.len(), uploads.len()))
    }

    /// Lists the deleted but restorable datasets, by name.
    ///
    /// # Errors
    /// A catalogue that fails.
    pub(super) fn deleted(&self) -> Result<Vec<DeletedInfo>, StoreError> {
        let keep = self.common.policy.read().keep_deleted.as_secs();
        let records = self.state().catalogue.entries(Table::Deleted)?;
        let info = |record: Entry| DeletedInfo {
            stored_bytes: record.bytes,
            name: record.name,
            dataset: record.id,
            deleted: record.at,
            until: record
                .at
                .saturating_add(i64::try_from(keep).unwrap_or(i64::MAX)),
        };
        Ok(records.into_iter().map(info).collect())
    }

    /// Lists the unfinished uploads, by name.
    ///
    /// # Errors
    /// A catalogue or disk that fails.
    pub(super) fn uploads(&self) -> Result<Vec<UploadInfo>, StoreError> {
        let keep = self.common.policy.read().keep_uploads.as_secs();
        let state = self.state();
        let entries = state.catalogue.entries(Table::Upload)?;
        let touched = state.touched.clone();
        drop(state);
        let mut uploads = Vec::with_capacity(entries.len());
        for entry in entries {
            let record = self.state().catalogue.by_id(Table::Upload, entry.id)?;
            let Some(record) = record else { continue };
            // A damaged one is reported when it is resumed.
            let Ok(manifest) = stored_manifest(&record) else {
                continue;
            };
            let at = record
                .at
                .max(*touched.get(&record.id).unwrap_or(&record.at));
            uploads.push(UploadInfo {
                total_bytes: manifest.segment_bytes(),
                received_bytes: self.received(&manifest)?,
                name: record.name,
                dataset: record.id,
                until: at.saturating_add(i64::try_from(keep).unwrap_or(i64::MAX)),
            });
        }
        Ok(uploads)
    }

    /// Returns the bytes of a version's segments that have arrived.
    fn received(&self, manifest: &Manifest) -> Result<u64, StoreError> {
        let one = |(index, entry): (u32, &oboro_format::SegmentEntry)| {
            let path = self.segment(manifest, index);
            match length(&path)? {
                Some(_) => Ok(entry.bytes),
                None => self.usable_length(&partial_path(&path), entry.bytes),
            }
        };
        (0..).zip(&manifest.segments).map(one).sum()
    }

    /// Returns the contents of the namespace, in numbers.
    ///
    /// # Errors
    /// A catalogue that fails.
    pub(super) fn usage(&self) -> Result<Usage, StoreError> {
        let catalogue = &self.state().catalogue;
        Ok(Usage {
            datasets: catalogue.count(Table::Dataset)?,
            uploads: catalogue.count(Table::Upload)?,
            deleted: catalogue.count(Table::Deleted)?,
            bytes: catalogue.bytes()? + self.note_bytes()? + self.backend.recovery_bytes(None)?,
        })
    }

    /// Cancels the upload under this name, discards its data, and returns the id of its dataset. A published version is
    /// not affected, and the upload may begin again.
    ///
    /// # Errors
    /// No such upload, a catalogue that fails.
    pub(super) fn cancel_upload(&self, name: &str) -> Result<DatasetId, StoreError> {
        check_name(name)?;
        self.cancel(&mut self.state(), name)
    }

    fn cancel(&self, state: &mut State, name: &str) -> Result<DatasetId, StoreError> {
        let pending = state
            .catalogue
            .by_name(Table::Upload, name)?
            .ok_or_else(|| StoreError::NoDataset { name: name.into() })?;
        let published = state.catalogue.by_id(Table::Dataset, pending.id)?;
        let published = published.as_ref().map(stored_manifest).transpose()?;
        state.stop_receiving(pending.id);
        // Complete segments without a row would be taken for a dataset that the catalogue forgot, so here the row is
        // removed last: without its segments the upload is back at its start.
        let there = published
            .as_ref()
            .map_or_else(BTreeSet::new, Manifest::numbers);
        self.sweep(pending.id, &there)?;
        self.backend.remove_segments(pending.id, &there);
        self.change_to_free(&mut state.catalogue, |it| it.cancel_upload(pending.id))?;
        if published.is_none() {
            self.remove_dataset(pending.id)?;
        }
        self.fill_reserve();
        Ok(pending.id)
    }
}

/// State of an announced upload in the catalogue.
struct AnnouncedUpload {
    /// Published version.
    older: Option<Manifest>,
    /// `true` if the published version has all its segments.
    is_whole: bool,
    /// `true` if the announced version is the published one.
    is_published: bool,
}

/// Refuses a version that loses part of the published one, or that no version could follow.
///
/// # Errors
/// Such a version.
fn check_only_appends(new: &Manifest, older: &Manifest) -> Result<(), StoreError> {
    const MOST_VERSIONS: u64 = 1 << 20;
    if new.replaces(older) {
        Err(StoreError::ReplacesSegments)
    } else if new.version - older.version > MOST_VERSIONS {
        Err(StoreError::Forbidden { role: Role::Delete })
    } else {
        Ok(())
    }
}

/// Returns the deleted dataset with this name or id.
///
/// # Errors
/// None, several, a catalogue that fails.
fn deleted(catalogue: &Catalogue, which: &str) -> Result<Entry, StoreError> {
    let mut found = catalogue.entries(Table::Deleted)?;
    // The name of one may be the id of another.
    if let Some(at) = found.iter().position(|it| it.id.to_string() == which) {
        return Ok(found.swap_remove(at));
    }
    found.retain(|it| it.name == which);
    let name = || which.to_owned();
    match found.len() {
        0 => Err(StoreError::NoDeleted { name: name() }),
        1 => Ok(found.remove(0)),
        _ => Err(StoreError::SeveralDeleted {
            name: name(),
            ids: found.iter().map(|it| it.id).collect(),
        }),
    }
}
