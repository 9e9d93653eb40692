use super::*;
use crate::store::Store;
use crate::testing::{ID, append, bundle, one_limb, send};
use oboro_format::{Bundle, ErrorKind, FormatError, Roles};
use tempfile::TempDir;

/// Makes a catalogue one of the first version, with an upload in progress and a dataset that was purged.
const DOWNGRADE: &str = "
    CREATE TABLE d (id BLOB PRIMARY KEY NOT NULL, name TEXT NOT NULL UNIQUE, manifest BLOB NOT NULL) STRICT;
    INSERT INTO d SELECT id, name, manifest FROM dataset;
    DROP TABLE dataset; DROP TABLE upload; DROP TABLE deleted; DROP TABLE identity;
    ALTER TABLE d RENAME TO dataset;
    CREATE TABLE upload (id BLOB PRIMARY KEY NOT NULL, name TEXT NOT NULL UNIQUE, manifest BLOB NOT NULL) STRICT;
    INSERT INTO tombstone VALUES (x'09090909090909090909090909090909');
    PRAGMA user_version = 1;";
const UPLOAD: &str = "
    INSERT INTO upload SELECT x'05050505050505050505050505050505', 'late', manifest FROM dataset;";

/// A store of the first version, in a directory or in object storage, with one dataset.
struct Old {
    directory: TempDir,
    location: Location,
    bundle: Bundle,
    /// Its catalogue.
    catalogue: PathBuf,
}

impl Old {
    fn new(is_remote: bool) -> Self {
        let directory = TempDir::new().unwrap();
        let path = |name: &str| directory.path().join(name);
        let (location, catalogue) = if is_remote {
            let location = Location::Objects {
                url: format!("file://{}", path("objects").display()),
                cache: path("store"),
                cache_bytes: u64::MAX,
            };
            (location, path("objects").join(CATALOGUE))
        } else {
            (
                Location::from(&path("store")),
                path("store").join(CATALOGUE),
            )
        };
        let bundle = bundle(&path("bundle"), &one_limb(), &[1, 2]);
        let store = Store::open_on(location.clone(), Placement::default()).unwrap();
        send(&store, &bundle);
        store.access().publish_pending(ID).unwrap();
        drop(store);
        let uploads = [path("store").join(CATALOGUE)];
        for path in uploads.iter().chain(Some(&catalogue).filter(|_| is_remote)) {
            let old = rusqlite::Connection::open(path).unwrap();
            old.execute_batch(DOWNGRADE).unwrap();
            if !is_remote {
                old.execute_batch(UPLOAD).unwrap();
            }
        }
        for home in ["store", "objects"] {
            let _ = fs::remove_file(path(home).join("identity"));
        }
        Self {
            location,
            bundle,
            catalogue,
            directory,
        }
    }

    fn open(&self) -> Result<Store, StoreError> {
        Store::open_on(self.location.clone(), Placement::default())
    }

    /// Every file of it but for locks, and what a server sets aside, by path.
    fn content(&self) -> BTreeMap<PathBuf, Vec<u8>> {
        fn add(path: &Path, all: &mut BTreeMap<PathBuf, Vec<u8>>) {
            if path.is_dir() {
                let entries = fs::read_dir(path).unwrap();
                entries.for_each(|it| add(&it.unwrap().path(), all));
            } else if !path.ends_with("lock") && !path.ends_with("reserve") {
                all.insert(path.into(), fs::read(path).unwrap());
            }
        }
        let mut all = BTreeMap::new();
        add(self.directory.path(), &mut all);
        all
    }

    fn kept(&self) -> PathBuf {
        self.catalogue.with_file_name(kept_name(1))
    }
}

#[test]
fn a_store_of_the_first_version_is_upgraded_when_it_is_asked_for_and_can_go_back() {
    for is_remote in [false, true] {
        let old = Old::new(is_remote);
        let before = old.content();
        let refused = old.open().err().unwrap();
        assert_eq!(refused.kind(), ErrorKind::FailedPrecondition);
        assert!(
            refused.to_string().contains("oboro store upgrade"),
            "{refused}"
        );
        let trial = upgrade(&old.location, true).unwrap().unwrap();
        assert_eq!((trial.from, trial.to), (1, 3));
        assert_eq!(old.content(), before);
        let done = upgrade(&old.location, false).unwrap().unwrap();
        assert_eq!(done, trial);
        assert!(old.kept().exists(), "{}", done.kept);
        assert_eq!(upgrade(&old.location, false).unwrap(), None);

        let store = old.open().unwrap();
        let access = store.access();
        assert_eq!(access.snapshot("a").unwrap().manifest().dataset, ID);
        let usage = access.usage().unwrap();
        assert_eq!((usage.datasets, usage.uploads), (1, u64::from(!is_remote)));
        assert!(usage.bytes > access.list().unwrap().datasets[0].stored_bytes);
        let is_purged = {
            let namespace = store.namespace();
            let state = namespace.state();
            state.catalogue.is_purged(DatasetId([9; 16])).unwrap()
        };
        assert!(is_purged);
        // As long as it is served it stays.
        let locked = undo_upgrade(&old.location).unwrap_err();
        assert!(
            matches!(locked, StoreError::Format(FormatError::Locked { .. })),
            "{locked}"
        );
        drop((access, store));

        let undone = undo_upgrade(&old.location).unwrap();
        assert_eq!((undone.from, undone.to), (3, 1));
        assert_eq!(fs::read(&old.catalogue).unwrap(), before[&old.catalogue]);
        assert!(!old.kept().exists());
        let again = undo_upgrade(&old.location).unwrap_err();
        assert!(
            again.to_string().contains("nothing to go back to"),
            "{again}"
        );
        upgrade(&old.location, false).unwrap().unwrap();
        old.open().unwrap();
    }
}

#[test]
fn there_is_no_way_back_once_something_was_changed() {
    for is_remote in [false, true] {
        let old = Old::new(is_remote);
        upgrade(&old.location, false).unwrap().unwrap();
        let store = old.open().unwrap();
        let longer = append(&old.bundle, &[1]);
        send(&store, &longer);
        store.access().publish_pending(ID).unwrap();
        drop(store);
        let before = old.content();
        let refused = undo_upgrade(&old.location).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::FailedPrecondition);
        assert!(refused.to_string().contains("dataset a"), "{refused}");
        assert_eq!(old.content(), before);
    }
    // What others have in namespaces of theirs was unknown before.
    let old = Old::new(false);
    upgrade(&old.location, false).unwrap().unwrap();
    let store = old.open().unwrap();
    store.access_of("alice", Roles::ALL).list().unwrap();
    drop(store);
    let refused = undo_upgrade(&old.location).unwrap_err();
    assert!(refused.to_string().contains("namespace alice"), "{refused}");
}

#[test]
fn nothing_is_upgraded_of_which_something_is_missing() {
    for is_remote in [false, true] {
        let old = Old::new(is_remote);
        let content = old.content();
        let mut segments = content.keys().filter(|it| {
            it.extension().is_some_and(|it| it == "seg")
                && it.starts_with(old.catalogue.parent().unwrap())
        });
        fs::remove_file(segments.next().unwrap()).unwrap();
        let before = old.content();
        let refused = upgrade(&old.location, false).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::FailedPrecondition);
        assert!(refused.to_string().contains("of dataset a"), "{refused}");
        assert_eq!(old.content(), before);
    }
}
