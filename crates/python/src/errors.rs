//! The exceptions of `oboro.errors`, with the messages of the underlying crates.

use oboro_client::ClientError;
use oboro_format::{ErrorKind, FormatError};
use oboro_genome_server::GenomeError;
use oboro_mining::transactions::TransactionsError;
use oboro_mining::{AprioriError, DatasetError, ItemsetsError, ReadError, RecordError};
use oboro_rlwe::KeyFileError;
use oboro_server::ServeError;
use oboro_store::StoreError;
use pyo3::PyErr;
use std::error::Error;
use std::io;

mod python {
    use pyo3::import_exception;

    import_exception!(oboro.errors, OboroError);
    import_exception!(oboro.errors, InputError);
    import_exception!(oboro.errors, KeysError);
    import_exception!(oboro.errors, ConnectionFailed);
    import_exception!(oboro.errors, VersionError);
    import_exception!(oboro.errors, ServerError);
    import_exception!(oboro.errors, DamagedError);
    import_exception!(oboro.errors, FalseAnswerError);
    import_exception!(oboro.errors, StorageError);
    import_exception!(oboro.errors, Interrupted);
}

/// An error for Python, of the exception class that fits it.
pub struct Failure(PyErr);

impl Failure {
    /// Unusable arguments or data.
    pub fn input(error: impl ToString) -> Self {
        Self(python::InputError::new_err(error.to_string()))
    }

    /// A local file error.
    fn of_kind(kind: ErrorKind, sentence: String) -> Self {
        Self(match kind {
            ErrorKind::DataLoss => python::DamagedError::new_err(sentence),
            ErrorKind::NotFound | ErrorKind::AlreadyExists | ErrorKind::InvalidArgument => {
                python::InputError::new_err(sentence)
            }
            ErrorKind::FailedPrecondition
            | ErrorKind::Busy
            | ErrorKind::DiskFull
            | ErrorKind::MemoryFull
            | ErrorKind::Unavailable
            | ErrorKind::Forbidden
            | ErrorKind::Quota
            | ErrorKind::Internal => python::StorageError::new_err(sentence),
        })
    }

    /// An exception raised by the caller's function.
    pub fn raised(error: PyErr) -> Self {
        Self(error)
    }

    /// No disk space for temporary files.
    pub fn storage(error: io::Error) -> Self {
        Self(python::StorageError::new_err(format!(
            "cannot keep temporary files: {error}; free some space, or name another directory in TMPDIR"
        )))
    }

    /// A refusal by a local server, of the class that a remote one would give.
    pub fn refused(error: StoreError) -> Self {
        match error.kind() {
            ErrorKind::NotFound
            | ErrorKind::AlreadyExists
            | ErrorKind::InvalidArgument
            | ErrorKind::FailedPrecondition
            | ErrorKind::Forbidden
            | ErrorKind::Quota
            | ErrorKind::DiskFull => Self(python::ServerError::new_err(error.to_string())),
            _ => error.into(),
        }
    }

    /// Use of a server in a fork of the process that opened it.
    pub fn forked() -> Self {
        Self(python::ConnectionFailed::new_err(
            "this server was opened before a fork, and works in the process that opened it; open one in this process",
        ))
    }

    /// Use of a closed server.
    pub fn closed() -> Self {
        Self(python::ConnectionFailed::new_err(
            "this server has been closed; open another with oboro.connect() or oboro.local()",
        ))
    }
}

impl From<Failure> for PyErr {
    fn from(failure: Failure) -> Self {
        failure.0
    }
}

impl From<getrandom::Error> for Failure {
    fn from(error: getrandom::Error) -> Self {
        Self(python::OboroError::new_err(format!(
            "the operating system gave no randomness ({error}); try again"
        )))
    }
}

impl From<KeyFileError> for Failure {
    fn from(error: KeyFileError) -> Self {
        let remedy = match error {
            KeyFileError::Foreign(_) => " with `Keys.generate()`, and save it",
            KeyFileError::PassphraseNeeded(_) => " as `passphrase`",
            _ => "",
        };
        Self(python::KeysError::new_err(format!("{error}{remedy}")))
    }
}

impl From<FormatError> for Failure {
    fn from(error: FormatError) -> Self {
        Self::of_kind(error.kind(), error.to_string())
    }
}

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Self {
        Self::of_kind(error.kind(), error.to_string())
    }
}

