//! Errors of the owner's calls to a server, with remedies.

use crate::genome::query::PatternError;
use crate::genome::reading::{EncryptError, ReadError};
use oboro_dataset::{Dataset, DatasetError};
use oboro_format::wording::{
    ANSWERS, CA, CLIENT_CERT, CLIENT_KEY, FOCUS, MAX_LEN, MIN_SUPPORT, OFFLINE, PAIR_COLUMNS,
    ROW_IDS, SERVE, TRUST_RESET, TRUST_SERVER, TRUST_SHOW,
};
use oboro_format::{Corruption, DatasetId, Digest, ErrorClass, FormatError};
use oboro_genome::wire::WireError;
use oboro_genome::{PlanError, SearchSpecError};
use oboro_input::escaped;
use oboro_protocol::{
    FieldError, MalformedAnswer, PROTOCOL, PROTOCOL_KEY, REQUEST_KEY, RETRY_AFTER_KEY, max_itemsets,
};
use oboro_ring::moment::RequestError;
use oboro_rlwe::{
    CombineError, LONGEST_VERIFIED, PairsError, PassphraseError, PrefixError, PrivateFileError,
};
use std::time::Duration;
use thiserror::Error;
use time::OffsetDateTime;
use time::macros::format_description;
use tonic::{Code, Status};

