//! Upgrades of a store that an earlier Oboro wrote, and the way back.
//!
//! A server opens stores of its own version only, so that nothing changes unasked. An upgrade keeps the catalogue as it was
//! beside the new one; segments are the same in both. It is refused where it is not sure that all is there that the
//! catalogue names, and the way back where something came since that the earlier Oboro would not know.

use super::directory::{check_is_store, length};
use super::namespaces::namespaces_in;
use super::stored_manifest::stored_manifest;
use crate::cache_marker::check_is_no_cache;
use crate::catalogue::Upgraded as Image;
use crate::catalogue::{Catalogue, Table};
use crate::error::{CatalogueError, StoreError};
use crate::layout::{CATALOGUE, DEFAULT_NAMESPACE, NAMESPACES, SEGMENTS, home_of, segment_path};
use crate::location::Location;
use crate::placement::Placement;
use crate::source::object::{ObjectError, Objects, PutError, object_of};
use crate::store_id::{CatalogueIdentity, StoreId};
use object_store::UpdateVersion;
use oboro_format::DatasetId;
use oboro_format::files::{
    Durability, Lock, ensure_directories, exists, io_error, lock, remove_if_there, replace_keeping,
};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// What became of a store, or would become.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Upgraded {
    /// The version of its catalogue before.
    pub from: i64,
    /// The version after.
    pub to: i64,
    /// Where the catalogue is kept as it was before; it is gone after the way back.
    pub kept: String,
}

/// Where the catalogue of a store is.
enum Home {
    Directory(PathBuf),
    /// In object storage, with a local copy in the directory of the cache, which has uploads in progress besides.
    Objects(Box<Objects>, PathBuf),
}

/// A catalogue as it is, and what it is replaced by, if nobody else has done so.
struct Found {
    image: Vec<u8>,
    version: Option<UpdateVersion>,
}

/// A store that no server has open.
struct Closed {
    home: Home,
    /// What a server takes, too.
    _lock: Lock,
}

/// Brings a store of an earlier version to this one, or looks whether that would go well if `is_trial`; `None` if it is of this
/// version. No server may have it open.
///
/// # Errors
/// A store that is open, of another program or a later version; a catalogue that is damaged or names what is not there; a disk or
/// object storage that fails. Nothing is changed then.
pub fn upgrade(location: &Location, is_trial: bool) -> Result<Option<Upgraded>, StoreError> {
    let store = Closed::open(location)?;
    let found = store.catalogue()?;
    let name = store.name(CATALOGUE);
    let identity = store.identity()?;
    let (catalogue, upgraded) = Catalogue::of_image(&found.image, Path::new(&name), &identity)?;
    let Some(Image {
        from,
        to,
        image: new,
    }) = upgraded
    else {
        // A cache that was left aside may have the version before.
        if !is_trial {
            store.upgrade_copy(&identity)?;
        }
        return Ok(None);
    };
    store.check(&catalogue)?;
    if !is_trial {
        store.write(&kept_name(from), found.image)?;
        store.upgrade_copy(&identity)?;
        store.replace(new, found.version)?;
    }
    Ok(Some(Upgraded {
        from,
        to,
        kept: store.name(&kept_name(from)),
    }))
}

/// Has a store be as it was before it was upgraded.
///
/// # Errors
/// A store that is open or was not upgraded, one in which something was changed since; a disk or object storage that fails. Nothing
/// is changed then.
pub fn undo_upgrade(location: &Location) -> Result<Upgraded, StoreError> {
    let store = Closed::open(location)?;
    let kept = store.read(&kept_name(Catalogue::FIRST))?;
    let kept = kept.ok_or_else(|| CatalogueError::NotUpgraded {
        path: store.name("").into(),
    })?;
    let name = store.name(CATALOGUE);
    let found = store.catalogue()?;
    let identity = store.identity()?;
    let (before, upgraded) = Catalogue::of_image(&kept, Path::new(&name), &identity)?;
    let (now, _) = Catalogue::of_image(&found.image, Path::new(&name), &identity)?;
    store.check_is_unchanged(&before.said()?, &now.said()?)?;
    let Image { from, to, .. } = upgraded.ok_or_else(|| CatalogueError::NotUpgraded {
        path: store.name("").into(),
    })?;
    store.undo_copy(&kept, &identity)?;
    store.replace(kept, found.version)?;
    store.remove(&kept_name(from))?;
    Ok(Upgraded {
        from: to,
        to: from,
        kept: store.name(&kept_name(from)),
    })
}

fn metadata(path: &Path) -> Result<fs::Metadata, StoreError> {
    Ok(fs::metadata(path).map_err(io_error("look at", path))?)
}

/// The name of a catalogue as it was.
fn kept_name(version: i64) -> String {
    format!("{CATALOGUE}.version-{version}")
}

