//! Catalogue: the datasets of a store, in SQLite.
//!
//! A dataset or upload exists if and only if its row does; files without a row are leftovers. Every change is one
//! transaction, durable when the call returns (`synchronous=EXTRA`: FULL, with a sync of the directory after the
//! journal is removed). Rows hold encoded manifests, of which this file uses only the size of the data that they
//! describe.

use crate::error::{CatalogueError, StoreError};
use crate::store_id::{CatalogueIdentity, StoreId};
use oboro_format::files::{io_error, parent, sync_directory, try_writing};
use oboro_format::{DatasetId, FormatError, Manifest};
use rusqlite::backup::{Backup, Progress};
use rusqlite::{
    CachedStatement, Connection, MAIN_DB, OpenFlags, OptionalExtension, Params, Row, Transaction,
    params,
};
use std::cell::Cell;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::{fs, io};

const SCHEMA_VERSION: i64 = 3;
/// Maximum size of a catalogue that still answers, from its last durable state, while the outcome of a failed change is
/// unknown.
const SMALL_BYTES: i64 = 8 << 20;
/// Application id "OBOR", which marks the database as Oboro's.
const APPLICATION_ID: i64 = 0x4f42_4f52;

const SCHEMA: &str = "
    CREATE TABLE dataset (
        id BLOB PRIMARY KEY NOT NULL CHECK (length(id) = 16),
        name TEXT NOT NULL UNIQUE,
        manifest BLOB NOT NULL,
        bytes INTEGER NOT NULL,
        at INTEGER NOT NULL
    ) STRICT;
    CREATE TABLE upload (
        id BLOB PRIMARY KEY NOT NULL CHECK (length(id) = 16),
        name TEXT NOT NULL UNIQUE,
        manifest BLOB NOT NULL,
        bytes INTEGER NOT NULL,
        at INTEGER NOT NULL
    ) STRICT;
    CREATE TABLE deleted (
        id BLOB PRIMARY KEY NOT NULL CHECK (length(id) = 16),
        name TEXT NOT NULL,
        manifest BLOB NOT NULL,
        bytes INTEGER NOT NULL,
        at INTEGER NOT NULL
    ) STRICT;
    CREATE TABLE tombstone (
        id BLOB PRIMARY KEY NOT NULL CHECK (length(id) = 16)
    ) STRICT;
    CREATE TABLE identity (
        store BLOB NOT NULL CHECK (length(store) = 16),
        namespace TEXT NOT NULL
    ) STRICT;";

/// Tables that hold manifests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Table {
    /// Published versions.
    Dataset,
    /// Versions being uploaded, at most one per dataset.
    Upload,
    /// Last versions of deleted datasets, until they are purged.
    Deleted,
}

impl Table {
    pub(crate) const ALL: [Self; 3] = [Self::Dataset, Self::Upload, Self::Deleted];

    fn name(self) -> &'static str {
        match self {
            Self::Dataset => "dataset",
            Self::Upload => "upload",
            Self::Deleted => "deleted",
        }
    }
}

/// Row of one of these tables.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Record {
    pub(crate) id: DatasetId,
    pub(crate) name: String,
    pub(crate) manifest: Vec<u8>,
    /// Time of publication, of the last announcement of an upload, or of deletion, in seconds since 1970.
    pub(crate) at: i64,
}

/// Row without its manifest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) id: DatasetId,
    pub(crate) name: String,
    /// Bytes of the dataset in the store, including its manifest.
    pub(crate) bytes: u64,
    /// Time as in a [`Record`].
    pub(crate) at: i64,
}

impl Record {
    fn from_row(row: &Row<'_>) -> rusqlite::Result<Self> {
        Ok(Self {
            id: DatasetId(row.get(0)?),
            // The reader refuses a damaged name, which must not hide other rows.
            name: String::from_utf8_lossy(row.get_ref(1)?.as_bytes()?).into_owned(),
            manifest: row.get(2)?,
            at: row.get(3)?,
        })
    }
}

