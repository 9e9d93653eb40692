//! Import of local bundles, for a server in the owner's own process. Segments are not copied where the file system has
//! hard links.

use super::namespace::Namespace;
use super::receiver::SegmentReceiver;
use super::reports::{PublishedVersion, SegmentProgress};
use crate::error::StoreError;
use oboro_format::files::{io_error, remove_if_there};
use oboro_format::{Bundle, Roles, Segment};
use std::fs;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;

/// Bytes of a segment that are copied at a time.
const CHUNK_BYTES: usize = 1 << 20;

impl Namespace {
    /// Publishes the content of a bundle, like an upload. Segments are linked if the store is a directory on the
    /// bundle's file system: then headers are checked here, panels before their first use, and they are as durable as
    /// the bundle. Otherwise they are copied, and checked completely.
    ///
    /// # Errors
    ///
    /// As for uploads: a name that is taken, a version that is not newer, damaged segments, a full disk. Completed
    /// segments stay, and the next import resumes there.
    pub(super) fn import(
        self: &Arc<Self>,
        name: &str,
        bundle: &Bundle,
        roles: Roles,
    ) -> Result<PublishedVersion, StoreError> {
        let root = bundle.manifest().root();
        let status = self.begin_upload(name, &bundle.manifest().encode(), roles)?;
        let missing = status.segments.iter().filter(|segment| !segment.complete);
        for SegmentProgress {
            index,
            bytes_received,
            ..
        } in missing
        {
            let receiver = self.receive_segment(status.dataset, root, *index, *bytes_received)?;
            receiver.adopt(&bundle.segment_path(*index))?;
        }
        self.publish(status.dataset, root)
    }
}

impl SegmentReceiver {
    /// Completes the segment from its file at `path`.
    fn adopt(self, path: &Path) -> Result<(), StoreError> {
        Segment::open_named(path, &self.manifest, self.index)?;
        if self.link(path)? {
            Ok(())
        } else {
            self.copy(path)
        }
    }

    /// Links the file into the store; returns true if that was possible.
    fn link(&self, path: &Path) -> Result<bool, StoreError> {
        if !self.namespace.backend.keeps_files() {
            return Ok(false);
        }
        // From here on nothing may cancel the upload.
        let _state = self.namespace.state();
        self.check_cancelled()?;
        if fs::hard_link(path, &self.path).is_err() {
            return Ok(false);
        }
        remove_if_there(&self.partial)?;
        Ok(true)
    }

    fn copy(mut self, path: &Path) -> Result<(), StoreError> {
        let read = || io_error("read", path);
        let file = File::open(path).map_err(read())?;
        let mut chunk = vec![0; CHUNK_BYTES];
        while self.received < self.announced {
            let most = (self.announced - self.received).min(CHUNK_BYTES as u64) as usize;
            let there = &mut chunk[..most];
            file.read_exact_at(there, self.received).map_err(read())?;
            self.write(there)?;
        }
        self.finish()
    }
}

#[cfg(test)]
mod tests;
