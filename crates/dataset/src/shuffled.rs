//! Transactions ready to encrypt: as bit columns, in a random order that is not recorded.
//!
//! Columns are kept as one bit per item and transaction. Baskets are kept as such until encryption makes their bits
//! part by part, and a part takes no more than a given memory. Columns are added in groups of eight: a row's bits in
//! a group are one byte, and permuting bytes costs an eighth of permuting bits.

use oboro_format::{BLOCKS_PER_SEGMENT, Digest, Manifest};
use oboro_input::readers::HowRead;
use oboro_input::transactions::{MinSupport, Transactions, TransactionsError, check_row_ids};
use oboro_ring::{Column, MAX_LOG_DEGREE, sample, threads};
use oboro_rlwe::{DatasetKey, RowHash, SecretGeneration};
use std::collections::HashSet;
use std::fmt;
use std::num::NonZeroUsize;
use std::ops::Range;
use zeroize::Zeroizing;

/// Default number of columns, by support, all of whose pairs have fixed parts, and whose longer itemsets a server counts
/// verifiably. Each pair takes 8 bytes per range.
pub const PAIR_COLUMNS: usize = 1024;

/// The number of columns permuted together: one bit of a byte each.
const GROUP: usize = 8;
/// The number of rows whose bytes are gathered before the next column: they stay in the L1 cache.
const TILE: usize = 4096;

/// The number of rows of a part between checks for cancellation.
const ROWS_BETWEEN_CHECKS: usize = 1 << 16;

/// Bits of one item, 64 slots per word, least significant first, zero after the last transaction.
pub(crate) type Bits = Zeroizing<Vec<u64>>;

/// The default memory for the bits of a part, in bytes.
const PART_BYTES: u64 = 1 << 30;

/// Transactions in random order. Encryption consumes them: no two datasets have the same order.
pub struct Shuffled {
    transactions: usize,
    names: Vec<String>,
    numbers: bool,
    read: Option<HowRead>,
    held: Representation,
    /// The support from which every item is present.
    min_item_support: u64,
    focus: Vec<String>,
    pair_columns: usize,
    /// `true` if an append of these rows absorbs the youngest strata; `None` if the dataset's record decides.
    absorbs: Option<bool>,
    /// The total memory limit, in bytes.
    memory: Option<u64>,
}

/// Representation of transactions before encryption.
enum Representation {
    /// Columns in random order.
    Columns {
        /// The bits of each item: at least as many words as the transactions fill in any ring.
        columns: Vec<Bits>,
        row_ids: Option<PackedRowIds>,
    },
    /// Baskets in the order in which they were read.
    Baskets {
        baskets: Transactions,
        /// The index of each item of the baskets in `names`; `None` if the item is left out.
        places: Vec<Option<u32>>,
    },
}

/// Consecutive slots whose transactions are encrypted together.
pub(crate) struct Part<'a> {
    pub(crate) rows: usize,
    columns: &'a [Bits],
    row_ids: Option<&'a PackedRowIds>,
}

impl Part<'_> {
    /// Returns the bits of each item: at least as many words as `rows` fill in any ring.
    #[cfg(test)]
    fn columns(&self) -> &[Bits] {
        self.columns
    }

    /// Calls `use_bits` with the bits of the first `slots` slots for each column of a dataset that has cells. Item
    /// `i` has the column `columns[i]`.
    pub(crate) fn with_bits<T>(
        &self,
        manifest: &Manifest,
        columns: &[Column],
        slots: usize,
        use_bits: impl FnOnce(&[&[u64]]) -> T,
    ) -> T {
        let words = slots / 64;
        // Items that occur only in older segments have no column here.
        let absent = vec![0; words];
        let mut bits = vec![&absent[..]; manifest.columns as usize];
        let id_bits = 0..8 * manifest.row_id_bytes as usize;
        let id_bits: Vec<_> = id_bits.map(|bit| self.row_id_bits(bit, slots)).collect();
        for (&column, item) in columns.iter().zip(self.columns) {
            bits[column] = &item[..words];
        }
        bits.extend(id_bits.iter().map(|it| &it[..]));
        use_bits(&bits)
    }

    /// Returns bit `bit` of the row ids of the first `slots` slots, counted from the least significant bit of the
    /// first byte: 64 slots per word, least significant first. Zero after the end of an id and of the rows.
    pub(crate) fn row_id_bits(&self, bit: usize, slots: usize) -> Zeroizing<Vec<u64>> {
        let mut words = Zeroizing::new(vec![0; slots / 64]);
        if let Some(PackedRowIds { width, bytes }) = self.row_ids
            && bit / 8 < *width
        {
            for (slot, id) in bytes.chunks_exact(*width).enumerate() {
                words[slot / 64] |= u64::from(id[bit / 8] >> (bit % 8) & 1) << (slot % 64);
            }
        }
        words
    }
}