/// Error of a call.
#[derive(Debug, Error)]
#[allow(missing_docs)]
pub enum ClientError {
    #[error(
        "{url:?} is not a server address ({problem}); write it like http://127.0.0.1:7171 or https://host:7171"
    )]
    Address { url: String, problem: String },
    #[error(
        "refusing to send to {0} without TLS: a token or an answer could be read or altered on the way; use an https:// address"
    )]
    Unprotected(String),
    #[error(
        "what {0} says cannot be used: proxies have addresses like http://proxy:3128 or http://USER:PASSWORD@proxy:3128, with %40 for @ and the like in a password; set it so, unset it, or have NO_PROXY name the server"
    )]
    Proxy(&'static str),
    #[error("cannot reach the server at {url}: {cause}; {}", how_to_reach(url))]
    Unreachable { url: String, cause: String },
    #[error(
        "what listens at {url} does not answer as an Oboro server ({cause}); check the address, which begins with https:// where the server has TLS, and run the same command again"
    )]
    NoAnswer { url: String, cause: String },
    #[error(
        "the certificates given with {CA} cannot be used: {0}; give a file of certificates in PEM"
    )]
    Certificates(String),
    #[error(
        "the certificate and key given with {CLIENT_CERT} and {CLIENT_KEY} cannot be used: {0}; give a chain of certificates and its key, both in PEM"
    )]
    Identity(String),
    #[error(transparent)]
    PrivateFile(#[from] PrivateFileError),
    #[error(
        "the connection to the server broke while {during} ({cause}); nothing was lost: run the same command again to go on"
    )]
    Broken { during: &'static str, cause: String },
    #[error(
        "rows of this dataset have no ids; encrypt the data again with {ROW_IDS}, which says where they are"
    )]
    NoRowIds,
    #[error(
        "the row ids that were sealed are not one for each row, as Oboro writes them; encrypt the data again"
    )]
    RowIds,
    #[error(
        "items are frequent that are not among the {0} with the largest supports when the data were first encrypted, and only of those the server counts itemsets that are verified; mine with {cells}, at a higher {MIN_SUPPORT}, or encrypt again with {PAIR_COLUMNS}",
        cells = ANSWERS.to("cells")
    )]
    NotInPrefix(usize),
    #[error(
        "{0:?} is not a focus item of this dataset, and of more than {1} items the server counts only those with every other one; encrypt again with {FOCUS}, or mine pairs, with {pairs}",
        pairs = MAX_LEN.to(2)
    )]
    NoRow(String, usize),
    #[error(
        "the server counts no pairs of this dataset that are verified: it was encrypted with {}, or has one item; encrypt it again with {} or more",
        MAX_LEN.to(1),
        MAX_LEN.to(2)
    )]
    NoPairs,
    #[error(
        "{0:?} is no item of this dataset; give its name as it is, in a list of the command with double quotes around one that has commas or spaces at its ends, and check its spelling, and whether it was left out as rare"
    )]
    UnknownItem(String),
    #[error(
        "the answer about all itemsets of {length} items takes {}, and no more than {} or {} itemsets are asked for; mine with {}, which fetches {} at most, or at a higher {MIN_SUPPORT}",
        size(*bytes),
        size(*most),
        max_itemsets(*length),
        ANSWERS.to("cells"),
        size(*cells)
    )]
    LargeSums {
        length: usize,
        bytes: u64,
        most: u64,
        cells: u64,
    },
    #[error("{}", long_moments(*longest, *wanted))]
    LongMoments { longest: usize, wanted: usize },
    #[error(transparent)]
    Prefix(#[from] PrefixError),
    #[error(transparent)]
    Pairs(#[from] PairsError),
    #[error("interrupted; nothing was lost: call again to go on")]
    Interrupted,
    #[error("the server refused: {0}")]
    Refused(String),
    /// Busy server that did not carry out the call; it may be retried after this time.
    #[error("the server refused: {message}")]
    Overloaded { message: String, after: Duration },
    #[error(
        "the server refused: it does not know this call; it is no Oboro server, or an older one"
    )]
    NoSuchCall,
    #[error(
        "the server speaks protocol {server}, this Oboro ({}) speaks {PROTOCOL}; {}",
        env!("CARGO_PKG_VERSION"),
        what_to_update(*server)
    )]
    Protocol { server: u32 },
    #[error(
        "the server is busy with this upload over another connection; wait until that ends, or stop it, and run the command again"
    )]
    Busy,
    #[error(
        "segment {segment} was sent {times} times, and the server still asks for it; check the connection and the server's disk, then run the command again to go on"
    )]
    EndlessUpload { segment: u32, times: u32 },
    #[error("the server failed: {0}")]
    Failed(String),
    #[error("the server failed: {0}")]
    Damaged(String),
    #[error(
        "the server published root {published}, but the bundle has root {own}; the upload was altered: delete the dataset and upload again"
    )]
    WrongRoot { own: Digest, published: Digest },
    #[error(
        "the record that the server sent {0}; it was altered or damaged at the server: have its operator restore it from a backup"
    )]
    DamagedRecovery(Corruption),
    #[error("the record that the server sent cannot be used: {0}")]
    SealedRecovery(#[from] PassphraseError),
    #[error(
        "the server publishes version {published} with root {published_root} and sent the record of version {kept} with root {kept_root}: it is an older one, or the server lies; nothing was recovered: ask its operator to restore both from one backup"
    )]
    OtherRecovery {
        published: u64,
        published_root: Digest,
        kept: u64,
        kept_root: Digest,
    },
    #[error(
        "the record that the server sent is of version {version} with root {kept}, and you noted root {noted}: the server went back to another state, or what you noted is not the newest; nothing was recovered: find out which from whoever runs the server"
    )]
    OtherRoot {
        noted: Digest,
        kept: Digest,
        version: u64,
    },
    #[error(
        "the record that the server sent for {asked:?} was kept for {kept:?}: the server confused them or lies, or the dataset was renamed; nothing was recovered: if it was renamed, give the root that you noted, which says which it is"
    )]
    OtherName { asked: String, kept: String },
    #[error(
        "the token cannot be sent: it must be printable ASCII without spaces, and stand alone on the first line of the token file"
    )]
    Token,
    #[error(
        "cannot start the network runtime: {0}; the machine may be out of threads or file descriptors"
    )]
    Runtime(std::io::Error),
    #[error(
        "the server plans the search with other numbers than this Oboro ({}); update the older of the two",
        env!("CARGO_PKG_VERSION")
    )]
    OtherPlan,
    #[error("the server sent {0}; it may run another version or be altered")]
    OutOfTurn(&'static str),
    #[error("the system gives no randomness: {0}; try again later")]
    Randomness(#[from] getrandom::Error),
    #[error(transparent)]
    Encrypt(#[from] EncryptError),
    #[error("the panel has no site {0} at which the query could begin; choose another position")]
    NoSite(String),
    #[error(
        "the server lists sites of panel {panel} with digest {found}, but digest {pinned} is pinned; nothing of the query was sent: if its operator confirms that the panel was replaced, pin the new digest, else do not ask there, since such a list may be made to show which place is meant"
    )]
    OtherSites {
        panel: String,
        pinned: Digest,
        found: Digest,
    },
    #[error(
        "the panel has only {there} places besides this one where the query could begin, too few for {wanted} decoys; ask for fewer"
    )]
    Decoys { wanted: usize, there: usize },
    #[error(
        "the answers would take {bytes} bytes, and a search may have 4 GiB of them; ask for fewer decoys or a shorter query"
    )]
    LargeSearch { bytes: u64 },
    #[error(transparent)]
    Pattern(#[from] PatternError),
    #[error(transparent)]
    SearchSpec(#[from] SearchSpecError),
    #[error(transparent)]
    Plan(#[from] PlanError),
    #[error(transparent)]
    Wire(#[from] WireError),
    #[error(transparent)]
    Unreadable(#[from] ReadError),
    #[error(transparent)]
    Field(#[from] FieldError),
    #[error(transparent)]
    Combine(#[from] CombineError),
    #[error(
        "{what}: it altered or lost data, or lies; nothing is reported, nothing more was asked, and {noted}"
    )]
    FalseAnswer { what: &'static str, noted: String },
    #[error(
        "nothing was asked: on {} unverified answers of the server about this dataset were used ({TRUST_SERVER}), and what is asked now may follow from them; decide with `{}`, which says what the server may have learned",
        utc(*unix_seconds),
        TRUST_RESET.on(directory.display())
    )]
    ReliedOn {
        directory: std::path::PathBuf,
        unix_seconds: u64,
    },
    #[error("{}", other_version(directory, own, published))]
    OtherVersion {
        directory: std::path::PathBuf,
        own: Box<NamedVersion>,
        published: Box<NamedVersion>,
    },
    #[error(
        "nothing was asked: there is no dataset named {name:?} at the server for you, and {} has {}; it was deleted there, was never uploaded under this name, or you were not granted it: upload it, or answer from what is kept with {OFFLINE}",
        directory.display(),
        named(own)
    )]
    NotPublished {
        directory: std::path::PathBuf,
        name: String,
        own: Box<NamedVersion>,
    },
    #[error(
        "{0}; all that this takes is kept: {OFFLINE} answers without comparing versions with the server"
    )]
    NotCompared(Box<ClientError>),
    #[error(
        "not everything that this takes is kept in the dataset's directory, and {OFFLINE} asks no server; leave it out"
    )]
    NotKept,
    #[error(
        "nothing was asked: on {} a run with this dataset found that {what}; find out why from whoever runs the server, then decide with `{}`",
        utc(*unix_seconds),
        TRUST_RESET.on(directory.display())
    )]
    Distrusted {
        directory: std::path::PathBuf,
        unix_seconds: u64,
        what: String,
    },
    #[error("the question is malformed: {0}; this is a defect of Oboro, please report it")]
    Request(#[from] RequestError),
    #[error(transparent)]
    Dataset(#[from] DatasetError),
    #[error(transparent)]
    Format(#[from] FormatError),
    #[error(
        "cannot read segment {} of the bundle: {source}; check the disk, or restore the bundle from your backup", path.display()
    )]
    Read {
        path: std::path::PathBuf,
        source: std::io::Error,
    },
}

