//! Errors of encrypted datasets and of their owner's records.

use oboro_format::wording::{
    COMPACT, MAX_LEN, MIN_ITEM_SUPPORT, MISSING, NEW_ITEMS, ROW_IDS, TRUST_RESET,
};
use oboro_format::{DatasetId, ErrorClass, FormatError};
use oboro_input::transactions::TransactionsError;
use oboro_ring::moment;
use oboro_rlwe::{EncryptError, KeyCheck, PlanError, RangeError, SealError};
use std::io::ErrorKind::{NotADirectory, NotFound};
use std::path::PathBuf;
use thiserror::Error;

/// Error of encrypting, opening or changing a dataset.
#[derive(Debug, Error)]
#[allow(missing_docs)]
pub enum DatasetError {
    #[error(transparent)]
    Format(#[from] FormatError),
    #[error(transparent)]
    Plan(#[from] PlanError),
    #[error(transparent)]
    Encrypt(#[from] EncryptError),
    #[error(transparent)]
    Record(#[from] RecordError),
    #[error(
        "the new version would not have opened ({0}), which is a fault of Oboro; nothing was changed. Report the fault"
    )]
    NotCommitted(#[source] RecordError),
    #[error("the operating system gave no randomness ({0}); nothing was encrypted, try again")]
    Randomness(#[from] getrandom::Error),
    #[error(
        "the key {given} is not the one that dataset {dataset} was encrypted with ({wanted}); give the right key file"
    )]
    WrongKey {
        dataset: DatasetId,
        given: KeyCheck,
        wanted: KeyCheck,
    },
    #[error(
        "{count} items are not columns of this dataset, {example:?} for one; leave them out with {} (later minimum supports must then be above theirs), or encrypt everything again with columns for them, {}",
        NEW_ITEMS.to("drop"), NEW_ITEMS.to("re-encrypt")
    )]
    NewItems { count: usize, example: String },
    #[error(
        "{example:?}, which has no column, may be in up to {support} transactions of the dataset, and only items in fewer than {limit} may be left out; encrypt everything anew, or choose a larger {MIN_ITEM_SUPPORT}"
    )]
    LeftOutTooOften {
        example: String,
        support: u64,
        limit: u64,
    },
    #[error(
        "items in fewer than {0} transactions were left out of this dataset, and the new items may be among them; encrypt everything anew"
    )]
    ItemsMissing(u64),
    #[error(
        "{lacking} items of this dataset have no column in this table, {example:?} for one; add their columns, or give `{}` if the items are in none of its transactions",
        MISSING.to("absent")
    )]
    LackingItems { lacking: usize, example: String },
    #[error(
        "rows of this dataset have no ids; append without row ids, or encrypt all data again with them"
    )]
    NoRowIds,
    #[error("rows of this dataset have ids; say which column has them, with {ROW_IDS}")]
    LackingRowIds,
    #[error(
        "the longest row id has {longest} bytes and this dataset reserves {reserved} for each; shorten the ids, or encrypt all data again"
    )]
    LongRowIds { longest: usize, reserved: usize },
    #[error(
        "items in fewer than {0} transactions were left out of what is to be appended, and the dataset may have them; append all items"
    )]
    ItemsLeftOut(u64),
    #[error("a maximum itemset length of {0} is not possible; choose 1 to {max}", max = moment::MAX_LENGTH)]
    MaxLen(usize),
    #[error(
        "nothing to encrypt: there are {transactions} transactions and {items} items; check the input and {MIN_ITEM_SUPPORT}"
    )]
    Nothing { transactions: usize, items: usize },
    #[error(
        "{columns} items with {limbs} limbs are more than a segment holds (2^24 together); leave rare items out ({MIN_ITEM_SUPPORT}), or choose a smaller {MAX_LEN}"
    )]
    TooWide { columns: u32, limbs: usize },
    #[error(
        "the ciphertext takes {needed} bytes and {} has {free} free; free some space, choose another disk, leave rare items out ({MIN_ITEM_SUPPORT}) or choose a smaller {MAX_LEN}", directory.display()
    )]
    NoSpace {
        directory: PathBuf,
        needed: u64,
        free: u64,
    },
    #[error(
        "answers about more than 1,024 parts cannot be verified; `{COMPACT}` merges appends. If these are billions of transactions, encrypt them as several datasets"
    )]
    TooManyRanges,
    #[error(
        "{0:?} is to be a focus item, and is none of the items that are encrypted; check its spelling, whether it is left out as rare, and that a name with commas is in double quotes"
    )]
    UnknownFocus(String),
    #[error("{given} focus items were named, and {most} is the most; name fewer")]
    MuchFocus { given: usize, most: usize },
    #[error(
        "focus items are for pairs that the server counts, and with a maximum itemset length of 1 it counts none; choose 2 or more"
    )]
    FocusWithoutPairs,
    #[error("pairs cannot be counted of the {given} most frequent items; choose {least} to {most}")]
    PairColumns {
        given: usize,
        least: usize,
        most: usize,
    },
    #[error(
        "rows of this dataset have no ids, so none can be found; encrypt all data again with {ROW_IDS}"
    )]
    NoIdsToErase,
    #[error("no row is to be erased; give ids of rows, or a date")]
    NothingToErase,
    #[error(
        "no row has the id {example:?}{}; nothing was erased. Check the spelling; a row that was erased before has no id any more",
        match count {
            1 => String::new(),
            _ => format!(", one of {count} unknown ids"),
        }
    )]
    UnknownRowIds { count: usize, example: String },
    #[error(
        "the row id {0:?} does not begin with a date (2026-11-25), and by dates all of them must; nothing was erased, give ids instead"
    )]
    UndatedRowId(String),
    #[error("{0:?} is no date; give one as 2026-11-25")]
    NoDate(String),
    #[error("that would erase every transaction; delete the dataset instead")]
    EverythingErased,
    #[error("{0} is the key that the dataset is encrypted with; give another one")]
    SameKey(KeyCheck),
    #[error(
        "the server gave a false answer, about which nothing was decided yet; if it is to be asked again, say so first ({TRUST_RESET})"
    )]
    Undecided,
    #[error(transparent)]
    Transactions(#[from] TransactionsError),
    #[error(transparent)]
    Range(#[from] RangeError),
    #[error("encryption was interrupted; nothing is left of it, run it again")]
    Interrupted,
    /// Append that re-encrypts, of which only the first half was done.
    #[error(
        "the dataset was encrypted again and has the new columns, but not yet the new transactions: {cause}; the same command appends them"
    )]
    NotAppended {
        /// The error of the second half.
        cause: Box<DatasetError>,
    },
}