/// Row ids, in the random order of the transactions: UTF-8, padded with zeros.
struct PackedRowIds {
    /// The width of each id in bytes: that of the longest.
    width: usize,
    bytes: Zeroizing<Vec<u8>>,
}

impl PackedRowIds {
    fn set(&mut self, slot: usize, id: &str) {
        let place = &mut self.bytes[slot * self.width..][..id.len()];
        place.copy_from_slice(id.as_bytes());
    }

    /// Packs the ids of the rows in `order`; `None` without ids.
    fn of(ids: &[String], order: &[u32]) -> Option<Self> {
        let width = ids.iter().map(String::len).max()?;
        let mut bytes = Zeroizing::new(vec![0; width * order.len()]);
        for (place, &row) in bytes.chunks_exact_mut(width).zip(order) {
            let id = &ids[row as usize];
            place[..id.len()].copy_from_slice(id.as_bytes());
        }
        Some(Self { width, bytes })
    }
}

/// Omits names and bits, which must not reach a log through `{:?}`.
impl fmt::Debug for Shuffled {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (items, transactions) = (self.names.len(), self.transactions);
        write!(f, "Shuffled({items} items, {transactions} transactions)")
    }
}

impl Shuffled {
    /// Takes transactions to permute randomly. Items keep their order.
    pub fn of(transactions: Transactions) -> Self {
        Self {
            transactions: transactions.len(),
            names: transactions.names().to_vec(),
            numbers: false,
            read: None,
            min_item_support: transactions.min_item_support(),
            held: Representation::Baskets {
                places: (0..transactions.item_count() as u32).map(Some).collect(),
                baskets: transactions,
            },
            focus: Vec::new(),
            pair_columns: PAIR_COLUMNS,
            absorbs: None,
            memory: None,
        }
    }

    /// Limits the total memory, in bytes, of which a quarter is for the bits of a part; `None` for no limit.
    #[must_use]
    pub fn within(self, memory: Option<u64>) -> Self {
        Self { memory, ..self }
    }

    /// Marks the names of the items as numbers.
    #[must_use]
    pub fn with_numbers(self) -> Self {
        Self {
            numbers: true,
            ..self
        }
    }

    /// Records how the transactions' file was read, including if its items are numbers.
    #[must_use]
    pub fn with_how_read(self, how: HowRead) -> Self {
        Self {
            numbers: self.numbers || how.numbers,
            read: Some(how),
            ..self
        }
    }

    /// Sets the focus: items whose pairs with all other items will be counted.
    #[must_use]
    pub fn with_focus(self, mut focus: Vec<String>) -> Self {
        focus.sort_unstable();
        focus.dedup();
        Self { focus, ..self }
    }

    /// Sets how many columns, by support, have fixed parts for all their pairs.
    #[must_use]
    pub fn with_pair_columns(self, pair_columns: usize) -> Self {
        Self {
            pair_columns,
            ..self
        }
    }

    pub(crate) fn pair_columns(&self) -> usize {
        self.pair_columns
    }

    /// Sets if an append of these rows, and later ones, absorb the youngest strata; with `None` the dataset's record
    /// decides.
    #[must_use]
    pub fn absorbing(self, absorbs: Option<bool>) -> Self {
        Self { absorbs, ..self }
    }

    pub(crate) fn absorbs(&self) -> Option<bool> {
        self.absorbs
    }

    /// Returns the names of the focus items, each once.
    pub(crate) fn focus(&self) -> &[String] {
        &self.focus
    }

    /// Returns the report of how the transactions' file was read.
    pub fn how_read(&self) -> Option<&HowRead> {
        self.read.as_ref()
    }

    /// Begins with `transactions` transactions and no items. Columns are permuted on up to `threads` threads, each of
    /// which temporarily needs one byte per transaction.
    ///
    /// # Errors
    /// More transactions than can be shuffled; no randomness is available.
    pub fn begin(
        transactions: usize,
        threads: NonZeroUsize,
    ) -> Result<Shuffler, TransactionsError> {
        Ok(Shuffler {
            order: random_order(transactions)?,
            threads,
            names: Vec::new(),
            columns: Vec::new(),
            row_ids: None,
        })
    }

    /// Returns the number of transactions, empty ones included.
    pub fn len(&self) -> usize {
        self.transactions
    }

