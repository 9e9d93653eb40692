use super::*;
use crate::testing::{alleles, empty, file, flip, write};
use crate::{Alphabet, Existing};
use oboro_faults::scratch;

const TWO: Alphabet = Alphabet::Alleles { largest: 1 };

/// Makes a data directory with a panel of several chunks, a reference of two sequences, and counts.
fn filled() -> (tempfile::TempDir, Collections) {
    let (directory, collections) = empty();
    write(&collections, "p", TWO, &alleles(100_000, 50, 1));
    let loading = collections.begin(Kind::Reference, "r", Existing::Keep);
    let mut reference = crate::Reference::default();
    reference.push("s".into(), [0, 1, 2]);
    reference.push("t".into(), [3; 5000]);
    reference.write(loading.unwrap()).unwrap();
    let budgets = Budgets::open(directory.path());
    budgets.spend("a", Kind::Panel, "p", 1, 10).unwrap();
    (directory, collections)
}

/// Returns the damage that a full check finds, and its totals.
fn check(data: &Path) -> (Vec<Damage>, Scrubbed) {
    let mut scrub = CollectionScrub::of_directory(data).unwrap();
    let mut found = Vec::new();
    while let Some(part) = scrub.next_part().unwrap() {
        found.extend(part.damage);
    }
    (found, scrub.scrubbed())
}

#[test]
fn every_damaged_byte_is_found_and_its_collection_named() {
    let (directory, _) = filled();
    let data = directory.path();
    let (found, sound) = check(data);
    assert_eq!(found, []);
    assert_eq!(sound.collections, 2);
    let total = CollectionScrub::of_directory(data).unwrap().total_bytes();
    assert_eq!(sound.bytes, total);
    // Counts, chunks of 20 of 50 sites, sequences.
    assert_eq!(sound.parts, 1 + 3 + 2);
    for (name, kind) in [("p", Kind::Panel), ("r", Kind::Reference)] {
        let path = file(data, name, kind);
        let length = fs::metadata(&path).unwrap().len() as usize;
        for at in [0, 20, 4096, 4096 + 9, length - 1] {
            flip(&path, at);
            let (found, scrubbed) = check(data);
            let [damage] = &found[..] else {
                panic!("byte {at} of {name}: {found:?}")
            };
            assert_eq!(scrubbed.damaged, 1);
            assert_eq!(damage.name.as_deref(), Some(name));
            assert_eq!(damage.path.as_deref(), Some(&*path));
            let named = format!("{kind} {name:?}");
            assert!(damage.problem.contains(&named), "{}", damage.problem);
            flip(&path, at);
        }
    }
    flip(&data.join("genome/budgets"), 13);
    let (found, _) = check(data);
    assert_eq!(found.len(), 1);
    assert!(found[0].problem.contains("oboro genome reset"), "{found:?}");
    assert_eq!(check(&data.join("elsewhere")), Default::default());
}

#[test]
fn what_is_removed_meanwhile_is_not_damaged() {
    let (directory, collections) = filled();
    let mut scrub = CollectionScrub::of_directory(directory.path()).unwrap();
    scrub.next_part().unwrap();
    // Header and index of the panel, which stays readable.
    scrub.next_part().unwrap();
    collections.remove(Kind::Panel, "p").unwrap();
    collections.remove(Kind::Reference, "r").unwrap();
    while let Some(part) = scrub.next_part().unwrap() {
        assert_eq!(part.damage, None);
    }
    assert_eq!(scrub.scrubbed().collections, 1);
}

#[test]
fn a_copy_is_whole_or_refused() {
    let (directory, _) = filled();
    let (data, backup) = (directory.path(), scratch());
    let to = backup.path().join("copy");
    // Leftovers of an interrupted attempt.
    fs::create_dir_all(to.join("genome")).unwrap();
    fs::write(to.join("genome/old.panel"), "half").unwrap();
    let reported = std::cell::Cell::new(0);
    let copied = copy_collections(data, &to, &|bytes| reported.set(bytes)).unwrap();
    assert_eq!(copied.collections, 2);
    assert_eq!(copied.bytes, collection_bytes(data).unwrap());
    assert_eq!(reported.get(), copied.bytes);
    let (found, scrubbed) = check(&to);
    assert_eq!((found, scrubbed), check(data));
    for (name, kind) in [("p", Kind::Panel), ("r", Kind::Reference)] {
        let bytes = |data: &Path| fs::read(file(data, name, kind)).unwrap();
        assert!(bytes(data) == bytes(&to));
    }
    assert!(Budgets::open(&to).restored().unwrap().is_some());

    let path = file(data, "p", Kind::Panel);
    let length = fs::metadata(&path).unwrap().len() as usize;
    for at in [20, 300_000, length - 1] {
        flip(&path, at);
        let refusal = copy_collections(data, &to, &|_| {}).unwrap_err();
        assert!(refusal.to_string().contains("panel \"p\""), "{refusal}");
        flip(&path, at);
    }
    flip(&data.join("genome/budgets"), 13);
    let refusal = copy_collections(data, &to, &|_| {}).unwrap_err();
    assert!(matches!(refusal, GenomeError::DamagedBudgets(_)));
}
