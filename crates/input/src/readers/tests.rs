//! Readers: the meaning of each format, rejections and their messages. No input makes them panic.

use std::io::Write as _;

use super::*;
use crate::transactions::MinSupport;
use proptest::prelude::*;

fn read_as(text: impl AsRef<[u8]>, format: Format) -> Result<Transactions, ReadError> {
    read_with(text, &ReadOptions::of(format))
}

fn read_with(text: impl AsRef<[u8]>, options: &ReadOptions) -> Result<Transactions, ReadError> {
    read(text.as_ref(), "data", options).map(|(transactions, _)| transactions)
}

fn message(text: impl AsRef<[u8]>, format: Format) -> String {
    read_as(text, format).unwrap_err().to_string()
}

/// Asserts that reading fails with a message that contains each part.
#[track_caller]
fn assert_refused(text: impl AsRef<[u8]>, format: Format, parts: &[&str]) {
    let message = message(text, format);
    for part in parts {
        assert!(message.contains(part), "{message:?} lacks {part:?}");
    }
}

fn baskets(data: &Transactions) -> Vec<Vec<&str>> {
    let name = |&item: &u32| data.names()[item as usize].as_str();
    data.iter()
        .map(|basket| basket.iter().map(name).collect())
        .collect()
}

#[track_caller]
fn assert_baskets(text: impl AsRef<[u8]>, format: Format, expected: &[&[&str]]) {
    let data = read_as(text, format).unwrap();
    assert_eq!(baskets(&data), expected);
}

fn gzip(text: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    encoder.write_all(text).unwrap();
    encoder.finish().unwrap()
}

fn zstd(text: &[u8]) -> Vec<u8> {
    zstd::encode_all(text, 3).unwrap()
}

#[test]
fn fimi_lines_are_transactions_of_numbers() {
    assert_baskets(
        "10 9\t81\n9 9 \n",
        Format::Fimi,
        &[&["9", "10", "81"], &["9"]],
    );
    let data = read_as("100 20 3\n7\n", Format::Auto).unwrap();
    assert_eq!(data.names(), ["3", "7", "20", "100"]);
    assert_baskets("0 4294967295", Format::Auto, &[&["0", "4294967295"]]);
}

#[test]
fn blank_fimi_lines_are_empty_transactions_unless_they_end_the_file() {
    let text = "\n1 2\n \t\r\n3\n\n  \n\n";
    assert_baskets(text, Format::Fimi, &[&[], &["1", "2"], &[], &["3"]]);
}

#[test]
fn byte_order_mark_and_carriage_returns_are_dropped() {
    let expected: &[&[&str]] = &[&["1", "2"], &["3"]];
    assert_baskets(b"\xef\xbb\xbf1 2\r\n3\r\n", Format::Auto, expected);
    assert_baskets(b"\xef\xbb\xbf1,2\r\n3\r\n", Format::CsvBasket, expected);
    let long = b"\xef\xbb\xbfTID,Item\r\n7,1\r\n8,3\r\n7,2\r\n";
    assert_baskets(long, Format::Auto, expected);
}

#[test]
fn what_is_no_item_number_is_named_with_its_line() {
    let refused = |text: &str, parts: &[&str]| assert_refused(text, Format::Fimi, parts);
    refused(
        "1 2\n3 -4\n",
        &[
            "data, line 2: \"-4\" is a negative number",
            "number them anew",
        ],
    );
    refused(
        "4294967296\n",
        &["line 1: \"4294967296\" is larger than 4294967295"],
    );
    refused("99999999999999999999999\n", &["is larger than"]);
    refused("1\n\n1 x7\n", &["line 3: \"x7\" is not an item number"]);
    refused(
        "1,2,3\n",
        &["\"1,2,3\" is not an item number", "csv-basket"],
    );
    refused("1.5\n", &["\"1.5\" is not an item number"]);
    refused(
        "1 007\n",
        &[
            "\"007\" is a number with zeros",
            "csv-basket --separator space",
        ],
    );
    refused("+1\n", &["\"+1\" is not an item number"]);
    refused("1\r2\r3\n", &["\"1\\r2\\r3\" is not an item number"]);
    refused(&"x".repeat(1000), &["xxx\"… is not an item number"]);
    assert_refused(
        b"1 2\n3 \xff\n",
        Format::Fimi,
        &["line 2: the text is not UTF-8"],
    );
    // Recognised as FIMI despite the error, for a fitting message.
    assert_refused("-5 3\n", Format::Auto, &["\"-5\" is a negative number"]);
}

#[test]
fn nothing_to_mine_is_an_error() {
    for format in Format::NAMES.map(|(_, format)| format) {
        for text in ["", "\n", " \n\r\n\t\n", "\u{feff}"] {
            assert_refused(text, format, &["data has no transactions"]);
        }
    }
    assert_refused("tid,item\n", Format::Auto, &["data has no transactions"]);
    assert_refused("a,b\n", Format::CsvOneHot, &["data has no transactions"]);
    assert_refused(",,\n", Format::CsvBasket, &["data has no items"]);
    assert_refused(gzip(b""), Format::Auto, &["data has no transactions"]);
}

#[test]
fn csv_baskets_are_names_separated_by_commas() {
    let text = "milk, bread ,\n\"salt, fine\",\"6\"\" pan\"\n\nmilk,milk\n,\n";
    let expected: &[&[&str]] = &[
        &["bread", "milk"],
        &["6\" pan", "salt, fine"],
        &["milk"],
        &[],
    ];
    assert_baskets(text, Format::Auto, expected);
    assert_baskets("茶,ミルク\n", Format::CsvBasket, &[&["ミルク", "茶"]]);
    assert_baskets("tea\nmilk\n", Format::CsvBasket, &[&["tea"], &["milk"]]);
}

#[test]
fn spaces_around_quotes_are_no_part_of_a_cell() {
    let text = "\"milk\", \"salt, fine\"\n\"tea\" ,milk, \"6\"\" pan\"\n";
    let expected: &[&[&str]] = &[&["milk", "salt, fine"], &["6\" pan", "milk", "tea"]];
    assert_baskets(text, Format::Auto, expected);
    assert_refused(
        "a, \"b\" c\nd\n",
        Format::CsvBasket,
        &["line 1: a quote ends within a cell"],
    );
}

#[test]
fn csv_that_cannot_be_is_refused() {
    let refused = |text: &[u8], parts: &[&str]| assert_refused(text, Format::CsvBasket, parts);
    refused(b"a,b\n\"c,d\ne\n", &["line 2: a quoted cell is not closed"]);
    refused(b"a\n\"", &["line 2: a quoted cell is not closed"]);
    refused(
        b"a,b\n\"c,d\ne,\"f\"\n",
        &["line 2: a quote ends within a cell", "double the quotes"],
    );
    refused(b"a,b\rc\n", &["line 1: there is a carriage return"]);
    refused(b"a,b\n\nb,\xc3\n", &["line 3: the text is not UTF-8"]);
}

#[test]
fn long_form_gathers_scattered_rows() {
    let text = "row,Order ID,note,PRODUCT-NAME\n1,b,,tea\n2,a,x,milk\n3,b,,milk\n4,c,,\n5,b,,tea\n";
    let expected: &[&[&str]] = &[&["milk", "tea"], &["milk"], &[]];
    assert_baskets(text, Format::Auto, expected);
    assert_baskets(text, Format::CsvLong, expected);
}

#[test]
fn long_form_needs_its_columns_filled() {
    let refused = |text: &str, parts: &[&str]| assert_refused(text, Format::CsvLong, parts);
    refused(
        "a,b\n1,2\n",
        &[
            "line 1: the header \"a,b\" does not say which columns",
            "`--transaction-column a --item-column b`",
        ],
    );
    refused(
        "tid,b\n1,2\n",
        &["`--transaction-column tid --item-column b`"],
    );
    refused(
        "tid,item\n1,2\n ,3\n",
        &["line 3: the row names no transaction"],
    );
    refused(
        "tid,item\n1,2,3\n",
        &["line 2: the row has 3 cells, but the header has 2"],
    );
    refused("tid,item\n1\n", &["the row has 1 cells"]);
}

#[test]
fn quoted_cells_go_on_over_lines() {
    let text = "tid,item\n1,\"six\r\npack\"\n1,milk\n";
    assert_baskets(text, Format::CsvLong, &[&["milk", "six\npack"]]);
}

