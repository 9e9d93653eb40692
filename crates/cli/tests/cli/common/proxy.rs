//! A TCP proxy between client and server that stalls on demand.
//!
//! It makes broken connections deterministic: after a given number of bytes a connection stalls,
//! the test waits for that, acts (kills a process, cuts, inspects), and lets it continue.

use super::DEADLINE;
use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::thread;

/// The direction whose bytes are counted.
#[derive(Clone, Copy, PartialEq)]
pub enum Direction {
    /// From client to server.
    Up,
    /// From server to client.
    Down,
}

pub struct Proxy {
    address: SocketAddr,
    shared: Arc<Shared>,
}

struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

struct State {
    target: SocketAddr,
    /// The direction and number of bytes after which a connection stalls.
    limit: Option<(Direction, u64)>,
    connections: Vec<[TcpStream; 2]>,
    stalled: usize,
    /// Incremented by every cut; connections of an earlier age are closed.
    age: u64,
    recorded: Vec<u8>,
    closed: bool,
}

/// How one direction of a connection ends.
enum Ending {
    /// The sender closed it.
    Said,
    /// An end is gone, or the connection was cut.
    Broken,
}

impl Proxy {
    /// A proxy for `target` that forwards everything.
    pub fn to(target: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let shared = Arc::new(Shared {
            state: Mutex::new(State {
                target,
                limit: None,
                connections: Vec::new(),
                stalled: 0,
                age: 0,
                recorded: Vec::new(),
                closed: false,
            }),
            changed: Condvar::new(),
        });
        let accepting = Arc::clone(&shared);
        thread::spawn(move || {
            for client in listener.incoming().flatten() {
                if !accepting.connect(client) {
                    return;
                }
            }
        });
        Self { address, shared }
    }

    /// Each connection stalls after `bytes` in this direction.
    pub fn stall_after(&self, direction: Direction, bytes: u64) {
        self.shared.lock().limit = Some((direction, bytes));
    }

    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Waits until `count` connections have stalled since the last cut.
    pub fn wait_until_stalled(&self, count: usize) {
        let state = self.shared.lock();
        let (state, waited) = self
            .shared
            .changed
            .wait_timeout_while(state, DEADLINE, |state| state.stalled < count)
            .unwrap();
        assert!(!waited.timed_out(), "{} have stalled", state.stalled);
    }

    /// Whether a connection has stalled since the last cut.
    pub fn has_stalled(&self) -> bool {
        self.shared.lock().stalled > 0
    }

    /// Forwards everything from now on; stalled connections continue.
    pub fn release(&self) {
        self.shared.lock().limit = None;
        self.shared.changed.notify_all();
    }

    /// Breaks all connections. New ones are accepted.
    pub fn cut(&self) {
        self.shared.lock().cut();
        self.shared.changed.notify_all();
    }

    /// New connections go to this server.
    pub fn redirect(&self, target: SocketAddr) {
        self.shared.lock().target = target;
    }

    /// Every byte that was forwarded, in order.
    pub fn recorded(&self) -> Vec<u8> {
        self.shared.lock().recorded.clone()
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        let mut state = self.shared.lock();
        state.closed = true;
        state.cut();
        drop(state);
        self.shared.changed.notify_all();
        // Wakes the listener, which then exits.
        let _ = TcpStream::connect(self.address);
    }
}

impl State {
    fn cut(&mut self) {
        for stream in self.connections.drain(..).flatten() {
            let _ = stream.shutdown(Shutdown::Both);
        }
        self.stalled = 0;
        self.age += 1;
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }

    /// Begins to forward between `client` and the target, if there is one; returns whether to
    /// continue.
    fn connect(self: &Arc<Self>, client: TcpStream) -> bool {
        let mut state = self.lock();
        if state.closed {
            return false;
        }
        // Without a server the client's connection is closed.
        let Ok(server) = TcpStream::connect(state.target) else {
            return true;
        };
        let copy = |stream: &TcpStream| stream.try_clone().unwrap();
        state.connections.push([copy(&client), copy(&server)]);
        let age = state.age;
        drop(state);
        self.changed.notify_all();
        for (from, to, direction) in [
            (copy(&client), copy(&server), Direction::Up),
            (copy(&server), copy(&client), Direction::Down),
        ] {
            let shared = Arc::clone(self);
            thread::spawn(move || {
                // Half-close: one side may have finished sending and still receive.
                let close = match shared.pass(&from, &to, direction, age) {
                    Ending::Said => [Shutdown::Read, Shutdown::Write],
                    Ending::Broken => [Shutdown::Both; 2],
                };
                let _ = from.shutdown(close[0]);
                let _ = to.shutdown(close[1]);
            });
        }
        true
    }

    /// Forwards bytes in one direction until an end closes or the connection is cut.
    fn pass(
        &self,
        mut from: &TcpStream,
        mut to: &TcpStream,
        direction: Direction,
        age: u64,
    ) -> Ending {
        let mut passed = 0;
        let mut buffer = vec![0; 1 << 16];
        while let Some(most) = self.allowance(direction, passed, age) {
            let most = most.min(buffer.len() as u64) as usize;
            let count = match from.read(&mut buffer[..most]) {
                Ok(0) => return Ending::Said,
                Ok(count) => count,
                Err(_) => return Ending::Broken,
            };
            self.lock().recorded.extend_from_slice(&buffer[..count]);
            if to.write_all(&buffer[..count]).is_err() {
                return Ending::Broken;
            }
            passed += count as u64;
        }
        Ending::Broken
    }

    /// How many bytes may be forwarded, waiting until some may; `None` once the connection is cut.
    fn allowance(&self, direction: Direction, passed: u64, age: u64) -> Option<u64> {
        let mut state = self.lock();
        let mut counted = false;
        loop {
            if state.age != age {
                return None;
            }
            let left = match state.limit {
                Some((limited, bytes)) if limited == direction => bytes.saturating_sub(passed),
                _ => u64::MAX,
            };
            if left > 0 {
                return Some(left);
            }
            if !counted {
                counted = true;
                state.stalled += 1;
                self.changed.notify_all();
            }
            state = self.changed.wait(state).unwrap();
        }
    }
}
