use super::*;
use crate::GenomeError;
use crate::testing::{alleles, assert_golden, empty, file, flip, row, write};
use oboro_genome::UNKNOWN;
use proptest::prelude::*;
use std::fs;

const TEN: Alphabet = Alphabet::Alleles { largest: 9 };

/// Expected window, row by row: an unknown base is the fifth symbol.
fn rows(matrix: &[Vec<u8>], sites: Range<usize>) -> Vec<Vec<u8>> {
    let number = |symbol: u8| if symbol == UNKNOWN { 4 } else { symbol };
    (0..matrix[0].len())
        .map(|row| {
            matrix[sites.clone()]
                .iter()
                .map(|site| number(site[row]))
                .collect()
        })
        .collect()
}

fn assert_window(panel: &HaplotypePanel, matrix: &[Vec<u8>], sites: Range<usize>) {
    let window = panel.window(sites.clone()).unwrap();
    let expected = rows(matrix, sites.clone());
    assert_eq!(
        (window.len(), window.length()),
        (expected.len(), sites.len())
    );
    for (number, expected) in expected.iter().enumerate() {
        assert_eq!(&row(&window, number), expected, "row {number} of {sites:?}");
        assert!(expected.iter().all(|&symbol| symbol < panel.symbols()));
    }
    assert!(window.bits() <= panel.bits());
}

