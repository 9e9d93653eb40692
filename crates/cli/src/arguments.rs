//! Arguments shared by several commands.

use crate::failure::Failure;
use crate::interrupt::connect;
use crate::output::waits;
use crate::secret_command::{MOST, output_of};
use crate::terminal::{agreed, prompt};
use clap::{Args, ValueEnum};
use oboro_client::{Connection, Identity, Options};
use oboro_dataset::Dataset;
use oboro_format::ErrorClass;
use oboro_input::readers::{
    Bin, Encoding, ItemSeparator, Missing, Separator, Spaces, Unicode, columns_in,
};
use oboro_input::{Format, ReadOptions};
use oboro_rlwe::{KeyFileError, MasterKey, Passphrase, PrivateFileError, open_private};
use std::fs::{self, File};
use std::io::{self, Read};
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::thread;

/// The owner's key.
#[derive(Args)]
pub struct KeyArguments {
    #[command(flatten)]
    pub source: KeySource,
    #[command(flatten)]
    pub passphrase: PassphraseArguments,
}

/// Source of the key. The command line takes precedence over the environment.
#[derive(Args)]
pub struct KeySource {
    /// The master key file [env: OBORO_KEY] [default: oboro.key].
    #[arg(long, value_name = "FILE")]
    pub key: Option<PathBuf>,
    /// Run this shell command and take its output as the bytes of the key file, as with a key management service [env:
    /// OBORO_KEY_COMMAND].
    #[arg(long, value_name = "COMMAND", conflicts_with = "key")]
    pub key_command: Option<String>,
}

/// Source of the key's passphrase.
#[derive(Args)]
pub struct PassphraseArguments {
    /// Read the key's passphrase from the first line of this file, which must be readable by you only [default:
    /// OBORO_PASSPHRASE, or a prompt].
    #[arg(long, value_name = "FILE")]
    pub passphrase_file: Option<PathBuf>,
    /// Run this shell command and read the key's passphrase from the first line of its output, as with a password
    /// manager [env: OBORO_PASSPHRASE_COMMAND].
    #[arg(long, value_name = "COMMAND", conflicts_with = "passphrase_file")]
    pub passphrase_command: Option<String>,
}

/// Source of the passphrase of a record kept at a server.
#[derive(Args)]
pub struct RecoveryPassphraseArguments {
    /// Read the passphrase of the record kept at the server from the first line of this file, which must be readable by
    /// you only [default: OBORO_RECOVERY_PASSPHRASE, or a prompt].
    #[arg(long, value_name = "FILE")]
    recovery_passphrase_file: Option<PathBuf>,
    /// Run this shell command and read that passphrase from the first line of its output [env:
    /// OBORO_RECOVERY_PASSPHRASE_COMMAND].
    #[arg(
        long,
        value_name = "COMMAND",
        conflicts_with = "recovery_passphrase_file"
    )]
    recovery_passphrase_command: Option<String>,
}

/// The server to connect to.
#[derive(Args)]
pub struct ServerArguments {
    /// Address of the server; https:// is required beyond this machine.
    #[arg(
        long,
        value_name = "URL",
        env = "OBORO_SERVER",
        hide_env_values = true,
        default_value = "http://127.0.0.1:7171"
    )]
    pub server: String,
    /// Read the access token for the server from the first line of this file.
    #[arg(
        long,
        value_name = "FILE",
        env = "OBORO_TOKEN_FILE",
        hide_env_values = true
    )]
    pub token_file: Option<PathBuf>,
    /// Trust servers with certificates from this PEM file.
    #[arg(long, value_name = "FILE", env = "OBORO_CA", hide_env_values = true)]
    pub ca: Option<PathBuf>,
    /// Client certificate chain, in PEM, that authenticates you to the server.
    #[arg(long, value_name = "FILE", requires = "client_key")]
    pub client_cert: Option<PathBuf>,
    /// Private key of that certificate, in PEM, readable by you only.
    #[arg(long, value_name = "FILE", requires = "client_cert")]
    pub client_key: Option<PathBuf>,
}

