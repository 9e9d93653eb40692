//! Scrub: reads and checks everything in a store, to find damage before a query does.
//!
//! One part is checked at a time: the catalogues, a segment's header, a panel. No lock is held while segments are read:
//! other work continues, and concurrent deletions are not reported as missing.

use super::common::Common;
use super::directory::{check_is_store, has_catalogue};
use super::grants::Grants;
use super::namespace::{Namespace, State, check_name};
use super::namespaces;
use super::stored_manifest::stored_manifest;
use super::sweep::is_forgotten;
use crate::catalogue::{Catalogue, Record, Table};
use crate::error::StoreError;
use crate::layout::{CATALOGUE, GRANTS, IDENTITY, SEGMENTS, home_of};
use crate::location::Location;
use crate::store_id::CatalogueIdentity;
use oboro_format::DEFAULT_NAMESPACE;
use oboro_format::files::{exists, names};
use oboro_format::wording::{SCRUB_SERVER, UPLOAD_KEEP_RECORD};
use oboro_format::{
    Corruption, Damage, DatasetId, ErrorKind, FormatError, Manifest, Scrubbed, SegmentEntry,
    forget_cached,
};
use oboro_residency::{Placement, ResidencyError, StoredSegment};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt;
use std::fs::File;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Checked part.
#[derive(Debug)]
pub struct ScrubbedPart {
    /// Bytes that were read for it.
    pub read: u64,
    /// Damage found in it.
    pub damage: Option<Damage>,
}

/// Scrub in progress, which reads the catalogue, the headers of segments and their parts one by one.
pub struct Scrub {
    /// `true` if names are those in the store rather than in the caller's namespace.
    is_of_store: bool,
    /// Damage found in the catalogue and not reported yet.
    found: VecDeque<Damage>,
    waiting: VecDeque<Target>,
    reading: Option<SegmentCheck>,
    /// Datasets whose recovery copies, if any, are to be checked.
    recoveries: VecDeque<(Arc<Namespace>, String, DatasetId)>,
    total_bytes: u64,
    scrubbed: Scrubbed,
}

/// Segment to check.
#[derive(Clone)]
struct Target {
    namespace: Arc<Namespace>,
    table: Table,
    name: Arc<str>,
    manifest: Arc<Manifest>,
    index: u32,
}

/// Segment whose parts are being checked.
struct SegmentCheck {
    target: Target,
    segment: StoredSegment,
    parts: Range<usize>,
}

impl Scrub {
    /// Starts to check a store that no server has open, without changing it.
    ///
    /// # Errors
    ///
    /// A directory that is not a store's, a store in use, a damaged catalogue.
    pub fn of_directory(directory: &Path) -> Result<Self, StoreError> {
        let alternative = format!("directory, or have its server scrub it (`{SCRUB_SERVER}`)");
        check_is_store(directory)?;
        let location = Location::from(directory);
        let common = Common::open(&location, Placement::default(), None, &alternative)?;
        let common = Arc::new(common);
        let mut scrub = Self::new(true);
        for name in namespaces::namespaces_in(directory)? {
            let path = home_of(directory, &name).join(CATALOGUE);
            match read_catalogue(&common, &name) {
                // An interrupted start leaves a namespace without a catalogue.
                Ok(None) => {}
                Ok(Some(catalogue)) => {
                    let namespace = Namespace::local(&common, name.into(), catalogue);
                    scrub.add(&Arc::new(namespace), None)?;
                }
                Err(error) if name != DEFAULT_NAMESPACE && is_damage(&error) => {
                    let path = Some(path);
                    scrub.found.push_back(Damage {
                        path,
                        ..Damage::of(error)
                    });
                }
                Err(error) => return Err(error),
            }
        }
        if !exists(&directory.join(IDENTITY))? {
            scrub.found.push_back(Damage {
                path: Some(directory.join(IDENTITY)),
                ..Damage::of(
                    "the identity of the store is missing. Restore it from a backup, or start the server: it writes the \
                     file again, as its catalogue says.",
                )
            });
        }
        if let Err(error) = Grants::open(&common) {
            scrub.found.push_back(Damage {
                path: Some(common.home.join(GRANTS)),
                ..Damage::of(error)
            });
        }
        Ok(scrub)
    }

