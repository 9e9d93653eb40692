//! Data that the owner keeps for each range of its dataset, to verify and read a server's counts there.
//!
//! The data is computed from the new segments and, if they replace others, from those, read back once. It is sealed in
//! one file per range (docs/cryptography.md, "Verified sums").

use crate::error::{DatasetError, RecordError, other_ranges};
use crate::progress::Progress;
use crate::record::StratumRecord;
use oboro_format::{
    Bundle, BundleWriter, Digest, FormatError, Manifest, PanelReader, Segment, SegmentEntry,
};
use oboro_ring::{Blocks, Column, Limb, Seed, mask, threads};
use oboro_rlwe::{
    BlockResidues, Bounds, ColumnOrder, DatasetKey, Extent, RangeLimb, RangeSums, SecretGeneration,
    Strata, VerifiedLimbs,
};
use parking_lot::Mutex;
use std::num::NonZeroUsize;

/// Maximum number of columns, by support, all of whose pairs have fixed parts.
pub const MOST_PAIR_COLUMNS: usize = 4096;
/// The largest number of focus columns, each of which has a fixed part with every column.
pub const MOST_FOCUS: usize = 64;
/// The memory budget for residues of blocks that are summed together.
const RUN_BYTES: usize = 32 << 20;
/// The largest number of blocks summed together; more are not faster.
const RUN_BLOCKS: usize = 16;

/// Sorts columns by support, the largest first.
pub(crate) fn by_support(supports: &[u64]) -> Vec<Column> {
    let mut columns: Vec<Column> = Column::first(supports.len() as u32).collect();
    columns.sort_by_key(|&column| std::cmp::Reverse(supports[column]));
    columns
}

/// New segments of a dataset.
pub(crate) struct NewBlocks<'a> {
    /// The dataset's key.
    pub(crate) key: &'a DatasetKey,
    /// The version with the new segments.
    pub(crate) manifest: &'a Manifest,
    pub(crate) bounds: &'a Bounds,
    pub(crate) order: &'a ColumnOrder,
    pub(crate) threads: NonZeroUsize,
    /// The number of block-columns of the new segments.
    pub(crate) encrypted: u64,
    pub(crate) progress: Progress<'a>,
}

/// Stratum in a new version.
pub(crate) struct NewStratum {
    /// The extent in the new version, and the kept data of its ranges in the previous one.
    pub(crate) record: StratumRecord,
    pub(crate) change: Change,
}

/// Origin of a stratum of a new version.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Change {
    /// Unchanged.
    Kept,
    /// All its blocks are new.
    New,
    /// Some of its segments were replaced by others with as many blocks. Holds its first block in the previous
    /// version.
    Replaced(u64),
}

impl NewStratum {
    /// Creates the strata of `transactions` transactions that are shuffled together.
    ///
    /// # Errors
    /// More ranges than possible.
    pub(crate) fn of(
        bounds: &Bounds,
        transactions: u64,
        secret_generation: SecretGeneration,
    ) -> Result<Vec<Self>, DatasetError> {
        let extents = bounds.strata_of(transactions, secret_generation);
        let stratum = |extent: Extent| Self {
            record: StratumRecord {
                blocks: extent.blocks,
                transactions: extent.transactions,
                erased: extent.erased,
                erased_in_sample: extent.erased_in_sample,
                secret_generation,
                ranges: Vec::new(),
            },
            change: Change::New,
        };
        let strata = extents.ok_or(DatasetError::TooManyRanges)?.into_iter();
        Ok(strata.map(stratum).collect())
    }

    /// Creates a stratum with the rows of this one, all encrypted again.
    pub(crate) fn encrypted_again(
        record: &StratumRecord,
        secret_generation: SecretGeneration,
    ) -> Self {
        Self {
            record: StratumRecord {
                secret_generation,
                ..record.clone()
            },
            change: Change::New,
        }
    }

    /// Creates an unchanged stratum.
    pub(crate) fn kept(record: &StratumRecord) -> Self {
        Self {
            record: record.clone(),
            change: Change::Kept,
        }
    }
}

