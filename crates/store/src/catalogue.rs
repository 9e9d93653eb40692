//! The catalogue: which datasets a store holds, in SQLite.
//!
//! A dataset or an upload exists when its row does; files without a row are leftovers.
//! Every change is one transaction, durable when the call returns
//! (`synchronous=EXTRA`: FULL, and the directory synced after the journal goes).
//! Rows hold encoded manifests; this file does not interpret them.

use crate::error::{CatalogueError, StoreError};
use oboro_format::DatasetId;
use oboro_format::files::{parent, sync_directory};
use rusqlite::backup::{Backup, Progress};
use rusqlite::{
    CachedStatement, Connection, MAIN_DB, OpenFlags, OptionalExtension, Row, Transaction, params,
};
use std::cell::Cell;
use std::path::{Path, PathBuf};

const SCHEMA_VERSION: i64 = 1;
/// The version of a store striped over several directories, which earlier programs had. The next version is 3.
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
            // A damaged name is for its reader to refuse: it must not hide the other rows.
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
    /// Opens the catalogue, creating an empty one if there is none.
    pub(crate) fn open(path: &Path) -> Result<Self, StoreError> {
        let mut connection = Connection::open(path)?;
        connection.pragma_update(None, "synchronous", "EXTRA")?;
        let content = check_is_ours(&connection, path)?;
        // Whoever sweeps by a catalogue must be able to trust it.
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

    /// Makes `to` a copy of the catalogue `from`, without its uploads, as of one moment, whatever another process does
    /// to `from`.
    pub(crate) fn copy_published(from: &Path, to: &Path) -> Result<Self, StoreError> {
        // Not read-only: a transaction that a crash cut short is rolled back first.
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let original = Connection::open_with_flags(from, flags)?;
        original.backup(MAIN_DB, to, None::<fn(Progress)>)?;
        let mut copy = Self::open(to)?;
        copy.change(|transaction| transaction.execute("DELETE FROM upload", []).map(drop))?;
        Ok(copy)
    }

    /// Checks the file as a whole, not only the part of it in memory.
    pub(crate) fn verify(&self) -> Result<(), StoreError> {
        self.connection.execute_batch("PRAGMA shrink_memory")?;
        check_integrity(&self.connection)
    }

    /// Prepares a query that sees durable state only.
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

    /// What an earlier failure left open is durable from here on: a transaction is committed once its journal is gone,
    /// which depends on the directory.
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

    /// Begins an upload.
    pub(crate) fn begin_upload(&mut self, record: &Record) -> Result<(), StoreError> {
        self.change(|transaction| {
            transaction.execute(
                "INSERT INTO upload (id, name, manifest) VALUES (?1, ?2, ?3)",
                params![record.id.0, record.name, record.manifest],
            )?;
            Ok(())
        })
    }

    /// Changes what an upload in progress uploads.
    pub(crate) fn change_upload(
        &mut self,
        id: DatasetId,
        manifest: &[u8],
    ) -> Result<(), StoreError> {
        self.change(|transaction| {
            transaction.execute(
                "UPDATE upload SET manifest = ?2 WHERE id = ?1",
                params![id.0, manifest],
            )?;
            Ok(())
        })
    }

    /// Forgets a published dataset, without a tombstone.
    pub(crate) fn withdraw(&mut self, id: DatasetId) -> Result<(), StoreError> {
        self.change(|transaction| {
            transaction.execute("DELETE FROM dataset WHERE id = ?1", [id.0])?;
            Ok(())
        })
    }

    /// Ends an upload.
    pub(crate) fn cancel_upload(&mut self, id: DatasetId) -> Result<(), StoreError> {
        self.change(|transaction| {
            transaction.execute("DELETE FROM upload WHERE id = ?1", [id.0])?;
            Ok(())
        })
    }

    /// Changes what is published.
    pub(crate) fn make(&mut self, change: Change) -> Result<(), StoreError> {
        self.change(|transaction| change.make(transaction))
    }

    /// The bytes of the catalogue as it will be after a change, marked with the number of this server. Nothing changes
    /// here, and nothing is written to disk.
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

    /// Replaces what is published here by what an image that came from `from` publishes; returns the number of the
    /// server that wrote it. Uploads that can be resumed stay.
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
            // An upload that was begun against another version would not fit.
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
            }
        }
        Ok(())
    }
}

/// Whether this program understands the database, empty or not.
fn check_is_ours(connection: &Connection, path: &Path) -> Result<Content, StoreError> {
    let pragma = |name| connection.pragma_query_value(None, name, |row| row.get::<_, i64>(0));
    let (application, found) = (pragma("application_id")?, pragma("user_version")?);
    // Creation is one transaction, so a database is either empty or marked as ours.
    let content = match pragma("page_count")? {
        0 => Content::Nothing,
        _ => Content::Catalogue,
    };
    if content == Content::Catalogue && application != APPLICATION_ID {
        return Err(CatalogueError::Foreign { path: path.into() }.into());
    }
    if found == STRIPED_VERSION {
        return Err(CatalogueError::Striped { path: path.into() }.into());
    }
    if found > SCHEMA_VERSION {
        return Err(CatalogueError::Newer {
            path: path.into(),
            found,
            known: SCHEMA_VERSION,
        }
        .into());
    }
    Ok(content)
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Content {
    Nothing,
    Catalogue,
}

fn check_integrity(connection: &Connection) -> Result<(), StoreError> {
    let problem: String =
        connection.query_row("PRAGMA integrity_check(1)", [], |row| row.get(0))?;
    match &*problem {
        "ok" => Ok(()),
        _ => Err(CatalogueError::Damaged { problem }.into()),
    }
}
