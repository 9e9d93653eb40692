//! Tables in Parquet: the columns of CSV, names as lists, and the provenance of the result as JSON under the key
//! `oboro` of the file's metadata.

use super::{ITEMSETS, SIDES, UNVERIFIED};
use crate::itemsets_document::ItemsetsDocument;
use arrow_array::builder::{ListBuilder, StringBuilder};
use arrow_array::{ArrayRef, BooleanArray, Float64Array, RecordBatch, UInt64Array};
use arrow_schema::ArrowError;
use oboro_mining::rules::{Metric, NamedRule};
use parquet::arrow::ArrowWriter;
use parquet::basic::{Compression, ZstdLevel};
use parquet::errors::ParquetError;
use parquet::file::metadata::KeyValue;
use parquet::file::properties::WriterProperties;
use serde_json::Value;
use std::io::Write;
use std::sync::Arc;

/// The metadata key of the provenance.
const KEY: &str = "oboro";

/// The number of rows of rules converted at a time.
const ROWS: usize = 1 << 14;

/// Writes the table of [`itemsets_csv`](super::itemsets_csv).
///
/// # Errors
/// Errors of the library, for more than it can write.
pub fn itemsets_parquet(document: &ItemsetsDocument) -> Result<Vec<u8>, ParquetError> {
    let itemsets = &document.itemsets;
    let columns: [ArrayRef; 4] = [
        names(itemsets.iter().map(|it| &it.items[..])),
        counts(itemsets.iter().map(|it| it.items.len() as u64)),
        counts(itemsets.iter().map(|it| it.support)),
        numbers(itemsets.iter().map(|it| document.fraction(it.support))),
    ];
    let columns = ITEMSETS.into_iter().zip(columns).collect();
    let batch = batch(columns, document.unverified, itemsets.len())?;
    let mut bytes = Vec::new();
    let mut writer = writer(&batch, &document.head(), &mut bytes)?;
    writer.write(&batch)?;
    writer.close()?;
    Ok(bytes)
}

/// Writes the table of [`rules_csv`](super::rules_csv), with `about` as metadata.
///
/// # Errors
/// Errors of the library and of `to`.
pub fn rules_parquet(
    mut rules: impl Iterator<Item = NamedRule>,
    unverified: bool,
    about: &Value,
    to: impl Write + Send,
) -> Result<(), ParquetError> {
    let mut next = || -> Result<RecordBatch, ParquetError> {
        let rows: Vec<NamedRule> = rules.by_ref().take(ROWS).collect();
        rules_batch(&rows, unverified)
    };
    let mut here = next()?;
    let mut writer = writer(&here, about, to)?;
    while here.num_rows() > 0 {
        writer.write(&here)?;
        here = next()?;
    }
    writer.close()?;
    Ok(())
}

fn rules_batch(rules: &[NamedRule], unverified: bool) -> Result<RecordBatch, ParquetError> {
    let sides: [ArrayRef; 2] = [
        names(rules.iter().map(|it| &it.antecedents[..])),
        names(rules.iter().map(|it| &it.consequents[..])),
    ];
    let mut columns: Vec<(&str, ArrayRef)> = SIDES.into_iter().zip(sides).collect();
    columns.extend(Metric::ALL.map(|metric| {
        let values = numbers(rules.iter().map(|rule| rule.metrics.get(metric)));
        (metric.name(), values)
    }));
    batch(columns, unverified, rules.len())
}

fn names<'a>(rows: impl Iterator<Item = &'a [String]>) -> ArrayRef {
    let mut lists = ListBuilder::new(StringBuilder::new());
    for row in rows {
        lists.append_value(row.iter().map(Some));
    }
    Arc::new(lists.finish())
}

fn counts(values: impl Iterator<Item = u64>) -> ArrayRef {
    Arc::new(UInt64Array::from_iter_values(values))
}

fn numbers(values: impl Iterator<Item = f64>) -> ArrayRef {
    Arc::new(Float64Array::from_iter_values(values))
}