/// A file of transactions.
#[derive(Args)]
pub struct InputArguments {
    /// Transactions: FIMI or CSV, plain, gzip or zstd; Parquet or Arrow; - for standard input.
    #[arg(value_name = "INPUT")]
    pub input: PathBuf,
    #[command(flatten)]
    pub reading: ReadArguments,
}

/// Heading of the options for reading files.
const READING: &str = "Reading the file";

/// Options for reading a file of transactions. Unset ones are detected from the file, or the file is refused.
#[derive(Args)]
pub struct ReadArguments {
    /// Format of the file: auto, fimi, csv-basket, csv-long, csv-onehot or csv-counts (counts of items).
    #[arg(long, help_heading = READING, default_value = "auto")]
    format: Format,
    /// Separator of cells: comma, semicolon, tab, pipe, space or another punctuation mark.
    #[arg(long, help_heading = READING, value_name = "MARK")]
    separator: Option<Separator>,
    /// Read the first line as column names, or not; without a header, columns are named 1, 2 and so on.
    #[arg(long, help_heading = READING, value_name = "YES|NO")]
    header: Option<YesNo>,
    /// Text encoding: utf-8 or latin-1 [default: utf-8].
    #[arg(long, help_heading = READING)]
    encoding: Option<Encoding>,
    /// Column that identifies the transaction; repeat the option if several together do.
    #[arg(long, help_heading = READING, value_name = "NAME")]
    transaction_column: Vec<String>,
    /// Column that names the item.
    #[arg(long, help_heading = READING, value_name = "NAME")]
    item_column: Option<String>,
    /// Columns to ignore, separated by commas.
    #[arg(long, help_heading = READING, value_name = "NAMES", value_parser = names)]
    drop_columns: Vec<NameList>,
    /// Spaces around names: trim or keep [default: trim, unless names differ only in them].
    #[arg(long, help_heading = READING)]
    spaces: Option<Spaces>,
    /// Meaning of NA, NaN, null, ?, #REF! and the like: absent (no item, as are blank cells then), or item (an item of
    /// that name).
    #[arg(long, help_heading = READING, value_name = "ABSENT|ITEM")]
    missing: Option<Missing>,
    /// Unicode normalization of names: nfc (composed letters), nfkc (also replaces letters and spaces of other widths
    /// and shapes, and removes invisible characters) or as-is [default: nfc; invisible characters are refused].
    #[arg(long, help_heading = READING, value_name = "FORM")]
    unicode: Option<Unicode>,
    /// Separator of the items in one cell: a mark as for --separator, or none if each cell is one item.
    #[arg(long, help_heading = READING, value_name = "MARK")]
    item_separator: Option<ItemSeparator>,
    /// Number of lines to skip at the beginning of the file, such as titles and comments; 0 for none.
    #[arg(long, help_heading = READING, value_name = "N")]
    skip_first: Option<u32>,
    /// Number of rows to skip at the end, such as totals and notes; 0 for none.
    #[arg(long, help_heading = READING, value_name = "N")]
    skip_last: Option<u32>,
    /// Turn the numbers of a column into items by ranges: age=0,18,40,65 gives age=0..18 and so on, without the upper
    /// bound, age>=65 and age<0. Repeat the option for other columns.
    #[arg(long, help_heading = READING, value_name = "NAME=BOUNDS")]
    bin: Vec<Bin>,
    /// Hierarchy of items, such as codes and their chapters: each line of this file has an item, its parent, and the
    /// parent of that. Transactions get all parents of their items as items, too.
    #[arg(long, help_heading = READING, value_name = "FILE")]
    taxonomy: Option<PathBuf>,
    /// Column with a unique id of each transaction, which is sealed beside it and is no item; `oboro row-ids` lists the
    /// ids.
    #[arg(long, help_heading = READING, value_name = "NAME")]
    row_ids: Option<String>,
}

#[derive(Clone, Copy, ValueEnum)]
enum YesNo {
    Yes,
    No,
}

/// List of names in one value. The alias hides `Vec` from clap, which would take the names for several values.
pub type NameList = Vec<String>;