#[test]
fn one_hot_rows_are_transactions_even_when_zero() {
    let text = "tea,milk,salt\n1,0,1.0\nTrue,False,true\n\n0,0,0\nfalse,TRUE,FALSE\n";
    let data = read_as(text, Format::Auto).unwrap();
    assert_eq!(data.names(), ["tea", "milk", "salt"]);
    let expected: [&[&str]; 4] = [&["tea", "salt"], &["tea", "salt"], &[], &["milk"]];
    assert_eq!(baskets(&data), expected);
    let absent = ReadOptions {
        missing: Some(Missing::Absent),
        ..ReadOptions::of(Format::CsvOneHot)
    };
    let data = read_with("tea\n1\n\n0\nNA\n", &absent).unwrap();
    assert_eq!(baskets(&data), [&["tea"][..], &[], &[], &[]]);
}

#[test]
fn one_hot_cells_are_checked() {
    let refused = |text: &str, parts: &[&str]| assert_refused(text, Format::CsvOneHot, parts);
    refused(
        "tea,milk\n1,0\n0,2\n",
        &[
            "data, line 3: column 2 (\"milk\") has \"2\"",
            "`--format csv-counts` if",
            "`--drop-columns milk` if",
        ],
    );
    refused(
        "tea,milk\n1,maybe\n",
        &["has \"maybe\"", "`--drop-columns milk`"],
    );
    refused(
        "tea,milk\n1,\n",
        &["column 2 (\"milk\") has no value", "`--missing absent`"],
    );
    refused(
        "tea,milk\n1\n",
        &["line 2: the row has 1 cells, but the header has 2"],
    );
    refused(
        ",tea\n0,1\n",
        &[
            "column of the header has no name",
            "`--drop-columns 'Unnamed: 0'`",
        ],
    );
    refused(
        "tea,tea\n0,1\n",
        &["line 1: the item name \"tea\" occurs twice"],
    );
    refused("1,0\n0,1\n", &["`--header yes`", "`--header no`"]);
}

#[test]
fn each_layout_is_read_or_refused_with_its_options() {
    let detected = |text: &str| {
        let read = read(text.as_bytes(), "data", &ReadOptions::default());
        read.map(|(_, how)| how.options)
    };
    let read: [(&str, &str); 13] = [
        ("\n\n1 2 3\n", "fimi"),
        ("12\n", "fimi"),
        ("1,2\n3\n", "csv-basket"),
        ("milk,tea\nsalt\nmilk,salt,tea\n", "csv-basket"),
        ("basket,item\n1,milk\n1,tea\n", "csv-long"),
        ("patient_id;code;price\n1;I10;1,5\n1;E11;2,0\n", "csv-long"),
        ("a,b\n0,1\n", "csv-onehot"),
        ("a;b\nyes;no\n", "csv-onehot"),
        ("a\tb\n1,0\t0,0\n", "csv-onehot"),
        ("\"a\",\"b;c\"\n\"T\",\"F\"\n", "csv-onehot"),
        ("5,7\n0,1\n1,1\n", "csv-onehot"),
        ("COVID,acid\n0,1\n1,1\n", "csv-onehot"),
        ("a,b,,\nb,c,a,\n,,,\n", "csv-basket"),
    ];
    for (text, format) in read {
        let options = detected(text).unwrap_or_else(|error| panic!("{text:?}: {error}"));
        assert_eq!(options.format.to_string(), format, "{text:?}");
    }
    let refused: [(&str, &str); 42] = [
        ("milk bread\ntea\n", "--separator space"),
        ("tea\nmilk\n", "--format csv-basket"),
        ("a;b,c\nd,e;f\n", "--separator semicolon"),
        ("tid,item\n1,a;b\n1,c\n", "--separator comma"),
        ("a,b\n", "--format csv-basket --header no"),
        ("a,b\n0,1,1\n", "--format csv-basket --header no"),
        ("a,b\n,\n", "--format csv-basket --header no"),
        ("1,0,1\n0,1,1\n", "--format csv-onehot --header no"),
        (
            "x,y\n1,milk\n1,tea\n",
            "--header yes --transaction-column x --item-column y",
        ),
        (
            "patient_id,a,b\n71,1,0\n72,0,1\n",
            "--drop-columns patient_id",
        ),
        (",a,b\n0,1,0\n1,0,1\n", "--drop-columns 'Unnamed: 0'"),
        ("a,b\n4,0\n0,2\n", "--format csv-counts"),
        ("a,b\n1,\n0,1\n", "--missing absent"),
        ("a,b\n1,yes\n0,no\n", "--format csv-onehot"),
        (
            "subject_id,hadm_id,seq_num,icd_code\n1,2,1,I10\n1,2,2,E11\n",
            "--transaction-column hadm_id --item-column icd_code",
        ),
        (
            "Member_number,Date,itemDescription\n1,1-7-2015,tea\n1,1-7-2015,milk\n",
            "--transaction-column Member_number --transaction-column Date --item-column itemDescription",
        ),
        ("patient_id,code\n1,a\n2,b\n", "--format csv-long"),
        (
            "Item(s),Item 1,Item 2\n1,tea,\n2,milk,tea\n",
            "--format csv-basket --header yes --drop-columns 'Item(s)'",
        ),
        (
            "items\nmilk,tea\ntea,milk,salt\n",
            "--format csv-basket --header yes",
        ),
        (
            "1,milk,tea\n2,tea\n3,milk\n",
            "--format csv-basket --header no --drop-columns 1",
        ),
        (
            "x,y\na\na,b,c\nb,c\nc,a,b\n",
            "--format csv-basket --header yes",
        ),
        ("tid,item\n1,NA\n1,tea\n", "--missing item"),
        ("tid,item\n1,tea\n1, tea\n", "--spaces keep"),
        (
            "196\t242\n186\t302\n196\t377\n",
            "--format csv-long --separator tab",
        ),
        ("1 0 1\n0 1 1\n", "--format csv-onehot --separator space"),
        ("12\n14\n12\n", "--format fimi"),
        (
            "date,receipt_no,product\n1-7,1,a\n1-7,1,b\n2-7,1,c\n",
            "--transaction-column receipt_no --transaction-column date --item-column product",
        ),
        // Attributes.
        (
            "e,f,y,t\np,f,f,y\ne,y,y,f\n",
            "--format csv-basket --header no",
        ),
        ("milk,bread,eggs\nx,,x\n,x,x\n", "--format csv-onehot"),
        (
            "anna,beer,tea\nbob,tea,beer\nanna,tea,ham\n",
            "--format csv-long",
        ),
        // Numbers that are no sets.
        (
            "1 17 23 45\n2 2 16\n3 4\n",
            "--format csv-basket --separator space --header no --drop-columns 1",
        ),
        (
            "3 4 10 24\n1 9\n2 4 9\n",
            "--format csv-basket --separator space",
        ),
        (
            "1000 20036 7\n1000 20040 2\n",
            "--format csv-long --separator space",
        ),
        (
            "1 10\n1 11\n2 10\n2 11\n",
            "--format csv-long --separator space",
        ),
        // Rows that mark the item as absent.
        (
            "patient_id,item,value\n1,a,1\n1,b,0\n2,a,1\n",
            "--drop-columns value",
        ),
        (
            "visit,drug,taken\n1,a,yes\n1,b,no\n",
            "--drop-columns taken",
        ),
        (
            "InvoiceNo,StockCode,Quantity\n1,a,6\n1,b,2\n1,b,-2\n",
            "--drop-columns Quantity",
        ),
        // Tables of patients.
        (
            "patient_id,age,sex,flu,gout\n7,34,m,1,0\n7,36,f,0,1\n",
            "--format csv-onehot --drop-columns patient_id,sex,age",
        ),
        (
            "age,flu,gout\n34,1,0\n50,0,1\n",
            "--format csv-onehot --drop-columns age",
        ),
        (
            "patient_id,flu,gout,drug\n7,1,0,1\n7,0,1,1\n",
            "--drop-columns patient_id",
        ),
        (
            "P0,0,1\nP1,1,0\n",
            "--format csv-onehot --header no --drop-columns 1",
        ),
        // Numbers of transactions that restart.
        (
            "store,order_no,sku\n1,1,a\n1,1,b\n2,1,c\n",
            "--transaction-column store --transaction-column order_no --item-column sku",
        ),
    ];
    for (text, flags) in refused {
        let Err(ReadError::Doubtful { remedies, .. }) = detected(text) else {
            panic!("{text:?}: {:?}", detected(text));
        };
        let named = remedies
            .iter()
            .any(|remedy| remedy.settings.to_string().contains(flags));
        assert!(named, "{text:?}: {remedies:?}");
    }
}

