//! Files as the command reads them: refused with options that it has, and described as they were read. The meaning of
//! each layout and the refusals are tested by the readers (`readers/tests.rs`) and by `python/tests/test_reading.py`.

use crate::common::plaintext::supports;
use crate::common::{Home, says};
use arrow_array::{ArrayRef, BooleanArray, Int64Array, RecordBatch};
use parquet::arrow::ArrowWriter;
use std::sync::Arc;

/// MIMIC-IV, and the options for its admissions.
const MIMIC: &str = "subject_id,hadm_id,seq_num,icd_code,icd_version\n\
    10000032,22595853,1,5723,9\n10000032,22595853,2,78959,9\n10000032,22841357,1,07071,9\n\
    10000032,22841357,2,78959,9\n10000032,22841357,3,V4986,9\n10000084,23052089,1,G3183,10\n\
    10000084,23052089,2,F0280,10\n";
const ADMISSIONS: &str = "--transaction-column hadm_id --item-column icd_code";
const CODES: &str = "patient_id,code\n17,I10\n18,E11.9\n17,E11.9\n19,I10\n";

#[test]
fn options_that_a_refusal_names_read_the_file() {
    let owner = Home::with_key();
    owner.write("admissions", MIMIC);
    let cases = r"
        visit,code\n1,tea\n1,milk\n2,tea\nTotal,3\n => --skip-last 1 => 2 2
        Sales\n\ntea,milk\ntea\nsalt\n => --skip-first 1 => 3 3
        visit,code\n1,tea\n1,NULL\n2,tea\n2,milk\n => --missing absent => 2 2
        visit,items\n1,'tea, milk'\n2,'tea'\n => --item-separator comma => 2 2
        visit,code\n1,tea\n1,mi~lk\n2,milk\n => --unicode nfkc => 2 2
        tid,item\n1,tea\n1, tea\n => --spaces keep => 1 2
        1 17 23 45\n2 2 16\n3 4\n => --separator space --header no --drop-columns 1 => 3 6
        items\nmilk,tea\ntea,milk,salt\n => --header yes => 2 3
        patient_id,item,value\n1,a,1\n1,b,0\n2,a,1\n => --drop-columns value => 2 2
        date,receipt_no,product\n1-7,1,a\n1-7,1,b\n2-7,1,c\n => --transaction-column receipt_no --transaction-column date => 2 3
    ";
    for case in cases.lines().map(str::trim).filter(|it| !it.is_empty()) {
        let [text, option, found] = case.splitn(3, " => ").collect::<Vec<_>>()[..] else {
            panic!("{case}");
        };
        let text = text.replace(r"\n", "\n").replace('\'', "\"");
        owner.write("file", text.replace('~', "\u{ad}"));
        let message = owner.refused("encrypt file");
        let remedy = message.split('`').find(|it| it.contains(option));
        let remedy = remedy.unwrap_or_else(|| panic!("{message} does not name {option}"));
        let read = owner.json(&format!("plan file {remedy}"))["read"].take();
        let numbers = format!("{} {}", read["transactions"], read["items"]);
        assert_eq!(numbers, found, "{case}: {remedy}");
    }
    says(
        &owner.refused("encrypt admissions"),
        &["admissions", ADMISSIONS],
    );
    let text = owner.done(&format!("plan admissions {ADMISSIONS}"));
    says(
        &text,
        &[
            "read as csv-long, separator comma, with a header, utf-8, transactions by \"hadm_id\", items by \"icd_code\"",
            "2 columns used, 3 not used: \"subject_id\", \"seq_num\", \"icd_version\"",
            "3 transactions, 0 of them empty; 6 items",
        ],
    );
}

#[test]
fn what_is_no_input_is_refused() {
    let owner = Home::with_key();
    owner.write("zeros.dat", [0; 4096]);
    owner.write("rows.dat", "1 2\n");
    owner.json("encrypt rows.dat");
    owner.refuses(
        "encrypt zeros.dat => zeros.dat, line 1 … zero byte
        encrypt none.dat => cannot read none.dat … check that the file exists
        mine rows.oboro --min-support 1 --format csv-onehot => options need a file; give … omit these options
        plan --transactions 9 --items 3 --drop-columns a => options need a file; give … omit these options",
    );
    owner.misuses("encrypt zeros.dat --format xml => xml");
}

