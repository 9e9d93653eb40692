//! Writer of a segment file.

use super::SegmentDescription;
use super::layout::Layout;
use crate::error::FormatError;
use crate::files::{Durability, io_error, parent, partial_path};
use crate::id::Digest;
use crate::manifest::SegmentEntry;
use oboro_ring::{Column, Limb, pack, vector};
use oboro_system::{owner_only, write_all_at};
use parking_lot::Mutex;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::path::{Path, PathBuf};

/// Writes one segment file: parts in any order and from any number of threads, then [`finish`](Self::finish). Dropped
/// earlier, it leaves no file.
pub struct SegmentWriter {
    file: File,
    path: PathBuf,
    partial: PathBuf,
    description: SegmentDescription,
    layout: Layout,
    parts: Mutex<Vec<PartState>>,
    durability: Durability,
    renamed: bool,
}

#[derive(Clone, Copy)]
enum PartState {
    Absent,
    /// Being written. A failed write stays in this state, and the segment cannot be finished.
    Begun,
    Written(Digest),
}

impl SegmentWriter {
    /// Starts the segment at `path`. An existing complete file stays until this one is finished.
    pub fn create(
        path: &Path,
        description: SegmentDescription,
        durability: Durability,
    ) -> Result<Self, FormatError> {
        let layout = description.layout()?;
        let partial = partial_path(path);
        let mut options = OpenOptions::new();
        let file = owner_only(options.write(true).create(true).truncate(false))
            .open(&partial)
            .map_err(io_error("create", &partial))?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                return Err(FormatError::Locked {
                    path: partial,
                    what: "file to write".to_owned(),
                });
            }
            Err(TryLockError::Error(error)) => return Err(io_error("lock", &partial)(error)),
        }
        let writer = Self {
            file,
            path: path.into(),
            partial,
            description,
            layout,
            parts: Mutex::new(vec![PartState::Absent; layout.parts()]),
            durability,
            renamed: false,
        };
        // Discard any earlier attempt; unwritten bytes read as zero.
        writer
            .file
            .set_len(0)
            .and_then(|()| writer.file.set_len(layout.total()))
            .map_err(io_error("create", &writer.partial))?;
        Ok(writer)
    }

    /// Returns the description given to [`create`](Self::create).
    pub fn description(&self) -> &SegmentDescription {
        &self.description
    }

    /// Writes one panel: `blocks × N` canonical residues of limb `limb`, in evaluation form, block after block. Each
    /// panel is written exactly once.
    pub fn write_panel(
        &self,
        limb: Limb,
        column: Column,
        residues: &[u32],
    ) -> Result<(), FormatError> {
        let SegmentDescription {
            ref parameters,
            ref seeds,
            ..
        } = self.description;
        let panel = self.description.panel_number(limb, column)?;
        if residues.len() != seeds.len() * parameters.degree() {
            return Err(self.misuse(panel, "was given with the wrong number of residues"));
        }
        let modulus = parameters.limb_moduli()[limb].value();
        if vector::largest(residues) >= modulus {
            return Err(self.misuse(panel, "was given residues that are not below their modulus"));
        }
        let mut packed = vec![0; self.layout.packed as usize];
        pack::pack(residues, &mut packed);
        self.write_part(panel, &packed)
    }

    /// Writes the sealed cells of one column: a bit for each slot, and [`CELL_SEAL_BYTES`](crate::CELL_SEAL_BYTES).
    /// Each column is written exactly once.
    ///
    /// # Errors
    /// An unknown column, a wrong length, a second write, a disk that fails.
    pub fn write_cells(&self, column: Column, sealed: &[u8]) -> Result<(), FormatError> {
        let part = self.description.cells_number(column)?;
        if sealed.len() as u64 != self.layout.cells {
            return Err(self.misuse(part, "were given with the wrong number of bytes"));
        }
        self.write_part(part, sealed)
    }

    fn write_part(&self, part: usize, bytes: &[u8]) -> Result<(), FormatError> {
        match self.state(part, PartState::Begun) {
            PartState::Absent => {}
            before => {
                self.state(part, before);
                return Err(self.misuse(part, "was written twice"));
            }
        }
        write_all_at(&self.file, bytes, self.layout.offset(part))
            .map_err(io_error("write", &self.partial))?;
        self.state(part, PartState::Written(Digest::of(bytes)));
        Ok(())
    }

    fn misuse(&self, part: usize, what: &str) -> FormatError {
        FormatError::Misuse {
            what: format!("{} {what}", self.description.subject(part)),
        }
    }

    /// Sets the state of a part and returns the previous one.
    fn state(&self, part: usize, state: PartState) -> PartState {
        let mut parts = self.parts.lock();
        std::mem::replace(&mut parts[part], state)
    }

    /// Writes the header, syncs a durable file, and renames it.
    pub fn finish(mut self) -> Result<SegmentEntry, FormatError> {
        let states = std::mem::take(self.parts.get_mut());
        let digests = states
            .iter()
            .enumerate()
            .map(|(part, state)| match state {
                PartState::Written(digest) => Ok(*digest),
                _ => Err(self.misuse(part, "was not written")),
            })
            .collect::<Result<Vec<Digest>, _>>()?;
        let header = self.description.encode_header(&self.layout, &digests);
        write_all_at(&self.file, &header, 0)
            .and_then(|()| self.durability.sync_file(&self.file))
            .map_err(io_error("write", &self.partial))?;
        fs::rename(&self.partial, &self.path).map_err(io_error("rename to", &self.path))?;
        self.renamed = true;
        self.durability.sync_directory(parent(&self.path))?;
        Ok(SegmentEntry {
            number: self.description.number,
            digest: Digest::of(&header),
            seeds: self.description.seeds_digest(),
            first_block: self.description.first_block,
            blocks: self.description.seeds.len() as u32,
            bytes: self.layout.total(),
        })
    }
}

impl Drop for SegmentWriter {
    fn drop(&mut self) {
        if !self.renamed {
            // Best effort: the next attempt overwrites or sweeps a leftover.
            let _ = fs::remove_file(&self.partial);
        }
    }
}
