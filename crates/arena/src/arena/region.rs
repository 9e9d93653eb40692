//! A region of address space: all calls of an arena to the kernel.
//!
//! A region is mapped without access at first, which costs address space only, and committed from its start. Ranges are
//! offsets from its base.

#![allow(unsafe_code)]

use super::ArenaError;
use libc::{c_int, c_long, c_ulong, c_void};
use std::collections::BTreeMap;
use std::io;
use std::num::NonZero;
use std::ops::Range;
use std::ptr::{self, NonNull};
use std::thread;

/// Size of a huge page, and the alignment of a region.
pub(super) const HUGE_PAGE: usize = 2 << 20;
/// Largest number of NUMA nodes of any machine.
const MAX_NODES: usize = 1024;
/// Pages per query to the kernel.
const PAGES_ASKED: usize = 16 << 10;

/// Physical memory behind an arena.
#[derive(Debug, Clone, Default)]
pub struct Backing {
    /// Kind of pages.
    pub pages: Pages,
    /// NUMA nodes of the memory.
    pub policy: MemoryPolicy,
}

/// Kind of pages of an arena.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Pages {
    /// Small pages.
    Small,
    /// Pages of 2 MiB wherever the kernel has one when memory is touched, small ones otherwise.
    #[default]
    Transparent,
    /// Pages of 2 MiB from the administrator's pool (`vm.nr_hugepages`); transparent ones if it is too small. They are
    /// touched as the arena grows.
    Explicit,
}

/// NUMA nodes of an arena, by the kernel's numbers.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum MemoryPolicy {
    /// Policy of the thread that touches memory first.
    #[default]
    Inherit,
    /// One node and no other.
    Bind(u32),
    /// One node, and others when it is full.
    Prefer(u32),
    /// These nodes in turn, page by page, and others when they are full. Nodes that this process may not use are
    /// skipped, unless no other is left.
    Interleave(Vec<u32>),
}

pub(super) struct Region {
    base: NonNull<u8>,
    bytes: usize,
    pages: Pages,
}

// SAFETY: a region is an address, a length and a constant; every method may be called by any thread. Users of its
// memory go through raw pointers and follow their own rules for sharing it.
unsafe impl Send for Region {}
// SAFETY: as above.
unsafe impl Sync for Region {}

impl Region {
    pub(super) fn reserve(bytes: usize, backing: Backing) -> Result<Self, ArenaError> {
        let region = match backing.pages {
            Pages::Explicit => Self::explicit(bytes).or_else(|_| Self::transparent(bytes)),
            Pages::Transparent => Self::transparent(bytes),
            Pages::Small => Self::small(bytes),
        };
        let region = region.map_err(|source| ArenaError::Refused {
            action: "reserve",
            bytes,
            source,
            remedy: "Raise the limit on the address space of processes (ulimit -v), or use less at a time.",
        })?;
        match backing.policy {
            MemoryPolicy::Inherit => {}
            MemoryPolicy::Bind(node) => region.place(libc::MPOL_BIND, &[node])?,
            MemoryPolicy::Prefer(node) => region.place(libc::MPOL_PREFERRED, &[node])?,
            MemoryPolicy::Interleave(nodes) => region.place(libc::MPOL_INTERLEAVE, &nodes)?,
        }
        Ok(region)
    }

    /// Maps pages of the pool, which reserves them for this region.
    fn explicit(bytes: usize) -> io::Result<Self> {
        let bytes = rounded(bytes, HUGE_PAGE)?;
        Ok(Self {
            base: map(bytes, libc::MAP_HUGETLB | libc::MAP_HUGE_2MB)?,
            bytes,
            pages: Pages::Explicit,
        })
    }

    fn transparent(bytes: usize) -> io::Result<Self> {
        let mut region = Self::small(bytes)?;
        // SAFETY: advice on a mapping of our own changes no content.
        let advised = unsafe { libc::madvise(region.at(0), region.bytes, libc::MADV_HUGEPAGE) };
        if advised == 0 && transparent_pages_are_given() {
            region.pages = Pages::Transparent;
        }
        Ok(region)
    }

    /// Maps small pages at an address aligned for huge ones.
    fn small(bytes: usize) -> io::Result<Self> {
        let bytes = rounded(bytes, page_size())?;
        let with_margin = bytes.checked_add(HUGE_PAGE);
        let with_margin = with_margin.ok_or(io::ErrorKind::OutOfMemory)?;
        let mapped = map(with_margin, libc::MAP_NORESERVE)?;
        let head = mapped.as_ptr().align_offset(HUGE_PAGE);
        let base = mapped.as_ptr().wrapping_add(head);
        // SAFETY: these are the margins of a new mapping that is not used yet.
        unsafe {
            unmap(mapped.as_ptr(), head);
            unmap(base.wrapping_add(bytes), HUGE_PAGE - head);
        }
        Ok(Self {
            base: NonNull::new(base).expect("within a mapping"),
            bytes,
            pages: Pages::Small,
        })
    }

