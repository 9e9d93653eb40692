//! Reader of the four forms of records, from CSV or a typed table: baskets, long form, one-hot and counts.
//!
//! [`detect`](super::detect) settles the form from the beginning of the file; this module verifies its guesses on the
//! whole file.

use std::borrow::Cow;
use std::collections::{BTreeSet, HashMap, HashSet};
use std::io;

use super::bins::BinColumns;
use super::column_names::is_amount_name;
use super::detect::Detection;
use super::error::{Excerpt, Position, ReadError, Remedy};
use super::footer::{Footer, above, are_sums};
use super::header::{Header, header_remedies};
use super::names::{Doubt, NameRules, is_missing, normal, plain_spaces, renamed};
use super::one_hot::{count, one_hot};
use super::options::ReadOptions;
use super::record::Records;
use super::values::{Format, ItemSeparator, Missing, Separator, Spaces};
use crate::transactions::{Transactions, TransactionsBuilder, TransactionsError};
use oboro_format::wording::{
    DROP_COLUMNS, FORMAT, ITEM_COLUMN, ITEM_SEPARATOR, MISSING, ROW_IDS, SEPARATOR, SPACES,
    TRANSACTION_COLUMN,
};

/// Result of reading.
pub(super) struct Table {
    pub(super) transactions: Transactions,
    /// The number of columns used, and the names of the others.
    pub(super) columns: (usize, Vec<String>),
    /// The number of item names that were merged with others.
    pub(super) merged: usize,
}

pub(super) fn read(records: Records<'_, '_>, settled: &Detection) -> Result<Table, ReadError> {
    let options = &settled.options;
    let reader = Reader {
        file: records.file(),
        records: records.without_last(options.skip_last.unwrap_or(0)),
        settled,
        options,
        rules: options.name_rules(),
        last: None,
    };
    match options.format {
        Format::CsvOneHot | Format::CsvCounts => reader.table(),
        Format::CsvLong => reader.long(),
        Format::Auto | Format::Fimi | Format::CsvBasket => reader.baskets(),
    }
}

struct Reader<'s, 'l, 'a> {
    file: String,
    records: Records<'l, 'a>,
    settled: &'s Detection,
    options: &'s ReadOptions,
    rules: NameRules,
    /// The position of the last row read.
    last: Option<Position>,
}

