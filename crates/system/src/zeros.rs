//! Space for a file where the system cannot set it aside.

use std::fs::File;
use std::io;

/// Extends a file to `bytes` bytes by writing zeros, which allocates the space; leaves a longer one unchanged.
pub(crate) fn extend_with_zeros(
    file: &File,
    bytes: u64,
    write_all_at: impl Fn(&File, &[u8], u64) -> io::Result<()>,
) -> io::Result<()> {
    const ZEROS: &[u8] = &[0; 1 << 16];
    let mut length = file.metadata()?.len();
    while length < bytes {
        let now = (bytes - length).min(ZEROS.len() as u64);
        write_all_at(file, &ZEROS[..now as usize], length)?;
        length += now;
    }
    Ok(())
}
