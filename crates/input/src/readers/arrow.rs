//! Typed tables: Parquet, Arrow IPC, and Arrow batches in memory.
//!
//! Cells go to the CSV reader as text, which gives a table the same meaning in each container. The names and types of
//! columns replace what is detected in text.

mod ipc;

use std::cell::Cell;
use std::collections::VecDeque;
use std::fmt::Write as _;
use std::fs::File;
use std::io::{BufReader, Cursor, Read, Seek};
use std::panic::{AssertUnwindSafe, catch_unwind, set_hook, take_hook};
use std::sync::{Arc, Once};

use arrow_array::cast::AsArray;
use arrow_array::types::{
    Date32Type, Decimal128Type, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type,
    Int64Type, TimestampMicrosecondType, TimestampMillisecondType, TimestampNanosecondType,
    TimestampSecondType, UInt8Type, UInt16Type, UInt32Type, UInt64Type,
};
use arrow_array::{Array, ArrayRef, RecordBatch};
use arrow_schema::{ArrowError, DataType, FieldRef, Fields, Schema, SchemaRef, TimeUnit};
use bytes::Bytes;
use parquet::arrow::arrow_reader::{
    ArrowReaderMetadata, ArrowReaderOptions, ParquetRecordBatchReaderBuilder,
};
use parquet::basic::Encoding;
use parquet::file::reader::ChunkReader;
use serde_json::Value;

use self::ipc::CONTRADICTION;
use super::compression::Compression;
use super::csv;
use super::detect::settle_table;
use super::error::ReadError;
use super::how_read::{HowRead, finished};
use super::lines::MAX_LINE_BYTES;
use super::options::ReadOptions;
use super::record::{Cells, MAX_CELLS, Records, Rows};
use super::values::{Container, Format};
use crate::transactions::Transactions;

/// The number of cells sampled before a table is read.
const SAMPLE_CELLS: usize = 1 << 20;
/// The largest number of sampled rows.
const SAMPLE_ROWS: usize = 10_000;
/// The bytes of sampled text after which no further row is sampled.
const SAMPLE_BYTES: usize = 64 << 20;

/// The rows of a batch if each may repeat a long text.
const REPEATING_ROWS: usize = 16;

/// Format by the first bytes of a file.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Magic {
    Parquet,
    ArrowFile,
    ArrowStream,
}

impl Magic {
    /// The number of first bytes that identify a format.
    pub(super) const BYTES: usize = 6;

    pub(super) fn of(start: &[u8]) -> Option<Self> {
        match start {
            [b'P', b'A', b'R', b'1', ..] => Some(Self::Parquet),
            [b'A', b'R', b'R', b'O', b'W', b'1', ..] => Some(Self::ArrowFile),
            // The continuation marker before a message's length, with which no UTF-8 or UTF-16 text begins.
            [0xff, 0xff, 0xff, 0xff, ..] => Some(Self::ArrowStream),
            _ => None,
        }
    }

    fn container(self) -> Container {
        match self {
            Self::Parquet => Container::Parquet,
            Self::ArrowFile | Self::ArrowStream => Container::Arrow,
        }
    }
}

/// Batches of rows with one schema.
struct Batches<'a> {
    schema: SchemaRef,
    next: Box<dyn Iterator<Item = Result<RecordBatch, ArrowError>> + 'a>,
}

impl<'a> Batches<'a> {
    fn of_parquet(input: impl ChunkReader + 'static) -> Result<Self, ArrowError> {
        let stored = ArrowReaderMetadata::load(&input, ArrowReaderOptions::new())?;
        // As views, texts are in memory once, however many rows refer to them through a dictionary.
        let schema = with_views(stored.schema());
        let options = ArrowReaderOptions::new().with_schema(schema.clone());
        let viewed = ArrowReaderMetadata::try_new(stored.metadata().clone(), options)?;
        let groups = stored.metadata().row_groups().iter();
        let mut chunks = groups.flat_map(|it| it.columns());
        // In delta encoding, a value is decoded in full even if it shares a prefix with the previous one.
        let repeats = chunks.any(|it| it.encodings().any(|it| it == Encoding::DELTA_BYTE_ARRAY));
        let mut builder = ParquetRecordBatchReaderBuilder::new_with_metadata(input, viewed);
        if repeats {
            builder = builder.with_batch_size(REPEATING_ROWS);
        }
        let next = Box::new(builder.build()?);
        Ok(Self { schema, next })
    }

