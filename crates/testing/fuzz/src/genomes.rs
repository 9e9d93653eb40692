//! Genomes: files to import, and files of collections.

use crate::decoded;
use oboro_format::Digest;
use oboro_format::codec::Writer;
use oboro_genome_server::{
    Alphabet, Collections, Existing, HaplotypePanel, Kind, PanelOptions, Reference, Window,
    import_panel, import_reference,
};
use std::fs;
use tempfile::TempDir;

/// Sites of a panel to read.
const SITES: usize = 100;

/// A file to import: as a panel, and as a reference. Accepted files read back equal.
pub fn genomes(bytes: &[u8]) -> Option<()> {
    let (directory, collections) = empty();
    let file = directory.path().join("genomes");
    fs::write(&file, bytes).expect("there is space");
    let panel = import_panel(&collections, "g", &file, &PanelOptions::default());
    let panel = decoded(panel).map(|_| {
        let panel = collections.panel("g").expect("it was imported");
        decoded(look_at(&panel)).expect("it was written well");
    });
    let reference = import_reference(&collections, "g", &file, Existing::Keep);
    assert!(
        panel.is_none() || decoded(reference).is_none(),
        "a name is taken once"
    );
    panel.or_else(|| {
        decoded(import_reference(&collections, "r", &file, Existing::Keep))?;
        check(&collections.reference("r").expect("it was imported"));
        Some(())
    })
}

/// The file of a collection: its kind, its pages of 4 KiB before the index, the numbers of its header, and the
/// index. Blobs are zero.
pub fn collection(bytes: &[u8]) -> Option<()> {
    let (&[kind, pages], rest) = bytes.split_first_chunk()?;
    let (numbers, index) = rest.split_first_chunk::<12>()?;
    let (kind, magic) = match kind % 2 {
        0 => (Kind::Panel, "OBOROPAN"),
        _ => (Kind::Reference, "OBOROREF"),
    };
    let mut header = Writer::with_preamble(magic, 1);
    header
        .put(numbers)
        .u64(u64::from(pages) << 12)
        .u64(index.len() as u64)
        .put(&Digest::of(index).0);
    let mut file = header.seal();
    file.resize(usize::from(pages.max(1)) << 12, 0);
    file.extend_from_slice(index);

    let (directory, collections) = empty();
    let folder = directory.path().join("genome");
    fs::create_dir(&folder).expect("the directory is empty");
    fs::write(folder.join(format!("g.{kind}")), file).expect("there is space");
    let listing = collections.list().expect("the directory is there");
    assert_eq!(listing.collections.len() + listing.damaged.len(), 1);
    match kind {
        Kind::Panel => decoded(look_at(&*decoded(collections.panel("g"))?))?,
        Kind::Reference => check(&*decoded(collections.reference("g"))?),
    }
    Some(())
}

fn empty() -> (TempDir, Collections) {
    let directory = tempfile::tempdir().expect("a temporary directory can be made");
    let collections = Collections::open(directory.path());
    (directory, collections)
}

/// Reads the first sites of a panel.
fn look_at(panel: &HaplotypePanel) -> Result<(), oboro_genome_server::GenomeError> {
    let sites = panel.sites().min(SITES);
    for index in 0..sites {
        let site = panel.site_at(index);
        let found = panel.site(site.chromosome, site.position);
        assert_eq!(found.expect("it is there"), index);
    }
    let rows = panel.window(0..sites)?;
    assert_eq!((rows.len(), rows.length()), (panel.haplotypes(), sites));
    let mut symbols = vec![0; sites];
    for row in 0..rows.len() {
        rows.read(row, &mut symbols);
        assert!(symbols.iter().all(|&symbol| symbol < panel.symbols()));
    }
    let distinct = Window::new(rows).beginnings(sites).count();
    assert!((1..=panel.haplotypes()).contains(&distinct));
    Ok(())
}

fn check(reference: &Reference) {
    assert!(
        reference
            .bases()
            .iter()
            .all(|&base| Alphabet::Bases.holds(base))
    );
    let mut end = 0;
    for sequence in reference.sequences() {
        assert!(sequence.range.start == end && !sequence.range.is_empty());
        end = sequence.range.end;
    }
    assert_eq!(end, reference.bases().len());
}
