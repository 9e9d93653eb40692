//! Grants of namespace owners: a small sealed file, replaced with every change and held in memory. Lookups take the
//! same steps for existing and missing grants.
//!
//! In object storage it is an object.

use super::common::Common;
use crate::error::{ObjectStorageError, QuotaKind, StoreError};
use crate::layout::GRANTS;
use crate::object::{ObjectError, OwnedObject};
use oboro_format::DEFAULT_NAMESPACE;
use oboro_format::codec::{Reader, Writer, unseal};
use oboro_format::files::{Durability, read_if_there, remove_if_there, replace, sync_directory};
use oboro_format::{Corruption, Roles, is_caller, is_name};
use parking_lot::{Mutex, RwLock};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

const MAGIC: &str = "OBOROGRA";
const VERSION: u32 = 1;
/// Wildcard for every caller, or for every name.
pub(super) const ANY: &str = "*";
/// Maximum number of grants of one namespace.
const MAX_GRANTS: usize = 1_000;

/// Roles granted to a caller by the owner of a namespace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Grant {
    /// Name of the caller's token; `*` for every caller.
    pub grantee: String,
    /// Dataset or collection; `*` for all of the namespace.
    pub name: String,
    /// Granted roles.
    pub roles: Roles,
}

/// Maximum attempts to read grants that another server is changing.
const TAKE_OVER: usize = 8;

/// Roles by owner, grantee and name.
type All = BTreeMap<(String, String, String), Roles>;

pub(super) struct Grants {
    path: PathBuf,
    all: RwLock<All>,
    /// State of the file, locked while a change is written.
    written: Mutex<Written>,
}

/// File or object as last written.
struct Written {
    /// Number of writes, which makes each content distinct for conditional writes.
    times: u64,
    object: Option<OwnedObject>,
}

impl Grants {
    /// Reads the grants of a store. In object storage they are taken over: the previous server can no longer change
    /// them.
    ///
    /// # Errors
    /// A file or object that is damaged or unreadable, or that other servers keep writing.
    pub(super) fn open(common: &Common) -> Result<Self, StoreError> {
        let path = common.home.join(GRANTS);
        let decoded = |bytes: Option<Vec<u8>>| {
            let decoded = bytes.map_or(Ok((0, All::new())), |bytes| decode(&bytes));
            decoded.map_err(|corruption| StoreError::DamagedGrants {
                path: path.clone(),
                corruption,
            })
        };
        let Some(cache) = &common.objects else {
            let (times, all) = decoded(read_if_there(&path)?)?;
            return Ok(Self::new(
                path,
                all,
                Written {
                    times,
                    object: None,
                },
            ));
        };
        let objects = cache.objects();
        let mut tries = 0..TAKE_OVER;
        loop {
            let (bytes, version) = match objects.get(GRANTS) {
                Ok((bytes, version)) => (Some(bytes), Some(version)),
                Err(ObjectError::Missing) => (None, None),
                Err(error) => return Err(objects.failed(GRANTS, &error)),
            };
            let (times, all) = decoded(bytes)?;
            let mut object = OwnedObject::new(GRANTS, version);
            match object.write(objects, encode(times + 1, &all)) {
                Ok(()) => {
                    let (times, object) = (times + 1, Some(object));
                    return Ok(Self::new(path, all, Written { times, object }));
                }
                // The previous server has changed grants in between.
                Err(StoreError::Object(ObjectStorageError::OtherServer { .. }))
                    if tries.next().is_some() => {}
                Err(error) => return Err(error),
            }
        }
    }

    fn new(path: PathBuf, all: All, written: Written) -> Self {
        Self {
            path,
            all: RwLock::new(all),
            written: Mutex::new(written),
        }
    }

