//! The catalogue: which datasets a store holds, in SQLite.
//!
//! A dataset or an upload exists when its row does; files without a row are leftovers.
//! Every change is one transaction, durable when the call returns
//! (`synchronous=EXTRA`: FULL, and the directory synced after the journal goes).
//! Rows hold encoded manifests; this file does not interpret them.
//!
//! A store of several directories has two tables more, and the schema version that says so: which store
//! it is, and over how many directories its segments are striped. One of a single directory has neither,
//! and can be read by every Oboro.

use crate::directories::{MAX_DIRECTORIES, Striped};
use crate::error::StoreError;
use crate::files::{parent, sync_directory};
use crate::id::DatasetId;
use rusqlite::backup::{Backup, Progress};
use rusqlite::{
    CachedStatement, Connection, MAIN_DB, OpenFlags, OptionalExtension, Row, Transaction, params,
};
use std::cell::Cell;
use std::path::{Path, PathBuf};

const SCHEMA_VERSION: i64 = 1;
/// That of a store of several directories.
const STRIPED_VERSION: i64 = 2;
/// "OBOR": marks the database as Oboro's.
const APPLICATION_ID: i64 = 0x4f42_4f52;

const SCHEMA: &str = "
    CREATE TABLE dataset (
        id BLOB PRIMARY KEY NOT NULL CHECK (length(id) = 16),
        name TEXT NOT NULL UNIQUE,
        manifest BLOB NOT NULL
    ) STRICT;
    CREATE TABLE upload (
        id BLOB PRIMARY KEY NOT NULL CHECK (length(id) = 16),
        name TEXT NOT NULL UNIQUE,
        manifest BLOB NOT NULL
    ) STRICT;
    CREATE TABLE tombstone (
        id BLOB PRIMARY KEY NOT NULL CHECK (length(id) = 16)
    ) STRICT;";

/// From a segment on, those of a dataset are striped over so many directories; before the first row, over
/// one.
const STRIPED_SCHEMA: &str = "
    CREATE TABLE store (
        id BLOB PRIMARY KEY NOT NULL CHECK (length(id) = 16),
        directories INTEGER NOT NULL CHECK (directories >= 1)
    ) STRICT;
    CREATE TABLE striping (
        dataset BLOB NOT NULL CHECK (length(dataset) = 16),
        first_segment INTEGER NOT NULL CHECK (first_segment >= 0),
        directories INTEGER NOT NULL CHECK (directories >= 1),
        PRIMARY KEY (dataset, first_segment)
    ) STRICT;";

/// The two tables that hold manifests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Table {
    /// Published versions.
    Dataset,
    /// Versions being uploaded, at most one of a dataset.
    Upload,
}

impl Table {
    fn name(self) -> &'static str {
        match self {
            Self::Dataset => "dataset",
            Self::Upload => "upload",
        }
    }
}

/// A row of either table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Record {
    pub(crate) id: DatasetId,
    pub(crate) name: String,
    pub(crate) manifest: Vec<u8>,
}

impl Record {
    fn from_row(row: &Row<'_>) -> rusqlite::Result<Self> {
        Ok(Self {
            id: DatasetId(row.get(0)?),
            // A name that is damaged is for its reader to refuse: it must not hide the other rows.
            name: String::from_utf8_lossy(row.get_ref(1)?.as_bytes()?).into_owned(),
            manifest: row.get(2)?,
        })
    }
}

pub(crate) struct Catalogue {
    connection: Connection,
    directory: PathBuf,
    /// A change failed. It may have happened all the same, without being durable.
    unsettled: Cell<bool>,
}