    fn of_file(input: impl Read + Seek + 'a) -> Result<Self, ArrowError> {
        let mut file = ipc::File::new(input)?;
        let schema = file.schema();
        let next = Box::new(std::iter::from_fn(move || file.next().transpose()));
        Ok(Self { schema, next })
    }

    fn of_stream(input: impl Read + 'a) -> Result<Self, ArrowError> {
        let mut stream = ipc::Stream::new(input);
        let schema = stream.schema()?;
        let next = Box::new(std::iter::from_fn(move || stream.next().transpose()));
        Ok(Self { schema, next })
    }
}

/// Converts the schema to views of texts and bytes.
fn with_views(schema: &Schema) -> SchemaRef {
    fn viewed(field: &FieldRef) -> FieldRef {
        let kind = match field.data_type() {
            DataType::Utf8 | DataType::LargeUtf8 => DataType::Utf8View,
            DataType::Binary | DataType::LargeBinary => DataType::BinaryView,
            DataType::Dictionary(_, of) if matches!(**of, DataType::Utf8 | DataType::LargeUtf8) => {
                DataType::Utf8View
            }
            DataType::List(of) => DataType::List(viewed(of)),
            DataType::LargeList(of) => DataType::LargeList(viewed(of)),
            kind => kind.clone(),
        };
        Arc::new(field.as_ref().clone().with_data_type(kind))
    }
    let fields: Fields = schema.fields().iter().map(viewed).collect();
    Arc::new(Schema::new_with_metadata(fields, schema.metadata().clone()))
}

/// Reads a table from a seekable file.
pub(super) fn read_file(
    magic: Magic,
    input: File,
    file: &str,
    options: &ReadOptions,
) -> Result<(Transactions, HowRead), ReadError> {
    read_opened(magic, file, options, move || match magic {
        Magic::Parquet => Batches::of_parquet(input),
        Magic::ArrowFile => Batches::of_file(BufReader::new(input)),
        Magic::ArrowStream => Batches::of_stream(input),
    })
}

/// Reads a table from other input. Except for a stream it is read into memory, since its index is at its end.
pub(super) fn read_input<'a>(
    magic: Magic,
    mut input: impl Read + 'a,
    file: &str,
    options: &ReadOptions,
) -> Result<(Transactions, HowRead), ReadError> {
    read_opened(magic, file, options, move || {
        if magic == Magic::ArrowStream {
            return Batches::of_stream(input);
        }
        let mut whole = Vec::new();
        input.read_to_end(&mut whole)?;
        match magic {
            Magic::Parquet => Batches::of_parquet(Bytes::from(whole)),
            _ => Batches::of_file(Cursor::new(whole)),
        }
    })
}

fn read_opened<'a>(
    magic: Magic,
    file: &str,
    options: &ReadOptions,
    open: impl FnOnce() -> Result<Batches<'a>, ArrowError>,
) -> Result<(Transactions, HowRead), ReadError> {
    let container = magic.container();
    let batches = guarded(file, container, open)?;
    read_table(batches, container, file, options)
}

/// Reads transactions from batches in memory, named `name` in messages.
///
/// # Errors
/// As [`read_path`](super::read_path); an error of the producer of the batches.
pub fn read_batches(
    schema: SchemaRef,
    batches: impl IntoIterator<Item = Result<RecordBatch, ArrowError>>,
    name: &str,
    options: &ReadOptions,
) -> Result<(Transactions, HowRead), ReadError> {
    let next = Box::new(batches.into_iter());
    read_table(Batches { schema, next }, Container::Memory, name, options)
}

thread_local! {
    /// `true` while this thread runs a decoder, whose panics are reported as errors.
    static DECODING: Cell<bool> = const { Cell::new(false) };
}

/// Suppresses the printing of panics in decoders.
fn silence_decoders() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let report = take_hook();
        set_hook(Box::new(move |panic| {
            if !DECODING.get() {
                report(panic);
            }
        }));
    });
}