    /// Starts to check a namespace, or one dataset in it.
    pub(super) fn begin(
        namespace: &Arc<Namespace>,
        name: Option<&str>,
    ) -> Result<Self, StoreError> {
        let mut scrub = Self::new(false);
        scrub.add(namespace, name)?;
        Ok(scrub)
    }

    fn new(is_of_store: bool) -> Self {
        Self {
            is_of_store,
            found: VecDeque::new(),
            waiting: VecDeque::new(),
            reading: None,
            recoveries: VecDeque::new(),
            total_bytes: 0,
            scrubbed: Scrubbed::default(),
        }
    }

    /// Returns the prefix of a namespace's names in reports.
    fn prefix_of(&self, namespace: &Namespace) -> String {
        if self.is_of_store && *namespace.name != *DEFAULT_NAMESPACE {
            format!("{}/", namespace.name)
        } else {
            String::new()
        }
    }

    fn add(&mut self, namespace: &Arc<Namespace>, name: Option<&str>) -> Result<(), StoreError> {
        let state = namespace.state();
        let mut found = VecDeque::new();
        if let Err(error) = state.catalogue.verify() {
            found.push_back(Damage {
                path: Some(namespace.catalogue()),
                ..Damage::of(error)
            });
        }
        let is_of_catalogue = |error: &StoreError| {
            !matches!(
                error,
                StoreError::Outdated { .. } | StoreError::DamagedNote { .. }
            )
        };
        let mut waiting = VecDeque::new();
        // Published segments, which are not part of an upload.
        let mut published = BTreeMap::new();
        for table in Table::ALL {
            let records = state.catalogue.all(table)?.into_iter();
            let is_meant = |it: &Record| name.is_none_or(|name| it.name == name);
            for record in records.filter(is_meant) {
                let label = format!("{}{}", self.prefix_of(namespace), record.name);
                let there: &mut BTreeSet<u32> = published.entry(record.id).or_default();
                if table != Table::Upload {
                    let copy = (Arc::clone(namespace), label.clone(), record.id);
                    self.recoveries.push_back(copy);
                }
                let known = check_name(&record.name).and_then(|()| stored_manifest(&record));
                let is_served = |manifest: Manifest| match table {
                    Table::Dataset | Table::Deleted => namespace
                        .check_is_served(&manifest, &record.name)
                        .map(|()| manifest),
                    Table::Upload => Ok(manifest),
                };
                match known.and_then(is_served) {
                    Ok(manifest) => {
                        let mut numbers = manifest.numbers();
                        let targets = targets(namespace, table, &label, manifest);
                        waiting.extend(targets.filter(|it| !there.contains(&it.entry().number)));
                        there.append(&mut numbers);
                    }
                    Err(error) => found.push_back(Damage {
                        name: Some(label.escape_debug().to_string()),
                        dataset: Some(record.id),
                        path: is_of_catalogue(&error).then(|| namespace.catalogue()),
                        ..Damage::of(error)
                    }),
                }
            }
        }
        match name {
            Some(name) if published.is_empty() => {
                return Err(StoreError::NoDataset { name: name.into() });
            }
            Some(_) => {}
            None => found.extend(forgotten(namespace, &state)?),
        }
        drop(state);
        self.total_bytes += waiting.iter().map(|it: &Target| it.bytes()).sum::<u64>();
        self.scrubbed.datasets += published.len() as u64;
        self.found.append(&mut found);
        self.waiting.append(&mut waiting);
        Ok(())
    }

    /// Returns the bytes to read.
    pub fn total_bytes(&self) -> u64 {
        self.total_bytes
    }

    /// Returns the progress so far.
    pub fn scrubbed(&self) -> Scrubbed {
        self.scrubbed
    }

    /// Checks the next part, up to 7 MiB or the header of a segment; `None` after the last.
    ///
    /// # Errors
    ///
    /// Errors other than damage: files that may not be opened, too many open files.
    pub fn next_part(&mut self) -> Result<Option<ScrubbedPart>, StoreError> {
        let part = match self.found.pop_front() {
            Some(damage) => Some(ScrubbedPart {
                read: 0,
                damage: Some(damage),
            }),
            None => match self.next_of_segment()? {
                Some(part) => Some(part),
                None => match self.next_segment()? {
                    Some(part) => Some(part),
                    None => self.next_recovery()?,
                },
            },
        };
        let damage = part.as_ref().and_then(|part| part.damage.as_ref());
        self.scrubbed.damaged += u64::from(damage.is_some());
        Ok(part)
    }

