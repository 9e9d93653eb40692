//! Durable counts of each client's searches in each collection, which an operator's budget limits.
//!
//! One small file is read, changed and replaced under a lock. A killed server has therefore counted every search that
//! it answered, and the operator's command may reset counts while it runs.
//!
//! Counts in a backup are marked with the time of the copy, since they lack later searches. After a restore, no search
//! is counted on them until the operator accepts them.

use crate::collections::DIRECTORY;
use crate::error::GenomeError;
use crate::kind::Kind;
use oboro_format::codec::{Reader, Writer, unseal};
use oboro_format::files::{
    ensure_directories, io_error, length_if_there, read_if_there, rename_durably,
};
use oboro_format::{Corruption, FormatError};
use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};
use time::OffsetDateTime;

const MAGIC: &str = "OBOROBUD";
/// Version of counts made by a server.
const VERSION: u32 = 1;
/// Version of counts copied from a backup.
const COPIED_VERSION: u32 = 2;

/// Counts of a data directory.
#[derive(Debug)]
pub struct Budgets {
    directory: PathBuf,
}

/// Number of searches by client, kind and name of the collection.
type Counts = BTreeMap<(String, Kind, String), u64>;

/// Contents of the file.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Ledger {
    /// Time at which the counts were copied into a backup, in seconds since 1970; `None` once the operator has accepted
    /// them.
    copied: Option<u64>,
    counts: Counts,
}

impl Ledger {
    /// Returns the counts if they are complete.
    fn counts(&mut self) -> Result<&mut Counts, GenomeError> {
        match self.copied {
            None => Ok(&mut self.counts),
            Some(copied) => Err(GenomeError::RestoredBudgets {
                copied: minute(copied),
            }),
        }
    }
}

impl Budgets {
    /// Returns the counts below `data`, the data directory of a server. It need not exist yet.
    pub fn open(data: &Path) -> Self {
        Self {
            directory: data.join(DIRECTORY),
        }
    }

    /// Number of a client's searches of a collection.
    ///
    /// # Errors
    /// The file is damaged, was restored from a backup, or cannot be read.
    pub fn spent(&self, client: &str, kind: Kind, collection: &str) -> Result<u64, GenomeError> {
        let mut ledger = self.read()?;
        let counts = ledger.counts()?;
        let key = (client.to_owned(), kind, collection.to_owned());
        Ok(counts.get(&key).copied().unwrap_or(0))
    }

    /// Adds `searches` to the count, durably, if that stays within `budget`.
    ///
    /// # Errors
    ///
    /// The searches exceed the budget, and none of them is counted. The file is damaged or was restored from a backup,
    /// or the disk fails.
    pub fn spend(
        &self,
        client: &str,
        kind: Kind,
        collection: &str,
        searches: u64,
        budget: u64,
    ) -> Result<(), GenomeError> {
        let _lock = self.lock()?;
        let mut ledger = self.read()?;
        let spent = ledger
            .counts()?
            .entry((client.to_owned(), kind, collection.to_owned()))
            .or_default();
        check(*spent, searches, budget)?;
        *spent += searches;
        self.write(&ledger)
    }

    /// Time at which the counts were copied into a backup, if they were restored from it and not accepted since.
    ///
    /// # Errors
    /// The file is damaged or cannot be read.
    pub fn restored(&self) -> Result<Option<String>, GenomeError> {
        Ok(self.read()?.copied.map(minute))
    }

    /// Accepts counts restored from a backup; returns the time of the copy.
    ///
    /// # Errors
    /// The file is damaged, or the disk fails.
    pub fn accept_restored(&self) -> Result<Option<String>, GenomeError> {
        let _lock = self.lock()?;
        let mut ledger = self.read()?;
        let Some(copied) = ledger.copied.take() else {
            return Ok(None);
        };
        self.write(&ledger)?;
        Ok(Some(minute(copied)))
    }

