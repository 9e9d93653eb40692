//! Tables of other libraries by Arrow's C stream interface (`__arrow_c_stream__`): polars, pyarrow, DuckDB and others
//! share their memory without a copy. One-hot columns are permuted from there; tables with text are read like files.
#![allow(unsafe_code)]

use crate::errors::Failure;
use arrow_array::cast::AsArray;
use arrow_array::ffi_stream::{FFI_ArrowArrayStream, RecordBatchStreamReader};
use arrow_array::types::{
    Float32Type, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type, UInt8Type, UInt16Type,
    UInt32Type, UInt64Type,
};
use arrow_array::{
    Array, ArrayRef, ArrowNativeTypeOp, ArrowPrimitiveType, BooleanArray, DictionaryArray,
    Int32Array, Int64Array, RecordBatch, RecordBatchReader, StringArray,
};
use arrow_schema::{ArrowError, DataType, SchemaRef};
use numpy::PyReadonlyArray1;
use oboro_dataset::{Cells, Shuffled, Shuffler};
use oboro_input::readers::are_of_long_form;
use pyo3::prelude::*;
use pyo3::types::PyCapsule;
use std::fmt::Display;
use std::num::NonZeroUsize;
use std::ops::Range;
use std::sync::Arc;

/// Number of columns that are converted to bits at a time.
const AT_ONCE: usize = 16;

/// Column of a frame: its name, the index of each value among the distinct ones or -1 for none, these as text, and
/// `true` if they are whole numbers.
pub type FrameColumn<'py> = (String, PyReadonlyArray1<'py, i32>, Vec<String>, bool);

/// Reads the batches of an object with `__arrow_c_stream__`.
pub fn batches(data: &Bound<'_, PyAny>) -> PyResult<Batches> {
    let capsule = data.call_method0("__arrow_c_stream__")?;
    let capsule = capsule.cast_into::<PyCapsule>()?;
    let stream = capsule.pointer_checked(Some(c"arrow_array_stream"))?;
    // SAFETY: by the protocol, a capsule of this name points to such a structure. The pointer is valid as long as the
    // capsule, which is held here, and the consumer may move the structure out.
    let stream = unsafe { FFI_ArrowArrayStream::from_raw(stream.as_ptr().cast()) };
    let read: Result<_, ArrowError> = data.py().detach(|| {
        let reader = RecordBatchStreamReader::try_new(stream)?;
        let schema = reader.schema();
        let batches = reader.collect::<Result<Vec<_>, _>>()?;
        Ok(Batches { schema, batches })
    });
    Ok(read.map_err(|error| unreadable(&error))?)
}

fn unreadable(error: &dyn Display) -> Failure {
    Failure::input(format!(
        "the data cannot be read as a table of Arrow ({error}); give a table of columns"
    ))
}

/// Converts the columns of a frame without that interface.
pub fn batch_of(columns: Vec<FrameColumn<'_>>) -> PyResult<Batches> {
    let mut arrays: Vec<(String, ArrayRef)> = Vec::with_capacity(columns.len());
    for (name, places, values, are_whole) in columns {
        let places = places.as_array();
        let places: Int32Array = places.iter().map(|&it| (it >= 0).then_some(it)).collect();
        let numbers = || {
            values
                .iter()
                .map(|it| it.parse().ok())
                .collect::<Option<Vec<i64>>>()
        };
        let values: ArrayRef = match are_whole.then(numbers).flatten() {
            Some(numbers) => Arc::new(Int64Array::from(numbers)),
            None => Arc::new(StringArray::from(values)),
        };
        let array = DictionaryArray::try_new(places, values).map_err(|it| unreadable(&it))?;
        arrays.push((name, Arc::new(array)));
    }
    let batch = RecordBatch::try_from_iter(arrays).map_err(|it| unreadable(&it))?;
    Ok(Batches {
        schema: batch.schema(),
        batches: vec![batch],
    })
}

/// Table in memory.
pub struct Batches {
    pub schema: SchemaRef,
    pub batches: Vec<RecordBatch>,
}

impl Batches {
    /// Returns true if its columns can only be items, each 0 or 1 in a transaction: none has text, and their names do
    /// not suggest an item per row.
    pub fn are_one_hot(&self) -> bool {
        let mut fields = self.schema.fields().iter();
        let names = fields.clone().map(|it| it.name().as_str());
        !are_of_long_form(names)
            && fields.all(|it| {
                let kind = it.data_type();
                kind.is_numeric() || *kind == DataType::Boolean
            })
    }

