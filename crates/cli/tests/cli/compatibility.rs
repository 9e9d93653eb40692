//! What `docs/compatibility.md` says of formats and releases, compared with the golden files.

use std::fs;
use std::path::{Path, PathBuf};

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
    assert!(formats.len() > 6, "{formats:?}");
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
    let changelog = fs::read_to_string(root().join("CHANGELOG.md")).unwrap();
    assert!(changelog.contains(concat!("\n## ", env!("CARGO_PKG_VERSION"), ", ")));
}
