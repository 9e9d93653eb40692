//! What owners use, in lines that a bill can be made from: calls, bytes, time of the threads that compute, bytes that are stored.
//!
//! It is counted in memory. Once an hour and when the server ends, a line for each owner is appended to a file for each month; a
//! server that is killed loses what it counted since, which nobody is charged for.

use crate::clients::Client;
use crate::middleware::{Observer, observed};
use crate::whole_lines::whole_lines;
use http_body::Frame;
use oboro_format::FormatError;
use oboro_format::files::{ensure_directory, exists, io_error, names, sync_directory};
use oboro_store::DEFAULT_NAMESPACE;
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs::{self, OpenOptions};
use std::io::{Seek, SeekFrom, Write};
use std::ops::{Add, Sub};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use time::OffsetDateTime;
use tonic::Status;
use tonic::body::Body;
use tonic::codegen::Bytes;

/// The directory of the files, in the data directory.
const DIRECTORY: &str = "usage";
const EXTENSION: &str = ".jsonl";

/// What one owner has used.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Used {
    /// Calls, refused ones included.
    pub calls: u64,
    /// Bytes of messages that it sent.
    pub received_bytes: u64,
    /// Bytes of the answers that it took.
    pub sent_bytes: u64,
    /// Time of threads that counted or searched for it.
    pub compute_microseconds: u64,
}

/// A line of a file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Line {
    /// Seconds since the beginning of 1970.
    from: i64,
    to: i64,
    owner: String,
    #[serde(flatten)]
    used: Used,
    /// At the end of that time.
    stored_bytes: u64,
}

/// The sum of one owner's lines.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct OwnerUsage {
    /// What it has used.
    pub used: Used,
    /// Bytes that were stored, times the seconds that they were.
    pub stored_byte_seconds: u128,
}

/// Counts what owners use.
#[derive(Debug)]
pub(crate) struct Meter(Mutex<State>);

#[derive(Debug)]
struct State {
    /// When it was written last.
    since: i64,
    /// Since the server started.
    used: BTreeMap<Arc<str>, Used>,
    /// What of that has been written.
    written: BTreeMap<Arc<str>, Used>,
}

impl Meter {
    pub(crate) fn new(now: OffsetDateTime) -> Self {
        Self(Mutex::new(State {
            since: now.unix_timestamp(),
            used: BTreeMap::new(),
            written: BTreeMap::new(),
        }))
    }

    /// What each owner has used since the server started.
    pub(crate) fn used(&self) -> Vec<(Arc<str>, Used)> {
        let state = self.0.lock();
        let used = state.used.iter();
        used.map(|(owner, used)| (Arc::clone(owner), *used))
            .collect()
    }

    fn add(&self, client: &Client, change: impl FnOnce(&mut Used)) {
        let owner = match client {
            Client::Named(name) => name,
            Client::Connected(_) => DEFAULT_NAMESPACE,
        };
        let mut state = self.0.lock();
        match state.used.get_mut(owner) {
            Some(used) => change(used),
            None => change(state.used.entry(owner.into()).or_default()),
        }
    }

    pub(crate) fn computed(&self, client: &Client, time: Duration) {
        let microseconds = u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
        self.add(client, |used| used.compute_microseconds += microseconds);
    }

    /// Counts a call, and the bytes of its request as they are received.
    pub(crate) fn request(self: &Arc<Self>, client: &Client, body: Body) -> Body {
        self.add(client, |used| used.calls += 1);
        let count = |used: &mut Used, bytes| used.received_bytes += bytes;
        observed(body, self.metered(client, count))
    }

    /// Counts the bytes of an answer as they are taken.
    pub(crate) fn answer(self: &Arc<Self>, client: &Client, body: Body) -> Body {
        let count = |used: &mut Used, bytes| used.sent_bytes += bytes;
        observed(body, self.metered(client, count))
    }

    fn metered(self: &Arc<Self>, client: &Client, count: fn(&mut Used, u64)) -> Metered {
        Metered {
            meter: Arc::clone(self),
            client: client.clone(),
            count,
        }
    }