/// Runs a decoder and converts a panic into an error. The decoders of Parquet and Arrow check their input, but panic
/// on cases they overlook, such as an index out of bounds.
fn guarded<T>(
    file: &str,
    container: Container,
    decode: impl FnOnce() -> Result<T, ArrowError>,
) -> Result<T, ReadError> {
    silence_decoders();
    DECODING.set(true);
    let decoded = catch_unwind(AssertUnwindSafe(decode));
    DECODING.set(false);
    let reason = match decoded {
        Ok(Ok(decoded)) => return Ok(decoded),
        Ok(Err(ArrowError::ParquetError(reason) | ArrowError::IpcError(reason))) => reason,
        Ok(Err(ArrowError::IoError(_, error))) if error.raw_os_error().is_some() => {
            let file = file.to_owned();
            return Err(ReadError::Io { file, error });
        }
        Ok(Err(error)) => error.to_string(),
        Err(_) => CONTRADICTION.to_owned(),
    };
    Err(ReadError::Table {
        file: file.to_owned(),
        container: container.to_string(),
        reason: reason.trim_end_matches('.').replace('\n', " "),
    })
}

fn read_table(
    batches: Batches<'_>,
    container: Container,
    file: &str,
    options: &ReadOptions,
) -> Result<(Transactions, HowRead), ReadError> {
    let labels = Labels::of(&batches.schema);
    let mut table = Table::new(batches, container, file, options, &labels)?;
    let has_lists = table.list.is_some();
    let sample = if has_lists {
        Vec::new()
    } else {
        table.sample()?
    };
    let settled = settle_table(file, &table.names, sample, has_lists, options)?;
    let numbers = match settled.options.format {
        Format::CsvOneHot | Format::CsvCounts => labels.are_numbers,
        _ => {
            let item = settled.options.item_column.as_deref();
            table.are_whole(item.map(str::trim))
        }
    };
    let mut read = csv::read(Records::of_rows(&mut table), &settled)?;
    read.columns.1.append(&mut table.index);
    let (transactions, mut how) = finished(
        file,
        read,
        (settled.options, options.clone()),
        (Compression::Plain, false),
    )?;
    how.container = container;
    let is_number = |name: &String| name.parse::<i64>().is_ok_and(|it| it.to_string() == *name);
    how.numbers = numbers && transactions.names().iter().all(is_number);
    Ok((transactions, how))
}

/// Metadata of a pandas frame.
struct Labels {
    /// The columns of its index.
    index: Vec<String>,
    /// `true` if the labels of its columns were whole numbers.
    are_numbers: bool,
}

impl Labels {
    fn of(schema: &Schema) -> Self {
        let noted = schema.metadata().get("pandas");
        let noted: Value = noted
            .and_then(|text| serde_json::from_str(text).ok())
            .unwrap_or_default();
        let list = |key: &str| noted[key].as_array().cloned().unwrap_or_default();
        let text = |value: &Value| value.as_str().map(str::to_owned);
        let kinds: Vec<Option<String>> = list("column_indexes")
            .iter()
            .map(|it| text(&it["pandas_type"]))
            .collect();
        Self {
            index: list("index_columns").iter().filter_map(text).collect(),
            are_numbers: kinds == [Some("int64".to_owned())],
        }
    }
}

/// Rows of a table, as cells.
struct Table<'a> {
    batches: Batches<'a>,
    container: Container,
    file: String,
    names: Cells,
    /// The columns to read, by position, and their types.
    columns: Vec<(usize, DataType)>,
    /// The column of lists of items, always the last.
    list: Option<usize>,
    /// The columns of a frame's index, which are not read.
    index: Vec<String>,
    /// Batches read ahead.
    ahead: VecDeque<RecordBatch>,
    /// The current batch, its number of rows and its next row.
    current: Option<(Vec<Column>, usize, usize)>,
    rows: u64,
}