/// Version of a dataset, as named in messages.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NamedVersion {
    /// Id of the dataset.
    pub dataset: DatasetId,
    /// Number of the version.
    pub version: u64,
    /// Root hash of the version.
    pub root: Digest,
    /// Time of its upload in seconds since 1970, if known.
    pub uploaded: Option<u64>,
}

/// Describes a version with the date of its upload.
fn named(version: &NamedVersion) -> String {
    match version.uploaded {
        Some(uploaded) => format!("version {}, uploaded {}", version.version, utc(uploaded)),
        None => format!("version {}, not uploaded from there", version.version),
    }
}

/// Describes both versions, and the remedy.
fn other_version(
    directory: &std::path::Path,
    own: &NamedVersion,
    published: &NamedVersion,
) -> String {
    let directory = directory.display();
    let remedy = if own.dataset != published.dataset {
        "it is another dataset: give the name under which this one was uploaded".to_owned()
    } else if own.version > published.version {
        "upload the directory's version first, if it follows that one".to_owned()
    } else {
        format!(
            "the dataset was changed from another copy of the directory: use that copy, or answer from what is kept of the older version with {OFFLINE}"
        )
    };
    format!(
        "nothing was asked: {directory} has {}, and the server has {}; {remedy}",
        named(own),
        named(published)
    )
}

