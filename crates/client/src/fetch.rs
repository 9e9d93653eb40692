//! Fetches the cells of columns: from the cache where possible, the rest from the server.
//!
//! Requests depend on the wanted columns and on the cache, never on an answer. All requests are sent and all answers
//! are read to the end before any of them is used.

use crate::cache::{Cache, CacheWriter};
use crate::connection::{Client, Connection};
use crate::error::ClientError;
use crate::verify::Verified;
use crate::verify::cells::{CellAssembler, CellRequest, Cells, Part, Piece, column_bytes, open};
use crate::verify::reading::{Assembly, Part as Brought, ReadOutcome, Verdict};
use oboro_dataset::Dataset;
use oboro_format::Manifest;
use oboro_protocol::{column_numbers, v1};
use oboro_ring::Column;
use std::collections::BTreeMap;
use std::num::NonZeroUsize;
use std::sync::mpsc::SyncSender;

const DURING: &str = "fetching columns";
const OTHER_CELLS: &str = "the server sent other cells than were encrypted";
/// Maximum number of columns of one request: their numbers fit into any server's message limit.
const MOST_COLUMNS: usize = 1 << 14;

/// Source of the cells of columns: cache and server.
pub(crate) struct CellSource<'a> {
    pub(crate) dataset: &'a Dataset,
    /// Name of the dataset on the server.
    pub(crate) name: &'a str,
    pub(crate) threads: NonZeroUsize,
    pub(crate) cache: &'a Cache,
    /// Callback for the bytes received and the total.
    pub(crate) progress: &'a (dyn Fn(u64, u64) + Sync),
}

/// Cost of fetching columns.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct FetchCost {
    /// Number of columns requested by the caller.
    pub columns: usize,
    /// Number of these columns that the cache lacked entirely.
    pub new_columns: usize,
    /// Number of requests sent.
    pub requests: usize,
    /// Bytes received.
    pub bytes: u64,
    /// `true` if no server was contacted, not even to compare versions.
    pub offline: bool,
}

