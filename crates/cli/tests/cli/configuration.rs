//! The settings of a server: where they come from, what is refused, and what is checked without serving.

use crate::common::{Home, each_case, says};
use crate::serving::certificates;
use serde_json::{Value, json};
use std::collections::BTreeMap;

const CHECK: &str = "serve --check-config";

/// The settings in force: values, and where they come from.
fn in_force(operator: &Home, line: &str) -> BTreeMap<String, (Value, String)> {
    let before = operator.listing();
    let checked = operator.json(line);
    assert_eq!(operator.listing(), before, "{line} left something behind");
    let settings = checked["settings"].as_object().unwrap();
    let setting = |(name, it): (&String, &Value)| {
        let source = it["source"].as_str().unwrap().to_owned();
        (name.clone(), (it["value"].clone(), source))
    };
    settings.iter().map(setting).collect()
}

/// The flags of `oboro serve` that are settings, and what stands for their values in its help.
fn flags(operator: &Home) -> Vec<(String, String)> {
    let help = operator.done("serve --help");
    let mut flags: Vec<(String, String)> = Vec::new();
    for line in help.lines() {
        let line = line.trim_start();
        if let Some(flag) = line.strip_prefix("--") {
            let mut words = flag.split_whitespace();
            let name = words.next().unwrap().to_owned();
            let value = words.next().filter(|it| it.starts_with('<'));
            flags.push((name, value.unwrap_or_default().to_owned()));
        }
        if let (Some((_, values)), Some(flag)) =
            (line.split_once("[possible values: "), flags.last_mut())
        {
            flag.1 = values.split([',', ']']).next().unwrap().to_owned();
        }
    }
    flags.retain(|(name, _)| !["config", "check-config", "json", "profile"].contains(&&**name));
    flags
}

/// A value for each flag that a server takes together.
fn values(operator: &Home) -> BTreeMap<String, Value> {
    certificates(operator, "tls");
    operator.token("ward");
    let objects = format!("file://{}", operator.path("objects").display());
    let value = |(name, shown): &(String, String)| {
        let value = match (&**name, &**shown) {
            ("data", _) => objects.clone().into(),
            ("cache", _) => "cache".into(),
            ("listen", _) => "127.0.0.1:0".into(),
            ("monitor", _) => "127.0.0.1:0".into(),
            ("audit-log", _) => "audit.jsonl".into(),
            ("tls-cert", _) => "tls.crt".into(),
            ("tls-key", _) => "tls.key".into(),
            ("client-ca", _) => "tls-ca.pem".into(),
            ("tokens", _) => "tokens".into(),
            ("memory", _) => "8GiB".into(),
            (_, "") => true.into(),
            (_, "<N>" | "<SECONDS>" | "<DAYS>") => 3.into(),
            (_, "<SIZE>") => "64MiB".into(),
            (_, named) => named.into(),
        };
        (name.clone(), value)
    };
    flags(operator).iter().map(value).collect()
}