/// Formats a size in bytes.
fn size(bytes: u64) -> String {
    match bytes {
        0..10_000 => format!("{bytes} bytes"),
        10_000..1_000_000 => format!("{:.0} kB", bytes as f64 / 1e3),
        _ => format!("{:.0} MB", bytes as f64 / 1e6),
    }
}

/// Returns the remedy for a failed connection.
fn how_to_reach(url: &str) -> String {
    if url.starts_with("https:") {
        format!(
            "check that `{SERVE}` runs there with TLS and that {CA} names the certificate that vouches for it; without TLS its address begins with http://"
        )
    } else {
        format!("check that `{SERVE}` runs there and that the address is right")
    }
}

fn long_moments(longest: usize, wanted: usize) -> String {
    let counted = match longest {
        1 => "no itemsets of this dataset that are verified".to_owned(),
        longest => format!("itemsets of at most {longest} that are verified"),
    };
    let shorter = match longest {
        1 => String::new(),
        longest => format!("give {}, or ", MAX_LEN.to(longest)),
    };
    let anew = if wanted <= LONGEST_VERIFIED {
        format!(", or encrypt the data again with {}", MAX_LEN.to(wanted))
    } else {
        String::new()
    };
    format!(
        "the server counts {counted}, and itemsets of {wanted} were asked for; {shorter}mine with {}{anew}",
        ANSWERS.to("cells")
    )
}

/// Returns the remedy for different protocol versions.
fn what_to_update(server: u32) -> &'static str {
    if server < PROTOCOL {
        "update the server, or use the older Oboro that it goes with"
    } else {
        "update this Oboro to the server's release"
    }
}

/// Returns the protocol version of a server that rejected ours.
fn protocol_of(status: &Status) -> Option<u32> {
    let said = status.metadata().get(PROTOCOL_KEY)?.to_str().ok()?;
    said.parse().ok().filter(|&server| server != PROTOCOL)
}

/// Returns the delay until a server that refused a call temporarily may be asked again.
fn retry_after(status: &Status) -> Option<Duration> {
    let is_for_now = matches!(
        status.code(),
        Code::ResourceExhausted | Code::Unavailable | Code::Aborted
    );
    let said = status.metadata().get(RETRY_AFTER_KEY)?.to_str().ok()?;
    let milliseconds = said.parse().ok().filter(|_| is_for_now)?;
    Some(Duration::from_millis(milliseconds))
}

/// Returns the id of the request in the server's log.
fn request_of(status: &Status) -> Option<&str> {
    let said = status.metadata().get(REQUEST_KEY)?.to_str().ok()?;
    let is_number =
        |it: &&str| it.len() <= 32 && it.bytes().all(|it| it.is_ascii_hexdigit() || it == b'-');
    Some(said).filter(is_number)
}

/// Returns a server's message on one line, shortened, without control characters.
pub(crate) fn printable(words: &str) -> String {
    const MOST: usize = 1000;
    let end = words
        .char_indices()
        .nth(MOST)
        .map_or(words.len(), |(at, _)| at);
    escaped(&words[..end]).into_owned()
}

/// Formats a UTC time to the minute: "2026-11-23 18:04 UTC".
pub fn utc(unix_seconds: u64) -> String {
    let format = format_description!("[year]-[month]-[day] [hour]:[minute] UTC");
    let time = i64::try_from(unix_seconds).ok();
    let time = time.and_then(|it| OffsetDateTime::from_unix_timestamp(it).ok());
    time.and_then(|it| it.format(format).ok())
        .unwrap_or_else(|| format!("{unix_seconds} s after 1970-01-01 UTC"))
}

