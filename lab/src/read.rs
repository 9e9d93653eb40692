//! `oboro-lab read`

use super::timed;
use crate::Outcome;
use crate::output::{Failure, Output, bytes};
use rustix::fs::OFlags;
use serde::Serialize;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// The size of one request.
const PIECE: u64 = 1 << 20;
/// The largest page size of Linux; direct I/O needs no larger alignment.
const ALIGNMENT: usize = 1 << 16;

/// Read files past the page cache at the full speed of their device.
///
/// Reads one file after the other, from the first again until --seconds are over, a mebibyte at a time with --depth
/// requests in flight: the reference for streaming from the device.
#[derive(clap::Args)]
pub struct Arguments {
    /// Files of at least a mebibyte; a shorter rest at the end of a larger one is not read.
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Requests in flight.
    #[arg(long, value_name = "N", default_value_t = 32, value_parser = clap::value_parser!(u16).range(1..=1024))]
    depth: u16,
    /// How long to read.
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u16).range(1..))]
    seconds: u16,
}

/// The report.
#[derive(Serialize)]
struct Summary {
    bench: &'static str,
    depth: u16,
    bytes: u64,
    seconds: f64,
    bytes_per_second: f64,
}

pub fn run(arguments: &Arguments, output: Output) -> Outcome {
    let pieces = pieces(&arguments.files)?;
    let until = Instant::now() + Duration::from_secs(arguments.seconds.into());
    let (read, took) = timed(|| read(&pieces, arguments.depth, until));
    let failed = |error| format!("cannot read past the page cache: {error}; choose other files");
    let read = read.map_err(failed)?;
    let summary = Summary {
        bench: "read",
        depth: arguments.depth,
        bytes: read,
        seconds: took.as_secs_f64(),
        bytes_per_second: read as f64 / took.as_secs_f64(),
    };
    output.result(&summary, || {
        let rate = bytes(summary.bytes_per_second as u64);
        format!("{rate} a second, {} in all\n", bytes(summary.bytes))
    })
}

/// A mebibyte of a file, at this offset.
type Piece = (Arc<File>, u64);

/// The whole pieces of all files, in order.
fn pieces(files: &[PathBuf]) -> Result<Vec<Piece>, Failure> {
    let mut pieces = Vec::new();
    for path in files {
        let failed = |error: io::Error| {
            let path = path.display();
            format!("cannot read {path} directly: {error}; choose a file on a disk")
        };
        let file = Arc::new(open(path).map_err(failed)?);
        let length = file.metadata().map_err(failed)?.len();
        pieces.extend((0..length / PIECE).map(|number| (file.clone(), number * PIECE)));
    }
    if pieces.is_empty() {
        Err("the files have no mebibyte to read; choose larger ones".into())
    } else {
        Ok(pieces)
    }
}

fn open(path: &Path) -> io::Result<File> {
    let direct = OFlags::DIRECT.bits() as i32;
    OpenOptions::new()
        .read(true)
        .custom_flags(direct)
        .open(path)
}

/// Reads with as many threads as requests in flight, each at least one piece; returns the bytes read.
fn read(pieces: &[Piece], depth: u16, until: Instant) -> io::Result<u64> {
    let next = AtomicU64::new(0);
    let reader = || {
        let mut buffer = vec![0; PIECE as usize + ALIGNMENT];
        let start = buffer.as_ptr().align_offset(ALIGNMENT);
        let buffer = &mut buffer[start..][..PIECE as usize];
        let mut read = 0;
        loop {
            let turn = next.fetch_add(1, Ordering::Relaxed) as usize;
            let (file, offset) = &pieces[turn % pieces.len()];
            file.read_exact_at(buffer, *offset)?;
            read += PIECE;
            if Instant::now() >= until {
                return Ok(read);
            }
        }
    };
    thread::scope(|scope| {
        let readers: Vec<_> = (0..depth).map(|_| scope.spawn(reader)).collect();
        let bytes = |reader: thread::ScopedJoinHandle<'_, io::Result<u64>>| {
            reader.join().expect("reading does not panic")
        };
        readers.into_iter().map(bytes).sum()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_whole_mebibytes_are_read() {
        let directory = tempfile::tempdir().unwrap();
        let file = |name: &str, bytes: u64| {
            let path = directory.path().join(name);
            std::fs::write(&path, vec![1; bytes as usize]).unwrap();
            path
        };
        let files = [file("a", 2 * PIECE + 5), file("b", PIECE)];
        let offsets = pieces(&files)
            .map(|pieces| -> Vec<u64> { pieces.iter().map(|(_, offset)| *offset).collect() });
        // A file system without direct I/O, such as an old tmpfs, returns its error.
        match offsets {
            Ok(offsets) => assert_eq!(offsets, [0, PIECE, 0]),
            Err(failure) => assert!(failure.to_string().contains("on a disk"), "{failure}"),
        }
        assert!(pieces(&[file("c", 5)]).is_err());
    }

    #[test]
    fn every_reader_counts() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a");
        std::fs::write(&path, vec![1; 3 * PIECE as usize]).unwrap();
        let file = Arc::new(File::open(path).unwrap());
        let pieces = [0, PIECE, 2 * PIECE].map(|offset| (file.clone(), offset));
        let read = read(&pieces, 3, Instant::now()).unwrap();
        assert_eq!(read, 3 * PIECE);
    }
}
