//! The data that the owner keeps for each range of its dataset, to verify and read what a server counts there. It is
//! computed from the segments just written, read back once, and sealed in one file per range (docs/cryptography.md,
//! "Verified sums").

use crate::dataset::{DatasetError, Progress};
use crate::record::{RecordError, StratumRecord};
use oboro_format::{Bundle, BundleWriter, Digest, FormatError, Manifest, PanelReader, Segment};
use oboro_ring::{Blocks, Column, Limb, Seed, mask, threads};
use oboro_rlwe::{
    BlockResidues, Bounds, ColumnOrder, DatasetKey, Extent, RangeLimb, RangeSums, Strata,
    VerifiedLimbs,
};
use parking_lot::Mutex;
use std::num::NonZeroUsize;

/// The most columns, by support, that have fixed parts for all their pairs, and whose longer itemsets a server counts
/// verifiably. Each of their pairs takes 8 bytes per range.
pub const MOST_PAIRED: usize = 1024;
/// The most focus columns: each has a fixed part with every column.
pub const MOST_FOCUS: usize = 64;
/// The memory budget for the residues of blocks that are added up at a time.
const RUN_BYTES: usize = 32 << 20;
/// The most blocks at a time: more are not faster.
const RUN_BLOCKS: usize = 16;

/// Columns sorted by support, the largest first.
pub(crate) fn by_support(supports: &[u64]) -> Vec<Column> {
    let mut columns: Vec<Column> = Column::first(supports.len() as u32).collect();
    columns.sort_by_key(|&column| std::cmp::Reverse(supports[column]));
    columns
}

/// New segments of a dataset.
pub(crate) struct NewBlocks<'a> {
    /// The key, with the secrets of the segments.
    pub(crate) key: &'a DatasetKey,
    /// The version with the new segments.
    pub(crate) manifest: &'a Manifest,
    pub(crate) bounds: &'a Bounds,
    pub(crate) order: &'a ColumnOrder,
    pub(crate) threads: NonZeroUsize,
    /// Block-columns of the new segments.
    pub(crate) encrypted: u64,
    pub(crate) progress: Progress<'a>,
}

