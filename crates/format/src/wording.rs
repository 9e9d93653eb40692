//! Names of settings and actions in messages. A library names the setting; the program chooses the vocabulary once, at
//! startup: `--max-len 4` for the command, `max_len=4` for Python.
//!
//! Settings and actions that exist only on the command line have the command's name in both vocabularies.

use std::fmt::{self, Write};
use std::sync::atomic::{AtomicBool, Ordering};

/// Vocabulary in which messages name settings and actions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Vocabulary {
    /// Options and subcommands of the `oboro` command, the default.
    Command,
    /// Arguments and methods of the Python package.
    Python,
}

static IN_PYTHON: AtomicBool = AtomicBool::new(false);

impl Vocabulary {
    /// Selects this vocabulary for all later messages of the process.
    pub fn set(self) {
        IN_PYTHON.store(self == Self::Python, Ordering::Relaxed);
    }

    /// Returns the vocabulary of this process.
    pub fn current() -> Self {
        if IN_PYTHON.load(Ordering::Relaxed) {
            Self::Python
        } else {
            Self::Command
        }
    }
}

/// Setting of a caller.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Setting {
    /// Name of the command's option, with underscores.
    name: &'static str,
    /// Name of Python's argument, if it exists.
    argument: Option<&'static str>,
}

impl Setting {
    /// Creates a setting with one name in both vocabularies.
    const fn new(name: &'static str) -> Self {
        Self::renamed(name, name)
    }

    const fn renamed(name: &'static str, argument: &'static str) -> Self {
        Self {
            name,
            argument: Some(argument),
        }
    }

    /// Creates a setting that only `oboro serve` has.
    const fn of_server(name: &'static str) -> Self {
        Self {
            name,
            argument: None,
        }
    }

    /// Returns the setting with a value.
    pub fn to(self, value: impl Into<Value>) -> Choice {
        Choice {
            setting: self,
            value: Some(value.into()),
        }
    }

    /// Returns the setting with several values: the command's option is repeated, Python's argument is a list.
    pub fn to_each<T: Into<String>>(self, values: impl IntoIterator<Item = T>) -> Choice {
        self.to(Value::Each(values.into_iter().map(Into::into).collect()))
    }
}

// Reading of transaction files.
/// Form of the file.
pub const FORMAT: Setting = Setting::new("format");
/// Separator of cells.
pub const SEPARATOR: Setting = Setting::new("separator");
/// Presence of a header line with column names.
pub const HEADER: Setting = Setting::new("header");
/// Text encoding.
pub const ENCODING: Setting = Setting::new("encoding");
/// Columns that name the transaction.
pub const TRANSACTION_COLUMN: Setting = Setting::new("transaction_column");
/// Column that names the item.
pub const ITEM_COLUMN: Setting = Setting::new("item_column");
/// Columns to leave out.
pub const DROP_COLUMNS: Setting = Setting::new("drop_columns");
/// Treatment of spaces around names.
pub const SPACES: Setting = Setting::new("spaces");
/// Meaning of cells without a value.
pub const MISSING: Setting = Setting::new("missing");
/// Unicode form of names.
pub const UNICODE: Setting = Setting::new("unicode");
/// Separator of items within one cell.
pub const ITEM_SEPARATOR: Setting = Setting::new("item_separator");
/// Number of lines above the data.
pub const SKIP_FIRST: Setting = Setting::new("skip_first");
/// Number of rows below the data.
pub const SKIP_LAST: Setting = Setting::new("skip_last");
/// Hierarchy of items.
pub const TAXONOMY: Setting = Setting::new("taxonomy");
/// Columns whose numbers are binned into items.
pub const BIN: Setting = Setting::renamed("bin", "bins");
/// Column of row ids.
pub const ROW_IDS: Setting = Setting::new("row_ids");

