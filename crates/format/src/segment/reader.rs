//! Segments in local files. Each part is checked against its digest.

use super::SegmentDescription;
use super::file::SegmentFile;
use super::header::{CHUNK_BYTES, SegmentHeader, is_zero, unpack_into};
use super::read_error::ReadError;
use crate::error::{Corruption, FormatError};
use crate::files::io_error;
use crate::id::Digest;
use crate::manifest::{Manifest, SegmentEntry};
use oboro_ring::{Column, Limb, pack};
use oboro_system::read_exact_at;
use std::fs::File;
use std::io::Write;
use std::path::Path;

/// Complete segment, readable from any number of threads. Its file stays open as long as descriptors suffice, and is
/// reopened otherwise.
pub struct Segment {
    file: SegmentFile,
    header: SegmentHeader,
}

impl Segment {
    /// Opens a segment and checks its header and exact length, but no panel.
    pub fn open(path: &Path) -> Result<Self, FormatError> {
        Self::open_file(path).map_err(|error| error.about(path, || "the segment file".into()))
    }

    fn open_file(path: &Path) -> Result<Self, ReadError> {
        Self::of_file(SegmentFile::open(path)?)
    }

    pub(super) fn of_file(file: SegmentFile) -> Result<Self, ReadError> {
        let header = SegmentHeader::read(&file)?;
        file.begins_with(header.bytes(), header.digest());
        Ok(Self { file, header })
    }

    /// Opens the `index`-th segment of `manifest`, and rejects any other. Errors name it.
    ///
    /// # Panics
    /// If the manifest has no such segment.
    pub fn open_named(path: &Path, manifest: &Manifest, index: u32) -> Result<Self, FormatError> {
        let opened = Self::open_file(path).and_then(|segment| {
            if segment.header.is_of(manifest, index) {
                Ok(segment)
            } else {
                Err(Corruption::Unexpected.into())
            }
        });
        opened.map_err(|error| {
            error.about(path, || {
                format!("segment {index} of dataset {}", manifest.dataset)
            })
        })
    }

    /// Opens the file of a segment whose header is known, without reading it. The file may be a copy that lacks parts.
    ///
    /// # Errors
    ///
    /// A file that is missing or cannot be opened.
    pub fn open_copy(path: &Path, header: SegmentHeader) -> Result<Self, FormatError> {
        let file = SegmentFile::open(path);
        let file =
            file.map_err(|error| error.about(path, || "the local copy of a segment".into()))?;
        Ok(Self { file, header })
    }

    /// Returns the header.
    pub fn header(&self) -> &SegmentHeader {
        &self.header
    }

    /// Returns the description in the header.
    pub fn description(&self) -> &SegmentDescription {
        self.header.description()
    }

    /// Returns the segment's digest: BLAKE3 of its header, which holds the digests of its panels.
    pub fn digest(&self) -> Digest {
        self.header.digest()
    }

    /// Returns the entry of this segment in a manifest.
    pub fn entry(&self) -> SegmentEntry {
        self.header.entry()
    }

    /// Returns the bytes of the header, as in the file.
    pub fn header_bytes(&self) -> Vec<u8> {
        self.header.encode()
    }

    /// Returns the number of blocks, 1 to 64.
    pub fn blocks(&self) -> u32 {
        self.description().seeds.len() as u32
    }

    /// Returns the number of residues in a panel: `blocks × N`.
    pub fn panel_len(&self) -> usize {
        self.description().seeds.len() * self.description().parameters.degree()
    }

    /// Returns the path at the time of opening.
    pub fn path(&self) -> &Path {
        self.file.path()
    }

    /// Reads one panel into `out`: `blocks × N` residues below 2^28, in evaluation form. A wrong digest is an error,
    /// after which the content of `out` is meaningless. Panics if `out` has another length.
    pub fn read_panel(
        &self,
        limb: Limb,
        column: Column,
        out: &mut [u32],
    ) -> Result<(), FormatError> {
        assert_eq!(
            out.len(),
            self.panel_len(),
            "a panel holds blocks × N residues"
        );
        let panel = self.description().panel_number(limb, column)?;
        self.check_part(panel, unpack_into(vec![out]))
    }