impl Reader<'_, '_, '_> {
    fn baskets(mut self) -> Result<Table, ReadError> {
        let Some((header, first)) = self.header()? else {
            return Ok(Table::default());
        };
        let mut row_ids = RowIdColumn::new(&header, &self)?;
        let dropped = header.all(&self.file, DROP_COLUMNS, &self.options.drop_columns)?;
        let no_items: BTreeSet<usize> = dropped.iter().copied().chain(row_ids.place).collect();
        let mut builder = self.options.builder();
        let mut basket = Vec::new();
        let mut next = first;
        while let Some(line) = next {
            self.last = Some(line);
            row_ids.push(&self, line);
            for place in (0..self.records.cells.len()).filter(|place| !no_items.contains(place)) {
                self.items(place, line, &mut builder, &mut basket)?;
            }
            builder
                .push(basket.drain(..))
                .map_err(self.items_error(line))?;
            next = self.records.next()?;
        }
        self.check_footer(false)?;
        self.check_set_apart(header.line)?;
        let (transactions, merged) = self.named(builder.finish())?;
        let transactions = row_ids.attach_to(transactions, &self.file)?;
        self.check_lists(&transactions)?;
        if self.settled.detected_header {
            self.check_first(&transactions, header.line)?;
        }
        if self.settled.detected_format {
            self.check_pairs(&transactions, "if each line is a transaction nevertheless")?;
        }
        Ok(Table {
            transactions: transactions.sorted_by_name(),
            columns: (
                0,
                dropped.iter().map(|&it| header.names[it].clone()).collect(),
            ),
            merged,
        })
    }

    fn long(mut self) -> Result<Table, ReadError> {
        let Some((header, first)) = self.header()? else {
            return Ok(Table::default());
        };
        let file = self.file.clone();
        let ids = &self.options.transaction_columns;
        let ids = header.all(&file, TRANSACTION_COLUMN, ids)?;
        let wanted = self.options.item_column.as_deref().unwrap_or_default();
        let item_column = header.find(&file, ITEM_COLUMN, wanted)?;
        let dropped = header.all(&file, DROP_COLUMNS, &self.options.drop_columns)?;
        let bins = BinColumns::all(&file, &header, &self.options.bins)?;
        let is_used = |place: usize| {
            place == item_column || ids.contains(&place) || bins.iter().any(|it| it.place == place)
        };
        let mut unused: Vec<UnusedColumn> = (0..header.names.len())
            .filter(|&place| !is_used(place) && !dropped.contains(&place))
            .map(|place| UnusedColumn::new(place, &header.names[place]))
            .collect();

        let mut row_ids = RowIdColumn::new(&header, &self)?;
        if let Some(column) = &self.options.row_ids
            && (ids.len() != 1 || row_ids.place.is_some_and(|it| !ids.contains(&it)))
        {
            return Err(self.doubt(
                Some(header.line),
                "where each line is one item of a transaction, the row ids must be in the column that names the transaction".to_owned(),
                [Remedy::new(TRANSACTION_COLUMN.to_each([column]), "if that column names it alone")],
            ));
        }
        let mut builder = self.options.builder();
        let mut transactions: HashMap<String, u32> = HashMap::new();
        let mut entries = builder.list();
        let mut id = String::new();
        let mut basket = Vec::new();
        let mut numbers = LongNumbers::default();
        let mut next = first;
        while let Some(line) = next {
            self.check_cells(line, header.names.len())?;
            self.last = Some(line);
            if (0..header.raw.len()).all(|it| header.raw[it] == self.records.cells.raw(it)) {
                return Err(ReadError::RepeatedHeader { file, line });
            }
            self.id(&ids, line, &mut id)?;
            let transaction = match transactions.get(&id) {
                Some(&transaction) => transaction,
                None => {
                    self.check_id(&id, line)?;
                    numbers.look(&id);
                    let next = transactions.len();
                    let transaction =
                        u32::try_from(next).map_err(|_| ReadError::TooManyTransactions {
                            file: file.clone(),
                            line,
                        })?;
                    transactions.insert(id.clone(), transaction);
                    row_ids.push(&self, line);
                    transaction
                }
            };
            for column in &mut unused {
                column.look(self.records.cells.cell(column.place), line);
            }
            self.items(item_column, line, &mut builder, &mut basket)?;
            for item in basket.drain(..) {
                entries
                    .push(entry(transaction, item))
                    .map_err(|error| self.list_error(line, &error))?;
            }
            for bin in &bins {
                if let Some(range) = self.range(bin, line)? {
                    let item = builder.item(&bin.items[range]);
                    let item = item.map_err(self.items_error(line))?;
                    entries
                        .push(entry(transaction, item))
                        .map_err(|error| self.list_error(line, &error))?;
                }
            }
            next = self.records.next()?;
        }
        self.check_footer(false)?;
        self.check_unused(&unused, &header)?;
        numbers.check(&self, header.line)?;
        self.settle_spaces(transactions.keys().map(String::as_str), "transaction")?;
        entries.sort_unstable();
        let mut rest = &entries[..];
        for transaction in 0..transactions.len() as u64 {
            // Sequential, since a search would access at random what may exceed memory.
            let of_it = rest.iter().take_while(|&entry| entry >> 32 == transaction);
            let length = of_it.count();
            let (basket, others) = rest.split_at(length);
            rest = others;
            let basket = basket.iter().map(|&entry| entry as u32);
            builder
                .push(basket)
                .map_err(self.items_error(header.line))?;
        }
        let (transactions, merged) = self.named(builder.finish())?;
        let transactions = row_ids.attach_to(transactions, &self.file)?;
        self.check_lists(&transactions)?;
        if self.settled.detected_format {
            self.check_pairs(
                &transactions,
                "if each line is one item of a transaction nevertheless",
            )?;
        }
        Ok(Table {
            transactions: transactions.sorted_by_name(),
            columns: header.used(is_used),
            merged,
        })
    }

    fn table(mut self) -> Result<Table, ReadError> {
        let Some((header, first)) = self.header()? else {
            return Ok(Table::default());
        };
        let file = self.file.clone();
        let ids = &self.options.transaction_columns;
        let ids = header.all(&file, TRANSACTION_COLUMN, ids)?;
        let dropped = header.all(&file, DROP_COLUMNS, &self.options.drop_columns)?;
        let mut row_ids = RowIdColumn::new(&header, &self)?;
        let bins = BinColumns::all(&file, &header, &self.options.bins)?;
        let mut items: Vec<usize> = (0..header.names.len()).collect();
        items.retain(|place| {
            !dropped.contains(place)
                && !ids.contains(place)
                && row_ids.place != Some(*place)
                && bins.iter().all(|it| it.place != *place)
        });
        let mut names: Vec<String> = items.iter().map(|&it| header.raw[it].clone()).collect();
        self.settle_spaces(names.iter().map(String::as_str), "column")?;
        if self.options.spaces != Some(Spaces::Keep) {
            names = items.iter().map(|&it| header.names[it].clone()).collect();
        }
        let unnamed: Vec<&str> = (items.iter().filter(|&&it| header.raw[it].trim().is_empty()))
            .map(|&it| header.names[it].as_str())
            .collect();
        if !unnamed.is_empty() {
            return Err(self.doubt(
                Some(header.line),
                "a column of the header has no name".to_owned(),
                [Remedy::new(
                    DROP_COLUMNS.to(&unnamed[..]),
                    "if it holds no item",
                )],
            ));
        }
        for name in &names {
            self.check_column(name, header.line)?;
        }
        let form = self.options.unicode();
        for name in &mut names {
            if let Cow::Owned(normal) = normal(name, form) {
                *name = normal;
            }
        }
        names.extend(bins.iter().flat_map(|it| it.items.iter().cloned()));
        let mut builder = self
            .options
            .builder()
            .with_items(names)
            .map_err(self.items_error(header.line))?;
        let mut seen = HashSet::new();
        let mut written = None;
        let mut id = String::new();
        let is_counted = self.options.format == Format::CsvCounts;
        let mut sums = vec![0u64; if is_counted { items.len() } else { 0 }];
        let mut counts = Vec::with_capacity(sums.len());
        let mut has_sums = false;
        let mut next = first;
        while let Some(line) = next {
            self.check_cells(line, header.names.len())?;
            self.last = Some(line);
            if !ids.is_empty() {
                self.id(&ids, line, &mut id)?;
                self.check_id(&id, line)?;
                if !seen.insert(id.clone()) {
                    let transaction = Excerpt::new(&id);
                    return Err(ReadError::RepeatedTransaction {
                        file,
                        line,
                        transaction,
                    });
                }
            }
            row_ids.push(&self, line);
            let (mut basket, mut mixed) = (Vec::new(), false);
            for (item, &place) in (0u32..).zip(&items) {
                let cell = self.records.cells.cell(place);
                let set = match self.options.format {
                    Format::CsvCounts => {
                        let count = count(cell);
                        counts.push(count);
                        count.map(|count| count > 0)
                    }
                    _ => one_hot(cell).map(|(set, writing)| {
                        if *written.get_or_insert(writing) != writing
                            && self.settled.detected_format
                        {
                            mixed = true;
                        }
                        set
                    }),
                };
                if mixed {
                    return Err(self.doubt(
                        Some(line),
                        format!(
                            "{} says yes or no in another way than the cells before it",
                            Excerpt::new(cell)
                        ),
                        [Remedy::new(
                            FORMAT.to("csv-onehot"),
                            "if both ways mean the same",
                        )],
                    ));
                }
                match set {
                    Some(true) => basket.push(item),
                    Some(false) => {}
                    None if is_missing(cell) && self.options.missing == Some(Missing::Absent) => {}
                    None => {
                        self.check_sums(line, &items, &builder)?;
                        return Err(self.cell_error(line, place, &header.names[place]));
                    }
                }
            }
            if is_counted {
                has_sums = are_sums(&sums, &counts, builder.len() as u64);
                for (sum, count) in sums.iter_mut().zip(counts.drain(..)) {
                    *sum = sum.saturating_add(count.unwrap_or(0));
                }
            }
            let mut first = items.len();
            for bin in &bins {
                let range = self.range(bin, line)?;
                basket.extend(range.map(|range| (first + range) as u32));
                first += bin.items.len();
            }
            builder.push(basket).map_err(self.items_error(line))?;
            next = match items.len() {
                // A blank line is a blank cell in the column of a single item.
                1 if header.names.len() == 1 => self.records.next_or_blank()?,
                _ => self.records.next()?,
            };
        }
        self.check_footer(has_sums)?;
        let is_used = |place| {
            items.binary_search(&place).is_ok()
                || row_ids.place == Some(place)
                || bins.iter().any(|it| it.place == place)
        };
        Ok(Table {
            columns: header.used(is_used),
            transactions: row_ids.attach_to(builder.finish(), &self.file)?,
            merged: 0,
        })
    }

    /// Reads the header and the record after it into the cells; returns the header and the position of that record.
    /// `None` if the file is empty.
    #[allow(clippy::type_complexity)]
    fn header(&mut self) -> Result<Option<(Header, Option<Position>)>, ReadError> {
        let Some(line) = self.records.next()? else {
            return Ok(None);
        };
        let is_header = self.options.header == Some(true) || self.records.have_names();
        let header = Header::new(&self.records.cells, is_header, line);
        let first = if !is_header {
            Some(line)
        } else if header.names.len() == 1 {
            self.records.next_or_blank()?
        } else {
            self.records.next()?
        };
        Ok(Some((header, first)))
    }

    /// Adds the items of a cell to a basket.
    fn items(
        &self,
        place: usize,
        line: Position,
        builder: &mut TransactionsBuilder,
        basket: &mut Vec<u32>,
    ) -> Result<(), ReadError> {
        let raw = self.records.cells.raw(place);
        if let Some(ItemSeparator::Mark(mark)) = self.options.item_separator {
            for part in raw.split(char::from(mark)) {
                basket.extend(self.item(part.trim(), place, line, builder)?);
            }
            return Ok(());
        }
        let name = match self.options.spaces {
            Some(Spaces::Trim) => raw.trim(),
            Some(Spaces::Keep) | None => raw,
        };
        basket.extend(self.item(name, place, line, builder)?);
        Ok(())
    }

    /// Returns the number of the item with this name, which is in a cell; `None` if the cell has no item.
    fn item(
        &self,
        name: &str,
        place: usize,
        line: Position,
        builder: &mut TransactionsBuilder,
    ) -> Result<Option<u32>, ReadError> {
        if name.is_empty() {
            return Ok(None);
        }
        let own = self.options.separator.unwrap_or(Separator::COMMA);
        // If each row has one item, a comma is part of its name.
        let settled = |it: Separator| {
            it == own || it == Separator::COMMA && self.options.format == Format::CsvLong
        };
        let rival = |it: &&Separator| !settled(**it) && name.as_bytes().contains(&it.byte());
        if self.settled.detected_separator
            && !self.records.cells.is_quoted(place)
            && let Some(rival) = Separator::CANDIDATES.iter().find(rival)
        {
            let mut remedies = [own, *rival]
                .map(|it| Remedy::new(SEPARATOR.to(it.to_string()), ""))
                .to_vec();
            if self.options.format == Format::CsvLong {
                let list = ITEM_SEPARATOR.to(rival.to_string());
                remedies.push(Remedy::new(list, "if the cell has a list of items"));
            }
            return Err(self.doubt(
                Some(line),
                format!(
                    "the item {} has a {rival} in it, which may separate items",
                    Excerpt::new(name)
                ),
                remedies,
            ));
        }
        // The name was checked when it was new.
        if let Some(number) = builder.number_of(name) {
            return Ok(Some(number));
        }
        if name.trim().is_empty() && self.options.spaces.is_none() {
            return Err(self.doubt(
                Some(line),
                format!("the item {} is only spaces", Excerpt::new(name)),
                spaces_remedies("if there is none", "if it is one"),
            ));
        }
        if !self.checked(self.rules.check_item(name), line)? {
            return Ok(None);
        }
        let number = builder.item(name).map_err(self.items_error(line))?;
        Ok(Some(number))
    }

    /// Converts the doubt of a check at `line` into an error.
    fn checked<T>(&self, checked: Result<T, Doubt>, line: Position) -> Result<T, ReadError> {
        checked.map_err(|Doubt { what, remedies }| self.doubt(Some(line), what, remedies))
    }

    /// Returns the item of a column's number in the current row, by its index among the items of the column.
    fn range(&self, bin: &BinColumns, line: Position) -> Result<Option<usize>, ReadError> {
        let item = bin.item(self.records.cells.cell(bin.place), self.options.missing);
        self.checked(item, line)
    }

    /// Checks the identifier of a transaction, of one or several columns.
    fn check_id(&self, id: &str, line: Position) -> Result<(), ReadError> {
        id.split('\0')
            .try_for_each(|part| self.checked(self.rules.check_id(part), line))
    }

    /// Checks the name of a column that is an item.
    fn check_column(&self, name: &str, line: Position) -> Result<(), ReadError> {
        let rules = NameRules {
            missing: self.options.missing.filter(|it| *it == Missing::Item),
            ..self.rules
        };
        let checked = rules.check_item(name).map_err(|mut doubt| {
            if doubt.remedies.len() > 1 {
                let drop = DROP_COLUMNS.to(&[name][..]);
                doubt.remedies[0] = Remedy::new(drop, "if it holds no item");
            }
            doubt
        });
        self.checked(checked, line).map(drop)
    }

    /// Rejects a last row that seems to be totals or a note; `has_sums` if its numbers are the sums of those above.
    fn check_footer(&self, has_sums: bool) -> Result<(), ReadError> {
        // At the end of the file, the cells are those of the last row.
        let footer = || {
            let sums = has_sums.then_some(Footer::Totals);
            sums.or_else(|| Footer::of(&self.records.cells))
        };
        match self.last {
            Some(_) if self.options.skip_last.is_none() => match footer() {
                Some(footer) => Err(footer.doubt(&self.file, self.last)),
                None => Ok(()),
            },
            _ => Ok(()),
        }
    }

    /// Rejects a row with the sums of the rows above it in a table of 0 and 1.
    fn check_sums(
        &self,
        line: Position,
        items: &[usize],
        builder: &TransactionsBuilder,
    ) -> Result<(), ReadError> {
        let cells = &self.records.cells;
        let row: Vec<Option<u64>> = items.iter().map(|&it| count(cells.cell(it))).collect();
        let sums = builder.item_supports();
        let is_last = self.options.skip_last.is_none()
            && are_sums(&sums[..items.len()], &row, builder.len() as u64);
        if is_last {
            return Err(Footer::Totals.doubt(&self.file, Some(line)));
        }
        Ok(())
    }

    /// Rejects a first or last line if a blank line separates it, and only it, from the others.
    fn check_set_apart(&self, first: Position) -> Result<(), ReadError> {
        let (title, note) = self.records.set_apart();
        if note && self.options.skip_last.is_none() {
            return Err(Footer::Note.doubt(&self.file, self.last));
        }
        match first {
            Position::Line(line)
                if title
                    && self.options.header != Some(true)
                    && self.options.skip_first.is_none() =>
            {
                let what = "a blank line separates the line from all others, so it may be a title";
                Err(above(&self.file, line, what, line))
            }
            _ => Ok(()),
        }
    }

    /// Rejects items that seem to be lists of items: if no transaction has two and many names contain a separator, or
    /// if a part between separators is an item elsewhere.
    fn check_lists(&self, transactions: &Transactions) -> Result<(), ReadError> {
        const MARKS: [char; 4] = [',', ';', '|', '\t'];
        if self.options.item_separator.is_some() {
            return Ok(());
        }
        let names = transactions.names();
        let are_single = transactions.iter().all(|it| it.len() < 2);
        for mark in MARKS {
            let listed: Vec<&str> = names
                .iter()
                .map(String::as_str)
                .filter(|it| it.contains(mark) && parts(it, mark).nth(1).is_some())
                .collect();
            let Some(first) = listed.first() else {
                continue;
            };
            let whole: HashSet<&str> = names.iter().map(|it| it.trim()).collect();
            let mut shared: HashMap<&str, usize> = HashMap::new();
            for part in listed.iter().flat_map(|it| parts(it, mark)) {
                *shared.entry(part).or_default() += 1;
            }
            let is_decimal = |name: &str| name.replace(',', ".").parse::<f64>().is_ok();
            let of_items = |name: &&str| {
                !is_decimal(name) && parts(name, mark).all(|part| whole.contains(part))
            };
            let of_shared = |name: &&&str| {
                !is_decimal(name)
                    && parts(name, mark).all(|it| shared[it] > 1 || whole.contains(it))
            };
            let many = 2 * listed.len() >= names.len();
            let example = listed.iter().copied().find(of_items).or_else(|| {
                let are_lists = many
                    && (are_single
                        || listed.len() > 2
                            && 5 * listed.iter().filter(of_shared).count() >= 4 * listed.len());
                are_lists.then_some(*first)
            });
            let Some(example) = example else {
                continue;
            };
            let separator = Separator::CANDIDATES
                .iter()
                .find(|it| char::from(**it) == mark);
            let separator = separator.map_or_else(String::new, ToString::to_string);
            return Err(self.doubt(
                None,
                format!(
                    "the item {} seems to be a list of items in one cell",
                    Excerpt::new(example)
                ),
                [
                    Remedy::new(ITEM_SEPARATOR.to(separator), "if such cells are lists"),
                    Remedy::new(ITEM_SEPARATOR.to("none"), "if each is one item"),
                ],
            ));
        }
        Ok(())
    }

    /// Sets `id` to the identifier of the transaction in a row.
    fn id(
        &self,
        columns: &BTreeSet<usize>,
        line: Position,
        id: &mut String,
    ) -> Result<(), ReadError> {
        id.clear();
        for (number, &place) in columns.iter().enumerate() {
            if number > 0 {
                id.push('\0');
            }
            let cell = self.records.cells.raw(place);
            if cell.trim().is_empty() {
                let file = self.file.clone();
                return Err(ReadError::MissingTransaction { file, line });
            }
            let cell = normal(cell, self.options.unicode());
            match self.options.spaces {
                Some(Spaces::Trim) => id.push_str(&plain_spaces(cell.trim())),
                Some(Spaces::Keep) | None => id.push_str(&cell),
            }
        }
        Ok(())
    }

    fn check_cells(&self, line: Position, expected: usize) -> Result<(), ReadError> {
        match self.records.cells.len() {
            found if found == expected => Ok(()),
            _ if self.options.skip_last.is_none()
                && let Some(footer) = Footer::of(&self.records.cells) =>
            {
                Err(footer.doubt(&self.file, Some(line)))
            }
            found => Err(ReadError::CellCount {
                file: self.file.clone(),
                line,
                found,
                expected,
            }),
        }
    }

    /// Rejects a file in long form with columns that may mark the item of a row as absent.
    fn check_unused(&self, unused: &[UnusedColumn], header: &Header) -> Result<(), ReadError> {
        let mut doubtful = unused.iter().filter_map(|it| Some((it, it.says_no()?)));
        let Some((first, line)) = doubtful.next() else {
            return Ok(());
        };
        let name = |it: &UnusedColumn| header.names[it.place].as_str();
        let given = self.options.drop_columns.iter().map(String::as_str);
        let all: Vec<&str> = given
            .chain([name(first)])
            .chain(doubtful.map(|(it, _)| name(it)))
            .collect();
        Err(self.doubt(
            Some(line),
            format!(
                "the column {} may say that the item of this row is not there; if so, take such rows out of the file",
                Excerpt::new(name(first))
            ),
            [Remedy::new(DROP_COLUMNS.to(&all[..]), "if it does not say that")],
        ))
    }

    /// Rejects a cell that does not fit the form of its table.
    fn cell_error(&self, line: Position, place: usize, column: &str) -> ReadError {
        let cell = self.records.cells.cell(place);
        let column_shown = Excerpt::new(column);
        let number = place + 1;
        if is_missing(cell) {
            return self.doubt(
                Some(line),
                format!(
                    "column {number} ({column_shown}) has no value: {}",
                    Excerpt::new(cell)
                ),
                [Remedy::new(
                    MISSING.to("absent"),
                    "if such items are not in their transactions",
                )],
            );
        }
        let mut drops: Vec<&str> = self
            .options
            .drop_columns
            .iter()
            .map(String::as_str)
            .collect();
        let others = self.settled.no_items.iter().map(String::as_str);
        for name in std::iter::once(column).chain(others) {
            if !drops.contains(&name) {
                drops.push(name);
            }
        }
        let when = match drops.len() {
            1 => "if the column holds no item",
            _ => "if these columns hold no items",
        };
        let drop = Remedy::new(DROP_COLUMNS.to(&drops[..]), when);
        let counts = Remedy::new(
            FORMAT.to("csv-counts"),
            "if items are in transactions where their count is above 0",
        );
        let remedies = match count(cell) {
            Some(_) => vec![counts, drop],
            None => vec![drop],
        };
        let what = format!(
            "column {number} ({column_shown}) has {}, which is not a one-hot value (1/0, true/false, yes/no)",
            Excerpt::new(cell)
        );
        self.doubt(Some(line), what, remedies)
    }

    /// Normalizes names to their Unicode form and trims them unless spaces are kept. Returns the transactions, and
    /// the number of names that were merged with others.
    fn named(&self, transactions: Transactions) -> Result<(Transactions, usize), ReadError> {
        let form = self.options.unicode();
        if self.options.spaces.is_none() {
            self.settle_spaces(transactions.names().iter().map(String::as_str), "item")?;
        }
        let rename = |name: &str| match self.options.spaces {
            Some(Spaces::Keep) => normal(name, form).into_owned(),
            Some(Spaces::Trim) | None => {
                let name = normal(name.trim(), form);
                plain_spaces(&name).into_owned()
            }
        };
        renamed(transactions, rename).map_err(self.items_error(Position::Schema))
    }

    /// Rejects names that differ only in surrounding spaces, unless the options specify the meaning of spaces.
    fn settle_spaces<'n>(
        &self,
        names: impl Iterator<Item = &'n str> + Clone,
        what: &str,
    ) -> Result<(), ReadError> {
        let trim = |name: &'n str| -> String {
            let parts: Vec<Cow<'_, str>> = name
                .split('\0')
                .map(|part| plain_spaces(part.trim()))
                .collect();
            parts.join("\0")
        };
        let spaced = names.clone().filter(|name| trim(name) != **name);
        if self.options.spaces.is_some() || spaced.clone().next().is_none() {
            return Ok(());
        }
        let mut plain: HashSet<String> = names
            .filter(|name| trim(name) == **name)
            .map(str::to_owned)
            .collect();
        for name in spaced {
            if !plain.insert(trim(name)) {
                let shown = (Excerpt::new(name), Excerpt::new(trim(name)));
                return Err(self.doubt(
                    None,
                    format!(
                        "the {what} {} is also written without or with other spaces, {}",
                        shown.0, shown.1
                    ),
                    spaces_remedies("if they are one", "if they are different"),
                ));
            }
        }
        Ok(())
    }

    /// Rejects a first line without items in common with the others, if all others have some.
    fn check_first(&self, transactions: &Transactions, line: Position) -> Result<(), ReadError> {
        let supports = transactions.item_supports();
        let alone = |basket: &[u32]| {
            !basket.is_empty() && basket.iter().all(|&item| supports[item as usize] == 1)
        };
        let mut baskets = transactions.iter();
        let first_is_alone = baskets.next().is_some_and(alone);
        if transactions.len() < 4 || !first_is_alone || baskets.any(alone) {
            return Ok(());
        }
        Err(self.doubt(
            Some(line),
            "no other line has an item of this one, which may be a header".to_owned(),
            header_remedies(),
        ))
    }

    /// Rejects transactions of which none has two items: they contain no itemsets.
    fn check_pairs(&self, transactions: &Transactions, when: &str) -> Result<(), ReadError> {
        if transactions.is_empty() || transactions.iter().any(|basket| basket.len() > 1) {
            return Ok(());
        }
        let format = self.options.format;
        Err(self.doubt(
            None,
            format!("read as {format}, it has no transaction of two items"),
            [Remedy::new(FORMAT.to(format.to_string()), when)],
        ))
    }

    fn items_error(&self, line: Position) -> impl Fn(TransactionsError) -> ReadError + use<> {
        let file = self.file.clone();
        move |error| ReadError::Items {
            file: file.clone(),
            line,
            error,
        }
    }

    fn list_error(&self, line: Position, error: &io::Error) -> ReadError {
        self.items_error(line)(TransactionsError::of_file(error))
    }

    fn doubt(
        &self,
        line: Option<Position>,
        what: String,
        remedies: impl Into<Vec<Remedy>>,
    ) -> ReadError {
        ReadError::Doubtful {
            file: self.file.clone(),
            line,
            what,
            remedies: remedies.into(),
        }
    }
}

