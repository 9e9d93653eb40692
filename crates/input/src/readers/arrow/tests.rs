//! Tables in each container read as CSV of equal cells; damaged ones are errors.

use std::sync::Arc;

use arrow_array::builder::{ListBuilder, StringBuilder, StringDictionaryBuilder};
use arrow_array::{
    BinaryArray, BooleanArray, Date32Array, Decimal128Array, Float64Array, Int8Array, Int64Array,
    LargeStringArray, NullArray, StringArray, StringViewArray, StructArray,
    TimestampMillisecondArray, UInt64Array,
};
use arrow_ipc::writer::{FileWriter, IpcWriteOptions, StreamWriter};
use arrow_ipc::{CompressionType, root_as_message};
use arrow_schema::Field;
use parquet::arrow::ArrowWriter;
use parquet::arrow::arrow_writer::ArrowWriterOptions;
use parquet::basic::{Compression as Codec, ZstdLevel};
use parquet::file::properties::WriterProperties;
use parquet::schema::types::ColumnPath;

use super::*;
use crate::readers::{Missing, read, read_path};

fn batch(columns: Vec<(&str, ArrayRef)>) -> RecordBatch {
    RecordBatch::try_from_iter(columns).unwrap()
}

fn texts(values: &[&str]) -> ArrayRef {
    Arc::new(StringArray::from(values.to_vec()))
}

fn parquet(batches: &[RecordBatch], codec: Codec) -> Vec<u8> {
    let properties = WriterProperties::builder().set_compression(codec).build();
    let mut file = Vec::new();
    let mut writer =
        ArrowWriter::try_new(&mut file, batches[0].schema(), Some(properties)).unwrap();
    for batch in batches {
        writer.write(batch).unwrap();
    }
    writer.close().unwrap();
    file
}

fn ipc_file(batches: &[RecordBatch], codec: Option<CompressionType>) -> Vec<u8> {
    let options = IpcWriteOptions::default().try_with_compression(codec);
    let schema = batches[0].schema();
    let mut writer =
        FileWriter::try_new_with_options(Vec::new(), &schema, options.unwrap()).unwrap();
    for batch in batches {
        writer.write(batch).unwrap();
    }
    writer.finish().unwrap();
    writer.into_inner().unwrap()
}

fn ipc_stream(batches: &[RecordBatch]) -> Vec<u8> {
    let mut writer = StreamWriter::try_new(Vec::new(), &batches[0].schema()).unwrap();
    for batch in batches {
        writer.write(batch).unwrap();
    }
    writer.finish().unwrap();
    writer.into_inner().unwrap()
}

type Read = Result<(Transactions, HowRead), ReadError>;

fn in_memory(batches: &[RecordBatch], options: &ReadOptions) -> Read {
    let rows = batches.iter().cloned().map(Ok);
    read_batches(batches[0].schema(), rows, "table", options)
}

fn named(data: &Transactions) -> Vec<Vec<&str>> {
    let name = |&item: &u32| data.names()[item as usize].as_str();
    data.iter()
        .map(|it| it.iter().map(name).collect())
        .collect()
}

#[track_caller]
fn assert_refused(batch: RecordBatch, options: &ReadOptions, parts: &[&str]) {
    let message = in_memory(&[batch], options).unwrap_err().to_string();
    for part in parts {
        assert!(message.contains(part), "{message:?} lacks {part:?}");
    }
}

fn visits() -> RecordBatch {
    let visits: ArrayRef = Arc::new(Int64Array::from(vec![7, 8, 7, 9]));
    let codes: ArrayRef = Arc::new(StringArray::from(vec![
        Some("I10"),
        Some("E11"),
        Some("E11"),
        None,
    ]));
    batch(vec![("visit_id", visits), ("code", codes)])
}

