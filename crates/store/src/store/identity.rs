//! Id of a store: in the file, or object, `identity`, and in the catalogue of each namespace.
//!
//! The id protects against a catalogue moved here from another namespace or store: sweeping by it would remove or hide
//! data. A store without `identity` gets its id from the catalogue, which makes a copy without that file usable; the
//! next start writes the file again.

use super::directory::has_catalogue;
use crate::catalogue::Catalogue;
use crate::error::{CatalogueError, StoreError};
use crate::layout::{CATALOGUE, IDENTITY};
use crate::object::{ObjectError, Objects, PutError};
use crate::store_id::{CatalogueIdentity, StoreId};
use oboro_format::DEFAULT_NAMESPACE;
use oboro_format::codec::{Reader, Writer, unseal};
use oboro_format::files::{Durability, read_if_there, replace, sync_directory};
use oboro_format::{Corruption, FormatError};
use std::path::Path;

const MAGIC: &str = "OBOROSID";
const VERSION: u32 = 1;

impl StoreId {
    /// Returns the id in the file or object `identity`; `None` if it does not exist.
    ///
    /// # Errors
    /// An identity that is damaged or unreadable.
    pub(super) fn stored(
        home: &Path,
        objects: Option<&Objects>,
    ) -> Result<Option<Self>, StoreError> {
        let path = home.join(IDENTITY);
        let (bytes, path) = match objects {
            None => (read_if_there(&path)?, path),
            Some(objects) => match objects.get(IDENTITY) {
                Ok((bytes, _)) => (Some(bytes), objects.url_of(IDENTITY).into()),
                Err(ObjectError::Missing) => (None, path),
                Err(error) => return Err(objects.failed(IDENTITY, &error)),
            },
        };
        let id = bytes.map(|bytes| decode(&bytes)).transpose();
        Ok(id.map_err(|corruption| FormatError::Damaged {
            subject: "the identity of the store".to_owned(),
            path: Some(path),
            corruption,
        })?)
    }

    /// Returns the id of the store in a directory or in object storage: the stored one, else that of its catalogue,
    /// else a new one. Nothing is written.
    ///
    /// # Errors
    /// A damaged or unreadable file, object or catalogue; no randomness.
    pub(super) fn of(home: &Path, objects: Option<&Objects>) -> Result<Self, StoreError> {
        if let Some(stored) = Self::stored(home, objects)? {
            return Ok(stored);
        }
        let of_catalogue = match objects {
            None if has_catalogue(home)? => Catalogue::identity_of(&home.join(CATALOGUE))?,
            None => None,
            Some(objects) => match objects.get(CATALOGUE) {
                Ok((image, _)) => Catalogue::identity_of_image(&image, &objects.url_of(CATALOGUE))?,
                Err(ObjectError::Missing) => None,
                Err(error) => return Err(objects.failed(CATALOGUE, &error)),
            },
        };
        match of_catalogue {
            None => Self::draw(),
            Some(found) if found.namespace == DEFAULT_NAMESPACE => Ok(found.store),
            // The directory of a namespace is no store.
            Some(found) => Err(CatalogueError::Swapped {
                expected: CatalogueIdentity::new(found.store, DEFAULT_NAMESPACE).to_string(),
                found: found.to_string(),
            }
            .into()),
        }
    }

    /// Writes the id to the store, unless it is there. It is durable before any catalogue names it.
    ///
    /// # Errors
    /// A disk that fails, objects out of reach, another server that gave the store an id meanwhile.
    pub(super) fn keep(self, home: &Path, objects: Option<&Objects>) -> Result<(), StoreError> {
        if Self::stored(home, objects)? == Some(self) {
            return Ok(());
        }
        let bytes = encode(self);
        let Some(objects) = objects else {
            replace(&home.join(IDENTITY), &bytes, Durability::Durable)?;
            return Ok(sync_directory(home)?);
        };
        match objects.replace(IDENTITY, bytes, None) {
            Ok(_) => Ok(()),
            Err(PutError::Changed) => Err(objects.other_server()),
            Err(PutError::Uncertain(error)) => Err(objects.failed(IDENTITY, &error)),
        }
    }
}

