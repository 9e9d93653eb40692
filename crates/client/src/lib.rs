//! Owner's connection to a server: upload, listing, mining and search over encrypted data.
//!
//! Calls block; each connection has its own runtime. [`Mining`] finds the frequent itemsets of an uploaded dataset.
//! Requests, retries, errors and results depend only on [`Verified`] answers, unless the owner explicitly trusts the
//! server.

mod cache;
mod connection;
mod counting;
mod datasets;
mod error;
mod fetch;
mod forecast;
mod gate;
pub mod genome;
mod guard;
mod items;
mod levels;
mod mine;
mod moments;
mod proxy;
mod recovery;
mod retries;
mod row_ids;
mod scrub;
mod silence;
mod sums;
mod upload;
mod verify;
mod workers;

pub use cache::{decode_kept, forget_kept};
pub use connection::{Connection, Identity, NodePages, Options, Placement};
pub use datasets::{DeletedDataset, Grant, Listing, Query, UnfinishedUpload, UnpublishedData};
pub use error::{ClientError, NamedVersion, utc};
pub use fetch::FetchCost;
pub use forecast::{LevelForecast, Prospect, RouteForecast};
pub use gate::VersionCheck;
pub use levels::{Level, LevelTrace, Route};
pub use mine::{
    Answers, KEPT_BYTES, Mining, MiningReport, MiningResult, PairSupports, Pairs, Unverified,
};
pub use recovery::{Recovery, RecoveryCopy, keep_record};
pub use row_ids::{StoredRow, row_ids};
pub use scrub::Scrubbing;
pub use silence::Wait;
pub use upload::{UploadReport, note_uploaded, upload};
pub use verify::Verified;
