//! Lists that may exceed memory.

#![allow(unsafe_code)]

use memmap2::MmapMut;
use oboro_system::{make_private, preallocate};
use std::env;
use std::ffi::OsString;
use std::fmt;
use std::fs::File;
use std::io;
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};
use std::path::PathBuf;
use std::slice;

/// The least size of a file, in bytes.
const LEAST_BYTES: usize = 1 << 20;

mod sealed {
    pub trait Number: Copy {}
    impl Number for u32 {}
    impl Number for u64 {}
}

/// Element type of the lists: numbers, for which every bit pattern is valid.
pub(crate) trait Number: sealed::Number {}
impl Number for u32 {}
impl Number for u64 {}

/// List of numbers, in memory up to a limit, and beyond it in an unnamed file in [`directory`]. The file's pages are
/// mapped: the kernel writes them out and reclaims their memory under pressure. Sequential passes over the list thus
/// need no more than the available memory.
pub(crate) struct SpillVec<T: Number> {
    /// The memory limit in bytes.
    limit: usize,
    held: Backing<T>,
}

enum Backing<T> {
    Memory(Vec<T>),
    File(Mapped<T>),
}

/// Mapped pages of a file, of which the first `len` numbers are used.
struct Mapped<T> {
    file: File,
    /// The mapping; `None` while the file is empty.
    pages: Option<MmapMut>,
    len: usize,
    numbers: PhantomData<T>,
}

impl<T: Number> SpillVec<T> {
    /// Creates an empty list that takes up to `limit` bytes of memory.
    pub fn new(limit: usize) -> Self {
        let held = Backing::Memory(Vec::new());
        Self { limit, held }
    }

    /// Returns the memory limit in bytes.
    pub fn limit(&self) -> usize {
        self.limit
    }

    /// Returns true if the list is in a file.
    #[cfg(test)]
    pub fn is_spilled(&self) -> bool {
        matches!(self.held, Backing::File(_))
    }

    /// Appends a number.
    ///
    /// # Errors
    /// No file can be created, or it has no space.
    pub fn push(&mut self, number: T) -> io::Result<()> {
        self.reserve(1)?;
        match &mut self.held {
            Backing::Memory(list) => list.push(number),
            Backing::File(file) => {
                let len = file.len;
                file.all_mut()[len] = number;
                file.len += 1;
            }
        }
        Ok(())
    }

    /// Appends numbers.
    ///
    /// # Errors
    /// As [`push`](Self::push); the numbers before it are appended.
    pub fn extend(&mut self, numbers: impl IntoIterator<Item = T>) -> io::Result<()> {
        numbers.into_iter().try_for_each(|number| self.push(number))
    }

    /// Keeps the first `len` numbers, or all if fewer.
    pub fn truncate(&mut self, len: usize) {
        match &mut self.held {
            Backing::Memory(list) => list.truncate(len),
            Backing::File(file) => file.len = file.len.min(len),
        }
    }

    fn reserve(&mut self, more: usize) -> io::Result<()> {
        let bytes = (self.len() + more).saturating_mul(size_of::<T>());
        match &mut self.held {
            // A growing vector doubles its capacity.
            Backing::Memory(list) if list.len() < list.capacity() || bytes <= self.limit / 2 => {
                Ok(())
            }
            Backing::Memory(list) => {
                let mut file = Mapped::create()?;
                file.grow(2 * bytes)?;
                file.all_mut()[..list.len()].copy_from_slice(list);
                file.len = list.len();
                self.held = Backing::File(file);
                Ok(())
            }
            Backing::File(file) if file.len + more > file.all().len() => file.grow(2 * bytes),
            Backing::File(_) => Ok(()),
        }
    }
}

impl<T: Number> Mapped<T> {
    fn create() -> io::Result<Self> {
        let file = tempfile::tempfile_in(directory())?;
        // It has no name, but is accessible through a process that has it open.
        make_private(&file)?;
        Ok(Self {
            file,
            pages: None,
            len: 0,
            numbers: PhantomData,
        })
    }

    /// Grows the file, and maps it anew.
    fn grow(&mut self, bytes: usize) -> io::Result<()> {
        let bytes = bytes.max(LEAST_BYTES).next_multiple_of(size_of::<T>());
        // Allocates the space now: otherwise a write to a page could kill the process.
        preallocate(&self.file, bytes as u64)?;
        // SAFETY: the file has no name, has this length, and grows through this value alone. The old mapping stays
        // until the new one exists: a failure changes nothing.
        self.pages = Some(unsafe { MmapMut::map_mut(&self.file)? });
        Ok(())
    }

