//! Detects the form of a file from its beginning. Guesses are verified on the rest while it is read; ambiguous files
//! are rejected with the options that settle the form.

use std::collections::{HashMap, HashSet};

use super::column_names::{
    is_date_name, is_id_name, is_item_name, is_person_name, is_total_name, is_transaction_name,
};
use super::error::{Excerpt, Position, ReadError, Remedy};
use super::fimi::{self, tokens};
use super::footer::{Footer, are_sums, has_units};
use super::foreign;
use super::header::{Header, header_remedies};
use super::lines::{BYTE_ORDER_MARK, Line, Lines, sample_lines};
use super::names::is_missing;
use super::one_hot::{Writing, count, one_hot};
use super::options::ReadOptions;
use super::record::{Cells, MAX_CELLS, Split, decode, is_blank};
use super::values::{Encoding, Format, Missing, Separator};
use oboro_format::wording::{
    DROP_COLUMNS, FORMAT, HEADER, ITEM_COLUMN, MISSING, ROW_IDS, SEPARATOR, TRANSACTION_COLUMN,
};

/// The number of bytes examined.
const SAMPLE_BYTES: usize = 1 << 20;
/// The least number of lines examined, if the file has as many.
const SAMPLE_LINES: usize = 4;

/// Settled reading options of a file, and which of them were detected rather than given.
pub(super) struct Detection {
    pub(super) options: ReadOptions,
    pub(super) detected_format: bool,
    pub(super) detected_separator: bool,
    pub(super) detected_header: bool,
    /// The columns of a table that have values other than 0 and 1 in the sample.
    pub(super) no_items: Vec<String>,
}

pub(super) fn settle(lines: &mut Lines<'_>, given: &ReadOptions) -> Result<Detection, ReadError> {
    let file = lines.file();
    let (sample, whole) = lines.sample(SAMPLE_BYTES, SAMPLE_LINES)?;
    if sample.starts_with(b"\xff\xfe\0\0") || sample.starts_with(b"\0\0\xfe\xff") {
        return Err(ReadError::Utf32 { file });
    }
    if sample.starts_with(b"\xff\xfe") || sample.starts_with(b"\xfe\xff") {
        return Err(ReadError::Utf16 { file });
    }
    let encoding = given.encoding.unwrap_or(Encoding::Utf8);
    if encoding == Encoding::Latin1 && sample.starts_with(BYTE_ORDER_MARK) {
        return Err(ReadError::Utf8Mark { file });
    }
    let of_fimi = |detected_format| Detection {
        options: ReadOptions {
            missing: given.missing,
            unicode: given.unicode,
            skip_first: given.skip_first,
            taxonomy: given.taxonomy.clone(),
            ..ReadOptions::of(Format::Fimi)
        },
        detected_format,
        detected_separator: false,
        detected_header: false,
        no_items: Vec::new(),
    };
    check_options(&file, given)?;
    if given.format == Format::Fimi {
        return Ok(of_fimi(false));
    }
    let skipped = lines.skipped();
    let lines_of = |sample| sample_lines(sample, skipped);
    let first = lines_of(&sample).find(|line| !line.is_blank());
    let Some(first) = first else {
        // An empty file has no transactions in any format.
        return Ok(of_fimi(false));
    };
    // Numbers between tabs may be column names.
    let numbers = |line: &Line<'_>| line.is_blank() || looks_like_numbers(line.bytes);
    let is_header =
        || first.bytes.contains(&b'\t') && lines_of(&sample).filter(|it| !numbers(it)).count() > 1;
    if given.format == Format::Auto
        && given.row_ids.is_some()
        && first.bytes.contains(&b' ')
        && looks_like_numbers(first.bytes)
    {
        return Err(no_columns(&file));
    }
    if fimi::has_names(first.bytes) {
        let others = ReadOptions {
            missing: None,
            unicode: None,
            ..given.clone()
        };
        if given.format != Format::Auto || others.are_of_csv() {
            let what = "it has numbers of items and their names, as SPMF writes them";
            let remedy = Remedy::new(FORMAT.to("fimi"), "without other options about its form");
            return Err(doubt(&file, None, what, vec![remedy]));
        }
        return Ok(of_fimi(false));
    }
    if given.format == Format::Auto
        && !given.are_of_csv()
        && looks_like_numbers(first.bytes)
        && !is_header()
    {
        check_numbers(&file, &sample, whole)?;
        return Ok(of_fimi(true));
    }
    let mut text = Vec::new();
    let count = lines_of(&sample).count();
    for line in lines_of(&sample).take(if whole { count } else { count - 1 }) {
        if line.bytes.contains(&0) {
            let line = line.number;
            return Err(ReadError::ZeroByte { file, line });
        }
        let mut decoded = String::new();
        decode(&file, line, encoding, &mut decoded)?;
        text.push(decoded);
    }
    foreign::check(&file, &text, skipped, given)?;
    if foreign::has_fixed_width(&text, given) {
        let what = "the cells of lines seem to be aligned by spaces; put separators between them, for instance with `sed -e 's/^ *//' -e 's/ *$//' -e 's/   */;/g'`";
        let remedies = vec![Remedy::new(
            [FORMAT.to("csv-basket"), SEPARATOR.to("comma")],
            "if such spaces are in names",
        )];
        return Err(doubt(&file, None, what, remedies));
    }
    let detected_separator = given.separator.is_none();
    let separator = match given.separator {
        Some(separator) => separator,
        None => separator_of(&file, &text, given)?,
    };
    let (mut records, open) = records(&file, &text, separator.byte())?.unwrap_or_default();
    if let (Some(line), true) = (open, whole) {
        let line = line + skipped;
        return Err(ReadError::UnclosedQuote { file, line });
    }
    match given.skip_last {
        Some(skip) if whole => records.truncate(records.len().saturating_sub(skip as usize)),
        None if whole && records.len() > 2 => {
            if let Some(footer) = records.last().and_then(Footer::of) {
                return Err(footer.doubt(&file, None));
            }
        }
        _ => {}
    }
    if let (Some(column), Some(first_record)) = (&given.row_ids, records.first()) {
        let header = |named| Header::new(first_record, named, Position::Line(first.number));
        let find = |named| header(named).find(&file, ROW_IDS, column);
        match given.header {
            Some(named) => find(named)?,
            None => find(true).or_else(|error| find(false).map_err(|_| error))?,
        };
    }
    let sampled = Sample {
        file,
        first_line: Position::Line(first.number),
        records,
        given,
        left_out: given.non_item_columns(),
    };
    sampled.check_units()?;
    sampled.check_sums(whole)?;
    let form = sampled.form()?;
    if form.format == Format::CsvBasket && !given.bins.is_empty() {
        return Err(useless(&sampled.file, Format::CsvBasket));
    }
    Ok(Detection {
        no_items: sampled.no_items(form.format),
        detected_format: given.format == Format::Auto,
        detected_separator,
        detected_header: given.header.is_none(),
        options: ReadOptions {
            format: form.format,
            separator: Some(separator),
            header: Some(form.header),
            encoding: Some(encoding),
            transaction_columns: form.transaction_columns,
            item_column: form.item_column,
            ..given.clone()
        },
    })
}