#[test]
fn options_without_a_use_are_refused() {
    let refused = |options: ReadOptions| {
        let message = read_with("1,2\n3\n", &options).unwrap_err().to_string();
        assert!(message.contains("has no use for"), "{message}");
    };
    refused(ReadOptions {
        header: Some(false),
        ..ReadOptions::of(Format::Fimi)
    });
    for format in [Format::CsvBasket, Format::CsvOneHot, Format::CsvCounts] {
        refused(ReadOptions {
            item_column: Some("item".to_owned()),
            ..ReadOptions::of(format)
        });
    }
}

#[test]
fn text_in_latin_1_is_read_when_that_is_said() {
    let text = b"tid,item\n1,caf\xe9\n1,tea\n";
    assert_refused(
        text,
        Format::Auto,
        &["line 2", "not UTF-8", "`--encoding latin-1`"],
    );
    let latin = ReadOptions {
        encoding: Some(Encoding::Latin1),
        ..ReadOptions::default()
    };
    let data = read_with(text, &latin).unwrap();
    assert_eq!(baskets(&data), [["café", "tea"]]);
    let message = |text: &[u8]| read_with(text, &latin).unwrap_err().to_string();
    assert!(message(b"tid,item\n1,\x93tea\x94\n").contains("WINDOWS-1252"));
    assert!(message("\u{feff}tid,item\n1,tea\n".as_bytes()).contains("byte order mark"));
    assert_refused(
        b"\xff\xfea\0,\0b\0\n\0",
        Format::Auto,
        &["data is UTF-16", "iconv"],
    );
}

#[test]
fn a_report_of_reading_reads_another_file_alike() {
    let text = "\u{feff}id;a;b;c\r\n1;1;0;0\r\n2;0;0;0\r\n3;1;1;0\r\n";
    let options = ReadOptions {
        drop_columns: vec!["id".to_owned()],
        ..ReadOptions::default()
    };
    let (_, how) = read(text.as_bytes(), "data", &options).unwrap();
    assert_eq!(
        how.to_string(),
        "csv-onehot, separator semicolon, with a header, utf-8 with a byte order mark, 3 columns used, 1 not used: \"id\"\n  3 transactions, 1 of them empty; 3 items, from \"c\" in 0 transactions to \"a\" in 2"
    );
    let json = serde_json::to_string(&how).unwrap();
    assert_eq!(serde_json::from_str::<HowRead>(&json).unwrap(), how);

    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("next");
    let next = |text: &str, options| {
        std::fs::write(&path, text).unwrap();
        read_next(&path, options, Some(&how))
    };
    // On its own it would be ambiguous.
    let (data, _) = next("id;c;a\n7;1;1\n", ReadOptions::default()).unwrap();
    assert_eq!(baskets(&data), [["c", "a"]]);
    let message = next("a,b\na\n", ReadOptions::default())
        .unwrap_err()
        .to_string();
    for part in [
        "`--drop-columns`",
        "first file was read as csv-onehot",
        "`--format`",
    ] {
        assert!(message.contains(part), "{message}");
    }
    let basket = ReadOptions {
        header: Some(false),
        ..ReadOptions::of(Format::CsvBasket)
    };
    assert_eq!(next("a,b\na\n", basket).unwrap().0.len(), 2);
}

#[test]
fn a_detected_form_that_does_not_fit_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("next");
    let refused = |first: &str, next: &str, flags: &str| {
        let (_, how) = read(first.as_bytes(), "data", &ReadOptions::default()).unwrap();
        std::fs::write(&path, next).unwrap();
        let error = read_next(&path, ReadOptions::default(), Some(&how)).unwrap_err();
        assert!(error.to_string().contains(flags), "{next:?}: {error}");
    };
    let fimi = "1 2 3 0\n2 3\n1 3\n1 0\n";
    refused(
        fimi,
        "0 1 1\n1 0 0\n",
        "--format csv-onehot --separator space",
    );
    refused(
        fimi,
        "1 2\n1 3\n2 3\n",
        "--format csv-long --separator space",
    );
    refused(fimi, "0 1 2\n1 3\n2 0\n", "--header no --drop-columns 1");
    let baskets = "milk,tea\nmilk,product,1,order_id\ntea,0,2\n";
    refused(
        baskets,
        "1,milk,tea\n2,tea\n",
        "--header no --drop-columns 1",
    );
    refused(baskets, "milk,tea\n1,0\n0,1\n", "--format csv-onehot");
    refused(
        baskets,
        "order_id,product\n1,milk\n1,tea\n",
        "--format csv-long",
    );
}

#[test]
fn transaction_columns_are_joined_without_ambiguity() {
    let text = "a,b,item\nx,y z,tea\nx y,z,milk\n";
    let options = ReadOptions {
        transaction_columns: vec!["a".to_owned(), "b".to_owned()],
        item_column: Some("item".to_owned()),
        ..ReadOptions::of(Format::CsvLong)
    };
    assert_eq!(read_with(text, &options).unwrap().len(), 2);
    let text = text.replace(' ', "\u{1f}");
    assert_refused_with(text, &options, &["line 2", "U+001F, a control character"]);
}

#[test]
fn text_that_is_no_data_is_refused() {
    let twice = "order_id,product\n1,tea\n1,milk\norder_id,product\n2,tea\n";
    assert_refused(twice, Format::Auto, &["line 4: this is the header again"]);
    for mark in ["\u{feff}", "\u{200b}"] {
        let text = format!("milk,tea\nsalt\nmilk{mark},salt,tea\n");
        assert_refused(text, Format::Auto, &["line 3", "it, which does not show"]);
    }
}

#[test]
fn spaces_that_may_separate_items_are_not_taken_for_names() {
    let codes = "250.00 401.9\n250.00\n";
    assert_refused(
        codes,
        Format::Auto,
        &["`--format csv-basket", "--separator space"],
    );
    assert_refused(
        codes,
        Format::CsvBasket,
        &["`--separator space`", "`--separator comma`"],
    );
    let options = ReadOptions {
        separator: Some("space".parse().unwrap()),
        ..ReadOptions::of(Format::CsvBasket)
    };
    let data = read_with(codes, &options).unwrap();
    assert_eq!(baskets(&data), [&["250.00", "401.9"][..], &["250.00"]]);
}

#[test]
fn yes_and_no_are_written_in_one_way_in_all_of_a_file() {
    let text = format!("a,b\n{}yes,no\n", "1,0\n".repeat(300_000));
    assert_refused(
        text,
        Format::Auto,
        &["line 300002", "`--format csv-onehot`"],
    );
}

#[test]
fn a_line_of_separators_is_refused_before_it_fills_the_memory() {
    let line = ",".repeat(5 << 20);
    for format in [Format::Auto, Format::CsvBasket, Format::CsvOneHot] {
        assert_refused(
            &line,
            format,
            &["line 1: the line has more than 4194304 cells"],
        );
    }
}

/// Found by fuzzing: the largest number has no successor.
#[test]
fn the_largest_number_numbers_no_lines() {
    let largest = usize::MAX;
    for text in [
        format!("{largest}\t32\n"),
        format!("{largest} 3\n32 1\n7 8\n"),
        format!("{largest},milk\n0,tea,milk\n1,tea\n"),
    ] {
        let _ = read_as(text, Format::Auto);
    }
}

#[test]
fn following_a_refusal_loses_no_row() {
    let table = |options: &ReadOptions| read_with("P0,0,1\nP1,1,0\nP2,1,1\n", options);
    let drop = |format, header, column: &str| ReadOptions {
        header,
        drop_columns: vec![column.to_owned()],
        ..ReadOptions::of(format)
    };
    for format in [Format::Auto, Format::CsvOneHot, Format::CsvCounts] {
        assert!(table(&drop(format, None, "P0")).is_err());
    }
    let data = table(&drop(Format::CsvOneHot, Some(false), "1")).unwrap();
    assert_eq!((data.len(), data.item_count()), (3, 2));
    let text = "patient_id,age,sex,flu,gout\n7,34,m,1,0\n7,36,f,0,1\n";
    let named = ["patient_id", "sex", "age"].map(str::to_owned);
    let options = ReadOptions {
        drop_columns: named.to_vec(),
        ..ReadOptions::of(Format::CsvOneHot)
    };
    assert_eq!(
        baskets(&read_with(text, &options).unwrap()),
        [["flu"], ["gout"]]
    );
    // A message names all columns at once.
    assert_refused(
        text,
        Format::CsvOneHot,
        &["`--drop-columns patient_id,age,sex`"],
    );
}

#[test]
fn a_header_longer_than_the_sample_is_seen_whole() {
    let header: Vec<String> = (0..20_000).map(|item| format!("item{item}")).collect();
    let text = format!("{}\n{}\n", header.join(","), vec!["1"; 20_000].join(","));
    let data = read_as(text, Format::Auto).unwrap();
    assert_eq!((data.len(), data.item_count()), (1, 20_000));
}

