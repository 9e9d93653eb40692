//! Exceptions of `oboro.errors`, with the messages of the underlying crates.

use oboro_client::ClientError;
use oboro_dataset::DatasetError;
use oboro_format::{ErrorClass, ErrorKind, FormatError};
use oboro_genome_server::GenomeError;
use oboro_input::ReadError;
use oboro_input::transactions::TransactionsError;
use oboro_mining::AprioriError;
use oboro_results::ItemsetsError;
use oboro_rlwe::KeyFileError;
use oboro_server::ServeError;
use oboro_store::StoreError;
use pyo3::PyErr;
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

/// Python exception of the class that fits an error.
pub struct Failure(PyErr);

impl Failure {
    /// Creates an error of unusable arguments or data.
    pub fn input(error: impl ToString) -> Self {
        Self(python::InputError::new_err(error.to_string()))
    }

    /// Creates an error of this class.
    fn of(class: ErrorClass, error: impl ToString) -> Self {
        let sentence = error.to_string();
        Self(match class {
            ErrorClass::Input => python::InputError::new_err(sentence),
            ErrorClass::Keys => python::KeysError::new_err(sentence),
            ErrorClass::Connection => python::ConnectionFailed::new_err(sentence),
            ErrorClass::Version => python::VersionError::new_err(sentence),
            ErrorClass::Server => python::ServerError::new_err(sentence),
            ErrorClass::Damaged => python::DamagedError::new_err(sentence),
            ErrorClass::FalseAnswer => python::FalseAnswerError::new_err(sentence),
            ErrorClass::Storage => python::StorageError::new_err(sentence),
            ErrorClass::Interrupted => python::Interrupted::new_err(sentence),
            ErrorClass::Other => python::OboroError::new_err(sentence),
        })
    }

    /// Wraps an exception raised by the caller's function.
    pub fn raised(error: PyErr) -> Self {
        Self(error)
    }

    /// Creates the error of a full disk for temporary files.
    pub fn storage(error: io::Error) -> Self {
        Self(python::StorageError::new_err(format!(
            "cannot keep temporary files: {error}; free some space, or name another directory in TMPDIR"
        )))
    }

    /// Creates the error of a refusal by a local server, of the class that a remote one would give.
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

    /// Creates the error of a server used in a fork of the process that opened it.
    pub fn forked() -> Self {
        Self(python::ConnectionFailed::new_err(
            "this server was opened before a fork, and works in the process that opened it; open one in this process",
        ))
    }

    /// Creates the error of a closed server.
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
        Self::of(error.kind().into(), error)
    }
}

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Self {
        Self::of(error.kind().into(), error)
    }
}

impl From<DatasetError> for Failure {
    fn from(error: DatasetError) -> Self {
        Self::of(error.class(), error)
    }
}

impl From<GenomeError> for Failure {
    fn from(error: GenomeError) -> Self {
        Self::of(error.kind().into(), error)
    }
}

impl From<TransactionsError> for Failure {
    fn from(error: TransactionsError) -> Self {
        Self::of(error.class(), error)
    }
}

impl From<ReadError> for Failure {
    fn from(error: ReadError) -> Self {
        Self::of(error.class(), error)
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
        Self::of(error.class(), error)
    }
}

impl From<AprioriError<ClientError>> for Failure {
    fn from(error: AprioriError<ClientError>) -> Self {
        Self::of(error.class(ClientError::class), error)
    }
}