fn doubt(
    file: &str,
    line: Option<Position>,
    what: impl Into<String>,
    remedies: Vec<Remedy>,
) -> ReadError {
    ReadError::Doubtful {
        file: file.to_owned(),
        line,
        what: what.into(),
        remedies,
    }
}

/// Rejects row ids for a file of numbers.
fn no_columns(file: &str) -> ReadError {
    let remedies = vec![Remedy::new(
        [
            FORMAT.to("csv-basket"),
            SEPARATOR.to("space"),
            HEADER.to(false),
            ROW_IDS.to("1"),
        ],
        "if the first number of each line is its id",
    )];
    let what = "FIMI's lines of numbers have no column for row ids";
    doubt(file, None, what, remedies)
}

/// Rejects options that do not apply to the format.
fn check_options(file: &str, given: &ReadOptions) -> Result<(), ReadError> {
    let item = given.item_column.is_some();
    let transaction = !given.transaction_columns.is_empty();
    if let Some(column) = given.row_ids.as_ref()
        && given.drop_columns.contains(column)
    {
        let what = format!(
            "the column {} is given as that of row ids and to be left out",
            Excerpt::new(column)
        );
        let remedies = vec![
            Remedy::new(ROW_IDS.to(column.as_str()), "if it has row ids"),
            Remedy::new(
                DROP_COLUMNS.to(&[column.as_str()][..]),
                "if it is to be left out",
            ),
        ];
        return Err(doubt(file, None, what, remedies));
    }
    if given.format == Format::Fimi && given.row_ids.is_some() {
        return Err(no_columns(file));
    }
    let is_useless = match given.format {
        Format::Fimi => given.are_of_csv(),
        Format::CsvBasket => item || transaction || !given.bins.is_empty(),
        Format::CsvOneHot | Format::CsvCounts => item,
        Format::Auto | Format::CsvLong => false,
    };
    if is_useless {
        Err(useless(file, given.format))
    } else {
        Ok(())
    }
}

/// Rejects options that do not apply to the form.
fn useless(file: &str, format: Format) -> ReadError {
    let what = format!("{format} has no use for all of the options given");
    let remedy = Remedy::new(FORMAT, "with another form, or leave them out");
    doubt(file, None, what, vec![remedy])
}

/// Settles the options of a typed table, whose columns have names.
#[cfg(feature = "arrow")]
pub(super) fn settle_table(
    file: &str,
    names: &Cells,
    rows: Vec<Cells>,
    has_lists: bool,
    given: &ReadOptions,
) -> Result<Detection, ReadError> {
    use oboro_format::wording::{ENCODING, SKIP_FIRST};

    check_options(file, given)?;
    let of_text = [
        given.separator.map(|it| SEPARATOR.to(it.to_string())),
        given.header.map(|it| HEADER.to(it)),
        given.encoding.map(|it| ENCODING.to(it.to_string())),
    ];
    if let Some(option) = of_text.into_iter().flatten().next() {
        let file = file.to_owned();
        return Err(ReadError::NotText { file, option });
    }
    if given.format == Format::Fimi || given.format == Format::CsvBasket && !has_lists {
        let what = format!("it is a table of columns, and no file of {}", given.format);
        let remedy = Remedy::new(FORMAT, "with another form, or leave it out");
        return Err(doubt(file, None, what, vec![remedy]));
    }
    if let Some(lines) = given.skip_first {
        let option = SKIP_FIRST.to(lines as usize);
        let file = file.to_owned();
        return Err(ReadError::NotText { file, option });
    }
    let given_with_names = ReadOptions {
        header: Some(true),
        ..given.clone()
    };
    let sampled = Sample {
        file: file.to_owned(),
        first_line: Position::Schema,
        records: std::iter::once(names.clone()).chain(rows).collect(),
        given: &given_with_names,
        left_out: given.non_item_columns(),
    };
    let form = if has_lists {
        let form = sampled.lists()?;
        if !given.bins.is_empty() {
            return Err(useless(file, Format::CsvBasket));
        }
        form
    } else {
        let header = sampled.header();
        for (setting, column) in [(ROW_IDS, &given.row_ids), (ITEM_COLUMN, &given.item_column)] {
            if let Some(column) = column {
                header.find(file, setting, column)?;
            }
        }
        sampled.form()?
    };
    Ok(Detection {
        no_items: sampled.no_items(form.format),
        detected_format: given.format == Format::Auto,
        detected_separator: false,
        detected_header: false,
        options: ReadOptions {
            format: form.format,
            transaction_columns: form.transaction_columns,
            item_column: form.item_column,
            ..given.clone()
        },
    })
}

