//! Storage in the namespace's directory: its files are the data, so that nothing is left to publish.

use super::backend::{Backend, StoredCopy, StoredNote};
use super::directory::length;
use crate::catalogue::{Catalogue, Change};
use crate::error::StoreError;
use crate::layout::{RECOVERY, recovery_path};
use oboro_format::files::{
    exists, if_there, io_error, names, remove_if_there, rename_durably, sync_directory,
};
use oboro_format::{DatasetId, Manifest, Segment};
use oboro_residency::StoredSegment;
use std::collections::BTreeSet;
use std::fs::File;
use std::path::{Path, PathBuf};

/// Directory of a namespace.
pub(super) struct Local {
    home: PathBuf,
}

impl Local {
    pub(super) fn new(home: &Path) -> Self {
        Self { home: home.into() }
    }
}

impl Backend for Local {
    fn keeps_files(&self) -> bool {
        true
    }

    fn open_segment(
        &self,
        path: &Path,
        manifest: &Manifest,
        index: u32,
    ) -> Result<StoredSegment, StoreError> {
        let segment = Segment::open_named(path, manifest, index)?;
        Ok(StoredSegment::new(segment))
    }

    fn put_segment(&self, _: DatasetId, _: u32, _: &Path) -> Result<(), StoreError> {
        Ok(())
    }

    fn name_segment(&self, _: DatasetId, _: u32, _: &Path) {}

    fn take_back_segment(&self, _: DatasetId, _: u32) {}

    fn remove_segments(&self, _: DatasetId, _: &BTreeSet<u32>) {}

    fn missing(&self, _: &Manifest, _: &[u32]) -> Result<Option<u32>, StoreError> {
        Ok(None)
    }

    fn place(&self, path: PathBuf, _: DatasetId, _: u32) -> PathBuf {
        path
    }

    fn put_catalogue(&self, _: &Catalogue, _: Change<'_>) -> Result<(), StoreError> {
        Ok(())
    }

    fn put_note(&self, _: DatasetId, _: &Path) -> Result<(), StoreError> {
        Ok(())
    }

    fn notes(&self) -> Result<Option<Vec<StoredNote>>, StoreError> {
        Ok(None)
    }

    fn put_recovery(&self, dataset: DatasetId, file: &Path, _: u64) -> Result<(), StoreError> {
        Ok(rename_durably(file, &recovery_path(&self.home, dataset))?)
    }

    fn recovery(&self, dataset: DatasetId) -> Result<Option<StoredCopy>, StoreError> {
        let path = recovery_path(&self.home, dataset);
        let Some(file) = if_there(&path, "open", File::open(&path))? else {
            return Ok(None);
        };
        Ok(Some(StoredCopy {
            bytes: file.metadata().map_err(io_error("read", &path))?.len(),
            content: Box::new(file),
            path: Some(path),
        }))
    }

    fn remove_recovery(&self, dataset: DatasetId) -> Result<(), StoreError> {
        let path = recovery_path(&self.home, dataset);
        if exists(&path)? {
            remove_if_there(&path)?;
            sync_directory(&self.home.join(RECOVERY))?;
        }
        Ok(())
    }

    fn recovery_bytes(&self, without: Option<DatasetId>) -> Result<u64, StoreError> {
        let directory = self.home.join(RECOVERY);
        let without = without.map(|it| it.to_string());
        let counted = names(&directory)?.into_iter();
        let counted = counted.filter(|name| {
            let id = name.split_once('.').map_or(&**name, |it| it.0);
            without.as_deref() != Some(id)
        });
        counted
            .map(|name| Ok(length(&directory.join(name))?.unwrap_or(0)))
            .sum()
    }

    fn sweep(&self, _: &Catalogue) -> Result<(), StoreError> {
        Ok(())
    }

    fn unnamed(&self) -> usize {
        0
    }
}
