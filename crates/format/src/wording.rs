//! How messages name what a caller can set or do. A library says which setting it means; the program chooses once, at
//! startup, in which terms settings are named: `--max-len 4` for the command, `max_len=4` for Python.
//!
//! What can be set or done on the command line alone has the command's name in both vocabularies.

use std::fmt::{self, Write};
use std::sync::atomic::{AtomicBool, Ordering};

/// The terms in which messages name settings and actions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Vocabulary {
    /// Options and subcommands of the `oboro` command, the default.
    Command,
    /// Arguments and methods of the Python package.
    Python,
}

static IN_PYTHON: AtomicBool = AtomicBool::new(false);

impl Vocabulary {
    /// Makes all messages of this process from now on use these terms.
    pub fn set(self) {
        IN_PYTHON.store(self == Self::Python, Ordering::Relaxed);
    }

    /// The terms that messages of this process use.
    pub fn current() -> Self {
        if IN_PYTHON.load(Ordering::Relaxed) {
            Self::Python
        } else {
            Self::Command
        }
    }
}

/// Something that a caller can set.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Setting {
    /// Of the command's option, with underscores.
    name: &'static str,
    /// Of Python's argument, if there is one.
    argument: Option<&'static str>,
}

impl Setting {
    /// A setting that has one name everywhere.
    const fn new(name: &'static str) -> Self {
        Self::renamed(name, name)
    }

    const fn renamed(name: &'static str, argument: &'static str) -> Self {
        Self {
            name,
            argument: Some(argument),
        }
    }

    /// A setting of `oboro serve` alone.
    const fn of_server(name: &'static str) -> Self {
        Self {
            name,
            argument: None,
        }
    }

    /// The setting with this value.
    pub fn to(self, value: impl Into<Value>) -> Choice {
        Choice {
            setting: self,
            value: Some(value.into()),
        }
    }

    /// The setting with each of these values: the command's option is repeated, Python's argument has a list.
    pub fn to_each<T: Into<String>>(self, values: impl IntoIterator<Item = T>) -> Choice {
        self.to(Value::Each(values.into_iter().map(Into::into).collect()))
    }
}

// How a file of transactions is read.
/// The form of the file.
pub const FORMAT: Setting = Setting::new("format");
/// What separates cells.
pub const SEPARATOR: Setting = Setting::new("separator");
/// Whether the first line names the columns.
pub const HEADER: Setting = Setting::new("header");
/// How text is encoded.
pub const ENCODING: Setting = Setting::new("encoding");
/// The columns that name the transaction.
pub const TRANSACTION_COLUMN: Setting = Setting::new("transaction_column");
/// The column that names the item.
pub const ITEM_COLUMN: Setting = Setting::new("item_column");
/// Columns to leave out.
pub const DROP_COLUMNS: Setting = Setting::new("drop_columns");
/// Whether spaces around names are part of them.
pub const SPACES: Setting = Setting::new("spaces");
/// What cells without a value mean.
pub const MISSING: Setting = Setting::new("missing");
/// The Unicode form of names.
pub const UNICODE: Setting = Setting::new("unicode");
/// What separates the items in one cell.
pub const ITEM_SEPARATOR: Setting = Setting::new("item_separator");
/// The number of lines above the data.
pub const SKIP_FIRST: Setting = Setting::new("skip_first");
/// The number of rows below the data.
pub const SKIP_LAST: Setting = Setting::new("skip_last");
/// What items belong to.
pub const TAXONOMY: Setting = Setting::new("taxonomy");
/// Columns whose numbers become items by ranges.
pub const BIN: Setting = Setting::renamed("bin", "bins");
/// The column of row ids.
pub const ROW_IDS: Setting = Setting::new("row_ids");

