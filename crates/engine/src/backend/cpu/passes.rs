//! Cuts a plan whose factors do not fit into memory together into passes whose factors do.
//!
//! Passes run one after another over equal blocks; a good cut lets neighbours share factors. As in blocked matrix
//! multiplication, most of the memory holds columns that stay over many passes, the *rows*. The last column of an
//! itemset comes from a narrow *strip* that streams by. Memory for two strips is left free: one is being read, and one
//! is for other jobs. With memory for `c` of `n` columns, all pairs take `n / (3c/4)` rows, each read with the strips
//! after it. Strips stream by from the last to the first: the most recent one starts the next row.

use crate::plan::path;
use oboro_ring::Factor;
use oboro_ring::moment::MomentIndex;
use std::collections::BTreeSet;

/// Divisor of the memory that gives the size of a strip.
const STRIP: usize = 12;

/// Cuts moments, given in ascending order, into passes of ascending moments. Each has at most `factors` distinct
/// factors, or as few as one moment has.
pub(crate) fn cut(index: &MomentIndex, moments: Vec<usize>, factors: usize) -> Vec<Vec<usize>> {
    if moments.is_empty() {
        return Vec::new();
    }
    if distinct(index, &moments).len() <= factors {
        return vec![moments];
    }
    let grid = Grid::new(index, &moments, factors);
    let mut sorted = moments;
    sorted.sort_by(|&a, &b| grid.cell(index, a).cmp(grid.cell(index, b)));
    let mut passes: Vec<Vec<usize>> = Vec::new();
    let mut of_pass = BTreeSet::new();
    for cell in sorted.chunk_by(|&a, &b| grid.cell(index, a).eq(grid.cell(index, b))) {
        let of_cell = distinct(index, cell);
        of_pass.extend(&of_cell);
        match passes.last_mut() {
            Some(pass) if of_pass.len() <= grid.most => pass.extend(cell),
            _ => {
                passes.push(cell.to_vec());
                of_pass = of_cell;
            }
        }
    }
    for pass in &mut passes {
        pass.sort_unstable();
    }
    passes
}

fn distinct(index: &MomentIndex, moments: &[usize]) -> BTreeSet<Factor> {
    let paths = moments.iter().map(|&moment| path(index, moment));
    paths.flatten().collect()
}

/// Groups moments by the rows of their columns and the strip of the last.
struct Grid {
    /// Index of each column among those in use.
    positions: Vec<usize>,
    columns: usize,
    level: usize,
    /// Factors of a pass; then columns of a row and of a strip.
    most: usize,
    row: usize,
    strip: usize,
}

impl Grid {
    fn new(index: &MomentIndex, moments: &[usize], factors: usize) -> Self {
        let mut positions = Vec::new();
        let mut columns = 0;
        for factor in distinct(index, moments) {
            if let Factor::Column(column) = factor {
                positions.resize(column.index() + 1, columns);
                columns += 1;
            }
        }
        let level = index.level();
        let strip = (factors / STRIP).max(1);
        let most = factors.saturating_sub(2 * strip).max(level);
        let strip = strip.min(most + 1 - level);
        let mask = 1;
        let rows = level.saturating_sub(1).max(1);
        Self {
            positions,
            columns,
            level,
            most,
            row: (most.saturating_sub(strip + mask) / rows).max(1),
            strip,
        }
    }

    /// Key that moments of one pass share; keys sort as passes do.
    fn cell(&self, index: &MomentIndex, moment: usize) -> impl Iterator<Item = usize> {
        let (_, columns) = index.get(moment);
        let positions = columns.iter().map(|&column| self.positions[column]);
        positions.enumerate().map(|(number, position)| {
            if number + 1 < self.level {
                position / self.row
            } else {
                (self.columns - 1 - position) / self.strip
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use oboro_ring::Column;
    use oboro_ring::moment::Itemsets;
    use proptest::prelude::*;

    fn pairs(columns: u32) -> MomentIndex {
        let columns = Vec::from_iter(Column::first(columns));
        MomentIndex::new(&Itemsets::all_of(&columns, 2).unwrap())
    }

    #[test]
    fn what_fits_is_one_pass() {
        let index = pairs(10);
        let all: Vec<usize> = (0..index.len()).collect();
        assert!(cut(&index, all.clone(), 10).len() > 1);
        assert_eq!(cut(&index, all.clone(), 11), [all]);
        assert!(cut(&index, Vec::new(), 10).is_empty());
    }

    /// Ratio of factors read, given what the previous pass leaves in memory, to distinct ones.
    fn reading(index: &MomentIndex, factors: usize) -> f64 {
        let passes = cut(index, (0..index.len()).collect(), factors);
        let mut before = BTreeSet::new();
        let mut read = 0;
        for pass in &passes {
            let of_pass = distinct(index, pass);
            read += of_pass.difference(&before).count();
            before = of_pass;
        }
        read as f64 / distinct(index, &Vec::from_iter(0..index.len())).len() as f64
    }

    #[test]
    fn pairs_are_read_row_by_row() {
        let index = pairs(240);
        // Rows take three quarters of the memory, each with half of the columns after it on average.
        for (factors, bound) in [(200, 1.7), (120, 2.2), (60, 3.8), (30, 6.9)] {
            let found = reading(&index, factors);
            assert!(found < bound, "{found} with memory for {factors}");
        }
    }

    proptest! {
        #[test]
        fn every_moment_is_in_one_pass_that_fits(
            sets in (1usize..5).prop_flat_map(|level| prop::collection::btree_set(
                prop::collection::btree_set(0u32..30, level), 1..60)),
            capacity in 0usize..20,
            step in 1usize..3,
        ) {
            let level = sets.iter().next().unwrap().len();
            let flat = sets.iter().flatten().copied().map(Column).collect();
            let index = MomentIndex::new(&Itemsets::new(level, flat, 30).unwrap());
            let wanted: Vec<usize> = (0..index.len()).step_by(step).collect();
            let passes = cut(&index, wanted.clone(), capacity);
            for pass in &passes {
                prop_assert!(pass.is_sorted());
                prop_assert!(distinct(&index, pass).len() <= capacity.max(level));
            }
            let mut all = passes.concat();
            all.sort_unstable();
            prop_assert_eq!(all, wanted);
        }
    }
}