impl Closed {
    fn open(location: &Location) -> Result<Self, StoreError> {
        let directory = location.home();
        let (home, what) = match location {
            Location::Directory(_) => {
                check_is_store(directory)?;
                check_is_no_cache(directory)?;
                (Home::Directory(directory.into()), "directory for the store")
            }
            Location::Objects { url, .. } => {
                ensure_directories(directory)?;
                let objects = Objects::open(url, Placement::default().threads())?;
                objects.check_conditions()?;
                (
                    Home::Objects(Box::new(objects), directory.into()),
                    "directory for the cache",
                )
            }
        };
        Ok(Self {
            home,
            _lock: lock(&directory.join("lock"), directory, what)?,
        })
    }

    /// Of a file or object, for people.
    fn name(&self, of: &str) -> String {
        match &self.home {
            Home::Directory(directory) => directory.join(of).display().to_string(),
            Home::Objects(objects, _) => objects.url_of(of),
        }
    }

    fn catalogue(&self) -> Result<Found, StoreError> {
        match &self.home {
            Home::Directory(directory) => Ok(Found {
                image: Catalogue::image(&directory.join(CATALOGUE))?,
                version: None,
            }),
            Home::Objects(objects, _) => match objects.get(CATALOGUE) {
                Ok((image, version)) => Ok(Found {
                    image,
                    version: Some(version),
                }),
                Err(ObjectError::Missing) => Err(StoreError::NoStore {
                    path: objects.url().into(),
                }),
                Err(error) => Err(objects.failed(CATALOGUE, &error)),
            },
        }
    }

    /// Replaces the catalogue.
    fn replace(&self, image: Vec<u8>, version: Option<UpdateVersion>) -> Result<(), StoreError> {
        let Home::Objects(objects, _) = &self.home else {
            return self.write(CATALOGUE, image);
        };
        match objects.replace(CATALOGUE, image, version) {
            Ok(_) => Ok(()),
            Err(PutError::Changed) => Err(objects.other_server()),
            Err(PutError::Uncertain(error)) => Err(objects.failed(CATALOGUE, &error)),
        }
    }

    /// The local copy of a catalogue in object storage, if there is one.
    fn copy(&self) -> Result<Option<(PathBuf, Vec<u8>)>, StoreError> {
        let Home::Objects(_, cache) = &self.home else {
            return Ok(None);
        };
        let path = cache.join(CATALOGUE);
        if !exists(&path)? {
            return Ok(None);
        }
        let image = Catalogue::image(&path)?;
        Ok(Some((path, image)))
    }

    /// The identity of the store's catalogue: a new one for a store that never had any.
    fn identity(&self) -> Result<CatalogueIdentity, StoreError> {
        let id = match &self.home {
            Home::Directory(directory) => match StoreId::stored(directory, None)? {
                None => Catalogue::identity_of(&directory.join(CATALOGUE))
                    .map(|it| it.map(|it| it.store)),
                stored => Ok(stored),
            },
            Home::Objects(objects, cache) => match StoreId::stored(cache, Some(objects))? {
                None => {
                    let image = self.catalogue()?.image;
                    Catalogue::identity_of_image(&image, &objects.url_of(CATALOGUE))
                        .map(|it| it.map(|it| it.store))
                }
                stored => Ok(stored),
            },
        };
        let id = match id {
            Err(StoreError::Catalogue(CatalogueError::Older { .. })) => None,
            id => id?,
        };
        let id = id.map_or_else(StoreId::draw, Ok)?;
        Ok(CatalogueIdentity::new(id, DEFAULT_NAMESPACE))
    }

    /// Brings the local copy to this version, too.
    fn upgrade_copy(&self, identity: &CatalogueIdentity) -> Result<(), StoreError> {
        if let Some((path, image)) = self.copy()?
            && let (_, Some(upgraded)) = Catalogue::of_image(&image, &path, identity)?
        {
            let before = metadata(&path)?;
            replace_keeping(&path, &upgraded.image, Durability::Durable, &before)?;
        }
        Ok(())
    }

    /// Brings the local copy back to what was published before, unless uploads are in progress in it.
    fn undo_copy(&self, kept: &[u8], identity: &CatalogueIdentity) -> Result<(), StoreError> {
        let Some((path, image)) = self.copy()? else {
            return Ok(());
        };
        let (now, _) = Catalogue::of_image(&image, &path, identity)?;
        let uploads = now.count(Table::Upload)?;
        if uploads > 0 {
            return Err(CatalogueError::Changed {
                path,
                changed: format!("{uploads} uploads in progress"),
            }
            .into());
        }
        let published = Catalogue::published_image(kept)?;
        let before = metadata(&path)?;
        Ok(replace_keeping(
            &path,
            &published,
            Durability::Durable,
            &before,
        )?)
    }