/// Detects the separator of a file that has only names.
pub(super) fn separator_of_file(lines: &mut Lines<'_>) -> Result<Separator, ReadError> {
    let (sample, _) = lines.sample(SAMPLE_BYTES, SAMPLE_LINES)?;
    let text: Vec<String> = sample_lines(&sample, 0)
        .map(|line| String::from_utf8_lossy(line.bytes).into_owned())
        .collect();
    let given = ReadOptions::of(Format::CsvLong);
    separator_of(&lines.file(), &text, &given)
}

fn looks_like_numbers(line: &[u8]) -> bool {
    let numeric = |byte: &u8| byte.is_ascii_digit() || matches!(byte, b'-' | b'+' | b'.');
    let has_digit = |token: &[u8]| token.iter().any(u8::is_ascii_digit);
    tokens(line).all(|token| token.iter().all(numeric) && has_digit(token))
}

/// Rejects numbers that may be a table with equal counts on every line: only tabs between them, a line that does not
/// ascend, or leading numbers that repeat in order. Rejects lines that begin with a number or a count.
fn check_numbers(file: &str, sample: &[u8], whole: bool) -> Result<(), ReadError> {
    let count = sample_lines(sample, 0).count();
    let complete = sample_lines(sample, 0).take(if whole { count } else { count - 1 });
    let rows: Vec<(&[u8], Vec<&[u8]>)> = complete
        .filter(|line| !line.is_blank())
        .map(|line| (line.bytes, tokens(line.bytes).collect()))
        .collect();
    let tabs = rows.iter().all(|(line, _)| !line.contains(&b' '));
    let separator = SEPARATOR.to(if tabs { "tab" } else { "space" });
    let number = |token: &[u8]| std::str::from_utf8(token).ok()?.parse::<usize>().ok();
    let firsts: Vec<Option<usize>> = rows.iter().map(|(_, row)| number(row[0])).collect();
    let others = rows.iter().map(|(_, row)| row.len() - 1);
    if is_numbering(&firsts, others) {
        return Err(doubt(
            file,
            None,
            "the first number of each line seems to be no item, but to number the line or count its items",
            vec![
                Remedy::new(
                    [
                        FORMAT.to("csv-basket"),
                        separator,
                        HEADER.to(false),
                        DROP_COLUMNS.to(&["1"][..]),
                    ],
                    "to leave it out",
                ),
                Remedy::new(FORMAT.to("fimi"), "if it is an item"),
            ],
        ));
    }
    let width = rows.first().map_or(0, |(_, row)| row.len());
    if rows.len() < 2 || width < 2 || rows.iter().any(|(_, row)| row.len() != width) {
        return Ok(());
    }
    let ascends = |row: &[&[u8]]| row.is_sorted_by(|a, b| number(a) < number(b));
    let ascend = rows.iter().all(|(_, row)| ascends(row));
    let repeated = firsts.is_sorted() && firsts.iter().collect::<HashSet<_>>().len() < firsts.len();
    if !tabs && ascend && !repeated {
        return Ok(());
    }
    Err(doubt(
        file,
        None,
        format!("every line has {width} numbers, so it may be a table"),
        vec![
            Remedy::new(FORMAT.to("fimi"), "if each line is a transaction"),
            Remedy::new(
                [
                    FORMAT.to("csv-long"),
                    separator.clone(),
                    HEADER.to(false),
                    TRANSACTION_COLUMN.to_each(["1"]),
                    ITEM_COLUMN.to("2"),
                ],
                "if each line is one item of a transaction (columns count from 1)",
            ),
            Remedy::new(
                [FORMAT.to("csv-onehot"), separator],
                "if each column is an item",
            ),
        ],
    ))
}

/// Splits the lines into records, and returns the line number of an incomplete one; `None` if this separator is
/// impossible.
#[allow(clippy::type_complexity)]
fn records(
    file: &str,
    lines: &[String],
    separator: u8,
) -> Result<Option<(Vec<Cells>, Option<u64>)>, ReadError> {
    let mut records = Vec::new();
    let mut open = String::new();
    let mut begun = None;
    for (line, number) in lines.iter().zip(1..) {
        if open.is_empty() && is_blank(line, separator) {
            continue;
        }
        open.push_str(line);
        let mut cells = Cells::default();
        match cells.split(&open, separator) {
            Split::Whole => {
                records.push(cells);
                open.clear();
                begun = None;
            }
            Split::Open => {
                open.push('\n');
                begun = begun.or(Some(number));
            }
            Split::AfterQuote => return Ok(None),
            Split::TooMany => {
                return Err(ReadError::TooManyCells {
                    file: file.to_owned(),
                    line: number,
                    limit: MAX_CELLS,
                });
            }
        }
    }
    Ok(Some((records, begun)))
}

