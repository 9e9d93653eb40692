//! The owner's encrypted datasets: shuffling, encryption, the owner's record, and the versions after appends, erasures
//! and compactions.
//!
//! Everything here sees plaintext or secrets, and runs at the owner, never on the server. A version is published only
//! after its record opens as a later command would open it.

mod dataset;
mod encryption;
mod error;
mod progress;
mod ranges;
pub mod record;
mod rewrite;
pub mod shuffled;

pub use dataset::{Dataset, DatasetPlan, NewItems, Target};
pub use error::{DatasetError, RecordError};
pub use progress::Progress;
pub use ranges::MOST_PAIR_COLUMNS;
pub use record::{Failure, OwnerRecord, Reliance, Trust};
pub use rewrite::{Compaction, Erasure, FoundRow, RowSelection};
pub use shuffled::{Cells, PAIR_COLUMNS, Shuffled, Shuffler, unpack_row_ids};
