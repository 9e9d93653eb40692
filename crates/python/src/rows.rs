//! Owner's data before encryption: columns in any representation, baskets, files.

use crate::arrow::{self, Batches, FrameColumn};
use crate::encrypted::Encrypted;
use crate::errors::Failure;
use numpy::PyReadonlyArray1;
use numpy::ndarray::{ArrayView1, s};
use oboro_dataset::{Cells, Shuffled, Shuffler};
use oboro_input::readers::{Bin, NameRules, UnknownOption, next_after, read_batches};
use oboro_input::transactions::TransactionsError;
use oboro_input::{
    HowRead, MinSupport, ReadError, ReadOptions, Transactions, TransactionsBuilder, read_next,
};
use parking_lot::{Mutex, MutexGuard};
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyBytes, PyDict, PyString};
use std::borrow::Cow;
use std::cmp::Ordering;
use std::num::NonZeroUsize;
use std::ops::Range;
use std::path::PathBuf;
use std::str::FromStr;
use std::thread;

/// Transactions in random order, as bits: columns are added, then encrypted, once.
#[pyclass(frozen, module = "oboro._oboro")]
pub struct Rows {
    state: Mutex<State>,
    numbers: bool,
}

enum State {
    Open(Shuffler),
    Complete(Box<Shuffled>),
    Encrypted,
}

/// Returns the requested number of threads, by default one per processor of this process, up to the command's limit.
pub fn threads(asked: Option<NonZeroUsize>) -> NonZeroUsize {
    const MOST: NonZeroUsize = NonZeroUsize::new(1024).expect("it is not 0");
    let there = || thread::available_parallelism().unwrap_or(NonZeroUsize::MIN);
    asked.unwrap_or_else(there).min(MOST)
}

impl Rows {
    fn of(transactions: Transactions, numbers: bool) -> Self {
        Self {
            state: Mutex::new(State::Complete(Box::new(Shuffled::of(transactions)))),
            numbers,
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }

    /// Takes the rows out for encryption.
    pub fn take(&self) -> Result<Shuffled, Failure> {
        let rows = match std::mem::replace(&mut *self.state(), State::Encrypted) {
            State::Open(rows) => rows.finish()?,
            State::Complete(rows) => *rows,
            State::Encrypted => {
                return Err(Failure::input(
                    "these rows were encrypted, and their order must not be used again; read the data anew",
                ));
            }
        };
        Ok(if self.numbers {
            rows.with_numbers()
        } else {
            rows
        })
    }

    fn push<C: Cells>(&self, names: Vec<String>, columns: &[C]) -> Result<(), Failure> {
        if names.len() != columns.len() {
            let (names, columns) = (names.len(), columns.len());
            return Err(Failure::input(format!(
                "there are {columns} columns and {names} names; give each column one"
            )));
        }
        match &mut *self.state() {
            State::Open(rows) => {
                let columns: Vec<_> = columns.iter().map(|column| column as &dyn Cells).collect();
                rows.push(names, &columns);
                Ok(())
            }
            _ => Err(Failure::input(
                "these rows are complete; give all columns before they are used",
            )),
        }
    }

    fn transactions(&self) -> usize {
        match &*self.state() {
            State::Open(rows) => rows.transactions(),
            State::Complete(rows) => rows.len(),
            State::Encrypted => 0,
        }
    }

    /// Reads further rows of a dataset with `read`, which receives the options of its first file. They are encrypted
    /// within `memory` bytes.
    fn like(
        py: Python<'_>,
        like: Option<&Encrypted>,
        memory: Option<u64>,
        read: impl FnOnce(Option<&HowRead>) -> Result<(Transactions, HowRead), ReadError> + Send,
    ) -> PyResult<Self> {
        let like = like.map(Encrypted::dataset);
        let before = like.as_ref().and_then(|it| it.record().read.as_ref());
        let rows: Result<_, Failure> = py.detach(|| {
            Ok(match read(before) {
                // An empty append is no error.
                Err(error) if like.is_some() && error.is_of_no_transactions() => {
                    Shuffled::of(TransactionsBuilder::new().finish())
                }
                read => {
                    let (transactions, how) = read?;
                    Shuffled::of(transactions).with_how_read(how).within(memory)
                }
            })
        });
        Ok(Self {
            state: Mutex::new(State::Complete(Box::new(rows?))),
            numbers: false,
        })
    }

    fn of_batches(
        py: Python<'_>,
        batches: Batches,
        options: ReadOptions,
        like: Option<&Encrypted>,
    ) -> PyResult<Self> {
        const NAME: &str = "the table";
        Self::like(py, like, None, |before| {
            next_after(NAME, options, before, |options| {
                let rows = batches.batches.into_iter().map(Ok);
                read_batches(batches.schema, rows, NAME, options)
            })
        })
    }

    fn check_length(&self, name: &str, length: usize) -> Result<(), Failure> {
        match self.transactions() {
            transactions if transactions == length => Ok(()),
            transactions => Err(Failure::input(format!(
                "column {name:?} has {length} values where there are {transactions} transactions"
            ))),
        }
    }
}

/// Column with one byte per transaction, not 0 if it contains the item.
struct Bytes<'a>(ArrayView1<'a, u8>);

