//! Native module `oboro._oboro` of the Python package `oboro`.
//!
//! This layer is thin: each class wraps a type of the owner's crates in Python's terms. The Python files in
//! `python/oboro`, its only callers, handle names, defaults and data frames; `_oboro.pyi` there declares this module.
//! Long-running calls go through `call::run`.

mod arrow;
mod call;
mod encrypted;
mod errors;
mod genome;
mod keys;
mod mine;
mod rows;
mod rules;
mod server;
mod text;
mod worker;

#[pyo3::pymodule]
mod _oboro {
    #[pymodule_export]
    use crate::call::Interrupt;
    #[pymodule_export]
    use crate::encrypted::Encrypted;
    #[pymodule_export]
    use crate::genome::{find_in_reference, genomes, load_panel, load_reference, query_panel};
    #[pymodule_export]
    use crate::keys::Keys;
    #[pymodule_export]
    use crate::mine::{mine, more_columns, pairs_with, row_ids};
    #[pymodule_export]
    use crate::rows::Rows;
    #[pymodule_export]
    use crate::rules::{rule_metric, rule_metrics};
    #[pymodule_export]
    use crate::server::Server;
    #[pymodule_export]
    use crate::text::{escaped, itemset, size};
    #[pymodule_export]
    use crate::worker::{Work, Worker, serve, speak_as_command};

    use oboro_format::wording::Vocabulary;
    use pyo3::prelude::*;

    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        Vocabulary::Python.set();
        module.add("__version__", env!("CARGO_PKG_VERSION"))
    }
}