impl Catalogue {
    /// Opens the catalogue, making an empty one where there is none.
    pub(crate) fn open(path: &Path) -> Result<Self, StoreError> {
        let mut connection = Connection::open(path)?;
        connection.pragma_update(None, "synchronous", "EXTRA")?;
        let content = check_is_ours(&connection, path)?;
        // Who sweeps by a catalogue should be able to believe it.
        check_integrity(&connection)?;
        if content == Content::Nothing {
            let transaction = connection.transaction()?;
            transaction.execute_batch(SCHEMA)?;
            transaction.pragma_update(None, "application_id", APPLICATION_ID)?;
            transaction.pragma_update(None, "user_version", SCHEMA_VERSION)?;
            transaction.commit()?;
        }
        Ok(Self::of(connection, path))
    }

    fn of(connection: Connection, path: &Path) -> Self {
        Self {
            connection,
            directory: parent(path).into(),
            unsettled: Cell::new(false),
        }
    }

    /// Makes `to` a copy of the catalogue `from`, as it is at one moment whatever another process does to
    /// it, without its uploads.
    pub(crate) fn copy_published(from: &Path, to: &Path) -> Result<Self, StoreError> {
        // Not read-only: a transaction that a crash cut short is rolled back first.
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let original = Connection::open_with_flags(from, flags)?;
        original.backup(MAIN_DB, to, None::<fn(Progress)>)?;
        let mut copy = Self::open(to)?;
        copy.change(|transaction| transaction.execute("DELETE FROM upload", []).map(drop))?;
        Ok(copy)
    }

    /// Checks the file as a whole, not only what of it is in memory.
    pub(crate) fn verify(&self) -> Result<(), StoreError> {
        self.connection.execute_batch("PRAGMA shrink_memory")?;
        check_integrity(&self.connection)
    }

