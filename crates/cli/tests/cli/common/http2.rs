//! A caller that speaks HTTP/2 by hand, to do what no library does: it reads no answers, ends no messages, and makes calls
//! without end. It answers pings, so that the server takes it for alive.

use super::{Server, until};
use oboro_protocol::{PROTOCOL, PROTOCOL_KEY};
use std::collections::HashSet;
use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::atomic::{AtomicI64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;

const DATA: u8 = 0;
const HEADERS: u8 = 1;
const RST_STREAM: u8 = 3;
const SETTINGS: u8 = 4;
const PING: u8 = 6;
const WINDOW_UPDATE: u8 = 8;

const END_STREAM: u8 = 1;
const ACK: u8 = 1;
const END_HEADERS: u8 = 4;

/// The longest frame.
const FRAME: usize = 16 << 10;
/// What a connection may send before the server has said more.
const FIRST_WINDOW: i64 = 65_535;

/// A connection, closed when dropped.
pub struct Connection {
    writer: Arc<Mutex<TcpStream>>,
    heard: Arc<Heard>,
    next: u32,
}

/// What the server has said.
#[derive(Default)]
struct Heard {
    /// Bytes that may be sent.
    room: AtomicI64,
    /// Calls whose answer has begun, or that were refused.
    answered: AtomicUsize,
    /// Those of which there is nothing but a status.
    refused: AtomicUsize,
}

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let mut frame = (payload.len() as u32).to_be_bytes()[1..].to_vec();
    frame.extend([kind, flags]);
    frame.extend(stream.to_be_bytes());
    frame.extend_from_slice(payload);
    frame
}

/// A string of HPACK, uncompressed.
fn text(text: &str) -> Vec<u8> {
    let mut out = Vec::new();
    let mut length = text.len();
    if length < 127 {
        out.push(length as u8);
    } else {
        out.push(127);
        length -= 127;
        while length >= 128 {
            out.push((length % 128 + 128) as u8);
            length /= 128;
        }
        out.push(length as u8);
    }
    out.extend_from_slice(text.as_bytes());
    out
}

impl Connection {
    /// Connects; `window` is how much of each answer the server may send.
    pub fn to(server: &Server, window: u32) -> Self {
        let mut stream = TcpStream::connect(server.address()).unwrap();
        let setting = [&[0, 4][..], &window.to_be_bytes()].concat();
        let hello = [
            &b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"[..],
            &frame(SETTINGS, 0, 0, &setting),
        ];
        stream.write_all(&hello.concat()).unwrap();
        let heard = Arc::new(Heard::default());
        heard.room.store(FIRST_WINDOW, Ordering::Relaxed);
        let reader = stream.try_clone().unwrap();
        let writer = Arc::new(Mutex::new(stream));
        let (answering, hearing) = (Arc::clone(&writer), Arc::clone(&heard));
        thread::spawn(move || listen(reader, &answering, &hearing));
        Self {
            writer,
            heard,
            next: 1,
        }
    }

    /// Begins a call with this token; returns its stream.
    pub fn call(&mut self, path: &str, token: &str) -> u32 {
        let (stream, headers) = self.headers(path, token);
        self.write(&headers);
        stream
    }

    /// Makes a whole call with one short message.
    pub fn ask(&mut self, path: &str, token: &str, message: &[u8]) {
        let (stream, headers) = self.headers(path, token);
        let body = [&prefix(message.len())[..], message].concat();
        self.take_room(body.len());
        // At once: the server may answer before it has everything.
        self.write(&[headers, frame(DATA, END_STREAM, stream, &body)].concat());
    }

    /// The next stream, and the frame that begins a call on it.
    fn headers(&mut self, path: &str, token: &str) -> (u32, Vec<u8>) {
        let stream = self.next;
        self.next += 2;
        let (protocol, bearer) = (PROTOCOL.to_string(), format!("Bearer {token}"));
        let headers: Vec<u8> = [
            (":method", "POST"),
            (":scheme", "http"),
            (":path", path),
            (":authority", "localhost"),
            ("content-type", "application/grpc"),
            ("te", "trailers"),
            (PROTOCOL_KEY, &protocol),
            ("authorization", &bearer),
        ]
        .into_iter()
        .flat_map(|(name, value)| [&[0][..], &text(name), &text(value)].concat())
        .collect();
        (stream, frame(HEADERS, END_HEADERS, stream, &headers))
    }

    /// Sends bytes of a call's body; waits until the server takes so many.
    pub fn send(&self, stream: u32, bytes: &[u8]) {
        self.take_room(bytes.len());
        for part in bytes.chunks(FRAME) {
            self.write(&frame(DATA, 0, stream, part));
        }
    }

    fn take_room(&self, bytes: usize) {
        let room = &self.heard.room;
        until("the server takes more", || {
            (room.load(Ordering::Relaxed) >= bytes as i64).then_some(())
        });
        room.fetch_sub(bytes as i64, Ordering::Relaxed);
    }

    /// Makes so many calls without a message, as fast as they are answered or refused; those that are answered keep their
    /// places if nothing of the answer is let in.
    pub fn flood(&mut self, path: &str, token: &str, calls: usize) {
        // What the server refuses without an answer, because there are too many, is not what a flood is about.
        const AT_A_TIME: usize = 40;
        let before = self.answered();
        for call in 1..=calls {
            self.ask(path, token, &[]);
            until("the server keeps up", || {
                (self.answered() - before + AT_A_TIME > call).then_some(())
            });
        }
        until("all were answered", || {
            (self.answered() - before == calls).then_some(())
        });
    }

    /// How many calls have an answer that has begun, or were refused.
    pub fn answered(&self) -> usize {
        self.heard.answered.load(Ordering::Relaxed)
    }

    /// How many of these were refused.
    pub fn refused(&self) -> usize {
        self.heard.refused.load(Ordering::Relaxed)
    }

    /// What a server that has closed the connection does not take is lost.
    fn write(&self, bytes: &[u8]) {
        let _ = self.writer.lock().unwrap().write_all(bytes);
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        let _ = self.writer.lock().unwrap().shutdown(Shutdown::Both);
    }
}

/// What comes before a message of this length.
pub fn prefix(length: usize) -> [u8; 5] {
    let [a, b, c, d] = (length as u32).to_be_bytes();
    [0, a, b, c, d]
}

/// Hears the server to the end of the connection.
fn listen(mut reader: TcpStream, writer: &Mutex<TcpStream>, heard: &Heard) {
    let (mut header, mut answered) = ([0; 9], HashSet::new());
    while reader.read_exact(&mut header).is_ok() {
        let [a, b, c, kind, flags, stream @ ..] = header;
        let mut payload = vec![0; u32::from_be_bytes([0, a, b, c]) as usize];
        if reader.read_exact(&mut payload).is_err() {
            return;
        }
        match kind {
            // After those of an answer may come those that end it.
            HEADERS | RST_STREAM if answered.insert(stream) => {
                if flags & END_STREAM != 0 || kind == RST_STREAM {
                    heard.refused.fetch_add(1, Ordering::Relaxed);
                }
                heard.answered.fetch_add(1, Ordering::Relaxed);
            }
            PING | SETTINGS if flags & ACK == 0 => {
                let said = if kind == PING { &payload[..] } else { &[] };
                let _ = writer.lock().unwrap().write_all(&frame(kind, ACK, 0, said));
            }
            WINDOW_UPDATE if u32::from_be_bytes(stream) == 0 => {
                let more = u32::from_be_bytes(payload[..4].try_into().unwrap());
                heard.room.fetch_add(more.into(), Ordering::Relaxed);
            }
            _ => {}
        }
    }
}
