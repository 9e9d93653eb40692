use super::*;
use crate::testing::{assert_golden, empty, file, flip, row};
use crate::{Collections, Existing, GenomeError};
use proptest::prelude::*;
use std::fs;
use std::sync::Arc;

fn write(collections: &Collections, sequences: &[Vec<u8>]) -> Arc<Reference> {
    let mut reference = Reference::default();
    for (number, bases) in sequences.iter().enumerate() {
        reference.push(format!("s{number}"), bases.iter().copied());
    }
    let loading = collections.begin(Kind::Reference, "r", Existing::Replace);
    reference.write(loading.unwrap()).unwrap();
    let read = collections.reference("r").unwrap();
    assert_eq!(*read, reference);
    read
}

fn bases() -> impl Strategy<Value = u8> {
    prop_oneof![8 => 0..4u8, 1 => Just(UNKNOWN)]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    #[test]
    fn a_reference_that_was_written_reads_the_same(
        sequences in prop::collection::vec(prop::collection::vec(bases(), 1..100), 1..6),
    ) {
        let (_directory, collections) = empty();
        let read = write(&collections, &sequences);
        for (sequence, bases) in read.sequences().iter().zip(&sequences) {
            prop_assert_eq!(&read.bases()[sequence.range.clone()], bases);
        }
    }

    #[test]
    fn the_other_strand_of_the_other_strand_is_the_first(strand in prop::collection::vec(bases(), 0..50)) {
        prop_assert_eq!(reverse_complement(&reverse_complement(&strand)), strand);
    }
}

proptest! {
    #[test]
    fn rows_are_all_windows_of_both_strands(
        sequences in prop::collection::vec(prop::collection::vec(bases(), 1..150), 1..4),
        length in 1..130usize,
    ) {
        let mut reference = Reference::default();
        let mut expected = Vec::new();
        let number = |&base: &u8| if base == UNKNOWN { 4 } else { base };
        for bases in &sequences {
            reference.push("s".to_owned(), bases.iter().copied());
            for strand in [bases.clone(), reverse_complement(bases)] {
                expected.extend(strand.windows(length).map(|row| row.iter().map(number).collect::<Vec<_>>()));
            }
        }
        let rows = reference.windows(length);
        prop_assert_eq!(rows.len(), reference.rows(length));
        let read: Vec<_> = (0..rows.len()).map(|number| row(&rows, number)).collect();
        prop_assert_eq!(&read, &expected);
        prop_assert!(expected.iter().flatten().all(|&symbol| symbol < reference.symbols()));
    }
}

#[test]
fn the_other_strand_reads_backward_in_complements() {
    assert_eq!(
        reverse_complement(&[0, 0, 1, UNKNOWN, 3]),
        [0, UNKNOWN, 2, 3, 3]
    );
}

#[test]
fn the_format_is_that_of_the_golden_file() {
    let (directory, collections) = empty();
    write(
        &collections,
        &[vec![0, 1, 2, 3, 2, 1], vec![3, UNKNOWN, 0], vec![0, 1]],
    );
    assert_golden("reference", &file(directory.path(), "r", Kind::Reference));
}

#[test]
fn damage_is_found_and_named() {
    let (directory, collections) = empty();
    write(&collections, &[vec![0; 9], vec![1; 9]]);
    let path = file(directory.path(), "r", Kind::Reference);
    let length = fs::metadata(&path).unwrap().len() as usize;
    for (offset, part) in [
        (3, "reference \"r\""),
        (14, "reference \"r\""),
        (4096, "sequence \"s0\" of reference \"r\""),
        (8192 + 2000, "sequence \"s1\" of reference \"r\""),
        (length - 1, "the index of reference \"r\""),
    ] {
        flip(&path, offset);
        let error = Reference::open(&path, "r").unwrap_err();
        assert!(matches!(error, GenomeError::Damaged { .. }));
        assert!(error.to_string().starts_with(part), "{error}");
        flip(&path, offset);
    }
    assert!(Reference::open(&path, "r").is_ok());
}