    /// Prepares a question about what is durable.
    fn ask(&self, sql: &str) -> Result<CachedStatement<'_>, StoreError> {
        self.settle()?;
        Ok(self.connection.prepare_cached(sql)?)
    }

    /// Makes a change as one transaction.
    fn change(
        &mut self,
        change: impl FnOnce(&Transaction<'_>) -> rusqlite::Result<()>,
    ) -> Result<(), StoreError> {
        self.settle()?;
        let attempt = |connection: &mut Connection| {
            let transaction = connection.transaction()?;
            change(&transaction)?;
            transaction.commit()
        };
        let changed = attempt(&mut self.connection);
        self.unsettled.set(changed.is_err());
        Ok(changed?)
    }

    /// What an earlier failure left open lasts from here on: a transaction has happened once its
    /// journal is gone, and that is a matter of the directory.
    fn settle(&self) -> Result<(), StoreError> {
        if self.unsettled.get() {
            sync_directory(&self.directory)?;
            self.unsettled.set(false);
        }
        Ok(())
    }

    pub(crate) fn all(&self, table: Table) -> Result<Vec<Record>, StoreError> {
        let mut statement = self.ask(&format!(
            "SELECT id, name, manifest FROM {} ORDER BY name",
            table.name()
        ))?;
        let rows = statement.query_map([], Record::from_row)?;
        Ok(rows.collect::<Result<_, _>>()?)
    }

    pub(crate) fn by_id(&self, table: Table, id: DatasetId) -> Result<Option<Record>, StoreError> {
        let sql = format!(
            "SELECT id, name, manifest FROM {} WHERE id = ?1",
            table.name()
        );
        let mut statement = self.ask(&sql)?;
        Ok(statement.query_row([id.0], Record::from_row).optional()?)
    }

    pub(crate) fn by_name(&self, table: Table, name: &str) -> Result<Option<Record>, StoreError> {
        let sql = format!(
            "SELECT id, name, manifest FROM {} WHERE name = ?1",
            table.name()
        );
        let mut statement = self.ask(&sql)?;
        Ok(statement.query_row([name], Record::from_row).optional()?)
    }

    /// Whether a dataset with this id was deleted.
    pub(crate) fn is_deleted(&self, id: DatasetId) -> Result<bool, StoreError> {
        let mut statement = self.ask("SELECT 1 FROM tombstone WHERE id = ?1")?;
        Ok(statement.exists([id.0])?)
    }

    /// What a store of several directories is; `None` of one.
    pub(crate) fn striped(&self) -> Result<Option<Striped>, StoreError> {
        if !is_striped(&self.connection)? {
            return Ok(None);
        }
        let mut statement = self.ask("SELECT id, directories FROM store")?;
        let row = statement.query_row([], |row| {
            Ok(Striped {
                store: row.get(0)?,
                directories: row.get::<_, u32>(1)? as usize,
            })
        });
        match row.optional()? {
            Some(Striped { directories, .. }) if !(1..=MAX_DIRECTORIES).contains(&directories) => {
                Err(damaged(
                    "a store cannot have as many directories as it says",
                ))
            }
            striped => Ok(striped),
        }
    }

    /// Begins to know which store it is, so that directories can be added; it has one so far.
    pub(crate) fn identify(&mut self) -> Result<Striped, StoreError> {
        if !is_striped(&self.connection)? {
            self.change(|transaction| {
                transaction.execute_batch(STRIPED_SCHEMA)?;
                transaction.execute("INSERT INTO store VALUES (randomblob(16), 1)", [])?;
                transaction.pragma_update(None, "user_version", STRIPED_VERSION)
            })?;
        }
        self.striped()?
            .ok_or_else(|| damaged("it does not say which store it is of"))
    }

    /// From now on the store has so many directories, and what is uploaded is striped over all of them.
    pub(crate) fn set_directories(&mut self, count: usize) -> Result<(), StoreError> {
        self.change(|transaction| {
            transaction
                .execute("UPDATE store SET directories = ?1", [count as u32])
                .map(drop)
        })
    }

    /// Over how many directories the segments of a dataset are striped.
    pub(crate) fn striping(&self, id: DatasetId) -> Result<Striping, StoreError> {
        if !is_striped(&self.connection)? {
            return Ok(Striping::default());
        }
        let mut statement = self.ask(
            "SELECT first_segment, directories FROM striping WHERE dataset = ?1 ORDER BY first_segment",
        )?;
        let changes = statement.query_map([id.0], |row| Ok((row.get(0)?, row.get(1)?)))?;
        let changes: Vec<(u32, u32)> = changes.collect::<Result<_, _>>()?;
        let possible =
            |&(_, directories): &(u32, u32)| (1..=MAX_DIRECTORIES as u32).contains(&directories);
        match changes.iter().all(possible) {
            true => Ok(Striping { changes }),
            false => Err(damaged(&format!(
                "the segments of dataset {id} cannot be striped as it says"
            ))),
        }
    }

    /// Forgets about directories: from now on all is in one.
    pub(crate) fn unstripe(&mut self) -> Result<(), StoreError> {
        if !is_striped(&self.connection)? {
            return Ok(());
        }
        self.change(|transaction| {
            transaction.execute_batch("DROP TABLE striping; DROP TABLE store")?;
            transaction.pragma_update(None, "user_version", SCHEMA_VERSION)
        })
    }

    /// Begins an upload of which the segments from `first_segment` on are new.
    pub(crate) fn begin_upload(
        &mut self,
        record: &Record,
        first_segment: usize,
    ) -> Result<(), StoreError> {
        self.change(|transaction| {
            transaction.execute(
                "INSERT INTO upload (id, name, manifest) VALUES (?1, ?2, ?3)",
                params![record.id.0, record.name, record.manifest],
            )?;
            stripe_from(transaction, record.id, first_segment)
        })
    }

    /// Lets an upload under way go on with segments from `first_segment` on.
    pub(crate) fn extend_upload(
        &mut self,
        id: DatasetId,
        manifest: &[u8],
        first_segment: usize,
    ) -> Result<(), StoreError> {
        self.change(|transaction| {
            transaction.execute(
                "UPDATE upload SET manifest = ?2 WHERE id = ?1",
                params![id.0, manifest],
            )?;
            stripe_from(transaction, id, first_segment)
        })
    }

    /// Ends an upload of the segments from `first_segment` on.
    pub(crate) fn cancel_upload(
        &mut self,
        id: DatasetId,
        first_segment: usize,
    ) -> Result<(), StoreError> {
        self.change(|transaction| {
            transaction.execute("DELETE FROM upload WHERE id = ?1", [id.0])?;
            forget_striping(transaction, id, first_segment)
        })
    }

    /// Makes a change of what is published.
    pub(crate) fn make(&mut self, change: Change) -> Result<(), StoreError> {
        self.change(|transaction| change.make(transaction))
    }

    /// The bytes of a catalogue of what will be published after a change, which the server of this number
    /// has. Nothing changes here, and nothing is written to disk.
    pub(crate) fn image_after(
        &self,
        change: Option<Change>,
        server: i64,
    ) -> Result<Vec<u8>, StoreError> {
        self.settle()?;
        let mut copy = Connection::open_in_memory()?;
        Backup::new(&self.connection, &mut copy)?.step(-1)?;
        let transaction = copy.transaction()?;
        if let Some(change) = change {
            change.make(&transaction)?;
        }
        transaction.execute("DELETE FROM upload", [])?;
        transaction.execute_batch("CREATE TABLE server (number INTEGER NOT NULL) STRICT")?;
        transaction.execute("INSERT INTO server (number) VALUES (?1)", [server])?;
        transaction.commit()?;
        Ok(copy.serialize(MAIN_DB)?.to_vec())
    }

    /// Makes what is published here what it is in an image that came from `from`; the number of the server
    /// that had it. Uploads stay that can go on.
    pub(crate) fn adopt(&mut self, image: &[u8], from: &str) -> Result<i64, StoreError> {
        let mut theirs = Connection::open_in_memory()?;
        theirs.deserialize_read_exact(MAIN_DB, image, image.len(), true)?;
        check_is_ours(&theirs, Path::new(from))?;
        check_integrity(&theirs)?;
        let theirs = Self::of(theirs, Path::new(from));
        let published = theirs.all(Table::Dataset)?;
        let number = "SELECT max(number) FROM server";
        let server = theirs.connection.query_row(number, [], |row| row.get(0))?;
        let deleted = {
            let mut statement = theirs.ask("SELECT id FROM tombstone")?;
            let ids = statement.query_map([], |row| row.get::<_, [u8; 16]>(0))?;
            ids.collect::<Result<Vec<_>, _>>()?
        };
        self.change(|transaction| {
            // An upload that was begun against something else would not fit.
            transaction.execute("DELETE FROM tombstone", [])?;
            for id in deleted {
                transaction.execute("INSERT INTO tombstone (id) VALUES (?1)", [id])?;
                transaction.execute("DELETE FROM upload WHERE id = ?1", [id])?;
            }
            for Record { id, name, manifest } in &published {
                transaction.execute(
                    "DELETE FROM upload WHERE (id = ?1 OR name = ?2) AND NOT EXISTS
                     (SELECT 1 FROM dataset WHERE id = ?1 AND name = ?2 AND manifest = ?3)",
                    params![id.0, name, manifest],
                )?;
            }
            transaction.execute("DELETE FROM dataset", [])?;
            for Record { id, name, manifest } in &published {
                transaction.execute(
                    "INSERT INTO dataset (id, name, manifest) VALUES (?1, ?2, ?3)",
                    params![id.0, name, manifest],
                )?;
            }
            Ok(())
        })?;
        Ok(server)
    }
}