    /// Copies the counts to a backup, marked as of now; counts that come from a backup themselves keep its time.
    /// Without counts yet, the backup records that they were none as of now.
    pub(crate) fn copy_to(&self, backup: &Self) -> Result<(), GenomeError> {
        let mut ledger = self.read()?;
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        let now = now.map_or(0, |since| since.as_secs());
        ledger.copied = ledger.copied.or(Some(now));
        ensure_directories(&backup.directory)?;
        backup.write(&ledger)
    }

    /// Checks the file; returns its number of bytes, if it exists.
    pub(crate) fn check(&self) -> Result<Option<u64>, GenomeError> {
        self.read()?;
        Ok(length_if_there(&self.path())?)
    }

    /// Resets the counts of one client, or all, even if restored from a backup.
    ///
    /// # Errors
    /// The disk fails; for one client, the file is damaged.
    pub fn reset(&self, client: Option<&str>) -> Result<(), GenomeError> {
        let _lock = self.lock()?;
        let mut ledger = match client {
            Some(_) => self.read()?,
            None => Ledger::default(),
        };
        let others =
            |(name, ..): &(String, Kind, String), _: &mut u64| Some(name.as_str()) != client;
        ledger.counts.retain(others);
        self.write(&ledger)
    }

    pub(crate) fn path(&self) -> PathBuf {
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

    fn read(&self) -> Result<Ledger, GenomeError> {
        let path = self.path();
        match read_if_there(&path)? {
            Some(bytes) => decode(&bytes).map_err(GenomeError::DamagedBudgets),
            None => Ok(Ledger::default()),
        }
    }

    fn write(&self, ledger: &Ledger) -> Result<(), GenomeError> {
        let new = self.directory.join("budgets.new");
        let mut file = create(&new)?;
        file.set_len(0)
            .and_then(|()| file.write_all(&encode(ledger)))
            .and_then(|()| file.sync_all())
            .map_err(io_error("write", &new))?;
        Ok(rename_durably(&new, &self.path())?)
    }
}

/// Rejects searches that would exceed the budget.
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

/// Formats a UTC time to the minute.
fn minute(unix_seconds: u64) -> String {
    let time = i64::try_from(unix_seconds).ok();
    let time = time.and_then(|it| OffsetDateTime::from_unix_timestamp(it).ok());
    match time {
        Some(time) => format!(
            "{} {:02}:{:02} UTC",
            time.date(),
            time.hour(),
            time.minute()
        ),
        None => format!("{unix_seconds} s after 1970-01-01 UTC"),
    }
}

fn encode(Ledger { copied, counts }: &Ledger) -> Vec<u8> {
    let mut writer = match copied {
        None => Writer::with_preamble(MAGIC, VERSION),
        Some(copied) => {
            let mut writer = Writer::with_preamble(MAGIC, COPIED_VERSION);
            writer.u64(*copied);
            writer
        }
    };
    writer.u32(counts.len() as u32);
    for ((client, kind, collection), &spent) in counts {
        for name in [client, collection] {
            writer.u32(name.len() as u32).put(name.as_bytes());
        }
        writer.u32(*kind as u32).u64(spent);
    }
    writer.seal()
}

fn decode(bytes: &[u8]) -> Result<Ledger, Corruption> {
    let mut reader = Reader::new(unseal(bytes)?);
    let copied = match reader.preamble(MAGIC, COPIED_VERSION) {
        Ok(()) => Some(reader.u64()?),
        // Version 1: no earlier ones exist.
        Err(Corruption::Older { .. }) => None,
        Err(other) => return Err(other),
    };
    let mut counts = Counts::new();
    for _ in 0..reader.u32()? {
        let [client, collection] = [name(&mut reader)?, name(&mut reader)?];
        let kind = reader.u32()?;
        let kind = Kind::ALL.into_iter().find(|&it| it as u32 == kind);
        let kind = kind.ok_or_else(|| Corruption::Invalid("it has an unknown kind".into()))?;
        counts.insert((client, kind, collection), reader.u64()?);
    }
    match reader.remaining() {
        0 => Ok(Ledger { copied, counts }),
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
    use std::fs;
    use std::os::unix::fs::symlink;

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
    fn counts_that_a_link_has_lost_are_not_none() {
        let directory = tempfile::tempdir().unwrap();
        let budgets = Budgets::open(directory.path());
        budgets.spend("a", Kind::Panel, "p", 10, 10).unwrap();
        let elsewhere = directory.path().join("elsewhere");
        fs::rename(budgets.path(), &elsewhere).unwrap();
        symlink(directory.path().join("unmounted"), budgets.path()).unwrap();
        let refusal = budgets.spend("a", Kind::Panel, "p", 1, 10).unwrap_err();
        assert!(refusal.to_string().contains("symbolic link"), "{refusal}");
        assert!(budgets.check().is_err());
        fs::rename(&elsewhere, directory.path().join("unmounted")).unwrap();
        assert_eq!(budgets.spent("a", Kind::Panel, "p").unwrap(), 10);
    }

    #[test]
    fn the_format_is_that_of_the_specification() {
        let counts = Counts::from([(("a".into(), Kind::Reference, "r".into()), 3)]);
        let fields = b"\x01\0\0\0\x01\0\0\0a\x01\0\0\0r\x01\0\0\0\x03\0\0\0\0\0\0\0";
        for (copied, begin) in [
            (None, &b"OBOROBUD\x01\0\0\0"[..]),
            (Some(5), b"OBOROBUD\x02\0\0\0\x05\0\0\0\0\0\0\0"),
        ] {
            let ledger = Ledger {
                copied,
                counts: counts.clone(),
            };
            let bytes = encode(&ledger);
            assert_eq!(bytes[..bytes.len() - 32], [begin, fields].concat());
            assert_eq!(decode(&bytes).unwrap(), ledger);
        }
    }

    #[test]
    fn counts_from_a_backup_allow_nothing_until_they_are_accepted_or_reset() {
        let directory = tempfile::tempdir().unwrap();
        let of = |name: &str| Budgets::open(&directory.path().join(name));
        of("store").spend("a", Kind::Panel, "p", 3, 10).unwrap();
        of("store").copy_to(&of("backup")).unwrap();
        of("backup").copy_to(&of("restored")).unwrap();
        // Searches that only the lost store counted.
        of("store").spend("a", Kind::Panel, "p", 7, 10).unwrap();
        for name in ["backup", "restored"] {
            let refusals = [
                of(name).spend("a", Kind::Panel, "p", 1, 10),
                of(name).spent("a", Kind::Panel, "p").map(drop),
            ];
            for refusal in refusals {
                let refusal = refusal.unwrap_err().to_string();
                assert!(refusal.contains("oboro genome budget"), "{refusal}");
            }
            // The other clients' counts are still out of date.
            of(name).reset(Some("b")).unwrap();
            assert!(of(name).restored().unwrap().is_some());
        }
        assert_eq!(of("store").restored().unwrap(), None);
        assert_eq!(of("store").accept_restored().unwrap(), None);
        let (backup, restored) = (of("backup").restored(), of("restored").restored());
        assert_eq!(backup.unwrap(), restored.unwrap());
        assert!(of("restored").accept_restored().unwrap().is_some());
        assert_eq!(of("restored").spent("a", Kind::Panel, "p").unwrap(), 3);
        of("backup").reset(None).unwrap();
        assert_eq!(of("backup").spent("a", Kind::Panel, "p").unwrap(), 0);
        // A backup of no counts is out of date, too.
        of("new").copy_to(&of("empty")).unwrap();
        assert!(of("empty").spend("a", Kind::Panel, "p", 1, 10).is_err());
        assert_eq!(minute(1_763_928_245), "2025-11-23 20:04 UTC");
    }
}
