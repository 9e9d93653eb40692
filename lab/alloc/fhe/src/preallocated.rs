//! The same program with all buffers allocated in advance.
//!
//! The library's interface takes no output buffers, so buffers are kept in free lists: one for each exact size, filled
//! by the first round. From then on an allocation takes a buffer from its free list and a deallocation returns it, like
//! a program that manages its own buffers. Only sizes below a page go to the system.

use std::alloc::{GlobalAlloc, Layout, System};
use std::ptr::null_mut;
use std::sync::Mutex;

const SMALLEST: usize = 4096;
const SHELVES: usize = 256;

#[global_allocator]
static BUFFERS: Shelves = Shelves(Mutex::new([Shelf::EMPTY; SHELVES]));

fn main() -> Result<(), Box<dyn std::error::Error>> {
    fhe_support::run()
}

/// Free buffers of one size, linked through their first words. A size of 0 marks an unused list.
struct Shelf {
    size: usize,
    first: *mut u8,
}

impl Shelf {
    const EMPTY: Self = Self {
        size: 0,
        first: null_mut(),
    };
}

struct Shelves(Mutex<[Shelf; SHELVES]>);

// SAFETY: the buffers on the lists have no owner, and every access goes through the mutex.
unsafe impl Sync for Shelves {}

impl Shelves {
    /// Calls `work` with the free list of this size.
    fn on_shelf<R>(&self, size: usize, work: impl FnOnce(&mut Shelf) -> R) -> R {
        let mut shelves = self
            .0
            .lock()
            .unwrap_or_else(|poisoned| poisoned.into_inner());
        let place = shelves
            .iter()
            .position(|shelf| shelf.size == size || shelf.size == 0)
            .unwrap_or_else(|| std::process::abort());
        shelves[place].size = size;
        work(&mut shelves[place])
    }
}

fn is_buffer(layout: Layout) -> bool {
    layout.size() >= SMALLEST && layout.align() <= align_of::<u128>()
}

// SAFETY: a block comes from the system with the requested layout, or from the free list of exactly that size, whose
// blocks came from the system with an alignment of 16.
unsafe impl GlobalAlloc for Shelves {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if is_buffer(layout) {
            let taken = self.on_shelf(layout.size(), |shelf| {
                let taken = shelf.first;
                if !taken.is_null() {
                    // SAFETY: a buffer on a free list holds the link to the next in its first word.
                    shelf.first = unsafe { taken.cast::<*mut u8>().read() };
                }
                taken
            });
            if !taken.is_null() {
                return taken;
            }
        }
        // SAFETY: the caller's obligations are the system's.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        if is_buffer(layout) {
            self.on_shelf(layout.size(), |shelf| {
                // SAFETY: the caller releases the buffer, which is larger than a word and aligned for one.
                unsafe { block.cast::<*mut u8>().write(shelf.first) };
                shelf.first = block;
            });
        } else {
            // SAFETY: blocks that are not buffers come from the system.
            unsafe { System.dealloc(block, layout) }
        }
    }
}
