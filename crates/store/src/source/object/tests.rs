//! Objects of an S3 server that is a few lines of this file.

use super::*;
use crate::Placement;
use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::thread;

const LENGTH: u64 = 1000;

/// Answers requests on one connection: `HEAD` with the length of the object, every other with `answer`.
fn serve(stream: &TcpStream, answer: &str) -> Option<()> {
    let mut lines = BufReader::new(stream).lines();
    loop {
        let request = lines.next()?.ok()?;
        while !lines.next()?.ok()?.is_empty() {}
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

/// How a server that answers this way describes a range of an object.
fn range_of(answer: &'static str, range: Range<u64>) -> Result<Vec<u8>, ObjectError> {
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
    let objects = Objects::of(
        Arc::new(store.unwrap()),
        "",
        "s3://bucket",
        Placement::default().threads(),
    )
    .unwrap();
    objects.get_range("a", range)
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
    // The object has it, so something else is wrong.
    let denied = "HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n";
    let found = range_of(denied, 0..10);
    assert!(
        matches!(found, Err(ObjectError::Unreachable(_))),
        "{found:?}"
    );
}