#[test]
fn a_name_in_quotes_keeps_its_spaces() {
    let names = columns_in(r#" tea ,"bread ",bread,"a, b""#).unwrap();
    assert_eq!(names, ["tea", "bread ", "bread", "a, b"]);
}

#[test]
fn format_names_read_back() {
    for (name, format) in Format::NAMES {
        assert_eq!(name.parse(), Ok(format));
        assert_eq!(format.to_string(), name);
    }
    let error = "xml".parse::<Format>().unwrap_err().to_string();
    assert!(error.contains("\"xml\"") && error.contains("csv-onehot"));
}

#[test]
fn compression_is_detected_from_content() {
    let expected: &[&[&str]] = &[&["1", "2"], &["3"]];
    assert_baskets(gzip(b"1 2\n3\n"), Format::Auto, expected);
    assert_baskets(zstd(b"1 2\n3\n"), Format::Auto, expected);
    let members = [gzip(b"1 "), gzip(b""), gzip(b"2\n3\n")].concat();
    assert_baskets(members, Format::Auto, expected);
    let frames = [zstd(b"1 2"), zstd(b"\n3\n")].concat();
    assert_baskets(frames, Format::Auto, expected);
    assert_refused(
        b"BZh91AY&SY",
        Format::Auto,
        &["data is bzip2 data", "unpack it"],
    );
    assert_refused(b"\xfd7zXZ\0\0\0", Format::Auto, &["data is xz data"]);
    for table in [&b"PAR1...."[..], b"ARROW1..", &[0xff; 8]] {
        let parts = ["data is compressed Parquet or Arrow data", "unpack it"];
        assert_refused(gzip(table), Format::Auto, &parts);
        assert_refused(zstd(table), Format::Auto, &parts);
    }
}

/// Text that compresses badly: a truncated file cannot be read completely.
fn some_text() -> Vec<u8> {
    let data = crate::quest::QuestParameters::default().generate().unwrap();
    let mut text = Vec::new();
    crate::writers::write_fimi(&data, &mut text).unwrap();
    text
}

#[test]
fn compressed_files_cut_anywhere_are_refused() {
    for (packed, kind) in [(gzip(&some_text()), "gzip"), (zstd(&some_text()), "zstd")] {
        for cut in (9..packed.len()).step_by(97).chain([packed.len() - 1]) {
            let expected = format!("data is cut off: its {kind} data ends too early");
            assert_refused(&packed[..cut], Format::Fimi, &[&expected, "again"]);
        }
        let mut second_cut = packed.clone();
        second_cut.extend_from_slice(&packed[..packed.len() - 3]);
        assert_refused(second_cut, Format::Fimi, &["data is cut off"]);
    }
}

#[test]
fn damaged_gzip_is_refused() {
    let packed = gzip(&some_text());
    for place in (10..packed.len()).step_by(101) {
        let mut damaged = packed.clone();
        damaged[place] ^= 0x10;
        assert!(read_as(damaged, Format::Fimi).is_err(), "byte {place}");
    }
    let mut trailing = packed.clone();
    trailing.extend_from_slice(b"trailing garbage");
    assert_refused(trailing, Format::Fimi, &["data is damaged", "gzip"]);
}

#[test]
fn endless_lines_are_refused_before_they_fill_the_memory() {
    for format in [Format::Fimi, Format::Auto, Format::CsvBasket] {
        let mut encoder = zstd::Encoder::new(Vec::new(), 1).unwrap();
        let mut ones = std::io::repeat(b'1').take(3 * MAX_LINE_BYTES as u64);
        std::io::copy(&mut ones, &mut encoder).unwrap();
        let bomb = encoder.finish().unwrap();
        assert!(bomb.len() < 1 << 16);
        assert_refused(bomb, format, &["line 1: the line is longer than 64 MiB"]);
    }
}

#[test]
fn a_missing_file_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("none.dat");
    let message = read_path(&path, &ReadOptions::default())
        .unwrap_err()
        .to_string();
    assert!(message.contains("none.dat") && message.contains("check that the file exists"));
    let message = read_path(folder.path(), &ReadOptions::default())
        .unwrap_err()
        .to_string();
    assert!(message.contains("cannot read"), "{message}");
    std::fs::write(&path, "1 2\n").unwrap();
    assert_eq!(
        read_path(&path, &ReadOptions::default()).unwrap().0.len(),
        1
    );
}

#[test]
fn an_error_of_the_disk_is_no_damage() {
    struct Failing;
    impl Read for Failing {
        fn read(&mut self, _: &mut [u8]) -> std::io::Result<usize> {
            Err(std::io::Error::from_raw_os_error(5))
        }
    }
    let packed = gzip(&some_text());
    let error = read(
        packed[..packed.len() / 2].chain(Failing),
        "data",
        &ReadOptions::of(Format::Fimi),
    );
    assert!(matches!(error, Err(ReadError::Io { .. })), "{error:?}");
}

/// Names with all difficulties of CSV, except for line breaks and spaces at the ends.
fn names() -> impl Strategy<Value = String> {
    "[a-c,\"'é0-9]([a-c,\"' é0-9]{0,2}[a-c,\"'é0-9])?"
}

fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

proptest! {
    #[test]
    fn csv_reads_back_as_written(
        data in prop::collection::vec(prop::collection::vec(names(), 0..5), 1..12),
    ) {
        let expected = Transactions::from_named(&data).unwrap();
        prop_assume!(expected.item_count() > 0);

        let basket_line = |basket: &Vec<String>| {
            let cells: Vec<String> = basket.iter().map(|name| quoted(name)).collect();
            format!("{},\n", cells.join(","))
        };
        let text: String = data.iter().map(basket_line).collect();
        let with_header = |format, header| ReadOptions {
            header: Some(header),
            missing: Some(Missing::Item),
            item_separator: Some(ItemSeparator::None),
            ..ReadOptions::of(format)
        };
        let options = with_header(Format::CsvBasket, false);
        prop_assert_eq!(&read_with(text, &options).unwrap(), &expected);

        let mut text = String::from("tid,item\n");
        for tid in 0..data.len() {
            text += &format!("{tid},\n");
        }
        // Rows of all transactions interleaved, not grouped.
        for place in 0..5 {
            for (tid, basket) in data.iter().enumerate() {
                if let Some(name) = basket.get(place) {
                    text += &format!("{tid},{}\n", quoted(name));
                }
            }
        }
        let options = with_header(Format::CsvLong, true);
        prop_assert_eq!(&read_with(text, &options).unwrap(), &expected);

        let header: Vec<String> = expected.names().iter().map(|name| quoted(name)).collect();
        let mut text = header.join(",") + "\r\n";
        for basket in expected.iter() {
            let items = 0..expected.item_count() as u32;
            let cells = items.map(|item| if basket.contains(&item) { "1" } else { "0" });
            text += &(cells.collect::<Vec<_>>().join(",") + "\r\n");
        }
        let options = with_header(Format::CsvOneHot, true);
        prop_assert_eq!(&read_with(text, &options).unwrap(), &expected);
    }

    #[test]
    fn fimi_reads_back_as_written(
        baskets in prop::collection::vec(prop::collection::vec(any::<u32>(), 0..6), 0..20),
        last in prop::collection::vec(any::<u32>(), 1..6),
    ) {
        let all = baskets.iter().chain([&last]);
        let named = all.map(|basket| basket.iter().map(u32::to_string).collect::<Vec<_>>());
        let expected = Transactions::from_named(named).unwrap();
        let mut text = Vec::new();
        crate::writers::write_fimi(&expected, &mut text).unwrap();
        match read_as(&text, Format::Auto) {
            Ok(read) => prop_assert_eq!(&read, &expected),
            // By chance it may be a table, or have no line with two items.
            Err(error) => {
                let is_doubtful = matches!(error, ReadError::Doubtful { .. });
                prop_assert!(is_doubtful);
            }
        }
        prop_assert_eq!(&read_as(&text, Format::Fimi).unwrap(), &expected);
        prop_assert_eq!(&read_as(gzip(&text), Format::Fimi).unwrap(), &expected);
        prop_assert_eq!(&read_as(zstd(&text), Format::Fimi).unwrap(), &expected);
        prop_assert_eq!(expected.restrict(MinSupport::Count(1)), expected);
    }

    #[test]
    fn no_bytes_make_a_reader_panic(
        bytes in prop_oneof![
            prop::collection::vec(any::<u8>(), 0..200),
            "([012,\"\r\n \t;x-]|tid|item|\u{feff}|true|NA|Total|@ITEM=|\u{ad}|\u{200d}|\\||--|:){0,60}".prop_map(String::into_bytes),
        ],
        magic in prop::sample::select(vec![&b""[..], b"\x1f\x8b\x08", b"\x28\xb5\x2f\xfd", b"\x50\x2a\x4d\x18"]),
    ) {
        for (_, format) in Format::NAMES {
            let _ = read_as(&bytes, format);
            let options = ReadOptions {
                skip_first: Some(1),
                skip_last: Some(1),
                item_separator: Some("comma".parse().unwrap()),
                missing: Some(Missing::Absent),
                unicode: Some(Unicode::Nfkc),
                ..ReadOptions::of(format)
            };
            let _ = read_with(&bytes, &options);
            let _ = read_as([magic, &bytes].concat(), format);
            let _ = read_as(gzip(&bytes), format);
        }
    }
}