    /// Checks the next part of the segment being read.
    fn next_of_segment(&mut self) -> Result<Option<ScrubbedPart>, StoreError> {
        let Some(reading) = &mut self.reading else {
            return Ok(None);
        };
        let Some(part) = reading.parts.next() else {
            self.reading = None;
            return Ok(None);
        };
        let checked = reading.segment.source().check(part);
        if let Err(ResidencyError::Format(FormatError::Removed { .. })) = checked {
            let rest = part..reading.parts.end;
            let bytes = |part| reading.segment.header().part_extent(part).len as u64;
            self.total_bytes -= rest.map(bytes).sum::<u64>();
            self.reading = None;
            return Ok(None);
        }
        let read = reading.segment.header().part_extent(part).len as u64;
        self.scrubbed.parts += 1;
        self.scrubbed.bytes += read;
        let path = || reading.target.place(reading.segment.local().path().into());
        let corruption = match checked {
            Ok(()) => None,
            Err(ResidencyError::Format(FormatError::Damaged { corruption, .. })) => {
                Some(corruption)
            }
            Err(other) => return Err(other.into()),
        };
        let damage = corruption.map(|corruption| Damage {
            panel: reading.segment.description().panel_of(part),
            ..reading.target.damage(
                path(),
                &reading.segment.description().part_name(part),
                &corruption,
            )
        });
        Ok(Some(ScrubbedPart { read, damage }))
    }

    /// Checks the next recovery copy.
    fn next_recovery(&mut self) -> Result<Option<ScrubbedPart>, StoreError> {
        while let Some((namespace, name, id)) = self.recoveries.pop_front() {
            let (read, damage) = match namespace.open_recovery(id) {
                Ok(None) => continue,
                Ok(Some(copy)) => (copy.length(), None),
                Err(StoreError::Format(FormatError::Damaged {
                    path, corruption, ..
                })) => {
                    let problem = format!(
                        "the recovery copy of dataset {id} {corruption}. Restore it from a backup, or have its owner run \
                         `{UPLOAD_KEEP_RECORD}`."
                    );
                    let damage = Damage {
                        name: Some(name),
                        dataset: Some(id),
                        path,
                        ..Damage::of(problem)
                    };
                    (0, Some(damage))
                }
                Err(other) => return Err(other),
            };
            self.scrubbed.parts += 1;
            self.scrubbed.bytes += read;
            // Its length was unknown before.
            self.total_bytes += read;
            return Ok(Some(ScrubbedPart { read, damage }));
        }
        Ok(None)
    }

    /// Opens the next segment and checks its header.
    fn next_segment(&mut self) -> Result<Option<ScrubbedPart>, StoreError> {
        while let Some(target) = self.waiting.pop_front() {
            let path = target.file();
            // An upload may not have reached it, and checking must not create its file.
            if target.table == Table::Upload && !exists(&path)? {
                self.total_bytes -= target.bytes();
                continue;
            }
            // From here on the page cache holds only bytes read from the disk since.
            if let Ok(file) = File::open(&path) {
                forget_cached(&file, 0, target.bytes());
            }
            let corruption = match target.open() {
                Ok(segment) => {
                    // A deletion may remove the file while it is being read, so it is kept open as far as possible.
                    segment.local().file().outlive_its_name();
                    let read = segment.header().bytes();
                    let parts = 0..segment.header().parts();
                    self.scrubbed.segments += 1;
                    self.scrubbed.bytes += read;
                    self.reading = Some(SegmentCheck {
                        target,
                        segment,
                        parts,
                    });
                    let damage = None;
                    return Ok(Some(ScrubbedPart { read, damage }));
                }
                Err(StoreError::Format(FormatError::Damaged { corruption, .. })) => corruption,
                Err(other) => return Err(other),
            };
            let missing = matches!(corruption, Corruption::Missing);
            if missing && (target.table == Table::Upload || target.is_gone()?) {
                self.total_bytes -= target.bytes();
                continue;
            }
            self.scrubbed.bytes += target.bytes();
            let path = target.place(path);
            return Ok(Some(ScrubbedPart {
                read: 0,
                damage: Some(target.damage(path, "", &corruption)),
            }));
        }
        Ok(None)
    }
}