// What an owner encrypts and asks.
/// The longest itemsets.
pub const MAX_LEN: Setting = Setting::new("max_len");
/// The least support of a frequent itemset.
pub const MIN_SUPPORT: Setting = Setting::new("min_support");
/// The number of itemsets above which mining stops.
pub const STOP_ABOVE: Setting = Setting::new("stop_above");
/// The least support of an item that is encrypted.
pub const MIN_ITEM_SUPPORT: Setting = Setting::new("min_item_support");
/// What becomes of items that a dataset lacks when appending.
pub const NEW_ITEMS: Setting = Setting::new("new_items");
/// How answers are obtained.
pub const ANSWERS: Setting = Setting::new("answers");
/// Using unverified answers of the server.
pub const TRUST_SERVER: Setting = Setting::new("trust_server");
/// Answering from kept cells, without a server.
pub const OFFLINE: Setting = Setting::new("offline");
/// Items to be counted with every other one.
pub const FOCUS: Setting = Setting::new("focus");
/// The certificates that servers are checked by.
pub const CA: Setting = Setting::renamed("ca", "tls");
/// The certificate that proves the caller's name to servers.
pub const CLIENT_CERT: Setting = Setting::new("client_cert");
/// The key of that certificate.
pub const CLIENT_KEY: Setting = Setting::new("client_key");
/// Where the token for a server is.
pub const TOKEN_FILE: Setting = Setting::renamed("token_file", "token");
/// Whether a genome search counts its matches.
pub const COUNT: Setting = Setting::new("count");
/// The alleles that a genome search asks for.
pub const ALLELES: Setting = Setting::new("alleles");
/// The bases that a genome search asks for.
pub const SEQUENCE: Setting = Setting::new("sequence");
/// Whether all but the first line of a position are left out of a panel.
pub const SKIP_DUPLICATES: Setting = Setting::new("skip_duplicates");

// What a server may use, one in a Python process too.
/// The server's memory.
pub const MEMORY: Setting = Setting::new("memory");
/// The server's threads.
pub const THREADS: Setting = Setting::new("threads");
/// Memory for moments that were counted.
pub const MOMENT_CACHE: Setting = Setting::new("moment_cache");
/// Where operators look at metrics.
pub const MONITOR: Setting = Setting::new("monitor");
/// File of the audit log.
pub const AUDIT_LOG: Setting = Setting::new("audit_log");

// What an operator can set, of `oboro serve` and of `oboro.ray.serve`.
/// The address to listen on.
pub const LISTEN: Setting = Setting::new("listen");
/// The server's certificate.
pub const TLS_CERT: Setting = Setting::new("tls_cert");
/// The key of the server's certificate.
pub const TLS_KEY: Setting = Setting::new("tls_key");
/// The authorities of client certificates that the server accepts.
pub const CLIENT_CA: Setting = Setting::of_server("client_ca");
/// The tokens that the server accepts.
pub const SERVER_TOKENS: Setting = Setting::new("tokens");
/// The largest message.
pub const MAX_MESSAGE: Setting = Setting::new("max_message");
/// The largest dataset.
pub const MAX_DATASET: Setting = Setting::new("max_dataset");
/// Connections at a time.
pub const MAX_CONNECTIONS: Setting = Setting::of_server("max_connections");
/// Connections from one address at a time.
pub const MAX_CONNECTIONS_PER_ADDRESS: Setting = Setting::of_server("max_connections_per_address");
/// Renamed audit logs that are kept.
pub const AUDIT_LOG_KEEP: Setting = Setting::of_server("audit_log_keep");
/// Queries at a time.
pub const MAX_QUERIES: Setting = Setting::new("max_queries");
/// Queries of one client at a time.
pub const MAX_QUERIES_PER_CLIENT: Setting = Setting::new("max_queries_per_client");
/// Itemsets of one query.
pub const MAX_ITEMSETS: Setting = Setting::new("max_itemsets");
/// The longest that a query may take.
pub const QUERY_TIMEOUT: Setting = Setting::new("query_timeout");
/// Calls of one client in a second.
pub const MAX_CALLS_PER_SECOND: Setting = Setting::of_server("max_calls_per_second");
/// The bytes that one genome search may send.
pub const MAX_SEARCH: Setting = Setting::new("max_search");

