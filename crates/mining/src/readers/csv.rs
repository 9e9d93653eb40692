//! CSV in three forms: baskets, long form and one-hot.
//!
//! A record is exactly one line: item names have no line breaks, and so a quote
//! left open is found on its own line instead of swallowing the file.

use std::collections::HashMap;

use csv_core::ReadRecordResult;

use super::error::{Excerpt, ReadError};
use super::lines::{Line, Lines};
use crate::transactions::{Transactions, TransactionsBuilder, TransactionsError};

pub(super) fn read_basket(lines: &mut Lines<'_>) -> Result<Transactions, ReadError> {
    let file = lines.file();
    let mut record = Record::default();
    let mut builder = TransactionsBuilder::new();
    while let Some(line) = lines.next()? {
        if line.is_blank() {
            continue;
        }
        record.parse(&file, line)?;
        add_basket(&mut builder, &record).map_err(|error| ReadError::Items {
            file: file.clone(),
            line: line.number,
            error,
        })?;
    }
    Ok(builder.finish().sorted_by_name())
}

fn add_basket(builder: &mut TransactionsBuilder, cells: &Record) -> Result<(), TransactionsError> {
    let names = cells.iter().filter(|name| !name.is_empty());
    let basket: Vec<u32> = names
        .map(|name| builder.item(name))
        .collect::<Result<_, _>>()?;
    builder.push(basket)
}