#[test]
fn every_container_is_read_as_csv_of_its_cells_is() {
    let (expected, _) = read(
        &b"visit_id,code\n7,I10\n8,E11\n7,E11\n9,\n7,I10\n8,E11\n7,E11\n9,\n"[..],
        "data",
        &ReadOptions::default(),
    )
    .unwrap();
    let batches = [visits(), visits()];
    let files = [
        (parquet(&batches, Codec::UNCOMPRESSED), Container::Parquet),
        (parquet(&batches, Codec::SNAPPY), Container::Parquet),
        (
            parquet(&batches, Codec::ZSTD(ZstdLevel::default())),
            Container::Parquet,
        ),
        (
            parquet(&batches, Codec::GZIP(Default::default())),
            Container::Parquet,
        ),
        (parquet(&batches, Codec::LZ4_RAW), Container::Parquet),
        (ipc_file(&batches, None), Container::Arrow),
        (ipc_stream(&batches), Container::Arrow),
    ];
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("file");
    for (bytes, container) in files {
        std::fs::write(&path, &bytes).unwrap();
        let of_path = read_path(&path, &ReadOptions::default()).unwrap();
        let of_input = read(&bytes[..], "data", &ReadOptions::default()).unwrap();
        for (data, how) in [of_path, of_input] {
            assert_eq!(data, expected);
            assert_eq!(how.container, container);
            assert_eq!(how.options.format, Format::CsvLong);
            assert!(!how.numbers);
            let json = serde_json::to_string(&how).unwrap();
            assert_eq!(serde_json::from_str::<HowRead>(&json).unwrap(), how);
        }
    }
    let (data, how) = in_memory(&batches, &ReadOptions::default()).unwrap();
    assert_eq!(data, expected);
    assert_eq!(
        how.to_string(),
        "a table (csv-long), transactions by \"visit_id\", items by \"code\", 2 columns used\n  \
         3 transactions, 1 of them empty; 2 items, from \"I10\" in 1 transactions to \"E11\" in 2"
    );
}

#[test]
fn cells_are_written_as_csv_has_them() {
    let mut dictionary = StringDictionaryBuilder::<Int8Type>::new();
    dictionary.append_null();
    dictionary.append_value("tea");
    let keyless: ArrayRef = Arc::new(
        arrow_array::DictionaryArray::<Int8Type>::try_new(
            Int8Array::from(vec![None, None]),
            Arc::new(StringArray::from(Vec::<&str>::new())),
        )
        .unwrap(),
    );
    let decimal = Decimal128Array::from(vec![1700, -1250])
        .with_precision_and_scale(9, 2)
        .unwrap();
    let columns: Vec<(ArrayRef, [&str; 2])> = vec![
        (Arc::new(BooleanArray::from(vec![true, false])), ["1", "0"]),
        (Arc::new(Int8Array::from(vec![Some(-1), None])), ["-1", ""]),
        (
            Arc::new(UInt64Array::from(vec![u64::MAX, 0])),
            ["18446744073709551615", "0"],
        ),
        (Arc::new(Float64Array::from(vec![17.0, 0.5])), ["17", "0.5"]),
        (
            Arc::new(Float64Array::from(vec![f64::NAN, -0.0])),
            ["", "0"],
        ),
        (Arc::new(decimal), ["17", "-12.5"]),
        (texts(&["a,b", "\"c"]), ["a,b", "\"c"]),
        (Arc::new(LargeStringArray::from(vec!["x", ""])), ["x", ""]),
        (
            Arc::new(StringViewArray::from(vec![
                "a name longer than twelve",
                "y",
            ])),
            ["a name longer than twelve", "y"],
        ),
        (
            Arc::new(BinaryArray::from(vec!["Käse".as_bytes(), b"z"])),
            ["Käse", "z"],
        ),
        (
            Arc::new(Date32Array::from(vec![0, 20_000])),
            ["1970-01-01", "2024-10-04"],
        ),
        (
            Arc::new(TimestampMillisecondArray::from(vec![0, 1])),
            ["1970-01-01 00:00:00", "1970-01-01 00:00:00.001"],
        ),
        (Arc::new(dictionary.finish()), ["", "tea"]),
        (keyless, ["", ""]),
        (Arc::new(NullArray::new(2)), ["", ""]),
    ];
    for (array, expected) in columns {
        let kind = array.data_type().clone();
        assert!(matches!(item_type(&kind), Some(Kind::Cell)), "{kind}");
        let column = Column::new(Some(array));
        let mut cells = Cells::default();
        column.push(0, &mut cells).unwrap();
        column.push(1, &mut cells).unwrap();
        assert_eq!([cells.raw(0), cells.raw(1)], expected, "{kind}");
    }
    let invalid = Column::new(Some(Arc::new(BinaryArray::from(vec![&b"\xff"[..]]))));
    let error = invalid
        .push(0, &mut Cells::default())
        .unwrap_err()
        .to_string();
    assert!(error.contains("not UTF-8"), "{error}");
}