// What is an option of `oboro serve` alone, or is named on its command line alone.
/// The store's directory or address.
pub const DATA: Setting = Setting::of_server("data");
/// The local directory of a store in object storage.
pub const CACHE: Setting = Setting::of_server("cache");
/// Memory for genomes.
pub const GENOME_CACHE: Setting = Setting::of_server("genome_cache");
/// Whether searches may count their matches.
pub const GENOME_COUNTS: Setting = Setting::of_server("genome_counts");
/// The largest reference that is searched.
pub const GENOME_REFERENCE_LIMIT: Setting = Setting::of_server("genome_reference_limit");

/// A value of a setting.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value {
    /// A number.
    Number(u64),
    /// An amount of memory, which Python has in bytes.
    Mebibytes(u64),
    /// A text, quoted where need be.
    Text(String),
    /// Yes or no.
    YesNo(bool),
    /// Names in one list, separated by commas on a command line.
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

/// A setting, with a value if it is known.
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

/// Settings that are made together.
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

/// Something that a caller can do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Action {
    command: &'static str,
    /// What a Python program calls instead, if it can.
    python: Option<&'static str>,
}

/// Serving a store.
pub const SERVE: Action = Action::of_command("oboro serve");
/// Checking a store that no server has open.
pub const SCRUB: Action = Action::of_command("oboro scrub DIR");
/// Having a server check its store.
pub const SCRUB_SERVER: Action = Action::of_command("oboro scrub --server URL");
/// Making a token for a caller.
pub const TOKEN_NEW: Action = Action::of_command("oboro token new NAME");
/// Seeing which tokens there are.
pub const TOKEN_LIST: Action = Action::of_command("oboro token list");
/// Granting roles to others.
pub const ACCESS_GRANT: Action = Action::of_command("oboro access grant CALLER ROLES NAME");
/// Taking grants back.
pub const ACCESS_REVOKE: Action = Action::of_command("oboro access revoke CALLER ROLES NAME");
/// Listing unfinished uploads.
pub const DATASETS_UPLOADS: Action = Action::of_command("oboro datasets --uploads");
/// Deleting a dataset for ever.
pub const DELETE_NOW: Action = Action::of_command("oboro delete --now NAME");
/// Bringing a deleted dataset back.
pub const UNDELETE: Action = Action::of_command("oboro undelete NAME");
/// Seeing which deleted datasets can be brought back.
pub const DATASETS_DELETED: Action = Action::of_command("oboro datasets --deleted");
/// Ending a query in progress.
pub const QUERIES_END: Action = Action::of_command("oboro queries end");
/// Giving up an upload.
pub const UPLOAD_CANCEL: Action = Action::of_command("oboro upload --cancel");
/// Having the record of a dataset kept at the server.
pub const UPLOAD_KEEP_RECORD: Action = Action::of_command("oboro upload --keep-record");
/// Putting the rows of a dataset into fewer segments.
pub const COMPACT: Action = Action::new("oboro compact", "Encrypted.compact()");
/// Checking a bundle.
pub const INSPECT_VERIFY: Action = Action::of_command("oboro inspect DIR --verify");
/// Seeing whether a dataset's server answered falsely.
pub const TRUST_SHOW: Action = Action::new("oboro trust show", "Encrypted.trust");
/// Having a server asked again that answered falsely.
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

    /// The action on a file or directory, which Python's object knows.
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

/// As on a command line, which is what a failed assertion should show.
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

/// Names in one line of CSV.
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

/// A word of a shell.
fn in_shell(text: &str) -> String {
    let plain = |c: char| c.is_alphanumeric() || "_-.,:/".contains(c);
    if !text.is_empty() && text.chars().all(plain) {
        text.to_owned()
    } else {
        format!("'{}'", printable(text).replace('\'', "'\\''"))
    }
}

/// A string of Python.
fn in_python(text: &str) -> String {
    let text = printable(text).replace('\\', "\\\\");
    if text.contains('\'') && !text.contains('"') {
        format!("\"{text}\"")
    } else {
        format!("'{}'", text.replace('\'', "\\'"))
    }
}

/// Without control characters, which a message does not have, and backquotes, which it has around settings.
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