    /// Returns true if it has no transactions.
    pub fn is_empty(&self) -> bool {
        self.transactions == 0
    }

    /// Returns the names of the items, in the order of the columns.
    pub fn names(&self) -> &[String] {
        &self.names
    }

    /// Returns true if the owner's items are numbers, with their decimal digits as names.
    pub fn are_numbers(&self) -> bool {
        self.numbers
    }

    /// Returns the bytes of the longest row id; `None` without row ids.
    pub fn longest_row_id(&self) -> Option<usize> {
        match &self.held {
            Representation::Columns { row_ids, .. } => row_ids.as_ref().map(|it| it.width),
            Representation::Baskets { baskets, .. } => {
                baskets.row_ids().iter().map(String::len).max()
            }
        }
    }

    /// Returns the number of transactions that contain each item.
    pub fn supports(&self) -> Vec<u64> {
        match &self.held {
            Representation::Columns { columns, .. } => {
                columns.iter().map(|it| count_ones(it)).collect()
            }
            Representation::Baskets { baskets, places } => {
                let supports = baskets.item_supports().into_iter().zip(places);
                let kept = supports.filter(|(_, place)| place.is_some());
                kept.map(|(support, _)| support).collect()
            }
        }
    }

    /// Derives a generation of secrets for these rows, in a new dataset or after the version with root `parent`.
    ///
    /// # Errors
    /// No randomness is available.
    pub(crate) fn fresh_secrets(
        &self,
        key: &DatasetKey,
        parent: Option<Digest>,
    ) -> Result<SecretGeneration, getrandom::Error> {
        let mut hash = RowHash::default();
        self.names.iter().for_each(|it| hash.add(it.as_bytes()));
        match &self.held {
            Representation::Columns { columns, row_ids } => {
                columns.iter().for_each(|it| hash.add_words(it));
                row_ids.iter().for_each(|it| hash.add(&it.bytes));
            }
            Representation::Baskets { baskets, places } => {
                for basket in baskets.iter() {
                    let kept = basket.iter().filter_map(|&it| places[it as usize]);
                    let kept: Zeroizing<Vec<u8>> =
                        Zeroizing::new(kept.flat_map(u32::to_le_bytes).collect());
                    hash.add(&kept);
                }
                let ids = baskets.row_ids().iter();
                ids.for_each(|it| hash.add(it.as_bytes()));
            }
        }
        key.fresh_secrets(&parent.map_or([0; 32], |it| it.0), hash)
    }

    /// Returns the support from which every item is present: 1, unless the items were [restricted](Self::restrict).
    pub fn min_item_support(&self) -> u64 {
        self.min_item_support
    }

    /// Removes the items for which `kept` returns false.
    pub(crate) fn only(mut self, kept: impl Fn(&str) -> bool) -> Self {
        let stay: Vec<bool> = self.names.iter().map(|name| kept(name)).collect();
        self.keep(&stay);
        self
    }

    /// Removes the items below `min_support`. No transaction is dropped.
    #[must_use]
    pub fn restrict(mut self, min_support: MinSupport) -> Self {
        let threshold = min_support.threshold(self.transactions as u64);
        let supports = self.supports();
        let stay: Vec<bool> = supports
            .iter()
            .map(|&support| support >= threshold)
            .collect();
        self.keep(&stay);
        if self.names.len() < stay.len() {
            self.min_item_support = self.min_item_support.max(threshold);
        }
        self
    }

    /// Keeps the items whose entries in `stay` are true.
    fn keep(&mut self, stay: &[bool]) {
        let mut it = stay.iter();
        self.names.retain(|_| it.next() == Some(&true));
        match &mut self.held {
            Representation::Columns { columns, .. } => {
                let mut it = stay.iter();
                columns.retain(|_| it.next() == Some(&true));
            }
            Representation::Baskets { places, .. } => {
                let mut next = 0..;
                for place in places {
                    let stays = place.is_some_and(|it| stay[it as usize]);
                    *place = if stays { next.next() } else { None };
                }
            }
        }
    }

    /// Returns the bits that a transaction takes while its part is encrypted: its items, its place in the order, and
    /// its row id twice, as bytes and by bit.
    fn row_bits(&self) -> u64 {
        let row_id = self.longest_row_id().unwrap_or(0);
        (self.names.len() + 32 + 2 * 8 * row_id) as u64
    }

    /// Returns the memory limit for the bits of a part, in bytes.
    fn part_bytes(&self) -> u64 {
        self.memory.map_or(PART_BYTES, |memory| memory / 4)
    }