impl<'a> Table<'a> {
    fn new(
        batches: Batches<'a>,
        container: Container,
        file: &str,
        options: &ReadOptions,
        labels: &Labels,
    ) -> Result<Self, ReadError> {
        let named: Vec<&str> = (options.transaction_columns.iter())
            .chain(&options.row_ids)
            .chain(&options.drop_columns)
            .chain(&options.item_column)
            .map(|it| it.trim())
            .chain(options.bins.iter().map(|it| it.column()))
            .collect();
        let dropped = |name: &str| {
            options
                .drop_columns
                .iter()
                .any(|it| it.trim() == name.trim())
        };
        let schema = batches.schema.clone();
        let mut columns = Vec::new();
        let mut lists = Vec::new();
        let mut index = Vec::new();
        for (place, field) in schema.fields().iter().enumerate() {
            let name = field.name();
            if labels.index.contains(name) && !named.contains(&name.trim()) {
                index.push(name.clone());
                continue;
            }
            match item_type(field.data_type()) {
                Some(Kind::Cell) => columns.push((place, field.data_type().clone())),
                Some(Kind::List) if !dropped(name) => {
                    lists.push((place, field.data_type().clone()));
                }
                // Of dropped columns, only the names are used.
                _ if dropped(name) => columns.push((place, DataType::Null)),
                _ => {
                    return Err(ReadError::ColumnType {
                        file: file.to_owned(),
                        column: name.clone(),
                        kind: field.data_type().to_string(),
                    });
                }
            }
        }
        if let [_, (second, kind), ..] = &lists[..] {
            return Err(ReadError::ColumnType {
                file: file.to_owned(),
                column: schema.field(*second).name().clone(),
                kind: format!("{kind}, beside another column of lists"),
            });
        }
        let list = lists.first().map(|(place, _)| *place);
        columns.extend(lists);
        let mut names = Cells::default();
        for (place, _) in &columns {
            names.push(|text| text.push_str(schema.field(*place).name()));
        }
        Ok(Self {
            batches,
            container,
            file: file.to_owned(),
            names,
            columns,
            list,
            index,
            ahead: VecDeque::new(),
            current: None,
            rows: 0,
        })
    }

    /// Returns true if the items in a column, or those of the lists, are whole numbers.
    fn are_whole(&self, item_column: Option<&str>) -> bool {
        let named = |&(place, _): &&(usize, DataType)| match item_column {
            Some(name) => self.batches.schema.field(*place).name().trim() == name,
            None => self.list == Some(*place),
        };
        self.columns
            .iter()
            .find(named)
            .is_some_and(|(_, kind)| match kind {
                DataType::List(field) | DataType::LargeList(field) => {
                    field.data_type().is_integer()
                }
                DataType::Dictionary(_, value) => value.is_integer(),
                kind => kind.is_integer(),
            })
    }

    /// Reads the first rows, which will be read again.
    fn sample(&mut self) -> Result<Vec<Cells>, ReadError> {
        let wanted = (SAMPLE_CELLS / self.columns.len().max(1)).clamp(1, SAMPLE_ROWS);
        let mut rows = Vec::new();
        let mut bytes = 0;
        while rows.len() < wanted && bytes < SAMPLE_BYTES {
            let Some(batch) = self.next_batch()? else {
                break;
            };
            let columns = self.columns_of(&batch)?;
            for row in 0..batch.num_rows().min(wanted - rows.len()) {
                let mut cells = Cells::default();
                self.cells(&columns, row, &mut cells)?;
                bytes += cells.bytes();
                rows.push(cells);
                if bytes >= SAMPLE_BYTES {
                    break;
                }
            }
            self.ahead.push_back(batch);
        }
        Ok(rows)
    }

    fn next_batch(&mut self) -> Result<Option<RecordBatch>, ReadError> {
        guarded(&self.file, self.container, || {
            self.batches.next.next().transpose()
        })
    }

    fn columns_of(&self, batch: &RecordBatch) -> Result<Vec<Column>, ReadError> {
        let column = |(place, kind): &(usize, DataType)| match kind {
            DataType::Null => None,
            _ => Some(batch.column(*place).clone()),
        };
        guarded(&self.file, self.container, || {
            Ok(self
                .columns
                .iter()
                .map(|it| Column::new(column(it)))
                .collect())
        })
    }

    fn cells(&self, columns: &[Column], row: usize, cells: &mut Cells) -> Result<(), ReadError> {
        guarded(&self.file, self.container, || {
            cells.clear();
            for column in columns {
                column.push(row, cells)?;
            }
            Ok(())
        })?;
        if is_too_long(cells) {
            let file = self.file.clone();
            return Err(ReadError::RowTooLong {
                file,
                text_limit: MAX_LINE_BYTES,
                cell_limit: MAX_CELLS,
            });
        }
        Ok(())
    }
}

