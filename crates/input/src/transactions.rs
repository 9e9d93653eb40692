//! Transactions in memory, and minimum supports.
//!
//! Baskets are stored in one list of item numbers (compressed sparse rows). Item numbers are dense, `0..items`, and
//! index the list of names; each basket is strictly ascending. Dropping items never changes the number of
//! transactions.

use crate::spill_vec::{self, SpillVec};
use crate::text::invisible_in;
use oboro_format::wording::{MEMORY, MIN_ITEM_SUPPORT, Value};
use oboro_format::{ErrorClass, MAX_ROW_ID_BYTES};
use std::cmp::Ordering;
use std::collections::HashMap;
use std::fmt;
use std::io;
use std::ops::Range;
use std::path::PathBuf;
use std::str::FromStr;

/// List of transactions over named items.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Transactions {
    names: Vec<String>,
    /// The items, basket after basket.
    items: SpillVec<u32>,
    /// The end of each basket in `items`.
    ends: SpillVec<u64>,
    /// The support from which every item is present.
    min_item_support: u64,
    /// The id of each transaction; empty if they have none.
    row_ids: Vec<String>,
}

impl Transactions {
    /// Creates transactions from item numbers that index `names`. Repeated items in a basket count once; a basket may
    /// be empty.
    ///
    /// # Errors
    /// A name that occurs twice, or an item number without a name.
    pub fn from_baskets<B>(
        names: Vec<String>,
        baskets: impl IntoIterator<Item = B>,
    ) -> Result<Self, TransactionsError>
    where
        B: IntoIterator<Item = u32>,
    {
        let mut builder = TransactionsBuilder::new().with_items(names)?;
        for basket in baskets {
            builder.push(basket)?;
        }
        Ok(builder.finish())
    }

    /// Creates transactions from item names, numbered in [name order](compare_names).
    ///
    /// # Errors
    /// More distinct names than item numbers.
    pub fn from_named<B>(baskets: impl IntoIterator<Item = B>) -> Result<Self, TransactionsError>
    where
        B: IntoIterator,
        B::Item: AsRef<str>,
    {
        let mut builder = TransactionsBuilder::new();
        for basket in baskets {
            let mut numbers = Vec::new();
            for name in basket {
                numbers.push(builder.item(name.as_ref())?);
            }
            builder.push(numbers)?;
        }
        Ok(builder.finish().sorted_by_name())
    }

    /// Sets the row ids, in the order of transactions: the owner's unique names for them, of 1 to 255 bytes and
    /// without invisible characters.
    ///
    /// # Errors
    /// Invalid ids, or a number of ids other than that of the transactions.
    pub fn with_row_ids(mut self, row_ids: Vec<String>) -> Result<Self, TransactionsError> {
        check_row_ids(self.len(), &row_ids)?;
        self.row_ids = row_ids;
        Ok(self)
    }

    /// Returns the row id of each transaction; empty if they have none.
    pub fn row_ids(&self) -> &[String] {
        &self.row_ids
    }

    /// Returns the number of transactions, empty ones included.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Returns true if the list is empty.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the number of items, including those in no transaction.
    pub fn item_count(&self) -> usize {
        self.names.len()
    }

    /// Returns the names of the items; an item's number is its index.
    pub fn names(&self) -> &[String] {
        &self.names
    }

    /// Returns the items of one transaction, strictly ascending, or `None` beyond the end.
    pub fn basket(&self, transaction: usize) -> Option<&[u32]> {
        (transaction < self.len()).then(|| &self.items[self.range(transaction)])
    }