    /// Sets the nodes of memory that will be touched.
    fn place(&self, mode: c_int, nodes: &[u32]) -> Result<(), ArenaError> {
        const WORD: usize = c_ulong::BITS as usize;
        let mut mask: [c_ulong; MAX_NODES / WORD] = [0; _];
        let refused = |source| ArenaError::Node {
            nodes: nodes.into(),
            source,
        };
        for &node in nodes {
            let Some(word) = mask.get_mut(node as usize / WORD) else {
                return Err(refused(io::ErrorKind::NotFound.into()));
            };
            *word |= 1 << (node as usize % WORD);
        }
        // The kernel reads one bit less than the size that it is given.
        let bits = MAX_NODES + 1;
        // SAFETY: the mapping is our own, and the mask has the bits that the kernel reads.
        let status = unsafe {
            libc::syscall(
                libc::SYS_mbind,
                self.at(0),
                self.bytes,
                mode,
                mask.as_ptr(),
                bits,
                0,
            )
        };
        check(status).map_err(refused)
    }

    pub(super) fn base(&self) -> NonNull<u8> {
        self.base
    }

    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    pub(super) fn pages(&self) -> Pages {
        self.pages
    }

    fn at(&self, offset: usize) -> *mut c_void {
        self.base.as_ptr().wrapping_add(offset).cast()
    }

    /// Makes the range, whose ends are pages, readable and writable. Touches pages of the pool: a lack of them is an
    /// error here, and a signal later.
    pub(super) fn open(&self, range: Range<usize>) -> Result<(), ArenaError> {
        let access = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: the range is part of our own mapping; more access invalidates no reference.
        let status = unsafe { libc::mprotect(self.at(range.start), range.len(), access) };
        check(status.into()).map_err(|source| ArenaError::Refused {
            action: "open",
            bytes: range.len(),
            source,
            remedy: "Free some memory, or let the kernel promise more (vm.overcommit_memory, vm.max_map_count).",
        })?;
        match self.pages {
            Pages::Explicit => self.populate(range),
            Pages::Small | Pages::Transparent => Ok(()),
        }
    }

    /// Touches every page of a committed range, in parallel. The range must not be in use; its bytes stay or become
    /// zero.
    pub(super) fn touch(
        &self,
        range: Range<usize>,
        threads: NonZero<usize>,
    ) -> Result<(), ArenaError> {
        let share = range.len().div_ceil(threads.get()).max(1);
        let share = share.next_multiple_of(HUGE_PAGE);
        thread::scope(|scope| {
            let shares: Vec<_> = range
                .clone()
                .step_by(share)
                .map(|start| start..range.end.min(start + share))
                .map(|share| scope.spawn(|| self.populate(share)))
                .collect();
            shares
                .into_iter()
                .try_for_each(|share| share.join().expect("touching does not panic"))
        })
    }

    fn populate(&self, range: Range<usize>) -> Result<(), ArenaError> {
        let start = range.start - range.start % page_size();
        let bytes = range.end - start;
        loop {
            // SAFETY: the range is an open part of our own mapping; populating keeps its contents.
            let status = unsafe { libc::madvise(self.at(start), bytes, libc::MADV_POPULATE_WRITE) };
            let Err(source) = check(status.into()) else {
                return Ok(());
            };
            match source.raw_os_error() {
                Some(libc::EINTR) => {}
                Some(libc::EINVAL) if self.pages != Pages::Explicit => {
                    self.touch_first(range);
                    return Ok(());
                }
                _ => {
                    return Err(ArenaError::Refused {
                        action: "touch",
                        bytes,
                        source,
                        remedy: "Free some memory or huge pages on the node that was asked for, or ask for another.",
                    });
                }
            }
        }
    }

    /// Does the work of [`Self::populate`] on kernels before 5.14: writes one byte of each page.
    fn touch_first(&self, range: Range<usize>) {
        let next_page = (range.start + 1).next_multiple_of(page_size());
        let pages = (next_page..range.end).step_by(page_size());
        for offset in std::iter::once(range.start).chain(pages) {
            // SAFETY: the range is open and not in use.
            unsafe { self.at(offset).cast::<u8>().write_volatile(0) };
        }
    }