    /// Returns all numbers within the capacity.
    fn all(&self) -> &[T] {
        let Some(pages) = &self.pages else {
            return &[];
        };
        // SAFETY: pages begin at a multiple of their size, and every bit pattern is a number.
        unsafe { slice::from_raw_parts(pages.as_ptr().cast(), pages.len() / size_of::<T>()) }
    }

    fn all_mut(&mut self) -> &mut [T] {
        let Some(pages) = &mut self.pages else {
            return &mut [];
        };
        // SAFETY: as above, and this borrow is the only one.
        unsafe {
            slice::from_raw_parts_mut(pages.as_mut_ptr().cast(), pages.len() / size_of::<T>())
        }
    }
}

/// Returns the directory for files that exceed memory.
pub(crate) fn directory() -> PathBuf {
    directory_for(env::var_os("TMPDIR"))
}

/// Returns the value of `TMPDIR`, or else not `/tmp`, which is in memory on many systems.
fn directory_for(configured: Option<OsString>) -> PathBuf {
    match configured {
        Some(configured) if !configured.is_empty() => configured.into(),
        _ if cfg!(unix) => "/var/tmp".into(),
        _ => env::temp_dir(),
    }
}

impl<T: Number> Default for SpillVec<T> {
    /// Creates an empty list that stays in memory.
    fn default() -> Self {
        Self::new(usize::MAX)
    }
}

impl<T: Number> From<Vec<T>> for SpillVec<T> {
    /// Keeps the list in memory.
    fn from(list: Vec<T>) -> Self {
        let held = Backing::Memory(list);
        Self {
            limit: usize::MAX,
            held,
        }
    }
}

impl<T: Number> Deref for SpillVec<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        match &self.held {
            Backing::Memory(list) => list,
            Backing::File(file) => &file.all()[..file.len],
        }
    }
}

impl<T: Number> DerefMut for SpillVec<T> {
    fn deref_mut(&mut self) -> &mut [T] {
        match &mut self.held {
            Backing::Memory(list) => list,
            Backing::File(file) => {
                let len = file.len;
                &mut file.all_mut()[..len]
            }
        }
    }
}

impl<T: Number> Clone for SpillVec<T> {
    /// Copies the list into memory.
    fn clone(&self) -> Self {
        Self::from(self.to_vec())
    }
}

impl<T: Number + PartialEq> PartialEq for SpillVec<T> {
    fn eq(&self, other: &Self) -> bool {
        **self == **other
    }
}

impl<T: Number + Eq> Eq for SpillVec<T> {}

impl<T: Number + fmt::Debug> fmt::Debug for SpillVec<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn it_holds_what_a_vector_holds(
            runs in prop::collection::vec((prop::collection::vec(any::<u32>(), 0..40_000), any::<u16>()), 1..12),
            limit in 0usize..400_000,
        ) {
            let mut list = SpillVec::new(limit);
            let mut expected = Vec::new();
            for (numbers, at) in runs {
                list.extend(numbers.iter().copied()).unwrap();
                expected.extend(numbers);
                prop_assert_eq!(&*list, &expected[..]);
                if let Some(number) = list.get_mut(usize::from(at)) {
                    *number ^= 1;
                    expected[usize::from(at)] ^= 1;
                }
                if at % 3 == 0 {
                    list.truncate(expected.len() / 2);
                    expected.truncate(expected.len() / 2);
                }
            }
            list.sort_unstable();
            expected.sort_unstable();
            prop_assert_eq!(&*list, &expected[..]);
            prop_assert_eq!(&list.clone(), &list);
            prop_assert!(list.is_spilled() || 4 * list.len() <= limit);
        }
    }

    #[cfg(unix)]
    #[test]
    fn its_file_is_for_this_user_only() {
        use std::os::unix::fs::PermissionsExt;
        let mut list = SpillVec::new(0);
        list.push(1u32).unwrap();
        let Backing::File(mapped) = &list.held else {
            panic!("it is in memory");
        };
        let mode = mapped.file.metadata().unwrap().permissions().mode();
        assert_eq!(mode & 0o7777, 0o600);
    }

    #[cfg(unix)]
    #[test]
    fn its_file_is_in_var_tmp_by_default() {
        assert_eq!(directory_for(Some("there".into())), PathBuf::from("there"));
        for nothing in [None, Some(OsString::new())] {
            assert_eq!(directory_for(nothing), PathBuf::from("/var/tmp"));
        }
    }

    #[test]
    fn beyond_its_limit_it_is_in_a_file() {
        let mut list = SpillVec::new(1000);
        list.extend(0..60u64).unwrap();
        assert!(!list.is_spilled());
        list.extend(60..100_000).unwrap();
        assert!(list.is_spilled() && list.iter().copied().eq(0..100_000));
        let mut unlimited = SpillVec::default();
        unlimited.extend(0..100_000u64).unwrap();
        assert!(!unlimited.is_spilled() && unlimited == list);
    }
}
