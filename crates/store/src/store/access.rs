//! Everything that callers can do with datasets and uploads.

use super::rewritten::is_newer;
use super::*;

/// A handle to the datasets of a store, by which callers reach them.
#[derive(Clone)]
pub struct Access {
    pub(super) shared: Arc<Shared>,
}

impl Access {
    /// Begins the upload of a dataset or of a newer version of it, or returns the progress of an upload of the same
    /// manifest. Segments of the published version need no upload.
    ///
    /// # Errors
    /// A name that is invalid or taken, a manifest that is invalid or does not follow the published version, another
    /// upload of the dataset in progress, a deleted dataset, a disk or catalogue that fails.
    pub fn begin_upload(&self, name: &str, manifest: &[u8]) -> Result<UploadStatus, StoreError> {
        check_name(name)?;
        let new = Manifest::decode(manifest).map_err(|error| match error {
            FormatError::Damaged { corruption, .. } => {
                StoreError::from(UploadError::ManifestRefused { corruption })
            }
            other => other.into(),
        })?;
        let id = new.dataset;
        let mut state = self.shared.state();
        let state = &mut *state;
        let catalogue = &mut state.catalogue;
        if catalogue.is_deleted(id)? {
            return Err(UploadError::Deleted { dataset: id }.into());
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
        // Even if only an old copy of the store is here.
        self.shared.check_is_not_replaced(&new)?;
        let published = catalogue.by_id(Table::Dataset, id)?;
        if published
            .as_ref()
            .is_some_and(|published| published.manifest == manifest)
        {
            return Ok(UploadStatus {
                segments: self.progress(&new, Some(&new), true)?,
                dataset: id,
                published: true,
            });
        }
        let older = published.as_ref().map(stored_manifest).transpose()?;
        if let Some(older) = &older {
            new.follows(older)?;
        }
        let there = older.as_ref().map_or_else(BTreeSet::new, Manifest::numbers);
        let is_whole = !state.outdated.contains(&id);
        match catalogue.by_id(Table::Upload, id)? {
            Some(pending) if pending.manifest != manifest => {
                // A bundle that changed since its upload started keeps what has arrived of what it still has.
                let begun = stored_manifest(&pending)?;
                if new.follows(&begun).is_err() {
                    return Err(UploadError::OtherUpload {
                        dataset: id,
                        name: pending.name,
                    }
                    .into());
                }
                self.shared.ensure_dataset(id)?;
                catalogue.change_upload(id, manifest)?;
                // What it no longer names goes, and is not received any more.
                let named = new.numbers();
                for ((of, number), cancelled) in &state.receiving {
                    if *of == id && !named.contains(number) {
                        cancelled.store(true, Ordering::Release);
                    }
                }
                let directory = self.shared.dataset(id);
                sweep(&directory, &there, &(&named - &there))?;
                self.shared.remove_objects(id, &(&there | &named));
            }
            Some(_) => {}
            None => {
                self.shared.ensure_dataset(id)?;
                // Leftovers of a cancelled upload must not pass for part of this one.
                self.shared.sweep(id, &there)?;
                let upload = Record {
                    id,
                    name: name.into(),
                    manifest: manifest.into(),
                };
                catalogue.begin_upload(&upload)?;
            }
        }
        Ok(UploadStatus {
            segments: self.progress(&new, older.as_ref(), is_whole)?,
            dataset: id,
            published: false,
        })
    }

    /// What has arrived of each segment; those of the `published` version are complete, if that is whole.
    fn progress(
        &self,
        manifest: &Manifest,
        published: Option<&Manifest>,
        is_whole: bool,
    ) -> Result<Vec<SegmentProgress>, StoreError> {
        let published = published.map_or_else(BTreeMap::new, Manifest::digests);
        let one = |(index, entry): (usize, &oboro_format::SegmentEntry)| {
            let path = self.shared.segment(manifest, index as u32);
            let is_published = published.get(&entry.number) == Some(&entry.digest);
            let complete = (is_published && is_whole) || length(&path)?.is_some();
            let received = if complete {
                entry.bytes
            } else {
                usable_length(&partial_path(&path), entry.bytes)?
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

    /// Resumes receiving a segment at `offset`, which must be where its upload stands.
    ///
    /// # Errors
    ///
    /// No such upload or segment, another offset, a segment that another connection sends, a disk that fails.
    pub fn receive_segment(
        &self,
        dataset: DatasetId,
        index: u32,
        offset: u64,
    ) -> Result<SegmentReceiver, StoreError> {
        let mut state = self.shared.state();
        let pending = state
            .catalogue
            .by_id(Table::Upload, dataset)?
            .ok_or(UploadError::NoUpload { dataset })?;
        let manifest = stored_manifest(&pending)?;
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
        let path = self.shared.segment(&manifest, index);
        if length(&path)?.is_some() {
            return Err(no_such("it is complete"));
        }
        if state.receiving.contains_key(&(dataset, number)) {
            return Err(UploadError::SegmentBusy { dataset, index }.into());
        }
        let partial = partial_path(&path);
        let received = usable_length(&partial, announced)?;
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
            remove_if_there(&partial)?;
        }
        let mut options = OpenOptions::new();
        let opened = options
            .write(true)
            .create(true)
            .truncate(false)
            .open(&partial);
        let file = opened.map_err(io_error("create", &partial))?;
        let cancelled = Arc::new(AtomicBool::new(false));
        state.receiving.insert((dataset, number), cancelled.clone());
        let shared = self.shared.clone();
        Ok(SegmentReceiver {
            shared,
            manifest,
            index,
            announced,
            received,
            file,
            path,
            partial,
            cancelled,
        })
    }

    /// Makes a completely received version the published one. Repeating it does nothing.
    ///
    /// # Errors
    /// No such upload, segments that are missing, another server that writes to the objects, a disk that fails.
    pub fn publish(&self, dataset: DatasetId) -> Result<Published, StoreError> {
        let mut state = self.shared.state();
        let record = state.catalogue.by_id(Table::Dataset, dataset)?;
        let published = record.as_ref().map(stored_manifest).transpose()?;
        let Some(pending) = state.catalogue.by_id(Table::Upload, dataset)? else {
            let record = record.ok_or(UploadError::NoUpload { dataset })?;
            let manifest = stored_manifest(&record)?;
            if state.outdated.contains(&dataset) {
                self.shared.check_is_served(&manifest, &record.name)?;
            }
            // Of an earlier attempt something may be left to do.
            return self.finish(&mut state, manifest, None);
        };
        let manifest = stored_manifest(&pending)?;
        self.shared.check_is_not_replaced(&manifest)?;
        let new: Vec<u32> = match &published {
            Some(published) if !state.outdated.contains(&dataset) => {
                manifest.segments_beyond(published)
            }
            _ => (0..manifest.segments.len() as u32).collect(),
        };
        for &index in &new {
            if length(&self.shared.segment(&manifest, index))?.is_none() {
                return Err(UploadError::NotComplete { dataset, index }.into());
            }
            self.shared.open_segment(&manifest, index)?;
        }
        if let Some(remote) = &self.shared.remote
            && let Some(index) = remote.missing(&manifest, &new)?
        {
            // Then its file must not pass for it either.
            remove_if_there(&self.shared.segment(&manifest, index))?;
            return Err(UploadError::NotComplete { dataset, index }.into());
        }
        // A segment may owe its name to a rename that could not be made durable.
        sync_directory(&self.shared.dataset(dataset))?;
        self.shared
            .make(&mut state.catalogue, Change::Publish(dataset))?;
        self.finish(&mut state, manifest, published.as_ref())
    }

    /// Forgets what a published version has rewritten, unless that was done: only calls in progress still have it.
    /// `before` was published until now, if that is known.
    fn finish(
        &self,
        state: &mut State,
        manifest: Manifest,
        before: Option<&Manifest>,
    ) -> Result<Published, StoreError> {
        let dataset = manifest.dataset;
        let noted = self.shared.noted(dataset)?;
        let mut rewrote = Vec::new();
        if is_newer(&manifest, noted.as_ref()) {
            // Otherwise something may be left of a version in between, too.
            let only_appended =
                |before: &Manifest| noted.as_ref() == Some(before) && !manifest.replaces(before);
            if !before.is_some_and(only_appended) {
                state.forget_snapshots(dataset);
                let numbers = manifest.numbers();
                self.shared.sweep(dataset, &numbers)?;
                self.shared.remove_objects(dataset, &numbers);
                rewrote.clone_from(&manifest.earlier_roots);
            }
            // Last, so that a failure before has all of this done again.
            self.shared.note(&manifest)?;
        }
        state.outdated.remove(&dataset);
        Ok(Published {
            dataset,
            version: manifest.version,
            root: manifest.root(),
            rewrote,
        })
    }

    /// The published datasets. One whose manifest is damaged, or that must not be served, does not hide the others.
    ///
    /// # Errors
    /// A catalogue that fails.
    pub fn list(&self) -> Result<Listing, StoreError> {
        let state = self.shared.state();
        let (records, outdated) = (state.catalogue.all(Table::Dataset)?, state.outdated.clone());
        drop(state);
        let info = |record: Record| -> Result<DatasetInfo, StoreError> {
            let manifest = stored_manifest(&record)?;
            check_name(&record.name)?;
            if outdated.contains(&record.id) {
                self.shared.check_is_served(&manifest, &record.name)?;
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
        };
        let mut listing = Listing::default();
        for record in records {
            match info(record) {
                Ok(info) => listing.datasets.push(info),
                Err(error) => listing.damaged.push(error),
            }
        }
        Ok(listing)
    }

    /// Pins the published version of a dataset. All its segment files are opened and
    /// their headers checked; panels are read when they are used.
    ///
    /// # Errors
    /// No such dataset, a segment that is missing or damaged, a catalogue that fails.
    pub fn snapshot(&self, name: &str) -> Result<Arc<Snapshot>, StoreError> {
        check_name(name)?;
        let mut state = self.shared.state();
        let record = state
            .catalogue
            .by_name(Table::Dataset, name)?
            .ok_or_else(|| StoreError::NoDataset { name: name.into() })?;
        let manifest = stored_manifest(&record)?;
        if state.outdated.contains(&record.id) {
            self.shared.check_is_served(&manifest, name)?;
        }
        let older = state.snapshots.get(&record.id);
        if let Some(same) = older.filter(|older| *older.manifest() == manifest) {
            return Ok(same.clone());
        }
        let homes = Arc::new(self.shared.placement.homes(record.id));
        let older = older.map(|it| &**it);
        let segments = segments_of(&manifest, older, |index| {
            let segment = self.shared.open_segment(&manifest, index)?;
            self.shared.tier.register(segment, Arc::clone(&homes))
        })?;
        let snapshot = Arc::new(Snapshot::new(record.name, manifest, segments, homes));
        if let Some(older) = state.snapshots.insert(record.id, snapshot.clone()) {
            state.replaced.push_back(older);
            if state.replaced.len() > REPLACED_SNAPSHOTS {
                state.replaced.pop_front();
            }
        }
        Ok(snapshot)
    }

    /// Pins the version of a dataset that has this root: the published one, or one that was queried before an append
    /// replaced it, so that a mining run in progress can finish.
    ///
    /// # Errors
    ///
    /// As [`snapshot`](Self::snapshot), or the dataset is at another version.
    pub fn snapshot_at(&self, name: &str, root: Digest) -> Result<Arc<Snapshot>, StoreError> {
        let published = self.snapshot(name)?;
        if published.root() == root {
            return Ok(published);
        }
        let state = self.shared.state();
        let wanted = state.replaced.iter().find(|older| {
            older.root() == root && older.manifest().dataset == published.manifest().dataset
        });
        wanted.cloned().ok_or_else(|| StoreError::OtherVersion {
            name: name.into(),
            version: published.manifest().version,
            root: published.root(),
            wanted: root,
        })
    }

    /// Deletes a dataset, published or only being uploaded, even on a full disk; which one it was.
    /// Snapshots already taken stay usable. The id of a published dataset is never accepted again.
    ///
    /// # Errors
    /// No such dataset, another server that writes to the objects, a catalogue that fails.
    pub fn delete(&self, name: &str) -> Result<DatasetId, StoreError> {
        check_name(name)?;
        let mut state = self.shared.state();
        let Some(published) = state.catalogue.by_name(Table::Dataset, name)? else {
            return self.cancel(&mut state, name);
        };
        self.shared.change_to_free(&mut state.catalogue, |it| {
            self.shared.make(it, Change::Delete(published.id))
        })?;
        state.forget_snapshots(published.id);
        state.stop_receiving(published.id);
        self.shared.remove_dataset(published.id)?;
        self.shared.remove_objects(published.id, &BTreeSet::new());
        self.shared.fill_reserve();
        Ok(published.id)
    }

    /// Cancels the upload under this name, discards what was received, and returns the id of its dataset. A published
    /// version is not touched, and the same upload may begin again.
    ///
    /// # Errors
    /// No such upload, a catalogue that fails.
    pub fn cancel_upload(&self, name: &str) -> Result<DatasetId, StoreError> {
        check_name(name)?;
        self.cancel(&mut self.shared.state(), name)
    }

    fn cancel(&self, state: &mut State, name: &str) -> Result<DatasetId, StoreError> {
        let pending = state
            .catalogue
            .by_name(Table::Upload, name)?
            .ok_or_else(|| StoreError::NoDataset { name: name.into() })?;
        let published = state.catalogue.by_id(Table::Dataset, pending.id)?;
        let published = published.as_ref().map(stored_manifest).transpose()?;
        state.stop_receiving(pending.id);
        // Complete segments without a row would be taken for a dataset that the catalogue forgot, so here the row goes
        // last: without its segments the upload is back at its start.
        let there = published
            .as_ref()
            .map_or_else(BTreeSet::new, Manifest::numbers);
        self.shared.sweep(pending.id, &there)?;
        self.shared.remove_objects(pending.id, &there);
        self.shared
            .change_to_free(&mut state.catalogue, |it| it.cancel_upload(pending.id))?;
        if published.is_none() {
            self.shared.remove_dataset(pending.id)?;
        }
        self.shared.fill_reserve();
        Ok(pending.id)
    }
}
