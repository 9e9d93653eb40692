//! Blocks in a reserved region of address space.
//!
//! The region is reserved at once and committed as blocks need it: memory that no block has used was never touched.
//! Later blocks reuse the space of dropped ones, exact sizes first; it returns to the kernel only with the arena.
//!
//! A block starts on the cache line that its position names within a page. Blocks of up to 64 neighbouring positions
//! thus have equal offsets in different sets of the first-level cache. They also differ in the second, whose set
//! numbers extend those of the first. Consecutively allocated blocks of whole pages are a page and a line apart in the
//! second: many spread over it.

#![allow(unsafe_code)]

mod error;
mod extents;
mod region;

pub use error::ArenaError;
pub use region::{Backing, MemoryPolicy, Pages, page_size};

use extents::Extents;
use parking_lot::{Mutex, MutexGuard};
use region::Region;
use std::collections::BTreeMap;
use std::num::NonZero;
use std::ops::{Deref, DerefMut, Range};
use std::sync::Arc;

const LINE: usize = 64;
const LINE_WORDS: usize = LINE / size_of::<u32>();
const LINES_PER_PAGE: usize = 64;
/// Lines between neighbouring positions. Odd, to give 64 neighbours 64 different lines; near 64/φ, to spread few
/// neighbours well too.
const STAGGER_LINES: usize = 39;
/// Unit of committing memory: a huge page, for blocks to lie on one.
const STEP: usize = region::HUGE_PAGE;

/// Region of address space in which any thread can allocate blocks. It lives as long as its blocks.
pub struct Arena(Arc<Shared>);

struct Shared {
    region: Region,
    space: Mutex<Space>,
}

/// The allocated parts of the region, as offsets from its base.
#[derive(Default)]
struct Space {
    /// Free parts below `end`.
    returned: Extents,
    /// Start of the part that is all free.
    end: usize,
    /// Start of the part that no block ever used; it holds zeros.
    dirty_end: usize,
    /// Start of the part that is reserved, but not committed.
    open_end: usize,
}

impl Arena {
    /// Reserves `bytes` of address space, rounded up to pages. A block needs [`ArenaBlock::footprint`].
    pub fn reserve(bytes: usize, backing: Backing) -> Result<Self, ArenaError> {
        Ok(Self(Arc::new(Shared {
            region: Region::reserve(bytes, backing)?,
            space: Mutex::default(),
        })))
    }

    /// Allocates a block of `len` zeros, placed as the `position`-th of those that are read together.
    pub fn block(&self, len: usize, position: usize) -> Result<ArenaBlock, ArenaError> {
        let line = position.wrapping_mul(STAGGER_LINES) % LINES_PER_PAGE;
        self.block_within(len, ArenaBlock::footprint(len), |slot| {
            slot + line.wrapping_sub(slot / LINE) % LINES_PER_PAGE * LINE
        })
    }

    /// Allocates a block of `len` zeros on the first free cache line, without space for placement.
    pub fn unplaced_block(&self, len: usize) -> Result<ArenaBlock, ArenaError> {
        self.block_within(len, len.div_ceil(LINE_WORDS).saturating_mul(LINE), |slot| {
            slot
        })
    }

    /// Allocates a block in a slot of `bytes` bytes; `start` chooses where it starts.
    fn block_within(
        &self,
        len: usize,
        footprint: usize,
        start: impl FnOnce(usize) -> usize,
    ) -> Result<ArenaBlock, ArenaError> {
        let (slot, dirty_end) = self.0.take(footprint)?;
        let mut block = ArenaBlock {
            arena: Arc::clone(&self.0),
            slot: slot..slot + footprint,
            start: start(slot),
            len,
        };
        let dirty = dirty_end.saturating_sub(block.start) / size_of::<u32>();
        block[..dirty.min(len)].fill(0);
        Ok(block)
    }

    /// Commits the next `bytes` for blocks and touches them, in parallel. Until they are used up, neither allocating
    /// nor filling a block causes a page fault. Allocations wait for this call.
    pub fn grow(&self, bytes: usize, threads: NonZero<usize>) -> Result<(), ArenaError> {
        let mut space = self.0.space();
        let end = self.0.within(&space, bytes)?;
        self.0.open(&mut space, end)?;
        self.0.region.touch(space.end..end, threads)
    }

    /// The kind of pages in use: those requested, or the fallback.
    pub fn pages(&self) -> Pages {
        self.0.region.pages()
    }

    /// Number of bytes of address space reserved.
    pub fn reserved(&self) -> usize {
        self.0.region.bytes()
    }

    /// The addresses committed so far, which contain every block. Only the end ever moves.
    pub fn opened(&self) -> Range<*const u8> {
        let open_end = self.0.space().open_end;
        let base = self.0.region.base().as_ptr().cast_const();
        base..base.wrapping_add(open_end)
    }

    /// Number of bytes in physical memory, as the kernel counts them.
    pub fn resident(&self) -> Result<usize, ArenaError> {
        let open_end = self.0.space().open_end;
        self.0.region.resident(0..open_end)
    }

    /// Number of bytes in physical memory on each NUMA node.
    pub fn resident_by_node(&self) -> Result<BTreeMap<u32, usize>, ArenaError> {
        let open_end = self.0.space().open_end;
        self.0.region.resident_by_node(0..open_end)
    }
}