impl Default for Table {
    fn default() -> Self {
        Self {
            transactions: TransactionsBuilder::new().finish(),
            columns: (0, Vec::new()),
            merged: 0,
        }
    }
}

/// Row ids of a file, in the order of transactions.
struct RowIdColumn {
    /// The column with the ids; `None` if they are not read.
    place: Option<usize>,
    ids: Vec<String>,
    /// The line of each id.
    lines: Vec<Position>,
}

impl RowIdColumn {
    fn new(header: &Header, reader: &Reader<'_, '_, '_>) -> Result<Self, ReadError> {
        let column = reader.options.row_ids.as_deref();
        let find = |column| header.find(&reader.file, ROW_IDS, column);
        Ok(Self {
            place: column.map(find).transpose()?,
            ids: Vec::new(),
            lines: Vec::new(),
        })
    }

    /// Adds the id of the current row, empty if the cell has no value.
    fn push(&mut self, reader: &Reader<'_, '_, '_>, line: Position) {
        let Some(place) = self.place else {
            return;
        };
        let cells = &reader.records.cells;
        let id = match (place < cells.len()).then(|| cells.raw(place)) {
            None => "",
            Some(raw) if is_missing(raw) && reader.options.missing != Some(Missing::Item) => "",
            Some(raw) if reader.options.spaces == Some(Spaces::Keep) => raw,
            Some(raw) => raw.trim(),
        };
        self.ids.push(id.to_owned());
        self.lines.push(line);
    }