// Encryption and mining.
/// Maximum length of itemsets.
pub const MAX_LEN: Setting = Setting::new("max_len");
/// Minimum support of a frequent itemset.
pub const MIN_SUPPORT: Setting = Setting::new("min_support");
/// Number of itemsets above which mining stops.
pub const STOP_ABOVE: Setting = Setting::new("stop_above");
/// Minimum support of an encrypted item.
pub const MIN_ITEM_SUPPORT: Setting = Setting::new("min_item_support");
/// Treatment of items that are new to a dataset when appending.
pub const NEW_ITEMS: Setting = Setting::new("new_items");
/// Route of answers.
pub const ANSWERS: Setting = Setting::new("answers");
/// Use of unverified answers of the server.
pub const TRUST_SERVER: Setting = Setting::new("trust_server");
/// Mining from cached cells, without a server.
pub const OFFLINE: Setting = Setting::new("offline");
/// Number of columns, by support, all of whose pairs can be counted.
pub const PAIR_COLUMNS: Setting = Setting::new("pair_columns");
/// Items to count with every other item.
pub const FOCUS: Setting = Setting::new("focus");
/// Certificate authorities for servers.
pub const CA: Setting = Setting::renamed("ca", "tls");
/// Client certificate.
pub const CLIENT_CERT: Setting = Setting::new("client_cert");
/// Key of the client certificate.
pub const CLIENT_KEY: Setting = Setting::new("client_key");
/// Location of the token for a server.
pub const TOKEN_FILE: Setting = Setting::renamed("token_file", "token");
/// Counting of the matches of a genome search.
pub const COUNT: Setting = Setting::new("count");
/// Alleles that a genome search asks for.
pub const ALLELES: Setting = Setting::new("alleles");
/// Bases that a genome search asks for.
pub const SEQUENCE: Setting = Setting::new("sequence");
/// Removal of all but the first line of a position in a panel.
pub const SKIP_DUPLICATES: Setting = Setting::new("skip_duplicates");

// Resources of a server, including one within a Python process.
/// Memory of the server.
pub const MEMORY: Setting = Setting::new("memory");
/// Threads of the server.
pub const THREADS: Setting = Setting::new("threads");
/// Memory for cached moments.
pub const MOMENT_CACHE: Setting = Setting::new("moment_cache");
/// Address of the metrics endpoint.
pub const MONITOR: Setting = Setting::new("monitor");
/// Path of the audit log.
pub const AUDIT_LOG: Setting = Setting::new("audit_log");

// Operator settings of `oboro serve` and `oboro.ray.serve`.
/// Listening address.
pub const LISTEN: Setting = Setting::new("listen");
/// Certificate of the server.
pub const TLS_CERT: Setting = Setting::new("tls_cert");
/// Key of the server's certificate.
pub const TLS_KEY: Setting = Setting::new("tls_key");
/// Certificate authorities for clients.
pub const CLIENT_CA: Setting = Setting::of_server("client_ca");
/// Tokens that the server accepts.
pub const SERVER_TOKENS: Setting = Setting::new("tokens");
/// Maximum size of a message.
pub const MAX_MESSAGE: Setting = Setting::new("max_message");
/// Maximum size of a dataset.
pub const MAX_DATASET: Setting = Setting::new("max_dataset");
/// Maximum number of concurrent connections.
pub const MAX_CONNECTIONS: Setting = Setting::of_server("max_connections");
/// Maximum number of concurrent connections from one address.
pub const MAX_CONNECTIONS_PER_ADDRESS: Setting = Setting::of_server("max_connections_per_address");
/// Number of rotated audit logs to keep.
pub const AUDIT_LOG_KEEP: Setting = Setting::of_server("audit_log_keep");
/// Maximum number of concurrent queries.
pub const MAX_QUERIES: Setting = Setting::new("max_queries");
/// Maximum number of concurrent queries of one client.
pub const MAX_QUERIES_PER_CLIENT: Setting = Setting::new("max_queries_per_client");
/// Maximum number of itemsets of one query.
pub const MAX_ITEMSETS: Setting = Setting::new("max_itemsets");
/// Timeout of a query.
pub const QUERY_TIMEOUT: Setting = Setting::new("query_timeout");
/// Maximum number of calls per second of one client.
pub const MAX_CALLS_PER_SECOND: Setting = Setting::of_server("max_calls_per_second");
/// Maximum number of bytes that one genome search may send.
pub const MAX_SEARCH: Setting = Setting::new("max_search");

