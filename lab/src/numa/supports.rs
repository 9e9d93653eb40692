//! Supports from the moments of an in-process count, with the owner's secrets.

use crate::output::Failure;
use oboro_dataset::Dataset;
use oboro_engine::{Moments, shards};
use oboro_mining::Itemset;
use oboro_ring::moment::{Itemsets, MomentIndex};
use oboro_ring::pack::{moment_packed_len, pack};
use oboro_ring::{Blocks, Column, Parameters, vector};
use oboro_rlwe::{Combiner, Partial};
use parking_lot::Mutex;
use std::sync::Arc;

/// Collects a dataset's moments as they are counted.
pub struct Supports {
    combiner: Combiner,
    index: Arc<MomentIndex>,
    parameters: Parameters,
    /// The ranges of blocks that the owner needs sums over, and their shards.
    ranges: Vec<Blocks>,
    shards: Vec<Blocks>,
    /// For each range, each moment's residues; empty until the first was added.
    sums: Mutex<Vec<Vec<u32>>>,
    /// For each given itemset, its index among those requested.
    places: Vec<usize>,
}

impl Supports {
    /// For these itemsets of one length, by the numbers of items.
    pub fn new(dataset: &Dataset, itemsets: &[Itemset]) -> Result<Self, Failure> {
        let (record, manifest) = (dataset.record(), dataset.manifest());
        let columns_of = |itemset: &Itemset| {
            let column = |&item: &u32| record.order[item as usize];
            let mut columns: Vec<Column> = itemset.items().iter().map(column).collect();
            columns.sort_unstable();
            columns
        };
        let given: Vec<Vec<Column>> = itemsets.iter().map(columns_of).collect();
        let mut sorted = given.clone();
        sorted.sort_unstable();
        let place = |columns: &Vec<Column>| sorted.partition_point(|other| other < columns);
        let places = given.iter().map(place).collect();
        let length = given.first().map_or(0, Vec::len);
        let asked = Itemsets::new(length, sorted.concat(), manifest.columns)?;
        let strata = record.strata(manifest)?;
        let ranges = strata.ranges().to_vec();
        let index = Arc::new(MomentIndex::new(&asked));
        Ok(Self {
            shards: shards(&ranges, manifest.parameters.shard_blocks()),
            sums: Mutex::new(vec![Vec::new(); ranges.len() * index.len()]),
            combiner: Combiner::new(dataset.key().clone(), asked, strata)?,
            parameters: manifest.parameters.clone(),
            index,
            ranges,
            places,
        })
    }

    /// The required moments.
    pub fn index(&self) -> &Arc<MomentIndex> {
        &self.index
    }

    /// The number of limbs.
    pub fn limbs(&self) -> usize {
        self.combiner.limbs()
    }

    /// The shards to count.
    pub fn shards(&self) -> &[Blocks] {
        &self.shards
    }

    /// Adds moments of a shard to the ranges that contain it.
    pub fn add(&self, mut moments: Moments<'_>) {
        let shard = self.shards[moments.shard];
        let mut sums = self.sums.lock();
        for (moment, residues) in moments.each() {
            for (number, range) in self.ranges.iter().enumerate() {
                if !range.contain(shard) {
                    continue;
                }
                let sum = &mut sums[number * self.index.len() + moment];
                sum.resize(residues.len(), 0);
                let each = residues.len() / self.limbs();
                let moduli = self.parameters.limb_moduli();
                let limbs = residues.chunks_exact(each).zip(sum.chunks_exact_mut(each));
                for ((residues, sum), q) in limbs.zip(moduli) {
                    vector::add_assign(q, residues, sum);
                }
            }
        }
    }

    /// The supports, in the order of the given itemsets.
    pub fn combine(&self) -> Result<Vec<u64>, Failure> {
        let sums = self.sums.lock();
        let mut phases = self.combiner.phases();
        for (at, sum) in sums.iter().enumerate() {
            let moment = at % self.index.len();
            let (power, _) = self.index.get(moment);
            let mut residues = sum.clone();
            residues.resize(residues.len().next_multiple_of(2), 0);
            let bytes = moment_packed_len(self.parameters.degree(), self.limbs(), power);
            let mut packed = vec![0; bytes];
            pack(&residues, &mut packed);
            let partial = Partial {
                range: (at / self.index.len()) as u64,
                moments: moment..moment + 1,
                residues: &packed,
            };
            self.combiner.absorb(&mut phases, &partial)?;
        }
        let supports = self.combiner.finish(&phases)?.supports;
        Ok(self.places.iter().map(|&place| supports[place]).collect())
    }
}
