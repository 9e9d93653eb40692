//! The report of how a file was read.

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

/// How a file was read. Contains names of items and columns: for the owner only.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HowRead {
    /// The options given and those detected: the same for the next file of the dataset.
    #[serde(flatten)]
    pub options: ReadOptions,
    /// The options given.
    pub given: ReadOptions,
    /// What holds its rows.
    #[serde(default, skip_serializing_if = "Container::is_text")]
    pub container: Container,
    /// Whether items are whole numbers there, and their names the digits.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub numbers: bool,
    /// The taxonomy, if there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub taxonomy_applied: Option<AppliedTaxonomy>,
    /// How many names in other Unicode forms or with other spaces were merged with the name of the same item.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub merged: usize,
    /// How many items differ from another one only in their compatibility form (NFKC) or in invisible characters.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub alike: usize,
    /// Its compression.
    pub compression: Compression,
    /// Whether it began with a byte order mark.
    pub byte_order_mark: bool,
    /// The number of columns used; 0 in baskets, which have none.
    pub columns_used: usize,
    /// The columns that were not used.
    pub columns_dropped: Vec<String>,
    /// The number of transactions.
    pub transactions: usize,
    /// How many of them are empty.
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

/// An item and the number of transactions that contain it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ItemSupport {
    /// Its name.
    pub item: String,
    /// The number of transactions.
    pub transactions: u64,
}

impl HowRead {
    /// Without row ids: their column is left out, unless it identifies the transaction.
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

    /// The report of a reading. `transactions` have at least one item.
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

    /// The same with the counts of what a dataset has after an erasure.
    #[must_use]
    pub(crate) fn recounted(self, transactions: u64, names: &[String], supports: &[u64]) -> Self {
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

/// The items in the fewest and in the most transactions, the first ones of several.
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

/// The first few names for a message, quoted.
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

/// Two lines of readable text, and one each for a taxonomy and for names that are or look alike.
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

/// The transactions with all that their items belong to, and how they were read.
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
        // Further files of the dataset need it, from wherever they are read.
        let path = std::path::absolute(&path).unwrap_or(path);
        // The record is JSON, which has no other paths.
        options.taxonomy = Some(path.to_string_lossy().into_owned().into());
        given.taxonomy.clone_from(&options.taxonomy);
    }
    let mut how = HowRead::new((options, given), packed, columns, &transactions);
    how.taxonomy_applied = applied;
    how.merged = merged;
    Ok((transactions, how))
}