fn batch(
    mut columns: Vec<(&str, ArrayRef)>,
    unverified: bool,
    rows: usize,
) -> Result<RecordBatch, ParquetError> {
    if unverified {
        columns.push((UNVERIFIED, Arc::new(BooleanArray::from(vec![true; rows]))));
    }
    let batch = RecordBatch::try_from_iter(columns);
    batch.map_err(|error: ArrowError| ParquetError::from(error))
}

/// Creates a writer of batches with the schema of `like`.
fn writer<W: Write + Send>(
    like: &RecordBatch,
    about: &Value,
    to: W,
) -> Result<ArrowWriter<W>, ParquetError> {
    let about = KeyValue::new(KEY.to_owned(), about.to_string());
    let properties = WriterProperties::builder()
        .set_compression(Compression::ZSTD(ZstdLevel::default()))
        .set_key_value_metadata(Some(vec![about]))
        .build();
    ArrowWriter::try_new(to, like.schema(), Some(properties))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tables::tests::document;
    use arrow_array::cast::AsArray;
    use arrow_array::types::{Float64Type, UInt64Type};
    use bytes::Bytes;
    use oboro_mining::rules::RuleMetrics;
    use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
    use serde_json::json;

    /// Reads the only batch of a file, and the JSON of its metadata.
    fn read(bytes: Vec<u8>) -> (RecordBatch, Value) {
        let builder = ParquetRecordBatchReaderBuilder::try_new(Bytes::from(bytes)).unwrap();
        let metadata = builder.metadata().file_metadata().key_value_metadata();
        let about = metadata.unwrap().iter().find(|it| it.key == KEY).unwrap();
        let about = serde_json::from_str(about.value.as_ref().unwrap()).unwrap();
        let mut batches = builder.build().unwrap();
        let batch = batches.next().unwrap().unwrap();
        assert!(batches.next().is_none());
        (batch, about)
    }

    fn names_in(batch: &RecordBatch, column: &str, row: usize) -> Vec<String> {
        let list = batch
            .column_by_name(column)
            .unwrap()
            .as_list::<i32>()
            .value(row);
        let names = list.as_string::<i32>().iter();
        names.map(|it| it.unwrap().to_owned()).collect()
    }

    #[test]
    fn itemsets_read_back() {
        for unverified in [false, true] {
            let document = document(unverified);
            let (batch, about) = read(itemsets_parquet(&document).unwrap());
            assert_eq!(batch.num_rows(), document.itemsets.len());
            for (row, itemset) in document.itemsets.iter().enumerate() {
                assert_eq!(names_in(&batch, "items", row), itemset.items);
                let count = |name| {
                    batch
                        .column_by_name(name)
                        .unwrap()
                        .as_primitive::<UInt64Type>()
                };
                assert_eq!(count("transactions").value(row), itemset.support);
                assert_eq!(count("length").value(row), itemset.items.len() as u64);
            }
            let support = batch.column_by_name("support").unwrap();
            assert_eq!(support.as_primitive::<Float64Type>().value(0), 0.75);
            assert_eq!(batch.column_by_name("unverified").is_some(), unverified);
            assert_eq!(
                (&about["transactions"], &about["min_support"]),
                (&json!(4), &json!(1))
            );
            assert!(about.get("itemsets").is_none());
        }
    }

    #[test]
    fn rules_read_back() {
        let rule = NamedRule {
            antecedents: vec!["a".to_owned()],
            consequents: vec!["b, c".to_owned(), "d".to_owned()],
            metrics: RuleMetrics::from_counts(2, 3, 2, 4),
        };
        let about = json!({ "metric": "lift", "min": 1.5 });
        let mut bytes = Vec::new();
        rules_parquet([rule.clone()].into_iter(), false, &about, &mut bytes).unwrap();
        let (batch, read) = read(bytes);
        assert_eq!(read, about);
        assert_eq!(names_in(&batch, "antecedents", 0), rule.antecedents);
        assert_eq!(names_in(&batch, "consequents", 0), rule.consequents);
        for metric in Metric::ALL {
            let column = batch.column_by_name(metric.name()).unwrap();
            let value = column.as_primitive::<Float64Type>().value(0);
            assert_eq!(value, rule.metrics.get(metric), "{metric}");
        }
    }
}