    /// Returns the rows with each column as an item.
    pub fn one_hot(&self, threads: NonZeroUsize) -> Result<Shuffler, Failure> {
        let transactions = self.batches.iter().map(RecordBatch::num_rows).sum();
        let fields = self.schema.fields();
        if fields.is_empty() {
            return Err(Failure::input(format!(
                "nothing to encrypt: there are {transactions} transactions and 0 items"
            )));
        }
        let mut rows = Shuffled::begin(transactions, threads)?;
        let places: Vec<usize> = (0..fields.len()).collect();
        for places in places.chunks(AT_ONCE) {
            let names = places.iter().map(|&it| fields[it].name().clone()).collect();
            let columns: Vec<Bits> = places
                .iter()
                .map(|&place| self.bits(place))
                .collect::<Result<_, _>>()?;
            let columns: Vec<&dyn Cells> = columns.iter().map(|it| it as &dyn Cells).collect();
            rows.push(names, &columns);
        }
        Ok(rows)
    }

    /// Returns a column of 0 and 1; booleans are not copied.
    fn bits(&self, place: usize) -> Result<Bits, Failure> {
        let name = self.schema.field(place).name();
        let mut first = 0;
        let mut chunks = Vec::with_capacity(self.batches.len());
        for batch in &self.batches {
            let array = batch.column(place);
            if let Some(row) = (0..array.len()).find(|&row| array.is_null(row)) {
                return Err(Failure::input(format!(
                    "column {} has no value in row {}; say what that means, as with frame.fillna(False)",
                    quoted(name),
                    first + row
                )));
            }
            let bits = zeros_and_ones(array).map_err(|(row, value)| {
                Failure::input(format!(
                    "column {} has the value {value} in row {}; only 0 and 1, or False and True, can be encrypted: say \
                     what counts, as with frame > 0, or leave the column out with drop_columns",
                    quoted(name),
                    first + row
                ))
            })?;
            first += array.len();
            chunks.push((first, bits));
        }
        Ok(Bits(chunks))
    }
}

/// Quotes a name as Python does, unless it contains quotes.
fn quoted(name: &str) -> String {
    format!("'{name}'")
}

/// Converts values without missing ones to booleans; fails with the index and text of the first other than 0 and 1.
fn zeros_and_ones(array: &ArrayRef) -> Result<BooleanArray, (usize, String)> {
    fn of<T: ArrowPrimitiveType>(array: &ArrayRef) -> Result<BooleanArray, (usize, String)>
    where
        T::Native: ArrowNativeTypeOp + Display,
    {
        let values = array.as_primitive::<T>().values();
        let is_other = |value: &T::Native| !value.is_eq(T::Native::ONE) && !value.is_zero();
        match values.iter().position(is_other) {
            Some(row) => Err((row, values[row].to_string())),
            None => Ok(values.iter().map(|it| Some(!it.is_zero())).collect()),
        }
    }
    match array.data_type() {
        DataType::Boolean => Ok(array.as_boolean().clone()),
        DataType::Int8 => of::<Int8Type>(array),
        DataType::Int16 => of::<Int16Type>(array),
        DataType::Int32 => of::<Int32Type>(array),
        DataType::Int64 => of::<Int64Type>(array),
        DataType::UInt8 => of::<UInt8Type>(array),
        DataType::UInt16 => of::<UInt16Type>(array),
        DataType::UInt32 => of::<UInt32Type>(array),
        DataType::UInt64 => of::<UInt64Type>(array),
        DataType::Float32 => of::<Float32Type>(array),
        DataType::Float64 => of::<Float64Type>(array),
        kind => Err((0, format!("of type {kind}"))),
    }
}

/// Column in chunks, each with the number of the row after it.
struct Bits(Vec<(usize, BooleanArray)>);

impl Cells for Bits {
    fn mark(&self, rows: Range<usize>, bit: u32, bytes: &mut [u8]) {
        let mut row = rows.start;
        let chunk = self.0.partition_point(|&(end, _)| end <= row);
        for (end, bits) in &self.0[chunk..] {
            let first = end - bits.len();
            while row < rows.end.min(*end) {
                bytes[row - rows.start] |= u8::from(bits.value(row - first)) << bit;
                row += 1;
            }
        }
    }
}
