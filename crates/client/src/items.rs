//! Items of a dataset, numbered for counting.

use oboro_dataset::Dataset;
use oboro_mining::Itemset;
use oboro_ring::Column;

/// Items of a dataset by number.
pub(crate) struct NumberedItems {
    pub(crate) names: Vec<String>,
    columns: Vec<Column>,
    pub(crate) supports: Vec<u64>,
}

impl NumberedItems {
    /// Numbers the items in the order of the given columns.
    pub(crate) fn new(dataset: &Dataset, columns: Vec<Column>) -> Self {
        let record = dataset.record();
        let name = |&column: &Column| record.names[column].clone();
        let support = |&column: &Column| record.supports[column];
        Self {
            names: columns.iter().map(name).collect(),
            supports: columns.iter().map(support).collect(),
            columns,
        }
    }

    /// Returns the item of each column.
    pub(crate) fn by_column(&self) -> Vec<u32> {
        let mut items = vec![0; self.columns.len()];
        for (item, &column) in (0..).zip(&self.columns) {
            items[column] = item;
        }
        items
    }

    /// Returns the columns of an itemset, ascending.
    pub(crate) fn columns_of(&self, itemset: &Itemset) -> Vec<Column> {
        let column = |&item: &u32| self.columns[item as usize];
        let mut columns: Vec<Column> = itemset.items().iter().map(column).collect();
        columns.sort_unstable();
        columns
    }
}