    /// Returns the largest number of transactions of `columns` columns whose bits may be in memory as a part.
    pub(crate) fn most_at_once(&self, columns: u32) -> u64 {
        self.part_bytes().saturating_mul(8) / (u64::from(columns) + 32)
    }

    /// Checks that one segment, or all transactions if they are fewer, fits a quarter of the memory, in a ring of
    /// this degree. `left_out` of the items get no column.
    ///
    /// # Errors
    /// [`TransactionsError::TooLittleMemory`].
    pub fn check_memory(&self, degree: usize, left_out: usize) -> Result<(), TransactionsError> {
        let segment = degree * BLOCKS_PER_SEGMENT as usize;
        let rows = segment.min(64 * words(self.transactions));
        let least = (self.row_bits() - left_out as u64) * rows as u64 / 8;
        match self.memory {
            Some(_) if least > self.part_bytes() => Err(TransactionsError::TooLittleMemory {
                least,
                with_row_ids: self.longest_row_id().is_some(),
            }),
            _ => Ok(()),
        }
    }

    /// Calls `encrypt` for each part, in random order and, except for the last, of equal multiples of `unit`
    /// transactions. Calls `go_on` regularly while parts are made.
    ///
    /// # Errors
    /// More transactions than can be shuffled; no randomness is available; errors of `go_on` and `encrypt`.
    pub(crate) fn each_part<E: From<TransactionsError>>(
        &self,
        unit: usize,
        go_on: impl Fn() -> Result<(), E>,
        mut encrypt: impl FnMut(Part<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        let (baskets, places) = match &self.held {
            Representation::Columns { columns, row_ids } => {
                return encrypt(Part {
                    rows: self.transactions,
                    columns,
                    row_ids: row_ids.as_ref(),
                });
            }
            Representation::Baskets { baskets, places } => (baskets, places),
        };
        let width = self.longest_row_id();
        let units = self.part_bytes().saturating_mul(8) / (self.row_bits() * unit as u64);
        let most_units = u32::MAX as usize / unit;
        let units = usize::try_from(units).map_or(most_units, |it| it.clamp(1, most_units));
        let fewest = self.transactions.div_ceil(u16::MAX.into());
        let most = (units * unit).max(fewest.next_multiple_of(unit));
        let assigned = Assignment::random(self.transactions, most)?;
        for (number, &rows) in assigned.sizes.iter().enumerate() {
            let order = random_order(rows)?;
            let mut slots = order.iter().map(|&slot| slot as usize);
            let words = words(rows);
            let mut columns = vec![Zeroizing::new(vec![0; words]); self.names.len()];
            let mut row_ids = width.map(|width| PackedRowIds {
                width,
                bytes: Zeroizing::new(vec![0; width * rows]),
            });
            for (row, basket) in baskets.iter().enumerate() {
                if row % ROWS_BETWEEN_CHECKS == 0 {
                    go_on()?;
                }
                if !assigned.is_in(row, number) {
                    continue;
                }
                let slot = slots.next().expect("a part has as many slots as rows");
                for place in basket.iter().filter_map(|&item| places[item as usize]) {
                    columns[place as usize][slot / 64] |= 1 << (slot % 64);
                }
                if let Some(ids) = &mut row_ids {
                    ids.set(slot, &baskets.row_ids()[row]);
                }
            }
            encrypt(Part {
                rows,
                columns: &columns,
                row_ids: row_ids.as_ref(),
            })?;
        }
        Ok(())
    }
}

/// Assignment of rows to parts of the slots. With a random order within each part, the total order is random: each
/// choice of the rows of the parts is equally likely.
struct Assignment {
    /// The number of rows of each part.
    sizes: Vec<usize>,
    /// The part of each row; empty if only one part exists.
    parts: Zeroizing<Vec<u16>>,
}

impl Assignment {
    /// Draws parts of `most` rows, the last with the rest; their number must fit 16 bits.
    fn random(rows: usize, most: usize) -> Result<Self, TransactionsError> {
        let count = rows.div_ceil(most);
        let size = |part: usize| most.min(rows - part * most);
        let sizes: Vec<usize> = (0..count).map(size).collect();
        let mut parts = Zeroizing::new(Vec::new());
        if count > 1 {
            parts.reserve_exact(rows);
            for (part, &size) in (0..).zip(&sizes) {
                parts.extend(std::iter::repeat_n(part, size));
            }
            sample::shuffle(&mut sample::fresh_generator()?, &mut parts);
        }
        Ok(Self { sizes, parts })
    }