fn encode(StoreId(id): StoreId) -> Vec<u8> {
    let mut writer = Writer::with_preamble(MAGIC, VERSION);
    writer.put(&id);
    writer.seal()
}

fn decode(bytes: &[u8]) -> Result<StoreId, Corruption> {
    let mut reader = Reader::new(unseal(bytes)?);
    reader.preamble(MAGIC, VERSION)?;
    let id = reader.bytes(16)?.try_into().expect("it has 16 bytes");
    match reader.remaining() {
        0 => Ok(StoreId(id)),
        _ => Err(Corruption::Invalid("it is longer than its id".into())),
    }
}

#[cfg(test)]
mod tests {
    use super::super::Store;
    use super::super::backup::backup;
    use super::super::namespace::now;
    use super::super::scrub::Scrub;
    use super::*;
    use crate::layout::{SEGMENTS, home_of};
    use oboro_format::{DatasetId, ErrorKind, Role, Roles};
    use std::fs;
    use tempfile::TempDir;

    /// Creates a store of two owners, each with a dataset named `a`.
    fn store(directory: &Path) {
        let store = Store::open(directory).unwrap();
        for (number, owner) in [(1, DEFAULT_NAMESPACE), (2, "bob")] {
            let access = store.access_of(owner, Roles::ALL);
            let id = DatasetId([number; 16]);
            let path = directory.with_extension(format!("{number}.bundle"));
            let bundle = crate::testing::bundle_of(id, &path, &crate::testing::one_limb(), &[1]);
            crate::testing::send_as(&access, "a", &bundle);
            access.publish_pending(id).unwrap();
        }
    }

    fn damage_of(directory: &Path) -> Result<Vec<oboro_format::Damage>, StoreError> {
        let mut scrub = Scrub::of_directory(directory)?;
        let mut damage = Vec::new();
        while let Some(part) = scrub.next_part()? {
            damage.extend(part.damage);
        }
        Ok(damage)
    }

    #[test]
    fn the_format_is_that_of_the_specification() {
        let bytes = encode(StoreId([0x5a; 16]));
        let fields = [b"OBOROSID\x01\0\0\0", &[0x5a; 16][..]].concat();
        assert_eq!(bytes[..bytes.len() - 32], fields[..]);
        assert_eq!(decode(&bytes).unwrap(), StoreId([0x5a; 16]));
    }

    #[test]
    fn a_catalogue_of_another_namespace_or_store_is_refused() {
        let directory = TempDir::new().unwrap();
        let path = |name: &str| directory.path().join(name);
        store(&path("one"));
        store(&path("two"));
        let of = |store: &str, owner: &str| home_of(&path(store), owner).join(CATALOGUE);
        assert_eq!(damage_of(&path("one")).unwrap().len(), 0);
        let default = DEFAULT_NAMESPACE;
        for (from, to) in [
            (of("one", "bob"), of("one", default)),
            (of("one", default), of("one", "bob")),
            (of("two", default), of("one", default)),
            (of("two", "bob"), of("one", "bob")),
        ] {
            let own = fs::read(&to).unwrap();
            fs::copy(&from, &to).unwrap();
            let is_default = to == of("one", default);
            let refused = match Store::open(&path("one")) {
                Err(error) => error,
                Ok(store) => {
                    assert!(!is_default);
                    store.access().list().unwrap();
                    let bob = store.access_of("bob", Role::Read.into());
                    bob.snapshot("a").unwrap_err()
                }
            };
            assert_eq!(refused.kind(), ErrorKind::DataLoss);
            assert!(
                refused.to_string().contains("belongs to namespace"),
                "{refused}"
            );
            match damage_of(&path("one")) {
                Err(error) => assert!(is_default, "{error}"),
                Ok(damage) => {
                    assert_eq!(damage.len(), 1, "{damage:?}");
                    assert_eq!(damage[0].path.as_ref(), Some(&to));
                }
            }
            let copied = backup(&path("one"), &path("copy"), &|_, _| {});
            assert!(copied.is_err() && !path("copy").exists());
            fs::write(&to, own).unwrap();
        }
        // A backup is the same store: its catalogues match.
        backup(&path("one"), &path("copy"), &|_, _| {}).unwrap();
        fs::copy(of("copy", "bob"), of("one", "bob")).unwrap();
        assert_eq!(damage_of(&path("one")).unwrap().len(), 0);
        // A namespace is no store.
        let error = Store::open(&path("one/namespaces/bob")).err().unwrap();
        assert!(
            error.to_string().contains("belongs to namespace \"bob\""),
            "{error}"
        );
        assert!(!path("one/namespaces/bob").join(IDENTITY).exists());
    }