    /// Number of bytes of the range, whose ends are pages, in physical memory.
    pub(super) fn resident(&self, range: Range<usize>) -> Result<usize, ArenaError> {
        let mut pages = vec![0u8; range.len() / page_size()];
        // SAFETY: the kernel writes a byte for each page of the range.
        let status =
            unsafe { libc::mincore(self.at(range.start), range.len(), pages.as_mut_ptr()) };
        check(status.into()).map_err(|source| unknown(range.len(), source))?;
        Ok(pages.iter().filter(|&&page| page & 1 == 1).count() * page_size())
    }

    /// [`Self::resident`] by NUMA node.
    pub(super) fn resident_by_node(
        &self,
        range: Range<usize>,
    ) -> Result<BTreeMap<u32, usize>, ArenaError> {
        let mut resident = BTreeMap::new();
        for start in range.clone().step_by(PAGES_ASKED * page_size()) {
            let pages = (start..range.end).step_by(page_size()).take(PAGES_ASKED);
            let pages: Vec<_> = pages.map(|offset| self.at(offset)).collect();
            // Pages that are not in memory have a negative status.
            for node in nodes_of(&pages)?.into_iter().flat_map(u32::try_from) {
                *resident.entry(node).or_default() += page_size();
            }
        }
        Ok(resident)
    }
}

/// The node of each page, or a negative status.
fn nodes_of(pages: &[*mut c_void]) -> Result<Vec<c_int>, ArenaError> {
    const THIS_PROCESS: c_int = 0;
    let mut nodes: Vec<c_int> = vec![-1; pages.len()];
    // SAFETY: with no target nodes the call only reads the addresses and writes a status for each.
    let status = unsafe {
        libc::syscall(
            libc::SYS_move_pages,
            THIS_PROCESS,
            pages.len(),
            pages.as_ptr(),
            ptr::null::<c_int>(),
            nodes.as_mut_ptr(),
            0,
        )
    };
    check(status).map_err(|source| unknown(pages.len() * page_size(), source))?;
    Ok(nodes)
}

impl Drop for Region {
    fn drop(&mut self) {
        // SAFETY: every user of the region's memory keeps the region alive.
        unsafe { unmap(self.base.as_ptr(), self.bytes) };
    }
}

/// Maps address space without access.
fn map(bytes: usize, flags: c_int) -> io::Result<NonNull<u8>> {
    let flags = flags | libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
    // SAFETY: a new mapping at an address of the kernel's choice touches no other.
    let mapped = unsafe { libc::mmap(ptr::null_mut(), bytes, libc::PROT_NONE, flags, -1, 0) };
    if mapped == libc::MAP_FAILED {
        return Err(io::Error::last_os_error());
    }
    Ok(NonNull::new(mapped.cast()).expect("the kernel maps nothing at address zero"))
}

/// Unmaps pages.
///
/// # Safety
/// They are part of a mapping of this process and no longer used.
unsafe fn unmap(start: *mut u8, bytes: usize) {
    if bytes > 0 {
        // SAFETY: by the caller's promise.
        let status = unsafe { libc::munmap(start.cast(), bytes) };
        debug_assert_eq!(status, 0, "{}", io::Error::last_os_error());
    }
}

fn rounded(bytes: usize, page: usize) -> io::Result<usize> {
    let rounded = bytes.max(1).checked_next_multiple_of(page);
    rounded.ok_or_else(|| io::ErrorKind::OutOfMemory.into())
}

/// Number of bytes of a small page.
pub fn page_size() -> usize {
    // SAFETY: reads a constant of the system.
    let bytes = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
    usize::try_from(bytes).expect("pages have a size")
}

/// Returns true if the kernel honours advice on transparent huge pages.
fn transparent_pages_are_given() -> bool {
    std::fs::read_to_string("/sys/kernel/mm/transparent_hugepage/enabled")
        .is_ok_and(|choices| !choices.contains("[never]"))
}

fn check(status: c_long) -> io::Result<()> {
    if status < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}

fn unknown(bytes: usize, source: io::Error) -> ArenaError {
    ArenaError::Refused {
        action: "tell the place of",
        bytes,
        source,
        remedy: "Allow this process the calls mincore and move_pages.",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn touching_without_the_kernels_help_reaches_every_page() {
        let backing = Backing {
            pages: Pages::Small,
            ..Backing::default()
        };
        let region = Region::reserve(64 * page_size(), backing).unwrap();
        region.open(0..64 * page_size()).unwrap();
        assert_eq!(region.resident(0..64 * page_size()).unwrap(), 0);
        region.touch_first(page_size() + 192..40 * page_size() + 1);
        assert_eq!(
            region.resident(0..64 * page_size()).unwrap(),
            40 * page_size()
        );
    }
}