pub(super) fn read_long(lines: &mut Lines<'_>) -> Result<Transactions, ReadError> {
    let file = lines.file();
    let mut record = Record::default();
    let Some(header_line) = parse_header(lines, &file, &mut record)? else {
        return Ok(TransactionsBuilder::new().finish());
    };
    let header: Vec<&str> = record.iter().collect();
    let missing = |missing| ReadError::LongHeader {
        file: file.clone(),
        line: header_line,
        header: Excerpt::new(header.join(",")),
        missing,
    };
    let transaction_column =
        find_column(&header, TRANSACTION_HEADERS).ok_or_else(|| missing("transaction"))?;
    let item_column = find_column(&header, ITEM_HEADERS).ok_or_else(|| missing("item"))?;
    let cells = header.len();

    let mut builder = TransactionsBuilder::new();
    let mut transactions: HashMap<String, u32> = HashMap::new();
    let mut entries: Vec<Entry> = Vec::new();
    while let Some(line) = lines.next()? {
        if line.is_blank() {
            continue;
        }
        record.parse(&file, line)?;
        record.check_cells(&file, line, cells)?;
        let id = record.cell(transaction_column);
        if id.is_empty() {
            let line = line.number;
            return Err(ReadError::MissingTransaction { file, line });
        }
        let transaction = match transactions.get(id) {
            Some(&transaction) => transaction,
            None => {
                let next = transactions.len();
                let transaction =
                    u32::try_from(next).map_err(|_| ReadError::TooManyTransactions {
                        file: file.clone(),
                        line: line.number,
                    })?;
                transactions.insert(id.to_owned(), transaction);
                transaction
            }
        };
        let name = record.cell(item_column);
        if !name.is_empty() {
            let item = builder.item(name).map_err(|error| ReadError::Items {
                file: file.clone(),
                line: line.number,
                error,
            })?;
            entries.push(Entry { transaction, item });
        }
    }
    entries.sort_unstable();
    let mut rest = entries.as_slice();
    for transaction in 0..transactions.len() as u32 {
        let length = rest.partition_point(|entry| entry.transaction == transaction);
        let (basket, others) = rest.split_at(length);
        rest = others;
        builder
            .push(basket.iter().map(|entry| entry.item))
            .map_err(|error| ReadError::Items {
                file: file.clone(),
                line: header_line,
                error,
            })?;
    }
    Ok(builder.finish().sorted_by_name())
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Entry {
    transaction: u32,
    item: u32,
}

pub(super) fn read_one_hot(lines: &mut Lines<'_>) -> Result<Transactions, ReadError> {
    let file = lines.file();
    let mut record = Record::default();
    let Some(header_line) = parse_header(lines, &file, &mut record)? else {
        return Ok(TransactionsBuilder::new().finish());
    };
    let names: Vec<String> = record.iter().map(str::to_owned).collect();
    if let Some(place) = names.iter().position(String::is_empty) {
        return Err(ReadError::UnnamedColumn {
            file,
            line: header_line,
            column: place + 1,
        });
    }
    let items_error = |line, error| ReadError::Items {
        file: file.clone(),
        line,
        error,
    };
    let mut builder = TransactionsBuilder::with_items(names.clone())
        .map_err(|error| items_error(header_line, error))?;
    while let Some(line) = lines.next()? {
        // A blank line is the empty cell of a single item's column.
        if line.is_blank() && names.len() > 1 {
            continue;
        }
        record.parse(&file, line)?;
        record.check_cells(&file, line, names.len())?;
        let mut basket = Vec::new();
        for (item, cell) in (0u32..).zip(record.iter()) {
            match one_hot(cell) {
                Some(true) => basket.push(item),
                Some(false) => {}
                None => {
                    return Err(ReadError::OneHotCell {
                        file,
                        line: line.number,
                        column: item as usize + 1,
                        item: Excerpt::new(&names[item as usize]),
                        cell: Excerpt::new(cell),
                    });
                }
            }
        }
        builder
            .push(basket)
            .map_err(|error| items_error(line.number, error))?;
    }
    Ok(builder.finish())
}

/// Whether a one-hot cell is set, or `None` if it is no such cell.
pub(super) fn one_hot(cell: &str) -> Option<bool> {
    match cell {
        "1" | "true" | "True" | "TRUE" => Some(true),
        "0" | "false" | "False" | "FALSE" | "" => Some(false),
        _ => None,
    }
}

/// Parses the first line that is not blank; its number, or `None` if there is none.
fn parse_header(
    lines: &mut Lines<'_>,
    file: &str,
    record: &mut Record,
) -> Result<Option<u64>, ReadError> {
    while let Some(line) = lines.next()? {
        if !line.is_blank() {
            record.parse(file, line)?;
            return Ok(Some(line.number));
        }
    }
    Ok(None)
}

const TRANSACTION_HEADERS: &[&str] = &[
    "transaction",
    "transactionid",
    "transactionno",
    "transid",
    "tid",
    "order",
    "orderid",
    "orderno",
    "basket",
    "basketid",
    "invoice",
    "invoiceid",
    "invoiceno",
    "receipt",
    "receiptid",
    "receiptno",
];

const ITEM_HEADERS: &[&str] = &[
    "item",
    "itemid",
    "itemname",
    "items",
    "product",
    "productid",
    "productname",
    "article",
    "articleid",
    "sku",
    "stockcode",
];

/// Whether a header names a transaction column and an item column.
pub(super) fn is_long_header(header: &[&str]) -> bool {
    find_column(header, TRANSACTION_HEADERS).is_some()
        && find_column(header, ITEM_HEADERS).is_some()
}

/// The first column of one of these names, however it is written.
fn find_column(header: &[&str], names: &[&str]) -> Option<usize> {
    header.iter().position(|cell| {
        let plain: String = cell
            .chars()
            .filter(|c| !matches!(c, ' ' | '_' | '-' | '.'))
            .map(|c| c.to_ascii_lowercase())
            .collect();
        names.contains(&plain.as_str())
    })
}

/// The cells of one line, unquoted; kept to be filled again without allocating.
pub(super) struct Record {
    text: String,
    /// Where each cell ends in `text`.
    ends: Vec<usize>,
    parser: csv_core::Reader,
    input: Vec<u8>,
    output: Vec<u8>,
}

impl Default for Record {
    fn default() -> Self {
        Record {
            text: String::new(),
            ends: Vec::new(),
            // Not its `default`, whose tables are not built.
            parser: csv_core::Reader::new(),
            input: Vec::new(),
            output: Vec::new(),
        }
    }
}

impl Record {
    /// Takes the cells of `line`.
    pub(super) fn parse(&mut self, file: &str, line: Line<'_>) -> Result<(), ReadError> {
        let file = || file.to_owned();
        let number = line.number;
        let text = std::str::from_utf8(line.bytes).map_err(|_| ReadError::InvalidUtf8 {
            file: file(),
            line: number,
        })?;
        if text.contains('\r') {
            return Err(ReadError::CarriageReturn {
                file: file(),
                line: number,
            });
        }
        self.ends.clear();
        self.text.clear();
        if !text.contains('"') {
            self.text.extend(text.split(','));
            let mut end = 0;
            self.ends.extend(text.split(',').map(|cell| {
                end += cell.len();
                end
            }));
            return Ok(());
        }
        self.parse_quoted(text)
            .ok_or_else(|| ReadError::UnclosedQuote {
                file: file(),
                line: number,
            })
    }

    /// Takes the cells of a line with quotes; `None` if one is not closed.
    fn parse_quoted(&mut self, text: &str) -> Option<()> {
        self.input.clear();
        self.input.extend_from_slice(text.as_bytes());
        self.input.push(b'\n');
        // Unquoting only removes bytes. One more place each, since the parser
        // stops when there is none left.
        let commas = text.bytes().filter(|&byte| byte == b',').count();
        self.output.clear();
        self.output.resize(self.input.len() + 1, 0);
        self.ends.resize(commas + 2, 0);
        let (result, _, written, cells) =
            (self.parser).read_record(&self.input, &mut self.output, &mut self.ends);
        if !matches!(result, ReadRecordResult::Record) {
            return None;
        }
        self.ends.truncate(cells);
        self.text
            .push_str(std::str::from_utf8(&self.output[..written]).ok()?);
        Some(())
    }

    /// The number of cells.
    pub(super) fn len(&self) -> usize {
        self.ends.len()
    }

    /// A cell without the spaces around it. `place` is below [`len`](Self::len).
    fn cell(&self, place: usize) -> &str {
        let start = place.checked_sub(1).map_or(0, |before| self.ends[before]);
        self.text[start..self.ends[place]].trim()
    }

    /// The cells without the spaces around them.
    pub(super) fn iter(&self) -> impl Iterator<Item = &str> {
        (0..self.len()).map(|place| self.cell(place))
    }

    fn check_cells(&self, file: &str, line: Line<'_>, expected: usize) -> Result<(), ReadError> {
        if self.len() == expected {
            return Ok(());
        }
        Err(ReadError::CellCount {
            file: file.to_owned(),
            line: line.number,
            found: self.len(),
            expected,
        })
    }
}