    /// Returns the roles granted to a caller on a name of another's namespace.
    pub(super) fn roles(&self, owner: &str, caller: &str, name: &str) -> Roles {
        let all = self.all.read();
        let one = |grantee: &str, name: &str| {
            let key = (owner.to_owned(), grantee.to_owned(), name.to_owned());
            all.get(&key).copied().unwrap_or_default()
        };
        [
            one(caller, name),
            one(caller, ANY),
            one(ANY, name),
            one(ANY, ANY),
        ]
        .into_iter()
        .flat_map(Roles::iter)
        .collect()
    }

    /// Returns the names granted to a caller, by owner; `*` is all of the namespace. Includes grants to this caller,
    /// and those of the default namespace to everyone.
    pub(super) fn of_caller(&self, caller: &str) -> BTreeMap<String, BTreeSet<String>> {
        let mut owners: BTreeMap<_, BTreeSet<_>> = BTreeMap::new();
        for (owner, grantee, name) in self.all.read().keys() {
            // Anyone can grant to everyone: only such grants of operators are listed.
            let is_shown = grantee == caller || grantee == ANY && owner == DEFAULT_NAMESPACE;
            if is_shown && owner != caller {
                owners
                    .entry(owner.clone())
                    .or_default()
                    .insert(name.clone());
            }
        }
        owners
    }

    /// Lists the grants of a namespace's owner.
    pub(super) fn of_owner(&self, owner: &str) -> Vec<Grant> {
        let all = self.all.read();
        let own = all.iter().filter(|((of, ..), _)| of == owner);
        own.map(|((_, grantee, name), &roles)| Grant {
            grantee: grantee.clone(),
            name: name.clone(),
            roles,
        })
        .collect()
    }

    /// Changes the roles granted by `owner` to a caller on a name, durably; returns the resulting roles.
    ///
    /// # Errors
    /// Too many grants, a server that has taken them over, a disk that fails, objects out of reach. Then nothing
    /// changes for this server, but the next one to start may see the change.
    pub(super) fn change(
        &self,
        common: &Common,
        owner: &str,
        (grantee, name): (&str, &str),
        change: impl FnOnce(Roles) -> Roles,
    ) -> Result<Roles, StoreError> {
        let mut written = self.written.lock();
        let mut all = self.all.read().clone();
        let key = (owner.to_owned(), grantee.to_owned(), name.to_owned());
        let roles = change(all.remove(&key).unwrap_or_default());
        if !roles.is_empty() {
            all.insert(key, roles);
        }
        let count = all.keys().filter(|(of, ..)| of == owner).count();
        if count > MAX_GRANTS {
            return Err(StoreError::Quota {
                quota: QuotaKind::Grants,
                most: MAX_GRANTS as u64,
            });
        }
        written.times += 1;
        let bytes = encode(written.times, &all);
        match (&common.objects, &mut written.object) {
            (Some(cache), Some(object)) => object.write(cache.objects(), bytes)?,
            _ => {
                replace(&self.path, &bytes, Durability::Durable)?;
                sync_directory(&common.home)?;
            }
        }
        *self.all.write() = all;
        Ok(roles)
    }
}

/// Copies the grants of a store to its backup.
///
/// # Errors
/// A disk that fails.
pub(super) fn copy_grants(from: &Path, to: &Path) -> Result<(), StoreError> {
    match read_if_there(&from.join(GRANTS))? {
        Some(bytes) => Ok(replace(&to.join(GRANTS), &bytes, Durability::Durable)?),
        None => Ok(remove_if_there(&to.join(GRANTS))?),
    }
}

fn encode(times: u64, all: &All) -> Vec<u8> {
    let mut writer = Writer::with_preamble(MAGIC, VERSION);
    writer.u64(times).u32(all.len() as u32);
    for ((owner, grantee, name), roles) in all {
        for text in [owner, grantee, name] {
            writer.u32(text.len() as u32).put(text.as_bytes());
        }
        writer.u32(roles.bits());
    }
    writer.seal()
}