impl NewBlocks<'_> {
    /// Computes the records of the strata of the new version, with the kept data of their ranges. `older` is the
    /// bundle with the previous version, if any; new files are written to it.
    pub(crate) fn keep(
        &self,
        new: Vec<NewStratum>,
        older: Option<&Bundle>,
        writer: &mut BundleWriter,
    ) -> Result<Vec<StratumRecord>, DatasetError> {
        let extents: Vec<Extent> = new.iter().map(|it| it.record.extent()).collect();
        let strata = Strata::new(self.bounds.clone(), &extents);
        let strata = strata.ok_or(DatasetError::TooManyRanges)?;
        let mut kept: Vec<StratumRecord> = Vec::with_capacity(extents.len());
        let mut plans = Vec::new();
        let mut first = 0;
        for (NewStratum { record, change }, stratum) in new.into_iter().zip(strata.strata()) {
            let end = first + record.blocks;
            let (new, old, replaces) = match change {
                Change::Kept => (end..end, &[][..], None),
                Change::New => (first..end, &[][..], None),
                Change::Replaced(before) => (first..end, &record.ranges[..], Some(before)),
            };
            plans.push(Plan {
                new: new.into(),
                sample: stratum.sample_blocks().map(|blocks| first + blocks),
                old: old.to_vec(),
                replaces,
                key: self.key.with_secret_generation(record.secret_generation),
            });
            kept.push(record);
            first = end;
        }
        if self.verified().limbs() == 0 {
            return Ok(kept);
        }
        let pieces: Vec<Piece> = plans.iter().flat_map(Plan::pieces).collect();
        let sums = self.sums(&pieces);
        let segments = (0..).zip(&self.manifest.segments);
        let is_new = |it: &(u32, &SegmentEntry)| it.1.number >= writer.next_segment();
        let segments: Vec<u32> = segments.filter(is_new).map(|it| it.0).collect();
        let open = |index| writer.open_segment(self.manifest, index);
        self.add_segments(self.manifest, &segments, open, &pieces, &sums)?;
        let inner = |it: Vec<Mutex<RangeSums>>| -> Vec<RangeSums> {
            it.into_iter().map(Mutex::into_inner).collect()
        };
        let mut sums: Vec<Vec<RangeSums>> = sums.into_iter().map(inner).collect();
        if let Some(older) = older
            && plans.iter().any(|plan| plan.replaces.is_some())
        {
            // Strata that are summed anew need no subtraction.
            let replaced_pieces = pieces.iter().copied().enumerate();
            let (places, pieces): (Vec<usize>, Vec<Piece>) = replaced_pieces
                .filter_map(|(place, piece)| {
                    let blocks = piece.before?;
                    Some((place, Piece { blocks, ..piece }))
                })
                .unzip();
            let replaced = self.sums(&pieces);
            let segments = older.manifest().segments_beyond(self.manifest);
            let open = |index| older.open_segment(index);
            self.add_segments(older.manifest(), &segments, open, &pieces, &replaced)?;
            for (place, replaced) in places.into_iter().zip(replaced) {
                let sums = &mut sums[place];
                for (sums, replaced) in sums.iter_mut().zip(replaced) {
                    sums.subtract(&replaced.into_inner());
                }
            }
        }
        let mut sums = sums.into_iter();
        for (plan, stratum) in plans.iter().zip(&mut kept) {
            let mut of_plan: Vec<Vec<RangeSums>> =
                sums.by_ref().take(plan.pieces().len()).collect();
            let Some(mut total) = of_plan.pop() else {
                continue;
            };
            // The remaining ones are those of the sample.
            for sample in &of_plan {
                total
                    .iter_mut()
                    .zip(sample)
                    .for_each(|(total, it)| total.merge(it));
            }
            of_plan.insert(0, total);
            let mut ranges = self.finish(of_plan, &plan.key);
            for (range, &old) in ranges.iter_mut().zip(&plan.old) {
                let bundle = older.expect("what is kept is of a previous version");
                let old = self.key.open_range(&bundle.read_range(old)?)?;
                let fits = old.len() == range.len() && old[0].order() == self.order;
                if !fits {
                    return Err(RecordError::Unusable("a range has other columns".into()).into());
                }
                range
                    .iter_mut()
                    .zip(&old)
                    .for_each(|(range, old)| range.merge(old));
            }
            let sample = plan.sample.map(|end| end - plan.new.start);
            let blocks = std::iter::once(plan.new.len()).chain(sample);
            let fit = |(range, blocks): (&Vec<RangeLimb>, u64)| {
                range.iter().all(|limb| limb.has_blocks(blocks))
            };
            if !ranges.iter().zip(blocks).all(fit) {
                return Err(DatasetError::NotCommitted(other_ranges()));
            }
            let written: Result<Vec<Digest>, DatasetError> = ranges
                .iter()
                .map(|range| Ok(writer.write_range(&self.key.seal_range(range)?)?))
                .collect();
            stratum.ranges = written?;
        }
        Ok(kept)
    }

    /// Returns the limbs that verify each length.
    fn verified(&self) -> VerifiedLimbs {
        VerifiedLimbs::of(self.bounds)
    }

    /// Creates sums over zero blocks.
    fn empty(&self, limb: Limb, key: &DatasetKey) -> RangeSums {
        RangeSums::new(key, self.verified(), limb, self.order)
    }

    /// Creates sums over zero blocks, by piece and limb.
    fn sums(&self, pieces: &[Piece<'_>]) -> Vec<Vec<Mutex<RangeSums>>> {
        let limbs = self.verified().limbs();
        let empty = |piece: &Piece<'_>| -> Vec<Mutex<RangeSums>> {
            let sums = |limb| Mutex::new(self.empty(limb, piece.key));
            Limb::first(limbs).map(sums).collect()
        };
        pieces.iter().map(empty).collect()
    }

    /// Adds these segments of a version to the pieces that contain their blocks.
    fn add_segments(
        &self,
        manifest: &Manifest,
        segments: &[u32],
        open: impl Fn(u32) -> Result<Segment, FormatError> + Sync,
        pieces: &[Piece<'_>],
        sums: &[Vec<Mutex<RangeSums>>],
    ) -> Result<(), DatasetError> {
        let limbs = self.verified().limbs();
        let jobs = segments.iter();
        let jobs = jobs.flat_map(|&it| Limb::first(limbs).map(move |limb| (it, limb)));
        let jobs: Vec<(u32, Limb)> = jobs.collect();
        threads::try_map(self.threads, jobs, |(index, limb)| {
            let blocks = manifest.segments[index as usize].range();
            self.add_segment(&open(index)?, blocks, limb, pieces, sums)
        })?;
        Ok(())
    }

    /// Adds the blocks of one segment modulo one limb to the pieces that contain them.
    fn add_segment(
        &self,
        opened: &Segment,
        all: Blocks,
        limb: Limb,
        pieces: &[Piece<'_>],
        sums: &[Vec<Mutex<RangeSums>>],
    ) -> Result<(), DatasetError> {
        let description = opened.description();
        let degree = self.key.ring().degree();
        let paired = self.order.paired();
        let mut columns = Columns::new(opened, limb, paired)?;
        let focus = self.order.focus().iter();
        let focus: Vec<Column> = focus.map(|&it| self.order.columns()[it]).collect();
        // Columns without fixed parts are in the rows of focus columns alone.
        let tail = if focus.is_empty() {
            &[]
        } else {
            &self.order.columns()[self.order.tail()]
        };
        let mut tail = Columns::new(opened, limb, tail)?;
        let mut focus = Columns::new(opened, limb, &focus)?;
        let most = (RUN_BYTES / (size_of::<u32>() * degree * paired.len())).clamp(1, RUN_BLOCKS);
        let mut masks = vec![vec![0; degree]; most];
        for (piece, sums) in pieces.iter().zip(sums) {
            let here = piece.blocks.intersection(all);
            if here.is_empty() {
                continue;
            }
            let mut own = self.empty(limb, piece.key);
            for run in here.runs(most as u64) {
                let seeds = &description.seeds[run.indices_in(all)];
                let count = seeds.len();
                self.expand(seeds, limb, &mut masks[..count]);
                let masks: Vec<&[u32]> = masks[..count].iter().map(Vec::as_slice).collect();
                columns.read(count, degree)?;
                add(&mut own, &masks, &columns.by_block(count, degree));
                focus.read(count, degree)?;
                if let Some(mut pass) = own.pass(&masks, &focus.by_block(count, degree)) {
                    for place in 0..paired.len() {
                        pass.add(place, &columns.blocks(place, degree));
                    }
                    for place in self.order.tail() {
                        let column = place - paired.len();
                        pass.add(place, &tail.read_one(column, count, degree)?);
                        self.go_on()?;
                    }
                }
                self.go_on()?;
            }
            let mut shared = sums[limb].lock();
            shared.merge(&own);
        }
        Ok(())
    }

    fn expand(&self, seeds: &[Seed], limb: Limb, masks: &mut [Vec<u32>]) {
        let parameters = self.key.ring().parameters();
        for (seed, values) in seeds.iter().zip(masks) {
            mask::expand(seed, parameters, limb, values);
        }
    }

    /// Finishes sums into the kept data, by range and limb.
    fn finish(&self, ranges: Vec<Vec<RangeSums>>, key: &DatasetKey) -> Vec<Vec<RangeLimb>> {
        let limbs: Vec<usize> = ranges.iter().map(Vec::len).collect();
        let sums: Vec<RangeSums> = ranges.into_iter().flatten().collect();
        let finished = threads::map(self.threads, sums, |sums| sums.finish(key));
        let mut finished = finished.into_iter();
        let of_range = |limbs: usize| finished.by_ref().take(limbs).collect();
        limbs.into_iter().map(of_range).collect()
    }

    /// Returns an error if the encryption was interrupted.
    fn go_on(&self) -> Result<(), DatasetError> {
        // All columns are encrypted by now.
        if (self.progress)(self.encrypted, self.encrypted).is_break() {
            Err(DatasetError::Interrupted)
        } else {
            Ok(())
        }
    }
}

/// Panels of some columns of a segment, read a few blocks at a time.
struct Columns<'a> {
    readers: Vec<PanelReader<'a>>,
    /// The blocks of each column that was read, concatenated.
    residues: Vec<Vec<u32>>,
}

