//! Report of how a file was read.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::compression::Compression;
use super::csv::Table;
use super::error::ReadError;
use super::names;
use super::options::ReadOptions;
use super::taxonomy::{AppliedTaxonomy, Taxonomy};
use super::values::{Container, ItemSeparator};
use crate::transactions::Transactions;
use oboro_format::wording::UNICODE;

/// Report of how a file was read. Contains names of items and columns: for the owner only.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HowRead {
    /// The options given and those detected, which also apply to the next file of the dataset.
    #[serde(flatten)]
    pub options: ReadOptions,
    /// The options given.
    pub given: ReadOptions,
    /// The container of the rows.
    #[serde(default, skip_serializing_if = "Container::is_text")]
    pub container: Container,
    /// `true` if items are whole numbers there, and their names the digits.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub numbers: bool,
    /// The taxonomy, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub taxonomy_applied: Option<AppliedTaxonomy>,
    /// The number of names in other Unicode forms or with other spaces that were merged with the name of an equal
    /// item.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub merged: usize,
    /// The number of items that differ from another one only in their compatibility form (NFKC) or in invisible
    /// characters.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub alike: usize,
    /// The compression.
    pub compression: Compression,
    /// `true` if it began with a byte order mark.
    pub byte_order_mark: bool,
    /// The number of columns used; 0 in baskets, which have none.
    pub columns_used: usize,
    /// The unused columns.
    pub columns_dropped: Vec<String>,
    /// The number of transactions.
    pub transactions: usize,
    /// The number of empty transactions.
    pub empty_transactions: usize,
    /// The number of items.
    pub items: usize,
    /// The item in the fewest transactions, the first of several.
    pub sparsest: ItemSupport,
    /// The item in the most transactions, the first of several.
    pub densest: ItemSupport,
}

fn is_zero(number: &usize) -> bool {
    *number == 0
}

/// Item and the number of transactions that contain it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ItemSupport {
    /// The name.
    pub item: String,
    /// The number of transactions.
    pub transactions: u64,
}

impl HowRead {
    /// Removes the row ids: their column is dropped, unless it identifies the transaction.
    #[must_use]
    pub fn without_row_ids(mut self) -> Self {
        let named = self.options.transaction_columns.clone();
        for options in [&mut self.options, &mut self.given] {
            let Some(column) = options.row_ids.take() else {
                continue;
            };
            let columns = if named.contains(&column) {
                &mut options.transaction_columns
            } else {
                &mut options.drop_columns
            };
            if !columns.contains(&column) {
                columns.push(column);
            }
        }
        self
    }

    /// Creates the report of a reading. `transactions` have at least one item.
    fn new(
        (options, given): (ReadOptions, ReadOptions),
        (compression, byte_order_mark): (Compression, bool),
        (columns_used, columns_dropped): (usize, Vec<String>),
        transactions: &Transactions,
    ) -> Self {
        let supports = transactions.item_supports();
        let (sparsest, densest) = extremes(transactions.names(), &supports);
        let alike = names::alike(transactions.names(), options.unicode());
        Self {
            options,
            given,
            container: Container::Text,
            numbers: false,
            taxonomy_applied: None,
            merged: 0,
            alike,
            compression,
            byte_order_mark,
            columns_used,
            columns_dropped,
            transactions: transactions.len(),
            empty_transactions: transactions.iter().filter(|it| it.is_empty()).count(),
            items: transactions.item_count(),
            sparsest,
            densest,
        }
    }

    /// Replaces the counts by those of a dataset after an erasure.
    #[must_use]
    pub fn recounted(self, transactions: u64, names: &[String], supports: &[u64]) -> Self {
        let (sparsest, densest) = extremes(names, supports);
        let transactions = usize::try_from(transactions).unwrap_or(usize::MAX);
        Self {
            transactions,
            empty_transactions: self.empty_transactions.min(transactions),
            sparsest,
            densest,
            ..self
        }
    }
}

/// Returns the items in the fewest and in the most transactions, the first ones of several.
fn extremes(names: &[String], supports: &[u64]) -> (ItemSupport, ItemSupport) {
    let item = |place: usize| ItemSupport {
        item: names[place].clone(),
        transactions: supports[place],
    };
    let places = || 0..supports.len();
    (
        item(places().min_by_key(|&it| supports[it]).unwrap_or(0)),
        item(places().rev().max_by_key(|&it| supports[it]).unwrap_or(0)),
    )
}

