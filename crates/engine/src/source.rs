//! Where panels come from.

use crate::plan::Factor;
use oboro_ring::Parameters;
use oboro_store::{Listener, Panel, Part, Snapshot, StoreError, Stream};
use std::ops::Range;
use std::sync::Arc;

/// The blocks of one segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Segment {
    /// Its first block's number in the dataset.
    pub first_block: u64,
    /// The number of its blocks.
    pub blocks: u64,
}

/// A dataset that can be counted: a fixed version, its panels on call.
pub trait Source: Send + Sync {
    /// The ring of its ciphertexts.
    fn parameters(&self) -> &Parameters;

    /// The number of columns.
    fn columns(&self) -> u32;

    /// The segments, their blocks consecutive from 0.
    fn segments(&self) -> Vec<Segment>;

    /// The residues of one factor, modulo one limb, of all blocks of a segment: evaluation form,
    /// block after block, below 2^28.
    fn panel(&self, segment: usize, limb: usize, factor: Factor) -> Result<Arc<Panel>, StoreError>;

    /// Begins to get the residues of `factors` of a segment modulo the first `limbs` limbs, which are asked
    /// for next, where that takes long.
    fn fetch_ahead(&self, _segment: usize, _limbs: usize, _factors: &[Factor]) {}

    /// Whether every panel is there when it is asked for. Otherwise it is while a
    /// [stream](Self::stream) has its group in memory.
    fn is_resident(&self) -> bool {
        true
    }

    /// Begins to bring the residues of `factors` modulo the first `limbs` limbs into memory, of the
    /// segments of one group of blocks after another; `listener` is told as groups arrive.
    ///
    /// # Errors
    /// Memory that has no room for a group.
    ///
    /// # Panics
    /// If everything is in memory.
    fn stream(
        &self,
        _limbs: usize,
        _factors: &[Factor],
        _groups: Vec<Range<usize>>,
        _listener: Listener,
    ) -> Result<Stream, StoreError> {
        unreachable!("what is in memory is not streamed")
    }

    /// The node that has one factor's residues of a group of blocks, modulo every limb; `None` if they
    /// lie on all nodes alike.
    fn home(&self, _group: u64, _factor: Factor) -> Option<usize> {
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

    fn segments(&self) -> Vec<Segment> {
        let entry = |e: &oboro_store::SegmentEntry| Segment {
            first_block: e.first_block,
            blocks: e.blocks.into(),
        };
        self.manifest().segments.iter().map(entry).collect()
    }

    fn panel(&self, segment: usize, limb: usize, factor: Factor) -> Result<Arc<Panel>, StoreError> {
        match factor {
            Factor::Mask => self.mask(segment, limb),
            Factor::Column(column) => Snapshot::panel(self, segment, limb, column as usize),
        }
    }

    fn fetch_ahead(&self, segment: usize, limbs: usize, factors: &[Factor]) {
        let column = |factor: &Factor| match factor {
            Factor::Mask => None,
            Factor::Column(column) => Some(*column),
        };
        for limb in 0..limbs {
            Snapshot::fetch_ahead(self, segment, limb, factors.iter().filter_map(column));
        }
    }

    fn is_resident(&self) -> bool {
        Snapshot::is_resident(self)
    }

    fn stream(
        &self,
        limbs: usize,
        factors: &[Factor],
        groups: Vec<Range<usize>>,
        listener: Listener,
    ) -> Result<Stream, StoreError> {
        let part = |limb, factor: &Factor| Part {
            limb,
            column: match factor {
                Factor::Mask => None,
                Factor::Column(column) => Some(*column),
            },
        };
        let of_limb = |limb| factors.iter().map(move |factor| part(limb, factor));
        let parts = (0..limbs).flat_map(of_limb).collect();
        Snapshot::stream(self, parts, groups, listener)
    }

    fn home(&self, group: u64, factor: Factor) -> Option<usize> {
        match factor {
            Factor::Mask => self.mask_home(group),
            Factor::Column(column) => Snapshot::home(self, group, column as usize),
        }
    }
}