fn text_of(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

#[test]
fn every_flag_of_a_server_can_be_set_in_the_file_and_in_the_environment() {
    let operator = Home::new();
    let values = values(&operator);
    assert!(values.len() > 30, "{values:?}");
    // The scalars of JSON are written like those of TOML.
    let line = |(name, value): (&String, &Value)| format!("{name} = {value}\n");
    operator.write("oboro.toml", values.iter().map(line).collect::<String>());
    let expected = |source: &str| {
        let value = |(name, value): (&String, &Value)| {
            (name.clone(), (text_of(value).into(), source.to_owned()))
        };
        values.iter().map(value).collect::<BTreeMap<_, _>>()
    };
    let settings = in_force(&operator, &format!("{CHECK} --config oboro.toml"));
    assert_eq!(settings, expected("file"));
    for (name, value) in &values {
        let variable = name.to_uppercase().replace('-', "_");
        operator.set(&format!("OBORO_SERVE_{variable}"), &text_of(value));
    }
    assert_eq!(in_force(&operator, CHECK), expected("environment"));
}

#[test]
fn the_command_line_overrides_the_environment_and_that_the_file() {
    let operator = Home::new();
    operator.write("oboro.toml", "data = 'data'\nkeep-deleted = 1\n");
    let check = format!("{CHECK} --config oboro.toml");
    let keep_deleted = |line: &str| in_force(&operator, line)["keep-deleted"].clone();
    let says = |value: &str, source: &str| (value.into(), source.to_owned());
    assert_eq!(
        keep_deleted(&format!("{CHECK} --data data")),
        says("7", "default")
    );
    assert_eq!(keep_deleted(&check), says("1", "file"));
    operator.set("OBORO_SERVE_KEEP_DELETED", "2");
    assert_eq!(keep_deleted(&check), says("2", "environment"));
    for flag in ["--keep-deleted 3", "--keep-deleted=3"] {
        let line = format!("{check} {flag}");
        assert_eq!(keep_deleted(&line), says("3", "command_line"));
    }
    // The file may be named in the environment, and what is not set has no value.
    operator.set("OBORO_SERVE_CONFIG", "oboro.toml");
    let settings = in_force(&operator, CHECK);
    assert_eq!(settings["data"], says("data", "file"));
    assert_eq!(settings["memory"], (Value::Null, "default".to_owned()));
    let text = operator.done(CHECK);
    let line = text.lines().find(|line| line.starts_with("keep-deleted "));
    assert_eq!(
        line.unwrap().split_whitespace().collect::<Vec<_>>(),
        ["keep-deleted", "2", "environment"]
    );
}

#[test]
fn a_flag_that_is_off_in_the_environment_is_off() {
    let operator = Home::new();
    operator.write("oboro.toml", "data = 'data'\ngenome-counts = true\n");
    operator.set("OBORO_SERVE_GENOME_COUNTS", "false");
    let settings = in_force(&operator, &format!("{CHECK} --config oboro.toml"));
    assert_eq!(settings["genome-counts"].0, "false");
}

#[test]
fn a_server_is_started_from_a_file() {
    let operator = Home::new();
    operator.write("oboro.toml", "log-format = 'json'\nthreads = 0x1\n");
    let server = operator.serve("--config oboro.toml");
    server.terminate();
    let ended = server.ended();
    assert_eq!(ended.code, Some(0));
    let line = ended.stderr.lines().next().unwrap();
    let line: Value = serde_json::from_str(line).unwrap();
    assert_eq!(line["level"], json!("INFO"));
}

#[test]
fn what_is_wrong_in_the_file_is_refused_with_its_line() {
    let operator = Home::new();
    each_case(
        r#"max-querys = 3 => line 1 … "max-querys" … did you mean "max-queries"?
        max_queries = 3 => line 1 … "max_queries" … did you mean "max-queries"?
        'a b=c' = 3 => line 1 … "a b=c" … like the flags
        config = 'other.toml' => line 1 … "config" … like the flags
        \n\nmax-queries = 0 => line 3 … '--max-queries <N>' … 0 is not in
        max-queries = 99999999999999999999 => line 1 … max-queries … smaller number
        log-format = 'xml' => line 1 … '--log-format … [possible values: text, json]
        listen = 7171 => line 1 … '--listen … correct it there
        data = '' => line 1 … --data … correct it there
        max-queries = true => line 1 … max-queries … give a string or a number
        max-queries = [1] => line 1 … max-queries … give a string or a number
        genome-counts = 'yes' => line 1 … genome-counts … give true or false
        threads = 1\nthreads = 1 => line 2 … duplicate key … correct it there
        data = 'x'\n[limits]\nmax-queries = 1 => line 2 … "limits" … outside of tables
        max-queries =  => line 1 … correct it there
        tls-cert = 'tls.crt' => not provided … --tls-key … add them there"#,
        |text| {
            operator.write("oboro.toml", text.replace(r"\n", "\n"));
            let message = operator.refused("serve --config oboro.toml");
            says(&message, &["oboro.toml"]);
            message
        },
    );
    operator.write("binary", [0xff]);
    for file in ["none", "binary", "."] {
        operator.refuses(format!(
            "serve --config {file} => cannot read the configuration in {file} … --config"
        ));
    }
    operator.misuses("serve --config\nserve");
}

#[test]
fn what_is_wrong_in_the_environment_is_refused_by_its_variable() {
    let operator = Home::new();
    operator.write("oboro.toml", "data = 'data'\nmax-queries = 1");
    operator.set("OBORO_SERVE_MAX_QUERIES", "0");
    let serve = "serve --config oboro.toml";
    operator.refuses(format!(
        "{serve} => OBORO_SERVE_MAX_QUERIES:  … 0 is not in … unset it"
    ));
    operator.misuses(format!("{serve} --max-queries 0"));
    operator.json(&format!("{CHECK} --config oboro.toml --max-queries 1"));
    // Other commands have no settings.
    operator.done("keygen");
}

#[test]
fn a_configuration_is_checked_without_a_server() {
    let operator = Home::new();
    operator.write("file", "not a directory");
    operator.write("tokens", "alice two\n");
    each_case(
        "--data file => file … Check the path
        --data file/below => file … Check the path
        --data data --listen 0.0.0.0:7171 => refusing to listen … --tokens
        --data data --memory 64MiB => leaves nothing … --memory
        --data data --tokens tokens => token file tokens … line 1
        --data data --tls-cert no.crt --tls-key no.key => could not read … no.crt
        --data data --cache cache => --cache … object storage
        --data s3://bucket/a => --cache
        --data ftp://x --cache cache => neither of s3: nor of file: … s3://BUCKET/PREFIX
        --data s3:///prefix --cache cache => names no bucket … s3://BUCKET/PREFIX
        --data file:///dev/null/x --cache cache => /dev/null/x … Check the path",
        |options| operator.refused(&format!("{CHECK} {options}")),
    );
    operator.misuses(format!(
        "{CHECK} --data data --max-queries 0\n{CHECK} --data data --cache-size 1GiB"
    ));
}

#[test]
fn a_configuration_is_checked_while_a_server_runs_with_it() {
    let operator = Home::new();
    let server = operator.serve("");
    // Neither the port nor the lock is needed.
    let address = server.address();
    in_force(
        &operator,
        &format!("{CHECK} --data data --listen {address}"),
    );
    // A cache is no store, and a store is no cache.
    let objects = format!("file://{}", operator.path("objects").display());
    operator.refuses(format!("{CHECK} --data {objects} --cache data => data"));
}
