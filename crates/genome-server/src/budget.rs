//! How often each client has searched each collection, durably: the count that an operator's budget limits.
//!
//! One small file is read, changed and replaced under a lock, so a server that is killed has counted every search that
//! it answered, and the operator's command may reset counts while it runs.

use crate::collections::{DIRECTORY, Kind};
use crate::error::GenomeError;
use oboro_format::codec::{Reader, Writer, unseal};
use oboro_format::files::{ensure_directories, io_error, rename_durably};
use oboro_format::{Corruption, FormatError};
use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

const MAGIC: &str = "OBOROBUD";
const VERSION: u32 = 1;

/// The counts of a data directory.
#[derive(Debug)]
pub struct Budgets {
    directory: PathBuf,
}

/// Searches by client, kind and name of the collection.
type Counts = BTreeMap<(String, Kind, String), u64>;

impl Budgets {
    /// The counts below `data`, the data directory of a server. It need not exist yet.
    pub fn open(data: &Path) -> Self {
        Self {
            directory: data.join(DIRECTORY),
        }
    }

    /// How often a client, by its name, has searched a collection.
    ///
    /// # Errors
    /// A file that is damaged or cannot be read.
    pub fn spent(&self, client: &str, kind: Kind, collection: &str) -> Result<u64, GenomeError> {
        let counts = self.read()?;
        let key = (client.to_owned(), kind, collection.to_owned());
        Ok(counts.get(&key).copied().unwrap_or(0))
    }

    /// Adds `searches` to the count if that stays within `budget`. They stay counted from then on.
    ///
    /// # Errors
    ///
    /// More than the budget, which counts none of them; a file that is damaged; a disk that fails.
    pub fn spend(
        &self,
        client: &str,
        kind: Kind,
        collection: &str,
        searches: u64,
        budget: u64,
    ) -> Result<(), GenomeError> {
        let _lock = self.lock()?;
        let mut counts = self.read()?;
        let spent = counts
            .entry((client.to_owned(), kind, collection.to_owned()))
            .or_default();
        check(*spent, searches, budget)?;
        *spent += searches;
        self.write(&counts)
    }

    /// Forgets what one client has searched, or all.
    ///
    /// # Errors
    /// A disk that fails; for one client, a damaged file.
    pub fn reset(&self, client: Option<&str>) -> Result<(), GenomeError> {
        let _lock = self.lock()?;
        let mut counts = match client {
            Some(_) => self.read()?,
            None => Counts::new(),
        };
        counts.retain(|(name, ..), _| Some(name.as_str()) != client);
        self.write(&counts)
    }

    fn path(&self) -> PathBuf {
        self.directory.join("budgets")
    }

    /// Waits for the lock, which is held only briefly.
    fn lock(&self) -> Result<File, FormatError> {
        ensure_directories(&self.directory)?;
        let path = self.directory.join("budgets.lock");
        let file = create(&path)?;
        file.lock().map_err(io_error("lock", &path))?;
        Ok(file)
    }

    fn read(&self) -> Result<Counts, GenomeError> {
        let path = self.path();
        match fs::read(&path) {
            Ok(bytes) => decode(&bytes).map_err(GenomeError::DamagedBudgets),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Counts::new()),
            Err(error) => Err(io_error("read", &path)(error).into()),
        }
    }

    fn write(&self, counts: &Counts) -> Result<(), GenomeError> {
        let new = self.directory.join("budgets.new");
        let mut file = create(&new)?;
        file.set_len(0)
            .and_then(|()| file.write_all(&encode(counts)))
            .and_then(|()| file.sync_all())
            .map_err(io_error("write", &new))?;
        Ok(rename_durably(&new, &self.path())?)
    }
}

/// Refuses searches that would go beyond the budget.
///
/// # Errors
/// They would.
pub fn check(spent: u64, searches: u64, budget: u64) -> Result<(), GenomeError> {
    match spent.checked_add(searches) {
        Some(sum) if sum <= budget => Ok(()),
        _ => Err(GenomeError::BudgetSpent {
            spent,
            searches,
            budget,
        }),
    }
}

