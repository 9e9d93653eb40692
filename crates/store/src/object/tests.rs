//! Objects of a minimal S3 server in this file.

use super::*;
use object_store::memory::InMemory;
use oboro_residency::Placement;
use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::thread;

const LENGTH: u64 = 1000;

/// Answers requests on one connection: `HEAD` with the length of the object, every other with `answer`.
fn serve(stream: &TcpStream, answer: &str) -> Option<()> {
    let mut reader = BufReader::new(stream);
    loop {
        let mut lines = reader.by_ref().lines();
        let request = lines.next()?.ok()?;
        let mut length = 0;
        loop {
            let line = lines.next()?.ok()?.to_lowercase();
            if line.is_empty() {
                break;
            }
            if let Some(given) = line.strip_prefix("content-length:") {
                length = given.trim().parse().ok()?;
            }
        }
        reader.read_exact(&mut vec![0; length]).ok()?;
        let reply = if request.starts_with("HEAD") {
            format!(
                "HTTP/1.1 200 OK\r\nLast-Modified: Wed, 21 Oct 2015 07:28:00 GMT\r\nETag: \"1\"\r\nContent-Length: {LENGTH}\r\n\r\n"
            )
        } else {
            answer.into()
        };
        (&*stream).write_all(reply.as_bytes()).ok()?;
    }
}

/// Returns a range of an object of a server that answers this way.
fn range_of(answer: &'static str, range: Range<u64>) -> Result<Vec<u8>, ObjectError> {
    bucket(answer).get_range("a", range)
}

/// Returns the objects of a server that answers this way.
fn bucket(answer: &'static str) -> Objects {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let store = AmazonS3Builder::new()
        .with_endpoint(format!("http://{}", listener.local_addr().unwrap()))
        .with_allow_http(true)
        .with_bucket_name("bucket")
        .with_access_key_id("key")
        .with_secret_access_key("secret")
        .with_retry(retries())
        .build();
    thread::spawn(move || {
        for stream in listener.incoming() {
            thread::spawn(move || serve(&stream.unwrap(), answer));
        }
    });
    of(store.unwrap())
}

fn of(store: impl ObjectStore) -> Objects {
    let threads = Placement::default();
    Objects::of(Arc::new(store), "", "s3://bucket", threads.threads()).unwrap()
}

#[test]
fn storage_that_ignores_conditions_is_refused() {
    of(InMemory::new()).check_conditions().unwrap();
    let ignores = "HTTP/1.1 200 OK\r\nETag: \"1\"\r\nContent-Length: 0\r\n\r\n";
    let refused = bucket(ignores).check_conditions().unwrap_err();
    assert!(
        refused.to_string().contains("ignores If-None-Match"),
        "{refused}"
    );
    let directory = tempfile::tempdir().unwrap();
    // A directory without a lock supports no conditions at all.
    let plain = LocalFileSystem::new_with_prefix(directory.path()).unwrap();
    assert!(of(plain).check_conditions().is_err());
}

#[test]
fn an_object_is_replaced_by_the_last_to_have_taken_it_over_only() {
    let objects = of(InMemory::new());
    let mut first = OwnedObject::new("a", None);
    first.write(&objects, b"1".to_vec()).unwrap();
    first.check(&objects).unwrap();
    let version = objects.version_of("a").unwrap();
    let mut second = OwnedObject::new("a", version);
    second.write(&objects, b"2".to_vec()).unwrap();
    for refused in [first.write(&objects, b"3".to_vec()), first.check(&objects)] {
        let refused = refused.unwrap_err();
        assert!(refused.to_string().contains("another server"), "{refused}");
    }
    second.write(&objects, b"4".to_vec()).unwrap();
    assert_eq!(objects.get("a").unwrap().0, b"4");
    // A file that another server writes meanwhile stays.
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("file");
    std::fs::write(&path, "5").unwrap();
    let put = |check: &dyn Fn() -> Result<(), StoreError>| {
        objects.put_file("b", File::open(&path).unwrap(), check)
    };
    put(&|| Ok(())).unwrap();
    let refused = put(&|| {
        let version = objects.version_of("b").unwrap();
        let written = objects.replace("b", b"6".to_vec(), version);
        assert!(written.is_ok());
        Ok(())
    });
    assert!(refused.is_err());
    assert!(put(&|| first.check(&objects)).is_err());
    assert_eq!(objects.get("b").unwrap().0, b"6");
}

#[test]
fn an_object_that_ends_before_a_range_is_short() {
    let refused = "HTTP/1.1 416 Range Not Satisfiable\r\nContent-Length: 0\r\n\r\n";
    let found = range_of(refused, 2000..2010);
    assert!(
        matches!(found, Err(ObjectError::Short(LENGTH))),
        "{found:?}"
    );
    let cut = "HTTP/1.1 206 Partial Content\r\nLast-Modified: Wed, 21 Oct 2015 07:28:00 GMT\r\nETag: \"1\"\r\nContent-Range: bytes 990-999/1000\r\nContent-Length: 10\r\n\r\n0123456789";
    let found = range_of(cut, 990..1010);
    assert!(
        matches!(found, Err(ObjectError::Short(LENGTH))),
        "{found:?}"
    );
    assert_eq!(range_of(cut, 990..1000).unwrap(), b"0123456789");
    // The object has the range, so the error has another cause.
    let denied = "HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n";
    let found = range_of(denied, 0..10);
    assert!(
        matches!(found, Err(ObjectError::Unreachable(_))),
        "{found:?}"
    );
}
