//! Reads row ids from their sealed cells.

use crate::cache::Cache;
use crate::connection::Connection;
use crate::error::ClientError;
use crate::fetch::CellSource;
use crate::gate::{Gate, VersionCheck};
use crate::verify::Verified;
use oboro_dataset::Dataset;
use oboro_ring::Column;
use std::num::NonZeroUsize;

/// Stored row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredRow {
    /// Slot of the row, counted over all blocks.
    pub slot: u64,
    /// Row id.
    pub id: String,
}

/// Returns the rows of the dataset uploaded under `name`, sorted by id. `progress` receives the bytes received and
/// expected.
///
/// # Errors
/// A dataset without row ids; a pending decision of the owner; another version at the server; as every call; a false
/// answer, which is recorded in the owner's record.
pub fn row_ids(
    dataset: &Dataset,
    name: &str,
    threads: NonZeroUsize,
    connect: impl Fn() -> Result<Connection, ClientError>,
    progress: impl Fn(u64, u64) + Sync,
) -> Result<Verified<Vec<StoredRow>>, ClientError> {
    let manifest = dataset.manifest();
    if manifest.row_id_bytes == 0 {
        return Err(ClientError::NoRowIds);
    }
    let gate = Gate::new(
        dataset,
        name,
        false,
        VersionCheck::Compare,
        &|| {},
        &connect,
    );
    let source = CellSource {
        dataset,
        name,
        threads,
        // Row ids are looked up once: do not cache them.
        cache: &Cache::new(dataset.bundle().directory(), 0),
        progress: &progress,
    };
    let columns: Vec<_> = (manifest.columns..manifest.sealed_columns())
        .map(Column)
        .collect();
    let (cells, _) = source.columns(&columns, || gate.open())?;
    cells.try_map(|cells| {
        let of_all = |rows: &Vec<_>| rows.len() as u64 == dataset.record().transactions;
        let rows = cells.into_row_ids(dataset).filter(of_all);
        let rows = rows.ok_or(ClientError::RowIds)?.into_iter();
        let mut rows: Vec<_> = rows.map(|(slot, id)| StoredRow { slot, id }).collect();
        rows.sort_unstable_by(|a, b| (&a.id, a.slot).cmp(&(&b.id, b.slot)));
        Ok(rows)
    })
}
