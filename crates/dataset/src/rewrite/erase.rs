//! Erasure: empties the slots of transactions, found by their row ids.

use super::Rewrite;
use super::gather::empty;
use crate::dataset::{Dataset, stored_bytes};
use crate::error::{DatasetError, RecordError};
use crate::progress::Progress;
use crate::ranges::{Change, NewStratum};
use crate::record::{ErasedCounts, StratumRecord};
use crate::shuffled::unpack_row_ids;
use oboro_format::SegmentEntry;
use oboro_ring::{Blocks, Column};
use oboro_rlwe::Stratum;
use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::num::NonZeroUsize;
use std::ops::Range;

/// Row found by its id.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FoundRow {
    /// The slot of the row, counted over all blocks.
    pub slot: u64,
    /// The id of the row.
    pub id: String,
}

/// Selection of rows to erase.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RowSelection {
    ids: HashSet<String>,
    before: Option<String>,
}

impl RowSelection {
    /// Selects the rows with these ids.
    #[must_use]
    pub fn of_ids(ids: impl IntoIterator<Item = String>) -> Self {
        Self {
            ids: ids.into_iter().collect(),
            before: None,
        }
    }

    /// Also selects the rows whose ids begin with a date before this one, `YYYY-MM-DD`. Then all ids must begin with
    /// a date.
    ///
    /// # Errors
    /// `date` is not a date.
    pub fn or_before(self, date: &str) -> Result<Self, DatasetError> {
        if !is_date(date.as_bytes()) {
            return Err(DatasetError::NoDate(date.to_owned()));
        }
        Ok(Self {
            before: Some(date.to_owned()),
            ..self
        })
    }
}

fn is_date(text: &[u8]) -> bool {
    let number = |digits: &[u8]| {
        let is_number = digits.iter().all(u8::is_ascii_digit);
        is_number.then(|| {
            digits
                .iter()
                .fold(0, |sum, digit| 10 * sum + u32::from(digit - b'0'))
        })
    };
    text.len() == 10
        && (text[4], text[7]) == (b'-', b'-')
        && number(&text[..4]).is_some()
        && number(&text[5..7]).is_some_and(|it| (1..=12).contains(&it))
        && number(&text[8..]).is_some_and(|it| (1..=31).contains(&it))
}

/// Cost of an erasure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Erasure {
    /// The number of transactions erased.
    pub transactions: u64,
    /// The bytes of new segments, to be uploaded.
    pub new_bytes: u64,
    /// The number of transactions that are shuffled again, because too many others of their strata are erased.
    pub shuffled: u64,
    /// The bytes of their new segments.
    pub shuffled_bytes: u64,
}

/// Strata and segments that an erasure changes.
struct Plan {
    /// The numbers of transactions that each stratum loses.
    erased: Vec<ErasedCounts>,
    /// The strata that are shuffled again, ascending.
    shuffled: Vec<usize>,
    /// The segments of these with erased rows, with their indices.
    moved: Vec<(u32, SegmentEntry)>,
    /// The segments of others with erased rows.
    replaced: Vec<(u32, SegmentEntry)>,
}

impl Dataset {
    /// Reads all rows with their ids, by slot, from the dataset's own segments.
    ///
    /// # Errors
    /// Rows without ids, segments that are missing or damaged.
    pub fn own_row_ids(&self, threads: NonZeroUsize) -> Result<Vec<FoundRow>, DatasetError> {
        let manifest = self.manifest();
        if manifest.row_id_bytes == 0 {
            return Err(DatasetError::NoIdsToErase);
        }
        let degree = manifest.parameters.degree() as u64;
        let columns = Column::first(manifest.sealed_columns()).skip(manifest.columns as usize);
        let columns: Vec<Column> = columns.collect();
        let mut rows = Vec::new();
        for (index, entry) in (0..).zip(&manifest.segments) {
            let bits = self.cells(index, &columns, threads)?;
            let found = unpack_row_ids(&bits)
                .ok_or_else(|| RecordError::Unusable("a row id is no text".into()))?;
            let first = entry.first_block * degree;
            let found = found.into_iter();
            rows.extend(found.map(|(slot, id)| FoundRow {
                slot: first + slot,
                id,
            }));
        }
        Ok(rows)
    }