/// A change of what is published.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Change {
    /// The upload of a dataset becomes its published version.
    Publish(DatasetId),
    /// A published dataset goes, and any upload to it; its id is remembered for ever.
    Delete(DatasetId),
}

impl Change {
    fn make(self, transaction: &Transaction<'_>) -> rusqlite::Result<()> {
        match self {
            Self::Publish(id) => {
                transaction.execute(
                    "INSERT INTO dataset (id, name, manifest) SELECT id, name, manifest FROM upload WHERE id = ?1
                     ON CONFLICT (id) DO UPDATE SET manifest = excluded.manifest",
                    [id.0],
                )?;
                transaction.execute("DELETE FROM upload WHERE id = ?1", [id.0])?;
            }
            Self::Delete(id) => {
                transaction.execute("INSERT OR IGNORE INTO tombstone (id) VALUES (?1)", [id.0])?;
                transaction.execute("DELETE FROM dataset WHERE id = ?1", [id.0])?;
                transaction.execute("DELETE FROM upload WHERE id = ?1", [id.0])?;
                forget_striping(transaction, id, 0)?;
            }
        }
        Ok(())
    }
}

/// Whether the database is one that this program understands, empty or not.
fn check_is_ours(connection: &Connection, path: &Path) -> Result<Content, StoreError> {
    let pragma = |name| connection.pragma_query_value(None, name, |row| row.get::<_, i64>(0));
    let (application, found) = (pragma("application_id")?, pragma("user_version")?);
    // Creation is one transaction, so a database is either empty or marked as ours.
    let content = match pragma("page_count")? {
        0 => Content::Nothing,
        _ => Content::Catalogue,
    };
    if content == Content::Catalogue && application != APPLICATION_ID {
        return Err(StoreError::CatalogueForeign { path: path.into() });
    }
    if found > STRIPED_VERSION {
        return Err(StoreError::CatalogueNewer {
            path: path.into(),
            found,
            known: STRIPED_VERSION,
        });
    }
    Ok(content)
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Content {
    Nothing,
    Catalogue,
}

/// Over how many directories of the store each segment of a dataset is striped.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Striping {
    /// From which segment on over how many, ascending.
    changes: Vec<(u32, u32)>,
}

