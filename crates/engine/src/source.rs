//! Sources of panels.

use oboro_format::SegmentEntry;
use oboro_residency::{Listener, Panel, PanelKey, ResidencyError, Snapshot, Stream, WorkUnit};
use oboro_ring::{Blocks, Factor, Limb, Parameters};
use std::ops::Range;
use std::sync::Arc;

/// Memory needs of a count, one unit after another.
#[derive(Debug, Clone)]
pub struct MemoryNeeds {
    /// Factors of each pass.
    pub passes: Vec<Vec<Factor>>,
    /// Units.
    pub units: Vec<WorkUnit>,
}

impl MemoryNeeds {
    /// Panels that each pass reads of a segment modulo the first `limbs` limbs, in file order.
    fn parts(&self, limbs: usize) -> Vec<Vec<PanelKey>> {
        let keys = |factors: &Vec<Factor>| {
            let of_limb = |limb| {
                factors
                    .iter()
                    .map(move |&factor| PanelKey::new(limb, factor))
            };
            Limb::first(limbs).flat_map(of_limb).collect()
        };
        self.passes.iter().map(keys).collect()
    }
}

/// Dataset that can be counted: a fixed version with panels on demand.
pub trait Source: Send + Sync {
    /// Ring of its ciphertexts.
    fn parameters(&self) -> &Parameters;

    /// Number of columns.
    fn columns(&self) -> u32;

    /// Blocks of each segment, consecutive from 0.
    fn segments(&self) -> Vec<Blocks>;

    /// Returns the residues of one factor, modulo one limb, of all blocks of a segment: evaluation form, block after
    /// block, below 2^28.
    fn panel(
        &self,
        segment: usize,
        limb: Limb,
        factor: Factor,
    ) -> Result<Arc<Panel>, ResidencyError>;

    /// Number of bytes of panels that may be in memory at a time, which are those that [streams](Self::stream) hold.
    /// `u64::MAX` if nothing is ever evicted.
    fn budget(&self) -> u64 {
        u64::MAX
    }

    /// Returns true if everything that some units need modulo the first `limbs` limbs is in memory and stays there,
    /// without [streaming](Self::stream). The units are computed only if the answer depends on them.
    fn is_in_memory(&self, _limbs: usize, _wanted: &dyn Fn() -> MemoryNeeds) -> bool {
        true
    }

    /// Number of factors, modulo `limbs` limbs, that fit into memory for the segments of any of these shards.
    fn factors_at_a_time(&self, limbs: usize, shards: &[Blocks]) -> usize {
        let segments = self.segments();
        let residues = |s: &Blocks| s.len() as usize * self.parameters().degree();
        let bytes = |segments: &[Blocks]| -> usize {
            let panels = segments.iter().map(|s| Panel::footprint(residues(s)));
            limbs * panels.sum::<usize>()
        };
        let most = shards
            .iter()
            .map(|&shard| bytes(&segments[segments_of(&segments, shard)]));
        (self.budget() / most.max().unwrap_or(1).max(1) as u64) as usize
    }

    /// Starts to load residues modulo the first `limbs` limbs: unit after unit, the factors of its pass. `listener` is
    /// called as each unit arrives.
    ///
    /// # Errors
    /// The memory budget is too small for some unit.
    ///
    /// # Panics
    /// If the source always has everything [in memory](Self::is_in_memory).
    fn stream(
        &self,
        _limbs: usize,
        _wanted: MemoryNeeds,
        _listener: Listener,
    ) -> Result<Stream, ResidencyError> {
        unreachable!("what is in memory is not streamed")
    }

    /// Node that holds one factor's residues of a block, modulo every limb; `None` if they are spread evenly over all
    /// nodes.
    fn home(&self, _block: u64, _factor: Factor) -> Option<usize> {
        None
    }
}

impl Source for Snapshot {
    fn parameters(&self) -> &Parameters {
        &self.manifest().parameters
    }

    fn columns(&self) -> u32 {
        self.manifest().columns
    }

    fn segments(&self) -> Vec<Blocks> {
        let segments = self.manifest().segments.iter();
        segments.map(SegmentEntry::range).collect()
    }

    fn panel(
        &self,
        segment: usize,
        limb: Limb,
        factor: Factor,
    ) -> Result<Arc<Panel>, ResidencyError> {
        Snapshot::panel(self, segment, limb, factor)
    }

    fn budget(&self) -> u64 {
        Snapshot::budget(self)
    }

    fn is_in_memory(&self, limbs: usize, wanted: &dyn Fn() -> MemoryNeeds) -> bool {
        self.budget() == u64::MAX && {
            let wanted = wanted();
            Snapshot::is_in_memory(self, &wanted.parts(limbs), &wanted.units)
        }
    }

    fn stream(
        &self,
        limbs: usize,
        wanted: MemoryNeeds,
        listener: Listener,
    ) -> Result<Stream, ResidencyError> {
        Snapshot::stream(self, wanted.parts(limbs), wanted.units, listener)
    }

    fn home(&self, block: u64, _: Factor) -> Option<usize> {
        Snapshot::home(self, block / self.manifest().parameters.shard_blocks())
    }
}

/// Segments that have blocks of a shard.
pub(crate) fn segments_of(segments: &[Blocks], shard: Blocks) -> Range<usize> {
    let first = segments.partition_point(|it| it.end <= shard.start);
    let end = segments.partition_point(|it| it.start < shard.end);
    first..end
}