pub(crate) struct Catalogue {
    connection: Connection,
    directory: PathBuf,
    /// Open file, by path, device and inode; `None` in memory.
    file: Option<(PathBuf, (u64, u64))>,
    identity: CatalogueIdentity,
    /// `true` after a failed change, which may have been made without being durable.
    unsettled: Cell<bool>,
    /// Number of lookups.
    #[cfg(test)]
    lookups: Cell<u64>,
    /// Durable state before the latest attempted change, kept for small catalogues only. Reads use it while the outcome
    /// of a failed change is unknown, for example on a disk that accepts no writes.
    before: Option<Connection>,
}

impl Catalogue {
    /// Opens the catalogue of a namespace, creating an empty one if it does not exist.
    ///
    /// # Errors
    /// A catalogue that is damaged, of another version, namespace or store; a disk that fails.
    pub(crate) fn open(path: &Path, of: &CatalogueIdentity) -> Result<Self, StoreError> {
        Self::open_file(path, of).map_err(|error| match error {
            StoreError::Catalogue(CatalogueError::Failed { source }) => {
                explain(parent(path), source)
            }
            other => other,
        })
    }

    fn open_file(path: &Path, of: &CatalogueIdentity) -> Result<Self, StoreError> {
        let mut connection = Connection::open(path)?;
        connection.pragma_update(None, "synchronous", "EXTRA")?;
        let content = check_is_ours(&connection, path)?;
        // Sweeping deletes files by the catalogue, which must therefore be trustworthy.
        check_integrity(&connection)?;
        prepare(&mut connection, content, of)?;
        check_columns(&connection)?;
        let mut catalogue = Self::of(connection, path, of)?;
        let identity = inode(path).map_err(io_error("look at", path))?;
        catalogue.file = Some((path.into(), identity));
        Ok(catalogue)
    }

    /// Returns the store and namespace that a catalogue names; `None` if it is empty.
    ///
    /// # Errors
    /// A catalogue that is damaged or of another version.
    pub(crate) fn identity_of(path: &Path) -> Result<Option<CatalogueIdentity>, StoreError> {
        // Not read-only: an interrupted transaction is rolled back first.
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        found_identity(&Connection::open_with_flags(path, flags)?, path)
    }

    /// As [`identity_of`](Self::identity_of), for an image that came from `from`.
    ///
    /// # Errors
    /// As for [`identity_of`](Self::identity_of).
    pub(crate) fn identity_of_image(
        image: &[u8],
        from: &str,
    ) -> Result<Option<CatalogueIdentity>, StoreError> {
        let mut connection = Connection::open_in_memory()?;
        connection.deserialize_read_exact(MAIN_DB, image, image.len(), true)?;
        found_identity(&connection, Path::new(from))
    }

    /// Opens a copy of a catalogue in memory; the file is not changed.
    ///
    /// # Errors
    /// As for [`open`](Self::open).
    pub(crate) fn read(path: &Path, of: &CatalogueIdentity) -> Result<Self, StoreError> {
        // Not read-only: an interrupted transaction is rolled back first.
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let file = Connection::open_with_flags(path, flags)?;
        let content = check_is_ours(&file, path)?;
        let mut copy = Connection::open_in_memory()?;
        Backup::new(&file, &mut copy)?.step(-1)?;
        check_integrity(&copy)?;
        prepare(&mut copy, content, of)?;
        check_columns(&copy)?;
        Self::of(copy, path, of)
    }

    /// Wraps a database, which must belong to this namespace.
    fn of(connection: Connection, path: &Path, of: &CatalogueIdentity) -> Result<Self, StoreError> {
        let found = identity_in(&connection)?;
        if found != *of {
            return Err(CatalogueError::Swapped {
                expected: of.to_string(),
                found: found.to_string(),
            }
            .into());
        }
        Ok(Self {
            connection,
            directory: parent(path).into(),
            file: None,
            identity: found,
            unsettled: Cell::new(false),
            #[cfg(test)]
            lookups: Cell::new(0),
            before: None,
        })
    }