impl Target {
    /// Opens a segment and checks its header.
    fn open(&self) -> Result<StoredSegment, StoreError> {
        let segment = self.namespace.open_segment(&self.manifest, self.index)?;
        segment.source().check_header()?;
        Ok(segment)
    }

    /// Returns true if the dataset was deleted, or the segment replaced, since the scrub started.
    fn is_gone(&self) -> Result<bool, StoreError> {
        let state = self.namespace.state();
        let record = state
            .catalogue
            .by_id(Table::Dataset, self.manifest.dataset)?;
        let present = record.as_ref().map(stored_manifest).transpose()?;
        let entry = self.entry();
        let is_here = |it: Manifest| it.digests().get(&entry.number) == Some(&entry.digest);
        Ok(!present.is_some_and(is_here))
    }

    fn entry(&self) -> &SegmentEntry {
        &self.manifest.segments[self.index as usize]
    }

    fn bytes(&self) -> u64 {
        self.entry().bytes
    }

    fn file(&self) -> PathBuf {
        self.namespace.segment(&self.manifest, self.index)
    }

    /// Returns its place, for operators, given its file.
    fn place(&self, path: PathBuf) -> PathBuf {
        let backend = &self.namespace.backend;
        backend.place(path, self.manifest.dataset, self.entry().number)
    }

    /// Returns the damage for a corruption in a file of this segment, or in its `part`.
    fn damage(&self, path: PathBuf, part: &str, corruption: &Corruption) -> Damage {
        let dataset = self.manifest.dataset;
        Damage {
            name: Some(self.name.to_string()),
            dataset: Some(dataset),
            segment: Some(self.index),
            panel: None,
            path: Some(path),
            problem: format!(
                "{part}segment {} of dataset {dataset} {corruption}. {}",
                self.index,
                corruption.remedy()
            ),
        }
    }
}

impl fmt::Debug for Scrub {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Scrub({:?})", self.scrubbed)
    }
}

/// Opens the catalogue of a namespace; `None` if it has none and never had one.
fn read_catalogue(common: &Common, name: &str) -> Result<Option<Catalogue>, StoreError> {
    let home = home_of(&common.home, name);
    if !has_catalogue(&home)? {
        return Ok(None);
    }
    let identity = CatalogueIdentity::new(common.id, name);
    Catalogue::read(&home.join(CATALOGUE), &identity).map(Some)
}

/// Returns true for a damaged file or a dangling link: the rest can still be checked.
fn is_damage(error: &StoreError) -> bool {
    let is_link = matches!(error, StoreError::Format(FormatError::DanglingLink { .. }));
    is_link || error.kind() == ErrorKind::DataLoss
}

/// Returns the segments that a manifest names.
fn targets(
    namespace: &Arc<Namespace>,
    table: Table,
    name: &str,
    manifest: Manifest,
) -> impl Iterator<Item = Target> {
    let (namespace, name, manifest) = (Arc::clone(namespace), Arc::from(name), Arc::new(manifest));
    (0..manifest.segments.len() as u32).map(move |index| Target {
        namespace: Arc::clone(&namespace),
        table,
        name: Arc::clone(&name),
        manifest: Arc::clone(&manifest),
        index,
    })
}

/// Reports datasets that have files but no row in the catalogue.
fn forgotten(namespace: &Namespace, state: &State) -> Result<Vec<Damage>, StoreError> {
    let mut forgotten = Vec::new();
    for name in names(&namespace.home.join(SEGMENTS))? {
        let Ok(id) = name.parse::<DatasetId>() else {
            continue;
        };
        let path = namespace.dataset(id);
        if is_forgotten(state, id, &path)? {
            forgotten.push(Damage {
                dataset: Some(id),
                path: Some(path),
                ..Damage::of(format_args!(
                    "dataset {id} is here but not in the catalogue. Restore a newer catalogue.sqlite from a \
                     backup, or have its owner upload it again."
                ))
            });
        }
    }
    Ok(forgotten)
}

#[cfg(all(test, target_os = "linux"))]
mod tests;