    /// Iterates over the transactions in order, each as strictly ascending item numbers.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &[u32]> + DoubleEndedIterator + Clone + '_ {
        (0..self.len()).map(|transaction| &self.items[self.range(transaction)])
    }

    /// Returns the position of a basket in `items`.
    fn range(&self, transaction: usize) -> Range<usize> {
        let start = transaction.checked_sub(1).map_or(0, |it| self.ends[it]);
        start as usize..self.ends[transaction] as usize
    }

    /// Returns the memory limit of the list of items, in bytes.
    pub(crate) fn memory_of_items(&self) -> usize {
        self.items.limit()
    }

    /// Returns the support from which every item is present: 1, unless the items were [restricted](Self::restrict).
    pub fn min_item_support(&self) -> u64 {
        self.min_item_support
    }

    /// Returns the number of transactions that contain each item.
    pub fn item_supports(&self) -> Vec<u64> {
        let mut supports = vec![0; self.names.len()];
        for &item in &*self.items {
            supports[item as usize] += 1;
        }
        supports
    }

    /// Removes the items below `min_support`.
    ///
    /// Copies the transactions into memory. The remaining items are renumbered in their old order. No transaction is
    /// dropped, not even an empty one: supports do not change, also as fractions.
    pub fn restrict(&self, min_support: MinSupport) -> Transactions {
        let threshold = min_support.threshold(self.len() as u64);
        let mut names = Vec::new();
        let renumbered: Vec<Option<u32>> = self
            .item_supports()
            .iter()
            .zip(&self.names)
            .map(|(&support, name)| {
                (support >= threshold).then(|| {
                    names.push(name.clone());
                    (names.len() - 1) as u32
                })
            })
            .collect();
        let min_item_support = if names.len() == self.names.len() {
            self.min_item_support
        } else {
            threshold.max(self.min_item_support)
        };
        let mut ends = Vec::with_capacity(self.len());
        let mut items = Vec::new();
        for basket in self.iter() {
            items.extend(basket.iter().filter_map(|&item| renumbered[item as usize]));
            ends.push(items.len() as u64);
        }
        Transactions {
            names,
            items: items.into(),
            ends: ends.into(),
            min_item_support,
            row_ids: self.row_ids.clone(),
        }
    }

    /// Renames the items; names must stay distinct.
    pub(crate) fn with_names(self, names: Vec<String>) -> Transactions {
        Transactions { names, ..self }
    }

    /// Replaces the items by those of `names`; `renumbered` has the new number of each old item.
    pub(crate) fn merged(
        self,
        names: Vec<String>,
        renumbered: &[u32],
    ) -> Result<Transactions, TransactionsError> {
        let builder = TransactionsBuilder::with_lists_of(self.memory_of_items());
        let mut builder = builder.with_items(names)?;
        for basket in self.iter() {
            builder.push(basket.iter().map(|&item| renumbered[item as usize]))?;
        }
        Ok(Transactions {
            min_item_support: self.min_item_support,
            row_ids: self.row_ids,
            ..builder.finish()
        })
    }

    /// Numbers the items in [name order](compare_names), which makes numbers independent of the order of
    /// transactions.
    pub fn sorted_by_name(self) -> Transactions {
        self.sorted_by(compare_names)
    }

    /// Numbers the items in the order of their names by `compare`.
    pub fn sorted_by(mut self, compare: impl Fn(&str, &str) -> Ordering) -> Transactions {
        let mut order: Vec<u32> = (0..self.names.len() as u32).collect();
        order.sort_by(|&a, &b| compare(&self.names[a as usize], &self.names[b as usize]));
        let mut renumbered = vec![0u32; order.len()];
        for (new, &old) in order.iter().enumerate() {
            renumbered[old as usize] = new as u32;
        }
        self.names = order
            .iter()
            .map(|&old| std::mem::take(&mut self.names[old as usize]))
            .collect();
        for transaction in 0..self.len() {
            let range = self.range(transaction);
            let basket = &mut self.items[range];
            for item in &mut *basket {
                *item = renumbered[*item as usize];
            }
            basket.sort_unstable();
        }
        self
    }
}

/// Checks that row ids are valid, distinct, and one for each transaction.
pub fn check_row_ids(transactions: usize, row_ids: &[String]) -> Result<(), TransactionsError> {
    if row_ids.len() != transactions {
        return Err(TransactionsError::RowIdCount {
            ids: row_ids.len(),
            transactions,
        });
    }
    let mut seen = HashMap::with_capacity(row_ids.len());
    for (id, row) in row_ids.iter().zip(1..) {
        if id.is_empty() {
            return Err(TransactionsError::RowIdMissing { row });
        }
        if id.len() > MAX_ROW_ID_BYTES as usize {
            let bytes = id.len();
            return Err(TransactionsError::RowIdLength { row, bytes });
        }
        if invisible_in(id).is_some() {
            return Err(TransactionsError::RowIdInvisible { row });
        }
        if let Some(first) = seen.insert(id, row) {
            let id = id.clone();
            return Err(TransactionsError::DuplicateRowId { first, row, id });
        }
    }
    Ok(())
}