#[test]
fn a_further_file_is_read_like_the_first_of_its_dataset() {
    let owner = Home::with_key();
    owner.write("first.csv", "patient_id;a;b\n1;1;0\n2;1;1\n");
    let text = owner.done("encrypt first.csv --drop-columns patient_id");
    says(
        &text,
        &[
            "read first.csv as csv-onehot, separator semicolon, with a header",
            "1 not used: \"patient_id\"",
            "the ciphertext takes",
        ],
    );
    owner.write("next.csv", "patient_id;b;a\n3;1;0\n");
    let appended = owner.json("encrypt next.csv --append-to first.oboro");
    assert_eq!(
        (&appended["transactions"], &appended["read"]["transactions"]),
        (&3.into(), &1.into())
    );
    owner.write("other.csv", "a,b\na\n");
    let message = owner.refused("encrypt other.csv --append-to first.oboro");
    says(
        &message,
        &[
            "other.csv",
            "first file was read as csv-onehot",
            "`--format`",
        ],
    );
    owner.json("encrypt other.csv --append-to first.oboro --format csv-basket --header no");
}

/// A table in Parquet.
fn table() -> Vec<u8> {
    let bits = |bits: [bool; 3]| -> ArrayRef { Arc::new(BooleanArray::from(bits.to_vec())) };
    let ids: ArrayRef = Arc::new(Int64Array::from(vec![1, 2, 3]));
    let columns = [
        ("patient_id", ids),
        ("diabetes", bits([true, true, false])),
        ("asthma", bits([false, false, true])),
    ];
    let batch = RecordBatch::try_from_iter(columns).unwrap();
    let mut file = Vec::new();
    let mut writer = ArrowWriter::try_new(&mut file, batch.schema(), None).unwrap();
    writer.write(&batch).unwrap();
    writer.close().unwrap();
    file
}

#[test]
fn parquet_is_read_by_its_content() {
    let owner = Home::with_key();
    owner.write("table.parquet", table());
    let text = owner.done("encrypt table.parquet --drop-columns patient_id");
    let read =
        "read table.parquet as Parquet (csv-onehot), 2 columns used, 1 not used: \"patient_id\"";
    says(&text, &[read, "table.oboro"]);
    owner.write("cut.parquet", &table()[..200]);
    let message = owner.refused("encrypt cut.parquet");
    says(
        &message,
        &[
            "cannot read cut.parquet as Parquet",
            "check that it is whole",
        ],
    );
}

#[test]
fn standard_input_is_read_like_a_file() {
    let owner = Home::with_key();
    owner.write("codes.csv", CODES);
    owner.write("table.parquet", table());
    for (file, options) in [
        ("codes.csv", ""),
        ("table.parquet", "--drop-columns patient_id"),
    ] {
        let script = format!("cat {file} | \"$oboro\" plan - {options} --json");
        let piped = owner.start_shell(&script).json();
        assert_eq!(
            piped["read"],
            owner.json(&format!("plan {file} {options}"))["read"]
        );
    }
    owner.refuses(
        "encrypt - => standard input has no name … give --out DIR
        encrypt - --out x.oboro => standard input has no transactions",
    );
    let encrypt = "gzip -c codes.csv | \"$oboro\" encrypt - --out x.oboro --json";
    owner.start_shell(encrypt).json();
}

#[test]
fn codes_bring_their_chapters_and_ages_their_ranges() {
    let owner = Home::with_key();
    owner.write(
        "rows.csv",
        "patient_id,code,age\n1,I10,70\n1,E11,70\n2,I20,17\n3,I10,40\n",
    );
    owner.write("codes.csv", "code;category;chapter\nI10;I10-I15;circulatory\nI20;I20-I25;circulatory\nE11;E08-E13;endocrine\n");
    let options = "--taxonomy codes.csv --bin age=0,18,65";
    let text = owner.done(&format!("encrypt rows.csv {options}"));
    says(
        &text,
        &[
            "ranges age=0,18,65",
            "3 of 6 items belong to others by",
            "which added 5",
        ],
    );
    let server = owner.serve("");
    owner.talk_to(server.url());
    owner.json("upload rows.oboro");
    let mined = owner.json(&format!(
        "mine rows.oboro --min-support 2 --verify rows.csv {options}"
    ));
    let pair = ["I10-I15", "circulatory"].map(str::to_owned).to_vec();
    assert_eq!(supports(&mined)[&pair], 2);
    owner.write("others.csv", "I10,heart\n");
    let message = owner.refused("encrypt rows.csv --append-to rows.oboro --taxonomy others.csv");
    says(
        &message,
        &[
            "another taxonomy than the dataset's first file",
            "`--taxonomy`",
        ],
    );
    let message = owner.misused("plan rows.csv --bin age=18,0");
    says(&message, &["age=18,0", "age=0,18,40,65"]);
}
