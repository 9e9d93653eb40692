//! Encrypts rows into segments. Threads take columns of the current segment and begin the next one when none is left:
//! hashing, writing and syncing one segment overlaps with encrypting another.

use crate::error::DatasetError;
use crate::progress::Progress;
use crate::shuffled::Shuffled;
use oboro_format::{
    BLOCKS_PER_SEGMENT, BundleWriter, Digest, Manifest, SegmentDescription, SegmentEntry,
    SegmentWriter,
};
use oboro_ring::{Column, Limb, threads};
use oboro_rlwe::{Block, BlockNoise, CellsId, DatasetKey, Encryptor};
use parking_lot::Mutex;
use std::cell::Cell;
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use zeroize::Zeroizing;

/// Transactions to encrypt into new blocks of a dataset.
pub(crate) struct NewRows<'a> {
    pub(crate) rows: &'a Shuffled,
    /// The column of each item.
    pub(crate) columns: &'a [Column],
    pub(crate) threads: NonZeroUsize,
    pub(crate) progress: Progress<'a>,
}

impl NewRows<'_> {
    /// Encrypts all rows into segments after those of `manifest`, to which they are added.
    pub(crate) fn encrypt(
        &self,
        key: &DatasetKey,
        mut manifest: Manifest,
        writer: &BundleWriter,
    ) -> Result<(Manifest, BlockNoise), DatasetError> {
        let degree = key.ring().degree();
        let columns = u64::from(manifest.columns);
        let block_columns = |rows: usize| rows.div_ceil(degree) as u64 * columns;
        let total = block_columns(self.rows.len());
        let (done, mut noise) = (Cell::new(0), BlockNoise::default());
        let segment = degree * BLOCKS_PER_SEGMENT as usize;
        let go_on = || tell(self.progress, done.get(), total);
        self.rows.each_part(segment, go_on, |part| {
            let before = done.get();
            let slots = part.rows.next_multiple_of(degree);
            let first_block = manifest.block_count();
            let encrypted = part.with_bits(&manifest.clone(), self.columns, slots, |bits| {
                let new = NewSegments {
                    key,
                    bits,
                    first_block,
                    threads: self.threads,
                    progress: &|here, _| (self.progress)(before + here, total),
                };
                new.encrypt(&mut manifest, writer)
            });
            let (segments, largest) = encrypted?;
            manifest.segments.extend(segments);
            noise = noise.max(largest);
            done.set(before + block_columns(part.rows));
            Ok::<_, DatasetError>(())
        })?;
        Ok((manifest, noise))
    }
}

/// Whole blocks to encrypt into new segments of a dataset.
pub(crate) struct NewSegments<'a> {
    pub(crate) key: &'a DatasetKey,
    /// The bits of each column that has cells, 64 slots per word, least significant first.
    pub(crate) bits: &'a [&'a [u64]],
    /// The position of the first block.
    pub(crate) first_block: u64,
    pub(crate) threads: NonZeroUsize,
    pub(crate) progress: Progress<'a>,
}

impl NewSegments<'_> {
    /// Encrypts all blocks into segments, numbered from the next number of `manifest`; returns their entries in
    /// order.
    pub(crate) fn encrypt(
        &self,
        manifest: &mut Manifest,
        writer: &BundleWriter,
    ) -> Result<(Vec<SegmentEntry>, BlockNoise), DatasetError> {
        let words = self.key.ring().degree() / 64;
        let blocks = self.bits.first().map_or(0, |it| it.len() / words);
        let block = |block: usize| -> Vec<&[u64]> {
            let words = block * words..(block + 1) * words;
            let columns = self.bits.iter();
            columns.map(|column| &column[words.clone()]).collect()
        };
        let blocks: Vec<_> = (0..blocks).map(block).collect();
        let encryption = Encryption {
            key: self.key,
            manifest,
            writer,
            first_block: self.first_block,
            blocks: &blocks,
            progress: self.progress,
            advanced: AtomicU64::new(0),
            queue: Mutex::default(),
            done: Mutex::default(),
        };
        let (segments, noise) = encryption.run(self.threads)?;
        manifest.next_segment += segments.len() as u32;
        Ok((segments, noise))
    }
}

