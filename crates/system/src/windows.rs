//! Windows implementations; `unix` documents the functions.

#![allow(missing_docs, clippy::missing_errors_doc)]

use crate::identity::{FileId, NotPrivate};
use crate::zeros::extend_with_zeros;
use std::fs::{DirBuilder, File, Metadata, OpenOptions};
use std::io::{self, IsTerminal};
use std::os::windows::fs::{FileExt, MetadataExt};
use std::os::windows::io::AsHandle;
use std::path::Path;

const ERROR_TOO_MANY_OPEN_FILES: i32 = 4;
/// Device errors: from "write protected" to "general failure", and "request could not be performed".
const ERRORS_OF_DEVICES: std::ops::RangeInclusive<i32> = 19..=31;
const ERROR_IO_DEVICE: i32 = 1117;

pub fn owner_only(options: &mut OpenOptions) -> &mut OpenOptions {
    options
}

pub fn private_dir_builder() -> DirBuilder {
    DirBuilder::new()
}

pub fn with_mode<'a, 'b>(
    _mode: u32,
    temporary: &'a mut tempfile::Builder<'b, 'b>,
) -> &'a mut tempfile::Builder<'b, 'b> {
    temporary
}

pub fn make_private(_file: &File) -> io::Result<()> {
    Ok(())
}

pub fn check_private(_file: &Metadata) -> Result<(), NotPrivate> {
    Ok(())
}

pub fn others_can_write(_file: &Metadata) -> bool {
    false
}

pub fn copy_owner_and_mode(_file: &File, _before: &Metadata) -> io::Result<()> {
    Ok(())
}

/// Returns `None`: identity takes a call that the standard library does not have.
pub fn file_id(_file: &Metadata) -> Option<FileId> {
    None
}

pub fn changed_at(file: &Metadata) -> (i64, i64) {
    (file.last_write_time().cast_signed(), 0)
}

pub fn unbuffered_stdout() -> io::Result<File> {
    Ok(io::stdout().as_handle().try_clone_to_owned()?.into())
}

/// Returns true for a file that is no console and whose metadata cannot be read.
pub fn is_pipe(file: &File) -> io::Result<bool> {
    Ok(!file.is_terminal() && file.metadata().is_err())
}

pub fn read_exact_at(file: &File, mut out: &mut [u8], mut offset: u64) -> io::Result<()> {
    while !out.is_empty() {
        match file.seek_read(out, offset) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(read) => {
                out = &mut out[read..];
                offset += read as u64;
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

pub fn write_all_at(file: &File, mut bytes: &[u8], mut offset: u64) -> io::Result<()> {
    while !bytes.is_empty() {
        match file.seek_write(bytes, offset) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(written) => {
                bytes = &bytes[written..];
                offset += written as u64;
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Does nothing: the file system's journal keeps the order.
pub fn sync_directory(_directory: &Path) -> io::Result<()> {
    Ok(())
}

/// Returns `None`: Windows does not open a directory as a file, and only the file in it is locked.
pub fn open_directory(_directory: &Path) -> io::Result<Option<File>> {
    Ok(None)
}

pub fn free_bytes(_path: &Path) -> Option<u64> {
    None
}

pub fn is_out_of_descriptors(error: &io::Error) -> bool {
    error.raw_os_error() == Some(ERROR_TOO_MANY_OPEN_FILES)
}

pub fn is_device_error(error: &io::Error) -> bool {
    let code = error.raw_os_error();
    code.is_some_and(|it| ERRORS_OF_DEVICES.contains(&it) || it == ERROR_IO_DEVICE)
}

pub fn descriptor_limit() -> Option<u64> {
    None
}

pub fn forget_cached(_file: &File, _start: u64, _bytes: u64) {}

pub fn open_direct(_file: &File) -> io::Result<File> {
    Err(io::ErrorKind::Unsupported.into())
}

pub fn preallocate(file: &File, bytes: u64) -> io::Result<()> {
    extend_with_zeros(file, bytes, write_all_at)
}