impl CellSource<'_> {
    /// Returns the cells of `columns` (ascending), and the cost of fetching them.
    ///
    /// # Errors
    /// As every call; [`ClientError::FalseAnswer`] if the cells are not those that were sealed, which is recorded in
    /// the owner's record.
    pub(crate) fn columns(
        &self,
        columns: &[Column],
        connect: impl FnOnce() -> Result<Connection, ClientError>,
    ) -> Result<(Verified<Cells>, FetchCost), ClientError> {
        let (mut cells, ends) = self.kept(columns);
        let requests = self.requests(columns, &ends);
        let mut fetched = FetchCost {
            columns: columns.len(),
            new_columns: columns.iter().filter(|it| !ends.contains_key(it)).count(),
            requests: requests.len(),
            bytes: 0,
            offline: false,
        };
        if requests.is_empty() {
            return Ok((cells, fetched));
        }
        let connection = connect()?;
        let mut recordings = Vec::new();
        let (opened, (mut reading, is_complete)) = open(self.dataset, self.threads, |pieces| {
            self.receive(
                &connection,
                &requests,
                &pieces,
                &mut recordings,
                &mut fetched.bytes,
            )
        });
        if opened.is_none() {
            reading.note_false();
        }
        let opened = reading.conclude(self.dataset, OTHER_CELLS, || {
            Ok(match opened {
                Some(opened) if is_complete => Verdict::Right(opened),
                _ => Verdict::Incomplete,
            })
        })?;
        recordings.into_iter().for_each(CacheWriter::keep);
        cells.add(opened);
        Ok((cells, fetched))
    }

    /// Returns the number of `columns` that were not in the requests that filled the cache; 0 if the cache is empty.
    pub(crate) fn more_columns(&self, columns: &[Column]) -> usize {
        let held = self.cache.held(self.dataset.manifest());
        let is_held = |column: &&Column| {
            held.iter()
                .any(|it| it.has.columns.binary_search(column).is_ok())
        };
        if held.is_empty() {
            0
        } else {
            columns.len() - columns.iter().filter(is_held).count()
        }
    }

    /// Returns the number of bytes to fetch: those of `columns` in segments that are not cached.
    pub(crate) fn absent_bytes(&self, columns: &[Column]) -> u64 {
        self.absent_columns(columns) as u64 * column_bytes(self.dataset.manifest())
    }

    /// Returns the number of `columns` that are not cached to their end.
    pub(crate) fn absent_columns(&self, columns: &[Column]) -> usize {
        let manifest = self.dataset.manifest();
        let held = self.cache.held(manifest);
        let is_held = |column: &&Column| {
            held.iter().any(|it| {
                let end = it.has.end_segment as usize == manifest.segments.len();
                end && it.has.columns.binary_search(column).is_ok()
            })
        };
        columns.len() - columns.iter().filter(is_held).count()
    }

    /// Returns the cached cells of `columns`, and for each column the first segment that is not cached.
    fn kept(&self, columns: &[Column]) -> (Verified<Cells>, BTreeMap<Column, u32>) {
        let manifest = self.dataset.manifest();
        let mut cells = Cells::none();
        let mut ends = BTreeMap::new();
        for held in self.cache.held(manifest) {
            let end = |column: Column| ends.get(&column).copied().unwrap_or(0);
            let is_next = |part: Part| {
                let here = held.has.first_segment..held.has.end_segment;
                columns.binary_search(&part.column).is_ok()
                    && here.contains(&end(part.column))
                    && part.segment >= end(part.column)
            };
            let read = open(self.dataset, self.threads, |pieces| {
                let take = |part, sealed| drop(pieces.send(Piece { part, sealed }));
                held.read(manifest, is_next, take)
            });
            match read {
                (Some(more), Ok(())) => {
                    for part in more.get().parts() {
                        let end = ends.entry(part.column).or_insert(0);
                        *end = (*end).max(part.segment + 1);
                    }
                    cells.add(more);
                }
                _ => held.remove(),
            }
        }
        (cells, ends)
    }

    /// Returns the requests to send.
    fn requests(&self, columns: &[Column], ends: &BTreeMap<Column, u32>) -> Vec<CellRequest> {
        let end_segment = self.dataset.manifest().segments.len() as u32;
        let mut from: BTreeMap<u32, Vec<Column>> = BTreeMap::new();
        for &column in columns {
            let first = ends.get(&column).copied().unwrap_or(0);
            from.entry(first).or_default().push(column);
        }
        from.into_iter()
            .filter(|&(first, _)| first < end_segment)
            .flat_map(|(first_segment, columns)| {
                let wanted = |columns: &[Column]| CellRequest {
                    columns: columns.to_vec(),
                    first_segment,
                    end_segment,
                };
                columns.chunks(MOST_COLUMNS).map(wanted).collect::<Vec<_>>()
            })
            .collect()
    }

    /// Sends all requests and reads their answers, up to the first that ends badly; returns true if all cells arrived.
    fn receive(
        &self,
        connection: &Connection,
        requests: &[CellRequest],
        pieces: &SyncSender<Piece>,
        recordings: &mut Vec<CacheWriter>,
        bytes: &mut u64,
    ) -> (ReadOutcome, bool) {
        let manifest = self.dataset.manifest();
        let expected = requests.iter().map(|it| it.bytes(manifest)).sum();
        let (mut before, mut is_complete) = (0, true);
        let mut reading = ReadOutcome::nothing();
        for wanted in requests {
            let request = v1::FetchColumnsRequest {
                name: self.name.to_owned(),
                root: manifest.root().0.to_vec().into(),
                columns: column_numbers(&wanted.columns),
                first_segment: wanted.first_segment,
            };
            let call = async |mut client: Client| client.fetch_columns(request.clone()).await;
            let (next, is_whole, recording) = {
                let progress = |received| (self.progress)(before + received, expected);
                let mut answer = RequestedCells {
                    manifest,
                    wanted,
                    pieces,
                    begin_recording: &|| self.cache.begin(manifest, wanted, recordings),
                    progress: &progress,
                    arriving: CellAssembler::new(manifest, wanted, pieces),
                    recording: None,
                    bytes: 0,
                };
                let next = connection.read_again(DURING, &call, &mut answer);
                *bytes += answer.bytes;
                (next, answer.arriving.is_complete(), answer.recording)
            };
            is_complete &= is_whole;
            recordings.extend(recording);
            before += wanted.bytes(manifest);
            if !reading.then(next) {
                return (reading, false);
            }
        }
        (reading, is_complete)
    }
}

/// Answer to one request, opened and recorded as it arrives.
struct RequestedCells<'a> {
    manifest: &'a Manifest,
    wanted: &'a CellRequest,
    pieces: &'a SyncSender<Piece>,
    begin_recording: &'a dyn Fn() -> Option<CacheWriter>,
    progress: &'a dyn Fn(u64),
    arriving: CellAssembler<'a>,
    recording: Option<CacheWriter>,
    bytes: u64,
}

impl Assembly for RequestedCells<'_> {
    type Message = v1::FetchColumnsReply;

    fn begin(&mut self) {
        self.arriving = CellAssembler::new(self.manifest, self.wanted, self.pieces);
        // Removed first: it counts towards the limit.
        self.recording = None;
        self.recording = (self.begin_recording)();
        self.bytes = 0;
    }

    fn take(&mut self, message: v1::FetchColumnsReply) -> Brought {
        self.bytes += message.data.len() as u64;
        (self.progress)(self.bytes);
        let brought = self.arriving.take(&message.data);
        if let (Brought::New, Some(recording)) = (brought, &mut self.recording) {
            recording.write(&message.data);
        }
        brought
    }
}