    #[test]
    fn a_namespace_without_its_catalogue_is_damaged() {
        let directory = TempDir::new().unwrap();
        let home = directory.path().join("store");
        store(&home);
        let catalogue = home_of(&home, "bob").join(CATALOGUE);
        let elsewhere = directory.path().join("elsewhere");
        fs::rename(&catalogue, &elsewhere).unwrap();
        let lost = || {
            let damage = damage_of(&home).unwrap();
            assert_eq!(damage.len(), 1, "{damage:?}");
            assert_eq!(damage[0].path.as_ref(), Some(&catalogue));
            let store = Store::open(&home).unwrap();
            store.access().snapshot("a").unwrap();
            let bob = store.access_of("bob", Roles::ALL);
            assert!(bob.list().is_err());
            let (_, _, failed) = store.expire(now());
            assert_eq!(failed.len(), 1);
            assert!(backup(&home, &directory.path().join("copy"), &|_, _| {}).is_err());
            damage[0].problem.clone()
        };
        let problem = lost();
        assert!(
            problem.contains("is missing") && problem.contains("from a backup"),
            "{problem}"
        );
        std::os::unix::fs::symlink(directory.path().join("unmounted"), &catalogue).unwrap();
        let problem = lost();
        assert!(problem.contains("symbolic link"), "{problem}");
        fs::remove_file(&catalogue).unwrap();
        // Also in a namespace without published data.
        fs::remove_dir_all(home_of(&home, "bob").join(SEGMENTS)).unwrap();
        fs::create_dir(home_of(&home, "bob").join(SEGMENTS)).unwrap();
        lost();
        fs::rename(&elsewhere, &catalogue).unwrap();
        // Leftovers of an interrupted start are no damage.
        fs::create_dir(home_of(&home, "carol")).unwrap();
        let damage = damage_of(&home).unwrap();
        assert!(damage.iter().all(|it| it.segment.is_some()), "{damage:?}");
    }

    #[test]
    fn a_catalogue_that_goes_while_it_is_served_is_found_by_a_scrub() {
        let directory = TempDir::new().unwrap();
        let home = directory.path().join("store");
        store(&home);
        let store = Store::open(&home).unwrap();
        fs::rename(home.join(CATALOGUE), directory.path().join("elsewhere")).unwrap();
        let mut scrub = store.access().scrub(None).unwrap();
        let damage = scrub.next_part().unwrap().unwrap().damage.unwrap();
        assert!(damage.problem.contains("moved"), "{}", damage.problem);
    }

    #[test]
    fn a_store_whose_identity_is_missing_has_that_of_its_catalogue() {
        let directory = TempDir::new().unwrap();
        let home = directory.path().join("store");
        store(&home);
        let identity = home.join(IDENTITY);
        let before = fs::read(&identity).unwrap();
        fs::remove_file(&identity).unwrap();
        let damage = damage_of(&home).unwrap();
        assert_eq!(damage[0].path.as_ref(), Some(&identity));
        drop(Store::open(&home).unwrap());
        assert_eq!(fs::read(&identity).unwrap(), before);
        fs::write(&identity, &before[1..]).unwrap();
        assert!(Store::open(&home).is_err() && damage_of(&home).is_err());
    }
}