    /// Attaches the ids to the transactions.
    fn attach_to(self, transactions: Transactions, file: &str) -> Result<Transactions, ReadError> {
        if self.place.is_none() {
            return Ok(transactions);
        }
        let lines = self.lines;
        transactions.with_row_ids(self.ids).map_err(|error| {
            let line = match error {
                TransactionsError::RowIdMissing { row }
                | TransactionsError::RowIdLength { row, .. }
                | TransactionsError::RowIdInvisible { row }
                | TransactionsError::DuplicateRowId { row, .. } => lines[row - 1],
                _ => unreachable!("there is an id for each transaction"),
            };
            ReadError::Items {
                file: file.to_owned(),
                line,
                error,
            }
        })
    }
}

/// Unused column in long form, with the contents of its cells.
struct UnusedColumn {
    place: usize,
    is_amount: bool,
    /// `true` if all cells with a value are one-hot.
    is_one_hot: bool,
    /// The first row whose cell means no.
    no: Option<Position>,
    /// The first row without an amount, or with one that is not above 0.
    nothing: Option<Position>,
}

impl UnusedColumn {
    fn new(place: usize, name: &str) -> Self {
        Self {
            place,
            is_amount: is_amount_name(name),
            is_one_hot: true,
            no: None,
            nothing: None,
        }
    }

