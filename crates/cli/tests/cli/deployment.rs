//! The files in `deploy/`, judged by the programs that read them.

use crate::common::plaintext::random_baskets;
use crate::common::{Home, says};
use crate::serving::certificates;
use std::fs;
use std::process::{Command, Output};

const UNIT: &str = include_str!("../../../../deploy/systemd/oboro.service");
const SETTINGS: &str = include_str!("../../../../deploy/systemd/oboro.toml");

/// The most tenths of exposure that `systemd-analyze security` may report.
const MOST_EXPOSURE: &str = "--threshold=15";

/// Runs `systemd-analyze` on the unit, which runs the command that is tested; `None` where there is none.
fn analysed(operator: &Home, words: &[&str]) -> Option<Output> {
    operator.write(
        "oboro.service",
        UNIT.replace("/usr/local/bin/oboro", env!("CARGO_BIN_EXE_oboro")),
    );
    let output = Command::new("systemd-analyze")
        .args(words)
        .arg(operator.path("oboro.service"))
        .env("SYSTEMD_COLORS", "0")
        .output();
    if output.is_err() {
        println!("skipped: no systemd-analyze");
    }
    output.ok()
}

#[test]
fn the_unit_of_systemd_has_no_error() {
    let Some(output) = analysed(&Home::new(), &["verify"]) else {
        return;
    };
    assert!(output.status.success(), "{output:?}");
    assert_eq!(String::from_utf8_lossy(&output.stderr), "");
}

#[test]
fn the_unit_of_systemd_exposes_little() {
    let words = ["security", "--offline=true", "--no-pager", MOST_EXPOSURE];
    let Some(output) = analysed(&Home::new(), &words) else {
        return;
    };
    let report = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{report}");
    says(&report, &["Overall exposure level for oboro.service"]);
}

#[test]
fn the_server_stops_before_systemd_kills_it() {
    let seconds = |text: &str, key: &str| -> u64 {
        let line = text.lines().find_map(|line| line.strip_prefix(key));
        line.unwrap()
            .trim_start_matches([' ', '='])
            .parse()
            .unwrap()
    };
    let needed = seconds(SETTINGS, "drain-delay") + 10;
    assert!(seconds(UNIT, "TimeoutStopSec") > needed);
}

#[test]
fn the_settings_beside_the_unit_are_accepted() {
    let operator = Home::new();
    certificates(&operator, "tls");
    operator.token("ward");
    for directory in ["data", "log"] {
        fs::create_dir(operator.path(directory)).unwrap();
    }
    let here = |name: &str| operator.path(name).display().to_string();
    let settings = SETTINGS
        .replace("/var/lib/oboro", &here("data"))
        .replace("/var/log/oboro", &here("log"))
        .replace("/etc/oboro/tokens", &here("tokens"));
    operator.write("oboro.toml", settings);
    // As the unit sets them.
    operator.set("OBORO_SERVE_TLS_CERT", &here("tls.crt"));
    operator.set("OBORO_SERVE_TLS_KEY", &here("tls.key"));
    let before = operator.listing();
    operator.json("serve --check-config --config oboro.toml");
    assert_eq!(operator.listing(), before);
}

#[test]
fn the_filter_of_the_unit_lets_a_server_work() {
    let (owner, operator) = (Home::with_key(), Home::new());
    operator.write("oboro.service", UNIT);
    operator.write("filtered.py", include_str!("common/filtered.py"));
    let can_filter = operator
        .start_shell("exec python3 filtered.py oboro.service")
        .ended();
    // The second is of a shell that finds no Python.
    if matches!(can_filter.code, Some(77 | 127)) {
        println!("skipped: no filter: {}", can_filter.stderr);
        return;
    }
    assert_eq!(can_filter.code, Some(0), "{can_filter:?}");
    operator.write("reference.fa", ">x\nACGTNAC\n>y\nGG\n");
    operator.json("genome load --data data --reference pieces reference.fa");
    certificates(&operator, "tls");
    owner.write("token", operator.token("default"));
    owner.write("ca.pem", operator.read("tls-ca.pem"));
    let server = operator.serve_under(
        "exec python3 filtered.py oboro.service",
        "--tls-cert tls.crt --tls-key tls.key --tokens tokens --memory 2GiB --pin core",
    );
    let status = fs::read_to_string(format!("/proc/{}/status", server.id())).unwrap();
    says(&status, &["Seccomp:\t2"]);
    owner.talk_to(server.url());
    owner.write_fimi("rows.dat", &random_baskets(2_000, 10, 160));
    owner.json("encrypt rows.dat --max-len 3");
    let caller = "--ca ca.pem --token-file token";
    for line in [
        "upload rows.oboro",
        "mine rows.oboro --min-support 10% --verify rows.dat",
        "mine rows.oboro --min-support 10% --verify rows.dat --trust-server",
        "genome find --reference pieces --pattern ACG",
        "inspect --placement rows",
        &format!("scrub --server {}", server.url()),
        "delete rows --yes --now",
    ] {
        owner.json(&format!("{line} {caller}"));
    }
    server.terminate();
    let ended = server.ended();
    assert_eq!(ended.code, Some(0), "{ended:?}");
    assert!(!ended.stderr.contains("not permitted"), "{}", ended.stderr);
}