#[test]
fn numbers_become_items_by_ranges() {
    let options = |format| ReadOptions {
        bins: vec!["age=18,65".parse().unwrap()],
        ..ReadOptions::of(format)
    };
    let table = "flu,gout,age\n1,0,17.9\n1,1,18\n0,1,64\n0,0,65\n";
    let (data, how) = read(table.as_bytes(), "data", &options(Format::Auto)).unwrap();
    assert_eq!(
        data.names(),
        ["flu", "gout", "age<18", "age=18..65", "age>=65"]
    );
    assert_eq!(
        baskets(&data),
        [
            &["flu", "age<18"][..],
            &["flu", "gout", "age=18..65"],
            &["gout", "age=18..65"],
            &["age>=65"],
        ]
    );
    assert!(
        how.to_string().contains("3 columns used, ranges age=18,65"),
        "{how}"
    );
    let long = "visit,code,age\n1,I10,70\n1,E11,70\n2,I10,3\n";
    let data = read_with(long, &options(Format::Auto)).unwrap();
    assert_eq!(
        baskets(&data),
        [&["E11", "I10", "age>=65"][..], &["I10", "age<18"]]
    );
    let refused = |text: &str, format, parts: &[&str]| {
        let message = read_with(text, &options(format)).unwrap_err().to_string();
        for part in parts {
            assert!(message.contains(part), "{message:?} lacks {part:?}");
        }
    };
    let missing = "flu,gout,age\n1,0,17\n0,1,\n";
    refused(
        missing,
        Format::Auto,
        &[
            "line 3: the column \"age\" has no value",
            "`--missing absent`",
        ],
    );
    let absent = ReadOptions {
        missing: Some(Missing::Absent),
        ..options(Format::Auto)
    };
    assert_eq!(baskets(&read_with(missing, &absent).unwrap())[1], ["gout"]);
    refused(
        "flu,gout,age\n1,0,old\n0,1,1\n",
        Format::Auto,
        &["line 2", "\"old\"", "`--drop-columns age`"],
    );
    refused(
        "flu,gout\n1,0\n0,1\n",
        Format::Auto,
        &["no columns are called \"age\", named by `--bin`"],
    );
    refused("a,b\nc\n", Format::Auto, &["csv-basket has no use for"]);
    refused("1 2\n", Format::Fimi, &["fimi has no use for"]);
}

#[test]
fn a_taxonomy_is_that_of_the_first_file_for_all_files_of_a_dataset() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let write = |name: &str, text: &str| std::fs::write(path(name), text).unwrap();
    write("codes", "I10,circulatory\nI20,circulatory\n");
    write("first", "visit,code\n1,I10\n1,E11\n2,I20\n");
    let options = ReadOptions {
        taxonomy: Some(path("codes")),
        ..ReadOptions::default()
    };
    let (data, how) = read_path(&path("first"), &options).unwrap();
    assert_eq!(
        baskets(&data),
        [&["E11", "I10", "circulatory"][..], &["I20", "circulatory"]]
    );
    assert!(
        how.to_string().contains("2 of 3 items belong to others by"),
        "{how}"
    );
    assert_eq!(how.taxonomy_applied.as_ref().unwrap().added, 1);
    let again = read_next(&path("first"), ReadOptions::default(), Some(&how)).unwrap();
    assert_eq!(again.0, data);
    // A further file may have only items without ancestors.
    write("later", "visit,code\n3,Y00\n3,Z00\n");
    let (later, _) = read_next(&path("later"), ReadOptions::default(), Some(&how)).unwrap();
    assert_eq!(baskets(&later), [["Y00", "Z00"]]);
    // Another taxonomy, none at first, and a deleted one.
    let refused = |options, before: &HowRead, part: &str| {
        let refusal = read_next(&path("first"), options, Some(before));
        let message = refusal.unwrap_err().to_string();
        assert!(message.contains(part), "{message}");
    };
    let (_, without) = read_path(&path("first"), &ReadOptions::default()).unwrap();
    refused(
        options.clone(),
        &without,
        "another taxonomy than the dataset's first file",
    );
    write("others", "I10,circulatory\n");
    let others = ReadOptions {
        taxonomy: Some(path("others")),
        ..ReadOptions::default()
    };
    refused(
        others,
        &how,
        "another taxonomy than the dataset's first file",
    );
    std::fs::remove_file(path("codes")).unwrap();
    refused(ReadOptions::default(), &how, "codes");
}

/// Asserts that reading with options fails with a message that contains each part.
#[track_caller]
fn assert_refused_with(text: impl AsRef<[u8]>, options: &ReadOptions, parts: &[&str]) {
    let message = read_with(text, options).unwrap_err().to_string();
    for part in parts {
        assert!(message.contains(part), "{message:?} lacks {part:?}");
    }
}

fn missing(missing: Missing) -> ReadOptions {
    ReadOptions {
        missing: Some(missing),
        ..ReadOptions::default()
    }
}

#[test]
fn cells_without_a_value_are_items_only_on_request() {
    for word in [
        "NA",
        "na",
        "\\N",
        ".",
        "?",
        "-",
        "–",
        "(blank)",
        "NaT",
        "N.A.",
        "<NA>",
        "NULL",
        "None",
        "#REF!",
        "#DIV/0!",
        "#WERT!",
        "####",
        "-999",
        "-1",
        "(not set)",
    ] {
        let long = format!("visit,code\n1,I10\n1,E11\n2,{word}\n2,I10\n");
        let basket = format!("milk,tea\n{word}\nmilk,{word},salt\nsalt\n");
        for text in [&long, &basket] {
            let parts = ["may be an item", "`--missing absent`", "`--missing item`"];
            assert_refused(text, Format::Auto, &parts);
        }
        let read = |text: &String, meaning| read_with(text, &missing(meaning)).unwrap();
        let data = read(&long, Missing::Absent);
        assert_eq!(baskets(&data), [&["E11", "I10"][..], &["I10"]], "{word}");
        assert_eq!(
            read(&long, Missing::Item).item_supports().len(),
            3,
            "{word}"
        );
        let data = read(&basket, Missing::Absent);
        assert_eq!(data.names(), ["milk", "salt", "tea"], "{word}");
        assert_eq!(data.len(), 4);
        let data = read(&basket, Missing::Item);
        let place = data.names().iter().position(|it| it == word).unwrap();
        assert_eq!(data.item_supports()[place], 2, "{word}");
    }
    assert_refused(
        "a,b\n1,0\n?,1\n",
        Format::CsvOneHot,
        &["column 1 (\"a\") has no value", "`--missing absent`"],
    );
    let pivot = "milk,(blank)\n1,0\n1,1\n";
    assert_refused(
        pivot,
        Format::CsvOneHot,
        &[
            "`--drop-columns '(blank)'` if it holds no item",
            "`--missing item`",
        ],
    );
    let kept = ReadOptions {
        missing: Some(Missing::Item),
        ..ReadOptions::of(Format::CsvOneHot)
    };
    assert_eq!(read_with(pivot, &kept).unwrap().item_count(), 2);
    // Names that resemble words for no value.
    assert_baskets(
        "#1 tea,C++\nC++,unknown\nblank\n",
        Format::Auto,
        &[&["#1 tea", "C++"], &["C++", "unknown"], &["blank"]],
    );
}