impl Rows for Table<'_> {
    fn name(&self) -> String {
        self.file.clone()
    }

    fn names(&self) -> &Cells {
        &self.names
    }

    fn next(&mut self, cells: &mut Cells) -> Result<Option<u64>, ReadError> {
        loop {
            if let Some((columns, length, row)) = self.current.take_if(|it| it.2 < it.1) {
                self.cells(&columns, row, cells)?;
                self.current = Some((columns, length, row + 1));
                self.rows += 1;
                return Ok(Some(self.rows));
            }
            let batch = match self.ahead.pop_front() {
                Some(batch) => batch,
                None => match self.next_batch()? {
                    Some(batch) => batch,
                    None => return Ok(None),
                },
            };
            self.current = Some((self.columns_of(&batch)?, batch.num_rows(), 0));
        }
    }
}

enum Kind {
    Cell,
    List,
}

/// Classifies a type as cells or lists of cells; `None` if neither.
fn item_type(kind: &DataType) -> Option<Kind> {
    let is_cell = |kind: &DataType| {
        use DataType::{
            Binary, BinaryView, Boolean, Date32, Decimal128, Float32, Float64, LargeBinary,
            LargeUtf8, Null, Timestamp, Utf8, Utf8View,
        };
        kind.is_integer()
            || matches!(
                kind,
                Boolean | Null | Utf8 | LargeUtf8 | Utf8View | Float32 | Float64
            )
            || matches!(kind, Binary | LargeBinary | BinaryView | Date32)
            || matches!(kind, Decimal128(..) | Timestamp(..))
    };
    match kind {
        DataType::Dictionary(_, value) => is_cell(value).then_some(Kind::Cell),
        DataType::List(of) | DataType::LargeList(of) => match of.data_type() {
            DataType::Dictionary(_, value) => is_cell(value).then_some(Kind::List),
            kind => is_cell(kind).then_some(Kind::List),
        },
        kind => is_cell(kind).then_some(Kind::Cell),
    }
}

/// Returns true if a row exceeds the limits of a CSV record, [`MAX_LINE_BYTES`] or [`MAX_CELLS`].
fn is_too_long(cells: &Cells) -> bool {
    cells.bytes() > MAX_LINE_BYTES || cells.len() > MAX_CELLS
}

/// The key of a missing value.
const MISSING: usize = usize::MAX;

/// Column of one batch.
struct Column {
    /// The array; `None` if the column is dropped.
    array: Option<ArrayRef>,
    /// The position of each value of a dictionary or of lists of one, or [`MISSING`].
    keys: Option<Vec<usize>>,
    /// The values: of the dictionary, of the lists, or the array itself.
    values: Option<ArrayRef>,
}

impl Column {
    fn new(array: Option<ArrayRef>) -> Self {
        let mut values = array.clone();
        if let Some(of) = &array {
            match of.data_type() {
                DataType::List(_) => values = Some(of.as_list::<i32>().values().clone()),
                DataType::LargeList(_) => values = Some(of.as_list::<i64>().values().clone()),
                _ => {}
            }
        }
        let dictionary = values.clone();
        let dictionary = dictionary
            .as_ref()
            .and_then(|it| it.as_any_dictionary_opt());
        let keys = dictionary.map(|it| {
            values = Some(it.values().clone());
            // In an empty dictionary every value is missing.
            let mut keys = if it.values().is_empty() {
                vec![MISSING; it.len()]
            } else {
                it.normalized_keys()
            };
            for (place, key) in keys.iter_mut().enumerate() {
                if it.is_null(place) {
                    *key = MISSING;
                }
            }
            keys
        });
        Self {
            array,
            keys,
            values,
        }
    }

    /// Appends the cell of a row, or the cells of its list; nothing to a row that is too long.
    fn push(&self, row: usize, cells: &mut Cells) -> Result<(), ArrowError> {
        if is_too_long(cells) {
            return Ok(());
        }
        let Some(array) = &self.array else {
            cells.push(|_| {});
            return Ok(());
        };
        let places = match array.data_type() {
            DataType::List(_) | DataType::LargeList(_) if array.is_null(row) => 0..0,
            DataType::List(_) => {
                let offsets = array.as_list::<i32>().value_offsets();
                offsets[row] as usize..offsets[row + 1] as usize
            }
            DataType::LargeList(_) => {
                let offsets = array.as_list::<i64>().value_offsets();
                offsets[row] as usize..offsets[row + 1] as usize
            }
            _ if array.is_null(row) => {
                cells.push(|_| {});
                return Ok(());
            }
            _ => row..row + 1,
        };
        for place in places {
            let place = self.keys.as_ref().map_or(place, |keys| keys[place]);
            let mut written = Ok(());
            cells.push(|text| {
                if let Some(values) = &self.values {
                    written = write_value(values.as_ref(), place, text);
                }
            });
            written?;
            if is_too_long(cells) {
                break;
            }
        }
        Ok(())
    }
}