/// Compares item names: decimal numbers come first, by value, then other names by their bytes. The order is total;
/// `07` follows `7`.
pub fn compare_names(a: &str, b: &str) -> Ordering {
    fn digits(name: &str) -> Option<&str> {
        let is_number = !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_digit());
        is_number.then(|| name.trim_start_matches('0'))
    }
    match (digits(a), digits(b)) {
        (Some(x), Some(y)) => (x.len(), x, a.len()).cmp(&(y.len(), y, b.len())),
        (Some(_), None) => Ordering::Less,
        (None, Some(_)) => Ordering::Greater,
        (None, None) => a.cmp(b),
    }
}

/// Error of building or encrypting transactions.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TransactionsError {
    /// Failure of the operating system's random generator.
    #[error("the operating system gave no randomness ({0}); nothing was shuffled, try again")]
    Randomness(#[from] getrandom::Error),
    /// Missing file, or missing space, for transactions that exceed the memory.
    #[error(
        "the transactions take more memory than was given, and the file for them in {} cannot be written ({reason}); make room there, set TMPDIR to another directory, or give more memory",
        directory.display()
    )]
    NoFile {
        /// The directory of the file.
        directory: PathBuf,
        /// The operating system's error.
        reason: String,
    },
    /// Memory too small for the bits of one segment.
    #[error(
        "the memory is too little: a quarter of it is for the bits that are encrypted at a time, at least {least} bytes{}; give {} or more, or leave rare items out of a new dataset ({MIN_ITEM_SUPPORT})",
        if *with_row_ids { ", row ids included" } else { "" },
        MEMORY.to(Value::Mebibytes((4 * least).div_ceil(1 << 20))),
    )]
    TooLittleMemory {
        /// The bytes of a segment's bits.
        least: u64,
        /// `true` if row ids are included.
        with_row_ids: bool,
    },
    /// More distinct items than item numbers.
    #[error(
        "there are more than {limit} distinct items; drop rare items, or check that the column read holds items and not identifiers of transactions"
    )]
    TooManyItems {
        /// The largest number of items.
        limit: u32,
    },
    /// More transactions than can be shuffled.
    #[error(
        "there are more than {limit} transactions; encrypt a part of them, and append the others"
    )]
    TooManyTransactions {
        /// The largest number of transactions.
        limit: u32,
    },
    /// The number of row ids differs from the number of transactions.
    #[error("{ids} row ids were given for {transactions} transactions; give one for each")]
    RowIdCount {
        /// The number of ids.
        ids: usize,
        /// The number of transactions.
        transactions: usize,
    },
    /// Row without an id.
    #[error("row {row} has no id; give each row one, or choose another column")]
    RowIdMissing {
        /// The row, from 1.
        row: usize,
    },
    /// Row id that is too long.
    #[error(
        "the id of row {row} has {bytes} bytes, more than {MAX_ROW_ID_BYTES}; shorten it, or choose another column"
    )]
    RowIdLength {
        /// The row, from 1.
        row: usize,
        /// The length of its id in bytes.
        bytes: usize,
    },
    /// Row id with an invisible character.
    #[error(
        "the id of row {row} has a control character or one of no width; remove it, or choose another column"
    )]
    RowIdInvisible {
        /// The row, from 1.
        row: usize,
    },
    /// Two rows with equal ids.
    #[error(
        "rows {first} and {row} both have the id {id:?}; give each row its own, or choose another column"
    )]
    DuplicateRowId {
        /// The first row that has it, from 1.
        first: usize,
        /// The second.
        row: usize,
        /// The id.
        id: String,
    },
    /// Two items with equal names.
    #[error("the item name {name:?} occurs twice; give each item its own name")]
    DuplicateName {
        /// The name.
        name: String,
    },
    /// Item number without a name.
    #[error("item {item} has no name: there are {items} items, numbered from 0")]
    UnknownItem {
        /// The number given.
        item: u32,
        /// The number of items.
        items: usize,
    },
}

impl TransactionsError {
    pub(crate) fn of_file(error: &io::Error) -> Self {
        Self::NoFile {
            directory: spill_vec::directory(),
            reason: error.to_string(),
        }
    }

    /// Returns the class of the error.
    pub fn class(&self) -> ErrorClass {
        match self {
            Self::NoFile { .. } => ErrorClass::Storage,
            Self::Randomness(_) => ErrorClass::Other,
            _ => ErrorClass::Input,
        }
    }
}

