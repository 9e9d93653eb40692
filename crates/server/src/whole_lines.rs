//! Files of lines, of which a crash may have left the last one incomplete.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};

/// The length of a file up to the end of its last whole line.
pub(crate) fn whole_lines(file: &mut File) -> io::Result<u64> {
    const MOST: u64 = 4096;
    let length = file.metadata()?.len();
    let start = length.saturating_sub(MOST);
    let mut tail = Vec::new();
    file.seek(SeekFrom::Start(start))?;
    file.take(MOST).read_to_end(&mut tail)?;
    let last = tail.iter().rposition(|&byte| byte == b'\n');
    Ok(last.map_or(start, |at| start + at as u64 + 1))
}