/// Segments being encrypted.
struct Encryption<'a> {
    key: &'a DatasetKey,
    /// The manifest of the new version, as far as it is known.
    manifest: &'a Manifest,
    writer: &'a BundleWriter,
    /// The position of the first block.
    first_block: u64,
    /// The `N` bits of each column that has cells, by new block. The mask seed depends on all of them.
    blocks: &'a [Vec<&'a [u64]>],
    progress: Progress<'a>,
    advanced: AtomicU64,
    queue: Mutex<Queue<'a>>,
    done: Mutex<EncryptedBlocks>,
}

/// Remaining work.
#[derive(Default)]
struct Queue<'a> {
    /// The current segment, if some of its columns are unassigned.
    segment: Option<Arc<Segment<'a>>>,
    /// The number of its assigned columns.
    taken: u32,
    /// The first block of the next segment.
    block: usize,
}

/// Segment being encrypted. The thread that drops the last reference finishes it.
struct Segment<'a> {
    blocks: Vec<Block<'a>>,
    /// The digest of their seeds.
    seeds: Digest,
    writer: SegmentWriter,
    /// The number of columns whose cells are written; fewer than all if a thread failed.
    written: AtomicU32,
}

#[derive(Default)]
struct EncryptedBlocks {
    segments: Vec<SegmentEntry>,
    noise: BlockNoise,
}

impl<'a> Encryption<'a> {
    /// Encrypts all segments; returns their entries, in order, and the largest noise.
    fn run(&self, threads: NonZeroUsize) -> Result<(Vec<SegmentEntry>, BlockNoise), DatasetError> {
        self.tell(0)?;
        let work = || self.work().inspect_err(|_| self.stop());
        threads::run(threads, work)
            .into_iter()
            .collect::<Result<(), _>>()?;
        let EncryptedBlocks {
            mut segments,
            noise,
        } = std::mem::take(&mut *self.done.lock());
        segments.sort_unstable_by_key(|segment| segment.first_block);
        Ok((segments, noise))
    }

    fn work(&self) -> Result<(), DatasetError> {
        let mut encryptor = Encryptor::new(self.key);
        let ring = self.key.ring();
        let most = self.blocks.len().min(BLOCKS_PER_SEGMENT as usize);
        let mut limbs = vec![vec![0; most * ring.degree()]; ring.limbs().len()];
        while let Some((segment, column)) = self.take()? {
            let mut noise = BlockNoise::default();
            if column.0 < self.manifest.columns {
                let residues = segment.blocks.len() * ring.degree();
                let mut limbs: Vec<_> =
                    limbs.iter_mut().map(|limb| &mut limb[..residues]).collect();
                noise = self.encrypt_column(&segment.blocks, column, &mut encryptor, &mut limbs)?;
                for (limb, panel) in Limb::enumerate(limbs) {
                    segment.writer.write_panel(limb, column, panel)?;
                }
            }
            let cells = self.seal_cells(&segment, column)?;
            segment.writer.write_cells(column, &cells)?;
            segment.written.fetch_add(1, Ordering::Relaxed);
            let columns = self.manifest.sealed_columns();
            let finished = Arc::into_inner(segment)
                .filter(|segment| segment.written.load(Ordering::Relaxed) == columns);
            let entry = finished
                .map(|segment| segment.writer.finish())
                .transpose()?;
            let mut done = self.done.lock();
            done.segments.extend(entry);
            done.noise = done.noise.max(noise);
        }
        Ok(())
    }