    /// Appends a line for each owner of whom something was counted or is `stored` to the file of this month in `home`.
    ///
    /// # Errors
    /// A disk that fails: then what was counted is written the next time.
    pub(crate) fn write(
        &self,
        home: &Path,
        stored: &[(Arc<str>, u64)],
        now: OffsetDateTime,
    ) -> Result<(), FormatError> {
        let to = now.unix_timestamp();
        let (from, used, before) = {
            let state = self.0.lock();
            (state.since, state.used.clone(), state.written.clone())
        };
        let mut owners: BTreeMap<Arc<str>, (Used, u64)> = BTreeMap::new();
        for (name, used) in &used {
            let new = *used - before.get(name).copied().unwrap_or_default();
            if new != Used::default() {
                owners.insert(Arc::clone(name), (new, 0));
            }
        }
        for (name, bytes) in stored {
            owners.entry(Arc::clone(name)).or_default().1 = *bytes;
        }
        let lines = owners.iter().map(|(owner, &(used, stored_bytes))| {
            let line = Line {
                from,
                to,
                owner: owner.to_string(),
                used,
                stored_bytes,
            };
            let line = serde_json::to_string(&line);
            line.map(|it| it + "\n").unwrap_or_default()
        });
        let lines: String = lines.collect();
        let month = format!("{}-{:02}{EXTENSION}", now.year(), u8::from(now.month()));
        append(&home.join(DIRECTORY), &month, &lines)?;
        let mut state = self.0.lock();
        state.since = to;
        state.written = used;
        Ok(())
    }
}

impl Used {
    fn with(self, other: Self, each: fn(u64, u64) -> u64) -> Self {
        Self {
            calls: each(self.calls, other.calls),
            received_bytes: each(self.received_bytes, other.received_bytes),
            sent_bytes: each(self.sent_bytes, other.sent_bytes),
            compute_microseconds: each(self.compute_microseconds, other.compute_microseconds),
        }
    }
}

impl Add for Used {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        self.with(other, u64::add)
    }
}

impl Sub for Used {
    type Output = Self;

    fn sub(self, other: Self) -> Self {
        self.with(other, u64::sub)
    }
}

/// Appends whole lines to a file, durably. What a crash left of a line is removed first.
fn append(directory: &Path, name: &str, lines: &str) -> Result<(), FormatError> {
    if lines.is_empty() {
        return Ok(());
    }
    ensure_directory(directory)?;
    let path = directory.join(name);
    // Lines that count must not be written again because only the name of a new file could not be made durable.
    let is_new = !exists(&path)?;
    let mut options = OpenOptions::new();
    let options = options.read(true).write(true).create(true).truncate(false);
    let mut file = options
        .mode(0o600)
        .open(&path)
        .map_err(io_error("open", &path))?;
    if is_new {
        sync_directory(directory)?;
    }
    let end = whole_lines(&mut file).map_err(io_error("read", &path))?;
    let written = file
        .set_len(end)
        .and_then(|()| file.seek(SeekFrom::Start(end)))
        .and_then(|_| file.write_all(lines.as_bytes()))
        .and_then(|()| file.sync_all());
    if let Err(error) = written {
        // Best effort: a part that stays is removed the next time, if it is no whole line.
        let _ = file.set_len(end);
        return Err(io_error("write", &path)(error));
    }
    Ok(())
}

/// Sums up what owners used, by owner: in one month, as `2026-11`, or ever since.
///
/// # Errors
/// A file that cannot be read, or that has lines which are none.
pub fn usage(
    home: &Path,
    month: Option<&str>,
) -> Result<BTreeMap<String, OwnerUsage>, FormatError> {
    let directory = home.join(DIRECTORY);
    let mut all: BTreeMap<String, OwnerUsage> = BTreeMap::new();
    for name in names(&directory)? {
        let Some(of) = name.strip_suffix(EXTENSION) else {
            continue;
        };
        if month.is_some_and(|month| month != of) {
            continue;
        }
        let path = directory.join(&name);
        let text = fs::read_to_string(&path).map_err(io_error("read", &path))?;
        // The last one may be half there, for a moment or since a crash.
        for line in text.split_inclusive('\n').filter(|it| it.ends_with('\n')) {
            let line: Line = serde_json::from_str(line)
                .map_err(|error| io_error("understand", &path)(error.into()))?;
            let owner = all.entry(line.owner).or_default();
            owner.used = owner.used + line.used;
            let seconds = u128::try_from(line.to - line.from).unwrap_or(0);
            owner.stored_byte_seconds += u128::from(line.stored_bytes) * seconds;
        }
    }
    Ok(all)
}