fn create(path: &Path) -> Result<File, FormatError> {
    OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .open(path)
        .map_err(io_error("create", path))
}

fn encode(counts: &Counts) -> Vec<u8> {
    let mut writer = Writer::with_preamble(MAGIC, VERSION);
    writer.u32(counts.len() as u32);
    for ((client, kind, collection), &spent) in counts {
        for name in [client, collection] {
            writer.u32(name.len() as u32).put(name.as_bytes());
        }
        writer.u32(*kind as u32).u64(spent);
    }
    writer.seal()
}

fn decode(bytes: &[u8]) -> Result<Counts, Corruption> {
    let mut reader = Reader::new(unseal(bytes)?);
    reader.preamble(MAGIC, VERSION)?;
    let mut counts = Counts::new();
    for _ in 0..reader.u32()? {
        let [client, collection] = [name(&mut reader)?, name(&mut reader)?];
        let kind = reader.u32()?;
        let kind = Kind::ALL.into_iter().find(|&it| it as u32 == kind);
        let kind = kind.ok_or_else(|| Corruption::Invalid("it has an unknown kind".into()))?;
        counts.insert((client, kind, collection), reader.u64()?);
    }
    match reader.remaining() {
        0 => Ok(counts),
        _ => Err(Corruption::Invalid("it is longer than its counts".into())),
    }
}

fn name(reader: &mut Reader<'_>) -> Result<String, Corruption> {
    let length = reader.u32()? as usize;
    let name = str::from_utf8(reader.bytes(length)?);
    let name = name.map_err(|_| Corruption::Invalid("it has a name that is not UTF-8".into()))?;
    Ok(name.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn searches_are_counted_up_to_the_budget_and_no_further() {
        let directory = tempfile::tempdir().unwrap();
        let budgets = || Budgets::open(directory.path());
        let spend = |client, name, searches| {
            let spent = budgets().spend(client, Kind::Panel, name, searches, 10);
            spent.map_err(|error| error.to_string())
        };
        spend("a", "p", 7).unwrap();
        let refusal = spend("a", "p", 4).unwrap_err();
        assert!(refusal.contains("7 of 10"), "{refusal}");
        spend("a", "p", 3).unwrap();
        assert!(spend("a", "p", 1).is_err());
        assert!(spend("a", "q", u64::MAX).is_err());
        spend("a", "q", 10).unwrap();
        spend("b", "p", 2).unwrap();
        assert_eq!(budgets().spent("a", Kind::Panel, "p").unwrap(), 10);
        assert_eq!(budgets().spent("a", Kind::Reference, "p").unwrap(), 0);
        budgets().reset(Some("a")).unwrap();
        assert_eq!(budgets().spent("a", Kind::Panel, "q").unwrap(), 0);
        assert_eq!(budgets().spent("b", Kind::Panel, "p").unwrap(), 2);
    }

    #[test]
    fn damaged_counts_allow_nothing_until_they_are_reset() {
        let directory = tempfile::tempdir().unwrap();
        let budgets = Budgets::open(directory.path());
        budgets.spend("a", Kind::Panel, "p", 1, 10).unwrap();
        let whole = fs::read(budgets.path()).unwrap();
        for cut in [0, 11, 20, whole.len() - 1] {
            fs::write(budgets.path(), &whole[..cut]).unwrap();
            let refusal = budgets.spend("b", Kind::Panel, "p", 1, 10).unwrap_err();
            assert!(matches!(refusal, GenomeError::DamagedBudgets(_)));
        }
        budgets.reset(None).unwrap();
        assert_eq!(budgets.spent("a", Kind::Panel, "p").unwrap(), 0);
    }

    #[test]
    fn the_format_is_that_of_the_specification() {
        let counts = Counts::from([(("a".into(), Kind::Reference, "r".into()), 3)]);
        let bytes = encode(&counts);
        let fields =
            b"OBOROBUD\x01\0\0\0\x01\0\0\0\x01\0\0\0a\x01\0\0\0r\x01\0\0\0\x03\0\0\0\0\0\0\0";
        assert_eq!(bytes[..bytes.len() - 32], fields[..]);
        assert_eq!(decode(&bytes).unwrap(), counts);
    }
}
