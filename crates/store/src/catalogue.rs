//! The catalogue: which datasets a store holds, in SQLite.
//!
//! A dataset or an upload exists when its row does; files without a row are leftovers.
//! Every change is one transaction, durable when the call returns
//! (`synchronous=EXTRA`: FULL, and the directory synced after the journal goes).
//! Rows hold encoded manifests, of which this file knows no more than how many bytes they stand for.

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
/// A catalogue of at most this size answers as it was before a change that failed and of which it is not known what became.
const SMALL_BYTES: i64 = 8 << 20;
/// "OBOR": marks the database as Oboro's.
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

/// The tables that hold manifests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Table {
    /// Published versions.
    Dataset,
    /// Versions being uploaded, at most one of a dataset.
    Upload,
    /// The last versions of deleted datasets, until they are purged.
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

/// A row of one of these tables.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Record {
    pub(crate) id: DatasetId,
    pub(crate) name: String,
    pub(crate) manifest: Vec<u8>,
    /// When a version was published, an upload last announced, or a dataset deleted: seconds since the beginning of 1970.
    pub(crate) at: i64,
}

/// A row without its manifest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) id: DatasetId,
    pub(crate) name: String,
    /// Bytes of the dataset in the store, its manifest included.
    pub(crate) bytes: u64,
    /// As in a [`Record`].
    pub(crate) at: i64,
}

impl Record {
    fn from_row(row: &Row<'_>) -> rusqlite::Result<Self> {
        Ok(Self {
            id: DatasetId(row.get(0)?),
            // A damaged name is for its reader to refuse: it must not hide the other rows.
            name: String::from_utf8_lossy(row.get_ref(1)?.as_bytes()?).into_owned(),
            manifest: row.get(2)?,
            at: row.get(3)?,
        })
    }
}

pub(crate) struct Catalogue {
    connection: Connection,
    directory: PathBuf,
    /// The file that is open, by device and inode; `None` in memory.
    file: Option<(PathBuf, (u64, u64))>,
    identity: CatalogueIdentity,
    /// A change failed. It may have happened all the same, without being durable.
    unsettled: Cell<bool>,
    /// How often anything was looked up.
    #[cfg(test)]
    lookups: Cell<u64>,
    /// As it was durably before the latest attempt to change it: what is read until it is known what became of that, which
    /// a disk that takes no writes leaves open.
    /// is only known of a small one.
    before: Option<Connection>,
}