impl Cells for Bytes<'_> {
    fn mark(&self, rows: Range<usize>, bit: u32, bytes: &mut [u8]) {
        let mark = |(byte, &cell): (&mut u8, &u8)| *byte |= u8::from(cell != 0) << bit;
        match self.0.as_slice() {
            Some(cells) => bytes.iter_mut().zip(&cells[rows]).for_each(mark),
            None => bytes.iter_mut().zip(self.0.slice(s![rows])).for_each(mark),
        }
    }
}

/// Transactions that contain the item, strictly ascending.
struct Holders<'a>(&'a [u32]);

impl Cells for Holders<'_> {
    fn mark(&self, rows: Range<usize>, bit: u32, bytes: &mut [u8]) {
        let before = |end: usize| self.0.partition_point(|&row| (row as usize) < end);
        for &row in &self.0[before(rows.start)..before(rows.end)] {
            bytes[row as usize - rows.start] |= 1 << bit;
        }
    }
}

#[pymethods]
impl Rows {
    /// Creates rows for `transactions` transactions; `numbers` if the names of items are digits of integers.
    #[new]
    #[pyo3(signature = (transactions, *, numbers = false, threads = None))]
    fn new(
        py: Python<'_>,
        transactions: usize,
        numbers: bool,
        threads: Option<NonZeroUsize>,
    ) -> Result<Self, Failure> {
        let threads = self::threads(threads);
        let rows = py.detach(|| Shuffled::begin(transactions, threads))?;
        Ok(Self {
            state: Mutex::new(State::Open(rows)),
            numbers,
        })
    }

    /// Adds columns of one byte per transaction, not 0 if it contains the item; any strides.
    fn push_bytes(
        &self,
        py: Python<'_>,
        names: Vec<String>,
        columns: Vec<PyReadonlyArray1<'_, u8>>,
    ) -> Result<(), Failure> {
        let columns: Vec<_> = columns.iter().map(|column| column.as_array()).collect();
        for (name, column) in names.iter().zip(&columns) {
            self.check_length(name, column.len())?;
        }
        let columns: Vec<_> = columns.into_iter().map(Bytes).collect();
        py.detach(|| self.push(names, &columns))
    }

    /// Adds columns given by the transactions that contain the item, strictly ascending, numbered from 0.
    fn push_holders(
        &self,
        py: Python<'_>,
        names: Vec<String>,
        columns: Vec<PyReadonlyArray1<'_, u32>>,
    ) -> Result<(), Failure> {
        let rows = |column| PyReadonlyArray1::as_slice(column);
        let columns: Vec<&[u32]> = columns
            .iter()
            .map(rows)
            .collect::<Result<_, _>>()
            .map_err(|_| Failure::input("the numbers of transactions must lie side by side"))?;
        let transactions = self.transactions();
        for (name, column) in names.iter().zip(&columns) {
            let ascending = column.windows(2).all(|pair| pair[0] < pair[1]);
            if !ascending
                || column
                    .last()
                    .is_some_and(|&row| row as usize >= transactions)
            {
                return Err(Failure::input(format!(
                    "column {name:?} is given by numbers that are not ascending or not below {transactions}"
                )));
            }
        }
        let columns: Vec<_> = columns.into_iter().map(Holders).collect();
        py.detach(|| self.push(names, &columns))
    }

    /// Sets the row ids.
    fn set_row_ids(&self, row_ids: Vec<String>) -> Result<(), Failure> {
        match &mut *self.state() {
            State::Open(rows) => Ok(rows.set_row_ids(&row_ids)?),
            _ => Err(Failure::input(
                "row_ids has ids, and the rows were read as those of a file are; give row_ids the name of the column that has them",
            )),
        }
    }

