//! Layout of ciphertext in files and on the wire, shared by owner and server.
//!
//! A dataset is a list of *segments* of up to 64 blocks; in a segment each (limb, column) is one contiguous *panel*,
//! the unit of checksum, I/O and caching. A [`Manifest`] describes one version of a dataset and covers every byte of it
//! by digests; the owner remembers its [`Manifest::root`]. A [`Bundle`] is a dataset on the owner's disk. A recovery
//! copy holds the bundle's files other than ciphertext, sealed, for a server to keep.
//!
//! Nothing here is secret or can decrypt. Databases and object storage belong to the server's crates. `docs/formats.md`
//! specifies the bytes. [`wording`] names settings in messages.

mod bundle;
mod class;
pub mod codec;
mod error;
pub mod files;
mod id;
mod limits;
mod listing;
mod manifest;
mod names;
mod recovery;
mod roles;
mod segment;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
pub mod wording;

pub use bundle::{Bundle, BundleWriter, MAX_SEALED_BYTES};
pub use class::ErrorClass;
pub use error::{Corruption, ErrorKind, FormatError};
pub use id::{DatasetId, Digest, ParseError};
pub use limits::{
    BLOCKS_PER_SEGMENT, CELL_SEAL_BYTES, MAX_COLUMNS, MAX_RECOVERY_BYTES, MAX_ROW_ID_BYTES,
};
pub use listing::{Damage, DatasetInfo, Scrubbed};
pub use manifest::{MAX_MANIFEST_BYTES, MAX_SEGMENTS, Manifest, SegmentEntry};
pub use names::{DEFAULT_NAMESPACE, MAX_CALLER_CHARS, MAX_NAME_CHARS, is_caller, is_name};
pub use recovery::{
    RecoveryContent, RecoveryHead, check_recovery, check_recovery_length, decode_recovery,
    encode_recovery,
};
pub use roles::{Role, RoleError, Roles};
pub use segment::{
    PanelReader, PartExtent, ReadError, Segment, SegmentDescription, SegmentFile, SegmentHeader,
    SegmentWriter, forget_cached, full_panel_bytes, leave_descriptors, sealed_columns,
    segment_bytes, unpack_into,
};