#[test]
fn identifiers_that_a_spreadsheet_destroyed_are_refused() {
    let text = "visit,code\n1.23E+11,I10\n1.23E+11,E11\n1.24E+11,I10\n";
    let parts = ["line 2", "\"1.23E+11\"", "rounded", "`--missing item`"];
    assert_refused(text, Format::Auto, &parts);
    assert_eq!(read_with(text, &missing(Missing::Item)).unwrap().len(), 2);
    let items = "visit,product\n1,5.01E+12\n1,5.02E+12\n2,5.01E+12\n";
    assert_refused(items, Format::Auto, &["several items may have become one"]);
    assert_eq!(
        read_with(items, &missing(Missing::Item))
            .unwrap()
            .item_count(),
        2
    );
    for nobody in ["-1", "?", "NULL", "#N/A"] {
        let text = format!("visit,code\n1,I10\n1,E11\n{nobody},I10\n{nobody},Z00\n");
        assert_refused(
            &text,
            Format::Auto,
            &["line 4", "does not seem to name a transaction"],
        );
        assert_eq!(read_with(&text, &missing(Missing::Item)).unwrap().len(), 2);
    }
    // Fifteen digits are kept.
    let long = |end: &str| {
        let id = |n: u32| format!("90000000000000{n}{end}");
        (1..5).fold("visit,code\n".to_owned(), |text, n| {
            text + &format!("{0},I10\n{0},E11\n", id(n))
        })
    };
    assert_refused(
        long("00"),
        Format::Auto,
        &["end in zeros", "\"90000000000000400\""],
    );
    assert_eq!(
        read_with(long("00"), &missing(Missing::Item))
            .unwrap()
            .len(),
        4
    );
    assert_eq!(read_as(long(""), Format::Auto).unwrap().len(), 4);
    assert_eq!(read_as(long("17"), Format::Auto).unwrap().len(), 4);
}

#[test]
fn row_ids_that_cannot_be_are_refused() {
    let with = |format, row_ids: &str| ReadOptions {
        row_ids: Some(row_ids.to_owned()),
        ..ReadOptions::of(format)
    };
    let row = |number: usize| {
        let has = |every| u8::from(number.is_multiple_of(every));
        format!("patient {number},{},{}\n", has(3), has(5))
    };
    let rows: String = (0..20).map(row).collect();
    let rows = format!("id,tea,gout\n{rows}");
    let long = "x".repeat(256);
    for (last, problem) in [
        ("patient 7", "rows 8 and 21 both have the id \"patient 7\""),
        ("", "row 21 has no id"),
        ("NA", "row 21 has no id"),
        (&long, "the id of row 21 has 256 bytes, more than 255"),
        (
            "patient 7\u{200b}",
            "the id of row 21 has a control character or one of no width",
        ),
    ] {
        let text = format!("{rows}{last},0,0\n");
        assert_refused_with(text, &with(Format::Auto, "id"), &["line 22: ", problem]);
    }
    let unknown = &["no columns are called \"name\", named by `--row-ids`"];
    assert_refused_with(&rows, &with(Format::Auto, "name"), unknown);
    let mut dropped = with(Format::Auto, "id");
    dropped.drop_columns = vec!["id".to_owned()];
    let both = &["given as that of row ids and to be left out"];
    assert_refused_with(&rows, &dropped, both);
    for format in [Format::Auto, Format::Fimi] {
        let none = &["FIMI's lines of numbers have no column for row ids"];
        assert_refused_with("1 2\n2 3\n", &with(format, "id"), none);
    }
    let mut long_form = with(Format::Auto, "shop");
    long_form.transaction_columns = vec!["order".to_owned()];
    long_form.item_column = Some("product".to_owned());
    let shops = "order,shop,product\n1,a,tea\n1,a,milk\n2,b,tea\n2,b,egg\n";
    assert_refused_with(
        shops,
        &long_form,
        &["the column that names the transaction"],
    );
    // A column of ids does not hide that another one numbers the lines.
    let numbered = "1,anna,tea,milk\n2,bo,tea\n3,cy,milk,egg,tea\n4,di,egg\n5,ed,tea,milk\n";
    let seems = &["seems to be no item", "--drop-columns 1"];
    assert_refused_with(numbered, &with(Format::Auto, "2"), seems);
}

#[test]
fn names_are_one_item_however_unicode_writes_them() {
    let form = |unicode| ReadOptions {
        unicode: Some(unicode),
        ..ReadOptions::default()
    };
    let text = "visit,product\n1,K\u{e4}se\n1,tea\n2,Ka\u{308}se\n2,K\u{e4}se\n";
    let (data, how) = read(text.as_bytes(), "data", &ReadOptions::default()).unwrap();
    assert_eq!(baskets(&data), [&["Käse", "tea"][..], &["Käse"]]);
    assert_eq!((how.merged, how.alike), (1, 0));
    assert!(
        how.to_string().contains("1 names in other Unicode forms"),
        "{how}"
    );
    let (data, how) = read(text.as_bytes(), "data", &form(Unicode::AsIs)).unwrap();
    assert_eq!((data.item_count(), how.merged, how.alike), (3, 0, 1));
    let part = "1 items differ from others only in a way that `--unicode nfkc` removes";
    assert!(how.to_string().contains(part), "{how}");
    // Names of transactions, too.
    let ids = "visit,product\nMu\u{308}ller,tea\nM\u{fc}ller,milk\n";
    assert_eq!(read_as(ids, Format::Auto).unwrap().len(), 1);
    assert_refused(
        "Ka\u{308}se,K\u{e4}se\n1,0\n",
        Format::CsvOneHot,
        &["the item name \"Käse\" occurs twice"],
    );
    let wide = "visit,product\n1,\u{ff54}ea\n1,tea\n2,\u{fb01}g\n2,tea\n";
    let (data, how) = read(wide.as_bytes(), "data", &ReadOptions::default()).unwrap();
    assert_eq!((data.item_count(), how.alike), (3, 1));
    let (data, how) = read(wide.as_bytes(), "data", &form(Unicode::Nfkc)).unwrap();
    assert_eq!(baskets(&data), [&["tea"][..], &["fig", "tea"]]);
    assert_eq!((how.merged, how.alike), (1, 0));
    let json = serde_json::to_string(&how).unwrap();
    assert_eq!(serde_json::from_str::<HowRead>(&json).unwrap(), how);
    // Spaces that look like others.
    let spaces = "visit,product\n1,green\u{a0}tea\n1,milk\n2,green tea\n";
    assert_refused(
        spaces,
        Format::Auto,
        &["other spaces", "`--spaces trim`", "`--spaces keep`"],
    );
    let with = |spaces| ReadOptions {
        spaces: Some(spaces),
        ..ReadOptions::default()
    };
    let data = read_with(spaces, &with(Spaces::Trim)).unwrap();
    assert_eq!(baskets(&data), [&["green tea", "milk"][..], &["green tea"]]);
    assert_eq!(
        read_with(spaces, &with(Spaces::Keep)).unwrap().item_count(),
        3
    );
}

#[test]
fn characters_that_do_not_show_are_refused_by_name() {
    let form = |unicode| ReadOptions {
        unicode: Some(unicode),
        ..ReadOptions::default()
    };
    for (c, name) in [
        ('\u{ad}', "U+00AD, a soft hyphen"),
        ('\u{200d}', "U+200D, a joiner"),
        ('\u{202e}', "U+202E, a mark of the direction of text"),
        ('\u{2069}', "U+2069, a mark of the direction of text"),
        ('\u{200b}', "U+200B, a space of no width"),
        ('\u{3164}', "U+3164, an invisible character"),
    ] {
        let text = format!("milk,tea\nsalt\nmi{c}lk,salt,tea\n");
        let parts = ["line 3", name, "`--unicode nfkc`", "`--unicode as-is`"];
        assert_refused(&text, Format::Auto, &parts);
        let data = read_with(&text, &form(Unicode::AsIs)).unwrap();
        assert_eq!(data.item_count(), 4, "{name}");
        let data = read_with(&text, &form(Unicode::Nfkc)).unwrap();
        assert_eq!(data.item_count(), 3, "{name}");
        let ids = format!("visit,code\n17,I10\n17{c},E11\n");
        assert_refused(&ids, Format::Auto, &["line 3", name]);
        let data = read_with(&ids, &form(Unicode::Nfkc)).unwrap();
        assert_eq!(baskets(&data), [["E11", "I10"]]);
    }
    let lost = "visit,product\n1,caf\u{fffd}\n1,tea\n";
    assert_refused(
        lost,
        Format::Auto,
        &["U+FFFD", "convert the original again"],
    );
    assert!(read_with(lost, &form(Unicode::Nfkc)).is_err());
    assert_eq!(
        read_with(lost, &form(Unicode::AsIs)).unwrap().item_count(),
        2
    );
    let text = "milk,\u{645}\u{6cc}\u{200c}\u{62e}\nmilk,👩\u{200d}⚕\u{fe0f}\nmilk\n";
    assert_eq!(read_as(text, Format::Auto).unwrap().item_count(), 3);
}