    /// Returns the number of lookups.
    #[cfg(test)]
    pub(crate) fn lookups(&self) -> u64 {
        self.lookups.get()
    }

    /// Makes `to` a copy of the catalogue `from`, without uploads and deleted datasets. The copy is a consistent
    /// snapshot, even if another process writes to `from`.
    pub(crate) fn copy_published(
        from: &Path,
        to: &Path,
        of: &CatalogueIdentity,
    ) -> Result<Self, StoreError> {
        // Not read-only: an interrupted transaction is rolled back first.
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let original = Connection::open_with_flags(from, flags)?;
        original.backup(MAIN_DB, to, None::<fn(Progress)>)?;
        let mut copy = Self::open(to, of)?;
        copy.change(|transaction| {
            transaction.execute_batch(
                "DELETE FROM upload;
                 INSERT OR IGNORE INTO tombstone (id) SELECT id FROM deleted;
                 DELETE FROM deleted;",
            )
        })?;
        Ok(copy)
    }

    /// Checks the integrity of the whole file, not only of cached pages, and that it has not been moved.
    pub(crate) fn verify(&self) -> Result<(), StoreError> {
        if let Some((path, opened)) = &self.file
            && inode(path).ok() != Some(*opened)
        {
            return Err(CatalogueError::Moved.into());
        }
        self.connection.execute_batch("PRAGMA shrink_memory")?;
        check_integrity(&self.connection)
    }