    fn is_in(&self, row: usize, part: usize) -> bool {
        self.parts
            .get(row)
            .is_none_or(|&it| usize::from(it) == part)
    }
}

/// Returns the number of words of a column: whole blocks of the largest ring, which are whole blocks of every ring.
fn words(transactions: usize) -> usize {
    transactions.next_multiple_of(1 << MAX_LOG_DEGREE) / 64
}

/// Draws a random permutation: the row of each slot.
fn random_order(transactions: usize) -> Result<Zeroizing<Vec<u32>>, TransactionsError> {
    let limit = u32::MAX;
    let count = u32::try_from(transactions)
        .map_err(|_| TransactionsError::TooManyTransactions { limit })?;
    let mut order = Zeroizing::new((0..count).collect::<Vec<_>>());
    sample::shuffle(&mut sample::fresh_generator()?, &mut order);
    Ok(order)
}

/// Column of the owner's data, in any representation.
pub trait Cells: Sync {
    /// Sets bit `bit` in the byte of each row that contains the item: `bytes` has one byte for each of `rows`.
    fn mark(&self, rows: Range<usize>, bit: u32, bytes: &mut [u8]);
}

/// Columns during permutation.
pub struct Shuffler {
    order: Zeroizing<Vec<u32>>,
    threads: NonZeroUsize,
    names: Vec<String>,
    columns: Vec<Bits>,
    row_ids: Option<PackedRowIds>,
}

impl Shuffler {
    /// Returns the number of transactions in each column.
    pub fn transactions(&self) -> usize {
        self.order.len()
    }

    /// Sets the transactions' row ids, as [`Transactions::with_row_ids`] does.
    ///
    /// # Errors
    /// Invalid ids, or a number of ids other than that of the transactions.
    pub fn set_row_ids(&mut self, row_ids: &[String]) -> Result<(), TransactionsError> {
        check_row_ids(self.transactions(), row_ids)?;
        self.row_ids = PackedRowIds::of(row_ids, &self.order);
        Ok(())
    }

    /// Appends the columns of some items, one per name.
    pub fn push(&mut self, names: Vec<String>, columns: &[&dyn Cells]) {
        assert_eq!(names.len(), columns.len(), "each column has a name");
        let columns = permute(&self.order, columns, self.threads);
        self.columns.extend(columns);
        self.names.extend(names);
    }