impl<'a> Columns<'a> {
    fn new(segment: &'a Segment, limb: Limb, columns: &[Column]) -> Result<Self, FormatError> {
        let readers = columns.iter();
        let readers = readers.map(|&column| segment.panel_reader(limb, column));
        Ok(Self {
            readers: readers.collect::<Result<_, _>>()?,
            residues: Vec::new(),
        })
    }

    /// Reads the next `count` blocks of all columns.
    fn read(&mut self, count: usize, degree: usize) -> Result<(), FormatError> {
        self.residues.resize(self.readers.len(), Vec::new());
        for (reader, residues) in self.readers.iter_mut().zip(&mut self.residues) {
            residues.resize(count * degree, 0);
            reader.read(residues)?;
        }
        Ok(())
    }

    /// Reads the next blocks of one column and discards the others.
    fn read_one(
        &mut self,
        column: usize,
        count: usize,
        degree: usize,
    ) -> Result<Vec<&[u32]>, FormatError> {
        self.residues.resize(1, Vec::new());
        self.residues[0].resize(count * degree, 0);
        self.readers[column].read(&mut self.residues[0])?;
        Ok(self.blocks(0, degree))
    }

    /// Returns the blocks of a column.
    fn blocks(&self, column: usize, degree: usize) -> Vec<&[u32]> {
        self.residues[column].chunks_exact(degree).collect()
    }