    /// Prepares a query that sees only durable state.
    fn ask(&self, sql: &str) -> Result<CachedStatement<'_>, StoreError> {
        #[cfg(test)]
        self.lookups.set(self.lookups.get() + 1);
        let durable = match (self.settle(), &self.before) {
            (Ok(()), _) => &self.connection,
            (Err(_), Some(before)) => before,
            (Err(error), None) => return Err(error),
        };
        Ok(durable.prepare_cached(sql)?)
    }

    /// Makes a change as one transaction.
    fn change(
        &mut self,
        change: impl FnOnce(&Transaction<'_>) -> rusqlite::Result<()>,
    ) -> Result<(), StoreError> {
        self.settle()?;
        self.before = self.copy_of_a_small_one()?;
        let attempt = |connection: &mut Connection| {
            let transaction = connection.transaction()?;
            change(&transaction)?;
            transaction.commit()
        };
        let changed = attempt(&mut self.connection);
        self.unsettled.set(changed.is_err());
        if changed.is_ok() {
            self.before = None;
        }
        changed.map_err(|error| explain(&self.directory, error))
    }

    /// Copies the catalogue into memory, unless it is too large to be copied for each change.
    fn copy_of_a_small_one(&self) -> Result<Option<Connection>, StoreError> {
        let pragma = |name| {
            self.connection
                .pragma_query_value(None, name, |row| row.get::<_, i64>(0))
        };
        if pragma("page_count")? * pragma("page_size")? > SMALL_BYTES {
            return Ok(None);
        }
        let mut copy = Connection::open_in_memory()?;
        Backup::new(&self.connection, &mut copy)?.step(-1)?;
        Ok(Some(copy))
    }

    /// Makes the outcome of an earlier failure durable. Reading rolls an uncommitted transaction back. A committed one
    /// has no journal, whose removal is durable once the directory is synced.
    fn settle(&self) -> Result<(), StoreError> {
        if self.unsettled.get() {
            let read = "SELECT count(*) FROM sqlite_schema";
            self.connection.query_row(read, [], |_| Ok(()))?;
            sync_directory(&self.directory)?;
            self.unsettled.set(false);
        }
        Ok(())
    }

    pub(crate) fn all(&self, table: Table) -> Result<Vec<Record>, StoreError> {
        let mut statement = self.ask(&format!(
            "SELECT id, name, manifest, at FROM {} ORDER BY name",
            table.name()
        ))?;
        let rows = statement.query_map([], Record::from_row)?;
        Ok(rows.collect::<Result<_, _>>()?)
    }

    /// Returns the number of rows of a table.
    pub(crate) fn count(&self, table: Table) -> Result<u64, StoreError> {
        let mut statement = self.ask(&format!("SELECT count(*) FROM {}", table.name()))?;
        let count: i64 = statement.query_row([], |row| row.get(0))?;
        Ok(count as u64)
    }

    /// Returns the rows of a table without manifests, by name.
    pub(crate) fn entries(&self, table: Table) -> Result<Vec<Entry>, StoreError> {
        let mut statement = self.ask(&format!(
            "SELECT id, name, bytes, at FROM {} ORDER BY name",
            table.name()
        ))?;
        let entry = |row: &Row<'_>| {
            Ok(Entry {
                id: DatasetId(row.get(0)?),
                name: String::from_utf8_lossy(row.get_ref(1)?.as_bytes()?).into_owned(),
                bytes: row.get::<_, i64>(2)? as u64,
                at: row.get(3)?,
            })
        };
        let rows = statement.query_map([], entry)?;
        Ok(rows.collect::<Result<_, _>>()?)
    }

    /// Returns the bytes of all manifests, except that of one dataset's upload.
    pub(crate) fn manifest_bytes_without(&self, id: DatasetId) -> Result<u64, StoreError> {
        let mut statement = self.ask(
            "SELECT total(bytes) FROM
             (SELECT length(manifest) AS bytes FROM dataset
              UNION ALL SELECT length(manifest) FROM upload WHERE id <> ?1
              UNION ALL SELECT length(manifest) FROM deleted)",
        )?;
        let bytes: f64 = statement.query_row([id.0], |row| row.get(0))?;
        Ok(bytes as u64)
    }

    /// Returns the number of datasets that are published, being uploaded, or deleted but restorable.
    pub(crate) fn datasets(&self) -> Result<u64, StoreError> {
        let all = "SELECT id FROM dataset UNION SELECT id FROM upload UNION SELECT id FROM deleted";
        let mut statement = self.ask(&format!("SELECT count(*) FROM ({all})"))?;
        let count: i64 = statement.query_row([], |row| row.get(0))?;
        Ok(count as u64)
    }

    /// Returns the bytes of all datasets, with their manifests. A dataset both published and being uploaded counts with
    /// the larger version.
    pub(crate) fn bytes(&self) -> Result<u64, StoreError> {
        self.bytes_where("TRUE", [])
    }

    /// As [`bytes`](Self::bytes), without one dataset.
    pub(crate) fn bytes_without(&self, id: DatasetId) -> Result<u64, StoreError> {
        self.bytes_where("id <> ?1", [id.0])
    }

    fn bytes_where(&self, condition: &str, values: impl Params) -> Result<u64, StoreError> {
        let mut statement = self.ask(&format!(
            "SELECT total(most) FROM
             (SELECT max(bytes) AS most FROM
              (SELECT id, bytes FROM dataset UNION ALL SELECT id, bytes FROM upload
               UNION ALL SELECT id, bytes FROM deleted)
              WHERE {condition} GROUP BY id)"
        ))?;
        let bytes: f64 = statement.query_row(values, |row| row.get(0))?;
        Ok(bytes as u64)
    }

    pub(crate) fn by_id(&self, table: Table, id: DatasetId) -> Result<Option<Record>, StoreError> {
        let sql = format!(
            "SELECT id, name, manifest, at FROM {} WHERE id = ?1",
            table.name()
        );
        let mut statement = self.ask(&sql)?;
        Ok(statement.query_row([id.0], Record::from_row).optional()?)
    }

    pub(crate) fn by_name(&self, table: Table, name: &str) -> Result<Option<Record>, StoreError> {
        let sql = format!(
            "SELECT id, name, manifest, at FROM {} WHERE name = ?1 ORDER BY id",
            table.name()
        );
        let mut statement = self.ask(&sql)?;
        Ok(statement.query_row([name], Record::from_row).optional()?)
    }

    /// Returns true if a dataset with this id was purged.
    pub(crate) fn is_purged(&self, id: DatasetId) -> Result<bool, StoreError> {
        let mut statement = self.ask("SELECT 1 FROM tombstone WHERE id = ?1")?;
        Ok(statement.exists([id.0])?)
    }

    /// Begins an upload.
    pub(crate) fn begin_upload(&mut self, record: &Record) -> Result<(), StoreError> {
        self.change(|transaction| {
            transaction.execute(
                "INSERT INTO upload (id, name, manifest, bytes, at) VALUES (?1, ?2, ?3, ?4, ?5)",
                params![
                    record.id.0,
                    record.name,
                    record.manifest,
                    bytes_of(&record.manifest),
                    record.at
                ],
            )?;
            Ok(())
        })
    }

    /// Replaces the manifest of an upload in progress.
    pub(crate) fn change_upload(
        &mut self,
        id: DatasetId,
        manifest: &[u8],
        at: i64,
    ) -> Result<(), StoreError> {
        self.change(|transaction| {
            transaction.execute(
                "UPDATE upload SET manifest = ?2, bytes = ?3, at = ?4 WHERE id = ?1",
                params![id.0, manifest, bytes_of(manifest), at],
            )?;
            Ok(())
        })
    }

    /// Records that an upload has progressed.
    pub(crate) fn touch_upload(&mut self, id: DatasetId, at: i64) -> Result<(), StoreError> {
        self.change(|transaction| {
            transaction.execute("UPDATE upload SET at = ?2 WHERE id = ?1", params![id.0, at])?;
            Ok(())
        })
    }

    /// Removes a published dataset, without a tombstone.
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

    /// Changes the published state.
    pub(crate) fn make(&mut self, change: Change<'_>) -> Result<(), StoreError> {
        self.change(|transaction| change.make(transaction))
    }

    /// Returns the bytes of the catalogue after a change, marked with the number of this server. Neither this catalogue
    /// nor the disk changes.
    pub(crate) fn image_after(
        &self,
        change: Option<Change<'_>>,
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

    /// Replaces the published state by that of an image that came from `from`; returns the number of the server that
    /// wrote it. Uploads that can be resumed stay.
    pub(crate) fn adopt(&mut self, image: &[u8], from: &str) -> Result<i64, StoreError> {
        let mut theirs = Connection::open_in_memory()?;
        theirs.deserialize_read_exact(MAIN_DB, image, image.len(), true)?;
        let content = check_is_ours(&theirs, Path::new(from))?;
        check_integrity(&theirs)?;
        prepare(&mut theirs, content, &self.identity)?;
        let theirs = Self::of(theirs, Path::new(from), &self.identity)?;
        let (published, deleted) = (theirs.all(Table::Dataset)?, theirs.all(Table::Deleted)?);
        let number = "SELECT max(number) FROM server";
        let server = theirs.connection.query_row(number, [], |row| row.get(0))?;
        let purged = {
            let mut statement = theirs.ask("SELECT id FROM tombstone")?;
            let ids = statement.query_map([], |row| row.get::<_, [u8; 16]>(0))?;
            ids.collect::<Result<Vec<_>, _>>()?
        };
        self.change(|transaction| {
            // An upload that was begun against another version would not fit.
            transaction.execute("DELETE FROM tombstone", [])?;
            for id in purged {
                transaction.execute("INSERT INTO tombstone (id) VALUES (?1)", [id])?;
                transaction.execute("DELETE FROM upload WHERE id = ?1", [id])?;
            }
            transaction.execute("DELETE FROM deleted", [])?;
            for Record {
                id,
                name,
                manifest,
                at,
            } in &deleted
            {
                transaction.execute(
                    "INSERT INTO deleted (id, name, manifest, bytes, at) VALUES (?1, ?2, ?3, ?4, ?5)",
                    params![id.0, name, manifest, bytes_of(manifest), at],
                )?;
                transaction.execute("DELETE FROM upload WHERE id = ?1", [id.0])?;
            }
            for Record {
                id, name, manifest, ..
            } in &published
            {
                transaction.execute(
                    "DELETE FROM upload WHERE (id = ?1 OR name = ?2) AND NOT EXISTS
                     (SELECT 1 FROM dataset WHERE id = ?1 AND name = ?2 AND manifest = ?3)",
                    params![id.0, name, manifest],
                )?;
            }
            transaction.execute("DELETE FROM dataset", [])?;
            for Record {
                id,
                name,
                manifest,
                at,
            } in &published
            {
                transaction.execute(
                    "INSERT INTO dataset (id, name, manifest, bytes, at) VALUES (?1, ?2, ?3, ?4, ?5)",
                    params![id.0, name, manifest, bytes_of(manifest), at],
                )?;
            }
            Ok(())
        })?;
        Ok(server)
    }
}