impl From<DatasetError> for Failure {
    fn from(error: DatasetError) -> Self {
        let sentence = error.to_string();
        Self(match error {
            DatasetError::Format(error) => return error.into(),
            DatasetError::Transactions(error) => return error.into(),
            DatasetError::WrongKey { .. } | DatasetError::SameKey(_) => {
                python::KeysError::new_err(sentence)
            }
            DatasetError::Record(RecordError::Newer(_) | RecordError::Older(_)) => {
                python::VersionError::new_err(sentence)
            }
            DatasetError::Record(_) | DatasetError::Range(_) => {
                python::DamagedError::new_err(sentence)
            }
            DatasetError::Interrupted => python::Interrupted::new_err(sentence),
            DatasetError::Encrypt(_) | DatasetError::Randomness(_) => {
                python::OboroError::new_err(sentence)
            }
            DatasetError::Plan(_)
            | DatasetError::NewItems { .. }
            | DatasetError::ItemsLeftOut(_)
            | DatasetError::ItemsMissing(_)
            | DatasetError::LeftOutTooOften { .. }
            | DatasetError::NoRowIds
            | DatasetError::LackingRowIds
            | DatasetError::LongRowIds { .. }
            | DatasetError::LackingItems { .. }
            | DatasetError::MaxLen(_)
            | DatasetError::UnknownFocus(_)
            | DatasetError::MuchFocus(_)
            | DatasetError::FocusWithoutPairs
            | DatasetError::TooManyRanges
            | DatasetError::NoIdsToErase
            | DatasetError::NothingToErase
            | DatasetError::UnknownRowIds { .. }
            | DatasetError::UndatedRowId(_)
            | DatasetError::NoDate(_)
            | DatasetError::EverythingErased
            | DatasetError::Undecided
            | DatasetError::TooWide { .. }
            | DatasetError::Nothing { .. } => python::InputError::new_err(sentence),
            DatasetError::NoSpace { .. } => python::StorageError::new_err(sentence),
        })
    }
}

impl From<GenomeError> for Failure {
    fn from(error: GenomeError) -> Self {
        Self::of_kind(error.kind(), error.to_string())
    }
}

impl From<TransactionsError> for Failure {
    fn from(error: TransactionsError) -> Self {
        Self::input(error)
    }
}

impl From<ReadError> for Failure {
    fn from(error: ReadError) -> Self {
        Self::input(error)
    }
}

impl From<ItemsetsError> for Failure {
    fn from(error: ItemsetsError) -> Self {
        Self::input(error)
    }
}

impl From<ServeError> for Failure {
    fn from(error: ServeError) -> Self {
        match error {
            ServeError::Store(error) => error.into(),
            error => Self(python::ServerError::new_err(error.to_string())),
        }
    }
}

impl From<ClientError> for Failure {
    fn from(error: ClientError) -> Self {
        use ClientError::*;
        let sentence = error.to_string();
        Self(match error {
            Dataset(error) => return error.into(),
            Format(error) => return error.into(),
            Unreachable { .. } | NoAnswer { .. } | Broken { .. } => {
                python::ConnectionFailed::new_err(sentence)
            }
            Interrupted => python::Interrupted::new_err(sentence),
            Protocol { .. } | NoSuchCall | OtherPlan => python::VersionError::new_err(sentence),
            Damaged(_) | Pairs(_) | Read { .. } => python::DamagedError::new_err(sentence),
            FalseAnswer { .. }
            | Distrusted { .. }
            | WrongRoot { .. }
            | OutOfTurn(_)
            | OtherSites { .. } => python::FalseAnswerError::new_err(sentence),
            Address { .. }
            | Unprotected(_)
            | Certificates(_)
            | Identity(_)
            | PrivateFile(_)
            | Token
            | NoRowIds
            | NotInPrefix
            | NoRow(_)
            | NoPairs
            | UnknownItem(_)
            | LongMoments { .. }
            | Prefix(_)
            | LargeSums { .. }
            | NoSite(_)
            | Decoys { .. }
            | Pattern(_)
            | SearchSpec(_)
            | Plan(_) => python::InputError::new_err(sentence),
            Refused(_) | Busy | Failed(_) => python::ServerError::new_err(sentence),
            _ => python::OboroError::new_err(sentence),
        })
    }
}

impl<E: Error + Into<Failure> + 'static> From<AprioriError<E>> for Failure {
    fn from(error: AprioriError<E>) -> Self {
        let sentence = error.to_string();
        match error {
            AprioriError::Counter(error) => error.into(),
            AprioriError::TooManyCandidates { .. } | AprioriError::ItemsLeftOut { .. } => {
                Self::input(sentence)
            }
            AprioriError::AnswerCount { .. }
            | AprioriError::Impossible { .. }
            | AprioriError::Contradiction { .. } => {
                Self(python::FalseAnswerError::new_err(sentence))
            }
        }
    }
}