    /// Returns everything added, in random order. The order is discarded.
    ///
    /// # Errors
    /// Two items with equal names.
    pub fn finish(self) -> Result<Shuffled, TransactionsError> {
        let mut seen = HashSet::new();
        if let Some(name) = self.names.iter().find(|name| !seen.insert(*name)) {
            return Err(TransactionsError::DuplicateName { name: name.clone() });
        }
        Ok(Shuffled {
            transactions: self.order.len(),
            names: self.names,
            numbers: false,
            read: None,
            held: Representation::Columns {
                columns: self.columns,
                row_ids: self.row_ids,
            },
            min_item_support: 1,
            focus: Vec::new(),
            pair_columns: PAIR_COLUMNS,
            absorbs: None,
            memory: None,
        })
    }
}

/// Shuffles columns of `rows` rows in a random order, which is common to all of them.
///
/// # Errors
/// More rows than can be shuffled; no randomness is available.
pub(crate) fn shuffle(
    rows: usize,
    columns: &[&dyn Cells],
    threads: NonZeroUsize,
) -> Result<Vec<Bits>, TransactionsError> {
    Ok(permute(&random_order(rows)?, columns, threads))
}

/// Permutes the bits of columns; `order` gives the row of each slot.
fn permute(order: &[u32], columns: &[&dyn Cells], threads: NonZeroUsize) -> Vec<Bits> {
    let groups: Vec<_> = columns.chunks(GROUP).collect();
    let marks = || Zeroizing::new(vec![0; order.len()]);
    let gathered = threads::fold(
        threads,
        groups.into_iter().enumerate(),
        || (marks(), Vec::new()),
        |(marks, done), (number, group)| {
            mark_all(group, marks);
            done.push((number, gather(order, marks, group.len())));
        },
    );
    let mut gathered: Vec<_> = gathered.into_iter().flat_map(|(_, done)| done).collect();
    gathered.sort_unstable_by_key(|&(number, _)| number);
    let columns = gathered.into_iter().flat_map(|(_, columns)| columns);
    columns.collect()
}

/// Unpacks the row ids of slots, each with its slot, from the sealed columns of their bits; `None` if one is not
/// UTF-8, which the owner cannot have sealed.
pub fn unpack_row_ids<B: AsRef<[u64]>>(bits: &[B]) -> Option<Vec<(u64, String)>> {
    let width = bits.len() / 8;
    let slots = bits.first().map_or(0, |it| 64 * it.as_ref().len());
    let mut ids = Zeroizing::new(vec![0u8; width * slots]);
    for (bit, words) in bits.iter().enumerate() {
        for (slot, id) in ids.chunks_exact_mut(width).enumerate() {
            id[bit / 8] |= ((words.as_ref()[slot / 64] >> (slot % 64) & 1) as u8) << (bit % 8);
        }
    }
    let mut rows = Vec::new();
    for (slot, id) in (0..).zip(ids.chunks_exact(width.max(1))) {
        let length = id
            .iter()
            .rposition(|&byte| byte != 0)
            .map_or(0, |it| it + 1);
        if length > 0 {
            rows.push((slot, str::from_utf8(&id[..length]).ok()?.to_owned()));
        }
    }
    Some(rows)
}

/// Packs up to eight columns into one byte per row.
fn mark_all(group: &[&dyn Cells], marks: &mut [u8]) {
    for (tile, bytes) in marks.chunks_mut(TILE).enumerate() {
        let first = tile * TILE;
        bytes.fill(0);
        for (column, bit) in group.iter().zip(0..) {
            column.mark(first..first + bytes.len(), bit, bytes);
        }
    }
}

/// Unpacks the first `count` columns from the bytes; `order` gives the row of each slot.
fn gather(order: &[u32], marks: &[u8], count: usize) -> Vec<Bits> {
    let mut columns = vec![Zeroizing::new(vec![0; words(order.len())]); count];
    for (at, slots) in order.chunks(64).enumerate() {
        let mut words = [0; GROUP];
        for (eight, rows) in slots.chunks(8).enumerate() {
            let mut bytes = [0; 8];
            for (byte, &row) in bytes.iter_mut().zip(rows) {
                *byte = marks[row as usize];
            }
            let turned = turn(u64::from_le_bytes(bytes)).to_le_bytes();
            for (word, byte) in words.iter_mut().zip(turned) {
                *word |= u64::from(byte) << (8 * eight);
            }
        }
        for (column, word) in columns.iter_mut().zip(words) {
            column[at] = word;
        }
    }
    columns
}

/// Transposes a square of eight bytes of eight bits: bit `j` of byte `i` becomes bit `i` of byte `j` (Warren,
/// Hacker's Delight, 7-3).
fn turn(square: u64) -> u64 {
    let swap = |x: u64, distance: u32, those: u64| {
        let differing = (x ^ x >> distance) & those;
        x ^ differing ^ differing << distance
    };
    let x = swap(square, 7, 0x00aa_00aa_00aa_00aa);
    let x = swap(x, 14, 0x0000_cccc_0000_cccc);
    swap(x, 28, 0x0000_0000_f0f0_f0f0)
}

/// Counts the set bits.
pub(crate) fn count_ones(column: &[u64]) -> u64 {
    column.iter().map(|word| u64::from(word.count_ones())).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use oboro_mining::testing::arbitrary_transactions;
    use proptest::prelude::*;
    use std::cell::Cell;

    struct Rows(Vec<bool>);

    impl Cells for Rows {
        fn mark(&self, rows: Range<usize>, bit: u32, bytes: &mut [u8]) {
            for (byte, &holds) in bytes.iter_mut().zip(&self.0[rows]) {
                *byte |= u8::from(holds) << bit;
            }
        }
    }

    const UNIT: usize = 64;

    /// Returns the baskets of each part as sets of columns, in their order, with their ids.
    fn parts(shuffled: &Shuffled) -> Vec<Vec<(Vec<bool>, String)>> {
        let mut parts = Vec::new();
        let bit = |column: &[u64], slot: usize| column[slot / 64] >> (slot % 64) & 1 == 1;
        let read = |part: Part<'_>| {
            let columns = part.columns();
            assert!(columns.iter().all(|it| it.len() == words(part.rows)));
            let slots = part.rows.next_multiple_of(64);
            assert!(
                columns
                    .iter()
                    .all(|it| (part.rows..64 * it.len()).all(|slot| !bit(it, slot)))
            );
            let ids: Vec<_> = (0..8 * shuffled.longest_row_id().unwrap_or(0))
                .map(|it| part.row_id_bits(it, slots))
                .collect();
            let mut ids = unpack_row_ids(&ids).unwrap().into_iter().map(|it| it.1);
            let basket = |slot| columns.iter().map(|it| bit(it, slot)).collect();
            let baskets = (0..part.rows).map(basket);
            parts.push(
                baskets
                    .map(|it| (it, ids.next().unwrap_or_default()))
                    .collect(),
            );
            Ok::<_, TransactionsError>(())
        };
        shuffled.each_part(UNIT, || Ok(()), read).unwrap();
        parts
    }