    /// Finds the slots of the rows to erase, from the dataset's own segments.
    ///
    /// # Errors
    /// An unknown id, or an id without a date if dates are selected; otherwise as [`own_row_ids`](Self::own_row_ids).
    pub fn select_rows(
        &self,
        rows: &RowSelection,
        threads: NonZeroUsize,
    ) -> Result<BTreeSet<u64>, DatasetError> {
        let here = self.own_row_ids(threads)?;
        let found: HashSet<&String> = here.iter().map(|it| &it.id).collect();
        let unknown = rows.ids.iter().filter(|it| !found.contains(it));
        if let Some(example) = unknown.clone().min() {
            return Err(DatasetError::UnknownRowIds {
                count: unknown.count(),
                example: example.clone(),
            });
        }
        let date = |row: &FoundRow| {
            let date = row.id.get(..10).filter(|it| is_date(it.as_bytes()));
            date.map(str::to_owned)
                .ok_or_else(|| DatasetError::UndatedRowId(row.id.clone()))
        };
        let mut slots = BTreeSet::new();
        for row in &here {
            let is_old = match &rows.before {
                Some(before) => date(row)? < *before,
                None => false,
            };
            if is_old || rows.ids.contains(&row.id) {
                slots.insert(row.slot);
            }
        }
        Ok(slots)
    }

    /// Computes the cost of erasing these slots, all of which must have transactions.
    ///
    /// # Errors
    /// Never for a dataset that was opened.
    pub fn erasure(&self, slots: &BTreeSet<u64>) -> Result<Erasure, DatasetError> {
        let plan = self.plan_erasure(slots)?;
        let manifest = self.manifest();
        let replaced = plan.replaced.iter().map(|it| it.1.bytes).sum::<u64>();
        let left = plan.shuffled.iter().map(|&place| {
            let erased = plan.erased[place].all;
            self.record.strata[place].present().saturating_sub(erased)
        });
        let bytes = |transactions| {
            let (columns, ids) = (manifest.columns, manifest.row_id_bytes);
            stored_bytes(&manifest.parameters, columns, ids, transactions)
        };
        let shuffled_bytes = left.clone().map(bytes).sum::<Result<u64, _>>()?;
        Ok(Erasure {
            transactions: slots.len() as u64,
            new_bytes: replaced + shuffled_bytes,
            shuffled: left.sum(),
            shuffled_bytes,
        })
    }

    fn plan_erasure(&self, slots: &BTreeSet<u64>) -> Result<Plan, DatasetError> {
        let places = Places::of(self)?;
        let mut erased = vec![ErasedCounts::default(); places.strata.len()];
        for &slot in slots {
            let block = slot / self.manifest().parameters.degree() as u64;
            if block < self.manifest().block_count() {
                places.count(&mut erased, block, 1);
            }
        }
        let strata = self.record.strata(self.manifest())?;
        let is_shuffled = |(record, erased): (&StratumRecord, &ErasedCounts)| {
            !strata
                .bounds()
                .are_readable(&record.without(*erased).extent())
        };
        let taken = self.record.strata.iter().zip(&erased);
        let taken: Vec<bool> = taken.map(is_shuffled).collect();
        let shuffled = if taken.contains(&true) {
            self.with_sharing(taken)
        } else {
            Vec::new()
        };
        let segments = (0..).zip(self.manifest().segments.iter().copied());
        let changed: Vec<(u32, SegmentEntry)> = segments
            .filter(|(_, it)| slots.range(self.slots_of(it)).next().is_some())
            .collect();
        let is_moved = |it: &SegmentEntry| shuffled.contains(&places.stratum_of(it.first_block));
        let (moved, replaced) = changed.into_iter().partition(|(_, it)| is_moved(it));
        Ok(Plan {
            erased,
            shuffled,
            moved,
            replaced,
        })
    }