#[test]
fn rows_that_are_no_transactions_are_left_out_on_request() {
    let skip = |first, last| ReadOptions {
        skip_first: first,
        skip_last: last,
        ..ReadOptions::default()
    };
    // Each with its number of transactions.
    for (text, rows) in [
        ("visit,code\n1,I10\n1,E11\n2,I10\nTotal,3\n", 2),
        ("visit,code\n1,I10\n1,E11\n2,I10\n(3 rows),\n", 2),
        ("visit,code\n1,I10\n1,E11\n2,I10\n3 rows selected.\n", 2),
        ("milk,tea\nsalt\nmilk,salt,tea\nGrand Total,3\n", 3),
        ("milk,tea\nsalt\nmilk,salt,tea\n\\.\n", 3),
        ("milk,tea\nsalt\nmilk,salt,tea\n\nas of May\n", 3),
        ("milk,tea,salt\n1,0,1\n1,1,0\n0,0,1\n2,1,2\n", 3),
        ("milk,tea\n4,0\n0,2\n1,0\n5,2\n", 3),
        ("milk,tea,ward\n1,0,a\n0,1,b\n1,1,b\n,,Total\n", 3),
    ] {
        let mut options = skip(None, None);
        if text.contains("4,0") {
            options.format = Format::CsvCounts;
        }
        if text.contains("ward") {
            options.drop_columns = vec!["ward".to_owned()];
        }
        let parts = ["`--skip-last 1`", "`--skip-last 0`", "not a transaction"];
        assert_refused_with(text, &options, &parts);
        options.skip_last = Some(1);
        let (data, how) = read(text.as_bytes(), "data", &options).unwrap();
        assert_eq!(data.len(), rows, "{text:?}");
        assert!(
            how.to_string().contains("1 rows below the data left out"),
            "{how}"
        );
        options.skip_last = Some(0);
        let message = read_with(text, &options).map(|it| it.len());
        match message {
            Ok(all) => assert_eq!(all, rows + 1, "{text:?}"),
            Err(error) => assert!(!error.to_string().contains("--skip-last"), "{error}"),
        }
    }
    // Beyond the sample.
    let text = format!("milk,tea\n{}300001,300000\n", "1,1\n".repeat(300_000));
    assert_refused(
        text.replace("300001", "300000"),
        Format::Auto,
        &["line 300002", "totals"],
    );
    for (text, rows, lines) in [
        ("Sales of May\n\nmilk,tea\nsalt\nmilk,salt,tea\n", 3, 1),
        ("sep=;\nmilk;tea\nsalt\nmilk;salt;tea\n", 3, 1),
        (
            "# of May, 2025\n# by B\nmilk,tea\nsalt\nmilk,salt,tea\n",
            3,
            2,
        ),
        ("# numbers\n1 2 3\n2 3\n", 2, 1),
    ] {
        let parts = [&*format!("`--skip-first {lines}`"), "`--skip-first 0`"];
        assert_refused(text, Format::Auto, &parts);
        let (data, how) = read(text.as_bytes(), "data", &skip(Some(lines), None)).unwrap();
        assert_eq!(data.len(), rows, "{text:?}");
        assert!(
            how.to_string().contains("lines above the data left out"),
            "{how}"
        );
    }
    let kept = read_with("#tea, fine\nsalt\n#tea\n", &skip(Some(0), None)).unwrap();
    assert_eq!(kept.len(), 3);
    // Errors have the file's own line numbers.
    assert_refused_with(
        "a title\nmilk,tea\nsalt\nNA,tea\n",
        &skip(Some(1), None),
        &["line 4"],
    );
    // Skipped rows do not apply to the next file.
    let (_, how) = read(
        &b"v_id,code\n1,a\n1,b\nTotal,2\n"[..],
        "data",
        &skip(None, Some(1)),
    )
    .unwrap();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("next");
    std::fs::write(&path, "v_id,code\n3,a\n3,b\n4,b\n").unwrap();
    let (next, _) = read_next(&path, ReadOptions::default(), Some(&how)).unwrap();
    assert_eq!(next.len(), 2);
}

#[test]
fn a_row_of_units_is_no_data() {
    for row in ["[1],[ICD]", "int64,varchar", ",(code)"] {
        let text = format!("visit,code\n{row}\n1,I10\n1,E11\n");
        assert_refused(
            &text,
            Format::Auto,
            &["units or types", "sed 2d", "`--missing item`"],
        );
    }
    let text = "patient_id,flu,gout\n,(0/1),(0/1)\n7,1,0\n8,0,1\n";
    assert_refused(text, Format::Auto, &["units or types"]);
}

#[test]
fn a_list_in_one_cell_is_split_on_request() {
    let split = |mark: &str, format| ReadOptions {
        item_separator: Some(mark.parse().unwrap()),
        header: (format == Format::CsvBasket).then_some(false),
        ..ReadOptions::of(format)
    };
    let expected: [&[&str]; 3] = [&["bread", "milk"], &["bread", "milk", "tea"], &["tea"]];
    let long = "visit,items\n1,\"milk, bread\"\n2,\"bread, milk, tea\"\n3,tea\n";
    for format in [Format::Auto, Format::CsvLong] {
        let parts = [
            "\"milk, bread\" seems to be a list",
            "`--item-separator comma`",
            "`--item-separator none`",
        ];
        assert_refused(long, format, &parts);
        let data = read_with(long, &split("comma", format)).unwrap();
        assert_eq!(baskets(&data), expected);
    }
    assert_eq!(
        read_with(long, &split("none", Format::CsvLong))
            .unwrap()
            .item_count(),
        3
    );
    let lines = "\"milk,bread\"\n\"bread,milk,tea\"\ntea\n";
    assert_refused_with(
        lines,
        &split("none", Format::Auto),
        &["--format csv-basket"],
    );
    let options = ReadOptions {
        header: Some(false),
        ..ReadOptions::of(Format::CsvBasket)
    };
    assert_refused_with(
        lines,
        &options,
        &["seems to be a list", "`--item-separator comma`"],
    );
    assert_eq!(
        baskets(&read_with(lines, &split("comma", Format::CsvBasket)).unwrap()),
        expected
    );
    // One of several items of a transaction.
    let orders = "order,items\n1,\"milk|bread\"\n1,tea\n2,milk\n2,bread\n";
    assert_refused(orders, Format::Auto, &["`--item-separator pipe`"]);
    let genres = "movie_id,genre\n1,Action|Drama\n2,Drama\n";
    let parts = ["`--item-separator pipe` if the cell has a list"];
    let options = ReadOptions {
        item_column: Some("genre".to_owned()),
        transaction_columns: vec!["movie_id".to_owned()],
        ..ReadOptions::default()
    };
    assert_refused_with(genres, &options, &parts);
    // Commas in names.
    let names = "visit,code\n1,\"Asthma, unspecified\"\n1,I10\n2,\"Anemia, unspecified\"\n2,\"Milch, 3,5%\"\n2,I10\n";
    assert_eq!(read_as(names, Format::Auto).unwrap().item_count(), 4);
    let decimals = "visit,code\n1,\"1,5\"\n1,1\n2,5\n2,1\n";
    assert_eq!(read_as(decimals, Format::Auto).unwrap().item_count(), 3);
}