// Settings of `oboro serve` alone, or with a name on its command line alone.
/// Directory or address of the store.
pub const DATA: Setting = Setting::of_server("data");
/// Local directory of a store in object storage.
pub const CACHE: Setting = Setting::of_server("cache");
/// Memory for genomes.
pub const GENOME_CACHE: Setting = Setting::of_server("genome_cache");
/// Permission for searches to count their matches.
pub const GENOME_COUNTS: Setting = Setting::of_server("genome_counts");
/// Maximum size of a searched reference.
pub const GENOME_REFERENCE_LIMIT: Setting = Setting::of_server("genome_reference_limit");

/// Value of a setting.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value {
    /// Number.
    Number(u64),
    /// Amount of memory; Python's argument is in bytes.
    Mebibytes(u64),
    /// Text, quoted where necessary.
    Text(String),
    /// Boolean.
    YesNo(bool),
    /// Names in one list, comma-separated on a command line.
    List(Vec<String>),
    /// Texts for which the command's option is repeated.
    Each(Vec<String>),
}

impl From<usize> for Value {
    fn from(number: usize) -> Self {
        Self::Number(number as u64)
    }
}

impl From<&str> for Value {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl From<String> for Value {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

impl From<bool> for Value {
    fn from(yes: bool) -> Self {
        Self::YesNo(yes)
    }
}

impl From<&[&str]> for Value {
    fn from(names: &[&str]) -> Self {
        Self::List(names.iter().map(|&name| name.to_owned()).collect())
    }
}

/// Setting with an optional value.
#[derive(Clone, PartialEq, Eq)]
pub struct Choice {
    setting: Setting,
    value: Option<Value>,
}

impl From<Setting> for Choice {
    fn from(setting: Setting) -> Self {
        Self {
            setting,
            value: None,
        }
    }
}

/// Settings to change together.
#[derive(Clone, PartialEq, Eq)]
pub struct Choices(Vec<Choice>);

impl From<Setting> for Choices {
    fn from(setting: Setting) -> Self {
        Choice::from(setting).into()
    }
}

impl From<Choice> for Choices {
    fn from(choice: Choice) -> Self {
        Self(vec![choice])
    }
}

impl<const N: usize> From<[Choice; N]> for Choices {
    fn from(choices: [Choice; N]) -> Self {
        Self(choices.into())
    }
}

impl From<Vec<Choice>> for Choices {
    fn from(choices: Vec<Choice>) -> Self {
        Self(choices)
    }
}

/// Action of a caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Action {
    command: &'static str,
    /// Python counterpart, if it exists.
    python: Option<&'static str>,
}

/// Serves a store.
pub const SERVE: Action = Action::of_command("oboro serve");
/// Checks a store that no server has open.
pub const SCRUB: Action = Action::of_command("oboro scrub DIR");
/// Requests that a server check its store.
pub const SCRUB_SERVER: Action = Action::of_command("oboro scrub --server URL");
/// Creates a token for a caller.
pub const TOKEN_NEW: Action = Action::of_command("oboro token new NAME");
/// Lists the tokens.
pub const TOKEN_LIST: Action = Action::of_command("oboro token list");
/// Grants roles to others.
pub const ACCESS_GRANT: Action = Action::of_command("oboro access grant CALLER ROLES NAME");
/// Revokes grants.
pub const ACCESS_REVOKE: Action = Action::of_command("oboro access revoke CALLER ROLES NAME");
/// Lists unfinished uploads.
pub const DATASETS_UPLOADS: Action = Action::of_command("oboro datasets --uploads");
/// Deletes a dataset permanently.
pub const DELETE_NOW: Action = Action::of_command("oboro delete --now NAME");
/// Restores a deleted dataset.
pub const UNDELETE: Action = Action::of_command("oboro undelete NAME");
/// Lists the deleted datasets that can be restored.
pub const DATASETS_DELETED: Action = Action::of_command("oboro datasets --deleted");
/// Ends a query in progress.
pub const QUERIES_END: Action = Action::of_command("oboro queries end");
/// Cancels an upload.
pub const UPLOAD_CANCEL: Action = Action::of_command("oboro upload --cancel");
/// Keeps the record of a dataset at the server.
pub const UPLOAD_KEEP_RECORD: Action = Action::of_command("oboro upload --keep-record");
/// Moves the rows of a dataset into fewer segments.
pub const COMPACT: Action = Action::new("oboro compact", "Encrypted.compact()");
/// Checks a bundle.
pub const INSPECT_VERIFY: Action = Action::of_command("oboro inspect DIR --verify");
/// Shows if a dataset's server answered falsely.
pub const TRUST_SHOW: Action = Action::new("oboro trust show", "Encrypted.trust");
/// Allows use of a server again after a false answer.
pub const TRUST_RESET: Action = Action::new("oboro trust reset", "Encrypted.reset_trust()");

impl Action {
    const fn new(command: &'static str, python: &'static str) -> Self {
        Self {
            command,
            python: Some(python),
        }
    }