    fn look(&mut self, cell: &str, line: Position) {
        if self.is_one_hot && !is_missing(cell) {
            match one_hot(cell) {
                Some((set, _)) if !set => self.no = self.no.or(Some(line)),
                Some(_) => {}
                None => self.is_one_hot = false,
            }
        }
        let is_nothing = || {
            is_missing(cell)
                || cell
                    .replace(',', ".")
                    .parse::<f64>()
                    .is_ok_and(|it| it <= 0.0)
        };
        if self.is_amount && self.nothing.is_none() && is_nothing() {
            self.nothing = Some(line);
        }
    }

    /// Returns the first row that may mark its item as absent.
    fn says_no(&self) -> Option<Position> {
        self.nothing.or(self.no.filter(|_| self.is_one_hot))
    }
}

/// Packs an item of a transaction; entries sort by transaction, then item.
fn entry(transaction: u32, item: u32) -> u64 {
    u64::from(transaction) << 32 | u64::from(item)
}

/// Splits a list into names, skipping empty ones.
fn parts(list: &str, mark: char) -> impl Iterator<Item = &str> {
    list.split(mark).map(str::trim).filter(|it| !it.is_empty())
}

/// Identifiers of transactions that are whole numbers with more digits than a spreadsheet keeps.
#[derive(Default)]
struct LongNumbers {
    all: usize,
    /// The number of those that have only zeros beyond the kept digits.
    rounded: usize,
    example: String,
}