impl Catalogue {
    /// Opens the catalogue of a namespace, creating an empty one if there is none.
    ///
    /// # Errors
    /// A catalogue that is damaged, of another version or of another namespace or store; a disk that fails.
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
        // Whoever sweeps by a catalogue must be able to trust it.
        check_integrity(&connection)?;
        prepare(&mut connection, content, of)?;
        check_columns(&connection)?;
        let mut catalogue = Self::of(connection, path, of)?;
        let identity = inode(path).map_err(io_error("look at", path))?;
        catalogue.file = Some((path.into(), identity));
        Ok(catalogue)
    }

    /// The store and namespace that a catalogue says it belongs to; `None` if it is empty.
    ///
    /// # Errors
    /// A catalogue that is damaged or of another version.
    pub(crate) fn identity_of(path: &Path) -> Result<Option<CatalogueIdentity>, StoreError> {
        // Not read-only: a transaction that a crash cut short is rolled back first.
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        found_identity(&Connection::open_with_flags(path, flags)?, path)
    }

    /// The same of an image that came from `from`.
    ///
    /// # Errors
    /// As of [`identity_of`](Self::identity_of).
    pub(crate) fn identity_of_image(
        image: &[u8],
        from: &str,
    ) -> Result<Option<CatalogueIdentity>, StoreError> {
        let mut connection = Connection::open_in_memory()?;
        connection.deserialize_read_exact(MAIN_DB, image, image.len(), true)?;
        found_identity(&connection, Path::new(from))
    }

    /// Reads a catalogue as it is, without changing it: changes are made in memory only.
    ///
    /// # Errors
    /// As of [`open`](Self::open).
    pub(crate) fn read(path: &Path, of: &CatalogueIdentity) -> Result<Self, StoreError> {
        // Not read-only: a transaction that a crash cut short is rolled back first.
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

    /// The catalogue in a database, which must belong to this namespace.
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

    /// How often anything was looked up.
    #[cfg(test)]
    pub(crate) fn lookups(&self) -> u64 {
        self.lookups.get()
    }

    /// Makes `to` a copy of the catalogue `from`, without its uploads and what was deleted, as of one moment, whatever
    /// another process does to `from`.
    pub(crate) fn copy_published(
        from: &Path,
        to: &Path,
        of: &CatalogueIdentity,
    ) -> Result<Self, StoreError> {
        // Not read-only: a transaction that a crash cut short is rolled back first.
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

    /// Checks the file as a whole, not only the part of it in memory, and that it still has its name.
    pub(crate) fn verify(&self) -> Result<(), StoreError> {
        if let Some((path, opened)) = &self.file
            && inode(path).ok() != Some(*opened)
        {
            return Err(CatalogueError::Moved.into());
        }
        self.connection.execute_batch("PRAGMA shrink_memory")?;
        check_integrity(&self.connection)
    }

    /// Prepares a query that sees durable state only.
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

    /// A copy in memory, unless the catalogue is so large that one for each change would cost too much.
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

    /// What an earlier failure left open is durable from here on: a transaction is committed once its journal is gone,
    /// which depends on the directory; what was not committed is rolled back, which a read does.
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

    /// The number of rows of a table.
    pub(crate) fn count(&self, table: Table) -> Result<u64, StoreError> {
        let mut statement = self.ask(&format!("SELECT count(*) FROM {}", table.name()))?;
        let count: i64 = statement.query_row([], |row| row.get(0))?;
        Ok(count as u64)
    }

    /// Everything in a table but manifests, by name.
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

    /// Bytes of all manifests, except that of the upload of one dataset.
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

    /// The number of datasets that are published, being uploaded, or deleted and can be brought back.
    pub(crate) fn datasets(&self) -> Result<u64, StoreError> {
        let all = "SELECT id FROM dataset UNION SELECT id FROM upload UNION SELECT id FROM deleted";
        let mut statement = self.ask(&format!("SELECT count(*) FROM ({all})"))?;
        let count: i64 = statement.query_row([], |row| row.get(0))?;
        Ok(count as u64)
    }

    /// Bytes of all datasets, with their manifests: of one that is published and uploaded, the larger of both versions.
    pub(crate) fn bytes(&self) -> Result<u64, StoreError> {
        self.bytes_where("TRUE", [])
    }

    /// The same except one.
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

    /// Whether a dataset with this id was deleted for ever.
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

    /// Changes what an upload in progress uploads.
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

    /// Notes that an upload goes on.
    pub(crate) fn touch_upload(&mut self, id: DatasetId, at: i64) -> Result<(), StoreError> {
        self.change(|transaction| {
            transaction.execute("UPDATE upload SET at = ?2 WHERE id = ?1", params![id.0, at])?;
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
    pub(crate) fn make(&mut self, change: Change<'_>) -> Result<(), StoreError> {
        self.change(|transaction| change.make(transaction))
    }

    /// The bytes of the catalogue as it will be after a change, marked with the number of this server. Nothing changes
    /// here, and nothing is written to disk.
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

    /// Replaces what is published here by what an image that came from `from` publishes; returns the number of the
    /// server that wrote it. Uploads that can be resumed stay.
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

/// A change of what is published.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Change<'a> {
    /// The upload of a dataset becomes its published version, at this moment.
    Publish(DatasetId, i64),
    /// A published dataset goes, and any upload to it; at this moment.
    Delete(DatasetId, i64),
    /// A deleted dataset is published again, under this name, at this moment.
    Undelete(DatasetId, &'a str, i64),
    /// A dataset, published or deleted, goes for ever, and any upload to it; its id is remembered.
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

/// Bytes of a dataset in the store: of its segments, and of its manifest.
fn bytes_of(manifest: &[u8]) -> i64 {
    let segments = Manifest::decode(manifest).map_or(0, |it| it.segment_bytes());
    i64::try_from(segments.saturating_add(manifest.len() as u64)).unwrap_or(i64::MAX)
}

/// The store and the namespace that a database says it belongs to.
fn identity_in(connection: &Connection) -> Result<CatalogueIdentity, StoreError> {
    let sql = "SELECT store, namespace FROM identity";
    let found = connection.query_row(sql, [], |row| {
        Ok(CatalogueIdentity {
            store: StoreId(row.get(0)?),
            // A damaged name is that of no namespace.
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

/// The file of this name, by device and inode. It is not opened: closing it would give up SQLite's locks.
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

/// Checks that every column is there that something may ask for later: an altered name of one is damage.
fn check_columns(connection: &Connection) -> Result<(), StoreError> {
    for table in Table::ALL {
        let name = table.name();
        let all = format!("SELECT id, name, manifest, bytes, at FROM {name}");
        connection.prepare(&all)?;
    }
    connection.prepare("SELECT id FROM tombstone")?;
    Ok(())
}

/// Finds the cause that SQLite does not tell: a disk that is read-only, or too many open files.
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

/// What a database holds, if this program understands it.
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
        // Creation is one transaction, so a database is either empty or marked as ours.
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