pub fn names(list: &str) -> Result<NameList, String> {
    columns_in(list).map_err(|error| error.to_string())
}

impl ReadArguments {
    /// Rejects reading options without a file; `file` names the missing argument.
    pub fn need(&self, file: &str, given: bool) -> Result<(), Failure> {
        if given || self.options() == ReadOptions::default() {
            Ok(())
        } else {
            Err(Failure::input(format!(
                "reading options need a file; give {file}, or omit these options"
            )))
        }
    }

    pub fn options(&self) -> ReadOptions {
        ReadOptions {
            format: self.format,
            separator: self.separator,
            header: self.header.map(|it| matches!(it, YesNo::Yes)),
            encoding: self.encoding,
            transaction_columns: self.transaction_column.clone(),
            item_column: self.item_column.clone(),
            drop_columns: self.drop_columns.concat(),
            spaces: self.spaces,
            missing: self.missing,
            unicode: self.unicode,
            item_separator: self.item_separator,
            skip_first: self.skip_first,
            skip_last: self.skip_last,
            row_ids: self.row_ids.clone(),
            bins: self.bin.clone(),
            taxonomy: self.taxonomy.clone(),
            is_further: false,
            memory: None,
        }
    }
}

/// Number of threads.
#[derive(Args)]
pub struct ThreadArguments {
    /// Number of compute threads, up to 1024 [default: number of processors].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    threads: Option<u16>,
}

impl ThreadArguments {
    pub fn count(&self) -> NonZeroUsize {
        self.threads
            .and_then(|threads| NonZeroUsize::new(threads.into()))
            .or_else(|| thread::available_parallelism().ok())
            .unwrap_or(NonZeroUsize::MIN)
    }
}

impl KeyArguments {
    /// Reads the key, and its passphrase if it has one.
    pub fn load(&self) -> Result<MasterKey, Failure> {
        let key = self.source.given()?;
        self.passphrase
            .open(&key.unwrap_or_else(|| KeyFrom::File("oboro.key".into())))
    }
}

/// Source of a key: a file, or the command that prints one.
pub enum KeyFrom {
    File(PathBuf),
    Command { command: String, setting: String },
}

impl KeyFrom {
    /// Returns the source given by one of the two arguments.
    pub fn one_of(file: Option<&Path>, command: Option<&str>, setting: &str) -> Option<Self> {
        let of_command = |command: &str| Self::Command {
            command: command.to_owned(),
            setting: setting.to_owned(),
        };
        let of_file = || file.map(|file| Self::File(file.to_owned()));
        command.map(of_command).or_else(of_file)
    }

    fn load(&self, passphrase: impl FnOnce() -> Option<Passphrase>) -> Result<MasterKey, Failure> {
        Ok(match self {
            Self::File(path) => MasterKey::load(path, passphrase).map_err(remedied)?,
            Self::Command { command, setting } => {
                let bytes = output_of(command, setting)?;
                let from = format!("the output of the command of {setting}");
                MasterKey::from_file_bytes(from.as_ref(), &bytes, passphrase).map_err(remedied)?
            }
        })
    }
}

fn remedied(error: KeyFileError) -> Failure {
    let remedy = match error {
        KeyFileError::Foreign(_) => "with `oboro keygen`",
        KeyFileError::PassphraseNeeded(_) => {
            "with --passphrase-file, OBORO_PASSPHRASE, --passphrase-command or at the prompt"
        }
        error => return error.into(),
    };
    Failure::of(ErrorClass::Keys, format!("{error} {remedy}"))
}

impl KeySource {
    /// Returns the source of the key on the command line, or else in the environment.
    pub fn given(&self) -> Result<Option<KeyFrom>, Failure> {
        let given = KeyFrom::one_of(
            self.key.as_deref(),
            self.key_command.as_deref(),
            "--key-command",
        );
        if given.is_some() {
            return Ok(given);
        }
        let file = std::env::var_os("OBORO_KEY").map(PathBuf::from);
        let command = environment("OBORO_KEY_COMMAND")?;
        if file.is_some() && command.is_some() {
            return Err(both("OBORO_KEY", "OBORO_KEY_COMMAND"));
        }
        let command = command.as_ref().map(|it| it.as_str());
        Ok(KeyFrom::one_of(
            file.as_deref(),
            command,
            "OBORO_KEY_COMMAND",
        ))
    }
}

