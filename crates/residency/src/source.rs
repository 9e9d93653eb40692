//! Source of a segment's bytes: a local file, or other storage with a local file as its copy. Readers of segments do
//! not see the difference.

mod file;

use crate::error::ResidencyError;
use oboro_format::{FormatError, Segment, SegmentDescription, SegmentHeader};
use oboro_ring::{Column, Limb};
use std::path::Path;
use std::sync::Arc;

/// Callback that receives the checked bytes of a part with its padding, or the error.
pub type Then = Box<dyn FnOnce(Result<&[u8], ResidencyError>) + Send>;

/// Parts of one segment, numbered as in its header.
pub trait Source: Send + Sync {
    /// Returns the local file, which has all parts or some of them.
    fn local(&self) -> &Segment;

    /// Passes a part without its padding to `visit`, in chunks.
    ///
    /// # Errors
    /// Damage, reported after the last chunk at the latest; storage out of reach.
    fn read(&self, part: usize, visit: &mut dyn FnMut(&[u8])) -> Result<(), ResidencyError>;

    /// Checks a part in its permanent storage, and leaves nothing of it in the page cache.
    ///
    /// # Errors
    ///
    /// Damage, storage out of reach.
    fn check(&self, part: usize) -> Result<(), ResidencyError>;

    /// Checks the header in its permanent storage.
    ///
    /// # Errors
    ///
    /// Damage, storage out of reach.
    fn check_header(&self) -> Result<(), ResidencyError>;

    /// Returns true if the local file has a part, as far as is known.
    fn is_local(&self, part: usize) -> bool;

    /// Discards the local file's wrong copy of a part; returns true if the part can be [fetched](Self::fetch) instead.
    fn discard(&self, part: usize) -> bool;

    /// Fetches a part that the local file lacks, without blocking.
    fn fetch(&self, part: usize, then: Then);

    /// Starts to fetch a part unless the local file has it.
    fn prefetch(&self, part: usize);

    /// Records the use of a part in the local file.
    fn used(&self);
}

/// Segment of a store. It can be read from any number of threads.
#[derive(Clone)]
pub struct StoredSegment(Arc<dyn Source>);

impl StoredSegment {
    /// Creates a segment with this source.
    pub fn new(source: impl Source + 'static) -> Self {
        Self(Arc::new(source))
    }

    /// Returns the source.
    pub fn source(&self) -> &dyn Source {
        &*self.0
    }

    /// Returns the local file.
    pub fn local(&self) -> &Segment {
        self.0.local()
    }

    /// Returns the header.
    pub fn header(&self) -> &SegmentHeader {
        self.local().header()
    }

    /// Returns the content of the header.
    pub fn description(&self) -> &SegmentDescription {
        self.local().description()
    }

    /// Returns the path of the local file.
    pub fn path(&self) -> &Path {
        self.local().path()
    }

    /// Returns the residues in a panel: `blocks × N`.
    pub fn panel_len(&self) -> usize {
        self.local().panel_len()
    }

    /// Returns the index of a panel among the parts.
    ///
    /// # Panics
    ///
    /// Panics if the panel does not exist.
    pub(crate) fn panel_number(&self, limb: Limb, column: Column) -> usize {
        let number = self.description().panel_number(limb, column);
        number.expect("the segment has the panel")
    }

    /// Returns the sealed cells of one column, checked.
    ///
    /// # Errors
    /// No such column, damage, storage out of reach.
    pub fn read_cells(&self, column: Column) -> Result<Vec<u8>, ResidencyError> {
        self.read(self.description().cells_number(column)?)
    }

    /// Returns the packed bytes of one panel, checked.
    ///
    /// # Errors
    /// No such panel, damage, storage out of reach.
    pub fn read_packed_panel(&self, limb: Limb, column: Column) -> Result<Vec<u8>, ResidencyError> {
        self.read(self.description().panel_number(limb, column)?)
    }

    fn read(&self, part: usize) -> Result<Vec<u8>, ResidencyError> {
        let mut all = Vec::with_capacity(self.header().part_extent(part).len);
        self.0
            .read(part, &mut |bytes| all.extend_from_slice(bytes))?;
        Ok(all)
    }

    /// Prefetches sealed cells, if they have to be fetched.
    ///
    /// # Panics
    ///
    /// Panics if a column does not exist.
    pub fn prefetch_cells(&self, columns: impl IntoIterator<Item = Column>) {
        for column in columns {
            let cells = self.description().cells_number(column);
            self.0.prefetch(cells.expect("the segment has the column"));
        }
    }

    /// Unpacks a panel that was read with its padding into slices of whole blocks, checked.
    pub(crate) fn unpack(
        &self,
        part: usize,
        bytes: &[u8],
        pieces: Vec<&mut [u32]>,
    ) -> Result<(), FormatError> {
        let unpacked = self.header().unpack(part, bytes, pieces);
        unpacked.map_err(|corruption| self.local().part_error(part, corruption))
    }
}