    const fn of_command(command: &'static str) -> Self {
        Self {
            command,
            python: None,
        }
    }

    /// Returns the action on a file or directory, which Python's object already has.
    pub fn on(self, path: impl fmt::Display) -> String {
        self.worded_on(path, Vocabulary::current())
    }

    fn worded_on(self, path: impl fmt::Display, vocabulary: Vocabulary) -> String {
        match (self.python, vocabulary) {
            (Some(python), Vocabulary::Python) => python.to_owned(),
            _ => format!("{} {path}", self.command),
        }
    }
}

impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.python, Vocabulary::current()) {
            (Some(python), Vocabulary::Python) => f.write_str(python),
            _ => f.write_str(self.command),
        }
    }
}

impl fmt::Display for Setting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Choice::from(*self).write(f, Vocabulary::current())
    }
}

impl fmt::Display for Choice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.write(f, Vocabulary::current())
    }
}

impl fmt::Display for Choices {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.write(f, Vocabulary::current())
    }
}

/// Implements `Debug` in the command's vocabulary, for failed assertions.
macro_rules! debug_as_command {
    ($($type:ty),*) => {$(
        impl fmt::Debug for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(self, f)
            }
        }
    )*};
}
debug_as_command!(Setting, Choice, Choices);

impl Choice {
    fn write(&self, to: &mut impl Write, vocabulary: Vocabulary) -> fmt::Result {
        match (self.setting.argument, vocabulary) {
            (Some(argument), Vocabulary::Python) => self.write_argument(to, argument),
            _ => self.write_option(to),
        }
    }

    fn write_option(&self, to: &mut impl Write) -> fmt::Result {
        let option = format!("--{}", self.setting.name.replace('_', "-"));
        match &self.value {
            None => write!(to, "{option}"),
            Some(Value::Number(number)) => write!(to, "{option} {number}"),
            Some(Value::Mebibytes(number)) => write!(to, "{option} {number}MiB"),
            Some(Value::Text(text)) => write!(to, "{option} {}", in_shell(text)),
            Some(Value::YesNo(true)) => write!(to, "{option} yes"),
            Some(Value::YesNo(false)) => write!(to, "{option} no"),
            Some(Value::List(names)) => write!(to, "{option} {}", in_shell(&separated(names))),
            Some(Value::Each(texts)) => {
                let options = texts
                    .iter()
                    .map(|text| format!("{option} {}", in_shell(text)));
                to.write_str(&options.collect::<Vec<_>>().join(" "))
            }
        }
    }

    fn write_argument(&self, to: &mut impl Write, argument: &str) -> fmt::Result {
        match &self.value {
            None => to.write_str(argument),
            Some(Value::Number(number)) => write!(to, "{argument}={number}"),
            Some(Value::Mebibytes(number)) => {
                write!(to, "{argument}={}", number.saturating_mul(1 << 20))
            }
            Some(Value::Text(text)) => write!(to, "{argument}={}", in_python(text)),
            Some(Value::YesNo(true)) => write!(to, "{argument}=True"),
            Some(Value::YesNo(false)) => write!(to, "{argument}=False"),
            Some(Value::List(texts) | Value::Each(texts)) => {
                let texts: Vec<String> = texts.iter().map(|text| in_python(text)).collect();
                write!(to, "{argument}=[{}]", texts.join(", "))
            }
        }
    }
}

