//! With `--json` every command prints JSON: one value on standard output, or one error on standard error. Their fields
//! and types are in `snapshots/`; `INSTA_UPDATE=always` writes them anew.

use crate::common::plaintext::random_baskets;
use crate::common::{Home, says};
use serde_json::{Map, Value, json};

/// The fields of a value with their types; of a list its last element.
fn shape(value: &Value) -> Value {
    match value {
        Value::Null => Value::Null,
        Value::Bool(_) => "boolean".into(),
        Value::Number(_) => "number".into(),
        Value::String(_) => "string".into(),
        Value::Array(values) => values.last().map(shape).into_iter().collect(),
        Value::Object(fields) => {
            let fields = fields.iter().map(|(name, it)| (name.clone(), shape(it)));
            Value::Object(fields.collect())
        }
    }
}

#[test]
fn every_command_prints_one_value_with_the_fields_of_the_snapshot() {
    let (owner, operator) = (Home::new(), Home::new());
    let server = operator.serve("");
    owner.talk_to(server.url());
    owner.write("named.csv", "id,tea,milk\nanna,1,0\nbo,1,1\n");
    let mut shapes = Map::new();
    // `Home::json` requires exactly one value and an empty standard error.
    let mut print = |home: &Home, line: &str| {
        let value = home.json(line);
        shapes.insert(line.replace(server.url(), "URL"), shape(&value));
        value
    };
    print(&owner, "keygen");
    let generated = print(&owner, "generate quest.dat");
    print(&owner, "plan quest.dat --max-len 2");
    let encrypted = print(&owner, "encrypt quest.dat --max-len 2");
    let uploaded = print(&owner, "upload quest.oboro");
    let listed = print(&owner, "datasets");
    assert_eq!(uploaded["total_bytes"], encrypted["stored_bytes"]);
    assert_eq!(listed[0]["name"], "quest");
    for field in ["dataset", "version", "root"] {
        assert_eq!(uploaded[field], encrypted[field], "{field}");
        assert_eq!(listed[0][field], encrypted[field], "{field}");
    }
    for field in ["blocks", "degree", "limbs", "max_len", "stored_bytes"] {
        assert_eq!(listed[0][field], encrypted[field], "{field}");
    }
    for line in [
        "mine quest.oboro --min-support 0.2 --out found.json",
        "mine quest.oboro --min-support 0.2 --verify quest.dat",
        "rules found.json --min 0",
        "report found.json --out report.html",
        "count quest.oboro 1,2",
        "trust show quest.oboro",
        "inspect oboro.key",
        "inspect quest.oboro --verify",
        "inspect quest.oboro/segments/00000000.seg --verify",
        "encrypt named.csv --format csv-onehot --row-ids id",
        "upload named.oboro",
        "row-ids named.oboro",
        "row-ids named.oboro --slots",
        "pairs named.oboro --with tea",
        "access grant carol read,count named",
        "access list",
        "access revoke carol read,count named",
        "queries",
        "datasets --uploads",
        "delete named --yes",
        "datasets --deleted",
        "undelete named",
        "erase named.oboro --row-id bo",
    ] {
        print(&owner, line);
    }
    let inspected = print(&owner, "inspect quest.oboro --key oboro.key");
    let items = inspected["items"].as_array().unwrap().len();
    assert_eq!(
        (&json!(items), &json!(2000)),
        (&generated["items"], &inspected["transactions"])
    );
    assert_eq!(inspected["read"], encrypted["read"]);
    for line in [
        "encrypt quest.dat --append-to quest.oboro --no-absorb",
        "compact quest.oboro",
        "keygen --key new.key",
        "rotate quest.oboro --new-key new.key",
        &format!("scrub --server {}", server.url()),
        "delete quest --yes --now",
    ] {
        print(&owner, line);
    }
    for line in [
        "backup data copy",
        "scrub copy",
        "token new ward",
        "token list",
        "token revoke ward",
    ] {
        print(&operator, line);
    }
    insta::assert_snapshot!(format!("{:#}", Value::Object(shapes)));
}

#[test]
fn wrong_usage_is_one_value_too() {
    let owner = Home::new();
    for (line, phrase) in [
        ("mine --json", "required arguments were not provided"),
        (
            "--json mine rows.oboro --min-suport 1",
            "unexpected argument",
        ),
        ("plan rows.dat --max-len many --json", "invalid value"),
        ("mine \u{1b}[31m --bad --json", "'--bad'"),
    ] {
        let error: Value = serde_json::from_str(&owner.misused(line)).unwrap();
        let said = error["error"].as_str().unwrap();
        assert_eq!(error, json!({ "class": "usage", "error": said }));
        says(said, &[phrase]);
        assert!(!said.contains(['\n', '\u{1b}']), "{said:?}");
    }
}

#[test]
fn every_class_of_errors_is_one_value() {
    let (owner, operator) = (Home::with_key(), Home::new());
    let server = operator.serve("");
    owner.talk_to(server.url());
    owner.write_fimi("rows.dat", &random_baskets(100, 5, 128));
    owner.json("encrypt rows.dat");
    for (command, code, class, phrase) in [
        ("upload none.oboro", 3, "input", "does not exist"),
        ("scrub nowhere", 3, "input", "not the directory of a store"),
        (
            "backup nowhere copy",
            3,
            "input",
            "not the directory of a store",
        ),
        ("keygen", 4, "keys", "exists already"),
        (
            "datasets --server http://127.0.0.1:0",
            5,
            "connection",
            "cannot reach",
        ),
        (
            "delete rows --yes",
            7,
            "server",
            "no dataset named \"rows\"",
        ),
        ("inspect rows.dat", 8, "damaged", "does not begin with"),
    ] {
        // Text output has the same sentence, but for the number of the call.
        let sentence = |message: &str| message.split(" (request ").next().unwrap().to_owned();
        let text = sentence(&owner.refused(command));
        says(&text, &[phrase]);
        // The option may stand before or after the command.
        for line in [format!("{command} --json"), format!("--json {command}")] {
            let ended = owner.run(&line);
            assert_eq!((ended.code, &*ended.stdout), (Some(code), ""), "{ended:?}");
            let error: Value = serde_json::from_str(&ended.stderr).unwrap();
            let said = error["error"].as_str().unwrap();
            assert_eq!(error, json!({ "class": class, "error": said }), "{line}");
            assert_eq!(sentence(said), text);
        }
    }
}
