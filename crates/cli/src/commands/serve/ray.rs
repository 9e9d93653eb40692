//! `oboro serve --ray`: the server of the Python package, which has queries counted on a Ray cluster, takes
//! this process over.

use super::Arguments;
use crate::output::{Failure, Output};
use std::ffi::OsString;
use std::io;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};

/// The Python that has the package, unless the environment names another as `OBORO_PYTHON`.
const PYTHON: &str = "python3";

/// Becomes the server at home in the cluster at `address`; why it did not.
pub(super) fn become_coordinator(
    arguments: &Arguments,
    address: &str,
    output: Output,
) -> Result<(), Failure> {
    let python = std::env::var_os("OBORO_PYTHON").unwrap_or_else(|| PYTHON.into());
    let found = Command::new(&python)
        .args(["-c", "import oboro.ray, ray"])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    let name = python.display();
    match found {
        Ok(status) if status.success() => {}
        Ok(_) => {
            return Err(format!(
                "--ray needs Oboro's Python package and Ray, and {name} has not both; install them with {name} -m pip install 'oboro[ray]', or name the Python that has them in OBORO_PYTHON"
            )
            .into());
        }
        Err(error) => return Err(not_started(&python, &error)),
    }
    let error = Command::new(&python)
        .args(["-m", "oboro.ray", address])
        .args(options(arguments, output))
        .exec();
    Err(not_started(&python, &error))
}

fn not_started(python: &OsString, error: &io::Error) -> Failure {
    let python = python.display();
    format!("--ray needs Python, but {python} cannot be started ({error}); install Python, or name it in OBORO_PYTHON").into()
}

/// The options as `python -m oboro.ray` has them, sizes in bytes.
fn options(arguments: &Arguments, output: Output) -> Vec<OsString> {
    let mut options = Vec::new();
    let mut give =
        |name: &str, value: OsString| options.extend([format!("--{name}").into(), value]);
    give("data", (&arguments.data).into());
    if let Some(cache) = &arguments.cache {
        give("cache", cache.into());
    }
    if let Some(tokens) = &arguments.token_file {
        give("token-file", tokens.into());
    }
    if let Some(threads) = arguments.threads.given() {
        give("threads", threads.to_string().into());
    }
    if let Some(memory) = arguments.memory {
        give("memory", memory.as_u64().to_string().into());
    }
    give("listen", arguments.listen.to_string().into());
    let limits = arguments.limits.limits();
    for (name, value) in [
        ("moment-cache", arguments.moment_cache.as_u64()),
        ("message-bytes", limits.message_bytes as u64),
        ("dataset-bytes", limits.dataset_bytes),
        ("itemsets", limits.itemsets as u64),
        ("queries", limits.queries as u64),
        ("queries-per-client", limits.queries_per_client as u64),
        ("query-seconds", limits.query_time.as_secs()),
        ("search-bytes", limits.search_bytes),
    ] {
        give(name, value.to_string().into());
    }
    if let (Some(certificate), Some(key)) = (&arguments.tls_cert, &arguments.tls_key) {
        options.extend(["--tls".into(), certificate.into(), key.into()]);
    }
    if output.is_json() {
        options.push("--json".into());
    }
    options
}
