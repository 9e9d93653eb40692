use super::*;
use crate::testing::empty;
use crate::testing::row;
use crate::{Alphabet, HaplotypePanel, Shape};
use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;
use oboro_genome::UNKNOWN;
use std::fs::{self, File};
use std::io::{Read, Write};
use std::sync::Arc;

/// Imports a file with this content as a panel.
fn import(content: &[u8], options: &PanelOptions) -> Result<Arc<HaplotypePanel>, GenomeError> {
    Ok(import_counted(content, options)?.0)
}

/// As [`import`], with the sites left out.
fn import_counted(
    content: &[u8],
    options: &PanelOptions,
) -> Result<(Arc<HaplotypePanel>, SkippedSites), GenomeError> {
    let (directory, collections) = empty();
    let file = directory.path().join("genomes");
    fs::write(&file, content).unwrap();
    let result = import_panel(&collections, "p", &file, options);
    if result.is_err() {
        let files = fs::read_dir(directory.path().join("genome")).unwrap();
        let names: Vec<_> = files.map(|file| file.unwrap().file_name()).collect();
        assert_eq!(names, ["lock"], "a load that failed left something");
    }
    let left_out = result?.left_out;
    Ok((collections.panel("p")?, left_out))
}

fn refusal(content: &[u8]) -> String {
    let result = import(content, &PanelOptions::default());
    let text = result.map(|_| ()).unwrap_err().to_string();
    assert!(
        text.contains("genomes") && !text.contains(char::is_control),
        "{text:?}"
    );
    text
}

/// Makes a VCF file of samples A and B with these lines.
fn vcf(lines: &[&str]) -> Vec<u8> {
    let header =
        "##fileformat=VCFv4.2\n#CHROM\tPOS\tID\tREF\tALT\tQUAL\tFILTER\tINFO\tFORMAT\tA\tB\n";
    let lines: String = lines
        .iter()
        .map(|line| line.replace(' ', "\t") + "\n")
        .collect();
    format!("{header}{lines}").into_bytes()
}

/// Makes one line of VCF at a position of chromosome 20.
fn line(position: u32, alternatives: &str, a: &str, b: &str) -> String {
    format!("20 {position} . T {alternatives} . PASS . GT {a} {b}")
}

