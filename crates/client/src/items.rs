//! The items of a dataset, numbered for counting.

use oboro_mining::{Dataset, Itemset};

/// The items of a dataset by number.
pub(crate) struct Numbered {
    pub(crate) names: Vec<String>,
    columns: Vec<u32>,
    pub(crate) supports: Vec<u64>,
}

impl Numbered {
    /// Numbers the items in the order of the given columns.
    pub(crate) fn new(dataset: &Dataset, columns: Vec<u32>) -> Self {
        let record = dataset.record();
        let name = |&column: &u32| record.names[column as usize].clone();
        let support = |&column: &u32| record.supports[column as usize];
        Self {
            names: columns.iter().map(name).collect(),
            supports: columns.iter().map(support).collect(),
            columns,
        }
    }

    /// The item of each column.
    pub(crate) fn by_column(&self) -> Vec<u32> {
        let mut items = vec![0; self.columns.len()];
        for (item, &column) in (0..).zip(&self.columns) {
            items[column as usize] = item;
        }
        items
    }

    /// The columns of an itemset, ascending.
    pub(crate) fn columns_of(&self, itemset: &Itemset) -> Vec<u32> {
        let column = |&item: &u32| self.columns[item as usize];
        let mut columns: Vec<u32> = itemset.items().iter().map(column).collect();
        columns.sort_unstable();
        columns
    }
}