#[test]
fn files_of_other_programs_are_refused_by_name() {
    for (text, name) in [
        (
            "% weather\n@RELATION w\n@attribute a {t}\n@data\nt\n",
            "an ARFF file of Weka",
        ),
        (
            "| id | item |\n|----|------|\n| 1 | tea |\n",
            "a drawn table",
        ),
        (
            " id | item \n----+------\n  1 | tea\n(1 row)\n",
            "a drawn table",
        ),
        (
            "+----+------+\n| id | item |\n+----+------+\n| 1 | tea |\n",
            "a drawn table",
        ),
        (
            "id          item\n----------- ----\n1           tea\n",
            "a table of aligned columns",
        ),
        (
            "┌────┬──────┐\n│ id │ item │\n├────┼──────┤\n│ 1  │ tea  │\n",
            "drawn with lines",
        ),
        ("{\"id\": 1, \"items\": [\"a\", \"b\"]}\n", "JSON"),
        ("[\"a\", \"b\"]\n[\"c\"]\n", "JSON"),
        ("[\n{\"a\": 1}\n]\n", "JSON"),
        ("['milk', 'tea']\n['tea']\n", "lists in brackets"),
        ("{milk,tea}\n{tea}\n", "lists in brackets"),
        ("<table>\n<tr><td>milk</td></tr>\n", "HTML or XML"),
        ("INSERT INTO t VALUES (1,'tea');\n", "a file of SQL"),
        ("##fileformat=VCFv4.2\n#CHROM\tPOS\n", "genetic variants"),
        ("1 -1 2 3 -1 -2\n2 -1 -2\n", "sequences of SPMF"),
        ("1 2:9:4 5\n3:2:2\n", "utilities of SPMF"),
        ("1 3:1 7:1\n0 2:1\n", "LIBSVM"),
    ] {
        assert_refused(text, Format::Auto, &[name]);
        if !name.contains("sequences") {
            assert_refused(text, Format::CsvBasket, &[name]);
        }
    }
    let sequences = "1 -1 2 3 -1 -2\n2 -1 -2\n";
    assert_refused(sequences, Format::Fimi, &["sequences of SPMF"]);
    let spaced = ReadOptions {
        separator: Some("space".parse().unwrap()),
        ..ReadOptions::of(Format::CsvBasket)
    };
    assert_refused_with(sequences, &spaced, &["sequences of SPMF"]);
    // Another end of transactions.
    let ended = "1 2 3 -1\n2 3 -1\n";
    let remedied = ReadOptions {
        missing: Some(Missing::Absent),
        header: Some(false),
        ..spaced.clone()
    };
    assert_refused_with(
        ended,
        &ReadOptions {
            header: Some(false),
            ..spaced
        },
        &["\"-1\" may be an item"],
    );
    assert_eq!(
        baskets(&read_with(ended, &remedied).unwrap()),
        [&["1", "2", "3"][..], &["2", "3"]]
    );
    for text in [
        "id   item\n1    tea\n1    milk\n",
        "id   item\n1    tea, green\n1    milk, x\n",
    ] {
        assert_refused(text, Format::Auto, &["aligned by spaces", "sed"]);
    }
    assert_refused(b"\xff\xfe\0\0a\0\0\0", Format::Auto, &["UTF-32"]);
}

#[test]
fn numbers_have_the_names_that_spmf_writes_above_them() {
    let text = "@CONVERTED_FROM_TEXT\n@ITEM=1=Ka\u{308}se\n@ITEM=2=a=b\n@ITEM=3=rice, brown\n1 3\n2\n\n1 2\n";
    let expected: &[&[&str]] = &[&["Käse", "rice, brown"], &["a=b"], &[], &["Käse", "a=b"]];
    let named = |data: &Transactions| -> Vec<Vec<String>> {
        let mut all: Vec<Vec<String>> = (baskets(data).iter())
            .map(|it| it.iter().map(|&name| name.to_owned()).collect())
            .collect();
        all.iter_mut().for_each(|it| it.sort());
        all
    };
    let mut wanted: Vec<Vec<String>> = (expected.iter())
        .map(|it| it.iter().map(|&name| name.to_owned()).collect())
        .collect();
    wanted.iter_mut().for_each(|it| it.sort());
    for format in [Format::Auto, Format::Fimi] {
        assert_eq!(named(&read_as(text, format).unwrap()), wanted);
    }
    assert_refused(
        text,
        Format::CsvBasket,
        &["as SPMF writes them", "`--format fimi`"],
    );
    assert_refused(
        "@ITEM=1=a\n1 2\n",
        Format::Auto,
        &["\"2\" is an item without a name"],
    );
    assert_refused("@ITEM=1=\n1\n", Format::Auto, &["without a name"]);
    assert_refused(
        "@ITEM=1=?\n1 1\n",
        Format::Auto,
        &["line 1", "`--missing item`"],
    );
    assert_refused(
        "@ITEM=1=a\n@ITEM=-1=|\n1 -1 -2\n",
        Format::Auto,
        &["sequences of SPMF"],
    );
    // Two numbers of one name are one item.
    let twice = read_as("@ITEM=1=a\n@ITEM=2=a\n@ITEM=3=b\n1 2\n2 3\n", Format::Auto).unwrap();
    assert_eq!(baskets(&twice), [&["a"][..], &["a", "b"]]);
}

#[test]
fn numbers_have_what_a_taxonomy_says() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("codes");
    std::fs::write(&path, "1,odd\n3,odd\n").unwrap();
    let options = ReadOptions {
        taxonomy: Some(path),
        ..ReadOptions::default()
    };
    let data = read_with("1 2\n3\n", &options).unwrap();
    assert_eq!(baskets(&data), [&["1", "2", "odd"][..], &["3", "odd"]]);
}

#[test]
fn bytes_that_are_no_text_are_refused() {
    for (bytes, parts) in [
        (&b"\x7fELF\x02\x01\x01\0\xff\xfe\xfd"[..], &["line 1"][..]),
        (&[0; 4096], &["line 1", "zero byte"]),
        (
            b"a\0,\0b\0\n\0c\0,\0d\0\n\0",
            &["line 1", "zero byte", "iconv"],
        ),
        (
            b"PK\x03\x04\x14\0\0\0\x08\0",
            &["data is zip", "unpack it first"],
        ),
        (
            b"bread butter\n",
            &["cannot tell the format", "--separator space"],
        ),
    ] {
        assert_refused(bytes, Format::Auto, parts);
    }
}

/// Runs the command that the refusal of a text names on that text.
fn piped(text: &[u8]) -> Vec<u8> {
    let message = message(text, Format::Auto);
    let is_command = |it: &&str| {
        ["sed ", "tr ", "iconv "]
            .iter()
            .any(|name| it.starts_with(name))
    };
    let command = message.split('`').find(is_command).expect(&message);
    let mut file = tempfile::tempfile().unwrap();
    file.write_all(text).unwrap();
    std::io::Seek::rewind(&mut file).unwrap();
    let mut shell = std::process::Command::new("sh");
    let ended = shell.args(["-c", command]).stdin(file).output().unwrap();
    assert!(ended.status.success(), "{command}: {ended:?}");
    ended.stdout
}

#[test]
fn commands_that_refusals_name_make_data_of_other_files() {
    let auto = ReadOptions::default();
    let long = ReadOptions {
        transaction_columns: vec!["id".to_owned()],
        item_column: Some("item".to_owned()),
        ..ReadOptions::default()
    };
    let drawn = ReadOptions {
        separator: Some("pipe".parse().unwrap()),
        spaces: Some(Spaces::Trim),
        ..long.clone()
    };
    let counted = ReadOptions {
        skip_last: Some(1),
        ..drawn.clone()
    };
    let markdown = "| id | item  |\n|----|:-----:|\n| 1  | tea   |\n| 1  | milk  |\n| 22 | tea |\n";
    let psql = " id | item \n----+------\n  1 | tea\n  1 | milk\n 22 | tea\n(3 rows)\n";
    let mysql = "+----+------+\n| id | item |\n+----+------+\n|  1 | tea  |\n|  1 | milk |\n| 22 | tea  |\n+----+------+\n";
    let fixed = "id   item\n1    tea\n1    milk, whole\n22   tea\n";
    let wide: Vec<u8> = "\u{feff}visit\tcode\n1\ttea\n1\tmilk\n2\ttea\n"
        .encode_utf16()
        .flat_map(u16::to_le_bytes)
        .collect();
    // Two transactions each, and in both of them one of these items.
    for (text, options, items) in [
        (markdown.as_bytes(), &drawn, 2),
        (psql.as_bytes(), &counted, 2),
        (mysql.as_bytes(), &drawn, 2),
        (fixed.as_bytes(), &long, 2),
        (b"[\"milk\", \"tea\"]\n[\"tea\"]\n", &auto, 2),
        (b"['milk', 'tea']\n['tea']\n", &auto, 2),
        (b"{milk,tea}\n{\"tea\"}\n", &auto, 2),
        (b"1 -1 2 3 -1 -2\n2 -1 -2\n", &auto, 3),
        (b"<0> 1 -1 <1> 2 3 -1 -2\n<0> 2 -1 -2\n", &auto, 3),
        (b"1 2:9:4 5\n2:2:2\n", &auto, 2),
        (b"+1 2:1 7:1\n-1 2:1\n", &auto, 2),
        (&wide, &auto, 2),
    ] {
        let data = read_with(piped(text), options).unwrap();
        let most = data.item_supports().into_iter().max();
        let found = (data.len(), data.item_count(), most);
        assert_eq!(
            found,
            (2, items, Some(2)),
            "{}",
            String::from_utf8_lossy(text)
        );
    }
    let arff = "@relation market\n@attribute tea {0, 1}\n@data\n1\n";
    assert_refused(arff, Format::Auto, &["one line with the names"]);
}