impl NewBlocks<'_> {
    /// The kept data of the strata of the new version. `bundle` has those of the previous one; new files are written to
    /// it.
    pub(crate) fn keep(
        &self,
        before: &[StratumRecord],
        bundle: Option<&Bundle>,
        transactions: u64,
        writer: &mut BundleWriter,
    ) -> Result<Vec<StratumRecord>, DatasetError> {
        let extents: Vec<Extent> = before.iter().map(StratumRecord::extent).collect();
        let extents = self
            .bounds
            .extended(&extents, transactions, self.key.secret_generation());
        let extents = extents.ok_or(DatasetError::TooManyRanges)?;
        let strata = Strata::new(self.bounds.clone(), &extents);
        let strata = strata.ok_or(DatasetError::TooManyRanges)?;
        let mut kept: Vec<StratumRecord> = Vec::with_capacity(extents.len());
        let mut plans = Vec::new();
        let mut first = 0;
        for (place, (extent, stratum)) in extents.iter().zip(strata.strata()).enumerate() {
            let end = first + extent.blocks;
            let old = before.get(place);
            let known = old.map_or(0, |it| it.blocks);
            plans.push(Plan {
                new: (first + known..end).into(),
                sample: stratum.sample_blocks().map(|blocks| first + blocks),
                old: old.and_then(|it| it.ranges.first().copied()),
            });
            kept.push(StratumRecord {
                blocks: extent.blocks,
                transactions: extent.transactions,
                secret_generation: extent.secret_generation,
                ranges: old.map_or_else(Vec::new, |it| it.ranges.clone()),
            });
            first = end;
        }
        if self.verified().limbs() == 0 {
            return Ok(kept);
        }
        let pieces: Vec<Blocks> = plans.iter().flat_map(Plan::pieces).collect();
        let mut sums = self.sums(&pieces, writer)?.into_iter();
        for (plan, stratum) in plans.iter().zip(&mut kept) {
            let mut of_plan: Vec<Vec<RangeSums>> =
                sums.by_ref().take(plan.pieces().len()).collect();
            let Some(mut total) = of_plan.pop() else {
                continue;
            };
            // The rest are those of the sample.
            for sample in &of_plan {
                total
                    .iter_mut()
                    .zip(sample)
                    .for_each(|(total, it)| total.merge(it));
            }
            of_plan.insert(0, total);
            let mut ranges = self.finish(of_plan);
            if let (Some(old), Some(bundle)) = (plan.old, bundle) {
                let old = self.key.open_range(&bundle.read_range(old)?)?;
                let fits = old.len() == ranges[0].len() && old[0].order() == self.order;
                if !fits {
                    return Err(RecordError::Damaged("a range has other columns".into()).into());
                }
                ranges[0]
                    .iter_mut()
                    .zip(&old)
                    .for_each(|(range, old)| range.merge(old));
            }
            let written: Result<Vec<Digest>, DatasetError> = ranges
                .iter()
                .map(|range| Ok(writer.write_range(&self.key.seal_range(range)?)?))
                .collect();
            stratum.ranges = written?;
        }
        Ok(kept)
    }

    /// The limbs that verify each length.
    fn verified(&self) -> VerifiedLimbs {
        VerifiedLimbs::of(self.bounds)
    }

    /// Sums over zero blocks.
    fn empty(&self, limb: Limb) -> RangeSums {
        RangeSums::new(self.key, self.verified(), limb, self.order)
    }

    /// The sums over each of these runs of new blocks, for each limb.
    fn sums(
        &self,
        pieces: &[Blocks],
        writer: &BundleWriter,
    ) -> Result<Vec<Vec<RangeSums>>, DatasetError> {
        let limbs = self.verified().limbs();
        let empty = |_: &Blocks| -> Vec<Mutex<RangeSums>> {
            let sums = |limb| Mutex::new(self.empty(limb));
            Limb::first(limbs).map(sums).collect()
        };
        let sums: Vec<Vec<Mutex<RangeSums>>> = pieces.iter().map(empty).collect();
        let new = writer.first_new_segment()..self.manifest.segments.len() as u32;
        let jobs = new.flat_map(|segment| Limb::first(limbs).map(move |limb| (segment, limb)));
        let jobs: Vec<(u32, Limb)> = jobs.collect();
        threads::try_map(self.threads, jobs, |(segment, limb)| {
            self.add_segment(writer, segment, limb, pieces, &sums)
        })?;
        let inner = |it: Mutex<RangeSums>| it.into_inner();
        let of_piece = |it: Vec<Mutex<RangeSums>>| it.into_iter().map(inner).collect();
        Ok(sums.into_iter().map(of_piece).collect())
    }

    /// Adds the blocks of one segment modulo one limb to the pieces that contain them.
    fn add_segment(
        &self,
        writer: &BundleWriter,
        segment: u32,
        limb: Limb,
        pieces: &[Blocks],
        sums: &[Vec<Mutex<RangeSums>>],
    ) -> Result<(), DatasetError> {
        let opened = writer.open_segment(self.manifest, segment)?;
        let description = opened.description();
        let degree = self.key.ring().degree();
        let paired = self.order.paired();
        let mut columns = Columns::new(&opened, limb, paired)?;
        let focus = self.order.focus().iter();
        let focus: Vec<Column> = focus.map(|&it| self.order.columns()[it]).collect();
        let mut focus = Columns::new(&opened, limb, &focus)?;
        let mut tail = Columns::new(&opened, limb, &self.order.columns()[self.order.tail()])?;
        let all = description.range();
        let most = (RUN_BYTES / (size_of::<u32>() * degree * paired.len())).clamp(1, RUN_BLOCKS);
        let mut masks = vec![vec![0; degree]; most];
        for (piece, sums) in pieces.iter().zip(sums) {
            let here = piece.intersection(all);
            if here.is_empty() {
                continue;
            }
            let mut own = self.empty(limb);
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

    /// The kept data of sums, for each range and limb.
    fn finish(&self, ranges: Vec<Vec<RangeSums>>) -> Vec<Vec<RangeLimb>> {
        let limbs: Vec<usize> = ranges.iter().map(Vec::len).collect();
        let sums: Vec<RangeSums> = ranges.into_iter().flatten().collect();
        let finished = threads::map(self.threads, sums, |sums| sums.finish(self.key));
        let mut finished = finished.into_iter();
        let of_range = |limbs: usize| finished.by_ref().take(limbs).collect();
        limbs.into_iter().map(of_range).collect()
    }

    /// Fails if the encryption was interrupted.
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
    /// For each column that was read its blocks, concatenated.
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

    /// The blocks of a column.
    fn blocks(&self, column: usize, degree: usize) -> Vec<&[u32]> {
        self.residues[column].chunks_exact(degree).collect()
    }

    /// For each of `blocks` blocks its residues in each column.
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

/// The work for one stratum.
struct Plan {
    /// The blocks added to it: all of them in a new one.
    new: Blocks,
    /// The end of its sample, if it has one.
    sample: Option<u64>,
    /// The kept data of the blocks that it had before.
    old: Option<Digest>,
}

impl Plan {
    /// The runs of new blocks to add up separately: those of the sample, and the others; empty if nothing was added.
    fn pieces(&self) -> Vec<Blocks> {
        let Blocks { start, end } = self.new;
        let edge = self.sample.map_or(start, |edge| edge.max(start));
        let pieces = [start..edge, edge..end].map(Blocks::from).into_iter();
        pieces.filter(|piece| !piece.is_empty()).collect()
    }
}
