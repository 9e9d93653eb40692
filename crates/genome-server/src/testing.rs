//! Small panels for this crate's tests.

use crate::collections::{Collections, Existing};
use crate::kind::Kind;
use crate::panel::PanelWriter;
use crate::sites::{Positions, Sites};
use crate::{Alphabet, HaplotypePanel, Rows};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tempfile::TempDir;

/// Makes a data directory without collections.
pub(crate) fn empty() -> (TempDir, Collections) {
    let directory = tempfile::tempdir().unwrap();
    let collections = Collections::open(directory.path());
    (directory, collections)
}

/// Makes sites 10, 20, … of chromosome 7.
pub(crate) fn tens(count: usize) -> Sites {
    let mut sites = Positions::default();
    for site in 1..=count as u64 {
        sites.push("7", 10 * site).unwrap();
    }
    Sites::Positions(sites)
}

/// Writes the panel with these symbols at each site, replacing any earlier one.
pub(crate) fn write(
    collections: &Collections,
    name: &str,
    alphabet: Alphabet,
    matrix: &[Vec<u8>],
) -> Arc<HaplotypePanel> {
    let loading = collections.begin(Kind::Panel, name, Existing::Replace);
    let mut writer = PanelWriter::create(loading.unwrap(), matrix[0].len()).unwrap();
    for site in matrix {
        writer.push(site).unwrap();
    }
    writer.finish(alphabet, &tens(matrix.len())).unwrap();
    collections.panel(name).unwrap()
}

/// Makes a matrix of alleles up to `largest`, a function of their position.
pub(crate) fn alleles(haplotypes: usize, sites: usize, largest: u8) -> Vec<Vec<u8>> {
    let mut state = 1u64;
    let mut next = || {
        state = state * 48_271 % 0x7fff_ffff;
        (state % (u64::from(largest) + 1)) as u8
    };
    (0..sites)
        .map(|_| (0..haplotypes).map(|_| next()).collect())
        .collect()
}

/// Path of a collection's file.
pub(crate) fn file(data: &Path, name: &str, kind: Kind) -> PathBuf {
    data.join("genome").join(format!("{name}.{kind}"))
}

/// Compares a file with a golden one; with `OBORO_WRITE_GOLDEN=1` writes that instead.
pub(crate) fn assert_golden(name: &str, file: &Path) {
    let golden = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/golden")
        .join(name);
    let bytes = std::fs::read(file).unwrap();
    if std::env::var_os("OBORO_WRITE_GOLDEN").is_some() {
        std::fs::write(&golden, &bytes).unwrap();
    }
    assert!(
        std::fs::read(&golden).unwrap() == bytes,
        "the format differs from golden file {name}"
    );
}

/// Symbols of a row.
pub(crate) fn row(rows: &Rows, number: usize) -> Vec<u8> {
    let mut symbols = vec![0; rows.length()];
    rows.read(number, &mut symbols);
    symbols
}

/// Flips one bit of a file.
pub(crate) fn flip(file: &Path, offset: usize) {
    let mut bytes = std::fs::read(file).unwrap();
    bytes[offset] ^= 1;
    std::fs::write(file, bytes).unwrap();
}
