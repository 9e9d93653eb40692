//! Ways to ask a server about a dataset, through a relay that may lie.

use crate::common::{Running, connect, connect_to, serve, two};
use oboro_client::{Answers, ClientError, Connection, Mining, row_ids, upload};
use oboro_dataset::{Dataset, NewItems, Shuffled, Target};
use oboro_input::{MinSupport, Transactions};
use oboro_mining::{AprioriError, AprioriOptions};
use oboro_protocol::v1;
use oboro_relay::{Answer, Asked, Relay};
use oboro_rlwe::MasterKey;
use prost::Message;
use std::fmt::Debug;
use std::num::NonZeroUsize;
use std::ops::{ControlFlow, Range};
use std::path::{Path, PathBuf};
use tempfile::TempDir;

/// Name of the dataset at the server.
pub const NAME: &str = "dataset";
/// Number of items of the dataset.
pub const ITEMS: usize = 5;
/// Length of the longest itemsets that the server counts.
pub const LONGEST: u32 = 4;

pub fn go_on(_: u64, _: u64) -> ControlFlow<()> {
    ControlFlow::Continue(())
}

/// Returns rows with ids, all with some of the items.
pub fn rows(numbers: Range<usize>) -> Shuffled {
    let basket = |i: usize| (0..ITEMS).filter(move |item| !(i + item).is_multiple_of(3));
    let names = |i: usize| basket(i).map(|item| item.to_string());
    let named = numbers.clone().map(|i| Vec::from_iter(names(i)));
    let ids = numbers.map(|i| format!("{i:06}")).collect();
    let rows = Transactions::from_named(named).unwrap();
    Shuffled::of(rows.with_row_ids(ids).unwrap())
}

/// Server with a dataset, and a relay to it.
pub struct Scene {
    pub relay: Relay,
    pub server: Running,
    pub dataset: Dataset,
    pub key: MasterKey,
    directory: TempDir,
}

impl Scene {
    /// Creates the scene without an upload.
    pub fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let server = serve(&directory.path().join("store"), 0);
        let key = MasterKey::generate().unwrap();
        let path = directory.path().join(NAME);
        Self {
            relay: Relay::to(server.url()),
            dataset: encrypted(rows(0..60), &key, &path),
            server,
            key,
            directory,
        }
    }

    pub fn uploaded() -> Self {
        let scene = Self::new();
        scene.upload();
        scene
    }

    /// Creates the scene with a second stratum, of more transactions than fit into the plaintext modulus: the first
    /// range is followed by a total and its sample.
    pub fn with_sample() -> Self {
        let mut scene = Self::new();
        scene.change(|it| it.append(rows(60..45_060), NewItems::Refuse, two(), &go_on));
        scene
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// Connects to the server itself.
    pub fn connect(&self) -> Connection {
        connect(&self.server)
    }

    /// Connects through the relay, which alters answers this way from now on.
    pub fn relay(
        &self,
        alter: impl Fn(&str, &[u8], &mut Answer) + Send + Sync + 'static,
    ) -> Connection {
        self.relay.alter(alter);
        connect_to(self.relay.url())
    }

    pub fn upload(&self) {
        upload(&self.connect(), self.dataset.bundle(), NAME, &|_, _| {}).unwrap();
    }

    /// Changes the dataset and uploads it.
    pub fn change<E: Debug>(&mut self, change: impl FnOnce(&Dataset) -> Result<Dataset, E>) {
        self.dataset = change(&self.dataset).unwrap();
        self.upload();
    }

    /// Asks through the relay.
    pub fn ask(&self, way: Way) -> Result<String, ClientError> {
        way.ask(&self.dataset, &connect_to(self.relay.url()))
    }

    /// Returns the requests since the last call, but those for the published version.
    pub fn asked(&self) -> Vec<Asked> {
        let mut asked = self.relay.asked();
        asked.retain(|(call, _)| call != "DescribeDataset");
        asked
    }

    /// Returns the honest result of a question, and its requests.
    pub fn honest(&self, way: Way) -> (String, Vec<Asked>) {
        self.relay.pass();
        self.asked();
        let result = self.ask(way).unwrap();
        self.noted();
        (result, self.asked())
    }

    /// Returns true if a false answer was noted, and resets trust.
    pub fn noted(&self) -> bool {
        let failure = self.dataset.trust().unwrap().failure;
        self.dataset.reset_trust().unwrap();
        failure.is_some()
    }
}

/// Encrypts rows in a new directory.
pub fn encrypted(rows: Shuffled, key: &MasterKey, path: &Path) -> Dataset {
    let longest = LONGEST as usize;
    Dataset::create(rows, key, Target::New(path), longest, two(), &go_on).unwrap()
}

/// Route of supports, or another question.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Way {
    Cells,
    Count,
    RowIds,
    Pairs,
    Longer,
    Row(&'static str),
    Trusted,
}

pub const ROW: Way = Way::Row("3");
/// Ways that fetch sealed cells.
pub const BY_CELLS: [Way; 3] = [Way::Cells, Way::Count, Way::RowIds];
/// Ways that have the server count.
pub const BY_COUNTING: [Way; 4] = [Way::Pairs, Way::Longer, ROW, Way::Trusted];

/// Returns all ways.
pub fn ways() -> impl Iterator<Item = Way> {
    BY_CELLS.into_iter().chain(BY_COUNTING)
}

impl Way {
    /// Asks; returns the result as text.
    pub fn ask(self, dataset: &Dataset, connection: &Connection) -> Result<String, ClientError> {
        let mining = Mining::new(dataset, NAME, two());
        let connect = || Ok(connection.clone());
        let (answers, longest) = match self {
            Self::Row(item) => {
                let pairs = mining.pairs_with(item, connect)?;
                return Ok(format!("{:?}", pairs.together));
            }
            Self::RowIds => {
                let rows = row_ids(dataset, NAME, two(), connect, |_, _| {})?;
                return Ok(format!("{rows:?}"));
            }
            Self::Count => {
                let itemsets = [vec!["0", "1"], vec!["2", "3", "4"]];
                let itemsets = itemsets.map(|it| it.into_iter().map(str::to_owned).collect());
                let (supports, _) = mining.supports_of(&itemsets, connect)?;
                return Ok(format!("{supports:?}"));
            }
            Self::Cells => (Answers::Cells, 3),
            Self::Longer => (Answers::Moments, LONGEST as usize),
            Self::Pairs | Self::Trusted => (Answers::Moments, 2),
        };
        let options =
            AprioriOptions::new(MinSupport::Fraction(0.1)).with_max_len(NonZeroUsize::new(longest));
        let mining = mining.by(answers).trusting_server(self == Self::Trusted);
        match mining.run(options, connect) {
            Ok(mined) => Ok(format!("{:?}", mined.found)),
            Err(AprioriError::Counter(error)) => Err(error),
            Err(other) => panic!("{other}"),
        }
    }

    pub fn is_by_cells(self) -> bool {
        BY_CELLS.contains(&self)
    }

    /// Returns true if this is the answer to alter: of several, the last one.
    pub fn is_asked(self, call: &str, request: &[u8]) -> bool {
        match self {
            _ if self.is_by_cells() => call == "FetchColumns",
            Self::Longer => call == "Count" && length(request) == LONGEST,
            _ => call == "Count",
        }
    }
}

/// Returns the length of the itemsets that a request is about.
pub fn length(request: &[u8]) -> u32 {
    v1::CountRequest::decode(request).map_or(0, |it| it.length)
}