impl Choices {
    fn write(&self, to: &mut impl Write, vocabulary: Vocabulary) -> fmt::Result {
        let between = match vocabulary {
            Vocabulary::Command => " ",
            Vocabulary::Python => ", ",
        };
        for (index, choice) in self.0.iter().enumerate() {
            to.write_str(if index == 0 { "" } else { between })?;
            choice.write(to, vocabulary)?;
        }
        Ok(())
    }
}

/// Joins names into one line of CSV.
fn separated(names: &[String]) -> String {
    let quoted = |name: &String| {
        if name.contains([',', '"']) {
            format!("\"{}\"", name.replace('"', "\"\""))
        } else {
            name.clone()
        }
    };
    names.iter().map(quoted).collect::<Vec<_>>().join(",")
}

/// Quotes a shell word.
fn in_shell(text: &str) -> String {
    let plain = |c: char| c.is_alphanumeric() || "_-.,:/".contains(c);
    if !text.is_empty() && text.chars().all(plain) {
        text.to_owned()
    } else {
        format!("'{}'", printable(text).replace('\'', "'\\''"))
    }
}

/// Quotes a Python string.
fn in_python(text: &str) -> String {
    let text = printable(text).replace('\\', "\\\\");
    if text.contains('\'') && !text.contains('"') {
        format!("\"{text}\"")
    } else {
        format!("'{}'", text.replace('\'', "\\'"))
    }
}

/// Replaces control characters, which messages never contain, and backquotes, which enclose settings.
fn printable(text: &str) -> String {
    text.replace(|c: char| c.is_control() || c == '`', "?")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn worded(choices: impl Into<Choices>, vocabulary: Vocabulary) -> String {
        let mut text = String::new();
        choices.into().write(&mut text, vocabulary).unwrap();
        text
    }

    fn assert_worded(choices: impl Into<Choices>, command: &str, python: &str) {
        let choices = choices.into();
        assert_eq!(worded(choices.clone(), Vocabulary::Command), command);
        assert_eq!(worded(choices, Vocabulary::Python), python);
    }

    #[test]
    fn settings_are_options_of_the_command_and_arguments_of_python() {
        assert_worded(MAX_LEN, "--max-len", "max_len");
        assert_worded(MAX_LEN.to(4), "--max-len 4", "max_len=4");
        assert_worded(HEADER.to(false), "--header no", "header=False");
        assert_worded(
            MEMORY.to(Value::Mebibytes(2)),
            "--memory 2MiB",
            "memory=2097152",
        );
        assert_worded(CA, "--ca", "tls");
        assert_worded(MAX_QUERIES, "--max-queries", "max_queries");
        assert_worded(GENOME_CACHE, "--genome-cache", "--genome-cache");
        assert_worded(
            [FORMAT.to("csv-long"), HEADER.to(true)],
            "--format csv-long --header yes",
            "format='csv-long', header=True",
        );
        assert_eq!(MAX_LEN.to(2).to_string(), "--max-len 2");
    }

    #[test]
    fn values_are_quoted_in_either_language() {
        assert_worded(
            ITEM_COLUMN.to("it's `a\n"),
            r"--item-column 'it'\''s ?a?'",
            r#"item_column="it's ?a?""#,
        );
        assert_worded(
            ITEM_COLUMN.to(r#"'"\"#),
            r#"--item-column ''\''"\'"#,
            r#"item_column='\'"\\'"#,
        );
        assert_worded(
            DROP_COLUMNS.to(["id", "a,b"].as_slice()),
            "--drop-columns 'id,\"a,b\"'",
            "drop_columns=['id', 'a,b']",
        );
        assert_worded(
            TRANSACTION_COLUMN.to_each(["a b", "c"]),
            "--transaction-column 'a b' --transaction-column c",
            "transaction_column=['a b', 'c']",
        );
    }

    #[test]
    fn actions_are_subcommands_or_methods() {
        assert_eq!(
            TRUST_RESET.worded_on("DIR", Vocabulary::Command),
            "oboro trust reset DIR"
        );
        assert_eq!(
            TRUST_RESET.worded_on("DIR", Vocabulary::Python),
            "Encrypted.reset_trust()"
        );
        assert_eq!(INSPECT_VERIFY.to_string(), "oboro inspect DIR --verify");
    }
}