    /// Reads baskets of items that are all text or all integers, which become the columns in ascending order. `row_ids`
    /// has the id of each basket. Of the reading options, those about names apply.
    #[staticmethod]
    #[pyo3(signature = (baskets, *, row_ids = None, **reading))]
    fn from_baskets(
        py: Python<'_>,
        baskets: &Bound<'_, PyAny>,
        row_ids: Option<Vec<String>>,
        reading: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<Self> {
        let options = read_options(reading)?;
        let rules = NameRules {
            missing: options.missing,
            unicode: options.unicode,
        };
        let mut builder = TransactionsBuilder::new();
        let mut kind = None;
        for (number, basket) in baskets.try_iter()?.enumerate() {
            py.check_signals()?;
            let numbers = basket_items(&basket?, number, rules, &mut builder, &mut kind)?;
            builder.push(numbers).map_err(Failure::from)?;
        }
        let numbers = kind == Some(Kind::Number);
        let rows = py.detach(|| {
            let transactions = match row_ids {
                Some(row_ids) => builder.finish().with_row_ids(row_ids)?,
                None => builder.finish(),
            };
            let sorted = if numbers {
                transactions.sorted_by(compare_numbers)
            } else {
                transactions.sorted_by(str::cmp)
            };
            Ok(Self::of(sorted, numbers))
        });
        Ok(rows.map_err(|error: TransactionsError| Failure::from(error))?)
    }

    /// Reads a file of transactions by the options, or as the first file of the dataset `like`.
    #[staticmethod]
    #[pyo3(signature = (path, *, like = None, **reading))]
    fn read(
        py: Python<'_>,
        path: PathBuf,
        like: Option<&Encrypted>,
        reading: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<Self> {
        let options = read_options(reading)?;
        let memory = options.memory;
        Self::like(py, like, memory, |before| read_next(&path, options, before))
    }

    /// Reads an object with `__arrow_c_stream__`. Its columns are items if nothing else is possible and no option
    /// requires otherwise; else it is read like a file of the same table.
    #[staticmethod]
    #[pyo3(signature = (data, *, threads = None, like = None, **reading))]
    fn from_arrow(
        py: Python<'_>,
        data: &Bound<'_, PyAny>,
        threads: Option<NonZeroUsize>,
        like: Option<&Encrypted>,
        reading: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<Self> {
        let options = read_options(reading)?;
        let batches = arrow::batches(data)?;
        if options == ReadOptions::default() && batches.are_one_hot() {
            let rows = py.detach(|| batches.one_hot(self::threads(threads)))?;
            return Ok(Self {
                state: Mutex::new(State::Open(rows)),
                numbers: false,
            });
        }
        Self::of_batches(py, batches, options, like)
    }

    /// Reads the columns of a frame, in the form of [`FrameColumn`], like a file.
    #[staticmethod]
    #[pyo3(signature = (columns, *, like = None, **reading))]
    fn from_frame(
        py: Python<'_>,
        columns: Vec<FrameColumn<'_>>,
        like: Option<&Encrypted>,
        reading: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<Self> {
        let options = read_options(reading)?;
        Self::of_batches(py, arrow::batch_of(columns)?, options, like)
    }

    /// Returns true if columns of these names may have a transaction and an item in each row.
    #[staticmethod]
    fn are_of_long_form(names: Vec<String>) -> bool {
        oboro_input::readers::are_of_long_form(names.iter().map(String::as_str))
    }

    /// Returns how their file was read, in JSON.
    #[getter]
    fn how_read(&self) -> Option<String> {
        match &*self.state() {
            State::Complete(rows) => rows.how_read().map(json),
            State::Open(_) | State::Encrypted => None,
        }
    }

    /// Drops items below a minimum support: a fraction of all transactions, or a number of them.
    fn restrict(&self, min_support: Bound<'_, PyAny>) -> PyResult<()> {
        let min_support = min_support_of(&min_support)?;
        let rows = self.take()?.restrict(min_support);
        *self.state() = State::Complete(Box::new(rows));
        Ok(())
    }

    /// Returns the number of transactions that contain each item, in order.
    fn supports(&self, py: Python<'_>) -> Result<Vec<u64>, Failure> {
        py.detach(|| {
            let rows = self.take()?;
            let supports = rows.supports();
            *self.state() = State::Complete(Box::new(rows));
            Ok(supports)
        })
    }

    /// Returns the names of the items, in order.
    #[getter]
    fn names(&self) -> Result<Vec<String>, Failure> {
        let rows = self.take()?;
        let names = rows.names().to_vec();
        *self.state() = State::Complete(Box::new(rows));
        Ok(names)
    }

    fn __len__(&self) -> usize {
        self.transactions()
    }

    fn __repr__(&self) -> String {
        format!("Rows({} transactions)", self.transactions())
    }
}

/// Converts the description of how a file was read to JSON.
pub fn json(how: &HowRead) -> String {
    serde_json::to_string(how).expect("names and numbers always have a JSON form")
}

/// Parses the options for reading a file, named like arguments.
fn read_options(given: Option<&Bound<'_, PyDict>>) -> PyResult<ReadOptions> {
    let mut options = ReadOptions::default();
    for (name, value) in given.into_iter().flatten() {
        match name.cast::<PyString>()?.to_str()? {
            "format" => options.format = parsed(&value)?,
            "separator" => options.separator = Some(parsed(&value)?),
            "header" => options.header = Some(value.extract()?),
            "encoding" => options.encoding = Some(parsed(&value)?),
            "transaction_column" => options.transaction_columns = value.extract()?,
            "item_column" => options.item_column = Some(value.extract()?),
            "drop_columns" => options.drop_columns = value.extract()?,
            "spaces" => options.spaces = Some(parsed(&value)?),
            "missing" => options.missing = Some(parsed(&value)?),
            "unicode" => options.unicode = Some(parsed(&value)?),
            "item_separator" => options.item_separator = Some(parsed(&value)?),
            "skip_first" => options.skip_first = Some(value.extract()?),
            "skip_last" => options.skip_last = Some(value.extract()?),
            "memory" => options.memory = Some(value.extract()?),
            "row_ids" => options.row_ids = Some(value.extract()?),
            "taxonomy" => options.taxonomy = Some(value.extract()?),
            "bins" => {
                let bins: Vec<String> = value.extract()?;
                let bins = bins.iter().map(|it| it.parse::<Bin>());
                options.bins = bins.collect::<Result<_, _>>().map_err(Failure::input)?;
            }
            other => {
                let what = format!("{other:?} is no argument of this call");
                return Err(PyTypeError::new_err(what));
            }
        }
    }
    Ok(options)
}

/// Parses an option.
fn parsed<T: FromStr<Err = UnknownOption>>(given: &Bound<'_, PyAny>) -> PyResult<T> {
    let text: String = given.extract()?;
    Ok(text.parse().map_err(Failure::input)?)
}

/// Type of the items of all baskets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Text,
    Number,
}

/// Returns the numbers of a basket's items, which must all have the type of the first item of all.
fn basket_items(
    basket: &Bound<'_, PyAny>,
    number: usize,
    rules: NameRules,
    builder: &mut TransactionsBuilder,
    kind: &mut Option<Kind>,
) -> PyResult<Vec<u32>> {
    let refused = |what: &str| Failure::input(format!("basket {number} {what}"));
    if basket.is_instance_of::<PyString>() || basket.is_instance_of::<PyBytes>() {
        return Err(refused("is text; give each basket as a list of its items").into());
    }
    let items = basket
        .try_iter()
        .map_err(|_| refused("is no list of items; give each basket as one"))?;
    let mut numbers = Vec::new();
    for item in items {
        let item = item?;
        let (name, its_kind) = item_of(&item).ok_or_else(|| {
            refused("has an item that is neither text nor a whole number of 64 bits; drop it or make it text")
        })?;
        if *kind.get_or_insert(its_kind) != its_kind {
            return Err(refused(
                "mixes items that are text with items that are numbers; make all of them text",
            )
            .into());
        }
        let name = match its_kind {
            Kind::Text => item_name(&name, rules, &format!("basket {number}"))?,
            Kind::Number => Some(name),
        };
        if let Some(name) = name {
            numbers.push(builder.item(&name).map_err(Failure::from)?);
        }
    }
    Ok(numbers)
}

/// Normalises the name of an item at a place; `None` if it stands for a missing one.
fn item_name(name: &str, rules: NameRules, place: &str) -> Result<Option<String>, Failure> {
    let name = rules
        .item(name, place)
        .map_err(|error| Failure::from(*error))?;
    Ok(name.map(Cow::into_owned))
}

/// Returns an item's name or number as text.
fn item_of(item: &Bound<'_, PyAny>) -> Option<(String, Kind)> {
    if let Ok(text) = item.cast::<PyString>() {
        return Some((text.extract().ok()?, Kind::Text));
    }
    if item.is_instance_of::<PyBool>() {
        return None;
    }
    let number: i64 = item.extract().ok()?;
    Some((number.to_string(), Kind::Number))
}

fn compare_numbers(a: &str, b: &str) -> Ordering {
    let value = |name: &str| name.parse::<i64>().ok();
    value(a).cmp(&value(b))
}

/// Converts a minimum support from Python: a float is a fraction, an int a number of transactions.
fn min_support_of(given: &Bound<'_, PyAny>) -> PyResult<MinSupport> {
    let min_support = match given.extract::<u64>() {
        Ok(count) if !given.is_instance_of::<PyBool>() => MinSupport::Count(count),
        _ => MinSupport::Fraction(given.extract()?),
    };
    Ok(min_support.validated().map_err(Failure::input)?)
}
