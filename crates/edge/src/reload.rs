//! Values loaded from files, and reloaded when these change.

use crate::throttled_log::ThrottledLog;
use oboro_format::files::Identity;
use parking_lot::RwLock;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

/// Error of files that cannot be used.
pub(crate) trait LoadError: fmt::Display {
    /// Returns true if the unchanged files may be readable the next time.
    fn is_transient(&self) -> bool;
}

/// Value loaded from files, as last read.
pub(crate) struct ReloadingValue<T> {
    /// Description for the log.
    what: &'static str,
    paths: Vec<PathBuf>,
    current: RwLock<Current<T>>,
    errors: ThrottledLog,
}

struct Current<T> {
    /// Identities of the files last read, usable or not.
    seen: Vec<Option<Identity>>,
    value: Arc<T>,
}

/// Replaced value and its replacement.
pub(crate) struct Replacement<T> {
    pub(crate) before: Arc<T>,
    pub(crate) now: Arc<T>,
}

impl<T> fmt::Debug for ReloadingValue<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reloaded")
            .field("paths", &self.paths)
            .finish_non_exhaustive()
    }
}

impl<T> ReloadingValue<T> {
    /// Loads a value from the files with `read`.
    pub(crate) fn open<E>(
        what: &'static str,
        paths: Vec<PathBuf>,
        read: impl FnOnce(&[PathBuf]) -> Result<T, E>,
    ) -> Result<Self, E> {
        // Taken before reading, which catches changes in between.
        let seen = seen(&paths);
        let value = Arc::new(read(&paths)?);
        Ok(Self {
            what,
            paths,
            current: RwLock::new(Current { seen, value }),
            errors: ThrottledLog::default(),
        })
    }

    /// Returns the last value.
    pub(crate) fn current(&self) -> Arc<T> {
        Arc::clone(&self.current.read().value)
    }

    /// Reloads the files if one has changed. If they cannot be used, logs that and keeps the value.
    pub(crate) fn refresh<E: LoadError>(
        &self,
        read: impl FnOnce(&[PathBuf], &T) -> Result<T, E>,
    ) -> Option<Replacement<T>> {
        let seen = seen(&self.paths);
        if self.current.read().seen == seen {
            return None;
        }
        let mut current = self.current.write();
        if current.seen == seen {
            return None;
        }
        match read(&self.paths, &current.value) {
            Ok(value) => {
                tracing::info!("read {} again", self.what);
                let now = Arc::new(value);
                current.seen = seen;
                let before = std::mem::replace(&mut current.value, Arc::clone(&now));
                Some(Replacement { before, now })
            }
            Err(error) => {
                if !error.is_transient() {
                    current.seen = seen;
                }
                drop(current);
                self.errors.log(|times| {
                    tracing::error!(%error, times, "{} was changed and cannot be used; what was read before stays valid", self.what);
                });
                None
            }
        }
    }
}

fn seen(paths: &[PathBuf]) -> Vec<Option<Identity>> {
    let seen = |path: &PathBuf| Identity::of(path).unwrap_or_default();
    paths.iter().map(seen).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;
    use std::fs;
    use tempfile::TempDir;

    struct Unusable {
        is_transient: bool,
    }

    impl fmt::Display for Unusable {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("unusable")
        }
    }

    impl LoadError for Unusable {
        fn is_transient(&self) -> bool {
            self.is_transient
        }
    }

    #[test]
    fn files_are_read_when_they_change_and_what_cannot_be_used_changes_nothing() {
        let directory = TempDir::new().unwrap();
        let paths: Vec<PathBuf> = ["a", "b"].map(|it| directory.path().join(it)).into();
        let write = |at: usize, text: &str| fs::write(&paths[at], text).unwrap();
        let reads = Cell::new(0);
        let read = |paths: &[PathBuf], _: &String| {
            reads.set(reads.get() + 1);
            let text: String = paths
                .iter()
                .map(|path| fs::read_to_string(path).unwrap_or_default())
                .collect();
            match &*text {
                "bad" => Err(Unusable {
                    is_transient: false,
                }),
                "later" => Err(Unusable { is_transient: true }),
                _ => Ok(text),
            }
        };
        write(0, "one");
        let opened = ReloadingValue::open("the files", paths.clone(), |paths| {
            read(paths, &String::new())
        });
        let files = opened.ok().unwrap();
        assert!(files.refresh(read).is_none());
        assert_eq!(reads.get(), 1);
        write(1, "and two");
        let replaced = files.refresh(read).unwrap();
        assert_eq!((&**replaced.before, &**replaced.now), ("one", "oneand two"));
        assert_eq!(*files.current(), "oneand two");
        fs::remove_file(&paths[1]).unwrap();
        for (text, times) in [("bad", 1), ("later", 3)] {
            write(0, text);
            reads.set(0);
            for _ in 0..3 {
                assert!(files.refresh(read).is_none());
            }
            assert_eq!(reads.get(), times, "{text}");
            assert_eq!(*files.current(), "oneand two");
        }
    }
}
