use super::*;
use crate::Placement;
use rustix::thread::{CpuSet, sched_getaffinity};
use std::fs::File;
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

const BUFFER: usize = 8192;

fn idle() -> Reader {
    Reader::idle(Placement::default().threads())
}

/// Creates a file of this many bytes, each a function of its offset.
fn file(len: usize) -> Arc<File> {
    let mut file = tempfile::tempfile().unwrap();
    io::Write::write_all(&mut file, &content(0, len)).unwrap();
    Arc::new(file)
}

fn content(offset: usize, len: usize) -> Vec<u8> {
    let byte = |at: usize| (at.wrapping_mul(2_654_435_761) >> 13) as u8;
    (offset..offset + len).map(byte).collect()
}

fn readers(buffers: usize) -> [Reader; 2] {
    [ReadMethod::Ring, ReadMethod::Threads].map(|method| {
        let reader = idle();
        let buffers = NonZero::new(buffers).unwrap();
        reader.provide_by(method, buffers, BUFFER).unwrap();
        reader
    })
}

/// Creates a request for a part, which is always wanted.
fn request(
    file: &Arc<File>,
    offset: u64,
    len: usize,
    then: impl FnOnce(io::Result<&[u8]>) + Send + 'static,
) -> Read {
    let file = Arc::clone(file);
    Read {
        open: Box::new(|| Ok(file)),
        offset,
        len,
        is_wanted: Box::new(|| true),
        then: Box::new(|arrived| then(arrived.map_err(io_error))),
    }
}

fn io_error(error: ReadError) -> io::Error {
    match error {
        ReadError::Io(error) | ReadError::Refused(error) => error,
        other => panic!("{other:?}"),
    }
}

/// Requests a part; returns the result.
fn read(
    reader: &Reader,
    file: &Arc<File>,
    offset: u64,
    len: usize,
) -> Receiver<io::Result<Vec<u8>>> {
    let (sender, heard) = channel();
    reader.submit(
        &"".into(),
        Work::Read(request(file, offset, len, move |arrived| {
            let _ = sender.send(arrived.map(<[u8]>::to_vec));
        })),
    );
    heard
}

#[test]
fn everybody_gets_the_bytes_that_were_asked_for() {
    let file = file(100 * 4096);
    for reader in readers(3) {
        let parts: Vec<(usize, usize)> = (0..99).map(|i| (i * 4096, 1 + i * 83 % BUFFER)).collect();
        let heard: Vec<_> = parts
            .iter()
            .map(|&(offset, len)| read(&reader, &file, offset as u64, len.min(4096)))
            .collect();
        for (&(offset, len), heard) in parts.iter().zip(heard) {
            let arrived = heard.recv().unwrap().unwrap();
            assert_eq!(arrived, content(offset, len.min(4096)));
        }
    }
}

#[test]
fn there_are_no_more_threads_than_places_and_each_is_kept_to_its_own() {
    let assignment = |cpus| CpuAssignment { node: 0, cpus };
    let first = sched_getaffinity(None).unwrap();
    let first = (0..CpuSet::MAX_CPU).find(|&cpu| first.is_set(cpu)).unwrap();
    let reader = Reader::idle(&[assignment(vec![first as u32])].into());
    let buffers = NonZero::new(3).unwrap();
    let file = file(BUFFER);
    for method in [ReadMethod::Ring, ReadMethod::Threads] {
        reader.provide_by(method, buffers, BUFFER).unwrap();
        let threads = reader.threads.lock().len();
        assert_eq!(threads, if let ReadMethod::Ring = method { 1 } else { 3 });
        let (sender, heard) = channel();
        reader.submit(
            &"".into(),
            Work::Read(request(&file, 0, 1, move |_| {
                let allowed = sched_getaffinity(None).unwrap();
                sender
                    .send((allowed.count(), allowed.is_set(first)))
                    .unwrap();
            })),
        );
        assert_eq!(heard.recv().unwrap(), (1, true));
    }
}

