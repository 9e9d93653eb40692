//! Names and messages as they are shown to people.

use oboro_mining::Names;
use pyo3::prelude::*;

/// `text` on one line, with escapes for what would steer a terminal.
#[pyfunction]
pub fn escaped(text: &str) -> String {
    oboro_mining::escaped(text).into_owned()
}

/// An itemset of these names, as `oboro mine` prints it.
#[pyfunction]
pub fn itemset(names: Vec<String>) -> String {
    Names(&names).to_string()
}