#[test]
fn columns_of_0_and_1_are_items() {
    let tea: ArrayRef = Arc::new(BooleanArray::from(vec![true, false, true]));
    let milk: ArrayRef = Arc::new(Float64Array::from(vec![0.0, 0.0, 1.0]));
    let salt = texts(&["no", "yes", "no"]);
    let one_hot = batch(vec![("tea", tea.clone()), ("milk", milk.clone())]);
    let (data, how) = in_memory(&[one_hot], &ReadOptions::default()).unwrap();
    assert_eq!(named(&data), [&["tea"][..], &[], &["tea", "milk"]]);
    assert_eq!(how.options.format, Format::CsvOneHot);
    // As in CSV, two ways of writing yes require a format option.
    let mixed = || batch(vec![("tea", tea.clone()), ("salt", salt.clone())]);
    assert_refused(
        mixed(),
        &ReadOptions::default(),
        &["table, schema", "`--format csv-onehot`"],
    );
    let (data, _) = in_memory(&[mixed()], &ReadOptions::of(Format::CsvOneHot)).unwrap();
    assert_eq!(named(&data), [["tea"], ["salt"], ["tea"]]);
    let ids = texts(&["p1", "p2", "p3"]);
    let with_ids = batch(vec![
        ("patient_id", ids),
        ("tea", tea.clone()),
        ("milk", milk),
    ]);
    assert_refused(
        with_ids,
        &ReadOptions::default(),
        &["`--drop-columns patient_id`"],
    );
    let gap: ArrayRef = Arc::new(Int8Array::from(vec![Some(1), None, Some(0)]));
    let gaps = || batch(vec![("tea", tea.clone()), ("milk", gap.clone())]);
    assert_refused(gaps(), &ReadOptions::default(), &["`--missing absent`"]);
    let absent = ReadOptions {
        missing: Some(Missing::Absent),
        ..ReadOptions::default()
    };
    assert_eq!(in_memory(&[gaps()], &absent).unwrap().0.len(), 3);
}

#[test]
fn later_rows_are_checked_as_the_first_are() {
    let ones: ArrayRef = Arc::new(Int64Array::from(vec![1; SAMPLE_ROWS]));
    let long = batch(vec![("tea", ones.clone()), ("milk", ones)]);
    let other: ArrayRef = Arc::new(Int64Array::from(vec![0, 5]));
    let last = batch(vec![("tea", other.clone()), ("milk", other)]);
    let message = in_memory(&[long, last], &ReadOptions::default())
        .unwrap_err()
        .to_string();
    let row = SAMPLE_ROWS + 2;
    for part in [
        format!("table, row {row}: column 1"),
        "`--format csv-counts`".to_owned(),
    ] {
        assert!(message.contains(&part), "{message}");
    }
}

#[test]
fn a_column_of_lists_has_baskets() {
    let mut lists = ListBuilder::new(StringBuilder::new());
    for basket in [&["tea", "milk"][..], &[], &["tea", "tea"]] {
        basket
            .iter()
            .for_each(|item| lists.values().append_value(item));
        lists.append(true);
    }
    lists.append(false);
    let items: ArrayRef = Arc::new(lists.finish());
    let ids = texts(&["a", "b", "c", "d"]);
    let alone = batch(vec![("items", items.clone())]);
    let (data, how) = in_memory(&[alone], &ReadOptions::default()).unwrap();
    assert_eq!(named(&data), [&["milk", "tea"][..], &[], &["tea"], &[]]);
    assert_eq!(how.options.format, Format::CsvBasket);
    let with_ids = || batch(vec![("items", items.clone()), ("id", ids.clone())]);
    assert_refused(
        with_ids(),
        &ReadOptions::default(),
        &["beside the column of lists", "`--drop-columns id`"],
    );
    let options = ReadOptions {
        row_ids: Some("id".to_owned()),
        ..ReadOptions::default()
    };
    let (data, _) = in_memory(&[with_ids()], &options).unwrap();
    assert_eq!(data.row_ids(), ["a", "b", "c", "d"]);
    assert_eq!(named(&data)[0], ["milk", "tea"]);
    let read = parquet(&[with_ids()], Codec::SNAPPY);
    assert_eq!(read_bytes(&read, &options).unwrap().0, data);
}

fn read_bytes(bytes: &[u8], options: &ReadOptions) -> Read {
    read(bytes, "data", options)
}

#[test]
fn whole_numbers_are_such_until_something_else_is_added() {
    let ids = texts(&["a", "a", "b"]);
    let items: ArrayRef = Arc::new(Int64Array::from(vec![10, 9, 10]));
    let long = batch(vec![("order_id", ids), ("item_no", items)]);
    let options = ReadOptions {
        transaction_columns: vec!["order_id".to_owned()],
        item_column: Some("item_no".to_owned()),
        ..ReadOptions::default()
    };
    let (data, how) = in_memory(std::slice::from_ref(&long), &options).unwrap();
    assert_eq!(data.names(), ["9", "10"]);
    assert!(how.numbers);
    let folder = tempfile::tempdir().unwrap();
    let codes = folder.path().join("codes");
    std::fs::write(&codes, "10,small\n").unwrap();
    let options = ReadOptions {
        taxonomy: Some(codes),
        ..options
    };
    assert!(!in_memory(&[long], &options).unwrap().1.numbers);
}