/// Generates a matrix of 1 to 200 haplotypes and 1 to 150 sites, with few patterns, and its alphabet.
fn matrices() -> impl Strategy<Value = (Alphabet, Vec<Vec<u8>>)> {
    let symbols = prop_oneof![
        (1..=9u8).prop_map(|largest| (Alphabet::Alleles { largest }, (0..=largest).collect())),
        Just((Alphabet::Bases, vec![0, 1, 2, 3, UNKNOWN])),
        Just((Alphabet::Bases, vec![0, 1, 2, 3])),
    ];
    (symbols, 1..200usize, 1..150usize).prop_flat_map(|((alphabet, symbols), rows, sites)| {
        let founder = prop::collection::vec(prop::sample::select::<u8>(symbols), sites);
        (
            prop::collection::vec(founder, 1..5),
            prop::collection::vec(0..4usize, rows),
        )
            .prop_map(move |(founders, choices)| {
                let site = |site| {
                    let allele = |&choice: &usize| -> u8 {
                        let founder: &Vec<u8> = &founders[choice % founders.len()];
                        founder[site]
                    };
                    choices.iter().map(allele).collect()
                };
                (alphabet, (0..sites).map(site).collect())
            })
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn a_panel_that_was_written_reads_the_same((alphabet, matrix) in matrices(), cuts: [prop::sample::Index; 2]) {
        let (_directory, collections) = empty();
        let panel = write(&collections, "p", alphabet, &matrix);
        prop_assert_eq!(panel.alphabet(), alphabet);
        prop_assert_eq!((panel.haplotypes(), panel.sites()), (matrix[0].len(), matrix.len()));
        let [a, b] = cuts.map(|cut| cut.index(matrix.len()));
        assert_window(&panel, &matrix, 0..matrix.len());
        assert_window(&panel, &matrix, a.min(b)..a.max(b) + 1);
    }
}

/// Checks chunks of 16 sites whose symbols take 1, 4, 1 and 2 bits.
#[test]
fn windows_span_chunks_of_different_widths() {
    let haplotypes = 1 << 17;
    assert_eq!(sites_per_chunk(haplotypes), 16);
    let mut matrix = alleles(haplotypes, 60, 1);
    matrix[20][77] = 9;
    matrix[59][haplotypes - 1] = 3;
    let (_directory, collections) = empty();
    let panel = write(&collections, "p", TEN, &matrix);
    assert_eq!(
        panel
            .chunks
            .iter()
            .map(|chunk| chunk.bits)
            .collect::<Vec<_>>(),
        [1, 4, 1, 2]
    );
    for (sites, bits) in [
        (0..16, 1),
        (14..40, 4),
        (33..48, 1),
        (40..60, 2),
        (59..60, 2),
    ] {
        assert_eq!(panel.window(sites.clone()).unwrap().bits(), bits);
        assert_window(&panel, &matrix, sites);
    }
}

#[test]
fn sites_that_are_not_there_have_no_window() {
    let (_directory, collections) = empty();
    let panel = write(&collections, "p", TEN, &alleles(3, 5, 9));
    let backward = Range { start: 4, end: 2 };
    for sites in [0..6, 5..6, 3..3, backward, 0..usize::MAX] {
        let error = panel.window(sites).unwrap_err();
        assert!(
            matches!(error, GenomeError::NoWindow { sites: 5, .. }),
            "{error}"
        );
    }
    assert_eq!(panel.sites_from(None, 30, 3).unwrap(), 2..5);
    let error = panel.sites_from(Some("7"), 30, 4).unwrap_err();
    assert!(error.to_string().contains("only 3 sites"), "{error}");
    assert_eq!(panel.site(None, 30).unwrap(), 2);
    assert_eq!(panel.site_at(2).chromosome, Some("7"));
}

#[test]
fn the_format_is_that_of_the_golden_file() {
    let (directory, collections) = empty();
    let mut matrix = alleles(70, 5, 3);
    matrix[3][69] = 9;
    write(&collections, "p", TEN, &matrix);
    assert_golden("panel", &file(directory.path(), "p", Kind::Panel));
}

#[test]
fn damage_is_found_wherever_it_is_and_named() {
    let haplotypes = 1 << 17;
    let (directory, collections) = empty();
    let panel = write(&collections, "p", TEN, &alleles(haplotypes, 40, 1));
    let path = file(directory.path(), "p", Kind::Panel);
    let length = fs::metadata(&path).unwrap().len() as usize;
    let second = panel.chunks[1].offset as usize;

    flip(&path, second + 5);
    let panel = collections.panel("p").unwrap();
    let text = panel.window(10..40).unwrap_err().to_string();
    assert!(text.contains("sites 17 to 32 of panel \"p\""), "{text}");
    assert!(panel.window(0..16).is_ok() && panel.window(32..40).is_ok());
    flip(&path, second + 5);

    for offset in [0, 8, 12, 16, 30, 60, 80, 4000, length - 1, length - 300] {
        flip(&path, offset);
        let text = HaplotypePanel::open(&path, "p")
            .map(|_| ())
            .unwrap_err()
            .to_string();
        assert!(text.contains("panel \"p\""), "{offset}: {text}");
        flip(&path, offset);
    }
    let bytes = fs::read(&path).unwrap();
    for length in [0, 7, 100, 4096, length - 1] {
        fs::write(&path, &bytes[..length]).unwrap();
        assert!(HaplotypePanel::open(&path, "p").is_err(), "{length}");
    }
    fs::write(&path, [&bytes[..], &[0]].concat()).unwrap();
    assert!(HaplotypePanel::open(&path, "p").is_err());
    fs::write(&path, bytes).unwrap();
    assert!(HaplotypePanel::open(&path, "p").is_ok());
}

/// Checks a file with correct digests but wrong symbols.
#[test]
fn symbols_outside_the_alphabet_are_refused() {
    let (_directory, collections) = empty();
    let matrix = alleles(9, 4, 3);
    let panel = write(&collections, "p", Alphabet::Alleles { largest: 2 }, &matrix);
    let text = panel.window(0..4).unwrap_err().to_string();
    assert!(text.contains("no alleles 0 to 2"), "{text}");
}

#[test]
fn a_running_query_keeps_the_panel_that_it_began_with() {
    let (_directory, collections) = empty();
    let (old, new) = (alleles(5, 6, 1), alleles(7, 8, 1));
    let before = write(&collections, "p", TEN, &old);
    assert!(std::sync::Arc::ptr_eq(
        &before,
        &collections.panel("p").unwrap()
    ));
    let after = write(&collections, "p", TEN, &new);
    assert_window(&before, &old, 0..6);
    assert_window(&after, &new, 0..8);
    collections.remove(Kind::Panel, "p").unwrap();
    assert!(matches!(
        collections.panel("p").map(|_| ()),
        Err(GenomeError::NoCollection { .. })
    ));
    assert_window(&after, &new, 0..8);
}