    /// Empties these slots; returns the new version, whose cells, sums and supports exclude their transactions. Empty
    /// slots change nothing. Strata whose totals would become unreadable are shuffled again.
    ///
    /// # Errors
    /// No slot with a transaction, or all of them; segments that are missing or damaged, too little disk space, an
    /// interruption. The bundle is unchanged.
    pub fn erase(
        &self,
        slots: &BTreeSet<u64>,
        threads: NonZeroUsize,
        progress: Progress<'_>,
    ) -> Result<Self, DatasetError> {
        let manifest = self.manifest();
        let (plan, cost) = (self.plan_erasure(slots)?, self.erasure(slots)?);
        let degree = manifest.parameters.degree() as u64;
        let places = Places::of(self)?;
        let replaced = plan.replaced.iter().map(|it| u64::from(it.1.blocks));
        let shuffled = plan.shuffled.iter().map(|&place| {
            let left = self.record.strata[place].present();
            left.saturating_sub(plan.erased[place].all).div_ceil(degree)
        });
        let blocks: u64 = replaced.chain(shuffled).sum();
        let total = blocks * u64::from(manifest.columns);
        let needed = cost.new_bytes;
        let mut new = Rewrite::begin(self, self.key.clone(), needed, threads, progress, total)?;
        let mut supports = self.record.supports.clone();
        let mut erased = vec![ErasedCounts::default(); places.strata.len()];
        let columns: Vec<Column> = Column::first(manifest.sealed_columns()).collect();
        let changed = plan.moved.iter().map(|it| (it, false));
        for ((index, entry), is_replaced) in
            changed.chain(plan.replaced.iter().map(|it| (it, true)))
        {
            let mut bits = self.cells(*index, &columns, threads)?;
            let mut emptied: BTreeMap<usize, u64> = BTreeMap::new();
            empty(
                &mut bits,
                self.slots_of(entry),
                slots,
                |column, word, bits| {
                    if let Some(support) = supports.get_mut(column) {
                        *support -= u64::from(bits.count_ones());
                    }
                    *emptied.entry(word).or_default() |= bits;
                },
            );
            for (word, bits) in emptied {
                let block = entry.first_block + 64 * word as u64 / degree;
                places.count(&mut erased, block, bits.count_ones().into());
            }
            if is_replaced {
                let stratum = &self.record.strata[places.stratum_of(entry.first_block)];
                let bits: Vec<&[u64]> = bits.iter().map(|it| &it[..]).collect();
                let entries = new.encrypt(&bits, entry.first_block, stratum.secret_generation)?;
                new.manifest.segments[*index as usize] = entries[0];
            }
        }
        let present: u64 = erased.iter().map(|it| it.all).sum();
        if present == 0 {
            return Err(DatasetError::NothingToErase);
        }
        if present >= self.record.transactions {
            return Err(DatasetError::EverythingErased);
        }
        new.remove_segments_of(&plan.shuffled);
        let changed: Vec<Blocks> = plan.replaced.iter().map(|it| it.1.range()).collect();
        let all = self.record.strata.iter().zip(&erased).enumerate();
        let others = all.filter(|(place, _)| !plan.shuffled.contains(place));
        let mut strata: Vec<NewStratum> = others
            .map(|(place, (record, erased))| {
                let here = places.strata[place];
                let left: u64 = changed.iter().map(|it| it.intersection(here).len()).sum();
                NewStratum {
                    record: record.without(*erased),
                    change: match left {
                        0 => Change::Kept,
                        // Summed anew.
                        all if all == here.len() => Change::New,
                        _ => Change::Replaced(here.start),
                    },
                }
            })
            .collect();
        for &place in &plan.shuffled {
            let left = self.record.strata[place].without(erased[place]).present();
            if left > 0 {
                strata.extend(new.shuffle(&[place], left, slots)?.0);
            }
        }
        let items = self.record.items();
        let items = items.after_erasure(supports, self.record.transactions - present);
        new.finish(strata, &self.record.column_order()?, items)
    }

    /// Returns the slots of a segment, counted over all blocks.
    pub(super) fn slots_of(&self, entry: &SegmentEntry) -> Range<u64> {
        let degree = self.manifest().parameters.degree() as u64;
        let blocks = entry.range();
        blocks.start * degree..blocks.end * degree
    }
}

/// Blocks of strata and of their samples.
struct Places {
    strata: Vec<Blocks>,
    /// The blocks of the sample of each stratum, if it has one.
    samples: Vec<Option<Blocks>>,
}

impl Places {
    fn of(dataset: &Dataset) -> Result<Self, DatasetError> {
        let strata = dataset.strata_blocks();
        let record = dataset.record.strata(dataset.manifest())?;
        let sample = |(blocks, stratum): (&Blocks, &Stratum)| {
            let sample = stratum.sample_blocks()?;
            Some(Blocks::from_start(blocks.start, sample))
        };
        let samples = strata.iter().zip(record.strata()).map(sample).collect();
        Ok(Self { strata, samples })
    }

    fn stratum_of(&self, block: u64) -> usize {
        self.strata.partition_point(|it| it.end <= block)
    }

