//! Failures of commands: a sentence for people, a class and an exit code for programs.

use oboro_client::ClientError;
use oboro_dataset::DatasetError;
use oboro_format::{ErrorClass, FormatError};
#[cfg(feature = "serve")]
use oboro_genome_server::GenomeError;
use oboro_input::ReadError;
use oboro_input::transactions::TransactionsError;
use oboro_mining::{AprioriError, RulesError};
use oboro_results::ItemsetsError;
use oboro_rlwe::KeyFileError;
#[cfg(feature = "serve")]
use oboro_server::{LogLevelError, ServeError, WholeError};
#[cfg(feature = "serve")]
use oboro_store::StoreError;
use std::error::Error;
use std::fmt;
use std::io;
use std::process::ExitCode;

/// Result of a command.
pub type Outcome = Result<(), Failure>;

/// Failure of a command: one sentence with cause and remedy.
#[derive(Debug)]
pub struct Failure {
    error: Box<dyn Error + Send + Sync>,
    /// Class, if the error does not imply it.
    class: Option<ErrorClass>,
}

impl<E: Into<Box<dyn Error + Send + Sync>>> From<E> for Failure {
    fn from(error: E) -> Self {
        Self {
            error: error.into(),
            class: None,
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.error.fmt(f)
    }
}

impl Failure {
    /// Creates a failure of this class.
    pub fn of(class: ErrorClass, sentence: String) -> Self {
        Self {
            error: sentence.into(),
            class: Some(class),
        }
    }

    /// Creates a failure of the command's input.
    pub fn input(sentence: impl Into<String>) -> Self {
        Self::of(ErrorClass::Input, sentence.into())
    }

    /// Creates a failure of reading or writing a file.
    pub fn io(error: &io::Error, sentence: String) -> Self {
        let class = match error.kind() {
            io::ErrorKind::StorageFull
            | io::ErrorKind::ReadOnlyFilesystem
            | io::ErrorKind::QuotaExceeded => ErrorClass::Storage,
            _ => ErrorClass::Input,
        };
        Self::of(class, sentence)
    }

    /// Returns true if the reader of standard output closed it.
    pub fn is_broken_pipe(&self) -> bool {
        self.as_a::<io::Error>()
            .is_some_and(|error| error.kind() == io::ErrorKind::BrokenPipe)
    }

    /// Returns the class of the failure.
    pub fn class(&self) -> ErrorClass {
        if let Some(class) = self.class {
            class
        } else if let Some(error) = self.as_a::<ClientError>() {
            error.class()
        } else if let Some(error) = self.as_a::<AprioriError<ClientError>>() {
            error.class(ClientError::class)
        } else if let Some(error) = self.as_a::<DatasetError>() {
            error.class()
        } else if let Some(error) = self.as_a::<FormatError>() {
            error.kind().into()
        } else if self.as_a::<KeyFileError>().is_some() {
            ErrorClass::Keys
        } else if let Some(error) = self.as_a::<ReadError>() {
            error.class()
        } else if let Some(error) = self.as_a::<TransactionsError>() {
            error.class()
        } else if self.as_a::<ItemsetsError>().is_some() || self.as_a::<RulesError>().is_some() {
            ErrorClass::Input
        } else {
            self.operators_class().unwrap_or(ErrorClass::Other)
        }
    }

    /// Returns the class of an error that only an operator's commands have; `None` for any other.
    #[cfg(feature = "serve")]
    fn operators_class(&self) -> Option<ErrorClass> {
        if let Some(error) = self.as_a::<StoreError>() {
            Some(error.kind().into())
        } else if self.as_a::<LogLevelError>().is_some() {
            Some(ErrorClass::Input)
        } else if let Some(error) = self.as_a::<GenomeError>() {
            Some(error.kind().into())
        } else if let Some(error) = self.as_a::<WholeError>() {
            Some(match error {
                WholeError::Store(error) => error.kind().into(),
                WholeError::Genome(error) => error.kind().into(),
            })
        } else {
            self.as_a::<ServeError>().map(|error| match error {
                ServeError::Store(error) => error.kind().into(),
                ServeError::Unprotected(_) => ErrorClass::Input,
                _ => ErrorClass::Server,
            })
        }
    }

    #[cfg(not(feature = "serve"))]
    fn operators_class(&self) -> Option<ErrorClass> {
        None
    }

    /// Returns the exit code of its class; docs/commands.md lists them. Clap uses 2 for wrong usage.
    pub fn exit_code(&self) -> ExitCode {
        ExitCode::from(match self.class() {
            ErrorClass::Other => 1,
            ErrorClass::Input => 3,
            ErrorClass::Keys => 4,
            ErrorClass::Connection => 5,
            ErrorClass::Version => 6,
            ErrorClass::Server => 7,
            ErrorClass::Damaged => 8,
            ErrorClass::FalseAnswer => 9,
            ErrorClass::Storage => 10,
            ErrorClass::Interrupted => 130,
        })
    }

    /// Returns the error if it is of this type.
    pub fn as_a<E: Error + 'static>(&self) -> Option<&E> {
        self.error.downcast_ref()
    }
}