/// Detects the character that separates cells; of several, the one that gives every record as many cells.
fn separator_of(file: &str, lines: &[String], given: &ReadOptions) -> Result<Separator, ReadError> {
    let mut present = Vec::new();
    let mut regular = Vec::new();
    for separator in Separator::CANDIDATES {
        let Some((records, _)) = records(file, lines, separator.byte())? else {
            continue;
        };
        let width = records.first().map_or(0, Cells::len);
        if records.iter().any(|record| record.len() > 1) {
            present.push(separator);
            if records.iter().all(|record| record.len() == width) {
                regular.push(separator);
            }
        }
    }
    match (&present[..], &regular[..]) {
        (&[only], _) | (_, &[only]) => return Ok(only),
        ([], _)
            if given.format == Format::CsvBasket
                && lines
                    .iter()
                    .any(|line| line.trim().contains(' ') && !line.contains('"')) =>
        {
            return Err(doubt(
                file,
                None,
                "spaces may separate items",
                vec![
                    Remedy::new(SEPARATOR.to("space"), "if they do"),
                    Remedy::new(SEPARATOR.to("comma"), "if each line is one item"),
                ],
            ));
        }
        ([], _) if given.format != Format::Auto || lines.iter().any(|line| line.contains('"')) => {
            return Ok(Separator::COMMA);
        }
        ([], _) => {
            let mut remedies = vec![Remedy::new(
                FORMAT.to("csv-basket"),
                format!(
                    "if each line is one item, or has items separated by what `{SEPARATOR}` gives"
                ),
            )];
            if lines.iter().any(|line| line.trim().contains(' ')) {
                remedies.push(Remedy::new(
                    [FORMAT.to("csv-basket"), SEPARATOR.to("space")],
                    "if spaces separate items",
                ));
            }
            let what = "cannot tell the format: there is nothing that separates items";
            return Err(doubt(file, None, what, remedies));
        }
        _ => {}
    }
    let all: Vec<String> = present.iter().map(ToString::to_string).collect();
    Err(doubt(
        file,
        None,
        format!("{} may separate cells", all.join(" and ")),
        all.iter()
            .map(|it| Remedy::new(SEPARATOR.to(it.as_str()), ""))
            .collect(),
    ))
}

/// Settled form.
struct Form {
    format: Format,
    header: bool,
    transaction_columns: Vec<String>,
    item_column: Option<String>,
}

/// First records of a file.
struct Sample<'g> {
    file: String,
    first_line: Position,
    records: Vec<Cells>,
    given: &'g ReadOptions,
    /// The columns without items, as given.
    left_out: Vec<String>,
}