    /// Returns the residues of each of `blocks` blocks in each column.
    fn by_block(&self, blocks: usize, degree: usize) -> Vec<Vec<&[u32]>> {
        let block = |block: usize| {
            let of_block = block * degree..(block + 1) * degree;
            let columns = self.residues.iter();
            columns.map(|it| &it[of_block.clone()]).collect()
        };
        (0..blocks).map(block).collect()
    }
}

/// Adds some blocks.
fn add(sums: &mut RangeSums, masks: &[&[u32]], columns: &[Vec<&[u32]>]) {
    let blocks = masks.iter().zip(columns);
    let blocks = blocks.map(|(mask, columns)| BlockResidues { mask, columns });
    sums.add(&blocks.collect::<Vec<_>>());
}

/// Work for one stratum.
struct Plan {
    /// The blocks among which new ones are summed; in a new stratum, all.
    new: Blocks,
    /// The end of its sample, if it has one.
    sample: Option<u64>,
    /// The kept data of its previous ranges, to which it adds.
    old: Vec<Digest>,
    /// The first of its blocks in the previous version, if replaced ones are subtracted.
    replaces: Option<u64>,
    /// The key, with the secrets of its columns.
    key: DatasetKey,
}

/// Blocks of one stratum that are summed.
#[derive(Clone, Copy)]
struct Piece<'a> {
    blocks: Blocks,
    key: &'a DatasetKey,
    /// The blocks in the previous version, if replaced ones are subtracted.
    before: Option<Blocks>,
}

impl Plan {
    /// Splits the new blocks into runs to sum separately: those of the sample, and the others. Empty if nothing was
    /// added.
    fn pieces(&self) -> Vec<Piece<'_>> {
        let Blocks { start, end } = self.new;
        let edge = self.sample.map_or(start, |edge| edge.max(start));
        let pieces = [start..edge, edge..end].map(Blocks::from).into_iter();
        let pieces = pieces.filter(|piece| !piece.is_empty());
        let piece = |blocks: Blocks| Piece {
            blocks,
            key: &self.key,
            before: self
                .replaces
                .map(|first| Blocks::from_start(first + (blocks.start - start), blocks.len())),
        };
        pieces.map(piece).collect()
    }
}