    /// Returns the baskets as sets of columns, sorted: independent of the order.
    fn baskets(shuffled: &Shuffled) -> Vec<Vec<bool>> {
        let mut all: Vec<Vec<bool>> = parts(shuffled)
            .concat()
            .into_iter()
            .map(|it| it.0)
            .collect();
        all.sort_unstable();
        all
    }

    fn columns(transactions: &Transactions) -> Vec<Rows> {
        let holds = |item| {
            transactions
                .iter()
                .map(|basket| basket.contains(&item))
                .collect()
        };
        let items = 0..transactions.item_count() as u32;
        items.map(|item| Rows(holds(item))).collect()
    }

    fn pushed(transactions: &Transactions, threads: usize, at_once: usize) -> Shuffled {
        let threads = NonZeroUsize::new(threads).unwrap();
        let mut shuffling = Shuffled::begin(transactions.len(), threads).unwrap();
        let columns = columns(transactions);
        for (names, columns) in transactions
            .names()
            .chunks(at_once)
            .zip(columns.chunks(at_once))
        {
            let columns: Vec<&dyn Cells> = columns.iter().map(|c| c as &dyn Cells).collect();
            shuffling.push(names.to_vec(), &columns);
        }
        shuffling.finish().unwrap()
    }

    proptest! {
        #[test]
        fn rows_and_columns_make_the_same_baskets(
            transactions in arbitrary_transactions(19, 200),
            threads in 1usize..4,
            at_once in 1usize..20,
        ) {
            let by_row = Shuffled::of(transactions.clone());
            let by_column = pushed(&transactions, threads, at_once);
            prop_assert_eq!(by_row.names(), by_column.names());
            prop_assert_eq!(by_row.supports(), transactions.item_supports());
            prop_assert_eq!(by_column.supports(), transactions.item_supports());
            let mut expected: Vec<Vec<bool>> = transactions
                .iter()
                .map(|basket| (0..19).map(|item| basket.contains(&item)).collect())
                .collect();
            expected.sort_unstable();
            prop_assert_eq!(&baskets(&by_row), &expected);
            prop_assert_eq!(&baskets(&by_column), &expected);
        }

        #[test]
        fn parts_have_each_row_once_and_are_as_large_as_memory_allows(
            transactions in arbitrary_transactions(19, 700),
            part_bytes in 1u64..6000,
            least in 1u64..5,
        ) {
            let ids = (0..transactions.len()).map(|row| format!("{row}{:?}", transactions.basket(row)));
            let transactions = transactions.clone().with_row_ids(ids.collect()).unwrap();
            let whole = Shuffled::of(transactions.clone()).restrict(MinSupport::Count(least));
            let shuffled = Shuffled::of(transactions.clone()).within(Some(4 * part_bytes));
            let shuffled = shuffled.restrict(MinSupport::Count(least));
            prop_assert_eq!(shuffled.supports(), whole.supports());
            prop_assert_eq!(shuffled.min_item_support(), whole.min_item_support());
            prop_assert_eq!(baskets(&shuffled), baskets(&whole));
            let parts = parts(&shuffled);
            let size = (8 * part_bytes / (shuffled.row_bits() * UNIT as u64)).max(1) as usize * UNIT;
            if let Some((last, others)) = parts.split_last() {
                prop_assert!(others.iter().all(|part| part.len() == size));
                prop_assert!((1..=size).contains(&last.len()));
            }
            // Each id is with its own basket.
            let mut found: Vec<_> = parts.concat();
            let names = shuffled.names();
            for (basket, id) in &found {
                let row: usize = id[..id.find('S').unwrap()].parse().unwrap();
                let items = transactions.basket(row).unwrap();
                let item = |name: &String| transactions.names().iter().position(|it| it == name).unwrap();
                let expected: Vec<bool> = names.iter().map(|name| items.contains(&(item(name) as u32))).collect();
                prop_assert_eq!(basket, &expected);
            }
            found.sort_by(|a, b| a.1.cmp(&b.1));
            found.dedup_by(|a, b| a.1 == b.1);
            prop_assert_eq!(found.len(), transactions.len());
        }

        #[test]
        fn a_square_is_turned(square in any::<u64>()) {
            let turned = turn(square);
            for (i, j) in (0..8).flat_map(|i| (0..8).map(move |j| (i, j))) {
                prop_assert_eq!(square >> (8 * i + j) & 1, turned >> (8 * j + i) & 1);
            }
        }
    }

