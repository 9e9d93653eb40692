//! Data as people have them: each layout is read rightly, or refused with what reads it, and what was read is told.

use crate::common::plaintext::supports;
use crate::common::{Home, says};
use arrow_array::{ArrayRef, BooleanArray, Int64Array, RecordBatch, StringArray};
use parquet::arrow::ArrowWriter;
use serde_json::Value;
use std::sync::Arc;

/// Files as their sources have them, and the beginning of each.
const MIMIC: &str = "subject_id,hadm_id,seq_num,icd_code,icd_version\n\
    10000032,22595853,1,5723,9\n10000032,22595853,2,78959,9\n10000032,22841357,1,07071,9\n\
    10000032,22841357,2,78959,9\n10000032,22841357,3,V4986,9\n10000084,23052089,1,G3183,10\n\
    10000084,23052089,2,F0280,10\n";
const CODES: &str = "patient_id,code\n17,I10\n18,E11.9\n17,E11.9\n19,I10\n";
const GROCERIES: &str = "Member_number,Date,itemDescription\n1808,21-07-2015,tropical fruit\n\
    1808,21-07-2015,whole milk\n2300,19-09-2015,pip fruit\n2300,19-09-2015,whole milk\n1808,05-01-2015,rolls/buns\n";
const GROCERY_BASKETS: &str = "citrus fruit,semi-finished bread,margarine,ready soups\n\
    tropical fruit,yogurt,coffee\nwhole milk\npip fruit,yogurt,cream cheese ,meat spreads\n\
    other vegetables,whole milk,condensed milk,long life bakery product\ncitrus fruit,whole milk\n";
const RETAIL: &str = "InvoiceNo,StockCode,Description,Quantity,InvoiceDate,UnitPrice,CustomerID,Country\n\
    536365,85123A,\"WHITE HANGING HEART T-LIGHT HOLDER\",6,12/1/2010 8:26,2.55,17850,United Kingdom\n\
    536365,71053,WHITE METAL LANTERN,6,12/1/2010 8:26,3.39,17850,United Kingdom\n\
    536366,22633,HAND WARMER UNION JACK,6,12/1/2010 8:28,1.85,17850,United Kingdom\n\
    536366,71053,WHITE METAL LANTERN,6,12/1/2010 8:28,3.39,,United Kingdom\n\
    C536379,85123A,\"WHITE HANGING HEART T-LIGHT HOLDER\",-1,12/1/2010 9:41,2.55,14527,United Kingdom\n";
const ONE_HOT: &str = "patient_id,diabetes,hypertension,asthma\n1,1,0,0\n2,1,1,0\n3,0,1,1\n";
const YES_NO: &str = "Fever,Cough,Fatigue\nYes,No,Yes\nNo,Yes,Yes\nYes,Yes,No\n";
const SEMICOLONS: &str = "Kasse;Bon;Artikel\n1;17;Milch, 3,5%\n1;17;Brot\n2;17;Brot\n";

/// What `oboro plan` says of a file: transactions, items, the densest item and its transactions.
fn read(owner: &Home, line: &str) -> (u64, u64, String, u64) {
    let plan = owner.json(&format!("plan {line}"));
    let read = &plan["read"];
    (
        read["transactions"].as_u64().unwrap(),
        read["items"].as_u64().unwrap(),
        read["densest"]["item"].as_str().unwrap().to_owned(),
        read["densest"]["transactions"].as_u64().unwrap(),
    )
}

/// A file that is refused with options, one of which must read it so.
fn assert_remedied(
    owner: &Home,
    file: &str,
    remedy: &str,
    (transactions, items, densest, support): (u64, u64, &str, u64),
) {
    let message = owner.refused(&format!("encrypt {file}"));
    says(&message, &[file, &format!("`{remedy}`")]);
    let found = read(owner, &format!("{file} {remedy}"));
    assert_eq!(found, (transactions, items, densest.to_owned(), support));
}