    fn read(&self, name: &str) -> Result<Option<Vec<u8>>, StoreError> {
        match &self.home {
            Home::Directory(directory) => {
                let path = directory.join(name);
                if !exists(&path)? {
                    return Ok(None);
                }
                Ok(Some(fs::read(&path).map_err(io_error("read", &path))?))
            }
            Home::Objects(objects, _) => match objects.get(name) {
                Ok((bytes, _)) => Ok(Some(bytes)),
                Err(ObjectError::Missing) => Ok(None),
                Err(error) => Err(objects.failed(name, &error)),
            },
        }
    }

    fn write(&self, name: &str, bytes: Vec<u8>) -> Result<(), StoreError> {
        match &self.home {
            Home::Directory(directory) => {
                let path = directory.join(name);
                // Whoever upgrades, the server's user has to own it.
                let before = metadata(&directory.join(CATALOGUE))?;
                Ok(replace_keeping(
                    &path,
                    &bytes,
                    Durability::Durable,
                    &before,
                )?)
            }
            Home::Objects(objects, _) => {
                let failed = |error| objects.failed(name, &error);
                let was = objects.version_of(name).map_err(failed)?;
                match objects.replace(name, bytes, was) {
                    Ok(_) => Ok(()),
                    Err(PutError::Changed) => Err(objects.other_server()),
                    Err(PutError::Uncertain(error)) => Err(failed(error)),
                }
            }
        }
    }

    fn remove(&self, name: &str) -> Result<(), StoreError> {
        match &self.home {
            Home::Directory(directory) => Ok(remove_if_there(&directory.join(name))?),
            Home::Objects(objects, _) => {
                let deleted = objects.delete(vec![name.to_owned()]);
                deleted.map_err(|error| objects.failed(name, &error))
            }
        }
    }

    /// Refuses where something is not as the catalogue says.
    fn check(&self, catalogue: &Catalogue) -> Result<(), StoreError> {
        let mut problems = Vec::new();
        let objects = match &self.home {
            Home::Directory(_) => None,
            Home::Objects(objects, _) => {
                let listed = objects.list(SEGMENTS);
                let listed = listed.map_err(|error| objects.failed(SEGMENTS, &error))?;
                Some(listed.into_iter().collect::<BTreeMap<_, _>>())
            }
        };
        for record in catalogue.all(Table::Dataset)? {
            let manifest = match stored_manifest(&record) {
                Ok(manifest) => manifest,
                Err(error) => {
                    problems.push(error.to_string());
                    continue;
                }
            };
            for entry in &manifest.segments {
                let found = match (&self.home, &objects) {
                    (Home::Directory(directory), _) => {
                        length(&segment_path(directory, record.id, entry.number))
                            .ok()
                            .flatten()
                    }
                    (_, Some(objects)) => objects.get(&object_of(record.id, entry.number)).copied(),
                    (Home::Objects(..), None) => unreachable!("they were listed"),
                };
                if found != Some(entry.bytes) {
                    let name = record.name.escape_debug();
                    problems.push(format!("segment {} of dataset {name}", entry.number));
                }
            }
        }
        if problems.is_empty() {
            return Ok(());
        }
        Err(CatalogueError::Unsure {
            path: self.name("").into(),
            problems,
        }
        .into())
    }

    /// Refuses where an earlier Oboro would miss something: what was changed, and what others have in namespaces of theirs.
    fn check_is_unchanged(&self, before: &Said, now: &Said) -> Result<(), StoreError> {
        let others = match &self.home {
            Home::Directory(directory) => {
                let names = namespaces_in(directory)?.into_iter();
                let present = names.filter(|name| {
                    name != DEFAULT_NAMESPACE && home_of(directory, name).join(CATALOGUE).exists()
                });
                present.map(|name| format!("namespace {name}")).collect()
            }
            Home::Objects(objects, _) => {
                let listed = objects.list(NAMESPACES);
                let listed = listed.map_err(|error| objects.failed(NAMESPACES, &error))?;
                Vec::from_iter((!listed.is_empty()).then(|| "namespaces".to_owned()))
            }
        };
        let differ = now.iter().filter(|it| !before.contains(it));
        let gone = before.iter().filter(|it| !now.contains(it));
        let mut changed: Vec<String> = differ.chain(gone).map(|it| it.0.clone()).collect();
        changed.extend(others);
        changed.sort();
        changed.dedup();
        if changed.is_empty() {
            return Ok(());
        }
        Err(CatalogueError::Changed {
            path: self.name("").into(),
            changed: changed.join(", "),
        }
        .into())
    }
}

/// The rows of a catalogue.
type Said = [(String, DatasetId, Vec<u8>)];

#[cfg(test)]
mod tests;