impl PassphraseArguments {
    /// Reads a key, and its passphrase if it has one.
    pub fn open(&self, key: &KeyFrom) -> Result<MasterKey, Failure> {
        // Run the command only if the key has a passphrase: it may prompt the user.
        let mut failed = None;
        let loaded = key.load(|| match self.given_or_asked_for() {
            Ok(passphrase) => passphrase,
            Err(failure) => {
                failed = Some(failure);
                None
            }
        });
        failed.map_or(loaded, Err)
    }

    fn given_or_asked_for(&self) -> Result<Option<Passphrase>, Failure> {
        if let Some(given) = self.given()? {
            return Ok(Some(given));
        }
        let asked = prompt(&["Passphrase: "])?;
        Ok(asked.and_then(|mut answers| answers.pop()))
    }

    /// Returns the passphrase from the command line, or else from the environment.
    pub fn given(&self) -> Result<Option<Passphrase>, Failure> {
        let given = PassphraseFrom {
            file: self.passphrase_file.as_deref(),
            command: self.passphrase_command.as_deref(),
            option: "--passphrase-command",
            variables: ["OBORO_PASSPHRASE", "OBORO_PASSPHRASE_COMMAND"],
        };
        given.passphrase()
    }
}

impl RecoveryPassphraseArguments {
    /// Returns the passphrase. If it is not given, prompts once for each of `questions`; the answers must be equal.
    pub fn passphrase(&self, questions: &[&str]) -> Result<Passphrase, Failure> {
        let given = PassphraseFrom {
            file: self.recovery_passphrase_file.as_deref(),
            command: self.recovery_passphrase_command.as_deref(),
            option: "--recovery-passphrase-command",
            variables: [
                "OBORO_RECOVERY_PASSPHRASE",
                "OBORO_RECOVERY_PASSPHRASE_COMMAND",
            ],
        };
        if let Some(given) = given.passphrase()? {
            return Ok(given);
        }
        let asked = prompt(questions)?.ok_or("the record at the server needs a passphrase, and standard input is not a terminal to prompt for it; give --recovery-passphrase-file, OBORO_RECOVERY_PASSPHRASE or --recovery-passphrase-command")?;
        agreed(asked).ok_or_else(|| {
            "the passphrases differ or are empty; nothing was done, try again".into()
        })
    }
}

/// Sources of a passphrase.
struct PassphraseFrom<'a> {
    file: Option<&'a Path>,
    command: Option<&'a str>,
    /// Option that gives the command.
    option: &'a str,
    /// Environment variables of the passphrase and of the command.
    variables: [&'a str; 2],
}

impl PassphraseFrom<'_> {
    fn passphrase(&self) -> Result<Option<Passphrase>, Failure> {
        if let Some(path) = self.file {
            let opened = match open_private(path) {
                Err(PrivateFileError::Open(error)) => Err(error),
                opened => Ok(opened?),
            };
            return first_line(opened, path, "passphrase").map(Some);
        }
        if let Some(command) = self.command {
            return first_line_of(command, self.option).map(Some);
        }
        let [plain, command] = self.variables;
        match (environment(plain)?, environment(command)?) {
            (Some(_), Some(_)) => Err(both(plain, command)),
            (None, Some(line)) => first_line_of(&line, command).map(Some),
            (given, None) => Ok(given),
        }
    }
}

/// Returns the first line of a command's output.
fn first_line_of(command: &str, setting: &str) -> Result<Passphrase, Failure> {
    let output = output_of(command, setting)?;
    let text = std::str::from_utf8(&output).ok();
    match text.and_then(|it| it.lines().next()) {
        Some(line) if !line.is_empty() => Ok(line.to_owned().into()),
        _ => Err(Failure::input(format!(
            "the command of {setting} prints no text on its first line; it must print the passphrase there"
        ))),
    }
}