impl Striping {
    /// Over how many a segment is.
    pub(crate) fn directories(&self, segment: u32) -> usize {
        let later = self.changes.partition_point(|&(first, _)| first <= segment);
        later
            .checked_sub(1)
            .map_or(1, |last| self.changes[last].1 as usize)
    }
}

/// Whether the catalogue has the tables of a store of several directories.
fn is_striped(connection: &Connection) -> rusqlite::Result<bool> {
    let version =
        connection.pragma_query_value(None, "user_version", |row| row.get::<_, i64>(0))?;
    Ok(version == STRIPED_VERSION)
}

/// Segments of a dataset from this one on are striped over as many directories as there are.
fn stripe_from(
    transaction: &Transaction<'_>,
    id: DatasetId,
    first_segment: usize,
) -> rusqlite::Result<()> {
    let statement = "INSERT OR REPLACE INTO striping SELECT ?1, ?2, directories FROM store";
    change_striping(transaction, statement, id, first_segment)
}

fn forget_striping(
    transaction: &Transaction<'_>,
    id: DatasetId,
    first_segment: usize,
) -> rusqlite::Result<()> {
    let statement = "DELETE FROM striping WHERE dataset = ?1 AND first_segment >= ?2";
    change_striping(transaction, statement, id, first_segment)
}

/// Executes a statement about a dataset and a segment, where the store is striped.
fn change_striping(
    transaction: &Transaction<'_>,
    statement: &str,
    id: DatasetId,
    first_segment: usize,
) -> rusqlite::Result<()> {
    if is_striped(transaction)? {
        transaction.execute(statement, params![id.0, first_segment as u32])?;
    }
    Ok(())
}

fn damaged(problem: &str) -> StoreError {
    StoreError::CatalogueDamaged {
        problem: problem.into(),
    }
}

fn check_integrity(connection: &Connection) -> Result<(), StoreError> {
    let problem: String =
        connection.query_row("PRAGMA integrity_check(1)", [], |row| row.get(0))?;
    match &*problem {
        "ok" => Ok(()),
        _ => Err(StoreError::CatalogueDamaged { problem }),
    }
}