/// Change of the published state. Times are in seconds since 1970.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Change<'a> {
    /// Makes the upload of a dataset its published version, at this time.
    Publish(DatasetId, i64),
    /// Deletes a published dataset and any upload to it, at this time.
    Delete(DatasetId, i64),
    /// Publishes a deleted dataset again under this name, at this time.
    Undelete(DatasetId, &'a str, i64),
    /// Purges a published or deleted dataset and any upload to it, leaving a tombstone with its id.
    Purge(DatasetId),
}

impl Change<'_> {
    fn make(self, transaction: &Transaction<'_>) -> rusqlite::Result<()> {
        match self {
            Self::Publish(id, at) => {
                transaction.execute(
                    "INSERT INTO dataset (id, name, manifest, bytes, at)
                     SELECT id, name, manifest, bytes, ?2 FROM upload WHERE id = ?1
                     ON CONFLICT (id) DO UPDATE SET
                     manifest = excluded.manifest, bytes = excluded.bytes, at = excluded.at",
                    params![id.0, at],
                )?;
                transaction.execute("DELETE FROM upload WHERE id = ?1", [id.0])?;
            }
            Self::Delete(id, at) => {
                transaction.execute(
                    "INSERT INTO deleted (id, name, manifest, bytes, at)
                     SELECT id, name, manifest, bytes, ?2 FROM dataset WHERE id = ?1",
                    params![id.0, at],
                )?;
                transaction.execute("DELETE FROM dataset WHERE id = ?1", [id.0])?;
                transaction.execute("DELETE FROM upload WHERE id = ?1", [id.0])?;
            }
            Self::Undelete(id, name, at) => {
                transaction.execute(
                    "INSERT INTO dataset (id, name, manifest, bytes, at)
                     SELECT id, ?2, manifest, bytes, ?3 FROM deleted WHERE id = ?1",
                    params![id.0, name, at],
                )?;
                transaction.execute("DELETE FROM deleted WHERE id = ?1", [id.0])?;
            }
            Self::Purge(id) => {
                transaction.execute("INSERT OR IGNORE INTO tombstone (id) VALUES (?1)", [id.0])?;
                for table in Table::ALL {
                    let sql = format!("DELETE FROM {} WHERE id = ?1", table.name());
                    transaction.execute(&sql, [id.0])?;
                }
            }
        }
        Ok(())
    }
}