#[test]
fn what_a_table_cannot_be_is_refused() {
    let none = ReadOptions::default();
    let numbers: ArrayRef = Arc::new(Int64Array::from(vec![1, 2]));
    let fields = vec![Field::new("a", DataType::Int64, true)];
    let nested: ArrayRef = Arc::new(StructArray::new(fields.into(), vec![numbers.clone()], None));
    let nested = || {
        batch(vec![
            ("order_id", numbers.clone()),
            ("item", numbers.clone()),
            ("more", nested.clone()),
        ])
    };
    assert_refused(
        nested(),
        &none,
        &["the column more is of type", "`--drop-columns more`"],
    );
    let dropped = ReadOptions {
        drop_columns: vec!["more".to_owned()],
        transaction_columns: vec!["order_id".to_owned()],
        item_column: Some("item".to_owned()),
        ..ReadOptions::of(Format::CsvLong)
    };
    let (_, how) = in_memory(&[nested()], &dropped).unwrap();
    assert_eq!(how.columns_dropped, ["more"]);
    for (options, part) in [
        (
            ReadOptions {
                header: Some(true),
                ..none.clone()
            },
            "is no text, but a table with names and types of its columns; leave out `--header yes`",
        ),
        (
            ReadOptions {
                encoding: Some(super::super::Encoding::Utf8),
                ..none.clone()
            },
            "`--encoding utf-8`",
        ),
        (ReadOptions::of(Format::Fimi), "no file of fimi"),
        (ReadOptions::of(Format::CsvBasket), "no file of csv-basket"),
        (
            ReadOptions {
                item_column: Some("x".to_owned()),
                ..none.clone()
            },
            "table, schema: no columns are called \"x\"",
        ),
        (
            ReadOptions {
                row_ids: Some("x".to_owned()),
                ..none.clone()
            },
            "no columns are called \"x\"",
        ),
    ] {
        assert_refused(visits(), &options, &[part]);
    }
    let unclear = batch(vec![("a", texts(&["x", "y"])), ("b", texts(&["x", "z"]))]);
    assert_refused(
        unclear,
        &none,
        &[
            "does not say which columns",
            "`--transaction-column a --item-column b`",
        ],
    );
    let empty = visits().slice(0, 0);
    assert_refused(empty, &none, &["table has no transactions"]);
}

#[test]
fn a_file_needs_no_schema_but_its_index() {
    // As written by polars: the bytes before the first batch are no message.
    let mut file = ipc_file(&[visits()], None);
    let whole = read_bytes(&file, &ReadOptions::default()).unwrap();
    let is_batch = |at: &usize| {
        let message = file.get(at + 8..).map(root_as_message);
        message.is_some_and(|it| it.is_ok_and(|it| it.header_as_record_batch().is_some()))
    };
    let batch = (8..file.len()).step_by(8).find(is_batch).unwrap();
    file[8..batch].fill(0);
    let (data, how) = read_bytes(&file, &ReadOptions::default()).unwrap();
    assert_eq!((data, how), whole);
}

#[test]
fn nothing_is_left_out_of_two_files_in_one() {
    for (file, part) in [
        (ipc_stream(&[visits()]), "more follows its end"),
        (ipc_file(&[visits()], None), "two files in one"),
    ] {
        let two = [&file[..], &file].concat();
        let refused = read_bytes(&two, &ReadOptions::default());
        let message = refused.unwrap_err().to_string();
        assert!(message.contains(part), "{message}");
    }
}

