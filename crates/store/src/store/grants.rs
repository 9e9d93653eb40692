//! What owners of namespaces granted to others: a small sealed file, which is replaced with every change and held in
//! memory, so that looking takes the same steps whether there is anything to find or not.
//!
//! In object storage it is an object.

use super::*;
use crate::source::object::ObjectError;
use oboro_format::codec::{Reader, Writer, unseal};
use oboro_format::files::{Durability, replace};

/// The name of the file, and of the object.
pub(super) const GRANTS: &str = "grants";
const MAGIC: &str = "OBOROGRA";
const VERSION: u32 = 1;
/// Stands for every caller, or for every name.
pub(super) const ANY: &str = "*";
/// The most grants of one namespace.
const MAX_GRANTS: usize = 1_000;

/// Roles that the owner of a namespace granted to a caller.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Grant {
    /// The name of the caller's token; `*` for everybody's.
    pub grantee: String,
    /// The dataset or collection that it is about; `*` for all of the namespace.
    pub name: String,
    /// The roles.
    pub roles: Roles,
}

/// The roles by owner, grantee and name.
type All = BTreeMap<(String, String, String), Roles>;

pub(super) struct Grants {
    path: PathBuf,
    all: RwLock<All>,
    /// Held while a change is written.
    writing: Mutex<()>,
}

impl Grants {
    /// Reads the grants of a store.
    ///
    /// # Errors
    /// A file or object that is damaged or cannot be read.
    pub(super) fn open(common: &Common) -> Result<Self, StoreError> {
        let path = common.home.join(GRANTS);
        let bytes = match &common.objects {
            None => match fs::read(&path) {
                Ok(bytes) => Some(bytes),
                Err(error) if error.kind() == io::ErrorKind::NotFound => None,
                Err(error) => return Err(io_error("read", &path)(error).into()),
            },
            Some(cache) => match cache.objects().get(GRANTS) {
                Ok((bytes, _)) => Some(bytes),
                Err(ObjectError::Missing) => None,
                Err(error) => return Err(cache.objects().failed(GRANTS, &error)),
            },
        };
        let all = bytes.map_or(Ok(All::new()), |bytes| decode(&bytes));
        let all = all.map_err(|corruption| StoreError::DamagedGrants {
            path: path.clone(),
            corruption,
        })?;
        Ok(Self {
            path,
            all: RwLock::new(all),
            writing: Mutex::new(()),
        })
    }

    /// The roles that a caller was granted on a name of another's namespace.
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

    /// The owners who granted anything to a caller by its name, or from the default namespace to everybody, and the names:
    /// `*` for all of the namespace.
    pub(super) fn of_caller(&self, caller: &str) -> BTreeMap<String, BTreeSet<String>> {
        let mut owners: BTreeMap<_, BTreeSet<_>> = BTreeMap::new();
        for (owner, grantee, name) in self.all.read().keys() {
            // Nobody can keep others from granting to everybody: only what operators grant so is shown unasked.
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

    /// What the owner of a namespace granted.
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

    /// Changes the roles that `owner` granted to a caller on a name, durably; returns what they are now.
    ///
    /// # Errors
    /// Too many grants, a disk that fails, objects out of reach: then it holds as before for this server, and the next one
    /// to start may have it changed.
    pub(super) fn change(
        &self,
        common: &Common,
        owner: &str,
        (grantee, name): (&str, &str),
        change: impl FnOnce(Roles) -> Roles,
    ) -> Result<Roles, StoreError> {
        let _writing = self.writing.lock();
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
        let bytes = encode(&all);
        match &common.objects {
            Some(cache) => {
                let written = cache.objects().put(GRANTS, bytes);
                written.map_err(|error| cache.objects().failed(GRANTS, &error))?;
            }
            None => {
                replace(&self.path, &bytes, Durability::Durable)?;
                sync_directory(&common.home)?;
            }
        }
        *self.all.write() = all;
        Ok(roles)
    }
}

/// Copies the grants of a store to a backup of it.
///
/// # Errors
/// A disk that fails.
pub(super) fn copy_grants(from: &Path, to: &Path) -> Result<(), StoreError> {
    let path = from.join(GRANTS);
    match fs::read(&path) {
        Ok(bytes) => Ok(replace(&to.join(GRANTS), &bytes, Durability::Durable)?),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            Ok(remove_if_there(&to.join(GRANTS))?)
        }
        Err(error) => Err(io_error("read", &path)(error).into()),
    }
}

fn encode(all: &All) -> Vec<u8> {
    let mut writer = Writer::with_preamble(MAGIC, VERSION);
    writer.u32(all.len() as u32);
    for ((owner, grantee, name), roles) in all {
        for text in [owner, grantee, name] {
            writer.u32(text.len() as u32).put(text.as_bytes());
        }
        writer.u32(roles.bits());
    }
    writer.seal()
}

fn decode(bytes: &[u8]) -> Result<All, Corruption> {
    let invalid = |what: &str| Corruption::Invalid(what.into());
    let mut reader = Reader::new(unseal(bytes)?);
    reader.preamble(MAGIC, VERSION)?;
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
        0 => Ok(all),
        _ => Err(invalid("it is longer than its grants")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use oboro_format::Role;
    use tempfile::TempDir;

    #[test]
    fn the_format_is_that_of_the_specification() {
        let key = ("a".to_owned(), "*".to_owned(), "r".to_owned());
        let all = All::from([(key, Roles::from(Role::Count))]);
        let bytes = encode(&all);
        let fields = b"OBOROGRA\x01\0\0\0\x01\0\0\0\x01\0\0\0a\x01\0\0\0*\x01\0\0\0r\x02\0\0\0";
        assert_eq!(bytes[..bytes.len() - 32], fields[..]);
        assert_eq!(decode(&bytes).unwrap(), all);
        let mut twice = Writer::with_preamble(MAGIC, VERSION);
        let entry = &bytes[16..bytes.len() - 32];
        twice.u32(2).put(entry).put(entry);
        assert!(decode(&twice.seal()).is_err());
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