/// Returns the bytes of a dataset in the store: segments and manifest.
fn bytes_of(manifest: &[u8]) -> i64 {
    let segments = Manifest::decode(manifest).map_or(0, |it| it.segment_bytes());
    i64::try_from(segments.saturating_add(manifest.len() as u64)).unwrap_or(i64::MAX)
}

/// Returns the store and the namespace that a database names.
fn identity_in(connection: &Connection) -> Result<CatalogueIdentity, StoreError> {
    let sql = "SELECT store, namespace FROM identity";
    let found = connection.query_row(sql, [], |row| {
        Ok(CatalogueIdentity {
            store: StoreId(row.get(0)?),
            // A damaged name matches no namespace.
            namespace: String::from_utf8_lossy(row.get_ref(1)?.as_bytes()?).into_owned(),
        })
    });
    let found = found.optional()?;
    found.ok_or_else(|| {
        let problem = "it does not say to which store it belongs".to_owned();
        CatalogueError::Damaged { problem }.into()
    })
}

fn found_identity(
    connection: &Connection,
    path: &Path,
) -> Result<Option<CatalogueIdentity>, StoreError> {
    let content = check_is_ours(connection, path)?;
    match content {
        Content::Nothing => Ok(None),
        Content::Present => identity_in(connection).map(Some),
    }
}