/// Quotes the first few names for a message.
fn few(names: &[String]) -> String {
    const SHOWN: usize = 5;
    let shown: Vec<String> = names
        .iter()
        .take(SHOWN)
        .map(|it| format!("{it:?}"))
        .collect();
    match names.len() {
        0..=SHOWN => shown.join(", "),
        more => format!("{} and {} more", shown.join(", "), more - SHOWN),
    }
}

/// Two lines of readable text, and one more each for a taxonomy and for names that are or look alike.
impl fmt::Display for HowRead {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let options = &self.options;
        match self.container {
            Container::Text => write!(f, "{}", options.format)?,
            container => write!(f, "{container} ({})", options.format)?,
        }
        if let (Some(separator), Some(header), Some(encoding)) =
            (options.separator, options.header, options.encoding)
        {
            let header = if header { "with" } else { "without" };
            let mark = if self.byte_order_mark {
                " with a byte order mark"
            } else {
                ""
            };
            write!(
                f,
                ", separator {separator}, {header} a header, {encoding}{mark}"
            )?;
        }
        if let Some(item) = &options.item_column {
            let transaction = few(&options.transaction_columns);
            write!(f, ", transactions by {transaction}, items by {item:?}")?;
        }
        if self.columns_used > 0 {
            write!(f, ", {} columns used", self.columns_used)?;
        }
        if let Some(column) = &options.row_ids {
            write!(f, ", row ids from {column:?}")?;
        }
        for bin in &options.bins {
            write!(f, ", ranges {bin}")?;
        }
        if let Some(ItemSeparator::Mark(mark)) = options.item_separator {
            write!(f, ", items of a cell separated by {mark}")?;
        }
        if let Some(unicode) = options.unicode {
            write!(f, ", names in the form {unicode}")?;
        }
        for (skipped, rows) in [
            (options.skip_first, "lines above the data"),
            (options.skip_last, "rows below the data"),
        ] {
            if let Some(skipped @ 1..) = skipped {
                write!(f, ", {skipped} {rows} left out")?;
            }
        }
        if !self.columns_dropped.is_empty() {
            let dropped = &self.columns_dropped;
            write!(f, ", {} not used: {}", dropped.len(), few(dropped))?;
        }
        let Self {
            sparsest, densest, ..
        } = self;
        write!(
            f,
            "\n  {} transactions, {} of them empty; {} items, from {:?} in {} transactions to {:?} in {}",
            self.transactions,
            self.empty_transactions,
            self.items,
            sparsest.item,
            sparsest.transactions,
            densest.item,
            densest.transactions
        )?;
        if self.merged > 0 {
            write!(
                f,
                "\n  {} names in other Unicode forms or with other spaces are of the same items as others",
                self.merged
            )?;
        }
        if self.alike > 0 {
            write!(
                f,
                "\n  {} items differ from others only in a way that `{}` removes",
                self.alike,
                UNICODE.to("nfkc")
            )?;
        }
        if let (Some(path), Some(applied)) = (&options.taxonomy, &self.taxonomy_applied) {
            write!(
                f,
                "\n  {} of {} items belong to others by {:?}, which added {}",
                applied.items,
                self.items - applied.added,
                path.display(),
                applied.added
            )?;
        }
        Ok(())
    }
}

/// Adds the ancestors of items to the transactions, and reports how they were read.
pub(super) fn finished(
    file: &str,
    table: Table,
    (mut options, mut given): (ReadOptions, ReadOptions),
    packed: (Compression, bool),
) -> Result<(Transactions, HowRead), ReadError> {
    let file = file.to_owned();
    let Table {
        mut transactions,
        columns,
        merged,
    } = table;
    if transactions.is_empty() {
        return Err(ReadError::NoTransactions { file });
    }
    if transactions.item_count() == 0 {
        return Err(ReadError::NoItems { file });
    }
    let mut applied = None;
    if let Some(path) = options.taxonomy.take() {
        let (whole, how) =
            Taxonomy::read(&path, options.unicode())?.apply(transactions, given.is_further)?;
        transactions = if options.format.is_table() {
            whole
        } else {
            whole.sorted_by_name()
        };
        applied = Some(how);
        // Further files of the dataset need it, whatever the working directory.
        let path = std::path::absolute(&path).unwrap_or(path);
        // The record is JSON, which cannot hold other paths.
        options.taxonomy = Some(path.to_string_lossy().into_owned().into());
        given.taxonomy.clone_from(&options.taxonomy);
    }
    let mut how = HowRead::new((options, given), packed, columns, &transactions);
    how.taxonomy_applied = applied;
    how.merged = merged;
    Ok((transactions, how))
}
