//! Pages by HTTP/1.1, one a connection.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};

/// An answer.
#[derive(Debug)]
pub struct Page {
    pub status: u16,
    pub headers: String,
    pub body: String,
}

impl Page {
    /// The value of a metric, with its labels as they are written; `None` if there is none.
    pub fn metric(&self, name: &str) -> Option<f64> {
        let values = self.body.lines().filter_map(|it| it.strip_prefix(name));
        let mut values = values.filter_map(|it| it.strip_prefix(' ')?.parse().ok());
        values.next()
    }
}

/// Gets a page of this machine, with more lines in the request's head.
pub fn get(address: SocketAddr, path: &str, head: &[&str]) -> Page {
    request(
        TcpStream::connect(address).unwrap(),
        &format!("GET {path}"),
        "localhost",
        head,
    )
}

/// Sends a request of a method and path over a stream.
pub fn request(mut stream: impl Read + Write, what: &str, host: &str, head: &[&str]) -> Page {
    let head: String = head.iter().map(|line| format!("{line}\r\n")).collect();
    let asked = format!("{what} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n{head}\r\n");
    stream.write_all(asked.as_bytes()).unwrap();
    let mut answer = Vec::new();
    // A peer of TLS that does not say goodbye has sent everything, too: its length is checked.
    let _ = stream.read_to_end(&mut answer);
    let answer = String::from_utf8(answer).unwrap();
    let (headers, body) = answer.split_once("\r\n\r\n").unwrap();
    let status = headers.split(' ').nth(1).unwrap().parse().unwrap();
    let length = headers.to_lowercase();
    let length = length.split("content-length: ").nth(1).unwrap();
    let length: usize = length.split("\r\n").next().unwrap().parse().unwrap();
    assert_eq!(body.len(), length);
    Page {
        status,
        headers: headers.to_owned(),
        body: body.to_owned(),
    }
}