impl Sample<'_> {
    fn form(&self) -> Result<Form, ReadError> {
        let given = self.given;
        let form = |format, header: bool| Form {
            format,
            header: given.header.unwrap_or(header),
            transaction_columns: given.transaction_columns.clone(),
            item_column: given.item_column.clone(),
        };
        match given.format {
            Format::CsvOneHot | Format::CsvCounts => {
                self.check_one_hot_header(given.format)?;
                return Ok(form(given.format, true));
            }
            Format::CsvLong => return self.long(),
            Format::CsvBasket => {
                self.check_basket_header()?;
                return Ok(form(Format::CsvBasket, false));
            }
            Format::Auto | Format::Fimi => {}
        }
        if given.item_column.is_some() {
            return self.long();
        }
        let table = self.table()?;
        let is_stored_table = self.first_line == Position::Schema;
        if self.is_long_header() {
            if table {
                let what = "it may be a table of 0 and 1 or one of transactions and items";
                let one_hot = Remedy::new(FORMAT.to("csv-onehot"), "if each column is an item");
                let long = Remedy::new(
                    FORMAT.to("csv-long"),
                    "if each line is one item of a transaction",
                );
                return Err(self.doubt(what, vec![one_hot, long]));
            }
            return self.long();
        }
        if table {
            return Ok(form(Format::CsvOneHot, true));
        }
        if !given.transaction_columns.is_empty() || is_stored_table {
            return self.long();
        }
        self.check_baskets()?;
        Ok(form(Format::CsvBasket, false))
    }

    /// Settles the form of a table with a list of items in each row.
    #[cfg(feature = "arrow")]
    fn lists(&self) -> Result<Form, ReadError> {
        let header = self.header();
        let (_, others) = header
            .names
            .split_last()
            .expect("there is a column of lists");
        let others = others.iter().filter(|it| !self.left_out.contains(it));
        let others: Vec<&str> = self.dropped().chain(others.map(String::as_str)).collect();
        let given = self.given;
        if given.item_column.is_some() || !given.transaction_columns.is_empty() {
            return Err(useless(&self.file, Format::CsvBasket));
        }
        if others.len() > given.drop_columns.len() {
            let what = "beside the column of lists of items there are others";
            let remedy = Remedy::new(DROP_COLUMNS.to(&others[..]), "to leave them out");
            return Err(self.doubt(what, vec![remedy]));
        }
        Ok(Form {
            format: Format::CsvBasket,
            header: true,
            transaction_columns: Vec::new(),
            item_column: None,
        })
    }

    fn doubt(&self, what: impl Into<String>, remedies: Vec<Remedy>) -> ReadError {
        doubt(&self.file, Some(self.first_line), what, remedies)
    }

    /// Returns the header, assuming one unless the options exclude it.
    fn header(&self) -> Header {
        let none = Cells::default();
        let first = self.records.first().unwrap_or(&none);
        Header::new(first, self.given.header != Some(false), self.first_line)
    }

    /// Returns the records after the header.
    fn rows(&self) -> &[Cells] {
        let header = usize::from(self.given.header != Some(false));
        self.records.get(header..).unwrap_or_default()
    }

    fn is_rectangular(&self) -> bool {
        let width = self.records.first().map_or(0, Cells::len);
        self.records.iter().all(|record| record.len() == width)
    }

    /// Rejects a row below the header that has only units or types.
    fn check_units(&self) -> Result<(), ReadError> {
        let given = self.given;
        let is_possible = given.header != Some(false)
            && given.format != Format::CsvBasket
            && given.missing != Some(Missing::Item)
            && self.records.len() > 2
            && self.records[..3]
                .iter()
                .all(|it| it.len() == self.records[0].len())
            && self.records[0].len() > 1;
        if !is_possible || !has_units(&self.records[1]) || has_units(&self.records[2]) {
            return Ok(());
        }
        let what = "the row below the header seems to give units or types; take it out of the file, for instance with `sed 2d`";
        let remedies = vec![Remedy::new(MISSING.to("item"), "if it is data")];
        Err(self.doubt(what, remedies))
    }

    /// Rejects a last row with the sums of columns of 0 and 1.
    fn check_sums(&self, whole: bool) -> Result<(), ReadError> {
        if !whole || self.given.skip_last.is_some() || !self.is_rectangular() {
            return Ok(());
        }
        let Some((last, rows)) = self.rows().split_last() else {
            return Ok(());
        };
        let bit = |cell: &str| one_hot(cell).map(|(set, _)| set);
        let header = self.header();
        let is_of_bits = |&place: &usize| {
            !is_id_name(&header.names[place])
                && rows.iter().all(|row| bit(row.cell(place)).is_some())
        };
        let places: Vec<usize> = (0..last.len()).filter(is_of_bits).collect();
        let sum = |&place: &usize| {
            let set = |row: &&Cells| bit(row.cell(place)) == Some(true);
            rows.iter().filter(set).count() as u64
        };
        let sums: Vec<u64> = places.iter().map(sum).collect();
        let row: Vec<Option<u64>> = places.iter().map(|&it| count(last.cell(it))).collect();
        if are_sums(&sums, &row, rows.len() as u64) {
            return Err(Footer::Totals.doubt(&self.file, None));
        }
        Ok(())
    }

    /// Returns true if this is clearly a table of 0 and 1, and false if it is unlike a table. Rejects a doubtful
    /// table.
    fn table(&self) -> Result<bool, ReadError> {
        let (header, rows) = (self.header(), self.rows());
        if rows.is_empty() || !self.is_rectangular() {
            return Ok(false);
        }
        let kinds = self.kinds(&header);
        let no_items: Vec<&Kind> = kinds.iter().filter(|it| it.is_no_item()).collect();
        let items: Vec<&Kind> = kinds.iter().filter(|it| !it.is_no_item()).collect();
        let bits = items
            .iter()
            .filter(|it| it.counts == 0 && it.bits > 0)
            .count();
        let counted = items.iter().filter(|it| it.counts > 0).count();
        // Other tables may have one column of 0 and 1, or of numbers, too.
        let enough = match (no_items.len(), counted) {
            (0, 0) => bits > 0 && bits == items.len(),
            (0, _) => true,
            (_, 0) => bits >= 2,
            (others, _) => bits >= 2 || counted + bits >= 2 && others == 1,
        };
        let bits_only = |it: &Kind| it.bits > 0 && it.counts + it.missing + it.others == 0;
        let has_items = kinds
            .iter()
            .any(|it| is_item_name(&it.name) && !bits_only(it));
        let is_long = self.is_long_header() && has_items && (counted > 0 || !no_items.is_empty());
        if items.is_empty() || !enough || is_long {
            return Ok(false);
        }
        let first = &self.records[0];
        let all = |is: fn(&str) -> bool| items.iter().all(|it| is(first.cell(it.place)));
        let is_number = |cell: &str| count(cell).is_some();
        if self.given.header.is_none()
            && (all(|cell| one_hot(cell).is_some()) || counted > 0 && all(is_number))
        {
            let (named, numbered): (Vec<&str>, Vec<String>) = no_items
                .iter()
                .map(|it| (it.name.as_str(), (it.place + 1).to_string()))
                .unzip();
            let numbered: Vec<&str> = numbered.iter().map(String::as_str).collect();
            let one_hot = |header: bool, names: &[&str]| {
                let dropped = (!names.is_empty()).then(|| DROP_COLUMNS.to(names));
                let settings = [FORMAT.to("csv-onehot"), HEADER.to(header)];
                settings.into_iter().chain(dropped).collect::<Vec<_>>()
            };
            return Err(self.doubt(
                "the first line may be a header or, like the others, a transaction",
                vec![
                    Remedy::new(
                        [FORMAT.to("csv-basket"), HEADER.to(false)],
                        "if each line lists the items of a transaction",
                    ),
                    Remedy::new(one_hot(true, &named), "if the first line names items"),
                    Remedy::new(
                        one_hot(false, &numbered),
                        "if each column is an item without a name",
                    ),
                ],
            ));
        }
        let mut settings = Vec::new();
        let mut reasons = Vec::new();
        let mut remedies = Vec::new();
        let counts: Vec<&Kind> = items.iter().copied().filter(|it| it.counts > 0).collect();
        let never_0 = counts.iter().find(|it| it.zeros == 0);
        if counted > 0 && (bits > 0 || never_0.is_some()) {
            let drops = no_items.iter().chain(&counts).map(|it| it.name.as_str());
            let drops: Vec<&str> = self.dropped().chain(drops).collect();
            if bits > 0 {
                remedies.push(Remedy::new(
                    [FORMAT.to("csv-onehot"), DROP_COLUMNS.to(&drops[..])],
                    "to leave out the columns that are not 0 and 1",
                ));
            }
            if let Some(column) = never_0 {
                if no_items.iter().any(|it| it.others > 0) {
                    let when = "if each line is one item of a transaction";
                    remedies.push(Remedy::new(FORMAT.to("csv-long"), when));
                }
                return Err(self.doubt(
                    format!(
                        "the numbers in column {} do not look like counts, which are sometimes 0; if they are codes of yes and no, write them as 1 and 0",
                        Excerpt::new(&column.name)
                    ),
                    remedies,
                ));
            }
        }
        if counted > 0 {
            settings.push(FORMAT.to("csv-counts"));
            reasons.push("cells that are counts".to_owned());
        }
        if let Some(first) = no_items.first() {
            let names = no_items.iter().map(|it| it.name.as_str());
            let names: Vec<&str> = self.dropped().chain(names).collect();
            settings.push(DROP_COLUMNS.to(&names[..]));
            reasons.push(format!(
                "columns that do not look like items, e.g. {}",
                Excerpt::new(&first.name)
            ));
        }
        let missing = items.iter().find(|it| it.missing > 0);
        if let Some(column) = missing.filter(|_| self.given.missing != Some(Missing::Absent)) {
            settings.push(MISSING.to("absent"));
            reasons.push(format!(
                "cells without a value, in column {} for one",
                Excerpt::new(&column.name)
            ));
        }
        let writings: HashSet<Writing> =
            items.iter().flat_map(|it| &it.writings).copied().collect();
        if writings.len() > 1 {
            if counted == 0 {
                settings.push(FORMAT.to("csv-onehot"));
            }
            reasons.push("several ways of writing yes and no".to_owned());
        }
        if settings.is_empty() {
            return Ok(true);
        }
        remedies.push(Remedy::new(
            settings,
            match counted {
                0 => "to read it so",
                _ => "if an item is in the transactions where its count is above 0",
            },
        ));
        if let [id] = no_items[..]
            && id.is_id
            && id.others + id.counts + id.missing == 0
        {
            remedies.push(Remedy::new(FORMAT.to("csv-onehot"), "if that is an item"));
        }
        Err(self.doubt(
            format!(
                "it looks like a one-hot table with {}",
                reasons.join(" and ")
            ),
            remedies,
        ))
    }

    /// Returns the columns to drop, as given.
    fn dropped(&self) -> impl Iterator<Item = &str> {
        self.given.drop_columns.iter().map(|it| it.trim())
    }

    /// Classifies the columns that may hold items.
    fn kinds(&self, header: &Header) -> Vec<Kind> {
        let ids = self.given.transaction_columns.iter().map(|it| it.trim());
        let left_out = self.left_out.iter().map(|it| it.trim());
        let left_out: HashSet<&str> = left_out.chain(ids).collect();
        (0..header.names.len())
            .filter(|&place| !left_out.contains(header.names[place].as_str()))
            .map(|place| Kind::of(&header.names[place], place, self.rows()))
            .collect()
    }

    /// Returns the columns of a table with cells that do not fit its form.
    fn no_items(&self, format: Format) -> Vec<String> {
        let is_table = [Format::CsvOneHot, Format::CsvCounts].contains(&format);
        if !is_table || !self.is_rectangular() {
            return Vec::new();
        }
        let is_other = |it: &Kind| it.others > 0 || it.counts > 0 && format == Format::CsvOneHot;
        let kinds = self.kinds(&self.header()).into_iter().filter(is_other);
        kinds.map(|it| it.name).collect()
    }

    /// Rejects the first line of a table if it may be a transaction.
    fn check_one_hot_header(&self, format: Format) -> Result<(), ReadError> {
        let Some(first) = self.records.first() else {
            return Ok(());
        };
        let is_cell = |cell: &str| match format {
            Format::CsvCounts => count(cell).is_some(),
            _ => one_hot(cell).is_some(),
        };
        let kept = self.kinds(&self.header());
        if self.given.header.is_some()
            || kept.is_empty()
            || !kept.iter().all(|it| is_cell(first.cell(it.place)))
        {
            return Ok(());
        }
        Err(self.doubt(
            "the first line may be a header or, like the others, a transaction",
            vec![
                Remedy::new(HEADER.to(true), "if it names items"),
                Remedy::new(HEADER.to(false), "if it is a transaction"),
            ],
        ))
    }

    /// Returns true if the header names an identifier of transactions, and items.
    fn is_long_header(&self) -> bool {
        let header = self.header();
        let named = |names: fn(&str) -> bool| header.names.iter().any(|it| names(it));
        self.given.header != Some(false) && named(is_transaction_name) && named(is_item_name)
    }

    /// Settles the columns of a file in long form, as given or detected by name.
    fn long(&self) -> Result<Form, ReadError> {
        let given = self.given;
        let header = self.header();
        let all = |is: fn(&str) -> bool| -> Vec<String> {
            let names = header
                .names
                .iter()
                .filter(|name| !given.drop_columns.contains(name));
            names.filter(|name| is(name)).cloned().collect()
        };
        let has_names = given.header != Some(false);
        let named = |is: fn(&str) -> bool| if has_names { all(is) } else { Vec::new() };
        let items = match &given.item_column {
            Some(item) => vec![item.clone()],
            None => named(is_item_name),
        };
        // Row ids identify the transaction.
        let mut transactions: Vec<Vec<String>> = match &given.transaction_columns[..] {
            [] if given.row_ids.is_some() => vec![given.row_ids.iter().cloned().collect()],
            [] => named(is_transaction_name)
                .into_iter()
                .map(|it| vec![it])
                .collect(),
            columns => vec![columns.to_vec()],
        };
        transactions.retain(|it| given.item_column.is_none() || *it != items);
        if given.transaction_columns.is_empty() && given.row_ids.is_none() {
            // Rows of one person, or of one number in a shop or on a day, may belong to several transactions.
            let alone = transactions.clone();
            let dates = named(is_date_name);
            if alone.len() > 1 {
                transactions.push(alone.concat());
            }
            transactions.extend(alone.iter().flat_map(|it| {
                dates
                    .iter()
                    .map(|date| [it.clone(), vec![date.clone()]].concat())
            }));
        }
        let form = |transaction: &[String], item: &str| Form {
            format: Format::CsvLong,
            header: has_names,
            transaction_columns: transaction.to_vec(),
            item_column: Some(item.to_owned()),
        };
        if let ([transaction], [item]) = (&transactions[..], &items[..]) {
            return Ok(form(transaction, item));
        }
        // If no name is recognised, any column is possible.
        let others = |of: Vec<String>| if of.is_empty() { all(|_| true) } else { of };
        let items = others(items);
        let mut transactions = if transactions.is_empty() {
            others(Vec::new()).into_iter().map(|it| vec![it]).collect()
        } else {
            transactions
        };
        let is_unique = |columns: &Vec<String>| {
            let places: Vec<usize> = (0..header.names.len())
                .filter(|&it| columns.contains(&header.names[it]))
                .collect();
            let id = |row: &Cells| -> Vec<String> {
                let cells = places.iter().filter(|&&it| it < row.len());
                cells.map(|&it| row.cell(it).to_owned()).collect()
            };
            let rows = self.rows();
            rows.len() > 4 && rows.iter().map(id).collect::<HashSet<_>>().len() == rows.len()
        };
        if transactions.iter().any(|it| !is_unique(it)) {
            transactions.retain(|it| !is_unique(it));
        }
        transactions.truncate(2 * MOST_COLUMNS);
        let mut remedies = Vec::new();
        for transaction in &transactions {
            for item in items
                .iter()
                .filter(|item| !transaction.contains(item))
                .take(MOST_COLUMNS)
            {
                let columns = [
                    TRANSACTION_COLUMN.to_each(transaction),
                    ITEM_COLUMN.to(item.as_str()),
                ];
                remedies.push(Remedy::new(columns, ""));
            }
        }
        if remedies.is_empty() {
            remedies.push(Remedy::new(
                TRANSACTION_COLUMN,
                format!("and `{ITEM_COLUMN}` with their names"),
            ));
        }
        Err(self.doubt(
            format!(
                "the header {} does not say which columns name the transaction and the item",
                Excerpt::new(header.names.join(","))
            ),
            remedies,
        ))
    }

    /// Rejects a possible table, and baskets with cells that are not items.
    fn check_baskets(&self) -> Result<(), ReadError> {
        let given = self.given;
        if self.records.is_empty() {
            return Ok(());
        }
        let is_header = self.is_basket_header();
        let columns = Header::new(&self.records[0], is_header, self.first_line);
        let rows = &self.records[usize::from(is_header)..];
        let first = &columns.names[0];
        let numbered = !self.left_out.contains(first) && has_numbered_rows(rows);
        let mut basket = vec![FORMAT.to("csv-basket")];
        if given.header.is_none() {
            basket.push(HEADER.to(is_header));
        }
        if numbered {
            let drops: Vec<&str> = [first.as_str()].into_iter().chain(self.dropped()).collect();
            let mut dropping = basket.clone();
            dropping.push(DROP_COLUMNS.to(&drops[..]));
            let mut remedies = vec![
                Remedy::new(dropping, "to leave it out"),
                Remedy::new(basket, "if it is an item"),
            ];
            if self.is_rectangular() {
                remedies.extend(self.long_remedies());
            }
            return Err(self.doubt(
                "the first cell of each line seems to be no item, but to number the line, name it or count its items",
                remedies,
            ));
        }
        if is_header && given.header.is_none() {
            return Err(self.doubt("the first line may be a header", header_remedies()));
        }
        let other_rows = self.records.get(1..).unwrap_or_default();
        let width = other_rows.first().map_or(0, Cells::len);
        let rest: HashSet<&str> = other_rows.iter().flat_map(Cells::iter).collect();
        let first_differs = width > 1
            && !self.records[0].iter().any(|name| rest.contains(name))
            && self.records[0].len() != width
            && other_rows.iter().all(|row| row.len() == width)
            && (other_rows.len() > 1 || other_rows[0].iter().all(|it| one_hot(it).is_some()));
        if first_differs {
            return Err(self.doubt(
                format!(
                    "the first line has {} cells and all others {width}, so it may be a header that does not fit them",
                    self.records[0].len()
                ),
                vec![Remedy::new([FORMAT.to("csv-basket"), HEADER.to(false)], "if each line is a transaction")],
            ));
        }
        if self.is_rectangular() && !self.are_sets() {
            return Err(self.undecidable());
        }
        Ok(())
    }

    /// Rejects a first line of baskets that may be a header.
    fn check_basket_header(&self) -> Result<(), ReadError> {
        if self.given.header.is_none() && self.is_basket_header() {
            Err(self.doubt("the first line may be a header", header_remedies()))
        } else {
            Ok(())
        }
    }

    /// Returns true if the first line is a header of baskets: it shares nothing with other lines, and has column
    /// numbers or words that occur in headers.
    fn is_basket_header(&self) -> bool {
        if let Some(header) = self.given.header {
            return header;
        }
        let Some((first, rows)) = self.records.split_first() else {
            return false;
        };
        let names: Vec<&str> = first.iter().filter(|name| !name.is_empty()).collect();
        let rest: HashSet<&str> = rows.iter().flat_map(Cells::iter).collect();
        if rows.is_empty() || names.iter().any(|name| rest.contains(name)) {
            return false;
        }
        let word = |name: &&str| {
            is_transaction_name(name)
                || is_item_name(name)
                || is_date_name(name)
                || is_id_name(name)
        };
        let mut stems: HashMap<&str, usize> = HashMap::new();
        for name in &names {
            let stem = name.trim_end_matches(|c: char| c.is_ascii_digit());
            if !stem.is_empty() && stem.len() < name.len() {
                *stems.entry(stem).or_default() += 1;
            }
        }
        let numbers = |from: usize| {
            names
                .iter()
                .zip(from..)
                .all(|(name, number)| **name == *number.to_string())
        };
        names.iter().any(word)
            || stems
                .values()
                .any(|&count| count > 1 && 2 * count >= names.len())
            || names.len() > 1 && (numbers(0) || numbers(1)) && rest.iter().any(|it| is_name(it))
    }

    /// Returns true for at least three columns, each of which shares a name with another, without a name twice in a
    /// line. Sets have this property; attributes do not, since their columns have values of their own.
    fn are_sets(&self) -> bool {
        let width = self.records[0].len();
        let mut places: HashMap<&str, HashSet<usize>> = HashMap::new();
        for record in &self.records {
            let mut seen = HashSet::new();
            for (place, name) in record.iter().enumerate().filter(|it| !it.1.is_empty()) {
                if !seen.insert(name) {
                    return false;
                }
                if is_name(name) {
                    places.entry(name).or_default().insert(place);
                }
            }
        }
        let shared: HashSet<usize> = places
            .into_values()
            .filter(|it| it.len() > 1)
            .flatten()
            .collect();
        let is_used = |&place: &usize| self.records.iter().any(|it| !it.cell(place).is_empty());
        width > 2 && !shared.is_empty() && (0..width).filter(is_used).all(|it| shared.contains(&it))
    }

    /// Suggests reading each record as one item of a transaction, if records have equal numbers of cells.
    fn long_remedies(&self) -> Vec<Remedy> {
        let header = self.header();
        let when = "if each line is one item of a transaction";
        let [transaction, item] = &header.names[..] else {
            return vec![Remedy::new(FORMAT.to("csv-long"), when)];
        };
        let columns = |header: bool, [transaction, item]: [&str; 2]| {
            [
                FORMAT.to("csv-long"),
                HEADER.to(header),
                TRANSACTION_COLUMN.to_each([transaction]),
                ITEM_COLUMN.to(item),
            ]
        };
        let mut remedies = Vec::new();
        if self.given.header != Some(false) {
            remedies.push(Remedy::new(columns(true, [transaction, item]), when));
        }
        if self.given.header != Some(true) {
            let when = "if there is no header";
            remedies.push(Remedy::new(columns(false, ["1", "2"]), when));
        }
        remedies
    }

    fn undecidable(&self) -> ReadError {
        let width = self.records[0].len();
        let mut remedies = vec![Remedy::new(
            [FORMAT.to("csv-basket"), HEADER.to(false)],
            "if each line lists the items of a transaction",
        )];
        if width > 1 {
            remedies.extend(self.long_remedies());
            remedies.push(Remedy::new(
                FORMAT.to("csv-onehot"),
                "if each column is an item",
            ));
        }
        let lines = match self.records.len() {
            1 => "the only line may be a header".to_owned(),
            _ => format!(
                "every line has {width} cells, so it may be a table (one of attributes must be made one of 0 and 1 first)"
            ),
        };
        self.doubt(lines, remedies)
    }
}