    /// Creates 5000 rows: more than a tile, and not a multiple of 64.
    fn numbered() -> Vec<Rows> {
        let bit = |bit: usize| Rows((0..5000).map(|row| row >> bit & 1 == 1).collect());
        (0..13).map(bit).collect()
    }

    fn shuffled() -> Shuffled {
        let mut shuffling = Shuffled::begin(5000, NonZeroUsize::MIN).unwrap();
        let columns = numbered();
        let columns: Vec<&dyn Cells> = columns.iter().map(|c| c as &dyn Cells).collect();
        shuffling.push((0..13).map(|bit| format!("bit {bit}")).collect(), &columns);
        shuffling.finish().unwrap()
    }

    #[test]
    fn every_row_is_there_once_and_not_in_its_place() {
        let [first, second] = [shuffled(), shuffled()].map(|shuffled| {
            let row = |(bits, _): (Vec<bool>, String)| {
                let bits = bits.into_iter().enumerate();
                bits.map(|(bit, is_set)| usize::from(is_set) << bit).sum()
            };
            let slots = parts(&shuffled).concat().into_iter();
            slots.map(row).collect::<Vec<usize>>()
        });
        let mut sorted = first.clone();
        sorted.sort_unstable();
        assert!(sorted.iter().copied().eq(0..5000));
        assert_ne!(first, second);
        // A random permutation has about one fixed point.
        let in_place = first.iter().enumerate().filter(|&(slot, &row)| slot == row);
        assert!(in_place.count() < 20);
    }

    /// The first of two parts has two rows of three: each of the three pairs should occur a third of the time.
    #[test]
    fn every_choice_of_the_rows_of_a_part_is_equally_likely() {
        let mut seen = [0u32; 3];
        for _ in 0..3000 {
            let assigned = Assignment::random(3, 2).unwrap();
            assert_eq!(assigned.sizes, [2, 1]);
            let alone = (0..3)
                .filter(|&row| assigned.is_in(row, 1))
                .collect::<Vec<_>>();
            assert_eq!(alone.len(), 1);
            seen[alone[0]] += 1;
        }
        // 1000 each, with a standard deviation of 26.
        assert!(seen.iter().all(|it| (800..1200).contains(it)), "{seen:?}");
    }

    #[test]
    fn making_a_part_can_be_ended() {
        let baskets = Transactions::from_named(vec![["a"]; ROWS_BETWEEN_CHECKS + 1]).unwrap();
        let ended = || TransactionsError::TooManyItems { limit: 0 };
        let checks = Cell::new(0);
        let go_on = || {
            checks.set(checks.get() + 1);
            if checks.get() < 2 {
                Ok(())
            } else {
                Err(ended())
            }
        };
        let made = Shuffled::of(baskets).each_part(UNIT, go_on, |_| panic!("no part"));
        assert_eq!((made, checks.get()), (Err(ended()), 2));
    }

    #[test]
    fn restricting_drops_items_and_no_transactions() {
        let shuffled = shuffled();
        assert_eq!(shuffled.supports()[12], 5000 - 4096);
        let mut restricted = shuffled.restrict(MinSupport::Count(1000));
        assert_eq!((restricted.len(), restricted.names().len()), (5000, 12));
        assert_eq!(restricted.names()[11], "bit 11");
        assert!(restricted.supports().iter().all(|&support| support >= 1000));
        assert_eq!(restricted.min_item_support(), 1000);
        // A second restriction with these bounds removes no item.
        for support in [10, 1001] {
            let again = restricted.supports();
            restricted = restricted.restrict(MinSupport::Count(support));
            assert_eq!(restricted.supports(), again);
            assert_eq!(restricted.min_item_support(), 1000);
        }
    }

    #[test]
    fn two_items_of_one_name_are_refused() {
        let mut shuffling = Shuffled::begin(2, NonZeroUsize::MIN).unwrap();
        let rows = Rows(vec![true, false]);
        shuffling.push(vec!["a".into()], &[&rows]);
        shuffling.push(vec!["a".into()], &[&rows]);
        let error = shuffling.finish().unwrap_err();
        assert!(error.to_string().contains("\"a\" occurs twice"), "{error}");
    }

    #[test]
    fn names_and_bits_are_not_printed() {
        let shown = format!("{:?}", shuffled());
        assert_eq!(shown, "Shuffled(13 items, 5000 transactions)");
    }
}
