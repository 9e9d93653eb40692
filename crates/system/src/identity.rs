//! Which file one is, and whose.

/// Reason why other users may access a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NotPrivate {
    /// Mode that lets others read or write the file.
    Mode(u32),
    /// Owner other than this process's user.
    Owner {
        /// User who owns the file.
        owner: u32,
        /// User of this process.
        user: u32,
    },
}

/// Identity of a file, independent of its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileId {
    pub(crate) volume: u64,
    pub(crate) number: u64,
}
