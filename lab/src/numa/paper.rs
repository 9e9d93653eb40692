//! The NUMA paper's measurements (Tables 3-1 to 3-3 and 6-3).

use super::add_array::{Flush, InCases};
use super::placed::Policy;
use serde::Serialize;

/// The machine of the paper.
pub const MACHINE: &str = "4 x Intel Xeon E7-8880 v3, 2.30 GHz, 72 cores, four nodes";

/// A table: how caches were flushed, and its rows.
pub struct Table {
    pub name: &'static str,
    pub flush: Flush,
    pub rows: &'static [Row],
}

/// A row: the input, and the time.
#[derive(Clone, Copy, Serialize)]
pub struct Row {
    /// The elements of each array.
    pub elements: usize,
    #[serde(skip)]
    pub stride: usize,
    /// Thousands of clock cycles.
    pub kilocycles: InCases<u64>,
}

const fn row(elements: usize, stride: usize, [ocr, worst, best]: [u64; 3]) -> Row {
    Row {
        elements,
        stride,
        kilocycles: InCases { ocr, worst, best },
    }
}

/// The arrays of Tables 3-2 and 3-3.
const LARGE: usize = 100_000_000;

pub const TABLES: [Table; 3] = [
    Table {
        name: "3-1",
        flush: Flush::EachStride,
        rows: &[
            row(1_000, 1, [32, 34, 15]),
            row(10_000, 1, [114, 130, 74]),
            row(100_000, 1, [700, 740, 470]),
            row(1_000_000, 1, [6_700, 7_200, 4_600]),
            row(10_000_000, 1, [67_000, 73_000, 48_000]),
            row(LARGE, 1, [665_000, 720_000, 460_000]),
        ],
    },
    Table {
        name: "3-2",
        flush: Flush::EachStride,
        rows: &[
            row(LARGE, 1, [649_000, 698_000, 446_000]),
            row(LARGE, 10, [6_280_000, 7_230_000, 4_390_000]),
            row(LARGE, 100, [14_000_000, 16_400_000, 8_600_000]),
            row(LARGE, 1_000, [14_100_000, 15_400_000, 8_630_000]),
            row(LARGE, 10_000, [15_000_000, 16_100_000, 8_860_000]),
        ],
    },
    Table {
        name: "3-3",
        flush: Flush::EachLoop,
        rows: &[
            row(LARGE, 1, [650_000, 698_000, 446_000]),
            row(LARGE, 10, [6_290_000, 7_000_000, 4_400_000]),
            row(LARGE, 100, [14_000_000, 15_400_000, 8_610_000]),
            row(LARGE, 1_000, [3_350_000, 3_700_000, 2_570_000]),
            row(LARGE, 10_000, [3_330_000, 3_680_000, 2_600_000]),
        ],
    },
];

/// The items and transactions of Table 6-3.
pub const ITEMS: u32 = 18;
pub const TRANSACTIONS: u64 = 1_943_424;

/// The placements of Table 6-3.
pub const PLACEMENTS: [Policy; 3] = [Policy::Item, Policy::Transaction, Policy::Random];

/// The rows of Table 6-3 for one library with its allocator.
#[derive(Clone, Copy)]
pub struct Counting {
    pub library: &'static str,
    /// One for each of [`PLACEMENTS`].
    pub seconds: [f64; 3],
}

/// An unmodified library, with the system's allocator.
pub const ORDINARY: Counting = Counting {
    library: "HElib, glibc malloc",
    seconds: [521.6, 480.2, 601.5],
};

/// The paper's proposal.
pub const PROPOSED: Counting = Counting {
    library: "HElib+, numalloc",
    seconds: [8.109, 7.775, 7.996],
};