    /// Returns a reader of a panel, block after block.
    ///
    /// # Errors
    /// An unknown panel.
    pub fn panel_reader(&self, limb: Limb, column: Column) -> Result<PanelReader<'_>, FormatError> {
        Ok(PanelReader {
            segment: self,
            part: self.description().panel_number(limb, column)?,
            offset: 0,
            hasher: blake3::Hasher::new(),
        })
    }

    /// Returns the file.
    pub fn file(&self) -> &SegmentFile {
        &self.file
    }

    /// Returns the error of a part that could not be read or is damaged.
    pub fn part_error(&self, part: usize, error: impl Into<ReadError>) -> FormatError {
        let subject = || self.header.subject(part);
        error.into().about(self.path(), subject)
    }

    /// Returns the packed bytes of one panel, after checking their digest.
    pub fn read_packed_panel(&self, limb: Limb, column: Column) -> Result<Vec<u8>, FormatError> {
        self.read_part(self.description().panel_number(limb, column)?)
    }

    /// Returns the sealed cells of one column, after checking their digest.
    ///
    /// # Errors
    /// An unknown column, damage.
    pub fn read_cells(&self, column: Column) -> Result<Vec<u8>, FormatError> {
        self.read_part(self.description().cells_number(column)?)
    }

    fn read_part(&self, part: usize) -> Result<Vec<u8>, FormatError> {
        let mut all = Vec::with_capacity(self.header.layout().bytes(part) as usize);
        self.check_part(part, |bytes| all.extend_from_slice(bytes))?;
        Ok(all)
    }

    /// Checks every part against its digest.
    pub fn verify(&self) -> Result<(), FormatError> {
        (0..self.header.parts()).try_for_each(|part| self.check_part(part, |_| ()))
    }

    /// Writes a synced copy of the file, and checks each part first. `progress` receives the number of bytes written so
    /// far.
    pub fn copy_to(&self, path: &Path, progress: impl Fn(u64)) -> Result<(), FormatError> {
        let layout = self.header.layout();
        let mut file = File::create_new(path).map_err(io_error("create", path))?;
        let mut write = |bytes: &[u8]| file.write_all(bytes).map_err(io_error("write", path));
        write(&self.header_bytes())?;
        for part in 0..self.header.parts() {
            let mut bytes = self.read_part(part)?;
            bytes.resize(layout.stride(part) as usize, 0);
            write(&bytes)?;
            progress(layout.offset(part + 1));
        }
        file.sync_all().map_err(io_error("sync", path))
    }

    /// Checks one part, then drops it from the page cache.
    ///
    /// # Errors
    ///
    /// Damage.
    pub fn check_and_forget(&self, part: usize) -> Result<(), FormatError> {
        let checked = self.check_part(part, |_| ());
        self.file.forget_cached(self.header.part_extent(part));
        checked
    }

    /// Reads a part in chunks of `CHUNK_BYTES`, the last of which may be shorter. Passes each to `visit` while it is in
    /// the processor's cache. The digest is checked at the end.
    ///
    /// # Errors
    /// Damage. The chunks that `visit` received are then meaningless.
    pub fn check_part(&self, part: usize, mut visit: impl FnMut(&[u8])) -> Result<(), FormatError> {
        let layout = self.header.layout();
        let bytes = layout.bytes(part);
        let damaged = |error: ReadError| self.part_error(part, error);
        let place = self.header.part_extent(part);
        let file = self.file.file().map_err(damaged)?;
        let mut buffer = [0; CHUNK_BYTES];
        let mut hasher = blake3::Hasher::new();
        let mut offset = 0;
        // The part, then its padding.
        for end in [bytes, layout.stride(part)] {
            while offset < end {
                let chunk = &mut buffer[..(end - offset).min(CHUNK_BYTES as u64) as usize];
                read_exact_at(&file, chunk, place.offset + offset)
                    .map_err(|error| damaged(error.into()))?;
                if end == bytes {
                    hasher.update(chunk);
                    visit(chunk);
                } else if !is_zero(chunk) {
                    return Err(damaged(Corruption::Altered.into()));
                }
                offset += chunk.len() as u64;
            }
        }
        if Digest(*hasher.finalize().as_bytes()) == self.header.digest_of(part) {
            Ok(())
        } else {
            Err(damaged(Corruption::Altered.into()))
        }
    }
}

/// Reads a panel from a local file, block after block. Residues are valid only after the last block, whose read checks
/// the digest.
pub struct PanelReader<'a> {
    segment: &'a Segment,
    part: usize,
    offset: u64,
    hasher: blake3::Hasher,
}

impl PanelReader<'_> {
    /// Reads the next residues, in whole blocks.
    ///
    /// # Errors
    /// A file that cannot be read; with the last block, a wrong digest.
    ///
    /// # Panics
    /// If fewer residues remain.
    pub fn read(&mut self, residues: &mut [u32]) -> Result<(), FormatError> {
        let (segment, part) = (self.segment, self.part);
        let damaged = |error: ReadError| segment.part_error(part, error);
        let place = segment.header.part_extent(part);
        let mut buffer = vec![0; pack::packed_len(residues.len())];
        let end = self.offset + buffer.len() as u64;
        assert!(end <= segment.header.layout().bytes(part), "the panel ends");
        segment
            .file
            .read_exact_at(&mut buffer, place.offset + self.offset)
            .map_err(damaged)?;
        self.hasher.update(&buffer);
        self.offset = end;
        pack::unpack(&buffer, residues);
        let is_whole = end == segment.header.layout().bytes(part);
        if is_whole && Digest(*self.hasher.finalize().as_bytes()) != segment.header.digest_of(part)
        {
            Err(damaged(Corruption::Altered.into()))
        } else {
            Ok(())
        }
    }
}

impl std::fmt::Debug for Segment {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Segment")
            .field("path", &self.path())
            .field("digest", &self.digest())
            .finish_non_exhaustive()
    }
}