/// Returns true if a cell can only be a name: no number, no yes or no, not missing.
fn is_name(cell: &str) -> bool {
    !is_missing(cell) && cell.parse::<f64>().is_err() && one_hot(cell).is_none()
}

/// The largest number of columns of a kind that a message lists.
const MOST_COLUMNS: usize = 4;

/// Returns true if the first cell of all lines differs in kind from the other cells. It is a number where those are
/// not, has digits where those have none, is the next number, or counts the others.
fn has_numbered_rows(rows: &[Cells]) -> bool {
    let firsts: Vec<&str> = rows.iter().map(|row| row.cell(0)).collect();
    let others = || {
        rows.iter()
            .flat_map(|row| (1..row.len()).map(|place| row.cell(place)))
    };
    if rows.len() < 2 || others().all(str::is_empty) {
        return false;
    }
    let is_number = |cell: &str| cell.parse::<f64>().is_ok();
    let has_digit = |cell: &str| cell.contains(|c: char| c.is_ascii_digit());
    let number = |cell: &str| cell.parse::<usize>().ok();
    let all_numbers = firsts.iter().all(|first| is_number(first));
    let numbers: Vec<Option<usize>> = firsts.iter().map(|it| number(it)).collect();
    let items = |row: &Cells| row.iter().skip(1).filter(|it| !it.is_empty()).count();
    all_numbers && !others().any(is_number)
        || firsts.iter().all(|first| has_digit(first)) && !others().any(has_digit)
        || is_numbering(&numbers, rows.iter().map(items))
}

