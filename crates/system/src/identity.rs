//! Which file one is, and whose.

/// Why a file is not for this process's user alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NotPrivate {
    /// Its mode lets others read or write it.
    Mode(u32),
    /// It belongs to another user.
    Owner {
        /// Whose it is.
        owner: u32,
        /// Whose this process is.
        user: u32,
    },
}

/// What a file has while it is the same one, under whatever name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileId {
    pub(crate) volume: u64,
    pub(crate) number: u64,
}
