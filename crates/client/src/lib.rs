//! The owner's connection to a server: upload, listing, and counting over encrypted data.
//!
//! Calls block; a runtime of their own drives the connection. [`EncryptedCounter`] makes an
//! uploaded dataset a [`SupportCounter`](oboro_mining::SupportCounter), so that Apriori runs on it
//! as it does on plaintext.

mod columns;
mod connection;
mod counter;
mod error;
mod forecast;
mod genome;
mod levels;
mod scrub;
mod upload;
mod workers;

pub use connection::{Connection, Listing, NodePages, Options, Placement};
pub use counter::{Answered, Answers, EncryptedCounter, LevelTrace};
pub use error::ClientError;
pub use forecast::{LevelForecast, Prospect};
pub use genome::{
    Decoys, GenomeInfo, GenomeListing, GenomeShape, Outcome, Place, Question, Symbols, Where,
};
pub use levels::Level;
pub use scrub::Scrubbing;
pub use upload::{Uploaded, upload};
