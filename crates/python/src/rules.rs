//! Metrics of association rules, computed for many rules at a time.

use crate::errors::Failure;
use numpy::{IntoPyArray, PyArray1, PyReadonlyArray1};
use oboro_mining::Metric;
use oboro_mining::rules::metrics::SupportColumns;
use pyo3::prelude::*;

/// Returns all metrics: name, meaning, and `true` if mlxtend has it. Metrics of mlxtend use its names.
#[pyfunction]
pub fn rule_metrics() -> Vec<(&'static str, String, bool)> {
    let described = |metric: Metric| {
        let mlxtend = metric.mlxtend();
        let name = mlxtend.unwrap_or(metric.name());
        (name, metric.meaning(), mlxtend.is_some())
    };
    Metric::ALL.map(described).into()
}

/// Computes a metric of each rule, from the columns of [`SupportColumns::new`].
#[pyfunction]
pub fn rule_metric<'py>(
    py: Python<'py>,
    metric: &str,
    columns: [PyReadonlyArray1<'py, f64>; 8],
    transactions: f64,
) -> PyResult<Bound<'py, PyArray1<f64>>> {
    let metric: Metric = metric.parse().map_err(Failure::input)?;
    let mut slices = [&[][..]; 8];
    for (slice, column) in slices.iter_mut().zip(&columns) {
        *slice = column.as_slice()?;
    }
    let supports = SupportColumns::new(slices, transactions)
        .ok_or_else(|| Failure::input("rules need columns of one length"))?;
    let values = py.detach(|| metric.from_supports(&supports));
    Ok(values.into_pyarray(py))
}