impl DatasetError {
    /// Wraps the error of an append whose first half, encrypting again with the new columns, was done.
    pub fn not_appended(cause: Self) -> Self {
        let cause = Box::new(cause);
        Self::NotAppended { cause }
    }

    /// Returns the class of the error.
    pub fn class(&self) -> ErrorClass {
        match self {
            Self::Format(FormatError::Io { source, .. })
                if matches!(source.kind(), NotFound | NotADirectory) =>
            {
                ErrorClass::Input
            }
            Self::Format(error) => error.kind().into(),
            Self::WrongKey { .. } | Self::SameKey(_) => ErrorClass::Keys,
            Self::Record(RecordError::Newer { .. } | RecordError::Older { .. }) => {
                ErrorClass::Version
            }
            Self::Record(RecordError::Unusable(_)) => ErrorClass::Other,
            Self::Record(_) | Self::Range(_) => ErrorClass::Damaged,
            Self::Interrupted => ErrorClass::Interrupted,
            Self::NotAppended { cause, .. } => cause.class(),
            Self::Encrypt(_) | Self::Randomness(_) | Self::NotCommitted(_) => ErrorClass::Other,
            Self::NoSpace { .. } => ErrorClass::Storage,
            Self::Transactions(error) => error.class(),
            Self::Plan(_)
            | Self::NewItems { .. }
            | Self::ItemsLeftOut(_)
            | Self::ItemsMissing(_)
            | Self::LeftOutTooOften { .. }
            | Self::NoRowIds
            | Self::LackingRowIds
            | Self::LongRowIds { .. }
            | Self::LackingItems { .. }
            | Self::MaxLen(_)
            | Self::UnknownFocus(_)
            | Self::MuchFocus { .. }
            | Self::FocusWithoutPairs
            | Self::PairColumns { .. }
            | Self::TooManyRanges
            | Self::NoIdsToErase
            | Self::NothingToErase
            | Self::UnknownRowIds { .. }
            | Self::UndatedRowId(_)
            | Self::NoDate(_)
            | Self::EverythingErased
            | Self::Undecided
            | Self::TooWide { .. }
            | Self::Nothing { .. } => ErrorClass::Input,
        }
    }
}

impl From<SealError> for DatasetError {
    fn from(error: SealError) -> Self {
        RecordError::from(error).into()
    }
}

/// Unusable record.
#[derive(Debug, Error)]
#[allow(missing_docs)]
pub enum RecordError {
    #[error(transparent)]
    Seal(#[from] SealError),
    #[error(
        "the owner record was written by a newer Oboro (version {found}, this one reads {known}); update Oboro"
    )]
    Newer { found: u32, known: u32 },
    #[error(
        "the owner record is of version {found}, which lacks what this Oboro needs (it reads version {known}); encrypt the data again"
    )]
    Older { found: u32, known: u32 },
    #[error(
        "the manifest in the dataset's head is not the one that the owner record names: the head was altered after Oboro wrote it; use the newest copy of the directory with the head that Oboro wrote"
    )]
    OtherManifest,
    #[error(
        "the recovery copy has parts of another version; nothing was written. Upload again from a directory of the dataset if there is one, or have the server's operator restore the copy of this version"
    )]
    OtherRecovery,
    #[error(
        "the owner record is intact, but this Oboro cannot use it ({0}), which is a fault of Oboro. Keep the directory as it is and report the fault; an older copy would bring erased rows back"
    )]
    Unusable(String),
}

pub(crate) fn other_ranges() -> RecordError {
    RecordError::Unusable("what is kept of its ranges does not fit".into())
}
