use super::*;
use crate::alphabet::Alphabet;
use crate::testing::{alleles, empty, file, flip, write};
use crate::{SyntheticPanel, generate_panel};
use oboro_faults::{Disk, Failure, Image, Loss, replay};

const TWO: Alphabet = Alphabet::Alleles { largest: 1 };

fn load_reference(collections: &Collections, name: &str) {
    let loading = collections.begin(Kind::Reference, name, Existing::Keep);
    let mut reference = Reference::default();
    reference.push("s".into(), [0, 1, 2]);
    reference.write(loading.unwrap()).unwrap();
}

fn names_of(listing: &Listing) -> Vec<&str> {
    let infos = listing.collections.iter();
    infos.map(|info| info.name.as_str()).collect()
}

#[test]
fn a_listing_has_what_is_there_and_says_what_is_damaged() {
    let (directory, collections) = empty();
    assert!(collections.list().unwrap().collections.is_empty());
    write(&collections, "b", TWO, &alleles(3, 4, 1));
    write(&collections, "a.panel", TWO, &alleles(5, 6, 1));
    load_reference(&collections, "r");
    let genome = directory.path().join("genome");
    for other in ["x.panel.partial", ".hidden.panel", "notes", "ü.panel"] {
        fs::write(genome.join(other), "").unwrap();
    }
    let listing = collections.list().unwrap();
    assert_eq!(names_of(&listing), ["a.panel", "b", "r"]);
    assert!(listing.damaged.is_empty());
    let [_, b, r] = &listing.collections[..] else {
        unreachable!("there are three");
    };
    assert_eq!(
        b.shape,
        Shape::Panel {
            haplotypes: 3,
            sites: 4,
            alphabet: TWO
        }
    );
    assert_eq!(
        r.shape,
        Shape::Reference {
            sequences: 1,
            bases: 3
        }
    );

    flip(&file(directory.path(), "b", Kind::Panel), 17);
    let listing = collections.list().unwrap();
    assert_eq!(names_of(&listing), ["a.panel", "r"]);
    assert!(listing.damaged[0].to_string().contains("panel \"b\""));
}

#[test]
fn a_name_is_taken_once() {
    let (_directory, collections) = empty();
    load_reference(&collections, "x");
    let begin = |kind, existing| collections.begin(kind, "x", existing).map(|_| ());
    assert!(begin(Kind::Reference, Existing::Replace).is_ok());
    for (kind, existing, remedy) in [
        (Kind::Reference, Existing::Keep, "replaced"),
        (Kind::Panel, Existing::Keep, "remove"),
        (Kind::Panel, Existing::Replace, "remove"),
    ] {
        let error = begin(kind, existing).unwrap_err();
        assert!(matches!(error, GenomeError::Exists { .. }));
        assert!(error.to_string().contains(remedy), "{error}");
    }
    for name in ["", ".x", "a/b", "ü", &"x".repeat(101)] {
        let error = collections.begin(Kind::Panel, name, Existing::Keep);
        assert!(matches!(error.map(|_| ()), Err(GenomeError::Name { .. })));
        assert!(collections.panel(name).is_err() && collections.remove(Kind::Panel, name).is_err());
    }
}

#[test]
fn two_operators_do_not_meet_and_the_server_reads_on() {
    let (directory, collections) = empty();
    let panel = write(&collections, "p", TWO, &alleles(3, 4, 1));
    let loading = collections.begin(Kind::Panel, "q", Existing::Keep).unwrap();
    let other = Collections::open(directory.path());
    assert!(matches!(
        other.begin(Kind::Panel, "r", Existing::Keep).map(|_| ()),
        Err(GenomeError::Busy { .. })
    ));
    assert!(matches!(
        other.remove(Kind::Panel, "p"),
        Err(GenomeError::Busy { .. })
    ));
    assert_eq!(names_of(&other.list().unwrap()), ["p"]);
    assert!(panel.window(0..4).is_ok());
    drop(loading);
    other.remove(Kind::Panel, "p").unwrap();
    assert!(matches!(
        other.remove(Kind::Panel, "p"),
        Err(GenomeError::NoCollection { .. })
    ));
}

#[test]
fn a_load_that_fails_leaves_nothing_and_one_that_was_killed_is_swept() {
    let (directory, collections) = empty();
    let loading = collections.begin(Kind::Panel, "p", Existing::Keep).unwrap();
    drop(loading.create().unwrap());
    let partial = loading.partial().to_owned();
    assert!(partial.exists());
    drop(loading);
    assert!(!partial.exists());

    let killed = directory.path().join("genome/k.panel.partial");
    fs::write(&killed, "half").unwrap();
    write(&collections, "p", TWO, &alleles(3, 4, 1));
    assert!(!killed.exists());
}

/// Panels that the steps of the test below load under one name, and its removal.
const STEPS: [Option<u32>; 4] = [Some(3), Some(70), None, Some(9)];

#[test]
fn a_power_cut_at_any_step_leaves_the_old_panel_or_the_new_one() {
    let disk = Disk::new();
    let collections = Collections::open(disk.path());
    let parameters = |haplotypes| SyntheticPanel {
        haplotypes,
        sites: 5,
        seed: 1,
    };
    for step in STEPS {
        match step {
            Some(haplotypes) => {
                let parameters = parameters(haplotypes);
                generate_panel(&collections, "p", &parameters, Existing::Replace).unwrap();
            }
            None => collections.remove(Kind::Panel, "p").unwrap(),
        }
        disk.acknowledge();
    }
    let record = disk.record();
    // The rest of the test requires that everything is recorded.
    assert!(record.image(record.operations(), Loss::Nothing) == Image::read(disk.path()));

    replay(&record, |left, cut| {
        let collections = Collections::open(left);
        let listing = collections.list().unwrap();
        assert!(listing.damaged.is_empty(), "{:?}", listing.damaged);
        let found = match collections.panel("p") {
            Ok(panel) => {
                panel.window(0..5).unwrap();
                Some(panel.haplotypes() as u32)
            }
            Err(GenomeError::NoCollection { .. }) => None,
            Err(error) => panic!("{error}"),
        };
        assert_eq!(names_of(&listing).len(), usize::from(found.is_some()));
        let after = |steps: usize| steps.checked_sub(1).and_then(|last| STEPS[last]);
        let promised = [
            after(cut.acknowledged),
            after(cut.acknowledged + usize::from(cut.under_way)),
        ];
        assert!(promised.contains(&found), "{found:?} after {cut:?}");
        // Leftovers do not block a load.
        generate_panel(&collections, "p", &parameters(2), Existing::Replace).unwrap();
    });
}

#[test]
fn a_full_disk_is_said_and_leaves_what_was_there() {
    let disk = Disk::new();
    let collections = Collections::open(disk.path());
    let load = |seed| {
        let parameters = SyntheticPanel {
            haplotypes: 100,
            sites: 5,
            seed,
        };
        generate_panel(&collections, "p", &parameters, Existing::Replace)
    };
    load(0).unwrap();
    let window = || collections.panel("p").unwrap().window(0..5).unwrap();
    let mut failures = 0;
    for at in 0..12 {
        let before = window();
        disk.fail(Failure::Full { at });
        let loaded = load(1 + at as u64);
        disk.mend();
        if let Err(error) = loaded {
            assert!(matches!(error, GenomeError::DiskFull { .. }), "{error}");
            assert_eq!(before, window());
            failures += 1;
        }
        assert_eq!(names_of(&collections.list().unwrap()), ["p"]);
    }
    assert!(failures > 0);
}