/// Counts the bytes of a body.
struct Metered {
    meter: Arc<Meter>,
    client: Client,
    count: fn(&mut Used, u64),
}

impl Observer for Metered {
    fn observe(&mut self, frame: &mut Result<Frame<Bytes>, Status>) {
        if let Some(data) = frame.as_ref().ok().and_then(Frame::data_ref) {
            let count = self.count;
            self.meter
                .add(&self.client, |used| count(used, data.len() as u64));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use http_body_util::BodyExt;
    use tempfile::TempDir;

    fn at(seconds: i64) -> OffsetDateTime {
        OffsetDateTime::from_unix_timestamp(seconds).unwrap()
    }

    #[tokio::test]
    async fn what_owners_use_is_written_and_summed_up() {
        let home = TempDir::new().unwrap();
        let meter = Arc::new(Meter::new(at(1_000)));
        let [alice, bob] = ["alice", "bob"].map(|name| Client::Named(name.into()));
        for (client, bytes) in [(&alice, 10), (&alice, 5), (&bob, 7)] {
            let body = Body::new(http_body_util::Full::new(Bytes::from(vec![0; bytes])));
            let received = meter.request(client, body).collect().await.unwrap();
            let answer = Body::new(http_body_util::Full::new(received.to_bytes()));
            meter.answer(client, answer).collect().await.unwrap();
        }
        meter.computed(&alice, Duration::from_millis(3));
        let stored = [("alice".into(), 100), ("carol".into(), 1)];
        meter.write(home.path(), &stored, at(1_010)).unwrap();
        meter.computed(&Client::Connected(None), Duration::from_micros(1));
        meter.write(home.path(), &stored, at(3_000_000)).unwrap();
        let all = usage(home.path(), None).unwrap();
        assert_eq!(
            Vec::from_iter(all.keys()),
            ["alice", "bob", "carol", "default"]
        );
        let alice = all["alice"];
        let used = Used {
            calls: 2,
            received_bytes: 15,
            sent_bytes: 15,
            compute_microseconds: 3_000,
        };
        assert_eq!(alice.used, used);
        assert_eq!(alice.stored_byte_seconds, 100 * (3_000_000 - 1_000));
        let first = usage(home.path(), Some("1970-01")).unwrap();
        assert_eq!(first["alice"].stored_byte_seconds, 1_000);
        assert!(!first.contains_key("default"));
    }

    #[test]
    fn what_could_not_be_written_is_not_lost_and_torn_lines_are_none() {
        let home = TempDir::new().unwrap();
        let meter = Meter::new(at(0));
        let client = Client::Named("alice".into());
        meter.computed(&client, Duration::from_micros(5));
        // Something else has the directory's name.
        let path = home.path().join(DIRECTORY);
        fs::write(&path, b"").unwrap();
        assert!(meter.write(home.path(), &[], at(10)).is_err());
        fs::remove_file(&path).unwrap();
        meter.computed(&client, Duration::from_micros(2));
        meter.write(home.path(), &[], at(20)).unwrap();
        let of_alice = || usage(home.path(), None).unwrap()["alice"];
        assert_eq!(of_alice().used.compute_microseconds, 7);
        let file = path.join("1970-01.jsonl");
        let mut text = fs::read_to_string(&file).unwrap();
        assert!(text.contains("\"from\":0,\"to\":20"), "{text}");
        text.push_str("{\"from\":20,\"to");
        fs::write(&file, &text).unwrap();
        assert_eq!(of_alice().used.compute_microseconds, 7);
        meter.computed(&client, Duration::from_micros(1));
        meter.write(home.path(), &[], at(30)).unwrap();
        assert_eq!(of_alice().used.compute_microseconds, 8);
        assert_eq!(fs::read_to_string(&file).unwrap().lines().count(), 2);
    }
}
