//! Shared-mask BGV: the only code in Oboro that touches secrets.
//!
//! Column `i` of a dataset has one ternary secret `s_i`; block `b` has one public mask `a_b` shared by its columns. A
//! ciphertext is `c = m + t·e − a_b·s_i` in evaluation form. A server sums products of ciphertexts and masks to
//! moments; [`Combiner`] computes supports from moments. `docs/cryptography.md` has scheme, proofs and bounds.
//!
//! No value that holds a secret implements a revealing `Debug`, and every buffer that held one is wiped when dropped.

mod block;
mod cells;
mod combine;
mod decoder;
mod encrypt;
mod fingerprint;
mod fixed;
mod focus;
mod key;
mod key_file;
mod noise;
mod order;
mod pairs;
mod passphrase;
mod planner;
mod prefix_tokens;
mod prefixes;
mod prf;
mod private_file;
mod query;
mod range;
mod range_file;
mod seal;
mod secrets;
mod totals;

pub use block::BlockResidues;
pub use cells::{CELL_SEAL_BYTES, CellsId};
pub use combine::{Answer, CombineError, Combiner, Partial, Phases};
pub use encrypt::{Block, EncryptError, Encryptor};
pub use focus::Pass;
pub use key::{DatasetKey, KeyCheck, MasterKey, RowHash, SecretGeneration};
pub use key_file::KeyFileError;
pub use noise::{BlockNoise, NORM_LIMIT, PEAK_LIMIT, PLAINTEXT_PEAK_LIMIT, log2_phase_bound};
pub use order::{ColumnOrder, OrderError};
pub use pairs::{PairReader, PairsError, Sums, VerifiedPairs};
pub use passphrase::{
    PASSPHRASE_SEAL_BYTES, Passphrase, PassphraseError, open_under_passphrase,
    seal_under_passphrase,
};
pub use planner::{Alternative, PlanError, Verdict, alternatives, plan};
pub use prefix_tokens::{LONGEST_VERIFIED, VerifiedLimbs};
pub use prefixes::{
    PrefixError, PrefixQuery, PrefixReader, VerificationError, VerifiedMoments, prefix_bytes,
};
pub use private_file::{PrivateFileError, open_private};
pub use query::{QueryCiphertexts, QueryKey};
pub use range::{RangeLimb, RangeSums};
pub use range_file::RangeError;
pub use seal::SealError;
pub use totals::{Bounds, Extent, Products, ShuffledRows, Strata, Stratum};