/// Returns true if the first numbers of lines are consecutive, or equal the number of `others`.
fn is_numbering(firsts: &[Option<usize>], others: impl Iterator<Item = usize>) -> bool {
    let first = firsts.first().copied().flatten();
    let in_order = first.is_some_and(|first| {
        let mut numbers = firsts.iter().enumerate();
        numbers.all(|(at, it)| it.is_some() && *it == first.checked_add(at))
    });
    firsts.len() > 2 && (in_order || firsts.iter().zip(others).all(|it| *it.0 == Some(it.1)))
}

/// Column with its cells classified.
struct Kind {
    place: usize,
    name: String,
    zeros: usize,
    /// `true` if it numbers rows, by its name or, for a first column of distinct numbers, by its cells.
    is_id: bool,
    bits: usize,
    /// The number of cells with a whole number above 1.
    counts: usize,
    missing: usize,
    others: usize,
    writings: HashSet<Writing>,
}

impl Kind {
    fn of(name: &str, place: usize, rows: &[Cells]) -> Self {
        let mut kind = Self {
            place,
            zeros: 0,
            name: name.to_owned(),
            is_id: is_id_name(name) || is_person_name(name) || is_total_name(name),
            bits: 0,
            counts: 0,
            missing: 0,
            others: 0,
            writings: HashSet::new(),
        };
        let mut different = HashSet::new();
        for row in rows.iter().filter(|row| place < row.len()) {
            let cell = row.cell(place);
            match (one_hot(cell), count(cell)) {
                (Some((set, writing)), _) => {
                    kind.bits += 1;
                    kind.zeros += usize::from(!set);
                    kind.writings.insert(writing);
                }
                (None, Some(_)) => kind.counts += 1,
                (None, None) if is_missing(cell) => kind.missing += 1,
                (None, None) => kind.others += 1,
            }
            if place == 0 {
                different.insert(cell);
            }
        }
        kind.is_id |= place == 0 && rows.len() > 4 && different.len() == rows.len();
        kind
    }

    /// Returns true if the column seems to hold no items.
    fn is_no_item(&self) -> bool {
        self.others > 0 || self.is_id || self.bits + self.counts == 0
    }
}