    /// Takes the next column to encrypt and seal; `None` if all are taken.
    fn take(&self) -> Result<Option<(Arc<Segment<'a>>, Column)>, DatasetError> {
        let mut queue = self.queue.lock();
        let segment = match queue.segment.take() {
            Some(segment) => segment,
            None if queue.block == self.blocks.len() => return Ok(None),
            None => {
                let segment = self.begin(queue.block)?;
                queue.block += segment.blocks.len();
                queue.taken = 0;
                Arc::new(segment)
            }
        };
        let column = Column(queue.taken);
        queue.taken += 1;
        if queue.taken < self.manifest.sealed_columns() {
            queue.segment = Some(Arc::clone(&segment));
        }
        Ok(Some((segment, column)))
    }

    /// Stops handing out work.
    fn stop(&self) {
        *self.queue.lock() = Queue {
            block: self.blocks.len(),
            ..Queue::default()
        };
    }

    /// Begins the segment whose first block has index `first` among the new ones.
    fn begin(&self, first: usize) -> Result<Segment<'a>, DatasetError> {
        let first_block = self.first_block + first as u64;
        let blocks = self.blocks[first..]
            .iter()
            .take(BLOCKS_PER_SEGMENT as usize)
            .zip(first_block..)
            .map(|(columns, number)| Block::new(self.key, number, columns))
            .collect::<Result<Vec<_>, _>>()?;
        let before = first as u32 / BLOCKS_PER_SEGMENT;
        let writer = self.writer.segment(SegmentDescription {
            dataset: self.manifest.dataset,
            number: self.manifest.next_segment + before,
            first_block,
            columns: self.manifest.columns,
            row_id_bytes: self.manifest.row_id_bytes,
            parameters: self.manifest.parameters.clone(),
            seeds: blocks.iter().map(Block::seed).collect(),
        })?;
        Ok(Segment {
            seeds: writer.description().seeds_digest(),
            blocks,
            writer,
            written: AtomicU32::new(0),
        })
    }

    fn encrypt_column(
        &self,
        blocks: &[Block<'_>],
        column: Column,
        encryptor: &mut Encryptor<'_>,
        limbs: &mut [&mut [u32]],
    ) -> Result<BlockNoise, DatasetError> {
        let degree = self.key.ring().degree();
        encryptor.begin_column(column);
        let mut noise = BlockNoise::default();
        for (i, block) in blocks.iter().enumerate() {
            let residues = i * degree..(i + 1) * degree;
            let mut out: Vec<&mut [u32]> = limbs
                .iter_mut()
                .map(|limb| &mut limb[residues.clone()])
                .collect();
            noise = noise.max(encryptor.encrypt(block, &mut out)?);
            let advanced = self.advanced.fetch_add(1, Ordering::Relaxed) + 1;
            self.tell(advanced)?;
        }
        Ok(noise)
    }

    /// Seals a column's slots in the segment; columns after those of items hold bits of row ids.
    fn seal_cells(&self, segment: &Segment<'_>, column: Column) -> Result<Vec<u8>, DatasetError> {
        let description = segment.writer.description();
        let first = (description.first_block - self.first_block) as usize;
        let blocks = &self.blocks[first..][..segment.blocks.len()];
        let bits: Zeroizing<Vec<u64>> =
            Zeroizing::new(blocks.iter().flat_map(|it| it[column]).copied().collect());
        let which = CellsId {
            segment: description.number,
            seeds: &segment.seeds.0,
            column,
        };
        Ok(self.key.seal_cells(which, &bits)?)
    }

    /// Reports the number of block-columns done.
    fn tell(&self, done: u64) -> Result<(), DatasetError> {
        let total = self.blocks.len() as u64 * u64::from(self.manifest.columns);
        tell(self.progress, done, total)
    }
}

/// Reports the number of block-columns done, and returns an error if the run was interrupted.
fn tell(progress: Progress<'_>, done: u64, total: u64) -> Result<(), DatasetError> {
    if progress(done, total).is_break() {
        Err(DatasetError::Interrupted)
    } else {
        Ok(())
    }
}
