//! Small datasets for tests, in which every byte is a function of its position. Nothing is encrypted: the formats do
//! not interpret residues.
#![allow(missing_docs)]

use crate::files::Durability;
use crate::segment::sealed_columns;
use crate::{
    Bundle, BundleWriter, CELL_SEAL_BYTES, DatasetId, Manifest, SegmentDescription, SegmentEntry,
    SegmentWriter,
};
use oboro_ring::{Column, Limb, Parameters, Seed};
use std::path::{Path, PathBuf};

/// Returns parameters with N = 1024 and one limb, as in the golden files.
pub fn one_limb() -> Parameters {
    Parameters::new(10, 1, 12_289).unwrap()
}

/// Returns parameters with N = 2048 and two limbs.
pub fn two_limbs() -> Parameters {
    Parameters::new(11, 2, 12_289).unwrap()
}

pub const ID: DatasetId = DatasetId([0x11; 16]);
pub const COLUMNS: u32 = 2;
pub const ROW_ID_BYTES: u32 = 0;

pub fn description(
    parameters: &Parameters,
    index: u32,
    first_block: u64,
    blocks: u32,
) -> SegmentDescription {
    let seed = |block: u64| {
        let mut seed = [0x5e; 32];
        seed[..8].copy_from_slice(&block.to_le_bytes());
        Seed(seed)
    };
    SegmentDescription {
        dataset: ID,
        number: index,
        first_block,
        columns: COLUMNS,
        row_id_bytes: ROW_ID_BYTES,
        parameters: parameters.clone(),
        seeds: (first_block..first_block + u64::from(blocks))
            .map(seed)
            .collect(),
    }
}

/// Returns the residues of a panel: a multiplicative sequence seeded by its position.
pub fn residues(description: &SegmentDescription, limb: Limb, column: Column) -> Vec<u32> {
    let modulus = u64::from(description.parameters.limb_moduli()[limb].value());
    let mut state = 1
        + description.first_block * 1_000_003
        + limb.0 as u64 * 101
        + u64::from(column.0) * 10_007;
    (0..description.seeds.len() * description.parameters.degree())
        .map(|_| {
            state = state * 48_271 % 0x7fff_ffff;
            (state % modulus) as u32
        })
        .collect()
}

/// Returns the sealed cells of a column: bytes that depend on their position.
pub fn cells(description: &SegmentDescription, column: Column) -> Vec<u8> {
    let slots = description.seeds.len() * description.parameters.degree();
    let first = description.first_block as usize * 7 + column.index() * 31;
    (0..slots / 8 + CELL_SEAL_BYTES)
        .map(|at| (first + at * 13) as u8)
        .collect()
}

pub fn fill(writer: SegmentWriter) -> SegmentEntry {
    let description = writer.description().clone();
    for limb in Limb::first(description.parameters.limb_count()) {
        for column in Column::first(description.columns) {
            writer
                .write_panel(limb, column, &residues(&description, limb, column))
                .unwrap();
        }
    }
    let sealed = sealed_columns(description.columns, description.row_id_bytes);
    for column in Column::first(sealed) {
        let cells = cells(&description, column);
        writer.write_cells(column, &cells).unwrap();
    }
    writer.finish().unwrap()
}

pub fn write_segment(path: &Path, description: SegmentDescription) -> SegmentEntry {
    fill(SegmentWriter::create(path, description, Durability::Durable).unwrap())
}

pub fn manifest(parameters: &Parameters, segments: Vec<SegmentEntry>) -> Manifest {
    Manifest {
        dataset: ID,
        key_check: [0x22; 16],
        generation: [0x33; 16],
        parameters: parameters.clone(),
        max_len: 4,
        columns: COLUMNS,
        row_id_bytes: ROW_ID_BYTES,
        version: 1,
        next_segment: segments.len() as u32,
        earlier_roots: Vec::new(),
        segments,
    }
}

/// Adds segments with these numbers of blocks, and commits the next version.
pub fn extend(writer: BundleWriter, mut manifest: Manifest, blocks: &[u32]) -> Bundle {
    for &blocks in blocks {
        let index = manifest.next_segment;
        let description = SegmentDescription {
            dataset: manifest.dataset,
            ..description(&manifest.parameters, index, manifest.block_count(), blocks)
        };
        manifest
            .segments
            .push(fill(writer.segment(description).unwrap()));
        manifest.next_segment += 1;
    }
    writer.commit(&manifest, b"sealed", &[]).unwrap()
}

/// Creates a bundle whose segments have these numbers of blocks.
pub fn bundle(directory: &Path, parameters: &Parameters, blocks: &[u32]) -> Bundle {
    bundle_of(ID, directory, parameters, blocks)
}

/// As [`bundle`], for another dataset id.
pub fn bundle_of(
    dataset: DatasetId,
    directory: &Path,
    parameters: &Parameters,
    blocks: &[u32],
) -> Bundle {
    let manifest = Manifest {
        dataset,
        ..manifest(parameters, Vec::new())
    };
    extend(Bundle::create(directory).unwrap(), manifest, blocks)
}

pub fn append(bundle: &Bundle, blocks: &[u32]) -> Bundle {
    let next = bundle.manifest().appended();
    extend(bundle.change().unwrap(), next, blocks)
}

/// Replaces the segment at `index` by another with as many blocks. The result may replace any version in `earlier`,
/// too.
pub fn rewrite(bundle: &Bundle, index: usize, earlier: &[&Bundle]) -> Bundle {
    let mut next = bundle.manifest().rewritten();
    let earlier = earlier.iter().map(|it| it.manifest().root());
    next.earlier_roots.splice(0..0, earlier);
    let SegmentEntry {
        first_block,
        blocks,
        ..
    } = next.segments[index];
    let writer = bundle.change().unwrap();
    let mut description = SegmentDescription {
        dataset: next.dataset,
        ..description(&next.parameters, next.next_segment, first_block, blocks)
    };
    for seed in &mut description.seeds {
        seed.0[31] ^= next.next_segment as u8;
    }
    next.segments[index] = fill(writer.segment(description).unwrap());
    next.next_segment += 1;
    writer.commit(&next, b"sealed", &[]).unwrap()
}

/// Compares `bytes` with a golden file; `OBORO_WRITE_GOLDEN=1` writes it instead.
pub fn assert_golden(name: &str, bytes: &[u8]) {
    let path = golden_path(name);
    if std::env::var_os("OBORO_WRITE_GOLDEN").is_some() {
        std::fs::write(&path, bytes).unwrap();
    }
    assert!(
        std::fs::read(&path).unwrap() == bytes,
        "the format differs from golden file {name}"
    );
}

pub fn golden_path(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/golden")
        .join(name)
}

/// Returns all files below a directory, as sorted relative paths.
pub fn files(directory: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut open = vec![directory.to_path_buf()];
    while let Some(next) = open.pop() {
        for entry in std::fs::read_dir(next).unwrap() {
            let entry = entry.unwrap();
            if entry.file_type().unwrap().is_dir() {
                open.push(entry.path());
            } else {
                found.push(entry.path().strip_prefix(directory).unwrap().to_path_buf());
            }
        }
    }
    found.sort();
    found
}
