//! Namespaces of a store, each opened on first use. Work in one never waits for another.

use super::common::Common;
use super::directory::has_catalogue;
use super::grants::Grants;
use super::namespace::Namespace;
use super::rewritten;
use super::sweep::sweep_all;
use crate::error::StoreError;
use crate::layout::{NAMESPACES, SEGMENTS, home_of};
use oboro_format::DEFAULT_NAMESPACE;
use oboro_format::files::{ensure_directory, exists, if_there, names};
use oboro_format::is_caller;
use parking_lot::Mutex;
use std::collections::{BTreeSet, HashMap};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// All namespaces of a store, and their owners' grants.
pub(super) struct Namespaces {
    common: Arc<Common>,
    grants: Grants,
    opened: Mutex<HashMap<Arc<str>, Slot>>,
}

/// Namespace, once it is open.
type Slot = Arc<Mutex<Option<Arc<Namespace>>>>;

impl Namespaces {
    /// Opens the store's default namespace; others follow on first use.
    ///
    /// # Errors
    /// Errors of opening the default namespace; damaged or unreadable grants.
    pub(super) fn open(common: Common) -> Result<Self, StoreError> {
        let objects = common.objects.as_ref().map(|it| it.objects());
        common.id.keep(&common.home, objects)?;
        let grants = Grants::open(&common)?;
        let namespaces = Self {
            common: Arc::new(common),
            grants,
            opened: Mutex::default(),
        };
        namespaces.get(DEFAULT_NAMESPACE)?;
        Ok(namespaces)
    }

    pub(super) fn common(&self) -> &Common {
        &self.common
    }

    pub(super) fn grants(&self) -> &Grants {
        &self.grants
    }

    /// Returns a namespace, creating it if it does not exist.
    ///
    /// # Errors
    /// A catalogue that is damaged or of another version, a disk that fails, objects out of reach.
    pub(super) fn get(&self, name: &str) -> Result<Arc<Namespace>, StoreError> {
        let slot = {
            let mut opened = self.opened.lock();
            match opened.get(name) {
                Some(slot) => Arc::clone(slot),
                None => Arc::clone(opened.entry(name.into()).or_default()),
            }
        };
        let mut slot = slot.lock_arc();
        if let Some(open) = &*slot {
            return Ok(Arc::clone(open));
        }
        let mut namespace = Namespace::open(&self.common, name.into())?;
        ensure_directory(&namespace.home.join(SEGMENTS))?;
        sweep_all(&mut namespace)?;
        namespace.state.get_mut().outdated = rewritten::replay(&namespace)?;
        namespace.fill_reserve();
        Ok(Arc::clone(slot.insert(Arc::new(namespace))))
    }

    /// Returns the home of a namespace, which need not exist.
    pub(super) fn home(&self, name: &str) -> PathBuf {
        home_of(&self.common.home, name)
    }

    /// Returns the open namespaces, without waiting for those being opened.
    pub(super) fn opened(&self) -> Vec<Arc<Namespace>> {
        let slots: Vec<Slot> = self.opened.lock().values().cloned().collect();
        let open = |slot: &Slot| slot.try_lock()?.clone();
        slots.iter().filter_map(open).collect()
    }

    /// Returns the names of all namespaces that have a catalogue here, or are open.
    pub(super) fn names(&self) -> BTreeSet<Arc<str>> {
        let mut names: BTreeSet<Arc<str>> = self.opened.lock().keys().cloned().collect();
        // A failure to list is reported by later calls.
        let listed = namespaces_in(&self.common.home).unwrap_or_default();
        // A lost catalogue is reported when the namespace is opened.
        let is_namespace = |name: &String| has_catalogue(&self.home(name)).unwrap_or(true);
        names.extend(listed.into_iter().filter(is_namespace).map(Arc::from));
        names
    }
}

/// Returns the names of the namespaces in a store's directory, the default one first.
///
/// # Errors
/// A directory that cannot be listed.
pub fn namespaces_in(store: &Path) -> Result<Vec<String>, StoreError> {
    let directory = store.join(NAMESPACES);
    let mut all = vec![DEFAULT_NAMESPACE.to_owned()];
    if exists(&directory)? {
        let mut others = Vec::new();
        for name in names(&directory)?.into_iter().filter(|it| is_caller(it)) {
            let path = directory.join(&name);
            let found = if_there(&path, "look at", fs::metadata(&path))?;
            // Other entries are not the store's.
            others.extend(found.filter(fs::Metadata::is_dir).map(|_| name));
        }
        others.sort();
        all.append(&mut others);
    }
    Ok(all)
}