fn out_of_range() -> ArrowError {
    ArrowError::IpcError("it has a date that no calendar has".to_owned())
}

/// Appends a value in its CSV form; nothing if it is missing.
fn write_value(values: &dyn Array, place: usize, text: &mut String) -> Result<(), ArrowError> {
    if place >= values.len() || values.is_null(place) {
        return Ok(());
    }
    macro_rules! number {
        ($type:ty) => {
            write!(text, "{}", values.as_primitive::<$type>().value(place))
        };
    }
    macro_rules! float {
        ($type:ty) => {
            match values.as_primitive::<$type>().value(place) {
                number if number.is_nan() => Ok(()),
                // Not -0.
                number if number == 0.0 => text.write_str("0"),
                number => write!(text, "{number}"),
            }
        };
    }
    macro_rules! time {
        ($type:ty) => {
            match values.as_primitive::<$type>().value_as_datetime(place) {
                Some(time) => write!(text, "{time}"),
                None => return Err(out_of_range()),
            }
        };
    }
    macro_rules! bytes {
        ($bytes:expr) => {
            match std::str::from_utf8($bytes) {
                Ok(bytes) => text.write_str(bytes),
                Err(_) => {
                    let reason = "it has bytes where text is expected, and they are not UTF-8";
                    return Err(ArrowError::IpcError(reason.to_owned()));
                }
            }
        };
    }
    // Writing to text does not fail.
    let _ = match values.data_type() {
        DataType::Boolean => {
            let bit = values.as_boolean().value(place);
            text.write_str(if bit { "1" } else { "0" })
        }
        DataType::Int8 => number!(Int8Type),
        DataType::Int16 => number!(Int16Type),
        DataType::Int32 => number!(Int32Type),
        DataType::Int64 => number!(Int64Type),
        DataType::UInt8 => number!(UInt8Type),
        DataType::UInt16 => number!(UInt16Type),
        DataType::UInt32 => number!(UInt32Type),
        DataType::UInt64 => number!(UInt64Type),
        // Whole numbers with missing ones among them are stored as floats. Without a point they are written as
        // before.
        DataType::Float32 => float!(Float32Type),
        DataType::Float64 => float!(Float64Type),
        DataType::Decimal128(..) => {
            let number = values
                .as_primitive::<Decimal128Type>()
                .value_as_string(place);
            let plain = if number.contains('.') {
                number.trim_end_matches('0').trim_end_matches('.')
            } else {
                number.as_str()
            };
            text.write_str(plain)
        }
        DataType::Utf8 => text.write_str(values.as_string::<i32>().value(place)),
        DataType::LargeUtf8 => text.write_str(values.as_string::<i64>().value(place)),
        DataType::Utf8View => text.write_str(values.as_string_view().value(place)),
        DataType::Binary => bytes!(values.as_binary::<i32>().value(place)),
        DataType::LargeBinary => bytes!(values.as_binary::<i64>().value(place)),
        DataType::BinaryView => bytes!(values.as_binary_view().value(place)),
        DataType::Date32 => match values.as_primitive::<Date32Type>().value_as_date(place) {
            Some(date) => write!(text, "{date}"),
            None => return Err(out_of_range()),
        },
        DataType::Timestamp(TimeUnit::Second, _) => time!(TimestampSecondType),
        DataType::Timestamp(TimeUnit::Millisecond, _) => time!(TimestampMillisecondType),
        DataType::Timestamp(TimeUnit::Microsecond, _) => time!(TimestampMicrosecondType),
        DataType::Timestamp(TimeUnit::Nanosecond, _) => time!(TimestampNanosecondType),
        _ => Ok(()),
    };
    Ok(())
}

#[cfg(test)]
mod tests;