/// Returns device and inode of a file without opening it: closing it would release SQLite's locks.
fn inode(path: &Path) -> io::Result<(u64, u64)> {
    let metadata = fs::metadata(path)?;
    Ok((metadata.dev(), metadata.ino()))
}

/// Creates the tables of an empty database in one transaction.
fn prepare(
    connection: &mut Connection,
    content: Content,
    of: &CatalogueIdentity,
) -> Result<(), StoreError> {
    if content == Content::Present {
        return Ok(());
    }
    let transaction = connection.transaction()?;
    transaction.execute_batch(SCHEMA)?;
    transaction.execute(
        "INSERT INTO identity (store, namespace) VALUES (?1, ?2)",
        params![of.store.0, of.namespace],
    )?;
    transaction.pragma_update(None, "application_id", APPLICATION_ID)?;
    transaction.pragma_update(None, "user_version", SCHEMA_VERSION)?;
    transaction.commit()?;
    Ok(())
}

/// Checks that all columns used later exist: an altered name is damage.
fn check_columns(connection: &Connection) -> Result<(), StoreError> {
    for table in Table::ALL {
        let name = table.name();
        let all = format!("SELECT id, name, manifest, bytes, at FROM {name}");
        connection.prepare(&all)?;
    }
    connection.prepare("SELECT id FROM tombstone")?;
    Ok(())
}

/// Finds the cause that SQLite does not report: a read-only disk, or too many open files.
fn explain(directory: &Path, error: rusqlite::Error) -> StoreError {
    use rusqlite::ErrorCode::{CannotOpen, ReadOnly, SystemIoFailure};
    let Some(CannotOpen | ReadOnly | SystemIoFailure) = error.sqlite_error_code() else {
        return error.into();
    };
    match try_writing(directory) {
        Err(cause @ (FormatError::DiskReadOnly { .. } | FormatError::TooManyFiles { .. })) => {
            cause.into()
        }
        _ => error.into(),
    }
}

/// Returns the content of a database, if this program understands it.
fn check_is_ours(connection: &Connection, path: &Path) -> Result<Content, StoreError> {
    let pragma = |name| connection.pragma_query_value(None, name, |row| row.get::<_, i64>(0));
    let (application, found) = (pragma("application_id")?, pragma("user_version")?);
    let content = Content::of(connection)?;
    if content != Content::Nothing && application != APPLICATION_ID {
        return Err(CatalogueError::Foreign { path: path.into() }.into());
    }
    if content == Content::Present && found < SCHEMA_VERSION {
        return Err(CatalogueError::Older {
            path: path.into(),
            found,
            known: SCHEMA_VERSION,
        }
        .into());
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
    Present,
}

impl Content {
    fn of(connection: &Connection) -> rusqlite::Result<Self> {
        let pragma = |name| connection.pragma_query_value(None, name, |row| row.get::<_, i64>(0));
        // Creation is one transaction: a database is either empty or marked as ours.
        Ok(match pragma("page_count")? {
            0 => Self::Nothing,
            _ => Self::Present,
        })
    }
}

fn check_integrity(connection: &Connection) -> Result<(), StoreError> {
    let problem: String =
        connection.query_row("PRAGMA integrity_check(1)", [], |row| row.get(0))?;
    match &*problem {
        "ok" => Ok(()),
        _ => Err(CatalogueError::Damaged { problem }.into()),
    }
}
