//! Reception of one segment.

use super::namespace::{Namespace, now};
use crate::error::{StoreError, UploadError};
use oboro_format::files::{io_error, remove_if_there, rename_durably};
use oboro_format::{FormatError, Manifest, Segment};
use std::fs::{File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Receiver of one segment. Dropped before [`finish`](Self::finish), it keeps the received bytes, from which the upload
/// can be resumed.
pub struct SegmentReceiver {
    pub(super) namespace: Arc<Namespace>,
    pub(super) manifest: Manifest,
    pub(super) index: u32,
    pub(super) announced: u64,
    pub(super) received: u64,
    /// Path of the partial file, and of the complete one.
    pub(super) partial: PathBuf,
    pub(super) path: PathBuf,
    pub(super) cancelled: Arc<AtomicBool>,
}

impl SegmentReceiver {
    /// Returns the number of bytes received.
    pub fn received(&self) -> u64 {
        self.received
    }

    /// Returns the number of bytes of the segment.
    pub fn announced(&self) -> u64 {
        self.announced
    }

    /// Appends bytes; refuses them as a whole if they would exceed the segment.
    pub fn write(&mut self, bytes: &[u8]) -> Result<(), StoreError> {
        let dataset = self.manifest.dataset;
        self.check_cancelled()?;
        if bytes.len() as u64 > self.announced - self.received {
            return Err(UploadError::TooLong {
                dataset,
                index: self.index,
                announced: self.announced,
            }
            .into());
        }
        let file = self.open()?;
        if let Err(error) = file.write_all_at(bytes, self.received) {
            self.take_back(&file);
            return Err(io_error("write", &self.partial)(error).into());
        }
        self.received += bytes.len() as u64;
        Ok(())
    }

    /// Opens the partial file for one write: uploads that wait for their clients have no descriptors.
    fn open(&self) -> Result<File, StoreError> {
        let opened = OpenOptions::new().write(true).open(&self.partial);
        opened.map_err(|error| match self.check_cancelled() {
            // Cancellation removes the file.
            Err(cancelled) => cancelled,
            Ok(()) => io_error("open", &self.partial)(error).into(),
        })
    }

    /// Truncates a partial write, best effort: the rest would only be detected at the end.
    fn take_back(&self, file: &File) {
        let written = file.metadata();
        if written.is_ok_and(|it| it.len() > self.received) {
            let _ = file.set_len(self.received);
        }
    }

    /// Checks the received bytes against the manifest and makes the segment complete and durable. A segment that does
    /// not match is discarded.
    pub fn finish(self) -> Result<(), StoreError> {
        let (dataset, index) = (self.manifest.dataset, self.index);
        let number = self.number();
        self.check_cancelled()?;
        if self.received != self.announced {
            return Err(UploadError::Incomplete {
                dataset,
                index,
                received: self.received,
                announced: self.announced,
            }
            .into());
        }
        if let Err(error) = self.open()?.sync_all() {
            // The bytes may be lost although they can still be read, and a later sync may succeed without them. None of
            // them counts, even if the disk does not let them be removed now.
            self.namespace.unsound.lock().insert(self.partial.clone());
            self.namespace.remove_unsound(&self.partial)?;
            return Err(io_error("sync", &self.partial)(error).into());
        }
        let verified = Segment::open_named(&self.partial, &self.manifest, index)
            .and_then(|segment| segment.verify())
            .map_err(StoreError::from)
            .and_then(|()| {
                let backend = &self.namespace.backend;
                backend.put_segment(dataset, number, &self.partial)
            });
        // From here on nothing may cancel the upload.
        let mut state = self.namespace.state();
        state.touched.insert(dataset, now());
        if let Err(cancelled) = self.check_cancelled() {
            self.namespace.backend.take_back_segment(dataset, number);
            return Err(cancelled);
        }
        match verified {
            Ok(()) => {
                rename_durably(&self.partial, &self.path)?;
                let backend = &self.namespace.backend;
                backend.name_segment(dataset, number, &self.path);
                Ok(())
            }
            Err(StoreError::Format(FormatError::Damaged {
                subject,
                corruption,
                ..
            })) => {
                remove_if_there(&self.partial)?;
                Err(UploadError::SegmentRefused {
                    dataset,
                    index,
                    damaged: subject,
                    corruption,
                }
                .into())
            }
            Err(other) => Err(other),
        }
    }

    pub(super) fn number(&self) -> u32 {
        self.manifest.segments[self.index as usize].number
    }

    pub(super) fn check_cancelled(&self) -> Result<(), StoreError> {
        if self.cancelled.load(Ordering::Acquire) {
            return Err(UploadError::UploadCancelled {
                dataset: self.manifest.dataset,
            }
            .into());
        }
        Ok(())
    }
}

impl Drop for SegmentReceiver {
    fn drop(&mut self) {
        self.namespace
            .state()
            .receiving
            .remove(&(self.manifest.dataset, self.number()));
    }
}
