//! Progress of an encryption.

use std::ops::ControlFlow;

/// Callback before the first and after every encrypted block-column, with the number done and the total. A break ends
/// the encryption.
pub type Progress<'a> = &'a (dyn Fn(u64, u64) -> ControlFlow<()> + Sync);
