//! Names and messages, formatted for display.

use crate::errors::Failure;
use bytesize::ByteSize;
use oboro_input::Names;
use pyo3::prelude::*;

/// Returns `text` on one line, with control sequences escaped.
#[pyfunction]
pub fn escaped(text: &str) -> String {
    oboro_input::escaped(text).into_owned()
}

/// Formats an itemset of these names as `oboro mine` does.
#[pyfunction]
pub fn itemset(names: Vec<String>) -> String {
    Names(&names).to_string()
}

/// Parses a size such as `2GiB`, as in the options of `oboro`; returns bytes.
#[pyfunction]
pub fn size(text: &str) -> Result<u64, Failure> {
    match text.parse::<ByteSize>() {
        Ok(size) => Ok(size.as_u64()),
        Err(_) => Err(Failure::input(format!(
            "{text:?} is not a size; give bytes, or a size such as 2GiB"
        ))),
    }
}