fn all(panel: &HaplotypePanel) -> Vec<Vec<u8>> {
    let window = panel.window(0..panel.sites()).unwrap();
    (0..window.len())
        .map(|number| row(&window, number))
        .collect()
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

#[test]
fn alleles_become_haplotypes_sample_after_sample() {
    let lines = [
        line(5, "G", "0|1", "1"),
        line(9, "G,C", "2|0", "0"),
        "X 3 . T <DEL>,* . . AC=1 DP:GT 7:1/1 3:0".to_owned(),
    ];
    let content = vcf(&lines.each_ref().map(String::as_str));
    let packed = gzip(&content);
    // Several gzip members are one file.
    let half = content.len() / 2;
    let members = [gzip(&content[..half]), gzip(&content[half..])].concat();
    for content in [content, packed, members] {
        let panel = import(&content, &PanelOptions::default()).unwrap();
        assert_eq!(all(&panel), [[0, 2, 1], [1, 0, 1], [1, 0, 0]]);
        assert_eq!(panel.alphabet(), Alphabet::Alleles { largest: 2 });
        assert_eq!(panel.site(Some("X"), 3).unwrap(), 2);
    }
}

#[test]
fn a_region_is_all_that_is_read() {
    let lines = [
        line(5, "G", "0/1", "1"),
        line(9, "G", "1|0", "0"),
        line(12, "G", "1|1", "0"),
        line(13, "G", ".|.", "0"),
    ];
    let content = vcf(&lines.each_ref().map(String::as_str));
    let with = |region: &str| {
        let options = PanelOptions {
            region: Some(region.parse().unwrap()),
            ..PanelOptions::default()
        };
        import(&content, &options)
    };
    let panel = with("20:6-12").unwrap();
    assert_eq!(all(&panel), [[1, 1], [0, 1], [0, 0]]);
    // The region may continue anywhere, and everything outside is counted.
    let scattered = [
        line(5, "G", "0|1", "1"),
        line(50, "G", "1|1", "1"),
        "X 7 . T G . PASS . GT 1|1 1".to_owned(),
        line(9, "G", "1|0", "0"),
        line(60, "G", "0|1", "0"),
        line(12, "G", "0|0", "1"),
    ];
    let options = PanelOptions {
        region: Some("20:6-12".parse().unwrap()),
        ..PanelOptions::default()
    };
    let scattered = vcf(&scattered.each_ref().map(String::as_str));
    let (panel, left_out) = import_counted(&scattered, &options).unwrap();
    assert_eq!(all(&panel), [[1, 0], [0, 0], [0, 1]]);
    let expected = SkippedSites {
        outside_region: 4,
        duplicates: 0,
    };
    assert_eq!(left_out, expected);
    for empty in ["20:1-4", "20:6-8", "21:1-100"] {
        let text = with(empty).map(|_| ()).unwrap_err().to_string();
        assert!(text.contains(&format!("no site in {empty}")), "{text}");
    }
    for wrong in ["", "20", "20:5", "20:9-5", ":1-2", "20:a-b", "20:-1-5"] {
        assert!(wrong.parse::<Region>().is_err(), "{wrong}");
    }
    let region: Region = "HLA:A*01:1,000-2,000".parse().unwrap();
    assert_eq!(region.to_string(), "HLA:A*01:1000-2000");
}

#[test]
fn a_position_that_is_repeated_is_refused_or_skipped() {
    let lines = [line(5, "G", "0|1", "1|1"), line(5, "C", "1|1", "0|0")];
    let content = vcf(&lines.each_ref().map(String::as_str));
    assert!(refusal(&content).contains("line 4: the site at 20:5 is there twice"));
    let options = PanelOptions {
        duplicates: Duplicates::Skip,
        ..PanelOptions::default()
    };
    let (panel, left_out) = import_counted(&content, &options).unwrap();
    assert_eq!(all(&panel), [[0], [1], [1], [1]]);
    let expected = SkippedSites {
        outside_region: 0,
        duplicates: 1,
    };
    assert_eq!(left_out, expected);
}

/// Checks ten alleles and more, repeated positions, and both at once.
#[test]
fn the_remedies_for_repeated_sites_and_many_alleles_end_together() {
    let many = "C,G,TA,TC,TG,TT,TAA,TAC,TAG,TAT";
    let lines = [
        line(5, "G", "0|1", "1|1"),
        line(5, many, "0|1", "10|1"),
        line(7, many, "0|1", "10|1"),
        line(7, "C", "1|1", "0|0"),
        line(7, "G", "0|0", "1|0"),
        line(9, "A,C,G,TA,TC,TG", "6|0", "0|1"),
        line(9, "TT,TAA,TAC,TAG", "0|1", "1|0"),
    ];
    for order in 0..lines.len() {
        // The lines at a position may come in any order.
        let mut lines: Vec<&str> = lines.iter().map(String::as_str).collect();
        lines.rotate_left(order);
        let position = |line: &str| line.split(' ').nth(1).unwrap().parse::<u32>().unwrap();
        lines.sort_by_key(|line| position(line));
        let mut options = PanelOptions::default();
        let mut remedies = 0;
        let panel = loop {
            let error = match import(&vcf(&lines), &options) {
                Ok(panel) => break panel,
                Err(error) => error.to_string(),
            };
            remedies += 1;
            assert!(remedies <= 2, "{error}");
            if error.contains("`bcftools view -M 10`") {
                lines.retain(|line| line.split(' ').nth(4).unwrap().split(',').count() < 10);
            } else if error.contains("`--skip-duplicates`") {
                options.duplicates = Duplicates::Skip;
            } else {
                panic!("no remedy: {error}");
            }
        };
        assert_eq!(panel.sites(), 3);
    }
}

#[test]
fn vcf_that_cannot_be_searched_is_refused_with_the_place_and_the_remedy() {
    let first = line(5, "G", "0|1", "1|1");
    let second = |line: String, expected: &str| {
        let text = refusal(&vcf(&[&first, &line]));
        assert!(text.contains("line 4") && text.contains(expected), "{text}");
    };
    second(
        line(6, "G", "0|0", "0/1"),
        "sample \"B\" at 20:6 has the genotype \"0/1\", which is not phased",
    );
    second(
        line(6, "G", "0|0", "/0|1"),
        "sample \"B\" at 20:6 has the genotype \"/0|1\", which is not phased: an allele after /",
    );
    second(
        line(6, "G", ".|0", "0|1"),
        "sample \"A\" at 20:6 has the genotype \".|0\", in which an allele is missing",
    );
    second(line(6, "G", "0|0", "."), "missing");
    second(line(6, "G", "0|2", "0|1"), "\"0|2\" for a genotype");
    second(
        line(6, "G", "0|0", "0"),
        "sample \"B\" has 1 alleles at 20:6 and 2 at",
    );
    second(line(6, "1,2,3,4,5,6,7,8,9,10", "0|0", "0|0"), "11 alleles");
    second(line(4, "G", "0|0", "0|0"), "follows one at position 5");
    second("20 7 . T G . . . DP 1 2".to_owned(), "no genotypes");
    second(
        "20 7 . T G . . . GT 0|1".to_owned(),
        "1 samples where the header names 2",
    );
    second(
        "20 7 . T G . . . GT 0|1 0|1 0|1".to_owned(),
        "3 samples where the header names 2",
    );
    second("20 7".to_owned(), "no line of VCF");
    second("20 x . T G . . . GT 0|1 0|1".to_owned(), "no line of VCF");
    second("20 -3 . T G . . . GT 0|1 0|1".to_owned(), "no line of VCF");
    let again = [
        &first,
        "21 1 . T G . . . GT 0|1 0|1",
        &line(9, "G", "0|0", "0|0"),
    ];
    assert!(refusal(&vcf(&again)).contains("line 5: chromosome \"20\" is continued"));
    let unphased: Vec<u8> = vcf(&[&line(1, "G", "0/1", "0/1")]);
    assert!(refusal(&unphased).contains("SHAPEIT"));
}

#[test]
fn files_of_something_else_are_refused_with_what_they_seem_to_be() {
    assert!(refusal(b"").contains("empty"));
    assert!(refusal(&gzip(b"")).contains("empty"));
    assert!(refusal(b"hello\n").contains("begins with \"hello"));
    assert!(refusal(b"BCF\x02\x02").contains("BCF"));
    assert!(refusal(b"##gff-version 3\n").contains("VCF header"));
    assert!(refusal(b"##fileformat=VCFv4.2\nrest").contains("VCF header"));
    assert!(refusal(&vcf(&[])).contains("no site"));
    let no_samples = "##fileformat=VCFv4.2\n#CHROM\tPOS\tID\tREF\tALT\tQUAL\tFILTER\tINFO\n";
    assert!(refusal(no_samples.as_bytes()).contains("no samples"));
    assert!(refusal(&[0x1f, 0x8b, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11]).contains("gzip"));

    let content = vcf(&[&line(5, "G", "0|1", "1|1")]);
    let packed = gzip(&content);
    for kept in [12, packed.len() / 2, packed.len() - 1] {
        assert!(refusal(&packed[..kept]).contains("too early"), "{kept}");
    }
    // An empty block of bgzip and only the start of another.
    let mut bgzip = lines::BGZF_END.to_vec();
    bgzip.extend(&lines::BGZF_END[..20]);
    assert!(refusal(&bgzip).contains("bgzip"));

    let (directory, collections) = empty();
    let missing = directory.path().join("none.vcf");
    let error = import_panel(&collections, "p", &missing, &PanelOptions::default()).unwrap_err();
    assert!(error.to_string().contains("none.vcf"), "{error}");
}

#[test]
fn an_alignment_becomes_a_panel_of_its_columns() {
    let panel = import(
        b">a x\nACG\nT-\n>b\nacgNu\n\n>c\r\nAAAAA\r\n",
        &PanelOptions::default(),
    );
    let panel = panel.unwrap();
    let expected = [vec![0, 1, 2, 3, 4], vec![0, 1, 2, 4, 3], vec![0; 5]];
    assert_eq!(all(&panel), expected);
    assert_eq!(panel.alphabet(), Alphabet::Bases);
    assert_eq!(panel.site(None, 5).unwrap(), 4);
    assert!(panel.site(Some("a"), 5).is_err());
}

/// Checks more columns than are transposed at a time.
#[test]
fn long_alignments_are_turned_in_blocks() {
    let (rows, columns) = (2100, 33_000);
    let letter = |row: usize, column: usize| b"ACGT"[(row * row + 7 * column + column / 90) % 4];
    let mut content = Vec::new();
    for row in 0..rows {
        content.extend_from_slice(b">r\n");
        content.extend((0..columns).map(|column| letter(row, column)));
        content.push(b'\n');
    }
    let panel = import(&content, &PanelOptions::default()).unwrap();
    assert_eq!((panel.haplotypes(), panel.sites()), (rows, columns));
    for first in [0, 31_900, 31_950, 32_950] {
        let window = panel.window(first..first + 50).unwrap();
        for number in (0..rows).step_by(37) {
            let letters = (first..first + 50).map(|column| letter(number, column));
            let expected: Vec<_> = letters
                .map(|it| crate::alphabet::base(it).unwrap())
                .collect();
            assert_eq!(row(&window, number), expected);
        }
    }
}

#[test]
fn fasta_that_cannot_be_used_is_refused_with_the_line() {
    assert!(
        refusal(b">a\nACGT\n>b\nACG\n")
            .contains("sequence \"b\" has 3 letters where the first has 4")
    );
    assert!(refusal(b">a\nACGT\n>b\nACxT\n").contains("line 4: \"x\" in column 3"));
    assert!(refusal(b">a\n>b\nA\n").contains("line 1: sequence \"a\" has no bases"));
    assert!(refusal(b">\nACGT\n").contains("line 1: \"\" is no name"));
    assert!(refusal(b">a\nAC\x1b[2J\n").contains("in column 3"));
    let options = PanelOptions {
        region: Some("1:2-3".parse().unwrap()),
        ..PanelOptions::default()
    };
    let text = import(b">a\nA\n", &options)
        .map(|_| ())
        .unwrap_err()
        .to_string();
    assert!(text.contains("Leave the region out"), "{text}");
}

#[test]
fn a_reference_has_the_sequences_of_its_file() {
    let (directory, collections) = empty();
    let file = directory.path().join("genomes");
    let load = |content: &[u8], existing| {
        fs::write(&file, content).unwrap();
        import_reference(&collections, "r", &file, existing).map_err(|error| error.to_string())
    };
    let info = load(&gzip(b">one first\nACGTN\nA\n>two\nTT"), Existing::Keep).unwrap();
    let shape = Shape::Reference {
        sequences: 2,
        bases: 8,
    };
    assert_eq!(info.shape, shape);
    let reference = collections.reference("r").unwrap();
    assert_eq!(reference.bases(), [0, 1, 2, 3, UNKNOWN, 0, 3, 3]);
    assert_eq!(reference.sequences()[1].name, "two");
    assert_eq!(reference.sequences()[1].range, 6..8);

    let again = load(b">a\nA\n", Existing::Keep).unwrap_err();
    assert!(again.contains("already"), "{again}");
    let refused = |content: &[u8]| load(content, Existing::Replace).unwrap_err();
    assert!(refused(b">a\nA\n>a\nC\n").contains("twice"));
    assert!(refused(&vcf(&[])).contains("Load it as a panel"));
    assert_eq!(collections.reference("r").unwrap().sequences().len(), 2);
    load(b">a\nA\n", Existing::Replace).unwrap();
    assert_eq!(collections.reference("r").unwrap().bases(), [0]);
}

/// Returns a file of public data, if it is present.
fn shared(name: &str) -> Option<std::path::PathBuf> {
    let file = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../../shared/data")
        .join(name);
    if !file.exists() {
        println!("skipped: {name} is not here");
        return None;
    }
    Some(file)
}

#[test]
fn the_omni_panel_has_every_allele_of_its_file() {
    let Some(file) = shared("omni-chr20.vcf.gz") else {
        return;
    };
    let (_directory, collections) = empty();
    let imported = import_panel(&collections, "omni", &file, &PanelOptions::default());
    let ImportedPanel { info, left_out } = imported.unwrap();
    assert_eq!(left_out, SkippedSites::default());
    let shape = Shape::Panel {
        haplotypes: 2752,
        sites: 38,
        alphabet: Alphabet::Alleles { largest: 1 },
    };
    assert_eq!(info.shape, shape);
    let panel = collections.panel("omni").unwrap();
    let rows = all(&panel);
    let mut text = String::new();
    let mut unpacked = GzDecoder::new(File::open(file).unwrap());
    unpacked.read_to_string(&mut text).unwrap();
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    for (site, line) in lines.enumerate() {
        let fields: Vec<&str> = line.split('\t').collect();
        let position = fields[1].parse().unwrap();
        assert_eq!(panel.site(Some("20"), position).unwrap(), site);
        for (sample, call) in fields[9..].iter().enumerate() {
            let alleles = call.as_bytes();
            assert_eq!(rows[2 * sample][site], alleles[0] - b'0');
            assert_eq!(rows[2 * sample + 1][site], alleles[2] - b'0');
        }
    }
}

#[test]
fn public_references_have_as_many_bases_as_they_should() {
    let (_directory, collections) = empty();
    for (name, bases) in [
        ("lambda_virus.fa.gz", 48_502),
        ("ecoli-NC_008253.fna.gz", 4_938_920),
    ] {
        let Some(file) = shared(name) else { continue };
        let info = import_reference(&collections, "r", &file, Existing::Replace).unwrap();
        assert_eq!(
            info.shape,
            Shape::Reference {
                sequences: 1,
                bases
            }
        );
    }
}