/// Returns a variable of the environment, if set.
fn environment(name: &str) -> Result<Option<Passphrase>, Failure> {
    match std::env::var(name) {
        Ok(value) if value.is_empty() => Err(Failure::input(format!(
            "{name} is empty; set a value, or unset it"
        ))),
        Ok(value) => Ok(Some(value.into())),
        Err(std::env::VarError::NotPresent) => Ok(None),
        Err(std::env::VarError::NotUnicode(_)) => Err(Failure::input(format!(
            "{name} is not UTF-8 text; correct it, or use a file"
        ))),
    }
}

fn both(one: &str, other: &str) -> Failure {
    format!("{one} and {other} are both set; unset one of them").into()
}

impl ServerArguments {
    pub fn connect(&self) -> Result<Connection, Failure> {
        Ok(connect(&self.options()?)?)
    }

    /// Returns the connection options.
    pub fn options(&self) -> Result<Options, Failure> {
        let token = self
            .token_file
            .as_deref()
            .map(|path| first_line(File::open(path), path, "token"))
            .transpose()?;
        Ok(Options {
            url: self.server.clone(),
            token: token.map(|token| token.to_string()),
            certificates: self
                .ca
                .as_deref()
                .map(|path| read(path, "certificates"))
                .transpose()?,
            identity: self
                .client_cert
                .as_deref()
                .zip(self.client_key.as_deref())
                .map(|(certificate, key)| Identity::read(certificate, key))
                .transpose()?,
            waits: Some(waits),
        })
    }
}

/// Reads the first line of a small file: a token or a passphrase.
fn first_line(file: io::Result<File>, path: &Path, what: &str) -> Result<Passphrase, Failure> {
    let failed = |problem: String| {
        let sentence = format!(
            "cannot read the {what} file {}: {problem}; its first line must be the {what}",
            path.display()
        );
        Failure::input(sentence)
    };
    // Allocate once: growing would leave copies in freed memory.
    let mut text = Passphrase::new(String::with_capacity(MOST));
    file.and_then(|file| file.take(MOST as u64).read_to_string(&mut text))
        .map_err(|error| failed(error.to_string()))?;
    match text.lines().next() {
        Some(line) if !line.is_empty() => Ok(line.to_owned().into()),
        _ => Err(failed("its first line is empty".to_owned())),
    }
}

/// Reads a whole file.
pub fn read(path: &Path, what: &str) -> Result<Vec<u8>, Failure> {
    fs::read(path).map_err(|error| {
        let path = path.display();
        let sentence = format!("cannot read the {what} in {path}: {error}; check the path");
        Failure::io(&error, sentence)
    })
}

/// An uploaded dataset directory, with its key and its server.
#[derive(Args)]
pub struct UploadedArguments {
    /// Dataset directory that was uploaded.
    #[arg(value_name = "DIR")]
    pub directory: PathBuf,
    #[command(flatten)]
    key: KeyArguments,
    #[command(flatten)]
    server: ServerArguments,
    /// Name on the server [default: the directory's, without .oboro].
    #[arg(long)]
    name: Option<String>,
}

impl UploadedArguments {
    pub fn dataset(&self) -> Result<Dataset, Failure> {
        Ok(Dataset::open(&self.directory, &self.key.load()?)?)
    }

    pub fn name(&self) -> Result<String, Failure> {
        dataset_name(self.name.as_ref(), &self.directory)
    }

    /// Returns the connection options.
    pub fn server(&self) -> Result<Options, Failure> {
        self.server.options()
    }
}

/// Returns a dataset's name on a server; by default that of its directory.
pub fn dataset_name(name: Option<&String>, bundle: &Path) -> Result<String, Failure> {
    let stem = || {
        bundle
            .canonicalize()
            .ok()?
            .file_stem()?
            .to_str()
            .map(str::to_owned)
    };
    name.cloned().or_else(stem).ok_or_else(|| {
        let sentence = format!(
            "{} does not exist or has no name for a dataset; check the path, or give --name",
            bundle.display()
        );
        Failure::input(sentence)
    })
}