fn decode(bytes: &[u8]) -> Result<(u64, All), Corruption> {
    let invalid = |what: &str| Corruption::Invalid(what.into());
    let mut reader = Reader::new(unseal(bytes)?);
    reader.preamble(MAGIC, VERSION)?;
    let times = reader.u64()?;
    let mut all = All::new();
    for _ in 0..reader.u32()? {
        let mut text = || {
            let length = reader.u32()? as usize;
            let text = str::from_utf8(reader.bytes(length)?);
            text.map(str::to_owned)
                .map_err(|_| invalid("it has a name that is not UTF-8"))
        };
        let key = (text()?, text()?, text()?);
        let (owner, grantee, name) = &key;
        let is_sound = is_caller(owner)
            && (grantee == ANY || is_caller(grantee))
            && (name == ANY || is_name(name));
        if !is_sound {
            return Err(invalid("it has a name that cannot be one"));
        }
        if all.last_key_value().is_some_and(|(last, _)| *last >= key) {
            return Err(invalid("its grants are not in order"));
        }
        let roles = Roles::from_bits(reader.u32()?);
        let roles = roles.filter(|it| !it.is_empty());
        let roles = roles.ok_or_else(|| invalid("it has roles that there are not"))?;
        all.insert(key, roles);
    }
    match reader.remaining() {
        0 => Ok((times, all)),
        _ => Err(invalid("it is longer than its grants")),
    }
}

#[cfg(test)]
mod tests {
    use super::super::Store;
    use super::super::backup::backup;
    use super::super::scrub::Scrub;
    use super::*;
    use oboro_format::Role;
    use std::fs;
    use std::os::unix::fs::symlink;
    use tempfile::TempDir;

    #[test]
    fn the_format_is_that_of_the_specification() {
        let key = ("a".to_owned(), "*".to_owned(), "r".to_owned());
        let all = All::from([(key, Roles::from(Role::Count))]);
        let bytes = encode(7, &all);
        let fields =
            b"OBOROGRA\x01\0\0\0\x07\0\0\0\0\0\0\0\x01\0\0\0\x01\0\0\0a\x01\0\0\0*\x01\0\0\0r\x02\0\0\0";
        assert_eq!(bytes[..bytes.len() - 32], fields[..]);
        assert_eq!(decode(&bytes).unwrap(), (7, all));
        let mut twice = Writer::with_preamble(MAGIC, VERSION);
        let entry = &bytes[24..bytes.len() - 32];
        twice.u64(7).u32(2).put(entry).put(entry);
        assert!(decode(&twice.seal()).is_err());
    }

    #[test]
    fn grants_that_a_link_has_lost_are_not_none() {
        let home = TempDir::new().unwrap();
        drop(Store::open(home.path()).unwrap());
        let path = |name: &str| home.path().join(name);
        symlink(path("unmounted"), path(GRANTS)).unwrap();
        let error = Store::open(home.path()).err().unwrap();
        assert!(error.to_string().contains("symbolic link"), "{error}");
        let mut scrub = Scrub::of_directory(home.path()).unwrap();
        let damage = scrub.next_part().unwrap().unwrap().damage.unwrap();
        assert_eq!(damage.path, Some(path(GRANTS)));
        let error = backup(home.path(), &path("copy"), &|_, _| {}).unwrap_err();
        assert!(error.to_string().contains("symbolic link"), "{error}");
    }

    #[test]
    fn damaged_grants_let_nobody_in() {
        let home = TempDir::new().unwrap();
        let store = Store::open(home.path()).unwrap();
        let grant = Grant {
            grantee: "b".into(),
            name: "x".into(),
            roles: Role::Read.into(),
        };
        store.access().grant(&grant).unwrap();
        drop(store);
        let path = home.path().join(GRANTS);
        let whole = fs::read(&path).unwrap();
        for cut in [0, 11, 20, whole.len() - 1] {
            fs::write(&path, &whole[..cut]).unwrap();
            let error = Store::open(home.path()).err().unwrap();
            assert!(matches!(error, StoreError::DamagedGrants { .. }), "{error}");
        }
        fs::write(&path, &whole).unwrap();
        let store = Store::open(home.path()).unwrap();
        assert_eq!(store.access().grants().unwrap(), [grant]);
    }
}