/// A few KiB of Parquet with one text of 4 MiB in many rows: texts of a dictionary, with or without Arrow's schema in
/// the metadata, over several row groups; and delta-encoded texts.
#[test]
fn a_long_text_that_many_rows_have_is_held_once() {
    let long = "x".repeat(4 << 20);
    let rows = |count: i64| {
        let visits: ArrayRef = Arc::new(Int64Array::from_iter_values(0..count));
        let mut codes = StringDictionaryBuilder::<Int32Type>::new();
        for _ in 0..count {
            codes.append_value(&long);
        }
        let codes: ArrayRef = Arc::new(codes.finish());
        batch(vec![("visit_id", visits), ("code", codes)])
    };
    let zstd = || {
        WriterProperties::builder()
            .set_compression(Codec::ZSTD(ZstdLevel::default()))
            .set_dictionary_page_size_limit(64 << 20)
            .set_max_row_group_row_count(Some(300))
    };
    let delta = zstd()
        .set_dictionary_enabled(false)
        .set_column_encoding(ColumnPath::from("code"), Encoding::DELTA_BYTE_ARRAY);
    let in_all = 400;
    for (properties, is_noted, count, at_once) in [
        (zstd(), false, in_all, in_all),
        (zstd(), true, in_all, in_all),
        (delta, false, 40, REPEATING_ROWS as i64),
    ] {
        let options = ArrowWriterOptions::new()
            .with_properties(properties.build())
            .with_skip_arrow_metadata(!is_noted);
        let table = rows(count);
        let mut file = Vec::new();
        let mut writer =
            ArrowWriter::try_new_with_options(&mut file, table.schema(), options).unwrap();
        writer.write(&table).unwrap();
        writer.close().unwrap();
        assert!(file.len() < 16 << 10, "{}", file.len());

        let mut batches = Batches::of_parquet(Bytes::from(file.clone())).unwrap();
        let first = batches.next.next().unwrap().unwrap();
        assert_eq!(first.num_rows() as i64, at_once);
        let taken = first.get_array_memory_size();
        assert!(taken < 128 << 20, "{taken}");
        let options = ReadOptions {
            transaction_columns: vec!["visit_id".to_owned()],
            item_column: Some("code".to_owned()),
            ..ReadOptions::of(Format::CsvLong)
        };
        let (read, _) = read_bytes(&file, &options).unwrap();
        assert_eq!(read.len() as i64, count);
        assert_eq!(read.names(), [&*long]);
    }
}

#[test]
fn a_row_has_a_largest_size() {
    let long: ArrayRef = texts(&[&"x".repeat(33 << 20)]);
    let wide = batch(vec![
        ("visit_id", texts(&["1"])),
        ("code", long.clone()),
        ("b", long),
    ]);
    let options = ReadOptions {
        transaction_columns: vec!["visit_id".to_owned()],
        item_column: Some("code".to_owned()),
        ..ReadOptions::of(Format::CsvLong)
    };
    assert_refused(
        wide,
        &options,
        &[
            "has a row with more than 64 MiB of text",
            "one transaction or item a row",
        ],
    );
}

#[test]
fn a_date_that_no_calendar_has_is_refused() {
    let dates: ArrayRef = Arc::new(Date32Array::from(vec![0, i32::MAX]));
    let table = batch(vec![("t", texts(&["1", "2"])), ("i", dates)]);
    assert_refused(
        table,
        &ReadOptions::of(Format::CsvLong),
        &["a date that no calendar has"],
    );
}

#[test]
fn damaged_files_are_errors_wherever_the_damage_is() {
    let whole = [
        parquet(&[visits(), visits()], Codec::SNAPPY),
        ipc_file(&[visits(), visits()], None),
        ipc_stream(&[visits(), visits()]),
        ipc_file(&[visits(), visits()], Some(CompressionType::LZ4_FRAME)),
        ipc_file(&[visits(), visits()], Some(CompressionType::ZSTD)),
    ];
    // Any error message is accepted; the test is that reading returns.
    let mut refused = 0;
    for file in &whole {
        for at in 0..file.len() {
            for mask in [0x01, 0x80, 0xff] {
                let mut damaged = file.clone();
                damaged[at] ^= mask;
                refused += usize::from(read_bytes(&damaged, &ReadOptions::default()).is_err());
            }
        }
        for length in 0..file.len() {
            let _ = read_bytes(&file[..length], &ReadOptions::default());
        }
    }
    assert!(refused > 100, "{refused}");
    // Truncated between two batches.
    let stream = &whole[2];
    for length in [stream.len() - 8, stream.len() - 4] {
        let message = read_bytes(&stream[..length], &ReadOptions::default())
            .unwrap_err()
            .to_string();
        assert!(
            message.contains("cannot read data as Arrow: it is cut off"),
            "{message}"
        );
    }
    let message = read_bytes(b"PAR1 and no more", &ReadOptions::default())
        .unwrap_err()
        .to_string();
    assert!(
        message.starts_with("cannot read data as Parquet: "),
        "{message}"
    );
    assert!(
        message.ends_with(
            "; write it again, packed with zstd or not at all, or check that it is whole"
        ),
        "{message}"
    );
}