#[test]
fn a_file_that_ends_early_is_an_error() {
    let file = file(4096 + 100);
    for reader in readers(2) {
        for (offset, len) in [(4096, 101), (8192, 1)] {
            let arrived = read(&reader, &file, offset, len).recv().unwrap();
            assert_eq!(arrived.unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
        }
        assert!(read(&reader, &file, 4096, 100).recv().unwrap().is_ok());
    }
}

#[test]
fn a_file_that_cannot_be_read_is_an_error() {
    let directory = Arc::new(File::open("/").unwrap());
    for reader in readers(1) {
        let arrived = read(&reader, &directory, 0, 10).recv().unwrap();
        assert_eq!(arrived.unwrap_err().kind(), io::ErrorKind::IsADirectory);
    }
}

#[test]
fn files_are_open_for_the_time_of_a_read() {
    let file = file(BUFFER);
    for reader in readers(1) {
        let (sender, heard) = channel();
        let (go, gone) = channel::<()>();
        let begun = sender.clone();
        reader.submit(
            &"".into(),
            Work::Read(request(&file, 0, BUFFER, move |_| {
                begun.send("begun").unwrap();
                let _ = gone.recv_timeout(Duration::from_secs(60));
            })),
        );
        assert_eq!(heard.recv().unwrap(), "begun");
        let opened = sender.clone();
        let waiting = request(&file, 0, BUFFER, move |arrived| {
            let kind = arrived.unwrap_err().kind();
            assert_eq!(kind, io::ErrorKind::PermissionDenied);
            sender.send("arrived").unwrap();
        });
        reader.submit(
            &"".into(),
            Work::Read(Read {
                open: Box::new(move || {
                    opened.send("opened").unwrap();
                    Err(ReadError::Refused(io::ErrorKind::PermissionDenied.into()))
                }),
                ..waiting
            }),
        );
        // The only buffer is lent.
        assert!(heard.try_recv().is_err());
        go.send(()).unwrap();
        assert_eq!(
            [heard.recv().unwrap(), heard.recv().unwrap()],
            ["opened", "arrived"]
        );
        assert_eq!(
            read(&reader, &file, 0, 1).recv().unwrap().unwrap(),
            content(0, 1)
        );
    }
}

#[test]
fn who_panics_takes_nobody_along() {
    let file = file(BUFFER);
    for reader in readers(1) {
        reader.submit(
            &"".into(),
            Work::Read(request(&file, 0, 1, |_| panic!("as it should"))),
        );
        reader.submit(
            &"".into(),
            Work::Read(Read {
                is_wanted: Box::new(|| panic!("as it should")),
                ..request(&file, 0, 1, |_| {})
            }),
        );
        let arrived = read(&reader, &file, 0, BUFFER).recv().unwrap();
        assert_eq!(arrived.unwrap(), content(0, BUFFER));
    }
}

#[test]
fn what_is_not_read_has_its_turn_too() {
    for reader in readers(1) {
        let (sender, heard) = channel();
        for is_wanted in [false, true] {
            let sender = sender.clone();
            reader.submit(
                &"".into(),
                Work::Expand(Expand {
                    is_wanted: Box::new(move || is_wanted),
                    then: Box::new(move |turn| sender.send((is_wanted, turn)).unwrap()),
                }),
            );
        }
        let (wanted, turn) = heard.recv().unwrap();
        assert!(wanted && turn.is_ok());
    }
}

#[test]
fn what_nobody_wants_any_more_is_not_read() {
    let file = file(BUFFER);
    for reader in readers(1) {
        let (sender, heard) = channel();
        reader.submit(
            &"".into(),
            Work::Read(Read {
                is_wanted: Box::new(|| false),
                ..request(&file, 0, 1, move |_| sender.send(()).unwrap())
            }),
        );
        let next = read(&reader, &file, 0, BUFFER).recv().unwrap();
        assert_eq!(next.unwrap(), content(0, BUFFER));
        assert!(heard.recv().is_err(), "it is dropped without a word");
    }
}

#[test]
fn a_callback_may_drop_the_reader() {
    let file = file(BUFFER);
    for reader in readers(3) {
        let reader = Arc::new(Mutex::new(Some(reader)));
        let (sender, heard) = channel();
        let last = Arc::clone(&reader);
        let request = request(&file, 0, BUFFER, move |_| {
            drop(last.lock().take());
            sender.send(()).unwrap();
        });
        reader
            .lock()
            .as_ref()
            .unwrap()
            .submit(&"".into(), Work::Read(request));
        heard.recv_timeout(Duration::from_secs(60)).unwrap();
    }
}

#[test]
fn a_dropped_reader_finishes_begun_requests_and_fails_the_others() {
    let file = file(BUFFER);
    for reader in readers(1) {
        let (go, gone) = channel::<()>();
        let (sender, begun) = channel();
        reader.submit(
            &"".into(),
            Work::Read(request(&file, 0, BUFFER, move |arrived| {
                sender.send(arrived.map(<[u8]>::len)).unwrap();
                let _ = gone.recv_timeout(Duration::from_secs(60));
            })),
        );
        assert_eq!(begun.recv().unwrap().unwrap(), BUFFER);
        // The only buffer is lent.
        let waiting = read(&reader, &file, 0, 1);
        let dropping = thread::spawn(move || drop(reader));
        let kind = waiting.recv().unwrap().unwrap_err().kind();
        assert_eq!(kind, io::ErrorKind::Interrupted);
        go.send(()).unwrap();
        dropping.join().unwrap();
    }
}

#[test]
fn direct_reads_find_their_buffers_aligned() {
    use std::os::unix::fs::OpenOptionsExt;
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("file");
    std::fs::write(&path, content(0, 16 * 4096)).unwrap();
    let mut options = File::options();
    let opened = options.read(true).custom_flags(libc::O_DIRECT).open(&path);
    let Ok(file) = opened else {
        println!("skipped: the file system has no direct I/O");
        return;
    };
    let file = Arc::new(file);
    for reader in readers(5) {
        for page in 0..8 {
            let arrived = read(&reader, &file, page * 4096, BUFFER).recv().unwrap();
            assert_eq!(arrived.unwrap(), content(page as usize * 4096, BUFFER));
        }
    }
}

#[test]
fn larger_buffers_take_over_from_smaller_ones_and_nothing_is_lost() {
    let file = file(64 * 4096);
    for reader in readers(2) {
        let heard: Vec<_> = (0..60)
            .map(|page| read(&reader, &file, page * 4096, BUFFER))
            .collect();
        let buffers = NonZero::new(3).unwrap();
        reader.provide(buffers, 4 * BUFFER).unwrap();
        let large = read(&reader, &file, 4096, 4 * BUFFER);
        assert_eq!(large.recv().unwrap().unwrap(), content(4096, 4 * BUFFER));
        for (page, heard) in heard.into_iter().enumerate() {
            let arrived = heard.recv().unwrap().unwrap();
            assert_eq!(arrived, content(page * 4096, BUFFER));
        }
    }
}

#[test]
fn a_reader_that_gets_no_buffers_says_so_until_it_does() {
    let file = file(BUFFER);
    for reader in readers(1) {
        let too_many = NonZero::new(1 << 20).unwrap();
        assert!(reader.provide(too_many, 1 << 40).is_err());
        let refused = read(&reader, &file, 0, 1).recv().unwrap();
        assert_eq!(refused.unwrap_err().kind(), io::ErrorKind::Interrupted);
        reader.provide(NonZero::new(1).unwrap(), BUFFER).unwrap();
        let arrived = read(&reader, &file, 0, BUFFER).recv().unwrap();
        assert_eq!(arrived.unwrap(), content(0, BUFFER));
    }
}