impl LongNumbers {
    /// The number of digits that a spreadsheet keeps.
    const KEPT: usize = 15;

    fn look(&mut self, id: &str) {
        let id = id.trim();
        if id.len() > Self::KEPT && id.bytes().all(|it| it.is_ascii_digit()) {
            self.all += 1;
            if id.bytes().skip(Self::KEPT).all(|it| it == b'0') {
                self.rounded += 1;
                id.clone_into(&mut self.example);
            }
        }
    }

    /// Rejects numbers if all of them are rounded.
    fn check(&self, reader: &Reader<'_, '_, '_>, line: Position) -> Result<(), ReadError> {
        const ENOUGH: usize = 3;
        if self.rounded < ENOUGH.max(self.all) || reader.options.missing == Some(Missing::Item) {
            return Ok(());
        }
        let what = format!(
            "all numbers of transactions with more than {} digits end in zeros, as {} does, so a spreadsheet may have rounded them and made one transaction of several; format the column as text there, and export it again",
            Self::KEPT,
            Excerpt::new(&self.example)
        );
        let remedy = Remedy::new(MISSING.to("item"), "if they are right");
        Err(reader.doubt(Some(line), what, [remedy]))
    }
}

fn spaces_remedies(trim: &str, keep: &str) -> Vec<Remedy> {
    vec![
        Remedy::new(SPACES.to("trim"), trim),
        Remedy::new(SPACES.to("keep"), keep),
    ]
}