#[test]
fn mimic_iv_needs_to_be_told_whether_patients_or_admissions_are_meant() {
    let owner = Home::with_key();
    owner.write("diagnoses_icd.csv", MIMIC);
    let admissions = "--transaction-column hadm_id --item-column icd_code";
    assert_remedied(&owner, "diagnoses_icd.csv", admissions, (3, 6, "78959", 2));
    let patients = "--transaction-column subject_id --item-column icd_code";
    assert_remedied(&owner, "diagnoses_icd.csv", patients, (2, 6, "5723", 1));
    let text = owner.done(&format!("plan diagnoses_icd.csv {admissions}"));
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
fn patients_and_codes_are_read_as_they_are() {
    let owner = Home::with_key();
    owner.write("codes.csv", CODES);
    assert_eq!(read(&owner, "codes.csv"), (3, 2, "E11.9".to_owned(), 2));
}

#[test]
fn groceries_are_of_a_member_on_a_day_or_baskets() {
    let owner = Home::with_key();
    owner.write("Groceries_dataset.csv", GROCERIES);
    let by_day = "--transaction-column Member_number --transaction-column Date --item-column itemDescription";
    assert_remedied(
        &owner,
        "Groceries_dataset.csv",
        by_day,
        (3, 4, "whole milk", 2),
    );
    owner.write("groceries.csv", GROCERY_BASKETS);
    assert_eq!(
        read(&owner, "groceries.csv"),
        (6, 14, "whole milk".to_owned(), 3)
    );
    // The same with the number of items before them and columns numbered.
    let numbered: String = GROCERY_BASKETS
        .lines()
        .map(|line| format!("{},{line}\n", line.split(',').count()))
        .collect();
    let header = "Item(s),Item 1,Item 2,Item 3,Item 4\n";
    owner.write("counted.csv", format!("{header}{numbered}"));
    let message = owner.refused("encrypt counted.csv");
    says(&message, &["--drop-columns 'Item(s)'", "count its items"]);
}

#[test]
fn online_retail_has_two_names_of_items_and_returns() {
    let owner = Home::with_key();
    owner.write("retail.csv", RETAIL);
    let invoices = "--transaction-column InvoiceNo --item-column StockCode";
    let message = owner.refused("encrypt retail.csv");
    says(&message, &["retail.csv", &format!("`{invoices}`")]);
    // A returned item is not one that was bought.
    let message = owner.refused(&format!("encrypt retail.csv {invoices}"));
    says(
        &message,
        &[
            "line 6",
            "Quantity",
            "take such rows out",
            "`--drop-columns Quantity`",
        ],
    );
    let bought: Vec<&str> = RETAIL
        .lines()
        .filter(|line| !line.starts_with('C'))
        .collect();
    owner.write("bought.csv", bought.join("\n"));
    let found = read(&owner, &format!("bought.csv {invoices}"));
    assert_eq!(found, (2, 3, "71053".to_owned(), 2));
}

#[test]
fn tables_have_ids_words_and_other_separators() {
    let owner = Home::with_key();
    owner.write("onehot.csv", ONE_HOT);
    assert_remedied(
        &owner,
        "onehot.csv",
        "--drop-columns patient_id",
        (3, 3, "diabetes", 2),
    );
    let ids = read(&owner, "onehot.csv --row-ids patient_id");
    assert_eq!(ids, (3, 3, "diabetes".to_owned(), 2));
    owner.write("symptoms.csv", YES_NO);
    assert_eq!(read(&owner, "symptoms.csv"), (3, 3, "Fever".to_owned(), 2));
    owner.write("bons.csv", SEMICOLONS);
    let tills = "--transaction-column Kasse --transaction-column Bon --item-column Artikel";
    // Words that are not known as names of transactions.
    let message = owner.refused("encrypt bons.csv");
    says(&message, &["bons.csv", "`--format csv-long`"]);
    let message = owner.refused("encrypt bons.csv --format csv-long");
    says(
        &message,
        &[
            "bons.csv",
            "`--transaction-column Bon --item-column Artikel`",
        ],
    );
    assert_eq!(
        read(&owner, &format!("bons.csv {tills}")),
        (2, 2, "Brot".to_owned(), 2)
    );
    assert!(
        owner
            .done(&format!("plan bons.csv {tills}"))
            .contains("separator semicolon")
    );
}

fn parquet(columns: Vec<(&str, ArrayRef)>) -> Vec<u8> {
    let batch = RecordBatch::try_from_iter(columns).unwrap();
    let mut file = Vec::new();
    let mut writer = ArrowWriter::try_new(&mut file, batch.schema(), None).unwrap();
    writer.write(&batch).unwrap();
    writer.close().unwrap();
    file
}

fn long_parquet() -> Vec<u8> {
    let rows: Vec<Vec<&str>> = MIMIC
        .lines()
        .skip(1)
        .map(|it| it.split(',').collect())
        .collect();
    let number = |place: usize| -> ArrayRef {
        let cells = rows.iter().map(|row| row[place].parse::<i64>().ok());
        Arc::new(cells.collect::<Int64Array>())
    };
    let codes: ArrayRef = Arc::new(rows.iter().map(|row| Some(row[3])).collect::<StringArray>());
    let names = ["subject_id", "hadm_id", "seq_num"]
        .into_iter()
        .zip([0, 1, 2].map(number));
    parquet(names.chain([("icd_code", codes)]).collect())
}

#[test]
fn parquet_of_each_form_gives_what_csv_gives() {
    let owner = Home::with_key();
    owner.write("visits.parquet", long_parquet());
    owner.write("visits.csv", MIMIC);
    let admissions = "--transaction-column hadm_id --item-column icd_code";
    assert_remedied(&owner, "visits.parquet", admissions, (3, 6, "78959", 2));
    let server = owner.serve("");
    owner.talk_to(server.url());
    let mut found = Vec::new();
    for (file, name) in [("visits.parquet", "a"), ("visits.csv", "b")] {
        let read = owner.json(&format!("encrypt {file} {admissions} --out {name}"));
        assert_eq!(
            read["read"]["container"],
            if name == "a" {
                "parquet".into()
            } else {
                Value::Null
            }
        );
        owner.json(&format!("upload {name} --name {name}"));
        // The other file is the same data.
        let mined = owner.json(&format!(
            "mine {name} --min-support 1 --verify visits.csv {admissions} --format csv-long"
        ));
        found.push(supports(&mined));
    }
    assert_eq!(found[0], found[1]);
    let bits = |bits: [bool; 3]| -> ArrayRef { Arc::new(BooleanArray::from(bits.to_vec())) };
    let ids: ArrayRef = Arc::new(Int64Array::from(vec![1, 2, 3]));
    let table = parquet(vec![
        ("patient_id", ids),
        ("diabetes", bits([true, true, false])),
        ("asthma", bits([false, false, true])),
    ]);
    owner.write("table.parquet", table);
    assert_remedied(
        &owner,
        "table.parquet",
        "--drop-columns patient_id",
        (3, 2, "diabetes", 2),
    );
    let text = owner.done("encrypt table.parquet --drop-columns patient_id");
    says(
        &text,
        &[
            "read table.parquet as Parquet (csv-onehot), 2 columns used, 1 not used: \"patient_id\"",
            "table.oboro",
        ],
    );
    owner.write("cut.parquet", &long_parquet()[..200]);
    says(
        &owner.refused("encrypt cut.parquet"),
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
    owner.write("visits.parquet", long_parquet());
    let plan = |script: &str| -> Value {
        let ended = owner.start_shell(script).ended();
        assert_eq!(ended.code, Some(0), "{ended:?}");
        serde_json::from_str(&ended.stdout).unwrap()
    };
    let text = plan("\"$oboro\" plan - --json <codes.csv");
    assert_eq!(text["read"], owner.json("plan codes.csv")["read"]);
    let columns = "--transaction-column hadm_id --item-column icd_code";
    let table = plan(&format!(
        "cat visits.parquet | \"$oboro\" plan - {columns} --json"
    ));
    assert_eq!(
        table["read"],
        owner.json(&format!("plan visits.parquet {columns}"))["read"]
    );
    let message = owner.refused("encrypt -");
    says(&message, &["standard input has no name", "give --out DIR"]);
    let message = owner.refused("encrypt - --out x.oboro");
    says(&message, &["standard input has no transactions"]);
    let encrypted = owner
        .start_shell("gzip -c codes.csv | \"$oboro\" encrypt - --out x.oboro --json")
        .ended();
    assert_eq!(encrypted.code, Some(0), "{encrypted:?}");
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
    let found = read(&owner, &format!("rows.csv {options}"));
    assert_eq!(found, (3, 11, "circulatory".to_owned(), 3));
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
    // Appends keep to them without being told.
    owner.write("more.csv", "patient_id,code,age\n4,E11,3\n4,I20,3\n");
    let appended = owner.json("encrypt more.csv --append-to rows.oboro");
    assert_eq!(appended["read"]["taxonomy_applied"]["added"], 4);
    // Another taxonomy, whether it knows an item of the file or not.
    owner.write("others.csv", "I10,heart\n");
    let message = owner.refused("encrypt more.csv --append-to rows.oboro --taxonomy others.csv");
    says(
        &message,
        &["another taxonomy than the dataset's first file"],
    );
    owner.write("others.csv", "I20,heart\n");
    let message = owner.refused("encrypt more.csv --append-to rows.oboro --taxonomy others.csv");
    says(
        &message,
        &[
            "another taxonomy than the dataset's first file",
            "`--taxonomy`",
        ],
    );
    let message = owner.misused("plan rows.csv --bin age=18,0");
    says(&message, &["age=18,0", "age=0,18,40,65"]);
    owner.write("circle.csv", "a,b\nb,a\n");
    let message = owner.refused("plan rows.csv --taxonomy circle.csv");
    says(
        &message,
        &["circle.csv goes in a circle", "take one of these lines out"],
    );
}

/// What `oboro plan` says of a file after the command that its refusal names, as [`read`] does.
fn read_by_shell(owner: &Home, file: &str, options: &str) -> (u64, u64, String, u64) {
    let message = owner.refused(&format!("plan {file}"));
    let is_command = |it: &&str| {
        ["sed ", "tr ", "iconv "]
            .iter()
            .any(|name| it.starts_with(name))
    };
    let command = message.split('`').find(is_command).expect(&message);
    let script = format!("{command} <{file} | \"$oboro\" plan - {options} --json");
    let ended = owner.start_shell(&script).ended();
    assert_eq!(ended.code, Some(0), "{script}: {ended:?}");
    let plan: Value = serde_json::from_str(&ended.stdout).unwrap();
    let read = &plan["read"];
    (
        read["transactions"].as_u64().unwrap(),
        read["items"].as_u64().unwrap(),
        read["densest"]["item"].as_str().unwrap().to_owned(),
        read["densest"]["transactions"].as_u64().unwrap(),
    )
}

#[test]
fn commands_that_refusals_name_make_data_of_other_files() {
    let owner = Home::with_key();
    let long = "--transaction-column id --item-column item";
    let drawn = format!("--separator pipe --spaces trim {long}");
    let tea = |transactions, items| (transactions, items, "tea".to_owned(), 2);
    for (file, text, options, found) in [
        (
            "markdown",
            "| id | item  |\n|----|:-----:|\n| 1  | tea   |\n| 1  | milk  |\n| 22 | tea |\n",
            &*drawn,
            tea(2, 2),
        ),
        (
            "psql",
            " id | item \n----+------\n  1 | tea\n  1 | milk\n 22 | tea\n(3 rows)\n",
            &format!("{drawn} --skip-last 1"),
            tea(2, 2),
        ),
        (
            "mysql",
            "+----+------+\n| id | item |\n+----+------+\n|  1 | tea  |\n|  1 | milk |\n| 22 | tea  |\n+----+------+\n",
            &drawn,
            tea(2, 2),
        ),
        (
            "fixed",
            "id   item\n1    tea\n1    milk, whole\n22   tea\n",
            long,
            tea(2, 2),
        ),
        ("json", "[\"milk\", \"tea\"]\n[\"tea\"]\n", "", tea(2, 2)),
        ("python", "['milk', 'tea']\n['tea']\n", "", tea(2, 2)),
        ("postgres", "{milk,tea}\n{\"tea\"}\n", "", tea(2, 2)),
        (
            "sequences",
            "1 -1 2 3 -1 -2\n2 -1 -2\n",
            "",
            (2, 3, "2".to_owned(), 2),
        ),
        (
            "times",
            "<0> 1 -1 <1> 2 3 -1 -2\n<0> 2 -1 -2\n",
            "",
            (2, 3, "2".to_owned(), 2),
        ),
        (
            "utilities",
            "1 2:9:4 5\n2:2:2\n",
            "",
            (2, 2, "2".to_owned(), 2),
        ),
        (
            "libsvm",
            "+1 2:1 7:1\n-1 2:1\n",
            "",
            (2, 2, "2".to_owned(), 2),
        ),
    ] {
        owner.write(file, text);
        assert_eq!(read_by_shell(&owner, file, options), found, "{file}");
    }
    let wide: Vec<u8> = "\u{feff}visit\tcode\n1\ttea\n1\tmilk\n2\ttea\n"
        .encode_utf16()
        .flat_map(u16::to_le_bytes)
        .collect();
    owner.write("unicode.txt", wide);
    assert_eq!(read_by_shell(&owner, "unicode.txt", ""), tea(2, 2));
    // One line instead of all up to @data.
    let head =
        "@relation market\n% made by hand\n@attribute milk {0, 1}\n@attribute tea {0, 1}\n@data\n";
    let rows = "1,1\n0,1\n0,0\n";
    owner.write("market.arff", format!("{head}{rows}"));
    let message = owner.refused("plan market.arff");
    says(
        &message,
        &[
            "market.arff is an ARFF file of Weka",
            "one line with the names",
        ],
    );
    owner.write("market.csv", format!("milk,tea\n{rows}"));
    assert_eq!(read(&owner, "market.csv"), tea(3, 2));
}

#[test]
fn what_is_no_data_is_left_out_by_the_options_that_are_named() {
    let owner = Home::with_key();
    let tea = |transactions, items| (transactions, items, "tea", 2);
    for (file, text, remedy, found) in [
        (
            "totals.csv",
            "visit,code\n1,tea\n1,milk\n2,tea\nTotal,3\n",
            "--skip-last 1",
            tea(2, 2),
        ),
        (
            "note.csv",
            "tea,milk\ntea,salt,milk\nsalt\nSource: the till\n",
            "--skip-last 1",
            (3, 3, "milk", 2),
        ),
        (
            "sums.csv",
            "tea,milk\n1,0\n1,1\n0,0\n2,1\n",
            "--skip-last 1",
            tea(3, 2),
        ),
        (
            "title.csv",
            "Sales\n\ntea,milk\ntea\nsalt\n",
            "--skip-first 1",
            tea(3, 3),
        ),
        (
            "blank.csv",
            "visit,code\n1,tea\n1,\\N\n2,tea\n2,milk\n",
            "--missing absent",
            tea(2, 2),
        ),
        (
            "mark.csv",
            "visit,code\n1,tea\n1,?\n2,tea\n2,milk\n",
            "--missing item",
            tea(2, 3),
        ),
        (
            "list.csv",
            "visit,items\n1,\"tea, milk\"\n2,\"tea\"\n",
            "--item-separator comma",
            tea(2, 2),
        ),
        (
            "soft.csv",
            "visit,code\n1,tea\n1,mi\u{ad}lk\n2,tea\n2,milk\n",
            "--unicode nfkc",
            (2, 2, "milk", 2),
        ),
    ] {
        owner.write(file, text);
        assert_remedied(&owner, file, remedy, found);
    }
    owner.write(
        "forms.csv",
        "visit,code\n1,the\u{301}\n1,milk\n2,th\u{e9}\n",
    );
    let text = owner.done("plan forms.csv");
    says(&text, &["1 names in other Unicode forms"]);
    let plan = owner.json("plan forms.csv --unicode as-is");
    assert_eq!(
        (&plan["read"]["items"], &plan["read"]["alike"]),
        (&3.into(), &1.into())
    );
}