    /// Counts erased rows of a block.
    fn count(&self, erased: &mut [ErasedCounts], block: u64, rows: u64) {
        let place = self.stratum_of(block);
        erased[place].all += rows;
        if self.samples[place].is_some_and(|it| it.numbers().contains(&block)) {
            erased[place].in_sample += rows;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dataset::{NewItems, Target};
    use crate::shuffled::Shuffled;
    use oboro_input::transactions::Transactions;
    use oboro_ring::Limb;
    use oboro_rlwe::MasterKey;
    use std::ops::ControlFlow;

    fn go_on(_: u64, _: u64) -> ControlFlow<()> {
        ControlFlow::Continue(())
    }

    /// Creates transactions with bread, of which all but each fiftieth have milk, too.
    fn rows(count: u32) -> Shuffled {
        let names = ["bread", "milk"].map(str::to_owned).to_vec();
        let baskets = (0..count).map(|row| 0..=u32::from(row % 50 > 0));
        Shuffled::of(Transactions::from_baskets(names, baskets).unwrap())
    }

    /// Counts the support of both items in the ciphertext as a server does, and verifies and reads it with the kept
    /// data.
    fn support_of_both(dataset: &Dataset) -> u64 {
        let manifest = dataset.manifest();
        let parameters = &manifest.parameters;
        let strata = dataset.record().strata(manifest).unwrap();
        let limbs = strata.bounds().limbs(2).unwrap();
        let mut sums = vec![vec![vec![0]; limbs]; strata.ranges().len()];
        for (index, entry) in (0..).zip(&manifest.segments) {
            let segment = dataset.bundle().open_segment(index).unwrap();
            for limb in Limb::first(limbs) {
                let q = u64::from(parameters.limb_moduli()[limb].value());
                let mut readers = [Column(0), Column(1)]
                    .map(|column| segment.panel_reader(limb, column).unwrap());
                let mut block_of = [0, 1].map(|_| vec![0; parameters.degree()]);
                for block in entry.range().numbers() {
                    for (reader, residues) in readers.iter_mut().zip(&mut block_of) {
                        reader.read(residues).unwrap();
                    }
                    let pairs = block_of[0].iter().zip(&block_of[1]);
                    let products = pairs.map(|(&a, &b)| u64::from(a) * u64::from(b) % q);
                    let product = products.sum::<u64>() % q;
                    for (range, sums) in strata.ranges().iter().zip(&mut sums) {
                        if range.numbers().contains(&block) {
                            let sum: &mut u32 = &mut sums[limb][0];
                            *sum = ((u64::from(*sum) + product) % q) as u32;
                        }
                    }
                }
            }
        }
        let reader = dataset.pair_reader().unwrap();
        let verified = reader.verify_prefix(2, &sums).unwrap();
        verified.supports().unwrap()[0]
    }

    /// Rows of a sample are erased by their slots: first some of them, then so many that the window would be too
    /// wide. Then the nearest number with the right residue would be wrong.
    #[test]
    fn totals_are_right_whichever_slots_are_erased() {
        let threads = NonZeroUsize::new(2).unwrap();
        let directory = tempfile::tempdir().unwrap();
        let (key, target) = (
            MasterKey::generate().unwrap(),
            Target::Temporary(directory.path()),
        );
        let mut dataset = Dataset::create(rows(10), &key, target, 2, threads, &go_on).unwrap();
        for more in [90_000, 300_000] {
            let appended = dataset.append(rows(more), NewItems::Refuse, threads, &go_on);
            dataset = appended.unwrap();
        }
        let parameters = &dataset.manifest().parameters;
        assert_eq!(
            (parameters.degree(), parameters.plaintext_modulus()),
            (4096, 40_961)
        );
        // The sample of the second stratum begins with its second block, the third stratum with its 24th.
        let (second, third) = (4096, 23 * 4096);
        for (erased, shuffled) in [(0..10_000, 0), (10_000..34_000, 56_000)] {
            let others = [erased.start / 10_000, third + erased.start];
            let count = erased.end - erased.start + 2;
            let slots = erased.map(|it| second + it).chain(others).collect();
            let cost = dataset.erasure(&slots).unwrap();
            assert_eq!((cost.transactions, cost.shuffled), (count, shuffled));
            let after = dataset.erase(&slots, threads, &go_on).unwrap();
            let left = dataset.record().transactions - count;
            assert_eq!(after.record().transactions, left);
            let segments = after.manifest().segments.iter();
            let new = segments.filter(|it| it.number >= dataset.manifest().next_segment);
            assert_eq!(new.map(|it| it.bytes).sum::<u64>(), cost.new_bytes);
            after.bundle().verify().unwrap();
            // Milk occurs only with bread.
            let both = after.record().supports.iter().copied().min();
            assert_eq!(support_of_both(&after), both.unwrap());
            dataset = after;
        }
        let strata = dataset.record.strata.iter();
        let counts = strata.map(|it| (it.blocks, it.transactions, it.erased, it.erased_in_sample));
        assert_eq!(
            counts.collect::<Vec<_>>(),
            [(1, 10, 2, 0), (74, 300_000, 2, 2), (14, 56_000, 0, 0)]
        );
    }
}