impl ClientError {
    /// Returns the class of the error.
    pub fn class(&self) -> ErrorClass {
        match self {
            Self::Dataset(error) => error.class(),
            Self::Format(error) => error.kind().into(),
            Self::Unreachable { .. } | Self::NoAnswer { .. } | Self::Broken { .. } => {
                ErrorClass::Connection
            }
            Self::NotCompared(error) => error.class(),
            Self::Interrupted => ErrorClass::Interrupted,
            Self::OtherVersion { .. }
            | Self::Protocol { .. }
            | Self::NoSuchCall
            | Self::OtherPlan => ErrorClass::Version,
            Self::Damaged(_)
            | Self::Pairs(_)
            | Self::Read { .. }
            | Self::RowIds
            | Self::DamagedRecovery(_) => ErrorClass::Damaged,
            Self::FalseAnswer { .. }
            | Self::Distrusted { .. }
            | Self::WrongRoot { .. }
            | Self::OutOfTurn(_)
            | Self::OtherSites { .. }
            | Self::OtherRecovery { .. }
            | Self::OtherRoot { .. }
            | Self::OtherName { .. }
            | Self::Unreadable(_)
            | Self::Wire(_)
            | Self::Field(_) => ErrorClass::FalseAnswer,
            Self::SealedRecovery(_) => ErrorClass::Keys,
            Self::Address { .. }
            | Self::Unprotected(_)
            | Self::Proxy(_)
            | Self::Certificates(_)
            | Self::Identity(_)
            | Self::PrivateFile(_)
            | Self::Token
            | Self::NoRowIds
            | Self::ReliedOn { .. }
            | Self::NotKept
            | Self::NotInPrefix(_)
            | Self::NoRow(..)
            | Self::NoPairs
            | Self::UnknownItem(_)
            | Self::LongMoments { .. }
            | Self::Prefix(_)
            | Self::LargeSums { .. }
            | Self::NoSite(_)
            | Self::Decoys { .. }
            | Self::LargeSearch { .. }
            | Self::Pattern(_)
            | Self::SearchSpec(_)
            | Self::Plan(_) => ErrorClass::Input,
            Self::NotPublished { .. }
            | Self::Refused(_)
            | Self::Overloaded { .. }
            | Self::Busy
            | Self::EndlessUpload { .. }
            | Self::Failed(_) => ErrorClass::Server,
            Self::Runtime(_)
            | Self::Randomness(_)
            | Self::Encrypt(_)
            | Self::Combine(_)
            | Self::Request(_) => ErrorClass::Other,
        }
    }

    /// Records a false answer in the owner's record; returns the error that ends the run.
    pub(crate) fn false_answer(dataset: &Dataset, what: &'static str) -> Self {
        let directory = dataset.bundle().directory().display();
        let noted = match dataset.record_failure(what) {
            Ok(()) => format!("{directory} says so from now on (`{TRUST_SHOW}`)"),
            Err(error) => format!(
                "this could not be noted in {directory} ({error}): do not ask this server again before it is known why"
            ),
        };
        Self::FalseAnswer { what, noted }
    }

    /// Distinguishes refusals and failures of the server from a broken connection.
    pub(crate) fn from_status(status: &Status, during: &'static str) -> Self {
        let message = printable(status.message());
        // Only local errors have a source: malformed bytes, or a broken connection.
        let source = std::error::Error::source(status);
        if let Some(MalformedAnswer(what)) = source.and_then(|it| it.downcast_ref()) {
            return ClientError::OutOfTurn(what);
        }
        if source.is_some() {
            return ClientError::Broken {
                during,
                cause: message,
            };
        }
        if let Some(server) = protocol_of(status) {
            return ClientError::Protocol { server };
        }
        let message = match request_of(status) {
            Some(request) if !message.is_empty() => format!("{message} (request {request})"),
            _ => message,
        };
        if let Some(after) = retry_after(status) {
            return ClientError::Overloaded { message, after };
        }
        match status.code() {
            Code::Unavailable | Code::Cancelled | Code::Unknown => {
                let cause = if message.is_empty() {
                    status.code().to_string()
                } else {
                    message
                };
                ClientError::Broken { during, cause }
            }
            Code::Aborted => ClientError::Busy,
            Code::DataLoss => ClientError::Damaged(message),
            Code::Internal => ClientError::Failed(message),
            Code::Unimplemented => ClientError::NoSuchCall,
            _ => ClientError::Refused(message),
        }
    }
}