/// Builder of [`Transactions`], one basket at a time.
#[derive(Clone, Debug)]
pub struct TransactionsBuilder {
    numbers: HashMap<String, u32>,
    names: Vec<String>,
    items: SpillVec<u32>,
    ends: SpillVec<u64>,
}

impl Default for TransactionsBuilder {
    fn default() -> Self {
        Self::within(None)
    }
}

/// The number of lists that share the memory for transactions: items, the ends of baskets, and entries to sort into
/// baskets, which count twice.
const LISTS: u64 = 4;

impl TransactionsBuilder {
    /// The largest number of items; higher numbers are reserved.
    pub const MAX_ITEMS: u32 = u32::MAX - 1;

    /// Creates a builder without items or transactions.
    pub fn new() -> Self {
        Self::default()
    }

    /// Creates a builder without items or transactions, whose baskets take `memory` bytes of memory; the rest is in
    /// an unnamed file.
    pub fn within(memory: Option<u64>) -> Self {
        let each = memory.map(|it| usize::try_from(it / LISTS));
        Self::with_lists_of(each.and_then(Result::ok).unwrap_or(usize::MAX))
    }

    /// Creates a builder whose items take up to `bytes` of memory, as do the ends of baskets.
    pub(crate) fn with_lists_of(bytes: usize) -> Self {
        Self {
            numbers: HashMap::new(),
            names: Vec::new(),
            items: SpillVec::new(bytes),
            ends: SpillVec::new(bytes),
        }
    }

    /// Creates an empty list of entries to sort into baskets, within the memory of this builder.
    pub(crate) fn list(&self) -> SpillVec<u64> {
        SpillVec::new(self.items.limit().saturating_mul(2))
    }

    /// Adds items known in advance, numbered as listed.
    ///
    /// # Errors
    /// A name that occurs twice.
    pub fn with_items(mut self, names: Vec<String>) -> Result<Self, TransactionsError> {
        let builder = &mut self;
        for name in names {
            if builder.numbers.contains_key(&name) {
                return Err(TransactionsError::DuplicateName { name });
            }
            builder.item(&name)?;
        }
        Ok(self)
    }

    /// Returns the number of the item called `name`, if it exists.
    pub(crate) fn number_of(&self, name: &str) -> Option<u32> {
        self.numbers.get(name).copied()
    }

    /// Returns the number of transactions so far that contain each item.
    pub(crate) fn item_supports(&self) -> Vec<u64> {
        let mut supports = vec![0; self.names.len()];
        for &item in &*self.items {
            supports[item as usize] += 1;
        }
        supports
    }

    /// Returns the number of the item called `name`; a new item gets the next number.
    ///
    /// # Errors
    /// All numbers are used.
    pub fn item(&mut self, name: &str) -> Result<u32, TransactionsError> {
        if let Some(&number) = self.numbers.get(name) {
            return Ok(number);
        }
        let limit = Self::MAX_ITEMS;
        let number = u32::try_from(self.names.len())
            .ok()
            .filter(|&number| number < limit)
            .ok_or(TransactionsError::TooManyItems { limit })?;
        self.names.push(name.to_owned());
        self.numbers.insert(name.to_owned(), number);
        Ok(number)
    }

    /// Appends a transaction of item numbers in any order; repeated ones count once.
    ///
    /// # Errors
    /// A number without a name; no file for transactions that exceed the memory. The transaction is not appended.
    pub fn push(&mut self, basket: impl IntoIterator<Item = u32>) -> Result<(), TransactionsError> {
        let start = self.items.len();
        self.append(start, basket)
            .inspect_err(|_| self.items.truncate(start))
    }

    /// Appends a basket whose items begin at `start`; on failure, some of them remain.
    fn append(
        &mut self,
        start: usize,
        basket: impl IntoIterator<Item = u32>,
    ) -> Result<(), TransactionsError> {
        let extended = self.items.extend(basket);
        extended.map_err(|error| TransactionsError::of_file(&error))?;
        let appended = &mut self.items[start..];
        appended.sort_unstable();
        if let Some(&item) = appended.last()
            && item as usize >= self.names.len()
        {
            let items = self.names.len();
            return Err(TransactionsError::UnknownItem { item, items });
        }
        let mut kept = 0;
        for read in 0..appended.len() {
            if read == 0 || appended[read] != appended[kept - 1] {
                appended[kept] = appended[read];
                kept += 1;
            }
        }
        let end = start + kept;
        self.items.truncate(end);
        let ended = self.ends.push(end as u64);
        ended.map_err(|error| TransactionsError::of_file(&error))
    }