impl std::fmt::Debug for Arena {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let open = self.0.space().open_end;
        write!(f, "Arena({open} of {} bytes)", self.reserved())
    }
}

impl Shared {
    fn space(&self) -> MutexGuard<'_, Space> {
        self.space.lock()
    }

    /// Returns the end of another `bytes` bytes.
    fn within(&self, space: &Space, bytes: usize) -> Result<usize, ArenaError> {
        let end = space.end.checked_add(bytes);
        end.filter(|&end| end <= self.region.bytes())
            .ok_or(ArenaError::Full {
                reserved: self.region.bytes(),
                asked: bytes,
                taken: space.end - space.returned.bytes(),
            })
    }

    /// Commits everything before `end`.
    fn open(&self, space: &mut Space, end: usize) -> Result<(), ArenaError> {
        if end > space.open_end {
            let step_end = end.next_multiple_of(STEP).min(self.region.bytes());
            self.region.open(space.open_end..step_end)?;
            space.open_end = step_end;
        }
        Ok(())
    }

    /// Takes an unused part of the region; returns its offset and the one from which it certainly holds zeros.
    fn take(&self, bytes: usize) -> Result<(usize, usize), ArenaError> {
        let mut space = self.space();
        if let Some(start) = space.returned.take(bytes) {
            return Ok((start, space.dirty_end));
        }
        let end = self.within(&space, bytes)?;
        self.open(&mut space, end)?;
        let dirty_end = space.dirty_end;
        space.dirty_end = dirty_end.max(end);
        Ok((std::mem::replace(&mut space.end, end), dirty_end))
    }

    fn give_back(&self, slot: Range<usize>) {
        let mut space = self.space();
        let whole = space.returned.give(slot);
        if whole.end == space.end {
            space.returned.remove(&whole);
            space.end = whole.start;
        }
    }
}

/// Words in an [`Arena`], aligned to a cache line, with one owner. Dropping it frees its space for other blocks.
pub struct ArenaBlock {
    arena: Arc<Shared>,
    slot: Range<usize>,
    /// Offset of the first word from the base of the arena, in bytes.
    start: usize,
    len: usize,
}

impl ArenaBlock {
    /// Number of bytes of an arena that a block of `len` words takes, wherever it starts.
    pub const fn footprint(len: usize) -> usize {
        let lines = len.div_ceil(LINE_WORDS) + LINES_PER_PAGE - 1;
        lines.saturating_mul(LINE)
    }

    /// Returns the words in pairs as 64-bit integers in machine byte order; omits an odd last word.
    pub fn integers(&self) -> &[u64] {
        let words: &[u32] = self;
        // SAFETY: a block begins on a cache line, so aligned for integers, and any two words are one.
        unsafe { std::slice::from_raw_parts(words.as_ptr().cast(), words.len() / 2) }
    }

    /// Mutable [`integers`](Self::integers).
    pub fn integers_mut(&mut self) -> &mut [u64] {
        let words: &mut [u32] = self;
        // SAFETY: as above; the words are borrowed for as long as the integers.
        unsafe { std::slice::from_raw_parts_mut(words.as_mut_ptr().cast(), words.len() / 2) }
    }

    /// Returns the words as bytes, in machine byte order.
    pub fn bytes(&self) -> &[u8] {
        let words: &[u32] = self;
        // SAFETY: any word is four bytes, which need no alignment.
        unsafe { std::slice::from_raw_parts(words.as_ptr().cast(), size_of_val(words)) }
    }

    /// Mutable [`bytes`](Self::bytes).
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        let words: &mut [u32] = self;
        // SAFETY: as above; the words are borrowed for as long as the bytes.
        unsafe { std::slice::from_raw_parts_mut(words.as_mut_ptr().cast(), size_of_val(words)) }
    }

    /// Number of bytes in physical memory on each NUMA node, counting all pages that the block shares.
    pub fn resident_by_node(&self) -> Result<BTreeMap<u32, usize>, ArenaError> {
        let end = self.start + size_of_val::<[u32]>(self);
        let pages = self.start / page_size() * page_size()..end.next_multiple_of(page_size());
        self.arena.region.resident_by_node(pages)
    }

    fn first_word(&self) -> *mut u32 {
        let base = self.arena.region.base().as_ptr();
        base.wrapping_add(self.start).cast()
    }
}

impl Deref for ArenaBlock {
    type Target = [u32];

    fn deref(&self) -> &[u32] {
        // SAFETY: the words lie in `slot`, which is part of the region, open, and this block's alone until it is
        // dropped. The region is mapped as long as `arena` lives. The kernel gave it as zeros and only words were
        // written to it since: all of it is initialised.
        unsafe { std::slice::from_raw_parts(self.first_word(), self.len) }
    }
}

impl DerefMut for ArenaBlock {
    fn deref_mut(&mut self) -> &mut [u32] {
        // SAFETY: as above; `self` is borrowed for as long as the slice, which is therefore the only one.
        unsafe { std::slice::from_raw_parts_mut(self.first_word(), self.len) }
    }
}

impl Drop for ArenaBlock {
    fn drop(&mut self) {
        self.arena.give_back(self.slot.clone());
    }
}

impl std::fmt::Debug for ArenaBlock {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "ArenaBlock({} words)", self.len)
    }
}

#[cfg(test)]
mod tests;
