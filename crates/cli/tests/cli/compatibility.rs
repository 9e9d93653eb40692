//! What `docs/compatibility.md` says of formats and releases, compared with the golden files.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use oboro_protocol::PROTOCOL;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The cells of the table's rows below a heading, without the column titles.
fn table(heading: &str) -> Vec<Vec<String>> {
    let text = fs::read_to_string(root().join("docs/compatibility.md")).unwrap();
    let (_, below) = text.split_once(&format!("\n## {heading}\n")).unwrap();
    let cells = |line: &str| {
        let line = line.trim_matches('|');
        line.split('|')
            .map(|cell| cell.trim().trim_matches('`').to_owned())
            .collect()
    };
    let rows = below.lines().skip_while(|line| !line.starts_with('|'));
    let rows = rows.take_while(|line| line.starts_with('|')).skip(2);
    rows.map(cells).collect()
}

/// The first bytes of a golden file, which may be written in hexadecimal.
fn golden(path: &str) -> Vec<u8> {
    let bytes = fs::read(root().join(path)).unwrap();
    if !path.ends_with(".hex") {
        return bytes;
    }
    let digit = |byte: u8| char::from(byte).to_digit(16);
    let digits: Vec<_> = bytes.into_iter().filter_map(digit).collect();
    let byte = |pair: &[u32]| (pair[0] << 4 | pair[1]) as u8;
    digits.chunks_exact(2).map(byte).collect()
}

#[test]
fn documented_format_versions_are_those_of_the_golden_files() {
    let formats = table("Formats of this version");
    let documented: BTreeSet<&str> = formats.iter().map(|row| row[1].as_str()).collect();
    let specified = fs::read_to_string(root().join("docs/formats.md")).unwrap();
    let kinds: BTreeSet<&str> = specified
        .match_indices("OBORO")
        .map(|(at, _)| &specified[at..at + 8])
        .filter(|kind| kind.bytes().all(|byte| byte.is_ascii_uppercase()))
        .collect();
    assert!(kinds.len() > 6 && kinds.is_subset(&documented), "{kinds:?}");
    for row in &formats {
        let [format, magic, version, example] = &row[..] else {
            panic!("{row:?}");
        };
        let version: u32 = version.parse().unwrap();
        match magic.as_str() {
            "" => assert_eq!(version, PROTOCOL, "{format}"),
            _ if example.starts_with("a test of ") => {}
            "JSON" => {
                let record: serde_json::Value = serde_json::from_slice(&golden(example)).unwrap();
                assert_eq!(record["version"], version, "{format}");
            }
            _ => {
                let bytes = golden(example);
                assert_eq!(&bytes[..8], magic.as_bytes(), "{format}");
                assert_eq!(bytes[8..12], version.to_le_bytes(), "{format}");
            }
        }
    }
}

#[test]
fn this_version_is_in_the_changelog() {
    let version = env!("CARGO_PKG_VERSION");
    assert!(
        changelog().contains(&format!("\n## {version}, ")),
        "{version}"
    );
}

#[test]
fn releases_are_dated_in_the_changelog_and_have_their_version_at_their_commit() {
    let releases = table("Releases");
    let changelog = changelog();
    let titles = changelog.lines().filter_map(|it| it.strip_prefix("## "));
    let dated = titles.filter(|it| it.contains(", 20") && !it.starts_with("0.1.0,"));
    assert_eq!(releases.len(), dated.count());
    for release in releases {
        let [version, date, commit] = &release[..] else {
            panic!("{release:?}");
        };
        let title = format!("\n## {version}, {date}\n");
        assert!(changelog.contains(&title), "{title}");
        assert_eq!(commit.len(), 40, "{commit}");
        let file = format!("{commit}:Cargo.toml");
        let shown = Command::new("git")
            .args(["show", &file])
            .current_dir(root())
            .output();
        match shown {
            Ok(output) if output.status.success() => {
                let manifest = String::from_utf8(output.stdout).unwrap();
                assert!(manifest.contains(&format!("\nversion = \"{version}\"\n")));
            }
            _ => println!("skipped: the history of {version} is not here"),
        }
    }
}

fn changelog() -> String {
    fs::read_to_string(root().join("CHANGELOG.md")).unwrap()
}