    /// Returns the number of transactions so far.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Returns true if no transaction was appended yet.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the transactions appended.
    pub fn finish(self) -> Transactions {
        Transactions {
            names: self.names,
            items: self.items,
            ends: self.ends,
            min_item_support: 1,
            row_ids: Vec::new(),
        }
    }
}

/// Minimum support: the support from which an itemset is frequent.
///
/// As text, digits alone are a count and anything with a point, an exponent or
/// a percent sign is a fraction: `250` and `1` are counts, `0.3`, `1.0` and
/// `30%` are fractions.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum MinSupport {
    /// A fraction of all transactions, above 0 and at most 1.
    Fraction(f64),
    /// A number of transactions, at least 1.
    Count(u64),
}

impl MinSupport {
    /// Returns the least frequent support among `transactions`: for a fraction `ceil(fraction × transactions)`, and
    /// never below 1.
    ///
    /// The fraction is read as the shortest decimal that denotes it, and the product is exact: `0.3` of 1,000 is 300,
    /// although the binary number nearest to 0.3 is not 3/10.
    ///
    /// Values that [`from_str`](Self::from_str) rejects are harmless here: NaN gives a threshold above any support,
    /// and a fraction that is not positive gives 1.
    pub fn threshold(&self, transactions: u64) -> u64 {
        match *self {
            MinSupport::Count(count) => count.max(1),
            MinSupport::Fraction(fraction) if fraction.is_nan() => u64::MAX,
            MinSupport::Fraction(fraction) if fraction <= 0.0 => 1,
            MinSupport::Fraction(fraction) if fraction > 1.0 => transactions.saturating_add(1),
            MinSupport::Fraction(fraction) => ceil_of_product(fraction, transactions).max(1),
        }
    }

    /// Checks that this minimum support is in range.
    ///
    /// # Errors
    /// A count of 0, or a fraction that is not above 0 and at most 1.
    pub fn validated(self) -> Result<Self, MinSupportError> {
        match self {
            MinSupport::Count(0) => Err(MinSupportError::ZeroCount),
            MinSupport::Fraction(fraction) if !(fraction > 0.0 && fraction <= 1.0) => {
                let text = self.to_string();
                Err(MinSupportError::FractionOutOfRange { text })
            }
            valid => Ok(valid),
        }
    }
}

/// Returns `ceil(fraction × count)` for `0 < fraction ≤ 1`, with the fraction read as its shortest decimal.
fn ceil_of_product(fraction: f64, count: u64) -> u64 {
    // Rust prints the shortest digits that denote the number, never an exponent.
    let text = fraction.to_string();
    let (whole, decimals) = text.split_once('.').unwrap_or((&text, ""));
    // At most 17 digits are significant, so this stays below 10^18 …
    let numerator = whole
        .bytes()
        .chain(decimals.bytes())
        .fold(0u128, |value, digit| value * 10 + u128::from(digit - b'0'));
    // … and the product below 10^38. A power of ten beyond that leaves at most 1.
    match 10u128.checked_pow(decimals.len() as u32) {
        Some(power) => (numerator * u128::from(count)).div_ceil(power) as u64,
        None => u64::from(count > 0),
    }
}

impl fmt::Display for MinSupport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            // Prints a decimal point: the text must read back as a fraction.
            MinSupport::Fraction(fraction) => write!(f, "{fraction:?}"),
            MinSupport::Count(count) => write!(f, "{count}"),
        }
    }
}

/// Error of parsing a minimum support.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MinSupportError {
    /// Text that is neither a count nor a fraction.
    #[error(
        "{text:?} is not a minimum support; give a fraction such as 0.3 or 30%, or a number of transactions such as 250"
    )]
    NotANumber {
        /// The text given.
        text: String,
    },
    /// Fraction that is not above 0 and at most 1.
    #[error(
        "the minimum support {text:?} is not above 0 and at most 1 (100%); give a fraction such as 0.3 or 30%, or a number of transactions without a point such as 250"
    )]
    FractionOutOfRange {
        /// The text given.
        text: String,
    },
    /// Count of 0.
    #[error(
        "a minimum support of 0 transactions would make every conceivable itemset frequent; give 1 to see all that occur"
    )]
    ZeroCount,
    /// Count that does not fit 64 bits.
    #[error(
        "the minimum support {text} is larger than any number of transactions; give a smaller count, or a fraction such as 0.3"
    )]
    CountTooLarge {
        /// The text given.
        text: String,
    },
}

impl FromStr for MinSupport {
    type Err = MinSupportError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let text = text.trim();
        let not_a_number = || MinSupportError::NotANumber {
            text: text.to_owned(),
        };
        let out_of_range = |_| MinSupportError::FractionOutOfRange {
            text: text.to_owned(),
        };
        let begins_like_a_number = |text: &str| {
            text.starts_with(|c: char| c.is_ascii_digit() || matches!(c, '.' | '-' | '+'))
        };
        if let Some(percentage) = text.strip_suffix('%').map(str::trim_end) {
            if !begins_like_a_number(percentage) || percentage.contains(['e', 'E']) {
                return Err(not_a_number());
            }
            // Shifts the exponent in the text: 0.1% must be the number nearest to 1/1000.
            let fraction = format!("{percentage}e-2")
                .parse()
                .map_err(|_| not_a_number())?;
            return MinSupport::Fraction(fraction)
                .validated()
                .map_err(out_of_range);
        }
        if !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()) {
            let count = text.parse().map_err(|_| MinSupportError::CountTooLarge {
                text: text.to_owned(),
            })?;
            return MinSupport::Count(count).validated();
        }
        if text.eq_ignore_ascii_case("nan") || !begins_like_a_number(text) {
            return Err(not_a_number());
        }
        let fraction = text.parse().map_err(|_| not_a_number())?;
        MinSupport::Fraction(fraction)
            .validated()
            .map_err(out_of_range)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn sample() -> Transactions {
        Transactions::from_named([vec!["b", "a", "b"], vec![], vec!["10", "a"], vec!["9"]]).unwrap()
    }

    #[test]
    fn baskets_are_sorted_and_items_numbered_by_name() {
        let sample = sample();
        assert_eq!(sample.names(), ["9", "10", "a", "b"]);
        let baskets: Vec<&[u32]> = sample.iter().collect();
        assert_eq!(baskets, [&[2, 3][..], &[], &[1, 2], &[0]]);
        assert_eq!(sample.item_supports(), [1, 1, 2, 1]);
        assert_eq!(sample.basket(3), Some(&[0][..]));
        assert_eq!(sample.basket(4), None);
    }

    #[test]
    fn restricting_keeps_the_number_of_transactions() {
        let restricted = sample().restrict(MinSupport::Count(2));
        assert_eq!(restricted.names(), ["a"]);
        assert_eq!(restricted.len(), 4);
        let baskets: Vec<&[u32]> = restricted.iter().collect();
        assert_eq!(baskets, [&[0][..], &[], &[0], &[]]);
        assert_eq!(sample().restrict(MinSupport::Fraction(0.5)), restricted);
    }

    #[test]
    fn unknown_items_and_repeated_names_are_refused() {
        let mut builder = TransactionsBuilder::new()
            .with_items(vec!["x".into()])
            .unwrap();
        let unknown = TransactionsError::UnknownItem { item: 1, items: 1 };
        assert_eq!(builder.push([0, 1]), Err(unknown));
        builder.push([0]).unwrap();
        assert_eq!(builder.finish().iter().collect::<Vec<_>>(), [&[0][..]]);
        assert!(
            TransactionsBuilder::new()
                .with_items(vec!["x".into(), "x".into()])
                .is_err()
        );
    }

    #[test]
    fn minimum_support_is_read_as_written() {
        let parse = |text: &str| text.parse::<MinSupport>();
        assert_eq!(parse("0.3"), Ok(MinSupport::Fraction(0.3)));
        assert_eq!(parse("30%"), Ok(MinSupport::Fraction(0.3)));
        assert_eq!(parse("0.1 %"), Ok(MinSupport::Fraction(0.001)));
        assert_eq!(parse("1e-3"), Ok(MinSupport::Fraction(0.001)));
        assert_eq!(parse("100%"), Ok(MinSupport::Fraction(1.0)));
        assert_eq!(parse("1.0"), Ok(MinSupport::Fraction(1.0)));
        assert_eq!(parse("1"), Ok(MinSupport::Count(1)));
        assert_eq!(parse(" 250 "), Ok(MinSupport::Count(250)));
        assert_eq!(parse("0"), Err(MinSupportError::ZeroCount));
        for text in ["0.0", "0%", "-0.1", "-5", "1.5", "101%", "30.0", "1e400"] {
            let error = parse(text).unwrap_err();
            let in_range =
                matches!(&error, MinSupportError::FractionOutOfRange { text: t } if t == text);
            assert!(in_range, "{text}: {error}");
        }
        for text in [
            "", "%", "NaN", "nan%", "inf", "-", "a lot", "0.3.1", "0,3", "1e1%",
        ] {
            let error = parse(text).unwrap_err();
            assert!(
                matches!(error, MinSupportError::NotANumber { .. }),
                "{text}: {error}"
            );
        }
        let too_large = parse("99999999999999999999").unwrap_err();
        assert!(matches!(too_large, MinSupportError::CountTooLarge { .. }));
    }

    #[test]
    fn a_refused_minimum_support_sends_nothing_to_the_terminal() {
        for text in ["0\r%", "0\u{b}%", "\u{1b}[2J"] {
            let error = text.parse::<MinSupport>().unwrap_err().to_string();
            assert!(!error.contains(char::is_control), "{error:?}");
        }
    }

    #[test]
    fn thresholds_are_free_of_binary_noise() {
        let threshold = |text: &str, n| text.parse::<MinSupport>().unwrap().threshold(n);
        assert_eq!(threshold("0.3", 1000), 300);
        assert_eq!(threshold("0.07", 100), 7);
        assert_eq!(threshold("0.1", 3), 1);
        assert_eq!(threshold("30%", 8124), 2438);
        assert_eq!(threshold("1%", 88162), 882);
        assert_eq!(threshold("0.000001", 10), 1);
        assert_eq!(threshold("1e-300", u64::MAX), 1);
        assert_eq!(threshold("100%", u64::MAX), u64::MAX);
        assert_eq!(threshold("0.5", 0), 1);
        assert_eq!(MinSupport::Fraction(f64::NAN).threshold(5), u64::MAX);
        assert_eq!(MinSupport::Fraction(2.0).threshold(5), 6);
        assert_eq!(MinSupport::Fraction(f64::INFINITY).threshold(5), 6);
        assert_eq!(MinSupport::Fraction(-1.0).threshold(5), 1);
        assert_eq!(MinSupport::Count(0).threshold(5), 1);
    }

    proptest! {
        #[test]
        fn thresholds_of_thousandths_are_exact(thousandths in 1u64..=1000, n in 0u64..1 << 50) {
            let fraction = MinSupport::Fraction(thousandths as f64 / 1000.0);
            let exact = (u128::from(thousandths) * u128::from(n)).div_ceil(1000) as u64;
            prop_assert_eq!(fraction.threshold(n), exact.max(1));
        }

        #[test]
        fn thresholds_of_any_fraction_are_near(fraction in 0.0f64..=1.0, n in 0u64..1 << 40) {
            let near = fraction * n as f64;
            let threshold = MinSupport::Fraction(fraction).threshold(n) as f64;
            prop_assert!(threshold >= near.floor() && threshold <= near.ceil() + 1.0);
        }

        #[test]
        fn minimum_support_reads_back_as_printed(fraction in 1e-12f64..=1.0, count in 1u64..) {
            for value in [MinSupport::Fraction(fraction), MinSupport::Count(count)] {
                prop_assert_eq!(value.to_string().parse(), Ok(value));
            }
        }

        #[test]
        fn no_text_makes_parsing_panic(text in ".{0,12}") {
            let _ = text.parse::<MinSupport>();
        }

        #[test]
        fn name_order_is_total(mut names in proptest::collection::vec("[0-2a]{0,3}", 0..12)) {
            names.sort_by(|a, b| compare_names(a, b));
            for pair in names.windows(2) {
                prop_assert_ne!(compare_names(&pair[0], &pair[1]), Ordering::Greater);
                prop_assert_eq!(compare_names(&pair[0], &pair[1]) == Ordering::Equal, pair[0] == pair[1]);
            }
        }
    }
}
